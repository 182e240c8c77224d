#include "plan/cost.h"

#include <algorithm>

namespace postlude::inline v0::plan {
namespace {

using lower::Access;
using lower::Buffer;
using lower::Instruction;
using lower::Phase;
using lower::Program;

double count(std::int64_t extent) { return static_cast<double>(extent); }

double elements(const Phase& phase, Axes axes, const Shape& shape) {
  double n = phase.batched ? count(shape.batch) : 1;
  if (axes.has(Axis::m)) n *= count(phase.rows.at(shape.m));
  if (axes.has(Axis::n)) n *= count(phase.columns.at(shape.n));
  return n;
}

double buffer_elements(const Buffer& buffer, const Shape& shape) {
  double n = buffer.axes.has(Axis::b) ? count(shape.batch) : 1;
  if (buffer.axes.has(Axis::m)) n *= count(buffer.rows.at(shape.m));
  if (buffer.axes.has(Axis::n)) n *= count(buffer.columns.at(shape.n));
  return n;
}

// Bytes of one access: a chunk's piece touches its part of the buffer, a repeated statistic all of it once.
double access_bytes(const Program& program, const Phase& phase, const Access& access, const Shape& shape) {
  const Buffer& buffer = program.buffers[access.buffer];
  return std::min(buffer_elements(buffer, shape), elements(phase, buffer.axes & tile_axes, shape)) *
         static_cast<double>(size_of(buffer.dtype));
}

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
  std::vector<const Access*> seen;
  const auto is_new = [&](const Access& access) {
    if (std::any_of(seen.begin(), seen.end(), [&](const Access* other) { return *other == access; })) return false;
    seen.push_back(&access);
    return true;
  };
  for (const Instruction& instruction : phase.code) {
    cost.operations += operations(instruction) * elements(phase, instruction.axes, shape);
    if (instruction.op == Op::operand && !stays[instruction.access.buffer] && is_new(instruction.access)) {
      cost.read += access_bytes(program, phase, instruction.access, shape);
    }
  }
  for (const lower::Store& store : phase.stores) {
    if (!stays[store.access.buffer]) cost.written += access_bytes(program, phase, store.access, shape);
  }
  for (const lower::Reduction& reduction : phase.reductions) {
    cost.reduced += count(static_cast<std::int64_t>(reduction.pieces.size())) * elements(phase, phase.domain, shape);
    for (const lower::BufferId result : reduction.results) {
      if (result < 0) continue;
      const Buffer& buffer = program.buffers[result];
      cost.written += buffer_elements(buffer, shape) * static_cast<double>(size_of(buffer.dtype));
    }
  }
  return cost;
}

}  // namespace

double Cost::epilogue_operations() const {
  double sum = 0;
  for (const PhaseCost& phase : phases) sum += phase.operations + phase.reduced;
  return sum;
}

Cost cost(const Program& program, const MainLoop& loop, const Shape& shape, const std::vector<bool>& stays) {
  Cost cost;
  cost.main_loop_operations = loop.operations(shape);
  cost.main_loop_read = loop.bytes(shape);
  cost.floor_bytes = cost.moved_bytes = cost.main_loop_read;
  for (std::int32_t i = 0; i < program.operands + program.outputs; ++i) {
    const Buffer& buffer = program.buffers[i];
    cost.floor_bytes += buffer_elements(buffer, shape) * static_cast<double>(size_of(buffer.dtype));
  }
  for (const Phase& phase : program.phases) {
    cost.phases.push_back(phase_cost(program, phase, shape, stays));
    cost.moved_bytes += cost.phases.back().read + cost.phases.back().written;
  }
  return cost;
}

}  // namespace postlude::inline v0::plan
