// Each node and rule of CUTLASS's trees: the Graph that it should mean, as text.
#include "evt/support.h"

namespace postlude::evt_tests {
namespace {

using namespace evt::cutlass;

constexpr auto R = FloatRoundStyle::round_to_nearest;
template <POSTLUDE_EVT_FUNCTION F, class O = float>
using P = Sm90Compute<F, O, float, R>;
using S = Sm90ScalarBroadcast<float>;
using A = Sm90AccFetch;
using T = Shape<_128, _64, _64>;
using RowStride = Stride<_0, _1, _0>;
using ColStride = Stride<_1, _0, _0>;
template <class E, class EC = E>
using Row = Sm90RowBroadcast<0, T, E, EC>;
template <class E, class EC = E>
using Col = Sm90ColBroadcast<0, T, E, EC>;
template <class E>
using Load = Sm90AuxLoad<0, void, E, RowMajor>;
template <class E, FloatRoundStyle style = R>
using Store = Sm90AuxStore<0, void, E, style, RowMajor>;

template <class T>
struct Log {
  T operator()(const T& x) const { return fast_log(x); }
};

TEST(CutlassGraph, Leaves) {
  expect_graph<Sm90EVT<P<plus>, A, Sm90SrcFetch<half_t>>>(
      "def epilogue(acc, C: tile[f16]):\n  D: f32 = acc + C\n  return D\n");
  expect_graph<Sm90EVT<P<plus>, Row<bfloat16_t, float>, Col<half_t, float>>>(
      "def epilogue(acc, row0: row[bf16], col0: col[f16]):\n  D: f32 = row0 + col0\n  return D\n");
  expect_graph<Sm90EVT<P<multiplies>, Load<float_e4m3_t>, S>>(
      "def epilogue(acc, aux0: tile[e4m3], s0: scalar[f32]):\n  D: f32 = aux0 * s0\n  return D\n");
  // An input is converted to the compute type by nearest even, whatever the tree rounds by.
  expect_graph<Sm90EVT<P<plus>, Sm90RowBroadcast<0, T, float, half_t>, A>>(
      "def epilogue(acc, row0: row[f32]):\n  D: f32 = cast(row0, f16) + acc\n  return D\n");
  // Before 3.6 the stride was the fourth parameter.
  expect_graph<Sm90EVT<P<plus>, Sm90RowBroadcast<0, T, float, RowStride>, Sm90ColBroadcast<0, T, half_t, ColStride>>>(
      "def epilogue(acc, row0: row[f32], col0: col[f16]):\n  D: f32 = row0 + col0\n  return D\n");
  expect_graph<Sm90EVT<P<plus>, Sm90RowBroadcast<0, T, float, float, Stride<_0, bool, std::int64_t>>, A>>(
      "def epilogue(acc, row0: row[f32]):\n  D: f32 = row0 + acc\n  return D\n");
  expect_graph<A>("def epilogue(acc):\n  D: f32 = acc\n  return D\n");
}

TEST(CutlassGraph, ScalarsFoldFromTheLeft) {
  expect_graph<Sm90EVT<P<multiplies>, Sm90ScalarBroadcast<float, Stride<_0, _0, std::int64_t>, 3>, A>>(
      "def epilogue(acc, s0: scalar[f32], s1: scalar[f32], s2: scalar[f32]):\n  D: f32 = s0 * s1 * s2 * acc\n  return "
      "D\n");
  expect_graph<Sm90EVT<P<multiplies>, Sm90ScalarBroadcast<half_t, Stride<_0, _0, _0>, 2, plus>, A>>(
      "def epilogue(acc, s0: scalar[f16], s1: scalar[f16]):\n  D: f32 = cast(s0 + s1, f16) * acc\n  return D\n");
}

TEST(CutlassGraph, ComputeConvertsAndRounds) {
  // To f16 by the style, where it is handed on; by the output itself, where it is only stored.
  expect_graph<Sm90EVT<P<ReLU, half_t>, A>>("def epilogue(acc):\n  D: f16 = relu(acc)\n  return D\n");
  expect_graph<Sm90EVT<P<Tanh>, Sm90EVT<P<ReLU, half_t>, A>>>(
      "def epilogue(acc):\n  D: f32 = tanh(cast(relu(acc), f16))\n  return D\n");
  expect_graph<Sm90EVT<Sm90Compute<ReLU, bfloat16_t, float, FloatRoundStyle::round_toward_zero>, A>>(
      "def epilogue(acc):\n  D: bf16 = cast(relu(acc), bf16, round=toward_zero)\n  return D\n");
  expect_graph<Sm90EVT<Sm90Compute<ReLU, bfloat16_t, float, FloatRoundStyle::round_toward_infinity>, A>>(
      "def epilogue(acc):\n  D: bf16 = cast(relu(acc), bf16, round=up)\n  return D\n");
  expect_graph<Sm90EVT<Sm90Compute<ReLU, bfloat16_t, float, FloatRoundStyle::round_toward_neg_infinity>, A>>(
      "def epilogue(acc):\n  D: bf16 = cast(relu(acc), bf16, round=down)\n  return D\n");
  expect_graph<Sm90EVT<Sm90Compute<ReLU, half_t, float, FloatRoundStyle::round_to_nearest_satfinite>, A>>(
      "def epilogue(acc):\n  D: f16 = cast(clamp(relu(acc), -65504.0, 65504.0), f16)\n  return D\n");
  // Arithmetic in f16 rounds after each operation; an f16 needs no conversion to f32.
  expect_graph<
      Sm90EVT<Sm90Compute<plus, float, half_t, R>, Sm90EVT<Sm90Compute<multiplies, half_t, half_t, R>, A, S>, A>>(
      "def epilogue(acc, s0: scalar[f32]):\n"
      "  h = cast(acc, f16)\n"
      "  D: f32 = cast(cast(h * cast(s0, f16), f16) + h, f16)\n"
      "  return D\n");
  expect_graph<Sm90EVT<Sm90Compute<plus, half_t, half_t, R>, Load<float_e5m2_t>, Load<half_t>>>(
      "def epilogue(acc, aux0: tile[e5m2], aux1: tile[f16]):\n  D: f16 = aux0 + aux1\n  return D\n");
  expect_graph<Sm90EVT<P<plus>, Load<std::int8_t>, A>>(
      "def epilogue(acc, aux0: tile[s8]):\n  D: f32 = cast(aux0, f32) + acc\n  return D\n");
  expect_graph<Sm90EVT<P<ReLU, std::int8_t>, A>>("def epilogue(acc):\n  D: s8 = relu(acc)\n  return D\n");
}

TEST(CutlassGraph, FunctionsAndTheirParameters) {
  const auto of_acc = [](const std::string& body) {
    return "def epilogue(acc):\n  D: f32 = " + body + "\n  return D\n";
  };
  const auto of_two = [](const std::string& body) {
    return "def epilogue(acc, aux0: tile[f32]):\n  D: f32 = " + body + "\n  return D\n";
  };
  expect_graph<Sm90EVT<P<ReLu>, A>>(of_acc("relu(acc)"));
  expect_graph<Sm90EVT<P<Identity>, A>>(of_acc("acc"));
  expect_graph<Sm90EVT<P<negate>, A>>(of_acc("-acc"));
  expect_graph<Sm90EVT<P<Sigmoid>, A>>(of_acc("sigmoid(acc)"));
  expect_graph<Sm90EVT<P<SiLu>, A>>(of_acc("silu(acc)"));
  expect_graph<Sm90EVT<P<HardSwish>, A>>(of_acc("hardswish(acc)"));
  expect_graph<Sm90EVT<P<GELU>, A>>(of_acc("gelu_erf(acc)"));
  expect_graph<Sm90EVT<P<GELU_taylor>, A>>(of_acc("gelu_tanh(acc)"));
  expect_graph<Sm90EVT<P<inverse_square_root>, A>>(of_acc("rsqrt(acc)"));
  expect_graph<Sm90EVT<P<reciprocal_approximate>, A>>(of_acc("reciprocal(acc)"));
  expect_graph<Sm90EVT<P<Log>, A>>(of_acc("log(acc)"));
  expect_graph<Sm90EVT<P<ReLu>, Load<float>, A>>(of_two("max(acc, aux0)"));
  expect_graph<Sm90EVT<P<minus>, Load<float>, A>>(of_two("aux0 - acc"));
  expect_graph<Sm90EVT<P<divides>, Load<float>, A>>(of_two("aux0 / acc"));
  expect_graph<Sm90EVT<P<multiply_add>, Load<float>, A, A>>(of_two("aux0 * acc + acc"));
  expect_graph<Sm90EVT<P<maximum_with_nan_propagation>, Load<float>, A>>(of_two("max(aux0, acc)"));
  // The larger of a number and a NaN is the number.
  expect_graph<Sm90EVT<P<maximum>, Load<float>, A>>(
      of_two("where(aux0 != aux0, acc, where(acc != acc, aux0, max(aux0, acc)))"));
  expect_graph<Sm90EVT<P<dGELU>, A, Load<float>>>(of_two("acc * dgelu_tanh(aux0)"));
  expect_graph<Sm90EVT<P<dReLU_Z>, A, Load<float>>>(of_two("where(aux0 < 0, 0, acc)"));
  expect_graph<Sm90EVT<P<dReLU>, A, Load<uint1b_t>>>(
      "def epilogue(acc, aux0: tile[bool]):\n  D: f32 = where(aux0, acc, 0)\n  return D\n");
  expect_graph<Sm90EVT<P<first>, A, S>>(of_acc("acc"));
  expect_graph<Sm90EVT<P<Clamp>, A>>(
      "def epilogue(acc, p0: scalar[f32], p1: scalar[f32]):\n  D: f32 = clamp(acc, p0, p1)\n  return D\n");
  expect_graph<Sm90EVT<P<LeakyReLU>, A>>(
      "def epilogue(acc, p0: scalar[f32]):\n  D: f32 = where(acc > 0, acc, acc * p0)\n  return D\n");
  expect_graph<Sm90EVT<P<ThresholdReLU>, A>>(
      "def epilogue(acc, p0: scalar[f32], p1: scalar[f32]):\n  D: f32 = min(where(acc <= p0, 0, acc), p1)\n  return "
      "D\n");
  expect_graph<Sm90EVT<P<ScaledSiLu>, A>>(
      "def epilogue(acc, p0: scalar[f32]):\n  D: f32 = p0 * silu(acc)\n  return D\n");
  expect_graph<Sm90EVT<Sm90Compute<Scale, half_t, half_t, R>, A>>(
      "def epilogue(acc, p0: scalar[f16]):\n  D: f16 = p0 * cast(acc, f16)\n  return D\n");
}

TEST(CutlassGraph, BetaOfZeroSkipsTheSourceInOneFormOnly) {
  using Scaled = Sm90EVT<P<multiplies>, S, A>;
  expect_graph<Sm90EVT<P<homogeneous_multiply_add>, S, Sm90SrcFetch<float>, Scaled>>(
      "def epilogue(acc, s0: scalar[f32], C: tile[f32], s1: scalar[f32]):\n  D: f32 = scaled(s0, C) + s1 * acc\n  "
      "return D\n");
  expect_graph<Sm90EVT<P<multiply_add>, S, Sm90SrcFetch<float>, Scaled>>(
      "def epilogue(acc, s0: scalar[f32], C: tile[f32], s1: scalar[f32]):\n  D: f32 = s0 * C + s1 * acc\n  return D\n");
  expect_graph<Sm90EVT<P<homogeneous_multiply_add>, Row<float>, Sm90SrcFetch<float>, Scaled>>(
      "def epilogue(acc, row0: row[f32], C: tile[f32], s0: scalar[f32]):\n  D: f32 = row0 * C + s0 * acc\n  return "
      "D\n");
  expect_graph<Sm90EVT<P<homogeneous_multiply_add>, S, Sm90SrcFetch<void>, Scaled>>(
      "def epilogue(acc, s0: scalar[f32]):\n  D: f32 = s0 * acc\n  return D\n");
}

TEST(CutlassGraph, StoresHandOnWhatTheyGetUnrounded) {
  expect_graph<Sm90EVT<P<Tanh>, Sm90EVT<Store<half_t>, Sm90EVT<P<plus>, A, Row<float>>>>>(
      "def epilogue(acc, row0: row[f32]):\n  aux0: f16 = acc + row0\n  D: f32 = tanh(aux0)\n  return aux0, D\n");
  expect_graph<Sm90EVT<Store<half_t, FloatRoundStyle::round_toward_zero>, A>>(
      "def epilogue(acc):\n  aux0: f16 = cast(acc, f16, round=toward_zero)\n  D: f32 = acc\n  return aux0, D\n");
  // What was rounded to bf16 is that in f32, too.
  expect_graph<Sm90EVT<Store<float>, Sm90EVT<P<ReLU, bfloat16_t>, A>>>(
      "def epilogue(acc):\n  x = cast(relu(acc), bf16)\n  aux0: f32 = x\n  D: bf16 = x\n  return aux0, D\n");
  // Bits under a ReLU say where it changes nothing.
  expect_graph<Sm90EVT<P<ReLu>, Sm90EVT<Store<uint1b_t>, A>>>(
      "def epilogue(acc):\n  D: f32 = relu(acc)\n  aux0: bool = (D == acc) | (acc != acc)\n  return aux0, D\n");
  expect_graph<Sm90EVT<P<Tanh>, Sm90EVT<Store<uint1b_t>, A>>>(
      "def epilogue(acc):\n  aux0: bool = acc\n  D: f32 = tanh(acc)\n  return aux0, D\n");
}

template <POSTLUDE_EVT_FUNCTION Reg, POSTLUDE_EVT_FUNCTION Shuffle, class EO = float, bool final = true>
using RowSum = Sm90RowReduction<Reg, Shuffle, Shuffle, 0, T, EO, float, R, RowStride, 4, true, final>;
template <POSTLUDE_EVT_FUNCTION Reg, POSTLUDE_EVT_FUNCTION Shuffle, class EO = float, bool final = true>
using ColSum = Sm90ColReduction<Reg, Shuffle, Shuffle, 0, T, EO, float, R, ColStride, 4, true, final>;

template <class T>
struct LogAdd {
  T operator()(const T& a, const T& b) const { return max(a, b) + log1p(exp(-abs(a - b))); }
};
template <class T>
struct WeightedSum {
  T operator()(const T& sum, const T& x, const T& weight) const { return sum + x * weight; }
};

TEST(CutlassGraph, Reductions) {
  expect_graph<Sm90EVT<RowSum<plus, plus, half_t>, A>>(
      "def epilogue(acc):\n  row0: f16 = sum(acc, axis=0)\n  D: f32 = acc\n  return row0, D\n");
  expect_graph<Sm90EVT<ColSum<plus, plus>, A>>(
      "def epilogue(acc):\n  col0: f32 = sum(acc, axis=1)\n  D: f32 = acc\n  return col0, D\n");
  expect_graph<Sm90EVT<Sm90ScalarReduction<plus, atomic_add, float, float, R>, A>>(
      "def epilogue(acc):\n  s0: f32 = sum(acc)\n  D: f32 = acc\n  return s0, D\n");
  // The identity is 0 unless somebody says otherwise, and joins the maximum; NaN does not.
  expect_graph<Sm90EVT<ColSum<maximum, maximum>, A>>(
      "def epilogue(acc):\n  col0: f32 = max(max(where(acc != acc, -inf, acc), axis=1), 0.0)\n  D: f32 = acc\n  return "
      "col0, D\n");
  expect_graph<Sm90EVT<ColSum<minimum_with_nan_propagation, minimum_with_nan_propagation>, A>>(
      "def epilogue(acc):\n  col0: f32 = min(min(acc, axis=1), 0.0)\n  D: f32 = acc\n  return col0, D\n");
  // A function of one's own in the registers, then one that is known.
  expect_graph<Sm90EVT<ColSum<square_and_plus, plus>, A>>(
      "def epilogue(acc):\n  col0: f32 = sum(acc * acc + 0.0, axis=1)\n  D: f32 = acc\n  return col0, D\n");
  expect_graph<Sm90EVT<ColSum<LogAdd, LogAdd>, A>>(
      "def add(a, b):\n  return max(a, b) + log1p(exp(-abs(a - b)))\n"
      "def epilogue(acc):\n"
      "  x = max(0.0, acc) + log1p(exp(-abs(0.0 - acc)))\n"
      "  col0: f32 = reduce(x, combine=lambda a, b: max(a, b) + log1p(exp(-abs(a - b))), identity=0.0, axis=1)\n"
      "  D: f32 = acc\n  return col0, D\n");
  expect_graph<Sm90EVT<
      Sm90RowReduction<WeightedSum, plus, plus, 0, T, float, float, R, RowStride, 4, true, true, true, seq<0, 2, 1>>, S,
      A>>(
      "def epilogue(acc, s0: scalar[f32]):\n  row0: f32 = sum(0.0 + acc * s0, axis=0)\n"
      "  D: f32 = where(n_index() >= 0, where(m_index() >= 0, s0, s0), where(m_index() >= 0, s0, s0))\n  return row0, "
      "D\n");
  // Parts of a tile's rows or columns, in the compute type.
  expect_graph<Sm90EVT<RowSum<plus, plus, half_t, false>, A>>(
      "def epilogue(acc):\n  row0: f32 = sum(acc, axis=0, group=128)\n  D: f32 = acc\n  return row0, D\n");
  expect_graph<Sm90EVT<ColSum<plus, plus, half_t, false>, A>>(
      "def epilogue(acc):\n  col0: f32 = sum(acc, axis=1, group=64)\n  D: f32 = acc\n  return col0, D\n");
}

// The trees of the visitor tree article, and others that people have.
TEST(CutlassGraph, TopologicalVisitorsShareTheirNodes) {
  using Loss = Sm90TopologicalVisitor<float, tuple<seq<>, seq<>, seq<0, 1>, seq<0>, seq<3>, seq<4>, seq<2, 5>>,
                                      Sm90EVT<P<plus>, Sm90ColBroadcast<0, T, float, ColStride>, A>,
                                      Sm90EVT<P<minus>, Sm90SrcFetch<float>, S>, P<multiplies>, P<Sigmoid>, P<Clamp>,
                                      P<Log>, P<plus>>;
  const std::string text =
      "def epilogue(acc, col0: col[f32], C: tile[f32], s0: scalar[f32], p0: scalar[f32], p1: scalar[f32]):\n"
      "  x = col0 + acc\n"
      "  D: f32 = x * (C - s0) + log(clamp(sigmoid(x), p0, p1))\n";
  expect_graph<Loss>(text + "  return D\n");
  expect_graph<Sm90EVT<Sm90ScalarReduction<plus, atomic_add, float, float, R>, Loss>>(
      text + "  s1: f32 = sum(D)\n  return s1, D\n");
  // beta * C + (relu(z) + aux), the operands of the last operation in another order.
  expect_graph<Sm90TopologicalVisitor<float, tuple<seq<>, seq<>, seq<>, seq<1, 0, 2>>, Sm90SrcFetch<float>, S,
                                      Sm90EVT<P<plus>, Sm90EVT<P<ReLU>, A>, Load<float>>, P<homogeneous_multiply_add>>>(
      "def epilogue(acc, C: tile[f32], s0: scalar[f32], aux0: tile[f32]):\n"
      "  D: f32 = scaled(s0, C) + (relu(acc) + aux0)\n  return D\n");
  // What others use is converted to the visitor's type; the last result is not.
  expect_graph<Sm90TopologicalVisitor<half_t, tuple<seq<>, seq<0>, seq<0, 1>>, A, P<Tanh>, P<plus>>>(
      "def epilogue(acc):\n  h = cast(acc, f16)\n  D: f32 = h + cast(tanh(h), f16)\n  return D\n");
}

TEST(CutlassGraph, SplitTreesTakeTheirInputForTheAccumulator) {
  using Input = Sm90EVT<P<plus>, A, Row<float>>;
  expect_graph<Sm90SplitTreeVisitor<Input, Sm90EVT<P<ReLU, half_t>, Sm90SplitTreeFetch>,
                                    Sm90EVT<Store<float>, Sm90EVT<P<multiplies>, Sm90SplitTreeFetch, S>>>>(
      "def epilogue(acc, row0: row[f32], s0: scalar[f32]):\n"
      "  z = acc + row0\n  aux0: f32 = z * s0\n  D: f16 = relu(z)\n  return aux0, D\n");
}

TEST(CutlassGraph, NodesOfOurs) {
  using evt::Chunk, evt::Named, evt::Statistic;
  // A softmax, whose statistics are used again.
  expect_graph<Sm90TopologicalVisitor<float, tuple<seq<>, seq<0>, seq<0, 1>, seq<2>, seq<3>, seq<3, 4>>, A,
                                      Statistic<postlude::max, Axis::n>, P<minus>, P<fast_exp_op>,
                                      Statistic<postlude::sum, Axis::n>, P<divides>>>(
      "def epilogue(acc):\n  e = exp(acc - max(acc, axis=1))\n  D: f32 = e / sum(e, axis=1)\n  return D\n");
  expect_graph<Sm90EVT<P<multiplies>, Sm90EVT<P<SiLu>, Sm90EVT<Chunk<2, 0>, A>>, Sm90EVT<Chunk<2, 1>, A>>>(
      "def epilogue(acc):\n  gate, up = chunk(acc, 2)\n  D: f32 = silu(gate) * up\n  return D\n");
  expect_graph<Sm90EVT<P<plus>, Named<"bias", Row<float>>, Sm90EVT<Named<"pre", Store<half_t>>, A>>>(
      "def epilogue(acc, bias: row[f32]):\n  pre: f16 = acc\n  D: f32 = bias + acc\n  return pre, D\n");
}

struct Dropout {
  struct Arguments {
    std::int64_t seed = 7;
    const float* keep = nullptr;
    float* kept = nullptr;
  };
  static constexpr const char* name = "Dropout";
  static constexpr int children = 1;
  static Value build(evt::Scope& scope, const Arguments& a, std::span<const Value> x) {
    const Value keep = scope.operand(scalar_axes, a.keep);
    const Value y = where(random_like(scope) < keep, x[0], 0);
    scope.output(sum(y, Axis::n), col_axes, a.kept, {1, 0, 0});
    return y;
  }
  static Value random_like(evt::Scope& scope) { return sigmoid(scope.accumulator()); }
};

TEST(CutlassGraph, ANodeOfOnesOwn) {
  expect_graph<Sm90EVT<Dropout, Sm90EVT<P<ReLU>, A>>>(
      "def epilogue(acc, s0: scalar[f32]):\n"
      "  D: f32 = where(sigmoid(acc) < s0, relu(acc), 0)\n  col0: f32 = sum(D, axis=1)\n  return col0, D\n");
}

TEST(CutlassGraph, TopKSoftmax) {
  expect_graph<Sm90EVT<Sm90TopKSoftmaxColReduction<2, 0, T, void, half_t, float, R>, A>>(
      "def two(a1, a2, b1, b2):\n  high, low = max(a1, b2), max(a2, b1)\n  return max(high, low), min(high, low)\n"
      "def epilogue(acc):\n"
      "  first, second = reduce((acc, where(acc == acc, -inf, -inf)), combine=two, identity=(-inf, -inf), axis=1)\n"
      "  size = first + log(exp(first - first) + exp(second - first))\n"
      "  D: f16 = where(acc >= second, exp(acc - size), 0)\n  return D\n");
}

}  // namespace
}  // namespace postlude::evt_tests
