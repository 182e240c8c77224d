// CUTLASS's named fusion operations: each is a tree, with Arguments that have names. Z = beta * C + (alpha * acc +
// bias).
#pragma once

#include <postlude/evt/cutlass/nodes.h>

namespace postlude::inline v0::evt::cutlass {

namespace detail {

// Fields of Arguments, in CUTLASS's order. Each operation has those that it needs; `Stride` is of alpha and beta.
using PerBatch = Stride<_0, _0, std::int64_t>;
using PerRow = Stride<_1, _0, std::int64_t>;
using PerColumn = Stride<_0, _1, std::int64_t>;
using PerRowIfTrue = Stride<bool, _0, std::int64_t>;
using PerColumnIfTrue = Stride<_0, bool, std::int64_t>;

// What a stride is where nobody says: along its axis, shared by all batches.
template <class Stride>
inline constexpr Stride usual{};
template <>
inline constexpr PerRowIfTrue usual<PerRowIfTrue>{true, {}, 0};
template <>
inline constexpr PerColumnIfTrue usual<PerColumnIfTrue>{{}, true, 0};

template <class Fn>
using Parameters = typename ParametersOf<Fn>::type;

template <class Scalar>
struct LinearArguments {
  Scalar alpha = Scalar(1);
  Scalar beta = Scalar(0);
  Scalar const* alpha_ptr = nullptr;
  Scalar const* beta_ptr = nullptr;
  PerBatch dAlpha = {};
  PerBatch dBeta = {};
};
template <class Scalar, class Activation>
struct ActivationArguments {
  Scalar alpha = Scalar(1);
  Scalar beta = Scalar(0);
  Scalar const* alpha_ptr = nullptr;
  Scalar const* beta_ptr = nullptr;
  PerBatch dAlpha = {};
  PerBatch dBeta = {};
  Parameters<Activation> activation = {};
};
template <class Scalar, class Bias, class StrideBias>
struct BiasArguments {
  Scalar alpha = Scalar(1);
  Scalar beta = Scalar(0);
  Scalar const* alpha_ptr = nullptr;
  Scalar const* beta_ptr = nullptr;
  PerBatch dAlpha = {};
  PerBatch dBeta = {};
  Bias const* bias_ptr = nullptr;
  StrideBias dBias = {};
};
template <class Scalar, class Stride, class Bias, class StrideBias, class Activation>
struct BiasActivationArguments {
  Scalar alpha = Scalar(1);
  Scalar beta = Scalar(0);
  Scalar const* alpha_ptr = nullptr;
  Scalar const* beta_ptr = nullptr;
  Stride dAlpha = usual<Stride>;
  Stride dBeta = usual<Stride>;
  Bias const* bias_ptr = nullptr;
  StrideBias dBias = {};
  Parameters<Activation> activation = {};
};
template <class Scalar, class Bias, class StrideBias, class Activation, class Aux, class StrideAux>
struct BiasActivationAuxArguments {
  Scalar alpha = Scalar(1);
  Scalar beta = Scalar(0);
  Scalar const* alpha_ptr = nullptr;
  Scalar const* beta_ptr = nullptr;
  PerBatch dAlpha = {};
  PerBatch dBeta = {};
  Bias const* bias_ptr = nullptr;
  StrideBias dBias = {};
  Parameters<Activation> activation = {};
  Aux* aux_ptr = nullptr;
  StrideAux dAux = {};
};
template <class Scalar, class Bias, class StrideBias, class Activation>
struct ScaledArguments {
  Scalar alpha = Scalar(1);
  Scalar beta = Scalar(0);
  Scalar const* alpha_ptr = nullptr;
  Scalar const* beta_ptr = nullptr;
  Scalar scale_a = Scalar(1);
  Scalar scale_b = Scalar(1);
  Scalar scale_c = Scalar(1);
  Scalar scale_d = Scalar(1);
  Scalar const* scale_a_ptr = nullptr;
  Scalar const* scale_b_ptr = nullptr;
  Scalar const* scale_c_ptr = nullptr;
  Scalar const* scale_d_ptr = nullptr;
  PerBatch dAlpha = {};
  PerBatch dBeta = {};
  Bias const* bias_ptr = nullptr;
  StrideBias dBias = {};
  Parameters<Activation> activation = {};
};
template <class Scalar, class Bias, class StrideBias, class Activation, class Amax, class Aux, class StrideAux>
struct ScaledAmaxAuxArguments {
  Scalar alpha = Scalar(1);
  Scalar beta = Scalar(0);
  Scalar const* alpha_ptr = nullptr;
  Scalar const* beta_ptr = nullptr;
  Scalar scale_a = Scalar(1);
  Scalar scale_b = Scalar(1);
  Scalar scale_c = Scalar(1);
  Scalar scale_d = Scalar(1);
  Scalar const* scale_a_ptr = nullptr;
  Scalar const* scale_b_ptr = nullptr;
  Scalar const* scale_c_ptr = nullptr;
  Scalar const* scale_d_ptr = nullptr;
  Scalar scale_aux = Scalar(1);
  Scalar const* scale_aux_ptr = nullptr;
  PerBatch dAlpha = {};
  PerBatch dBeta = {};
  Bias const* bias_ptr = nullptr;
  StrideBias dBias = {};
  Parameters<Activation> activation = {};
  Amax* amax_D_ptr = nullptr;
  Amax* amax_aux_ptr = nullptr;
  Aux* aux_ptr = nullptr;
  StrideAux dAux = {};
};
template <class Scalar, class Activation, class Aux, class StrideAux>
struct GradientArguments {
  Scalar alpha = Scalar(1);
  Scalar beta = Scalar(0);
  Scalar const* alpha_ptr = nullptr;
  Scalar const* beta_ptr = nullptr;
  PerBatch dAlpha = {};
  PerBatch dBeta = {};
  Parameters<Activation> activation = {};
  Aux const* aux_ptr = nullptr;
  StrideAux dAux = {};
};
template <class Scalar, class Activation, class Aux, class StrideAux, class Bias>
struct GradientBiasArguments {
  Scalar alpha = Scalar(1);
  Scalar beta = Scalar(0);
  Scalar const* alpha_ptr = nullptr;
  Scalar const* beta_ptr = nullptr;
  PerBatch dAlpha = {};
  PerBatch dBeta = {};
  Parameters<Activation> activation = {};
  Aux const* aux_ptr = nullptr;
  StrideAux dAux = {};
  Bias* dbias_ptr = nullptr;
  PerRow dDbias = {};
};

template <class EO, class EC, class Source, class Scalar, FloatRoundStyle R>
using Linear =
    Sm90EVT<Sm90Compute<homogeneous_multiply_add, EO, EC, R>, Sm90ScalarBroadcast<Scalar, PerBatch>,
            Sm90SrcFetch<Source>,
            Sm90EVT<Sm90Compute<multiplies, EC, EC, R>, Sm90ScalarBroadcast<Scalar, PerBatch>, Sm90AccFetch>>;
template <class Clause>
Clause linear(const auto& a) {
  return {{{a.beta}, {a.beta_ptr}, {a.dBeta}}, {}, {{{a.alpha}, {a.alpha_ptr}, {a.dAlpha}}, {}, {}}, {}};
}

// `Beta` and `Alpha` are nodes: scalars or vectors.
template <class EO, class EC, class Beta, class Source, class Alpha, class Bias, FloatRoundStyle R>
using LinearBias = Sm90EVT<Sm90Compute<homogeneous_multiply_add, EO, EC, R>, Beta, Sm90SrcFetch<Source>,
                           Sm90EVT<Sm90Compute<homogeneous_multiply_add, EC, EC, R>, Alpha, Sm90AccFetch, Bias>>;
template <class Clause>
Clause linear_bias(const auto& a) {
  return {{{a.beta}, {a.beta_ptr}, {a.dBeta}},
          {},
          {{{a.alpha}, {a.alpha_ptr}, {a.dAlpha}}, {}, {a.bias_ptr, {}, a.dBias}, {}},
          {}};
}
template <class Clause>
Clause vector_linear_bias(const auto& a) {
  return {{a.beta_ptr, a.beta, a.dBeta}, {}, {{a.alpha_ptr, a.alpha, a.dAlpha}, {}, {a.bias_ptr, {}, a.dBias}, {}}, {}};
}
template <class Clause>
Clause scaled_linear_bias(const auto& a) {
  return {{{a.beta, a.scale_c}, {a.beta_ptr, a.scale_c_ptr}, {a.dBeta}},
          {},
          {{{a.alpha, a.scale_a, a.scale_b}, {a.alpha_ptr, a.scale_a_ptr, a.scale_b_ptr}, {a.dAlpha}},
           {},
           {a.bias_ptr, {}, a.dBias},
           {}},
          {}};
}
// A bias a row is a column, and the other way round.
template <class E, class EC>
using BiasPerRow = Sm90ColBroadcast<0, void, E, EC, PerRow>;
template <class E, class EC>
using BiasPerColumn = Sm90RowBroadcast<0, void, E, EC, PerColumn>;

// Only what is written as fp8 is scaled.
template <class T>
inline constexpr bool is_fp8 = std::is_same_v<T, float_e4m3_t> || std::is_same_v<T, float_e5m2_t>;
template <bool scales>
struct ScaleOut {
  template <class T>
  struct Op : multiplies<T> {};
};
template <>
struct ScaleOut<false> {
  template <class T>
  struct Op : first<T> {};
};
template <class T>
using Amax = maximum_absolute_value_reduction<T, true>;

// D = activation(Z), with its largest magnitude if it is fp8; Aux = Z. An fp8 Aux is scaled and has a largest magnitude
// of its own, so that Z is used twice.
template <class Layout, POSTLUDE_EVT_FUNCTION ActivationFn, class Z, class ElementOutput, class ElementCompute,
          class ElementAux, class ElementAmax, class ElementScalar, FloatRoundStyle R>
struct AmaxAux {
  static constexpr bool scales = is_fp8<ElementOutput>;
  template <class Input>
  using Activated = Sm90EVT<Sm90Compute<ActivationFn, ElementCompute, ElementCompute, R>, Input>;
  template <class Input>
  using Measured = Sm90EVT<Sm90ScalarReduction<Amax, atomic_maximum, ElementAmax, ElementCompute, R>, Input>;
  template <class Input>
  using Output = Sm90EVT<Sm90Compute<ScaleOut<scales>::template Op, ElementOutput, ElementCompute, R>,
                         std::conditional_t<scales, Measured<Activated<Input>>, Activated<Input>>,
                         Sm90ScalarBroadcast<ElementScalar>>;
  using Store = Sm90AuxStore<0, void, ElementAux, R, Layout>;
  using Split =
      Sm90SplitTreeVisitor<Z, Output<Sm90SplitTreeFetch>,
                           Sm90EVT<Store, Sm90EVT<Sm90Compute<multiplies, ElementCompute, ElementCompute, R>,
                                                  Measured<Sm90SplitTreeFetch>, Sm90ScalarBroadcast<ElementScalar>>>>;
  using type = std::conditional_t<is_fp8<ElementAux>, Split, Output<Sm90EVT<Store, Z>>>;

