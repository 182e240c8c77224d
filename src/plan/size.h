// Sizes at which nobody has bound memory yet: explain() prints what would run there, prepare() compiles it.
#pragma once

#include "plan/operands.h"

#include <cstdint>
#include <string>
#include <vector>

namespace postlude::inline v0::plan {

// Throws size_overflow where an extent is negative, or tensors of these extents cannot be addressed. `what` ends "a
// size".
void check_extents(const Shape& shape, const std::string& what, const std::string& hint);

// Throws what bind() throws of contiguous tensors at this shape. False: there is nothing to compute, every output is
// empty.
[[nodiscard]] bool check_size(const PlanData& plan, const Shape& shape);

[[nodiscard]] std::vector<std::int64_t> shape_of(const Tensor& tensor);
// Tensors of these shapes, which have the main loop's inputs' batch axes: contiguous, of images with their channels
// last. Nobody has such memory.
[[nodiscard]] std::vector<Tensor> contiguous_inputs(const PlanData& plan,
                                                    const std::vector<std::vector<std::int64_t>>& shapes);
// What bind() makes of inputs that lie so, wherever they are, and throws of them. Only how far from 16 bytes each
// begins counts of its address.
[[nodiscard]] Checked assumed(const PlanData& plan, const std::vector<Tensor>& inputs);

}  // namespace postlude::inline v0::plan
