// A main loop that the library does not know gets all that Gemm has: every epilogue of the suite on the CPU and in the
// reference, batches, strides, threads, packing, and errors in its own names.
#include "loop/gathered_rows.h"

#include "correctness/cases.h"
#include "plan/support.h"

#include <gtest/gtest.h>

namespace postlude_test {
namespace {

TEST(Given, SaysItsShape) {
  float x = 0;
  const Input input{.name = "A", .axes = {"M", "K"}};
  EXPECT_EQ(given(input, Tensor(&x, f32, {3, 4})).text(), "'A' (3, 4)");
  EXPECT_EQ(given(input, Tensor(&x, f32, {0, 3, 4})).text(), "'A' (0, 3, 4)");
  EXPECT_EQ(given(input, Tensor(&x, f32, {1, 0, 4})).text(), "'A' (1, 0, 4)");
}

class Gather : public testing::TestWithParam<std::string> {};

TEST_P(Gather, IsWithinTheBounds) {
  for (const DType a : {f32, bf16, e4m3}) {
    for (const Shape& shape : {Shape{1, 33, 70, 65}, Shape{1, 3, 130, 40}, Shape{1, 70, 96, 600}}) {
      const fuzz::Case c = suite_case(GetParam(), GatheredRows{a, a}, shape, fuzz::Values::normal);
      EXPECT_EQ(fuzz::check(c), "") << name(a) << ' ' << shape.m << ' ' << shape.n << ' ' << shape.k;
    }
  }
}

TEST_P(Gather, TakesIntegersBatchesStridesAndEmptyProblems) {
  EXPECT_EQ(fuzz::check(suite_case(GetParam(), GatheredRows{s8, s8}, {1, 17, 40, 33}, fuzz::Values::integers)), "");
  fuzz::Case c = suite_case(GetParam(), GatheredRows{f32, f32, true}, {3, 17, 40, 33}, fuzz::Values::integers);
  for (const std::uint64_t layout : {0, 1, 2, 3, 4, 5}) {
    c.layout = layout;
    EXPECT_EQ(fuzz::check(c), "") << layout;
  }
  for (const Shape& shape : {Shape{1, 5, 6, 0}, Shape{1, 0, 6, 4}})
    EXPECT_EQ(fuzz::check(suite_case(GetParam(), GatheredRows{}, shape, fuzz::Values::normal)), "");
}

INSTANTIATE_TEST_SUITE_P(All, Gather, testing::ValuesIn(suite()), [](const auto& info) { return info.param; });

// The rows in another order, and one of no row: known to the bit.
TEST(GatheredRows, AreThoseOfTheIndex) {
  const Plan plan = compile(GatheredRows{}, parse("def f(acc, bias: row):\n    return acc + bias\n"));
  const float a[] = {1, 2, 3, 4}, b[] = {1, 0, 0, 1}, bias[] = {10, 20};
  const std::int32_t index[] = {1, -1, 0, 2, 1};
  float d[10];
  plan.bind({{"A", Tensor(a, f32, {2, 2})},
             {"rows", Tensor(index, DType::i32, {5})},
             {"B", Tensor(b, f32, {2, 2})},
             {"bias", Tensor(bias, f32, {2})},
             {"D", Tensor(d, f32, {5, 2})}})
      .run();
  const float expected[] = {13, 24, 10, 20, 11, 22, 10, 20, 13, 24};
  EXPECT_TRUE(std::equal(d, d + 10, expected));
}

TEST(GatheredRows, AreRefusedByTheirOwnNames) {
  const Plan plan = compile(GatheredRows{}, parse("def f(acc, c: tile):\n    return acc + c\n"));
  const Array a({4, 3}), b({3, 5}), c({2, 5}), d({2, 5});
  const std::int32_t index[] = {0, 1};
  const Tensor i(index, DType::i32, {2});
  const auto bind = [&](const Tensor& a, const Tensor& i, const Tensor& b, const Tensor& c) {
    (void)plan.bind({{"A", a}, {"rows", i}, {"B", b}, {"c", c}, {"D", d.view()}});
  };
  bind(a.view(), i, b.view(), c.view());
  EXPECT_ERROR(ErrorCode::wrong_dtype, "'rows' is f32", bind(a.view(), Array({2}).view(), b.view(), c.view()));
  EXPECT_ERROR(ErrorCode::wrong_rank, "the plan wants M",
               bind(a.view(), Tensor(index, DType::i32, {1, 2}), b.view(), c.view()));
  EXPECT_ERROR(ErrorCode::wrong_shape, "'B' (4, 5) has K = 4 rows, but 'A' (4, 3) fixes K to 3",
               bind(a.view(), i, Array({4, 5}).view(), c.view()));
  EXPECT_ERROR(ErrorCode::wrong_shape, "'rows' (2,) fixes M to 2", bind(a.view(), i, b.view(), Array({3, 5}).view()));
  EXPECT_ERROR(ErrorCode::missing_operand, "'rows' (M, i32)", (void)plan.bind({{"A", a.view()}, {"B", b.view()}}));
  EXPECT_ERROR(ErrorCode::bad_name, "'rows' is the name of an operand of the main loop",
               (void)compile(GatheredRows{}, parse("def f(acc, rows: row):\n    return acc + rows\n")));
  EXPECT_TRUE(supports(GatheredRows{bf16, bf16}, parse("def f(acc):\n    return acc\n"), Target::parse("sm_90a")));
}

// They are packed from where they lie, a block at a time.
TEST(GatheredRows, AreNotCopied) {
  const Plan plan = compile(GatheredRows{}, parse("def f(acc):\n    return acc\n"), Target::cpu(1));
  constexpr std::int64_t m = 4096, n = 64, k = 512;
  const std::string loops = plan.explain(ExplainPart::loops, m, n, k);
  const std::size_t at = loops.find("workspace ");
  ASSERT_NE(at, std::string::npos) << loops;
  EXPECT_LT(std::atoll(loops.c_str() + at + 10), m * k * 4 / 4) << loops;
}

TEST(GatheredRows, AreExplained) {
  const Plan plan = compile(GatheredRows{bf16, bf16}, parse("def f(acc):\n    return acc\n"));
  const std::string text = plan.explain(ExplainPart::summary, 64, 32, 16);
  EXPECT_EQ(text.rfind("f: gather bf16 x bf16, f32 accumulator", 0), 0) << text;
  EXPECT_NE(text.find("rows"), std::string::npos) << text;
}

}  // namespace
}  // namespace postlude_test
