// One test: an epilogue, the main loop before it, a shape, and everything that its tensors are made
// from.
#pragma once

#include "fuzz/convolution.h"
#include "fuzz/memory.h"
#include "graph/ir/ir.h"
#include "plan/backend.h"

#include <postlude/plan.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace postlude::fuzz {

enum class Values : std::uint8_t {
  integers,  // small, so that sums are exact
  normal,    // A ~ N(0, 1), B ~ N(0, 1/K), operands ~ N(0, 1)
  special,   // normal, with NaN, infinities, zeros, denormals, the largest and the smallest strewn in
};

inline constexpr std::uint64_t along_k = 2;  // a layout

struct Case {
  GraphData graph;  // every operand and output says its dtype
  Problem problem = Gemm{};
  Shape shape;
  std::optional<Convolution> conv;  // of which problem and shape are, where there is one
  std::uint64_t data = 0;           // seed of the elements
  Values values = Values::integers;
  std::uint64_t layout = 0;  // seed of the strides; 0: everything contiguous, along_k: or nearly, and B along K
  std::uint64_t seed = 0;    // of the generator, for the record
};

// Writes a case as text: comments that say everything but the epilogue, then the epilogue in the
// language. read() takes it back.
[[nodiscard]] std::string write(const Case& c);
[[nodiscard]] Case read(const std::string& text);

// The graph with the dtypes of its operands and outputs written down, as the problem gives them.
[[nodiscard]] GraphData with_dtypes(const GraphData& graph, const Problem& problem);

// Takes another geometry, and the problem and the shape that are of it.
void set_convolution(Case& c, const Convolution& conv);

// Whether the shape is divisible as the graph's chunks ask.
[[nodiscard]] bool divisible(const Case& c);

// The tensors of a case in guarded memory, inputs filled, outputs poisoned.
struct CaseTensor {
  std::string name;
  DType dtype = DType::f32;
  Axes axes;     // of {b, m, n}; of A {b, m, n = K}, of B {b, m = K, n}
  int rank = 0;  // of a convolution's input, whose axes are its own instead: (N, C, ...)
  std::array<std::int64_t, 5> extents{1, 1, 1, 1, 1};  // 1 along an axis that it lacks
  std::array<std::int64_t, 5> strides{};               // 0 along an axis that it lacks
  std::int64_t first = 0;  // element of the memory that (0, 0, 0) is (strides may be negative)
  bool output = false;

  [[nodiscard]] std::int64_t at(const std::array<std::int64_t, 5>& place) const {  // an element of the memory
    std::int64_t element = first;
    for (std::size_t i = 0; i < place.size(); ++i) element += place[i] * strides[i];
    return element;
  }
};
// Calls `f` with the place of every element.
template <class F>
void for_elements(const CaseTensor& t, const F& f) {
  if (std::ranges::find(t.extents, 0) != t.extents.end()) return;
  std::array<std::int64_t, 5> place{};
  for (std::size_t axis = place.size(); axis > 0;) {
    f(place);
    for (axis = place.size(); axis > 0 && ++place[axis - 1] == t.extents[axis - 1]; --axis) place[axis - 1] = 0;
  }
}
struct Tensors {
  std::vector<CaseTensor> all;                       // A and B (or X), operands, outputs
  std::vector<GuardedMemory> memory;                 // one each
  Bindings bindings;                                 // with the operands' and outputs' buffers, in the graph's order
  [[nodiscard]] std::vector<Binding> named() const;  // for Plan::bind

  void poison_outputs();
  // Says which output was written outside of its elements; "" if none.
  [[nodiscard]] std::string damage() const;
  [[nodiscard]] std::vector<std::vector<std::uint8_t>> copy_outputs() const;
};
[[nodiscard]] Tensors materialise(const Case& c);

}  // namespace postlude::fuzz
