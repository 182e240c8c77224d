// The parameters of StripTable::weighted_sum.
#pragma once

#include <cstdint>

namespace postlude::inline v0::cpu {

// How weighted_sum runs: args[2 i] of the strip is what factor args[2 i + 1] weights. A result that is new is not read:
// it starts from 0. `depth`: the products are so many rows of a window, each of which reads what the one before reads
// in the strip's next row, so that several rows of results share what they read; 1: they do not.
struct WeightedSum {
  int products = 0;
  bool is_new = false;
  int depth = 1;
};

}  // namespace postlude::inline v0::cpu
