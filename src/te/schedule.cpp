// Schedules: a function for each call, with what it refuses. The file is longer than most because a call is one rewrite
// of the same few nodes.
#include "te/schedule.h"

#include "te/calls.h"
#include "te/interval.h"
#include "te/reducer.h"

#include <algorithm>
#include <limits>

namespace postlude::inline v0::te {
namespace {

std::string loops_of(const StageNode& stage) {
  std::string text;
  for (const AxisPtr& leaf : stage.leaves) text += (text.empty() ? "" : ", ") + leaf->name;
  return text;
}

std::size_t find_leaf(const StageNode& stage, const Axis& axis, const char* what) {
  const auto found = std::find(stage.leaves.begin(), stage.leaves.end(), axis.node());
  if (found == stage.leaves.end())
    refuse(std::string(what) + ": " + quoted(axis.node() ? axis.name() : "nothing") + " is no loop of " +
               quoted(stage.op->name),
           "Its loops are " + loops_of(stage) + ".");
  return static_cast<std::size_t>(found - stage.leaves.begin());
}

Expr ceil_div(const Expr& x, std::int64_t y) { return simplified(floordiv(x + Expr(y - 1), Expr(y))); }

bool divides(const Expr& extent, std::int64_t factor) {
  const Polynomial p = polynomial(extent);
  return p.constant % factor == 0 &&
         std::all_of(p.terms.begin(), p.terms.end(), [&](const auto& t) { return t.factor % factor == 0; });
}

void collect(const OperationPtr& operation, std::vector<OperationPtr>& order) {
  if (operation->is_placeholder() || std::find(order.begin(), order.end(), operation) != order.end()) return;
  for (const OperationPtr& read : reads_of(*operation)) collect(read, order);
  if (order.size() == most_stages) refuse_more_stages();
  order.push_back(operation);
}

// A loop that is a part of others. A long name keeps its beginning and its end: it would double from call to call where
// halves are fused, and those that are alike are told apart when a nest is printed.
std::string loop_name(const std::string& of, const char* part) {
  constexpr std::size_t longest = 128;
  return (of.size() <= longest ? of : of.substr(0, of.find('.'))) + part;
}

// A name for a stage that a call makes, which no other of the schedule has: messages say which one they mean.
std::string fresh_name(const ScheduleNode& schedule, const std::string& wanted) {
  std::string name = wanted;
  const auto has = [&](const StagePtr& stage) { return stage->op->name == name; };
  for (int i = 1; std::any_of(schedule.stages.begin(), schedule.stages.end(), has); ++i)
    name = wanted + "_" + std::to_string(i);
  return name;
}

// `op`: what is computed of it, whose indices are held to their tensors where its conditions are its author's.
StagePtr make_stage(const OperationPtr& operation, const OperationPtr& op) {
  auto stage = std::make_shared<StageNode>();
  stage->origin = operation;
  stage->op = op;
  stage->leaves = operation->axes;
  stage->leaves.insert(stage->leaves.end(), operation->reduce_axes.begin(), operation->reduce_axes.end());
  return stage;
}

// Copies of `axes`, and what replaces them.
std::vector<AxisPtr> copies(const std::vector<AxisPtr>& axes, Substitution& to) {
  std::vector<AxisPtr> made;
  for (const AxisPtr& axis : axes) {
    made.push_back(make_axis(axis->name, axis->kind, axis->extent, axis->begin));
    to[axis.get()] = axis_value(made.back());
  }
  return made;
}

std::vector<Expr> values_of(const std::vector<AxisPtr>& axes) {
  std::vector<Expr> values;
  for (const AxisPtr& axis : axes) values.push_back(axis_value(axis));
  return values;
}

// A reader of `made` that no later call can bring into the loops of `consumer`: an output which is not computed there
// needs it. Null where there is none.
OperationPtr outside_reader(const ScheduleNode& schedule, const StageNode& made, const StageNode& consumer) {
  std::set<const OperationNode*> outside;  // is needed there
  for (auto each = schedule.stages.rbegin(); each != schedule.stages.rend(); ++each) {
    const StageNode& stage = **each;
    if (&stage == &made) break;
    if (&stage == &consumer || !(stage.is_output || outside.count(stage.origin.get()))) continue;
    for (const OperationPtr& read : reads_of(*stage.op)) {
      if (read == made.origin) return stage.op;
      outside.insert(read.get());
    }
  }
  return nullptr;
}

// Refuses to take a reduction apart: in parts that come in order, or in others.
void check_parts(const ReducerNode& reducer, const std::string& what, bool in_order) {
  const Freedom& free = reducer.free;
  if (free.associates && free.has_identity && (free.commutes || in_order)) return;
  refuse(what + ": " + kept_order(reducer),
         free.associates && free.has_identity
             ? "The outermost reduced loops can be factored: their parts keep its order."
             : "Parts of a reduction need an associative reducer, and an identity that changes nothing.");
}

void check_scope(const std::string& scope) {
  if (scope != "global" && scope != "shared" && scope != "local")
    throw Error(ErrorCode::bad_attribute, "there is no scope " + quoted(scope), "They are global, shared and local.");
}

std::vector<Tensor> tensors_of(const OperationPtr& operation) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < operation->body.size(); ++i) tensors.emplace_back(operation, static_cast<int>(i));
  return tensors;
}

}  // namespace

