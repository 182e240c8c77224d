// The choice of an epilogue in a file.
#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

namespace postlude {
namespace {

constexpr const char* text = R"(
def helper(x):
    return x * 2

def first(acc):
    return helper(acc)

def second(acc):
    def nested(x):
        return x
    return nested(acc) + 1
)";

std::string said(const auto& action) {
  try {
    action();
  } catch (const Error& error) { return error.what(); }
  return "";
}

TEST(Parse, TakesTheLastDefUnlessOneIsNamed) {
  EXPECT_EQ(parse(text).name(), "second");
  EXPECT_EQ(parse(text, "first").name(), "first");
  EXPECT_EQ(epilogue_names(text), (std::vector<std::string>{"helper", "first", "second"}));
  EXPECT_EQ(said([] { (void)parse(text, "frist", "e.py"); }),
            "error PL0109: 'e.py' has no epilogue 'frist'\n    Did you mean 'first'? It has helper, first, second.");
}

TEST(Parse, ReadsFilesAndNamesInThem) {
  const std::string path = std::filesystem::temp_directory_path() / "postlude_parse_test.py";
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  std::fputs(text, file);
  std::fclose(file);
  EXPECT_EQ(parse_file(path).name(), "second");
  EXPECT_EQ(parse_file(path + ":first").name(), "first");
  EXPECT_NE(said([&] { (void)parse_file(path + ":third"); }).find("PL0109"), std::string::npos);
  std::filesystem::remove(path);
  EXPECT_NE(said([&] { (void)parse_file(path); }).find("PL0601"), std::string::npos);
  EXPECT_NE(said([] { (void)parse_file(std::filesystem::temp_directory_path()); }).find("PL0601"), std::string::npos);
  EXPECT_NE(said([] { (void)parse_file(std::string("a\0b", 3)); }).find("PL0601"), std::string::npos);
}

}  // namespace
}  // namespace postlude
