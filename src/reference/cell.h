// A cell is one element of a value as the reference knows it: its value in exact arithmetic (in
// double), and the interval in which every correct backend's value lies.
//
// An interval serves every rule at once. An operation maps it, which accounts for its Lipschitz
// constant; a discontinuity takes the hull of its branches; saturation makes it narrow again; and
// integers (where an index may be one of several) need no rule of their own.
#pragma once

#include <postlude/dtype.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace postlude::inline v0::reference {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double unit_roundoff = 0x1p-24;  // of f32: half the distance from 1 to its successor

// An f32. low <= value <= high, with two exceptions: NaN in all three is an element that must be
// NaN, and [-inf, inf] is one that may be anything, NaN too (0 * inf where the infinity is not
// certain). -0 is below +0: an interval from -0 to +0 is a zero of unknown sign.
struct Real {
  double value, low, high;
};

// An i32, i64 or boolean (0 or 1).
struct Whole {
  std::int64_t value, low, high;
};

// An element whose type is known from outside.
union Cell {
  Real real;
  Whole whole;
};

[[nodiscard]] inline bool below(double a, double b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); }
[[nodiscard]] inline double lesser(double a, double b) { return below(b, a) ? b : a; }
[[nodiscard]] inline double greater(double a, double b) { return below(a, b) ? b : a; }

[[nodiscard]] inline Real point(double value) { return {value, value, value}; }
[[nodiscard]] inline Real anything(double value) { return {value, -infinity, infinity}; }
[[nodiscard]] inline bool is_anything(const Real& x) { return x.low == -infinity && x.high == infinity; }
[[nodiscard]] inline bool is_nan(const Real& x) { return std::isnan(x.low); }  // certainly
// Known to the bit.
[[nodiscard]] inline bool is_point(const Real& x) {
  return std::isnan(x.low) || (x.low == x.high && std::signbit(x.low) == std::signbit(x.high));
}

[[nodiscard]] inline Whole point(std::int64_t value) { return {value, value, value}; }
[[nodiscard]] inline bool is_point(const Whole& x) { return x.low == x.high; }
[[nodiscard]] Whole anything(std::int64_t value, DType type);  // of an integer type: its whole range

[[nodiscard]] inline Cell cell(const Real& x) {
  Cell c;
  c.real = x;
  return c;
}
[[nodiscard]] inline Cell cell(const Whole& x) {
  Cell c;
  c.whole = x;
  return c;
}

// The distance between neighbouring f32 at |x|.
[[nodiscard]] double ulp(double x);

// The result of an f32 operation with the op table's `ulps` whose exact result lies in `exact`:
// widened by so many units in the last place, and by nothing where the operation is correctly
// rounded and the bounds are f32 numbers. The exact result itself stays inside, because an
// operation may be contracted into an fma. Beyond the largest f32 is infinity. An operation that is
// not correctly rounded may flush a denormal result to zero. Rounding never changes the sign.
[[nodiscard]] Real rounded(const Real& exact, double ulps);

// Widened by an absolute error, then as by a correctly rounded operation.
[[nodiscard]] Real widened(const Real& x, double error);

// The smallest interval with both.
[[nodiscard]] Real hull(const Real& a, const Real& b, double value);
[[nodiscard]] Whole hull(const Whole& a, const Whole& b, std::int64_t value);

}  // namespace postlude::inline v0::reference
