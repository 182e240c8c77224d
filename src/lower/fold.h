// fold: an elementwise operation on constants is a constant, computed as a program would: in f32,
// rounded after each operation, or in wrapping integers. Calls, casts that round stochastically and
// scaled stay.
#pragma once

#include "lower/work.h"

#include <optional>
#include <span>

namespace postlude::inline v0::lower {

bool fold(Work& work);

// One operation of this type on literals of the types that it takes; dtype and round: of a cast. Unset where it is not
// folded.
[[nodiscard]] std::optional<Literal> evaluate(Op op, DType type, std::span<const Literal> args,
                                              DType dtype = DType::f32, Round round = Round::nearest_even);

}  // namespace postlude::inline v0::lower
