// keep: what two phases both need is computed once, where rows stay in cache between them.
//
// Lowering cuts a graph into phases so that few bytes cross and little is read twice from memory; what is cheap to
// compute it computes again. On a CPU two phases that need nothing but the same rows of each other share a pass, and
// what crosses is in L2. There it is better
//   to keep a value: rmsnorm's second phase reads x, where it would load the bf16 of acc, load the residual and add;
//   to give a softmax a phase more: the maximum first, then e = exp(x - m) and its sum, then e / s. online_softmax,
//   which is one pass over memory, makes every exponential twice, at twenty times the cost of a pass through cache. s
//   becomes NaN, not 0, where m is -inf, which is what whoever reads s makes of it.
#pragma once

#include "lower/program.h"

namespace postlude::inline v0::cpu {

void keep_in_cache(lower::Program& program);

}  // namespace postlude::inline v0::cpu
