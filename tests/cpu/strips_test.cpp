// Every strip function against a definition in double, on every instruction set that this machine
// has.
#include "core/convert.h"
#include "core/philox.h"
#include "cpu/strips/ops.h"
#include "elementary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <random>

namespace postlude::cpu {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

void apply(StripFn function, const StripArg* args, std::int64_t rows, std::int64_t columns, void* out) {
  Strip strip;
  strip.rows = rows;
  strip.columns = strip.out_row_stride = columns;
  strip.args = args;
  strip.out = out;
  function(strip);
}

class Strips : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > machine_isa()) GTEST_SKIP() << "this machine has no " << name(GetParam());
  }
  [[nodiscard]] const StripTable& table() const { return strips(GetParam()); }

  std::vector<float> unary(StripFn function, const std::vector<float>& x) const {
    std::vector<float> out(x.size());
    const StripArg arg{x.data(), 0, 1};
    apply(function, &arg, 1, static_cast<std::int64_t>(x.size()), out.data());
    return out;
  }
  std::vector<float> binary(StripFn function, const std::vector<float>& a, const std::vector<float>& b) const {
    std::vector<float> out(a.size());
    const StripArg args[] = {{a.data(), 0, 1}, {b.data(), 0, 1}};
    apply(function, args, 1, static_cast<std::int64_t>(a.size()), out.data());
    return out;
  }
};
std::string isa_name(const testing::TestParamInfo<Isa>& info) { return std::string(name(info.param)); }
INSTANTIATE_TEST_SUITE_P(Isa, Strips, testing::Values(Isa::portable, Isa::avx2, Isa::avx512), isa_name);

TEST_P(Strips, ElementaryFunctionsKeepTheirErrors) {
  expect_elementary_errors([&](Op op, const std::vector<float>& a, const std::vector<float>& b) {
    const StripFn function = table().ops[static_cast<int>(op)][0];
    return b.empty() ? unary(function, a) : binary(function, a, b);
  });
}

// Blocks of moderate exponents are computed a shorter way, and the rest of a row another.
TEST_P(Strips, AnExponentialDoesNotDependOnItsNeighbours) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> moderate(-87.0f, 87.0f), far(-150.0f, 150.0f);
  std::vector<float> x = {-87.0f, 87.0f, 0.0f, -0.0f};
  while (x.size() < 4096) x.push_back(moderate(random));
  for (const float special : special_values())
    x.insert(x.end(), {special, far(random), far(random) * 1e4f, moderate(random)});
  while (x.size() % 128 != 77) x.push_back(far(random));

  const auto run = [](StripFn function, StripArg a, StripArg b, std::int64_t columns) {
    std::vector<float> out(static_cast<std::size_t>(columns));
    const StripArg args[] = {a, b};
    apply(function, args, 1, columns, out.data());
    return out;
  };
  const StripFn exp = table().ops[static_cast<int>(Op::exp)][0], difference = table().exp_difference;
  const auto n = static_cast<std::int64_t>(x.size());
  const float zero = 0;
  std::vector<float> zeros(x.size(), zero), negative;
  for (const float v : x) negative.push_back(-v);
  const StripArg one{&zero, 1, 0};
  const std::vector<float> together = run(exp, {x.data(), n, 1}, {}, n);
  const std::vector<float> forms[] = {run(difference, {x.data(), n, 1}, one, n),
                                      run(difference, {x.data(), n, 1}, {zeros.data(), n, 1}, n),
                                      run(difference, one, {negative.data(), n, 1}, n)};
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (const float e : {forms[0][i], forms[1][i], forms[2][i], run(exp, {&x[i], 1, 1}, {}, 1)[0],
                          run(exp, {&x[i], 1, 0}, {}, 3)[2], run(difference, one, {&negative[i], 0, 1}, 1)[0]}) {
      if (std::isnan(x[i])) ASSERT_TRUE(std::isnan(e) && std::isnan(together[i]));
      else ASSERT_EQ(std::bit_cast<std::uint32_t>(e), std::bit_cast<std::uint32_t>(together[i])) << x[i];
    }
  }
}

