// The elements of one row of A or column of B, whatever the form of addressing.
#pragma once

#include "cpu/product/gemm.h"
#include "cpu/product/pack.h"

#include <optional>

namespace postlude::inline v0::cpu {

// `depth` elements of a row, from k0 on, one after another: where they lie, or copied to `to`.
[[nodiscard]] const char* row_elements(const Matrix& a, std::int64_t row, std::int64_t k0, std::int64_t depth,
                                       char* to);
[[nodiscard]] const char* column_elements(const Matrix& b, std::int64_t column, std::int64_t k0, std::int64_t depth,
                                          char* to);

// Rows of A as words, where A is windows that lie well for it. `to` is as pack_a_rows takes it.
[[nodiscard]] std::optional<AWords> window_words(const Matrix& a, const Kernels& kernels, std::int64_t row0, int rows,
                                                 std::int64_t k0, std::int64_t depth, std::uint32_t* to,
                                                 std::int64_t to_row);
// Whether rows of A are read where they lie, in stretches: f32 rows that are gathered, or windows whose taps' channels
// are contiguous.
[[nodiscard]] bool in_stretches(const Matrix& a);
// How many stretches a k block has at most.
[[nodiscard]] std::int64_t most_stretches(std::int64_t k_block);
// The stretches of rows row0 ... row0 + rows; returns their number. Only windows of few channels that the image's edge
// cuts are copied, to `edges`, of packed_a_words.
[[nodiscard]] int row_stretches(const Matrix& a, std::int64_t row0, int rows, std::int64_t k0, std::int64_t depth,
                                Stretch* to, std::uint32_t* edges);
// Rows k0 ... k0 + depth and `width` columns of B, to rows `pitch` bytes apart; B is addressed, and its columns are
// contiguous but for taps.
void block_elements(const Matrix& b, std::int64_t column, std::int64_t width, std::int64_t k0, std::int64_t depth,
                    char* to, std::int64_t pitch);
// Where the first channel of each tap of `rows` pixels lies, pixel by pixel; `zeros` outside of the image.
void tap_addresses(const Matrix& a, const Windows& w, std::int64_t row0, int rows, const char* zeros, const char** to);

}  // namespace postlude::inline v0::cpu
