// Decisions for tests, without a device.
#pragma once

#include "cuda/backend.h"
#include "cuda/decide/decision.h"
#include "lower/lower.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <memory>
#include <string>

namespace postlude::inline v0::cuda {

inline constexpr const char* bias_relu = "def f(acc, bias: row[f32]):\n    D: bf16 = relu(acc + bias)\n    return D\n";
inline const Gemm bf16{.a = DType::bf16, .b = DType::bf16};

inline Plan plan_for(const std::string& text, const std::string& isa, const std::string& schedule = "",
                     const Problem& problem = bf16) {
  Target target = Target::parse(isa);
  target.schedule = schedule;
  return postlude::compile(problem, parse(text), target);
}

// The line of the schedule that was chosen, as it can be asked for.
inline std::string chosen(const Plan& plan, std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::string all = plan.explain(ExplainPart::schedule, m, n, k);
  const std::size_t end = all.find("  chosen\n");
  const std::size_t begin = all.rfind('\n', end) + 1;
  return end == all.npos ? "" : all.substr(begin, all.find("  ", begin) - begin);
}

// A Subject as compile() makes it.
inline Subject subject(const std::string& text, const std::string& isa, const std::string& schedule = "") {
  lower::Options options;
  options.halves = halves;
  return {bf16, std::make_shared<const lower::Program>(lower::lower(parse(text).data(), facts_of(bf16), options)), isa,
          132, parse_request(schedule, isa == "sm_90a", isa)};
}

inline Decision decided(const Subject& s, const Shape& shape) {
  return decide(s, usual_layout(s.problem, *s.program, shape), [](const auto&) { return std::string(); });
}

}  // namespace postlude::inline v0::cuda