  template <class Clause>
  static Clause output(const auto& input, const auto& a) {
    if constexpr (scales) return {{{input, a.activation}, {a.amax_D_ptr}}, {{a.scale_d}, {a.scale_d_ptr}}, {}};
    else return {{input, a.activation}, {{a.scale_d}, {a.scale_d_ptr}}, {}};
  }
  static typename type::Arguments arguments(const auto& a) {
    const auto z = scaled_linear_bias<typename Z::Arguments>(a);
    if constexpr (is_fp8<ElementAux>) {
      return {z,
              {{{{}, {a.amax_aux_ptr}}, {{a.scale_aux}, {a.scale_aux_ptr}}, {}}, {a.aux_ptr, a.dAux}},
              output<typename Output<Sm90SplitTreeFetch>::Arguments>(Empty{}, a)};
    } else {
      return output<typename type::Arguments>(typename Sm90EVT<Store, Z>::Arguments{z, {a.aux_ptr, a.dAux}}, a);
    }
  }
};

}  // namespace detail

// D = alpha * acc.
template <class ElementOutput, class ElementCompute, class ElementScalar = ElementCompute,
          FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct ScaledAcc {
  using VisitorTree = Sm90EVT<Sm90Compute<multiplies, ElementOutput, ElementCompute, RoundStyle>,
                              Sm90ScalarBroadcast<ElementScalar, detail::PerBatch>, Sm90AccFetch>;
  struct Arguments {
    ElementScalar alpha = ElementScalar(1);
    ElementScalar beta = ElementScalar(0);
    ElementScalar const* alpha_ptr = nullptr;
    ElementScalar const* beta_ptr = nullptr;
    detail::PerBatch dAlpha = {};
  };
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {{{a.alpha}, {a.alpha_ptr}, {a.dAlpha}}, {}, {}};
  }
};

