#include "lower/emit.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace postlude::inline v0::lower {
namespace {

// The view of an item from a phase: the maps from the phase's columns and rows to the item's.
struct View {
  ColumnMap columns;
  std::int64_t divide_rows = 1;
};

bool less(const View& a, const View& b) {
  const auto key = [](const View& v) { return std::pair(v.divide_rows, v.columns.divide); };
  if (key(a) != key(b)) return key(a) < key(b);
  return std::lexicographical_compare(a.columns.steps.begin(), a.columns.steps.end(), b.columns.steps.begin(),
                                      b.columns.steps.end(), [](const ColumnMap::Step& s, const ColumnMap::Step& t) {
                                        return std::tuple(s.pieces, s.piece, s.group) <
                                               std::tuple(t.pieces, t.piece, t.group);
                                      });
}

// The instruction of an item, without arguments and access.
Instruction instruction_of(const Item& item) {
  Instruction x;
  x.op = item.op;
  x.type = item.type;
  x.axes = item.vary & tile_axes;
  x.batched = item.vary.has(Axis::b);
  x.literal = item.literal;
  x.dtype = item.dtype;
  x.round = item.round;
  x.seed = item.seed;
  x.random_stream = item.random_stream;
  x.function = item.function;
  x.node = item.origin;
  if (item.is_count()) {
    x.count_axes = item.axes;
    x.group = item.group;
    x.rows = item.rows;
    x.columns = item.columns;
  }
  return x;
}

ValueId append(std::vector<Instruction>& code, Instruction x) {
  code.push_back(std::move(x));
  return static_cast<ValueId>(code.size()) - 1;
}

ValueId zero(std::vector<Instruction>& code, DType type, NodeId origin) {
  Instruction x;
  x.type = x.literal.type = type;
  x.node = origin;
  return append(code, std::move(x));
}

// A scaled(s, x) with its arguments in place becomes s * x, guarded by s == 0; a function with a
// guard gets its value.
void guard(Instruction& x, std::vector<Instruction>& code) {
  if (x.op == Op::scaled) {
    Instruction test;
    test.op = Op::eq;
    test.type = DType::boolean;
    test.args = {x.args[0], zero(code, DType::f32, x.node)};
    test.node = x.node;
    x.op = Op::mul;
    x.guard = append(code, std::move(test));
  } else if (x.op == Op::call && x.function->guard) {
    std::vector<DType> types;
    std::vector<Axes> axes;
    for (ValueId a : x.args) {
      types.push_back(code[a].type);
      axes.push_back(code[a].vary());
    }
    Typing typing;
    x.guard = emit_body(infer_body(*x.function->guard, types, axes, x.node, typing), x.args, x.access, code)[0];
  }
}

class Emitter {
 public:
  Emitter(const Inferred& inferred, const Phases& phases, const Cut& cut, const Facts& facts)
      : inferred_(inferred), work_(inferred.work), items_(work_.items), p_(phases), cut_(cut) {
    program_.name = work_.graph->name;
    program_.accumulator = facts.accumulator;
    program_.batched = work_.batched;
  }

  Program run() {
    declare();
    for (std::size_t p = 0; p < p_.phases.size(); ++p)
      if (!p_.phases[p].roots.empty()) emit_phase(static_cast<std::int32_t>(p));
    program_.notes = work_.notes;
    return std::move(program_);
  }

 private:
  const Inferred& inferred_;
  const Work& work_;
  const std::vector<Item>& items_;
  const Phases& p_;
  const Cut& cut_;
  Program program_;
  std::vector<std::vector<BufferId>> results_;  // of every reduction: a buffer a component, -1 if not wanted
  std::vector<BufferId> crossing_;              // of every item that is stored
  std::int32_t statistics_ = 0, crossings_ = 0;

  // The phase being emitted:
  std::int32_t phase_ = 0;
  Phase* out_ = nullptr;
  std::map<View, std::int32_t, decltype(&less)> view_ids_{&less};
  std::vector<View> views_;
  std::unordered_map<std::int64_t, ValueId> done_;

