// What a CPU reduces where it lies: filters whose rows share what they read, and the places of extremes, at sizes that
// vectors and blocks do not divide.
#include "te/filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace postlude {
namespace {

using te::Axes;
using te::Expr;

class Filters : public testing::TestWithParam<std::vector<std::int64_t>> {};

TEST_P(Filters, AreTheSumOfTheirProducts) {
  const std::int64_t rows = GetParam()[0], columns = GetParam()[1], depth = GetParam()[2], width = GetParam()[3];
  const Filter filter(te::var("n"), te::var("m"), depth, width);
  std::vector<float> xs(static_cast<std::size_t>(rows * columns)), fs(static_cast<std::size_t>(depth * width));
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<float>(i * 7 % 13) - 6;
  for (std::size_t i = 0; i < fs.size(); ++i) fs[i] = static_cast<float>(i * 5 % 7) - 3;
  const std::int64_t out_rows = rows - depth + 1, out_columns = columns - width + 1;
  std::vector<float> ys(static_cast<std::size_t>(out_rows * out_columns), std::numeric_limits<float>::quiet_NaN());
  te::build({filter.output}, filter.arguments(),
            Target::cpu(2))({Tensor(xs.data(), f32, {rows, columns}), Tensor(fs.data(), f32, {depth, width}),
                             Tensor(ys.data(), f32, {out_rows, out_columns})});
  for (std::int64_t i = 0; i < out_rows; ++i)
    for (std::int64_t j = 0; j < out_columns; ++j) {
      float sum = 0;
      for (std::int64_t r = 0; r < depth; ++r)
        for (std::int64_t c = 0; c < width; ++c)
          sum += xs[static_cast<std::size_t>((i + r) * columns + j + c)] * fs[static_cast<std::size_t>(r * width + c)];
      ASSERT_EQ(ys[static_cast<std::size_t>(i * out_columns + j)], sum) << i << ' ' << j;
    }
}

// Few rows, few columns, one tap; rows of taps that are one function each, and others.
INSTANTIATE_TEST_SUITE_P(
    All, Filters,
    testing::Values(std::vector<std::int64_t>{37, 203, 3, 3}, std::vector<std::int64_t>{6, 66, 3, 3},
                    std::vector<std::int64_t>{5, 300, 1, 5}, std::vector<std::int64_t>{41, 130, 7, 1},
                    std::vector<std::int64_t>{20, 2200, 1, 1}, std::vector<std::int64_t>{23, 209, 2, 2},
                    std::vector<std::int64_t>{23, 337, 4, 4}, std::vector<std::int64_t>{22, 150, 5, 5},
                    std::vector<std::int64_t>{19, 150, 7, 7}, std::vector<std::int64_t>{21, 150, 3, 9},
                    std::vector<std::int64_t>{2071, 2103, 3, 3}, std::vector<std::int64_t>{1500, 1501, 3, 9},
                    std::vector<std::int64_t>{1451, 1500, 2, 2}));

TEST(Places, OfExtremes) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const Expr n = te::var("n"), m = te::var("m");
  const te::Tensor a = te::placeholder({n, m}, "A");
  const te::Axis k = te::reduce_axis(0, m, "k");
  const auto most = te::compute_several(
      {n}, [&](const Axes& i) { return te::argmax(a(i[0], k), {k}); }, "B");
  const auto least = te::compute_several(
      {n}, [&](const Axes& i) { return te::argmin(a(i[0], k), {k}); }, "C");
  const te::Module arg_most = te::build(most, {a, most[0], most[1]}, Target::cpu(1)),
                   arg_least = te::build(least, {a, least[0], least[1]}, Target::cpu(1));
  for (const std::int64_t columns : {1, 15, 63, 64, 65, 500, 4097}) {
    for (const int special : {0, 1, 2, 3, 4}) {
      constexpr std::int64_t rows = 11;
      std::vector<float> values(static_cast<std::size_t>(rows * columns));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i * 2654435761u % 97) - 48;
        if (special == 1 && i % 51 == 50) values[i] = nan;
        if (special == 2) values[i] = i % 3 ? inf : -inf;
        if (special == 3) values[i] = -inf;
        if (special == 4) values[i] = i % 2 ? 0.0f : -0.0f;
      }
      for (const bool largest : {true, false}) {
        std::vector<std::int64_t> index(rows, -7);
        std::vector<float> value(rows);
        (largest ? arg_most : arg_least)({Tensor(values.data(), f32, {rows, columns}),
                                          Tensor(index.data(), i64, {rows}), Tensor(value.data(), f32, {rows})});
        for (std::int64_t r = 0; r < rows; ++r) {
          const float* const row = values.data() + r * columns;
          std::int64_t best = 0;
          for (std::int64_t c = 1; c < columns && !std::isnan(row[best]); ++c)
            if (std::isnan(row[c]) || (largest ? row[c] > row[best] : row[c] < row[best])) best = c;
          EXPECT_EQ(index[static_cast<std::size_t>(r)], best)
              << columns << ' ' << special << ' ' << largest << ' ' << r;
          const float is = value[static_cast<std::size_t>(r)];
          EXPECT_TRUE(is == row[best] || (std::isnan(is) && std::isnan(row[best])));
        }
      }
    }
  }
}

