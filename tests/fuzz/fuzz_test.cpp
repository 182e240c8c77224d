// 6,000 random epilogues, 1,000 of them behind convolutions, against the oracles, and every program that once failed.
#include "fuzz/grammar.h"
#include "fuzz/oracle.h"
#include "fuzz/shrink.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace postlude {
namespace {

// Cases of the seeds in [first, first + count).
void hold(std::uint64_t first, std::uint64_t count, const fuzz::GrammarOptions& options) {
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const fuzz::Case c = fuzz::generate(seed, options);
    const std::string wrong = fuzz::check(c);
    if (wrong.empty()) continue;
    const auto fails = [](const fuzz::Case& candidate) { return !fuzz::check(candidate).empty(); };
    const fuzz::Case small = fuzz::shrink(c, fails, 300);
    FAIL() << "seed " << seed << ": " << wrong << "\nshrunk: " << fuzz::check(small) << '\n'
           << fuzz::write(small) << "Pin it in tests/fuzz/regressions once it is mended.";
  }
}

class RandomEpilogues : public testing::TestWithParam<int> {};

TEST_P(RandomEpilogues, HoldAgainstEveryOracle) {
  constexpr std::uint64_t each = 500;
  hold(each * static_cast<std::uint64_t>(GetParam()), each, {});
}
// Geometry of all kinds, in all directions.
TEST_P(RandomEpilogues, HoldBehindConvolutions) {
  constexpr std::uint64_t each = 100;
  hold(each * static_cast<std::uint64_t>(GetParam()), each, {.most_nodes = 32, .convolutions = 100});
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomEpilogues, testing::Range(0, 10));

// An element that the reference leaves unchecked proves nothing, so most elements must be checked.
TEST(Grammar, LeavesFewElementsUnchecked) {
  fuzz::Coverage all;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const fuzz::Coverage c = fuzz::coverage(fuzz::generate(seed, {.convolutions = 30}));
    all.elements += c.elements;
    all.unchecked += c.unchecked;
    all.nan += c.nan;
  }
  EXPECT_LT(all.unchecked, all.elements / 20);
  EXPECT_LT(all.nan, all.elements / 20);
}

TEST(Grammar, MakesTheSameCaseOfTheSameSeedAndACaseOfAnyBytes) {
  EXPECT_EQ(fuzz::write(fuzz::generate(42)), fuzz::write(fuzz::generate(42)));
  EXPECT_NE(fuzz::write(fuzz::generate(42)), fuzz::write(fuzz::generate(43)));
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 200; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(fuzz::mix(static_cast<std::uint64_t>(i))));
    fuzz::Choices choices(bytes);
    (void)fuzz::write(fuzz::generate(choices));
  }
}

TEST(Regressions, StayMended) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(POSTLUDE_SOURCE_DIR "/tests/fuzz/regressions")) {
    std::ifstream in(entry.path());
    std::stringstream text;
    text << in.rdbuf();
    EXPECT_EQ(fuzz::check(fuzz::read(text.str())), "") << entry.path();
    ++count;
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace postlude
