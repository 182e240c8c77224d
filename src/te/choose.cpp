// A schedule that nobody wrote: chosen from how a stage reads memory; on a GPU also from sizes, where
// these are known. The file is longer than most because one class does it, whose stages are chosen for each
// other.
#include "te/linear.h"
#include "te/reducer.h"
#include "te/schedule.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

namespace postlude::inline v0::te {
namespace {

// So many constant iterations are a filter's window: a thread or a strip does them alone.
constexpr std::int64_t most_window = 64;
constexpr std::int64_t cpu_rows = 8, cpu_rows_together = 16, cpu_short_rows = 256, cpu_rows_elements = 1 << 14,
                       cpu_columns = 4096, cpu_part = 512, cpu_elements = 1 << 16, cpu_strip = 1 << 15, cpu_parts = 64,
                       cpu_few = 64;
// Threads of a block, columns of one that joins parts; without sizes: how long a row one block reduces, how many parts
// all elements and all rows have; with sizes: threads that keep a GPU busy, elements and rows of a part at least.
constexpr std::int64_t gpu_threads = 256, gpu_columns = 32, gpu_row = 32768, gpu_parts = 8192, gpu_row_parts = 128;
constexpr std::int64_t gpu_busy = 1 << 19, gpu_busy_columns = 1 << 18, gpu_busy_rows = 1 << 17, gpu_least = 4096,
                       gpu_least_rows = 16, gpu_batch = 16;  // elements that a thread asks for at once
// Rows that a part of a warp reduces where they are many, or one thread; reads of a thread (decision 0218).
constexpr std::int64_t gpu_short_row = 1024, gpu_many_rows = 1 << 14, gpu_thread_row = 32, gpu_least_lanes = 8,
                       gpu_steps = 4;
constexpr std::uint32_t most_inlined_depth = 1000, most_inlined_parts = 16384;  // half of what is refused, or less
constexpr std::int64_t gpu_shared_row = 4096, gpu_shared = 8192;                // elements of rows that a block shares
constexpr std::int64_t most_blocks_y = 65535, gpu_window = 8,
                       gpu_stripes = 16;  // rows of a window's results by one thread; parts of a row

std::int64_t floor_2(std::int64_t x) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(x)));
}

bool depends(const Expr& x, const std::vector<AxisPtr>& axes) {
  bool found = false;
  visit(x, [&](const ExprNode& node) {
    found |= node.kind == ExprNode::Kind::axis && std::find(axes.begin(), axes.end(), node.axis) != axes.end();
  });
  return found;
}

// A few results' elements are read by their neighbours too: the last index of some read moves with a result.
bool is_window(const OperationNode& op) {
  std::int64_t iterations = 1;
  bool moves = false;
  for (const Expr& part : op.body)
    visit(part, [&](const ExprNode& x) {
      moves |= x.kind == ExprNode::Kind::read && !x.args.empty() && depends(x.args.back(), op.axes);
    });
  if (!moves && !op.axes.empty()) return false;
  for (const AxisPtr& axis : op.reduce_axes) {
    const Polynomial p = polynomial(axis->extent);
    if (!p.is_constant() || p.constant > most_window) return false;
    iterations *= p.constant;
  }
  return iterations <= most_window;
}

// Whether memory is consecutive along reduced axes, by the last index of most reads.
bool reads_along_reduced(const OperationNode& op) {
  int along = 0, across = 0;
  for (const Expr& part : op.body) {
    visit(part, [&](const ExprNode& x) {
      if (x.kind != ExprNode::Kind::read || x.args.empty()) return;
      const int weight = static_cast<int>(x.args.size());  // a matrix counts for more than a vector
      if (depends(x.args.back(), op.reduce_axes)) along += weight;
      else if (depends(x.args.back(), op.axes)) across += weight;
    });
  }
  return along >= across;
}

