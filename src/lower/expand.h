// expand: calls of functions that a backend has no version of become their bodies.
#pragma once

#include "lower/program.h"

#include <functional>

namespace postlude::inline v0::lower {

// Whether a backend computes a call itself. Asked for the calls of a phase, and for those inside
// what it refuses.
using HasNative = std::function<bool(const Instruction& call)>;

// Appends the body of `call` (whose args are indices in `code`), folded, without repetitions and
// with its own multiply-adds fused, to `code`; returns the result's index. Where the call has a
// guard, so has the result, and it is 0 there. Throws Error unsupported for a function without a
// body, or if the bodies are too large.
ValueId expand_call(const Instruction& call, std::vector<Instruction>& code, const HasNative& native);

// A phase with all such calls expanded, and its stores and reductions following.
[[nodiscard]] Phase expand_calls(const Phase& phase, const HasNative& native);

}  // namespace postlude::inline v0::lower
