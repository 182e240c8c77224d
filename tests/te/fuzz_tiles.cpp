// Products of matrices by the schedules that people write for them: tiles of blocks and threads, copies of the operands
// in shared memory and in registers, and a cache that is written.
#include "te/fuzz_parts.h"

namespace postlude::fuzz_te {

using te::Expr;

// C[i, j] = sum of A[i, k] * B[k, j], perhaps of A as it is made of another, perhaps of a vector.
Program tiled_product(std::uint64_t seed, Draw& draw) {
  Program p;
  p.seed = seed;
  p.is_tiled = true;
  te::Sizes bound;
  std::vector<Expr> sizes;
  for (const char* name : {"n", "m", "l"}) {
    const int size = draw.one_in(3) ? 4 * draw.between(1, 5) : draw.between(1, 21);
    sizes.push_back(draw.one_in(3) ? Expr(size) : te::var(name));
    if (sizes.back()->kind == te::ExprNode::Kind::axis) bound[sizes.back()->axis.get()] = size;
  }
  const bool vector = draw.one_in(4), turned = draw.one_in(4);
  const std::vector<DType> types{f32, f32, i32, bf16, s8};
  const auto placed = [](const Expr& row, const Expr& column, bool turn) {
    return turn ? std::vector<Expr>{column, row} : std::vector<Expr>{row, column};
  };
  const te::Tensor a = te::placeholder(placed(sizes[0], sizes[2], turned), "A", draw.of(types)),
                   b = te::placeholder({sizes[2], sizes[1]}, "B", draw.of(types));
  add_array(p, draw, bound, a);
  add_array(p, draw, bound, b);
  te::Tensor left = a;
  if (draw.one_in(4))
    left = te::compute(
        a.shape(), [&](const te::Axes& i) { return a(i[0], i[1]) * Expr(2) - Expr(1); }, "F");
  const te::Axis k = te::reduce_axis(0, sizes[2], "k");
  std::vector<Expr> shape{sizes[0]};
  if (!vector) shape.push_back(sizes[1]);
  te::Tensor c = te::compute(
      shape,
      [&](const te::Axes& i) {
        const Expr x = left.at(placed(i[0], k, turned));
        return te::sum(vector ? x : x * b(k, i[1]), {k});
      },
      "C");
  p.reductions.push_back(c);
  if (draw.one_in(4))
    c = te::compute(
        shape,
        [&](const te::Axes& i) {
          return c.at({i.begin(), i.end()}) * Expr(2);
        },
        "D");
  set_outputs(p, draw, bound, {c});
  return p;
}

namespace {

class Tiles {
 public:
  Tiles(Program& p, Draw& draw, bool binds) : p_(p), draw_(draw), binds_(binds) {}

  void run() {
    te::Tensor output = p_.stages.back(), product = p_.reductions[0];
    const bool behind = !(output.op().node() == product.op().node());
    te::Tensor main = product;
    if (!behind && !draw_.one_in(4))
      step(p_, "cache write", [&] { main = p_.schedule.cache_write(product, "local")[0]; });
    const bool within = behind || main.op().node() != product.op().node();
    copies(main);
    te::Axes places = tiles(output);
    te::Stage stage = p_.schedule[main];
    if (within && !places.empty()) {
      const te::Axis at = draw_.one_in(5) ? draw_.of(places) : places.back();
      step(p_, main.name() + " at " + at.name(), [&] { stage.compute_at(p_.schedule[output], at); });
    }
    const te::Axes inner = reduced(stage);
    for (const te::Tensor& copy : copies_) {
      const bool local = p_.schedule[copy].node()->scope == "local";
      const bool outside = !places.empty() && (inner.empty() || draw_.one_in(6));
      if (!outside && inner.empty()) continue;
      const te::Axis at = outside ? draw_.of(places) : local ? inner.back() : draw_.of(inner);
      step(p_, copy.name() + " at " + at.name(),
           [&] { p_.schedule[copy].compute_at(outside ? p_.schedule[output] : stage, at); });
      if (!local && !draw_.one_in(3)) fetch(copy);
    }
  }

 private:
  // What the product reads: from shared memory, from registers, from both.
  void copies(const te::Tensor& main) {
    for (const te::OperationPtr& read : te::reads_of(*p_.schedule[main].node()->op)) {
      te::Tensor from(read, 0);
      if (!read->is_placeholder()) {
        step(p_, from.name() + " shared", [&] {
          p_.schedule[from].set_scope(draw_.one_in(4) ? "local" : "shared");
          copies_.push_back(from);
        });
        continue;
      }
      for (const char* scope : {"shared", "local"}) {
        if (draw_.one_in(3)) continue;
        step(p_, "cache read of " + from.name() + ", " + scope, [&] {
          from = p_.schedule.cache_read(from, scope, {main});
          copies_.push_back(from);
        });
      }
    }
  }

