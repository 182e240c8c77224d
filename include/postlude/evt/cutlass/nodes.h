// CUTLASS's visitor nodes. Template parameters are in CUTLASS's order; those that are about shared memory, copies and
// alignment mean nothing here. docs/from-cutlass.md says what each becomes.
#pragma once

#include <postlude/evt/cutlass/functions.h>
#include <postlude/evt/visitors.h>

namespace postlude::inline v0::evt::cutlass {

namespace detail {
using namespace evt::detail;

constexpr Rounding rounding(FloatRoundStyle style) {
  switch (style) {
    case FloatRoundStyle::round_toward_zero: return Rounding::toward_zero;
    case FloatRoundStyle::round_to_nearest_satfinite: return Rounding::nearest_finite;
    case FloatRoundStyle::round_toward_infinity: return Rounding::up;
    case FloatRoundStyle::round_toward_neg_infinity: return Rounding::down;
    case FloatRoundStyle::round_half_ulp_truncate:
    case FloatRoundStyle::round_half_ulp_trunc_dntz: return Rounding::refused;
    default: return Rounding::nearest_even;
  }
}

constexpr int add_row(Telling& t, Row row, const int* inputs, int n, int wanted) {
  if (n != wanted) t.wrong(Mistake::wrong_number_of_children, n, wanted);
  if (row.element == unsupported_element || row.compute == unsupported_element || row.result == unsupported_element)
    t.wrong(Mistake::unsupported_element);
  if (row.round == Rounding::refused) t.wrong(Mistake::unsupported_rounding);
  set_inputs(row, inputs, n);
  return t.add(row);
}

template <class Stride>
constexpr void check_axis(Telling& t, Along along, bool may_be_dynamic) {
  if (direction<Stride>.along != along || (direction<Stride>.dynamic && !may_be_dynamic)) t.wrong(Mistake::wrong_axis);
}

// How partial results meet, by the function of an element type.
struct Meeting {
  Family family = Family::other;
  bool drops_nan = false, absolute = false, atomic = false;
};
template <class F>
inline constexpr Meeting meeting{};
template <class T>
inline constexpr Meeting meeting<plus<T>>{Family::sum};
template <class T>
inline constexpr Meeting meeting<atomic_add<T>>{.family = Family::sum, .atomic = true};
template <class T>
inline constexpr Meeting meeting<multiplies<T>>{Family::prod};
template <class T>
inline constexpr Meeting meeting<atomic_maximum<T>>{.family = Family::max, .atomic = true};
template <class T>
inline constexpr Meeting meeting<maximum_with_nan_propagation<T>>{Family::max};
template <class T>
inline constexpr Meeting meeting<minimum_with_nan_propagation<T>>{Family::min};
template <class T>
inline constexpr Meeting meeting<maximum_with_default_nan_propagation<T>>{Family::max, true};
template <class T, bool nan>
inline constexpr Meeting meeting<maximum_absolute_value_reduction<T, nan>>{Family::max, !nan, true};
#if defined(__cpp_template_template_args) && __cpp_template_template_args >= 201611L
template <class T, bool nan>
inline constexpr Meeting meeting<maximum<T, nan>>{Family::max, !nan};
template <class T, bool nan>
inline constexpr Meeting meeting<minimum<T, nan>>{Family::min, !nan};
#else
template <class T>
inline constexpr Meeting meeting<maximum<T>>{Family::max, true};
template <class T>
inline constexpr Meeting meeting<minimum<T>>{Family::min, true};
#endif

// A reduction of n inputs with each function over Value (F) and over its element type (f). `order`: which of the state
// (0) and the inputs the register's function takes.
template <class Reg, class reg, class Combine, class combine, int n, int... order>
constexpr void reduce_by(Telling& t, Row& row, seq<order...>) {
  constexpr Meeting in_registers = meeting<reg>, among_threads = meeting<combine>;
  row.family = among_threads.family;
  if (n == 1 && in_registers.family == among_threads.family && in_registers.family != Family::other) {
    row.drops_nan = in_registers.drops_nan, row.absolute = in_registers.absolute;
    return;
  }
  row.drops_nan = among_threads.drops_nan;
  if constexpr (callable<Reg, Empty, sizeof...(order)>) {
    row.trace = [](std::span<const Value> x, std::span<const Value>) -> Value { return Reg{}(x[order]...); };
  } else {
    t.wrong(Mistake::function_takes_no_values);
  }
  if constexpr (among_threads.family == Family::other) row.combine = trace_of<Combine, Empty, 2>(t);
}

struct Leaf {
  using Arguments = Empty;
  static void give(const Arguments&, Giving&) {}
};

// Known by name, with whatever parameters, and refused.
struct RefusedNode : Leaf {
  template <int n>
  static constexpr int tell(Telling& t, const int*) {
    t.wrong(Mistake::unsupported_node);
    return t.add({});
  }
};

}  // namespace detail

// The accumulator; in the output trees of a split tree what its input tree gives.
struct Sm90AccFetch : detail::Leaf {
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    if (t.accumulator >= 0) return t.accumulator;
    return detail::add_row(t, {.kind = detail::Row::Kind::accumulator, .result = accumulator_element}, inputs, n, 0);
  }
};
using Sm90SplitTreeFetch = Sm90AccFetch;

