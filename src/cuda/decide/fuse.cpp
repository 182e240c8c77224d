// How the accumulator is made, whether the first phase runs on it, and in which way its operands are read.
#include "core/divide.h"
#include "cuda/choose/cost.h"
#include "cuda/decide/decider.h"
#include "cuda/decide/pack.h"

#include <postlude/error.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace postlude::inline v0::cuda {

using lower::BufferKind;
using lower::Phase;
using lower::Program;

Decider::Major Decider::major(const Placed& o, DType dtype, int rows_axis, int k_axis, std::int64_t rows,
                              bool mn_allowed) const {
  const std::int64_t size = size_of(dtype), row = o.strides[rows_axis], k = o.strides[k_axis], batch = o.strides[0];
  if (o.alignment < 16 || (batch != 0 && !map_stride(batch, size, shape_.batch))) return Major::repack;
  if (k == 1 && map_stride(row, size, rows)) return Major::k;
  if (mn_allowed && row == 1 && map_stride(k, size, shape_.k)) return Major::mn;
  return Major::repack;
}

bool Decider::is_whole_pieces(const lower::Buffer& buffer) const {
  return buffer.rows == Extent{} || (buffer.rows.exact && buffer.rows.at(shape_.m) % rows() == 0);
}

std::vector<BufferPlace> Decider::places(const Program& program, const std::vector<Memory>& memory,
                                         std::int64_t columns) const {
  std::vector<BufferPlace> result(memory.size());
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const lower::Buffer& buffer = program.buffers[i];
    const Memory& m = memory[i];
    const std::int64_t size = size_of(buffer.dtype);
    BufferPlace& place = result[i];
    place.unit = buffer.axes.has(Axis::n) && m.strides[2] == 1;
    place.wide = place.unit && columns % 8 == 0 && m.alignment >= 16 && m.strides[0] % 8 == 0 &&
                 m.strides[1] % 8 == 0 && vector_type(buffer.dtype);
    place.pair = place.unit && columns % 2 == 0 && m.alignment >= 2 * size && m.strides[0] % 2 == 0 &&
                 m.strides[1] % 2 == 0 && vector_type(buffer.dtype);
    // Whole 16 bytes a row: the engine was seen to write up to the next multiple behind a narrower tensor.
    place.tensor_map = place.unit && buffer.axes.has(Axis::m) && size <= 4 && columns * size % 16 == 0 &&
                       m.alignment >= 16 && map_stride(m.strides[1], size, shape_.m) &&
                       (m.strides[0] == 0 || map_stride(m.strides[0], size, shape_.batch)) && buffer.rows == Extent{};
    // Of what is turned the rows are side by side, and those of a piece. turned() has asked whether the copy engine
    // reaches tensors; what crosses to a pass is asked here.
    if (layout_.turned)
      place.tensor_map = buffer.axes.contains(tile_axes) && is_whole_pieces(buffer) && buffer.columns == Extent{} &&
                         size <= 4 && m.strides[2] * size % 16 == 0;
    // Rows of a residue are no stride apart: the copy engine writes them, or warps each by itself.
    if (part_ && buffer.axes.has(Axis::m) && !place.tensor_map) place = {.unit = place.unit};
    // Threads that read pixels straight from memory move pairs of columns, or each; no other kernel takes such a
    // stencil.
    if (layout_.depthwise && layout_.depthwise->narrow)
      place.tensor_map = (place.pair || (place.unit && layout_.depthwise->singles)) && buffer.axes.has(Axis::m) &&
                         size <= 4 && buffer.rows == Extent{};
    // A tap is a batch of its map.
    if (layout_.padded && layout_.padded->channels * size % 16 != 0) place.tensor_map = false;
  }
  return result;
}

// Whether a phase that is not over the product's tiles stores over an operand. In its place among the phases that is
// right (lower/in_place.h); in the product's launch it would come before others that read the operand.
bool Decider::in_order() const {
  const Phase& product = program_.phases[product_phase_];
  return std::any_of(program_.phases.begin(), program_.phases.end(), [&](const Phase& phase) {
    if (phase.domain == product.domain && phase.rows == product.rows && phase.columns == product.columns) return false;
    return std::any_of(phase.stores.begin(), phase.stores.end(), [&](const lower::Store& store) {
      return program_.buffers[store.access.buffer].kind == BufferKind::output && in_place(store.access.buffer);
    });
  });
}

