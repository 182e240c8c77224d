// expand: calls of functions that a backend has no version of become their bodies.
#pragma once

#include "lower/program.h"

#include <functional>

namespace postlude::inline v0::lower {

// Whether a backend computes a call itself. Asked for the calls of a phase, and for those inside
// what it refuses.
using HasNative = std::function<bool(const Instruction& call)>;

// A phase with all other calls expanded, and its stores and reductions following. Bodies are folded,
// without repetitions and with their own multiply-adds fused. Where a call has a guard, so has its
// result, and it is 0 there. Throws Error unsupported for a function without a body, or if the
// bodies are too large.
[[nodiscard]] Phase expand_calls(const Phase& phase, const HasNative& native);

}  // namespace postlude::inline v0::lower
