// Conversions against an independent formulation: the sorted list of all values of a format,
// searched by bisection.
#include "core/convert.h"
#include "core/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace postlude {
namespace {

using core::decode;
using core::encode;
using core::round_to;

// The value of the bits, from the definition of the formats and nothing of convert.h.
double value_of(DType type, std::uint32_t bits) {
  struct Fields {
    int exponent_bits, fraction_bits;
  };
  const Fields f = type == f16    ? Fields{5, 10}
                   : type == bf16 ? Fields{8, 7}
                   : type == e4m3 ? Fields{4, 3}
                                  : Fields{5, 2};
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const int fraction = static_cast<int>(bits & ((1u << f.fraction_bits) - 1));
  const int field = static_cast<int>(bits >> f.fraction_bits) & ((1 << f.exponent_bits) - 1);
  const double sign = (bits >> (f.fraction_bits + f.exponent_bits)) != 0 ? -1 : 1;
  if (type == e4m3) {
    if (field == 15 && fraction == 7) return std::nan("");
  } else if (field == (1 << f.exponent_bits) - 1) {
    return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  }
  if (field == 0) return sign * std::ldexp(fraction, 1 - bias - f.fraction_bits);
  return sign * std::ldexp((1 << f.fraction_bits) + fraction, field - bias - f.fraction_bits);
}

constexpr DType small_floats[] = {f16, bf16, e4m3, e5m2};

class SmallFloat : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    const std::uint32_t half = 1u << (8 * size_of(GetParam()) - 1);
    for (std::uint32_t bits = 0; bits < half && std::isfinite(value_of(GetParam(), bits)); ++bits)
      finite.push_back(value_of(GetParam(), bits));
  }
  // The value to which |x| rounds, from the list: `beyond` stands for overflow.
  double expected(double x, Round round, double u) const {
    const double magnitude = std::abs(x), sign = std::signbit(x) ? -1 : 1;
    const bool saturates = size_of(GetParam()) == 1;
    if (std::isinf(x)) return sign * (saturates ? finite.back() : HUGE_VAL);
    // One more value as if exponents went on: what rounds to it overflows.
    std::vector<double> more = finite;
    more.push_back(finite.back() + (finite.back() - finite[finite.size() - 2]));
    const bool far = magnitude >= more.back();
    const auto above = far ? more.end() - 1 : std::upper_bound(more.begin(), more.end(), magnitude);
    const double low = far ? more.back() : *(above - 1), high = *above;
    double result = low;
    if (magnitude != low || far) {
      const auto index = static_cast<std::size_t>(above - more.begin());
      switch (round) {
        case Round::nearest_even:
          result = magnitude - low < high - magnitude   ? low
                   : magnitude - low > high - magnitude ? high
                   : index % 2 == 0                     ? high
                                                        : low;
          break;
        case Round::toward_zero: result = low; break;
        case Round::up: result = sign > 0 ? high : low; break;
        case Round::down: result = sign > 0 ? low : high; break;
        case Round::stochastic: result = u < (magnitude - low) / (high - low) ? high : low; break;
      }
    }
    if (far) result = more.back();
    if (result == more.back()) {
      const bool keep =
          round == Round::toward_zero || (round == Round::up && sign < 0) || (round == Round::down && sign > 0);
      result = saturates || keep ? finite.back() : HUGE_VAL;
    }
    return sign * result;
  }
  std::vector<double> finite;  // all magnitudes, ascending: index == bits
};

TEST_P(SmallFloat, DecodesEveryPattern) {
  const DType type = GetParam();
  const float* table = core::decode_table(type);
  for (std::uint32_t bits = 0; bits < 1u << (8 * size_of(type)); ++bits) {
    const double value = value_of(type, bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(decode(type, bits))) << bits;
      EXPECT_TRUE(std::isnan(table[bits])) << bits;
      continue;
    }
    ASSERT_EQ(decode(type, bits), value) << bits;
    ASSERT_EQ(std::signbit(decode(type, bits)), std::signbit(value)) << bits;
    ASSERT_EQ(table[bits], value) << bits;
  }
}

TEST_P(SmallFloat, EncodesEveryValueToItself) {
  const DType type = GetParam();
  for (std::uint32_t bits = 0; bits < 1u << (8 * size_of(type)); ++bits) {
    const double value = value_of(type, bits);
    if (std::isnan(value) || (std::isinf(value) && type == e5m2)) continue;
    for (const Round round : {Round::nearest_even, Round::toward_zero, Round::up, Round::down, Round::stochastic})
      ASSERT_EQ(encode(type, value, round, 0.0), bits) << bits;
  }
}

