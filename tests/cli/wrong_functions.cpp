// Two functions of a careless user, linked with the program's own objects into `postlude_wrong`, so
// that a failed check and a bug can be seen: one's code does something else than its definition,
// the other's definition throws.
#include <postlude/function.h>

#include <stdexcept>

namespace {

using postlude::NativeFunction;

void half_more(const float* const* x, const float*, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[0][i] + 0.5f;
}

[[maybe_unused]] const bool defined = [] {
  NativeFunction wrong;
  wrong.name = "wrong";
  wrong.reference = [](const double* x, const double*) { return x[0]; };
  wrong.strip = half_more;
  define(std::move(wrong));
  NativeFunction throwing;
  throwing.name = "throwing";
  throwing.reference = [](const double*, const double*) -> double { throw std::runtime_error("thrown by a test"); };
  throwing.strip = half_more;
  define(std::move(throwing));
  return true;
}();

}  // namespace
