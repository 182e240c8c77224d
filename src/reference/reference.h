// The reference is the definition of a graph, computed in float64 from the graph itself (never from
// a Program: decision 0002), with bounds on what a correct backend may answer. It is plain and
// slow, but for the product, which is blocked so that 4096 x 4096 x 4096 takes seconds.
// elementwise.h, reduce.h and product.h hold the definitions; cell.h says what a bound is.
//
// Every value is an interval around its float64 result, and so is every output after its conversion
// (rounded ends: half a unit in the last place of the output's dtype is in it). An output element
// is right if it lies in the interval; where the interval is a point it must be that number to the
// bit (+0 and -0 differ, all NaN are alike). Calls of functions follow their bodies, a native
// function its own `reference`, `ulps` and `absolute_error`.
#pragma once

#include "graph/ir/ir.h"
#include "plan/backend.h"
#include "reference/cell.h"

#include <postlude/plan.h>
#include <postlude/problem.h>

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace postlude::inline v0::reference {

struct Options {
  ErrorModel accumulator;
};

// One output: elements [b][m][n], row-major, 1 along an axis that it lacks, of compute_type(dtype)
// and values of dtype.
struct Output {
  std::string name;
  DType dtype = DType::f32;
  std::array<std::int64_t, 3> extents{1, 1, 1};
  std::vector<Cell> cells;
  // Of an argmax or argmin: by element, the indices that are right, where there are several.
  std::unordered_map<std::int64_t, std::vector<std::int64_t>> candidates;

  [[nodiscard]] double value(std::int64_t element) const;  // the expected one
  // How far a value may be from the expected one towards it: infinite for what may be anything.
  [[nodiscard]] double bound(std::int64_t element, bool above) const;
};
using Evaluation = std::vector<Output>;  // in the graph's order

// `bindings.inputs` are the main loop's; `bindings.buffers` are the operands and then the outputs, both in the graph's
// order; of the outputs only the dtype is read. Problems of zero size and k == 0 are fine. Throws Error 02xx for a
// graph that means nothing, and `indivisible`.
[[nodiscard]] Evaluation evaluate(const GraphData& graph, const Problem& problem, const Bindings& bindings,
                                  const Options& options = {});

// Compares outputs in memory with what they should be.
[[nodiscard]] std::vector<Comparison> compare(const Evaluation& evaluation, const GraphData& graph,
                                              const Bindings& bindings);

// Both. An operand that an output was written over must be bound as it was before.
[[nodiscard]] std::vector<Comparison> compare(const GraphData& graph, const Problem& problem, const Bindings& bindings,
                                              const Options& options = {});

}  // namespace postlude::inline v0::reference
