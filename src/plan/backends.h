// The backends that exist. Only this folder knows them, and backends.cpp lists them.
#pragma once

#include "plan/backend.h"

#include <postlude/error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace postlude::inline v0::plan {

struct Backend {
  Device device;
  std::string_view name;  // "cpu"
  // Why this machine cannot run a plan for this backend now, if it cannot.
  std::optional<Error> (*unusable)();
  std::vector<std::string> (*refusals)(const Problem&, const lower::Program&, const Target&);
  std::unique_ptr<Executable> (*compile)(const Problem&, std::shared_ptr<const lower::Program>, const Target&);
  bool (*halves)(std::int64_t group);  // lower::Options::halves behind a product
  bool joint;                          // and lower::Options::joint
};

[[nodiscard]] const Backend& find_backend(Device device);

}  // namespace postlude::inline v0::plan
