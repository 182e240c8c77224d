// The CUDA backend's entries; see plan/backend.h.
#pragma once

#include "plan/backend.h"

#include <postlude/error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

// Why this machine cannot run a plan now, if it cannot: the driver, a GPU or NVRTC is missing, the driver too old, the
// process forked.
[[nodiscard]] std::optional<Error> unusable();

[[nodiscard]] std::vector<std::string> refusals(const Problem& problem, const lower::Program& program,
                                                const Target& target);
[[nodiscard]] std::unique_ptr<Executable> compile(const Problem& problem, std::shared_ptr<const lower::Program> program,
                                                  const Target& target);

// lower::Options::halves: each half of such a group is whole subtiles, or is gathered.
[[nodiscard]] bool halves(std::int64_t group);

}  // namespace postlude::inline v0::cuda
