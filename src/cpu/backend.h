// The CPU backend's two entries (see plan/backend.h).
#pragma once

#include "plan/backend.h"

#include <memory>
#include <string>
#include <vector>

namespace postlude::inline v0::cpu {

[[nodiscard]] std::vector<std::string> refusals(const Problem& problem, const lower::Program& program,
                                                const Target& target);
[[nodiscard]] std::unique_ptr<Executable> compile(const Problem& problem, std::shared_ptr<const lower::Program> program,
                                                  const Target& target);

}  // namespace postlude::inline v0::cpu
