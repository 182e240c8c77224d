// A fixed number of inputs of each kind, and the corpus as it is. ./dev fuzz takes new ones.
#include "fuzz/inputs.h"

#include <gtest/gtest.h>

namespace postlude {
namespace {

TEST(Inputs, CorpusHolds) {
  const auto corpus = fuzz::texts();
  ASSERT_GE(corpus.size(), 200u);
  for (const std::string& text : corpus) EXPECT_EQ(fuzz::check_text(text), "");
}

TEST(Inputs, MutatedTexts) {
  const auto corpus = fuzz::texts();
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    fuzz::Choices choices(fuzz::mix(seed));
    ASSERT_EQ(fuzz::check_text(fuzz::mutated_text(choices, corpus)), "") << "seed " << seed;
  }
}

TEST(Inputs, Npy) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    fuzz::Choices choices(fuzz::mix(seed));
    const std::string bytes = fuzz::random_npy(choices);
    ASSERT_EQ(fuzz::check_npy(bytes, choices), "") << "seed " << seed;
  }
}

TEST(Inputs, CacheEntries) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    fuzz::Choices choices(fuzz::mix(seed));
    ASSERT_EQ(fuzz::check_cache(choices), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace postlude
