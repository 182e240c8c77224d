#include "cuda/choose/fragment_plan.h"

#include "core/divide.h"
#include "cuda/choose/held_phase.h"
#include "cuda/emit/code.h"
#include "cuda/emit/reduce.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace postlude::inline v0::cuda {
namespace {

using lower::Access;
using lower::BufferId;
using lower::Instruction;
using lower::Phase;
using lower::Program;
using lower::Reducer;
using lower::Reduction;
using lower::ValueId;

constexpr int rows_together = 64;   // of a subtile
constexpr int widest_subtile = 64;  // of a schedule
constexpr double most_of_a_byte = 127.4;

Across kept(bool rows, bool columns) { return rows ? Across::rows : columns ? Across::columns : Across::all; }

Across reduced(const Reduction& r) {
  if (r.group) return r.axes.has(Axis::m) ? Across::row_groups : Across::groups;
  return kept(!r.axes.has(Axis::m), !r.axes.has(Axis::n));
}

// Whether the columns of a subtile lie side by side in the buffer: they are its own, or one piece of a chunk's columns
// or groups; and so its 64 rows, where these are what is chunked.
bool beside(const Access& access) {
  const auto lie = [](const std::vector<lower::ColumnMap::Step>& steps, int together) {
    return steps.empty() ||
           (steps.size() == 1 && (steps[0].group == 0 || steps[0].group % (steps[0].pieces * together) == 0));
  };
  return access.divide_rows == 1 && access.columns.divide == 1 && lie(access.columns.steps, narrowest_subtile) &&
         lie(access.row_steps, rows_together);
}

// Whether an instruction draws a number for each element, and those of two neighbours by one block of Philox.
bool is_drawn_by_blocks(const Instruction& i) {
  const bool draws = i.op == Op::random || (i.op == Op::cast && i.round == Round::stochastic);
  const auto keep = [](const std::vector<lower::ColumnMap::Step>& steps, int together) {
    return std::ranges::all_of(steps, [&](const auto& step) {
      return step.group == 0 ? step.piece == 0 : step.group / step.pieces % together == 0;
    });
  };
  return draws && i.access.divide_rows == 1 && i.access.columns.divide == 1 && keep(i.access.columns.steps, 2) &&
         keep(i.access.row_steps, 16);
}

// About how many instructions an element takes, as ops.def's: those of a call that is no function of the device are its
// body's, and one block of Philox serves four elements.
int instructions(const Function& function) {
  const int native = info(Op::call).instructions;
  if (has_native_form(function)) return native;
  int sum = 0;
  for (const Node& node : function.body.nodes)
    sum += node.op == Op::call ? instructions(*node.function) : info(node.op).instructions;
  return std::max(native, sum);
}
int instructions(const lower::Phase& phase, const Instruction& i) {
  if (i.op == Op::call) return instructions(*i.function);
  return is_drawn_by_blocks(i) ? 16 : adds_below_one(phase, i) ? 5 : info(i.op).instructions;
}
int instructions(const Reduction& r) { return r.reducer == Reducer::online_softmax ? 12 : 6; }

class Planner {
 public:
  Planner(const Program& program, int index, const std::vector<BufferPlace>& places)
      : program_(program), phase_(program.phases[index]), index_(index), places_(places) {}

  FragmentPlan run(Hold hold);

 private:
  void reductions();
  [[nodiscard]] bool makes_blocks(const Phase& small) const;
  void small_phases();
  void scratch();
  void hold(Hold most);
  void values(FragmentCode& code);
  void mark_narrow(FragmentCode& code);
  void draws(FragmentCode& code) const;
  [[nodiscard]] std::vector<int> uses(const FragmentCode& code) const;
  void sums();
  void tile_operands(FragmentCode& code);
  bool interleave(FragmentCode& code, const lower::Store& store) const;
  void stores(FragmentCode& code);

  [[nodiscard]] std::vector<ValueId> leaving(const FragmentCode& code) const;
  bool is_prefetched(const Instruction& i) const;
  static ValueId label_of(const FragmentCode& code, const Instruction& i);
  bool is_loaded_tile(const Instruction& i) const;
  [[nodiscard]] std::vector<ValueId> load_guards(const FragmentCode& code) const;
  [[nodiscard]] int bytes(BufferId buffer) const { return static_cast<int>(size_of(program_.buffers[buffer].dtype)); }
  // Subtiles must not straddle the pieces of a chunk's groups.
  void hold_together(const lower::ColumnMap& map) {
    if (map.steps.empty() || map.steps[0].group == 0) return;
    const int piece = static_cast<int>(map.steps[0].group / map.steps[0].pieces);
    e_.needs.run = e_.needs.run ? std::gcd(e_.needs.run, piece) : piece;
  }

