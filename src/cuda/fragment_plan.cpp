#include "cuda/fragment_plan.h"

#include "core/divide.h"
#include "cuda/emit_code.h"
#include "cuda/emit_reduce.h"

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

// The widest subtile of a schedule.
constexpr int widest_subtile = 64;

// Groups of a chunk that subtiles divide.
constexpr std::int64_t half_unit = 32;

Level level_of(Axes axes) {
  if (axes.has(Axis::m)) return axes.has(Axis::n) ? Level::element : Level::row;
  return axes.has(Axis::n) ? Level::column : Level::uniform;
}

Across kept(bool rows, bool columns) { return rows ? Across::rows : columns ? Across::columns : Across::all; }

Across reduced(const Reduction& r) { return kept(!r.axes.has(Axis::m), !r.axes.has(Axis::n)); }

// Whether the columns of a subtile lie side by side in the buffer: they are its own, or one half of a chunk's columns
// or groups.
bool beside(const Access& access) {
  const auto& map = access.columns;
  if (access.divide_rows != 1 || map.divide != 1 || map.steps.size() > 1) return false;
  return map.steps.empty() || map.steps[0].group == 0 || map.steps[0].group % (map.steps[0].pieces * half_unit) == 0;
}

// About how many instructions an element takes.
int operations(const Instruction& i) {
  switch (i.op) {
    case Op::acc:
    case Op::operand:
    case Op::constant: return 0;
    case Op::exp:
    case Op::exp2:
    case Op::div: return 10;
    case Op::log:
    case Op::log2:
    case Op::tanh: return 20;
    case Op::erf:
    case Op::expm1:
    case Op::log1p:
    case Op::random:
    case Op::sin:
    case Op::cos: return 40;
    case Op::pow: return 80;
    case Op::call: return 10;
    default: return 1;
  }
}

int operations(const Reduction& r) {
  return r.reducer == Reducer::online_softmax || r.reducer == Reducer::welford ? 12 : 6;
}

class Planner {
 public:
  Planner(const Program& program, int index, const std::vector<BufferPlace>& places)
      : program_(program), phase_(program.phases[index]), index_(index), places_(places) {}

  FragmentPlan run(bool may_follow);

 private:
  void accumulator();
  void values();
  void tile_operands();
  void stores();
  void reductions();
  void small_phases();
  [[nodiscard]] int following() const;
  void follow(int phase);

  bool is_loaded_tile(const Instruction& i) const;
  bool is_prefetched(const Instruction& i) const;
  ValueId label_of(const Instruction& i) const;
  std::vector<ValueId> load_guards() const;
  [[nodiscard]] int bytes(BufferId buffer) const { return static_cast<int>(size_of(program_.buffers[buffer].dtype)); }
  // Subtiles must not straddle the halves of a chunk's groups.
  void hold_together(const lower::ColumnMap& map) {
    if (map.steps.empty() || map.steps[0].group == 0) return;
    const int half = static_cast<int>(map.steps[0].group / map.steps[0].pieces);
    e_.needs.run = e_.needs.run ? std::gcd(e_.needs.run, half) : half;
  }

  const Program& program_;
  const Phase& phase_;
  int index_;
  const std::vector<BufferPlace>& places_;
  FragmentPlan plan_;
  FusedEpilogue& e_ = plan_.epilogue;
};

FragmentPlan Planner::run(bool may_follow) {
  e_.phase = index_;
  e_.word_of.assign(program_.buffers.size(), -1);
  e_.columns_word = e_.take_words(1);
  accumulator();
  values();
  tile_operands();
  stores();
  e_.stores = static_cast<int>(e_.stored.size());
  e_.maps = static_cast<int>(e_.loaded.size() + e_.stored.size());
  for (const BufferId buffer : e_.loaded) e_.word(buffer);
  for (const BufferId buffer : e_.stored) e_.word(buffer);
  reductions();
  small_phases();
  if (may_follow) follow(following());
  plan_.read_later.resize(program_.buffers.size());
  for (int p = index_ + 1; p < static_cast<int>(program_.phases.size()); ++p) {
    if (e_.runs(p)) continue;
    for (const Instruction& i : program_.phases[p].code) {
      if (i.op == Op::operand) plan_.read_later[i.access.buffer] = true;
    }
  }
  return std::move(plan_);
}

void Planner::accumulator() {
  e_.needs.parts = accumulator_parts(phase_);
  for (const Instruction& i : phase_.code) {
    if (i.op != Op::acc || i.access.columns.steps.empty()) continue;
    e_.needs.half = static_cast<int>(i.access.columns.steps[0].group / 2);
    hold_together(i.access.columns);
  }
}

void Planner::values() {
  const std::vector<bool> wanted = needed(phase_, sinks(phase_, true, true));
  for (std::size_t id = 0; id < phase_.code.size(); ++id)
    plan_.values.push_back({.level = level_of(phase_.code[id].axes), .wanted = wanted[id]});
  for (std::size_t id = 0; id < phase_.code.size(); ++id) {
    const Instruction& i = phase_.code[id];
    FragmentPlan::Value& value = plan_.values[id];
    if (!value.wanted) continue;
    if (value.level == Level::element) e_.needs.operations += operations(i);
    value.prefetched = is_prefetched(i);
    value.label = label_of(i);
  }
  for (const Reduction& r : phase_.reductions) e_.needs.operations += operations(r);
}

