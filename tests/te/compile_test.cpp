// Emitted kernels compile with NVRTC without spills. No device is needed; skipped where there is no
// NVRTC. POSTLUDE_TE_COMPILED and POSTLUDE_TE_FIRST: how many random nests, from where.
#include "cuda/run/nvrtc.h"
#include "te/fuzz.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace postlude {
namespace {

TEST(Compile, RandomNests) {
  if (cuda::compiler_version().empty()) GTEST_SKIP() << cuda::describe_compiler();
  const auto number = [](const char* name, std::uint64_t otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
  };
  const std::uint64_t wanted = number("POSTLUDE_TE_COMPILED", 12);
  std::uint64_t compiled = 0;
  for (std::uint64_t seed = number("POSTLUDE_TE_FIRST", 1); compiled < wanted; ++seed) {
    fuzz_te::Program p = fuzz_te::generate(seed);
    fuzz_te::schedule(p, fuzz_te::Bindings::threads);
    std::string source;
    try {
      source = te::build(p.schedule, p.arguments, Target::cuda()).source();
    } catch (const Error& error) {
      continue;  // what is not legal on a GPU
    }
    if (seed > 4 && te::lower(p.schedule, p.arguments).find("threadIdx") == std::string::npos) continue;
    ++compiled;
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + te::lower(p.schedule, p.arguments));
    EXPECT_NO_THROW(static_cast<void>(cuda::compile(source, seed % 2 ? "sm_90a" : "sm_80")));
  }
}

TEST(Compile, SeedsReductionAcrossThreads) {
  if (cuda::compiler_version().empty()) GTEST_SKIP() << cuda::describe_compiler();
  const te::Expr n = te::var("n"), m = te::var("m");
  const te::Tensor a = te::placeholder({n, m}, "A");
  const te::Axis k = te::reduce_axis(0, m, "k");
  const te::Tensor b = te::compute(
      {n}, [&](const te::Axes& i) { return te::sum(a(i[0], k), {k}); }, "B");
  te::Schedule s = te::create_schedule(b);
  const te::Tensor bf = s.rfactor(b, {s[b].split(k, 32).second})[0];
  const auto [xo, xi] = s[b].split(b.op().axis()[0], 8);
  s[b].bind(xo, te::thread_axis("blockIdx.x"));
  s[b].bind(xi, te::thread_axis("threadIdx.y"));
  s[b].bind(s[b].op().reduce_axis()[0], te::thread_axis("threadIdx.x"));
  s[bf].compute_at(s[b], s[b].op().reduce_axis()[0]);
  const std::string source = te::build(s, {a, b}, Target::cuda()).source();
  EXPECT_NE(source.find("__shfl_down_sync"), std::string::npos);
  const cuda::Compiled compiled = cuda::compile(source, "sm_90a");
  EXPECT_EQ(compiled.spill_bytes, 0);
  EXPECT_LE(compiled.registers, 64);
}

// Loops and sizes that are called as what C++, CUDA or our sources have.
TEST(Compile, WordsAsNames) {
  if (cuda::compiler_version().empty()) GTEST_SKIP() << cuda::describe_compiler();
  for (const char* word : {"float", "t1", "threadIdx", "iterations"}) {
    const te::Expr n = te::var("n"), m = te::var(word);
    const te::Tensor a = te::placeholder({n, m}, "A");
    const te::Axis k = te::reduce_axis(0, m, word);
    const te::Tensor b = te::compute(
        {n}, [&](const te::Axes& i) { return te::sum(a(i[0], k), {k}); }, "B");
    const std::string source = te::build(te::create_schedule(b), {a, b}, Target::cuda()).source();
    EXPECT_NO_THROW(static_cast<void>(cuda::compile(source, "sm_90a"))) << word;
  }
}

}  // namespace
}  // namespace postlude
