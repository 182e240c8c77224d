// An epilogue is a graph of values over the output's rows and columns. A builder makes it.
//
// A value has a set of axes out of {b, m, n} and an extent along each. tile, row, col and scalar
// are names for the axes {m, n}, {n}, {m} and {}. Elementwise operations broadcast missing axes and
// need equal extents along the shared ones. Computation is in f32, i32, i64 and boolean; other
// dtypes exist at operands, outputs and in cast(). docs/language.md is the whole definition; a
// graph prints as that language and parses back to the same graph.
#pragma once

#include <postlude/dtype.h>
#include <postlude/error.h>

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace postlude::inline v0 {

enum class Axis : std::uint8_t { b = 1, m = 2, n = 4 };

// A set of axes.
struct Axes {
  std::uint8_t bits = 0;

  constexpr Axes() = default;
  constexpr Axes(Axis axis) : bits(static_cast<std::uint8_t>(axis)) {}
  [[nodiscard]] constexpr bool has(Axis axis) const { return (bits & static_cast<std::uint8_t>(axis)) != 0; }
  [[nodiscard]] constexpr bool contains(Axes other) const { return (bits & other.bits) == other.bits; }
  [[nodiscard]] constexpr bool empty() const { return bits == 0; }
  constexpr bool operator==(const Axes&) const = default;
  friend constexpr Axes operator|(Axes x, Axes y) {
    x.bits |= y.bits;
    return x;
  }
  friend constexpr Axes operator&(Axes x, Axes y) {
    x.bits &= y.bits;
    return x;
  }
  friend constexpr Axes operator-(Axes x, Axes y) {
    x.bits &= static_cast<std::uint8_t>(~y.bits);
    return x;
  }
};
[[nodiscard]] constexpr Axes operator|(Axis x, Axis y) { return Axes(x) | Axes(y); }

inline constexpr Axes tile_axes = Axis::m | Axis::n;
inline constexpr Axes row_axes = Axis::n;
inline constexpr Axes col_axes = Axis::m;
inline constexpr Axes scalar_axes = {};

struct GraphData;     // src/graph/ir/ir.h
struct Function;      // src/graph/ir/ir.h
struct BuilderState;  // src/graph/ir/builder.cpp

// A finished epilogue. Immutable, cheap to copy, safe to share between threads.
class Graph {
 public:
  struct Operand {
    std::string name;
    Axes axes;                   // of {m, n}; in a batched problem every operand may have a batch axis in front
    std::optional<DType> dtype;  // unset: A's for tiles, rows and cols (f32 behind 8-bit types), f32 for scalars
  };
  struct Output {
    std::string name;
    Axes axes;  // of {m, n}
    std::optional<DType>
        dtype;  // unset: A's dtype for a tile (f32 behind integers), f32 for a statistic, i64 for an index
  };

  Graph() = default;  // empty: a request for its content throws usage
  explicit Graph(std::shared_ptr<const GraphData> data);

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] std::vector<Operand> operands() const;
  [[nodiscard]] std::vector<Output> outputs() const;
  [[nodiscard]] std::string print() const;  // in the epilogue language
  [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }
  [[nodiscard]] const GraphData& data() const;
  [[nodiscard]] const std::shared_ptr<const GraphData>& shared() const { return data_; }

 private:
  std::shared_ptr<const GraphData> data_;
};

// A value under construction, or a literal. A literal takes the other side's type; a number that is
// no int64_t and no double throws syntax, as in a text.
class Value {
 public:
  Value() = default;
  template <std::floating_point T>
  Value(T literal) : kind_(Kind::real), real_(static_cast<double>(literal)) {
    if (std::isinf(real_) != std::isinf(literal)) out_of_range();
  }
  template <std::integral T>
  Value(T literal)
      : kind_(std::same_as<T, bool> ? Kind::boolean : Kind::integer), integer_(static_cast<std::int64_t>(literal)) {
    if (std::unsigned_integral<T> && integer_ < 0) out_of_range();
  }
  explicit operator bool() const = delete;  // it has elements, each true or not: where(condition, a, b) for c ? a : b

 private:
  friend class GraphBuilder;
  friend struct BuilderState;
  enum class Kind : std::uint8_t { none, node, real, integer, boolean };
  [[noreturn]] static void out_of_range();
  Kind kind_ = Kind::none;
  std::shared_ptr<BuilderState> builder_;
  std::int32_t node_ = -1;
  double real_ = 0;
  std::int64_t integer_ = 0;
};

struct ReduceOptions {
  std::int64_t group = 0;  // partial results every `group` columns (or rows); 0: the whole axis
  bool batch = false;      // across the batch too
};

