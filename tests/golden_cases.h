// Cases in one file: `=== ` and a name, a text, and after `---` what is said about it.
// POSTLUDE_UPDATE_GOLDEN=1 writes what is said now; read the difference before you commit it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace postlude {

// Calls say(text) for each case.
inline void check_golden(const std::string& path, int least_cases, const auto& say) {
  std::ifstream file(path);
  std::ostringstream now;
  std::string name, text, said, line;
  bool in_text = true;
  int cases = 0;
  const bool update = std::getenv("POSTLUDE_UPDATE_GOLDEN") != nullptr;
  const auto finish = [&] {
    if (cases++ == 0) return;
    SCOPED_TRACE(name);
    const std::string is = say(text);
    now << "=== " << name << '\n' << text << "---\n" << is;
    if (!update) { EXPECT_EQ(is, said); }
  };
  while (std::getline(file, line)) {
    if (line.starts_with("=== ")) {
      finish();
      name = line.substr(4), text.clear(), said.clear(), in_text = true;
    } else if (line == "---") {
      in_text = false;
    } else {
      (in_text ? text : said) += line + '\n';
    }
  }
  finish();
  ASSERT_GT(cases, least_cases) << path;
  if (update) std::ofstream(path) << now.str();
}

}  // namespace postlude
