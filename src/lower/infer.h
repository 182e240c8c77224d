// infer: the graph meets its main loop.
//
// Afterwards every item has a type, its arguments have the types that its op takes (conversions are
// casts, literals are constants of the type they yield to), and outputs have dtypes. chunk, concat
// and repeat of one piece are gone.
#pragma once

#include "graph/ir/typing.h"
#include "lower/lower.h"
#include "lower/work.h"

namespace postlude::inline v0::lower {

// `types` has the dtype of every operand.
struct Inferred {
  Work work;
  Inference inference;
  std::vector<DType> operand_types;
  std::int32_t sizes = 0;  // Program::sizes; as items they are operands behind those of the graph
};

[[nodiscard]] Inferred infer(const GraphData& graph, const Facts& facts, const Options& options);

// The body of a function on parameters of these types: items of Op::parameter stand for them. `typing` keeps the types
// of the functions that it calls for the next.
[[nodiscard]] Work infer_body(const Lambda& body, const std::vector<DType>& parameters, const std::vector<Axes>& vary,
                              NodeId origin, Typing& typing);

// A literal as a constant of `type`.
[[nodiscard]] Literal converted(const Literal& literal, DType type);

}  // namespace postlude::inline v0::lower
