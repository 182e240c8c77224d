// Whether a batched Program can be one without a batch.
#pragma once

#include "lower/program.h"

namespace postlude::inline v0::lower {

// Whether the Program asks for neither b nor m, so that the rows of all batches may be those of one: no index, no
// random number, no result and (but by strides, which the caller sees) no operand of a batch's own. `counts_rows`: it
// may ask for m, which the caller gives within a batch.
[[nodiscard]] bool batches_are_alike(const Program& program, bool counts_rows = false);
[[nodiscard]] bool asks_for_rows(const Program& program);  // for m

}  // namespace postlude::inline v0::lower
