// What a tree costs beside the same epilogue in text: `initialize` against `bind`, `run` against `run`. Medians of
// times taken in turns, with one thread.
#include <postlude/evt/cutlass.h>
#include <postlude/parse.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

using namespace postlude::evt::cutlass;

constexpr auto R = FloatRoundStyle::round_to_nearest;
template <POSTLUDE_EVT_FUNCTION F>
using P = Sm90Compute<F, float, float, R>;
using Scalar = Sm90ScalarBroadcast<float>;
using Row = Sm90RowBroadcast<0, Shape<_128, _128, _64>, float>;
using Tree = Sm90EVT<P<ReLU>, Sm90EVT<P<homogeneous_multiply_add>, Scalar, Sm90SrcFetch<float>,
                                      Sm90EVT<P<multiply_add>, Scalar, Sm90AccFetch, Row>>>;
using Gemm = GemmUniversal<float, RowMajor, float, RowMajor, float, RowMajor, float, RowMajor, Tree>;
const char* const text =
    "def f(acc, s0: scalar[f32], C: tile[f32], s1: scalar[f32], row0: row[f32]):\n"
    "  D: f32 = relu(scaled(s0, C) + (s1 * acc + row0))\n  return D\n";

template <class F>
double microseconds(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}
double median(std::vector<double>& x) {
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

void measure(int M, int N, int K) {
  using postlude::Tensor, postlude::f32;
  std::vector<float> a(static_cast<std::size_t>(M * K), .5f), b(static_cast<std::size_t>(K * N), .25f);
  std::vector<float> c(static_cast<std::size_t>(M * N), 1), d(c), bias(static_cast<std::size_t>(N), 2);
  const auto target = postlude::Target::cpu(1);
  const Gemm::Arguments args{
      {M, N, K},
      {a.data(), {K, {}, 0}, b.data(), {{}, N, 0}},
      {{{{{2}}, {}, {{{3}}, {}, {bias.data()}, {}}, {}}, {}}, c.data(), {N, {}, 0}, d.data(), {N, {}, 0}},
      target};
  const std::vector<postlude::Binding> bindings = {
      {"A", Tensor(a.data(), f32, {M, K})}, {"B", Tensor(b.data(), f32, {K, N})},
      {"s0", Tensor::scalar(2, f32)},       {"s1", Tensor::scalar(3, f32)},
      {"C", Tensor(c.data(), f32, {M, N})}, {"row0", Tensor(bias.data(), f32, {N})},
      {"D", Tensor(d.data(), f32, {M, N})}};
  const postlude::Plan plan = postlude::compile(postlude::Gemm{}, postlude::parse(text), target);
  Gemm gemm;
  postlude::Call call = plan.bind(bindings);
  std::vector<double> initialize, bind, can, run, text_run;
  bool right = true;
  for (int i = 0; i < 500; ++i) {
    initialize.push_back(microseconds([&] { right &= gemm.initialize(args) == Status::kSuccess; }));
    bind.push_back(microseconds([&] { call = plan.bind(bindings); }));
    can.push_back(microseconds([&] { right &= Gemm::can_implement(args) == Status::kSuccess; }));
  }
  for (int i = 0; i < 100; ++i) {
    run.push_back(microseconds([&] { right &= gemm.run() == Status::kSuccess; }));
    text_run.push_back(microseconds([&] { call.run(); }));
  }
  if (!right) std::puts(Gemm::why().c_str());
  const double ours = median(run), theirs = median(text_run);
  std::printf("| %d x %d x %d | %.1f | %.1f | %.1f | %.1f | %.1f | %.3f |\n", M, N, K, median(initialize), median(bind),
              median(can), ours, theirs, ours / theirs);
}

}  // namespace

int main() {
  std::puts("| shape | initialize, us | bind | can_implement | run | run of the text | ratio |");
  std::puts("|---|---|---|---|---|---|---|");
  measure(64, 512, 512);
  measure(512, 512, 512);
}
