// The parameter blocks of products and repacks.
#include "core/divide.h"
#include "cuda/decide/decider.h"

#include <postlude/error.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

namespace postlude::inline v0::cuda {

using lower::BufferId;
using lower::Program;

agreed::Counting Decider::counting(const Counted* k) {
  agreed::Counting c{};
  for (std::size_t axis = 0; k && axis < 4; ++axis) {
    c.stride[axis] = k->k[axis].stride;
    c.size[axis] = c.valid[axis] = static_cast<std::int32_t>(k->k[axis].size);
  }
  return c;
}

// A buffer's four words: its address, and its strides along b, m and n.
void Decider::describe(Kernel& kernel, std::size_t first, const Memory& memory) const {
  for (int i = 0; i < 3; ++i) kernel.block[first + 1 + i] = word(memory.strides[i]);
  if (memory.by_value) kernel.values.push_back({first + 3, memory.address.buffer});
  else kernel.addresses.push_back({first, memory.address});
}

Kernel& Decider::kernel(const std::shared_ptr<const std::string>& source, const std::string& name) {
  Kernel& made = d_.kernels.emplace_back();
  made.source = source, made.name = name;
  return made;
}

const std::shared_ptr<const std::string>& Decider::plain_text() {
  const Contraction gemm = subject_.problem.loop().contraction().value();
  if (!plain_text_)
    plain_text_ = std::make_shared<const std::string>(
        product_ ? copies_source(gemm.a)
                 : product_source(gemm.a, gemm.b, a_form(), static_cast<int>(layout_.b_rows.index()), part_ != nullptr,
                                  columns_of_thread(gemm)));
  return plain_text_;
}

static std::int64_t whole_lines(std::int64_t length, std::int64_t size) {
  return round_up(length * size, 128) / size;  // whole 128 bytes load fastest
}

std::int64_t Decider::pitch(const Contraction& gemm) const { return whole_lines(depth(), size_of(gemm.a)); }

Decider::Packed Decider::packed(const Contraction& gemm, bool of_a) const {
  std::int64_t lines = of_a ? shape_.m : shape_.n, length = depth();
  if (of_a ? variant_.a_mn_major : variant_.b_mn_major) std::swap(lines, length);
  if (!of_a) lines *= variant_.b_pieces, length /= variant_.b_pieces;
  // Fewer bytes are written of short rows that one column of tiles reads, where they are copied as they lie (decision
  // 0260).
  const std::int64_t size = size_of(gemm.a);
  const bool as_they_lie = of_a && !layout_.a_k && layout_.a.strides[2] == 1 && !variant_.a_mn_major;
  if (as_they_lie && length * size <= 64 && shape_.n <= 64) return {lines, length, round_up(length * size, 16) / size};
  return {lines, length, whole_lines(length, size)};
}

Address Decider::b_address(const Contraction& gemm) const {
  return {Address::Of::b, 0, part_ ? part_->b_first * size_of(gemm.b) : 0};
}

// What a product's kernel reads behind its other parameters of A's rows.
void Decider::add_rows(Kernel& k) const {
  const auto add = [&](const auto& rows) {
    if constexpr (!std::is_same_v<std::decay_t<decltype(rows)>, std::monostate>) {
      const std::size_t at = k.block.size();
      k.block.resize(at + sizeof rows / 8);
      std::memcpy(&k.block[at], &rows, sizeof rows);
      if (std::is_same_v<std::decay_t<decltype(rows)>, agreed::GatheredRows>)
        k.addresses.push_back({at, {Address::Of::index}});
    }
  };
  if (part_) {
    add(part_->a);
    if (layout_.beside) return;
    const std::size_t at = k.block.size();
    k.block.resize(at + sizeof part_->scatter / 8);
    agreed::ScatterRows scatter = part_->scatter;
    scatter.first_tile = first_tile_, scatter.end_tile = first_tile_ + (product_ ? sizes().tiles : 0);
    std::memcpy(&k.block[at], &scatter, sizeof scatter);
    return;
  }
  std::visit(add, layout_.a_rows);
  std::visit(add, layout_.b_rows);
}

// Where a copy of images lies, which the kernel behind it reads with what is added to their pixels.
Address Decider::take_images(const agreed::UnpackedImages& x, std::int64_t size) {
  if (std::int64_t{x.columns} * x.packed > std::numeric_limits<std::int32_t>::max())
    throw Error(ErrorCode::size_overflow, "a row of an image is too large to be repacked", "Split the images.");
  const std::int64_t rows = std::int64_t{x.images} * x.extent[0] * x.extent[1];
  const std::int64_t read = rows * x.extent[2] * x.channels * size, written = rows * x.columns * x.packed * size;
  beside("images repacked", read, written);
  d_.outline.read_beyond += static_cast<double>(written - read);
  d_.repack_images = true;
  return take(written);
}

void Decider::emit_repack_images(DType type, const agreed::UnpackedImages& x, const Address& from, const Address& to) {
  Kernel& k = kernel(plain_text(), "postlude_repack_images");
  const std::int64_t chunks =
      std::int64_t{x.images} * x.extent[0] * x.extent[1] * x.columns * x.packed * size_of(type) / 16;
  k.grid = {static_cast<unsigned>(ceil_div(chunks, 256)), 1, 1};
  k.addresses = {{offsetof(agreed::UnpackedImages, from) / 8, from}, {offsetof(agreed::UnpackedImages, to) / 8, to}};
  k.block.resize(sizeof x / 8);
  std::memcpy(k.block.data(), &x, sizeof x);
}

void Decider::emit_compact() {
  agreed::Padded x = *layout_.padded;
  x.m = static_cast<int>(shape_.m);
  Kernel& k = kernel(plain_text(), "postlude_compact");
  k.grid = {static_cast<unsigned>(ceil_div(shape_.n, 256)),
            static_cast<unsigned>(std::min<std::int64_t>(shape_.m, 65535)), 1};
  k.addresses = {{offsetof(agreed::Padded, from) / 8, padded_}, {offsetof(agreed::Padded, to) / 8, accumulator_}};
  k.block.resize(sizeof x / 8);
  std::memcpy(k.block.data(), &x, sizeof x);
}

// The accumulator's columns of residues become pixels.
void Decider::emit_interleave() {
  const agreed::Interleaved& x = layout_.beside->places;
  Kernel& k = kernel(plain_text(), "postlude_interleave");
  k.grid = {static_cast<unsigned>(ceil_div(shape_.batch * shape_.m, 256)), 1, 1};
  k.addresses = {{offsetof(agreed::Interleaved, from) / 8, padded_},
                 {offsetof(agreed::Interleaved, to) / 8, accumulator_}};
  k.block.resize(sizeof x / 8);
  std::memcpy(k.block.data(), &x, sizeof x);
}

void Decider::emit_copies(const Contraction& gemm, bool counted, std::vector<Copied> all) {
  using agreed::Unpacked;
  constexpr std::size_t words = sizeof(Unpacked) / 8, most = agreed::repack_at_once;
  const auto source = std::make_shared<const std::string>(repack_source(gemm.a, counted));
  const int size = static_cast<int>(size_of(gemm.a));
  for (std::size_t first = 0; first < all.size(); first += most) {
    Unpacked matrices[most] = {};
    Kernel& k = kernel(source, "postlude_repack");
    k.grid[0] = 0;
    for (std::size_t i = 0; i < std::min(most, all.size() - first); ++i) {
      auto& [matrix, from, to] = all[first + i];
      const agreed::RepackGrid grid = repack_grid(matrix, size);
      const std::int64_t made = std::int64_t{matrix.batches} * grid.across * grid.along;
      if (made > std::numeric_limits<std::int32_t>::max() / 4)
        throw Error(ErrorCode::size_overflow, "an operand is too large to be repacked");
      matrix.blocks = small(made);
      k.grid[0] += static_cast<unsigned>(made);
      k.addresses.push_back({i * words + offsetof(Unpacked, from) / 8, from});
      k.addresses.push_back({i * words + offsetof(Unpacked, to) / 8, to});
      matrices[i] = matrix;
    }
    k.block.resize(sizeof matrices / 8);
    std::memcpy(k.block.data(), matrices, sizeof matrices);
  }
}

// The filters of residues that are columns of one product.
void Decider::emit_sides(const Contraction& gemm) {
  const auto& sides = layout_.beside->sides;
  const std::int64_t size = size_of(gemm.b), n = shape_.n;
  std::vector<Copied> all;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    agreed::Unpacked m{};
    m.row_stride = layout_.b.strides[2], m.column_stride = layout_.b.strides[1];
    m.rows = small(n), m.columns = small(depth()), m.pitch = small(pitch(gemm)), m.batches = 1;
    m.count = sides[i].count;
    Address to = packed_b_;
    to.offset += static_cast<std::int64_t>(i) * n * pitch(gemm) * size;
    all.push_back({m, {Address::Of::b, 0, sides[i].first * size}, to});
  }
  emit_copies(gemm, true, std::move(all));
}

