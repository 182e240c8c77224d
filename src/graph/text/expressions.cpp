#include "graph/text/elaborator.h"

#include "graph/text/refusals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace postlude::inline v0::text {

Elaborator::Nesting::Nesting(Elaborator& e, const Expr& expr) : elaborator(e) {
  if (++e.depth_ > 5 * e.limits_.nesting)
    e.source_.fail(ErrorCode::text_limit, expr.span, "calls of helpers are nested too deep",
                   "Give inner results names, or call fewer helpers from helpers.");
  const std::size_t most = 8 * static_cast<std::size_t>(e.limits_.nodes);
  if (++e.steps_ > most)
    e.source_.fail(ErrorCode::text_limit, expr.span,
                   "the helpers of this text expand to more than " + std::to_string(most) + " expressions");
}

namespace {

Literal real(double value) { return {.type = DType::f32, .real = value}; }
Literal integer_literal(std::int64_t value) { return {.type = DType::i64, .integer = value}; }

std::optional<Literal> well_known(std::string_view name) {
  if (name == "inf") return real(std::numeric_limits<double>::infinity());
  if (name == "nan") return real(std::numeric_limits<double>::quiet_NaN());
  return {};
}

// Constants of the text outside the graph (module constants, attributes, defaults) are computed as
// Python does.
std::optional<Literal> fold(Op op, const Literal& a, const Literal& b) {
  if (a.type != DType::f32 && b.type != DType::f32) {
    const std::int64_t x = a.integer, y = b.integer;
    std::int64_t z = 0;
    switch (op) {
      case Op::add:
        if (__builtin_add_overflow(x, y, &z)) return {};
        return integer_literal(z);
      case Op::sub:
        if (__builtin_sub_overflow(x, y, &z)) return {};
        return integer_literal(z);
      case Op::mul:
        if (__builtin_mul_overflow(x, y, &z)) return {};
        return integer_literal(z);
      case Op::floordiv:
        if (y == 0 || (y == -1 && x == std::numeric_limits<std::int64_t>::min())) return {};
        return integer_literal(x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0));
      case Op::pow: {
        if (y < 0) break;
        z = 1;
        for (std::int64_t i = 0; i < y; ++i) {
          if (x == 0 || x == 1) return integer_literal(x);
          if (x == -1) return integer_literal(y % 2 == 0 ? 1 : -1);
          if (__builtin_mul_overflow(z, x, &z)) return {};  // of any other x within 64 turns
        }
        return integer_literal(z);
      }
      default: break;
    }
  }
  const double x = a.value(), y = b.value();
  switch (op) {
    case Op::add: return real(x + y);
    case Op::sub: return real(x - y);
    case Op::mul: return real(x * y);
    case Op::div: return y == 0 ? std::nullopt : std::optional(real(x / y));
    case Op::floordiv: return y == 0 ? std::nullopt : std::optional(real(std::floor(x / y)));
    case Op::pow: return real(std::pow(x, y));
    default: return {};
  }
}

}  // namespace

Meaning Elaborator::meaning(NodeId node) const { return {.owner = state_, .node = node}; }

std::int64_t Elaborator::size_of(const Meaning& meaning) {
  return meaning.kind == Meaning::Kind::tuple ? static_cast<std::int64_t>(meaning.meanings->size()) : meaning.count;
}

bool Elaborator::is_module(ExprId id) const {
  while (tree_[id].kind == ExprKind::attribute) id = tree_.child(tree_[id]);
  return tree_[id].kind == ExprKind::name && tree_.modules.contains(tree_[id].text);
}

const Variable* Elaborator::find(std::string_view name, const Scope& scope) const {
  for (const Scope* at = &scope; at != nullptr; at = at->outer)
    if (const auto found = at->values.find(name); found != at->values.end()) return &found->second;
  return nullptr;
}

std::optional<Literal> Elaborator::constant_leaf(const Expr& expr, const Scope* scope) const {
  switch (expr.kind) {
    case ExprKind::boolean:
      return Literal{.type = DType::boolean, .integer = static_cast<std::int64_t>(expr.magnitude)};
    case ExprKind::real: return real(expr.negative ? -expr.real : expr.real);
    case ExprKind::integer: {
      constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      if (expr.magnitude > largest + (expr.negative ? 1 : 0))
        source_.fail(ErrorCode::syntax, expr.span, "this number is out of range", "Integers have 64 bits.");
      return integer_literal(static_cast<std::int64_t>(expr.negative ? ~expr.magnitude + 1 : expr.magnitude));
    }
    case ExprKind::name: {
      if (const Variable* binding = scope ? find(expr.text, *scope) : nullptr) {
        const Meaning& bound = binding->meaning;
        if (bound.kind != Meaning::Kind::value) return {};
        const Node& node = bound.owner->graph.nodes[static_cast<std::size_t>(bound.node)];
        return node.op == Op::constant ? std::optional(node.literal) : std::nullopt;
      }
      if (const auto found = module_constants_.find(expr.text); found != module_constants_.end()) return found->second;
      return well_known(expr.text);
    }
    case ExprKind::attribute:
      if (!is_module(tree_.child(expr))) return {};
      if (expr.text == "pi") return real(std::numbers::pi);
      return well_known(expr.text);
    default: return {};
  }
}

