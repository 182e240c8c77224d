// One test: an epilogue, the main loop before it, a shape, and everything that its tensors are made
// from.
#pragma once

#include "fuzz/memory.h"
#include "graph/ir/ir.h"
#include "plan/backend.h"

#include <postlude/plan.h>

#include <cstdint>
#include <string>
#include <vector>

namespace postlude::fuzz {

enum class Values : std::uint8_t {
  integers,  // small, so that sums are exact
  normal,    // A ~ N(0, 1), B ~ N(0, 1/K), operands ~ N(0, 1)
  special,   // normal, with NaN, infinities, zeros, denormals, the largest and the smallest strewn in
};

struct Case {
  GraphData graph;  // every operand and output says its dtype
  Problem problem = Gemm{};
  Shape shape;
  std::uint64_t data = 0;  // seed of the elements
  Values values = Values::integers;
  std::uint64_t layout = 0;  // seed of the strides; 0: everything contiguous
  std::uint64_t seed = 0;    // of the generator, for the record
};

// Writes a case as text: comments that say everything but the epilogue, then the epilogue in the
// language. read() takes it back.
[[nodiscard]] std::string write(const Case& c);
[[nodiscard]] Case read(const std::string& text);

// The graph with the dtypes of its operands and outputs written down, as the problem gives them.
[[nodiscard]] GraphData with_dtypes(const GraphData& graph, const Problem& problem);

// Whether the shape is divisible as the graph's chunks ask.
[[nodiscard]] bool divisible(const Case& c);

// The tensors of a case in guarded memory, inputs filled, outputs poisoned.
struct Tensor3 {
  std::string name;
  DType dtype = DType::f32;
  Axes axes;                              // of {b, m, n}; of A {b, m, n = K}, of B {b, m = K, n}
  std::array<std::int64_t, 3> extents{};  // 1 along an axis that it lacks
  std::array<std::int64_t, 3> strides{};  // 0 along an axis that it lacks
  std::int64_t first = 0;                 // element of the memory that (0, 0, 0) is (strides may be negative)
  bool output = false;
};
struct Tensors {
  std::vector<Tensor3> all;                          // A and B (or X), operands, outputs
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
