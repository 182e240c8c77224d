// Reductions described as expressions, scheduled by hand as loops, and run on a CPU or a GPU.
//
//   using namespace postlude;
//   te::Expr n = te::var("n"), m = te::var("m");
//   te::Tensor A = te::placeholder({n, m}, "A");
//   te::Axis k = te::reduce_axis(0, m, "k");
//   te::Tensor B = te::compute({n}, [&](const te::Axes& i) { return te::sum(A(i[0], k), {k}); }, "B");
//   te::Schedule s = te::create_schedule(B);
//   auto [ko, ki] = s[B].split(k, 16);
//   std::cout << te::lower(s, {A, B});
//   te::build(s, {A, B})({a, b});
//
// Sizes stay symbolic: one build serves all. docs/loops.md is the whole definition.
#pragma once

#include <postlude/dtype.h>
#include <postlude/error.h>
#include <postlude/plan.h>
#include <postlude/tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace postlude::inline v0::te {

struct ExprNode;       // src/te/expression.h
struct AxisNode;       // src/te/expression.h
struct OperationNode;  // src/te/expression.h
struct ReducerNode;    // src/te/expression.h
struct StageNode;      // src/te/schedule.h
struct ScheduleNode;   // src/te/schedule.h
struct ModuleNode;     // src/te/module.cpp

// A value: of one element of a tensor, of an index, or of a size. A literal takes the other side's
// type, as in the epilogue language, whose operations all of these are.
class Expr {
 public:
  Expr() = default;
  template <std::floating_point T>
  Expr(T literal) : Expr(real(static_cast<double>(literal))) {}
  template <std::integral T>
  Expr(T literal) : Expr(std::same_as<T, bool> ? boolean(literal) : integer(static_cast<std::int64_t>(literal))) {}
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  [[nodiscard]] DType type() const;
  [[nodiscard]] std::string print() const;
  [[nodiscard]] const std::shared_ptr<const ExprNode>& node() const { return node_; }
  const ExprNode* operator->() const {
    if (!node_)
      throw Error(ErrorCode::usage, "an expression is empty", "Give a number, or what te.h's functions make.");
    return node_.get();
  }
  explicit operator bool() const = delete;
  [[nodiscard]] bool empty() const { return node_ == nullptr; }

 private:
  static Expr real(double);
  static Expr integer(std::int64_t);
  static Expr boolean(bool);
  std::shared_ptr<const ExprNode> node_;
};

// What a loop runs over: an axis of a result, a reduced axis, a piece that split made of one, or
// the blocks or threads of a GPU.
class Axis {
 public:
  Axis() = default;
  explicit Axis(std::shared_ptr<const AxisNode> node) : node_(std::move(node)) {}
  operator Expr() const;
  [[nodiscard]] Expr var() const { return *this; }
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] Expr extent() const;
  [[nodiscard]] const std::shared_ptr<const AxisNode>& node() const { return node_; }
  bool operator==(const Axis& other) const { return node_ == other.node_; }

 private:
  std::shared_ptr<const AxisNode> node_;
};
using Axes = std::vector<Axis>;

// How a tensor's elements are made, or that the caller binds them.
class Operation {
 public:
  Operation() = default;
  explicit Operation(std::shared_ptr<OperationNode> node) : node_(std::move(node)) {}
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] Axes axis() const;
  [[nodiscard]] Axes reduce_axis() const;
  [[nodiscard]] std::vector<Expr> body() const;
  [[nodiscard]] const std::shared_ptr<OperationNode>& node() const { return node_; }

 private:
  std::shared_ptr<OperationNode> node_;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<OperationNode> node, int component) : node_(std::move(node)), component_(component) {}
  template <class... Index>
  Expr operator()(const Index&... index) const {
    return at({Expr(index)...});
  }
  [[nodiscard]] Expr at(std::vector<Expr> index) const;
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] DType dtype() const;
  [[nodiscard]] const std::vector<Expr>& shape() const;
  [[nodiscard]] Operation op() const { return Operation(node_); }
  [[nodiscard]] int component() const { return component_; }

 private:
  std::shared_ptr<OperationNode> node_;
  int component_ = 0;
};

// ---- expressions --------------------------------------------------------------------------------

