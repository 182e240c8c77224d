// subexpressions: equal items become one. Arguments of commutative operations are compared in
// either order; leaves are equal only where their extents are (n_index() over N columns is not the
// one over N/2).
#pragma once

#include "lower/work.h"

namespace postlude::inline v0::lower {

bool subexpressions(Work& work);

}  // namespace postlude::inline v0::lower
