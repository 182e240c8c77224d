// A schedule lowered to its nest. The file is longer than most because one class does it: what a loop is follows from
// the regions of the stages within.
#include "te/nest.h"

#include "te/interval.h"
#include "te/linear.h"

#include <algorithm>
#include <set>
#include <utility>

namespace postlude::inline v0::te {
namespace {

Expr extreme(const Expr& a, const Expr& b, bool largest) {
  const Polynomial difference = polynomial(a - b);
  if (difference.is_constant()) return (difference.constant >= 0) == largest ? a : b;
  return operation(largest ? Op::max : Op::min, {a, b});
}

// Loops of one iteration, which parts of tensors have, leave only their body.
std::vector<Statement> without_single_loops(std::vector<Statement> body, const Substitution& zeros) {
  std::vector<Statement> result;
  for (Statement& s : body) {
    const auto now = [&](Expr& x) {
      if (!x.empty() && !zeros.empty()) x = tidied(substitute(x, zeros));
    };
    now(s.extent);
    now(s.condition);
    for (Expr& x : s.index) now(x);
    for (Expr& x : s.values) now(x);
    const bool single = s.kind == Statement::Kind::loop && s.mark.kind == Mark::Kind::serial && same(s.extent, 1);
    if (!single) {
      s.body = without_single_loops(std::move(s.body), zeros);
      result.push_back(std::move(s));
      continue;
    }
    Substitution more = zeros;
    more[s.axis.get()] = 0;
    for (Statement& inner : without_single_loops(std::move(s.body), more)) result.push_back(std::move(inner));
  }
  return result;
}

// ---- the lowering of one schedule ---------------------------------------------------------------

class Lowering {
 public:
  Lowering(const ScheduleNode& schedule, const std::vector<Tensor>& arguments);
  Nest run();

 private:
  // A stage as it is lowered: its body with inlined stages in it, and, where it is computed within
  // another, the part of the tensor that is.
  struct Lowered {
    StagePtr stage;
    std::vector<Expr> body;
    std::vector<OperationPtr> reads;
    std::vector<Interval> region;  // of data axes; empty: the whole
    LoopValues loops;
    Substitution values;  // of the root axes
    std::vector<BufferPtr> buffers;
    std::vector<BufferPtr> partial;  // of a reduction that threads or blocks share
    std::size_t first_reduce = 0;    // among the leaves
    bool shared_reduction = false;   // its reduce loop is bound
    bool collective = false;         // threads meet in it: no guard around its loops
  };

  void inline_stages();
  void relate();
  bool meets(const Lowered& s);
  void settle(Lowered& s);
  void make_buffers(Lowered& s);
  std::vector<Interval> demand(const Lowered& s, const std::set<const AxisNode*>& fixed);
  Ranges axis_ranges(const Lowered& reader, const std::set<const AxisNode*>& fixed);
  std::vector<Statement> loops(Lowered& s, std::size_t level, bool initialised, std::vector<Statement> before);
  std::vector<Statement> first_values(Lowered& s, std::size_t level);
  void bind(const Lowered& s, const AxisPtr& leaf, Statement& outer);
  void check_known(Lowered& s, std::size_t level, bool initialised);
  Statement store_joined(Lowered& s, const AxisPtr& leaf);
  std::vector<Statement> statements(Lowered& s, bool update);
  std::vector<Statement> initialise(Lowered& s, std::size_t level);
  std::vector<Statement> attached(Lowered& consumer, const AxisPtr& at);
  std::vector<Statement> nest(Lowered& s);
  std::vector<Statement> guarded(Lowered& s, std::vector<Statement> body, std::size_t level, bool reduces,
                                 bool behind = false);
  std::vector<std::pair<Expr, bool>> conditions(Lowered& s);
  Statement loop(Lowered& s, const AxisPtr& leaf);
  Expr placed(const Expr& x) const;
  Expr predicate(Lowered& s, const AxisPtr& joined);
  void check_stores(const Lowered& s, const Expr& condition, const AxisPtr& joined);
  void check(const Lowered& s);
  [[nodiscard]] bool is_shared(const Lowered& s) const;
  [[nodiscard]] std::vector<Expr> indices(const Lowered& s) const;

