// The equality of graphs that print -> parse must preserve.
#pragma once

#include "graph/ir/ir.h"

namespace postlude::inline v0 {

// Two graphs are the same if their names, operands and outputs are, in order, and so are their
// values: equal operations on equal values are one value, in any order and however often. Values
// that nothing uses count; unused leaves, places, names of values and docstrings do not.
[[nodiscard]] bool same(const GraphData& a, const GraphData& b);
[[nodiscard]] bool same(const Function& a, const Function& b);

// A number for each node, the same for equal values.
[[nodiscard]] std::vector<int> number_values(const GraphData& graph);

}  // namespace postlude::inline v0
