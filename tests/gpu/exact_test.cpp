// Numbers: to the bit where they must be, within their bounds where the hardware truncates.
#include "cuda/emit/ops.h"
#include "definitions.h"
#include "elementary.h"
#include "gpu/device_run.h"
#include "gpu/problem.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <tuple>

namespace postlude::gpu_tests {
namespace {

// Exact operations on whole numbers, in tiles, rows, columns, groups and scalars: tier 1.
const char* const exact_text = R"(
def exact(acc, bias: row[f32], residual: tile, scale: col[f32]):
    x = acc * 2 + bias
    D = where(x > 3, relu(x) - residual, min(x, scale))
    clipped: s8 = x
    top: f32 = max(abs(x), axis=1)
    at = argmax(x, axis=1)
    total: f32 = sum(x, axis=0)
    groups: f32 = sum(acc, axis=1, group=64)
    all_of_it: f32 = sum(acc)
    return D, clipped, top, at, total, groups, all_of_it
)";

struct Arrangement {
  const char* name;
  bool a_mn_major, b_mn_major;
};
constexpr Arrangement arrangements[] = {
    {"AkBk", false, false}, {"AmBk", true, false}, {"AkBn", false, true}, {"AmBn", true, true}};

class Exact : public testing::TestWithParam<std::tuple<DType, Arrangement>> {};

// The CPU backend's bits, by f16 and bf16 in all four transpositions, with and without a batch, at whole and odd sizes,
// aligned and not.
TEST_P(Exact, HasTheBitsOfTheCpu) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const auto& [type, arrangement] = GetParam();
  for (const bool batched : {false, true}) {
    const std::int64_t batch = batched ? 3 : 1;
    for (const Shape& shape :
         {Shape{batch, 256, 384, 128}, Shape{batch, 131, 193, 77}, Shape{batch, 1, 64, 8}, Shape{batch, 300, 7, 1}}) {
      for (const int offset : {0, 1}) {
        const Draw draw{.a_mn_major = arrangement.a_mn_major,
                        .b_mn_major = arrangement.b_mn_major,
                        .elements = Elements::whole,
                        .offset = offset};
        DeviceProblem problem(Gemm{.a = type, .b = type, .batched = batched}, parse(exact_text), shape, draw);
        problem.run();
        EXPECT_EQ(problem.outputs(), problem.outputs_on_cpu())
            << batch << " x " << shape.m << "x" << shape.n << "x" << shape.k << " offset " << offset << " by "
            << problem.schedule();
        Call portable = problem.compile("mma").bind(problem.bindings());
        problem.poison();
        portable.run();
        EXPECT_EQ(problem.outputs(), problem.outputs_on_cpu())
            << batch << " x " << shape.m << "x" << shape.n << "x" << shape.k << " offset " << offset << " by "
            << portable.describe();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Exact,
                         testing::Combine(testing::Values(DType::bf16, DType::f16), testing::ValuesIn(arrangements)),
                         [](const auto& i) {
                           return std::string(name(std::get<0>(i.param))) + std::get<1>(i.param).name;
                         });

TEST(Integers, HaveTheBitsOfTheCpu) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const DType a : {DType::s8, DType::u8}) {
    DeviceProblem problem(
        Gemm{.a = a, .b = DType::s8},
        parse("def f(acc, scale: row[f32]):\n    D: s8 = acc * scale\n    s = sum(acc, axis=1)\n    return D, s\n"),
        Shape{1, 200, 144, 320}, {.elements = Elements::whole});
    problem.run();
    EXPECT_EQ(problem.outputs(), problem.outputs_on_cpu()) << name(a) << " by " << problem.schedule();
    Call portable = problem.compile("mma").bind(problem.bindings());
    problem.poison();
    portable.run();
    EXPECT_EQ(problem.outputs(), problem.outputs_on_cpu()) << name(a) << " by " << portable.describe();
  }
}

// By the schedule that is chosen, and by the portable kernel.
void expect_bits_of_the_cpu(DeviceProblem& problem) {
  for (const char* schedule : {"", "mma"}) {
    Call call = problem.compile(schedule).bind(problem.bindings());
    problem.poison();
    call.run();
    EXPECT_EQ(problem.outputs(), problem.outputs_on_cpu()) << call.describe();
  }
}

// An H200 refuses what ptxas 13.0 makes of a relu, two conversions and cvt.pack (decision 0235).
TEST(Integers, ArePackedBehindARelu) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  DeviceProblem problem(Gemm{.a = DType::bf16, .b = DType::bf16},
                        parse("def f(acc):\n    y: u8 = relu(acc + acc)\n    z: s8 = relu(acc - 1)\n    return y, z\n"),
                        Shape{1, 47, 16, 8}, {.elements = Elements::whole});
  expect_bits_of_the_cpu(problem);
}

