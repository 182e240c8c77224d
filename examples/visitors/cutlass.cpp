// CUTLASS's epilogue visitor trees, as their guide writes them: a named operation, the tree that it stands for, and a
// loss by a topological visitor. docs/from-cutlass.md goes through them.
#include <postlude/evt/cutlass.h>

#include "matrices.h"

namespace cutlass = postlude::evt::cutlass;
namespace cute = postlude::evt::cutlass;

using namespace cutlass::epilogue::fusion;
using cute::Shape, cute::Stride, cute::_0, cute::_1, cute::_128, cute::_64;
using cutlass::RowMajor;

using ElementInput = cutlass::half_t;  // of A and B
using ElementOutput = cutlass::half_t;
using ElementSource = cutlass::half_t;  // of C
using ElementBias = float;
using ElementScalar = float;
using ElementCompute = float;
using CtaTileShapeMNK = Shape<_128, _128, _64>;
constexpr auto RoundStyle = cutlass::FloatRoundStyle::round_to_nearest;

// D = relu(beta * C + (alpha * acc + bias)), a bias for each column, by its name.
using BiasReLU = LinCombPerColBiasEltAct<cutlass::epilogue::thread::ReLU, ElementOutput, ElementCompute, ElementBias,
                                         ElementSource, ElementScalar>;

// The same by a tree: relu(beta * C + (alpha * acc + bias)).
using BiasReLUTree =
    Sm90EVT<Sm90Compute<cutlass::epilogue::thread::ReLU, ElementOutput, ElementCompute, RoundStyle>,
            Sm90EVT<Sm90Compute<cutlass::homogeneous_multiply_add, ElementCompute, ElementCompute, RoundStyle>,
                    Sm90ScalarBroadcast<ElementScalar>,  // beta
                    Sm90SrcFetch<ElementSource>,         // C
                    Sm90EVT<Sm90Compute<cutlass::multiply_add, ElementCompute, ElementCompute, RoundStyle>,
                            Sm90ScalarBroadcast<ElementScalar>,                    // alpha
                            Sm90AccFetch,                                          // acc
                            Sm90RowBroadcast<0, CtaTileShapeMNK, ElementBias>>>>;  // bias

// Binary cross entropy of logits acc + bias and labels C, summed: (C - 1) x + log(clamp(sigmoid(x))).
template <class T>
struct FastLog {
  CUTLASS_HOST_DEVICE T operator()(const T& x) const { return cutlass::fast_log(x); }
};
using CMinus1 = Sm90EVT<Sm90Compute<cutlass::minus, ElementCompute, ElementCompute, RoundStyle>,
                        Sm90SrcFetch<ElementSource>, Sm90ScalarBroadcast<ElementScalar>>;
using MatmulPlusBias = Sm90EVT<Sm90Compute<cutlass::plus, ElementCompute, ElementCompute, RoundStyle>,
                               Sm90ColBroadcast<0, CtaTileShapeMNK, ElementBias, Stride<_1, _0, _0>>, Sm90AccFetch>;
using TopoVisitor =
    Sm90TopologicalVisitor<ElementCompute,
                           cute::tuple<cute::seq<>,      // 0: x
                                       cute::seq<>,      // 1: C - 1
                                       cute::seq<0, 1>,  // 2: their product
                                       cute::seq<0>,     // 3: sigmoid(x)
                                       cute::seq<3>,     // 4: clamped
                                       cute::seq<4>,     // 5: its logarithm
                                       cute::seq<2, 5>>,
                           MatmulPlusBias, CMinus1,
                           Sm90Compute<cutlass::multiplies, ElementCompute, ElementCompute, RoundStyle>,
                           Sm90Compute<cutlass::epilogue::thread::Sigmoid, ElementCompute, ElementCompute, RoundStyle>,
                           Sm90Compute<cutlass::epilogue::thread::Clamp, ElementCompute, ElementCompute, RoundStyle>,
                           Sm90Compute<FastLog, ElementCompute, ElementCompute, RoundStyle>,
                           Sm90Compute<cutlass::plus, ElementCompute, ElementCompute, RoundStyle>>;
