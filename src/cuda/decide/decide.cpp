// The kernels that a Program becomes, with their parameter blocks. It is longer than most because the parameters'
// layout is one thing said once.
#include "core/divide.h"
#include "cuda/decide/fold.h"
#include "cuda/decide/pack.h"
#include "cuda/decide/product.h"
#include "cuda/emit/agreed.h"
#include "cuda/emit/generic.h"
#include "plan/traffic.h"

#include <postlude/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace postlude::inline v0::cuda {

using lower::BufferId;
using lower::BufferKind;
using lower::Phase;
using lower::Program;

namespace {

constexpr std::size_t map_words = 16;
constexpr std::int64_t largest_stride = std::int64_t{1} << 40;

bool map_stride(std::int64_t stride, std::int64_t size, std::int64_t extent) {
  return extent == 1 || (stride > 0 && stride * size % 16 == 0 && stride * size < largest_stride);
}

// acc as an f32 or i32 output and nothing else: the product of a Program whose epilogue runs from memory.
Program accumulator_program(const Program& of) {
  Program program;
  program.accumulator = of.accumulator;
  program.batched = of.batched;
  lower::Buffer& buffer = program.buffers.emplace_back();
  buffer.kind = BufferKind::output;
  buffer.dtype = of.accumulator;
  buffer.axes = Axis::m | Axis::n;
  program.outputs = 1;
  Phase phase;
  phase.domain = buffer.axes;
  phase.batched = of.batched;
  lower::Instruction& accumulator = phase.code.emplace_back();
  accumulator.op = Op::acc;
  accumulator.type = of.accumulator;
  accumulator.axes = buffer.axes;
  lower::Store store;
  store.value = 0;
  store.access.buffer = 0;
  phase.stores.push_back(store);
  program.phases.push_back(phase);
  return program;
}

// The first phase over the tiles that reads the accumulator; -1: none does.
int product_phase(const Program& program) {
  for (std::size_t p = 0; p < program.phases.size(); ++p) {
    if (program.phases[p].domain == (Axis::m | Axis::n) && program.phases[p].reads_accumulator())
      return static_cast<int>(p);
  }
  return -1;
}

agreed::Counting counting(const Counted* k) {
  agreed::Counting c{};
  for (std::size_t axis = 0; k && axis < 4; ++axis) {
    c.stride[axis] = k->k[axis].stride;
    c.size[axis] = c.valid[axis] = static_cast<std::int32_t>(k->k[axis].size);
  }
  return c;
}

std::uint64_t word(std::int64_t value) { return static_cast<std::uint64_t>(value); }

class Decider {
 public:
  Decider(const Subject& subject, const Layout& layout, const Judge& judge)
      : subject_(subject),
        program_(*subject.program),
        layout_(layout),
        shape_(layout.shape),
        judge_(judge),
        accumulator_program_(accumulator_program(program_)),
        product_phase_(product_phase(program_)) {}
  Decision run();

 private:
  enum class Major { k, mn, repack };
  // A buffer as kernels see it: strides in elements for b, m, n.
  struct Memory {
    Address address;
    int alignment = 16;
    std::array<std::int64_t, 3> strides{};
    bool by_value = false;
    bool in_workspace = false;  // its place there is not known before what stays in registers is
  };

  // A kernel that runs from memory.
  struct Pass {
    GenericKernel kernel;
    std::int64_t rows, columns;
    std::array<unsigned, 3> grid{1, 1, 1};
    int splits = 1, groups = 1;
  };
  struct PassMemory {
    std::int64_t partial_bytes = 0, counters = 0;
  };

  // Pieces of one workspace, 256-byte aligned.
  Address take(std::int64_t bytes) {
    const std::size_t at = std::exchange(d_.workspace, d_.workspace + static_cast<std::size_t>(round_up(bytes, 256)));
    return {Address::Of::workspace, 0, static_cast<std::int64_t>(at)};
  }
  Address take_cleared(std::int64_t bytes) {
    const Address taken = take(bytes);
    d_.cleared.push_back({static_cast<std::size_t>(taken.offset), static_cast<std::size_t>(bytes)});
    return taken;
  }
  void limits() const;
  [[nodiscard]] bool in_place(BufferId b) const { return layout_.buffers[b].in_place; }
  [[nodiscard]] int home(BufferId crossing) const;
  [[nodiscard]] std::array<std::int64_t, 3> extents(const lower::Buffer& buffer) const;  // of b, m, n
  void memories();
  [[nodiscard]] bool only_in(BufferId buffer, const std::vector<RowPhase>& phases) const;
  void find_what_stays();
  void place_workspace();
  [[nodiscard]] Major major(const Placed& operand, DType dtype, int rows_axis, int k_axis, std::int64_t rows,
                            bool mn_allowed) const;
  [[nodiscard]] std::vector<BufferPlace> places(const Program& program, const std::vector<Memory>& memory,
                                                std::int64_t columns) const;
  [[nodiscard]] bool in_order() const;
  [[nodiscard]] std::optional<Major> by_taps(const Contraction& gemm, bool mn_allowed) const;
  void arrange(const Contraction& gemm, bool mma, bool b_mn_allowed);
  void decide_product();
  void fuse(const Contraction& gemm);
  void multiply_alone(const Contraction& gemm);
  [[nodiscard]] agreed::GemmSizes sizes() const;
  void take_partials();
  void decide_passes();
  [[nodiscard]] Wide wide(const std::vector<int>& phases) const;
  [[nodiscard]] DType source_type() const;
  [[nodiscard]] Memory accumulator_memory() const;
  void shape_reduction(Pass& pass, std::int64_t (&grid)[3], PassMemory& memory) const;
  void place_phases();
  [[nodiscard]] ErrorModel error() const;
  void count_traffic();
  void count_product(std::vector<Traffic>& phases) const;
  void count_pass(const GenericKernel& kernel, plan::KernelTraffic& traffic, std::vector<Traffic>& phases) const;
  void beside(const std::string& what, std::int64_t read, std::int64_t written);
  Kernel& kernel(const std::shared_ptr<const std::string>& source, const std::string& name);
  const std::shared_ptr<const std::string>& plain_text();
  [[nodiscard]] std::int64_t pitch(const Contraction& gemm) const;  // of a repacked row, in elements
  void map(Kernel& k, const Address& address, DType type, std::vector<MapField::Dimension> dimensions,
           int row_bytes) const;
  void add_rows(Kernel& k) const;
  [[nodiscard]] const agreed::WindowRows* windows() const {
    return part_ ? &part_->a : std::get_if<agreed::WindowRows>(&layout_.a_rows);
  }
  [[nodiscard]] int a_form() const { return part_ ? 2 : static_cast<int>(layout_.a_rows.index()); }
  [[nodiscard]] const Counted* b_k() const { return part_ ? &part_->b_k : layout_.b_k ? &*layout_.b_k : nullptr; }
  // Of the product, or of one of its parts.
  [[nodiscard]] std::int64_t rows() const { return part_ ? part_->rows : shape_.m; }
  [[nodiscard]] std::int64_t depth() const { return part_ ? part_->k : layout_.packed_k ? layout_.packed_k : shape_.k; }
  [[nodiscard]] std::int64_t batches() const { return part_ ? 1 : shape_.batch; }
  [[nodiscard]] Shape product_shape() const;
  [[nodiscard]] std::string portable_reason(const Contraction& gemm) const;
  [[nodiscard]] const agreed::WindowRows* b_windows() const { return std::get_if<agreed::WindowRows>(&layout_.b_rows); }
  void map_a(Kernel& k, const Contraction& gemm) const;
  void map_pixels(Kernel& k, const agreed::WindowRows& w, DType type, const Address& from, int pixels) const;
  [[nodiscard]] agreed::Counting b_counting() const { return layout_.b_count ? *layout_.b_count : counting(b_k()); }
  [[nodiscard]] Address b_address(const Contraction& gemm) const;
  void map_b(Kernel& k, const Contraction& gemm) const;
  void map_scattered(Kernel& k, const Address& address, DType type, std::int64_t width, std::int64_t stride,
                     int row_bytes, int rows) const;
  void map_tile(Kernel& k, DType type, const Memory& memory, const lower::ColumnMap& columns, int rows) const;
  void emit_product();
  void emit_plain_product();
  void emit_repack();
  void emit_repack_images(DType type);
  void emit_compact();
  [[nodiscard]] std::int64_t packed_images() const {  // elements
    const agreed::WindowRows& w = b_windows() ? *b_windows() : *windows();
    return w.images * w.image_stride;
  }
  void emit_passes(bool before);
  void describe(Kernel& kernel, std::size_t first_word, const Memory& memory) const;

