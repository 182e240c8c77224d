#include "lower/extremes.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_set>

namespace postlude::inline v0::lower {
namespace {

bool is_extreme(const Item& x) {
  return x.op == Op::reduce && x.type == DType::f32 && (x.reducer == Reducer::max || x.reducer == Reducer::min);
}

// What is known of a value that is no NaN.
struct Known {
  bool nonnegative = false;
  bool normal = false;  // positive, and not denormal
  bool finite = false;
};

class Extremes {
 public:
  explicit Extremes(Work& work) : uses_(work.uses()), to_(work) {}

  bool run() {
    Item item;
    while (to_.next(item)) {
      std::optional<NodeId> by = is_extreme(item) ? columns_first(item) : std::nullopt;
      if (!by && is_extreme(item)) by = rewritten(item);
      if (by) to_.replace(*by);
      else to_.keep(std::move(item));
      if (uses_[to_.current()] == 1) once_.insert(to_.now(to_.current()));
    }
    return to_.finish();
  }

 private:
  // An element is step after step of another one, which is the step's argument `through`.
  struct Step {
    NodeId item;
    std::size_t through;
  };

  static constexpr std::size_t most_steps = 4;  // longer chains would grow by the square

  std::vector<std::int32_t> uses_;  // of each old item
  Rewriter to_;
  std::unordered_set<NodeId> once_;  // new items that are used once
  std::vector<std::int32_t> depth_;  // of each new item: reductions one behind the other
  std::vector<Known> known_;         // and what is known of it

  std::int32_t depth(NodeId id) {
    for (auto i = static_cast<NodeId>(depth_.size()); i <= id; ++i) depth_.push_back(depth_of(to_[i], depth_));
    return depth_[id];
  }

  // What is the same for all elements of one result, as it is beside the result; else -1.
  NodeId uniform(NodeId id, const Item& reduce) const {
    const Item& x = to_[id];
    if ((x.vary & reduce.axes).empty()) return id;
    return is_beside_groups(x, reduce) ? x.args[0] : -1;
  }

  static Known constant(double c) { return {c >= 0, c >= FLT_MIN, std::isfinite(c)}; }

  const Known& known(NodeId id) {
    for (auto i = static_cast<NodeId>(known_.size()); i <= id; ++i) known_.push_back(known_of(to_[i]));
    return known_[id];
  }

  Known known_of(const Item& x) const {
    if (x.op == Op::constant && x.type == DType::f32) return constant(x.literal.real);
    if (x.is_count()) return {.nonnegative = true, .finite = true};
    if (x.type != DType::f32) return {};
    const auto of = [&](std::size_t i) { return known_[x.args[i]]; };
    switch (x.op) {
      case Op::repeat: return of(0);
      case Op::abs: return {.nonnegative = true, .finite = of(0).finite};
      case Op::exp: return {.nonnegative = true};
      case Op::mul: return {.nonnegative = x.args[0] == x.args[1] || (of(0).nonnegative && of(1).nonnegative)};
      case Op::div: {
        const Known a = of(0), b = of(1);
        const bool small = to_[x.args[0]].op == Op::constant && std::abs(to_[x.args[0]].literal.real) <= 2;
        return {.nonnegative = a.nonnegative && b.nonnegative, .finite = small && b.normal};
      }
      case Op::add: {
        const Known a = of(0), b = of(1);
        const bool both = a.nonnegative && b.nonnegative;
        return {.nonnegative = both, .normal = both && (a.normal || b.normal)};
      }
      case Op::fma: {
        const Known c = of(2);
        const bool all = c.nonnegative && (x.args[0] == x.args[1] || (of(0).nonnegative && of(1).nonnegative));
        return {.nonnegative = all, .normal = all && c.normal};
      }
      case Op::max: {
        const Known a = of(0), b = of(1);
        return {a.nonnegative || b.nonnegative, a.normal || b.normal, a.finite && b.finite};
      }
      case Op::sqrt: return of(0);
      case Op::rsqrt: return {.nonnegative = of(0).normal, .finite = of(0).normal};
      case Op::reduce: return {.nonnegative = x.reducer == Reducer::sum && of(0).nonnegative};
      case Op::get: {  // squared distances, or a sum of exponentials
        const Reducer by = to_[x.args[0]].reducer;
        return {.nonnegative = x.index == 1 && (by == Reducer::welford || by == Reducer::online_softmax)};
      }
      default: return {};
    }
  }

