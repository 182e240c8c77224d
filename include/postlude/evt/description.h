// What a tree of visitor types says of itself: one row a node, made by the compiler. One function of the library makes
// the Graph of them (src/evt/graph.cpp), so that a program compiles no code for each tree.
#pragma once

#include <postlude/evt/numbers.h>
#include <postlude/graph.h>

#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace postlude::inline v0::evt {

class Scope;

namespace detail {

enum class Rounding : std::uint8_t { nearest_even, toward_zero, up, down, nearest_finite, refused };

// How the elements of a reduction meet. `other`: by a function of the person's own.
enum class Family : std::uint8_t { sum, prod, max, min, other };

// An elementwise function, traced: what it gives for values and for its run-time parameters.
using Trace = Value (*)(std::span<const Value> inputs, std::span<const Value> parameters);
// A node of a person's own (evt.h), with its Arguments.
using Own = Value (*)(Scope& scope, const void* arguments, std::span<const Value> inputs);

// Child numbers from the root.
struct Path {
  static constexpr int most = 24;  // what is deeper is not told
  std::array<std::int8_t, most> child{};
  std::int8_t depth = 0;
};

struct Row {
  enum class Kind : std::uint8_t {
    accumulator,
    source,   // C, a tile
    scalars,  // `count` of them, folded by `trace`
    operand,  // along `axes`
    compute,  // `trace` of the inputs and `count` parameters
    convert,  // to `result`
    store,    // an output: `element`
    reduce,   // an output along the axes that are left
    top_k,    // the softmax of the `count` largest of each row, else 0
    own,
  };
  static constexpr int most_inputs = 31;  // with the node itself as many clauses of Arguments as there can be

  Kind kind = Kind::accumulator;
  Rounding round = Rounding::nearest_even;
  Element element = no_element;  // of the operand or output in memory; of an accumulator: what it is rounded to
  Element compute = no_element;  // inputs are converted to it first
  Element result = no_element;   // what is handed on
  Axes axes{};                   // of the operand; of a reduction: those reduced
  std::int8_t count = 0;
  std::int8_t input_count = 0;
  bool may_be_null = true;
  bool last_is_condition = false;  // the last input is converted to a boolean, not to `compute`
  bool takes_first = false;        // no other input is needed
  // Of a compute row over a store of booleans: the stored ones say where the function changes nothing.
  bool stores_mask = false;
  bool skips_source = false;  // beta * C + Z by BLAS's rule
  // A reduction: each element's value is that of `trace` (of the identity and the inputs) where there is one.
  Family family = Family::sum;
  bool drops_nan = false, absolute = false;
  std::int32_t group = 0;  // partial results of so many elements
  std::array<std::int16_t, most_inputs> inputs{};
  Trace trace = nullptr, combine = nullptr;
  Own own = nullptr;
  const char* label = nullptr;  // what the person calls its operand or output
  Path path{};
};

enum class Mistake : std::uint8_t {
  none,
  wrong_number_of_children,
  function_takes_no_values,
  unsupported_parameter,
  edge_points_forward,
  wrong_number_of_edges,
  type_mismatch,
  needless_cast,
  unreachable_store,
  result_is_not_stored,
  wrong_axis,
  partial_result_of_atomics,
  unsupported_element,
  unsupported_rounding,
  unsupported_layout,
  unsupported_node,
  no_source,
};

struct Fault {
  Mistake mistake = Mistake::none;
  int found = 0, wanted = 0;
  Path path{};
};

// Takes rows down, children before their parents, and the first mistake.
class Telling {
 public:
  explicit constexpr Telling(Row* rows) : rows_(rows) {}

  constexpr int add(Row row) {
    row.path = path;
    if (row.kind != Row::Kind::accumulator) row.label = std::exchange(label, nullptr);
    rows_[count] = row;
    return count++;
  }
  [[nodiscard]] constexpr Row& operator[](int row) { return rows_[row]; }
  constexpr void wrong(Mistake mistake, int found = 0, int wanted = 0) {
    if (fault.mistake == Mistake::none) fault = {mistake, found, wanted, path};
  }
  constexpr void enter(int child) {
    if (path.depth < Path::most) path.child[static_cast<std::size_t>(path.depth)] = static_cast<std::int8_t>(child);
    ++path.depth;
  }
  constexpr void leave() { --path.depth; }

  Path path{};
  Fault fault{};
  int count = 0;
  int accumulator = -1;  // the row that stands for it, in the trees of a split tree but the first
  // The name that the next operand or output gets.
  const char* label = nullptr;

 private:
  Row* rows_;
};

// What to_graph and the adapters hand to the library.
struct Description {
  const Row* rows = nullptr;
  int count = 0;
  int root = 0;
  bool stores_root = false;     // as D
  Element output = no_element;  // D's element; accumulator_element: the root's
  DType accumulator = f32;      // i32 behind a product of 8-bit integers
};

}  // namespace detail
}  // namespace postlude::inline v0::evt
