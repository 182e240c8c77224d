// The definitions of the language by example, and that the bounds hold what f32 arithmetic does and
// little more.
#include "reference/reference.h"

#include <postlude/function.h>
#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

namespace postlude {
namespace {

using reference::Evaluation;
constexpr double inf = HUGE_VAL;
const double nan = std::nan("");

struct Matrix {
  std::int64_t rows = 1, columns = 1;
  std::vector<float> data;
};

Given input(const std::vector<float>& data, std::int64_t row, std::int64_t column) {
  Given given;
  given.data = const_cast<float*>(data.data());
  given.strides = {row, column};
  return given;
}

// An epilogue of X (an f32 stream), all operands and outputs f32 but where the text says i64.
Evaluation evaluate(const std::string& text, const Matrix& x, const std::map<std::string, Matrix>& operands = {}) {
  const Graph graph = parse(text);
  Bindings bindings;
  bindings.shape = {1, x.rows, x.columns, 0};
  bindings.inputs = {input(x.data, x.columns, 1)};
  for (const auto& o : graph.data().operands) {
    const Matrix& m = operands.at(o.name);
    bindings.buffers.push_back(
        {const_cast<float*>(m.data.data()), f32, {0, m.rows == 1 ? 0 : m.columns, m.columns == 1 ? 0 : 1}});
  }
  for (const auto& o : graph.data().outputs) bindings.buffers.push_back({nullptr, o.dtype.value_or(f32), {}});
  return reference::evaluate(graph.data(), Stream{}, bindings);
}

std::string body(const std::string& expression) { return "def f(acc):\n    D: f32 = " + expression + "\n    return D"; }

double one(const std::string& expression, double x) {
  const Matrix m{1, 1, {static_cast<float>(x)}};
  return evaluate(body(expression), m)[0].value(0);
}
std::vector<double> values(const reference::Output& o) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(o.cells.size()); ++i) result.push_back(o.value(i));
  return result;
}
Matrix row(std::vector<float> data) { return {1, static_cast<std::int64_t>(data.size()), std::move(data)}; }

TEST(Definition, OfOperations) {
  EXPECT_EQ(one("relu(acc)", -2), 0);
  EXPECT_TRUE(std::isnan(one("relu(acc)", nan)));
  EXPECT_TRUE(std::isnan(one("min(acc, 1)", nan)));
  EXPECT_FALSE(std::signbit(one("max(acc, 0.0)", -0.0)));
  EXPECT_TRUE(std::signbit(one("min(0.0, acc)", -0.0)));
  EXPECT_EQ(one("round(acc)", 2.5), 2);
  EXPECT_EQ(one("acc // 2", -3), -2);
  EXPECT_EQ(one("acc ** 2", -3), 9);
  EXPECT_EQ(one("cast(acc, s8)", 300), 127);
  EXPECT_EQ(one("cast(acc, s8)", nan), 0);
  EXPECT_EQ(one("cast(acc, e4m3)", 1000), 448);
  EXPECT_EQ(one("cast(acc, bf16, round=up)", 1 + 0x1p-20), 1 + 0x1p-7);
  EXPECT_EQ(one("scaled(0.0, acc)", nan), 0);
  EXPECT_EQ(one("where(acc == acc, 1, 2)", nan), 2);
  EXPECT_EQ(one("acc / 0", -1), -inf);
  EXPECT_EQ(one("cast(acc, i32) // 0", 5), 0);
  EXPECT_EQ(one("cast(acc, i32) // 2", -5), -3);
  EXPECT_EQ(one("exp(acc)", 1000), inf);
}

