// drop: values that no output needs go (decision 0007).
#pragma once

#include "lower/work.h"

namespace postlude::inline v0::lower {

bool drop(Work& work);

// Notes, for the user, on named values and operands of the graph that no output needs.
void note_unneeded(Work& work);

}  // namespace postlude::inline v0::lower