TEST_P(Strips, MinAndMaxPropagateNanAndOrderZeros) {
  std::vector<float> a, b;
  for (const float x : special_values()) {
    for (const float y : special_values()) a.push_back(x), b.push_back(y);
  }
  const std::vector<float> low = binary(table().ops[static_cast<int>(Op::min)][0], a, b);
  const std::vector<float> high = binary(table().ops[static_cast<int>(Op::max)][0], a, b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) {
      EXPECT_TRUE(std::isnan(low[i]) && std::isnan(high[i]));
    } else if (a[i] == 0 && b[i] == 0) {
      EXPECT_EQ(std::signbit(low[i]), std::signbit(a[i]) || std::signbit(b[i]));
      EXPECT_EQ(std::signbit(high[i]), std::signbit(a[i]) && std::signbit(b[i]));
    } else {
      EXPECT_EQ(low[i], std::min(a[i], b[i]));
      EXPECT_EQ(high[i], std::max(a[i], b[i]));
    }
  }
}

// Rows have every length around a block: the maximum's short way must see whatever needs the long
// one.
TEST_P(Strips, TheExtremeOfARowPropagatesNanAndOrdersZeros) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> kinds = {
      {-1, -2, -3}, {-1, -2, nan}, {1, -nan, 3},     {-inf, -1, -2}, {-inf},     {-inf, nan, inf}, {-0.0f, 0.0f},
      {-0.0f},      {-1, -0.0f},   {1, 0.0f, -0.0f}, {inf, -1},      {3e38f, 1}, {1e-45f, -0.0f}};
  for (const std::vector<float>& kind : kinds) {
    for (const std::int64_t n : {1, 2, 3, 63, 64, 65, 127, 128, 129, 200, 1000}) {
      for (const int seed : {1, 2}) {
        std::mt19937 random(static_cast<unsigned>(seed + n));
        std::vector<float> x(static_cast<std::size_t>(n), kind[0]);
        for (std::size_t k = 1; k < kind.size(); ++k) x[random() % x.size()] = kind[k];
        for (const bool largest : {false, true}) {
          float want = x[0];
          for (const float y : x) {
            if (std::isnan(y) || std::isnan(want)) want = nan;
            else if (y == 0 && want == 0) want = std::signbit(y) == largest ? want : y;
            else want = largest ? std::max(want, y) : std::min(want, y);
          }
          float got = largest ? -inf : inf;
          const StripArg arg{x.data(), n, 1};
          ReduceStrip strip;
          strip.rows = 1;
          strip.columns = n;
          strip.args = &arg;
          strip.state[0] = &got;
          table().along[static_cast<int>(largest ? StripReducer::max : StripReducer::min)][0](strip);
          if (std::isnan(want)) EXPECT_TRUE(std::isnan(got)) << n;
          else EXPECT_TRUE(got == want && std::signbit(got) == std::signbit(want)) << n << ": " << got << ", " << want;
        }
      }
    }
  }
}

// One step for two operations gives the bits of two steps.
TEST_P(Strips, TwoOperationsInOneGiveTheBitsOfBoth) {
  constexpr std::int64_t rows = 3, n = 131;
  std::mt19937 random(9);
  std::normal_distribution<float> some;
  std::vector<float> data[3];
  for (std::vector<float>& x : data) {
    x.resize(rows * n);
    for (float& value : x) value = some(random);
  }
  const auto run = [&](StripFn function, std::initializer_list<StripArg> args) {
    std::vector<float> out(rows * n);
    apply(function, args.begin(), rows, n, out.data());
    return out;
  };
  const auto op = [&](Op which) { return table().ops[static_cast<int>(which)][0]; };
  const StripArg a{data[0].data(), n, 1};
  for (const StripArg& b :
       {StripArg{data[1].data(), n, 1}, StripArg{data[1].data(), 1, 0}, StripArg{data[1].data(), 0, 1}}) {
    const std::vector<float> rounded = run(table().cast[0][static_cast<int>(DType::bf16)], {a});
    const StripArg r{rounded.data(), n, 1};
    EXPECT_EQ(run(table().rounded_add, {a, b}), run(op(Op::add), {r, b}));
    EXPECT_EQ(run(table().rounded_sub, {a, b}), run(op(Op::sub), {r, b}));
    EXPECT_EQ(run(table().rounded_mul, {a, b}), run(op(Op::mul), {r, b}));
    const std::vector<float> scaled = run(op(Op::mul), {a, b});
    const StripArg c{data[2].data(), 0, 1};
    EXPECT_EQ(run(table().product, {a, b, c}), run(op(Op::mul), {StripArg{scaled.data(), n, 1}, c}));
    const std::vector<float> added = run(op(Op::add), {a, b});
    EXPECT_EQ(run(table().added_max, {a, b, c}), run(op(Op::max), {StripArg{added.data(), n, 1}, c}));
  }
}

