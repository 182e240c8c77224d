// The kernels that a Program becomes, one step after another.
#include "cuda/decide/beside.h"
#include "cuda/decide/decider.h"
#include "cuda/decide/fold.h"
#include "cuda/decide/pack.h"
#include "cuda/decide/patches.h"
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
  d_.fast = product_ && !product_->schedule.mma && promotes(variant_.a) != 0 && subject_.request.fast;
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

// What is decided if every kernel compiles well, and which ones a judge would see.
struct Foretold {
  Decision decision;
  std::vector<std::shared_ptr<const std::string>> asked = {};
};

static Foretold foretell(const Subject& subject, const Layout& layout) {
  std::vector<std::shared_ptr<const std::string>> asked;
  const Judge judge = [&](const auto& source) { return asked.push_back(source), std::string(); };
  Decision decision = Decider(subject, layout, judge).run();
  return {std::move(decision), std::move(asked)};
}

// That, if they do; else what is decided where the first one that does not is known.
static Decision judged(Foretold foretold, const Subject& subject, const Layout& layout, const Judge& judge) {
  for (const auto& source : foretold.asked) {
    const std::string reason = judge(source);
    if (reason.empty()) continue;
    const Judge known = [&](const auto& other) { return *other == *source ? reason : judge(other); };
    return Decider(subject, layout, known).run();
  }
  return std::move(foretold.decision);
}

// What the model expects of a product with its epilogue in one kernel of Hopper's.
static double expected(const Decision& d) {
  const Considered* const chosen = d.fused && d.passes == 0 ? d.chosen() : nullptr;
  return chosen && !chosen->schedule.mma ? chosen->microseconds : std::numeric_limits<double>::infinity();
}

// The product, or that of the other's rows, where that is asked for or the model expects less of it.
static Decision decide_either(const Subject& subject, const Layout& layout, const Judge& judge) {
  constexpr double gain = 0.99;
  constexpr std::int64_t least_rows = 129, least_k = 1024;  // of fewer rows it was not measured, by a short K slower
  const Request& request = subject.request;
  const bool may = request.turned || (!request.schedule && layout.shape.m >= least_rows && layout.shape.k >= least_k);
  const std::optional<Turned> other = may ? turned(subject, layout) : std::nullopt;
  if (!other && request.turned) {
    throw Error(
        ErrorCode::bad_schedule, "the product is not turned here",
        "it takes 16-bit operands and outputs, rows of whole 16 bytes, and an epilogue without reductions; leave "
        "the choice to the heuristic");
  }
  if (!other) return Decider(subject, layout, judge).run();
  Foretold as_turned = foretell(other->subject, other->layout);
  if (!request.turned) {
    Foretold as_given = foretell(subject, layout);
    if (expected(as_turned.decision) > gain * expected(as_given.decision))
      return judged(std::move(as_given), subject, layout, judge);
  }
  Decision decision = judged(std::move(as_turned), other->subject, other->layout, judge);
  if (!decision.fused) return Decider(subject, layout, judge).run();
  turn_back(decision);
  return decision;
}

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
  Decision decision = decide_either(subject, chosen, judge);
  if (decision.turned) return decision;
  decision.folded = one && !stencil && layout.shape.batch > 1;
  decision.patches = patches.has_value();
  return decision;
}

}  // namespace postlude::inline v0::cuda
