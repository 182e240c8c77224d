// The nodes behind te.h: expressions are immutable trees that share their parts.
#pragma once

#include "graph/ir/ir.h"

#include <postlude/te.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace postlude::inline v0::te {

using AxisPtr = std::shared_ptr<const AxisNode>;
using OperationPtr = std::shared_ptr<OperationNode>;
using ReducerPtr = std::shared_ptr<const ReducerNode>;

// A variable: a size, or what a loop counts.
struct AxisNode {
  enum class Kind : std::uint8_t { size, data, reduce, thread };
  std::string name;
  Kind kind = Kind::data;
  Expr begin{}, extent{};  // of data and reduce axes
  std::string tag{};       // of thread axes
};

struct Reduction {
  ReducerPtr reducer;
  std::vector<Expr> sources;
  std::vector<AxisPtr> axes;
  Expr where;  // elements without it are left out; empty: all
};

struct ExprNode {
  enum class Kind : std::uint8_t { constant, axis, read, operation, reduce };
  Kind kind = Kind::constant;
  DType type = DType::f32;
  Literal value{};        // constant
  bool literal = false;   // constant: takes the other side's type
  AxisPtr axis{};         // axis
  OperationPtr tensor{};  // read
  int component = 0;      // read, reduce
  Op op = Op::constant;   // operation: elementwise
  DType dtype = DType::f32;
  Round round = Round::nearest_even;  // cast
  std::vector<Expr> args{};           // operation: arguments, of the types it takes; read: indices, i64
  std::uint64_t seed = 0;             // random, whose arguments are its row and its column
  std::uint32_t random_stream = 0;
  std::shared_ptr<const Reduction> reduction{};
  std::uint32_t parts = 1, depth = 1;  // as a tree, without what a reduction reduces
};

// What reducers are known for: the strips of a CPU have code of their own for these.
enum class Known : std::uint8_t { none, sum, prod, min, max, any, all, argmax, argmin };

// What may be done to a reduction besides what its nest says: a reducer is taken apart if it associates and its
// identity changes nothing, and in another order if it commutes.
struct Freedom {
  bool commutes = true, associates = true, has_identity = true;  // of positive numbers
  bool everywhere = true;                                        // so too of others, NaN and infinities
  bool is_left_alone = true;                                     // whatever it is, by the identity
};

struct ReducerNode {
  std::string name;
  Known known = Known::none;
  Reducer::Combine combine;
  Reducer::Identity identity;
  Freedom free{};  // of the types that it reduces
};

// The values of a reduction.
[[nodiscard]] std::vector<Expr> components(Reduction reduction);

// The identity for these types, as constants of them. Throws bad_combiner where it is none.
[[nodiscard]] std::vector<Expr> identity_of(const ReducerNode& reducer, const std::vector<DType>& types);

// An epilogue behind a stage: what made other stages.
struct Followed {
  Graph graph;
  Tensor accumulator;
  std::vector<std::pair<std::string, Tensor>> operands;
  std::vector<std::pair<Expr, std::int64_t>> divisible;      // extents, and what has to divide them
  std::vector<std::pair<Tensor, std::vector<Expr>>> shapes;  // that operands have to have
  std::size_t column = 1;                                    // which of the accumulator's axes the columns are
  std::vector<std::pair<std::string, v0::Axes>> axes;        // of operands and outputs
};

// Stages of a schedule, and one behind another: what walks them takes the square of the time, or recursion.
constexpr std::uint32_t most_stages = 4096;
[[noreturn]] void refuse_more_stages();
[[noreturn]] void refuse_rank(const std::string& name, std::size_t axes);  // of an array

