// gpu_suite: the suite on an H200, interleaved with cuBLAS's plain product in one process. L2 is
// flushed before each run, medians are taken, results are checked against the reference at smaller
// shapes by the same plan's kernels.
//   gpu_suite [--json FILE] [--only NAME]... [--shape NAME]... [--schedules TEXT;TEXT...] [--runs N] [--no-check]
//             [--streams] [--costs] [--sweep] [--prewarm I/N]
// --streams: epilogues without a product beside a copy. --costs: compiling, loading, binding and
// launching. --sweep: every tile that is legal, and the heuristic's neighbours. --prewarm: compiles
// every N-th of all that into the cache and ends.
#include "cuda/choose/schedule.h"
#include "gpu/problem.h"

#include <postlude/error.h>

#include <dlfcn.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace postlude;
using namespace postlude::gpu_tests;
using cuda::check;
using cuda::driver;

namespace {

struct NamedShape {
  const char* name;
  Shape shape;
};
constexpr NamedShape shapes[] = {{"square", {1, 8192, 8192, 8192}}, {"bert_ffn", {1, 16384, 4096, 1024}},
                                 {"mid", {1, 4096, 4096, 4096}},    {"odd", {1, 4095, 4099, 1021}},
                                 {"decode", {1, 64, 4096, 4096}},   {"narrow", {1, 64, 1024, 8192}}};

bool is_large(const std::string& shape) { return shape == "square" || shape == "bert_ffn" || shape == "mid"; }
// Two epilogues are measured at the odd shape, and a few with few rows.
bool measured(const std::string& epilogue, const std::string& shape) {
  if (is_large(shape) || epilogue == "plain" || epilogue == "bias_gelu") return true;
  return shape != "odd" && (epilogue == "bias_gelu_res_aux" || epilogue == "swiglu" || epilogue == "rmsnorm");
}

// cuBLAS's plain bf16 product, row-major D = A B with B stored N x K.
class Cublas {
 public:
  Cublas() : workspace_(0, 64u << 20) {
    void* library = dlopen("libcublas.so.13", RTLD_NOW | RTLD_GLOBAL);
    if (!library) library = dlopen("libcublas.so.12", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
      throw Error(ErrorCode::no_device, "cuBLAS is not here, and nothing else gives the plain product's time");
    reinterpret_cast<int (*)(void**)>(dlsym(library, "cublasCreate_v2"))(&handle_);
    reinterpret_cast<int (*)(void*, void*, std::size_t)>(dlsym(library, "cublasSetWorkspace_v2"))(
        handle_, reinterpret_cast<void*>(workspace_.pointer()), workspace_.bytes());
    gemm_ = reinterpret_cast<Gemm>(dlsym(library, "cublasGemmEx"));
  }
  void run(const Shape& s, std::uint64_t a, std::uint64_t b, std::uint64_t d) const {
    constexpr int transposed = 1, plain = 0, bf16_type = 14, compute_f32 = 68, by_heuristic = -1;
    const float one = 1, zero = 0;
    const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
    const int status = gemm_(handle_, transposed, plain, n, m, k, &one, reinterpret_cast<void*>(b), bf16_type, k,
                             reinterpret_cast<void*>(a), bf16_type, k, &zero, reinterpret_cast<void*>(d), bf16_type, n,
                             compute_f32, by_heuristic);
    if (status) throw Error(ErrorCode::device_failed, "cublasGemmEx returned " + std::to_string(status));
  }

 private:
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                       const void*, void*, int, int, int, int);
  void* handle_ = nullptr;
  cuda::Buffer workspace_;
  Gemm gemm_ = nullptr;
};

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Runs several things in turns, each with a cold L2.
class Clock {
 public:
  Clock() : flush_(0, 256u << 20) {
    check(driver().EventCreate(&begin_, 0), "creating an event");
    check(driver().EventCreate(&end_, 0), "creating an event");
  }
  struct Times {
    double ms = 0;       // on the device, median
    double host_us = 0;  // until the call returned, median
  };
  std::vector<Times> time(const std::vector<std::function<void()>>& calls, int runs) const {
    std::vector<std::vector<double>> device(calls.size()), host(calls.size());
    for (int run = 0; run < runs + 3; ++run) {
      for (std::size_t i = 0; i < calls.size(); ++i) {
        check(driver().MemsetD8Async(flush_.pointer(), static_cast<unsigned char>(run), flush_.bytes(), nullptr),
              "flushing L2");
        check(driver().EventRecord(begin_, nullptr), "timing");
        const double start = now_ms();
        calls[i]();
        const double issued = now_ms() - start;
        check(driver().EventRecord(end_, nullptr), "timing");
        check(driver().EventSynchronize(end_), "timing");
        float ms = 0;
        check(driver().EventElapsedTime(&ms, begin_, end_), "timing");
        if (run < 3) continue;
        device[i].push_back(ms);
        host[i].push_back(1e3 * issued);
      }
    }
    std::vector<Times> result;
    for (std::size_t i = 0; i < calls.size(); ++i) result.push_back({median(device[i]), median(host[i])});
    return result;
  }

