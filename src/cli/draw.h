// Operands that the command line leaves out are drawn from a seed.
#pragma once

#include "cli/npy.h"

#include <cstdint>
#include <string_view>

namespace postlude::inline v0::cli {

struct Distribution {
  bool integers = false;
  double deviation = 1;            // of a normal distribution around 0
  std::int64_t low = 0, high = 0;  // integers in [low, high)

  [[nodiscard]] static Distribution normal(double deviation) { return {.deviation = deviation}; }
  [[nodiscard]] static Distribution uniform(std::int64_t low, std::int64_t high) {
    return {.integers = true, .low = low, .high = high};
  }
  // The distribution that suits a dtype: normal with deviation 1, or integers that it holds (wide
  // ones within +-100).
  [[nodiscard]] static Distribution of(DType type);
};

// Draws an array: the same elements for the same seed, name and shape, on every machine.
[[nodiscard]] Array draw(DType type, std::vector<std::int64_t> shape, const Distribution& distribution,
                         std::uint64_t seed, std::string_view name);

}  // namespace postlude::inline v0::cli
