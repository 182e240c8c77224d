// Programs that must not compile, each behind a line that says what the compiler shows of it:
//   //? mistake | at | found, wanted | of the sentence
// mistakes_test.py splits them. What stands before the first is common to all.
#include <postlude/evt/catlass.h>
#include <postlude/evt/cutlass.h>

namespace cutlass = postlude::evt::cutlass;
namespace catlass = postlude::evt::catlass;
using postlude::evt::to_graph;

constexpr auto R = cutlass::FloatRoundStyle::round_to_nearest;
template <template <class> class F, class O = float, class C = float>
using P = cutlass::Sm90Compute<F, O, C, R>;
using S = cutlass::Sm90ScalarBroadcast<float>;
using A = cutlass::Sm90AccFetch;
using T = cutlass::Shape<cutlass::_128, cutlass::_128, cutlass::_64>;
using cutlass::_0, cutlass::_1, cutlass::seq, cutlass::Stride, cutlass::tuple;
template <class Fusion, class C, class D>
using G = cutlass::GemmUniversal<float, cutlass::RowMajor, float, cutlass::RowMajor, C, cutlass::RowMajor, D,
                                 cutlass::RowMajor, Fusion>;

using L = catlass::layout::RowMajor;
template <template <class> class F, class E = float>
using Q = catlass::VisitorCompute<F, E>;
template <class E = float>
using Acc = catlass::VisitorAccLoad<E>;
template <class E = float, class Layout = L>
using Store = catlass::VisitorAuxStore<E, Layout>;

//? wrong_number_of_children | at<0> | found<2>, wanted<3> | has found<> children, but takes wanted<>
using E = cutlass::Sm90EVT<P<cutlass::ReLU>, cutlass::Sm90EVT<P<cutlass::homogeneous_multiply_add>, S, A>>;
const postlude::Graph& graph = to_graph<E>();

//? wrong_number_of_children | at<1, 0> | found<3>, wanted<1> | has found<> children, but takes wanted<>
using Three = cutlass::Sm90EVT<P<cutlass::Sigmoid>, A, A, A>;
const postlude::Graph& graph =
    to_graph<cutlass::Sm90EVT<P<cutlass::plus>, A, cutlass::Sm90EVT<P<cutlass::Tanh>, Three>>>();

//? wrong_number_of_children | at<> | found<1>, wanted<0> | has found<> children, but takes wanted<>
const postlude::Graph& graph = to_graph<cutlass::Sm90EVT<A, S>>();

//? wrong_number_of_children | at<1> | found<0>, wanted<1> | has found<> children, but takes wanted<>
const postlude::Graph& graph = to_graph<cutlass::Sm90EVT<P<cutlass::plus>, A, P<cutlass::Tanh>>>();

//? wrong_number_of_children | at<0> | found<1>, wanted<2> | has found<> children, but takes wanted<>
const postlude::Graph& graph = to_graph<catlass::TreeVisitor<Store<>, catlass::TreeVisitor<Q<catlass::Add>, Acc<>>>>();

//? function_takes_no_values | at<> | found<1>, wanted<0> | cannot be called with postlude::Value
template <class T>
struct OfFloats {
  float operator()(float x) const { return x; }
};
const postlude::Graph& graph = to_graph<cutlass::Sm90EVT<P<OfFloats>, A>>();

//? unsupported_parameter | at<> | found<0>, wanted<0> | has Arguments of a type other than its template parameter
template <class T>
struct Power {
  struct Arguments {
    int exponent = 2;
  };
  T operator()(const T& x, const Arguments&) const { return x * x; }
};
const postlude::Graph& graph = to_graph<cutlass::Sm90EVT<P<Power>, A>>();

//? edge_points_forward | at<1> | found<2>, wanted<1> | but may only take those below wanted<>
const postlude::Graph& graph = to_graph<
    cutlass::Sm90TopologicalVisitor<float, tuple<seq<>, seq<2>, seq<0>>, A, P<cutlass::ReLU>, P<cutlass::Tanh>>>();

