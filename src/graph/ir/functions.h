// Functions known by name, and the functions a graph uses.
#pragma once

#include "graph/ir/ir.h"

#include <memory>
#include <unordered_set>
#include <vector>

namespace postlude::inline v0 {

// Every function that these nodes call, directly or through others, once each, callees first. With
// `derivatives`, also those that only the derivatives of functions with a text call.
[[nodiscard]] std::vector<std::shared_ptr<const Function>> functions_used(const std::vector<Node>& nodes,
                                                                          bool derivatives = false);

// The functions among them that round stochastically, by the coordinates of their element, or call
// one that does.
[[nodiscard]] std::unordered_set<const Function*> stochastic_functions(const std::vector<Node>& nodes);

// Whether a body rounds stochastically, itself or by calling one of `stochastic`.
[[nodiscard]] bool rounds_stochastically(const std::vector<Node>& body,
                                         const std::unordered_set<const Function*>& stochastic);

// A function's signature as it is shown: "leaky_relu(x, slope=0.01)".
[[nodiscard]] std::string signature(const Function& function);

// The text of epilogues/prelude.py, embedded by CMake.
extern const char* const prelude_text;

}  // namespace postlude::inline v0
