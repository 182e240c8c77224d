// The tree that a text is read into. It has the form of the text, not yet its meaning.
#pragma once

#include "graph/ir/ops.h"
#include "graph/text/lexer.h"

#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

namespace postlude::inline v0::text {

using ExprId = std::int32_t;
inline constexpr ExprId no_expr = -1;

enum class ExprKind : std::uint8_t {
  name,       // text
  integer,    // magnitude, negative
  real,       // real
  boolean,    // magnitude
  string,     // text, the token
  none,       // None
  tuple,      // children, also of [lists]
  dict,       // key, value, key, value, ...
  unary,      // op; child
  binary,     // op, or text "%"; left, right
  call,       // callee, arguments, keywords last
  keyword,    // text = child, inside a call
  attribute,  // child . text
  subscript,  // child [ index ]
  lambda,     // parameters (names), body
};

struct Expr {
  ExprKind kind;
  bool parenthesised = false;
  bool negative = false;
  Op op = Op::constant;
  Span span{};
  std::int32_t first_child = 0;
  std::int32_t children = 0;
  std::string_view text{};
  union {
    std::uint64_t magnitude;
    double real;
  };
};

struct Def;

struct Statement {
  enum class Kind : std::uint8_t { assign, annotated, augmented, result, def } kind;
  Span span{};
  ExprId target = no_expr;      // a name, or (assign) a tuple of names and tuples
  ExprId annotation = no_expr;  // annotated
  ExprId value = no_expr;       // of an augmented one, the whole of `a + b`
  std::int32_t def = -1;        // def: index in Tree::defs
};

struct Param {
  std::string_view name;
  Span span{};
  ExprId annotation = no_expr;
  ExprId default_value = no_expr;
};

struct Def {
  std::string_view name;
  Span span{};  // of the name
  std::vector<Param> params{};
  std::string doc{};
  std::vector<ExprId> derivatives{};  // strings, of @function(derivative=...)
  std::vector<Statement> body{};
  ExprId first_expr = 0, last_expr = 0;  // the expressions of its body
  bool nested = false;
};

// A whole text.
struct Tree {
  std::vector<Expr> exprs;
  std::vector<ExprId> children;
  std::vector<Def> defs;                                 // in the order of their first lines
  std::vector<Statement> constants;                      // assignments of the module
  std::unordered_set<std::string_view> modules;          // names that stand for a module
  std::unordered_set<std::string_view> foreign_modules;  // of these, those of other libraries

  [[nodiscard]] const Expr& operator[](ExprId id) const { return exprs[static_cast<std::size_t>(id)]; }
  [[nodiscard]] std::span<const ExprId> of(const Expr& expr) const {
    return std::span(children).subspan(static_cast<std::size_t>(expr.first_child),
                                       static_cast<std::size_t>(expr.children));
  }
  [[nodiscard]] ExprId child(const Expr& expr, int i = 0) const {
    return children[static_cast<std::size_t>(expr.first_child + i)];
  }
};

// Reads a text. Throws syntax, unsupported_syntax, branch_on_value and text_limit.
[[nodiscard]] Tree read(const Source& source, const ParseLimits& limits);

// Reads one expression, all of the text.
[[nodiscard]] Tree read_expression(const Source& source, const ParseLimits& limits);

}  // namespace postlude::inline v0::text
