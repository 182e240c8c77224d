// Rows, against the reference: graphs without a product, in every way in which rows lie on threads; and behind one.
#include "gpu/device_run.h"
#include "gpu/problem.h"

#include <postlude/error.h>

#include <gtest/gtest.h>

#include <optional>

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

// Against the reference, and the same bits in as many runs again.
void expect_right(DeviceProblem& problem, int again) {
  problem.run();
  for (const Comparison& c : problem.compare()) {
    EXPECT_LE(c.error_over_bound, 1) << c.output << " at " << c.worst[0] << ", " << c.worst[1] << ", " << c.worst[2]
                                     << ": " << c.value << ", expected " << c.expected << " +- " << c.bound;
  }
  const auto first = problem.outputs();
  for (int run = 0; run < again; ++run) {
    problem.poison();
    problem.run();
    EXPECT_EQ(problem.outputs(), first);
  }
}

std::string written(const Shape& shape, int offset) {
  return std::to_string(shape.batch) + "x" + std::to_string(shape.m) + "x" + std::to_string(shape.n) + " offset " +
         std::to_string(offset);
}

class RowsOf : public testing::TestWithParam<Rows> {};

TEST_P(RowsOf, AgreesWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const Shape& shape : {Shape{1, 37, 4096, 0}, Shape{1, 5, 1001, 0}, Shape{1, 300, 64, 0}, Shape{1, 3, 20000, 0},
                               Shape{1, 2, 70000, 0}, Shape{1, 11, 8, 0}, Shape{1, 1, 1, 0}, Shape{1, 9, 2056, 0}}) {
      for (const int offset : {0, 1}) {
        DeviceProblem problem(Stream{.x = type}, parse(GetParam().text), shape, {.offset = offset});
        SCOPED_TRACE(written(shape, offset) + " of " + std::string(name(type)));
        expect_right(problem, 1);
      }
    }
  }
}

// Behind a product, tiles that wait in registers for the statistics of their rows: every size of state, one tile beside
// another up to more than a wave has, ragged and unaligned, and several runs, each with another tag.
constexpr Rows held_graphs[] = {
    {"softmax", "def f(acc):\n    e = exp(acc - max(acc, axis=1))\n    D = e / sum(e, axis=1)\n    return D\n"},
    {"softmax_of_bf16",
     "def f(acc, mask: tile[bool]):\n    x = cast(where(mask, acc, -inf), bf16)\n    e = exp(x - max(x, axis=1))\n    "
     "D: "
     "bf16 = e / sum(e, axis=1)\n    return D\n"},
    {"layernorm",
     "def f(acc, gamma: row, beta: row[bf16]):\n    x = cast(acc, bf16)\n    y = (x - mean(x, axis=1)) * rsqrt(var(x, "
     "axis=1) + 1e-5)\n    D: bf16 = y * gamma + beta\n    return D\n"},
    {"rmsnorm",
     "def f(acc, residual: tile[bf16], gamma: row[f16], scale: col):\n    x = acc + residual\n    s: f32 = mean(x * x, "
     "axis=1)\n    D: f16 = x * rsqrt(s + 1e-6) * gamma * scale\n    return D, s\n"},
    {"operands_behind",
     "def f(acc, a: tile[bf16], b: tile[f16]):\n    x: bf16 = acc * a\n    D: f16 = x / (1 + max(abs(x), axis=1)) + b "
     "* sum(x, axis=1)\n    return x, D\n"},
    {"quantised",
     "def f(acc):\n    s: f32 = max(abs(acc), axis=1) / 127\n    D: s8 = round(acc / max(s, 1e-20))\n    return D, "
     "s\n"},
    {"first_of_largest",
     "def f(acc):\n    top = argmax(acc, axis=1)\n    D: bf16 = where(n_index() == top, acc, 0)\n    return D, top\n"},
    {"chunked",
     "def f(acc):\n    gate, up = chunk(acc, 2)\n    x = silu(gate) * up\n    D: bf16 = x * rsqrt(mean(x * x, axis=1) "
     "+ "
     "1e-6)\n    return D\n"},
    {"heads",
     "def f(acc, residual: tile[bf16], gamma: row[f16], scale: col):\n    x: bf16 = acc + residual\n    s = mean(x * "
     "x, "
     "axis=1, group=64)\n    D: f16 = x * repeat(rsqrt(s + 1e-6), 64) * gamma * scale\n    return x, D\n"},
    {"quantised_in_groups",
     "def f(acc):\n    gate, up = chunk(acc, 2)\n    y = silu(gate) * up\n    s: f32 = max(max(abs(y), axis=1, "
     "group=32), "
     "1e-6) / 448\n    D: e4m3 = y / repeat(s, 32)\n    total: f32 = sum(y, axis=0)\n    return D, s, total\n"},
};

// By a schedule that holds its tiles, where one is legal: the heuristic takes two launches where it thinks them faster.
void hold(std::optional<DeviceProblem>& problem, const Rows& rows, const Shape& shape, int offset) {
  for (const char* schedule :
       {"", "pingpong 64x128x4 sub 32x2 aux 0 raster 1", "pingpong 64x128x4 sub 32x2 aux 1 raster 1",
        "pingpong 128x128x4 sub 32x2 aux 2 raster 1", ""}) {
    try {
      problem.emplace(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(rows.text), shape,
                      Draw{.offset = offset, .schedule = schedule});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_schedule) throw;
      continue;
    }
    if (problem->schedule().find("held") != std::string::npos) return;
  }
}

class HeldRows : public testing::TestWithParam<Rows> {};

TEST_P(HeldRows, AgreesWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  if (!cuda::device(0).is_hopper()) GTEST_SKIP() << "tiles are held on Hopper";
  int held = 0;
  for (const Shape& shape :
       {Shape{1, 300, 1024, 64}, Shape{1, 1, 8, 64}, Shape{2, 130, 200, 64}, Shape{1, 4000, 2048, 64},
        Shape{3, 257, 776, 128}, Shape{1, 33, 16896, 64}, Shape{1, 66, 17000, 64}, Shape{1, 70, 1002, 72}}) {
    for (const int offset : {0, 1}) {
      std::optional<DeviceProblem> problem;
      hold(problem, GetParam(), shape, offset);
      SCOPED_TRACE(written(shape, offset) + " by " + problem->schedule());
      held += problem->schedule().find("held") != std::string::npos;
      expect_right(*problem, 5);
    }
  }
  EXPECT_GE(held, 6);
}

INSTANTIATE_TEST_SUITE_P(Graphs, HeldRows, testing::ValuesIn(held_graphs),
                         [](const auto& i) { return std::string(i.param.name); });

INSTANTIATE_TEST_SUITE_P(Graphs, RowsOf, testing::ValuesIn(graphs),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace postlude::gpu_tests
