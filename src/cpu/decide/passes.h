// The schedule of a Program on a CPU: which phases run together, and over which blocks. It is a
// pure function of the Program and the shapes, never of the number of threads.
//
// A *pass* goes over the rows once, block by block, and runs one or more phases on each block.
// Phases share a pass where all that a later one needs of an earlier one is made of the same rows
// (a statistic over N, a crossing tile): they then find it in cache. A statistic over M ends a
// pass. The first pass that reads the accumulator runs behind the product.
#pragma once

#include "core/divide.h"
#include "cpu/product/gemm.h"
#include "lower/program.h"
#include "plan/backend.h"

#include <cstdint>
#include <vector>

namespace postlude::inline v0::cpu {

struct Pass {
  int first = 0, count = 1;  // phases
  bool product = false;
  bool whole_rows = false;    // blocks have all columns
  Pieces pieces;              // of the product
  bool pieces_apart = false;  // and whether its blocks hold them apart (else the product comes whole)
  std::int64_t batches = 1;
  std::int64_t rows = 1, columns = 1;  // of the domain, the widest phase's
  std::int64_t block_rows = 1, block_columns = 1;
  std::vector<lower::BufferId> locals;  // crossing values that stay in a thread's own memory

  [[nodiscard]] std::int64_t row_blocks() const { return ceil_div(rows, block_rows); }
  [[nodiscard]] std::int64_t column_blocks() const { return ceil_div(columns, block_columns); }
};

// `product`: one fills the accumulator, which else is a tensor. Blocks of product passes are set by
// the caller (they are gemm's).
[[nodiscard]] std::vector<Pass> schedule(const lower::Program& program, const Shape& shape, bool product);

// The pieces of the product of the pass that reads the accumulator.
[[nodiscard]] Pieces product_pieces(const lower::Program& program);

}  // namespace postlude::inline v0::cpu
