// What the tests of visitor types share.
#pragma once

#include <postlude/evt/cutlass.h>
#include <postlude/parse.h>
#include <postlude/plan.h>

#include "graph/ir/equal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace postlude::evt_tests {

// T's graph is what the text says, operands and outputs in this order.
template <class T>
void expect_graph(const std::string& text) {
  const Graph expected = parse(text, "epilogue");
  EXPECT_TRUE(same(evt::to_graph<T>().data(), expected.data())) << evt::print<T>() << "\nis not\n" << expected.print();
}

// An array of elements, filled with numbers that every 8-bit type has.
template <class T>
struct Array {
  std::vector<T> elements;
  explicit Array(std::int64_t count, int seed = 0) : elements(static_cast<std::size_t>(count)) {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const auto n = static_cast<int>((i * 7 + static_cast<std::size_t>(seed) * 5) % 17) - 8;
      elements[i] = std::is_integral_v<T> ? static_cast<T>(n) : static_cast<T>(0.25f * static_cast<float>(n));
    }
  }
  T* data() { return elements.data(); }
  [[nodiscard]] const T* data() const { return elements.data(); }
  T& operator[](std::int64_t i) { return elements[static_cast<std::size_t>(i)]; }
  [[nodiscard]] double at(std::int64_t i) const {
    return static_cast<double>(static_cast<float>(elements[static_cast<std::size_t>(i)]));
  }
  bool operator==(const Array& other) const {
    return elements.size() == other.elements.size() &&
           std::memcmp(elements.data(), other.elements.data(), elements.size() * sizeof(T)) == 0;
  }
};

}  // namespace postlude::evt_tests