// D = beta * C + alpha * acc.
template <class ElementOutput, class ElementCompute, class ElementSource = ElementOutput,
          class ElementScalar = ElementCompute, FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct LinearCombination {
  using VisitorTree = detail::Linear<ElementOutput, ElementCompute, ElementSource, ElementScalar, RoundStyle>;
  using Arguments = detail::LinearArguments<ElementScalar>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return detail::linear<typename VisitorTree::Arguments>(a);
  }
};

// D = activation(beta * C + alpha * acc).
template <POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementSource = ElementOutput, class ElementScalar = ElementCompute,
          FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct LinCombEltAct {
  using Z = detail::Linear<ElementCompute, ElementCompute, ElementSource, ElementScalar, RoundStyle>;
  using VisitorTree = Sm90EVT<Sm90Compute<ActivationFn, ElementOutput, ElementCompute, RoundStyle>, Z>;
  using Arguments = detail::ActivationArguments<ElementScalar, ActivationFn<ElementCompute>>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {detail::linear<typename Z::Arguments>(a), a.activation};
  }
};

// D = the softmax of the K largest of each row of beta * C + alpha * acc.
template <int TopK, class ElementOutput, class ElementCompute, class ElementSource = ElementOutput,
          class ElementScalar = ElementCompute, FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct LinCombTopKSoftmaxCol {
  using Z = detail::Linear<ElementCompute, ElementCompute, ElementSource, ElementScalar, RoundStyle>;
  using VisitorTree =
      Sm90EVT<Sm90TopKSoftmaxColReduction<TopK, 0, void, void, ElementOutput, ElementCompute, RoundStyle>, Z>;
  struct Arguments {
    ElementScalar alpha = ElementScalar(1);
    ElementScalar beta = ElementScalar(0);
    ElementScalar const* alpha_ptr = nullptr;
    ElementScalar const* beta_ptr = nullptr;
  };
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {{{{a.beta}, {a.beta_ptr}}, {}, {{{a.alpha}, {a.alpha_ptr}}, {}, {}}, {}}, {}};
  }
};