using BCELossEVT = Sm90EVT<Sm90ScalarReduction<cutlass::plus,        // in registers
                                               cutlass::atomic_add,  // in memory
                                               ElementScalar, ElementCompute, RoundStyle, Stride<_0, _0, _0>>,
                           TopoVisitor>;

// A node of one's own: each row without its mean, over its deviation; the means are stored, if somebody wants them.
using postlude::Axis, postlude::Value, postlude::evt::Scope;
struct Standardised {
  struct Arguments {
    float epsilon = 1e-5f;
    float* mean = nullptr;  // M of them; null: not wanted
  };
  static constexpr const char* name = "Standardised";
  static constexpr int children = 1;
  static Value build(Scope& scope, const Arguments& a, std::span<const Value> x) {
    const Value mean = postlude::mean(x[0], Axis::n), away = x[0] - mean;
    scope.output(mean, postlude::col_axes, a.mean, {1, 0, 0});
    return away * rsqrt(postlude::mean(away * away, Axis::n) + scope.parameter(a.epsilon));
  }
};
using Normalised = Sm90EVT<Sm90Compute<cutlass::epilogue::thread::Identity, ElementOutput, ElementCompute, RoundStyle>,
                           Sm90EVT<Standardised, Sm90AccFetch>>;

template <class FusionOpOrTree, class ElementD = ElementOutput>
using Gemm = cutlass::GemmUniversal<ElementInput, RowMajor, ElementInput, RowMajor, ElementSource, RowMajor, ElementD,
                                    RowMajor, FusionOpOrTree>;

