// Visitor types on a GPU: the adapters of both vocabularies take device pointers, and write the bits of the CPU.
#include "evt/support.h"
#include "gpu/device_run.h"

#include "cuda/run/driver.h"

#include <postlude/evt/catlass.h>

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

// Outside of postlude, whose Gemm and Shape would meet CUTLASS's.
namespace {

namespace cuda = postlude::cuda;
namespace evt = postlude::evt;
using postlude::Device, postlude::Target;
using postlude::evt_tests::Array;
using Bytes = std::vector<std::uint8_t>;
using I64 = std::int64_t;

// An operand's or output's elements, on the host or on the device. Multiples of 1/4 from -2 to 2, so that sums are
// exact.
template <class E>
class Memory {
 public:
  Memory(Device device, I64 count, int seed) : host_(count, seed) {
    if (device != Device::cuda) return;
    const cuda::CurrentDevice current(0);
    device_.emplace(0, bytes());
    cuda::check(cuda::driver().MemcpyHtoD(device_->pointer(), host_.data(), bytes()), "filling");
  }
  E* data() { return device_ ? reinterpret_cast<E*>(device_->pointer()) : host_.data(); }
  Bytes read() {
    if (device_) {
      const cuda::CurrentDevice current(0);
      cuda::check(cuda::driver().CtxSynchronize(), "running");
      cuda::check(cuda::driver().MemcpyDtoH(host_.data(), device_->pointer(), bytes()), "reading");
    }
    Bytes read(bytes());
    std::memcpy(read.data(), host_.data(), read.size());
    return read;
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return host_.elements.size() * sizeof(E); }
  Array<E> host_;
  std::optional<cuda::Buffer> device_;
};

class Visitors : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = postlude::gpu_tests::missing(); !why.empty()) GTEST_SKIP() << why;
  }
  static Target target(Device device) { return device == Device::cuda ? Target::cuda() : Target::cpu(); }
};

constexpr int M = 131, N = 193, K = 77, L = 2;

// A tree with a store, sums over M, and the largest of rows and of everything; scalars by value, by pointer and of each
// batch; twice.
TEST_F(Visitors, ATreeOfCutlassHasTheBitsOfTheCpu) {
  using namespace evt::cutlass;
  constexpr auto R = FloatRoundStyle::round_to_nearest;
  using T = Shape<_128, _128, _64>;
  using Scalar = Sm90ScalarBroadcast<float, Stride<_0, _0, I64>>;
  using Z = Sm90EVT<Sm90Compute<homogeneous_multiply_add, float, float, R>, Scalar, Sm90SrcFetch<half_t>,
                    Sm90EVT<Sm90Compute<multiplies, float, float, R>, Scalar,
                            Sm90EVT<Sm90Compute<plus, float, float, R>, Sm90AccFetch,
                                    Sm90RowBroadcast<0, T, float, float, Stride<_0, bool, I64>>>>>;
  using Kept = Sm90EVT<Sm90AuxStore<0, void, bfloat16_t, R, ColumnMajor>, Z>;
  using Summed =
      Sm90EVT<Sm90RowReduction<plus, plus, plus, 0, T, float, float, R, Stride<_0, _1, I64>>,
              Sm90EVT<Sm90ColReduction<maximum, maximum, maximum, 0, T, float, float, R, Stride<_1, _0, I64>>,
                      Sm90EVT<Sm90ScalarReduction<maximum, atomic_maximum, float, float, R>, Kept>>>;
  using Tree = Sm90EVT<Sm90Compute<Clamp, half_t, float, R>, Summed>;
  using G =
      evt::cutlass::GemmUniversal<half_t, RowMajor, half_t, ColumnMajor, half_t, RowMajor, half_t, RowMajor, Tree>;
  const auto run = [&](Device device, bool bias_moves) {
    Memory<half_t> a(device, L * M * K, 1), b(device, L * N * K, 2), c(device, L * M * N, 3), d(device, L * M * N, 4);
    Memory<bfloat16_t> kept(device, L * M * N, 5);
    Memory<float> bias(device, L * N, 6), alpha(device, L, 7), rows(device, L * N, 8), most(device, L * M, 9),
        sum(device, 1, 10);
    const Z::Arguments z{
        {{0.5f}}, {}, {{{}, {alpha.data()}, {{{}, {}, 1}}}, {{}, {bias.data(), 0, {{}, bias_moves, N}}, {}}, {}}, {}};
    const Summed::Arguments summed{{{{z, {kept.data(), {{}, M, M * N}}}, {sum.data()}}, {most.data(), 0, {{}, {}, M}}},
                                   {rows.data(), 0, {{}, {}, N}}};
    const G::Arguments args{{M, N, K, L},
                            {a.data(), {K, {}, M * K}, b.data(), {K, {}, N * K}},
                            {{summed, {-100, 100}}, c.data(), {N, {}, M * N}, d.data(), {N, {}, M * N}},
                            target(device)};
    G gemm;
    EXPECT_EQ(G::can_implement(args), Status::kSuccess) << G::why();
    EXPECT_EQ(gemm.initialize(args), Status::kSuccess) << G::why();
    for (int twice = 0; twice < 2; ++twice) EXPECT_EQ(gemm.run(), Status::kSuccess) << G::why();
    return std::vector<Bytes>{d.read(), kept.read(), rows.read(), most.read(), sum.read()};
  };
  for (const bool bias_moves : {true, false}) EXPECT_EQ(run(Device::cuda, bias_moves), run(Device::cpu, bias_moves));
}

