#include "graph/text/elaborator.h"

#include "graph/text/refusals.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace postlude::inline v0::text {

namespace {

// The name that other libraries have for a function.
struct Synonym {
  std::string_view name, hint;
};
constexpr std::string_view layer_norm =
                               "It is (x - mean(x, axis=1)) * rsqrt(var(x, axis=1) + eps), times gamma and plus beta.",
                           rms_norm = "It is x * rsqrt(mean(x * x, axis=1) + eps), times gamma.",
                           cast = "Write cast(x, dtype).",
                           extents = "Extents are not values; mean(x, axis=1) divides by them.",
                           product = "The matrix product comes before the epilogue; the first parameter is its result.",
                           transpose = "An epilogue turns nothing: the product of B.T and A.T is turned.";
constexpr Synonym synonyms[] = {
    {"maximum", "Write max(a, b)."},
    {"minimum", "Write min(a, b)."},
    {"add", "Write a + b; as a combiner, lambda a, b: a + b."},
    {"multiply", "Write a * b; as a combiner, lambda a, b: a * b."},
    {"average", "Write mean(x, axis=...)."},
    {"amax", "Write max(x, axis=...)."},
    {"amin", "Write min(x, axis=...)."},
    {"clip", "Write clamp(x, low, high)."},
    {"power", "Write x ** y."},
    {"square", "Write x * x."},
    {"fabs", "Write abs(x)."},
    {"absolute", "Write abs(x)."},
    {"divide", "Write a / b."},
    {"select", "Write where(condition, a, b)."},
    {"swish", "Write silu(x)."},
    {"std", "Write sqrt(var(x, axis=...))."},
    {"float", "Write inf, nan or a number; of a value, cast(x, f32)."},
    {"int", "Write cast(x, i32, round=toward_zero)."},
    {"bool", "Write x != 0."},
    {"range", "Loops are not part of the epilogue language; n_index() is the column of an element."},
    {"len", extents},
    {"shape", extents},
    {"size", extents},
    {"astype", cast},
    {"to", cast},
    {"T", transpose},
    {"transpose", transpose},
    {"matmul", product},
    {"dot", product},
    {"print", "An epilogue cannot print; return the value to look at it."},
    {"softmax", "It is three lines: m = max(x, axis=1); e = exp(x - m); e / sum(e, axis=1)."},
    {"log_softmax", "It is x - logsumexp(x, axis=1)."},
    {"layernorm", layer_norm},
    {"layer_norm", layer_norm},
    {"rmsnorm", rms_norm},
    {"rms_norm", rms_norm},
    {"dropout", "It is where(random(0) < p, 0, x / (1 - p)), where 0 is the seed."},
    {"reduction_op", "Write sum(x, axis=1, group=length), or max and so on."},
    {"divmod", "Write a // b and a % b."},
};

bool is_word(std::string_view spelling) { return !spelling.empty() && letter_length(spelling) > 0; }

}  // namespace

std::string_view synonym(std::string_view name) {
  for (const Synonym& row : synonyms)
    if (row.name == name) return row.hint;
  return {};
}

std::optional<Elaborator::Callee> Elaborator::library(std::string_view name) const {
  for (const OpInfo& row : op_table)
    if (row.spelling == name && is_word(row.spelling) && row.op != Op::acc && row.op != Op::reduce)
      return Callee{.op = row.op, .name = row.spelling};
  for (const ReductionInfo& row : reduction_table)
    if (row.spelling == name) return Callee{.kind = Callee::Kind::reduction, .reduction = row.op, .name = row.spelling};
  if (auto function = lookup_(name)) {
    const std::string_view its_name = function->name;
    return Callee{.kind = Callee::Kind::function, .function = std::move(function), .name = its_name};
  }
  return {};
}

