// gemm_bench [--case TEXT] [--b KxN|NxK] [--threads 1,2] [--seconds S] [--isa NAME] [--json]
//
// Plain products, ours beside the peers', in turns. A speed is printed only for who agrees with us.
#include "peers.h"
#include "timing.h"

#include "cpu/product/gemm.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

namespace postlude::bench {
namespace {

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
      options.prefetch[0] = {output(), what.n * 4, 4};  // as the backend does
    } else {
      direct.out = output();
      direct.row_stride = what.n;
      options.direct = &direct;
    }
  }
  float* output() { return reinterpret_cast<float*>(out.get()); }
  void run() { cpu::run(product, blocking, options); }
};

// i32 accumulators are compared bit for bit: as floats many of them would be NaN.
bool equal(const Case& what, const float* x, const float* y) {
  // Operands are at most 1: a sum of K products of f32 is off by less than K * K / 2^24.
  const double depth = static_cast<double>(what.k);
  const double tolerance = std::min(depth * depth * 0x1p-24, depth * 1e-4);
  if (!is_float(what.dtype)) return std::memcmp(x, y, static_cast<std::size_t>(what.m * what.n * 4)) == 0;
  for (std::int64_t e = 0; e < what.m * what.n; ++e) {
    if (!(std::abs(x[e] - y[e]) <= tolerance)) return false;
  }
  return true;
}

void measure(const Case& what, const std::vector<int>& thread_counts, double seconds, cpu::Isa isa, bool json) {
  const Bytes a = draw(what.m * what.k, what.dtype, 1);
  const Bytes b = draw(what.k * what.n, what.dtype, 2);
  // The 16-bit types run beside our own f32 of the same numbers.
  Case wide = what;
  wide.dtype = DType::f32;
  const bool beside = size_of(what.dtype) == 2;
  const Bytes wide_a = draw(beside ? what.m * what.k : 0, wide.dtype, 1);
  const Bytes wide_b = draw(beside ? what.k * what.n : 0, wide.dtype, 2);
  const auto result = [&] { return allocate(static_cast<std::size_t>(what.m * what.n * 4)); };
  const auto floats = [](const Bytes& bytes) { return reinterpret_cast<float*>(bytes.get()); };
  for (const int threads : thread_counts) {
    Ours plain(what, threads, isa, a.get(), b.get(), false, false);
    Ours packed(what, threads, isa, a.get(), b.get(), true, false);
    const Bytes outs[3] = {result(), result(), result()};
    std::vector<Contender> contenders = {
        {"postlude", [&] { plain.run(); }, {}},
        {"postlude packed", [&] { packed.run(); }, [&] { return equal(what, plain.output(), packed.output()); }}};
    const auto add = [&](const char* name, Run run, const float* out) {
      if (run)
        contenders.push_back({name, std::move(run), [&plain, &what, out] { return equal(what, plain.output(), out); }});
    };
    add("openblas", openblas(what, threads, a.get(), b.get(), outs[0].get()), floats(outs[0]));
    add("onednn", onednn(what, threads, a.get(), b.get(), outs[1].get()), floats(outs[1]));
    add("onednn packed", onednn(what, threads, a.get(), b.get(), outs[2].get(), true), floats(outs[2]));
    std::optional<Ours> f32;
    if (beside) {
      f32.emplace(wide, threads, isa, wide_a.get(), wide_b.get(), false, false);
      add(
          "postlude f32", [&f32] { f32->run(); }, f32->output());
    }
    const double work = 2e-6 * static_cast<double>(what.m) * static_cast<double>(what.n) * static_cast<double>(what.k);
    for (const Timing& t : in_turns(contenders, threads, seconds)) {
      const char* layout = what.b_k_major ? "NxK" : "KxN";
      if (json) {
        nlohmann::json row = {{"case", what.name},
                              {"m", what.m},
                              {"n", what.n},
                              {"k", what.k},
                              {"dtype", std::string(name(what.dtype))},
                              {"b", layout},
                              {"threads", threads},
                              {"contender", t.name},
                              {"runs", t.runs},
                              {"agrees", t.agrees}};
        if (t.agrees) row.update({{"median_gflops", work / t.median_ms}, {"p90_gflops", work / t.fast_ms}});
        std::printf("%s\n", row.dump().c_str());
      } else if (t.agrees) {
        std::printf("%-12s B %s, %d thread%s  %-16s %7.1f median %7.1f p90 (%d)\n", what.name.c_str(), layout, threads,
                    threads > 1 ? "s" : " ", t.name.c_str(), work / t.median_ms, work / t.fast_ms, t.runs);
      } else {
        std::printf("%-12s B %s, %d threads  %-16s DISAGREES\n", what.name.c_str(), layout, threads, t.name.c_str());
      }
      std::fflush(stdout);
    }
  }
}

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
      {"f16_ffn", 512, 3072, 768, DType::f16},
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
  std::string only, layout;
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
    if (flag == "--b") layout = value;
    if (flag == "--seconds") seconds = std::atof(value);
    if (flag == "--isa") isa = cpu::parse_isa(value).value_or(isa);
    if (flag == "--threads")
      thread_counts = std::strchr(value, ',') ? std::vector<int>{1, 2} : std::vector<int>{std::atoi(value)};
    ++i;
  }
  std::fprintf(stderr, "%s; %s\n", std::string(cpu::name(isa)).c_str(), peer_versions().c_str());
  for (Case what : cases()) {
    if (what.name.find(only) != 0) continue;
    for (const bool k_major : {false, true}) {
      what.b_k_major = k_major;
      if (layout.empty() || layout == (k_major ? "NxK" : "KxN")) measure(what, thread_counts, seconds, isa, json);
    }
  }
  return 0;
}
