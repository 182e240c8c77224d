// Placeholders, stages and reducers.
#include "te/reducer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

namespace postlude::inline v0::te {

std::vector<Expr> components(Reduction reduction) {
  const auto shared = std::make_shared<const Reduction>(std::move(reduction));
  std::vector<Expr> results;
  for (std::size_t i = 0; i < shared->sources.size(); ++i) {
    ExprNode node;
    node.kind = ExprNode::Kind::reduce;
    node.type = shared->sources[i]->type;
    node.component = static_cast<int>(i);
    node.reduction = shared;
    results.push_back(Expr(std::make_shared<const ExprNode>(std::move(node))));
  }
  return results;
}

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Whether the constants of sums and products, which are added up and multiplied, stay within 2^61, where nothing wraps.
bool is_within(const Expr& x) {
  std::unordered_map<const ExprNode*, long double> most;  // the factors and the constant without their signs, added up
  for (const Expr* const each : parts(x)) {
    const ExprNode& node = *each->node();
    const auto of = [&](std::size_t i) { return most.at(node.args[i].node().get()); };
    const Op op = node.kind == ExprNode::Kind::operation && node.type == DType::i64 ? node.op : Op::constant;
    long double sum = 1;  // of what is kept as it is
    if (node.kind == ExprNode::Kind::constant) sum = std::fabs(static_cast<long double>(node.value.value()));
    else if (op == Op::add || op == Op::sub) sum = of(0) + of(1);
    else if (op == Op::mul) sum = of(0) * of(1);
    else if (op == Op::neg) sum = of(0);
    if (sum > 0x1p61L) return false;
    most.emplace(&node, sum);
  }
  return true;
}

Expr integer_of(const Expr& x, const std::string& name) {
  if (x.empty() || x->type == DType::f32 || x->type == DType::boolean)
    throw Error(ErrorCode::type_mismatch, "an extent of " + quoted(name) + " is no integer");
  visit(x, [&](const ExprNode& node) {
    if (is_float(node.type) && node.kind != ExprNode::Kind::read)
      throw Error(ErrorCode::type_mismatch, "an extent of " + quoted(name) + " is made of real numbers",
                  "Sizes are whole: floordiv(n, 2).");
    const bool reads = node.kind == ExprNode::Kind::read;
    if (reads || (node.kind == ExprNode::Kind::axis && node.axis->kind != AxisNode::Kind::size))
      throw Error(ErrorCode::foreign_value,
                  "an extent of " + quoted(name) + " has " +
                      (reads ? "an element of " + quoted(node.tensor->name) : "the loop " + quoted(node.axis->name)) +
                      ", which is no size",
                  "A size is a number, or made with var; a loop's is its extent.");
  });
  const Expr whole = converted(x, DType::i64);
  if (!is_within(whole))
    throw Error(ErrorCode::size_overflow,
                "an extent of " + quoted(name) + " has constants beyond 2^61: " + print(whole));
  const Expr size = simplified(whole);
  if (size->kind == ExprNode::Kind::constant && size->value.integer > std::numeric_limits<std::int32_t>::max())
    throw Error(ErrorCode::size_overflow, "an extent of " + quoted(name) + " is beyond 2^31 - 1: " + print(size));
  return size;
}
Expr size_of_axis(const Expr& x, const std::string& name) {
  const Expr size = integer_of(x, name);
  if (size->kind == ExprNode::Kind::constant && size->value.integer < 0)
    throw Error(ErrorCode::size_overflow, "an extent of " + quoted(name) + " is negative: " + print(size));
  return size;
}

std::vector<Expr> sizes(const std::vector<Expr>& shape, const std::string& name) {
  std::vector<Expr> result;
  for (const Expr& x : shape) result.push_back(size_of_axis(x, name));
  return result;
}

ReducerPtr known(const char* name, Known which, const Reducer::Combine& combine, const Reducer::Identity& identity) {
  return std::make_shared<const ReducerNode>(ReducerNode{name, which, combine, identity, {}});
}

// The least or largest of a type, which changes no maximum or minimum.
Expr extreme(DType type, bool largest) {
  if (type == DType::f32) return constant({type, largest ? infinity : -infinity, 0});
  const bool wide = type == DType::i64;
  const std::int64_t high = wide ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int32_t>::max();
  return constant({type, 0, largest ? high : -high - 1});
}

ReducerPtr simple(const char* name, Known which, Op op, int number) {
  return known(
      name, which,
      [op](const auto& a, const auto& b) {
        return std::vector<Expr>{operation(op, {a[0], b[0]})};
      },
      [which, number](const std::vector<DType>& types) {
        if (which == Known::max || which == Known::min)
          return std::vector<Expr>{extreme(types[0], which == Known::min)};
        return std::vector<Expr>{constant({types[0], static_cast<double>(number), number})};
      });
}

// (index, value): as the language's argmax and argmin.
ReducerPtr extreme_index(const char* name, Known which) {
  const bool largest = which == Known::argmax;
  return known(
      name, which,
      [largest](const std::vector<Expr>& a, const std::vector<Expr>& b) {
        const Expr beyond = largest ? b[1] > a[1] : b[1] < a[1];
        const Expr earlier = (b[0] >= Expr(0)) & ((b[0] < a[0]) | (a[0] < Expr(0)));
        const Expr nan_a = a[1] != a[1], nan_b = b[1] != b[1];
        const Expr take = beyond & ~nan_a & (b[0] >= Expr(0));
        const Expr chosen = take | ((a[1] == b[1]) & earlier) | (nan_b & (~nan_a | earlier));
        return std::vector<Expr>{operation(Op::where, {chosen, b[0], a[0]}),
                                 operation(Op::where, {chosen, b[1], a[1]})};
      },
      [largest](const std::vector<DType>& types) {
        return std::vector<Expr>{constant({types[0], -1.0, -1}), extreme(types[1], !largest)};
      });
}

// A reducer of one's own that is a known one by another name, so that strips have code for it.
ReducerPtr recognised(const ReducerPtr& reducer, DType type) {
  if (reducer->known != Known::none) return reducer;
  std::vector<Expr> x;
  for (int i = 0; i < 2; ++i) {
    auto node = std::make_shared<OperationNode>();
    node->dtypes = {type};
    x.push_back(Tensor(node, 0).at({}));
  }
  const std::vector<Expr> combined = reducer->combine({x[0]}, {x[1]});
  if (combined.size() != 1 || combined[0].empty() || combined[0]->kind != ExprNode::Kind::operation ||
      combined[0]->args.size() != 2 || combined[0]->type != type)
    return reducer;
  const std::vector<Expr>& args = combined[0]->args;
  if (!(args[0].node() == x[0].node() && args[1].node() == x[1].node()) &&
      !(args[0].node() == x[1].node() && args[1].node() == x[0].node()))
    return reducer;
  const bool boolean = type == DType::boolean;
  Known known = Known::none;
  if (combined[0]->op == Op::add && !boolean) known = Known::sum;
  if (combined[0]->op == Op::mul && !boolean) known = Known::prod;
  if (combined[0]->op == Op::min && !boolean) known = Known::min;
  if (combined[0]->op == Op::max && !boolean) known = Known::max;
  if (combined[0]->op == Op::bit_or && boolean) known = Known::any;
  if (combined[0]->op == Op::bit_and && boolean) known = Known::all;
  // Strips add to what is there: a sum's own identity is another number's.
  const Expr identity = identity_of(*reducer, {type})[0];
  const double number = identity->value.value();
  const bool neutral = (known == Known::sum && number == 0) || (known == Known::prod && number == 1) ||
                       (known == Known::any && number == 0) || (known == Known::all && number == 1) ||
                       ((known == Known::min || known == Known::max) &&
                        equal(*identity.node(), *extreme(type, known == Known::min).node()));
  if (known == Known::none || !neutral) return reducer;
  auto same = std::make_shared<ReducerNode>(*reducer);
  same->known = known;
  return same;
}

std::vector<Expr> reduce(const ReducerPtr& reducer, std::vector<Expr> sources, const Axes& axes, const Expr& where) {
  if (axes.empty()) throw Error(ErrorCode::missing_axis, quoted(reducer->name) + " reduces over no axis");
  Reduction reduction;
  std::vector<DType> types;
  for (const Expr& source : sources) {
    if (source.empty() || source->kind == ExprNode::Kind::reduce)
      throw Error(ErrorCode::unsupported, "a reduction of a reduction in one stage",
                  "Compute the inner one in a stage of its own.");
    types.push_back(source->type);
  }
  for (const Axis& axis : axes) {
    if (axis.node()->kind != AxisNode::Kind::reduce)
      throw Error(ErrorCode::missing_axis,
                  quoted(reducer->name) + " reduces over " + quoted(axis.name()) + ", which is no reduce axis",
                  "Make it with reduce_axis.");
    if (std::find(reduction.axes.begin(), reduction.axes.end(), axis.node()) != reduction.axes.end())
      throw Error(ErrorCode::duplicate_name, quoted(reducer->name) + " reduces twice over " + quoted(axis.name()));
    reduction.axes.push_back(axis.node());
  }
  static_cast<void>(identity_of(*reducer, types));
  reduction.reducer = types.size() == 1 ? recognised(reducer, types[0]) : reducer;
  if (reduction.reducer->known == Known::none) {
    auto judged = std::make_shared<ReducerNode>(*reduction.reducer);
    judged->free = freedom_of(*judged, types);
    reduction.reducer = judged;
  }
  reduction.sources = std::move(sources);
  if (!where.empty() && where.type() != DType::boolean)
    throw Error(ErrorCode::type_mismatch,
                quoted(reducer->name) + " is of elements where " + print(where) + ", which is no condition",
                "Compare: sum(x, axes, x > 0).");
  reduction.where = where;
  return components(std::move(reduction));
}

}  // namespace