Elaborator::Callee Elaborator::resolve(ExprId callee, Scope& scope) const {
  const Expr& expr = tree_[callee];
  if (expr.kind == ExprKind::attribute && is_module(tree_.child(expr))) {
    ExprId root = tree_.child(expr);
    while (tree_[root].kind == ExprKind::attribute) root = tree_.child(tree_[root]);
    const std::optional<Callee> found = library(expr.text);
    // Primitives mean the same everywhere; torch's gelu is the erf form, its var has ddof 1.
    if (found && tree_.foreign_modules.contains(tree_[root].text) &&
        (found->kind == Callee::Kind::function ||
         (found->kind == Callee::Kind::reduction && found->reduction == ReduceOp::var)))
      source_.fail(
          ErrorCode::unsupported_syntax, expr.span,
          quoted(expr.text) + " of " + quoted(tree_[root].text) + " need not mean what Postlude's does",
          "Write " + std::string(expr.text) + "(...) without the prefix, or post." + std::string(expr.text) + "(...).");
    if (found) return *found;
  } else if (expr.kind == ExprKind::name) {
    for (Scope* at = &scope; at != nullptr; at = at->outer)
      if (const auto nested = at->defs.find(expr.text); nested != at->defs.end())
        return {.kind = Callee::Kind::def, .def = nested->second, .closure = at, .name = expr.text};
    if (const auto found = module_defs_.find(expr.text); found != module_defs_.end())
      return {.kind = Callee::Kind::def, .def = found->second, .name = expr.text};
    if (const std::optional<Callee> found = library(expr.text)) return *found;
    if (find(expr.text, scope))
      source_.fail(ErrorCode::bad_call, expr.span, quoted(expr.text) + " is a value, not a function",
                   "Multiplication is written x * (a + b).");
  } else if (const std::string_view hint = synonym(expr.text); expr.kind == ExprKind::attribute) {
    const Expr& base = tree_[tree_.child(expr)];
    if (base.kind == ExprKind::name && !find(base.text, scope) && !module_constants_.contains(base.text)) {
      std::vector<std::string> candidates(tree_.modules.begin(), tree_.modules.end());
      std::sort(candidates.begin(), candidates.end());
      const std::string near = closest(base.text, candidates);
      source_.fail(ErrorCode::undefined_name, base.span, quoted(base.text) + " is not defined",
                   near.empty() ? "" : "Did you mean '" + near + "'?");
    }
    source_.fail(ErrorCode::unsupported_syntax, expr.span, "values have no methods",
                 hint.empty() ? "Write " + std::string(expr.text.substr(0, 64)) + "(x, ...)." : std::string(hint));
  } else {
    source_.fail(ErrorCode::bad_call, expr.span, "only functions can be called");
  }
  if (const std::string_view hint = synonym(expr.text); !hint.empty())
    source_.fail(ErrorCode::undefined_name, expr.span, "there is no function " + quoted(expr.text), std::string(hint));
  if (parse_dtype(expr.text))
    source_.fail(ErrorCode::undefined_name, expr.span, quoted(expr.text) + " is a dtype, not a function",
                 "Write cast(x, " + std::string(expr.text) + ").");
  std::vector<std::string> candidates;
  for (const auto& [name, index] : module_defs_) candidates.emplace_back(name);
  for (const OpInfo& row : op_table)
    if (is_word(row.spelling)) candidates.emplace_back(row.spelling);
  for (const ReductionInfo& row : reduction_table) candidates.emplace_back(row.spelling);
  for (const FunctionInfo& known : functions()) candidates.push_back(known.name);
  std::sort(candidates.begin(), candidates.end());
  const std::string near = closest(expr.text, candidates);
  source_.fail(ErrorCode::undefined_name, expr.span, "there is no function " + quoted(expr.text),
               near.empty() ? "`postlude ops` lists those there are; a def in the file adds one."
                            : "Did you mean '" + near + "'?");
}

