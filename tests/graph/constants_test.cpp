// Constants of the text are computed as Python does, before there is a graph.
#include "graph/support.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <string>

namespace postlude {
namespace {

// The value of an expression of literals: how many columns a group has.
std::string group(const std::string& expression) {
  const std::string graph =
      parse("g = " + expression + "\n\ndef e(acc):\n    return sum(acc, axis=1, group=g)\n").print();
  const std::size_t at = graph.find("group=") + 6;
  return graph.substr(at, graph.find(')', at) - at);
}

ErrorCode refusal(const std::string& expression) {
  return code_of([&] { static_cast<void>(group(expression)); });
}

TEST(Constants, IntegersAreDividedTowardsMinusInfinity) {
  EXPECT_EQ(group("7 // 2"), "3");
  EXPECT_EQ(group("8 // 2"), "4");
  EXPECT_EQ(group("-7 // -2"), "3");
  EXPECT_EQ(group("10 + -7 // 2"), "6");
  EXPECT_EQ(group("10 + 7 // -2"), "6");
  EXPECT_EQ(group("10 + -8 // 2"), "6");
  EXPECT_EQ(group("10 + 8 // -4"), "8");
}

TEST(Constants, IntegersAreRaisedToPowers) {
  EXPECT_EQ(group("3 ** 4"), "81");
  EXPECT_EQ(group("2 ** 0"), "1");
  EXPECT_EQ(group("1 + 0 ** 0"), "2");
  EXPECT_EQ(group("1 + 0 ** 1"), "1");
  EXPECT_EQ(group("1 + 0 ** 3"), "1");
  EXPECT_EQ(group("1 + 0 ** 100000000000"), "1");
  EXPECT_EQ(group("1 ** 100000000000"), "1");
  EXPECT_EQ(group("2 + (-1) ** 100000000000"), "3");
  EXPECT_EQ(group("2 + (-1) ** 100000000001"), "1");
  EXPECT_EQ(group("2 ** 62 // 2 ** 60"), "4");
  EXPECT_EQ(group("(-2) ** 63 // -(2 ** 60)"), "8");
}

// What 64 bits do not hold has no value before there is a graph.
TEST(Constants, IntegersThatOverflowAreNoConstants) {
  for (const char* const text : {"2 ** 63", "3 ** 50", "10 ** 65", "2 ** 64 // 2 ** 60", "9223372036854775807 + 1",
                                 "4611686018427387904 * 2", "1 // 0", "(-(2 ** 62) * 2) // -1"})
    EXPECT_EQ(refusal(text), ErrorCode::bad_attribute) << text;
}

TEST(Constants, PiecesOfAChunk) {
  EXPECT_EQ(code_of([] { static_cast<void>(parse("def e(acc):\n    return chunk(acc, 0)\n")); }),
            ErrorCode::bad_attribute);
  EXPECT_NO_THROW(static_cast<void>(parse("def e(acc):\n    a, = chunk(acc, 1)\n    return a\n")));
  EXPECT_NO_THROW(static_cast<void>(parse("def e(acc):\n    a, b = chunk(acc, 2)\n    return a + b\n")));
}

}  // namespace
}  // namespace postlude
