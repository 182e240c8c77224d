// What arrays must be for a nest: sizes, strides, and indices that stay within tensors.
#include "plan/overlap.h"
#include "te/interval.h"
#include "te/linear.h"
#include "te/run.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

namespace postlude::inline v0::te {
namespace {

std::string shape_text(const v0::Tensor& array) {
  std::string text;
  for (int d = 0; d < array.rank; ++d)
    text += (d ? ", " : "") + std::to_string(array.shape[static_cast<std::size_t>(d)]);
  return "(" + text + ")";
}

std::string shape_text(const std::vector<Expr>& shape) {
  std::string text;
  for (const Expr& x : shape) text += (text.empty() ? "" : ", ") + print(x);
  return "(" + text + ")";
}

struct Range {
  std::int64_t low, high;
};
using NumericRanges = std::unordered_map<const AxisNode*, Range>;

// Of operations on integers that are no sums or products.
std::optional<Range> range_of(Op op, const Range& a, const Range& b) {
  const auto quotient = [](std::int64_t x, std::int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); };
  switch (op) {
    case Op::min: return Range{std::min(a.low, b.low), std::min(a.high, b.high)};
    case Op::max: return Range{std::max(a.low, b.low), std::max(a.high, b.high)};
    case Op::floordiv:
      if (b.low != b.high || b.low == 0 || a.low == std::numeric_limits<std::int64_t>::min()) return {};
      if (b.low < 0) return Range{quotient(a.high, b.low), quotient(a.low, b.low)};
      return Range{quotient(a.low, b.low), quotient(a.high, b.low)};
    default: return {};
  }
}

// Of a sum of products, in which equal terms meet; nothing where so many `steps` do not tell: remainders of remainders
// take a power of them.
std::optional<Range> range_of(const Expr& x, const Sizes& sizes, const NumericRanges& axes, int& steps);

std::optional<Range> range_of(const Polynomial& p, const Sizes& sizes, const NumericRanges& axes, int& steps) {
  bool overflows = false;
  const auto times = [&](std::int64_t a, std::int64_t b) {
    std::int64_t product;
    overflows |= __builtin_mul_overflow(a, b, &product);
    return product;
  };
  Range sum{p.constant, p.constant};
  for (const Polynomial::Term& term : p.terms) {
    Range product{1, 1};
    for (const Expr& atom : term.atoms) {
      std::optional<Range> part;
      if (atom->kind == ExprNode::Kind::axis) {
        const auto found = axes.find(atom->axis.get());
        if (found == axes.end()) return {};
        part = found->second;
      } else if (atom->kind == ExprNode::Kind::operation && atom->type == DType::i64) {
        std::vector<Range> args;
        for (const Expr& arg : atom->args) {
          const auto range = arg->type == DType::i64 ? range_of(arg, sizes, axes, steps) : std::nullopt;
          if (!range) return {};
          args.push_back(*range);
        }
        part = range_of(atom->op, args.front(), args.back());
      }
      if (!part) return {};
      const std::int64_t ends[] = {times(product.low, part->low), times(product.low, part->high),
                                   times(product.high, part->low), times(product.high, part->high)};
      product = {*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4)};
    }
    const std::int64_t a = times(product.low, term.factor), b = times(product.high, term.factor);
    overflows |= __builtin_add_overflow(sum.low, std::min(a, b), &sum.low);
    overflows |= __builtin_add_overflow(sum.high, std::max(a, b), &sum.high);
  }
  if (overflows) return {};
  // x - x // c * c, what a remainder becomes, is within [0, c).
  for (std::size_t t = 0; t < p.terms.size(); ++t) {
    const Polynomial::Term& term = p.terms[t];
    if (term.atoms.size() != 1 || term.atoms[0]->kind != ExprNode::Kind::operation || term.atoms[0]->op != Op::floordiv)
      continue;
    const auto divisor = range_of(term.atoms[0]->args[1], sizes, axes, steps);
    if (!divisor || divisor->low != divisor->high || divisor->low < 1 || term.factor % divisor->low != 0) continue;
    const std::int64_t times = -term.factor / divisor->low;
    Polynomial without = p;
    without.terms.erase(without.terms.begin() + static_cast<std::ptrdiff_t>(t));
    const Polynomial rest = polynomial(expression(without) - term.atoms[0]->args[0] * Expr(times), &sizes);
    if (rest.terms.size() >= p.terms.size()) continue;
    const auto others = range_of(rest, sizes, axes, steps);
    const std::int64_t most = times * (divisor->low - 1);
    if (!others) continue;
    sum.low = std::max(sum.low, others->low + std::min<std::int64_t>(most, 0));
    sum.high = std::min(sum.high, others->high + std::max<std::int64_t>(most, 0));
  }
  return sum;
}
std::optional<Range> range_of(const Expr& x, const Sizes& sizes, const NumericRanges& axes, int& steps) {
  if (--steps < 0) return {};
  return range_of(polynomial(x, &sizes), sizes, axes, steps);
}
std::optional<Range> range_of(const Expr& x, const Sizes& sizes, const NumericRanges& axes) {
  int steps = 256;
  return range_of(x, sizes, axes, steps);
}

