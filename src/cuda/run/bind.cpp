// Which kernels a Program becomes for given shapes and strides, their parameters and workspace. It is longer than most
// because the parameters' layout is one thing said once.
#include "core/divide.h"
#include "cuda/emit/generic.h"
#include "cuda/executable.h"
#include "cuda/run/driver.h"

#include <postlude/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

namespace postlude::inline v0::cuda {

using lower::BufferId;
using lower::BufferKind;
using lower::Phase;
using lower::Program;

namespace {

constexpr std::int64_t largest_stride = std::int64_t{1} << 40;

bool map_stride(std::int64_t stride, std::int64_t size, std::int64_t extent) {
  return extent == 1 || (stride > 0 && stride * size % 16 == 0 && stride * size < largest_stride);
}

MapType map_type(DType type) {
  switch (type) {
    case DType::f32: return MapType::f32;
    case DType::i32: return MapType::s32;
    case DType::f16: return MapType::f16;
    case DType::bf16: return MapType::bf16;
    default: return MapType::u8;
  }
}

struct Dimension {
  std::int64_t extent, stride;  // elements; the first's stride is 1
  int box;
};

TensorMap encode(const void* base, DType type, const std::vector<Dimension>& dimensions, int row_bytes) {
  TensorMap map;
  std::uint64_t sizes[5], strides[5];
  unsigned box[5], steps[5];
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    sizes[i] = static_cast<std::uint64_t>(std::max<std::int64_t>(1, dimensions[i].extent));
    // A dimension of one element may have any stride; the engine wants a legal one.
    const std::int64_t bytes = dimensions[i].stride * size_of(type);
    if (i) strides[i - 1] = static_cast<std::uint64_t>(bytes > 0 && bytes % 16 == 0 ? bytes : 16);
    box[i] = static_cast<unsigned>(dimensions[i].box);
    steps[i] = 1;
  }
  const MapSwizzle swizzle = row_bytes == 128  ? MapSwizzle::bytes128
                             : row_bytes == 64 ? MapSwizzle::bytes64
                             : row_bytes == 32 ? MapSwizzle::bytes32
                                               : MapSwizzle::none;
  constexpr int promote_256_bytes = 3;
  check(driver().TensorMapEncodeTiled(&map, static_cast<int>(map_type(type)), static_cast<unsigned>(dimensions.size()),
                                      const_cast<void*>(base), sizes, strides, box, steps, 0, static_cast<int>(swizzle),
                                      promote_256_bytes, 0),
        "describing a tensor to the copy engine");
  return map;
}

// What the portable kernel reads of a tensor (device/sm80.cu): `dimensions` are columns, rows, batches.
TensorMap portable_map(const void* base, DType type, const std::vector<Dimension>& dimensions) {
  TensorMap map{};
  map.word[0] = reinterpret_cast<std::uint64_t>(base);
  for (int i = 0; i < 2; ++i) {
    map.word[1 + i] = static_cast<std::uint64_t>(dimensions[i].extent);
    map.word[3 + i] = static_cast<std::uint64_t>(dimensions[i + 1].stride * size_of(type));
  }
  return map;
}

}  // namespace

class Binder {
 public:
  Binder(const CudaExecutable& executable, const Bindings& bindings)
      : x_(executable), program_(*executable.program_), bound_(bindings), shape_(bindings.shape) {}
  std::unique_ptr<BoundCall> run();

 private:
  enum class Major { k, mn, repack };
  // A buffer as kernels see it: strides in elements for b, m, n.
  struct Memory {
    std::uint64_t address = 0;
    std::int64_t strides[3] = {0, 0, 0};
  };

  // Pieces of one workspace, 256-byte aligned: where they begin, before it exists.
  std::size_t take(std::int64_t bytes) {
    return std::exchange(workspace_bytes_, workspace_bytes_ + static_cast<std::size_t>(round_up(bytes, 256)));
  }
  std::size_t take_cleared(std::int64_t bytes) {
    cleared_.push_back({take(bytes), static_cast<std::size_t>(bytes)});
    return cleared_.back().at;
  }
  void limits() const;
  [[nodiscard]] bool in_place(BufferId output) const;
  [[nodiscard]] int home(BufferId crossing) const;
  [[nodiscard]] std::array<std::int64_t, 3> extents(const lower::Buffer& buffer) const;  // of b, m, n
  void memories();
  void place_workspace();
  Major major(const Bound& operand, int rows_axis, int k_axis, std::int64_t rows, bool mn_allowed) const;
  std::vector<BufferPlace> places(const Program& program, const std::vector<Memory>& memory,
                                  std::int64_t columns) const;
  [[nodiscard]] bool in_order() const;
  void plan_product();
  void plan_generic();
  void emit_product();
  void emit_plain_product();
  void emit_repack();
  void emit_generic_phases(bool before);
  Launch& launch(const std::shared_ptr<Loaded>& module, const std::string& name, int shared = 0);

