// CUTLASS's functions of elements, over postlude::Value. Each means what CUTLASS's does for one element; where an
// element is NaN or a zero meets a threshold, that is said here.
#pragma once

#include <postlude/evt/cutlass/types.h>
#include <postlude/graph.h>

#include <limits>

namespace postlude::inline v0::evt::cutlass {

// Arithmetic.
template <class T>
struct plus {
  T operator()(const T& a, const T& b) const { return a + b; }
};
template <class T>
struct minus {
  T operator()(const T& a, const T& b) const { return a - b; }
};
template <class T>
struct multiplies {
  T operator()(const T& a, const T& b) const { return a * b; }
};
template <class T>
struct divides {
  T operator()(const T& a, const T& b) const { return a / b; }
};
template <class T>
struct negate {
  T operator()(const T& x) const { return -x; }
};
template <class A, class B = A, class C = A>
struct multiply_add {
  C operator()(const A& a, const B& b, const C& c) const { return a * b + c; }
};
template <class T>
struct homogeneous_multiply_add : multiply_add<T, T, T> {};
template <class T>
struct square {
  T operator()(const T& x) const { return x * x; }
};
template <class T>
struct magnitude_squared : square<T> {};
template <class T>
struct square_difference {
  T operator()(const T& a, const T& b) const { return (a - b) * (a - b); }
};
template <class T>
struct magnitude_squared_difference : square_difference<T> {};
template <class T>
struct square_and_plus {
  T operator()(const T& sum, const T& x) const { return x * x + sum; }
};
template <class T>
struct absolute_value_op {
  T operator()(const T& x) const { return abs(x); }
};
template <class T>
struct inverse_square_root {
  T operator()(const T& x) const { return rsqrt(x); }
};
template <class T>
struct reciprocal_approximate {
  T operator()(const T& x) const { return reciprocal(x); }
};
template <class T>
struct reciprocal_approximate_ftz : reciprocal_approximate<T> {};
template <class T>
struct conjugate {
  T operator()(const T& x) const { return x; }
};
template <class T>
struct first {
  template <class... Rest>
  T operator()(const T& x, const Rest&...) const {
    return x;
  }
};

// The larger; of a number and a NaN the number. With `propagate_nan` a NaN.
template <class T, bool propagate_nan = false>
struct greatest {
  T operator()(const T& a, const T& b) const {
    if constexpr (propagate_nan) return max(a, b);
    else return where(a != a, b, where(b != b, a, max(a, b)));
  }
};
template <class T, bool propagate_nan = false>
struct least {
  T operator()(const T& a, const T& b) const {
    if constexpr (propagate_nan) return min(a, b);
    else return where(a != a, b, where(b != b, a, min(a, b)));
  }
};
// A compiler without P0522 takes a template with a number for no function: there `maximum` has one parameter.
#if defined(__cpp_template_template_args) && __cpp_template_template_args >= 201611L
template <class T, bool propagate_nan = false>
struct maximum : greatest<T, propagate_nan> {};
template <class T, bool propagate_nan = false>
struct minimum : least<T, propagate_nan> {};
#else
template <class T>
struct maximum : greatest<T> {};
template <class T>
struct minimum : least<T> {};
#endif
template <class T>
struct maximum_with_default_nan_propagation : greatest<T> {};
template <class T>
struct maximum_with_nan_propagation : greatest<T, true> {};
template <class T>
struct minimum_with_nan_propagation : least<T, true> {};
template <class T, bool propagate_nan = false>
struct maximum_absolute_value {
  T operator()(const T& a, const T& b) const { return greatest<T, propagate_nan>{}(abs(a), abs(b)); }
};
// The first is an absolute value already.
template <class T, bool propagate_nan = false>
struct maximum_absolute_value_reduction {
  T operator()(const T& largest, const T& x) const { return greatest<T, propagate_nan>{}(largest, abs(x)); }
};

// Comparisons and logic: 1 or 0.
template <class T>
struct greater {
  T operator()(const T& a, const T& b) const { return a > b; }
};
template <class T>
struct greater_equal {
  T operator()(const T& a, const T& b) const { return a >= b; }
};
template <class T>
struct less {
  T operator()(const T& a, const T& b) const { return a < b; }
};
template <class T>
struct less_equal {
  T operator()(const T& a, const T& b) const { return a <= b; }
};
template <class T>
struct logical_and {
  T operator()(const T& a, const T& b) const { return (a != 0) & (b != 0); }
};
template <class T>
struct logical_or {
  T operator()(const T& a, const T& b) const { return (a != 0) | (b != 0); }
};
template <class T>
struct logical_not {
  T operator()(const T& x) const { return x == 0; }
};

// How partial results meet in memory. Only named, in reductions.
template <class T>
struct atomic_add {};
template <class T>
struct atomic_maximum {};

// Activations.
template <class T>
struct Identity {
  T operator()(const T& x) const { return x; }
};
template <class T>
struct ReLu {
  T operator()(const T& x) const { return relu(x); }
  T operator()(const T& threshold, const T& x) const { return max(x, threshold); }
};
template <class T>
using ReLU = ReLu<T>;
template <class T>
struct Clamp {
  struct Arguments {
    T lower_bound = std::numeric_limits<T>::lowest();
    T upper_bound = std::numeric_limits<T>::max();
  };
  T operator()(const T& x, const T& low, const T& high) const { return clamp(x, low, high); }
  T operator()(const T& x, const Arguments& p = {}) const { return (*this)(x, p.lower_bound, p.upper_bound); }
};
template <class T>
struct LowerBound {
  struct Arguments {
    T lower_bound = T(0);
  };
  T operator()(const T& x, const T& low) const { return max(x, low); }
  T operator()(const T& x, const Arguments& p = {}) const { return (*this)(x, p.lower_bound); }
};
template <class T>
struct LeakyReLU {
  struct Arguments {
    T leaky_alpha = T(0);
  };
  T operator()(const T& x, const T& slope) const { return where(x > 0, x, x * slope); }
  T operator()(const T& x, const Arguments& p = {}) const { return (*this)(x, p.leaky_alpha); }
};
// 0 up to the threshold, never more than the bound.
template <class T>
struct ThresholdReLU {
  struct Arguments {
    T threshold = T(0);
    T upper_bound = std::numeric_limits<T>::max();
  };
  T operator()(const T& x, const T& threshold, const T& high) const { return min(where(x <= threshold, 0, x), high); }
  T operator()(const T& x, const Arguments& p = {}) const { return (*this)(x, p.threshold, p.upper_bound); }
};
template <class T>
struct ElementwiseFilter {
  struct Arguments {
    T value_to_filter = T(-0.0);
    T filtered_value = T(0.0);
  };
  T operator()(const T& x, const T& filtered, const T& instead) const { return where(x == filtered, instead, x); }
  T operator()(const T& x, const Arguments& p = {}) const { return (*this)(x, p.value_to_filter, p.filtered_value); }
};
template <class T>
struct Tanh {
  T operator()(const T& x) const { return tanh(x); }
};
template <class T>
struct Sigmoid {
  T operator()(const T& x) const { return sigmoid(x); }
};
template <class T>
struct SiLu {
  T operator()(const T& x) const { return silu(x); }
};
template <class T>
struct HardSwish {
  T operator()(const T& x) const { return hardswish(x); }
};
template <class T>
struct GELU {
  T operator()(const T& x) const { return gelu_erf(x); }
};
template <class T>
struct GELU_taylor {
  T operator()(const T& x) const { return gelu_tanh(x); }
};
// x + sin(a x)^2 / a (Ziyin, Hartwig, Ueda 2020).
template <class T>
struct Snake {
  T operator()(const T& x, const T& a) const {
    const T s = sin(a * x);
    return x + s * s / a;
  }
};
// Scale<T> multiplies; Scale<Activation<T>> applies the activation first.
template <class T>
struct Scale {
  struct Arguments {
    using scale_type = T;
    T scale = T(1);
  };
  T operator()(const T& x, const T& scale) const { return scale * x; }
  T operator()(const T& x, const Arguments& p = {}) const { return (*this)(x, p.scale); }
};
template <template <class> class Activation, class T>
struct Scale<Activation<T>> {
  using Arguments = typename Scale<T>::Arguments;
  T operator()(const T& x, const T& scale) const { return scale * Activation<T>{}(x); }
  T operator()(const T& x, const Arguments& p = {}) const { return (*this)(x, p.scale); }
};
template <class T>
using ScaledSiLu = Scale<SiLu<T>>;
template <class T>
using ScaledHardSwish = Scale<HardSwish<T>>;
template <class T>
using ScaledGELU = Scale<GELU<T>>;
template <class T>
using ScaledGELU_taylor = Scale<GELU_taylor<T>>;

// Gradients: of the result, at z.
template <class T>
struct dGELU {
  T operator()(const T& dy, const T& z) const { return dy * call("dgelu_tanh", {{z}}); }
};
// The condition is what ReLu stored as uint1b_t.
template <class T>
struct dReLU {
  T operator()(const T& dy, const T& passes) const { return where(passes, dy, 0); }
};
// Passes dy where z is 0; the prelude's drelu does not.
template <class T>
struct dReLU_Z {
  T operator()(const T& dy, const T& z) const { return where(z < 0, 0, dy); }
};

// What functions of a person's own are made of, by CUTLASS's names.
// clang-format off
inline Value fast_exp(const Value& x) { return exp(x); }
inline Value fast_log(const Value& x) { return log(x); }
inline Value fast_sqrt(const Value& x) { return sqrt(x); }
inline Value fast_rsqrt(const Value& x) { return rsqrt(x); }
inline Value fast_tanh(const Value& x) { return tanh(x); }
inline Value fast_sin(const Value& x) { return sin(x); }
inline Value fast_cos(const Value& x) { return cos(x); }
template <class T> struct fast_exp_op { T operator()(const T& x) const { return exp(x); } };
template <class T> struct fast_tanh_op { T operator()(const T& x) const { return tanh(x); } };
namespace constants {
template <class T> T zero() { return T(0); }
template <class T> T one() { return T(1); }
template <class T> T two() { return T(2); }
template <class T> T half() { return T(0.5); }
template <class T> T pi() { return T(3.14159265358979323846); }
template <class T> T root_two() { return T(1.41421356237309504880); }
template <class T> T half_root_two() { return T(0.70710678118654752440); }
}  // namespace constants
// clang-format on

}  // namespace postlude::inline v0::evt::cutlass
