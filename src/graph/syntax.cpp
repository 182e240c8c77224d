#include "graph/syntax.h"

#include "graph/refusals.h"

#include <algorithm>

namespace postlude::inline v0::text {

namespace {

struct BinaryOperator {
  std::string_view text;
  int precedence;  // Python's: higher binds tighter
  Op op;
};
constexpr int comparison = 1;
constexpr BinaryOperator binary_operators[] = {
    {"==", comparison, Op::eq}, {"!=", comparison, Op::ne}, {"<", comparison, Op::lt}, {"<=", comparison, Op::le},
    {">", comparison, Op::gt},  {">=", comparison, Op::ge}, {"|", 2, Op::bit_or},      {"&", 4, Op::bit_and},
    {"+", 6, Op::add},          {"-", 6, Op::sub},          {"*", 7, Op::mul},         {"/", 7, Op::div},
    {"//", 7, Op::floordiv},    {"%", 7, Op::call},  // the prelude's mod
};

const BinaryOperator* binary_operator(const Token& token) {
  if (token.kind != TokenKind::symbol) return nullptr;
  for (const BinaryOperator& row : binary_operators)
    if (row.text == token.text) return &row;
  return nullptr;
}

// One recursive descent: its functions call one another, hence one long class. Brackets bound its depth.
class Reader {
 public:
  Reader(const Source& source, const ParseLimits& limits) : source_(source), limits_(limits), lexer_(source, limits) {
    // More expressions than nodes are never of use, but those of functions that are not called count too.
    most_exprs_ = 2 * static_cast<std::size_t>(std::max(limits.nodes, 1)) + 1024;
    for (const std::string_view ours : {"post", "postlude"}) tree_.modules.insert(ours);
    advance();
  }

  Tree read_all() {
    while (token_.kind != TokenKind::end) module_statement();
    return std::move(tree_);
  }

  Tree read_one() {
    (void)expression();
    while (token_.kind == TokenKind::newline) advance();
    if (token_.kind != TokenKind::end) unexpected("the end of the expression");
    return std::move(tree_);
  }

 private:
  const Source& source_;
  const ParseLimits& limits_;
  Lexer lexer_;
  Token token_;
  std::size_t last_end_ = 0;
  std::int32_t last_line_ = 1;
  Tree tree_;
  int depth_ = 0;
  std::size_t most_exprs_ = 0;

  // Counts one level of nesting while it lives.
  struct Nested {
    Reader& reader;
    explicit Nested(Reader& r) : reader(r) {
      if (++reader.depth_ > reader.limits_.nesting)
        reader.fail(ErrorCode::text_limit,
                    "an expression is nested more than " + std::to_string(reader.limits_.nesting) + " deep",
                    "Give the inner expressions names on lines of their own.");
    }
    ~Nested() { --reader.depth_; }
  };

  [[noreturn]] void fail(ErrorCode code, std::string message, std::string hint = {}) const {
    source_.fail(code, token_.span, std::move(message), std::move(hint));
  }

