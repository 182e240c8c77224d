// Strided data gradients of few channels, whose residues share a product.
#pragma once

#include "cuda/decide/decision.h"

#include <optional>

namespace postlude::inline v0::cuda {

// The residues as columns of one product, side by side: its rows are the pixels of the largest, its K the taps of all
// (decision 0084). None: where that does not pay, or Hopper's kernel cannot.
[[nodiscard]] std::optional<Layout> beside(const Subject& subject, const Layout& layout);

}  // namespace postlude::inline v0::cuda
