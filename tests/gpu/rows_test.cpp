// Graphs without a product, row by row: every way in which rows lie on threads, against the reference.
#include "gpu/device_run.h"
#include "gpu/problem.h"

#include <gtest/gtest.h>

namespace postlude::gpu_tests {
namespace {

struct Rows {
  const char *name, *text;
};
constexpr Rows graphs[] = {
    {"silu", "def f(acc):\n    return silu(acc)\n"},
    {"row_sum", "def f(acc):\n    s: f32 = sum(acc, axis=1)\n    return s\n"},
    {"softmax", "def f(acc):\n    e = exp(acc - max(acc, axis=1))\n    D = e / sum(e, axis=1)\n    return D\n"},
    {"layernorm",
     "def f(acc, gamma: row, beta: row[bf16]):\n    x = cast(acc, bf16)\n    y = (x - mean(x, axis=1)) * rsqrt(var(x, "
     "axis=1) + 1e-5)\n"
     "    D: bf16 = y * gamma + beta\n    return D\n"},
    {"rmsnorm",
     "def f(acc, residual: tile[bf16], gamma: row[f16]):\n    x = acc + residual\n    s: f32 = mean(x * x, axis=1)\n"
     "    D: f16 = x * rsqrt(s + 1e-6) * gamma\n    return D, s\n"},
    {"indices",
     "def f(acc, label: col[i64]):\n    top = argmax(acc, axis=1)\n    loss: f32 = logsumexp(acc, axis=1)\n    hit: "
     "bool = n_index() == label\n"
     "    small: s8 = acc * 10\n    return top, loss, hit, small\n"},
    {"small_phase_first",
     "def f(acc):\n    s: f32 = sum(acc, axis=1, group=4)\n    m: u8 = mean(acc * acc, axis=1) + 1\n    D = acc * "
     "rsqrt(m)\n    return s, m, D\n"},
    {"twice",
     "def f(acc):\n    e = exp(acc - max(acc, axis=1))\n    x = e / sum(e, axis=1)\n    c: bf16 = x\n    D = (x - "
     "mean(x, axis=1)) * n_index()\n"
     "    m: f32 = max(abs(D), axis=1)\n    return c, D, m\n"},
};

class RowsOf : public testing::TestWithParam<Rows> {};

TEST_P(RowsOf, AgreesWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const Shape& shape : {Shape{1, 37, 4096, 0}, Shape{1, 5, 1001, 0}, Shape{1, 300, 64, 0}, Shape{1, 3, 20000, 0},
                               Shape{1, 2, 70000, 0}, Shape{1, 11, 8, 0}, Shape{1, 1, 1, 0}, Shape{1, 9, 2056, 0}}) {
      for (const int offset : {0, 1}) {
        DeviceProblem problem(Stream{.x = type}, parse(GetParam().text), shape, {.offset = offset});
        problem.run();
        for (const Comparison& c : problem.compare()) {
          EXPECT_LE(c.error_over_bound, 1) << shape.m << "x" << shape.n << " offset " << offset << " of " << name(type)
                                           << ": " << c.output << " at " << c.worst[1] << ", " << c.worst[2] << ": "
                                           << c.value << ", expected " << c.expected << " +- " << c.bound;
        }
        const auto first = problem.outputs();
        problem.poison();
        problem.run();
        EXPECT_EQ(problem.outputs(), first);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, RowsOf, testing::ValuesIn(graphs),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace postlude::gpu_tests
