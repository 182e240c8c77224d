#include "graph/text/lexer.h"

#include "graph/text/refusals.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace postlude::inline v0::text {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// Among symbols with the same first character the longest stands first.
constexpr std::string_view symbols[] = {
    "**=", "**", "*=", "*",  "//=", "//", "/=", "/", "<<=", "<<", "<=", "<", ">>=", ">>",  ">=", ">",
    "==",  "=",  "!=", "->", "-=",  "-",  "+=", "+", "%=",  "%",  "@=", "@", "&=",  "&",   "|=", "|",
    "^=",  "^",  "~",  ":=", ":",   "(",  ")",  "[", "]",   "{",  "}",  ",", ";",   "...", "."};

}  // namespace

Lexer::Lexer(const Source& source, const ParseLimits& limits) : source_(source), limits_(limits), text_(*source.text) {
  if (text_.size() > limits.bytes)
    source.fail(ErrorCode::text_limit, {},
                "a text of " + std::to_string(text_.size()) + " bytes; the limit is " + std::to_string(limits.bytes));
  check_text();
  if (text_.starts_with("\xEF\xBB\xBF")) at_ = line_begin_ = 3;
}

Span Lexer::span(std::size_t begin, std::size_t end) const {
  return {line_, static_cast<std::int32_t>(begin - line_begin_ + 1), static_cast<std::int32_t>(end - begin)};
}

void Lexer::fail(ErrorCode code, std::size_t begin, std::size_t end, std::string message, std::string hint) const {
  source_.fail(code, span(begin, end), std::move(message), std::move(hint));
}

void Lexer::check_text() {
  std::size_t i = 0;
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text_[k]); };
  while (i < text_.size()) {
    const unsigned char c = byte(i);
    if (c == '\n') {
      ++line_;
      line_begin_ = ++i;
      continue;
    }
    if (c == 0) fail(ErrorCode::syntax, i, i + 1, "a NUL byte in the text");
    const std::size_t length = c < 0x80                 ? 1
                               : c >= 0xC2 && c <= 0xDF ? 2
                               : c >= 0xE0 && c <= 0xEF ? 3
                               : c >= 0xF0 && c <= 0xF4 ? 4
                                                        : 0;
    bool good = length != 0 && i + length <= text_.size();
    for (std::size_t k = 1; good && k < length; ++k) good = (byte(i + k) & 0xC0) == 0x80;
    // Overlong forms, surrogates and code points above U+10FFFF are refused.
    if (good && length > 2) {
      const unsigned char d = byte(i + 1);
      good =
          !(c == 0xE0 && d < 0xA0) && !(c == 0xED && d > 0x9F) && !(c == 0xF0 && d < 0x90) && !(c == 0xF4 && d > 0x8F);
    }
    if (!good) fail(ErrorCode::syntax, i, i + 1, "the text is not UTF-8");
    i += length;
  }
  line_ = 1;
  line_begin_ = 0;
}

void Lexer::new_line() {
  ++line_;
  line_begin_ = at_;
}

Token Lexer::token(TokenKind kind, std::size_t begin) const {
  return {.kind = kind, .span = span(begin, at_), .text = text_.substr(begin, at_ - begin), .end = at_};
}

// Measures the indentation at the start of a logical line, skips blank lines, and says whether
// `token` is an indent or a dedent.
bool Lexer::indentation(Token& token) {
  Indent indent;
  std::size_t begin = at_;
  for (;;) {
    const char c = peek();
    if (c == ' ') {
      ++indent.wide;
      ++indent.narrow;
      ++at_;
    } else if (c == '\t') {
      indent.wide = indent.wide / 8 * 8 + 8;
      ++indent.narrow;
      ++at_;
    } else if (c == '\f' || (c == '\r' && peek(1) == '\n')) {
      ++at_;
    } else if (c == '#') {
      while (at_ < text_.size() && peek() != '\n') ++at_;
    } else if (c == '\n') {
      ++at_;
      new_line();
      begin = at_;
      indent = {};
    } else {
      break;
    }
  }
  line_start_ = false;
  if (at_ >= text_.size()) indent = {};
  const auto inconsistent = [&](const Indent& other) {
    if ((indent.wide < other.wide) != (indent.narrow < other.narrow) ||
        (indent.wide == other.wide) != (indent.narrow == other.narrow))
      fail(ErrorCode::syntax, begin, at_, "tabs and spaces are mixed in the indentation", "Indent with spaces only.");
  };
  inconsistent(indents_.back());
  if (indent.wide > indents_.back().wide) {
    if (indents_.size() > static_cast<std::size_t>(limits_.nesting))
      fail(ErrorCode::text_limit, begin, at_,
           "more than " + std::to_string(limits_.nesting) + " levels of indentation");
    indents_.push_back(indent);
    token = this->token(TokenKind::indent, begin);
    return true;
  }
  while (indent.wide < indents_.back().wide) {
    indents_.pop_back();
    inconsistent(indents_.back());
    ++dedents_;
  }
  if (indent.wide != indents_.back().wide)
    fail(ErrorCode::syntax, begin, at_, "this line is indented like none before it",
         "Indent it like the line it belongs beside.");
  return false;
}

