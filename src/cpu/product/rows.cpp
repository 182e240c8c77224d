#include "cpu/product/rows.h"

#include "cpu/product/pack.h"

#include <algorithm>
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

Windows::Step operator+(const Windows::Step& a, const Windows::Step& b) {
  return {a.y + b.y, a.x + b.x, a.offset + b.offset};
}
Windows::Step operator*(std::int32_t n, const Windows::Step& a) { return {n * a.y, n * a.x, n * a.offset}; }

// Coordinates and offset of a place that is numbered along three axes, and the place along the inner two.
struct Walk {
  Windows::Step at;
  std::int32_t middle = 0, inner = 0;
};
Walk walk(const Windows::Step& first, const std::array<Windows::Axis, 3>& axes, std::int64_t number) {
  auto rest = static_cast<std::uint32_t>(number);
  Walk w;
  w.inner = static_cast<std::int32_t>(rest % static_cast<std::uint32_t>(axes[2].size));
  rest /= static_cast<std::uint32_t>(axes[2].size);
  w.middle = static_cast<std::int32_t>(rest % static_cast<std::uint32_t>(axes[1].size));
  const auto outer = static_cast<std::int32_t>(rest / static_cast<std::uint32_t>(axes[1].size));
  w.at = first + outer * axes[0].step + w.middle * axes[1].step + w.inner * axes[2].step;
  return w;
}

// `count` elements of an image row from p on, a step apart along x; zeros outside.
void along_x(const Matrix& a, const Windows& w, Windows::Step p, const Windows::Step& step, std::int32_t count,
             char* out) {
  const std::int64_t size = size_of(a.dtype);
  // Elements [begin, end) are inside.
  std::int32_t begin = 0, end = 0;
  if (p.y >= 0 && p.y < w.height) {
    begin = std::clamp((-p.x + step.x - 1) / step.x, 0, count);
    end = p.x < w.width ? std::clamp((w.width - p.x + step.x - 1) / step.x, begin, count) : begin;
  }
  std::memset(out, 0, static_cast<std::size_t>(begin * size));
  if (begin < end) {
    const char* const from = static_cast<const char*>(a.data) + (p.offset + begin * step.offset) * size;
    gather(a.dtype, from, step.offset, end - begin, out + begin * size);
  }
  std::memset(out + end * size, 0, static_cast<std::size_t>((count - end) * size));
}

// Elements along the innermost axis of K are a pixel's channels, or pixels of an image row.
const char* window(const Matrix& a, const Windows& w, std::int64_t row, std::int64_t k0, std::int64_t depth, char* to) {
  const std::int64_t size = size_of(a.dtype);
  const Windows::Step pixel = walk(w.first, w.pixel, row).at;
  const Windows::Axis &middle = w.element[1], &inner = w.element[2];
  Walk k = walk(pixel, w.element, k0);
  Windows::Step start = k.at + -k.inner * inner.step;  // where the innermost axis begins
  char* out = to;
  for (std::int64_t left = depth; left > 0;) {
    const auto run = static_cast<std::int32_t>(std::min<std::int64_t>(inner.size - k.inner, left));
    const Windows::Step first = start + k.inner * inner.step;
    const char* const from = static_cast<const char*>(a.data) + first.offset * size;
    if (inner.step.x != 0) {
      along_x(a, w, first, inner.step, run, out);
    } else if (first.y < 0 || first.y >= w.height || first.x < 0 || first.x >= w.width) {
      std::memset(out, 0, static_cast<std::size_t>(run * size));
    } else if (inner.step.offset != 1) {
      gather(a.dtype, from, inner.step.offset, run, out);
    } else if (run == depth) {
      return from;
    } else {
      std::memcpy(out, from, static_cast<std::size_t>(run * size));
    }
    out += run * size;
    left -= run;
    k.inner = 0;
    start = start + middle.step;
    if (++k.middle == middle.size) {
      k.middle = 0;
      start = start + w.element[0].step + -middle.size * middle.step;
    }
  }
  return to;
}

}  // namespace

const char* row_elements(const Matrix& a, std::int64_t row, std::int64_t k0, std::int64_t depth, char* to) {
  if (!a.rows) return strided(a, row, k0, depth, to);
  if (depth == 0) return to;
  if (const auto* rows = std::get_if<Gathered>(a.rows)) return gathered(a, *rows, row, k0, depth, to);
  if (const auto* rows = std::get_if<Windows>(a.rows)) return window(a, *rows, row, k0, depth, to);
  return zeros(a, depth, to);  // explain's
}

}  // namespace postlude::inline v0::cpu
