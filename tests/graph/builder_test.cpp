// The C++ builder makes the graphs that the text makes, and refuses what means nothing.
#include "graph/ir/equal.h"
#include "graph/support.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <limits>

namespace postlude {
namespace {

void expect_same(const Graph& built, std::string_view text) {
  const Graph read = parse(text);
  EXPECT_TRUE(same(built.data(), read.data())) << built.print() << "\nis not\n" << read.print();
  EXPECT_TRUE(same(parse(built.print()).data(), built.data())) << built.print();
}

TEST(Builder, MakesWhatTheTextMakes) {
  GraphBuilder g("bias_gelu");
  const auto acc = g.accumulator();
  const auto bias = g.row("bias", bf16);
  const auto residual = g.tile("residual", bf16);
  const auto d = gelu(acc + bias) + residual;
  g.output("D", d, bf16);
  g.output("amax", max(abs(d), Axis::n));
  expect_same(g.finish(), R"(
def bias_gelu(acc, bias: row[bf16], residual: tile[bf16]):
    d = gelu(acc + bias) + residual
    D: bf16 = d
    amax = max(abs(d), axis=1)
    return D, amax
)");
}

TEST(Builder, HasEveryOperator) {
  GraphBuilder g("e");
  const auto x = g.accumulator();
  const auto y = g.tile("y"), s = g.scalar("s");
  const auto k = g.row("k", i32);
  const auto one = floordiv(-x + y - 2.0, 3) * y / x;
  const auto two = where((x == y) | (x != y) | (x < y) | (x <= y) | ((x > y) & ~(x >= y)), x, y);
  const auto three = fma(min(x, y), max(x, 1.0f), abs(x)) + exp(x) + exp2(x) + expm1(x) + log(x) + log2(x) + log1p(x) +
                     tanh(x) + erf(x);
  const auto four =
      sqrt(x) + rsqrt(x) + reciprocal(x) + pow(x, 2) + sin(x) + cos(x) + floor(x) + ceil(x) + round(x) + scaled(s, y);
  const auto five = cast(x, e4m3) + cast(x, i32, Round::down) + cast(x, bf16, Round::stochastic, 9) +
                    where((k & 1) == 0, x, -std::numeric_limits<double>::infinity());
  const auto six = where(true, g.random(3, 4), g.m_index() + g.n_index() * g.batch_index());
  g.output("D", one + two + three + four + five + six);
  expect_same(g.finish(), R"(
def e(acc, y: tile, s: scalar, k: row[i32]):
    one = (-acc + y - 2.0) // 3 * y / acc
    two = where((acc == y) | (acc != y) | (acc < y) | (acc <= y) | (acc > y) & ~(acc >= y), acc, y)
    three = fma(min(acc, y), max(acc, 1.0), abs(acc)) + exp(acc) + exp2(acc) + expm1(acc) + log(acc) + log2(acc) + log1p(acc) + tanh(acc) + erf(acc)
    four = sqrt(acc) + rsqrt(acc) + reciprocal(acc) + acc ** 2 + sin(acc) + cos(acc) + floor(acc) + ceil(acc) + round(acc) + scaled(s, y)
    five = cast(acc, e4m3) + cast(acc, i32, round=down) + cast(acc, bf16, round=stochastic(9)) + where(k & 1 == 0, acc, -inf)
    six = where(True, random(3, stream=4), m_index() + n_index() * batch_index())
    return one + two + three + four + five + six
)");
}

TEST(Builder, HasEveryReductionAndShape) {
  GraphBuilder g("e");
  const auto x = g.accumulator();
  const auto halves = chunk(x, 2, 64);
  const std::vector<Value> swapped{halves[1], halves[0]};
  g.output("D", concat(swapped, 64) / repeat(max(abs(x), Axis::n, {.group = 32}), 32) +
                    repeat(sum(x, Axis::m, {.group = 8}), 8, Axis::m));
  g.output("a", mean(x) + min(x) + prod(x) + var(x, tile_axes, {.batch = true}) + norm(x));
  g.output("b", any(x > 0, Axis::n) | all(x > 0, Axis::n));
  g.output("c", argmax(x, Axis::m) + argmin(x, Axis::m));
  g.output("l", logsumexp(x, Axis::n));
  const std::vector<Value> pair{x, x * x};
  const auto sums = reduce(
      pair,
      [](auto a, auto b) {
        return std::vector<Value>{a[0] + b[0], max(a[1], b[1])};
      },
      std::vector<double>{0, 1}, Axis::n);
  g.output("s", sums[1]);
  expect_same(g.finish(), R"(
def e(acc):
    left, right = chunk(acc, 2, group=64)
    D = concat((right, left), group=64) / repeat(max(abs(acc), axis=1, group=32), 32) + repeat(sum(acc, axis=0, group=8), 8, axis=0)
    a = mean(acc) + min(acc) + prod(acc) + var(acc, batch=True) + norm(acc)
    b = any(acc > 0, axis=1) | all(acc > 0, axis=1)
    c = argmax(acc, axis=0) + argmin(acc, axis=0)
    l = logsumexp(acc, axis=1)
    s = reduce((acc, acc * acc), combine=lambda p, q, r, t: (p + r, max(q, t)), identity=(0, 1), axis=1)[1]
    return D, a, b, c, l, s
)");
}

TEST(Builder, WritesEqualConstantsOnce) {
  GraphBuilder g("e");
  const auto acc = g.accumulator();
  g.output("D", (acc * 2.5 + 2.5) * 2.5);
  EXPECT_EQ(g.finish().data().nodes.size(), 5u);  // acc, 2.5, and three operations
}

TEST(Builder, DescribesOperandsAndOutputs) {
  const Graph graph = parse(
      "def e(acc, bias: row, s: scalar[f16]):\n    D = acc * s\n    total: f32 = sum(D, axis=0)\n    return D, "
      "total\n");
  EXPECT_EQ(graph.name(), "e");
  ASSERT_EQ(graph.operands().size(), 2u);
  EXPECT_EQ(graph.operands()[0].axes, row_axes);
  EXPECT_EQ(graph.operands()[0].dtype, std::nullopt);
  EXPECT_EQ(graph.operands()[1].dtype, f16);
  ASSERT_EQ(graph.outputs().size(), 2u);
  EXPECT_EQ(graph.outputs()[0].axes, tile_axes);
  EXPECT_EQ(graph.outputs()[1].axes, row_axes);
  EXPECT_EQ(graph.outputs()[1].dtype, f32);
}

TEST(Builder, NamesValuesAndSaysWhereTheyWereMade) {
  GraphBuilder g("e");
  const auto acc = g.accumulator();
  g.at({"model.py", {7, 9, 5}, "        d = a.T + 1"});
  const auto x = acc + 1;
  g.name(x, "shifted");
  g.name(x, "later");  // the first name stays
  g.output("D", x * x);
  EXPECT_EQ(g.finish().print(), "def e(acc):\n    shifted = acc + 1\n    return shifted * shifted\n");

  GraphBuilder h("e");
  const auto halves = chunk(h.accumulator(), 2);
  h.at({"model.py", {8, 5, 3}, "    bad = whatever"});
  h.output("D", halves[0] + h.accumulator());
  try {
    (void)h.finish();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::extent_mismatch);
    EXPECT_TRUE(std::string(error.what()).starts_with("model.py:8:5: error PL0202")) << error.what();
    EXPECT_NE(std::string(error.what()).find("    bad = whatever\n    ^~~"), std::string::npos) << error.what();
  }
}

TEST(Builder, RefusesValuesOfOtherGraphs) {
  GraphBuilder g("e"), h("f");
  const auto a = g.accumulator(), b = h.accumulator();
  EXPECT_EQ(code_of([&] { (void)(a + b); }), ErrorCode::foreign_value);
  EXPECT_EQ(code_of([&] { h.output("D", a); }), ErrorCode::foreign_value);
  EXPECT_EQ(code_of([&] { (void)(a + Value()); }), ErrorCode::foreign_value);
  EXPECT_EQ(code_of([&] { (void)(Value(1) + Value(2)); }), ErrorCode::foreign_value);
  EXPECT_EQ(code_of([&] { g.output("D", Value()); }), ErrorCode::foreign_value);
  g.output("D", a);
  (void)g.finish();
  EXPECT_EQ(code_of([&] { (void)(a + 1); }), ErrorCode::foreign_value);
  EXPECT_EQ(code_of([&] { g.output("D", a); }), ErrorCode::foreign_value);
}

TEST(Builder, RefusesWhatFollowsFinish) {
  GraphBuilder g, copy = g;
  const Value acc = g.accumulator();
  (void)g.constant(2.0);
  g.output("D", g.accumulator());
  (void)g.finish();
  // The copy goes on building the graph that is finished now.
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(code_of([&] { (void)copy.accumulator(); }), ErrorCode::foreign_value);
    EXPECT_EQ(code_of([&] { (void)copy.constant(3.0); }), ErrorCode::foreign_value);
    EXPECT_EQ(code_of([&] { copy.output("E", Value(2.0)); }), ErrorCode::foreign_value);
    EXPECT_EQ(code_of([&] { copy.output("E", acc); }), ErrorCode::foreign_value);
    EXPECT_EQ(code_of([&] { copy.name(acc, "named"); }), ErrorCode::foreign_value);
    EXPECT_EQ(code_of([&] { (void)copy.finish(); }), ErrorCode::foreign_value);
  }
}

