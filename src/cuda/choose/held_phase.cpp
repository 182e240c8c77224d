#include "cuda/choose/held_phase.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace postlude::inline v0::cuda {
namespace {

using lower::BufferId;
using lower::Instruction;
using lower::Phase;
using lower::Program;
using lower::Reducer;
using lower::Reduction;
using lower::Store;
using lower::ValueId;

// Whether two instructions of two phases compute the same from the same arguments.
bool same_operation(const Instruction& a, const Instruction& b) {
  const auto key = [](const Instruction& i) {
    return std::tie(i.op, i.type, i.axes.bits, i.batched, i.literal.type, i.literal.real, i.literal.integer, i.dtype,
                    i.round, i.seed, i.random_stream, i.function, i.count_axes.bits, i.group);
  };
  return a.guard < 0 && b.guard < 0 && key(a) == key(b) && a.access == b.access && a.rows == b.rows &&
         a.columns == b.columns && a.args.size() == b.args.size();
}

// Whether a load from memory of `dtype` gives the very value that was stored there.
bool exact(const Phase& phase, ValueId id, DType dtype) {
  const Instruction& i = phase.code[id];
  return dtype == i.type || (i.op == Op::cast && i.dtype == dtype && i.guard < 0);
}

// The value x - m of exp(x - m) / s, where x was kept and {m, s} is its online softmax, else -1.
// The dividend is in [0, 1], the divisor in [1, 2^31) or NaN (which `where` may say for rows of
// -inf).
ValueId weight_of(const Phase& first, const std::vector<FragmentPlan::Kept>& kept, const Phase& second,
                  const Instruction& i) {
  const auto is = [&](ValueId id, Op op) { return second.code[id].op == op && second.code[id].guard < 0; };
  const auto loads = [&](ValueId id, BufferId b) { return is(id, Op::operand) && second.code[id].access.buffer == b; };
  if (i.op != Op::div || i.guard >= 0 || !is(i.args[0], Op::exp)) return -1;
  const ValueId difference = second.code[i.args[0]].args[0];
  if (!is(difference, Op::sub) || !is(second.code[difference].args[0], Op::acc)) return -1;
  if (kept.size() != 1 || kept[0].dtype != DType::f32) return -1;
  ValueId sum = i.args[1];
  if (is(sum, Op::where) && is(second.code[sum].args[1], Op::constant) &&
      std::isnan(second.code[second.code[sum].args[1]].literal.value()))
    sum = second.code[sum].args[2];
  const bool found = std::any_of(first.reductions.begin(), first.reductions.end(), [&](const Reduction& r) {
    return r.reducer == Reducer::online_softmax && r.pieces.size() == 1 && r.pieces[0].args[0] == kept[0].value &&
           loads(second.code[difference].args[1], r.results[0]) && loads(sum, r.results[1]);
  });
  return found ? difference : -1;
}

// What a value is at least: so many times a statistic, and so much.
struct Least {
  double times = 0, number = 0;
};

// Of what follows from `statistic` by a larger constant and positive factors; none: of something else, or it may
// underflow on the way.
std::optional<Least> least_of(const Phase& phase, ValueId id, BufferId statistic) {
  const Instruction& i = phase.code[id];
  if (i.guard >= 0 || i.type != DType::f32) return {};
  if (i.op == Op::operand) return i.access.buffer == statistic ? std::optional<Least>({1, 0}) : std::nullopt;
  if (i.op != Op::max && i.op != Op::mul && i.op != Op::div) return {};
  const bool first = i.op != Op::div && phase.code[i.args[0]].op == Op::constant;
  const Instruction& constant = phase.code[i.args[first ? 0 : 1]];
  if (constant.op != Op::constant || !(constant.literal.value() > 0)) return {};
  const std::optional<Least> of = least_of(phase, i.args[first ? 1 : 0], statistic);
  if (!of) return {};
  const double number = constant.literal.value(), factor = i.op == Op::div ? 1 / number : number;
  if (i.op == Op::max) return Least{of->times, std::max(of->number, number)};
  const Least scaled{of->times * factor, of->number * factor};
  const bool normal = scaled.times >= 0x1p-60 && (scaled.number == 0 || scaled.number >= 0x1p-100);
  return normal ? std::optional(scaled) : std::nullopt;
}

// Of a kept value x divided by a scale that follows from max(abs(x)) (FragmentCode::Value::bounded) what it is at most
// in size, but for rounding; 0: it is no such quotient.
double bound_of(const Phase& first, const std::vector<FragmentPlan::Kept>& kept, const Phase& second,
                const Instruction& i) {
  constexpr double least = 0x1p-72, most = 0.25, large = 0x1p+60;
  if (i.op != Op::div || i.guard >= 0 || second.code[i.args[0]].op != Op::acc) return 0;
  const auto& steps = second.code[i.args[0]].access.columns.steps;
  const FragmentPlan::Kept& x = kept[steps.empty() ? 0 : static_cast<std::size_t>(steps[0].piece)];
  if (x.dtype != DType::f32) return 0;
  for (const Reduction& r : first.reductions) {
    const Instruction& size = first.code[r.pieces[0].args[0]];
    if (r.reducer != Reducer::max || r.type != DType::f32 || r.pieces.size() != 1) continue;
    if (size.op != Op::abs || size.guard >= 0 || size.args[0] != x.value) continue;
    if (const std::optional<Least> by = least_of(second, i.args[1], r.results[0]))
      return by->times <= most && by->number >= least && by->number <= large ? 1 / by->times : 0;
  }
  return 0;
}

// The first phase, and a second one that may be held on its registers.
class Candidate {
 public:
  Candidate(const Program& program, const FusedEpilogue& epilogue, int index)
      : program_(program),
        epilogue_(epilogue),
        index_(index),
        first_(program.phases[epilogue.phase]),
        next_(program.phases[index]) {
    for (const Reduction& r : first_.reductions) {
      if (r.group && r.axes.has(Axis::n)) groups_ = groups_of(r);
    }
  }

