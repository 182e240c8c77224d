// Output for people: colours where there is a terminal, tables, progress on stderr.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace postlude::inline v0::cli {

// Colours for a file: none where it is no terminal, under NO_COLOR (https://no-color.org) or
// TERM=dumb.
class Style {
 public:
  explicit Style(std::FILE* file);
  [[nodiscard]] std::string bold(const std::string& text) const { return paint("1", text); }
  [[nodiscard]] std::string dim(const std::string& text) const { return paint("2", text); }
  [[nodiscard]] std::string red(const std::string& text) const { return paint("31", text); }
  [[nodiscard]] std::string green(const std::string& text) const { return paint("32", text); }

 private:
  [[nodiscard]] std::string paint(const char* code, const std::string& text) const;
  bool on_;
};

// Rows of cells, columns aligned, two spaces between; the last column is not padded. The first row
// is a heading.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows, const Style& style);

// One line on stderr that says what a long run is doing: nothing unless stderr is a terminal, and
// nothing before a second has gone by or for a step that is not known to be long.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const std::string& what, bool long_step = false);

 private:
  std::chrono::steady_clock::time_point start_;
  bool terminal_;
  bool shown_ = false;
};

}  // namespace postlude::inline v0::cli
