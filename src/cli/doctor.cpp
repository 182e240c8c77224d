// postlude doctor: what this machine offers, and whether it computes right.
#include "cli/commands.h"
#include "cli/draw.h"
#include "cli/terminal.h"
#include "core/cache_folder.h"
#include "core/threads.h"
#include "cpu/isa.h"
#include "plan/backends.h"

#include <postlude/parse.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace postlude::inline v0::cli {
namespace {

struct Finding {
  enum class State : std::uint8_t { good, absent, wrong } state = State::good;
  std::string what;
  std::string detail;
};
using State = Finding::State;

// A small epilogue with a phase boundary, every lane width used partly, against the reference.
constexpr std::string_view sample =
    "def doctor(acc, bias: row):\n"
    "    z = gelu(acc + bias)\n"
    "    D = z / (1 + max(abs(z), axis=1))\n"
    "    total: f32 = sum(z, axis=0)\n"
    "    return D, total\n";

Finding check_cpu(DType dtype) {
  constexpr std::int64_t m = 37, n = 45, k = 71;
  Finding finding{State::good, std::string(name(dtype)) + " on the CPU", ""};
  try {
    const Plan plan = compile(Gemm{.a = dtype, .b = dtype}, parse(sample));
    std::vector<Array> arrays;
    for (const Plan::Slot& slot : plan.slots()) {
      arrays.push_back(draw(slot.dtype, plan.shape_of(slot.name, m, n, k), Distribution::of(slot.dtype), 1, slot.name));
    }
    std::vector<Binding> bindings;
    const std::vector<Plan::Slot> slots = plan.slots();
    for (std::size_t i = 0; i < slots.size(); ++i) bindings.push_back({slots[i].name, arrays[i].view()});
    plan.bind(bindings).run();
    double worst = 0;
    for (const Comparison& c : verify(plan, bindings)) {
      if (!(c.error_over_bound <= worst)) worst = c.error_over_bound;
    }
    finding.state = worst <= 1 ? State::good : State::wrong;
    finding.detail = fmt::format("a product with a gelu, a row maximum and a column sum: error / bound {:.3g}", worst);
  } catch (const Error& error) {
    finding.state = State::wrong;
    finding.detail = error.what();
  }
  return finding;
}

std::vector<Finding> examine() {
  std::vector<Finding> findings;
  findings.push_back({State::good, "instructions", std::string(cpu::name(cpu::best_isa()))});
  findings.push_back({State::good, "threads", std::to_string(core::available_threads())});
  for (const DType dtype : {DType::f32, DType::bf16, DType::s8}) findings.push_back(check_cpu(dtype));
  const std::optional<Error> unusable = plan::find_backend(Device::cuda).unusable();
  findings.push_back({unusable ? State::absent : State::good, "CUDA", unusable ? unusable->message() : "usable"});
  const core::CacheFolder cache = core::cache_folder(false);
  findings.push_back(
      {cache.unusable.empty() ? State::good : State::absent, "kernel cache",
       cache.unusable.empty() ? cache.path : cache.unusable + ": compiled kernels are kept in memory only"});
  return findings;
}

constexpr const char* state_name(State state) {
  return state == State::good ? "ok" : state == State::absent ? "absent" : "wrong";
}

}  // namespace

Command add_doctor(CLI::App& app, bool& json) {
  CLI::App* doctor = app.add_subcommand("doctor", "What this machine offers, and whether it computes right");
  return {doctor, [&json] {
            const std::vector<Finding> findings = examine();
            const bool wrong =
                std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.state == State::wrong; });
            if (json) {
              Json object = {{"version", POSTLUDE_VERSION},
                             {"ok", !wrong},
                             {"cuda", Target::best().device == Device::cuda},
                             {"findings", Json::array()}};
              for (const Finding& f : findings) {
                object["findings"].push_back({{"what", f.what}, {"state", state_name(f.state)}, {"detail", f.detail}});
              }
              print(object);
            } else {
              const Style style(stdout);
              std::string text = style.bold("postlude " POSTLUDE_VERSION) + "\n";
              for (const Finding& f : findings) {
                const std::string state = fmt::format("{:<7}", state_name(f.state));
                text += (f.state == State::good    ? style.green(state)
                         : f.state == State::wrong ? style.red(state)
                                                   : style.dim(state)) +
                        fmt::format("{:<17}{}\n", f.what, f.detail);
              }
              print(text);
            }
            return wrong ? Exit::check_failed : Exit::ok;
          }};
}

}  // namespace postlude::inline v0::cli
