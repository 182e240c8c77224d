// How long a product and its epilogue take by a schedule: a model of one H200, fitted to measured
// cells (decision 0092). Nothing here touches a device.
#pragma once

#include "cuda/choose/schedule.h"

#include <cstdint>

namespace postlude::inline v0::cuda {

// Microseconds from the launch's begin to its end; infinite where the schedule cannot run at these
// sizes. `multiprocessors`: the device's.
[[nodiscard]] double microseconds(const Schedule& schedule, const EpilogueNeeds& needs, const Extents& extents,
                                  int multiprocessors);

// The same if all multiprocessors multiplied all the time.
[[nodiscard]] double least_microseconds(const Schedule& schedule, const EpilogueNeeds& needs, const Extents& extents,
                                        int multiprocessors);

// K blocks that a tile's last part has beyond an equal share: others leave theirs in memory meanwhile (decision 0264).
[[nodiscard]] int later_blocks(const Schedule& schedule, const EpilogueNeeds& needs, const Extents& extents,
                               int multiprocessors);

// Clocks that a multiprocessor has for a tile of a stencil.
[[nodiscard]] double stencil_clocks(const Schedule& schedule, const EpilogueNeeds& needs);

// Of a pass over memory behind it that reads or writes so many bytes for each element, and has a block for each row.
[[nodiscard]] double pass_microseconds(std::int64_t rows, std::int64_t columns, int bytes_column, int multiprocessors);

}  // namespace postlude::inline v0::cuda
