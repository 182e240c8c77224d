// The problem in front of an epilogue: the main loop that fills the accumulator.
#pragma once

#include <postlude/dtype.h>

#include <variant>

namespace postlude::inline v0 {

// The axis of an operand that is contiguous. `any` leaves it to the strides that are bound (a CPU
// takes all strides at any time; a GPU compiles the variant that they need when they are first
// bound).
enum class Layout : std::uint8_t {
  any,
  k_major,   // K contiguous: A row-major (M x K), B stored as N x K (the weight of a torch Linear)
  mn_major,  // M (or N) contiguous: A stored K x M, B stored K x N
};

// acc[m, n] = sum over k of A[m, k] * B[k, n], in f32, or in i32 for s8 and u8 inputs (exact up to
// overflow, which wraps). A is bound as M x K and B as K x N, whatever their strides; with
// `batched` both may have a batch axis in front, and one without it is shared by all batches. All
// output tensors of a batched problem have the batch axis in front.
struct Gemm {
  DType a = DType::f32;
  DType b = DType::f32;
  Layout a_layout = Layout::any;
  Layout b_layout = Layout::any;
  bool batched = false;
};

// acc = X (M x N), converted to f32 (integers to i32): no contraction. For epilogues alone.
struct Stream {
  DType x = DType::f32;
  bool batched = false;
};

using Problem = std::variant<Gemm, Stream>;

[[nodiscard]] DType accumulator_type(const Problem& problem);
// The dtype of an operand or a tile output that declares none: A's (or X's), f32 where that is an
// integer; for an operand also f32 where that is an fp8.
[[nodiscard]] DType default_operand_type(const Problem& problem);
[[nodiscard]] DType default_output_type(const Problem& problem);
[[nodiscard]] bool is_batched(const Problem& problem);

}  // namespace postlude::inline v0
