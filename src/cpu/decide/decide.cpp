#include "core/divide.h"
#include "cpu/decide/decision.h"
#include "cpu/decide/fold.h"
#include "cpu/product/blocking.h"
#include "cpu/strips/ops.h"

#include <algorithm>

namespace postlude::inline v0::cpu {

using lower::Buffer;
using lower::BufferId;
using lower::BufferKind;
using lower::Program;

namespace {

// Parts that follow one another.
class Parts {
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
Placed row_major(const Buffer& buffer, const Shape& shape) {
  return cpu::row_major(buffer.axes, rows_of(buffer, shape), columns_of(buffer, shape), buffer.dtype);
}

class Decider {
 public:
  Decider(const Subject& subject, const Layout& layout)
      : subject_(subject), program_(subject.program), layout_(layout), shape_(layout.shape) {}

  Decision decide() {
    to_.subject = &subject_;
    to_.shape = shape_;
    to_.a = layout_.a;
    to_.buffers = layout_.buffers;
    for (std::size_t i = 0; i < to_.buffers.size(); ++i) {  // one column is contiguous whatever its stride
      const Buffer& buffer = program_.buffers[i];
      if (buffer.axes.has(Axis::n) && columns_of(buffer, shape_) == 1) to_.buffers[i].strides[2] = 1;
    }
    for (Pass& pass : schedule(program_, shape_, subject_.multiplies())) {
      PassDecision& decision = to_.passes.emplace_back();
      decision.pass = std::move(pass);
      if (decision.pass.product) decide_product(decision);
    }
    place_buffers();
    for (PassDecision& pass : to_.passes) decide_phases(pass);
    for (PassDecision& pass : to_.passes) place_frames(pass);
    for (const PassDecision& pass : to_.passes) {
      if (pass.assembly) to_.packed_bytes += pass.assembly->packed_bytes();
      if (pass.packed) to_.packed_bytes += static_cast<std::int64_t>(pass.packed->bytes);
    }
    to_.thread_pitch = round_up(to_.thread_pitch, page) + page;  // a page more keeps threads' memory apart
    to_.combine_bytes = round_up(to_.combine_bytes, line);
    return std::move(to_);
  }

 private:
  void decide_product(PassDecision& to) const {
    Pass& pass = to.pass;
    const Addressing& addressing = layout_.addressing;
    const bool a_strided = std::holds_alternative<std::monostate>(addressing.a);
    const bool b_strided = std::holds_alternative<std::monostate>(addressing.b);
    const bool a_k_major = a_strided && (layout_.a.strides[2] == 1 || shape_.k == 1);
    to.product = {
        .m = shape_.m,
        .n = shape_.n,
        .k = shape_.k,
        .a = layout_.a.dtype,
        .b = layout_.b.dtype,
        .packed_b = layout_.packed_b,
        .b_n_major = b_strided && (layout_.b.strides[1] != 1 || shape_.k == 1) && layout_.b.strides[2] == 1,
        .b_k_major = b_strided && ((layout_.b.strides[1] == 1 && (shape_.k != 1 || layout_.b.strides[2] != 1)) ||
                                   (shape_.k == 1 && shape_.n == 1)),
        .pieces = pass.pieces,
        .addressed = layout_.packed_b ? subject_.contraction->a_form != Form::strided : !a_strided || !b_strided,
        .windows = subject_.contraction->a_form == Form::windows,
        .a_k_major = a_k_major,
        .a_close = a_k_major && layout_.a.strides[1] == shape_.k,
        .alone = stores_sums(pass)};
    decide_images(to);
    if (pass.pieces.count > 1) {
      ProductShape whole = to.product;
      whole.pieces = {};
      // A small product hands on whole rows, in which phases find the pieces: no column block has to hold all of them.
      if (!to.assembly && choose_blocking(whole, subject_.isa, true).small != Small::no) {
        to.product = whole;
        pass.pieces = {};
        pass.pieces_apart = false;
        pass.whole_rows = true;
      }
    }
    to.blocking = to.assembly ? to.assembly->blocking() : choose_blocking(to.product, subject_.isa, pass.whole_rows);
    pass.block_rows = to.blocking->group_rows;
    // A small product finishes blocks of whole rows too, and the phases behind it may be wider.
    const bool whole = pass.whole_rows || to.blocking->order != Order::blocks;
    pass.block_columns =
        std::max<std::int64_t>(1, whole ? pass.columns : std::min(pass.columns, to.blocking->column_block));
    to.over_batches = shape_.batch > 1 && to.blocking->units < std::int64_t{4} * subject_.threads;
    to.not_kept = refused_to_keep(to);
    if (to.not_kept == nullptr) {
      to.kept = output_for_accumulators(pass);
      if (to.kept >= 0) keep_accumulators(*to.blocking, to.product);
      else to.not_kept = "no f32 output of contiguous rows is first written after its rows' accumulators are used";
    }
    to.thread_scratch = round_up(static_cast<std::int64_t>(to.blocking->thread_bytes), line);
    to.shared_scratch = round_up(static_cast<std::int64_t>(to.blocking->shared_bytes), line);
  }

