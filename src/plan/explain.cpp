// What lowering and the backend decided, as text.
#include "loop/descriptors.h"
#include "lower/lower.h"
#include "plan/cost.h"
#include "plan/operands.h"
#include "plan/plan_data.h"
#include "plan/size.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <unordered_set>

namespace postlude::inline v0 {
namespace {

using lower::Buffer;
using lower::BufferKind;
using lower::Phase;
using lower::Program;

std::string amount(double value, const char* unit) {
  constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
  std::size_t i = 0;
  for (; value >= 999.5 && i + 1 < std::size(prefixes); ++i) value /= 1000;
  char text[48];
  std::snprintf(text, sizeof text, value == std::floor(value) && value < 1000 ? "%.0f %s%s" : "%.3g %s%s", value,
                prefixes[i], unit);
  return text;
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string indented(const std::string& text, const char* by = "  ") {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    if (end > at) result += by + text.substr(at, end - at);
    result += '\n';
    at = end + 1;
  }
  return result;
}

// "{m, n}"; in a batched problem with b in front.
std::string axes_text(Axes axes, bool batched) {
  std::string text = batched ? "b" : "";
  if (axes.has(Axis::m)) text += text.empty() ? "m" : ", m";
  if (axes.has(Axis::n)) text += text.empty() ? "n" : ", n";
  return "{" + text + "}";
}

std::string problem_text(const Problem& problem) {
  return (is_batched(problem) ? "batched " : "") + problem.loop().describe();
}

// The shape to explain for: what was given, else 1024, rounded up to what the epilogue's chunks divide.
Shape typical(const PlanData& plan, std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t usual = 1024;
  Shape shape{.batch = 1, .m = m > 0 ? m : usual, .n = n, .k = !plan.multiplies() ? 0 : k > 0 ? k : usual};
  if (shape.n > 0) return shape;
  shape.n = usual;
  const auto divides = [&] {
    return std::all_of(plan.base.program->rules.begin(), plan.base.program->rules.end(),
                       [&](const Divisibility& rule) { return rule.columns.at(shape.n) % rule.divisor == 0; });
  };
  while (!divides() && shape.n < 64 * usual) ++shape.n;
  return shape;
}

// Names, each once. The first are kept in order: an overview, not a listing.
class Names {
 public:
  void add(const std::string& name) {
    if (names_.insert(name).second && names_.size() <= most) text_ += (text_.empty() ? "" : ", ") + name;
  }
  [[nodiscard]] std::string text() const {
    if (names_.empty()) return "nothing";
    return names_.size() > most ? text_ + ", ... (" + std::to_string(names_.size()) + ")" : text_;
  }