  const Program& program_;
  const Phase& phase_;
  int index_;
  const std::vector<BufferPlace>& places_;
  std::optional<HeldPhase> held_;
  FragmentPlan plan_;
  FusedEpilogue& e_ = plan_.epilogue;
};

FragmentPlan Planner::run(Hold hold) {
  e_.phase = index_;
  e_.word_of.assign(program_.buffers.size(), -1);
  e_.columns_word = e_.take_words(1);
  e_.needs.d_bytes_column = 0, plan_.first.phase = &phase_;
  reductions();
  if (hold != Hold::in_order) small_phases();
  scratch();
  if (hold > Hold::nothing) this->hold(hold);
  const int pieces = accumulator_parts(phase_), piece = accumulator_piece(phase_);
  if (chunks_rows(phase_)) e_.needs.below = pieces, e_.needs.row_piece = piece;
  else e_.needs.parts = pieces, e_.needs.piece = piece;
  // The maps of operands stand before those of outputs.
  values(plan_.first), e_.needs.first_operations = e_.needs.operations += e_.needs.reductions;
  if (held_) values(plan_.held);
  sums();
  tile_operands(plan_.first), e_.needs.first_aux_bytes_column = e_.needs.aux_bytes_column;
  if (held_) tile_operands(plan_.held);
  stores(plan_.first);
  if (held_) stores(plan_.held);
  const auto moves = [](const FragmentCode& code) {
    EpilogueText::Moves moves{.loads = !code.loads.empty()};
    for (const auto& staged : code.staged) (staged.by_map ? moves.stores : moves.copies) = true;
    return moves;
  };
  e_.moves = moves(plan_.first), e_.held_moves = moves(plan_.held);
  for (std::size_t i = 0; i < std::min(plan_.first.staged.size(), plan_.held.staged.size()); ++i)
    e_.restages |=
        bytes(plan_.first.staged[i].store->access.buffer) != bytes(plan_.held.staged[i].store->access.buffer);
  e_.maps = static_cast<int>(e_.loaded.size() + e_.stored.size());
  for (const BufferId buffer : e_.loaded) e_.word(buffer);
  for (const BufferId buffer : e_.stored) e_.word(buffer);
  e_.read_later.resize(program_.buffers.size());
  for (int p = index_ + 1; p < static_cast<int>(program_.phases.size()); ++p) {
    if (e_.runs(p)) continue;
    for (const Instruction& i : program_.phases[p].code) {
      if (i.op == Op::operand) e_.read_later[i.access.buffer] = true;
    }
  }
  return std::move(plan_);
}

void Planner::reductions() {
  for (const Reduction& r : phase_.reductions) {
    const Across across = reduced(r);
    if (across == Across::groups) e_.needs.group = static_cast<int>(groups_of(r).width());
    if (across == Across::row_groups) e_.needs.row_group = static_cast<int>(r.group);
    e_.partials.push_back({across, state_bytes(phase_, r), r.group ? -1 : e_.take_words(1), 0, e_.finish_bytes});
    const int bytes = e_.partials.back().bytes;
    const int folded = across == Across::columns ? 256 : across == Across::all ? 8 : 0;
    e_.finish_bytes += static_cast<int>(round_up(bytes * folded, 16));
    if (across == Across::rows) e_.needs.row_states += bytes;
    e_.finishes[static_cast<int>(across)] = true;
  }
  e_.needs.meets = e_.across_tiles();
  e_.needs.reduces = !e_.partials.empty();
  e_.needs.columns = e_.finishes[1], e_.needs.only_columns = e_.finishes[1] && !e_.finishes[0] && !e_.finishes[2];
  e_.needs.only_rows = e_.finishes[0] && !e_.finishes[1] && !e_.finishes[2];
  if (e_.across_tiles()) e_.counters_word = e_.take_words(1);
}

// Shared memory: a state a warp, of each column or of everything; twice, as subtiles and tiles follow one another, or
// as what was folded of groups of rows is left behind. Blocks are folded between two barriers, and left in registers.
void Planner::scratch() {
  std::int64_t scratch = 0;
  for (const Across across : {Across::columns, Across::all, Across::row_groups, Across::blocks}) {
    const bool columns = across == Across::columns || across == Across::row_groups;
    for (auto& partial : e_.partials) {
      if (partial.across != across) continue;
      partial.scratch = static_cast<int>(scratch);
      scratch = round_up(
          scratch + (across == Across::blocks ? 1 : 2) * 4 * partial.bytes * (columns ? widest_subtile : 1), 16);
    }
  }
  e_.needs.scratch_bytes = static_cast<int>(round_up(scratch, 128));
}

// Whether a phase over groups of columns reduces all it does in groups of rows that a consumer holds.
bool Planner::makes_blocks(const Phase& small) const {
  return e_.block_phase < 0 && e_.needs.row_group == 0 && across_of(small) == Across::groups &&
         std::all_of(small.reductions.begin(), small.reductions.end(), [&](const Reduction& r) {
           return r.axes == Axes(Axis::m) && r.group == small.reductions[0].group && holds_row_groups(r.group) &&
                  r.pieces.size() == 1 && r.pieces[0].columns.identity();
         });
}

// Small phases that follow from statistics of one kind alone.
void Planner::small_phases() {
  constexpr int elsewhere = 6;
  std::vector<int> owner(program_.buffers.size(), -1);  // Across of a statistic finished here, or made elsewhere
  for (int p = 0; p < static_cast<int>(program_.phases.size()); ++p) {
    for (const Reduction& r : program_.phases[p].reductions) {
      for (const BufferId b : r.results) {
        if (b >= 0) owner[b] = p == index_ ? static_cast<int>(reduced(r)) : elsewhere;
      }
    }
    for (const auto& store : program_.phases[p].stores) owner[store.access.buffer] = elsewhere;
  }
  for (int p = index_ + 1; p < static_cast<int>(program_.phases.size()); ++p) {
    const Phase& small = program_.phases[p];
    const Across across = across_of(small);
    const bool blocks = !small.reductions.empty();
    if (!e_.finishes[static_cast<int>(across)] || (blocks && !makes_blocks(small))) continue;
    const bool in_groups = across >= Across::groups;
    bool here = (in_groups || small.rows == (across == Across::rows ? phase_.rows : Extent{})) &&
                (across != Across::columns || small.columns == phase_.columns);
    bool grouped = !in_groups;
    for (const Instruction& i : small.code) {
      if (i.op != Op::operand) continue;
      const int from = owner[i.access.buffer];
      here = here && (from < 0 || (from == static_cast<int>(across) && plain(i.access)));
      grouped = grouped || from == static_cast<int>(across);  // so its columns or rows are groups
    }
    if (!here || !grouped) continue;
    e_.finished.push_back(p);
    for (const auto& store : small.stores) owner[store.access.buffer] = static_cast<int>(across);
    if (!blocks) continue;
    e_.block_phase = p;
    e_.needs.row_group = static_cast<int>(small.reductions[0].group);
    e_.finishes[static_cast<int>(Across::blocks)] = true;
    for (const Reduction& r : small.reductions) {
      e_.partials.push_back({Across::blocks, state_bytes(small, r), -1, 0, e_.finish_bytes});
      for (const BufferId b : r.results) {
        if (b >= 0) owner[b] = static_cast<int>(Across::blocks);
      }
    }
  }
}

void Planner::hold(Hold most) {
  held_ = held_phase(program_, e_, most);
  if (!held_) return;
  plan_.kept = held_->kept;
  e_.phases = {held_->first, held_->second};
  plan_.first.phase = held_->first.get(), plan_.held.phase = held_->second.get();
  e_.held = held_->index;
  e_.has_held = true;
  e_.rows_first = !e_.finishes[static_cast<int>(Across::columns)];  // a column's state is kept from row to row
  e_.needs.holds = !e_.needs.in_groups(), e_.needs.repeats = held_->repeats;
  e_.needs.only_rows = false;
}

// What its stores and reductions take, and what stays in registers.
std::vector<ValueId> Planner::leaving(const FragmentCode& code) const {
  std::vector<ValueId> values = sinks(*code.phase, true, true);
  for (const auto& kept : plan_.kept) {
    if (&code == &plan_.first) values.push_back(kept.value);
  }
  return values;
}

void Planner::values(FragmentCode& code) {
  const Phase& phase = *code.phase;
  const std::vector<bool> wanted = needed(phase, leaving(code));
  const bool held = &code == &plan_.held;
  for (std::size_t id = 0; id < phase.code.size(); ++id) {
    const bool grouped = held && held_->grouped[id];
    const Level level = !grouped ? level_of(phase.code[id].axes) : e_.needs.group ? Level::row : Level::column;
    code.values.push_back({.level = level,
                           .wanted = wanted[id],
                           .met = grouped || (held && e_.needs.holds && level == Level::row),
                           .weight = held && held_->weights[id],
                           .bounded = held && held_->bounded[id] > 0,
                           .byte = held && held_->bounded[id] > 0 && held_->bounded[id] <= most_of_a_byte});
  }
  for (std::size_t id = 0; id < phase.code.size(); ++id) {
    const Instruction& i = phase.code[id];
    FragmentCode::Value& value = code.values[id];
    if (!value.wanted) continue;
    if (value.level == Level::element) e_.needs.operations += instructions(phase, i);
    value.prefetched = is_prefetched(i);
    value.label = label_of(code, i);
  }
  for (const Reduction& r : phase.reductions) e_.needs.reductions += instructions(r);
  mark_narrow(code);
  draws(code);
}

// How often each value is wanted.
std::vector<int> Planner::uses(const FragmentCode& code) const {
  std::vector<int> uses(code.phase->code.size());
  for (const ValueId value : leaving(code)) ++uses[value];
  for (std::size_t id = 0; id < code.phase->code.size(); ++id) {
    if (!code.values[id].wanted) continue;
    for (const ValueId arg : code.phase->code[id].args) ++uses[arg];
    if (const ValueId guard = code.phase->code[id].guard; guard >= 0) ++uses[guard];
  }
  return uses;
}

// Numbers of two neighbours and of the two rows that a thread holds are one block's (core/philox.h). They have 24 bits,
// so that one is less than a constant where its word is less than another.
void Planner::draws(FragmentCode& code) const {
  const Phase& phase = *code.phase;
  const std::vector<int> uses = this->uses(code);
  for (std::size_t id = 0; id < phase.code.size(); ++id) {
    const Instruction& i = phase.code[id];
    if (!code.values[id].wanted || code.values[id].level != Level::element) continue;
    code.values[id].drawn = is_drawn_by_blocks(i);
    if (i.guard >= 0 || (i.op != Op::lt && i.op != Op::le && i.op != Op::gt && i.op != Op::ge)) continue;
    for (const int side : {0, 1}) {
      const ValueId random = i.args[side];
      const Instruction& other = phase.code[i.args[1 - side]];
      if (phase.code[random].op != Op::random || phase.code[random].guard >= 0 || !code.values[random].drawn ||
          uses[random] != 1 || other.op != Op::constant || other.type != DType::f32 ||
          !std::isfinite(other.literal.value()))
        continue;
      const bool less = (i.op == Op::lt || i.op == Op::le) == (side == 0), or_equal = i.op == Op::le || i.op == Op::ge;
      const double bound = static_cast<double>(static_cast<float>(other.literal.value())) * 0x1p24;
      const double below = less == or_equal ? std::floor(bound) + 1 : std::ceil(bound);
      code.values[id].below = static_cast<std::int64_t>(std::clamp(below, 0.0, 0x1p24)) << 8;
      code.values[id].not_below = !less;
      code.values[random].folded = true;
    }
  }
}

// Quotients that are only stored, in types whose least number is 2^-24 or more, beyond whose largest a result no longer
// counts.
void Planner::mark_narrow(FragmentCode& code) {
  const Phase& phase = *code.phase;
  std::vector<bool> wide(phase.code.size());
  for (const auto& store : phase.stores) {
    const DType type = program_.buffers[store.access.buffer].dtype;
    if (type == DType::f32 || type == DType::bf16 || type == DType::boolean) wide[store.value] = true;
  }
  for (const ValueId value : sinks(phase, false, true)) wide[value] = true;
  if (&code == &plan_.first) {
    for (const auto& kept : plan_.kept) wide[kept.value] = true;
  }
  for (const Instruction& i : phase.code) {
    for (const ValueId arg : i.args) wide[arg] = true;
  }
  for (std::size_t id = 0; id < phase.code.size(); ++id) code.values[id].narrow = !wide[id];
}

// What is only added up: products are, by fused multiply-adds; and logarithms, found from a sum over the tile by way of
// additions. A factor's own rounding is as large as that of one more multiplication, so it must have one: it is a
// quotient, an exponential or a function.
void Planner::sums() {
  const Phase& phase = *plan_.first.phase;
  std::vector<FragmentCode::Value>& values = plan_.first.values;
  const std::vector<int> uses = this->uses(plan_.first);
  const auto only_summed = [&](ValueId id) {
    const Instruction& i = phase.code[id];
    return uses[id] == 1 && i.guard < 0 && i.type == DType::f32 && level_of(i.axes) == Level::element;
  };
  for (std::size_t r = 0; r < phase.reductions.size(); ++r) {
    const Reduction& reduction = phase.reductions[r];
    if (reduction.reducer != Reducer::sum || reduction.type != DType::f32) continue;
    std::vector<std::pair<ValueId, bool>> terms;  // and whether they are subtracted
    for (const auto& piece : reduction.pieces) {
      const Instruction& i = phase.code[piece.args[0]];
      FragmentCode::Value& of = values[piece.args[0]];
      const bool picks = reduced(reduction) == Across::rows && reduction.pieces.size() == 1 && is_else_zero(phase, i) &&
                         values[i.args[0]].label >= 0;
      of.folded = only_summed(piece.args[0]) && (picks || i.op == Op::mul), of.picked = of.folded && picks;
      if (reduced(reduction) == Across::all) terms.emplace_back(piece.args[0], false);
    }
    while (!terms.empty()) {
      const auto [id, negative] = terms.back();
      terms.pop_back();
      const Instruction& i = phase.code[id];
      if (!only_summed(id)) continue;
      switch (i.op) {
        case Op::add: terms.emplace_back(i.args[0], negative); [[fallthrough]];
        case Op::fma: terms.emplace_back(i.args.back(), negative); break;
        case Op::sub: terms.emplace_back(i.args[0], negative), terms.emplace_back(i.args[1], !negative); break;
        case Op::neg: terms.emplace_back(i.args[0], !negative); break;
        case Op::log: {
          if (!is_clamped(phase, i.args[0], 0x1p-15, 0x1p+15)) break;
          const Op of = phase.code[phase.code[i.args[0]].args[0]].op;
          if (of == Op::call || of == Op::div || of == Op::exp) plan_.first.logarithms.push_back({id, r, negative});
          break;
        }
        default: break;
      }
    }
    for (const auto& piece : reduction.pieces) {
      const Instruction& i = phase.code[piece.args[0]];
      for (const auto& logarithm : plan_.first.logarithms) {
        if (i.op == Op::fma && i.args[2] == logarithm.value)
          values[piece.args[0]].folded = values[logarithm.value].folded = true;
      }
    }
  }
}

// A row operand whose columns are neighbours in memory: read one subtile ahead, so that its latency, which no other
// warp of the scheduler hides, lies under a main loop or a subtile (bias_gelu at K = 1024: 1.05 of cuBLAS without).
bool Planner::is_prefetched(const Instruction& i) const {
  if (i.op != Op::operand || i.guard >= 0 || i.type != DType::f32 || level_of(i.axes) != Level::column) return false;
  const DType dtype = program_.buffers[i.access.buffer].dtype;
  return beside(i.access) && places_[i.access.buffer].unit && size_of(dtype) >= 2 && is_float(dtype);
}

ValueId Planner::label_of(const FragmentCode& code, const Instruction& i) {
  if (i.op != Op::eq || i.guard >= 0) return -1;
  for (int k = 0; k < 2; ++k) {
    const Instruction& index = code.phase->code[i.args[k]];
    if (index.op != Op::cast || index.type != DType::i64) continue;
    if (code.values[i.args[1 - k]].level != Level::row) continue;
    const Instruction& column = code.phase->code[index.args[0]];
    if (column.op == Op::n_index && plain(column.access)) return i.args[1 - k];
  }
  return -1;
}

bool Planner::is_loaded_tile(const Instruction& i) const {
  return i.op == Op::operand && level_of(program_.buffers[i.access.buffer].axes) == Level::element &&
         beside(i.access) && places_[i.access.buffer].tensor_map;
}

// The guard that all users of a value share, else -1.
std::vector<ValueId> Planner::load_guards(const FragmentCode& code) const {
  const Phase& phase = *code.phase;
  std::vector<ValueId> guards(phase.code.size(), -1);
  std::vector<bool> free(phase.code.size());
  for (const ValueId value : leaving(code)) free[value] = true;
  for (std::size_t id = 0; id < phase.code.size(); ++id) {
    if (!code.values[id].wanted) continue;
    for (const ValueId arg : phase.code[id].args) {
      const ValueId guard = phase.code[id].guard;
      if (guard < 0 || (guards[arg] >= 0 && guards[arg] != guard)) free[arg] = true;
      guards[arg] = guard;
    }
  }
  for (std::size_t id = 0; id < phase.code.size(); ++id) {
    if (free[id]) guards[id] = -1;
  }
  return guards;
}

void Planner::tile_operands(FragmentCode& code) {
  const std::vector<ValueId> guards = load_guards(code);
  code.first_load = static_cast<int>(e_.loaded.size());
  int offset = 0;
  for (std::size_t id = 0; id < code.values.size(); ++id) {
    const Access& access = code.phase->code[id].access;
    if (!code.values[id].wanted || !is_loaded_tile(code.phase->code[id])) continue;
    if (const int k = code.load_of(access); k >= 0) {  // guarded only if every load by this map is, by the same value
      if (code.loads[k].guard != guards[id]) code.loads[k].guard = -1;
      continue;
    }
    e_.loaded.push_back(access.buffer);
    e_.columns.push_back(pieces_of(access));
    code.loads.push_back({access.buffer, access.columns, access.row_steps, guards[id], offset});
    hold_together(access.columns);
    offset += bytes(access.buffer);
  }
  e_.needs.aux_bytes_column = std::max(e_.needs.aux_bytes_column, offset);
}

// Whether a store writes the other columns of pairs than one before it, which then is made with it.
bool Planner::interleave(FragmentCode& code, const lower::Store& store) const {
  const auto piece_of_pair = [&](const lower::Store& s) -> std::int64_t {
    const lower::ColumnMap map = pieces_of(s.access);
    const bool pair = map.divide == 1 && map.steps.size() == 1 && map.steps[0].pieces == 2 && map.steps[0].group == 2;
    return pair && s.access.divide_rows == 1 && code.phase->code[s.value].type == DType::f32 ? map.steps[0].piece : -1;
  };
  const std::int64_t piece = piece_of_pair(store);
  const BufferPlace& place = places_[store.access.buffer];
  const bool rows =
      place.tensor_map && !store.access.row_steps.empty() && vector_type(program_.buffers[store.access.buffer].dtype);
  if (piece < 0 || !(rows || place.wide)) return false;
  const auto other = std::find_if(code.direct.begin(), code.direct.end(), [&](const lower::Store* s) {
    return s->access.buffer == store.access.buffer && piece_of_pair(*s) == 1 - piece;
  });
  if (other == code.direct.end()) return false;
  code.interleaved.push_back(piece ? FragmentCode::Interleaved{*other, &store}
                                   : FragmentCode::Interleaved{&store, *other});
  code.direct.erase(other);
  return true;
}

void Planner::stores(FragmentCode& code) {
  code.first_store = static_cast<int>(e_.stored.size());
  int offset = 0, copied = 0;
  for (const auto& store : code.phase->stores) {
    const BufferId b = store.access.buffer;
    const BufferPlace& place = places_[b];
    const bool rows = place.unit && bytes(b) <= 4 && program_.buffers[b].rows == Extent{};
    if (level_of(program_.buffers[b].axes) != Level::element || !beside(store.access) || !(place.tensor_map || rows)) {
      if (!interleave(code, store)) code.direct.push_back(&store);
      continue;
    }
    code.staged.push_back({&store, place.tensor_map, offset});
    if (place.tensor_map) e_.stored.push_back(b), e_.columns.push_back(pieces_of(store.access));
    else copied += bytes(b);
    hold_together(store.access.columns);
    offset += bytes(b);
  }
  e_.needs.d_bytes_column = std::max(e_.needs.d_bytes_column, offset);
  e_.needs.copied_bytes_column = std::max(e_.needs.copied_bytes_column, copied);
}

}  // namespace

