// The phases of an epilogue, and the values that cross between them.
#include "helpers.h"

#include <gtest/gtest.h>

#include <array>
#include <tuple>

namespace postlude::inline v0::lower {
namespace {

// Crossing buffers, by dtype.
std::vector<DType> crossings(const Program& p) {
  std::vector<DType> result;
  for (const Buffer& b : p.buffers)
    if (b.kind == BufferKind::crossing) result.push_back(b.dtype);
  return result;
}

int tile_phases(const Program& p) {
  int n = 0;
  for (const Phase& phase : p.phases) n += phase.domain == tile_axes;
  return n;
}

bool loads(const Phase& phase, const Program& p, std::string_view name) {
  for (const Instruction& x : phase.code)
    if (x.op == Op::operand && p.buffers[x.access.buffer].name == name) return true;
  return false;
}

constexpr const char* rmsnorm = R"(
def rmsnorm(acc, residual: tile[bf16], gamma: row[bf16]):
    x = cast(acc, bf16) + residual
    D: bf16 = x * rsqrt(mean(x * x, axis=1) + 1e-6) * gamma
    return D
)";

TEST(Cut, RmsnormCrossesRoundedAccumulatorsAndReadsTheResidualAgain) {
  const Program p = lowered(rmsnorm);
  ASSERT_EQ(tile_phases(p), 2) << p.print();
  EXPECT_EQ(crossings(p), std::vector<DType>{bf16}) << p.print();
  EXPECT_TRUE(loads(p.phases[1], p, "residual")) << p.print();
}

// A value that crosses has the dtype of what it chooses from, where that holds the constant too.
TEST(Cut, AConstantThatABufferDoesNotHoldDoesNotCross) {
  const auto crossing = [](const std::string& type, const std::string& constant) {
    return crossings(lowered("def f(acc, x: tile[" + type + "]):\n    y = where(acc > 0, x, " + constant +
                             ")\n    D: f32 = y / max(acc, axis=1)\n    return D\n"));
  };
  for (const auto& [type, dtype, held, not_held] :
       {std::tuple{"u8", u8, std::array{"0", "255"}, std::array{"-1", "256"}},
        std::tuple{"s8", s8, std::array{"-128", "127"}, std::array{"-129", "128"}}}) {
    for (const char* constant : held) EXPECT_EQ(crossing(type, constant), std::vector<DType>{dtype}) << constant;
    for (const char* constant : not_held) EXPECT_NE(crossing(type, constant), std::vector<DType>{dtype}) << constant;
  }
}

TEST(Cut, AResidualThatIsOverwrittenInTheSamePhaseMayBeReadThere) {
  Options options;
  options.in_place = {{"D", "residual"}};
  const Program p = lowered(rmsnorm, bf16_gemm, options);
  EXPECT_EQ(crossings(p), std::vector<DType>{bf16}) << p.print();
  EXPECT_TRUE(loads(p.phases[1], p, "residual")) << p.print();
}

TEST(Cut, AResidualThatIsOverwrittenBeforeMustCross) {
  const std::string text = R"(
def f(acc, residual: tile[bf16]):
    x = cast(acc, bf16) + residual
    y: bf16 = x
    D: bf16 = x * rsqrt(mean(x * x, axis=1))
    return y, D
)";
  const Program apart = lowered(text);
  EXPECT_TRUE(loads(apart.phases[1], apart, "residual")) << apart.print();
  EXPECT_EQ(crossings(apart), std::vector<DType>{bf16}) << apart.print();
  Options options;
  options.in_place = {{"y", "residual"}};
  const Program p = lowered(text, bf16_gemm, options);
  EXPECT_FALSE(loads(p.phases[1], p, "residual")) << p.print();
  EXPECT_FALSE(loads(p.phases[1], p, "y")) << p.print();
  // Either both halves in bf16 or their sum in f32: four bytes.
  std::int64_t bytes = 0;
  for (DType d : crossings(p)) bytes += size_of(d);
  EXPECT_EQ(bytes, 4) << p.print();
}

