// shapes_bench CELLS LOOPS SECONDS: random cells in f32 on one thread (bench/shapes/cpu.py draws them), ours beside our
// own plain product, the peers' plain products, and those with a loop behind them out of the library LOOPS. CELLS is a
// file of JSON, an object a line; a line of results is printed for each, in the same order.
#include "arrays.h"
#include "peers.h"
#include "timing.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <nlohmann/json.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>

namespace postlude::bench {
namespace {

using nlohmann::json;

// What a loop reads and writes, as bench/shapes/loops.py declares it.
struct Hand {
  Int m, n;
  const float* acc;
  const void* operand[8];
  void* output[8];
};
using Loop = void (*)(const Hand*);

constexpr double verified = 4e7;   // operations of a product that the reference does in a moment
constexpr double shortest = 3e-5;  // seconds that a sample takes at least
// So many times everything lies in memory of its own, all of it at once: where operands lie moves short cells' times
// more than turns do, by up to a half, and not the same for everybody (decision 0231). Long ones have one place.
constexpr int places = 3;
constexpr double in_places = 4e9;  // operations

Values values_of(const std::string& name) {
  return name == "scale" ? Values::scale : name == "unit" ? Values::unit : Values::normal;
}

// How many of a loop's outputs are as ours, within what -ffast-math and a library's order of sums allow.
bool same(const Plan& plan, const Plan::Slot& slot, const json& cell, const Arrays& ours, const std::byte* theirs) {
  Int elements = 1;
  for (const Int extent : plan.shape_of(slot.name, cell["m"], cell["n"], cell["k"])) elements *= extent;
  double scale = 0, off = 0;
  Int wrong = 0;
  const auto take = [&](double x, double y) {
    scale += std::abs(x) / static_cast<double>(elements);
    off = std::abs(x - y) <= off ? off : std::abs(x - y);
    wrong += x != y;
  };
  for (Int i = 0; i < elements; ++i) {
    if (slot.dtype == DType::f32) take(ours.data<float>(slot.name)[i], reinterpret_cast<const float*>(theirs)[i]);
    else if (slot.dtype == DType::i64)
      take(static_cast<double>(ours.data<Int>(slot.name)[i]),
           static_cast<double>(reinterpret_cast<const Int*>(theirs)[i]));
    else take(ours.data<signed char>(slot.name)[i], reinterpret_cast<const signed char*>(theirs)[i]);
  }
  if (slot.dtype == DType::i64) return wrong * 50 <= elements + 50;  // of values that are nearly equal
  return off <= (slot.dtype == DType::f32 ? 2e-3 * scale + 2e-3 * std::sqrt(scale) + 1e-4 : 1.0);
}

// What a loop behind a library's product works on: the epilogue's operands, and outputs of its own.
class LoopMemory {
 public:
  LoopMemory(const json& cell, const Plan& plan, const Arrays& arrays, void* loops)
      : cell_(cell), plan_(plan), ours_(arrays) {
    const std::string symbol = cell["symbol"];
    run_ = reinterpret_cast<Loop>(dlsym(loops, symbol.c_str()));
    if (!run_) throw std::runtime_error("no loop " + symbol);
    hand_.m = cell["m"], hand_.n = cell["n"];
    acc_ = allocate(static_cast<std::size_t>(hand_.m * hand_.n * 4));
    hand_.acc = acc();
    std::size_t at = 0;
    for (const json& operand : cell["operands"])
      hand_.operand[at++] = arrays.data<std::byte>(operand["name"].get<std::string>());
    for (const Plan::Slot& slot : plan.slots()) {
      if (!slot.output) continue;
      Int elements = 1;
      for (const Int extent : plan.shape_of(slot.name, cell["m"], cell["n"], cell["k"])) elements *= extent;
      hand_.output[slots_.size()] =
          outputs_.emplace_back(allocate(static_cast<std::size_t>(elements * size_of(slot.dtype)))).get();
      slots_.push_back(slot);
    }
  }
  [[nodiscard]] float* acc() const { return reinterpret_cast<float*>(acc_.get()); }
  void run() const { run_(&hand_); }
  [[nodiscard]] bool agrees() const {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (!same(plan_, slots_[i], cell_, ours_, outputs_[i].get())) return false;
    return true;
  }