  const Subject& subject_;
  const Program& program_;
  const Layout& layout_;
  const Shape shape_;
  const Judge& judge_;
  const Program accumulator_program_;
  const int product_phase_;
  Decision d_;

  std::vector<Memory> memory_;  // of the Program's buffers
  std::vector<bool> lent_;      // outputs in whose memory a crossing lives

  bool stream_ = false;
  const KernelPart* part_ = nullptr;  // which of the layout's is decided on or emitted; none: it has none
  std::string rows_portable_;         // why A's rows take the portable kernel on Hopper
  std::int64_t columns_ = 0;          // of the fused phase
  std::optional<Product> product_;
  MainLoop loop_;
  Address packed_a_, packed_b_, packed_images_, padded_, accumulator_;
  std::vector<Address> packed_parts_;
  std::vector<Address> partials_;  // of the product's reductions
  Address counters_;               // of blocks, or of tile rows
  Address parts_[part_words];      // of split tiles, which meet in memory: accumulators, how many are there
  GenericSource generic_;
  std::shared_ptr<const std::string> generic_text_, plain_text_;
  std::vector<Pass> passes_;
  Address generic_partials_, generic_counters_;
};

void Decider::limits() const {
  const std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;
  if (shape_.m > most || shape_.n > most || shape_.k > most || shape_.batch > 65535) {
    throw Error(ErrorCode::size_overflow,
                "an extent is beyond what the GPU kernels index (2^30 rows, columns or K; 65535 batches)");
  }
}

// The output in whose memory a crossing can live until the phase that reads it makes the output of it, element by
// element; -1: none. A whole-row phase then moves half the bytes, and needs no workspace.
int Decider::home(BufferId crossing) const {
  const lower::Buffer& value = program_.buffers[crossing];
  if (value.kind != BufferKind::crossing || !(value.axes.has(Axis::m) && value.axes.has(Axis::n))) return -1;
  const Phase* reader = nullptr;
  for (const Phase& phase : program_.phases) {
    for (const auto& instruction : phase.code) {
      if (instruction.op != Op::operand || instruction.access.buffer != crossing) continue;
      if ((reader && reader != &phase) || !plain(instruction.access)) return -1;
      reader = &phase;
    }
    for (const auto& store : phase.stores) {
      if (store.access.buffer == crossing && !plain(store.access)) return -1;
    }
  }
  if (!reader || !reader->reductions.empty()) return -1;
  for (const auto& store : reader->stores) {
    const BufferId b = store.access.buffer;
    const lower::Buffer& output = program_.buffers[b];
    const bool read =
        std::any_of(program_.phases.begin(), program_.phases.end(), [&](const Phase& phase) { return phase.loads(b); });
    if (output.kind == BufferKind::output && output.dtype == value.dtype && output.axes == value.axes &&
        output.rows == value.rows && output.columns == value.columns && plain(store.access) && !read && !lent_[b] &&
        !in_place(b))
      return b;
  }
  return -1;
}

std::array<std::int64_t, 3> Decider::extents(const lower::Buffer& buffer) const {
  return {buffer.axes.has(Axis::b) ? shape_.batch : 1, buffer.axes.has(Axis::m) ? buffer.rows.at(shape_.m) : 1,
          buffer.axes.has(Axis::n) ? buffer.columns.at(shape_.n) : 1};
}

void Decider::memories() {
  memory_.resize(program_.buffers.size());
  lent_.resize(program_.buffers.size());
  for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
    const lower::Buffer& buffer = program_.buffers[i];
    Memory& m = memory_[i];
    if (buffer.kind == BufferKind::operand || buffer.kind == BufferKind::output) {
      const Placed& placed = layout_.buffers[i];
      m.address = {Address::Of::buffer, static_cast<int>(i)};
      if (placed.by_value) m.by_value = true;  // its bits are in the last stride: scalar_at in math.cu
      else m.alignment = placed.alignment, m.strides = placed.strides;
      continue;
    }
    if (const int b = home(static_cast<BufferId>(i)); b >= 0) {
      lent_[b] = true, m = memory_[b];
      continue;
    }
    const auto [batches, rows, columns] = extents(buffer);
    m.strides = {buffer.axes.has(Axis::b) ? rows * columns : 0, buffer.axes.has(Axis::m) ? columns : 0,
                 buffer.axes.has(Axis::n) ? 1 : 0};
    m.in_workspace = true;
  }
}

// Whether a phase's reductions give a buffer.
bool gives(const Phase& phase, BufferId buffer) {
  return std::any_of(phase.reductions.begin(), phase.reductions.end(), [&](const lower::Reduction& r) {
    return std::find(r.results.begin(), r.results.end(), buffer) != r.results.end();
  });
}

// Whether nothing but these phases, as far as they run there, makes a buffer or reads it.
bool Decider::only_in(BufferId buffer, const std::vector<RowPhase>& rows) const {
  for (int p = 0; p < static_cast<int>(program_.phases.size()); ++p) {
    const Phase& phase = program_.phases[p];
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const RowPhase& one) { return one.phase == p; });
    if (row == rows.end() && (phase.stores_to(buffer) || phase.loads(buffer))) return false;
    if ((row == rows.end() || !row->reductions) && gives(phase, buffer)) return false;
  }
  return true;
}

// What needs no memory: what a held tile or a row's threads keep, and statistics that only the product's kernel reads.
void Decider::find_what_stays() {
  std::vector<bool>& stays = d_.outline.stays;
  stays.resize(program_.buffers.size());
  for (std::size_t i = 0; i < stays.size(); ++i) {
    const auto b = static_cast<BufferId>(i);
    const BufferKind kind = program_.buffers[i].kind;
    const bool crossing = kind == BufferKind::crossing, statistic = kind == BufferKind::statistic;
    if (d_.fused) {
      const FusedEpilogue& e = product_->epilogue;
      const Phase& phase = program_.phases[e.phase];
      stays[i] = (crossing && e.held >= 0 && phase.stores_to(b)) || (statistic && gives(phase, b) && !e.read_later[i]);
    }
    for (const Pass& pass : passes_) {
      const std::vector<RowPhase>& rows = pass.kernel.run;
      stays[i] = stays[i] || ((crossing || statistic) && !rows.empty() && only_in(b, rows));
    }
  }
}

