// What a Program moves and computes at a shape. Counts, no times: those belong to a machine.
#pragma once

#include "lower/program.h"
#include "plan/backend.h"

#include <vector>

namespace postlude::inline v0::plan {

struct PhaseCost {
  Traffic moved;          // of operands, outputs, statistics and crossings
  double operations = 0;  // elementwise operations, a function of the language counting what its body has
  double reduced = 0;     // elements that reductions take in
};

struct Cost {
  double main_loop_operations = 0;  // 2 M N K batch; 0 where nothing is multiplied
  double main_loop_input = 0;       // bytes of its inputs, each once
  double main_loop_read = 0;        // bytes that it reads
  std::vector<PhaseCost> phases;
  double floor_bytes = 0;  // the inputs and every operand read once, every output written once: no kernel moves less
  double moved_bytes = 0;  // the main loop's and all phases'

  [[nodiscard]] double epilogue_operations() const;
};

struct MainLoopCost {
  double operations, input;
};

[[nodiscard]] Cost cost(const lower::Program& program, const MainLoopCost& main_loop, const Shape& shape,
                        const Outline& outline);

}  // namespace postlude::inline v0::plan
