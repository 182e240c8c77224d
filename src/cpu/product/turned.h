// Images whose channels lie apart, turned for the kernel of narrow groups, which reads channels that lie together
// (decision 0296).
#pragma once

#include "cpu/product/gemm.h"
#include "cpu/product/pack.h"

#include <array>

namespace postlude::inline v0::cpu {

// What a strip of an image's pixels reads is turned before they are computed: a box of the image as f32 words, pixel by
// pixel.
class TurnedStrips {
 public:
  // All groups' channels are `distance` elements apart; a line of an image is contiguous, unless channels are.
  TurnedStrips(const Windows& windows, std::int64_t channels, std::int64_t distance);

  [[nodiscard]] std::int64_t rows() const { return rows_; }  // of a strip: row groups
  [[nodiscard]] std::int64_t bytes() const { return box_bytes(rows_); }

  // Turns what rows [row0, row0 + rows) of one image read, at most rows(), of its first `channels`, into `to`.
  void turn(const Matrix& a, const Kernels& kernels, std::int64_t row0, std::int64_t rows, std::int64_t channels,
            char* to);
  // Where tap_addresses finds it, by the same numbers of rows.
  [[nodiscard]] const Matrix& matrix() const { return matrix_; }
  [[nodiscard]] const Windows& windows() const { return turned_; }

 private:
  [[nodiscard]] std::int64_t box_bytes(std::int64_t rows) const;
  void turn_line(const char* from, DType dtype, const Kernels& kernels, std::int64_t pixels, std::int64_t channels,
                 std::uint32_t* to) const;
  // The coordinates that pixels [first, last] along an axis read: [begin, end).
  struct Range {
    std::int64_t begin = 0, end = 0;
  };
  [[nodiscard]] Range coordinates(std::size_t axis, std::int64_t first, std::int64_t last) const;

  Windows windows_, turned_;
  std::int64_t distance_ = 0, pitch_ = 0, rows_ = 0;
  Matrix matrix_;
};

}  // namespace postlude::inline v0::cpu
