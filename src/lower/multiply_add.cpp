#include "lower/multiply_add.h"

namespace postlude::inline v0::lower {
namespace {

// -x, folded; of an x that was itself negated, what was negated.
NodeId negated(NodeId x, Rewriter& to, NodeId origin) {
  if (to[x].op == Op::constant) return to.constant(DType::f32, -to[x].literal.real, origin);
  if (to[x].op == Op::neg) return to[x].args[0];
  return to.make(Op::neg, DType::f32, {x}, origin);
}

}  // namespace

bool multiply_add(Work& work) {
  const std::vector<std::int32_t> uses = work.uses();
  std::vector<std::vector<NodeId>> old_args;  // of additions only
  old_args.resize(work.items.size());
  for (std::size_t i = 0; i < work.items.size(); ++i)
    if (work.items[i].op == Op::add || work.items[i].op == Op::sub) old_args[i] = work.items[i].args;
  Rewriter to(work);
  Item item;
  while (to.next(item)) {
    const auto is_product = [&](std::size_t i) {
      return to[item.args[i]].op == Op::mul && uses[old_args[to.current()][i]] == 1;
    };
    if ((item.op != Op::add && item.op != Op::sub) || item.type != DType::f32 || !(is_product(0) || is_product(1))) {
      to.keep(std::move(item));
      continue;
    }
    const std::size_t product = is_product(0) ? 0 : 1;
    NodeId a = to[item.args[product]].args[0];
    const NodeId b = to[item.args[product]].args[1];
    NodeId c = item.args[1 - product];
    if (item.op == Op::sub) (product == 0 ? c : a) = negated(product == 0 ? c : a, to, item.origin);
    to.replace(to.make(Op::fma, DType::f32, {a, b, c}, item.origin));
  }
  return to.finish();
}

}  // namespace postlude::inline v0::lower
