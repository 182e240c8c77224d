// The steps of a phase ask for memory while they compute: for lines that the phase, a later one or
// the next rows will touch, shared out among the steps by their costs. Decision 0031 has the
// figures behind the constants, decision 0037 those of steps behind a product.
#include "cpu/decide/passes.h"
#include "cpu/strips/phase.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace postlude::inline v0::cpu {
namespace {

// Nothing is asked for if rows are shorter, in bytes.
constexpr std::int64_t least_asked_row = 256;
// A phase that is alone on its rows and reduces them asks for the next rows if it costs at least
// this: then it takes longer than the processor's own prefetching waits at every page.
constexpr double least_cost_alone = 8;
// Calls that touch fewer bytes ask for nothing: run again, they find them in L2 or L3, and asking
// costs more than it saves.
constexpr double least_asked = 8 << 20;

// Calls that touch more send their outputs past the caches, which could not hold them: no line is
// read before it is overwritten, and inputs stay in L2. Values that another step reads stay in the
// caches.
constexpr double least_past = 32 << 20;
// A product's tiles ask for two tiles in memory (touched) while they are computed. Further tiles
// leave past the caches, the first results before the last.
constexpr int asked_tiles = 2;

// Behind a product a step that costs this much asks for tiles again: a part of the two was not
// fetched, and nothing of a third.
constexpr double least_cost_to_ask = 8;

// The cost of a step that can ask for memory, about: 1 is a pass over L1. Other steps cost 0.
double cost_of(const Step& step, const lower::Phase& phase, std::span<const Storage> storages) {
  if (step.kind == Step::Kind::load || step.kind == Step::Kind::store) {
    const Storage& storage = storages[step.storage];
    return storage.strides[2] == 1 && one_run(storage.runs) && storage.divide_rows == 1 ? 1 : 0;
  }
  if (step.kind == Step::Kind::reduce) {
    const lower::Reduction& reduction = phase.reductions[step.detail];
    if (reduction.axes != Axes(Axis::n) || reduction.group != 0) return 0;
    switch (reduction.reducer) {
      case lower::Reducer::custom: return 0;
      case lower::Reducer::online_softmax: return 8;
      case lower::Reducer::sum: return 1;
      default: return 2;
    }
  }
  if (step.kind != Step::Kind::apply) return 0;
  if (step.value >= static_cast<lower::ValueId>(phase.code.size())) return 1;  // a copy
  if (step.argument_count > 2) return phase.code[step.value].op == Op::mul ? 1 : 0;
  switch (phase.code[step.value].op) {
    case Op::sin:
    case Op::cos:
    case Op::random: return 0;
    case Op::div:
    case Op::sqrt:
    case Op::rsqrt:
    case Op::reciprocal: return 6;
    case Op::exp: return 8;
    case Op::exp2:
    case Op::expm1:
    case Op::log:
    case Op::log2:
    case Op::log1p:
    case Op::tanh:
    case Op::erf:
    case Op::pow:
    case Op::call: return 12;
    default: return 1;
  }
}

// Whether its rows lie beside the accumulator's, column by column.
bool is_tile(const Storage& storage) {
  return storage.kind == Storage::Kind::bound && storage.strides[1] != 0 && storage.strides[2] != 0 &&
         storage.runs.empty();
}

// Whether rows of an output begin lines.
bool begins_lines(const Placed& bound) {
  const auto begins = [&](std::int64_t elements) { return elements * size_of(bound.dtype) % line == 0; };
  return bound.strides[2] == 1 && bound.strides[1] != 0 && begins(bound.strides[0]) && begins(bound.strides[1]) &&
         bound.at_line;
}

// What a call reads and where it writes, each found in one pass, as an epilogue may have thousands of outputs.
struct Uses {
  explicit Uses(const PhaseSetting& setting)
      : read(setting.phase->code.size()), loaded(setting.program->buffers.size()) {
    for (const lower::Instruction& x : setting.phase->code)
      for (const lower::ValueId arg : x.args) read[arg] = true;
    for (const lower::Phase& phase : setting.program->phases) {
      for (const lower::Instruction& x : phase.code)
        if (x.op == Op::operand) loaded[x.access.buffer] = true;
    }
    for (const Placed& bound : setting.buffers) ++at[bound.base];
    if (setting.source) ++at[setting.source->base];
  }
  std::vector<bool> read;           // by value: an instruction of the phase does
  std::vector<bool> loaded;         // by buffer: a phase does
  std::unordered_map<int, int> at;  // by base: how much lies there
};

}  // namespace

