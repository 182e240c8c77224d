#include "cuda/decide/pack.h"

#include "core/divide.h"
#include "cuda/decide/product.h"

#include <algorithm>
#include <limits>

namespace postlude::inline v0::cuda {
namespace {

constexpr std::int64_t few_bytes = 32;  // of a pixel

// How K of B is counted by a tap along each axis and a channel, of which `taps` and `channels` are padded with zeros.
agreed::Counting counted(const Layout& layout, const agreed::WindowRows& w, int taps, int channels) {
  std::array<std::int64_t, 4> size{w.axis[0].taps, w.axis[1].taps, w.axis[2].taps, w.channels}, stride{};
  if (!w.channels_last) std::rotate(size.begin(), size.begin() + 3, size.end());
  std::int64_t step = layout.b.strides[1];
  for (std::size_t i = 4; i-- > 0;) {
    stride[i] = layout.b_k ? layout.b_k->k[i].stride : step;
    step *= size[i];
  }
  if (!w.channels_last) {
    std::rotate(size.begin(), size.begin() + 1, size.end());
    std::rotate(stride.begin(), stride.begin() + 1, stride.end());
  }
  agreed::Counting c{};
  for (std::size_t i = 0; i < 4; ++i) c.stride[i] = stride[i], c.size[i] = c.valid[i] = small(size[i]);
  c.size[2] = taps, c.size[3] = channels;
  return c;
}

// Channels and taps along a row that make a pixel of a window's row: a legal stride, and loads that are wide.
struct Row {
  int channels, taps;
};
// `whole`: runs of 128 bytes.
Row row_of(const agreed::WindowRows& w, std::int64_t size, bool whole) {
  Row row{w.channels, w.axis[2].taps};
  while (std::int64_t{w.axis[2].step} * row.channels * size % 16 != 0) ++row.channels;
  const auto bytes = [&](int taps) { return taps * row.channels * size; };
  while (bytes(row.taps) % 16 != 0) ++row.taps;
  for (int taps = row.taps; taps < 2 * row.taps + 16; ++taps) {
    if (bytes(taps) % (whole ? 128 : 64) == 0 || (!whole && (bytes(taps) == 16 || bytes(taps) == 32)))
      return {row.channels, taps};
  }
  return row;
}

// What is copied of the images that `rows` are windows of, which then are windows of the copy: of pixels of `channels`,
// or (`row`) of rows that are pixels.
agreed::UnpackedImages copy(agreed::WindowRows& rows, int channels, const std::optional<Row>& row, std::int64_t size) {
  agreed::UnpackedImages x{};
  for (int i = 0; i < 3; ++i) x.stride[i] = rows.axis[i].stride, x.extent[i] = rows.axis[i].extent;
  x.image_stride = rows.image_stride, x.images = rows.images;
  x.channel_stride = rows.channel_stride, x.channels = rows.channels;
  x.columns = rows.axis[2].extent, x.packed = channels;
  agreed::WindowAxis& axis = rows.axis[2];
  if (row) {
    x.first = axis.first, x.packed = row->channels, x.columns = (axis.pixels - 1) * axis.step + row->taps;
    while (std::int64_t{x.columns} * x.packed * size % 16 != 0) ++x.columns;
    rows.channels = row->taps * row->channels, rows.taps = rows.axis[0].taps * rows.axis[1].taps;
    axis = {axis.pixels, axis.pixels, 1, 0, 1, 1, std::int64_t{axis.step} * row->channels};
  } else {
    rows.channels = channels, axis.stride = channels;
  }
  rows.axis[1].stride = std::int64_t{x.columns} * x.packed;
  rows.axis[0].stride = rows.axis[1].stride * x.extent[1];
  rows.image_stride = rows.axis[0].stride * x.extent[0];
  rows.channel_stride = 1, rows.channels_last = 1, rows.all_channels = rows.channels;
  rows.k = rows.channels * rows.taps;
  return x;
}

bool few(const agreed::WindowRows& w, std::int64_t size) {
  return w.channels * size <= few_bytes && w.axis[2].taps > 1 && w.axis[2].reach == 1;
}

// Windows that do not overlap, or of few channels, without padding: a row of one is a run of memory, so it is a pixel's
// channels. Rows that are further apart than the copy engine walks are counted by a depth. None: nothing of it can be.
std::optional<agreed::WindowRows> patches(const agreed::WindowRows& w, int alignment, std::int64_t size) {
  constexpr int most_steps = 8;
  agreed::WindowRows made = w;
  agreed::WindowAxis &depth = made.axis[0], &rows = made.axis[1], &columns = made.axis[2];
  const auto inside = [](const agreed::WindowAxis& a) {
    return a.first == 0 && a.reach == 1 && (a.pixels - 1) * a.step + a.taps <= a.extent;
  };
  const bool runs = columns.taps > 1 && columns.stride == w.channels && w.channels_last && w.channel_stride == 1;
  if (runs && inside(columns) && (few(w, size) || columns.step >= columns.taps)) {
    made.channels = made.all_channels = columns.taps * w.channels;
    columns = {columns.pixels, columns.pixels, 1, 0, 1, 1, columns.step * columns.stride};
  }
  const bool flat = depth.extent == 1 && depth.pixels == 1 && depth.taps == 1 && depth.first == 0;
  if (rows.step > most_steps && flat && inside(rows) && rows.taps <= rows.step) {
    depth = {rows.taps, 1, rows.taps, 0, 1, 1, rows.stride};
    rows = {rows.pixels, rows.pixels, 1, 0, 1, 1, rows.step * rows.stride};
  }
  made.taps = depth.taps * rows.taps * columns.taps;
  if ((made.channels == w.channels && made.taps == w.taps && depth.taps == w.axis[0].taps) ||
      !portable_rows(made, alignment, size).empty())
    return {};
  return made;
}

// A weight gradient's: 64 columns are of one tap, so there may be columns between those that are asked for. The copy
// engine puts zeros there, and reads images as they lie where it can (decision 0255).
std::optional<Layout> padded(const Layout& layout, const agreed::WindowRows& w) {
  constexpr std::int64_t size = 2;
  const bool as_they_lie = portable_rows(layout.b_rows, layout.b.alignment, size).empty();
  if (w.channels % 64 == 0 && as_they_lie) return {};
  Layout made = layout;
  agreed::WindowRows& rows = std::get<agreed::WindowRows>(made.b_rows);
  const std::optional<Row> row = few(w, size) ? std::optional(row_of(w, size, true)) : std::nullopt;
  if (row || !as_they_lie) {
    made.images = copy(rows, small(round_up(w.channels, 8)), row, size);
    made.b.alignment = 16;
  }
  rows.channels = small(round_up(rows.channels, 64)), rows.k = rows.channels * rows.taps;
  agreed::Padded& padded = made.padded.emplace(agreed::Padded{});
  padded.n = small(layout.shape.n), padded.padded = rows.k;
  padded.taps = w.axis[2].taps, padded.channels = w.channels;
  padded.padded_row = row ? rows.channels : w.axis[2].taps * rows.channels;
  padded.padded_channels = row ? row->channels : rows.channels;
  padded.block_groups = 1;
  if (!portable_rows(made.b_rows, made.b.alignment, size).empty()) return {};
  return made;
}

// Channels of a copied pixel: zeros behind its own, as many as make what the copy engine does for a pixel least. A run
// takes so many clocks, more where it reaches beyond the channels (decision 0282).
int copied_channels(agreed::WindowRows rows, std::int64_t size) {
  constexpr double of_run = 1.7, of_byte = 0.056, beyond = 1.3;
  const std::int64_t bytes = rows.channels * size;
  int best = 0;
  double least = 0;
  for (const std::int64_t whole : {16, 32, 64, 128}) {
    const std::int64_t padded = round_up(bytes, whole);
    rows.channels = small(padded / size);
    const PixelLoads loads = pixel_loads(rows, size);
    const double clocks =
        static_cast<double>(ceil_div(padded, loads.run)) * (of_run + of_byte * loads.run) * (loads.taps ? beyond : 1);
    if (!best || clocks < least) best = rows.channels, least = clocks;
  }
  return best;
}

// The residues of a strided data gradient over a copy of dY, whose pixels are no whole 16 bytes.
std::optional<Layout> residues_copied(const Layout& layout, std::int64_t size) {
  const auto walked = [&](const Layout& of) {
    return std::ranges::all_of(of.parts, [&](const KernelPart& part) {
      return portable_rows(part.a, of.a.alignment, size, deep(of.parts)).empty() && portable_scatter(part).empty();
    });
  };
  if (layout.beside || walked(layout)) return {};
  Layout made = layout;
  for (KernelPart& part : made.parts) {
    // K counts the copy's channels last.
    if (!part.a.channels_last) std::rotate(part.b_k.k.begin(), part.b_k.k.begin() + 1, part.b_k.k.end());
    made.images = copy(part.a, copied_channels(part.a, size), {}, size);
    part.k = part.a.k;
  }
  made.a.alignment = 16;
  if (!walked(made)) return {};
  return made;
}

}  // namespace

std::optional<Layout> packed(const Subject& subject, const Layout& layout) {
  const auto gemm = subject.problem.loop().contraction();
  if (!gemm || subject.arch != "sm_90a" || subject.request.mma || layout.groups.count > 1 || layout.diagonal ||
      layout.depthwise)
    return {};
  if (layout.shape.k == 0 || !on_tensor_cores(gemm->a, gemm->b, subject.arch)) return {};
  const std::int64_t size = size_of(gemm->a);
  if (const auto* w = std::get_if<agreed::WindowRows>(&layout.b_rows); w && size == 2) {
    const auto as_patches = patches(*w, layout.b.alignment, size);
    if (!as_patches) return padded(layout, *w);
    Layout made = layout;
    made.b_rows = *as_patches;
    const std::optional<Layout> copied = padded(made, *as_patches);
    return copied ? *copied : made;
  }
  if (!layout.parts.empty()) return residues_copied(layout, size);
  const auto* w = std::get_if<agreed::WindowRows>(&layout.a_rows);
  if (const auto as_patches = w ? patches(*w, layout.a.alignment, size) : std::nullopt) {
    Layout made = layout;
    made.a_rows = *as_patches;
    return made;
  }
  if (!w || (!few(*w, size) && portable_rows(layout.a_rows, layout.a.alignment, size).empty())) return {};
  Layout made = layout;
  agreed::WindowRows& rows = std::get<agreed::WindowRows>(made.a_rows);
  const int channels = copied_channels(*w, size);
  const std::optional<Row> row = few(*w, size) ? std::optional(row_of(*w, size, false)) : std::nullopt;
  made.images = copy(rows, channels, row, size);
  made.b_count = counted(layout, *w, row ? row->taps : w->axis[2].taps, row ? row->channels : channels);
  made.packed_k = rows.k;
  made.a.alignment = 16;
  if (!portable_rows(made.a_rows, 16, size).empty()) return {};
  return made;
}

bool sums_channels(const Subject& subject, const Layout& layout, const agreed::WindowRows& w, Groups::Along along) {
  const auto gemm = subject.problem.loop().contraction();
  const Groups& groups = layout.groups;
  const Request& request = subject.request;
  const std::int64_t all = along == Groups::Along::m ? layout.shape.m : layout.shape.n;
  if (!gemm || groups.along != along || groups.count <= 1 || groups.count != all || groups.a_stride != 1) return false;
  if (request.schedule ? request.schedule->strip_x == 0 : request.mma && subject.arch == "sm_90a") return false;
  if (gemm->a != gemm->b || (gemm->a != DType::bf16 && gemm->a != DType::f16 && gemm->a != DType::f32)) return false;
  const agreed::WindowAxis& depth = w.axis[0];
  return w.channels == 1 && depth.extent == 1 && depth.pixels == 1 && depth.taps == 1 && depth.first == 0;
}

agreed::UnpackedImages copy_channels(agreed::WindowRows& w, std::int64_t channels, std::int64_t size) {
  agreed::WindowRows all = w;
  all.channels = small(channels);
  const agreed::UnpackedImages made = copy(all, small(round_up(channels * size, 16) / size), {}, size);
  for (std::size_t i = 0; i < 3; ++i) w.axis[i].stride = all.axis[i].stride;
  w.image_stride = all.image_stride;
  return made;
}

bool in_pixel_boxes(const agreed::WindowRows& w) {
  const auto apart = [](std::int64_t extent, std::int64_t stride) { return extent == 1 || stride > 0; };
  const auto& [depth, rows, columns] = w.axis;
  return apart(w.images, w.image_stride) && apart(rows.extent, rows.stride) && apart(columns.extent, columns.stride);
}

bool in_whole(int bytes, const agreed::WindowRows& w, std::int64_t channels, int alignment, std::int64_t size) {
  const auto whole = [&](std::int64_t elements, std::int64_t extent) {
    return extent == 1 || elements * size % bytes == 0;
  };
  return alignment >= bytes && whole(channels, 2) && whole(w.image_stride, 2) &&
         whole(w.axis[1].stride, w.axis[1].extent) && whole(w.axis[2].stride, w.axis[2].extent);
}

Stencil stencil_of(const agreed::WindowRows& w) {
  const auto axis = [](const agreed::WindowAxis& a) {
    return Stencil::Axis{a.pixels, a.taps, a.step, a.reach, a.extent, a.first, a.stride};
  };
  return {.y = axis(w.axis[1]), .x = axis(w.axis[2])};
}

// The residues of a strided data gradient, `up` pixels of whose images are one of dY, as one product over images with
// zeros between their pixels; false where a residue has no tap. `first_weight`: where W begins then.
static bool join_residues(Layout& layout, std::array<int, 3>& up, std::int64_t& first_weight) {
  const std::vector<KernelPart> parts = std::move(layout.parts);
  layout.parts.clear();
  agreed::WindowRows rows = parts.front().a;
  std::array<int, 3> first{};  // of the residue whose first tap is W's
  rows.taps = rows.m = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    const agreed::ScatterAxis& place = parts.front().scatter.axis[i];
    int taps = 0, least = std::numeric_limits<int>::max();
    for (int f = 0; f < place.step; ++f) {
      const auto part =
          std::ranges::find_if(parts, [&](const KernelPart& p) { return p.k > 0 && p.scatter.axis[i].first == f; });
      if (part == parts.end() || part->a.axis[i].reach != 1) return false;
      taps += part->a.axis[i].taps;
      if (const int at = place.step * part->a.axis[i].first - f; at < least) least = at, first[i] = f;
    }
    up[i] = place.step;
    rows.axis[i].pixels = place.extent, rows.axis[i].taps = taps, rows.axis[i].first = least;
    rows.taps *= taps, rows.m *= place.extent;
  }
  rows.k = rows.taps * rows.channels;
  const auto front = std::ranges::find_if(parts, [&](const KernelPart& p) {
    return std::ranges::all_of(std::array{0, 1, 2}, [&](int i) { return p.scatter.axis[i].first == first[i]; });
  });
  first_weight = front->b_first;
  layout.b_k = front->b_k;
  for (std::size_t i = 0; i < 3; ++i) layout.b_k->k[i].stride /= up[i];
  layout.a_rows = rows;
  return rows.channels_last != 0;
}