 private:
  cuda::Buffer flush_;
  cuda::CuEvent begin_ = nullptr, end_ = nullptr;
};

std::string quoted_json(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

// A line of JSON out of names and values that are JSON already.
std::string object(const std::vector<std::pair<const char*, std::string>>& fields) {
  std::string text;
  for (const auto& [name, value] : fields) text += (text.empty() ? "{\"" : ", \"") + std::string(name) + "\": " + value;
  return text + "}";
}
std::string number(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", x);
  return text;
}

struct Results {
  std::vector<std::string> rows, streams, costs, sweep;
};

// ---- the rows -----------------------------------------------------------------------------------

double checked(const std::string& name, const std::string& schedule) {
  double worst = 0;
  const std::int64_t columns = name == "qk_norm_rope" ? 384 : 264;  // it has heads of 128
  for (const Shape& small : {Shape{1, 512, 768, 512}, Shape{1, 333, columns, 200}}) {
    DeviceProblem problem(name, small, schedule);
    problem.run();
    for (const Comparison& c : problem.compare()) worst = std::max(worst, c.error_over_bound);
  }
  return worst;
}

// The number of results that were out of bounds.
int suite(const NamedShape& named, const std::vector<std::string>& names, const std::vector<std::string>& schedules,
          int runs, bool check_results, const Cublas& cublas, const Clock& clock, std::map<std::string, double>& errors,
          Results& results) {
  const Shape& shape = named.shape;
  DeviceProblem plain("plain", shape);
  struct Row {
    std::string epilogue;
    double error = -1;
    std::unique_ptr<DeviceProblem> problem{};
  };
  std::vector<Row> rows;
  int wrong = 0;
  for (const std::string& name : names) {
    if (!measured(name, named.name)) continue;
    for (const std::string& schedule : schedules) {
      try {
        Row row{.epilogue = name};
        if (check_results && schedule.empty()) {
          if (!errors.contains(name)) errors[name] = checked(name, schedule);
          row.error = errors[name];
          wrong += !(row.error <= 1);
        }
        row.problem = std::make_unique<DeviceProblem>(name, shape, schedule);
        rows.push_back(std::move(row));
      } catch (const Error& error) {
        std::printf("%s %s [%s]: %s\n", name.c_str(), named.name, schedule.c_str(), error.what());
        ++wrong;
      }
    }
  }
  std::vector<std::function<void()>> calls;
  for (const Row& row : rows) calls.emplace_back([&row] { row.problem->run(); });
  calls.emplace_back([&] { cublas.run(shape, plain.pointer("A"), plain.pointer("B"), plain.pointer("D")); });
  const std::vector<Clock::Times> times = clock.time(calls, runs);
  const double base = times.back().ms;
  std::printf("%s: cuBLAS %.4f ms, %.0f TFLOP/s\n", named.name, base,
              2e-9 * double(shape.m) * double(shape.n) * double(shape.k) / base);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    std::printf("%-18s %-9s %9.4f %7.3f  err/bnd %6.3f  host %5.1f us  %s\n", r.epilogue.c_str(), named.name,
                times[i].ms, times[i].ms / base, r.error, times[i].host_us,
                r.problem->schedule().substr(0, 110).c_str());
    results.rows.push_back(object({{"epilogue", quoted_json(r.epilogue)},
                                   {"shape", quoted_json(named.name)},
                                   {"dtype", r.epilogue == "fp8_rowwise" ? "\"e4m3\"" : "\"bf16\""},
                                   {"ours_ms", number(times[i].ms)},
                                   {"cublas_plain_ms", number(base)},
                                   {"host_us", number(times[i].host_us)},
                                   {"schedule", quoted_json(r.problem->schedule())},
                                   {"error_over_bound", number(r.error)}}));
  }
  std::fflush(stdout);
  return wrong;
}

// ---- schedules ----------------------------------------------------------------------------------

// Every legal tile, filled, and the neighbours of the first few that differ in one knob. explain()
// lists the tiles.
std::vector<std::string> schedules_of(const DeviceProblem& problem, const Shape& shape) {
  std::vector<std::string> found;
  const auto add = [&](const std::string& text) {
    if (std::find(found.begin(), found.end(), text) == found.end()) found.push_back(text);
  };
  std::istringstream lines(problem.compile("").explain(ExplainPart::schedule, shape.m, shape.n, shape.k));
  for (std::string line; std::getline(lines, line);) {
    const std::string text = line.substr(0, line.find("  "));
    try {
      (void)cuda::parse_schedule(text);
      add(text);
    } catch (const Error&) {  // another line of the explanation
    }
  }
  const std::size_t tiles = found.size();
  for (std::size_t i = 0; i < std::min<std::size_t>(3, tiles); ++i) {
    for (int knob = 0; knob < 4; ++knob) {
      cuda::Schedule s = cuda::parse_schedule(found[i]);
      if (knob == 0) s.sub_n = s.sub_n == 32 ? 64 : 32;
      if (knob == 1) --s.stages;
      if (knob == 2) s.raster = 2;
      if (knob == 3) s.d_buffers = s.d_buffers == 2 ? 3 : 2;
      add(cuda::to_string(s));
    }
  }
  return found;
}

void sweep(const NamedShape& named, const std::string& name, const Clock& clock, Results& results) {
  DeviceProblem problem(name, named.shape);
  struct Tried {
    std::string schedule;
    Call call;
  };
  std::vector<Tried> tried{{problem.schedule(), problem.compile("").bind(problem.bindings())}};
  for (const std::string& schedule : schedules_of(problem, named.shape)) {
    try {
      tried.push_back({schedule, problem.compile(schedule).bind(problem.bindings())});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_schedule) throw;  // else: this neighbour is not legal
    }
  }
  std::vector<std::function<void()>> calls;
  for (Tried& t : tried) calls.emplace_back([&t] { t.call.run(); });
  const std::vector<Clock::Times> times = clock.time(calls, 7);
  std::size_t best = 0;
  for (std::size_t i = 1; i < times.size(); ++i) best = times[i].ms < times[best].ms ? i : best;
  const double ratio = times[0].ms / times[best].ms;
  std::printf("sweep %-18s %-9s heuristic / best %.3f of %zu: %s\n", name.c_str(), named.name, ratio, tried.size(),
              tried[best].schedule.c_str());
  std::fflush(stdout);
  results.sweep.push_back(object({{"epilogue", quoted_json(name)},
                                  {"shape", quoted_json(named.name)},
                                  {"ratio", number(ratio)},
                                  {"tried", number(double(tried.size()))},
                                  {"heuristic", quoted_json(tried[0].schedule)},
                                  {"best", quoted_json(tried[best].schedule)}}));
}