// D = beta * C + (alpha * acc + bias), a bias for each row.
template <class ElementOutput, class ElementCompute, class ElementBias = ElementOutput,
          class ElementSource = ElementOutput, class ElementScalar = ElementCompute, int AlignmentBias = 1,
          FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct LinCombPerRowBias {
  using VisitorTree =
      detail::LinearBias<ElementOutput, ElementCompute, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch>,
                         ElementSource, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch>,
                         detail::BiasPerRow<ElementBias, ElementCompute>, RoundStyle>;
  using Arguments = detail::BiasArguments<ElementScalar, ElementBias, detail::PerRow>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return detail::linear_bias<typename VisitorTree::Arguments>(a);
  }
};
// D = beta * C + (alpha * acc + bias), a bias for each column.
template <class ElementOutput, class ElementCompute, class ElementBias = ElementOutput,
          class ElementSource = ElementOutput, class ElementScalar = ElementCompute, int AlignmentBias = 1,
          FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct LinCombPerColBias {
  using VisitorTree =
      detail::LinearBias<ElementOutput, ElementCompute, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch>,
                         ElementSource, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch>,
                         detail::BiasPerColumn<ElementBias, ElementCompute>, RoundStyle>;
  using Arguments = detail::BiasArguments<ElementScalar, ElementBias, detail::PerColumn>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return detail::linear_bias<typename VisitorTree::Arguments>(a);
  }
};