std::vector<lower::BufferId> leave_caches(const PhaseSetting& setting) {
  const lower::Program& program = *setting.program;
  const auto bytes = [&](const Placed& bound, std::int64_t rows, std::int64_t columns) {
    return static_cast<double>(setting.shape.batch * rows * columns * size_of(bound.dtype));
  };
  int tiles = 0;
  double touched = setting.source ? bytes(*setting.source, setting.shape.m, setting.shape.n) : 0;
  for (std::size_t i = 0; i < setting.buffers.size(); ++i) {
    const lower::Buffer& buffer = program.buffers[i];
    const bool outside = buffer.kind == lower::BufferKind::operand || buffer.kind == lower::BufferKind::output;
    if (!outside || !buffer.axes.contains(tile_axes)) continue;
    touched += bytes(setting.buffers[i], buffer.rows.at(setting.shape.m), buffer.columns.at(setting.shape.n));
    ++tiles;
  }
  std::vector<lower::BufferId> leaving;
  if (touched < (setting.source ? least_past : least_asked)) return leaving;
  std::vector<lower::Store> stores = setting.phase->stores;
  std::sort(stores.begin(), stores.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
  const Uses uses(setting);
  for (const lower::Store& store : stores) {
    const lower::BufferId to = store.access.buffer;
    const Placed& bound = setting.buffers[to];
    if (setting.locals[to] >= 0 || !begins_lines(bound) || uses.at.at(bound.base) > 1) continue;
    const bool stays = setting.source ? uses.read[store.value]
                                      : tiles - static_cast<int>(leaving.size()) <= asked_tiles || uses.loaded[to];
    if (!stays) leaving.push_back(to);
  }
  std::sort(leaving.begin(), leaving.end());
  return leaving;
}

void PhaseExecutor::touched(std::int64_t batch, Prefetch (&prefetch)[2]) const {
  constexpr std::int64_t furthest = 64;  // bytes: all lines between two columns would be asked for
  int found = 0;
  for (const Storage& storage : storages_) {
    if (found == 2) break;
    const std::int64_t size = size_of(storage.dtype);
    if (!is_tile(storage) || goes_past(storage.buffer) || storage.strides[2] * size > furthest) continue;
    prefetch[found++] = {storage.data + batch * storage.strides[0] * size, storage.strides[1] * size,
                         storage.strides[2] * size};
  }
}

void PhaseExecutor::weigh(const lower::Phase& phase) {
  for (Step& step : steps_[static_cast<int>(Level::tile)]) step.cost = cost_of(step, phase, storages_);
}

std::vector<std::vector<Wanted>> share_out(std::span<const Wanted> wanted, std::span<const double> costs) {
  std::vector<std::vector<Wanted>> shares(costs.size());
  double bytes = 0, cost = 0;
  for (const Wanted& x : wanted) bytes += x.bytes();
  for (const double x : costs) cost += x;
  if (bytes == 0 || cost == 0) return shares;
  double from = 0;
  for (std::size_t s = 0; s < costs.size(); ++s) {
    const double to = from + bytes * costs[s] / cost;
    double start = 0;  // of x, beside from and to
    for (const Wanted& x : wanted) {
      const double low = std::max(from, start) - start, high = std::min(to, start + x.bytes()) - start;
      start += x.bytes();
      if (high - low < 1) continue;
      Wanted& share = shares[s].emplace_back(x);
      share.first = x.first + low / static_cast<double>(x.row_bytes);
      share.end = x.first + high / static_cast<double>(x.row_bytes);
    }
    from = to;
  }
  return shares;
}

double PhaseExecutor::asking_cost() const {
  double cost = 0;
  for (const Step& step : steps_[static_cast<int>(Level::tile)]) cost += step.cost;
  return cost;
}

void PhaseExecutor::ask_for(std::span<const Wanted> wanted) {
  std::vector<Step>& steps = steps_[static_cast<int>(Level::tile)];
  std::vector<double> costs;
  for (const Step& step : steps) costs.push_back(step.cost);
  std::vector<std::vector<Wanted>> shares = share_out(wanted, costs);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    largest_ahead_ = std::max(largest_ahead_, shares[s].size());
    for (const Wanted& x : shares[s]) rows_on_ = std::max(rows_on_, x.rows_on);
    steps[s].wanted = std::move(shares[s]);
  }
}

