// postlude run: an epilogue behind a main loop, on files or drawn data, timed and checked.
#include "cli/commands.h"
#include "cli/device_memory.h"
#include "cli/operands.h"
#include "cli/terminal.h"
#include "loop/main_loop.h"
#include "plan/operands.h"

#include <postlude/parse.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>

namespace postlude::inline v0::cli {
namespace {

struct RunOptions {
  std::string epilogue;
  ProblemOptions problem;
  std::vector<std::string> operands;
  std::string out;
  bool verify = false;
  int repeat = 0;  // 0: as often as fits into a moment
  std::uint64_t seed = 0;
};

struct Result {
  Plan plan;
  Sizes sizes;
  std::int64_t batch = 0;  // of a problem that has one
  std::vector<BoundOperand> operands;
  std::vector<double> milliseconds;  // sorted
  std::string schedule;
  std::int64_t workspace_bytes = 0;
  std::vector<Comparison> comparisons;  // empty without --verify

  [[nodiscard]] double median() const {
    const std::size_t half = milliseconds.size() / 2;
    return milliseconds.size() % 2 == 1 ? milliseconds[half] : (milliseconds[half - 1] + milliseconds[half]) / 2;
  }
  [[nodiscard]] const Comparison* comparison(const std::string& output) const {
    for (const Comparison& c : comparisons) {
      if (c.output == output) return &c;
    }
    return nullptr;
  }
  [[nodiscard]] bool correct() const {
    return std::all_of(comparisons.begin(), comparisons.end(),
                       [](const Comparison& c) { return c.error_over_bound <= 1; });
  }
  [[nodiscard]] double worst() const {
    double worst = 0;
    for (const Comparison& c : comparisons) {
      if (!(c.error_over_bound <= worst)) worst = c.error_over_bound;
    }
    return worst;
  }
};

std::string out_path(const RunOptions& options, const std::string& output) {
  return (std::filesystem::path(options.out) / (output + ".npy")).string();
}

// Runs once that does not count, unless once is all that is asked for, and then as often as is said, or for a moment.
std::vector<double> milliseconds(Call& call, DeviceMemory* device, int repeat, Progress& progress) {
  const auto timed = [&] {
    if (device) return device->timed(call);
    const auto start = std::chrono::steady_clock::now();
    call.run();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  };
  if (repeat != 1) call.run();  // caches and pages are warm in all that are counted
  constexpr int most = 100;
  constexpr double moment = 200;  // milliseconds
  std::vector<double> times;
  double spent = 0;
  for (int i = 0; repeat > 0 ? i < repeat : i == 0 || (i < most && spent < moment); ++i) {
    progress.step(repeat > 0 ? fmt::format("running {} of {}", i + 1, repeat) : "running");
    times.push_back(timed());
    spent += times.back();
  }
  std::sort(times.begin(), times.end());
  return times;
}

void write_outputs(const RunOptions& options, const Result& result, Progress& progress) {
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  if (error)
    throw Error(ErrorCode::cannot_write, postlude::quoted(options.out) + " cannot be made: " + error.message(),
                "Check the path.");
  for (const BoundOperand& operand : result.operands) {
    if (!operand.slot.output) continue;
    progress.step("writing " + operand.slot.name);
    write_npy(out_path(options, operand.slot.name), operand.tensor);
  }
}

Result execute(const RunOptions& options) {
  Progress progress;
  Result result;
  const Problem problem = make_problem(options.problem);
  std::optional<Sizes> sizes = make_sizes(options.problem);
  result.batch = make_batch(options.problem);
  const std::vector<Assignment> given = parse_assignments(options.operands);
  const Graph graph = parse_file(options.epilogue);
  result.plan = compile(problem, graph, make_target(options.problem));

  progress.step("reading and drawing operands", sizes && std::max(sizes->m, sizes->k) * sizes->n > (1 << 25));
  result.operands = make_operands(result.plan, given, sizes, result.batch, options.seed);
  result.sizes = *sizes;
  std::vector<Binding> bindings;
  for (const BoundOperand& operand : result.operands) bindings.push_back({operand.slot.name, operand.tensor});
  const Target& target = result.plan.target();
  std::optional<DeviceMemory> device;
  if (target.device == Device::cuda) device.emplace(result.operands, target.device_index);
  Call call = result.plan.bind(device ? device->bindings() : bindings);
  result.schedule = call.describe();
  result.workspace_bytes = call.workspace_bytes();
  result.milliseconds = milliseconds(call, device ? &*device : nullptr, options.repeat, progress);
  if (device) device->copy_outputs_back();

  if (options.verify) {
    const double work = static_cast<double>(result.sizes.m) * static_cast<double>(result.sizes.n) *
                        static_cast<double>(std::max<std::int64_t>(result.sizes.k, 32));
    progress.step("comparing with the float64 reference", work > 1e9);
    result.comparisons = verify(result.plan, bindings);
  }
  if (!options.out.empty()) write_outputs(options, result, progress);
  return result;
}

std::string rate(const Result& result) {
  const Problem& problem = result.plan.problem();
  const double operations = problem.loop().operations(
      {.batch = is_batched(problem) ? result.batch : 1, .m = result.sizes.m, .n = result.sizes.n, .k = result.sizes.k});
  return operations == 0 ? "" : fmt::format(", {:.1f} Gop/s", operations / result.median() * 1e-6);
}

// JSON has no infinity, so a check that failed without bound is the largest number.
double finite(double value) {
  if (std::isnan(value)) return std::numeric_limits<double>::max();
  return std::clamp(value, std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());
}

Json number_or_text(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json worst_json(const Comparison& c) {
  return {{"b", c.worst[0]},
          {"m", c.worst[1]},
          {"n", c.worst[2]},
          {"value", number_or_text(c.value)},
          {"expected", number_or_text(c.expected)},
          {"bound", number_or_text(c.bound)}};
}

Json to_json(const RunOptions& options, const Result& result) {
  Json json;
  json["epilogue"] = result.plan.graph().name();
  const MainLoop& loop = result.plan.problem().loop();
  Json problem = {{"main_loop", loop.name()},
                  {"in", name(result.plan.slots().front().dtype)},
                  {"m", result.sizes.m},
                  {"n", result.sizes.n}};
  if (loop.contraction()) problem["k"] = result.sizes.k;
  if (!options.problem.conv.empty()) problem["conv"] = options.problem.conv;
  if (is_batched(result.plan.problem())) problem["batch"] = result.batch;
  json["problem"] = problem;
  json["target"] = options.problem.target;
  json["schedule"] = result.schedule;
  json["workspace_bytes"] = result.workspace_bytes;
  json["seed"] = options.seed;
  json["repeat"] = result.milliseconds.size();
  json["median_ms"] = result.median();
  json["min_ms"] = result.milliseconds.front();
  json["max_ms"] = result.milliseconds.back();
  json["operands"] = Json::object();
  json["outputs"] = Json::object();
  for (const BoundOperand& operand : result.operands) {
    Json entry = {{"dtype", name(operand.slot.dtype)},
                  {"shape", std::vector<std::int64_t>(operand.tensor.shape.begin(),
                                                      operand.tensor.shape.begin() + operand.tensor.rank)}};
    if (!operand.slot.output) {
      entry["source"] = operand.source;
      if (!operand.array.converted_from.empty()) entry["converted_from"] = operand.array.converted_from;
      json["operands"][operand.slot.name] = entry;
      continue;
    }
    if (!options.out.empty()) entry["file"] = out_path(options, operand.slot.name);
    if (const Comparison* c = result.comparison(operand.slot.name)) {
      entry["error_over_bound"] = finite(c->error_over_bound);
      if (c->error_over_bound > 0) entry["worst"] = worst_json(*c);
    }
    json["outputs"][operand.slot.name] = entry;
  }
  json["error_over_bound"] = options.verify ? Json(finite(result.worst())) : Json(nullptr);
  json["ok"] = result.correct();
  return json;
}

std::string to_text(const RunOptions& options, const Result& result) {
  const Style style(stdout);
  const MainLoop& loop = result.plan.problem().loop();
  std::string text = style.bold(result.plan.graph().name()) + "  " +
                     fmt::format("{} {} x {}", loop.name(), result.sizes.m, result.sizes.n);
  if (loop.contraction()) text += fmt::format(" x {}", result.sizes.k);
  if (is_batched(result.plan.problem())) text += fmt::format(", batch {}", result.batch);
  text += fmt::format(", {}, {}\n", name(result.plan.slots().front().dtype), options.problem.target);
  text += "schedule   " + result.schedule + "\n";
  const std::size_t runs = result.milliseconds.size();
  text += runs > 1 ? fmt::format("time       {:.4g} ms, the median of {} (least {:.4g}){}\n", result.median(), runs,
                                 result.milliseconds.front(), rate(result))
                   : fmt::format("time       {:.4g} ms{}\n", result.median(), rate(result));
  text += fmt::format("workspace  {} bytes\n", result.workspace_bytes);
  for (const BoundOperand& operand : result.operands) {
    if (operand.array.converted_from.empty()) continue;
    text += fmt::format("converted  {} from {} to {}\n", operand.slot.name, operand.array.converted_from,
                        name(operand.slot.dtype));
  }
  text += "\n";

  std::vector<std::vector<std::string>> rows = {{"output", "dtype", "shape"}};
  if (options.verify) rows[0].emplace_back("error/bound");
  if (!options.out.empty()) rows[0].emplace_back("file");
  std::string failures;
  for (const BoundOperand& operand : result.operands) {
    if (!operand.slot.output) continue;
    const Tensor& t = operand.tensor;
    rows.push_back({operand.slot.name, std::string(name(operand.slot.dtype)),
                    plan::shape_text({t.shape.begin(), t.shape.begin() + t.rank})});
    if (const Comparison* c = result.comparison(operand.slot.name)) {
      const bool good = c->error_over_bound <= 1;
      rows.back().push_back(fmt::format("{:.3g} {}", c->error_over_bound, good ? "ok" : "WRONG"));
      if (!good) {
        failures += fmt::format(
            "{} is wrong: at batch {}, row {}, column {} it is {:.9g}, but should be {:.9g} within {:.3g}\n",
            operand.slot.name, c->worst[0], c->worst[1], c->worst[2], c->value, c->expected, c->bound);
      }
    }
    if (!options.out.empty()) rows.back().push_back(out_path(options, operand.slot.name));
  }
  text += table(rows, style);
  if (options.verify) {
    text += '\n' + (result.correct() ? style.green("verified") : style.red("check failed")) +
            fmt::format(": largest error / bound {:.3g}\n", result.worst());
  }
  return text + failures;
}

}  // namespace

void add_problem_options(CLI::App& app, ProblemOptions& options) {
  app.add_option("--gemm", options.gemm, "The main loop is a matrix product of these sizes")->type_name("MxNxK");
  app.add_option("--stream", options.stream, "The main loop reads X, without a product")->type_name("MxN");
  app.add_option("--conv", options.conv,
                 "The main loop is a convolution: N images of H x W x C, K filters of R x S, then stride, padding, "
                 "dilation and groups; one axis less or more alike")
      ->type_name("NxHxWxC:KxRxS[:s2,p1,d1,g1]");
  app.add_option("--gradient", options.gradient, "Of that convolution, by its data or its weight")
      ->check(CLI::IsMember({"data", "weight"}));
  app.add_option("--batch", options.batch, "So many problems at once")
      ->type_name("L")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  app.add_option("--in", options.in,
                 "Dtype of A and B, or of X, W and dY: f32 (the default), bf16, f16, e4m3, e5m2, s8, u8")
      ->type_name("DTYPE");
  app.add_option(
         "--target", options.target,
         "cpu (the default), cuda, cuda:1; portable, avx2, avx512, amx; or an architecture to explain for, as sm_90a")
      ->type_name("TARGET");
  app.add_option("--accumulate", options.accumulate,
                 "fast: fp8 on Hopper adds up on its tensor cores alone, which keep 14 bits")
      ->check(CLI::IsMember({"fast"}));
  app.add_option("--threads", options.threads, "CPU threads; 0, the default, takes what the machine offers")
      ->type_name("T")
      ->check(CLI::Range(0, 4096));
}

Command add_run(CLI::App& app, bool& json) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app.add_subcommand("run", "Run an epilogue behind a main loop, time it, check it");
  run->add_option("epilogue", options->epilogue,
                  "The epilogue: FILE.py, or FILE.py:NAME for one that is not the last def")
      ->type_name("FILE.py[:NAME]")
      ->required();
  run->add_option("operands", options->operands,
                  "Operands: a .npy file each, or a number for a scalar; A is M x K, B is K x N; with --conv X is "
                  "(N, C, H, W), W (K, C / groups, R, S), dY (N, K, P, Q), and a tile of pixels (N, P * Q, K), of "
                  "--gradient weight (K, R * S * C / groups); what is left out is drawn from the seed")
      ->type_name("NAME=FILE.npy");
  add_problem_options(*run, options->problem);
  run->add_option("--schedule", options->problem.schedule,
                  "This schedule, as explain prints it, instead of the heuristic's")
      ->type_name("TEXT");
  run->add_option("--out", options->out, "Write each output to DIR/NAME.npy")->type_name("DIR");
  run->add_flag("--verify", options->verify,
                "Compare with the float64 reference; exit with 1 where it is not within the bound");
  run->add_option("--repeat", options->repeat,
                  "Run so often and report the median, after one run that does not count unless R is 1; "
                  "left out: for 0.2 s, at most 100 times")
      ->type_name("R")
      ->check(CLI::Range(1, 1000000));
  run->add_option("--seed", options->seed, "For what is drawn (default 0)")->type_name("S");
  run->footer("Example:\n  postlude run epilogues/bias_gelu.py --gemm 4096x4096x1024 --in bf16 --verify");
  return {run, [options, &json] {
            const Result result = execute(*options);
            if (json) print(to_json(*options, result));
            else print(to_text(*options, result));
            return result.correct() ? Exit::ok : Exit::check_failed;
          }};
}

}  // namespace postlude::inline v0::cli
