#include "cpu/product/turned.h"

#include "core/divide.h"

#include <algorithm>

namespace postlude::inline v0::cpu {
namespace {

// A box of so many bytes stays in L2 beside what is computed of it.
constexpr std::int64_t box_in_l2 = 512 << 10;

// Pixels along an axis that `rows` rows touch, of which `below` follow each other further inside.
std::int64_t touched(const Windows::Axis& axis, std::int64_t rows, std::int64_t below) {
  return std::min<std::int64_t>(axis.pixels, below == 1 ? rows : (rows - 2) / below + 2);
}

}  // namespace

TurnedStrips::TurnedStrips(const Windows& windows, std::int64_t channels, std::int64_t distance)
    : windows_(windows), turned_(windows), distance_(distance), pitch_(round_up(channels, 16) | 16), rows_(row_group) {
  // The pitch is an odd number of lines, as pixels a multiple of 2 KB apart share L1's sets.
  // Neighbouring strips turn the same lines again where windows are larger than a pixel: strips grow while that is more
  // than half of a box.
  const std::int64_t most = round_up(std::max<std::int64_t>(windows.pixels(), 1), row_group);
  while (rows_ < most && (box_bytes(2 * rows_) <= box_in_l2 || 3 * box_bytes(2 * rows_) < 5 * box_bytes(rows_)))
    rows_ *= 2;
  rows_ = std::min(rows_, most);
  turned_.image_stride = 0;
  matrix_.dtype = DType::f32;
}

TurnedStrips::Range TurnedStrips::coordinates(std::size_t axis, std::int64_t first, std::int64_t last) const {
  const Windows::Axis& a = windows_.axes[axis];
  const std::int64_t begin = a.first + first * a.step, end = a.first + last * a.step + (a.taps - 1) * a.reach + 1,
                     most = a.extent;
  return {std::clamp<std::int64_t>(begin, 0, most), std::clamp<std::int64_t>(end, 0, most)};
}

// The largest of a strip: a part of an outer axis has all of the inner ones.
std::int64_t TurnedStrips::box_bytes(std::int64_t rows) const {
  const auto& axes = windows_.axes;
  const auto part = [&](std::size_t axis, std::int64_t pixels) {
    const Windows::Axis& a = axes[axis];
    return std::min<std::int64_t>(a.extent, (pixels - 1) * a.step + (a.taps - 1) * std::int64_t{a.reach} + 1);
  };
  const std::int64_t line = axes[2].pixels, plane = line * axes[1].pixels;
  std::int64_t pixels = 0;
  if (axes[0].pixels > 1) pixels = part(0, touched(axes[0], rows, plane)) * axes[1].extent * axes[2].extent;
  else if (axes[1].pixels > 1) pixels = part(0, 1) * part(1, touched(axes[1], rows, line)) * axes[2].extent;
  else pixels = part(0, 1) * part(1, 1) * part(2, touched(axes[2], rows, 1));
  return pixels * pitch_ * 4;
}

void TurnedStrips::turn(const Matrix& a, const Kernels& kernels, std::int64_t row0, std::int64_t rows,
                        std::int64_t channels, char* to) {
  const auto& axes = windows_.axes;
  const std::int64_t of_image = windows_.pixels(), image = row0 / of_image;
  std::int64_t first = row0 % of_image, last = first + rows - 1, below = of_image;
  Range box[3];
  bool all = false;  // of this axis and those further inside
  for (std::size_t i = 0; i < 3; ++i) {
    below /= axes[i].pixels;
    box[i] = all ? Range{0, axes[i].extent} : coordinates(i, first / below, last / below);
    all = all || first / below != last / below;
    first %= below, last %= below;
  }
  const std::int64_t lines = box[1].end - box[1].begin, width = box[2].end - box[2].begin;
  turned_.axes[2].stride = pitch_;
  turned_.axes[1].stride = width * pitch_;
  turned_.axes[0].stride = lines * width * pitch_;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < 3; ++i) offset += box[i].begin * turned_.axes[i].stride;
  matrix_.data =
      reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(to) - static_cast<std::uintptr_t>(offset * 4));
  if (lines <= 0 || width <= 0) return;
  // Lines that follow each other are one.
  const bool together = distance_ != 1 && axes[1].stride == width;
  const std::int64_t pieces = together ? 1 : lines, pixels = together ? lines * width : width;
  auto* words = reinterpret_cast<std::uint32_t*>(to);
  for (std::int64_t z = box[0].begin; z < box[0].end; ++z) {
    for (std::int64_t y = box[1].begin; y < box[1].begin + pieces; ++y, words += pixels * pitch_) {
      const std::int64_t at =
          image * windows_.image_stride + z * axes[0].stride + y * axes[1].stride + box[2].begin * axes[2].stride;
      turn_line(static_cast<const char*>(a.data) + at * size_of(a.dtype), a.dtype, kernels, pixels, channels, words);
    }
  }
}

void TurnedStrips::turn_line(const char* from, DType dtype, const Kernels& kernels, std::int64_t pixels,
                             std::int64_t channels, std::uint32_t* to) const {
  const std::int64_t size = size_of(dtype);
  if (distance_ == 1) {
    for (std::int64_t i = 0; i < pixels; ++i, from += windows_.axes[2].stride * size, to += pitch_)
      kernels.pack_row(element_of(dtype), true, from, channels, to);
  } else if (dtype == DType::f32) {
    kernels.pack_columns(reinterpret_cast<const float*>(from), distance_, channels, pixels, to, pitch_);
  } else {
    for (std::int64_t c = 0; c < channels; c += kernels.panel) {
      const char* starts[max_panel];
      const auto count = static_cast<int>(std::min<std::int64_t>(kernels.panel, channels - c));
      for (int i = 0; i < count; ++i) starts[i] = from + (c + i) * distance_ * size;
      kernels.pack_k_major(element_of(dtype), true, starts, count, pixels, to + c, pitch_);
    }
  }
}

}  // namespace postlude::inline v0::cpu
