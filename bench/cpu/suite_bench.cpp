// suite_bench [suite|stream|compile] [--shape TEXT] [--epilogue NAME] [--threads 1,2] [--seconds S]
// [--isa NAME] [--json]
//
// The suite's epilogues in f32, B stored N x K: fused by us, beside our own plain product, the
// peers' products with a hand-fused loop behind them, and what oneDNN's post-ops can say; all in
// turns. A time is printed only for who agrees with us. `stream`: memory-bound graphs beside a copy
// of the same bytes. `compile`: the time from text to a bound call.
#include "arrays.h"
#include "hand_loops.h"
#include "peers.h"
#include "timing.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace postlude::bench {
namespace {

struct Epilogue {
  const char* name;
  const char* text;  // null: the suite's file
  double tolerance;  // of the largest magnitude of an output
  PostOps ops = PostOps::none;
  const char* in_place = nullptr;  // an operand in whose place D may stand, as a peer has it
};
// An epilogue that rounds to bf16 on the way may differ by one unit of bf16.
constexpr double exact = 1e-4, rounded = 2e-2;
const Epilogue epilogues[] = {
    {"bias_relu", nullptr, exact, PostOps::bias_relu},
    {"axpby", nullptr, exact, PostOps::axpby, "C"},
    {"rowmax", nullptr, exact},
    {"argmax", nullptr, exact},
    {"column_scale", "def column_scale(acc, scale: col):\n    D = acc * scale\n    return D\n", exact,
     PostOps::column_scale},
    {"bias_gelu", nullptr, exact, PostOps::bias_gelu},
    {"bias_gelu_res",
     "def bias_gelu_res(acc, bias: row, residual: tile):\n    D = gelu(acc + bias) + residual\n    return D\n", exact,
     PostOps::bias_gelu_res},
    {"bias_gelu_res_aux", nullptr, exact},
    {"swiglu", nullptr, exact},
    {"dgelu_dbias", nullptr, exact},
    {"bce", nullptr, exact},
    {"xent", nullptr, exact},
    {"rmsnorm", nullptr, rounded},
    {"softmax", nullptr, rounded},
};

struct ShapeCase {
  const char* name;
  Int m, n, k;
};
constexpr ShapeCase shapes[] = {{"cpu_square", 1024, 1024, 1024},
                                {"cpu_ffn", 512, 3072, 768},
                                {"cpu_thin", 2048, 2048, 64},
                                {"cpu_decode", 8, 4096, 4096},
                                {"small", 128, 128, 128}};
// oneDNN has no fast kernel for a {M, 1} operand: at cpu_ffn one run took 55 s. So that post-op is
// timed at a small shape only.
bool hopeless(const Epilogue& epilogue, const ShapeCase& shape) {
  return epilogue.ops == PostOps::column_scale && shape.m * shape.n * shape.k > Int{1} << 22;
}

struct Options {
  std::string what = "suite", shape, epilogue, isa;
  std::vector<int> threads = {1, 2};
  double seconds = 1.0;
  bool json = false;
};

Graph graph_of(const Epilogue& epilogue) {
  if (epilogue.text) return parse(epilogue.text);
  return parse_file(std::string(POSTLUDE_SOURCE_DIR "/epilogues/") + epilogue.name + ".py");
}
Plan plan_of(const Problem& problem, const Epilogue& epilogue, int threads, const Options& options) {
  Target target = Target::cpu(threads);
  target.isa = options.isa;
  return compile(problem, graph_of(epilogue), target);
}

Call bind(const Plan& plan, Arrays& arrays, const char* in_place = nullptr) {
  std::vector<Binding> bindings = arrays.bindings(plan);
  if (in_place) {
    for (Binding& binding : bindings) {
      if (binding.name == "D") binding.tensor.data = arrays.data<std::byte>(in_place);
    }
  }
  return plan.bind(bindings);
}

bool close(const float* x, const float* y, Int count, double tolerance) {
  double largest = 0, off = 0;
  for (Int i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(x[i])));
    const double difference = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    off = difference <= off ? off : difference;  // NaN stays
  }
  return off <= tolerance * largest;
}