// A or B, of the part that is emitted.
Decider::Copied Decider::copied(const Contraction& gemm, bool of_a) const {
  const Packed packed = this->packed(gemm, of_a);
  const Placed& from = of_a ? layout_.a : layout_.b;
  int rows_axis = of_a ? 1 : 2, k_axis = 3 - rows_axis;
  if (of_a ? variant_.a_mn_major : variant_.b_mn_major) std::swap(rows_axis, k_axis);
  const int pieces = of_a ? 1 : variant_.b_pieces;  // batches, of which B has no others then
  agreed::Unpacked m{};
  m.batch_stride = pieces > 1 ? packed.length : from.strides[0];
  m.row_stride = from.strides[rows_axis], m.column_stride = from.strides[k_axis];
  m.rows = small(packed.lines / pieces), m.columns = small(packed.length), m.pitch = small(packed.pitch);
  m.batches = small(from.strides[0] == 0 ? pieces : shape_.batch);
  m.count = of_a ? counting(layout_.a_k ? &*layout_.a_k : nullptr) : b_counting();
  if (const auto& diagonal = layout_.diagonal; diagonal && !of_a) {
    m.group_stride = diagonal->group_stride, m.group_rows = diagonal->group_rows;
    m.group_columns = diagonal->group_columns, m.block_groups = diagonal->block_groups;
  }
  return {m, of_a ? Address{Address::Of::a} : b_address(gemm), of_a ? packed_a_ : packed_b_};
}