std::vector<Expr> identity_of(const ReducerNode& reducer, const std::vector<DType>& types) {
  std::vector<Expr> identity = reducer.identity(types);
  if (identity.size() != types.size())
    throw Error(ErrorCode::bad_combiner, quoted(reducer.name) + " has an identity of " +
                                             std::to_string(identity.size()) + " values and reduces " +
                                             std::to_string(types.size()));
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (identity[i].empty() || identity[i]->kind != ExprNode::Kind::constant)
      throw Error(ErrorCode::bad_combiner, "the identity of " + quoted(reducer.name) + " is no constant");
    identity[i] =
        as_number(identity[i], types[i], "the identity of " + quoted(reducer.name) + ", " + print(identity[i]) + ",");
  }
  return identity;
}

namespace {

// Sums and products of integers are i64, as in the language.
Expr widened(const Expr& x) { return x->type == DType::f32 ? x : converted(x, DType::i64); }
Expr one(const ReducerPtr& reducer, const Expr& x, const Axes& axes, const Expr& where) {
  return reduce(reducer, {x}, axes, where)[0];
}

// The place of an element among all that are reduced, by the axes in their order.
Expr place(const Axes& axes) {
  Expr index = 0;
  for (const Axis& axis : axes) index = index * axis.extent() + (Expr(axis) - axis.node()->begin);
  return index;
}

}  // namespace

