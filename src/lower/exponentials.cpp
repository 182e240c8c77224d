#include "lower/exponentials.h"

#include "core/convert.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

namespace postlude::inline v0::lower {
namespace {

// One sum: of exp(scale * (x - m)) * weight, by divisors.
struct Term {
  NodeId maximum = -1;
  double scale = 0;
  NodeId weight = -1;
  bool wide = false;             // the weights are so large, or may be, that sums of them could overflow
  std::vector<NodeId> divisors;  // other such sums of the same maximum

  [[nodiscard]] bool plain() const { return scale == 1 && weight < 0 && divisors.empty(); }
};

// Of each item: how many reductions stand one behind the other up to it.
std::vector<std::int32_t> depths(const std::vector<Item>& items) {
  std::vector<std::int32_t> result;
  for (const Item& item : items) result.push_back(depth_of(item, result));
  return result;
}

// What waits for fewer reductions first, so that weights stand before the maximum that joins them.
void sort_by_depth(Work& work) {
  const std::vector<std::int32_t> depth = depths(work.items);
  std::vector<NodeId> order(work.items.size()), now(work.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](NodeId a, NodeId b) { return depth[a] < depth[b]; });
  std::vector<Item> sorted;
  for (const NodeId old : order) {
    now[old] = static_cast<NodeId>(sorted.size());
    sorted.push_back(std::move(work.items[old]));
    for (NodeId& a : sorted.back().args) a = now[a];
  }
  work.items = std::move(sorted);
  for (WorkOutput& o : work.outputs) o.value = now[o.value];
}

// Sums of smaller weights are finite, however many there are. Larger ones are divided by twice this and summed apart.
constexpr double most_weight = 0x1p63;

double largest_finite(DType type) { return core::decode(type, core::float_format(type).max); }

// The largest magnitude that a finite value of each item has, as far as types and operations tell.
std::vector<double> largest(const Work& work) {
  constexpr double unknown = std::numeric_limits<double>::infinity();
  std::vector<double> result;
  for (const Item& x : work.items) {
    const auto of = [&](std::size_t i) { return result[x.args[i]]; };
    const auto largest_of = [&]() -> double {
      if (x.type != DType::f32) return 0x1p63;  // an integer
      switch (x.op) {
        case Op::constant: return std::abs(x.literal.real);
        case Op::operand: {
          const std::vector<OperandDecl>& operands = work.graph->operands;
          const auto dtype = operands[static_cast<std::size_t>(x.index)].dtype;
          return dtype ? largest_finite(*dtype) : unknown;
        }
        case Op::cast: return std::min(of(0), largest_finite(x.dtype));
        case Op::neg:
        case Op::abs:
        case Op::repeat: return of(0);
        case Op::add:
        case Op::sub: return of(0) + of(1);
        case Op::mul: return of(0) * of(1);
        case Op::fma: return of(0) * of(1) + of(2);
        case Op::min:
        case Op::max: return std::max(of(0), of(1));
        case Op::where: return std::max(of(1), of(2));
        case Op::sin:
        case Op::cos:
        case Op::tanh:
        case Op::erf:
        case Op::random: return 1;
        default: return unknown;
      }
    };
    result.push_back(largest_of());
  }
  return result;
}

class Finder {
 public:
  explicit Finder(const Work& work) : items_(work.items), depth_(depths(items_)), largest_(largest(work)) {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const auto id = static_cast<NodeId>(i);
      if (auto term = term_of(items_[i])) found_.emplace(id, std::move(*term));
    }
    // Only where a maximum has a sum that `fuse` does not take.
    std::map<NodeId, std::pair<int, bool>> of;
    for (const auto& [id, term] : found_) {
      auto& [sums, wanted] = of[term.maximum];
      sums += term.wide ? 2 : 1;
      wanted |= !term.plain();
    }
    std::erase_if(found_, [&](const auto& found) {
      const auto& [sums, wanted] = of[found.second.maximum];
      return !wanted || sums > most_sums;
    });
  }

  std::map<NodeId, Term> found() && { return std::move(found_); }

 private:
  static constexpr int most_sums = 8, deepest = 6;

  const std::vector<Item>& items_;
  std::vector<std::int32_t> depth_;
  std::vector<double> largest_;
  std::map<NodeId, Term> found_;

  // What stands for the result of `reduce` beside its elements: itself, or in groups repeated.
  NodeId of_result(NodeId id, const Item& reduce) const {
    if (reduce.group == 0) return id;
    return is_beside_groups(items_[id], reduce) ? items_[id].args[0] : -1;
  }

  static bool alike(const Item& a, const Item& b) {
    return a.axes == b.axes && a.group == b.group && a.vary == b.vary && a.rows == b.rows && a.columns == b.columns;
  }

