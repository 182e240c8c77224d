// Decisions, without a device: what explain prints is what bind would fill in. The file is longer than most
// because each rule of a decision has its few lines here, on the same subjects.
#include "cuda/decided.h"

#include "cuda/emit/agreed.h"
#include "cuda/emit/fragment.h"
#include "lower/lower.h"
#include "plan/support.h"

#include <postlude/error.h>
#include <postlude/parse.h>
#include <postlude/plan.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <regex>

namespace postlude::inline v0::cuda {
namespace {

double moved(const Traffic& traffic) { return traffic.read + traffic.written; }

Outline::Beside beside(const Decision& d, const std::string& what) {
  for (const Outline::Beside& one : d.outline.beside) {
    if (one.what == what) return one;
  }
  return {};
}

// A tile that has its rows alone is held, and waits for no other one.
TEST(Decision, WaitsForNobodyWhereATileHasItsRows) {
  const char* const norm = "def f(acc):\n    D: bf16 = acc * rsqrt(mean(acc * acc, axis=1) + 1e-6)\n    return D\n";
  const Subject asked = subject(norm, "sm_90a", "pingpong 64x128x4 sub 64x2 aux 0 raster 2");
  for (const std::int64_t n : {128, 136}) {
    const Decision d = decided(asked, {1, 20000, n, 512});
    EXPECT_EQ(d.phases.at(1), Where::held);
    EXPECT_EQ(d.kernels.at(0).cooperative, n > 128);
    EXPECT_EQ(d.cleared.empty(), n == 128);
    EXPECT_EQ(d.kernels[0].grid[0], n > 128 ? 128U : 105U);  // whole groups of the raster; a third of all
  }
}

// So is one whose rows' statistics nothing but outputs is made of.
TEST(Decision, FinishesRowsWhereATileHasThem) {
  const Subject asked =
      subject("def f(acc):\n    D: bf16 = acc\n    s: f32 = logsumexp(acc, axis=1)\n    return D, s\n", "sm_90a",
              "pingpong 64x128x4 sub 64x2 aux 0 raster 2");
  for (const std::int64_t n : {128, 136}) {
    const Decision d = decided(asked, {1, 500, n, 512});
    EXPECT_EQ(d.kernels.at(0).cooperative, n > 128);
    EXPECT_EQ(d.cleared.empty(), n == 128);
  }
}

// Partial results of one wave of tiles lie beside tags, which take as much memory and are cleared once (decision 0313).
TEST(Decision, TagsWhatAWaveLeaves) {
  const Subject asked = subject("def f(acc):\n    s: f32 = sum(acc, axis=1)\n    return s\n", "sm_90a",
                                "pingpong 64x64x4 sub 64x2 aux 0 raster 2");
  for (const std::int64_t m : {64 * 33, 64 * 34}) {
    const Decision d = decided(asked, {1, m, 256, 512});
    const bool wave = m == 64 * 33;  // of 132 tiles
    EXPECT_NE(d.kernels.at(0).source->find(wave ? "#define TAGS 1\n" : "#define TAGS 0\n"), std::string::npos);
    EXPECT_TRUE(d.kernels[0].cooperative);
    ASSERT_EQ(d.cleared.size(), 1U);
    EXPECT_EQ(d.cleared[0].bytes, wave ? 768 + 32 * m : 256) << "tags of 132 blocks, and four words and tags a row";
    EXPECT_EQ(moved(beside(d, "partial results").traffic), (wave ? 2 : 1) * 2 * 4 * 4.0 * static_cast<double>(m));
  }
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

TEST(Decision, SaysWhichWordIsOutOfPlace) {
  for (const auto& [text, why] :
       {std::pair("turned turned", "'turned' stands twice"), std::pair("fast fast mma", "'fast' stands twice"),
        std::pair("accumulator by accumulator", "'accumulator' stands twice"),
        std::pair("turned fast", "\"fast\" stands before all else"),
        std::pair("turned accumulator", "\"turned\" and \"accumulator\" exclude each other"),
        std::pair("turned by groups", "\"by groups\" stands before \"accumulator\""),
        std::pair("by groups turned", "\"by groups\" stands before \"accumulator\", and not beside \"turned\""),
        std::pair("accumulator by groups", "\"by groups\" stands before \"accumulator\""),
        std::pair("accumulator by turned", "\"turned\" and \"accumulator\" exclude each other"),
        std::pair("accumulator mma", "behind \"accumulator\" is nothing, or \"by\""),
        std::pair("accumulator by", "behind \"accumulator\" is nothing, or \"by\"")}) {
    const std::string asked = text;
    EXPECT_ERROR(ErrorCode::bad_schedule, "the schedule " + postlude::quoted(asked) + " cannot be read: " + why,
                 (void)parse_request(asked, true, "sm_90a"));
  }
}

// What a decision says of itself: why, once, as a sentence.
TEST(Decision, SaysWhyItIsNotFused) {
  const Subject groups = subject("def f(acc):\n    s: f32 = sum(acc, axis=1, group=192)\n    return s\n", "sm_80");
  const std::string text = decided(groups, {1, 512, 768, 512}).describe();
  EXPECT_NE(text.find("; epilogue from memory: no tile holds groups of 192 columns; "), text.npos) << text;
  EXPECT_EQ(text.find("not no"), text.npos) << text;
}

// Whoever forgets the last letter is told.
TEST(Decision, SaysWhichArchitectureIsHoppers) {
  const std::string text = plan_for(bias_relu, "sm_90").explain(ExplainPart::schedule, 512, 512, 512);
  EXPECT_TRUE(text.starts_with("Hopper's own kernel is compiled for sm_90a:\nmma ")) << text;
  EXPECT_EQ(plan_for(bias_relu, "sm_89").explain(ExplainPart::schedule, 512, 512, 512).find("Hopper"), text.npos);
}

TEST(Decision, SaysThatThereIsNoK) {
  EXPECT_EQ(decided(subject(bias_relu, "sm_90a"), {1, 64, 64, 0}).why, "there is no K");
}

// What all batches share is one batch of its tensor map.
TEST(Decision, MapsWhatBatchesShareOnce) {
  Subject s = subject(bias_relu, "sm_90a");
  s.problem = Gemm{.a = DType::bf16, .b = DType::bf16, .batched = true};
  for (const bool shared : {false, true}) {
    Layout layout = usual_layout(s.problem, *s.program, {3, 256, 256, 256});
    if (shared) layout.a.strides[0] = 0;
    const Decision d = decide(s, layout, [](const auto&) { return std::string(); });
    const auto& maps = d.kernels.front().maps;
    const auto of_a =
        std::find_if(maps.begin(), maps.end(), [](const MapField& m) { return m.address.of == Address::Of::a; });
    ASSERT_NE(of_a, maps.end());
    EXPECT_EQ(of_a->dimensions.back().extent, shared ? 1 : 3);
  }
}

// What follows from groups of rows runs before the phase behind it, unless it is stored in place of what that may read.
TEST(Decision, KeepsThePlaceOfWhatIsStoredInPlace) {
  const Subject rows = subject(
      "def f(acc):\n    s: f32 = max(acc, axis=0, group=32) * 2\n    D: bf16 = acc * repeat(s, 32, axis=0)\n    "
      "return D, s\n",
      "sm_90a");
  Layout layout = usual_layout(rows.problem, *rows.program, {1, 512, 512, 512});
  const auto held = [&] {
    const Decision d = decide(rows, layout, [](const auto&) { return std::string(); });
    return std::count(d.phases.begin(), d.phases.end(), Where::held);
  };
  EXPECT_EQ(held(), 1);
  layout.buffers[1].in_place = true;
  EXPECT_EQ(held(), 0);
}

// The copy engine takes no box whose first column lies between 16 bytes (an H200: illegal instruction).
TEST(Decision, RepacksHalvesThatBeginBetweenSixteenBytes) {
  Subject gate = subject("def f(acc):\n    a, b = chunk(acc, 2)\n    D: bf16 = a * b\n    return D\n", "sm_90a");
  gate.problem = Gemm{.a = DType::bf16, .b = DType::bf16, .b_layout = postlude::Layout::mn_major};
  EXPECT_FALSE(decided(gate, {1, 1028, 2 * 376, 512}).repack_b);
  // Along N, each half a matrix of its own; in batches, which would be its third dimension, along K.
  const auto copied = [&](std::int64_t batch) {
    gate.problem =
        Gemm{.a = DType::bf16, .b = DType::bf16, .b_layout = postlude::Layout::mn_major, .batched = batch > 1};
    const Decision d = decided(gate, {batch, 1028, 2 * 188, 512});
    EXPECT_TRUE(d.repack_b);
    const std::string& source = *d.kernels.back().source;
    const auto is = [&](const char* line) { return source.find(line) != source.npos; };
    EXPECT_NE(is("#define B_PIECES 1\n"), is("#define B_PIECES 0\n"));
    EXPECT_EQ(is("#define B_PIECES 1\n"), is("#define B_MN_MAJOR 1\n"));
    return is("#define B_PIECES 1\n");
  };
  EXPECT_TRUE(copied(1));
  EXPECT_FALSE(copied(2));
}

// Of short rows that are copied, and that one column of tiles reads, little is written.
TEST(Decision, WritesLittleOfShortRows) {
  const Subject plain = subject("def f(acc):\n    D: bf16 = acc\n    return D\n", "sm_90a");
  const auto pitch = [&](std::int64_t n, std::int64_t k) {
    const Decision d = decided(plain, {1, 8192, n, k});
    EXPECT_TRUE(d.repack_a);
    return d.kernels.back().maps.at(0).dimensions.at(1).stride;
  };
  EXPECT_EQ(pitch(64, 3), 8);
  EXPECT_EQ(pitch(64, 27), 32);
  EXPECT_EQ(pitch(64, 35), 64);
  EXPECT_EQ(pitch(72, 3), 64) << "whole 128 bytes load fastest";
}

// Residues of as many rows each have a last tile of their own: 136 tiles of 192 x 128 here, more than a wave of 132.
TEST(Decision, CountsTheTilesOfEachResidue) {
  ConvDgrad<2> patches{};
  patches.dy = patches.w = DType::bf16, patches.stride = {2, 2};
  const std::string text = plan_for("def f(acc):\n    D: bf16 = acc\n    return D\n", "sm_90a", "", patches)
                               .explain(ExplainPart::schedule, {{16, 512, 14, 14}, {512, 256, 2, 2}});
  EXPECT_TRUE(text.starts_with("pingpong 64x128x8")) << text;
}

// A pixel of seven times 16 bytes is loaded at once, with zeros behind it; channels of groups have no room for these.
TEST(Decision, LoadsPixelsInFewRuns) {
  const auto run = [](std::int32_t channels, std::int32_t groups) {
    const Conv2d conv{.x = DType::bf16, .w = DType::bf16, .padding = {{{1, 1}, {1, 1}}}, .groups = groups};
    const std::string source =
        plan_for("def f(acc):\n    D: bf16 = acc\n    return D\n", "sm_90a", "", conv)
            .explain(ExplainPart::source, {{8, channels, 28, 28}, {64, channels / groups, 3, 3}});
    const std::size_t at = source.find("#define A_RUN ");
    return at == source.npos ? 0 : std::stoi(source.substr(at + 14));
  };
  EXPECT_EQ(run(40, 1), 16);
  EXPECT_EQ(run(48, 1), 32);
  EXPECT_EQ(run(56, 1), 128);
  EXPECT_EQ(run(56, 8), 16);
  EXPECT_EQ(run(96, 1), 64);
  // Copies of pixels have as many zeros behind their channels as make the walk shortest (decision 0282).
  EXPECT_EQ(run(18, 1), 64);
  EXPECT_EQ(run(51, 1), 128);
  EXPECT_EQ(run(79, 1), 64);
}

// Lines that begin between sectors take the copy engine longer. Tiles that share them load them together (decision
// 0194), which gains more than copies of A and B did.
TEST(Decision, LoadsTogetherWhatBeginsBetweenSectors) {
  const Subject plain = subject("def f(acc):\n    D: bf16 = acc\n    return D\n", "sm_90a");
  const auto copied = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    const Decision d = decided(plain, {1, m, n, k});
    const Schedule& s = d.considered.front().schedule;
    return std::string(d.repack_a ? "A" : "") + (d.repack_b ? "B" : "") + std::to_string(cluster_tiles(s));
  };
  EXPECT_EQ(copied(6573, 4864, 2280), "2");
  EXPECT_EQ(copied(2612, 1280, 3096), "2");
  EXPECT_EQ(copied(6573, 4864, 2283), "AB2") << "the copy engine needs rows of whole 16 bytes";
  EXPECT_EQ(copied(6573, 4864, 2272), "1") << "lines begin at sectors";
  EXPECT_EQ(copied(4, 39216, 15112), "1") << "few rows are bytes of B";
}

// Few rows of A read a B along K whose rows begin between 16 bytes as it lies, by a map for all rows that begin alike
// (decision 0284). So does one along N, and more rows where the model expects less than of a copy (decision 0310), and
// so is A read where it does (decision 0324).
TEST(Decision, ReadsRowsThatBeginAnywhere) {
  const auto read = [](const char* text, const Shape& shape, Layout layout, const char* schedule) {
    const Decision d = decide(subject(text, "sm_90a", schedule), layout, [](const auto&) { return std::string(); });
    const Schedule& s = d.chosen()->schedule;
    EXPECT_EQ(s.shifted || s.shifted_a, to_string(s).find(" shifted") != std::string::npos);
    EXPECT_EQ(parse_schedule(to_string(s)), s);
    const auto maps_of = [&](Address::Of of) {
      const auto& maps = d.kernels.back().maps;
      return std::count_if(maps.begin(), maps.end(), [&](const MapField& m) { return m.address.of == of && m.down; });
    };
    return std::string(s.shifted ? "shifted" : "") + (d.repack_a ? " A" : "") + (d.repack_b ? " B" : "") + " " +
           std::to_string(maps_of(Address::Of::a)) + " " + std::to_string(maps_of(Address::Of::b)) +
           (shape.m > 0 ? "" : " empty");
  };
  constexpr const char *plain = "def f(acc):\n    D: bf16 = acc\n    return D\n",
                       *gate = "def f(acc):\n    a, b = chunk(acc, 2)\n    D: bf16 = a * b\n    return D\n";
  const auto usual = [&](const char* text, const Shape& shape, const char* schedule = "") {
    const Subject s = subject(text, "sm_90a", schedule);
    return read(text, shape, usual_layout(s.problem, *s.program, shape), schedule);
  };
  EXPECT_EQ(usual(plain, {1, 7, 4096, 2051}), "shifted 8 8");
  EXPECT_EQ(usual(plain, {1, 16, 4096, 2054}), "shifted 4 4");
  EXPECT_EQ(usual(plain, {1, 17, 4096, 516}), "shifted 2 2");
  EXPECT_EQ(usual(plain, {1, 64, 28672, 9002}), "shifted A 0 4") << "a copy takes less than to shift A for each tile";
  EXPECT_EQ(usual(plain, {1, 3, 2, 2051}), "shifted 8 8") << "fewer rows than maps";
  EXPECT_EQ(usual(plain, {1, 7, 4096, 2056}), " 0 0") << "rows begin at 16 bytes";
  EXPECT_EQ(usual(plain, {1, 100, 20672, 3351}), "shifted A 0 8") << "a copy takes longer than two rows of tiles";
  EXPECT_EQ(usual(plain, {1, 900, 4096, 2051}), " A B 0 0") << "than eight it does not";
  EXPECT_EQ(usual(plain, {1, 2000, 4096, 2051}), " A B 0 0");
  EXPECT_EQ(usual(gate, {1, 7, 4096, 2051}), " A B 0 0") << "pieces of a chunk";
  EXPECT_EQ(usual(plain, {1, 7, 4096, 2051}, "pingpong 64x64x6 sub 32x2 aux 0 raster 2"), " A B 0 0") << "as asked";
  const Subject s = subject(plain, "sm_90a");
  Layout view = usual_layout(s.problem, *s.program, {1, 7, 4096, 2056});
  view.b.alignment = 2;
  EXPECT_EQ(read(plain, view.shape, view, ""), "shifted 0 1") << "all begin alike";
  view.b.strides[1] = 4096, view.b.strides[2] = 1;
  EXPECT_EQ(read(plain, view.shape, view, ""), "shifted 0 8") << "along N";
  Layout padded = usual_layout(s.problem, *s.program, {1, 12, 1024, 256});
  padded.a.strides[1] = 258;
  EXPECT_EQ(read(plain, padded.shape, padded, ""), " 4 0");
  EXPECT_EQ(read(plain, padded.shape, padded, "pingpong 64x64x6 sub 32x2 aux 0 raster 2"), " A 0 0") << "as asked";
  EXPECT_EQ(read(plain, padded.shape, padded, "pingpong 64x64x6 sub 32x2 aux 0 raster 2 A shifted"), " 4 0");
  EXPECT_EQ(read(gate, padded.shape, padded, ""), " 4 0") << "beside pieces of a chunk";
  Layout batches = usual_layout(s.problem, *s.program, {3, 13, 1024, 257});
  EXPECT_EQ(read(plain, batches.shape, batches, ""), "shifted 8 8")
      << "batches of A that follow each other begin anywhere";
  batches.a.strides[0] += 1;
  EXPECT_EQ(read(plain, batches.shape, batches, ""), "shifted A 0 8") << "others are copied";
  EXPECT_THROW((void)usual(plain, {1, 7, 4096, 2056}, "pingpong 64x64x6 sub 32x2 aux 0 raster 2 shifted"), Error);
  const auto along_n = [&](const char* text, const Shape& shape) {
    Layout layout = usual_layout(s.problem, *s.program, shape);
    layout.b.strides = {shape.batch > 1 ? shape.n * shape.k : 0, shape.n, 1};
    return read(text, shape, layout, "");
  };
  EXPECT_EQ(along_n(plain, {1, 7, 4099, 2056}), "shifted 0 8");
  EXPECT_EQ(along_n(plain, {1, 7, 4100, 2051}), "shifted 8 8") << "lanes read rows eight apart";
  EXPECT_EQ(along_n(plain, {1, 64, 4099, 2051}), "shifted A 0 8");
  EXPECT_EQ(along_n(plain, {3, 7, 4099, 2056}), "shifted 0 8");
  EXPECT_EQ(along_n(plain, {3, 7, 4099, 2052}), " A B 0 0") << "batches that begin anywhere";
  EXPECT_EQ(along_n(plain, {1, 7, 4099, 7}), " A B 0 0") << "each map has a row";
  EXPECT_EQ(along_n(plain, {1, 100, 20673, 3352}), "shifted 0 8");
  EXPECT_EQ(along_n(plain, {1, 2000, 4099, 2056}), " B 0 0");
  EXPECT_EQ(along_n(gate, {1, 7, 4099, 2056}), " B 0 0");
}

// A long epilogue is compiled behind the product, a very long one from memory.
TEST(Decision, TakesVeryLongEpiloguesThroughMemory) {
  const auto steps = [](int count) {
    std::string text = "def f(acc, c: row[f32]):\n    x = acc\n";
    for (int i = 0; i < count; ++i) text += "    x = x * 0.5 + tanh(x - c)\n";
    return decided(subject((text + "    D: bf16 = x\n    return D\n").c_str(), "sm_90a"), {1, 512, 512, 512});
  };
  EXPECT_TRUE(steps(30).fused);
  const Decision long_one = steps(45);
  EXPECT_FALSE(long_one.fused);
  EXPECT_NE(long_one.describe().find(" instructions an element, and from 700 on memory is faster"), std::string::npos)
      << long_one.describe();
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
  const Plan asked = plan_for(bias_relu, "sm_90a", "pingpong 64x64x6 sub 32x2 aux 0 raster 2", along_n);
  const std::string a = asked.explain(ExplainPart::schedule, 512, 512, 511);
  EXPECT_NE(a.find("A is repacked\n"), std::string::npos) << a;
  EXPECT_EQ(a.find("B is repacked\n"), std::string::npos) << a;
  EXPECT_NE(plan.explain(ExplainPart::source, 512, 512, 511).find("postlude_repack"), std::string::npos);
}

// A copy of B along N has its lines; tiles that are asked for and have no 64 columns side by side read it along K.
TEST(Decision, RepacksLinesAsTheyLie) {
  Gemm along_n = bf16;
  along_n.b_layout = postlude::Layout::mn_major;
  for (const bool narrow : {false, true}) {
    const Plan plan = plan_for(
        bias_relu, "sm_90a",
        narrow ? "pingpong 64x96x4 sub 32x2 aux 0 raster 1" : "pingpong 64x64x4 sub 32x2 aux 0 raster 1", along_n);
    const std::string summary = plan.explain(ExplainPart::summary, 512, 511, 150);
    EXPECT_NE(summary.find(std::string("B repacked: 153 kB read, ") + (narrow ? "196" : "154") + " kB written\n"),
              summary.npos)
        << summary;
    EXPECT_NE(plan.explain(ExplainPart::source, 512, 511, 150)
                  .find(narrow ? "#define B_MN_MAJOR 0\n" : "#define B_MN_MAJOR 1\n"),
              std::string::npos);
  }
}

// What a tile keeps in registers is read once, and no statistic of its own rows moves. Partial results do.
TEST(Decision, CountsWhatAHeldTileMoves) {
  const Subject s = subject(
      "def f(acc, residual: tile[bf16], gamma: row[bf16]):\n    x = cast(acc, bf16) + residual\n"
      "    D: bf16 = x * rsqrt(mean(x * x, axis=1) + 0.000001) * gamma\n    return D\n",
      "sm_90a");
  const double m = 16384, n = 4096, tile = 2 * m * n;
  const Decision held = decided(s, {1, 16384, 4096, 1024});
  ASSERT_EQ(held.phases, (std::vector{Where::fragments, Where::held}));
  EXPECT_EQ(moved(held.outline.phases[0]), tile);
  EXPECT_EQ(moved(held.outline.phases[1]), tile + 2 * n);
  const double tiles_n = n / held.chosen()->schedule.bn;
  EXPECT_EQ(beside(held, "partial results").traffic.written, (tiles_n + 1) * m * 4 * 2);
  // In two launches x crosses, and the statistic with it: wider rows have fewer of them at once in registers.
  const double side = 8192;
  const Decision apart = decided(s, {1, 8192, 8192, 8192});
  ASSERT_EQ(apart.phases, (std::vector{Where::fragments, Where::memory}));
  EXPECT_EQ(moved(apart.outline.phases[0]), 4 * side * side + 4 * side);
  EXPECT_EQ(moved(apart.outline.phases[1]), 6 * side * side + 4 * side + 2 * side);
}

// The accumulator on its way through memory, and rows that a pass over it keeps.
TEST(Decision, CountsTheAccumulatorAndRepacks) {
  const double m = 512, n = 512, tile = m * n;
  const Decision d = decided(subject(bias_relu, "sm_90a", "accumulator"), {1, 512, 512, 512});
  EXPECT_EQ(beside(d, "the accumulator").traffic.written, 4 * tile);
  EXPECT_EQ(d.outline.phases[0].read, 4 * tile + 4 * n);
  EXPECT_EQ(d.outline.phases[0].written, 2 * tile);
  const Decision odd = decided(subject(bias_relu, "sm_90a"), {1, 512, 512, 511});
  for (const char* what : {"A repacked", "B repacked"}) {
    EXPECT_EQ(beside(odd, what).traffic.read, 512 * 511 * 2) << what;
    EXPECT_EQ(beside(odd, what).traffic.written, 512 * 512 * 2) << what;
  }
  const Decision softmax = decided(
      subject("def f(acc):\n    e = exp(acc - max(acc, axis=1))\n    D: bf16 = e / sum(e, axis=1)\n    return D\n",
              "sm_90a", "accumulator"),
      {1, 512, 512, 512});
  ASSERT_EQ(softmax.passes, 1);
  EXPECT_EQ(moved(softmax.outline.phases[0]), 4 * tile);
  EXPECT_EQ(moved(softmax.outline.phases[1]), 2 * tile);
}

// The summary prints those numbers.
TEST(Decision, IsWhatTheSummarySums) {
  const std::string text = plan_for(bias_relu, "sm_90a", "accumulator").explain(ExplainPart::summary, 512, 512, 511);
  EXPECT_NE(text.find("  beside      the accumulator: 0 B read, 1.05 MB written\n"
                      "  beside      A repacked: 523 kB read, 524 kB written\n"
                      "  beside      B repacked: 523 kB read, 524 kB written\n"
                      "  moves       5.77 MB\n"),
            text.npos)
      << text;
}

// Positive numbers in e4m3.
std::vector<std::uint8_t> positive(std::size_t count, std::uint32_t seed) {
  std::vector<std::uint8_t> all(count);
  for (std::uint8_t& x : all) x = static_cast<std::uint8_t>(0x30 + (seed = seed * 1664525 + 1013904223) % 0x18);
  return all;
}

double value(std::uint8_t e4m3) { return std::ldexp(1 + (e4m3 & 7) / 8.0, (e4m3 >> 3) - 7); }

// Hopper's fp8 accumulator is added to one of f32 every 512 of K, so its bound does not grow with K. What is a tenth
// wrong at K = 8192 is found.
TEST(Decision, GivesVerifyTheErrorsOfItsKernel) {
  constexpr std::int64_t m = 16, n = 32, k = 8192;
  const Gemm fp8{.a = DType::e4m3, .b = DType::e4m3};
  std::vector<std::uint8_t> a = positive(m * k, 1), b = positive(n * k, 2);
  std::vector<float> d(m * n);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) sum += value(a[i * k + l]) * value(b[j * k + l]);
      d[i * n + j] = static_cast<float>(sum);
    }
  }
  const auto error = [&](const Plan& plan) {
    return verify(plan, {{"A", Tensor(a.data(), DType::e4m3, {m, k})},
                         {"B", Tensor(b.data(), DType::e4m3, {k, n}, {1, k})},
                         {"D", Tensor(d.data(), DType::f32, {m, n})}})[0]
        .error_over_bound;
  };
  const char* plain = "def f(acc):\n    D: f32 = acc\n    return D\n";
  const Plan hopper = plan_for(plain, "sm_90a", "", fp8), portable = plan_for(plain, "sm_89", "", fp8),
             asked = plan_for(plain, "sm_90a", "mma", fp8), fast = plan_for(plain, "sm_90a", "fast", fp8);
  EXPECT_LT(error(hopper), 0.1);
  for (float& x : d) x *= 0.9f;  // as much as is lost where nothing is promoted
  EXPECT_GT(error(hopper), 2);
  EXPECT_LT(error(portable), 1);
  EXPECT_LT(error(asked), 1);
  EXPECT_LT(error(fast), 1);
  const auto has = [](const Plan& of, ExplainPart part, const char* what) {
    return of.explain(part, m, n, k).find(what) != std::string::npos;
  };
  EXPECT_TRUE(has(hopper, ExplainPart::source, "#define PROMOTED 4"));
  EXPECT_TRUE(has(fast, ExplainPart::source, "#define PROMOTED 0"));
  EXPECT_TRUE(has(fast, ExplainPart::schedule, "fp8 accumulates fast"));
  EXPECT_FALSE(has(hopper, ExplainPart::schedule, "fast"));
  for (const char* isa : {"sm_90a", "sm_89"})
    EXPECT_TRUE(has(plan_for(plain, isa, "fast mma", fp8), ExplainPart::schedule, "fp8 accumulates fast")) << isa;
  EXPECT_ERROR(ErrorCode::bad_schedule, "\"fast\" is not legal here: the tensor cores of sm_80 do not multiply",
               (void)has(plan_for(plain, "sm_80", "fast", fp8), ExplainPart::schedule, ""));
  // Asked for with a schedule; of other types it is refused.
  const Plan both = plan_for(plain, "sm_90a", "fast " + chosen(fast, m, n, k), fp8);
  EXPECT_EQ(chosen(both, m, n, k), chosen(fast, m, n, k));
  EXPECT_ERROR(ErrorCode::unsupported, "nothing is fp8 here", (void)plan_for(plain, "sm_90a", "fast"));
  EXPECT_THROW((void)plan_for(plain, "sm_90a", "faster", fp8), Error);
}

