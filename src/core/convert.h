// Conversion of numbers between the dtypes: the definition, exact and one element at a time.
// Backends have faster forms of their own, and are tested against these.
//
// To a float type: correct rounding in the given mode, gradual underflow, -0 kept, NaN to the quiet
// NaN of the type (positive, without payload). What rounds beyond the largest finite value becomes
// infinite in f32, f16 and bf16 where IEEE 754 says so (never toward zero; up only for positives;
// stochastic as nearest). e4m3 and e5m2 saturate: finite overflow and infinities alike become +-448
// or +-57344, as the conversions of GPUs with satfinite do. To an integer type: rounding in the
// given mode, then saturation; NaN is 0; infinities saturate. To boolean: whether it is not zero
// (NaN is true). Integers between integer types saturate. Integers to float types go through f32:
// two roundings, as in every backend.
//
// Stochastic rounding takes `u` in [0, 1), which is what random(seed) gives at the element's own
// coordinates (philox.h): the magnitude is rounded away from zero where u < the discarded fraction
// of a unit in the last place, else toward zero.
#pragma once

#include <postlude/dtype.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace postlude::inline v0::core {

// Throws unknown_dtype for what a cast from an integer made.
DType checked(DType type);
Round checked(Round round);

// A binary floating-point format: values are significand * 2^(exponent), the bits are sign,
// exponent field, fraction.
struct FloatFormat {
  int precision;       // of the significand, the hidden bit included
  int min_exponent;    // of the smallest normal number
  std::uint32_t sign;  // its bit
  std::uint32_t max;   // bits of the largest finite value
  std::uint32_t nan;   // bits of the NaN that conversions give
  bool saturates;      // no conversion gives an infinity
};

[[nodiscard]] constexpr FloatFormat float_format(DType type) {
  switch (type) {
    case DType::f16: return {11, -14, 0x8000, 0x7bff, 0x7e00, false};
    case DType::bf16: return {8, -126, 0x8000, 0x7f7f, 0x7fc0, false};
    case DType::e4m3: return {4, -6, 0x80, 0x7e, 0x7f, true};
    case DType::e5m2: return {3, -14, 0x80, 0x7b, 0x7f, true};
    default: return {24, -126, 0x8000'0000, 0x7f7f'ffff, 0x7fc0'0000, false};  // f32
  }
}

// `x` in the bits of a float type.
[[nodiscard]] constexpr std::uint32_t encode(const FloatFormat& format, double x, Round round = Round::nearest_even,
                                             double u = 0) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const bool negative = (bits >> 63) != 0;
  const std::uint32_t sign = negative ? format.sign : 0;
  const int field = static_cast<int>(bits >> 52) & 0x7ff;
  std::uint64_t significand = bits & ((std::uint64_t{1} << 52) - 1);
  if (field == 0x7ff) {
    if (significand != 0) return format.nan;
    return sign | (format.saturates ? format.max : format.max + 1);
  }
  // |x| = significand * 2^(exponent - 52); `shift` of its bits lie below the last place of the
  // format.
  const int exponent = field == 0 ? -1022 : field - 1023;
  if (field != 0) significand |= std::uint64_t{1} << 52;
  const int top = exponent > format.min_exponent ? exponent : format.min_exponent;
  const int shift = top - exponent + 53 - format.precision;
  const std::uint64_t below = shift < 64 ? significand >> shift : 0;
  const std::uint64_t rest = shift < 64 ? significand - (below << shift) : significand;
  // Discarded, in units in the last place: exact, but for what is below 2^-900 of one.
  const double fraction = static_cast<double>(rest) *
                          std::bit_cast<double>(static_cast<std::uint64_t>(1023 - (shift < 1000 ? shift : 1000)) << 52);
  bool away = false;
  switch (round) {
    case Round::nearest_even: away = fraction > 0.5 || (fraction == 0.5 && (below & 1) != 0); break;
    case Round::toward_zero: break;
    case Round::up: away = rest != 0 && !negative; break;
    case Round::down: away = rest != 0 && negative; break;
    case Round::stochastic: away = u < fraction; break;
  }
  // The hidden bit, where there is one, carries into the exponent field; so does a significand that
  // rounded up to 2.
  const std::uint64_t magnitude =
      (static_cast<std::uint64_t>(top - format.min_exponent) << (format.precision - 1)) + below + (away ? 1 : 0);
  if (magnitude <= format.max) return sign | static_cast<std::uint32_t>(magnitude);
  const bool keep = round == Round::toward_zero || round == (negative ? Round::up : Round::down);
  return sign | (format.saturates || keep ? format.max : format.max + 1);
}
[[nodiscard]] constexpr std::uint32_t encode(DType type, double x, Round round = Round::nearest_even, double u = 0) {
  return encode(float_format(type), x, round, u);
}