// A combiner may be folded in any order. Found by the fuzzer on a GPU (seed 50589): forwards and
// backwards, 2^24 - 2^24 + 1 is exactly 1; an f32 sum that takes 2^24 + 1 first is 0.
TEST(Bounds, OfACombinerHoldOrdersThatAreNeitherForwardNorBackward) {
  const auto sum = [](std::vector<float> x) {
    return evaluate(body("reduce(acc, combine=lambda a, b: a + b, identity=0.0, axis=1)"), row(std::move(x)))[0]
        .cells[0]
        .real;
  };
  const reference::Real r = sum({0x1p24f, -0x1p24f, 1});
  EXPECT_EQ(r.value, 1);
  EXPECT_LE(r.low, 0);
  EXPECT_LE(r.high, 8);
  EXPECT_TRUE(reference::is_point(sum({1, 2, 3, 4, 5})));
  // Between 2^60 and -2^60 any of the others may be lost, as all above 0.
  std::vector<float> lost = {0x1p60f, -0x1p60f};
  for (int i = 0; i < 20; ++i) lost.push_back(i % 2 == 0 ? 1.5f : -1.25f);
  EXPECT_LE(sum(lost).low, -12.5);
  EXPECT_GE(sum(lost).high, 15);
}

// Orders beyond the first nine count where they overflow: +inf and then -inf.
TEST(Bounds, OfACombinerHoldAnOverflowThatMeetsAnInfinity) {
  std::vector<float> x(65, 0.f);
  x[3] = x[40] = 0x1.fffffep127f;
  x[4] = x[39] = -0x1.fffffep127f;
  const auto sum = [&] {
    return evaluate(body("reduce(acc, combine=lambda a, b: a + b, identity=0.0, axis=1)"), row(x))[0].cells[0].real;
  };
  EXPECT_TRUE(reference::is_anything(sum()));
  x[20] = -INFINITY;
  EXPECT_TRUE(reference::is_anything(sum()));
  x[40] = 0;  // now no sum of some is above FLT_MAX
  EXPECT_EQ(sum().high, -inf);
}

// A cast of an f32 to f32 changes nothing: an operation that may be contracted without it may be
// with it.
TEST(Bounds, PassACastToTheTypeOfItsValue) {
  const Matrix x = row({0.1f, 1.7f, -2.3f, 0.4f});
  for (const std::string value : {"acc * acc", "exp(acc - max(acc, axis=1))"}) {
    for (const std::string rest : {" + acc", " + sum(y, axis=1)"}) {
      const auto bounds = [&](const std::string& y) {
        std::vector<std::pair<double, double>> result;
        const auto outputs = evaluate("def f(acc):\n    y = " + y + "\n    D: f32 = y" + rest + "\n    return D", x);
        for (const auto& c : outputs[0].cells) result.emplace_back(c.real.low, c.real.high);
        return result;
      };
      EXPECT_EQ(bounds("cast(" + value + ", f32, round=up)"), bounds(value)) << value << rest;
    }
  }
}

TEST(Definition, OfReductions) {
  const auto reduce = [](const std::string& name, std::vector<float> x) {
    const std::string type = name.starts_with("arg") ? "i64" : "f32";
    return evaluate("def f(acc):\n    s: " + type + " = " + name + "(acc, axis=1)\n    return s", row(std::move(x)))[0]
        .value(0);
  };
  EXPECT_EQ(reduce("sum", {1, 2, 3}), 6);
  EXPECT_EQ(reduce("sum", {}), 0);
  EXPECT_EQ(reduce("mean", {1, 2, 6}), 3);
  EXPECT_TRUE(std::isnan(reduce("mean", {})));
  EXPECT_EQ(reduce("max", {}), -inf);
  EXPECT_EQ(reduce("min", {}), inf);
  EXPECT_TRUE(std::isnan(reduce("max", {1, NAN, 2})));
  EXPECT_EQ(reduce("prod", {2, -3, 0.5}), -3);
  EXPECT_EQ(reduce("prod", {}), 1);
  EXPECT_EQ(reduce("any", {0, NAN}), 1);
  EXPECT_EQ(reduce("all", {}), 1);
  EXPECT_EQ(reduce("argmax", {1, 3, 3, 2}), 1);
  EXPECT_EQ(reduce("argmin", {2, 1, 3, 1}), 1);
  EXPECT_EQ(reduce("argmax", {1, NAN, 9, NAN}), 1);
  EXPECT_EQ(reduce("argmax", {}), -1);
  EXPECT_EQ(reduce("argmax", {-INFINITY, -INFINITY}), 0);
  EXPECT_EQ(reduce("logsumexp", {-INFINITY, -INFINITY}), -inf);
  EXPECT_NEAR(reduce("logsumexp", {1000, 1000}), 1000 + std::log(2), 1e-4);
  EXPECT_EQ(reduce("var", {1, 3}), 1);
  EXPECT_EQ(reduce("norm", {3, 4}), 5);
}

