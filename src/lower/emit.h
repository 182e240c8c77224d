// emit: phases and what they read become a Program. Each root is walked back through the column
// maps of its pieces; one item seen through one map is one instruction.
#pragma once

#include "lower/cut.h"
#include "lower/infer.h"

namespace postlude::inline v0::lower {

[[nodiscard]] Program emit(const Inferred& inferred, const Phases& phases, const Cut& cut, const Facts& facts);

// The items of a body in straight-line form, appended to `code`, its parameters being `args`, at
// the coordinates of `place`. Returns its results.
std::vector<ValueId> emit_body(const Work& body, const std::vector<ValueId>& args, const Access& place,
                               std::vector<Instruction>& code);

}  // namespace postlude::inline v0::lower