// Of two convolutions of one shape the copy engine walks the windows of one, and the other's take the portable kernel,
// which promotes nothing: verify grants what the tensors that are bound get.
TEST(Decision, GivesVerifyTheErrorsOfTheLayoutThatIsBound) {
  constexpr std::int32_t pixels = 4, taps = 4, channels = 512, filters = 32;
  std::vector<std::uint8_t> w = positive(std::size_t{filters} * taps * taps * channels, 1);  // (K, R, S, C)
  const auto error = [&](std::int32_t stride) {
    const std::int64_t size = (pixels - 1) * stride + taps - 1;  // padded before, or windows would be patches
    std::vector<std::uint8_t> x = positive(static_cast<std::size_t>(size * size * channels), 2);  // (H, W, C)
    std::vector<float> d;
    for (std::int64_t pixel = 0; pixel < pixels * pixels; ++pixel) {
      for (std::int64_t filter = 0; filter < filters; ++filter) {
        double sum = 0;
        for (std::int64_t tap = 0; tap < taps * taps; ++tap) {
          const std::int64_t row = pixel / pixels * stride + tap / taps - 1,
                             column = pixel % pixels * stride + tap % taps - 1;
          if (row < 0 || column < 0) continue;
          for (std::int64_t c = 0; c < channels; ++c)
            sum +=
                value(x[(row * size + column) * channels + c]) * value(w[(filter * taps * taps + tap) * channels + c]);
        }
        d.push_back(static_cast<float>(0.9 * sum));
      }
    }
    const Conv2d conv{.x = DType::e4m3, .w = DType::e4m3, .stride = {stride, stride}, .padding = {{{1, 0}, {1, 0}}}};
    const Plan plan = plan_for("def f(acc):\n    D: f32 = acc\n    return D\n", "sm_90a", "", conv);
    return verify(plan, {{"X", Tensor(x.data(), DType::e4m3, {1, channels, size, size},
                                      {size * size * channels, 1, size * channels, channels})},
                         {"W", Tensor(w.data(), DType::e4m3, {filters, channels, taps, taps},
                                      {taps * taps * channels, 1, taps * channels, channels})},
                         {"D", Tensor(d.data(), DType::f32, {1, pixels * pixels, filters})}})[0]
        .error_over_bound;
  };
  EXPECT_GT(error(8), 2);
  EXPECT_LT(error(9), 1);
}