// A product is computed in blocks of rows, columns and terms; whole numbers say whether each has its own.
TEST(Definition, OfProductsInBlocks) {
  struct Sizes {
    std::int64_t m, n, k;
  };
  for (const auto [m, n, k] : {Sizes{1, 1, 1}, Sizes{3, 7, 128}, Sizes{5, 33, 131}, Sizes{66, 258, 260}}) {
    std::vector<float> a, b;
    for (std::int64_t i = 0; i < m * k; ++i) a.push_back(static_cast<float>(1 + i * 7 % 5));
    for (std::int64_t i = 0; i < k * n; ++i) b.push_back(static_cast<float>(1 + i * 3 % 11));
    Bindings bindings;
    bindings.shape = {1, m, n, k};
    bindings.inputs = {input(a, k, 1), input(b, n, 1)};
    bindings.buffers = {{nullptr, f32, {}}};
    const Evaluation result = reference::evaluate(parse(body("acc")).data(), Gemm{}, bindings);
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
          sum += static_cast<double>(a[static_cast<std::size_t>(i * k + p)]) * b[static_cast<std::size_t>(p * n + j)];
        const auto& cell = result[0].cells[static_cast<std::size_t>(i * n + j)];
        ASSERT_TRUE(is_point(cell.real)) << i << ' ' << j;
        ASSERT_EQ(cell.real.value, sum) << m << " x " << n << " x " << k << " at " << i << ' ' << j;
      }
    }
  }
}

// Whether what is padding is multiplied is a kernel's choice: it shows where the factor is not finite, and nowhere
// else.
TEST(Definition, OfPaddingBesideInfinities) {
  const auto pixels = [](std::vector<float> image, std::vector<float> filter) {
    const Problem conv = Conv1d{.padding = {{{1, 1}}}};
    Bindings bindings;
    bindings.shape = {1, 4, 1, 3};
    for (const std::vector<float>* x : {&image, &filter}) {
      Given given;
      given.name = conv.loop().inputs()[bindings.inputs.size()].name;
      given.data = const_cast<float*>(x->data());
      given.rank = 3;
      given.shape = {1, 1, static_cast<std::int64_t>(x->size())};
      given.strides = {0, 0, 1};
      bindings.inputs.push_back(given);
    }
    const Operands operands = conv.loop().operands(bindings.inputs);
    bindings.a = operands.a, bindings.b = operands.b, bindings.addressing = operands.addressing;
    bindings.buffers = {{nullptr, f32, {}}};
    std::string seen;
    const Evaluation result = reference::evaluate(parse(body("acc")).data(), conv, bindings);
    for (const reference::Cell& x : result[0].cells)
      seen += is_anything(x.real) ? '?' : std::isinf(x.real.value) ? 'i' : '.';
    return seen;
  };
  EXPECT_EQ(pixels({1, 2, 3, 4}, {1, 2, 3}), "....");
  EXPECT_EQ(pixels({1, 2, 3, 4}, {HUGE_VALF, 2, 3}), "?iii");
  EXPECT_EQ(pixels({1, 2, 3, 4}, {1, 2, HUGE_VALF}), "iii?");
  EXPECT_EQ(pixels({HUGE_VALF, 2, 3, 4}, {1, 2, 3}), "ii..");
}