// Rows of few elements become one row, whatever their arguments: a strip gives the bits of its rows alone.
TEST_P(Strips, RowsOfFewElementsAreAsRowsAlone) {
  std::mt19937 random(11);
  std::normal_distribution<float> some;
  std::vector<float> data[3];
  std::vector<std::int64_t> wide[2];
  std::vector<std::int32_t> flags;
  for (int i = 0; i < 30000; ++i) {
    for (std::vector<float>& x : data) x.push_back(some(random));
    for (std::vector<std::int64_t>& x : wide) x.push_back(static_cast<std::int64_t>(random()) << 20);
    flags.push_back(static_cast<std::int32_t>(random() % 2));
  }
  for (const std::int64_t columns : {1, 2, 3, 7, 16, 17}) {
    for (const std::int64_t rows : {3, 4, 5, 40, 700}) {
      const auto expect_rows_alone = [&](StripFn function, std::vector<StripArg> args,
                                         std::vector<std::int64_t> sizes) {
        const std::int64_t size = sizes.back();
        std::vector<char> together(static_cast<std::size_t>(rows * columns * size)), alone(together);
        apply(function, args.data(), rows, columns, together.data());
        for (std::int64_t r = 0; r < rows; ++r) {
          apply(function, args.data(), 1, columns, alone.data() + r * columns * size);
          for (std::size_t i = 0; i < args.size(); ++i)
            args[i].data = static_cast<const char*>(args[i].data) + args[i].row_stride * sizes[i];
        }
        EXPECT_EQ(together, alone) << rows << " x " << columns;
      };
      const auto op = [&](Op which, int type) { return table().ops[static_cast<int>(which)][type]; };
      const StripArg forms[] = {{nullptr, columns, 1}, {nullptr, columns + 3, 1}, {nullptr, 0, 1}, {nullptr, 1, 0}, {}};
      for (const StripArg& x : forms) {
        for (const StripArg& y : forms) {
          const auto of = [](const StripArg& form, const void* at) {
            return StripArg{at, form.row_stride, form.column_stride};
          };
          const StripArg a = of(x, data[0].data()), b = of(y, data[1].data());
          for (const StripFn function : {op(Op::add, 0), op(Op::div, 0), op(Op::max, 0), table().exp_difference})
            expect_rows_alone(function, {a, b}, {4, 4, 4});
          expect_rows_alone(op(Op::add, 2), {of(x, wide[0].data()), of(y, wide[1].data())}, {8, 8, 8});
          expect_rows_alone(op(Op::lt, 2), {of(x, wide[0].data()), of(y, wide[1].data())}, {8, 8, 4});
          expect_rows_alone(op(Op::where, 0), {of(y, flags.data()), a, b}, {4, 4, 4, 4});
          for (const StripArg& z : forms) {
            expect_rows_alone(table().product, {a, b, of(z, data[2].data())}, {4, 4, 4, 4});
            expect_rows_alone(table().added_max, {a, b, of(z, data[2].data())}, {4, 4, 4, 4});
          }
        }
      }
    }
  }
}

