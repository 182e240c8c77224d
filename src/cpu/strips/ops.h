// The interpreter's operations: the table of strip functions of an instruction set, and the
// operations that are not a strip function.
#pragma once

#include "cpu/isa.h"
#include "cpu/strips/strips.h"
#include "lower/program.h"

#include <string_view>
#include <vector>

namespace postlude::inline v0::cpu {

[[nodiscard]] const StripTable& strips(Isa isa);

// A function of the prelude with code of its own, or null.
[[nodiscard]] const NativeStrip* find_native(const StripTable& table, std::string_view name);

// Whether the interpreter has code for a call, prelude's or user's; else it is expanded.
[[nodiscard]] bool has_native(const lower::Instruction& call, const StripTable& table);

// The most arguments and run-time parameters of a user's function, together.
inline constexpr std::size_t most_arguments = 16;

// Turns a Program into what the interpreter executes, without a change of meaning: calls without
// native code are expanded, values that are cheaper to keep are kept (keep.h), and random and
// stochastic casts get their coordinates (and the cast its random number) as arguments. Throws
// unsupported where something has more parts than the interpreter keeps. `phase_of`, if given, gets
// for each phase that of `program` which it is, or is a part of.
[[nodiscard]] lower::Program prepare(const lower::Program& program, const StripTable& table,
                                     std::vector<int>* phase_of = nullptr);

// Whether a sum of v may be taken from the logarithms of products, each rounded once more for each
// factor: v is a logarithm of a value that has such a rounding itself (decision 0017).
[[nodiscard]] bool is_summed_by_factors(const lower::Phase& phase, lower::ValueId v);

// Writes a literal as a value of `type`: 4 bytes, or 8 for an i64.
void write_constant(const Literal& literal, DType type, char* to);

// A cast in another direction than to the nearest. args[1] are the random numbers of
// Round::stochastic.
struct RoundedCast {
  DType from = DType::f32;
  DType to = DType::f32;
  Round round = Round::nearest_even;
};
void cast_rounded(const RoundedCast& cast, const Strip& strip);

// Calls a user's function: its strip function row by row, or its reference element by element.
void call_native(const NativeFunction& function, const Strip& strip);

}  // namespace postlude::inline v0::cpu
