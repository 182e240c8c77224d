// Text to tokens, as Python's lexer does it: indentation, brackets that join lines, comments.
#pragma once

#include "graph/text/source.h"

#include <postlude/parse.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace postlude::inline v0::text {

enum class TokenKind : std::uint8_t { end, newline, indent, dedent, name, keyword, integer, real, string, symbol };

struct Token {
  TokenKind kind = TokenKind::end;
  Span span{};
  std::string_view text{};      // into the source; of a string with prefix and quotes
  std::uint64_t magnitude = 0;  // integer
  double real = 0;              // real
  std::size_t end = 0;          // offset of the byte after it

  [[nodiscard]] bool is(std::string_view symbol_or_keyword) const {
    return (kind == TokenKind::symbol || kind == TokenKind::keyword) && text == symbol_or_keyword;
  }
};

class Lexer {
 public:
  // Throws unless the text is UTF-8 without NUL and within the limits.
  Lexer(const Source& source, const ParseLimits& limits);

  [[nodiscard]] Token next();

 private:
  struct Indent {
    int wide = 0;    // columns with a tab to the next multiple of 8
    int narrow = 0;  // columns with a tab as 1; the two must agree, as in Python
  };

  const Source& source_;
  const ParseLimits& limits_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  std::int32_t line_ = 1;
  std::vector<Indent> indents_{Indent{}};
  std::vector<Token> brackets_;  // open ones
  int dedents_ = 0;              // still to be given out
  bool line_start_ = true;       // of a logical line

  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  [[nodiscard]] Span span(std::size_t begin, std::size_t end) const;
  [[noreturn]] void fail(ErrorCode code, std::size_t begin, std::size_t end, std::string message,
                         std::string hint = {}) const;
  void check_text();
  void new_line();
  bool indentation(Token& token);
  Token token(TokenKind kind, std::size_t begin) const;
  Token number();
  Token string(std::size_t begin);
  Token symbol();
};

// The value of a string token, escapes resolved.
[[nodiscard]] std::string string_value(std::string_view token);

}  // namespace postlude::inline v0::text