// The arguments of a call in the order of the function's names; no_expr for those left out.
std::vector<ExprId> Elaborator::arguments(const Expr& call, std::string_view function,
                                          const std::vector<std::string_view>& names, std::size_t required) const {
  std::vector<ExprId> bound(names.size(), no_expr);
  std::size_t position = 0;
  for (const ExprId id : tree_.of(call).subspan(1)) {
    const Expr& argument = tree_[id];
    if (argument.kind != ExprKind::keyword) {
      if (position >= names.size())
        source_.fail(ErrorCode::bad_call, argument.span,
                     quoted(function) + " takes " + std::to_string(names.size()) +
                         (names.size() == 1 ? " argument, not " : " arguments, not ") +
                         std::to_string(call.children - 1));
      bound[position++] = id;
      continue;
    }
    const auto found = std::find(names.begin(), names.end(), argument.text);
    if (found == names.end()) {
      const std::string near = argument.text == "dim" ? "axis" : closest(argument.text, {names.begin(), names.end()});
      std::string hint = "It takes";
      for (const std::string_view name : names) hint += (name == names.front() ? " " : ", ") + std::string(name);
      if (names.empty()) hint += " none";
      if (argument.text == "keepdims" || argument.text == "keepdim")
        hint = "A statistic broadcasts back by its class, without it";
      source_.fail(ErrorCode::bad_call, argument.span, quoted(function) + " has no argument " + quoted(argument.text),
                   near.empty() ? hint + "." : "Did you mean '" + near + "'?");
    }
    ExprId& slot = bound[static_cast<std::size_t>(found - names.begin())];
    if (slot != no_expr)
      source_.fail(ErrorCode::bad_call, argument.span,
                   "the argument " + quoted(argument.text) + " of " + quoted(function) + " is given twice");
    slot = tree_.child(argument);
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (bound[i] != no_expr) continue;
    std::string form(function);
    for (std::size_t k = 0; k < names.size(); ++k) form += (k == 0 ? "(" : ", ") + std::string(names[k]);
    source_.fail(ErrorCode::bad_call, call.span, quoted(function) + " needs its argument " + quoted(names[i]),
                 "It is called as " + form + ").");
  }
  return bound;
}

Meaning Elaborator::call(const Expr& expr, Scope& scope) {
  const Callee callee = resolve(tree_.child(expr), scope);
  switch (callee.kind) {
    case Callee::Kind::op: return call_op(expr, callee, scope);
    case Callee::Kind::reduction:
      return callee.reduction == ReduceOp::custom ? call_reduce(expr, scope)
                                                  : call_reduction(expr, callee.reduction, scope);
    case Callee::Kind::function: return call_function(expr, callee.function, scope);
    case Callee::Kind::def: return call_def(expr, callee, scope);
  }
  source_.fail(ErrorCode::internal, expr.span, "an unknown kind of function");
}

Meaning Elaborator::call_op(const Expr& expr, const Callee& callee, Scope& scope) {
  switch (callee.op) {
    case Op::min:
    case Op::max: return call_min_max(expr, callee, scope);
    case Op::cast: return call_cast(expr, scope);
    case Op::random: return call_random(expr, scope);
    case Op::chunk: return call_chunk(expr, scope);
    case Op::concat: return call_concat(expr, scope);
    case Op::repeat: return call_repeat(expr, scope);
    case Op::m_index:
    case Op::n_index:
    case Op::z_index:
    case Op::p_index:
    case Op::q_index:
    case Op::batch_index: {
      (void)arguments(expr, callee.name, {}, 0);
      return meaning(state_->add({.op = callee.op, .span = expr.span}));
    }
    default: break;
  }
  std::vector<std::string_view> names;
  switch (callee.op) {
    case Op::where: names = {"condition", "a", "b"}; break;
    case Op::fma: names = {"a", "b", "c"}; break;
    case Op::pow: names = {"x", "y"}; break;
    case Op::scaled: names = {"s", "x"}; break;
    default: names = {"x"}; break;
  }
  std::vector<NodeId> args;
  for (const ExprId id : arguments(expr, callee.name, names, names.size())) args.push_back(value(id, scope));
  state_->span = expr.span;
  return meaning(state_->elementwise(callee.op, std::move(args)));
}

// min and max of two values are elementwise, of one value they reduce.
Meaning Elaborator::call_min_max(const Expr& expr, const Callee& callee, Scope& scope) {
  int positional = 0;
  for (const ExprId id : tree_.of(expr).subspan(1)) positional += tree_[id].kind != ExprKind::keyword ? 1 : 0;
  if (positional < 2) return call_reduction(expr, callee.op == Op::min ? ReduceOp::min : ReduceOp::max, scope);
  const std::string name(callee.name);
  if (positional > 2)
    source_.fail(ErrorCode::bad_call, expr.span, quoted(name) + " takes one value to reduce, or two",
                 "Write " + name + "(" + name + "(a, b), c).");
  const std::vector<ExprId> given = arguments(expr, callee.name, {"a", "b"}, 2);
  const NodeId a = value(given[0], scope);
  const NodeId b = value(given[1], scope);
  state_->span = expr.span;
  return meaning(state_->elementwise(callee.op, {a, b}));
}

