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

// Along the innermost axis of K, a run's elements lie one step apart in the image (along x), or in one pixel (along its
// channels); those of a pixel are all inside or all outside.
const char* window(const Matrix& a, const Windows& w, std::int64_t row, std::int64_t k0, std::int64_t depth, char* to) {
  const std::int64_t size = size_of(a.dtype);
  const auto* const data = static_cast<const char*>(a.data);
  const Windows::Step pixel = walk(w.first, w.pixel, row).at;
  const Windows::Axis &middle = w.element[1], &inner = w.element[2];
  Walk k = walk(pixel, w.element, k0);
  // The place at which the innermost axis begins.
  Windows::Step start = k.at + -k.inner * inner.step;
  char* out = to;
  for (std::int64_t left = depth; left > 0;) {
    const auto run = static_cast<std::int32_t>(std::min<std::int64_t>(inner.size - k.inner, left));
    const auto inside = [&](const Windows::Step& p) {
      return static_cast<std::uint32_t>(p.y) < static_cast<std::uint32_t>(w.height) &&
             static_cast<std::uint32_t>(p.x) < static_cast<std::uint32_t>(w.width);
    };
    const Windows::Step first = start + k.inner * inner.step;
    const bool one_pixel = inner.step.y == 0 && inner.step.x == 0;
    if (one_pixel && !inside(first)) {
      std::memset(out, 0, static_cast<std::size_t>(run * size));
    } else if (one_pixel && inner.step.offset == 1) {
      const char* const from = data + first.offset * size;
      if (run == depth) return from;
      std::memcpy(out, from, static_cast<std::size_t>(run * size));
    } else if (one_pixel) {
      gather(a.dtype, data + first.offset * size, inner.step.offset, run, out);
    } else {
      Windows::Step p = first;
      for (std::int32_t i = 0; i < run; ++i, p = p + inner.step) {
        if (inside(p)) std::memcpy(out + i * size, data + p.offset * size, static_cast<std::size_t>(size));
        else std::memset(out + i * size, 0, static_cast<std::size_t>(size));
      }
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
  if (const auto* rows = std::get_if<Gathered>(a.rows)) return gathered(a, *rows, row, k0, depth, to);
  if (const auto* rows = std::get_if<Windows>(a.rows)) return window(a, *rows, row, k0, depth, to);
  return zeros(a, depth, to);  // explain's
}

}  // namespace postlude::inline v0::cpu
