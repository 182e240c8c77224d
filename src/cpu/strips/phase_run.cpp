// A PhaseExecutor runs over one block.
#include "cpu/strips/phase.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace postlude::inline v0::cpu {

using lower::Instruction;

namespace {

void ask(Strip& strip, std::span<const StripAhead> ahead) {
  strip.ahead = ahead.data();
  strip.ahead_count = static_cast<int>(ahead.size());
}

void call(const PhaseFrame& frame, StripFn function, const Strip& strip, int arguments = 1) {
  if (frame.recording == nullptr) return function(strip);
  frame.recording->add(function, strip, arguments);
}

// A recorded block resets and finishes its reductions, of one f32 a row, by recorded calls too:
// reset() and finish() around them would take longer (decision 0033).
void fill(const Strip& s) {
  std::fill_n(static_cast<float*>(s.out), s.columns, *static_cast<const float*>(s.args[0].data));
}
void copy(const Strip& s) {
  for (std::int64_t c = 0; c < s.columns; ++c)
    static_cast<float*>(s.out)[c * s.out_column_stride] = static_cast<const float*>(s.args[0].data)[c];
}

// To tell what to call takes as long as so few elements.
constexpr std::int64_t short_block = 1024;

enum Activity : std::uint8_t { skipped, computed, zeroed };

// The part of `runs` (the identity where there are none) that lies in columns [j0, j0 + count):
// body(j, n, length, stride).
template <class Body>
void for_runs(const std::vector<ColumnRun>& runs, std::int64_t j0, std::int64_t count, Body&& body) {
  if (runs.empty()) return body(j0, j0, count, std::int64_t{1});
  auto run =
      std::upper_bound(runs.begin(), runs.end(), j0, [](std::int64_t j, const ColumnRun& r) { return j < r.j; }) - 1;
  while (count > 0) {
    const std::int64_t skip = j0 - run->j;
    const std::int64_t length = std::min(count, run->length - skip);
    body(j0, run->n + skip * run->stride, length, run->stride);
    j0 += length;
    count -= length;
    ++run;
  }
}

std::int64_t column_of(const Storage& storage, std::int64_t j) {
  return storage.runs.empty() ? j : storage.runs[0].n + (j - storage.runs[0].j);
}

}  // namespace

void Script::Call::keep(const StripArg* args, int count, const StripAhead* asked, int spans) {
  arguments.assign(args, args + count);
  ahead.assign(asked, asked + spans);
  strip.args = reduction.args = arguments.data();
  strip.ahead = reduction.ahead = ahead.data();
}

void Script::add(StripFn function, const Strip& strip, int arguments) {
  Call& call = calls_.emplace_back();
  call.function = function;
  call.strip = strip;
  call.keep(strip.args, arguments, strip.ahead, strip.ahead_count);
  if (strip.extra == nullptr) return;
  call.random.push_back(*static_cast<const RandomStrip*>(strip.extra));
  call.strip.extra = call.random.data();
}

void Script::restore(char* at, std::size_t bytes) {
  const StripArg nothing;
  Strip strip;
  strip.columns = static_cast<std::int64_t>(bytes);
  strip.out = at;
  strip.args = &nothing;
  add([](const Strip& s) { std::memcpy(s.out, s.args[0].data, static_cast<std::size_t>(s.columns)); }, strip, 1);
  calls_.back().values.assign(at, at + bytes);
  calls_.back().arguments[0].data = calls_.back().values.data();
}

void Script::add(ReduceFn function, const ReduceStrip& strip, int arguments) {
  Call& call = calls_.emplace_back();
  call.reduce = function;
  call.reduction = strip;
  call.keep(strip.args, arguments, strip.ahead, strip.ahead_count);
}

