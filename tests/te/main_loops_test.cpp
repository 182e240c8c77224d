// What is a product or a convolution runs on that main loop, unless a call schedules it.
#include <postlude/parse.h>
#include <postlude/te.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

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

// Y[n, f, p] of X[n, c, w] and W[f, c, r], in groups of the filters and channels, by a person's two ways to say so.
struct Groups {
  static constexpr std::int64_t images = 2, groups = 3, filters = 4, channels = 2, width = 7, taps = 3,
                                out = width - taps + 1;
  std::vector<float> xs, ws;
  Groups() : xs(images * groups * channels * width), ws(groups * filters * channels * taps) {
    for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 7 % 11) - 5;
    for (std::size_t i = 0; i < ws.size(); ++i) ws[i] = static_cast<float>(i * 5 % 7) - 3;
  }
  [[nodiscard]] std::vector<float> wanted() const {
    std::vector<float> result;
    for (std::int64_t n = 0; n < images; ++n)
      for (std::int64_t f = 0; f < groups * filters; ++f)
        for (std::int64_t p = 0; p < out; ++p) {
          float sum = 0;
          for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t r = 0; r < taps; ++r)
              sum +=
                  xs[static_cast<std::size_t>((n * groups * channels + f / filters * channels + c) * width + p + r)] *
                  ws[static_cast<std::size_t>((f * channels + c) * taps + r)];
          result.push_back(sum);
        }
    return result;
  }
};

TEST(MainLoops, GroupsAsAnAxis) {
  Groups t;
  const Expr g = te::var("g"), c = te::var("c"), w = te::var("w");
  const te::Tensor x = te::placeholder({te::var("n"), g, c, w}, "X"),
                   filter = te::placeholder({g, te::var("f"), c, 3}, "W");
  const te::Axis dc = te::reduce_axis(0, c, "dc"), dr = te::reduce_axis(0, 3, "dr");
  const te::Tensor y = te::compute(
      {x.shape()[0], g, filter.shape()[1], w - 2},
      [&](const Axes& i) {
        return te::sum(x(i[0], i[1], dc, i[3] + dr) * filter(i[1], i[2], dc, dr), {dc, dr});
      },
      "Y");
  te::Schedule s = te::create_schedule(y);
  const te::Module plain = te::build(s, {x, filter, y});
  EXPECT_EQ(plain.explain().find("a convolution of X by W in groups: it runs on the main loop conv1d"), 0u)
      << plain.explain();
  s[y].split(y.op().axis()[0], 2);
  for (const te::Module& module : {plain, te::build(s, {x, filter, y})}) {
    std::vector<float> ys(t.wanted().size(), -1.0f);
    module({Tensor(t.xs.data(), f32, {t.images, t.groups, t.channels, t.width}),
            Tensor(t.ws.data(), f32, {t.groups, t.filters, t.channels, t.taps}),
            Tensor(ys.data(), f32, {t.images, t.groups, t.filters, t.out})});
    EXPECT_EQ(ys, t.wanted());
  }
  // Groups whose channels are no one axis: loops.
  std::vector<float> apart(t.xs.size());
  for (std::int64_t n = 0, i = 0; n < t.images; ++n)
    for (std::int64_t k = 0; k < t.groups; ++k)
      for (std::int64_t d = 0; d < t.channels; ++d)
        for (std::int64_t e = 0; e < t.width; ++e, ++i)
          apart[static_cast<std::size_t>(((n * t.channels + d) * t.groups + k) * t.width + e)] =
              t.xs[static_cast<std::size_t>(i)];
  Tensor turned(apart.data(), f32, {t.images, t.groups, t.channels, t.width});
  turned.strides[1] = t.width;
  turned.strides[2] = t.groups * t.width;
  std::vector<float> ys(t.wanted().size(), -1.0f);
  plain({turned, Tensor(t.ws.data(), f32, {t.groups, t.filters, t.channels, t.taps}),
         Tensor(ys.data(), f32, {t.images, t.groups, t.filters, t.out})});
  EXPECT_EQ(ys, t.wanted());
}

