#include "te/interval.h"

#include "te/linear.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace postlude::inline v0::te {
namespace {

bool varies(const Expr& x, const Ranges& ranges) {
  bool found = is_computed(x);
  visit(x, [&](const ExprNode& node) { found |= node.kind == ExprNode::Kind::axis && ranges.count(node.axis.get()); });
  return found;
}

// x // c, a sum where c divides all but its constant.
Expr quotient(const Expr& x, const Expr& c) {
  Polynomial p = polynomial(x);
  const std::int64_t divisor = c->value.integer;
  for (Polynomial::Term& term : p.terms) {
    if (term.factor % divisor != 0) return floordiv(x, c);
    term.factor /= divisor;
  }
  p.constant = evaluate(floordiv(Expr(p.constant), c), {});
  return expression(p);
}

// c of a term that is some times y // c; else 0.
std::int64_t divisor_of(const Polynomial::Term& term) {
  const Expr& atom = term.atoms[0];
  const bool is = term.atoms.size() == 1 && atom->kind == ExprNode::Kind::operation && atom->op == Op::floordiv &&
                  atom->args[1]->kind == ExprNode::Kind::constant;
  return is ? std::max<std::int64_t>(atom->args[1]->value.integer, 0) : 0;
}

// At most x, without the quotients in it: y - (c - 1) <= y // c * c <= y.
Expr without_quotients(const Expr& x) {
  Polynomial p = polynomial(x);
  const auto first = std::stable_partition(p.terms.begin(), p.terms.end(), [](const auto& term) {
    const std::int64_t divisor = divisor_of(term);
    return divisor == 0 || term.factor % divisor != 0;
  });
  const std::vector<Polynomial::Term> quotients(first, p.terms.end());
  p.terms.erase(first, p.terms.end());
  Expr rest = expression(p);
  for (const Polynomial::Term& term : quotients) {
    const std::int64_t divisor = divisor_of(term), times = term.factor / divisor;
    rest = rest + term.atoms[0]->args[0] * Expr(times) - Expr(times > 0 ? times * (divisor - 1) : 0);
  }
  return simplified(rest);
}

}  // namespace

std::optional<Interval> interval(const Expr& x, const Ranges& ranges) {
  if (!varies(x, ranges)) return Interval{x, x};
  if (x->kind == ExprNode::Kind::axis) return ranges.at(x->axis.get());
  if (x->kind != ExprNode::Kind::operation || x->type != DType::i64) return {};
  if (x->op == Op::floordiv && x->args[1]->kind == ExprNode::Kind::constant && x->args[1]->value.integer > 0) {
    const auto of = interval(x->args[0], ranges);
    if (!of) return {};
    return Interval{quotient(of->low, x->args[1]), quotient(of->high, x->args[1])};
  }
  if (x->op == Op::min || x->op == Op::max) {
    const auto a = interval(x->args[0], ranges), b = interval(x->args[1], ranges);
    if (!a || !b) return {};
    return Interval{operation(x->op, {a->low, b->low}), operation(x->op, {a->high, b->high})};
  }
  const Polynomial p = polynomial(x);
  Expr low = p.constant, high = p.constant;
  for (const Polynomial::Term& term : p.terms) {
    Expr rest = 1;
    bool either_sign = false;  // a size and a loop's variable are not negative; n - 7 by way of an operation may be
    std::optional<Interval> part;
    for (const Expr& atom : term.atoms) {
      if (!varies(atom, ranges)) {
        rest = rest * atom;
        either_sign |= atom->kind != ExprNode::Kind::axis && !is_never_negative(atom, {});
        continue;
      }
      if (part || (atom->kind != ExprNode::Kind::axis && equal(*atom.node(), *x.node()))) return {};
      part = interval(atom, ranges);
      if (!part) return {};
    }
    const Expr factor = rest * Expr(term.factor);
    if (!part) part = Interval{1, 1};
    else if (either_sign) {
      const Expr one = part->low * factor, other = part->high * factor;
      low = low + operation(Op::min, {one, other}), high = high + operation(Op::max, {one, other});
      continue;
    }
    low = low + (term.factor < 0 ? part->high : part->low) * factor;
    high = high + (term.factor < 0 ? part->low : part->high) * factor;
  }
  return Interval{simplified(low), simplified(high)};
}

