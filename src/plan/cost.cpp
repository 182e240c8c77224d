#include "plan/cost.h"

#include "plan/traffic.h"

#include <algorithm>

namespace postlude::inline v0::plan {
namespace {

using lower::Buffer;
using lower::Instruction;
using lower::Phase;
using lower::Program;

double operations(const Instruction& instruction) {
  if (instruction.op == Op::call) {
    const auto& nodes = instruction.function->body.nodes;
    const auto n = std::count_if(nodes.begin(), nodes.end(), [](const Node& node) { return is_elementwise(node.op); });
    return std::max(1.0, static_cast<double>(n));
  }
  return is_elementwise(instruction.op) ? 1 : 0;
}

PhaseCost phase_cost(const Program& program, const Phase& phase, const Shape& shape, const std::vector<bool>& stays) {
  PhaseCost cost;
  KernelTraffic kernel(program, shape, stays);
  kernel.loads(phase);
  kernel.stores(phase);
  for (const Instruction& instruction : phase.code)
    cost.operations += operations(instruction) * elements(phase, instruction.axes, shape);
  for (const lower::Reduction& reduction : phase.reductions) {
    cost.reduced += static_cast<double>(reduction.pieces.size()) * elements(phase, phase.domain, shape);
    kernel.results(reduction);
  }
  cost.moved = kernel.take();
  return cost;
}

}  // namespace

double Cost::epilogue_operations() const {
  double sum = 0;
  for (const PhaseCost& phase : phases) sum += phase.operations + phase.reduced;
  return sum;
}

Cost cost(const Program& program, const MainLoopCost& main_loop, const Shape& shape, const Outline& outline) {
  Cost cost;
  cost.main_loop_operations = main_loop.operations;
  cost.floor_bytes = cost.main_loop_input = main_loop.input;
  cost.moved_bytes = cost.main_loop_read = main_loop.input + outline.read_beyond;
  for (std::int32_t i = 0; i < program.operands + program.outputs; ++i) {
    const Buffer& buffer = program.buffers[i];
    cost.floor_bytes += elements(buffer, shape) * static_cast<double>(size_of(buffer.dtype));
  }
  const auto moves = [&](const Traffic& traffic) { cost.moved_bytes += traffic.read + traffic.written; };
  for (std::size_t p = 0; p < program.phases.size(); ++p) {
    cost.phases.push_back(phase_cost(program, program.phases[p], shape, outline.stays));
    if (!outline.phases.empty()) cost.phases[p].moved = outline.phases[p];
    moves(cost.phases[p].moved);
  }
  for (const Outline::Beside& beside : outline.beside) moves(beside.traffic);
  return cost;
}

}  // namespace postlude::inline v0::plan
