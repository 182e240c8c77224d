// What explain counts, and which sizes can be asked for.
#include <postlude/error.h>
#include <postlude/parse.h>
#include <postlude/plan.h>

#include <gtest/gtest.h>

#include <string>

namespace postlude {
namespace {

std::string epilogue_cost(const std::string& body) {
  const Plan plan = compile(Gemm{}, parse("def f(acc):\n    " + body + "\n"));
  const std::string text = plan.explain(ExplainPart::summary, 100, 50, 30);
  const std::string head = "\n  epilogue    ";
  const std::size_t at = text.find(head);
  return at == std::string::npos ? text : text.substr(at + head.size(), text.find('\n', at + 1) - at - head.size());
}

TEST(Cost, CountsTheOperationsOfAnEpilogue) {
  EXPECT_EQ(epilogue_cost("return acc"), "0 op");
  EXPECT_EQ(epilogue_cost("return acc + 1"), "5 kop");
  EXPECT_EQ(epilogue_cost("return exp(acc) * 3"), "10 kop");
  EXPECT_EQ(epilogue_cost("return sum(acc, axis=1)"), "5 kop");
  EXPECT_EQ(epilogue_cost("a, b = chunk(acc, 2)\n    return sum(concat((exp(a), b)), axis=1)"), "7.5 kop");
}

bool can_be_asked_for(std::int64_t m, std::int64_t n, std::int64_t k) {
  static const Plan plan = compile(Gemm{}, parse("def f(acc):\n    return acc + 1\n"));
  try {
    static_cast<void>(plan.explain(ExplainPart::summary, m, n, k));
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::size_overflow) << error.what();
    return false;
  }
}

TEST(Cost, SizesThatCanBeAddressed) {
  constexpr std::int64_t large = std::int64_t{1} << 24;  // 3 * 2^48 is the longest tensor there could be
  EXPECT_TRUE(can_be_asked_for(large, large, large));
  EXPECT_FALSE(can_be_asked_for(2 * large, 2 * large, 2 * large));
  EXPECT_FALSE(can_be_asked_for(2 * large, 2 * large, 1));
  EXPECT_FALSE(can_be_asked_for(2 * large, 1, 2 * large));
  EXPECT_FALSE(can_be_asked_for(1, 2 * large, 2 * large));
  EXPECT_FALSE(can_be_asked_for(-1, 2, 2));
}

}  // namespace
}  // namespace postlude