void refuse_rank(const std::string& name, std::size_t axes) {
  throw Error(ErrorCode::wrong_rank, quoted(name) + " has " + std::to_string(axes) + " axes",
              "An array has " + std::to_string(v0::Tensor::max_rank) + " at most: fuse some of them.");
}

Tensor placeholder(std::vector<Expr> shape, const std::string& name, DType dtype) {
  if (shape.size() > v0::Tensor::max_rank) refuse_rank(name, shape.size());
  auto node = std::make_shared<OperationNode>();
  node->name = name;
  node->shape = sizes(shape, name);
  node->dtypes = {dtype};
  return {node, 0};
}

Axis reduce_axis(const Expr& begin, const Expr& end, const std::string& name) {
  const Expr first = integer_of(begin, name), last = integer_of(end, name);
  for (const Expr& x : {first, last})  // which may be below 0, around an element
    if (x->kind == ExprNode::Kind::constant && x->value.integer < -std::numeric_limits<std::int32_t>::max())
      throw Error(ErrorCode::size_overflow, "an end of " + quoted(name) + " is below -2^31: " + print(x));
  return Axis(make_axis(name, AxisNode::Kind::reduce, size_of_axis(last - first, name), first));
}

Axis thread_axis(const std::string& tag) {
  for (const char* group : {"blockIdx.", "threadIdx."}) {
    for (const char* axis : {"x", "y", "z"}) {
      if (tag != std::string(group) + axis) continue;
      AxisNode node;
      node.name = node.tag = tag;
      node.kind = AxisNode::Kind::thread;
      return Axis(std::make_shared<const AxisNode>(std::move(node)));
    }
  }
  throw Error(ErrorCode::bad_attribute, "there is no thread axis " + quoted(tag),
              "They are blockIdx.x, .y, .z and threadIdx.x, .y, .z.");
}
Axis thread_axis(const Expr& extent, const std::string& tag) {
  AxisNode node = *thread_axis(tag).node();
  node.extent = size_of_axis(extent, tag);
  return Axis(std::make_shared<const AxisNode>(std::move(node)));
}

