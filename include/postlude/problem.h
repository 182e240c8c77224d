// The problem in front of an epilogue: the main loop that fills the accumulator.
#pragma once

#include <postlude/dtype.h>

#include <any>
#include <array>
#include <cstdint>
#include <memory>

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

// A convolution: acc[b, (p, q), n] = sum over (c, r, s) of X[b, c, y, x] * W[n, c, r, s], where y = p * stride[0] +
// r * dilation[0] - padding[0][0], x alike with [1], and X is 0 outside of the image. X is bound as (N, C, H, W) and W
// as (K, C, R, S), whatever X's strides; W's must let its (c, r, s) or its (r, s, c) lie a stride apart, as those of a
// contiguous or a channels_last tensor do. b is the image, m the pixel p * Q + q, n the filter: a tile output is
// (N, P * Q, K), which is (N, K, P, Q) in channels_last.
struct Conv2d {
  DType x = DType::f32;
  DType w = DType::f32;
  std::array<std::int32_t, 2> stride{1, 1};                             // of rows, of columns
  std::array<std::array<std::int32_t, 2>, 2> padding{{{0, 0}, {0, 0}}};  // before and after the rows, the columns
  std::array<std::int32_t, 2> dilation{1, 1};
};

// What main loops have in common is the library's (src/loop); main_loop() makes it of a description.
class MainLoop;
[[nodiscard]] std::shared_ptr<const MainLoop> main_loop(const Gemm& gemm);
[[nodiscard]] std::shared_ptr<const MainLoop> main_loop(const Stream& stream);
[[nodiscard]] std::shared_ptr<const MainLoop> main_loop(const Conv2d& conv);

// A value that holds a main loop: Problem problem = Gemm{.a = bf16, .b = bf16}.
class Problem {
 public:
  Problem() : Problem(Gemm{}) {}
  template <class Description>
  requires requires(const Description& description) { main_loop(description); }
  Problem(const Description& description) : description_(description), loop_(main_loop(description)) {}

  // The description that it was made of, if that is a Gemm, a Stream, ...; else null.
  template <class Description>
  [[nodiscard]] const Description* get_if() const {
    return std::any_cast<Description>(&description_);
  }
  [[nodiscard]] const MainLoop& loop() const { return *loop_; }

 private:
  std::any description_;
  std::shared_ptr<const MainLoop> loop_;
};

[[nodiscard]] DType accumulator_type(const Problem& problem);
// The dtype of an operand or a tile output that declares none: A's (or X's), f32 where that is an
// integer; for an operand also f32 where that is an fp8.
[[nodiscard]] DType default_operand_type(const Problem& problem);
[[nodiscard]] DType default_output_type(const Problem& problem);
[[nodiscard]] bool is_batched(const Problem& problem);

}  // namespace postlude::inline v0
