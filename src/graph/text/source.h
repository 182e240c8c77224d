// A text and the places in it, which every error of the front end needs.
#pragma once

#include <postlude/error.h>

#include <memory>
#include <string>
#include <string_view>

namespace postlude::inline v0 {

struct Source {
  std::string file;                         // as the user named it
  std::shared_ptr<const std::string> text;  // null where a graph was built and not read

  [[nodiscard]] Location at(const Span& span) const;  // with the text of the span's line
  [[noreturn]] void fail(ErrorCode code, const Span& span, std::string message, std::string hint = {}) const;
};

// Whether `text` can name an operand, an output, a function or a variable: letters, digits and `_`,
// not beginning with a digit, no keyword of Python. Letters are those of Latin, Greek, Cyrillic and
// the scripts up to U+1FFF, and CJK, so that γ and β may be called so.
[[nodiscard]] bool is_identifier(std::string_view text);
[[nodiscard]] bool is_keyword(std::string_view text);

// The bytes of the letter at the start of `text`, 0 if there is none. ASCII digits are no letters.
[[nodiscard]] int letter_length(std::string_view text);

inline constexpr std::size_t longest_name = 1000;  // bytes

// Whether it is an identifier of bearable length.
[[nodiscard]] bool is_name(std::string_view text);

// Throws bad_name unless it is; `what` is "an operand" and so on.
void check_name(std::string_view text, std::string_view what, const Location& where = {});

// The same for an operand or an output, which is bound by its name: A, B and X are the main loop's.
[[nodiscard]] bool is_bound_name(std::string_view text);
void check_bound_name(std::string_view text, std::string_view what, const Location& where = {});

}  // namespace postlude::inline v0
