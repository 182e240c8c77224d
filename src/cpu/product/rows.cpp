#include "cpu/product/rows.h"

#include "cpu/product/pack.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace postlude::inline v0::cpu {
namespace {

const char* zeros(const Matrix& a, std::int64_t depth, char* to) {
  std::memset(to, 0, static_cast<std::size_t>(depth * size_of(a.dtype)));
  return to;
}

const char* strided(const Matrix& a, std::int64_t row, std::int64_t k0, std::int64_t depth, char* to) {
  const char* const from = element_address(a, row, k0);
  if (a.column_stride == 1) return from;
  gather(a.dtype, from, a.column_stride, depth, to);
  return to;
}

// The row of the matrix that row `row` is; -1: zeros.
std::int64_t gathered(const Matrix& a, const Gathered& rows, std::int64_t row) {
  const std::int64_t at = a.batch * rows.batch_stride + row * rows.stride;
  const std::int64_t from = rows.dtype == DType::i64 ? static_cast<const std::int64_t*>(rows.index)[at]
                                                     : static_cast<const std::int32_t*>(rows.index)[at];
  return from < 0 || from >= rows.rows ? -1 : from;
}

using Three = std::array<std::int32_t, 3>;

// The digits of a number, outermost first.
std::array<std::int64_t, 4> digits(std::int64_t number, const std::array<std::int64_t, 4>& sizes) {
  std::array<std::int64_t, 4> d{};
  for (std::size_t i = 4; i-- > 1; number /= sizes[i]) d[i] = number % sizes[i];
  d[0] = number;
  return d;
}

// One place in an image: elements from the matrix's data, and coordinates.
struct Spot {
  std::int64_t offset = 0;
  Three y{};

  // By so many coordinates along an axis.
  void move(const Windows& w, std::size_t axis, std::int64_t by) {
    y[axis] += static_cast<std::int32_t>(by);
    offset += by * w.axes[axis].stride;
  }
};
bool inside(const Windows& w, const Three& y, std::size_t axes) {
  for (std::size_t i = 0; i < axes; ++i)
    if (y[i] < 0 || y[i] >= w.axes[i].extent) return false;
  return true;
}

// Pixels one after another, over all images: where the first tap of each is.
class Pixels {
 public:
  Pixels(const Windows& w, std::int64_t number) : w_(w) {
    const auto d = digits(number, {w.images, w.axes[0].pixels, w.axes[1].pixels, w.axes[2].pixels});
    spot.offset = d[0] * w.image_stride;
    for (std::size_t i = 0; i < 3; ++i) {
      at_[i] = static_cast<std::int32_t>(d[i + 1]);
      spot.move(w, i, w.axes[i].first + d[i + 1] * w.axes[i].step);
    }
  }
  Spot spot;
  // Of this line of the image, this one too.
  [[nodiscard]] std::int32_t left() const { return w_.axes[2].pixels - at_[2]; }
  // `count` is at most left().
  void next(std::int32_t count = 1) {
    at_[2] += count;
    spot.move(w_, 2, std::int64_t{count} * w_.axes[2].step);
    for (std::size_t i = 2; at_[i] == w_.axes[i].pixels; --i) {
      spot.move(w_, i, -std::int64_t{at_[i]} * w_.axes[i].step);
      at_[i] = 0;
      if (i == 0) {
        spot.offset += w_.image_stride;
        return;
      }
      ++at_[i - 1];
      spot.move(w_, i - 1, w_.axes[i - 1].step);
    }
  }

 private:
  const Windows& w_;
  Three at_{};
};

// A column of windows: the channel and the tap, as what they add to a pixel's spot.
struct Tap {
  std::int64_t channel = 0;
  Three at{};  // taps along the axes
  Spot by;

