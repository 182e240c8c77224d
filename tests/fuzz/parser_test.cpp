// Mutates the repository's texts and feeds them to the parser's fuzzer, for POSTLUDE_FUZZ_SECONDS
// (2 by default) from the seed POSTLUDE_FUZZ_SEED. A failure prints the text and aborts.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace postlude {
namespace {

std::vector<std::string> corpus() {
  std::vector<std::string> texts;
  const auto read = [](const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  };
  for (const auto& entry : std::filesystem::directory_iterator(POSTLUDE_SOURCE_DIR "/epilogues"))
    texts.push_back(read(entry.path()));
  for (const char* golden : {"/tests/graph/language.golden", "/tests/errors/text.golden"}) {
    std::istringstream lines(read(POSTLUDE_SOURCE_DIR + std::string(golden)));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("=== ") || line == "---") texts.emplace_back();
      else if (!texts.empty()) texts.back() += line + '\n';
    }
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

// Words that a random byte would not find.
constexpr const char* words[] = {"acc",
                                 "(",
                                 ")",
                                 "[",
                                 "]",
                                 "{",
                                 "}",
                                 ",",
                                 ":",
                                 "=",
                                 "+",
                                 "-",
                                 "*",
                                 "**",
                                 "/",
                                 "//",
                                 "%",
                                 "~",
                                 "&",
                                 "|",
                                 "<",
                                 ">=",
                                 "==",
                                 "\n",
                                 "\n    ",
                                 "    ",
                                 "\t",
                                 "\\\n",
                                 "#",
                                 "'",
                                 "\"",
                                 "\"\"\"",
                                 "def f(x):",
                                 "return ",
                                 "lambda a, b: ",
                                 "chunk(acc, 2)",
                                 "concat((acc, acc))",
                                 "sum(acc, axis=1)",
                                 "reduce((acc, acc), combine=lambda a, b, c, d: (a, b), identity=(0, 1))",
                                 "[0]",
                                 "post.",
                                 ": bf16",
                                 ": row",
                                 "inf",
                                 "nan",
                                 "-inf",
                                 "1e308",
                                 "0x7fffffffffffffff",
                                 "9223372036854775808",
                                 "True",
                                 "None",
                                 "axis=",
                                 "group=2",
                                 "if ",
                                 "random(1)",
                                 "max(",
                                 "gelu(",
                                 "cast(acc, e4m3)",
                                 "_",
                                 "D"};

TEST(ParserFuzz, MutatedTexts) {
  const char* const seconds = std::getenv("POSTLUDE_FUZZ_SECONDS");
  const char* const chosen = std::getenv("POSTLUDE_FUZZ_SEED");
  const std::uint64_t seed = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : 1;
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds != nullptr ? std::atof(seconds) : 2.0);
  const std::vector<std::string> texts = corpus();
  ASSERT_GE(texts.size(), 200u);
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  std::uint64_t runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    std::string text = texts[below(texts.size())];
    for (std::size_t change = 1 + below(4); change > 0; --change) {
      const std::size_t at = below(text.size() + 1), length = std::min(below(12), text.size() - at);
      switch (below(6)) {
        case 0: text.insert(at, words[below(std::size(words))]); break;
        case 1: text.replace(at, length, words[below(std::size(words))]); break;
        case 2: text.erase(at, length); break;
        case 3: text.insert(below(text.size() + 1), text.substr(at, below(200))); break;
        case 4:
          if (at < text.size()) text[at] = static_cast<char>(random());
          break;
        default: {
          const std::string& other = texts[below(texts.size())];
          const std::size_t from = below(other.size() + 1);
          text.insert(at, other.substr(from, below(200)));
        }
      }
    }
    (void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
  RecordProperty("runs", std::to_string(runs));
  std::printf("%llu texts from seed %llu\n", static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(seed));
  EXPECT_GT(runs, 100u);
}

}  // namespace
}  // namespace postlude