void Script::settle(const Script& below, const Script& beside, std::int64_t rows) {
  const auto move = [&](auto& here, auto* under, auto* next) {
    const auto number = [](auto* at) { return reinterpret_cast<std::uintptr_t>(at); };
    const std::uintptr_t at = number(here), batch = number(next) - at;
    const auto row = static_cast<std::uintptr_t>(static_cast<std::intptr_t>(number(under) - at) / rows);
    if (row != 0 || batch != 0) moving_.push_back({&here, at - static_cast<std::uintptr_t>(rows) * row, batch, row});
  };
  for (std::size_t c = 0; c < calls_.size(); ++c) {
    Call& call = calls_[c];
    const Call &a = below.calls_[c], &b = beside.calls_[c];
    move(call.strip.out, a.strip.out, b.strip.out);
    move(call.strip.sums, a.strip.sums, b.strip.sums);
    for (std::size_t i = 0; i < call.arguments.size(); ++i)
      move(call.arguments[i].data, a.arguments[i].data, b.arguments[i].data);
    for (std::size_t i = 0; i < call.ahead.size(); ++i) move(call.ahead[i].data, a.ahead[i].data, b.ahead[i].data);
  }
}

void Script::run(std::int64_t batch, std::int64_t row) {
  for (const Moving& moving : moving_) {
    const std::uintptr_t address =
        moving.base + static_cast<std::uintptr_t>(batch) * moving.batch + static_cast<std::uintptr_t>(row) * moving.row;
    std::memcpy(moving.at, &address, sizeof address);
  }
  run();
}

void Script::run() const {
  for (const Call& call : calls_) call.function != nullptr ? call.function(call.strip) : call.reduce(call.reduction);
}

PhaseFrame PhaseExecutor::make_frame(char* memory) const {
  PhaseFrame frame;
  frame.memory = memory;
  frame.storages.assign(storages_.size(), nullptr);
  frame.arguments.resize(static_cast<std::size_t>(std::max(1, largest_arity_)));
  frame.ahead.resize(largest_ahead_ * static_cast<std::size_t>(strip_rows_));
  frame.active.assign(sources_.size(), 1);
  return frame;
}

// An address is kept as that of (row 0, column 0), which may lie outside a block's own memory.
char* PhaseExecutor::address(const Storage& storage, const PhaseFrame& frame, int index, std::int64_t i,
                             std::int64_t n) const {
  const std::int64_t elements = i * storage.strides[1] + n * storage.strides[2];
  return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(frame.storages[static_cast<std::size_t>(index)]) +
                                 static_cast<std::uintptr_t>(elements * size_of(storage.dtype)));
}

namespace {

char* accumulator(const Storage& storage, const Block& block, std::int64_t row, std::int64_t column) {
  return block.acc +
         4 * (storage.piece * block.piece_stride + (row - block.row0) * block.acc_row + column - block.column0);
}

}  // namespace

// The argument is written in its place. A copy reads two members at once, and waits until both
// stores are done (decision 0033).
void PhaseExecutor::argument(StripArg& to, const Source& source, Level level, const PhaseFrame& frame,
                             const Block& block, const Tile& tile) const {
  const bool by_row = source.level == Level::row && level == Level::tile;
  if (source.where == Source::Where::slot) {
    const char* slot = frame.memory + source.index;
    to.data = by_row ? slot + (tile.row0 - block.row0) * strip_bytes(source.type) : slot;
    to.row_stride = by_row ? 1 : source.level == Level::tile ? tile.columns : 0;
    to.column_stride = by_row || source.level == Level::uniform ? 0 : 1;
    return;
  }
  const Storage& storage = storages_[static_cast<std::size_t>(source.index)];
  const std::int64_t row_stride = storage.kind == Storage::Kind::accumulator ? block.acc_row : storage.strides[1];
  const std::int64_t column = source.level == Level::row ? 0 : column_of(storage, tile.column0);
  const std::int64_t row = source.level == Level::column ? 0 : tile.row0;
  to.data = storage.kind == Storage::Kind::accumulator
                ? accumulator(storage, block, row, column)
                : address(storage, frame, static_cast<int>(source.index), row, column);
  const bool turned = source.level == Level::row && !by_row;  // rows are the strip's columns
  to.row_stride = turned || source.level == Level::column ? 0 : row_stride;
  to.column_stride = turned ? row_stride : by_row ? 0 : 1;
}

