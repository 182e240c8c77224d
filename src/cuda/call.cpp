#include "cuda/call.h"

#include <algorithm>

namespace postlude::inline v0::cuda {

CudaCall::CudaCall(int device, std::vector<std::shared_ptr<Loaded>> modules, Buffer workspace,
                   std::vector<Launch> launches, std::string text)
    : device_(device),
      follows_(cuda::device(device).is_hopper()),
      modules_(std::move(modules)),
      workspace_(std::move(workspace)),
      launches_(std::move(launches)),
      text_(std::move(text)) {
  for (Launch& launch : launches_) {
    launch.arguments.push_back(launch.block.data());
    for (std::int32_t& i : launch.integers) launch.arguments.push_back(&i);
  }
}

void CudaCall::run(void* stream) {
  const CurrentDevice current(device_);
  const Driver& d = driver();
  LaunchAttribute attribute;
  attribute.value[0] = 1;
  LaunchConfig config;
  config.stream = static_cast<CuStream>(stream);
  config.attributes = &attribute, config.attribute_count = 1;
  for (Launch& l : launches_) {
    // Programmatic: follow_previous_launch() in base.cu.
    attribute.id = l.cooperative ? LaunchAttribute::cooperative : LaunchAttribute::programmatic_serialization;
    if (!l.cooperative && (&l == launches_.data() || !follows_)) {
      check(d.LaunchKernel(l.function, l.grid[0], l.grid[1], l.grid[2], l.threads, 1, 1, l.shared,
                           static_cast<CuStream>(stream), l.arguments.data(), nullptr),
            "launching a kernel");
      continue;
    }
    std::copy_n(l.grid, 3, config.grid);
    config.block[0] = l.threads, config.shared = l.shared;
    check(d.LaunchKernelEx(&config, l.function, l.arguments.data(), nullptr), "launching a kernel");
  }
}

}  // namespace postlude::inline v0::cuda
