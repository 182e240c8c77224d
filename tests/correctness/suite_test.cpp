// The suite on the CPU: within the bounds in several dtypes and shapes, exact epilogues to the bit,
// zero sizes, K = 0, in place.
#include "correctness/cases.h"
#include "reference/reference.h"

#include <gtest/gtest.h>

namespace postlude {
namespace {

class Suite : public testing::TestWithParam<std::string> {};

TEST_P(Suite, IsWithinTheBoundsInEveryDtype) {
  for (const DType a : {f32, bf16, f16, e4m3, e5m2}) {
    for (const Shape& shape : {Shape{1, 33, 70, 65}, Shape{1, 65, 256, 129}, Shape{1, 1, 130, 40}}) {
      const fuzz::Case c = suite_case(GetParam(), Gemm{.a = a, .b = a}, shape, fuzz::Values::normal);
      EXPECT_EQ(fuzz::check(c), "") << name(a) << ' ' << shape.m << ' ' << shape.n << ' ' << shape.k;
    }
  }
}

TEST_P(Suite, TakesIntegersBatchesStridesAndStreams) {
  const fuzz::Case integers = suite_case(GetParam(), Gemm{.a = s8, .b = s8}, {1, 17, 40, 33}, fuzz::Values::integers);
  EXPECT_EQ(fuzz::check(integers), "");
  fuzz::Case batched =
      suite_case(GetParam(), Gemm{.a = f32, .b = f32, .batched = true}, {3, 17, 40, 33}, fuzz::Values::normal);
  for (const std::uint64_t layout : {0, 1, 2, 3, 4, 5}) {
    batched.layout = layout;
    EXPECT_EQ(fuzz::check(batched), "") << layout;
  }
  const fuzz::Case stream = suite_case(GetParam(), Stream{.x = bf16}, {1, 40, 72, 0}, fuzz::Values::normal);
  EXPECT_EQ(fuzz::check(stream), "");
}

TEST_P(Suite, TakesEmptyProblems) {
  for (const Shape& shape : {Shape{1, 5, 6, 0}, Shape{1, 0, 6, 4}, Shape{1, 5, 0, 4}, Shape{1, 0, 0, 0}}) {
    fuzz::Case c = suite_case(GetParam(), Gemm{}, shape, fuzz::Values::normal);
    if (shape.n == 0) c.shape.n = 0;
    EXPECT_EQ(fuzz::check(c), "") << shape.m << ' ' << shape.n << ' ' << shape.k;
  }
}

// A larger problem, where blocks, strips and threads meet.
TEST_P(Suite, IsWithinTheBoundsWhereBlocksMeet) {
  fuzz::Checks checks;
  checks.metamorphic = false;
  const fuzz::Case c = suite_case(GetParam(), Gemm{.a = f32, .b = f32}, {1, 260, 1030, 520}, fuzz::Values::normal);
  EXPECT_EQ(fuzz::check(c, checks), "");
}

INSTANTIATE_TEST_SUITE_P(All, Suite, testing::ValuesIn(suite()), [](const auto& info) { return info.param; });

// Operations that are exact on whole numbers: every element is known to the bit.
constexpr const char* exact_epilogues[] = {
    "def plain(acc): return acc",
    "def bias_relu(acc, bias: row): return relu(acc + bias)",
    "def axpby(acc, c: tile, alpha: scalar, beta: scalar): return alpha * acc + scaled(beta, c)",
    "def halves(acc):\n    a, b = chunk(acc, 2)\n    return max(a, b) * 2 - b",
    "def rows(acc):\n    D: f32 = acc\n    most: f32 = max(abs(acc), axis=1)\n    least: f32 = min(acc, axis=0)\n    "
    "return D, most, least",
    "def sums(acc):\n    r: f32 = sum(acc, axis=0)\n    c: f32 = sum(acc, axis=1)\n    s: f32 = sum(acc)\n    g: f32 = "
    "sum(acc, axis=1, group=8)\n    return r, c, s, g",
    "def winner(acc):\n    i = argmax(acc, axis=1)\n    j = argmin(acc, axis=0)\n    return i, j",
    "def quantised(acc):\n    q: s8 = cast(acc * 0.5, s8)\n    return q",
    "def chosen(acc, label: col[i64]):\n    return where((n_index() == label) | (acc > 3), acc, -1)",
};
class Exact : public testing::TestWithParam<const char*> {};
TEST_P(Exact, ToTheBitOnWholeNumbers) {
  for (const DType a : {f32, bf16, f16, e4m3, s8}) {
    const Shape shape{1, 70, 134, 200};
    const fuzz::Case c = make_case(std::string(GetParam()), Gemm{.a = a, .b = a}, shape, fuzz::Values::integers);
    const fuzz::Coverage coverage = fuzz::coverage(c);
    EXPECT_EQ(coverage.exact, coverage.elements) << "the reference should know every bit";
    EXPECT_EQ(fuzz::check(c), "") << name(a);
  }
}
INSTANTIATE_TEST_SUITE_P(All, Exact, testing::ValuesIn(exact_epilogues));

// An output in the memory of an operand that it replaces.
TEST(InPlace, GivesWhatItGivesElsewhere) {
  struct {
    const char *text, *operand;
  } cases[] = {
      {"def f(acc, c: tile):\n    D: f32 = acc + 0.5 * c\n    return D", "c"},
      {"def f(acc, c: tile):\n    x = acc + c\n    D: f32 = x * rsqrt(mean(x * x, axis=1) + 1e-6)\n    return D", "c"},
      {"def f(acc, c: tile):\n    D: f32 = acc * c\n    s: f32 = sum(c, axis=0)\n    return D, s", "c"},
      {"def f(acc, c: tile):\n    D: f32 = acc - max(c, axis=1)\n    return D", "c"},
      {"def f(acc, c: row):\n    D: f32 = sum(acc, axis=0) + c\n    return D", "c"},
  };
  for (const auto& x : cases) {
    const fuzz::Case c = make_case(std::string(x.text), Gemm{}, {1, 45, 83, 30}, fuzz::Values::normal);
    for (const int threads : {1, 2}) {
      fuzz::Tensors tensors = fuzz::materialise(c);
      const auto expected = reference::evaluate(c.graph, c.problem, tensors.bindings);
      auto bindings = tensors.named();
      const Tensor operand = bindings[2].tensor;
      ASSERT_EQ(bindings[2].name, x.operand);
      for (std::size_t i = 0; i < bindings.size(); ++i)
        if (bindings[i].name == "D") bindings[i].tensor = operand;
      const Plan plan = compile(c.problem, Graph(std::make_shared<const GraphData>(c.graph)), Target::cpu(threads));
      plan.bind(bindings).run();
      // The comparison looks for D there.
      tensors.bindings.buffers[1].data = operand.data;
      for (const Comparison& r : reference::compare(expected, c.graph, tensors.bindings))
        EXPECT_LE(r.error_over_bound, 1) << x.text << '\n' << r.output << " is " << r.value << " not " << r.expected;
    }
  }
}

// A graph of ten thousand values, ten thousand deep.
TEST(Large, TenThousandDeep) {
  std::string text = "def deep(acc):\n    d = acc\n";
  for (int i = 0; i < 5000; ++i) text += "    d = min(d + 1, 100)\n";
  text += "    return d\n";
  const fuzz::Case c = make_case(text, Gemm{}, {1, 4, 5, 3}, fuzz::Values::integers);
  ASSERT_GT(c.graph.nodes.size(), 10000u);
  EXPECT_EQ(fuzz::check(c), "");
}

TEST(Large, TenThousandWide) {
  std::string text = "def wide(acc, x: row):\n";
  for (int i = 0; i < 3500; ++i)
    text += "    t" + std::to_string(i) + " = max(acc + " + std::to_string(i % 50) + ", x * " + std::to_string(i % 7) +
            ")\n";
  text += "    d = t0\n";
  for (int i = 1; i < 3500; ++i) text += "    d = d + t" + std::to_string(i) + "\n";
  text += "    return d\n";
  const fuzz::Case c = make_case(text, Gemm{}, {1, 3, 4, 2}, fuzz::Values::integers);
  ASSERT_GT(c.graph.nodes.size(), 10000u);
  EXPECT_EQ(fuzz::check(c), "");
}

}  // namespace
}  // namespace postlude
