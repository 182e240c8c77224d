// Strip functions, which the epilogue's interpreter is made of. Each applies one operation to a
// strip, a small rectangle of elements that stays in the first-level cache.
//
// strips.inc writes each once, as plain loops; strips_<isa>.cpp compile it with that instruction
// set's flags. Those files include no header of the standard library with inline functions: the
// linker could keep their copy for everyone.
//
// Values in strips are f32, i32, i64, or booleans, which are i32 that are 0 or 1 (so that they have
// the lanes of what they select). Nothing is flushed to zero: denormal inputs and results are exact
// or within the stated error.
#pragma once

#include "graph/ir/ops.h"

#include <postlude/dtype.h>

#include <cstdint>

namespace postlude::inline v0::cpu {

// An argument's element (r, c) is at data[r * row_stride + c * column_stride], in elements. This
// form serves every broadcast: a row vector has row_stride 0, a column vector column_stride 0, a
// scalar both. Functions other than loads take column_stride 0 or 1.
struct StripArg {
  const void* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
};

// Memory that is touched soon after the strip: its lines are asked for, one span after another and
// at an even pace, while elements are computed. Loads and stores of consecutive elements do it,
// reductions along rows, products of three factors, and elementwise functions of one or two
// arguments but sine and cosine; others ask for nothing.
struct StripAhead {
  const char* data = nullptr;
  std::int64_t bytes = 0;
};

// So many results are computed between two requests for memory, or before they are summed.
inline constexpr std::int64_t block_columns = 128;

struct Strip {
  std::int64_t rows = 0, columns = 0;
  void* out = nullptr;  // may be one of the arguments, element for element, where the sizes of the elements are equal
  std::int64_t out_row_stride = 0;
  std::int64_t out_column_stride = 1;  // stores only; others write consecutive elements
  const StripArg* args = nullptr;
  const void* extra = nullptr;  // random: RandomStrip
  // If not null, the sum of row r's results is added to sums[r * sum_row_stride], by functions
  // whose result is f32 and that heed `ahead`. Without `keeps` the results are wanted for nothing
  // else, and `out` has room for block_columns of them.
  float* sums = nullptr;
  std::int64_t sum_row_stride = 0;
  bool keeps = true;
  // Whole lines of results go to memory past the caches. Functions that heed `ahead` do so, but for
  // loads and reductions.
  bool past = false;
  const StripAhead* ahead = nullptr;
  int ahead_count = 0;
};
using StripFn = void (*)(const Strip& strip);

// The four types of values, as an index.
inline constexpr int compute_types = 4;
[[nodiscard]] constexpr int compute_index(DType type) {
  return type == DType::i32 ? 1 : type == DType::i64 ? 2 : type == DType::boolean ? 3 : 0;
}
[[nodiscard]] constexpr std::int64_t strip_bytes(DType type) { return type == DType::i64 ? 8 : 4; }

// Functions of the prelude with code of their own. Arguments are f32, in the order of the prelude's
// parameters.
struct NativeStrip {
  const char* name;
  int arity;
  StripFn function;
};

// The parameters of random() besides its place: args[0] is m, args[1] is n (i64).
struct RandomStrip {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;
  std::uint32_t batch = 0;
};

// Reductions. The state of each key is one element in each of the reducer's component arrays.
//   along:  state[r * state_row_stride] takes the elements of row r
//   across: state[r * state_row_stride + c] takes element (r, c)
// A stride of 0 makes the rows share their state, and take turns in order of r. Within a row the
// order is a function of the number of columns. Components: sum, prod, min, max, any, all: 1;
// argmax, argmin: value, index (i64); online_softmax: max, scaled sum; welford: mean, M2, count
// (f32).
struct ReduceStrip {
  std::int64_t rows = 0, columns = 0;
  // column_stride 1; argmax and argmin: values, indices (i64; along, null: the elements' numbers); merges: the
  // components
  const StripArg* args = nullptr;
  void* state[3] = {nullptr, nullptr, nullptr};
  std::int64_t state_row_stride = 0;
  const StripAhead* ahead = nullptr;  // heeded by those along rows
  int ahead_count = 0;
};
using ReduceFn = void (*)(const ReduceStrip& strip);

enum class StripReducer : std::uint8_t { sum, prod, min, max, any, all, argmax, argmin, online_softmax, welford };
inline constexpr int strip_reducers = 10;

struct StripTable {
  // By operation and the type of its (last) argument. Null where the operation does not take the
  // type or is not elementwise.
  StripFn ops[sizeof(op_table) / sizeof(op_table[0])][compute_types];
  // Loads from memory, at any column stride, to the type in which a dtype is computed.
  StripFn load[dtype_count];
  // Stores a type of values to memory: nearest even, saturating in fp8 and integers
  // (docs/numerics.md).
  StripFn store[compute_types][dtype_count];
  // cast with Round::nearest_even: the value after it went through the dtype (other rounding modes
  // use it to saturate integers).
  StripFn cast[compute_types][dtype_count];
  StripFn copy[compute_types];
  StripFn random;
  StripFn exp_difference;                         // exp(a - b), of f32
  StripFn rounded_add, rounded_sub, rounded_mul;  // of f32: a, rounded to bf16, and b
  StripFn product;                                // a * b * c, of f32
  StripFn added_max;                              // max(a + b, c), of f32
  // The result plus args[0] * args[1] + args[2] * args[3] and so on, of f32, one rounding an addition; extra:
  // WeightedSum. A product's second factor is one number for all columns.
  StripFn weighted_sum;
  StripFn logarithms;  // of f32, only summed: to one rounding of each argument
  ReduceFn along[strip_reducers][compute_types];
  ReduceFn across[strip_reducers][compute_types];
  // Takes states instead of elements, in the form of `across`, where that is not `across` itself.
  ReduceFn merge[strip_reducers][compute_types];
  const NativeStrip* natives;
  int native_count;
};

extern const StripTable portable_strips;
extern const StripTable avx2_strips;
extern const StripTable avx512_strips;

}  // namespace postlude::inline v0::cpu