// How B of counted K can be read as it lies, by taps along three axes, backwards; none: not at all.
std::optional<Decider::Major> Decider::by_taps(const Contraction& gemm, bool mn_allowed) const {
  const std::int64_t size = size_of(gemm.b);
  if (!windows() || variant_.a_run != 128 || layout_.b.strides[0] != 0 || layout_.b.alignment < 16) return {};
  std::optional<Major> found;
  for (std::size_t i = 0; i < std::max<std::size_t>(1, layout_.parts.size()); ++i) {
    const Counted& k = layout_.parts.empty() ? *layout_.b_k : layout_.parts[i].b_k;
    const Counted::Axis& inner = k.k[3];
    const bool legal = std::all_of(k.k.begin(), k.k.begin() + 3, [&](const Counted::Axis& axis) {
      return axis.size == 1 || (axis.stride < 0 && axis.stride * size % 16 == 0);
    });
    // A residue's map begins at its first tap, at a multiple of 16 bytes.
    if (!layout_.parts.empty() && layout_.parts[i].b_first * size % 16 != 0) return {};
    if (!legal || inner.size != (layout_.diagonal ? layout_.diagonal->group_columns : windows()->channels)) return {};
    const Placed as_tap{{0, inner.stride, layout_.b.strides[2]}, layout_.b.alignment, false, false};
    const Major one = major(as_tap, gemm.b, 2, 1, shape_.n, size == 2 && mn_allowed);
    if (one == Major::repack) return {};
    found = one;
  }
  return found;
}

// Whether boxes of so many columns, or of K along N, take the copy engine longer, a stage, than a copy of B that has
// zeros between its groups takes beside the product (decisions 0180, 0214).
bool Decider::many_boxes(int of) const {
  constexpr double box = 112, stage = 434, copy = 6000;  // clocks
  const auto stages = static_cast<double>(ceil_div(layout_.shape.batch * shape_.m, 128) * ceil_div(shape_.n, 64)) /
                      subject_.multiprocessors * static_cast<double>(depth()) / 64;
  return std::max(0.0, box * (64.0 / of + 1) - stage) * stages > copy;
}

// How filters of groups that share a tile are read as they lie: a box for each group, which reaches beyond that group's
// own channels where others' begin, so that the copy engine puts the zeros there (decision 0214).
Decider::Major Decider::in_groups(const Contraction& gemm, bool mn_allowed) {
  const auto& [stride, columns, channels, together] = *layout_.diagonal;
  const Placed& b = layout_.b;
  if (b_k()) {
    if (by_taps(gemm, mn_allowed) != Major::mn || stride != channels * b_k()->k[3].stride) return Major::repack;
    if (channels % 8 || (channels % 64 && 64 % channels) || many_boxes(std::min(64, channels))) return Major::repack;
    variant_.b_taps = 2;
  } else {
    if (!windows()->channels_last || b.strides[1] != 1 || stride != columns * b.strides[2]) return Major::repack;
    if (major(b, gemm.b, 2, 1, shape_.n, false) == Major::repack) return Major::repack;
    if (together == 1) return Major::k;  // no group beside it
    if (variant_.a_run != 128 || columns % 8 || channels * size_of(gemm.b) % 16 || many_boxes(columns))
      return Major::repack;
    variant_.b_taps = 1;
  }
  variant_.group_columns = columns, variant_.group_k = channels;
  return b_k() ? Major::mn : Major::k;
}

