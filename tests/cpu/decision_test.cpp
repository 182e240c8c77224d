// Decisions, without running anything: what explain prints is what bind fills in.
#include "cpu/decide/decision.h"
#include "cpu/strips/ops.h"
#include "golden_cases.h"
#include "lower/lower.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

namespace postlude::inline v0::cpu {
namespace {

Subject subject(const std::string& text, Isa isa, int threads, const Problem& problem = Gemm{}) {
  const lower::Program program = lower::lower(parse(text).data(), facts_of(problem), {});
  Subject subject;
  subject.contraction = problem.loop().contraction();
  if (const auto source = problem.loop().facts().source) subject.source = source->dtype;
  subject.isa = isa;
  subject.threads = threads;
  subject.program = prepare(program, strips(isa), &subject.phase_of);
  return subject;
}

// A case begins with "# ISA M N K", and then words: "threads=T", "batch=B", "b_by_k", "stream".
std::string decided(const std::string& text) {
  std::istringstream words(text.substr(1, text.find('\n')));
  std::string isa, word;
  Shape shape;
  int threads = 1;
  bool b_by_k = false;
  Problem problem = Gemm{};
  words >> isa >> shape.m >> shape.n >> shape.k;
  while (words >> word) {
    const auto value = [&] { return std::atoi(word.c_str() + word.find('=') + 1); };
    if (word.starts_with("threads=")) threads = value();
    else if (word.starts_with("batch=")) shape.batch = value(), problem = Gemm{.batched = true};
    else if (word == "b_by_k") b_by_k = true;
    else if (word == "stream") problem = Stream{};
    else ADD_FAILURE() << word;
  }
  const Subject s = subject(text.substr(text.find('\n') + 1), *parse_isa(isa), threads, problem);
  Layout layout = usual_layout(s, shape);
  if (b_by_k) layout.b.strides = {shape.n * shape.k, 1, shape.k};
  const Decision decision = decide(s, layout);
  return decision.schedule_text() + "\n" + decision.loops_text();
}

TEST(Decision, IsAsExpected) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "panels have another width";
#endif
  check_golden(POSTLUDE_SOURCE_DIR "/tests/cpu/golden/decisions.txt", 8, decided);
}

// While a product's tiles are computed, lines of operands whose columns lie far apart, as torch's images have them, are
// not asked for: all memory between these would be.
TEST(Decision, AsksForNoColumnsThatLieApart) {
  const Subject s = subject("def f(acc, r: tile[f32]):\n    D: f32 = tanh(acc + r)\n    return D\n", Isa::portable, 1);
  const Shape shape{1, 96, 64, 32};
  const auto asked = [&](const std::array<std::int64_t, 3>& strides) {
    Layout layout = usual_layout(s, shape);
    layout.buffers[0].strides = strides;
    const Decision decision = decide(s, layout);
    Prefetch all[2];
    decision.passes.at(0).phases.at(0).executor.touched(0, all);
    return std::max(all[0].element_bytes, all[1].element_bytes);
  };
  EXPECT_EQ(asked({0, 64, 1}), 4);
  EXPECT_EQ(asked({0, 1, 96}), 4) << "D's alone";
  EXPECT_EQ(asked({0, 1, std::int64_t{1} << 31}), 4);
}

constexpr const char* rmsnorm =
    "def f(acc, scale: row[f32]):\n"
    "    D: f32 = acc * rsqrt(mean(acc * acc, axis=1) + 1e-6) * scale\n"
    "    return D\n";
constexpr const char* softmax =
    "def f(acc):\n    e = exp(acc - max(acc, axis=1))\n    D: f32 = e / sum(e, axis=1)\n    return D\n";
constexpr const char* column_statistics =
    "def f(acc, bias: row[f32]):\n    x = relu(acc + bias)\n    D: f32 = x\n    s = sum(x, axis=0)\n    return D, s\n";

// Memory for a plan's tensors, contiguous.
struct Memory {
  std::vector<Plan::Slot> slots;  // whose names the bindings read
  std::vector<std::vector<char>> bytes;
  std::vector<Binding> bindings;

