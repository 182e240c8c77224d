// CUTLASS's adapter: what runs, against plain loops. Sizes are odd, and every operand may be null, by value, by
// pointer, of each batch, or of either order.
#include "evt/problem.h"

namespace postlude::evt_tests {
namespace {

using namespace evt::cutlass;

constexpr auto R = FloatRoundStyle::round_to_nearest;
template <POSTLUDE_EVT_FUNCTION F, class O = float>
using P = Sm90Compute<F, O, float, R>;
using S = Sm90ScalarBroadcast<float>;
using A = Sm90AccFetch;
using T = Shape<_128, _64, _64>;

TEST(CutlassRun, LinearCombination) {
  using G = Gemm<LinearCombination<float, float>>;
  Problem<G> p{5, 7, 3, 1};
  auto args = p.arguments();
  args.epilogue.thread.alpha = 2, args.epilogue.thread.beta = -0.5f;
  p.run(args);
  p.expect([&](int l, int m, int n) { return -0.5 * p.source(l, m, n) + 2 * p.acc(l, m, n); });
  // By pointer, which comes first.
  const float alpha = 4, beta = 0.25f;
  args.epilogue.thread.alpha_ptr = &alpha, args.epilogue.thread.beta_ptr = &beta;
  p.run(args);
  p.expect([&](int l, int m, int n) { return 0.25 * p.source(l, m, n) + 4 * p.acc(l, m, n); });
  // By default alpha is 1 and beta 0: C may be null, and is not read where it is NaN.
  auto plain = p.arguments();
  plain.epilogue.ptr_C = nullptr;
  p.run(plain);
  p.expect([&](int l, int m, int n) { return p.acc(l, m, n); });
  std::fill(p.c.elements.begin(), p.c.elements.end(), std::nanf(""));
  p.run(p.arguments());
  p.expect([&](int l, int m, int n) { return p.acc(l, m, n); });
}

TEST(CutlassRun, BatchesShareScalarsOrHaveTheirOwn) {
  using G = Gemm<LinearCombination<half_t, float, half_t>, half_t, half_t, half_t>;
  Problem<G> p{3, 9, 8, 3};
  const float alpha[] = {1, 2, 3}, beta = 2;
  auto args = p.arguments();
  args.epilogue.thread.alpha_ptr = alpha, args.epilogue.thread.dAlpha = {{}, {}, 1};
  args.epilogue.thread.beta_ptr = &beta;
  p.run(args);
  p.expect([&](int l, int m, int n) { return 2 * p.source(l, m, n) + (l + 1) * p.acc(l, m, n); }, 1e-3);
  // A that all batches share.
  args.mainloop.dA = {8, {}, 0};
  p.run(args);
  const auto shared = [&](int l, int m, int n) {
    double sum = 0;
    for (int k = 0; k < 8; ++k) sum += p.a.at(m * 8 + k) * p.b.at((l * 9 + n) * 8 + k);
    return 2 * p.source(l, m, n) + (l + 1) * sum;
  };
  p.expect(shared, 1e-3);
}

TEST(CutlassRun, EitherOrderOfEachMatrix) {
  using G = GemmUniversal<float, ColumnMajor, float, RowMajor, float, ColumnMajor, float, ColumnMajor,
                          LinearCombination<float, float>>;
  const int M = 5, N = 6, K = 7;
  Array<float> a(M * K, 1), b(N * K, 2), c(M * N, 3), d(M * N, 4);
  G gemm;
  const G::Arguments args{
      {M, N, K}, {a.data(), {{}, M, 0}, b.data(), {{}, N, 0}}, {{2, 3}, c.data(), {{}, M, 0}, d.data(), {{}, M, 0}}};
  ASSERT_EQ(gemm(args), Status::kSuccess) << gemm.why();
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      double sum = 0;
      for (int k = 0; k < K; ++k) sum += a.at(k * M + m) * b.at(k * N + n);
      EXPECT_EQ(d.at(n * M + m), 3 * c.at(n * M + m) + 2 * sum);
    }
  }
}

