// What folds the partial results of a fused epilogue's reductions and runs what follows from them, once all tiles are
// done, or row by row.
#pragma once

#include "cuda/emit_code.h"
#include "cuda/emit_reduce.h"
#include "cuda/fragment_plan.h"

#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

// What both parts of an epilogue's text draw on, this one and emit_fragment.cpp.
struct EpilogueCode {
  const lower::Program& program;
  const std::vector<BufferPlace>& places;
  FragmentPlan plan;
  std::vector<ReducerText> reducers{};  // of the phase's reductions
  Functions functions{};

  [[nodiscard]] FusedEpilogue& host() { return plan.epilogue; }
  [[nodiscard]] const lower::Phase& phase() const { return program.phases[plan.epilogue.phase]; }
  [[nodiscard]] DType dtype(lower::BufferId buffer) const { return program.buffers[buffer].dtype; }
  // A load or a count at a place.
  std::string leaf(const lower::Instruction& i, const Place& place);
  // The partial results of reduction r, as a pointer to `type`.
  [[nodiscard]] std::string partials(std::size_t r, const std::string& type) const;
};

// `finish` and how many units of its work there are, or `follow_strip`; and the word where their counters are. Empty
// without reductions.
[[nodiscard]] std::string emit_finish(EpilogueCode& code);

}  // namespace postlude::inline v0::cuda