// What one schedule serves: the largest of the parts, or on Hopper all that share a launch, by the K of their mean row.
Shape Decider::product_shape(bool mma) const {
  Shape shape = shape_;
  shape.m = output_rows(), shape.k = depth();
  if (const auto* w = windows(); w && variant_.b_taps && !mma)  // each has whole blocks of K
    shape.k = w->taps * round_up(w->channels, 128 / size_of(variant_.a));
  if (layout_.parts.empty()) return shape;
  shape.batch = 1, shape.m = shape.k = 1;
  for (const KernelPart& part : layout_.parts)
    shape.m = std::max(shape.m, part.rows), shape.k = std::max(shape.k, part.k);
  if (!variant_.scattered || mma) return shape;
  std::int64_t rows = 0;
  double multiplied = 0;
  for (const KernelPart& part : layout_.parts)
    rows += part.rows, multiplied += static_cast<double>(part.rows) * static_cast<double>(part.k);
  if (rows > std::numeric_limits<std::int32_t>::max() / 2) return shape;
  // Residues of as many rows are as batches, each with a last tile of its own (decision 0260).
  const auto count = static_cast<std::int64_t>(layout_.parts.size());
  const bool alike =
      std::ranges::all_of(layout_.parts, [&](const KernelPart& part) { return part.rows * count == rows; });
  shape.batch = alike ? count : 1, shape.m = rows / shape.batch,
  shape.k = std::max<std::int64_t>(1, static_cast<std::int64_t>(multiplied / static_cast<double>(rows) + 0.5));
  return shape;
}

// Why Hopper takes the portable kernel for how A and B lie.
std::string Decider::portable_reason(const Contraction& gemm) const {
  const std::int64_t size = size_of(gemm.a);
  for (const KernelPart& part : layout_.parts) {
    if (std::string why = portable_rows(part.a, layout_.a.alignment, size, deep(layout_.parts)); !why.empty())
      return why;
    if (std::string why = portable_scatter(part); !why.empty()) return why;
  }
  if (std::string why = portable_rows(layout_.a_rows, layout_.a.alignment, size); !why.empty()) return why;
  const auto* w = b_windows();
  if (!w) return {};
  if (std::string why = portable_rows(layout_.b_rows, layout_.b.alignment, size); !why.empty()) return why;
  if (w->channels % 64 != 0)
    return "64 columns are of one tap, and a window has " + std::to_string(w->channels) + " channels";
  return {};
}

// Where lines of A or B begin, as they are loaded.
Lines Decider::lines(bool of_a) const {
  const bool copied = of_a ? d_.repack_a : d_.repack_b, walked = variant_.a_form || variant_.b_form || b_k();
  if (copied && !walked) return Lines::copied;
  if (of_a ? variant_.shifted_a : variant_.shifted) return Lines::between;
  if (copied || (of_a ? variant_.a_form : variant_.b_form || b_k())) return Lines::aligned;
  const std::int64_t stride =
      of_a ? layout_.a.strides[variant_.a_mn_major ? 2 : 1] : layout_.b.strides[variant_.b_mn_major ? 1 : 2];
  const std::int64_t bytes = stride * size_of(variant_.a);
  return bytes % 128 == 0 ? Lines::aligned : bytes % 32 == 0 ? Lines::at_sectors : Lines::between;
}

