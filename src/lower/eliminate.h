// eliminate: a reduction whose result is known without looking at the elements. The sum along an
// axis of where(index == label, c, 0), c constant and label without that axis, is where(0 <= label
// < extent, c, 0); the sum or any of index == label follows the same way.
#pragma once

#include "lower/work.h"

namespace postlude::inline v0::lower {

bool eliminate(Work& work);

}  // namespace postlude::inline v0::lower