// Plans are shown for sizes that run.
TEST(Decision, RefusesWhatBindRefuses) {
  const Plan chunked = plan_for("def f(acc):\n    a, b = chunk(acc, 2)\n    D: bf16 = a * b\n    return D\n", "sm_90a");
  const Plan plain = plan_for(bias_relu, "sm_90a");
  const auto code = [](const Plan& plan, ExplainPart part, std::int64_t m, std::int64_t n, std::int64_t k) {
    try {
      (void)plan.explain(part, m, n, k);
    } catch (const Error& error) { return error.code(); }
    return ErrorCode::internal;
  };
  for (const ExplainPart part :
       {ExplainPart::summary, ExplainPart::schedule, ExplainPart::loops, ExplainPart::source}) {
    EXPECT_EQ(code(chunked, part, 64, 63, 64), ErrorCode::indivisible);
    EXPECT_EQ(code(plain, part, std::int64_t{1} << 31, 64, 64), ErrorCode::size_overflow);
    EXPECT_EQ(code(plain, part, std::int64_t{3} << 29, 64, 64), ErrorCode::size_overflow) << "the kernels' own limit";
    EXPECT_EQ(code(plain, part, 64, std::int64_t{1} << 62, 64), ErrorCode::size_overflow);
  }
  EXPECT_FALSE(chunked.explain(ExplainPart::program, 64, 63, 64).empty());  // of any size
}

