// The schedules that are chosen for a CPU.
#include "te/choice.h"
#include "te/linear.h"
#include "te/reducer.h"

#include <algorithm>
#include <bit>

namespace postlude::inline v0::te {
namespace {

constexpr std::int64_t cpu_rows = 8, cpu_rows_together = 16, cpu_short_rows = 256, cpu_rows_elements = 1 << 14,
                       cpu_columns = 4096, cpu_part = 512, cpu_elements = 1 << 16, cpu_strip = 1 << 15, cpu_parts = 64,
                       cpu_few = 64;

std::int64_t floor_2(std::int64_t x) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(x)));
}

}  // namespace

// Elements, each with the window that it may reduce.
void Choice::elements(Stage& stage) {
  const Axes axes = stage.op().axis(), window = stage.op().reduce_axis();
  if (axes.empty()) return;
  if (gpu_) return window.empty() ? elements_on_gpu(stage) : window_on_gpu(stage);
  if (axes.size() == 1) {
    const auto [outer, inner] = stage.split(axes[0], cpu_elements);
    stage.parallel(outer);
    if (!window.empty()) inside(stage, window, {inner});
    return;
  }
  const bool gathers =
      std::any_of(by_rows_.begin(), by_rows_.end(), [&](const auto& each) { return each.second == stage.node(); });
  const auto row = size(axes.back().extent());
  const std::int64_t together =
      row ? std::clamp(floor_2(cpu_rows_elements / std::max<std::int64_t>(*row, 1)), cpu_rows_together, cpu_short_rows)
          : cpu_rows_together;
  const Axis rows = axes.size() == 2 ? stage.split(axes[0], gathers ? together : cpu_rows).first : fused(stage, 1);
  stage.parallel(rows);
  if (window.empty()) return;
  const auto [outer, inner] = stage.split(axes.back(), cpu_columns);
  inside(stage, window, {inner});
}

// The reduced loops around those whose elements lie side by side.
void Choice::inside(Stage& stage, const Axes& reduced, const Axes& inner) {
  Axes order = reduced;
  order.insert(order.end(), inner.begin(), inner.end());
  stage.reorder(order);
}

// A reducer that may not be taken apart: a result is one thread's.
void Choice::in_order(Stage& stage) {
  const Axes axes = stage.op().axis();
  if (axes.empty()) return;
  if (gpu_) return column_on_gpu(stage, axes, 1, std::min(gpu_columns * 2, threads(size(axes.back().extent()), 1)));
  if (axes.size() > 1 || reads_along_reduced(*stage.node()->op)) return reduction_on_cpu(stage);
  const auto [outer, inner] = stage.split(axes[0], cpu_columns);
  inside(stage, stage.op().reduce_axis(), {inner});
  stage.parallel(outer);
}

// Reduced along memory: so many results in a strip that it has some thousand elements, parts of which are parallel.
void Choice::rows_on_cpu(Stage& stage) {
  const Axes axes = stage.op().axis();
  const auto row = size(stage.op().reduce_axis()), results = size(axes);
  std::int64_t rows = cpu_rows;
  if (row && results)
    rows = std::max(rows, std::min(cpu_strip / std::max<std::int64_t>(*row, 1), *results / cpu_parts));
  std::size_t d = axes.size() - 1;
  for (; d > 0; --d) {  // whole axes are inside
    const auto extent = size(axes[d].extent());
    if (!row || !extent || *extent > rows) break;
    rows /= std::max<std::int64_t>(*extent, 1);
  }
  rows = std::max<std::int64_t>(floor_2(rows), 1);
  Axis outer = axes[d];
  if (rows > 1) outer = stage.split(axes[d], rows).first;
  for (std::size_t e = d; e-- > 0;) outer = stage.fuse(axes[e], outer);
  stage.parallel(outer);
}

void Choice::reduction_on_cpu(Stage& stage) {
  const Axes axes = stage.op().axis(), reduced = stage.op().reduce_axis();
  if (axes.empty()) {
    // Parts of the elements in parallel, then their results.
    const Axis outer = stage.split(reduced[0], reduced.size() > 1 ? cpu_rows : cpu_elements).first;
    Stage parts = s_[s_.rfactor(tensor(stage), {outer})[0]];
    return parts.parallel(parts.op().axis()[0]);
  }
  if (const Axis few = few_beside_results(*stage.node()->op); few.node()) {
    // Parts by it, which lie side by side with the results; then these.
    const Tensor parts = s_.rfactor(tensor(stage), {few}, static_cast<int>(axes.size()))[0];
    columns_on_cpu(s_[parts], parts, 2);
    return rows_on_cpu(stage);
  }
  if (reads_along_reduced(*stage.node()->op)) return rows_on_cpu(stage);
  columns_on_cpu(stage, tensor(stage), 1);
}

// Results whose last `count` axes lie side by side: these in lanes. Of no others, whole rows of them are read in
// parallel, so many by one thread.
void Choice::columns_on_cpu(Stage stage, const Tensor& result, std::size_t count) {
  const auto lanes = [&](Stage& of) {
    const Axes axes = of.op().axis();
    const Axis all = of.fuse(Axes(axes.end() - static_cast<std::ptrdiff_t>(count), axes.end()));
    const auto [outer, inner] = of.split(all, cpu_columns);
    inside(of, of.op().reduce_axis(), {inner});
    return outer;
  };
  const Axis longest = stage.op().reduce_axis()[0];
  if (stage.op().axis().size() > count) {
    const Axis rows = fused(stage, count);
    lanes(stage);
    return stage.parallel(rows);
  }
  if (const auto rows = size(longest.extent()); count > 1 && rows && *rows <= cpu_part)
    return stage.parallel(lanes(stage));
  const Axis part = stage.split(longest, cpu_part).first;
  Stage parts = s_[s_.rfactor(result, {part})[0]];
  lanes(parts);
  parts.parallel(parts.op().axis()[0]);
  if (count > 1) lanes(stage);
}

// The reduced axis of a few elements that the results lie around in memory, as k of A[i, h, k] that is summed for
// each h; else nothing.
Axis Choice::few_beside_results(const OperationNode& op) const {
  const ExprNode* most = nullptr;
  for (const Expr& part : op.body)
    visit(part, [&](const ExprNode& x) {
      if (x.kind == ExprNode::Kind::read && (!most || x.args.size() > most->args.size())) most = &x;
    });
  if (!most || most->args.size() < 3 || op.reduce_axes.size() < 2 || !kept_order(*op.reduction()->reducer).empty())
    return Axis{};
  const Expr &last = most->args.back(), &before = most->args[most->args.size() - 2];
  const bool are_axes = last->kind == ExprNode::Kind::axis && before->kind == ExprNode::Kind::axis;
  if (!are_axes || last->axis->kind != AxisNode::Kind::reduce || before->axis != op.axes.back()) return Axis{};
  std::int64_t others = 1;  // what else is reduced; of less the parts are as many as the elements
  for (const AxisPtr& axis : op.reduce_axes) others *= axis == last->axis ? 1 : size(axis->extent).value_or(1);
  const auto row = size(last->axis->extent);
  return dense_ && row && *row <= cpu_few && others >= cpu_rows ? Axis(last->axis) : Axis{};
}

}  // namespace postlude::inline v0::te
