// fuse: two reductions of the same elements become one with more components.
//   max(x) and sum(exp(x - max(x)))   online_softmax, one pass instead of two. Where the max is -inf
//                                     both give NaN.
//   mean(x) and var(x)                welford
// Equal reductions are one already (subexpressions).
#pragma once

#include "lower/work.h"

namespace postlude::inline v0::lower {

bool fuse(Work& work);

}  // namespace postlude::inline v0::lower
