// What a strip computes: the values of its elements, and what becomes of them in memory.
#include "te/strip.h"

#include "cpu/strips/ops.h"

#include <algorithm>
#include <cstring>

namespace postlude::inline v0::te {

namespace {

using cpu::compute_index;
using cpu::Strip;
using cpu::StripArg;
using cpu::StripReducer;

constexpr std::int64_t least_row = 16;  // elements for which an operation goes row by row

}  // namespace

// The first `last` values.
void StripNest::compute(Frame& frame, const Box& box, std::int64_t elements, std::size_t last,
                        std::vector<StripArg>& values) const {
  StripArg args[4];
  for (std::size_t v = 0; v < last; ++v) {
    const Value& value = values_[v];
    if (value.kind == Value::Kind::constant) {
      values[v] = {value.literal, 0, 0};
      continue;
    }
    if (counted_ && static_cast<int>(v) == results_[0] && is_counted(box)) continue;
    char* const out = scratch(frame, value.slot);
    const std::int64_t count = value.uniform ? 1 : elements;
    switch (value.kind) {
      case Value::Kind::index: {
        auto* const to = reinterpret_cast<std::int64_t*>(out);
        std::int64_t done = 1;
        to[0] = value.linear.at(frame.loops);
        for (std::size_t o = order_.size(); o-- > 0;) {
          const std::size_t l = order_[o];
          const std::int64_t factor = value.linear.factor(loops_[l].slot);
          if (done == 1) {
            const std::int64_t first = to[0];
            for (std::int64_t r = 1; r < box.count[l]; ++r) to[r] = first + r * factor;
            done = box.count[l];
            continue;
          }
          for (std::int64_t r = 1; r < box.count[l]; ++r)
            for (std::int64_t e = 0; e < done; ++e) to[r * done + e] = to[e] + r * factor;
          done *= box.count[l];
        }
        values[v] = {out, 0, 1};
        break;
      }
      case Value::Kind::load: values[v] = loaded(frame, box, value, elements, out); break;
      case Value::Kind::gather:
        gather(frame, box, value, values, elements, out);
        values[v] = {out, 0, 1};
        break;
      default: {
        for (std::size_t i = 0; i < value.args.size(); ++i) args[i] = values[static_cast<std::size_t>(value.args[i])];
        Strip strip;
        strip.rows = 1;
        strip.columns = count;
        if (std::any_of(args, args + value.args.size(), [](const StripArg& arg) { return arg.row_stride == 1; })) {
          strip.columns = box.count[order_.back()];
          strip.rows = count / strip.columns;
          for (std::size_t i = 0; i < value.args.size(); ++i)
            if (args[i].column_stride == 1) args[i].row_stride = strip.columns;
        }
        strip.out = out;
        strip.out_row_stride = strip.columns;
        strip.args = args;
        strip.extra = &value.random;
        if (value.kind == Value::Kind::rounded) cpu::cast_rounded(value.cast, strip);
        else value.function(strip);
        values[v] = {out, 0, value.uniform ? 0 : 1};
      }
    }
  }
}

StripArg StripNest::loaded(Frame& frame, const Box& box, const Value& value, std::int64_t elements, char* out) const {
  const Access& access = value.access;
  char* const base = frame.buffers[static_cast<std::size_t>(access.buffer.number)];
  if (access.guarded) {
    for (std::size_t d = 0; d < access.index.size(); ++d) {
      std::int64_t low = access.index[d].at(frame.loops), high = low;
      for (std::size_t l = 0; l < loops_.size(); ++l) {
        const std::int64_t change = access.index[d].factor(loops_[l].slot) * (box.count[l] - 1);
        (change < 0 ? low : high) += change;
      }
      if (low >= 0 && high < access.buffer.shape[d].at(frame.loops)) continue;
      gather(frame, box, value, {}, elements, out);
      return {out, 0, 1};
    }
  }
  // Memory that holds the strip as it is, or one element for all, or for each row.
  const std::int64_t offset = access.offset.at(frame.loops), size = size_of(access.buffer.type);
  bool dense = true, same = true, by_row = value.by_row;
  std::int64_t expected = 1, row = 1;
  for (std::size_t o = order_.size(); o-- > 0;) {
    const std::size_t l = order_[o];
    const bool is_row = o + 1 == order_.size();
    if (is_row) by_row &= box.count[l] >= least_row;
    if (box.count[l] == 1) continue;
    const std::int64_t factor = access.offset.factor(loops_[l].slot);
    dense &= factor == expected;
    same &= factor == 0;
    by_row &= factor == (is_row ? 0 : row);
    expected *= box.count[l];
    if (!is_row) row *= box.count[l];
  }
  if (is_direct(access.buffer.type) && (dense || same)) return {base + offset * size, 0, same ? 0 : 1};
  if (is_direct(access.buffer.type) && by_row) return {base + offset * size, 1, 0};
  if (same) {
    const StripArg arg{base + offset * size, 0, 1};
    Strip strip;
    strip.rows = strip.columns = strip.out_row_stride = 1;
    strip.out = out;
    strip.args = &arg;
    with_.table->load[static_cast<int>(access.buffer.type)](strip);
    return {out, 0, 0};
  }
  move(frame, box, access, out, false, true);
  return {out, 0, 1};
}

// Element by element: indices that are no sums of loops, or that leave the buffer where the value is
// not chosen.
void StripNest::gather(Frame& frame, const Box& box, const Value& value, const std::vector<StripArg>& values,
                       std::int64_t elements, char* out) const {
  const Access& access = value.access;
  const char* const base = frame.buffers[static_cast<std::size_t>(access.buffer.number)];
  const std::int64_t size = size_of(access.buffer.type);
  char* const raw = scratch(frame, slots_used_ - 1);
  std::vector<std::int64_t> extent, at(order_.size(), 0), low;
  for (std::size_t d = 0; d < access.index.size(); ++d) {
    extent.push_back(access.buffer.shape[d].at(frame.loops));
    if (access.index_values.empty()) low.push_back(access.index[d].at(frame.loops));
  }
  for (std::int64_t e = 0; e < elements; ++e) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < extent.size(); ++d) {
      std::int64_t i = 0;
      if (access.index_values.empty()) {
        i = low[d];
        for (std::size_t o = 0; o < order_.size(); ++o) i += at[o] * access.index[d].factor(loops_[order_[o]].slot);
      } else {
        const StripArg& arg = values[static_cast<std::size_t>(access.index_values[d])];
        i = static_cast<const std::int64_t*>(arg.data)[e * arg.column_stride];
      }
      if (!access.guarded && (i < 0 || i >= extent[d]))
        throw Error(ErrorCode::wrong_shape, "index " + std::to_string(i) + " leaves axis " + std::to_string(d) +
                                                " of " + quoted(access.buffer.name) + ", which has " +
                                                std::to_string(extent[d]));
      offset += std::clamp<std::int64_t>(i, 0, std::max<std::int64_t>(extent[d] - 1, 0)) * access.buffer.strides[d];
    }
    bool empty = false;
    for (const std::int64_t x : extent) empty |= x == 0;
    if (empty) std::memset(raw + e * size, 0, static_cast<std::size_t>(size));
    else std::memcpy(raw + e * size, base + offset * size, static_cast<std::size_t>(size));
    for (std::size_t o = order_.size(); o-- > 0;) {
      if (++at[o] < box.count[order_[o]]) break;
      at[o] = 0;
    }
  }
  const StripArg arg{raw, elements, 1};
  Strip strip;
  strip.rows = 1;
  strip.columns = strip.out_row_stride = elements;
  strip.out = out;
  strip.args = &arg;
  with_.table->load[static_cast<int>(access.buffer.type)](strip);
}

