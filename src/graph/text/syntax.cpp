#include "graph/text/syntax.h"

#include "graph/text/expression_reader.h"
#include "graph/text/refusals.h"

#include <string_view>
#include <unordered_set>
#include <utility>

namespace postlude::inline v0::text {
namespace {

class StatementReader : private ExpressionReader {
 public:
  using ExpressionReader::ExpressionReader;

  Tree read() {
    while (token_.kind != TokenKind::end) module_statement();
    return std::move(tree_);
  }

 private:
  std::vector<ExprId> derivatives_;  // of the def that follows

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
    while (!at_line_end()) advance();
    if (token_.kind == TokenKind::newline) advance();
  }

  void import() {
    bool ours = false;
    std::string_view name;
    const bool from = token_.is("from");
    advance();
    for (bool first = true; !at_line_end(); advance()) {
      // `import a.b as c, d`: the names c and d; `import a.b`: a.
      if (from) continue;
      if (token_.is(",")) {
        first = true;
      } else if (token_.is("as")) {
        advance();
        name = token_.text;
        if (token_.kind == TokenKind::name) add_module(name, ours);
        if (at_line_end()) break;
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

  // Skips `if __name__ == "__main__":` and its block, Python's part of a file that serves both.
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

  // Of decorators, only @function(derivative="...") says something in the language.
  void decorator() {
    advance();
    std::string_view last;
    for (; token_.kind == TokenKind::name || token_.is("."); advance()) last = token_.text;
    if (last != "function" || !token_.is("(")) return skip_line();
    for (int depth = 0; !at_line_end();) {
      const bool derivative = depth == 1 && token_.kind == TokenKind::name && token_.text == "derivative";
      depth += token_.is("(") || token_.is("[") || token_.is("{") ? 1 : 0;
      depth -= token_.is(")") || token_.is("]") || token_.is("}") ? 1 : 0;
      advance();
      if (derivative && accept("=")) derivatives(expression());
    }
    end_statement();
  }

  void derivatives(ExprId given) {
    if (at(given).kind != ExprKind::tuple) derivatives_ = {given};
    else derivatives_.assign(tree_.of(at(given)).begin(), tree_.of(at(given)).end());
    for (const ExprId each : derivatives_)
      if (at(each).kind != ExprKind::string)
        source_.fail(ErrorCode::bad_function, at(each).span, "a derivative is an expression in a string",
                     "Write derivative=\"1 - tanh(x) ** 2\", or (\"y\", \"x\") for two arguments.");
  }

  void module_statement() {
    switch (token_.kind) {
      case TokenKind::newline: advance(); return;
      case TokenKind::string:
        advance();
        end_statement();
        return;
      case TokenKind::indent: unexpected("a statement");
      default: break;
    }
    if (token_.is("import") || token_.is("from")) return import();
    if (token_.is("@")) return decorator();
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

  // Reads a = b = value, a: note = value or a += value. A docstring gives no statement.
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
    if (is_augmented()) {
      const std::string_view symbol = token_.text.substr(0, token_.text.size() - 1);
      const BinaryOperator* row = binary_operator(symbol);
      if (row == nullptr)
        fail(ErrorCode::unsupported_syntax, quoted(token_.text) + " is not part of the epilogue language");
      if (at(first).kind != ExprKind::name)
        source_.fail(ErrorCode::unsupported_syntax, at(first).span, "only a name can be assigned to");
      advance();
      const ExprId right = expressions();
      const ExprId left = add(ExprKind::name, at(first).span, {}, at(first).text);
      statement.kind = Statement::Kind::augmented;
      statement.target = first;
      statement.value = add(ExprKind::binary, at(first).span, {left, right}, symbol);
      at(statement.value).op = row->op;
      into.push_back(statement);
      return;
    }
    refuse(refused_operators);
    if (depth_ == 0 && at(first).kind == ExprKind::name && token_.kind == TokenKind::name)
      source_.fail(ErrorCode::syntax, at(first).span, quoted(at(first).text) + " begins no statement",
                   "A function begins with def: def NAME(acc, ...):");
    const bool prints = at(first).kind == ExprKind::call && at(tree_.child(at(first))).text == "print";
    source_.fail(ErrorCode::unsupported_syntax, at(first).span, "the value of this expression is not used",
                 depth_ == 0 ? "Python's own part of the file goes under if __name__ == \"__main__\":"
                 : prints    ? std::string(synonym("print"))
                             : "Assign it to a name, or return it.");
  }

  // An augmented assignment has "+=" or the like.
  [[nodiscard]] bool is_augmented() const {
    return token_.kind == TokenKind::symbol && token_.text.size() >= 2 && token_.text.back() == '=' &&
           token_.text != ":=" && binary_operator(token_.text) == nullptr;
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
    if (nested && !derivatives_.empty())
      source_.fail(ErrorCode::bad_function, name.span, "derivative= belongs to a def that stands in no other",
                   "Write " + quoted(name.text) + " before the def that uses it.");
    Def made{.name = name.text, .span = name.span, .derivatives = std::exchange(derivatives_, {}), .nested = nested};
    expect("(", "after the name of a function");
    std::unordered_set<std::string_view> parameters;
    while (!token_.is(")")) {
      if (token_.is("*") || token_.is("**") || token_.is("/"))
        fail(ErrorCode::unsupported_syntax,
             quoted(token_.text) + " among parameters is not part of the epilogue language", "Name every parameter.");
      const Token parameter = expect_name("a parameter");
      if (!parameters.insert(parameter.text).second)
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
    if (token_.kind == TokenKind::indent) unexpected("a statement");
    if (token_.is("import") || token_.is("from")) return import();
    if (token_.is("@")) return decorator();
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
        if (!at_line_end() && !token_.is(";")) statement.value = expressions();
        into.body.push_back(statement);
      } else {
        if (first && token_.kind == TokenKind::string) into.doc = string_value(token_.text);
        assignment(into.body);
      }
      if (!accept(";")) break;
      if (at_line_end()) break;
    }
    end_statement();
  }
};

}  // namespace

Tree read(const Source& source, const ParseLimits& limits) { return StatementReader(source, limits).read(); }

Tree read_expression(const Source& source, const ParseLimits& limits) {
  return ExpressionReader(source, limits).read_expression();
}

}  // namespace postlude::inline v0::text
