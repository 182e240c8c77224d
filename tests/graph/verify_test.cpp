// The types, axes and extents of a graph's values, and the refusals of graphs that mean nothing:
// the code, and the words that a user needs.
#include "graph/ir/verify.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>

namespace postlude::inline v0 {
namespace {

struct Refusal {
  std::string code, text;
};

Refusal refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) { return {to_string(e.code()), e.what()}; }
  return {"none", ""};
}

// Parsing verifies without an accumulator; verifying again with an integer one finds what depends
// on it.
Refusal refused(const std::string& body, std::optional<DType> accumulator = {},
                const std::string& parameters = "acc, t: tile, r: row, c: col, s: scalar") {
  return refusal([&] {
    const Graph g = parse("def f(" + parameters + "):\n" + body);
    (void)verify(g.data(), accumulator);
  });
}

void expect(const Refusal& r, const char* code, std::initializer_list<const char*> words) {
  EXPECT_EQ(r.code, code) << r.text;
  for (const char* word : words) EXPECT_NE(r.text.find(word), std::string::npos) << word << " in\n" << r.text;
}

// The inference of a text, and the value that its last output has.
struct Inferred {
  Graph graph;
  Inference inference;
  [[nodiscard]] const ValueInfo& output(std::size_t i = 0) const {
    return inference.values[graph.data().outputs[i].value];
  }
};
Inferred inferred(const std::string& text, std::optional<DType> accumulator = f32) {
  Inferred r;
  r.graph = parse(text);
  r.inference = verify(r.graph.data(), accumulator);
  return r;
}

constexpr Extent whole{1, 1, true}, half{1, 2, true}, twice{2, 1, true};

TEST(Verify, TypesFollowTheAccumulator) {
  const std::string text =
      "def f(acc):\n  a = acc * 2\n  b = acc * 0.5\n  c = acc > 1\n  d = sum(acc, axis=1)\n  return a, b, c, d";
  const Inferred unknown = inferred(text, std::nullopt);
  EXPECT_FALSE(unknown.output(0).type);
  EXPECT_EQ(unknown.output(1).type, f32);
  EXPECT_EQ(unknown.output(2).type, boolean);
  const Inferred integer = inferred(text, i32);
  EXPECT_EQ(integer.output(0).type, i32);
  EXPECT_EQ(integer.output(1).type, f32);
  EXPECT_EQ(integer.output(3).type, i64);
  EXPECT_EQ(inferred(text, f32).output(3).type, f32);
}

TEST(Verify, IntegerLiteralsTakeTheOtherSidesTypeIfTheyFit) {
  EXPECT_EQ(inferred("def f(acc):\n  a = m_index() + 1\n  return a").output().type, i32);
  EXPECT_EQ(inferred("def f(acc):\n  a = m_index() + 5000000000\n  return a").output().type, i64);
  EXPECT_EQ(inferred("def f(acc):\n  a = m_index() / 2\n  return a").output().type, f32);
  EXPECT_EQ(inferred("def f(acc):\n  a = (m_index() > 3) + m_index()\n  return a").output().type, i32);
}

TEST(Verify, FunctionsHaveTheTypeOfTheirBodies) {
  EXPECT_EQ(inferred("def f(acc):\n  return relu(acc)", i32).output().type, i32);
  EXPECT_EQ(inferred("def f(acc):\n  return sigmoid(acc)", i32).output().type, f32);
  EXPECT_EQ(inferred("def f(acc):\n  return clamp(acc, 0, 6)", f32).output().type, f32);
  EXPECT_EQ(inferred("def f(acc):\n  return isnan(acc)", f32).output().type, boolean);
}

TEST(Verify, OperandsAreAsWideAsTheirUse) {
  const Inferred gate =
      inferred("def f(acc, residual: tile):\n  g, u = chunk(acc, 2)\n  return silu(g) * u + residual");
  EXPECT_EQ(gate.inference.operand_columns[0], half);
  const Inferred gradient = inferred("def f(acc, z: tile):\n  g, u = chunk(z, 2)\n  return concat((acc * u, acc * g))");
  EXPECT_EQ(gradient.inference.operand_columns[0], twice);
  EXPECT_EQ(gradient.output().columns, twice);
  const Inferred through = inferred(
      "def f(acc, a: tile, b: row):\n  x, y = chunk(a + b, 2)\n  u, v = chunk(acc, 4, group=8)[0], x\n  return v * "
      "exp(chunk(acc, 2)[1])");
  EXPECT_EQ(through.inference.operand_columns[0], whole);
  EXPECT_EQ(through.inference.operand_columns[1], whole);
}

TEST(Verify, BlockScalesHaveOneValueAGroup) {
  const Inferred r = inferred("def f(acc, scale: row):\n  return acc * repeat(scale, 128)");
  EXPECT_EQ(r.inference.operand_columns[0], (Extent{1, 128, false}));
  const Inferred both = inferred("def f(acc, scale: tile):\n  s = max(abs(acc), axis=1, group=32)\n  return s * scale");
  EXPECT_EQ(both.inference.operand_columns[0], (Extent{1, 32, false}));
}

