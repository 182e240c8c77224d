// Tensors as the copy engine walks them.
#include "cuda/decide/decider.h"

#include <algorithm>
#include <utility>

namespace postlude::inline v0::cuda {

// A tensor as the copy engine is told of it, or as the portable kernel reads it (device/sm80.cu): `dimensions` are then
// columns, rows, batches.
void Decider::map(Kernel& k, const Address& address, DType type, std::vector<MapField::Dimension> dimensions,
                  int row_bytes) const {
  const std::size_t at = k.block.size();
  k.block.resize(at + map_words);
  if (!product_->schedule.mma) {
    k.maps.push_back({at, address, type, std::move(dimensions), row_bytes});
    return;
  }
  k.addresses.push_back({at, address});
  for (int i = 0; i < 2; ++i) {
    k.block[at + 1 + i] = word(dimensions[i].extent);
    k.block[at + 3 + i] = word(dimensions[i + 1].stride * size_of(type));
  }
}

// X, of which the copy engine loads so many pixels at a time.
void Decider::map_pixels(Kernel& k, const agreed::WindowRows& w, DType type, const Address& from, int pixels) const {
  const bool depth = b_windows() ? variant_.b_depth : variant_.a_depth;
  const PixelLoads loads = pixel_loads(w, size_of(type));
  std::vector<MapField::Dimension> dimensions{{w.all_channels, 1, 1}};
  for (std::size_t i = 0; i < (depth ? 3 : 2); ++i)
    dimensions.push_back({w.axis[2 - i].extent, w.axis[2 - i].stride, 1});
  dimensions.push_back({w.images, w.image_stride, 1});
  const auto at = k.block.size();
  k.block.resize(at + map_words);
  k.maps.push_back(
      {at, from, type, std::move(dimensions), loads.run,
       MapField::Pixels{static_cast<int>(loads.run / size_of(type)), pixels, loads.lower, loads.upper, loads.step}});
}

// `rows`: of a box along K, here and below.
void Decider::map_a(Kernel& k, const Contraction& gemm, int rows) const {
  const int bk = static_cast<int>(std::min(128, k_bytes(product_->schedule)) / size_of(gemm.a));
  if (product_->schedule.ring) {  // rows of pixels, each of a few images
    const agreed::WindowRows& w = *windows();
    const BandPixels pixels = band_pixels(product_->schedule, variant_.stencil);
    const int channels = product_->schedule.bn;
    k.maps.push_back({k.block.size(),
                      {Address::Of::a},
                      gemm.a,
                      {{shape_.n, 1, channels},
                       {w.axis[2].extent, w.axis[2].stride, pixels.row},
                       {w.images, w.image_stride, product_->schedule.images},
                       {w.axis[1].extent, w.axis[1].stride, pixels.box},
                       {1, 1, 1}},
                      static_cast<int>(channels * size_of(gemm.a))});
    k.block.resize(k.block.size() + map_words);
    return;
  }
  if (const auto* w = windows(); w && !product_->schedule.mma) {
    map_pixels(k, *w, gemm.a, layout_.images ? packed_images_ : Address{Address::Of::a}, product_->schedule.bm);
    return;
  }
  if (variant_.shifted_a) {
    map_shifted(k, gemm, true, 0);
    return;
  }
  const Address from = d_.repack_a ? packed_a_ : Address{Address::Of::a};
  const Packed packed = this->packed(gemm, true);
  const std::int64_t line = d_.repack_a ? packed.pitch : layout_.a.strides[variant_.a_mn_major ? 2 : 1],
                     batch = d_.repack_a ? packed.lines * packed.pitch : layout_.a.strides[0];
  const MapField::Dimension batches{layout_.a.strides[0] ? shape_.batch : 1, batch, 1};
  if (variant_.a_mn_major)
    map(k, from, gemm.a, {{shape_.m, 1, 64}, {shape_.k, line, bk / sharing_a(product_->schedule)}, batches}, 128);
  else if (const EpilogueNeeds& n = product_->epilogue.needs; is_gathered_below(n))
    map(k, from, gemm.a,
        {{shape_.k, 1, bk},
         {n.row_piece, line, n.row_piece},
         {n.below, n.row_piece * line, 1},
         {this->rows() / n.row_piece, n.below * n.row_piece * line, rows / n.row_piece},
         batches},
        128);
  else map(k, from, gemm.a, {{shape_.k, 1, bk}, {shape_.m, line, rows}, batches}, 128);
}

void Decider::map_b(Kernel& k, const Contraction& gemm, int rows) const {
  const Schedule& s = product_->schedule;
  if (const auto& d = layout_.depthwise) {
    const std::size_t at = k.block.size();
    k.block.resize(at + map_words);
    Address from = b_address(gemm);
    from.offset += d->first_weight * size_of(gemm.b);
    k.addresses.push_back({at, from});
    k.block[at + 1] = word(d->channel_stride), k.block[at + 2] = word(d->y.weight_stride),
                 k.block[at + 3] = word(d->x.weight_stride);
    return;
  }
  const int bk = static_cast<int>(k_bytes(s) / size_of(gemm.a));
  if (const auto* w = b_windows(); w && !s.mma) {
    map_pixels(k, *w, gemm.b, layout_.images ? packed_images_ : Address{Address::Of::b}, bk);
    return;
  }
  Address from = d_.repack_b ? packed_b_ : b_address(gemm);
  const Packed packed = this->packed(gemm, false);
  const std::int64_t row = d_.repack_b ? packed.pitch : layout_.b.strides[2],
                     batch = d_.repack_b ? packed.lines * packed.pitch : layout_.b.strides[0];
  MapField::Dimension batches{layout_.b.strides[0] ? shape_.batch : 1, batch, 1};
  std::int64_t depth = this->depth(),  // of K, and the stride from one to the next
      column = d_.repack_b && variant_.b_mn_major ? packed.pitch : layout_.b.strides[1];
  if (variant_.b_taps == 1 && !s.mma) {
    // A tap stands for a batch: B is shared by all images.
    depth = variant_.group_k ? variant_.group_k : windows()->channels;
    batches = {windows()->taps, d_.repack_b ? depth : depth * column, 1};
  }
  if (variant_.b_taps == 2 && !s.mma) {
    const auto& axis = b_k()->k;
    std::vector<MapField::Dimension> dimensions{{axis[3].size, axis[3].stride, bk},
                                                {shape_.n, row, b_run(s, product_->epilogue.needs)}};
    if (variant_.b_mn_major)
      std::swap(dimensions[0], dimensions[1]), dimensions[0].box = 64, dimensions[1].box = bk / s.cluster_m;
    if (variant_.group_columns) {  // a group's columns, and the filters of all
      dimensions[0].extent = variant_.group_columns, dimensions[1].extent = windows()->all_channels;
      dimensions[1].box = std::min(dimensions[1].box, product_->epilogue.needs.b_box);
    }
    for (std::size_t i = 3; i-- > 0;) {  // from the last tap on
      from.offset += (axis[i].size - 1) * axis[i].stride * size_of(gemm.b);
      dimensions.push_back({axis[i].size, -axis[i].stride, 1});
    }
    map(k, from, gemm.b, dimensions, 128);
    return;
  }
  if (variant_.shifted) {
    map_shifted(k, gemm, false, 0);
    return;
  }
  const MapField::Dimension along_k{depth, 1, bk};
  if (variant_.b_mn_major) {
    const int pieces = variant_.b_pieces;
    if (pieces > 1) batches = {pieces, depth * column, 1};
    map(k, from, gemm.b, {{shape_.n / pieces, 1, 64}, {depth, column, bk / s.cluster_m}, batches}, 128);
  } else if (const EpilogueNeeds& n = product_->epilogue.needs; !s.mma && is_gathered(s, n)) {
    map(k, from, gemm.b,
        {along_k,
         {n.piece, row, n.piece},
         {n.parts, n.piece * row, 1},
         {columns_ / n.piece, n.parts * n.piece * row, rows / n.piece},
         batches},
        128);
  } else {
    map(k, from, gemm.b, {along_k, {b_rows(), row, rows}, batches}, 128);
  }
}

// Of A or B as it lies the rows that begin alike, from row `first` on.
void Decider::map_shifted(Kernel& k, const Contraction& gemm, bool of_a, int first) const {
  const Schedule& s = product_->schedule;
  const bool along_n = !of_a && variant_.b_mn_major;
  const Placed& placed = of_a ? layout_.a : layout_.b;
  const bool flat = of_a && variant_.flat_a;  // batches are rows
  const std::int64_t row = placed.strides[of_a || along_n ? 1 : 2], batch = flat ? 0 : placed.strides[0],
                     rows = flat      ? rows_of_batches()
                            : of_a    ? shape_.m
                            : along_n ? shape_.k
                                      : shape_.n;
  const ShiftedWindows windows = of_a ? shifted_a(s, product_->epilogue.needs) : shifted_b(s, along_n);
  const int apart = of_a ? variant_.shifted_a : variant_.shifted, bytes = static_cast<int>(size_of(gemm.a));
  Address from = of_a ? Address{Address::Of::a} : b_address(gemm);
  if (first < rows) from.offset += first * row * bytes;
  map(k, from, gemm.a,
      {{along_n ? shape_.n : shape_.k, 1, windows.bytes / bytes},
       {ceil_div(rows - first, apart), apart * row, windows.lines / apart},
       {batch ? shape_.batch : 1, batch, 1}},
      16);
  k.maps.back().down = true;
}

// Behind all other maps: in place of those of edges what lanes shift by, an address and a stride, and those of the
// other rows.
void Decider::map_shifts(Kernel& k, const Contraction& gemm, int edge_a, int edge_b) const {
  const auto place = [&](const Address& address, std::int64_t row) {
    k.addresses.push_back({k.block.size(), address});
    k.block.resize(k.block.size() + map_words);
    k.block[k.block.size() - map_words + 1] = word(row * size_of(gemm.a));
  };
  if (variant_.shifted_a) {
    place({Address::Of::a}, layout_.a.strides[1]);
    k.block[k.block.size() - map_words + 2] = word(rows_of_batch());
  } else map_a(k, gemm, edge_a);
  if (variant_.shifted == 0) map_b(k, gemm, edge_b);
  else place(b_address(gemm), layout_.b.strides[variant_.b_mn_major ? 1 : 2]);
  for (int first = 1; first < variant_.shifted; ++first) map_shifted(k, gemm, false, first);
  for (int first = 1; first < variant_.shifted_a; ++first) map_shifted(k, gemm, true, first);
}

// Rows of a residue as pixels that the copy engine walks.
void Decider::map_scattered(Kernel& k, const Address& address, DType type, std::int64_t width, std::int64_t stride,
                            int row_bytes, int rows) const {
  const auto& axes = part_->scatter.axis;
  const std::size_t spatial = variant_.a_depth ? 3 : 2;
  MapField::Pixels pixels{static_cast<int>(row_bytes / size_of(type)), rows, {}, {}, {1, 1, 1}};
  std::vector<MapField::Dimension> dimensions{{width, 1, 1}};
  for (std::size_t i = 0; i < spatial; ++i) {
    const agreed::ScatterAxis& axis = axes[2 - i];
    dimensions.push_back({axis.extent, stride, 1});
    stride *= axis.extent;
    const int least = axis.first + (axis.pixels - 1) * axis.step + 1 - axis.extent;
    pixels.lower[i] = axis.first, pixels.step[i] = axis.step;
    pixels.upper[i] = std::clamp(0, least, least + axis.step - 1);
  }
  dimensions.push_back({part_->a.images, stride, 1});
  const std::size_t at = k.block.size();
  k.block.resize(at + map_words);
  k.maps.push_back({at, address, type, std::move(dimensions), row_bytes, pixels});
}

// A tile operand or output, of which `rows` rows of a subtile move together.
void Decider::map_tile(Kernel& k, DType type, const Memory& memory, const lower::ColumnMap& columns, int rows) const {
  const std::int64_t bytes = size_of(type);
  // A piece of all columns is a tensor of its own, so that its last subtile ends where it does; groups lie in the
  // whole.
  const bool halved = !columns.steps.empty() && columns.steps[0].group == 0,
             grouped = !columns.steps.empty() && !halved;
  Address address = memory.address;
  const std::int64_t side_by_side = variant_.turned ? this->rows() : columns_;
  if (halved) address.offset += columns.steps[0].piece * side_by_side * bytes;
  const std::int64_t width = side_by_side * (grouped ? columns.steps[0].pieces : 1);
  const int row_bytes = static_cast<int>(std::min<std::int64_t>(128, product_->schedule.sub_n * bytes));
  if (variant_.scattered && !product_->schedule.mma) {
    map_scattered(k, address, type, width, memory.strides[1], row_bytes, rows);
    return;
  }
  const int box = static_cast<int>(row_bytes / bytes);
  if (variant_.turned) {
    const int line = std::min(rows, static_cast<int>(128 / bytes));
    const std::int64_t column = memory.strides[2];
    if (cut_columns(product_->schedule) && rows < 64) {
      // What is stored ends with its tile, so many columns before the second dimension does; the third says where.
      address.offset -= agreed::CUT_LINES * column * bytes;
      map(k, address, type,
          {{width, 1, line},
           {agreed::CUT_LINES, column, product_->schedule.sub_n},
           {columns_ + 1, column, 1},
           {memory.strides[0] ? shape_.batch : 1, memory.strides[0], 1}},
          static_cast<int>(line * bytes));
      return;
    }
    map(k, address, type,
        {{width, 1, line},
         {columns_, column, product_->schedule.sub_n},
         {memory.strides[0] ? shape_.batch : 1, memory.strides[0], 1}},
        static_cast<int>(line * bytes));
    return;
  }
  if (variant_.padded_taps) {  // a tap stands for a batch, which weight gradients lack
    const int channels = layout_.padded->channels;
    map(k, address, type,
        {{channels, 1, box}, {this->rows(), memory.strides[1], rows}, {shape_.n / channels, channels, 1}}, row_bytes);
    return;
  }
  map(k, address, type,
      {{width, 1, box},
       {this->rows(), memory.strides[1], rows},
       {memory.strides[0] ? shape_.batch : 1, memory.strides[0], 1}},
      row_bytes);
}

}  // namespace postlude::inline v0::cuda
