// Integers and conditions of loops and of memory, as indices and guards of random programs have them.
#include "te/fuzz_parts.h"

namespace postlude::fuzz_te {

using te::Expr;

namespace {

Expr real(const Expr& x) { return te::cast(x, f32); }
Expr function(const char* name, const std::vector<Expr>& arguments) { return te::apply(name, arguments); }

}  // namespace

Place drawn_place(Draw& draw, const te::Axis& axis, const Expr& read) {
  const Expr i = axis, end = axis.node()->begin + axis.extent(), half = real(i) * 0.5;
  switch (draw.below(11)) {
    case 0: return {te::cast(half, i64), end, {}};  // to the nearest even
    case 1: return {te::cast(half - 0.75, i64), end, half >= Expr(0.75)};
    case 2: return {te::floormod(i - 5, 3), 3, {}};
    case 3: return {te::floordiv(i - 5, 2) + 3, te::floordiv(end, 2) + 3, {}};
    case 4: return {te::floordiv(-i, -2), end, {}};
    case 5: return {te::cast(te::cast(i - 3, u8), i64), end, {}};  // saturates
    case 6: return {function("where", {i >= 2, i - 2, 0}), end, {}};
    case 7: return {function("abs", {i - 3}), function("max", {end, 4}), {}};
    case 8: return {function("min", {i, 4}), end, {}};
    case 9: return {te::cast(i < 2, i64), 2, {}};
    default: return {function("max", {function("min", {te::cast(read, i64), 3}), 0}), 4, {}};
  }
}

Expr drawn_condition(Draw& draw, const te::Axes& axes, const std::vector<Expr>& reads, int deep) {
  if (deep > 0 && !draw.one_in(3)) {
    const Expr a = drawn_condition(draw, axes, reads, deep - 1), b = drawn_condition(draw, axes, reads, deep - 1);
    const int kind = draw.below(7);
    return kind < 3 ? a & b : kind < 5 ? a | b : kind == 5 ? ~a : function("where", {a, b, ~b});
  }
  const Expr i = draw.of(axes), j = draw.of(axes);
  const Expr read = draw.of(reads);
  const int some = draw.between(-3, 6);
  Expr left, right = some;
  switch (draw.below(10)) {
    case 0: left = i; break;
    case 1: left = i, right = j; break;
    case 2: left = te::floormod(i - j * draw.between(-2, 2), draw.between(2, 4)); break;
    case 3: left = real(i) * 0.5 - real(j) * 0.25, right = some * 0.75; break;
    case 4: left = te::cast(i - 2, u8); break;
    case 5: left = te::cast(i * 3 - j, i32) * Expr(2); break;
    case 6: left = read; break;
    case 7: left = real(read) * 0.5 + real(i), right = some * 0.5; break;
    case 8: return te::cast(i, boolean) == te::cast(j, boolean);
    default: left = te::floordiv(i * 2 - 5, j - 2);
  }
  switch (draw.below(6)) {
    case 0: return left < right;
    case 1: return left <= right;
    case 2: return left > right;
    case 3: return left >= right;
    case 4: return left == right;
    default: return left != right;
  }
}

}  // namespace postlude::fuzz_te