TEST(Builder, RefusesLiteralsThatTheTextCannotWrite) {
  EXPECT_EQ(code_of([] { (void)Value(std::numeric_limits<std::uint64_t>::max()); }), ErrorCode::syntax);
  EXPECT_EQ(code_of([] { (void)Value(std::uint64_t{1} << 63); }), ErrorCode::syntax);
  if (std::numeric_limits<long double>::max_exponent > std::numeric_limits<double>::max_exponent) {
    EXPECT_EQ(code_of([] { (void)Value(std::numeric_limits<long double>::max()); }), ErrorCode::syntax);
  }
  GraphBuilder g("e");
  const auto acc = g.accumulator();
  g.output("D", acc + std::numeric_limits<std::int64_t>::min() + std::numeric_limits<std::uint32_t>::max() +
                    std::numeric_limits<double>::max() - std::numeric_limits<float>::infinity());
  expect_same(g.finish(), R"(
def e(acc):
    return acc + -9223372036854775808 + 4294967295 + 1.7976931348623157e308 - inf
)");
}

TEST(Builder, AnswersWhereNothingIs) {
  const Graph empty;
  EXPECT_FALSE(empty);
  EXPECT_EQ(code_of([&] { (void)empty.name(); }), ErrorCode::usage);
  EXPECT_EQ(code_of([&] { (void)empty.operands(); }), ErrorCode::usage);
  EXPECT_EQ(code_of([&] { (void)empty.outputs(); }), ErrorCode::usage);
  EXPECT_EQ(code_of([&] { (void)empty.print(); }), ErrorCode::usage);
  GraphBuilder g("e");
  GraphBuilder moved = std::move(g);
  auto acc = g.accumulator();  // NOLINT(bugprone-use-after-move): what is refused here
  const Value other = std::move(acc);
  // NOLINTNEXTLINE(bugprone-use-after-move): and here
  EXPECT_EQ(code_of([&] { (void)(acc + other); }), ErrorCode::foreign_value);
  EXPECT_EQ(code_of([&] { (void)-acc; }), ErrorCode::foreign_value);
  EXPECT_EQ(code_of([&] { (void)chunk(acc, 2); }), ErrorCode::foreign_value);
  EXPECT_EQ(code_of([&] { g.output("D", acc); }), ErrorCode::foreign_value);
  EXPECT_EQ(code_of([&] { g.name(acc, "x"); }), ErrorCode::foreign_value);
  moved.output("D", other);
  EXPECT_EQ(moved.finish().print(), "def e(acc):\n    return acc\n");
}