// C.
template <class Element>
struct Sm90SrcFetch : detail::Leaf {
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    constexpr auto element = element_of<Element>;
    return detail::add_row(t, {.kind = detail::Row::Kind::source, .element = element, .result = element}, inputs, n, 0);
  }
};

// Scalars by value or pointer, one for all batches or one each, folded from the left.
template <class Element, class StrideMNL = Stride<_0, _0, _0>, int BroadcastCount = 1,
          POSTLUDE_EVT_FUNCTION ReductionFn = multiplies>
struct Sm90ScalarBroadcast {
  struct Arguments {
    Element scalars[static_cast<std::size_t>(BroadcastCount)] = {};
    Element const* scalar_ptrs[static_cast<std::size_t>(BroadcastCount)] = {};
    StrideMNL dScalar[static_cast<std::size_t>(BroadcastCount)] = {};
  };
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    constexpr auto element = element_of<Element>;
    detail::check_axis<StrideMNL>(t, detail::Along::none, false);
    detail::Row row{.kind = detail::Row::Kind::scalars, .element = element, .result = element, .count = BroadcastCount};
    if constexpr (BroadcastCount > 1) row.trace = detail::trace_of<ReductionFn<Value>, Empty, 2>(t);
    row.family = detail::meeting<ReductionFn<Element>>.family;  // of a product one factor of 0 is enough
    return detail::add_row(t, row, inputs, n, 0);
  }
  // No loop: GCC 12 at -O1 (its ivopts pass) drops one over these three arrays where it is inlined, scalars and all.
  static void give(const Arguments& a, Giving& giving) {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      (giving.emplace_back(a.scalar_ptrs[i], a.scalars[i], detail::strides(a.dScalar[i])), ...);
    }
    (std::make_index_sequence<static_cast<std::size_t>(BroadcastCount)>{});
  }
};

namespace detail {

// Before CUTLASS 3.6 the stride stood where the compute type stands now.
template <class ElementOrStride, class Element, class StrideMNL>
struct Broadcast {
  using Compute = ElementOrStride;
  using Stride = StrideMNL;
};
template <class... T, class Element, class StrideMNL>
struct Broadcast<Clauses<T...>, Element, StrideMNL> {
  using Compute = Element;
  using Stride = Clauses<T...>;
};

template <class Element, class Compute, class Stride, Along along, bool EnableNullptr, int n>
constexpr int tell_broadcast(Telling& t, const int* inputs) {
  check_axis<Stride>(t, along, true);
  if constexpr (std::is_pointer_v<Element>) t.wrong(Mistake::unsupported_node);
  return add_row(t,
                 {.kind = Row::Kind::operand,
                  .element = std::is_pointer_v<Element> ? element_of<float> : element_of<Element>,
                  .result = element_of<Compute>,
                  .axes = along == Along::n ? row_axes : col_axes,
                  .may_be_null = EnableNullptr},
                 inputs, n, 0);
}

}  // namespace detail

