#include "cuda/decide/beside.h"

#include "cuda/decide/product.h"

#include <algorithm>

namespace postlude::inline v0::cuda {
namespace {

constexpr std::int64_t most_channels = 16, most_columns = 64;  // those of the narrowest tile

// The taps of all residues along an axis, as one window. None: they lie between one another.
std::optional<agreed::WindowAxis> joined_axis(const std::vector<KernelPart>& parts, std::size_t axis) {
  std::optional<agreed::WindowAxis> all;
  for (const KernelPart& part : parts) {
    if (part.k == 0) continue;
    const agreed::WindowAxis& one = part.a.axis[axis];
    if (!all) {
      all = one;
      continue;
    }
    if (one.reach != all->reach || (one.first - all->first) % one.reach != 0) return {};
    const int first = std::min(all->first, one.first),
              last = std::max(all->first + (all->taps - 1) * one.reach, one.first + (one.taps - 1) * one.reach);
    all->first = first, all->taps = (last - first) / one.reach + 1, all->pixels = std::max(all->pixels, one.pixels);
  }
  for (const KernelPart& part : parts) all->pixels = std::max(all->pixels, part.scatter.axis[axis].pixels);
  return all;
}

// Where a residue's filters lie in K of all taps.
Layout::Beside::Side side_of(const KernelPart& part, const agreed::WindowRows& all) {
  Layout::Beside::Side side{{}, part.b_first};
  const int sizes[] = {all.axis[0].taps, all.axis[1].taps, all.axis[2].taps, all.channels};
  for (std::size_t i = 0; i < 4; ++i) {
    side.count.size[i] = sizes[i], side.count.stride[i] = part.b_k.k[i].stride;
    if (part.k == 0) continue;  // nothing of it is there
    if (i < 3) side.count.begin[i] = (part.a.axis[i].first - all.axis[i].first) / all.axis[i].reach;
    side.count.valid[i] = side.count.begin[i] + small(part.b_k.k[i].size);
    side.first -= side.count.begin[i] * side.count.stride[i];
  }
  return side;
}

}  // namespace

std::optional<Layout> beside(const Subject& subject, const Layout& layout) {
  const auto gemm = subject.problem.loop().contraction();
  const std::vector<KernelPart>& parts = layout.parts;
  const Request& request = subject.request;
  const bool asked_otherwise = request.mma || (request.schedule && !request.through_memory);
  if (!gemm || parts.size() < 2 || subject.arch != "sm_90a" || asked_otherwise || layout.groups.count > 1) return {};
  const std::int64_t columns = layout.shape.n * static_cast<std::int64_t>(parts.size()), size = size_of(gemm->a);
  if (layout.shape.n > most_channels || columns > most_columns || parts.front().k == 0) return {};
  if (!on_tensor_cores(gemm->a, gemm->b, subject.arch) || !parts.front().a.channels_last) return {};

  Layout made = layout;
  KernelPart one = parts.front();
  Layout::Beside& b = made.beside.emplace();
  std::int64_t rows = one.a.images, taps = 1;
  b.columns = small(columns), b.places = {0, 0, one.a.images, {}, {}, {}, small(layout.shape.n), small(columns)};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto axis = joined_axis(parts, i);
    if (!axis) return {};
    one.a.axis[i] = *axis;
    rows *= axis->pixels, taps *= axis->taps;
    const agreed::ScatterAxis& place = one.scatter.axis[i];
    b.places.extent[i] = place.extent, b.places.step[i] = place.step, b.places.pixels[i] = axis->pixels;
  }
  constexpr std::int64_t most = std::int64_t{1} << 30;  // rows, and pixels of all images
  if (rows >= most || layout.shape.batch * layout.shape.m >= most) return {};
  one.rows = rows, one.k = taps * one.a.channels;
  one.a.m = small(rows), one.a.taps = small(taps), one.a.k = small(one.k);
  if (!portable_rows(one.a, layout.a.alignment, size).empty()) return {};
  b.sides.resize(parts.size());
  for (const KernelPart& part : parts) {  // in the order in which postlude_interleave finds them
    std::size_t at = 0;
    for (const agreed::ScatterAxis& axis : part.scatter.axis)
      at = at * static_cast<std::size_t>(std::min(axis.step, axis.extent)) + static_cast<std::size_t>(axis.first);
    b.sides[at] = side_of(part, one.a);
  }
  made.parts = {one};
  return made;
}

}  // namespace postlude::inline v0::cuda