TEST(CutlassRun, VectorsThatAreThereOrNotOrOneNumber) {
  using G = Gemm<PerColLinCombPerColBiasEltAct<ReLU, float, float>>;
  Problem<G> p{5, 7, 3, 2};
  Array<float> alpha(7, 1), beta(7, 2), bias(2 * 7, 5);
  auto args = p.arguments();
  auto& t = args.epilogue.thread;
  const auto expect = [&](const std::function<double(int)>& alpha_of, const std::function<double(int)>& beta_of,
                          const std::function<double(int, int)>& bias_of) {
    p.run(args);
    p.expect([&](int l, int m, int n) {
      return std::max(0.0, beta_of(n) * p.source(l, m, n) + (alpha_of(n) * p.acc(l, m, n) + bias_of(l, n)));
    });
  };
  t.alpha_ptr = alpha.data(), t.beta_ptr = beta.data(), t.bias_ptr = bias.data(), t.dBias = {{}, {}, 7};
  expect([&](int n) { return alpha.at(n); }, [&](int n) { return beta.at(n); },
         [&](int l, int n) { return bias.at(l * 7 + n); });
  t.dAlpha = {{}, false, 0}, t.dBias = {};
  expect([&](int) { return alpha.at(0); }, [&](int n) { return beta.at(n); }, [&](int, int n) { return bias.at(n); });
  t.dAlpha = {{}, false, 1};  // one number a batch
  p.run(args);
  p.expect([&](int l, int m, int n) {
    return std::max(0.0, beta.at(n) * p.source(l, m, n) + (alpha.at(l) * p.acc(l, m, n) + bias.at(n)));
  });
  t.alpha_ptr = nullptr, t.alpha = 3, t.bias_ptr = nullptr;
  expect([&](int) { return 3; }, [&](int n) { return beta.at(n); }, [&](int, int) { return 0; });
  t.beta_ptr = nullptr, args.epilogue.ptr_C = nullptr;  // beta is 0 then, and C may be null
  expect([&](int) { return 3; }, [&](int) { return 0; }, [&](int, int) { return 0; });
}

TEST(CutlassRun, NullDefaultsOfATreesNodes) {
  using Tree = Sm90EVT<P<plus>, Sm90EVT<P<plus>, Sm90RowBroadcast<0, T, float>, Sm90ColBroadcast<0, T, half_t, float>>,
                       Sm90EVT<P<plus>, Sm90AuxLoad<0, void, bfloat16_t, RowMajor>, A>>;
  using G = Gemm<Tree, float, void>;
  Problem<G> p{4, 5, 6, 1};
  Array<float> row(5, 1);
  Array<half_t> col(4, 2);
  Array<bfloat16_t> aux(20, 3);
  auto args = p.arguments({{{row.data(), 0, {}}, {col.data(), 0, {}}, {}}, {{aux.data(), 0, {5, {}, 0}}, {}, {}}, {}});
  p.run(args);
  p.expect([&](int l, int m, int n) { return row.at(n) + col.at(m) + (aux.at(m * 5 + n) + p.acc(l, m, n)); });
  args.epilogue.thread = {{{nullptr, 2}, {nullptr, half_t(3)}}, {{nullptr, bfloat16_t(4)}}};
  p.run(args);
  p.expect([&](int l, int m, int n) { return 9 + p.acc(l, m, n); });
  // An aux that does not move along m: any stride.
  args.epilogue.thread = {{{nullptr, 2}, {nullptr, half_t(3)}}, {{aux.data(), 0, {0, {}, 0}}}};
  p.run(args);
  p.expect([&](int l, int m, int n) { return 5 + aux.at(n) + p.acc(l, m, n); });
}

using Sums = Sm90EVT<Sm90RowReduction<plus, plus, plus, 0, T, float, float, R, Stride<_0, _1, I64>>,
                     Sm90EVT<Sm90ColReduction<maximum, maximum, maximum, 0, T, half_t, float, R, Stride<_1, _0, I64>>,
                             Sm90EVT<Sm90ScalarReduction<plus, atomic_add, float, float, R, Stride<_0, _0, I64>>, A>>>;

