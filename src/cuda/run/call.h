// A Program bound to memory: launches whose arguments are ready, and the workspace they share.
#pragma once

#include "cuda/decide/decision.h"
#include "cuda/run/driver.h"
#include "cuda/run/workspace.h"
#include "plan/backend.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

struct Loaded {
  Module module;
  std::mutex mutex;
  std::map<std::string, CuFunction> functions;
  CuFunction function(const std::string& name, int shared) {
    const std::scoped_lock lock(mutex);
    auto& entry = functions[name + " " + std::to_string(shared)];
    if (!entry) entry = module.function(name.c_str(), shared);
    return entry;
  }
};

struct Launch {
  CuFunction function = nullptr;
  unsigned grid[3] = {1, 1, 1};
  unsigned threads = 256;
  unsigned shared = 0;
  bool cooperative = false;  // all blocks resident at once
  // The arguments: a parameter block, then integers.
  std::vector<std::uint64_t> block;
  std::vector<std::int32_t> integers;
  std::vector<void*> arguments;
};

class CudaCall final : public BoundCall {
 public:
  // `cleared`: the parts that must be zero before the first run; each run leaves them so.
  CudaCall(int device, std::vector<std::shared_ptr<Loaded>> modules, Workspace workspace, std::vector<Part> cleared,
           std::vector<Launch> launches, std::string text);
  void run(void* stream) override;
  std::int64_t workspace_bytes() const override { return static_cast<std::int64_t>(workspace_.bytes()); }
  std::string describe() const override { return text_; }

 private:
  void prepare(CuStream stream);

  CuContext context_;
  bool follows_;
  std::vector<std::shared_ptr<Loaded>> modules_;
  Workspace workspace_;
  std::vector<Part> to_clear_;
  std::vector<Launch> launches_;
  std::string text_;
};

}  // namespace postlude::inline v0::cuda
