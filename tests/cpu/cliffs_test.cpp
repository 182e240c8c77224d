// No cliffs: bounds on an epilogue's time, beside the plain product's, and on its memory. They are
// far from what ./dev bench measures, so that a busy machine does not break them. They catch a path
// that falls to scalar code, and a workspace that grows with the problem.
#include "cpu/isa.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define POSTLUDE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define POSTLUDE_SANITIZED 1
#endif
#endif

namespace postlude {
namespace {

using Int = std::int64_t;

const char* const suite[] = {"bias_relu", "bias_gelu", "axpby",   "bias_gelu_res_aux", "dgelu_dbias", "swiglu",
                             "bce",       "rowmax",    "rmsnorm", "softmax",           "argmax",      "xent"};

Graph suite_graph(const std::string& name) { return parse_file(POSTLUDE_SOURCE_DIR "/epilogues/" + name + ".py"); }

// The layout of a tile operand in memory.
enum class Lie { rows, columns, every_other };

struct Candidate {
  std::string name;
  Graph graph;
  Lie tiles = Lie::rows;
};

// A call on memory of its own, filled with small numbers.
class Bound {
 public:
  Bound(const Candidate& candidate, const std::string& isa, Int m, Int n, Int k) {
    Target target = Target::cpu(1);
    target.isa = isa;
    const Plan plan = compile(Gemm{}, candidate.graph, target);
    std::vector<Binding> bindings;
    const std::vector<Plan::Slot> slots = plan.slots();
    memory_.reserve(slots.size());
    for (const Plan::Slot& slot : slots) {
      const std::vector<Int> shape = plan.shape_of(slot.name, m, n, k);
      const bool odd = !slot.output && shape.size() == 2 && slot.name != "A" && slot.name != "B";
      Tensor tensor;
      tensor.dtype = slot.dtype;
      tensor.rank = static_cast<int>(shape.size());
      Int elements = 1;
      for (int axis = tensor.rank - 1; axis >= 0; --axis) {
        tensor.shape[static_cast<std::size_t>(axis)] = shape[static_cast<std::size_t>(axis)];
        tensor.strides[static_cast<std::size_t>(axis)] = elements;
        elements *= shape[static_cast<std::size_t>(axis)];
      }
      if (odd && candidate.tiles == Lie::columns) tensor.strides = {1, shape[0]};
      if (odd && candidate.tiles == Lie::every_other) tensor.strides = {2 * shape[1], 2};
      memory_.emplace_back(static_cast<std::size_t>(2 * elements * size_of(slot.dtype)));
      if (slot.dtype == DType::f32) {
        auto* const values = reinterpret_cast<float*>(memory_.back().data());
        for (Int i = 0; i < 2 * elements; ++i) values[i] = static_cast<float>(i * 7 % 17) / 16.0f - 0.5f;
      }
      tensor.data = memory_.back().data();
      bindings.push_back({slot.name, tensor});
    }
    call_ = plan.bind(bindings);
  }
  // The processor time of this thread, so that other programs count little.
  double seconds() {
    const double before = now();
    call_.run();
    return now() - before;
  }

