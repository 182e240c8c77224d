// postlude explain: what lowering and the backend decided.
#include "cli/commands.h"
#include "cli/terminal.h"

#include <postlude/parse.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace postlude::inline v0::cli {
namespace {

struct Part {
  const char* name;
  ExplainPart part;
  const char* help;
};

constexpr Part parts[] = {
    {"passes", ExplainPart::passes, "The graph and what each pass of lowering made of it"},
    {"program", ExplainPart::program, "The Program: phases, operations, what crosses"},
    {"schedule", ExplainPart::schedule, "The chosen schedule, and the rejected ones with reasons"},
    {"loops", ExplainPart::loops, "The loop nest"},
    {"source", ExplainPart::source, "Generated source"},
};
constexpr std::size_t schedule_part = std::ranges::find(parts, ExplainPart::schedule, &Part::part) - parts;

struct ExplainOptions {
  std::string epilogue;
  ProblemOptions problem;
  std::array<bool, std::size(parts)> wanted{};
  std::string schedule;  // "true": show it
};

// M, N and K do not tell of how many problems.
std::vector<std::vector<std::int64_t>> batched_inputs(const ProblemOptions& options, const Sizes& at) {
  if (options.gemm.empty()) return {{options.batch, at.m, at.n}};
  return {{options.batch, at.m, at.k}, {options.batch, at.k, at.n}};
}

}  // namespace

Command add_explain(CLI::App& app, bool& json) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* explain = app.add_subcommand("explain", "Show what an epilogue is compiled to");
  explain->add_option("epilogue", options->epilogue, "The epilogue: FILE.py, or FILE.py:NAME")
      ->type_name("FILE.py[:NAME]")
      ->required();
  add_problem_options(*explain, options->problem);
  for (std::size_t i = 0; i < std::size(parts); ++i) {
    const std::string flag = "--" + std::string(parts[i].name);
    if (i == schedule_part) {
      explain->add_flag(flag, options->schedule,
                        std::string(parts[i].help) + "; --schedule=TEXT takes this one instead, as printed");
    } else {
      explain->add_flag(flag, options->wanted[i], parts[i].help);
    }
  }
  explain->footer(
      "Without a part, a summary: graph, phases, placement, schedule, bytes, operations and the floor. Without --gemm, "
      "--stream or --conv all is for a typical shape, which the summary names.");
  return {explain, [options, &json] {
            const std::optional<Sizes> sizes = make_sizes(options->problem);
            Sizes at = sizes.value_or(Sizes{});
            if (sizes && options->problem.batch > 0) at.inputs = batched_inputs(options->problem, at);
            if (options->schedule == "true") {
              options->wanted[schedule_part] = true;
            } else {
              options->problem.schedule = options->schedule;
            }
            const Plan plan =
                compile(make_problem(options->problem), parse_file(options->epilogue), make_target(options->problem));
            Json object = {{"epilogue", plan.graph().name()}};
            std::string text;
            const Style style(stdout);
            const auto add = [&](const std::string& name, ExplainPart part, bool heading) {
              const std::string content =
                  at.inputs.empty() ? plan.explain(part, at.m, at.n, at.k) : plan.explain(part, at.inputs);
              object[name] = content;
              if (!text.empty()) text += '\n';
              if (heading) text += style.bold(name) + '\n';
              text += content;
              if (!content.empty() && content.back() != '\n') text += '\n';
            };
            const auto wanted = std::count(options->wanted.begin(), options->wanted.end(), true);
            if (wanted == 0) add("summary", ExplainPart::summary, false);
            for (std::size_t i = 0; i < std::size(parts); ++i) {
              if (options->wanted[i]) add(parts[i].name, parts[i].part, wanted > 1);
            }
            if (json) print(object);
            else print(text);
            return Exit::ok;
          }};
}

}  // namespace postlude::inline v0::cli
