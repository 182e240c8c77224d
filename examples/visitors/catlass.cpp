// CATLASS's epilogue visitor graphs, as its guide writes them: add, SiLU, a cast, and a graph that uses a result twice.
// docs/from-catlass.md goes through them.
#include <postlude/evt/catlass.h>

#include "matrices.h"

namespace Catlass = postlude::evt::catlass;
namespace tla = postlude::evt::catlass;
namespace AscendC = postlude::evt::catlass::AscendC;

using namespace Catlass;
using visitors::M, visitors::N, visitors::K, visitors::numbers, visitors::product;

using ElementC = float;
using ArchTag = Arch::Ascend950;
using LayoutX = layout::RowMajor;
using LayoutD = layout::RowMajor;

// D = C + X, where C is the product.
template <bool on_chip>
using Sum = Epilogue::Fusion::TreeVisitor<
    Epilogue::Fusion::VisitorAuxStore<ElementC, LayoutD>,
    Epilogue::Fusion::TreeVisitor<Epilogue::Fusion::VisitorCompute<Epilogue::Fusion::Add, ElementC>,
                                  Epilogue::Fusion::VisitorAccLoad<ElementC, on_chip>,
                                  Epilogue::Fusion::VisitorAuxLoad<ElementC, LayoutX>>>;

// D = silu(C).
using SiluOf = Epilogue::Fusion::TreeVisitor<
    Epilogue::Fusion::VisitorAuxStore<ElementC, LayoutD>,
    Epilogue::Fusion::TreeVisitor<Epilogue::Fusion::VisitorCompute<Epilogue::Fusion::Silu, ElementC>,
                                  Epilogue::Fusion::VisitorAccLoad<ElementC>>>;

// D = half(C + bias), a bias for each column. Nothing is converted unless a node says so.
using CastOfSum = Epilogue::Fusion::TreeVisitor<
    Epilogue::Fusion::VisitorAuxStore<half, LayoutD>,
    Epilogue::Fusion::TreeVisitor<
        Epilogue::Fusion::VisitorCast<half, float, AscendC::RoundMode::CAST_NONE>,
        Epilogue::Fusion::TreeVisitor<Epilogue::Fusion::VisitorCompute<Epilogue::Fusion::Add, float>,
                                      Epilogue::Fusion::VisitorAccLoad<float>,
                                      Epilogue::Fusion::VisitorRowBroadcast<float, layout::RowMajor>>>>;

// D = (e - 1) / (e + 1) where e = exp(2 C), which both sides use: tanh(C).
template <template <class> class Fn, class... Scalars>
using Op = Epilogue::Fusion::VisitorCompute<Fn, ElementC, Scalars...>;
using Edges = tla::tuple<tla::seq<>, tla::seq<0>, tla::seq<1>, tla::seq<2>, tla::seq<2>, tla::seq<3, 4>, tla::seq<5>>;
using TanhByReuse = Epilogue::Fusion::TopologicalVisitor<
    Edges, Epilogue::Fusion::VisitorAccLoad<ElementC>, Op<Epilogue::Fusion::Muls, ElementC>, Op<Epilogue::Fusion::Exp>,
    Op<Epilogue::Fusion::Adds, ElementC>, Op<Epilogue::Fusion::Adds, ElementC>, Op<Epilogue::Fusion::Div>,
    Epilogue::Fusion::VisitorAuxStore<ElementC, LayoutD>>;

// The product, the graph behind it, a kernel. With EpilogueVisitor<false> CATLASS's accumulators go through memory,
// with <true> they stay on chip; the results are equal.
using BlockMmad = Gemm::Block::BlockMmadTla<Gemm::MmadPingpong<ArchTag>, tla::Shape<Int<256>, Int<256>, Int<128>>,
                                            tla::Shape<Int<256>, Int<256>, Int<32>>, float, float, ElementC>;
using BlockScheduler = Gemm::Block::GemmIdentityBlockSwizzle<3, 0>;
template <class EVG, int computeLength = 0>
using MatmulKernel = Gemm::Kernel::BasicMatmulTlaVisitor<
    BlockMmad,
    Epilogue::Block::BlockEpilogue<Epilogue::EpilogueVisitor<false>, ArchTag, Int<computeLength>, EVG, ElementC>,
    BlockScheduler>;
