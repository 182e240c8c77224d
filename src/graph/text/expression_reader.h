// Tokens to expressions: one recursive descent, whose depth brackets bound. Statements are
// syntax.cpp's.
#pragma once

#include "graph/text/syntax.h"

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace postlude::inline v0::text {

struct Refusal;

struct BinaryOperator {
  std::string_view text;
  int precedence;  // Python's: higher binds tighter
  Op op;
};
// The operator that is written so, or null.
[[nodiscard]] const BinaryOperator* binary_operator(std::string_view text);

class ExpressionReader {
 public:
  ExpressionReader(const Source& source, const ParseLimits& limits);

  // Reads all of the text as one expression.
  Tree read_expression();

 protected:
  const Source& source_;
  Token token_;  // the next one
  Tree tree_;
  int depth_ = 0;

  // Counts one level of nesting while it lives.
  struct Nested {
    ExpressionReader& reader;
    explicit Nested(ExpressionReader& r);
    Nested(const Nested&) = delete;
    ~Nested() { --reader.depth_; }
  };

  [[noreturn]] void fail(ErrorCode code, std::string message, std::string hint = {}) const {
    source_.fail(code, token_.span, std::move(message), std::move(hint));
  }
  [[noreturn]] void unexpected(std::string_view wanted) const;
  void refuse(std::span<const Refusal> table) const;

  void advance();
  bool accept(std::string_view text);
  void expect(std::string_view text, std::string_view where);
  Token expect_name(std::string_view what);
  [[nodiscard]] bool at_line_end() const { return token_.kind == TokenKind::newline || token_.kind == TokenKind::end; }

  ExprId add(ExprKind kind, const Span& span, std::span<const ExprId> children = {}, std::string_view text = {});
  ExprId add(ExprKind kind, const Span& span, std::initializer_list<ExprId> children, std::string_view text = {}) {
    return add(kind, span, std::span(children.begin(), children.size()), text);
  }
  Expr& at(ExprId id) { return tree_.exprs[static_cast<std::size_t>(id)]; }

  ExprId expression();
  ExprId expressions();  // also a tuple without parentheses

 private:
  // The place where an expression begins.
  struct Mark {
    Span span;
    std::size_t offset;
  };
  [[nodiscard]] Mark mark() const { return {token_.span, token_.end - token_.text.size()}; }
  [[nodiscard]] Span since(const Mark& begin) const;

  ExprId starred();
  ExprId lambda();
  ExprId binary(int lowest);
  ExprId unary();
  ExprId power();
  ExprId postfix();
  [[noreturn]] void slice() const;
  ExprId call(ExprId callee, const Mark& begin);
  ExprId primary();
  ExprId bracketed();
  ExprId dict();

  const ParseLimits& limits_;
  Lexer lexer_;
  std::size_t last_end_ = 0;
  std::int32_t last_line_ = 1;
  std::size_t most_exprs_ = 0;
};

}  // namespace postlude::inline v0::text
