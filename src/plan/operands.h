// The tensors that a caller gives, checked against a plan: every refusal of Plan::bind is made here.
#pragma once

#include "plan/plan_data.h"

#include <limits>
#include <string>
#include <vector>

namespace postlude::inline v0::plan {

// The main loop's inputs, operands, outputs: PlanData::expected, which draft() fills.
[[nodiscard]] std::vector<Expected> expected_tensors(const PlanData& plan);

// The rows, columns and batches of a problem are numbered in i32 (m_index, n_index, random's counter).
inline constexpr std::int64_t largest_extent = std::numeric_limits<std::int32_t>::max();

// The extents of a tensor's axes at a problem's size, without batch.
[[nodiscard]] std::vector<std::int64_t> shape_of(const PlanData& plan, const Expected& expected, const Shape& shape);
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);  // "(48,)"

struct Checked {
  Bindings bindings;  // buffers: the operands and outputs; the workspace's are added by whoever knows the Program
  InPlace in_place;
  std::vector<std::uint64_t> values;  // scalars by value, to which buffers point
  bool nothing_to_do = false;         // every output is empty
};

// An input that was packed beforehand: the shape of the tensor, and what Executable::pack returned.
struct PackedInput {
  std::vector<std::int64_t> shape;
  const void* data = nullptr;
};

// Throws Error 03xx. `packed` stands in B's place, or is null. `where` says on which device the tensors must be.
[[nodiscard]] Checked check(const PlanData& plan, const std::vector<Binding>& given, const PackedInput* packed,
                            const Target& where);

// The input that is packable alone, as Executable::pack wants it.
[[nodiscard]] MainLoop::Packing check_packable(const PlanData& plan, const Tensor& b);

}  // namespace postlude::inline v0::plan