void Decider::place_workspace() {
  for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
    const lower::Buffer& buffer = program_.buffers[i];
    if (!memory_[i].in_workspace || d_.outline.stays[i]) continue;
    const auto [batches, rows, columns] = extents(buffer);
    memory_[i].address = take(batches * rows * columns * size_of(buffer.dtype));
  }
}

Decider::Major Decider::major(const Placed& o, DType dtype, int rows_axis, int k_axis, std::int64_t rows,
                              bool mn_allowed) const {
  const std::int64_t size = size_of(dtype), row = o.strides[rows_axis], k = o.strides[k_axis], batch = o.strides[0];
  if (o.alignment < 16 || (batch != 0 && !map_stride(batch, size, shape_.batch))) return Major::repack;
  if (k == 1 && map_stride(row, size, rows)) return Major::k;
  if (mn_allowed && row == 1 && map_stride(k, size, shape_.k)) return Major::mn;
  return Major::repack;
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
    // Rows of a residue are no stride apart: the copy engine writes them, or every thread its elements.
    if (part_ && buffer.axes.has(Axis::m) && !place.tensor_map) place = {};
  }
  return result;
}

// Whether a phase that is not over the product's tiles stores over an operand. In its place among the phases that is
// right (lower/in_place.h); in the product's launch it would come before others that read the operand.
bool Decider::in_order() const {
  const Phase& product = program_.phases[product_phase_];
  return std::any_of(program_.phases.begin(), program_.phases.end(), [&](const Phase& phase) {
    if (phase.domain == product.domain && phase.columns == product.columns) return false;
    return std::any_of(phase.stores.begin(), phase.stores.end(), [&](const lower::Store& store) {
      return program_.buffers[store.access.buffer].kind == BufferKind::output && in_place(store.access.buffer);
    });
  });
}

// How B of counted K can be read as it lies, by taps along three axes, backwards; none: not at all.
std::optional<Decider::Major> Decider::by_taps(const Contraction& gemm, bool mn_allowed) const {
  const std::int64_t size = size_of(gemm.b);
  if (!windows() || loop_.a_run != 128 || layout_.b.strides[0] != 0 || layout_.b.alignment < 16) return {};
  std::optional<Major> found;
  for (std::size_t i = 0; i < std::max<std::size_t>(1, layout_.parts.size()); ++i) {
    const Counted& k = layout_.parts.empty() ? *layout_.b_k : layout_.parts[i].b_k;
    const Counted::Axis& inner = k.k[3];
    const bool legal = std::all_of(k.k.begin(), k.k.begin() + 3, [&](const Counted::Axis& axis) {
      return axis.size == 1 || (axis.stride < 0 && axis.stride * size % 16 == 0);
    });
    if (!legal || inner.size != windows()->channels) return {};
    const Placed as_tap{{0, inner.stride, layout_.b.strides[2]}, layout_.b.alignment, false, false};
    const Major one = major(as_tap, gemm.b, 2, 1, shape_.n, size == 2 && mn_allowed);
    if (one == Major::repack) return {};
    found = one;
  }
  return found;
}

// The largest of the parts, which one schedule serves.
Shape Decider::product_shape() const {
  Shape shape = shape_;
  shape.k = depth();
  if (layout_.parts.empty()) return shape;
  shape.batch = 1, shape.m = shape.k = 1;
  for (const KernelPart& part : layout_.parts)
    shape.m = std::max(shape.m, part.rows), shape.k = std::max(shape.k, part.k);
  return shape;
}