// A schedule that is asked for runs, or is refused with the reason.
TEST(Decision, NeverDropsAScheduleThatIsAskedFor) {
  const std::string plain = "pingpong 64x128x4 sub 32x2 aux 0 raster 2", d = "    D: bf16 = acc\n    return D\n",
                    rows = "    D: bf16 = acc - max(acc, axis=1)\n    return D\n";
  const auto why = [](const std::string& body, const Problem& problem, const std::string& schedule, const auto&... at) {
    try {
      return plan_for("def f(acc):\n" + body, "sm_90a", schedule, problem).explain(ExplainPart::schedule, at...);
    } catch (const Error& error) { return error.code() == ErrorCode::bad_schedule ? error.message() : error.what(); }
  };
  const auto refused = [&](const std::string& reason) {
    return "the schedule \"" + plain + "\" is not legal here: " + reason;
  };
  EXPECT_EQ(why(d, Gemm{}, plain, 512, 512, 512),
            refused("the tensor cores of sm_90a do not multiply these types exactly enough"));
  for (const Shape& empty : {Shape{1, 0, 512, 512}, Shape{1, 512, 512, 0}})
    EXPECT_NO_THROW(static_cast<void>(decided(subject(bias_relu, "sm_90a", plain), empty))) << "nothing is multiplied";
  for (const std::string& asked : {plain, std::string("mma"), std::string("accumulator"), "accumulator by " + plain})
    EXPECT_EQ(why(d, Stream{.x = DType::bf16}, asked, 512, 512, 0),
              "the schedule \"" + asked + "\" is not legal here: a stream has no product");
  EXPECT_EQ(why("    D: f32 = n_index() + 1\n    return D\n", bf16, "mma", 512, 512, 512),
            "the schedule \"mma\" is not legal here: no phase reads the accumulator");
  for (const char* part : {" split 0", " cluster 0x1"}) {
    const std::string asked = "fast " + plain + part;
    EXPECT_TRUE(why(d, Gemm{.a = DType::e4m3, .b = DType::e4m3}, asked, 512, 512, 512)
                    .starts_with("the schedule \"" + asked + '"'))
        << asked;
  }
  using Shapes = std::vector<std::vector<std::int64_t>>;
  const Shapes images{{16, 128, 14, 14}, {128, 128, 2, 2}}, grouped{{16, 24, 14, 14}, {24, 3, 3, 3}};
  const ConvDgrad<2> strided{.dy = DType::bf16, .w = DType::bf16, .stride = {2, 2}};
  EXPECT_TRUE(why(d, strided, plain, images).starts_with(plain));
  EXPECT_EQ(why(rows, strided, plain, images), refused("its reductions cross the launches of the residues"));
  const std::string through = "accumulator by " + plain;
  EXPECT_NE(why(rows, strided, through, images).find('\n' + through), std::string::npos);
  EXPECT_EQ(why(d, Conv2d{.groups = 8}, plain, grouped),
            refused("groups of channels are multiplied on ordinary units"));
}

