// Elaboration gives a tree its meaning: it finds names, inlines or keeps helpers, and makes nodes.
//
// Names of values and names of functions live apart, so `max = max(x, axis=1)` is no riddle. A def
// of the text that is elementwise with one result stays a whole function, compiled once and called
// by nodes; the others (tuples, reductions, chunks, coordinates, defs inside defs) are inlined
// where they are called.
#pragma once

#include "graph/ir/builder.h"
#include "graph/text/syntax.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace postlude::inline v0::text {

// The result of an expression: a value, a tuple, or the results of a chunk or a general reduction,
// of which a node is made only when one is taken.
struct Meaning {
  enum class Kind : std::uint8_t { value, tuple, pieces } kind = Kind::value;
  const BuilderState* owner = nullptr;
  NodeId node = -1;  // the value, or the one that the pieces are of
  Op op = Op::get;   // pieces: chunk or get
  std::int32_t count = 0;
  std::int64_t group = 0;
  int depth = 0;  // of tuples in tuples
  std::shared_ptr<const std::vector<Meaning>> meanings{};
};

struct Variable {
  Meaning meaning{};
  std::optional<DType> dtype{};  // as annotated
  std::optional<Axes> axes{};
};

struct Scope {
  Scope* outer = nullptr;  // of a def or lambda inside another
  std::unordered_map<std::string_view, Variable> values{};
  std::unordered_map<std::string_view, std::int32_t> defs{};
};

class Elaborator {
 public:
  using Lookup = std::function<std::shared_ptr<const Function>(std::string_view)>;

  // `prelude`: the defs are the prelude's own.
  Elaborator(const Source& source, const Tree& tree, const ParseLimits& limits, Lookup lookup, bool prelude = false);

  [[nodiscard]] Graph epilogue(std::string_view name);
  // Compiles all defs, each of which must be elementwise with one result.
  [[nodiscard]] std::vector<std::shared_ptr<const Function>> all_functions();
  // The tree's only expression, as a body over parameters of these names.
  [[nodiscard]] Lambda expression(const std::vector<std::string>& parameters);

 private:
  struct Callee {
    enum class Kind : std::uint8_t { op, reduction, function, def } kind = Kind::op;
    Op op = Op::add;
    ReduceOp reduction = ReduceOp::sum;
    std::shared_ptr<const Function> function{};
    std::int32_t def = -1;
    Scope* closure = nullptr;
    std::string_view name{};
  };
  // One level of evaluation while it lives. The reader limits brackets, and inlined calls add up;
  // together they fit on a thread's stack.
  struct Nesting {
    Elaborator& elaborator;
    Nesting(Elaborator& e, const Expr& expr);
    ~Nesting() { --elaborator.depth_; }
  };
  struct Annotation {
    std::optional<Axes> axes;
    std::optional<DType> dtype;
  };

  const Source& source_;
  const Tree& tree_;
  const ParseLimits& limits_;
  Lookup lookup_;
  bool prelude_;
  BuilderState* state_ = nullptr;
  std::unordered_map<std::string_view, std::int32_t> module_defs_;
  std::unordered_map<std::string_view, std::optional<Literal>> module_constants_;
  std::unordered_map<std::int32_t, std::shared_ptr<const Function>> functions_;  // of defs that stay whole
  // What the texts of a def's derivatives read as.
  struct Derivative {
    Source source;
    Tree tree;
  };
  std::unordered_map<std::int32_t, std::vector<std::unique_ptr<const Derivative>>> derivatives_;
  std::vector<std::int32_t> active_;  // defs being elaborated, the outermost first
  int depth_ = 0;
  std::size_t steps_ = 0;

