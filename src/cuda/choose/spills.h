// Which code leaves ptxas too few registers, foretold: to compile what spills takes longer than anything else of a
// first call (decision 0200).
#pragma once

#include "cuda/choose/fragment_plan.h"

namespace postlude::inline v0::cuda {

// What a thread keeps of one phase of a plan.
[[nodiscard]] FusedEpilogue::Pressure pressure_of(const lower::Program& program, const FragmentPlan& plan,
                                                  const FragmentCode& code);

// How the code of an epilogue stands.
struct CodeForm {
  bool once = false;     // in a loop over subtiles
  bool apart = false;    // its fragments are computed one after another
  bool whole_n = false;  // tiles divide N: no masks
};

// How many bytes this code spills at least, foretold where all of its kind did that were compiled; 0: it may not spill.
[[nodiscard]] int foretold_bytes(const FusedEpilogue& epilogue, const Schedule& schedule, const CodeForm& form);

// The same of statistics of rows in wide subtiles beside most accumulators, which a long main loop may make little of.
[[nodiscard]] int bytes_beside_statistics(const FusedEpilogue& epilogue, const Schedule& schedule,
                                          const CodeForm& form);

// Whether something of its kind did: the next schedule is compiled beside it (decision 0109).
[[nodiscard]] bool may_spill(const FusedEpilogue& epilogue, const Schedule& schedule);

}  // namespace postlude::inline v0::cuda