  // Which argument of an element a monotone step goes through, else none: all others are uniform.
  std::optional<std::size_t> through(const Item& e, const Item& reduce) {
    if (e.type != DType::f32) return {};
    const auto is = [&](std::size_t i) { return uniform(e.args[i], reduce) >= 0; };
    switch (e.op) {
      case Op::neg: return 0;
      case Op::cast:
        if (e.round != Round::nearest_even || to_[e.args[0]].type != DType::f32) return {};
        return 0;
      case Op::add:
      case Op::sub:
      case Op::max:
      case Op::min: return is(1) ? std::optional<std::size_t>(0) : is(0) ? std::optional<std::size_t>(1) : std::nullopt;
      case Op::mul:
        for (const std::size_t i : {0, 1})
          if (is(1 - i) && known(uniform(e.args[1 - i], reduce)).finite) return i;
        return {};
      case Op::fma:
        if (!is(2)) return {};
        for (const std::size_t i : {0, 1})
          if (is(1 - i) && known(uniform(e.args[1 - i], reduce)).finite) return i;
        return {};
      case Op::div:
        if (is(1) && known(uniform(e.args[1], reduce)).normal) return 0;
        return {};
      default: return {};
    }
  }

  // Whether a step takes -x to the negative of what it takes x to.
  static bool is_odd(Op op) { return op == Op::neg || op == Op::cast || op == Op::mul || op == Op::div; }

  bool same_place(NodeId a, NodeId b) const {
    return to_[a].vary == to_[b].vary && to_[a].rows == to_[b].rows && to_[a].columns == to_[b].columns;
  }

  NodeId reduced(Item reduce, Reducer reducer, NodeId of) {
    reduce.reducer = reducer;
    reduce.args = {of};
    return to_.add(std::move(reduce));
  }

  // The steps of the element that `value` is of, as they are of the result.
  NodeId stepped(NodeId value, const std::vector<Step>& steps, const Item& reduce) {
    for (std::size_t s = steps.size(); s-- > 0;) {
      Item step = to_[steps[s].item];
      for (std::size_t i = 0; i < step.args.size(); ++i)
        step.args[i] = i == steps[s].through ? value : uniform(step.args[i], reduce);
      value = to_.broadcasted(std::move(step));
    }
    return value;
  }

  // Of a block's extreme, groups of columns come before groups of rows, whichever way it is written.
  std::optional<NodeId> columns_first(const Item& outer) {
    Item inner = to_[outer.args[0]];
    if (!(outer.axes == Axes(Axis::n) && outer.group && is_extreme(inner) && inner.axes == Axes(Axis::m) &&
          inner.group && inner.reducer == outer.reducer && once_.contains(outer.args[0])))
      return {};
    Item columns = outer;
    columns.args = inner.args, columns.rows = to_[inner.args[0]].rows;
    inner.args = {to_.add(std::move(columns))}, inner.columns = outer.columns;
    return to_.add(std::move(inner));
  }

  std::optional<NodeId> rewritten(const Item& reduce) {
    const NodeId element = reduce.args[0];
    const bool magnitude = to_[element].op == Op::abs && reduce.reducer == Reducer::max;
    NodeId core = magnitude ? to_[element].args[0] : element;
    std::vector<Step> steps;
    while (steps.size() < most_steps) {
      const auto at = through(to_[core], reduce);
      if (!at) break;
      const NodeId next = to_[core].args[*at];
      if (!same_place(next, element)) break;
      steps.push_back({core, *at});
      core = next;
    }
    while (!steps.empty() && depth(core) == depth(steps.back().item)) {  // steps that wait for nothing stay inside
      core = steps.back().item;
      steps.pop_back();
    }
    if (steps.empty() || depth(core) >= depth(element)) return {};
    const auto outer = [&](NodeId x) { return magnitude ? to_.make(Op::abs, DType::f32, {x}, reduce.origin) : x; };
    if (magnitude && std::all_of(steps.begin(), steps.end(), [&](const Step& s) { return is_odd(to_[s.item].op); }))
      return of_some(outer(stepped(reduced(reduce, Reducer::max, outer(core)), steps, reduce)), reduce);
    const NodeId most = outer(stepped(reduced(reduce, Reducer::max, core), steps, reduce)),
                 least = outer(stepped(reduced(reduce, Reducer::min, core), steps, reduce));
    const Op op = reduce.reducer == Reducer::max ? Op::max : Op::min;
    return of_some(to_.make(op, DType::f32, {most, least}, reduce.origin), reduce);
  }

  // Of no elements the extreme is infinite, whatever their statistics. Groups have some.
  NodeId of_some(NodeId value, const Item& reduce) {
    if (reduce.group > 0) return value;
    const double infinity = std::numeric_limits<double>::infinity();
    const NodeId none = to_.constant(DType::f32, reduce.reducer == Reducer::max ? -infinity : infinity, reduce.origin),
                 zero = to_.constant(DType::f32, 0, reduce.origin),
                 some = to_.make(Op::gt, DType::boolean, {to_.count(reduce, reduce.axes, DType::f32), zero},
                                 reduce.origin);
    return to_.make(Op::where, DType::f32, {some, value, none}, reduce.origin);
  }
};

}  // namespace

bool extremes(Work& work) { return Extremes(work).run(); }

}  // namespace postlude::inline v0::lower
