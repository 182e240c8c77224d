// A Program says what an epilogue does, phase by phase, and knows no machine. lower() makes it from
// a graph, both backends execute it, and it prints as text.
//
// A phase is one pass over a domain: {m, n} (the tiles of the output, or of something chunked or
// grouped), {m}, {n} or {} (statistics); in a batched problem most have b in front
// (Phase::batched). Its code is straight-line SSA: value i is the result of instruction i. The
// first phase of domain {m, n} that has an `acc` instruction runs behind the main loop. Lowering
// emits no `acc` in a later phase: what that needs crosses in a `crossing` buffer, or is an operand
// or an output that is read again.
//
// Pieces. All values of a phase live on the phase's own columns j in [0, J). Where the graph has a
// chunk, J is N/k and a value on N columns becomes k instructions; loads, stores and the
// accumulator say by a ColumnMap which column n they mean at j (decision 0006). So SwiGLU is two
// `acc` instructions with pieces 0 and 1, and one store.
#pragma once

#include "graph/ir/verify.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace postlude::inline v0::lower {

using ValueId = std::int32_t;   // index of an instruction in its phase
using BufferId = std::int32_t;  // index in Program::buffers

// The map j -> n: through the chunks, outermost (closest to the memory) last, then divided.
//   each step:  j = (j / (g/k)) * g + piece * (g/k) + j % (g/k)
//               where g is the group, or the whole width at this step
//   then:       n = j / divide     (divide > 1: a grouped statistic read back by `repeat`)
struct ColumnMap {
  struct Step {
    std::int64_t pieces = 1;
    std::int64_t piece = 0;
    std::int64_t group = 0;  // 0: the whole width
    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps;  // applied first to last
  std::int64_t divide = 1;

  [[nodiscard]] bool identity() const { return steps.empty() && divide == 1; }
  // `width`: J, the phase's columns.
  [[nodiscard]] std::int64_t operator()(std::int64_t j, std::int64_t width) const;
  bool operator==(const ColumnMap&) const = default;
};

enum class BufferKind : std::uint8_t {
  operand,    // bound by the caller, read
  output,     // bound by the caller, written by exactly one Store of each piece; may be read in a later phase
  statistic,  // workspace: one component of a reduction's result
  crossing,   // workspace: a tile (or vector) value that a later phase reads
};

struct Buffer {
  BufferKind kind = BufferKind::operand;
  std::string name;  // the user's, or s0, x0, ... for workspace
  DType dtype = DType::f32;
  Axes axes;  // of {b, m, n}; an operand's b depends on what is bound (stride 0 without one)
  Extent rows, columns;
};

// The element of a buffer at the phase's (b, i, j):
//   [b if bound][i / divide_rows if it has m][columns(j) if it has n]
// Of a turned product, whose rows are columns, steps lead from i to its row as they do from j to a column.
struct Access {
  BufferId buffer = -1;
  ColumnMap columns;
  std::int64_t divide_rows = 1;
  std::vector<ColumnMap::Step> row_steps{};
  bool operator==(const Access&) const = default;
};

// An instruction has the graph's elementwise ops, constant, acc, m_index, n_index, batch_index and
// random, and two ops with a meaning of their own:
//   operand   a load through `access`, converted to `type`, whatever kind the buffer is
//   get       a count, as it is printed: the number of elements (f32, or i64 for flat indices) that
//             a reduction over `count_axes` takes at this place from a value of `rows` x `columns`.
//             With R = rows.at(M) and C = columns.at(N) that is R * C, times the batch if count_axes
//             has b; with a group g it is min(g, C - j * g) at group j = access.columns(...), or of
//             rows at group i / access.divide_rows
// chunk, concat, repeat, reduce and parameter never occur.
struct Instruction {
  Op op = Op::constant;
  DType type = DType::f32;    // the result's: f32, i32, i64 or boolean
  Axes axes;                  // what it varies over within the domain: {} is uniform (but for b), {m} per row, ...
  bool batched = false;       // whether it varies over b; where not, the b of its random numbers is 0
  std::vector<ValueId> args;  // already of the right type: conversions are explicit casts to i32, i64, f32, boolean