  // Whether sums are stored as they are.
  [[nodiscard]] bool stores_sums(const Pass& pass) const {
    const lower::Phase& phase = program_.phases[pass.first];
    return pass.count == 1 && pass.pieces.count == 1 && phase.code.size() == 1 && phase.stores.size() == 1 &&
           phase.stores[0].access.buffer < static_cast<BufferId>(layout_.buffers.size()) &&
           direct_form(program_, phase, to_.buffers);
  }

  // Several products for one output, and B that is packed once for several images.
  void decide_images(PassDecision& to) const {
    const Contraction& contraction = *subject_.contraction;
    const bool windows = contraction.a_form == Form::windows || contraction.b_form == Form::windows;
    const bool again = windows && shape_.batch > 1 && layout_.b.strides[0] == 0 && !layout_.packed_b;
    if (contraction.groups > 1 || contraction.parts) {
      to.assembly.emplace(to.product, layout_.addressing, contraction.parts, subject_.isa, again);
    } else if (again && shape_.m > 0 && shape_.n > 0) {
      to.packed = packed_layout(to.product, subject_.isa);
      to.product.packed_b = true;
    }
  }

  [[nodiscard]] const char* refused_to_keep(const PassDecision& to) const {
    if (to.assembly) return "several products are put together";
    if (to.blocking->order == Order::blocks) return "they are used as soon as a block has them";
    if (!may_keep(*to.blocking, to.product)) return "they are summed in parts, in pieces, or N is no multiple of 16";
    return program_.accumulator == DType::f32 ? nullptr : "they are integers";
  }

  // An output as large as the accumulator, of which nothing is written before a later phase of the pass has its rows:
  // accumulators of whole rows wait there instead of passing through memory of their own (decision 0037).
  [[nodiscard]] BufferId output_for_accumulators(const Pass& pass) const {
    const std::vector<lower::Phase>& phases = program_.phases;
    for (BufferId i = 0; i < static_cast<BufferId>(layout_.buffers.size()); ++i) {
      const Buffer& buffer = program_.buffers[i];
      const Placed& placed = layout_.buffers[i];
      if (buffer.kind != BufferKind::output || placed.dtype != DType::f32 || !buffer.axes.contains(tile_axes) ||
          placed.strides[2] != 1 || placed.strides[1] < shape_.n || buffer.rows.at(shape_.m) != shape_.m ||
          buffer.columns.at(shape_.n) != shape_.n || (shape_.batch > 1 && placed.strides[0] == 0)) {
        continue;
      }
      const auto first = phases.begin() + pass.first;
      const auto stored = [&](const lower::Phase& p) { return p.stores_to(i); };
      const auto read = [&](const lower::Phase& p) { return p.loads(i); };
      if (std::any_of(first + 1, first + pass.count, stored) && !stored(*first) &&
          std::none_of(phases.begin(), phases.end(), read) && !placed.in_place)
        return i;
    }
    return -1;
  }