  const CudaExecutable& x_;
  const Program& program_;
  const Bindings& bound_;
  const Shape shape_;

  std::size_t workspace_bytes_ = 0;
  std::vector<Part> cleared_;  // what must be zero at first
  std::uint64_t base_ = 0;
  std::vector<Memory> memory_;  // of the Program's buffers; workspace ones are offsets until base_ is known
  std::vector<std::optional<std::size_t>> workspace_at_;
  std::vector<bool> lent_;  // outputs in whose memory a crossing lives

  bool stream_ = false, fused_ = false;
  std::int64_t columns_ = 0;  // of the fused phase
  std::shared_ptr<const CudaExecutable::Product> product_;
  MainLoop loop_;
  bool repack_a_ = false, repack_b_ = false;
  std::size_t packed_a_ = 0, packed_b_ = 0, accumulator_ = 0;
  std::vector<std::size_t> partials_;  // of the product's reductions
  std::size_t counters_ = 0;           // of blocks, or of tile rows

  std::vector<int> generic_phases_;
  std::shared_ptr<const CudaExecutable::Generic> generic_;
  struct Shaped {
    GenericKernel kernel;
    std::int64_t rows, columns;
    unsigned grid[3];
    int splits = 1, groups = 1;
  };
  std::vector<Shaped> shaped_;
  std::size_t generic_partials_ = 0, generic_counters_ = 0;

  std::vector<std::shared_ptr<Loaded>> modules_;
  std::vector<Launch> launches_;
  std::vector<std::string> notes_;
};

void Binder::limits() const {
  const std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;
  if (shape_.m > most || shape_.n > most || shape_.k > most || shape_.batch > 65535) {
    throw Error(ErrorCode::size_overflow,
                "an extent is beyond what the GPU kernels index (2^30 rows, columns or K; 65535 batches)");
  }
}

// Whether an output takes the place of an operand, or of X.
bool Binder::in_place(BufferId output) const {
  const auto same = [&](const Bound& operand) { return operand.data == bound_.buffers[output].data; };
  return same(bound_.a) || std::any_of(bound_.buffers.begin(), bound_.buffers.begin() + program_.operands, same);
}

// The output in whose memory a crossing can live until the phase that reads it makes the output of it, element by
// element; -1: none. A whole-row phase then moves half the bytes, and needs no workspace.
int Binder::home(BufferId crossing) const {
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

std::array<std::int64_t, 3> Binder::extents(const lower::Buffer& buffer) const {
  return {buffer.axes.has(Axis::b) ? shape_.batch : 1, buffer.axes.has(Axis::m) ? buffer.rows.at(shape_.m) : 1,
          buffer.axes.has(Axis::n) ? buffer.columns.at(shape_.n) : 1};
}

void Binder::memories() {
  memory_.resize(program_.buffers.size());
  workspace_at_.resize(program_.buffers.size());
  lent_.resize(program_.buffers.size());
  for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
    const lower::Buffer& buffer = program_.buffers[i];
    Memory& m = memory_[i];
    if (buffer.kind == BufferKind::operand || buffer.kind == BufferKind::output) {
      if (bound_.buffers[i].by_value) {
        std::memcpy(&m.strides[2], bound_.buffers[i].data, sizeof m.strides[2]);  // scalar_at in math.cu
        continue;
      }
      m.address = reinterpret_cast<std::uint64_t>(bound_.buffers[i].data);
      std::copy_n(bound_.buffers[i].strides.begin(), 3, m.strides);
      continue;
    }
    if (const int b = home(static_cast<BufferId>(i)); b >= 0) {
      lent_[b] = true, m = memory_[b];
      continue;
    }
    const auto [batches, rows, columns] = extents(buffer);
    m.strides[0] = buffer.axes.has(Axis::b) ? rows * columns : 0;
    m.strides[1] = buffer.axes.has(Axis::m) ? columns : 0;
    m.strides[2] = buffer.axes.has(Axis::n) ? 1 : 0;
    workspace_at_[i] = 0;
  }
}

// What is kept in registers needs no memory.
void Binder::place_workspace() {
  const FusedEpilogue* e = product_ ? &product_->epilogue : nullptr;
  for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
    const lower::Buffer& buffer = program_.buffers[i];
    const bool held = e && fused_ && e->held >= 0 && buffer.kind == BufferKind::crossing &&
                      program_.phases[e->phase].stores_to(static_cast<BufferId>(i));
    if (!workspace_at_[i] || held) continue;
    const auto [batches, rows, columns] = extents(buffer);
    workspace_at_[i] = take(batches * rows * columns * size_of(buffer.dtype));
  }
}

