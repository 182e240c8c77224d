// CUTLASS's named operations: the text that each should mean, and what runs against plain loops.
#include "evt/problem.h"

namespace postlude::evt_tests {
namespace {

using namespace evt::cutlass;

const std::string linear = "scaled(s0, C) + s1 * acc";
const std::string head = "def epilogue(acc, s0: scalar[f32], C: tile[f16], s1: scalar[f32]";
std::string text(const std::string& parameters, const std::string& body) {
  return head + parameters + "):\n  " + body + "\n";
}

TEST(CutlassOperations, Linear) {
  expect_graph<ScaledAcc<half_t, float>>("def epilogue(acc, s0: scalar[f32]):\n  D: f16 = s0 * acc\n  return D\n");
  expect_graph<LinearCombination<half_t, float>>(text("", "D: f16 = " + linear + "\n  return D"));
  expect_graph<LinCombEltAct<SiLu, half_t, float>>(text("", "D: f16 = silu(" + linear + ")\n  return D"));
  expect_graph<LinCombTopKSoftmaxCol<2, half_t, float>>(
      "def two(a1, a2, b1, b2):\n  high, low = max(a1, b2), max(a2, b1)\n  return max(high, low), min(high, low)\n" +
      text("", "x = " + linear +
                   "\n  first, second = reduce((x, where(x == x, -inf, -inf)), combine=two, identity=(-inf, -inf), "
                   "axis=1)\n  size = first + log(exp(first - first) + exp(second - first))\n"
                   "  D: f16 = where(x >= second, exp(x - size), 0)\n  return D"));
}

TEST(CutlassOperations, Biases) {
  const std::string col = "scaled(s0, C) + (s1 * acc + col0)", row = "scaled(s0, C) + (s1 * acc + row0)";
  expect_graph<LinCombPerRowBias<half_t, float>>(text(", col0: col[f16]", "D: f16 = " + col + "\n  return D"));
  expect_graph<LinCombPerColBias<half_t, float>>(text(", row0: row[f16]", "D: f16 = " + row + "\n  return D"));
  expect_graph<LinCombPerRowBiasEltAct<ReLU, half_t, float, float>>(
      text(", col0: col[f32]", "D: f16 = relu(" + col + ")\n  return D"));
  expect_graph<LinCombPerColBiasEltAct<GELU, half_t, float, bfloat16_t>>(
      text(", row0: row[bf16]", "D: f16 = gelu_erf(" + row + ")\n  return D"));
  expect_graph<LinCombPerRowBiasEltActAux<RowMajor, Tanh, half_t, float, bfloat16_t>>(
      text(", col0: col[f16]", "z = " + col + "\n  aux0: bf16 = z\n  D: f16 = tanh(z)\n  return aux0, D"));
  expect_graph<LinCombPerColBiasEltActAux<ColumnMajor, Tanh, half_t, float>>(
      text(", row0: row[f16]", "z = " + row + "\n  aux0: f16 = z\n  D: f16 = tanh(z)\n  return aux0, D"));
}

TEST(CutlassOperations, VectorsOfAlphaAndBeta) {
  expect_graph<PerRowLinCombPerRowBiasEltAct<ReLU, half_t, float>>(
      "def epilogue(acc, col0: col[f32], C: tile[f16], col1: col[f32], col2: col[f16]):\n"
      "  D: f16 = relu(col0 * C + (col1 * acc + col2))\n  return D\n");
  expect_graph<PerColLinCombPerColBiasEltAct<ReLU, half_t, float>>(
      "def epilogue(acc, row0: row[f32], C: tile[f16], row1: row[f32], row2: row[f16]):\n"
      "  D: f16 = relu(row0 * C + (row1 * acc + row2))\n  return D\n");
  expect_graph<PerColResAddPerColBiasEltAct<ReLU, half_t, float>>(
      "def epilogue(acc, row0: row[f32], C: tile[f16], row1: row[f32], row2: row[f16]):\n"
      "  D: f16 = row0 * C + relu(row1 * acc + row2)\n  return D\n");
}

// Scales are part of alpha and beta; that of D is there only where D is fp8.
TEST(CutlassOperations, Scaled) {
  const auto scaled_text = [](const std::string& vector, const std::string& more, const std::string& body) {
    return "def epilogue(acc, s0: scalar[f32], s1: scalar[f32], C: tile[f16], s2: scalar[f32], s3: scalar[f32], "
           "s4: scalar[f32], " +
           vector + more + "):\n  z = scaled(s0 * s1, C) + (s2 * s3 * s4 * acc + " +
           vector.substr(0, vector.find(':')) + ")\n" + body + "\n";
  };
  const std::string col = "col0: col[f16]", row = "row0: row[f16]", s5 = ", s5: scalar[f32]";
  expect_graph<ScaledLinCombPerRowBiasEltAct<ReLU, half_t, float>>(
      scaled_text(col, "", "  D: f16 = relu(z)\n  return D"));
  expect_graph<ScaledLinCombPerColBiasEltAct<ReLU, half_t, float>>(
      scaled_text(row, "", "  D: f16 = relu(z)\n  return D"));
  expect_graph<ScaledLinCombPerRowBiasEltAct<ReLU, float_e4m3_t, float, half_t, half_t>>(
      scaled_text(col, s5, "  D: e4m3 = relu(z) * s5\n  return D"));
  expect_graph<ScaledLinCombPerColBiasEltAct<ReLU, float_e5m2_t, float, half_t, half_t>>(
      scaled_text(row, s5, "  D: e5m2 = relu(z) * s5\n  return D"));
  // The same with Aux, and the largest magnitudes of what is fp8. They begin with 0.
  expect_graph<ScaledLinCombPerColBiasEltActAmaxAux<RowMajor, ReLU, half_t, float, bfloat16_t>>(
      scaled_text(row, "", "  aux0: bf16 = z\n  D: f16 = relu(z)\n  return aux0, D"));
  expect_graph<
      ScaledLinCombPerRowBiasEltActAmaxAux<RowMajor, ReLU, float_e4m3_t, float, bfloat16_t, float, half_t, half_t>>(
      scaled_text(col, ", s6: scalar[f32]",
                  "  aux0: bf16 = z\n  d = relu(z)\n  s5: f32 = max(max(abs(d)), 0.0)\n"
                  "  D: e4m3 = d * s6\n  return aux0, s5, D"));
}

struct Vector {
  I64 step, batch;  // between two elements, between two batches
  const float* data = nullptr;
  [[nodiscard]] double at(I64 batch_index, I64 i, double otherwise) const {
    return data ? static_cast<double>(data[batch_index * batch + i * step]) : otherwise;
  }
};

TEST(CutlassOperations, RunWithABiasOfEachRowOrColumn) {
  const int M = 5, N = 9, L = 3;
  Array<half_t> rows(I64{L} * M, 6), columns(I64{L} * N, 7);
  const auto check = [&]<class G>(G, bool per_row, auto activation) {
    Problem<G> p{M, N, 7, L};
    auto& bias = per_row ? rows : columns;
    const I64 extent = per_row ? M : N;
    auto args = p.arguments();
    auto& t = args.epilogue.thread;
    const float beta = -0.5f;
    t.alpha = 0.5f, t.beta_ptr = &beta;
    for (const I64 batch : {I64{0}, extent, I64{-1}}) {
      t.bias_ptr = batch < 0 ? nullptr : bias.data();
      t.dBias.op_2 = std::max<I64>(batch, 0);
      p.run(args);
      p.expect(
          [&](int l, int m, int n) {
            const double b = batch < 0 ? 0 : bias.at(l * batch + (per_row ? m : n));
            return activation(beta * p.source(l, m, n) + (0.5 * p.acc(l, m, n) + b));
          },
          1e-3);
    }
  };
  const auto same = [](double x) { return x; };
  const auto relu = [](double x) { return std::max(x, 0.0); };
  check(Gemm<LinCombPerRowBias<half_t, float, half_t, float>, half_t, float, half_t>{}, true, same);
  check(Gemm<LinCombPerColBias<half_t, float, half_t, float>, half_t, float, half_t>{}, false, same);
  check(Gemm<LinCombPerRowBiasEltAct<ReLU, half_t, float, half_t, float>, half_t, float, half_t>{}, true, relu);
  check(Gemm<LinCombPerColBiasEltAct<ReLU, half_t, float, half_t, float>, half_t, float, half_t>{}, false, relu);
}

TEST(CutlassOperations, RunScaledAccumulators) {
  using G = Gemm<ScaledAcc<float, float>, float, void>;
  Problem<G> p{3, 5, 4, 2};
  auto args = p.arguments();
  args.epilogue.ptr_C = nullptr;
  const float alpha[] = {2, -3};
  args.epilogue.thread.alpha_ptr = alpha, args.epilogue.thread.dAlpha = {{}, {}, 1};
  p.run(args);
  p.expect([&](int l, int m, int n) { return alpha[l] * p.acc(l, m, n); });
}

// Aux in either order, null, or with rows that are longer than N.
TEST(CutlassOperations, RunWithAux) {
  using G = Gemm<LinCombPerRowBiasEltActAux<ColumnMajor, Sigmoid, float, float, bfloat16_t>, float, float>;
  const int M = 5, N = 9, L = 2, ld = 8;
  Problem<G> p{M, N, 7, L};
  Array<bfloat16_t> aux(I64{L} * N * ld);
  const Array<bfloat16_t> was = aux;
  Array<float> bias(M, 6);
  auto args = p.arguments();
  auto& t = args.epilogue.thread;
  t.beta = 2, t.bias_ptr = bias.data(), t.aux_ptr = aux.data(), t.dAux = {{}, ld, N * ld};
  const auto z = [&](int l, int m, int n) { return 2 * p.source(l, m, n) + (p.acc(l, m, n) + bias.at(m)); };
  const auto d = [&](int l, int m, int n) { return 1 / (1 + std::exp(-z(l, m, n))); };
  p.run(args);
  p.expect(d, 1e-6);
  for (int l = 0; l < L; ++l) {
    for (int n = 0; n < N; ++n) {
      for (int i = 0; i < ld; ++i) {
        const I64 at = (l * N + n) * ld + i;
        EXPECT_EQ(aux.at(at), i < M ? static_cast<double>(float(bfloat16_t(z(l, i, n)))) : was.at(at));
      }
    }
  }
  t.aux_ptr = nullptr;
  p.run(args);
  p.expect(d, 1e-6);
}

TEST(CutlassOperations, RunVectorsOfAlphaAndBeta) {
  const int M = 6, N = 7, L = 2;
  Array<float> alpha(2 * 7, 1), beta(2 * 7, 2), bias(2 * 7, 3);
  const auto check = [&]<class G>(G, bool per_row, auto epilogue) {
    Problem<G> p{M, N, 5, L};
    const I64 extent = per_row ? M : N;
    const auto bool_stride = [&](bool moves, I64 batch) {
      typename std::remove_reference_t<decltype(p.arguments().epilogue.thread.dAlpha)> s;
      if constexpr (requires { s.op_0 = true; }) s = {moves, {}, batch};
      else s = {{}, moves, batch};
      return s;
    };
    for (int use = 0; use < 16; ++use) {
      const Vector a{use & 1, use & 2 ? extent : 0, use & 4 ? nullptr : alpha.data()};
      const Vector b{use & 2 ? 1 : 0, use & 1 ? 1 : 0, use & 8 ? nullptr : beta.data()};
      const Vector c{1, use & 4 ? extent : 0, use & 1 ? nullptr : bias.data()};
      auto args = p.arguments();
      auto& t = args.epilogue.thread;
      t.alpha = 1.5f, t.beta = -2, t.alpha_ptr = a.data, t.beta_ptr = b.data, t.bias_ptr = c.data;
      t.dAlpha = bool_stride(a.step != 0, a.batch), t.dBeta = bool_stride(b.step != 0, b.batch);
      t.dBias.op_2 = c.batch;
      p.run(args);
      p.expect([&](int l, int m, int n) {
        const int i = per_row ? m : n;
        return epilogue(b.at(l, i, -2) * p.source(l, m, n), a.at(l, i, 1.5) * p.acc(l, m, n) + c.at(l, i, 0));
      });
    }
  };
  const auto together = [](double c, double acc) { return std::max(c + acc, 0.0); };
  check(Gemm<PerRowLinCombPerRowBiasEltAct<ReLU, float, float>>{}, true, together);
  check(Gemm<PerColLinCombPerColBiasEltAct<ReLU, float, float>>{}, false, together);
  check(Gemm<PerColResAddPerColBiasEltAct<ReLU, float, float>>{}, false,
        [](double c, double acc) { return c + std::max(acc, 0.0); });
}

TEST(CutlassOperations, RunScaled) {
  const int M = 5, N = 7;
  Array<float> bias(16, 3);
  const auto check = [&]<class G>(G, bool per_row, double scale_d) {
    Problem<G> p{M, N, 16, 2};
    const float scale_c = 2;
    auto args = p.arguments();
    auto& t = args.epilogue.thread;
    t.alpha = 2, t.beta = 0.5f, t.scale_a = 0.25f, t.scale_b = 0.5f, t.scale_c = 9, t.scale_c_ptr = &scale_c;
    t.scale_d = 0.125f, t.bias_ptr = bias.data(), t.dBias.op_2 = 1, t.activation = {-8, 8};
    p.run(args);
    p.expect([&](int l, int m, int n) {
      const double z = p.source(l, m, n) + (0.25 * p.acc(l, m, n) + bias.at(l + (per_row ? m : n)));
      return double{float(typename G::ElementD(float(scale_d * std::clamp(z, -8.0, 8.0))))};
    });
  };
  using F8 = float_e4m3_t;
  check(Gemm<ScaledLinCombPerRowBiasEltAct<Clamp, F8, float, float, half_t>, F8, half_t, F8>{}, true, 0.125);
  check(Gemm<ScaledLinCombPerColBiasEltAct<Clamp, F8, float, float, half_t>, F8, half_t, F8>{}, false, 0.125);
  check(Gemm<ScaledLinCombPerRowBiasEltAct<Clamp, float, float, float, half_t>, F8, half_t, float>{}, true, 1);
  check(Gemm<ScaledLinCombPerColBiasEltAct<Clamp, float, float, float, half_t>, F8, half_t, float>{}, false, 1);
}

// Aux and D, each fp8 or not: what is fp8 is scaled and has a largest magnitude, by pointer or none.
TEST(CutlassOperations, RunScaledWithAuxAndLargestMagnitudes) {
  const int M = 5, N = 7;
  Array<float> bias(M + N, 3);
  const auto check = [&]<class G, class Aux>(G, Aux, bool per_row) {
    constexpr bool fp8_d = sizeof(typename G::ElementD) == 1, fp8_aux = sizeof(Aux) == 1;
    Problem<G> p{M, N, 16, 1};
    Array<Aux> aux(M * N);
    float amax_d = -1, amax_aux = -1;
    auto args = p.arguments();
    auto& t = args.epilogue.thread;
    t.alpha = 0.25f, t.beta = -1, t.scale_d = 0.5f, t.scale_aux = 4, t.bias_ptr = bias.data();
    t.amax_D_ptr = &amax_d, t.amax_aux_ptr = &amax_aux, t.aux_ptr = aux.data(), t.dAux = {N, {}, 0};
    p.run(args);
    double most_d = 0, most_aux = 0;
    for (int m = 0; m < M; ++m) {
      for (int n = 0; n < N; ++n) {
        const double z = -p.source(0, m, n) + (0.25 * p.acc(0, m, n) + bias.at(per_row ? m : n)), d = std::max(z, 0.0);
        most_d = std::max(most_d, d), most_aux = std::max(most_aux, std::fabs(z));
        EXPECT_EQ(aux.at(m * N + n), double{float(Aux(float((fp8_aux ? 4 : 1) * z)))});
        EXPECT_EQ(p.d.at(m * N + n), double{float(typename G::ElementD(float((fp8_d ? 0.5 : 1) * d)))});
      }
    }
    EXPECT_EQ(amax_d, fp8_d ? most_d : -1);
    EXPECT_EQ(amax_aux, fp8_aux ? most_aux : -1);
    t.amax_D_ptr = nullptr, t.amax_aux_ptr = nullptr, t.aux_ptr = nullptr, amax_d = -2;
    const auto before = p.d;
    p.run(args);
    EXPECT_TRUE(p.d == before);
    EXPECT_EQ(amax_d, -2);
  };
  using F8 = float_e4m3_t;
  const auto rows = [&]<class D, class Aux>(D, Aux aux) {
    check(Gemm<ScaledLinCombPerRowBiasEltActAmaxAux<RowMajor, ReLU, D, float, Aux, float, float, F8>, F8, F8, D>{}, aux,
          true);
    check(Gemm<ScaledLinCombPerColBiasEltActAmaxAux<RowMajor, ReLU, D, float, Aux, float, float, F8>, F8, F8, D>{}, aux,
          false);
  };
  rows(F8{}, F8{});
  rows(F8{}, half_t{});
  rows(half_t{}, F8{});
  rows(half_t{}, bfloat16_t{});
}

TEST(CutlassOperations, RunGradients) {
  using G = Gemm<LinCombDeEltAct<ColumnMajor, dReLU_Z, float, float, half_t>>;
  const int M = 5, N = 7;
  Problem<G> p{M, N, 3, 2};
  Array<half_t> z(2 * M * N, 2);
  auto args = p.arguments();
  auto& t = args.epilogue.thread;
  t.alpha = 2, t.beta = 3, t.aux_ptr = z.data(), t.dAux = {{}, M, M * N};
  p.run(args);
  p.expect([&](int l, int m, int n) {
    return z.at((l * N + n) * M + m) < 0 ? 0 : 3 * p.source(l, m, n) + 2 * p.acc(l, m, n);
  });
}

}  // namespace
}  // namespace postlude::evt_tests
