// The schedules that are chosen for a GPU.
#include "te/choice.h"
#include "te/linear.h"

#include <algorithm>
#include <bit>

namespace postlude::inline v0::te {
namespace {

// Without sizes: how many parts all elements and all rows have; with sizes: threads that keep a GPU busy, elements and
// rows of a part at least.
constexpr std::int64_t gpu_parts = 8192, gpu_row_parts = 128;
constexpr std::int64_t gpu_busy = 1 << 19, gpu_busy_columns = 1 << 18, gpu_least = 4096, gpu_least_rows = 16,
                       gpu_batch = 16;  // elements that a thread asks for at once
// Rows that a part of a warp reduces where they are many, or one thread; reads of a thread (decision 0218).
constexpr std::int64_t gpu_short_row = 1024, gpu_many_rows = 1 << 14, gpu_thread_row = 32, gpu_least_lanes = 8,
                       gpu_steps = 4;
constexpr std::int64_t most_blocks_y = 65535, gpu_window = 8,
                       gpu_stripes = 16;  // rows of a window's results by one thread; parts of a row

}  // namespace

// An extent, or the product of several, where sizes tell it.
std::optional<std::int64_t> Choice::size(const Expr& extent) const {
  const Polynomial p = polynomial(extent, &sizes_);
  return p.is_constant() ? std::optional(p.constant) : std::nullopt;
}

std::optional<std::int64_t> Choice::size(const Axes& axes) const {
  std::int64_t product = 1;
  for (const Axis& axis : axes) {
    const auto extent = size(axis.extent());
    if (!extent) return {};
    product *= *extent;
  }
  return product;
}

// So many neighbours along an axis are read at once: 16 bytes of the tensor with most axes, or
// fewer, as rows of them allow.
std::int64_t Choice::neighbours(const Stage& stage, const Axis& along) const {
  std::size_t rank = 0;
  std::int64_t bytes = 4;
  for (const Expr& part : stage.node()->op->body)
    visit(part, [&](const ExprNode& x) {
      if (x.kind != ExprNode::Kind::read || x.args.size() < rank) return;
      const std::int64_t here = size_of(x.tensor->dtypes[static_cast<std::size_t>(x.component)]);
      bytes = x.args.size() > rank ? here : std::max(bytes, here);
      rank = x.args.size();
    });
  std::int64_t wide = std::min<std::int64_t>(16 / bytes, 8);
  if (const auto extent = size(along.extent()))
    while (wide > 1 && *extent % wide != 0) wide /= 2;
  return wide;
}

// A power of two of threads for so many neighbours in a row, few of which are idle.
std::int64_t Choice::threads(const std::optional<std::int64_t>& row, std::int64_t wide) const {
  if (!row) return gpu_threads;
  std::int64_t best = gpu_threads, least = 0;
  for (std::int64_t t = gpu_threads; t >= 128 || (t >= 32 && *row <= t * wide); t /= 2) {
    const std::int64_t lanes = (*row + t * wide - 1) / (t * wide) * t;
    if (t == gpu_threads || lanes * 8 < least * 7) best = t, least = lanes;
  }
  return best;
}

// A part of a warp for a short row: so few lanes that each asks for some times 16 bytes, so many that they read
// lines.
std::int64_t Choice::short_lanes(std::int64_t row, std::int64_t wide) {
  if (row <= gpu_thread_row) return 1;
  const auto steps = static_cast<std::uint64_t>((row + wide * gpu_steps - 1) / (wide * gpu_steps));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::bit_ceil(steps)), gpu_least_lanes, 32);
}

// So many parts of what is reduced keep a GPU busy, where `others` threads are there already.
std::int64_t Choice::parts(std::int64_t busy, std::int64_t others, std::int64_t most) {
  const std::int64_t wanted = (busy + others - 1) / std::max<std::int64_t>(others, 1);
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(most, 1));
}

// Loops that stand next to each other as one, bound to the blocks; so many iterations to each.
void Choice::blocks(Stage& stage, const Axes& axes, std::int64_t together) {
  Axis all = axes[0];
  for (std::size_t d = 1; d < axes.size(); ++d) all = stage.fuse(all, axes[d]);
  if (together > 1) {
    const auto [block, thread] = stage.split(all, together);
    bind(stage, thread, "threadIdx.y");
    all = block;
  }
  bind(stage, all, "blockIdx.x");
}

Axes Choice::with(Axes axes, const Axis& last) {
  axes.push_back(last);
  return axes;
}

Axes Choice::without_last(Axes axes) {
  axes.pop_back();
  return axes;
}

// A row a block, threads along it, each with neighbours.
void Choice::elements_on_gpu(Stage& stage) {
  const Axes axes = stage.op().axis();
  const auto block = blocks_.find(stage.node().get());
  if (block != blocks_.end() && block->second.rows == axes.size()) return blocks(stage, axes);
  const std::int64_t wide = neighbours(stage, axes.back()), along = block != blocks_.end() ? block->second.lanes
                                                                    : axes.size() == 1
                                                                        ? gpu_threads
                                                                        : threads(size(axes.back().extent()), wide);
  const Axis part = lanes_along(stage, axes.back(), wide, along);
  blocks(stage, axes.size() == 1 ? Axes{part} : without_last(axes));
}

