#include "lower/in_place.h"

#include <algorithm>

namespace postlude::inline v0::lower {
namespace {

BufferId find(const Program& program, const std::string& name) {
  for (BufferId b = 0; b < program.operands + program.outputs; ++b)
    if (program.buffers[b].name == name) return b;
  return -1;
}

}  // namespace

void check_in_place(const Program& program, const Facts& facts, const Options& options) {
  for (const auto& [output, operand] : options.in_place) {
    const BufferId out = find(program, output), in = find(program, operand);
    const bool accumulator = facts.source && operand == facts.source->name;
    if (out < 0 || (in < 0 && !accumulator)) continue;
    bool written = false;
    for (const Phase& phase : program.phases) {
      const bool before = written;
      std::vector<const ColumnMap*> stored;
      for (const Store& s : phase.stores)
        if (s.access.buffer == out) stored.push_back(&s.access.columns);
      written |= !stored.empty();
      for (const Instruction& x : phase.code) {
        if (!(accumulator ? x.op == Op::acc : x.op == Op::operand && x.access.buffer == in) || !written) continue;
        const bool same_place =
            x.access.divide_rows == 1 &&
            std::any_of(stored.begin(), stored.end(), [&](const ColumnMap* map) { return *map == x.access.columns; });
        if (!before && same_place) continue;
        throw Error(ErrorCode::overlap,
                    "the output " + quoted(output) + " cannot be in place of " + quoted(operand) +
                        (before ? ", which is read again after it has been written"
                                : ", of which it reads other columns or rows than it writes"),
                    "Bind the output to memory of its own.");
      }
    }
  }
}

}  // namespace postlude::inline v0::lower