void PhaseExecutor::load(const Step& step, Level level, PhaseFrame& frame, const Block& block, const Tile& tile) const {
  const Storage& storage = storages_[static_cast<std::size_t>(step.storage)];
  const std::int64_t row_stride = storage.kind == Storage::Kind::accumulator ? block.acc_row : storage.strides[1];
  auto at = [&](std::int64_t i, std::int64_t n) -> const char* {
    if (storage.kind == Storage::Kind::accumulator) { return accumulator(storage, block, i, n); }
    return address(storage, frame, step.storage, i / storage.divide_rows, n);
  };
  char* const slot = frame.memory + step.out.index;
  const std::int64_t size = strip_bytes(step.out.type);
  StripArg from;
  Strip strip;
  strip.args = &from;
  ask(strip, ahead(step, frame, block, tile));
  if (level == Level::row || level == Level::uniform) {
    strip.rows = 1;
    for (std::int64_t i = tile.row0, end = tile.row0 + tile.rows; i < end; i += strip.columns) {
      strip.columns =
          storage.divide_rows == 1 ? end - i : std::min(end, (i / storage.divide_rows + 1) * storage.divide_rows) - i;
      from = {at(i, 0), 0, storage.divide_rows == 1 && level == Level::row ? row_stride : 0};
      strip.out = slot + (i - tile.row0) * size;
      strip.out_row_stride = strip.columns;
      call(frame, step.function, strip);
    }
    return;
  }
  const std::int64_t pitch = level == Level::tile ? tile.columns : 0;
  const std::int64_t rows = level == Level::tile ? tile.rows : 1;
  const bool even = storage.divide_rows == 1;
  for_runs(storage.runs, tile.column0, tile.columns,
           [&](std::int64_t j, std::int64_t n, std::int64_t length, std::int64_t stride) {
             strip.columns = length;
             for (std::int64_t r = 0; r < rows; r += strip.rows) {
               strip.rows = even ? rows : 1;
               from = {at(level == Level::tile ? tile.row0 + r : 0, n), row_stride, stride * storage.strides[2]};
               strip.out = slot + (r * pitch + j - tile.column0) * size;
               strip.out_row_stride = pitch;
               call(frame, step.function, strip);
             }
           });
}

void PhaseExecutor::store(const Step& step, Level level, PhaseFrame& frame, const Block& block,
                          const Tile& tile) const {
  const Storage& storage = storages_[static_cast<std::size_t>(step.storage)];
  const Source& source = arguments_[static_cast<std::size_t>(step.first_argument)];
  StripArg from;
  argument(from, source, level, frame, block, tile);
  const auto* const value = static_cast<const char*>(from.data);
  Strip strip;
  strip.args = &from;
  strip.rows = 1;
  strip.past = step.past;
  ask(strip, ahead(step, frame, block, tile));
  if (level == Level::row || level == Level::uniform) {
    strip.columns = tile.rows;
    strip.out = address(storage, frame, step.storage, tile.row0, 0);
    strip.out_row_stride = tile.rows;
    strip.out_column_stride = storage.strides[1];
    call(frame, step.function, strip);
    return;
  }
  strip.rows = level == Level::tile ? tile.rows : 1;
  const std::int64_t size = strip_bytes(source.type);
  for_runs(storage.runs, tile.column0, tile.columns,
           [&](std::int64_t j, std::int64_t n, std::int64_t length, std::int64_t stride) {
             from.data = value + (j - tile.column0) * from.column_stride * size;
             strip.columns = length;
             strip.out = address(storage, frame, step.storage, level == Level::tile ? tile.row0 : 0, n);
             strip.out_row_stride = storage.strides[1];
             strip.out_column_stride = stride * storage.strides[2];
             call(frame, step.function, strip);
           });
}

