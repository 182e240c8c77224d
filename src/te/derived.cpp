// The calls that make stages: partial results, and copies to read from and to compute in.
#include "te/calls.h"
#include "te/interval.h"
#include "te/reducer.h"
#include "te/schedule.h"

#include <algorithm>

namespace postlude::inline v0::te {
namespace {

// A name for a stage that a call makes, which no other of the schedule has: messages say which one they mean.
std::string fresh_name(const ScheduleNode& schedule, const std::string& wanted) {
  std::string name = wanted;
  const auto has = [&](const StagePtr& stage) { return stage->op->name == name; };
  for (int i = 1; std::any_of(schedule.stages.begin(), schedule.stages.end(), has); ++i)
    name = wanted + "_" + std::to_string(i);
  return name;
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

std::vector<Tensor> tensors_of(const OperationPtr& operation) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < operation->body.size(); ++i) tensors.emplace_back(operation, static_cast<int>(i));
  return tensors;
}

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

namespace {

// The loops that rfactor is given, of a stage's reduction.
std::vector<AxisPtr> factors_of(const StageNode& stage, const Axes& axes) {
  if (axes.empty()) refuse("rfactor: of no loop");
  std::vector<AxisPtr> factors;
  for (const Axis& axis : axes) {
    find_leaf(stage, axis, "rfactor");
    if (!is_reduce(axis.node())) refuse("rfactor: " + quoted(axis.name()) + " is not reduced");
    if (std::find(factors.begin(), factors.end(), axis.node()) != factors.end())
      refuse("rfactor: " + quoted(axis.name()) + " is named twice");
    factors.push_back(axis.node());
  }
  return factors;
}

// A reduction in two stages: parts of it, of which the factors are axes, and what reduces these.
class Factoring {
 public:
  // `place`: the factors' number among the axes of the parts.
  Factoring(const StageNode& stage, std::vector<AxisPtr> factors, int place)
      : stage_(stage),
        reduction_(*stage.op->reduction()),
        factors_(std::move(factors)),
        place_(place),
        loops_(loop_values(stage, extents(stage))) {}

  [[nodiscard]] bool are_outermost() const {  // of the reduced loops: a part is whole, and parts come in their order
    std::vector<AxisPtr> outermost;
    std::copy_if(stage_.leaves.begin(), stage_.leaves.end(), std::back_inserter(outermost), is_reduce);
    outermost.resize(std::min(outermost.size(), factors_.size()));
    return factors_ == outermost;
  }

  // The partial results: the factors become axes, every other reduced loop a reduced axis.
  OperationPtr partial(std::string name) {
    auto op = std::make_shared<OperationNode>();
    op->name = std::move(name);
    Substitution to;
    std::vector<AxisPtr> axes;
    std::vector<Expr> shape;
    for (const AxisPtr& factor : factors_) {
      shape.push_back(loops_.extent.at(factor.get()));
      axes.push_back(make_axis(factor->name, AxisNode::Kind::data, shape.back()));
      to[factor.get()] = axis_value(axes.back());
    }
    op->axes = among(copies(stage_.op->axes, to), axes);
    op->shape = among(stage_.op->shape, shape);
    for (const AxisPtr& leaf : stage_.leaves) {
      if (!is_reduce(leaf) || to.count(leaf.get())) continue;
      op->reduce_axes.push_back(make_axis(leaf->name, AxisNode::Kind::reduce, loops_.extent.at(leaf.get())));
      to[leaf.get()] = axis_value(op->reduce_axes.back());
      if (const Mark mark = stage_.mark(leaf); mark.kind == Mark::Kind::unroll)
        unrolled_.emplace_back(op->reduce_axes.back(), mark);
    }
    Reduction part = reduction_of(to);
    part.axes = op->reduce_axes;
    for (const Expr& source : part.sources) op->dtypes.push_back(source->type);
    op->body = part.axes.empty() ? elements(part, op->dtypes) : components(std::move(part));
    return op;
  }

  // Of the parts' reduced loops, those that are marked so.
  [[nodiscard]] const std::vector<std::pair<AxisPtr, Mark>>& unrolled() const { return unrolled_; }

  // What is left: the partial results over the factors.
  OperationPtr rest(const std::vector<Tensor>& parts) const {
    Reduction rest;
    rest.reducer = reduction_.reducer;
    for (const AxisPtr& factor : factors_)
      rest.axes.push_back(make_axis(factor->name + ".v", AxisNode::Kind::reduce, loops_.extent.at(factor.get())));
    const std::vector<Expr> index = among(values_of(stage_.op->axes), values_of(rest.axes));
    for (const Tensor& part : parts) rest.sources.push_back(part.at(index));
    auto op = std::make_shared<OperationNode>(*stage_.op);
    op->reduce_axes = rest.axes;
    const auto shared = std::make_shared<const Reduction>(std::move(rest));
    for (Expr& component : op->body) {
      ExprNode node = *component.node();
      node.reduction = shared;
      component = Expr(std::make_shared<const ExprNode>(std::move(node)));
    }
    return op;
  }