  Nest nest_;
  std::vector<Lowered> stages_;
  std::unordered_map<const OperationNode*, Lowered*> of_;                             // by what the user names
  std::unordered_map<const OperationNode*, std::vector<Lowered*>> readers_;           // of a tensor
  std::unordered_map<const StageNode*, std::vector<Lowered*>> within_;                // are computed at a stage's loops
  std::unordered_map<const StageNode*, bool> meets_;                                  // whether threads meet within
  std::set<const AxisNode*> thread_loops_;                                            // that threads run
  std::map<std::pair<const Lowered*, std::size_t>, std::vector<Interval>> demanded_;  // at one place; by what is fixed
  std::vector<AxisPtr> around_;                              // the loops that are open, outermost first
  Ranges open_;                                              // and their ranges
  std::vector<Expr> checked_;                                // conditions around, which hold
  std::map<std::string, std::pair<Expr, AxisPtr>> threads_;  // extents of blocks and threads in this kernel
  std::map<std::string, AxisPtr> bound_;                     // which open loop runs over them
};

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

// ---- regions ------------------------------------------------------------------------------------

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

// ---- statements ---------------------------------------------------------------------------------

// What keeps a stage's loops within its tensor, and within what is reduced (second: true).
std::vector<std::pair<Expr, bool>> Lowering::conditions(Lowered& s) {
  std::vector<std::pair<Expr, bool>> all;
  for (const auto& ragged : s.loops.ragged) all.emplace_back(ragged.condition, ragged.reduces);
  const OperationNode& op = *s.stage->op;
  for (std::size_t d = 0; d < op.axes.size() && !s.region.empty(); ++d) {
    const Expr value = s.values.at(op.axes[d].get());
    Ranges around = open_;
    for (const AxisPtr& leaf : s.stage->leaves)
      around[leaf.get()] = {0, simplified(s.loops.extent.at(leaf.get()) - Expr(1))};
    if (same(s.region[d].low, 0) && same(s.region[d].high, op.shape[d] - Expr(1))) continue;
    if (!is_never_negative(simplified(op.shape[d] - Expr(1) - value), around))
      all.emplace_back(value < op.shape[d], false);
    if (!is_never_negative(value, around)) all.emplace_back(value >= Expr(0), false);
  }
  if (const Reduction* reduction = s.body[0]->reduction.get(); reduction && !reduction->where.empty())
    all.emplace_back(substitute(reduction->where, s.values), true);
  return all;
}

// Puts `body`, which stands inside the loops up to `level`, behind the conditions that are known
// from there on and not before; `behind`: those that read what is computed there, and no others.
std::vector<Statement> Lowering::guarded(Lowered& s, std::vector<Statement> body, std::size_t level, bool reduces,
                                         bool behind) {
  const auto reads_computed = [&](const Expr& condition) {
    bool found = false;
    visit(condition, [&](const ExprNode& x) {
      if (x.kind != ExprNode::Kind::read) return;
      const auto other = of_.find(x.tensor.get());
      found |= other != of_.end() && other->second->stage->nesting == StageNode::Nesting::at &&
               other->second->stage->at == s.stage->leaves.back();
    });
    return found;
  };
  const auto known_at = [&](const Expr& condition) {
    std::size_t at = 0;
    visit(condition, [&](const ExprNode& x) {
      if (x.kind == ExprNode::Kind::read) at = s.stage->leaves.size();
      for (std::size_t l = 0; l < s.stage->leaves.size(); ++l)
        if (x.kind == ExprNode::Kind::axis && s.stage->leaves[l] == x.axis) at = std::max(at, l + 1);
    });
    return s.collective ? s.stage->leaves.size() : at;
  };
  Expr all;
  for (const auto& [guard, of_reduction] : conditions(s)) {
    const Expr& condition = guard;  // what a lambda captures is no structured binding before clang 16
    // The reduction's own conditions stand behind its initialisation.
    const std::size_t known = std::max(known_at(condition), of_reduction ? s.first_reduce + 1 : 0);
    if ((of_reduction && !reduces) || known != level || (!s.collective && reads_computed(condition) != behind))
      continue;
    const bool holds = std::any_of(checked_.begin(), checked_.end(),
                                   [&](const Expr& h) { return equal(*h.node(), *condition.node()); });
    if (!holds) all = both(all, placed(condition));
  }
  const Condition condition = apart(all);
  all = both(condition.others, condition.computed);
  if (all.empty()) return body;
  Statement guard;
  guard.kind = Statement::Kind::guard;
  guard.condition = all;
  guard.body = std::move(body);
  std::vector<Statement> result;
  result.push_back(std::move(guard));
  return result;
}

Statement Lowering::loop(Lowered& s, const AxisPtr& leaf) {
  Statement statement;
  statement.axis = leaf;
  statement.extent = s.loops.extent.at(leaf.get());
  statement.mark = s.stage->mark(leaf);
  return statement;
}

// identity, over the data loops from `level` on.
std::vector<Statement> Lowering::initialise(Lowered& s, std::size_t level) {
  if (level == s.stage->leaves.size()) {
    const Reduction& reduction = *s.body[0]->reduction;
    std::vector<DType> types;
    for (const Expr& source : reduction.sources) types.push_back(source->type);
    Statement store;
    store.kind = Statement::Kind::store;
    store.to = s.shared_reduction ? s.partial : s.buffers;
    if (!s.shared_reduction) store.index = indices(s);
    store.values = identity_of(*reduction.reducer, types);
    std::vector<Statement> result{store};
    return s.shared_reduction ? result : guarded(s, std::move(result), level, false);
  }
  const AxisPtr& leaf = s.stage->leaves[level];
  std::vector<Statement> inner = initialise(s, level + 1);
  if (!is_reduce(leaf)) {
    Statement outer = loop(s, leaf);
    outer.body = std::move(inner);
    inner.clear();
    inner.push_back(std::move(outer));
  }
  return level == s.first_reduce || s.shared_reduction ? inner : guarded(s, std::move(inner), level, false);
}

// What stands in the innermost loop.
std::vector<Statement> Lowering::statements(Lowered& s, bool update) {
  Statement statement;
  statement.kind = update ? Statement::Kind::update : Statement::Kind::store;
  statement.to = s.shared_reduction ? s.partial : s.buffers;
  if (!s.shared_reduction) statement.index = indices(s);
  const Reduction* const reduction = s.body[0]->reduction.get();
  if (update) statement.reducer = reduction->reducer;
  for (const Expr& value : update ? reduction->sources : s.body)
    statement.values.push_back(placed(substitute(value, s.values)));
  if (s.shared_reduction || s.stage->predicate.empty()) return {statement};
  static_cast<void>(predicate(s, nullptr));  // names a thread axis that it has no loop of
  // Elsewhere what no thread stores would be read as it lay in memory.
  refuse("set_store_predicate: " + quoted(s.stage->op->name) +
             (update ? " reduces within one thread" : " reduces nothing"),
         "A predicate chooses among the threads that reduce together: bind the reduced loop first.");
}

// A stage's predicate, its thread axes being the loops that run over them.
Expr Lowering::predicate(Lowered& s, const AxisPtr& joined) {
  Substitution to;
  visit(s.stage->predicate, [&](const ExprNode& x) {
    if (x.kind != ExprNode::Kind::axis || x.axis->kind != AxisNode::Kind::thread) return;
    const auto found = bound_.find(x.axis->tag);
    if (joined && s.stage->mark(s.stage->leaves.back()).thread->tag == x.axis->tag)
      to[x.axis.get()] = axis_value(joined);
    else if (found != bound_.end()) to[x.axis.get()] = axis_value(found->second);
    else refuse("set_store_predicate: no loop of " + quoted(s.stage->op->name) + " runs over " + x.axis->tag);
  });
  return substitute(s.stage->predicate, to);
}

// A predicate that none of the threads satisfies is refused here where numbers alone tell it, else when sizes are
// bound.
void Lowering::check_stores(const Lowered& s, const Expr& condition, const AxisPtr& joined) {
  bool alone = true, sized = false;
  const auto look = [&](const ExprNode& x) {
    const bool size = x.kind == ExprNode::Kind::axis && x.axis->kind == AxisNode::Kind::size;
    sized |= size;
    alone &= x.kind != ExprNode::Kind::read && (x.kind != ExprNode::Kind::axis || x.axis == joined || size);
  };
  visit(condition, look);
  visit(joined->extent, look);
  if (!alone) return;
  StorePredicate predicate{condition, joined, s.stage->op->name, print(s.stage->predicate),
                           s.stage->mark(s.stage->leaves.back()).thread->tag};
  if (sized) nest_.predicates.push_back(std::move(predicate));
  else refuse_no_thread(predicate, {});
}

// What stands before a stage's first reduced loop.
std::vector<Statement> Lowering::first_values(Lowered& s, std::size_t level) {
  if (!s.shared_reduction) return initialise(s, level);
  std::vector<Statement> result;
  for (const BufferPtr& partial : s.partial) {
    Statement& allocate = result.emplace_back();
    allocate.kind = Statement::Kind::allocate;
    allocate.to = {partial};
  }
  for (Statement& x : initialise(s, s.stage->leaves.size())) result.push_back(std::move(x));
  return result;
}

// A loop that is bound: its axis of threads runs all loops of a kernel as often.
void Lowering::bind(const Lowered& s, const AxisPtr& leaf, Statement& outer) {
  const std::string& tag = outer.mark.thread->tag;
  const auto [at, fresh] = threads_.emplace(tag, std::pair(outer.extent, leaf));
  if (!fresh && !same(at->second.first, outer.extent))
    refuse("bind: " + tag + " runs " + quoted(at->second.second->name) + " of " + print(at->second.first) + " and " +
               quoted(leaf->name) + " of " + print(outer.extent),
           "All loops of one kernel that an axis runs have one extent.");
  outer.joins = is_reduce(leaf);
  if (outer.joins) outer.reducer = s.body[0]->reduction->reducer;
}

// Conditions that are known in the loop of this level, and checked around what is computed there, unless threads meet.
void Lowering::check_known(Lowered& s, std::size_t level, bool initialised) {
  if (s.collective) return;
  const std::vector<AxisPtr>& leaves = s.stage->leaves;
  for (const auto& [guard, of_reduction] : conditions(s)) {
    const Expr& condition = guard;  // what a lambda captures is no structured binding before clang 16
    bool known = !of_reduction || initialised;
    visit(condition, [&](const ExprNode& x) {
      known &= x.kind != ExprNode::Kind::read;
      for (std::size_t l = level + 1; l < leaves.size(); ++l)
        known &= x.kind != ExprNode::Kind::axis || leaves[l] != x.axis;
    });
    if (known) checked_.push_back(condition);
  }
}

// Behind a loop whose threads combine: one of them stores, by default the first.
Statement Lowering::store_joined(Lowered& s, const AxisPtr& leaf) {
  const AxisPtr thread = make_axis(leaf->name, AxisNode::Kind::data, s.loops.extent.at(leaf.get()));
  Statement store;
  store.kind = Statement::Kind::store;
  store.to = s.buffers;
  store.index = indices(s);
  for (std::size_t i = 0; i < s.partial.size(); ++i) {
    auto node = std::make_shared<OperationNode>();
    node->name = s.partial[i]->name;
    node->dtypes = {s.partial[i]->type};
    nest_.buffers[{node.get(), 0}] = s.partial[i];
    store.values.push_back(Tensor(node, 0).at({}));
  }
  Statement guard;
  guard.kind = Statement::Kind::guard;
  guard.condition = s.stage->predicate.empty() ? axis_value(thread) == Expr(0) : predicate(s, thread);
  if (!s.stage->predicate.empty()) check_stores(s, guard.condition, thread);
  for (const auto& [condition, of_reduction] : conditions(s))
    if (!of_reduction) guard.condition = both(guard.condition, placed(condition));
  guard.body = {store};
  Statement each = loop(s, leaf);
  each.axis = thread;
  if (!is_never_negative(simplified(each.extent - Expr(1)), {}))
    each.extent = operation(Op::max, {each.extent, 1});  // of nothing, the identity
  each.body = {guard};
  return each;
}

// What stands inside the loops above `level`, behind `before`.
std::vector<Statement> Lowering::loops(Lowered& s, std::size_t level, bool initialised, std::vector<Statement> before) {
  std::vector<Statement> result = std::move(before);
  const bool reduces = s.body[0]->reduction != nullptr;
  const std::vector<AxisPtr>& leaves = s.stage->leaves;
  if (reduces && !initialised && level == s.first_reduce) {
    for (Statement& x : first_values(s, level)) result.push_back(std::move(x));
    initialised = true;
  }
  if (level == leaves.size()) {
    std::vector<Statement> innermost = statements(s, reduces);
    innermost = guarded(s, std::move(innermost), level, reduces, true);
    for (Statement& x : innermost) result.push_back(std::move(x));
    return s.collective ? result : guarded(s, std::move(result), level, reduces);
  }
  const AxisPtr& leaf = leaves[level];
  Statement outer = loop(s, leaf);
  const bool bound = outer.mark.kind == Mark::Kind::bind;
  const std::string tag = bound ? outer.mark.thread->tag : std::string();
  AxisPtr shadowed;
  if (bound) {
    bind(s, leaf, outer);
    shadowed = std::exchange(bound_[tag], leaf);
  }
  around_.push_back(leaf);
  open_[leaf.get()] = {0, simplified(outer.extent - Expr(1))};
  const std::size_t checked = checked_.size();
  check_known(s, level, initialised);
  std::vector<Statement> inner = attached(s, leaf);
  checked_.resize(checked);
  outer.body = loops(s, level + 1, initialised, std::move(inner));
  around_.pop_back();
  open_.erase(leaf.get());
  if (shadowed) bound_[tag] = shadowed;
  else if (bound) bound_.erase(tag);
  const bool joins = outer.joins;
  result.push_back(std::move(outer));
  if (joins) result.push_back(store_joined(s, leaf));
  return s.collective ? result : guarded(s, std::move(result), level, true);
}

std::vector<Statement> Lowering::attached(Lowered& consumer, const AxisPtr& at) {
  std::vector<Lowered*> here;
  for (Lowered* s : within_[consumer.stage.get()])
    if (s->stage->at == at) here.push_back(s);
  demanded_.clear();
  for (auto s = here.rbegin(); s != here.rend(); ++s) {
    std::set<const AxisNode*> fixed;
    for (const AxisPtr& axis : around_)  // what all threads of a block share is computed for all of them
      if (!(is_shared(**s) && thread_loops_.count(axis.get()))) fixed.insert(axis.get());
    (*s)->region = demand(**s, fixed);
  }
  std::vector<Statement> result;
  for (Lowered* s : here) {
    Statement meeting;
    meeting.kind = Statement::Kind::synchronise;
    if (is_shared(*s)) result.push_back(meeting);
    for (Statement& x : nest(*s)) result.push_back(std::move(x));
    if (is_shared(*s)) result.push_back(meeting);
  }
  return result;
}

std::vector<Statement> Lowering::nest(Lowered& s) {
  settle(s);
  make_buffers(s);
  std::vector<Statement> result;
  for (const BufferPtr& buffer : s.buffers) {
    if (buffer->scope == Buffer::Scope::argument) continue;
    Statement allocate;
    allocate.kind = Statement::Kind::allocate;
    allocate.to = {buffer};
    result.push_back(std::move(allocate));
  }
  for (Statement& x : loops(s, 0, false, {})) result.push_back(std::move(x));
  return result;
}

Nest Lowering::run() {
  inline_stages();
  relate();
  for (Lowered& s : stages_) {
    if (s.stage->nesting != StageNode::Nesting::at) continue;
    const StagePtr consumer = s.stage->consumer.lock();
    const bool there =
        consumer && std::find(consumer->leaves.begin(), consumer->leaves.end(), s.stage->at) != consumer->leaves.end();
    if (!there)
      refuse("compute_at: " + quoted(s.stage->at->name) + ", where " + quoted(s.stage->op->name) +
                 " was to be computed, is no loop any more",
             "Split and fuse first; then say where to compute.");
    // Every reader must be within the consumer.
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
  for (Lowered& s : stages_) {
    if (s.stage->nesting != StageNode::Nesting::root) continue;
    threads_.clear();
    const std::size_t first = nest_.body.size();
    for (Statement& x : without_single_loops(nest(s), {})) nest_.body.push_back(std::move(x));
    nest_.stages.emplace_back(first, nest_.body.size());
  }
  name_apart(nest_);
  return std::move(nest_);
}

}  // namespace

void refuse_no_thread(const StorePredicate& predicate, Sizes sizes) {
  const std::int64_t extent = std::max<std::int64_t>(evaluate(predicate.threads->extent, sizes), 1);
  std::int64_t& thread = sizes[predicate.threads.get()];
  for (std::int64_t i = 0; i < extent; ++i) {
    thread = i == 0 ? extent - 1 : i - 1;  // the last and the first are what most choose
    if (evaluate(predicate.condition, sizes)) return;
  }
  refuse("set_store_predicate: no thread of " + quoted(predicate.threads->name) + " of " + quoted(predicate.stage) +
             ", which has " + std::to_string(extent) + ", satisfies " + predicate.text,
         "Choose one of them: " + quoted(predicate.tag + " == 0") + ".");
}

Nest make_nest(const ScheduleNode& schedule, const std::vector<Tensor>& arguments) {
  return Lowering(schedule, arguments).run();
}

}  // namespace postlude::inline v0::te