 private:
  const json& cell_;
  const Plan& plan_;
  const Arrays& ours_;
  Loop run_ = nullptr;
  Hand hand_{};
  Bytes acc_;
  std::vector<Bytes> outputs_;
  std::vector<Plan::Slot> slots_;
};

double seconds_of(const Run& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A cell in memory of its own, and everybody who is timed there. All read the same A and B, and plain products write
// the same output: whose were touched once a turn would find less of them in the caches.
class Place {
 public:
  Place(const json& cell, const Plan& plan, const Plan& plain_plan, void* loops)
      : arrays_(arrays_of(cell)),
        plain_arrays_(arrays_of(cell)),
        bindings_(arrays_.bindings(plan)),
        loop_(cell, plan, arrays_, loops) {
    std::vector<Binding> plain_bindings = plain_arrays_.bindings(plain_plan);
    for (Binding& binding : plain_bindings) {
      for (const Binding& shared : bindings_)
        if (binding.name == shared.name && (shared.name == "A" || shared.name == "B")) binding.tensor = shared.tensor;
      if (binding.name != "A" && binding.name != "B") binding.tensor.data = loop_.acc();
    }
    plain_ = plain_plan.bind(plain_bindings);
  }
  [[nodiscard]] const std::vector<Binding>& bindings() const { return bindings_; }
  [[nodiscard]] std::string describe() const { return fused_.describe(); }
  void first_run(const Plan& plan) { fused_ = plan.bind(bindings_), fused_.run(); }

  // The time of each, by name; whether all loops agree with ours.
  bool time(const json& cell, double seconds, std::map<std::string, std::vector<double>>& ms) {
    const Case what{"cell", cell["m"], cell["n"], cell["k"], DType::f32, cell["b_contiguous"] == "k"};
    const float* const a = arrays_.data<float>("A");
    const float* const b = arrays_.data<float>("B");
    std::vector<Contender> contenders;
    std::vector<int> times;
    // Short ones several times a sample, as the clock itself takes a while.
    const auto add = [&](const std::string& name, const Run& run, std::function<bool()> agrees = {}) {
      run();
      const int count = std::clamp(static_cast<int>(shortest / std::max(seconds_of(run), 1e-8)), 1, 1000);
      times.push_back(count);
      contenders.push_back({name,
                            [run, count] {
                              for (int i = 0; i < count; ++i) run();
                            },
                            std::move(agrees)});
    };
    add("ours", [&] { fused_.run(); });
    add("own_plain", [&] { plain_.run(); });
    for (const auto& [name, run] : {std::pair{std::string("openblas"), openblas(what, 1, a, b, loop_.acc())},
                                    {"onednn", onednn(what, 1, a, b, loop_.acc())}}) {
      if (!run) continue;
      add(name, run);
      add(
          name + "_loop", [run, this] { run(), loop_.run(); }, [this] { return loop_.agrees(); });
    }
    bool agree = true;
    const std::vector<Timing> timings = in_turns(contenders, 1, seconds, 3);
    for (std::size_t i = 0; i < timings.size(); ++i) {
      ms[timings[i].name].push_back(timings[i].median_ms / times[i]);
      agree = agree && timings[i].agrees;
    }
    return agree;
  }

 private:
  static Arrays arrays_of(const json& cell) {
    Arrays arrays(cell["m"], cell["n"], cell["k"], cell["b_contiguous"] == "k");
    for (const json& operand : cell["operands"]) arrays.holds(operand["name"], values_of(operand["values"]));
    return arrays;
  }

  Arrays arrays_, plain_arrays_;
  std::vector<Binding> bindings_;
  LoopMemory loop_;
  Call fused_, plain_;
};

json measured(const json& cell, void* loops, double seconds) {
  Plan plan;
  double first = seconds_of([&] { plan = compile(Gemm{}, parse(cell["text"].get<std::string>()), Target::cpu(1)); });
  const Plan plain_plan = compile(Gemm{}, parse("def plain(acc):\n    return acc\n"), Target::cpu(1));
  const double operations = 2.0 * cell["m"].get<double>() * cell["n"].get<double>() * cell["k"].get<double>();
  const int count = operations <= in_places ? places : 1;
  std::vector<std::unique_ptr<Place>> at;
  for (int i = 0; i < count; ++i) at.push_back(std::make_unique<Place>(cell, plan, plain_plan, loops));
  first += seconds_of([&] { at[0]->first_run(plan); });
  json row = {{"first_call_s", first}, {"schedule", at[0]->describe()}};
  if (operations <= verified) {
    double worst = 0;
    for (const Comparison& c : verify(plan, at[0]->bindings())) worst = std::max(worst, c.error_over_bound);
    row["error_over_bound"] = worst;
  }
  std::map<std::string, std::vector<double>> ms;
  for (int i = 0; i < count; ++i) {
    if (i > 0) at[i]->first_run(plan);
    if (!at[i]->time(cell, seconds / count, ms)) row["loop_agrees"] = false;
  }
  for (auto& [name, found] : ms) {
    std::sort(found.begin(), found.end());
    row[name + "_ms"] = found[found.size() / 2];
  }
  return row;
}

}  // namespace
}  // namespace postlude::bench

int main(int argc, char** argv) {
  using namespace postlude::bench;
  if (argc < 4) return 2;
  void* loops = dlopen(argv[2], RTLD_NOW);
  if (!loops) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  std::fprintf(stderr, "%s\n", peer_versions().c_str());
  std::ifstream cells(argv[1]);
  for (std::string line; std::getline(cells, line);) {
    const json cell = json::parse(line);
    json row = {{"number", cell["number"]}};
    try {
      row.update(measured(cell, loops, std::atof(argv[3])));
    } catch (const std::exception& error) { row["failed"] = error.what(); }
    std::printf("%s\n", row.dump().c_str());
    std::fflush(stdout);
  }
  return 0;
}