Expr var(const std::string& name);  // a size, known when arrays are bound
Tensor placeholder(std::vector<Expr> shape, const std::string& name, DType dtype = DType::f32);
Axis reduce_axis(const Expr& begin, const Expr& end, const std::string& name);
// An axis of blocks or threads: "blockIdx.x", "threadIdx.y", ...
Axis thread_axis(const std::string& tag);
Axis thread_axis(const Expr& extent, const std::string& tag);  // which loops that are bound to it have

using Body = std::function<Expr(const Axes&)>;
using BodyOfSeveral = std::function<std::vector<Expr>(const Axes&)>;
// A stage: the element at each place of `shape`. A reduction stands alone in its stage. `dtype`
// converts an elementwise result when it is stored; `axes` names the loops.
Tensor compute(std::vector<Expr> shape, const Body& body, const std::string& name, std::optional<DType> dtype = {},
               const std::vector<std::string>& axes = {});
std::vector<Tensor> compute_several(std::vector<Expr> shape, const BodyOfSeveral& body, const std::string& name,
                                    const std::vector<std::string>& axes = {});

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);
Expr operator-(const Expr& x);
Expr operator==(const Expr& a, const Expr& b);
Expr operator!=(const Expr& a, const Expr& b);
Expr operator<(const Expr& a, const Expr& b);
Expr operator<=(const Expr& a, const Expr& b);
Expr operator>(const Expr& a, const Expr& b);
Expr operator>=(const Expr& a, const Expr& b);
Expr operator&(const Expr& a, const Expr& b);
Expr operator|(const Expr& a, const Expr& b);
Expr operator~(const Expr& x);
Expr floordiv(const Expr& a, const Expr& b);
Expr floormod(const Expr& a, const Expr& b);
Expr cast(const Expr& x, DType dtype, Round round = Round::nearest_even);
// An operation of the language by its name in src/graph/ir/ops.def, or a function of the prelude or
// the user: apply("exp", {x}), apply("gelu", {x}). `where` neither reads nor checks what it does not
// choose.
Expr apply(const std::string& name, const std::vector<Expr>& arguments);

// ---- reductions ---------------------------------------------------------------------------------

// combine() of two tuples, and the tuple that changes nothing. rfactor, threads and strips take a
// reduction apart: it must be associative and commutative.
class Reducer {
 public:
  using Combine = std::function<std::vector<Expr>(const std::vector<Expr>& a, const std::vector<Expr>& b)>;
  using Identity = std::function<std::vector<Expr>(const std::vector<DType>& types)>;
  Reducer() = default;
  explicit Reducer(std::shared_ptr<const ReducerNode> node) : node_(std::move(node)) {}
  [[nodiscard]] std::vector<Expr> operator()(const std::vector<Expr>& values, const Axes& axes,
                                             const Expr& where = {}) const;

 private:
  std::shared_ptr<const ReducerNode> node_;
};
Reducer comm_reducer(const Reducer::Combine& combine, const Reducer::Identity& identity, const std::string& name);

Expr sum(const Expr& x, const Axes& axes, const Expr& where = {});  // i64 of integers
Expr prod(const Expr& x, const Axes& axes, const Expr& where = {});
Expr min(const Expr& x, const Axes& axes, const Expr& where = {});
Expr max(const Expr& x, const Axes& axes, const Expr& where = {});
Expr any(const Expr& x, const Axes& axes, const Expr& where = {});
Expr all(const Expr& x, const Axes& axes, const Expr& where = {});
// (index, value): the first of equals, the first NaN; -1 of nothing. The index counts all `axes`.
std::vector<Expr> argmax(const Expr& x, const Axes& axes, const Expr& where = {});
std::vector<Expr> argmin(const Expr& x, const Axes& axes, const Expr& where = {});

// ---- epilogues ----------------------------------------------------------------------------------

// The outputs of an epilogue whose accumulator is a computed tensor, as stages; `operands` by name. One of the tensor's
// axes is its columns, the last unless `columns` says which; the others are its rows. Of more than two axes there are
// no numbers of rows and no reductions over them.
std::vector<Tensor> followed_by(const Tensor& accumulator, const Graph& epilogue,
                                const std::vector<std::pair<std::string, Tensor>>& operands = {}, int columns = -1);

// ---- schedules ----------------------------------------------------------------------------------