void refuse(const std::string& message, const std::string& hint) {
  throw Error(ErrorCode::bad_schedule, message, hint);
}

StagePtr stage_of(const ScheduleNode& schedule, const OperationPtr& operation) {
  for (const StagePtr& stage : schedule.stages)
    if (stage->origin == operation || stage->op == operation) return stage;
  return nullptr;
}

std::vector<OperationPtr> reads_of(const OperationNode& operation) {
  std::vector<OperationPtr> reads;
  for (const Expr& part : operation.body) {
    visit(part, [&](const ExprNode& x) {
      if (x.kind == ExprNode::Kind::read && std::find(reads.begin(), reads.end(), x.tensor) == reads.end())
        reads.push_back(x.tensor);
    });
  }
  return reads;
}

LoopValues loop_values(const StageNode& stage, const std::unordered_map<const AxisNode*, Expr>& roots) {
  LoopValues loops;
  loops.extent = roots;
  for (const Relation& r : stage.relations) {
    if (r.kind == Relation::Kind::fuse) {
      // Of two that may be negative, and so run no time, the product is not.
      Expr outer = loops.extent.at(r.outer.get());
      const Expr inner = loops.extent.at(r.inner.get());
      if (!is_never_negative(outer, {}) && !is_never_negative(inner, {})) outer = operation(Op::max, {outer, Expr(0)});
      loops.extent[r.parent.get()] = simplified(outer * inner);
      continue;
    }
    const Expr parent = loops.extent.at(r.parent.get()), rest = ceil_div(parent, r.factor);
    loops.extent[r.outer.get()] = r.parts ? Expr(r.factor) : rest;
    loops.extent[r.inner.get()] = r.parts ? rest : Expr(r.factor);
  }
  for (const AxisPtr& leaf : stage.leaves) loops.value[leaf.get()] = axis_value(leaf);
  for (auto r = stage.relations.rbegin(); r != stage.relations.rend(); ++r) {
    const Expr inner_extent = loops.extent.at(r->inner.get());
    if (r->kind == Relation::Kind::fuse) {
      const Expr fused = loops.value.at(r->parent.get()), outer = operation(Op::floordiv, {fused, inner_extent});
      loops.value[r->outer.get()] = simplified(outer);
      loops.value[r->inner.get()] = simplified(fused - outer * inner_extent);
    } else {
      const Expr value = simplified(loops.value.at(r->outer.get()) * inner_extent + loops.value.at(r->inner.get()));
      loops.value[r->parent.get()] = value;
      const Expr extent = loops.extent.at(r->parent.get());
      if (!divides(extent, r->factor)) loops.ragged.push_back({value < extent, is_reduce(r->parent)});
    }
  }
  std::reverse(loops.ragged.begin(), loops.ragged.end());
  return loops;
}

// ---- stages -------------------------------------------------------------------------------------

Stage::Stage(std::shared_ptr<ScheduleNode> schedule, std::shared_ptr<StageNode> node)
    : schedule_(std::move(schedule)), node_(std::move(node)) {}

