#include "cpu/layout.h"

#include <algorithm>
#include <functional>

namespace postlude::inline v0::cpu {

Layout layout_of(const Bindings& bindings) {
  std::vector<const void*> addresses = {bindings.a.data, bindings.b.data};
  for (const Bound& bound : bindings.buffers) addresses.push_back(bound.data);
  std::sort(addresses.begin(), addresses.end(), std::less<>());
  auto next = static_cast<int>(addresses.size());
  const auto placed = [&](const Bound& bound) {
    // Memory of the workspace comes later, and is nobody else's.
    const auto at = std::lower_bound(addresses.begin(), addresses.end(), bound.data, std::less<>());
    const int base = bound.data ? static_cast<int>(at - addresses.begin()) : next++;
    const bool at_line = reinterpret_cast<std::uintptr_t>(bound.data) % line == 0;
    return Placed{bound.dtype, bound.strides, base, at_line, bound.in_place};
  };
  Layout layout;
  layout.shape = bindings.shape;
  layout.a = placed(bindings.a);
  layout.b = placed(bindings.b);
  layout.addressing = bindings.addressing;
  layout.packed_b = bindings.packed_b != nullptr;
  layout.buffers.reserve(bindings.buffers.size());
  for (const Bound& bound : bindings.buffers) layout.buffers.push_back(placed(bound));
  return layout;
}

Placed row_major(Axes axes, std::int64_t rows, std::int64_t columns, DType dtype) {
  Placed placed;
  placed.dtype = dtype;
  placed.strides = {axes.has(Axis::b) ? rows * columns : 0, axes.has(Axis::m) ? columns : 0, axes.has(Axis::n) ? 1 : 0};
  return placed;
}

}  // namespace postlude::inline v0::cpu
