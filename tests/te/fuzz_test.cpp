// Random reductions by random schedules against their definition. Values are small integers, whose
// sums are the same in every order. POSTLUDE_TE_RUNS and POSTLUDE_TE_FIRST: how many, from where.
#include "te/fuzz_parts.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace postlude {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(Fuzz, Cpu) {
  const std::uint64_t first = from_environment("POSTLUDE_TE_FIRST", 1),
                      runs = from_environment("POSTLUDE_TE_RUNS", 300);
  int failures = 0;
  std::size_t steps = 0;
  for (std::uint64_t seed = first; seed < first + runs && failures < 5; ++seed) {
    fuzz_te::Program p = fuzz_te::generate(seed);
    std::string message;
    try {
      if (seed % 5 == 0) fuzz_te::choose(p, Target::cpu());
      else if (seed % 25 == 1) fuzz_te::choose(p, Target::cuda());
      else fuzz_te::schedule(p, seed % 2 ? fuzz_te::Bindings::threads : fuzz_te::Bindings::none);
      steps += p.steps.size();
      const auto wanted = fuzz_te::expected(p);
      std::vector<Tensor> arrays;
      for (fuzz_te::Array& array : p.arrays) arrays.push_back(array.view());
      te::build(p.schedule, p.arguments, Target::cpu(3))(arrays);
      message = fuzz_te::difference(p, wanted);
    } catch (const std::exception& error) {
      message = error.what();
      for (const std::string& step : p.steps) message += "\n  " + step;
    }
    if (message.empty()) continue;
    ++failures;
    std::string nest;
    try {
      nest = te::lower(p.schedule, p.arguments);
    } catch (const std::exception&) {}
    ADD_FAILURE() << "seed " << seed << ": " << message << "\n" << nest;
  }
  EXPECT_GT(steps, runs);  // schedules are not all refused
}

// Rows of several stages by the schedules that are chosen for a GPU, and for a CPU.
TEST(Fuzz, Rows) {
  const std::uint64_t first = from_environment("POSTLUDE_TE_FIRST", 1),
                      runs = from_environment("POSTLUDE_TE_ROWS", 100);
  int together = 0;
  for (std::uint64_t seed = first; seed < first + runs && !HasFailure(); ++seed) {
    fuzz_te::Draw draw(seed);
    fuzz_te::Program p = fuzz_te::stages_of_rows(seed, draw);
    fuzz_te::choose(p, seed % 4 == 3 ? Target::cpu() : Target::cuda());
    const std::string nest = te::lower(p.schedule, p.arguments);
    together += nest.find("synchronise") != std::string::npos;
    const auto wanted = fuzz_te::expected(p);
    std::vector<Tensor> arrays;
    for (fuzz_te::Array& array : p.arrays) arrays.push_back(array.view());
    te::build(p.schedule, p.arguments, Target::cpu(2))(arrays);
    EXPECT_EQ(fuzz_te::difference(p, wanted), "") << "seed " << seed << "\n" << nest;
  }
  EXPECT_GT(together, static_cast<int>(runs / 8));
}

}  // namespace
}  // namespace postlude
