// Phases in which every row is a matter of that row alone, one after another in one kernel: a row's threads hold it in
// registers, so that it is read once and written once, whatever is summed over it in between.
#pragma once

#include "cuda/emit/code.h"

#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

// What of a shape and its memory is compiled in. Memory can be read eight columns at a time where columns are
// contiguous, addresses and strides multiples of 16 bytes and of eight elements, types f32, bf16, f16 or of one byte,
// and columns a multiple of eight.
struct Wide {
  std::vector<bool> buffers;     // of the Program's, which can
  std::vector<bool> in_place{};  // and which outputs lie over operands
  bool accumulator = false;
  std::vector<std::int64_t> columns{};  // of each phase
  DType source = DType::f32;            // what the accumulator's memory holds (X's dtype for a stream)
};

// How rows lie on threads.
struct RowGrid {
  int threads = 32;    // a row: a power of two up to 1024, from 32 on where they fold
  int runs = 1;        // of eight columns a thread
  int width = 1;       // how many of the eight stand side by side in memory: 8, 4 or 1
  int blocks_n = 1;    // blocks beside each other, where no statistic joins the columns
  bool whole = false;  // no column is masked
  [[nodiscard]] int block() const { return threads > 128 ? threads : 128; }
};

struct RowPhase {
  int phase = 0;
  bool reductions = true;  // else they were made before, and only the stores are left
};

// What one kernel runs, and how.
struct RowRun {
  std::vector<RowPhase> phases;
  RowGrid grid;
};

// The run of `phases` (indices of the Program's, in order) that starts at `from`, as long as it can be; no phases where
// none can start there.
[[nodiscard]] RowRun row_run(const lower::Program& program, const std::vector<int>& phases, std::size_t from,
                             const Wide& wide);
// The stores of a phase over tiles alone: always possible.
[[nodiscard]] RowRun row_stores(const lower::Program& program, int phase, const Wide& wide);

struct RowKernel {
  std::string structs, text;
};
[[nodiscard]] RowKernel emit_rows(const lower::Program& program, const RowRun& run, const std::string& name,
                                  int accumulator_word, const Wide& wide, Functions& functions);

}  // namespace postlude::inline v0::cuda