// The combiner of a general reduction over k values takes a1..ak, b1..bk and gives k values. It
// must be associative and commutative, and have elementwise operations and constants only.
using Combine = std::function<std::vector<Value>(std::span<const Value> a, std::span<const Value> b)>;

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name = "epilogue");
  // A copy goes on building the same graph, and so does a builder that was moved from.
  GraphBuilder(const GraphBuilder&) = default;
  GraphBuilder& operator=(const GraphBuilder&) = default;

  Value accumulator();
  Value operand(std::string name, Axes axes, std::optional<DType> dtype = {});
  Value tile(std::string name, std::optional<DType> dtype = {}) { return operand(std::move(name), tile_axes, dtype); }
  Value row(std::string name, std::optional<DType> dtype = {}) { return operand(std::move(name), row_axes, dtype); }
  Value col(std::string name, std::optional<DType> dtype = {}) { return operand(std::move(name), col_axes, dtype); }
  Value scalar(std::string name, std::optional<DType> dtype = {}) {
    return operand(std::move(name), scalar_axes, dtype);
  }
  Value m_index();
  Value z_index();  // of the pixel that the row is: behind a convolution or its gradient by x
  Value p_index();
  Value q_index();
  Value n_index();
  Value batch_index();
  Value random(std::uint64_t seed, std::uint32_t stream = 0);
  Value constant(const Value& literal);

  // Declares an output. `dtype` unset takes the default of Graph::Output; `axes`, when given, must
  // be the value's.
  void output(std::string name, const Value& value, std::optional<DType> dtype = {}, std::optional<Axes> axes = {});

  // Nodes made from here on come from this place (a Python tracer names the user's line).
  void at(Location where);
  // The name under which a value is printed.
  void name(const Value& value, std::string hint);

  // Verifies the graph and returns it. The builder is empty afterwards.
  [[nodiscard]] Graph finish();

 private:
  friend struct BuilderState;
  std::shared_ptr<BuilderState> state_;
};

// Operators and primitives. src/graph/ir/ops.def says what each means.
Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value operator-(const Value& x);
Value operator==(const Value& a, const Value& b);
Value operator!=(const Value& a, const Value& b);
Value operator<(const Value& a, const Value& b);
Value operator<=(const Value& a, const Value& b);
Value operator>(const Value& a, const Value& b);
Value operator>=(const Value& a, const Value& b);
Value operator&(const Value& a, const Value& b);
Value operator|(const Value& a, const Value& b);
Value operator~(const Value& x);
Value floordiv(const Value& a, const Value& b);
Value abs(const Value& x);
Value min(const Value& a, const Value& b);
Value max(const Value& a, const Value& b);
Value fma(const Value& a, const Value& b, const Value& c);
Value exp(const Value& x);
Value exp2(const Value& x);
Value expm1(const Value& x);
Value log(const Value& x);
Value log2(const Value& x);
Value log1p(const Value& x);
Value tanh(const Value& x);
Value erf(const Value& x);
Value sqrt(const Value& x);
Value rsqrt(const Value& x);
Value reciprocal(const Value& x);
Value pow(const Value& x, const Value& y);
Value sin(const Value& x);
Value cos(const Value& x);
Value floor(const Value& x);
Value ceil(const Value& x);
Value round(const Value& x);
Value where(const Value& condition, const Value& a, const Value& b);
Value cast(const Value& x, DType dtype, Round round = Round::nearest_even, std::uint64_t seed = 0);
Value scaled(const Value& s, const Value& x);

// Operations on shape. They move no data.
std::vector<Value> chunk(const Value& x, int k, std::int64_t group = 0);  // group 0: all columns
Value concat(std::span<const Value> parts, std::int64_t group = 0);
Value repeat(const Value& x, std::int64_t group, Axis axis = Axis::n);

// Reductions. Axis::n is axis=1 of the language (a value a row), Axis::m is axis=0 (a value a
// column); both by default.
Value sum(const Value& x, Axes over = tile_axes, ReduceOptions options = {});
Value mean(const Value& x, Axes over = tile_axes, ReduceOptions options = {});
Value max(const Value& x, Axes over = tile_axes, ReduceOptions options = {});
Value min(const Value& x, Axes over = tile_axes, ReduceOptions options = {});
Value prod(const Value& x, Axes over = tile_axes, ReduceOptions options = {});
Value any(const Value& x, Axes over = tile_axes, ReduceOptions options = {});
Value all(const Value& x, Axes over = tile_axes, ReduceOptions options = {});
Value argmax(const Value& x, Axes over = tile_axes, ReduceOptions options = {});
Value argmin(const Value& x, Axes over = tile_axes, ReduceOptions options = {});
Value logsumexp(const Value& x, Axes over = tile_axes, ReduceOptions options = {});
Value var(const Value& x, Axes over = tile_axes, ReduceOptions options = {});
Value norm(const Value& x, Axes over = tile_axes, ReduceOptions options = {});
std::vector<Value> reduce(std::span<const Value> values, const Combine& combine, std::span<const double> identity,
                          Axes over = tile_axes, ReduceOptions options = {});

// Calls a function of the prelude or one that the user added, by name.
Value call(std::string_view function, std::span<const Value> arguments);

// The prelude's functions (epilogues/prelude.py).
Value relu(const Value& x);
Value leaky_relu(const Value& x, const Value& slope = 0.01);
Value gelu(const Value& x);  // the tanh form, as gelu_tanh
Value gelu_tanh(const Value& x);
Value gelu_erf(const Value& x);
Value silu(const Value& x);
Value sigmoid(const Value& x);
Value softplus(const Value& x);
Value mish(const Value& x);
Value elu(const Value& x, const Value& alpha = 1.0);
Value hardsigmoid(const Value& x);
Value hardswish(const Value& x);
Value clamp(const Value& x, const Value& low, const Value& high);

}  // namespace postlude::inline v0
