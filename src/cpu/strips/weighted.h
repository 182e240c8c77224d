// The parameters of StripTable::weighted_sum.
#pragma once

#include <cstdint>

namespace postlude::inline v0::cpu {

// How weighted_sum runs. A result that is new is not read: it starts from 0. `streams`, of new ones: they go past the
// caches, which would read them first, and as many elements at `ahead` are asked for.
struct WeightedSum {
  int products = 0;
  bool is_new = false, streams = false;
  std::uintptr_t ahead = 0;
};

}  // namespace postlude::inline v0::cpu
