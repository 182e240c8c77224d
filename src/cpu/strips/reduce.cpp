#include "cpu/strips/reduce.h"

#include "core/convert.h"
#include "core/divide.h"
#include "cpu/strips/phase.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace postlude::inline v0::cpu {

using lower::Reducer;

namespace {

StripReducer strip_reducer(Reducer reducer) {
  switch (reducer) {
    case Reducer::sum: return StripReducer::sum;
    case Reducer::prod: return StripReducer::prod;
    case Reducer::min: return StripReducer::min;
    case Reducer::max: return StripReducer::max;
    case Reducer::any: return StripReducer::any;
    case Reducer::all: return StripReducer::all;
    case Reducer::argmax: return StripReducer::argmax;
    case Reducer::argmin: return StripReducer::argmin;
    case Reducer::online_softmax: return StripReducer::online_softmax;
    case Reducer::welford: return StripReducer::welford;
    case Reducer::custom: break;
  }
  throw Error(ErrorCode::internal, "a general reduction has no strip reducer");
}

template <class T>
std::int64_t bits_of(T value) {
  std::int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

std::int64_t number(DType type, double value) {
  switch (type) {
    case DType::i32: return bits_of(static_cast<std::int32_t>(core::to_integer(type, value)));
    case DType::i64: return core::to_integer(type, value);
    case DType::boolean: return bits_of(static_cast<std::int32_t>(value != 0));
    default: return bits_of(static_cast<float>(value));
  }
}

// The least (sign -1) or largest (+1) value of a type.
std::int64_t extreme(DType type, int sign) {
  if (type == DType::i32)
    return bits_of(sign < 0 ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int32_t>::max());
  if (type == DType::i64)
    return sign < 0 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
  return bits_of(static_cast<float>(sign) * std::numeric_limits<float>::infinity());
}

std::int64_t identity_of(Reducer reducer, DType type) {
  switch (reducer) {
    case Reducer::prod:
    case Reducer::all: return number(type, 1);
    case Reducer::min:
    case Reducer::argmin: return extreme(type, 1);
    case Reducer::max:
    case Reducer::argmax:
    case Reducer::online_softmax: return extreme(type, -1);
    default: return 0;
  }
}

}  // namespace

ReductionExecutor::ReductionExecutor(const ReductionSetting& set)
    : table_(set.table), strip_columns_(std::max<std::int64_t>(1, set.strip_columns)) {
  const lower::Reduction& reduction = *set.reduction;
  const Axes domain = set.phase->domain;
  vector_along_m_ = domain.has(Axis::m) && !domain.has(Axis::n);
  const bool tile = domain.has(Axis::m) && domain.has(Axis::n);
  const Axis along = vector_along_m_ ? Axis::m : Axis::n;  // of the strip's columns
  keep_batch_ = !reduction.axes.has(Axis::b);
  keep_rows_ = tile && !reduction.axes.has(Axis::m);
  keep_columns_ = domain.has(along) && !reduction.axes.has(along);
  if (reduction.group > 0) {  // one axis: the language has no other
    (keep_columns_ || !domain.has(along) ? row_group_ : column_group_) = reduction.group;
  }
  batch_ = set.phase->batched ? set.shape.batch : 1;
  rows_ = tile ? set.rows : 1;
  columns_ = vector_along_m_ ? set.rows : domain.has(Axis::n) ? set.columns : 1;
  block_rows_ = std::max<std::int64_t>(1, tile ? std::min(set.block_rows, set.rows) : 1);
  block_columns_ = std::max<std::int64_t>(1, std::min(vector_along_m_ ? set.block_rows : set.block_columns, columns_));

  bool mapped = false;
  for (const lower::Reduction::Piece& piece : reduction.pieces) {
    runs_.push_back(column_runs(piece.columns, columns_));
    mapped = mapped || !piece.columns.identity();
    std::vector<Segment>& segments = segments_.emplace_back();
    if (column_group_ == 0) continue;
    for (std::int64_t c = 0; c < columns_; ++c) {
      const std::int64_t key = piece.columns(c, columns_) / column_group_;
      if (segments.empty() || segments.back().key != key) segments.push_back({c, 0, key});
      ++segments.back().length;
    }
  }
  total_rows_ = keep_rows_ ? rows_ : row_group_ > 0 ? ceil_div(rows_, row_group_) : 1;
  if (keep_columns_ || column_group_ > 0) {
    total_columns_ = keep_columns_ ? columns_ : ceil_div(columns_, column_group_);
    if (mapped) {
      total_columns_ = 0;
      for (const std::vector<ColumnRun>& runs : runs_) {
        for (const ColumnRun& run : runs) {
          const std::int64_t last = run.n + (run.length - 1) * run.stride;
          total_columns_ = std::max(total_columns_, (keep_columns_ ? last : last / column_group_) + 1);
        }
      }
    }
  }
  mapped_groups_ = mapped && column_group_ > 0;
  row_capacity_ = keep_rows_ ? block_rows_ : row_group_ > 0 ? std::min(total_rows_, block_rows_ / row_group_ + 2) : 1;
  column_capacity_ = keep_columns_       ? block_columns_
                     : mapped_groups_    ? total_columns_
                     : column_group_ > 0 ? std::min(total_columns_, block_columns_ / column_group_ + 2)
                                         : 1;
  const bool empty = rows_ == 0 || columns_ == 0;
  owned_ = !empty && (keep_batch_ || batch_ == 1) && (keep_rows_ || block_rows_ >= rows_) &&
           (keep_columns_ || block_columns_ >= columns_);

  // Components.
  std::vector<DType> types{reduction.type};
  switch (reduction.reducer) {
    case Reducer::argmax:
    case Reducer::argmin: types = {reduction.type, DType::i64}; break;
    case Reducer::online_softmax: types = {DType::f32, DType::f32}; break;
    case Reducer::welford: types = {DType::f32, DType::f32, DType::f32}; break;
    case Reducer::any:
    case Reducer::all: types = {DType::boolean}; break;
    case Reducer::custom:
      types.clear();
      for (const lower::ValueId arg : reduction.pieces[0].args) types.push_back(set.phase->code[arg].type);
      break;
    default: break;
  }
  if (reduction.reducer == Reducer::custom) {
    combiner_.emplace(*reduction.combine, types, *table_);
  } else {
    const int which = static_cast<int>(strip_reducer(reduction.reducer));
    const int type = compute_index(types[0]);
    along_ = table_->along[which][type];
    across_ = table_->across[which][type];
    merge_ = table_->merge[which][type];
    if (along_ == nullptr) throw Error(ErrorCode::internal, "the CPU has no reducer for this type");
  }
  arguments_ = static_cast<int>(reduction.pieces[0].args.size());
  const std::int64_t rectangles = keep_columns_ ? static_cast<std::int64_t>(reduction.pieces.size()) : 1;
  const std::int64_t keys = rectangles * row_capacity_ * column_capacity_;
  const std::int64_t total_keys = (keep_batch_ ? batch_ : 1) * total_rows_ * total_columns_;
  for (std::size_t i = 0; i < types.size(); ++i) {
    Component component;
    component.type = types[i];
    component.identity = reduction.reducer == Reducer::custom ? number(types[i], reduction.identity[i])
                         : i == 0                             ? identity_of(reduction.reducer, types[i])
                         : types[i] == DType::i64             ? -1
                                                              : 0;
    component.offset = entry_bytes_;
    entry_bytes_ += round_up(keys * strip_bytes(types[i]), 64);
    component.total_offset = total_bytes_;
    total_bytes_ += round_up(total_keys * strip_bytes(types[i]), 64);
    if (i < reduction.results.size() && reduction.results[i] >= 0) {
      component.buffer = reduction.results[i];
      const Placed& placed = set.buffers[component.buffer];
      component.result.dtype = placed.dtype;
      component.result.strides = placed.strides;
    }
    components_.push_back(component);
  }
  entries_ = empty ? 0 : batch_ * ceil_div(rows_, block_rows_) * ceil_div(columns_, block_columns_);
}

void ReductionExecutor::bind(std::span<const Bound> buffers) {
  for (Component& component : components_) {
    if (component.buffer >= 0) component.result.data = buffers[static_cast<std::size_t>(component.buffer)].data;
  }
}

ReductionExecutor::Region ReductionExecutor::turned(const Region& region) const {
  return vector_along_m_ ? Region{0, 1, region.row0, region.rows} : region;
}

ReductionExecutor::Keys ReductionExecutor::keys_of(const Region& block) const {
  Keys keys;
  if (keep_rows_) {
    keys.row0 = block.row0;
    keys.rows = block.rows;
  } else if (row_group_ > 0) {
    keys.row0 = block.row0 / row_group_;
    keys.rows = (block.row0 + block.rows - 1) / row_group_ - keys.row0 + 1;
  }
  if (keep_columns_) {
    keys.column0 = block.column0;
    keys.columns = block.columns;
  } else if (mapped_groups_) {
    keys.columns = total_columns_;
  } else if (column_group_ > 0) {
    keys.column0 = block.column0 / column_group_;
    keys.columns = (block.column0 + block.columns - 1) / column_group_ - keys.column0 + 1;
  }
  return keys;
}

template <class Body>
void ReductionExecutor::for_kept(int piece, std::int64_t c0, std::int64_t count, Body&& body) const {
  const std::vector<ColumnRun>& runs = runs_[static_cast<std::size_t>(piece)];
  if (runs.empty()) return body(c0, c0, count, std::int64_t{1});
  for (const ColumnRun& run : runs) {
    const std::int64_t from = std::max(c0, run.j), to = std::min(c0 + count, run.j + run.length);
    if (from < to) body(from, run.n + (from - run.j) * run.stride, to - from, run.stride);
  }
}

void ReductionExecutor::fill(char* at, const Component& component, std::int64_t count) const {
  if (strip_bytes(component.type) == 8) std::fill_n(reinterpret_cast<std::int64_t*>(at), count, component.identity);
  else std::fill_n(reinterpret_cast<std::int32_t*>(at), count, static_cast<std::int32_t>(component.identity));
}

void ReductionExecutor::reset(char* entry) const {
  if (entries_ == 0) return;  // over nothing, beside a phase that is over something: it has no memory
  const std::int64_t rectangles = keep_columns_ ? static_cast<std::int64_t>(runs_.size()) : 1;
  for (const Component& component : components_) {
    fill(entry + component.offset, component, rectangles * row_capacity_ * column_capacity_);
  }
}

void ReductionExecutor::take_rows(void* const* state, std::int64_t state_row_stride, const StripArg* arguments,
                                  std::int64_t rows, std::int64_t columns, char* scratch,
                                  std::span<const StripAhead> ahead) const {
  if (!combiner_) {
    const ReduceStrip strip{rows,
                            columns,
                            arguments,
                            {state[0], state[1], state[2]},
                            state_row_stride,
                            ahead.data(),
                            static_cast<int>(ahead.size())};
    return along_(strip);
  }
  // Each row is folded in halves until one element is left.
  const std::size_t k = components_.size();
  char* const work = scratch + static_cast<std::int64_t>(k) * strip_columns_ * 8;
  void *low[max_components], *target[max_components];
  const void* high[max_components];
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < k; ++i) {
      const std::int64_t size = strip_bytes(components_[i].type);
      low[i] = scratch + static_cast<std::int64_t>(i) * strip_columns_ * 8;
      std::memcpy(low[i], static_cast<const char*>(arguments[i].data) + r * arguments[i].row_stride * size,
                  static_cast<std::size_t>(columns * size));
      target[i] = static_cast<char*>(state[i]) + r * state_row_stride * size;
    }
    for (std::int64_t left = columns; left > 1;) {
      const std::int64_t half = (left + 1) / 2;
      for (std::size_t i = 0; i < k; ++i)
        high[i] = static_cast<char*>(low[i]) + half * strip_bytes(components_[i].type);
      combiner_->combine(low, high, low, left - half, work);
      left = half;
    }
    for (std::size_t i = 0; i < k; ++i) high[i] = low[i];
    combiner_->combine(target, high, target, 1, work);
  }
}

