// conv_bench [--layer NAME | --shape IMAGExCHANNELSxFILTERSxTAPSxSTRIDE] [--epilogue NAME] [--images N] [--threads T]
// [--seconds S] [--isa NAME] [--as-they-lie] [--json]
//
// ResNet-50's convolutions in f32, channels_last: ours beside oneDNN's, in turns. Both have their filters in the order
// of their kernels beforehand: packed, and reordered. --as-they-lie: ours are packed by every call. Plain, behind bias
// and relu, behind bias, residual and relu, which its post-ops can say; and behind a graph with two outputs, which they
// cannot: oneDNN with bias and relu, then a vectorised loop. A time is printed only for who agrees with us.
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
#include <random>
#include <string>
#include <vector>

namespace postlude::bench {
namespace {

struct Layer {
  const char* name;
  std::int64_t image, channels, filters, taps, stride;
};
constexpr Layer layers[] = {
    {"conv1", 224, 3, 64, 7, 2},      {"2 in", 56, 64, 64, 1, 1},     {"2 3x3", 56, 64, 64, 3, 1},
    {"2 out", 56, 64, 256, 1, 1},     {"2 next", 56, 256, 64, 1, 1},  {"3 in", 56, 256, 128, 1, 1},
    {"3 3x3 s2", 56, 128, 128, 3, 2}, {"3 out", 28, 128, 512, 1, 1},  {"3 down", 56, 256, 512, 1, 2},
    {"3 next", 28, 512, 128, 1, 1},   {"3 3x3", 28, 128, 128, 3, 1},  {"4 in", 28, 512, 256, 1, 1},
    {"4 3x3 s2", 28, 256, 256, 3, 2}, {"4 out", 14, 256, 1024, 1, 1}, {"4 down", 28, 512, 1024, 1, 2},
    {"4 next", 14, 1024, 256, 1, 1},  {"4 3x3", 14, 256, 256, 3, 1},  {"5 in", 14, 1024, 512, 1, 1},
    {"5 3x3 s2", 14, 512, 512, 3, 2}, {"5 out", 7, 512, 2048, 1, 1},  {"5 down", 14, 1024, 2048, 1, 2},
    {"5 next", 7, 2048, 512, 1, 1},   {"5 3x3", 7, 512, 512, 3, 1}};

struct Epilogue {
  const char* name;
  const char* text;
  ConvOps ops;
};
constexpr Epilogue epilogues[] = {
    {"plain", "def plain(acc):\n    D = acc\n    return D\n", ConvOps::none},
    {"bias_relu", "def f(acc, bias: row):\n    D = relu(acc + bias)\n    return D\n", ConvOps::bias_relu},
    {"bias_res_relu", "def f(acc, bias: row, residual: tile):\n    D = relu(acc + bias + residual)\n    return D\n",
     ConvOps::bias_residual_relu},
    {"relu_pooled",
     "def f(acc, bias: row):\n    D = relu(acc + bias)\n    pooled = mean(D, axis=0)\n    return D, pooled\n",
     ConvOps::bias_relu}};

struct Options {
  std::string layer, shape, epilogue, isa;
  std::int64_t images = 4;
  int threads = 1;
  double seconds = 0.5;
  bool json = false, as_they_lie = false;
};

struct Floats {
  Bytes memory;
  std::int64_t count;
  explicit Floats(std::int64_t n) : memory(allocate(static_cast<std::size_t>(n * 4))), count(n) {}
  [[nodiscard]] float* data() const { return reinterpret_cast<float*>(memory.get()); }
  void draw(std::uint64_t seed, float scale) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0, scale);
    std::generate_n(data(), count, [&] { return normal(random); });
  }
};

bool close(const Floats& x, const Floats& y) {
  float largest = 0, off = 0;
  for (std::int64_t i = 0; i < x.count; ++i) {
    largest = std::max(largest, std::abs(x.data()[i]));
    const float difference = std::abs(x.data()[i] - y.data()[i]);
    off = difference <= off ? off : difference;  // NaN stays
  }
  return off <= 1e-4f * largest;
}

void report(const Options& options, const Layer& layer, const Epilogue& epilogue, const Timing& t, double flops) {
  if (options.json) {
    nlohmann::json row = {{"layer", layer.name},
                          {"image", layer.image},
                          {"channels", layer.channels},
                          {"filters", layer.filters},
                          {"taps", layer.taps},
                          {"stride", layer.stride},
                          {"images", options.images},
                          {"threads", options.threads},
                          {"epilogue", epilogue.name},
                          {"contender", t.name},
                          {"runs", t.runs},
                          {"agrees", t.agrees}};
    if (t.agrees) row.update({{"median_ms", t.median_ms}, {"p90_speed_ms", t.fast_ms}});
    std::printf("%s\n", row.dump().c_str());
  } else if (t.agrees) {
    std::printf("%-10s %-14s %-14s %9.3f ms median %9.3f p90 %7.1f GFLOP/s (%d)\n", layer.name, epilogue.name,
                t.name.c_str(), t.median_ms, t.fast_ms, flops / t.median_ms * 1e-6, t.runs);
  } else {
    std::printf("%-10s %-14s %-14s DISAGREES\n", layer.name, epilogue.name, t.name.c_str());
  }
  std::fflush(stdout);
}

