// --conv NxHxWxC:KxRxS[:s2,p1,d1,g1] and --gradient: a convolution's description, and its sizes.
#pragma once

#include "cli/options.h"

namespace postlude::inline v0::cli {

struct ConvOption {
  Problem problem;
  Sizes sizes;
  std::int64_t images = 0;  // 0: no batch
};
// Throws Error usage where the text is no convolution, wrong_shape where it has no output.
[[nodiscard]] ConvOption parse_conv(const std::string& text, const std::string& gradient, DType dtype);

}  // namespace postlude::inline v0::cli
