// CATLASS's graphs: what they mean as text, and what runs, against plain loops.
#include "evt/support.h"

#include <postlude/evt/catlass.h>

#include <algorithm>

namespace postlude::evt_tests {
namespace {

using namespace evt::catlass;

using L = layout::RowMajor;
template <class E = float>
using Acc = VisitorAccLoad<E>;
template <class E = float>
using Load = VisitorAuxLoad<E, L>;
template <class E = float>
using Row = VisitorRowBroadcast<E, L>;
template <class E = float>
using Store = VisitorAuxStore<E, L>;
template <template <class> class F, class... S>
using P = VisitorCompute<F, float, S...>;

TEST(CatlassGraph, Functions) {
  const auto unary = [](const std::string& body) {
    return "def epilogue(acc):\n  aux0: f32 = " + body + "\n  return aux0\n";
  };
  const auto scalar = [](const std::string& body) {
    return "def epilogue(acc, p0: scalar[f32]):\n  aux0: f32 = " + body + "\n  return aux0\n";
  };
  const auto binary = [](const std::string& body) {
    return "def epilogue(acc, aux0: tile[f32]):\n  aux1: f32 = " + body + "\n  return aux1\n";
  };
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Exp>, Acc<>>>>(unary("exp(acc)"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Relu>, Acc<>>>>(unary("relu(acc)"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Silu>, Acc<>>>>(unary("silu(acc)"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Sqrt>, Acc<>>>>(unary("sqrt(acc)"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<RsqrtFast>, Acc<>>>>(unary("rsqrt(acc)"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Rsqrt>, Acc<>>>>(unary("1 / sqrt(acc)"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Reciprocal>, Acc<>>>>(unary("1 / acc"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Sigmoid>, Acc<>>>>(unary("sigmoid(acc)"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<LeakyRelu, float>, Acc<>>>>(scalar("where(acc >= 0, acc, acc * p0)"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Muls, float>, Acc<>>>>(scalar("acc * p0"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Adds, float>, Acc<>>>>(scalar("acc + p0"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Maxs, float>, Acc<>>>>(scalar("max(acc, p0)"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Mins, float>, Acc<>>>>(scalar("min(acc, p0)"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Add>, Acc<>, Load<>>>>(binary("acc + aux0"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Sub>, Load<>, Acc<>>>>(binary("aux0 - acc"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Mul>, Acc<>, Load<>, Acc<>>>>(binary("acc * aux0 * acc"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Div>, Acc<>, Load<>>>>(binary("acc / aux0"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Max>, Acc<>, Load<>>>>(binary("max(acc, aux0)"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Min>, Acc<>, Load<>>>>(binary("min(acc, aux0)"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<AddRelu>, Acc<>, Load<>>>>(binary("relu(acc + aux0)"));
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<Prelu>, Acc<>, Load<>>>>(binary("where(acc >= 0, acc, acc * aux0)"));
}

TEST(CatlassGraph, ManyInputs) {
  using Nine = TreeVisitor<P<Add>, Acc<>, Load<>, Acc<>, Acc<>, Acc<>, Acc<>, Acc<>, Acc<>, Load<>>;
  expect_graph<TreeVisitor<Store<>, Nine>>(
      "def epilogue(acc, aux0: tile[f32], aux1: tile[f32]):\n"
      "  aux2: f32 = acc + aux0 + acc + acc + acc + acc + acc + acc + aux1\n  return aux2\n");
}

TEST(CatlassGraph, CastsAndRounding) {
  expect_graph<TreeVisitor<Store<half>, TreeVisitor<VisitorCast<half, float>, TreeVisitor<P<Add>, Acc<>, Row<>>>>>(
      "def epilogue(acc, row0: row[f32]):\n  aux0: f16 = cast(acc + row0, f16)\n  return aux0\n");
  expect_graph<TreeVisitor<Store<half>, TreeVisitor<VisitorCast<half, float, AscendC::RoundMode::CAST_TRUNC>, Acc<>>>>(
      "def epilogue(acc):\n  aux0: f16 = cast(acc, f16, round=toward_zero)\n  return aux0\n");
  expect_graph<TreeVisitor<Store<bfloat16_t>,
                           TreeVisitor<VisitorCast<bfloat16_t, float, AscendC::RoundMode::CAST_CEIL>, Acc<>>>>(
      "def epilogue(acc):\n  aux0: bf16 = cast(acc, bf16, round=up)\n  return aux0\n");
  // Half precision: of the accumulator, and of each operation.
  expect_graph<TreeVisitor<Store<half>, TreeVisitor<VisitorCompute<Add, half>, Acc<half>, Load<half>>>>(
      "def epilogue(acc, aux0: tile[f16]):\n  aux1: f16 = cast(acc, f16) + aux0\n  return aux1\n");
  expect_graph<TreeVisitor<
      Store<>, TreeVisitor<VisitorCast<float, half>, TreeVisitor<VisitorCompute<Muls, half, half>, Load<half>>>>>(
      "def epilogue(acc, aux0: tile[f16], p0: scalar[f16]):\n  aux1: f32 = cast(aux0 * p0, f16)\n  return aux1\n");
}

using Tanh = TopologicalVisitor<tuple<seq<>, seq<0>, seq<1>, seq<2>, seq<3>, seq<4>, seq<4>, seq<5, 6>, seq<7>>, Acc<>,
                                P<Mins, float>, P<Maxs, float>, P<Muls, float>, P<Exp>, P<Adds, float>, P<Adds, float>,
                                P<Div>, Store<>>;

TEST(CatlassGraph, TopologicalVisitors) {
  expect_graph<Tanh>(
      "def epilogue(acc, p0: scalar[f32], p1: scalar[f32], p2: scalar[f32], p3: scalar[f32], p4: scalar[f32]):\n"
      "  e = exp(max(min(acc, p0), p1) * p2)\n  aux0: f32 = (e + p3) / (e + p4)\n  return aux0\n");
  // A store in the middle hands on; what nothing depends on is not there.
  expect_graph<
      TopologicalVisitor<tuple<seq<>, seq<0>, seq<>, seq<1, 1>, seq<3>>, Acc<>, Store<>, Load<>, P<Add>, Store<>>>(
      "def epilogue(acc):\n  aux0: f32 = acc\n  aux1: f32 = acc + acc\n  return aux0, aux1\n");
}

// A function of a person's own, as CATLASS's guide writes one.
template <typename T>
struct ClampMin {
  T min_value;

  CATLASS_DEVICE
  void operator()(AscendC::LocalTensor<T>& dst, uint32_t compute_length, AscendC::LocalTensor<T> const& src) const {
    AscendC::Maxs(dst, src, min_value, compute_length);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Muls(dst, dst, T(2), compute_length);
  }
};

TEST(CatlassGraph, AFunctionOfOnesOwn) {
  expect_graph<TreeVisitor<Store<>, TreeVisitor<P<ClampMin, float>, Acc<>>>>(
      "def epilogue(acc, p0: scalar[f32]):\n  aux0: f32 = max(acc, p0) * 2\n  return aux0\n");
}

template <bool on_chip, class... T>
struct KernelOf {
  using type = BasicMatmulTlaVisitor<T...>;
};
template <class... T>
struct KernelOf<true, T...> {
  using type = BasicMatmulTlaUbVisitor<T...>;
};
template <class EVG, bool on_chip = false, class E = float, class Bias = void, class LB = L>
struct Device {
  using Block = BlockMmadTla<MmadPingpong<Arch::Ascend950>, Shape<Int<256>, Int<256>, Int<128>>,
                             Shape<Int<256>, Int<256>, Int<32>>, E, E, float, Bias,
                             PackedTileCopyTla<Arch::Ascend950, E, L, E, LB, float, L>>;
  using Behind = BlockEpilogue<EpilogueVisitor<on_chip>, Arch::Ascend950, Int<0>, EVG, float>;
  using Gemm = DeviceGemm<typename KernelOf<on_chip, Block, Behind, GemmIdentityBlockSwizzle<3, 0>>::type>;
};

constexpr int M = 5, N = 7, K = 6;

double product(const Array<float>& a, const Array<float>& b, int m, int n) {
  double sum = 0;
  for (int k = 0; k < K; ++k) sum += a.at(m * K + k) * b.at(k * N + n);
  return sum;
}

TEST(CatlassRun, AddInPlaceByEitherPath) {
  using EVG = TreeVisitor<Store<>, TreeVisitor<P<Add>, VisitorAccLoad<float, true>, Load<>>>;
  const auto check = [](auto gemm) {
    Array<float> a(M * K, 1), b(K * N, 2), x(M * N, 3);
    Array<float> d = x;
    const L l(M, N);
    typename decltype(gemm)::Arguments arguments{
        {M, N, K}, a.data(), {M, K}, b.data(), {K, N}, nullptr, {}, nullptr, {{{}, {d.data(), l}, {}}, {d.data(), l}}};
    ASSERT_EQ(gemm.CanImplement(arguments), Status::kSuccess) << gemm.why();
    EXPECT_EQ(gemm.GetWorkspaceSize(arguments), 0u);
    ASSERT_EQ(gemm.Initialize(arguments, nullptr), Status::kSuccess);
    ASSERT_EQ(gemm(nullptr, 8), Status::kSuccess);
    for (int m = 0; m < M; ++m)
      for (int n = 0; n < N; ++n) EXPECT_EQ(d.at(m * N + n), product(a, b, m, n) + x.at(m * N + n));
  };
  check(Device<EVG>::Gemm());
  check(Device<EVG, true>::Gemm());
}

// Any two strides, by MakeShape and MakeStride.
TEST(CatlassRun, LayoutsOfAnyStrides) {
  const auto wide = MakeLayout(MakeShape(std::uint32_t{M}, std::uint32_t{N}), MakeStride(9, Int<1>{}));
  const auto sparse = MakeLayout(MakeShape(M, N), MakeStride(2 * N, 2));
  using Any = std::remove_const_t<decltype(wide)>;
  using EVG = TreeVisitor<VisitorAuxStore<float, Any>, TreeVisitor<P<Sub>, Acc<>, VisitorAuxLoad<float, Any>>>;
  Array<float> a(M * K, 1), b(K * N, 2), x(M * N * 2, 3), d(M * 9, 4);
  const Array<float> was = d;
  Device<EVG>::Gemm gemm;
  const Device<EVG>::Gemm::Arguments arguments{{M, N, K}, a.data(), {M, K},
                                               b.data(),  {K, N},   nullptr,
                                               {},        nullptr,  {{{}, {x.data(), sparse}, {}}, {d.data(), wide}}};
  ASSERT_EQ(gemm.Initialize(arguments), Status::kSuccess) << gemm.why();
  ASSERT_EQ(gemm(), Status::kSuccess);
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < 9; ++n)
      EXPECT_EQ(d.at(m * 9 + n), n < N ? product(a, b, m, n) - x.at((m * N + n) * 2) : was.at(m * 9 + n));
}

TEST(CatlassRun, TanhWithScalarsByValue) {
  Array<float> a(M * K, 1), b(K * N, 2), d(M * 9);
  Device<Tanh>::Gemm gemm;
  const L wide(M, N, 9);  // rows of nine
  const Device<Tanh>::Gemm::Arguments arguments{
      {M, N, K}, a.data(), {M, K},
      b.data(),  {K, N},   nullptr,
      {},        nullptr,  {{}, {{8.8f}}, {{-8.8f}}, {{2.f}}, {}, {{-1.f}}, {{1.f}}, {}, {d.data(), wide}}};
  ASSERT_EQ(gemm.Initialize(arguments), Status::kSuccess) << gemm.why();
  ASSERT_EQ(gemm(), Status::kSuccess);
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) EXPECT_NEAR(d.at(m * 9 + n), std::tanh(product(a, b, m, n)), 1e-6);
}

TEST(CatlassRun, BiasOnTheAccumulatorAndARowBehind) {
  using EVG = TreeVisitor<Store<half>, TreeVisitor<VisitorCast<half, float>, TreeVisitor<P<Add>, Acc<>, Row<>>>>;
  using D = Device<EVG, false, float, half, layout::ColumnMajor>;
  Array<float> a(M * K, 1), b(K * N, 2), turned(K * N), row(N, 4);
  for (int k = 0; k < K; ++k)
    for (int n = 0; n < N; ++n) turned[n * K + k] = b[k * N + n];
  Array<half> bias(N, 5), d(M * N);
  D::Gemm gemm;
  D::Gemm::Arguments arguments{{M, N, K},
                               a.data(),
                               {M, K},
                               turned.data(),
                               {K, N},
                               nullptr,
                               {},
                               bias.data(),
                               {{{{}, {row.data(), {1, N}}, {}}, {}}, {d.data(), {M, N}}}};
  for (const bool with_bias : {true, false}) {
    if (!with_bias) arguments.ptrBias = nullptr;
    ASSERT_EQ(gemm.Initialize(arguments), Status::kSuccess) << gemm.why();
    ASSERT_EQ(gemm(), Status::kSuccess);
    for (int m = 0; m < M; ++m) {
      for (int n = 0; n < N; ++n) {
        const double x = product(a, b, m, n) + (with_bias ? bias.at(n) : 0) + row.at(n);
        EXPECT_EQ(d.at(m * N + n), float(half(x)));
      }
    }
  }
}

// Behind a product of integers: three stores along one chain, one by columns; A and B by columns; a bias.
TEST(CatlassRun, IntegersStoredOnTheWay) {
  using I32 = std::int32_t;
  using Col = layout::ColumnMajor;
  using EVG = TopologicalVisitor<tuple<seq<>, seq<0>, seq<1>, seq<2>, seq<3>, seq<4>, seq<5>>, Acc<I32>,
                                 VisitorAuxStore<I32, Col>, VisitorCast<float, I32>, P<Muls, float>, Store<>,
                                 VisitorCast<half, float, AscendC::RoundMode::CAST_FLOOR>, Store<half>>;
  using Block = BlockMmadTla<MmadPingpong<Arch::AtlasA2>, Shape<>, Shape<>, std::int8_t, std::int8_t, I32, I32,
                             PackedTileCopyTla<Arch::AtlasA2, std::int8_t, Col, std::int8_t, Col, I32, L>>;
  using Behind = BlockEpilogue<EpilogueVisitor<>, Arch::AtlasA2, void, EVG, I32>;
  DeviceGemm<BasicMatmulTlaVisitor<Block, Behind>> gemm;
  Array<std::int8_t> a(M * K, 1), b(K * N, 2);
  Array<I32> bias(N, 3), sums(M * N);
  Array<float> scaled(M * N);
  Array<half> floors(M * N);
  const decltype(gemm)::Arguments arguments{
      {M, N, K},
      a.data(),
      {M, K},
      b.data(),
      {K, N},
      nullptr,
      {},
      bias.data(),
      {{}, {sums.data(), {M, N}}, {}, {{0.37f}}, {scaled.data(), {M, N}}, {}, {floors.data(), {M, N}}}};
  ASSERT_EQ(gemm.Initialize(arguments), Status::kSuccess) << gemm.why();
  ASSERT_EQ(gemm(), Status::kSuccess);
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      double sum = bias.at(n);
      for (int k = 0; k < K; ++k) sum += a.at(k * M + m) * b.at(n * K + k);
      EXPECT_EQ(sums.at(n * M + m), sum);
      const float wanted = static_cast<float>(sum) * 0.37f;
      EXPECT_EQ(scaled.at(m * N + n), wanted);
      const double below = floors.at(m * N + n);
      EXPECT_LE(below, wanted);
      EXPECT_GT(below, wanted - std::fabs(wanted) / 1024 - 1e-7);
    }
  }
}

// What is half is rounded after each operation.
TEST(CatlassRun, AChainOfHalves) {
  using EVG =
      TreeVisitor<Store<half>, TreeVisitor<VisitorCompute<Muls, half, half>,
                                           TreeVisitor<VisitorCompute<Add, half>, VisitorAccLoad<half>, Row<half>>>>;
  using Block = BlockMmadTla<MmadPingpong<Arch::Ascend950>, Shape<>, Shape<>, half, half, half>;
  using Behind = BlockEpilogue<EpilogueVisitor<>, Arch::Ascend950, Int<0>, EVG, half>;
  DeviceGemm<BasicMatmulTlaVisitor<Block, Behind>> gemm;
  Array<half> a(M * K, 1), b(K * N, 2), row(N), d(M * N);
  for (int n = 0; n < N; ++n) row[n] = half(0.3f * static_cast<float>(n));
  const decltype(gemm)::Arguments arguments{
      {M, N, K}, a.data(), {M, K},
      b.data(),  {K, N},   nullptr,
      {},        nullptr,  {{{{}, {row.data(), {1, N}}, {}}, {{half(1.7f)}}}, {d.data(), {M, N}}}};
  ASSERT_EQ(gemm.Initialize(arguments), Status::kSuccess) << gemm.why();
  ASSERT_EQ(gemm(), Status::kSuccess);
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      double sum = 0;
      for (int k = 0; k < K; ++k) sum += a.at(m * K + k) * b.at(k * N + n);
      const half shifted(half(sum) + row[n]);
      EXPECT_EQ(d.at(m * N + n), float(half(shifted * half(1.7f))));
    }
  }
}

TEST(CatlassRun, RefusesAndWritesNothing) {
  using EVG = TreeVisitor<Store<>, TreeVisitor<P<Add>, Acc<>, Load<>>>;
  using D = Device<EVG>;
  Array<float> a(M * K, 1), b(K * N, 2), x(M * N, 3), d(M * N, 4);
  const auto was = d;
  const D::Gemm::Arguments good{{M, N, K}, a.data(), {M, K},
                                b.data(),  {K, N},   nullptr,
                                {},        nullptr,  {{{}, {x.data(), {M, N}}, {}}, {d.data(), {M, N}}}};
  const auto refuse = [&](const D::Gemm::Arguments& args, const char* why) {
    D::Gemm gemm;
    EXPECT_EQ(gemm.CanImplement(args), Status::kInvalid);
    EXPECT_NE(gemm.why().find(why), std::string::npos) << gemm.why();
    EXPECT_EQ(gemm.Initialize(args), Status::kInvalid);
    EXPECT_EQ(gemm(), Status::kInvalid);
    EXPECT_TRUE(d == was);
  };
  auto args = good;
  args.evg_args.op_0.op_1.ptr_aux = nullptr;
  refuse(args, "PL0310: 'aux0' has no data");
  args = good, args.evg_args.op_1.ptr_aux = nullptr;
  refuse(args, "PL0310: 'aux1' has no data");
  args = good, args.evg_args.op_0.op_1.layout = {N, M};
  refuse(args, "PL0306: the layout of 'aux0' is 7 x 5, but the problem makes it 5 x 7");
  args = good, args.layoutA = {};
  refuse(args, "PL0306: the layout of 'A' is 0 x 0");
  EXPECT_EQ(D::Gemm().CanImplement(good), Status::kSuccess);
}

TEST(CatlassBlock, ComputeLengthIsComputedWhereNobodySaysOne) {
  using EVG = TreeVisitor<Store<>, TreeVisitor<P<Add>, Acc<>, Load<>>>;
  using Arch950 = Arch::Ascend950;
  EXPECT_EQ((BlockEpilogue<EpilogueVisitor<false>, Arch950, Int<0>, EVG, float>::COMPUTE_LENGTH),
            248u * 1024 / 3 / 2 / 4 / 32 * 32);
  EXPECT_EQ((BlockEpilogue<EpilogueVisitor<true>, Arch950, void, EVG, float>::COMPUTE_LENGTH),
            (248u - 128) * 1024 / 2 / 2 / 4 / 32 * 32);
  EXPECT_EQ((BlockEpilogue<EpilogueVisitor<>, Arch::AtlasA2, Int<4096>, EVG, half>::COMPUTE_LENGTH), 4096u);
}

}  // namespace
}  // namespace postlude::evt_tests
