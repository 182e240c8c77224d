// A problem of CUTLASS's adapter with its memory, and its results against a function of the batch, row and column.
#pragma once

#include "evt/support.h"

#include <algorithm>
#include <functional>

namespace postlude::evt_tests {

using I64 = std::int64_t;
using evt::cutlass::ColumnMajor;
using evt::cutlass::RowMajor;

template <class Fusion, class E = float, class C = float, class D = float, class LC = RowMajor, class LD = RowMajor>
using Gemm = evt::cutlass::GemmUniversal<E, RowMajor, E, ColumnMajor, C, LC, D, LD, Fusion>;

// A problem with its memory, contiguous; B stored N x K.
template <class G>
struct Problem {
  int M, N, K, L;
  Array<typename G::ElementA> a{I64{L} * M * K, 1};
  Array<typename G::ElementB> b{I64{L} * N * K, 2};
  using C = std::conditional_t<std::is_void_v<typename G::ElementC>, float, typename G::ElementC>;
  using D = std::conditional_t<std::is_void_v<typename G::ElementD>, float, typename G::ElementD>;
  Array<C> c{I64{L} * M * N, 3};
  Array<D> d{I64{L} * M * N, 4};
  G gemm{};

  typename G::Arguments arguments(const typename decltype(G::Arguments::epilogue)::Thread& thread = {}) {
    return {{M, N, K, L},
            {a.data(), {K, {}, I64{M} * K}, b.data(), {K, {}, I64{N} * K}},
            {thread, c.data(), {N, {}, I64{M} * N}, d.data(), {N, {}, I64{M} * N}}};
  }
  void run(const typename G::Arguments& args) {
    ASSERT_EQ(gemm.can_implement(args), evt::cutlass::Status::kSuccess) << gemm.why();
    ASSERT_EQ(gemm.initialize(args), evt::cutlass::Status::kSuccess) << gemm.why();
    ASSERT_EQ(gemm.run(), evt::cutlass::Status::kSuccess) << gemm.why();
  }
  [[nodiscard]] double acc(int l, int m, int n) const {
    double sum = 0;
    for (int k = 0; k < K; ++k) sum += a.at((I64{l} * M + m) * K + k) * b.at((I64{l} * N + n) * K + k);
    return sum;
  }
  [[nodiscard]] double source(int l, int m, int n) const { return c.at((I64{l} * M + m) * N + n); }
  void each(const std::function<void(int, int, int, double)>& check) const {
    for (int l = 0; l < L; ++l)
      for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) check(l, m, n, d.at((I64{l} * M + m) * N + n));
  }
  void expect(const std::function<double(int, int, int)>& f, double tolerance = 0) const {
    each([&](int l, int m, int n, double x) {
      const double wanted = f(l, m, n);
      EXPECT_NEAR(x, wanted, tolerance * std::max(1.0, std::fabs(wanted))) << l << ' ' << m << ' ' << n;
    });
  }
};

}  // namespace postlude::evt_tests