// 0 times a negative number, where a compiler chooses between two constants.
TEST(Zeros, KeepTheirSign) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  DeviceProblem problem(Gemm{.a = DType::bf16, .b = DType::bf16},
                        parse("def f(acc):\n    y0: f32 = (acc > 3) * -1.0\n    y1: f32 = -where(acc > 3, 1.0, 0.0)\n"
                              "    y2: f32 = where(acc > 3, 0.0, 1.0) * -2.0\n    t: f32 = max(acc, axis=1)\n"
                              "    y3: f32 = (t > 9) * -1.0\n    return y0, y1, y2, t, y3\n"),
                        Shape{1, 200, 144, 320}, {.elements = Elements::whole});
  expect_bits_of_the_cpu(problem);
}

// y of a stream of x and, where there is one, a tile b, in f32.
std::vector<float> stream_of(const std::string& text, const std::vector<float>& x, const std::vector<float>& b = {}) {
  const std::size_t bytes = x.size() * sizeof(float);
  const cuda::CurrentDevice current(0);
  const cuda::Driver& d = cuda::driver();
  const cuda::Buffer memory[] = {{0, bytes}, {0, bytes}, {0, bytes}};
  const auto tensor = [&](int i) {
    return Tensor(reinterpret_cast<void*>(memory[i].pointer()), DType::f32, {1, static_cast<std::int64_t>(x.size())})
        .on(Device::cuda);
  };
  const Graph graph = parse(text);
  std::vector<Binding> bindings = {{"X", tensor(0)}, {graph.data().outputs.front().name, tensor(1)}};
  cuda::check(d.MemcpyHtoD(memory[0].pointer(), x.data(), bytes), "copying in");
  if (!b.empty()) {
    bindings.push_back({"b", tensor(2)});
    cuda::check(d.MemcpyHtoD(memory[2].pointer(), b.data(), bytes), "copying in");
  }
  std::vector<float> y(x.size());
  compile(Stream{.x = DType::f32}, graph, Target::cuda()).bind(bindings).run();
  cuda::check(d.CtxSynchronize(), "running");
  cuda::check(d.MemcpyDtoH(y.data(), memory[1].pointer(), bytes), "copying out");
  return y;
}

// What the hardware approximates included.
TEST(Math, KeepsItsErrors) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  expect_elementary_errors([](Op op, const std::vector<float>& a, const std::vector<float>& b) {
    const std::string call = !b.empty() ? "acc ** b" : op == Op::neg ? "-acc" : std::string(info(op).id) + "(acc)";
    return stream_of(std::string("def f(acc") + (b.empty() ? "" : ", b: tile[f32]") + "):\n    y: f32 = " + call +
                         "\n    return y\n",
                     a, b);
  });
}

// Of half a million arguments or, with POSTLUDE_MATH_EVERY=1, of all.
TEST(Functions, KeepTheErrorsOfTheirDefinitions) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const char* const every = std::getenv("POSTLUDE_MATH_EVERY");
  const std::uint64_t step = every == nullptr ? 8191 : std::strtoull(every, nullptr, 10);
  constexpr std::uint64_t at_once = 1 << 24;
  for (const auto& [name, parameters] : cuda::native_forms()) {
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32;) {
      std::vector<float> x;
      for (; x.size() < at_once && bits < std::uint64_t{1} << 32; bits += step)
        x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
      expect_error_of_definition(name, parameters, x, stream_of(call_text(name, parameters), x));
    }
  }
}