bool is_never_negative(const Expr& x, const Ranges& loops) {
  const auto shown = [&](const Expr& of) {
    const auto within = interval(of, loops);
    if (!within) return false;
    const Polynomial low = polynomial(without_quotients(within->low));
    return low.constant >= 0 && std::all_of(low.terms.begin(), low.terms.end(), [](const auto& term) {
             return term.factor > 0 && std::all_of(term.atoms.begin(), term.atoms.end(), [](const Expr& atom) {
                      return atom->kind == ExprNode::Kind::axis && atom->axis->kind == AxisNode::Kind::size;
                    });
           });
  };
  return shown(x) || shown(without_quotients(x));
}

bool add_facts(const Expr& condition, bool holds, std::vector<Expr>& facts) {
  static constexpr std::pair<Op, Op> opposites[] = {
      {Op::lt, Op::ge}, {Op::le, Op::gt}, {Op::gt, Op::le}, {Op::ge, Op::lt}, {Op::ne, Op::eq}};
  bool all = true;
  std::vector<std::pair<const Expr*, bool>> left{{&condition, holds}};
  while (!left.empty()) {
    const auto [at, is] = left.back();
    left.pop_back();
    const ExprNode& x = *at->node();
    const bool joins = x.kind == ExprNode::Kind::operation && x.type == DType::boolean;
    if (joins && x.op == Op::bit_not) {
      left.emplace_back(&x.args[0], !is);
    } else if (joins && x.op == (is ? Op::bit_and : Op::bit_or)) {
      left.emplace_back(&x.args[1], is);
      left.emplace_back(&x.args[0], is);
    } else if (joins && x.args.size() == 2 && x.args[0]->type == DType::i64) {
      const auto* const other = std::find_if(std::begin(opposites), std::end(opposites),
                                             [&](const auto& pair) { return pair.first == x.op; });
      std::vector<Expr> rests;
      if (is || other != std::end(opposites)) rests = at_least_zero(is ? *at : operation(other->second, x.args));
      facts.insert(facts.end(), rests.begin(), rests.end());
      all &= !rests.empty();
    } else {
      all = false;
    }
  }
  return all;
}

// ---- indices behind conditions ------------------------------------------------------------------

namespace {

class Holding {
 public:
  explicit Holding(const OperationNode& op) {
    for (const auto* list : {&op.axes, &op.reduce_axes}) {
      for (const AxisPtr& axis : *list) {
        ranges_[axis.get()] = {axis->begin, simplified(axis->begin + axis->extent - Expr(1))};
        facts_.push_back(fact(axis->extent - Expr(1)));  // or no element is computed
      }
    }
  }

  // Indices behind a condition, in a part of the tree that it guards as a whole.
  Expr behind(const Expr& condition, bool holds, const Expr& x) {
    Guard guard = enter(condition, holds);
    Expr result = value(x);
    leave(std::move(guard));
    return result;
  }

  Expr value(const Expr& x) {
    std::vector<Open> open;
    Expr last = begin(x, open);  // what the innermost is, once it is known
    while (!open.empty()) {
      Open& top = open.back();
      const auto is_guarded = [&] {
        return top.next > 0 && top.node.kind == ExprNode::Kind::operation && top.node.op == Op::where;
      };
      if (!last.empty()) {
        if (is_guarded()) leave(std::move(top.guard));
        top.changed |= last.node() != top.node.args[top.next].node();
        top.node.args[top.next++] = std::exchange(last, {});
      }
      if (top.next == top.node.args.size()) {
        last = made_of(std::move(top));
        open.pop_back();
        continue;
      }
      if (is_guarded()) top.guard = enter(top.at->args[0], top.next == 1);
      last = begin(top.at->args[top.next], open);
    }
    return last;
  }

