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

// The shapes of the main loop's inputs, with their batch axes.
using InputShapes = std::vector<std::vector<std::int64_t>>;
// What bind() makes of contiguous tensors of these shapes, of images with their channels last, and throws of them.
// Nobody has such memory.
[[nodiscard]] Checked assumed(const PlanData& plan, const InputShapes& inputs);

}  // namespace postlude::inline v0::plan
