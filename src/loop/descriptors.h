// How a main loop's inputs and output are seen as matrices, for explain.
#pragma once

#include "loop/main_loop.h"

#include <string>

namespace postlude::inline v0 {

// Of a convolution, a line for each matrix: "A  N·P·Q x R·S·C  of X (N, C, H, W): ..."; of others nothing.
[[nodiscard]] std::string descriptors(const MainLoop& loop);

}  // namespace postlude::inline v0