std::vector<BufferPlace> aligned_places(const Program& program, std::int64_t columns) {
  std::vector<BufferPlace> places;
  for (const auto& buffer : program.buffers) {
    const bool vectors = vector_type(buffer.dtype);
    places.push_back(
        {.tensor_map = level_of(buffer.axes) == Level::element && size_of(buffer.dtype) <= 4 && buffer.rows == Extent{},
         .unit = true,
         .pair = columns % 2 == 0 && vectors,
         .wide = columns % 8 == 0 && vectors});
  }
  return places;
}

int FragmentCode::load_of(const Access& access) const {
  for (std::size_t k = 0; k < loads.size() && access.divide_rows == 1; ++k) {
    if (loads[k].buffer == access.buffer && loads[k].columns == access.columns &&
        loads[k].row_steps == access.row_steps)
      return static_cast<int>(k);
  }
  return -1;
}

Across across_of(const Phase& small) {
  const bool rows = small.domain.has(Axis::m), columns = small.domain.has(Axis::n);
  if (!rows || !columns) return kept(rows, columns);
  if (small.rows == Extent{}) return Across::groups;
  return small.columns.exact ? Across::row_groups : Across::blocks;
}

std::string not_fusable(const Program& program, int index) {
  const Phase& phase = program.phases[index];
  if (!(phase.domain == (Axis::m | Axis::n)) || !phase.reads_accumulator())
    return "the phase does not run over the product's tiles";
  const bool rows = chunks_rows(phase);
  if (!rows && !(phase.rows == Extent{})) return "the phase has other rows than the product";
  const int parts = accumulator_parts(phase);
  if (parts > most_pieces) return "the accumulator is chunked in more than " + std::to_string(most_pieces) + " pieces";
  const lower::ColumnMap::Step* const chunk = chunk_of(phase);
  const bool holds =
      chunk && (rows ? holds_row_pieces(accumulator_piece(phase)) : holds_pieces(parts, accumulator_piece(phase)));
  for (const Instruction& i : phase.code) {
    if (i.op != Op::acc) continue;
    const auto &steps = rows ? i.access.row_steps : i.access.columns.steps,
               &none = rows ? i.access.columns.steps : i.access.row_steps;
    const bool piece = holds && i.access.divide_rows == 1 && i.access.columns.divide == 1 && none.empty() &&
                       steps.size() == 1 && steps[0].pieces == chunk->pieces && steps[0].group == chunk->group;
    if (chunk ? !piece : !i.access.columns.identity())
      return "the accumulator is chunked in two ways, or no tile has its pieces in whole groups";
  }
  ColumnGroups groups;
  std::int64_t row_group = 0;
  for (const Reduction& r : phase.reductions) {
    if (r.axes.has(Axis::b)) return "a reduction goes across the batch";
    if (reduced(r) == Across::row_groups) {
      if (!holds_row_groups(r.group))
        return "a reduction is in groups of " + std::to_string(r.group) +
               " rows, and tiles hold whole groups of 16, 32, 64 or 128";
      if (row_group && row_group != r.group) return "reductions are in groups of several sizes";
      row_group = r.group;
    } else if (r.group) {
      const ColumnGroups own = groups_of(r);
      if (!holds_groups(own.width()))
        return "a reduction is in groups of " + std::to_string(own.width()) +
               " columns, and tiles hold whole groups of 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224 or 256";
      if (groups.columns && !(own == groups)) return "reductions are in groups of several sizes";
      groups = own;
      const bool halves = own.chunk && r.pieces.size() == 2 && own.columns % own.chunk == 0;
      if (!(own.chunk ? halves : r.pieces.size() == 1 && r.pieces[0].columns.identity()))
        return "a reduction in groups takes chunked columns";
    }
    for (const auto& piece : r.pieces) {
      if (!r.axes.has(Axis::n) && !piece.columns.identity()) return "a reduction over M keeps chunked columns";
    }
  }
  if (row_group && groups.columns) return "reductions are in groups of rows and in groups of columns";
  return {};
}

FragmentPlan plan_fragment(const Program& program, int index, const std::vector<BufferPlace>& places, Hold hold) {
  return Planner(program, index, places).run(hold);
}

}  // namespace postlude::inline v0::cuda
