// CATLASS's visitor nodes. Nothing is converted unless a VisitorCast says so. docs/from-catlass.md says what each
// becomes.
#pragma once

#include <postlude/evt/catlass/functions.h>
#include <postlude/evt/visitors.h>

namespace postlude::inline v0::evt::catlass {

namespace detail {
using namespace evt::detail;

constexpr Rounding rounding(AscendC::RoundMode mode) {
  switch (mode) {
    case AscendC::RoundMode::CAST_FLOOR: return Rounding::down;
    case AscendC::RoundMode::CAST_CEIL: return Rounding::up;
    case AscendC::RoundMode::CAST_TRUNC: return Rounding::toward_zero;
    case AscendC::RoundMode::CAST_ROUND:
    case AscendC::RoundMode::CAST_ODD: return Rounding::refused;
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

// Every input is of this element type.
constexpr void check_inputs(Telling& t, const int* inputs, int n, Element wanted) {
  for (int i = 0; i < n; ++i) {
    if (t[inputs[i]].result != wanted) t.wrong(Mistake::type_mismatch, t[inputs[i]].result, wanted);
  }
}

template <class Layout>
constexpr void check_layout(Telling& t) {
  if constexpr (!std::is_base_of_v<layout::Matrix, Layout>) t.wrong(Mistake::unsupported_layout);
}

template <class Layout>
void give_memory(const void* data, const Layout& layout, Giving& giving) {
  Given& given = giving.emplace_back(data, 0);
  if constexpr (std::is_base_of_v<layout::Matrix, Layout>) {
    given.strides = {layout.row_stride, layout.column_stride, 0};
    given.shape = {layout.rows, layout.columns};
  }
}

struct Leaf {
  using Arguments = Empty;
  static void give(const Arguments&, Giving&) {}
};

// A function F<T>{scalars...}(result, count, inputs...), over Value.
template <class F, std::size_t... scalar, std::size_t... input>
constexpr bool applies(std::index_sequence<scalar...>, std::index_sequence<input...>) {
  return requires(AscendC::LocalTensor<Value> & y, const AscendC::LocalTensor<Value>& x, const Value& s) {
    F{(static_cast<void>(scalar), s)...}(y, 0u, (static_cast<void>(input), x)...);
  };
}
template <class F, std::size_t scalars, std::size_t inputs>
inline constexpr bool applicable = applies<F>(std::make_index_sequence<scalars>{}, std::make_index_sequence<inputs>{});
template <class F, std::size_t... scalar>
constexpr bool takes_scalars(std::index_sequence<scalar...>) {
  return requires(const Value& s) { F{(static_cast<void>(scalar), s)...}; };
}
template <class F, std::size_t scalars, int n = 1>
constexpr int input_count() {
  if constexpr (n > Row::most_inputs) return 0;
  else if constexpr (applicable<F, scalars, n>) return n;
  else return input_count<F, scalars, n + 1>();
}
template <class F, std::size_t... scalar, std::size_t... input>
Value apply(std::span<const Value> x, [[maybe_unused]] std::span<const Value> s, std::index_sequence<scalar...>,
            std::index_sequence<input...>) {
  AscendC::LocalTensor<Value> y;
  const AscendC::LocalTensor<Value> inputs[] = {{x[input]}...};
  F{s[scalar]...}(y, 1u, inputs[input]...);
  return y.value;
}

// What holds for whole trees: a store on top, and none that is never reached.
struct Whole {
  using StoresItself = void;
  static constexpr Fault check(const auto& told) {
    std::array<bool, std::tuple_size_v<std::remove_cvref_t<decltype(told.rows)>>> reached{};
    reached[static_cast<std::size_t>(told.root)] = true;
    for (int i = told.count - 1; i >= 0; --i) {
      const Row& row = told.rows[static_cast<std::size_t>(i)];
      if (!reached[static_cast<std::size_t>(i)]) {
        if (row.kind == Row::Kind::store) return {Mistake::unreachable_store, 0, 0, row.path};
        continue;
      }
      for (int k = 0; k < row.input_count; ++k)
        reached[static_cast<std::size_t>(row.inputs[static_cast<std::size_t>(k)])] = true;
    }
    const Row& root = told.rows[static_cast<std::size_t>(told.root)];
    if (root.kind == Row::Kind::store || root.kind == Row::Kind::own) return {};
    return {Mistake::result_is_not_stored, 0, 0, root.path};
  }
};

}  // namespace detail

// The accumulator, rounded to Element. Where it lies on the way is the schedule's business here.
template <class Element, bool USE_UB_WORKSPACE = false>
struct VisitorAccLoad : detail::Leaf {
  using ElementOutput = Element;
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    constexpr auto element = element_of<Element>;
    return detail::add_row(t, {.kind = detail::Row::Kind::accumulator, .element = element, .result = element}, inputs,
                           n, 0);
  }
};

// An M x N tensor.
template <class Element, class Layout>
struct VisitorAuxLoad {
  using ElementOutput = Element;
  struct Arguments {
    const void* ptr_aux = nullptr;
    Layout layout = {};
  };
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    constexpr auto element = element_of<Element>;
    detail::check_layout<Layout>(t);
    return detail::add_row(t,
                           {.kind = detail::Row::Kind::operand,
                            .element = element,
                            .result = element,
                            .axes = tile_axes,
                            .may_be_null = false},
                           inputs, n, 0);
  }
  static void give(const Arguments& a, Giving& giving) { detail::give_memory(a.ptr_aux, a.layout, giving); }
};

// A 1 x N tensor, for every row.
template <class Element, class Layout>
struct VisitorRowBroadcast {
  using ElementOutput = Element;
  struct Arguments {
    const void* ptr_row = nullptr;
    Layout layout = {};
  };
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    constexpr auto element = element_of<Element>;
    detail::check_layout<Layout>(t);
    return detail::add_row(t,
                           {.kind = detail::Row::Kind::operand,
                            .element = element,
                            .result = element,
                            .axes = row_axes,
                            .may_be_null = false},
                           inputs, n, 0);
  }
  static void give(const Arguments& a, Giving& giving) { detail::give_memory(a.ptr_row, a.layout, giving); }
};

