// A batched problem as one product, where nobody can tell.
#pragma once

#include "cuda/decide/decision.h"

#include <optional>

namespace postlude::inline v0::cuda {

// The images of a convolution as rows of one product, so that tiles cross them: where the Program asks for neither b
// nor m (no operand or result of an image's own, no index, no random number) and rows of all images follow each other
// in every tensor. Tiles of each image alone would be up to a third empty (decision 0080).
[[nodiscard]] std::optional<Layout> folded(const Subject& subject, const Layout& layout);

}  // namespace postlude::inline v0::cuda