Binder::Major Binder::major(const Bound& o, int rows_axis, int k_axis, std::int64_t rows, bool mn_allowed) const {
  const std::int64_t size = size_of(o.dtype), row = o.strides[rows_axis], k = o.strides[k_axis], batch = o.strides[0];
  if (reinterpret_cast<std::uintptr_t>(o.data) % 16 || (batch != 0 && !map_stride(batch, size, shape_.batch)))
    return Major::repack;
  if (k == 1 && map_stride(row, size, rows)) return Major::k;
  if (mn_allowed && row == 1 && map_stride(k, size, shape_.k)) return Major::mn;
  return Major::repack;
}

std::vector<BufferPlace> Binder::places(const Program& program, const std::vector<Memory>& memory,
                                        std::int64_t columns) const {
  std::vector<BufferPlace> result(memory.size());
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const lower::Buffer& buffer = program.buffers[i];
    const Memory& m = memory[i];
    const std::int64_t size = size_of(buffer.dtype);
    BufferPlace& place = result[i];
    place.unit = buffer.axes.has(Axis::n) && m.strides[2] == 1;
    place.wide = place.unit && columns % 8 == 0 && m.address % 16 == 0 && m.strides[0] % 8 == 0 &&
                 m.strides[1] % 8 == 0 && vector_type(buffer.dtype);
    place.pair = place.unit && columns % 2 == 0 && m.address % static_cast<std::uint64_t>(2 * size) == 0 &&
                 m.strides[0] % 2 == 0 && m.strides[1] % 2 == 0 && vector_type(buffer.dtype);
    // Whole 16 bytes a row: the engine was seen to write up to the next multiple behind a narrower tensor.
    place.tensor_map = place.unit && buffer.axes.has(Axis::m) && size <= 4 && columns * size % 16 == 0 &&
                       m.address % 16 == 0 && map_stride(m.strides[1], size, shape_.m) &&
                       (m.strides[0] == 0 || map_stride(m.strides[0], size, shape_.batch)) && buffer.rows == Extent{};
  }
  return result;
}

// Whether a phase that is not over the product's tiles stores over an operand. In its place among the phases that is
// right (plan/in_place.h); in the product's launch it would come before others that read the operand.
bool Binder::in_order() const {
  const Phase& product = program_.phases[x_.product_phase_];
  return std::any_of(program_.phases.begin(), program_.phases.end(), [&](const Phase& phase) {
    if (phase.domain == product.domain && phase.columns == product.columns) return false;
    return std::any_of(phase.stores.begin(), phase.stores.end(), [&](const lower::Store& store) {
      return program_.buffers[store.access.buffer].kind == BufferKind::output && in_place(store.access.buffer);
    });
  });
}

