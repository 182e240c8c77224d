#include "lower/cut.h"

#include "core/convert.h"
#include "lower/flow.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace postlude::inline v0::lower {
namespace {

// ---- the smallest dtype that holds a value exactly ----------------------------------------------

bool narrow_float(DType t) { return t == DType::e4m3 || t == DType::e5m2; }

bool holds(DType outer, DType inner) {
  if (outer == inner) return true;
  if (outer == DType::f32) return is_float(inner);
  if (outer == DType::f16 || outer == DType::bf16) return narrow_float(inner);
  return (outer == DType::i32 && (inner == DType::s8 || inner == DType::u8));
}

DType join(DType a, DType b) {
  if (holds(a, b)) return a;
  if (holds(b, a)) return b;
  if (narrow_float(a) && narrow_float(b)) return DType::bf16;
  return is_float(a) ? DType::f32 : DType::i32;
}

// Every value of an operand: an e5m2 in memory may be infinite, which a store as e5m2 would
// saturate.
DType loaded(DType dtype) { return dtype == DType::e5m2 ? DType::f16 : dtype; }

bool holds_constant(DType dtype, const Literal& c) {
  if (c.type == DType::f32)
    return !is_float(dtype) ? false : core::round_to(dtype, c.real) == c.real || c.real != c.real;
  if (dtype == DType::s8) return c.integer >= -128 && c.integer <= 127;
  if (dtype == DType::u8) return c.integer >= 0 && c.integer <= 255;
  return true;
}

DType with_constant(DType dtype, const Literal& c) {
  if (holds_constant(dtype, c)) return dtype;
  if (narrow_float(dtype))
    for (DType wider : {DType::bf16, DType::f16})
      if (holds_constant(wider, c)) return wider;
  return c.type;
}

// min, max, where, relu, neg, abs of exact values are exact.
DType exact_dtype(const Item& item, const std::vector<Item>& items, const std::vector<DType>& dtypes,
                  const std::vector<DType>& operand_types, const std::optional<Facts::Source>& source) {
  std::size_t first = 0;
  switch (item.op) {
    case Op::acc: return source && compute_type(source->dtype) == item.type ? loaded(source->dtype) : item.type;
    case Op::operand: {
      const DType dtype = loaded(operand_types[item.index]);
      return compute_type(dtype) == item.type ? dtype : item.type;
    }
    case Op::cast: {
      if (compute_type(item.dtype) == item.type) return item.dtype;
      return item.type;
    }
    case Op::neg:
    case Op::abs:
      if (item.type != DType::f32) return item.type;
      break;
    case Op::call:
      if (!item.function->prelude || item.function->name != "relu" || item.type != items[item.args[0]].type)
        return item.type;
      return with_constant(dtypes[item.args[0]], {item.type, 0, 0});
    case Op::where: first = 1; break;
    case Op::chunk:
    case Op::concat:
    case Op::repeat:
    case Op::min:
    case Op::max: break;
    default: return item.type;
  }
  if (item.type == DType::boolean) return item.type;
  std::optional<DType> result;
  for (std::size_t i = first; i < item.args.size(); ++i)
    if (items[item.args[i]].op != Op::constant)
      result = result ? join(*result, dtypes[item.args[i]]) : dtypes[item.args[i]];
  if (!result) return item.type;
  for (std::size_t i = first; i < item.args.size(); ++i)
    if (items[item.args[i]].op == Op::constant) result = with_constant(*result, items[item.args[i]].literal);
  return *result;
}

// ---- the cut ------------------------------------------------------------------------------------

class Cutter {
 public:
  Cutter(const Work& work, Phases& phases, const std::vector<DType>& operand_types,
         const std::optional<Facts::Source>& source, const Options& options)
      : work_(work),
        items_(work.items),
        p_(phases),
        operand_types_(operand_types),
        source_(source),
        options_(options) {}

  Cut run() {
    result_.reads.resize(p_.phases.size());
    result_.dtypes.reserve(items_.size());
    for (const Item& item : items_)
      result_.dtypes.push_back(exact_dtype(item, items_, result_.dtypes, operand_types_, source_));
    computed_.assign(items_.size(), -1);
    overwritten();
    outputs();
    base_ = p_.accumulator;
    for (std::size_t p = 0; p < p_.phases.size(); ++p) {
      if (p_.phases[p].domain != tile_axes) continue;
      if (base_ < 0 && p_.phases[p].batched == work_.batched) base_ = static_cast<std::int32_t>(p);
      cut_before(static_cast<std::int32_t>(p));
    }
    return std::move(result_);
  }

