// The instruction set that the CPU backend runs with.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace postlude::inline v0::cpu {

// Ordered: a machine that has one has those before it.
//   portable  what the compiler's baseline gives (SSE2 on x86-64), no assumption
//   avx2      AVX2, FMA, F16C
//   avx512    AVX-512 F, BW, DQ, VL. 8-bit products need VNNI as well, and run as avx2 without it;
//             bf16 by bf16 uses BF16, and is converted to f32 where that is missing or slow
//   amx       AVX-512, and AMX (TILE, BF16, INT8) for products of bf16 by bf16 and 8-bit integers
enum class Isa : std::uint8_t { portable, avx2, avx512, amx };

inline constexpr int isa_count = 4;

[[nodiscard]] std::string_view name(Isa isa);  // "avx512"
[[nodiscard]] std::optional<Isa> parse_isa(std::string_view text);

// The best that the processor and the operating system have. Features decide, never a brand string.
[[nodiscard]] Isa machine_isa();
[[nodiscard]] bool machine_has_vnni();        // AVX512_VNNI
[[nodiscard]] bool machine_has_bf16();        // AVX512_BF16 that is faster than converting
[[nodiscard]] bool machine_halves_vectors();  // loads AVX-512's vectors as slowly as two halves: Zen 4 (decision 0319)

// machine_isa(), or less where the environment's POSTLUDE_ISA (portable, avx2, avx512 or amx, read
// once) asks for less.
[[nodiscard]] Isa best_isa();

}  // namespace postlude::inline v0::cpu
