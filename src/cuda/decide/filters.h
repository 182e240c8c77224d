// Weight gradients of depthwise convolutions, which are sums on ordinary units.
#pragma once

#include "cuda/choose/filters.h"
#include "cuda/decide/decision.h"

#include <optional>

namespace postlude::inline v0::cuda {

struct Filters {
  Stencil stencil;
  Schedule schedule;
  FilterTile tile;
  agreed::FilterSums sums;  // without addresses
  agreed::WindowRows rows;
  std::optional<agreed::UnpackedImages> x, dy;  // that are copied, else read as they lie (decision 0246)
};

// None: it is another product, or its channels do not lie side by side, or no tile holds its taps.
// Throws bad_schedule where a stencil is asked for that is not legal.
[[nodiscard]] std::optional<Filters> filters(const Subject& subject, const Layout& layout);

}  // namespace postlude::inline v0::cuda
