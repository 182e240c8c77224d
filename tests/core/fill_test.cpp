// Text with holes.
#include "core/fill.h"

#include <postlude/error.h>

#include <gtest/gtest.h>

namespace postlude {
namespace {

TEST(Fill, PutsTextIntoHoles) {
  EXPECT_EQ(fill("nothing", {}), "nothing");
  EXPECT_EQ(fill("", {}), "");
  EXPECT_EQ(fill("$a + $b;", {{"a", "x"}, {"b", "y"}}), "x + y;");
  EXPECT_EQ(fill("$a$a", {{"a", "x"}}), "xx");
  EXPECT_EQ(fill("${a}b $ab ${ab}", {{"a", "x"}, {"ab", "y"}}), "xb y y");
  EXPECT_EQ(fill("$a", {{"a", ""}}), "");
  EXPECT_EQ(fill("f($a) { }", {{"a", "$b {"}}), "f($b {) { }");  // what is filled in has no holes
}

std::string refused(std::string_view text, std::initializer_list<Hole> holes) {
  try {
    return fill(text, holes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    return error.what();
  }
}

TEST(Fill, RefusesHolesAndTextsThatDoNotBelongTogether) {
  EXPECT_NE(refused("$a and $other", {{"a", "x"}}).find("nothing fills \"$other\""), std::string::npos);
  EXPECT_NE(refused("$ab", {{"a", "x"}}).find("nothing fills \"$ab\""), std::string::npos);
  EXPECT_NE(refused("costs $", {}).find("nothing fills \"$\""), std::string::npos);
  EXPECT_NE(refused("${a", {{"a", "x"}}).find("nothing fills \"${a\""), std::string::npos);
  EXPECT_NE(refused("$a", {{"a", "x"}, {"b", "y"}}).find("no hole is called \"b\""), std::string::npos);
}

}  // namespace
}  // namespace postlude