 private:
  static double now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  std::vector<std::vector<std::uint8_t>> memory_;
  Call call_;
};

std::vector<Candidate> candidates() {
  std::vector<Candidate> all;
  for (const char* name : suite) all.push_back({name, suite_graph(name)});
  const auto with = [&](const std::string& name, const std::string& parameter, Lie lie = Lie::rows) {
    all.push_back({name, parse("def scaled(acc, x: " + parameter + "):\n    D = acc * x\n    return D\n"), lie});
  };
  for (const char* broadcast : {"tile", "row", "col", "scalar"}) with(broadcast, broadcast);
  for (const char* dtype : {"f16", "bf16", "e4m3", "s8", "u8", "i64", "bool"})
    with(std::string("tile of ") + dtype, "tile[" + std::string(dtype) + "]");
  with("tile, columns contiguous", "tile", Lie::columns);
  with("tile, every other element", "tile", Lie::every_other);
  all.push_back(
      {"all broadcasts at once",
       parse("def all(acc, t: tile, r: row, c: col, s: scalar):\n    D = (acc + r) * c + s * t\n    return D\n")});
  return all;
}

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The time of the plain product over that of `fused`, run in turns.
double speed(Bound& fused, Bound& plain, int turns) {
  std::vector<double> ours, theirs;
  for (int i = 0; i < turns; ++i) {
    theirs.push_back(plain.seconds());
    ours.push_back(fused.seconds());
  }
  return median(theirs) / median(ours);
}

void expect_no_cliffs(const std::string& isa) {
#if defined(POSTLUDE_SANITIZED)
  GTEST_SKIP() << "sanitizers slow the two sides down differently";
#endif
  constexpr Int m = 96, n = 512, k = 768;
  Bound plain({"plain", suite_graph("plain")}, isa, m, n, k);
  for (const Candidate& candidate : candidates()) {
    Bound fused(candidate, isa, m, n, k);
    speed(fused, plain, 1);
    double best = 0;  // what is slow by itself is slow every time
    for (int attempt = 0; attempt < 4 && best < 0.5; ++attempt)
      best = std::max(best, speed(fused, plain, 5 + 10 * attempt));
    EXPECT_GE(best, 0.5) << candidate.name << " on " << isa << " runs at " << best << " of the plain product's speed";
  }
}

TEST(Cliffs, NoEpilogueHalvesThePlainProduct) { expect_no_cliffs(std::string(cpu::name(cpu::machine_isa()))); }
TEST(Cliffs, NorOnAvx2) {
  if (cpu::machine_isa() < cpu::Isa::avx2) GTEST_SKIP() << "no AVX2 here";
  expect_no_cliffs("avx2");
}

// Rows of A whole pages apart share sets of L1; a tile of 24 rows was four times as slow.
TEST(Cliffs, NoPitchHalvesANarrowProduct) {
#if defined(POSTLUDE_SANITIZED)
  GTEST_SKIP() << "sanitizers slow the two sides down differently";
#endif
  constexpr Int m = 512, odd = 1040;
  for (const Int n : {16, 32, 80}) {
    Bound beside({"plain", suite_graph("plain")}, "", m, n, odd);
    for (const Int k : {512, 1024}) {
      Bound pages({"plain", suite_graph("plain")}, "", m, n, k);
      double best = 0;
      for (int attempt = 0; attempt < 4 && best < 0.6; ++attempt)
        best = std::max(best, speed(pages, beside, 5 + 10 * attempt) * static_cast<double>(k) / odd);
      EXPECT_GE(best, 0.6) << m << " x " << n << " x " << k << " runs at " << best << " of the speed with K = " << odd;
    }
  }
}

// The number behind "workspace" in explain's text.
Int workspace(const std::string& loops) {
  const std::size_t at = loops.find("workspace ");
  return at == std::string::npos ? -1 : std::atoll(loops.c_str() + at + 10);
}

TEST(Cliffs, WorkspaceStaysSmall) {
  struct Shape {
    Int m, n, k;
  };
  const Shape shapes[] = {{1024, 1024, 1024}, {512, 3072, 768},   {2048, 2048, 64},
                          {8, 4096, 4096},    {8192, 8192, 8192}, {32, 32, 200000}};
  for (const char* name : suite) {
    for (const int threads : {1, 2, 16}) {
      const Plan plan = compile(Gemm{}, suite_graph(name), Target::cpu(threads));
      for (const Shape& shape : shapes) {
        const std::string loops = plan.explain(ExplainPart::loops, shape.m, shape.n, shape.k);
        const Int bytes = workspace(loops);
        ASSERT_GE(bytes, 0) << loops;
        if (loops.find("crosses phases through memory") != std::string::npos)
          continue;  // which is what explain is to say
        EXPECT_LT(bytes, (Int{32} << 20) + threads * (Int{4} << 20))
            << name << " of " << shape.m << " x " << shape.n << " x " << shape.k << " on " << threads << " threads\n"
            << loops;
      }
    }
  }
}

// Windows are packed as they are read: no copy of them lies in the workspace.
// Nothing that is decided by the number of threads overflows.
TEST(Cliffs, AsManyThreadsAsAnIntHasAreDecidedFor) {
  const Plan plan = compile(Gemm{.batched = true}, suite_graph("plain"), Target::cpu(std::numeric_limits<int>::max()));
  const std::vector<Int> matrix{3, 64, 64};
  EXPECT_GE(workspace(plan.explain(ExplainPart::loops, {matrix, matrix})), 0);
}

TEST(Cliffs, AConvolutionsWindowsAreNotCopied) {
  const std::array<std::array<std::int32_t, 2>, 2> padding{{{1, 1}, {1, 1}}};
  const std::vector<Int> image{8, 64, 56, 56}, filter{64, 64, 3, 3}, fewer{8, 64, 28, 28};
  const std::pair<Problem, std::vector<std::vector<Int>>> problems[] = {
      {Conv2d{.padding = padding}, {image, filter}},
      {ConvDgrad2d{.padding = padding}, {image, filter}},
      {ConvDgrad2d{.stride = {2, 2}, .padding = padding, .output_padding = {1, 1}}, {fewer, filter}},
      {ConvWgrad2d{.filter = {3, 3}, .padding = padding}, {image, image}}};
  constexpr Int windows = Int{8} * 56 * 56 * 9 * 64 * 4;
  for (const auto& [problem, inputs] : problems) {
    const std::string loops =
        compile(problem, suite_graph("plain"), Target::cpu(2)).explain(ExplainPart::loops, inputs);
    ASSERT_GE(workspace(loops), 0) << loops;
    EXPECT_LT(workspace(loops), windows / 16) << loops;
  }
}

}  // namespace
}  // namespace postlude