// `parts`: pieces of a chunk.
void Decider::arrange(const Contraction& gemm, bool mma, bool b_mn_allowed, int parts) {
  const bool two_bytes = size_of(gemm.a) == 2;
  variant_ = {.a = gemm.a, .b = gemm.b, .image_rows = layout_.image_rows};
  variant_.promoted = subject_.request.fast ? 0 : promotes(gemm.a);
  variant_.a_form = a_form();
  variant_.scattered = part_ && !layout_.beside;
  variant_.b_form = static_cast<int>(layout_.b_rows.index());
  if (layout_.depthwise) {
    Stencil& stencil = variant_.stencil = *layout_.depthwise;
    stencil.columns = shape_.n, stencil.image_stride = windows()->image_stride;
    stencil.packed_tiles = true;
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const auto& [image, pixel, channel] = memory_[i].strides;
      const bool packed = channel == 1 && pixel == shape_.n && (shape_.batch == 1 || image == shape_.m * shape_.n);
      if (program_.buffers[i].axes.has(Axis::m) && program_.buffers[i].axes.has(Axis::n))
        stencil.packed_tiles = stencil.packed_tiles && packed;
    }
    variant_.taps = windows()->taps;
    variant_.boxes = subject_.arch == "sm_90a" && in_pixel_boxes(*windows());
    return;
  }
  if (const auto* w = windows()) {
    const PixelLoads loads = pixel_loads(*w, size_of(gemm.a));
    variant_.taps = w->taps, variant_.block_columns = w->block_columns;
    variant_.a_run = loads.run, variant_.a_depth = loads.depth || (variant_.scattered && deep(layout_.parts)),
    variant_.b_taps = loads.taps ? 1 : 0;
  }
  Major a = Major::k, b = Major::mn;
  if (variant_.a_form)
    variant_.a_chunks = part_ ? in_chunks(part_->a, layout_.a.alignment, size_of(gemm.a))
                              : in_chunks(layout_.a_rows, layout_.a.alignment, size_of(gemm.a));
  else a = layout_.a_k ? Major::repack : major(layout_.a, gemm.a, 1, 2, shape_.m, two_bytes);
  if (variant_.b_form) {
    variant_.b_chunks = in_chunks(layout_.b_rows, layout_.b.alignment, size_of(gemm.b));
    variant_.b_depth = pixel_loads(*b_windows(), size_of(gemm.b)).depth;
    variant_.taps = b_windows()->taps, variant_.block_rows = b_windows()->block_columns;
  } else if (layout_.diagonal) {
    b = in_groups(gemm, b_mn_allowed);
  } else if (layout_.b_count || layout_.beside) {
    b = Major::repack;
  } else if (!b_k()) {
    b = major(layout_.b, gemm.b, 2, 1, shape_.n, two_bytes && b_mn_allowed);
    // No box may begin between 16 bytes: the device calls that an illegal instruction.
    if (parts > 1 && columns_ % 8 != 0) variant_.b_pieces = parts, b = b == Major::mn ? Major::repack : b;
  } else if (const auto tap = mma || !b_mn_allowed ? std::nullopt : by_taps(gemm, b_mn_allowed)) {
    b = *tap;
    variant_.b_taps = 2;
  } else {
    b = Major::repack;
  }
  d_.repack_a = a == Major::repack, d_.repack_b = b == Major::repack;
  if (d_.repack_b && !mma && parts == 1) {
    const bool copies_a = std::exchange(d_.repack_a, a != Major::k);  // consumers read rows along K
    if (shift_b(gemm)) return shift_a(gemm);
    d_.repack_a = copies_a;
  }
  if (!mma) shift_a(gemm);
  // What is copied for its lines' lengths alone keeps their order: a copy that turns them takes 1.4 times as long
  // (decision 0238). B along N needs 64 columns side by side, which a schedule may not have.
  const auto& asked = subject_.request.schedule;
  const bool plain_b =
      !layout_.diagonal && !layout_.b_count && !layout_.beside && !b_k() && (!asked || asked->bn % (64 * parts) == 0);
  const bool keeps_a = d_.repack_a && two_bytes && !layout_.a_k && layout_.a.strides[1] == 1 && shape_.m >= 64,
             keeps_b = d_.repack_b && two_bytes && b_mn_allowed && plain_b && layout_.b.strides[2] == 1;
  variant_.a_mn_major = a == Major::mn || keeps_a, variant_.b_mn_major = b == Major::mn || keeps_b;
  if (!variant_.b_mn_major) variant_.b_pieces = 1;
}

// Whether an epilogue may run on an accumulator with columns between its own, as far as how these lie decides: each
// tap's channels are followed by some.
bool Decider::by_padded_taps() const {
  const agreed::Padded& padded = *layout_.padded;
  return padded.block_groups == 1 && padded.padded_channels == b_windows()->channels;
}

static const char* const columns_between = "there are columns between those that are asked for";