// Decides how the accumulator is made and whether the first phase runs on it.
void Binder::plan_product() {
  if (const auto* gemm = std::get_if<Gemm>(&x_.problem_)) {
    const bool tensor_cores = shape_.batch > 0 && shape_.m > 0 && shape_.n > 0 && shape_.k > 0 &&
                              x_.on_tensor_cores(*gemm) && x_.product_phase_ >= 0;
    if (tensor_cores) {
      std::string why = not_fusable(program_, x_.product_phase_);
      const Phase& phase = program_.phases[x_.product_phase_];
      columns_ = phase.columns.at(shape_.n);
      const int parts = accumulator_parts(phase);
      const bool b_half = size_of(gemm->b) == 2;
      const std::string portable =
          why.empty() && !x_.mma_ && !x_.requested_
              ? portable_instead(parts, major(bound_.b, 2, 1, shape_.n, b_half) == Major::mn, shape_, columns_)
              : "";
      const bool mma = x_.mma_ || !portable.empty();
      if (why.empty() && parts == 2 && columns_ % 8 && !mma) why = ragged_halves;
      loop_ = {.a = gemm->a, .b = gemm->b};
      const auto arrange = [&](bool b_mn_allowed) {
        const bool half = size_of(gemm->a) == 2;
        const Major a = major(bound_.a, 1, 2, shape_.m, half),
                    b = major(bound_.b, 2, 1, shape_.n, half && b_mn_allowed);
        loop_.a_mn_major = a == Major::mn, loop_.b_mn_major = b == Major::mn;
        repack_a_ = a == Major::repack, repack_b_ = b == Major::repack;
      };
      if (why.empty()) {
        arrange(parts == 1 || (mma && columns_ % 8 == 0));
        // Addresses of outputs and operands decide how they are reached; those of the workspace are aligned.
        std::vector<std::string> rejected;
        product_ = x_.product({program_, x_.product_phase_, loop_, mma, places(program_, memory_, columns_), shape_,
                               columns_, in_order()},
                              rejected);
        for (const std::string& reason : rejected) notes_.push_back("not " + reason);
        fused_ = product_ != nullptr;
        if (fused_ && !portable.empty()) notes_.push_back(portable);
      } else {
        notes_.push_back("epilogue from memory: " + why);
      }
      if (!fused_) {
        columns_ = shape_.n;
        arrange(true);
        // Rows of whole 16 bytes, so that the copy engine can write them.
        std::vector<BufferPlace> place(1);
        place[0] = {.tensor_map = shape_.n % 4 == 0, .unit = true, .pair = shape_.n % 2 == 0};
        std::vector<std::string> rejected;
        product_ = x_.product({x_.accumulator_, 0, loop_, x_.mma_, place, shape_, columns_}, rejected);
      }
      if (!product_) throw Error(ErrorCode::internal, "no schedule of the plain product compiles");
      const auto pitch = round_up(shape_.k * size_of(gemm->a), 16);
      const auto batches = [&](const Bound& o) { return o.strides[0] == 0 ? 1 : shape_.batch; };
      if (repack_a_) packed_a_ = take(batches(bound_.a) * shape_.m * pitch);
      if (repack_b_) packed_b_ = take(batches(bound_.b) * shape_.n * pitch);
    }
    const bool reads = std::any_of(program_.phases.begin(), program_.phases.end(),
                                   [](const Phase& p) { return p.reads_accumulator(); });
    if (!fused_ && reads) accumulator_ = take(shape_.batch * shape_.m * shape_.n * 4);
  } else {
    stream_ = true;
  }
  if (!product_) return;
  const FusedEpilogue& e = product_->epilogue;
  const Schedule& s = product_->schedule;
  const std::int64_t tiles_m = ceil_div(shape_.m, s.bm),
                     tiles_n = ceil_div(columns_, consumer_columns(s) / e.needs.parts);
  const std::int64_t slots = tiles_m * (s.bm / consumer_rows(s));
  if (tiles_m * tiles_n * shape_.batch > std::numeric_limits<std::int32_t>::max() / 2) {
    throw Error(ErrorCode::size_overflow, "the product has too many tiles");
  }
  if (e.across_tiles()) counters_ = take_cleared(e.needs.holds ? 4 * x_.multiprocessors_ : 4);
  for (const auto& partial : e.partials) {
    if (partial.word < 0) {
      partials_.push_back(0);
      continue;
    }
    const std::int64_t states = partial.across == Across::rows      ? tiles_n * shape_.m
                                : partial.across == Across::columns ? slots * columns_
                                                                    : slots * tiles_n;
    // Tiles that are held tell their states, and what is folded of a row, beside tags of the same size
    // (device/reduce.cu).
    partials_.push_back(e.needs.holds ? take_cleared(shape_.batch * (states + shape_.m) * 2 * partial.bytes)
                                      : take(shape_.batch * states * partial.bytes));
  }
}