// Why Hopper takes the portable kernel for how A and B lie.
std::string Decider::portable_reason(const Contraction& gemm) const {
  const std::int64_t size = size_of(gemm.a);
  for (const KernelPart& part : layout_.parts) {
    if (std::string why = portable_rows(part.a, layout_.a.alignment, size); !why.empty()) return why;
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

void Decider::arrange(const Contraction& gemm, bool mma, bool b_mn_allowed) {
  const bool two_bytes = size_of(gemm.a) == 2;
  loop_ = {.a = gemm.a, .b = gemm.b};
  loop_.a_form = a_form();
  loop_.scattered = part_ != nullptr;
  loop_.b_form = static_cast<int>(layout_.b_rows.index());
  if (const auto* w = windows()) {
    const PixelLoads loads = pixel_loads(*w, size_of(gemm.a));
    loop_.taps = w->taps, loop_.block_columns = w->block_columns;
    loop_.a_run = loads.run, loop_.a_depth = loads.depth, loop_.b_taps = loads.taps ? 1 : 0;
  }
  Major a = Major::k, b = Major::mn;
  if (loop_.a_form)
    loop_.a_chunks = part_ ? in_chunks(part_->a, layout_.a.alignment, size_of(gemm.a))
                           : in_chunks(layout_.a_rows, layout_.a.alignment, size_of(gemm.a));
  else a = layout_.a_k ? Major::repack : major(layout_.a, gemm.a, 1, 2, shape_.m, two_bytes);
  if (loop_.b_form) {
    loop_.b_chunks = in_chunks(layout_.b_rows, layout_.b.alignment, size_of(gemm.b));
    loop_.b_depth = pixel_loads(*b_windows(), size_of(gemm.b)).depth;
    loop_.taps = b_windows()->taps;
  } else if (layout_.b_count) {
    b = Major::repack;
  } else if (!b_k()) {
    b = major(layout_.b, gemm.b, 2, 1, shape_.n, two_bytes && b_mn_allowed);
  } else if (const auto tap = mma || !b_mn_allowed ? std::nullopt : by_taps(gemm, b_mn_allowed)) {
    b = *tap;
    loop_.b_taps = 2;
  } else {
    b = Major::repack;
  }
  loop_.a_mn_major = a == Major::mn, loop_.b_mn_major = b == Major::mn;
  d_.repack_a = a == Major::repack, d_.repack_b = b == Major::repack;
}

// The first phase on the product's fragments, or why not.
void Decider::fuse(const Contraction& gemm) {
  const Request& request = subject_.request;
  d_.why = request.through_memory ? "the schedule asks for it"
           : layout_.padded       ? "there are columns between those that are asked for"
                                  : not_fusable(program_, product_phase_);
  if (!d_.why.empty()) return;
  const Phase& phase = program_.phases[product_phase_];
  columns_ = phase.columns.at(shape_.n);
  const int parts = accumulator_parts(phase);
  d_.portable = rows_portable_;
  const bool mma = request.mma || !d_.portable.empty();
  if (parts == 2 && (b_windows() || layout_.diagonal)) {
    d_.why = b_windows() ? "the columns of a chunk's halves are windows" : "a chunk's halves are of other groups";
    return;
  }
  if (part_ && !layout_.one) {
    d_.why = "residues cross images, which the epilogue tells apart";
    return;
  }
  // Of a half of B along N the portable kernel reads eight columns at once, Hopper's boxes have 64 of a group's half,
  // and none may begin between 16 bytes: the device calls that an illegal instruction.
  arrange(gemm, mma, parts == 1 || (columns_ % 8 == 0 && (mma || accumulator_half(phase) % 64 == 0)));
  // Addresses of outputs and operands decide how they are reached; those of the workspace are aligned.
  Chosen chosen = choose_product({program_, product_phase_, loop_, mma, places(program_, memory_, columns_),
                                  product_shape(), columns_, in_order(), request.schedule, subject_.multiprocessors},
                                 judge_);
  product_ = std::move(chosen.product);
  if (part_ && product_ && product_->epilogue.across_tiles()) {
    product_.reset();
    chosen.why = "its reductions cross the launches of the residues";
  }
  d_.fused = product_.has_value();
  (d_.fused ? d_.considered : d_.not_fused) = std::move(chosen.considered);
  d_.why = std::move(chosen.why);
}

// The accumulator alone, into the workspace.
void Decider::multiply_alone(const Contraction& gemm) {
  const Request& request = subject_.request;
  columns_ = layout_.padded ? layout_.padded->padded : shape_.n;
  d_.portable = rows_portable_;
  arrange(gemm, request.mma || !rows_portable_.empty(), true);
  // Rows of whole 16 bytes, so that the copy engine can write them.
  const bool whole = columns_ % 4 == 0, side_by_side = whole || !part_;
  const BufferPlace place{.tensor_map = whole, .unit = side_by_side, .pair = side_by_side && columns_ % 2 == 0};
  Chosen chosen = choose_product({accumulator_program_,
                                  0,
                                  loop_,
                                  request.mma || !rows_portable_.empty(),
                                  {place},
                                  product_shape(),
                                  columns_,
                                  false,
                                  request.through_memory ? request.schedule : std::optional<Schedule>(),
                                  subject_.multiprocessors},
                                 judge_);
  product_ = std::move(chosen.product);
  d_.considered = std::move(chosen.considered);
  if (!product_) throw Error(ErrorCode::internal, "no schedule of the plain product compiles");
}

// How the accumulator is made and whether the first phase runs on it.
void Decider::decide_product() {
  const std::optional<Contraction> gemm = subject_.problem.loop().contraction();
  stream_ = !gemm;
  if (!gemm) {
    d_.why = "a stream has no product";
    return;
  }
  const bool reads =
      std::any_of(program_.phases.begin(), program_.phases.end(), [](const Phase& p) { return p.reads_accumulator(); });
  if (product_phase_ < 0) {
    d_.why = "no phase reads the accumulator";
  } else if (layout_.groups.count > 1) {
    d_.why = "groups of channels are multiplied on ordinary units";
  } else if (b_windows() && size_of(gemm->b) != 2) {
    d_.why = "tensor cores read windows along N of 16-bit types only";
  } else if (!on_tensor_cores(gemm->a, gemm->b, subject_.arch)) {
    d_.why = "the tensor cores of " + subject_.arch + " do not multiply these types exactly enough";
  } else if (shape_.batch > 0 && shape_.m > 0 && shape_.n > 0 && shape_.k > 0) {
    if (!layout_.parts.empty()) part_ = layout_.parts.data();
    if (!subject_.request.mma) rows_portable_ = portable_reason(*gemm);
    if (!rows_portable_.empty() && subject_.request.schedule) {
      throw Error(ErrorCode::bad_schedule,
                  "the schedule \"" + to_string(*subject_.request.schedule) + "\" is not legal here: " + rows_portable_,
                  "begin it with mma, or leave the choice to the heuristic");
    }
    fuse(*gemm);
    if (!d_.fused) multiply_alone(*gemm);
    d_.product = true;
    const auto bytes = [&] { return pitch(*gemm) * size_of(gemm->a); };
    const auto batches = [&](const Placed& o) { return o.strides[0] == 0 ? 1 : shape_.batch; };
    d_.repack_images = layout_.images.has_value();
    if (d_.repack_images) packed_images_ = take(packed_images() * size_of(gemm->a));
    if (const auto& padded = layout_.padded) padded_ = take(shape_.m * padded->padded * 4);
    if (d_.repack_a) packed_a_ = take(batches(layout_.a) * shape_.m * bytes());
    if (d_.repack_b && !part_) packed_b_ = take(batches(layout_.b) * shape_.n * bytes());
    for (std::size_t i = 0; d_.repack_b && i < layout_.parts.size(); ++i) {
      part_ = &layout_.parts[i];
      packed_parts_.push_back(take(shape_.n * std::max<std::int64_t>(16, bytes())));
    }
  } else {
    d_.why = "there is no K";
  }
  if (!d_.fused && reads) accumulator_ = take(shape_.batch * shape_.m * shape_.n * 4);
  if (product_) take_partials();
}

// What the product's kernel is told of its size.
agreed::GemmSizes Decider::sizes() const {
  const EpilogueNeeds& needs = product_->epilogue.needs;
  const Schedule& s = product_->schedule;
  agreed::GemmSizes g{};
  g.m = small(rows()), g.n = small(columns_), g.batch = small(batches());
  g.tiles_m = small(ceil_div(rows(), s.bm));
  g.tiles_n = small(ceil_div(columns_, consumer_columns(s) / needs.parts));
  g.tiles = g.tiles_m * small(ceil_div(columns_, s.bn / needs.parts) * batches());
  g.raster = s.raster, g.parts = s.split;
  const std::int64_t bk = k_bytes(s) / size_of(loop_.a);
  g.k_blocks =
      small(loop_.b_taps && !s.mma ? windows()->taps * ceil_div(windows()->channels, bk) : ceil_div(depth(), bk));
  if (part_ && part_->a.taps == 0) g.k_blocks = s.mma ? 0 : 1;  // of zeros
  g.a_batch = layout_.a.strides[0] != 0, g.b_batch = layout_.b.strides[0] != 0;
  return g;
}

void Decider::take_partials() {
  const FusedEpilogue& e = product_->epilogue;
  const Schedule& s = product_->schedule;
  const std::int64_t tiles_m = ceil_div(shape_.m, s.bm),
                     tiles_n = ceil_div(columns_, consumer_columns(s) / e.needs.parts);
  if (tiles_m * tiles_n * shape_.batch > std::numeric_limits<std::int32_t>::max() / 2) {
    throw Error(ErrorCode::size_overflow, "the product has too many tiles");
  }
  const agreed::GemmSizes g = sizes();
  const int slots = g.tiles_m * (s.bm / consumer_rows(s)), end = g.batch;
  if (s.by_memory) {
    const std::int64_t bytes = std::int64_t{4} * s.split * g.tiles * s.bm * s.bn;
    parts_[0] = take(bytes), parts_[1] = take_cleared(std::int64_t{4} * g.tiles * (s.ping_pong ? 1 : 2));
    beside("parts of tiles", bytes / s.split * (s.split - 1), bytes / s.split * (s.split - 1));
  }
  if (e.across_tiles()) counters_ = take_cleared(e.needs.holds ? 4 * subject_.multiprocessors : 4);
  for (const auto& partial : e.partials) {
    if (partial.word < 0) {
      partials_.emplace_back();
      continue;
    }
    // What lies behind the last state is their number. Tiles that are held tell theirs, and what is folded of a row,
    // beside tags of the same size (device/reduce.cu).
    const std::int64_t states = e.needs.holds                       ? 2 * folded_index(g, end, 0)
                                : partial.across == Across::rows    ? row_partial(g, end, 0, 0)
                                : partial.across == Across::columns ? column_partial(g, slots, end, 0, 0)
                                                                    : tile_partial(g, slots, end, 0, 0);
    beside("partial results", states * partial.bytes, states * partial.bytes);
    partials_.push_back(e.needs.holds ? take_cleared(states * partial.bytes) : take(states * partial.bytes));
  }
}

// What can be read eight columns at a time.
Wide Decider::wide(const std::vector<int>& phases) const {
  const auto reaches = [](const Memory& m, DType type) {
    return vector_type(type) && m.alignment >= 16 && m.strides[2] == 1 && m.strides[0] % 8 == 0 &&
           m.strides[1] % 8 == 0;
  };
  Wide vectors;
  vectors.source = source_type();
  for (const Phase& phase : program_.phases)
    vectors.columns.push_back(phase.domain.has(Axis::n) ? phase.columns.at(shape_.n) : 1);
  const bool eights = std::all_of(phases.begin(), phases.end(), [&](int p) {
    return !program_.phases[p].domain.has(Axis::n) || vectors.columns[p] % 8 == 0;
  });
  for (std::size_t b = 0; b < memory_.size(); ++b)
    vectors.buffers.push_back(eights && !memory_[b].by_value && reaches(memory_[b], program_.buffers[b].dtype));
  vectors.accumulator = eights && reaches(accumulator_memory(), vectors.source);
  return vectors;
}

DType Decider::source_type() const {
  const auto source = facts_of(subject_.problem).source;
  return source ? source->dtype : program_.accumulator;
}

// What phases read from memory as `acc`.
Decider::Memory Decider::accumulator_memory() const {
  if (stream_) return {{Address::Of::a}, layout_.a.alignment, layout_.a.strides};
  return {accumulator_, 16, {shape_.m * shape_.n, shape_.n, 1}};
}

// The grid of a reduction, and what its blocks leave for each other.
void Decider::shape_reduction(Pass& pass, std::int64_t (&grid)[3], PassMemory& memory) const {
  const GenericKernel& kernel = pass.kernel;
  const Phase& phase = program_.phases[kernel.phase];
  const lower::Reduction& r = phase.reductions[kernel.reduction];
  const bool over_m = r.axes.has(Axis::m), over_n = r.axes.has(Axis::n), over_b = r.axes.has(Axis::b);
  std::int64_t groups = 1;
  for (const BufferId b : r.results) {
    if (r.group && b >= 0)
      groups = over_n ? program_.buffers[b].columns.at(shape_.n) : program_.buffers[b].rows.at(shape_.m);
  }
  pass.groups = static_cast<int>(groups);
  const std::int64_t batches = over_b || !phase.batched ? 1 : shape_.batch;
  std::int64_t states = 0, counters = 0;
  if (kernel.by_columns) {
    if (over_m && !r.group) pass.splits = static_cast<int>(std::clamp<std::int64_t>(pass.rows / 256, 1, 64));
    grid[0] = ceil_div(pass.columns, 32), grid[1] = over_m ? pass.splits : pass.rows;
    grid[2] = static_cast<std::int64_t>(r.pieces.size()) * batches * groups;
    states = grid[2] * pass.splits * pass.columns;
    counters = grid[2] * grid[0];
  } else {
    const bool keeps_row = phase.domain.has(Axis::m) && !over_m;
    const std::int64_t results = batches * (keeps_row ? pass.rows : 1) * groups;
    const std::int64_t elements = (keeps_row ? 1 : pass.rows) * pass.columns * (over_b ? shape_.batch : 1) / groups;
    if (results)
      pass.splits = static_cast<int>(std::clamp<std::int64_t>(std::min(elements / 8192, 1056 / results), 1, 1024));
    grid[0] = results, grid[1] = pass.splits;
    states = results * pass.splits;
    counters = results;
  }
  memory.partial_bytes = std::max(memory.partial_bytes, states * kernel.state_bytes);
  memory.counters = std::max(memory.counters, counters);
}

void Decider::decide_passes() {
  std::vector<int> phases;
  for (int p = 0; p < static_cast<int>(program_.phases.size()); ++p) {
    if (!d_.fused || !product_->epilogue.runs(p)) phases.push_back(p);
  }
  if (phases.empty()) return;
  generic_ = emit_generic(program_, phases, wide(phases));
  generic_text_ = std::make_shared<const std::string>(std::move(generic_.text));
  PassMemory memory;
  for (const GenericKernel& kernel : generic_.kernels) {
    const Phase& phase = program_.phases[kernel.phase];
    Pass pass{kernel, phase.domain.has(Axis::m) ? phase.rows.at(shape_.m) : 1,
              phase.domain.has(Axis::n) ? phase.columns.at(shape_.n) : 1};
    const std::int64_t batches = phase.batched ? shape_.batch : 1;
    std::int64_t grid[3] = {1, 1, 1};
    if (kernel.rows) {
      grid[0] = ceil_div(pass.rows, kernel.rows->block() / kernel.rows->threads) * kernel.rows->blocks_n;
      grid[2] = batches;
    } else if (kernel.reduction < 0) {
      std::int64_t outer = pass.rows, inner = pass.columns;
      if (!phase.domain.has(Axis::n)) std::swap(outer, inner);  // threads run along rows
      grid[0] = ceil_div(inner, 256), grid[1] = std::min<std::int64_t>(outer, 65535),
      grid[2] = std::min<std::int64_t>(batches, 65535);
    } else {
      shape_reduction(pass, grid, memory);
    }
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) continue;
    if (grid[0] > std::numeric_limits<std::int32_t>::max() || grid[1] > 65535 || grid[2] > 65535) {
      throw Error(ErrorCode::unsupported, "a reduction of this shape needs more blocks than a GPU launches",
                  "reduce over fewer batches or larger groups, or use the CPU target");
    }
    std::transform(grid, grid + 3, pass.grid.begin(), [](std::int64_t g) { return static_cast<unsigned>(g); });
    passes_.push_back(pass);
  }
  if (memory.counters) generic_counters_ = take_cleared(4 * memory.counters);
  generic_partials_ = take(memory.partial_bytes);
  d_.passes = static_cast<int>(passes_.size());
}

// Which phase runs where.
void Decider::place_phases() {
  for (int p = 0; p < static_cast<int>(program_.phases.size()); ++p) {
    Where where = Where::memory;
    if (d_.fused) {
      const FusedEpilogue& e = product_->epilogue;
      if (p == e.phase) where = Where::fragments;
      else if (p == e.held) where = Where::held;
      else if (e.runs(p)) where = across_of(program_.phases[p]) == Across::groups ? Where::grouped : Where::folded;
    }
    d_.phases.push_back(where);
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
  if (size_of(gemm->a) == 2) return {.unit = 0x1p-23, .drift = 2 * 0x1p-23 / 16};
  if (!is_float(gemm->a)) return {.unit = 0x1p-23};
  const std::int64_t promoted = product_->schedule.mma ? 0 : promotes(gemm->a) * k_bytes(product_->schedule);
  return {.unit = 0x1p-13, .drift = 16 * 0x1p-13 / 32, .promoted = promoted};
}

void Decider::beside(const std::string& what, std::int64_t read, std::int64_t written) {
  auto& all = d_.outline.beside;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.what == what; });
  Outline::Beside& one = found == all.end() ? all.emplace_back() : *found;
  one.what = what;
  one.traffic += {static_cast<double>(read), static_cast<double>(written)};
}