// The first phase on the product's fragments, or why not.
void Decider::fuse(const Contraction& gemm) {
  const Request& request = subject_.request;
  d_.why = request.through_memory                ? "the schedule asks for it"
           : layout_.beside                      ? "residues are columns of one product"
           : layout_.padded && !by_padded_taps() ? columns_between
                                                 : not_fusable(program_, product_phase_);
  if (!d_.why.empty()) return;
  const Phase& phase = program_.phases[product_phase_];
  const std::int64_t columns = phase.columns.at(shape_.n);
  columns_ = layout_.padded ? layout_.padded->padded : columns;
  const bool below = chunks_rows(phase);
  below_ = below ? accumulator_parts(phase) : 1;
  const int parts = below ? 1 : accumulator_parts(phase);
  d_.portable = rows_portable_;
  const bool mma = request.mma || !d_.portable.empty() || layout_.depthwise;
  if (parts > 1 && (b_windows() || layout_.diagonal || layout_.depthwise)) {
    d_.why = b_windows() ? "the columns of a chunk's pieces are windows" : "a chunk's pieces are of other groups";
    return;
  }
  if (mma && parts != 1 && parts != 2 && parts != 4) {
    d_.why = "the portable kernel has the accumulator's pieces in 2 or 4 parts of a tile";
    return;
  }
  if (part_ && !layout_.one) {
    d_.why = "residues cross images, which the epilogue tells apart";
    return;
  }
  // Of a piece of B along N the portable kernel reads eight columns at once, Hopper's boxes have 64 of a piece, which
  // five and more have not side by side in a tile. Pieces that begin between 16 bytes are copied (decision 0240).
  const bool whole = columns_ % 8 == 0 || (!mma && layout_.b.strides[0] == 0);
  const auto lay_out = [&] {
    arrange(gemm, mma, parts == 1 || (parts <= 4 && whole && accumulator_piece(phase) % (mma ? 8 : 64) == 0), parts);
  };
  const auto choose = [&](const Judge& judge) {
    lay_out();
    variant_.padded_taps = layout_.padded.has_value(), variant_.turned = layout_.turned;
    // Addresses of outputs and operands decide how they are reached; those of the workspace are aligned.
    return choose_product(
        {program_, product_phase_, variant_, mma, places(program_, memory_, columns), product_shape(mma), columns_,
         in_order(), request, subject_.multiprocessors, lines(true), lines(false), shares_a()},
        judge);
  };
  shift_where_it_pays(lay_out, choose);
  Chosen chosen = choose(judge_);
  if (!chosen.product && (variant_.shifted || variant_.shifted_a))
    most_shifted_ = 0, shifts_a_ = false, chosen = choose(judge_);
  product_ = std::move(chosen.product);
  if (part_ && product_ && product_->epilogue.across_tiles()) {
    product_.reset();
    chosen.why = "its reductions cross the launches of the residues";
  }
  if ((part_ || layout_.depthwise) && product_ && product_->epilogue.needs.row_group) {
    product_.reset();
    chosen.why = "a tile's rows are no groups of rows";
  }
  d_.fused = product_.has_value();
  (d_.fused ? d_.considered : d_.not_fused) = std::move(chosen.considered);
  d_.why = !product_ && layout_.padded ? columns_between : std::move(chosen.why);
}

// The accumulator alone, into the workspace.
void Decider::multiply_alone(const Contraction& gemm) {
  const Request& request = subject_.request;
  below_ = 1;
  columns_ = layout_.padded ? layout_.padded->padded : layout_.beside ? layout_.beside->columns : shape_.n;
  d_.portable = rows_portable_;
  const bool mma = request.mma || !rows_portable_.empty() || layout_.depthwise;
  arrange(gemm, mma, true);
  // Rows of whole 16 bytes, so that the copy engine can write them, or threads do (places()).
  const bool narrow = layout_.depthwise && layout_.depthwise->narrow, whole = narrow || columns_ % 4 == 0;
  const BufferPlace place{.tensor_map = whole, .unit = true, .pair = columns_ % 2 == 0};
  Chosen chosen = choose_product({accumulator_program_,
                                  0,
                                  variant_,
                                  mma,
                                  {place},
                                  product_shape(mma),
                                  columns_,
                                  false,
                                  request,
                                  subject_.multiprocessors,
                                  lines(true),
                                  lines(false),
                                  shares_a()},
                                 judge_);
  product_ = std::move(chosen.product);
  d_.considered = std::move(chosen.considered);
  if (!product_) throw Error(ErrorCode::internal, "no schedule of the plain product compiles");
}