TEST(Cut, LayernormWithResidual) {
  const Program p = lowered(R"(
def f(acc, residual: tile[bf16], gamma: row, beta: row):
    x = cast(acc, bf16) + residual
    D: bf16 = (x - mean(x, axis=1)) * rsqrt(var(x, axis=1) + 1e-5) * gamma + beta
    return D
)");
  EXPECT_EQ(tile_phases(p), 2) << p.print();
  EXPECT_EQ(crossings(p), std::vector<DType>{bf16}) << p.print();
  ASSERT_EQ(p.phases[0].reductions.size(), 1u);
  EXPECT_EQ(p.phases[0].reductions[0].reducer, Reducer::welford);
}

TEST(Cut, AmongEqualCutsTheLatest) {
  // acc + residual in f32 costs what acc costs, and saves reading the residual again.
  const Program p =
      lowered("def f(acc, residual: tile):\n  x = acc + residual\n  return x * rsqrt(mean(x * x, axis=1))");
  EXPECT_EQ(crossings(p), std::vector<DType>{f32});
  EXPECT_FALSE(loads(p.phases[1], p, "residual")) << p.print();
}

TEST(Cut, SoftmaxFollowedByAColumnSum) {
  const Program p = lowered(R"(
def f(acc):
    x = cast(acc, bf16)
    e = exp(x - max(x, axis=1))
    D: bf16 = e / sum(e, axis=1)
    colsum = sum(D, axis=0)
    return D, colsum
)");
  EXPECT_EQ(tile_phases(p), 2) << p.print();
  EXPECT_EQ(crossings(p), std::vector<DType>{bf16}) << p.print();
  ASSERT_EQ(p.phases[1].reductions.size(), 1u);
  EXPECT_EQ(p.phases[1].reductions[0].axes, Axes(Axis::m));
  EXPECT_EQ(p.phases[1].stores.size(), 1u);
}

TEST(Cut, AnOutputThatHoldsTheValueIsReadAgain) {
  const Program exact =
      lowered("def f(acc):\n  z: bf16 = acc\n  x = cast(acc, bf16)\n  D: bf16 = x / sum(x, axis=1)\n  return z, D");
  EXPECT_TRUE(crossings(exact).empty()) << exact.print();
  EXPECT_TRUE(loads(exact.phases[1], exact, "z")) << exact.print();
  const Program wide = lowered("def f(acc):\n  z: f32 = acc\n  D: bf16 = acc / sum(acc, axis=1)\n  return z, D");
  EXPECT_TRUE(crossings(wide).empty()) << wide.print();
  const Program rounded = lowered("def f(acc):\n  z: bf16 = acc\n  D: bf16 = acc / sum(acc, axis=1)\n  return z, D");
  EXPECT_EQ(crossings(rounded), std::vector<DType>{f32}) << rounded.print();
  Options options;
  options.in_place = {{"z", "t"}};
  const Program aliased = lowered(
      "def f(acc, t: tile):\n  z: bf16 = acc + t\n  x = cast(acc + t, bf16)\n  D: bf16 = x / sum(x, axis=1)\n  return "
      "z, D",
      bf16_gemm, options);
  EXPECT_EQ(crossings(aliased), std::vector<DType>{bf16}) << aliased.print();
}

