// How the weight gradient of a depthwise convolution is summed on ordinary units (device/filters.cu, decision 0087).
#pragma once

#include "cuda/choose/schedule.h"

#include <optional>
#include <string>

namespace postlude::inline v0::cuda {

struct FilterTile {
  static constexpr int resident = 2;           // blocks of a multiprocessor
  static constexpr int warps = 8;              // of a block
  int channels = 32;                           // of a block
  int y = 1, x = 1, strip_y = 1, strip_x = 1;  // pixels of a tile, and of a strip
  int stages = 1;                              // tiles in shared memory
  int bytes = 0, shared = 0;                   // of one, and of all
};

// The tile that a schedule asks for; none: `why` says what is wrong with it. `limit`: of shared memory, bytes a block.
[[nodiscard]] std::optional<FilterTile> filter_tile(const Schedule& schedule, const Stencil& stencil, int element_bytes,
                                                    int limit, std::string& why);
// What a tile is chosen for.
struct FilterWork {
  std::int64_t channels, images;
  int element_bytes, limit, multiprocessors;
};
// The heuristic's schedule; none: no tile fits.
[[nodiscard]] std::optional<Schedule> filter_schedule(const Stencil& stencil, const FilterWork& work);
// Parts of all tiles that run at once.
[[nodiscard]] int filter_parts(std::int64_t tiles, std::int64_t blocks, int multiprocessors);

}  // namespace postlude::inline v0::cuda