  Literal literal;           // constant, of `type`
  Access access;             // operand; its `columns` (and divide_rows) are also those of acc, n_index, m_index, random
  DType dtype = DType::f32;  // cast
  Round round = Round::nearest_even;
  std::uint64_t seed = 0;  // random, cast stochastic (its coordinates, and those within a call, are of `access`)
  std::uint32_t random_stream = 0;
  bool turned = false;  // these numbers are those of the element whose row is its column, and whose column is its row
  std::shared_ptr<const Function> function;  // call: args are the function's parameters
  Axes count_axes;                           // count
  std::int64_t group = 0;                    // count
  Extent rows, columns;                      // count: of the reduced value
  ValueId guard = -1;  // a uniform boolean value: where it holds the result is 0 (whatever the op) and what only
                       // this instruction needs is neither loaded nor computed
  NodeId node = -1;    // the graph node it came from, for explain

  [[nodiscard]] Axes vary() const { return batched ? axes | Axis::b : axes; }
};

// How elements are combined. A reducer has k components, with a result buffer each (-1: not wanted):
//   sum, prod        1: f32 or i64
//   min, max         1: f32, i32 or i64
//   any, all         1: boolean
//   argmax, argmin   2: the value (f32, i32, i64) and its index (i64), which are the args too; of equal
//                       values the first wins, of NaNs the smallest index; the identity's index is -1
//   online_softmax   2: m = max x, s = sum exp(x - m); identity (-inf, 0); where m is -inf s is 0
//   welford          2: mean and M2 = sum of (x - mean)^2; the count is known from the shape
//   custom           k: `combine` and `identity`; args are the k values
enum class Reducer : std::uint8_t { sum, prod, min, max, any, all, argmax, argmin, online_softmax, welford, custom };

struct Reduction {
  Reducer reducer = Reducer::sum;
  Axes axes;               // reduced, of {b, m, n}
  std::int64_t group = 0;  // partial results every `group` columns (or rows) of the buffer's own index; 0: all
  // The elements. A phase on J columns reduces over all its pieces (the k instructions that one
  // value on N became). Each piece has the args and says which column n of the reduced value it is
  // (for `group`).
  struct Piece {
    std::vector<ValueId> args;
    ColumnMap columns;
  };
  std::vector<Piece> pieces;
  std::vector<BufferId> results;  // statistic buffers; of custom all are wanted
  std::shared_ptr<const Lambda> combine;
  std::vector<double> identity;
  DType type = DType::f32;  // of the (first) component
};

struct Store {
  ValueId value = -1;
  Access access;  // of an output or a crossing buffer; converts to the buffer's dtype, nearest_even, saturating
};

struct Phase {
  Axes domain;           // of {m, n}
  bool batched = false;  // whether it has b in front. Where not it runs once, whatever the batch: also for an empty
                         // one. What it stores has b iff it does; what it reduces has b iff it does and b is not
                         // reduced
  Extent rows, columns;
  std::vector<Instruction> code;
  std::vector<Store> stores;
  std::vector<Reduction> reductions;

  [[nodiscard]] bool reads_accumulator() const;
  [[nodiscard]] bool loads(BufferId buffer) const;
  [[nodiscard]] bool stores_to(BufferId buffer) const;
};

// Calls body(value) for every value that the phase's stores and reductions take.
template <class P, class Body>
void for_each_use(P& phase, Body&& body) {
  for (auto& store : phase.stores) body(store.value);
  for (auto& reduction : phase.reductions) {
    for (auto& piece : reduction.pieces) {
      for (auto& arg : piece.args) body(arg);
    }
  }
}

struct Program {
  std::string name;
  DType accumulator = DType::f32;
  bool batched = false;
  std::vector<Buffer> buffers;  // operands in the graph's order, outputs in the graph's order, sizes, then workspace
  std::int32_t operands = 0;    // how many of each stand first
  std::int32_t outputs = 0;
  // Operands that the plan binds itself, scalars by value: how many columns of pixels there are, and how many rows of
  // them (MainLoop::pixels, innermost first).
  std::int32_t sizes = 0;
  std::vector<Phase> phases;
  std::vector<Divisibility> rules;
  std::vector<std::string> notes;  // what lowering dropped or replaced, for the user

  [[nodiscard]] std::int32_t bound() const { return operands + outputs + sizes; }  // buffers that are no workspace
  [[nodiscard]] std::string print() const;
};

// The phases that load a buffer, that store to it, and whose reductions give it: ascending, each as often as it does
// so.
struct Uses {
  std::vector<int> loads, stores, reductions;
};

[[nodiscard]] std::vector<Uses> uses_of(const Program& program);  // of each buffer

}  // namespace postlude::inline v0::lower
