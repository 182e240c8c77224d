// Whether a Program may write an output over an operand.
#pragma once

#include "lower/program.h"
#include "plan/plan_data.h"

#include <string>

namespace postlude::inline v0::plan {

// Why `program` must not run with these outputs exactly in place of these operands (X is the accumulator's); empty: it
// may.
//
// An element of the operand must have been read for the last time when the output's element at the same address is
// written. Phases run in order, and within one every element is loaded, computed and stored before another thread or
// a later step comes to it; so it is enough that no phase after the store's loads the operand, and that the store's own
// phase loads it at the very elements that it stores.
[[nodiscard]] std::string in_place_conflict(const lower::Program& program, const InPlace& in_place, std::int64_t batch);

}  // namespace postlude::inline v0::plan
