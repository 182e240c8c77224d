// Operands that strides alone do not describe (src/loop/rows.h), as kernels are told of them.
#pragma once

#include "cuda/emit/agreed.h"
#include "plan/backend.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace postlude::inline v0::cuda {

// Without an address: Address::Of::index is put in where a kernel has it. The number of the alternative is A_FORM.
using KernelRows = std::variant<std::monostate, agreed::GatheredRows, agreed::WindowRows>;

// `matrix` has the strides of one whose rows are gathered; windows have their own. `columns`: what they count.
[[nodiscard]] KernelRows rows_of(const postlude::Address& address, const Bound& matrix, std::int64_t rows,
                                 std::int64_t columns);
// A residue of a strided data gradient: rows that the same taps touch, a product of its own. Without a tap: zeros.
struct KernelPart {
  agreed::WindowRows a;  // taps: 0 without one
  Counted b_k;
  std::int64_t b_first = 0;  // elements
  agreed::ScatterRows scatter;
  std::int64_t rows = 0, k = 0;  // of all images
};
// Those that have a tap, and behind them those that have none.
[[nodiscard]] std::vector<KernelPart> parts_of(const Addressing& addressing);
// The single stride that counting along several axes is, if it is one; and that of all but the innermost axis.
[[nodiscard]] std::optional<std::int64_t> joined(const Counted& counted);
[[nodiscard]] std::optional<Counted::Axis> joined_outer(const Counted& counted);
// The stride of rows, where windows are single pixels, one behind the other: a strided matrix. None: they are not.
[[nodiscard]] std::optional<std::int64_t> row_stride(const KernelRows& rows);
// As explain() assumes for a shape that does not tell how windows lie: those of one tap, side by side.
[[nodiscard]] KernelRows usual_rows(Form form, std::int64_t batch, std::int64_t rows, std::int64_t columns);
// Of which two are alike where these are.
[[nodiscard]] std::string bytes_of(const KernelRows& rows);
// What a kernel counts in 32 bits: larger sizes were refused.
[[nodiscard]] constexpr int small(std::int64_t x) { return static_cast<int>(x); }
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

// Why the copy engine does not write the rows of a residue; empty: it does.
[[nodiscard]] std::string portable_scatter(const KernelPart& part);
// Whether the maps of any of these need a depth: one kernel serves all.
[[nodiscard]] bool deep(const std::vector<KernelPart>& parts);
// Why Hopper's kernel does not read such rows; empty: it does. `deep`: as images with a depth.
[[nodiscard]] std::string portable_rows(const KernelRows& rows, int alignment, std::int64_t element_bytes,
                                        bool deep = false);

}  // namespace postlude::inline v0::cuda
