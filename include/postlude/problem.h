// The problem in front of an epilogue: the main loop that fills the accumulator.
#pragma once

#include <postlude/dtype.h>

#include <any>
#include <array>
#include <cstddef>
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

namespace detail {
template <std::size_t Rank>
[[nodiscard]] constexpr std::array<std::int32_t, Rank> ones() {
  std::array<std::int32_t, Rank> all{};
  for (std::int32_t& one : all) one = 1;
  return all;
}
}  // namespace detail

// A convolution of Rank spatial axes: acc[b, (p, q), n] = sum over (c, r, s) of X[b, c, y, x] * W[n, c, r, s], where
// y = p * stride[0] + r * dilation[0] - padding[0][0], x alike with [1], and X is 0 outside of the image. X is bound as
// (N, C, H, W) and W as (K, C / groups, R, S), whatever their strides, but fastest in channels_last. b is the image, m
// the pixel p * Q + q, n the filter: a tile output is (N, P * Q, K), which is (N, K, P, Q) in channels_last. Filter n
// reads the channels of its group, n / (K / groups).
template <std::size_t Rank>
struct Conv {
  DType x = DType::f32;
  DType w = DType::f32;
  std::array<std::int32_t, Rank> stride = detail::ones<Rank>();  // of depth, rows and columns, outermost first
  std::array<std::array<std::int32_t, 2>, Rank> padding{};       // before and after each axis
  std::array<std::int32_t, Rank> dilation = detail::ones<Rank>();
  std::int32_t groups = 1;
};
using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;

// The gradient of a convolution by its X: acc[b, (h, w), n] = the sum of dY[b, k, p, q] * W[k, n, r, s] over all k, r,
// s and pixels (p, q) whose tap (r, s) is (h, w). dY is bound as (N, K, P, Q), W as (K, C / groups, R, S). b is the
// image, m the pixel h * W + w, n the channel. Several images have an output of P pixels where there is a stride:
// output_padding, less than the stride, is how many more rows (columns) than the smallest of them X has.
template <std::size_t Rank>
struct ConvDgrad {
  DType dy = DType::f32;
  DType w = DType::f32;
  std::array<std::int32_t, Rank> stride = detail::ones<Rank>();
  std::array<std::array<std::int32_t, 2>, Rank> padding{};
  std::array<std::int32_t, Rank> dilation = detail::ones<Rank>();
  std::int32_t groups = 1;
  std::array<std::int32_t, Rank> output_padding{};
};
using ConvDgrad1d = ConvDgrad<1>;
using ConvDgrad2d = ConvDgrad<2>;
using ConvDgrad3d = ConvDgrad<3>;

// The gradient by W: acc[m, (r, s, c)] = sum over (b, p, q) of dY[b, m, p, q] * X[b, c, y, x], (y, x) as above. X is
// bound as (N, C, H, W), dY as (N, K, P, Q). m is the filter, n = (r * S + s) * C / groups + c: a tile output is
// (K, R * S * C / groups), which is (K, C / groups, R, S) in channels_last. It has no batch.
template <std::size_t Rank>
struct ConvWgrad {
  DType x = DType::f32;
  DType dy = DType::f32;
  std::array<std::int32_t, Rank> filter = detail::ones<Rank>();  // R, S
  std::array<std::int32_t, Rank> stride = detail::ones<Rank>();
  std::array<std::array<std::int32_t, 2>, Rank> padding{};
  std::array<std::int32_t, Rank> dilation = detail::ones<Rank>();
  std::int32_t groups = 1;
};
using ConvWgrad1d = ConvWgrad<1>;
using ConvWgrad2d = ConvWgrad<2>;
using ConvWgrad3d = ConvWgrad<3>;

// What main loops have in common is the library's (src/loop); main_loop() makes it of a description.
class MainLoop;
[[nodiscard]] std::shared_ptr<const MainLoop> main_loop(const Gemm& gemm);
[[nodiscard]] std::shared_ptr<const MainLoop> main_loop(const Stream& stream);
template <std::size_t Rank>
[[nodiscard]] std::shared_ptr<const MainLoop> main_loop(const Conv<Rank>& conv);
template <std::size_t Rank>
[[nodiscard]] std::shared_ptr<const MainLoop> main_loop(const ConvDgrad<Rank>& conv);
template <std::size_t Rank>
[[nodiscard]] std::shared_ptr<const MainLoop> main_loop(const ConvWgrad<Rank>& conv);

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
