// Stages of whole rows, as softmax and normalisations have them: reductions, results of rows and matrices that read one
// another's rows, and end in a matrix or in results.
#include "te/fuzz_parts.h"

namespace postlude::fuzz_te {

using te::Expr;

namespace {

Expr within(const Expr& x) { return te::apply("max", {te::apply("min", {te::cast(x, f32), Expr(3.0)}), Expr(-3.0)}); }

}  // namespace

Program stages_of_rows(std::uint64_t seed, Draw& draw) {
  Program p;
  p.seed = seed;
  te::Sizes bound;
  const bool batches = draw.one_in(3), is_constant = !draw.one_in(3);
  const int columns = draw.one_in(8) ? draw.between(1, 64) : draw.between(65, 300);
  std::vector<Expr> rows{te::var("n")};
  bound[rows[0]->axis.get()] = draw.one_in(9) ? 0 : draw.between(1, 5);
  if (batches) rows.insert(rows.begin(), draw.between(1, 3));
  const Expr width = is_constant ? Expr(columns) : te::var("m");
  if (!is_constant) bound[width->axis.get()] = columns;
  if (draw.one_in(2)) p.many_rows = rows.back()->axis;
  std::vector<Expr> shape = rows;
  shape.push_back(width);
  const std::vector<DType> types{f32, f32, f32, bf16, s8};
  std::vector<te::Tensor> matrices, vectors;
  for (int a = draw.between(1, 2); a > 0; --a) {
    matrices.push_back(te::placeholder(shape, "A" + std::to_string(a), draw.of(types)));
    add_array(p, draw, bound, matrices.back());
  }
  // An element of a matrix or a result, of small numbers whose sums are exact.
  const auto element = [&](const std::vector<Expr>& row, const Expr& column, bool needs_column) {
    std::vector<Expr> at = row;
    at.push_back(column);
    Expr x = draw.of(matrices).at(at);
    if (!needs_column && (vectors.empty() || draw.one_in(3))) x = Expr(1.0);
    else if (!needs_column) x = draw.of(vectors).at(row);
    x = within(x);
    if (!vectors.empty() && draw.one_in(2)) x = x - within(draw.of(vectors).at(row));
    if (needs_column && draw.one_in(3)) x = x * within(draw.of(matrices).at(at));
    return within(x);
  };
  const int count = draw.between(2, 5);
  std::vector<te::Tensor> made;
  for (int s = 0; s < count; ++s) {
    const std::string name = "B" + std::to_string(s);
    const te::Axis k = te::reduce_axis(0, width, "k" + std::to_string(s));
    const int kind = s == 0 ? draw.below(3) : s + 1 == count ? draw.between(3, 5) : draw.below(6);
    const auto row_of = [](const te::Axes& i, std::size_t rank) {
      return std::vector<Expr>(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(rank));
    };
    const std::size_t rank = rows.size();
    if (kind < 3) {
      const int reducer = draw.below(3);
      made = te::compute_several(
          rows,
          [&](const te::Axes& i) {
            const Expr x = element(row_of(i, rank), k, true);
            return reducer == 0   ? std::vector<Expr>{te::sum(x, {k})}
                   : reducer == 1 ? std::vector<Expr>{te::max(x, {k})}
                                  : te::argmax(x, {k});
          },
          name);
      vectors.insert(vectors.end(), made.begin(), made.end());
    } else if (kind == 3) {
      made = {te::compute(
          rows, [&](const te::Axes& i) { return element(row_of(i, rank), Expr(0), false); }, name)};
      vectors.push_back(made[0]);
    } else {
      made = {te::compute(
          shape, [&](const te::Axes& i) { return element(row_of(i, rank), i.back(), true); }, name)};
      matrices.push_back(made[0]);
    }
  }
  set_outputs(p, draw, bound, made);
  return p;
}

}  // namespace postlude::fuzz_te