void Decider::emit_repack() {
  if ((!d_.repack_a && !d_.repack_b) || depth() == 0) return;
  const Contraction gemm = subject_.problem.loop().contraction().value();
  std::vector<Copied> all;
  if (d_.repack_a) all.push_back(copied(gemm, true));
  if (d_.repack_b) all.push_back(copied(gemm, false));
  emit_copies(gemm, layout_.a_k || b_k() || layout_.b_count || layout_.diagonal, std::move(all));
}

void Decider::emit_product() {
  const FusedEpilogue& e = product_->epilogue;
  const Schedule& s = product_->schedule;
  const Contraction gemm = subject_.problem.loop().contraction().value();
  if (layout_.beside) emit_sides(gemm);
  else if (!variant_.scattered || s.mma) emit_repack();  // those of residues were emitted before
  if (layout_.images && (!part_ || part_ == layout_.parts.data()))
    emit_repack_images(gemm.a, *layout_.images, {b_windows() ? Address::Of::b : Address::Of::a}, packed_images_);
  Kernel& k = kernel(product_->source, "postlude_gemm");
  map_a(k, gemm, a_run(s, e.needs));
  map_b(k, gemm, b_run(s, e.needs));
  const Program& program = d_.fused ? program_ : accumulator_program_;
  Memory accumulator = accumulator_memory();
  if (layout_.padded || layout_.beside) accumulator = {padded_, 16, {0, columns_, 1}};
  const std::vector<Memory> alone{accumulator}, &memory = d_.fused ? memory_ : alone;
  // A consumer's four warps load a subtile together; each stores its own rows of one.
  for (std::size_t i = 0; i < e.columns.size(); ++i) {
    const bool loaded = i < e.loaded.size();
    const BufferId b = loaded ? e.loaded[i] : e.stored[i - e.loaded.size()];
    map_tile(k, program.buffers[b].dtype, memory[b], e.columns[i], loaded ? 64 : 16);
  }
  agreed::GemmSizes g = sizes();
  if (launch_tiles_) g.tiles = launch_tiles_;
  if (variant_.shifted || variant_.shifted_a) map_shifts(k, gemm, g.edge_a, g.edge_b);
  else if (!s.mma) map_a(k, gemm, g.edge_a), map_b(k, gemm, g.edge_b);
  const std::size_t integers = k.block.size(), words = integers + sizeof g / 8;
  k.block.resize(words + static_cast<std::size_t>(std::max(1, e.words + (s.by_memory ? part_words : 0))));
  add_rows(k);
  k.block.resize(agreed::params_bytes(0, static_cast<int>(k.block.size() - sizeof g / 8)) / 8);
  std::memcpy(k.block.data() + integers, &g, sizeof g);
  k.block[words + e.columns_word] = word(shape_.n);
  for (std::size_t b = 0; b < e.word_of.size(); ++b) {
    if (e.word_of[b] >= 0) describe(k, words + e.word_of[b], memory[b]);
  }
  const bool meet = meets();
  for (std::size_t r = 0; meet && r < e.partials.size(); ++r) {
    if (e.partials[r].word >= 0) k.addresses.push_back({words + e.partials[r].word, partials_[r]});
  }
  if (meet) k.addresses.push_back({words + e.counters_word, counters_});
  for (std::size_t i = 0; s.by_memory && i < part_words; ++i) k.addresses.push_back({words + e.words + i, parts_[i]});
  k.shared = shared_bytes(s, e.needs);
  k.threads = static_cast<unsigned>(threads(s));
  k.cooperative = !s.mma && (meet || s.by_memory);  // blocks wait for each other
  k.grid[0] = static_cast<unsigned>(
      blocks(s, e.needs, {std::int64_t{g.tiles} * cluster_tiles(s), round_up(g.tiles_n, sharing_a(s))},
             subject_.multiprocessors));
  if (layout_.padded && !d_.fused) return emit_compact();
  if (layout_.beside) return emit_interleave();
  if (e.across_tiles() && s.mma) {
    Kernel finish = k;
    finish.name = "postlude_finish", finish.shared = e.finish_bytes, finish.threads = 256;
    const std::int64_t blocks = (e.finishes[0] ? ceil_div(output_rows(), agreed::rows_folded(g)) : 0) +
                                (e.finishes[1] ? ceil_div(columns_, 32) : 0) + (e.finishes[2] ? 1 : 0);
    finish.grid[0] = static_cast<unsigned>(blocks * shape_.batch);
    d_.kernels.push_back(std::move(finish));
  }
}