struct OperationNode {
  std::shared_ptr<const Followed> followed{};  // of its outputs
  std::string name;
  std::vector<Expr> shape;
  std::vector<AxisPtr> axes;
  std::vector<AxisPtr> reduce_axes;
  std::vector<Expr> body;  // a component each; of a placeholder none
  std::vector<DType> dtypes;
  std::uint32_t depth = 0;  // stages, itself among them, that lie one behind another
  bool is_within = false;   // its indices are within where what followed_by made of an epilogue is satisfied
  [[nodiscard]] bool is_placeholder() const { return body.empty(); }
  [[nodiscard]] const Reduction* reduction() const {
    return !body.empty() && body[0]->kind == ExprNode::Kind::reduce ? body[0]->reduction.get() : nullptr;
  }
};

[[nodiscard]] Expr made(ExprNode node);  // an expression, of which no more than the language bounds
[[nodiscard]] Expr constant(const Literal& value, bool literal = false);
[[nodiscard]] Expr axis_value(const AxisPtr& axis);
[[nodiscard]] Expr operation(Op op, std::vector<Expr> args, DType dtype = DType::f32,
                             Round round = Round::nearest_even);
[[nodiscard]] Expr converted(const Expr& x, DType type);
// The uniform number in [0, 1) of these coordinates; x rounded up or down by one.
[[nodiscard]] Expr random_at(std::uint64_t seed, std::uint32_t stream, const Expr& row, const Expr& column);
[[nodiscard]] Expr rounded_by(const Expr& x, DType dtype, const Expr& random);
[[nodiscard]] Expr both(const Expr& a, const Expr& b);  // a & b, where an empty one holds
[[nodiscard]] AxisPtr make_axis(std::string name, AxisNode::Kind kind, const Expr& extent, const Expr& begin = {});

using Substitution = std::unordered_map<const AxisNode*, Expr>;
// Replaces axes, then reads: `read` gets each with its new indices (a null function leaves them).
using Reading = std::function<Expr(const ExprNode& read, std::vector<Expr> indices)>;
[[nodiscard]] Expr substitute(const Expr& x, const Substitution& axes, const Reading& read = {});
// The nodes that an expression is made of, each once and behind its arguments, those of a reduction too. What is walked
// so does not overflow the stack of a small thread, as recursion would. Nodes that are not to be entered are walked
// whole.
[[nodiscard]] std::vector<const Expr*> parts(const Expr& x, const std::function<bool(const ExprNode&)>& enters = {});
// Calls visit(node) once for each node, arguments first; those of a reduction too.
void visit(const Expr& x, const std::function<void(const ExprNode&)>& visitor);
// Whether it is more than sizes and loops say: it reads a tensor, or is made of real numbers, random ones too.
[[nodiscard]] bool is_computed(const Expr& x);

// An integer expression as a sum of products, in which equal terms meet: k.outer*16 + k.inner. An
// atom is an axis, a size, or what is no sum or product (a quotient, a minimum, a read).
struct Polynomial {
  struct Term {
    std::vector<Expr> atoms;  // in one order
    std::int64_t factor = 0;
  };
  std::vector<Term> terms;  // without a constant one
  std::int64_t constant = 0;
  [[nodiscard]] bool is_constant() const { return terms.empty(); }
};
using Sizes = std::unordered_map<const AxisNode*, std::int64_t>;
[[nodiscard]] Polynomial polynomial(const Expr& x, const Sizes* sizes = nullptr);
[[nodiscard]] Expr expression(const Polynomial& p);
[[nodiscard]] Expr simplified(const Expr& x);
[[nodiscard]] Expr tidied(const Expr& x);               // with every index and comparison in it simplified
[[nodiscard]] bool same(const Expr& a, const Expr& b);  // equal as polynomials
[[nodiscard]] bool equal(const ExprNode& a, const ExprNode& b);
// Of an integer or boolean expression in sizes and known axes.
[[nodiscard]] std::int64_t evaluate(const Expr& x, const Sizes& sizes);
// What is thrown of a size that no argument has as an extent by itself.
[[nodiscard]] Error untold(const AxisNode& size);

[[nodiscard]] std::string print(const Expr& x);

}  // namespace postlude::inline v0::te