  Memory(const Plan& plan, std::int64_t m, std::int64_t n, std::int64_t k) : slots(plan.slots()) {
    for (const Plan::Slot& slot : slots) {
      const std::vector<std::int64_t> extents = plan.shape_of(slot.name, m, n, k);
      std::vector<std::int64_t> strides(extents.size(), 1);
      std::int64_t elements = 1;
      for (std::size_t i = extents.size(); i-- > 0; elements *= extents[i]) strides[i] = elements;
      void* const data = bytes.emplace_back(static_cast<std::size_t>(elements * size_of(slot.dtype) + 64)).data();
      bindings.push_back({slot.name, Tensor(data, slot.dtype, extents, strides)});
    }
  }
};

// What a bound call says of itself is explain's first line, and takes the memory that explain says.
TEST(Decision, IsWhatBindFillsIn) {
  for (const char* text : {rmsnorm, softmax, column_statistics}) {
    const Plan plan = postlude::compile(Gemm{}, parse(text), Target::cpu(2));
    for (const Shape& s : {Shape{1, 300, 256, 40}, Shape{1, 7, 1000, 60}, Shape{1, 64, 48, 2000}}) {
      const Memory memory(plan, s.m, s.n, s.k);
      const postlude::Call call = plan.bind(memory.bindings);
      const std::string schedule = plan.explain(ExplainPart::schedule, s.m, s.n, s.k);
      EXPECT_EQ(schedule.substr(0, schedule.find('\n')), call.describe());
      EXPECT_NE(plan.explain(ExplainPart::loops, s.m, s.n, s.k)
                    .find("\nworkspace " + std::to_string(call.workspace_bytes()) + " bytes\n"),
                std::string::npos);
    }
  }
}

// Tensors that begin at the same address are all that a decision knows of addresses.
TEST(Decision, DependsOnWhatStandsInPlace) {
  const Subject s = subject(
      "def f(acc, r: tile[f32]):\n"
      "    x = acc + r\n"
      "    D: f32 = x * rsqrt(mean(x * x, axis=1) + 1e-6)\n"
      "    return D\n",
      Isa::portable, 1);
  Layout layout = usual_layout(s, {1, 480, 1536, 64});
  const lower::BufferId out = decide(s, layout).passes[0].kept;
  ASSERT_GE(out, 0);
  layout.buffers[out].base = layout.a.base;
  layout.buffers[out].in_place = true;
  EXPECT_EQ(decide(s, layout).passes[0].kept, -1);
  EXPECT_NE(decide(s, layout).schedule_text().find("not kept in an output"), std::string::npos);
}

// The number of threads decides who computes, never what is computed.
TEST(Decision, HasTheSameBlocksForAnyNumberOfThreads) {
  for (const char* text : {rmsnorm, softmax, column_statistics}) {
    for (const Shape& shape : {Shape{1, 1000, 768, 300}, Shape{1, 17, 3000, 9}, Shape{1, 2, 4000, 4000}}) {
      std::string one;
      for (const int threads : {1, 2, 16}) {
        const Subject s = subject(text, Isa::portable, threads);
        const Decision decision = decide(s, usual_layout(s, shape));
        std::string schedule = decision.schedule_text();
        schedule.erase(0, schedule.find(';'));
        if (one.empty()) one = schedule;
        EXPECT_EQ(schedule, one);
      }
    }
  }
}

// Nothing is as large as the tensors that it is decided for.
TEST(Decision, TakesNoMemory) {
  const Subject s = subject(column_statistics, Isa::portable, 2);
  const Decision decision = decide(s, usual_layout(s, {1, std::int64_t{1} << 40, 1 << 10, 1 << 20}));
  EXPECT_GT(decision.workspace_bytes(), std::int64_t{1} << 40);
}

}  // namespace
}  // namespace postlude::inline v0::cpu