  [[nodiscard]] std::optional<HeldPhase> held() const;

 private:
  [[nodiscard]] bool over_same_tiles() const;
  [[nodiscard]] bool may_overwrite() const;
  [[nodiscard]] std::vector<bool> grouped_values(const Phase& phase) const;
  [[nodiscard]] bool of_groups_alone() const;
  [[nodiscard]] bool finds_what_was_stored() const;
  [[nodiscard]] const Store* stored_here(const Instruction& load) const;
  [[nodiscard]] std::vector<ValueId> same_values() const;
  [[nodiscard]] std::optional<std::vector<ValueId>> staying(const std::vector<ValueId>& same) const;
  [[nodiscard]] bool same_size(BufferId a, BufferId b) const {
    const auto &x = program_.buffers[a], &y = program_.buffers[b];
    return (x.axes & tile_axes) == (y.axes & tile_axes) && x.rows == y.rows && x.columns == y.columns;
  }

  const Program& program_;
  const FusedEpilogue& epilogue_;
  int index_;
  const Phase &first_, &next_;
  ColumnGroups groups_;  // of the first phase; none: the statistics are of groups of rows, or of rows
};

std::optional<HeldPhase> Candidate::held() const {
  const bool by_group = epilogue_.needs.in_groups();
  if (!over_same_tiles()) return {};
  if (by_group && (may_overwrite() || !of_groups_alone())) return {};
  if (!finds_what_was_stored()) return {};
  const std::vector<ValueId> same = same_values();
  const std::optional<std::vector<ValueId>> stays = staying(same);
  if (!stays) return {};

  HeldPhase held;
  held.index = index_;
  auto second = std::make_shared<Phase>(next_);
  for (const ValueId id : *stays) {
    Instruction& i = second->code[id];
    const Store* store = stored_here(i);
    const FragmentPlan::Kept one{store ? store->value : same[id],
                                 same[id] < 0 ? program_.buffers[i.access.buffer].dtype : DType::f32};
    const auto found = std::find(held.kept.begin(), held.kept.end(), one);
    const auto part = found - held.kept.begin();
    if (found == held.kept.end()) held.kept.push_back(one);
    Instruction acc;
    acc.op = Op::acc, acc.type = i.type, acc.axes = i.axes, acc.batched = i.batched;
    if (part) acc.access.columns.steps.push_back({.pieces = 2, .piece = part});
    i = acc;
  }
  if (static_cast<int>(held.kept.size()) > accumulator_parts(first_)) return {};
  for (Instruction& i : second->code) {
    const ValueId difference = weight_of(first_, held.kept, *second, i);
    held.weights.push_back(difference >= 0);
    held.bounded.push_back(bound_of(first_, held.kept, *second, i));
    if (difference >= 0) i.args[0] = difference;
  }
  held.grouped = by_group ? grouped_values(*second) : std::vector<bool>(second->code.size());
  // Values that only crossed to the second phase are not stored.
  auto first = std::make_shared<Phase>(first_);
  std::erase_if(first->stores, [&](const Store& store) {
    return program_.buffers[store.access.buffer].kind == lower::BufferKind::crossing;
  });
  held.repeats = !by_group && first->stores.empty() && !may_overwrite();
  held.first = std::move(first), held.second = std::move(second);
  return held;
}

// The rows must be its own too, or its groups', because a tile does not wait for tiles of other rows.
bool Candidate::over_same_tiles() const {
  const auto own_rows = [&](const Phase& phase) {
    return std::none_of(phase.code.begin(), phase.code.end(), [&](const Instruction& i) {
      return i.op == Op::operand && program_.buffers[i.access.buffer].axes.has(Axis::m) && i.access.divide_rows != 1 &&
             i.access.divide_rows != epilogue_.needs.row_group;
    });
  };
  return next_.domain == first_.domain && next_.batched == first_.batched && next_.rows == first_.rows &&
         next_.columns == first_.columns && next_.reductions.empty() && !next_.reads_accumulator() &&
         own_rows(first_) && own_rows(next_);
}

// Whether the held phase may store over an operand that another tile's first phase still reads.
bool Candidate::may_overwrite() const {
  return std::any_of(first_.code.begin(), first_.code.end(), [&](const Instruction& i) {
    if (i.op != Op::operand || program_.buffers[i.access.buffer].kind != lower::BufferKind::operand) return false;
    const auto stored_over = [&](const Store& store) {
      return same_size(i.access.buffer, store.access.buffer) &&
             std::none_of(next_.stores.begin(), next_.stores.end(), [&](const Store& s) {
               return s.access.buffer == store.access.buffer && s.access.columns == i.access.columns &&
                      s.access.divide_rows == i.access.divide_rows;
             });
    };
    return std::any_of(next_.stores.begin(), next_.stores.end(), stored_over);
  });
}

// The values of a phase that vary along N, but not in a group of columns, or else along M, but not in a group of rows.
std::vector<bool> Candidate::grouped_values(const Phase& phase) const {
  const bool columns = groups_.columns != 0;
  std::vector<bool> same(phase.code.size()), grouped(phase.code.size());
  for (std::size_t id = 0; id < phase.code.size(); ++id) {
    const Instruction& i = phase.code[id];
    const bool varies = i.axes.has(columns ? Axis::n : Axis::m);
    const bool placed = i.args.empty() || (i.op == Op::cast && i.round == Round::stochastic);
    const bool reached =
        columns ? groups_.reached_by(i.access.columns) : i.access.divide_rows == epilogue_.needs.row_group;
    same[id] = !varies || ((!placed || reached) &&
                           std::all_of(i.args.begin(), i.args.end(), [&](ValueId arg) { return same[arg]; }));
    grouped[id] = same[id] && varies;
  }
  return grouped;
}

// Whether the only statistics that it needs are its groups'. A value that is the same in a group of columns is a row's:
// no value of a column alone can take it. In a group of rows it is a column's.
bool Candidate::of_groups_alone() const {
  const auto own = [&](const Reduction& r, bool blocks) {
    const bool rows = blocks || r.axes.has(Axis::m), columns = blocks || !rows;
    return std::all_of(next_.code.begin(), next_.code.end(), [&](const Instruction& i) {
      const bool loads =
          i.op == Op::operand && std::find(r.results.begin(), r.results.end(), i.access.buffer) != r.results.end();
      return !loads || (r.group && i.access.divide_rows == (rows ? r.group : 1) &&
                        (columns ? groups_.reached_by(i.access.columns) : i.access.columns.identity()));
    });
  };
  const auto all_own = [&](const Phase& phase, bool blocks) {
    return std::all_of(phase.reductions.begin(), phase.reductions.end(),
                       [&](const Reduction& r) { return own(r, blocks); });
  };
  if (!all_own(first_, false)) return false;
  if (epilogue_.block_phase >= 0 && !all_own(program_.phases[epilogue_.block_phase], true)) return false;
  const Level alone = groups_.columns ? Level::column : Level::row;
  const std::vector<bool> grouped = grouped_values(next_);
  for (std::size_t id = 0; id < next_.code.size(); ++id) {
    const Instruction& i = next_.code[id];
    if (grouped[id] || level_of(i.axes) != alone) continue;
    if (std::any_of(i.args.begin(), i.args.end(), [&](ValueId arg) { return grouped[arg]; })) return false;
  }
  return true;
}

// Whether it loads what the first phase stored, as it was.
bool Candidate::finds_what_was_stored() const {
  return std::all_of(next_.code.begin(), next_.code.end(), [&](const Instruction& i) {
    if (i.op != Op::operand || !first_.stores_to(i.access.buffer)) return true;
    const Store* store = stored_here(i);
    return store && i.guard < 0 && i.type == first_.code[store->value].type;
  });
}

// The first phase's store that a later phase's load reads; null: there is none.
const Store* Candidate::stored_here(const Instruction& load) const {
  if (load.op != Op::operand) return nullptr;
  for (const Store& store : first_.stores) {
    if (store.access == load.access) return &store;
  }
  return nullptr;
}

// For each value of the second phase the equal one of the first; -1: none.
std::vector<ValueId> Candidate::same_values() const {
  std::vector<ValueId> same(next_.code.size(), -1);
  for (std::size_t id = 0; id < next_.code.size(); ++id) {
    const Instruction& i = next_.code[id];
    if (const Store* store = stored_here(i)) {
      if (exact(first_, store->value, program_.buffers[i.access.buffer].dtype)) same[id] = store->value;
      continue;
    }
    const auto computes_it = [&](const Instruction& of) {
      for (std::size_t k = 0; k < i.args.size() && k < of.args.size(); ++k) {
        if (same[i.args[k]] != of.args[k]) return false;
      }
      return same_operation(i, of);
    };
    const auto first = std::find_if(first_.code.begin(), first_.code.end(), computes_it);
    if (first != first_.code.end()) same[id] = static_cast<ValueId>(first - first_.code.begin());
  }
  return same;
}

// The values that stay in registers for it, found from its stores back to what the first phase has
// computed; a value that needs no memory is computed again. None where it takes other than f32
// elements from the first phase, or a value that a small phase stores.
std::optional<std::vector<ValueId>> Candidate::staying(const std::vector<ValueId>& same) const {
  std::vector<bool> wanted(next_.code.size()), of_memory(next_.code.size());
  for (std::size_t id = 0; id < next_.code.size(); ++id) {
    const Instruction& i = next_.code[id];
    of_memory[id] =
        i.op == Op::operand || std::any_of(i.args.begin(), i.args.end(), [&](ValueId arg) { return of_memory[arg]; });
  }
  for (const Store& store : next_.stores) wanted[store.value] = true;
  std::vector<ValueId> stays;
  for (auto id = static_cast<ValueId>(next_.code.size()) - 1; id >= 0; --id) {
    if (!wanted[id]) continue;
    const Instruction& i = next_.code[id];
    const Store* store = stored_here(i);
    const bool element = level_of(i.axes) == Level::element;
    if (element && (store || (same[id] >= 0 && i.op != Op::operand && of_memory[id]))) {
      if (i.type != DType::f32) return {};
      stays.push_back(id);
      continue;
    }
    if (store) return {};
    for (const ValueId arg : i.args) wanted[arg] = true;
    if (i.guard >= 0) wanted[i.guard] = true;
    if (i.op != Op::operand) continue;
    for (const int p : epilogue_.finished) {
      if (program_.phases[p].stores_to(i.access.buffer)) return {};
    }
  }
  return stays;
}

}  // namespace