// N values, one a column; or, by a bool stride that is false, one.
template <int Stages, class CtaTileShapeMNK, class ElementInput,
          class ElementCompute = std::remove_pointer_t<ElementInput>, class StrideMNL_ = Stride<_0, _1, _0>,
          int Alignment = 1, bool EnableNullptr = true>
struct Sm90RowBroadcast {
  using Broadcast = detail::Broadcast<ElementCompute, ElementInput, StrideMNL_>;
  using StrideMNL = typename Broadcast::Stride;
  struct Arguments {
    ElementInput const* ptr_row = nullptr;
    ElementInput null_default = ElementInput(0);
    StrideMNL dRow = {};
  };
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    return detail::tell_broadcast<ElementInput, typename Broadcast::Compute, StrideMNL, detail::Along::n, EnableNullptr,
                                  n>(t, inputs);
  }
  static void give(const Arguments& a, Giving& giving) {
    giving.emplace_back(a.ptr_row, a.null_default, detail::strides(a.dRow));
  }
};

// M values, one a row.
template <int Stages, class CtaTileShapeMNK, class ElementInput,
          class ElementCompute = std::remove_pointer_t<ElementInput>, class StrideMNL_ = Stride<_1, _0, _0>,
          int Alignment = 1, bool EnableNullptr = true>
struct Sm90ColBroadcast {
  using Broadcast = detail::Broadcast<ElementCompute, ElementInput, StrideMNL_>;
  using StrideMNL = typename Broadcast::Stride;
  struct Arguments {
    ElementInput const* ptr_col = nullptr;
    ElementInput null_default = ElementInput(0);
    StrideMNL dCol = {};
  };
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    return detail::tell_broadcast<ElementInput, typename Broadcast::Compute, StrideMNL, detail::Along::m, EnableNullptr,
                                  n>(t, inputs);
  }
  static void give(const Arguments& a, Giving& giving) {
    giving.emplace_back(a.ptr_col, a.null_default, detail::strides(a.dCol));
  }
};

// A tile of M x N.
template <int Stages, class EpilogueTile, class Element, class LayoutOrStrideMNL, class SmemLayoutAtom = void,
          class CopyOpS2R = void, int Alignment = 1, bool EnableNullptr = true>
struct Sm90AuxLoad {
  using StrideMNL = TagToStrideC_t<LayoutOrStrideMNL>;
  struct Arguments {
    Element const* ptr_aux = nullptr;
    Element null_default = Element(0);
    StrideMNL dAux = {};
  };
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    return detail::add_row(t,
                           {.kind = detail::Row::Kind::operand,
                            .element = element_of<Element>,
                            .result = element_of<Element>,
                            .axes = tile_axes,
                            .may_be_null = EnableNullptr},
                           inputs, n, 0);
  }
  static void give(const Arguments& a, Giving& giving) {
    giving.emplace_back(a.ptr_aux, a.null_default, detail::strides(a.dAux));
  }
};

// Stores its child's value and hands it on unrounded.
template <int Stages, class EpilogueTile, class Element, FloatRoundStyle RoundStyle, class LayoutOrStrideMNL,
          class SmemLayoutAtom = void, class CopyOpR2S = void, int Alignment = 1, bool EnableNullptr = true>
struct Sm90AuxStore {
  using ElementAux = Element;
  using StrideMNL = TagToStrideC_t<LayoutOrStrideMNL>;
  struct Arguments {
    Element* ptr_aux = nullptr;
    StrideMNL dAux = {};
  };
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    return detail::add_row(t,
                           {.kind = detail::Row::Kind::store,
                            .round = detail::rounding(RoundStyle),
                            .element = element_of<Element>,
                            .result = n > 0 ? t[inputs[0]].result : no_element,
                            .may_be_null = EnableNullptr},
                           inputs, n, 1);
  }
  static void give(const Arguments& a, Giving& giving) { giving.emplace_back(a.ptr_aux, 0, detail::strides(a.dAux)); }
};

// A function of its children's values, each converted to ElementCompute; its result is converted to ElementOutput.
template <POSTLUDE_EVT_FUNCTION ComputeFn, class ElementOutput, class ElementCompute, FloatRoundStyle RoundStyle,
          class = void>