// Of zeros alike, the one whose index is given: it was the index of one and the value of another.
TEST(Places, OfZerosOfEitherSign) {
  const Expr n = te::var("n"), m = te::var("m");
  const te::Tensor a = te::placeholder({n, m}, "A");
  for (const bool largest : {true, false}) {
    for (const bool outer : {true, false}) {
      const te::Axis k = te::reduce_axis(0, m, "k");
      const auto b = te::compute_several(
          {n}, [&](const Axes& i) { return (largest ? te::argmax : te::argmin)(a(i[0], k), {k}, {}); }, "B");
      te::Schedule s = te::create_schedule(b);
      const auto [ko, ki] = s[b[0]].split(k, 7);
      s.rfactor(b[0], {outer ? ko : ki}, 1);
      constexpr std::int64_t rows = 97, columns = 45;
      std::vector<float> values(static_cast<std::size_t>(rows * columns)), value(rows, 1);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = i * 2654435761u % 7 < 3 ? 0.0f : -0.0f;
      std::vector<std::int64_t> index(rows, -7);
      te::build(s, {a, b[0], b[1]},
                Target::cpu(1))({Tensor(values.data(), f32, {rows, columns}), Tensor(index.data(), i64, {rows}),
                                 Tensor(value.data(), f32, {rows})});
      for (std::size_t r = 0; r < rows; ++r) {
        ASSERT_EQ(index[r], 0);
        EXPECT_EQ(std::signbit(value[r]), std::signbit(values[r * columns])) << r << ' ' << largest << ' ' << outer;
      }
    }
  }
}

