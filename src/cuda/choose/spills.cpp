#include "cuda/choose/spills.h"

#include "cuda/emit/reduce.h"

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
    if (i.op == Op::operand && i.type == DType::boolean && value.level == Level::element && code.load_of(i.access) < 0)
      ++found.masks;
    found.draws |= value.drawn;
  }
  for (const FragmentCode::Load& load : code.loads) found.loaded += size(load.buffer);
  if (&code != &plan.first) return found;
  for (std::size_t r = 0; r < plan.epilogue.partials.size(); ++r) {
    const FusedEpilogue::Partial& partial = plan.epilogue.partials[r];
    if (partial.across == Across::rows)
      found.row_states += index_is_column(*code.phase, code.phase->reductions[r]) ? 2 : partial.bytes / 4;
    if (partial.across == Across::columns) found.column_states += partial.bytes / 4;
  }
  return found;
}

namespace {

// Whether a first phase keeps too much. Operands of columns that are read ahead count for more than their words: they
// lie in the main loop's way.
bool keeps_too_much(const FusedEpilogue& e, const Schedule& s, bool apart, int accumulators) {
  const FusedEpilogue::Pressure& first = e.pressure[0];
  const int rows = consumer_rows(s) / 32, ahead = first.ahead * s.sub_n / 4, stored = e.needs.d_bytes_column;
  if (accumulators < 192) return accumulators >= 160 && first.draws && !apart && (ahead || first.loaded);
  int words = ahead + first.loaded * s.sub_n / 8 + (first.rows + first.row_states) * rows;
  if (s.sub_n >= 64) words += 6;
  if (stored == 0) return apart && words + (cluster_tiles(s) > 1 ? 11 : 0) >= 50;
  if (!apart) words += 16;  // all fragments of a subtile at once
  words += first.column_states * s.sub_n / 4;
  if (ahead) words += 2 * stored + 4 * (pieces(e.needs) - 1);
  if (e.moves.copies) words += 20;
  return words >= 29 || first.draws;
}

// Whether subtiles of 64 keep so much that hundreds of bytes are spilt: masks, whose loads are all begun at once, or
// operands of columns and a label beside the states of a loss.
bool keeps_far_too_much(const FusedEpilogue& e, const Schedule& s, bool apart, int accumulators) {
  constexpr int states_of_a_loss = 3;
  const FusedEpilogue::Pressure& first = e.pressure[0];
  if (accumulators < 192 || s.sub_n < 64) return false;
  return first.masks || (apart && e.needs.d_bytes_column == 0 && first.ahead && first.rows >= 2 &&
                         first.row_states >= states_of_a_loss);
}

// Whether what waits for its rows' statistics keeps too much.
bool holds_too_much(const FusedEpilogue& e, const Schedule& s, bool once, int accumulators) {
  const FusedEpilogue::Pressure &first = e.pressure[0], &held = e.pressure[1];
  const int ahead = first.ahead * s.sub_n / 4, ahead_held = held.ahead * s.sub_n / 4;
  if (once) return (accumulators >= 192 && s.sub_n >= 64) || (ahead >= 64 && cluster_tiles(s) > 1);
  if (accumulators >= 192) return ahead || ahead_held || first.rows;
  const bool many_rows = held.rows * consumer_rows(s) / 32 >= 20;
  if (accumulators >= 160)
    return (ahead >= 16 && first.rows) || (ahead_held >= 16 && many_rows && (ahead || first.loaded));
  if (!many_rows || ahead >= 32) return many_rows && ahead_held;
  return s.sub_n >= 64 && ahead_held >= 32 && (ahead == 0 || first.loaded);
}

}  // namespace

// The constants part what spilled from what did not, of some 1200 kernels; where they are near each other, the compiler
// is asked.
int foretold_bytes(const FusedEpilogue& e, const Schedule& s, bool once, bool apart) {
  constexpr int some = 17;
  const int accumulators = consumer_rows(s) * consumer_columns(s) / 128;  // a thread's
  if (s.mma || accumulators < 128) return 0;
  if (is_rolled(e.needs)) return e.held < 0 && accumulators >= 160 ? some : 0;  // all of them live through its loop
  if (e.needs.holds) return holds_too_much(e, s, once, accumulators) ? some : 0;
  if (e.held >= 0 || (once && accumulators <= 128)) return 0;
  if (!once && keeps_far_too_much(e, s, apart, accumulators)) return much_is_spilt;
  return keeps_too_much(e, s, apart, accumulators) ? some : 0;
}

bool may_spill(const FusedEpilogue& e, const Schedule& s) {
  const int accumulators = consumer_rows(s) * consumer_columns(s) / 128;
  const FusedEpilogue::Pressure& first = e.pressure[0];
  if (s.mma || accumulators < 128) return false;
  return accumulators >= 160 || e.held >= 0 || first.draws || (first.ahead && (first.rows || first.row_states));
}

}  // namespace postlude::inline v0::cuda