// The compiler knows that |x| and 2^x are not below 0, and forgets that they may be NaN.
TEST(Comparisons, WithNaNAreFalse) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  DeviceProblem problem(
      Gemm{.a = DType::bf16, .b = DType::bf16},
      parse("def f(acc):\n    x = where(acc > 2, (acc - acc) / (acc - acc), acc)\n    a = abs(x) >= -5\n"
            "    b = 0 < exp2(x)\n    c = -abs(x) <= 0\n    y0: f32 = where(a, acc + 3, a)\n"
            "    y1: f32 = where(b, acc + 3, b)\n    y2: f32 = where(c, acc + 3, c)\n    t = max(acc, axis=1)\n"
            "    z = where(t > 9, (t - t) / (t - t), t)\n    d = abs(z) > -1\n    y3: f32 = where(d, t + 3, d)\n"
            "    return y0, y1, y2, y3\n"),
      Shape{1, 200, 144, 320}, {.elements = Elements::whole});
  expect_bits_of_the_cpu(problem);
}

// A tile is held, and what is kept of it needs no product: the compiler knows that it is 1.
TEST(Held, ConstantIsKept) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  DeviceProblem problem(Gemm{.a = DType::bf16, .b = DType::bf16},
                        parse("def f(acc):\n    c = 100.0 >= 2\n    v = where(c, c, max(tanh(acc), acc))\n"
                              "    y: s8 = v * rsqrt(mean(v * v, axis=1) + 1e-06)\n    return y\n"),
                        Shape{1, 511, 65, 65}, {.elements = Elements::whole});
  Call call = problem.compile("pingpong 64x64x6 sub 64x2 aux 0 raster 8").bind(problem.bindings());
  EXPECT_NE(call.describe().find("held"), std::string::npos) << call.describe();
  problem.poison();
  call.run();
  EXPECT_EQ(problem.outputs(), problem.outputs_on_cpu()) << call.describe();
}

// Every legal kind of schedule gives the same bits.
TEST(Schedules, GiveTheSameBits) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  DeviceProblem problem(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(exact_text), Shape{1, 700, 520, 200},
                        {.elements = Elements::whole});
  problem.run();
  const auto expected = problem.outputs_on_cpu();
  EXPECT_EQ(problem.outputs(), expected) << problem.schedule();
  int ran = 0;
  for (const char* schedule : {"pingpong 64x64x3 sub 32x2 aux 1 raster 1",
                               "pingpong 128x192x2 sub 32x2 aux 2 raster 3",
                               "pingpong 128x128x4 sub 64x2 aux 1 raster 16",
                               "cooperative 128x192x3 sub 32x2 aux 2 raster 8",
                               "cooperative 256x64x2 sub 64x2 aux 2 raster 2",
                               "pingpong 128x128x4 sub 64x2 aux 1 raster 16 split 2",
                               "cooperative 128x192x5 sub 32x2 aux 1 raster 8 split 2",
                               "pingpong 64x96x5 sub 32x2 aux 1 raster 3 split 3 by memory",
                               "cooperative 128x128x4 sub 64x2 aux 1 raster 1 split 4 by memory",
                               "pingpong 128x192x3 sub 32x2 aux 2 raster 2 cluster 2x1",
                               "pingpong 64x96x3 sub 32x2 aux 1 raster 3 cluster 1x2",
                               "cooperative 128x256x3 sub 32x2 aux 1 raster 4 cluster 2x1",
                               "cooperative 256x128x3 sub 32x2 aux 1 raster 1 cluster 1x2",
                               "pingpong 64x64x4 sub 32x2 aux 1 raster 2 cluster 2x1 split 2 by memory",
                               "pingpong 192x64x4 sub 32x2 aux 1 raster 2",
                               "cooperative 128x224x3 sub 32x2 aux 1 raster 8",
                               "pingpong 192x96x3 sub 32x2 aux 2 raster 3 cluster 2x1",
                               "pingpong 192x128x3 sub 32x2 aux 1 raster 2 split 3 by memory",
                               "mma 256x128x4 sub 64x1 aux 2 raster 8",
                               "mma 128x256x2 sub 32x1 aux 1 raster 3",
                               "mma 128x128x3 sub 64x1 aux 2 raster 1",
                               "mma 256x64x3 sub 32x1 aux 2 raster 5",
                               "mma 64x64x5 sub 64x1 aux 1 raster 2"}) {
    try {
      Call call = problem.compile(schedule).bind(problem.bindings());
      problem.poison();
      call.run();
      ++ran;
      EXPECT_EQ(problem.outputs(), expected) << schedule;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_schedule) << schedule << ": " << error.what();
    }
  }
  EXPECT_GE(ran, 10);
}

