// lower(): a graph becomes a Program.
#pragma once

#include "lower/program.h"

#include <postlude/problem.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace postlude::inline v0::lower {

struct Options {
  // Outputs that are written in place of an operand, by name: (output, operand). The cut never re-reads such an operand
  // after its output has been written. bind() finds these out and lowers again.
  std::vector<std::pair<std::string, std::string>> in_place;
  // Dtypes of operands and outputs that the graph left open, by name; else the problem's defaults.
  std::vector<std::pair<std::string, DType>> dtypes;
  // Called after each pass with its name and the graph or Program it left, as text ("" where nothing changed).
  std::function<void(std::string_view pass, const std::string& text)> watch;
  bool verify_each = false;  // run the verifier after each pass (tests do)
};

[[nodiscard]] Program lower(const GraphData& graph, const Problem& problem, const Options& options = {});

}  // namespace postlude::inline v0::lower
