#include "plan/traffic.h"

#include <algorithm>

namespace postlude::inline v0::plan {
namespace {

using lower::Access;
using lower::Buffer;
using lower::Phase;

double count(std::int64_t extent) { return static_cast<double>(extent); }
double bytes(DType type) { return static_cast<double>(size_of(type)); }

// Bytes of one access: a chunk's piece touches its part of the buffer, a repeated statistic all of it once.
double access_bytes(const Buffer& buffer, const Phase& phase, const Shape& shape) {
  return std::min(elements(buffer, shape), elements(phase, buffer.axes & tile_axes, shape)) * bytes(buffer.dtype);
}

}  // namespace

double elements(const Phase& phase, Axes axes, const Shape& shape) {
  double n = phase.batched ? count(shape.batch) : 1;
  if (axes.has(Axis::m)) n *= count(phase.rows.at(shape.m));
  if (axes.has(Axis::n)) n *= count(phase.columns.at(shape.n));
  return n;
}

double elements(const Buffer& buffer, const Shape& shape) {
  double n = buffer.axes.has(Axis::b) ? count(shape.batch) : 1;
  if (buffer.axes.has(Axis::m)) n *= count(buffer.rows.at(shape.m));
  if (buffer.axes.has(Axis::n)) n *= count(buffer.columns.at(shape.n));
  return n;
}

void KernelTraffic::loads(const Phase& phase, const std::vector<bool>& wanted) {
  for (std::size_t i = 0; i < phase.code.size(); ++i) {
    const lower::Instruction& instruction = phase.code[i];
    const bool accumulator = instruction.op == Op::acc;
    if ((!accumulator && instruction.op != Op::operand) || (!wanted.empty() && !wanted[i])) continue;
    Access access = instruction.access;
    if (accumulator) access.buffer = -1;
    else if (stays_[access.buffer] || wrote_[access.buffer]) continue;
    if (std::find(seen_.begin(), seen_.end(), access) != seen_.end()) continue;
    seen_.push_back(access);
    read_accumulator_ = read_accumulator_ || accumulator;
    counted_.read += accumulator ? accumulator_ * elements(phase, tile_axes, shape_)
                                 : access_bytes(program_.buffers[access.buffer], phase, shape_);
  }
}

void KernelTraffic::stores(const Phase& phase) {
  for (const lower::Store& store : phase.stores) {
    const lower::BufferId b = store.access.buffer;
    if (!stays_[b]) counted_.written += access_bytes(program_.buffers[b], phase, shape_);
    wrote_[b] = true;
  }
}

void KernelTraffic::results(const lower::Reduction& reduction) {
  for (const lower::BufferId b : reduction.results) {
    if (b < 0) continue;
    const Buffer& buffer = program_.buffers[b];
    if (!stays_[b]) counted_.written += elements(buffer, shape_) * bytes(buffer.dtype);
    wrote_[b] = true;
  }
}

}  // namespace postlude::inline v0::plan
