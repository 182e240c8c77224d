#include "lower/phases.h"

#include <algorithm>

namespace postlude::inline v0::lower {
namespace {

// The columns that a root walks over, and in which pieces.
struct Footprint {
  Axes domain;
  bool batched = false;
  Extent rows, width;
  Columns columns;
};

Footprint footprint(const Root& root, const std::vector<Item>& items, const std::vector<Columns>& columns) {
  Footprint s;
  const Item& item = items[root.item];
  if (root.kind != Root::Kind::reduction) {
    s.domain = item.vary & tile_axes;
    s.batched = item.vary.has(Axis::b);
    s.rows = item.rows;
    s.width = item.columns;
    s.columns = columns[root.item];
    return s;
  }
  Item joined;
  joined.args = item.args;
  broadcast(joined, items);
  s.domain = joined.vary & tile_axes;
  s.batched = (joined.vary | item.axes | item.vary).has(Axis::b);
  s.rows = joined.rows;
  s.width = joined.columns;
  std::vector<NodeId> none;
  s.columns = columns_of_several(item.args, items, columns, none);
  return s;
}

class Assignment {
 public:
  Assignment(const Work& work, const Options& options) : work_(work), items_(work.items), options_(options) {}

  Phases run() {
    const std::size_t n = items_.size();
    p_.columns.resize(n);
    p_.after.assign(n, 0);
    p_.stored.assign(n, -1);
    p_.must_read.assign(n, 0);
    hops_.assign(n, 0);
    p_.uses_accumulator.assign(n, 0);
    std::vector<char> needs(n, 0);  // the accumulator, also through reductions
    bool any = false;
    for (std::size_t i = 0; i < n; ++i) {
      needs[i] = items_[i].op == Op::acc;
      for (NodeId a : items_[i].args) needs[i] |= needs[a];
      any |= needs[i] != 0;
    }
    for (std::size_t i = 0; i < n; ++i)
      if (!needs[i]) visit(static_cast<NodeId>(i));
    if (any) {
      p_.accumulator = static_cast<std::int32_t>(p_.phases.size());
      p_.phases.push_back({tile_axes, work_.batched, {}, Walk{{}, {AccumulatorShape::Kind::one, {}}}, {}});
    }
    for (std::size_t i = 0; i < n; ++i)
      if (needs[i]) visit(static_cast<NodeId>(i));
    outputs();
    share_halves();
    return std::move(p_);
  }

 private:
  const Work& work_;
  const std::vector<Item>& items_;
  const Options& options_;
  Phases p_;
  std::vector<NodeId> buffered_;
  std::vector<std::int32_t> hops_;  // of every item: phases whose statistics stand between it and the nearest buffer

  void visit(NodeId id) {
    const Item& item = items_[id];
    std::int32_t& after = p_.after[id];
    after = item.op == Op::acc ? p_.accumulator : 0;
    bool uses = item.op == Op::acc;
    buffered_.clear();
    if (is_elementwise(item.op) || item.op == Op::call || item.op == Op::reduce) {
      Columns c = columns_of_several(item.args, items_, p_.columns, buffered_);
      if (item.op != Op::reduce) p_.columns[id] = std::move(c);
    } else {
      p_.columns[id] = columns_of(item, p_.columns, buffered_);
    }
    for (NodeId a : buffered_) {
      if (p_.stored[a] < 0) p_.stored[a] = place({Root::Kind::crossing, a, -1}, p_.after[a]);
      p_.must_read[a] = 1;
      after = std::max(after, p_.stored[a] + 1);
    }
    for (NodeId a : item.args) {
      after = std::max(after, p_.after[a]);
      uses |= p_.uses_accumulator[a] && std::find(buffered_.begin(), buffered_.end(), a) == buffered_.end();
    }
    if (item.op == Op::reduce) {
      after = place({Root::Kind::reduction, id, -1}, after) + 1;
      uses = false;
    }
    p_.uses_accumulator[id] = uses;
    if (item.op != Op::reduce) bound_recomputation(id);
    // A value that splits the accumulator in two ways is computed from a buffer that holds it.
    if (uses && p_.columns[id].shape.kind == AccumulatorShape::Kind::mixed) after = std::max(after, p_.accumulator + 1);
  }

  // A phase may recompute a value through the statistics of all phases before it, so a thousand
  // phases in a row would hold a million instructions. Beyond this many hops the value is stored.
  static constexpr std::int32_t most_hops = 32;

  void bound_recomputation(NodeId id) {
    for (NodeId a : items_[id].args)
      if (!p_.must_read[a]) hops_[id] = std::max(hops_[id], hops_[a] + (p_.after[a] < p_.after[id] ? 1 : 0));
    if (hops_[id] <= most_hops || items_[id].op == Op::get) return;
    p_.stored[id] = place({Root::Kind::crossing, id, -1}, p_.after[id]);
    p_.must_read[id] = 1;
  }

