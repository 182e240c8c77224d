// Kernels that run phases from memory.
#include "core/divide.h"
#include "cuda/decide/decider.h"

#include <postlude/error.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace postlude::inline v0::cuda {

using lower::BufferId;
using lower::Phase;

// What can be read eight columns at a time.
Wide Decider::wide(const std::vector<int>& phases) const {
  const auto reaches = [](const Memory& m, DType type) {
    return (vector_type(type) || size_of(type) == 1) && m.alignment >= 16 && m.strides[2] == 1 &&
           m.strides[0] % 8 == 0 && m.strides[1] % 8 == 0;
  };
  Wide vectors;
  vectors.source = source_type();
  for (const Phase& phase : given_.phases)
    vectors.columns.push_back(phase.domain.has(Axis::n) ? phase.columns.at(given_shape_.n) : 1);
  const bool eights = std::all_of(phases.begin(), phases.end(), [&](int p) {
    return !given_.phases[p].domain.has(Axis::n) || vectors.columns[p] % 8 == 0;
  });
  for (std::size_t b = 0; b < memory_.size(); ++b) {
    vectors.buffers.push_back(eights && !memory_[b].by_value && reaches(as_given(memory_[b]), given_.buffers[b].dtype));
    vectors.in_place.push_back(given_.buffers[b].kind == lower::BufferKind::output &&
                               in_place(static_cast<BufferId>(b)));
  }
  vectors.accumulator = eights && reaches(accumulator_memory(), vectors.source);
  return vectors;
}

// The grid of a reduction, and what its blocks leave for each other.
void Decider::shape_reduction(Pass& pass, std::int64_t (&grid)[3], PassMemory& memory) const {
  const GenericKernel& kernel = pass.kernel;
  const Phase& phase = given_.phases[kernel.phase];
  const lower::Reduction& r = phase.reductions[kernel.reduction];
  const bool over_m = r.axes.has(Axis::m), over_n = r.axes.has(Axis::n), over_b = r.axes.has(Axis::b);
  std::int64_t groups = 1;
  for (const BufferId b : r.results) {
    if (r.group && b >= 0)
      groups = over_n ? given_.buffers[b].columns.at(given_shape_.n) : given_.buffers[b].rows.at(given_shape_.m);
  }
  pass.groups = static_cast<int>(groups);
  const std::int64_t batches = over_b || !phase.batched ? 1 : shape_.batch;
  std::int64_t states = 0, counters = 0;
  if (kernel.by_columns) {
    if (over_m && !r.group) pass.splits = static_cast<int>(std::clamp<std::int64_t>(pass.rows / 256, 1, 64));
    grid[0] = ceil_div(pass.columns, 32), grid[1] = over_m ? pass.splits : pass.rows;
    grid[2] = static_cast<std::int64_t>(r.pieces.size()) * batches * groups;
    states = grid[2] * pass.splits * pass.columns;
    counters = grid[2] * grid[0];
  } else {
    const bool keeps_row = phase.domain.has(Axis::m) && !over_m;
    const std::int64_t results = batches * (keeps_row ? pass.rows : 1) * groups;
    const std::int64_t elements = (keeps_row ? 1 : pass.rows) * pass.columns * (over_b ? shape_.batch : 1) / groups;
    if (results)
      pass.splits = static_cast<int>(std::clamp<std::int64_t>(std::min(elements / 8192, 1056 / results), 1, 1024));
    grid[0] = results, grid[1] = pass.splits;
    states = results * pass.splits;
    counters = results;
  }
  memory.partial_bytes = std::max(memory.partial_bytes, states * kernel.state_bytes);
  memory.counters = std::max(memory.counters, counters);
}

void Decider::decide_passes() {
  std::vector<int> phases;
  for (int p = 0; p < static_cast<int>(given_.phases.size()); ++p) {
    if (!d_.fused || !product_->epilogue.runs(p)) phases.push_back(p);
  }
  if (phases.empty()) return;
  generic_ = emit_generic(given_, phases, wide(phases), layout_.image_rows);
  generic_text_ = std::make_shared<const std::string>(std::move(generic_.text));
  PassMemory memory;
  for (const GenericKernel& kernel : generic_.kernels) {
    const Phase& phase = given_.phases[kernel.phase];
    Pass pass{kernel, phase.domain.has(Axis::m) ? phase.rows.at(given_shape_.m) : 1,
              phase.domain.has(Axis::n) ? phase.columns.at(given_shape_.n) : 1};
    const std::int64_t batches = phase.batched ? shape_.batch : 1;
    std::int64_t grid[3] = {1, 1, 1};
    if (kernel.rows) {
      grid[0] = ceil_div(pass.rows, kernel.rows->block() / kernel.rows->threads) * kernel.rows->blocks_n;
      grid[2] = batches;
    } else if (kernel.reduction < 0) {
      std::int64_t outer = pass.rows, inner = pass.columns;
      if (!phase.domain.has(Axis::n)) std::swap(outer, inner);  // threads run along rows
      grid[0] = ceil_div(inner, 256), grid[1] = std::min<std::int64_t>(outer, 65535),
      grid[2] = std::min<std::int64_t>(batches, 65535);
    } else {
      shape_reduction(pass, grid, memory);
    }
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) continue;
    if (grid[0] > std::numeric_limits<std::int32_t>::max() || grid[1] > 65535 || grid[2] > 65535) {
      throw Error(ErrorCode::unsupported, "a reduction of this shape needs more blocks than a GPU launches",
                  "Reduce over fewer batches or larger groups, or use the CPU target.");
    }
    std::transform(grid, grid + 3, pass.grid.begin(), [](std::int64_t g) { return static_cast<unsigned>(g); });
    passes_.push_back(pass);
  }
  if (memory.counters) generic_counters_ = take_cleared(4 * memory.counters);
  generic_partials_ = take(memory.partial_bytes);
  d_.passes = static_cast<int>(passes_.size());
}

void Decider::emit_passes(bool before) {
  for (const Pass& pass : passes_) {
    if (before != (d_.fused && pass.kernel.phase < product_phase_)) continue;
    Kernel& k = kernel(generic_text_, pass.kernel.name);
    // Of all kernels: the shape, then the words.
    agreed::PassSizes head{};
    head.batch = static_cast<int>(shape_.batch), head.m = static_cast<int>(given_shape_.m);
    head.n = static_cast<int>(given_shape_.n);
    constexpr std::size_t first = sizeof head / 8;
    k.block.resize(first + static_cast<std::size_t>(generic_.words));
    std::memcpy(k.block.data(), &head, sizeof head);
    for (std::size_t b = 0; b < memory_.size(); ++b) {
      if (!d_.outline.stays[b]) describe(k, first + 4 * b, as_given(memory_[b]));
    }
    describe(k, first + generic_.accumulator_word, accumulator_memory());
    k.addresses.push_back({first + generic_.partials_word, generic_partials_});
    k.addresses.push_back({first + generic_.counters_word, generic_counters_});
    k.grid = pass.grid;
    if (pass.kernel.rows) k.threads = static_cast<unsigned>(pass.kernel.rows->block());
    k.integers = {static_cast<std::int32_t>(pass.rows), static_cast<std::int32_t>(pass.columns)};
    if (pass.kernel.reduction >= 0) k.integers.insert(k.integers.end(), {pass.splits, pass.groups});
  }
}

}  // namespace postlude::inline v0::cuda