struct Sm90Compute {
  using Arguments = typename detail::ParametersOf<ComputeFn<ElementCompute>>::type;
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    using F = ComputeFn<Value>;
    using P = typename detail::ParametersOf<F>::type;
    using f = ComputeFn<ElementCompute>;
    constexpr int parameters = detail::member_count<Arguments>();
    detail::Row row{.kind = detail::Row::Kind::compute,
                    .round = detail::rounding(RoundStyle),
                    .compute = element_of<ElementCompute>,
                    .result = element_of<ElementOutput>,
                    .count = parameters};
    if constexpr (!detail::takes_values<P>(std::make_index_sequence<parameters>{}))
      t.wrong(detail::Mistake::unsupported_parameter);
    else row.trace = detail::trace_of<F, P, n>(t);
    row.last_is_condition = std::is_same_v<f, dReLU<ElementCompute>>;
    row.takes_first = std::is_base_of_v<first<ElementCompute>, f>;
    if constexpr (n == 1) {
      const detail::Row& child = t[inputs[0]];
      row.stores_mask = child.kind == detail::Row::Kind::store && child.element == element_of<uint1b_t> &&
                        (std::is_same_v<f, ReLu<ElementCompute>> || std::is_same_v<f, Clamp<ElementCompute>> ||
                         std::is_same_v<f, ThresholdReLU<ElementCompute>>);
    }
    if constexpr (n == 3 && std::is_same_v<f, homogeneous_multiply_add<ElementCompute>>) {
      using Kind = detail::Row::Kind;
      const Kind beta = t[inputs[0]].kind;
      row.skips_source = t[inputs[1]].kind == Kind::source && (beta == Kind::scalars || beta == Kind::operand);
    }
    return detail::add_row(t, row, inputs, n, n);
  }
  static void give(const Arguments& a, Giving& giving) {
    detail::for_each_member(a, [&](const auto& parameter) { giving.emplace_back(nullptr, parameter); });
  }
};

// Reductions hand on their child's value. `reduction_identity` is what each thread begins with: it joins a maximum or a
// minimum, and must be the true one for anything else.
template <POSTLUDE_EVT_FUNCTION RegReduceFn, POSTLUDE_EVT_FUNCTION GmemReduceFn, class ElementOutput,
          class ElementCompute, FloatRoundStyle RoundStyle, class StrideMNL = Stride<_0, _0, _0>,
          bool EnableNullptr = true>
struct Sm90ScalarReduction {
  struct Arguments {
    ElementOutput* ptr_scalar = nullptr;
    ElementCompute reduction_identity = ElementCompute(0);
    StrideMNL dScalar = {};
  };
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    detail::check_axis<StrideMNL>(t, detail::Along::none, false);
    detail::Row row{.kind = detail::Row::Kind::reduce,
                    .round = detail::rounding(RoundStyle),
                    .element = element_of<ElementOutput>,
                    .compute = element_of<ElementCompute>,
                    .result = n > 0 ? t[inputs[0]].result : no_element,
                    .axes = tile_axes,
                    .may_be_null = EnableNullptr};
    detail::reduce_by<RegReduceFn<Value>, RegReduceFn<ElementCompute>, GmemReduceFn<Value>,
                      GmemReduceFn<ElementCompute>, 1>(t, row, seq<0, 1>{});
    return detail::add_row(t, row, inputs, n, 1);
  }
  static void give(const Arguments& a, Giving& giving) {
    giving.emplace_back(a.ptr_scalar, a.reduction_identity, detail::strides(a.dScalar));
  }
};