namespace {

void check_split(const StageNode& stage, const Axis& axis, std::int64_t factor, const char* into, const char* call) {
  find_leaf(stage, axis, call);
  if (factor < 1 || factor > std::numeric_limits<std::int32_t>::max())
    throw Error(ErrorCode::bad_attribute,
                std::string(call) + " of " + quoted(axis.name()) + " into " + into + " of " + std::to_string(factor),
                "A factor is at least 1, and at most 2^31 - 1 as an array's extents.");
  if (stage.mark(axis.node()).kind != Mark::Kind::serial)
    refuse(std::string(call) + ": " + quoted(axis.name()) + " is already bound or marked",
           "Split first, then mark the pieces.");
}

std::pair<Axis, Axis> divide(StageNode& stage, const Axis& axis, std::int64_t factor, bool parts) {
  check_split(stage, axis, factor, parts ? "parts" : "pieces", "split");
  const std::size_t at = find_leaf(stage, axis, "split");
  const AxisPtr parent = axis.node();
  const Expr rest = ceil_div(parent->extent, factor);
  const AxisPtr outer = make_axis(loop_name(parent->name, ".outer"), parent->kind, parts ? Expr(factor) : rest);
  const AxisPtr inner = make_axis(loop_name(parent->name, ".inner"), parent->kind, parts ? rest : Expr(factor));
  stage.relations.push_back({Relation::Kind::split, parent, outer, inner, factor, parts});
  stage.leaves[at] = outer;
  stage.leaves.insert(stage.leaves.begin() + static_cast<std::ptrdiff_t>(at) + 1, inner);
  return {Axis(outer), Axis(inner)};
}

void set_mark(StageNode& stage, const Axis& axis, Mark mark, const char* what) {
  find_leaf(stage, axis, what);
  Mark& now = stage.marks[axis.node()];
  if (now.kind == Mark::Kind::bind)
    refuse(std::string(what) + ": " + quoted(axis.name()) + " is already bound to " + now.thread->name);
  static const char* const marked[] = {"serial", "unrolled", "vectorized", "parallel"};
  if (now.kind != Mark::Kind::serial && now.kind != mark.kind)
    refuse(std::string(what) + ": " + quoted(axis.name()) + " is already " + marked[static_cast<int>(now.kind)],
           "A loop has one mark: split it, and mark the pieces.");
  now = std::move(mark);
}

}  // namespace

std::pair<Axis, Axis> Stage::split(const Axis& axis, std::int64_t factor) {
  const auto made = divide(*node_, axis, factor, false);
  add_call(*schedule_, *node_, "split", {axis}, ", factor=" + std::to_string(factor), {made.first, made.second});
  return made;
}
std::pair<Axis, Axis> Stage::split_parts(const Axis& axis, std::int64_t parts) {
  const auto made = divide(*node_, axis, parts, true);
  add_call(*schedule_, *node_, "split", {axis}, ", nparts=" + std::to_string(parts), {made.first, made.second});
  return made;
}

Axis Stage::fuse(const Axes& axes) {
  // All that can be refused, before anything is fused.
  if (axes.empty()) refuse("fuse: of no loop");
  const std::size_t at = find_leaf(*node_, axes[0], "fuse");
  std::int64_t product = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Axis &outer = axes[i > 0 ? i - 1 : 0], &axis = axes[i];
    if (find_leaf(*node_, axis, "fuse") != at + i)
      refuse("fuse: " + quoted(axis.name()) + " is not directly inside " + quoted(outer.name()), "Reorder them first.");
    if (is_reduce(outer.node()) != is_reduce(axis.node()))
      refuse("fuse: one of " + quoted(outer.name()) + " and " + quoted(axis.name()) +
             " is reduced and the other is not");
    if (axes.size() > 1 && node_->mark(axis.node()).kind != Mark::Kind::serial)
      refuse("fuse: " + quoted(axis.name()) + " is already bound or marked", "Fuse first, then mark the result.");
    const Polynomial extent = polynomial(axis.extent());
    if (extent.is_constant() && __builtin_mul_overflow(product, extent.constant, &product))
      throw Error(ErrorCode::size_overflow,
                  "fuse: " + quoted(outer.name()) + " and " + quoted(axis.name()) + " have more than 2^63 iterations");
  }
  Axis fused = axes[0];
  for (std::size_t i = 1; i < axes.size(); ++i) {
    const Axis outer = fused;
    fused = Axis(make_axis(loop_name(outer.name() + "." + axes[i].name(), ".fused"), outer.node()->kind,
                           simplified(outer.extent() * axes[i].extent())));
    node_->relations.push_back({Relation::Kind::fuse, fused.node(), outer.node(), axes[i].node()});
    node_->leaves[at] = fused.node();
    node_->leaves.erase(node_->leaves.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    add_call(*schedule_, *node_, "fuse", {outer, axes[i]}, {}, {fused});
  }
  return fused;
}
Axis Stage::fuse(const Axis& outer, const Axis& inner) { return fuse(Axes{outer, inner}); }