void PhaseExecutor::coordinates(const Step& step, Level level, PhaseFrame& frame, const Block& block,
                                const Tile& tile) const {
  const Coordinate& what = coordinates_[static_cast<std::size_t>(step.detail)];
  const std::int64_t count = level == Level::row ? tile.rows : level == Level::column ? tile.columns : 1;
  char* out = frame.memory + step.out.index;
  auto write = [&](std::int64_t index, std::int64_t value) {
    if (what.op == Op::get && what.group != 0) {
      value = what.scale * std::max<std::int64_t>(0, std::min(what.group, what.extent - value * what.group));
    }
    switch (step.out.type) {
      case DType::i32: reinterpret_cast<std::int32_t*>(out)[index] = static_cast<std::int32_t>(value); break;
      case DType::i64: reinterpret_cast<std::int64_t*>(out)[index] = value; break;
      default: reinterpret_cast<float*>(out)[index] = static_cast<float>(value); break;
    }
  };
  if (what.op == Op::batch_index) {
    for (std::int64_t e = 0; e < count; ++e) write(e, block.batch);
  } else if (what.op == Op::get && what.group == 0) {
    for (std::int64_t e = 0; e < count; ++e) write(e, what.scale);
  } else if (level == Level::row) {
    for (std::int64_t e = 0; e < count; ++e) write(e, (tile.row0 + e) / what.divide_rows);
  } else if (level == Level::column) {
    for_runs(what.runs, tile.column0, count,
             [&](std::int64_t j, std::int64_t n, std::int64_t length, std::int64_t stride) {
               for (std::int64_t e = 0; e < length; ++e) write(j - tile.column0 + e, n + e * stride);
             });
  } else {
    write(0, 0);
  }
  if (frame.recording) frame.recording->restore(out, static_cast<std::size_t>(count * strip_bytes(step.out.type)));
}

char* PhaseExecutor::entry_of(int reduction, const PhaseFrame& frame, const Block& block) const {
  const auto r = static_cast<std::size_t>(reduction);
  return reductions_[r].owned() ? frame.memory + entry_offsets_[r] : reductions_[r].entry(block.partial);
}

void PhaseExecutor::run_step(const Step& step, Level level, PhaseFrame& frame, const Block& block,
                             const Tile& tile) const {
  switch (step.kind) {
    case Step::Kind::load: return load(step, level, frame, block, tile);
    case Step::Kind::store: return store(step, level, frame, block, tile);
    case Step::Kind::index: return coordinates(step, level, frame, block, tile);
    default: break;
  }
  for (int a = 0; a < step.argument_count; ++a) {
    argument(frame.arguments[static_cast<std::size_t>(a)],
             arguments_[static_cast<std::size_t>(step.first_argument + a)], level, frame, block, tile);
  }
  if (step.kind == Step::Kind::reduce) {
    const ReductionExecutor& reduction = reductions_[static_cast<std::size_t>(step.detail)];
    char* entry = entry_of(step.detail, frame, block);
    if (frame.recording != nullptr) {
      ReduceStrip strip{tile.rows, tile.columns, frame.arguments.data()};
      const std::vector<ReductionExecutor::State> states = reduction.states();
      for (std::size_t i = 0; i < states.size(); ++i)
        strip.state[i] = entry + states[i].offset + (tile.row0 - block.row0) * strip_bytes(DType::f32);
      strip.state_row_stride = 1;
      const std::span<const StripAhead> asked = ahead(step, frame, block, tile);
      strip.ahead = asked.data();
      strip.ahead_count = static_cast<int>(asked.size());
      return frame.recording->add(reduction.along(), strip, step.argument_count);
    }
    const ReductionExecutor::Region strip{tile.row0, tile.rows, tile.column0, tile.columns};
    const ReductionExecutor::Region whole{block.row0, block.rows, block.column0, block.columns};
    reduction.take(entry, frame.memory + combiner_offset_, step.piece, frame.arguments.data(), strip, whole,
                   ahead(step, frame, block, tile));
    return;
  }
  Strip strip = result_strip(step, level, frame, tile);
  strip.args = frame.arguments.data();
  if (step.kind == Step::Kind::cast) return cast_rounded(casts_[static_cast<std::size_t>(step.detail)], strip);
  if (step.kind == Step::Kind::native) return call_native(*natives_[static_cast<std::size_t>(step.detail)], strip);
  RandomStrip random;
  if (step.detail >= 0) {
    random = randoms_[static_cast<std::size_t>(step.detail)];
    if (phase_->code[static_cast<std::size_t>(step.value)].batched)
      random.batch = static_cast<std::uint32_t>(block.batch);
    strip.extra = &random;
  }
  strip.past = step.past;
  ask(strip, ahead(step, frame, block, tile));
  if (step.sums >= 0) {
    const ReductionExecutor& reduction = reductions_[static_cast<std::size_t>(step.sums)];
    strip.sums = reduction.sums(entry_of(step.sums, frame, block), tile.row0,
                                {block.row0, block.rows, block.column0, block.columns});
    strip.sum_row_stride = reduction.sum_row_stride();
    strip.keeps = step.keeps;
  }
  call(frame, step.function, strip, step.argument_count);
}