void Binder::plan_generic() {
  for (int p = 0; p < static_cast<int>(program_.phases.size()); ++p) {
    if (!fused_ || !product_->epilogue.runs(p)) generic_phases_.push_back(p);
  }
  if (generic_phases_.empty()) return;
  // What can be read eight columns at a time.
  const auto wide = [](std::uint64_t address, const std::int64_t* strides, DType type) {
    return vector_type(type) && address % 16 == 0 && strides[2] == 1 && strides[0] % 8 == 0 && strides[1] % 8 == 0;
  };
  Wide vectors;
  vectors.source = stream_ ? bound_.a.dtype : program_.accumulator;
  bool eights = true;
  for (const Phase& phase : program_.phases)
    vectors.columns.push_back(phase.domain.has(Axis::n) ? phase.columns.at(shape_.n) : 1);
  for (const int p : generic_phases_)
    eights = eights && (!program_.phases[p].domain.has(Axis::n) || vectors.columns[p] % 8 == 0);
  for (std::size_t b = 0; b < memory_.size(); ++b)
    vectors.buffers.push_back(eights && wide(memory_[b].address, memory_[b].strides, program_.buffers[b].dtype));
  if (eights) {
    const std::int64_t own[3] = {shape_.m * shape_.n, shape_.n, 1};
    vectors.accumulator =
        stream_ ? wide(reinterpret_cast<std::uint64_t>(bound_.a.data), bound_.a.strides.data(), bound_.a.dtype)
                : wide(0, own, program_.accumulator);
  }
  generic_ = x_.generic(generic_phases_, vectors);
  std::int64_t partial_bytes = 0, counters = 0;
  for (const GenericKernel& kernel : generic_->source.kernels) {
    const Phase& phase = program_.phases[kernel.phase];
    Shaped shaped{kernel,
                  phase.domain.has(Axis::m) ? phase.rows.at(shape_.m) : 1,
                  phase.domain.has(Axis::n) ? phase.columns.at(shape_.n) : 1,
                  {1, 1, 1}};
    const std::int64_t phase_batches = phase.batched ? shape_.batch : 1;
    std::int64_t grid[3] = {1, 1, 1};
    if (kernel.rows) {
      grid[0] = ceil_div(shaped.rows, kernel.rows->block() / kernel.rows->threads) * kernel.rows->blocks_n;
      grid[2] = phase_batches;
    } else if (kernel.reduction < 0) {
      std::int64_t outer = shaped.rows, inner = shaped.columns;
      if (!phase.domain.has(Axis::n)) std::swap(outer, inner);  // threads run along rows
      grid[0] = ceil_div(inner, 256), grid[1] = std::min<std::int64_t>(outer, 65535),
      grid[2] = std::min<std::int64_t>(phase_batches, 65535);
    } else {
      const lower::Reduction& r = phase.reductions[kernel.reduction];
      const bool over_m = r.axes.has(Axis::m), over_n = r.axes.has(Axis::n), over_b = r.axes.has(Axis::b);
      std::int64_t groups = 1;
      for (const BufferId b : r.results) {
        if (r.group && b >= 0)
          groups = over_n ? program_.buffers[b].columns.at(shape_.n) : program_.buffers[b].rows.at(shape_.m);
      }
      shaped.groups = static_cast<int>(groups);
      const std::int64_t batches = over_b ? 1 : phase_batches;
      if (kernel.by_columns) {
        if (over_m && !r.group) shaped.splits = static_cast<int>(std::clamp<std::int64_t>(shaped.rows / 256, 1, 64));
        grid[0] = ceil_div(shaped.columns, 32), grid[1] = over_m ? shaped.splits : shaped.rows;
        grid[2] = static_cast<std::int64_t>(r.pieces.size()) * batches * groups;
        partial_bytes = std::max(partial_bytes, grid[2] * shaped.splits * shaped.columns * kernel.state_bytes);
        counters = std::max(counters, grid[2] * grid[0]);
      } else {
        const bool keeps_row = phase.domain.has(Axis::m) && !over_m;
        const std::int64_t results = batches * (keeps_row ? shaped.rows : 1) * groups;
        if (results == 0) continue;
        const std::int64_t elements =
            (keeps_row ? 1 : shaped.rows) * shaped.columns * (over_b ? shape_.batch : 1) / groups;
        shaped.splits = static_cast<int>(std::clamp<std::int64_t>(std::min(elements / 8192, 1056 / results), 1, 1024));
        grid[0] = results, grid[1] = shaped.splits;
        partial_bytes = std::max(partial_bytes, results * shaped.splits * kernel.state_bytes);
        counters = std::max(counters, results);
      }
    }
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) continue;
    if (grid[0] > std::numeric_limits<std::int32_t>::max() || grid[1] > 65535 || grid[2] > 65535) {
      throw Error(ErrorCode::unsupported, "a reduction of this shape needs more blocks than a GPU launches",
                  "reduce over fewer batches or larger groups, or use the CPU target");
    }
    std::transform(grid, grid + 3, shaped.grid, [](std::int64_t g) { return static_cast<unsigned>(g); });
    shaped_.push_back(shaped);
  }
  if (counters) generic_counters_ = take_cleared(4 * counters);
  generic_partials_ = take(partial_bytes);
}

Launch& Binder::launch(const std::shared_ptr<Loaded>& module, const std::string& name, int shared) {
  modules_.push_back(module);
  Launch& l = launches_.emplace_back();
  l.function = module->function(name, shared);
  l.shared = static_cast<unsigned>(shared);
  return l;
}

