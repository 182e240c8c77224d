// The chunk that a phase takes the accumulator in.
#include "cuda/choose/fragment_plan.h"

#include <algorithm>

namespace postlude::inline v0::cuda {

using lower::Instruction;
using lower::Phase;

const lower::ColumnMap::Step* chunk_of(const Phase& phase) {
  for (const Instruction& i : phase.code) {
    if (i.op != Op::acc) continue;
    for (const auto* steps : {&i.access.columns.steps, &i.access.row_steps})
      if (!steps->empty()) return &steps->front();
  }
  return nullptr;
}

int accumulator_parts(const Phase& phase) {
  const lower::ColumnMap::Step* const chunk = chunk_of(phase);
  return chunk ? static_cast<int>(std::min<std::int64_t>(chunk->pieces, most_pieces + 1)) : 1;
}

int accumulator_piece(const Phase& phase) {
  const lower::ColumnMap::Step* const chunk = chunk_of(phase);
  return chunk ? static_cast<int>(chunk->group / chunk->pieces) : 0;
}

bool chunks_rows(const Phase& phase) {
  return std::ranges::any_of(phase.code,
                             [](const Instruction& i) { return i.op == Op::acc && !i.access.row_steps.empty(); });
}

}  // namespace postlude::inline v0::cuda
