// One error type, thrown by everything that refuses.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace postlude::inline v0 {

// Stable codes, PL0101 and so on. The category is the hundreds: 1 text, 2 graph, 3 operands, 4
// unsupported, 5 machine, 6 files, 7 usage, 9 a bug of ours.
enum class ErrorCode : std::uint16_t {
#define POSTLUDE_ERROR(number, name, title) name = number,
#include <postlude/errors.def>
#undef POSTLUDE_ERROR
};

struct ErrorInfo {
  ErrorCode code;
  std::string_view name;   // "undefined_name"
  std::string_view title;  // one line for a table
};
[[nodiscard]] const std::vector<ErrorInfo>& error_table();
[[nodiscard]] std::string to_string(ErrorCode code);  // "PL0103"

// A place in a text: 1-based line and column (columns count bytes), and how many bytes are meant.
// line == 0 means that no place is known.
struct Span {
  std::int32_t line = 0;
  std::int32_t column = 0;
  std::int32_t length = 0;
};

// The place of an error, with the line of text that shows it.
struct Location {
  std::string file;  // as the user named it
  Span span;
  std::string source_line;  // the text of that line, without its newline
};

class Error : public std::exception {
 public:
  // `message` is one sentence without a full stop; `hint` says what to do, and may be empty.
  Error(ErrorCode code, std::string message, std::string hint = {}, Location where = {});

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }
  [[nodiscard]] const Location& where() const noexcept { return where_; }

  // The whole error, as every front end prints it:
  //   bias_gelu.py:2:20: error PL0103: 'bais' is not defined
  //       d = gelu(acc + bais) + residual
  //                      ^~~~  did you mean 'bias'?
  [[nodiscard]] const char* what() const noexcept override { return rendered_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
  std::string hint_;
  Location where_;
  std::string rendered_;
};

// A user's string, in single quotes, with control characters, quotes and bytes that are no UTF-8
// escaped, cut at 64 bytes.
[[nodiscard]] std::string quoted(std::string_view text);

// The candidate that is closest to `name` by edit distance, or "" when none is close enough to
// suggest.
[[nodiscard]] std::string closest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace postlude::inline v0