  // exp((x - max(x)) * c): adds the maximum and c.
  bool exponential(const Item& e, const Item& sum, Term& term) const {
    if (e.op != Op::exp) return false;
    const Item* difference = &items_[e.args[0]];
    double scale = 1;
    if (difference->op == Op::mul || difference->op == Op::div) {
      const Item& by = items_[difference->args[1]];
      if (by.op != Op::constant || by.type != DType::f32) return false;
      scale = difference->op == Op::mul ? by.literal.real : 1 / by.literal.real;
      difference = &items_[difference->args[0]];
    }
    if (difference->op != Op::sub || !(scale > 0x1p-20) || !(scale < 0x1p20)) return false;
    const NodeId x = difference->args[0], m = of_result(difference->args[1], sum);
    if (m < 0 || (term.maximum >= 0 && term.maximum != m)) return false;
    const Item& maximum = items_[m];
    if (maximum.op != Op::reduce || maximum.reducer != Reducer::max || maximum.args[0] != x || !alike(maximum, sum) ||
        items_[x].vary != items_[sum.args[0]].vary)
      return false;
    term.maximum = m;
    term.scale += scale;
    return true;
  }

  // The factors of an element: exponentials, at most one weight, and as divisors sums that were found before.
  bool factors(NodeId id, const Item& sum, Term& term, int deep) const {
    const Item& x = items_[id];
    if (deep < deepest && x.op == Op::mul) {
      Term both = term;
      if (factors(x.args[0], sum, both, deep + 1) && factors(x.args[1], sum, both, deep + 1) &&
          both.scale > term.scale) {
        term = std::move(both);
        return true;
      }
    } else if (deep < deepest && x.op == Op::div) {
      Term above = term;
      const NodeId by = of_result(x.args[1], sum);
      const auto other = found_.find(by);
      if (other != found_.end() && other->second.divisors.empty() && other->second.weight < 0 &&
          alike(items_[by], sum) && factors(x.args[0], sum, above, deep + 1) &&
          above.maximum == other->second.maximum) {
        term = std::move(above);
        term.divisors.push_back(by);
        return true;
      }
    } else if (exponential(x, sum, term)) {
      return true;
    }
    if (term.weight >= 0) return false;
    term.weight = id;
    return true;
  }

  std::optional<Term> term_of(const Item& sum) const {
    if (sum.op != Op::reduce || sum.reducer != Reducer::sum || sum.type != DType::f32) return {};
    Term term;
    if (!factors(sum.args[0], sum, term, 0) || term.maximum < 0) return {};
    const NodeId x = items_[term.maximum].args[0];
    if (term.weight >= 0 && depth_[term.weight] > depth_[x]) return {};  // it would wait for another pass
    term.wide = term.weight >= 0 && !(largest_[term.weight] <= most_weight);
    return term;
  }
};

// {m, s1, ...} and {n, t1, ...} make {max(m, n), s1 + t1, ...}, the sums of the smaller maximum scaled first.
std::shared_ptr<const Lambda> combiner(const std::vector<double>& scales) {
  auto combine = std::make_shared<Lambda>();
  const auto add = [&](Op op, std::vector<NodeId> args, std::int32_t index = 0) {
    Node node;
    node.op = op;
    node.args = std::move(args);
    node.index = index;
    combine->nodes.push_back(std::move(node));
    return static_cast<NodeId>(combine->nodes.size()) - 1;
  };
  const auto number = [&](double value) {
    const NodeId id = add(Op::constant, {});
    combine->nodes.back().literal = {DType::f32, value, 0};
    return id;
  };
  const auto sums = static_cast<std::int32_t>(scales.size());
  combine->parameters = 2 * (sums + 1);
  for (std::int32_t i = 0; i < combine->parameters; ++i) add(Op::parameter, {}, i);
  const NodeId m = 0, n = sums + 1;
  combine->results = {add(Op::max, {m, n})};
  const NodeId below = add(Op::neg, {add(Op::abs, {add(Op::sub, {m, n})})}), first = add(Op::lt, {m, n}),
               second = add(Op::lt, {n, m});
  std::map<double, NodeId> factors;
  for (std::int32_t k = 0; k < sums; ++k) {
    NodeId& factor = factors[scales[static_cast<std::size_t>(k)]];
    if (factor == 0) {
      const double c = scales[static_cast<std::size_t>(k)];
      factor = add(Op::exp, {c == 1 ? below : add(Op::mul, {below, number(c)})});
    }
    const NodeId s = m + 1 + k, t = n + 1 + k;
    combine->results.push_back(add(Op::add, {add(Op::where, {first, add(Op::mul, {s, factor}), s}),
                                             add(Op::where, {second, add(Op::mul, {t, factor}), t})}));
  }
  return combine;
}

