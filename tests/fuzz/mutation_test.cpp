// The fuzzer must be able to fail: of the deliberate bugs of generated code in mutations.cpp at least 95% are caught by
// random epilogues within a minute, for all bugs together.
#include "cpu/backend.h"
#include "fuzz/grammar.h"
#include "fuzz/mutations.h"
#include "fuzz/oracle.h"
#include "lower/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace postlude {
namespace {

struct Tally {
  int applied = 0;
  bool caught = false;
};

// Runs a mutated Program on the CPU, and says what is wrong with the results; "" if nothing.
std::string run(const lower::Program& program, const Bindings& bindings, const fuzz::Case& c, fuzz::Tensors& tensors,
                const reference::Evaluation& expected) {
  tensors.poison_outputs();
  try {
    const auto executable = cpu::compile(c.problem, std::make_shared<const lower::Program>(program), Target::cpu(1));
    executable->bind(bindings)->run(nullptr);
  } catch (const Error& e) { return e.what(); }
  if (std::string wrong = tensors.damage(); !wrong.empty()) return wrong;
  return fuzz::compare(expected, c, tensors, "");
}

TEST(Mutation, NineteenInTwentyAreCaught) {
  const auto mutations = fuzz::mutations();
  ASSERT_GE(mutations.size(), 40u);
  std::vector<Tally> tallies(mutations.size());
  fuzz::GrammarOptions options;
  options.most_elements = 1024;
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  const auto left = [&] {
    return std::any_of(tallies.begin(), tallies.end(), [](const Tally& t) { return !t.caught; });
  };
  std::uint64_t seed = 0;
  for (; left() && (seed < 100 || seconds() < 60); ++seed) {  // some on any machine
    const fuzz::Case c = fuzz::generate(seed, options);
    if (c.shape.m == 0 || c.shape.n == 0 || c.shape.batch == 0) continue;
    const lower::Program program = lower::lower(c.graph, facts_of(c.problem));
    fuzz::Tensors tensors = fuzz::materialise(c);
    Bindings bindings = tensors.bindings;
    bindings.buffers.resize(program.buffers.size());
    std::optional<reference::Evaluation> expected;
    for (std::size_t i = 0; i < mutations.size(); ++i) {
      if (tallies[i].caught) continue;
      lower::Program mutated = program;
      Bindings bound = bindings;
      const fuzz::Mutation& m = mutations[i];
      const std::uint64_t choice = fuzz::mix(seed * 1000 + i);
      if (!(m.program ? m.program(mutated, choice) : m.bindings(bound, program, choice))) continue;
      if (!expected) {
        expected = reference::evaluate(c.graph, c.problem, tensors.bindings);
        ASSERT_EQ(run(program, bindings, c, tensors, *expected), "") << "without any mutation, seed " << seed;
      }
      ++tallies[i].applied;
      tallies[i].caught = !run(mutated, bound, c, tensors, *expected).empty();
    }
  }
  int caught = 0;
  for (std::size_t i = 0; i < mutations.size(); ++i) {
    caught += tallies[i].caught;
    if (!tallies[i].caught) std::printf("not caught in %d cases: %s\n", tallies[i].applied, mutations[i].name);
  }
  std::printf("%d of %zu bugs caught by %llu epilogues in %.1f s\n", caught, mutations.size(),
              static_cast<unsigned long long>(seed), seconds());
  EXPECT_GE(100 * caught, 95 * static_cast<int>(mutations.size()));
}

}  // namespace
}  // namespace postlude