void ReductionExecutor::take_across(void* const* state, std::int64_t state_row_stride, const StripArg* arguments,
                                    std::int64_t rows, std::int64_t columns, char* scratch) const {
  if (!combiner_) {
    ReduceStrip strip{rows, columns, arguments, {state[0], state[1], state[2]}, state_row_stride};
    return across_(strip);
  }
  const std::size_t k = components_.size();
  char* const work = scratch + static_cast<std::int64_t>(k) * strip_columns_ * 8;
  void* target[max_components];
  const void* from[max_components];
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; c += strip_columns_) {
      for (std::size_t i = 0; i < k; ++i) {
        const std::int64_t size = strip_bytes(components_[i].type);
        target[i] = static_cast<char*>(state[i]) + (r * state_row_stride + c) * size;
        from[i] = static_cast<const char*>(arguments[i].data) + (r * arguments[i].row_stride + c) * size;
      }
      combiner_->combine(target, from, target, std::min(strip_columns_, columns - c), work);
    }
  }
}

void ReductionExecutor::take(char* entry, char* scratch, int piece, const StripArg* arguments,
                             const Region& given_strip, const Region& given_block,
                             std::span<const StripAhead> ahead) const {
  const Region strip = turned(given_strip), block = turned(given_block);
  const Keys keys = keys_of(block);
  const std::int64_t rectangle = keep_columns_ ? piece * row_capacity_ * column_capacity_ : 0;
  StripArg part[max_components];
  void* state[max_components];
  // Rows [r, r + rows) have consecutive keys (kept), or one.
  for (std::int64_t r = strip.row0, end = strip.row0 + strip.rows; r < end;) {
    std::int64_t rows = end - r, key = 0, stride = 0;
    if (keep_rows_) {
      key = r - keys.row0;
      stride = column_capacity_;
    } else if (row_group_ > 0) {
      key = r / row_group_ - keys.row0;
      rows = std::min(rows, (r / row_group_ + 1) * row_group_ - r);
    }
    auto prepare = [&](std::int64_t c, std::int64_t column_key) {
      for (int i = 0; i < arguments_; ++i) {
        part[i] = arguments[i];
        const std::int64_t element =
            (r - strip.row0) * part[i].row_stride + (c - strip.column0) * part[i].column_stride;
        part[i].data = static_cast<const char*>(part[i].data) +
                       element * strip_bytes(components_[static_cast<std::size_t>(i)].type);
      }
      for (std::size_t i = 0; i < components_.size(); ++i) {
        const std::int64_t element = rectangle + key * column_capacity_ + column_key;
        state[i] = entry + components_[i].offset + element * strip_bytes(components_[i].type);
      }
    };
    if (keep_columns_) {
      prepare(strip.column0, strip.column0 - block.column0);
      take_across(state, stride, part, rows, strip.columns, scratch);
    } else if (column_group_ == 0) {
      prepare(strip.column0, 0);
      take_rows(state, stride, part, rows, strip.columns, scratch, ahead);
    } else {
      const std::vector<Segment>& segments = segments_[static_cast<std::size_t>(piece)];
      auto segment = std::upper_bound(segments.begin(), segments.end(), strip.column0,
                                      [](std::int64_t c, const Segment& s) { return c < s.c; }) -
                     1;
      for (std::int64_t c = strip.column0, last = strip.column0 + strip.columns; c < last; ++segment) {
        const std::int64_t columns = std::min(last, segment->c + segment->length) - c;
        prepare(c, segment->key - keys.column0);
        take_rows(state, stride, part, rows, columns, scratch, {});
        c += columns;
      }
    }
    r += rows;
  }
}