// Channels that begin anywhere, of rows that follow each other backwards: no stencil has them, and other units do.
TEST(Decision, TakesSingleChannelsOfReversedRows) {
  const Conv2d conv{.x = DType::bf16, .w = DType::bf16, .groups = 32};
  const Plan plan = plan_for("def f(acc):\n    D: f32 = acc\n    return D\n", "sm_90a", "", conv);
  std::vector<Tensor> inputs = plan.inputs_of({{4, 32, 10, 11}, {32, 1, 5, 3}});
  inputs[0].strides[0] = 3529, inputs[0].strides[2] = -352;
  EXPECT_NE(plan.explain_for(ExplainPart::schedule, inputs).find("ordinary units"), std::string::npos);
  inputs[0].strides[2] = 352;
  EXPECT_TRUE(plan.explain_for(ExplainPart::schedule, inputs).starts_with("direct "));
}

// All images of a strided data gradient together have no more pixels than an int counts, nor has a row that is copied.
TEST(Decision, RefusesImagesThatItsKernelsDoNotCount) {
  using Shapes = std::vector<std::vector<std::int64_t>>;
  const std::string text = "def f(acc):\n    D: bf16 = acc\n    return D\n";
  const auto code = [&](const Problem& problem, const Shapes& inputs) {
    try {
      (void)plan_for(text, "sm_90a", "", problem).explain(ExplainPart::schedule, inputs);
    } catch (const Error& error) { return error.code(); }
    return ErrorCode::internal;
  };
  ConvDgrad<2> strided{.dy = DType::bf16, .w = DType::bf16, .stride = {2, 2}, .output_padding = {1, 1}};
  EXPECT_EQ(code(strided, {{16, 64, 4096, 4096}, {64, 64, 1, 1}}), ErrorCode::size_overflow);
  EXPECT_EQ(code(strided, {{15, 64, 4096, 4096}, {64, 64, 1, 1}}), ErrorCode::internal);
  const Conv<1> line{.x = DType::bf16, .w = DType::bf16};
  EXPECT_EQ(code(line, {{2, 9, 1 << 27}, {8, 9, 3}}), ErrorCode::size_overflow);
  EXPECT_EQ(code(line, {{2, 9, 1 << 25}, {8, 9, 3}}), ErrorCode::internal);
}

