#include "core/convert.h"

#include <postlude/dtype.h>
#include <postlude/error.h>

#include <array>
#include <utility>

namespace postlude::inline v0 {
namespace {

constexpr std::array<std::string_view, dtype_count> names = {"f32", "f16", "bf16", "e4m3", "e5m2",
                                                             "s8",  "u8",  "i32",  "i64",  "bool"};

// The names that numpy, torch and jax have for the same types.
constexpr std::pair<std::string_view, DType> aliases[] = {
    {"float32", f32},        {"float16", f16},      {"half", f16},  {"bfloat16", bf16},
    {"float8_e4m3fn", e4m3}, {"float8_e5m2", e5m2}, {"int8", s8},   {"i8", s8},
    {"uint8", u8},           {"int32", i32},        {"int64", i64}, {"boolean", boolean}};

}  // namespace

std::string_view name(DType type) {
  const auto number = static_cast<std::size_t>(type);
  return number < std::size(names) ? names[number] : "no dtype";
}

std::string_view name(Round round) {
  switch (round) {
    case Round::nearest_even: return "nearest_even";
    case Round::toward_zero: return "toward_zero";
    case Round::up: return "up";
    case Round::down: return "down";
    case Round::stochastic: return "stochastic";
  }
  return "";
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<DType>(i);
  }
  for (const auto& [alias, type] : aliases) {
    if (alias == text) return type;
  }
  return std::nullopt;
}

namespace core {

DType checked(DType type) {
  if (static_cast<int>(type) < dtype_count) return type;
  throw Error(ErrorCode::unknown_dtype, "DType(" + std::to_string(static_cast<int>(type)) + ") is no dtype");
}

Round checked(Round round) {
  if (round <= Round::stochastic) return round;
  throw Error(ErrorCode::bad_attribute, "Round(" + std::to_string(static_cast<int>(round)) + ") is no rounding");
}

}  // namespace core
}  // namespace postlude::inline v0
