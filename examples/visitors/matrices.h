// What the examples share: numbers, a product in double, and a line that says whether results are right.
#pragma once

#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

namespace visitors {

constexpr int M = 130, N = 72, K = 40;

// Multiples of 1/8 from -1 to 1, which every type has.
template <class T>
std::vector<T> numbers(std::size_t count, std::size_t seed) {
  std::vector<T> x(count);
  for (std::size_t i = 0; i < count; ++i)
    x[i] = T(0.125f * static_cast<float>(static_cast<int>((i * 7 + seed * 5) % 17) - 8));
  return x;
}

// Element (m, n) of A B; A is M x K, B is K x N, both by rows.
template <class T>
double product(const std::vector<T>& a, const std::vector<T>& b, int m, int n) {
  double sum = 0;
  for (int k = 0; k < K; ++k)
    sum += double{static_cast<float>(a[static_cast<std::size_t>(m * K + k)])} *
           double{static_cast<float>(b[static_cast<std::size_t>(k * N + n)])};
  return sum;
}

inline int failures = 0;
inline void report(const char* what, bool right) {
  std::printf("%-44s %s\n", what, right ? "right" : "WRONG");
  failures += !right;
}

// Every element of an M x N result against a function of the row and column.
template <class T>
void compare(const char* what, const std::vector<T>& d, double tolerance, const std::function<double(int, int)>& f) {
  bool right = true;
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      const double wanted = f(m, n), found = static_cast<float>(d[static_cast<std::size_t>(m * N + n)]);
      right &= std::fabs(found - wanted) <= tolerance * std::fmax(1, std::fabs(wanted));  // false for NaN
    }
  }
  report(what, right);
}

}  // namespace visitors