void Stage::reorder(const Axes& order) {
  std::vector<std::size_t> places;
  for (const Axis& axis : order) {
    const std::size_t at = find_leaf(*node_, axis, "reorder");
    if (std::find(places.begin(), places.end(), at) != places.end())
      refuse("reorder: " + quoted(axis.name()) + " is named twice");
    places.push_back(at);
  }
  std::sort(places.begin(), places.end());
  for (std::size_t i = 0; i < order.size(); ++i) node_->leaves[places[i]] = order[i].node();
  add_call(*schedule_, *node_, "reorder", order);
}

std::vector<Axis> Stage::tile(const Axis& x, const Axis& y, std::int64_t x_factor, std::int64_t y_factor) {
  // All that can be refused, before anything is split.
  check_split(*node_, x, x_factor, "pieces", "tile");
  check_split(*node_, y, y_factor, "pieces", "tile");
  if (x == y) refuse("tile: " + quoted(x.name()) + " is named twice");
  const auto [xo, xi] = split(x, x_factor);
  const auto [yo, yi] = split(y, y_factor);
  reorder({xo, yo, xi, yi});
  return {xo, yo, xi, yi};
}

void Stage::unroll(const Axis& axis) {
  set_mark(*node_, axis, {Mark::Kind::unroll, {}}, "unroll");
  add_call(*schedule_, *node_, "unroll", {axis});
}
void Stage::vectorize(const Axis& axis) {
  if (axis.node() && is_reduce(axis.node()))
    refuse("vectorize: " + quoted(axis.name()) + " is reduced", "rfactor it, and vectorize the axis that it becomes.");
  set_mark(*node_, axis, {Mark::Kind::vectorize, {}}, "vectorize");
  add_call(*schedule_, *node_, "vectorize", {axis});
}
void Stage::parallel(const Axis& axis) {
  if (axis.node() && is_reduce(axis.node()))
    refuse("parallel: " + quoted(axis.name()) + " is reduced",
           "rfactor it, and run the axis that it becomes in parallel.");
  set_mark(*node_, axis, {Mark::Kind::parallel, {}}, "parallel");
  add_call(*schedule_, *node_, "parallel", {axis});
}

void Stage::bind(const Axis& axis, const Axis& thread) {
  if (!thread.node() || thread.node()->kind != AxisNode::Kind::thread)
    refuse("bind: " + quoted(thread.node() ? thread.name() : "nothing") + " is no axis of blocks or threads",
           "Make it with thread_axis.");
  find_leaf(*node_, axis, "bind");
  for (const AxisPtr& leaf : node_->leaves) {
    const Mark mark = node_->mark(leaf);
    if (mark.kind == Mark::Kind::bind && mark.thread->tag == thread.node()->tag)
      refuse("bind: " + thread.name() + " already runs " + quoted(leaf->name) + " and cannot run " +
             quoted(axis.name()) + " too");
  }
  if (const Expr& given = thread.node()->extent; !given.empty() && !same(given, axis.extent()))
    refuse("bind: " + thread.name() + " of " + te::print(given) + " cannot run " + quoted(axis.name()) + " of " +
               te::print(axis.extent()),
           "Split the loop so that their extents are one, or leave the extent out: thread_axis(\"" + thread.name() +
               "\").");
  if (const Reduction* const reduction = node_->op->reduction(); reduction && is_reduce(axis.node()))
    check_parts(*reduction->reducer, "bind of " + quoted(axis.name()) + " to " + thread.name(), true);
  set_mark(*node_, axis, {Mark::Kind::bind, thread.node()}, "bind");
  add_call(*schedule_, *node_, "bind", {axis}, ", te.thread_axis(\"" + thread.node()->tag + "\")");
}