// A row operand whose columns are neighbours in memory: read one subtile ahead, so that its latency, which no other
// warp of the scheduler hides, lies under a main loop or a subtile (bias_gelu at K = 1024: 1.05 of cuBLAS without).
bool Planner::is_prefetched(const Instruction& i) const {
  if (i.op != Op::operand || i.guard >= 0 || i.type != DType::f32 || level_of(i.axes) != Level::column) return false;
  const DType dtype = program_.buffers[i.access.buffer].dtype;
  return i.access.columns.divide == 1 && places_[i.access.buffer].unit && size_of(dtype) >= 2 && is_float(dtype) &&
         std::all_of(i.access.columns.steps.begin(), i.access.columns.steps.end(),
                     [](const auto& step) { return step.group == 0; });
}

ValueId Planner::label_of(const Instruction& i) const {
  if (i.op != Op::eq || i.guard >= 0) return -1;
  for (int k = 0; k < 2; ++k) {
    const Instruction& index = phase_.code[i.args[k]];
    if (index.op != Op::cast || index.type != DType::i64) continue;
    if (plan_.values[i.args[1 - k]].level != Level::row) continue;
    const Instruction& column = phase_.code[index.args[0]];
    if (column.op == Op::n_index && plain(column.access)) return i.args[1 - k];
  }
  return -1;
}

bool Planner::is_loaded_tile(const Instruction& i) const {
  return i.op == Op::operand && level_of(program_.buffers[i.access.buffer].axes) == Level::element &&
         beside(i.access) && places_[i.access.buffer].tensor_map;
}

// The guard that all users of a value share, else -1.
std::vector<ValueId> Planner::load_guards() const {
  std::vector<ValueId> guards(phase_.code.size(), -1);
  std::vector<bool> free(phase_.code.size());
  for (const ValueId sink : sinks(phase_, true, true)) free[sink] = true;
  for (std::size_t id = 0; id < phase_.code.size(); ++id) {
    if (!plan_.values[id].wanted) continue;
    for (const ValueId arg : phase_.code[id].args) {
      const ValueId guard = phase_.code[id].guard;
      if (guard < 0 || (guards[arg] >= 0 && guards[arg] != guard)) free[arg] = true;
      guards[arg] = guard;
    }
  }
  for (std::size_t id = 0; id < phase_.code.size(); ++id) {
    if (free[id]) guards[id] = -1;
  }
  return guards;
}

void Planner::tile_operands() {
  const std::vector<ValueId> guards = load_guards();
  for (std::size_t id = 0; id < phase_.code.size(); ++id) {
    const Access& access = phase_.code[id].access;
    if (!plan_.values[id].wanted || !is_loaded_tile(phase_.code[id])) continue;
    if (const int k = plan_.map_of(access); k >= 0) {  // guarded only if every load by this map is, by the same value
      if (plan_.loads[k].guard != guards[id]) plan_.loads[k].guard = -1;
      continue;
    }
    e_.loaded.push_back(access.buffer);
    e_.columns.push_back(access.columns);
    plan_.loads.push_back({guards[id], e_.needs.aux_bytes_column});
    hold_together(access.columns);
    e_.needs.aux_bytes_column += bytes(access.buffer);
  }
}

void Planner::stores() {
  e_.needs.d_bytes_column = 0;
  for (const auto& store : phase_.stores) {
    const BufferId b = store.access.buffer;
    const BufferPlace& place = places_[b];
    const bool rows = place.unit && bytes(b) <= 4 && program_.buffers[b].rows == Extent{};
    if (level_of(program_.buffers[b].axes) != Level::element || !beside(store.access) || !(place.tensor_map || rows)) {
      plan_.direct.push_back(&store);
      continue;
    }
    plan_.staged.push_back({&store, place.tensor_map, e_.needs.d_bytes_column});
    if (place.tensor_map) e_.stored.push_back(b), e_.columns.push_back(store.access.columns);
    hold_together(store.access.columns);
    e_.copies = e_.copies || !place.tensor_map;
    e_.needs.d_bytes_column += bytes(b);
  }
}

void Planner::reductions() {
  for (const Reduction& r : phase_.reductions) {
    const Across across = reduced(r);
    e_.partials.push_back({across, state_bytes(phase_, r), e_.take_words(1), 0, e_.finish_bytes});
    e_.finish_bytes += static_cast<int>(round_up(e_.partials.back().bytes * (across == Across::columns ? 256
                                                                             : across == Across::all   ? 8
                                                                                                       : 0),
                                                 16));
    e_.finishes[static_cast<int>(across)] = true;
  }
  // Shared memory: of each column a state a warp, twice, as subtiles follow one another; of everything one a warp.
  std::int64_t scratch = 0;
  for (const Across across : {Across::columns, Across::all}) {
    for (auto& partial : e_.partials) {
      if (partial.across != across) continue;
      partial.scratch = static_cast<int>(scratch);
      scratch = round_up(scratch + 4 * partial.bytes * (across == Across::columns ? 2 * widest_subtile : 1), 16);
    }
  }
  e_.needs.scratch_bytes = static_cast<int>(round_up(scratch, 128));
  if (!e_.partials.empty()) e_.counters_word = e_.take_words(1);
}

