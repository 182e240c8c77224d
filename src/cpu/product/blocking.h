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

// One of no more comes out of L2.
inline constexpr std::int64_t b_in_l2 = 256 << 10;

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

// Whether rows pass a B contiguous in N in tiles rather than after it is packed, and without pieces of its rows that
// are longer where memory holds it (decision 0171). Many rows' sums take an epilogue with them less well, which a long
// K hides, or a B that L2 does not hold (decision 0244).
inline constexpr std::int64_t rows_of_large_b = row_group, most_in_tiles = 128, most_in_tiles_alone = 192;
[[nodiscard]] inline bool rows_in_tiles(const ProductShape& s) {
  const bool f32 = s.a == DType::f32 && s.b == DType::f32 && s.pieces.count == 1;
  if (!s.b_n_major || !f32) return false;
  if (s.n * s.k > large_b) return s.m > max_thin_rows && s.m <= rows_of_large_b;
  if (s.m > most_in_tiles) return s.m <= most_in_tiles_alone && s.alone && s.n * s.k > b_in_l2 && 2 * s.k >= s.m;
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
// A processor sees a few columns of an f32 B that L3 holds coming by itself (decision 0229), but late for what more
// than a few rows multiply meanwhile; and more rows pass tiles of a B out of memory too (decision 0314).
[[nodiscard]] inline ThinRun::Asks asked(const Product& p, Isa isa) {
  const std::int64_t elements = p.n * p.k;
  const bool strided = !p.b.address;
  if (strided && p.b.row_stride == 1 && p.b.dtype == DType::f32 && elements <= large_b)
    return p.m > 4 && p.k <= 1024 && elements > b_in_l2 ? ThinRun::Asks::columns : ThinRun::Asks::nothing;
  const bool by_rows = strided && p.b.row_stride != 1 && p.b.column_stride == 1;
  const std::int64_t large = by_rows && p.m <= 2 && isa == Isa::amx ? b_of_two_rows : large_b;
  if (elements > large && !(by_rows && p.m > max_thin_rows)) return ThinRun::Asks::columns;
  return elements > b_in_l2 ? ThinRun::Asks::lines : ThinRun::Asks::nothing;
}

// So many rows of a product in tiles may copy a panel of a B that L3 holds. Fewer have tiles of other widths.
inline constexpr std::int64_t rows_that_copy = 10;

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