TEST(Definition, OfShapes) {
  const Matrix x{2, 4, {0, 1, 2, 3, 10, 11, 12, 13}};
  const auto halves = evaluate(
      "def f(acc):\n    a, b = chunk(acc, 2)\n    D: f32 = b\n    E: f32 = concat((b, a))\n    return D, E", x);
  EXPECT_EQ(values(halves[0]), (std::vector<double>{2, 3, 12, 13}));
  EXPECT_EQ(values(halves[1]), (std::vector<double>{2, 3, 0, 1, 12, 13, 10, 11}));
  const auto pairs = evaluate(
      "def f(acc):\n    a, b = chunk(acc, 2, group=2)\n    D: f32 = b\n    E: f32 = concat((b, a), group=2)\n    "
      "return D, E",
      x);
  EXPECT_EQ(values(pairs[0]), (std::vector<double>{1, 3, 11, 13}));
  EXPECT_EQ(values(pairs[1]), (std::vector<double>{1, 0, 3, 2, 11, 10, 13, 12}));
  const auto groups = evaluate(
      "def f(acc):\n    s: f32 = sum(acc, axis=1, group=3)\n    D: f32 = repeat(max(acc, axis=1, group=2), 2)\n    "
      "return s, D",
      x);
  EXPECT_EQ(values(groups[0]), (std::vector<double>{3, 3, 33, 13}));
  EXPECT_EQ(values(groups[1]), (std::vector<double>{1, 1, 3, 3, 11, 11, 13, 13}));
  const auto places = evaluate("def f(acc):\n    D: f32 = acc * 0 + 10 * m_index() + n_index()\n    return D", x);
  EXPECT_EQ(values(places[0]), (std::vector<double>{0, 1, 2, 3, 10, 11, 12, 13}));
}

TEST(Definition, OfGeneralReductions) {
  const auto r = evaluate(
      "def f(acc):\n    s, t = reduce((acc, acc * acc), combine=lambda a1, a2, b1, b2: (a1 + b1, max(a2, b2)), "
      "identity=(0, -inf), axis=1)\n"
      "    D: f32 = s\n    E: f32 = t\n    return D, E",
      row({1, -3, 2}));
  EXPECT_EQ(r[0].value(0), 0);
  EXPECT_EQ(r[1].value(0), 9);
}

TEST(Definition, OfNativeFunctionsAndTheirGuards) {
  NativeFunction f;
  f.name = "reference_test_scaled_cube";
  f.parameters = {{"p", 2.0}};
  f.reference = [](const double* x, const double* p) { return *p * x[0] * x[0] * x[0]; };
  f.guard = "p == 0";
  define(f);
  EXPECT_EQ(one("reference_test_scaled_cube(acc)", 3), 54);
  EXPECT_EQ(one("reference_test_scaled_cube(acc, 0.0)", nan), 0);
}

// ---- bounds -------------------------------------------------------------------------------------

TEST(Bounds, ArePointsWhereF32IsExact) {
  for (const char* expression :
       {"acc + 1", "acc * 2 - 3", "max(acc, 0) * 0.5", "sum(acc, axis=1)", "norm(acc, axis=1)", "abs(acc) / 4"}) {
    const auto r = evaluate(body(expression), row({3, 4, 12, 0, -0.0f}));
    for (const auto& c : r[0].cells) EXPECT_TRUE(is_point(c.real)) << expression;
  }
}

// The cell of A (1 x k) times B (k x 1).
reference::Real product_of(const std::vector<float>& a, const std::vector<float>& b) {
  const auto k = static_cast<std::int64_t>(a.size());
  float d = 0;
  Bindings bindings;
  bindings.shape = {1, 1, 1, k};
  bindings.inputs = {input(a, k, 1), input(b, 1, 1)};
  bindings.buffers = {{&d, f32, {0, 1, 1}}};
  return reference::evaluate(parse(body("acc")).data(), Gemm{}, bindings)[0].cells[0].real;
}