  // Whether a phase still stores it (see keep.h).
  [[nodiscard]] bool crosses(BufferId buffer) const {
    return std::any_of(program_.phases.begin(), program_.phases.end(),
                       [&](const lower::Phase& phase) { return phase.stores_to(buffer); });
  }

  // Statistics, and what crosses between passes, stand in the workspace.
  void place_buffers() {
    const std::size_t count = program_.buffers.size();
    to_.buffers.resize(count);  // with those that prepare() added
    to_.places.resize(count);
    local_.assign(count, -1);
    for (const PassDecision& pass : to_.passes) {
      for (std::size_t l = 0; l < pass.pass.locals.size(); ++l) local_[pass.pass.locals[l]] = static_cast<int>(l);
    }
    Parts parts;
    for (std::size_t i = 0; i < count; ++i) {
      const Buffer& buffer = program_.buffers[i];
      if (buffer.kind != BufferKind::statistic && buffer.kind != BufferKind::crossing) continue;
      using Where = BufferPlace::Where;
      to_.buffers[i] = row_major(buffer, shape_);
      to_.buffers[i].base = static_cast<int>(2 * (2 + count) + i);  // nobody else's
      BufferPlace& place = to_.places[i];
      place.local = local_[i];
      const bool unused = buffer.kind == BufferKind::crossing && !crosses(static_cast<BufferId>(i));
      place.where = local_[i] >= 0 ? Where::rows : unused ? Where::nowhere : Where::workspace;
      if (place.where == Where::workspace) place.at = parts.add(to_.bytes_of(static_cast<BufferId>(i)));
    }
    to_.buffer_bytes = parts.bytes();
  }

  void decide_phases(PassDecision& to) const {
    const Pass& pass = to.pass;
    if (pass.product) decide_direct(to);
    if (to.direct && !to.rest) return;
    for (const BufferId buffer : pass.locals) {
      // 16 elements more keep rows from lying a multiple of 4 KB apart.
      to.local_rows.push_back(round_up(program_.buffers[buffer].columns.at(shape_.n), 16) + 16);
    }
    PhaseSetting setting;
    setting.program = &program_;
    setting.table = &strips(subject_.isa);
    setting.shape = shape_;
    setting.buffers = to_.buffers;
    setting.locals = local_;
    setting.local_rows = to.local_rows;
    setting.source = subject_.multiplies() ? nullptr : &layout_.a;
    setting.pieces_apart = pass.pieces_apart;
    setting.block_rows = pass.block_rows;
    setting.block_columns = pass.block_columns;
    std::vector<PhaseExecutor> executors;
    executors.reserve(static_cast<std::size_t>(pass.count));
    for (int p = pass.first; p < pass.first + pass.count; ++p) {
      setting.phase = to.rest ? to.rest.get() : &program_.phases[p];
      if (p + 1 == pass.first + pass.count && to.kept < 0) setting.past = leave_caches(setting);
      executors.emplace_back(setting);
    }
    to.sums = to.sums && !executors[0].reductions()[0].owned();
    ask_ahead(pass, setting, executors);
    for (PhaseExecutor& executor : executors) to.phases.push_back({std::move(executor), 0, {}});
  }

  // Whether a block can be handed on where its tiles were stored.
  static bool may_store_first(const PassDecision& to) {
    const Blocking& b = *to.blocking;
    return !to.assembly && b.order == Order::blocks && !b.thin && !b.turned && b.small == Small::no;
  }

  void decide_direct(PassDecision& to) const {
    if (to.pass.count > 1) to.not_direct = "several phases use the accumulators";
    else if (to.pass.pieces.count > 1) to.not_direct = "the accumulators are read in pieces";
    else to.direct = direct_form(program_, program_.phases[to.pass.first], to_.buffers);
    if (!to.direct && to.not_direct == nullptr && may_store_first(to)) {
      if (std::optional<DirectHead> head = direct_head(program_, program_.phases[to.pass.first], to_.buffers)) {
        to.direct = head->form;
        to.rest = std::make_shared<const lower::Phase>(std::move(head->rest));
        to.sums = is_column_sum(*to.rest);
      }
    }
    if (!to.direct && to.not_direct == nullptr) {
      to.not_direct = "it is more than a scale, a bias along N, an f32 tile and bounds, into one f32 output";
    }
  }

