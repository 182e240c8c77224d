#include "te/expression.h"

#include "core/convert.h"
#include "graph/ir/typing.h"
#include "lower/fold.h"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_set>

namespace postlude::inline v0::te {
namespace {

// What is printed, bounded and emitted is walked as a tree, and by recursion.
constexpr std::uint32_t most_parts = 65536, deepest = 2000;

Expr integer_constant(std::int64_t x) { return constant({DType::i64, 0, x}, true); }

bool is_number(const Expr& x, std::int64_t value) {
  return x->kind == ExprNode::Kind::constant && x->value.type != DType::f32 && x->value.integer == value;
}

// Whether no 64 bits hold it: it stays an operation then, which an index or a condition is refused for.
bool wraps(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t result;
  return (op == Op::add && __builtin_add_overflow(a, b, &result)) ||
         (op == Op::sub && __builtin_sub_overflow(a, b, &result)) ||
         (op == Op::mul && __builtin_mul_overflow(a, b, &result));
}

Op op_named(const std::string& name) {
  for (const OpInfo& row : op_table)
    if (row.id == name && is_elementwise(row.op)) return row.op;
  return Op::constant;
}

// The body of a function of the language, at these arguments.
Expr expanded(const Function& function, const std::vector<Expr>& arguments) {
  if (function.body.nodes.empty())
    throw Error(ErrorCode::unsupported, "loops cannot call " + quoted(function.name) + ", which is native code",
                "Define it in the language.");
  std::vector<Expr> values = arguments;
  for (std::size_t i = values.size(); i < function.parameters.size(); ++i) {
    if (!function.parameters[i].default_value) break;
    values.push_back(constant(*function.parameters[i].default_value, true));
  }
  if (values.size() != function.parameters.size())
    throw Error(ErrorCode::bad_call, quoted(function.name) + " takes " + std::to_string(function.parameters.size()) +
                                         " arguments, not " + std::to_string(arguments.size()));
  std::vector<Expr> made;
  for (const Node& node : function.body.nodes) {
    std::vector<Expr> args;
    for (const NodeId arg : node.args) args.push_back(made[static_cast<std::size_t>(arg)]);
    if (node.op == Op::constant) made.push_back(constant(node.literal, true));
    else if (node.op == Op::parameter) made.push_back(values[static_cast<std::size_t>(node.index)]);
    else if (node.op == Op::call) made.push_back(expanded(*node.function, args));
    else made.push_back(operation(node.op, args, node.dtype, node.round));
  }
  return made[static_cast<std::size_t>(function.body.results[0])];
}

Expr index_of(const Expr& x) {
  if (x.empty()) throw Error(ErrorCode::usage, "an empty expression is used as an index");
  if (x->type == DType::f32)
    throw Error(ErrorCode::type_mismatch, "an index is " + std::string(name(x->type)) + ": " + print(x),
                "An index is an integer; cast it.");
  return converted(x, DType::i64);
}

}  // namespace

Expr made(ExprNode node) {
  node.parts = node.depth = 1;
  for (const Expr& arg : node.args) {
    node.parts += arg->parts;  // of which no sum of three overflows
    node.depth = std::max(node.depth, arg->depth + 1);
  }
  if (node.parts > most_parts || node.depth > deepest)
    throw Error(
        ErrorCode::text_limit,
        "an expression has more than " + std::to_string(most_parts) + " parts, or lies more than " +
            std::to_string(deepest) + " deep",
        "A part counts as often as it is used, also through stages that are inlined: compute it in a stage of its "
        "own, without compute_inline.");
  return Expr(std::make_shared<const ExprNode>(std::move(node)));
}

Expr constant(const Literal& value, bool literal) {
  ExprNode node;
  node.type = value.type;
  node.value = value;
  node.literal = literal;
  return made(std::move(node));
}
Expr Expr::real(double x) { return constant({DType::f32, x, 0}, true); }
Expr Expr::integer(std::int64_t x) { return integer_constant(x); }
Expr Expr::boolean(bool x) { return constant({DType::boolean, 0, x}, true); }
DType Expr::type() const { return (*this)->type; }
std::string Expr::print() const { return te::print(*this); }

Expr axis_value(const AxisPtr& axis) {
  ExprNode node;
  node.kind = ExprNode::Kind::axis;
  node.type = DType::i64;
  node.axis = axis;
  return made(std::move(node));
}

AxisPtr make_axis(std::string name, AxisNode::Kind kind, const Expr& extent, const Expr& begin) {
  return std::make_shared<const AxisNode>(AxisNode{std::move(name), kind, begin.empty() ? Expr(0) : begin, extent, {}});
}

Expr converted(const Expr& x, DType type) {
  if (x->type == type) return x;
  if (x->kind == ExprNode::Kind::constant) {
    Literal value = x->value;
    if (type == DType::f32) value.real = x->value.value();
    else
      value.integer =
          value.type == DType::f32 ? core::to_integer(type, value.real) : core::to_integer(type, value.integer);
    value.type = type;
    return constant(value);
  }
  return operation(Op::cast, {x}, type);
}

Expr operation(Op op, std::vector<Expr> args, DType dtype, Round round) {
  Node shape;  // what the language's typing reads
  shape.op = op;
  shape.dtype = dtype;
  shape.round = round;
  std::vector<TypeState> states;
  bool indices = true;  // folded and kept as literals: sizes and indices
  for (const Expr& arg : args) {
    if (arg.empty()) throw Error(ErrorCode::usage, "an operation on an empty expression");
    if (arg->kind == ExprNode::Kind::reduce)
      throw Error(ErrorCode::unsupported, "a reduction is part of a larger expression",
                  "A reduction stands alone in its stage: compute it first, then use its tensor.");
    const bool literal = arg->kind == ExprNode::Kind::constant && arg->literal;
    states.push_back(literal ? literal_type(arg->value) : TypeState{arg->type, false, false});
    indices &= arg->type == DType::i64;
  }
  if (info(op).arity >= 0 && static_cast<int>(args.size()) != info(op).arity)
    throw Error(ErrorCode::bad_call, quoted(std::string(info(op).id)) + " takes " + std::to_string(info(op).arity) +
                                         " arguments, not " + std::to_string(args.size()));
  ExprNode node;
  node.kind = ExprNode::Kind::operation;
  node.op = op;
  node.type = Typing().infer(shape, states).type.value_or(DType::f32);
  node.dtype = dtype;
  node.round = round;
  for (std::size_t i = 0; i < args.size(); ++i) args[i] = converted(args[i], argument_type(shape, i, states));
  if (indices && node.type == DType::i64) {
    const bool constants =
        std::all_of(args.begin(), args.end(), [](const Expr& x) { return x->kind == ExprNode::Kind::constant; });
    node.args = args;
    if (constants && op != Op::cast && !wraps(op, args.front()->value.integer, args.back()->value.integer)) {
      const bool literal = std::all_of(args.begin(), args.end(), [](const Expr& x) { return x->literal; });
      return constant({DType::i64, 0, evaluate(made(node), {})}, literal);
    }
    if (op == Op::add && is_number(args[0], 0)) return args[1];
    if ((op == Op::add || op == Op::sub) && is_number(args[1], 0)) return args[0];
    if (op == Op::mul && (is_number(args[0], 0) || is_number(args[1], 1))) return args[0];
    if (op == Op::mul && (is_number(args[1], 0) || is_number(args[0], 1))) return args[1];
    if (op == Op::floordiv && is_number(args[1], 1)) return args[0];
  }
  node.args = std::move(args);
  return made(std::move(node));
}

Expr random_at(std::uint64_t seed, std::uint32_t stream, const Expr& row, const Expr& column) {
  ExprNode node;
  node.kind = ExprNode::Kind::operation;
  node.op = Op::random;
  node.args = {converted(row, DType::i64), converted(column, DType::i64)};
  node.seed = seed;
  node.random_stream = stream;
  return made(std::move(node));
}

Expr rounded_by(const Expr& x, DType dtype, const Expr& random) {
  ExprNode node = *operation(Op::cast, {x}, dtype, Round::stochastic).node();
  node.args.push_back(random);
  return made(std::move(node));
}

Expr both(const Expr& a, const Expr& b) { return a.empty() ? b : b.empty() ? a : operation(Op::bit_and, {a, b}); }

namespace {

// What a node is made of, one after the other; null behind the last.
const Expr* part(const ExprNode& x, std::size_t i) {
  if (i < x.args.size()) return &x.args[i];
  i -= x.args.size();
  if (!x.reduction || i > x.reduction->sources.size()) return nullptr;
  return i < x.reduction->sources.size() ? &x.reduction->sources[i] : &x.reduction->where;
}

// What is known of one, which may be empty.
const Expr& result_of(const std::unordered_map<const ExprNode*, Expr>& done, const Expr& x) {
  return x.empty() ? x : done.at(x.node().get());
}

// Puts what was made of its arguments in their places; whether any is another.
bool take_results(ExprNode& node, const std::unordered_map<const ExprNode*, Expr>& done) {
  bool changed = false;
  for (Expr& arg : node.args) {
    const Expr& now = result_of(done, arg);
    changed |= now.node() != arg.node();
    arg = now;
  }
  return changed;
}

}  // namespace

std::vector<const Expr*> parts(const Expr& x, const std::function<bool(const ExprNode&)>& enters) {
  std::vector<const Expr*> list;
  if (x.empty()) return list;
  std::vector<std::pair<const Expr*, std::size_t>> open{{&x, 0}};
  std::unordered_set<const ExprNode*> seen{x.node().get()};
  while (!open.empty()) {
    const ExprNode& at = *open.back().first->node();
    const Expr* const inner = !enters || enters(at) ? part(at, open.back().second++) : nullptr;
    if (!inner) {
      list.push_back(open.back().first);
      open.pop_back();
    } else if (!inner->empty() && seen.insert(inner->node().get()).second) {
      open.emplace_back(inner, 0);
    }
  }
  return list;
}

Expr substitute(const Expr& x, const Substitution& axes, const Reading& read) {
  std::unordered_map<const ExprNode*, Expr> done;
  for (const Expr* const each : parts(x)) {
    const Expr& at = *each;
    Expr result = at;
    if (at->kind == ExprNode::Kind::axis) {
      if (const auto found = axes.find(at->axis.get()); found != axes.end()) result = found->second;
    } else if (at->kind != ExprNode::Kind::constant) {
      ExprNode node = *at.node();
      bool changed = take_results(node, done);
      if (node.reduction) {
        auto reduction = std::make_shared<Reduction>(*node.reduction);
        for (Expr& source : reduction->sources) source = result_of(done, source);
        reduction->where = result_of(done, reduction->where);
        node.reduction = std::move(reduction);
        changed = true;
      }
      if (node.kind == ExprNode::Kind::read && read) result = read(node, node.args);
      else if (changed) result = made(std::move(node));
    }
    done.emplace(at.node().get(), std::move(result));
  }
  return result_of(done, x);
}

void visit(const Expr& x, const std::function<void(const ExprNode&)>& visitor) {
  for (const Expr* const each : parts(x)) visitor(*each->node());
}

bool is_computed(const Expr& x) {
  bool found = false;
  visit(x, [&](const ExprNode& node) { found |= node.kind == ExprNode::Kind::read || is_float(node.type); });
  return found;
}

bool equal(const ExprNode& a, const ExprNode& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.type != b.type || a.axis != b.axis || a.tensor != b.tensor || a.component != b.component ||
      a.op != b.op || a.args.size() != b.args.size() || a.reduction != b.reduction)
    return false;
  if (a.kind == ExprNode::Kind::constant && (a.value.integer != b.value.integer || a.value.real != b.value.real))
    return false;
  if (a.op == Op::random && (a.seed != b.seed || a.random_stream != b.random_stream)) return false;
  if (a.op == Op::cast && (a.dtype != b.dtype || a.round != b.round)) return false;
  for (std::size_t i = 0; i < a.args.size(); ++i)
    if (!equal(*a.args[i].node(), *b.args[i].node())) return false;
  return true;
}

