// CATLASS's functions, and the AscendC operations that they are made of, over a tensor of one postlude::Value.
#pragma once

#include <postlude/evt/catlass/types.h>
#include <postlude/graph.h>

namespace postlude::inline v0::evt::catlass {

// Stand-ins for AscendC's operations. `count`, the number of elements, means nothing here.
namespace AscendC {

template <class T>
struct LocalTensor {
  T value{};
};

enum class RoundMode { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };

// clang-format off
#define POSTLUDE_UNARY(name, expression) \
  template <class T> void name(LocalTensor<T>& y, const LocalTensor<T>& a, std::uint32_t) { const T& x = a.value; y.value = expression; }
#define POSTLUDE_BINARY(name, expression) \
  template <class T> void name(LocalTensor<T>& y, const LocalTensor<T>& a, const LocalTensor<T>& b, std::uint32_t) { \
    const T &x = a.value, &z = b.value; y.value = expression; }
#define POSTLUDE_SCALAR(name, expression) \
  template <class T> void name(LocalTensor<T>& y, const LocalTensor<T>& a, const T& s, std::uint32_t) { const T& x = a.value; y.value = expression; }
POSTLUDE_UNARY(Exp, exp(x))
POSTLUDE_UNARY(Ln, log(x))
POSTLUDE_UNARY(Abs, abs(x))
POSTLUDE_UNARY(Neg, -x)
POSTLUDE_UNARY(Sqrt, sqrt(x))
POSTLUDE_UNARY(Rsqrt, rsqrt(x))
POSTLUDE_UNARY(Reciprocal, reciprocal(x))
POSTLUDE_UNARY(Relu, relu(x))
POSTLUDE_UNARY(Tanh, tanh(x))
POSTLUDE_UNARY(Erf, erf(x))
POSTLUDE_UNARY(Sin, sin(x))
POSTLUDE_UNARY(Cos, cos(x))
POSTLUDE_UNARY(Floor, floor(x))
POSTLUDE_UNARY(Ceil, ceil(x))
POSTLUDE_UNARY(Silu, silu(x))
POSTLUDE_UNARY(Sigmoid, sigmoid(x))
POSTLUDE_UNARY(Gelu, gelu_tanh(x))
POSTLUDE_BINARY(Add, x + z)
POSTLUDE_BINARY(Sub, x - z)
POSTLUDE_BINARY(Mul, x * z)
POSTLUDE_BINARY(Div, x / z)
POSTLUDE_BINARY(Max, max(x, z))
POSTLUDE_BINARY(Min, min(x, z))
POSTLUDE_BINARY(Prelu, where(x >= 0, x, x * z))
POSTLUDE_BINARY(MulAddDst, y.value + x * z)
POSTLUDE_SCALAR(Adds, x + s)
POSTLUDE_SCALAR(Subs, x - s)
POSTLUDE_SCALAR(Muls, x * s)
POSTLUDE_SCALAR(Maxs, max(x, s))
POSTLUDE_SCALAR(Mins, min(x, s))
POSTLUDE_SCALAR(LeakyRelu, where(x >= 0, x, x * s))
#undef POSTLUDE_UNARY
#undef POSTLUDE_BINARY
#undef POSTLUDE_SCALAR
// clang-format on
template <class T>
void Divs(LocalTensor<T>& y, const LocalTensor<T>& x, const T& s, std::uint32_t) {
  y.value = x.value / s;
}
template <class T>
void Divs(LocalTensor<T>& y, const T& s, const LocalTensor<T>& x, std::uint32_t) {
  y.value = s / x.value;
}
template <int>
void PipeBarrier() {}

}  // namespace AscendC

inline constexpr int PIPE_V = 0;

// clang-format off
#define POSTLUDE_FUNCTION(name, operation) \
  template <class T> struct name { \
    void operator()(AscendC::LocalTensor<T>& y, std::uint32_t n, const AscendC::LocalTensor<T>& x) const { AscendC::operation(y, x, n); } };
#define POSTLUDE_FUNCTION_WITH_SCALAR(name) \
  template <class T> struct name { T scalar; \
    void operator()(AscendC::LocalTensor<T>& y, std::uint32_t n, const AscendC::LocalTensor<T>& x) const { AscendC::name(y, x, scalar, n); } };
// Of two inputs and more, from the left.
#define POSTLUDE_FUNCTION_OF_MANY(name) \
  template <class T> struct name { \
    void operator()(AscendC::LocalTensor<T>& y, std::uint32_t n, const AscendC::LocalTensor<T>& a, const AscendC::LocalTensor<T>& b, \
                    const auto&... rest) const { \
      AscendC::name(y, a, b, n); if constexpr (sizeof...(rest) > 0) (*this)(y, n, y, rest...); } };
POSTLUDE_FUNCTION(Exp, Exp)
POSTLUDE_FUNCTION(Relu, Relu)
POSTLUDE_FUNCTION(Silu, Silu)
POSTLUDE_FUNCTION(Sqrt, Sqrt)
POSTLUDE_FUNCTION(RsqrtFast, Rsqrt)
POSTLUDE_FUNCTION(Sigmoid, Sigmoid)
POSTLUDE_FUNCTION_WITH_SCALAR(LeakyRelu)
POSTLUDE_FUNCTION_WITH_SCALAR(Adds)
POSTLUDE_FUNCTION_WITH_SCALAR(Muls)
POSTLUDE_FUNCTION_WITH_SCALAR(Maxs)
POSTLUDE_FUNCTION_WITH_SCALAR(Mins)
POSTLUDE_FUNCTION_OF_MANY(Add)
POSTLUDE_FUNCTION_OF_MANY(Sub)
POSTLUDE_FUNCTION_OF_MANY(Mul)
POSTLUDE_FUNCTION_OF_MANY(Div)
POSTLUDE_FUNCTION_OF_MANY(Max)
POSTLUDE_FUNCTION_OF_MANY(Min)
#undef POSTLUDE_FUNCTION
#undef POSTLUDE_FUNCTION_WITH_SCALAR
#undef POSTLUDE_FUNCTION_OF_MANY
// clang-format on
// Exactly 1 / sqrt(x) and 1 / x.
template <class T>
struct Rsqrt {
  void operator()(AscendC::LocalTensor<T>& y, std::uint32_t n, const AscendC::LocalTensor<T>& x) const {
    AscendC::Sqrt(y, x, n);
    AscendC::Divs(y, T(1), y, n);
  }
};
template <class T>
struct Reciprocal {
  void operator()(AscendC::LocalTensor<T>& y, std::uint32_t n, const AscendC::LocalTensor<T>& x) const {
    AscendC::Divs(y, T(1), x, n);
  }
};
template <class T>
struct AddRelu {
  void operator()(AscendC::LocalTensor<T>& y, std::uint32_t n, const AscendC::LocalTensor<T>& a,
                  const AscendC::LocalTensor<T>& b) const {
    AscendC::Add(y, a, b, n);
    AscendC::Relu(y, y, n);
  }
};
template <class T>
struct Prelu {
  void operator()(AscendC::LocalTensor<T>& y, std::uint32_t n, const AscendC::LocalTensor<T>& x,
                  const AscendC::LocalTensor<T>& slope) const {
    AscendC::Prelu(y, x, slope, n);
  }
};

}  // namespace postlude::inline v0::evt::catlass
