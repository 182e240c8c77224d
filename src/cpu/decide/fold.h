// The images of a convolution as rows of one product.
#pragma once

#include "cpu/decide/decision.h"

namespace postlude::inline v0::cpu {

// One product packs B once, and has no row group but the last that is not full. It can be where nobody asks which image
// or pixel a row is, and each image's rows follow the last one's in every tensor; else the layout is as it was.
[[nodiscard]] Layout folded(const Subject& subject, const Layout& layout);

}  // namespace postlude::inline v0::cpu
