// lower(): a graph becomes a Program.
#pragma once

#include "loop/main_loop.h"
#include "lower/in_place.h"
#include "lower/program.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace postlude::inline v0::lower {

struct Options {
  // The cut never re-reads such an operand after its output has been written. bind() finds them and
  // lowers again (decision 0009).
  InPlace in_place;
  // Where one phase is left behind the accumulator's, and walks over the halves of groups of so many
  // columns (0: of all), for which this is true, the accumulator's phase walks so too: values of an
  // element can then stay where they are. Null: never.
  bool (*halves)(std::int64_t group) = nullptr;
  // Whether another pass over a row costs more than a state of several numbers: behind a product on a GPU, whose tiles
  // then meet, or whose accumulator goes through memory.
  bool joint = false;
  // Dtypes of operands and outputs that the graph left open, by name; else the main loop's defaults.
  std::vector<std::pair<std::string, DType>> dtypes;
  // Called after each pass with its name and the graph or Program it left, as text ("" where
  // nothing changed).
  std::function<void(std::string_view pass, const std::string& text)> watch;
  bool verify_each = false;  // run the verifier after each pass (tests do)
};

[[nodiscard]] Program lower(const GraphData& graph, const Facts& facts, const Options& options = {});

}  // namespace postlude::inline v0::lower
