// A Program on a CPU: the operands that are bound, the workspace, and the walk over blocks of rows. It is longer than
// most because a bound call is one object, whose parts share the layout of its workspace.
#include "cpu/backend.h"

#include "core/divide.h"
#include "core/threads.h"
#include "cpu/product/direct.h"
#include "cpu/product/gemm.h"
#include "cpu/product/pack.h"
#include "cpu/schedule.h"
#include "cpu/strips/ops.h"
#include "cpu/strips/phase.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>
#include <optional>

namespace postlude::inline v0::cpu {

using lower::Buffer;
using lower::BufferKind;
using lower::Program;

namespace {

// 64-byte aligned memory.
class Memory {
 public:
  Memory(std::int64_t bytes, bool counted_only) : bytes_(bytes) {
    if (bytes == 0 || counted_only) return;
    data_.reset(
        static_cast<char*>(::operator new (static_cast<std::size_t>(bytes), std::align_val_t{line}, std::nothrow)));
    if (!data_) {
      throw Error(ErrorCode::out_of_memory, std::to_string(bytes) + " bytes of workspace could not be allocated");
    }
  }
  [[nodiscard]] char* data() const { return data_.get(); }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(char* data) const { ::operator delete (data, std::align_val_t{line}); }
  };
  std::unique_ptr<char, Free> data_;
  std::int64_t bytes_ = 0;
};

// What is laid out one after another in memory that does not exist yet.
class Layout {
 public:
  std::int64_t add(std::int64_t bytes) {
    const std::int64_t at = bytes_;
    bytes_ += round_up(bytes, line);
    return at;
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

std::int64_t rows_of(const Buffer& buffer, const Shape& shape) {
  return buffer.axes.has(Axis::m) ? buffer.rows.at(shape.m) : 1;
}
std::int64_t columns_of(const Buffer& buffer, const Shape& shape) {
  return buffer.axes.has(Axis::n) ? buffer.columns.at(shape.n) : 1;
}

// A row-major tensor that is nowhere yet.
Bound row_major(Axes axes, std::int64_t rows, std::int64_t columns, DType dtype) {
  Bound bound;
  bound.dtype = dtype;
  bound.strides = {axes.has(Axis::b) ? rows * columns : 0, axes.has(Axis::m) ? columns : 0, axes.has(Axis::n) ? 1 : 0};
  return bound;
}
Bound row_major(const Buffer& buffer, const Shape& shape) {
  return row_major(buffer.axes, rows_of(buffer, shape), columns_of(buffer, shape), buffer.dtype);
}

struct Compiled {
  std::optional<Contraction> contraction;  // none: the accumulator is a tensor
  DType source = DType::f32;               // of this type
  Program program;                         // as prepared for the interpreter
  Isa isa = Isa::portable;
  int threads = 1;

  [[nodiscard]] bool multiplies() const { return contraction.has_value(); }
};

// ---- one call ---------------------------------------------------------------------------------------------

class Bound_ final : public BoundCall {
 public:
  // `shown`: for explain, which neither takes memory nor runs.
  Bound_(std::shared_ptr<const Compiled> compiled, const Bindings& bindings, bool shown = false)
      : shown_(shown),
        compiled_(std::move(compiled)),
        shape_(bindings.shape),
        a_(bindings.a),
        b_(bindings.b),
        addressing_(bindings.addressing),
        buffers_(bindings.buffers),
        packed_(static_cast<const PackedB*>(bindings.packed_b)) {
    const Program& program = compiled_->program;
    for (Pass& pass : schedule(program, shape_, compiled_->multiplies())) runs_.emplace_back().pass = std::move(pass);
    buffers_.resize(program.buffers.size());  // with those that prepare added
    local_.assign(program.buffers.size(), -1);
    for (PassRun& run : runs_) plan_product(run);
    allocate_buffers();
    for (PassRun& run : runs_) plan_phases(run);
    allocate_frames();
  }

  void run(void*) override {
    for (PassRun& run : runs_) {
      for (std::size_t f = 0; f < run.frames.size(); ++f) run.phases[f % run.phases.size()].begin(run.frames[f]);
      if (run.pass.product) run_product(run);
      else run_blocks(run);
      for (const PhaseExecutor& phase : run.phases) {
        for (const ReductionExecutor& reduction : phase.reductions()) {
          if (!reduction.owned()) reduction.combine(combine_scratch_);
        }
      }
    }
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return buffers_memory_->bytes() + frames_memory_->bytes();
  }

  [[nodiscard]] std::string describe() const override {
    std::string text = std::string(name(compiled_->isa)) + ", " + std::to_string(threads()) + " threads";
    for (const PassRun& run : runs_) text += "; " + describe(run);
    return text;
  }

  // The loop nest, as explain shows it.
  [[nodiscard]] std::string loops() const {
    std::string text;
    for (const PassRun& run : runs_) {
      text += describe(run) + "\n";
      for (std::size_t p = 0; p < run.phases.size(); ++p) {
        const PhaseExecutor& phase = run.phases[p];
        text += "  phase " + std::to_string(run.pass.first + static_cast<int>(p)) + ": " + phase.describe() + "\n";
        for (const ReductionExecutor& reduction : phase.reductions()) {
          text += reduction.owned() ? "    a reduction finished within its block\n"
                                    : "    a reduction with a partial result a block, combined in their order: " +
                                          std::to_string(reduction.workspace_bytes()) + " bytes\n";
        }
      }
      for (const lower::BufferId buffer : run.pass.locals) {
        text += "  " + compiled_->program.buffers[buffer].name + " stays with the block's rows\n";
      }
    }
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const Buffer& buffer = compiled_->program.buffers[i];
      if (buffer.kind == BufferKind::crossing && !stays(static_cast<lower::BufferId>(i))) {
        text += buffer.name + " crosses phases through memory: " + std::to_string(bytes_of(buffer)) + " bytes\n";
      }
    }
    text += "workspace " + std::to_string(workspace_bytes()) + " bytes\n";
    return text;
  }
  // Whether a buffer stays with a block's rows, or is stored by no phase.
  [[nodiscard]] bool stays(lower::BufferId buffer) const { return local_[buffer] >= 0 || !crosses(buffer); }

 private:
  struct PassRun {
    Pass pass;
    std::optional<Blocking> blocking;
    std::optional<DirectForm> direct;  // instead of phases
    lower::BufferId kept = -1;         // the output in which collected accumulators wait
    std::vector<PhaseExecutor> phases;
    std::vector<PhaseFrame> frames;        // per thread, per phase
    std::vector<char*> locals;             // per thread, per local
    std::vector<std::int64_t> local_rows;  // row strides, in elements
    std::int64_t thread_scratch = 0, shared_scratch = 0, local_bytes = 0, partial_bytes = 0;
    std::vector<std::int64_t> local_offsets;
    bool over_batches = false;  // the product runs on one thread, batches beside each other
  };

  [[nodiscard]] int threads() const { return compiled_->threads; }

  [[nodiscard]] std::int64_t bytes_of(const Buffer& buffer) const {
    return (buffer.axes.has(Axis::b) ? shape_.batch : 1) * rows_of(buffer, shape_) * columns_of(buffer, shape_) *
           size_of(buffer.dtype);
  }

  [[nodiscard]] std::string describe(const PassRun& run) const {
    const Pass& pass = run.pass;
    std::string text = "phases " + std::to_string(pass.first) + ".." + std::to_string(pass.first + pass.count - 1);
    text += pass.product ? " behind the product" : "";
    text += " over " + std::to_string(pass.row_blocks()) + " x " + std::to_string(pass.column_blocks()) +
            " blocks of " + std::to_string(pass.block_rows) + " x " + std::to_string(pass.block_columns);
    if (pass.whole_rows) text += " (whole rows)";
    if (run.direct) text += " in registers";
    if (run.blocking) {
      const bool pairs = kernels_for(compiled_->isa, shape_of(product_of(pass, 0))).careful_tiles != nullptr;
      text += ", K by " + std::to_string(run.blocking->k_block) + (pairs ? ", pairs of bf16" : "") +
              (run.blocking->thin ? ", thin" : "") +
              (run.blocking->splits > 1 ? ", split in " + std::to_string(run.blocking->splits) : std::string());
    }
    return text;
  }

  [[nodiscard]] Product product_of(const Pass& pass, std::int64_t batch) const {
    auto matrix = [&](const Bound& bound) {
      const std::int64_t offset = batch * bound.strides[0] * size_of(bound.dtype);
      return Matrix{.data = bound.data ? static_cast<const char*>(bound.data) + offset : nullptr,
                    .dtype = bound.dtype,
                    .row_stride = bound.strides[1],
                    .column_stride = bound.strides[2]};
    };
    Product product;
    product.m = shape_.m;
    product.n = shape_.n;
    product.k = shape_.k;
    product.a = matrix(a_);
    if (!std::holds_alternative<std::monostate>(addressing_.a)) product.a.address = &addressing_.a;
    product.a.batch = batch;
    product.a.row0 = batch * shape_.m;
    product.b = matrix(b_);
    if (!std::holds_alternative<std::monostate>(addressing_.b)) product.b.address = &addressing_.b;
    product.packed_b = packed_;
    product.pieces = pass.pieces;
    return product;
  }

  void plan_product(PassRun& run) {
    Pass& pass = run.pass;
    if (!pass.product) return;
    run.blocking = choose_blocking(shape_of(product_of(pass, 0)), compiled_->isa, pass.whole_rows);
    pass.block_rows = row_group;
    const bool whole = run.blocking->order != Order::blocks;
    pass.block_columns =
        std::max<std::int64_t>(1, whole ? pass.columns : std::min(pass.columns, run.blocking->column_block));
    run.over_batches = shape_.batch > 1 && run.blocking->units < 4 * threads();
    run.kept = output_for_accumulators(run);
    if (run.kept >= 0) keep_accumulators(*run.blocking, shape_of(product_of(pass, 0)));
    run.thread_scratch = round_up(static_cast<std::int64_t>(run.blocking->thread_bytes), line);
    run.shared_scratch = round_up(static_cast<std::int64_t>(run.blocking->shared_bytes), line);
  }

  // An output as large as the accumulator, of which nothing is written before a later phase of the pass has its rows:
  // accumulators of whole rows wait there instead of passing through memory of their own. rmsnorm and softmax at 512 x
  // 3072 x 768 then take 0.97 of the time, rmsnorm at 2048 x 2048 x 64 0.92.
  [[nodiscard]] lower::BufferId output_for_accumulators(const PassRun& run) const {
    const Program& program = compiled_->program;
    if (!may_keep(*run.blocking, shape_of(product_of(run.pass, 0))) || program.accumulator != DType::f32) return -1;
    const std::vector<lower::Phase>& phases = program.phases;
    for (lower::BufferId i = 0; i < static_cast<lower::BufferId>(buffers_.size()); ++i) {
      const Buffer& buffer = program.buffers[i];
      const Bound& bound = buffers_[i];
      if (buffer.kind != BufferKind::output || bound.dtype != DType::f32 || !buffer.axes.contains(tile_axes) ||
          bound.strides[2] != 1 || bound.strides[1] < shape_.n || buffer.rows.at(shape_.m) != shape_.m ||
          buffer.columns.at(shape_.n) != shape_.n || (shape_.batch > 1 && bound.strides[0] == 0)) {
        continue;
      }
      const auto first = phases.begin() + run.pass.first;
      const bool later =
          std::any_of(first + 1, first + run.pass.count, [&](const lower::Phase& p) { return p.stores_to(i); });
      const bool read = std::any_of(phases.begin(), phases.end(), [&](const lower::Phase& p) { return p.loads(i); });
      if (later && !first->stores_to(i) && !read && !in_place_of_operand(i)) return i;
    }
    return -1;
  }
  [[nodiscard]] bool in_place_of_operand(lower::BufferId output) const {
    const void* const data = buffers_[output].data;
    if (shown_) return false;
    const auto there = [&](const Bound& bound) { return bound.data == data; };
    return there(a_) || there(b_) ||
           std::any_of(buffers_.begin(), buffers_.begin() + compiled_->program.operands, there);
  }

  // Whether a phase still stores it (see keep.h).
  [[nodiscard]] bool crosses(lower::BufferId buffer) const {
    const std::vector<lower::Phase>& phases = compiled_->program.phases;
    return std::any_of(phases.begin(), phases.end(),
                       [&](const lower::Phase& phase) { return phase.stores_to(buffer); });
  }

  // Statistics, and what crosses between passes.
  void allocate_buffers() {
    const Program& program = compiled_->program;
    for (PassRun& run : runs_) {
      for (std::size_t l = 0; l < run.pass.locals.size(); ++l) local_[run.pass.locals[l]] = static_cast<int>(l);
    }
    Layout layout;
    std::vector<std::int64_t> offsets(program.buffers.size(), -1);
    for (std::size_t i = 0; i < program.buffers.size(); ++i) {
      const Buffer& buffer = program.buffers[i];
      if (buffer.kind != BufferKind::statistic && buffer.kind != BufferKind::crossing) continue;
      buffers_[i] = row_major(buffer, shape_);
      if (buffer.kind == BufferKind::statistic ? local_[i] < 0 : !stays(static_cast<lower::BufferId>(i))) {
        offsets[i] = layout.add(bytes_of(buffer));
      }
    }
    buffers_memory_.emplace(layout.bytes(), shown_);
    if (shown_) return;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      if (offsets[i] >= 0) buffers_[i].data = buffers_memory_->data() + offsets[i];
    }
  }