// Writes the keys of one rectangle to the result; `from` is at its first key.
void ReductionExecutor::write(const Component& component, const char* from, std::int64_t pitch, std::int64_t batch,
                              const Keys& keys, std::int64_t column_key_stride) const {
  const Bound& to = component.result;
  if (component.buffer < 0) return;
  const std::int64_t row_stride = vector_along_m_ ? 0 : to.strides[1];
  const std::int64_t column_stride = vector_along_m_ ? to.strides[1] : to.strides[2];
  char* const out = static_cast<char*>(to.data) +
                    (batch * to.strides[0] + keys.row0 * row_stride + keys.column0 * column_stride) * size_of(to.dtype);
  // A strip would take longer to begin than most keys.
  if (keys.columns == 1 && component.type == DType::f32 && to.dtype == DType::f32) {
    for (std::int64_t r = 0; r < keys.rows; ++r)
      reinterpret_cast<float*>(out)[r * row_stride] = reinterpret_cast<const float*>(from)[r * pitch];
    return;
  }
  StripArg source{from, pitch, 1};
  Strip strip;
  strip.args = &source;
  strip.rows = keys.rows;
  strip.columns = keys.columns;
  strip.out = out;
  strip.out_row_stride = row_stride;
  strip.out_column_stride = column_stride * column_key_stride;
  if (keys.columns == 1 && pitch == 1) {  // one key a row: rows are the strip's columns
    strip.rows = 1;
    strip.columns = keys.rows;
    strip.out_column_stride = row_stride;
    source = {from, 0, 1};
  }
  table_->store[compute_index(component.type)][static_cast<int>(to.dtype)](strip);
}