Token Lexer::next() {
  for (;;) {
    Token made;
    if (line_start_ && indentation(made)) return made;
    if (dedents_ > 0) {
      --dedents_;
      return token(TokenKind::dedent, at_);
    }
    const char c = peek();
    if (at_ >= text_.size()) {
      if (!brackets_.empty())
        source_.fail(ErrorCode::syntax, brackets_.back().span, quoted(brackets_.back().text) + " is never closed");
      // A last line without a newline has one all the same.
      if (at_ != line_begin_ && !text_.empty() && text_.back() != '\n') {
        made = token(TokenKind::newline, at_);
        new_line();
        line_start_ = true;
        return made;
      }
      return token(TokenKind::end, at_);
    }
    if (c == ' ' || c == '\t' || c == '\f') {
      ++at_;
    } else if (c == '#') {
      while (at_ < text_.size() && peek() != '\n') ++at_;
    } else if (c == '\n' || (c == '\r' && peek(1) == '\n')) {
      const std::size_t begin = at_;
      at_ += c == '\r' ? 2 : 1;
      made = {.kind = TokenKind::newline, .span = span(begin, begin + 1), .text = text_.substr(begin, 1), .end = at_};
      new_line();
      if (brackets_.empty()) {
        line_start_ = true;
        return made;
      }
    } else if (c == '\\') {
      const std::size_t begin = at_++;
      if (peek() == '\r') ++at_;
      if (peek() != '\n')
        fail(ErrorCode::syntax, begin, begin + 1, "a backslash that does not end its line",
             "It continues a line only as its last character.");
      ++at_;
      new_line();
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      return number();
    } else if (c == '"' || c == '\'') {
      return string(at_);
    } else if (letter_length(text_.substr(at_)) > 0) {
      const std::size_t begin = at_;
      while (at_ < text_.size()) {
        const int length = is_digit(peek()) ? 1 : letter_length(text_.substr(at_, 4));
        if (length == 0) break;
        at_ += static_cast<std::size_t>(length);
      }
      if (at_ - begin > longest_name) {
        const std::size_t size = at_ - begin;
        fail(ErrorCode::text_limit, begin, begin + 16,
             "a name of " + std::to_string(size) + " bytes; at most " + std::to_string(longest_name) + " are read");
      }
      if (at_ - begin <= 2 && (peek() == '"' || peek() == '\'')) return string(begin);
      made = token(TokenKind::name, begin);
      if (is_keyword(made.text)) made.kind = TokenKind::keyword;
      return made;
    } else {
      return symbol();
    }
  }
}

Token Lexer::number() {
  const std::size_t begin = at_;
  std::string digits;
  const auto take = [&](int base) {
    while (digit_value(peek()) < base ||
           (peek() == '_' && at_ > begin && digit_value(text_[at_ - 1]) < base && digit_value(peek(1)) < base)) {
      if (peek() != '_') digits += peek();
      ++at_;
    }
  };
  const char mark = peek() == '0' ? static_cast<char>(peek(1) | 0x20) : '\0';
  const int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
  bool real = false;
  if (base != 10) {
    at_ += 2;
    take(base);
  } else {
    take(10);
    if (peek() == '.') {
      real = true;
      digits += peek();
      ++at_;
      if (peek() != '_') take(10);
    }
    const bool sign = peek(1) == '+' || peek(1) == '-';
    if ((peek() == 'e' || peek() == 'E') && is_digit(peek(sign ? 2 : 1))) {
      real = true;
      digits += 'e';
      if (sign) digits += peek(1);
      at_ += sign ? 2 : 1;
      take(10);
    }
  }
  if (is_digit(peek()) || peek() == '_' || letter_length(text_.substr(at_, 4)) > 0) {
    std::size_t end = at_;
    while (end < text_.size() && end < at_ + 64 && (is_digit(text_[end]) || letter_length(text_.substr(end, 4)) == 1))
      ++end;
    fail(ErrorCode::syntax, begin, std::max(end, at_ + 1), "this is not a number",
         "A number is written 12, 1_000, 0x1F, 1.5 or 1e-6; a name begins with a letter.");
  }
  Token made = token(real ? TokenKind::real : TokenKind::integer, begin);
  const char* const last = digits.data() + digits.size();
  std::from_chars_result read{};
  if (real) {
    const char* first = digits.data();
    read = std::from_chars(first, last, made.real);
  } else {
    if (base == 10 && digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos)
      fail(ErrorCode::syntax, begin, at_, "an integer does not begin with 0", "Write 0o17 for octal.");
    read = std::from_chars(digits.data(), last, made.magnitude, base);
  }
  if (read.ec == std::errc::result_out_of_range)
    fail(ErrorCode::syntax, begin, std::min(at_, begin + 64), "this number is out of range",
         real ? "Numbers are those of a double; `inf` is written by its name." : "Integers have 64 bits.");
  if (read.ec != std::errc{} || read.ptr != last) fail(ErrorCode::syntax, begin, at_, "this is not a number");
  return made;
}