// Between which numbers expressions lie as they are written: what wraps is gone from a polynomial. Nothing is known of
// what is computed.
class Written {
 public:
  Written(const Sizes& sizes, const NumericRanges& axes) : sizes_(sizes), axes_(axes) {}

  // Whether a sum or a product in x may lie beyond 2^61, where others of it may wrap, or what is compared by a
  // difference. x is kept by the caller.
  bool is_beyond(const Expr& x) {
    const auto is_far = [this](const Expr& part) {
      const auto& at = range(part);
      return at && (at->low < -most_sure || at->high > most_sure);
    };
    const auto enters = [this](const ExprNode& node) {
      return node.kind == ExprNode::Kind::operation && !known_.count(&node);
    };
    for (const Expr* const each : parts(x, enters)) {
      const ExprNode& node = *each->node();
      if (const auto [at, is_new] = known_.try_emplace(&node); is_new) at->second = of(node);
      if (node.kind != ExprNode::Kind::operation) continue;
      if (node.type == DType::boolean && is_compared_by_difference(*each)) {
        if (std::any_of(node.args.begin(), node.args.end(), is_far)) return true;
      } else if (node.type == DType::i64 && node.op != Op::floordiv && is_far(*each)) {
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] const std::optional<Range>& range(const Expr& x) const { return known_.at(x.node().get()); }

 private:
  using Wide = __int128;
  static Range within(Wide low, Wide high) {
    constexpr Wide most = std::numeric_limits<std::int64_t>::max();
    return {static_cast<std::int64_t>(std::max(low, -most)), static_cast<std::int64_t>(std::min(high, most))};
  }

  static bool is(const ExprNode& x, Op op) { return x.kind == ExprNode::Kind::operation && x.op == op; }

  [[nodiscard]] std::optional<Range> of(const ExprNode& x) const {
    if (x.kind == ExprNode::Kind::constant && x.value.type != DType::f32)
      return Range{x.value.integer, x.value.integer};
    if (x.kind == ExprNode::Kind::axis) {
      if (const auto size = sizes_.find(x.axis.get()); size != sizes_.end()) return Range{size->second, size->second};
      const auto found = axes_.find(x.axis.get());
      return found == axes_.end() ? std::nullopt : std::optional(found->second);
    }
    if (x.kind != ExprNode::Kind::operation || x.type != DType::i64) return {};
    const std::size_t first = x.op == Op::where ? 1 : 0, second = x.args.size() - 1;
    for (std::size_t i = first; i < x.args.size(); ++i)
      if (x.args[i]->type != DType::i64 || !range(x.args[i])) return {};
    const Range a = *range(x.args[first]), b = *range(x.args[second]);
    switch (x.op) {
      case Op::add: return within(Wide{a.low} + b.low, Wide{a.high} + b.high);
      case Op::sub: {
        const Range whole = within(Wide{a.low} - b.high, Wide{a.high} - b.low);
        const ExprNode& product = *x.args[1].node();  // x - x // y * y
        if (!is(product, Op::mul) || !is(*product.args[0].node(), Op::floordiv)) return whole;
        const std::vector<Expr>& divided = product.args[0]->args;
        if (divided[0].node() != x.args[0].node() || divided[1].node() != product.args[1].node()) return whole;
        const Range by = *range(divided[1]);
        return by.low < 1 ? whole : Range{0, a.low < 0 ? by.high - 1 : std::min(a.high, by.high - 1)};
      }
      case Op::neg: return within(-Wide{a.high}, -Wide{a.low});
      case Op::abs: return within(0, std::max(-Wide{a.low}, Wide{a.high}));
      case Op::where: return Range{std::min(a.low, b.low), std::max(a.high, b.high)};
      case Op::floordiv: {
        if (const auto known = range_of(x.op, a, b)) return known;
        const Wide most = std::max({-Wide{a.low}, Wide{a.high}, Wide{1}});
        return within(-most, most);
      }
      case Op::mul: {
        const ExprNode& quotient = *x.args[0].node();  // x // y * y is at most |y| from x, or 0
        if (is(quotient, Op::floordiv) && quotient.args[1].node() == x.args[1].node()) {
          const Range of = *range(quotient.args[0]);
          const Wide most = std::max(-Wide{b.low}, Wide{b.high});
          return within(std::min(of.low - most, Wide{0}), std::max(of.high + most, Wide{0}));
        }
        const Wide ends[] = {Wide{a.low} * b.low, Wide{a.low} * b.high, Wide{a.high} * b.low, Wide{a.high} * b.high};
        return within(*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4));
      }
      default: return range_of(x.op, a, b);
    }
  }

  const Sizes& sizes_;
  const NumericRanges& axes_;
  std::unordered_map<const ExprNode*, std::optional<Range>> known_;
};

// Walks over the reads of a stage, with the conditions under which each counts.
class IndexCheck {
 public:
  IndexCheck(const Sizes& sizes, NumericRanges axes, std::string stage)
      : sizes_(sizes), axes_(std::move(axes)), stage_(std::move(stage)), written_(sizes_, axes_) {}

