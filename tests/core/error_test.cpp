// An error shows the line that it is about, and names that are nearly right.
#include <postlude/error.h>

#include <gtest/gtest.h>

#include <string>

namespace postlude {
namespace {

// The line that is shown, and what stands below it.
std::string shown(const std::string& line, int column, int length) {
  const Error error(ErrorCode::syntax, "wrong", "", {"file.py", {3, column, length}, line});
  const std::string text = error.what();
  return text.substr(text.find('\n') + 1);
}

TEST(Error, UnderlinesWhatIsMeant) {
  EXPECT_EQ(shown("  a = bcd + e", 7, 3), "    a = bcd + e\n        ^~~");
  EXPECT_EQ(shown("  a = bcd + e", 7, 1), "    a = bcd + e\n        ^");
  EXPECT_EQ(shown("  a = bcd + e", 7, 0), "    a = bcd + e\n        ^");
  EXPECT_EQ(shown("a = b", 5, 100), "    a = b\n        ^");  // no further than the line
  EXPECT_EQ(shown("a = b", 6, 1), "    a = b\n         ^");   // behind its end
  EXPECT_EQ(shown("\xc3\xa9 = \xc3\xa9\xc3\xa9 + 1", 6, 4), "    \xc3\xa9 = \xc3\xa9\xc3\xa9 + 1\n        ^~");
}

TEST(Error, ShowsAWindowOfALongLine) {
  const std::string text = shown(std::string(1000, 'x') + "!" + std::string(1000, 'y'), 1001, 1);
  EXPECT_EQ(text, "    " + std::string(80, 'x') + "!" + std::string(79, 'y') + "\n    " + std::string(80, ' ') + "^");
  // It begins with a whole character.
  std::string letters;
  for (int i = 0; i < 200; ++i) letters += "\xc3\xa9";
  const std::string whole = shown(letters + "=!", 402, 1);
  std::string window;
  for (int i = 0; i < 39; ++i) window += "\xc3\xa9";
  EXPECT_EQ(whole, "    " + window + "=!\n    " + std::string(40, ' ') + "^");
}

TEST(Error, NamesWhatIsNearest) {
  EXPECT_EQ(closest("sigmiod", {"sigmoid", "silu"}), "sigmoid");
  EXPECT_EQ(closest("rleu", {"gelu", "relu"}), "relu");  // two neighbours swapped count once
  EXPECT_EQ(closest("xsilu", {"gelu", "silu"}), "silu");
  EXPECT_EQ(closest("rlu", {"elu", "relu"}), "relu");  // of equals the one that begins alike
  EXPECT_EQ(closest("rlu", {"relu", "elu"}), "relu");
  EXPECT_EQ(closest("wxyzrelu", {"relu"}), "");  // half of it is something else
  EXPECT_EQ(closest("relu", {"wxyzrelu"}), "");
  EXPECT_EQ(closest("relu", {"relu"}), "");
  EXPECT_EQ(closest("A", {"X", "W", "D"}), "");  // another letter is another name
}

}  // namespace
}  // namespace postlude