TEST(MainLoops, GroupsOfFiltersAndAnEpilogue) {
  Groups t;
  const Expr n = te::var("n"), f = te::var("f"), w = te::var("w");
  const te::Tensor x = te::placeholder({n, t.groups * t.channels, w}, "X"),
                   filter = te::placeholder({f, t.channels, 3}, "W");
  const te::Axis dc = te::reduce_axis(0, t.channels, "dc"), dr = te::reduce_axis(0, 3, "dr");
  const te::Tensor y = te::compute(
      {n, f, w - 2},
      [&](const Axes& i) {
        return te::sum(x(i[0], te::floordiv(i[1], t.filters) * t.channels + dc, i[2] + dr) * filter(i[1], dc, dr),
                       {dc, dr});
      },
      "Y");
  const te::Module grouped = te::build(te::create_schedule(y), {x, filter, y});
  EXPECT_EQ(grouped.explain().find("a convolution of X by W in groups: it runs on the main loop conv1d"), 0u)
      << grouped.explain();
  std::vector<float> ys(t.wanted().size(), -1.0f);
  const Tensor images(t.xs.data(), f32, {t.images, t.groups * t.channels, t.width}),
      weights(t.ws.data(), f32, {t.groups * t.filters, t.channels, t.taps});
  grouped({images, weights, Tensor(ys.data(), f32, {t.images, t.groups * t.filters, t.out})});
  EXPECT_EQ(ys, t.wanted());

  // Behind it bias, a residual and relu; the columns are the filters.
  const te::Tensor bias = te::placeholder({f}, "bias"), residual = te::placeholder({n, f, w - 2}, "residual"),
                   scale = te::placeholder({n, w - 2}, "scale");
  const Graph graph = parse(
      "def f(acc, bias: row, residual: tile, scale: col):\n  D = max(acc + bias, 0) + residual * scale\n  E = acc * 2\n"
      "  return D, E\n");
  const std::vector<te::Tensor> d =
      te::followed_by(y, graph, {{"bias", bias}, {"residual", residual}, {"scale", scale}}, 1);
  const std::vector<te::Tensor> arguments{x, filter, bias, residual, scale, d[0], d[1]};
  te::Schedule s = te::create_schedule(d);
  const te::Module plain = te::build(s, arguments), chosen = te::build(d, arguments, Target::cpu());
  EXPECT_EQ(plain.explain().find("a convolution of X by W in groups and its epilogue: it runs on the main loop conv1d"),
            0u)
      << plain.explain();
  EXPECT_EQ(chosen.explain(), plain.explain());
  s[y].split(y.op().axis()[0], 2);
  std::vector<float> biases(t.groups * t.filters), residuals(ys.size()), scales(t.images * t.out);
  for (std::size_t i = 0; i < biases.size(); ++i) biases[i] = static_cast<float>(i) - 4;
  for (std::size_t i = 0; i < residuals.size(); ++i) residuals[i] = static_cast<float>(i * 3 % 5) - 2;
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<float>(i % 3) - 1;
  for (const te::Module& module : {plain, te::build(s, arguments), te::build(te::choose_schedule(d), arguments)}) {
    std::vector<float> ds(ys.size(), -1.0f), es(ys.size(), -1.0f);
    module({images, weights, Tensor(biases.data(), f32, {t.groups * t.filters}),
            Tensor(residuals.data(), f32, {t.images, t.groups * t.filters, t.out}),
            Tensor(scales.data(), f32, {t.images, t.out}),
            Tensor(ds.data(), f32, {t.images, t.groups * t.filters, t.out}),
            Tensor(es.data(), f32, {t.images, t.groups * t.filters, t.out})});
    for (std::size_t i = 0; i < ys.size(); ++i) {
      const std::size_t p = i % t.out, k = i / t.out % (t.groups * t.filters),
                        image = i / t.out / (t.groups * t.filters);
      EXPECT_EQ(ds[i], std::max(ys[i] + biases[k], 0.0f) + residuals[i] * scales[image * t.out + p]) << i;
      EXPECT_EQ(es[i], ys[i] * 2) << i;
    }
  }
  EXPECT_THROW(te::followed_by(y, parse("def f(acc):\n  return acc + m_index()\n"), {}, 1), Error);
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