// A peer: its product, then our hand-written loop; with memory of its own for what it makes.
struct Peer {
  const Epilogue& epilogue;
  const Plan& plan;
  const Arrays& ours;
  Case what;
  Bytes acc, out, index;
  Hand hand;
  HandLoop loop = nullptr;

  Peer(const Epilogue& e, const Plan& p, const Arrays& arrays, const Case& c, int threads)
      : epilogue(e),
        plan(p),
        ours(arrays),
        what(c),
        acc(allocate(static_cast<std::size_t>(c.m * c.n * 4))),
        out(allocate(static_cast<std::size_t>(c.m * c.n * 4))),
        index(allocate(static_cast<std::size_t>(c.m * 8))) {
    hand.m = c.m, hand.n = c.n, hand.threads = threads;
    hand.acc = reinterpret_cast<float*>(acc.get());
    hand.out = reinterpret_cast<float*>(out.get());
    hand.index = reinterpret_cast<Int*>(index.get());
    for (const Plan::Slot& slot : p.slots()) {
      if (slot.output || slot.name == "A" || slot.name == "B") continue;
      const float* data = arrays.data<float>(slot.name);
      if (slot.dtype == DType::i64) hand.labels = arrays.data<Int>(slot.name);
      else if (slot.name == "alpha") hand.alpha = *data;
      else if (slot.name == "beta") hand.beta = *data;
      else if (slot.axes == Axes(Axis::n)) hand.row = data;
      else if (slot.axes == Axes(Axis::m)) hand.column = data;
      else hand.tile = data;
    }
    loop = hand_loop(e.name);
  }

  [[nodiscard]] bool agrees() const {
    bool same = true;
    for (const Plan::Slot& slot : plan.slots()) {
      if (!slot.output) continue;
      if (slot.dtype == DType::i64) {  // an index is right where the value there is as large
        const Int* x = ours.data<Int>(slot.name);
        for (Int i = 0; i < what.m; ++i) {
          const float* row = hand.acc + i * what.n;
          same = same && std::abs(row[x[i]] - row[hand.index[i]]) <= 1e-4f * std::abs(row[hand.index[i]]);
        }
        continue;
      }
      Int elements = 1;
      for (const Int extent : plan.shape_of(slot.name, what.m, what.n, what.k)) elements *= extent;
      // A loop leaves its full tile in place, but D where there are two tiles.
      const bool tile = slot.axes.contains(tile_axes);
      const bool elsewhere = !tile || elements != what.m * what.n ||
                             (slot.name == "D" && std::strcmp(epilogue.name, "bias_gelu_res_aux") == 0);
      same = same && close(ours.data<float>(slot.name), elsewhere ? hand.out : hand.acc, elements, epilogue.tolerance);
    }
    return same;
  }
};

void report(const Options& options, nlohmann::json row, const Timing& t, double scale, const char* unit) {
  row.update({{"contender", t.name}, {"runs", t.runs}, {"agrees", t.agrees}});
  if (t.agrees) row.update({{"median_ms", t.median_ms}, {"p90_speed_ms", t.fast_ms}});
  if (options.json) {
    std::printf("%s\n", row.dump().c_str());
  } else {
    const std::string what = row.value("shape", "") + " " + row.value("epilogue", "");
    std::printf("%-30s %d thread%s %-20s", what.c_str(), row.value("threads", 1),
                row.value("threads", 1) > 1 ? "s" : " ", t.name.c_str());
    if (t.agrees)
      std::printf(" %9.3f ms median %9.3f p90  %6.3f %s (%d)\n", t.median_ms, t.fast_ms, scale / t.median_ms, unit,
                  t.runs);
    else std::printf(" DISAGREES\n");
  }
  std::fflush(stdout);
}