// Stores its child's value, an M x N tensor, and hands it on.
template <class Element, class Layout>
struct VisitorAuxStore {
  using ElementOutput = Element;
  struct Arguments {
    void* ptr_aux = nullptr;
    Layout layout = {};
  };
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    constexpr auto element = element_of<Element>;
    detail::check_layout<Layout>(t);
    detail::check_inputs(t, inputs, n, element);
    return detail::add_row(
        t, {.kind = detail::Row::Kind::store, .element = element, .result = element, .may_be_null = false}, inputs, n,
        1);
  }
  static void give(const Arguments& a, Giving& giving) { detail::give_memory(a.ptr_aux, a.layout, giving); }
};

template <class ElementTo, class ElementFrom, AscendC::RoundMode RoundStyle = AscendC::RoundMode::CAST_NONE>
struct VisitorCast : detail::Leaf {
  using ElementOutput = ElementTo;
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    if (std::is_same_v<ElementTo, ElementFrom>) t.wrong(detail::Mistake::needless_cast, element_of<ElementFrom>);
    detail::check_inputs(t, inputs, n, element_of<ElementFrom>);
    return detail::add_row(
        t, {.kind = detail::Row::Kind::convert, .round = detail::rounding(RoundStyle), .result = element_of<ElementTo>},
        inputs, n, 1);
  }
};

// ComputeFn<ElementCompute>{scalars...} of its children, which are of ElementCompute.
template <template <class> class ComputeFn, class ElementCompute, class... Scalars>
struct VisitorCompute {
  using ElementOutput = ElementCompute;
  struct Arguments {
    Clauses<Scalars...> scalars = {};
  };
  template <int n>
  static constexpr int tell(detail::Telling& t, const int* inputs) {
    using F = ComputeFn<Value>;
    constexpr auto element = element_of<ElementCompute>;
    constexpr std::size_t scalars = sizeof...(Scalars);
    detail::Row row{.kind = detail::Row::Kind::compute, .compute = element, .result = element, .count = scalars};
    if constexpr (!detail::takes_scalars<F>(std::make_index_sequence<scalars>{})) {
      t.wrong(detail::Mistake::unsupported_parameter);
    } else if constexpr (detail::applicable<F, scalars, n>) {
      row.trace = [](std::span<const Value> x, std::span<const Value> s) {
        return detail::apply<F>(x, s, std::make_index_sequence<scalars>{}, std::make_index_sequence<n>{});
      };
    } else {
      constexpr int wanted = detail::input_count<F, scalars>();
      t.wrong(wanted ? detail::Mistake::wrong_number_of_children : detail::Mistake::function_takes_no_values, n,
              wanted);
    }
    detail::check_inputs(t, inputs, n, element);
    return detail::add_row(t, row, inputs, n, n);
  }
  static void give(const Arguments& a, Giving& giving) {
    detail::for_each_member(
        a.scalars, [&](const auto& scalar) { giving.emplace_back(nullptr, static_cast<ElementCompute>(scalar)); });
  }
};

// Children, then the node.
template <class NodeOp, class... ChildOps>
struct TreeVisitor : detail::Tree<NodeOp, ChildOps...>, detail::Whole {};

// Operations in order; what the last does not depend on is not computed.
template <class Edges, class... Ops>
struct TopologicalVisitor : detail::Topological<Edges, Ops...>, detail::Whole {
  template <int n>
  static constexpr int tell(detail::Telling& t, const int*) {
    return detail::Topological<Edges, Ops...>::template tell_all<n>(t, [](int row) { return row; });
  }
};

}  // namespace postlude::inline v0::evt::catlass
