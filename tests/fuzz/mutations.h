// Deliberate bugs of lowering and code generation: what a fuzzer must catch to be worth anything.
#pragma once

#include "lower/program.h"
#include "plan/backend.h"

#include <cstdint>
#include <span>

namespace postlude::fuzz {

// Changes a Program, or what it is bound to, as a bug would. `choice` picks among the places where
// it can. False where there is none.
struct Mutation {
  const char* name;
  bool (*program)(lower::Program& program, std::uint64_t choice) = nullptr;
  bool (*bindings)(Bindings& bindings, const lower::Program& program, std::uint64_t choice) = nullptr;
};
[[nodiscard]] std::span<const Mutation> mutations();

}  // namespace postlude::fuzz