const Storage* PhaseExecutor::target(const Step& step) const {
  const bool stores = step.kind == Step::Kind::store;
  if (!stores && step.out.where != Source::Where::storage) return nullptr;
  const Storage& storage = storages_[static_cast<std::size_t>(stores ? step.storage : step.out.index)];
  return storage.kind == Storage::Kind::bound ? &storage : nullptr;
}

bool PhaseExecutor::goes_past(lower::BufferId buffer) const {
  const std::vector<Step>& steps = steps_[static_cast<int>(Level::tile)];
  return std::any_of(steps.begin(), steps.end(),
                     [&](const Step& step) { return step.past && target(step)->buffer == buffer; });
}

void PhaseExecutor::store_past(std::span<const lower::BufferId> leaving) {
  for (Step& step : steps_[static_cast<int>(Level::tile)]) {
    const Storage* const storage = target(step);
    step.past =
        step.cost > 0 && storage != nullptr && std::binary_search(leaving.begin(), leaving.end(), storage->buffer);
  }
}

void PhaseExecutor::ask_for_tiles(std::int64_t batch) {
  std::vector<Step>& steps = steps_[static_cast<int>(Level::tile)];
  const auto asking =
      std::max_element(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.cost < b.cost; });
  if (asking == steps.end() || asking->cost < least_cost_to_ask) return;
  double bytes = 0;
  for (int p = 0; p < static_cast<int>(storages_.size()); ++p) {
    const Storage& storage = storages_[static_cast<std::size_t>(p)];
    if (!is_tile(storage) || storage.strides[2] != 1 || storage.divide_rows != 1 || goes_past(storage.buffer)) continue;
    const auto is_it = [p](const Source& source) {
      return source.where == Source::Where::storage && source.index == p;
    };
    const bool gone = std::any_of(steps.begin(), asking + 1, [&](const Step& step) {
      const auto first = arguments_.begin() + step.first_argument;
      return step.storage == p || is_it(step.out) || std::any_of(first, first + step.argument_count, is_it);
    });
    const std::int64_t size = size_of(storage.dtype);
    asking->wanted.push_back({storage.buffer,
                              {storage.strides[0] * size, storage.strides[1] * size},
                              columns_ * size,
                              gone ? strip_rows_ : 0});
    bytes += asking->wanted.back().bytes();
  }
  const bool few = asking->wanted.size() < 2 || bytes * static_cast<double>(batch * rows_) < least_asked;
  if (few) asking->wanted.clear();
  largest_ahead_ = std::max(largest_ahead_, asking->wanted.size());
}

std::span<const StripAhead> PhaseExecutor::ahead(const Step& step, PhaseFrame& frame, const Block& block,
                                                 const Tile& tile) const {
  std::size_t count = 0;
  for (const Wanted& wanted : step.wanted) {
    const double bytes = static_cast<double>(wanted.row_bytes),
                 share = (wanted.end - wanted.first) / static_cast<double>(columns_);
    // Every line is in one step's share.
    const auto at = [&](std::int64_t column) {
      return round_up(static_cast<std::int64_t>(bytes * (wanted.first + share * static_cast<double>(column))), line);
    };
    const std::int64_t from = at(tile.column0), to = at(tile.column0 + tile.columns);
    if (from == to) continue;
    const std::int64_t first = tile.row0 + wanted.rows_on, end = std::min(first + tile.rows, rows_);
    for (std::int64_t row = first; row < end; ++row) {
      frame.ahead[count++] = {wanted.data + block.batch * wanted.strides[0] + row * wanted.strides[1] + from,
                              to - from};
    }
  }
  return {frame.ahead.data(), count};
}

