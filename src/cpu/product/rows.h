// The elements of one row of A or column of B, whatever the form of addressing.
#pragma once

#include "cpu/product/gemm.h"

namespace postlude::inline v0::cpu {

// `depth` elements of a row, from k0 on, one after another: where they lie, or copied to `to`.
[[nodiscard]] const char* row_elements(const Matrix& a, std::int64_t row, std::int64_t k0, std::int64_t depth,
                                       char* to);
[[nodiscard]] const char* column_elements(const Matrix& b, std::int64_t column, std::int64_t k0, std::int64_t depth,
                                          char* to);

}  // namespace postlude::inline v0::cpu
