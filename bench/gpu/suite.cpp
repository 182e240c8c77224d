// gpu_suite: the suite on an H200, interleaved with cuBLAS's plain product in one process. L2 is flushed before each run,
// medians are taken, results are checked against the reference at a smaller shape by the same plan's kernels.
//   gpu_suite [--json FILE] [--only NAME]... [--shape NAME]... [--schedules TEXT;TEXT...] [--runs N] [--no-check] [--sweep]
#include "cuda/emit_fragment.h"
#include "cuda/schedule.h"
#include "gpu/problem.h"

#include <postlude/error.h>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>
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
constexpr NamedShape shapes[] = {{"square", {1, 8192, 8192, 8192}}, {"bert_ffn", {1, 16384, 4096, 1024}}, {"mid", {1, 4096, 4096, 4096}},
                                 {"odd", {1, 4095, 4099, 1021}}};

// The fastest peer's time over cuBLAS's plain product (SUITE.md, H200, torch 2.11, 2026-11-21): square, bert_ffn, mid.
struct Peer {
  const char* epilogue;
  struct Cell { const char* who; double ms, plain_ms; } cells[3];
};
constexpr double plain_square = 1.389, plain_bert = 0.2225, plain_mid = 0.1812;
#define CELLS(w0, a, w1, b, w2, c) {{w0, a, plain_square}, {w1, b, plain_bert}, {w2, c, plain_mid}}
constexpr Peer peers[] = {
    {"bias_relu", CELLS("inductor", 1.459, "inductor", 0.261, "autotune", 0.196)},
    {"bias_gelu", CELLS("inductor", 1.486, "cublaslt", 0.2262, "inductor", 0.205)},
    {"axpby", CELLS("inductor", 1.530, "inductor", 0.289, "inductor", 0.204)},
    {"bias_gelu_res_aux", CELLS("inductor", 1.590, "autotune", 0.287, "autotune", 0.204)},
    {"dgelu_dbias", CELLS("autotune", 1.627, "autotune", 0.415, "inductor", 0.254)},
    {"swiglu", CELLS("autotune", 1.557, "autotune", 0.244, "inductor", 0.191)},
    {"bce", CELLS("autotune", 1.677, "autotune", 0.395, "autotune", 0.237)},
    {"rowmax", CELLS("inductor", 1.413, "inductor", 0.244, "inductor", 0.197)},
    {"rmsnorm", CELLS("inductor", 1.593, "inductor", 0.291, "inductor", 0.207)},
    {"softmax", CELLS("inductor", 1.566, "inductor", 0.358, "inductor", 0.227)},
    {"argmax", CELLS("inductor", 1.478, "eager", 0.279, "eager", 0.211)},
    {"xent", CELLS("inductor", 1.658, "inductor", 0.343, "inductor", 0.221)},
    {"fp8_rowwise", CELLS("scaled_mm", 0.810, "scaled_mm", 0.1248, "scaled_mm", 0.106)},
};

// cuBLAS's plain bf16 product, row-major D = A B with B stored N x K.
class Cublas {
 public:
  Cublas() : workspace_(0, 64u << 20) {
    void* library = dlopen("libcublas.so.13", RTLD_NOW | RTLD_GLOBAL);
    if (!library) library = dlopen("libcublas.so.12", RTLD_NOW | RTLD_GLOBAL);
    if (!library) throw Error(ErrorCode::no_device, "cuBLAS is not here, and nothing else gives the plain product's time");
    reinterpret_cast<int (*)(void**)>(dlsym(library, "cublasCreate_v2"))(&handle_);
    reinterpret_cast<int (*)(void*, void*, std::size_t)>(dlsym(library, "cublasSetWorkspace_v2"))(handle_, reinterpret_cast<void*>(workspace_.pointer()),
                                                                                               workspace_.bytes());
    gemm_ = reinterpret_cast<Gemm>(dlsym(library, "cublasGemmEx"));
  }
  void run(const Shape& s, std::uint64_t a, std::uint64_t b, std::uint64_t d) const {
    constexpr int transposed = 1, plain = 0, bf16_type = 14, compute_f32 = 68, by_heuristic = -1;
    const float one = 1, zero = 0;
    const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
    const int status = gemm_(handle_, transposed, plain, n, m, k, &one, reinterpret_cast<void*>(b), bf16_type, k, reinterpret_cast<void*>(a), bf16_type, k, &zero,
                             reinterpret_cast<void*>(d), bf16_type, n, compute_f32, by_heuristic);
    if (status) throw Error(ErrorCode::device_failed, "cublasGemmEx returned " + std::to_string(status));
  }

