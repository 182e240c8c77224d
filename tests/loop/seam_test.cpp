// Nobody outside of src/loop asks which main loop it is, or spells the names of its inputs; an emitted epilogue asks
// its tile, and not the problem; a main loop of one's own is small.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
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
  const std::regex asked(
      R"re((get_if|\bget|holds_alternative)<\s*(Gemm|Stream|Conv\w*)\b|is_stream\b|"([ABXW]|dY)")re");
  const std::regex asked_in_python(R"re((==|!=) *["'][ABX]["']|["'][ABX]["'] (if|else)\b)re");
  const std::regex not_a_name(R"re(amount\([^()]*, "B"\))re");  // bytes
  const fs::path root = POSTLUDE_SOURCE_DIR;
  int files = 0;
  for (const char* folder : {"src", "python/src", "python/postlude"}) {  // the command is in src/cli
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

std::string text_of(const fs::path& file) {
  std::ifstream in(fs::path(POSTLUDE_SOURCE_DIR) / file);
  EXPECT_TRUE(in) << file;
  return {std::istreambuf_iterator<char>(in), {}};
}

// What the text of an epilogue on fragments is made of. M, N and the batches are a main loop's to say, in
// device/fragment.cu: tile_rows, memory_row, tile_columns, most_rows, batches.
TEST(Seam, AnEmittedEpilogueAsksItsTile) {
  const std::regex asked(R"re(\bp\.(m|n|k|batch)\b)re");
  for (const char* file : {"emit/fragment.cpp", "emit/fragment_states.cpp", "emit/fragment_writer.h", "emit/finish.cpp",
                           "emit/reduce.cpp", "emit/code.cpp", "emit/ops.cpp", "device/epilogue.cu", "device/reduce.cu",
                           "device/vector.cu", "device/math.cu"})
    EXPECT_FALSE(std::regex_search(text_of(fs::path("src/cuda") / file), asked)) << file;
  const std::string fragment = text_of("src/cuda/device/fragment.cu");
  EXPECT_EQ(std::distance(std::sregex_iterator(fragment.begin(), fragment.end(), asked), std::sregex_iterator()), 4)
      << "those functions read M twice, N and the batches";
}

// The rows of A by an index: main loop, its tests on the CPU and against the reference, and those in emitted code
// (cuda/host/convolution_test.cpp, Emission.GathersRows), behind every epilogue of the suite.
TEST(Seam, AMainLoopOfOnesOwnIsSmall) {
  const std::string emission = text_of("tests/cuda/host/convolution_test.cpp");
  const std::size_t begin = emission.find("TEST(Emission, GathersRows)"), end = emission.find("\n}\n", begin);
  ASSERT_NE(end, emission.npos);
  std::string all = emission.substr(begin, end - begin);
  for (const char* file : {"gathered_rows.h", "gathered_rows.cpp", "gathered_rows_test.cpp"})
    all += text_of(fs::path("tests/loop") / file);
  EXPECT_LT(std::count(all.begin(), all.end(), '\n'), 300);
}

}  // namespace
