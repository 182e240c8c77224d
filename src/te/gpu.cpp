#include "te/gpu.h"

#include "cuda/run/driver.h"
#include "cuda/run/kernel.h"
#include "cuda/run/workspace.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace postlude::inline v0::te {

struct GpuNest::Loaded {
  std::mutex mutex;
  std::map<int, std::unique_ptr<cuda::Module>> modules;  // by device
};

namespace {

constexpr std::int64_t most_threads = 1024, most_blocks[] = {0x7fffffff, 65535, 65535};

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

struct Launch {
  unsigned grid[3] = {1, 1, 1}, threads = 1;
  bool empty = false;
  [[nodiscard]] std::int64_t blocks() const { return std::int64_t{grid[0]} * grid[1] * grid[2]; }
};

Launch launch_of(const KernelSource& kernel, const Sizes& sizes, int multiprocessors) {
  Launch launch;
  if (kernel.shared_loop.node()) {
    const std::int64_t extent = evaluate(kernel.shared_loop, sizes);
    launch.empty = extent <= 0;
    launch.threads = auto_threads;
    launch.grid[0] = static_cast<unsigned>(
        std::clamp<std::int64_t>((extent + auto_threads - 1) / auto_threads, 1, std::int64_t{32} * multiprocessors));
    return launch;
  }
  std::int64_t threads = 1;
  for (std::size_t d = 0; d < 6; ++d) {
    const Expr& extent = d < 3 ? kernel.grid[d] : kernel.block[d - 3];
    if (extent.empty()) continue;
    const std::int64_t n = evaluate(extent, sizes);
    launch.empty |= n <= 0 && kernel.empties[d];
    if (d >= 3) {
      threads *= std::max<std::int64_t>(n, 1);
      continue;
    }
    if (n > most_blocks[d])
      refuse("the grid of " + kernel.name + " has " + std::to_string(n) + " blocks along axis " + "xyz"[d],
             "Along y and z there are 65535 at most.");
    launch.grid[d] = static_cast<unsigned>(std::max<std::int64_t>(n, 1));
  }
  if (threads > most_threads)
    refuse("the blocks of " + kernel.name + " have " + std::to_string(threads) + " threads",
           "A block has 1024 at most.");
  launch.threads = static_cast<unsigned>((threads + 31) / 32 * 32);
  return launch;
}

}  // namespace

GpuNest::GpuNest(const Nest& nest) : nest_(nest), source_(emit(nest_)), loaded_(std::make_unique<Loaded>()) {}
GpuNest::~GpuNest() = default;

const GpuNest::Loaded& GpuNest::loaded(int device) const {
  const std::scoped_lock lock(loaded_->mutex);
  auto& module = loaded_->modules[device];
  if (!module) {
    const cuda::Built built = cuda::build(source_.text, cuda::architecture(cuda::device(device)), false);
    module = std::make_unique<cuda::Module>(device, built.cubin);
  }
  return *loaded_;
}