bool ColumnGroups::reached_by(const lower::ColumnMap& map) const {
  const bool halves = map.steps.size() == 1 && map.steps[0].pieces == 2 && map.steps[0].group == chunk;
  return map.divide == columns && (chunk ? halves : map.steps.empty());
}

ColumnGroups groups_of(const Reduction& r) {
  const auto& steps = r.pieces[0].columns.steps;
  return {r.group, r.group && !steps.empty() ? steps[0].group : 0};
}

std::optional<HeldPhase> held_phase(const Program& program, const FusedEpilogue& epilogue, Hold most) {
  const auto finishes = [&](Across across) { return epilogue.finishes[static_cast<int>(across)]; };
  const bool rows_alone = finishes(Across::rows) && !finishes(Across::columns) && !finishes(Across::all);
  if (program.accumulator != DType::f32) return {};
  if (!epilogue.needs.in_groups() && (most != Hold::rows || !rows_alone)) return {};
  // A column's state waits for all rows of a tile, and those of its groups of rows do not.
  if (epilogue.needs.row_group && finishes(Across::columns)) return {};
  int left = -1;
  for (int p = epilogue.phase + 1; p < static_cast<int>(program.phases.size()); ++p) {
    if (epilogue.runs(p)) continue;
    if (left >= 0) return {};
    left = p;
  }
  if (left < 0) return {};
  return Candidate(program, epilogue, left).held();
}

}  // namespace postlude::inline v0::cuda