void StripNest::move(const Frame& frame, const Box& box, const Access& access, char* dense, bool store, bool all,
                     bool uniform) const {
  struct Dim {
    std::int64_t count, factor;
  };
  Dim dims[most_loops + 2];
  std::size_t n = 0;
  for (const std::size_t l : order_) {
    if ((!all && loops_[l].reduces) || box.count[l] == 1) continue;
    const Dim dim{box.count[l], access.offset.factor(loops_[l].slot)};
    if (n > 0 && dims[n - 1].factor == dim.factor * dim.count)
      dims[n - 1] = {dims[n - 1].count * dim.count, dim.factor};
    else dims[n++] = dim;
  }
  while (n < 2) {
    for (std::size_t i = n; i > 0; --i) dims[i] = dims[i - 1];
    dims[0] = {1, 0};
    ++n;
  }
  const Dim row = dims[n - 2], column = dims[n - 1];
  const std::int64_t size = size_of(access.buffer.type),
                     strip_size = cpu::strip_bytes(compute_type(access.buffer.type));
  char* const base = frame.buffers[static_cast<std::size_t>(access.buffer.number)];
  std::int64_t at[most_loops + 2] = {}, offset = access.offset.at(frame.loops);
  Strip strip;
  strip.rows = row.count;
  strip.columns = column.count;
  const int type = static_cast<int>(access.buffer.type);
  while (true) {
    if (store) {
      const StripArg arg{dense, uniform ? 0 : column.count, uniform ? 0 : 1};
      strip.args = &arg;
      strip.out = base + offset * size;
      strip.out_row_stride = row.factor;
      strip.out_column_stride = column.factor;
      with_.table->store[compute_index(compute_type(access.buffer.type))][type](strip);
    } else {
      const StripArg arg{base + offset * size, row.factor, column.factor};
      strip.args = &arg;
      strip.out = dense;
      strip.out_row_stride = column.count;
      with_.table->load[type](strip);
    }
    if (!uniform) dense += row.count * column.count * strip_size;
    std::size_t d = n - 2;
    for (; d > 0; --d) {
      offset += dims[d - 1].factor;
      if (++at[d - 1] < dims[d - 1].count) break;
      offset -= dims[d - 1].factor * dims[d - 1].count;
      at[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

// ---- results ------------------------------------------------------------------------------------

void StripNest::store(Frame& frame, const Box& box, const std::vector<StripArg>& values) const {
  for (std::size_t i = 0; i < to_.size(); ++i) {
    const StripArg& from = values[static_cast<std::size_t>(results_[i])];
    move(frame, box, to_[i], static_cast<char*>(const_cast<void*>(from.data)), true, true, from.column_stride == 0);
  }
}

void StripNest::update(Frame& frame, const Box& box, std::int64_t elements, std::vector<StripArg>& values) const {
  std::int64_t kept = 1;
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (!loops_[l].reduces) kept *= box.count[l];
  const std::int64_t reduced = elements / kept;
  const std::size_t k = types_.size();
  const bool multiplies = multiplies_ && !along_ && reduced == 1, counted = counted_ && is_counted(box);
  void *state[16] = {}, *from[16] = {};
  bool direct[16];
  for (std::size_t i = 0; i < k; ++i) {
    const StripArg& x = values[static_cast<std::size_t>(results_[i])];
    from[i] = const_cast<void*>(x.data);
    if (multiplies || (counted && i == 0)) {
    } else if (x.column_stride == 0 && elements > 1) {  // one value for all
      char* const dense = scratch(frame, slots_used_ - 2 - static_cast<int>(i));
      const std::int64_t size = cpu::strip_bytes(types_[i]);
      for (std::int64_t e = 0; e < elements; ++e) std::memcpy(dense + e * size, x.data, static_cast<std::size_t>(size));
      from[i] = dense;
    } else if (combiner_ && along_) {  // which folds them where they lie: not in the caller's memory
      from[i] = std::memcpy(scratch(frame, slots_used_ - 2 - static_cast<int>(i)), x.data,
                            static_cast<std::size_t>(elements * cpu::strip_bytes(types_[i])));
    }
    // The states where they lie, if they do so side by side.
    std::int64_t expected = 1;
    direct[i] = is_direct(types_[i]);
    for (std::size_t o = order_.size(); o-- > 0;) {
      const std::size_t l = order_[o];
      if (loops_[l].reduces || box.count[l] == 1) continue;
      direct[i] = direct[i] && to_[i].offset.factor(loops_[l].slot) == expected;
      expected *= box.count[l];
    }
    if (direct[i]) {
      state[i] = frame.buffers[static_cast<std::size_t>(to_[i].buffer.number)] +
                 to_[i].offset.at(frame.loops) * size_of(types_[i]);
    } else {
      state[i] = scratch(frame, slots_used_ - 2 - static_cast<int>(k + i));
      move(frame, box, to_[i], static_cast<char*>(state[i]), false, false);
    }
  }
  if (multiplies) multiply_add(state[0], elements, values);
  else if (counted) update_counted(frame, box, kept, reduced, state, {from[1], reduced, 1});
  else
    fold(state, from, along_ ? kept : reduced, along_ ? reduced : kept, along_,
         frame.scratch.data() + combiner_offset_);
  for (std::size_t i = 0; i < k; ++i)
    if (!direct[i]) move(frame, box, to_[i], static_cast<char*>(state[i]), true, false);
}

// Whether a strip's reduced elements are those of its last loop alone.
bool StripNest::is_counted(const Box& box) const {
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (loops_[l].reduces && l != order_.back() && box.count[l] > 1) return false;
  return true;
}

// argmax along a strip by the elements' numbers in it; then of its results by their indices.
void StripNest::update_counted(Frame& frame, const Box& box, std::int64_t kept, std::int64_t reduced, void** state,
                               const StripArg& values) const {
  const Linear& index = values_[static_cast<std::size_t>(results_[0])].linear;
  const std::int64_t step = index.factor(loops_[order_.back()].slot), size = cpu::strip_bytes(types_[1]);
  for (std::int64_t r = 0; r < kept; ++r) {
    // The row's first index: its number among the loops that are kept.
    std::int64_t first = index.at(frame.loops), rest = r;
    for (std::size_t o = order_.size(); o-- > 0;) {
      const std::size_t l = order_[o];
      if (loops_[l].reduces) continue;
      first += rest % box.count[l] * index.factor(loops_[l].slot);
      rest /= box.count[l];
    }
    const StripArg row[] = {{static_cast<const char*>(values.data) + r * reduced * size, reduced, 1}, {nullptr, 0, 1}};
    cpu::ReduceStrip strip;
    strip.rows = 1;
    strip.columns = reduced;
    strip.args = row;
    char* const states[] = {static_cast<char*>(state[0]) + r * size_of(DType::i64),
                            static_cast<char*>(state[1]) + r * size};
    join_places(frame, strip, {first, 0, step}, states, {1, 1});
  }
}

// The numbers of the strip's extremes as indices, which join `states`, an index and a value, whose rows
// are `strides` elements apart.
void StripNest::join_places(Frame& frame, cpu::ReduceStrip& strip, const Indices& of, char* const (&states)[2],
                            const std::array<std::int64_t, 2>& strides) const {
  const std::int64_t size = cpu::strip_bytes(types_[1]);
  char* const values = scratch(frame, slots_used_ - 7);
  auto* const places = reinterpret_cast<std::int64_t*>(scratch(frame, slots_used_ - 8));
  for (std::int64_t r = 0; r < strip.rows; ++r) {
    std::memcpy(values + r * size, identity_, static_cast<std::size_t>(size));
    places[r] = -1;
  }
  strip.state[0] = values;
  strip.state[1] = places;
  strip.state_row_stride = 1;
  along_function_(strip);
  for (std::int64_t r = 0; r < strip.rows; ++r)
    if (places[r] >= 0) places[r] = of.first + r * of.row + places[r] * of.step;
  const bool dense = strides[0] == 1 && strides[1] == 1;
  cpu::ReduceStrip join;
  join.rows = 1;
  join.columns = dense ? strip.rows : 1;
  for (std::int64_t r = 0; r < strip.rows; r += join.columns) {
    const StripArg here[] = {{values + r * size, 1, 1}, {places + r, 1, 1}};
    join.args = here;
    join.state[0] = states[1] + r * strides[1] * size;
    join.state[1] = states[0] + r * strides[0] * size_of(DType::i64);
    across_function_(join);
  }
}

void StripNest::multiply_add(void* state, std::int64_t elements, const std::vector<StripArg>& values) const {
  const std::vector<int>& factors = values_.back().args;
  const StripArg args[] = {
      values[static_cast<std::size_t>(factors[0])], values[static_cast<std::size_t>(factors[1])], {state, 0, 1}};
  Strip strip;
  strip.rows = 1;
  strip.columns = strip.out_row_stride = elements;
  strip.out = state;
  strip.args = args;
  with_.table->ops[static_cast<int>(Op::fma)][compute_index(DType::f32)](strip);
}

void StripNest::fold(void** state, void** elements, std::int64_t rows, std::int64_t columns, bool along,
                     char* scratch) const {
  const std::size_t k = types_.size();
  if (!combiner_) {
    StripArg args[2];
    for (std::size_t i = 0; i < k; ++i) args[swaps_ ? 1 - i : i] = {elements[i], columns, 1};
    cpu::ReduceStrip strip;
    strip.rows = rows;
    strip.columns = columns;
    strip.args = args;
    for (std::size_t i = 0; i < k; ++i) strip.state[swaps_ ? 1 - i : i] = state[i];
    strip.state_row_stride = along ? 1 : 0;
    (along ? along_function_ : across_function_)(strip);
    return;
  }
  const auto at = [&](void* base, std::size_t i, std::int64_t e) {
    return static_cast<void*>(static_cast<char*>(base) + e * cpu::strip_bytes(types_[i]));
  };
  if (along && in_order_) return fold_in_order(state, elements, rows, columns, scratch);
  void *a[16], *b[16];
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t n = columns;
    if (along) {
      // The second half joins the first, until one is left.
      while (n > 1) {
        const std::int64_t half = n / 2;
        for (std::size_t i = 0; i < k; ++i) {
          a[i] = at(elements[i], i, r * columns);
          b[i] = at(elements[i], i, r * columns + n - half);
        }
        combiner_->combine(a, b, a, half, scratch);
        n -= half;
      }
    }
    for (std::size_t i = 0; i < k; ++i) {
      a[i] = at(state[i], i, along ? r : 0);
      b[i] = at(elements[i], i, r * columns);
    }
    combiner_->combine(a, b, a, n, scratch);
  }
}

// A column of elements after the other joins the states of all rows.
void StripNest::fold_in_order(void** state, void** elements, std::int64_t rows, std::int64_t columns,
                              char* scratch) const {
  void* column[16] = {};
  for (std::int64_t c = 0; c < columns; ++c) {
    for (std::size_t i = 0; i < types_.size(); ++i) {
      const std::int64_t size = cpu::strip_bytes(types_[i]);
      const char* const from = static_cast<const char*>(elements[i]) + c * size;
      column[i] = scratch - static_cast<std::int64_t>(2 + 2 * types_.size() + i) * most_elements * 8;
      for (std::int64_t r = 0; r < rows; ++r)
        std::memcpy(static_cast<char*>(column[i]) + r * size, from + r * columns * size,
                    static_cast<std::size_t>(size));
    }
    combiner_->combine(state, column, state, rows, scratch);
  }
}

}  // namespace postlude::inline v0::te