TEST(Cut, RoundedValuesStayNarrowThroughExactOperations) {
  for (const char* x : {"relu(cast(acc, bf16))", "abs(-cast(acc, bf16))", "max(cast(acc, bf16), 0.5)",
                        "where(acc > 0, cast(acc, bf16), 0)", "min(cast(acc, bf16), cast(acc * acc, e4m3))"}) {
    const Program p = lowered(std::string("def f(acc):\n  x = ") + x +
                              "\n  D: bf16 = x * rsqrt(sum(x, axis=1) + sum(acc * 3, axis=1))\n  return D");
    EXPECT_EQ(crossings(p), std::vector<DType>{bf16}) << x << "\n" << p.print();
  }
  const Program inexact =
      lowered("def f(acc):\n  x = max(cast(acc, bf16), 0.3)\n  D: bf16 = x * exp(x) * sum(x, axis=1)\n  return D");
  EXPECT_EQ(crossings(inexact), std::vector<DType>{bf16}) << inexact.print();  // before the max, whose 0.3 is no bf16
}

TEST(Cut, OperandsOnlyNeedNoBuffer) {
  const Program p = lowered("def f(acc, t: tile):\n  s = max(acc, axis=1)\n  D = exp(t) * s\n  return D");
  EXPECT_TRUE(crossings(p).empty()) << p.print();
}

TEST(Cut, AnOperandsStatisticComesBeforeTheAccumulator) {
  const Program p = lowered("def f(acc, t: tile):\n  D = acc * rsqrt(mean(t * t, axis=1))\n  return D");
  EXPECT_TRUE(crossings(p).empty()) << p.print();
  EXPECT_FALSE(p.phases[0].reads_accumulator());
  EXPECT_TRUE(p.phases[1].reads_accumulator());
}

TEST(Cut, ThreePhases) {
  const Program p = lowered(R"(
def f(acc):
    x = cast(acc, bf16)
    y = x * rsqrt(mean(x * x, axis=1))
    D: bf16 = y / max(abs(y), axis=0)
    return D
)");
  EXPECT_EQ(tile_phases(p), 3) << p.print();
  EXPECT_EQ(crossings(p), std::vector<DType>{bf16}) << p.print();  // stored once, read twice
}

TEST(Cut, AStreamReadsItsInputAgain) {
  const std::string text = "def f(acc):\n  e = exp(acc - max(acc, axis=1))\n  D: bf16 = e / sum(e, axis=1)\n  return D";
  const Program p = lowered(text, Stream{bf16});
  EXPECT_TRUE(crossings(p).empty()) << p.print();
  EXPECT_TRUE(p.phases[1].reads_accumulator());
  Options options;
  options.in_place = {{"D", "X"}};
  EXPECT_TRUE(crossings(lowered(text, Stream{bf16}, options)).empty());
  options.in_place = {{"z", "X"}};
  const Program overwritten = lowered(
      "def f(acc):\n  z: bf16 = acc * 2\n  D: bf16 = acc / sum(acc, axis=1)\n  return z, D", Stream{bf16}, options);
  EXPECT_EQ(crossings(overwritten), std::vector<DType>{bf16}) << overwritten.print();
}

TEST(InPlace, OtherColumnsAreRefused) {
  Options options;
  options.in_place = {{"D", "t"}};
  const auto code = [&](const std::string& text) {
    try {
      (void)lowered(text, bf16_gemm, options);
    } catch (const Error& e) { return to_string(e.code()); }
    return std::string("none");
  };
  EXPECT_EQ(code("def f(acc, t: tile):\n  a, b = chunk(t, 2)\n  D: bf16 = concat((b, a)) + acc\n  return D"), "none");
  EXPECT_EQ(code("def f(acc, t: tile):\n  D: bf16 = acc + t\n  return D"), "none");
  EXPECT_EQ(code("def f(acc, t: col):\n  s = max(acc, axis=1) + t\n  D: bf16 = s\n  return D"), "none");
  EXPECT_EQ(
      code("def f(acc, t: tile):\n  a, b = chunk(acc, 2)\n  c, d = chunk(t, 2)\n  D: bf16 = a * c + b * d\n  return D"),
      "PL0309");
}

