// Operands that strides alone do not describe (src/loop/rows.h), as kernels are told of them.
#pragma once

#include "cuda/emit/agreed.h"
#include "plan/backend.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace postlude::inline v0::cuda {

// Without an address: Address::Of::index is put in where a kernel has it. The number of the alternative is A_FORM.
using KernelRows = std::variant<std::monostate, agreed::GatheredRows, agreed::WindowRows>;

// Of A. `a` has its strides, which an index is beside; windows have their own.
[[nodiscard]] KernelRows rows_of(const postlude::Address& address, const Bound& a, const Shape& shape);
// The stride of rows, where windows are single pixels, one behind the other: a strided matrix. None: they are not.
[[nodiscard]] std::optional<std::int64_t> row_stride(const KernelRows& rows);
// As explain() assumes for a shape that does not tell how windows lie: those of one tap, side by side.
[[nodiscard]] KernelRows usual_rows(Form form, const Shape& shape);
// Of which two are alike where these are.
[[nodiscard]] std::string bytes_of(const KernelRows& rows);
// Whether 16 bytes of a row, from every multiple of as many elements of K on, lie side by side and aligned.
[[nodiscard]] bool in_chunks(const KernelRows& rows, int alignment, std::int64_t element_bytes);
// Pixels' windows, as Hopper's copy engine loads them.
struct PixelLoads {
  int run = 128;       // bytes of K a pixel
  bool taps = false;   // each tap's channels fill whole runs, with zeros behind them; else K is one run after another
  bool depth = false;  // images have one
  std::array<int, 3> lower{}, upper{}, step{1, 1, 1};  // columns, rows, depth
};
[[nodiscard]] PixelLoads pixel_loads(const agreed::WindowRows& windows, std::int64_t element_bytes);

// Why Hopper's kernel does not read such rows; empty: it does.
[[nodiscard]] std::string portable_rows(const KernelRows& rows, int alignment, std::int64_t element_bytes);

}  // namespace postlude::inline v0::cuda
