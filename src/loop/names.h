// The names of main loops' inputs, which no operand of an epilogue may take.
#pragma once

#include <string_view>

namespace postlude::inline v0 {

inline constexpr std::string_view name_a = "A", name_b = "B", name_x = "X";
inline constexpr std::string_view input_names[] = {name_a, name_b, name_x};

}  // namespace postlude::inline v0