void Stage::compute_at(const Stage& consumer, const Axis& axis) {
  const StageNode& other = *consumer.node_;
  if (consumer.node_ == node_) refuse("compute_at: " + quoted(node_->op->name) + " cannot be computed within itself");
  if (node_->is_output)
    refuse("compute_at: " + quoted(node_->op->name) + " is an output", "An output has loops of its own.");
  find_leaf(other, axis, "compute_at");
  for (StagePtr outer = consumer.node_; outer->nesting == StageNode::Nesting::at;) {
    outer = outer->consumer.lock();
    if (outer == node_)
      refuse("compute_at: " + quoted(other.op->name) + " is itself computed within " + quoted(node_->op->name));
  }
  if (const OperationPtr reader = outside_reader(*schedule_, *node_, *consumer.node_))
    refuse("compute_at: " + quoted(reader->name) + " reads " + quoted(node_->op->name) + " outside of the loop " +
           quoted(axis.name()) + " of " + quoted(other.op->name));
  node_->nesting = StageNode::Nesting::at;
  node_->consumer = consumer.node_;
  node_->at = axis.node();
  add_call(*schedule_, *node_, "compute_at", {},
           python_name(*schedule_, other) + ", " + python_name(*schedule_, other, axis.node()));
}

void Stage::compute_inline() {
  if (node_->op->reduction())
    refuse("compute_inline: " + quoted(node_->op->name) + " is a reduction over " +
               quoted(node_->op->reduce_axes[0]->name),
           "Only elementwise stages are inlined; use compute_at.");
  if (node_->is_output) refuse("compute_inline: " + quoted(node_->op->name) + " is an output");
  node_->nesting = StageNode::Nesting::inlined;
  add_call(*schedule_, *node_, "compute_inline", {});
}

void Stage::compute_root() {
  node_->nesting = StageNode::Nesting::root;
  add_call(*schedule_, *node_, "compute_root", {});
}

void Stage::set_scope(const std::string& scope) {
  check_scope(scope);
  node_->scope = scope;
  add_call(*schedule_, *node_, "set_scope", {}, "\"" + scope + "\"");
}

void Stage::set_store_predicate(const Expr& condition) {
  if (condition.type() != DType::boolean)
    throw Error(ErrorCode::type_mismatch,
                "the store predicate of " + quoted(node_->op->name) + " is no condition: " + te::print(condition),
                "Compare: set_store_predicate(thread_axis(\"threadIdx.x\").var == 0).");
  node_->predicate = condition;
  Substitution threads;
  visit(condition, [&](const ExprNode& x) {
    if (x.kind == ExprNode::Kind::axis && x.axis->kind == AxisNode::Kind::thread)
      threads[x.axis.get()] =
          axis_value(make_axis("te.thread_axis(\"" + x.axis->tag + "\").var", x.axis->kind, Expr()));
  });
  add_call(*schedule_, *node_, "set_store_predicate", {}, python_text(substitute(condition, threads)));
}

Operation Stage::op() const { return Operation(node_->op); }
Axes Stage::leaves() const {
  Axes axes;
  for (const AxisPtr& leaf : node_->leaves) axes.emplace_back(leaf);
  return axes;
}

// ---- schedules ----------------------------------------------------------------------------------

Schedule create_schedule(const std::vector<Tensor>& outputs) {
  if (outputs.empty()) throw Error(ErrorCode::no_output, "a schedule of nothing");
  auto schedule = std::make_shared<ScheduleNode>();
  schedule->outputs = outputs;
  std::vector<OperationPtr> order;
  for (const Tensor& output : outputs) {
    if (output.op().node()->is_placeholder())
      throw Error(ErrorCode::no_output, quoted(output.name()) + " is a placeholder, which nothing computes");
    collect(output.op().node(), order);
  }
  for (const OperationPtr& operation : order) schedule->stages.push_back(make_stage(operation, held(operation)));
  for (const Tensor& output : outputs) stage_of(*schedule, output.op().node())->is_output = true;
  return Schedule(schedule);
}

