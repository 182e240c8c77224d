// Convolutions with drawn operands in host memory, for the emitted kernels on the host and for a device.
#pragma once

#include "loop/bound.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace postlude::gpu_tests {

enum class Direction : std::uint8_t { forward, dgrad, wgrad };

struct Convolution {
  std::string name;
  Conv2d conv;  // or its gradient is meant
  std::int64_t images = 1, channels = 1, height = 1, width = 1, filters = 1, r = 1, s = 1;
  bool channels_last = true, filters_last = false;  // of images; of filters
  bool whole = false;                               // numbers of which every sum here is exact
  std::uint64_t seed = 1;
  Direction direction = Direction::forward;
  std::int64_t depth = 0, t = 0;  // of images and filters in three dimensions: padded by one, with a stride of one

  [[nodiscard]] Problem problem() const;
  [[nodiscard]] Shape shape() const;
  [[nodiscard]] std::array<std::int64_t, 2> pixels() const;  // of an image of the output, rows and columns
};

struct ConvolutionTensors {
  std::vector<std::vector<std::uint64_t>> memory;
  std::vector<std::string> names;
  std::vector<Tensor> tensors;  // in the order of a plan's slots
  std::vector<bool> outputs;

  [[nodiscard]] std::vector<Binding> bindings(Device device) const;
  void poison();
};
[[nodiscard]] ConvolutionTensors draw(const Convolution& c, const Graph& graph);

// "" or what the outputs have that the reference does not allow, as exactly as the plan's target accumulates.
[[nodiscard]] std::string wrong(const Convolution& c, const Plan& plan, const ConvolutionTensors& tensors);

// Geometry of all kinds: strides, paddings of either side, dilation, images of one pixel, channels that no 16 bytes
// hold.
[[nodiscard]] std::vector<Convolution> convolutions(DType type);
// The convolution and its gradients.
[[nodiscard]] std::vector<Convolution> with_gradients(const Convolution& c);
// Groups of many widths, whose filters' channels lie side by side.
[[nodiscard]] std::vector<Convolution> in_groups();
// Strided data gradients whose residues are columns of one product on Hopper.
[[nodiscard]] std::vector<Convolution> residues_of_few_channels();
// Data gradients by filters of about the stride's width; and whether the rows of patches are pixels on Hopper behind
// epilogues of single elements.
[[nodiscard]] std::vector<std::pair<Convolution, bool>> gradients_by_patches();
// An axis of an image, its filter, and how that passes over it.
struct Along {
  std::int64_t image, taps;
  std::int32_t stride = 1, before = 0, after = 0, dilation = 1;
};
// As many pixels as the image has.
[[nodiscard]] Along padded(std::int64_t image, std::int64_t taps);
// One channel a group.
[[nodiscard]] Convolution depthwise(const std::string& name, std::int64_t images, std::int32_t channels, const Along& y,
                                    const Along& x, DType type = DType::bf16);
[[nodiscard]] std::vector<Convolution> depthwise_convolutions();
[[nodiscard]] Convolution random_convolution(std::uint64_t seed, DType type);

}  // namespace postlude::gpu_tests
