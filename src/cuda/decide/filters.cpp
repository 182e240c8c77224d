#include "cuda/decide/filters.h"

#include "core/divide.h"
#include "cuda/decide/decider.h"
#include "cuda/decide/pack.h"

#include <postlude/error.h>

#include <cstring>
#include <utility>

namespace postlude::inline v0::cuda {
namespace {

// Shared memory of a block, of which two run on a multiprocessor; each takes 1024 bytes beside it.
int shared_of(const Subject& subject) {
  return ((subject.arch == "sm_90a" ? shared_limit : mma_shared_limit) + 1024) / FilterTile::resident - 1024;
}

// Strides of dY along images, rows and columns.
std::array<std::int64_t, 3> gradient_strides(const Layout& layout, const agreed::WindowRows& w) {
  if (layout.a_k) return {layout.a_k->k[0].stride, layout.a_k->k[2].stride, layout.a_k->k[3].stride};
  const std::int64_t column = layout.a.strides[2], row = column * w.axis[2].pixels;
  return {row * w.axis[1].pixels, row, column};
}

}  // namespace

std::optional<Filters> filters(const Subject& subject, const Layout& layout) {
  const auto* w = std::get_if<agreed::WindowRows>(&layout.b_rows);
  const Request& request = subject.request;
  if (!w || !sums_channels(subject, layout, *w, Groups::Along::m)) return {};
  if (layout.groups.b_stride != 1 || layout.shape.k == 0) return {};
  const agreed::WindowAxis &rows = w->axis[1], &columns = w->axis[2];
  const int size = small(size_of(subject.problem.loop().contraction()->a));
  const auto strides = gradient_strides(layout, *w);
  agreed::WindowRows x = *w, dy{};
  dy.images = w->images, dy.image_stride = strides[0], dy.channel_stride = 1;
  for (std::size_t i = 0; i < 3; ++i) dy.axis[i].extent = w->axis[i].pixels;
  dy.axis[1].stride = strides[1], dy.axis[2].stride = strides[2];
  Filters made{stencil_of(*w), {}, {}, {}, {}, {}, {}};
  const auto bring = [&](agreed::WindowRows& images, int alignment, std::optional<agreed::UnpackedImages>& copied) {
    if (!in_whole(16, images, layout.shape.m, alignment, size)) copied = copy_channels(images, layout.shape.m, size);
  };
  bring(x, layout.b.alignment, made.x), bring(dy, layout.a.alignment, made.dy);
  made.rows = x;
  const int limit = shared_of(subject);
  const std::int64_t channels = layout.shape.m, images = w->images;
  const auto schedule = request.schedule
                            ? request.schedule
                            : filter_schedule(made.stencil, {channels, images, size, limit, subject.multiprocessors});
  if (!schedule) return {};
  std::string why;
  const auto tile = filter_tile(*schedule, made.stencil, size, limit, why);
  if (!tile) throw not_legal(request, why);
  made.schedule = *schedule, made.tile = *tile;
  agreed::FilterSums& sums = made.sums;
  sums.image_stride = dy.image_stride, sums.row_stride = dy.axis[1].stride, sums.column_stride = dy.axis[2].stride;
  sums.part_elements = channels * layout.shape.n;
  sums.channels = small(channels), sums.blocks = small(ceil_div(channels, tile->channels));
  sums.tiles_y = small(ceil_div(rows.pixels, tile->y)), sums.tiles_x = small(ceil_div(columns.pixels, tile->x));
  const std::int64_t tiles = images * sums.tiles_y * sums.tiles_x;
  if (tiles > std::int64_t{1} << 30) return {};
  sums.tiles = small(tiles), sums.parts = filter_parts(tiles, sums.blocks, subject.multiprocessors);
  return made;
}

// Where parts of the accumulator lie: nowhere else, where there is one.
void Decider::take_parts(int parts) {
  k_parts_ = accumulator_;
  if (parts == 1) return;
  const std::int64_t bytes = shape_.m * shape_.n * 4;
  k_parts_ = take(parts * bytes);
  beside("parts of the accumulator", parts * bytes, parts * bytes);
}

void Decider::emit_fold(int parts) {
  if (parts == 1) return;
  agreed::Folded f{};
  f.elements = shape_.m * shape_.n, f.parts = parts;
  Kernel& k = kernel(plain_text_, "postlude_fold");
  k.grid[0] = static_cast<unsigned>(ceil_div(f.elements, 32));
  k.addresses = {{offsetof(agreed::Folded, from) / 8, k_parts_}, {offsetof(agreed::Folded, to) / 8, accumulator_}};
  k.block.resize(sizeof f / 8);
  std::memcpy(k.block.data(), &f, sizeof f);
}

void Decider::emit_filters() {
  const agreed::FilterSums& sums = filters_->sums;
  d_.on_ordinary_units = to_string(filters_->schedule) + " in " + std::to_string(sums.parts) + " parts";
  const DType type = subject_.problem.loop().contraction()->a;
  Address x{Address::Of::b}, dy{Address::Of::a};
  plain_text_ = std::make_shared<const std::string>(copies_source(type));
  if (filters_->x) emit_repack_images(type, *filters_->x, std::exchange(x, packed_images_), packed_images_);
  if (filters_->dy) emit_repack_images(type, *filters_->dy, std::exchange(dy, packed_a_), packed_a_);
  plain_text_ = std::make_shared<const std::string>(filters_source(type, filters_->stencil, filters_->tile));
  Kernel& k = kernel(plain_text_, "postlude_filters");
  k.grid[0] = static_cast<unsigned>(sums.parts * sums.blocks);
  k.threads = FilterTile::warps * 32, k.shared = filters_->tile.shared;
  k.addresses = {{offsetof(agreed::FilterSums, x) / 8, x},
                 {offsetof(agreed::FilterSums, dy) / 8, dy},
                 {offsetof(agreed::FilterSums, to) / 8, k_parts_}};
  k.block.resize((sizeof sums + sizeof filters_->rows) / 8);
  std::memcpy(k.block.data(), &sums, sizeof sums);
  std::memcpy(&k.block[sizeof sums / 8], &filters_->rows, sizeof filters_->rows);
  emit_fold(sums.parts);
}

}  // namespace postlude::inline v0::cuda