// The strip whose result is the step's value.
Strip PhaseExecutor::result_strip(const Step& step, Level level, const PhaseFrame& frame, const Tile& tile) const {
  Strip strip;
  strip.rows = level == Level::tile ? tile.rows : 1;
  strip.columns = level == Level::uniform ? 1 : level == Level::row ? tile.rows : tile.columns;
  strip.out_row_stride = strip.columns;
  if (step.out.where == Source::Where::storage) {
    const Storage& storage = storages_[static_cast<std::size_t>(step.out.index)];
    strip.out = address(storage, frame, static_cast<int>(step.out.index), tile.row0, column_of(storage, tile.column0));
    strip.out_row_stride = storage.strides[1];
  } else {
    strip.out = frame.memory + step.out.index;
  }
  return strip;
}

void PhaseExecutor::write_zero(const Step& step, Level level, const PhaseFrame& frame, const Tile& tile) const {
  static constexpr std::int64_t zero = 0;
  const StripArg from{&zero, 0, 0};
  Strip strip = result_strip(step, level, frame, tile);
  strip.args = &from;
  table_->copy[compute_index(step.out.type)](strip);
}

void PhaseExecutor::run_level(Level level, PhaseFrame& frame, const Block& block, const Tile& tile) const {
  for (const Step& step : steps_[static_cast<int>(level)]) {
    if (step.kind == Step::Kind::store) {
      // A value that does not vary along an axis is written by the first block along it.
      const bool along_m = level == Level::tile || level == Level::row;
      const bool along_n = level == Level::tile || level == Level::column;
      if ((!along_m && block.row0 != 0) || (!along_n && block.column0 != 0)) continue;
    }
    if (guarded_ && step.value >= 0) {
      const std::uint8_t active = frame.active[static_cast<std::size_t>(step.value)];
      if (active == skipped) continue;
      if (active == zeroed) {
        write_zero(step, level, frame, tile);
        continue;
      }
    }
    run_step(step, level, frame, block, tile);
  }
}

bool PhaseExecutor::holds(const Source& guard, const PhaseFrame& frame) const {
  std::int32_t value = 0;
  std::memcpy(&value, frame.memory + guard.index, sizeof value);
  return value != 0;
}

void PhaseExecutor::find_storages(PhaseFrame& frame, std::int64_t batch) const {
  for (std::size_t p = 0; p < storages_.size(); ++p) {
    const Storage& storage = storages_[p];
    if (storage.kind != Storage::Kind::bound) continue;
    frame.storages[p] = storage.data + batch * storage.strides[0] * size_of(storage.dtype);
  }
}

