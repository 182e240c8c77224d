#include "cuda/decide/rows.h"

#include <algorithm>
#include <type_traits>

namespace postlude::inline v0::cuda {

KernelRows rows_of(const postlude::Address& address, const Bound& a, std::int64_t rows, std::int64_t columns) {
  if (const auto* g = std::get_if<Gathered>(&address)) {
    agreed::GatheredRows r{};
    r.index_batch = g->batch_stride, r.index_stride = g->stride, r.rows = g->rows;
    r.batch = a.strides[0], r.row = a.strides[1], r.column = a.strides[2];
    r.k = small(columns), r.wide = g->dtype == DType::i64;
    return r;
  }
  const auto* w = std::get_if<Windows>(&address);
  if (!w) return {};
  agreed::WindowRows r{};
  for (std::size_t i = 0; i < 3; ++i) {
    const Windows::Axis& axis = w->axes[i];
    r.axis[i] = {axis.extent, axis.pixels, axis.taps, axis.first, axis.step, axis.reach, axis.stride};
  }
  r.image_stride = w->image_stride, r.channel_stride = w->channel_stride;
  r.channels = small(w->channels), r.channels_last = w->channels_last, r.images = small(w->images);
  r.m = small(rows), r.k = small(columns), r.taps = small(w->taps()), r.all_channels = r.channels;
  return r;
}

std::vector<KernelPart> parts_of(const Addressing& addressing) {
  std::vector<KernelPart> parts;
  if (addressing.parts.empty()) return parts;
  const auto add = [&](const Residue& part) -> KernelPart& {
    KernelPart& one = parts.emplace_back();
    one.b_k = part.b, one.b_first = part.b_first, one.k = part.k();
    one.rows = part.a.images;
    for (std::size_t i = 0; i < 3; ++i) {
      const Residue::Place& place = part.place[i];
      const int pixels = (place.extent - place.first + place.step - 1) / place.step;
      one.scatter.axis[i] = {pixels, place.first, place.step, place.extent};
      one.rows *= pixels;
    }
    one.a = std::get<agreed::WindowRows>(rows_of(part.a, Bound(), one.rows, one.k));
    return one;
  };
  const auto has_tap = [&](std::size_t axis, int first) {
    return std::any_of(addressing.parts.begin(), addressing.parts.end(),
                       [&](const Residue& part) { return part.place[axis].first == first; });
  };
  for (const Residue& part : addressing.parts) add(part);
  Residue none = addressing.parts.front();
  for (Windows::Axis& axis : none.a.axes)  // any that a map allows
    axis.pixels = axis.extent, axis.taps = 1, axis.first = 0, axis.reach = 1;
  const auto& places = addressing.parts.front().place;
  std::array<int, 3> first{};
  for (first[0] = 0; first[0] < std::min(places[0].step, places[0].extent); ++first[0])
    for (first[1] = 0; first[1] < std::min(places[1].step, places[1].extent); ++first[1])
      for (first[2] = 0; first[2] < std::min(places[2].step, places[2].extent); ++first[2]) {
        if (has_tap(0, first[0]) && has_tap(1, first[1]) && has_tap(2, first[2])) continue;
        for (std::size_t i = 0; i < 3; ++i) none.place[i].first = first[i];
        KernelPart& one = add(none);
        one.a.taps = 0, one.a.k = 0, one.k = 0;
      }
  return parts;
}

std::optional<std::int64_t> row_stride(const KernelRows& rows) {
  const auto* w = std::get_if<agreed::WindowRows>(&rows);
  if (!w) return {};
  std::int64_t stride = 0, inner = 1;
  for (int i = 2; i >= 0; --i) {
    const agreed::WindowAxis& axis = w->axis[i];
    if (axis.taps != 1 || axis.first != 0 || axis.pixels > axis.extent || (axis.pixels > 1 && axis.step != 1))
      return {};
    if (axis.pixels == 1) continue;
    if (inner == 1) stride = axis.stride;
    else if (axis.stride != stride * inner) return {};
    inner *= axis.pixels;
  }
  return stride;
}

KernelRows usual_rows(Form form, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  if (form == Form::gathered) {
    agreed::GatheredRows r{};
    r.index_batch = rows, r.index_stride = 1, r.rows = rows;
    r.batch = rows * columns, r.row = columns, r.column = 1;
    r.k = small(columns);
    return r;
  }
  if (form != Form::windows) return {};
  const agreed::WindowAxis none{1, 1, 1, 0, 1, 1, 0};
  agreed::WindowRows r{};
  r.axis[0] = r.axis[1] = none, r.axis[2] = {small(rows), small(rows), 1, 0, 1, 1, columns};
  r.image_stride = rows * columns, r.images = small(batch);
  r.channel_stride = 1, r.channels = small(columns), r.channels_last = 1, r.all_channels = small(columns);
  r.m = small(rows), r.k = small(columns), r.taps = 1;
  return r;
}

namespace {

std::optional<Counted::Axis> join(const Counted::Axis* first, const Counted::Axis* end) {
  Counted::Axis all{1, 1};
  while (end != first) {
    const Counted::Axis& axis = *--end;
    if (axis.size == 1) continue;
    if (all.size == 1) all.stride = axis.stride;
    else if (axis.stride != all.stride * all.size) return {};
    all.size *= axis.size;
  }
  return all;
}

}  // namespace

std::optional<std::int64_t> joined(const Counted& counted) {
  const auto all = join(counted.k.data(), counted.k.data() + 4);
  return all ? std::optional(all->stride) : std::nullopt;
}

std::optional<Counted::Axis> joined_outer(const Counted& counted) {
  return join(counted.k.data(), counted.k.data() + 3);
}

std::string bytes_of(const KernelRows& rows) {
  std::string bytes(1, static_cast<char>(rows.index()));
  std::visit(
      [&](const auto& r) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(r)>, std::monostate>)
          bytes.append(reinterpret_cast<const char*>(&r), sizeof r);
      },
      rows);
  return bytes;
}