  // The next tap of the same channel, or, of fewer than three axes, the first of the next line; true: there was none,
  // and it is the first of all.
  bool step(const Windows& w, std::size_t axes = 3) {
    for (std::size_t i = axes; i-- > 0;) {
      by.move(w, i, w.axes[i].reach);
      if (++at[i] < w.axes[i].taps) return false;
      by.move(w, i, -std::int64_t{at[i]} * w.axes[i].reach);
      at[i] = 0;
    }
    return true;
  }
  // `count` columns on, without a division.
  void next(const Windows& w, std::int64_t count) {
    if (w.channels_last) {
      by.offset -= channel * w.channel_stride;
      channel += count;
      for (const std::int64_t line = w.axes[2].taps * w.channels; at[2] == 0 && channel >= line; channel -= line)
        step(w, 2);
      for (; channel >= w.channels; channel -= w.channels) step(w);
      by.offset += channel * w.channel_stride;
      return;
    }
    for (; count > 0; --count) {
      if (step(w)) ++channel, by.offset += w.channel_stride;
    }
  }
};
Tap tap_of(const Windows& w, std::int64_t column) {
  const std::int64_t number = w.channels_last ? column / w.channels : column % w.taps();
  Tap tap{w.channels_last ? column % w.channels : column / w.taps(), {}, {}};
  const auto d = digits(number, {1, w.axes[0].taps, w.axes[1].taps, w.axes[2].taps});
  for (std::size_t i = 0; i < 3; ++i) {
    tap.at[i] = static_cast<std::int32_t>(d[i + 1]);
    tap.by.move(w, i, d[i + 1] * w.axes[i].reach);
  }
  tap.by.offset += tap.channel * w.channel_stride;
  return tap;
}
Spot operator+(const Spot& a, const Spot& b) {
  return {a.offset + b.offset, {a.y[0] + b.y[0], a.y[1] + b.y[1], a.y[2] + b.y[2]}};
}

// `count` elements along the last axis of an image, `step` coordinates apart; zeros outside.
void along_columns(const Matrix& m, const Windows& w, const Spot& at, std::int32_t step, std::int32_t count,
                   char* out) {
  const std::int64_t size = size_of(m.dtype);
  // Elements [begin, end) are inside.
  std::int32_t begin = 0, end = 0;
  const std::int32_t x = at.y[2], width = w.axes[2].extent;
  if (inside(w, at.y, 2)) {
    begin = x >= 0 ? 0 : std::min((-x + step - 1) / step, count);
    end = x >= width                                     ? begin
          : x + (count - 1) * std::int64_t{step} < width ? count
                                                         : std::clamp((width - x + step - 1) / step, begin, count);
  }
  if (begin > 0) std::memset(out, 0, static_cast<std::size_t>(begin * size));
  if (begin < end) {
    const std::int64_t stride = step * w.axes[2].stride;
    const char* const from = static_cast<const char*>(m.data) + (at.offset + begin * stride) * size;
    gather(m.dtype, from, stride, end - begin, out + begin * size);
  }
  if (end < count) std::memset(out + end * size, 0, static_cast<std::size_t>((count - end) * size));
}

// A row of A: runs are a tap's channels, or a channel's taps along the last axis.
const char* window(const Matrix& a, const Windows& w, std::int64_t row, std::int64_t k0, std::int64_t depth, char* to) {
  const std::int64_t size = size_of(a.dtype);
  const Spot pixel = Pixels(w, row).spot;
  char* out = to;
  for (std::int64_t k = k0, run = 0; k < k0 + depth; k += run, out += run * size) {
    const Tap tap = tap_of(w, k);
    const Spot spot = pixel + tap.by;
    if (!w.channels_last) {
      run = std::min<std::int64_t>(w.axes[2].taps - tap.at[2], k0 + depth - k);
      along_columns(a, w, spot, w.axes[2].reach, static_cast<std::int32_t>(run), out);
      continue;
    }
    run = std::min(w.channels - tap.channel, k0 + depth - k);
    const char* const from = static_cast<const char*>(a.data) + spot.offset * size;
    if (!inside(w, spot.y, 3)) std::memset(out, 0, static_cast<std::size_t>(run * size));
    else if (w.channel_stride == 1 && run == depth) return from;
    else gather(a.dtype, from, w.channel_stride, run, out);
  }
  return to;
}

// A column of B: runs are pixels along the last axis.
void window_column(const Matrix& b, const Windows& w, std::int64_t column, std::int64_t k0, std::int64_t depth,
                   char* out) {
  const Spot by = tap_of(w, column).by;
  Pixels pixels(w, k0);
  for (std::int64_t left = depth; left > 0;) {
    const auto run = static_cast<std::int32_t>(std::min<std::int64_t>(pixels.left(), left));
    along_columns(b, w, pixels.spot + by, w.axes[2].step, run, out);
    out += run * size_of(b.dtype);
    left -= run;
    pixels.next(run);
  }
}

// The place of an element of k, and how many of them follow one stride apart.
struct Run {
  std::int64_t offset = 0, left = 0;
};
Run run_of(const Counted& c, std::int64_t k) {
  const auto d = digits(k, {c.k[0].size, c.k[1].size, c.k[2].size, c.k[3].size});
  Run run{.left = c.k[3].size - d[3]};
  for (std::size_t i = 0; i < 4; ++i) run.offset += d[i] * c.k[i].stride;
  return run;
}

// Elements from `first` on, in k's order.
void counted(const Matrix& m, const Counted& c, const char* first, std::int64_t k0, std::int64_t depth, char* out) {
  const std::int64_t size = size_of(m.dtype);
  for (std::int64_t k = k0, count = 0; k < k0 + depth; k += count, out += count * size) {
    const Run run = run_of(c, k);
    count = std::min(run.left, k0 + depth - k);
    gather(m.dtype, first + run.offset * size, c.k[3].stride, count, out);
  }
}

// Whether taps side by side are contiguous.
bool joined_taps(const Windows& w) { return w.axes[2].reach * w.axes[2].stride == w.channels; }

// A call costs as much as a short run does.
void copy_words(const char* from, std::int64_t count, std::uint32_t* to) {
  constexpr std::int64_t piece = 8;
  if (count < piece || count >= 8 * piece) {
    std::memcpy(to, from, static_cast<std::size_t>(count * 4));
    return;
  }
  for (std::int64_t i = 0; i + piece <= count; i += piece) std::memcpy(to + i, from + i * 4, piece * 4);
  std::memcpy(to + count - piece, from + (count - piece) * 4, piece * 4);
}

// Rows of A as words, contiguous in K, of taps whose channels are. Each row's pixel is known once, and each tap; most
// windows are inside of the image as a whole.
void window_rows(const Matrix& a, const Windows& w, const Kernels& kernels, std::int64_t row0, int rows,
                 std::int64_t k0, std::int64_t depth, std::uint32_t* to, std::int64_t to_row) {
  const std::int64_t size = size_of(a.dtype);
  const bool words = a.dtype == DType::f32;
  Spot spots[row_group];
  const char* windows[row_group];  // of those that are inside; else null
  Pixels pixels(w, row0);
  for (int i = 0; i < rows; ++i, pixels.next()) {
    spots[i] = pixels.spot;
    Three last = spots[i].y;
    for (std::size_t axis = 0; axis < 3; ++axis) last[axis] += (w.axes[axis].taps - 1) * w.axes[axis].reach;
    const bool whole = inside(w, spots[i].y, 3) && inside(w, last, 3);
    windows[i] = whole ? static_cast<const char*>(a.data) + spots[i].offset * size : nullptr;
  }
  const auto copy = [&](const char* from, std::int64_t count, std::uint32_t* out) {
    if (words) copy_words(from, count, out);
    else kernels.pack_row(element_of(a.dtype), false, from, count, out);
  };
  Tap tap = tap_of(w, k0);
  for (std::int64_t k = k0, run = 0; k < k0 + depth; k += run, tap.next(w, run)) {
    run = (joined_taps(w) ? w.axes[2].taps - tap.at[2] : 1) * w.channels - tap.channel;
    run = std::min(run, k0 + depth - k);
    std::uint32_t* out = to + (k - k0) / kernels.word_elements;
    for (int i = 0; i < rows; ++i, out += to_row) {
      if (windows[i]) {
        copy(windows[i] + tap.by.offset * size, run, out);
        continue;
      }
      Spot spot = spots[i] + tap.by;
      std::memset(out, 0, static_cast<std::size_t>(ceil_div(run, kernels.word_elements) * 4));
      if (!inside(w, spot.y, 2)) continue;
      for (std::int64_t done = 0, channel = tap.channel; done < run; channel = 0, spot.y[2] += w.axes[2].reach) {
        const std::int64_t count = std::min(w.channels - channel, run - done);
        if (inside(w, spot.y, 3))
          copy(static_cast<const char*>(a.data) + spot.offset * size, count, out + done / kernels.word_elements);
        done += count;
        spot.offset += count;
      }
    }
  }
}

// The same as words contiguous in M, where pixels are contiguous: `to_row` words from one step to the next.
void window_pixels(const Matrix& a, const Windows& w, const Kernels& kernels, std::int64_t row0, int rows,
                   std::int64_t k0, std::int64_t depth, std::uint32_t* to, std::int64_t to_row) {
  struct Line {
    Spot spot;
    std::int32_t count = 0;
  } lines[row_group];
  int count = 0;
  Pixels pixels(w, row0);
  for (int left = rows; left > 0; left -= lines[count++].count) {
    lines[count] = {pixels.spot, std::min(pixels.left(), left)};
    pixels.next(lines[count].count);
  }
  const std::int64_t size = size_of(a.dtype), pitch = row_group * size;
  const bool words = a.dtype == DType::f32;
  constexpr std::int64_t together = 16;
  alignas(64) char elements[together * row_group * 4];
  Tap tap = tap_of(w, k0);
  for (std::int64_t k = k0; k < k0 + depth; k += together) {
    const std::int64_t steps = std::min(together, k0 + depth - k);
    std::uint32_t* const out = to + (k - k0) / kernels.word_elements * to_row;
    for (std::int64_t i = 0; i < steps; ++i, tap.next(w, 1)) {
      char* at = words ? reinterpret_cast<char*>(out + i * to_row) : elements + i * pitch;
      for (int j = 0; j < count; ++j) {
        along_columns(a, w, lines[j].spot + tap.by, w.axes[2].step, lines[j].count, at);
        at += lines[j].count * size;
      }
    }
    if (!words) kernels.pack_n_major(element_of(a.dtype), false, elements, pitch, rows, steps, out, to_row);
  }
}

// Rows k0 ... k0 + depth of B, `width` columns from `column` on, contiguous and `pitch` bytes apart; the columns are so
// in memory, but for taps.
void window_block(const Matrix& b, const Windows& w, std::int64_t column, std::int64_t width, std::int64_t k0,
                  std::int64_t depth, char* to, std::int64_t pitch) {
  const std::int64_t size = size_of(b.dtype);
  Tap tap = tap_of(w, column);
  for (std::int64_t j = 0, run = 0; j < width; j += run, tap.next(w, run)) {
    run = std::min(w.channels - tap.channel, width - j);
    Pixels pixels(w, k0);
    char* out = to + j * size;
    for (std::int64_t k = 0; k < depth; ++k, pixels.next(), out += pitch) {
      const Spot spot = pixels.spot + tap.by;
      if (!inside(w, spot.y, 3)) std::memset(out, 0, static_cast<std::size_t>(run * size));
      else
        std::memcpy(out, static_cast<const char*>(b.data) + spot.offset * size, static_cast<std::size_t>(run * size));
    }
  }
}

// A stretch is so long at least, but for the ends of a k block, and at most.
constexpr std::int64_t least_stretch = 16;
constexpr std::int64_t most_stretch = 1024;
// What a row reads outside of the image, or of no row.
alignas(64) constexpr std::uint32_t no_words[most_stretch] = {};

// The columns of windows that lie side by side from this tap on: its channels, or, where these are few, a line of taps.
std::int64_t columns_together(const Windows& w, const Tap& tap) {
  return (w.channels < least_stretch ? w.axes[2].taps - tap.at[2] : 1) * w.channels - tap.channel;
}

// `count` columns of a window from `tap` on, whose pixel is at `spot`: where they lie, or as a copy that the edge cuts.
const std::uint32_t* stretch_of(const Matrix& a, const Windows& w, Spot spot, const Tap& tap, std::int64_t count,
                                std::uint32_t* edge) {
  const auto* const data = static_cast<const std::uint32_t*>(a.data);
  const std::int64_t first = tap.channel, taps = ceil_div(first + count, w.channels);
  if (!inside(w, spot.y, 2)) return no_words;
  const std::int64_t x = spot.y[2], last = x + (taps - 1) * w.axes[2].reach, width = w.axes[2].extent;
  if (x >= 0 && last < width) return data + spot.offset;
  if (last < 0 || x >= width || taps == 1) return no_words;
  for (std::int64_t done = 0, channel = first; done < count; channel = 0, spot.move(w, 2, w.axes[2].reach)) {
    const std::int64_t some = std::min(w.channels - channel, count - done);
    const bool there = spot.y[2] >= 0 && spot.y[2] < width;
    std::memcpy(edge + done, there ? data + spot.offset : no_words, static_cast<std::size_t>(some * 4));
    spot.offset -= channel;
    done += some;
  }
  return edge;
}

// The windows of `rows` pixels: where each begins, and those that the image's edge cuts.
struct CutWindow {
  Spot spot;
  int row = 0;
};
int windows_at(const Matrix& a, const Windows& w, std::int64_t row0, int rows, const std::uint32_t** first,
               CutWindow* cut) {
  const auto* const data = static_cast<const std::uint32_t*>(a.data);
  const Windows::Axis& x = w.axes[2];
  const std::int32_t most = x.extent - 1 - (x.taps - 1) * x.reach;  // where the last whole window of a line begins
  int cuts = 0;
  Pixels pixels(w, row0);
  for (int i = 0; i < rows;) {
    const int count = std::min(pixels.left(), rows - i);
    Spot spot = pixels.spot;
    Three last = spot.y;
    for (std::size_t axis = 0; axis < 2; ++axis) last[axis] += (w.axes[axis].taps - 1) * w.axes[axis].reach;
    const bool tall = inside(w, spot.y, 2) && inside(w, last, 2);
    for (const int end = i + count; i < end; ++i, spot.move(w, 2, x.step)) {
      first[i] = data + spot.offset;
      if (!tall || spot.y[2] < 0 || spot.y[2] > most) cut[cuts++] = {spot, i};
    }
    pixels.next(count);
  }
  return cuts;
}

int window_stretches(const Matrix& a, const Windows& w, std::int64_t row0, int rows, std::int64_t k0,
                     std::int64_t depth, Stretch* to, std::uint32_t* edges) {
  const std::uint32_t* first[row_group];
  std::fill_n(first, row_group, static_cast<const std::uint32_t*>(a.data));
  CutWindow cut[row_group];
  const int cuts = windows_at(a, w, row0, rows, first, cut);
  Stretch* stretch = to;
  Tap tap = tap_of(w, k0);
  for (std::int64_t k = k0, run = 0; k < k0 + depth; k += run, tap.next(w, run), ++stretch) {
    run = std::min({columns_together(w, tap), k0 + depth - k, most_stretch});
    stretch->steps = run;
    stretch->outside = 0;
    for (int i = 0; i < row_group; ++i) stretch->rows[i] = first[i] + tap.by.offset;
    for (const CutWindow* c = cut; c < cut + cuts; ++c) {
      const std::uint32_t* const at = stretch_of(a, w, c->spot + tap.by, tap, run, edges + c->row * depth + (k - k0));
      stretch->rows[c->row] = at;
      stretch->outside |= std::uint32_t{at == no_words} << c->row;
    }
  }
  return static_cast<int>(stretch - to);
}

int gathered_stretches(const Matrix& a, const Gathered& g, std::int64_t row0, int rows, std::int64_t k0,
                       std::int64_t depth, Stretch* to) {
  const std::uint32_t* found[row_group];
  for (int i = 0; i < rows; ++i) {
    const std::int64_t from = gathered(a, g, row0 + i);
    found[i] = from < 0 ? nullptr : reinterpret_cast<const std::uint32_t*>(element_address(a, from, k0));
  }
  Stretch* stretch = to;
  for (std::int64_t k = 0; k < depth; k += most_stretch, ++stretch) {
    stretch->steps = std::min(most_stretch, depth - k);
    stretch->outside = 0;
    for (int i = 0; i < rows; ++i) {
      stretch->rows[i] = found[i] ? found[i] + k : no_words;
      stretch->outside |= std::uint32_t{found[i] == nullptr} << i;
    }
  }
  return static_cast<int>(stretch - to);
}

// Where the taps of a window lie, of which some are outside of the image; returns behind the last.
const char** cut_addresses(const Windows& w, Spot plane, const char* data, std::int64_t size, const char* zeros,
                           const char** to) {
  for (std::int32_t t = 0; t < w.axes[0].taps; ++t, plane.move(w, 0, w.axes[0].reach)) {
    Spot line = plane;
    for (std::int32_t r = 0; r < w.axes[1].taps; ++r, line.move(w, 1, w.axes[1].reach)) {
      Spot spot = line;
      const bool there = inside(w, line.y, 2);
      for (std::int32_t s = 0; s < w.axes[2].taps; ++s, spot.move(w, 2, w.axes[2].reach))
        *to++ = there && spot.y[2] >= 0 && spot.y[2] < w.axes[2].extent ? data + spot.offset * size : zeros;
    }
  }
  return to;
}

}  // namespace