  // elaborator.cpp: defs, statements, outputs
  [[nodiscard]] const Def& def(std::int32_t index) const { return tree_.defs[static_cast<std::size_t>(index)]; }
  [[nodiscard]] std::vector<std::pair<std::int32_t, Span>> calls_of(std::int32_t def);
  void read_derivatives(std::int32_t def);
  [[noreturn]] void refuse_derivatives(std::int32_t def) const;
  [[nodiscard]] std::vector<Lambda> derivatives_of(std::int32_t def, const Function& function) const;
  void prepare(std::int32_t root);
  [[nodiscard]] bool stays_whole(std::int32_t def);
  void compile(std::int32_t def);
  [[nodiscard]] Literal default_of(const Param& param);
  ExprId run(const Def& def, Scope& scope);
  void assign(ExprId target, const Meaning& meaning, Scope& scope, const Annotation& annotation = {});
  void parameters(const Def& def, Scope& scope);
  void outputs(const Def& def, const Span& place, ExprId result, Scope& scope);
  void output(std::string_view name, const Meaning& meaning, const Expr& expr, const Scope& scope);
  [[nodiscard]] Annotation annotation(ExprId id) const;
  static std::string meant_dtype(std::string_view word, std::vector<std::string> others = {});
  void annotate(Annotation& into, std::string_view word, const Span& span) const;

  // expressions.cpp: values
  Meaning eval(ExprId id, Scope& scope);
  NodeId value(ExprId id, Scope& scope);
  NodeId node_of(const Meaning& meaning, const Expr& expr);
  Meaning meaning(NodeId node) const;
  Meaning take(const Meaning& tuple, std::int64_t index, const Expr& expr);
  [[nodiscard]] static std::int64_t size_of(const Meaning& meaning);
  Meaning named(const Expr& expr, Scope& scope);
  Meaning binary(ExprId id, Scope& scope);
  [[nodiscard]] const Variable* find(std::string_view name, const Scope& scope) const;
  [[nodiscard]] std::optional<Literal> constant(ExprId id, const Scope* scope) const;
  [[nodiscard]] std::optional<Literal> constant_leaf(const Expr& expr, const Scope* scope) const;
  [[nodiscard]] bool is_module(ExprId id) const;
  [[noreturn]] void undefined(const Expr& expr, const Scope& scope) const;

  // calls.cpp: calls
  Meaning call(const Expr& expr, Scope& scope);
  Meaning call_op(const Expr& expr, const Callee& callee, Scope& scope);
  Meaning call_min_max(const Expr& expr, const Callee& callee, Scope& scope);
  Meaning call_reduction(const Expr& expr, ReduceOp op, Scope& scope);
  Meaning call_reduce(const Expr& expr, Scope& scope);
  Meaning call_cast(const Expr& expr, Scope& scope);
  Meaning call_random(const Expr& expr, Scope& scope);
  Meaning call_chunk(const Expr& expr, Scope& scope);
  Meaning call_concat(const Expr& expr, Scope& scope);
  Meaning call_repeat(const Expr& expr, Scope& scope);
  Meaning call_function(const Expr& expr, const std::shared_ptr<const Function>& function, Scope& scope);
  Meaning call_def(const Expr& expr, const Callee& callee, Scope& scope);
  Meaning inlined(std::int32_t def, const Span& place, const std::vector<Meaning>& arguments, Scope* closure);
  [[nodiscard]] std::shared_ptr<const Lambda> combiner(ExprId id, std::size_t values, Scope& scope);
  [[nodiscard]] Callee resolve(ExprId callee, Scope& scope) const;
  [[nodiscard]] std::optional<Callee> library(std::string_view name) const;
  [[nodiscard]] std::vector<ExprId> arguments(const Expr& call, std::string_view function,
                                              const std::vector<std::string_view>& names, std::size_t required) const;
  [[nodiscard]] Axes axes(ExprId id, const Scope& scope) const;
  [[nodiscard]] Axes reduced_axes(const Expr& call, ExprId axis, ExprId batch, const Scope& scope) const;
  [[nodiscard]] std::int64_t integer(ExprId id, std::string_view what, const Scope& scope) const;
  [[nodiscard]] std::uint64_t seed(ExprId id, const Scope& scope) const;
  [[nodiscard]] std::int64_t group(ExprId id, const Scope& scope) const;
  [[nodiscard]] DType dtype(ExprId id) const;
  [[nodiscard]] std::string_view last_word(ExprId id) const;  // of a name, a module's attribute or a string
};

}  // namespace postlude::inline v0::text
