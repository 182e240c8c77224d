// The suite and a range of random epilogues on the device, against the reference. Skipped where there is no GPU.
#include "gpu/device_run.h"
#include "gpu/problem.h"

#include <gtest/gtest.h>

namespace postlude::gpu_tests {
namespace {

class Suite : public testing::TestWithParam<const char*> {};

TEST_P(Suite, AgreesWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Shape& shape :
       {Shape{1, 256, 512, 256}, Shape{1, 300, 272, 136}, Shape{1, 129, 514, 77}, Shape{1, 1, 16, 8}}) {
    for (const char* schedule : kernels) {
      DeviceProblem problem(GetParam(), shape, schedule);
      problem.run();
      for (const Comparison& c : problem.compare()) {
        EXPECT_LE(c.error_over_bound, 1) << GetParam() << " " << shape.m << "x" << shape.n << "x" << shape.k
                                         << " output " << c.output << " at " << c.worst[1] << ", " << c.worst[2] << ": "
                                         << c.value << ", expected " << c.expected << " +- " << c.bound << " by "
                                         << problem.schedule();
      }
    }
  }
}

// Behind a chunk in groups B arrives by boxes of a group's halves, and operands and outputs lie in groups.
TEST(Chunks, InGroupsAndOfOperandsAgreeWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const char* name : {"rope", "swiglu_grad", "qk_norm_rope"}) {
    for (const Shape& shape :
         {Shape{1, 256, 512, 256}, Shape{1, 300, 384, 136}, Shape{1, 129, 2176, 77}, Shape{1, 70, 128, 40}}) {
      for (const char* schedule : kernels) {
        DeviceProblem problem(name, shape, schedule);
        problem.run();
        EXPECT_EQ(problem.schedule().find("from memory"), std::string::npos) << problem.schedule();
        for (const Comparison& c : problem.compare()) {
          EXPECT_LE(c.error_over_bound, 1)
              << name << " " << shape.m << "x" << shape.n << "x" << shape.k << " at " << c.worst[1] << ", "
              << c.worst[2] << ": " << c.value << ", expected " << c.expected << " by " << problem.schedule();
        }
      }
    }
  }
}

// A tile reduces groups of its rows, through shared memory between two barriers, and blocks, which stay in registers.
constexpr const char* groups_of_rows[] = {
    "def f(acc):\n    s: f32 = max(max(abs(acc), axis=0, group=32), 1e-12) / 448\n"
    "    D: e4m3 = acc / repeat(s, 32, axis=0)\n    return D, s\n",
    "def f(acc, bias: row[bf16]):\n    x = silu(acc + bias)\n    m = mean(x, axis=0, group=64)\n"
    "    D: bf16 = x - repeat(m, 64, axis=0)\n    return D, m\n",
    "def f(acc):\n    amax = max(max(abs(acc), axis=1, group=128), axis=0, group=128)\n"
    "    s: f32 = max(amax, 1e-12) / 448\n    D: e4m3 = acc / repeat(repeat(s, 128), 128, axis=0)\n    return D, s\n",
};

void reduce_groups_of_rows(std::initializer_list<Shape> shapes) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const char* text : groups_of_rows) {
    for (const Shape& shape : shapes) {
      for (const char* schedule :
           {"", "cooperative 128x128x4 sub 64x2 aux 0 raster 1", "pingpong 128x128x4 sub 64x2 aux 0 raster 1", "mma"}) {
        DeviceProblem problem(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(text), shape, Draw{.schedule = schedule});
        problem.run();
        EXPECT_EQ(problem.schedule().find("from memory"), std::string::npos) << problem.schedule();
        for (const Comparison& c : problem.compare())
          EXPECT_LE(c.error_over_bound, 1)
              << c.output << " at " << c.worst[1] << ", " << c.worst[2] << " of " << shape.m << "x" << shape.n << "x"
              << shape.k << " by " << problem.schedule();
      }
    }
  }
}

TEST(GroupsOfRows, AgreeWithTheReference) {
  reduce_groups_of_rows({Shape{1, 128, 128, 64}, Shape{1, 1664, 1920, 72}, Shape{3, 256, 1024, 136}});
}

// For compute-sanitizer: more tiles than multiprocessors, and K shorter than the stages, so that tiles follow each
// other at once.
TEST(GroupsOfRows, Sanitized) { reduce_groups_of_rows({Shape{1, 256, 256, 128}, Shape{1, 1664, 1408, 64}}); }

TEST_P(Suite, TenRunsGiveTheSameBits) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const char* schedule : kernels) {
    DeviceProblem problem(GetParam(), Shape{1, 1000, 1040, 256}, schedule);
    problem.run();
    const auto first = problem.outputs();
    for (int i = 0; i < 9; ++i) {
      problem.poison();
      problem.run();
      EXPECT_EQ(problem.outputs(), first) << "run " << i + 2 << " by " << problem.schedule();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Epilogues, Suite, testing::ValuesIn(suite_names),
                         [](const auto& i) { return std::string(i.param); });

// What ./dev gpu runs under compute-sanitizer: one epilogue of each kind, whole and ragged tiles.
class Sanitized : public testing::TestWithParam<const char*> {};

TEST_P(Sanitized, Runs) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Shape& shape : {Shape{1, 256, 256, 128}, Shape{1, 150, 144, 72}}) {
    for (const char* schedule : kernels) {
      DeviceProblem problem(GetParam(), shape, schedule);
      problem.run();
      for (const Comparison& c : problem.compare())
        EXPECT_LE(c.error_over_bound, 1) << c.output << " by " << problem.schedule();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Epilogues, Sanitized, testing::ValuesIn(suite_names),
                         [](const auto& i) { return std::string(i.param); });

TEST(Fuzz, RandomEpilogues) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  int drawn = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const fuzz::Case c = draw(seed);
    if (!fuzz::divisible(c)) continue;
    const Verdict verdict = check_on_device(c);
    drawn += verdict.drawn;
    EXPECT_EQ(verdict.wrong, "") << "seed " << seed << " by " << verdict.schedule;
  }
  EXPECT_GE(drawn, 6) << "random schedules are refused";
}

}  // namespace
}  // namespace postlude::gpu_tests