  void plan_phases(PassRun& run) {
    const Program& program = compiled_->program;
    const Pass& pass = run.pass;
    Layout locals;
    for (const lower::BufferId buffer : pass.locals) {
      // 16 elements more keep rows from lying a multiple of 4 KB apart.
      const std::int64_t row = round_up(program.buffers[buffer].columns.at(shape_.n), 16) + 16;
      run.local_rows.push_back(row);
      run.local_offsets.push_back(locals.add(row * pass.block_rows * size_of(program.buffers[buffer].dtype)));
    }
    run.local_bytes = locals.bytes();
    run.phases.reserve(static_cast<std::size_t>(pass.count));
    PhaseSetting setting;
    setting.program = &program;
    setting.table = &strips(compiled_->isa);
    setting.shape = shape_;
    setting.buffers = buffers_;
    setting.locals = local_;
    setting.local_rows = run.local_rows;
    setting.source = compiled_->multiplies() ? nullptr : &a_;
    setting.pieces_apart = pass.pieces_apart;
    setting.block_rows = pass.block_rows;
    setting.block_columns = pass.block_columns;
    for (int p = pass.first; p < pass.first + pass.count; ++p) {
      setting.phase = &program.phases[p];
      if (p + 1 == pass.first + pass.count && run.kept < 0) setting.past = leave_caches(setting);
      run.phases.emplace_back(setting);
      if (pass.product && pass.count == 1 && pass.pieces.count == 1)
        run.direct = direct_form(program, *setting.phase, buffers_);
      for (ReductionExecutor& reduction : run.phases.back().reductions()) {
        run.partial_bytes += round_up(reduction.workspace_bytes(), line);
      }
    }
    ask_ahead(run.pass, setting, run.phases);
  }