Meaning Elaborator::call_reduction(const Expr& expr, ReduceOp op, Scope& scope) {
  const std::vector<ExprId> given = arguments(expr, info(op).spelling, {"x", "axis", "group", "batch"}, 1);
  const NodeId x = value(given[0], scope);
  const Axes over = reduced_axes(expr, given[1], given[3], scope);
  const std::int64_t columns = group(given[2], scope);
  state_->span = expr.span;
  return meaning(state_->reduction(op, x, over, {.group = columns}));
}

Meaning Elaborator::call_reduce(const Expr& expr, Scope& scope) {
  const std::vector<ExprId> given =
      arguments(expr, "reduce", {"values", "combine", "identity", "axis", "group", "batch"}, 3);
  const Meaning values = eval(given[0], scope);
  Node node{.op = Op::reduce};
  if (values.kind == Meaning::Kind::value) node.args.push_back(values.node);
  else
    for (std::int64_t i = 0; i < size_of(values); ++i)
      node.args.push_back(node_of(take(values, i, tree_[given[0]]), tree_[given[0]]));
  const std::size_t k = node.args.size();
  if (k == 0) source_.fail(ErrorCode::bad_combiner, tree_[given[0]].span, "a reduction of no values");

  const Expr& identity = tree_[given[2]];
  std::vector<ExprId> identities;
  if (identity.kind == ExprKind::tuple) identities.assign(tree_.of(identity).begin(), tree_.of(identity).end());
  else identities.push_back(given[2]);
  if (identities.size() != k)
    source_.fail(ErrorCode::bad_combiner, identity.span,
                 "identities for " + std::to_string(identities.size()) + " of " + std::to_string(k) +
                     (k == 1 ? " value" : " values"),
                 "There is one for each: identity=(0, -inf).");
  for (const ExprId id : identities) {
    const std::optional<Literal> literal = constant(id, &scope);
    if (!literal) source_.fail(ErrorCode::bad_combiner, tree_[id].span, "an identity must be a constant");
    node.identity.push_back(literal->value());
  }
  node.reduction = ReduceOp::custom;
  node.axes = reduced_axes(expr, given[3], given[5], scope);
  node.group = group(given[4], scope);
  node.combine = combiner(given[1], k, scope);
  state_->span = expr.span;
  Meaning results{.kind = Meaning::Kind::pieces,
                  .owner = state_,
                  .node = state_->add(std::move(node)),
                  .op = Op::get,
                  .count = static_cast<std::int32_t>(k)};
  return values.kind == Meaning::Kind::value ? take(results, 0, expr) : results;  // a tuple of one gives a tuple of one
}