  void value(const Expr& x) {
    struct Open {
      const Expr* at;
      std::size_t next = 0, facts = 0;  // of its arguments; how many facts there were outside of a condition
    };
    std::vector<Open> open{{&x}};
    while (!open.empty()) {
      Open& top = open.back();
      const ExprNode& node = *top.at->node();
      const bool chooses = node.kind == ExprNode::Kind::operation && node.op == Op::where;
      if (chooses && top.next > 1) {
        facts_.resize(top.facts);
        guards_.pop_back();
      }
      if (top.next == node.args.size()) {
        if (node.kind == ExprNode::Kind::read) read(node);
        open.pop_back();
        continue;
      }
      const std::size_t i = top.next++;
      if (chooses && i > 0) {
        top.facts = facts_.size();
        assume(node.args[0], i == 1);
      }
      open.push_back({&node.args[i]});
    }
  }

  void assume(const Expr& condition, bool holds) {
    guards_.emplace_back(condition, holds);
    add_facts(condition, holds, facts_);
    if (written_.is_beyond(condition))
      throw Error(ErrorCode::size_overflow, "the condition " + print(condition) + " in " + quoted(stage_) +
                                                " is of numbers beyond 2^61, whose differences may not fit 64 bits");
  }

 private:
  void read(const ExprNode& x) {
    for (std::size_t d = 0; d < x.args.size(); ++d) {
      const Expr extent = x.tensor->shape[d];
      if (written_.is_beyond(x.args[d]))
        throw Error(ErrorCode::size_overflow, "index " + print(x.args[d]) + " of " + quoted(x.tensor->name) + " in " +
                                                  quoted(stage_) + " is of numbers beyond 2^61");
      const auto& written = written_.range(x.args[d]);
      const std::int64_t last = evaluate(extent, sizes_) - 1;
      for (const bool above : {false, true}) {
        if (written && (above ? written->high <= last : written->low >= 0)) continue;
        const Expr bound = above ? simplified(extent - Expr(1) - x.args[d]) : x.args[d];
        const auto range = range_of(bound, sizes_, axes_);
        if (range && range->low >= 0) continue;
        const bool implied = std::any_of(facts_.begin(), facts_.end(), [&](const Expr& fact) {
          const auto rest = range_of(bound - fact, sizes_, axes_);
          return rest && rest->low >= 0;
        });
        const bool nothing = guards_.empty() && last < 0, is_known = range || (written && is_bounded(x.args[d]));
        if (implied || !(nothing || (is_known && leaves(bound)))) continue;
        auto index = range_of(x.args[d], sizes_, axes_);
        if (!index) index = written;
        throw Error(ErrorCode::wrong_shape,
                    "index " + print(x.args[d]) + " of " + quoted(x.tensor->name) + " in " + quoted(stage_) +
                        (index ? " is in [" + std::to_string(index->low) + ", " + std::to_string(index->high) + "]"
                               : " is read from memory") +
                        ", and axis " + std::to_string(d) + " has " + std::to_string(last + 1) + " elements",
                    "Guard it: where(condition, element, otherwise).");
      }
    }
  }