//? edge_points_forward | at<0, 1> | found<1>, wanted<1> | list what is used first
const postlude::Graph& graph = to_graph<catlass::TreeVisitor<
    Store<>, catlass::TopologicalVisitor<catlass::tuple<seq<>, seq<1>>, Acc<>, Q<catlass::Exp>>>>();

//? wrong_number_of_edges | at<0> | found<2>, wanted<3> | has found<> lists of edges, but wanted<> operations
using Short = cutlass::Sm90TopologicalVisitor<float, tuple<seq<>, seq<0>>, A, P<cutlass::ReLU>, P<cutlass::Tanh>>;
const postlude::Graph& graph = to_graph<cutlass::Sm90EVT<P<cutlass::ReLU>, Short>>();

//? wrong_axis | at<0> | found<0>, wanted<0> | has the strides of another axis
const postlude::Graph& graph = to_graph<
    cutlass::Sm90EVT<P<cutlass::plus>, cutlass::Sm90RowBroadcast<0, T, float, float, Stride<_1, _0, _0>>, A>>();

//? wrong_axis | at<> | found<0>, wanted<0> | has the strides of another axis
const postlude::Graph& graph = to_graph<cutlass::Sm90EVT<
    cutlass::Sm90ColReduction<cutlass::plus, cutlass::plus, cutlass::plus, 0, T, float, float, R, Stride<_0, _1, _0>>,
    A>>();

//? wrong_axis | at<1> | found<0>, wanted<0> | a scalar Stride<_0, _0, L>
const postlude::Graph& graph =
    to_graph<cutlass::Sm90EVT<P<cutlass::plus>, A, cutlass::Sm90ScalarBroadcast<float, Stride<_0, _1, _0>>>>();

//? partial_result_of_atomics | at<> | found<0>, wanted<0> | is by atomics and not final
const postlude::Graph& graph =
    to_graph<cutlass::Sm90EVT<cutlass::Sm90RowReduction<cutlass::plus, cutlass::plus, cutlass::atomic_add, 0, T, float,
                                                        float, R, Stride<_0, _1, _0>, 4, true, false>,
                              A>>();

//? unsupported_element | at<0> | found<0>, wanted<0> | has an element type that Postlude does not have
const postlude::Graph& graph =
    to_graph<cutlass::Sm90EVT<P<cutlass::plus>, cutlass::Sm90RowBroadcast<0, T, double>, A>>();

//? unsupported_element | at<> | found<0>, wanted<0> | use float, half_t, bfloat16_t
const postlude::Graph& graph = to_graph<cutlass::Sm90EVT<P<cutlass::ReLU, cutlass::tfloat32_t>, A>>();

//? unsupported_rounding | at<> | found<0>, wanted<0> | round to nearest, toward zero
using Half =
    cutlass::Sm90Compute<cutlass::ReLU, cutlass::half_t, float, cutlass::FloatRoundStyle::round_half_ulp_truncate>;
const postlude::Graph& graph = to_graph<cutlass::Sm90EVT<Half, A>>();

//? unsupported_rounding | at<0> | found<0>, wanted<0> | rounds in a way that Postlude does not have
using Odd = catlass::VisitorCast<catlass::half, float, catlass::AscendC::RoundMode::CAST_ODD>;
const postlude::Graph& graph = to_graph<catlass::TreeVisitor<Store<catlass::half>, catlass::TreeVisitor<Odd, Acc<>>>>();

//? unsupported_node | at<1> | found<0>, wanted<0> | arrays of pointers wait for grouped products
const postlude::Graph& graph =
    to_graph<cutlass::Sm90EVT<P<cutlass::multiplies>, A, cutlass::Sm90ScalarBroadcastPtrArray<float>>>();

//? unsupported_node | at<0> | found<0>, wanted<0> | arrays of pointers wait for grouped products
const postlude::Graph& graph =
    to_graph<cutlass::Sm90EVT<P<cutlass::plus>, cutlass::Sm90RowBroadcast<0, T, float*>, A>>();

//? unsupported_node | at<> | found<0>, wanted<0> | block scale factors for 4-bit elements
using Scaled = cutlass::LinCombBlockScaleFactor<16, cutlass::float_e2m1_t, float, cutlass::float_ue8m0_t>;
const postlude::Graph& graph = to_graph<Scaled>();