std::shared_ptr<const Lambda> Elaborator::combiner(ExprId id, std::size_t values, Scope& scope) {
  const Expr& expr = tree_[id];
  BuilderState body;
  body.body = true;
  body.limit = state_->limit;
  body.graph.file = source_.file;
  body.graph.text = source_.text;
  BuilderState* const outside = std::exchange(state_, &body);
  struct Restore {
    BuilderState*& slot;
    BuilderState* old;
    ~Restore() { slot = old; }
  } const restore{state_, outside};

  std::vector<Meaning> parameters;
  const auto take_parameters = [&](std::size_t count, auto name) {
    if (count != 2 * values)
      source_.fail(ErrorCode::bad_combiner, expr.span,
                   "a combiner of " + std::to_string(values) + (values == 1 ? " value" : " values") + " has " +
                       std::to_string(2 * values) + " parameters, not " + std::to_string(count),
                   "They are the left values, then the right ones: lambda a1, a2, b1, b2: (...).");
    for (std::size_t i = 0; i < count; ++i)
      parameters.push_back(meaning(body.parameter(static_cast<std::int32_t>(i), std::string(name(i)))));
  };

  Meaning result;
  if (expr.kind == ExprKind::lambda) {
    const auto children = tree_.of(expr);
    take_parameters(children.size() - 1, [&](std::size_t i) { return tree_[children[i]].text; });
    Scope inner{.outer = &scope};
    for (std::size_t i = 0; i < parameters.size(); ++i)
      inner.values[tree_[children[i]].text] = {.meaning = parameters[i]};
    result = eval(children.back(), inner);
  } else {
    if (expr.kind != ExprKind::name && expr.kind != ExprKind::attribute)
      source_.fail(ErrorCode::bad_combiner, expr.span, "a combiner is a lambda or the name of a def",
                   "combine=lambda a, b: a + b");
    const Callee callee = resolve(id, scope);
    if (callee.kind != Callee::Kind::def)
      source_.fail(ErrorCode::bad_combiner, expr.span, quoted(callee.name) + " is not a def of this text",
                   "Write combine=lambda a, b: " + std::string(callee.name) + "(a, b).");
    take_parameters(def(callee.def).params.size(), [&](std::size_t i) { return def(callee.def).params[i].name; });
    result = inlined(callee.def, expr.span, parameters, callee.closure);
  }
  const std::int64_t count = result.kind == Meaning::Kind::value ? 1 : size_of(result);
  if (count != static_cast<std::int64_t>(values))
    source_.fail(ErrorCode::bad_combiner, expr.span,
                 "a combiner of " + std::to_string(values) + (values == 1 ? " value" : " values") + " gives " +
                     std::to_string(count),
                 "It gives one result for each value.");
  auto lambda = std::make_shared<Lambda>();
  lambda->parameters = static_cast<std::int32_t>(2 * values);
  if (result.kind == Meaning::Kind::value) lambda->results.push_back(node_of(result, expr));
  else
    for (std::int64_t i = 0; i < count; ++i) lambda->results.push_back(node_of(take(result, i, expr), expr));
  lambda->nodes = std::move(body.graph.nodes);
  return lambda;
}

Meaning Elaborator::call_cast(const Expr& expr, Scope& scope) {
  const std::vector<ExprId> given = arguments(expr, "cast", {"x", "dtype", "round"}, 2);
  Node node{.op = Op::cast};
  node.args = {value(given[0], scope)};
  node.dtype = dtype(given[1]);
  if (given[2] != no_expr) {
    const Expr& round = tree_[given[2]];
    ExprId word = given[2];
    if (round.kind == ExprKind::call) {
      word = tree_.child(round);
      if (last_word(word) != name(Round::stochastic))
        source_.fail(ErrorCode::bad_attribute, round.span, "only stochastic(seed) takes an argument");
      node.seed = seed(arguments(round, "stochastic", {"seed"}, 1)[0], scope);
    }
    bool known = false;
    for (const Round each : {Round::nearest_even, Round::toward_zero, Round::up, Round::down, Round::stochastic}) {
      if (name(each) != last_word(word)) continue;
      known = true;
      node.round = each;
    }
    if (!known)
      source_.fail(ErrorCode::bad_attribute, round.span, quoted(last_word(word)) + " is no way to round",
                   "They are nearest_even, toward_zero, up, down and stochastic(seed).");
    if (node.round == Round::stochastic && round.kind != ExprKind::call)
      source_.fail(ErrorCode::bad_attribute, round.span, "stochastic rounding needs a seed", "Write stochastic(42).");
  }
  node.span = expr.span;
  return meaning(state_->add(std::move(node)));
}

Meaning Elaborator::call_random(const Expr& expr, Scope& scope) {
  const std::vector<ExprId> given = arguments(expr, "random", {"seed", "stream"}, 1);
  Node node{.op = Op::random, .span = expr.span};
  node.seed = seed(given[0], scope);
  if (given[1] != no_expr) {
    const std::int64_t stream = integer(given[1], "stream", scope);
    if (stream < 0 || stream > std::numeric_limits<std::uint32_t>::max())
      source_.fail(ErrorCode::bad_attribute, tree_[given[1]].span, "a stream is a number of 32 bits",
                   "Use another small number for every independent stream.");
    node.random_stream = static_cast<std::uint32_t>(stream);
  }
  return meaning(state_->add(std::move(node)));
}

Meaning Elaborator::call_chunk(const Expr& expr, Scope& scope) {
  const std::vector<ExprId> given = arguments(expr, "chunk", {"x", "k", "group"}, 2);
  const NodeId x = value(given[0], scope);
  const std::int64_t k = integer(given[1], "k", scope);
  state_->span = tree_[given[1]].span;
  state_->check_pieces(k);
  return {.kind = Meaning::Kind::pieces,
          .owner = state_,
          .node = x,
          .op = Op::chunk,
          .count = static_cast<std::int32_t>(k),
          .group = group(given[2], scope)};
}

