#include "core/convert.h"
#include "cpu/isa.h"
#include "lower/lower.h"
#include "plan/operands.h"
#include "plan/plan_data.h"

#include <algorithm>

namespace postlude::inline v0 {
namespace {

std::shared_ptr<const lower::Program> make_program(const PlanData& plan, const InPlace& in_place) {
  return std::make_shared<const lower::Program>(
      lower::lower(plan.graph.data(), facts_of(plan.problem), lower_options(plan, in_place)));
}

// Each dtype given is for a name that exists and that the graph leaves open (or says the same).
void check_dtypes(const Graph& graph, const std::vector<std::pair<std::string, DType>>& dtypes) {
  const auto check = [&](const auto& declarations, const std::string& name, DType dtype) {
    for (const auto& declared : declarations) {
      if (declared.name != name) continue;
      if (declared.dtype && *declared.dtype != dtype) {
        throw Error(ErrorCode::wrong_dtype,
                    quoted(name) + " is declared " + std::string(postlude::name(*declared.dtype)) +
                        " by the epilogue, but the compile options say " + std::string(postlude::name(dtype)),
                    "Leave it out of the options, or out of the epilogue.");
      }
      return true;
    }
    return false;
  };
  const auto operands = graph.operands();
  const auto outputs = graph.outputs();
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    const auto& [name, dtype] = dtypes[i];
    for (std::size_t j = 0; j < i; ++j) {
      if (dtypes[j].first == name) {
        throw Error(ErrorCode::repeated_operand, "the compile options give the dtype of " + quoted(name) + " twice");
      }
    }
    if (check(operands, name, dtype) || check(outputs, name, dtype)) continue;
    std::vector<std::string> names;
    for (const auto& operand : operands) names.push_back(operand.name);
    for (const auto& output : outputs) names.push_back(output.name);
    const std::string guess = closest(name, names);
    throw Error(ErrorCode::unknown_operand,
                "the compile options give a dtype for " + quoted(name) + ", but no operand or output has this name",
                guess.empty() ? "A's and B's dtypes belong to the problem." : "Did you mean " + quoted(guess) + "?");
  }
}

// No operand or output has the name of an input of the main loop. (The language keeps those of the library's own.)
void check_names(const Graph& graph, const MainLoop& loop) {
  const auto check = [](const auto& declarations, std::string_view name) {
    for (const auto& declared : declarations) {
      if (declared.name != name) continue;
      throw Error(ErrorCode::bad_name, quoted(name) + " is the name of an operand of the main loop",
                  "Choose another name.");
    }
  };
  for (const Input& input : loop.inputs()) {
    check(graph.operands(), input.name);
    check(graph.outputs(), input.name);
  }
}

// A plan as far as its Program, and why its target cannot run it.
struct Draft {
  std::shared_ptr<PlanData> plan;
  std::vector<std::string> refusals;
  std::optional<Error>
      unusable;  // why this machine cannot run anything for the target; a named isa compiles without a device
};

Draft draft(const Problem& problem, const Graph& graph, const Target& target, const CompileOptions& options) {
  if (target.threads < 0) {
    throw Error(ErrorCode::usage, "a target cannot have " + std::to_string(target.threads) + " threads",
                "0 takes as many as the machine offers.");
  }
  for (const auto& [name, dtype] : options.dtypes) (void)core::checked(dtype);
  auto plan = std::make_shared<PlanData>();
  plan->graph = graph;
  plan->problem = problem;
  plan->target = target;
  plan->dtypes = options.dtypes;
  check_names(graph, problem.loop());
  check_dtypes(graph, options.dtypes);
  plan->backend = &plan::find_backend(target.device);
  plan->base.program = make_program(*plan, {});
  plan->expected = plan::expected_tensors(*plan);
  for (std::size_t i = 0; i < plan->expected.size(); ++i) plan->place.emplace(plan->expected[i].name, i);
  return {plan, plan->backend->refusals(problem, *plan->base.program, target),
          target.isa.empty() ? plan->backend->unusable() : std::nullopt};
}

}  // namespace

const lower::Program& program_of(const Plan& plan) { return *plan.data().base.program; }

lower::Options lower_options(const PlanData& plan, const InPlace& in_place) {
  lower::Options options;
  options.in_place = in_place;
  options.dtypes = plan.dtypes;
  if (plan.multiplies()) options.halves = plan.backend->halves, options.joint = plan.backend->joint;
  return options;
}

Target Target::cpu(int threads) {
  Target target;
  target.threads = threads;
  return target;
}

Target Target::cuda(int device_index) {
  Target target;
  target.device = Device::cuda;
  target.device_index = device_index;
  return target;
}

Target Target::best() { return plan::find_backend(Device::cuda).unusable() ? cpu() : cuda(); }

