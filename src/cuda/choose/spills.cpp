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
    if (i.op == Op::operand && value.level == Level::element && code.load_of(i.access) < 0) ++found.by_threads;
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

constexpr int few_accumulators = 128, least_held = 96;  // that spill

// Whether a first phase keeps too much. Operands of columns that are read ahead count for more than their words: they
// lie in the main loop's way.
bool keeps_too_much(const FusedEpilogue& e, const Schedule& s, bool apart, int accumulators) {
  const FusedEpilogue::Pressure& first = e.pressure[0];
  const int rows = consumer_rows(s) / 32, ahead = first.ahead * s.sub_n / 4, stored = e.needs.d_bytes_column;
  if (accumulators < 192) return accumulators >= 160 && first.draws && !apart && (ahead || first.loaded);
  int words = ahead + first.loaded * s.sub_n / 8 + (first.rows + first.row_states) * rows;
  if (s.sub_n >= 64) words += 6;
  if (stored == 0) return apart && words + (loading_together(s) > 1 ? 11 : 0) >= 50;
  if (!apart) words += 16;  // all fragments of a subtile at once
  words += first.column_states * s.sub_n / 4;
  if (ahead) words += 2 * stored + 4 * (pieces(e.needs) - 1);
  if (e.moves.copies) words += 20;
  return words >= 29 || first.draws;
}

// Whether subtiles of 64 keep so much that hundreds of bytes are spilt: tile operands that threads load, all begun at
// once, moments or losses of columns beside operands, or operands of columns and a label beside the states of a loss.
bool keeps_far_too_much(const FusedEpilogue& e, const Schedule& s, bool apart, int accumulators) {
  constexpr int states_of_a_loss = 3;
  const FusedEpilogue::Pressure& first = e.pressure[0];
  if (accumulators < 192 || s.sub_n < 64) return false;
  if (first.by_threads || (first.column_states >= states_of_a_loss && (first.ahead || first.rows))) return true;
  return apart && e.needs.d_bytes_column == 0 && first.ahead && first.rows >= 2 && first.row_states >= states_of_a_loss;
}

// Whether what waits for its rows' statistics keeps too much.
bool holds_too_much(const FusedEpilogue& e, const Schedule& s, const CodeForm& form, int accumulators) {
  constexpr int states_of_moments = 3;
  const FusedEpilogue::Pressure &first = e.pressure[0], &held = e.pressure[1];
  const int rows = consumer_rows(s) / 32, ahead = first.ahead * s.sub_n / 4, ahead_held = held.ahead * s.sub_n / 4;
  if (form.once && accumulators >= 192 && first.loaded && ahead >= 16 && first.row_states >= states_of_moments &&
      !form.apart && !form.whole_n)
    return true;
  if (form.once) return (accumulators >= 192 && s.sub_n >= 64) || (ahead >= 64 && loading_together(s) > 1);
  if (accumulators >= 192) return ahead || ahead_held || first.rows;
  const bool many_rows = held.rows * rows >= 20;
  if (accumulators >= 160)
    return (ahead >= (form.apart ? 16 : 8) && first.rows) ||
           (ahead_held && ahead && (first.loaded || (ahead >= 16 && !form.apart))) ||
           (ahead_held >= 16 && many_rows && (ahead || first.loaded));
  if (first.by_threads && !form.apart && !e.moves.copies) return true;
  if (accumulators < 128) return false;
  if (!many_rows || ahead >= 32) return many_rows && ahead_held;
  return s.sub_n >= 64 && ahead_held >= 32 && (ahead == 0 || first.loaded);
}

// Whether held tiles of few columns keep the parts that lie in memory beside what lanes shift, of more rows than few.
bool keeps_shifted_parts(const EpilogueNeeds& needs, const Schedule& s) {
  return s.shifted && s.by_memory && needs.holds && s.bn <= 64 && needs.a_rows == 0;
}

