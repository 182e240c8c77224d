// Constructs that Python has and the epilogue language does not, each with a message and what to
// write instead.
#pragma once

#include <postlude/error.h>

#include <string_view>

namespace postlude::inline v0::text {

// A refusal, found by the token at which it is noticed.
struct Refusal {
  std::string_view token;
  std::string_view message;
  std::string_view hint;
  ErrorCode code = ErrorCode::unsupported_syntax;
};

// Refused where a statement or a value should begin.
inline constexpr Refusal refused_statements[] = {
    {"if", "`if` cannot branch on a value of the epilogue", "Write where(condition, a, b).",
     ErrorCode::branch_on_value},
    {"elif", "`elif` cannot branch on a value of the epilogue", "Write where(condition, a, b).",
     ErrorCode::branch_on_value},
    {"else", "`else` has no `if` here", "Write where(condition, a, b).", ErrorCode::branch_on_value},
    {"for", "loops are not part of the epilogue language",
     "Elementwise operations apply to all elements; sum, max and reduce go along an axis."},
    {"while", "loops are not part of the epilogue language",
     "Elementwise operations apply to all elements; sum, max and reduce go along an axis."},
    {"class", "classes are not part of the epilogue language", "An epilogue is a def."},
    {"with", "`with` is not part of the epilogue language", "Write the statements without it."},
    {"try", "exceptions are not part of the epilogue language", "Write where(condition, a, b) for special cases."},
    {"except", "exceptions are not part of the epilogue language", "Write where(condition, a, b) for special cases."},
    {"finally", "exceptions are not part of the epilogue language", "Write the statements without it."},
    {"raise", "exceptions are not part of the epilogue language", "An epilogue cannot fail at run time."},
    {"assert", "`assert` is not part of the epilogue language", "Check operands before you bind them."},
    {"del", "`del` is not part of the epilogue language", "Values that nothing needs cost nothing."},
    {"global", "`global` is not part of the epilogue language", "Return what you compute."},
    {"nonlocal", "`nonlocal` is not part of the epilogue language", "Return what you compute."},
    {"yield", "`yield` is not part of the epilogue language", "Return a tuple of names for several outputs."},
    {"await", "`await` is not part of the epilogue language", ""},
    {"async", "`async` is not part of the epilogue language", ""},
    {"break", "loops are not part of the epilogue language", ""},
    {"continue", "loops are not part of the epilogue language", ""},
};

// Refused wherever it stands: what other languages write.
inline constexpr Refusal refused_symbols[] = {
    {"&&", "`&&` is not part of the epilogue language",
     "Write a & b, with comparisons in parentheses: (x > 0) & (x < 1).", ErrorCode::syntax},
    {"||", "`||` is not part of the epilogue language",
     "Write a | b, with comparisons in parentheses: (x < 0) | (x > 1).", ErrorCode::syntax},
    {"!", "`!` is not part of the epilogue language", "Write ~x, with a comparison in parentheses: ~(x > 0).",
     ErrorCode::syntax},
    {"?", "`a ? b : c` is not part of the epilogue language", "Write where(condition, a, b).", ErrorCode::syntax},
};

// Refused where an operator or the end of an expression should be.
inline constexpr Refusal refused_operators[] = {
    {"and", "`and` cannot combine values", "Write a & b, with comparisons in parentheses: (x > 0) & (x < 1)."},
    {"or", "`or` cannot combine values", "Write a | b, with comparisons in parentheses: (x < 0) | (x > 1)."},
    {"not", "`not` cannot negate a value", "Write ~x, with a comparison in parentheses: ~(x > 0)."},
    {"if", "`a if condition else b` cannot branch on a value of the epilogue", "Write where(condition, a, b).",
     ErrorCode::branch_on_value},
    {"is", "`is` is not part of the epilogue language", "Write == to compare values."},
    {"in", "`in` is not part of the epilogue language", "Compare with == and combine with |."},
    {"for", "comprehensions are not part of the epilogue language",
     "Elementwise operations apply to all elements; sum, max and reduce go along an axis."},
    {":=", "`:=` is not part of the epilogue language", "Assign on a line of its own."},
    {"@", "`@` is not part of the epilogue language",
     "The matrix product comes before the epilogue; the first parameter is its result."},
    {"^", "`^` is not part of the epilogue language", "Write a != b for booleans, and x ** y for a power."},
    {"<<", "shifts are not part of the epilogue language", "Multiply by a power of two."},
    {">>", "shifts are not part of the epilogue language", "Write x // 2 ** k."},
    {"yield", "`yield` is not part of the epilogue language", "Return a tuple of names for several outputs."},
    {"await", "`await` is not part of the epilogue language", ""},
};

// The text to write for a function that other libraries have under this name; empty if none is
// known.
[[nodiscard]] std::string_view synonym(std::string_view name);

}  // namespace postlude::inline v0::text