// The loops of one stage. What is illegal throws bad_schedule and names the loop.
class Stage {
 public:
  explicit Stage(std::shared_ptr<ScheduleNode> schedule, std::shared_ptr<StageNode> node);
  std::pair<Axis, Axis> split(const Axis& axis, std::int64_t factor);
  std::pair<Axis, Axis> split_parts(const Axis& axis, std::int64_t parts);
  Axis fuse(const Axis& outer, const Axis& inner);
  Axis fuse(const Axes& axes);  // several, each directly inside the one before
  void reorder(const Axes& order);
  std::vector<Axis> tile(const Axis& x, const Axis& y, std::int64_t x_factor, std::int64_t y_factor);
  void unroll(const Axis& axis);
  void vectorize(const Axis& axis);
  void parallel(const Axis& axis);
  void bind(const Axis& axis, const Axis& thread);
  void compute_at(const Stage& consumer, const Axis& axis);
  void compute_inline();
  void compute_root();
  void set_scope(const std::string& scope);  // "global", "shared", "local"
  void set_store_predicate(const Expr& condition);
  [[nodiscard]] Operation op() const;  // as rfactor and the caches have rewritten it
  [[nodiscard]] Axes leaves() const;   // its loops, outermost first
  [[nodiscard]] const std::shared_ptr<StageNode>& node() const { return node_; }

 private:
  std::shared_ptr<ScheduleNode> schedule_;
  std::shared_ptr<StageNode> node_;
};

class Schedule {
 public:
  Schedule() = default;
  explicit Schedule(std::shared_ptr<ScheduleNode> node) : node_(std::move(node)) {}
  [[nodiscard]] Stage operator[](const Tensor& tensor) const;
  [[nodiscard]] Stage operator[](const Operation& operation) const;
  // Reduces over all but `axes` (reduce loops of the stage) into a tensor that has these as axes
  // from `place` on, and which the stage then reduces.
  std::vector<Tensor> rfactor(const Tensor& tensor, const Axes& axes, int place = 0);
  // A copy of `tensor` that the readers read; what a stage computes, before it is copied to it.
  Tensor cache_read(const Tensor& tensor, const std::string& scope, const std::vector<Tensor>& readers);
  std::vector<Tensor> cache_write(const Tensor& tensor, const std::string& scope);
  [[nodiscard]] std::string calls() const;  // what made this schedule, as the calls of Python
  [[nodiscard]] const std::shared_ptr<ScheduleNode>& node() const { return node_; }

 private:
  std::shared_ptr<ScheduleNode> node_;
};
Schedule create_schedule(const std::vector<Tensor>& outputs);
inline Schedule create_schedule(const Tensor& output) { return create_schedule(std::vector<Tensor>{output}); }

// A good schedule for a target, whatever the sizes; calls() says what was chosen.
Schedule choose_schedule(const std::vector<Tensor>& outputs, const Target& target = {});

// ---- nests --------------------------------------------------------------------------------------

// The loops that a schedule means, as text.
[[nodiscard]] std::string lower(const Schedule& schedule, const std::vector<Tensor>& arguments);

// A nest for a target. Immutable; calls may run at once.
class Module {
 public:
  Module() = default;
  explicit Module(std::shared_ptr<const ModuleNode> node) : node_(std::move(node)) {}
  // One array for each argument, outputs too, in their order. Throws Error 03xx before anything is
  // written.
  void operator()(const std::vector<v0::Tensor>& arrays, void* stream = nullptr) const;
  [[nodiscard]] bool is_output(std::size_t argument) const;
  [[nodiscard]] std::string print() const;    // the nest
  [[nodiscard]] std::string explain() const;  // what runs, and why
  [[nodiscard]] std::string source() const;   // of a GPU's kernels (chosen ones: of the last call's); the nest on a CPU
  [[nodiscard]] const std::shared_ptr<const ModuleNode>& node() const { return node_; }

 private:
  std::shared_ptr<const ModuleNode> node_;
};
// A schedule without any call whose stage is a product of matrices, perhaps with an epilogue behind
// it, or a convolution, runs on that main loop: explain() says so.
[[nodiscard]] Module build(const Schedule& schedule, const std::vector<Tensor>& arguments, const Target& target = {});
// The same by that main loop, or by schedules that are chosen; on a GPU one for each kind of sizes that a call has,
// which explain() then tells.
[[nodiscard]] Module build(const std::vector<Tensor>& outputs, const std::vector<Tensor>& arguments,
                           const Target& target = {});

}  // namespace postlude::inline v0::te