void PhaseExecutor::find_locals(PhaseFrame& frame, const Block& block) const {
  for (std::size_t p = 0; p < storages_.size(); ++p) {
    const Storage& storage = storages_[p];
    if (storage.kind != Storage::Kind::local) continue;
    const std::int64_t bytes = block.row0 * storage.strides[1] * size_of(storage.dtype);
    frame.storages[p] = reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(block.locals[storage.local]) -
                                                static_cast<std::uintptr_t>(bytes));
  }
}

// Computes uniform values, and finds from the guards among them which values are needed at all.
void PhaseExecutor::begin_batch(PhaseFrame& frame, const Block& block) const {
  frame.batch = block.batch;
  find_storages(frame, block.batch);
  for (const auto& [source, literal] : constants_) write_constant(literal, source.type, frame.memory + source.index);
  const std::vector<Instruction>& code = phase_->code;
  const Tile one{0, 1, 0, 1};
  for (const Step& step : steps_[static_cast<int>(Level::uniform)]) {
    if (step.kind == Step::Kind::store) continue;
    const lower::ValueId guard = step.value >= 0 ? code[static_cast<std::size_t>(step.value)].guard : -1;
    if (guard >= 0 && holds(sources_[static_cast<std::size_t>(guard)], frame)) {
      write_zero(step, Level::uniform, frame, one);
    } else {
      run_step(step, Level::uniform, frame, block, one);
    }
  }
  if (!guarded_) return;
  std::fill(frame.active.begin(), frame.active.begin() + static_cast<std::ptrdiff_t>(code.size()), skipped);
  auto need = [&](lower::ValueId v) {
    if (frame.active[static_cast<std::size_t>(v)] == skipped) frame.active[static_cast<std::size_t>(v)] = computed;
  };
  lower::for_each_use(*phase_, need);
  for (std::size_t v = code.size(); v-- > 0;) {
    if (frame.active[v] == skipped) continue;
    if (code[v].guard >= 0 && holds(sources_[static_cast<std::size_t>(code[v].guard)], frame)) {
      frame.active[v] = zeroed;
    } else {
      for (const lower::ValueId arg : code[v].args) need(arg);
    }
  }
}

void PhaseExecutor::run(PhaseFrame& frame, const Block& block) const {
  const bool again = block.row0 != 0 && block.rows == frame.script_rows && frame.batch == block.batch;
  if (again && block.row0 + block.rows + rows_on_ <= rows_) return frame.script.run(block.batch, block.row0);
  find_locals(frame, block);
  for (std::size_t r = 0; r < reductions_.size(); ++r) {
    reductions_[r].reset(entry_of(static_cast<int>(r), frame, block));
  }
  if (frame.batch != block.batch) begin_batch(frame, block);
  if (block.row0 == 0 && block.column0 == 0) {
    for (const Step& step : steps_[static_cast<int>(Level::uniform)]) {
      if (step.kind == Step::Kind::store) run_step(step, Level::uniform, frame, block, {0, 1, 0, 1});
    }
  }
  if (frame.whole == block) frame.script.run();
  else run_levels(frame, block);
  for (std::size_t r = 0; r < reductions_.size(); ++r) {
    if (!reductions_[r].owned()) continue;
    reductions_[r].finish(frame.memory + entry_offsets_[r], block.batch,
                          {block.row0, block.rows, block.column0, block.columns});
  }
}

// Whether a block at one place makes the same calls each time.
bool PhaseExecutor::calls_alike() const {
  using Kind = Step::Kind;
  const auto alike = [](const Step& step) {
    return step.kind == Kind::load || step.kind == Kind::store || step.kind == Kind::index || step.kind == Kind::apply;
  };
  return !guarded_ && std::all_of(std::begin(steps_) + 1, std::end(steps_),
                                  [&](const std::vector<Step>& steps) { return std::ranges::all_of(steps, alike); });
}