// The value of the bits of a float type. Every value of every float type is an f32.
[[nodiscard]] constexpr float decode(DType type, std::uint32_t bits) {
  if (type == DType::f32) return std::bit_cast<float>(bits);
  if (type == DType::bf16) return std::bit_cast<float>(bits << 16);
  const FloatFormat format = float_format(type);
  const std::uint32_t magnitude = bits & (format.sign - 1);
  const std::uint32_t sign = (bits & format.sign) != 0 ? 0x8000'0000u : 0u;
  const int fraction_bits = format.precision - 1;
  if (magnitude > format.max) {  // e4m3 has no infinity: 0x7f, right behind its largest, is its NaN
    const bool infinite = magnitude == format.max + 1 && type != DType::e4m3;
    return std::bit_cast<float>(sign | (infinite ? 0x7f80'0000u : 0x7fc0'0000u));
  }
  const std::uint32_t field = magnitude >> fraction_bits;
  const std::uint32_t fraction = magnitude & ((1u << fraction_bits) - 1);
  if (field == 0) {
    const auto unit = std::bit_cast<float>(static_cast<std::uint32_t>(127 + format.min_exponent - fraction_bits) << 23);
    const float value = static_cast<float>(fraction) * unit;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((field + 126 + static_cast<std::uint32_t>(format.min_exponent)) << 23) |
                              (fraction << (23 - fraction_bits)));
}

// decode() of all bit patterns: 256 or 65536 floats, made once. For f16, bf16, e4m3 and e5m2.
[[nodiscard]] const float* decode_table(DType type);

// `x` rounded to a float type, as a value.
[[nodiscard]] constexpr double round_to(DType type, double x, Round round = Round::nearest_even, double u = 0) {
  return decode(type, encode(type, x, round, u));
}

struct IntegerRange {
  std::int64_t min, max;
};
[[nodiscard]] constexpr IntegerRange integer_range(DType type) {
  switch (type) {
    case DType::s8: return {-128, 127};
    case DType::u8: return {0, 255};
    case DType::i32: return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    case DType::boolean: return {0, 1};
    default: return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};  // i64
  }
}

// To s8, u8, i32, i64 or boolean.
[[nodiscard]] std::int64_t to_integer(DType type, double x, Round round = Round::nearest_even, double u = 0);
[[nodiscard]] constexpr std::int64_t to_integer(DType type, std::int64_t x) {
  if (type == DType::boolean) return x != 0;
  const IntegerRange range = integer_range(type);
  return x < range.min ? range.min : x > range.max ? range.max : x;
}

// Element `index` of an array. `load_real` takes every dtype (an i64 beyond 2^53 is rounded to
// double), `load_integer` the integers and boolean; the stores take every dtype.
[[nodiscard]] double load_real(DType type, const void* data, std::int64_t index);
[[nodiscard]] std::int64_t load_integer(DType type, const void* data, std::int64_t index);
void store_real(DType type, void* data, std::int64_t index, double x, Round round = Round::nearest_even, double u = 0);
void store_integer(DType type, void* data, std::int64_t index, std::int64_t x);

}  // namespace postlude::inline v0::core
