#include "cuda/run/kernel.h"

#include "cuda/run/cache.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace postlude::inline v0::cuda {

std::string architecture(const DeviceInfo& device) {
  return device.is_hopper() ? "sm_90a" : "sm_" + std::to_string(device.major) + std::to_string(device.minor);
}

namespace {

constexpr const char* rejected_mark = "rejected: ";  // no cubin begins so

std::string entry_key(const std::string& source, const std::string& arch, bool may_reject) {
  return "nvrtc " + compiler_version() + "\n" + arch + (may_reject ? " judged" : "") + "\n" + source;
}

// "rejected: " and a line that says why, before its cubin.
Built built_of(std::string entry) {
  if (!entry.starts_with(rejected_mark)) return {std::move(entry), {}};
  const std::size_t first = std::string_view(rejected_mark).size(), end = std::min(entry.find('\n'), entry.size());
  return {entry.substr(std::min(end + 1, entry.size())), entry.substr(first, end - first)};
}

}  // namespace

Built build(const std::string& source, const std::string& arch, bool may_reject) {
  return built_of(cached(entry_key(source, arch, may_reject), [&] {
    const Compiled compiled = compile(source, arch);
    const std::string reason = may_reject ? rejection(compiled) : std::string();
    return reason.empty() ? compiled.cubin : rejected_mark + reason + '\n' + compiled.cubin;
  }));
}

std::optional<Built> find_built(const std::string& source, const std::string& arch, bool may_reject) {
  std::optional<std::string> entry = find_cached(entry_key(source, arch, may_reject));
  if (!entry) return {};
  return built_of(*std::move(entry));
}

}  // namespace postlude::inline v0::cuda