// D = activation(Z), a bias for each row.
template <POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementBias = ElementOutput, class ElementSource = ElementOutput, class ElementScalar = ElementCompute,
          int AlignmentBias = 1, FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct LinCombPerRowBiasEltAct {
  using Z = detail::LinearBias<ElementCompute, ElementCompute, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch>,
                               ElementSource, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch>,
                               detail::BiasPerRow<ElementBias, ElementCompute>, RoundStyle>;
  using VisitorTree = Sm90EVT<Sm90Compute<ActivationFn, ElementOutput, ElementCompute, RoundStyle>, Z>;
  using Arguments = detail::BiasActivationArguments<ElementScalar, detail::PerBatch, ElementBias, detail::PerRow,
                                                    ActivationFn<ElementCompute>>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {detail::linear_bias<typename Z::Arguments>(a), a.activation};
  }
};
// D = activation(Z), a bias for each column.
template <POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementBias = ElementOutput, class ElementSource = ElementOutput, class ElementScalar = ElementCompute,
          int AlignmentBias = 1, FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct LinCombPerColBiasEltAct {
  using Z = detail::LinearBias<ElementCompute, ElementCompute, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch>,
                               ElementSource, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch>,
                               detail::BiasPerColumn<ElementBias, ElementCompute>, RoundStyle>;
  using VisitorTree = Sm90EVT<Sm90Compute<ActivationFn, ElementOutput, ElementCompute, RoundStyle>, Z>;
  using Arguments = detail::BiasActivationArguments<ElementScalar, detail::PerBatch, ElementBias, detail::PerColumn,
                                                    ActivationFn<ElementCompute>>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {detail::linear_bias<typename Z::Arguments>(a), a.activation};
  }
};

// D = activation(Z), Aux = Z, a bias for each row.
template <class GmemLayoutTagAux, POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementAux = ElementOutput, class ElementBias = ElementOutput, class ElementSource = ElementOutput,
          class ElementScalar = ElementCompute, int AlignmentAux = 1, int AlignmentBias = 1,
          FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct LinCombPerRowBiasEltActAux {
  using Z = detail::LinearBias<ElementCompute, ElementCompute, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch>,
                               ElementSource, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch>,
                               detail::BiasPerRow<ElementBias, ElementCompute>, RoundStyle>;
  using VisitorTree = Sm90EVT<Sm90Compute<ActivationFn, ElementOutput, ElementCompute, RoundStyle>,
                              Sm90EVT<Sm90AuxStore<0, void, ElementAux, RoundStyle, GmemLayoutTagAux>, Z>>;
  using Arguments =
      detail::BiasActivationAuxArguments<ElementScalar, ElementBias, detail::PerRow, ActivationFn<ElementCompute>,
                                         ElementAux, TagToStrideC_t<GmemLayoutTagAux>>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {{detail::linear_bias<typename Z::Arguments>(a), {a.aux_ptr, a.dAux}}, a.activation};
  }
};
// D = activation(Z), Aux = Z, a bias for each column.
template <class GmemLayoutTagAux, POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementAux = ElementOutput, class ElementBias = ElementOutput, class ElementSource = ElementOutput,
          class ElementScalar = ElementCompute, int AlignmentAux = 1, int AlignmentBias = 1,
          FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct LinCombPerColBiasEltActAux {
  using Z = detail::LinearBias<ElementCompute, ElementCompute, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch>,
                               ElementSource, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch>,
                               detail::BiasPerColumn<ElementBias, ElementCompute>, RoundStyle>;
  using VisitorTree = Sm90EVT<Sm90Compute<ActivationFn, ElementOutput, ElementCompute, RoundStyle>,
                              Sm90EVT<Sm90AuxStore<0, void, ElementAux, RoundStyle, GmemLayoutTagAux>, Z>>;
  using Arguments =
      detail::BiasActivationAuxArguments<ElementScalar, ElementBias, detail::PerColumn, ActivationFn<ElementCompute>,
                                         ElementAux, TagToStrideC_t<GmemLayoutTagAux>>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {{detail::linear_bias<typename Z::Arguments>(a), {a.aux_ptr, a.dAux}}, a.activation};
  }
};

