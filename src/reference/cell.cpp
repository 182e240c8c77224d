#include "reference/cell.h"

#include "core/convert.h"

#include <algorithm>

namespace postlude::inline v0::reference {

namespace {

// FLT_MAX and half of its unit in the last place: from here on f32 is infinite.
constexpr double overflow = 0x1.ffffffp127;
constexpr double smallest_normal = 0x1p-126;

double to_infinity(double x) { return x >= overflow ? infinity : x <= -overflow ? -infinity : x; }

double outward(double x, double ulps, double direction) {
  const bool correctly_rounded = ulps <= 0.5;
  if (std::isinf(x) || ulps == 0 || (correctly_rounded && static_cast<double>(static_cast<float>(x)) == x)) return x;
  // 2^-20 more for the rounding of the reference's own double arithmetic.
  double error = ulps * ulp(x) * (1 + 0x1p-20);
  if (!correctly_rounded) error = std::max(error, smallest_normal);
  const double wide = x + direction * error;
  if (direction < 0 && !std::signbit(x)) return std::max(wide, 0.0);
  if (direction > 0 && std::signbit(x)) return std::min(wide, -0.0);
  return wide;
}

}  // namespace

Whole anything(std::int64_t value, DType type) {
  const core::IntegerRange range = core::integer_range(type);
  return {value, range.min, range.max};
}

double ulp(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| in [2^(exponent-1), 2^exponent)
  return std::ldexp(1.0, std::max(exponent - 1, -126) - 23);
}

Real rounded(const Real& exact, double ulps) {
  if (is_nan(exact)) return exact;
  if (is_anything(exact)) return anything(to_infinity(exact.value));
  // Where the exact result overflows for certain, f32 arithmetic may still hold it finite inside an
  // fma: low stays.
  const double low = outward(exact.low, ulps, -1), high = outward(exact.high, ulps, 1);
  return {to_infinity(exact.value), low <= -overflow ? -infinity : low, high >= overflow ? infinity : high};
}

Real widened(const Real& x, double error) {
  if (is_nan(x) || is_anything(x)) return x;
  const double e = std::isnan(error) ? infinity : error;
  return rounded({x.value, std::isinf(x.low) ? x.low : x.low - e, std::isinf(x.high) ? x.high : x.high + e}, 0.5);
}

Real hull(const Real& a, const Real& b, double value) {
  if (is_nan(a) && is_nan(b)) return a;
  if (is_nan(a) || is_nan(b)) return anything(value);
  return {value, lesser(a.low, b.low), greater(a.high, b.high)};
}

Whole hull(const Whole& a, const Whole& b, std::int64_t value) {
  return {value, std::min(a.low, b.low), std::max(a.high, b.high)};
}

}  // namespace postlude::inline v0::reference
