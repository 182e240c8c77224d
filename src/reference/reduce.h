// The reductions of the language, over the elements of one result in the order of their index:
// their definition.
#pragma once

#include "graph/ir/ir.h"
#include "reference/body.h"
#include "reference/cell.h"

#include <span>
#include <vector>

namespace postlude::inline v0::reference {

struct Reducing {
  ReduceOp op = ReduceOp::sum;
  DType argument = DType::f32;  // of the elements
  DType result = DType::f32;
  // Two rewrites are allowed by contract, and counted where the graph lets a backend make them: a
  // sum of exponentials carried along with its running maximum (online softmax), and a mean carried
  // along with the variance (Welford).
  bool online = false, welford = false;
};

// Every reduction but argmax, argmin and custom.
[[nodiscard]] Cell reduce(const Reducing& reducing, std::span<const Cell> x);

// argmax or argmin. `candidates` receives every index that is right, in ascending order.
[[nodiscard]] Whole index_of_extreme(bool largest, DType argument, std::span<const Cell> x,
                                     std::vector<std::int64_t>& candidates);

// A general reduction of k values: `x` holds `count` times k elements. Any order of combination may
// be taken.
[[nodiscard]] std::vector<Cell> reduce_custom(const Body& combine, std::span<const Cell> identity,
                                              std::span<const DType> types, std::span<const Cell> x);

}  // namespace postlude::inline v0::reference