 private:
  using Known = std::unordered_map<const ExprNode*, Expr>;

  // rest >= 0.
  struct Fact {
    Polynomial rest;
    Expr whole;
    std::set<const AxisNode*> axes;
    // Whether the other says as much of the same, but for a number.
    [[nodiscard]] bool differs(const Fact& other) const {
      return std::equal(rest.terms.begin(), rest.terms.end(), other.rest.terms.begin(), other.rest.terms.end(),
                        [](const auto& a, const auto& b) {
                          return a.factor == b.factor &&
                                 std::equal(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(),
                                            [](const Expr& x, const Expr& y) { return equal(*x.node(), *y.node()); });
                        });
    }
  };
  // A condition that stands around: what was known outside of it.
  struct Guard {
    std::size_t count = 0;
    std::vector<std::pair<std::size_t, Fact>> weaker;  // facts for which one that differs by a number stands meanwhile
    Known outside;
  };
  // A node so many of whose arguments are walked.
  struct Open {
    Expr at;
    ExprNode node;
    std::size_t next = 0;
    bool changed = false;
    Guard guard{};  // of the next argument
  };

  Guard enter(const Expr& condition, bool holds) {
    Guard guard{facts_.size(), {}, {}};
    std::vector<Expr> added;
    add_facts(condition, holds, added);
    for (const Expr& each : added) {
      Fact now = fact(each);
      const auto old = std::find_if(facts_.begin(), facts_.end(), [&](const Fact& f) { return f.differs(now); });
      if (old == facts_.end()) facts_.push_back(std::move(now));
      else if (now.rest.constant < old->rest.constant) {
        guard.weaker.emplace_back(old - facts_.begin(), *old);
        *old = std::move(now);
      }
    }
    std::swap(guard.outside, done_);
    ++guards_;
    return guard;
  }
  void leave(Guard guard) {
    --guards_;
    std::swap(guard.outside, done_);
    facts_.resize(guard.count);
    for (auto each = guard.weaker.rbegin(); each != guard.weaker.rend(); ++each)
      if (each->first < guard.count) facts_[each->first] = std::move(each->second);
  }

  // What is known of it, else nothing, and it is open.
  Expr begin(const Expr& x, std::vector<Open>& open) {
    if (x->kind != ExprNode::Kind::read && x->kind != ExprNode::Kind::operation) return x;
    if (const auto found = done_.find(x.node().get()); found != done_.end()) return found->second;
    open.push_back({x, *x.node()});
    return {};
  }
  Expr made_of(Open open) {
    const Expr& x = open.at;
    ExprNode& node = open.node;
    Expr otherwise;  // of a tensor without elements
    for (std::size_t d = 0; guards_ > 0 && x->kind == ExprNode::Kind::read && d < node.args.size(); ++d) {
      const Expr last = simplified(x->tensor->shape[d] - Expr(1)), index = node.args[d];
      const bool below = is_shown(simplified(last - index)), above = is_shown(index);
      if (!below) node.args[d] = operation(Op::min, {node.args[d], last});
      if (!above) node.args[d] = operation(Op::max, {node.args[d], Expr(0)});
      open.changed |= !below || !above;
      if (!(below && above) && !is_shown(last)) otherwise = both(otherwise, last >= Expr(0));
    }
    Expr result = open.changed ? made(std::move(node)) : x;
    if (!otherwise.empty()) result = operation(Op::where, {otherwise, result, converted(Expr(0), result->type)});
    return done_.emplace(x.node().get(), std::move(result)).first->second;
  }

