#include "lower/in_place.h"

#include <algorithm>

namespace postlude::inline v0::lower {
namespace {

constexpr BufferId accumulator_source = -2;  // X

BufferId buffer_named(const Program& program, const std::string& name, BufferKind kind) {
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    if (program.buffers[i].kind == kind && program.buffers[i].name == name) return static_cast<BufferId>(i);
  }
  return accumulator_source;
}

bool stores(const Phase& phase, BufferId output) {
  return std::any_of(phase.stores.begin(), phase.stores.end(),
                     [&](const Store& s) { return s.access.buffer == output; });
}

bool loads(const Instruction& instruction, BufferId operand) {
  if (operand == accumulator_source) return instruction.op == Op::acc;
  return instruction.op == Op::operand && instruction.access.buffer == operand;
}

// Whether the load reads, for each (b, i, j) of the phase, nothing but what the phase stores at the same (b, i, j).
bool loads_what_is_stored(const Program& program, const Phase& phase, const Instruction& load, BufferId output,
                          std::int64_t batch) {
  const Axes axes = program.buffers[output].axes;
  if ((axes & tile_axes) != phase.domain || (batch > 1 && !axes.has(Axis::b))) return false;
  return std::any_of(phase.stores.begin(), phase.stores.end(), [&](const Store& store) {
    return store.access.buffer == output && store.access.columns == load.access.columns &&
           store.access.divide_rows == 1 && load.access.divide_rows == 1;
  });
}

}  // namespace

std::string in_place_conflict(const Program& program, const InPlace& in_place, std::int64_t batch) {
  for (const auto& [output_name, operand_name] : in_place) {
    const BufferId output = buffer_named(program, output_name, BufferKind::output);
    const BufferId operand = buffer_named(program, operand_name, BufferKind::operand);
    bool stored = false;
    for (const Phase& phase : program.phases) {
      const bool stored_here = stores(phase, output);
      for (const Instruction& instruction : phase.code) {
        if (!loads(instruction, operand)) continue;
        if (!stored && !(stored_here && !loads_what_is_stored(program, phase, instruction, output, batch))) continue;
        return "output " + quoted(output_name) + " is in place of " + quoted(operand_name) +
               ", which the epilogue reads " +
               (stored ? "again after it was written" : "at other elements than it writes");
      }
      stored |= stored_here;
    }
  }
  return {};
}

}  // namespace postlude::inline v0::lower
