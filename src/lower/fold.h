// fold: an elementwise operation on constants is a constant, computed as a program would: in f32,
// rounded after each operation, or in wrapping integers. Calls, casts that round stochastically and
// scaled stay.
#pragma once

#include "lower/work.h"

#include <optional>
#include <vector>

namespace postlude::inline v0::lower {

bool fold(Work& work);

// One operation on literals of the types that it takes; unset where it is not folded.
[[nodiscard]] std::optional<Literal> evaluate(const Item& item, const std::vector<Literal>& args);

}  // namespace postlude::inline v0::lower
