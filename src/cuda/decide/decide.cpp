// The kernels that a Program becomes, one step after another.
#include "cuda/decide/beside.h"
#include "cuda/decide/by_groups.h"
#include "cuda/decide/decider.h"
#include "cuda/decide/fold.h"
#include "cuda/decide/pack.h"
#include "cuda/decide/patches.h"
#include "cuda/decide/product.h"
#include "cuda/decide/turn.h"

#include <postlude/error.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace postlude::inline v0::cuda {

using lower::BufferKind;
using lower::Phase;
using lower::Program;

Program Decider::accumulator_program(const Program& of) {
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

int Decider::product_phase(const Program& program) {
  for (std::size_t p = 0; p < program.phases.size(); ++p) {
    if (program.phases[p].domain == (Axis::m | Axis::n) && program.phases[p].reads_accumulator())
      return static_cast<int>(p);
  }
  return -1;
}

void Decider::limits() const {
  const std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;
  if (shape_.m > most || shape_.n > most || shape_.k > most || shape_.batch > 65535) {
    throw Error(ErrorCode::size_overflow,
                "an extent is beyond what the GPU kernels index (2^30 rows, columns or K; 65535 batches)");
  }
  // A residue has the rows of all images.
  if (!layout_.parts.empty() && shape_.batch > most / std::max<std::int64_t>(1, shape_.m)) {
    throw Error(ErrorCode::size_overflow,
                "the images of a strided data gradient have more pixels together than the GPU kernels index (2^30)",
                "Split the images.");
  }
  // Each may be a kernel of its own, which is told where every buffer lies.
  constexpr std::size_t most_reductions = 1024;
  std::size_t reductions = 0;
  for (const lower::Phase& phase : program_.phases) reductions += phase.reductions.size();
  if (reductions > most_reductions) {
    throw Error(ErrorCode::unsupported,
                "the epilogue has " + std::to_string(reductions) + " reductions, and for a GPU at most " +
                    std::to_string(most_reductions) + " are compiled",
                "Give some of them an epilogue of their own, over a stream.");
  }
}

// Which phase runs where.
void Decider::place_phases() {
  for (int p = 0; p < static_cast<int>(program_.phases.size()); ++p) {
    Where where = Where::memory;
    if (d_.fused) {
      const FusedEpilogue& e = product_->epilogue;
      if (p == e.phase) where = Where::fragments;
      else if (p == e.held) where = Where::held;
      else if (e.runs(p)) where = across_of(program_.phases[p]) >= Across::groups ? Where::grouped : Where::folded;
    }
    d_.phases.push_back(where);
    d_.in_pass.push_back(p);
  }
  for (const Pass& pass : passes_)
    for (const RowPhase& row : pass.kernel.run) d_.in_pass[row.phase] = pass.kernel.run.front().phase;
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
  if (d_.product && subject_.arch == "sm_90") d_.portable = "Hopper's own kernel is compiled for sm_90a";
  d_.error = error();
  d_.fast = product_ && subject_.request.fast;
  emit_passes(true);
  const bool plain = !product_ && !stream_ && product_phase_ >= 0 && shape_.batch > 0 && shape_.m > 0 && shape_.n > 0;
  const bool residues = product_ && variant_.scattered && !product_->schedule.mma;
  if (residues) emit_residues();
  for (std::size_t i = 0; !residues && i < std::max<std::size_t>(1, layout_.parts.size()); ++i) {
    if (!layout_.parts.empty()) part_ = &layout_.parts[i];
    if (!packed_parts_.empty()) packed_b_ = packed_parts_[i];
    if (product_) emit_product();
    else if (plain) emit_plain_product();
  }
  emit_passes(false);
  return std::move(d_);
}

namespace {

// What is decided if every kernel compiles well, and which ones a judge would see.
struct Foretold {
  Decision decision;
  std::vector<std::shared_ptr<const std::string>> asked = {};
};

Foretold foretell(const Subject& subject, const Layout& layout) {
  std::vector<std::shared_ptr<const std::string>> asked;
  const Judge judge = [&](const auto& source) { return asked.push_back(source), std::string(); };
  Decision decision = Decider(subject, layout, judge).run();
  return {std::move(decision), std::move(asked)};
}

// That, if they do; else what is decided where the first one that does not is known.
Decision judged(Foretold foretold, const Subject& subject, const Layout& layout, const Judge& judge) {
  for (const auto& source : foretold.asked) {
    const std::string reason = judge(source);
    if (reason.empty()) continue;
    const Judge known = [&](const auto& other) { return *other == *source ? reason : judge(other); };
    return Decider(subject, layout, known).run();
  }
  return std::move(foretold.decision);
}

// What a product is expected to take, with its passes over memory; of the portable kernel the model says nothing here.
double expected_of_any(const Decision& d, const Subject& subject, const Layout& layout) {
  const Considered* const chosen = d.chosen();
  if (!chosen || chosen->schedule.mma) return std::numeric_limits<double>::infinity();
  if (d.passes == 0) return chosen->microseconds;
  double bytes = 0;
  for (std::size_t p = 0; p < d.phases.size(); ++p)
    if (d.phases[p] == Where::memory) bytes += d.outline.phases[p].read + d.outline.phases[p].written;
  const Shape& shape = layout.shape;
  const int each = static_cast<int>(bytes / (double(shape.batch * shape.m) * double(shape.n)) + 0.5);
  return chosen->microseconds + pass_behind(shape, shape.n, layout.turned, each, subject.multiprocessors);
}

// Nor does it of an accumulator through memory.
double expected(const Decision& d, const Subject& subject, const Layout& layout) {
  return d.fused ? expected_of_any(d, subject, layout) : std::numeric_limits<double>::infinity();
}

// How much of the time the model is to expect of a turned product (decision 0269). Behind a short K, and of few rows,
// it foretells more than there is, and of statistics there is nothing, unless a launch is saved; in groups there never
// is.
double gain_asked(const Subject& subject, const Layout& layout, bool saves) {
  constexpr double of_elements = 0.99, of_statistics = 0.98, of_few = 0.95;
  constexpr std::int64_t least_rows = 129;
  std::int64_t least_k = 1024;
  bool elements = true;
  for (const Phase& phase : subject.program->phases) {
    elements = elements && phase.reductions.empty();
    if (std::ranges::any_of(phase.reductions, [](const lower::Reduction& r) { return r.group != 0; })) return 0;
    // What becomes a column's is folded by all warps of a subtile, which a shorter K does not hide.
    if (std::ranges::any_of(phase.reductions, [](const lower::Reduction& r) { return !r.axes.has(Axis::m); }))
      least_k = 2048;
  }
  const bool large = layout.shape.m >= least_rows && layout.shape.k >= least_k;
  if (elements) return large ? of_elements : of_few;
  return large || saves ? of_statistics : 0;
}

// Whether the tiles that hold groups, if any do, leave multiprocessors to others.
bool leaves_some(const Decision& d, const Subject& subject, const Shape& shape) {
  const Considered* const chosen = d.fused ? d.chosen() : nullptr;
  if (!chosen || chosen->schedule.mma) return !d.fused;
  return ceil_div(shape.m, chosen->schedule.bm) * ceil_div(shape.n, chosen->schedule.bn) < subject.multiprocessors;
}

constexpr double gain_by_groups = 0.93;  // of the time: the model foretells a few percent more than there is

// The problem, or each of its groups of columns as one, where that is asked for, or the model expects less of it, or of
// a stream fewer passes do.
std::optional<Decision> decide_by_groups(const Subject& subject, const Layout& layout, const Judge& judge) {
  const Request& request = subject.request;
  std::string why;
  const bool free = !request.schedule && !request.through_memory && !request.turned;
  const bool stream = !subject.problem.loop().contraction();
  if (!(request.by_groups || (free && (stream || (subject.arch == "sm_90a" && !request.mma)))) ||
      is_empty(subject, layout.shape))
    return {};
  const std::optional<Restated> other = by_groups(subject, layout, why);
  if (request.by_groups && !other)
    throw Error(ErrorCode::bad_schedule, "groups are no problems of their own here: " + why,
                "Leave out \"by groups\".");
  if (!other) return {};
  Decision decision;
  if (request.by_groups) {
    decision = Decider(other->subject, other->layout, judge).run();
  } else {
    Foretold as_given = foretell(subject, layout);
    if (!leaves_some(as_given.decision, subject, layout.shape))
      return judged(std::move(as_given), subject, layout, judge);
    constexpr int eights = 8;  // columns that a pass reads at a time
    if (stream && other->layout.shape.n % eights != 0) return std::move(as_given.decision);
    Foretold split = foretell(other->subject, other->layout);
    if (stream) return std::move((split.decision.passes < as_given.decision.passes ? split : as_given).decision);
    if (expected(split.decision, other->subject, other->layout) >
        gain_by_groups * expected_of_any(as_given.decision, subject, layout))
      return judged(std::move(as_given), subject, layout, judge);
    decision = judged(std::move(split), other->subject, other->layout, judge);
    if (!decision.fused) return judged(std::move(as_given), subject, layout, judge);
  }
  decision.by_groups = true;
  return decision;
}

// The product, or that of the other's rows, where that is asked for or the model expects less of it.
Decision decide_either(const Subject& subject, const Layout& layout, const Judge& judge) {
  const Request& request = subject.request;
  const auto refused = [](const std::string& why) {
    return Error(ErrorCode::bad_schedule, "the product is not turned here: " + why, "Leave out \"turned\".");
  };
  std::string why;
  const bool may = (request.turned || !request.schedule) && !request.through_memory && !is_empty(subject, layout.shape);
  const std::optional<Restated> other = may ? turned(subject, layout, why) : std::nullopt;
  if (!other && request.turned && !why.empty()) throw refused(why);
  if (!other) return Decider(subject, layout, judge).run();
  if (!request.turned) {
    Foretold as_given = foretell(subject, layout);
    const int passes = as_given.decision.passes;
    if (gain_asked(subject, layout, passes != 0) == 0) return judged(std::move(as_given), subject, layout, judge);
    Foretold as_turned = foretell(other->subject, other->layout);
    const Decision& d = as_turned.decision;
    const int left = d.passes;
    const double now = expected(as_given.decision, subject, layout), gain = gain_asked(subject, layout, left < passes);
    if (!d.fused || gain == 0 || expected(d, other->subject, other->layout) > gain * now)
      return judged(std::move(as_given), subject, layout, judge);
    Decision decision = judged(std::move(as_turned), other->subject, other->layout, judge);
    if (!decision.fused || decision.passes > left) return judged(std::move(as_given), subject, layout, judge);
    turn_back(decision);
    return decision;
  }
  Decision decision = Decider(other->subject, other->layout, judge).run();
  if (!decision.fused)
    throw refused("its epilogue does not begin in the product's launch, where rows are columns: " + decision.why);
  turn_back(decision);
  return decision;
}

}  // namespace

Decision decide(const Subject& subject, const Layout& layout, const Judge& judge) {
  const std::optional<Layout> one = folded(subject, layout);
  Layout chosen = one ? *one : layout;
  // A strided data gradient that has no residue: no tap touches a pixel, and the accumulator is zeros.
  const std::optional<Contraction> gemm = subject.problem.loop().contraction();
  if (gemm && gemm->parts && layout.parts.empty() && std::holds_alternative<std::monostate>(layout.a_rows))
    chosen.shape.k = 0;
  const std::optional<Layout> stencil = depthwise(subject, layout);
  const std::optional<Layout> patches = stencil ? std::nullopt : by_patches(subject, chosen);
  if (stencil || patches) chosen = stencil ? *stencil : *patches;
  else if (std::optional<Layout> columns = beside(subject, chosen)) chosen = *std::move(columns);
  if (std::optional<Layout> dense = together(subject, chosen)) chosen = *std::move(dense);
  if (std::optional<Layout> by_weights = together_by_weights(subject, chosen); by_weights && !filters(subject, chosen))
    chosen = *std::move(by_weights);
  if (std::optional<Layout> copied = packed(subject, chosen)) chosen = *std::move(copied);
  if (std::optional<Decision> decision = decide_by_groups(subject, chosen, judge)) return *std::move(decision);
  Decision decision = decide_either(subject, chosen, judge);
  if (decision.turned) return decision;
  decision.folded = one && !stencil && layout.shape.batch > 1;
  decision.patches = patches.has_value();
  return decision;
}

}  // namespace postlude::inline v0::cuda
