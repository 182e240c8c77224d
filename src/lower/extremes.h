// The largest (or least) of what a statistic of the same row scales or shifts is that of the elements, scaled or
// shifted: rounding is monotone, so the bits are the same and a pass less is needed. Scaled in either direction and
// shifted by whatever, the largest is at one end of the elements, so both ends are taken:
//   max((x - mean) * r)  ->  max((max(x) - mean) * r, (min(x) - mean) * r)
//   max(abs(x * r))      ->  max(abs(x)) * abs(r)
// The extreme of blocks is that of groups of columns first, which tiles have in registers:
//   max(max(x, axis=0, group=g), axis=1, group=h)  ->  max(max(x, axis=1, group=h), axis=0, group=g)
// What is not a number stays so: a factor must be known to be finite and a divisor not to be zero, which would make
// elements between the ends NaN.
#pragma once

#include "lower/work.h"

namespace postlude::inline v0::lower {

bool extremes(Work& work);

}  // namespace postlude::inline v0::lower