// Why no product on tensor cores, or by a stencil, makes the accumulator; empty: one does.
std::string Decider::no_product(const std::optional<Contraction>& gemm, bool empty) const {
  if (!gemm) return "a stream has no product";
  if (product_phase_ < 0) return "no phase reads the accumulator";
  if (filters_) return "gradients by the weights of single channels are summed on ordinary units";
  if (layout_.groups.count > 1) return "groups of channels are multiplied on ordinary units";
  if (b_windows() && size_of(gemm->b) != 2) return "tensor cores read windows along N of 16-bit types only";
  if (!layout_.depthwise && !on_tensor_cores(gemm->a, gemm->b, subject_.arch))
    return "the tensor cores of " + subject_.arch + " do not multiply these types exactly enough";
  return empty ? "there is no K" : "";
}

// Whether what is asked for needs a product on tensor cores, or by a stencil. `mma` alone leaves what these do not
// multiply to ordinary units, whose accumulators go through memory in any case.
bool Decider::asks_for_a_product() const {
  const Request& request = subject_.request;
  if (request.fast) return true;
  if (stream_ || product_phase_ < 0) return !request.text.empty();
  return request.schedule && !filters_;
}

// The product, and copies of its operands.
void Decider::multiply(const Contraction& gemm) {
  const Request& request = subject_.request;
  if (!layout_.parts.empty()) part_ = layout_.parts.data();
  if (!request.mma && !layout_.depthwise) rows_portable_ = portable_reason(gemm);
  if (!rows_portable_.empty() && request.schedule)
    throw not_legal(request, rows_portable_, "Begin it with mma, or leave the choice to the heuristic.");
  fuse(gemm);
  if (!d_.fused && request.schedule && !request.through_memory)
    throw not_legal(request, d_.why, "Begin it with \"accumulator by\", or leave the choice to the heuristic.");
  if (!d_.fused) multiply_alone(gemm);
  d_.product = true;
  const auto bytes = [&] { return pitch(gemm) * size_of(gemm.a); };
  const auto repacked = [&](const Placed& o, bool of_a) {
    const Packed packed = this->packed(gemm, of_a);
    return (o.strides[0] == 0 ? 1 : shape_.batch) * packed.lines * packed.pitch * size_of(gemm.a);
  };
  if (layout_.images) packed_images_ = take_images(*layout_.images, size_of(gemm.a));
  if (!d_.fused && (layout_.padded || layout_.beside)) padded_ = take(rows() * columns_ * 4);
  if (d_.repack_a) packed_a_ = take(repacked(layout_.a, true));
  if (d_.repack_b && !part_) packed_b_ = take(repacked(layout_.b, false));
  for (std::size_t i = 0; d_.repack_b && i < layout_.parts.size(); ++i) {
    part_ = &layout_.parts[i];
    packed_parts_.push_back(take(b_rows() * std::max<std::int64_t>(16, bytes())));
  }
}

// How the accumulator is made and whether the first phase runs on it.
void Decider::decide_product() {
  const std::optional<Contraction> gemm = subject_.problem.loop().contraction();
  const Request& request = subject_.request;
  stream_ = !gemm;
  filters_ = filters(subject_, layout_);
  if (request.schedule && request.schedule->strip_x && !layout_.depthwise && !filters_) {
    throw not_legal(request,
                    "a stencil is for convolutions of one channel a group, their channels side by side, of at most 49 "
                    "taps");
  }
  const bool empty = is_empty(subject_, shape_);
  d_.why = no_product(gemm, empty);
  if (d_.why.empty()) multiply(*gemm);
  else if (!empty && asks_for_a_product()) throw not_legal(request, d_.why);
  if (stream_) return;
  const bool reads = std::ranges::any_of(program_.phases, [](const Phase& p) { return p.reads_accumulator(); });
  if (!d_.fused && reads) accumulator_ = take(shape_.batch * shape_.m * shape_.n * 4);
  if (product_) take_partials();
  else if (product_phase_ >= 0) decide_parts();
}

// Blocks of the product on ordinary units.
std::array<std::int64_t, 3> Decider::plain_grid() const {
  const Groups& groups = layout_.groups;
  const std::int64_t groups_m = groups.along == Groups::Along::m ? groups.count : 1, groups_n = groups.count / groups_m;
  return {groups_m * ceil_div(rows() / groups_m, 64), groups_n * ceil_div(shape_.n / groups_n, 64), batches()};
}

