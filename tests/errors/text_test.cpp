// Every refusal of a text: its code, place, caret and hint, exactly. The cases are in text.golden: a name, a text, and
// after `---` what is said about it. UPDATE_GOLDEN=1 writes what is said now; read the difference before you commit it.
#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace postlude {
namespace {

struct Case {
  std::string name, text, message;
};

const std::string golden = POSTLUDE_SOURCE_DIR "/tests/errors/text.golden";

std::vector<Case> read_cases() {
  std::ifstream file(golden);
  std::vector<Case> cases;
  std::string line;
  bool message = false;
  while (std::getline(file, line)) {
    if (line.starts_with("=== ")) {
      cases.push_back({line.substr(4), "", ""});
      message = false;
    } else if (line == "---") {
      message = true;
    } else {
      (message ? cases.back().message : cases.back().text) += line + '\n';
    }
  }
  return cases;
}

std::string said_about(const std::string& text) {
  try {
    (void)parse(text, {}, "e.py");
  } catch (const Error& error) { return std::string(error.what()) + '\n'; }
  return "accepted\n";
}

TEST(TextErrors, SayWhatIsWrongWhereAndWhatToDo) {
  std::vector<Case> cases = read_cases();
  ASSERT_GE(cases.size(), 100u);
  const bool update = std::getenv("UPDATE_GOLDEN") != nullptr;
  std::ostringstream written;
  for (const Case& each : cases) {
    const std::string said = said_about(each.text);
    written << "=== " << each.name << '\n' << each.text << "---\n" << said;
    if (!update) { EXPECT_EQ(said, each.message) << each.name; }
    EXPECT_NE(said, "accepted\n") << each.name;
  }
  if (update) std::ofstream(golden) << written.str();
}

}  // namespace
}  // namespace postlude
