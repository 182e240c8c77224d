// Where a Program's buffers lie: in the user's tensors, in the workspace, in registers.
#include "cuda/decide/decider.h"

#include <algorithm>
#include <array>

namespace postlude::inline v0::cuda {

using lower::BufferId;
using lower::BufferKind;
using lower::Phase;

namespace {

bool has(const std::vector<int>& phases, int phase) { return std::ranges::binary_search(phases, phase); }

// Whether nothing but these phases, as far as they run there, makes a buffer or reads it.
bool only_in(const lower::Uses& uses, const std::vector<RowPhase>& rows) {
  const auto run = [&](int p) {
    return std::ranges::any_of(rows, [&](const RowPhase& row) { return row.phase == p; });
  };
  const auto reduced = [&](int p) {
    return std::ranges::any_of(rows, [&](const RowPhase& row) { return row.phase == p && row.reductions; });
  };
  return std::ranges::all_of(uses.loads, run) && std::ranges::all_of(uses.stores, run) &&
         std::ranges::all_of(uses.reductions, reduced);
}

}  // namespace

std::array<std::int64_t, 3> Decider::extents(const lower::Buffer& buffer) const {
  return {buffer.axes.has(Axis::b) ? shape_.batch : 1, buffer.axes.has(Axis::m) ? buffer.rows.at(shape_.m) : 1,
          buffer.axes.has(Axis::n) ? buffer.columns.at(shape_.n) : 1};
}

// The output in whose memory a crossing can live until the phase that reads it makes the output of it, element by
// element; -1: none. A whole-row phase then moves half the bytes, and needs no workspace.
int Decider::home(BufferId crossing) const {
  const lower::Buffer& value = program_.buffers[crossing];
  if (value.kind != BufferKind::crossing || !(value.axes.has(Axis::m) && value.axes.has(Axis::n))) return -1;
  const lower::Uses& uses = uses_[crossing];
  if (uses.loads.empty() || uses.loads.front() != uses.loads.back()) return -1;
  const Phase& reader = program_.phases[uses.loads.front()];
  for (const auto& instruction : reader.code) {
    if (instruction.op == Op::operand && instruction.access.buffer == crossing && !plain(instruction.access)) return -1;
  }
  for (const int p : uses.stores) {
    for (const auto& store : program_.phases[p].stores) {
      if (store.access.buffer == crossing && !plain(store.access)) return -1;
    }
  }
  if (!reader.reductions.empty()) return -1;
  for (const auto& store : reader.stores) {
    const BufferId b = store.access.buffer;
    const lower::Buffer& output = program_.buffers[b];
    const bool read = !uses_[b].loads.empty();
    if (output.kind == BufferKind::output && output.dtype == value.dtype && output.axes == value.axes &&
        output.rows == value.rows && output.columns == value.columns && plain(store.access) && !read && !lent_[b] &&
        !in_place(b))
      return b;
  }
  return -1;
}

void Decider::memories() {
  memory_.resize(program_.buffers.size());
  lent_.resize(program_.buffers.size());
  for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
    const lower::Buffer& buffer = program_.buffers[i];
    Memory& m = memory_[i];
    if (buffer.kind == BufferKind::operand || buffer.kind == BufferKind::output) {
      const Placed& placed = layout_.buffers[i];
      m.address = {Address::Of::buffer, static_cast<int>(i)};
      if (placed.by_value) m.by_value = true;  // its bits are in the last stride: scalar_at in math.cu
      else m.alignment = placed.alignment, m.strides = placed.strides;
      continue;
    }
    if (const int b = home(static_cast<BufferId>(i)); b >= 0) {
      lent_[b] = true, m = memory_[b];
      continue;
    }
    const auto [batches, rows, columns] = extents(buffer);
    const std::int64_t row = layout_.turned ? 1 : columns, column = layout_.turned ? rows : 1;
    m.strides = {buffer.axes.has(Axis::b) ? rows * columns : 0, buffer.axes.has(Axis::m) ? row : 0,
                 buffer.axes.has(Axis::n) ? column : 0};
    m.in_workspace = true;
  }
}

DType Decider::source_type() const {
  const auto source = facts_of(subject_.problem).source;
  return source ? source->dtype : program_.accumulator;
}

// What phases read from memory as `acc`.
Decider::Memory Decider::accumulator_memory() const {
  if (stream_) return {{Address::Of::a}, layout_.a.alignment, layout_.a.strides};
  return {accumulator_, 16, {given_shape_.m * given_shape_.n, given_shape_.n, 1}};
}

// What needs no memory: what a held tile or a row's threads keep, and statistics that only the product's kernel reads.
void Decider::find_what_stays() {
  std::vector<bool>& stays = d_.outline.stays;
  stays.resize(program_.buffers.size());
  for (std::size_t i = 0; i < stays.size(); ++i) {
    const lower::Uses& uses = uses_[i];
    const BufferKind kind = program_.buffers[i].kind;
    const bool crossing = kind == BufferKind::crossing, statistic = kind == BufferKind::statistic;
    if (d_.fused) {
      const FusedEpilogue& e = product_->epilogue;
      const bool given = has(uses.reductions, e.phase) || (e.block_phase >= 0 && has(uses.reductions, e.block_phase));
      stays[i] = (crossing && e.held >= 0 && has(uses.stores, e.phase)) || (statistic && given && !e.read_later[i]);
    }
    for (const Pass& pass : passes_) {
      const std::vector<RowPhase>& rows = pass.kernel.run;
      stays[i] = stays[i] || ((crossing || statistic) && !rows.empty() && only_in(uses, rows));
    }
  }
}

void Decider::place_workspace() {
  for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
    const lower::Buffer& buffer = program_.buffers[i];
    if (!memory_[i].in_workspace || d_.outline.stays[i]) continue;
    const auto [batches, rows, columns] = extents(buffer);
    memory_[i].address = take(batches * rows * columns * size_of(buffer.dtype));
  }
}

}  // namespace postlude::inline v0::cuda