// The phases of the product's kernel, as they run there.
void Decider::count_product(std::vector<Traffic>& phases) const {
  const FusedEpilogue& e = product_->epilogue;
  plan::KernelTraffic traffic(program_, shape_, d_.outline.stays);
  const auto add = [&](int p, const Phase& as_run) {
    traffic.loads(as_run);
    traffic.stores(as_run);
    for (const lower::Reduction& r : as_run.reductions) traffic.results(r);
    phases[p] += traffic.take();
  };
  add(e.phase, e.held >= 0 ? *e.phases[0] : program_.phases[e.phase]);
  for (const int p : e.finished) add(p, program_.phases[p]);
  if (e.held >= 0) add(e.held, *e.phases[1]);
}

void Decider::count_pass(const GenericKernel& kernel, plan::KernelTraffic& traffic,
                         std::vector<Traffic>& phases) const {
  const auto part = [&](int p, bool stores, std::size_t first, std::size_t end) {
    const Phase& phase = program_.phases[p];
    std::vector<lower::ValueId> wanted;
    if (stores) wanted = sinks(phase, true, false);
    for (std::size_t r = first; r < end; ++r) {
      for (const auto& piece : phase.reductions[r].pieces)
        wanted.insert(wanted.end(), piece.args.begin(), piece.args.end());
    }
    traffic.loads(phase, needed(phase, wanted));
    if (stores) traffic.stores(phase);
    for (std::size_t r = first; r < end; ++r) traffic.results(phase.reductions[r]);
    phases[p] += traffic.take();
  };
  const auto r = static_cast<std::size_t>(kernel.reduction);
  if (kernel.rows) {
    for (const RowPhase& row : kernel.run)
      part(row.phase, true, 0, row.reductions ? program_.phases[row.phase].reductions.size() : 0);
  } else if (kernel.reduction >= 0) {
    part(kernel.phase, false, r, r + 1);
  } else {
    part(kernel.phase, true, 0, 0);
  }
}