class Choice {
 public:
  Choice(Schedule& s, const Target& target, const Sizes& sizes, bool dense)
      : s_(s), gpu_(target.device == Device::cuda), sizes_(sizes), dense_(dense) {}

  void run() {
    // rfactor inserts stages, which are scheduled with the one that they came from.
    const std::vector<StagePtr> stages = s_.node()->stages;
    inline_stages(stages);
    for (auto each = stages.rbegin(); each != stages.rend(); ++each)
      if (const StagePtr consumer = row_consumer(**each)) share_row(*each, consumer);
    if (gpu_) hold_rows(stages);
    // Consumers first, whose loops a window may join.
    for (auto each = stages.rbegin(); each != stages.rend(); ++each) {
      const StagePtr& stage = *each;
      if (stage->nesting == StageNode::Nesting::inlined) continue;
      if (const StagePtr consumer = window_consumer(*stage)) {
        Stage(s_.node(), stage).compute_at(Stage(s_.node(), consumer), place_of_window(*consumer));
        if (!gpu_) {
          Stage window(s_.node(), stage);
          inside(window, window.op().reduce_axis(), {window.op().axis().back()});
        }
        continue;
      }
      Stage on(s_.node(), stage);
      if (const auto found = by_rows_.find(stage.get()); found != by_rows_.end()) {
        if (gpu_ && stage->op->reduction())
          row_on_gpu(on, neighbours(on, on.op().reduce_axis().back()), blocks_.at(found->second.get()).lanes, true);
        on.compute_at(Stage(s_.node(), found->second), Axis(found->second->leaves[0]));
        continue;
      }
      const bool reduces = stage->op->reduction() != nullptr;
      if (!reduces || (is_window(*stage->op) && !stage->op->axes.empty())) elements(on);
      else if (!kept_order(*stage->op->reduction()->reducer).empty()) in_order(on);
      else gpu_ ? reduction_on_gpu(on) : reduction_on_cpu(on);
    }
    for (const auto& [copy, at] : copies_) {
      Stage on = s_[copy];
      const Axis along = on.op().axis().back();
      lanes_along(on, along, neighbours(on, along), blocks_.at(at.get()).lanes);
      on.compute_at(Stage(s_.node(), at), Axis(at->leaves[0]));
    }
  }

 private:
  [[nodiscard]] Tensor tensor(const Stage& stage) const { return Tensor(stage.node()->origin, 0); }

  // Elementwise stages that one other stage reads once, as long as what reads is no larger than expressions may be.
  void inline_stages(const std::vector<StagePtr>& stages) {
    struct Use {
      const StageNode* reader = nullptr;
      int reads = 0;
      bool again = false;                                 // for several elements of the reader
      std::uint32_t parts = 0, own_depth = 0, depth = 0;  // of its expression, and with what is inlined
    };
    std::unordered_map<const OperationNode*, Use> uses;
    for (const StagePtr& stage : stages) {
      Use& own = uses[stage->origin.get()];
      for (const Expr& part : stage->op->body) {
        own.parts += part->parts;
        own.own_depth = own.depth = std::max(own.depth, part->depth);
        visit(part, [&](const ExprNode& x) {
          if (x.kind != ExprNode::Kind::read) return;
          Use& of = uses[x.tensor.get()];
          ++of.reads;
          of.reader = stage.get();
          of.again |= x.tensor->axes.size() < stage->op->axes.size() + stage->op->reduce_axes.size();
        });
      }
    }
    for (const StagePtr& stage : stages) {
      const Use& use = uses.at(stage->origin.get());
      if (stage->is_output || stage->op->reduction() || use.reads != 1 || use.again) continue;
      Use& reader = uses.at(use.reader->origin.get());
      if (reader.own_depth + use.depth > most_inlined_depth || reader.parts + use.parts > most_inlined_parts) continue;
      reader.depth = std::max(reader.depth, reader.own_depth + use.depth);
      reader.parts += use.parts;
      Stage(s_.node(), stage).compute_inline();
    }
  }

