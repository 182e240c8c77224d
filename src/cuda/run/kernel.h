// Source text becomes a loaded module, through the cache on disk.
#pragma once

#include "cuda/run/driver.h"
#include "cuda/run/nvrtc.h"

#include <memory>
#include <optional>
#include <string>

namespace postlude::inline v0::cuda {

// The architecture to compile for: "sm_90a" on Hopper, "sm_80", ... elsewhere.
[[nodiscard]] std::string architecture(const DeviceInfo& device);

// The cubin of a source, compiled or found. Where ptxas's report speaks against it (see
// rejection()), `rejected` says why; the disk remembers that too.
struct Built {
  std::string cubin;
  std::string rejected;
};
[[nodiscard]] Built build(const std::string& source, const std::string& arch, bool may_reject);
// The same where it is on disk, without compiling.
[[nodiscard]] std::optional<Built> find_built(const std::string& source, const std::string& arch, bool may_reject);

}  // namespace postlude::inline v0::cuda
