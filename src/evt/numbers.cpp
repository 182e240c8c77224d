#include <postlude/evt/numbers.h>

#include "core/convert.h"

namespace postlude::inline v0::evt::detail {

std::uint32_t encode(DType dtype, double value) { return core::encode(dtype, value); }
float decode(DType dtype, std::uint32_t bits) { return core::decode(dtype, bits); }

}  // namespace postlude::inline v0::evt::detail