  // In each thread's memory scratch of the product, local values, and phases' frames; in what all share scratch of the
  // product, and partial results.
  void place_frames(PassDecision& to) {
    Parts thread, shared;
    thread.add(to.thread_scratch + (to.over_batches ? to.shared_scratch : 0));
    shared.add(to.over_batches ? 0 : to.shared_scratch);
    for (std::size_t l = 0; l < to.local_rows.size(); ++l) {
      to.locals.push_back(
          thread.add(to.local_rows[l] * to.pass.block_rows * size_of(program_.buffers[to.pass.locals[l]].dtype)));
    }
    for (PhaseDecision& phase : to.phases) {
      phase.frame = thread.add(phase.executor.frame_bytes());
      for (const ReductionExecutor& reduction : phase.executor.reductions()) {
        phase.partial.push_back(shared.add(reduction.workspace_bytes()));
        to_.combine_bytes = std::max(to_.combine_bytes, reduction.scratch_bytes());
      }
    }
    to_.thread_pitch = std::max(to_.thread_pitch, thread.bytes());
    to_.shared_bytes = std::max(to_.shared_bytes, shared.bytes());
  }

  const Subject& subject_;
  const Program& program_;
  const Layout layout_;
  const Shape shape_;
  std::vector<int> local_;  // per buffer: which of its pass stays with the rows, or -1
  Decision to_;
};

// Of forms and groups whose sizes no shape tells: A and B that are no stride apart, and one residue of all rows.
void address(Layout& layout, const Contraction& contraction) {
  const Shape& shape = layout.shape;
  Addressing& addressing = layout.addressing;
  if (contraction.a_form != Form::strided) addressing.a = Gathered{};
  if (contraction.b_form != Form::strided) addressing.b = Gathered{};
  addressing.groups.along = contraction.b_form == Form::windows ? Groups::Along::m : Groups::Along::n;
  addressing.groups.count = contraction.groups;
  if (!contraction.parts) return;
  Residue part;
  part.place[2].extent = part.a.axes[2].pixels = static_cast<std::int32_t>(shape.m);
  part.a.channels = shape.k;
  addressing.parts.push_back(part);
}

}  // namespace

Layout usual_layout(const Subject& subject, const Shape& shape) {
  Layout layout;
  layout.shape = shape;
  const Axes all = subject.program.batched ? Axis::b | tile_axes : tile_axes;
  if (const auto& contraction = subject.contraction) {
    layout.a = row_major(all, shape.m, shape.k, contraction->a);
    layout.b = row_major(all, shape.k, shape.n, contraction->b);
    address(layout, *contraction);
  } else {
    layout.a = row_major(all, shape.m, shape.n, subject.source);
  }
  for (const Buffer& buffer : subject.program.buffers) layout.buffers.push_back(row_major(buffer, shape));
  int base = 0;
  layout.a.base = base++;
  layout.b.base = base++;
  for (Placed& placed : layout.buffers) placed.base = base++;
  return layout;
}

Decision decide(const Subject& subject, const Layout& layout) {
  return Decider(subject, folded(subject, layout)).decide();
}

std::int64_t Decision::frame_bytes() const {
  return page + thread_pitch * subject->threads + shared_bytes + combine_bytes;
}

std::int64_t Decision::bytes_of(BufferId id) const {
  const Buffer& buffer = subject->program.buffers[id];
  return (buffer.axes.has(Axis::b) ? shape.batch : 1) * rows_of(buffer, shape) * columns_of(buffer, shape) *
         size_of(buffer.dtype);
}

bool Decision::stays(BufferId buffer) const {
  return places[buffer].where == BufferPlace::Where::rows || places[buffer].where == BufferPlace::Where::nowhere;
}

}  // namespace postlude::inline v0::cpu