  // Each thread's frames, local values and scratch of the product; then what all share. Passes follow one another, so
  // they share memory.
  void allocate_frames() {
    std::int64_t per_thread = 0, shared = 0, scratch = 0;
    for (PassRun& run : runs_) {
      Layout thread;
      thread.add(run.thread_scratch + (run.over_batches ? run.shared_scratch : 0));
      thread.add(run.local_bytes);
      for (const PhaseExecutor& phase : run.phases) thread.add(phase.frame_bytes());
      per_thread = std::max(per_thread, thread.bytes());
      shared = std::max(shared, run.partial_bytes + (run.over_batches ? 0 : run.shared_scratch));
      for (const PhaseExecutor& phase : run.phases) {
        for (const ReductionExecutor& reduction : phase.reductions())
          scratch = std::max(scratch, reduction.scratch_bytes());
      }
    }
    // A page more keeps threads' memory apart. A thread's own values begin half a page from where a stream's rows do:
    // loads wait for stores to the same place of another page. Softmax of 4096 x 4096, one thread of Zen 4: 0.93 of the
    // time it takes where both begin pages.
    constexpr std::int64_t page = 4096;
    thread_pitch_ = round_up(per_thread, page) + page;
    frames_memory_.emplace(page + thread_pitch_ * threads() + shared + round_up(scratch, line), shown_);
    if (shown_) return;
    frames_ = frames_memory_->data();
    if (!compiled_->multiplies()) {
      const std::uintptr_t apart = reinterpret_cast<std::uintptr_t>(a_.data) + page / 2;
      frames_ += (apart - reinterpret_cast<std::uintptr_t>(frames_)) % page / line * line;
    }
    shared_ = frames_ + thread_pitch_ * threads();
    combine_scratch_ = shared_ + shared;
    for (PassRun& run : runs_) {
      for (int t = 0; t < threads(); ++t) {
        Layout thread;
        char* const base = frames_ + t * thread_pitch_;
        thread.add(run.thread_scratch + (run.over_batches ? run.shared_scratch : 0));
        char* const locals = base + thread.add(run.local_bytes);
        for (const std::int64_t offset : run.local_offsets) run.locals.push_back(locals + offset);
        for (const PhaseExecutor& phase : run.phases)
          run.frames.push_back(phase.make_frame(base + thread.add(phase.frame_bytes())));
      }
      std::int64_t partial = run.over_batches ? 0 : run.shared_scratch;
      for (PhaseExecutor& phase : run.phases) {
        for (ReductionExecutor& reduction : phase.reductions()) {
          reduction.set_workspace(shared_ + partial);
          partial += round_up(reduction.workspace_bytes(), line);
        }
      }
      if (!run.pass.product && run.pass.whole_rows) prepare_blocks(run);
    }
  }