void suite(const ShapeCase& shape, const Epilogue& epilogue, int threads, const Options& options) {
  const Plan plan = plan_of(Gemm{}, epilogue, threads, options);
  const Epilogue nothing{"plain", nullptr, exact};
  const Plan plain_plan = plan_of(Gemm{}, nothing, threads, options);
  Arrays arrays(shape.m, shape.n, shape.k), plain_arrays(shape.m, shape.n, shape.k);
  Call fused = bind(plan, arrays), plain = bind(plain_plan, plain_arrays);
  const float* const a = arrays.data<float>("A");
  const float* const b = arrays.data<float>("B");
  const Case what{shape.name, shape.m, shape.n, shape.k, DType::f32, true};

  std::vector<Contender> contenders = {{"postlude", [&] { fused.run(); }, {}},
                                       {"postlude plain", [&] { plain.run(); }, {}}};
  std::vector<std::unique_ptr<Peer>> peers;
  const auto add_peer = [&](const char* name, auto product) {
    peers.push_back(std::make_unique<Peer>(epilogue, plan, arrays, what, threads));
    Peer* peer = peers.back().get();
    const Run run = product(peer->hand.acc);
    if (run && peer->loop)
      contenders.push_back({name, [run, peer] { run(), peer->loop(peer->hand); }, [peer] { return peer->agrees(); }});
  };
  add_peer("openblas + loop", [&](float* acc) { return openblas(what, threads, a, b, acc); });
  add_peer("onednn + loop", [&](float* acc) { return onednn(what, threads, a, b, acc); });

  // Post-ops, and for a sum, which stands in C's place, ourselves in its place too.
  Peer fused_peer(epilogue, plan, arrays, what, threads);
  const FusedOperands operands{fused_peer.hand.row, fused_peer.hand.column, fused_peer.hand.tile, fused_peer.hand.alpha,
                               fused_peer.hand.beta};
  const Run post_ops = onednn_fused(what, threads, a, b, fused_peer.hand.acc, epilogue.ops, operands);
  Arrays own(shape.m, shape.n, shape.k);
  Call in_place;
  if (post_ops && !hopeless(epilogue, shape)) {
    contenders.push_back({"onednn post-ops", post_ops, [&] {
                            if (epilogue.in_place) {
                              std::memcpy(fused_peer.hand.acc, fused_peer.hand.tile,
                                          static_cast<std::size_t>(shape.m * shape.n * 4));
                              post_ops();
                            }
                            return fused_peer.agrees();
                          }});
    if (epilogue.in_place) {
      static_cast<void>(bind(plan, own));
      in_place = bind(plan, own, epilogue.in_place);
      contenders.push_back({"postlude in place", [&] { in_place.run(); }, {}});
    }
  }
  const double work = 2e-6 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  for (const Timing& t : in_turns(contenders, threads, options.seconds)) {
    nlohmann::json row = {
        {"kind", "suite"},    {"shape", shape.name},      {"m", shape.m}, {"n", shape.n}, {"k", shape.k},
        {"threads", threads}, {"epilogue", epilogue.name}};
    if (t.name == "postlude") row["workspace_bytes"] = fused.workspace_bytes();
    report(options, std::move(row), t, work, "GFLOP/s");
  }
}

// ---- memory-bound graphs ------------------------------------------------------------------------

void copy(std::byte* to, const std::byte* from, std::size_t bytes, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int t = 0; t < threads; ++t) {
    const std::size_t first = bytes * static_cast<std::size_t>(t) / static_cast<std::size_t>(threads);
    const std::size_t end = bytes * static_cast<std::size_t>(t + 1) / static_cast<std::size_t>(threads);
    std::memcpy(to + first, from + first, end - first);
  }
}