  // The result's tiles: blocks, threads, and what a thread has; the loops at which the rest may be computed.
  te::Axes tiles(const te::Tensor& output) {
    te::Stage stage = p_.schedule[output];
    te::Axes blocks, threads, own;
    static const char* const letters[] = {"y", "x"};
    const te::Axes axes = stage.op().axis();
    for (std::size_t d = 0; d < axes.size(); ++d) {
      const std::string letter = letters[axes.size() == 1 ? 1 : d];
      const int count = draw_.of(std::vector<int>{1, 2, 4, 4, 8}), each = draw_.between(1, 3);
      step(p_, "tiles of " + std::to_string(count) + " by " + std::to_string(each), [&] {
        const auto [block, tile] = stage.split(axes[d], count * each);
        const auto [thread, mine] = draw_.one_in(3) ? stage.split(tile, each) : stage.split_parts(tile, count);
        blocks.push_back(block), threads.push_back(thread), own.push_back(mine);
        if (binds_ && !draw_.one_in(8)) stage.bind(block, te::thread_axis("blockIdx." + letter));
        if (binds_ && !draw_.one_in(8)) {
          stage.bind(thread, te::thread_axis("threadIdx." + letter));
          threads_.emplace_back("threadIdx." + letter, count);
        }
      });
    }
    te::Axes order = blocks;
    order.insert(order.end(), threads.begin(), threads.end());
    const te::Axes places = order;
    order.insert(order.end(), own.begin(), own.end());
    for (const te::Axis& axis : stage.op().reduce_axis()) order.push_back(axis);
    step(p_, "reorder", [&] { stage.reorder(order); });
    return places;
  }

  // The product's reduced loops, outside of what one thread has, or not.
  te::Axes reduced(te::Stage& stage) {
    te::Axes inner, axes = stage.op().axis();
    const te::Axes k = stage.op().reduce_axis();
    const int factor = draw_.between(1, 8);
    if (k.empty()) return {};
    step(p_, "reduced by " + std::to_string(factor), [&] {
      const auto [outer, rest] = stage.split(k[0], factor);
      inner = {outer, rest};
    });
    if (stage.leaves().size() == axes.size() + 2 && !draw_.one_in(4)) {
      te::Axes order = inner;
      order.insert(order.begin() + draw_.below(3), axes.begin(), axes.end());
      step(p_, "reduced loops outside", [&] { stage.reorder(order); });
    }
    if (draw_.one_in(4)) step(p_, "unroll", [&] { stage.unroll(inner.back()); });
    return inner;
  }

  // A copy by all threads of a block.
  void fetch(const te::Tensor& copy) {
    step(p_, copy.name() + " fetched together", [&] {
      te::Stage stage = p_.schedule[copy];
      te::Axes axes = stage.op().axis();
      if (draw_.one_in(2)) {
        te::Axis rest = axes[0];
        for (std::size_t d = 1; d < axes.size(); ++d) rest = stage.fuse(rest, axes[d]);
        axes.assign(threads_.size(), rest);
        for (std::size_t t = threads_.size(); t-- > 0;) {
          const auto [outer, thread] = stage.split(axes[0], threads_[t].second);
          stage.bind(thread, te::thread_axis(threads_[t].first));
          axes.assign(threads_.size(), outer);
        }
        return;
      }
      for (std::size_t t = 0; t < threads_.size() && t < axes.size(); ++t) {
        const auto [thread, rest] =
            draw_.one_in(2) ? stage.split_parts(axes[t], threads_[t].second) : stage.split(axes[t], threads_[t].second);
        const bool is_outer = thread.extent()->kind == te::ExprNode::Kind::constant;
        stage.bind(is_outer ? thread : rest, te::thread_axis(threads_[t].first));
      }
    });
  }

  Program& p_;
  Draw& draw_;
  bool binds_;
  std::vector<te::Tensor> copies_;
  std::vector<std::pair<std::string, int>> threads_;
};

}  // namespace

void schedule_tiles(Program& p, Draw& draw, Bindings bindings) { Tiles(p, draw, bindings == Bindings::threads).run(); }

}  // namespace postlude::fuzz_te