// D = activation(Z) with alpha, beta and bias for each row; alpha and beta are one value where their bool is false.
template <POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementBias = ElementOutput, class ElementSource = ElementOutput, class ElementScalar = ElementCompute,
          int AlignmentBias = 1, int AlignmentScalar = 1,
          FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct PerRowLinCombPerRowBiasEltAct {
  using Scale = Sm90ColBroadcast<0, void, ElementScalar, ElementCompute, detail::PerRowIfTrue>;
  using Z = detail::LinearBias<ElementCompute, ElementCompute, Scale, ElementSource, Scale,
                               detail::BiasPerRow<ElementBias, ElementCompute>, RoundStyle>;
  using VisitorTree = Sm90EVT<Sm90Compute<ActivationFn, ElementOutput, ElementCompute, RoundStyle>, Z>;
  using Arguments = detail::BiasActivationArguments<ElementScalar, detail::PerRowIfTrue, ElementBias, detail::PerRow,
                                                    ActivationFn<ElementCompute>>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {detail::vector_linear_bias<typename Z::Arguments>(a), a.activation};
  }
};
// D = activation(Z) with alpha, beta and bias for each column; alpha and beta are one value where their bool is false.
template <POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementBias = ElementOutput, class ElementSource = ElementOutput, class ElementScalar = ElementCompute,
          int AlignmentBias = 1, int AlignmentScalar = 1,
          FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct PerColLinCombPerColBiasEltAct {
  using Scale = Sm90RowBroadcast<0, void, ElementScalar, ElementCompute, detail::PerColumnIfTrue>;
  using Z = detail::LinearBias<ElementCompute, ElementCompute, Scale, ElementSource, Scale,
                               detail::BiasPerColumn<ElementBias, ElementCompute>, RoundStyle>;
  using VisitorTree = Sm90EVT<Sm90Compute<ActivationFn, ElementOutput, ElementCompute, RoundStyle>, Z>;
  using Arguments = detail::BiasActivationArguments<ElementScalar, detail::PerColumnIfTrue, ElementBias,
                                                    detail::PerColumn, ActivationFn<ElementCompute>>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {detail::vector_linear_bias<typename Z::Arguments>(a), a.activation};
  }
};
// D = beta * C + activation(alpha * acc + bias), each of them for each column.
template <POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementBias = ElementOutput, class ElementSource = ElementOutput, class ElementScalar = ElementCompute,
          int AlignmentBias = 1, int AlignmentScalar = 1,
          FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct PerColResAddPerColBiasEltAct {
  using Scale = Sm90RowBroadcast<0, void, ElementScalar, ElementCompute, detail::PerColumnIfTrue>;
  using VisitorTree =
      Sm90EVT<Sm90Compute<homogeneous_multiply_add, ElementOutput, ElementCompute, RoundStyle>, Scale,
              Sm90SrcFetch<ElementSource>,
              Sm90EVT<Sm90Compute<ActivationFn, ElementCompute, ElementCompute, RoundStyle>,
                      Sm90EVT<Sm90Compute<homogeneous_multiply_add, ElementCompute, ElementCompute, RoundStyle>, Scale,
                              Sm90AccFetch, detail::BiasPerColumn<ElementBias, ElementCompute>>>>;
  using Arguments = detail::BiasActivationArguments<ElementScalar, detail::PerColumnIfTrue, ElementBias,
                                                    detail::PerColumn, ActivationFn<ElementCompute>>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {{a.beta_ptr, a.beta, a.dBeta},
            {},
            {{{a.alpha_ptr, a.alpha, a.dAlpha}, {}, {a.bias_ptr, {}, a.dBias}, {}}, a.activation},
            {}};
  }
};