TEST(CutlassRun, ReductionsOfEachBatchOrAcrossThem) {
  using G = Gemm<Sums, float, void>;
  Problem<G> p{5, 7, 3, 3};
  Array<float> row(3 * 7), sum(3);
  Array<half_t> col(3 * 5);
  auto args = p.arguments(
      {{{{}, {sum.data(), 0, {{}, {}, 1}}}, {col.data(), -1e30f, {{}, {}, 5}}}, {row.data(), 0, {{}, {}, 7}}});
  for (int twice = 0; twice < 2; ++twice) {  // a second run adds nothing to the first
    p.run(args);
    ASSERT_EQ(p.gemm.run(), Status::kSuccess);
    for (int l = 0; l < 3; ++l) {
      double all = 0;
      for (int m = 0; m < 5; ++m) {
        double most = -1e30;
        for (int n = 0; n < 7; ++n) most = std::max(most, p.acc(l, m, n)), all += p.acc(l, m, n);
        EXPECT_NEAR(col.at(l * 5 + m), most, 1e-2);
      }
      EXPECT_EQ(sum.at(l), all);
      for (int n = 0; n < 7; ++n) {
        double down = 0;
        for (int m = 0; m < 5; ++m) down += p.acc(l, m, n);
        EXPECT_EQ(row.at(l * 7 + n), down);
      }
    }
  }
  // A batch stride of 0: over all batches. The column, which nobody wants, is null.
  args = p.arguments({{{{}, {sum.data()}}, {}}, {row.data()}});
  p.run(args);
  double all = 0;
  for (int n = 0; n < 7; ++n) {
    double down = 0;
    for (int l = 0; l < 3; ++l)
      for (int m = 0; m < 5; ++m) down += p.acc(l, m, n);
    EXPECT_EQ(row.at(n), down);
    all += down;
  }
  EXPECT_EQ(sum.at(0), all);
  p.expect([&](int l, int m, int n) { return p.acc(l, m, n); });  // D is the tree's own value
}

TEST(CutlassRun, AMaximumBeginsWithItsIdentityAndDropsNaN) {
  using Most = Sm90EVT<Sm90ColReduction<maximum, maximum, maximum, 0, T, float, float, R>, A>;
  using G = Gemm<Most, float, void>;
  Problem<G> p{5, 7, 3, 1};
  p.a[0] = std::nanf("");  // a row of NaN
  Array<float> col(5);
  auto args = p.arguments({{}, {col.data(), 0, {}}});
  p.run(args);
  for (int m = 0; m < 5; ++m) {
    double most = 0;
    for (int n = 0; n < 7; ++n) most = m == 0 ? most : std::max(most, p.acc(0, m, n));
    EXPECT_EQ(col.at(m), most);
  }
}

TEST(CutlassRun, PartialResultsLieInWholeTiles) {
  using Small = Shape<_4, _8, _16>;
  using Tree = Sm90EVT<
      Sm90RowReduction<plus, plus, plus, 0, Small, half_t, float, R, Stride<_0, _1, _0>, 8, true, false>,
      Sm90EVT<Sm90ColReduction<plus, plus, plus, 0, Small, half_t, float, R, Stride<_1, _0, _0>, 8, true, false>, A>>;
  using G = Gemm<Tree, float, void>;
  Problem<G> p{10, 19, 3, 2};  // 3 x 3 tiles, 12 x 24 elements
  Array<float> rows(2 * 3 * 24), cols(2 * 3 * 12);
  std::fill(rows.elements.begin(), rows.elements.end(), -77.f);
  p.run(p.arguments({{{}, {cols.data()}}, {rows.data()}}));
  for (int l = 0; l < 2; ++l) {
    for (int t = 0; t < 3; ++t) {
      for (int n = 0; n < 24; ++n) {
        double sum = 0;
        for (int m = 4 * t; m < std::min(10, 4 * t + 4) && n < 19; ++m) sum += p.acc(l, m, n);
        EXPECT_EQ(rows.at((l * 3 + t) * 24 + n), n < 19 ? sum : -77);
      }
      for (int m = 0; m < 10; ++m) {
        double sum = 0;
        for (int n = 8 * t; n < std::min(19, 8 * t + 8); ++n) sum += p.acc(l, m, n);
        EXPECT_EQ(cols.at((l * 3 + t) * 12 + m), sum);
      }
    }
  }
}

template <int top_k>
void expect_top_k() {
  for (const int N : {1, 3, 4, 65, 1000}) {
    using G = Gemm<LinCombTopKSoftmaxCol<top_k, float, float>>;
    Problem<G> p{3, N, 2, 1};
    p.run(p.arguments());
    for (int m = 0; m < 3; ++m) {
      std::vector<double> x;
      for (int n = 0; n < N; ++n) x.push_back(p.acc(0, m, n));
      std::vector<double> top = x;
      std::sort(top.rbegin(), top.rend());
      top.resize(std::min<std::size_t>(top_k, top.size()));
      double sum = 0;
      for (const double t : top) sum += std::exp(t - top[0]);
      for (int n = 0; n < N; ++n) {
        const double expected = N >= top_k && x[static_cast<std::size_t>(n)] < top.back()
                                    ? 0
                                    : std::exp(x[static_cast<std::size_t>(n)] - top[0]) / sum;
        EXPECT_NEAR(p.d.at(m * N + n), expected, 1e-5) << N << ' ' << m << ' ' << n;
      }
    }
  }
}

