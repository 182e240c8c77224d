// A Decision as text, and as what a Plan asks of it.
#include "cpu/decide/decision.h"
#include "cpu/product/pack.h"

namespace postlude::inline v0::cpu {

using lower::Buffer;
using lower::BufferId;
using lower::BufferKind;

namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

// Phases have the numbers that they have in explain's list; one that runs in parts has letters behind it: "1a".
std::string phase_name(const Subject& subject, int phase) {
  const std::vector<int>& of = subject.phase_of;
  int first = phase, last = phase;
  while (first > 0 && of[first - 1] == of[phase]) --first;
  while (last + 1 < static_cast<int>(of.size()) && of[last + 1] == of[phase]) ++last;
  std::string text = number(of[phase]);
  if (first != last) text += static_cast<char>('a' + phase - first);
  return text;
}

const char* name(Order order) {
  switch (order) {
    case Order::blocks: return "blocks";
    case Order::collected: return "collected";
    case Order::rows: return "rows";
  }
  return "";
}

std::string blocking_text(const PassDecision& to) {
  const Blocking& blocking = *to.blocking;
  const bool pairs = kernels_for(blocking.isa, to.product).careful_tiles != nullptr;
  std::string text = blocking.k_block > 0 ? ", K by " + number(blocking.k_block) : "";  // none: no product of its own
  if (pairs) text += ", pairs of bf16";
  if (blocking.small != Small::no) {
    text += blocking.small == Small::packed    ? ", small, B packed whole"
            : blocking.small == Small::upright ? ", small, vectors of rows"
            : blocking.small == Small::crossed ? ", small, vectors of columns"
                                               : ", small";
    if (blocking.dots > 0) text += ", " + number(blocking.dots) + " columns as dot products";
  }
  if (blocking.thin) text += ", thin";
  if (blocking.turned) text += ", turned";
  if (blocking.order != Order::blocks) text += std::string(", ") + name(blocking.order);
  if (blocking.across > 1) text += ", " + number(blocking.across) + " column blocks for each row";
  if (blocking.splits > 1) text += ", split in " + number(blocking.splits);
  return text;
}

std::string pass_text(const Decision& decision, const PassDecision& to) {
  const Pass& pass = to.pass;
  const Subject& subject = *decision.subject;
  const std::string first = phase_name(subject, pass.first);
  std::string text =
      pass.count == 1 ? "phase " + first : "phases " + first + ".." + phase_name(subject, pass.first + pass.count - 1);
  if (to.assembly) text += " behind " + to.assembly->text();
  else if (pass.product) text += " behind the product";
  text += " over " + number(pass.row_blocks()) + " x " + number(pass.column_blocks()) + " blocks of " +
          number(pass.block_rows) + " x " + number(pass.block_columns);
  if (pass.whole_rows) text += " (whole rows)";
  if (to.rest) text += ", " + subject.program.buffers[to.direct->out].name;
  if (to.direct) text += " in registers";
  if (to.blocking) text += blocking_text(to);
  if (to.kept >= 0) text += ", accumulators wait in " + subject.program.buffers[to.kept].name;
  if (to.over_batches) text += ", batches beside each other";
  return text;
}

std::string scratch_text(const PassDecision& to) {
  std::string text;
  const auto say = [&](const char* what, std::int64_t bytes) {
    if (bytes > 0) text += std::string(text.empty() ? "  scratch of the product: " : ", ") + number(bytes) + what;
  };
  say(" bytes a thread", to.thread_scratch);
  say(to.over_batches ? " bytes more" : " bytes for all", to.shared_scratch);
  return text.empty() ? text : text + "\n";
}

}  // namespace

std::string Decision::describe() const {
  std::string text = std::string(cpu::name(subject->isa)) + ", " + number(subject->threads) + " threads";
  for (const PassDecision& pass : passes) text += "; " + pass_text(*this, pass);
  return text;
}

std::string Decision::schedule_text() const {
  std::string text = describe() + "\n";
  for (const PassDecision& to : passes) {
    if (!to.blocking) continue;
    const auto say = [&](const char* what, const char* why) {
      if (why != nullptr) text += std::string("not ") + what + ": " + why + "\n";
    };
    for (const Blocking::Refused& refused : to.blocking->refused) say(refused.what, refused.why);
    say("in registers", to.not_direct);
    say("kept in an output", to.not_kept);
  }
  return text;
}

std::string Decision::loops_text() const {
  std::string text;
  for (const PassDecision& to : passes) {
    text += pass_text(*this, to) + "\n" + scratch_text(to);
    for (std::size_t p = 0; p < to.phases.size(); ++p) {
      const PhaseExecutor& phase = to.phases[p].executor;
      text += "  phase " + phase_name(*subject, to.pass.first + static_cast<int>(p)) + ": " + phase.describe() + "\n";
      for (const ReductionExecutor& reduction : phase.reductions()) {
        text += reduction.owned() ? "    a reduction finished within its block\n"
                                  : "    a reduction with a partial result a block, combined in their order: " +
                                        number(reduction.workspace_bytes()) + " bytes\n";
      }
    }
    for (const BufferId buffer : to.pass.locals) {
      text += "  " + subject->program.buffers[buffer].name + " stays with the block's rows\n";
    }
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Buffer& buffer = subject->program.buffers[i];
    if (buffer.kind == BufferKind::crossing && places[i].where == BufferPlace::Where::workspace) {
      text +=
          buffer.name + " crosses phases through memory: " + number(bytes_of(static_cast<BufferId>(i))) + " bytes\n";
    }
  }
  return text + "workspace " + number(workspace_bytes()) + " bytes\n";
}

Outline Decision::outline() const {
  Outline outline;
  for (std::size_t i = 0; i < places.size(); ++i) {
    outline.stays.push_back(subject->program.buffers[i].kind == BufferKind::crossing &&
                            stays(static_cast<BufferId>(i)));
  }
  if (packed_bytes > 0) {  // whoever packs B for one batch keeps it in a cache
    const auto bytes = static_cast<double>(shape.n * shape.k * size_of(subject->contraction->b));
    outline.beside.push_back({"B packed", {bytes, static_cast<double>(packed_bytes)}});
    outline.read_beyond = static_cast<double>(packed_bytes) - bytes;
  }
  return outline;
}

}  // namespace postlude::inline v0::cpu