TEST(Verify, GroupsAndTheirInverse) {
  const Inferred r =
      inferred("def f(acc):\n  s = max(acc, axis=0, group=64)\n  D = acc / repeat(s, 64, axis=0)\n  return s, D");
  EXPECT_EQ(r.output(0).rows, (Extent{1, 64, false}));
  EXPECT_EQ(r.output(1).rows, whole);
  const Inferred halves =
      inferred("def f(acc):\n  a, b = chunk(acc, 2)\n  s = max(a, axis=1, group=8)\n  return a / repeat(s, 8)");
  EXPECT_EQ(halves.output().columns, half);
  const Inferred gradient = inferred(
      "def f(acc, z: tile):\n  g, u = chunk(z, 2)\n  d = concat((acc * u, acc * g))\n  s = max(d, axis=1, group=128)\n"
      "  q = d / repeat(s, 128)\n  return s, q");
  EXPECT_EQ(gradient.output(0).columns, (Extent{1, 64, false}));
  EXPECT_EQ(gradient.output(1).columns, twice);
}

// Half of ceil(N/5) is ceil(N/10), and twice that no ceil(N/5): whatever meets first, z is as wide
// as s.
TEST(Verify, ExtentsDoNotDependOnWhatMeetsFirst) {
  for (const char* product : {"a * r", "r * a"}) {
    for (const char* scaled : {"z * s", "s * z"}) {
      const Inferred r = inferred(std::string("def f(acc, z: tile):\n  a, b = chunk(z, 2)\n  r = random(1)\n  c = ") +
                                  product + "\n  s = sum(acc, axis=1, group=5)\n  d = " + scaled + "\n  return c, d");
      EXPECT_EQ(r.output(0).columns, (Extent{1, 10, false})) << product << ", " << scaled;
      EXPECT_EQ(r.output(1).columns, (Extent{1, 5, false})) << product << ", " << scaled;
    }
  }
}

// Half of N is exact, and a value laid back from its groups is as wide: z is that wide, whichever comes first.
TEST(Verify, AnExtentIsExactWhicheverSideKnowsIt) {
  for (const char* product : {"h * repeat(q, 16)", "repeat(q, 16) * h"}) {
    const Inferred r = inferred("def f(acc, z: tile):\n  h, g = chunk(acc, 2)\n  q = max(h, axis=1, group=16)\n  c = " +
                                std::string(product) + "\n  x, y, w = chunk(c, 3)\n  return concat((y, w, x)) + z");
    EXPECT_EQ(r.output(0).columns, (Extent{1, 2, true})) << product;
  }
}

TEST(Verify, ChunksPromiseDivisibility) {
  const Inferred r = inferred(
      "def f(acc):\n  a, b = chunk(acc, 2, group=64)\n  c, d = chunk(acc, 2, group=64)\n  return a * d + b * c");
  ASSERT_EQ(r.inference.divisibility.size(), 1u);
  EXPECT_EQ(r.inference.divisibility[0].divisor, 64);
}

TEST(Verify, ConcatsPromiseDivisibilityWhereNoChunkDoes) {
  const auto divisors = [](const std::string& text) {
    std::vector<std::int64_t> all;
    const Inferred r = inferred(text);
    for (const Divisibility& rule : r.inference.divisibility) {
      EXPECT_EQ(rule.columns, Extent{}) << text;
      all.push_back(rule.divisor);
    }
    return all;
  };
  EXPECT_EQ(divisors("def f(acc):\n  v = n_index()\n  return acc + concat((v, v, v))"), std::vector<std::int64_t>{3});
  EXPECT_EQ(divisors("def f(acc, x: row):\n  return acc + concat((x, x), group=8)"), (std::vector<std::int64_t>{8}));
  EXPECT_EQ(divisors("def f(acc, x: row):\n  a, b = chunk(acc, 2)\n  return concat((b * x, a))"),
            std::vector<std::int64_t>{2});
  EXPECT_EQ(divisors("def f(acc):\n  return concat((acc, acc))"), std::vector<std::int64_t>{});
}

TEST(Verify, ReductionsRemoveTheirAxes) {
  const Inferred r =
      inferred("def f(acc):\n  a = sum(acc)\n  b = sum(acc, batch=True)\n  c = sum(acc, axis=0)\n  return a, b, c");
  EXPECT_EQ(r.output(0).axes, Axes(Axis::b));
  EXPECT_EQ(r.output(1).axes, Axes());
  EXPECT_EQ(r.output(2).axes, Axis::b | Axis::n);
}

TEST(Verify, TypeMismatches) {
  expect(refused("  return where(acc, 1, 2)"), "PL0201", {"condition", "Compare it"});
  expect(refused("  return t & 1"), "PL0201", {"'&'", "f32"});
  expect(refused("  return acc & 1", f32), "PL0201", {"'&'", "f32"});
  expect(refused("  return acc & 1", i32), "none", {});
}