namespace {

// Several reductions over the same axes as one, of a tuple of all their values.
std::vector<Expr> joined(const std::vector<Expr>& body, const std::string& name) {
  std::vector<const Reduction*> reductions;  // of each component
  for (const Expr& part : body) {
    if (part.empty() || part->kind != ExprNode::Kind::reduce) return body;
    reductions.push_back(part->reduction.get());
  }
  const std::set<const Reduction*> different(reductions.begin(), reductions.end());
  if (different.size() <= 1) return body;
  Reduction all = *reductions[0];
  std::vector<std::pair<ReducerPtr, std::vector<std::size_t>>> places;  // where each one's values are
  auto reducer = std::make_shared<ReducerNode>();
  all.sources.assign(body.size(), Expr());
  for (std::size_t i = 0; i < body.size(); ++i) {
    const Reduction& one = *reductions[i];
    const auto place = static_cast<std::size_t>(body[i]->component);
    const bool where =
        one.where.empty() ? all.where.empty() : !all.where.empty() && equal(*one.where.node(), *all.where.node());
    if (one.axes != all.axes || !where)
      throw Error(ErrorCode::unsupported,
                  quoted(name) + " has reductions over different axes, or of different elements",
                  "Reduce over the same axes in one order, with the same `where`, or in stages of their own.");
    const auto first =
        static_cast<std::size_t>(std::find(reductions.begin(), reductions.end(), &one) - reductions.begin());
    if (first == i) {
      places.emplace_back(one.reducer, std::vector<std::size_t>(one.sources.size(), body.size()));
      reducer->name += (i ? "_and_" : "") + one.reducer->name;
      const Freedom &part = one.reducer->free, so_far = reducer->free;
      reducer->free = {so_far.commutes && part.commutes, so_far.associates && part.associates,
                       so_far.has_identity && part.has_identity, so_far.everywhere && part.everywhere,
                       so_far.is_left_alone && part.is_left_alone};
    }
    const auto known = std::find_if(places.begin(), places.end(), [&](const auto& p) {
      return first == i ? &p == &places.back() : std::find(p.second.begin(), p.second.end(), first) != p.second.end();
    });
    if (known->second[place] != body.size())
      throw Error(ErrorCode::unsupported, quoted(name) + " has one result of " + quoted(one.reducer->name) + " twice",
                  "Read it twice in the next stage.");
    known->second[place] = i;
    all.sources[i] = one.sources[place];
  }
  for (const auto& [part, at] : places)
    if (std::find(at.begin(), at.end(), body.size()) != at.end())
      throw Error(ErrorCode::unsupported,
                  quoted(name) + " takes some results of " + quoted(part->name) + " and not others",
                  "Return all of them; nobody has to read them.");
  reducer->combine = [places](const std::vector<Expr>& a, const std::vector<Expr>& b) {
    std::vector<Expr> results(a.size());
    for (const auto& [part, at] : places) {
      std::vector<Expr> sides[2];
      for (const std::size_t i : at) sides[0].push_back(a[i]), sides[1].push_back(b[i]);
      const std::vector<Expr> made = part->combine(sides[0], sides[1]);
      for (std::size_t c = 0; c < at.size(); ++c) results[at[c]] = made.at(c);
    }
    return results;
  };
  reducer->identity = [places](const std::vector<DType>& types) {
    std::vector<Expr> identity(types.size());
    for (const auto& [part, at] : places) {
      std::vector<DType> own;
      for (const std::size_t i : at) own.push_back(types[i]);
      const std::vector<Expr> made = identity_of(*part, own);
      for (std::size_t c = 0; c < at.size(); ++c) identity[at[c]] = made[c];
    }
    return identity;
  };
  all.reducer = reducer;
  return components(std::move(all));
}

// `result`: of the body, with one component or several.
std::shared_ptr<OperationNode> stage(std::vector<Expr> shape, const BodyOfSeveral& body, const std::string& name,
                                     const std::vector<std::string>& names) {
  auto node = std::make_shared<OperationNode>();
  node->name = name;
  node->shape = sizes(shape, name);
  static const char* const letters[] = {"i", "j", "k", "l"};
  std::set<std::string> used;
  Axes axes;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::string letter = d < names.size() ? names[d] : d < 4 ? letters[d] : "i" + std::to_string(d);
    node->axes.push_back(make_axis(letter, AxisNode::Kind::data, node->shape[d]));
    axes.push_back(Axis(node->axes.back()));
  }
  node->body = joined(body(axes), name);
  if (node->body.empty()) throw Error(ErrorCode::no_output, quoted(name) + " computes nothing");
  for (const Expr& part : node->body) {
    if (part.empty()) throw Error(ErrorCode::no_output, quoted(name) + " computes nothing");
    const bool reduces = part->kind == ExprNode::Kind::reduce;
    if (reduces != (node->reduction() != nullptr) || (reduces && part->reduction.get() != node->reduction()))
      throw Error(ErrorCode::unsupported, quoted(name) + " mixes a reduction with other values",
                  "Each reduction is a stage of its own.");
    node->dtypes.push_back(part->type);
  }
  if (const Reduction* reduction = node->reduction()) {
    if (node->body.size() != reduction->sources.size())
      throw Error(ErrorCode::unsupported, quoted(name) + " takes some results of a reduction and not others",
                  "Return all of them; nobody has to read them.");
    node->reduce_axes = reduction->axes;
  }
  // What is used must be bound: an axis of this stage, a size, nothing else.
  for (const Expr& part : node->body) {
    visit(part, [&](const ExprNode& x) {
      if (x.kind == ExprNode::Kind::read) node->depth = std::max(node->depth, x.tensor->depth);
      if (x.kind != ExprNode::Kind::axis || x.axis->kind == AxisNode::Kind::size) return;
      const auto holds = [&](const auto& list) { return std::find(list.begin(), list.end(), x.axis) != list.end(); };
      if (!holds(node->axes) && !holds(node->reduce_axes))
        throw Error(ErrorCode::foreign_value,
                    quoted(name) + " uses the axis " + quoted(x.axis->name) + ", which it does not loop over",
                    "Name it among the axes of the reduction.");
    });
  }
  if (++node->depth > most_stages) refuse_more_stages();
  return node;
}

}  // namespace