  // Whether an index that is not guarded may leave, or one that is does so: at a corner of the loops where what guards
  // it is as it should be. Others are held to the tensor's edge.
  [[nodiscard]] bool leaves(const Expr& bound) const {
    if (guards_.empty()) return true;
    std::vector<const AxisNode*> axes;
    bool is_known = !is_computed(bound);
    const auto look = [&](const ExprNode& x) {
      if (x.kind == ExprNode::Kind::axis && axes_.count(x.axis.get()) &&
          std::find(axes.begin(), axes.end(), x.axis.get()) == axes.end())
        axes.push_back(x.axis.get());
    };
    visit(bound, look);
    for (const auto& [condition, holds] : guards_) {
      is_known = is_known && !is_computed(condition);
      visit(condition, look);
    }
    if (!is_known || axes.size() > 10) return false;
    try {
      for (std::uint32_t corner = 0; corner < 1u << axes.size(); ++corner) {
        Sizes at = sizes_;
        for (std::size_t a = 0; a < axes.size(); ++a)
          at[axes[a]] = corner >> a & 1 ? axes_.at(axes[a]).high : axes_.at(axes[a]).low;
        const bool counts = std::all_of(guards_.begin(), guards_.end(), [&](const auto& guard) {
          return (evaluate(guard.first, at) != 0) == guard.second;
        });
        if (counts && evaluate(bound, at) < 0) return true;
      }
    } catch (const Error&) {}  // a guard of what no loop alone decides
    return false;
  }