// The emitted epilogue knows its tile. What it asks of the problem are functions that the main loop's device code gives
// (device/fragment.cu), so that a tile's rows need not be all of M.
TEST(Emitted, AsksNothingOfTheProblem) {
  const std::regex field("[^a-z_]p\\.(m|n|k_blocks|raster|tiles|tiles_m|tiles_n|a_batch|b_batch|batch)[^a-z_]");
  int seen = 0;
  for (const auto& file : std::filesystem::directory_iterator(POSTLUDE_SOURCE_DIR "/epilogues")) {
    if (file.path().extension() != ".py" || file.path().stem() == "prelude") continue;
    lower::Options options;
    options.halves = halves;
    const auto program = lower::lower(parse_file(file.path().string()).data(), facts_of(bf16), options);
    for (const Hold hold : {Hold::in_order, Hold::nothing, Hold::groups, Hold::rows}) {
      if (!not_fusable(program, 0).empty()) continue;
      const std::string text = emit_fragment(program, 0, aligned_places(program, 4096), hold).text;
      std::smatch found;
      EXPECT_FALSE(std::regex_search(text, found, field)) << file.path().stem() << ": " << found[0];
      ++seen;
    }
  }
  EXPECT_GT(seen, 60);
}

// A row's number within its batch is what m_index() and masks see; where it lies in memory is asked for.
// A scale of all elements needs no care of the range's ends (decision 0320).
TEST(Emitted, DividesByAScaleOfAllAsItIs) {
  const auto bounded = [](const std::string& scale, const std::string& quotient = "s8 = x / s") {
    const Subject s = subject("def f(acc, b: row[f32]):\n    x = acc + b\n    s: f32 = " + scale +
                                  "\n    D: " + quotient + "\n    return s, D\n",
                              "sm_90a");
    return decided(s, {1, 4096, 4096, 256}).kernels.front().source->find("vec_div_bounded(v") != std::string::npos;
  };
  EXPECT_TRUE(bounded("max(max(abs(x), axis=1), 0.0001) / 127"));
  EXPECT_TRUE(bounded("max(1e-20, max(abs(x), axis=1) * 0.0078)", "e4m3 = x / s"));
  EXPECT_TRUE(bounded("max(max(abs(x), axis=1, group=64) / 448, 1e-12)", "e5m2 = x / repeat(s, 64)"));
  EXPECT_FALSE(bounded("max(abs(x), axis=1) / 127")) << "of rows of zeros it is 0";
  EXPECT_FALSE(bounded("max(max(abs(x), axis=1) / 127, 1e-30)")) << "remainders below the normal numbers are not exact";
  EXPECT_FALSE(bounded("max(max(abs(x), axis=1), 0.0001) * 0.5")) << "it may be beyond 2^126";
  EXPECT_FALSE(bounded("max(max(abs(x), axis=1), 1e-6) * 7e-43 / 7e-40")) << "it may be 0 on the way";
  EXPECT_FALSE(bounded("max(max(x, axis=1), 0.0001) / 127")) << "-x may be larger";
  EXPECT_FALSE(bounded("max(max(abs(acc), axis=1), 0.0001) / 127")) << "of another value";
  EXPECT_FALSE(bounded("max(max(abs(x), axis=1), 0.0001) / 127", "bf16 = x / s")) << "small quotients count";
}

