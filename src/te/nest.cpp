// A schedule lowered to its nest: loops, and the statements within (lowering.h).
#include "te/nest.h"

#include "te/linear.h"
#include "te/lowering.h"

#include <algorithm>
#include <set>
#include <utility>

namespace postlude::inline v0::te {
namespace {

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

}  // namespace

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
  check_places();
  check_arguments();
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
