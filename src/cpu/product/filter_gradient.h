// The gradient of a depthwise convolution by its filters, along the channels of all groups: as a product it has one row
// for each (decision 0296).
#pragma once

#include "cpu/product/turned.h"

#include <optional>

namespace postlude::inline v0::cpu {

class FilterGradient {
 public:
  [[nodiscard]] static bool fits(const ProductShape& whole, const Addressing& addressing);
  FilterGradient(const ProductShape& whole, const Addressing& addressing, const Kernels& kernels);

  [[nodiscard]] std::int64_t units() const;  // that threads share: vectors of channels
  [[nodiscard]] std::size_t thread_bytes() const { return static_cast<std::size_t>(end_); }
  // Row m of the sums is a channel's, at acc + m * acc_row.
  void run(const Product& whole, const RunOptions& options, float* acc, std::int64_t acc_row) const;

 private:
  // An image, and how its channels come to lie together.
  struct Side {
    Windows windows;
    std::int64_t distance = 1;           // of channels
    std::optional<TurnedStrips> turned;  // else they do, in f32
    std::int64_t strip = 0;              // offset in a thread's scratch
  };
  void run_channels(const Product& whole, std::int64_t first, std::int64_t end, std::byte* scratch, float* acc,
                    std::int64_t acc_row) const;

  const Kernels* kernels_;
  std::int64_t channels_, taps_, row_;
  Side x_, dy_;
  // In a thread's scratch.
  std::int64_t zeros_ = 0, sums_ = 0, taps_at_ = 0, pixels_at_ = 0, end_ = 0;
};

}  // namespace postlude::inline v0::cpu
