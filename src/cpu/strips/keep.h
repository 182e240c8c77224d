// keep: a value that two phases need is computed once, where rows stay in cache between them.
//
// Lowering cuts a graph into phases so that few bytes cross and little is read twice from memory;
// cheap values are computed again. On a CPU two phases that need nothing but the same rows of each
// other share a pass, and crossing values are in L2. There it is better
//   - to keep a value: rmsnorm's second phase reads x, instead of loading the bf16 of acc and the
//     residual and adding them;
//   - to give a softmax a phase more: the maximum, then e = exp(x - m) and its sum, then e / s.
//     online_softmax, one pass over memory, computes every exponential twice, at twenty times the
//     cost of a pass through cache. s becomes NaN, not 0, where m is -inf, and its readers make NaN
//     of either.
#pragma once

#include "lower/program.h"

#include <vector>

namespace postlude::inline v0::cpu {

// Returns for each phase which one it was, or was a part of.
std::vector<int> keep_in_cache(lower::Program& program);

}  // namespace postlude::inline v0::cpu