bool in_stretches(const Matrix& a) {
  if (a.dtype != DType::f32 || !a.address) return false;
  if (std::holds_alternative<Gathered>(*a.address)) return a.column_stride == 1 && a.data != nullptr;
  const auto* const w = std::get_if<Windows>(a.address);
  if (!w || !w->channels_last || w->channel_stride != 1) return false;
  return w->channels >= least_stretch || (joined_taps(*w) && w->axes[2].taps * w->channels >= least_stretch);
}

std::int64_t most_stretches(std::int64_t k_block) { return k_block / least_stretch + k_block / most_stretch + 3; }

int row_stretches(const Matrix& a, std::int64_t row0, int rows, std::int64_t k0, std::int64_t depth, Stretch* to,
                  std::uint32_t* edges) {
  if (const auto* g = std::get_if<Gathered>(a.address)) return gathered_stretches(a, *g, row0, rows, k0, depth, to);
  return window_stretches(a, std::get<Windows>(*a.address), a.row0 + row0, rows, k0, depth, to, edges);
}

void block_elements(const Matrix& b, std::int64_t column, std::int64_t width, std::int64_t k0, std::int64_t depth,
                    char* to, std::int64_t pitch) {
  if (const auto* w = std::get_if<Windows>(b.address)) return window_block(b, *w, column, width, k0, depth, to, pitch);
  const auto& k = std::get<Counted>(*b.address);
  const std::int64_t size = size_of(b.dtype);
  for (std::int64_t i = 0; i < depth; ++i) {
    const char* const from = element_address(b, 0, column) + run_of(k, k0 + i).offset * size;
    std::memcpy(to + i * pitch, from, static_cast<std::size_t>(width * size));
  }
}