TEST(Verify, UnequalExtentsAreNamed) {
  expect(refused("  g, u = chunk(acc, 2)\n  return g + acc"), "PL0202", {"'g' (M x N/2)", "(M x N)"});
  expect(refused("  q = max(acc, axis=1, group=32)\n  return acc * q"), "PL0202", {"ceil(N/32)", "repeat"});
  expect(refused("  return scaled(r, acc)"), "PL0202", {"scalar"});
}

TEST(Verify, MissingAxes) {
  expect(refused("  return sum(r, axis=0)"), "PL0203", {"axis=0", "'r'", "axis=1"});
  expect(refused("  return sum(c)"), "PL0203", {"'c'", "axis=0"});
  expect(refused("  return chunk(c, 2)[0]"), "PL0203", {"no columns"});
  expect(refused("  return repeat(r, 2, axis=0)"), "PL0203", {"no rows"});
}

TEST(Verify, Attributes) {
  expect(refused("  return chunk(acc, 3, group=8)[0]"), "PL0207", {"divide"});
  expect(refused("  return sum(acc, group=8)"), "PL0207", {"axis=1"});
}

TEST(Verify, Outputs) {
  expect(refused("  D = 1 + 2\n  return D"), "PL0206", {"'D'", "constant"});
  const Refusal axes = refusal([] {
    GraphBuilder g;
    g.output("amax", max(g.accumulator(), Axis::n), f32, tile_axes);
    (void)g.finish();
  });
  expect(axes, "PL0204", {"'amax'", "tile", "col"});
  const Refusal none = refusal([] { (void)GraphBuilder().finish(); });
  EXPECT_EQ(none.code, "PL0205");
}

TEST(Verify, Names) {
  const auto named = [](const std::string& operand, const std::string& output) {
    return refusal([&] {
      GraphBuilder g;
      g.output(output, g.accumulator() + g.row(operand));
      (void)g.finish();
    });
  };
  EXPECT_EQ(named("bias", "D").code, "none");
  expect(named("D", "D"), "PL0104", {"'D'", "operand"});
  expect(named("B", "D"), "PL0209", {"main loop"});
  expect(named("bias", "X"), "PL0209", {"main loop"});
  EXPECT_EQ(named("acc", "D").code, "none");  // what the accumulator is called is its own affair
  expect(named("a b", "D"), "PL0209", {"'a b'"});
  expect(named("lambda", "D"), "PL0209", {"'lambda'"});
  expect(named("", "D"), "PL0209", {"''"});
  expect(named(std::string("a\0b", 3), "D"), "PL0209", {"cannot name"});
  EXPECT_LT(named(std::string(1 << 20, '*'), "D").text.size(), 1000u);
  const Refusal twice_named = refusal([] {
    GraphBuilder g;
    g.output("D", g.accumulator());
    g.output("D", g.accumulator() * 2.0);
    (void)g.finish();
  });
  EXPECT_EQ(twice_named.code, "PL0104");
}

// What no text and no builder makes.
TEST(Verify, ResultsOfABody) {
  GraphData data =
      parse("def f(acc):\n  s, = reduce((acc,), combine=lambda a, b: (a + b,), identity=(0,), axis=1)\n  return s")
          .data();
  const auto node =
      std::find_if(data.nodes.begin(), data.nodes.end(), [](const Node& n) { return n.combine != nullptr; });
  ASSERT_NE(node, data.nodes.end());
  const auto with_result = [&](NodeId result) {
    Lambda body = *node->combine;
    body.results = {result};
    GraphData changed = data;
    changed.nodes[static_cast<std::size_t>(node - data.nodes.begin())].combine = std::make_shared<const Lambda>(body);
    return refusal([&] { (void)verify(changed, f32); });
  };
  const auto size = static_cast<NodeId>(node->combine->nodes.size());
  EXPECT_EQ(with_result(size - 1).code, "none");
  expect(with_result(size), "PL0208", {"a result that is not defined"});
  expect(with_result(-1), "PL0208", {"a result that is not defined"});
}

TEST(Verify, Combiners) {
  const auto combined = [](std::size_t results, const std::function<Value(const Value&, const Value&)>& f,
                           std::size_t identities = 1) {
    return refusal([&] {
      GraphBuilder g;
      const std::vector<Value> values = {g.accumulator()};
      const std::vector<double> identity(identities, 0.0);
      const auto r = reduce(
          values, [&](auto a, auto b) { return std::vector<Value>(results, f(a[0], b[0])); }, identity, Axis::n);
      g.output("s", r[0]);
      (void)g.finish();
    });
  };
  EXPECT_EQ(combined(1, [](auto& a, auto& b) { return a + b; }).code, "none");
  EXPECT_EQ(combined(1, [](auto& a, auto& b) { return a > b; }).code, "PL0208");
  EXPECT_EQ(combined(2, [](auto& a, auto& b) { return a + b; }).code, "PL0208");
  EXPECT_EQ(combined(
                1, [](auto& a, auto& b) { return a + b; }, 2)
                .code,
            "PL0208");
}

}  // namespace
}  // namespace postlude::inline v0