// The identity's index, -1, is behind all others, where the candidates' value is the identity's own too.
template <class T>
void places_of_the_identity(DType type, T least, T most) {
  const Expr n = te::var("n"), m = te::var("m");
  const te::Tensor a = te::placeholder({n, m}, "A", type), w = te::placeholder({n, m}, "W", boolean);
  for (const bool largest : {true, false}) {
    for (const int schedule : {0, 1, 2, 3}) {
      const te::Axis k = te::reduce_axis(0, m, "k");
      const auto b = te::compute_several(
          {n}, [&](const Axes& i) { return (largest ? te::argmax : te::argmin)(a(i[0], k), {k}, w(i[0], k)); }, "B");
      te::Schedule s = te::create_schedule(b);
      if (schedule == 1) s[b[0]].split(k, 5);
      if (schedule == 2) s.rfactor(b[0], {s[b[0]].split(k, 16).second});
      if (schedule == 3) s.rfactor(b[0], {s[b[0]].split_parts(k, 5).first}, 1);
      const te::Module module = te::build(s, {a, w, b[0], b[1]}, Target::cpu(1));
      for (const std::int64_t columns : {3, 13, 40, 200}) {
        constexpr std::int64_t rows = 9;
        std::vector<T> values(static_cast<std::size_t>(rows * columns), largest ? least : most), value(rows);
        std::vector<std::uint8_t> chosen(values.size());
        std::vector<std::int64_t> index(rows, -7);
        for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = i * 2654435761u % 97 < 40;
        module({Tensor(values.data(), type, {rows, columns}), Tensor(chosen.data(), boolean, {rows, columns}),
                Tensor(index.data(), i64, {rows}), Tensor(value.data(), type, {rows})});
        for (std::int64_t r = 0; r < rows; ++r) {
          const auto row = chosen.begin() + r * columns, first = std::find(row, row + columns, 1);
          EXPECT_EQ(index[static_cast<std::size_t>(r)], first == row + columns ? -1 : first - row)
              << name(type) << ' ' << largest << ' ' << schedule << ' ' << columns << ' ' << r;
        }
      }
    }
  }
}
TEST(Places, OfElementsThatAreTheIdentity) {
  const float inf = std::numeric_limits<float>::infinity();
  places_of_the_identity<float>(f32, -inf, inf);
  places_of_the_identity<std::int32_t>(i32, std::numeric_limits<std::int32_t>::min(),
                                       std::numeric_limits<std::int32_t>::max());
  places_of_the_identity<std::int64_t>(i64, std::numeric_limits<std::int64_t>::min(),
                                       std::numeric_limits<std::int64_t>::max());
}

// An extreme of the indices themselves: the strip's index, which is counted without being made, is its value too.
TEST(Places, OfTheIndicesThemselves) {
  const Expr n = te::var("n");
  constexpr std::int64_t rows = 5, columns = 70;
  for (const bool largest : {true, false}) {
    for (const bool some : {false, true}) {
      for (const int schedule : {0, 1, 2}) {
        const te::Axis k = te::reduce_axis(0, columns, "k");
        const auto b = te::compute_several(
            {n, 3},
            [&](const Axes& i) {
              const Expr where = some ? te::floormod(i[0] + Expr(k), 2) < 1 : Expr();
              return (largest ? te::argmax : te::argmin)(k, {k}, where);
            },
            "B");
        te::Schedule s = schedule == 2 ? te::choose_schedule(b) : te::create_schedule(b);
        if (schedule == 1) s[b[0]].parallel(b[0].op().axis()[0]);
        std::vector<std::int64_t> index(rows * 3, -7), value(rows * 3, -7), wanted;
        te::build(s, {b[0], b[1]},
                  Target::cpu(2))({Tensor(index.data(), i64, {rows, 3}), Tensor(value.data(), i64, {rows, 3})});
        for (std::int64_t r = 0; r < rows * 3; ++r) {
          const std::int64_t odd = some ? r / 3 % 2 : 0;
          wanted.push_back(largest ? columns - 1 - (some ? 1 - odd : 0) : odd);
        }
        EXPECT_EQ(index, wanted) << largest << some << schedule;
        EXPECT_EQ(value, wanted) << largest << some << schedule;
      }
    }
  }
}