  // The elementwise stage that alone reads a window's results, each where it is made; else nothing.
  [[nodiscard]] StagePtr window_consumer(const StageNode& stage) const {
    if (stage.is_output || !stage.op->reduction() || !is_window(*stage.op) || stage.op->axes.size() < 2) return nullptr;
    StagePtr consumer;
    for (const StagePtr& other : s_.node()->stages) {
      bool reads = false, alike = !other->op->reduction() && other->nesting == StageNode::Nesting::root;
      for (const Expr& part : other->op->body) {
        visit(part, [&](const ExprNode& x) {
          if (x.kind != ExprNode::Kind::read || x.tensor != stage.origin) return;
          reads = true;
          alike &= x.args.size() == other->op->axes.size();
          for (std::size_t d = 0; alike && d < x.args.size(); ++d)
            alike = x.args[d]->kind == ExprNode::Kind::axis && x.args[d]->axis == other->op->axes[d];
        });
      }
      if (!reads) continue;
      if (!alike || consumer) return nullptr;
      consumer = other;
    }
    return consumer;
  }

  // The elementwise stage of whose rows alone a stage is a part, as those of a softmax are: a matrix, or on a GPU also
  // the results of rows. A CPU computes some rows of all such stages together, while they are in the caches; a block of
  // a GPU one row. Else nothing.
  [[nodiscard]] StagePtr row_consumer(const StageNode& stage) const {
    const OperationNode& op = *stage.op;
    const bool reduces = op.reduction() != nullptr;
    if (stage.is_output || op.axes.empty() || (!gpu_ && stage.nesting != StageNode::Nesting::root) ||
        window_consumer(stage) || (reduces && (!reads_along_reduced(op) || (gpu_ && !is_row_of_block(op)))))
      return nullptr;
    StagePtr consumer;
    for (const StagePtr& other : s_.node()->stages) {
      const auto known = by_rows_.find(other.get());
      const StagePtr at = known == by_rows_.end() ? other : known->second;
      const std::size_t rank = at->op->axes.size(), own = op.axes.size();
      const auto block = blocks_.find(at.get());
      const std::size_t rows = !gpu_                    ? 1
                               : block != blocks_.end() ? block->second.rows
                               : reduces                ? own
                                                        : std::max<std::size_t>(rank, 1) - 1;
      bool reads = false, by_rows = rows > 0 && other->op->axes.size() >= rows && own >= rows;
      for (const Expr& part : other->op->body) {
        visit(part, [&](const ExprNode& x) {
          if (x.kind != ExprNode::Kind::read || x.tensor != stage.origin) return;
          reads = true;
          for (std::size_t d = 0; by_rows && d < rows; ++d)
            by_rows = x.args[d]->kind == ExprNode::Kind::axis && x.args[d]->axis == other->op->axes[d];
        });
      }
      if (!reads) continue;
      const bool fits =
          gpu_ ? (rank == rows || rank == rows + 1) && (own == rows || (own == rank && !reduces)) : rank == 2;
      if (!by_rows || !fits || at->op->reduction() || at->nesting != StageNode::Nesting::root ||
          (consumer && consumer != at))
        return nullptr;
      consumer = at;
    }
    return consumer;
  }

  // Whether a block of a GPU reduces a result, and there are enough of these.
  [[nodiscard]] bool is_row_of_block(const OperationNode& op) const {
    Axes axes, reduced;
    for (const AxisPtr& axis : op.axes) axes.emplace_back(axis);
    for (const AxisPtr& axis : op.reduce_axes) reduced.emplace_back(axis);
    const auto results = size(axes), row = size(reduced);
    return row && *row <= gpu_row && !is_window(op) && kept_order(*op.reduction()->reducer).empty() &&
           (!results || *results * threads(row, 4) >= gpu_busy_rows);
  }

