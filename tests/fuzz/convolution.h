// A convolution's geometry: all three directions, and the shapes of what they are given, follow from it.
#pragma once

#include "fuzz/choices.h"
#include "loop/bound.h"

#include <postlude/problem.h>

#include <cstdint>
#include <string>
#include <vector>

namespace postlude::fuzz {

struct Convolution {
  enum class Direction : std::uint8_t { forward, dgrad, wgrad };
  struct Along {  // one axis of the image
    std::int32_t image = 1, taps = 1, stride = 1, before = 0, after = 0, dilation = 1;
    [[nodiscard]] std::int64_t free() const {
      return std::int64_t{image} + before + after - std::int64_t{dilation} * (taps - 1) - 1;
    }
    [[nodiscard]] std::int64_t pixels() const { return free() < 0 || stride < 1 ? 0 : free() / stride + 1; }
  };

  Direction direction = Direction::forward;
  DType first = DType::f32, second = DType::f32;                   // of the inputs
  std::int64_t images = 1, groups = 1, channels = 1, filters = 1;  // the last two of one group
  std::vector<Along> axes{Along{}};                                // one to three

  [[nodiscard]] bool possible() const;  // the output has a pixel
  [[nodiscard]] Problem problem() const;
  [[nodiscard]] Shape shape() const;
  [[nodiscard]] std::vector<std::vector<std::int64_t>> inputs() const;  // the shapes of the main loop's two
  // How many columns of the epilogue there are: filters, channels, or taps and channels. More of them by the next.
  void widen();
};

// Any geometry: padding over half the filter and over all of it, strides over the filter, dilation, one pixel, no
// image, no channel, groups, depthwise. Of the inputs' dtypes and the direction it leaves what is there.
void draw_geometry(Convolution& c, Choices& pick);

// In one word, for a case's text.
[[nodiscard]] std::string write(const Convolution& c);
[[nodiscard]] Convolution read_convolution(const std::string& word, DType first, DType second);

}  // namespace postlude::fuzz