// Z with alpha * scale_a * scale_b and beta * scale_c, a bias for each row; D = activation(Z), times scale_d if it is
// fp8.
template <POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementBias = ElementOutput, class ElementSource = ElementOutput, class ElementScalar = ElementCompute,
          int AlignmentBias = 1, FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct ScaledLinCombPerRowBiasEltAct {
  using Z = detail::LinearBias<ElementCompute, ElementCompute, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch, 2>,
                               ElementSource, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch, 3>,
                               detail::BiasPerRow<ElementBias, ElementCompute>, RoundStyle>;
  using VisitorTree = Sm90EVT<Sm90Compute<detail::ScaleOut<detail::is_fp8<ElementOutput>>::template Op, ElementOutput,
                                          ElementCompute, RoundStyle>,
                              Sm90EVT<Sm90Compute<ActivationFn, ElementCompute, ElementCompute, RoundStyle>, Z>,
                              Sm90ScalarBroadcast<ElementScalar>>;
  using Arguments = detail::ScaledArguments<ElementScalar, ElementBias, detail::PerRow, ActivationFn<ElementCompute>>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {{detail::scaled_linear_bias<typename Z::Arguments>(a), a.activation}, {{a.scale_d}, {a.scale_d_ptr}}, {}};
  }
};
// Z with alpha * scale_a * scale_b and beta * scale_c, a bias for each column; D = activation(Z), times scale_d if it
// is fp8.
template <POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementBias = ElementOutput, class ElementSource = ElementOutput, class ElementScalar = ElementCompute,
          int AlignmentBias = 1, FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct ScaledLinCombPerColBiasEltAct {
  using Z = detail::LinearBias<ElementCompute, ElementCompute, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch, 2>,
                               ElementSource, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch, 3>,
                               detail::BiasPerColumn<ElementBias, ElementCompute>, RoundStyle>;
  using VisitorTree = Sm90EVT<Sm90Compute<detail::ScaleOut<detail::is_fp8<ElementOutput>>::template Op, ElementOutput,
                                          ElementCompute, RoundStyle>,
                              Sm90EVT<Sm90Compute<ActivationFn, ElementCompute, ElementCompute, RoundStyle>, Z>,
                              Sm90ScalarBroadcast<ElementScalar>>;
  using Arguments =
      detail::ScaledArguments<ElementScalar, ElementBias, detail::PerColumn, ActivationFn<ElementCompute>>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {{detail::scaled_linear_bias<typename Z::Arguments>(a), a.activation}, {{a.scale_d}, {a.scale_d_ptr}}, {}};
  }
};

// The same, with the largest magnitude of activation(Z) if D is fp8; Aux = Z, if that is fp8 times scale_aux and with
// its own largest magnitude.
template <class GmemLayoutTagAux, POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementAux = ElementOutput, class ElementAmax = ElementCompute, class ElementBias = ElementOutput,
          class ElementSource = ElementOutput, class ElementScalar = ElementCompute, int AlignmentAux = 1,
          int AlignmentBias = 1, FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct ScaledLinCombPerRowBiasEltActAmaxAux {
  using Z = detail::LinearBias<ElementCompute, ElementCompute, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch, 2>,
                               ElementSource, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch, 3>,
                               detail::BiasPerRow<ElementBias, ElementCompute>, RoundStyle>;
  using Tree = detail::AmaxAux<GmemLayoutTagAux, ActivationFn, Z, ElementOutput, ElementCompute, ElementAux,
                               ElementAmax, ElementScalar, RoundStyle>;
  using VisitorTree = typename Tree::type;
  using Arguments =
      detail::ScaledAmaxAuxArguments<ElementScalar, ElementBias, detail::PerRow, ActivationFn<ElementCompute>,
                                     ElementAmax, ElementAux, TagToStrideC_t<GmemLayoutTagAux>>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) { return Tree::arguments(a); }
};
// The same, with the largest magnitude of activation(Z) if D is fp8; Aux = Z, if that is fp8 times scale_aux and with
// its own largest magnitude.
template <class GmemLayoutTagAux, POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementAux = ElementOutput, class ElementAmax = ElementCompute, class ElementBias = ElementOutput,
          class ElementSource = ElementOutput, class ElementScalar = ElementCompute, int AlignmentAux = 1,
          int AlignmentBias = 1, FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct ScaledLinCombPerColBiasEltActAmaxAux {
  using Z = detail::LinearBias<ElementCompute, ElementCompute, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch, 2>,
                               ElementSource, Sm90ScalarBroadcast<ElementScalar, detail::PerBatch, 3>,
                               detail::BiasPerColumn<ElementBias, ElementCompute>, RoundStyle>;
  using Tree = detail::AmaxAux<GmemLayoutTagAux, ActivationFn, Z, ElementOutput, ElementCompute, ElementAux,
                               ElementAmax, ElementScalar, RoundStyle>;
  using VisitorTree = typename Tree::type;
  using Arguments =
      detail::ScaledAmaxAuxArguments<ElementScalar, ElementBias, detail::PerColumn, ActivationFn<ElementCompute>,
                                     ElementAmax, ElementAux, TagToStrideC_t<GmemLayoutTagAux>>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) { return Tree::arguments(a); }
};