// Small phases that follow from statistics of one kind alone.
void Planner::small_phases() {
  constexpr int elsewhere = 3;
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
    if (!small.reductions.empty() || level_of(small.domain) == Level::element) continue;
    const Across across = across_of(small);
    if (!e_.finishes[static_cast<int>(across)]) continue;
    bool here = small.rows == Extent{} && (across != Across::columns || small.columns == phase_.columns);
    for (const Instruction& i : small.code) {
      if (i.op != Op::operand) continue;
      const int from = owner[i.access.buffer];
      here = here && (from < 0 || (from == static_cast<int>(across) && plain(i.access)));
    }
    if (!here) continue;
    e_.finished.push_back(p);
    for (const auto& store : small.stores) owner[store.access.buffer] = static_cast<int>(across);
  }
}

// The phase that can follow in this launch: the only one that is left, over the same tiles, of stores alone, which
// reads nothing of other rows but what was there before. -1: none.
int Planner::following() const {
  if (!plan_.direct.empty() || e_.copies || e_.stored.empty() || !e_.finishes[0] || e_.finishes[1] || e_.finishes[2])
    return -1;
  int found = -1;
  for (int p = index_ + 1; p < static_cast<int>(program_.phases.size()); ++p) {
    if (e_.runs(p)) continue;
    if (found >= 0) return -1;
    found = p;
  }
  if (found < 0) return -1;
  const Phase& next = program_.phases[found];
  if (!(next.domain == phase_.domain) || !next.reductions.empty() || next.reads_accumulator() ||
      next.batched != phase_.batched || !(next.rows == Extent{}) || !(next.columns == phase_.columns))
    return -1;
  for (const Instruction& i : next.code) {
    if (i.op != Op::operand) continue;
    const BufferId b = i.access.buffer;
    if (program_.buffers[b].axes.has(Axis::m) && i.access.divide_rows != 1) return -1;
    for (const int p : e_.finished) {
      for (const auto& store : program_.phases[p].stores) {
        if (store.access.buffer == b) return -1;
      }
    }
    const bool stored = std::find(e_.stored.begin(), e_.stored.end(), b) != e_.stored.end();
    if (stored && !(plain(i.access) && places_[b].wide && i.guard < 0)) return -1;
  }
  return found;
}

void Planner::follow(int phase) {
  if (phase < 0) return;
  e_.following = phase;
  e_.needs.follows = true;
  for (const Instruction& i : program_.phases[phase].code) {
    if (level_of(i.axes) == Level::element) e_.following_operations += operations(i);
  }
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

int accumulator_parts(const Phase& phase) {
  for (const Instruction& i : phase.code) {
    if (i.op == Op::acc && !i.access.columns.steps.empty()) return 2;
  }
  return 1;
}

int FragmentPlan::map_of(const Access& access) const {
  for (std::size_t k = 0; k < epilogue.loaded.size() && access.divide_rows == 1; ++k) {
    if (epilogue.loaded[k] == access.buffer && epilogue.columns[k] == access.columns) return static_cast<int>(k);
  }
  return -1;
}

Across across_of(const Phase& small) { return kept(small.domain.has(Axis::m), small.domain.has(Axis::n)); }

std::string not_fusable(const Program& program, int index) {
  const Phase& phase = program.phases[index];
  if (!(phase.domain == (Axis::m | Axis::n)) || !phase.reads_accumulator())
    return "the phase does not run over the product's tiles";
  if (!(phase.rows == Extent{})) return "the phase has other rows than the product";
  const int parts = accumulator_parts(phase);
  std::int64_t group = -1;
  for (const Instruction& i : phase.code) {
    if (i.op != Op::acc) continue;
    const auto& map = i.access.columns;
    const bool halves = beside(i.access) && map.steps.size() == 1 && map.steps[0].pieces == 2 &&
                        (group < 0 || map.steps[0].group == group);
    if (parts == 2 ? !halves : !map.identity())
      return "the accumulator is chunked otherwise than in halves of N, or of one group that 64 columns divide";
    if (halves) group = map.steps[0].group;
  }
  for (const Reduction& r : phase.reductions) {
    if (r.axes.has(Axis::b)) return "a reduction goes across the batch";
    if (r.group) return "a reduction is grouped";
    for (const auto& piece : r.pieces) {
      if (!r.axes.has(Axis::n) && !piece.columns.identity()) return "a reduction over M keeps chunked columns";
    }
  }
  return {};
}

FragmentPlan plan_fragment(const Program& program, int index, const std::vector<BufferPlace>& places, bool may_follow) {
  return Planner(program, index, places).run(may_follow);
}

}  // namespace postlude::inline v0::cuda