TEST(InPlace, AVectorIsOverwrittenLast) {
  Options options;
  options.in_place = {{"running", "old"}};
  const Program p = lowered(
      "def f(acc, old: row[f32]):\n  running: f32 = old + sum(acc, axis=0)\n  D: bf16 = acc * rsqrt(sum(acc, axis=0)) "
      "+ old\n  return running, D",
      bf16_gemm, options);
  EXPECT_EQ(p.phases.back().domain, Axes(Axis::n)) << p.print();
}

TEST(Phases, OutputsJoinPassesThatAreMadeAnyway) {
  const Program p = lowered(R"(
def f(acc):
    s = sum(acc, axis=1)
    total = sum(s, axis=0)
    D = acc / s
    E = acc / total
    return D, E
)");
  EXPECT_EQ(tile_phases(p), 2) << p.print();
}

TEST(Phases, StatisticsOfStatisticsAreSmallPhases) {
  const Program p =
      lowered("def f(acc, label: col[i64]):\n  loss = mean(logsumexp(acc, axis=1), axis=0)\n  return loss");
  ASSERT_EQ(p.phases.size(), 3u) << p.print();
  EXPECT_EQ(p.phases[1].domain, Axes(Axis::m));
  EXPECT_EQ(p.phases[2].domain, Axes());
}

TEST(Pieces, GatedUnitIsTwoAccumulatorsAndOneStore) {
  const Program p = lowered("def f(acc):\n  g, u = chunk(acc, 2)\n  return silu(g) * u");
  ASSERT_EQ(p.phases.size(), 1u);
  EXPECT_EQ(count(p.print(), "= acc"), 2) << p.print();
  EXPECT_EQ(p.phases[0].columns, (Extent{1, 2, true}));
  ASSERT_EQ(p.rules.size(), 1u);
  EXPECT_EQ(p.rules[0].divisor, 2);
}

TEST(Pieces, WideValuesBesideNarrowOnesAreSplit) {
  const Program p = lowered(
      "def f(acc, bias: row):\n  z = acc + bias\n  g, u = chunk(z, 2)\n  D = silu(g) * u\n  amax = max(abs(z), "
      "axis=1)\n  return D, z, amax");
  EXPECT_EQ(tile_phases(p), 1) << p.print();
  EXPECT_EQ(count(p.print(), "store z["), 2) << p.print();
  EXPECT_EQ(p.phases[0].reductions[0].pieces.size(), 2u) << p.print();
  EXPECT_EQ(count(p.print(), "= acc"), 2) << p.print();
}

TEST(Pieces, NestedChunks) {
  const Program p =
      lowered("def f(acc):\n  a, b = chunk(acc, 2)\n  c, d = chunk(a, 2)\n  D = c + d\n  E = a * b\n  return D, E");
  EXPECT_EQ(tile_phases(p), 1) << p.print();
  EXPECT_TRUE(contains(p.print(), "acc[0/4]") && contains(p.print(), "acc[3/4]")) << p.print();
}

TEST(Pieces, TwoSplitsOfTheAccumulatorCrossThroughABuffer) {
  const Program p =
      lowered("def f(acc):\n  a, b = chunk(acc, 2)\n  c, d = chunk(acc, 2, group=8)\n  D = a * d\n  return D");
  ASSERT_EQ(p.phases.size(), 2u) << p.print();
  EXPECT_EQ(crossings(p), std::vector<DType>{f32}) << p.print();
}

TEST(Pieces, AConcatOfOtherGroupsIsReadFromABuffer) {
  const Program p = lowered(
      "def f(acc):\n  a, b = chunk(acc, 2)\n  x = concat((a + 1, b), group=8)\n  c, d = chunk(x, 2)\n  D = c * d\n  "
      "return D");
  EXPECT_EQ(tile_phases(p), 2) << p.print();
  EXPECT_EQ(crossings(p).size(), 1u) << p.print();
}

