#include "cuda/choose/spills.h"

namespace postlude::inline v0::cuda {

FusedEpilogue::Pressure pressure_of(const lower::Program& program, const FragmentPlan& plan, const FragmentCode& code) {
  const auto size = [&](lower::BufferId buffer) { return static_cast<int>(size_of(program.buffers[buffer].dtype)); };
  FusedEpilogue::Pressure found;
  for (std::size_t id = 0; id < code.values.size(); ++id) {
    const FragmentCode::Value& value = code.values[id];
    const lower::Instruction& i = code.phase->code[id];
    if (!value.wanted) continue;
    if (value.prefetched) found.ahead += size(i.access.buffer) / 2;
    if (value.level == Level::row) found.rows += i.type == DType::i64 ? 2 : 1;
    found.draws |= value.drawn;
  }
  for (const FragmentCode::Load& load : code.loads) found.loaded += size(load.buffer);
  if (&code != &plan.first) return found;
  for (const FusedEpilogue::Partial& partial : plan.epilogue.partials) {
    if (partial.across == Across::rows) found.row_states += partial.bytes / 4;
    if (partial.across == Across::columns) found.column_states += partial.bytes / 4;
  }
  return found;
}

// The constants part what spilled from what did not, of some 600 kernels; where they are near each other, the compiler
// is asked. Operands of columns that are read ahead count for more than their words: they lie in the main loop's way.
bool foretold_to_spill(const FusedEpilogue& e, const Schedule& s, bool once, bool apart) {
  const int accumulators = consumer_rows(s) * consumer_columns(s) / 128, rows = consumer_rows(s) / 32;  // a thread's
  const FusedEpilogue::Pressure &first = e.pressure[0], &held = e.pressure[1];
  const int ahead = first.ahead * s.sub_n / 4, ahead_held = held.ahead * s.sub_n / 4;
  if (s.mma || is_rolled(e.needs) || accumulators < 128) return false;
  if (e.needs.holds) {
    if (once) return accumulators >= 192 && s.sub_n >= 64;
    if (accumulators >= 192) return ahead || ahead_held || first.rows;
    const bool many_rows = held.rows * rows >= 20;
    if (accumulators < 160) return s.sub_n >= 64 && !ahead && ahead_held >= 32 && many_rows;
    return (ahead >= 16 && first.rows) || (ahead_held >= 16 && many_rows && (ahead || first.loaded));
  }
  if (once || e.held >= 0 || accumulators < 192 || e.needs.d_bytes_column == 0) return false;
  int words =
      ahead + first.loaded * s.sub_n / 8 + (first.rows + first.row_states) * rows + first.column_states * s.sub_n / 4;
  if (ahead) words += 2 * e.needs.d_bytes_column + 4 * (e.needs.parts - 1);
  if (e.moves.copies) words += 20;
  if (!apart) words += 16;  // all fragments of a subtile at once
  return words >= 29 || first.draws;
}

}  // namespace postlude::inline v0::cuda