  void prepare_blocks(PassRun& run) const {
    Block block;
    block.rows = run.pass.block_rows;
    const std::size_t phases = run.phases.size();
    for (std::size_t f = 0; f < run.frames.size(); ++f) {
      const PhaseExecutor& phase = run.phases[f % phases];
      block.columns = phase.columns();
      block.locals = run.locals.data() + f / phases * run.pass.locals.size();
      phase.prepare(run.frames[f], block);
    }
  }

  // A block, whose number is in `partial`.
  void run_phases(PassRun& run, int thread, Block block) {
    const Pass& pass = run.pass;
    const std::size_t phases = run.phases.size();
    block.locals = run.locals.data() + static_cast<std::size_t>(thread) * pass.locals.size();
    for (std::size_t p = 0; p < phases; ++p) {
      // Not the columns of the product, of which the phase may read pieces.
      if (phases > 1 || pass.whole_rows) {
        block.column0 = 0;
        block.columns = run.phases[p].columns();
      }
      run.phases[p].run(run.frames[static_cast<std::size_t>(thread) * phases + p], block);
    }
  }

  void run_blocks(PassRun& run) {
    const Pass& pass = run.pass;
    const std::int64_t rows = pass.row_blocks(), columns = pass.column_blocks();
    const std::int64_t blocks = pass.batches * rows * columns;
    const int workers = static_cast<int>(std::min<std::int64_t>(threads(), blocks));
    core::parallel(workers, [&](int thread) {
      const std::int64_t begin = blocks * thread / workers, end = blocks * (thread + 1) / workers;
      for (std::int64_t i = begin; i < end; ++i) {
        Block block;
        block.batch = i / (rows * columns);
        block.row0 = i / columns % rows * pass.block_rows;
        block.rows = std::min(pass.block_rows, pass.rows - block.row0);
        block.column0 = i % columns * pass.block_columns;
        block.columns = std::min(pass.block_columns, pass.columns - block.column0);
        block.partial = i;
        run_phases(run, thread, block);
      }
    });
  }

