// algebra: the rewrites that are exact for every value, NaN, infinities and signed zeros among
// them:
//   x * 1, x / 1, x ** 1, --x, where(c, x, x), a cast that changes nothing          ->  x
//   x / 2^k                                                                         ->  x * 2^-k
//   x ** 2                                                                          ->  x * x
//   a constant on the left of a commutative operation                              ->  on the right
// and x ** 3 -> x * x * x, whose error is within that of pow. x + 0 stays, because it makes +0 of -0,
// and nothing is reassociated.
#pragma once

#include "lower/work.h"

namespace postlude::inline v0::lower {

bool algebra(Work& work);

}  // namespace postlude::inline v0::lower
