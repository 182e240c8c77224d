// Functions known by name, and the functions a graph uses.
#pragma once

#include "graph/ir.h"

#include <memory>
#include <vector>

namespace postlude::inline v0 {

// Every function that these nodes call, directly or through others, each once, a callee before its callers.
[[nodiscard]] std::vector<std::shared_ptr<const Function>> functions_used(const std::vector<Node>& nodes);

// Whether these nodes, or a function that they call, round stochastically: by the coordinates of their element.
[[nodiscard]] bool rounds_stochastically(const std::vector<Node>& nodes);

// "leaky_relu(x, slope=0.01)"
[[nodiscard]] std::string signature(const Function& function);

// The text of epilogues/prelude.py, embedded by CMake.
extern const char* const prelude_text;

}  // namespace postlude::inline v0