// fp8 with scales by value and by pointer, Aux, and two largest magnitudes.
TEST_F(Visitors, ANamedOperationHasTheBitsOfTheCpu) {
  using namespace evt::cutlass;
  using F8 = float_e4m3_t;
  using Operation = ScaledLinCombPerColBiasEltActAmaxAux<RowMajor, ReLU, F8, float, F8, float, float, half_t>;
  using G = evt::cutlass::GemmUniversal<F8, RowMajor, F8, ColumnMajor, half_t, RowMajor, F8, RowMajor, Operation>;
  const auto run = [&](Device device) {
    Memory<F8> a(device, M * K, 1), b(device, N * K, 2), d(device, M * N, 4), aux(device, M * N, 5);
    Memory<half_t> c(device, M * N, 3);
    Memory<float> bias(device, N, 6), scale_b(device, 1, 7), amax(device, 2, 8);
    typename G::Arguments args{{M, N, K},
                               {a.data(), {K, {}, 0}, b.data(), {K, {}, 0}},
                               {{}, c.data(), {N, {}, 0}, d.data(), {N, {}, 0}},
                               target(device)};
    auto& t = args.epilogue.thread;
    t.alpha = 0.5f, t.beta = 2, t.scale_a = 0.25f, t.scale_b_ptr = scale_b.data(), t.scale_d = 4, t.scale_aux = 2;
    t.bias_ptr = bias.data(), t.aux_ptr = aux.data(), t.dAux = {N, {}, 0};
    t.amax_D_ptr = amax.data(), t.amax_aux_ptr = amax.data() + 1;
    G gemm;
    EXPECT_EQ(gemm(args), Status::kSuccess) << G::why();
    return std::vector<Bytes>{d.read(), aux.read(), amax.read()};
  };
  EXPECT_EQ(run(Device::cuda), run(Device::cpu));
}

// A null C whose beta is 0 by value, an operand and an output that are null, and a refusal that writes nothing.
TEST_F(Visitors, NullPointersAndRefusals) {
  using namespace evt::cutlass;
  using Operation = LinCombPerRowBiasEltActAux<RowMajor, ReLU, float, float>;
  using G =
      evt::cutlass::GemmUniversal<half_t, RowMajor, half_t, ColumnMajor, float, RowMajor, float, RowMajor, Operation>;
  Memory<half_t> a(Device::cuda, M * K, 1), b(Device::cuda, N * K, 2);
  Memory<float> d(Device::cuda, M * N, 4);
  typename G::Arguments args{
      {M, N, K}, {a.data(), {K, {}, 0}, b.data(), {K, {}, 0}}, {{}, nullptr, {}, d.data(), {N, {}, 0}}, Target::cuda()};
  const Bytes was = d.read();
  args.epilogue.thread.beta = 1;
  G gemm;
  EXPECT_EQ(gemm(args), Status::kErrorInvalidProblem);
  EXPECT_EQ(d.read(), was);
  args.epilogue.thread.beta = 0;
  EXPECT_EQ(gemm(args), Status::kSuccess) << G::why();
  EXPECT_NE(d.read(), was);
}

TEST_F(Visitors, AGraphOfCatlassHasTheBitsOfTheCpu) {
  using namespace evt::catlass;
  using Row = layout::RowMajor;
  using Sum = TreeVisitor<VisitorCompute<Adds, float, float>,
                          TreeVisitor<VisitorCompute<Add, float>, VisitorAccLoad<float>, VisitorAuxLoad<float, Row>,
                                      VisitorRowBroadcast<float, Row>>>;
  using EVG = TreeVisitor<VisitorAuxStore<half, Row>, TreeVisitor<VisitorCast<half, float>, Sum>>;
  using Mmad = BlockMmadTla<MmadPingpong<Arch::Ascend950>, Shape<Int<256>, Int<256>, Int<128>>,
                            Shape<Int<256>, Int<256>, Int<32>>, half, half, float>;
  using Behind = BlockEpilogue<EpilogueVisitor<true>, Arch::Ascend950, Int<0>, EVG, float>;
  using Matmul = DeviceGemm<BasicMatmulTlaUbVisitor<Mmad, Behind>>;
  const auto run = [&](Device device) {
    Memory<half> a(device, M * K, 1), b(device, K * N, 2), d(device, M * N, 4);
    Memory<float> x(device, M * N, 3), row(device, N, 6);
    const typename Matmul::Arguments args{
        {M, N, K},
        a.data(),
        {M, K},
        b.data(),
        {K, N},
        nullptr,
        {},
        nullptr,
        {{{{{}, {x.data(), {M, N}}, {row.data(), {1, N}}, {}}, {{0.5f}}}, {}}, {d.data(), {M, N}}},
        target(device)};
    Matmul gemm;
    EXPECT_EQ(gemm.Initialize(args), evt::catlass::Status::kSuccess) << gemm.why();
    EXPECT_EQ(gemm(), evt::catlass::Status::kSuccess) << gemm.why();
    return d.read();
  };
  EXPECT_EQ(run(Device::cuda), run(Device::cpu));
}

}  // namespace