Stage Schedule::operator[](const Operation& operation) const {
  StagePtr stage = stage_of(*node_, operation.node());
  if (!stage)
    refuse(quoted(operation.name()) + (operation.node()->is_placeholder() ? " is a placeholder and has no loops"
                                                                          : " is no stage of this schedule"));
  return Stage(node_, stage);
}
Stage Schedule::operator[](const Tensor& tensor) const { return (*this)[tensor.op()]; }

std::vector<Tensor> Schedule::rfactor(const Tensor& tensor, const Axes& axes, int place) {
  const StagePtr stage = (*this)[tensor].node();
  const Reduction* const reduction = stage->op->reduction();
  if (!reduction) refuse("rfactor: " + quoted(tensor.name()) + " is no reduction");
  const std::string factored =
      axes.size() == 1 ? python_name(*node_, *stage, axes) : "[" + python_name(*node_, *stage, axes) + "]";
  if (axes.empty()) refuse("rfactor: of no loop");
  if (place < 0 || place > static_cast<int>(stage->op->axes.size()))
    throw Error(ErrorCode::bad_attribute,
                "rfactor: " + quoted(tensor.name()) + " has " + std::to_string(stage->op->axes.size()) + " axes, and " +
                    quoted(axes[0].name()) + " cannot become number " + std::to_string(place));
  std::vector<AxisPtr> factors;
  for (const Axis& axis : axes) {
    find_leaf(*stage, axis, "rfactor");
    if (!is_reduce(axis.node())) refuse("rfactor: " + quoted(axis.name()) + " is not reduced");
    if (std::find(factors.begin(), factors.end(), axis.node()) != factors.end())
      refuse("rfactor: " + quoted(axis.name()) + " is named twice");
    factors.push_back(axis.node());
  }
  std::vector<DType> types;
  for (const Expr& source : reduction->sources) types.push_back(source->type);
  std::vector<AxisPtr> outermost;  // reduced loops: a part of theirs is whole, and parts come in their order
  std::copy_if(stage->leaves.begin(), stage->leaves.end(), std::back_inserter(outermost), is_reduce);
  outermost.resize(std::min(outermost.size(), factors.size()));
  check_parts(*reduction->reducer, "rfactor of " + quoted(axes[0].name()), factors == outermost);

  std::unordered_map<const AxisNode*, Expr> roots;
  for (const auto* list : {&stage->op->axes, &stage->op->reduce_axes})
    for (const AxisPtr& axis : *list) roots[axis.get()] = axis->extent;
  const LoopValues loops = loop_values(*stage, roots);

  // The partial results: the factors become axes, every other reduce loop a reduced axis.
  auto partial = std::make_shared<OperationNode>();
  partial->name = fresh_name(*node_, tensor.name() + ".rf");
  Substitution to;
  for (const AxisPtr& factor : factors) {
    const Expr extent = loops.extent.at(factor.get());
    partial->axes.push_back(make_axis(factor->name, AxisNode::Kind::data, extent));
    partial->shape.push_back(extent);
    to[factor.get()] = axis_value(partial->axes.back());
  }
  const std::vector<AxisPtr> kept = copies(stage->op->axes, to);
  partial->axes.insert(partial->axes.begin(), kept.begin(), kept.begin() + place);
  partial->axes.insert(partial->axes.end(), kept.begin() + place, kept.end());
  const std::vector<Expr>& shape = stage->op->shape;
  partial->shape.insert(partial->shape.begin(), shape.begin(), shape.begin() + place);
  partial->shape.insert(partial->shape.end(), shape.begin() + place, shape.end());
  std::vector<std::pair<AxisPtr, Mark>> marks;
  for (const AxisPtr& leaf : stage->leaves) {
    if (!is_reduce(leaf) || to.count(leaf.get())) continue;
    partial->reduce_axes.push_back(make_axis(leaf->name, AxisNode::Kind::reduce, loops.extent.at(leaf.get())));
    to[leaf.get()] = axis_value(partial->reduce_axes.back());
    marks.emplace_back(partial->reduce_axes.back(), stage->mark(leaf));
  }
  Substitution values = to;
  for (const AxisPtr& root : stage->op->reduce_axes)
    values[root.get()] = simplified(substitute(loops.value.at(root.get()), to) + root->begin);
  Reduction part = *reduction;
  for (Expr& source : part.sources) source = substitute(source, values);
  part.where = substitute(part.where, values);
  for (const auto& ragged : loops.ragged)
    if (ragged.reduces) part.where = both(part.where, substitute(ragged.condition, to));
  part.axes = partial->reduce_axes;
  const bool alone = part.axes.empty();  // every reduce loop is a factor: one element each
  if (alone) {
    for (std::size_t i = 0; i < part.sources.size(); ++i) {
      const Expr identity = identity_of(*reduction->reducer, types)[i];
      partial->body.push_back(part.where.empty() ? part.sources[i]
                                                 : operation(Op::where, {part.where, part.sources[i], identity}));
    }
  } else {
    const auto shared = std::make_shared<const Reduction>(std::move(part));
    for (std::size_t i = 0; i < types.size(); ++i) {
      ExprNode node;
      node.kind = ExprNode::Kind::reduce;
      node.type = types[i];
      node.component = static_cast<int>(i);
      node.reduction = shared;
      partial->body.push_back(Expr(std::make_shared<const ExprNode>(std::move(node))));
    }
  }
  partial->dtypes = types;

  // What is left: the partial results over the factors.
  Reduction rest;
  rest.reducer = reduction->reducer;
  std::vector<Expr> index;
  for (const AxisPtr& factor : factors) {
    rest.axes.push_back(make_axis(factor->name + ".v", AxisNode::Kind::reduce, loops.extent.at(factor.get())));
    index.push_back(axis_value(rest.axes.back()));
  }
  const std::vector<Expr> places = values_of(stage->op->axes);
  index.insert(index.begin(), places.begin(), places.begin() + place);
  index.insert(index.end(), places.begin() + place, places.end());
  const std::vector<Tensor> made = tensors_of(partial);
  for (const Tensor& part_tensor : made) rest.sources.push_back(part_tensor.at(index));
  const std::vector<AxisPtr> rest_axes = rest.axes;
  const auto shared = std::make_shared<const Reduction>(std::move(rest));
  auto op = std::make_shared<OperationNode>(*stage->op);
  for (std::size_t i = 0; i < types.size(); ++i) {
    ExprNode node = *op->body[i].node();
    node.reduction = shared;
    op->body[i] = Expr(std::make_shared<const ExprNode>(std::move(node)));
  }
  op->reduce_axes = rest_axes;
  stage->op = op;
  const auto first = std::find_if(stage->leaves.begin(), stage->leaves.end(), is_reduce) - stage->leaves.begin();
  std::erase_if(stage->leaves, is_reduce);
  stage->leaves.insert(stage->leaves.begin() + first, rest_axes.begin(), rest_axes.end());
  std::erase_if(stage->relations, [](const Relation& r) { return is_reduce(r.parent); });

  const StagePtr before = make_stage(partial, partial);  // a tail's condition holds no index
  before->is_derived = true;
  for (const auto& [axis, mark] : marks)
    if (mark.kind == Mark::Kind::unroll) before->marks[axis] = mark;
  node_->stages.insert(std::find(node_->stages.begin(), node_->stages.end(), stage), before);
  const std::string name = python_name(*node_, partial), several = made.size() > 1 ? ", *_" : "";
  node_->calls.push_back(name + several + " = s.rfactor(" + python_name(*node_, stage->origin) + ", " + factored +
                         (place ? ", factor_axis=" + std::to_string(place) : "") + ")");
  return made;
}

