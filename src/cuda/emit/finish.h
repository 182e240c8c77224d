// What folds the partial results of a fused epilogue's reductions and runs what follows from them, once all tiles are
// done, or row by row.
#pragma once

#include "cuda/choose/fragment_plan.h"
#include "cuda/emit/code.h"
#include "cuda/emit/reduce.h"

#include <functional>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

// What both parts of an epilogue's text draw on, this one and fragment.cpp.
struct EpilogueCode {
  const lower::Program& program;
  const std::vector<BufferPlace>& places;
  FragmentPlan plan;
  std::vector<ReducerText> reducers{};  // of the phase's reductions
  Functions functions{};

  [[nodiscard]] FusedEpilogue& host() { return plan.epilogue; }
  [[nodiscard]] const lower::Phase& phase() const { return *plan.first.phase; }
  [[nodiscard]] DType dtype(lower::BufferId buffer) const { return program.buffers[buffer].dtype; }
  // Statements for each row r of a thread, or for those among 64 rows number i: `row` is its number, `row_in` where
  // loads are clamped to. Empty for none.
  [[nodiscard]] static std::string each_row(const std::string& statements, bool of_i = false);
  // A load or a count at a place.
  std::string leaf(const lower::Instruction& i, const Place& place);
  // Reduction r of the phase, or behind those of block_phase.
  [[nodiscard]] const lower::Reduction& reduction(std::size_t r) const {
    const auto& own = phase().reductions;
    return r < own.size() ? own[r] : program.phases[plan.epilogue.block_phase].reductions[r - own.size()];
  }
};

// `finish`, how many units of its work there are, and the word where their counters are; where tiles wait for
// each other, `fold_share` and the word of their tags. Empty without reductions across tiles.
[[nodiscard]] std::string emit_finish(EpilogueCode& code);

// What stands where a tile has all columns of its rows (LONE_ROWS), and nothing else is reduced.
[[nodiscard]] std::string emit_rows_end(EpilogueCode& code);

// What stands where a tile has all of a column (LONE_COLUMNS), of reductions whose states are s0, s1, ...
[[nodiscard]] std::string emit_column_end(EpilogueCode& code);

// What stands where a group of rows `row` of a column is folded, of reductions whose states are s0, s1, ...
[[nodiscard]] std::string emit_row_group_end(EpilogueCode& code);
// What 64 rows of a tile have of their statistics, to the tiles of its cluster.
[[nodiscard]] std::string emit_telling(EpilogueCode& code);

// The body of Epilogue::rows_end(p, t, group, i) where reductions are in groups of columns: folds the states of 64
// rows, and those of blocks, stores what leaves, and runs the small phases.
[[nodiscard]] std::string emit_group_end(EpilogueCode& code);

// The body of Held::meet(p, t, first, group, i), which has of `first` the states of 64 rows' groups, or waits for what
// is folded of these rows. `met_values` makes what the held phase computes of row r from its statistics, given as code
// by buffer.
[[nodiscard]] std::string emit_meeting(
    EpilogueCode& code, const std::function<std::string(const std::vector<std::string>& statistics)>& met_values);

}  // namespace postlude::inline v0::cuda
