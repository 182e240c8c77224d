#include "cpu/product/assembly.h"

#include "core/divide.h"
#include "core/threads.h"
#include "cpu/product/blocking.h"
#include "cpu/product/pack.h"
#include "cpu/product/rows.h"

#include <algorithm>
#include <cstring>

namespace postlude::inline v0::cpu {

namespace {

// Filters and channels of a narrow group: a product of more of them fills half a vector, and costs no more (decision
// 0252).
constexpr std::int64_t widest_group = 8;

const void* moved(const Matrix& matrix, std::int64_t elements) {
  return matrix.data ? static_cast<const char*>(matrix.data) + elements * size_of(matrix.dtype) : nullptr;
}

const Address* given(const Address& address) {
  return std::holds_alternative<std::monostate>(address) ? nullptr : &address;
}

std::size_t in_lines(std::int64_t bytes) { return static_cast<std::size_t>(round_up(bytes, 64)); }

// The row of the output that row r of a part is.
std::int64_t place_of(const Residue& part, std::int64_t r) {
  const Windows& w = part.a;
  const std::int64_t at[3] = {r / w.axes[2].pixels / w.axes[1].pixels, r / w.axes[2].pixels % w.axes[1].pixels,
                              r % w.axes[2].pixels};
  std::int64_t row = 0;
  for (std::size_t i = 0; i < 3; ++i)
    row = row * part.place[i].extent + part.place[i].first + at[i] * part.place[i].step;
  return row;
}

// The distance of channels, of all groups where they can be turned.
std::int64_t channel_distance(const Windows& w, const Groups& groups) {
  return w.channels == 1 ? groups.a_stride : w.channel_stride;
}
bool lie_together(const Windows& w, const Groups& groups) {
  return channel_distance(w, groups) == 1 && groups.a_stride == w.channels;
}
bool can_be_turned(const Windows& w, const Groups& groups) {
  return w.axes[2].stride == 1 && groups.a_stride == w.channels * channel_distance(w, groups);
}

std::int64_t taps_of(const Address& address) {
  const auto* const w = std::get_if<Windows>(&address);
  return w ? w->taps() : 1;
}

}  // namespace

Assembly::Assembly(const ProductShape& whole, const Addressing& addressing, bool parts, Isa isa, bool again)
    : isa_(isa),
      kernels_(&kernels_for(isa, {.m = max_thin_rows + 1,
                                  .a = is_float(whole.a) ? DType::f32 : whole.a,
                                  .b = is_float(whole.b) ? DType::f32 : whole.b})),
      m_(whole.m),
      n_(whole.n),
      pieces_(whole.pieces),
      groups_(addressing.groups),
      parts_(addressing.parts) {
  blocking_.isa = isa;
  blocking_.order = Order::collected;
  blocking_.units = ceil_div(m_, row_group);
  acc_row_ = round_up(n_, 16) + 16;  // 16: not a multiple of 4 KB
  if (pieces_.count > 1) {
    piece_stride_ = round_up(n_ / pieces_.count, 16);
    block_row_ = piece_stride_ * pieces_.count + 16;
    piece_bytes_ = in_lines(row_group * block_row_ * 4);
  }
  std::int64_t rows = 0;
  for (const Residue& part : parts_) rows += part.a.pixels();
  all_rows_ = !parts || rows == m_;

  if (is_depthwise(whole, addressing)) {
    add_depthwise(whole, addressing, parts);
  } else if (FilterGradient::fits(whole, addressing)) {
    kernels_ = &kernels_for(isa_, {.m = max_thin_rows + 1});  // f32's
    gradient_.emplace(whole, addressing, *kernels_);
    blocking_.units = std::max(blocking_.units, gradient_->units());
    blocking_.thread_bytes = gradient_->thread_bytes();
  } else {
    for (std::int64_t g = 0; g < groups_.count; ++g) {
      if (!parts) add(sub_of(g, whole, addressing), whole, again);
      for (const Residue& part : parts_) {
        Sub sub = sub_of(g, whole, addressing);
        sub.m = part.a.pixels();
        sub.k = part.k();
        sub.b_offset += part.b_first;
        sub.a = part.a;
        sub.b = part.b;
        sub.part = &part;
        add(std::move(sub), whole, again);
      }
    }
  }
  if (!depthwise() || parts) acc_bytes_ = in_lines(m_ * acc_row_ * 4);
  blocking_.shared_bytes += acc_bytes_;
  blocking_.thread_bytes = std::max(blocking_.thread_bytes, piece_bytes_);
}

Assembly::Sub Assembly::sub_of(std::int64_t group, const ProductShape& whole, const Addressing& addressing) const {
  const bool along_n = groups_.along == Groups::Along::n;
  Sub sub;
  sub.m = along_n ? m_ : m_ / groups_.count;
  sub.n = along_n ? n_ / groups_.count : n_;
  sub.k = whole.k;
  sub.a_offset = group * groups_.a_stride;
  sub.b_offset = group * groups_.b_stride;
  (along_n ? sub.column0 : sub.row0) = group * (along_n ? sub.n : sub.m);
  sub.a = addressing.a;
  sub.b = addressing.b;
  return sub;
}

void Assembly::add(Sub sub, const ProductShape& whole, bool again) {
  ProductShape shape = whole;
  shape.m = sub.m;
  shape.n = sub.n;
  shape.k = sub.k;
  shape.pieces = {};
  if (sub.part) shape.b_n_major = shape.b_k_major = false, shape.addressed = shape.windows = true;
  if (again && sub.m > 0 && sub.n > 0) {
    sub.packed = packed_layout(shape, isa_);
    shape.packed_b = true;
  }
  sub.blocking = choose_blocking(shape, isa_);
  blocking_.k_block = std::max(blocking_.k_block, sub.blocking.k_block);
  blocking_.units = std::max(blocking_.units, sub.blocking.units);
  blocking_.thread_bytes = std::max(blocking_.thread_bytes, sub.blocking.thread_bytes);
  blocking_.shared_bytes = std::max(blocking_.shared_bytes, sub.blocking.shared_bytes);
  subs_.push_back(std::move(sub));
}

Product Assembly::product_of(const Sub& sub, const Product& whole, std::int64_t batch) const {
  Product product = whole;
  product.m = sub.m;
  product.n = sub.n;
  product.k = sub.k;
  product.pieces = {};
  product.a.data = moved(whole.a, sub.a_offset);
  product.b.data = moved(whole.b, sub.b_offset);
  product.a.address = given(sub.a);
  product.b.address = given(sub.b);
  product.a.row0 = batch * sub.m;
  product.packed_b = sub.packed ? &*sub.packed : nullptr;
  return product;
}

// ---- depthwise ----------------------------------------------------------------------------------

// Narrow groups whose channels lie together, or can be turned so.
bool Assembly::is_depthwise(const ProductShape& whole, const Addressing& addressing) const {
  if (groups_.along != Groups::Along::n || groups_.count < 2) return false;
  const std::int64_t filters = n_ / groups_.count;
  if (filters < 1 || filters > widest_group) return false;
  const auto lies = [&](const Windows& w) {
    return w.channels <= widest_group && (lie_together(w, groups_) || can_be_turned(w, groups_));
  };
  std::int64_t k = whole.k;
  if (!parts_.empty()) {
    k = parts_.front().k();
    if (!lies(parts_.front().a)) return false;
  } else if (const auto* const w = std::get_if<Windows>(&addressing.a)) {
    if (!lies(*w)) return false;
  } else if (!std::holds_alternative<std::monostate>(addressing.a) || !whole.a_k_major || groups_.a_stride != k ||
             k > widest_group) {
    return false;
  }
  // Every sum of integers is one of f32.
  const auto largest = [](DType type) { return type == DType::u8 ? 255 : 128; };
  return is_float(whole.a) || k <= (1 << 24) / (largest(whole.a) * largest(whole.b));
}

void Assembly::add_depthwise(const ProductShape& whole, const Addressing& addressing, bool parts) {
  if (parts) {
    for (const Residue& part : parts_) depthwise_.push_back({part.a, part.b, part.b_first, &part, {}, {}});
  } else {
    depthwise_.push_back({addressing.a, addressing.b, 0, nullptr, {}, {}});
  }
  kernels_ = &kernels_for(isa_, {.m = max_thin_rows + 1});  // f32's
  std::int64_t taps = 0;
  for (const Depthwise& d : depthwise_) taps = std::max(taps, taps_of(d.a));
  const std::int64_t k = parts ? parts_.empty() ? 0 : parts_.front().k() : whole.k;
  channels_ = taps == 0 ? 0 : k / taps;
  const std::int64_t filters = n_ / groups_.count, lanes = kernels_->lanes;
  const std::int64_t together =
      std::max<std::int64_t>(1, std::min(lanes / filters, (lanes - 1) / std::max<std::int64_t>(channels_, 1) + 1));
  for (std::int64_t g = 0; g < groups_.count; g += together) {
    const std::int64_t end = std::min(g + together, groups_.count) * filters;
    for (std::int64_t f = g * filters; f < end; f += lanes) vectors_.push_back({f, g * channels_});
  }
  for (std::int64_t i = 0; i < lanes; ++i)
    lane_[static_cast<std::size_t>(i)] = static_cast<unsigned char>(std::min(i / filters, together - 1) * channels_);
  block_bytes_ = in_lines(row_group * acc_row_ * 4);
  const std::size_t addresses = in_lines(row_group * taps * static_cast<std::int64_t>(sizeof(const char*)));
  std::int64_t strip = 0;
  for (Depthwise& d : depthwise_) {
    const auto* const w = std::get_if<Windows>(&d.a);
    if (!w || lie_together(*w, groups_)) continue;
    d.turned.emplace(*w, groups_.count * channels_, channel_distance(*w, groups_));
    strip = std::max(strip, d.turned->bytes());
  }
  strip_offset_ = block_bytes_ + addresses;
  blocking_.thread_bytes =
      piece_bytes_ + std::max(strip_offset_ + in_lines(strip), in_lines(taps * channels_ * gathered_columns * 4));
}

void Assembly::pack(Depthwise& depthwise, const Product& whole, char* scratch) const {
  const std::int64_t k = taps_of(depthwise.a) * channels_, filters = n_ / groups_.count;
  const std::int64_t row = static_cast<std::int64_t>(vectors_.size()) * kernels_->lanes;
  for (std::size_t v = 0; v < vectors_.size(); ++v) {
    const std::int64_t first = vectors_[v].filter, end = v + 1 < vectors_.size() ? vectors_[v + 1].filter : n_;
    const int count = static_cast<int>(end - first);
    const char* starts[gathered_columns];
    for (int i = 0; i < count; ++i) {
      Matrix b = whole.b;
      b.address = given(depthwise.b);
      b.data = moved(whole.b, depthwise.b_first + (first + i) / filters * groups_.b_stride);
      starts[i] = column_elements(b, (first + i) % filters, 0, k, scratch + i * k * size_of(b.dtype));
    }
    kernels_->pack_k_major(
        element_of(whole.b.dtype), true, starts, count, k,
        reinterpret_cast<std::uint32_t*>(depthwise.weights.data()) + static_cast<std::int64_t>(v) * kernels_->lanes,
        row);
  }
}

void Assembly::run(const Depthwise& depthwise, const Product& whole, std::int64_t batch,
                   const RunOptions& options) const {
  auto* const all = reinterpret_cast<std::uint32_t*>(options.shared_scratch);
  const auto* const windows = std::get_if<Windows>(&depthwise.a);
  const std::int64_t rows = depthwise.part ? depthwise.part->a.pixels() : m_, groups = ceil_div(rows, row_group);
  core::parallel(options.threads, [&](int thread) {
    std::byte* const own =
        options.thread_scratch + static_cast<std::size_t>(thread) * options.thread_scratch_stride + piece_bytes_;
    auto* const acc = reinterpret_cast<std::uint32_t*>(own);
    auto* const addresses = reinterpret_cast<const char**>(own + block_bytes_);
    DepthwiseRun run = run_of(depthwise, whole);
    run.from = addresses;
    run.c = reinterpret_cast<float*>(acc);
    // Vectors of filters alone: what they store is the output.
    const bool straight = !depthwise.part && options.direct && stores_only(*options.direct) && !run.integers &&
                          run.count * kernels_->lanes == n_;
    if (straight) run.c_row = options.direct->row_stride;
    std::optional<TurnedStrips> turned = depthwise.turned;
    const std::int64_t end = std::min(groups * (thread + 1) / options.threads * row_group, rows);
    std::int64_t turned_end = 0;
    for (std::int64_t g = groups * thread / options.threads; g < groups * (thread + 1) / options.threads; ++g) {
      const std::int64_t row = g * row_group;
      run.pixels = static_cast<int>(std::min<std::int64_t>(row_group, rows - row));
      if (turned && row >= turned_end) {
        turned_end = std::min(row + turned->rows(), end);
        turned->turn(whole.a, *kernels_, batch * rows + row, turned_end - row, groups_.count * channels_,
                     reinterpret_cast<char*>(own + strip_offset_));
      }
      if (windows) {
        tap_addresses(turned ? turned->matrix() : whole.a, turned ? turned->windows() : *windows, batch * rows + row,
                      run.pixels, zeros_.data(), addresses);
      } else {
        for (int i = 0; i < run.pixels; ++i) addresses[i] = element_address(whole.a, row + i, 0);
      }
      if (straight) run.c = options.direct->out + row * options.direct->row_stride;
      kernels_->depthwise(run);
      if (straight) continue;
      if (!depthwise.part) {
        hand_on(options, thread, row, run.pixels, acc);
        continue;
      }
      for (int i = 0; i < run.pixels; ++i)
        std::memcpy(all + place_of(*depthwise.part, row + i) * acc_row_, acc + i * acc_row_,
                    static_cast<std::size_t>(n_ * 4));
    }
  });
}

// What all of its blocks have in common.
DepthwiseRun Assembly::run_of(const Depthwise& depthwise, const Product& whole) const {
  const auto* const windows = std::get_if<Windows>(&depthwise.a);
  const auto row = static_cast<std::int64_t>(vectors_.size()) * kernels_->lanes;
  DepthwiseRun run;
  run.taps = taps_of(depthwise.a);
  run.element = depthwise.turned ? Element::f32 : element_of(whole.a.dtype);
  run.integers = !is_float(whole.a.dtype);
  run.vectors = vectors_.data();
  run.count = static_cast<std::int64_t>(vectors_.size());
  run.lane = n_ == groups_.count && channels_ == 1 ? nullptr : lane_.data();
  run.channels = channels_;
  run.all_channels = groups_.count * channels_;
  run.weights = depthwise.weights.data();
  const bool channels_last = !windows || windows->channels_last;
  run.tap_stride = row * (channels_last ? channels_ : 1);
  run.channel_stride = row * (channels_last ? 1 : run.taps);
  run.c_row = acc_row_;
  return run;
}

// ---- running ------------------------------------------------------------------------------------

void Assembly::allocate() {
  for (Sub& sub : subs_) {
    if (sub.packed) cpu::allocate(*sub.packed);
  }
  for (Depthwise& d : depthwise_) d.weights.resize(static_cast<std::size_t>(weights_of(d)));
  if (depthwise()) zeros_.resize(static_cast<std::size_t>(zero_bytes()));
}

std::int64_t Assembly::weights_of(const Depthwise& d) const {
  return taps_of(d.a) * channels_ * static_cast<std::int64_t>(vectors_.size()) * kernels_->lanes;
}
std::int64_t Assembly::zero_bytes() const { return groups_.count * channels_ * 4; }

std::int64_t Assembly::packed_bytes() const {
  std::int64_t bytes = depthwise() ? zero_bytes() : 0;
  for (const Sub& sub : subs_) bytes += sub.packed ? static_cast<std::int64_t>(sub.packed->bytes) : 0;
  for (const Depthwise& d : depthwise_) bytes += weights_of(d) * 4;
  return bytes;
}

std::string Assembly::text() const {
  if (gradient_) return "a depthwise convolution's gradient by its filters";
  if (subs_.size() == 1) return "the product";
  if (!depthwise()) return std::to_string(subs_.size()) + " products put together";
  const std::size_t count = depthwise_.size();
  const std::string kind = n_ == groups_.count ? "" : " of narrow groups",
                    what = n_ == groups_.count ? "depthwise " : "";
  return count > 1 ? std::to_string(count) + " " + what + "convolutions" + kind + " put together"
                   : "a " + what + "convolution" + kind;
}

void Assembly::pack(const Product& whole, int threads, char* scratch, std::size_t scratch_stride) {
  for (Depthwise& depthwise : depthwise_) pack(depthwise, whole, scratch);
  for (Sub& sub : subs_) {
    if (!sub.packed) continue;
    cpu::fill(*sub.packed, product_of(sub, whole, 0), threads, scratch, scratch_stride);
  }
}

struct Assembly::Filling {
  const Assembly* self;
  const Sub* sub;
  std::uint32_t* acc;
};

// Puts a block of one product into the accumulators of all.
void Assembly::fill(void* context, const FinishedBlock& block) {
  const Filling& filling = *static_cast<const Filling*>(context);
  const Sub& sub = *filling.sub;
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const std::int64_t row = block.row0 + i, place = sub.part ? place_of(*sub.part, row) : row + sub.row0;
    std::memcpy(filling.acc + place * filling.self->acc_row_ + sub.column0 + block.column0,
                static_cast<const std::uint32_t*>(block.acc) + i * block.acc_row,
                static_cast<std::size_t>(block.columns * 4));
  }
}

