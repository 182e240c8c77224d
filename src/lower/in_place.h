// in_place: whether a Program may write outputs over operands. This is the one place that says what is right; others
// ask it, or read Bound::in_place, which says what the caller bound:
//   lower    refuses a Program that does not keep the rule; the cut and the order of phases make it keep it
//   plan     takes the Program as it was compiled if it keeps the rule, else lowers again (decision 0009)
//   cpu      leaves memory alone that still holds an operand
//   cuda     leaves such memory alone too, and keeps small phases that write there in their order
#pragma once

#include "lower/program.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace postlude::inline v0::lower {

// (output, operand) by name: outputs that are written over an operand, or over the input that the accumulator is.
using InPlace = std::vector<std::pair<std::string, std::string>>;

// Why `program` must not run so; empty: it may.
//
// An element of the operand must have been read for the last time when the output's element at the same address is
// written. Phases run in order, and within one every element is loaded, computed and stored before another thread or
// a later step comes to it; so it is enough that no phase after the store's loads the operand, and that the store's own
// phase loads it at the very elements that it stores.
[[nodiscard]] std::string in_place_conflict(const Program& program, const InPlace& in_place, std::int64_t batch = 1);

}  // namespace postlude::inline v0::lower