// ---- polynomials --------------------------------------------------------------------------------

namespace {

bool same_atoms(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return false;
  std::vector<bool> used(b.size());
  for (const Expr& x : a) {
    bool found = false;
    for (std::size_t i = 0; i < b.size() && !found; ++i)
      if (!used[i] && equal(*x.node(), *b[i].node())) used[i] = found = true;
    if (!found) return false;
  }
  return true;
}

// As the language's integers are: modulo 2^64.
std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t times(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

void add_to(Polynomial& p, const Polynomial& q, std::int64_t factor) {
  p.constant = plus(p.constant, times(factor, q.constant));
  for (const Polynomial::Term& term : q.terms) {
    const auto found =
        std::find_if(p.terms.begin(), p.terms.end(), [&](const auto& t) { return same_atoms(t.atoms, term.atoms); });
    const std::int64_t more = times(factor, term.factor);
    if (found == p.terms.end()) p.terms.push_back({term.atoms, more});
    else if ((found->factor = plus(found->factor, more)) == 0) p.terms.erase(found);
  }
}

Polynomial product_of(const Polynomial& a, const Polynomial& b) {
  Polynomial p;
  add_to(p, b, a.constant);
  for (const Polynomial::Term& x : a.terms) {
    Polynomial part;
    if (b.constant != 0) part.terms.push_back({x.atoms, times(x.factor, b.constant)});
    for (const Polynomial::Term& y : b.terms) {
      Polynomial::Term term{x.atoms, times(x.factor, y.factor)};
      term.atoms.insert(term.atoms.end(), y.atoms.begin(), y.atoms.end());
      part.terms.push_back(std::move(term));
    }
    add_to(p, part, 1);
  }
  std::erase_if(p.terms, [](const auto& t) { return t.factor == 0; });
  return p;
}

}  // namespace

namespace {

// Of an axis, a constant, or what no sum says.
Polynomial of_atom(const Expr& x, const Sizes* sizes) {
  Polynomial p;
  if (x->kind == ExprNode::Kind::constant && x->value.type != DType::f32) {
    p.constant = x->value.integer;
    return p;
  }
  if (x->kind == ExprNode::Kind::axis && sizes)
    if (const auto found = sizes->find(x->axis.get()); found != sizes->end()) {
      p.constant = found->second;
      return p;
    }
  p.terms.push_back({{x}, 1});
  return p;
}

// Of an operation on integers, whose arguments' are `args`.
Polynomial of_operation(const Expr& x, std::span<Polynomial> args) {
  Polynomial p;
  switch (x->op) {
    case Op::add:
    case Op::sub:
      p = std::move(args[0]);
      add_to(p, args[1], x->op == Op::add ? 1 : -1);
      return p;
    case Op::neg: add_to(p, args[0], -1); return p;
    case Op::mul: return product_of(args[0], args[1]);
    default: break;
  }
  ExprNode node = *x.node();
  bool constants = true;
  for (std::size_t i = 0; i < args.size(); ++i) {
    constants &= args[i].is_constant();
    node.args[i] = expression(args[i]);
  }
  if (constants) p.constant = evaluate(made(std::move(node)), {});
  else p.terms.push_back({{made(std::move(node))}, 1});
  return p;
}

bool is_of_integers(const ExprNode& x) {
  return x.kind == ExprNode::Kind::operation && x.type == DType::i64 &&
         std::all_of(x.args.begin(), x.args.end(), [](const Expr& arg) { return arg->type == DType::i64; });
}

}  // namespace

Polynomial polynomial(const Expr& x, const Sizes* sizes) {
  std::vector<Polynomial> made;
  std::vector<std::pair<const Expr*, std::size_t>> open{{&x, 0}};  // and how many arguments are made
  while (!open.empty()) {
    const auto [at, next] = open.back();
    const ExprNode& node = *at->node();
    if (!is_of_integers(node)) {
      made.push_back(of_atom(*at, sizes));
    } else if (next < node.args.size()) {
      ++open.back().second;
      open.emplace_back(&node.args[next], 0);
      continue;
    } else {
      Polynomial p = of_operation(*at, std::span(made).last(node.args.size()));
      made.resize(made.size() - node.args.size());
      made.push_back(std::move(p));
    }
    open.pop_back();
  }
  return std::move(made[0]);
}

Expr expression(const Polynomial& p) {
  Expr result;
  for (const bool negative : {false, true}) {
    for (const Polynomial::Term& term : p.terms) {
      if ((term.factor < 0) != negative) continue;
      Expr product = term.atoms[0];
      for (std::size_t i = 1; i < term.atoms.size(); ++i) product = operation(Op::mul, {product, term.atoms[i]});
      if (result.empty()) {
        result = operation(Op::mul, {product, integer_constant(term.factor)});
      } else {
        product = operation(Op::mul, {product, integer_constant(negative ? times(term.factor, -1) : term.factor)});
        result = operation(negative ? Op::sub : Op::add, {result, product});
      }
    }
  }
  if (result.empty()) return integer_constant(p.constant);
  if (p.constant < 0) return operation(Op::sub, {result, integer_constant(times(p.constant, -1))});
  return operation(Op::add, {result, integer_constant(p.constant)});
}

Expr simplified(const Expr& x) { return x.empty() || x->type != DType::i64 ? x : expression(polynomial(x)); }

Expr tidied(const Expr& x) {
  const auto is_index = [](const ExprNode& node) {
    return node.type == DType::i64 && node.kind != ExprNode::Kind::read;
  };
  std::unordered_map<const ExprNode*, Expr> done;
  for (const Expr* const each : parts(x, [&](const ExprNode& node) { return !is_index(node) && !node.reduction; })) {
    Expr result = *each;
    if (is_index(*result.node())) {
      result = simplified(result);
    } else {
      ExprNode node = *result.node();
      if (take_results(node, done)) result = made(std::move(node));
    }
    done.emplace(each->node().get(), std::move(result));
  }
  return result_of(done, x);
}

bool same(const Expr& a, const Expr& b) {
  const Polynomial difference = polynomial(operation(Op::sub, {a, b}));
  return difference.is_constant() && difference.constant == 0;
}

Error untold(const AxisNode& size) {
  return {ErrorCode::missing_operand, "no argument tells the size " + quoted(size.name),
          "A size is known where it is an extent of an argument by itself."};
}

namespace {

Literal value_of(const Expr& x, const Sizes& sizes) {
  std::vector<Literal> made;
  std::vector<std::pair<const Expr*, std::size_t>> open{{&x, 0}};  // and how many arguments are made
  while (!open.empty()) {
    const auto [at, next] = open.back();
    const ExprNode& node = *at->node();
    if (node.kind == ExprNode::Kind::operation && next < (node.op == Op::where ? 1 : node.args.size())) {
      ++open.back().second;
      open.emplace_back(&node.args[next], 0);
      continue;
    }
    open.pop_back();
    if (node.kind == ExprNode::Kind::constant) {
      made.push_back(node.value);
    } else if (node.kind == ExprNode::Kind::axis) {
      const auto found = sizes.find(node.axis.get());
      if (found == sizes.end()) throw untold(*node.axis);
      made.push_back({DType::i64, 0, found->second});
    } else if (node.kind == ExprNode::Kind::operation && node.op == Op::where) {
      open.emplace_back(&node.args[made.back().integer ? 1 : 2], 0);
      made.pop_back();
    } else {
      std::optional<Literal> value;
      if (node.kind == ExprNode::Kind::operation) {
        value = lower::evaluate(node.op, node.type, std::span(made).last(node.args.size()), node.dtype, node.round);
        made.resize(made.size() - node.args.size());
      }
      if (!value)
        throw Error(ErrorCode::unsupported, "a size or a guard is computed by " + print(*at),
                    "Sizes and guards are made of sizes and loops.");
      made.push_back(*value);
    }
  }
  return made[0];
}

}  // namespace

std::int64_t evaluate(const Expr& x, const Sizes& sizes) {
  const Literal value = value_of(x, sizes);
  if (value.type == DType::f32) throw Error(ErrorCode::internal, "an integer is the real number " + print(x));
  return value.integer;
}

// ---- the public face ----------------------------------------------------------------------------

Axis::operator Expr() const { return axis_value(node_); }
const std::string& Axis::name() const { return node_->name; }
Expr Axis::extent() const { return node_->extent; }

Expr var(const std::string& name) {
  AxisNode node;
  node.name = name;
  node.kind = AxisNode::Kind::size;
  return axis_value(std::make_shared<const AxisNode>(std::move(node)));
}

Expr operator+(const Expr& a, const Expr& b) { return operation(Op::add, {a, b}); }
Expr operator-(const Expr& a, const Expr& b) { return operation(Op::sub, {a, b}); }
Expr operator*(const Expr& a, const Expr& b) { return operation(Op::mul, {a, b}); }
Expr operator/(const Expr& a, const Expr& b) { return operation(Op::div, {a, b}); }
Expr operator-(const Expr& x) { return operation(Op::neg, {x}); }
Expr operator==(const Expr& a, const Expr& b) { return operation(Op::eq, {a, b}); }
Expr operator!=(const Expr& a, const Expr& b) { return operation(Op::ne, {a, b}); }
Expr operator<(const Expr& a, const Expr& b) { return operation(Op::lt, {a, b}); }
Expr operator<=(const Expr& a, const Expr& b) { return operation(Op::le, {a, b}); }
Expr operator>(const Expr& a, const Expr& b) { return operation(Op::gt, {a, b}); }
Expr operator>=(const Expr& a, const Expr& b) { return operation(Op::ge, {a, b}); }
Expr operator&(const Expr& a, const Expr& b) { return operation(Op::bit_and, {a, b}); }
Expr operator|(const Expr& a, const Expr& b) { return operation(Op::bit_or, {a, b}); }
Expr operator~(const Expr& x) { return operation(Op::bit_not, {x}); }
Expr floordiv(const Expr& a, const Expr& b) {
  if (!a.empty() && !b.empty() && is_number(b, 0) && !is_computed(a))
    throw Error(ErrorCode::bad_attribute, print(a) + " is divided by 0");
  return operation(Op::floordiv, {a, b});
}
Expr floormod(const Expr& a, const Expr& b) { return a - floordiv(a, b) * b; }
Expr cast(const Expr& x, DType dtype, Round round) {
  if (round == Round::stochastic)
    throw Error(ErrorCode::unsupported, "loops do not round stochastically", "Cast in an epilogue.");
  if (x->kind == ExprNode::Kind::constant && compute_type(dtype) == dtype && round == Round::nearest_even)
    return constant(converted(x, dtype)->value);
  return operation(Op::cast, {x}, dtype, round);
}

Expr apply(const std::string& name, const std::vector<Expr>& arguments) {
  if (const Op op = op_named(name); op != Op::constant && op != Op::cast) return operation(op, arguments);
  if (const auto function = find_function(name)) return expanded(*function, arguments);
  throw Error(ErrorCode::undefined_name, "there is no operation " + quoted(name),
              "`postlude ops` lists those there are.");
}

Expr Tensor::at(std::vector<Expr> index) const {
  if (index.size() != node_->shape.size())
    throw Error(ErrorCode::wrong_rank,
                quoted(node_->name) + " has " + std::to_string(node_->shape.size()) + " axes, and is read at " +
                    std::to_string(index.size()) + " indices",
                "There is one for each axis.");
  ExprNode node;
  node.kind = ExprNode::Kind::read;
  node.tensor = node_;
  node.component = component_;
  node.type = compute_type(dtype());
  for (const Expr& x : index) node.args.push_back(index_of(x));
  return made(std::move(node));
}

}  // namespace postlude::inline v0::te
