#include "graph/text/expression_reader.h"

#include "graph/text/refusals.h"

#include <algorithm>

namespace postlude::inline v0::text {
namespace {

constexpr int comparison = 1;
constexpr BinaryOperator binary_operators[] = {
    {"==", comparison, Op::eq}, {"!=", comparison, Op::ne}, {"<", comparison, Op::lt}, {"<=", comparison, Op::le},
    {">", comparison, Op::gt},  {">=", comparison, Op::ge}, {"|", 2, Op::bit_or},      {"&", 4, Op::bit_and},
    {"+", 6, Op::add},          {"-", 6, Op::sub},          {"*", 7, Op::mul},         {"/", 7, Op::div},
    {"//", 7, Op::floordiv},    {"%", 7, Op::call},  // the prelude's mod
    {"**", 9, Op::pow},                              // binds tighter than a sign before it: power() takes it
};

}  // namespace

const BinaryOperator* binary_operator(std::string_view text) {
  const auto row = std::find_if(std::begin(binary_operators), std::end(binary_operators),
                                [&](const BinaryOperator& r) { return r.text == text; });
  return row == std::end(binary_operators) ? nullptr : row;
}

ExpressionReader::ExpressionReader(const Source& source, const ParseLimits& limits)
    : source_(source), limits_(limits), lexer_(source, limits) {
  // No graph needs more expressions than nodes, but functions that are not called have expressions
  // too.
  most_exprs_ = 2 * static_cast<std::size_t>(std::max(limits.nodes, 1)) + 1024;
  for (const std::string_view ours : {"post", "postlude"}) tree_.modules.insert(ours);
  advance();
}

ExpressionReader::Nested::Nested(ExpressionReader& r) : reader(r) {
  if (++reader.depth_ > reader.limits_.nesting) {
    reader.fail(ErrorCode::text_limit,
                "an expression is nested more than " + std::to_string(reader.limits_.nesting) + " deep",
                "Give the inner expressions names on lines of their own.");
  }
}

Tree ExpressionReader::read_expression() {
  (void)expression();
  while (token_.kind == TokenKind::newline) advance();
  if (token_.kind != TokenKind::end) unexpected("the end of the expression");
  return std::move(tree_);
}

void ExpressionReader::unexpected(std::string_view wanted) const {
  std::string found;
  switch (token_.kind) {
    case TokenKind::end: found = "the text ends"; break;
    case TokenKind::newline: found = "the line ends"; break;
    case TokenKind::indent: fail(ErrorCode::syntax, "this line is indented and nothing before it asks for that");
    case TokenKind::dedent: found = "the indented block ends"; break;
    default: found = quoted(token_.text) + " is found"; break;
  }
  fail(ErrorCode::syntax, found + " where " + std::string(wanted) + " is expected");
}

void ExpressionReader::refuse(std::span<const Refusal> table) const {
  if (token_.kind != TokenKind::keyword && token_.kind != TokenKind::symbol) return;
  for (const Refusal& row : table)
    if (row.token == token_.text) fail(row.code, std::string(row.message), std::string(row.hint));
}

void ExpressionReader::advance() {
  last_end_ = token_.end;
  last_line_ = token_.span.line;
  token_ = lexer_.next();
}

bool ExpressionReader::accept(std::string_view text) {
  if (!token_.is(text)) return false;
  advance();
  return true;
}

void ExpressionReader::expect(std::string_view text, std::string_view where) {
  if (!accept(text)) unexpected("'" + std::string(text) + "' " + std::string(where));
}

Token ExpressionReader::expect_name(std::string_view what) {
  if (token_.kind == TokenKind::keyword)
    fail(ErrorCode::syntax, quoted(token_.text) + " is a keyword of Python and cannot name " + std::string(what));
  if (token_.kind != TokenKind::name) unexpected("the name of " + std::string(what));
  const Token name = token_;
  advance();
  return name;
}

ExprId ExpressionReader::add(ExprKind kind, const Span& span, std::span<const ExprId> children, std::string_view text) {
  if (tree_.exprs.size() >= most_exprs_)
    source_.fail(ErrorCode::text_limit, span, "the text has more than " + std::to_string(most_exprs_) + " expressions");
  Expr expr{.kind = kind, .span = span, .text = text, .magnitude = 0};
  expr.first_child = static_cast<std::int32_t>(tree_.children.size());
  expr.children = static_cast<std::int32_t>(children.size());
  tree_.children.insert(tree_.children.end(), children.begin(), children.end());
  tree_.exprs.push_back(expr);
  return static_cast<ExprId>(tree_.exprs.size()) - 1;
}

// The text that was read since `begin`, if it is on one line; else only where it begins.
Span ExpressionReader::since(const Mark& begin) const {
  Span span = begin.span;
  if (last_line_ == span.line && last_end_ > begin.offset)
    span.length = static_cast<std::int32_t>(last_end_ - begin.offset);
  return span;
}

ExprId ExpressionReader::expression() {
  refuse(refused_operators);
  if (token_.is("lambda")) return lambda();
  const ExprId value = binary(0);
  refuse(refused_operators);
  return value;
}

ExprId ExpressionReader::expressions() {
  const Mark begin = mark();
  const ExprId first = starred();
  if (!token_.is(",")) return first;
  std::vector<ExprId> items{first};
  while (accept(",")) {
    if (at_line_end() || token_.is("=") || token_.is(")") || token_.is("]") || token_.is(";")) break;
    items.push_back(starred());
  }
  return add(ExprKind::tuple, since(begin), items);
}

ExprId ExpressionReader::starred() {
  if (token_.is("*") || token_.is("**"))
    fail(ErrorCode::unsupported_syntax,
         "unpacking with " + quoted(token_.text) + " is not part of the epilogue language",
         "Name the values one by one.");
  return expression();
}

ExprId ExpressionReader::lambda() {
  const Nested nested(*this);
  const Mark begin = mark();
  advance();
  std::vector<ExprId> children;
  while (!token_.is(":")) {
    const Token name = expect_name("a parameter");
    children.push_back(add(ExprKind::name, name.span, {}, name.text));
    if (token_.is("=")) fail(ErrorCode::unsupported_syntax, "a combiner's parameters take no defaults");
    if (!token_.is(":")) expect(",", "between parameters");
  }
  advance();
  children.push_back(expression());
  return add(ExprKind::lambda, since(begin), children);
}

ExprId ExpressionReader::binary(int lowest) {
  const Mark begin = mark();
  ExprId left = unary();
  for (;;) {
    const BinaryOperator* row = token_.kind == TokenKind::symbol ? binary_operator(token_.text) : nullptr;
    if (row == nullptr || row->precedence < lowest) return left;
    const Token symbol = token_;
    if (row->precedence == comparison && at(left).kind == ExprKind::binary && !at(left).parenthesised &&
        info(at(left).op).rule == TypeRule::compare)
      fail(ErrorCode::unsupported_syntax, "comparisons cannot be chained",
           "Write (a < b) & (b < c); comparisons beside & and | need parentheses, as in Python.");
    advance();
    const ExprId right = binary(row->precedence + 1);
    left = add(ExprKind::binary, since(begin), {left, right}, symbol.text);
    at(left).op = row->op;
  }
}

ExprId ExpressionReader::unary() {
  refuse(refused_operators);
  const Mark begin = mark();
  for (const std::string_view sign : {"-", "+", "~"}) {
    if (!token_.is(sign)) continue;
    const Nested nested(*this);
    advance();
    const ExprId operand = unary();
    Expr& expr = at(operand);
    const Span span = since(begin);
    if (sign == "+") return operand;
    if (sign == "-" && !expr.parenthesised && (expr.kind == ExprKind::integer || expr.kind == ExprKind::real)) {
      expr.negative = !expr.negative;  // -1 is a literal
      expr.span = span;
      return operand;
    }
    const ExprId made = add(ExprKind::unary, span, {operand});
    at(made).op = sign == "-" ? Op::neg : Op::bit_not;
    return made;
  }
  return power();
}

ExprId ExpressionReader::power() {
  const Mark begin = mark();
  const ExprId base = postfix();
  if (!token_.is("**")) return base;
  const Nested nested(*this);
  advance();
  const ExprId exponent = unary();
  const ExprId made = add(ExprKind::binary, since(begin), {base, exponent}, "**");
  at(made).op = Op::pow;
  return made;
}

ExprId ExpressionReader::postfix() {
  const Mark begin = mark();
  ExprId value = primary();
  for (;;) {
    if (token_.is("(")) {
      value = call(value, begin);
    } else if (accept(".")) {
      const Token name = expect_name("an attribute");
      value = add(ExprKind::attribute, since(begin), {value}, name.text);
    } else if (token_.is("[")) {
      const Nested nested(*this);
      advance();
      if (token_.is(":")) slice();
      const ExprId index = expressions();
      if (token_.is(":")) slice();
      expect("]", "after an index");
      value = add(ExprKind::subscript, since(begin), {value, index});
    } else {
      return value;
    }
  }
}

void ExpressionReader::slice() const {
  fail(ErrorCode::unsupported_syntax, "slices are not part of the epilogue language",
       "Write chunk(x, k, group) for blocks of columns.");
}

ExprId ExpressionReader::call(ExprId callee, const Mark& begin) {
  const Nested nested(*this);
  expect("(", "in a call");
  std::vector<ExprId> children{callee};
  bool keywords = false;
  while (!token_.is(")")) {
    const Token first = token_;
    ExprId argument = starred();
    if (token_.is("=")) {
      if (at(argument).kind != ExprKind::name || at(argument).parenthesised)
        fail(ErrorCode::syntax, "only a name can stand before '=' in a call");
      advance();
      const ExprId value = expression();
      argument = add(ExprKind::keyword, first.span, {value}, first.text);
      keywords = true;
    } else if (keywords) {
      source_.fail(ErrorCode::syntax, at(argument).span, "an argument without a name follows one with a name",
                   "Put it first, or name it too.");
    }
    children.push_back(argument);
    if (!token_.is(")")) expect(",", "or ')' in a call");
  }
  advance();
  return add(ExprKind::call, since(begin), children);
}

ExprId ExpressionReader::primary() {
  const Token token = token_;
  switch (token.kind) {
    case TokenKind::name: advance(); return add(ExprKind::name, token.span, {}, token.text);
    case TokenKind::integer:
    case TokenKind::real: {
      advance();
      const ExprId made =
          add(token.kind == TokenKind::real ? ExprKind::real : ExprKind::integer, token.span, {}, token.text);
      if (token.kind == TokenKind::real) at(made).real = token.real;
      else at(made).magnitude = token.magnitude;
      return made;
    }
    case TokenKind::string: {
      advance();
      if (const char prefix = static_cast<char>(token.text[0] | 0x20); prefix == 'f' || prefix == 'b')
        source_.fail(ErrorCode::unsupported_syntax, token.span,
                     std::string(1, prefix) + "-strings are not part of the epilogue language",
                     "Strings name classes, dtypes and outputs only, and need no formatting.");
      if (token_.kind == TokenKind::string)
        fail(ErrorCode::unsupported_syntax, "strings side by side are not joined", "Write one string.");
      return add(ExprKind::string, token.span, {}, token.text);
    }
    case TokenKind::keyword:
      if (token.text == "True" || token.text == "False") {
        advance();
        const ExprId made = add(ExprKind::boolean, token.span, {}, token.text);
        at(made).magnitude = token.text == "True";
        return made;
      }
      if (token.text == "None") {
        advance();
        return add(ExprKind::none, token.span, {}, token.text);
      }
      break;
    case TokenKind::symbol:
      if (token.text == "(" || token.text == "[") return bracketed();
      if (token.text == "{") return dict();
      if (token.text == "...") fail(ErrorCode::unsupported_syntax, "`...` is not a value");
      break;
    default: break;
  }
  refuse(refused_statements);
  unexpected("a value");
}

ExprId ExpressionReader::bracketed() {
  const Nested nested(*this);
  const Mark begin = mark();
  const bool list = token_.is("[");
  const std::string_view close = list ? "]" : ")";
  advance();
  if (token_.is(close)) {
    advance();
    return add(ExprKind::tuple, since(begin));
  }
  ExprId inner = expressions();
  if (!token_.is(close)) {
    refuse(refused_operators);
    unexpected("',' or '" + std::string(close) + "'");
  }
  advance();
  const bool bare_tuple = at(inner).kind == ExprKind::tuple && !at(inner).parenthesised;
  if (list && !bare_tuple) inner = add(ExprKind::tuple, since(begin), {inner});
  at(inner).parenthesised = true;
  at(inner).span = since(begin);
  return inner;
}

ExprId ExpressionReader::dict() {
  const Nested nested(*this);
  const Mark begin = mark();
  advance();
  std::vector<ExprId> children;
  while (!token_.is("}")) {
    children.push_back(starred());
    if (!token_.is(":")) {
      refuse(refused_operators);
      if (token_.is(",") || token_.is("}"))
        fail(ErrorCode::unsupported_syntax, "sets are not part of the epilogue language",
             "Outputs are returned as {\"D\": d, \"amax\": amax}.");
      unexpected("':' after a name of an output");
    }
    advance();
    children.push_back(expression());
    if (!token_.is("}")) expect(",", "or '}' between outputs");
  }
  advance();
  return add(ExprKind::dict, since(begin), children);
}

}  // namespace postlude::inline v0::text