//? no_source | at<0> | found<0>, wanted<0> | fetches C, but C is void
using Residual = cutlass::Sm90EVT<P<cutlass::plus>, cutlass::Sm90SrcFetch<float>, A>;
auto status = G<Residual, void, float>::can_implement({});

//? type_mismatch | at<0> | found<0>, wanted<1> | gets elements of type found<>, but takes wanted<>
using Residual = cutlass::Sm90EVT<P<cutlass::plus>, cutlass::Sm90SrcFetch<cutlass::half_t>, A>;
auto status = G<Residual, float, float>::can_implement({});

//? result_is_not_stored | at<> | found<0>, wanted<0> | nothing stores the result of this visitor tree
auto status = G<cutlass::Sm90EVT<P<cutlass::ReLU>, A>, void, void>::can_implement({});

//? result_is_not_stored | at<> | found<0>, wanted<0> | put a store on top
const postlude::Graph& graph = to_graph<catlass::TreeVisitor<Q<catlass::Exp>, Acc<>>>();

//? type_mismatch | at<0> | found<1>, wanted<0> | put a cast between them
const postlude::Graph& graph =
    to_graph<catlass::TreeVisitor<Store<>, catlass::TreeVisitor<Q<catlass::Add>, Acc<>, Acc<catlass::half>>>>();

//? type_mismatch | at<> | found<0>, wanted<1> | gets elements of type found<>, but takes wanted<>
const postlude::Graph& graph = to_graph<catlass::TreeVisitor<Store<catlass::half>, Acc<>>>();

//? type_mismatch | at<0> | found<0>, wanted<2> | gets elements of type found<>, but takes wanted<>
using Cast = catlass::VisitorCast<catlass::half, catlass::bfloat16_t>;
const postlude::Graph& graph =
    to_graph<catlass::TreeVisitor<Store<catlass::half>, catlass::TreeVisitor<Cast, Acc<>>>>();

//? needless_cast | at<0> | found<0>, wanted<0> | is from found<> to the same type
using Cast = catlass::VisitorCast<float, float>;
const postlude::Graph& graph = to_graph<catlass::TreeVisitor<Store<>, catlass::TreeVisitor<Cast, Acc<>>>>();

//? unreachable_store | at<1> | found<0>, wanted<0> | which would never run
const postlude::Graph& graph = to_graph<catlass::TopologicalVisitor<catlass::tuple<seq<>, seq<0>, seq<0>, seq<2>>,
                                                                    Acc<>, Store<>, Q<catlass::Exp>, Store<>>>();

//? unsupported_layout | at<> | found<0>, wanted<0> | has a layout that Postlude does not have
const postlude::Graph& graph = to_graph<catlass::TreeVisitor<Store<float, catlass::layout::zN>, Acc<>>>();

//? type_mismatch | at<0> | found<0>, wanted<1> | gets elements of type found<>, but takes wanted<>
using EVG = catlass::TreeVisitor<Store<catlass::half>, Acc<catlass::half>>;
using Mmad = catlass::BlockMmadTla<catlass::MmadPingpong<catlass::Arch::Ascend950>, T, T, float, float, float>;
using Behind =
    catlass::BlockEpilogue<catlass::EpilogueVisitor<>, catlass::Arch::Ascend950, catlass::Int<0>, EVG, float>;
auto can = catlass::BasicMatmulTlaVisitor<Mmad, Behind>::CanImplement({});

//? clauses | - | - | has 32 clauses of Arguments at most: put a visitor into another
template <class... X>
using Many = catlass::TreeVisitor<Q<catlass::Add>, Acc<>, Acc<>, X..., X..., X...>;
using E = catlass::TreeVisitor<Store<>, Many<Acc<>, Acc<>, Acc<>, Acc<>, Acc<>, Acc<>, Acc<>, Acc<>, Acc<>, Acc<>>>;
const std::size_t size = sizeof(E::Arguments);

//? none | - | - | use of deleted function or use a deleted function
template <class T>
struct Branches {
  T operator()(const T& x) const { return x > 0 ? x : T(0); }
};
const postlude::Graph& graph = to_graph<cutlass::Sm90EVT<P<Branches>, A>>();
