// What the two vocabularies share: trees, graphs in topological order, traced functions.
#pragma once

#include <postlude/evt/arguments.h>
#include <postlude/evt/description.h>

#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>

namespace postlude::inline v0::evt {

// A node of a person's own (evt.h).
template <class T>
concept OwnNode = requires(Scope& scope, const typename T::Arguments& arguments, std::span<const Value> inputs) {
  { T::name } -> std::convertible_to<const char*>;
  { T::build(scope, arguments, inputs) } -> std::convertible_to<Value>;
};

namespace detail {

template <class T>
constexpr int row_count() {
  if constexpr (requires { T::rows; }) return T::rows;
  else return 1;
}

constexpr void set_inputs(Row& row, const int* inputs, int n) {
  row.input_count = static_cast<std::int8_t>(n);
  for (int i = 0; i < n && i < Row::most_inputs; ++i)
    row.inputs[static_cast<std::size_t>(i)] = static_cast<std::int16_t>(inputs[i]);
}

// Node T with n inputs: the row that stands for it.
template <class T, int n>
constexpr int tell(Telling& t, const int* inputs) {
  if constexpr (OwnNode<T>) {
    if constexpr (requires { T::children; }) {
      if (n != T::children) t.wrong(Mistake::wrong_number_of_children, n, T::children);
    }
    Row row{.kind = Row::Kind::own, .result = element_of<float>};
    if constexpr (requires { typename T::ElementOutput; }) row.result = element_of<typename T::ElementOutput>;
    row.own = [](Scope& scope, const void* arguments, std::span<const Value> x) -> Value {
      static const typename T::Arguments none{};
      return T::build(scope, arguments ? *static_cast<const typename T::Arguments*>(arguments) : none, x);
    };
    set_inputs(row, inputs, n);
    return t.add(row);
  } else {
    return T::template tell<n>(t, inputs);
  }
}

template <class T>
void give(const void* arguments, Giving& giving) {
  if constexpr (OwnNode<T>) giving.push_back(Given{arguments, 0});
  else T::give(*static_cast<const typename T::Arguments*>(arguments), giving);
}

// Visitors whose Arguments are those of Ops, in this order.
template <class... Ops>
struct Composite {
  using Arguments = Clauses<typename Ops::Arguments...>;
  template <std::size_t i>
  using Op = std::tuple_element_t<i, std::tuple<Ops...>>;
  static constexpr int rows = (row_count<Ops>() + ... + 0);
  static void give(const Arguments& arguments, Giving& giving) {
    [[maybe_unused]] std::size_t i = 0;
    [[maybe_unused]] const auto clauses = arguments.addresses();
    (detail::give<Ops>(clauses[i++], giving), ...);
  }
};

template <class T>
constexpr int tell_child(Telling& t, int child) {
  t.enter(child);
  const int row = tell<T, 0>(t, nullptr);
  t.leave();
  return row;
}

template <class Node, class... Children>
struct Tree : Composite<Children..., Node> {
  using NodeOp = Node;
  template <int n>
  static constexpr int tell(Telling& t, const int*) {
    if (n != 0) t.wrong(Mistake::wrong_number_of_children, n, 0);
    [[maybe_unused]] int child = 0;
    const int inputs[] = {tell_child<Children>(t, child++)..., 0};
    return detail::tell<Node, sizeof...(Children)>(t, inputs);
  }
};

template <class T, int n>
constexpr int tell_edges(Telling& t, const int* told, int op, std::array<int, n> edges) {
  t.enter(op);
  std::array<int, n + 1> inputs{};
  for (int i = 0; i < n; ++i) {
    const int edge = edges[static_cast<std::size_t>(i)];
    if (edge < 0 || edge >= op) t.wrong(Mistake::edge_points_forward, edge, op);
    else inputs[static_cast<std::size_t>(i)] = told[edge];
  }
  const int row = tell<T, n>(t, inputs.data());
  t.leave();
  return row;
}

// `Lists` is a tuple of lists of edges: List::all, List::count.
template <class Lists, class... Ops>
struct Topological;
template <template <class...> class List, class... Lists, class... Ops>
struct Topological<List<Lists...>, Ops...> : Composite<Ops...> {
  // `after` is called for the row of every operation but the last, and gives the row that its users see.
  template <int n, class After>
  static constexpr int tell_all(Telling& t, After after) {
    if (n != 0) t.wrong(Mistake::wrong_number_of_children, n, 0);
    if constexpr (sizeof...(Lists) != sizeof...(Ops)) {
      t.wrong(Mistake::wrong_number_of_edges, sizeof...(Lists), sizeof...(Ops));
      return t.add({});
    } else {
      int told[sizeof...(Ops)] = {}, op = 0;
      ((told[op] = tell_edges<Ops, Lists::count>(t, told, op, Lists::all),
        told[op] = op + 1 < static_cast<int>(sizeof...(Ops)) ? after(told[op]) : told[op], ++op),
       ...);
      return told[sizeof...(Ops) - 1];
    }
  }
};

// A function of values, F, and its run-time parameters P (both over Value), with n arguments.
template <class F, class P, std::size_t... i>
constexpr bool is_callable(std::index_sequence<i...>) {
  return requires(F f, const Value& x, const P& parameters) {
    { f((static_cast<void>(i), x)..., parameters) } -> std::convertible_to<Value>;
  };
}
template <class F, std::size_t... i>
constexpr bool is_callable_alone(std::index_sequence<i...>) {
  return requires(F f, const Value& x) {
    { f((static_cast<void>(i), x)...) } -> std::convertible_to<Value>;
  };
}
template <class F, class P, int n>
inline constexpr bool callable = [] {
  if constexpr (std::is_same_v<P, Empty>) return is_callable_alone<F>(std::make_index_sequence<n>{});
  else return is_callable<F, P>(std::make_index_sequence<n>{});
}();

template <class F, class P, std::size_t... i>
Value traced(std::span<const Value> x, [[maybe_unused]] std::span<const Value> given, std::index_sequence<i...>) {
  F f{};
  if constexpr (std::is_same_v<P, Empty>) {
    return f(x[i]...);
  } else {
    P parameters{};
    std::size_t k = 0;
    for_each_member(parameters, [&](Value& parameter) { parameter = given[k++]; });
    return f(x[i]..., parameters);
  }
}

// Another number of arguments with which it can be called: the least, 0 for none.
template <class F, class P, int n = 1>
constexpr int arity() {
  if constexpr (n > Row::most_inputs) return 0;
  else if constexpr (callable<F, P, n>) return n;
  else return arity<F, P, n + 1>();
}

template <class F, class P, int n>
constexpr Trace trace_of(Telling& t) {
  if constexpr (callable<F, P, n>) {
    return [](std::span<const Value> x, std::span<const Value> p) {
      return traced<F, P>(x, p, std::make_index_sequence<n>{});
    };
  } else {
    constexpr int wanted = arity<F, P>();
    t.wrong(wanted ? Mistake::wrong_number_of_children : Mistake::function_takes_no_values, n, wanted);
    return nullptr;
  }
}

// A function's run-time parameters: F::Arguments where there are any.
template <class F>
struct ParametersOf {
  using type = Empty;
};
template <class F>
requires requires { typename F::Arguments; }
struct ParametersOf<F> {
  using type = typename F::Arguments;
};

template <class P, std::size_t... i>
constexpr bool takes_values(std::index_sequence<i...>) {
  return requires(const Value& x) { P{(static_cast<void>(i), x)...}; };
}

}  // namespace detail
}  // namespace postlude::inline v0::evt