// ---- without a product --------------------------------------------------------------------------

void streams(const Clock& clock, int runs, Results& results) {
  struct Stream3 {
    const char *name, *text;
    int written;  // tiles
  };
  constexpr Stream3 list[] = {
      {"silu", "def f(acc):\n    D = silu(acc)\n    return D\n", 1},
      {"row_sum", "def f(acc):\n    s: f32 = sum(acc, axis=1)\n    return s\n", 0},
      {"softmax", "def f(acc):\n    e = exp(acc - max(acc, axis=1))\n    D = e / sum(e, axis=1)\n    return D\n", 1}};
  const Shape shape{1, 16384, 4096, 0};
  auto* copy = reinterpret_cast<cuda::CuResult (*)(cuda::CuPointer, cuda::CuPointer, std::size_t, cuda::CuStream)>(
      dlsym(RTLD_DEFAULT, "cuMemcpyDtoDAsync_v2"));
  if (!copy) throw Error(ErrorCode::driver_too_old, "the driver has no cuMemcpyDtoDAsync_v2");
  for (const DType type : {DType::f32, DType::bf16}) {
    const auto bytes = static_cast<std::size_t>(shape.m * shape.n * size_of(type));
    cuda::Buffer to(0, bytes);
    std::vector<std::unique_ptr<DeviceProblem>> problems;
    std::vector<std::function<void()>> calls;
    for (const Stream3& s : list)
      problems.push_back(std::make_unique<DeviceProblem>(Stream{.x = type}, parse(s.text), shape));
    for (const auto& problem : problems) calls.emplace_back([&problem] { problem->run(); });
    calls.emplace_back([&] { check(copy(to.pointer(), problems[0]->pointer("X"), bytes, nullptr), "copying"); });
    const std::vector<Clock::Times> times = clock.time(calls, runs);
    const double copied = 2e-6 * double(bytes) / times.back().ms;
    std::printf("copy of %s 16384x4096: %.4f ms, %.0f GB/s\n", name(type).data(), times.back().ms, copied);
    for (std::size_t i = 0; i < std::size(list); ++i) {
      const double gbps = 1e-6 * double(bytes) * (1 + list[i].written) / times[i].ms;
      std::printf("stream %-8s %-5s %9.4f ms  %5.0f GB/s  %.3f of a copy's\n", list[i].name, name(type).data(),
                  times[i].ms, gbps, gbps / copied);
      results.streams.push_back(object({{"name", quoted_json(list[i].name)},
                                        {"dtype", quoted_json(std::string(name(type)))},
                                        {"ms", number(times[i].ms)},
                                        {"gbps", number(gbps)},
                                        {"copy_gbps", number(copied)},
                                        {"of_copy", number(gbps / copied)}}));
    }
  }
}

