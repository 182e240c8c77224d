// fuzz_inputs [--seed S] [--count N] [--seconds T] [--corpus FOLDER] [--first N]: texts, .npy files and cache entries
// that nobody would write. What is worth starting from is kept in FOLDER, for the next run; --first N begins from its
// first N alone.
#include "fuzz/corpus.h"
#include "fuzz/driver.h"
#include "fuzz/inputs.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  using namespace postlude::fuzz;
  Argument arguments[] = {{"--corpus", ""}, {"--first", ""}};
  const auto given = [&](const char* name) -> const char* {
    for (int i = 1; i + 1 < argc; i += 2)
      if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
    return nullptr;
  };
  const char* const folder = given("--corpus");
  Corpus corpus(folder ? folder : "", given("--first") ? std::strtoull(given("--first"), nullptr, 10) : SIZE_MAX);
  // A failure names the texts that there were.
  std::string first = "--first", count = std::to_string(corpus.found());
  std::vector<char*> words(argv, argv + argc);
  if (folder && !given("--first")) words.insert(words.end(), {first.data(), count.data()});
  std::printf("%s: %zu texts, %zu of them found by runs before, digest %016llx\n", argv[0], corpus.texts().size(),
              corpus.found(), static_cast<unsigned long long>(corpus.digest()));
  return drive(static_cast<int>(words.size()), words.data(), arguments, [&](std::uint64_t seed) -> std::string {
    Choices choices(mix(seed));
    const std::int64_t kind = choices.below(1000);
    if (kind < 900) {
      const std::string text = mutated_text(choices, corpus.texts());
      std::string wrong = check_text(text);
      if (wrong.empty()) corpus.see(text);
      return wrong;
    }
    if (kind < 990) return check_npy(random_npy(choices), choices);
    return check_cache(choices);
  });
}