Meaning Elaborator::call_concat(const Expr& expr, Scope& scope) {
  const std::vector<ExprId> given = arguments(expr, "concat", {"parts", "group"}, 1);
  const Meaning parts = eval(given[0], scope);
  if (parts.kind == Meaning::Kind::value)
    source_.fail(ErrorCode::bad_call, tree_[given[0]].span, "concat takes a tuple of values", "Write concat((a, b)).");
  Node node{.op = Op::concat};
  for (std::int64_t i = 0; i < size_of(parts); ++i)
    node.args.push_back(node_of(take(parts, i, tree_[given[0]]), tree_[given[0]]));
  if (node.args.empty())
    source_.fail(ErrorCode::bad_call, tree_[given[0]].span, "concat of no values", "Write concat((a, b)).");
  node.group = group(given[1], scope);
  node.span = expr.span;
  return meaning(state_->add(std::move(node)));
}

Meaning Elaborator::call_repeat(const Expr& expr, Scope& scope) {
  const std::vector<ExprId> given = arguments(expr, "repeat", {"x", "group", "axis"}, 2);
  Node node{.op = Op::repeat};
  node.args = {value(given[0], scope)};
  node.group = group(given[1], scope);
  node.axes = given[2] == no_expr ? Axes(Axis::n) : axes(given[2], scope);
  if (node.axes != Axes(Axis::n) && node.axes != Axes(Axis::m))
    source_.fail(ErrorCode::bad_attribute, tree_[given[2]].span, "repeat goes along one axis",
                 "Write axis=1 for columns, axis=0 for rows.");
  if (node.group == 0)
    source_.fail(ErrorCode::bad_attribute, tree_[given[1]].span, "repeat needs a group",
                 "It is the group= of the reduction that made the value.");
  node.span = expr.span;
  return meaning(state_->add(std::move(node)));
}

Meaning Elaborator::call_function(const Expr& expr, const std::shared_ptr<const Function>& function, Scope& scope) {
  std::vector<std::string_view> names;
  std::size_t required = 0;
  for (const Function::Parameter& parameter : function->parameters) {
    names.push_back(parameter.name);
    if (!parameter.default_value) ++required;
  }
  std::vector<NodeId> args;
  const std::vector<ExprId> given = arguments(expr, function->name, names, required);
  for (std::size_t i = 0; i < given.size(); ++i)
    args.push_back(given[i] == no_expr ? state_->constant(*function->parameters[i].default_value)
                                       : value(given[i], scope));
  state_->span = expr.span;
  return meaning(state_->call(function, std::move(args)));
}

Meaning Elaborator::call_def(const Expr& expr, const Callee& callee, Scope& scope) {
  if (const auto whole = functions_.find(callee.def); whole != functions_.end())
    return call_function(expr, whole->second, scope);
  const Def& called = def(callee.def);
  std::vector<std::string_view> names;
  std::size_t required = 0;
  for (const Param& param : called.params) {
    names.push_back(param.name);
    if (param.default_value == no_expr) required = names.size();
  }
  std::vector<Meaning> meanings;
  const std::vector<ExprId> given = arguments(expr, called.name, names, required);
  for (std::size_t i = 0; i < given.size(); ++i)
    meanings.push_back(given[i] == no_expr ? meaning(state_->constant(default_of(called.params[i])))
                                           : eval(given[i], scope));
  return inlined(callee.def, expr.span, meanings, callee.closure);
}

Meaning Elaborator::inlined(std::int32_t index, const Span& place, const std::vector<Meaning>& arguments,
                            Scope* closure) {
  const Def& called = def(index);
  if (std::find(active_.begin(), active_.end(), index) != active_.end())
    source_.fail(ErrorCode::recursion, place, quoted(called.name) + " calls itself",
                 "An epilogue is a straight line; write the steps out.");
  Scope scope{.outer = closure};
  for (std::size_t i = 0; i < arguments.size(); ++i) scope.values[called.params[i].name] = {.meaning = arguments[i]};
  active_.push_back(index);
  const ExprId result = run(called, scope);
  if (result == no_expr)
    source_.fail(ErrorCode::bad_call, place, quoted(called.name) + " returns nothing",
                 "End it with `return` and a value.");
  Meaning made = eval(result, scope);
  active_.pop_back();
  return made;
}