// D = activation(beta * C + alpha * acc, Aux), a gradient at what Aux holds.
template <class GmemLayoutTagAux, POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementAux = ElementOutput, class ElementSource = ElementOutput, class ElementScalar = ElementCompute,
          int AlignmentAux = 1, FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct LinCombDeEltAct {
  using dY = detail::Linear<ElementCompute, ElementCompute, ElementSource, ElementScalar, RoundStyle>;
  using VisitorTree = Sm90EVT<Sm90Compute<ActivationFn, ElementOutput, ElementCompute, RoundStyle>, dY,
                              Sm90AuxLoad<0, void, ElementAux, GmemLayoutTagAux>>;
  using Arguments = detail::GradientArguments<ElementScalar, ActivationFn<ElementCompute>, ElementAux,
                                              TagToStrideC_t<GmemLayoutTagAux>>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {detail::linear<typename dY::Arguments>(a), {a.aux_ptr, {}, a.dAux}, a.activation};
  }
};
// The same, and dbias = its sums over N, before D is rounded.
template <class GmemLayoutTagAux, POSTLUDE_EVT_FUNCTION ActivationFn, class ElementOutput, class ElementCompute,
          class ElementAux = ElementOutput, class ElementBias = ElementCompute, class ElementSource = ElementOutput,
          class ElementScalar = ElementCompute, int AlignmentAux = 1, int AlignmentBias = 1,
          FloatRoundStyle RoundStyle = FloatRoundStyle::round_to_nearest>
struct LinCombDeEltActDePerRowBias {
  using Gradient = LinCombDeEltAct<GmemLayoutTagAux, ActivationFn, ElementCompute, ElementCompute, ElementAux,
                                   ElementSource, ElementScalar, AlignmentAux, RoundStyle>;
  using VisitorTree = Sm90EVT<
      Sm90Compute<Identity, ElementOutput, ElementCompute, RoundStyle>,
      Sm90EVT<Sm90ColReduction<plus, plus, plus, 0, void, ElementBias, ElementCompute, RoundStyle, detail::PerRow>,
              typename Gradient::VisitorTree>>;
  using Arguments = detail::GradientBiasArguments<ElementScalar, ActivationFn<ElementCompute>, ElementAux,
                                                  TagToStrideC_t<GmemLayoutTagAux>, ElementBias>;
  static typename VisitorTree::Arguments tree_arguments(const Arguments& a) {
    return {{Gradient::tree_arguments(
                 {a.alpha, a.beta, a.alpha_ptr, a.beta_ptr, a.dAlpha, a.dBeta, a.activation, a.aux_ptr, a.dAux}),
             {a.dbias_ptr, {}, a.dDbias}},
            {}};
  }
};

// What is not here: groups of a weight gradient, and 4-bit results with a scale for each block.
struct RefusedOperation {
  using VisitorTree = Sm90EVT<detail::RefusedNode>;
  using Arguments = typename VisitorTree::Arguments;
};
template <class GroupsPerTile, class, class, class...>
struct LinearCombinationGroupedWgrad : RefusedOperation {};
template <int SFVecSize, class, class, class, class...>
struct LinCombBlockScaleFactor : RefusedOperation {};
template <POSTLUDE_EVT_FUNCTION, int SFVecSize, class, class, class, class...>
struct LinCombEltActBlockScaleFactor : RefusedOperation {};
template <int SFVecSize, class, class, class, class...>
struct LinCombPerRowBiasBlockScaleFactor : RefusedOperation {};
template <int SFVecSize, class, class, class, class...>
struct LinCombPerColBiasBlockScaleFactor : RefusedOperation {};
template <POSTLUDE_EVT_FUNCTION, int SFVecSize, class, class, class, class...>
struct LinCombPerRowBiasEltActBlockScaleFactor : RefusedOperation {};
template <POSTLUDE_EVT_FUNCTION, int SFVecSize, class, class, class, class...>
struct LinCombPerColBiasEltActBlockScaleFactor : RefusedOperation {};

}  // namespace postlude::inline v0::evt::cutlass
