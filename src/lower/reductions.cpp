#include "lower/reductions.h"

#include <limits>

namespace postlude::inline v0::lower {
namespace {

class Reductions {
 public:
  explicit Reductions(Work& work) : to_(work) {}

  bool run() {
    Item item;
    while (to_.next(item)) {
      if (item.op == Op::reduce) {
        define(item);
      } else {
        to_.keep(std::move(item));
      }
    }
    return to_.finish();
  }

 private:
  Rewriter to_;

  NodeId reduce(Item item, Reducer reducer, std::vector<NodeId> args) {
    item.reducer = reducer;
    item.args = std::move(args);
    item.type = to_[item.args[0]].type;
    item.reduction = ReduceOp::custom;  // from here on the reducer says what it is
    return to_.add(std::move(item));
  }

  void keep(Item item, Reducer reducer) {
    item.reducer = reducer;
    item.reduction = ReduceOp::custom;
    to_.keep(std::move(item));
  }

  // The x of d * d with d = x - mean(x) over the same axes, else -1.
  NodeId deviation(const Item& square, const Item& reduce) const {
    const bool multiplied = square.op == Op::mul && square.args[0] == square.args[1];
    const bool powered = square.op == Op::pow && to_[square.args[1]].is_constant(2);
    if (!multiplied && !powered) return -1;
    const Item& d = to_[square.args[0]];
    if (d.op != Op::sub || d.type != DType::f32) return -1;
    const NodeId x = d.args[0];
    const Item& laid = to_[d.args[1]];  // a grouped mean is repeated over its columns or rows
    const bool grouped = is_beside_groups(laid, reduce);
    if (grouped != (reduce.group > 0)) return -1;
    const Item& mean = grouped ? to_[laid.args[0]] : laid;  // already sum / count
    if (mean.op != Op::div) return -1;
    const Item& sum = to_[mean.args[0]];
    const Item& count = to_[mean.args[1]];
    const bool matches = sum.op == Op::reduce && sum.reducer == Reducer::sum && sum.args[0] == x &&
                         sum.axes == reduce.axes && sum.group == reduce.group && count.is_count() &&
                         count.axes == reduce.axes && count.group == reduce.group;
    return matches ? x : -1;
  }

  void variance(const Item& item, NodeId x) {
    const NodeId r = reduce(item, Reducer::welford, {x});
    to_.replace(to_.make(Op::div, DType::f32, {to_.component(r, 1, DType::f32), to_.count(item, item.axes, DType::f32)},
                         item.origin));
  }

  NodeId coordinate(Op op, const Item& like, NodeId origin) {
    Item item;
    item.op = op;
    item.type = DType::i32;
    item.vary = op == Op::m_index ? Axis::m : op == Op::n_index ? Axis::n : Axis::b;
    item.rows = like.rows;
    item.columns = like.columns;
    item.origin = origin;
    return to_.cast(to_.add(std::move(item)), DType::i64);
  }

  // The index of an element within the reduced axes, outermost first.
  NodeId flat_index(const Item& item) {
    const Item like = to_[item.args[0]];
    NodeId index = -1;
    for (const auto& [axis, op] :
         {std::pair(Axis::b, Op::batch_index), std::pair(Axis::m, Op::m_index), std::pair(Axis::n, Op::n_index)}) {
      if (!item.axes.has(axis)) continue;
      const NodeId coordinate_here = coordinate(op, like, item.origin);
      if (index >= 0) {
        Item whole = item;
        whole.group = 0;
        index = to_.make(Op::mul, DType::i64, {index, to_.count(whole, axis, DType::i64)}, item.origin);
        index = to_.make(Op::add, DType::i64, {index, coordinate_here}, item.origin);
      } else {
        index = coordinate_here;
      }
    }
    return index;
  }

  void define(Item& item) {
    const NodeId x = item.args[0], origin = item.origin;
    switch (item.reduction) {
      case ReduceOp::sum: {
        const Item square = to_[x];
        if (const NodeId of = deviation(square, item); of >= 0)
          return to_.replace(to_.component(reduce(item, Reducer::welford, {of}), 1, DType::f32));
        return keep(std::move(item), Reducer::sum);
      }
      case ReduceOp::max: return keep(std::move(item), Reducer::max);
      case ReduceOp::min: return keep(std::move(item), Reducer::min);
      case ReduceOp::prod: return keep(std::move(item), Reducer::prod);
      case ReduceOp::any: return keep(std::move(item), Reducer::any);
      case ReduceOp::all: return keep(std::move(item), Reducer::all);
      case ReduceOp::custom: return keep(std::move(item), Reducer::custom);
      case ReduceOp::mean: {
        const Item square = to_[x];
        if (const NodeId of = deviation(square, item); of >= 0) return variance(item, of);
        const NodeId sum = to_.cast(reduce(item, Reducer::sum, {x}), DType::f32);
        return to_.replace(to_.make(Op::div, DType::f32, {sum, to_.count(item, item.axes, DType::f32)}, origin));
      }
      case ReduceOp::var: return variance(item, x);
      case ReduceOp::norm: {
        const NodeId square = to_.make(Op::mul, DType::f32, {x, x}, origin);
        return to_.replace(to_.make(Op::sqrt, DType::f32, {reduce(item, Reducer::sum, {square})}, origin));
      }
      case ReduceOp::logsumexp: {
        const NodeId r = reduce(item, Reducer::online_softmax, {x});
        const NodeId m = to_.component(r, 0, DType::f32), s = to_.component(r, 1, DType::f32);
        const NodeId infinity = to_.constant(DType::f32, std::numeric_limits<double>::infinity(), origin);
        const NodeId infinite =
            to_.make(Op::eq, DType::boolean, {to_.make(Op::abs, DType::f32, {m}, origin), infinity}, origin);
        const NodeId finite = to_.make(Op::add, DType::f32, {m, to_.make(Op::log, DType::f32, {s}, origin)}, origin);
        return to_.replace(to_.make(Op::where, DType::f32, {infinite, m, finite}, origin));
      }
      case ReduceOp::argmax:
      case ReduceOp::argmin: {
        const Reducer reducer = item.reduction == ReduceOp::argmax ? Reducer::argmax : Reducer::argmin;
        const NodeId r = reduce(item, reducer, {x, flat_index(item)});
        return to_.replace(to_.component(r, 1, DType::i64));
      }
    }
  }
};

}  // namespace

bool reductions(Work& work) { return Reductions(work).run(); }

}  // namespace postlude::inline v0::lower
