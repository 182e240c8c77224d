// What the language accepts, by what it prints. The cases are in language.golden: a name, a text, and after `---` the
// graph. UPDATE_GOLDEN=1 writes what is printed now; read the difference before you commit it.
#include "graph/equal.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace postlude {
namespace {

struct Case {
  std::string name, text, printed;
};

const std::string golden = POSTLUDE_SOURCE_DIR "/tests/graph/language.golden";

std::vector<Case> read_cases() {
  std::ifstream file(golden);
  std::vector<Case> cases;
  std::string line;
  bool printed = false;
  while (std::getline(file, line)) {
    if (line.starts_with("=== ")) {
      cases.push_back({line.substr(4), "", ""});
      printed = false;
    } else if (line == "---") {
      printed = true;
    } else {
      (printed ? cases.back().printed : cases.back().text) += line + '\n';
    }
  }
  return cases;
}

TEST(Language, PrintsAsExpectedAndParsesBack) {
  const std::vector<Case> cases = read_cases();
  ASSERT_GE(cases.size(), 40u);
  const bool update = std::getenv("UPDATE_GOLDEN") != nullptr;
  std::ostringstream written;
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    std::string printed;
    try {
      const Graph graph = parse(each.text, {}, "e.py");
      printed = graph.print();
      const Graph again = parse(printed, {}, "printed.py");
      EXPECT_TRUE(same(graph.data(), again.data())) << printed;
      EXPECT_EQ(again.print(), printed);
    } catch (const Error& error) { ADD_FAILURE() << error.what() << '\n' << printed; }
    written << "=== " << each.name << '\n' << each.text << "---\n" << printed;
    if (!update) { EXPECT_EQ(printed, each.printed); }
  }
  if (update) std::ofstream(golden) << written.str();
}

}  // namespace
}  // namespace postlude