void GpuNest::run(const Sizes& sizes, std::span<const v0::Tensor> arrays, void* stream) const {
  const int device = arrays.empty() ? 0 : arrays[0].device_index;
  const cuda::Module* module = loaded(device).modules.at(device).get();
  const cuda::CurrentDevice current(device);
  const cuda::Driver& driver = cuda::driver();
  const int multiprocessors = cuda::device(device).multiprocessors;

  std::vector<Launch> launches;
  for (const KernelSource& kernel : source_.kernels) launches.push_back(launch_of(kernel, sizes, multiprocessors));
  std::vector<std::int64_t> parameters, places;
  std::int64_t bytes = 0;
  const auto take = [&](std::int64_t count) {
    places.push_back(bytes);
    bytes += aligned(std::max<std::int64_t>(count, 1));
  };
  for (const BufferPtr& buffer : source_.globals) {
    std::int64_t elements = 1;
    for (const Expr& extent : buffer->shape) elements *= std::max<std::int64_t>(evaluate(extent, sizes), 0);
    take(elements * size_of(buffer->type));
  }
  for (std::size_t k = 0; k < launches.size(); ++k) {
    if (!source_.kernels[k].joins_blocks) continue;
    take(launches[k].blocks() * launches[k].threads * join_bytes);
    take(launches[k].blocks() * 4);
  }
  cuda::Workspace workspace(device, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 256)), stream);
  int capturing = 0;
  const auto cu_stream = static_cast<cuda::CuStream>(stream);
  cuda::check(driver.StreamIsCapturing(cu_stream, &capturing), "asking a stream whether it is captured");
  workspace.runs_on(cu_stream, capturing);
  const auto address = [&](std::size_t i) { return static_cast<std::int64_t>(workspace.pointer()) + places[i]; };

  for (const v0::Tensor& array : arrays) parameters.push_back(reinterpret_cast<std::int64_t>(array.data));
  for (std::size_t i = 0; i < source_.globals.size(); ++i) parameters.push_back(address(i));
  for (const v0::Tensor& array : arrays)
    for (int d = 0; d < array.rank; ++d) parameters.push_back(array.strides[static_cast<std::size_t>(d)]);
  for (const AxisPtr& size : source_.sizes) parameters.push_back(sizes.at(size.get()));
  std::size_t next = source_.globals.size();
  for (std::size_t k = 0; k < launches.size(); ++k) {
    if (!source_.kernels[k].joins_blocks) continue;
    parameters.push_back(address(next++));
    parameters.push_back(address(next++));
    cuda::check(driver.MemsetD8Async(static_cast<cuda::CuPointer>(parameters.back()), 0,
                                     static_cast<std::size_t>(launches[k].blocks() * 4), cu_stream),
                "clearing counters");
  }
  // Each kernel but the first may come before the one before it ends: follow_previous_launch() waits.
  cuda::LaunchAttribute attribute{.id = cuda::LaunchAttribute::programmatic_serialization};
  attribute.value[0] = 1;
  cuda::LaunchConfig config{.stream = cu_stream, .attributes = &attribute};
  bool follows = false;
  for (std::size_t k = 0; k < launches.size(); ++k) {
    const Launch& launch = launches[k];
    if (launch.empty) continue;
    void* arguments[] = {parameters.data()};
    std::copy_n(launch.grid, 3, config.grid);
    config.block[0] = launch.threads;
    config.attribute_count = follows && cuda::device(device).is_hopper() ? 1 : 0;
    cuda::check(driver.LaunchKernelEx(&config, module->function(source_.kernels[k].name.c_str()), arguments, nullptr),
                "launching a kernel");
    follows = true;
  }
}

void GpuNest::run_copies(const Sizes& sizes, std::span<const v0::Tensor> arrays, int device) const {
  const cuda::CurrentDevice current(device);
  const cuda::Driver& driver = cuda::driver();
  struct Copy {
    cuda::Buffer buffer;
    char* first = nullptr;
    std::size_t bytes = 0;
  };
  std::vector<Copy> copies;
  std::vector<v0::Tensor> there(arrays.begin(), arrays.end());
  for (v0::Tensor& array : there) {
    std::int64_t low = 0, high = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(array.rank); ++d)
      (array.strides[d] < 0 ? low : high) += array.strides[d] * std::max<std::int64_t>(array.shape[d] - 1, 0);
    const std::int64_t size = size_of(array.dtype);
    Copy copy;
    copy.first = static_cast<char*>(array.data) + low * size;
    copy.bytes = array.elements() == 0 ? 0 : static_cast<std::size_t>((high - low + 1) * size);
    copy.buffer = cuda::Buffer(device, std::max<std::size_t>(copy.bytes, 1));
    if (copy.bytes)
      cuda::check(driver.MemcpyHtoD(copy.buffer.pointer(), copy.first, copy.bytes), "copying to the device");
    array.data = reinterpret_cast<void*>(copy.buffer.pointer() - static_cast<std::uint64_t>(low * size));
    array.device = Device::cuda;
    array.device_index = device;
    copies.push_back(std::move(copy));
  }
  run(sizes, there, nullptr);
  for (std::size_t i = 0; i < copies.size(); ++i)
    if (copies[i].bytes && !nest_.tensors[i].op().node()->is_placeholder())
      cuda::check(driver.MemcpyDtoH(copies[i].first, copies[i].buffer.pointer(), copies[i].bytes),
                  "copying from the device");
}

}  // namespace postlude::inline v0::te
