#include <postlude/error.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace postlude::inline v0 {
namespace {

// Bytes of the UTF-8 sequence that starts at text[i], or 0 if there is none.
std::size_t utf8_length(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char first = byte(i);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xc0) != 0x80) return 0;
  }
  return length;
}

// A line of source as a terminal can show it: tabs become one space (so that columns stay), other
// control characters and broken UTF-8 become '?'.
std::string printable(std::string_view line) {
  std::string shown;
  for (std::size_t i = 0; i < line.size();) {
    const std::size_t length = utf8_length(line, i);
    const auto byte = static_cast<unsigned char>(line[i]);
    if (length == 0 || byte == 0x7f) shown += '?';
    else if (byte < 0x20) shown += byte == '\t' ? ' ' : '?';
    else shown.append(line.substr(i, length));
    i += std::max<std::size_t>(length, 1);
  }
  return shown;
}

// Columns on a terminal that the bytes take: one a code point.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string render(ErrorCode code, const std::string& message, const std::string& hint, const Location& where) {
  constexpr std::size_t longest_line = 160;
  std::string text;
  if (where.span.line > 0) {
    text = where.file + ':' + std::to_string(where.span.line) + ':' + std::to_string(where.span.column) + ": ";
  }
  text += "error " + to_string(code) + ": " + message;
  const std::size_t start = where.span.column > 0 ? static_cast<std::size_t>(where.span.column - 1) : 0;
  if (where.span.line > 0 && !where.source_line.empty() && start <= where.source_line.size()) {
    const std::string_view line = where.source_line;
    const std::size_t indent = std::min(line.find_first_not_of(" \t"), line.size());
    // A window of a very long line, around the place.
    std::size_t from = std::min(indent, start);
    if (start - from > longest_line / 2) from = start - longest_line / 2;
    while (from < start && (static_cast<unsigned char>(line[from]) & 0xc0) == 0x80) ++from;
    const std::string_view shown = line.substr(from, longest_line);
    const std::size_t before = width(printable(line.substr(from, start - from)));
    const std::size_t room = shown.size() > start - from ? shown.size() - (start - from) : 0;
    const std::size_t meant = std::min<std::size_t>(std::max(where.span.length, 1), std::max<std::size_t>(room, 1));
    const std::size_t carets = std::max<std::size_t>(width(line.substr(start, meant)), 1);
    text += "\n    " + printable(shown) + "\n    " + std::string(before, ' ') + '^' + std::string(carets - 1, '~');
    if (!hint.empty()) text += "  " + hint;
  } else if (!hint.empty()) {
    text += "\n    " + hint;
  }
  return text;
}

}  // namespace

const std::vector<ErrorInfo>& error_table() {
  static const std::vector<ErrorInfo> table = {
#define POSTLUDE_ERROR(number, name, title) {ErrorCode::name, #name, title},
#include <postlude/errors.def>
#undef POSTLUDE_ERROR
  };
  return table;
}

std::string to_string(ErrorCode code) {
  char text[16];
  std::snprintf(text, sizeof text, "PL%04d", static_cast<int>(code));
  return text;
}

Error::Error(ErrorCode code, std::string message, std::string hint, Location where)
    : code_(code),
      message_(std::move(message)),
      hint_(std::move(hint)),
      where_(std::move(where)),
      rendered_(render(code_, message_, hint_, where_)) {}

std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 64;
  std::string shown = "'";
  for (std::size_t i = 0; i < text.size();) {
    if (i >= longest) return shown + "...'";
    const std::size_t length = utf8_length(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", byte);
      shown += escape;
    } else {
      if (byte == '\'' || byte == '\\') shown += '\\';
      shown.append(text.substr(i, length));
    }
    i += std::max<std::size_t>(length, 1);
  }
  return shown + "'";
}

std::string closest(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr std::size_t longest = 64;  // nobody mistypes more than that, and the distance is quadratic
  if (name.size() > longest) return {};
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > longest || candidate == name) continue;
    // Edit distance in which swapping two neighbours counts once (optimal string alignment).
    std::vector<std::size_t> before(candidate.size() + 1), last(candidate.size() + 1), row(candidate.size() + 1);
    std::iota(last.begin(), last.end(), std::size_t{0});
    for (std::size_t i = 1; i <= name.size(); ++i) {
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const bool same = name[i - 1] == candidate[j - 1];
        row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
        if (i > 1 && j > 1 && name[i - 1] == candidate[j - 2] && name[i - 2] == candidate[j - 1]) {
          row[j] = std::min(row[j], before[j - 2] + 1);
        }
      }
      before.swap(last);
      last.swap(row);
    }
    const std::size_t distance = last.back();
    if (distance >= name.size()) continue;  // not another letter for a single one
    // Of equals one that begins alike: the first letter is seldom the wrong one.
    const bool begins = !best.empty() && best.front() != name.front() && candidate.front() == name.front();
    if (distance < best_distance || (distance == best_distance && begins)) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace postlude::inline v0
