// Nobody outside of src/loop asks which main loop it is, or spells the names of its inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

namespace {

namespace fs = std::filesystem;

// Front ends that make one main loop by its name bind its inputs by theirs.
bool makes_one(const fs::path& file) {
  const std::string path = file.string();
  return path.find("src/evt/") != std::string::npos || path.find("src/te/") != std::string::npos;
}

TEST(Seam, NobodyAsksWhichMainLoopItIs) {
  const std::regex asked(R"re(get_if<\s*(Gemm|Stream)\b|\bget<\s*(Gemm|Stream)\b)re"
                         R"re(|holds_alternative<\s*(Gemm|Stream)\b|is_stream\b|"[ABX]")re");
  const std::regex asked_in_python(R"re((==|!=) *["'][ABX]["']|["'][ABX]["'] (if|else)\b)re");
  const std::regex not_a_name(R"re(amount\([^()]*, "B"\))re");  // bytes
  const fs::path root = POSTLUDE_SOURCE_DIR;
  int files = 0;
  for (const char* folder : {"src", "python/src", "python/postlude"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      constexpr std::array sources = {".h", ".cpp", ".inc", ".cu", ".py"};
      if (std::find(sources.begin(), sources.end(), extension) == sources.end() || makes_one(entry.path())) continue;
      if (entry.path().string().starts_with((root / "src/loop").string())) continue;
      ++files;
      std::ifstream in(entry.path());
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        const std::string rest = std::regex_replace(line, not_a_name, "");
        EXPECT_FALSE(std::regex_search(rest, extension == ".py" ? asked_in_python : asked))
            << entry.path().string() << ':' << number << ": " << line;
      }
    }
  }
  EXPECT_GT(files, 150);
}

}  // namespace
