// cut: the values that cross from one phase over the tiles to the next.
//
// Only the phase behind the main loop sees the accumulator. For every later tile phase a minimum
// cut by bytes between the accumulator and what the phase computes decides which values it reads
// from memory. A value costs the bytes of the smallest dtype that holds it exactly (cast(x, bf16)
// and its relu: 2); what only needs operands costs nothing, for it is computed again; a value that
// is in memory already (an earlier cut, an output whose dtype holds it exactly) costs nothing
// either. Among equal cuts the latest wins: it recomputes least. An output in place of an operand
// is never read, and the operand, once overwritten, is a source like the accumulator.
#pragma once

#include "lower/phases.h"

#include <unordered_map>
#include <vector>

namespace postlude::inline v0::lower {

// Where a phase reads an item instead of computing it.
struct Reading {
  bool from_output = false;
  std::int32_t output = -1;  // index in Work::outputs; else the item has a crossing buffer
};

struct Cut {
  std::vector<std::unordered_map<NodeId, Reading>> reads;  // of every phase
  std::vector<DType> dtypes;                               // of every item: the smallest that holds it exactly
};

// Adds the stores of crossing values to `phases`. `operand_types`: one an operand. `source`: the
// input that the accumulator is, which every phase may read unless an output overwrites it.
[[nodiscard]] Cut cut(const Work& work, Phases& phases, const std::vector<DType>& operand_types,
                      const std::optional<Facts::Source>& source, const Options& options);

}  // namespace postlude::inline v0::lower