void Binder::emit_repack() {
  if (!repack_a_ && !repack_b_) return;
  const auto& gemm = std::get<Gemm>(x_.problem_);
  struct Unpacked {  // product.cu
    std::uint64_t from;
    std::int64_t batch_stride, row_stride, column_stride;
    std::uint64_t to;
    std::int32_t rows, columns, pitch, batches;
  } matrices[2] = {};
  constexpr std::int64_t span = 512;
  const std::int64_t size = size_of(gemm.a), pitch = round_up(shape_.k * size, 16) / size;
  Launch& l = launch(x_.plain_product(gemm.a, gemm.b), "postlude_repack");
  std::int64_t blocks = 1, batches = 0;
  const auto add = [&](Unpacked& m, const Bound& from, int rows_axis, int k_axis, std::int64_t rows, std::size_t to) {
    m = {reinterpret_cast<std::uint64_t>(from.data),
         from.strides[0],
         from.strides[rows_axis],
         from.strides[k_axis],
         base_ + to,
         static_cast<std::int32_t>(rows),
         static_cast<std::int32_t>(shape_.k),
         static_cast<std::int32_t>(pitch),
         static_cast<std::int32_t>(from.strides[0] == 0 ? 1 : shape_.batch)};
    blocks = std::max(blocks, ceil_div(rows, m.column_stride == 1 ? 8 : 32));
    batches += m.batches;
  };
  if (repack_a_) add(matrices[0], bound_.a, 1, 2, shape_.m, packed_a_);
  if (repack_b_) add(matrices[1], bound_.b, 2, 1, shape_.n, packed_b_);
  l.grid[0] = static_cast<unsigned>(ceil_div(pitch, span));
  l.grid[1] = static_cast<unsigned>(std::min<std::int64_t>(blocks, 65535));
  l.grid[2] = static_cast<unsigned>(std::min<std::int64_t>(batches, 65535));
  l.block.resize(sizeof matrices / 8);
  std::memcpy(l.block.data(), matrices, sizeof matrices);
}