TEST(CutlassRun, TopKOfAnyWidth) {
  expect_top_k<1>();
  expect_top_k<3>();
  expect_top_k<4>();
  expect_top_k<16>();
}

TEST(CutlassRun, ScaledWithTwoLargestMagnitudes) {
  using G =
      Gemm<ScaledLinCombPerRowBiasEltActAmaxAux<RowMajor, ReLU, float_e4m3_t, float, float_e4m3_t, float, float, float>,
           float_e4m3_t, float, float_e4m3_t>;
  Problem<G> p{5, 7, 16, 1};
  Array<float> bias(5, 3);
  Array<float_e4m3_t> aux(35);
  float amax_d = -1, amax_aux = -1;
  const float scale_b = 0.5f;
  auto args = p.arguments();
  auto& t = args.epilogue.thread;
  t.alpha = 2, t.beta = 1, t.scale_a = 0.25f, t.scale_b_ptr = &scale_b, t.scale_c = 2, t.scale_d = 0.5f,
  t.scale_aux = 4;
  t.bias_ptr = bias.data(), t.amax_D_ptr = &amax_d, t.amax_aux_ptr = &amax_aux, t.aux_ptr = aux.data(),
  t.dAux = {7, {}, 0};
  p.run(args);
  double most_d = 0, most_aux = 0;
  for (int m = 0; m < 5; ++m) {
    for (int n = 0; n < 7; ++n) {
      const double z = 2 * p.source(0, m, n) + (0.25 * p.acc(0, m, n) + bias.at(m));
      most_d = std::max(most_d, std::max(0.0, z)), most_aux = std::max(most_aux, std::fabs(z));
      EXPECT_EQ(aux.at(m * 7 + n), float(float_e4m3_t(4 * z)));
      EXPECT_EQ(p.d.at(m * 7 + n), float(float_e4m3_t(0.5 * std::max(0.0, z))));
    }
  }
  EXPECT_EQ(amax_d, most_d);
  EXPECT_EQ(amax_aux, most_aux);
}

TEST(CutlassRun, GradientAndItsBias) {
  using G = Gemm<LinCombDeEltActDePerRowBias<RowMajor, dGELU, half_t, float, float, float, void>, half_t, void, half_t>;
  Problem<G> p{3, 6, 8, 3};
  Array<float> z(3 * 18, 1), dbias(3 * 3);
  auto args = p.arguments();
  auto& t = args.epilogue.thread;
  t.alpha = 0.5f, t.aux_ptr = z.data(), t.dAux = {6, {}, 18}, t.dbias_ptr = dbias.data(), t.dDbias = {{}, {}, 3};
  p.run(args);
  const auto gradient = [&](int l, int m, int n) {
    const double x = z.at((l * 3 + m) * 6 + n), u = 0.7978845608028654 * (x + 0.044715 * x * x * x), h = std::tanh(u);
    return 0.5 * p.acc(l, m, n) *
           (0.5 * (1 + h) + 0.5 * x * (1 - h * h) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x));
  };
  p.expect(gradient, 1e-3);
  for (int l = 0; l < 3; ++l) {
    for (int m = 0; m < 3; ++m) {
      double sum = 0;
      for (int n = 0; n < 6; ++n) sum += gradient(l, m, n);
      EXPECT_NEAR(dbias.at(l * 3 + m), sum, 1e-4);
    }
  }
}

TEST(CutlassRun, BitsOfAReluAndItsGradient) {
  using Forward = Gemm<LinCombPerColBiasEltActAux<RowMajor, ReLU, float, float, uint1b_t>, float, float>;
  Problem<Forward> f{5, 7, 3, 1};
  std::vector<uint1b_t> bits(35);
  auto args = f.arguments();
  args.epilogue.thread.aux_ptr = bits.data(), args.epilogue.thread.dAux = {7, {}, 0};
  f.run(args);
  for (int i = 0; i < 35; ++i) EXPECT_EQ(bits[static_cast<std::size_t>(i)], f.acc(0, i / 7, i % 7) >= 0);
  using Backward = Gemm<LinCombDeEltAct<RowMajor, dReLU, float, float, uint1b_t>, float, float>;
  Problem<Backward> b{5, 7, 3, 1};
  auto back = b.arguments();
  back.epilogue.thread.aux_ptr = bits.data(), back.epilogue.thread.dAux = {7, {}, 0};
  b.run(back);
  b.expect([&](int, int m, int n) { return bits[static_cast<std::size_t>(m * 7 + n)] ? b.acc(0, m, n) : 0; });
}

