// fuzz_emission [--seed S] [--count N] [--seconds T]
//
// Random epilogues by random schedules as they are emitted for a GPU, compiled for the host and run there against the
// reference, warps in drawn orders. A case is a dozen of them, which share one compilation.
#include "correctness/cases.h"
#include "cuda/host/harness.h"
#include "fuzz/choices.h"
#include "fuzz/driver.h"
#include "fuzz/grammar.h"
#include "fuzz/oracle.h"
#include "gpu/device_run.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace postlude {
namespace {

constexpr std::uint64_t together = 12;

// A stream of so many rows that a pass parts them among blocks.
fuzz::Case long_stream(std::uint64_t seed, fuzz::Choices& pick) {
  fuzz::Case c;
  do c = fuzz::generate(pick.next(), {.most_nodes = 16});
  while (!c.problem.get_if<Stream>());
  c.seed = seed;
  c.shape.batch = std::max<std::int64_t>(c.shape.batch, 1);
  c.shape.m = 400 + pick.below(1400), c.shape.n = 1 + pick.below(20);
  for (int tries = 0; tries < 100 && !fuzz::divisible(c); ++tries) ++c.shape.n;
  return c;
}

// Of several tiles along both axes, the last ones cut.
void several_tiles(fuzz::Case& c, fuzz::Choices& pick) {
  c.shape.m = 1 + pick.below(140), c.shape.k = 8 * (1 + pick.below(12));
  c.shape.n =
      pick.chance(50) ? 32 * (1 + pick.below(16)) : 8 * (1 + pick.below(66)) + (pick.chance(25) ? pick.below(8) : 0);
  for (int tries = 0; tries < 200 && !fuzz::divisible(c); ++tries) ++c.shape.n;
}

// Mostly for tensor cores: behind a product, a stream, a convolution, or many tiles; one of the suite, or a random one.
fuzz::Case draw(std::uint64_t seed) {
  fuzz::Choices pick(fuzz::mix(seed ^ 0xe315));
  if (pick.chance(8)) return gpu_tests::with_many_tiles(seed, 1);
  if (pick.chance(15)) return long_stream(seed, pick);
  if (pick.chance(20)) {
    const std::vector<std::string> names = suite();
    const std::string& name = names[static_cast<std::size_t>(pick.below(static_cast<std::int64_t>(names.size())))];
    const DType type = name.find("fp8") == name.npos ? DType::bf16 : DType::e4m3;
    const Shape shape{pick.chance(30) ? 2 : 1, 1 + pick.below(140), 64 * (1 + pick.below(4)), 8 * (1 + pick.below(66))};
    fuzz::Case c =
        suite_case(name, Gemm{.a = type, .b = type, .batched = shape.batch > 1}, shape, fuzz::Values::normal);
    c.seed = seed;
    return c;
  }
  fuzz::Case c = fuzz::generate(
      seed, {.most_nodes = 24, .most_elements = 2048, .convolutions = pick.chance(20) ? 100 : 0, .reductions = 40});
  if (pick.chance(75)) c = gpu_tests::on_tensor_cores(c);
  if (c.problem.get_if<Gemm>() && pick.chance(60)) several_tiles(c, pick);
  return c;
}

struct Running {
  fuzz::Case c;
  fuzz::Tensors tensors;
  Call call;
};

// On the fake device: half of the scalars by value, by the portable kernel, through memory, the chosen
// schedule, or one that is drawn.
Running bound(const fuzz::Case& c) {
  Running r{c, fuzz::materialise(c), {}};
  fuzz::Choices pick(fuzz::mix(c.seed ^ 0x5c4ed));
  std::vector<Binding> named = r.tensors.named();
  for (std::size_t i = 0; i < named.size(); ++i) {
    Tensor& t = named[i].tensor;
    t.device = Device::cuda;
    if (t.rank > 0 || r.tensors.all[i].output || pick.chance(50)) continue;
    t.by_value = true;
    std::memcpy(t.value.data(), std::exchange(t.data, nullptr), static_cast<std::size_t>(size_of(t.dtype)));
  }
  bool drawn = false;
  const bool multiplies = c.problem.get_if<Stream>() == nullptr;
  Target asked = Target::cuda();
  if (multiplies) asked.schedule = pick.chance(40) ? "mma" : "accumulator";
  r.call = pick.chance(45) ? compile(c.problem, Graph(std::make_shared<const GraphData>(c.graph)), asked).bind(named)
                           : gpu_tests::bind_case(c, named, pick.chance(20) ? 0 : pick.next() | 1, drawn);
  return r;
}

// "" or what is wrong with it. The sources are compiled.
std::string check(Running& r, const host::Harness& harness) {
  const reference::Evaluation expected = reference::evaluate(
      r.c.graph, r.c.problem, r.tensors.bindings, {.accumulator = gpu_tests::error_model(r.c, r.call.describe())});
  std::vector<std::vector<std::uint8_t>> first;
  for (const std::uint64_t order : {std::uint64_t{0}, r.c.seed + 1}) {
    harness.order(order);
    r.tensors.poison_outputs();
    r.call.run();
    std::string wrong = fuzz::compare(expected, r.c, r.tensors, "the host");
    if (wrong.empty()) wrong = r.tensors.damage();
    if (wrong.empty() && order && r.tensors.copy_outputs() != first) wrong = "another order of warps gives other bits";
    if (!wrong.empty()) return wrong;
    first = r.tensors.copy_outputs();
  }
  return "";
}

std::string check(std::uint64_t seed) {
  host::Harness harness(("fuzz_emission-" + std::to_string(seed)).c_str());
  fuzz::Case now;
  try {
    std::vector<Running> all;
    for (std::uint64_t i = 0; i < together; ++i) {
      now = draw(together * seed + i);
      if (fuzz::divisible(now)) all.push_back(bound(now));
    }
    for (Running& r : all) now = r.c, r.call.run();  // gathers the sources
    if (!harness.compile("-O0")) return "the sources do not compile";
    for (Running& r : all) {
      now = r.c;
      if (const std::string wrong = check(r, harness); !wrong.empty())
        return wrong + "\nby " + r.call.describe() + "\n" + fuzz::write(r.c);
    }
  } catch (const std::exception& e) { return std::string("throws ") + e.what() + "\n" + fuzz::write(now); }
  return "";
}

}  // namespace
}  // namespace postlude

int main(int argc, char** argv) {
  return postlude::fuzz::drive(argc, argv, {}, [](std::uint64_t seed) { return postlude::check(seed); });
}
