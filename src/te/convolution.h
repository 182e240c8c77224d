// Convolutions among stages: they run on the main loop for them.
#pragma once

#include "te/nest.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

namespace postlude::inline v0::te {

// Y[b, f, p...] = sum over c, r... of X[b, c, p*stride + r*dilation + shift, ...] * W[f, c, r...], with
// the axes of each tensor in any order; X may be 0 outside of its image, where conditions say so.
class Convolution {
 public:
  struct Spatial {
    int x = -1, w = -1, y = -1;  // the axes of the tensors; w: -1 where the filter has one tap
    std::int32_t stride = 1, dilation = 1;
    std::int64_t shift = 0;
    bool guarded_below = false, guarded_above = false;
  };
  int x = -1, w = -1, y = -1;  // numbers of arguments
  // Axes of the tensors, -1: none.
  int batch_x = -1, batch_y = -1, channel_x = -1, channel_w = -1, filter_w = -1, filter_y = -1;
  std::vector<Spatial> spatial;  // outermost first in Y
  DType x_type = DType::f32, w_type = DType::f32, y_type = DType::f32;
  Target target;

  // A plan takes the zeros around an image as constants: there is one for each number of them.
  [[nodiscard]] bool is_supported() const;
  [[nodiscard]] std::string explain() const;
  // False where it takes loops: the pixels of Y are no one axis, a condition lets zeros in on one side
  // only, or nothing is computed.
  [[nodiscard]] bool run(std::span<const v0::Tensor> arrays, void* stream) const;

 private:
  using Padding = std::vector<std::array<std::int32_t, 2>>;
  [[nodiscard]] Problem problem(const Padding& padding) const;
  [[nodiscard]] Graph graph() const;
  [[nodiscard]] const Plan& plan(const Padding& padding) const;
  struct Plans {
    std::mutex mutex;
    std::map<Padding, Plan> made;
  };
  std::shared_ptr<Plans> plans_ = std::make_shared<Plans>();
};

struct FoundConvolution {
  std::optional<Convolution> runs;  // on the main loop
  std::string text;                 // what it is, and why it runs as loops where it does
};
// Nothing where the schedule has calls, or computes something else.
[[nodiscard]] FoundConvolution find_convolution(const ScheduleNode& schedule, const Nest& nest, const Target& target);

}  // namespace postlude::inline v0::te