 private:
  const Work& work_;
  const std::vector<Item>& items_;
  Phases& p_;
  const std::vector<DType>& operand_types_;
  const std::optional<Facts::Source>& source_;
  const Options& options_;
  Cut result_;
  std::int32_t base_ = -1;                   // the tile phase that can compute whatever needs no statistic
  std::vector<std::int32_t> computed_;       // the last tile phase behind base_ that computes an item
  std::vector<std::int32_t> overwritten_;    // one an operand: the phase that overwrites it, or a large number
  std::int32_t source_overwritten_ = never;  // the same for the accumulator's source
  std::unordered_map<NodeId, std::pair<std::int32_t, std::int32_t>>
      in_output_;  // item -> (output, phase that stores it)

  static constexpr std::int32_t never = std::int32_t{1} << 30;

  std::int32_t phase_of_output(std::int32_t output) const {
    for (std::size_t p = 0; p < p_.phases.size(); ++p)
      for (const Root& root : p_.phases[p].roots)
        if (root.output == output) return static_cast<std::int32_t>(p);
    return never;
  }

  void overwritten() {
    overwritten_.assign(operand_types_.size(), never);
    for (std::size_t o = 0; o < work_.outputs.size(); ++o) {
      const std::string* operand = in_place_of(options_, work_.graph->outputs[work_.outputs[o].declaration].name);
      if (!operand) continue;
      const std::int32_t phase = phase_of_output(static_cast<std::int32_t>(o));
      if (source_ && *operand == source_->name) source_overwritten_ = std::min(source_overwritten_, phase);
      for (std::size_t i = 0; i < operand_types_.size(); ++i)
        if (work_.graph->operands[i].name == *operand) overwritten_[i] = std::min(overwritten_[i], phase);
    }
  }

  // An output holds its value exactly where the dtype suffices, and always its value cast to the
  // dtype.
  void outputs() {
    std::unordered_map<NodeId, std::vector<std::pair<DType, std::int32_t>>> rounded;  // value -> (dtype, output)
    for (std::size_t p = 0; p < p_.phases.size(); ++p) {
      for (const Root& root : p_.phases[p].roots) {
        if (root.kind != Root::Kind::output || p_.phases[p].domain != tile_axes) continue;
        const WorkOutput& out = work_.outputs[root.output];
        if (in_place_of(options_, work_.graph->outputs[out.declaration].name)) continue;
        const auto where = std::pair(root.output, static_cast<std::int32_t>(p));
        if (holds(out.dtype, result_.dtypes[root.item])) in_output_.emplace(root.item, where);
        rounded[root.item].emplace_back(out.dtype, root.output);
      }
    }
    if (rounded.empty()) return;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      if (item.op != Op::cast || item.round != Round::nearest_even || compute_type(item.dtype) != item.type) continue;
      const auto it = rounded.find(item.args[0]);
      if (it == rounded.end()) continue;
      for (const auto& [dtype, output] : it->second)
        if (dtype == item.dtype) in_output_.emplace(static_cast<NodeId>(i), std::pair(output, phase_of_output(output)));
    }
  }

  // Whether a phase can neither read the value nor compute it from operands.
  bool is_source(NodeId id, std::int32_t phase) const {
    const Item& item = items_[id];
    if (item.op == Op::acc) return phase != p_.accumulator && (!source_ || phase > source_overwritten_);
    return item.op == Op::operand && phase > overwritten_[item.index];
  }

  // Whether the walk back from a phase's roots ends at an item: it is a statistic, or was stored
  // for this.
  bool ends(NodeId id, std::int32_t phase) const {
    const Item& item = items_[id];
    return item.op == Op::reduce || (item.op == Op::get && !item.args.empty()) || p_.in_memory(id, phase);
  }

  std::int64_t bytes(NodeId id) const {
    const Item& item = items_[id];
    constexpr std::int64_t unit = 5040;  // so that halves, thirds, ... of a width are whole
    std::int64_t cost = size_of(result_.dtypes[id]) * unit;
    for (const Extent& e : {item.rows, item.columns})
      cost = std::max<std::int64_t>(1, cost * std::min<std::int64_t>(e.times, 1 << 20) / e.over);
    return cost;
  }

  // The phase that can store an item for `phase`, or -1.
  std::int32_t storing_phase(NodeId id, std::int32_t phase) const {
    if (!items_[id].vary.contains(tile_axes)) return -1;
    if (base_ < phase && p_.can_store(id, items_, base_)) return base_;
    const std::int32_t q = computed_[id];
    if (q > base_ && q < phase && p_.can_store(id, items_, q)) return q;
    return -1;
  }

