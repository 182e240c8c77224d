// How a nest's iterations are walked: boxes within which its conditions hold, and in these strips.
#include "te/strip.h"

#include "cpu/strips/weighted.h"

#include <algorithm>

namespace postlude::inline v0::te {

namespace {

using cpu::Strip;
using cpu::StripArg;

constexpr std::int64_t least_past = 8 << 20;  // bytes of results that leave past the caches (decision 0166)

}  // namespace

void StripNest::run(Frame& frame) const {
  if (static_cast<std::int64_t>(frame.scratch.size()) < scratch_bytes_)
    frame.scratch.resize(static_cast<std::size_t>(scratch_bytes_));
  Box box;
  for (std::size_t l = 0; l < loops_.size(); ++l) {
    box.first[l] = 0;
    box.count[l] = loops_[l].extent.at(frame.loops);
    if (box.count[l] <= 0) {
      if (initial_) initial_->run(frame);
      return;
    }
  }
  if (initial_ && !(starts_ && is_window(box))) initial_->run(frame);
  split(frame, box, 0);
}

// Divides the box until each condition holds in all of a part, or nowhere: where the loop that
// changes it most passes its bound, else in halves.
void StripNest::split(Frame& frame, Box& box, std::size_t condition) const {
  for (; condition < conditions_.size(); ++condition) {
    const Linear& c = conditions_[condition];
    for (std::size_t l = 0; l < loops_.size(); ++l)
      frame.loops[static_cast<std::size_t>(loops_[l].slot)] = box.first[l];
    std::int64_t low = c.at(frame.loops), high = low, widest = 0;
    std::size_t along = 0;
    for (std::size_t l = 0; l < loops_.size(); ++l) {
      const std::int64_t change = c.factor(loops_[l].slot) * (box.count[l] - 1);
      (change < 0 ? low : high) += change;
      if (std::abs(change) > widest) widest = std::abs(change), along = l;
    }
    if (high < 0) return;
    if (low >= 0) continue;
    if (in_order_ && loops_[along].reduces)  // parts come in the order of the outermost loop that has any
      along = static_cast<std::size_t>(
          std::find_if(loops_.begin(), loops_.end(),
                       [&](const Loop& loop) { return loop.reduces && box.count[&loop - loops_.data()] > 1; }) -
          loops_.begin());
    const std::int64_t factor = c.factor(loops_[along].slot), count = box.count[along];
    const std::int64_t rest = low + std::max<std::int64_t>(-factor, 0) * (count - 1);  // the others at their worst
    std::int64_t at = 0;
    if (factor < 0 && rest >= 0) at = rest / -factor + 1;
    if (factor > 0 && rest < 0) at = (-rest + factor - 1) / factor;
    if (at <= 0 || at >= count) at = count / 2;
    Box part = box;
    part.count[along] = at;
    split(frame, part, condition);
    part = box;
    part.first[along] += at;
    part.count[along] -= at;
    return split(frame, part, condition);
  }
  tiles(frame, box);
}

// Tiles of a box that fit a strip, in the order of the loops.
void StripNest::tiles(Frame& frame, const Box& box) const {
  if (windows_ && is_window(box)) return window(frame, box);
  if (rows_ && rows(frame, box)) return;
  if (lines_ && lines(frame, box)) return;
  if (places_ && places(frame, box)) return;
  std::int64_t step[most_loops], room = most_elements;
  for (std::size_t o = order_.size(); o-- > 0;) {
    const std::size_t l = order_[o];
    step[l] = single_[l] ? 1 : std::clamp<std::int64_t>(room, 1, box.count[l]);
    room /= step[l];
  }
  Box part = box;
  for (std::size_t l = 0; l < loops_.size(); ++l) part.count[l] = std::min(step[l], box.count[l]);
  while (true) {
    tile(frame, part);
    std::size_t l = loops_.size();
    while (l-- > 0) {
      const std::int64_t end = box.first[l] + box.count[l];
      part.first[l] += part.count[l];
      if (part.first[l] < end) {
        part.count[l] = std::min(step[l], end - part.first[l]);
        break;
      }
      part.first[l] = box.first[l];
      part.count[l] = std::min(step[l], box.count[l]);
      if (l == 0) return;
    }
    if (loops_.empty()) return;
  }
}

// Sums of a few products, each of a strip and one number: all of them for some results at a time.
bool StripNest::is_window(const Box& box) const {
  const int unit = loops_[order_.back()].slot;
  const std::vector<int>& factors = values_.back().args;
  const std::int64_t x = values_[static_cast<std::size_t>(factors[0])].access.offset.factor(unit),
                     w = values_[static_cast<std::size_t>(factors[1])].access.offset.factor(unit);
  if (x + w != 1 || x * w != 0 || to_[0].offset.factor(unit) != 1) return false;
  std::int64_t products = 1;
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (loops_[l].reduces && (products *= box.count[l]) > most_products) return false;
  return true;
}

void StripNest::window(Frame& frame, const Box& box) const {
  const Access& to = to_[0];
  const std::vector<int>& factors = values_.back().args;
  const Access* x = &values_[static_cast<std::size_t>(factors[0])].access;
  const Access* w = &values_[static_cast<std::size_t>(factors[1])].access;
  if (x->offset.factor(loops_[order_.back()].slot) == 0) std::swap(x, w);
  // Where the factors of each product lie, from those of the first.
  std::int64_t x_from[most_products] = {}, w_from[most_products] = {};
  std::int64_t made = 1;
  for (std::size_t l = loops_.size(); l-- > 0;) {
    if (!loops_[l].reduces) continue;
    const std::int64_t x_step = x->offset.factor(loops_[l].slot), w_step = w->offset.factor(loops_[l].slot);
    for (std::int64_t i = made; i < made * box.count[l]; ++i) {
      x_from[i] = x_from[i % made] + i / made * x_step;
      w_from[i] = w_from[i % made] + i / made * w_step;
    }
    made *= box.count[l];
  }
  first(frame, box);
  const auto memory = [&](const Access& access) {
    return reinterpret_cast<float*>(frame.buffers[static_cast<std::size_t>(access.buffer.number)]);
  };
  cpu::WeightedSum how{.products = static_cast<int>(made), .is_new = starts_};
  // The rows of a strip: results along a loop that moves the window by one of its own rows, else the innermost.
  std::size_t row = loops_.size();
  const auto outermost = static_cast<std::size_t>(
      std::find_if(loops_.begin(), loops_.end(), [](const Loop& loop) { return loop.reduces; }) - loops_.begin());
  for (std::size_t l = 0; l < loops_.size(); ++l) {
    if (loops_[l].reduces || l == order_.back() || (row < l && box.count[l] == 1)) continue;
    const std::int64_t moves = x->offset.factor(loops_[l].slot);
    const bool shares = outermost < loops_.size() && moves != 0 && w->offset.factor(loops_[l].slot) == 0 &&
                        moves == x->offset.factor(loops_[outermost].slot) && box.count[l] > 1;
    if (how.depth == 1 || shares) row = l;
    if (shares) how.depth = static_cast<int>(box.count[outermost]);
  }
  const std::int64_t step = row == loops_.size() ? 0 : x->offset.factor(loops_[row].slot);
  StripArg args[2 * most_products];
  Strip strip;
  strip.rows = row == loops_.size() ? 1 : box.count[row];
  strip.columns = box.count[order_.back()];
  strip.out_row_stride = row == loops_.size() ? strip.columns : to.offset.factor(loops_[row].slot);
  strip.args = args;
  strip.extra = &how;
  std::int64_t bytes = size_of(to.buffer.type);
  for (const Linear& extent : to.buffer.shape) bytes *= extent.at(frame.loops);
  strip.past = bytes >= least_past && reinterpret_cast<std::uintptr_t>(memory(to)) % sizeof(float) == 0;
  const std::int64_t w_step = row == loops_.size() ? 0 : w->offset.factor(loops_[row].slot);
  do {
    const float* const xs = memory(*x) + x->offset.at(frame.loops);
    const float* const ws = memory(*w) + w->offset.at(frame.loops);
    for (std::size_t i = 0; i < static_cast<std::size_t>(made); ++i) {
      args[2 * i] = {xs + x_from[i], step, 1};
      args[2 * i + 1] = {ws + w_from[i], w_step, 0};
    }
    strip.out = memory(to) + to.offset.at(frame.loops);
    with_.table->weighted_sum(strip);
  } while (next(frame, box, row, false));
}

// Strips that are reduced along where they lie, those of several results at once.
bool StripNest::lines(Frame& frame, const Box& box) const {
  const Access &x = values_[0].access, &to = to_[0];
  const std::size_t unit = order_.back();
  std::size_t row = loops_.size();
  std::int64_t others = 1;
  for (std::size_t l = 0; l < loops_.size(); ++l) {
    if (!loops_[l].reduces) row = l;
    else if (l != unit) others *= box.count[l];
  }
  if (x.offset.factor(loops_[unit].slot) != 1 || (others > 1 && box.count[unit] < most_elements / 8)) return false;
  first(frame, box);
  StripArg arg{nullptr, row == loops_.size() ? 0 : x.offset.factor(loops_[row].slot), 1};
  cpu::ReduceStrip strip;
  strip.rows = row == loops_.size() ? 1 : box.count[row];
  strip.state_row_stride = row == loops_.size() ? 0 : to.offset.factor(loops_[row].slot);
  strip.args = &arg;
  const std::int64_t size = size_of(x.buffer.type);
  do {
    strip.state[0] = frame.buffers[static_cast<std::size_t>(to.buffer.number)] + to.offset.at(frame.loops) * size;
    const char* const from = frame.buffers[static_cast<std::size_t>(x.buffer.number)] + x.offset.at(frame.loops) * size;
    for (std::int64_t c = 0; c < box.count[unit]; c += most_elements) {
      arg.data = from + c * size;
      strip.columns = std::min(most_elements, box.count[unit] - c);
      along_function_(strip);
    }
  } while (next(frame, box, row, true));
  return true;
}

// argmax of strips where they lie, those of several results at once: the numbers of their elements,
// then the indices, which join what is there.
bool StripNest::places(Frame& frame, const Box& box) const {
  const Access& x = values_[static_cast<std::size_t>(results_[1])].access;
  const Linear& index = values_[static_cast<std::size_t>(results_[0])].linear;
  const std::size_t unit = order_.back();
  if (x.offset.factor(loops_[unit].slot) != 1) return false;
  std::size_t row = loops_.size();
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (!loops_[l].reduces) row = l;
  const auto along_row = [&](const Linear& linear) {
    return row == loops_.size() ? 0 : linear.factor(loops_[row].slot);
  };
  first(frame, box);
  const std::int64_t size = size_of(x.buffer.type), rows = row == loops_.size() ? 1 : box.count[row];
  do {
    const std::int64_t offset = x.offset.at(frame.loops), from = index.at(frame.loops);
    for (std::int64_t r = 0; r < rows; r += most_elements) {
      const StripArg args[] = {
          {frame.buffers[static_cast<std::size_t>(x.buffer.number)] + (offset + r * along_row(x.offset)) * size,
           along_row(x.offset), 1},
          {nullptr, 0, 1}};
      cpu::ReduceStrip strip;
      strip.rows = std::min(most_elements, rows - r);
      strip.columns = box.count[unit];
      strip.args = args;
      char* states[2];
      for (std::size_t i = 0; i < 2; ++i)
        states[i] = frame.buffers[static_cast<std::size_t>(to_[i].buffer.number)] +
                    (to_[i].offset.at(frame.loops) + r * along_row(to_[i].offset)) * size_of(types_[i]);
      join_places(frame, strip, {from + r * along_row(index), along_row(index), index.factor(loops_[unit].slot)},
                  states, {along_row(to_[0].offset), along_row(to_[1].offset)});
    }
  } while (next(frame, box, row, true));
  return true;
}

// Strips that are reduced across where they lie, a loop's all at once.
bool StripNest::rows(Frame& frame, const Box& box) const {
  const Access &x = values_[0].access, &to = to_[0];
  const std::size_t unit = order_.back();
  std::size_t row = loops_.size();
  for (std::size_t l = 0; l < loops_.size(); ++l)
    if (loops_[l].reduces) row = l;
  if (x.offset.factor(loops_[unit].slot) != 1 || to.offset.factor(loops_[unit].slot) != 1) return false;
  first(frame, box);
  StripArg arg{nullptr, row == loops_.size() ? 0 : x.offset.factor(loops_[row].slot), 1};
  cpu::ReduceStrip strip;
  strip.rows = row == loops_.size() ? 1 : box.count[row];
  strip.columns = box.count[unit];
  strip.args = &arg;
  do {
    arg.data =
        frame.buffers[static_cast<std::size_t>(x.buffer.number)] + x.offset.at(frame.loops) * size_of(x.buffer.type);
    strip.state[0] =
        frame.buffers[static_cast<std::size_t>(to.buffer.number)] + to.offset.at(frame.loops) * size_of(to.buffer.type);
    across_function_(strip);
  } while (next(frame, box, row, true));
  return true;
}

void StripNest::first(Frame& frame, const Box& box) const {
  for (std::size_t l = 0; l < loops_.size(); ++l) frame.loops[static_cast<std::size_t>(loops_[l].slot)] = box.first[l];
}

// The next iteration of the loops that are neither the last in a strip nor number `but`, and are
// reduced only if `reduced`.
bool StripNest::next(Frame& frame, const Box& box, std::size_t but, bool reduced) const {
  for (std::size_t l = loops_.size(); l-- > 0;) {
    if (l == order_.back() || l == but || (!reduced && loops_[l].reduces)) continue;
    std::int64_t& at = frame.loops[static_cast<std::size_t>(loops_[l].slot)];
    if (++at < box.first[l] + box.count[l]) return true;
    at = box.first[l];
  }
  return false;
}

void StripNest::tile(Frame& frame, const Box& box) const {
  std::int64_t elements = 1;
  for (std::size_t l = 0; l < loops_.size(); ++l) {
    frame.loops[static_cast<std::size_t>(loops_[l].slot)] = box.first[l];
    elements *= box.count[l];
  }
  if (!scalar_conditions_.empty()) {
    Sizes values = *with_.sizes;
    for (const auto& [axis, slot] : scalar_variables_) values[axis] = frame.loops[static_cast<std::size_t>(slot)];
    for (const Expr& condition : scalar_conditions_)
      if (!evaluate(condition, values)) return;
  }
  thread_local std::vector<StripArg> values;
  values.resize(values_.size());
  std::int64_t reduced = 1;
  for (std::size_t l = 0; l < loops_.size(); ++l) reduced *= loops_[l].reduces ? box.count[l] : 1;
  const bool multiplies = multiplies_ && !along_ && reduced == 1;  // update() does the last value's work
  compute(frame, box, elements, values_.size() - (multiplies ? 1 : 0), values);
  updates_ ? update(frame, box, elements, values) : store(frame, box, values);
}

}  // namespace postlude::inline v0::te
