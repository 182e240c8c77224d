#include "lower/eliminate.h"

#include <cmath>
#include <optional>

namespace postlude::inline v0::lower {
namespace {

struct OneHot {
  NodeId label = -1;
  Literal value;  // where the index is the label
};

// `id` as a one-hot along `axis`: x, cast(x) of index == label or of where(index == label, c, 0).
std::optional<OneHot> one_hot(NodeId id, Axis axis, const Rewriter& to) {
  Literal value{DType::boolean, 0, 1};
  const auto uncast = [&](NodeId x) {
    while (to[x].op == Op::cast && !is_float(to[x].dtype) && to[x].dtype != DType::s8 && to[x].dtype != DType::u8)
      x = to[x].args[0];
    return x;
  };
  if (to[id].op == Op::cast) {  // of a boolean or a small constant: exact in every type that sums are made in
    if (to[to[id].args[0]].type == DType::f32 || size_of(to[id].dtype) < 4) return {};
    id = to[id].args[0];
  }
  if (to[id].op == Op::where) {
    const Item& c = to[to[id].args[1]];
    const Item& zero = to[to[id].args[2]];
    const bool plain =
        c.op == Op::constant && zero.is_constant(0) && !std::signbit(zero.literal.real) && !c.is_constant(0);
    if (!plain) return {};
    value = c.literal;
    id = to[id].args[0];
  }
  const Item& equal = to[id];
  if (equal.op != Op::eq || equal.type != DType::boolean) return {};
  for (const int side : {0, 1}) {
    const Item& index = to[uncast(equal.args[side])];
    const NodeId label = equal.args[1 - side];
    if (index.op != (axis == Axis::n ? Op::n_index : Op::m_index) || to[label].vary.has(axis)) continue;
    if (to[label].type == DType::f32) continue;  // 2.5 lies in [0, N) and is no index
    return OneHot{label, value};
  }
  return {};
}

}  // namespace

bool eliminate(Work& work) {
  Rewriter to(work);
  Item item;
  while (to.next(item)) {
    const bool candidate = item.op == Op::reduce && (item.reducer == Reducer::sum || item.reducer == Reducer::any) &&
                           item.group == 0 && (item.axes == Axes(Axis::n) || item.axes == Axes(Axis::m));
    const Axis axis = item.axes.has(Axis::n) ? Axis::n : Axis::m;
    const auto found = candidate ? one_hot(item.args[0], axis, to) : std::nullopt;
    if (!found) {
      to.keep(std::move(item));
      continue;
    }
    const NodeId label = to.cast(found->label, DType::i64), origin = item.origin;
    const NodeId zero = to.constant(DType::i64, 0, origin);
    const NodeId above = to.make(Op::ge, DType::boolean, {label, zero}, origin);
    const NodeId below = to.make(Op::lt, DType::boolean, {label, to.count(item, axis, DType::i64)}, origin);
    NodeId result = to.make(Op::bit_and, DType::boolean, {above, below}, origin);
    if (item.type != DType::boolean) {
      const NodeId value = to.constant(item.type, found->value.value(), origin);
      result = to.make(Op::where, item.type, {result, value, to.constant(item.type, 0, origin)}, origin);
    }
    // The elements may have had axes that the label lacks; a value for each of them is then the
    // same, and has to be laid out.
    if (to[result].vary != item.vary) {
      to.keep(std::move(item));
      continue;
    }
    work.notes.push_back(std::string(name(item.reducer)) + " over " + (axis == Axis::n ? "the columns" : "the rows") +
                         " of a one-hot became a test of its label");
    to.replace(result);
  }
  return to.finish();
}

}  // namespace postlude::inline v0::lower
