// The type, axes and extents of every value of a graph, and the errors of a graph that means
// nothing.
#pragma once

#include "graph/ir/ir.h"

#include <optional>
#include <vector>

namespace postlude::inline v0 {

struct ValueInfo {
  std::optional<DType>
      type;              // f32, i32, i64, boolean; unset: depends on the accumulator's type, which is not known yet
  bool literal = false;  // a constant (or an expression of constants) that yields to the other side's type
  Axes axes;             // of {b, m, n}; b where the value may differ between batches
  Extent rows, columns;  // along m and n, where the axes have them
};

// A condition on the shapes of a problem that a chunk or a concat makes: `divisor` divides
// `columns` at N.
struct Divisibility {
  Extent columns;
  std::int64_t divisor = 1;
  NodeId node = -1;
};

struct Inference {
  std::vector<ValueInfo> values;        // one a node
  std::vector<Extent> operand_rows;     // one an operand: tiles and rows may be wider or narrower than the
  std::vector<Extent> operand_columns;  // accumulator, as their first use demands (z of M x 2N in SwiGLU's gradient)
  std::vector<Divisibility> divisibility;
};

// Checks the whole graph and infers. Before the graph has met a main loop `accumulator` is unset,
// and operations on the accumulator have no type. Operands without a dtype take `operand_default`
// (f32 if unset; scalars always f32). Throws Error 02xx, with the place of the node.
[[nodiscard]] Inference verify(const GraphData& graph, std::optional<DType> accumulator = {},
                               std::optional<DType> operand_default = {});

}  // namespace postlude::inline v0
