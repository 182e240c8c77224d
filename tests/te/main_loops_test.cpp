// What is a product or a convolution runs on that main loop, unless a call schedules it.
#include <postlude/te.h>

#include <gtest/gtest.h>

namespace postlude {
namespace {

using te::Axes;
using te::Expr;

// Y[f, p, q] of X[h, w, c] and W[r, s, c, f]: a row of zeros above and below, every second column.
struct Convolution {
  Expr h = te::var("h"), w = te::var("w"), c = te::var("c"), f = te::var("f");
  te::Tensor x = te::placeholder({h, w, c}, "X"), filter = te::placeholder({3, 2, c, f}, "W");
  te::Axis dr = te::reduce_axis(0, 3, "dr"), ds = te::reduce_axis(0, 2, "ds"), dc = te::reduce_axis(0, c, "dc");
  te::Tensor y = te::compute(
      {f, h, te::floordiv(w, 2)},
      [&](const Axes& i) {
        const Expr row = i[1] + dr - 1;
        return te::sum(
            te::apply("where", {(row >= 0) & (row < h), x(row, i[2] * 2 + ds, dc), 0}) * filter(dr, ds, dc, i[0]),
            {dr, ds, dc});
      },
      "Y");

  void check(const te::Module& module) const {
    constexpr std::int64_t rows = 5, columns = 6, channels = 3, filters = 4;
    std::vector<float> xs(rows * columns * channels), ws(3 * 2 * channels * filters),
        ys(filters * rows * columns / 2, -1.0f);
    for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 7 % 11) - 5;
    for (std::size_t i = 0; i < ws.size(); ++i) ws[i] = static_cast<float>(i * 5 % 7) - 3;
    module({Tensor(xs.data(), f32, {rows, columns, channels}), Tensor(ws.data(), f32, {3, 2, channels, filters}),
            Tensor(ys.data(), f32, {filters, rows, columns / 2})});
    for (std::int64_t k = 0; k < filters; ++k)
      for (std::int64_t p = 0; p < rows; ++p)
        for (std::int64_t q = 0; q < columns / 2; ++q) {
          float sum = 0;
          for (std::int64_t r = 0; r < 3; ++r)
            for (std::int64_t s = 0; s < 2; ++s)
              for (std::int64_t a = 0; a < channels; ++a)
                if (p + r >= 1 && p + r <= rows)
                  sum += xs[static_cast<std::size_t>(((p + r - 1) * columns + q * 2 + s) * channels + a)] *
                         ws[static_cast<std::size_t>(((r * 2 + s) * channels + a) * filters + k)];
          EXPECT_EQ(ys[static_cast<std::size_t>((k * rows + p) * (columns / 2) + q)], sum) << k << ' ' << p << ' ' << q;
        }
  }
};

TEST(MainLoops, Convolution) {
  const Convolution t;
  te::Schedule s = te::create_schedule(t.y);
  const te::Module plain = te::build(s, {t.x, t.filter, t.y});
  EXPECT_EQ(plain.explain().substr(0, plain.explain().find('\n')),
            "a convolution of X by W: it runs on the main loop conv2d, because no call schedules it");
  t.check(plain);
  t.check(te::build({t.y}, {t.x, t.filter, t.y}, Target::cpu()));
  s[t.y].split(t.y.op().axis()[0], 2);
  const te::Module by_hand = te::build(s, {t.x, t.filter, t.y});
  EXPECT_EQ(by_hand.explain().substr(0, 13), "scheduled by\n");
  t.check(by_hand);
}

TEST(MainLoops, ProductWithoutASchedule) {
  const Expr n = te::var("n"), m = te::var("m"), l = te::var("l");
  const te::Tensor a = te::placeholder({n, l}, "A"), b = te::placeholder({l, m}, "B");
  const te::Axis k = te::reduce_axis(0, l, "k");
  const te::Tensor c = te::compute(
      {n, m}, [&](const Axes& i) { return te::sum(a(i[0], k) * b(k, i[1]), {k}); }, "C");
  EXPECT_EQ(te::build({c}, {a, b, c}, Target::cpu()).explain().find("a product of matrices, A and B"), 0u);
  const te::Schedule chosen = te::choose_schedule({c});
  EXPECT_EQ(te::build(chosen, {a, b, c}).explain().find("scheduled by"), 0u);
}

}  // namespace
}  // namespace postlude