TEST(Bounds, OfProductsThatAreZeroOrOverflow) {
  // A product that begins with -1 * 0 is -0, one that begins with a zero of its own 0.
  const reference::Real zero = product_of({-1}, {0});
  EXPECT_TRUE(std::signbit(zero.low) && !std::signbit(zero.high) && zero.low == 0 && zero.high == 0);
  EXPECT_FALSE(std::signbit(product_of({}, {}).low));
  // An infinity that no partial sum meets with another.
  const reference::Real infinite = product_of({HUGE_VALF, 1e19f}, {1, 1e19f});
  EXPECT_TRUE(is_point(infinite) && infinite.value == inf);
  EXPECT_FALSE(is_point(product_of({HUGE_VALF, 1e19f, 1e19f, 1e19f}, {1, 1e19f, 1e19f, 1e19f})));
}

// A power of two, which rounds nothing, moves a bound as it moves the values.
TEST(Bounds, OfASumScaleWithItsTerms) {
  const auto width = [](float scale) {
    Matrix x{1, 4096, {}};
    for (int i = 0; i < 4096; ++i) x.data.push_back((i % 2 == 0 ? 1.f : 0.1f + static_cast<float>(i) * 1e-5f) * scale);
    const reference::Real sum = evaluate(body("sum(acc, axis=1)"), x)[0].cells[0].real;
    return (sum.high - sum.low) / static_cast<double>(scale);
  };
  EXPECT_GT(width(1), 0);
  EXPECT_EQ(width(0x1p-30f), width(1));
  EXPECT_EQ(width(0x1p30f), width(1));
}

// A square is a square however it is written: what is known of a deviation from a mean holds for both.
TEST(Bounds, OfAVarianceAreThoseOfItsOwnDefinition) {
  Matrix x{1, 64, {}};
  for (int i = 0; i < 64; ++i) x.data.push_back(1e4f + static_cast<float>(i % 7) * 0.37f);
  const auto width = [&](const std::string& square) {
    const auto r = evaluate(
        "def f(acc):\n    d = acc - mean(acc, axis=1)\n    D: f32 = mean(" + square + ", axis=1)\n    return D", x);
    return r[0].cells[0].real.high - r[0].cells[0].real.low;
  };
  const double product = width("d * d"), power = width("d ** 2");
  EXPECT_LE(power, 2 * product);
  EXPECT_LE(product, 2 * power);
}

// Orders of a combiner whose results are exact take every element, once.
TEST(Bounds, OfAnExactCombinerAreAPoint) {
  const auto r =
      evaluate("def f(acc):\n    D: f32 = reduce(acc, combine=lambda a, b: a + b, identity=0, axis=1)\n    return D",
               row({1, 2, 4, 8, 16, 32, 64, 128, 256}));
  EXPECT_TRUE(is_point(r[0].cells[0].real));
  EXPECT_EQ(r[0].value(0), 511);
}

// Equal terms are rounded alike, so their errors add up instead of cancelling. Found by the fuzzer
// (seed 103019164).
TEST(Bounds, HoldSumsOfEqualTerms) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const std::size_t count : {100, 511, 4096}) {
    for (int i = 0; i < 20; ++i) {
      std::vector<float> terms(count, normal(random));
      for (std::size_t j = 0; j < count; j += 10) terms[j] = 0;
      float sum = 0;
      for (const float x : terms) sum += x;
      const auto k = static_cast<std::int64_t>(count);
      const reference::Real s = evaluate(body("sum(acc, axis=1)"), row(terms))[0].cells[0].real;
      EXPECT_TRUE(s.low <= sum && sum <= s.high) << count << " of " << terms[1];

      std::vector<float> a(count, terms[1]), b(count, 0.7f);
      float accumulator = 0, d = 0;
      for (std::size_t j = 0; j < count; ++j) accumulator = std::fmaf(a[j], b[j], accumulator);
      Bindings bindings;
      bindings.shape = {1, 1, 1, k};
      bindings.inputs = {input(a, k, 1), input(b, 1, 1)};
      bindings.buffers = {{&d, f32, {0, 1, 1}}};
      const reference::Real p = reference::evaluate(parse(body("acc")).data(), Gemm{}, bindings)[0].cells[0].real;
      EXPECT_TRUE(p.low <= accumulator && accumulator <= p.high) << count << " of " << a[0] << " * " << b[0];
    }
  }
}

