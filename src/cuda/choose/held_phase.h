// A second phase on the registers of a product's first one (decisions 0013 and 0015): whether there
// is one, and the values that stay there for it.
#pragma once

#include "cuda/choose/fragment_plan.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace postlude::inline v0::cuda {

// The groups of columns of a phase's reductions, of N or (chunk > 0) with both halves of groups of
// `chunk`.
struct ColumnGroups {
  std::int64_t columns = 0, chunk = 0;
  bool operator==(const ColumnGroups&) const = default;
  // The same in the phase's own columns.
  [[nodiscard]] std::int64_t width() const { return chunk ? columns / 2 : columns; }
  // Whether a map leads to the group that the phase's column lies in.
  [[nodiscard]] bool reached_by(const lower::ColumnMap& map) const;
};

[[nodiscard]] ColumnGroups groups_of(const lower::Reduction& reduction);

struct HeldPhase {
  int index = -1;
  std::shared_ptr<const lower::Phase> first, second;  // as they run: FusedEpilogue::phases
  std::vector<FragmentPlan::Kept> kept;
  bool repeats = false;  // the first leaves statistics of rows alone, and what it reads is there until all have stored
  // The second phase's values that vary along N, but not in a group of columns, or along M, but not in a group of rows;
  // and those that are weights of a softmax, or quotients by a scale of all (FragmentCode::Value::weight).
  std::vector<bool> grouped, weights;
  std::vector<double> bounded;  // what these are at most in size, but for rounding; 0: no such quotient
};

// The phase that can run on the same registers, if there is one. It must be the only one that is
// left, over the same tiles, with stores alone. From the first phase it may need as many f32 values
// an element as the accumulator has parts, and statistics of its groups or (most == Hold::rows) of
// its rows. `epilogue` has the reductions and the small phases that run.
[[nodiscard]] std::optional<HeldPhase> held_phase(const lower::Program& program, const FusedEpilogue& epilogue,
                                                  Hold most);

}  // namespace postlude::inline v0::cuda