// What a weight gradient adds up on ordinary units is many pixels for few tiles: parts of them, each a launch's block.
void Decider::decide_parts() {
  constexpr std::int64_t at_once = 4, least = 512;  // blocks of a multiprocessor; pixels of a part
  if (filters_) {
    const std::int64_t size = size_of(subject_.problem.loop().contraction()->a);
    if (filters_->x) packed_images_ = take_images(*filters_->x, size);
    if (filters_->dy) packed_a_ = take_images(*filters_->dy, size);
    return take_parts(filters_->sums.parts);
  }
  if (!b_windows() || shape_.m == 0 || shape_.n == 0) return;
  const auto grid = plain_grid();
  plain_parts_ = static_cast<int>(std::clamp<std::int64_t>(
      std::min(at_once * subject_.multiprocessors / (grid[0] * grid[1]), shape_.k / least), 1, 1024));
  take_parts(plain_parts_);
}

// What the product's kernel is told of its size.
agreed::GemmSizes Decider::sizes() const {
  const EpilogueNeeds& needs = product_->epilogue.needs;
  const Schedule& s = product_->schedule;
  agreed::GemmSizes g{};
  g.m = small(rows()), g.n = small(columns_), g.batch = small(batches());
  g.tiles_m = small(tiles_down(s, needs, rows()));
  g.tiles_n = small(ceil_div(columns_, (s.abreast ? s.bn : consumer_columns(s)) / needs.parts));
  const Tiles all_tiles = tiles_of(s, needs, batches(), rows(), columns_);
  const std::int64_t tiles = all_tiles.all;
  g.tiles = small(tiles / cluster_tiles(s)), g.raster = s.raster / s.cluster_m, g.parts = s.split;
  g.whole = small(whole_tiles(s, needs, all_tiles, subject_.multiprocessors) / cluster_tiles(s));
  const auto behind = [](std::int64_t extent, std::int64_t step) {
    return extent - (ceil_div(extent, step) - 1) * step;
  };
  const auto edge = [&](std::int64_t extent, std::int64_t tile, int box, int step) {
    return std::min(box, small(round_up(behind(behind(extent, tile), box), step)));
  };
  g.edge_a =
      edge(rows(), s.bm / needs.below, a_run(s, needs), is_gathered_below(needs) ? std::lcm(8, needs.row_piece) : 8);
  g.edge_b = edge(columns_, s.bn / needs.parts, b_run(s, needs),
                  is_gathered(s, needs) ? std::lcm(8, needs.piece) : 8);  // of whole pieces
  const std::int64_t bk = k_bytes(s) / size_of(variant_.a);
  g.k_blocks =
      small(variant_.b_taps && !s.mma ? windows()->taps * ceil_div(windows()->channels, bk) : ceil_div(depth(), bk));
  if (part_ && part_->a.taps == 0) g.k_blocks = s.mma ? 0 : 1;  // of zeros
  const int more = later_blocks(s, needs, {batches(), rows(), columns_, depth()}, subject_.multiprocessors);
  g.part_blocks = (g.k_blocks - more) / s.split, g.longer = (g.k_blocks - more) % s.split;
  const int down = small(ceil_div(g.tiles_m, s.cluster_m)),
            beside = small(ceil_div(g.tiles_n, s.mma ? consumers(s) : s.cluster_n));
  const auto divisor = [](std::int64_t by) { return agreed::int_divisor(small(std::max<std::int64_t>(1, by))); };
  g.group = divisor(std::int64_t{g.raster} * beside), g.down = divisor(g.raster);
  g.last_down = divisor(down % g.raster ? down % g.raster : g.raster);
  if (s.again) {
    const int at_once = blocks(s, needs, all_tiles, subject_.multiprocessors);
    g.whole = small(tiles_in_turn(s, all_tiles, at_once) / cluster_tiles(s));
  }
  g.divided = divisor(s.again ? g.whole : g.tiles - g.whole);
  g.a_batch = layout_.a.strides[0] != 0, g.b_batch = layout_.b.strides[0] != 0;
  return g;
}

