// The seed's page: nests as text, and results.
#include "te/filter.h"

#include <gtest/gtest.h>

#include <numeric>

namespace postlude {
namespace {

struct RowSum {
  te::Expr n = te::var("n"), m = te::var("m");
  te::Tensor a = te::placeholder({n, m}, "A");
  te::Axis k = te::reduce_axis(0, m, "k");
  te::Tensor b = te::compute(
      {n}, [&](const te::Axes& i) { return te::sum(a(i[0], k), {k}); }, "B");
  te::Schedule s = te::create_schedule(b);

  [[nodiscard]] std::string nest() const { return te::lower(s, {a, b}); }
  // Small integers: every order gives the same sum.
  void check(std::int64_t rows, std::int64_t columns) const {
    std::vector<float> in(static_cast<std::size_t>(rows * columns)), out(static_cast<std::size_t>(rows), -1.0f);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 7 % 23) - 11.0f;
    te::build(s, {a, b})({Tensor(in.data(), f32, {rows, columns}), Tensor(out.data(), f32, {rows})});
    for (std::int64_t r = 0; r < rows; ++r)
      ASSERT_EQ(out[static_cast<std::size_t>(r)],
                std::accumulate(in.begin() + r * columns, in.begin() + (r + 1) * columns, 0.0f))
          << rows << " x " << columns << ", row " << r << "\n"
          << nest();
  }
  void check() const {
    for (const auto& [rows, columns] :
         std::vector<std::pair<int, int>>{{128, 128}, {1, 1}, {33, 17}, {5, 5000}, {70, 0}, {0, 3}})
      check(rows, columns);
  }
};

TEST(Seed, RowSum) {
  RowSum r;
  EXPECT_EQ(r.nest(), R"(for (i, 0, n) {
  B[i] = 0.0
  for (k, 0, m) {
    B[i] = B[i] + A[i, k]
  }
}
)");
  r.check();
}

TEST(Seed, Split) {
  RowSum r;
  const auto [ko, ki] = r.s[r.b].split(r.k, 16);
  const auto [xo, xi] = r.s[r.b].split(r.b.op().axis()[0], 32);
  EXPECT_EQ(r.nest(), R"(for (i.outer, 0, ceildiv(n, 32)) {
  for (i.inner, 0, 32) {
    if (i.outer*32 + i.inner < n) {
      B[i.outer*32 + i.inner] = 0.0
      for (k.outer, 0, ceildiv(m, 16)) {
        for (k.inner, 0, 16) {
          if (k.outer*16 + k.inner < m) {
            B[i.outer*32 + i.inner] = B[i.outer*32 + i.inner] + A[i.outer*32 + i.inner, k.outer*16 + k.inner]
          }
        }
      }
    }
  }
}
)");
  r.check();
  r.s[r.b].bind(xo, te::thread_axis("blockIdx.x"));
  r.s[r.b].bind(xi, te::thread_axis("threadIdx.x"));
  EXPECT_NE(r.nest().find("for (i.outer, 0, ceildiv(n, 32)) blockIdx.x {\n  for (i.inner, 0, 32) threadIdx.x {"),
            std::string::npos);
  r.check();
}

TEST(Seed, Factored) {
  RowSum r;
  const auto [ko, ki] = r.s[r.b].split(r.k, 16);
  const te::Tensor bf = r.s.rfactor(r.b, {ki})[0];
  EXPECT_EQ(r.nest(), R"(allocate B.rf[16, n] f32 global
for (k.inner, 0, 16) {
  for (i, 0, n) {
    B.rf[k.inner, i] = 0.0
    for (k.outer, 0, ceildiv(m, 16)) {
      if (k.outer*16 + k.inner < m) {
        B.rf[k.inner, i] = B.rf[k.inner, i] + A[i, k.outer*16 + k.inner]
      }
    }
  }
}
for (i, 0, n) {
  B[i] = 0.0
  for (k.inner.v, 0, 16) {
    B[i] = B[i] + B.rf[k.inner.v, i]
  }
}
)");
  EXPECT_EQ(r.s[r.b].op().body()[0].print(), "sum(B.rf[k.inner.v, i], axis=[k.inner.v])");
  r.check();

  const auto [xo, xi] = r.s[r.b].split(r.s[r.b].op().axis()[0], 32);
  r.s[r.b].bind(xo, te::thread_axis("blockIdx.x"));
  r.s[r.b].bind(xi, te::thread_axis("threadIdx.y"));
  const te::Axis tx = te::thread_axis("threadIdx.x");
  r.s[r.b].bind(r.s[r.b].op().reduce_axis()[0], tx);
  r.s[bf].compute_at(r.s[r.b], r.s[r.b].op().reduce_axis()[0]);
  r.s[r.b].set_store_predicate(tx.var() == 0);
  EXPECT_EQ(r.nest(), R"(for (i.outer, 0, ceildiv(n, 32)) blockIdx.x {
  for (i.inner, 0, 32) threadIdx.y {
    allocate B.red[] f32 local
    B.red[] = 0.0
    for (k.inner.v, 0, 16) threadIdx.x combined {
      allocate B.rf[1, 1] f32 local
      if (i.outer*32 + i.inner < n) {
        B.rf[0, 0] = 0.0
        for (k.outer, 0, ceildiv(m, 16)) {
          if (k.outer*16 + k.inner.v < m) {
            B.rf[0, 0] = B.rf[0, 0] + A[i.outer*32 + i.inner, k.outer*16 + k.inner.v]
          }
        }
      }
      if (i.outer*32 + i.inner < n) {
        B.red[] = B.red[] + B.rf[0, 0]
      }
    }
    for (k.inner.v, 0, 16) threadIdx.x {
      if (k.inner.v == 0 & i.outer*32 + i.inner < n) {
        B[i.outer*32 + i.inner] = B.red[]
      }
    }
  }
}
)");
  r.check();
}

