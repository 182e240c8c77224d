// Visitor types as graphs. `cutlass.h` and `catlass.h` have the two vocabularies; this is what serves both.
#pragma once

#include <postlude/evt/mistakes.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace postlude::inline v0::evt {

// A node of one's own is a type with
//   struct Arguments { ... };                     what is given at run time, an aggregate
//   static constexpr const char* name = "...";    for messages
//   static Value build(Scope&, const Arguments&, std::span<const Value> children);
//   static constexpr int children = 1;            optional: else any number
//   using ElementOutput = ...;                    optional: what it hands on, else float
// `build` runs twice: for the graph, with Arguments as they are by default; and when arguments are bound, where its
// operands and outputs take their memory. It must declare the same ones each time.
class Scope {
 public:
  // An operand of these axes: tile_axes, row_axes, col_axes or scalar_axes. Strides are of m, n and the batch.
  template <class T>
  Value operand(Axes axes, const T* data, std::array<std::int64_t, 3> strides = {}, T if_null = T{}) {
    static_assert(element_of<T> >= 0, "not an element type that Postlude has");
    return operand(axes, static_cast<DType>(element_of<T>), Given(data, if_null, strides));
  }
  // A run-time parameter.
  template <class T>
  Value parameter(T value) {
    return operand(scalar_axes, static_cast<DType>(element_of<T>), Given(nullptr, value));
  }
  // Stores a value of any axes, unless `data` is null.
  template <class T>
  void output(const Value& value, Axes axes, T* data, std::array<std::int64_t, 3> strides = {}) {
    static_assert(element_of<T> >= 0, "not an element type that Postlude has");
    output(value, axes, static_cast<DType>(element_of<T>), Given(data, 0, strides));
  }
  [[nodiscard]] Value accumulator();

  struct State;  // src/evt/graph.cpp
  explicit Scope(State& state) : state_(&state) {}

 private:
  Value operand(Axes axes, DType dtype, const Given& given);
  void output(const Value& value, Axes axes, DType dtype, const Given& given);
  State* state_;
};

namespace detail {

[[nodiscard]] Graph make_graph(const Description& description);

// What a type of a vocabulary stands for: a tree, a named operation (with a VisitorTree), an adapter (with an
// EpilogueType).
template <class T>
struct Epilogue {
  using VisitorTree = T;
  static constexpr bool stores_root = !requires { typename T::StoresItself; };
  static constexpr Element output = accumulator_element;  // the root's
  static constexpr Fault check(const auto& told) {
    if constexpr (requires { T::check(told); }) return T::check(told);
    else return {};
  }
};
template <class T>
requires requires { typename T::VisitorTree; }
struct Epilogue<T> : Epilogue<typename T::VisitorTree> {};
template <class T>
requires requires { typename T::EpilogueType; }
struct Epilogue<T> : T::EpilogueType {};

template <class T>
inline constexpr Fault fault_of = [] {
  const auto& told = detail::told<typename Epilogue<T>::VisitorTree>;
  return told.fault.mistake != Mistake::none ? told.fault : Epilogue<T>::check(told);
}();
template <class T>
inline constexpr bool is_sound = fault_of<T>.mistake == Mistake::none;

template <class T>
const Description& description() {
  using E = Epilogue<T>;
  static constexpr const auto& rows = told<typename E::VisitorTree>;
  static constexpr Description made = [] {
    Description d{rows.rows.data(), rows.count, rows.root, E::stores_root, E::output};
    if constexpr (requires { E::accumulator; }) d.accumulator = E::accumulator;
    return d;
  }();
  return made;
}

}  // namespace detail

// The graph of a visitor tree, of a named operation, or of an adapter's epilogue; made once.
// Operands and outputs are called s0, row0, col0, aux0 and p0 (a function's parameter) in the order of Arguments; C and
// D. Behind a product of 8-bit integers, whose accumulator is i32, an adapter's graph says so.
template <class T>
[[nodiscard]] const Graph& to_graph() {
  if constexpr (detail::is_sound<T>) {
    static const Graph graph = detail::make_graph(detail::description<T>());
    return graph;
  } else {
    detail::show<typename detail::Epilogue<T>::VisitorTree, detail::fault_of<T>>();
    static const Graph none;
    return none;
  }
}

// The same in the epilogue language: the program that somebody could write instead.
template <class T>
[[nodiscard]] std::string print() {
  return to_graph<T>().print();
}

// Hands on a statistic of its child, to be used again: Statistic<postlude::max, Axis::n> is the largest of each row.
template <Value (*reduce)(const Value&, Axes, ReduceOptions), Axis... over>
struct Statistic {
  using Arguments = Empty;
  static constexpr const char* name = "Statistic";
  static constexpr int children = 1;
  static Value build(Scope&, const Arguments&, std::span<const Value> x) {
    return reduce(x[0], (Axes(over) | ... | Axes()), {});
  }
};

// One of `pieces` blocks of its child's columns, or of every `group` columns: gate and up of SwiGLU with 2.
template <int pieces, int index, int group = 0>
struct Chunk {
  static_assert(index >= 0 && index < pieces);
  using Arguments = Empty;
  static constexpr const char* name = "Chunk";
  static constexpr int children = 1;
  static Value build(Scope&, const Arguments&, std::span<const Value> x) { return chunk(x[0], pieces, group)[index]; }
};

// A text as a template argument.
template <std::size_t size>
struct Label {
  char text[size] = {};
  constexpr Label(const char (&from)[size]) { std::copy_n(from, size, text); }
};
// Gives the operand or output of a node a name; with several, the first.
template <Label label, class Node>
struct Named {
  using NodeOp = Node;
  using Arguments = typename Node::Arguments;
  static constexpr int rows = detail::row_count<Node>();
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    t.label = label.text;
    return detail::tell<Node, n>(t, inputs);
  }
  static void give(const Arguments& a, Giving& giving) { detail::give<Node>(&a, giving); }
};

}  // namespace postlude::inline v0::evt