// A row's statistics are the same whichever rows are beside it, and what they are by definition.
TEST_P(Strips, RowsOfFewElementsHaveStatisticsOfTheirOwn) {
  std::mt19937 random(12);
  std::normal_distribution<float> some(3.0f);
  for (const std::int64_t n : {1, 2, 3, 15, 16, 17, 31, 32, 33, 64, 70, 129, 1000, 1030}) {
    for (const std::int64_t rows : {1, 3, 64, 65, 130}) {
      const std::int64_t pitch = n + 5;
      std::vector<float> x(static_cast<std::size_t>(rows * pitch));
      for (float& value : x) value = some(random);
      if (rows > 2) x[static_cast<std::size_t>(pitch + n / 2)] = nan, x[static_cast<std::size_t>(2 * pitch)] = -inf;
      struct States {
        std::vector<float> value, second, third;
        std::vector<std::int64_t> place;
      };
      const auto run = [&](StripReducer reducer, std::int64_t together) {
        const auto size = static_cast<std::size_t>(rows);
        const bool least = reducer == StripReducer::min, product = reducer == StripReducer::prod;
        const bool adds = reducer == StripReducer::sum || reducer == StripReducer::welford;
        States states{std::vector<float>(size, least     ? inf
                                               : product ? 1.0f
                                               : adds    ? 0.0f
                                                         : -inf),
                      std::vector<float>(size), std::vector<float>(size), std::vector<std::int64_t>(size, -1)};
        for (std::int64_t r = 0; r < rows; r += together) {
          const StripArg args[2] = {{x.data() + r * pitch, pitch, 1}, {}};
          ReduceStrip strip;
          strip.rows = std::min(together, rows - r);
          strip.columns = n;
          strip.args = args;
          strip.state_row_stride = 1;
          const bool places = reducer == StripReducer::argmax;
          strip.state[0] = states.value.data() + r;
          strip.state[1] = places ? static_cast<void*>(states.place.data() + r) : states.second.data() + r;
          strip.state[2] = states.third.data() + r;
          table().along[static_cast<int>(reducer)][0](strip);
        }
        return states;
      };
      for (const StripReducer reducer : {StripReducer::sum, StripReducer::prod, StripReducer::min, StripReducer::max,
                                         StripReducer::argmax, StripReducer::online_softmax, StripReducer::welford}) {
        const States all = run(reducer, rows), alone = run(reducer, 1);
        const auto same = [&](const std::vector<float>& a, const std::vector<float>& b) {
          return std::equal(a.begin(), a.end(), b.begin(),
                            [](float y, float z) { return y == z || (std::isnan(y) && std::isnan(z)); });
        };
        EXPECT_TRUE(same(all.value, alone.value) && same(all.second, alone.second) && same(all.third, alone.third) &&
                    all.place == alone.place)
            << static_cast<int>(reducer) << ": " << rows << " x " << n;
        for (std::int64_t r = 0; r < rows; ++r) {
          const float* const row = x.data() + r * pitch;
          const float* const found = std::find_if(row, row + n, [](float y) { return std::isnan(y); });
          const float* const first = found < row + n ? found : std::max_element(row, row + n);
          const auto at = static_cast<std::size_t>(r);
          if (reducer == StripReducer::argmax) { EXPECT_EQ(all.place[at], first - row); }
          if (reducer == StripReducer::max || reducer == StripReducer::argmax) {
            EXPECT_TRUE(all.value[at] == *first || (std::isnan(*first) && std::isnan(all.value[at])));
          }
          if (found < row + n || std::isinf(row[0])) continue;
          double sum = 0, squares = 0, exponentials = 0;
          for (std::int64_t c = 0; c < n; ++c) sum += row[c], exponentials += std::exp(double(row[c]) - double(*first));
          for (std::int64_t c = 0; c < n; ++c) squares += (row[c] - sum / double(n)) * (row[c] - sum / double(n));
          if (reducer == StripReducer::sum) {
            EXPECT_NEAR(all.value[at], sum, n > 70 ? 1e-6 * std::abs(sum) : 1e-4);
          } else if (reducer == StripReducer::online_softmax) {
            EXPECT_NEAR(all.second[at], exponentials, 1e-5 * exponentials);
          } else if (reducer == StripReducer::welford) {
            EXPECT_NEAR(all.value[at], sum / double(n), 1e-5);
            EXPECT_NEAR(all.second[at], squares, 1e-4 * (squares + 1));
            EXPECT_EQ(all.third[at], float(n));
          }
        }
      }
    }
  }
}

