// Convolutions among stages: they run on the main loop for them.
#pragma once

#include "te/nest.h"

#include <array>
#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace postlude::inline v0::te {

// Y[b, f, p...] = sum over c, r... of X[b, c, p*stride + r*dilation + shift, ...] * W[f, c, r...], with
// the axes of each tensor in any order; X may be 0 outside of its image, where conditions say so. Groups
// are an axis of all three, or X's channel is f // (filters of a group) * (channels of one) + c. An
// epilogue may follow, whose columns are the filters.
class Convolution {
 public:
  struct Spatial {
    int x = -1, w = -1, y = -1;  // the axes of the tensors; w: -1 where the filter has one tap
    std::int32_t stride = 1, dilation = 1;
    std::int64_t shift = 0;
    bool guarded_below = false, guarded_above = false;
  };
  int x = -1, w = -1;  // numbers of arguments
  // Axes of the tensors, -1: none.
  int batch_x = -1, batch_y = -1, channel_x = -1, channel_w = -1, filter_w = -1, filter_y = -1;
  int group_x = -1, group_w = -1, group_y = -1;
  Expr group_filters;  // how many filters read the same channels; empty: all, or those of the axis
  std::vector<Expr> y_shape;
  Graph graph;
  struct Bound {  // an operand or an output of the epilogue
    std::string name;
    int argument = -1;
    v0::Axes axes;
  };
  std::vector<Bound> bound;
  std::vector<Spatial> spatial;  // outermost first in Y
  DType x_type = DType::f32, w_type = DType::f32;
  CompileOptions options;
  Target target;

  // A plan takes the zeros around an image as constants: there is one for each number of them.
  [[nodiscard]] bool is_supported() const;
  [[nodiscard]] std::string explain() const;
  // False where it takes loops: the pixels of Y are no one axis, nor a group's channels, a condition lets
  // zeros in on one side only, or nothing is computed.
  [[nodiscard]] bool run(std::span<const v0::Tensor> arrays, const Sizes& sizes, void* stream) const;
  [[nodiscard]] bool is_grouped() const { return group_x >= 0 || !group_filters.empty(); }

 private:
  struct Constants {
    std::vector<std::array<std::int32_t, 2>> padding;
    std::int32_t groups = 1;
    auto operator<=>(const Constants&) const = default;
  };
  [[nodiscard]] Problem problem(const Constants& constants) const;
  [[nodiscard]] const Plan* plan(const Constants& constants) const;  // null where the main loop does not take it
  [[nodiscard]] bool cut(v0::Tensor& image, const v0::Tensor& filter, const std::vector<std::int64_t>& out,
                         Constants& constants) const;
  [[nodiscard]] bool bind_behind(std::span<const v0::Tensor> arrays, std::vector<Binding>& bindings) const;
  struct Plans {
    std::mutex mutex;
    std::map<Constants, std::optional<Plan>> made;
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
