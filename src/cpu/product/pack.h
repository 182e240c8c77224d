// Packing: blocks of A and B become words.
#pragma once

#include "core/divide.h"
#include "cpu/product/gemm.h"

namespace postlude::inline v0::cpu {

// The kernels for a product. `integer` accumulators may come from another instruction set than the
// floats': AVX-512 without VNNI uses AVX2's.
[[nodiscard]] const Kernels& kernels_for(Isa isa, const ProductShape& shape);

// Those for the tiles of a small product of this K: AVX2's where columns fill half of a vector at most.
[[nodiscard]] const Kernels& kernels_for_columns(const Kernels& kernels, std::int64_t columns, std::int64_t k);

[[nodiscard]] Element element_of(DType type);

// The layout of B cut into (column block, k block) pairs.
struct BLayout {
  const Kernels* kernels = nullptr;
  std::int64_t n = 0, k = 0;
  Pieces pieces;
  std::int64_t piece_columns = 0;  // n / pieces.count
  std::int64_t k_block = 0, column_block = 0;
  // The excess of A's and B's words over A and B (kernels with terms; otherwise 0).
  std::int32_t a_zero = 0, b_zero = 0;

  [[nodiscard]] std::int64_t column_blocks() const { return ceil_div(piece_columns, column_block); }
  [[nodiscard]] std::int64_t k_blocks() const { return k == 0 ? 1 : ceil_div(k, k_block); }
  // Columns of each piece in a column block, and the same in whole vectors.
  [[nodiscard]] std::int64_t columns(std::int64_t block) const;
  [[nodiscard]] std::int64_t padded_columns(std::int64_t block) const;
  [[nodiscard]] std::int64_t depth(std::int64_t block) const;  // elements of K
  [[nodiscard]] std::int64_t steps(std::int64_t k_block_index) const;
  // A packed block: for each piece its panels, then, where the kernels have terms, one i32 for each
  // padded column: -a_zero times its sum; or, where they have least_exponent, that of all panels
  // first in a row as long.
  [[nodiscard]] std::int64_t block_words(std::int64_t column_block_index, std::int64_t k_block_index) const;
  [[nodiscard]] std::int64_t largest_block_words() const;
  // All blocks, column block by column block.
  [[nodiscard]] std::int64_t offset(std::int64_t column_block_index, std::int64_t k_block_index) const;
  [[nodiscard]] std::int64_t all_words() const { return offset(column_blocks(), 0); }
};

[[nodiscard]] const char* element_address(const Matrix& matrix, std::int64_t row, std::int64_t column);
// Makes `count` elements `stride` elements apart contiguous.
void gather(DType type, const char* from, std::int64_t stride, std::int64_t count, char* to);
inline constexpr int gathered_columns = 16;  // at once

// Bytes of scratch that pack_b_block needs for operands that are contiguous in neither axis.
[[nodiscard]] std::size_t gather_bytes(std::int64_t k_block);

// Packs all of a block's columns, or those from `first` on, a multiple of the panel.
void pack_b_block(const Matrix& b, const BLayout& layout, std::int64_t column_block, std::int64_t k_block,
                  std::uint32_t* to, char* gather, std::int64_t first = 0);

// Whether B lies as pack_part would pack it: contiguous rows of f32, of whole vectors, in one
// panel. A head's values in attention (S x 64) do.
[[nodiscard]] bool lies_packed(const Matrix& b, const BLayout& layout);

// Packs the thread's share of all blocks of B.
void pack_part(const Matrix& b, const BLayout& layout, int thread, int threads, std::uint32_t* to, char* gather);

// A row group of A as words, packed or in place.
struct AWords {
  const std::uint32_t* words = nullptr;
  std::int64_t row = 0;  // words from one row to the next
  std::int64_t step = 0;
};
// True when the kernels can read A where it lies.
[[nodiscard]] bool a_in_place(const Matrix& a, std::int64_t m);
[[nodiscard]] std::int64_t packed_a_words(std::int64_t k_block, int word_elements);
// Packs rows as words contiguous in K, to_row words apart.
void pack_rows(const Matrix& a, const Kernels& kernels, std::int64_t row0, int rows, std::int64_t k0,
               std::int64_t depth, std::uint32_t* to, std::int64_t to_row, char* gather_to);
// Rows row0 ... row0 + rows (<= row_group), K from k0 on, in whichever way costs less; `to` has
// packed_a_words.
[[nodiscard]] AWords pack_a_rows(const Matrix& a, const Kernels& kernels, std::int64_t row0, int rows, std::int64_t k0,
                                 std::int64_t depth, std::uint32_t* to, char* gather);

}  // namespace postlude::inline v0::cpu