// A function that sums while it computes gives the sum of its results, whether they are kept or
// not, and neither asking for memory nor storing past the caches changes anything.
TEST_P(Strips, FunctionsSumTheirResults) {
  constexpr std::int64_t rows = 3, most = 300;
  std::mt19937 random(5);
  std::uniform_real_distribution<float> some(0.5f, 2.0f);
  std::vector<float> a(rows * most), b(rows * most);
  for (float& x : a) x = some(random);
  for (float& x : b) x = some(random);
  const StripAhead ahead[] = {{reinterpret_cast<const char*>(a.data()), 700},
                              {reinterpret_cast<const char*>(b.data()), 64}};
  const auto check = [&](StripFn function, int arity, const std::string& what) {
    for (const std::int64_t n : {1, 15, 64, 127, 128, 129, 300}) {
      for (const std::int64_t step : {0, 1}) {  // of the last argument: one value a row, or all
        if (step == 1 && function == table().exp_difference) continue;
        StripArg args[] = {{a.data(), n, 1}, {b.data(), n, 1}, {a.data(), n, 1}};
        args[arity - 1].column_stride = step;
        std::vector<float> plain(static_cast<std::size_t>(rows * n)), kept = plain, block(block_columns);
        float sums[2 * rows] = {1, 0, 1, 0, 1, 0}, same[2 * rows] = {1, 0, 1, 0, 1, 0};
        Strip strip;
        strip.rows = rows;
        strip.columns = strip.out_row_stride = n;
        strip.args = args;
        strip.out = plain.data();
        function(strip);
        strip.sums = sums;
        strip.sum_row_stride = 2;
        strip.out = kept.data();
        function(strip);
        ASSERT_EQ(kept, plain) << what << ' ' << n;
        alignas(64) float past[rows * most];
        strip.sums = nullptr;
        strip.out = past;
        strip.past = true;
        function(strip);
        strip.past = false;
        ASSERT_EQ(std::memcmp(past, plain.data(), plain.size() * sizeof(float)), 0) << what << ' ' << n;
        strip.sums = same;
        strip.keeps = false;
        strip.out = block.data();
        strip.ahead = ahead;
        strip.ahead_count = 2;
        function(strip);
        for (std::int64_t r = 0; r < rows; ++r) {
          double sum = 1, size = 1;
          for (std::int64_t c = 0; c < n; ++c) {
            sum += static_cast<double>(plain[static_cast<std::size_t>(r * n + c)]);
            size += std::abs(static_cast<double>(plain[static_cast<std::size_t>(r * n + c)]));
          }
          EXPECT_NEAR(sums[2 * r], sum, 1e-6 * size) << what << ' ' << n;
          EXPECT_EQ(sums[2 * r], same[2 * r]) << what << ' ' << n;
          EXPECT_EQ(sums[2 * r + 1], 0);
        }
      }
    }
  };
  for (const Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::floordiv, Op::min, Op::max, Op::pow})
    check(table().ops[static_cast<int>(op)][0], 2, std::string(info(op).id));
  for (const Op op :
       {Op::exp, Op::exp2, Op::log, Op::sqrt, Op::rsqrt, Op::reciprocal, Op::neg, Op::abs, Op::tanh, Op::erf})
    check(table().ops[static_cast<int>(op)][0], 1, std::string(info(op).id));
  check(table().exp_difference, 2, "exp_difference");
  check(table().product, 3, "product");
  check(table().cast[compute_index(DType::f32)][static_cast<int>(DType::bf16)], 1, "cast");
}

// Each block takes its products' logarithms, or its elements' where a product might leave the range
// of normal numbers.
TEST_P(Strips, SumsOfLogarithmsHoldAlsoOutOfRange) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> exponent(-14.9f, 14.9f);
  for (const std::int64_t n : {1, 17, 255, 256, 600}) {
    for (const float extra : {1.0f, 0x1p-140f, 0x1p100f, 0.0f, inf, -1.0f, nan}) {
      std::vector<float> x(static_cast<std::size_t>(3 * n));
      for (float& v : x) v = std::exp2(exponent(random));
      x[static_cast<std::size_t>(n - 1)] = extra;  // of the first of three rows, which are one where they share a sum
      for (const std::int64_t stride : {0, 1}) {
        float sums[3] = {1, 1, 1};
        const StripArg arg{x.data(), n, 1};
        Strip strip;
        strip.rows = 3;
        strip.columns = strip.out_row_stride = n;
        strip.args = &arg;
        strip.sums = sums;
        strip.sum_row_stride = stride;
        strip.keeps = false;
        table().logarithms(strip);
        for (std::int64_t r = 0; r < (stride == 0 ? 1 : 3); ++r) {
          double sum = 1, size = 1;
          for (std::int64_t i = r * n; i < (stride == 0 ? 3 : r + 1) * n; ++i) {
            const double y = std::log(static_cast<double>(x[static_cast<std::size_t>(i)]));
            sum += y;
            size += std::abs(y) + 1;
          }
          if (std::isfinite(sum)) EXPECT_NEAR(sums[r], sum, 0x1p-23 * size) << n << ' ' << extra << ' ' << r;
          else EXPECT_EQ(ulps(sums[r], sum), 0) << n << ' ' << extra << ' ' << r;
        }
      }
    }
  }
}