template <class EVG>
using MatmulUbKernel = Gemm::Kernel::BasicMatmulTlaUbVisitor<
    BlockMmad, Epilogue::Block::BlockEpilogue<Epilogue::EpilogueVisitor<true>, ArchTag, Int<0>, EVG, ElementC>,
    BlockScheduler>;

namespace {

auto deviceA = numbers<float>(M * K, 1), deviceB = numbers<float>(K * N, 2);
auto deviceX = numbers<float>(M * N, 3), deviceBias = numbers<float>(N, 4);
const auto layoutX = tla::MakeLayout<ElementC, layout::RowMajor>(M, N);
const auto layoutD = tla::MakeLayout<ElementC, layout::RowMajor>(M, N);

template <class Kernel>
bool run(const typename Kernel::EVG::Arguments& evg_args) {
  typename Kernel::Arguments arguments{{M, N, K},       // problemShape
                                       deviceA.data(),  // ptrA
                                       {M, K},          // layoutA
                                       deviceB.data(),  // ptrB
                                       {K, N},          // layoutB
                                       nullptr,         // ptrC and layoutC: unused
                                       {},
                                       nullptr,  // ptrBias
                                       evg_args};
  Gemm::Device::DeviceGemm<Kernel> gemm;
  if (gemm.CanImplement(arguments) != Status::kSuccess) {
    std::puts(gemm.why().c_str());
    return false;
  }
  return gemm.Initialize(arguments) == Status::kSuccess && gemm() == Status::kSuccess;
}

template <template <class...> class Kernel, bool on_chip>
void add(const char* what) {
  std::vector<float> deviceD(M * N);
  typename Sum<on_chip>::Arguments evg_args{{{},                         // AccLoad
                                             {deviceX.data(), layoutX},  // AuxLoad
                                             {}},                        // Compute
                                            {deviceD.data(), layoutD}};  // AuxStore
  const bool ran = run<Kernel<Sum<on_chip>>>(evg_args);
  visitors::compare(what, deviceD, ran ? 0 : -1, [](int m, int n) {
    return product(deviceA, deviceB, m, n) + deviceX[static_cast<std::size_t>(m * N + n)];
  });
}

void silu() {
  std::vector<float> deviceD(M * N);
  const bool ran = run<MatmulKernel<SiluOf>>({{{}, {}}, {deviceD.data(), layoutD}});
  visitors::compare("silu(C)", deviceD, ran ? 1e-6 : -1, [](int m, int n) {
    const double x = product(deviceA, deviceB, m, n);
    return x / (1 + std::exp(-x));
  });
}

void cast() {
  std::vector<half> deviceD(M * N);
  const auto layoutBias = tla::MakeLayout<ElementC, layout::RowMajor>(1, N);
  const bool ran =
      run<MatmulKernel<CastOfSum, 4096>>({{{{}, {deviceBias.data(), layoutBias}, {}}, {}}, {deviceD.data(), layoutD}});
  visitors::compare("half(C + bias)", deviceD, ran ? 0 : -1, [](int m, int n) {
    return double{half(product(deviceA, deviceB, m, n) + deviceBias[static_cast<std::size_t>(n)])};
  });
}

void reuse() {
  std::vector<float> deviceD(M * N);
  typename TanhByReuse::Arguments evg_args{{},         // C
                                           {{2.0f}},   // 2 C
                                           {},         // e
                                           {{-1.0f}},  // e - 1
                                           {{1.0f}},   // e + 1
                                           {},         // their quotient
                                           {deviceD.data(), layoutD}};
  const bool ran = run<MatmulKernel<TanhByReuse>>(evg_args);
  visitors::compare("tanh(C), its exponential used twice", deviceD, ran ? 1e-5 : -1,
                    [](int m, int n) { return std::tanh(product(deviceA, deviceB, m, n)); });
}

}  // namespace

template <class EVG>
using InMemory = MatmulKernel<EVG>;

int main() {
  add<InMemory, false>("C + X, by a workspace in memory");
  add<MatmulUbKernel, true>("C + X, on chip");
  silu();
  cast();
  reuse();
  std::puts(postlude::evt::print<TanhByReuse>().c_str());
  return visitors::failures;
}