// Bytes that are spilt at least where tiles are held and much is read ahead.
int bytes_held(const FusedEpilogue& e, const Schedule& s, const CodeForm& form, int accumulators) {
  const FusedEpilogue::Pressure& first = e.pressure[0];
  if (e.needs.holds && form.once) return accumulators < 192 || first.ahead < 4 ? 0 : first.loaded ? 800 : 200;
  if (e.needs.holds)
    return accumulators >= 128 && first.by_threads && first.ahead && !form.apart && !e.moves.copies ? 700 : 0;
  if (form.once || accumulators < 192 || s.sub_n < 64) return 0;
  if (consumer_rows(s) < 192) return first.ahead >= 4 ? 300 : 0;
  return first.ahead >= 3 ? 680 : first.ahead == 2 ? 300 : 0;
}

}  // namespace

// The constants part what spilled from what did not, of some 2100 kernels; where they are near each other, the compiler
// is asked.
int foretold_bytes(const FusedEpilogue& e, const Schedule& s, const CodeForm& form) {
  constexpr int some = 17, of_shifted_parts = 52, hundreds = 800, thousand = 1200, states_of_moments = 3;
  if (keeps_shifted_parts(e.needs, s)) return of_shifted_parts;
  const int accumulators = consumer_rows(s) * consumer_columns(s) / 128;  // a thread's
  if (s.mma || accumulators < (e.needs.holds && !form.once ? least_held : few_accumulators)) return 0;
  if (is_rolled(e.needs)) return e.held < 0 && accumulators >= 160 ? some : 0;  // all of them live through its loop
  if (e.held >= 0) {
    const int bytes = bytes_held(e, s, form, accumulators);
    return bytes ? bytes : e.needs.holds && holds_too_much(e, s, form, accumulators) ? some : 0;
  }
  if (form.once && accumulators <= 128) return 0;
  if (!form.once && keeps_far_too_much(e, s, form.apart, accumulators))
    return e.pressure[0].column_states >= states_of_moments && e.pressure[0].ahead >= 2 ? thousand : hundreds;
  return keeps_too_much(e, s, form.apart, accumulators) ? some : 0;
}

int bytes_beside_statistics(const FusedEpilogue& e, const Schedule& s, const CodeForm& form) {
  constexpr int states_of_softmax = 2, states_of_loss = 3;
  const FusedEpilogue::Pressure& first = e.pressure[0];
  if (s.mma || e.held >= 0 || form.once || !form.apart || s.sub_n < 64 || first.row_states == 0 ||
      consumer_rows(s) * consumer_columns(s) / 128 < 192)
    return 0;
  const bool alone = loading_together(s) == 1;
  if (e.needs.d_bytes_column == 0)
    return first.ahead >= 2 && first.rows >= 2 && first.row_states >= states_of_loss ? 1050 : 0;
  if (first.row_states != states_of_softmax)
    return first.ahead < 2 ? 0 : alone && (first.ahead >= 3 || !form.whole_n) ? 600 : 400;
  if (first.ahead == 0) return first.rows ? 340 : 0;
  if (!alone) return form.whole_n ? 0 : 260;
  if (form.whole_n) return first.ahead == 1 ? (first.rows ? 0 : 280) : first.rows ? 570 : 760;
  return e.moves.copies ? 700 : first.ahead == 1 ? 850 : 1200;
}

bool may_spill(const FusedEpilogue& e, const Schedule& s) {
  const int accumulators = consumer_rows(s) * consumer_columns(s) / 128;
  const FusedEpilogue::Pressure& first = e.pressure[0];
  const bool keeps = first.ahead && (first.rows || first.row_states);
  if (s.mma || accumulators < least_held) return false;
  if (accumulators < few_accumulators) return e.needs.holds && keeps;
  return accumulators >= 160 || e.held >= 0 || first.draws || keeps;
}

}  // namespace postlude::inline v0::cuda