  void declare() {
    const GraphData& graph = *work_.graph;
    for (std::size_t i = 0; i < graph.operands.size(); ++i)
      program_.buffers.push_back({BufferKind::operand, graph.operands[i].name, inferred_.operand_types[i],
                                  graph.operands[i].axes | (work_.batched ? Axes(Axis::b) : Axes()),
                                  inferred_.inference.operand_rows[i], inferred_.inference.operand_columns[i]});
    for (const WorkOutput& o : work_.outputs) {
      const Item& x = items_[o.value];
      program_.buffers.push_back(
          {BufferKind::output, graph.outputs[o.declaration].name, o.dtype, x.vary, x.rows, x.columns});
    }
    program_.operands = static_cast<std::int32_t>(graph.operands.size());
    program_.outputs = static_cast<std::int32_t>(work_.outputs.size());
    program_.sizes = inferred_.sizes;
    for (std::int32_t i = 0; i < program_.sizes; ++i)
      program_.buffers.push_back({BufferKind::operand, i == 0 ? "Q" : "P", DType::i32, {}, {}, {}});
    program_.rules = inferred_.inference.divisibility;

    results_.resize(items_.size());
    crossing_.assign(items_.size(), -1);
    for (std::size_t i = 0; i < items_.size(); ++i)
      if (items_[i].op == Op::reduce) results_[i].assign(components(items_[i].reducer, items_[i].args.size()), -1);
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      if (item.op == Op::reduce && item.reducer == Reducer::custom) {
        // A combiner needs every component to go on from a partial result.
        for (std::size_t k = 0; k < item.args.size(); ++k) results_[i][k] = statistic(item, items_[item.args[k]].type);
      } else if (item.op == Op::reduce && results_[i].size() == 1) {
        results_[i][0] = statistic(item, item.type);
      } else if (item.op == Op::get && !item.args.empty() && results_[item.args[0]][item.index] < 0) {
        results_[item.args[0]][item.index] = statistic(items_[item.args[0]], item.type);
      }
    }
  }

  BufferId buffer(Buffer b) {
    program_.buffers.push_back(std::move(b));
    return static_cast<BufferId>(program_.buffers.size()) - 1;
  }

  BufferId statistic(const Item& reduce, DType type) {
    return buffer(
        {BufferKind::statistic, "s" + std::to_string(statistics_++), type, reduce.vary, reduce.rows, reduce.columns});
  }

  void emit_phase(std::int32_t phase) {
    const PlannedPhase& plan = p_.phases[phase];
    phase_ = phase;
    program_.phases.emplace_back();
    out_ = &program_.phases.back();
    out_->domain = plan.domain;
    out_->batched = plan.batched;
    out_->rows = plan.rows;
    if (plan.walk) out_->columns = plan.walk->columns;
    view_ids_.clear();
    views_.clear();
    done_.clear();
    for (const Root& root : plan.roots) {
      const std::vector<ColumnMap> maps = p_.maps(root, items_, phase);
      if (root.kind == Root::Kind::reduction) {
        reduce(root.item, maps);
        continue;
      }
      BufferId to;
      if (root.kind == Root::Kind::output) {
        to = program_.operands + root.output;
      } else {
        const Item& x = items_[root.item];
        to = crossing_[root.item] = buffer({BufferKind::crossing, "x" + std::to_string(crossings_++),
                                            cut_.dtypes[root.item], x.vary, x.rows, x.columns});
      }
      for (const ColumnMap& map : maps) {
        const ValueId value = emit_value(root.item, {map, 1});
        out_->stores.push_back({value, {to, map, 1}});
      }
    }
  }

  void reduce(NodeId id, const std::vector<ColumnMap>& maps) {
    const Item& item = items_[id];
    Reduction r;
    r.reducer = item.reducer;
    r.axes = item.axes;
    r.group = item.group;
    r.results = results_[id];
    r.combine = item.combine;
    r.identity = item.identity;
    r.type = item.type;
    for (const ColumnMap& map : maps) {
      Reduction::Piece piece;
      piece.columns = map;
      for (NodeId a : item.args) piece.args.push_back(emit_value(a, {map, 1}));
      r.pieces.push_back(std::move(piece));
    }
    out_->reductions.push_back(std::move(r));
  }

  // ---- one item through one view
  std::int32_t view_id(View view) {
    const auto [it, fresh] = view_ids_.emplace(view, static_cast<std::int32_t>(views_.size()));
    if (fresh) views_.push_back(std::move(view));
    return it->second;
  }

  // Drops from a view what the item does not vary over.
  View seen(NodeId id, View view) const {
    const Item& item = items_[id];
    if (!item.vary.has(Axis::n)) view.columns = {};
    if (!item.vary.has(Axis::m)) view.divide_rows = 1;
    return view;
  }

  struct Demand {
    NodeId item;
    std::int32_t view;
    [[nodiscard]] std::int64_t key() const {
      return (static_cast<std::int64_t>(item) << 32) | static_cast<std::uint32_t>(view);
    }
  };

  Demand demand(NodeId id, const View& view) { return {id, view_id(seen(id, view))}; }

