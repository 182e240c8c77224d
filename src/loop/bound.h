// Sizes and memory, as all folders to the left of this one know them.
#pragma once

#include <postlude/dtype.h>

#include <array>
#include <cstdint>

namespace postlude::inline v0 {

// A tensor as kernels see it: strides in elements for (b, m, n), 0 along an axis that it lacks. For A the axes are
// (b, m, k), for B (b, k, n).
struct Bound {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::array<std::int64_t, 3> strides{};
  bool by_value = false;  // a scalar: `data` is 8 bytes of the host, on every device
  bool in_place = false;  // an output that stands over an operand, or over what the accumulator is
};

struct Shape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;  // k is 0 where nothing is multiplied, and may be 0 where something is
};

}  // namespace postlude::inline v0