  struct Consuming {
    Bound_* self;
    PassRun* run;
    std::int64_t batch;
    int thread;  // -1: the block's
  };
  static void consume(void* context, const FinishedBlock& finished) {
    const Consuming& consuming = *static_cast<const Consuming*>(context);
    Block block;
    block.batch = consuming.batch;
    block.row0 = finished.row0;
    block.rows = finished.rows;
    block.column0 = finished.column0;
    block.columns = finished.columns;
    block.acc = static_cast<char*>(finished.acc);
    block.acc_row = finished.acc_row;
    block.piece_stride = finished.piece_stride;
    PassRun& run = *consuming.run;
    const Pass& pass = run.pass;
    block.partial = (block.batch * pass.row_blocks() + block.row0 / pass.block_rows) * pass.column_blocks() +
                    block.column0 / pass.block_columns;
    consuming.self->run_phases(run, consuming.thread >= 0 ? consuming.thread : finished.thread, block);
  }

  void run_batch(PassRun& run, std::int64_t batch, int thread, int workers) {
    const Product product = product_of(run.pass, batch);
    Consuming consuming{this, &run, batch, thread};
    RunOptions options;
    options.threads = workers;
    char* const own = frames_ + std::max(0, thread) * thread_pitch_;
    options.thread_scratch = reinterpret_cast<std::byte*>(own);
    options.thread_scratch_stride = static_cast<std::size_t>(thread_pitch_);
    options.shared_scratch = reinterpret_cast<std::byte*>(run.over_batches ? own + run.thread_scratch : shared_);
    options.consumer = {consume, &consuming};
    if (run.kept >= 0) {
      const Bound& output = buffers_[run.kept];
      options.kept = static_cast<float*>(output.data) + batch * output.strides[0];
      options.kept_row = output.strides[1];
    }
    Direct direct;
    if (run.direct) {
      direct = run.direct->at(buffers_, batch);
      options.direct = &direct;
      if (direct.add) options.prefetch[0] = {direct.add, direct.add_row_stride * 4, 4};
    } else if (!run.pass.pieces_apart) {
      run.phases[0].touched(batch, options.prefetch);
    }
    cpu::run(product, *run.blocking, options);
  }