std::optional<Literal> Elaborator::constant(ExprId id, const Scope* scope) const {
  std::vector<ExprId> spine;  // operations, the outermost first; their left sides may be many
  while (tree_[id].kind == ExprKind::binary || tree_[id].kind == ExprKind::unary) {
    spine.push_back(id);
    id = tree_.child(tree_[id]);
  }
  std::optional<Literal> value = constant_leaf(tree_[id], scope);
  for (; value && !spine.empty(); spine.pop_back()) {
    const Expr& expr = tree_[spine.back()];
    if (expr.kind == ExprKind::unary) {
      value = expr.op != Op::neg          ? std::nullopt
              : value->type == DType::f32 ? std::optional(real(-value->real))
                                          : fold(Op::sub, integer_literal(0), *value);
    } else {
      const std::optional<Literal> right = constant(tree_.child(expr, 1), scope);
      value = right ? fold(expr.op, *value, *right) : std::nullopt;
    }
  }
  return value;
}

Meaning Elaborator::eval(ExprId id, Scope& scope) {
  const Expr& expr = tree_[id];
  const Nesting nesting(*this, expr);
  state_->span = expr.span;
  switch (expr.kind) {
    case ExprKind::integer:
    case ExprKind::real:
    case ExprKind::boolean: return meaning(state_->constant(*constant_leaf(expr, nullptr)));
    case ExprKind::name: return named(expr, scope);
    case ExprKind::tuple: {
      std::vector<Meaning> meanings;
      int depth = 0;
      for (const ExprId child : tree_.of(expr)) {
        meanings.push_back(eval(child, scope));
        depth = std::max(depth, meanings.back().depth + 1);
      }
      if (depth > limits_.nesting) source_.fail(ErrorCode::text_limit, expr.span, "tuples are nested too deep");
      return {.kind = Meaning::Kind::tuple,
              .depth = depth,
              .meanings = std::make_shared<const std::vector<Meaning>>(std::move(meanings))};
    }
    case ExprKind::unary: {
      const Expr& operand = tree_[tree_.child(expr)];
      // -inf is a literal, like -1.
      if (expr.op == Op::neg && !operand.parenthesised &&
          (operand.kind == ExprKind::name || operand.kind == ExprKind::attribute) &&
          !(operand.kind == ExprKind::name &&
            (find(operand.text, scope) || module_constants_.contains(operand.text)))) {
        if (const std::optional<Literal> literal = constant_leaf(operand, &scope))
          return meaning(state_->constant(real(-literal->real)));
      }
      const NodeId x = value(tree_.child(expr), scope);
      state_->span = expr.span;
      return meaning(state_->elementwise(expr.op, {x}));
    }
    case ExprKind::binary: return binary(id, scope);
    case ExprKind::call: return call(expr, scope);
    case ExprKind::attribute: {
      if (is_module(tree_.child(expr))) {
        if (const std::optional<Literal> literal = constant_leaf(expr, &scope))
          return meaning(state_->constant(*literal));
        source_.fail(ErrorCode::undefined_name, expr.span, quoted(expr.text) + " is not a value",
                     "Functions are called: " + std::string(expr.text.substr(0, 64)) + "(x).");
      }
      if (tree_[tree_.child(expr)].kind == ExprKind::name && !find(tree_[tree_.child(expr)].text, scope))
        undefined(tree_[tree_.child(expr)], scope);
      const std::string_view hint = synonym(expr.text);
      source_.fail(ErrorCode::unsupported_syntax, expr.span, "values have no attributes",
                   hint.empty() ? "Operands are declared with their class: x: row[bf16]; functions are called: "
                                  "sum(x, axis=1)."
                                : std::string(hint));
    }
    case ExprKind::subscript: {
      const Meaning base = eval(tree_.child(expr), scope);
      if (base.kind == Meaning::Kind::value)
        source_.fail(
            ErrorCode::unsupported_syntax, expr.span, "values are not indexed",
            "chunk(x, k, group) gives blocks of columns; where() with m_index() and n_index() selects elements.");
      return take(base, integer(tree_.child(expr, 1), "an index", scope), expr);
    }
    case ExprKind::string: source_.fail(ErrorCode::unsupported_syntax, expr.span, "a string is not a value");
    case ExprKind::none: source_.fail(ErrorCode::unsupported_syntax, expr.span, "None is not a value");
    case ExprKind::dict:
      source_.fail(ErrorCode::unsupported_syntax, expr.span, "a dict can only be returned from an epilogue");
    case ExprKind::lambda:
      source_.fail(ErrorCode::unsupported_syntax, expr.span, "a lambda can only be the combiner of a reduction",
                   "Write a def for a helper.");
    case ExprKind::keyword: break;
  }
  source_.fail(ErrorCode::internal, expr.span, "an argument outside a call");
}

