// The fused epilogue as code: a FragmentPlan over the fragment that a thread of the matrix product holds, what folds
// the partial results of its reductions, and what runs there.
#pragma once

#include "cuda/choose/fragment_plan.h"

namespace postlude::inline v0::cuda {

// As plan_fragment(), with the text.
[[nodiscard]] FusedEpilogue emit_fragment(const lower::Program& program, int index,
                                          const std::vector<BufferPlace>& places, Hold hold);

}  // namespace postlude::inline v0::cuda