void Decider::count_traffic() {
  std::vector<Traffic>& phases = d_.outline.phases;
  phases.resize(program_.phases.size());
  if (d_.fused) count_product(phases);
  const auto a = static_cast<double>(size_of(source_type()));
  bool streamed = !stream_;  // the first kernel that reads X is the main loop
  for (const Pass& pass : passes_) {
    plan::KernelTraffic traffic(program_, shape_, d_.outline.stays, streamed ? a : 0);
    count_pass(pass.kernel, traffic, phases);
    streamed = streamed || traffic.read_accumulator();
  }
  const std::optional<Contraction> gemm = subject_.problem.loop().contraction();
  if (!gemm) return;
  if (!d_.fused && product_phase_ >= 0) beside("the accumulator", 0, shape_.batch * shape_.m * shape_.n * 4);
  const auto repack = [&](const std::string& what, const Placed& from, DType type, std::int64_t rows) {
    const std::int64_t all = (from.strides[0] ? shape_.batch : 1) * rows;
    beside(what, all * shape_.k * size_of(type), all * pitch(*gemm) * size_of(type));
  };
  if (const auto& x = layout_.images) {
    const std::int64_t pixels = std::int64_t{x->images} * x->extent[0] * x->extent[1], size = size_of(gemm->a);
    beside("images repacked", pixels * x->extent[2] * x->channels * size, pixels * x->columns * x->packed * size);
  }
  if (d_.repack_a) repack("A repacked", layout_.a, gemm->a, shape_.m);
  if (d_.repack_b && !part_) repack("B repacked", layout_.b, gemm->b, shape_.n);
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
        product_source(gemm.a, gemm.b, a_form(), static_cast<int>(layout_.b_rows.index()), part_ != nullptr));
  return plain_text_;
}

void Decider::emit_repack_images(DType type) {
  agreed::UnpackedImages x = *layout_.images;
  Kernel& k = kernel(plain_text(), "postlude_repack_images");
  const std::int64_t chunks = packed_images() * size_of(type) / 16;
  k.grid = {static_cast<unsigned>(ceil_div(chunks, 256)), 1, 1};
  k.addresses = {{offsetof(agreed::UnpackedImages, from) / 8, {b_windows() ? Address::Of::b : Address::Of::a}},
                 {offsetof(agreed::UnpackedImages, to) / 8, packed_images_}};
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

void Decider::emit_repack() {
  if ((!d_.repack_a && !d_.repack_b) || depth() == 0) return;
  const Contraction gemm = subject_.problem.loop().contraction().value();
  using agreed::Unpacked;
  Unpacked matrices[2] = {};
  constexpr std::size_t words = sizeof(Unpacked) / 8, to_word = offsetof(Unpacked, to) / 8;
  constexpr std::int64_t span = 512;
  Kernel& k = kernel(plain_text(), "postlude_repack");
  std::int64_t blocks = 1, batches = 0;
  const auto add = [&](std::size_t i, Address::Of of, const Placed& from, int rows_axis, int k_axis, std::int64_t rows,
                       const Address& to) {
    Unpacked& m = matrices[i];
    m = {0,
         from.strides[0],
         from.strides[rows_axis],
         from.strides[k_axis],
         0,
         static_cast<std::int32_t>(rows),
         static_cast<std::int32_t>(depth()),
         static_cast<std::int32_t>(pitch(gemm)),
         static_cast<std::int32_t>(from.strides[0] == 0 ? 1 : shape_.batch),
         of == Address::Of::b ? b_counting() : counting(layout_.a_k ? &*layout_.a_k : nullptr),
         0,
         0,
         0,
         0,
         0};
    if (const auto& diagonal = layout_.diagonal; diagonal && of == Address::Of::b) {
      m.group_stride = diagonal->group_stride, m.group_rows = diagonal->group_rows;
      m.group_columns = diagonal->group_columns, m.block_groups = diagonal->block_groups;
    }
    k.addresses.push_back({i * words, of == Address::Of::b ? b_address(gemm) : Address{of}});
    k.addresses.push_back({i * words + to_word, to});
    blocks = std::max(blocks, ceil_div(rows, m.column_stride == 1 ? 8 : 32));
    batches += m.batches;
  };
  if (d_.repack_a) add(0, Address::Of::a, layout_.a, 1, 2, shape_.m, packed_a_);
  if (d_.repack_b) add(1, Address::Of::b, layout_.b, 2, 1, shape_.n, packed_b_);
  k.grid = {static_cast<unsigned>(ceil_div(pitch(gemm), span)),
            static_cast<unsigned>(std::min<std::int64_t>(blocks, 65535)),
            static_cast<unsigned>(std::min<std::int64_t>(batches, 65535))};
  k.block.resize(sizeof matrices / 8);
  std::memcpy(k.block.data(), matrices, sizeof matrices);
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
    const std::size_t at = k.block.size();
    k.block.resize(at + sizeof part_->scatter / 8);
    std::memcpy(&k.block[at], &part_->scatter, sizeof part_->scatter);
    return;
  }
  std::visit(add, layout_.a_rows);
  std::visit(add, layout_.b_rows);
}

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