// What is at most 127 of a scale of all is rounded by an addition (decision 0287).
TEST(Emitted, AddsInsteadOfConvertingWhereQuotientsFitAByte) {
  const auto adds = [](const std::string& scale, const std::string& quotient = "s8 = x / s") {
    const Subject s = subject("def f(acc, b: row[f32]):\n    x = acc + b\n    s: f32 = " + scale +
                                  "\n    D: " + quotient + "\n    return s, D\n",
                              "sm_90a");
    return decided(s, {1, 4096, 4096, 256}).kernels.front().source->find("    pack_bounded(y") != std::string::npos;
  };
  EXPECT_TRUE(adds("max(max(abs(x), axis=1), 0.0001) / 127"));
  EXPECT_TRUE(adds("max(max(abs(x), axis=1, group=64), 1e-12) * 0.0079", "s8 = x / repeat(s, 64)"));
  EXPECT_FALSE(adds("max(max(abs(x), axis=1), 0.0001) / 128")) << "128 saturates";
  EXPECT_FALSE(adds("max(max(abs(x), axis=1), 0.0001) / 127", "u8 = x / s")) << "less than 0 saturates";
  EXPECT_FALSE(adds("max(max(abs(x), axis=1), 0.0001) / 127", "s8 = x / s + 1")) << "it is no quotient";
  EXPECT_FALSE(adds("max(abs(x), axis=1) / 127")) << "by 0 it has no bound";
}

