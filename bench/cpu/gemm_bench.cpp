// gemm_bench [--case TEXT] [--threads 1,2] [--seconds S] [--isa NAME] [--json]
//
// Plain products, ours beside the peers', in turns. A ratio is printed only where the outputs agree.
#include "gemm_bench.h"

#include "cpu/gemm.h"
#include "cpu/threads.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>

namespace postlude::bench {

std::vector<Result> measure(const Case& what, int threads, const std::vector<Contender>& contenders, double seconds,
                            double tolerance, int least) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<double>> times(contenders.size());
  for (const Contender& c : contenders) c.run();
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  while (elapsed() < seconds || static_cast<int>(times[0].size()) < least) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const auto before = Clock::now();
      contenders[i].run();
      times[i].push_back(std::chrono::duration<double>(Clock::now() - before).count());
    }
  }
  const double flops = 2e-9 * static_cast<double>(what.m) * static_cast<double>(what.n) * static_cast<double>(what.k);
  std::vector<Result> results;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    const std::size_t runs = times[i].size();
    Result r{what, contenders[i].name, threads, flops / times[i][runs / 2], flops / times[i][runs / 10],
             static_cast<int>(runs), true};
    for (std::int64_t e = 0; e < what.m * what.n && r.agrees; ++e) {
      // i32 accumulators are compared bit for bit: as floats many of them would be NaN.
      r.agrees = is_float(what.dtype) ? std::abs(contenders[i].out[e] - contenders[0].out[e]) <= tolerance
                                      : std::memcmp(contenders[i].out + e, contenders[0].out + e, 4) == 0;
    }
    results.push_back(std::move(r));
  }
  return results;
}

namespace {

struct Aligned {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{4096}); }
};
using Bytes = std::unique_ptr<std::byte[], Aligned>;
Bytes allocate(std::size_t bytes) {
  Bytes p(new (std::align_val_t{4096}) std::byte[std::max<std::size_t>(bytes, 64)]);
  std::memset(p.get(), 0, bytes);
  return p;
}

// Integers for the 8-bit types; otherwise numbers in [-1, 1) that all formats can hold.
Bytes draw(std::int64_t count, DType type, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes = allocate(static_cast<std::size_t>(count * size_of(type)));
  for (std::int64_t i = 0; i < count; ++i) {
    const int step = static_cast<int>(random() % 256) - 128;
    const float value = static_cast<float>(step) / 128;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    if (type == DType::bf16) bits >>= 16;
    if (type == DType::f16) bits = value == 0 ? 0 : (bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ffff) - (112 << 10));
    if (type == DType::s8 || type == DType::u8) bits = static_cast<std::uint8_t>(step);
    std::memcpy(bytes.get() + i * size_of(type), &bits, static_cast<std::size_t>(size_of(type)));
  }
  return bytes;
}

void store_floats(void* context, const cpu::FinishedBlock& block) {
  const auto& [out, n, floats] = *static_cast<std::tuple<float*, std::int64_t, bool>*>(context);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    float* const to = out + (block.row0 + i) * n + block.column0;
    const char* from = static_cast<const char*>(block.acc) + i * block.acc_row * 4;
    std::memcpy(to, from, static_cast<std::size_t>(block.columns * 4));
  }
}

struct Ours {
  cpu::Product product;
  cpu::PackedB packed;
  cpu::Blocking blocking;
  cpu::RunOptions options;
  cpu::Direct direct;
  Bytes thread_scratch, shared_scratch, out;
  std::tuple<float*, std::int64_t, bool> context;

  Ours(const Case& what, int threads, cpu::Isa isa, const void* a, const void* b, bool pack, bool consume) {
    product.m = what.m, product.n = what.n, product.k = what.k;
    product.a = {a, what.dtype, what.k, 1};
    product.b = {b, what.dtype, what.b_k_major ? 1 : what.n, what.b_k_major ? what.k : 1};
    if (pack) {
      packed = cpu::pack_b(product, isa, threads);
      product.packed_b = &packed;
    }
    blocking = cpu::choose_blocking(cpu::shape_of(product), isa);
    options.threads = threads;
    options.thread_scratch_stride = (blocking.thread_bytes + 63) / 64 * 64;
    thread_scratch = allocate(options.thread_scratch_stride * static_cast<std::size_t>(threads));
    shared_scratch = allocate(blocking.shared_bytes);
    options.thread_scratch = thread_scratch.get();
    options.shared_scratch = shared_scratch.get();
    out = allocate(static_cast<std::size_t>(what.m * what.n * 4));
    context = {output(), what.n, is_float(what.dtype)};
    if (consume || !is_float(what.dtype)) {
      options.consumer = {store_floats, &context};
    } else {
      direct.out = output();
      direct.row_stride = what.n;
      options.direct = &direct;
    }
  }
  float* output() { return reinterpret_cast<float*>(out.get()); }
  void run() { cpu::run(product, blocking, options); }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"256", 256, 256, 256},
      {"cpu_square", 1024, 1024, 1024},
      {"2048", 2048, 2048, 2048},
      {"cpu_ffn", 512, 3072, 768},
      {"cpu_thin", 2048, 2048, 64},
      {"1000", 1000, 1000, 1000},
      {"odd", 517, 1031, 773},
      {"m1", 1, 4096, 4096},
      {"m8", 8, 4096, 4096},
      {"m64", 64, 4096, 4096},
      {"long_k", 32, 32, 200000},
      {"bf16_square", 1024, 1024, 1024, DType::bf16},
      {"bf16_ffn", 512, 3072, 768, DType::bf16},
      {"f16_square", 1024, 1024, 1024, DType::f16},
      {"s8_square", 1024, 1024, 1024, DType::s8},
      {"s8_ffn", 512, 3072, 768, DType::s8},
  };
  return all;
}

}  // namespace
}  // namespace postlude::bench