TEST_P(Strips, FmaRoundsOnce) {
  std::mt19937 random(11);
  std::vector<float> a, b, c;
  for (int i = 0; i < 200000; ++i) {
    std::uniform_real_distribution<float> unit(-2.0f, 2.0f);
    a.push_back(unit(random));
    b.push_back(unit(random));
    // Values close to -a * b, where two roundings differ from one.
    c.push_back(i % 2 ? -(a.back() * b.back()) : std::ldexp(unit(random), static_cast<int>(random() % 60) - 30));
  }
  std::vector<float> out(a.size());
  const StripArg args[] = {{a.data(), 0, 1}, {b.data(), 0, 1}, {c.data(), 0, 1}};
  Strip strip;
  strip.rows = 1;
  strip.columns = strip.out_row_stride = static_cast<std::int64_t>(a.size());
  strip.out = out.data();
  strip.args = args;
  table().ops[static_cast<int>(Op::fma)][0](strip);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(out[i], std::fma(a[i], b[i], c[i])) << i;
}

TEST_P(Strips, IntegersWrapAndFloorDivisionFloors) {
  constexpr auto least = std::numeric_limits<std::int32_t>::min(), most = std::numeric_limits<std::int32_t>::max();
  const std::int32_t values[] = {least, least + 1, -7, -1, 0, 1, 2, 7, most};
  for (const std::int32_t x : values) {
    for (const std::int32_t y : values) {
      const StripArg args[] = {{&x, 0, 0}, {&y, 0, 0}};
      std::int32_t out = 0;
      Strip strip{1, 1, &out, 1, 1, args, nullptr};
      auto run = [&](Op op) {
        table().ops[static_cast<int>(op)][1](strip);
        return out;
      };
      const std::int64_t a = x, b = y;
      EXPECT_EQ(run(Op::add), static_cast<std::int32_t>(a + b));
      EXPECT_EQ(run(Op::sub), static_cast<std::int32_t>(a - b));
      EXPECT_EQ(run(Op::mul), static_cast<std::int32_t>(a * b));
      const std::int64_t floored =
          b == 0 ? 0 : static_cast<std::int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
      EXPECT_EQ(run(Op::floordiv), static_cast<std::int32_t>(floored)) << x << " // " << y;
      EXPECT_EQ(run(Op::neg), static_cast<std::int32_t>(-a));
    }
  }
}

TEST_P(Strips, LoadsAgreeWithTheDefinition) {
  for (const DType type : {DType::f16, DType::bf16, DType::e4m3, DType::e5m2, DType::s8, DType::u8, DType::boolean}) {
    const std::int64_t count = size_of(type) == 1 ? 256 : 65536;
    std::vector<std::uint8_t> memory(static_cast<std::size_t>(count * size_of(type)));
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(memory.data() + i * size_of(type), &i, static_cast<std::size_t>(size_of(type)));
    std::vector<float> out(static_cast<std::size_t>(count));
    const StripArg arg{memory.data(), 0, 1};
    Strip strip{1, count, out.data(), count, 1, &arg, nullptr};
    table().load[static_cast<int>(type)](strip);
    for (std::int64_t i = 0; i < count; ++i) {
      if (is_float(type)) {
        const double expected = core::load_real(type, memory.data(), i);
        const auto got = static_cast<double>(out[static_cast<std::size_t>(i)]);
        EXPECT_TRUE(got == expected ? std::signbit(got) == std::signbit(expected)
                                    : std::isnan(got) && std::isnan(expected))
            << i;
      } else {
        EXPECT_EQ(std::bit_cast<std::int32_t>(out[static_cast<std::size_t>(i)]),
                  core::load_integer(type, memory.data(), i))
            << i;
      }
    }
  }
}

