// Strided data gradients by filters as wide as their stride.
#pragma once

#include "cuda/decide/decision.h"

#include <optional>

namespace postlude::inline v0::cuda {

// The pixels that a filter's row makes lie side by side: they are a pixel of as many times the channels, and residues
// are of rows alone (decision 0259). None: windows overlap or leave pixels between them, or elements are told apart.
[[nodiscard]] std::optional<Layout> by_patches(const Subject& subject, const Layout& layout);

}  // namespace postlude::inline v0::cuda
