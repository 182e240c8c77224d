// The language, by what accepted texts print. The cases are in language.golden.
#include "golden_cases.h"
#include "graph/ir/equal.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

namespace postlude {
namespace {

TEST(Language, PrintsAsExpectedAndParsesBack) {
  check_golden(POSTLUDE_SOURCE_DIR "/tests/graph/language.golden", 40, [](const std::string& text) {
    std::string printed;
    try {
      const Graph graph = parse(text, {}, "e.py");
      printed = graph.print();
      const Graph again = parse(printed, {}, "printed.py");
      EXPECT_TRUE(same(graph.data(), again.data())) << printed;
      EXPECT_EQ(again.print(), printed);
    } catch (const Error& error) { ADD_FAILURE() << error.what() << '\n' << printed; }
    return printed;
  });
}

}  // namespace
}  // namespace postlude
