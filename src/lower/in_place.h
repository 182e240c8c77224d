// in_place: whether a Program may write an output over an operand. Within the phase that does,
// every load of the operand must be of columns that the phase itself writes at the same place of
// the walk, so that loads before stores are enough; later phases do not read it (the cut saw to
// that). Throws Error overlap.
#pragma once

#include "lower/lower.h"

namespace postlude::inline v0::lower {

void check_in_place(const Program& program, const Facts& facts, const Options& options);

}  // namespace postlude::inline v0::lower
