// Decisions, without a device: what explain prints is what bind would fill in.
#include "cuda/decide/decision.h"
#include "lower/lower.h"

#include <postlude/error.h>
#include <postlude/parse.h>
#include <postlude/plan.h>

#include <gtest/gtest.h>

namespace postlude::inline v0::cuda {
namespace {

constexpr const char* bias_relu = "def f(acc, bias: row[f32]):\n    D: bf16 = relu(acc + bias)\n    return D\n";
const Gemm bf16{.a = DType::bf16, .b = DType::bf16};

Plan plan_for(const std::string& text, const std::string& isa, const std::string& schedule = "",
              const Problem& problem = bf16) {
  Target target = Target::parse(isa);
  target.schedule = schedule;
  return postlude::compile(problem, parse(text), target);
}

// The line of the schedule that was chosen, as it can be asked for.
std::string chosen(const Plan& plan, std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::string all = plan.explain(ExplainPart::schedule, m, n, k);
  const std::size_t end = all.find("  chosen\n");
  const std::size_t begin = all.rfind('\n', end) + 1;
  return end == all.npos ? "" : all.substr(begin, all.find("  ", begin) - begin);
}

// A Subject as compile() makes it.
Subject subject(const std::string& text, const std::string& isa, const std::string& schedule = "") {
  lower::Options options;
  options.halves = 64;
  return {bf16, std::make_shared<const lower::Program>(lower::lower(parse(text).data(), facts_of(bf16), options)), isa, 132,
          parse_request(schedule, isa == "sm_90a", isa)};
}

Decision decided(const Subject& s, const Shape& shape) {
  return decide(s, usual_layout(s.problem, *s.program, shape), [](const auto&) { return std::string(); });
}

// An accumulator through memory, and then a stream over it, is a schedule like others: it can be asked for as it is
// printed.
TEST(Decision, TakesTheAccumulatorThroughMemoryIfAsked) {
  for (const char* isa : {"sm_90a", "sm_80"}) {
    const Plan plan = plan_for(bias_relu, isa, "accumulator");
    EXPECT_EQ(plan.explain(ExplainPart::loops, 512, 512, 512),
              "epilogue from memory: the schedule asks for it\nphase 0: a pass over memory\n");
    const std::string line = chosen(plan, 512, 512, 512);
    EXPECT_TRUE(line.starts_with("accumulator by ")) << line;
    EXPECT_EQ(chosen(plan_for(bias_relu, isa, line), 512, 512, 512), line);
    EXPECT_EQ(chosen(plan_for(bias_relu, isa, "accumulator by mma"), 512, 512, 512).find("accumulator by mma "), 0u);
  }
  for (const char* unreadable : {"accumulator by", "accumulatorpingpong", "accumulator by sideways", "accumulators"})
    EXPECT_THROW((void)plan_for(bias_relu, "sm_90a", unreadable), Error) << unreadable;
}

// What a decision says of itself: why, once, as a sentence.
TEST(Decision, SaysWhyItIsNotFused) {
  const Subject groups = subject("def f(acc):\n    s: f32 = sum(acc, axis=1, group=192)\n    return s\n", "sm_80");
  const std::string text = decided(groups, {1, 512, 768, 512}).describe();
  EXPECT_NE(text.find("; epilogue from memory: no tile holds groups of 192 columns; "), text.npos) << text;
  EXPECT_EQ(text.find("not no"), text.npos) << text;
}

// Judged sources are rejected in order, and the next is taken.
TEST(Decision, TakesTheFirstThatIsNotRejected) {
  const Subject s = subject(bias_relu, "sm_90a");
  int asked = 0;
  const Layout layout = usual_layout(s.problem, *s.program, {1, 4096, 4096, 4096});
  const Decision d =
      decide(s, layout, [&](const auto&) { return ++asked < 3 ? std::string("it spills") : std::string(); });
  ASSERT_GE(d.considered.size(), 4u);
  using Verdict = Considered::Verdict;
  EXPECT_EQ(d.considered[1].verdict, Verdict::rejected);
  EXPECT_EQ(d.considered[2].verdict, Verdict::chosen);
  EXPECT_EQ(d.considered[3].verdict, Verdict::next);
  EXPECT_EQ(asked, 3);
  EXPECT_NE(d.describe().find("; not " + to_string(d.considered[0].schedule) + ": it spills"), std::string::npos);
  const auto all = static_cast<int>(d.considered.size());
  asked = 0;
  const Decision none =
      decide(s, layout, [&](const auto&) { return asked++ < all ? std::string("it spills") : std::string(); });
  EXPECT_FALSE(none.fused);
  EXPECT_EQ(none.not_fused.size(), d.considered.size());
  EXPECT_NE(none.describe().find("; epilogue from memory: no schedule of the product with it compiles well; "),
            std::string::npos)
      << none.describe();
}

// The same shapes and strides, the same bytes of parameters: nothing but the layout is looked at.
TEST(Decision, IsAFunctionOfShapesAndStrides) {
  const Subject s = subject(
      "def f(acc, t: tile[bf16]):\n    x = acc + t\n    D: bf16 = x - max(x, axis=1)\n    return D\n", "sm_90a");
  for (const Shape& shape : {Shape{1, 512, 512, 512}, {1, 512, 512, 16384}, {1, 70, 250, 40}}) {
    const Decision one = decided(s, shape), other = decided(s, shape);
    ASSERT_EQ(one.kernels.size(), other.kernels.size());
    for (std::size_t i = 0; i < one.kernels.size(); ++i) {
      EXPECT_EQ(*one.kernels[i].source, *other.kernels[i].source);
      EXPECT_EQ(one.kernels[i].block, other.kernels[i].block);
      EXPECT_EQ(one.kernels[i].grid, other.kernels[i].grid);
    }
    EXPECT_EQ(one.workspace, other.workspace);
  }
}

// Odd strides are repacked, and explain says so at the sizes where contiguous tensors have them.
TEST(Decision, ShowsRepacks) {
  const Plan plan = plan_for(bias_relu, "sm_90a");
  EXPECT_EQ(plan.explain(ExplainPart::schedule, 512, 512, 512).find("repacked"), std::string::npos);
  const std::string odd = plan.explain(ExplainPart::schedule, 512, 512, 511);
  EXPECT_NE(odd.find("A is repacked\nB is repacked\n"), std::string::npos) << odd;
  Gemm along_n = bf16;
  along_n.b_layout = postlude::Layout::mn_major;
  const std::string a = plan_for(bias_relu, "sm_90a", "", along_n).explain(ExplainPart::schedule, 512, 512, 511);
  EXPECT_NE(a.find("A is repacked\n"), std::string::npos) << a;
  EXPECT_EQ(a.find("B is repacked\n"), std::string::npos) << a;
  EXPECT_NE(plan.explain(ExplainPart::source, 512, 512, 511).find("postlude_repack"), std::string::npos);
}

}  // namespace
}  // namespace postlude::inline v0::cuda
