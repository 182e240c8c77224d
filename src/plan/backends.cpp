#include "plan/backends.h"

#include "cpu/backend.h"
#include "cuda/backend.h"

namespace postlude::inline v0::plan {
namespace {

constexpr Backend table[] = {
    {.device = Device::cpu,
     .name = "cpu",
     .unusable = [] { return std::optional<Error>(); },
     .refusals = cpu::refusals,
     .compile = cpu::compile,
     .halves = nullptr,
     .joint = false},
    {.device = Device::cuda,
     .name = "cuda",
     .unusable = cuda::unusable,
     .refusals = cuda::refusals,
     .compile = cuda::compile,
     .halves = cuda::halves,
     .joint = true},
};

}  // namespace

const Backend& find_backend(Device device) { return device == Device::cpu ? table[0] : table[1]; }

}  // namespace postlude::inline v0::plan