// Products accumulated in f32 in several orders stay within the bound, and the bound is no wide
// one.
TEST(Bounds, HoldAccumulationInAnyOrder) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  const Graph graph = parse(body("acc"));
  for (const bool positive : {false, true}) {
    for (const std::int64_t k : {1, 2, 7, 64, 1000}) {
      constexpr std::int64_t m = 16, n = 24;
      std::vector<float> a(m * k), b(k * n), d(m * n);
      for (float* x : {a.data(), b.data()})
        for (std::int64_t i = 0; i < (x == a.data() ? m : n) * k; ++i)
          x[i] = positive ? std::abs(normal(random)) : normal(random);
      Bindings bindings;
      bindings.shape = {1, m, n, k};
      bindings.inputs = {input(a, k, 1), input(b, n, 1)};
      bindings.buffers = {{d.data(), f32, {0, n, 1}}};
      const auto expected = reference::evaluate(graph.data(), Gemm{}, bindings);
      for (int order = 0; order < 3; ++order) {
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            float lanes[8] = {};
            for (std::int64_t p = 0; p < k; ++p) {
              const std::int64_t q = order == 1 ? k - 1 - p : p;
              float& lane = lanes[order == 2 ? p % 8 : 0];
              lane = order == 0 ? std::fmaf(a[i * k + q], b[q * n + j], lane) : lane + a[i * k + q] * b[q * n + j];
            }
            for (int l = 1; l < 8; ++l) lanes[0] += lanes[l];
            d[i * n + j] = lanes[0];
          }
        const auto r = reference::compare(expected, graph.data(), bindings)[0];
        EXPECT_LE(r.error_over_bound, 1) << k << ' ' << order;
      }
      EXPECT_LT(expected[0].bound(0, true), 1e-4 * static_cast<double>(k));
    }
  }
}

// Deep f32 arithmetic, rounded at every step, stays within the bound.
TEST(Bounds, HoldF32Arithmetic) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 3);
  const auto sigmoid = [](float x) {
    const float e = std::exp(-std::abs(x));
    return (x >= 0 ? 1.0f : e) / (1 + e);
  };
  const auto f = [&](float x) { return std::tanh(x * sigmoid(x)) - x / (1 + std::abs(x)) + std::log1p(x * x); };
  Matrix x{1, 4000, {}};
  for (int i = 0; i < 4000; ++i) x.data.push_back(normal(random));
  const auto r = evaluate(body("tanh(silu(acc)) - acc / (1 + abs(acc)) + log1p(acc * acc)"), x);
  double widest = 0;
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    const reference::Real& c = r[0].cells[i].real;
    EXPECT_GE(f(x.data[i]), c.low);
    EXPECT_LE(f(x.data[i]), c.high);
    widest = std::max(widest, c.high - c.low);
  }
  EXPECT_LT(widest, 1e-4);
  EXPECT_GT(widest, 1e-8);
}

