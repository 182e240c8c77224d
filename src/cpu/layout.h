// What a decision depends on of a call's memory. It has no address: what is decided for a layout holds wherever tensors
// of it lie.
#pragma once

#include "lower/program.h"
#include "plan/backend.h"

#include <array>
#include <cstdint>
#include <vector>

namespace postlude::inline v0::cpu {

inline constexpr std::int64_t line = 64;  // bytes of a cache line, and what memory is aligned to

struct Placed {
  DType dtype = DType::f32;
  std::array<std::int64_t, 3> strides{};  // as Bound's
  int base = 0;                           // the same number: at the same address
  bool at_line = true;                    // it begins a cache line
  bool in_place = false;                  // as Bound's
};

struct Layout {
  Shape shape;
  Placed a, b;            // b unused for a stream, whose X is `a`
  Addressing addressing;  // of an index no address is read
  bool packed_b = false;
  std::vector<Placed> buffers;  // the Program's; of those that stand in the workspace nothing is read
};
[[nodiscard]] Layout layout_of(const Bindings& bindings);

// A row-major tensor with the strides 0 along the axes that it has not.
[[nodiscard]] Placed row_major(Axes axes, std::int64_t rows, std::int64_t columns, DType dtype);

}  // namespace postlude::inline v0::cpu