Target Target::parse(std::string_view text) {
  const auto is_number = [](std::string_view t) {
    return !t.empty() && t.size() < 5 && t.find_first_not_of("0123456789") == t.npos;
  };
  if (text == "cpu") return cpu();
  if (text == "cuda") return cuda();
  if (text == "best") return best();
  if (text.starts_with("cuda:") && is_number(text.substr(5))) return cuda(std::stoi(std::string(text.substr(5))));
  Target target;
  target.isa = text;
  if (cpu::parse_isa(text)) return target;
  if (text.starts_with("sm_")) {
    std::string_view number = text.substr(3);
    if (number.ends_with('a') || number.ends_with('f'))
      number.remove_suffix(1);  // features of one architecture, or of a family
    target.device = Device::cuda;
    if (is_number(number)) return target;
  }
  throw Error(ErrorCode::usage, quoted(text) + " is no target",
              "Targets are cpu, cuda, cuda:1, best, an instruction set (portable, avx2, avx512, amx) and an "
              "architecture (sm_90a).");
}

Plan compile(const Problem& problem, const Graph& graph, const Target& target, const CompileOptions& options) {
  auto [data, refusals, unusable] = draft(problem, graph, target, options);
  if (unusable) throw *unusable;
  if (!refusals.empty()) {
    std::string reasons;
    for (const std::string& reason : refusals) reasons += (reasons.empty() ? "" : "; ") + reason;
    throw Error(ErrorCode::unsupported, "the " + std::string(data->backend->name) + " target cannot run " +
                                            quoted(graph.name()) + ": " + reasons);
  }
  data->base.executable = data->backend->compile(problem, data->base.program, target);
  Plan plan;
  plan.data_ = std::move(data);
  return plan;
}

Support supports(const Problem& problem, const Graph& graph, const Target& target, const CompileOptions& options) {
  Support support;
  try {
    Draft made = draft(problem, graph, target, options);
    support.reasons = std::move(made.refusals);
    if (made.unusable) support.reasons.push_back(made.unusable->message());
    if (support.reasons.empty()) {  // a schedule, say, is read there
      static_cast<void>(made.plan->backend->compile(problem, made.plan->base.program, target));
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
    support.reasons.push_back(error.message() + (error.hint().empty() ? "" : ". " + error.hint()));
  }
  support.ok = support.reasons.empty();
  return support;
}

const Variant& variant_for(const PlanData& plan, const InPlace& in_place, std::int64_t batch) {
  if (in_place.empty() || lower::in_place_conflict(*plan.base.program, in_place, batch).empty()) return plan.base;
  const std::lock_guard lock(plan.mutex);
  for (const auto& variant : plan.variants) {
    if (variant->in_place == in_place) return *variant;
  }
  auto variant = std::make_unique<Variant>();
  variant->in_place = in_place;
  variant->program = make_program(plan, in_place);
  const std::string conflict = lower::in_place_conflict(*variant->program, in_place, batch);
  if (!conflict.empty()) throw Error(ErrorCode::overlap, conflict, "Bind other memory to the output.");
  variant->executable = plan.backend->compile(plan.problem, variant->program, plan.target);
  plan.variants.push_back(std::move(variant));
  return *plan.variants.back();
}

std::vector<Plan::Slot> Plan::slots() const {
  std::vector<Slot> slots;
  for (const plan::Expected& expected : data().expected) {
    slots.push_back({.name = expected.name,
                     .axes = expected.axes & tile_axes,
                     .dtype = expected.dtype,
                     .output = expected.role == plan::Expected::Role::output,
                     .batched = expected.axes.has(Axis::b)});
  }
  return slots;
}

std::vector<std::int64_t> Plan::shape_of(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k) const {
  if (const auto found = data().place.find(name); found != data().place.end()) {
    if (m < 0 || n < 0 || k < 0)
      throw Error(ErrorCode::usage, "a problem of M = " + std::to_string(m) + ", N = " + std::to_string(n) +
                                        ", K = " + std::to_string(k) + " has a negative size");
    if (std::max({m, n, k}) > plan::largest_extent)
      throw Error(ErrorCode::size_overflow,
                  "a size of this problem is larger than " + std::to_string(plan::largest_extent));
    return plan::shape_of(data(), data().expected[found->second], {.m = m, .n = n, .k = k});
  }
  std::vector<std::string> names;
  for (const plan::Expected& expected : data().expected) names.push_back(expected.name);
  const std::string guess = closest(name, names);
  throw Error(ErrorCode::unknown_operand, "no operand or output is named " + quoted(name),
              guess.empty() ? "" : "Did you mean " + quoted(guess) + "?");
}

const Graph& Plan::graph() const { return data().graph; }
const Problem& Plan::problem() const { return data().problem; }
const Target& Plan::target() const { return data().target; }

const PlanData& Plan::data() const {
  if (!data_) throw Error(ErrorCode::usage, "this Plan is empty", "compile() makes one.");
  return *data_;
}

}  // namespace postlude::inline v0
