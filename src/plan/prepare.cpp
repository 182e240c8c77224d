// prepare: what bind() decides and compiles for a shape, ahead of it and several shapes at once.
#include "core/threads.h"
#include "plan/plan_data.h"
#include "plan/size.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

namespace postlude::inline v0 {

namespace {

void prepare_all(const PlanData& plan, const std::vector<Asked>& all, int threads) {
  if (threads < 0)
    throw Error(ErrorCode::usage, "a plan cannot be prepared on " + std::to_string(threads) + " threads",
                "0 takes as many as the machine offers.");
  // The error of the first one that has one, whichever thread meets its own first.
  std::vector<std::exception_ptr> errors(all.size());
  std::atomic<std::size_t> next = 0;
  const int most = threads ? threads : core::available_threads();
  core::parallel(static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(most), all.size())), [&](int) {
    for (std::size_t i = next++; i < all.size(); i = next++) {
      try {
        plan.base.executable->prepare(all[i]);
      } catch (...) { errors[i] = std::current_exception(); }
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace

void Plan::prepare(const std::vector<Sizes>& sizes, int threads) const {
  const PlanData& plan = data();
  std::vector<Asked> all;
  for (const Sizes& one : sizes) {
    const Shape shape{one.batch, one.m, one.n, plan.multiplies() ? one.k : 0};
    plan::check_extents(shape, "to prepare for", "Sizes are M, N, K and, of a batched problem, the batch.");
    if (shape.batch != 1 && !is_batched(plan.problem))
      throw Error(ErrorCode::usage, "a batch of " + std::to_string(shape.batch) + " is to be prepared for",
                  "This problem has no batch: compile it with batched = true.");
    if (plan::check_size(plan, shape)) all.push_back({shape});
  }
  prepare_all(plan, all, threads);
}

void Plan::prepare_for(const std::vector<std::vector<Tensor>>& inputs, int threads) const {
  const PlanData& plan = data();
  std::vector<plan::Checked> checked;
  for (const std::vector<Tensor>& one : inputs) {
    plan::Checked now = plan::assumed(plan, one);
    if (!now.nothing_to_do) checked.push_back(std::move(now));
  }
  std::vector<Asked> all;
  for (const plan::Checked& one : checked) all.push_back({one.bindings.shape, &one.bindings});
  prepare_all(plan, all, threads);
}

}  // namespace postlude::inline v0
