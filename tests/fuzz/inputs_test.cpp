// A fixed number of inputs of each kind, and the corpus as it is. ./dev fuzz takes new ones.
#include "fuzz/inputs.h"
#include "fuzz/corpus.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

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

// A run begins from what those before it found, and repeats from as many as it had.
TEST(Inputs, CorpusGrows) {
  const std::string folder = testing::TempDir() + "/postlude-corpus";
  std::filesystem::remove_all(folder);
  const auto run = [&](std::size_t most) {
    fuzz::Corpus corpus(folder, most);
    std::string all;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      fuzz::Choices choices(fuzz::mix(seed));
      const std::string text = fuzz::mutated_text(choices, corpus.texts());
      all += text;
      corpus.see(text);
    }
    return std::tuple(corpus.found(), corpus.digest(), all);
  };
  const auto [none, digest, texts] = run(SIZE_MAX);
  EXPECT_EQ(none, 0u);
  const auto [found, later, others] = run(SIZE_MAX);
  EXPECT_GT(found, 3u);
  EXPECT_NE(later, digest);
  EXPECT_NE(others, texts);
  EXPECT_EQ(run(0), std::tuple(std::size_t{0}, digest, texts));
  EXPECT_EQ(std::get<2>(run(found)), others);
  fuzz::Corpus whole(folder);
  EXPECT_LT(whole.found(), 150u) << "not every text is worth keeping";
  std::filesystem::remove_all(folder);
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
