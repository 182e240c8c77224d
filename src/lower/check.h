// check: whether what a pass left still means something. For tests and Options::verify_each; a failure is a bug of
// ours.
#pragma once

#include "lower/work.h"

namespace postlude::inline v0::lower {

// Every argument stands before its use and has the type, axes and extents that its op takes. Throws Error internal.
void check(const Work& work, std::string_view pass);

// Of a Program: arguments before uses, types, axes within the domain, buffers in range and written before they are
// read, every output and crossing buffer stored whole and once, accumulators of one split in one phase.
void check(const Program& program, bool stream);

}  // namespace postlude::inline v0::lower
