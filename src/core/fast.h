// The word before a schedule that says how fp8 accumulates: "fast" leaves all of K to Hopper's tensor cores.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace postlude::inline v0::core {

inline constexpr std::string_view fast_word = "fast";

[[nodiscard]] inline bool is_fast(std::string_view schedule) {
  return schedule == fast_word || (schedule.starts_with(fast_word) && schedule[fast_word.size()] == ' ');
}

// The schedule without that word.
[[nodiscard]] inline std::string_view without_fast(std::string_view schedule) {
  if (is_fast(schedule)) schedule.remove_prefix(std::min(schedule.size(), fast_word.size() + 1));
  return schedule;
}

[[nodiscard]] inline std::string with_fast(std::string_view schedule) {
  const std::string rest(without_fast(schedule));
  return std::string(fast_word) + (rest.empty() ? "" : " ") + rest;
}

}  // namespace postlude::inline v0::core
