// CATLASS's small types: elements, layouts, architectures. Facts from CATLASS 2.
#pragma once

#include <postlude/evt/arguments.h>

#include <cstdint>

// So that a person's functions compile as they stand.
#ifndef CATLASS_DEVICE
#define CATLASS_DEVICE inline
#endif
#ifndef CATLASS_HOST_DEVICE
#define CATLASS_HOST_DEVICE inline
#endif

namespace postlude::inline v0::evt::catlass {

using half = Number<f16>;
using bfloat16_t = Number<bf16>;
using float8_e4m3_t = Number<e4m3>;
using float8_e5m2_t = Number<e5m2>;

using GM_ADDR = void*;

enum class Status { kSuccess, kInvalid };

using evt::Int;
using evt::seq;
template <class... T>
using tuple = Clauses<T...>;
template <class... T>
using Shape = Clauses<T...>;
template <class... T>
using Stride = Clauses<T...>;
template <class... T>
[[nodiscard]] constexpr Clauses<T...> MakeShape(const T&... x) {
  return {x...};
}
template <class... T>
[[nodiscard]] constexpr Clauses<T...> MakeStride(const T&... x) {
  return {x...};
}

inline constexpr std::uint32_t BYTE_PER_C0 = 32;
[[nodiscard]] constexpr auto CeilDiv(auto x, auto by) { return (x + by - 1) / by; }
[[nodiscard]] constexpr auto RoundUp(auto x, auto to) { return CeilDiv(x, to) * to; }
[[nodiscard]] constexpr auto RoundDown(auto x, auto to) { return x / to * to; }

class GemmCoord {
 public:
  constexpr GemmCoord() = default;
  constexpr GemmCoord(std::uint32_t m, std::uint32_t n, std::uint32_t k) : m_(m), n_(n), k_(k) {}
  [[nodiscard]] constexpr std::uint32_t m() const { return m_; }
  [[nodiscard]] constexpr std::uint32_t n() const { return n_; }
  [[nodiscard]] constexpr std::uint32_t k() const { return k_; }

 private:
  std::uint32_t m_ = 0, n_ = 0, k_ = 0;
};

// A layout is an object: rows, columns and the elements between two of either. As a tag it says which lie side by side.
namespace layout {
struct Matrix {
  std::int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 0;
};
struct RowMajor : Matrix {
  constexpr RowMajor(std::int64_t rows = 0, std::int64_t columns = 0) : RowMajor(rows, columns, columns) {}
  constexpr RowMajor(std::int64_t rows, std::int64_t columns, std::int64_t ld) : Matrix{rows, columns, ld, 1} {}
  template <class Element>
  [[nodiscard]] static constexpr RowMajor MakeLayout(std::int64_t rows, std::int64_t columns) {
    return {rows, columns};
  }
  [[nodiscard]] constexpr std::size_t Capacity() const { return static_cast<std::size_t>(rows * row_stride); }
};
struct ColumnMajor : Matrix {
  constexpr ColumnMajor(std::int64_t rows = 0, std::int64_t columns = 0) : ColumnMajor(rows, columns, rows) {}
  constexpr ColumnMajor(std::int64_t rows, std::int64_t columns, std::int64_t ld) : Matrix{rows, columns, 1, ld} {}
  template <class Element>
  [[nodiscard]] static constexpr ColumnMajor MakeLayout(std::int64_t rows, std::int64_t columns) {
    return {rows, columns};
  }
  [[nodiscard]] constexpr std::size_t Capacity() const { return static_cast<std::size_t>(columns * column_stride); }
};
// Known by name, and refused.
struct Refused {
  constexpr Refused(std::int64_t = 0, std::int64_t = 0) {}
};
struct VectorLayout : Refused {
  using Refused::Refused;
};
struct zN : Refused {
  using Refused::Refused;
};
struct nZ : Refused {
  using Refused::Refused;
};
struct zZ : Refused {
  using Refused::Refused;
};
struct L0C : Refused {
  using Refused::Refused;
};
}  // namespace layout

template <class Element, class LayoutTag>
[[nodiscard]] constexpr LayoutTag MakeLayout(std::int64_t rows, std::int64_t columns) {
  return {rows, columns};
}
template <class Rows, class Columns, class RowStride, class ColumnStride>
[[nodiscard]] constexpr layout::Matrix MakeLayout(const Clauses<Rows, Columns>& shape,
                                                  const Clauses<RowStride, ColumnStride>& stride) {
  return {shape.op_0, shape.op_1, stride.op_0, stride.op_1};
}
template <class LayoutTag>
[[nodiscard]] constexpr LayoutTag MakeLayoutFromTag(const LayoutTag& tag) {
  return tag;
}

// What a processor has on chip, in bytes.
namespace Arch {
struct AtlasA2 {
  static constexpr std::uint32_t UB_SIZE = 192 * 1024, L0C_SIZE = 128 * 1024;
};
struct Ascend950 {
  static constexpr std::uint32_t UB_SIZE = 248 * 1024, L0C_SIZE = 256 * 1024;
};
}  // namespace Arch

}  // namespace postlude::inline v0::evt::catlass