namespace detail {

template <class T, int axis>
struct Extent;  // of a Shape<_128, _128, _64>
template <class M, class... Rest>
struct Extent<Clauses<M, Rest...>, 0> {
  static constexpr int value = M::value;
};
template <class M, class N, class... Rest>
struct Extent<Clauses<M, N, Rest...>, 1> {
  static constexpr int value = N::value;
};

struct VectorReduction {
  Along along;
  bool final;
  int tile;
};

template <POSTLUDE_EVT_FUNCTION Reg, POSTLUDE_EVT_FUNCTION Shuffle, POSTLUDE_EVT_FUNCTION Gmem, class ElementOutput,
          class ElementCompute, class Stride, class Seq, int n>
constexpr int tell_reduction(Telling& t, Row row, const int* inputs, VectorReduction r) {
  check_axis<Stride>(t, r.along, false);
  if (!r.final && meeting<Gmem<ElementCompute>>.atomic) t.wrong(Mistake::partial_result_of_atomics);
  row.kind = Row::Kind::reduce;
  row.element = r.final ? element_of<ElementOutput> : element_of<ElementCompute>;
  row.compute = element_of<ElementCompute>;
  row.result = n > 0 ? t[inputs[0]].result : no_element;
  row.axes = r.along == Along::n ? col_axes : row_axes;
  row.group = r.final ? 0 : r.tile;
  if (element_of<ElementOutput> == unsupported_element) t.wrong(Mistake::unsupported_element);
  reduce_by<Reg<Value>, Reg<ElementCompute>, Shuffle<Value>, Shuffle<ElementCompute>, Seq::count - 1>(t, row, Seq{});
  return add_row(t, row, inputs, n, Seq::count - 1);
}

}  // namespace detail

// Over M: N results. Not final: one for every CTA_M rows, in ElementCompute, ceil(M / CTA_M) x round_up(N, CTA_N) x L.
template <POSTLUDE_EVT_FUNCTION RegReduceFn, POSTLUDE_EVT_FUNCTION ShuffleReduceFn, POSTLUDE_EVT_FUNCTION GmemReduceFn,
          int Stages, class CtaTileShapeMNK, class ElementOutput, class ElementCompute, FloatRoundStyle RoundStyle,
          class StrideMNL = Stride<_0, _1, _0>, int Alignment = 1, bool EnableNullptr = true,
          bool FinalReduction = true, bool VisitCheckOOB = true, class RegReduceSeq = seq<0, 1>>
struct Sm90RowReduction {
  struct Arguments {
    void* ptr_row = nullptr;  // ElementOutput, or ElementCompute if not final
    ElementCompute reduction_identity = ElementCompute(0);
    StrideMNL dRow = {};
  };
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    constexpr int tile = [] {
      if constexpr (FinalReduction) return 0;
      else return detail::Extent<CtaTileShapeMNK, 0>::value;
    }();
    return detail::tell_reduction<RegReduceFn, ShuffleReduceFn, GmemReduceFn, ElementOutput, ElementCompute, StrideMNL,
                                  RegReduceSeq, n>(
        t, {.round = detail::rounding(RoundStyle), .may_be_null = EnableNullptr}, inputs,
        {detail::Along::n, FinalReduction, tile});
  }
  static void give(const Arguments& a, Giving& giving) {
    auto& given = giving.emplace_back(a.ptr_row, a.reduction_identity, detail::strides(a.dRow));
    if constexpr (!FinalReduction) given.strides = {0, detail::Extent<CtaTileShapeMNK, 1>::value, 0};  // of the tile
  }
};

// Over N: M results. Not final: one for every CTA_N columns, round_up(M, CTA_M) x ceil(N / CTA_N) x L, M contiguous.
template <POSTLUDE_EVT_FUNCTION RegReduceFn, POSTLUDE_EVT_FUNCTION ShuffleReduceFn, POSTLUDE_EVT_FUNCTION GmemReduceFn,
          int Stages, class CtaTileShapeMNK, class ElementOutput, class ElementCompute, FloatRoundStyle RoundStyle,
          class StrideMNL = Stride<_1, _0, _0>, int Alignment = 1, bool EnableNullptr = true,
          bool FinalReduction = true, bool VisitCheckOOB = true>
struct Sm90ColReduction {
  struct Arguments {
    void* ptr_col = nullptr;
    ElementCompute reduction_identity = ElementCompute(0);
    StrideMNL dCol = {};
  };
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    constexpr int tile = [] {
      if constexpr (FinalReduction) return 0;
      else return detail::Extent<CtaTileShapeMNK, 1>::value;
    }();
    return detail::tell_reduction<RegReduceFn, ShuffleReduceFn, GmemReduceFn, ElementOutput, ElementCompute, StrideMNL,
                                  seq<0, 1>, n>(t,
                                                {.round = detail::rounding(RoundStyle), .may_be_null = EnableNullptr},
                                                inputs, {detail::Along::m, FinalReduction, tile});
  }
  static void give(const Arguments& a, Giving& giving) {
    auto& given = giving.emplace_back(a.ptr_col, a.reduction_identity, detail::strides(a.dCol));
    if constexpr (!FinalReduction) given.strides = {detail::Extent<CtaTileShapeMNK, 0>::value, 0, 0};
  }
};