bool in_chunks(const KernelRows& rows, int alignment, std::int64_t element_bytes) {
  const auto whole = [&](std::int64_t elements) { return elements * element_bytes % 16 == 0; };
  if (alignment < 16) return false;
  if (const auto* g = std::get_if<agreed::GatheredRows>(&rows))
    return (g->column == 1 || g->k == 1) && whole(g->row) && whole(g->batch);
  const auto* w = std::get_if<agreed::WindowRows>(&rows);
  return w && w->channels_last && w->channel_stride == 1 && whole(w->channels) && whole(w->image_stride) &&
         std::all_of(std::begin(w->axis), std::end(w->axis),
                     [&](const agreed::WindowAxis& axis) { return axis.extent == 1 || whole(axis.stride); });
}

PixelLoads pixel_loads(const agreed::WindowRows& w, std::int64_t element_bytes) {
  constexpr int most_loads = 6;
  PixelLoads loads;
  const std::int64_t bytes = w.channels * element_bytes;
  // Narrow runs waste nothing, but take more loads a stage; seven take longer than one with zeros (decision 0260),
  // which channels of groups have no room for.
  if (bytes % 128 != 0 && (bytes < 128 || bytes % 64 == 0)) {
    loads.run = 64;
    while (bytes % loads.run != 0) loads.run /= 2;
    if (bytes < 128 && bytes / loads.run > most_loads && !w.block_columns) loads.run = 128;
  }
  loads.taps = bytes % loads.run != 0;
  const agreed::WindowAxis& depth = w.axis[0];
  loads.depth = depth.extent > 1 || depth.pixels > 1 || depth.taps > 1 || depth.first != 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const agreed::WindowAxis& axis = w.axis[2 - i];
    // The last pixel is walked, the one behind it is not: of what says so, the nearest to the image's end.
    const int least = axis.first + (axis.pixels - 1) * axis.step + 1 - axis.extent;
    loads.lower[i] = axis.first, loads.step[i] = axis.step;
    loads.upper[i] = std::clamp(0, least, least + axis.step - 1);
  }
  return loads;
}

std::string portable_scatter(const KernelPart& part) {
  for (const agreed::ScatterAxis& axis : part.scatter.axis) {
    if (axis.step > 8)
      return "the copy engine walks pixels by at most 8, and the stride is " + std::to_string(axis.step);
  }
  return {};
}

bool deep(const std::vector<KernelPart>& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const KernelPart& part) {
    return pixel_loads(part.a, 2).depth || part.scatter.axis[0].extent > 1;
  });
}

std::string portable_rows(const KernelRows& rows, int alignment, std::int64_t element_bytes, bool deep) {
  if (std::holds_alternative<agreed::GatheredRows>(rows))
    return "A's rows are gathered, which the copy engine does not do";
  const auto* w = std::get_if<agreed::WindowRows>(&rows);
  if (!w) return {};
  if (!w->channels_last || w->channel_stride != 1)
    return "the channels of X do not lie side by side, as the copy engine reads them";
  if (!in_chunks(rows, alignment, element_bytes))
    return "the copy engine reads pixels of whole 16 bytes, and X has " + std::to_string(w->channels) +
           " channels or is not aligned";
  const PixelLoads loads = pixel_loads(*w, element_bytes);
  // What a map has bits for (cuTensorMapEncodeIm2col).
  deep = deep || loads.depth;
  const int corner = deep ? 16 : 128, offset = deep ? 31 : 255;
  for (std::size_t i = 0; i < (deep ? 3 : 2); ++i) {
    const agreed::WindowAxis& axis = w->axis[2 - i];
    if (axis.step > 8)
      return "the copy engine walks pixels by at most 8, and the stride is " + std::to_string(axis.step);
    if (loads.lower[i] < -corner || loads.lower[i] >= corner || loads.upper[i] < -corner || loads.upper[i] >= corner)
      return "the windows reach further beyond the image than the copy engine walks";
    if ((axis.taps - 1) * axis.reach > offset) return "the window is wider than the copy engine's offsets";
    if (axis.stride * element_bytes >= std::int64_t{1} << 40) return "the strides of X are beyond the copy engine's";
  }
  return {};
}

}  // namespace postlude::inline v0::cuda
