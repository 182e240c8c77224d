// The elementary functions on floats of all kinds, against their definitions in double. Every
// backend must keep these bounds.
#pragma once

#include "graph/ir/ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace postlude {

inline const std::vector<float>& special_values() {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  static const std::vector<float> values = {
      0.0f,        -0.0f,      inf,           -inf,           nan,     0x1p-149f,     -0x1p-149f,    0x1.fffffcp-127f,
      0x1p-126f,   -0x1p-126f, 3.4028235e38f, -3.4028235e38f, 1.0f,    -1.0f,         0.5f,          -0.5f,
      2.0f,        3.0f,       -3.0f,         1.5f,           2.5f,    -2.5f,         8388608.0f,    -8388609.0f,
      16777217.0f, 88.7f,      88.73f,        -87.4f,         -103.9f, -104.1f,       127.9f,        128.0f,
      -149.0f,     -150.1f,    1e10f,         -1e10f,         0x1p62f, 2147483648.0f, -2147483648.0f};
  return values;
}

// Floats spread over all bit patterns, the special ones first.
inline std::vector<float> many_floats(std::uint32_t step) {
  std::vector<float> values = special_values();
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += step) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return values;
}

// The distance in units in the last place of the f32 nearest to `exact`.
inline double ulps(float got, double exact) {
  const auto nearest = static_cast<float>(exact);
  if (std::isnan(nearest)) return std::isnan(got) ? 0 : 1e30;
  if (std::isnan(got)) return 1e30;
  if (got == nearest) return 0;
  // Beyond the largest float, the next step of the largest binade stands for infinity.
  const double limit = 0x1p128;
  const double a = std::isinf(got) ? std::copysign(limit, got) : static_cast<double>(got);
  const double b = std::isinf(nearest) ? std::copysign(limit, nearest) : exact;
  const int exponent = std::max(
      -126, std::ilogb(std::isinf(nearest) ? 0x1p127 : static_cast<double>(nearest == 0 ? 0x1p-126f : nearest)));
  return std::abs(a - b) / std::ldexp(1.0, exponent - 23);
}

struct Elementary {
  Op op;
  double (*exact)(double);
};
inline constexpr Elementary elementary[] = {
    {Op::exp, [](double x) { return std::exp(x); }},
    {Op::exp2, [](double x) { return std::exp2(x); }},
    {Op::expm1, [](double x) { return std::expm1(x); }},
    {Op::log, [](double x) { return std::log(x); }},
    {Op::log2, [](double x) { return std::log2(x); }},
    {Op::log1p, [](double x) { return std::log1p(x); }},
    {Op::tanh, [](double x) { return std::tanh(x); }},
    {Op::erf, [](double x) { return std::erf(x); }},
    {Op::sqrt, [](double x) { return std::sqrt(x); }},
    {Op::rsqrt, [](double x) { return 1 / std::sqrt(x); }},
    {Op::reciprocal, [](double x) { return 1 / x; }},
    {Op::sin, [](double x) { return std::sin(x); }},
    {Op::cos, [](double x) { return std::cos(x); }},
    {Op::floor, [](double x) { return std::floor(x); }},
    {Op::ceil, [](double x) { return std::ceil(x); }},
    {Op::round, [](double x) { return std::nearbyint(x); }},
    {Op::neg, [](double x) { return -x; }},
    {Op::abs, [](double x) { return std::abs(x); }},
};

// Calls apply(op, a, b) for op of each a, or of each a and b, and checks the results: errors,
// zeros' signs, C's special cases of pow.
inline void expect_elementary_errors(const auto& apply) {
  const std::vector<float> x = many_floats(2039);  // a prime: about two million floats
  for (const Elementary& function : elementary) {
    const std::vector<float> y = apply(function.op, x, std::vector<float>());
    double worst = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = ulps(y[i], function.exact(static_cast<double>(x[i])));
      if (error > worst) worst = error, at = i;
    }
    // A correctly rounded result differs by up to half from the exact one; ulps() gives 0 for it. The reference allows
    // 2^-20 more (reference/cell.cpp): a Newton step from an approximation rounds wrong beside a midpoint.
    EXPECT_LE(worst, info(function.op).ulps * (1 + 0x1p-20))
        << info(function.op).id << " of " << x[at] << " gives " << y[at];
    testing::Test::RecordProperty(std::string(info(function.op).id), std::to_string(worst));
  }
  for (const Op op : {Op::expm1, Op::log1p, Op::tanh, Op::erf, Op::sqrt, Op::sin, Op::floor, Op::ceil, Op::round}) {
    const std::vector<float> y = apply(op, std::vector<float>{-0.0f, 0.0f}, std::vector<float>());
    EXPECT_TRUE(y[0] == 0 && std::signbit(y[0])) << info(op).id;
    EXPECT_TRUE(y[1] == 0 && !std::signbit(y[1])) << info(op).id;
  }

  std::vector<float> a, b;
  for (const float base : special_values()) {
    for (const float exponent : special_values()) a.push_back(base), b.push_back(exponent);
  }
  std::mt19937 random(7);
  for (int i = 0; i < 1000000; ++i) {
    const bool wild = i % 4 == 0;
    std::uniform_real_distribution<float> moderate(-40.0f, 40.0f);
    a.push_back(wild ? std::bit_cast<float>(static_cast<std::uint32_t>(random())) : std::abs(moderate(random)));
    b.push_back(wild ? std::bit_cast<float>(static_cast<std::uint32_t>(random())) : moderate(random));
  }
  const std::vector<float> y = apply(Op::pow, a, b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double exact = std::pow(static_cast<double>(a[i]), static_cast<double>(b[i]));
    ASSERT_LE(ulps(y[i], exact), info(Op::pow).ulps)
        << a[i] << " ** " << b[i] << " gives " << y[i] << ", not " << exact;
  }
}

}  // namespace postlude