// The softmax of the K largest of each row; what is smaller than they are gives 0, what equals the least stays. For any
// N and any K up to 16, which the CPU reduces together.
template <int TopK, int FragmentSize, class CtaTileShapeMNK, class EpilogueTile, class ElementOutput,
          class ElementCompute, FloatRoundStyle RoundStyle, int Alignment = 1, bool UseButterflyReduce = true>
struct Sm90TopKSoftmaxColReduction : detail::Leaf {
  static_assert(TopK >= 1 && TopK <= 16, "a top-K softmax has K from 1 to 16");
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    return detail::add_row(t,
                           {.kind = detail::Row::Kind::top_k,
                            .round = detail::rounding(RoundStyle),
                            .compute = element_of<ElementCompute>,
                            .result = element_of<ElementOutput>,
                            .count = TopK},
                           inputs, n, 1);
  }
};

// Children, then the node.
template <class NodeOp, class... ChildOps>
struct Sm90TreeVisitor : detail::Tree<NodeOp, ChildOps...> {};
template <class NodeOp, class... ChildOps>
using Sm90EVT = Sm90TreeVisitor<NodeOp, ChildOps...>;

// Every operation once, in order; what others use of a result is converted to ElementCompute.
template <class ElementCompute, class EdgeTuple, class... Ops>
struct Sm90TopologicalVisitor : detail::Topological<EdgeTuple, Ops...> {
  static constexpr int rows = detail::Topological<EdgeTuple, Ops...>::rows + static_cast<int>(sizeof...(Ops));
  template <int n>
  static constexpr int tell(detail::Telling& t, const int*) {
    return detail::Topological<EdgeTuple, Ops...>::template tell_all<n>(t, [&](int row) {
      constexpr auto element = element_of<ElementCompute>;
      if (t[row].result == element) return row;
      return detail::add_row(t, {.kind = detail::Row::Kind::convert, .result = element}, &row, 1, 1);
    });
  }
};

// What the input tree gives is the accumulator of the others. Arguments: the input tree's, the others', the output's.
template <class InputTree, class OutputTree, class... AuxOutTrees>
struct Sm90SplitTreeVisitor : detail::Composite<InputTree, AuxOutTrees..., OutputTree> {
  template <int n>
  static constexpr int tell(detail::Telling& t, const int*) {
    if (n != 0) t.wrong(detail::Mistake::wrong_number_of_children, n, 0);
    const int outer = t.accumulator;
    t.accumulator = detail::tell_child<InputTree>(t, 0);
    [[maybe_unused]] int child = 1;
    (detail::tell_child<AuxOutTrees>(t, child++), ...);
    const int root = detail::tell_child<OutputTree>(t, child);
    t.accumulator = outer;
    return root;
  }
};

// What is not here: arrays of pointers, a pointer a batch; block scale factors.
template <class Element, class StrideMNL = Stride<_0, _0, _0>, int = 1, POSTLUDE_EVT_FUNCTION = multiplies>
struct Sm90ScalarBroadcastPtrArray : detail::RefusedNode {};
template <int, int, class, class, class, class, class, int = 1, bool = true>
struct Sm90AuxArrayLoad : detail::RefusedNode {};
template <int, int, class, class, FloatRoundStyle, class, class, class, int = 1, bool = true>
struct Sm90AuxArrayStore : detail::RefusedNode {};
template <class GroupsPerTile>
struct Sm90AccFetchGroupedWgrad : detail::RefusedNode {};
template <int, class, class, class, class, FloatRoundStyle = FloatRoundStyle::round_to_nearest>
struct Sm100BlockScaleFactorRowStore : detail::RefusedNode {};
template <int, class, class, class, class, FloatRoundStyle = FloatRoundStyle::round_to_nearest>
struct Sm100BlockScaleFactorColStore : detail::RefusedNode {};

}  // namespace postlude::inline v0::evt::cutlass
