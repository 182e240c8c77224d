// A graph as text in the epilogue language.
#pragma once

#include "graph/ir/ir.h"

#include <string>
#include <vector>

namespace postlude::inline v0 {

// Parses back to the same graph (equal.h says what that means). Values used once and short are
// written in place, the others get a line and a name: the user's, or v0, v1, ...
[[nodiscard]] std::string print(const GraphData& graph);

// A function as its def; how an epilogue that uses it begins.
[[nodiscard]] std::string print(const Function& function);

// A function's derivatives, an expression each.
[[nodiscard]] std::vector<std::string> print_derivatives(const Function& function);

// A literal, exactly: the shortest decimals that read back to the same number, inf and nan.
[[nodiscard]] std::string print(const Literal& literal);

}  // namespace postlude::inline v0