std::int64_t Decider::pitch(const Contraction& gemm) const {
  return round_up(depth() * size_of(gemm.a), 16) / size_of(gemm.a);
}

void Decider::map_a(Kernel& k, const Contraction& gemm) const {
  const int bk = static_cast<int>(k_bytes(product_->schedule) / size_of(gemm.a));
  if (const auto* w = windows(); w && !product_->schedule.mma) {
    map_pixels(k, *w, gemm.a, layout_.images ? packed_images_ : Address{Address::Of::a}, product_->schedule.bm);
    return;
  }
  const Address from = d_.repack_a ? packed_a_ : Address{Address::Of::a};
  const std::int64_t row = d_.repack_a ? pitch(gemm) : layout_.a.strides[1],
                     batch = d_.repack_a ? shape_.m * pitch(gemm) : layout_.a.strides[0];
  const MapField::Dimension batches{layout_.a.strides[0] ? shape_.batch : 1, batch, 1};
  if (loop_.a_mn_major) map(k, from, gemm.a, {{shape_.m, 1, 64}, {shape_.k, layout_.a.strides[2], bk}, batches}, 128);
  else
    map(k, from, gemm.a,
        {{shape_.k, 1, bk}, {shape_.m, row, a_rows(product_->schedule, product_->epilogue.needs)}, batches}, 128);
}

// X, of which the copy engine loads so many pixels at a time.
void Decider::map_pixels(Kernel& k, const agreed::WindowRows& w, DType type, const Address& from, int pixels) const {
  const PixelLoads loads = pixel_loads(w, size_of(type));
  std::vector<MapField::Dimension> dimensions{{w.all_channels, 1, 1}};
  for (std::size_t i = 0; i < (loads.depth ? 3 : 2); ++i)
    dimensions.push_back({w.axis[2 - i].extent, w.axis[2 - i].stride, 1});
  dimensions.push_back({w.images, w.image_stride, 1});
  const auto at = k.block.size();
  k.block.resize(at + map_words);
  k.maps.push_back(
      {at, from, type, std::move(dimensions), loads.run,
       MapField::Pixels{static_cast<int>(loads.run / size_of(type)), pixels, loads.lower, loads.upper, loads.step}});
}

Address Decider::b_address(const Contraction& gemm) const {
  return {Address::Of::b, 0, part_ ? part_->b_first * size_of(gemm.b) : 0};
}

void Decider::map_b(Kernel& k, const Contraction& gemm) const {
  const Schedule& s = product_->schedule;
  const int bk = static_cast<int>(k_bytes(s) / size_of(gemm.a));
  if (const auto* w = b_windows(); w && !s.mma) {
    map_pixels(k, *w, gemm.b, layout_.images ? packed_images_ : Address{Address::Of::b}, bk);
    return;
  }
  Address from = d_.repack_b ? packed_b_ : b_address(gemm);
  const std::int64_t row = d_.repack_b ? pitch(gemm) : layout_.b.strides[2],
                     batch = d_.repack_b ? shape_.n * pitch(gemm) : layout_.b.strides[0];
  MapField::Dimension batches{layout_.b.strides[0] ? shape_.batch : 1, batch, 1};
  std::int64_t depth = this->depth(), column = layout_.b.strides[1];  // of K, and the stride from one to the next
  if (loop_.b_taps == 1 && !s.mma) {
    // A tap stands for a batch: B is shared by all images.
    depth = windows()->channels;
    batches = {windows()->taps, d_.repack_b ? depth : depth * column, 1};
  }
  if (loop_.b_taps == 2 && !s.mma) {
    const auto& axis = b_k()->k;
    std::vector<MapField::Dimension> dimensions{{axis[3].size, axis[3].stride, bk},
                                                {shape_.n, row, b_run(s, product_->epilogue.needs)}};
    if (loop_.b_mn_major) std::swap(dimensions[0], dimensions[1]), dimensions[0].box = 64;
    for (std::size_t i = 3; i-- > 0;) {  // from the last tap on
      from.offset += (axis[i].size - 1) * axis[i].stride * size_of(gemm.b);
      dimensions.push_back({axis[i].size, -axis[i].stride, 1});
    }
    map(k, from, gemm.b, dimensions, 128);
    return;
  }
  const MapField::Dimension along_k{depth, 1, bk};
  if (loop_.b_mn_major) {
    map(k, from, gemm.b, {{shape_.n, 1, 64}, {depth, column, bk}, batches}, 128);
  } else {
    map(k, from, gemm.b, {along_k, {shape_.n, row, b_run(s, product_->epilogue.needs)}, batches}, 128);
  }
}

// Rows of a residue as pixels that the copy engine walks.
void Decider::map_scattered(Kernel& k, const Address& address, DType type, std::int64_t width, std::int64_t stride,
                            int row_bytes, int rows) const {
  const auto& axes = part_->scatter.axis;
  const std::size_t spatial = loop_.a_depth ? 3 : 2;
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
  // A half of all columns is a tensor of its own, so that its last subtile ends where it does; groups lie in the whole.
  const bool halved = !columns.steps.empty() && columns.steps[0].group == 0,
             grouped = !columns.steps.empty() && !halved;
  Address address = memory.address;
  if (halved) address.offset += columns.steps[0].piece * columns_ * bytes;
  const std::int64_t width = columns_ * (grouped ? columns.steps[0].pieces : 1);
  const int row_bytes = static_cast<int>(std::min<std::int64_t>(128, product_->schedule.sub_n * bytes));
  if (part_ && !product_->schedule.mma) {
    map_scattered(k, address, type, width, memory.strides[1], row_bytes, rows);
    return;
  }
  map(k, address, type,
      {{width, 1, static_cast<int>(row_bytes / bytes)},
       {this->rows(), memory.strides[1], rows},
       {memory.strides[0] ? shape_.batch : 1, memory.strides[0], 1}},
      row_bytes);
}