// Hopper's kernel has several residues in a launch, the longest K first: their parameters follow each other.
void Decider::emit_residues() {
  const auto select = [&](std::size_t i) {
    part_ = &layout_.parts[i];
    if (!packed_parts_.empty()) packed_b_ = packed_parts_[i];
  };
  const Contraction gemm = subject_.problem.loop().contraction().value();
  std::vector<Copied> copies;
  for (std::size_t i = 0; i < layout_.parts.size() && d_.repack_b; ++i) {
    select(i);
    if (depth() > 0) copies.push_back(copied(gemm, false));
  }
  emit_copies(gemm, true, std::move(copies));
  std::vector<Kernel> launches;
  for (std::size_t first = 0, end = 0; first < layout_.parts.size(); first = end) {
    const FusedEpilogue& e = product_->epilogue;
    const int behind = static_cast<int>((sizeof(agreed::WindowRows) + sizeof(agreed::ScatterRows)) / 8),
              bytes = agreed::params_bytes(4 + e.maps, std::max(1, e.words) + behind);
    const auto at_once = static_cast<std::size_t>(agreed::residues_at_once(bytes));
    end = std::min(layout_.parts.size(), first + at_once);
    launch_tiles_ = 0;
    for (std::size_t i = first; i < end; ++i) select(i), launch_tiles_ += sizes().tiles;
    first_tile_ = 0;
    for (std::size_t i = first; i < end; ++i) {
      select(i);
      emit_product();
      Kernel one = std::move(d_.kernels.back());
      d_.kernels.pop_back();
      first_tile_ += sizes().tiles;
      if (i == first) {
        launches.push_back(std::move(one));
        continue;
      }
      Kernel& all = launches.back();
      const std::size_t base = all.block.size();
      all.block.insert(all.block.end(), one.block.begin(), one.block.end());
      const auto add = [&](auto& to, auto& from) {
        for (auto& field : from) field.word += base, to.push_back(std::move(field));
      };
      add(all.addresses, one.addresses), add(all.values, one.values), add(all.maps, one.maps);
    }
    launches.back().block.resize(at_once * static_cast<std::size_t>(bytes) / 8);  // others have no tiles
  }
  d_.residues_share = launches.size() < layout_.parts.size();
  std::move(launches.begin(), launches.end(), std::back_inserter(d_.kernels));
}