namespace {

double bytes_of(std::span<const Wanted> wanted) {
  double bytes = 0;
  for (const Wanted& x : wanted) bytes += x.bytes();
  return bytes;
}

}  // namespace

void ask_ahead(const Pass& pass, const PhaseSetting& setting, std::span<PhaseExecutor> executors) {
  if (setting.source == nullptr) return executors.front().ask_for_tiles(setting.shape.batch);
  const bool alone = pass.count == 1;
  if (!alone && !pass.whole_rows) return;
  const std::vector<lower::Phase>& phases = setting.program->phases;
  std::vector<Wanted> wanted, next;
  const auto want = [&](std::vector<Wanted>& list, const lower::Instruction* load, const lower::Access& access,
                        std::int64_t columns, std::int64_t rows_on) {
    const bool source = load != nullptr && load->op == Op::acc;
    const Placed& bound = source ? *setting.source : setting.buffers[access.buffer];
    if (!access.columns.identity() || access.divide_rows != 1 || bound.strides[1] == 0 || bound.strides[2] != 1) return;
    const std::int64_t size = size_of(bound.dtype);
    if (columns * size < least_asked_row) return;
    list.push_back({source ? source_buffer : access.buffer,
                    {bound.strides[0] * size, bound.strides[1] * size},
                    columns * size,
                    rows_on});
  };
  PhaseExecutor& last = executors.back();
  const lower::Phase &first_phase = phases[pass.first], &last_phase = phases[pass.first + pass.count - 1];
  for (const lower::Store& store : last_phase.stores) {
    if (setting.locals[store.access.buffer] < 0) want(wanted, nullptr, store.access, last.columns(), 0);
  }
  const std::int64_t rows_on = alone ? last.strip_rows() : pass.block_rows;
  for (const lower::Instruction& x : first_phase.code) {
    const std::int64_t columns = executors.front().columns();
    if (x.op == Op::acc || (x.op == Op::operand && setting.locals[x.access.buffer] < 0))
      want(next, &x, x.access, columns, rows_on);
  }
  const double touched =
      (bytes_of(wanted) + bytes_of(next)) * static_cast<double>(setting.shape.batch * setting.shape.m);
  if (touched < least_asked) return;
  const bool stores = !wanted.empty();
  std::erase_if(wanted, [&](const Wanted& x) { return last.goes_past(x.buffer); });
  if (alone && (stores || last.asking_cost() < least_cost_alone)) return;  // a phase that stores runs at a copy's speed
  const double soon = bytes_of(wanted);
  wanted.insert(wanted.end(), next.begin(), next.end());
  std::vector<double> costs;
  double before = 0;
  for (const PhaseExecutor& phase : executors) costs.push_back(phase.asking_cost());
  // The first phase goes over lines that were asked for last: more requests would keep it waiting.
  if (soon == 0 && std::any_of(costs.begin() + 1, costs.end(), [](double cost) { return cost > 0; })) costs[0] = 0;
  for (std::size_t p = 0; p + 1 < costs.size(); ++p) before += costs[p];
  // The last phase asks for its share, or for less where the others must hurry.
  if (before > 0 && soon > 0) costs.back() = std::min(costs.back(), before * bytes_of(next) / soon);
  std::vector<std::vector<Wanted>> shares = share_out(wanted, costs);
  for (std::size_t p = 0; p < costs.size(); ++p) executors[p].ask_for(shares[p]);
}

}  // namespace postlude::inline v0::cpu
