// A plan's outputs against the reference.
#include "plan/operands.h"
#include "plan/plan_data.h"
#include "reference/reference.h"

#include <new>
#include <stdexcept>

namespace postlude::inline v0 {
namespace {

// The graph with the dtypes that the compile options chose: an operand's decides the type of its values.
GraphData with_dtypes(const PlanData& plan) {
  GraphData graph = plan.graph.data();
  const auto choose = [&](auto& declarations) {
    for (auto& declaration : declarations)
      declaration.dtype = plan.expected[plan.place.find(declaration.name)->second].dtype;
  };
  choose(graph.operands);
  choose(graph.outputs);
  return graph;
}

}  // namespace

std::vector<Comparison> verify(const Plan& plan, const std::vector<Binding>& bindings) {
  const PlanData& data = plan.data();
  plan::Checked checked = plan::check(data, bindings, nullptr, Target::cpu());
  if (!checked.in_place.empty()) {
    throw Error(ErrorCode::overlap,
                "output " + quoted(checked.in_place.front().first) + " has overwritten " +
                    quoted(checked.in_place.front().second),
                "Verify with a copy of it as it was before the run.");
  }
  checked.bindings.buffers.resize(data.base.program->buffers.size());
  reference::Options options;
  if (!checked.nothing_to_do)
    options.accumulator = data.base.executable->error_model({checked.bindings.shape, &checked.bindings});
  const auto too_large = [] {
    return Error(ErrorCode::out_of_memory, "the reference's values of this problem do not fit into memory",
                 "It keeps each value in float64 with its bounds: verify a smaller problem.");
  };
  try {
    return reference::compare(with_dtypes(data), data.problem, checked.bindings, options);
  } catch (const std::bad_alloc&) { throw too_large(); } catch (const std::length_error&) {
    throw too_large();
  }
}

}  // namespace postlude::inline v0