Token Lexer::string(std::size_t begin) {
  while (peek() != '"' && peek() != '\'') ++at_;  // the prefix
  const std::string_view prefix = text_.substr(begin, at_ - begin);
  const char quote = peek();
  const bool triple = peek(1) == quote && peek(2) == quote;
  const Span start = span(begin, at_ + (triple ? 3 : 1));
  if (prefix.find_first_not_of("rRuUfFbB") != std::string_view::npos)
    source_.fail(ErrorCode::syntax, start, quoted(prefix) + " cannot stand before a string");
  at_ += triple ? 3 : 1;
  const auto unfinished = [&] { source_.fail(ErrorCode::syntax, start, "this string is never closed"); };
  for (;;) {
    if (at_ >= text_.size()) unfinished();
    const char c = peek();
    if (c == quote && (!triple || (peek(1) == quote && peek(2) == quote))) break;
    if (c == '\\' && at_ + 1 < text_.size()) ++at_;
    if (peek() == '\n') {
      if (!triple && c != '\\') unfinished();
      ++at_;
      new_line();
    } else {
      ++at_;
    }
  }
  at_ += triple ? 3 : 1;
  return {.kind = TokenKind::string, .span = start, .text = text_.substr(begin, at_ - begin), .end = at_};
}

Token Lexer::symbol() {
  const std::size_t begin = at_;
  for (const Refusal& refused : refused_symbols) {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with(refused.token) && !rest.starts_with("!="))
      fail(refused.code, begin, begin + refused.token.size(), std::string(refused.message), std::string(refused.hint));
  }
  for (const std::string_view symbol : symbols) {
    if (!text_.substr(at_).starts_with(symbol)) continue;
    at_ += symbol.size();
    Token made = token(TokenKind::symbol, begin);
    const char c = symbol[0];
    if (c == '(' || c == '[' || c == '{') {
      if (brackets_.size() >= static_cast<std::size_t>(limits_.nesting))
        fail(ErrorCode::text_limit, begin, at_,
             "more than " + std::to_string(limits_.nesting) + " brackets inside one another",
             "Give the inner expressions names on lines of their own.");
      brackets_.push_back(made);
    } else if (c == ')' || c == ']' || c == '}') {
      const char opener = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (brackets_.empty()) fail(ErrorCode::syntax, begin, at_, quoted(symbol) + " closes nothing");
      if (brackets_.back().text[0] != opener)
        fail(ErrorCode::syntax, begin, at_,
             quoted(symbol) + " closes " + quoted(brackets_.back().text) + " of line " +
                 std::to_string(brackets_.back().span.line));
      brackets_.pop_back();
    }
    return made;
  }
  std::size_t end = at_ + 1;
  while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0) == 0x80) ++end;
  fail(ErrorCode::syntax, begin, end, quoted(text_.substr(begin, end - begin)) + " has no meaning here");
}

std::string string_value(std::string_view token) {
  const std::size_t open = token.find_first_of("\"'");
  const bool raw = token.substr(0, open).find_first_of("rR") != std::string_view::npos;
  const bool triple = token.size() >= open + 6 && token[open + 1] == token[open] && token[open + 2] == token[open];
  const std::size_t quotes = triple ? 3 : 1;
  token = token.substr(open + quotes, token.size() - open - 2 * quotes);
  std::string value;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const char next = i + 1 < token.size() ? token[i + 1] : '\0';
    if (token[i] != '\\' || raw || next == '\0') {
      if (token[i] != '\r') value += token[i];
      continue;
    }
    ++i;
    if (next == '\n') continue;
    if (next == 'n') value += '\n';
    else if (next == 't') value += '\t';
    else if (next == '\\' || next == '\'' || next == '"') value += next;
    else (value += '\\') += next;
  }
  return value;
}

}  // namespace postlude::inline v0::text