NodeId Elaborator::node_of(const Meaning& meaning, const Expr& expr) {
  if (meaning.kind != Meaning::Kind::value)
    source_.fail(ErrorCode::bad_call, expr.span,
                 "this is a tuple of " + std::to_string(size_of(meaning)) + " where one value is needed",
                 "Take one apart with a, b = ..., or by [0].");
  if (meaning.owner == state_) return meaning.node;
  const Node& node = meaning.owner->graph.nodes[static_cast<std::size_t>(meaning.node)];
  if (node.op == Op::constant) return state_->constant(node.literal);
  source_.fail(ErrorCode::bad_combiner, expr.span, "a combiner may use its parameters and constants only",
               "Reduce over another value: reduce((x, y), ...).");
}

NodeId Elaborator::value(ExprId id, Scope& scope) { return node_of(eval(id, scope), tree_[id]); }

Meaning Elaborator::take(const Meaning& tuple, std::int64_t index, const Expr& expr) {
  const std::int64_t size = size_of(tuple);
  if (index < -size || index >= size)
    source_.fail(ErrorCode::bad_call, expr.span,
                 "element " + std::to_string(index) + " of a tuple of " + std::to_string(size));
  if (index < 0) index += size;
  if (tuple.kind == Meaning::Kind::tuple) return (*tuple.meanings)[static_cast<std::size_t>(index)];
  if (tuple.owner != state_)
    source_.fail(ErrorCode::bad_combiner, expr.span, "a combiner may use its parameters and constants only",
                 "Reduce over another value: reduce((x, y), ...).");
  Node node{.op = tuple.op};
  node.args = {tuple.node};
  node.index = static_cast<std::int32_t>(index);
  if (tuple.op == Op::chunk) node.pieces = tuple.count;
  node.group = tuple.group;
  node.span = expr.span;
  return meaning(state_->share(std::move(node)));
}

Meaning Elaborator::named(const Expr& expr, Scope& scope) {
  if (const Variable* binding = find(expr.text, scope)) {
    if (binding->meaning.kind == Meaning::Kind::value && binding->meaning.owner != state_)
      return meaning(node_of(binding->meaning, expr));
    return binding->meaning;
  }
  if (const auto found = module_constants_.find(expr.text); found != module_constants_.end()) {
    if (!found->second)
      source_.fail(ErrorCode::unsupported_syntax, expr.span,
                   quoted(expr.text) + " is not a constant that an epilogue can use",
                   "Write a number at the top of the file, or make it an operand.");
    return meaning(state_->constant(*found->second));
  }
  if (const std::optional<Literal> literal = well_known(expr.text)) return meaning(state_->constant(*literal));
  undefined(expr, scope);
}

void Elaborator::undefined(const Expr& expr, const Scope& scope) const {
  if (module_defs_.contains(expr.text) || library(expr.text))
    source_.fail(ErrorCode::undefined_name, expr.span, quoted(expr.text) + " is a function, not a value",
                 "Call it: " + std::string(expr.text.substr(0, 64)) + "(x).");
  std::vector<std::string> candidates{"inf", "nan"};
  for (const Scope* at = &scope; at != nullptr; at = at->outer)
    for (const auto& [name, binding] : at->values) candidates.emplace_back(name);
  for (const auto& [name, literal] : module_constants_) candidates.emplace_back(name);
  std::sort(candidates.begin(), candidates.end());
  const std::string near = closest(expr.text, candidates);
  std::string hint = near.empty() ? "" : "Did you mean '" + near + "'?";
  if (!active_.empty()) {
    const bool epilogue = active_.size() == 1 && state_ != nullptr && !state_->body;
    if (!hint.empty()) hint += ' ';
    hint += epilogue ? "Operands are the parameters of " + quoted(def(active_.back()).name) + "."
                     : "A helper sees its parameters and the file's constants.";
  }
  source_.fail(ErrorCode::undefined_name, expr.span, quoted(expr.text) + " is not defined", hint);
}

Meaning Elaborator::binary(ExprId id, Scope& scope) {
  // The left side of a long sum is a long chain; walk down it instead of recursing.
  std::vector<ExprId> spine;
  while (tree_[id].kind == ExprKind::binary) {
    spine.push_back(id);
    id = tree_.child(tree_[id]);
  }
  NodeId left = value(id, scope);
  for (; !spine.empty(); spine.pop_back()) {
    const Expr& expr = tree_[spine.back()];
    const NodeId right = value(tree_.child(expr, 1), scope);
    state_->span = expr.span;
    if (expr.text == "%") {
      const auto mod = lookup_("mod");
      if (!mod)
        source_.fail(ErrorCode::undefined_name, expr.span, "'%' needs the function mod, which is not defined here");
      left = state_->call(mod, {left, right});
    } else {
      left = state_->elementwise(expr.op, {left, right});
    }
  }
  return meaning(left);
}

}  // namespace postlude::inline v0::text
