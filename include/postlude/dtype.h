// Element types, and the types that values are computed in.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace postlude::inline v0 {

// The types of a tensor's elements. Values inside an epilogue are computed in f32, i32, i64 or
// boolean only; the others exist at operands, at outputs and in `cast`.
enum class DType : std::uint8_t { f32, f16, bf16, e4m3, e5m2, s8, u8, i32, i64, boolean };

inline constexpr int dtype_count = 10;

inline constexpr DType f32 = DType::f32;
inline constexpr DType f16 = DType::f16;    // IEEE binary16
inline constexpr DType bf16 = DType::bf16;  // upper half of an f32
inline constexpr DType e4m3 = DType::e4m3;  // OCP FP8 E4M3: no infinity, largest 448
inline constexpr DType e5m2 = DType::e5m2;  // OCP FP8 E5M2: infinities, largest 57344
inline constexpr DType s8 = DType::s8;
inline constexpr DType u8 = DType::u8;
inline constexpr DType i32 = DType::i32;
inline constexpr DType i64 = DType::i64;
inline constexpr DType boolean = DType::boolean;  // one byte, 0 or 1; `bool` in the epilogue language

// The rounding of `cast`. Every other conversion is nearest_even. Stochastic rounding goes up with
// the probability of the discarded fraction, from the Philox stream of `seed` at the element's
// coordinates.
enum class Round : std::uint8_t { nearest_even, toward_zero, up, down, stochastic };

[[nodiscard]] std::string_view name(DType type);  // "bf16"; "bool" for boolean
[[nodiscard]] std::string_view name(Round round);
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view text);  // also float32, bfloat16, int8, ...

[[nodiscard]] constexpr std::int64_t size_of(DType type) {
  switch (type) {
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::i64: return 8;
    default: return 1;
  }
}

[[nodiscard]] constexpr bool is_float(DType type) { return type <= DType::e5m2; }

// The type in which a value of `type` is computed once it has been loaded.
[[nodiscard]] constexpr DType compute_type(DType type) {
  if (is_float(type)) return DType::f32;
  if (type == DType::i64 || type == DType::boolean) return type;
  return DType::i32;
}

}  // namespace postlude::inline v0