class Joiner {
 public:
  Joiner(Work& work, std::map<NodeId, Term> terms) : terms_(std::move(terms)), to_(work) {
    for (const auto& [sum, term] : terms_) of_maximum_[term.maximum].push_back(sum);
  }

  bool run() {
    Item item;
    while (to_.next(item)) {
      const NodeId old = to_.current();
      if (of_maximum_.contains(old)) join(item, old);
      else if (const auto t = terms_.find(old); t != terms_.end()) sum(item, old, t->second);
      else to_.keep(std::move(item));
    }
    return to_.finish();
  }

 private:
  std::map<NodeId, Term> terms_;
  std::map<NodeId, std::vector<NodeId>> of_maximum_;  // the sums
  std::map<NodeId, NodeId> joined_;                   // maximum -> the reduction
  std::map<NodeId, int> first_;                       // sum -> its component, the first if it has two
  Rewriter to_;

  void join(const Item& maximum, NodeId old) {
    Item item = maximum;
    item.reducer = Reducer::custom;
    item.reduction = ReduceOp::custom;
    item.identity = {-std::numeric_limits<double>::infinity()};
    std::vector<double> scales;
    for (const NodeId sum : of_maximum_[old]) {
      const Term& term = terms_.at(sum);
      first_[sum] = static_cast<int>(item.args.size());
      for (const NodeId weight : weights(term, item.origin)) {
        item.args.push_back(weight);
        item.identity.push_back(0);
        scales.push_back(term.scale);
      }
    }
    item.combine = combiner(scales);
    joined_[old] = to_.add(std::move(item));
    to_.replace(to_.component(joined_[old], 0, DType::f32));
  }

  // The weights below `most_weight`, and the others by twice that, with those that are not finite.
  std::vector<NodeId> weights(const Term& term, NodeId origin) {
    const auto number = [&](double value) { return to_.constant(DType::f32, value, origin); };
    if (term.weight < 0) return {number(1)};
    const NodeId weight = to_.now(term.weight);
    if (!term.wide) return {weight};
    const auto make = [&](Op op, std::initializer_list<NodeId> args) { return to_.make(op, DType::f32, args, origin); };
    const NodeId zero = number(0), most = number(most_weight),
                 small = to_.make(Op::le, DType::boolean, {make(Op::abs, {weight}), most}, origin),
                 scaled = make(Op::mul, {weight, number(0.5 / most_weight)});
    return {make(Op::where, {small, weight, zero}), make(Op::where, {small, zero, scaled})};
  }

  // Below a maximum that is not finite there is a NaN. The sum of no elements is 0; groups have some.
  void sum(const Item& item, NodeId old, const Term& term) {
    const NodeId joined = joined_.at(term.maximum), origin = item.origin, m = to_.component(joined, 0, DType::f32);
    const NodeId zero = to_.constant(DType::f32, 0, origin),
                 nan = to_.constant(DType::f32, std::numeric_limits<double>::quiet_NaN(), origin),
                 off = to_.make(Op::sub, DType::f32, {m, m}, origin);
    NodeId undefined = to_.make(Op::ne, DType::boolean, {off, zero}, origin), some = -1;
    if (item.group == 0) {
      const NodeId count = to_.count(item, item.axes, DType::f32);
      some = to_.make(Op::gt, DType::boolean, {count, zero}, origin);
      undefined = to_.make(Op::bit_and, DType::boolean, {some, undefined}, origin);
    }
    const auto divided = [&](int component) {  // each part by itself: the quotient is finite where their sum may not be
      NodeId part = to_.component(joined, component, DType::f32);
      for (const NodeId by : term.divisors) part = to_.make(Op::div, DType::f32, {part, to_.now(by)}, origin);
      return part;
    };
    NodeId value = divided(first_.at(old));
    if (term.wide) {
      const NodeId by = to_.constant(DType::f32, 2 * most_weight, origin);
      value = to_.make(Op::fma, DType::f32, {divided(first_.at(old) + 1), by, value}, origin);
    }
    // What divides each element of none may be 0.
    if (some >= 0 && !term.divisors.empty()) value = to_.make(Op::where, DType::f32, {some, value, zero}, origin);
    to_.replace(to_.make(Op::where, DType::f32, {undefined, nan, value}, origin));
  }
};

}  // namespace

bool exponentials(Work& work) {
  if (Finder(work).found().empty()) return false;
  sort_by_depth(work);
  return Joiner(work, Finder(work).found()).run();
}

}  // namespace postlude::inline v0::lower
