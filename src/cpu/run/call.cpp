#include "cpu/run/call.h"

#include "core/threads.h"
#include "cpu/product/blocking.h"

#include <algorithm>
#include <cstddef>
#include <new>

namespace postlude::inline v0::cpu {

Memory::Memory(std::int64_t bytes) {
  if (bytes == 0) return;
  data_.reset(
      static_cast<char*>(::operator new (static_cast<std::size_t>(bytes), std::align_val_t{line}, std::nothrow)));
  if (!data_) {
    throw Error(ErrorCode::out_of_memory, std::to_string(bytes) + " bytes of workspace could not be allocated");
  }
}
void Memory::Free::operator()(char* data) const { ::operator delete (data, std::align_val_t{line}); }

Call::Call(std::shared_ptr<const Subject> subject, Decision decision, const Bindings& bindings)
    : subject_(std::move(subject)),
      decision_(std::move(decision)),
      a_(bindings.a),
      b_(bindings.b),
      addressing_(bindings.addressing),
      packed_(static_cast<const PackedB*>(bindings.packed_b)),
      buffers_(bindings.buffers),
      workspace_(decision_.buffer_bytes + decision_.frame_bytes()),
      pass_frames_(decision_.passes.size()) {
  a_.strides = decision_.a.strides;
  bind_buffers();
  bind_frames();
  for (std::size_t p = 0; p < pass_frames_.size(); ++p) bind_pass(decision_.passes[p], pass_frames_[p]);
}

void Call::bind_buffers() {
  buffers_.resize(decision_.buffers.size());
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const BufferPlace& place = decision_.places[i];
    buffers_[i].strides = decision_.buffers[i].strides;
    if (place.where == BufferPlace::Where::caller) continue;
    buffers_[i].dtype = decision_.buffers[i].dtype;
    if (place.where == BufferPlace::Where::workspace) buffers_[i].data = workspace_.data() + place.at;
  }
}

// A thread's own values begin half a page from where a stream's rows do: loads wait for stores to the same place of
// another page. Softmax of 4096 x 4096, one thread of Zen 4: 0.93 of the time it takes where both begin pages.
void Call::bind_frames() {
  frames_ = workspace_.data() + decision_.buffer_bytes;
  if (!subject_->multiplies()) {
    const std::uintptr_t apart = reinterpret_cast<std::uintptr_t>(a_.data) + page / 2;
    frames_ += (apart - reinterpret_cast<std::uintptr_t>(frames_)) % page / line * line;
  }
  shared_ = memory_of(threads());
  combine_scratch_ = shared_ + decision_.shared_bytes;
}

void Call::bind_pass(PassDecision& pass, Frames& frames) {
  if (pass.assembly) pass.assembly->allocate();
  if (pass.packed) allocate(*pass.packed);
  for (PhaseDecision& phase : pass.phases) {
    phase.executor.bind(a_, buffers_);
    std::vector<ReductionExecutor>& reductions = phase.executor.reductions();
    for (std::size_t r = 0; r < reductions.size(); ++r) reductions[r].set_workspace(shared_ + phase.partial[r]);
  }
  frames.phases.reserve(static_cast<std::size_t>(threads()) * pass.phases.size());
  for (int t = 0; t < threads(); ++t) {
    for (const std::int64_t local : pass.locals) frames.locals.push_back(memory_of(t) + local);
    for (const PhaseDecision& phase : pass.phases)
      frames.phases.push_back(phase.executor.make_frame(memory_of(t) + phase.frame));
  }
  if (!pass.blocking) {
    if (pass.pass.whole_rows) prepare_blocks(pass, frames);
    return;
  }
  frames.product = product_of(pass, 0);
  frames.consuming = {this, &pass, &frames, 0, -1};
  // A product of one part forks nothing: a fork costs about 1 us, and on a busy machine 10 ms was seen.
  frames.options.threads = static_cast<int>(std::clamp<std::int64_t>(pass.blocking->units, 1, threads()));
  if (pass.over_batches) return;
  set_options(pass, frames.options, frames.direct, frames.consuming);
  prepare_product(pass, frames);
  record(pass, frames);
}

// A call that is one small product of one thread, which nothing follows or precedes.
void Call::record(const PassDecision& pass, const Frames& frames) {
  if (decision_.passes.size() > 1 || decision_.shape.batch != 1 || pass.blocking->units > 1) return;
  if (pass.blocking->small == Small::no || pass.assembly || !pass.phases.empty()) return;
  if (pass.direct && !pass.direct->reads_scalars())
    small_ = std::make_unique<SmallCalls>(frames.product, *pass.blocking, frames.options);
}