  const Sizes& sizes_;
  NumericRanges axes_;
  std::string stage_;
  Written written_;
  std::vector<std::pair<Expr, bool>> guards_;  // conditions, and whether they hold
  std::vector<Expr> facts_;                    // each at least 0
};

void check_indices(const ScheduleNode& schedule, const Sizes& sizes) {
  for (const StagePtr& stage : schedule.stages) {
    if (stage->is_derived || stage->origin->is_within) continue;
    const OperationNode& op = *stage->origin;  // schedules read the same elements in other orders
    NumericRanges ranges;
    bool empty = false;
    for (const auto* list : {&op.axes, &op.reduce_axes}) {
      for (const AxisPtr& axis : *list) {
        const std::int64_t begin = evaluate(axis->begin, sizes), extent = evaluate(axis->extent, sizes);
        ranges[axis.get()] = {begin, begin + extent - 1};
        empty |= extent <= 0;
      }
    }
    if (empty) continue;
    IndexCheck check(sizes, ranges, op.name);
    if (const Reduction* reduction = op.reduction()) {
      if (!reduction->where.empty()) {
        check.value(reduction->where);
        check.assume(reduction->where, true);
      }
      for (const Expr& source : reduction->sources) check.value(source);
    } else {
      for (const Expr& part : op.body) check.value(part);
    }
  }
}

// The value without 64 bits' wrapping, which nothing of this size needs to the last digit.
long double about(const Expr& x, const Sizes& sizes) {
  if (x->kind != ExprNode::Kind::operation) return static_cast<long double>(evaluate(x, sizes));
  const Polynomial p = polynomial(x);
  long double sum = static_cast<long double>(p.constant);
  for (const Polynomial::Term& term : p.terms) {
    auto product = static_cast<long double>(term.factor);
    for (const Expr& atom : term.atoms) product *= static_cast<long double>(evaluate(atom, sizes));
    sum += product;
  }
  return sum;
}

void check_extents(const ScheduleNode& schedule, const Sizes& sizes, Written& written) {
  const auto refuse_if = [](bool beyond, const char* what, const Expr& x, const std::string& loop, const char* most) {
    if (beyond)
      throw Error(ErrorCode::size_overflow,
                  what + print(x) + " of " + loop + " is beyond " + most + " for these arrays");
  };
  for (const StagePtr& stage : schedule.stages) {
    const auto named = [&](const AxisPtr& axis) { return quoted(axis->name) + " in " + quoted(stage->op->name); };
    for (const Relation& r : stage->relations)
      if (r.kind == Relation::Kind::fuse)
        refuse_if(about(r.parent->extent, sizes) > 0x1p62L, "the extent ", r.parent->extent, named(r.parent), "2^62");
    if (stage->is_derived) continue;
    for (const auto* list : {&stage->origin->axes, &stage->origin->reduce_axes}) {
      for (const AxisPtr& axis : *list) {
        refuse_if(written.is_beyond(axis->begin), "the begin ", axis->begin, named(axis), "2^61");
        refuse_if(
            written.is_beyond(axis->extent) || evaluate(axis->extent, sizes) > std::numeric_limits<std::int32_t>::max(),
            "the extent ", axis->extent, named(axis), "2^31 - 1");
      }
    }
  }
}

// Refuses what is allocated beyond what addresses tell apart.
void check_buffers(const std::vector<Statement>& body, const Sizes& sizes) {
  for (const Statement& s : body) {
    if (s.kind == Statement::Kind::allocate) {
      long double bytes = static_cast<long double>(size_of(s.to[0]->type));
      for (const Expr& extent : s.to[0]->shape) {
        bool of_sizes = true;  // and of no loop around it, in which it is allocated again
        visit(extent, [&](const ExprNode& node) {
          of_sizes &= node.kind != ExprNode::Kind::axis || node.axis->kind == AxisNode::Kind::size;
        });
        if (of_sizes) bytes *= about(extent, sizes);
      }
      if (bytes > 0x1p60L)
        throw Error(ErrorCode::size_overflow, quoted(s.to[0]->name) + " has too many elements for these arrays",
                    "Compute it at a loop, or inline it.");
    }
    check_buffers(s.body, sizes);
  }
}

// What an epilogue asks of sizes: chunks that divide, and operands as large as their use.
void check_followed(const Followed& followed, const Sizes& sizes) {
  for (const auto& [columns, divisor] : followed.divisible)
    if (const std::int64_t count = evaluate(columns, sizes); count % divisor != 0)
      throw Error(ErrorCode::indivisible,
                  std::to_string(count) + " columns of " + quoted(followed.accumulator.name()) +
                      " are not divisible by " + std::to_string(divisor),
                  "Choose sizes so that they are.");
  for (const auto& [operand, shape] : followed.shapes) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::int64_t wanted = evaluate(shape[d], sizes), given = evaluate(operand.shape()[d], sizes);
      if (wanted != given)
        throw Error(ErrorCode::wrong_shape, quoted(operand.name()) + " has " + std::to_string(given) +
                                                " elements along axis " + std::to_string(d) + ", and the epilogue " +
                                                std::to_string(wanted));
    }
  }
}

// Refuses a size of `x` that is not in `told`.
void check_told(const Expr& x, const std::set<const AxisNode*>& told) {
  if (x.empty()) return;
  visit(x, [&](const ExprNode& node) {
    if (node.kind == ExprNode::Kind::axis && node.axis->kind == AxisNode::Kind::size && !told.count(node.axis.get()))
      throw untold(*node.axis);
  });
}
void check_body(const std::vector<Statement>& body, const std::set<const AxisNode*>& told, std::size_t loops = 0) {
  for (const Statement& s : body) {
    const std::size_t inside = loops + (s.kind == Statement::Kind::loop);
    if (inside > most_loops)
      throw Error(ErrorCode::text_limit,
                  "the loop " + quoted(s.axis->name) + " stands in " + std::to_string(loops) + " others, and " +
                      std::to_string(most_loops) + " loops are the most",
                  "Split it fewer times.");
    check_told(s.extent, told);
    check_told(s.condition, told);
    for (const auto* list : {&s.index, &s.values})
      for (const Expr& x : *list) check_told(x, told);
    check_body(s.body, told, inside);
  }
}

}  // namespace

void check_nest(const Nest& nest) {
  std::set<const AxisNode*> told;
  for (const BufferPtr& argument : nest.arguments)
    for (const Expr& extent : argument->shape)
      if (extent->kind == ExprNode::Kind::axis) told.insert(extent->axis.get());
  for (const BufferPtr& argument : nest.arguments)
    for (const Expr& extent : argument->shape) check_told(extent, told);
  check_body(nest.body, told);
}

