#include "plan/size.h"

#include "plan/operands.h"

#include <algorithm>

namespace postlude::inline v0::plan {

void check_extents(const Shape& shape, const std::string& what, const std::string& hint) {
  const auto [batch, m, n, k] = shape;
  if (std::min({batch, m, n, k}) < 0) throw Error(ErrorCode::size_overflow, "a size " + what + " is negative", hint);
  const std::int64_t longest = std::max({m, n, k});
  if (std::max(batch, longest) > largest_extent ||
      static_cast<double>(batch) * static_cast<double>(longest) * static_cast<double>(m + n + k) > 0x1p50)
    throw Error(ErrorCode::size_overflow, "sizes " + what + " are more than can be addressed", hint);
}

// The addresses of these tensors are never used.
bool check_size(const PlanData& plan, const Shape& shape) {
  constexpr std::uintptr_t apart = 4096;
  std::uintptr_t address = apart;
  std::vector<Binding> bindings;
  for (const Expected& one : plan.expected) {
    Tensor tensor;
    tensor.dtype = one.dtype;
    tensor.device = plan.target.device, tensor.device_index = plan.target.device_index;
    std::vector<std::int64_t> extents = shape_of(plan, one, shape);
    if (one.role == Expected::Role::input && extents.empty()) return true;  // the size does not tell
    const bool batched = one.axes.has(Axis::b) && (one.role == Expected::Role::output || shape.batch > 1);
    if (batched) extents.insert(extents.begin(), shape.batch);
    tensor.rank = static_cast<int>(extents.size());
    std::uintptr_t stride = 1;  // wraps where the checks refuse the size
    for (std::size_t i = extents.size(); i-- > 0;) {
      tensor.shape[i] = extents[i], tensor.strides[i] = static_cast<std::int64_t>(stride);
      stride *= static_cast<std::uintptr_t>(extents[i]);
    }
    tensor.data = reinterpret_cast<void*>(address);
    address += (stride * static_cast<std::uintptr_t>(size_of(one.dtype)) / apart + 1) * apart;
    bindings.push_back({one.name, tensor});
  }
  return !check(plan, bindings, nullptr, plan.target).nothing_to_do;
}

}  // namespace postlude::inline v0::plan