TEST_P(Strips, StoresAndCastsAgreeWithTheDefinition) {
  // All floats whose lower bits decide roundings: a prime step, and the neighbourhoods of the
  // halves of every format.
  std::vector<float> x = many_floats(65521);
  for (std::uint32_t high = 0; high < 65536; ++high) {
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, 0x1000u, 0x0fffu, 0x1001u}) {
      x.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  const auto count = static_cast<std::int64_t>(x.size());
  const StripArg arg{x.data(), 0, 1};
  for (int t = 0; t < dtype_count; ++t) {
    const auto type = static_cast<DType>(t);
    const auto size = static_cast<std::size_t>(size_of(type));
    std::vector<std::uint8_t> got(x.size() * size), expected(x.size() * size);
    std::vector<std::int64_t> value(x.size());  // room for i64
    Strip strip{1, count, got.data(), count, 1, &arg, nullptr};
    table().store[0][t](strip);
    strip.out = value.data();
    table().cast[0][t](strip);
    for (std::int64_t i = 0; i < count; ++i) {
      core::store_real(type, expected.data(), i, static_cast<double>(x[static_cast<std::size_t>(i)]));
      const bool is_nan = type == DType::f32 && std::isnan(x[static_cast<std::size_t>(i)]);
      if (is_nan) continue;  // payloads are nobody's promise
      ASSERT_EQ(std::memcmp(got.data() + i * size, expected.data() + i * size, size), 0)
          << name(type) << " of " << x[static_cast<std::size_t>(i)];
      if (is_float(type)) {
        const float cast = reinterpret_cast<const float*>(value.data())[i];
        const auto want = static_cast<float>(core::load_real(type, expected.data(), i));
        ASSERT_TRUE(cast == want || (std::isnan(cast) && std::isnan(want))) << name(type);
      } else {
        const std::int64_t cast = type == DType::i64 ? value[static_cast<std::size_t>(i)]
                                                     : reinterpret_cast<const std::int32_t*>(value.data())[i];
        ASSERT_EQ(cast, core::load_integer(type, expected.data(), i))
            << name(type) << " of " << x[static_cast<std::size_t>(i)];
      }
    }
  }
}

TEST_P(Strips, StoresPastTheCachesAreStores) {
  constexpr std::int64_t rows = 3, n = 320;  // blocks and a rest
  const std::vector<float> x = many_floats(1 << 22);
  const StripArg from{x.data(), n, 1};
  for (int to = 0; to < dtype_count; ++to) {
    alignas(64) char plain[rows * n * 8] = {}, past[sizeof plain] = {};
    Strip strip;
    strip.rows = rows;
    strip.columns = strip.out_row_stride = n;
    strip.args = &from;
    strip.out = plain;
    table().store[compute_index(DType::f32)][to](strip);
    strip.out = past;
    strip.past = true;
    table().store[compute_index(DType::f32)][to](strip);
    EXPECT_EQ(std::memcmp(past, plain, sizeof plain), 0) << to;
  }
}

TEST_P(Strips, RandomIsPhilox) {
  constexpr std::int64_t rows = 37, columns = 53;
  std::vector<std::int64_t> m(rows), n(columns);
  for (std::int64_t i = 0; i < rows; ++i) m[static_cast<std::size_t>(i)] = 3 + i;
  for (std::int64_t j = 0; j < columns; ++j) n[static_cast<std::size_t>(j)] = 1 + 3 * j;
  std::vector<float> out(rows * columns);
  const StripArg args[] = {{m.data(), 1, 0}, {n.data(), 0, 1}};
  const RandomStrip random{0x123456789abcdef0, 5, 2};
  Strip strip{rows, columns, out.data(), columns, 1, args, &random};
  table().random(strip);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      EXPECT_EQ(out[static_cast<std::size_t>(i * columns + j)],
                core::random_uniform(random.seed, 5, 2, 3 + i, 1 + 3 * j));
    }
  }
}

// Rows one after another, of which some share their blocks; `apart`: elements between rows that stay as they are.
TEST_P(Strips, RandomIsPhiloxInNarrowAndRaggedStrips) {
  const RandomStrip random{0x123456789abcdef0, 5, 2};
  for (const std::int64_t columns : {1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 14, 31, 150}) {
    for (const std::int64_t rows : {1, 2, 5, 8, 9, 16, 24, 41, 144, 300}) {
      for (const auto& [m0, n0, apart] : {std::array<std::int64_t, 3>{0, 0, 0}, {24, 1, 0}, {13, 6, 3}, {7, 3, 0}}) {
        std::vector<std::int64_t> m(static_cast<std::size_t>(rows)), n(static_cast<std::size_t>(columns));
        std::iota(m.begin(), m.end(), m0);
        std::iota(n.begin(), n.end(), n0);
        const std::int64_t stride = columns + apart;
        std::vector<float> out(static_cast<std::size_t>(rows * stride + 16), -1.0f), expected(out);
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < columns; ++j)
            expected[static_cast<std::size_t>(i * stride + j)] =
                core::random_uniform(random.seed, 5, 2, m0 + i, n0 + j);
        }
        const StripArg args[] = {{m.data(), 1, 0}, {n.data(), 0, 1}};
        Strip strip{rows, columns, out.data(), stride, 1, args, &random};
        table().random(strip);
        ASSERT_EQ(out, expected) << rows << " x " << columns << " from (" << m0 << ", " << n0 << ")";
      }
    }
  }
}

