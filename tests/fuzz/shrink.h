// Makes a failing case small.
#pragma once

#include "fuzz/case.h"

#include <functional>

namespace postlude::fuzz {

// The smallest case that was found for which `fails` still holds: fewer outputs, values and
// operands, smaller shapes, contiguous tensors, whole numbers. `attempts`: how often `fails` is
// asked at most.
[[nodiscard]] Case shrink(const Case& c, const std::function<bool(const Case&)>& fails, int attempts = 2000);

}  // namespace postlude::fuzz
