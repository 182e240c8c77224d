#include "cli/device_memory.h"

#include <algorithm>

namespace postlude::inline v0::cli {
namespace {

class Event {
 public:
  Event() { cuda::check(cuda::driver().EventCreate(&event_, 0), "cuEventCreate"); }
  ~Event() { (void)cuda::driver().EventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record() const { cuda::check(cuda::driver().EventRecord(event_, nullptr), "cuEventRecord"); }
  [[nodiscard]] double milliseconds_since(const Event& start) const {
    float milliseconds = 0;
    cuda::check(cuda::driver().EventSynchronize(event_), "running");
    cuda::check(cuda::driver().EventElapsedTime(&milliseconds, start.event_, event_), "cuEventElapsedTime");
    return static_cast<double>(milliseconds);
  }

 private:
  cuda::CuEvent event_ = nullptr;
};

}  // namespace

DeviceMemory::DeviceMemory(std::vector<BoundOperand>& operands, int device) : operands_(operands), device_(device) {
  const cuda::CurrentDevice current(device_);
  for (const BoundOperand& operand : operands_) {
    const std::vector<std::byte>& bytes = operand.array.bytes;
    const cuda::Buffer& buffer = buffers_.emplace_back(device_, std::max<std::size_t>(bytes.size(), 1));
    if (!bytes.empty())
      cuda::check(cuda::driver().MemcpyHtoD(buffer.pointer(), bytes.data(), bytes.size()), "copying to the device");
  }
}

std::vector<Binding> DeviceMemory::bindings() const {
  std::vector<Binding> bindings;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    Tensor tensor = operands_[i].tensor.on(Device::cuda, device_);
    tensor.data = reinterpret_cast<void*>(buffers_[i].pointer());
    bindings.push_back({operands_[i].slot.name, tensor});
  }
  return bindings;
}

void DeviceMemory::copy_outputs_back() {
  const cuda::CurrentDevice current(device_);
  cuda::check(cuda::driver().CtxSynchronize(), "running");
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    std::vector<std::byte>& bytes = operands_[i].array.bytes;
    if (!operands_[i].slot.output || bytes.empty()) continue;
    cuda::check(cuda::driver().MemcpyDtoH(bytes.data(), buffers_[i].pointer(), bytes.size()),
                "copying from the device");
  }
}

double DeviceMemory::timed(Call& call) const {
  const cuda::CurrentDevice current(device_);
  const Event start, end;
  start.record();
  call.run();
  end.record();
  return end.milliseconds_since(start);
}

}  // namespace postlude::inline v0::cli