  // What a phase makes: the arguments of its reductions, and what it stores.
  std::vector<NodeId> values_of(std::int32_t phase) const {
    std::vector<NodeId> values;
    for (const Root& root : p_.phases[phase].roots) {
      if (root.kind == Root::Kind::reduction)
        values.insert(values.end(), items_[root.item].args.begin(), items_[root.item].args.end());
      else values.push_back(root.item);
    }
    return values;
  }

  // Items of a phase that follow from a source, arguments first, and the number of each, from 1.
  struct Wired {
    std::vector<NodeId> items;
    std::unordered_map<NodeId, std::int32_t> numbers;
    std::int32_t number(NodeId id) const {  // 0: of none
      const auto found = numbers.find(id);
      return found == numbers.end() ? 0 : found->second;
    }
  };
  Wired wired_of(const std::vector<NodeId>& values, std::int32_t phase) const {
    std::vector<NodeId> cone, pending = values;
    std::unordered_set<NodeId> met;
    while (!pending.empty()) {
      const NodeId id = pending.back();
      pending.pop_back();
      if (!met.insert(id).second) continue;
      cone.push_back(id);
      if (!ends(id, phase)) pending.insert(pending.end(), items_[id].args.begin(), items_[id].args.end());
    }
    std::sort(cone.begin(), cone.end());
    Wired wired;
    for (const NodeId id : cone) {
      bool follows = is_source(id, phase);
      if (!follows && !ends(id, phase))
        for (const NodeId a : items_[id].args) follows |= wired.number(a) > 0;
      if (!follows) continue;
      wired.items.push_back(id);
      wired.numbers[id] = static_cast<std::int32_t>(wired.items.size());
    }
    return wired;
  }

  // The output in which an item lies before a phase; null: in none.
  const std::int32_t* output_before(NodeId id, std::int32_t phase) const {
    const auto found = in_output_.find(id);
    return found != in_output_.end() && found->second.second < phase ? &found->second.first : nullptr;
  }
  bool is_stored_before(NodeId id, std::int32_t phase) const { return p_.stored[id] >= 0 && p_.stored[id] < phase; }

  // What it costs that a phase reads an item.
  std::int64_t capacity(NodeId id, std::int32_t phase) const {
    if (output_before(id, phase) || is_stored_before(id, phase)) return 0;
    return storing_phase(id, phase) >= 0 ? bytes(id) : Flow::infinite;
  }

  // An item is two nodes, and between them the edge that is cut where the phase reads it.
  void cut_before(std::int32_t phase) {
    const std::vector<NodeId> values = values_of(phase);
    const Wired wired = wired_of(values, phase);
    if (wired.items.empty()) return;
    const auto n = static_cast<std::int32_t>(wired.items.size());
    const std::int32_t source = 2 * n, sink = 2 * n + 1;
    Flow flow(2 * n + 2);
    const auto flows = [&](NodeId from, std::int32_t to) {
      if (const std::int32_t number = wired.number(from)) flow.edge(2 * number - 1, to, Flow::infinite);
    };
    for (std::int32_t i = 0; i < n; ++i) {
      const NodeId id = wired.items[i];
      flow.edge(2 * i, 2 * i + 1, capacity(id, phase));
      if (is_source(id, phase)) flow.edge(source, 2 * i, Flow::infinite);
      else
        for (const NodeId a : items_[id].args) flows(a, 2 * i);
    }
    for (const NodeId id : values) flows(id, sink);
    if (flow.maximise(source, sink) >= Flow::infinite) refuse(wired.items, phase);
    const std::vector<char> late = flow.sink_side(sink);
    for (std::int32_t i = 0; i < n; ++i) {
      const NodeId id = wired.items[i];
      if (late[2 * i]) computed_[id] = phase;
      if (late[2 * i] || !late[2 * i + 1]) continue;
      const std::int32_t* const output = output_before(id, phase);
      if (!output && !is_stored_before(id, phase)) p_.store(id, storing_phase(id, phase));
      result_.reads[phase][id] = output ? Reading{true, *output} : Reading{};
    }
  }

  [[noreturn]] void refuse(const std::vector<NodeId>& wired, std::int32_t phase) const {
    for (NodeId id : wired) {
      if (items_[id].op != Op::operand || !is_source(id, phase)) continue;
      throw Error(ErrorCode::overlap,
                  "an output cannot be in place of " + quoted(work_.graph->operands[items_[id].index].name) +
                      ", which is read again after that output has been written",
                  "Bind the output to memory of its own.");
    }
    throw Error(ErrorCode::internal, "no cut between two phases");
  }
};

}  // namespace

Cut cut(const Work& work, Phases& phases, const std::vector<DType>& operand_types,
        const std::optional<Facts::Source>& source, const Options& options) {
  return Cutter(work, phases, operand_types, source, options).run();
}

}  // namespace postlude::inline v0::lower
