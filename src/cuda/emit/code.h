// Straight-line code from the instructions of a phase.
#pragma once

#include "cuda/emit/ops.h"

#include <functional>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

// Instructions an element that run behind a product: beyond, a pass over memory has enough threads to be faster, and
// one element a thread, which compiles in a fraction of the time (decisions 0182, 0201).
inline constexpr int most_instructions = 700;

// What the emitted instructions must not decide themselves.
struct Resolve {
  std::function<std::string(lower::ValueId)> value;            // how a value is written here
  std::function<std::string(const lower::Instruction&)> leaf;  // a load, the accumulator or a count
  // The name of the array that holds a value of eight elements e, then `value` is one of them; "" where it is the same
  // for all. Unset where code is of one element.
  std::function<std::string(lower::ValueId)> array{};
};

// The right-hand side of instruction `id`, guarded where it has a guard.
[[nodiscard]] std::string right_hand_side(const lower::Phase& phase, lower::ValueId id, const Place& place,
                                          const Resolve& resolve, Functions& functions);
// The instructions wanted, each a constant of its own, one a line.
[[nodiscard]] std::string declarations(const lower::Phase& phase, const std::vector<bool>& wanted, const Place& place,
                                       const Resolve& resolve, Functions& functions, const std::string& indent);
// Instruction `id` of eight elements at `place`, into an array that is declared here: by its form of vector.cu if it
// has one.
[[nodiscard]] std::string array_statements(const lower::Phase& phase, lower::ValueId id, const Place& place,
                                           const Resolve& resolve, Functions& functions, const std::string& indent);
// The array of eight that holds a value; where it is the same for all, `code` first gets one called `made`.
[[nodiscard]] std::string array_of(const lower::Phase& phase, lower::ValueId id, const std::string& made,
                                   const Resolve& resolve, const std::string& indent, std::string& code);

// Which instructions the given values need, themselves included.
[[nodiscard]] std::vector<bool> needed(const lower::Phase& phase, const std::vector<lower::ValueId>& values);

// All values that stores (and, if wanted, reductions) of a phase start from.
[[nodiscard]] std::vector<lower::ValueId> sinks(const lower::Phase& phase, bool stores, bool reductions);

// Whether an access means the phase's own row and column.
[[nodiscard]] inline bool plain(const lower::Access& access) {
  return access.columns.identity() && access.divide_rows == 1 && access.row_steps.empty();
}
// A buffer's elements in device code: 4 parameter words from `word`: address, strides (in elements) of b, m, n.
[[nodiscard]] std::string address_arguments(int word, const std::string& b, const std::string& row,
                                            const std::string& column, bool unit_stride);
// "load_bf16(...)" of an access at a place; bool is stored as a byte.
[[nodiscard]] std::string load_expression(const lower::Program& program, const lower::Access& access, int word,
                                          const Place& place, bool unit_stride);
[[nodiscard]] std::string store_statement(const lower::Program& program, const lower::Access& access, int word,
                                          const Place& place, const std::string& value, bool unit_stride);
// The accumulator where it lies in memory as `source`; its four words are as a buffer's.
[[nodiscard]] std::string load_accumulator(DType source, const lower::Access& access, int word, const Place& place);
// Whether a value is known to be NaN or in [least, most]: clamped.
[[nodiscard]] bool is_clamped(const lower::Phase& phase, lower::ValueId id, double least, double most);
// Whether an instruction is where(c, x, 0).
[[nodiscard]] bool is_else_zero(const lower::Phase& phase, const lower::Instruction& instruction);
// Whether an instruction is log1p(exp(-abs(x))).
[[nodiscard]] bool adds_below_one(const lower::Phase& phase, const lower::Instruction& instruction);
// The form of an instruction that takes eight elements at once (vector.cu): "vec_log"; else "".
[[nodiscard]] std::string vector_form(const lower::Phase& phase, const lower::Instruction& instruction);

// The number of elements that a reduction takes at a place. `m`, `n`: the problem's, of any integer type.
[[nodiscard]] std::string count_expression(const lower::Instruction& count, const Place& place,
                                           const std::string& batch, const std::string& m, const std::string& n);
[[nodiscard]] std::string storage_name(DType type);  // "bf16", ..., "bool"

}  // namespace postlude::inline v0::cuda
