// reductions: each reduction of the language becomes the machine reducers it is defined over
// (program.h) and an expression of their components:
//   mean       sum / count
//   norm       sqrt(sum(x * x))
//   var        M2 / count, of welford
//   logsumexp  m + log(s), of online_softmax; m itself where it is infinite
//   argmax     the index, of (value, index); over both axes the flat index m * N + n, with batch
//              (b * M + m) * N + n
//
// mean((x - mean(x)) ** 2) is var(x), whose definition it is, and the sum is M2, in groups too.
#pragma once

#include "lower/work.h"

namespace postlude::inline v0::lower {

bool reductions(Work& work);

}  // namespace postlude::inline v0::lower