// Columns that a thread adds up where every group has one channel and one column; 0: they have more.
int Decider::columns_of_thread(const Contraction& gemm) const {
  const Groups& groups = layout_.groups;
  const auto* w = windows();
  if (!w || w->channels != 1 || groups.along != Groups::Along::n || groups.count <= 1 || groups.count != shape_.n)
    return 0;
  const std::int64_t size = size_of(gemm.a);
  const auto whole = [&](std::int64_t elements) { return elements * size % 16 == 0; };
  const bool runs = (gemm.a == DType::bf16 || gemm.a == DType::f16 || gemm.a == DType::f32) && groups.a_stride == 1 &&
                    shape_.n % 8 == 0 && layout_.a.alignment >= 16 && whole(w->image_stride) &&
                    std::all_of(std::begin(w->axis), std::end(w->axis),
                                [&](const agreed::WindowAxis& axis) { return axis.extent == 1 || whole(axis.stride); });
  return runs ? 8 : 1;
}

// The accumulator on the ordinary units.
void Decider::emit_plain_product() {
  if (filters_) return emit_filters();
  d_.on_ordinary_units =
      "portable product 64x64" + (plain_parts_ > 1 ? " in " + std::to_string(plain_parts_) + " parts" : "");
  const Contraction gemm = subject_.problem.loop().contraction().value();
  const int vector = columns_of_thread(gemm);
  Kernel& k = kernel(plain_text(), vector ? "postlude_depthwise" : "postlude_product");
  if (vector) d_.on_ordinary_units = "sums of single channels on ordinary units";
  const Groups& groups = layout_.groups;
  const std::int64_t groups_m = groups.along == Groups::Along::m ? groups.count : 1, groups_n = groups.count / groups_m;
  std::array<std::int64_t, 3> grid = plain_grid();
  if (vector) grid = {ceil_div(rows() * shape_.n, 256 * vector), batches(), 1};
  grid[2] *= plain_parts_;
  if (grid[1] > 65535)
    throw Error(ErrorCode::unsupported, "N is too large for the portable product on a GPU",
                "Split the columns over several calls.");
  std::transform(grid.begin(), grid.end(), k.grid.begin(), [](std::int64_t g) { return static_cast<unsigned>(g); });
  const auto &a = layout_.a.strides, &b = layout_.b.strides;
  using agreed::Product;
  Product p{};
  p.a_batch = a[0], p.a_row = a[1], p.a_k = a[2];
  p.b_batch = b[0], p.b_k = b[1], p.b_column = b[2];
  p.m = static_cast<int>(rows()), p.n = static_cast<int>(shape_.n), p.k = static_cast<int>(depth());
  p.groups_m = static_cast<int>(groups_m), p.groups_n = static_cast<int>(groups_n), p.parts = plain_parts_;
  p.a_group = groups.a_stride, p.b_group = groups.b_stride;
  p.a_count = counting(layout_.a_k ? &*layout_.a_k : nullptr), p.b_count = counting(b_k());
  k.block.resize(sizeof p / 8);
  std::memcpy(k.block.data(), &p, sizeof p);
  k.addresses = {{offsetof(Product, a) / 8, {Address::Of::a}},
                 {offsetof(Product, b) / 8, b_address(*subject_.problem.loop().contraction())},
                 {offsetof(Product, acc) / 8, plain_parts_ > 1 ? k_parts_ : accumulator_}};
  add_rows(k);
  emit_fold(plain_parts_);
}

}  // namespace postlude::inline v0::cuda
