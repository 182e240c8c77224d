// check: whether a pass left something that still has a meaning. For tests and
// Options::verify_each; a failure is a bug of ours.
#pragma once

#include "lower/work.h"

namespace postlude::inline v0::lower {

// Every argument stands before its use and has the type, axes and extents that its op takes. Throws
// Error internal.
void check(const Work& work, std::string_view pass);

// In a Program arguments stand before uses, types fit, axes lie within the domain, buffers are in
// range and written before they are read, every output and crossing buffer is stored whole and
// once, and a phase has accumulators of one split. `rereads`: every phase may read the accumulator.
void check(const Program& program, bool rereads);

}  // namespace postlude::inline v0::lower
