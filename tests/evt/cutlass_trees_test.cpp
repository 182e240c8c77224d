// Trees as people write them for CUTLASS, against plain loops: odd sizes, batches, null pointers, strides by run-time
// bools, memory in either order.
#include "evt/problem.h"

#include <limits>

namespace postlude::evt_tests {
namespace {

using namespace evt::cutlass;

constexpr auto R = FloatRoundStyle::round_to_nearest;
template <POSTLUDE_EVT_FUNCTION F, class O = float, class C = float>
using P = Sm90Compute<F, O, C, R>;
template <class E = float>
using PerBatchScalar = Sm90ScalarBroadcast<E, Stride<_0, _0, I64>>;
using A = Sm90AccFetch;
using T = Shape<_128, _64, _64>;
template <class E>
using Memory = evt_tests::Array<E>;  // CUTLASS has an Array too
template <class E>
double stored(double x) {
  return static_cast<double>(static_cast<float>(E(static_cast<float>(x))));
}

TEST(CutlassTrees, ScaledResidualAndReluOfEachBatch) {
  using Tree = Sm90EVT<P<ReLU, half_t>, Sm90EVT<P<homogeneous_multiply_add>, PerBatchScalar<>, Sm90SrcFetch<half_t>,
                                                Sm90EVT<P<multiplies>, PerBatchScalar<>, A>>>;
  using G = Gemm<Tree, half_t, half_t, half_t>;
  Problem<G> p{7, 13, 5, 3};
  const float alpha[] = {1, -2, 0.5f}, beta[] = {0, 1, 2};
  auto args = p.arguments({{{{1}, {beta}, {{{}, {}, 1}}}, {}, {{{1}, {alpha}, {{{}, {}, 1}}}, {}, {}}, {}}, {}});
  for (int m = 0; m < 7 * 13; ++m)
    p.c[m] = half_t(std::nanf(""));  // of the batch with beta = 0, which does not read it
  p.run(args);
  p.expect([&](int l, int m,
               int n) { return std::max(0.0, (l == 0 ? 0 : beta[l] * p.source(l, m, n)) + alpha[l] * p.acc(l, m, n)); },
           1e-3);
  args.epilogue.ptr_C = nullptr;  // what a pointer leads to is not known before it runs
  EXPECT_EQ(G::can_implement(args), Status::kErrorInvalidProblem);
  args.epilogue.thread = {{{{0}}, {}, {{{3}}}}};
  p.run(args);
  p.expect([&](int l, int m, int n) { return stored<half_t>(std::max(0.0, 3 * p.acc(l, m, n))); });
}

template <class T>
struct FastLog {
  CUTLASS_HOST_DEVICE T operator()(const T& x) const { return fast_log(x); }
  template <int N>
  CUTLASS_HOST_DEVICE evt::cutlass::Array<T, N> operator()(
      const evt::cutlass::Array<T, N>& x) const {  // the form for fragments, never called here
    evt::cutlass::Array<T, N> y;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < N; ++i) y[i] = (*this)(x[i]);
    return y;
  }
};

TEST(CutlassTrees, CrossEntropyOfLabelsInColumns) {
  using Logits = Sm90EVT<P<plus>, Sm90RowBroadcast<0, T, float>, A>;
  using Labels = Sm90EVT<P<minus>, Sm90SrcFetch<float>, Sm90ScalarBroadcast<float>>;
  using Loss =
      Sm90EVT<Sm90ScalarReduction<plus, atomic_add, float, float, R, Stride<_0, _0, I64>>,
              Sm90TopologicalVisitor<float, tuple<seq<>, seq<>, seq<0, 1>, seq<0>, seq<3>, seq<4>, seq<2, 5>>, Logits,
                                     Labels, P<multiplies>, P<Sigmoid>, P<Clamp>, P<FastLog>, P<plus>>>;
  using G = Gemm<Loss, bfloat16_t, float, void, ColumnMajor>;
  const int M = 9, N = 31, L = 2;
  Problem<G> p{M, N, 6, L};
  Memory<float> bias(L * N, 8);
  float sum[L] = {};
  p.run({{M, N, p.K, L},
         {p.a.data(), {p.K, {}, I64{M} * p.K}, p.b.data(), {p.K, {}, I64{N} * p.K}},
         {{{{{bias.data(), 0, {}}, {}, {}}, {{}, {{1.f}}, {}}, {}, {}, {.001f, .999f}}, {sum, 0, {{}, {}, 1}}},
          p.c.data(),
          {{}, M, M * N}}});
  for (int l = 0; l < L; ++l) {
    double wanted = 0;
    for (int m = 0; m < M; ++m) {
      for (int n = 0; n < N; ++n) {
        const double x = bias.at(n) + p.acc(l, m, n), label = p.c.at((l * N + n) * M + m);
        wanted += x * (label - 1) + std::log(std::clamp(1 / (1 + std::exp(-x)), .001, .999));
      }
    }
    EXPECT_NEAR(sum[l], wanted, 1e-4 * std::fabs(wanted));
  }
}

// Scales of rows and columns, or one for all, by one kernel's arguments; a bias that may be absent.
TEST(CutlassTrees, ScalesByRunTimeBools) {
  using RowScale = Sm90RowBroadcast<0, T, float, float, Stride<_0, bool, I64>>;
  using ColScale = Sm90ColBroadcast<0, T, float, float, Stride<bool, _0, I64>>;
  using Bias = Sm90RowBroadcast<0, T, bfloat16_t, bfloat16_t, Stride<_0, _1, I64>>;
  using Tree = Sm90EVT<P<multiply_add, bfloat16_t>, ColScale, Sm90EVT<P<multiplies>, RowScale, A>, Bias>;
  using G = Gemm<Tree, float_e4m3_t, void, bfloat16_t>;
  const int M = 11, N = 17, L = 2;
  Problem<G> p{M, N, 8, L};
  Memory<float> a(L * M, 3), b(L * N, 4);
  Memory<bfloat16_t> bias(L * N, 5);
  for (int use = 0; use < 32; ++use) {
    const bool rows = use & 1, columns = use & 2, has_bias = use & 4;
    const I64 batch_a = use & 8 ? M : 0, batch_b = use & 16 ? N : 0;
    p.run(p.arguments({{a.data(), 0, {rows, {}, batch_a}},
                       {{b.data(), 0, {{}, columns, batch_b}}, {}, {}},
                       {has_bias ? bias.data() : nullptr, bfloat16_t(2), {{}, {}, batch_b}},
                       {}}));
    p.expect([&](int l, int m, int n) {
      const double x = a.at(l * batch_a + rows * m) * (b.at(l * batch_b + columns * n) * p.acc(l, m, n));
      return stored<bfloat16_t>(x + (has_bias ? bias.at(l * batch_b + n) : 2));
    });
  }
}

TEST(CutlassTrees, IntegersWithAZeroPoint) {
  // scale_a * (scale_b * (acc - zero_point * sums)), in integers up to the scales.
  using I32 = std::int32_t;
  using ZeroPoint = Sm90EVT<P<multiplies, I32, I32>, Sm90ColBroadcast<0, T, I32>, Sm90RowBroadcast<0, T, I32>>;
  using Tree =
      Sm90EVT<P<multiplies, half_t>, Sm90ColBroadcast<0, T, float>,
              Sm90EVT<P<multiplies>, Sm90RowBroadcast<0, T, float>, Sm90EVT<P<minus, float, I32>, A, ZeroPoint>>>;
  using G = Gemm<Tree, std::int8_t, void, half_t>;
  const int M = 6, N = 10;
  Problem<G> p{M, N, 21, 1};
  Memory<I32> zero(M, 3), sums(N, 4);
  Memory<float> a(M, 5), b(N, 6);
  p.run(p.arguments({{a.data()}, {{b.data()}, {{}, {{zero.data()}, {sums.data()}, {}}, {}}, {}}, {}}));
  p.expect([&](int l, int m, int n) {
    return stored<half_t>(a.at(m) * (b.at(n) * (p.acc(l, m, n) - zero.at(m) * sums.at(n))));
  });
}

template <class T>
using amax = maximum_absolute_value_reduction<T, true>;

TEST(CutlassTrees, SplitIntoScaledFp8AndAux) {
  using Z = Sm90EVT<P<plus>, A, Sm90ColBroadcast<0, T, float, Stride<_1, _0, I64>>>;
  using Scaled = Sm90EVT<
      P<multiplies, float_e4m3_t>,
      Sm90EVT<Sm90ScalarReduction<amax, atomic_maximum, float, float, R>, Sm90EVT<P<GELU_taylor>, Sm90SplitTreeFetch>>,
      Sm90ScalarBroadcast<float>>;
  using Aux = Sm90EVT<
      Sm90AuxStore<0, void, float_e5m2_t, R, ColumnMajor>,
      Sm90EVT<P<multiplies>, Sm90EVT<Sm90ScalarReduction<amax, atomic_maximum, float, float, R>, Sm90SplitTreeFetch>,
              Sm90ScalarBroadcast<float>>>;
  using G = Gemm<Sm90SplitTreeVisitor<Z, Scaled, Aux>, float_e4m3_t, void, float_e4m3_t>;
  const int M = 13, N = 9, L = 2;
  Problem<G> p{M, N, 10, L};
  Memory<float> bias(L * M, 7);
  Memory<float_e5m2_t> aux(L * M * N);
  float most_d = -1, most_z = -1, scale_d = 4;
  p.run(p.arguments({{{}, {bias.data(), 0, {{}, {}, M}}, {}},
                     {{{{}, {&most_z}}, {{0.5f}}, {}}, {aux.data(), {{}, M, M * N}}},
                     {{{{}, {}}, {&most_d}}, {{0}, {&scale_d}}, {}}}));
  double z_wanted = 0, d_wanted = 0;
  for (int l = 0; l < L; ++l) {
    for (int m = 0; m < M; ++m) {
      for (int n = 0; n < N; ++n) {
        const double z = p.acc(l, m, n) + bias.at(l * M + m);
        const double d = 0.5 * z * (1 + std::tanh(0.7978845608028654 * (z + 0.044715 * z * z * z)));
        z_wanted = std::max(z_wanted, std::fabs(z)), d_wanted = std::max(d_wanted, std::fabs(d));
        EXPECT_EQ(aux.at((l * N + n) * M + m), stored<float_e5m2_t>(0.5 * z));
        EXPECT_NEAR(p.d.at((l * M + m) * N + n), 4 * d, 0.0626 * std::fabs(4 * d) + 1e-3);  // half a step of e4m3
      }
    }
  }
  EXPECT_EQ(most_z, z_wanted);
  EXPECT_NEAR(most_d, d_wanted, 1e-5 * d_wanted);
}

TEST(CutlassTrees, GradientWithABiasOfItsOwn) {
  using Gradient =
      Sm90EVT<P<dGELU>, Sm90EVT<P<multiplies>, PerBatchScalar<>, A>, Sm90AuxLoad<0, void, half_t, ColumnMajor>>;
  using Tree =
      Sm90EVT<P<Identity, half_t>,
              Sm90EVT<Sm90RowReduction<plus, plus, plus, 0, T, float, float, R, Stride<_0, _1, I64>>, Gradient>>;
  using G = Gemm<Tree, half_t, void, half_t>;
  const int M = 7, N = 5, L = 3;
  for (const bool each : {true, false}) {  // a bias of each batch, or of all
    Problem<G> p{M, N, 9, L};
    Memory<half_t> z(L * M * N, 6);
    Memory<float> dbias(L * N, 9);
    const auto was = dbias;
    p.run(p.arguments(
        {{{{{{0.25f}}, {}, {}}, {z.data(), half_t(0), {{}, M, M * N}}, {}}, {dbias.data(), 0, {{}, {}, each ? N : 0}}},
         {}}));
    const auto gradient = [&](int l, int m, int n) {
      const double x = z.at((l * N + n) * M + m), c = 0.7978845608028654;
      const double h = std::tanh(c * (x + 0.044715 * x * x * x));
      return 0.25 * p.acc(l, m, n) * (0.5 * (1 + h) + 0.5 * x * (1 - h * h) * c * (1 + 3 * 0.044715 * x * x));
    };
    p.expect(gradient, 1e-3);
    for (int l = 0; l < L; ++l) {
      for (int n = 0; n < N; ++n) {
        double wanted = 0;
        for (int k = 0; k < L; ++k)
          for (int m = 0; m < M; ++m) wanted += !each || k == l ? gradient(k, m, n) : 0;
        if (!each && l > 0) EXPECT_EQ(dbias.at(l * N + n), was.at(l * N + n));
        else EXPECT_NEAR(dbias.at(l * N + n), wanted, 1e-4);
      }
    }
  }
}

TEST(CutlassTrees, AGraphWithAReusedResultInAnotherOrder) {
  // y = relu(acc) is stored, squared and multiplied by C: D = beta * C * y + (y * y + y).
  using Tree =
      Sm90TopologicalVisitor<float, tuple<seq<>, seq<0>, seq<>, seq<1, 2>, seq<>, seq<1>, seq<5, 1>, seq<4, 3, 6>>,
                             Sm90EVT<P<ReLU>, A>, Sm90AuxStore<0, void, half_t, R, RowMajor>, Sm90SrcFetch<bfloat16_t>,
                             P<multiplies>, PerBatchScalar<>, P<square>, P<plus>, P<multiply_add>>;
  using G = Gemm<Tree, float, bfloat16_t, float>;
  const int M = 5, N = 12, L = 2, ld = 15;
  Problem<G> p{M, N, 3, L};
  Memory<half_t> kept(L * M * ld, 2);
  const float beta[] = {2, -1};
  for (const bool store : {true, false}) {
    const auto was = kept;
    p.run(p.arguments({{}, {store ? kept.data() : nullptr, {ld, {}, M * ld}}, {}, {}, {{}, {beta}, {{{}, {}, 1}}}}));
    const auto y = [&](int l, int m, int n) { return std::max(0.0, p.acc(l, m, n)); };
    p.expect([&](int l, int m, int n) {
      return beta[l] * (p.source(l, m, n) * y(l, m, n)) + (y(l, m, n) * y(l, m, n) + y(l, m, n));
    });
    for (int l = 0; l < L; ++l)
      for (int m = 0; m < M; ++m)
        for (int n = 0; n < ld; ++n) {
          const I64 at = (l * M + m) * ld + n;
          EXPECT_EQ(kept.at(at), store && n < N ? stored<half_t>(y(l, m, n)) : was.at(at));
        }
  }
}

TEST(CutlassTrees, MaximaOfColumnsWithNaN) {
  using Most =
      Sm90EVT<Sm90RowReduction<maximum, maximum, maximum, 0, T, half_t, float, R, Stride<_0, _1, I64>>,
              Sm90EVT<Sm90ColReduction<minimum, minimum, minimum, 0, T, float, float, R, Stride<_1, _0, I64>>, A>>;
  using G = Gemm<Most, float, void>;
  const int M = 8, N = 11, L = 2;
  const float lowest = std::numeric_limits<float>::lowest(), infinity = std::numeric_limits<float>::infinity();
  for (const float identity : {0.f, 5.f, lowest, -infinity}) {
    Problem<G> p{M, N, 4, L};
    p.a[4] = std::nanf("");       // row 1 of batch 0
    p.b[(N + 2) * 4] = infinity;  // column 2 of batch 1: infinities of both signs, and NaN where A is 0
    Memory<half_t> most(L * N);
    Memory<float> least(L * M);
    p.run(p.arguments({{{}, {least.data(), 3, {{}, {}, M}}}, {most.data(), identity, {{}, {}, N}}}));
    for (int l = 0; l < L; ++l) {
      for (int n = 0; n < N; ++n) {
        double wanted = identity;
        for (int m = 0; m < M; ++m) wanted = std::fmax(wanted, p.acc(l, m, n));
        EXPECT_EQ(most.at(l * N + n), stored<half_t>(wanted)) << identity << ' ' << l << ' ' << n;
      }
      for (int m = 0; m < M; ++m) {
        double wanted = 3;
        for (int n = 0; n < N; ++n) wanted = std::fmin(wanted, p.acc(l, m, n));
        EXPECT_EQ(least.at(l * M + m), wanted);
      }
    }
  }
}

TEST(CutlassTrees, RowsNormalisedAndGated) {
  // A row's softmax, by nodes that hand statistics on; then SwiGLU, whose D has half of the columns.
  using evt::Chunk, evt::Statistic;
  using Softmax = Sm90TopologicalVisitor<float, tuple<seq<>, seq<0>, seq<0, 1>, seq<2>, seq<3>, seq<3, 4>>,
                                         Sm90EVT<P<multiplies>, PerBatchScalar<>, A>, Statistic<postlude::max, Axis::n>,
                                         P<minus>, P<fast_exp_op>, Statistic<postlude::sum, Axis::n>, P<divides>>;
  using G = Gemm<Softmax, float, void>;
  const int M = 4, N = 77, L = 2;
  Problem<G> p{M, N, 5, L};
  p.run(p.arguments({{{{0.25f}}}}));
  p.expect(
      [&](int l, int m, int n) {
        double sum = 0;
        for (int i = 0; i < N; ++i) sum += std::exp(0.25 * (p.acc(l, m, i) - p.acc(l, m, n)));
        return 1 / sum;
      },
      1e-5);
  using Halves = Sm90EVT<P<multiplies, half_t>, Sm90EVT<P<SiLu>, Sm90EVT<Chunk<2, 0>, A>>, Sm90EVT<Chunk<2, 1>, A>>;
  using H = Gemm<Halves, half_t, void, half_t>;
  Problem<H> q{M, 14, 5, L};
  auto args = q.arguments();
  args.epilogue.dD = {7, {}, M * 7};
  q.run(args);
  for (int l = 0; l < L; ++l)
    for (int m = 0; m < M; ++m)
      for (int n = 0; n < 7; ++n) {
        const double gate = q.acc(l, m, n), wanted = gate / (1 + std::exp(-gate)) * q.acc(l, m, n + 7);
        EXPECT_NEAR(q.d.at((l * M + m) * 7 + n), wanted, 1e-3 * std::max(1.0, std::fabs(wanted)));
      }
}

TEST(CutlassTrees, MasksAndTheLargestFew) {
  // Masked logits, and the softmax of the four largest of each row.
  using Masked = Sm90EVT<P<dReLU>, Sm90EVT<P<plus>, A, Sm90AuxLoad<0, void, half_t, Stride<I64, I64, I64>>>,
                         Sm90AuxLoad<0, void, uint1b_t, RowMajor>>;
  using Tree = Sm90EVT<Sm90TopKSoftmaxColReduction<4, 0, T, void, float, float, R>, Masked>;
  using G = Gemm<Tree, float, void>;
  const int M = 5, N = 143, L = 2;
  Problem<G> p{M, N, 3, L};
  Memory<half_t> aux(L * M * N * 2, 3);
  std::vector<uint1b_t> mask(L * M * N);
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 != 0;
  p.run(p.arguments(
      {{{{}, {aux.data(), half_t(0), {2 * N, 2, 2 * M * N}}, {}}, {mask.data(), false, {N, {}, M * N}}, {}}, {}}));
  for (int l = 0; l < L; ++l) {
    for (int m = 0; m < M; ++m) {
      std::vector<double> x;
      for (int n = 0; n < N; ++n) {
        const I64 at = (l * M + m) * N + n;
        x.push_back(mask[static_cast<std::size_t>(at)] ? p.acc(l, m, n) + aux.at(2 * at) : 0);
      }
      auto top = x;
      std::sort(top.rbegin(), top.rend());
      double sum = 0;
      for (int i = 0; i < 4; ++i) sum += std::exp(top[static_cast<std::size_t>(i)] - top[0]);
      for (int n = 0; n < N; ++n) {
        const double v = x[static_cast<std::size_t>(n)];
        EXPECT_NEAR(p.d.at((l * M + m) * N + n), v < top[3] ? 0 : std::exp(v - top[0]) / sum, 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace postlude::evt_tests