int main(int argc, char** argv) {
  using namespace postlude;
  using namespace postlude::bench;
  std::string only;
  std::vector<int> thread_counts = {1, 2};
  double seconds = 1.0;
  bool json = false;
  cpu::Isa isa = cpu::best_isa();
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--json") {
      json = true;
      continue;
    }
    if (flag == "--case") only = value;
    if (flag == "--seconds") seconds = std::atof(value);
    if (flag == "--isa") isa = cpu::parse_isa(value).value_or(isa);
    if (flag == "--threads") thread_counts = std::strchr(value, ',') ? std::vector<int>{1, 2} : std::vector<int>{std::atoi(value)};
    ++i;
  }
  std::fprintf(stderr, "%s; %s\n", std::string(cpu::name(isa)).c_str(), peer_versions().c_str());

  std::vector<Result> all;
  for (Case what : cases()) {
    if (!only.empty() && what.name.find(only) != 0) continue;
    const Bytes a = draw(what.m * what.k, what.dtype, 1);
    const Bytes b = draw(what.k * what.n, what.dtype, 2);
    for (const bool k_major : {false, true}) {
      what.b_k_major = k_major;
      for (const int threads : thread_counts) {
        std::vector<std::unique_ptr<Ours>> ours;
        std::vector<Contender> contenders;
        const auto add_ours = [&](const char* name, bool pack, bool consume) {
          ours.push_back(std::make_unique<Ours>(what, threads, isa, a.get(), b.get(), pack, consume));
          Ours* one = ours.back().get();
          contenders.push_back({name, [one] { one->run(); }, one->output()});
        };
        add_ours("postlude", false, false);
        add_ours("postlude packed", true, false);
        add_ours("postlude consumer", false, true);
        const Bytes outs[3] = {allocate(static_cast<std::size_t>(what.m * what.n * 4)),
                               allocate(static_cast<std::size_t>(what.m * what.n * 4)),
                               allocate(static_cast<std::size_t>(what.m * what.n * 4))};
        const auto out = [&](int i) { return reinterpret_cast<float*>(outs[i].get()); };
        for (Contender& c : openblas(what, threads, a.get(), b.get(), out(0))) contenders.push_back(std::move(c));
        for (Contender& c : onednn(what, threads, a.get(), b.get(), out(1), out(2))) contenders.push_back(std::move(c));
        // Operands are at most 1: a sum of K products of f32 is off by less than K * K / 2^24.
        const double depth = static_cast<double>(what.k);
        const double tolerance = is_float(what.dtype) ? std::min(depth * depth * 0x1p-24, depth * 1e-4) : 0;
        for (Result& r : measure(what, threads, contenders, seconds, tolerance)) all.push_back(std::move(r));
        const std::size_t first = all.size() - contenders.size();
        if (!json) {
          for (std::size_t i = first; i < all.size(); ++i) {
            std::printf("%-12s B %s, %d thread%s  %-18s %7.1f median %7.1f p90  %s\n", what.name.c_str(),
                        k_major ? "NxK" : "KxN", threads, threads > 1 ? "s" : " ", all[i].contender.c_str(),
                        all[i].median_gflops, all[i].p90_gflops, all[i].agrees ? "" : "DISAGREES: no ratio");
          }
          std::fflush(stdout);
        }
      }
    }
  }
  if (json) {
    std::printf("[");
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Result& r = all[i];
      std::printf("%s\n  {\"case\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, \"dtype\": \"%s\", \"b\": \"%s\", \"threads\": %d, "
                  "\"contender\": \"%s\", \"median_gflops\": %.2f, \"p90_gflops\": %.2f, \"runs\": %d, \"agrees\": %s}",
                  i ? "," : "", r.what.name.c_str(), static_cast<long long>(r.what.m), static_cast<long long>(r.what.n),
                  static_cast<long long>(r.what.k), std::string(name(r.what.dtype)).c_str(),
                  r.what.b_k_major ? "NxK" : "KxN", r.threads, r.contender.c_str(), r.median_gflops, r.p90_gflops, r.runs,
                  r.agrees ? "true" : "false");
    }
    std::printf("\n]\n");
  }
  return 0;
}