void refuse_more_stages() {
  throw Error(ErrorCode::text_limit,
              "more than " + std::to_string(most_stages) + " stages are scheduled together, or lie one behind another",
              "Build a part of them, and give what it computes to the next as an argument.");
}

Tensor compute(std::vector<Expr> shape, const Body& body, const std::string& name, std::optional<DType> dtype,
               const std::vector<std::string>& axes) {
  const auto node = stage(
      std::move(shape), [&body](const Axes& at) { return std::vector<Expr>{body(at)}; }, name, axes);
  if (dtype && *dtype != node->dtypes[0]) {
    if (node->reduction())
      throw Error(ErrorCode::unsupported,
                  quoted(name) + " is reduced in " + std::string(v0::name(node->dtypes[0])) +
                      " and cannot be stored as " + std::string(v0::name(*dtype)),
                  "Convert it in a stage behind the reduction.");
    node->dtypes[0] = *dtype;
  }
  return {node, 0};
}

std::vector<Tensor> compute_several(std::vector<Expr> shape, const BodyOfSeveral& body, const std::string& name,
                                    const std::vector<std::string>& axes) {
  const auto node = stage(std::move(shape), body, name, axes);
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < node->body.size(); ++i) tensors.emplace_back(node, static_cast<int>(i));
  return tensors;
}

