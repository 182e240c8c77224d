// Division of extents into blocks; both arguments positive.
#pragma once

#include <cstdint>

namespace postlude::inline v0 {

[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }
[[nodiscard]] constexpr std::int64_t round_up(std::int64_t x, std::int64_t y) { return ceil_div(x, y) * y; }

}  // namespace postlude::inline v0
