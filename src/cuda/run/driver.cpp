#include "cuda/run/driver.h"

#include "core/forks.h"
#include "cuda/run/opened.h"

#include <postlude/error.h>

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

namespace postlude::inline v0::cuda {
namespace {

constexpr int oldest_driver = 12000;  // the first with tensor maps and sm_90
constexpr int out_of_memory_result = 2;
constexpr int max_dynamic_shared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

struct Opened {
  Driver driver{};
  int forks = 0;  // then: what is more, is a child's
};

Opened open_driver() {
  Opened opened{.forks = core::forks()};
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    throw Error(ErrorCode::no_device, "libcuda.so.1 was not found, so there is no CUDA driver here",
                "Install the NVIDIA driver, or use the CPU target.");
  }
  auto find = [&](auto& entry, const char* symbol) {
    void* address = dlsym(library, symbol);
    if (!address) {
      int version = 0;
      if (auto get = reinterpret_cast<CuResult (*)(int*)>(dlsym(library, "cuDriverGetVersion"))) get(&version);
      throw Error(ErrorCode::driver_too_old,
                  "the CUDA driver speaks version " + std::to_string(version / 1000) + "." +
                      std::to_string(version % 1000 / 10) + " and lacks " + symbol,
                  "A driver for CUDA 12.0 or newer is needed.");
    }
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(address);
  };
  Driver& d = opened.driver;
  find(d.DriverGetVersion, "cuDriverGetVersion");
  int version = 0;
  d.DriverGetVersion(&version);
  if (version < oldest_driver) {
    throw Error(
        ErrorCode::driver_too_old,
        "the CUDA driver speaks version " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10),
        "A driver for CUDA 12.0 or newer is needed.");
  }
  find(d.Init, "cuInit");
  find(d.GetErrorName, "cuGetErrorName");
  find(d.GetErrorString, "cuGetErrorString");
  find(d.DeviceGetCount, "cuDeviceGetCount");
  find(d.DeviceGet, "cuDeviceGet");
  find(d.DeviceGetName, "cuDeviceGetName");
  find(d.DeviceGetAttribute, "cuDeviceGetAttribute");
  find(d.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  find(d.CtxGetCurrent, "cuCtxGetCurrent");
  find(d.CtxSetCurrent, "cuCtxSetCurrent");
  find(d.CtxSynchronize, "cuCtxSynchronize");
  find(d.ModuleLoadData, "cuModuleLoadData");
  find(d.ModuleUnload, "cuModuleUnload");
  find(d.ModuleGetFunction, "cuModuleGetFunction");
  find(d.FuncSetAttribute, "cuFuncSetAttribute");
  find(d.LaunchKernel, "cuLaunchKernel");
  find(d.LaunchKernelEx, "cuLaunchKernelEx");
  find(d.MemAlloc, "cuMemAlloc_v2");
  find(d.MemFree, "cuMemFree_v2");
  find(d.MemcpyHtoD, "cuMemcpyHtoD_v2");
  find(d.MemcpyDtoH, "cuMemcpyDtoH_v2");
  find(d.MemsetD8, "cuMemsetD8_v2");
  find(d.MemsetD8Async, "cuMemsetD8Async");
  find(d.EventCreate, "cuEventCreate");
  find(d.EventDestroy, "cuEventDestroy_v2");
  find(d.EventRecord, "cuEventRecord");
  find(d.EventSynchronize, "cuEventSynchronize");
  find(d.EventElapsedTime, "cuEventElapsedTime");
  find(d.StreamCreate, "cuStreamCreate");
  find(d.StreamDestroy, "cuStreamDestroy_v2");
  find(d.StreamSynchronize, "cuStreamSynchronize");
  find(d.StreamIsCapturing, "cuStreamIsCapturing");
  find(d.StreamGetId, "cuStreamGetId");
  find(d.ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode");
  find(d.TensorMapEncodeTiled, "cuTensorMapEncodeTiled");
  find(d.TensorMapEncodeIm2col, "cuTensorMapEncodeIm2col");
  if (const CuResult result = d.Init(0)) {
    const char* text = nullptr;
    d.GetErrorString(result, &text);
    throw Error(ErrorCode::no_device,
                std::string("the CUDA driver found no usable GPU: ") + (text ? text : "unknown error"),
                "Use the CPU target, or look at nvidia-smi.");
  }
  return opened;
}

const Opened& opened_driver() { return opened<open_driver>(); }

}  // namespace

bool forked() { return opened_driver().forks != core::forks(); }

const Driver& driver() {
  if (forked()) {
    throw Error(ErrorCode::forked, "CUDA was initialised in the parent of this process before the fork",
                "Start GPU workers with spawn instead of fork; the CPU target works here.");
  }
  return opened_driver().driver;
}

void check(CuResult result, const char* what) {
  if (result == 0) return;
  if (result == out_of_memory_result)
    throw Error(ErrorCode::out_of_memory, std::string("the GPU is out of memory in ") + what);
  const char *name = nullptr, *text = nullptr;
  driver().GetErrorName(result, &name);
  driver().GetErrorString(result, &text);
  throw Error(ErrorCode::device_failed, std::string(what) +
                                            " failed: " + (name ? name : "error " + std::to_string(result)) +
                                            (text ? ", " : "") + (text ? text : ""));
}

namespace {

struct Retained {
  DeviceInfo info;
  CuContext context = nullptr;
};

Retained& retained(int index) {
  static std::mutex mutex;
  static auto& devices = *new std::map<int, std::unique_ptr<Retained>>;  // for whatever is destroyed at exit
  const Driver& d = driver();
  const std::scoped_lock lock(mutex);
  auto& entry = devices[index];
  if (entry) return *entry;
  int count = 0;
  check(d.DeviceGetCount(&count), "counting GPUs");
  if (index < 0 || index >= count) {
    devices.erase(index);
    throw Error(ErrorCode::no_device,
                "there is no GPU " + std::to_string(index) + " here; " + std::to_string(count) + " were found");
  }
  auto made = std::make_unique<Retained>();
  CuDevice handle = 0;
  check(d.DeviceGet(&handle, index), "opening a GPU");
  char name[256] = {};
  check(d.DeviceGetName(name, sizeof name, handle), "naming a GPU");
  made->info.index = index;
  made->info.name = name;
  // Attribute numbers: 75 and 76 compute capability, 16 multiprocessors, 97 opt-in shared memory a
  // block.
  check(d.DeviceGetAttribute(&made->info.major, 75, handle), "reading an attribute");
  check(d.DeviceGetAttribute(&made->info.minor, 76, handle), "reading an attribute");
  check(d.DeviceGetAttribute(&made->info.multiprocessors, 16, handle), "reading an attribute");
  check(d.DeviceGetAttribute(&made->info.shared_bytes, 97, handle), "reading an attribute");
  check(d.DevicePrimaryCtxRetain(&made->context, handle), "retaining the primary context");
  entry = std::move(made);
  return *entry;
}

}  // namespace

const DeviceInfo& device(int index) { return retained(index).info; }
CuContext context(int index) { return retained(index).context; }

CurrentDevice::CurrentDevice(CuContext context) {
  const Driver& d = driver();
  check(d.CtxGetCurrent(&previous_), "asking for the current context");
  if (previous_ == context) return;
  check(d.CtxSetCurrent(context), "making a context current");
  changed_ = true;
}

CurrentDevice::~CurrentDevice() {
  if (changed_ && !forked()) driver().CtxSetCurrent(previous_);
}

namespace {

// Gives something back to a device. After a fork or at exit the driver may be unusable; the memory
// goes with the process then.
template <class Handle>
void give_back(int device, Handle handle, CuResult (*Driver::*how)(Handle)) noexcept {
  if (!handle) return;
  try {
    const CurrentDevice current(device);
    const DuringCaptures allowed;
    (driver().*how)(handle);
  } catch (const Error&) {}
}

}  // namespace

Buffer::Buffer(int device, std::size_t bytes) : device_(device), bytes_(bytes) {
  if (!bytes) return;
  const CurrentDevice current(device);
  if (driver().MemAlloc(&pointer_, bytes) == 0) return;
  pointer_ = 0;
  throw Error(ErrorCode::out_of_memory, "the GPU has no " + std::to_string(bytes) + " bytes left for a workspace",
              "Free memory and bind again.");
}

Buffer::~Buffer() { give_back(device_, pointer_, &Driver::MemFree); }

Buffer::Buffer(Buffer&& other) noexcept
    : device_(other.device_), pointer_(std::exchange(other.pointer_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(pointer_, other.pointer_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Module::Module(int device, const std::string& cubin) : device_(device) {
  const CurrentDevice current(device);
  check(driver().ModuleLoadData(&module_, cubin.data()), "loading a module");
}

Module::~Module() { give_back(device_, module_, &Driver::ModuleUnload); }

Module::Module(Module&& other) noexcept : device_(other.device_), module_(std::exchange(other.module_, nullptr)) {}

Module& Module::operator=(Module&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(module_, other.module_);
  return *this;
}

CuFunction Module::function(const char* name, int shared_bytes) const {
  const CurrentDevice current(device_);
  CuFunction function = nullptr;
  check(driver().ModuleGetFunction(&function, module_, name), "finding a kernel");
  if (shared_bytes > 48 * 1024) {
    check(driver().FuncSetAttribute(function, max_dynamic_shared, shared_bytes), "asking for shared memory");
  }
  return function;
}

std::string describe_driver() {
  try {
    const Driver& d = driver();
    int version = 0, count = 0;
    d.DriverGetVersion(&version);
    d.DeviceGetCount(&count);
    std::string text = "CUDA driver " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) +
                       ", " + std::to_string(count) + " GPU" + (count == 1 ? "" : "s");
    for (int i = 0; i < count; ++i) {
      const DeviceInfo& info = device(i);
      text += "; " + info.name + " (sm_" + std::to_string(info.major) + std::to_string(info.minor) + ")";
    }
    return text;
  } catch (const Error& error) { return error.message(); }
}

}  // namespace postlude::inline v0::cuda