// Whether it gives these outputs by this schedule, three times over.
void expect_each_run(DeviceProblem& problem, const std::string& schedule, const auto& expected) {
  Call call = problem.compile(schedule).bind(problem.bindings());
  EXPECT_TRUE(call.describe().starts_with(schedule)) << call.describe();
  for (int run = 0; run < 3; ++run) {
    problem.poison();
    call.run();
    EXPECT_EQ(problem.outputs(), expected) << schedule;
  }
}

// Parts of a tile's K, of a cluster's blocks or by memory, with reductions across tiles behind them, and some held.
TEST(Schedules, SplitTilesHaveTheBitsOfTheCpu) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const std::string sums =
                        "def f(acc, residual: tile):\n    D = acc + residual\n    rows: f32 = max(D, axis=1)\n"
                        "    columns: f32 = sum(D, axis=0)\n    return D, rows, columns\n",
                    held = "def f(acc, residual: tile):\n    D = acc - max(acc, axis=1) + residual\n    return D\n";
  for (const std::string& text : {sums, held}) {
    DeviceProblem problem(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(text), Shape{2, 130, 144, 1000},
                          {.elements = Elements::whole});
    const auto expected = problem.outputs_on_cpu();
    for (const char* schedule :
         {"pingpong 64x64x8 sub 32x2 aux 1 raster 3 split 5 by memory",
          "cooperative 128x128x5 sub 32x2 aux 1 raster 2 split 3 by memory",
          "pingpong 64x64x8 sub 32x2 aux 1 raster 2 cluster 2x1",
          "cooperative 128x96x5 sub 32x2 aux 1 raster 1 cluster 1x2",
          "pingpong 64x64x8 sub 32x2 aux 1 raster 3 cluster 1x2 split 3 by memory",
          "pingpong 64x64x8 sub 32x2 aux 1 raster 3 split 2", "pingpong 64x128x6 sub 64x2 aux 2 raster 3 split 4",
          "cooperative 128x128x5 sub 32x2 aux 1 raster 2 split 2",
          "cooperative 128x192x4 sub 32x2 aux 1 raster 2 split 2",
          "cooperative 256x64x4 sub 32x2 aux 1 raster 1 split 2"}) {
      expect_each_run(problem, schedule, expected);
    }
  }
}

// Held tiles have a CPU's bits by each of the schedules.
void expect_held(const Shape& shape, std::initializer_list<const char*> schedules) {
  DeviceProblem problem(Gemm{.a = DType::bf16, .b = DType::bf16},
                        parse("def f(acc, residual: tile):\n    D = acc - max(acc, axis=1) + residual\n    return D\n"),
                        shape, {.elements = Elements::whole});
  const auto expected = problem.outputs_on_cpu();
  for (const char* schedule : schedules) expect_each_run(problem, schedule, expected);
}

// Of which only the last ones' K has parts, behind whole waves of groups of rows.
TEST(Schedules, HeldTilesWithPartsAtTheEndHaveTheBitsOfTheCpu) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  expect_held({1, 8900, 104, 520}, {"pingpong 64x64x8 sub 32x2 aux 1 raster 2 split 4 by memory at end",
                                    "pingpong 64x64x8 sub 32x2 aux 1 raster 2 cluster 2x1 split 3 by memory at end",
                                    "cooperative 128x64x6 sub 32x2 aux 1 raster 3 split 8 by memory at end"});
}

// Of which those of a row lie in two turns of all blocks: there are more than multiprocessors, or each consumer has
// one at most.
TEST(Schedules, HeldRowsInTwoTurnsHaveTheBitsOfTheCpu) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  expect_held({1, 190, 8904, 136},
              {"pingpong 64x64x8 sub 32x2 aux 1 raster 1", "pingpong 64x64x6 sub 32x2 aux 4 raster 1 cluster 1x2",
               "pingpong 128x128x4 sub 32x2 aux 2 raster 2 cluster 2x1", "pingpong 64x128x4 sub 32x2 aux 2 raster 1",
               "pingpong 64x128x4 sub 32x2 aux 4 raster 3", "pingpong 192x64x4 sub 32x2 aux 1 raster 1"});
}

