// A Blocking implies where B's blocks lie and how a thread's scratch is cut. Choosing, packing and
// running share this.
#pragma once

#include "cpu/product/gemm.h"
#include "cpu/product/pack.h"

#include <algorithm>
#include <limits>

namespace postlude::inline v0::cpu {

[[nodiscard]] BLayout layout_for(const Kernels& kernels, const ProductShape& shape, std::int64_t k_block,
                                 std::int64_t column_block);

struct ThreadScratch {  // offsets in bytes
  std::size_t b = 0, a = 0, stretches = 0, gather = 0, acc = 0, end = 0;
};
// Where m <= max_thin_rows there are neither A's nor B's blocks, only A's words and the finished
// strip.
[[nodiscard]] ThreadScratch thread_scratch(const Kernels& kernels, const Blocking& blocking, std::int64_t m,
                                           const BLayout& layout, bool packed_b);

// A B of more elements comes out of memory.
inline constexpr std::int64_t large_b = 4 << 20;

// Rows for which a B contiguous in N is never packed.
inline constexpr std::int64_t few_thin_rows = 48;

// What few rows cost a column, in multiplications of vectors times 16: as dot products along K, with three for each
// sum, and five of rows that pass B a third time (decision 0309); as rows of the kernel for many, after B is packed;
// and turned, with vectors along M, after which the result is turned back.
[[nodiscard]] inline std::int64_t cost_of_dots(const ProductShape& s) {
  return s.m * (round_up(s.k, 16) + (s.m > max_thin_rows ? 5 : 3) * 16);
}
[[nodiscard]] inline std::int64_t cost_of_packed(const ProductShape& s) { return (s.m + 7) * s.k; }
[[nodiscard]] inline std::int64_t cost_of_turned(const ProductShape& s, int lanes) {
  return round_up(s.m, lanes) * s.k + 6 * s.m;
}

// Whether it stores the accumulators as they are.
[[nodiscard]] inline bool stores_only(const Direct& d) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  return d.alpha == 1 && !d.has_beta && !d.bias && !d.add && d.lo == -infinity && d.hi == infinity;
}

// One of no more comes out of L2.
inline constexpr std::int64_t b_in_l2 = 256 << 10;

// Whether rows pass a B contiguous in N, which L3 holds, in tiles rather than after it is packed (decision 0171). Many
// rows' sums take an epilogue with them less well, which a long K hides, or a B that L2 does not hold (decision 0244).
[[nodiscard]] inline bool rows_in_tiles(const ProductShape& s) {
  const bool f32 = s.a == DType::f32 && s.b == DType::f32 && s.pieces.count == 1;
  if (!s.b_n_major || !f32 || s.n * s.k > large_b || s.m > 128) return false;
  return s.m <= few_thin_rows || s.k >= 2 * s.m || (2 * s.k >= s.m && (s.alone || s.n * s.k > b_in_l2));
}

// Whether B is read once, as it lies, where the kernels can: the rows' dot products with its columns, or tiles of what
// L3 holds of a B contiguous in N.
[[nodiscard]] inline bool is_thin(const ProductShape& shape) {
  if (shape.packed_b) return false;
  if (rows_in_tiles(shape)) return true;
  const bool f32 = shape.a == DType::f32 && shape.b == DType::f32 && shape.pieces.count == 1;
  if (shape.b_k_major && f32 && shape.m <= row_group)
    return cost_of_dots(shape) < std::min(cost_of_packed(shape), cost_of_turned(shape, 16));
  return shape.m <= max_thin_rows;
}

// Of more than L2 holds, rows of B that one or two rows of A pass come in long pieces, as those of a large B do
// (decision 0212), on processors with AMX. Others read what L3 holds as fast in tiles (decision 0267).
inline constexpr std::int64_t b_of_two_rows = 512 << 10;
[[nodiscard]] inline ThinRun::Asks asked(std::int64_t elements, std::int64_t large = large_b) {
  return elements > large ? ThinRun::Asks::columns : elements > b_in_l2 ? ThinRun::Asks::lines : ThinRun::Asks::nothing;
}

// The strips of columns that a thread of a thin product computes together, if it has so many. Rows
// of B are read in long pieces, columns by few, because each k block reads their pages again
// (decision 0035).
[[nodiscard]] inline std::int64_t thin_strips(const ProductShape& shape) {
  return !shape.b_n_major ? 1 : shape.m > row_group ? 2 : 8;
}

// A turned product's accumulators have A's rows as columns: the distance of its rows, and the words
// of A's panels.
[[nodiscard]] inline std::int64_t turned_row(std::int64_t m) { return round_up(m, 16) + 16; }
[[nodiscard]] inline std::int64_t turned_a_words(const Blocking& blocking, std::int64_t m) {
  return blocking.k_block * round_up(m, 16);
}

[[nodiscard]] inline std::int64_t row_groups(std::int64_t rows) { return ceil_div(rows, row_group); }

}  // namespace postlude::inline v0::cpu
