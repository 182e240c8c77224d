// The suite's epilogues as one would write them by hand behind a library's product: one fused loop
// over the rows, compiled -O3 -march=native -ffast-math.
#pragma once

#include <cstdint>

namespace postlude::bench {

// The operands and results of a loop; all matrices are contiguous.
struct Hand {
  std::int64_t m = 0, n = 0;
  int threads = 1;
  float* acc = nullptr;        // M x N: the product; loops that can work in place leave their result here
  const float* row = nullptr;  // bias or gamma
  const float* column = nullptr;
  const float* tile = nullptr;  // C, residual, z or label
  const std::int64_t* labels = nullptr;
  float alpha = 1, beta = 0;
  float* out = nullptr;  // another tile, or the statistic
  std::int64_t* index = nullptr;
};

using HandLoop = void (*)(const Hand& hand);
[[nodiscard]] HandLoop hand_loop(const char* epilogue);  // null: there is none

// mean[image, column] of M x N images.
void mean_of_pixels(const float* x, float* mean, std::int64_t images, std::int64_t m, std::int64_t n);

}  // namespace postlude::bench
