#include "graph/text/source.h"

#include "graph/ir/ir.h"
#include "loop/names.h"

#include <algorithm>
#include <iterator>

namespace postlude::inline v0 {

namespace {

constexpr std::string_view keywords[] = {"False",  "None",   "True",    "and",      "as",       "assert", "async",
                                         "await",  "break",  "class",   "continue", "def",      "del",    "elif",
                                         "else",   "except", "finally", "for",      "from",     "global", "if",
                                         "import", "in",     "is",      "lambda",   "nonlocal", "not",    "or",
                                         "pass",   "raise",  "return",  "try",      "while",    "with",   "yield"};
static_assert(std::is_sorted(std::begin(keywords), std::end(keywords)));

struct CodePoints {
  char32_t first, last;
};
constexpr CodePoints letters[] = {
    {0xAA, 0xAA},     {0xB5, 0xB5},     {0xBA, 0xBA},    {0xC0, 0xD6},     {0xD8, 0xF6},     {0xF8, 0x2C1},
    {0x370, 0x373},   {0x376, 0x377},   {0x37B, 0x37D},  {0x386, 0x386},   {0x388, 0x481},   {0x48A, 0x52F},
    {0x5D0, 0x5EA},   {0x620, 0x64A},   {0x904, 0x939},  {0x10A0, 0x10FF}, {0x1E00, 0x1FBC}, {0x3041, 0x3096},
    {0x30A1, 0x30FA}, {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}};

}  // namespace

bool is_keyword(std::string_view text) { return std::binary_search(std::begin(keywords), std::end(keywords), text); }

int letter_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char c = byte(0);
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_') return 1;
  const int length = c >= 0xC2 && c <= 0xDF ? 2 : c >= 0xE0 && c <= 0xEF ? 3 : 0;
  if (length == 0 || text.size() < static_cast<std::size_t>(length)) return 0;
  char32_t point = length == 2 ? c & 0x1Fu : c & 0x0Fu;
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    point = point << 6 | (byte(i) & 0x3Fu);
  }
  for (const CodePoints& range : letters)
    if (point >= range.first && point <= range.last) return length;
  return 0;
}

bool is_identifier(std::string_view text) {
  if (text.empty() || letter_length(text) == 0 || is_keyword(text)) return false;
  while (!text.empty()) {
    const int length = text[0] >= '0' && text[0] <= '9' ? 1 : letter_length(text);
    if (length == 0) return false;
    text.remove_prefix(static_cast<std::size_t>(length));
  }
  return true;
}

bool is_name(std::string_view text) { return text.size() <= longest_name && is_identifier(text); }

void check_name(std::string_view text, std::string_view what, const Location& where) {
  if (text.size() > longest_name)
    throw Error(
        ErrorCode::bad_name,
        quoted(text) + " has " + std::to_string(text.size()) + " bytes, too many for the name of " + std::string(what),
        "A name has at most " + std::to_string(longest_name) + " bytes.", where);
  if (is_keyword(text))
    throw Error(ErrorCode::bad_name, quoted(text) + " is a keyword of Python and cannot name " + std::string(what),
                "Choose another name.", where);
  if (!is_identifier(text))
    throw Error(ErrorCode::bad_name, quoted(text) + " cannot name " + std::string(what),
                "A name is made of letters, digits and '_', and does not begin with a digit.", where);
}

bool is_bound_name(std::string_view text) {
  return is_name(text) && std::find(std::begin(input_names), std::end(input_names), text) == std::end(input_names);
}

void check_bound_name(std::string_view text, std::string_view what, const Location& where) {
  check_name(text, what, where);
  if (!is_bound_name(text))
    throw Error(ErrorCode::bad_name, quoted(text) + " is the name of an operand of the main loop",
                "Choose another name.", where);
}

Location Source::at(const Span& span) const {
  Location where{file, span, {}};
  if (!text || span.line <= 0) return where;
  std::size_t begin = 0;
  for (std::int32_t line = 1; line < span.line; ++line) {
    const std::size_t newline = text->find('\n', begin);
    if (newline == std::string::npos) return where;
    begin = newline + 1;
  }
  where.source_line = text->substr(begin, text->find('\n', begin) - begin);
  if (!where.source_line.empty() && where.source_line.back() == '\r') where.source_line.pop_back();
  return where;
}

void Source::fail(ErrorCode code, const Span& span, std::string message, std::string hint) const {
  throw Error(code, std::move(message), std::move(hint), at(span));
}

Location locate(const GraphData& graph, const Span& span) {
  if (graph.text) return Source{graph.file, graph.text}.at(span);
  for (auto place = graph.places.rbegin(); place != graph.places.rend(); ++place) {
    const Span& other = place->first;
    if (other.line == span.line && other.column == span.column && other.length == span.length) return place->second;
  }
  return Location{graph.file, span, {}};
}

}  // namespace postlude::inline v0
