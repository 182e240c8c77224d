// Sizes at which nobody has bound memory yet: explain() prints what would run there, prepare() compiles it.
#pragma once

#include "plan/plan_data.h"

#include <string>

namespace postlude::inline v0::plan {

// Throws size_overflow where an extent is negative, or tensors of these extents cannot be addressed. `what` ends "a
// size".
void check_extents(const Shape& shape, const std::string& what, const std::string& hint);

// Throws what bind() throws of contiguous tensors at this shape. False: there is nothing to compute, every output is
// empty.
[[nodiscard]] bool check_size(const PlanData& plan, const Shape& shape);

}  // namespace postlude::inline v0::plan