void ReductionExecutor::finish(const char* entry, std::int64_t batch, const Region& given_block) const {
  const Region block = turned(given_block);
  const Keys keys = keys_of(block);
  for (const Component& component : components_) {
    const char* at = entry + component.offset;
    const std::int64_t size = strip_bytes(component.type);
    if (!keep_columns_) {
      write(component, at, column_capacity_, batch, keys, 1);
      continue;
    }
    for (int p = 0; p < static_cast<int>(runs_.size()); ++p) {
      const char* rectangle = at + p * row_capacity_ * column_capacity_ * size;
      for_kept(p, block.column0, block.columns,
               [&](std::int64_t c, std::int64_t key, std::int64_t count, std::int64_t stride) {
                 write(component, rectangle + (c - block.column0) * size, column_capacity_, batch,
                       {keys.row0, keys.rows, key, count}, stride);
               });
    }
  }
}

bool ReductionExecutor::is_by_row() const {
  return owned_ && !combiner_ && keep_rows_ && !keep_columns_ && column_group_ == 0 && !vector_along_m_ &&
         std::all_of(components_.begin(), components_.end(), [](const Component& component) {
           return component.type == DType::f32 && (component.buffer < 0 || component.result.dtype == DType::f32);
         });
}

std::vector<ReductionExecutor::State> ReductionExecutor::states() const {
  std::vector<State> states;
  for (const Component& component : components_) {
    states.push_back({&component.identity, component.offset, static_cast<float*>(component.result.data),
                      component.result.strides.data()});
  }
  return states;
}