// Factoring drops the loops over the reduction; one made later may have the address of one of them.
TEST(Seed, MarksEndWithTheirLoops) {
  RowSum r;
  {
    const auto [ko, ki] = r.s[r.b].split(r.k, 16);
    const auto [outer, inner] = r.s[r.b].split(ko, 2);
    for (const te::Axis& each : {outer, inner}) r.s[r.b].unroll(each);
    r.s.rfactor(r.b, {ki});
  }
  te::Axis inner = r.b.op().axis()[0];
  for (int i = 0; i < 8; ++i) inner = r.s[r.b].split(inner, 2).second;
  const std::string nest = r.nest();
  int unrolled = 0;
  for (std::size_t at = 0; (at = nest.find(" unroll ", at)) != std::string::npos; ++at) ++unrolled;
  EXPECT_EQ(unrolled, 2) << nest;  // the two of the partial sums
}

TEST(Seed, Filter) {
  const Filter f3(te::var("n"));
  const te::Schedule s = te::create_schedule(f3.output);
  EXPECT_EQ(te::lower(s, f3.arguments()), R"(for (i, 0, n - 2) {
  for (j, 0, n - 2) {
    Output[i, j] = 0.0
    for (di, 0, 3) {
      for (dj, 0, 3) {
        Output[i, j] = Output[i, j] + Input[i + di, j + dj]*Filter[di, dj]
      }
    }
  }
}
)");
  std::vector<float> in(20 * 20), f(9), out(18 * 18);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 13);
  for (std::size_t i = 0; i < f.size(); ++i) f[i] = static_cast<float>(i) - 4;
  te::build(s, f3.arguments())(
      {Tensor(in.data(), f32, {20, 20}), Tensor(f.data(), f32, {3, 3}), Tensor(out.data(), f32, {18, 18})});
  for (std::size_t i = 0; i < 18; ++i)
    for (std::size_t j = 0; j < 18; ++j) {
      float sum = 0;
      for (std::size_t y = 0; y < 3; ++y)
        for (std::size_t x = 0; x < 3; ++x) sum += in[(i + y) * 20 + j + x] * f[y * 3 + x];
      EXPECT_EQ(out[i * 18 + j], sum);
    }
}

TEST(Seed, Product) {
  const te::Expr n = te::var("n"), m = te::var("m");
  const te::Reducer product =
      te::comm_reducer([](const auto& x, const auto& y) { return std::vector<te::Expr>{x[0] * y[0]}; },
                       [](const auto&) { return std::vector<te::Expr>{te::Expr(1)}; }, "product");
  const te::Tensor a = te::placeholder({n, m}, "A");
  const te::Axis k = te::reduce_axis(0, m, "k");
  const te::Tensor b = te::compute(
      {n}, [&](const te::Axes& i) { return product({a(i[0], k)}, {k})[0]; }, "B");
  const te::Schedule s = te::create_schedule(b);
  std::vector<float> in{1, 2, 3, 4, 5, 6}, out(2);
  te::build(s, {a, b})({Tensor(in.data(), f32, {2, 3}), Tensor(out.data(), f32, {2})});
  EXPECT_EQ(out[0], 6);
  EXPECT_EQ(out[1], 120);
}

}  // namespace
}  // namespace postlude
