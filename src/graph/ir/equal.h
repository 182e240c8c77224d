// When two graphs are the same: what print -> parse must preserve.
#pragma once

#include "graph/ir/ir.h"

namespace postlude::inline v0 {

// The same name, operands and outputs in the same order, and the same values: equal operations on equal values are one
// value, in whatever order they stand and however often. Values that nothing uses count; unused leaves do not.
// Places, names of values and docstrings do not matter.
[[nodiscard]] bool same(const GraphData& a, const GraphData& b);
[[nodiscard]] bool same(const Function& a, const Function& b);

// One number for equal values of a graph, by node.
[[nodiscard]] std::vector<int> number_values(const GraphData& graph);

}  // namespace postlude::inline v0