std::optional<Layout> depthwise(const Subject& subject, const Layout& layout) {
  constexpr int most_taps = 49;  // weights that a lane holds
  Layout made = layout;
  std::array<int, 3> up{1, 1, 1};
  std::int64_t first_weight = 0;
  if (!layout.parts.empty() && !join_residues(made, up, first_weight)) return {};
  const auto* w = std::get_if<agreed::WindowRows>(&made.a_rows);
  if (!w || !sums_channels(subject, layout, *w, Groups::Along::n)) return {};
  const agreed::WindowAxis &rows = w->axis[1], &columns = w->axis[2];
  const std::int64_t size = size_of(subject.problem.loop().contraction()->a);
  const auto by = [&](int bytes) { return in_whole(bytes, *w, layout.shape.n, layout.a.alignment, size); };
  const bool narrow = !by(16), hopper = subject.arch == "sm_90a";
  if (narrow && (size != 2 || !hopper)) return {};
  if (std::int64_t{rows.taps} * columns.taps > most_taps) return {};
  made.groups = {};
  Stencil& stencil = made.depthwise.emplace(stencil_of(*w));
  stencil.channel_stride = layout.groups.b_stride, stencil.weight_alignment = layout.b.alignment;
  stencil.y.weight_stride = made.b_k ? made.b_k->k[1].stride : columns.taps * layout.b.strides[1];
  stencil.x.weight_stride = made.b_k ? made.b_k->k[2].stride : layout.b.strides[1];
  stencil.y.up = up[1], stencil.x.up = up[2], stencil.first_weight = first_weight, stencil.narrow = narrow;
  stencil.singles = !by(4);
  EpilogueNeeds least{.d_bytes_column = 4, .element_bytes = small(size), .stencil = stencil};
  if (!layout.parts.empty() || narrow) least.any_rows = hopper, least.boxes = hopper && in_pixel_boxes(*w);
  if (candidates(least, true).empty()) return {};
  made.b_k.reset();
  return made;
}

