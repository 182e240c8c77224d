// The chunk that a phase takes the accumulator in.
#include "cuda/choose/fragment_plan.h"

#include <algorithm>

namespace postlude::inline v0::cuda {

using lower::Instruction;
using lower::Phase;

const lower::ColumnMap* chunk_of(const Phase& phase) {
  for (const Instruction& i : phase.code) {
    if (i.op == Op::acc && !i.access.columns.steps.empty()) return &i.access.columns;
  }
  return nullptr;
}

int accumulator_parts(const Phase& phase) {
  const lower::ColumnMap* const chunk = chunk_of(phase);
  return chunk ? static_cast<int>(std::min<std::int64_t>(chunk->steps[0].pieces, most_pieces + 1)) : 1;
}

int accumulator_piece(const Phase& phase) {
  const lower::ColumnMap* const chunk = chunk_of(phase);
  return chunk ? static_cast<int>(chunk->steps[0].group / chunk->steps[0].pieces) : 0;
}

}  // namespace postlude::inline v0::cuda
