#include "cpu/decide/passes.h"

#include <algorithm>

namespace postlude::inline v0::cpu {

using lower::Buffer;
using lower::BufferId;
using lower::BufferKind;
using lower::Instruction;
using lower::Phase;
using lower::Program;

namespace {

// The elements of a block where there is no product: enough to make a block's overhead small, few
// enough for L2.
constexpr std::int64_t block_elements = 64 * 1024;
// The same where several phases pass over them: L2 holds them twice, these rows and the next, which
// the last phase asks for (decision 0031).
constexpr std::int64_t block_elements_again = 16 * 1024;
// The same where rows come from memory and a block repeats the calls of the last one (see Script):
// a phase's results are in L1 then (decision 0033).
constexpr std::int64_t block_elements_repeated = 4 * 1024;
constexpr std::int64_t least_from_memory = 2 << 20;
// The same where every block leaves a row of partial results behind.
constexpr std::int64_t block_elements_over_m = 256 * 1024;
constexpr std::int64_t widest_block = 16 * 1024;
constexpr std::int64_t tallest_block = 1024;

bool is_tile(Axes axes) { return axes.contains(tile_axes); }

// The pieces in which a phase reads the product: those of a plain chunk. Anything else (two
// different chunks, a chunk of a chunk) reads whole rows through its maps.
struct Reading {
  Pieces pieces;
  bool plain = true;
};
Reading reading_of(const Phase& phase) {
  Reading reading;
  bool first = true;
  for (const Instruction& instruction : phase.code) {
    if (instruction.op != Op::acc) continue;
    const lower::ColumnMap& map = instruction.access.columns;
    Pieces pieces;
    if (!map.steps.empty()) {
      pieces.count = static_cast<int>(map.steps[0].pieces);
      pieces.group = map.steps[0].group;
    }
    const bool same = first || (pieces.count == reading.pieces.count && pieces.group == reading.pieces.group);
    if (map.steps.size() > 1 || map.divide != 1 || !same) reading.plain = false;
    reading.pieces = pieces;
    first = false;
  }
  const Extent& columns = phase.columns;
  if (columns.times != 1 || columns.over != reading.pieces.count) reading.plain = false;
  if (!reading.plain) reading.pieces = {};
  return reading;
}

// The buffers that the phases of a pass under construction have made, and whether they can be used
// on the same rows.
struct Made {
  enum class How : std::uint8_t { not_here, same_rows, all_rows };
  std::vector<How> buffers;

  explicit Made(const Program& program) : buffers(program.buffers.size(), How::not_here) {}

  // Forgets what these phases made, without a look at all other buffers.
  void forget(const Program& program, int first, int count) {
    for (int p = first; p < first + count; ++p) {
      for (const lower::Store& store : program.phases[p].stores) buffers[store.access.buffer] = How::not_here;
      for (const lower::Reduction& reduction : program.phases[p].reductions) {
        for (const BufferId result : reduction.results) {
          if (result >= 0) buffers[result] = How::not_here;
        }
      }
    }
  }