  static std::set<const AxisNode*> axes_of(const Expr& x) {
    std::set<const AxisNode*> axes;
    visit(x, [&](const ExprNode& node) {
      if (node.kind == ExprNode::Kind::axis) axes.insert(node.axis.get());
    });
    return axes;
  }
  static Fact fact(const Expr& x) { return {polynomial(x), x, axes_of(x)}; }

  // x >= 0, by itself or because some times one of the facts says as much. Of integers that is c*x + c - 1 >= 0.
  [[nodiscard]] bool is_shown(const Expr& x) const {
    if (x->depth > deepest_sum) return false;
    std::int64_t scale = 1;
    for (const Polynomial::Term& term : polynomial(x).terms)
      if (const std::int64_t c = divisor_of(term); c > 1 && scale < 4096)
        scale = std::lcm(scale, std::min<std::int64_t>(c, 4096));
    const Expr wanted = scale == 1 ? x : simplified(x * Expr(scale) + Expr(scale - 1));
    if (is_never_negative(wanted, ranges_)) return true;
    const Polynomial p = polynomial(wanted);
    const std::set<const AxisNode*> axes = axes_of(wanted);
    int tried = 0;
    for (auto each = facts_.rbegin(); each != facts_.rend() && tried < most_tried; ++each) {
      const std::set<const AxisNode*>& others = each->axes;
      if (std::none_of(others.begin(), others.end(), [&](const AxisNode* axis) { return axes.count(axis) != 0; }))
        continue;
      ++tried;
      std::set<std::int64_t> times{1};
      for (const Polynomial::Term& term : each->rest.terms)
        for (const Polynomial::Term& mine : p.terms)
          if (term.atoms.size() == 1 && mine.atoms.size() == 1 && equal(*term.atoms[0].node(), *mine.atoms[0].node()) &&
              mine.factor % term.factor == 0 && mine.factor / term.factor > 1)
            times.insert(mine.factor / term.factor);
      for (const std::int64_t c : times)
        if (is_never_negative(simplified(wanted - each->whole * Expr(c)), ranges_)) return true;
    }
    return false;
  }

  Ranges ranges_;
  static constexpr int most_tried = 64;  // the innermost: a read in many conditions would try the square of them
  std::vector<Fact> facts_;
  Known done_;  // behind the same conditions
  int guards_ = 0;
};

}  // namespace

OperationPtr held(const OperationPtr& operation) {
  auto op = std::make_shared<OperationNode>(*operation);
  if (op->is_placeholder() || op->is_within) return op;
  Holding holding(*op);
  const Reduction* const reduction = op->reduction();
  if (!reduction) {
    for (Expr& part : op->body) part = holding.value(part);
    return op;
  }
  auto now = std::make_shared<Reduction>(*reduction);
  if (!now->where.empty()) now->where = holding.value(now->where);
  for (Expr& source : now->sources)
    source = reduction->where.empty() ? holding.value(source) : holding.behind(reduction->where, true, source);
  for (Expr& part : op->body) {
    ExprNode node = *part.node();
    node.reduction = now;
    part = made(std::move(node));
  }
  return op;
}

bool is_bounded(const Expr& index) {
  if (index->kind != ExprNode::Kind::operation) return index->kind != ExprNode::Kind::read;
  const std::vector<Expr>& args = index->args;
  switch (index->op) {
    case Op::max:
      if (args[0]->kind == ExprNode::Kind::operation && args[0]->op == Op::min && same(args[1], 0)) return true;
      break;
    case Op::floordiv: {
      bool sizes = true;
      visit(args[1], [&](const ExprNode& x) {
        sizes &=
            x.kind != ExprNode::Kind::read && (x.kind != ExprNode::Kind::axis || x.axis->kind == AxisNode::Kind::size);
      });
      if (sizes) break;
      return false;
    }
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::neg:
    case Op::min: break;
    default: return false;
  }
  return std::all_of(args.begin(), args.end(), is_bounded);
}

}  // namespace postlude::inline v0::te