TEST(Pieces, AGroupedStatisticLaidBack) {
  const Program p = lowered(
      "def f(acc):\n  x = cast(acc, bf16)\n  s = max(abs(x), axis=1, group=128)\n  D: e4m3 = x / repeat(s, 128) * "
      "448\n  return D, s");
  EXPECT_TRUE(contains(p.print(), "load s0[n/128]")) << p.print();
  EXPECT_TRUE(contains(p.print(), "M x ceil(N/128)")) << p.print();
}

TEST(Pieces, HalvesOfALaterPassAreWalkedOverFromTheBeginning) {
  Options options;
  options.halves = [](std::int64_t group) { return group % 64 == 0 || group == 2; };
  const auto first_columns = [&](const std::string& normed, const std::string& chunked) {
    const Program p =
        lowered("def f(acc):\n" + normed + "\n  a, b = chunk(y, 2" + chunked + ")\n  D = a * b\n  return D", bf16_gemm,
                options);
    EXPECT_EQ(tile_phases(p), 2) << p.print();
    EXPECT_EQ(count(p.print(), "store x0[0/2"), p.phases[0].columns == Extent{} ? 0 : 1) << p.print();
    return p.phases[0].columns;
  };
  const std::string heads = "  y = acc * repeat(rsqrt(mean(acc * acc, axis=1, group=128)), 128)",
                    rows = "  y = acc * rsqrt(mean(acc * acc, axis=1))",
                    columns = "  y = acc * rsqrt(mean(acc * acc, axis=0))";
  const Extent half{1, 2, true};
  EXPECT_EQ(first_columns(heads, ", group=128"), half);
  EXPECT_EQ(first_columns(heads, ", group=64"), half);
  EXPECT_EQ(first_columns(rows, ""), half);
  EXPECT_EQ(first_columns(rows, ", group=128"), half);
  EXPECT_EQ(first_columns(heads, ", group=2"), half);
  // Halves that are no whole subtiles, heads of which a group has more than one, heads of which N has
  // several, statistics of columns.
  EXPECT_EQ(first_columns(heads, ", group=32"), Extent{});
  EXPECT_EQ(first_columns(heads, ", group=256"), Extent{});
  EXPECT_EQ(first_columns(heads, ""), Extent{});
  EXPECT_EQ(first_columns(columns, ", group=128"), Extent{});
}

TEST(Pieces, ColumnMapsAreWhatTheySay) {
  const ColumnMap halves{{{2, 1, 0}}, 1};
  EXPECT_EQ(halves(3, 10), 13);
  const ColumnMap even{{{2, 0, 2}}, 1}, odd{{{2, 1, 2}}, 1};
  EXPECT_EQ(even(3, 10), 6);
  EXPECT_EQ(odd(3, 10), 7);
  const ColumnMap rope{{{2, 1, 8}}, 1};  // second halves of heads of 8
  EXPECT_EQ(rope(0, 16), 4);
  EXPECT_EQ(rope(5, 16), 13);
  const ColumnMap nested{{{2, 1, 4}, {2, 1, 0}}, 1};  // of the right half, the second two of every four
  EXPECT_EQ(nested(0, 8), 16 + 2);
  EXPECT_EQ(nested(3, 8), 16 + 7);
  const ColumnMap group{{{2, 1, 0}}, 4};
  EXPECT_EQ(group(3, 10), 3);
}

TEST(Guard, ScaledIsGuardedByItsFactor) {
  const Program p =
      lowered("def f(acc, alpha: scalar, beta: scalar, C: tile):\n  return alpha * acc + scaled(beta, C)");
  const Phase& phase = p.phases[0];
  int guarded = 0;
  for (const Instruction& x : phase.code) {
    if (x.guard < 0) continue;
    ++guarded;
    EXPECT_EQ(x.op, Op::mul);
    EXPECT_EQ(phase.code[x.guard].op, Op::eq);
  }
  EXPECT_EQ(guarded, 1) << p.print();
}

}  // namespace
}  // namespace postlude::inline v0::lower
