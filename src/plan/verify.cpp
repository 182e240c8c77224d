// A plan's outputs against the reference.
#include "plan/operands.h"
#include "plan/plan_data.h"
#include "reference/reference.h"

namespace postlude::inline v0 {

std::vector<Comparison> verify(const Plan& plan, const std::vector<Binding>& bindings) {
  if (!plan) throw Error(ErrorCode::usage, "this Plan is empty", "compile() makes one");
  const PlanData& data = *plan.data_;
  const plan::Checked checked = plan::check(data, bindings, nullptr, Target::cpu());
  if (!checked.in_place.empty()) {
    throw Error(ErrorCode::overlap,
                "output " + quoted(checked.in_place.front().first) + " has overwritten " +
                    quoted(checked.in_place.front().second),
                "verify with a copy of it as it was before the run");
  }
  // Tensor cores truncate; on fp8 operands they keep about 13 bits below the largest product (Hopper's documented limit).
  reference::Options options;
  if (data.target.device == Device::cuda) {
    const auto* gemm = std::get_if<Gemm>(&data.problem);
    const bool fp8 = gemm && (gemm->a == DType::e4m3 || gemm->a == DType::e5m2);
    options.accumulator_unit = fp8 ? 0x1p-13 : 0x1p-23;
  }
  return reference::compare(data.graph.data(), data.problem, checked.bindings, options);
}

}  // namespace postlude::inline v0