void measure(const Options& options, const Layer& l, const Epilogue& epilogue) {
  const std::int64_t n = options.images, padding = l.taps / 2, out = (l.image + 2 * padding - l.taps) / l.stride + 1,
                     m = out * out, k = l.taps * l.taps * l.channels;
  Floats x(n * l.image * l.image * l.channels), w(l.filters * k), bias(l.filters), residual(n * m * l.filters),
      ours(n * m * l.filters), theirs(n * m * l.filters), pooled(n * l.filters), their_pooled(n * l.filters);
  x.draw(1, 1);
  w.draw(2, 1 / std::sqrt(static_cast<float>(k)));
  bias.draw(3, 1);
  residual.draw(4, 1);

  Target target = Target::cpu(options.threads);
  target.isa = options.isa;
  const auto steps = static_cast<std::int32_t>(l.stride), around = static_cast<std::int32_t>(padding);
  const Conv2d conv{.stride = {steps, steps}, .padding = {{{around, around}, {around, around}}}};
  const Plan plan = compile(conv, parse(epilogue.text), target);
  const std::int64_t s = l.taps, c = l.channels;
  const Tensor filters(w.data(), DType::f32, {l.filters, c, s, s}, {s * s * c, 1, s * c, c});
  std::vector<Binding> bindings{
      {"X", Tensor(x.data(), DType::f32, {n, c, l.image, l.image}, {l.image * l.image * c, 1, l.image * c, c})},
      {"D", Tensor(ours.data(), DType::f32, {n, m, l.filters})}};
  const bool is_pooled = std::strcmp(epilogue.name, "relu_pooled") == 0;
  for (const Plan::Slot& slot : plan.slots()) {
    if (slot.name == "bias") bindings.push_back({"bias", Tensor(bias.data(), DType::f32, {l.filters})});
    if (slot.name == "residual")
      bindings.push_back({"residual", Tensor(residual.data(), DType::f32, {n, m, l.filters})});
    if (slot.name == "pooled") bindings.push_back({"pooled", Tensor(pooled.data(), DType::f32, {n, l.filters})});
  }
  if (options.as_they_lie) bindings.push_back({"W", filters});
  Call call = options.as_they_lie ? plan.bind(bindings) : plan.bind(bindings, pack(plan, filters));
  std::vector<Contender> contenders = {{"postlude", [&] { call.run(); }, {}}};
  const ConvCase what{n, l.channels, l.image, l.filters, l.taps, l.stride, padding, out};
  const Run peer = onednn_conv(what, options.threads, epilogue.ops,
                               {x.data(), w.data(), bias.data(), residual.data(), theirs.data()});
  if (peer) {
    contenders.push_back({is_pooled ? "onednn + loop" : "onednn",
                          [&] {
                            peer();
                            if (is_pooled) mean_of_pixels(theirs.data(), their_pooled.data(), n, m, l.filters);
                          },
                          [&] { return close(ours, theirs) && (!is_pooled || close(pooled, their_pooled)); }});
  }
  const double flops = 2.0 * static_cast<double>(n * m * l.filters) * static_cast<double>(k);
  for (const Timing& t : in_turns(contenders, options.threads, options.seconds)) report(options, l, epilogue, t, flops);
}

}  // namespace
}  // namespace postlude::bench

int main(int argc, char** argv) {
  using namespace postlude::bench;
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--json" || flag == "--as-they-lie") {
      (flag == "--json" ? options.json : options.as_they_lie) = true;
      continue;
    }
    const std::string value = i + 1 < argc ? argv[++i] : "";
    if (flag == "--layer") options.layer = value;
    if (flag == "--epilogue") options.epilogue = value;
    if (flag == "--shape") options.shape = value;
    if (flag == "--images") options.images = std::atoll(value.c_str());
    if (flag == "--threads") options.threads = std::atoi(value.c_str());
    if (flag == "--isa") options.isa = value;
    if (flag == "--seconds") options.seconds = std::atof(value.c_str());
  }
  std::fprintf(stderr, "%s\n", peer_versions().c_str());
  if (!options.shape.empty()) {
    Layer one{"", 0, 0, 0, 0, 0};
    if (std::sscanf(options.shape.c_str(), "%ldx%ldx%ldx%ldx%ld", &one.image, &one.channels, &one.filters, &one.taps,
                    &one.stride) != 5)
      return 2;
    one.name = options.shape.c_str();
    for (const Epilogue& epilogue : epilogues)
      if (options.epilogue.empty() || options.epilogue == epilogue.name) measure(options, one, epilogue);
    return 0;
  }
  for (const Layer& layer : layers)
    for (const Epilogue& epilogue : epilogues)
      if ((options.layer.empty() || options.layer == layer.name) &&
          (options.epilogue.empty() || options.epilogue == epilogue.name))
        measure(options, layer, epilogue);
}