std::string Schedule::calls() const {
  std::string text;
  for (const std::string& call : node_->calls) text += call + "\n";
  return text;
}

namespace {

// Each component by `change`; a reduction is shared by its components, and stays so.
void rewrite(OperationNode& op, const std::function<Expr(const Expr&)>& change) {
  std::map<const Reduction*, std::shared_ptr<const Reduction>> kept;
  for (Expr& part : op.body) {
    Expr now = change(part);
    if (part->reduction) {
      ExprNode node = *now.node();
      node.reduction = kept.emplace(part->reduction.get(), now->reduction).first->second;
      now = Expr(std::make_shared<const ExprNode>(std::move(node)));
    }
    part = now;
  }
}

// `body` where reads of `from` become reads of `to`.
void reread(StageNode& stage, const Tensor& from, const Tensor& to) {
  auto op = std::make_shared<OperationNode>(*stage.op);
  rewrite(*op, [&](const Expr& part) {
    return substitute(part, {}, [&](const ExprNode& read, std::vector<Expr> indices) {
      const bool is = read.tensor == from.op().node() && read.component == from.component();
      return is ? to.at(std::move(indices)) : Tensor(read.tensor, read.component).at(std::move(indices));
    });
  });
  stage.op = op;
}

}  // namespace

Tensor Schedule::cache_read(const Tensor& tensor, const std::string& scope, const std::vector<Tensor>& readers) {
  if (readers.empty()) refuse("cache_read: of " + quoted(tensor.name()) + " for no reader");
  check_scope(scope);
  for (const Tensor& reader : readers) {
    const std::vector<OperationPtr> reads = reads_of(*(*this)[reader].node()->op);
    if (std::find(reads.begin(), reads.end(), tensor.op().node()) == reads.end())
      refuse("cache_read: " + quoted(reader.name()) + " does not read " + quoted(tensor.name()));
  }
  auto copy = std::make_shared<OperationNode>();
  copy->name = fresh_name(*node_, tensor.name() + "." + scope);
  copy->shape = tensor.shape();
  for (std::size_t d = 0; d < copy->shape.size(); ++d)
    copy->axes.push_back(make_axis("ax" + std::to_string(d), AxisNode::Kind::data, copy->shape[d]));
  copy->body = {tensor.at(values_of(copy->axes))};
  copy->dtypes = {tensor.dtype()};
  const Tensor made(copy, 0);
  std::ptrdiff_t first = static_cast<std::ptrdiff_t>(node_->stages.size());
  for (const Tensor& reader : readers) {
    const StagePtr stage = (*this)[reader].node();
    reread(*stage, tensor, made);
    first = std::min(first, std::find(node_->stages.begin(), node_->stages.end(), stage) - node_->stages.begin());
  }
  const StagePtr stage = make_stage(copy, held(copy));
  stage->is_derived = true;
  stage->scope = scope;
  std::string names;
  for (const Tensor& reader : readers)
    names += (names.empty() ? "" : ", ") + python_name(*node_, (*this)[reader].node()->origin);
  node_->calls.push_back(python_name(*node_, copy) + " = s.cache_read(" +
                         python_name(*node_, tensor.op().node(), tensor.component()) + ", \"" + scope + "\", [" +
                         names + "])");
  node_->stages.insert(node_->stages.begin() + first, stage);
  return made;
}