void stream(int threads, const Options& options) {
  constexpr Int m = 4096, n = 4096;
  constexpr double tile = static_cast<double>(m * n * 4);
  struct Graphs {
    Epilogue epilogue;
    double bytes;
  };
  const Graphs graphs[] = {
      {{"relu", "def stream_relu(acc):\n    D = relu(acc)\n    return D\n", exact}, 2 * tile},
      {{"row_sum", "def stream_row_sum(acc):\n    S: f32 = sum(acc, axis=1)\n    return S\n", exact}, tile},
      {{"softmax",
        "def stream_softmax(acc):\n    e = exp(acc - max(acc, axis=1))\n    D = e / sum(e, axis=1)\n    return D\n",
        exact},
       2 * tile}};
  Arrays arrays(m, n, 0);
  std::vector<Plan> plans;
  std::vector<Call> calls;
  for (const Graphs& graph : graphs) {
    plans.push_back(plan_of(Stream{}, graph.epilogue, threads, options));
    calls.push_back(bind(plans.back(), arrays));
  }
  const Bytes to = allocate(static_cast<std::size_t>(tile));
  const std::byte* const from = arrays.data<std::byte>("X");
  std::vector<Contender> contenders = {
      {"copy", [&] { copy(to.get(), from, static_cast<std::size_t>(tile), threads); }, {}}};
  for (std::size_t i = 0; i < calls.size(); ++i)
    contenders.push_back({graphs[i].epilogue.name, [&calls, i] { calls[i].run(); }, {}});
  const std::vector<Timing> timings = in_turns(contenders, threads, 3 * options.seconds);
  for (std::size_t i = 0; i < timings.size(); ++i) {
    const double bytes = i == 0 ? 2 * tile : graphs[i - 1].bytes;
    report(options, {{"kind", "stream"}, {"shape", "4096x4096"}, {"threads", threads}, {"bytes", bytes}}, timings[i],
           1e-6 * bytes, "GB/s");
  }
}

// ---- compilation --------------------------------------------------------------------------------

void compilation(const Epilogue& epilogue, const Options& options) {
  constexpr ShapeCase shape = shapes[1];
  Arrays arrays(shape.m, shape.n, shape.k);
  Plan plan = plan_of(Gemm{}, epilogue, 1, options);
  Call call = bind(plan, arrays);
  const std::vector<Contender> contenders = {{"compile", [&] { plan = plan_of(Gemm{}, epilogue, 1, options); }, {}},
                                             {"bind", [&] { call = bind(plan, arrays); }, {}}};
  for (const Timing& t : in_turns(contenders, 1, 0.1 * options.seconds, 11)) {
    report(options,
           {{"kind", "compile"},
            {"shape", shape.name},
            {"threads", 1},
            {"epilogue", epilogue.name},
            {"workspace_bytes", call.workspace_bytes()}},
           t, 1e3, "/s");
  }
}

}  // namespace
}  // namespace postlude::bench

int main(int argc, char** argv) {
  using namespace postlude::bench;
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag.rfind("--", 0) != 0) {
      options.what = flag;
      continue;
    }
    if (flag == "--json") {
      options.json = true;
      continue;
    }
    const std::string value = i + 1 < argc ? argv[++i] : "";
    if (flag == "--shape") options.shape = value;
    if (flag == "--epilogue") options.epilogue = value;
    if (flag == "--isa") options.isa = value;
    if (flag == "--seconds") options.seconds = std::atof(value.c_str());
    if (flag == "--threads")
      options.threads = value == "1,2" ? std::vector<int>{1, 2} : std::vector<int>{std::atoi(value.c_str())};
  }
  const auto chosen = [&](const char* name) { return options.epilogue.empty() || options.epilogue == name; };
  if (options.what == "compile") {
    for (const Epilogue& epilogue : epilogues) {
      if (chosen(epilogue.name)) compilation(epilogue, options);
    }
    return 0;
  }
  for (const int threads : options.threads) {
    if (options.what == "stream") stream(threads, options);
    if (options.what != "suite") continue;
    for (const ShapeCase& shape : shapes) {
      if (std::string(shape.name).find(options.shape) != 0) continue;
      for (const Epilogue& epilogue : epilogues) {
        const bool fits = std::strcmp(shape.name, "small") != 0 || epilogue.ops == PostOps::column_scale;
        if (chosen(epilogue.name) && fits) suite(shape, epilogue, threads, options);
      }
    }
  }
  return 0;
}
