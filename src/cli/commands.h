// The commands of `postlude`. Each adds itself to the command line and gives what runs it.
#pragma once

#include "cli/options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json_fwd.hpp>

#include <functional>

namespace postlude::inline v0::cli {

using Json = nlohmann::ordered_json;

struct Command {
  CLI::App* app = nullptr;
  std::function<Exit()> run;
};

[[nodiscard]] Command add_run(CLI::App& app, bool& json);
[[nodiscard]] Command add_explain(CLI::App& app, bool& json);
[[nodiscard]] Command add_ops(CLI::App& app, bool& json);
[[nodiscard]] Command add_doctor(CLI::App& app, bool& json);
[[nodiscard]] Command add_cache(CLI::App& app, bool& json);

// --gemm, --stream, --batch, --in, --target and --threads.
void add_problem_options(CLI::App& app, ProblemOptions& options);

// To stdout. A failure to write is found by main(), once, at the end.
void print(const Json& json);
void print(const std::string& text);

}  // namespace postlude::inline v0::cli