const std::string& Operation::name() const { return node_->name; }
Axes Operation::axis() const {
  Axes axes;
  for (const AxisPtr& axis : node_->axes) axes.emplace_back(axis);
  return axes;
}
Axes Operation::reduce_axis() const {
  Axes axes;
  for (const AxisPtr& axis : node_->reduce_axes) axes.emplace_back(axis);
  return axes;
}
std::vector<Expr> Operation::body() const { return node_->body; }
const std::string& Tensor::name() const { return node_->name; }
DType Tensor::dtype() const { return node_->dtypes[static_cast<std::size_t>(component_)]; }
const std::vector<Expr>& Tensor::shape() const { return node_->shape; }

// ---- reducers -----------------------------------------------------------------------------------

std::vector<Expr> Reducer::operator()(const std::vector<Expr>& values, const Axes& axes, const Expr& where) const {
  return reduce(node_, values, axes, where);
}

Reducer comm_reducer(const Reducer::Combine& combine, const Reducer::Identity& identity, const std::string& name) {
  return Reducer(std::make_shared<const ReducerNode>(ReducerNode{name, Known::none, combine, identity, {}}));
}

Expr sum(const Expr& x, const Axes& axes, const Expr& where) {
  static const ReducerPtr reducer = simple("sum", Known::sum, Op::add, 0);
  return one(reducer, widened(x), axes, where);
}
Expr prod(const Expr& x, const Axes& axes, const Expr& where) {
  static const ReducerPtr reducer = simple("prod", Known::prod, Op::mul, 1);
  return one(reducer, widened(x), axes, where);
}
Expr min(const Expr& x, const Axes& axes, const Expr& where) {
  static const ReducerPtr reducer = simple("min", Known::min, Op::min, 0);
  return one(reducer, x->type == DType::boolean ? converted(x, DType::i32) : x, axes, where);
}
Expr max(const Expr& x, const Axes& axes, const Expr& where) {
  static const ReducerPtr reducer = simple("max", Known::max, Op::max, 0);
  return one(reducer, x->type == DType::boolean ? converted(x, DType::i32) : x, axes, where);
}
Expr any(const Expr& x, const Axes& axes, const Expr& where) {
  static const ReducerPtr reducer = simple("any", Known::any, Op::bit_or, 0);
  return one(reducer, converted(x, DType::boolean), axes, where);
}
Expr all(const Expr& x, const Axes& axes, const Expr& where) {
  static const ReducerPtr reducer = simple("all", Known::all, Op::bit_and, 1);
  return one(reducer, converted(x, DType::boolean), axes, where);
}
std::vector<Expr> argmax(const Expr& x, const Axes& axes, const Expr& where) {
  static const ReducerPtr reducer = extreme_index("argmax", Known::argmax);
  return reduce(reducer, {place(axes), x->type == DType::boolean ? converted(x, DType::i32) : x}, axes, where);
}
std::vector<Expr> argmin(const Expr& x, const Axes& axes, const Expr& where) {
  static const ReducerPtr reducer = extreme_index("argmin", Known::argmin);
  return reduce(reducer, {place(axes), x->type == DType::boolean ? converted(x, DType::i32) : x}, axes, where);
}

}  // namespace postlude::inline v0::te
