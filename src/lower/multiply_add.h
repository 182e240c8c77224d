// multiply_add: a * b + c in f32 becomes fma(a, b, c) where the product has no other use; a * b - c
// becomes fma(a, b, -c) and c - a * b becomes fma(-a, b, c). One rounding less: allowed by
// contract, and counted by the reference. Of two products the left one is taken.
#pragma once

#include "lower/work.h"

namespace postlude::inline v0::lower {

bool multiply_add(Work& work);

}  // namespace postlude::inline v0::lower