void Assembly::run(const Product& whole, std::int64_t batch, const RunOptions& options) const {
  auto* const acc = reinterpret_cast<std::uint32_t*>(options.shared_scratch);
  if (!all_rows_) std::memset(acc, 0, acc_bytes_);
  for (const Depthwise& depthwise : depthwise_) run(depthwise, whole, batch, options);
  if (gradient_) gradient_->run(whole, options, reinterpret_cast<float*>(acc), acc_row_);
  for (const Sub& sub : subs_) {
    Filling filling{this, &sub, acc};
    RunOptions own = options;
    own.shared_scratch += acc_bytes_;
    own.consumer = {fill, &filling};
    own.direct = nullptr;
    own.kept = nullptr;
    own.prefetch[0] = own.prefetch[1] = {};
    cpu::run(product_of(sub, whole, batch), sub.blocking, own);
  }
  if (acc_bytes_ > 0) hand_on_all(options);
}

void Assembly::hand_on_all(const RunOptions& options) const {
  auto* const acc = reinterpret_cast<std::uint32_t*>(options.shared_scratch);
  const std::int64_t groups = n_ == 0 ? 0 : ceil_div(m_, row_group);
  core::parallel(options.threads, [&](int thread) {
    for (std::int64_t g = groups * thread / options.threads; g < groups * (thread + 1) / options.threads; ++g) {
      const std::int64_t row = g * row_group;
      hand_on(options, thread, row, std::min<std::int64_t>(row_group, m_ - row), acc + row * acc_row_);
    }
  });
}

void Assembly::hand_on(const RunOptions& options, int thread, std::int64_t row, std::int64_t rows,
                       std::uint32_t* acc) const {
  if (options.direct) {
    kernels_->store_direct(*options.direct, reinterpret_cast<const float*>(acc), acc_row_, row, rows, 0, n_);
    return;
  }
  FinishedBlock block{thread, row, rows, 0, n_ / pieces_.count, acc, acc_row_, n_};
  if (pieces_.count > 1) {
    auto* const to = reinterpret_cast<std::uint32_t*>(options.thread_scratch +
                                                      static_cast<std::size_t>(thread) * options.thread_scratch_stride);
    for (std::int64_t i = 0; i < rows; ++i)
      for (int piece = 0; piece < pieces_.count; ++piece)
        for (std::int64_t x = 0; x < block.columns; ++x)
          to[i * block_row_ + piece * piece_stride_ + x] = acc[i * acc_row_ + column_of(pieces_, n_, piece, x)];
    block.acc = to;
    block.acc_row = block_row_;
    block.piece_stride = piece_stride_;
  }
  options.consumer.consume(options.consumer.context, block);
}

}  // namespace postlude::inline v0::cpu