std::optional<Layout> together(const Subject& subject, const Layout& layout) {
  const auto gemm = subject.problem.loop().contraction();
  const Groups& groups = layout.groups;
  if (!gemm || subject.arch != "sm_90a" || subject.request.mma || groups.count <= 1) return {};
  if (layout.shape.k == 0 || layout.shape.n == 0 || groups.along != Groups::Along::n ||
      !on_tensor_cores(gemm->a, gemm->b, subject.arch))
    return {};
  if (subject.request.schedule && subject.request.schedule->strip_x) return {};
  Layout made = layout;
  if (layout.parts.empty() && std::holds_alternative<std::monostate>(layout.a_rows)) {  // of one tap, a stride apart
    made.a_rows = usual_rows(Form::windows, layout.shape.batch, layout.shape.m, layout.shape.k);
    agreed::WindowRows& rows = std::get<agreed::WindowRows>(made.a_rows);
    rows.image_stride = layout.a.strides[0], rows.axis[2].stride = layout.a.strides[1];
    rows.channel_stride = layout.a.strides[2];
  }
  const auto* w = layout.parts.empty() ? std::get_if<agreed::WindowRows>(&made.a_rows) : &layout.parts.front().a;
  if (!w) return {};
  const std::int64_t size = size_of(gemm->a), columns = layout.shape.n / groups.count;
  const int channels = w->channels;
  if (groups.a_stride != channels || w->channel_stride != 1) return {};
  if (columns % 64 != 0 && 64 % columns != 0) return {};
  const std::int64_t block = std::max<std::int64_t>(64, columns), together = block / columns;
  bool walked = true;
  const auto widen = [&](agreed::WindowRows& rows) {
    walked = walked && (layout.parts.empty() || rows.channels_last);
    rows.channels = small(together * channels), rows.all_channels = small(groups.count * channels);
    rows.block_columns = small(block);
    rows.channels_last = 1, rows.k = rows.channels * rows.taps;
    walked = walked && rows.channels * size % 16 == 0 && !pixel_loads(rows, size).taps &&
             portable_rows(rows, layout.a.alignment, size, deep(layout.parts)).empty();
  };
  for (KernelPart& part : made.parts) {
    widen(part.a);
    part.k = part.a.k;
    walked = walked && portable_scatter(part).empty();
  }
  if (layout.parts.empty()) {
    agreed::WindowRows& rows = std::get<agreed::WindowRows>(made.a_rows);
    made.b_count = counted(layout, rows, rows.axis[2].taps, channels);
    widen(rows);
    made.packed_k = rows.k;
  }
  if (!walked) return {};
  made.diagonal = {groups.b_stride, small(columns), channels, small(together)};
  made.groups = {};
  return made;
}

