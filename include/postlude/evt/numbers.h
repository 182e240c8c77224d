// Element types for trees: C++ has types for some of the dtypes, these are the others.
#pragma once

#include <postlude/dtype.h>

#include <cstdint>
#include <type_traits>

namespace postlude::inline v0::evt {

// A number as it lies in memory. Converts from and to float; arithmetic is float's.
template <DType dtype>
struct Number {
  using Bits = std::conditional_t<size_of(dtype) == 2, std::uint16_t, std::uint8_t>;
  Bits bits = 0;

  Number() = default;
  template <class T>
  requires std::is_arithmetic_v<T> Number(T value);  // rounded to nearest even
  operator float() const;
};

namespace detail {
[[nodiscard]] std::uint32_t encode(DType dtype, double value);
[[nodiscard]] float decode(DType dtype, std::uint32_t bits);
}  // namespace detail

template <DType dtype>
template <class T>
requires std::is_arithmetic_v<T> Number<dtype>::Number(T value)
    : bits(static_cast<Bits>(detail::encode(dtype, static_cast<double>(value)))) {}

template <DType dtype>
Number<dtype>::operator float() const {
  return detail::decode(dtype, bits);
}

// What a tree knows of a type of elements: its dtype, or one of these.
using Element = std::int8_t;
inline constexpr Element accumulator_element = -1;  // the accumulator's, which the main loop decides
inline constexpr Element unsupported_element = -2;
inline constexpr Element no_element = -3;  // void

// Specialise it for an element type of one's own: `inline constexpr Element element_of<my_half> = Element(f16);`
template <class T>
inline constexpr Element element_of = unsupported_element;
template <class T>
inline constexpr Element element_of<const T> = element_of<T>;
template <>
inline constexpr Element element_of<void> = no_element;
template <DType dtype>
inline constexpr Element element_of<Number<dtype>> = static_cast<Element>(dtype);
template <>
inline constexpr Element element_of<float> = static_cast<Element>(f32);
template <>
inline constexpr Element element_of<std::int8_t> = static_cast<Element>(s8);
template <>
inline constexpr Element element_of<std::uint8_t> = static_cast<Element>(u8);
template <>
inline constexpr Element element_of<std::int32_t> = static_cast<Element>(i32);
template <>
inline constexpr Element element_of<std::int64_t> = static_cast<Element>(i64);
template <>
inline constexpr Element element_of<bool> = static_cast<Element>(boolean);

}  // namespace postlude::inline v0::evt
