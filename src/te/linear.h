// Integer expressions whose sizes are known, over the loops' variables: as sums where they are, as
// small programs where they are not.
#pragma once

#include "te/nest.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace postlude::inline v0::te {

// The places of loop variables in a frame.
class Slots {
 public:
  int of(const AxisNode* axis) { return places_.emplace(axis, static_cast<int>(places_.size())).first->second; }
  [[nodiscard]] std::size_t count() const { return places_.size(); }

 private:
  std::unordered_map<const AxisNode*, int> places_;
};

struct Linear {
  struct Term {
    int slot;
    std::int64_t factor;
  };
  std::int64_t constant = 0;
  std::vector<Term> terms;
  std::vector<std::pair<Expr, std::int64_t>> others;       // atoms that are no variable, and their factors
  std::vector<std::pair<const AxisNode*, int>> variables;  // that `others` have
  Sizes sizes;                                             // that they have

  [[nodiscard]] bool is_affine() const { return others.empty(); }
  [[nodiscard]] std::int64_t factor(int slot) const {
    for (const Term& term : terms)
      if (term.slot == slot) return term.factor;
    return 0;
  }
  [[nodiscard]] bool others_have(int slot) const {
    for (const auto& variable : variables)
      if (variable.second == slot) return true;
    return false;
  }
  [[nodiscard]] std::int64_t at(std::span<const std::int64_t> loops) const {
    std::int64_t sum = constant;
    for (const Term& term : terms) sum += term.factor * loops[static_cast<std::size_t>(term.slot)];
    if (!others.empty()) {
      Sizes values = sizes;
      for (const auto& [axis, slot] : variables) values[axis] = loops[static_cast<std::size_t>(slot)];
      for (const auto& [atom, factor] : others) sum += factor * evaluate(atom, values);
    }
    return sum;
  }
};

[[nodiscard]] inline Linear linear(const Expr& x, const Sizes& sizes, Slots& slots) {
  Linear result;
  const Polynomial p = polynomial(x, &sizes);
  result.constant = p.constant;
  for (const Polynomial::Term& term : p.terms) {
    if (term.atoms.size() == 1 && term.atoms[0]->kind == ExprNode::Kind::axis) {
      result.terms.push_back({slots.of(term.atoms[0]->axis.get()), term.factor});
      continue;
    }
    Expr product = term.atoms[0];
    for (std::size_t i = 1; i < term.atoms.size(); ++i) product = product * term.atoms[i];
    result.others.emplace_back(product, term.factor);
    visit(product, [&](const ExprNode& node) {
      if (node.kind != ExprNode::Kind::axis) return;
      if (const auto size = sizes.find(node.axis.get()); size != sizes.end()) result.sizes.insert(*size);
      else result.variables.emplace_back(node.axis.get(), slots.of(node.axis.get()));
    });
  }
  return result;
}

// Of an index that lies deeper no sum is made, which would take the square of its depth.
inline constexpr std::uint32_t deepest_sum = 64;

// The parts of a condition that all must hold.
inline void split_and(const Expr& x, std::vector<Expr>& parts) {
  if (x->kind == ExprNode::Kind::operation && x->op == Op::bit_and && x->type == DType::boolean) {
    split_and(x->args[0], parts);
    split_and(x->args[1], parts);
  } else {
    parts.push_back(x);
  }
}

// A condition in two: what sizes and loops say, and what is computed, which may leave a tensor where the other fails.
struct Condition {
  Expr others, computed;
};
[[nodiscard]] inline Condition apart(const Expr& x) {
  Condition made;
  std::vector<Expr> parts;
  if (!x.empty()) split_and(x, parts);
  for (const Expr& part : parts) {
    Expr& of = is_computed(part) ? made.computed : made.others;
    of = both(of, part);
  }
  return made;
}

inline constexpr std::int64_t most_sure = std::int64_t{1} << 61;  // what may be compared by a difference

// Whether it compares what is not computed, nor is of numbers whose differences may not fit 64 bits: those of loops and
// sizes, whose ranges are not known here, are refused when sizes are bound.
[[nodiscard]] inline bool is_compared_by_difference(const Expr& x) {
  return x->kind == ExprNode::Kind::operation && x->args.size() == 2 && x->args[0]->type == DType::i64 &&
         !is_computed(x) && std::all_of(x->args.begin(), x->args.end(), [](const Expr& side) {
           const std::int64_t constant = polynomial(side).constant;
           return constant >= -most_sure && constant <= most_sure;
         });
}
// A condition as x >= 0; an equality as two of them.
[[nodiscard]] inline std::vector<Expr> at_least_zero(const Expr& x) {
  if (!is_compared_by_difference(x)) return {};
  const Expr &a = x->args[0], &b = x->args[1];
  switch (x->op) {
    case Op::lt: return {b - a - Expr(1)};
    case Op::le: return {b - a};
    case Op::gt: return {a - b - Expr(1)};
    case Op::ge: return {a - b};
    case Op::eq: return {a - b, b - a};
    default: return {};
  }
}

}  // namespace postlude::inline v0::te
