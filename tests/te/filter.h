// A two-dimensional filter: the seed's 3 x 3 of a square, and others. The benchmark measures what the tests check.
#pragma once

#include <postlude/te.h>

namespace postlude {

struct Filter {
  te::Tensor input, filter, output;

  Filter(const te::Expr& rows, const te::Expr& columns, std::int64_t depth = 3, std::int64_t width = 3)
      : input(te::placeholder({rows, columns}, "Input")), filter(te::placeholder({depth, width}, "Filter")) {
    const te::Axis di = te::reduce_axis(0, depth, "di"), dj = te::reduce_axis(0, width, "dj");
    output = te::compute(
        {rows - (depth - 1), columns - (width - 1)},
        [&](const te::Axes& i) {
          return te::sum(input(i[0] + di, i[1] + dj) * filter(di, dj), {di, dj});
        },
        "Output");
  }
  explicit Filter(const te::Expr& size) : Filter(size, size) {}
  [[nodiscard]] std::vector<te::Tensor> arguments() const { return {input, filter, output}; }
};

}  // namespace postlude