  [[noreturn]] void unexpected(std::string_view wanted) const {
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

  template <std::size_t n>
  void refuse(const Refusal (&table)[n]) const {
    if (token_.kind != TokenKind::keyword && token_.kind != TokenKind::symbol) return;
    for (const Refusal& row : table)
      if (row.token == token_.text) fail(row.code, std::string(row.message), std::string(row.hint));
  }

  void advance() {
    last_end_ = token_.end;
    last_line_ = token_.span.line;
    token_ = lexer_.next();
  }

  bool accept(std::string_view text) {
    if (!token_.is(text)) return false;
    advance();
    return true;
  }

  void expect(std::string_view text, std::string_view where) {
    if (!accept(text)) unexpected("'" + std::string(text) + "' " + std::string(where));
  }

  Token expect_name(std::string_view what) {
    if (token_.kind == TokenKind::keyword)
      fail(ErrorCode::syntax, quoted(token_.text) + " is a keyword of Python and cannot name " + std::string(what));
    if (token_.kind != TokenKind::name) unexpected("the name of " + std::string(what));
    const Token name = token_;
    advance();
    return name;
  }

  ExprId add(ExprKind kind, const Span& span, std::span<const ExprId> children = {}, std::string_view text = {}) {
    if (tree_.exprs.size() >= most_exprs_)
      source_.fail(ErrorCode::text_limit, span,
                   "the text has more than " + std::to_string(most_exprs_) + " expressions");
    Expr expr{.kind = kind, .span = span, .text = text, .magnitude = 0};
    expr.first_child = static_cast<std::int32_t>(tree_.children.size());
    expr.children = static_cast<std::int32_t>(children.size());
    tree_.children.insert(tree_.children.end(), children.begin(), children.end());
    tree_.exprs.push_back(expr);
    return static_cast<ExprId>(tree_.exprs.size()) - 1;
  }
  ExprId add(ExprKind kind, const Span& span, std::initializer_list<ExprId> children, std::string_view text = {}) {
    return add(kind, span, std::span(children.begin(), children.size()), text);
  }
  Expr& at(ExprId id) { return tree_.exprs[static_cast<std::size_t>(id)]; }

  // The span of something that began at `begin` and ended with the last token: all of it if on one line, else the
  // rest of its first line is not claimed.
  Span since(const Span& begin, std::size_t begin_offset) const {
    Span span = begin;
    if (last_line_ == begin.line && last_end_ > begin_offset)
      span.length = static_cast<std::int32_t>(last_end_ - begin_offset);
    return span;
  }
  std::size_t offset() const { return token_.end - token_.text.size(); }

  // ---- expressions

  ExprId expression() {
    refuse(refused_operators);
    if (token_.is("lambda")) return lambda();
    const ExprId value = binary(0);
    refuse(refused_operators);
    return value;
  }

  // Also a tuple without parentheses.
  ExprId expressions() {
    const Span begin = token_.span;
    const std::size_t begin_offset = offset();
    const ExprId first = starred();
    if (!token_.is(",")) return first;
    std::vector<ExprId> items{first};
    while (accept(",")) {
      if (token_.kind == TokenKind::newline || token_.kind == TokenKind::end || token_.is("=") || token_.is(")") ||
          token_.is("]") || token_.is(";"))
        break;
      items.push_back(starred());
    }
    return add(ExprKind::tuple, since(begin, begin_offset), items);
  }

  ExprId starred() {
    if (token_.is("*") || token_.is("**"))
      fail(ErrorCode::unsupported_syntax,
           "unpacking with " + quoted(token_.text) + " is not part of the epilogue language",
           "Name the values one by one.");
    return expression();
  }

  ExprId lambda() {
    const Nested nested(*this);
    const Span begin = token_.span;
    const std::size_t begin_offset = offset();
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
    return add(ExprKind::lambda, since(begin, begin_offset), children);
  }

  ExprId binary(int lowest) {
    const Span begin = token_.span;
    const std::size_t begin_offset = offset();
    ExprId left = unary();
    for (;;) {
      const BinaryOperator* row = binary_operator(token_);
      if (row == nullptr || row->precedence < lowest) return left;
      const Token symbol = token_;
      if (row->precedence == comparison && at(left).kind == ExprKind::binary && !at(left).parenthesised &&
          info(at(left).op).rule == TypeRule::compare)
        fail(ErrorCode::unsupported_syntax, "comparisons cannot be chained",
             "Write (a < b) & (b < c); comparisons beside & and | need parentheses, as in Python.");
      advance();
      const ExprId right = binary(row->precedence + 1);
      left = add(ExprKind::binary, since(begin, begin_offset), {left, right}, symbol.text);
      at(left).op = row->op;
    }
  }

  ExprId unary() {
    refuse(refused_operators);
    const Span begin = token_.span;
    const std::size_t begin_offset = offset();
    for (const std::string_view sign : {"-", "+", "~"}) {
      if (!token_.is(sign)) continue;
      const Nested nested(*this);
      advance();
      const ExprId operand = unary();
      Expr& expr = at(operand);
      const Span span = since(begin, begin_offset);
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

  ExprId power() {
    const Span begin = token_.span;
    const std::size_t begin_offset = offset();
    const ExprId base = postfix();
    if (!token_.is("**")) return base;
    const Nested nested(*this);
    advance();
    const ExprId exponent = unary();
    const ExprId made = add(ExprKind::binary, since(begin, begin_offset), {base, exponent}, "**");
    at(made).op = Op::pow;
    return made;
  }

  ExprId postfix() {
    const Span begin = token_.span;
    const std::size_t begin_offset = offset();
    ExprId value = primary();
    for (;;) {
      if (token_.is("(")) {
        value = call(value, begin, begin_offset);
      } else if (accept(".")) {
        const Token name = expect_name("an attribute");
        value = add(ExprKind::attribute, since(begin, begin_offset), {value}, name.text);
      } else if (token_.is("[")) {
        const Nested nested(*this);
        advance();
        if (token_.is(":")) slice();
        const ExprId index = expressions();
        if (token_.is(":")) slice();
        expect("]", "after an index");
        value = add(ExprKind::subscript, since(begin, begin_offset), {value, index});
      } else {
        return value;
      }
    }
  }

  [[noreturn]] void slice() const {
    fail(ErrorCode::unsupported_syntax, "slices are not part of the epilogue language",
         "Write chunk(x, k, group) for blocks of columns.");
  }

  ExprId call(ExprId callee, const Span& begin, std::size_t begin_offset) {
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
    return add(ExprKind::call, since(begin, begin_offset), children);
  }

  ExprId primary() {
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

  ExprId bracketed() {
    const Nested nested(*this);
    const Span begin = token_.span;
    const std::size_t begin_offset = offset();
    const bool list = token_.is("[");
    const std::string_view close = list ? "]" : ")";
    advance();
    if (token_.is(close)) {
      advance();
      return add(ExprKind::tuple, since(begin, begin_offset));
    }
    ExprId inner = expressions();
    if (!token_.is(close)) {
      refuse(refused_operators);
      unexpected("',' or '" + std::string(close) + "'");
    }
    advance();
    const bool bare_tuple = at(inner).kind == ExprKind::tuple && !at(inner).parenthesised;
    if (list && !bare_tuple) inner = add(ExprKind::tuple, since(begin, begin_offset), {inner});
    at(inner).parenthesised = true;
    at(inner).span = since(begin, begin_offset);
    return inner;
  }

  ExprId dict() {
    const Nested nested(*this);
    const Span begin = token_.span;
    const std::size_t begin_offset = offset();
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
    return add(ExprKind::dict, since(begin, begin_offset), children);
  }

  // ---- statements

  void end_statement() {
    if (token_.kind == TokenKind::newline) {
      advance();
    } else if (token_.kind != TokenKind::end) {
      refuse(refused_operators);
      refuse(refused_statements);
      if (token_.kind == TokenKind::name || token_.kind == TokenKind::integer || token_.kind == TokenKind::real ||
          token_.kind == TokenKind::string)
        fail(ErrorCode::syntax, quoted(token_.text) + " follows without an operator");
      unexpected("the end of the line");
    }
  }

  void skip_line() {
    while (token_.kind != TokenKind::newline && token_.kind != TokenKind::end) advance();
    if (token_.kind == TokenKind::newline) advance();
  }

  void import() {
    bool ours = false;
    std::string_view name;
    const bool from = token_.is("from");
    advance();
    for (bool first = true; token_.kind != TokenKind::newline && token_.kind != TokenKind::end; advance()) {
      // `import a.b as c, d`: the names c and d; `import a.b`: a.
      if (from) continue;
      if (token_.is(",")) {
        first = true;
      } else if (token_.is("as")) {
        advance();
        name = token_.text;
        if (token_.kind == TokenKind::name) add_module(name, ours);
        if (token_.kind == TokenKind::newline || token_.kind == TokenKind::end) break;
      } else if (token_.kind == TokenKind::name && first) {
        first = false;
        ours = token_.text == "postlude";
        add_module(token_.text, ours);
      }
    }
    end_statement();
  }

  void add_module(std::string_view name, bool ours) {
    tree_.modules.insert(name);
    if (ours) tree_.foreign_modules.erase(name);
    else tree_.foreign_modules.insert(name);
  }

  // `if __name__ == "__main__":` and all that belongs to it: Python's part of a file that serves both.
  void skip_main() {
    advance();
    if (token_.kind != TokenKind::name || token_.text != "__name__")
      fail(ErrorCode::branch_on_value, "`if` is not part of the epilogue language",
           "Write where(condition, a, b) inside a def.");
    skip_line();
    if (token_.kind != TokenKind::indent) return;
    int depth = 0;
    do {
      depth += token_.kind == TokenKind::indent ? 1 : token_.kind == TokenKind::dedent ? -1 : 0;
      advance();
    } while (depth > 0 && token_.kind != TokenKind::end);
  }

  void module_statement() {
    switch (token_.kind) {
      case TokenKind::newline: advance(); return;
      case TokenKind::string:
        advance();
        end_statement();
        return;
      case TokenKind::indent: fail(ErrorCode::syntax, "this line is indented and nothing before it asks for that");
      default: break;
    }
    if (token_.is("import") || token_.is("from")) return import();
    if (token_.is("@")) return skip_line();
    if (token_.is("def")) {
      (void)def(false);
      return;
    }
    if (token_.is("if")) return skip_main();
    if (accept(";")) return;
    if (token_.is("pass") || token_.is("...")) {
      advance();
      return end_statement();
    }
    refuse(refused_statements);
    if (token_.is("return")) fail(ErrorCode::syntax, "`return` outside a def");
    std::vector<Statement> made;
    assignment(made);
    for (const Statement& statement : made) {
      if (at(statement.target).kind != ExprKind::name || statement.kind == Statement::Kind::augmented)
        source_.fail(ErrorCode::unsupported_syntax, statement.span, "only NAME = CONSTANT may stand outside a def",
                     "Put computations into a def.");
      tree_.constants.push_back(statement);
    }
    if (!accept(";")) end_statement();
  }

  // a = b = value, a: note = value, a += value; nothing for a docstring.
  void assignment(std::vector<Statement>& into) {
    const Span begin = token_.span;
    if (token_.kind == TokenKind::string) {
      advance();
      return;
    }
    const ExprId first = expressions();
    Statement statement{.kind = Statement::Kind::assign, .span = begin};
    if (token_.is("=")) {
      std::vector<ExprId> targets{first};
      while (accept("=")) targets.push_back(expressions());
      statement.value = targets.back();
      targets.pop_back();
      for (const ExprId target : targets) {
        check_target(target);
        statement.target = target;
        statement.span = at(target).span;
        into.push_back(statement);
      }
      return;
    }
    if (accept(":")) {
      if (at(first).kind != ExprKind::name)
        source_.fail(ErrorCode::syntax, at(first).span, "only a name can be annotated");
      statement.kind = Statement::Kind::annotated;
      statement.target = first;
      statement.annotation = expression();
      if (!accept("="))
        source_.fail(ErrorCode::unsupported_syntax, at(first).span,
                     quoted(at(first).text) + " is declared without a value",
                     "Write " + std::string(at(first).text.substr(0, 64)) + ": bf16 = ...");
      statement.value = expressions();
      into.push_back(statement);
      return;
    }
    if (token_.kind == TokenKind::symbol && token_.text.size() >= 2 && token_.text.back() == '=' &&
        token_.text != "==" && token_.text != "!=" && token_.text != "<=" && token_.text != ">=" &&
        token_.text != ":=") {
      const std::string_view symbol = token_.text.substr(0, token_.text.size() - 1);
      Op op = Op::pow;
      if (symbol != "**") {
        const auto row = std::find_if(std::begin(binary_operators), std::end(binary_operators),
                                      [&](const BinaryOperator& r) { return r.text == symbol; });
        if (row == std::end(binary_operators))
          fail(ErrorCode::unsupported_syntax, quoted(token_.text) + " is not part of the epilogue language");
        op = row->op;
      }
      if (at(first).kind != ExprKind::name)
        source_.fail(ErrorCode::unsupported_syntax, at(first).span, "only a name can be assigned to");
      advance();
      const ExprId right = expressions();
      const ExprId left = add(ExprKind::name, at(first).span, {}, at(first).text);
      statement.kind = Statement::Kind::augmented;
      statement.target = first;
      statement.value = add(ExprKind::binary, at(first).span, {left, right}, symbol);
      at(statement.value).op = op;
      into.push_back(statement);
      return;
    }
    refuse(refused_operators);
    source_.fail(ErrorCode::unsupported_syntax, at(first).span, "the value of this expression is not used",
                 depth_ > 0 ? "Assign it to a name, or return it."
                            : "Python's own part of the file goes under if __name__ == \"__main__\":");
  }

  void check_target(ExprId target) {
    std::vector<ExprId> open{target};
    while (!open.empty()) {
      const ExprId id = open.back();
      open.pop_back();
      const Expr& expr = at(id);
      if (expr.kind == ExprKind::name) continue;
      if (expr.kind != ExprKind::tuple)
        source_.fail(ErrorCode::unsupported_syntax, expr.span, "only names can be assigned to",
                     "Values are never changed in place; give the new one a name.");
      for (const ExprId child : tree_.of(expr)) open.push_back(child);
    }
  }

  std::int32_t def(bool nested) {
    const Nested level(*this);
    advance();
    const Token name = expect_name("a function");
    const auto index = static_cast<std::int32_t>(tree_.defs.size());
    tree_.defs.push_back({.name = name.text, .span = name.span, .nested = nested});
    Def made{.name = name.text, .span = name.span, .nested = nested};
    expect("(", "after the name of a function");
    while (!token_.is(")")) {
      if (token_.is("*") || token_.is("**") || token_.is("/"))
        fail(ErrorCode::unsupported_syntax,
             quoted(token_.text) + " among parameters is not part of the epilogue language", "Name every parameter.");
      const Token parameter = expect_name("a parameter");
      for (const Param& other : made.params)
        if (other.name == parameter.text)
          source_.fail(ErrorCode::duplicate_name, parameter.span, quoted(parameter.text) + " is already a parameter");
      Param param{.name = parameter.text, .span = parameter.span};
      if (accept(":")) param.annotation = expression();
      if (accept("=")) param.default_value = expression();
      made.params.push_back(param);
      if (!token_.is(")")) expect(",", "or ')' between parameters");
    }
    advance();
    if (accept("->")) (void)expression();
    expect(":", "after the parameters");
    made.first_expr = static_cast<ExprId>(tree_.exprs.size());
    if (token_.kind == TokenKind::newline) {
      while (token_.kind == TokenKind::newline) advance();
      if (token_.kind != TokenKind::indent)
        fail(ErrorCode::syntax, "the body of " + quoted(name.text) + " is missing", "Indent it below the def.");
      advance();
      for (bool first = true; token_.kind != TokenKind::dedent && token_.kind != TokenKind::end; first = false)
        statement(made, first);
      if (token_.kind == TokenKind::dedent) advance();
    } else {
      simple_statements(made, true);
    }
    made.last_expr = static_cast<ExprId>(tree_.exprs.size());
    tree_.defs[static_cast<std::size_t>(index)] = std::move(made);
    return index;
  }

  void statement(Def& into, bool first) {
    if (token_.kind == TokenKind::newline) return advance();
    if (token_.kind == TokenKind::indent)
      fail(ErrorCode::syntax, "this line is indented and nothing before it asks for that");
    if (token_.is("import") || token_.is("from")) return import();
    if (token_.is("@")) return skip_line();
    if (token_.is("def")) {
      const Span span = token_.span;
      const std::int32_t index = def(true);
      into.body.push_back({.kind = Statement::Kind::def, .span = span, .def = index});
      return;
    }
    simple_statements(into, first);
  }

  void simple_statements(Def& into, bool first) {
    for (;; first = false) {
      refuse(refused_statements);
      if (token_.is("pass") || token_.is("...")) {
        advance();
      } else if (token_.is("return")) {
        Statement statement{.kind = Statement::Kind::result, .span = token_.span};
        advance();
        if (token_.kind != TokenKind::newline && token_.kind != TokenKind::end && !token_.is(";"))
          statement.value = expressions();
        into.body.push_back(statement);
      } else {
        if (first && token_.kind == TokenKind::string) into.doc = string_value(token_.text);
        assignment(into.body);
      }
      if (!accept(";")) break;
      if (token_.kind == TokenKind::newline || token_.kind == TokenKind::end) break;
    }
    end_statement();
  }
};

}  // namespace

Tree read(const Source& source, const ParseLimits& limits) { return Reader(source, limits).read_all(); }

Tree read_expression(const Source& source, const ParseLimits& limits) { return Reader(source, limits).read_one(); }

}  // namespace postlude::inline v0::text
