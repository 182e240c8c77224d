// prepare: what bind() decides and compiles for a shape, ahead of it and several shapes at once.
#include "core/threads.h"
#include "plan/plan_data.h"
#include "plan/size.h"

#include <algorithm>
#include <atomic>
#include <exception>

namespace postlude::inline v0 {

void Plan::prepare(const std::vector<Sizes>& sizes, int threads) const {
  const PlanData& plan = data();
  if (threads < 0)
    throw Error(ErrorCode::usage, "a plan cannot be prepared on " + std::to_string(threads) + " threads",
                "0 takes as many as the machine offers");
  std::vector<Shape> shapes;
  for (const Sizes& one : sizes) {
    const Shape shape{one.batch, one.m, one.n, plan.multiplies() ? one.k : 0};
    plan::check_extents(shape, "to prepare for", "Sizes are M, N, K and, of a batched problem, the batch.");
    if (shape.batch != 1 && !is_batched(plan.problem))
      throw Error(ErrorCode::usage, "a batch of " + std::to_string(shape.batch) + " is to be prepared for",
                  "This problem has no batch: compile it with batched = true.");
    if (plan::check_size(plan, shape)) shapes.push_back(shape);
  }
  // The error of the first shape that has one, whichever thread meets its own first.
  std::vector<std::exception_ptr> errors(shapes.size());
  std::atomic<std::size_t> next = 0;
  const int most = threads ? threads : core::available_threads();
  core::parallel(static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(most), shapes.size())), [&](int) {
    for (std::size_t i = next++; i < shapes.size(); i = next++) {
      try {
        plan.base.executable->prepare(shapes[i]);
      } catch (...) { errors[i] = std::current_exception(); }
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace postlude::inline v0