Axis Choice::lanes_along(Stage& stage, const Axis& axis, std::int64_t wide, std::int64_t lanes) {
  const auto [part, rest] = stage.split(axis, lanes * wide);
  const auto [thread, side] = stage.split(rest, wide);
  bind(stage, thread, "threadIdx.x");
  stage.vectorize(side);
  return part;
}

// A window's results: some rows by one thread, which reads for all of them at once.
void Choice::window_on_gpu(Stage& stage) {
  const Axes axes = stage.op().axis(), window = stage.op().reduce_axis();
  const auto [part, thread] = stage.split(axes.back(), gpu_threads);
  bind(stage, thread, "threadIdx.x");
  if (axes.size() == 1) return bind(stage, part, "blockIdx.x");
  // A row's blocks are next to each other.
  if (const auto above = size(without_last(axes)); above && *above <= most_blocks_y) {
    const auto [rows, row] = stage.split(axes[axes.size() - 2], gpu_window);
    Axes outer = with(without_last(without_last(axes)), rows), order = with(with(outer, part), thread);
    order.insert(order.end(), window.begin(), window.end());
    stage.reorder(with(order, row));
    for (const Axis& axis : window) stage.unroll(axis);
    stage.unroll(row);
    bind(stage, part, "blockIdx.x");
    Axis all = outer[0];
    for (std::size_t d = 1; d < outer.size(); ++d) all = stage.fuse(all, outer[d]);
    return bind(stage, all, "blockIdx.y");
  }
  const auto columns = size(axes.back().extent());
  const std::int64_t count =
      columns ? std::max<std::int64_t>((*columns + gpu_threads - 1) / gpu_threads, 1) : gpu_stripes;
  const auto [stripe, rest] = stage.split_parts(part, count);
  const auto [rows, row] = stage.split(axes[axes.size() - 2], gpu_window);
  Axes outer = without_last(without_last(axes));
  outer.push_back(rows);
  outer.push_back(stripe);
  Axes order = outer;
  order.push_back(rest);
  order.push_back(thread);
  order.insert(order.end(), window.begin(), window.end());
  stage.reorder(with(order, row));
  for (const Axis& axis : window) stage.unroll(axis);
  stage.unroll(row);
  blocks(stage, outer);
}

void Choice::reduction_on_gpu(Stage& stage) {
  if (!stage.op().axis().empty() && !reads_along_reduced(*stage.node()->op)) columns_on_gpu(stage);
  else rows_on_gpu(stage);
}

// Reduced along memory: threads along it. Where there are few results, or rows may be long, blocks
// reduce parts of them first.
void Choice::rows_on_gpu(Stage& stage) {
  const Axes axes = stage.op().axis(), reduced = stage.op().reduce_axis();
  const std::int64_t wide = neighbours(stage, reduced.back());
  const auto results = size(axes), row = size(reduced.back().extent()), rest = size(without_last(reduced));
  const std::int64_t lanes = threads(row, wide);
  Axis part;
  if (results && row && rest && *rest == 1 && *row <= gpu_short_row && *results >= gpu_many_rows)
    return row_on_gpu(stage, wide, short_lanes(*row, wide), false, gpu_threads / short_lanes(*row, wide));
  if (results && row && rest) {
    // One result's parts come in several waves, so that none waits for a slow last one.
    std::int64_t count = parts(axes.empty() ? 4 * gpu_busy : gpu_busy, *results * lanes, *row * *rest / gpu_least);
    if (axes.empty()) count = std::min(count, gpu_parts);
    if (count == 1) return row_on_gpu(stage, wide, lanes);
    // The longest of the other axes, else the rows themselves.
    const Axis longest = *std::max_element(reduced.begin(), reduced.end() - 1, [&](const Axis& a, const Axis& b) {
      return *size(a.extent()) < *size(b.extent());
    });
    const bool others = reduced.size() > 1 && *size(longest.extent()) >= *row / (lanes * wide);
    const std::int64_t step = lanes * wide, length = (*row + count - 1) / count;
    if (others && !axes.empty()) {
      // A thread asks for some rows at once: a part has a multiple of them.
      const std::int64_t batch = std::clamp<std::int64_t>(gpu_batch / wide, 1, 8), all = *size(longest.extent()),
                         each = std::max<std::int64_t>((all + count - 1) / count / batch, 1) * batch;
      if (each >= all) return row_on_gpu(stage, wide, lanes);
      part = stage.split(longest, each).first;
    } else {
      part = others ? stage.split_parts(longest, std::min(count, *size(longest.extent()))).first
                    : stage.split(reduced.back(), (length + step - 1) / step * step).first;
    }
  } else if (axes.empty()) {
    part = stage.split_parts(reduced[0], gpu_parts).first;
  } else {
    if (row && *row <= gpu_row) return row_on_gpu(stage, wide, lanes);
    part = stage.split(reduced.back(), gpu_row).first;
  }
  Stage first = s_[s_.rfactor(tensor(stage), {part})[0]];
  if (axes.empty()) {
    row_on_gpu(first, wide, lanes);
    return row_on_gpu(stage, 4, gpu_threads);
  }
  bind(first, first.op().axis()[0], "blockIdx.y");
  row_on_gpu(first, wide, lanes);
  parts_on_gpu(stage);
}

