// The matrices of a convolution, addressed: nothing of a window is ever in memory (decision 0071).
#include "loop/convolution.h"

#include <functional>
#include <numeric>
#include <vector>

namespace postlude::inline v0::convolution {
namespace {

class Addresses {
 public:
  explicit Addresses(const Description& d) : d_(d) {}

  [[nodiscard]] Operands operands(std::span<const Given> inputs, const Geometry& g) const {
    switch (d_.direction) {
      case Direction::forward: return forward(inputs[0], inputs[1], g);
      case Direction::dgrad: return data_gradient(inputs[0], inputs[1], g);
      default: return weight_gradient(inputs[0], inputs[1], g);
    }
  }

  // As forward() and data_gradient() address what is packed: channels innermost, of the gradient taps backwards.
  [[nodiscard]] MainLoop::Packing packing(const Given& w) const {
    const bool forward_loop = d_.direction == Direction::forward;
    Counted k;
    std::int64_t taps = 1, first = 0;
    for (std::size_t i = d_.lacking(); i < 3; ++i) {
      const std::int64_t count = d_.extent(w, i), step = d_.stride(w, i);
      k.k[i] = {count, forward_loop ? step : -step};
      if (!forward_loop) first += (count - 1) * step;
      taps = product(taps, count);
    }
    const std::size_t along_n = forward_loop ? 0 : 1, along_k = 1 - along_n;
    k.k[3] = {w.shape[along_k], w.strides[along_k]};
    Operands operands;
    operands.b = {.data = w.data, .dtype = w.dtype, .strides = {0, 0, w.strides[along_n]}};
    if (w.data) operands.b.data = static_cast<char*>(w.data) + first * size_of(w.dtype);
    operands.addressing.b = k;
    join(operands);
    return {operands.b, operands.addressing.b, product(taps, w.shape[along_k]), w.shape[along_n]};
  }

 private:
  static std::int32_t small(std::int64_t n) { return static_cast<std::int32_t>(n); }

  // Over the images of X, as forward and weight gradient read them.
  [[nodiscard]] Windows windows(const Given& x, const Geometry& g) const {
    Windows w;
    w.images = g.images;
    w.image_stride = x.strides[0];
    w.channels = g.channels / d_.groups;
    w.channel_stride = x.strides[1];
    for (std::size_t i = d_.lacking(); i < 3; ++i) {
      w.axes[i] = {.extent = small(g.image[i]),
                   .pixels = small(g.pixels[i]),
                   .taps = small(g.taps[i]),
                   .first = -d_.axes[i].before,
                   .step = d_.axes[i].stride,
                   .reach = d_.axes[i].dilation,
                   .stride = d_.stride(x, i)};
    }
    return w;
  }

  // Whether (c, t, r, s) is counted with the channels innermost: where those of the image lie together, else where
  // those of the filters do. Filters that are packed are counted so whatever the image is.
  [[nodiscard]] static bool channels_last(const Given& image, std::int64_t channels, const Given& w,
                                          std::size_t of_filter) {
    return w.packed || channels <= 1 || image.strides[1] == 1 || w.strides[of_filter] == 1;
  }
  // k of the filters as one stride, where it is one.
  static void join(Operands& operands) {
    const auto& k = std::get<Counted>(operands.addressing.b).k;
    std::int64_t size = 1, step = 1;
    for (auto axis = k.rbegin(); axis != k.rend(); ++axis) {
      if (axis->size == 1) continue;
      if (size == 1) step = axis->stride;
      else if (axis->stride != step * size) return;
      size *= axis->size;
    }
    operands.b.strides[1] = step;
    operands.addressing.b = std::monostate();
  }

  // A as strides, where windows are single pixels one stride apart: of a 1 x 1 convolution without padding.
  static void join_pixels(Operands& operands) {
    const auto& w = std::get<Windows>(operands.addressing.a);
    std::int64_t size = 1, step = 0;
    for (std::size_t i = 3; i-- > 0;) {
      const Windows::Axis& axis = w.axes[i];
      const std::int64_t last = axis.first + (axis.pixels - std::int64_t{1}) * axis.step;
      if (axis.taps != 1 || axis.first != 0 || last >= axis.extent) return;
      if (axis.pixels == 1) continue;
      if (size == 1) step = axis.step * axis.stride;
      else if (axis.step * axis.stride != step * size) return;
      size *= axis.pixels;
    }
    operands.a.strides = {w.image_stride, step, w.channel_stride};
    operands.addressing.a = std::monostate();
  }

  [[nodiscard]] Operands forward(const Given& x, const Given& w, const Geometry& g) const {
    Operands operands;
    operands.a = {.data = x.data, .dtype = x.dtype, .strides = {}};
    operands.b = {.data = w.data, .dtype = w.dtype, .strides = {0, 0, w.strides[0]}};
    Windows over = windows(x, g);
    over.channels_last = channels_last(x, over.channels, w, 1);
    const Counted::Axis channel{over.channels, w.strides[1]};
    Counted filters;
    for (std::size_t i = 0; i < 3; ++i) filters.k[i + (over.channels_last ? 0 : 1)] = {g.taps[i], d_.stride(w, i)};
    filters.k[over.channels_last ? 3 : 0] = channel;
    operands.addressing = {.a = over,
                           .b = filters,
                           .groups = {.count = d_.groups,
                                      .a_stride = over.channels * x.strides[1],
                                      .b_stride = g.filters / d_.groups * w.strides[0]},
                           .parts = {}};
    join(operands);
    join_pixels(operands);
    return operands;
  }