// The product of the other's rows, by operands and outputs whose lines are then a tile's columns.
TEST(Schedules, TurnedTilesHaveTheBitsOfTheCpu) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Layout b : {Layout::any, Layout::k_major}) {
    DeviceProblem problem(Gemm{.a = DType::bf16, .b = DType::bf16, .b_layout = b},
                          parse("def f(acc, bias: row, scale: col, residual: tile):\n"
                                "    D: bf16 = acc * scale + bias\n    E: bf16 = D - residual\n    return D, E\n"),
                          Shape{2, 901, 2008, 264}, {.elements = Elements::whole});
    const auto expected = problem.outputs_on_cpu();
    for (const char* schedule :
         {"turned pingpong 128x96x4 sub 32x2 aux 2 raster 12", "turned cooperative 128x256x3 sub 64x2 aux 1 raster 2",
          "turned pingpong 192x64x4 sub 32x2 aux 2 raster 4 cluster 2x1",
          "turned pingpong 64x160x4 sub 32x2 aux 1 raster 2 split 3 by memory",
          "turned pingpong 128x144x4 sub 48x2 aux 1 raster 2",
          "turned cooperative 128x208x3 sub 16x4 aux 4 raster 12"}) {
      expect_each_run(problem, schedule, expected);
    }
  }
}

// Statistics along both axes, elements of one and four bytes and random numbers; and tiles that wait for their
// columns'.
TEST(Schedules, TurnedStatisticsHaveTheBitsOfTheCpu) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const std::string
      all =
          "def f(acc, keep: tile[bool], c: tile[f32]):\n    D: f32 = where(keep, acc, c)\n    E: s8 = D\n"
          "    F: bf16 = where(random(seed=3) < 0.5, D, 0)\n    columns: f32 = sum(D, axis=0)\n"
          "    rows: f32 = max(D, axis=1)\n    i: i64 = argmax(D, axis=1)\n    j: i64 = argmin(D, axis=0)\n"
          "    return D, E, F, columns, rows, i, j\n",
      held =
          "def f(acc, keep: tile[bool], c: tile[f32]):\n    x = where(keep, acc, c)\n"
          "    top: f32 = max(x, axis=0)\n    D: s8 = x - top\n    return top, D\n";
  for (const std::string& text : {all, held}) {
    DeviceProblem problem(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(text), Shape{2, 901, 2000, 264},
                          {.elements = Elements::whole});
    const auto expected = problem.outputs_on_cpu();
    for (const char* schedule :
         {"turned pingpong 128x96x2 sub 32x2 aux 1 raster 2", "turned cooperative 128x144x2 sub 16x2 aux 2 raster 1",
          "turned pingpong 64x64x4 sub 32x2 aux 1 raster 4"}) {
      expect_each_run(problem, schedule, expected);
    }
  }
}

// Blocks that load for each other, each of many tiles: a stage is free when both have read it.
TEST(Schedules, ClustersHaveTheBitsOfTheCpu) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Layout b : {Layout::any, Layout::k_major}) {
    DeviceProblem problem(Gemm{.a = DType::bf16, .b = DType::bf16, .b_layout = b},
                          parse("def f(acc):\n    D = acc\n    total: f32 = max(D, axis=0)\n    return D, total\n"),
                          Shape{1, 5000, 4104, 264}, {.elements = Elements::whole});
    const auto expected = problem.outputs_on_cpu();
    for (const char* schedule : {"pingpong 128x128x6 sub 32x2 aux 0 raster 12 cluster 2x1",
                                 "pingpong 128x192x4 sub 32x2 aux 0 raster 12 cluster 1x2",
                                 "cooperative 128x256x4 sub 32x2 aux 0 raster 12 cluster 2x1",
                                 "cooperative 256x128x4 sub 32x2 aux 0 raster 12 cluster 1x2"}) {
      expect_each_run(problem, schedule, expected);
    }
  }
}

