// A CUDA driver for tests, with one H200 whose memory is the host's. Its kernels do nothing, or
// what fake_cuda_launch does for them.
//   FAKE_CUDA_VERSION             the driver's version (13000)
//   FAKE_CUDA_MULTIPROCESSORS     how many the GPU has (132)
//   FAKE_CUDA_FAIL=NAME:N:RESULT  the N-th call of NAME fails (N from 1; 0: every one)
//   fake_cuda_held                buffers and modules that were made and not destroyed
//   fake_cuda_calls               calls of a function that may fail
//   fake_cuda_capturing           every stream is captured
#include "tensor_map.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace {

std::mutex mutex;
std::string failing_name;
int failing_call = 0, failing_result = 0;
std::map<std::string, int> calls;
bool read_environment = false;

// Whether this call of `name` is the one that fails.
int result_of(const char* name) {
  const std::scoped_lock lock(mutex);
  if (!read_environment) {
    read_environment = true;
    if (const char* text = std::getenv("FAKE_CUDA_FAIL")) {
      const std::string all = text;
      const std::size_t first = all.find(':'), second = all.find(':', first + 1);
      failing_name = all.substr(0, first);
      failing_call = std::atoi(all.c_str() + first + 1);
      failing_result = std::atoi(all.c_str() + second + 1);
    }
  }
  const int call = ++calls[name];
  return failing_name == name && (failing_call == 0 || call == failing_call) ? failing_result : 0;
}

struct Function {
  const std::string* source;  // of its module: the fake compiler's cubins are that
  std::string name;
};
struct Module {
  std::string source;
  std::list<Function> functions;
};

int context = 0;
thread_local void* current = nullptr;

}  // namespace

#define FAKE extern "C" [[gnu::visibility("default")]] int
#define MAY_FAIL \
  if (const int result = result_of(__func__)) return result

extern "C" [[gnu::visibility("default")]] long fake_cuda_held;
long fake_cuda_held = 0;
// `grid`: three extents, and the bytes of shared memory that are asked for.
using Launch = int (*)(const char* source, const char* name, const unsigned* grid, unsigned threads, void** arguments);
extern "C" [[gnu::visibility("default")]] Launch fake_cuda_launch;
Launch fake_cuda_launch = nullptr;
extern "C" [[gnu::visibility("default")]] int fake_cuda_capturing;
int fake_cuda_capturing = 0;
FAKE fake_cuda_calls(const char* name) {
  const std::scoped_lock lock(mutex);
  return calls[name];
}