  // The pixels h = first + i * stride of an image's axis that the same taps touch, those taps backwards, and which
  // pixels of dY they are.
  struct AxisResidue {
    Residue::Place place;
    Windows::Axis axis;
    std::int64_t tap = 0, tap_step = 0;  // of W: the first, and from one to the next
  };
  [[nodiscard]] std::vector<AxisResidue> residues(const Given& dy, const Geometry& g, std::size_t i) const {
    const AxisGiven& axis = d_.axes[i];
    const std::int64_t together = std::gcd(axis.stride, axis.dilation), apart = axis.stride / together;
    std::vector<AxisResidue> all;
    for (std::int64_t tap = 0; tap < std::min(apart, g.taps[i]); ++tap) {
      // Pixels h with h + before = tap * dilation, but for a multiple of the stride.
      std::int64_t first = (tap * axis.dilation - axis.before) % axis.stride;
      if (first < 0) first += axis.stride;
      if (first >= g.image[i]) continue;
      const std::int64_t taps = (g.taps[i] - tap + apart - 1) / apart, reach = axis.dilation / together;
      AxisResidue r;
      r.place = {small(first), axis.stride, small(g.image[i])};
      r.axis = {.extent = small(g.pixels[i]),
                .pixels = small((g.image[i] - first + axis.stride - 1) / axis.stride),
                .taps = small(taps),
                .first = small((first + axis.before - tap * axis.dilation) / axis.stride - (taps - 1) * reach),
                .step = 1,
                .reach = small(reach),
                .stride = d_.stride(dy, i)};
      r.tap = tap + (taps - 1) * apart;
      r.tap_step = -apart;
      all.push_back(r);
    }
    return all;
  }

  [[nodiscard]] Operands data_gradient(const Given& dy, const Given& w, const Geometry& g) const {
    const std::int64_t filters = g.filters / d_.groups;
    Operands operands;
    operands.a = {.data = dy.data, .dtype = dy.dtype, .strides = {}};
    operands.b = {.data = w.data, .dtype = w.dtype, .strides = {0, 0, w.strides[1]}};
    Addressing& addressing = operands.addressing;
    addressing.groups = {.count = d_.groups, .a_stride = filters * dy.strides[1], .b_stride = filters * w.strides[0]};
    Residue part;
    part.a.images = g.images;
    part.a.image_stride = dy.strides[0];
    part.a.channels = filters;
    part.a.channel_stride = dy.strides[1];
    part.a.channels_last = channels_last(dy, filters, w, 0);
    const std::size_t at = part.a.channels_last ? 0 : 1;
    part.b.k[part.a.channels_last ? 3 : 0] = {filters, w.strides[0]};
    std::array<std::vector<AxisResidue>, 3> all;
    for (std::size_t i = 0; i < 3; ++i) all[i] = residues(dy, g, i);
    for (const AxisResidue& depth : all[0])
      for (const AxisResidue& row : all[1])
        for (const AxisResidue& column : all[2]) {
          const AxisResidue* const of[] = {&depth, &row, &column};
          part.b_first = 0;
          for (std::size_t i = 0; i < 3; ++i) {
            part.place[i] = of[i]->place;
            part.a.axes[i] = of[i]->axis;
            part.b.k[at + i] = {of[i]->axis.taps, of[i]->tap_step * d_.stride(w, i)};
            part.b_first += of[i]->tap * d_.stride(w, i);
          }
          addressing.parts.push_back(part);
        }
    std::ranges::stable_sort(addressing.parts, std::ranges::greater(), &Residue::k);
    if (!d_.strided_gradient()) {  // one
      addressing.a = addressing.parts[0].a;
      addressing.b = addressing.parts[0].b;
      if (w.data) operands.b.data = static_cast<char*>(w.data) + addressing.parts[0].b_first * size_of(w.dtype);
      addressing.parts.clear();
      join(operands);
      join_pixels(operands);
    }
    return operands;
  }

  [[nodiscard]] Operands weight_gradient(const Given& x, const Given& dy, const Geometry& g) const {
    Operands operands;
    operands.a = {.data = dy.data, .dtype = dy.dtype, .strides = {0, dy.strides[1], 0}};
    operands.b = {.data = x.data, .dtype = x.dtype, .strides = {}};
    Counted pixels;
    pixels.k[0] = {g.images, dy.strides[0]};
    for (std::size_t i = 0; i < 3; ++i) pixels.k[i + 1] = {g.pixels[i], d_.stride(dy, i)};
    operands.addressing = {.a = pixels,
                           .b = windows(x, g),
                           .groups = {.count = d_.groups,
                                      .along = Groups::Along::m,
                                      .a_stride = g.filters / d_.groups * dy.strides[1],
                                      .b_stride = g.channels / d_.groups * x.strides[1]},
                           .parts = {}};
    return operands;
  }

  const Description& d_;
};

}  // namespace

Operands operands(const Description& d, std::span<const Given> inputs, const Geometry& g) {
  return Addresses(d).operands(inputs, g);
}
MainLoop::Packing packing(const Description& d, const Given& w) { return Addresses(d).packing(w); }

}  // namespace postlude::inline v0::convolution
