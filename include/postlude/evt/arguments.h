// What a tree's Arguments hold, read for the library in the order of the tree's rows.
#pragma once

#include <postlude/evt/clauses.h>
#include <postlude/evt/numbers.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace postlude::inline v0::evt {

// One operand, output or parameter.
struct Given {
  const void* data = nullptr;                   // null: `value` is every element, or nothing is stored
  alignas(8) std::array<std::byte, 8> value{};  // the element for null, a reduction's identity, a parameter
  std::array<std::int64_t, 3> strides{};        // along m, n and the batch, in elements
  std::array<std::int64_t, 2> shape{-1, -1};    // as a layout says it, if one does

  Given() = default;
  template <class T>
  Given(const void* data, const T& value, std::array<std::int64_t, 3> strides = {}) : data(data), strides(strides) {
    static_assert(sizeof(T) <= sizeof this->value && std::is_trivially_copyable_v<T>);
    std::memcpy(this->value.data(), &value, sizeof value);
  }
};
using Giving = std::vector<Given>;

struct Empty {};

namespace detail {

// The members of an aggregate, eight at most.
struct Anything {
  template <class T>
  operator T() const;
};
template <class T, std::size_t... i>
constexpr bool has_members(std::index_sequence<i...>) {
  return requires { T{(static_cast<void>(i), Anything{})...}; };
}
template <class T, std::size_t most = 8>
constexpr int member_count() {
  if constexpr (most == 0 || has_members<T>(std::make_index_sequence<most>{})) return static_cast<int>(most);
  else return member_count<T, most - 1>();
}

template <class T, class F>
constexpr void for_each_member(T& x, F f) {
  constexpr int count = member_count<std::remove_const_t<T>>();
  if constexpr (count == 1) {
    auto& [a] = x;
    f(a);
  } else if constexpr (count == 2) {
    auto& [a, b] = x;
    f(a), f(b);
  } else if constexpr (count == 3) {
    auto& [a, b, c] = x;
    f(a), f(b), f(c);
  } else if constexpr (count == 4) {
    auto& [a, b, c, d] = x;
    f(a), f(b), f(c), f(d);
  } else if constexpr (count == 5) {
    auto& [a, b, c, d, e] = x;
    f(a), f(b), f(c), f(d), f(e);
  } else if constexpr (count == 6) {
    auto& [a, b, c, d, e, g] = x;
    f(a), f(b), f(c), f(d), f(e), f(g);
  } else if constexpr (count == 7) {
    auto& [a, b, c, d, e, g, h] = x;
    f(a), f(b), f(c), f(d), f(e), f(g), f(h);
  } else if constexpr (count == 8) {
    auto& [a, b, c, d, e, g, h, i] = x;
    f(a), f(b), f(c), f(d), f(e), f(g), f(h), f(i);
  }
}

}  // namespace detail
}  // namespace postlude::inline v0::evt