void Binder::emit_product() {
  const FusedEpilogue& e = product_->epilogue;
  const Schedule& s = product_->schedule;
  const auto& gemm = std::get<Gemm>(x_.problem_);
  const std::int64_t size = size_of(gemm.a), pitch = round_up(shape_.k * size, 16) / size;
  emit_repack();
  const int bk = static_cast<int>(k_bytes(s) / size);
  const auto describe = [&](const void* data, DType type, const std::vector<Dimension>& dimensions, int row_bytes) {
    return s.mma ? portable_map(data, type, dimensions) : encode(data, type, dimensions, row_bytes);
  };
  const bool a_batched = bound_.a.strides[0] != 0, b_batched = bound_.b.strides[0] != 0;

  std::vector<TensorMap> maps;
  {
    const void* data = repack_a_ ? reinterpret_cast<const void*>(base_ + packed_a_) : bound_.a.data;
    const std::int64_t row = repack_a_ ? pitch : bound_.a.strides[1],
                       batch = repack_a_ ? shape_.m * pitch : bound_.a.strides[0];
    const Dimension batches{a_batched ? shape_.batch : 1, batch, 1};
    maps.push_back(loop_.a_mn_major
                       ? describe(data, gemm.a, {{shape_.m, 1, 64}, {shape_.k, bound_.a.strides[2], bk}, batches}, 128)
                       : describe(data, gemm.a, {{shape_.k, 1, bk}, {shape_.m, row, s.bm}, batches}, 128));
  }
  {
    const void* data = repack_b_ ? reinterpret_cast<const void*>(base_ + packed_b_) : bound_.b.data;
    const std::int64_t row = repack_b_ ? pitch : bound_.b.strides[2],
                       batch = repack_b_ ? shape_.n * pitch : bound_.b.strides[0];
    const Dimension batches{b_batched ? shape_.batch : 1, batch, 1};
    if (e.needs.parts == 2 && !s.mma) {
      // Blocks of 8 columns of one half and the other in turns: gate and up of a column meet in one thread.
      const int half = e.needs.half, run = half_run(s, e.needs);
      const std::int64_t away = half ? half : columns_;
      maps.push_back(encode(
          data, gemm.b,
          {{shape_.k, 1, bk}, {8, row, 8}, {2, away * row, 2}, {(shape_.n - away) / 8, 8 * row, run / 8}, batches},
          128));
    } else if (loop_.b_mn_major) {
      maps.push_back(describe(data, gemm.b, {{shape_.n, 1, 64}, {shape_.k, bound_.b.strides[1], bk}, batches}, 128));
    } else {
      maps.push_back(describe(data, gemm.b, {{shape_.k, 1, bk}, {shape_.n, row, s.bn}, batches}, 128));
    }
  }
  const Program& program = fused_ ? program_ : x_.accumulator_;
  std::vector<Memory> memory = memory_;
  if (!fused_) memory = {{base_ + accumulator_, {shape_.m * shape_.n, shape_.n, 1}}};
  const auto subtile = [&](BufferId b, const lower::ColumnMap& columns, int rows) {
    const lower::Buffer& buffer = program.buffers[b];
    const std::int64_t bytes = size_of(buffer.dtype);
    // A half of all columns is a tensor of its own, so that its last subtile ends where it does; groups lie in the
    // whole.
    const bool half = !columns.steps.empty() && columns.steps[0].group == 0, grouped = !columns.steps.empty() && !half;
    const std::uint64_t address =
        memory[b].address + static_cast<std::uint64_t>(half ? columns.steps[0].piece * columns_ * bytes : 0);
    const std::int64_t width = columns_ * (grouped ? columns.steps[0].pieces : 1);
    const int row_bytes = static_cast<int>(std::min<std::int64_t>(128, s.sub_n * bytes));
    maps.push_back(describe(reinterpret_cast<const void*>(address), buffer.dtype,
                            {{width, 1, static_cast<int>(row_bytes / bytes)},
                             {shape_.m, memory[b].strides[1], rows},
                             {memory[b].strides[0] ? shape_.batch : 1, memory[b].strides[0], 1}},
                            row_bytes));
  };
  // A consumer's four warps load a subtile together; each stores its own rows of one.
  for (std::size_t k = 0; k < e.columns.size(); ++k) {
    if (k < e.loaded.size()) subtile(e.loaded[k], e.columns[k], 64);
    else subtile(e.stored[k - e.loaded.size()], e.columns[k], 16);
  }

  std::vector<std::uint64_t> words(std::max(1, e.words));
  words[e.columns_word] = static_cast<std::uint64_t>(shape_.n);
  for (std::size_t b = 0; b < e.word_of.size(); ++b) {
    if (e.word_of[b] < 0) continue;
    words[e.word_of[b]] = memory[b].address;
    for (int i = 0; i < 3; ++i) words[e.word_of[b] + 1 + i] = static_cast<std::uint64_t>(memory[b].strides[i]);
  }
  for (std::size_t r = 0; r < e.partials.size(); ++r) {
    if (e.partials[r].word >= 0) words[e.partials[r].word] = base_ + partials_[r];
  }
  if (e.across_tiles()) words[e.counters_word] = base_ + counters_;

  const int shared = shared_bytes(s, e.needs);
  Launch& l = launch(product_->module, "postlude_gemm", shared);
  l.threads = static_cast<unsigned>(threads(s));
  l.cooperative = !s.mma && e.across_tiles();  // blocks wait for each other
  GemmParams g{};
  g.m = static_cast<std::int32_t>(shape_.m), g.n = static_cast<std::int32_t>(columns_);
  g.tiles_m = static_cast<std::int32_t>(ceil_div(shape_.m, s.bm)),
  g.tiles_n = static_cast<std::int32_t>(ceil_div(columns_, consumer_columns(s) / e.needs.parts));
  g.tiles = g.tiles_m * static_cast<std::int32_t>(ceil_div(columns_, s.bn / e.needs.parts) * shape_.batch);
  g.raster = s.raster, g.k_blocks = static_cast<std::int32_t>(ceil_div(shape_.k, bk));
  g.a_batch = a_batched, g.b_batch = b_batched, g.batch = static_cast<std::int32_t>(shape_.batch);
  l.grid[0] = static_cast<unsigned>(blocks(s, e.needs, {g.tiles, g.tiles_n}, x_.multiprocessors_));
  static_assert(sizeof(GemmParams) == 40);
  l.block.assign((maps.size() * sizeof(TensorMap) + sizeof g + words.size() * 8 + 63) / 64 * 8, 0);
  auto* bytes = reinterpret_cast<unsigned char*>(l.block.data());
  std::memcpy(bytes, maps.data(), maps.size() * sizeof(TensorMap));
  std::memcpy(bytes + maps.size() * sizeof(TensorMap), &g, sizeof g);
  std::memcpy(bytes + maps.size() * sizeof(TensorMap) + sizeof g, words.data(), words.size() * 8);
  if (e.across_tiles() && s.mma) {
    const std::vector<std::uint64_t> block = l.block;
    Launch& finish = launch(product_->module, "postlude_finish", e.finish_bytes);
    finish.threads = 256;
    finish.block = block;
    const std::int64_t blocks = (e.finishes[0] ? ceil_div(shape_.m, 32) : 0) +
                                (e.finishes[1] ? ceil_div(columns_, 32) : 0) + (e.finishes[2] ? 1 : 0);
    finish.grid[0] = static_cast<unsigned>(blocks * shape_.batch);
  }
  std::string text = (fused_ ? "" : "accumulator by ") + to_string(s);
  if (e.held >= 0) text += ", held for its " + e.held_for();
  if (repack_a_) text += ", A repacked";
  if (repack_b_) text += ", B repacked";
  notes_.insert(notes_.begin(), text);
}

