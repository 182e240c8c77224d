// A nest on the CPU, for given sizes and strides.
#pragma once

#include "te/nest.h"

#include <memory>
#include <span>

namespace postlude::inline v0::te {

// Throws Error 0301 where a nest uses a size that none of its arguments tells, 0108 where it is too deep.
void check_nest(const Nest& nest);
// The sizes that arrays give to a nest's arguments. Throws Error 03xx where they do not fit, also
// where an index would leave its tensor.
[[nodiscard]] Sizes bind_sizes(const Nest& nest, const ScheduleNode& schedule, std::span<const v0::Tensor> arrays,
                               Device device);

class CpuNest {
 public:
  CpuNest(const Nest& nest, Sizes sizes, std::span<const v0::Tensor> arrays, int threads);
  ~CpuNest();
  CpuNest(CpuNest&&) noexcept;
  // Arrays of the same shapes and strides. Calls may run at once.
  void run(std::span<const v0::Tensor> arrays) const;

 private:
  struct Step;
  struct Data;
  std::unique_ptr<Data> data_;
};

}  // namespace postlude::inline v0::te