// ---- what it costs beside the device's time -----------------------------------------------------

void costs(const std::vector<std::string>& names, const Clock& clock, Results& results) {
  const Shape shape{1, 4096, 4096, 1024};
  const std::string before = getenv("POSTLUDE_CACHE_DIR") ? getenv("POSTLUDE_CACHE_DIR") : "";
  std::string folder = (std::filesystem::temp_directory_path() / "postlude-costs-XXXXXX").string();
  if (!mkdtemp(folder.data())) throw Error(ErrorCode::cannot_write, "cannot make a folder for a cold cache");
  double cold = 0, warm = 0, again = 0, host = 0, graph = 0;
  std::string cold_name, warm_name, host_name;
  const auto raise = [](double& most, double value, std::string* name = nullptr, const std::string& of = {}) {
    if (value > most) {
      most = value;
      if (name) *name = of;
    }
  };
  for (const std::string& name : names) {
    setenv("POSTLUDE_CACHE_DIR", (before.empty() ? folder : before).c_str(), 1);
    DeviceProblem problem(name, shape);
    setenv("POSTLUDE_CACHE_DIR", folder.c_str(), 1);
    double at = now_ms();
    (void)problem.compile("").bind(problem.bindings());
    raise(cold, now_ms() - at, &cold_name, name);
    std::vector<double> warms, agains;
    Plan plan;
    Call call;
    for (int i = 0; i < 5; ++i) {
      call = {}, plan = {};
      at = now_ms();
      plan = problem.compile("");
      call = plan.bind(problem.bindings());
      warms.push_back(now_ms() - at);
    }
    for (int i = 0; i < 199; ++i) {  // as a program does that binds at every step
      at = now_ms();
      call = plan.bind(problem.bindings());
      agains.push_back(1e3 * (now_ms() - at));
    }
    raise(warm, median(warms), &warm_name, name);
    raise(again, median(agains));
    const Clock::Times times = clock.time({[&] { problem.run(); }}, 101).front();
    raise(host, times.host_us, &host_name, name);
    std::printf("costs of %-18s warm %.3g ms, a further bind %.3g us, a run %.3g us\n", name.c_str(), median(warms),
                median(agains), times.host_us);
    graph += times.host_us / double(names.size());
  }
  if (before.empty()) unsetenv("POSTLUDE_CACHE_DIR");
  else setenv("POSTLUDE_CACHE_DIR", before.c_str(), 1);
  std::filesystem::remove_all(folder);
  const auto add = [&](const std::string& what, double value, const char* unit, double bar) {
    std::printf("cost: %s %.4g %s (bar %g)\n", what.c_str(), value, unit, bar);
    results.costs.push_back(object(
        {{"what", quoted_json(what)}, {"value", number(value)}, {"unit", quoted_json(unit)}, {"bar", number(bar)}}));
  };
  add("a cold compile and bind, the slowest of the suite (" + cold_name + ")", cold / 1e3, "s", 1.5);
  add("the same from the cache on disk (" + warm_name + ")", warm, "ms", 5);
  add("a further bind of a plan, the slowest", again, "us", 50);
  add("a run's time on the host, the slowest (" + host_name + ")", host, "us", 5);
  add("a run's time on the host, the mean of the suite", graph, "us", 5);
}