TEST_P(SmallFloat, RoundsBetweenEveryTwoNeighbours) {
  const DType type = GetParam();
  constexpr double fractions[] = {0x1p-26, 0.25, 0.5 - 0x1p-20, 0.5, 0.5 + 0x1p-20, 0.75, 1 - 0x1p-26};
  for (std::size_t i = 0; i + 1 < finite.size(); ++i) {
    for (const double fraction : fractions) {
      for (const double sign : {1.0, -1.0}) {
        const double x = sign * (finite[i] + fraction * (finite[i + 1] - finite[i]));
        // Directly from the neighbours' indices: bisection over 65536 patterns would be slow here.
        const bool even = i % 2 == 0;
        const bool nearest = fraction > 0.5 || (fraction == 0.5 && !even);
        const std::uint32_t sign_bit = sign < 0 ? 1u << (8 * size_of(type) - 1) : 0;
        const auto bits = [&](bool up) { return sign_bit | static_cast<std::uint32_t>(i + (up ? 1 : 0)); };
        ASSERT_EQ(encode(type, x), bits(nearest)) << x;
        ASSERT_EQ(encode(type, x, Round::toward_zero), bits(false)) << x;
        ASSERT_EQ(encode(type, x, Round::up), bits(sign > 0)) << x;
        ASSERT_EQ(encode(type, x, Round::down), bits(sign < 0)) << x;
        ASSERT_EQ(encode(type, x, Round::stochastic, fraction - 0x1p-30), bits(true)) << x;
        ASSERT_EQ(encode(type, x, Round::stochastic, fraction), bits(false)) << x;
      }
    }
  }
}

TEST_P(SmallFloat, RoundsAnything) {
  const DType type = GetParam();
  std::mt19937_64 random(7);
  std::vector<double> inputs = {0.0,    -0.0,    HUGE_VAL, -HUGE_VAL, 1e300, -1e300,
                                5e-324, -5e-324, 1e-60,    0x1p-140,  3.4e38};
  for (const double x : {finite.back(), finite[1]})
    for (const double factor : {0.49, 0.5, 0.51, 1.0, 1.001, 1.03, 1.0625, 1.07, 1.2, 1.5, 2.0, 100.0}) {
      inputs.push_back(x * factor);
      inputs.push_back(-x * factor);
    }
  for (int i = 0; i < 300; ++i)
    inputs.push_back(std::ldexp(static_cast<double>(random()) * 0x1p-63 - 1, static_cast<int>(random() % 320) - 160));
  for (const double x : inputs) {
    for (const Round round : {Round::nearest_even, Round::toward_zero, Round::up, Round::down, Round::stochastic}) {
      for (const double u : {0.0, 0.3, 1 - 0x1p-24}) {
        const double e = expected(x, round, u), got = round_to(type, x, round, u);
        ASSERT_EQ(got, e) << name(type) << ' ' << x << ' ' << name(round) << ' ' << u;
        ASSERT_EQ(std::signbit(got), std::signbit(x)) << x;
      }
    }
  }
  EXPECT_TRUE(std::isnan(round_to(type, std::nan(""))));
}