  void add(const Program& program, const Phase& phase) {
    for (const lower::Store& store : phase.stores) {
      const bool rows = program.buffers[store.access.buffer].axes.has(Axis::m) && phase.domain.has(Axis::m);
      note(store.access.buffer, rows && store.access.divide_rows == 1);
    }
    for (const lower::Reduction& reduction : phase.reductions) {
      const bool rows = !reduction.axes.has(Axis::m) && !reduction.axes.has(Axis::b);
      for (const BufferId result : reduction.results) {
        if (result >= 0) note(result, rows);
      }
    }
  }
  void note(BufferId buffer, bool rows) {
    How& how = buffers[buffer];
    how = rows && how != How::all_rows ? How::same_rows : How::all_rows;
  }
  // Whether `phase` may run on a block's rows before the other blocks have run. Only a product's
  // accumulator is gone by then, unless it is a tensor, which is read again.
  [[nodiscard]] bool allows(const Phase& phase, bool product) const {
    for (const Instruction& instruction : phase.code) {
      if (instruction.op == Op::acc && (product || instruction.access.divide_rows != 1)) return false;
      if (instruction.op != Op::operand) continue;
      const How how = buffers[instruction.access.buffer];
      if (how == How::all_rows || (how == How::same_rows && instruction.access.divide_rows != 1)) return false;
    }
    return true;
  }
};

bool reduces_over_m(const Phase& phase) {
  return std::any_of(phase.reductions.begin(), phase.reductions.end(),
                     [](const lower::Reduction& reduction) { return reduction.axes.has(Axis::m); });
}

// Crossing tiles that are stored and loaded in phases [first, first + count) only.
std::vector<BufferId> locals_of(const Program& program, const std::vector<lower::Uses>& uses, int first, int count) {
  const auto inside = [&](const std::vector<int>& phases) {
    return phases.empty() || (phases.front() >= first && phases.back() < first + count);
  };
  std::vector<BufferId> locals;
  for (int p = first; p < first + count; ++p) {
    for (const lower::Store& store : program.phases[p].stores) {
      const BufferId b = store.access.buffer;
      const Buffer& buffer = program.buffers[b];
      if (buffer.kind == BufferKind::crossing && is_tile(buffer.axes) && inside(uses[b].loads) &&
          inside(uses[b].stores) && std::ranges::find(locals, b) == locals.end())
        locals.push_back(b);
    }
  }
  std::ranges::sort(locals);
  return locals;
}

// Whether blocks make the same calls, at other addresses (see PhaseExecutor::repeats).
bool repeats(const Phase& phase) {
  return std::none_of(phase.code.begin(), phase.code.end(), [](const Instruction& x) {
    return x.guard >= 0 || x.op == Op::random || x.op == Op::m_index || x.op == Op::n_index;
  });
}

void choose_blocks(const Program& program, Pass& pass) {
  bool tile = false, over_m = false;
  bool again = pass.batches * pass.rows * pass.columns >= least_from_memory;
  for (int p = pass.first; p < pass.first + pass.count; ++p) {
    again = again && repeats(program.phases[p]);
    tile = tile || is_tile(program.phases[p].domain);
    over_m = over_m || reduces_over_m(program.phases[p]);
  }
  pass.block_columns = pass.whole_rows ? std::max<std::int64_t>(1, pass.columns) : std::min(pass.columns, widest_block);
  pass.block_columns = std::max<std::int64_t>(1, pass.block_columns);
  pass.block_rows = tallest_block;
  if (tile) {
    const std::int64_t elements = over_m            ? block_elements_over_m
                                  : pass.count == 1 ? block_elements
                                  : again           ? block_elements_repeated
                                                    : block_elements_again;
    pass.block_rows = std::clamp<std::int64_t>(elements / pass.block_columns, 1, tallest_block);
  }
  pass.block_rows = std::max<std::int64_t>(1, std::min(pass.block_rows, pass.rows));
}

}  // namespace

std::vector<Pass> schedule(const Program& program, const Shape& shape, bool product) {
  std::vector<Pass> passes;
  const int phases = static_cast<int>(program.phases.size());
  const std::vector<lower::Uses> uses = lower::uses_of(program);
  Made made(program);
  for (int p = 0; p < phases;) {
    Pass pass;
    pass.first = p;
    const Phase& phase = program.phases[p];
    pass.product = product && phase.reads_accumulator();
    pass.batches = phase.batched ? shape.batch : 1;
    pass.rows = phase.domain.has(Axis::m) ? phase.rows.at(shape.m) : 1;
    pass.columns = phase.domain.has(Axis::n) ? phase.columns.at(shape.n) : 1;
    made.add(program, phase);
    int tiles = is_tile(phase.domain) ? 1 : 0, tiles_at_last = 1;  // phases up to the last tile phase
    // A phase without columns has no blocks: it would not lead to the phases of {m}, and its
    // statistics are filled behind the pass.
    const auto over_nothing = [&](const Phase& x) { return x.domain.has(Axis::n) && x.columns.at(shape.n) == 0; };
    const bool fuses = phase.domain.has(Axis::m) && !over_nothing(phase);
    while (fuses && p + pass.count < phases) {
      const Phase& next = program.phases[p + pass.count];
      if (!next.domain.has(Axis::m) || over_nothing(next) || next.batched != phase.batched ||
          next.rows.at(shape.m) != pass.rows || !made.allows(next, product))
        break;
      made.add(program, next);
      ++pass.count;
      if (is_tile(next.domain)) {
        ++tiles;
        tiles_at_last = pass.count;
      }
    }
    made.forget(program, p, pass.count);
    // Phases of {m} behind a single tile phase gain nothing from its cache, and would ask it for
    // whole rows.
    if (tiles == 1 && is_tile(phase.domain)) pass.count = tiles_at_last;
    for (int q = p; q < p + pass.count; ++q) {
      const Phase& member = program.phases[q];
      if (member.domain.has(Axis::n)) pass.columns = std::max(pass.columns, member.columns.at(shape.n));
    }
    pass.whole_rows = pass.count > 1 && tiles > 0;
    if (pass.product) {
      const Reading reading = reading_of(phase);
      pass.pieces = reading.pieces;
      pass.pieces_apart = reading.plain && reading.pieces.count > 1;
      if (!reading.plain) pass.whole_rows = true;
    }
    if (pass.count > 1) pass.locals = locals_of(program, uses, p, pass.count);
    choose_blocks(program, pass);
    passes.push_back(std::move(pass));
    p += passes.back().count;
  }
  return passes;
}

Pieces product_pieces(const Program& program) {
  for (const Phase& phase : program.phases) {
    if (phase.reads_accumulator()) return reading_of(phase).pieces;
  }
  return {};
}

}  // namespace postlude::inline v0::cpu