  // What a block of a GPU computes for `consumer`: stages whose threads are as many. Each reads at four places
  // at least; more threads of more rows leave L1 too small.
  void share_row(const StagePtr& stage, const StagePtr& consumer) {
    by_rows_[stage.get()] = consumer;
    if (!gpu_ || !stage->op->reduction()) return;
    const auto wanted = [&](const Stage& on, const Axis& along) {
      const auto row = size(along.extent());
      const std::int64_t steps = row ? *row / (4 * neighbours(on, along)) : gpu_threads;
      return static_cast<std::int64_t>(
          std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(steps, 32, 2 * gpu_threads))));
    };
    Block& block = blocks_[consumer.get()];
    block.rows = stage->op->axes.size();
    const Stage on(s_.node(), stage), at(s_.node(), consumer);
    block.lanes = std::max(block.lanes, wanted(on, on.op().reduce_axis().back()));
    if (consumer->op->axes.size() > block.rows) block.lanes = std::max(block.lanes, wanted(at, at.op().axis().back()));
  }

  // A row that several stages of a block read is in shared memory, if its length is constant. Elements of matrices are
  // made anew wherever they are read.
  void hold_rows(const std::vector<StagePtr>& stages) {
    std::erase_if(by_rows_, [&](const auto& each) { return !blocks_.count(each.second.get()); });
    for (const StagePtr& at : stages) {
      const auto block = blocks_.find(at.get());
      if (block == blocks_.end()) continue;
      std::int64_t room = gpu_shared;
      for (const auto& [tensor, readers] : row_reads(stages, at, block->second.rows)) {
        const Polynomial row = polynomial(tensor.shape().back());
        if (readers.size() < 2 || !row.is_constant() || row.constant > gpu_shared_row || row.constant > room) continue;
        room -= row.constant;
        copies_.emplace_back(s_.cache_read(tensor, "shared", readers), at);
      }
    }
    for (const StagePtr& stage : stages) {
      const auto found = by_rows_.find(stage.get());
      if (found == by_rows_.end() || stage->op->reduction() || stage->nesting == StageNode::Nesting::inlined) continue;
      if (stage->op->axes.size() > blocks_.at(found->second.get()).rows) Stage(s_.node(), stage).compute_inline();
    }
  }

  // The tensors from outside of a block of which its stages read their own whole row and nothing else; and these
  // stages.
  using Reads = std::vector<std::pair<Tensor, std::vector<Tensor>>>;
  [[nodiscard]] Reads row_reads(const std::vector<StagePtr>& stages, const StagePtr& at, std::size_t rows) const {
    Reads found;
    std::set<const OperationNode*> others;
    const auto is_within = [&](const StagePtr& stage) {
      const auto by_rows = by_rows_.find(stage.get());
      return stage == at || (by_rows != by_rows_.end() && by_rows->second == at);
    };
    for (const StagePtr& stage : stages) {
      if (!is_within(stage)) continue;
      others.insert(stage->origin.get());
      for (const Expr& part : stage->op->body)
        visit(part, [&](const ExprNode& x) {
          if (x.kind != ExprNode::Kind::read) return;
          if (!is_row(x, *stage->op, rows)) others.insert(x.tensor.get());
          const Tensor reader(stage->origin, 0);
          auto one = std::find_if(found.begin(), found.end(), [&](const auto& each) {
            return each.first.op().node() == x.tensor && each.first.component() == x.component;
          });
          if (one == found.end()) one = found.insert(one, {Tensor(x.tensor, x.component), {}});
          if (one->second.empty() || one->second.back().op().node() != stage->origin) one->second.push_back(reader);
        });
    }
    std::erase_if(found, [&](const auto& each) { return others.count(each.first.op().node().get()) != 0; });
    return found;
  }
  static bool is_row(const ExprNode& read, const OperationNode& reader, std::size_t rows) {
    if (read.args.size() != rows + 1) return false;
    for (std::size_t d = 0; d <= rows; ++d) {
      const Expr& index = read.args[d];
      if (index->kind != ExprNode::Kind::axis || (d < rows && index->axis != reader.axes[d])) return false;
    }
    const AxisPtr& along = read.args[rows]->axis;
    return along->kind != AxisNode::Kind::size && same(along->begin, 0) &&
           same(along->extent, read.tensor->shape[rows]);
  }

  // A thread computes its own element's window, a CPU a row of them.
  [[nodiscard]] Axis place_of_window(const StageNode& consumer) const {
    const std::vector<AxisPtr>& leaves = consumer.leaves;
    return Axis(gpu_ ? leaves.back() : leaves[leaves.size() - 2]);
  }

  // All but the last `count` of the axes as one.
  Axis fused(Stage& stage, std::size_t count) {
    const Axes axes = stage.op().axis();
    Axis result = axes[0];
    for (std::size_t d = 1; d + count < axes.size(); ++d) result = stage.fuse(result, axes[d]);
    return result;
  }

  // Elements, each with the window that it may reduce.
  void elements(Stage& stage) {
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
    const std::int64_t together = row ? std::clamp(floor_2(cpu_rows_elements / std::max<std::int64_t>(*row, 1)),
                                                   cpu_rows_together, cpu_short_rows)
                                      : cpu_rows_together;
    const Axis rows = axes.size() == 2 ? stage.split(axes[0], gathers ? together : cpu_rows).first : fused(stage, 1);
    stage.parallel(rows);
    if (window.empty()) return;
    const auto [outer, inner] = stage.split(axes.back(), cpu_columns);
    inside(stage, window, {inner});
  }

  // The reduced loops around those whose elements lie side by side.
  static void inside(Stage& stage, const Axes& reduced, const Axes& inner) {
    Axes order = reduced;
    order.insert(order.end(), inner.begin(), inner.end());
    stage.reorder(order);
  }

  static void bind(Stage& stage, const Axis& axis, const char* tag) { stage.bind(axis, thread_axis(tag)); }

  // A reducer that may not be taken apart: a result is one thread's.
  void in_order(Stage& stage) {
    const Axes axes = stage.op().axis();
    if (axes.empty()) return;
    if (gpu_) return column_on_gpu(stage, axes, 1, std::min(gpu_columns * 2, threads(size(axes.back().extent()), 1)));
    if (axes.size() > 1 || reads_along_reduced(*stage.node()->op)) return reduction_on_cpu(stage);
    const auto [outer, inner] = stage.split(axes[0], cpu_columns);
    inside(stage, stage.op().reduce_axis(), {inner});
    stage.parallel(outer);
  }

  // Reduced along memory: so many results in a strip that it has some thousand elements, parts of which are parallel.
  void rows_on_cpu(Stage& stage) {
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

  void reduction_on_cpu(Stage& stage) {
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
  void columns_on_cpu(Stage stage, const Tensor& result, std::size_t count) {
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
  [[nodiscard]] Axis few_beside_results(const OperationNode& op) const {
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

  // ---- on a GPU

  // An extent, or the product of several, where sizes tell it.
  [[nodiscard]] std::optional<std::int64_t> size(const Expr& extent) const {
    const Polynomial p = polynomial(extent, &sizes_);
    return p.is_constant() ? std::optional(p.constant) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::int64_t> size(const Axes& axes) const {
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
  [[nodiscard]] std::int64_t neighbours(const Stage& stage, const Axis& along) const {
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
  [[nodiscard]] std::int64_t threads(const std::optional<std::int64_t>& row, std::int64_t wide) const {
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
  static std::int64_t short_lanes(std::int64_t row, std::int64_t wide) {
    if (row <= gpu_thread_row) return 1;
    const auto steps = static_cast<std::uint64_t>((row + wide * gpu_steps - 1) / (wide * gpu_steps));
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::bit_ceil(steps)), gpu_least_lanes, 32);
  }

  // So many parts of what is reduced keep a GPU busy, where `others` threads are there already.
  static std::int64_t parts(std::int64_t busy, std::int64_t others, std::int64_t most) {
    const std::int64_t wanted = (busy + others - 1) / std::max<std::int64_t>(others, 1);
    return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(most, 1));
  }

  // Loops that stand next to each other as one, bound to the blocks; so many iterations to each.
  static void blocks(Stage& stage, const Axes& axes, std::int64_t together = 1) {
    Axis all = axes[0];
    for (std::size_t d = 1; d < axes.size(); ++d) all = stage.fuse(all, axes[d]);
    if (together > 1) {
      const auto [block, thread] = stage.split(all, together);
      bind(stage, thread, "threadIdx.y");
      all = block;
    }
    bind(stage, all, "blockIdx.x");
  }
  static Axes with(Axes axes, const Axis& last) {
    axes.push_back(last);
    return axes;
  }
  static Axes without_last(Axes axes) {
    axes.pop_back();
    return axes;
  }

  // A row a block, threads along it, each with neighbours.
  void elements_on_gpu(Stage& stage) {
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
  static Axis lanes_along(Stage& stage, const Axis& axis, std::int64_t wide, std::int64_t lanes) {
    const auto [part, rest] = stage.split(axis, lanes * wide);
    const auto [thread, side] = stage.split(rest, wide);
    bind(stage, thread, "threadIdx.x");
    stage.vectorize(side);
    return part;
  }

  // A window's results: some rows by one thread, which reads for all of them at once.
  void window_on_gpu(Stage& stage) {
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

  void reduction_on_gpu(Stage& stage) {
    if (!stage.op().axis().empty() && !reads_along_reduced(*stage.node()->op)) columns_on_gpu(stage);
    else rows_on_gpu(stage);
  }

  // Reduced along memory: threads along it. Where there are few results, or rows may be long, blocks
  // reduce parts of them first.
  void rows_on_gpu(Stage& stage) {
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
  void row_on_gpu(Stage& stage, std::int64_t wide, std::int64_t lanes, bool within = false, std::int64_t together = 1) {
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
  void columns_on_gpu(Stage& stage) {
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
  void column_on_gpu(Stage& stage, const Axes& axes, std::int64_t wide, std::int64_t lanes) {
    const Axes reduced = stage.op().reduce_axis();
    const auto [column, rest] = stage.split(axes.back(), lanes * wide);
    const auto [thread, side] = stage.split(rest, wide);
    inside(stage, reduced, {side});
    bind(stage, thread, "threadIdx.x");
    stage.vectorize(side);
    blocks(stage, with(without_last(axes), column));
  }

  // The first reduced axis by eight threads, or 32, for 32 results side by side.
  void parts_on_gpu(Stage& stage) {
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

  Schedule& s_;
  bool gpu_;
  const Sizes& sizes_;
  bool dense_;                                              // whether the last two axes of all arrays lie side by side
  std::unordered_map<const StageNode*, StagePtr> by_rows_;  // whose rows some elementwise stage computes with its own
  struct Block {
    std::size_t rows = 0;    // so many axes say which row it is
    std::int64_t lanes = 0;  // its threads
  };
  std::unordered_map<const StageNode*, Block> blocks_;  // of such stages on a GPU
  std::vector<std::pair<Tensor, StagePtr>> copies_;     // of rows in shared memory, and for whom
};

}  // namespace

Schedule choose_schedule(const std::vector<Tensor>& outputs, const Target& target) {
  return choose_schedule(outputs, target, Sizes{}, false);
}

Schedule choose_schedule(const std::vector<Tensor>& outputs, const Target& target, const Sizes& sizes, bool dense) {
  Schedule s = create_schedule(outputs);
  Choice(s, target, sizes, dense).run();
  return s;
}

}  // namespace postlude::inline v0::te