TEST(Bounds, AreTheHullOfTheBranchesAtADiscontinuity) {
  // 0.1 + 0.2 is not exact: floor(10 * (...)) may be 2 or 3.
  const auto r = evaluate(body("floor((acc + 0.2) * 10)"), row({0.1f}));
  EXPECT_EQ(r[0].cells[0].real.low, 2);
  EXPECT_EQ(r[0].cells[0].real.high, 3);
  const auto w = evaluate(body("where(acc + 0.2 < 0.3, 5.0, 7.0)"), row({0.1f}));
  EXPECT_EQ(w[0].cells[0].real.low, 5);
  EXPECT_EQ(w[0].cells[0].real.high, 7);
  for (const char* branches : {"5.0, 6.0", "6.0, 5.0"}) {  // one of which is taken, and the bound as far as the other
    const auto of = evaluate(body("where(acc + 0.2 < 0.3, " + std::string(branches) + ")"), row({0.1f}));
    EXPECT_EQ(of[0].bound(0, true) + of[0].bound(0, false), 1) << branches;
  }
}

TEST(Bounds, OfAnIndexAreTheCandidates) {
  const std::string text = "def f(acc):\n    i: i64 = argmax(exp(acc), axis=1)\n    return i";
  const auto r = evaluate(text, row({1.0f, 0.0f, 1.0000001f, 0.9f}));
  EXPECT_EQ(r[0].candidates.at(0), (std::vector<std::int64_t>{0, 2}));
  const Graph graph = parse(text);
  for (const std::int64_t index : {0, 1, 2, 3}) {
    std::int64_t answer = index;
    Bindings bindings;
    bindings.buffers = {{&answer, i64, {0, 1, 0}}};
    EXPECT_EQ(reference::compare(r, graph.data(), bindings)[0].error_over_bound <= 1, index == 0 || index == 2)
        << index;
  }
  const auto equal = evaluate("def f(acc):\n    i: i64 = argmax(acc, axis=1)\n    return i", row({5, 5, 1}));
  EXPECT_EQ(equal[0].cells[0].whole.high, 0);  // the first of those that are surely equal
}

TEST(Compare, SaysHowManyBoundsAnElementIsOff) {
  const Graph graph = parse(body("acc / 3 + acc / 7"));
  const auto expected = evaluate(body("acc / 3 + acc / 7"), row({1}));
  for (const bool above : {false, true}) {
    float d = static_cast<float>(expected[0].value(0) + (above ? 100 : -100) * expected[0].bound(0, above));
    Bindings bindings;
    bindings.buffers = {{&d, f32, {0, 1, 1}}};
    EXPECT_NEAR(reference::compare(expected, graph.data(), bindings)[0].error_over_bound, 100, 2) << above;
  }
}

TEST(Compare, SeesOneWrongElementAndTheSignOfZero) {
  const Graph graph = parse(body("max(acc, 0)"));
  const Matrix x = row({-1, 2, NAN});
  const auto expected = evaluate(body("max(acc, 0)"), x);
  const auto error = [&](std::vector<float> d) {
    Bindings bindings;
    bindings.buffers = {{d.data(), f32, {0, 3, 1}}};
    return reference::compare(expected, graph.data(), bindings)[0];
  };
  EXPECT_EQ(error({0, 2, NAN}).error_over_bound, 0);
  EXPECT_EQ(error({-0.0f, 2, NAN}).error_over_bound, inf);
  EXPECT_EQ(error({0, 2, 1}).error_over_bound, inf);
  const auto wrong = error({0, 2.0000002f, NAN});
  EXPECT_EQ(wrong.error_over_bound, inf);
  EXPECT_EQ(wrong.worst[2], 1);
  EXPECT_EQ(wrong.expected, 2);
}

TEST(Large, TenThousandDeepAndWide) {
  std::string text = "def deep(acc):\n    d = acc\n";
  for (int i = 0; i < 10000; ++i) text += "    d = d * 0.5 + 1\n";
  text += "    D: f32 = d\n    return D\n";
  EXPECT_NEAR(evaluate(text, row({5, 6}))[0].value(0), 2, 1e-6);
}

}  // namespace
}  // namespace postlude
