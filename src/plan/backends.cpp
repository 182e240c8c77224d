#include "plan/backends.h"

#if __has_include("cpu/backend.h")
#include "cpu/backend.h"
#endif

#if __has_include("cuda/backend.h")
#include "cuda/backend.h"
#endif

namespace postlude::inline v0::plan {
namespace {

const std::vector<Backend>& table() {
  static const std::vector<Backend> backends = {
#if __has_include("cpu/backend.h")
      {.device = Device::cpu,
       .name = "cpu",
       .unusable = [] { return std::string(); },
       .refusals = cpu::refusals,
       .compile = cpu::compile},
#endif
#if __has_include("cuda/backend.h")
      {.device = Device::cuda,
       .name = "cuda",
       .unusable = cuda::unusable,
       .refusals = cuda::refusals,
       .compile = cuda::compile},
#endif
  };
  return backends;
}

}  // namespace

const Backend* find_backend(Device device) {
  for (const Backend& backend : table()) {
    if (backend.device == device) return &backend;
  }
  return nullptr;
}

}  // namespace postlude::inline v0::plan
