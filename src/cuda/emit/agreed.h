// Device code and host code that both compile: see device/agreed.inc.
#pragma once

namespace postlude::inline v0::cuda {

namespace agreed {
using i64 = long long;
#define AGREED_FUNCTION constexpr
#define POSTLUDE_AGREED(name, ...) __VA_ARGS__
#include "cuda/device/agreed.inc"
#undef POSTLUDE_AGREED
#undef AGREED_FUNCTION
}  // namespace agreed

// The same as text.
#define AGREED_FUNCTION AGREED_FUNCTION
#define POSTLUDE_AGREED(name, ...) inline constexpr const char* agreed_##name = #__VA_ARGS__ "\n";
#include "cuda/device/agreed.inc"
#undef POSTLUDE_AGREED
#undef AGREED_FUNCTION

}  // namespace postlude::inline v0::cuda