// Two tiles a block and more, behind fewer K blocks than stages: nothing but what orders the reuse of a consumer's
// memory keeps its warps together (docs/decisions/0040). Racecheck looks at these.
TEST(Schedules, TilesInTurnsHaveTheBitsOfTheCpu) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  struct Case {
    const char *text, *schedule;
  };
  for (const auto& [text, schedule] :
       {Case{"def f(acc):\n    columns: f32 = max(acc, axis=0)\n    return columns\n",
             "cooperative 128x64x3 sub 64x2 aux 0 raster 2"},
        {"def f(acc, residual: tile):\n    D = acc + residual\n    columns: f32 = max(D, axis=0)\n"
         "    total: f32 = max(D)\n    return D, columns, total\n",
         "cooperative 128x64x3 sub 64x2 aux 1 raster 2"},
        {"def f(acc):\n    total: f32 = max(acc)\n    return total\n", "cooperative 128x64x3 sub 64x2 aux 0 raster 2"},
        {"def f(acc):\n    total: f32 = max(acc)\n    return total\n", "pingpong 64x64x4 sub 64x2 aux 0 raster 2"}}) {
    DeviceProblem problem(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(text), Shape{1, 1500, 1400, 72},
                          {.elements = Elements::whole, .schedule = schedule});
    EXPECT_TRUE(problem.schedule().starts_with(schedule)) << problem.schedule();
    for (int run = 0; run < 3; ++run) {
      problem.poison();
      problem.run();
      EXPECT_EQ(problem.outputs(), problem.outputs_on_cpu()) << schedule;
    }
  }
}

// A ring of tile operands that begins again within a tile: the copy engine may not write what a warp still reads
// (docs/decisions/0043). Without the fence, most runs of these were wrong.
TEST(Schedules, TileOperandsInTurnsHaveTheBitsOfTheCpu) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const char* schedule : {"pingpong 128x64x8 sub 32x2 aux 2 raster 2", "pingpong 64x128x4 sub 32x3 aux 1 raster 8",
                               "cooperative 128x128x3 sub 32x2 aux 1 raster 16"}) {
    DeviceProblem problem(Gemm{.a = DType::bf16, .b = DType::bf16},
                          parse("def f(acc, residual: tile):\n    D = acc + residual\n    return D\n"),
                          Shape{1, 7000, 1280, 136}, {.elements = Elements::whole, .schedule = schedule});
    for (int run = 0; run < 10; ++run) {
      problem.poison();
      problem.run();
      ASSERT_EQ(problem.outputs(), problem.outputs_on_cpu()) << schedule;
    }
  }
}

// A long epilogue that waits, fragment by fragment, behind a long main loop.
TEST(Paced, HasTheBitsOfTheCpu) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const Shape shape{1, 1900, 1104, 3080};
  DeviceProblem problem(Gemm{.a = DType::bf16, .b = DType::bf16},
                        parse("def f(acc, residual: tile):\n    D = where(random(seed=1) < 0.75, acc, residual)\n"
                              "    total: f32 = sum(D)\n    return D, total\n"),
                        shape, {.elements = Elements::whole, .schedule = "pingpong 64x64x4 sub 32x2 aux 2 raster 8"});
  const std::string source = problem.compile("pingpong 64x64x4 sub 32x2 aux 2 raster 8")
                                 .explain(ExplainPart::source, shape.m, shape.n, shape.k);
  EXPECT_NE(source.find("#define PACED 1\n"), std::string::npos);
  problem.run();
  EXPECT_EQ(problem.outputs(), problem.outputs_on_cpu());
}

// Operands of one sign are where truncation adds up: every step loses in the same direction.
TEST(Accumulator, StaysWithinItsBoundOnOperandsOfOneSign) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const DType type : {DType::bf16, DType::f16, DType::e4m3}) {
    for (const std::int64_t k : {64, 1024, 8192, 32768}) {
      DeviceProblem problem(Gemm{.a = type, .b = type}, parse("def f(acc):\n    D: f32 = acc\n    return D\n"),
                            Shape{1, 128, 128, k}, {.elements = Elements::positive});
      problem.run();
      const Comparison c = problem.compare().front();
      std::printf("%s K %lld: error / bound %.3f, relative error %.3g\n", name(type).data(), static_cast<long long>(k),
                  c.error_over_bound, (c.value - c.expected) / c.expected);
      EXPECT_LE(c.error_over_bound, 1) << name(type) << " K " << k;
      // Hopper's fp8 accumulator would lose 13% at K = 8192; sums of 512 of K are added in f32.
      EXPECT_LE(std::abs(c.value - c.expected), 0.01 * c.expected) << name(type) << " K " << k;
    }
  }
}

}  // namespace
}  // namespace postlude::gpu_tests
