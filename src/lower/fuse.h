// fuse: two reductions of the same elements become one with more components.
//   max(x) and sum(exp(x - max(x)))   online_softmax, which needs one pass where these need two. Where the max is -inf
//                                     the definition gives NaN, and so does what it becomes.
//   mean(x) and var(x)                welford
// Equal reductions are one already (subexpressions).
#pragma once

#include "lower/work.h"

namespace postlude::inline v0::lower {

bool fuse(Work& work);

}  // namespace postlude::inline v0::lower
