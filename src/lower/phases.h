// phases: each reduction and each output gets the phase that computes it.
//
// A reduction or an output is a root. It goes into the first phase of its domain and width that
// comes after everything it needs, or into a new one at the end. Reductions that do not need the
// accumulator come first, then the phase behind the main loop, then the others in the order of the
// graph, then the outputs, those with the latest needs first, so that an output joins a pass that
// must be made anyway.
#pragma once

#include "lower/lower.h"
#include "lower/pieces.h"

#include <optional>
#include <vector>

namespace postlude::inline v0::lower {

struct Root {
  enum class Kind : std::uint8_t { reduction, output, crossing } kind = Kind::output;
  NodeId item = -1;          // the reduction, or the value that is stored
  std::int32_t output = -1;  // index in Work::outputs
};

struct PlannedPhase {
  Axes domain;           // of {m, n}
  bool batched = false;  // whether something in it varies over b; what does not never shares a phase with it
  Extent rows;
  std::optional<Walk> walk;  // where the domain has n
  std::vector<Root> roots;
};

struct Phases {
  std::vector<PlannedPhase> phases;
  std::int32_t accumulator = -1;       // the phase behind the main loop; -1 if nothing uses the accumulator
  std::vector<Columns> columns;        // of every item
  std::vector<std::int32_t> after;     // of every item: the first phase in which it can be computed (or loaded)
  std::vector<std::int32_t> stored;    // of every item: the phase that stores it in a crossing buffer, or -1
  std::vector<char> must_read;         // of every item: stored because no map can express it below its users
  std::vector<char> uses_accumulator;  // without passing through a reduction

  // Whether a phase reads an item from the buffer in which an earlier one had to store it.
  [[nodiscard]] bool in_memory(NodeId item, std::int32_t phase) const {
    return must_read[item] && stored[item] < phase;
  }

  // Whether an item can be computed and stored in a phase, joining its walk.
  [[nodiscard]] bool can_store(NodeId item, const std::vector<Item>& items, std::int32_t phase) const;
  void store(NodeId item, std::int32_t phase);
  // By which maps a root's values (all of one width) are seen in a phase.
  [[nodiscard]] std::vector<ColumnMap> maps(const Root& root, const std::vector<Item>& items, std::int32_t phase) const;
};

[[nodiscard]] Phases assign_phases(const Work& work, const Options& options);

// The operand that an output is written in place of, by name, or null.
[[nodiscard]] const std::string* in_place_of(const Options& options, const std::string& output);

}  // namespace postlude::inline v0::lower