// The accumulator on the ordinary units.
void Binder::emit_plain_product() {
  const auto& gemm = std::get<Gemm>(x_.problem_);
  Launch& l = launch(x_.plain_product(gemm.a, gemm.b), "postlude_product");
  const std::int64_t grid[3] = {ceil_div(shape_.n, 64), ceil_div(shape_.m, 64), shape_.batch};
  if (grid[1] > 65535)
    throw Error(ErrorCode::unsupported, "M is too large for the portable product on a GPU",
                "split the rows over several calls");
  std::transform(grid, grid + 3, l.grid, [](std::int64_t g) { return static_cast<unsigned>(g); });
  const std::int32_t integers[4] = {static_cast<std::int32_t>(shape_.m), static_cast<std::int32_t>(shape_.n),
                                    static_cast<std::int32_t>(shape_.k), 0};
  l.block = {reinterpret_cast<std::uint64_t>(bound_.a.data),
             static_cast<std::uint64_t>(bound_.a.strides[0]),
             static_cast<std::uint64_t>(bound_.a.strides[1]),
             static_cast<std::uint64_t>(bound_.a.strides[2]),
             reinterpret_cast<std::uint64_t>(bound_.b.data),
             static_cast<std::uint64_t>(bound_.b.strides[0]),
             static_cast<std::uint64_t>(bound_.b.strides[1]),
             static_cast<std::uint64_t>(bound_.b.strides[2]),
             base_ + accumulator_,
             0,
             0};
  std::memcpy(&l.block[9], integers, sizeof integers);
  notes_.insert(notes_.begin(), "portable product 64x64");
}

void Binder::emit_generic_phases(bool before) {
  if (shaped_.empty()) return;
  // Of all kernels: the shape, then the words.
  const GenericSource& source = generic_->source;
  const std::int32_t head[4] = {static_cast<std::int32_t>(shape_.batch), static_cast<std::int32_t>(shape_.m),
                                static_cast<std::int32_t>(shape_.n), 0};
  std::vector<std::uint64_t> block(2 + static_cast<std::size_t>(source.words));
  std::memcpy(block.data(), head, sizeof head);
  std::uint64_t* const words = block.data() + 2;
  const auto describe = [&](int word, const Memory& memory) {
    words[word] = memory.address;
    for (int i = 0; i < 3; ++i) words[word + 1 + i] = static_cast<std::uint64_t>(memory.strides[i]);
  };
  for (int b = 0; b < static_cast<int>(memory_.size()); ++b) describe(4 * b, memory_[b]);
  Memory accumulator{base_ + accumulator_, {shape_.m * shape_.n, shape_.n, 1}};
  if (stream_) {
    accumulator.address = reinterpret_cast<std::uint64_t>(bound_.a.data);
    std::copy_n(bound_.a.strides.begin(), 3, accumulator.strides);
  }
  describe(source.accumulator_word, accumulator);
  words[source.partials_word] = base_ + generic_partials_;
  words[source.counters_word] = base_ + generic_counters_;
  for (const Shaped& shaped : shaped_) {
    if (before != (fused_ && shaped.kernel.phase < x_.product_phase_)) continue;
    Launch& l = launch(generic_->module, shaped.kernel.name);
    std::copy_n(shaped.grid, 3, l.grid);
    if (shaped.kernel.rows) l.threads = static_cast<unsigned>(shaped.kernel.rows->block());
    l.block = block;
    l.integers = {static_cast<std::int32_t>(shaped.rows), static_cast<std::int32_t>(shaped.columns)};
    if (shaped.kernel.reduction >= 0) {
      l.integers.push_back(shaped.splits);
      l.integers.push_back(shaped.groups);
    }
  }
}

std::unique_ptr<BoundCall> Binder::run() {
  limits();
  const CurrentDevice current(x_.target_.device_index);
  const DuringCaptures allowed;
  memories();
  plan_product();
  place_workspace();
  plan_generic();
  Workspace workspace(x_.target_.device_index, workspace_bytes_, bound_.stream);
  base_ = workspace.pointer();
  for (std::size_t b = 0; b < memory_.size(); ++b) {
    if (workspace_at_[b]) memory_[b].address = base_ + *workspace_at_[b];
  }
  emit_generic_phases(true);
  if (product_) emit_product();
  else if (!stream_ && x_.product_phase_ >= 0 && shape_.batch > 0 && shape_.m > 0 && shape_.n > 0) emit_plain_product();
  emit_generic_phases(false);
  std::string text;
  for (const std::string& note : notes_) text += (text.empty() ? "" : "; ") + note;
  if (!shaped_.empty()) text += (text.empty() ? "" : "; ") + std::to_string(shaped_.size()) + " passes over memory";
  return std::make_unique<CudaCall>(x_.target_.device_index, std::move(modules_), std::move(workspace),
                                    std::move(cleared_), std::move(launches_), text);
}

std::unique_ptr<BoundCall> CudaExecutable::bind(const Bindings& bindings) const {
  if (!target_.isa.empty() && arch_ != architecture(device(target_.device_index))) {
    throw Error(ErrorCode::unsupported, "the plan was compiled for " + arch_ + ", which the GPU here is not",
                "leave Target::isa empty to run");
  }
  return Binder(*this, bindings).run();
}

}  // namespace postlude::inline v0::cuda
