#include "lower/algebra.h"

#include <cmath>

namespace postlude::inline v0::lower {
namespace {

// 1/c if c is a power of two whose reciprocal is a normal f32; else 0.
double exact_reciprocal(const Item& c) {
  if (c.op != Op::constant || c.type != DType::f32 || !std::isfinite(c.literal.real) || c.literal.real == 0) return 0;
  int exponent = 0;
  if (std::abs(std::frexp(c.literal.real, &exponent)) != 0.5 || exponent < -124 || exponent > 126) return 0;
  return 1 / c.literal.real;
}

// An item that this one is equal to, or -1. May make items.
NodeId rewritten(const Item& item, Rewriter& to) {
  if (item.args.empty()) return -1;
  const NodeId a = item.args[0], b = item.args.size() > 1 ? item.args[1] : -1;
  switch (item.op) {
    case Op::mul:
      if (to[b].is_constant(1)) return a;
      if (to[a].is_constant(1)) return b;
      break;
    case Op::div: {
      if (to[b].is_constant(1)) return a;
      if (const double r = exact_reciprocal(to[b]); r != 0)
        return to.make(Op::mul, DType::f32, {a, to.constant(DType::f32, r, item.origin)}, item.origin);
      break;
    }
    case Op::neg:
      if (to[a].op == Op::neg) return to[a].args[0];
      break;
    case Op::pow:
      if (to[b].is_constant(1)) return a;
      if (to[b].is_constant(2)) return to.make(Op::mul, DType::f32, {a, a}, item.origin);
      if (to[b].is_constant(3))
        return to.make(Op::mul, DType::f32, {to.make(Op::mul, DType::f32, {a, a}, item.origin), a}, item.origin);
      break;
    case Op::where:
      if (item.args[1] == item.args[2]) return item.args[1];
      if (to[a].op == Op::constant) return item.args[to[a].literal.integer ? 1 : 2];
      break;
    case Op::cast: {
      if (item.dtype == to[a].type) return a;
      const Item& x = to[a];
      // A second cast to the same dtype changes nothing, however it rounds.
      if (x.op == Op::cast && x.dtype == item.dtype && x.type == item.type) return a;
      break;
    }
    case Op::floor:
    case Op::ceil:
    case Op::round:
      if (item.type != DType::f32) return a;
      break;
    default: break;
  }
  return -1;
}

}  // namespace

bool algebra(Work& work) {
  Rewriter to(work);
  Item item;
  bool swapped = false;
  while (to.next(item)) {
    if (const NodeId by = rewritten(item, to); by >= 0 && to[by].type == item.type) {
      // A narrower value does not stand for a broadcast one.
      if (to[by].vary == item.vary) {
        to.replace(by);
        continue;
      }
    }
    if (is_commutative(item.op) && to[item.args[0]].op == Op::constant && to[item.args[1]].op != Op::constant) {
      std::swap(item.args[0], item.args[1]);
      swapped = true;
    }
    to.keep(std::move(item));
  }
  return to.finish() || swapped;
}

}  // namespace postlude::inline v0::lower