  // The buffer that holds the item for this phase, or -1.
  BufferId buffer_of(NodeId id) const {
    const Item& item = items_[id];
    if (item.op == Op::operand && !cut_.reads[phase_].contains(id))
      return item.index < program_.operands ? item.index : item.index + program_.outputs;
    if (item.op == Op::reduce) return results_[id][0];
    if (item.op == Op::get && !item.args.empty()) return results_[item.args[0]][item.index];
    if (p_.in_memory(id, phase_)) return crossing_[id];
    const auto it = cut_.reads[phase_].find(id);
    if (it == cut_.reads[phase_].end()) return -1;
    return it->second.from_output ? program_.operands + it->second.output : crossing_[id];
  }

  // The items, with their views, that must be emitted first; for chunk, concat and repeat the one
  // item that it stands for.
  std::vector<Demand> needs(const Demand& d) {
    const Item& item = items_[d.item];
    const View view = views_[d.view];
    View inner = view;
    switch (item.op) {
      case Op::chunk:
        if (view.columns.divide != 1) broken(d.item);
        inner.columns = appended(view.columns, {item.pieces, item.index, item.group});
        return {demand(item.args[0], inner)};
      case Op::concat: {
        const auto part = part_of(view.columns, item.args.size(), item.group);
        if (!part) broken(d.item);
        inner.columns = part->map;
        return {demand(item.args[part->part], inner)};
      }
      case Op::repeat:
        if (item.axes.has(Axis::n)) inner.columns.divide *= item.group;
        else inner.divide_rows *= item.group;
        return {demand(item.args[0], inner)};
      default: break;
    }
    std::vector<Demand> result;
    for (NodeId a : item.args) result.push_back(demand(a, view));
    return result;
  }

  [[noreturn]] void broken(NodeId id) const {
    throw Error(ErrorCode::internal,
                "columns of '" + std::string(info(items_[id].op).id) + "' seen through a map that does not reach them");
  }

  static bool is_shape(Op op) { return op == Op::chunk || op == Op::concat || op == Op::repeat; }

  ValueId emit_value(NodeId id, const View& view) {
    const Demand root = demand(id, view);
    std::vector<std::pair<Demand, bool>> stack = {{root, false}};
    while (!stack.empty()) {
      const auto [d, opened] = stack.back();
      if (done_.contains(d.key())) {
        stack.pop_back();
        continue;
      }
      const BufferId buffer = buffer_of(d.item);
      if (buffer >= 0) {
        stack.pop_back();
        done_[d.key()] = load(d, buffer);
        continue;
      }
      const std::vector<Demand> args = needs(d);
      if (!opened) {
        stack.back().second = true;
        for (std::size_t i = args.size(); i-- > 0;)
          if (!done_.contains(args[i].key())) stack.emplace_back(args[i], false);
        continue;
      }
      stack.pop_back();
      std::vector<ValueId> values;
      for (const Demand& a : args) values.push_back(done_.at(a.key()));
      done_[d.key()] = is_shape(items_[d.item].op) ? values[0] : compute(d, std::move(values));
    }
    return done_.at(root.key());
  }

  ValueId load(const Demand& d, BufferId buffer) {
    const Item& item = items_[d.item];
    Instruction x;
    x.op = Op::operand;
    x.type = item.type;
    x.axes = item.vary & tile_axes;
    x.batched = item.vary.has(Axis::b);
    x.access = {buffer, views_[d.view].columns, views_[d.view].divide_rows};
    x.node = item.origin;
    return append(out_->code, std::move(x));
  }

  ValueId compute(const Demand& d, std::vector<ValueId> args) {
    Instruction x = instruction_of(items_[d.item]);
    x.args = std::move(args);
    const bool placed = x.args.empty() || x.op == Op::call || (x.op == Op::cast && x.round == Round::stochastic);
    if (placed && x.op != Op::constant) x.access = {-1, views_[d.view].columns, views_[d.view].divide_rows};
    guard(x, out_->code);
    return append(out_->code, std::move(x));
  }
};

}  // namespace

std::vector<ValueId> emit_body(const Work& body, const std::vector<ValueId>& args, const Access& place,
                               std::vector<Instruction>& code) {
  std::vector<ValueId> ids;
  for (const Item& item : body.items) {
    if (item.op == Op::parameter) {
      ids.push_back(args[item.index]);
      continue;
    }
    Instruction x = instruction_of(item);
    if (x.op == Op::call || (x.op == Op::cast && x.round == Round::stochastic)) x.access = place;
    for (NodeId a : item.args) x.args.push_back(ids[a]);
    guard(x, code);
    ids.push_back(append(code, std::move(x)));
  }
  std::vector<ValueId> results;
  for (const WorkOutput& o : body.outputs) results.push_back(ids[o.value]);
  return results;
}

Program emit(const Inferred& inferred, const Phases& phases, const Cut& cut, const Facts& facts) {
  return Emitter(inferred, phases, cut, facts).run();
}

}  // namespace postlude::inline v0::lower