struct Native {
  const char* name;
  double ulps;  // of the result
  double of_x;  // and this many of the argument's ulps, where the result is a small difference
  double (*exact)(double);
};
// gelu: the argument of its exponential, 66 at x = -9, is rounded more than once, and every ulp of
// it costs as many.
const Native natives[] = {
    {"relu", 0, 0, [](double x) { return x > 0 ? x : 0; }},
    {"gelu", 100, 0, [](double x) { return x / (1 + std::exp(-2 * 0.7978845608028654 * (x + 0.044715 * x * x * x))); }},
    {"quick_gelu", 40, 0, [](double x) { return x / (1 + std::exp(-1.702 * x)); }},
    {"gelu_erf", 4, 1, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }},
    {"silu", 5, 0, [](double x) { return x / (1 + std::exp(-x)); }},
    {"sigmoid", 4, 0, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"softplus", 6, 0, [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }},
    {"mish", 8, 0, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
};

TEST_P(Strips, NativeFunctionsKeepTheirErrors) {
  std::vector<float> x;
  for (float v = -9.0f; v < 30.0f; v += 0x1p-12f) x.push_back(v);
  for (const Native& native : natives) {
    const NativeStrip* found = find_native(table(), native.name);
    ASSERT_NE(found, nullptr);
    const std::vector<float> y = unary(found->function, x);
    double worst = 0;
    float at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double d = static_cast<double>(x[i]);
      const double exact = native.exact(d);
      const double allowed = (native.ulps * std::abs(exact) + native.of_x * std::abs(d)) * 0x1p-23;
      const double error = std::abs(static_cast<double>(y[i]) - exact);
      if (error > worst * allowed) worst = allowed == 0 ? 1e30 : error / allowed, at = x[i];
    }
    EXPECT_LE(worst, 1) << native.name << " of " << at;
  }
}

TEST_P(Strips, NativeFunctionsEndAsTheirDefinitionsDo) {
  const std::vector<float> payload = {nan, -nan, std::bit_cast<float>(0x7f800001u), std::bit_cast<float>(0xffc01234u)};
  for (const char* name : {"gelu", "quick_gelu", "dgelu", "silu", "sigmoid", "gelu_erf", "softplus"}) {
    for (const float y : unary(find_native(table(), name)->function, payload)) EXPECT_TRUE(std::isnan(y)) << name;
  }
  const std::vector<float> far = {-inf, -200.0f, -100.0f, -0.0f, 0.0f, 100.0f, inf};
  const auto of = [&](const char* name) { return unary(find_native(table(), name)->function, far); };
  EXPECT_EQ(of("sigmoid"), (std::vector<float>{0, 0, std::exp(-100.0f), 0.5f, 0.5f, 1, 1}));
  EXPECT_EQ(of("dgelu"), (std::vector<float>{0, 0, 0, 0.5f, 0.5f, 1, 1}));
  const std::vector<float> gelu = of("gelu");
  EXPECT_TRUE(std::isnan(gelu[0]));  // -inf times 0
  EXPECT_EQ(std::vector<float>(gelu.begin() + 1, gelu.end()), (std::vector<float>{0, 0, 0, 0, 100, inf}));
}

TEST_P(Strips, ClampIsMinOfMaxAtEveryBound) {
  const std::vector<float>& x = special_values();
  const StripFn max = table().ops[static_cast<int>(Op::max)][0], min = table().ops[static_cast<int>(Op::min)][0];
  for (const float low : {-1.0f, -0.0f, 0.0f, 0.5f, -inf, nan}) {
    for (const float high : {1.0f, 0.0f, -0.0f, -2.0f, inf, nan}) {
      const std::vector<float> expected =
          binary(min, binary(max, x, std::vector<float>(x.size(), low)), std::vector<float>(x.size(), high));
      std::vector<float> out(x.size());
      const StripArg args[] = {{x.data(), 0, 1}, {&low, 0, 0}, {&high, 0, 0}};
      Strip strip;
      strip.rows = 1;
      strip.columns = strip.out_row_stride = static_cast<std::int64_t>(x.size());
      strip.out = out.data();
      strip.args = args;
      find_native(table(), "clamp")->function(strip);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::isnan(expected[i])) EXPECT_TRUE(std::isnan(out[i])) << x[i] << ' ' << low << ' ' << high;
        else EXPECT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(expected[i]));
      }
    }
  }
}

}  // namespace
}  // namespace postlude::cpu