std::optional<AWords> window_words(const Matrix& a, const Kernels& kernels, std::int64_t row0, int rows,
                                   std::int64_t k0, std::int64_t depth, std::uint32_t* to, std::int64_t to_row) {
  const auto* const w = a.address ? std::get_if<Windows>(a.address) : nullptr;
  if (!w || depth == 0) return {};
  const bool contiguous = w->channels_last && w->channel_stride == 1 && w->channels % kernels.word_elements == 0;
  // Zeros of the padding are no zero words where those are biased.
  if (contiguous && !kernels.terms && (w->channels >= 8 || joined_taps(*w))) {
    window_rows(a, *w, kernels, a.row0 + row0, rows, k0, depth, to, to_row);
    return AWords{to, to_row, 1};
  }
  constexpr std::int64_t pixel_row = 32;  // row_group in whole vectors
  if (w->axes[2].stride != 1 && w->axes[2].stride * w->channels > 8) return {};
  window_pixels(a, *w, kernels, a.row0 + row0, rows, k0, depth, to, pixel_row);
  return AWords{to, 1, pixel_row};
}

const char* row_elements(const Matrix& a, std::int64_t row, std::int64_t k0, std::int64_t depth, char* to) {
  if (!a.address) return strided(a, row, k0, depth, to);
  if (depth == 0) return to;
  if (const auto* rows = std::get_if<Gathered>(a.address)) {
    const std::int64_t from = gathered(a, *rows, row);
    return from < 0 ? zeros(a, depth, to) : strided(a, from, k0, depth, to);
  }
  if (const auto* rows = std::get_if<Windows>(a.address)) return window(a, *rows, a.row0 + row, k0, depth, to);
  if (const auto* rows = std::get_if<Counted>(a.address)) {
    counted(a, *rows, element_address(a, row, 0), k0, depth, to);
    return to;
  }
  return zeros(a, depth, to);  // explain's
}