void PhaseExecutor::prepare_whole(PhaseFrame& frame, const Block& block) const {
  if (!records_ || block.rows != rows_ || block.columns != columns_ || rows_ * columns_ > short_block) return;
  find_storages(frame, block.batch);
  find_locals(frame, block);
  frame.recording = &frame.script;
  run_levels(frame, block);
  frame.recording = nullptr;
  frame.whole = block;
}

void PhaseExecutor::run_levels(PhaseFrame& frame, const Block& block) const {
  if (domain_.has(Axis::m)) run_level(Level::row, frame, block, {block.row0, block.rows, 0, 1});
  if (domain_.has(Axis::n)) {
    const auto strip = [&](std::int64_t r, std::int64_t c) -> Tile {
      return {block.row0 + r, std::min(strip_rows_, block.rows - r), block.column0 + c,
              std::min(strip_columns_, block.columns - c)};
    };
    if (steps_[static_cast<int>(Level::column)].empty()) {
      // The block goes row by row, as memory lies.
      for (std::int64_t r = 0; r < block.rows; r += strip_rows_) {
        for (std::int64_t c = 0; c < block.columns; c += strip_columns_)
          run_level(Level::tile, frame, block, strip(r, c));
      }
    } else {
      for (std::int64_t c = 0; c < block.columns; c += strip_columns_) {
        const Tile first = strip(0, c);
        run_level(Level::column, frame, block, {0, 1, first.column0, first.columns});
        if (!domain_.has(Axis::m)) continue;
        for (std::int64_t r = 0; r < block.rows; r += strip_rows_) run_level(Level::tile, frame, block, strip(r, c));
      }
    }
  }
}

bool PhaseExecutor::repeats() const {
  const auto repeats = [](const Step& step) {
    return step.kind == Step::Kind::load || step.kind == Step::Kind::store || step.kind == Step::Kind::reduce ||
           (step.kind == Step::Kind::apply && step.detail < 0);
  };
  for (const Level level : {Level::row, Level::column, Level::tile}) {
    const std::vector<Step>& steps = steps_[static_cast<int>(level)];
    if (!std::all_of(steps.begin(), steps.end(), repeats)) return false;
  }
  return !guarded_ && std::all_of(storages_.begin(), storages_.end(), [](const Storage& storage) {
    return storage.divide_rows == 1;
  }) && std::all_of(reductions_.begin(), reductions_.end(), [](const auto& x) { return x.is_by_row(); });
}

void PhaseExecutor::prepare(PhaseFrame& frame, Block block) const {
  if (!repeats() || rows_ < 4 * block.rows + rows_on_) return;
  const auto recorded = [&](std::int64_t batch, std::int64_t row0) {
    Script script;
    frame.recording = &script;
    block.batch = batch;
    block.row0 = row0;
    find_storages(frame, batch);
    find_locals(frame, block);
    record(frame, block);
    frame.recording = nullptr;
    return script;
  };
  frame.script = recorded(0, block.rows);  // the first block does more
  frame.script.settle(recorded(0, 2 * block.rows), recorded(1, block.rows), block.rows);
  frame.script_rows = block.rows;
}

void PhaseExecutor::record(PhaseFrame& frame, const Block& block) const {
  Strip strip;
  StripArg from;
  strip.rows = 1;
  strip.columns = block.rows;
  strip.args = &from;
  const auto each_state = [&](auto body) {
    for (std::size_t r = 0; r < reductions_.size(); ++r) {
      for (const ReductionExecutor::State& state : reductions_[r].states())
        body(state, frame.memory + entry_offsets_[r] + state.offset);
    }
  };
  each_state([&](const ReductionExecutor::State& state, char* at) {
    from.data = state.identity;
    strip.out = at;
    call(frame, fill, strip);
  });
  run_levels(frame, block);
  each_state([&](const ReductionExecutor::State& state, char* at) {
    if (state.result == nullptr) return;
    from.data = at;
    strip.out = state.result + block.batch * state.strides[0] + block.row0 * state.strides[1];
    strip.out_column_stride = state.strides[1];
    call(frame, copy, strip);
  });
}

}  // namespace postlude::inline v0::cpu