void Call::prepare_blocks(const PassDecision& pass, Frames& frames) const {
  Block block;
  block.rows = pass.pass.block_rows;
  const std::size_t phases = pass.phases.size();
  for (std::size_t f = 0; f < frames.phases.size(); ++f) {
    const PhaseExecutor& phase = pass.phases[f % phases].executor;
    block.columns = phase.columns();
    block.locals = frames.locals.data() + f / phases * pass.locals.size();
    phase.prepare(frames.phases[f], block);
  }
}

// A small product of one block, which one thread has.
void Call::prepare_product(const PassDecision& pass, Frames& frames) const {
  const Blocking& blocking = *pass.blocking;
  if (blocking.small == Small::no || pass.assembly || frames.product.m > blocking.group_rows) return;
  Block block;
  block.rows = frames.product.m;
  block.acc = reinterpret_cast<char*>(frames.options.thread_scratch + blocking.small_acc);
  block.acc_row = blocking.acc_row;
  block.piece_stride = blocking.piece_stride;
  block.locals = frames.locals.data();
  for (std::size_t p = 0; p < pass.phases.size(); ++p) {
    const PhaseExecutor& phase = pass.phases[p].executor;
    block.columns = phase.columns();
    phase.prepare_whole(frames.phases[p], block);
  }
}

void Call::run(void*) {
  if (small_) return small_->run();
  for (std::size_t p = 0; p < pass_frames_.size(); ++p) {
    PassDecision& pass = decision_.passes[p];
    Frames& frames = pass_frames_[p];
    for (std::size_t f = 0; f < frames.phases.size(); ++f)
      pass.phases[f % pass.phases.size()].executor.begin(frames.phases[f]);
    if (pass.blocking) pack(pass), run_product(pass, frames);
    else run_blocks(pass, frames);
    for (const PhaseDecision& phase : pass.phases) {
      for (const ReductionExecutor& reduction : phase.executor.reductions()) {
        if (!reduction.owned()) reduction.combine(combine_scratch_);
      }
    }
  }
}

// A block, whose number is in `partial`.
void Call::run_phases(const PassDecision& pass, Frames& frames, int thread, Block block) {
  const std::size_t phases = pass.phases.size();
  block.locals = frames.locals.data() + static_cast<std::size_t>(thread) * pass.locals.size();
  for (std::size_t p = 0; p < phases; ++p) {
    const PhaseExecutor& phase = pass.phases[p].executor;
    // Not the columns of the product, of which the phase may read pieces.
    if (phases > 1 || pass.pass.whole_rows) {
      block.column0 = 0;
      block.columns = phase.columns();
    }
    phase.run(frames.phases[static_cast<std::size_t>(thread) * phases + p], block);
  }
}

void Call::run_blocks(const PassDecision& decision, Frames& frames) {
  const Pass& pass = decision.pass;
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
      run_phases(decision, frames, thread, block);
    }
  });
}

void Call::consume(void* context, const FinishedBlock& finished) {
  const Consuming& consuming = *static_cast<const Consuming*>(context);
  const Pass& pass = consuming.pass->pass;
  Block block;
  block.batch = consuming.batch;
  block.row0 = finished.row0;
  block.rows = finished.rows;
  block.column0 = finished.column0;
  block.columns = finished.columns;
  block.acc = static_cast<char*>(finished.acc);
  block.acc_row = finished.acc_row;
  block.piece_stride = finished.piece_stride;
  block.partial = (block.batch * pass.row_blocks() + block.row0 / pass.block_rows) * pass.column_blocks() +
                  block.column0 / pass.block_columns;
  if (consuming.pass->sums) return consuming.self->add_rows(*consuming.pass, block);
  const int thread = consuming.thread >= 0 ? consuming.thread : finished.thread;
  consuming.self->run_phases(*consuming.pass, *consuming.frames, thread, block);
}

// A block whose phase is but sums of columns: to begin a phase takes longer than these (decision 0304).
void Call::add_rows(const PassDecision& pass, const Block& block) {
  const ReductionExecutor& reduction = pass.phases[0].executor.reductions()[0];
  char* const entry = reduction.entry(block.partial);
  reduction.reset(entry);
  kernels_for(pass.blocking->isa, {})  // of f32
      .add_rows(reinterpret_cast<const float*>(block.acc), block.acc_row, block.rows, block.columns,
                reduction.sums(entry, 0, {}));
}