std::vector<Tensor> Schedule::cache_write(const Tensor& tensor, const std::string& scope) {
  const StagePtr stage = (*this)[tensor].node();
  if (!stage->relations.empty())
    refuse("cache_write: the loops of " + quoted(tensor.name()) + " are already split or fused",
           "Write to a cache first; then schedule both stages.");
  check_scope(scope);
  // The values are computed by a new stage, which has the reduced loops; the old one, with its own, copies them.
  auto computed = std::make_shared<OperationNode>(*stage->op);
  computed->name = fresh_name(*node_, computed->name + "." + scope);
  Substitution to;
  computed->axes = copies(stage->op->axes, to);
  rewrite(*computed, [&](const Expr& part) { return substitute(part, to); });
  for (std::size_t i = 0; i < computed->dtypes.size(); ++i) computed->dtypes[i] = computed->body[i]->type;
  const StagePtr before = make_stage(computed, held(computed));
  before->is_derived = true;
  before->scope = scope;
  node_->calls.push_back(python_name(*node_, computed) + (computed->body.size() > 1 ? ", *_" : "") +
                         " = s.cache_write(" + python_name(*node_, stage->origin) + ", \"" + scope + "\")");
  auto copy = std::make_shared<OperationNode>(*stage->op);
  copy->reduce_axes.clear();
  const std::vector<Tensor> made = tensors_of(computed);
  for (std::size_t i = 0; i < made.size(); ++i) copy->body[i] = made[i].at(values_of(copy->axes));
  stage->op = copy;
  stage->leaves = copy->axes;
  stage->marks.clear();
  node_->stages.insert(std::find(node_->stages.begin(), node_->stages.end(), stage), before);
  return made;
}

}  // namespace postlude::inline v0::te