static std::string names_of(const std::vector<BufferPtr>& buffers) {
  std::string names;
  for (const BufferPtr& buffer : buffers) names += (names.empty() ? "" : ", ") + quoted(buffer->name);
  return names;
}

Sizes bind_sizes(const Nest& nest, const ScheduleNode& schedule, std::span<const v0::Tensor> arrays, Device device) {
  if (arrays.size() != nest.arguments.size())
    throw Error(
        ErrorCode::missing_operand,
        std::to_string(arrays.size()) + " arrays are given for " + std::to_string(nest.arguments.size()) + " arguments",
        "They are " + names_of(nest.arguments) + ", in this order.");
  Sizes sizes;
  std::unordered_map<const AxisNode*, std::string> owner;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const v0::Tensor& array = arrays[i];
    const Buffer& argument = *nest.arguments[i];
    const std::string name = quoted(argument.name);
    if (array.rank != static_cast<int>(argument.shape.size()))
      throw Error(ErrorCode::wrong_rank, name + " has shape " + shape_text(array) + " and should have " +
                                             std::to_string(argument.shape.size()) + " axes");
    if (array.dtype != argument.type)
      throw Error(ErrorCode::wrong_dtype, name + " is " + std::string(v0::name(array.dtype)) + " and should be " +
                                              std::string(v0::name(argument.type)));
    if (array.device != device)
      throw Error(ErrorCode::wrong_device, name + " is on the " + (array.device == Device::cpu ? "CPU" : "GPU"));
    std::int64_t elements = 1;
    for (int d = 0; d < array.rank; ++d) {
      const auto axis = static_cast<std::size_t>(d);
      if (array.shape[axis] < 0 || array.shape[axis] > std::numeric_limits<std::int32_t>::max())
        throw Error(ErrorCode::size_overflow,
                    name + " has " + std::to_string(array.shape[axis]) + " elements along axis " + std::to_string(d));
      elements = elements == 0 || array.shape[axis] == 0 ? 0 : elements * array.shape[axis];
      const Expr& extent = argument.shape[axis];
      if (extent->kind == ExprNode::Kind::axis && sizes.emplace(extent->axis.get(), array.shape[axis]).second)
        owner[extent->axis.get()] = argument.name;
    }
    if (elements != 0 && !array.data) throw Error(ErrorCode::null_data, name + " has no data");
  }
  const NumericRanges none;
  Written written(sizes, none);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    for (std::size_t d = 0; d < nest.arguments[i]->shape.size(); ++d) {
      const Expr& extent = nest.arguments[i]->shape[d];
      if (written.is_beyond(extent))
        throw Error(ErrorCode::size_overflow, "the extent " + print(extent) + " of " + quoted(nest.arguments[i]->name) +
                                                  " is beyond 2^31 - 1 for these arrays");
      const std::int64_t wanted = evaluate(extent, sizes);
      if (wanted == arrays[i].shape[d]) continue;
      const bool named = extent->kind == ExprNode::Kind::axis;
      throw Error(ErrorCode::wrong_shape, quoted(nest.arguments[i]->name) + " has shape " + shape_text(arrays[i]) +
                                              " where " + shape_text(nest.arguments[i]->shape) + " is " +
                                              std::to_string(wanted) + " along axis " + std::to_string(d) +
                                              (named ? ", as " + quoted(owner.at(extent->axis.get())) + " says" : ""));
    }
  }
  for (const Tensor& output : schedule.outputs)
    if (const auto followed = output.op().node()->followed) check_followed(*followed, sizes);
  check_extents(schedule, sizes, written);
  check_buffers(nest.body, sizes);
  check_indices(schedule, sizes);
  for (const StorePredicate& predicate : nest.predicates) refuse_no_thread(predicate, sizes);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (nest.tensors[i].op().node()->is_placeholder()) continue;
    const plan::Footprint output = plan::footprint(arrays[i]);
    for (std::size_t j = 0; j < arrays.size(); ++j) {
      if (j == i ? !plan::overlaps_itself(output) : !plan::overlap(output, plan::footprint(arrays[j]))) continue;
      throw Error(ErrorCode::overlap,
                  "the output " + quoted(nest.arguments[i]->name) + " overlaps " +
                      (j == i ? "itself" : quoted(nest.arguments[j]->name)),
                  j == i ? "Bind an array of which no elements share memory." : "Bind other memory.");
    }
  }
  return sizes;
}

}  // namespace postlude::inline v0::te