 private:
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*, void*, int, int, int, int);
  void* handle_ = nullptr;
  cuda::Buffer workspace_;
  Gemm gemm_ = nullptr;
};

struct Row {
  std::string epilogue, shape, schedule, peer, peer_source;
  double ours = 0, plain = 0, peer_ratio = 0, error = -1, host_us = 0;
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string json;
  std::vector<std::string> schedules;
  std::set<std::string> only, only_shapes;
  int runs = 21;
  bool check_results = true, sweep = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
    if (flag == "--json") json = value();
    else if (flag == "--only") only.insert(value());
    else if (flag == "--shape") only_shapes.insert(value());
    else if (flag == "--runs") runs = std::atoi(value().c_str());
    else if (flag == "--no-check") check_results = false;
    else if (flag == "--sweep") sweep = true;
    else if (flag == "--schedules") {
      std::string text = value();
      for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(';', at), text.size());
        schedules.push_back(text.substr(at, end - at));
        at = end + 1;
      }
    }
  }
  if (schedules.empty()) schedules = {""};
  const cuda::CurrentDevice current(0);
  std::printf("%s\n", cuda::describe_driver().c_str());
  const Cublas cublas;
  cuda::Buffer flush(0, 256u << 20);
  cuda::CuEvent begin = nullptr, end = nullptr;
  check(driver().EventCreate(&begin, 0), "creating an event");
  check(driver().EventCreate(&end, 0), "creating an event");

  std::map<std::string, double> errors;
  std::vector<Row> rows;
  for (const NamedShape& named : shapes) {
    if (!only_shapes.empty() && !only_shapes.contains(named.name)) continue;
    const Shape& shape = named.shape;
    Problem3 plain("plain", shape);
    std::vector<std::unique_ptr<Problem3>> problems;
    std::vector<Row> here;
    for (const char* name : suite_names) {
      if (!only.empty() && !only.contains(name)) continue;
      if (std::string(named.name) == "odd" && std::strcmp(name, "plain") && std::strcmp(name, "bias_gelu")) continue;
      std::vector<std::string> list = schedules;
      if (sweep) {
        // The candidates of the epilogue, by what the heuristic's own choice needs: ask for each by its text.
        list = {""};
        for (const char* text : {"pingpong 128x192x4 sub 32x2 aux %d raster 8", "pingpong 128x128x5 sub 32x2 aux %d raster 8", "pingpong 128x128x4 sub 64x2 aux %d raster 8",
                                 "pingpong 128x160x4 sub 32x2 aux %d raster 8", "pingpong 128x160x5 sub 32x2 aux %d raster 8", "cooperative 128x256x3 sub 32x2 aux %d raster 8",
                                 "cooperative 128x256x4 sub 32x2 aux %d raster 8", "cooperative 256x128x3 sub 64x2 aux %d raster 8", "cooperative 256x128x4 sub 32x2 aux %d raster 8"}) {
          for (const int aux : {0, 2}) {
            char line[96];
            std::snprintf(line, sizeof line, text, aux);
            list.emplace_back(line);
          }
        }
      }
      for (const std::string& schedule : list) {
        Row row;
        row.epilogue = name, row.shape = named.name;
        try {
          if (check_results && schedule.empty() && !errors.contains(name)) {
            double worst = 0;
            for (const Shape& small : {Shape{1, 512, 768, 512}, Shape{1, 333, 264, 200}}) {
              Problem3 problem(name, small, schedule);
              problem.run();
              for (const Comparison& c : problem.compare()) worst = std::max(worst, c.error_over_bound);
            }
            errors[name] = worst;
          }
          if (check_results && schedule.empty()) row.error = errors[name];
          problems.push_back(std::make_unique<Problem3>(name, shape, schedule));
        } catch (const Error& error) {
          if (schedule.empty() || !sweep) std::printf("%s %s [%s]: %s\n", name, named.name, schedule.c_str(), error.what());
          continue;
        }
        row.schedule = problems.back()->schedule();
        here.push_back(row);
      }
    }
    std::vector<std::vector<float>> times(problems.size() + 1);
    for (int run = 0; run < runs + 3; ++run) {
      for (std::size_t i = 0; i <= problems.size(); ++i) {
        check(driver().MemsetD8Async(flush.pointer(), static_cast<unsigned char>(run), flush.bytes(), nullptr), "flushing L2");
        check(driver().EventRecord(begin, nullptr), "timing");
        const auto host = std::chrono::steady_clock::now();
        if (i < problems.size()) problems[i]->run();
        else cublas.run(shape, plain.pointer("A"), plain.pointer("B"), plain.pointer("D"));
        const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - host).count();
        check(driver().EventRecord(end, nullptr), "timing");
        check(driver().EventSynchronize(end), "timing");
        float ms = 0;
        check(driver().EventElapsedTime(&ms, begin, end), "timing");
        if (run >= 3) times[i].push_back(ms);
        if (run >= 3 && i < problems.size()) here[i].host_us += us / runs;
      }
    }
    const auto median = [](std::vector<float> v) {
      std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
      return v[v.size() / 2];
    };
    const double base = median(times.back());
    std::printf("%s: cuBLAS %.4f ms, %.0f TFLOP/s\n", named.name, base, 2e-9 * double(shape.m) * double(shape.n) * double(shape.k) / base);
    for (std::size_t i = 0; i < problems.size(); ++i) {
      Row& row = here[i];
      row.ours = median(times[i]), row.plain = base;
      const auto at = &named - shapes;
      for (const Peer& peer : peers) {
        if (row.epilogue != peer.epilogue || at > 2) continue;
        row.peer = peer.cells[at].who, row.peer_ratio = peer.cells[at].ms / peer.cells[at].plain_ms;
      }
      rows.push_back(row);
    }
    std::fflush(stdout);
  }
  std::printf("\n%-18s %-9s %9s %9s %7s %7s %8s %7s  schedule\n", "epilogue", "shape", "ours ms", "cuBLAS ms", "ratio", "peer", "err/bnd", "host us");
  for (const Row& r : rows) {
    std::printf("%-18s %-9s %9.4f %9.4f %7.3f %7.3f %8.3f %7.1f  %s\n", r.epilogue.c_str(), r.shape.c_str(), r.ours, r.plain, r.ours / r.plain, r.peer_ratio, r.error,
                r.host_us, r.schedule.substr(0, 110).c_str());
  }
  if (!json.empty()) {
    std::FILE* file = std::fopen(json.c_str(), "w");
    if (!file) throw Error(ErrorCode::cannot_write, "cannot write " + postlude::quoted(json));
    std::fprintf(file, "{\"device\": \"%s\", \"runs\": %d, \"rows\": [\n", escaped(cuda::device(0).name).c_str(), runs);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Row& r = rows[i];
      std::fprintf(file, "  {\"epilogue\": \"%s\", \"shape\": \"%s\", \"dtype\": \"%s\", \"ours_ms\": %.5f, \"cublas_plain_ms\": %.5f, \"best_peer\": \"%s\", "
                   "\"best_peer_ms\": %.5f, \"schedule\": \"%s\", \"error_over_bound\": %.4f}%s\n",
                   r.epilogue.c_str(), r.shape.c_str(), r.epilogue == "fp8_rowwise" ? "e4m3" : "bf16", r.ours, r.plain, r.peer.c_str(), r.peer_ratio * r.plain,
                   escaped(r.schedule).c_str(), r.error, i + 1 < rows.size() ? "," : "");
    }
    std::fprintf(file, "]}\n");
    std::fclose(file);
  }
  return 0;
} catch (const Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}