void Decider::emit_product() {
  const FusedEpilogue& e = product_->epilogue;
  const Schedule& s = product_->schedule;
  const Contraction gemm = subject_.problem.loop().contraction().value();
  emit_repack();
  if (layout_.images) emit_repack_images(gemm.a);
  Kernel& k = kernel(product_->source, "postlude_gemm");
  map_a(k, gemm);
  map_b(k, gemm);
  const Program& program = d_.fused ? program_ : accumulator_program_;
  Memory accumulator = accumulator_memory();
  if (const auto& padded = layout_.padded) accumulator = {padded_, 16, {shape_.m * padded->padded, padded->padded, 1}};
  const std::vector<Memory> alone{accumulator}, &memory = d_.fused ? memory_ : alone;
  // A consumer's four warps load a subtile together; each stores its own rows of one.
  for (std::size_t i = 0; i < e.columns.size(); ++i) {
    const bool loaded = i < e.loaded.size();
    const BufferId b = loaded ? e.loaded[i] : e.stored[i - e.loaded.size()];
    map_tile(k, program.buffers[b].dtype, memory[b], e.columns[i], loaded ? 64 : 16);
  }
  const agreed::GemmSizes g = sizes();
  const std::size_t integers = k.block.size(), words = integers + sizeof g / 8;
  k.block.resize(words + static_cast<std::size_t>(std::max(1, e.words + (s.by_memory ? part_words : 0))));
  add_rows(k);
  k.block.resize(agreed::params_bytes(0, static_cast<int>(k.block.size() - sizeof g / 8)) / 8);
  std::memcpy(k.block.data() + integers, &g, sizeof g);
  k.block[words + e.columns_word] = word(shape_.n);
  for (std::size_t b = 0; b < e.word_of.size(); ++b) {
    if (e.word_of[b] >= 0) describe(k, words + e.word_of[b], memory[b]);
  }
  for (std::size_t r = 0; r < e.partials.size(); ++r) {
    if (e.partials[r].word >= 0) k.addresses.push_back({words + e.partials[r].word, partials_[r]});
  }
  if (e.across_tiles()) k.addresses.push_back({words + e.counters_word, counters_});
  for (std::size_t i = 0; s.by_memory && i < part_words; ++i) k.addresses.push_back({words + e.words + i, parts_[i]});
  k.shared = shared_bytes(s, e.needs);
  k.threads = static_cast<unsigned>(threads(s));
  k.cooperative = !s.mma && (e.across_tiles() || s.by_memory);  // blocks wait for each other
  k.grid[0] = static_cast<unsigned>(blocks(s, e.needs, {g.tiles, g.tiles_n}, subject_.multiprocessors));
  if (layout_.padded) {
    emit_compact();
    return;
  }
  if (e.across_tiles() && s.mma) {
    Kernel finish = k;
    finish.name = "postlude_finish", finish.shared = e.finish_bytes, finish.threads = 256;
    const std::int64_t blocks = (e.finishes[0] ? ceil_div(shape_.m, 32) : 0) +
                                (e.finishes[1] ? ceil_div(columns_, 32) : 0) + (e.finishes[2] ? 1 : 0);
    finish.grid[0] = static_cast<unsigned>(blocks * shape_.batch);
    d_.kernels.push_back(std::move(finish));
  }
}

// The accumulator on the ordinary units.
void Decider::emit_plain_product() {
  d_.on_ordinary_units = true;
  Kernel& k = kernel(plain_text(), "postlude_product");
  const Groups& groups = layout_.groups;
  const std::int64_t groups_m = groups.along == Groups::Along::m ? groups.count : 1, groups_n = groups.count / groups_m;
  const std::int64_t grid[3] = {groups_m * ceil_div(rows() / groups_m, 64),
                                groups_n * ceil_div(shape_.n / groups_n, 64), batches()};
  if (grid[1] > 65535)
    throw Error(ErrorCode::unsupported, "N is too large for the portable product on a GPU",
                "split the columns over several calls");
  std::transform(grid, grid + 3, k.grid.begin(), [](std::int64_t g) { return static_cast<unsigned>(g); });
  const auto &a = layout_.a.strides, &b = layout_.b.strides;
  using agreed::Product;
  const Product p{0,
                  a[0],
                  a[1],
                  a[2],
                  0,
                  b[0],
                  b[1],
                  b[2],
                  0,
                  static_cast<int>(rows()),
                  static_cast<int>(shape_.n),
                  static_cast<int>(depth()),
                  static_cast<int>(groups_m),
                  static_cast<int>(groups_n),
                  0,
                  groups.a_stride,
                  groups.b_stride,
                  counting(layout_.a_k ? &*layout_.a_k : nullptr),
                  counting(b_k())};
  k.block.resize(sizeof p / 8);
  std::memcpy(k.block.data(), &p, sizeof p);
  k.addresses = {{offsetof(Product, a) / 8, {Address::Of::a}},
                 {offsetof(Product, b) / 8, b_address(*subject_.problem.loop().contraction())},
                 {offsetof(Product, acc) / 8, accumulator_}};
  add_rows(k);
}

void Decider::emit_passes(bool before) {
  for (const Pass& pass : passes_) {
    if (before != (d_.fused && pass.kernel.phase < product_phase_)) continue;
    Kernel& k = kernel(generic_text_, pass.kernel.name);
    // Of all kernels: the shape, then the words.
    const agreed::PassSizes head{static_cast<int>(shape_.batch), static_cast<int>(shape_.m), static_cast<int>(shape_.n),
                                 0};
    constexpr std::size_t first = sizeof head / 8;
    k.block.resize(first + static_cast<std::size_t>(generic_.words));
    std::memcpy(k.block.data(), &head, sizeof head);
    for (std::size_t b = 0; b < memory_.size(); ++b) {
      if (!d_.outline.stays[b]) describe(k, first + 4 * b, memory_[b]);
    }
    describe(k, first + generic_.accumulator_word, accumulator_memory());
    k.addresses.push_back({first + generic_.partials_word, generic_partials_});
    k.addresses.push_back({first + generic_.counters_word, generic_counters_});
    k.grid = pass.grid;
    if (pass.kernel.rows) k.threads = static_cast<unsigned>(pass.kernel.rows->block());
    k.integers = {static_cast<std::int32_t>(pass.rows), static_cast<std::int32_t>(pass.columns)};
    if (pass.kernel.reduction >= 0) k.integers.insert(k.integers.end(), {pass.splits, pass.groups});
  }
}

Decision Decider::run() {
  limits();
  memories();
  decide_product();
  decide_passes();
  find_what_stays();
  place_workspace();
  place_phases();
  count_traffic();
  d_.error = error();
  emit_passes(true);
  const bool plain = !product_ && !stream_ && product_phase_ >= 0 && shape_.batch > 0 && shape_.m > 0 && shape_.n > 0;
  for (std::size_t i = 0; i < std::max<std::size_t>(1, layout_.parts.size()); ++i) {
    if (!layout_.parts.empty()) part_ = &layout_.parts[i];
    if (!packed_parts_.empty()) packed_b_ = packed_parts_[i];
    if (product_) emit_product();
    else if (plain) emit_plain_product();
  }
  emit_passes(false);
  return std::move(d_);
}

}  // namespace

Decision decide(const Subject& subject, const Layout& layout, const Judge& judge) {
  const std::optional<Layout> one = folded(subject, layout);
  Layout chosen = one ? *one : layout;
  // A strided data gradient that has no residue: no tap touches a pixel, and the accumulator is zeros.
  const std::optional<Contraction> gemm = subject.problem.loop().contraction();
  if (gemm && gemm->parts && layout.parts.empty() && std::holds_alternative<std::monostate>(layout.a_rows))
    chosen.shape.k = 0;
  if (std::optional<Layout> dense = together(subject, chosen)) chosen = *std::move(dense);
  if (std::optional<Layout> copied = packed(subject, chosen)) chosen = *std::move(copied);
  Decision decision = Decider(subject, chosen, judge).run();
  decision.folded = one && layout.shape.batch > 1;
  return decision;
}

}  // namespace postlude::inline v0::cuda
