// A plan's outputs against the reference.
#include "plan/operands.h"
#include "plan/plan_data.h"
#include "reference/reference.h"

namespace postlude::inline v0 {

std::vector<Comparison> verify(const Plan& plan, const std::vector<Binding>& bindings) {
  const PlanData& data = plan.data();
  const plan::Checked checked = plan::check(data, bindings, nullptr, Target::cpu());
  if (!checked.in_place.empty()) {
    throw Error(ErrorCode::overlap,
                "output " + quoted(checked.in_place.front().first) + " has overwritten " +
                    quoted(checked.in_place.front().second),
                "Verify with a copy of it as it was before the run.");
  }
  const reference::Options options{.accumulator = data.base.executable->error_model(checked.bindings.shape)};
  return reference::compare(data.graph.data(), data.problem, checked.bindings, options);
}

}  // namespace postlude::inline v0
