#include "cuda/run/call.h"

#include <algorithm>

namespace postlude::inline v0::cuda {

CudaCall::CudaCall(int device, std::vector<std::shared_ptr<Loaded>> modules, Workspace workspace,
                   std::vector<Part> cleared, std::vector<Launch> launches, std::string text)
    : context_(context(device)),
      follows_(cuda::device(device).is_hopper()),
      modules_(std::move(modules)),
      workspace_(std::move(workspace)),
      to_clear_(std::move(cleared)),
      launches_(std::move(launches)),
      text_(std::move(text)) {
  for (Launch& launch : launches_) {
    launch.arguments.push_back(launch.block.data());
    for (std::int32_t& i : launch.integers) launch.arguments.push_back(&i);
  }
}

// Tells the workspace its stream. Counters are cleared in the first run's stream, because bind
// would have to wait (decision 0027). A captured run does not take place yet, so the next one
// clears again.
void CudaCall::prepare(CuStream stream) {
  const Driver& d = driver();
  int capturing = 0;
  check(d.StreamIsCapturing(stream, &capturing), "asking a stream whether it is captured");
  workspace_.runs_on(stream, capturing);
  if (to_clear_.empty()) return;
  for (const Part& part : to_clear_)
    check(d.MemsetD8Async(workspace_.pointer() + part.at, 0, part.bytes, stream), "clearing counters");
  if (!capturing) to_clear_.clear();
}

void CudaCall::run(void* stream) {
  const CurrentDevice current(context_);
  const Driver& d = driver();
  if (workspace_.bytes()) prepare(static_cast<CuStream>(stream));
  LaunchAttribute attribute;
  attribute.value[0] = 1;
  LaunchConfig config;
  config.stream = static_cast<CuStream>(stream);
  config.attributes = &attribute, config.attribute_count = 1;
  for (Launch& l : launches_) {
    // A programmatic launch may begin before the one before it ends: follow_previous_launch() in
    // base.cu waits.
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