 private:
  [[nodiscard]] static std::unordered_map<const AxisNode*, Expr> extents(const StageNode& stage) {
    std::unordered_map<const AxisNode*, Expr> roots;
    for (const auto* list : {&stage.op->axes, &stage.op->reduce_axes})
      for (const AxisPtr& axis : *list) roots[axis.get()] = axis->extent;
    return roots;
  }

  // What an axis each of the stage has, with what the factors have at their place.
  template <class T>
  [[nodiscard]] std::vector<T> among(std::vector<T> each, const std::vector<T>& of_factors) const {
    each.insert(each.begin() + place_, of_factors.begin(), of_factors.end());
    return each;
  }

  // The stage's, where loops are what `to` says; over no axes yet.
  [[nodiscard]] Reduction reduction_of(const Substitution& to) const {
    Substitution values = to;
    for (const AxisPtr& root : stage_.op->reduce_axes)
      values[root.get()] = simplified(substitute(loops_.value.at(root.get()), to) + root->begin);
    Reduction part = reduction_;
    for (Expr& source : part.sources) source = substitute(source, values);
    part.where = substitute(part.where, values);
    for (const auto& ragged : loops_.ragged)
      if (ragged.reduces) part.where = both(part.where, substitute(ragged.condition, to));
    return part;
  }

  // Where every reduced loop is a factor: one element each.
  [[nodiscard]] static std::vector<Expr> elements(const Reduction& part, const std::vector<DType>& types) {
    if (part.where.empty()) return part.sources;
    std::vector<Expr> body = identity_of(*part.reducer, types);
    for (std::size_t i = 0; i < body.size(); ++i)
      body[i] = operation(Op::where, {part.where, part.sources[i], body[i]});
    return body;
  }

  const StageNode& stage_;
  const Reduction& reduction_;
  const std::vector<AxisPtr> factors_;
  const int place_;
  const LoopValues loops_;
  std::vector<std::pair<AxisPtr, Mark>> unrolled_;
};

}  // namespace

std::vector<Tensor> Schedule::rfactor(const Tensor& tensor, const Axes& axes, int place) {
  const StagePtr stage = (*this)[tensor].node();
  const Reduction* const reduction = stage->op->reduction();
  if (!reduction) refuse("rfactor: " + quoted(tensor.name()) + " is no reduction");
  const std::string named = python_name(*node_, *stage, axes), factored = axes.size() == 1 ? named : "[" + named + "]";
  if (!axes.empty() && (place < 0 || place > static_cast<int>(stage->op->axes.size())))
    throw Error(ErrorCode::bad_attribute,
                "rfactor: " + quoted(tensor.name()) + " has " + std::to_string(stage->op->axes.size()) + " axes, and " +
                    quoted(axes[0].name()) + " cannot become number " + std::to_string(place));
  Factoring factoring(*stage, factors_of(*stage, axes), place);
  check_parts(*reduction->reducer, "rfactor of " + quoted(axes[0].name()), factoring.are_outermost());
  const OperationPtr partial = factoring.partial(fresh_name(*node_, tensor.name() + ".rf"));
  const std::vector<Tensor> made = tensors_of(partial);
  stage->op = factoring.rest(made);
  const std::vector<AxisPtr>& over = stage->op->reduce_axes;
  const auto first = std::find_if(stage->leaves.begin(), stage->leaves.end(), is_reduce) - stage->leaves.begin();
  std::erase_if(stage->leaves, is_reduce);
  stage->leaves.insert(stage->leaves.begin() + first, over.begin(), over.end());
  std::erase_if(stage->relations, [](const Relation& r) { return is_reduce(r.parent); });

  const StagePtr before = make_stage(partial, partial);  // a tail's condition holds no index
  before->is_derived = true;
  before->marks.insert(factoring.unrolled().begin(), factoring.unrolled().end());
  node_->stages.insert(std::find(node_->stages.begin(), node_->stages.end(), stage), before);
  const std::string name = python_name(*node_, partial), several = made.size() > 1 ? ", *_" : "";
  node_->calls.push_back(name + several + " = s.rfactor(" + python_name(*node_, stage->origin) + ", " + factored +
                         (place ? ", factor_axis=" + std::to_string(place) : "") + ")");
  return made;
}

}  // namespace postlude::inline v0::te