  void outputs() {
    std::vector<std::int32_t> order(work_.outputs.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    const auto after = [&](std::int32_t o) {
      const NodeId value = work_.outputs[o].value;
      const bool tile = (items_[value].vary & tile_axes) == tile_axes;
      return tile ? std::max(p_.after[value], p_.accumulator) : p_.after[value];
    };
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return after(a) > after(b); });
    std::vector<std::int32_t> last;  // vectors in place of an operand: after all that may read it
    for (std::int32_t o : order) {
      const NodeId value = work_.outputs[o].value;
      const bool tile = (items_[value].vary & tile_axes) == tile_axes;
      if (!tile && in_place_of(options_, work_.graph->outputs[work_.outputs[o].declaration].name)) {
        last.push_back(o);
      } else {
        place({Root::Kind::output, value, o}, after(o));
      }
    }
    const auto end = static_cast<std::int32_t>(p_.phases.size());
    for (std::int32_t o : last) place({Root::Kind::output, work_.outputs[o].value, o}, end);
  }

  std::int32_t place(const Root& root, std::int32_t after) {
    Footprint span = footprint(root, items_, p_.columns);
    span.batched = span.batched && work_.batched;
    for (auto p = after; p < static_cast<std::int32_t>(p_.phases.size()); ++p) {
      if (join(p, span)) {
        p_.phases[p].roots.push_back(root);
        return p;
      }
    }
    PlannedPhase phase{span.domain, span.batched, span.rows, std::nullopt, {root}};
    if (span.domain.has(Axis::n)) phase.walk = walk_of(span.columns, span.width);
    p_.phases.push_back(std::move(phase));
    return static_cast<std::int32_t>(p_.phases.size()) - 1;
  }

  void share_halves() {
    if (!options_.halves || p_.accumulator < 0) return;
    PlannedPhase& first = p_.phases[p_.accumulator];
    const PlannedPhase* next = nullptr;
    for (std::size_t p = p_.accumulator + 1; p < p_.phases.size(); ++p) {
      const PlannedPhase& phase = p_.phases[p];
      if (phase.domain != tile_axes || ratio(first.walk->columns, phase.walk->columns) == 0) continue;
      if (next) return;
      next = &phase;
    }
    if (!next || next->batched != first.batched || !same_extent(next->rows, first.rows) ||
        ratio(first.walk->columns, next->walk->columns) != 2 || next->walk->shape.steps.size() != 1)
      return;
    const std::int64_t group = next->walk->shape.steps[0].group;
    if (!options_.halves(group)) return;
    for (const Root& root : first.roots) {
      const Footprint span = footprint(root, items_, p_.columns);
      if (!fit(span.columns, span.width, *next->walk, false)) return;
      const Item& item = items_[root.item];
      if (root.kind != Root::Kind::reduction) continue;
      if (!item.axes.has(Axis::n) || (item.group && (group == 0 || item.group % group))) return;
    }
    first.walk = next->walk;
  }

  bool join(std::int32_t p, const Footprint& span) {
    PlannedPhase& phase = p_.phases[p];
    if (phase.domain != span.domain || phase.batched != span.batched) return false;
    if (span.domain.has(Axis::m) && !same_extent(phase.rows, span.rows)) return false;
    if (!span.domain.has(Axis::n)) return true;
    const bool any_shape = p != p_.accumulator;
    if (!any_shape && span.columns.shape.kind == AccumulatorShape::Kind::mixed) return false;
    if (fit(span.columns, span.width, *phase.walk, any_shape)) {
      if (phase.walk->shape.kind == AccumulatorShape::Kind::none) {
        const Walk own = walk_of(span.columns, span.width);
        phase.walk->shape = below({ratio(own.columns, phase.walk->columns), 0}, own.shape);
      }
      return true;
    }
    // A narrower walk that suits both?
    Walk narrower = walk_of(span.columns, span.width);
    const std::int64_t q = ratio(phase.walk->columns, narrower.columns);
    if (q < 2) return false;
    if (narrower.shape.kind == AccumulatorShape::Kind::none) narrower.shape = below({q, 0}, phase.walk->shape);
    for (const Root& root : phase.roots) {
      const Footprint other = footprint(root, items_, p_.columns);
      if (!fit(other.columns, other.width, narrower, any_shape)) return false;
    }
    phase.walk = narrower;
    return true;
  }
};

}  // namespace

bool Phases::can_store(NodeId item, const std::vector<Item>& items, std::int32_t phase) const {
  const PlannedPhase& p = phases[phase];
  const Item& x = items[item];
  if (after[item] > phase || p.domain != (x.vary & tile_axes) || p.batched != x.vary.has(Axis::b) ||
      !same_extent(p.rows, x.rows))
    return false;
  return fit(columns[item], x.columns, *p.walk, phase != accumulator).has_value();
}

void Phases::store(NodeId item, std::int32_t phase) {
  stored[item] = phase;
  phases[phase].roots.push_back({Root::Kind::crossing, item, -1});
}

std::vector<ColumnMap> Phases::maps(const Root& root, const std::vector<Item>& items, std::int32_t phase) const {
  const Footprint span = footprint(root, items, columns);
  if (!span.domain.has(Axis::n)) return {ColumnMap{}};
  auto maps = fit(span.columns, span.width, *phases[phase].walk, phase != accumulator);
  if (!maps) throw Error(ErrorCode::internal, "a root does not fit the phase it was put into");
  return *maps;
}

const std::string* in_place_of(const Options& options, const std::string& output) {
  for (const auto& [out, operand] : options.in_place)
    if (out == output) return &operand;
  return nullptr;
}

Phases assign_phases(const Work& work, const Options& options) { return Assignment(work, options).run(); }

}  // namespace postlude::inline v0::lower
