// The parameters of StripTable::weighted_sum.
#pragma once

#include <cstdint>

namespace postlude::inline v0::cpu {

// How weighted_sum runs: args[2 i] of the strip is what factor args[2 i + 1] weights. A result that is new is not read: it
// starts from 0. `streams`, of new ones: they go past the caches, which would read them first, and as many elements at
// `ahead` are asked for. `depth`: the products are so many rows of a window, each of which reads what the one before reads
// in the strip's next row, so that several rows of results share what they read; 0: they do not.
struct WeightedSum {
  int products = 0;
  bool is_new = false, streams = false;
  std::uintptr_t ahead = 0;
  int depth = 0;
};

}  // namespace postlude::inline v0::cpu
