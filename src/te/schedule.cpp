// Schedules: a function for each call, with what it refuses. derived.cpp has those that make stages.
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

}  // namespace

void refuse(const std::string& message, const std::string& hint) {
  throw Error(ErrorCode::bad_schedule, message, hint);
}

std::size_t find_leaf(const StageNode& stage, const Axis& axis, const char* what) {
  const auto found = std::find(stage.leaves.begin(), stage.leaves.end(), axis.node());
  if (found == stage.leaves.end()) {
    const bool another = axis.node() && std::ranges::any_of(stage.leaves, [&](const auto& leaf) {
                           return leaf->name == axis.node()->name;
                         });
    refuse(std::string(what) + ": " + quoted(axis.node() ? axis.name() : "nothing") + " is no loop of " +
               quoted(stage.op->name) + (another ? ", which has another of this name" : ""),
           (another ? "Take its own, of op.axis and op.reduce_axis: " : "Its loops are ") + loops_of(stage) + ".");
  }
  return static_cast<std::size_t>(found - stage.leaves.begin());
}

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

StagePtr make_stage(const OperationPtr& operation, const OperationPtr& op) {
  auto stage = std::make_shared<StageNode>();
  stage->origin = operation;
  stage->op = op;
  stage->leaves = operation->axes;
  stage->leaves.insert(stage->leaves.end(), operation->reduce_axes.begin(), operation->reduce_axes.end());
  return stage;
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

std::string Schedule::calls() const {
  std::string text;
  for (const std::string& call : node_->calls) text += call + "\n";
  return text;
}

}  // namespace postlude::inline v0::te
