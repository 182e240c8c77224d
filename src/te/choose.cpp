// Which stages of a schedule that is chosen are computed together, and which are scheduled by themselves.
#include "te/choice.h"
#include "te/linear.h"
#include "te/reducer.h"

#include <algorithm>
#include <bit>
#include <set>

namespace postlude::inline v0::te {
namespace {

// So many constant iterations are a filter's window: a thread or a strip does them alone.
constexpr std::int64_t most_window = 64;
constexpr std::int64_t gpu_busy_rows = 1 << 17;                                 // threads that keep a GPU busy
constexpr std::int64_t gpu_shared_row = 4096, gpu_shared = 8192;                // elements of rows that a block shares
constexpr std::uint32_t most_inlined_depth = 1000, most_inlined_parts = 16384;  // half of what is refused, or less

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

}  // namespace

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

void Choice::run() {
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

// Elementwise stages that one other stage reads once, as long as what reads is no larger than expressions may be.
void Choice::inline_stages(const std::vector<StagePtr>& stages) {
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
StagePtr Choice::window_consumer(const StageNode& stage) const {
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
StagePtr Choice::row_consumer(const StageNode& stage) const {
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
bool Choice::is_row_of_block(const OperationNode& op) const {
  Axes axes, reduced;
  for (const AxisPtr& axis : op.axes) axes.emplace_back(axis);
  for (const AxisPtr& axis : op.reduce_axes) reduced.emplace_back(axis);
  const auto results = size(axes), row = size(reduced);
  return row && *row <= gpu_row && !is_window(op) && kept_order(*op.reduction()->reducer).empty() &&
         (!results || *results * threads(row, 4) >= gpu_busy_rows);
}

// What a block of a GPU computes for `consumer`: stages whose threads are as many. Each reads at four places
// at least; more threads of more rows leave L1 too small.
void Choice::share_row(const StagePtr& stage, const StagePtr& consumer) {
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
void Choice::hold_rows(const std::vector<StagePtr>& stages) {
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

Choice::Reads Choice::row_reads(const std::vector<StagePtr>& stages, const StagePtr& at, std::size_t rows) const {
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

bool Choice::is_row(const ExprNode& read, const OperationNode& reader, std::size_t rows) {
  if (read.args.size() != rows + 1) return false;
  for (std::size_t d = 0; d <= rows; ++d) {
    const Expr& index = read.args[d];
    if (index->kind != ExprNode::Kind::axis || (d < rows && index->axis != reader.axes[d])) return false;
  }
  const AxisPtr& along = read.args[rows]->axis;
  return along->kind != AxisNode::Kind::size && same(along->begin, 0) && same(along->extent, read.tensor->shape[rows]);
}

// A thread computes its own element's window, a CPU a row of them.
Axis Choice::place_of_window(const StageNode& consumer) const {
  const std::vector<AxisPtr>& leaves = consumer.leaves;
  return Axis(gpu_ ? leaves.back() : leaves[leaves.size() - 2]);
}

// All but the last `count` of the axes as one.
Axis Choice::fused(Stage& stage, std::size_t count) {
  const Axes axes = stage.op().axis();
  Axis result = axes[0];
  for (std::size_t d = 1; d + count < axes.size(); ++d) result = stage.fuse(result, axes[d]);
  return result;
}

Schedule choose_schedule(const std::vector<Tensor>& outputs, const Target& target) {
  return choose_schedule(outputs, target, Sizes{}, false);
}

Schedule choose_schedule(const std::vector<Tensor>& outputs, const Target& target, const Sizes& sizes, bool dense) {
  Schedule s = create_schedule(outputs);
  Choice(s, target, sizes, dense).run();
  return s;
}

}  // namespace postlude::inline v0::te