// A reduced axis may begin below 0, as a window around each element does; argmax counts from its begin.
TEST(Windows, AroundEachElement) {
  const Expr n = te::var("n");
  const te::Tensor x = te::placeholder({n}, "X");
  for (const bool splits : {false, true}) {
    const te::Axis k = te::reduce_axis(-1, 2, "k"), j = te::reduce_axis(-1, 2, "j");
    const auto around = [&](const te::Axis& i, const te::Axis& by) {
      const Expr at = Expr(i) + Expr(by);
      return te::apply("where", {(at >= 0) & (at < n), x(at), -9.0});
    };
    const te::Tensor sum = te::compute(
        {n}, [&](const Axes& i) { return te::sum(around(i[0], k), {k}); }, "S");
    const auto most = te::compute_several(
        {n}, [&](const Axes& i) { return te::argmax(around(i[0], j), {j}); }, "M");
    te::Schedule s = te::create_schedule({sum, most[0]});
    if (splits) s[sum].split(k, 2), s[most[0]].split(j, 2);
    const std::vector<float> xs{3, 1, 4, 1, 5};
    std::vector<float> sums(5), values(5);
    std::vector<std::int64_t> places(5);
    te::build(s, {x, sum, most[0], most[1]},
              Target::cpu(1))({Tensor(const_cast<float*>(xs.data()), f32, {5}), Tensor(sums.data(), f32, {5}),
                               Tensor(places.data(), i64, {5}), Tensor(values.data(), f32, {5})});
    EXPECT_EQ(sums, (std::vector<float>{-5, 8, 6, 10, -3}));
    EXPECT_EQ(places, (std::vector<std::int64_t>{1, 2, 1, 2, 1}));
    EXPECT_EQ(values, (std::vector<float>{3, 4, 4, 5, 5}));
  }
}

// An integer of loops alone that is made of real numbers is no index.
TEST(Strips, IntegersOfReals) {
  const te::Expr n = te::var("n");
  const te::Tensor b = te::compute(
      {n}, [](const te::Axes& i) { return te::cast(te::cast(i[0], f32) * 0.5 < 2.75, i64) + i[0]; }, "B");
  for (const bool parallel : {false, true}) {
    te::Schedule s = te::create_schedule(b);
    if (parallel) s[b].parallel(b.op().axis()[0]);
    std::vector<std::int64_t> y(8);
    te::build(s, {b}, Target::cpu(1))({Tensor(y.data(), i64, {8})});
    EXPECT_EQ(y, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 6, 7})) << parallel;
  }
}

// Nor are a condition and a place that are made of them known before they are computed.
TEST(Strips, ConditionsAndPlacesOfReals) {
  const te::Expr n = te::var("n"), m = te::var("m");
  const te::Tensor a = te::placeholder({m}, "A");
  const auto half = [](const te::Axis& i) { return te::cast(i, f32) * 0.5; };
  const te::Axis k = te::reduce_axis(0, m, "k");
  const te::Tensor sum = te::compute(
      {n}, [&](const te::Axes& i) { return te::sum(a(k), {k}, half(k) < half(i[0]) + 0.75); }, "S");
  const te::Tensor read = te::compute(
      {n}, [&](const te::Axes& i) { return a(te::cast(half(i[0]), i64)); }, "P");
  for (const int schedule : {0, 1, 2}) {
    te::Schedule s = te::create_schedule({sum, read});
    if (schedule == 1) s[sum].parallel(sum.op().axis()[0]), s[read].parallel(read.op().axis()[0]);
    if (schedule == 2) s[sum].split(k, 4), s[read].split(read.op().axis()[0], 3);
    std::vector<float> x = {1, 2, 4, 8, 16, 32}, y(4), z(4);
    te::build(s, {a, sum, read},
              Target::cpu(1))({Tensor(x.data(), f32, {6}), Tensor(y.data(), f32, {4}), Tensor(z.data(), f32, {4})});
    EXPECT_EQ(y, (std::vector<float>{3, 7, 15, 31})) << schedule;
    EXPECT_EQ(z, (std::vector<float>{1, 1, 2, 4})) << schedule;  // to the nearest even
  }
}

