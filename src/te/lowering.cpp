#include "te/lowering.h"

#include "te/linear.h"

#include <algorithm>

namespace postlude::inline v0::te {

Lowering::Lowering(const ScheduleNode& schedule, const std::vector<Tensor>& arguments) {
  for (const StagePtr& stage : schedule.stages) {
    Lowered s;
    s.stage = stage;
    s.body = stage->op->body;
    stages_.push_back(std::move(s));
  }
  int number = 0;
  for (const Tensor& tensor : arguments) {
    const auto key = std::pair<const OperationNode*, int>(tensor.op().node().get(), tensor.component());
    if (nest_.buffers.count(key))
      throw Error(ErrorCode::repeated_operand, quoted(tensor.name()) + " is named twice among the arguments");
    const StagePtr stage = stage_of(schedule, tensor.op().node());
    if (!tensor.op().node()->is_placeholder() && (!stage || !stage->is_output))
      throw Error(ErrorCode::unknown_operand,
                  quoted(tensor.name()) + " is an argument, and is no placeholder and no output");
    if (tensor.shape().size() > v0::Tensor::max_rank) refuse_rank(tensor.name(), tensor.shape().size());
    std::string name = tensor.name();
    if (tensor.op().node()->dtypes.size() > 1) name += "." + std::to_string(tensor.component());
    nest_.arguments.push_back(std::make_shared<const Buffer>(
        Buffer{name, tensor.dtype(), tensor.shape(), Buffer::Scope::argument, number++}));
    nest_.buffers[key] = nest_.arguments.back();
    nest_.tensors.push_back(tensor);
  }
}

// A stage that is inlined becomes part of its readers.
void Lowering::inline_stages() {
  for (Lowered& s : stages_) {
    std::map<const Reduction*, std::shared_ptr<const Reduction>> kept;
    for (Expr& part : s.body) {
      Expr now = substitute(part, {}, [&](const ExprNode& read, std::vector<Expr> index) {
        for (const Lowered& other : stages_) {
          if (other.stage->origin != read.tensor || other.stage->nesting != StageNode::Nesting::inlined) continue;
          Substitution at;
          for (std::size_t d = 0; d < index.size(); ++d) at[other.stage->op->axes[d].get()] = index[d];
          const auto component = static_cast<std::size_t>(read.component);
          Expr value = substitute(other.body[component], at);
          const DType stored = other.stage->op->dtypes[component];  // rounds as the tensor would
          return stored == value->type ? value : operation(Op::cast, {value}, stored);
        }
        return Tensor(read.tensor, read.component).at(std::move(index));
      });
      if (part->reduction) {
        ExprNode node = *now.node();
        node.reduction = kept.emplace(part->reduction.get(), now->reduction).first->second;
        now = Expr(std::make_shared<const ExprNode>(std::move(node)));
      }
      part = now;
    }
    OperationNode shell;
    shell.body = s.body;
    s.reads = reads_of(shell);
  }
  std::erase_if(stages_, [](const Lowered& s) { return s.stage->nesting == StageNode::Nesting::inlined; });
}

void Lowering::relate() {
  for (Lowered& s : stages_) {
    of_[s.stage->origin.get()] = &s;
    for (const OperationPtr& read : s.reads) readers_[read.get()].push_back(&s);
    if (s.stage->nesting == StageNode::Nesting::at) within_[s.stage->consumer.lock().get()].push_back(&s);
    for (const AxisPtr& leaf : s.stage->leaves)
      if (const Mark mark = s.stage->mark(leaf);
          mark.kind == Mark::Kind::bind && mark.thread->tag.starts_with("thread"))
        thread_loops_.insert(leaf.get());
  }
}

// Whether threads meet in what is computed at its loops.
bool Lowering::meets(const Lowered& s) {
  if (const auto found = meets_.find(s.stage.get()); found != meets_.end()) return found->second;
  bool found = false;
  for (const Lowered* other : within_[s.stage.get()]) found = found || is_shared(*other) || meets(*other);
  return meets_[s.stage.get()] = found;
}

// Extents and values of the loops, the roots' extents being those of the region.
void Lowering::settle(Lowered& s) {
  const OperationNode& op = *s.stage->op;
  std::unordered_map<const AxisNode*, Expr> roots;
  for (std::size_t d = 0; d < op.axes.size(); ++d)
    roots[op.axes[d].get()] = s.region.empty() ? op.shape[d] : simplified(s.region[d].high - s.region[d].low + Expr(1));
  for (const AxisPtr& axis : op.reduce_axes) roots[axis.get()] = axis->extent;
  s.loops = loop_values(*s.stage, roots);
  Substitution zeros;  // loops of one iteration, which will go: they would make long sums where parts are within parts
  for (const AxisPtr& leaf : s.stage->leaves)
    if (s.stage->mark(leaf).kind == Mark::Kind::serial && same(s.loops.extent.at(leaf.get()), 1)) zeros[leaf.get()] = 0;
  if (!zeros.empty()) {
    for (auto& [axis, value] : s.loops.value) value = simplified(substitute(value, zeros));
    for (LoopValues::Ragged& ragged : s.loops.ragged) ragged.condition = tidied(substitute(ragged.condition, zeros));
  }
  for (std::size_t d = 0; d < op.axes.size(); ++d) {
    const Expr at = s.loops.value.at(op.axes[d].get());
    s.values[op.axes[d].get()] = s.region.empty() ? at : simplified(at + s.region[d].low);
  }
  for (const AxisPtr& axis : op.reduce_axes)
    s.values[axis.get()] = simplified(s.loops.value.at(axis.get()) + axis->begin);
  s.first_reduce = static_cast<std::size_t>(std::find_if(s.stage->leaves.begin(), s.stage->leaves.end(), is_reduce) -
                                            s.stage->leaves.begin());
  const auto bound = [&](const AxisPtr& leaf) { return s.stage->mark(leaf).kind == Mark::Kind::bind; };
  s.shared_reduction = op.reduction() && std::any_of(s.stage->leaves.begin(), s.stage->leaves.end(),
                                                     [&](const auto& leaf) { return is_reduce(leaf) && bound(leaf); });
  s.collective = s.shared_reduction || meets(s);
  check(s);
}

// Whether the threads of a block hold it together: it is said so, or they compute it together.
bool Lowering::is_shared(const Lowered& s) const {
  return s.stage->nesting == StageNode::Nesting::at &&
         (s.stage->scope == "shared" ||
          std::any_of(s.stage->leaves.begin(), s.stage->leaves.end(),
                      [&](const AxisPtr& leaf) { return thread_loops_.count(leaf.get()) != 0; }));
}

void Lowering::check(const Lowered& s) {
  for (const AxisPtr& leaf : s.stage->leaves) {
    const Mark mark = s.stage->mark(leaf);
    if (s.stage->nesting == StageNode::Nesting::at && mark.kind == Mark::Kind::bind &&
        mark.thread->tag.starts_with("block"))
      refuse("bind: " + quoted(leaf->name) + " of " + quoted(s.stage->op->name) + ", which is computed within " +
                 quoted(s.stage->at->name) + ", to " + mark.thread->tag,
             "Blocks divide the stages at the root; within them there are threads.");
  }
  if (!s.shared_reduction) return;
  std::size_t reduced = 0;
  for (const AxisPtr& leaf : s.stage->leaves) reduced += is_reduce(leaf);
  if (reduced > 1)
    refuse("bind: " + quoted(s.stage->leaves[s.first_reduce]->name) + " of " + quoted(s.stage->op->name) +
               " is one of several reduced loops",
           "rfactor the loop that is bound; then it is the only one.");
  if (s.first_reduce + 1 != s.stage->leaves.size())
    refuse("bind: " + quoted(s.stage->leaves[s.first_reduce]->name) + " of " + quoted(s.stage->op->name) +
               " is reduced by threads and has " + quoted(s.stage->leaves[s.first_reduce + 1]->name) + " inside",
           "Reorder it to be the innermost.");
}

void Lowering::make_buffers(Lowered& s) {
  const OperationNode& op = *s.stage->op;
  for (std::size_t d = 1; d < s.region.size(); ++d) {
    const Expr extent = simplified(s.region[d].high - s.region[d].low + Expr(1));
    visit(extent, [&](const ExprNode& x) {
      if (x.kind == ExprNode::Kind::axis && x.axis->kind != AxisNode::Kind::size)
        refuse("compute_at: the part of " + quoted(op.name) + " that " + quoted(s.stage->at->name) + " of " +
                   quoted(s.stage->consumer.lock()->op->name) + " needs is not as long along axis " +
                   std::to_string(d) + " for each " + quoted(x.axis->name),
               "Compute it further out, or do not fuse the loops that it follows.");
    });
  }
  for (std::size_t i = 0; i < op.body.size(); ++i) {
    const auto key = std::pair<const OperationNode*, int>(s.stage->origin.get(), static_cast<int>(i));
    if (const auto found = nest_.buffers.find(key); found != nest_.buffers.end()) {
      s.buffers.push_back(found->second);
      continue;
    }
    Buffer buffer;
    buffer.name = op.name + (op.body.size() > 1 ? "." + std::to_string(i) : "");
    buffer.type = op.dtypes[i];
    for (std::size_t d = 0; d < op.shape.size(); ++d)
      buffer.shape.push_back(s.region.empty() ? op.shape[d] : simplified(s.region[d].high - s.region[d].low + Expr(1)));
    buffer.scope = is_shared(s)                                     ? Buffer::Scope::shared
                   : s.region.empty() || s.stage->scope == "global" ? Buffer::Scope::global
                                                                    : Buffer::Scope::local;
    s.buffers.push_back(std::make_shared<const Buffer>(std::move(buffer)));
    nest_.buffers[key] = s.buffers.back();
  }
  if (!s.shared_reduction) return;
  for (std::size_t i = 0; i < op.body.size(); ++i)
    s.partial.push_back(std::make_shared<const Buffer>(
        Buffer{s.buffers[i]->name + ".red", op.body[i]->type, {}, Buffer::Scope::local, -1}));
}

// The place of an element in a stage's buffer.
std::vector<Expr> Lowering::indices(const Lowered& s) const {
  std::vector<Expr> index;
  for (const AxisPtr& axis : s.stage->op->axes) index.push_back(s.loops.value.at(axis.get()));
  return index;
}

// A value's reads, at places in the buffers that hold parts of tensors.
Expr Lowering::placed(const Expr& x) const {
  return substitute(x, {}, [&](const ExprNode& read, std::vector<Expr> index) {
    if (const auto found = of_.find(read.tensor.get()); found != of_.end() && !found->second->region.empty())
      for (std::size_t d = 0; d < index.size(); ++d) index[d] = index[d] - found->second->region[d].low;
    for (Expr& i : index) i = simplified(i);
    return Tensor(read.tensor, read.component).at(std::move(index));
  });
}

// compute_at names a loop of the consumer, and every reader is within it.
void Lowering::check_places() {
  for (Lowered& s : stages_) {
    if (s.stage->nesting != StageNode::Nesting::at) continue;
    const StagePtr consumer = s.stage->consumer.lock();
    const bool there =
        consumer && std::find(consumer->leaves.begin(), consumer->leaves.end(), s.stage->at) != consumer->leaves.end();
    if (!there)
      refuse("compute_at: " + quoted(s.stage->at->name) + ", where " + quoted(s.stage->op->name) +
                 " was to be computed, is no loop any more",
             "Split and fuse first; then say where to compute.");
    for (const Lowered* reader : readers_[s.stage->origin.get()]) {
      StagePtr at = reader->stage;
      AxisPtr place;
      while (at != consumer && at->nesting == StageNode::Nesting::at) place = at->at, at = at->consumer.lock();
      const auto depth = [&](const AxisPtr& loop) {
        return std::find(consumer->leaves.begin(), consumer->leaves.end(), loop) - consumer->leaves.begin();
      };
      if (at != consumer || (place && depth(place) < depth(s.stage->at)))
        refuse("compute_at: " + quoted(reader->stage->op->name) + " reads " + quoted(s.stage->op->name) +
               " outside of the loop " + quoted(s.stage->at->name) + " of " + quoted(consumer->op->name));
    }
  }
}

// What is read, and every output, is among the arguments.
void Lowering::check_arguments() const {
  for (const Lowered& s : stages_) {
    for (const OperationPtr& read : s.reads) {
      if (read->is_placeholder() && !nest_.buffers.count({read.get(), 0}))
        throw Error(ErrorCode::missing_operand, quoted(read->name) + " is read and is no argument",
                    "Name it among the arguments.");
    }
    if (!s.stage->is_output) continue;
    for (std::size_t i = 0; i < s.body.size(); ++i)
      if (std::none_of(nest_.tensors.begin(), nest_.tensors.end(),
                       [&](const Tensor& t) {
                         return t.op().node() == s.stage->origin && t.component() == static_cast<int>(i);
                       }) &&
          s.body.size() == 1)
        throw Error(ErrorCode::missing_operand, quoted(s.stage->op->name) + " is an output and no argument",
                    "Name it among the arguments.");
  }
}

// ---- regions ------------------------------------------------------------------------------------

namespace {

Expr extreme(const Expr& a, const Expr& b, bool largest) {
  const Polynomial difference = polynomial(a - b);
  if (difference.is_constant()) return (difference.constant >= 0) == largest ? a : b;
  return operation(largest ? Op::max : Op::min, {a, b});
}

}  // namespace

// The ranges of a reader's axes while the `fixed` loops stand still.
Ranges Lowering::axis_ranges(const Lowered& reader, const std::set<const AxisNode*>& fixed) {
  const OperationNode& op = *reader.stage->op;
  Ranges ranges;
  const bool within = std::any_of(reader.stage->leaves.begin(), reader.stage->leaves.end(),
                                  [&](const AxisPtr& leaf) { return fixed.count(leaf.get()) != 0; });
  if (within) {
    Ranges leaves;
    for (const auto& [axis, range] : open_)  // of a reader's place: other threads read for themselves
      if (!fixed.count(axis)) leaves[axis] = range;
    for (const AxisPtr& leaf : reader.stage->leaves)
      if (!fixed.count(leaf.get())) leaves[leaf.get()] = {0, simplified(reader.loops.extent.at(leaf.get()) - Expr(1))};
    for (const auto* list : {&op.axes, &op.reduce_axes}) {
      for (std::size_t d = 0; d < list->size(); ++d) {
        const AxisPtr& axis = (*list)[d];
        const Expr value = reader.values.at(axis.get());
        bool moves = false;
        visit(value,
              [&](const ExprNode& x) { moves |= x.kind == ExprNode::Kind::axis && fixed.count(x.axis.get()) != 0; });
        const auto known = interval(value, leaves);
        const bool is_part = list == &op.axes && !reader.region.empty();
        if (!known || (!moves && !is_part))
          ranges[axis.get()] = {axis->begin, simplified(axis->begin + axis->extent - Expr(1))};
        else ranges[axis.get()] = *known;
      }
    }
    return ranges;
  }
  const std::vector<Interval> region =
      reader.stage->nesting == StageNode::Nesting::at ? demand(reader, fixed) : std::vector<Interval>{};
  for (std::size_t d = 0; d < op.axes.size(); ++d)
    ranges[op.axes[d].get()] = region.empty() ? Interval{0, simplified(op.shape[d] - Expr(1))} : region[d];
  for (const AxisPtr& axis : op.reduce_axes)
    ranges[axis.get()] = {axis->begin, simplified(axis->begin + axis->extent - Expr(1))};
  return ranges;
}

// The part of a stage's tensor that its readers want.
std::vector<Interval> Lowering::demand(const Lowered& s, const std::set<const AxisNode*>& fixed) {
  const auto key = std::pair(&s, fixed.size());
  if (const auto found = demanded_.find(key); found != demanded_.end()) return found->second;
  std::vector<Interval> region;
  const std::vector<Expr>& shape = s.stage->op->shape;
  for (const Lowered* reader : readers_[s.stage->origin.get()]) {
    const Ranges ranges = axis_ranges(*reader, fixed);
    for (const Expr& part : reader->body) {
      visit(part, [&](const ExprNode& x) {
        if (x.kind != ExprNode::Kind::read || x.tensor != s.stage->origin) return;
        std::vector<Interval> wanted;
        for (std::size_t d = 0; d < shape.size(); ++d)
          wanted.push_back(interval(x.args[d], ranges).value_or(Interval{0, simplified(shape[d] - Expr(1))}));
        if (region.empty()) region = wanted;
        for (std::size_t d = 0; d < shape.size(); ++d)
          region[d] = {extreme(region[d].low, wanted[d].low, false), extreme(region[d].high, wanted[d].high, true)};
      });
    }
  }
  if (shape.empty()) region.clear();
  return demanded_[key] = region;
}

}  // namespace postlude::inline v0::te
