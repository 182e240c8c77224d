// Kernels that run any phase of any Program from memory, with the accumulator in a workspace: the fallback, and what
// runs the phases that are not part of the product's kernel.
#pragma once

#include "cuda/choose/filters.h"
#include "cuda/emit/rows.h"

#include <optional>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

struct GenericKernel {
  std::string name;
  int phase = 0;
  int reduction = -1;             // -1: the stores
  bool by_columns = false;        // a reduction that keeps columns: one lane a column
  std::optional<RowGrid> rows{};  // whole rows, phase by phase
  std::vector<RowPhase> run{};    // then these
  int state_bytes = 0;
};

struct GenericSource {
  std::string text;
  std::vector<GenericKernel> kernels;  // in the order in which they must run
  int words = 0;
  // Words: 4 a buffer, then the accumulator's 4 (as `accumulator_word`), then one each:
  int accumulator_word = 0, partials_word = 0, counters_word = 0;
};

[[nodiscard]] GenericSource emit_generic(const lower::Program& program, const std::vector<int>& phases,
                                         const Wide& wide, std::int64_t image_rows = 0);

// The product on ordinary units, and what adds parts of its K. Forms are of KernelRows. `vector`: columns of a thread,
// 1 or 8, where a group has one; 0: it has more.
[[nodiscard]] std::string product_source(DType a, DType b, int a_form, int b_form, bool scattered, int vector);

// The weight gradient of a depthwise convolution, by a tile that fits (choose/filters.h), and the same.
[[nodiscard]] std::string filters_source(DType type, const Stencil& stencil, const FilterTile& tile);

// Copies of A and B into what the copy engine can address. `counted`: their K is counted along axes, or lies in groups.
[[nodiscard]] std::string repack_source(DType type, bool counted);

// The same of images, and copies of an accumulator from what was written for it. What copies stands apart from that
// product, which no plan runs beside it, and a compiler is asked no more than a plan runs.
[[nodiscard]] std::string copies_source(DType type);

}  // namespace postlude::inline v0::cuda