TEST(Builder, RefusesNamesThatCannotBeWritten) {
  GraphBuilder g("e");
  for (const std::string& name : {std::string("it's"), std::string("a b"), std::string("/* x */"), std::string("a\nb"),
                                  std::string("a\0b", 3), std::string(), std::string("1a"), std::string("lambda"),
                                  std::string("\xff"), std::string(1 << 20, 'a'), std::string("A"), std::string("X")}) {
    EXPECT_EQ(code_of([&] { (void)g.row(name); }), ErrorCode::bad_name);
    EXPECT_EQ(code_of([&] { g.output(name, g.accumulator()); }), ErrorCode::bad_name);
  }
  EXPECT_EQ(code_of([] { GraphBuilder bad("no name"); }), ErrorCode::bad_name);
  (void)g.row("bias");
  EXPECT_EQ(code_of([&] { (void)g.col("bias"); }), ErrorCode::duplicate_name);
  EXPECT_EQ(code_of([&] { g.output("bias", g.accumulator()); }), ErrorCode::duplicate_name);
  g.output("D", g.accumulator());
  EXPECT_EQ(code_of([&] { g.output("D", g.accumulator()); }), ErrorCode::duplicate_name);
}

TEST(Builder, RefusesWhatMeansNothing) {
  GraphBuilder g("e");
  const auto acc = g.accumulator();
  for (const int pieces : {0, 2'000'000'000}) {
    EXPECT_EQ(code_of([&] { (void)chunk(acc, pieces); }), ErrorCode::bad_attribute);
  }
  EXPECT_EQ(code_of([&] { (void)call("gleu", {{acc}}); }), ErrorCode::undefined_name);
  EXPECT_EQ(code_of([&] { (void)call("clamp", {{acc}}); }), ErrorCode::bad_call);
  const std::vector<Value> one{acc};
  EXPECT_EQ(code_of([&] {
              (void)reduce(
                  one, [&](auto a, auto) { return std::vector<Value>{a[0] + acc}; }, std::vector<double>{0});
            }),
            ErrorCode::foreign_value);
  EXPECT_EQ(code_of([&] {
              (void)reduce(
                  one, [](auto a, auto) { return std::vector<Value>{sum(a[0])}; }, std::vector<double>{0});
            }),
            ErrorCode::bad_combiner);
  EXPECT_EQ(code_of([&] {
              (void)reduce(
                  one, [](auto, auto) { return std::vector<Value>{}; }, std::vector<double>{0});
            }),
            ErrorCode::bad_combiner);
  EXPECT_EQ(code_of([&] {
              (void)reduce(
                  one, [](auto a, auto) { return std::vector<Value>{a[0]}; }, std::vector<double>{});
            }),
            ErrorCode::bad_combiner);
  EXPECT_EQ(code_of([&] { (void)reduce(one, Combine(), std::vector<double>{0}); }), ErrorCode::bad_combiner);
  EXPECT_EQ(code_of([] { (void)GraphBuilder("e").finish(); }), ErrorCode::no_output);
  g.output("D", sum(g.row("bias"), Axis::m));
  EXPECT_EQ(code_of([&] { (void)g.finish(); }), ErrorCode::missing_axis);
}

}  // namespace
}  // namespace postlude
