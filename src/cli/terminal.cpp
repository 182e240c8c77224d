#include "cli/terminal.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <unistd.h>

namespace postlude::inline v0::cli {
namespace {

bool is_terminal(std::FILE* file) { return ::isatty(::fileno(file)) == 1; }

}  // namespace

Style::Style(std::FILE* file) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  on_ = is_terminal(file) && (no_color == nullptr || *no_color == '\0') &&
        (term == nullptr || std::string_view(term) != "dumb");
}

std::string Style::paint(const char* code, const std::string& text) const {
  return on_ ? "\x1b[" + std::string(code) + "m" + text + "\x1b[0m" : text;
}

std::string table(const std::vector<std::vector<std::string>>& rows, const Style& style) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      line += rows[r][i];
      if (i + 1 < rows[r].size()) line.append(widths[i] - rows[r][i].size() + 2, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += (r == 0 ? style.bold(line) : line) + '\n';
  }
  return text;
}

Progress::Progress() : start_(std::chrono::steady_clock::now()), terminal_(is_terminal(stderr)) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::step(const std::string& what, bool long_step) {
  if (!terminal_ || !(long_step || std::chrono::steady_clock::now() - start_ > std::chrono::seconds(1))) return;
  std::fprintf(stderr, "\r\x1b[K%s", what.c_str());
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace postlude::inline v0::cli
