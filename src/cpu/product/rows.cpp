#include "cpu/product/rows.h"

#include "cpu/product/pack.h"

#include <algorithm>
#include <array>
#include <cstring>

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

const char* gathered(const Matrix& a, const Gathered& rows, std::int64_t row, std::int64_t k0, std::int64_t depth,
                     char* to) {
  const std::int64_t at = a.batch * rows.batch_stride + row * rows.stride;
  const std::int64_t from = rows.dtype == DType::i64 ? static_cast<const std::int64_t*>(rows.index)[at]
                                                     : static_cast<const std::int32_t*>(rows.index)[at];
  if (from < 0 || from >= rows.rows) return zeros(a, depth, to);
  return strided(a, from, k0, depth, to);
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

// Where the first tap of a pixel is, by the number of the pixel over all images.
Spot pixel_spot(const Windows& w, std::int64_t number) {
  const auto d = digits(number, {w.images, w.axes[0].pixels, w.axes[1].pixels, w.axes[2].pixels});
  Spot spot{.offset = d[0] * w.image_stride};
  for (std::size_t i = 0; i < 3; ++i) spot.move(w, i, w.axes[i].first + d[i + 1] * w.axes[i].step);
  return spot;
}

// `count` elements along the last axis of an image, `step` coordinates apart; zeros outside.
void along_columns(const Matrix& m, const Windows& w, const Spot& at, std::int32_t step, std::int32_t count,
                   char* out) {
  const std::int64_t size = size_of(m.dtype);
  // Elements [begin, end) are inside.
  std::int32_t begin = 0, end = 0;
  const std::int32_t x = at.y[2], width = w.axes[2].extent;
  if (inside(w, at.y, 2)) {
    begin = std::clamp((-x + step - 1) / step, 0, count);
    end = x < width ? std::clamp((width - x + step - 1) / step, begin, count) : begin;
  }
  std::memset(out, 0, static_cast<std::size_t>(begin * size));
  if (begin < end) {
    const std::int64_t stride = step * w.axes[2].stride;
    const char* const from = static_cast<const char*>(m.data) + (at.offset + begin * stride) * size;
    gather(m.dtype, from, stride, end - begin, out + begin * size);
  }
  std::memset(out + end * size, 0, static_cast<std::size_t>((count - end) * size));
}

// A row of A: runs are a tap's channels, or a channel's taps along the last axis.
const char* window(const Matrix& a, const Windows& w, std::int64_t row, std::int64_t k0, std::int64_t depth, char* to) {
  const std::int64_t size = size_of(a.dtype);
  const Spot pixel = pixel_spot(w, row);
  char* out = to;
  for (std::int64_t k = k0, run = 0; k < k0 + depth; k += run, out += run * size) {
    std::int64_t tap = w.channels_last ? k / w.channels : k % w.taps();
    const std::int64_t channel = w.channels_last ? k % w.channels : k / w.taps();
    const auto d = digits(tap, {1, w.axes[0].taps, w.axes[1].taps, w.axes[2].taps});
    Spot spot = pixel;
    for (std::size_t i = 0; i < 3; ++i) spot.move(w, i, d[i + 1] * w.axes[i].reach);
    spot.offset += channel * w.channel_stride;
    if (!w.channels_last) {
      run = std::min(w.axes[2].taps - d[3], k0 + depth - k);
      along_columns(a, w, spot, w.axes[2].reach, static_cast<std::int32_t>(run), out);
      continue;
    }
    run = std::min(w.channels - channel, k0 + depth - k);
    const char* const from = static_cast<const char*>(a.data) + spot.offset * size;
    if (!inside(w, spot.y, 3)) std::memset(out, 0, static_cast<std::size_t>(run * size));
    else if (w.channel_stride != 1) gather(a.dtype, from, w.channel_stride, run, out);
    else if (run == depth) return from;
    else std::memcpy(out, from, static_cast<std::size_t>(run * size));
  }
  return to;
}

// A column of B: runs are pixels along the last axis.
void window_column(const Matrix& b, const Windows& w, std::int64_t column, std::int64_t k0, std::int64_t depth,
                   char* out) {
  const std::int64_t size = size_of(b.dtype);
  const std::int64_t tap = w.channels_last ? column / w.channels : column % w.taps(),
                     channel = w.channels_last ? column % w.channels : column / w.taps();
  const auto d = digits(tap, {1, w.axes[0].taps, w.axes[1].taps, w.axes[2].taps});
  for (std::int64_t k = k0, run = 0; k < k0 + depth; k += run, out += run * size) {
    Spot spot = pixel_spot(w, k);
    for (std::size_t i = 0; i < 3; ++i) spot.move(w, i, d[i + 1] * w.axes[i].reach);
    spot.offset += channel * w.channel_stride;
    run = std::min(w.axes[2].pixels - k % w.axes[2].pixels, k0 + depth - k);
    along_columns(b, w, spot, w.axes[2].step, static_cast<std::int32_t>(run), out);
  }
}

// Elements from `first` on, in k's order.
void counted(const Matrix& m, const Counted& c, const char* first, std::int64_t k0, std::int64_t depth, char* out) {
  const std::int64_t size = size_of(m.dtype);
  for (std::int64_t k = k0, run = 0; k < k0 + depth; k += run, out += run * size) {
    const auto d = digits(k, {c.k[0].size, c.k[1].size, c.k[2].size, c.k[3].size});
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < 4; ++i) offset += d[i] * c.k[i].stride;
    run = std::min(c.k[3].size - d[3], k0 + depth - k);
    gather(m.dtype, first + offset * size, c.k[3].stride, run, out);
  }
}

}  // namespace

const char* row_elements(const Matrix& a, std::int64_t row, std::int64_t k0, std::int64_t depth, char* to) {
  if (!a.address) return strided(a, row, k0, depth, to);
  if (depth == 0) return to;
  if (const auto* rows = std::get_if<Gathered>(a.address)) return gathered(a, *rows, row, k0, depth, to);
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
  else if (const auto* k = std::get_if<Counted>(b.address)) counted(b, *k, element_address(b, 0, column), k0, depth, to);
  else zeros(b, depth, to);
  return to;
}

}  // namespace postlude::inline v0::cpu
