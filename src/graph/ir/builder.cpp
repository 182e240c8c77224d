#include "graph/ir/builder.h"

#include "core/convert.h"
#include "graph/ir/verify.h"
#include "graph/text/source.h"

#include <bit>
#include <initializer_list>

namespace postlude::inline v0 {

void BuilderState::check_open() const {
  if (finished)
    throw Error(ErrorCode::foreign_value, "a value is used whose builder has finished",
                "finish() hands the graph over; make another GraphBuilder for another graph.");
}

NodeId BuilderState::add(Node node) {
  check_open();
  if (graph.nodes.size() >= limit)
    throw Error(ErrorCode::text_limit, "the graph has more than " + std::to_string(limit) + " nodes", {}, here());
  if (body && !is_elementwise(node.op) && node.op != Op::constant && node.op != Op::parameter && node.op != Op::call)
    throw Error(ErrorCode::bad_combiner, "a combiner may hold elementwise operations and constants only",
                "Move '" + std::string(info(node.op).id) + "' out of it.", here());
  if (node.span.line == 0) node.span = span;
  graph.nodes.push_back(std::move(node));
  return static_cast<NodeId>(graph.nodes.size()) - 1;
}

NodeId BuilderState::share(Node node) {
  const Literal& literal = node.literal;
  const std::uint64_t word = node.op != Op::constant      ? node.seed
                             : literal.type == DType::f32 ? std::bit_cast<std::uint64_t>(literal.real)
                                                          : static_cast<std::uint64_t>(literal.integer);
  const std::int32_t index = node.op == Op::constant ? static_cast<std::int32_t>(literal.type) : node.index;
  const LeafKey key{node.op,           node.args.empty() ? -1 : node.args[0], index, node.pieces, node.group, word,
                    node.random_stream};
  check_open();
  if (const auto found = shared_.find(key); found != shared_.end()) return found->second;
  const NodeId added = add(std::move(node));
  shared_.emplace(key, added);
  return added;
}

NodeId BuilderState::constant(const Literal& literal) {
  Node node{.op = Op::constant};
  node.literal = literal;
  return share(std::move(node));
}

NodeId BuilderState::accumulator(std::string name) {
  Node node{.op = Op::acc};
  node.name = std::move(name);
  return share(std::move(node));
}

void BuilderState::check_unique(const std::string& name, std::string_view what) const {
  if (!is_bound_name(name)) check_bound_name(name, what, here());
  const bool operand = operand_names_.contains(name);
  if (operand || output_names_.contains(name))
    throw Error(ErrorCode::duplicate_name,
                quoted(name) + " is already the name of an " + (operand ? "operand" : "output"),
                "Operands and outputs are bound by name; choose another name for " + std::string(what) + ".", here());
}

NodeId BuilderState::operand(std::string name, Axes axes, std::optional<DType> dtype) {
  check_unique(name, "an operand");
  if (dtype) (void)core::checked(*dtype);
  operand_names_.insert(name);
  Node node{.op = Op::operand};
  node.index = static_cast<std::int32_t>(graph.operands.size());
  node.name = name;
  graph.operands.push_back({.name = std::move(name), .axes = axes, .dtype = dtype, .span = span});
  return add(std::move(node));
}

NodeId BuilderState::parameter(std::int32_t index, std::string name) {
  Node node{.op = Op::parameter};
  node.index = index;
  node.name = std::move(name);
  return share(std::move(node));
}

NodeId BuilderState::elementwise(Op op, std::vector<NodeId> args) {
  Node node{.op = op};
  node.args = std::move(args);
  return add(std::move(node));
}

NodeId BuilderState::reduction(ReduceOp op, NodeId x, Axes over, ReduceOptions options) {
  Node node{.op = Op::reduce};
  node.args = {x};
  node.reduction = op;
  node.axes = options.batch ? over | Axis::b : over;
  node.group = options.group;
  return add(std::move(node));
}

NodeId BuilderState::call(std::shared_ptr<const Function> function, std::vector<NodeId> args) {
  const auto& parameters = function->parameters;
  for (std::size_t i = args.size(); i < parameters.size() && parameters[i].default_value; ++i)
    args.push_back(constant(*parameters[i].default_value));
  if (args.size() != parameters.size())
    throw Error(ErrorCode::bad_call,
                quoted(function->name) + " takes " + std::to_string(parameters.size()) +
                    (parameters.size() == 1 ? " argument, not " : " arguments, not ") + std::to_string(args.size()),
                {}, here());
  Node node{.op = Op::call};
  node.args = std::move(args);
  node.function = std::move(function);
  return add(std::move(node));
}

void BuilderState::check_pieces(std::int64_t k) const {
  if (k < 1 || k > static_cast<std::int64_t>(limit))
    throw Error(ErrorCode::bad_attribute, "chunk into " + std::to_string(k) + " pieces",
                "chunk(x, 2) gives two halves.", here());
}

void BuilderState::output(std::string name, NodeId value, std::optional<DType> dtype, std::optional<Axes> axes) {
  check_open();
  check_unique(name, "an output");
  if (dtype) (void)core::checked(*dtype);
  output_names_.insert(name);
  graph.outputs.push_back({.name = std::move(name), .value = value, .dtype = dtype, .axes = axes, .span = span});
}

void BuilderState::name(NodeId node, std::string_view hint) {
  Node& named = graph.nodes[static_cast<std::size_t>(node)];
  const bool computed = is_elementwise(named.op) || named.op >= Op::chunk;
  if (computed && named.name.empty() && hint.size() <= longest_name && is_identifier(hint)) named.name = hint;
}

namespace {

[[noreturn]] void foreign(std::string message, std::string hint) {
  throw Error(ErrorCode::foreign_value, std::move(message), std::move(hint));
}

template <typename Each>
std::shared_ptr<BuilderState> common(Each each) {
  std::shared_ptr<BuilderState> state;
  each([&](const std::shared_ptr<BuilderState>& other) {
    if (!other) return;
    if (state && state != other)
      foreign("two values of different graphs meet",
              "A combiner computes with its own arguments and literals only; a graph with its own values.");
    state = other;
  });
  if (!state) foreign("an operation on literals alone", "Write g.constant(x) for one of them, or compute it in C++.");
  return state;
}

// Every value must exist.
std::vector<NodeId> nodes_of(BuilderState& state, std::span<const Value> values) {
  std::vector<NodeId> nodes;
  for (const Value& value : values) nodes.push_back(state.node(value));
  return nodes;
}

}  // namespace

std::shared_ptr<BuilderState> BuilderState::of(std::initializer_list<const Value*> values) {
  return common([&](auto take) {
    for (const Value* value : values) take(value->builder_);
  });
}

std::shared_ptr<BuilderState> BuilderState::of(std::span<const Value> values) {
  return common([&](auto take) {
    for (const Value& value : values) take(value.builder_);
  });
}

NodeId BuilderState::node(const Value& value) {
  switch (value.kind_) {
    case Value::Kind::none:
      foreign("an empty Value is used", "Values come from a GraphBuilder and from operations on its values.");
    case Value::Kind::real: return constant({.type = DType::f32, .real = value.real_});
    case Value::Kind::integer: return constant({.type = DType::i64, .integer = value.integer_});
    case Value::Kind::boolean: return constant({.type = DType::boolean, .integer = value.integer_});
    case Value::Kind::node: break;
  }
  if (value.builder_.get() != this)
    foreign("a value of another builder is used", "Make all values of a graph with one GraphBuilder.");
  check_open();  // a copy of the builder may have finished the graph
  return value.node_;
}

Value BuilderState::value(std::shared_ptr<BuilderState> state, NodeId node) {
  Value value;
  value.kind_ = Value::Kind::node;
  value.builder_ = std::move(state);
  value.node_ = node;
  return value;
}

namespace {

template <typename... Values>
Value apply(Op op, const Values&... values) {
  const auto state = BuilderState::of({&values...});
  return BuilderState::value(state, state->elementwise(op, {state->node(values)...}));
}

Value reduced(ReduceOp op, const Value& x, Axes over, ReduceOptions options) {
  const auto state = BuilderState::of({&x});
  return BuilderState::value(state, state->reduction(op, state->node(x), over, options));
}

}  // namespace

void Value::out_of_range() {
  throw Error(ErrorCode::syntax, "this number is out of range",
              "Integers have 64 bits, a sign among them; other numbers are those of a double.");
}

GraphBuilder::GraphBuilder(std::string name) : state_(std::make_shared<BuilderState>()) {
  check_name(name, "an epilogue");
  state_->graph.name = std::move(name);
}

Value GraphBuilder::accumulator() { return BuilderState::value(state_, state_->accumulator("acc")); }

Value GraphBuilder::operand(std::string name, Axes axes, std::optional<DType> dtype) {
  return BuilderState::value(state_, state_->operand(std::move(name), axes, dtype));
}

Value GraphBuilder::m_index() { return BuilderState::value(state_, state_->add({.op = Op::m_index})); }
Value GraphBuilder::z_index() { return BuilderState::value(state_, state_->add({.op = Op::z_index})); }
Value GraphBuilder::p_index() { return BuilderState::value(state_, state_->add({.op = Op::p_index})); }
Value GraphBuilder::q_index() { return BuilderState::value(state_, state_->add({.op = Op::q_index})); }
Value GraphBuilder::n_index() { return BuilderState::value(state_, state_->add({.op = Op::n_index})); }
Value GraphBuilder::batch_index() { return BuilderState::value(state_, state_->add({.op = Op::batch_index})); }

Value GraphBuilder::random(std::uint64_t seed, std::uint32_t stream) {
  Node node{.op = Op::random};
  node.seed = seed;
  node.random_stream = stream;
  return BuilderState::value(state_, state_->add(std::move(node)));
}

Value GraphBuilder::constant(const Value& literal) { return BuilderState::value(state_, state_->node(literal)); }

void GraphBuilder::output(std::string name, const Value& value, std::optional<DType> dtype, std::optional<Axes> axes) {
  state_->output(std::move(name), state_->node(value), dtype, axes);
}

void GraphBuilder::at(Location where) {
  state_->span = where.span;
  state_->graph.places.emplace_back(where.span, std::move(where));
}

void GraphBuilder::name(const Value& value, std::string hint) { state_->name(state_->node(value), hint); }

Graph GraphBuilder::finish() {
  state_->check_open();
  auto graph = std::make_shared<GraphData>(std::move(state_->graph));
  state_->finished = true;
  state_ = std::make_shared<BuilderState>();
  state_->graph.name = graph->name;
  (void)verify(*graph);
  return Graph(std::move(graph));
}

Value operator+(const Value& a, const Value& b) { return apply(Op::add, a, b); }
Value operator-(const Value& a, const Value& b) { return apply(Op::sub, a, b); }
Value operator*(const Value& a, const Value& b) { return apply(Op::mul, a, b); }
Value operator/(const Value& a, const Value& b) { return apply(Op::div, a, b); }
Value operator-(const Value& x) { return apply(Op::neg, x); }
Value operator==(const Value& a, const Value& b) { return apply(Op::eq, a, b); }
Value operator!=(const Value& a, const Value& b) { return apply(Op::ne, a, b); }
Value operator<(const Value& a, const Value& b) { return apply(Op::lt, a, b); }
Value operator<=(const Value& a, const Value& b) { return apply(Op::le, a, b); }
Value operator>(const Value& a, const Value& b) { return apply(Op::gt, a, b); }
Value operator>=(const Value& a, const Value& b) { return apply(Op::ge, a, b); }
Value operator&(const Value& a, const Value& b) { return apply(Op::bit_and, a, b); }
Value operator|(const Value& a, const Value& b) { return apply(Op::bit_or, a, b); }
Value operator~(const Value& x) { return apply(Op::bit_not, x); }
Value floordiv(const Value& a, const Value& b) { return apply(Op::floordiv, a, b); }
Value abs(const Value& x) { return apply(Op::abs, x); }
Value min(const Value& a, const Value& b) { return apply(Op::min, a, b); }
Value max(const Value& a, const Value& b) { return apply(Op::max, a, b); }
Value fma(const Value& a, const Value& b, const Value& c) { return apply(Op::fma, a, b, c); }
Value exp(const Value& x) { return apply(Op::exp, x); }
Value exp2(const Value& x) { return apply(Op::exp2, x); }
Value expm1(const Value& x) { return apply(Op::expm1, x); }
Value log(const Value& x) { return apply(Op::log, x); }
Value log2(const Value& x) { return apply(Op::log2, x); }
Value log1p(const Value& x) { return apply(Op::log1p, x); }
Value tanh(const Value& x) { return apply(Op::tanh, x); }
Value erf(const Value& x) { return apply(Op::erf, x); }
Value sqrt(const Value& x) { return apply(Op::sqrt, x); }
Value rsqrt(const Value& x) { return apply(Op::rsqrt, x); }
Value reciprocal(const Value& x) { return apply(Op::reciprocal, x); }
Value pow(const Value& x, const Value& y) { return apply(Op::pow, x, y); }
Value sin(const Value& x) { return apply(Op::sin, x); }
Value cos(const Value& x) { return apply(Op::cos, x); }
Value floor(const Value& x) { return apply(Op::floor, x); }
Value ceil(const Value& x) { return apply(Op::ceil, x); }
Value round(const Value& x) { return apply(Op::round, x); }
Value where(const Value& condition, const Value& a, const Value& b) { return apply(Op::where, condition, a, b); }
Value scaled(const Value& s, const Value& x) { return apply(Op::scaled, s, x); }

Value cast(const Value& x, DType dtype, Round round, std::uint64_t seed) {
  const auto state = BuilderState::of({&x});
  Node node{.op = Op::cast};
  node.args = {state->node(x)};
  node.dtype = core::checked(dtype);
  node.round = core::checked(round);
  node.seed = seed;
  return BuilderState::value(state, state->add(std::move(node)));
}

std::vector<Value> chunk(const Value& x, int k, std::int64_t group) {
  const auto state = BuilderState::of({&x});
  state->check_pieces(k);
  std::vector<Value> pieces;
  for (int i = 0; i < k; ++i) {
    Node node{.op = Op::chunk};
    node.args = {state->node(x)};
    node.index = i;
    node.pieces = k;
    node.group = group;
    pieces.push_back(BuilderState::value(state, state->share(std::move(node))));
  }
  return pieces;
}

Value concat(std::span<const Value> parts, std::int64_t group) {
  const auto state = BuilderState::of(parts);
  Node node{.op = Op::concat};
  node.args = nodes_of(*state, parts);
  node.group = group;
  return BuilderState::value(state, state->add(std::move(node)));
}

Value repeat(const Value& x, std::int64_t group, Axis axis) {
  const auto state = BuilderState::of({&x});
  Node node{.op = Op::repeat};
  node.args = {state->node(x)};
  node.group = group;
  node.axes = axis;
  return BuilderState::value(state, state->add(std::move(node)));
}

Value sum(const Value& x, Axes over, ReduceOptions options) { return reduced(ReduceOp::sum, x, over, options); }
Value mean(const Value& x, Axes over, ReduceOptions options) { return reduced(ReduceOp::mean, x, over, options); }
Value max(const Value& x, Axes over, ReduceOptions options) { return reduced(ReduceOp::max, x, over, options); }
Value min(const Value& x, Axes over, ReduceOptions options) { return reduced(ReduceOp::min, x, over, options); }
Value prod(const Value& x, Axes over, ReduceOptions options) { return reduced(ReduceOp::prod, x, over, options); }
Value any(const Value& x, Axes over, ReduceOptions options) { return reduced(ReduceOp::any, x, over, options); }
Value all(const Value& x, Axes over, ReduceOptions options) { return reduced(ReduceOp::all, x, over, options); }
Value argmax(const Value& x, Axes over, ReduceOptions options) { return reduced(ReduceOp::argmax, x, over, options); }
Value argmin(const Value& x, Axes over, ReduceOptions options) { return reduced(ReduceOp::argmin, x, over, options); }
Value logsumexp(const Value& x, Axes over, ReduceOptions options) {
  return reduced(ReduceOp::logsumexp, x, over, options);
}
Value var(const Value& x, Axes over, ReduceOptions options) { return reduced(ReduceOp::var, x, over, options); }
Value norm(const Value& x, Axes over, ReduceOptions options) { return reduced(ReduceOp::norm, x, over, options); }

std::vector<Value> reduce(std::span<const Value> values, const Combine& combine, std::span<const double> identity,
                          Axes over, ReduceOptions options) {
  const auto state = BuilderState::of(values);
  if (!combine) throw Error(ErrorCode::bad_combiner, "a reduction without a combiner", {}, state->here());
  const std::size_t k = values.size();
  const auto inner = std::make_shared<BuilderState>();
  inner->body = true;
  std::vector<Value> parameters;
  for (std::size_t i = 0; i < 2 * k; ++i)
    parameters.push_back(BuilderState::value(
        inner, inner->parameter(static_cast<std::int32_t>(i), (i < k ? "a" : "b") + std::to_string(i % k))));
  const std::span<const Value> all = parameters;
  const std::vector<Value> results = combine(all.first(k), all.last(k));
  if (results.size() != k || identity.size() != k)
    throw Error(ErrorCode::bad_combiner,
                "a reduction of " + std::to_string(k) + " values has a combiner of " + std::to_string(results.size()) +
                    " results and " + std::to_string(identity.size()) + " identities",
                "There is one of each for every value.", state->here());

  auto lambda = std::make_shared<Lambda>();
  lambda->parameters = static_cast<std::int32_t>(2 * k);
  lambda->results = nodes_of(*inner, results);
  lambda->nodes = std::move(inner->graph.nodes);
  inner->finished = true;

  Node node{.op = Op::reduce};
  node.args = nodes_of(*state, values);
  node.reduction = ReduceOp::custom;
  node.combine = std::move(lambda);
  node.identity.assign(identity.begin(), identity.end());
  node.axes = options.batch ? over | Axis::b : over;
  node.group = options.group;
  const NodeId reduction = state->add(std::move(node));
  std::vector<Value> reduced;
  for (std::size_t i = 0; i < k; ++i) {
    Node get{.op = Op::get};
    get.args = {reduction};
    get.index = static_cast<std::int32_t>(i);
    reduced.push_back(BuilderState::value(state, state->share(std::move(get))));
  }
  return reduced;
}

Value call(std::string_view function, std::span<const Value> arguments) {
  const auto state = BuilderState::of(arguments);
  auto found = find_function(function);
  if (!found) {
    std::vector<std::string> names;
    for (const FunctionInfo& known : functions()) names.push_back(known.name);
    const std::string near = closest(function, names);
    throw Error(ErrorCode::undefined_name, "there is no function " + quoted(function),
                near.empty() ? "functions() lists those there are; define() adds one." : "Did you mean '" + near + "'?",
                state->here());
  }
  return BuilderState::value(state, state->call(std::move(found), nodes_of(*state, arguments)));
}

Value relu(const Value& x) { return call("relu", {{x}}); }
Value leaky_relu(const Value& x, const Value& slope) { return call("leaky_relu", {{x, slope}}); }
Value gelu(const Value& x) { return call("gelu", {{x}}); }
Value gelu_tanh(const Value& x) { return call("gelu_tanh", {{x}}); }
Value gelu_erf(const Value& x) { return call("gelu_erf", {{x}}); }
Value silu(const Value& x) { return call("silu", {{x}}); }
Value sigmoid(const Value& x) { return call("sigmoid", {{x}}); }
Value softplus(const Value& x) { return call("softplus", {{x}}); }
Value mish(const Value& x) { return call("mish", {{x}}); }
Value elu(const Value& x, const Value& alpha) { return call("elu", {{x, alpha}}); }
Value hardsigmoid(const Value& x) { return call("hardsigmoid", {{x}}); }
Value hardswish(const Value& x) { return call("hardswish", {{x}}); }
Value clamp(const Value& x, const Value& low, const Value& high) { return call("clamp", {{x, low, high}}); }

}  // namespace postlude::inline v0