// A block for each result, or for some, and threads along memory, which then reduce together; `within` another
// stage's block.
void Choice::row_on_gpu(Stage& stage, std::int64_t wide, std::int64_t lanes, bool within, std::int64_t together) {
  const Axes axes = stage.op().axis();
  const auto row = size(stage.op().reduce_axis().back().extent());
  const Axis along = stage.split(stage.op().reduce_axis().back(), lanes * wide).second;
  const bool has_side = wide > 1 || together == 1;
  const Axis thread = has_side ? stage.split(along, wide).first : along;
  Stage own = s_[s_.rfactor(tensor(stage), {thread})[0]];
  const Axes reduced = own.op().reduce_axis();
  if (has_side) own.unroll(reduced.back());
  // Rows of few steps: the steps outside, so that a thread reads several rows at once.
  if (reduced.size() > 2 && row && *row < 4 * lanes * wide) {
    Axes order{reduced[reduced.size() - 2]};
    order.insert(order.end(), reduced.begin(), reduced.end() - 2);
    own.reorder(with(order, reduced.back()));
  }
  Axes rows = axes;
  std::erase_if(rows, [&](const Axis& axis) { return stage.node()->mark(axis.node()).kind == Mark::Kind::bind; });
  if (!rows.empty() && !within) blocks(stage, rows, together);
  const Axis joined = stage.op().reduce_axis()[0];
  bind(stage, joined, "threadIdx.x");
  own.compute_at(stage, joined);
}

// Columns side by side by threads, parts of the rows by blocks; then the parts.
void Choice::columns_on_gpu(Stage& stage) {
  const Axes axes = stage.op().axis(), reduced = stage.op().reduce_axis();
  const std::int64_t wide = neighbours(stage, axes.back());
  const auto columns = size(axes.back().extent()), results = size(axes), rows = size(reduced);
  std::int64_t lanes = gpu_columns * 2, count = gpu_row_parts;
  if (columns) lanes = std::min(lanes, threads(columns, wide));
  Axis longest = reduced[0];
  if (results && rows) {
    for (const Axis& axis : reduced)
      if (*size(axis.extent()) > *size(longest.extent())) longest = axis;
    const std::int64_t others =
        *results / std::max<std::int64_t>(*columns, 1) * ((*columns + lanes * wide - 1) / (lanes * wide)) * lanes;
    // Of one matrix, half as many: their results are written and read once more.
    const std::int64_t busy = *results == *columns ? gpu_busy_columns / 2 : gpu_busy_columns;
    count = std::min(parts(busy, others, *rows / gpu_least_rows), std::max<std::int64_t>(*size(longest.extent()), 1));
    if (count == 1) return column_on_gpu(stage, axes, wide, lanes);
  }
  const Axis part = stage.split_parts(longest, count).first;
  Stage first = s_[s_.rfactor(tensor(stage), {part})[0]];
  const Axes own = first.op().axis();
  bind(first, own[0], "blockIdx.y");
  column_on_gpu(first, Axes(own.begin() + 1, own.end()), wide, lanes);
  parts_on_gpu(stage);
}

void Choice::column_on_gpu(Stage& stage, const Axes& axes, std::int64_t wide, std::int64_t lanes) {
  const Axes reduced = stage.op().reduce_axis();
  const auto [column, rest] = stage.split(axes.back(), lanes * wide);
  const auto [thread, side] = stage.split(rest, wide);
  inside(stage, reduced, {side});
  bind(stage, thread, "threadIdx.x");
  stage.vectorize(side);
  blocks(stage, with(without_last(axes), column));
}

// The first reduced axis by eight threads, or 32, for 32 results side by side.
void Choice::parts_on_gpu(Stage& stage) {
  const Axes axes = stage.op().axis();
  const auto count = size(stage.op().reduce_axis()[0].extent());
  const Axis part = stage.split(stage.op().reduce_axis()[0], count && *count > 64 ? 32 : 8).second;
  Stage own = s_[s_.rfactor(tensor(stage), {part})[0]];
  const auto [block, thread] = stage.split(axes.back(), gpu_columns);
  bind(stage, thread, "threadIdx.x");
  const Axis joined = stage.op().reduce_axis()[0];
  bind(stage, joined, "threadIdx.y");
  blocks(stage, with(without_last(axes), block));
  own.compute_at(stage, joined);
}

}  // namespace postlude::inline v0::te