bool Decider::meets() const {
  const Schedule& s = product_->schedule;
  const FusedEpilogue& e = product_->epilogue;
  return e.across_tiles() && !s.meets && !lone_columns(s, e.needs, output_rows()) && !lone_rows(s, e.needs, columns_);
}

void Decider::take_partials() {
  const FusedEpilogue& e = product_->epilogue;
  const Schedule& s = product_->schedule;
  const std::int64_t tiles_m = tiles_down(s, e.needs, output_rows()),
                     tiles_n = ceil_div(columns_, consumer_columns(s) / e.needs.parts);
  if (tiles_m * tiles_n * shape_.batch > std::numeric_limits<std::int32_t>::max() / 2) {
    throw Error(ErrorCode::size_overflow, "the product has too many tiles");
  }
  const agreed::GemmSizes g = sizes();
  const int slots = g.tiles_m * (s.bm / consumer_rows(s)), end = g.batch;
  if (s.by_memory) {
    const std::int64_t divided = std::int64_t{g.tiles - g.whole} * cluster_tiles(s),
                       bytes = std::int64_t{4} * s.split * divided * s.bm * s.bn;
    parts_[0] = take(bytes),
    parts_[1] = take_cleared(std::int64_t{4} * divided * (s.ping_pong ? 1 : 2) * (s.in_shares ? 2 : 1));
    const std::int64_t moved = bytes / s.split * (s.in_shares ? s.split + 1 : s.split - 1);
    beside("parts of tiles", moved, moved);
  }
  const bool meet = meets();
  const Shape chosen_for = product_shape(s.mma);
  const bool tagged = e.needs.holds || (!variant_.scattered && folds_tagged(s, e.needs, chosen_for.batch, chosen_for.m,
                                                                            columns_, subject_.multiprocessors));
  if (meet) counters_ = take_cleared(tagged ? 4 * subject_.multiprocessors : 4);
  for (const auto& partial : e.partials) {
    if (partial.word < 0 || !meet) {
      partials_.emplace_back();
      continue;
    }
    // What lies behind the last state is their number. Tiles that are held tell theirs, and what is folded of a row,
    // beside tags of the same size (device/reduce.cu).
    const std::int64_t states = e.needs.holds                       ? folded_index(g, end, 0)
                                : partial.across == Across::rows    ? row_partial(g, end, 0, 0)
                                : partial.across == Across::columns ? column_partial(g, slots, end, 0, 0)
                                                                    : tile_partial(g, slots, end, 0, 0);
    const std::int64_t bytes = (tagged ? 2 : 1) * states * partial.bytes;
    beside("partial results", bytes, bytes);
    partials_.push_back(tagged ? take_cleared(bytes) : take(bytes));
  }
}

// The accumulator of tensor cores. PTX leaves its rounding open. Measured by others: products are exact, each
// instruction aligns its 16 or 32 products and the accumulator to the largest of them and truncates what lies below,
// and so is the sum (Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ CS 2021).
// Truncation instead of rounding doubles the unit: 2^-23. On fp8 operands Hopper keeps 13 bits below the largest
// product (DeepSeek-V3 technical report, 3.3.2, which calls it about 14 bits in all): 2^-13. tests/gpu/exact_test.cpp
// measures both where truncation is worst, on operands of one sign (decision 0026): a partial sum is half the result on
// average and at most all of it, hence twice what was seen, rounded up to a power of two.
ErrorModel Decider::error() const {
  const std::optional<Contraction> gemm = subject_.problem.loop().contraction();
  if (!gemm || !product_) return {};
  if (layout_.depthwise) return {};
  if (size_of(gemm->a) == 2) return {.unit = 0x1p-23, .drift = 2 * 0x1p-23 / 16};
  if (!is_float(gemm->a)) return {.unit = 0x1p-23};
  // The portable kernel's tensor cores, and those that are asked to be fast, add up all of K.
  const std::int64_t promoted = product_->schedule.mma ? 0 : variant_.promoted * k_bytes(product_->schedule);
  return {.unit = 0x1p-13, .drift = 16 * 0x1p-13 / 32, .promoted = promoted};
}

}  // namespace postlude::inline v0::cuda