FAKE cuInit(unsigned) {
  MAY_FAIL;
  return 0;
}
FAKE cuDriverGetVersion(int* version) {
  const char* text = std::getenv("FAKE_CUDA_VERSION");
  *version = text ? std::atoi(text) : 13000;
  return 0;
}
FAKE cuGetErrorName(int result, const char** name) {
  *name = result == 700   ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : result == 200 ? "CUDA_ERROR_INVALID_IMAGE"
                          : "CUDA_ERROR_UNKNOWN";
  return 0;
}
FAKE cuGetErrorString(int, const char** text) {
  *text = "a failure that a test asked for";
  return 0;
}
FAKE cuDeviceGetCount(int* count) {
  MAY_FAIL;
  *count = 1;
  return 0;
}
FAKE cuDeviceGet(int* device, int) {
  *device = 0;
  return 0;
}
FAKE cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "a fake H200", static_cast<std::size_t>(size));
  return 0;
}
FAKE cuDeviceGetAttribute(int* value, int attribute, int) {
  const char* text = std::getenv("FAKE_CUDA_MULTIPROCESSORS");
  *value = attribute == 75   ? 9
           : attribute == 76 ? 0
           : attribute == 16 ? (text ? std::atoi(text) : 132)
           : attribute == 97 ? 232448
                             : 0;
  return 0;
}
FAKE cuDevicePrimaryCtxRetain(void** made, int) {
  MAY_FAIL;
  *made = &context;
  return 0;
}
FAKE cuCtxGetCurrent(void** now) {
  *now = current;
  return 0;
}
FAKE cuCtxSetCurrent(void* now) {
  current = now;
  return 0;
}
FAKE cuCtxSynchronize() {
  MAY_FAIL;
  return 0;
}
FAKE cuModuleLoadData(void** made, const void* image) {
  MAY_FAIL;
  *made = new Module{static_cast<const char*>(image), {}};
  __atomic_fetch_add(&fake_cuda_held, 1, __ATOMIC_SEQ_CST);
  return 0;
}
FAKE cuModuleUnload(void* module) {
  delete static_cast<Module*>(module);
  __atomic_fetch_sub(&fake_cuda_held, 1, __ATOMIC_SEQ_CST);
  return 0;
}
FAKE cuModuleGetFunction(void** made, void* module, const char* name) {
  MAY_FAIL;
  const std::scoped_lock lock(mutex);
  auto& of = *static_cast<Module*>(module);
  of.functions.push_back({&of.source, name});
  *made = &of.functions.back();
  return 0;
}
FAKE cuFuncSetAttribute(void*, int, int) {
  MAY_FAIL;
  return 0;
}
static int launch(void* function, const unsigned* grid, unsigned threads, void** arguments) {
  const auto& f = *static_cast<Function*>(function);
  return fake_cuda_launch ? fake_cuda_launch(f.source->c_str(), f.name.c_str(), grid, threads, arguments) : 0;
}
FAKE cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
                    unsigned shared, void*, void** arguments, void**) {
  MAY_FAIL;
  const unsigned grid[] = {x, y, z, shared};
  return launch(function, grid, threads, arguments);
}
FAKE cuLaunchKernelEx(const void* config, void* function, void** arguments, void**) {
  MAY_FAIL;
  const auto* sizes = static_cast<const unsigned*>(config);  // begins with the grid, the block, bytes of shared memory
  const unsigned grid[] = {sizes[0], sizes[1], sizes[2], sizes[6]};
  return launch(function, grid, sizes[3], arguments);
}
FAKE cuMemAlloc_v2(std::uint64_t* made, std::size_t bytes) {
  MAY_FAIL;
  *made = reinterpret_cast<std::uint64_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  __atomic_fetch_add(&fake_cuda_held, 1, __ATOMIC_SEQ_CST);
  return 0;
}
FAKE cuMemFree_v2(std::uint64_t p) {
  MAY_FAIL;
  std::free(reinterpret_cast<void*>(p));
  __atomic_fetch_sub(&fake_cuda_held, 1, __ATOMIC_SEQ_CST);
  return 0;
}
FAKE cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
FAKE cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return 0;
}
FAKE cuMemsetD8_v2(std::uint64_t to, unsigned char value, std::size_t bytes) {
  MAY_FAIL;
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return 0;
}
FAKE cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t bytes, void*) {
  MAY_FAIL;
  if (!fake_cuda_capturing) std::memset(reinterpret_cast<void*>(to), value, bytes);
  return 0;
}
FAKE cuEventCreate(void**, unsigned) { return 0; }
FAKE cuEventDestroy_v2(void*) { return 0; }
FAKE cuEventRecord(void*, void*) { return 0; }
FAKE cuEventSynchronize(void*) { return 0; }
FAKE cuEventElapsedTime(float*, void*, void*) { return 0; }
FAKE cuStreamCreate(void**, unsigned) { return 0; }
FAKE cuStreamDestroy_v2(void*) { return 0; }
FAKE cuStreamSynchronize(void*) { return 0; }
FAKE cuStreamGetId(void* stream, std::uint64_t* id) {
  *id = reinterpret_cast<std::uint64_t>(stream);
  return 0;
}
FAKE cuThreadExchangeStreamCaptureMode(int* mode) {
  static thread_local int now = 0;
  std::swap(now, *mode);
  return 0;
}
FAKE cuStreamIsCapturing(void*, int* status) {
  *status = fake_cuda_capturing;
  return 0;
}
#ifndef WITHOUT_TENSOR_MAPS
FAKE cuTensorMapEncodeTiled(void* to, int type, unsigned dimensions, void* base, const std::uint64_t* sizes,
                            const std::uint64_t* strides, const unsigned* box, const unsigned* steps, int, int swizzle,
                            int, int) {
  MAY_FAIL;
  static constexpr unsigned bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};  // of CU_TENSOR_MAP_DATA_TYPE_UINT8, ...
  constexpr int invalid = 1;
  // The limits of the real one.
  if (dimensions < 1 || dimensions > 5 || reinterpret_cast<std::uint64_t>(base) % 16) return invalid;
  const unsigned line = box[0] * bytes[type];
  if (line % 16 || (swizzle && line > 16u << swizzle)) return invalid;
  FakeTensorMap map{};
  map.base = reinterpret_cast<std::uint64_t>(base);
  map.dimensions = dimensions;
  map.element_bytes = bytes[type];
  map.swizzle_bytes = swizzle == 0 ? 0 : 16u << swizzle;
  for (unsigned i = 0; i < dimensions; ++i) {
    if (sizes[i] == 0 || sizes[i] >> 32 || box[i] < 1 || box[i] > 256 || steps[i] < 1 || steps[i] > 8) return invalid;
    if (i && (strides[i - 1] % 16 || strides[i - 1] >> 40)) return invalid;
    map.sizes[i] = static_cast<unsigned>(sizes[i]);
    map.box[i] = box[i];
    if (i) map.strides[i - 1] = strides[i - 1];
  }
  std::memcpy(to, &map, sizeof map);
  return 0;
}
FAKE cuTensorMapEncodeIm2col(void* to, int type, unsigned dimensions, void* base, const std::uint64_t* sizes,
                             const std::uint64_t* strides, const int* lower, const int* upper, unsigned channels,
                             unsigned pixels, const unsigned* steps, int, int swizzle, int, int) {
  MAY_FAIL;
  static constexpr unsigned bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
  constexpr int invalid = 1;
  FakeTensorMap map{};
  map.base = reinterpret_cast<std::uint64_t>(base);
  map.dimensions = dimensions;
  map.element_bytes = bytes[type];
  map.swizzle_bytes = swizzle == 0 ? 0 : 16u << swizzle;
  map.image = 1;
  map.box[0] = channels, map.box[1] = pixels;
  // The limits of the real one.
  if (dimensions < 3 || dimensions > 5 || map.base % 16 || channels > 256 || pixels > 1024) return invalid;
  if (channels * map.element_bytes % 16 || (swizzle && channels * map.element_bytes > map.swizzle_bytes))
    return invalid;
  const int corner = dimensions == 3 ? 32768 : dimensions == 4 ? 128 : 16;
  for (unsigned i = 0; i < dimensions; ++i) {
    map.sizes[i] = static_cast<unsigned>(sizes[i]);
    if (sizes[i] == 0 || (i && (strides[i - 1] % 16 || strides[i - 1] >> 40))) return invalid;
    if (i) map.strides[i - 1] = strides[i - 1];
    if (i == 0 || i + 1 == dimensions) continue;
    const int a = lower[i - 1], b = upper[i - 1];
    if (a < -corner || a >= corner || b < -corner || b >= corner || steps[i] < 1 || steps[i] > 8) return invalid;
    if (static_cast<long>(sizes[i]) + b <= a) return invalid;
    map.lower[i - 1] = static_cast<short>(a), map.upper[i - 1] = static_cast<short>(b);
    map.step[i - 1] = static_cast<unsigned char>(steps[i]);
  }
  std::memcpy(to, &map, sizeof map);
  return 0;
}
#endif