const char* column_elements(const Matrix& b, std::int64_t column, std::int64_t k0, std::int64_t depth, char* to) {
  if (!b.address) {
    const char* const from = element_address(b, k0, column);
    if (b.row_stride == 1) return from;
    gather(b.dtype, from, b.row_stride, depth, to);
    return to;
  }
  if (depth == 0) return to;
  if (const auto* windows = std::get_if<Windows>(b.address)) window_column(b, *windows, column, k0, depth, to);
  else if (const auto* k = std::get_if<Counted>(b.address))
    counted(b, *k, element_address(b, 0, column), k0, depth, to);
  else zeros(b, depth, to);
  return to;
}

void tap_addresses(const Matrix& a, const Windows& w, std::int64_t row0, int rows, const char* zeros, const char** to) {
  const auto* const data = static_cast<const char*>(a.data);
  const std::int64_t size = size_of(a.dtype), taps = w.taps();
  // Most windows are inside of the image as a whole, and their taps lie as the first one's do.
  constexpr std::int64_t most_known = 64;
  std::int64_t known[most_known];
  Tap tap;
  for (std::int64_t t = 0; t < std::min(taps, most_known); ++t, tap.step(w)) known[t] = tap.by.offset * size;
  const Windows::Axis& x = w.axes[2];
  const std::int32_t most = x.extent - 1 - (x.taps - 1) * x.reach;  // where the last whole window of a line begins
  Pixels pixels(w, row0);
  for (int left = rows; left > 0;) {
    const int count = std::min(pixels.left(), left);
    Spot spot = pixels.spot;
    Three last = spot.y;
    for (std::size_t axis = 0; axis < 2; ++axis) last[axis] += (w.axes[axis].taps - 1) * w.axes[axis].reach;
    const bool tall = taps <= most_known && inside(w, spot.y, 2) && inside(w, last, 2);
    for (int i = 0; i < count; ++i, spot.move(w, 2, x.step)) {
      if (!tall || spot.y[2] < 0 || spot.y[2] > most) {
        to = cut_addresses(w, spot, data, size, zeros, to);
        continue;
      }
      const char* const first = data + spot.offset * size;
      for (std::int64_t t = 0; t < taps; ++t) *to++ = first + known[t];
    }
    pixels.next(count);
    left -= count;
  }
}

}  // namespace postlude::inline v0::cpu
