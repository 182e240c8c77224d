// Every epilogue of the suite compiles for Hopper without a device, on the schedule that the
// heuristic chooses, and within the limits of spills and warnings. Skipped where NVRTC is missing.
#include "cuda/decided.h"
#include "cuda/run/nvrtc.h"
#include "stopwatch.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <tuple>

namespace postlude::inline v0::cuda {
namespace {

class SuiteCompiles : public testing::TestWithParam<const char*> {};

TEST_P(SuiteCompiles, ForHopper) {
  if (compiler_version().empty()) GTEST_SKIP() << describe_compiler();
  const std::string name = GetParam();
  Gemm gemm;
  gemm.a = gemm.b = name == "fp8_rowwise" ? DType::e4m3 : DType::bf16;
  const Target target = Target::parse("sm_90a");
  const Plan plan =
      postlude::compile(gemm, parse_file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/" + name + ".py"), target);
  for (const auto& [m, n, k] :
       {std::tuple{4096, 4096, 4096}, {64, 1024, 8192}, {58, 512, 400}, {7, 4352, 3333}, {60, 4096, 3331}}) {
    const std::string schedules = plan.explain(ExplainPart::schedule, m, n, k);
    EXPECT_NE(schedules.find("chosen"), std::string::npos) << schedules;
    EXPECT_EQ(schedules.find("rejected"), std::string::npos) << "the heuristic's first choice does not compile well\n"
                                                             << schedules;
  }
}

// By a B along N whose rows begin anywhere: few rows of A, and more than a consumer's.
TEST_P(SuiteCompiles, BesideOddRowsAlongN) {
  if (compiler_version().empty()) GTEST_SKIP() << describe_compiler();
  if (std::string(GetParam()) == "fp8_rowwise") GTEST_SKIP() << "bytes are copied";
  std::ifstream file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/" + GetParam() + ".py");
  const Subject s = subject({std::istreambuf_iterator<char>(file), {}}, "sm_90a");
  for (const auto& [m, n, k] : {std::tuple{7, 4350, 3336}, {60, 4100, 3331}, {120, 20673, 3352}}) {
    Layout layout = usual_layout(s.problem, *s.program, {1, m, n, k});
    layout.b.strides[1] = n, layout.b.strides[2] = 1;
    const Decision d = decide(s, layout, [](const auto& source) { return rejection(compile(*source, "sm_90a")); });
    EXPECT_EQ(d.describe().find("; not "), std::string::npos) << d.describe();
  }
}

// Behind windows, whose loads take registers of the producer alone.
TEST_P(SuiteCompiles, BehindConvolutions) {
  if (compiler_version().empty()) GTEST_SKIP() << describe_compiler();
  const std::string name = GetParam();
  const DType type = name == "fp8_rowwise" ? DType::e4m3 : DType::bf16;
  const Graph graph = parse_file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/" + name + ".py");
  std::vector<Problem> problems{Conv2d{.x = type, .w = type}};
  if (type == DType::bf16) problems.push_back(ConvWgrad2d{.x = type, .dy = type});
  for (const Problem& problem : problems) {
    for (const char* schedule : {"", "mma"}) {
      Target target = Target::parse("sm_90a");
      target.schedule = schedule;
      const Plan plan = postlude::compile(problem, graph, target);
      const std::string schedules = plan.explain(ExplainPart::schedule, 3136, 512, 2400);
      EXPECT_NE(schedules.find("chosen"), std::string::npos) << schedules;
      EXPECT_EQ(schedules.find("rejected"), std::string::npos) << "the first choice does not compile well\n"
                                                               << schedules;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Epilogues, SuiteCompiles,
                         testing::Values("plain", "bias_relu", "bias_gelu", "axpby", "bias_gelu_res_aux", "dgelu_dbias",
                                         "swiglu", "bce", "rowmax", "rmsnorm", "softmax", "argmax", "xent",
                                         "fp8_rowwise", "rope", "swiglu_grad", "qk_norm_rope", "fp8_groups"),
                         [](const auto& i) { return std::string(i.param); });

// ptxas takes far longer with branches: with those of CUDA's own functions the first of these took
// over five minutes, the second more than one.
TEST(Functions, CompileInSeconds) {
  if (compiler_version().empty()) GTEST_SKIP() << describe_compiler();
  Target target = Target::parse("sm_90a");
  target.schedule = "pingpong 64x256x4 sub 64x2 aux 0 raster 2";
  for (const char* text :
       {"def f(acc):\n    x = abs(sin(acc)) ** 2.5\n    y = cast(abs(sin(x)) ** 0.3, e5m2, round=toward_zero)\n"
        "    D: f32 = abs(mod(y, sqrt(x) - 0.1)) ** 0.1 + log1p(abs(y))\n    return D\n",
        "def f(acc):\n    x = cast(acc, i32) // (n_index() + 1) // (m_index() + 2)\n"
        "    D: s8 = (x + 5) // (n_index() - 9) // (m_index() + n_index())\n    return D\n"}) {
    const Plan plan = postlude::compile(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(text), target);
    const postlude_test::Stopwatch watch;
    const std::string schedules = plan.explain(ExplainPart::schedule, 256, 1024, 1024);
    EXPECT_LT(watch.seconds(), 40) << schedules;
  }
}

// Fragments are computed one after another where the main loop hides them or the epilogue is long,
// and spread over the main loop where it hides much; not beside the accumulators of 128 x 192. The code of a long one
// stands once a subtile, in a loop (decision 0110).
TEST(Fragments, AreApartPacedOrLoopedOver) {
  const Target target = Target::parse("sm_90a");
  struct Case {
    const char* name;
    std::int64_t m, n, k;
    bool apart, paced, looped = false;
  };
  for (const auto& [name, m, n, k, apart, paced, looped] : {Case{"bce", 16384, 4096, 1024, false, false, true},
                                                            {"bce", 4096, 4096, 4096, false, true, true},
                                                            {"bce", 8192, 8192, 8192, false, false, true},
                                                            {"dgelu_dbias", 4096, 4096, 4096, false, true, true},
                                                            {"axpby", 4096, 4096, 4096, true, false},
                                                            {"swiglu", 16384, 4096, 1024, true, false},
                                                            {"swiglu", 16384, 4096, 256, false, false, true},
                                                            {"softmax", 16384, 4096, 1024, false, false},
                                                            {"softmax", 4096, 4096, 4096, true, false},
                                                            {"argmax", 8192, 8192, 8192, false, false, true}}) {
    const Plan plan =
        postlude::compile(Gemm{.a = DType::bf16, .b = DType::bf16},
                          parse_file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/" + name + ".py"), target);
    const std::string source = plan.explain(ExplainPart::source, m, n, k);
    EXPECT_EQ(source.find("#define APART 1\n") != source.npos, apart) << name << " at K = " << k;
    EXPECT_EQ(source.find("#define PACED 1\n") != source.npos, paced) << name << " at K = " << k;
    EXPECT_EQ(source.find("#define ROLLED 1\n") != source.npos, looped) << name << " at K = " << k;
  }
}

// Behind statistics of its rows, a tile waits in registers: nothing crosses in memory, and of
// rmsnorm what stays is the sum with the residual, which is read once. A long main loop has two
// launches.
TEST(Rows, WaitInRegisters) {
  const Target target = Target::parse("sm_90a");
  const auto count = [](const std::string& text, const std::string& word) {
    int found = 0;
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
    return found;
  };
  for (const auto& [name, loads] : {std::pair{"softmax", 0}, {"rmsnorm", 1}, {"layernorm", 0}, {"log_softmax", 0}}) {
    const Plan plan =
        postlude::compile(Gemm{.a = DType::bf16, .b = DType::bf16},
                          parse_file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/" + name + ".py"), target);
    EXPECT_EQ(plan.explain(ExplainPart::loops, 4096, 4096, 4096),
              "phase 0: on the product's fragments\n"
              "phase 1: on the same fragments, once their rows' statistics are known\n")
        << name;
    const std::string source = plan.explain(ExplainPart::source, 4096, 4096, 4096);
    EXPECT_EQ(count(source, "subtile_load<2>(p.map"), loads) << name;
    EXPECT_EQ(count(source, "subtile_store<2>(p.map"), 1) << name;
    EXPECT_EQ(count(source, "= softmax_weight("), std::string_view(name) == "softmax") << name;
    EXPECT_NE(plan.explain(ExplainPart::loops, 8192, 8192, 8192).find("a pass over memory"), std::string::npos);
  }
}

// A consumer has whole groups of columns: what follows from their statistics runs on its registers.
TEST(Groups, AreFoldedWhereTheyAreComputed) {
  const std::string path = POSTLUDE_SOURCE_DIR "/epilogues/";
  const Gemm gemm{.a = DType::bf16, .b = DType::bf16};
  for (const char* target : {"sm_90a", "sm_80"}) {
    EXPECT_EQ(postlude::compile(gemm, parse_file(path + "fp8_groups.py"), Target::parse(target))
                  .explain(ExplainPart::loops, 4096, 4096, 4096),
              "phase 0: on the product's fragments\n"
              "phase 2: where the groups' statistics are known\n"
              "phase 1: on the same fragments, once their groups' statistics are known\n");
  }
  // Heads that are turned too: both halves stay.
  EXPECT_EQ(postlude::compile(gemm, parse_file(path + "qk_norm_rope.py"), Target::parse("sm_90a"))
                .explain(ExplainPart::loops, 4096, 4096, 4096),
            "phase 0: on the product's fragments\n"
            "phase 1: on the same fragments, once their groups' statistics are known\n");
  // Not where an output may stand in place of an operand that another tile reads at other columns.
  const auto loops = [&](const std::string& text) {
    return postlude::compile(gemm, parse(text), Target::parse("sm_90a")).explain(ExplainPart::loops, 4096, 4096, 1024);
  };
  const std::string chunked =
      "def f(acc, z: tile[f32]):\n    a, b = chunk(z, 2, group=64)\n    s = sum(acc * a * b, axis=1, group=64)\n    y "
      "= acc "
      "* repeat(s, 64)\n    D: f32 = concat((y, y + 1))\n    return D\n";
  EXPECT_EQ(loops(chunked), "phase 0: on the product's fragments\nphase 1: a pass over memory\n");
  const auto schedule = [&](const std::string& text, const std::string& target) {  // its first line
    const Plan plan = postlude::compile(gemm, parse(text), Target::parse(target));
    const std::string all = plan.explain(ExplainPart::schedule, 4096, 4096, 1024);
    return all.substr(0, all.find('\n') + 1);
  };
  const std::string sum = "def f(acc):\n    s: f32 = sum(acc, axis=1, group=";
  EXPECT_EQ(schedule(sum + "96)\n    return s\n", "sm_90a").find("pingpong 128x192x"), 0u);
  EXPECT_EQ(schedule(sum + "96)\n    return s\n", "sm_80"),
            "epilogue from memory: no tile holds groups of 96 columns\n");
  EXPECT_EQ(schedule(sum + "24)\n    return s\n", "sm_90a"),
            "epilogue from memory: a reduction is in groups of 24 columns, and tiles hold whole groups of 16, 32, 48, "
            "64, 80, "
            "96, 112, 128, 160, 192, 224 or 256\n");
  for (const char* group : {"16", "48", "80", "112", "160", "224"})
    EXPECT_EQ(schedule(sum + group + ")\n    return s\n", "sm_90a").find("memory"), std::string::npos) << group;
}

// A consumer has whole groups of rows too, and blocks, which are groups of rows of groups of columns.
TEST(Groups, OfRowsAndBlocksAreFoldedWhereTheyAreComputed) {
  const Gemm gemm{.a = DType::bf16, .b = DType::bf16};
  const auto loops = [&](const std::string& text, const std::string& target) {
    return postlude::compile(gemm, parse(text), Target::parse(target)).explain(ExplainPart::loops, 4096, 4096, 1024);
  };
  const auto rows = [](const std::string& group) {
    return "def f(acc):\n    s: f32 = max(abs(acc), axis=0, group=" + group +
           ") / 448\n    D: e4m3 = acc / repeat(s, " + group + ", axis=0)\n    return D, s\n";
  };
  const auto blocks = [](const std::string& first, const std::string& second) {
    return "def f(acc):\n    s: f32 = max(max(abs(acc), " + first + "), " + second +
           ") / 448\n    D: e4m3 = acc / repeat(repeat(s, 64), 128, axis=0)\n    return D, s\n";
  };
  const std::string over_n = "axis=1, group=64", over_m = "axis=0, group=128",
                    held = ": on the same fragments, once their groups' statistics are known\n",
                    known = ": where the groups' statistics are known\n";
  for (const char* target : {"sm_90a", "sm_80"}) {
    for (const char* group : {"16", "32", "64", "128"})
      EXPECT_EQ(loops(rows(group), target), "phase 0: on the product's fragments\nphase 2" + known + "phase 1" + held)
          << group;
    for (const std::string& text : {blocks(over_n, over_m), blocks(over_m, over_n)})
      EXPECT_EQ(loops(text, target),
                "phase 0: on the product's fragments\nphase 1" + known + "phase 3" + known + "phase 2" + held);
  }
  const auto why = [&](const std::string& text) {
    const std::string all = loops(text, "sm_90a");
    return all.substr(0, all.find('\n'));
  };
  EXPECT_EQ(why(rows("24")),
            "epilogue from memory: a reduction is in groups of 24 rows, and tiles hold whole groups of 16, 32, 64 or "
            "128");
  const std::string two = "def f(acc):\n    s: f32 = sum(acc, axis=0, group=32)\n    t: f32 = sum(acc, ";
  EXPECT_EQ(why(two + "axis=1, group=32)\n    return s, t\n"),
            "epilogue from memory: reductions are in groups of rows and in groups of columns");
  EXPECT_EQ(why(two + "axis=0, group=64)\n    return s, t\n"),
            "epilogue from memory: reductions are in groups of several sizes");
  // A column's state waits for all rows of a tile, and its groups do not.
  EXPECT_EQ(
      loops("def f(acc):\n    s: f32 = sum(acc, axis=0, group=32)\n    D: bf16 = acc * repeat(s, 32, axis=0)\n    "
            "t: f32 = sum(acc, axis=0)\n    return D, s, t\n",
            "sm_90a"),
      "phase 0: on the product's fragments\nphase 2" + known +
          "phase 3: where the partial reductions are folded\nphase 1: a pass over memory\n");
}

// chunk and concat, of all columns or in groups, move nothing: one kernel, whose tile operands and
// outputs go by tensor map.
TEST(Chunk, RunsOnTheProductsFragments) {
  const Target target = Target::parse("sm_90a");
  for (const auto& [name, loads, stores] : {std::tuple{"swiglu", 0, 1}, {"rope", 2, 2}, {"swiglu_grad", 2, 2}}) {
    const Plan plan =
        postlude::compile(Gemm{.a = DType::bf16, .b = DType::bf16},
                          parse_file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/" + name + ".py"), target);
    EXPECT_EQ(plan.explain(ExplainPart::loops, 4096, 4096, 4096), "phase 0: on the product's fragments\n") << name;
    const std::string source = plan.explain(ExplainPart::source, 4096, 4096, 4096);
    const auto count = [&](const std::string& word) {
      int found = 0;
      for (std::size_t at = source.find(word); at != source.npos; at = source.find(word, at + 1)) ++found;
      return found;
    };
    EXPECT_EQ(count("subtile_load<2>(p.map"), loads) << name;
    EXPECT_EQ(count("subtile_store<2>(p.map"), stores) << name;
  }
}

// In as many pieces as a tile has parts of B side by side.
TEST(Chunk, InThreeToEightPiecesToo) {
  const auto schedule = [](const std::string& text, const std::string& target) {  // its first line
    const Plan plan = postlude::compile(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(text), Target::parse(target));
    const std::string all = plan.explain(ExplainPart::schedule, 4096, 7680, 1024);
    return all.substr(0, all.find('\n'));
  };
  const std::string three = "def f(acc):\n    a, b, c = chunk(acc, 3)\n    D: bf16 = a * b + c\n    return D\n",
                    four =
                        "def f(acc):\n    a, b, c, d = chunk(acc, 4, group=256)\n    D: bf16 = a * b + c * d\n"
                        "    return D\n",
                    five =
                        "def f(acc):\n    a, b, c, d, e = chunk(acc, 5)\n    D: bf16 = a * b + c * d + e\n"
                        "    return D\n",
                    ten =
                        "def f(acc):\n    a, b, c, d, e, f, g, h, i, j = chunk(acc, 10)\n    D: bf16 = a * b * c * d * "
                        "e * f * g * h * i * j\n    return D\n";
  EXPECT_EQ(schedule(three, "sm_90a").find("pingpong 128x192"), 0u) << schedule(three, "sm_90a");
  EXPECT_NE(schedule(five, "sm_90a").find("x160x"), std::string::npos) << schedule(five, "sm_90a");
  for (const std::string& text : {three, five})
    EXPECT_EQ(schedule(text, "sm_80"),
              "epilogue from memory: the portable kernel has the accumulator's pieces in 2 or 4 parts of a tile");
  for (const char* target : {"sm_90a", "sm_80"}) {
    EXPECT_EQ(schedule(four, target).find("memory"), std::string::npos) << schedule(four, target);
    EXPECT_EQ(schedule(ten, target), "epilogue from memory: the accumulator is chunked in more than 8 pieces");
  }
}

// Of any width that a tile's part is whole pieces of; what is not chunked in memory asks for no narrow subtiles.
TEST(Chunk, InPiecesOfManyWidths) {
  const auto schedule = [](int group, int n) {
    const std::string text = "def f(acc):\n    a, b = chunk(acc, 2, group=" + std::to_string(group) +
                             ")\n    D: bf16 = a * b\n    return D\n";
    const Plan plan = postlude::compile(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(text), Target::parse("sm_90a"));
    const std::string all = plan.explain(ExplainPart::schedule, 4096, n, 1024);
    return all.substr(0, all.find('\n'));
  };
  for (const int piece : {1, 2, 3, 5, 6, 7, 12, 16, 24, 32, 48, 64}) {
    const std::string first = schedule(2 * piece, 13440);
    EXPECT_EQ(first.find("memory"), std::string::npos) << piece << ": " << first;
    EXPECT_EQ(first.find("sub 16") != std::string::npos, 96 % piece != 0 && piece != 64) << piece << ": " << first;
  }
  EXPECT_NE(schedule(22, 7040).find("no tile has its pieces"), std::string::npos) << schedule(22, 7040);
}

// What a compiler takes seconds for, it gets once for an element, not for eight of a thread's.
TEST(Long, PassesHaveOneElementAThread) {
  const auto has_rows = [](int steps) {
    std::string text = "def f(acc, c: row[f32]):\n    x = acc\n";
    for (int i = 0; i < steps; ++i) text += "    x = x * 0.5 + tanh(x - c)\n";
    const Plan plan = postlude::compile(Stream{.x = DType::bf16}, parse(text + "    D: bf16 = x\n    return D\n"),
                                        Target::parse("sm_90a"));
    return plan.explain(ExplainPart::source, 256, 512, 0).find("phase0_rows") != std::string::npos;
  };
  EXPECT_TRUE(has_rows(20));
  EXPECT_FALSE(has_rows(300));
}

// A sum takes products by fused multiply-adds, and the logarithm of a product for those of its
// factors: where it alone asks for them, and where factors are clamped (eight of them stay in
// range) and have a rounding of their own.
TEST(Sums, TakeProductsAndLogarithmsApart) {
  const Target target = Target::parse("sm_90a");
  const auto counts = [&](const std::string& body) {
    const std::string text = "def f(acc, x: tile[f32], r: row[f32]):\n    " + body + "\n    return y\n";
    const std::string source = postlude::compile(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(text), target)
                                   .explain(ExplainPart::source, 512, 512, 512);
    const auto count = [&](const std::string& word) {
      int found = 0;
      for (std::size_t at = source.find(word); at != source.npos; at = source.find(word, at + 1)) ++found;
      return found;
    };
    return std::pair(count("lift(dot(x, y))") + count("{fmaf("), count(".add(factors"));
  };
  using Counts = std::pair<int, int>;
  const std::string p = "p = clamp(sigmoid(acc), 0.001, 0.999); ";
  EXPECT_EQ(counts("y: f32 = sum(acc * x)"), Counts(1, 0));
  EXPECT_EQ(counts("y: f32 = sum(acc * r, axis=1)"), Counts(1, 0));
  EXPECT_EQ(counts("y: f32 = sum(acc * acc, axis=0)"), Counts(1, 0));
  EXPECT_EQ(counts("y: f32 = sum(acc * x) + sum(acc * x, axis=1)"), Counts(0, 0)) << "both ask for the product";
  EXPECT_EQ(counts("y: f32 = max(acc * x)"), Counts(0, 0));
  EXPECT_EQ(counts(p + "y: f32 = sum(log(p))"), Counts(0, 1));
  EXPECT_EQ(counts(p + "y: f32 = sum((x - 1) * acc + log(p))"), Counts(1, 1));
  EXPECT_EQ(counts(p + "y: f32 = sum(x - log(p))"), Counts(0, 1));
  EXPECT_EQ(counts(p + "y: f32 = sum(x * log(p))"), Counts(1, 0)) << "a weight stands before it";
  EXPECT_EQ(counts(p + "y: f32 = sum(log(p), axis=1)"), Counts(0, 0)) << "a row's";
  EXPECT_EQ(counts(p + "y: f32 = sum(log(p)) + log(p)"), Counts(0, 0)) << "asked for twice";
  EXPECT_EQ(counts("y: f32 = sum(log(clamp(x, 0.001, 0.999)))"), Counts(0, 0)) << "an exact factor";
  EXPECT_EQ(counts("y: f32 = sum(log(clamp(sigmoid(acc), 0.00001, 0.999)))"), Counts(0, 0)) << "eight are out of range";
  EXPECT_EQ(counts("y: f32 = sum(log(sigmoid(acc)))"), Counts(0, 0));
}

// What is added to one is at most one.
TEST(Functions, AddToOneInAShortForm) {
  const auto is_short = [](const std::string& y) {
    const Plan plan =
        postlude::compile(Gemm{.a = DType::bf16, .b = DType::bf16},
                          parse("def f(acc):\n    y: f32 = " + y + "\n    return y\n"), Target::parse("sm_90a"));
    return plan.explain(ExplainPart::source, 512, 512, 512).find("op_log1p_exp(v") != std::string::npos;
  };
  EXPECT_TRUE(is_short("log1p(exp(-abs(acc)))"));
  EXPECT_TRUE(is_short("sum(max(acc, 0) + log1p(exp(-abs(acc))))"));
  EXPECT_FALSE(is_short("log1p(exp(-acc))"));
  EXPECT_FALSE(is_short("log1p(exp(abs(acc)))"));
}

// A tuple's components have types of their own, over rows and over columns.
TEST(Combiner, OfSeveralTypesCompiles) {
  if (compiler_version().empty()) GTEST_SKIP() << describe_compiler();
  const Target target = Target::parse("sm_90a");
  const std::string text =
      "def f(acc):\n"
      "    a, b, c = reduce((acc, n_index(), acc > 0.0), combine=lambda a0, a1, a2, b0, b1, b2: (min(a0, b0), a1 + b1, "
      "a2 & b2), identity=(inf, 0, 1), axis=1)\n"
      "    d, e = reduce((m_index(), acc), combine=lambda a0, a1, b0, b1: (max(a0, b0), a1 + b1), identity=(0, 0.0), "
      "axis=0)\n"
      "    y0: f32 = a\n    y1: i64 = b\n    y2: bool = c\n    y3: i64 = d\n    y4: f32 = e\n"
      "    return y0, y1, y2, y3, y4\n";
  const Plan plan = postlude::compile(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(text), target);
  const std::string source = plan.explain(ExplainPart::source, 512, 512, 512);
  EXPECT_NE(source.find("float c0; int c1; int c2;"), std::string::npos);
  EXPECT_NE(source.find("int c0; float c1;"), std::string::npos);
  EXPECT_NE(plan.explain(ExplainPart::schedule, 512, 512, 512).find("chosen"), std::string::npos);
}

// Halves of B lie anywhere, along K or along N.
TEST(Chunks, RunOnHoppersKernel) {
  const auto schedules = [](const char* isa, postlude::Layout b, std::int64_t m, std::int64_t n, std::int64_t k) {
    Gemm gemm;
    gemm.a = gemm.b = DType::bf16;
    gemm.b_layout = b;
    return postlude::compile(gemm, parse_file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/swiglu.py"),
                             Target::parse(isa))
        .explain(ExplainPart::schedule, m, n, k);
  };
  EXPECT_TRUE(schedules("sm_80", postlude::Layout::k_major, 4096, 4096, 4096).starts_with("mma "));
  EXPECT_TRUE(schedules("sm_90a", postlude::Layout::mn_major, 4096, 4096, 4096).starts_with("cooperative 128x256"));
  const std::string few = schedules("sm_90a", postlude::Layout::mn_major, 128, 4096, 4096);
  EXPECT_NE(few.find("chosen"), few.npos) << few;
  EXPECT_EQ(few.find("mma"), few.npos) << few;
  EXPECT_EQ(few.find(" 64x64x"), few.npos) << "32 columns of a half are no whole box: " << few;
  for (const std::int64_t k : {512, 4096}) {
    const std::string ragged = schedules("sm_90a", postlude::Layout::k_major, 4096, 4100, k);
    EXPECT_TRUE(ragged.starts_with("pingpong ") || ragged.starts_with("cooperative ")) << ragged;
  }
}

// Parts of tiles that meet in memory spill no registers, whichever the tile.
TEST(Parts, CompileWithoutSpills) {
  if (compiler_version().empty()) GTEST_SKIP() << describe_compiler();
  for (const char* tile : {"pingpong 64x64x12 sub 64x2", "pingpong 128x128x6 sub 64x2", "pingpong 128x192x5 sub 32x2",
                           "cooperative 128x256x4 sub 64x2", "cooperative 256x128x4 sub 64x2"}) {
    Target target = Target::parse("sm_90a");
    target.schedule = tile + std::string(" aux 0 raster 2 split 5 by memory");
    const Plan plan =
        postlude::compile(Gemm{.a = DType::bf16, .b = DType::bf16},
                          parse_file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/bias_gelu.py"), target);
    EXPECT_EQ(rejection(compile(plan.explain(ExplainPart::source, 256, 4096, 16384), "sm_90a")), "") << tile;
  }
}

// What waits in registers for its row's statistics moves no byte; of wide rows behind a long K there are two
// launches, and it does.
TEST(Explain, CountsWhatCrossesMemory) {
  const Target target = Target::parse("sm_90a");
  const Plan plan = postlude::compile(Gemm{.a = DType::bf16, .b = DType::bf16},
                                      parse_file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/softmax.py"), target);
  const std::string held = plan.explain(ExplainPart::summary, 16384, 4096, 1024);
  EXPECT_NE(held.find("x0 (stays)"), std::string::npos) << held;
  EXPECT_NE(held.find("bytes    0 B read, 134 MB written\n"), std::string::npos) << held;
  EXPECT_NE(held.find("held for its rows' statistics:\n"), std::string::npos) << held;
  const std::string crossing = plan.explain(ExplainPart::summary, 8192, 8192, 8192);
  EXPECT_NE(crossing.find("x0 (workspace)"), std::string::npos) << crossing;
  EXPECT_NE(crossing.find("bytes    134 MB read, 134 MB written\n"), std::string::npos) << crossing;
  EXPECT_EQ(crossing.find("held for"), std::string::npos) << crossing;
}

TEST(Compile, RefusesArchitecturesThatItDoesNotKnow) {
  const Gemm gemm{.a = DType::bf16, .b = DType::bf16};
  const Graph plain = parse("def f(acc):\n    return acc\n");
  EXPECT_TRUE(supports(gemm, plain, Target::parse("sm_80")));
  const Support old = supports(gemm, plain, Target::parse("sm_70"));
  ASSERT_FALSE(old);
  EXPECT_NE(old.reasons[0].find("sm_80 or newer"), std::string::npos) << old.reasons[0];
  if (compiler_version().empty()) GTEST_SKIP() << describe_compiler();
  try {
    (void)compile("extern \"C\" __global__ void k() {}", "sm_999");
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.message().find("sm_999"), std::string::npos) << error.message();
  }
}

// Launches overlap until a kernel waits for the one before it. A read by the path of what never
// changes may be moved ahead of that wait, and was: a row of statistics was that of the run before
// (fuzz_gpu seed 1795292750).
TEST(Launches, ReadNothingAheadOfTheirWait) {
  const Target target = Target::parse("sm_90a");
  const Plan plan = postlude::compile(Gemm{.a = DType::bf16, .b = DType::bf16},
                                      parse("def normalised(acc):\n"
                                            "    d = acc * var(acc)\n"
                                            "    return (d - mean(d, axis=0)) * rsqrt(var(d, axis=0) + 0.001)\n"),
                                      target);
  const std::string source = plan.explain(ExplainPart::source, 128, 64, 64);
  EXPECT_NE(source.find("phase2_rows("),
            std::string::npos);  // it reads statistics of an earlier launch, 16 bytes a thread
  EXPECT_NE(source.find("follow_previous_launch();"), std::string::npos);
  for (const char* path : {"__ldg", "ld.global.nc"}) EXPECT_EQ(source.find(path), std::string::npos) << path;
}

// In the branch of each element's store a residue's pixel took ptxas 38 s (fuzz_gpu seed 1809514453).
TEST(Compile, SaysOnceWhereAFragmentsRowsLie) {
  Target target = Target::parse("sm_90a");
  target.schedule = "mma 128x128x4 sub 64x1 aux 0 raster 16";
  const Plan plan =
      postlude::compile(ConvDgrad2d{.dy = DType::f16, .w = DType::f16, .stride = {2, 2}},
                        parse("def f(acc):\n    y: f32 = acc\n    z: f32 = -acc\n    return y, z\n"), target);
  const std::string source = plan.explain(ExplainPart::source, {{3, 17, 5, 5}, {17, 1, 3, 3}});
  const auto count = [&](const std::string& text) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = source.find(text, at)) != source.npos; ++at) ++found;
    return found;
  };
  EXPECT_NE(source.find("#define SCATTERED 1"), source.npos);
  EXPECT_EQ(count("store_f32(p.word"), 2U);
  EXPECT_EQ(count("memory_row(p, t.batch"), 1U);
}

TEST(Compile, ReportsTheCompilersError) {
  if (compiler_version().empty()) GTEST_SKIP() << describe_compiler();
  try {
    (void)compile("extern \"C\" __global__ void k() { int x = ; }", "sm_90a");
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::compile_failed);
    EXPECT_NE(error.message().find("expected an expression"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace postlude::inline v0::cuda
