#include "cuda/run/kernel.h"

#include "cuda/run/cache.h"

namespace postlude::inline v0::cuda {

std::string architecture(const DeviceInfo& device) {
  return device.is_hopper() ? "sm_90a" : "sm_" + std::to_string(device.major) + std::to_string(device.minor);
}

Built build(const std::string& source, const std::string& arch, bool may_reject) {
  const std::string mark = "rejected: ";  // no cubin begins so
  const std::string key = "nvrtc " + compiler_version() + "\n" + arch + (may_reject ? " judged" : "") + "\n" + source;
  std::string entry = cached(key, [&] {
    const Compiled compiled = compile(source, arch);
    const std::string reason = may_reject ? rejection(compiled) : std::string();
    return reason.empty() ? compiled.cubin : mark + reason;
  });
  if (entry.starts_with(mark)) return {{}, entry.substr(mark.size())};
  return {std::move(entry), {}};
}

}  // namespace postlude::inline v0::cuda