Product Call::product_of(const PassDecision& pass, std::int64_t batch) const {
  const auto matrix = [&](const Bound& bound) {
    const std::int64_t offset = batch * bound.strides[0] * size_of(bound.dtype);
    return Matrix{.data = bound.data ? static_cast<const char*>(bound.data) + offset : nullptr,
                  .dtype = bound.dtype,
                  .row_stride = bound.strides[1],
                  .column_stride = bound.strides[2]};
  };
  const Shape& shape = decision_.shape;
  Product product;
  product.m = shape.m;
  product.n = shape.n;
  product.k = shape.k;
  product.a = matrix(a_);
  if (!std::holds_alternative<std::monostate>(addressing_.a)) product.a.address = &addressing_.a;
  product.a.batch = batch;
  product.a.row0 = batch * shape.m;
  product.b = matrix(b_);
  if (!std::holds_alternative<std::monostate>(addressing_.b)) product.b.address = &addressing_.b;
  product.packed_b = pass.packed ? &*pass.packed : packed_;
  product.pieces = pass.pass.pieces;
  return product;
}

void Call::set_options(const PassDecision& pass, RunOptions& options, Direct& direct, Consuming& consuming) const {
  const std::int64_t batch = consuming.batch;
  char* const own = memory_of(std::max(0, consuming.thread));
  options.thread_scratch = reinterpret_cast<std::byte*>(own);
  options.thread_scratch_stride = static_cast<std::size_t>(decision_.thread_pitch);
  options.shared_scratch = reinterpret_cast<std::byte*>(pass.over_batches ? own + pass.thread_scratch : shared_);
  options.consumer = {consume, &consuming};
  if (pass.kept >= 0) {
    const Bound& output = buffers_[pass.kept];
    options.kept = static_cast<float*>(output.data) + batch * output.strides[0];
    options.kept_row = output.strides[1];
  }
  if (pass.direct) {
    direct = pass.direct->at(buffers_, batch);
    options.direct = &direct;
    options.stored_first = pass.rest != nullptr;
    options.prefetch[0] = {direct.add, direct.add_row_stride * 4, 4};
    // What a cache holds is stored to as fast without (decision 0267).
    if (pass.product.m * pass.product.n > large_b) options.prefetch[1] = {direct.out, direct.row_stride * 4, 4};
  } else if (!pass.pass.pieces_apart) {
    pass.phases[0].executor.touched(batch, options.prefetch);
  }
}

void Call::multiply(const PassDecision& pass, const Product& product, std::int64_t batch,
                    const RunOptions& options) const {
  if (pass.assembly) pass.assembly->run(product, batch, options);
  else cpu::run(product, *pass.blocking, options);
}

// B that all batches share, once a call.
void Call::pack(PassDecision& pass) {
  const auto stride = static_cast<std::size_t>(decision_.thread_pitch);
  if (pass.packed) {
    Product product = product_of(pass, 0);
    product.packed_b = nullptr;
    fill(*pass.packed, product, threads(), frames_, stride);
  } else if (pass.assembly) {
    pass.assembly->pack(product_of(pass, 0), threads(), frames_, stride);
  }
}

void Call::run_batch(const PassDecision& pass, Frames& frames, std::int64_t batch, int thread) {
  Consuming consuming{this, &pass, &frames, batch, thread};
  Direct direct;
  RunOptions options;
  options.threads = thread < 0 ? frames.options.threads : 1;
  set_options(pass, options, direct, consuming);
  multiply(pass, product_of(pass, batch), batch, options);
}

void Call::run_product(const PassDecision& pass, Frames& frames) {
  const std::int64_t batches = decision_.shape.batch;
  if (!pass.over_batches) {
    if (pass.direct && pass.direct->reads_scalars()) {
      frames.direct = pass.direct->at(buffers_, 0);
      frames.options.prefetch[0] = {frames.direct.add, frames.direct.add_row_stride * 4, 4};
    }
    if (batches > 0) multiply(pass, frames.product, 0, frames.options);
    for (std::int64_t batch = 1; batch < batches; ++batch) run_batch(pass, frames, batch, -1);
    return;
  }
  const int workers = static_cast<int>(std::min<std::int64_t>(threads(), batches));
  core::parallel(workers, [&](int thread) {
    for (std::int64_t batch = batches * thread / workers; batch < batches * (thread + 1) / workers; ++batch)
      run_batch(pass, frames, batch, thread);
  });
}

}  // namespace postlude::inline v0::cpu
