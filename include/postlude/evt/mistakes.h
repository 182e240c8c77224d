// Mistakes in a tree are compile errors of one sentence. The compiler names the mistake by a type that says where it
// is: at<1, 0> is child 0 of child 1 of the root, counted as in the braces of Arguments; then come the node itself,
// what was found there and what was wanted.
#pragma once

#include <postlude/evt/visitors.h>

namespace postlude::inline v0::evt {

template <int... child>
struct at;
template <auto... values>
struct found;
template <auto... values>
struct wanted;

// What the compiler shows.
namespace mistake {

template <class... At>
inline constexpr bool is_sound = false;

template <class... At>
struct wrong_number_of_children {
  static_assert(is_sound<At...>, "the node at<> of this visitor tree has found<> children, but takes wanted<>");
};
template <class... At>
struct function_takes_no_values {
  static_assert(is_sound<At...>,
                "the function of the node at<> of this visitor tree cannot be called with "
                "postlude::Value: call exp and the like unqualified, or make it a node of its own");
};
template <class... At>
struct unsupported_parameter {
  static_assert(is_sound<At...>,
                "the function of the node at<> of this visitor tree has Arguments of a type other than "
                "its template parameter, which alone becomes a run-time parameter");
};
template <class... At>
struct edge_points_forward {
  static_assert(is_sound<At...>,
                "the operation at<> of this topological visitor takes the result of operation found<>, "
                "but may only take those below wanted<>: list what is used first");
};
template <class... At>
struct wrong_number_of_edges {
  static_assert(is_sound<At...>,
                "the topological visitor at<> has found<> lists of edges, but wanted<> operations: give "
                "each operation one seq<>");
};
template <class... At>
struct type_mismatch {
  static_assert(is_sound<At...>,
                "the node at<> of this visitor tree gets elements of type found<>, but takes wanted<>: "
                "put a cast between them");
};
template <class... At>
struct needless_cast {
  static_assert(is_sound<At...>, "the cast at<> of this visitor tree is from found<> to the same type: leave it out");
};
template <class... At>
struct unreachable_store {
  static_assert(is_sound<At...>,
                "the last operation of this topological visitor does not depend on the store at<>, which "
                "would never run: let an operation behind it take its result");
};
template <class... At>
struct result_is_not_stored {
  static_assert(is_sound<At...>,
                "nothing stores the result of this visitor tree: put a store on top, or give D an element "
                "type");
};
template <class... At>
struct wrong_axis {
  static_assert(is_sound<At...>,
                "the node at<> of this visitor tree has the strides of another axis: a row has Stride<_0, "
                "_1, L>, a column Stride<_1, _0, L>, a scalar Stride<_0, _0, L>");
};
template <class... At>
struct partial_result_of_atomics {
  static_assert(is_sound<At...>,
                "the reduction at<> of this visitor tree is by atomics and not final: a partial result "
                "takes plain functions");
};
template <class... At>
struct unsupported_element {
  static_assert(is_sound<At...>,
                "the node at<> of this visitor tree has an element type that Postlude does not have: use "
                "float, half_t, bfloat16_t, float_e4m3_t, float_e5m2_t, int8_t, uint8_t, int32_t, int64_t "
                "or bool");
};
template <class... At>
struct unsupported_rounding {
  static_assert(is_sound<At...>,
                "the node at<> of this visitor tree rounds in a way that Postlude does not have: round to "
                "nearest, toward zero, up or down");
};
template <class... At>
struct unsupported_layout {
  static_assert(is_sound<At...>,
                "the node at<> of this visitor tree has a layout that Postlude does not have: use a "
                "row-major or column-major one with a row for each m");
};
template <class... At>
struct unsupported_node {
  static_assert(is_sound<At...>,
                "the node at<> of this visitor tree is one that Postlude does not have: arrays of "
                "pointers wait for grouped products, block scale factors for 4-bit elements");
};
template <class... At>
struct no_source {
  static_assert(is_sound<At...>,
                "the node at<> of this visitor tree fetches C, but C is void: give it an element type");
};

}  // namespace mistake

namespace detail {

template <class T, Path path, int depth = 0>
struct NodeAt {
  using type = T;
};
template <class T, Path path, int depth>
requires(depth >= path.depth || depth >= Path::most) && requires { typename T::NodeOp; }
struct NodeAt<T, path, depth> {
  using type = typename T::NodeOp;
};
template <class T, Path path, int depth>
requires(depth < path.depth && depth < Path::most) struct NodeAt<T, path, depth> {
  using type = typename NodeAt<typename T::template Op<path.child[depth]>, path, depth + 1>::type;
};

template <Path path, std::size_t... i>
at<path.child[i]...> position(std::index_sequence<i...>);

// The rows of a tree, told by the compiler.
template <class T>
struct Told {
  std::array<Row, row_count<T>() + 1> rows{};
  int count = 0, root = 0;
  Fault fault{};
};
template <class T>
inline constexpr Told<T> told = [] {
  Told<T> result;
  Telling t(result.rows.data());
  result.root = tell<T, 0>(t, nullptr);
  result.count = t.count;
  result.fault = t.fault;
  return result;
}();

template <Mistake which, class... At>
void report() {
  if constexpr (which == Mistake::wrong_number_of_children)
    static_cast<void>(mistake::wrong_number_of_children<At...>{});
  else if constexpr (which == Mistake::function_takes_no_values)
    static_cast<void>(mistake::function_takes_no_values<At...>{});
  else if constexpr (which == Mistake::unsupported_parameter)
    static_cast<void>(mistake::unsupported_parameter<At...>{});
  else if constexpr (which == Mistake::edge_points_forward) static_cast<void>(mistake::edge_points_forward<At...>{});
  else if constexpr (which == Mistake::wrong_number_of_edges)
    static_cast<void>(mistake::wrong_number_of_edges<At...>{});
  else if constexpr (which == Mistake::type_mismatch) static_cast<void>(mistake::type_mismatch<At...>{});
  else if constexpr (which == Mistake::needless_cast) static_cast<void>(mistake::needless_cast<At...>{});
  else if constexpr (which == Mistake::unreachable_store) static_cast<void>(mistake::unreachable_store<At...>{});
  else if constexpr (which == Mistake::result_is_not_stored) static_cast<void>(mistake::result_is_not_stored<At...>{});
  else if constexpr (which == Mistake::wrong_axis) static_cast<void>(mistake::wrong_axis<At...>{});
  else if constexpr (which == Mistake::partial_result_of_atomics)
    static_cast<void>(mistake::partial_result_of_atomics<At...>{});
  else if constexpr (which == Mistake::unsupported_element) static_cast<void>(mistake::unsupported_element<At...>{});
  else if constexpr (which == Mistake::unsupported_rounding) static_cast<void>(mistake::unsupported_rounding<At...>{});
  else if constexpr (which == Mistake::unsupported_layout) static_cast<void>(mistake::unsupported_layout<At...>{});
  else if constexpr (which == Mistake::unsupported_node) static_cast<void>(mistake::unsupported_node<At...>{});
  else if constexpr (which == Mistake::no_source) static_cast<void>(mistake::no_source<At...>{});
}

// Has the compiler show the mistake of tree T.
template <class T, Fault fault>
void show() {
  constexpr auto depth = static_cast<std::size_t>(fault.path.depth < Path::most ? fault.path.depth : Path::most);
  report<fault.mistake, decltype(position<fault.path>(std::make_index_sequence<depth>{})),
         typename NodeAt<T, fault.path>::type, found<fault.found>, wanted<fault.wanted>>();
}

}  // namespace detail
}  // namespace postlude::inline v0::evt