TEST(CutlassRun, IntegersBecomeFloats) {
  using G = Gemm<LinCombEltAct<Clamp, std::int8_t, float, std::int8_t>, std::int8_t, std::int8_t, std::int8_t>;
  EXPECT_NE(evt::print<G>().find("cast(acc, f32)"), std::string::npos) << evt::print<G>();
  Problem<G> p{5, 7, 40, 1};
  auto args = p.arguments();
  args.epilogue.thread.alpha = 0.5f, args.epilogue.thread.beta = 2, args.epilogue.thread.activation = {-90, 100};
  p.run(args);
  p.expect([&](int l, int m, int n) {
    return std::nearbyint(std::clamp(2 * p.source(l, m, n) + 0.5 * p.acc(l, m, n), -90.0, 100.0));
  });
}

TEST(CutlassRun, WithoutD) {
  using Loss =
      Sm90EVT<Sm90ScalarReduction<plus, atomic_add, float, float, R>, Sm90EVT<P<multiplies>, A, Sm90SrcFetch<float>>>;
  using G = Gemm<Loss, float, float, void>;
  Problem<G> p{5, 7, 3, 1};
  float sum = -1;
  auto args = p.arguments({{}, {&sum}});
  args.epilogue.ptr_D = nullptr;
  p.run(args);
  double expected = 0;
  for (int m = 0; m < 5; ++m)
    for (int n = 0; n < 7; ++n) expected += p.acc(0, m, n) * p.source(0, m, n);
  EXPECT_EQ(sum, expected);
}

struct Kept {
  struct Arguments {
    float least = 0;
    const half_t* weight = nullptr;
    float* kept = nullptr;
  };
  static constexpr const char* name = "Kept";
  static Value build(evt::Scope& scope, const Arguments& a, std::span<const Value> x) {
    const Value y =
        where(x[0] > scope.parameter(a.least), x[0], 0) * scope.operand(row_axes, a.weight, {0, 1, 0}, half_t(1));
    scope.output(sum(y, Axis::n), col_axes, a.kept, {1, 0, 0});
    return y;
  }
};

TEST(CutlassRun, ANodeOfOnesOwn) {
  using G = Gemm<Sm90EVT<P<negate>, Sm90EVT<Kept, A>>, float, void>;
  Problem<G> p{5, 7, 3, 1};
  Array<half_t> weight(7, 2);
  Array<float> kept(5);
  p.run(p.arguments({{{}, {0.5f, weight.data(), kept.data()}}, {}}));
  const auto y = [&](int m, int n) { return p.acc(0, m, n) > 0.5 ? p.acc(0, m, n) * weight.at(n) : 0; };
  p.expect([&](int, int m, int n) { return -y(m, n); });
  for (int m = 0; m < 5; ++m) {
    double sum = 0;
    for (int n = 0; n < 7; ++n) sum += y(m, n);
    EXPECT_EQ(kept.at(m), sum);
  }
  p.run(p.arguments({{{}, {-100.f}}, {}}));  // a weight of 1, and no sums
  p.expect([&](int l, int m, int n) { return -p.acc(l, m, n); });
}