TEST(Emitted, AsksWhereARowLies) {
  const auto program =
      lower::lower(parse("def f(acc, c: col[f32]):\n    D: f32 = where(m_index() > 3, acc * c, acc)\n    s: f32 "
                         "= sum(acc, axis=1)\n    return D, s\n")
                       .data(),
                   facts_of(bf16), {});
  std::vector<BufferPlace> anywhere(program.buffers.size());
  const std::string text = emit_fragment(program, 0, anywhere, Hold::nothing).text;
  for (const char* access : {"load_f32(p.word[", "store_f32(p.word["}) {
    ASSERT_NE(text.find(access), text.npos) << access << text;
    for (std::size_t at = text.find(access); at != text.npos; at = text.find(access, at + 1)) {
      const std::string line = text.substr(at, text.find(';', at) - at);
      EXPECT_TRUE(line.find("memory_row(p, t.batch, row") != line.npos || line.find("memory_rows[") != line.npos)
          << line;
    }
  }
  EXPECT_EQ(text.find("(i64)memory_row"), text.npos);
}

TEST(Agreed, DividesByMultiplication) {
  constexpr int most = std::numeric_limits<int>::max();
  for (const int by : {1, 2, 3, 7, 12, 64, 641, 1 << 16, 1000003, 1 << 30, most - 1, most}) {
    const agreed::IntDivisor d = agreed::int_divisor(by);
    for (const std::int64_t near :
         {std::int64_t{0}, std::int64_t{by}, std::int64_t{by} * 5, std::int64_t{most} / by * by, std::int64_t{most}}) {
      for (std::int64_t x = near - 1; x <= near + 1; ++x) {
        if (x < 0 || x > most) continue;
        EXPECT_EQ(agreed::quotient(static_cast<int>(x), d), x / by) << x << " / " << by;
      }
    }
  }
}

// The same tokens say on both sides where a partial result lies.
TEST(Agreed, CountsWhatLiesBehindTheLast) {
  agreed::GemmSizes g{};
  g.m = 70, g.n = 130, g.tiles_m = 2, g.tiles_n = 3, g.batch = 4;
  constexpr int slots = 5;
  std::vector<bool> seen(static_cast<std::size_t>(agreed::folded_index(g, g.batch, 0)));
  const auto use = [&](agreed::i64 index) {
    ASSERT_LT(index, static_cast<agreed::i64>(seen.size()));
    EXPECT_FALSE(seen[static_cast<std::size_t>(index)]);
    seen[static_cast<std::size_t>(index)] = true;
  };
  for (int b = 0; b < g.batch; ++b) {
    for (int row = 0; row < g.m; ++row) {
      use(agreed::folded_index(g, b, row));
      for (int tile = 0; tile < g.tiles_n; ++tile) use(agreed::told_index(g, b, row, tile));
    }
  }
  EXPECT_EQ(std::find(seen.begin(), seen.end(), false), seen.end());
  EXPECT_EQ(agreed::row_partial(g, g.batch - 1, g.tiles_n - 1, g.m - 1) + 1, agreed::row_partial(g, g.batch, 0, 0));
  EXPECT_EQ(agreed::column_partial(g, slots, g.batch - 1, slots - 1, g.n - 1) + 1,
            agreed::column_partial(g, slots, g.batch, 0, 0));
  EXPECT_EQ(agreed::tile_partial(g, slots, g.batch - 1, slots - 1, g.tiles_n - 1) + 1,
            agreed::tile_partial(g, slots, g.batch, 0, 0));
}

}  // namespace
}  // namespace postlude::inline v0::cuda