 private:
  static constexpr std::size_t most = 16;
  std::unordered_set<std::string> names_;
  std::string text_;
};

std::string moved_text(const Traffic& traffic) {
  return amount(traffic.read, "B") + " read, " + amount(traffic.written, "B") + " written";
}

// What a phase loads, computes, reduces and stores, and what of it is left for a later phase.
std::string placement(const Program& program, const Phase& phase, const plan::PhaseCost& cost,
                      const std::vector<bool>& stays) {
  Names loads, stores;
  int per_element = 0, per_vector = 0;  // operations for each element of the domain, and for each row, column or once
  for (const lower::Instruction& instruction : phase.code) {
    if (instruction.op == Op::acc) loads.add("acc");
    if (instruction.op == Op::operand) loads.add(program.buffers[instruction.access.buffer].name);
    if (!is_elementwise(instruction.op) && instruction.op != Op::call) continue;
    ++(instruction.axes.contains(phase.domain) ? per_element : per_vector);
  }
  for (const lower::Store& store : phase.stores) {
    const Buffer& buffer = program.buffers[store.access.buffer];
    stores.add(buffer.name + (buffer.kind != BufferKind::crossing ? ""
                              : stays[store.access.buffer]        ? " (stays)"
                                                                  : " (workspace)"));
  }
  for (const lower::Reduction& reduction : phase.reductions) {
    for (const lower::BufferId result : reduction.results) {
      if (result >= 0) stores.add(program.buffers[result].name + " (statistic)");
    }
  }
  std::string compute = std::to_string(per_element) + (per_element == 1 ? " operation" : " operations") + " an element";
  if (per_vector > 0) compute += ", " + std::to_string(per_vector) + " a row, a column or once";
  if (!phase.reductions.empty()) {
    compute +=
        ", " + std::to_string(phase.reductions.size()) + (phase.reductions.size() == 1 ? " reduction" : " reductions");
  }
  return "  load     " + loads.text() + "\n  compute  " + compute + "\n  store    " + stores.text() + "\n  bytes    " +
         moved_text(cost.moved) + "\n";
}

// What plan::explain() was asked for.
struct At {
  Shape shape;
  bool given = false;                           // else a typical one
  const std::vector<Tensor>* inputs = nullptr;  // the main loop's, where they are known
  const Bindings* tensors = nullptr;            // of these
  [[nodiscard]] Asked asked() const { return {shape, tensors}; }
};

// What the size does not tell is said by its letters: "(N, C, H, W)".
std::string shape_text(const PlanData& plan, const plan::Expected& expected, const At& at) {
  if (at.inputs && expected.role == plan::Expected::Role::input)
    return plan::shape_text(plan::shape_of((*at.inputs)[expected.input]));
  const std::vector<std::int64_t> extents = plan::shape_of(plan, expected, at.shape);
  if (expected.role != plan::Expected::Role::input || !extents.empty()) return plan::shape_text(extents);
  std::string text;
  const std::vector<Input> inputs = plan.problem.loop().inputs();
  for (const std::string_view axis : inputs[expected.input].axes)
    text += (text.empty() ? "(" : ", ") + std::string(axis);
  return text + ")";
}

// The bytes of the main loop's inputs.
double input_bytes(const MainLoop& loop, const At& at) {
  if (!at.inputs) return loop.bytes(at.shape);
  double bytes = 0;
  const std::vector<Input> all = loop.inputs();
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto size = static_cast<double>(size_of(all[i].dtype));
    for (const std::int64_t extent : plan::shape_of((*at.inputs)[i])) size *= static_cast<double>(extent);
    bytes += size;
  }
  return bytes;
}

std::string summary(const PlanData& plan, const At& at) {
  const Program& program = *plan.base.program;
  const Shape& shape = at.shape;
  const Outline outline = plan.base.executable->outline(at.asked());
  const plan::Cost cost = plan::cost(
      program, {plan.problem.loop().operations(shape), input_bytes(plan.problem.loop(), at)}, shape, outline);
  std::string text = program.name + ": " + problem_text(plan.problem) + ", " + std::string(name(program.accumulator)) +
                     " accumulator, target " + std::string(plan.backend->name) +
                     (plan.target.isa.empty() ? "" : " (" + plan.target.isa + ")") + "\n\ngraph\n" +
                     indented(plan.graph.print()) + "\noperands and outputs\n";
  for (const plan::Expected& expected : plan.expected) {
    text += "  " + padded(expected.name, 12) + " " + padded(std::string(name(expected.dtype)), 5) + " " +
            padded(shape_text(plan, expected, at), 14) +
            (expected.role == plan::Expected::Role::output ? " output\n" : "\n");
  }
  text += "  at M = " + std::to_string(shape.m) + ", N = " + std::to_string(shape.n);
  if (plan.multiplies()) text += ", K = " + std::to_string(shape.k);
  if (shape.batch > 1) text += ", batch = " + std::to_string(shape.batch);
  text += at.given ? "\n" : " (a typical shape; ask for another)\n";
  for (std::size_t i = 0; i < program.phases.size(); ++i) {
    const Phase& phase = program.phases[i];
    text += "\nphase " + std::to_string(i) + " over " + axes_text(phase.domain, phase.batched) +
            (phase.reads_accumulator() ? ", behind the main loop\n" : "\n") +
            placement(program, phase, cost.phases[i], outline.stays);
  }
  for (const std::string& note : program.notes) text += "\nnote: " + note;
  if (!program.notes.empty()) text += '\n';
  text += "\nschedule\n" + indented(plan.base.executable->explain(ExplainPart::schedule, at.asked()));
  text += "\ncost\n  main loop   " + amount(cost.main_loop_operations, "op") + ", " +
          amount(cost.main_loop_input, "B") + " of input" +
          (cost.main_loop_read == cost.main_loop_input ? "" : ", read as " + amount(cost.main_loop_read, "B")) +
          "\n  epilogue    " + amount(cost.epilogue_operations(), "op") + "\n";
  for (const Outline::Beside& beside : outline.beside)
    text += "  beside      " + beside.what + ": " + moved_text(beside.traffic) + "\n";
  text += "  moves       " + amount(cost.moved_bytes, "B") + "\n  floor       " + amount(cost.floor_bytes, "B") +
          ": every input read once, every output written once\n";
  return text;
}

std::string passes(const PlanData& plan) {
  std::string text = "graph\n" + indented(plan.graph.print());
  lower::Options options = lower_options(plan);
  options.watch = [&](std::string_view pass, const std::string& after) {
    text += "\n" + std::string(pass) + (after.empty() ? ": unchanged\n" : "\n" + indented(after));
  };
  static_cast<void>(lower::lower(plan.graph.data(), facts_of(plan.problem), options));
  return text;
}

std::string explained(const PlanData& plan, ExplainPart part, const At& at) {
  switch (part) {
    case ExplainPart::summary: return summary(plan, at);
    case ExplainPart::passes: return passes(plan);
    case ExplainPart::program: return plan.base.program->print();
    case ExplainPart::loops: return descriptors(plan.problem.loop()) + plan.base.executable->explain(part, at.asked());
    default: return plan.base.executable->explain(part, at.asked());
  }
}

}  // namespace

std::string Plan::explain(ExplainPart part, std::int64_t m, std::int64_t n, std::int64_t k) const {
  if (!data_) throw Error(ErrorCode::usage, "this Plan is empty", "compile() makes one.");
  plan::check_extents({.m = m, .n = n, .k = k}, "to explain for", "0 takes a typical one.");
  const Shape shape = typical(*data_, m, n, k);
  if (part != ExplainPart::passes && part != ExplainPart::program) static_cast<void>(plan::check_size(*data_, shape));
  return explained(*data_, part, {.shape = shape, .given = m > 0 && n > 0 && (k > 0 || !data_->multiplies())});
}

std::string Plan::explain(ExplainPart part, const std::vector<std::vector<std::int64_t>>& inputs) const {
  return explain_for(part, inputs_of(inputs));
}

std::vector<Tensor> Plan::inputs_of(const std::vector<std::vector<std::int64_t>>& shapes) const {
  return plan::contiguous_inputs(data(), shapes);
}

std::string Plan::explain_for(ExplainPart part, const std::vector<Tensor>& inputs) const {
  plan::Checked checked = plan::assumed(data(), inputs);
  if (checked.nothing_to_do && part != ExplainPart::passes && part != ExplainPart::program)
    return "every output is empty: nothing runs\n";
  return explained(*data_, part,
                   {.shape = checked.bindings.shape, .given = true, .inputs = &inputs, .tensors = &checked.bindings});
}

}  // namespace postlude::inline v0