// What sizes and loops alone say is a number of its type on the host too: one that saturates, wraps, or is rounded.
TEST(Strips, NumbersOfLoops) {
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const Expr n = te::var("n");
  const te::Axis k = te::reduce_axis(0, 5, "k");
  const auto i32_of = [](const Expr& x) { return te::cast(x, i32); };
  const auto of = [](const char* op, const std::vector<Expr>& args) { return te::apply(op, args); };
  using Condition = std::function<Expr(const Expr& i)>;
  const std::vector<std::pair<Condition, std::vector<std::int64_t>>> cases = {
      {[&](const Expr& i) { return te::cast(Expr(k), boolean) == te::cast(i, boolean); }, {1, 4, 4}},
      {[&](const Expr& i) { return i32_of(Expr(k) + i) * Expr(65536) * Expr(65536) == Expr(0); }, {5, 5, 5}},
      {[&](const Expr& i) { return i32_of((Expr(k) + i) * Expr(std::int64_t{1} << 31)) > Expr(0); }, {4, 5, 5}},
      {[&](const Expr& i) { return te::cast(Expr(k) * 100 + i, u8) < Expr(255); }, {3, 3, 3}},
      {[&](const Expr& i) { return te::cast(Expr(k) * -100 - i, s8) == Expr(-128); }, {3, 3, 3}},
      {[&](const Expr& i) {
         return of("fma", {Expr(k), i, Expr(1)}) == Expr(3);
       },
       {0, 1, 1}},
      {[&](const Expr& i) { return of("round", {of("floor", {Expr(k) - i})}) == Expr(1); }, {1, 1, 1}},
      {[&](const Expr& i) { return te::floordiv(Expr(k) - 3, i - 1) == Expr(0); }, {1, 5, 1}},
      {[&](const Expr& i) { return te::floordiv(Expr(least), i - 1) == Expr(least); }, {5, 0, 5}},
      {[&](const Expr& i) { return (Expr(k) + i) < Expr(least); }, {0, 0, 0}},
      {[&](const Expr& i) { return (Expr(k) + i) >= Expr(least); }, {5, 5, 5}},
      {[&](const Expr&) { return te::cast(te::cast(n, f32) * 0.5, i64) > Expr(k); }, {2, 2, 2}},
  };
  for (std::size_t c = 0; c < cases.size(); ++c)
    for (const int schedule : {0, 1, 2, 3}) {
      const te::Tensor count = te::compute(
          {n}, [&](const Axes& i) { return te::sum(Expr(1), {k}, cases[c].first(i[0])); }, "C");
      te::Schedule s = te::create_schedule(count);
      if (schedule == 1) s[count].parallel(count.op().axis()[0]);
      if (schedule == 2) s[count].split(k, 2), s[count].split(count.op().axis()[0], 2);
      if (schedule == 3) s[count].reorder({k, count.op().axis()[0]});
      std::vector<std::int64_t> y(3);
      te::build(s, {count}, Target::cpu(2))({Tensor(y.data(), i64, {3})});
      EXPECT_EQ(y, cases[c].second) << c << ' ' << schedule << '\n' << te::lower(s, {count});
    }
  EXPECT_EQ(te::floordiv(Expr(least), Expr(-1)).print(), std::to_string(least));
  EXPECT_EQ(te::cast(Expr(std::int64_t{1} << 40), i32).print(), "2147483647");
}

// A part of a stage that is read at a place made of real numbers is all of it.
TEST(Strips, PartsAtPlacesOfReals) {
  const Expr n = te::var("n");
  const te::Tensor a = te::placeholder({n}, "A"), p = te::compute(
                                                      {n}, [&](const Axes&i) { return a(i[0]) + 1.0; }, "P");
  const te::Tensor b = te::compute(
      {n}, [&](const Axes& i) { return p(te::cast(te::cast(n, f32) * 0.5, i64)) + a(i[0]); }, "B");
  for (const bool within : {false, true}) {
    te::Schedule s = te::create_schedule(b);
    if (within) s[p].compute_at(s[b], b.op().axis()[0]);
    std::vector<float> x = {1, 2, 4, 8}, y(4);
    te::build(s, {a, b}, Target::cpu(1))({Tensor(x.data(), f32, {4}), Tensor(y.data(), f32, {4})});
    EXPECT_EQ(y, (std::vector<float>{6, 7, 9, 13})) << te::lower(s, {a, b});
  }
}

}  // namespace
}  // namespace postlude
