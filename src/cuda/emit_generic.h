// Kernels that run any phase of any Program from memory, with the accumulator in a workspace: the fallback, and what
// runs the phases that are not part of the product's kernel.
#pragma once

#include "lower/program.h"

#include <postlude/dtype.h>

#include <optional>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

// How rows lie on threads (emit_rows.h).
struct RowGrid {
  int threads = 32;    // a row: a power of two up to 1024
  int runs = 1;        // of eight columns a thread
  int width = 1;       // how many of the eight stand side by side in memory: 8, 4 or 1
  int blocks_n = 1;    // blocks beside each other, where no statistic joins the columns
  bool whole = false;  // no column is masked
  [[nodiscard]] int block() const { return threads > 256 ? threads : 256; }
};

struct GenericKernel {
  std::string name;
  int phase = 0;
  int reduction = -1;             // -1: the stores
  bool by_columns = false;        // a reduction that keeps columns: one lane a column
  std::optional<RowGrid> rows{};  // whole rows, phase by phase
  int state_bytes = 0;
};

struct GenericSource {
  std::string text;
  std::vector<GenericKernel> kernels;  // in the order in which they must run
  int words = 0;
  // Words: 4 a buffer, then the accumulator's 4 (as `accumulator_word`), then one each:
  int accumulator_word = 0, partials_word = 0, counters_word = 0;
};

// What of a shape and its memory is compiled in. Memory can be read eight columns at a time where columns are
// contiguous, addresses and strides multiples of 16 bytes and of eight elements, types f32, bf16 or f16, and columns a
// multiple of eight.
struct Wide {
  std::vector<bool> buffers;  // which can; empty: none
  bool accumulator = false;
  std::vector<std::int64_t> columns{};  // of each phase
  DType source = DType::f32;            // what the accumulator's memory holds (X's dtype for a stream)
};

[[nodiscard]] GenericSource emit_generic(const lower::Program& program, const std::vector<int>& phases,
                                         const Wide& wide);

// The product on ordinary units, and a copy of a matrix into rows that the copy engine can address.
[[nodiscard]] std::string product_source(DType a, DType b);

}  // namespace postlude::inline v0::cuda
