// Sums of exponentials below a maximum of the same row, weighted or at a temperature, in one pass with that maximum.
// The state is {m, s1, s2, ...}, where sk is the sum of exp(c * (x - m)) * w, and a sum is scaled by exp(c * (m - m'))
// where m grows to m'. What divides every term alike, another of these sums, divides the sum instead.
// A weight counts in full until a larger x comes: huge ones, which the definition scales down before it adds them,
// would overflow. So weights that may exceed 2^63 are summed in two parts, the larger ones by 2^-64.
//   p = exp((x - max(x)) * c); p = p / sum(p); sum(p * w); sum(p * p)
// A plain sum alone with its maximum is left to `fuse`, which has a reducer of its own for it.
#pragma once

#include "lower/work.h"

namespace postlude::inline v0::lower {

bool exponentials(Work& work);

}  // namespace postlude::inline v0::lower
