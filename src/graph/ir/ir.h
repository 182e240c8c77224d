// The graph's nodes: one flat vector in topological order. An argument's id is smaller than its
// user's, so a pass is a loop and nothing recurses in the depth of a graph.
#pragma once

#include "graph/ir/ops.h"

#include <postlude/function.h>
#include <postlude/graph.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace postlude::inline v0 {

using NodeId = std::int32_t;

// An extent as a function of the problem's M or N: times * ceil(base / over) (decision 0003). A
// chunk makes N/k and promises that k divides N (checked when shapes are known), so such extents
// are exact and simplify; a grouped reduction makes ceil(N/g), which does not.
struct Extent {
  std::int64_t times = 1;
  std::int64_t over = 1;
  bool exact = true;

  [[nodiscard]] std::int64_t at(std::int64_t base) const { return times * ((base + over - 1) / over); }
  bool operator==(const Extent&) const = default;
};

// A literal. In the graph `type` says how it was written (f32, i64 or boolean); an f32 or i64
// literal yields to the type of the other side.
struct Literal {
  DType type = DType::f32;
  double real = 0;           // of f32
  std::int64_t integer = 0;  // of i64, and 0 or 1 of boolean
  [[nodiscard]] double value() const { return type == DType::f32 ? real : static_cast<double>(integer); }
};

struct Lambda;

struct Node {
  Op op = Op::constant;
  std::vector<NodeId> args{};

  // The attributes. The op says which are used.
  Literal literal{};        // constant
  std::int32_t index = 0;   // operand: which; chunk: which piece; get: which result; parameter: which
  std::int32_t pieces = 0;  // chunk: k
  std::int64_t group = 0;   // chunk, concat, reduce: 0 is the whole axis; repeat
  Axes axes{};              // reduce: the reduced axes, b among them; repeat: n or m
  ReduceOp reduction = ReduceOp::sum;
  DType dtype = DType::f32;                    // cast
  Round round = Round::nearest_even;           // cast
  std::uint64_t seed = 0;                      // random; cast with Round::stochastic
  std::uint32_t random_stream = 0;             // random
  std::shared_ptr<const Function> function{};  // call
  std::shared_ptr<const Lambda> combine{};     // reduce with ReduceOp::custom: 2k parameters, k results
  std::vector<double> identity{};              // reduce with ReduceOp::custom

  Span span{};         // of the expression in GraphData::text, or a user's Python line
  std::string name{};  // the user's name for it, for printing and messages; may be empty
};

// A body without axes: elementwise nodes, constants and parameters. Functions and combiners have
// one.
struct Lambda {
  std::int32_t parameters = 0;
  std::vector<Node> nodes;
  std::vector<NodeId> results;
};

// A named elementwise function. Defined by `body` in the language, by `native`, or both.
struct Function {
  struct Parameter {
    std::string name{};
    std::optional<Literal> default_value{};
  };
  std::string name;
  std::vector<Parameter> parameters;  // arguments, then the native run-time parameters
  Lambda body;                        // one result; no nodes where `native` alone defines it
  std::shared_ptr<const NativeFunction> native;
  std::shared_ptr<const Lambda> guard;  // NativeFunction::guard, parsed: of all parameters; one boolean result
  // By each argument (a parameter without a default; of a native function, its first `arity`), of all parameters; one
  // result each. Empty: none were given.
  std::vector<Lambda> derivatives;
  std::string doc;
  std::string text;  // as it is printed before an epilogue that uses it; empty for the prelude's
  bool prelude = false;

  ~Function();  // functions.cpp: not recursive in a chain of functions
};

struct OperandDecl {
  std::string name{};
  Axes axes{};  // of {m, n}
  std::optional<DType> dtype{};
  Span span{};
};

struct OutputDecl {
  std::string name{};
  NodeId value = -1;
  std::optional<DType> dtype{};
  std::optional<Axes> axes{};  // as declared, if it was
  Span span{};
};

struct GraphData {
  std::string name;
  std::vector<Node> nodes;
  std::vector<OperandDecl> operands;
  std::vector<OutputDecl> outputs;
  // For errors: where the text came from. `text` is null for a graph made by the builder, whose
  // lines are in `places`.
  std::string file;
  std::shared_ptr<const std::string> text;
  std::vector<std::pair<Span, Location>> places;
};

// Where a node's span lies, with the line of text.
[[nodiscard]] Location locate(const GraphData& graph, const Span& span);

// A function by name: the user's, else the prelude's, else null.
[[nodiscard]] std::shared_ptr<const Function> find_function(std::string_view name);

}  // namespace postlude::inline v0
