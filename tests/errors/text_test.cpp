// Every refusal of a text: its code, place, caret and hint, exactly. The cases are in text.golden.
#include "golden_cases.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

namespace postlude {
namespace {

std::string said_about(const std::string& text) {
  try {
    (void)parse(text, {}, "e.py");
  } catch (const Error& error) { return std::string(error.what()) + '\n'; }
  return "accepted\n";
}

TEST(TextErrors, SayWhatIsWrongWhereAndWhatToDo) {
  check_golden(POSTLUDE_SOURCE_DIR "/tests/errors/text.golden", 100, [](const std::string& text) {
    const std::string said = said_about(text);
    EXPECT_NE(said, "accepted\n");
    return said;
  });
}

}  // namespace
}  // namespace postlude