void write(const std::string& path, int runs, const Results& results) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) throw Error(ErrorCode::cannot_write, "cannot write " + postlude::quoted(path));
  std::fprintf(file, "{\"device\": %s, \"versions\": %s, \"runs\": %d", quoted_json(cuda::device(0).name).c_str(),
               quoted_json(cuda::describe_driver()).c_str(), runs);
  const auto list = [&](const char* name, const std::vector<std::string>& lines) {
    std::fprintf(file, ",\n \"%s\": [", name);
    for (std::size_t i = 0; i < lines.size(); ++i) std::fprintf(file, "%s\n  %s", i ? "," : "", lines[i].c_str());
    std::fprintf(file, "]");
  };
  list("rows", results.rows);
  list("streams", results.streams);
  list("costs", results.costs);
  list("sweep", results.sweep);
  std::fprintf(file, "}\n");
  std::fclose(file);
}

}  // namespace

int main(int argc, char** argv) try {
  std::string json;
  std::vector<std::string> schedules, names;
  std::set<std::string> only, only_shapes;
  int runs = 21, part = -1, parts = 1;
  bool check_results = true, with_sweep = false, with_streams = false, with_costs = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
    if (flag == "--json") json = value();
    else if (flag == "--only") only.insert(value());
    else if (flag == "--shape") only_shapes.insert(value());
    else if (flag == "--runs") runs = std::max(1, std::atoi(value().c_str()));
    else if (flag == "--no-check") check_results = false;
    else if (flag == "--sweep") with_sweep = true;
    else if (flag == "--streams") with_streams = true;
    else if (flag == "--costs") with_costs = true;
    else if (flag == "--prewarm") std::sscanf(value().c_str(), "%d/%d", &part, &parts);
    else if (flag == "--schedules") {
      std::istringstream list(value());
      for (std::string text; std::getline(list, text, ';');) schedules.push_back(text);
    } else {
      std::fprintf(stderr, "unknown: %s\n", flag.c_str());
      return 2;
    }
  }
  if (schedules.empty()) schedules = {""};
  std::vector<std::string> every(std::begin(suite_names), std::end(suite_names));
  every.emplace_back("qk_norm_rope");
  for (const std::string& name : every) {
    if (only.empty() || only.contains(name)) names.push_back(name);
  }
  const cuda::CurrentDevice current(0);
  if (part >= 0) {
    // Everything that the work will compile is dealt out among the processes, in the order of that
    // work.
    int turn = 0;
    for (const NamedShape& named : shapes) {
      if (!only_shapes.empty() && !only_shapes.contains(named.name)) continue;
      for (const std::string& name : names) {
        if (!measured(name, named.name)) continue;
        if (turn++ % parts != part) continue;
        const DeviceProblem problem(name, named.shape);
        if (!with_sweep || !is_large(named.name)) continue;
        for (const std::string& schedule : schedules_of(problem, named.shape)) {
          try {
            (void)problem.compile(schedule).bind(problem.bindings());
          } catch (const Error& error) {
            if (error.code() != ErrorCode::bad_schedule) throw;
          }
        }
      }
    }
    return 0;
  }
  std::printf("%s\n", cuda::describe_driver().c_str());
  const Cublas cublas;
  const Clock clock;
  Results results;
  std::map<std::string, double> errors;
  int wrong = 0;
  for (const NamedShape& named : shapes) {
    if (only_shapes.empty() || only_shapes.contains(named.name))
      wrong += suite(named, names, schedules, runs, check_results, cublas, clock, errors, results);
  }
  if (with_streams) streams(clock, runs, results);
  if (with_costs) costs(names, clock, results);
  if (!json.empty()) write(json, runs, results);
  for (const NamedShape& named : shapes) {
    if (!with_sweep || !is_large(named.name) || (!only_shapes.empty() && !only_shapes.contains(named.name))) continue;
    for (const std::string& name : names) sweep(named, name, clock, results);
  }
  if (!json.empty()) write(json, runs, results);
  if (wrong) std::printf("%d cells failed or are outside of their bounds\n", wrong);
  return wrong != 0;
} catch (const Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}