INSTANTIATE_TEST_SUITE_P(All, SmallFloat, testing::ValuesIn(small_floats),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(Convert, F32IsTheMachinesOwn) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200000; ++i) {
    const auto x = std::bit_cast<double>((random() & 0x800f'ffff'ffff'ffff) | ((random() % 320 + 860) << 52));
    ASSERT_EQ(encode(f32, x), std::bit_cast<std::uint32_t>(static_cast<float>(x))) << x;
  }
  EXPECT_EQ(encode(f32, 1e39), std::bit_cast<std::uint32_t>(HUGE_VALF));
  EXPECT_EQ(encode(f32, 1e39, Round::toward_zero), 0x7f7fffffu);
}

TEST(Convert, Fp8SaturatesAtInfinityToo) {
  EXPECT_EQ(round_to(e4m3, HUGE_VAL), 448);
  EXPECT_EQ(round_to(e4m3, -1e9), -448);
  EXPECT_EQ(round_to(e4m3, 464), 448);
  EXPECT_EQ(round_to(e5m2, HUGE_VAL), 57344);
  EXPECT_EQ(round_to(e5m2, -1e9), -57344);
}

TEST(Convert, IntegersSaturateAndNaNIsZero) {
  using core::to_integer;
  EXPECT_EQ(to_integer(s8, 2.5), 2);
  EXPECT_EQ(to_integer(s8, 3.5), 4);
  EXPECT_EQ(to_integer(s8, -2.5), -2);
  EXPECT_EQ(to_integer(s8, 2.7, Round::toward_zero), 2);
  EXPECT_EQ(to_integer(s8, -2.7, Round::toward_zero), -2);
  EXPECT_EQ(to_integer(s8, 2.1, Round::up), 3);
  EXPECT_EQ(to_integer(s8, -2.1, Round::down), -3);
  EXPECT_EQ(to_integer(s8, 2.25, Round::stochastic, 0.2), 3);
  EXPECT_EQ(to_integer(s8, 2.25, Round::stochastic, 0.25), 2);
  EXPECT_EQ(to_integer(s8, -2.25, Round::stochastic, 0.2), -3);
  EXPECT_EQ(to_integer(s8, 127.4), 127);
  EXPECT_EQ(to_integer(s8, 1e30), 127);
  EXPECT_EQ(to_integer(s8, -HUGE_VAL), -128);
  EXPECT_EQ(to_integer(u8, -0.6), 0);
  EXPECT_EQ(to_integer(u8, 255.7), 255);
  EXPECT_EQ(to_integer(i32, 1e10), 2147483647);
  EXPECT_EQ(to_integer(i32, -2147483648.0), -2147483647 - 1);
  EXPECT_EQ(to_integer(i64, 9.3e18), INT64_MAX);
  EXPECT_EQ(to_integer(i64, -9.3e18), INT64_MIN);
  for (const DType type : {s8, u8, i32, i64}) EXPECT_EQ(to_integer(type, std::nan("")), 0);
  EXPECT_EQ(to_integer(boolean, std::nan("")), 1);
  EXPECT_EQ(to_integer(boolean, -0.0), 0);
  EXPECT_EQ(to_integer(s8, std::int64_t{-1000}), -128);
  EXPECT_EQ(to_integer(i32, std::int64_t{1} << 40), 2147483647);
}

TEST(Convert, LoadsWhatItStored) {
  for (int t = 0; t < dtype_count; ++t) {
    const auto type = static_cast<DType>(t);
    char memory[40];
    std::memset(memory, 0x55, sizeof memory);
    core::store_real(type, memory + 1, 2, 1.0);  // unaligned on purpose
    EXPECT_EQ(core::load_real(type, memory + 1, 2), 1.0) << name(type);
    if (!is_float(type)) { EXPECT_EQ(core::load_integer(type, memory + 1, 2), 1); }
    for (std::size_t i = 0; i < sizeof memory; ++i) {
      const auto first = static_cast<std::size_t>(1 + 2 * size_of(type));
      if (i < first || i >= first + static_cast<std::size_t>(size_of(type))) { EXPECT_EQ(memory[i], 0x55) << i; }
    }
  }
  std::uint8_t flag = 7;  // any byte but 0 is true
  EXPECT_EQ(core::load_integer(boolean, &flag, 0), 1);
  std::int64_t big = (std::int64_t{1} << 62) + 1;
  EXPECT_EQ(core::load_integer(i64, &big, 0), big);
}

// Known answers of philox4x32-10 as its authors publish them with Random123 (kat_vectors).
TEST(Philox, KnownAnswers) {
  using core::philox4x32;
  using core::PhiloxBlock;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, OneBlockServesTwoRowsAndTwoColumns) {
  const std::uint64_t seed = 0x123456789abcdef0;
  const auto block = core::philox4x32({3, 21, 5, 9}, {0x9abcdef0, 0x12345678});
  // Row 21 of blocks is rows 37 and 45: bit 3 taken out of 0b101101 leaves 0b10101.
  EXPECT_EQ(core::random_uniform(seed, 9, 5, 37, 6), core::to_uniform(block[0]));
  EXPECT_EQ(core::random_uniform(seed, 9, 5, 37, 7), core::to_uniform(block[1]));
  EXPECT_EQ(core::random_uniform(seed, 9, 5, 45, 6), core::to_uniform(block[2]));
  EXPECT_EQ(core::random_uniform(seed, 9, 5, 45, 7), core::to_uniform(block[3]));
  EXPECT_LT(core::to_uniform(~0u), 1.0f);
}

}  // namespace
}  // namespace postlude