// ---- attributes

Axes Elaborator::axes(ExprId id, const Scope& scope) const {
  if (id == no_expr || tree_[id].kind == ExprKind::none) return tile_axes;
  const Expr& expr = tree_[id];
  std::vector<ExprId> each{id};
  if (expr.kind == ExprKind::tuple) each.assign(tree_.of(expr).begin(), tree_.of(expr).end());
  Axes over;
  for (const ExprId one : each) {
    const std::int64_t axis = integer(one, "an axis", scope);
    if (axis < -2 || axis > 1)
      source_.fail(ErrorCode::bad_attribute, tree_[one].span, "there is no axis " + std::to_string(axis),
                   "axis=0 goes over the rows M, axis=1 over the columns N.");
    over = over | (axis == 1 || axis == -1 ? Axis::n : Axis::m);
  }
  return over;
}

Axes Elaborator::reduced_axes(const Expr& call, ExprId axis, ExprId batch, const Scope& scope) const {
  Axes over = axes(axis, scope);
  if (batch != no_expr && integer(batch, "batch", scope) != 0) over = over | Axis::b;
  if (over.empty())
    source_.fail(ErrorCode::bad_attribute, call.span, "a reduction over no axis",
                 "axis=0 goes over the rows M, axis=1 over the columns N.");
  return over;
}

std::int64_t Elaborator::integer(ExprId id, std::string_view what, const Scope& scope) const {
  const std::optional<Literal> literal = constant(id, &scope);
  if (!literal || literal->type == DType::f32)
    source_.fail(ErrorCode::bad_attribute, tree_[id].span, std::string(what) + " must be an integer constant",
                 "It is fixed when the epilogue is compiled.");
  return literal->integer;
}

std::int64_t Elaborator::group(ExprId id, const Scope& scope) const {
  if (id == no_expr || tree_[id].kind == ExprKind::none) return 0;
  const std::int64_t group = integer(id, "a group", scope);
  if (group < 1)
    source_.fail(ErrorCode::bad_attribute, tree_[id].span, "a group of " + std::to_string(group),
                 "A group has at least one column; leave it out for the whole axis.");
  return group;
}

std::uint64_t Elaborator::seed(ExprId id, const Scope& scope) const {
  const Expr& expr = tree_[id];
  if (expr.kind == ExprKind::integer && !expr.negative) return expr.magnitude;  // all 64 bits
  const std::int64_t number = integer(id, "a seed", scope);
  if (number < 0)
    source_.fail(ErrorCode::bad_attribute, expr.span, "a seed is " + std::to_string(number),
                 "A seed is 0 to 2**64 - 1.");
  return static_cast<std::uint64_t>(number);
}

std::string_view Elaborator::last_word(ExprId id) const {
  const Expr& expr = tree_[id];
  if (expr.kind == ExprKind::name) return expr.text;
  if (expr.kind == ExprKind::attribute && tree_[tree_.child(expr)].kind != ExprKind::call) return expr.text;
  if (expr.kind == ExprKind::string && expr.text.find('\\') == std::string_view::npos) {
    const std::size_t open = expr.text.find_first_of("\"'");
    const std::size_t close = expr.text.find(expr.text[open], open + 1);
    return expr.text.substr(open + 1, close - open - 1);
  }
  source_.fail(ErrorCode::bad_attribute, expr.span, "a name is expected here");
}

DType Elaborator::dtype(ExprId id) const {
  const std::string_view word = last_word(id);
  if (const std::optional<DType> type = parse_dtype(word)) return *type;
  std::string all;
  for (int i = 0; i < dtype_count; ++i) all += (i == 0 ? "" : ", ") + std::string(name(static_cast<DType>(i)));
  source_.fail(ErrorCode::unknown_dtype, tree_[id].span, quoted(word) + " is not a dtype",
               meant_dtype(word) + "Dtypes are " + all + ".");
}

}  // namespace postlude::inline v0::text
