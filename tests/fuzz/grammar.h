// Random epilogues: one typed grammar of graphs, and the problems and shapes that they run behind.
//
// The generator appends one value at a time to a graph, chosen from the language, and asks the
// verifier. A value that it refuses is taken back. So the grammar needs no rules of types and
// extents of its own, and cannot disagree with them.
#pragma once

#include "fuzz/case.h"
#include "fuzz/choices.h"

namespace postlude::fuzz {

struct GrammarOptions {
  int most_nodes = 64;
  std::int64_t most_elements = 4096;  // of M x N x batch
  bool streams = true;
  bool batches = true;
  bool odd_dtypes = true;  // main loops of other dtypes than f32
  int convolutions = 0;    // percent of the main loops
  int reductions = 0;      // percent of the values that are reductions, beside those that are drawn anyway
  bool tall = false;       // one stream of ten has blocks of rows enough to repeat what they call
};

[[nodiscard]] Case generate(Choices& choices, const GrammarOptions& options = {});
[[nodiscard]] Case generate(std::uint64_t seed, const GrammarOptions& options = {});

// The graph without the values and operands that no output needs.
[[nodiscard]] GraphData without_unused(const GraphData& graph);

}  // namespace postlude::fuzz