  void run_product(PassRun& run) {
    if (!run.over_batches) {
      // A product of one part forks nothing: a fork costs about 1 us, and on a busy machine 10 ms was seen.
      const int useful = static_cast<int>(std::clamp<std::int64_t>(run.blocking->units, 1, threads()));
      for (std::int64_t batch = 0; batch < shape_.batch; ++batch) run_batch(run, batch, -1, useful);
      return;
    }
    const int workers = static_cast<int>(std::min<std::int64_t>(threads(), shape_.batch));
    core::parallel(workers, [&](int thread) {
      for (std::int64_t batch = shape_.batch * thread / workers; batch < shape_.batch * (thread + 1) / workers;
           ++batch) {
        run_batch(run, batch, thread, 1);
      }
    });
  }

  bool shown_;
  std::shared_ptr<const Compiled> compiled_;
  Shape shape_;
  Bound a_, b_;
  Addressing addressing_;
  std::vector<Bound> buffers_;
  const PackedB* packed_ = nullptr;
  std::vector<PassRun> runs_;
  std::vector<int> local_;  // per buffer: whether (>= 0) it stays with a block's rows
  std::optional<Memory> buffers_memory_, frames_memory_;
  char* frames_ = nullptr;
  std::int64_t thread_pitch_ = 0;
  char* shared_ = nullptr;
  char* combine_scratch_ = nullptr;
};

// ---- a compiled program -----------------------------------------------------------------------------------

Axes problem_axes(bool batched) { return batched ? Axis::b | tile_axes : tile_axes; }

class CpuExecutable final : public Executable {
 public:
  explicit CpuExecutable(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

  [[nodiscard]] std::unique_ptr<BoundCall> bind(const Bindings& bindings) const override {
    return std::make_unique<Bound_>(compiled_, bindings);
  }

  [[nodiscard]] std::string explain(ExplainPart part, const Shape& shape) const override {
    const Bound_ bound(compiled_, contiguous(shape), /*shown=*/true);
    switch (part) {
      case ExplainPart::loops: return bound.loops();
      case ExplainPart::source: return "the CPU interprets strips and generates no source\n";
      default: return bound.describe() + "\n";
    }
  }

  [[nodiscard]] Outline outline(const Shape& shape) const override {
    const Bound_ bound(compiled_, contiguous(shape), /*shown=*/true);
    Outline outline;
    std::vector<bool>& stays = outline.stays;
    for (const Buffer& buffer : compiled_->program.buffers)
      stays.push_back(buffer.kind == BufferKind::crossing && bound.stays(static_cast<lower::BufferId>(stays.size())));
    return outline;
  }

  [[nodiscard]] ErrorModel error_model(const Shape&) const override { return {}; }

  [[nodiscard]] std::shared_ptr<const void> pack(const Bindings& bindings) const override {
    if (!compiled_->multiplies()) return nullptr;
    Product product;
    product.m = bindings.shape.m;
    product.n = bindings.shape.n;
    product.k = bindings.shape.k;
    product.a.dtype = compiled_->contraction->a;
    product.b = {.data = bindings.b.data,
                 .dtype = bindings.b.dtype,
                 .row_stride = bindings.b.strides[1],
                 .column_stride = bindings.b.strides[2]};
    product.pieces = product_pieces(compiled_->program);
    return std::make_shared<const PackedB>(pack_b(product, compiled_->isa, compiled_->threads));
  }

 private:
  [[nodiscard]] Bindings contiguous(const Shape& shape) const {
    Bindings bindings;
    bindings.shape = shape;
    const Axes all = problem_axes(compiled_->program.batched);
    if (const auto& contraction = compiled_->contraction) {
      bindings.a = row_major(all, shape.m, shape.k, contraction->a);
      bindings.b = row_major(all, shape.k, shape.n, contraction->b);
      // Of any form.
      if (contraction->a_form != Form::strided) bindings.addressing.a = Gathered{};
      if (contraction->b_form != Form::strided) bindings.addressing.b = Gathered{};
    } else {
      bindings.a = row_major(all, shape.m, shape.n, compiled_->source);
    }
    for (const Buffer& buffer : compiled_->program.buffers) bindings.buffers.push_back(row_major(buffer, shape));
    return bindings;
  }

  std::shared_ptr<const Compiled> compiled_;
};

std::optional<Isa> isa_of(const Target& target) {
  if (target.isa.empty()) return best_isa();
  return parse_isa(target.isa);
}

std::string text_of(const Error& error) { return error.message() + (error.hint().empty() ? "" : ". " + error.hint()); }

// What stands against the target and the problem, before the Program is looked at.
std::vector<std::string> target_refusals(const Problem& problem, const Target& target, const std::optional<Isa>& isa) {
  std::vector<std::string> reasons;
  if (!isa) {
    reasons.push_back("the CPU has no instruction set " + quoted(target.isa) + "; take portable, avx2, avx512 or amx");
  } else if (*isa > machine_isa()) {
    reasons.push_back("this machine has no " + std::string(name(*isa)) + "; the best it has is " +
                      std::string(name(machine_isa())));
  }
  if (!target.schedule.empty()) {
    reasons.push_back("the CPU chooses its schedule from the shapes; leave the schedule " + quoted(target.schedule) +
                      " out");
  }
  const auto contraction = problem.loop().contraction();
  if (contraction && contraction->groups > 1) reasons.push_back("groups of channels are not done on a CPU yet");
  if (contraction && contraction->parts) reasons.push_back("data gradients of a stride are not done on a CPU yet");
  if (contraction && reasons.empty()) {
    try {
      static_cast<void>(choose_blocking({.m = 1, .n = 1, .k = 1, .a = contraction->a, .b = contraction->b}, *isa));
    } catch (const Error& error) { reasons.push_back(text_of(error)); }
  }
  return reasons;
}

}  // namespace

std::vector<std::string> refusals(const Problem& problem, const Program& program, const Target& target) {
  const std::optional<Isa> isa = isa_of(target);
  std::vector<std::string> reasons = target_refusals(problem, target, isa);
  if (!reasons.empty()) return reasons;
  try {
    static_cast<void>(prepare(program, strips(*isa)));
  } catch (const Error& error) { reasons.push_back(text_of(error)); }
  return reasons;
}

std::unique_ptr<Executable> compile(const Problem& problem, std::shared_ptr<const Program> program,
                                    const Target& target) {
  const std::optional<Isa> isa = isa_of(target);
  const std::vector<std::string> reasons = target_refusals(problem, target, isa);
  if (!reasons.empty()) throw Error(ErrorCode::unsupported, reasons[0]);
  auto compiled = std::make_shared<Compiled>();
  compiled->contraction = problem.loop().contraction();
  if (const auto source = problem.loop().facts().source) compiled->source = source->dtype;
  compiled->isa = *isa;
  compiled->program = prepare(*program, strips(compiled->isa));
  compiled->threads = target.threads > 0 ? target.threads : core::available_threads();
  return std::make_unique<CpuExecutable>(std::move(compiled));
}

}  // namespace postlude::inline v0::cpu