TEST(CutlassRun, RefusesAndWritesNothing) {
  using Tree = Sm90EVT<Sm90ColReduction<plus, plus, plus, 0, T, float, float, R>,
                       Sm90EVT<P<plus>, A, Sm90RowBroadcast<0, T, float, float, Stride<_0, _1, _0>, 4, false>>>;
  using G = Gemm<Tree, float, void>;
  Problem<G> p{4, 5, 3, 1};
  Array<float> row(6, 1), col(4, 9);
  const auto d = p.d;
  const auto was = col;
  const auto refuse = [&](typename G::Arguments args, Status status, const char* why) {
    EXPECT_EQ(G::can_implement(args), status);
    EXPECT_NE(G::why().find(why), std::string::npos) << G::why();
    EXPECT_EQ(p.gemm.initialize(args), status);
    EXPECT_EQ(p.gemm.run(), status);
    EXPECT_TRUE(p.d == d && col == was);
  };
  const auto good = p.arguments({{{}, {row.data()}, {}}, {col.data()}});
  auto args = good;
  args.epilogue.thread.op_0.op_1.ptr_row =
      reinterpret_cast<const float*>(reinterpret_cast<const char*>(row.data()) + 2);
  refuse(args, Status::kErrorMisalignedOperand, "PL0311: 'row0' starts at an address");
  args = good, args.epilogue.thread.op_0.op_1.ptr_row = nullptr;
  refuse(args, Status::kErrorInvalidProblem, "PL0310: 'row0' has no data");
  args = good, args.mainloop.ptr_B = nullptr;
  refuse(args, Status::kErrorInvalidProblem, "PL0310: 'B' has no data");
  args = good, args.problem_shape.M = -1;
  refuse(args, Status::kErrorInvalidProblem, "PL0312: a problem of M = -1, N = 5, K = 3, L = 1");
  args = good, args.problem_shape.L = -2;
  refuse(args, Status::kErrorInvalidProblem, "PL0312");
  args = good, args.epilogue.dD = {0, {}, 0};
  refuse(args, Status::kErrorInvalidLayout, "PL0307: output 'D' has the stride 0");
  args = good, args.epilogue.ptr_D = p.a.data();
  refuse(args, Status::kErrorInvalidLayout, "PL0309");
  args = good, args.epilogue.thread.op_1.reduction_identity = 1;
  refuse(args, Status::kErrorInvalidProblem, "a reduction_identity of 1");
  args = good, args.target = Target::cuda(), args.target.isa = "sm_90a";  // compiles, and runs only where there is one
  if (Target::best().device == Device::cpu) refuse(args, Status::kErrorInsufficientDriver, "PL0501");
  EXPECT_EQ(p.gemm(good), Status::kSuccess) << p.gemm.why();
  EXPECT_EQ(p.gemm.why(), "");
  using Beta = Gemm<LinearCombination<float, float>>;
  Problem<Beta> q{4, 5, 3, 1};
  auto null_c = q.arguments();
  null_c.epilogue.ptr_C = nullptr, null_c.epilogue.thread.beta = 2;
  EXPECT_EQ(Beta::can_implement(null_c), Status::kErrorInvalidProblem);
  EXPECT_NE(Beta::why().find("C is null, but the beta"), std::string::npos) << Beta::why();
  Beta unset;
  EXPECT_EQ(unset.run(), Status::kInvalid);
}

TEST(CutlassRun, EmptyProblems) {
  using G = Gemm<Sums, float, void>;
  Problem<G> p{0, 5, 3, 1};
  Array<float> row(5, 1);
  float sum = 5;
  p.run(p.arguments({{{{}, {&sum}}, {}}, {row.data()}}));
  EXPECT_EQ(sum, 0);
  for (int n = 0; n < 5; ++n) EXPECT_EQ(row.at(n), 0);
  Problem<G> k{2, 5, 0, 1};
  k.run(k.arguments());
  k.expect([](int, int, int) { return 0; });
}

// The same kernels as the same epilogue in text, and the same plan for equal epilogues of other types.
TEST(CutlassRun, TheSameBitsAsText) {
  using Tree = Sm90EVT<P<GELU>, Sm90EVT<P<plus>, A, Sm90RowBroadcast<0, T, float>>>;
  using G = Gemm<Tree, bfloat16_t, void, bfloat16_t>;
  Problem<G> p{33, 65, 40, 1};
  Array<float> row(65, 1);
  p.run(p.arguments({{{}, {row.data()}, {}}, {}}));
  const Plan plan = compile(postlude::Gemm{.a = bf16, .b = bf16},
                            parse("def f(acc, row0: row[f32]):\n  D: bf16 = gelu_erf(acc + row0)\n  return D\n"));
  Array<bfloat16_t> d(33 * 65);
  plan.bind({{"A", Tensor(p.a.data(), bf16, {33, 40})},
             {"B", Tensor(p.b.data(), bf16, {40, 65}, {1, 40})},
             {"row0", Tensor(row.data(), f32, {65})},
             {"D", Tensor(d.data(), bf16, {33, 65})}})
      .run();
  EXPECT_TRUE(d == p.d);
}

}  // namespace
}  // namespace postlude::evt_tests