void ReductionExecutor::combine(char* scratch) const {
  char* const totals = workspace_ + entries_ * entry_bytes_;
  const std::int64_t batches = keep_batch_ ? batch_ : 1;
  for (const Component& component : components_) {
    fill(totals + component.total_offset, component, batches * total_rows_ * total_columns_);
  }
  StripArg part[max_components];
  void* state[max_components];
  // Blocks above each other that have the same keys are rows of one call: to begin each takes longer (decision 0304).
  const bool joined = keep_columns_ && !keep_rows_ && row_group_ == 0 && !combiner_;
  const std::int64_t across = ceil_div(columns_, block_columns_), height = joined ? rows_ : block_rows_;
  const std::int64_t blocks = ceil_div(height, block_rows_);
  for (std::int64_t number = 0, b = 0; b < batch_ && entries_ > 0; ++b, number += (blocks - 1) * across) {
    for (std::int64_t row0 = 0; row0 < rows_; row0 += height) {
      for (std::int64_t column0 = 0; column0 < columns_; column0 += block_columns_, ++number) {
        const Region block{row0, std::min(height, rows_ - row0), column0, std::min(block_columns_, columns_ - column0)};
        const Keys keys = keys_of(block);
        const char* from = entry(number);
        auto merge = [&](std::int64_t first, std::int64_t key, std::int64_t count) {
          for (std::size_t i = 0; i < components_.size(); ++i) {
            const Component& component = components_[i];
            const std::int64_t size = strip_bytes(component.type);
            const std::int64_t total = ((keep_batch_ ? b : 0) * total_rows_ + keys.row0) * total_columns_ + key;
            const std::int64_t pitch = joined ? across * entry_bytes_ / size : column_capacity_;
            part[i] = {from + component.offset + first * size, pitch, 1};
            state[i] = totals + component.total_offset + total * size;
          }
          if (combiner_) return take_across(state, total_columns_, part, keys.rows, count, scratch);
          const ReduceStrip strip{
              joined ? blocks : keys.rows, count, part, {state[0], state[1], state[2]}, joined ? 0 : total_columns_};
          merge_(strip);
        };
        if (!keep_columns_) {
          merge(0, keys.column0, keys.columns);
          continue;
        }
        for (int p = 0; p < static_cast<int>(runs_.size()); ++p) {
          const std::int64_t rectangle = p * row_capacity_ * column_capacity_;
          for_kept(p, column0, block.columns,
                   [&](std::int64_t c, std::int64_t key, std::int64_t count, std::int64_t stride) {
                     if (stride == 1) return merge(rectangle + c - column0, key, count);
                     for (std::int64_t e = 0; e < count; ++e) merge(rectangle + c - column0 + e, key + e * stride, 1);
                   });
        }
      }
    }
  }
  const Keys all{0, total_rows_, 0, total_columns_};
  for (const Component& component : components_) {
    for (std::int64_t b = 0; b < batches; ++b) {
      write(component, totals + component.total_offset + b * total_rows_ * total_columns_ * strip_bytes(component.type),
            total_columns_, b, all, 1);
    }
  }
}

}  // namespace postlude::inline v0::cpu
