// CUTLASS's small types: elements, layouts and strides, rounding styles, statuses. Facts from CUTLASS 4.
#pragma once

#include <postlude/evt/clauses.h>
#include <postlude/evt/numbers.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

// So that a person's functions compile as they stand.
#ifndef CUTLASS_HOST_DEVICE
#define CUTLASS_HOST_DEVICE inline
#endif
#ifndef CUTLASS_DEVICE
#define CUTLASS_DEVICE inline
#endif
#ifndef CUTLASS_PRAGMA_UNROLL
#define CUTLASS_PRAGMA_UNROLL
#endif

// A function of elements is a template with one parameter, perhaps more that have defaults. A compiler without P0522
// takes those for a pack only.
#if defined(__cpp_template_template_args) && __cpp_template_template_args >= 201611L
#define POSTLUDE_EVT_FUNCTION \
  template <class>            \
  class
#else
#define POSTLUDE_EVT_FUNCTION \
  template <class...>         \
  class
#endif

namespace postlude::inline v0::evt::cutlass {

using half_t = Number<f16>;
using bfloat16_t = Number<bf16>;
using float_e4m3_t = Number<e4m3>;
using float_e5m2_t = Number<e5m2>;
// One bit in CUTLASS, one byte of 0 or 1 here.
struct uint1b_t {
  bool value = false;
  uint1b_t() = default;
  uint1b_t(bool value) : value(value) {}
  operator bool() const { return value; }
};
// Known by name, and refused.
template <int>
struct Refused {
  Refused() = default;
  template <class T>
  requires std::is_arithmetic_v<T> Refused(T) {}
};
using tfloat32_t = Refused<0>;
using float_e2m1_t = Refused<1>;
using float_e2m3_t = Refused<2>;
using float_e3m2_t = Refused<3>;
using float_ue8m0_t = Refused<4>;
using float_ue4m3_t = Refused<5>;
using int4b_t = Refused<6>;
using uint4b_t = Refused<7>;

enum class FloatRoundStyle {
  round_indeterminate,  // here: to nearest
  round_toward_zero,
  round_to_nearest,
  round_to_nearest_satfinite,
  round_toward_infinity,
  round_toward_neg_infinity,
  round_half_ulp_truncate,   // refused
  round_half_ulp_trunc_dntz  // refused
};

enum class Status {
  kSuccess,
  kErrorMisalignedOperand,
  kErrorInvalidDataType,
  kErrorInvalidLayout,
  kErrorInvalidProblem,
  kErrorNotSupported,
  kErrorWorkspaceNull,
  kErrorInternal,
  kErrorArchMismatch,
  kErrorInsufficientDriver,
  kErrorMemoryAllocation,
  kInvalid
};
[[nodiscard]] const char* cutlassGetStatusString(Status status);

using evt::Int;
using evt::seq;
using _0 = Int<0>;
using _1 = Int<1>;
using _2 = Int<2>;
using _3 = Int<3>;
using _4 = Int<4>;
using _8 = Int<8>;
using _16 = Int<16>;
using _32 = Int<32>;
using _64 = Int<64>;
using _128 = Int<128>;
using _192 = Int<192>;
using _256 = Int<256>;
using _512 = Int<512>;

template <class... T>
using tuple = Clauses<T...>;
template <class... T>
using Stride = Clauses<T...>;

// M x N x K, and how many of them.
struct ProblemShape {
  int M = 0, N = 0, K = 0, L = 1;
};
namespace detail {
template <class... T>
struct ShapeOf {
  using type = Clauses<T...>;
};
template <>
struct ShapeOf<int, int, int, int> {
  using type = ProblemShape;
};
}  // namespace detail
template <class... T>
using Shape = typename detail::ShapeOf<T...>::type;

template <class... T>
[[nodiscard]] constexpr Clauses<T...> make_tuple(const T&... x) {
  return {x...};
}
template <class... T>
[[nodiscard]] constexpr Clauses<T...> make_stride(const T&... x) {
  return {x...};
}
template <class... T>
[[nodiscard]] constexpr Shape<T...> make_shape(const T&... x) {
  return {x...};
}

namespace layout {
struct RowMajor {};
struct ColumnMajor {};
}  // namespace layout
using layout::ColumnMajor;
using layout::RowMajor;

// A, C, D and tiles have modes (M, K or N, L); B has (N, K, L).
template <class Layout>
struct TagToStrideA {
  using type = Layout;  // a stride already
};
template <>
struct TagToStrideA<RowMajor> {
  using type = Stride<std::int64_t, _1, std::int64_t>;
};
template <>
struct TagToStrideA<ColumnMajor> {
  using type = Stride<_1, std::int64_t, std::int64_t>;
};
template <class Layout>
using TagToStrideA_t = typename TagToStrideA<Layout>::type;
template <class Layout>
using TagToStrideC_t = TagToStrideA_t<Layout>;
template <class Layout>
struct TagToStrideB : TagToStrideA<Layout> {};
template <>
struct TagToStrideB<RowMajor> : TagToStrideA<ColumnMajor> {};
template <>
struct TagToStrideB<ColumnMajor> : TagToStrideA<RowMajor> {};
template <class Layout>
using TagToStrideB_t = typename TagToStrideB<Layout>::type;

// The strides of a contiguous (rows, columns, batches): make_cute_packed_stride(StrideA{}, make_shape(M, K, L)).
template <class Shape>
[[nodiscard]] TagToStrideA_t<RowMajor> make_cute_packed_stride(TagToStrideA_t<RowMajor>, const Shape& shape) {
  const auto& [rows, columns, batches] = shape;
  return {columns, {}, batches > 1 ? static_cast<std::int64_t>(rows) * columns : 0};
}
template <class Shape>
[[nodiscard]] TagToStrideA_t<ColumnMajor> make_cute_packed_stride(TagToStrideA_t<ColumnMajor>, const Shape& shape) {
  const auto& [rows, columns, batches] = shape;
  return {{}, rows, batches > 1 ? static_cast<std::int64_t>(rows) * columns : 0};
}

// Elements side by side. Only named by the second form that many functions have; trees are traced with single values.
template <class T, int n>
struct Array {
  using Element = T;
  T storage[static_cast<std::size_t>(n)];
  T& operator[](int i) { return storage[i]; }
  const T& operator[](int i) const { return storage[i]; }
  static constexpr int size() { return n; }
};

namespace detail {

// Strides along m, n and the batch.
template <class M, class N>
std::array<std::int64_t, 3> strides(const Clauses<M, N>& s) {
  return {static_cast<std::int64_t>(s.op_0), static_cast<std::int64_t>(s.op_1), 0};
}
template <class M, class N, class L>
std::array<std::int64_t, 3> strides(const Clauses<M, N, L>& s) {
  return {static_cast<std::int64_t>(s.op_0), static_cast<std::int64_t>(s.op_1), static_cast<std::int64_t>(s.op_2)};
}

// Which axis a stride runs along; `dynamic`: a bool says whether it does.
enum class Along : std::uint8_t { none, m, n, other };
struct Direction {
  Along along = Along::other;
  bool dynamic = false;
};
template <class Stride>
inline constexpr Direction direction{};
template <class M, class N, class... L>
inline constexpr Direction direction<Clauses<M, N, L...>> = [] {
  constexpr bool m0 = std::is_same_v<M, _0>, n0 = std::is_same_v<N, _0>;
  if constexpr (m0 && n0) return Direction{Along::none};
  else if constexpr (m0)
    return Direction{std::is_same_v<N, _1> || std::is_same_v<N, bool> ? Along::n : Along::other,
                     std::is_same_v<N, bool>};
  else if constexpr (n0)
    return Direction{std::is_same_v<M, _1> || std::is_same_v<M, bool> ? Along::m : Along::other,
                     std::is_same_v<M, bool>};
  else return Direction{};
}();

}  // namespace detail
}  // namespace postlude::inline v0::evt::cutlass

namespace postlude::inline v0::evt {
template <>
inline constexpr Element element_of<cutlass::uint1b_t> = static_cast<Element>(boolean);
}
