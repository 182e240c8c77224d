// A convolution, or one of its gradients, of one to three axes: what is given, and what shapes make of it.
#pragma once

#include "loop/main_loop.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace postlude::inline v0::convolution {

// Coordinates stay within 32 bits however a window lies.
constexpr std::int64_t largest_image = 1 << 29;

enum class Direction : std::uint8_t { forward, dgrad, wgrad };

// Of one spatial axis. What a direction does not have is as here.
struct AxisGiven {
  std::int32_t stride = 1, before = 0, after = 0, dilation = 1;
  std::int32_t output_padding = 0;  // data gradient
  std::int32_t filter = 1;          // weight gradient
};

// The public descriptions as one.
struct Description {
  Direction direction = Direction::forward;
  DType first = DType::f32, second = DType::f32;  // of the inputs
  int rank = 2;
  std::array<AxisGiven, 3> axes;  // the last `rank`
  std::int64_t groups = 1;

  [[nodiscard]] std::size_t lacking() const { return static_cast<std::size_t>(3 - rank); }
  // Of a tensor along a spatial axis; the convolution has it.
  [[nodiscard]] std::int64_t extent(const Given& x, std::size_t axis) const { return x.shape[2 + axis - lacking()]; }
  [[nodiscard]] std::int64_t stride(const Given& x, std::size_t axis) const {
    return axis < lacking() ? 0 : x.strides[2 + axis - lacking()];
  }
  // A data gradient of several residues.
  [[nodiscard]] bool strided_gradient() const {
    return direction == Direction::dgrad &&
           std::ranges::any_of(axes, [](const AxisGiven& axis) { return axis.stride > 1; });
  }
};

// What the inputs' shapes make of it; axes that it lacks have 1.
struct Geometry {
  std::int64_t images = 0, channels = 0, filters = 0;  // of all groups
  std::array<std::int64_t, 3> image{1, 1, 1}, pixels{1, 1, 1}, taps{1, 1, 1};
};

[[nodiscard]] std::int64_t product(const std::array<std::int64_t, 3>& extents);
[[nodiscard]] std::int64_t product(std::int64_t a, std::int64_t b);

// What is refused names the inputs as `loop` does.
[[nodiscard]] Geometry geometry(const MainLoop& loop, const Description& d, std::span<const Given> inputs);

// How the two inputs lie as A and B, and the filters where they are packed.
[[nodiscard]] Operands operands(const Description& d, std::span<const Given> inputs, const Geometry& g);
[[nodiscard]] MainLoop::Packing packing(const Description& d, const Given& w);

}  // namespace postlude::inline v0::convolution
