// A Blocking implies where B's blocks lie and how a thread's scratch is cut. Choosing, packing and
// running share this.
#pragma once

#include "cpu/product/gemm.h"
#include "cpu/product/pack.h"

namespace postlude::inline v0::cpu {

[[nodiscard]] BLayout layout_for(const Kernels& kernels, const ProductShape& shape, std::int64_t k_block,
                                 std::int64_t column_block);

struct ThreadScratch {  // offsets in bytes
  std::size_t b = 0, a = 0, gather = 0, acc = 0, end = 0;
};
// Where m <= max_thin_rows there are neither A's nor B's blocks, only A's words and the finished
// strip.
[[nodiscard]] ThreadScratch thread_scratch(const Kernels& kernels, const Blocking& blocking, std::int64_t m,
                                           const BLayout& layout, bool packed_b);

// Whether more rows are dot products with B's columns, which are contiguous in K: these are, about, so many
// multiplications of vectors and five for each sum. Tiles of a turned product have a vector for 16 rows.
[[nodiscard]] inline bool are_dots(const ProductShape& shape) {
  return shape.b_k_major && shape.a == DType::f32 && shape.b == DType::f32 && shape.pieces.count == 1 &&
         shape.m <= row_group && shape.m * (ceil_div(shape.k, 16) + 5) < ceil_div(shape.m, 16) * shape.k;
}
// Whether B is read once, as it lies, where the kernels can.
[[nodiscard]] inline bool is_thin(const ProductShape& shape) {
  return !shape.packed_b && (shape.m <= max_thin_rows || are_dots(shape));
}

// A B of more elements comes out of memory.
inline constexpr std::int64_t large_b = 4 << 20;
// One of no more comes out of L2.
inline constexpr std::int64_t b_in_l2 = 192 << 10;
[[nodiscard]] inline ThinRun::Asks asked(std::int64_t elements) {
  return elements > large_b   ? ThinRun::Asks::columns
         : elements > b_in_l2 ? ThinRun::Asks::lines
                              : ThinRun::Asks::nothing;
}

// The strips of columns that a thread of a thin product computes together, if it has so many. Rows
// of B are read in long pieces, columns by few, because each k block reads their pages again
// (decision 0035).
[[nodiscard]] inline std::int64_t thin_strips(const ProductShape& shape) { return shape.b_n_major ? 8 : 1; }

// A turned product's accumulators have A's rows as columns: the distance of its rows, and the words
// of A's panels.
[[nodiscard]] inline std::int64_t turned_row(std::int64_t m) { return round_up(m, 16) + 16; }
[[nodiscard]] inline std::int64_t turned_a_words(const Blocking& blocking, std::int64_t m) {
  return blocking.k_block * round_up(m, 16);
}

[[nodiscard]] inline std::int64_t row_groups(std::int64_t rows) { return ceil_div(rows, row_group); }

}  // namespace postlude::inline v0::cpu