std::optional<Layout> together_by_weights(const Subject& subject, const Layout& layout) {
  const auto* w = std::get_if<agreed::WindowRows>(&layout.b_rows);
  const auto gemm = subject.problem.loop().contraction();
  const Groups& groups = layout.groups;
  const Request& request = subject.request;
  if (!w || !gemm || subject.arch != "sm_90a" || request.mma || groups.count <= 1) return {};
  if (layout.shape.k == 0 || layout.shape.m == 0 || (request.schedule && request.schedule->strip_x)) return {};
  const std::int64_t size = size_of(gemm->a), filters = layout.shape.m / groups.count;
  if (size != 2 || groups.along != Groups::Along::m || !on_tensor_cores(gemm->a, gemm->b, subject.arch)) return {};
  if (groups.a_stride != filters || groups.b_stride != w->channels || w->channel_stride != 1) return {};
  if (filters % 64 != 0 && 64 % filters != 0) return {};
  const std::int64_t block = std::max<std::int64_t>(64, filters), together = block / filters,
                     channels = together * w->channels;
  if (channels % 64 != 0) return {};
  Layout made = layout;
  agreed::WindowRows& rows = std::get<agreed::WindowRows>(made.b_rows);
  rows.channels = small(channels), rows.all_channels = small(groups.count * w->channels);
  rows.block_columns = small(block);
  rows.channels_last = 1, rows.k = rows.channels * rows.taps;
  if (!portable_rows(made.b_rows, layout.b.alignment, size).empty()) return {};
  if (together > 1) {
    agreed::Padded& padded = made.padded.emplace(agreed::Padded{});
    padded.n = small(layout.shape.n), padded.padded = rows.k;
    padded.taps = w->axis[2].taps, padded.channels = w->channels;
    padded.padded_row = w->axis[2].taps * rows.channels, padded.padded_channels = rows.channels;
    padded.group_rows = small(filters), padded.block_groups = small(together);
  }
  made.groups = {};
  return made;
}

}  // namespace postlude::inline v0::cuda
