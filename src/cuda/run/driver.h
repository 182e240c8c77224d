// The CUDA driver, opened at run time. The types and numbers that Postlude needs are declared here,
// so that no toolkit header is included anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace postlude::inline v0::cuda {

using CuResult = int;
using CuDevice = int;
using CuContext = struct CuContextOpaque*;
using CuModule = struct CuModuleOpaque*;
using CuFunction = struct CuFunctionOpaque*;
using CuStream = struct CuStreamOpaque*;
using CuEvent = struct CuEventOpaque*;
using CuPointer = std::uint64_t;

// A tensor map, which the copy engine reads: opaque, 64-byte aligned.
struct alignas(64) TensorMap {
  std::uint64_t word[16];
};

// The numbers of the driver's interface.
enum class MapType : int { u8 = 0, u16 = 1, u32 = 2, s32 = 3, u64 = 4, s64 = 5, f16 = 6, f32 = 7, bf16 = 9 };
enum class MapSwizzle : int { none = 0, bytes32 = 1, bytes64 = 2, bytes128 = 3 };

// A launch and its attributes, as the driver's headers lay them out.
struct LaunchAttribute {
  enum Id : int { cooperative = 2, programmatic_serialization = 6 };
  int id = 0, padding = 0;
  std::int64_t value[8] = {};
};
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared = 0;
  CuStream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

// Entry points, named as in the driver without their "cu".
struct Driver {
  CuResult (*Init)(unsigned);
  CuResult (*DriverGetVersion)(int*);
  CuResult (*GetErrorName)(CuResult, const char**);
  CuResult (*GetErrorString)(CuResult, const char**);
  CuResult (*DeviceGetCount)(int*);
  CuResult (*DeviceGet)(CuDevice*, int);
  CuResult (*DeviceGetName)(char*, int, CuDevice);
  CuResult (*DeviceGetAttribute)(int*, int, CuDevice);
  CuResult (*DevicePrimaryCtxRetain)(CuContext*, CuDevice);
  CuResult (*CtxGetCurrent)(CuContext*);
  CuResult (*CtxSetCurrent)(CuContext);
  CuResult (*CtxSynchronize)();
  CuResult (*ModuleLoadData)(CuModule*, const void*);
  CuResult (*ModuleUnload)(CuModule);
  CuResult (*ModuleGetFunction)(CuFunction*, CuModule, const char*);
  CuResult (*FuncSetAttribute)(CuFunction, int, int);
  CuResult (*LaunchKernel)(CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CuStream,
                           void**, void**);
  CuResult (*LaunchKernelEx)(const LaunchConfig*, CuFunction, void**, void**);
  CuResult (*MemAlloc)(CuPointer*, std::size_t);
  CuResult (*MemFree)(CuPointer);
  CuResult (*MemcpyHtoD)(CuPointer, const void*, std::size_t);
  CuResult (*MemcpyDtoH)(void*, CuPointer, std::size_t);
  CuResult (*MemsetD8)(CuPointer, unsigned char, std::size_t);
  CuResult (*MemsetD8Async)(CuPointer, unsigned char, std::size_t, CuStream);
  CuResult (*EventCreate)(CuEvent*, unsigned);
  CuResult (*EventDestroy)(CuEvent);
  CuResult (*EventRecord)(CuEvent, CuStream);
  CuResult (*EventSynchronize)(CuEvent);
  CuResult (*EventElapsedTime)(float*, CuEvent, CuEvent);
  CuResult (*StreamCreate)(CuStream*, unsigned);
  CuResult (*StreamDestroy)(CuStream);
  CuResult (*StreamSynchronize)(CuStream);
  CuResult (*StreamIsCapturing)(CuStream, int*);  // 0: it is not
  CuResult (*StreamGetId)(CuStream, std::uint64_t*);
  CuResult (*ThreadExchangeStreamCaptureMode)(int*);
  CuResult (*TensorMapEncodeTiled)(TensorMap*, int type, unsigned rank, void* base, const std::uint64_t* sizes,
                                   const std::uint64_t* strides, const unsigned* box, const unsigned* element_strides,
                                   int interleave, int swizzle, int l2_promotion, int out_of_bounds);
  CuResult (*TensorMapEncodeIm2col)(TensorMap*, int type, unsigned rank, void* base, const std::uint64_t* sizes,
                                    const std::uint64_t* strides, const int* lower, const int* upper, unsigned channels,
                                    unsigned pixels, const unsigned* element_strides, int interleave, int swizzle,
                                    int l2_promotion, int out_of_bounds);
};

// The opened driver, initialised. Throws no_device (nothing found, or no GPU), driver_too_old, or
// forked when the process was forked after the first call.
[[nodiscard]] const Driver& driver();
[[nodiscard]] bool forked();  // whether driver() would throw that: a child may give nothing back

// Throws the typed form of a driver's result other than 0: out_of_memory or device_failed. `what`
// names the call.
void check(CuResult result, const char* what);

struct DeviceInfo {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int shared_bytes = 0;  // a block may ask for, opt-in
  [[nodiscard]] bool is_hopper() const { return major == 9 && minor == 0; }
};

// Device `index`, with its primary context retained for the process. Cached; throws like driver().
[[nodiscard]] const DeviceInfo& device(int index);
[[nodiscard]] CuContext context(int index);

// Makes the device's primary context current in this thread for the scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index) : CurrentDevice(context(index)) {}
  explicit CurrentDevice(CuContext context);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  CuContext previous_ = nullptr;
  bool changed_ = false;
};

// While a stream is captured, CUDA's usual mode forbids every thread to allocate, free and load.
// None of these harms a capture, so this thread may do them within the scope.
class DuringCaptures {
 public:
  DuringCaptures() { driver().ThreadExchangeStreamCaptureMode(&mode_); }
  ~DuringCaptures() { driver().ThreadExchangeStreamCaptureMode(&mode_); }
  DuringCaptures(const DuringCaptures&) = delete;
  DuringCaptures& operator=(const DuringCaptures&) = delete;

 private:
  int mode_ = 2;  // relaxed, then what it was before
};

// Device memory owned by its holder.
class Buffer {
 public:
  Buffer() = default;
  Buffer(int device, std::size_t bytes);  // throws out_of_memory, naming the bytes
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  [[nodiscard]] CuPointer pointer() const { return pointer_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  int device_ = 0;
  CuPointer pointer_ = 0;
  std::size_t bytes_ = 0;
};

// A loaded cubin.
class Module {
 public:
  Module() = default;
  Module(int device, const std::string& cubin);
  ~Module();
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  // The kernel `name`, with leave to use `shared_bytes` of dynamic shared memory.
  [[nodiscard]] CuFunction function(const char* name, int shared_bytes = 0) const;

 private:
  int device_ = 0;
  CuModule module_ = nullptr;
};

// One line for `postlude doctor`: the driver that was found, or why there is none.
[[nodiscard]] std::string describe_driver();

}  // namespace postlude::inline v0::cuda