namespace {

using visitors::M, visitors::N, visitors::K, visitors::numbers, visitors::product;

const auto a = numbers<ElementInput>(M * K, 1), b = numbers<ElementInput>(K * N, 2);
const auto c = numbers<ElementSource>(M * N, 3);
const auto bias_of_columns = numbers<ElementBias>(N, 4), bias_of_rows = numbers<ElementBias>(M, 5);

template <class G>
bool run(const typename G::Arguments& arguments) {
  G gemm;
  if (gemm.can_implement(arguments) != cutlass::Status::kSuccess) {
    std::puts(gemm.why().c_str());
    return false;
  }
  return gemm.initialize(arguments) == cutlass::Status::kSuccess && gemm.run() == cutlass::Status::kSuccess;
}

double bias_relu(int m, int n) {
  const auto i = static_cast<std::size_t>(m * N + n);
  return std::fmax(0, -0.5 * double{c[i]} + (2 * product(a, b, m, n) + bias_of_columns[static_cast<std::size_t>(n)]));
}

void by_name() {
  std::vector<ElementOutput> d(M * N);
  Gemm<BiasReLU>::Arguments arguments{{M, N, K, 1},
                                      {a.data(), {K, {}, 0}, b.data(), {{}, N, 0}},  // B's modes are N and K
                                      {{}, c.data(), {N, {}, 0}, d.data(), {N, {}, 0}}};
  arguments.epilogue.thread.alpha = 2;
  arguments.epilogue.thread.beta = -0.5f;
  arguments.epilogue.thread.bias_ptr = bias_of_columns.data();
  if (!run<Gemm<BiasReLU>>(arguments)) d.clear(), d.resize(M * N, ElementOutput(-1.f));
  visitors::compare("bias and ReLU by a named operation", d, 1e-3, bias_relu);
}

void by_tree() {
  std::vector<ElementOutput> d(M * N);
  const ElementScalar alpha = 2, beta = -0.5f;
  const ElementScalar* alpha_ptr = nullptr;
  const ElementScalar* beta_ptr = nullptr;
  Gemm<BiasReLUTree>::Arguments arguments{
      {M, N, K, 1}, {a.data(), {K, {}, 0}, b.data(), {{}, N, 0}}, {{}, c.data(), {N, {}, 0}, d.data(), {N, {}, 0}}};
  arguments.epilogue.thread = {                                    // unary op: relu(...)
                               {                                   // ternary op: beta * C + (...)
                                {{beta}, {beta_ptr}},              // args to Sm90ScalarBroadcast
                                {},                                // args to Sm90SrcFetch
                                {                                  // ternary op: alpha * acc + bias
                                 {{alpha}, {alpha_ptr}},           // args to Sm90ScalarBroadcast
                                 {},                               // args to Sm90AccFetch
                                 {bias_of_columns.data(), 0, {}},  // args to Sm90RowBroadcast
                                 {}},                              // op args: multiply_add
                                {}},                               // op args: homogeneous_multiply_add
                               {}};                                // op args: relu
  if (!run<Gemm<BiasReLUTree>>(arguments)) d.clear(), d.resize(M * N, ElementOutput(-1.f));
  visitors::compare("bias and ReLU by a tree", d, 1e-3, bias_relu);
}

void loss() {
  ElementScalar d_result = 0;
  BCELossEVT::Arguments args_BCE = {
      {                                // TopoVisitor
       {                               // MatmulPlusBias (node 0)
        {bias_of_rows.data(), 0, {}},  // args to ColBroadcast
        {},                            // args to AccFetch
        {}},                           // op args: plus
       {                               // CMinus1 (node 1)
        {},                            // args to SrcFetch
        {{ElementScalar(1.0)}},        // args to ScalarBroadcast
        {}},                           // op args: minus
       {},                             // op args: multiplies (node 2)
       {},                             // op args: sigmoid (node 3)
       {0.001f, 0.999f},               // op args: clamp (node 4)
       {},                             // op args: log (node 5)
       {}},                            // op args: plus (node 6)
      {&d_result, 0, {}}               // args to ScalarReduction
  };
  using G = Gemm<BCELossEVT, void>;  // no D
  const bool ran =
      run<G>({{M, N, K, 1}, {a.data(), {K, {}, 0}, b.data(), {{}, N, 0}}, {args_BCE, c.data(), {N, {}, 0}}});
  double wanted = 0;
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      const double x = product(a, b, m, n) + bias_of_rows[static_cast<std::size_t>(m)];
      const double sigmoid = std::fmin(std::fmax(1 / (1 + std::exp(-x)), 0.001), 0.999);
      wanted += (double{c[static_cast<std::size_t>(m * N + n)]} - 1) * x + std::log(sigmoid);
    }
  }
  visitors::report("binary cross entropy", ran && std::fabs(d_result - wanted) <= 1e-4 * std::fabs(wanted));
}

void normalised() {
  std::vector<ElementOutput> d(M * N);
  std::vector<float> means(M);
  const bool ran = run<Gemm<Normalised>>({{M, N, K, 1},
                                          {a.data(), {K, {}, 0}, b.data(), {{}, N, 0}},
                                          {{{{}, {1e-3f, means.data()}}, {}}, nullptr, {}, d.data(), {N, {}, 0}}});
  const auto mean_of = [](int m, const auto& f) {
    double sum = 0;
    for (int n = 0; n < N; ++n) sum += f(product(a, b, m, n));
    return sum / N;
  };
  visitors::compare("a node of one's own", d, ran ? 1e-3 : -1, [&](int m, int n) {
    const double mean = mean_of(m, [](double x) { return x; });
    const double variance = mean_of(m, [&](double x) { return (x - mean) * (x - mean); });
    return (product(a, b, m, n) - mean) / std::sqrt(variance + 1e-3);
  });
  bool right = true;
  for (int m = 0; m < M; ++m)
    right &= std::fabs(means[static_cast<std::size_t>(m)] - mean_of(m, [](double x) { return x; })) < 1e-4;
  visitors::report("and what it stores", right);
}

}  // namespace

int main() {
  by_name();
  by_tree();
  loss();
  normalised();
  std::puts(postlude::evt::print<BCELossEVT>().c_str());
  return visitors::failures;
}
