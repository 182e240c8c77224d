// fuzz_emission [--seed S] [--count N] [--seconds T] [--jobs J]
//
// Random epilogues by random schedules as they are emitted for a GPU, compiled for the host and run there against the
// reference, warps in drawn orders. A case is some thirty of them, which share one compilation, with up to three
// problems each.
#include "correctness/cases.h"
#include "cuda/host/harness.h"
#include "fuzz/choices.h"
#include "fuzz/composed.h"
#include "fuzz/driver.h"
#include "fuzz/grammar.h"
#include "fuzz/oracle.h"
#include "gpu/device_run.h"
#include "graph/ir/verify.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace postlude {
namespace {

constexpr std::uint64_t problems = 3;  // of each
constexpr int multiprocessors = 3;     // few: a block has several tiles
constexpr std::int64_t large = 16384;  // elements: of such a case there is one problem, and rarely one through memory

// A stream of so many rows or columns, or so large, that a pass parts a result's elements among blocks.
fuzz::Case long_stream(std::uint64_t seed, fuzz::Choices& pick) {
  fuzz::Case c;
  do c = fuzz::generate(pick.next(), {.most_nodes = 16, .reductions = 40});
  while (!c.problem.get_if<Stream>());
  c.seed = seed;
  c.shape.batch = std::max<std::int64_t>(c.shape.batch, 1);
  c.shape.m = 400 + pick.below(1400), c.shape.n = 1 + pick.below(20);
  if (pick.chance(40))
    c.shape.batch = 1, c.shape.m = 100 + pick.below(300), c.shape.n = 20'000 / c.shape.m + pick.below(40);
  else if (pick.chance(20)) c.shape.batch = 1, c.shape.m = 1, c.shape.n = 17'000 + pick.below(9000);
  for (int tries = 0; tries < 100 && !fuzz::divisible(c); ++tries) ++c.shape.n;
  return c;
}

// Of several tiles along both axes, the last ones cut.
void several_tiles(fuzz::Case& c, fuzz::Choices& pick) {
  c.shape.m = 1 + pick.below(140), c.shape.k = 8 * (1 + pick.below(pick.chance(25) ? 40 : 12));
  c.shape.n =
      pick.chance(50) ? 32 * (1 + pick.below(16)) : 8 * (1 + pick.below(66)) + (pick.chance(25) ? pick.below(8) : 0);
  for (int tries = 0; tries < 200 && !fuzz::divisible(c); ++tries) ++c.shape.n;
}

// Mostly for tensor cores: behind a product, a stream, a convolution, or many tiles; one of the suite, or a random one.
fuzz::Case any(std::uint64_t seed) {
  fuzz::Choices pick(fuzz::mix(seed ^ 0xe315));
  if (pick.chance(10)) return gpu_tests::with_many_tiles(seed, 2 + static_cast<int>(pick.below(3)));
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

// As quantised models have them: an operand of each group of columns, and tiles of which whole subtiles lie behind N.
fuzz::Case in_groups(std::uint64_t seed) {
  fuzz::Choices pick(fuzz::mix(seed ^ 0x9a0b5));
  fuzz::Case c;
  const auto has_operand = [](const fuzz::Case& of) {
    const Inference i = verify(of.graph, accumulator_type(of.problem), default_operand_type(of.problem));
    return std::any_of(i.operand_columns.begin(), i.operand_columns.end(),
                       [](const Extent& columns) { return columns.over >= 32; });
  };
  for (int tries = 0; tries == 0 || (tries < 400 && !has_operand(c)); ++tries)
    c = gpu_tests::on_tensor_cores(fuzz::generate(pick.next(), {.most_nodes = 12, .streams = false, .reductions = 60}));
  c.seed = seed;
  c.layout = 0;
  several_tiles(c, pick);
  c.shape.n = 32 * (1 + pick.below(16));
  for (int tries = 0; tries < 16 && !fuzz::divisible(c); ++tries) c.shape.n += 32;
  return c;
}

// A convolution of single channels, so many that the copy engine may load them, or a few more.
fuzz::Case of_single_channels(std::uint64_t seed) {
  fuzz::Choices pick(fuzz::mix(seed ^ 0xd3b7));
  fuzz::Case c;
  const auto few_taps = [](const fuzz::Convolution::Along& along) { return along.taps <= 7; };
  do {
    c = fuzz::generate(pick.next(), {.most_nodes = 12, .convolutions = 100, .reductions = 15});
    fuzz::Convolution conv = *c.conv;
    conv.channels = conv.filters = 1, conv.groups = 8 * (1 + pick.below(9)), conv.images = 1 + pick.below(9);
    fuzz::set_convolution(c, conv);
    c = gpu_tests::on_tensor_cores(c);
  } while (!is_float(c.conv->first) || c.conv->axes.size() > 2 || !std::ranges::all_of(c.conv->axes, few_taps) ||
           c.shape.m > 512 || !fuzz::divisible(c));
  if (pick.chance(80)) c.layout = 0;
  c.seed = seed;
  return c;
}

// Few rows by a B whose rows along K begin between 16 bytes; or rows of an A that do so.
fuzz::Case of_odd_rows(std::uint64_t seed) {
  fuzz::Choices pick(fuzz::mix(seed ^ 0x0dd5));
  fuzz::Case c;
  do {
    c = gpu_tests::on_tensor_cores(fuzz::generate(pick.next(), {.most_nodes = 12, .streams = false, .reductions = 30}));
  } while (!c.problem.get_if<Gemm>() || size_of(c.problem.get_if<Gemm>()->a) != 2);
  c.seed = seed;
  several_tiles(c, pick);
  const bool of_a = pick.chance(50);
  c.shape.m = 1 + pick.below(of_a ? 300 : pick.chance(50) ? 16 : 64), c.shape.k = 1 + pick.below(700);
  if (pick.chance(20)) c.shape.n = 1 + pick.below(12);
  for (int tries = 0; tries < 200; ++tries) {
    c.layout = tries % 2 == 0 ? pick.next() : 0;
    const auto all = fuzz::materialise(c).all;
    const auto &a = all[0].strides, &b = all[1].strides;
    if (of_a ? a[2] == 1 && a[1] % 8 != 0 : b[1] == 1 && b[2] > 1) break;
  }
  return c;
}

// As batch normalisation has them: statistics of columns, of so many rows that a pass parts them among blocks.
fuzz::Case of_columns(std::uint64_t seed) {
  fuzz::Choices pick(fuzz::mix(seed ^ 0xc01));
  fuzz::Case c;
  const auto wanted = [&] {
    return c.problem.get_if<Stream>() && std::any_of(c.graph.nodes.begin(), c.graph.nodes.end(), [](const Node& node) {
             return node.op == Op::reduce && node.group == 0 && (node.axes & tile_axes) == Axes(Axis::m);
           });
  };
  do c = fuzz::generate(pick.next(), {.most_nodes = 12, .reductions = 60});
  while (!wanted());
  c.seed = seed;
  c.shape.batch = std::max<std::int64_t>(c.shape.batch, 1);
  c.shape.m = 600 + pick.below(1000), c.shape.n = 1 + pick.below(40);
  for (int tries = 0; tries < 100 && !fuzz::divisible(c); ++tries) ++c.shape.n;
  return c;
}

// Epilogues so long that their code stands once for all fragments, normalised by statistics of rows: of no more columns
// than a tile has, or more.
fuzz::Case of_long_rows(std::uint64_t seed) {
  fuzz::Choices pick(fuzz::mix(seed ^ 0x10e6));
  const auto any_of = [&](std::initializer_list<const char*> of) { return of.begin()[pick.below(std::ssize(of))]; };
  std::string text = "def f(acc, b: row[f32], r: tile[bf16]):\n    x = abs(tanh(acc - b)) ** 0.3";
  for (std::int64_t terms = 1 + pick.below(4); terms > 0; --terms)
    text += any_of(
        {" + mish(erf(acc))", " + sin(acc + b)", " + erf(tanh(acc) * b)", " - gelu_erf(acc)", " + cos(acc) ** 0.7"});
  text += pick.chance(50) ? " + r\n" : "\n";
  text += any_of({"    y = x - max(x, axis=1)\n", "    y = x * rsqrt(mean(x * x, axis=1) + 1e-5)\n",
                  "    c = x - mean(x, axis=1)\n    y = c * rsqrt(mean(c * c, axis=1) + 1e-5) * b\n",
                  "    e = exp(x - max(x, axis=1))\n    y = e / sum(e, axis=1)\n"});
  text += any_of({"    D: bf16 = y\n    return D\n", "    D: f32 = y\n    return D\n",
                  "    h: bf16 = x\n    D: bf16 = y\n    return h, D\n"});
  fuzz::Case c = make_case(parse(text).data(), Gemm{.a = DType::bf16, .b = DType::bf16, .batched = pick.chance(30)}, {},
                           fuzz::Values::normal);
  c.seed = seed, c.data = pick.next();
  c.shape = {c.problem.get_if<Gemm>()->batched ? 2 : 1, 1 + pick.below(400),
             8 * (1 + pick.below(pick.chance(70) ? 24 : 66)), 8 * (1 + pick.below(24))};
  return c;
}

// Quantised or normalised by whole groups of columns, which may be problems of their own.
fuzz::Case of_groups(std::uint64_t seed) {
  fuzz::Choices pick(fuzz::mix(seed ^ 0x6209));
  const auto any_of = [&](std::initializer_list<const char*> of) { return of.begin()[pick.below(std::ssize(of))]; };
  const std::int64_t group = pick.chance(20) ? 1 + pick.below(100) : 16 * (1 + pick.below(pick.chance(70) ? 8 : 20));
  const std::string g = std::to_string(group);
  std::string text = "def f(acc, b: row[bf16], c: col[f32], r: tile[bf16]):\n    x = acc";
  for (const char* term : {" * c", " + b", " + r", " + m_index()"})
    if (pick.chance(30)) text += term;
  text += any_of({"\n", "\n    x = gelu(x)\n", "\n    x = where(x > 0.5, x, 0)\n"});
  text += any_of({"    s: f32 = max(max(abs(x), axis=1, group=G), 0.0001) / 127\n    D: s8 = x / repeat(s, G)\n",
                  "    s: f32 = max(max(abs(x), axis=1, group=G), 0.0001) / 448\n    D: e4m3 = x / repeat(s, G)\n",
                  "    s: f32 = mean(x * x, axis=1, group=G)\n    D: bf16 = x * repeat(rsqrt(s + 1e-5), G) * b\n",
                  "    s: f32 = var(x, axis=1, group=G)\n    D: bf16 = (x - repeat(mean(x, axis=1, group=G), G)) * c\n",
                  "    s: f32 = sum(x, axis=1, group=G)\n    D: bf16 = x\n"});
  for (std::size_t at = text.find('G'); at != text.npos; at = text.find('G', at)) text.replace(at, 1, g);
  text += pick.chance(70) ? "    return D, s\n" : "    return D\n";
  const Problem problem =
      pick.chance(75) ? Problem(Gemm{.a = DType::bf16, .b = DType::bf16}) : Problem(Stream{.x = DType::bf16});
  fuzz::Case c = make_case(parse(text).data(), problem, {}, fuzz::Values::normal);
  c.seed = seed, c.data = pick.next();
  c.shape = {1, 1 + pick.below(pick.chance(50) ? 40 : 200),
             group * (2 + pick.below(std::max<std::int64_t>(1, 512 / group))), 8 * (1 + pick.below(40))};
  return c;
}

// Epilogues as networks have them behind products of all types, of a few tiles or many, and behind convolutions.
fuzz::Case of_pieces(std::uint64_t seed) {
  fuzz::Choices pick(fuzz::mix(seed ^ 0x91ece5));
  constexpr DType types[] = {DType::bf16, DType::bf16, DType::bf16, DType::f16, DType::e4m3, DType::e5m2, DType::s8};
  fuzz::Case c;
  const fuzz::Composed epilogue = fuzz::compose(pick);
  const GraphData graph = parse(epilogue.text).data();
  if (pick.chance(12)) {
    do {
      c = fuzz::generate(pick.next(), {.convolutions = 100});
      if (c.conv->groups == 1 && epilogue.columns <= 64) {
        fuzz::Convolution conv = *c.conv;
        conv.channels = conv.filters = epilogue.columns;
        fuzz::set_convolution(c, conv);
      }
      c = gpu_tests::on_tensor_cores(c);
    } while (c.shape.m * c.shape.n > 16384 || c.shape.k > 2048);
    c.graph = fuzz::with_dtypes(graph, c.problem);
  } else {
    const DType type = pick.pick(types);
    c.problem = Gemm{.a = type, .b = type, .batched = pick.chance(25)};
    c.graph = fuzz::with_dtypes(graph, c.problem);
    const std::int64_t step = std::lcm(pick.chance(80) ? epilogue.columns : 8, size_of(type) == 2 ? 8 : 16);
    c.shape = {c.problem.get_if<Gemm>()->batched ? 1 + pick.below(3) : 1, 1 + pick.below(pick.chance(30) ? 40 : 330),
               step * (1 + pick.below(std::max<std::int64_t>(1, (pick.chance(60) ? 256 : 640) / step))),
               8 * (1 + pick.below(24))};
    if (pick.chance(8)) c.shape.m = 1 + pick.below(40), c.shape.k = 64 * (8 + pick.below(50));
    if (pick.chance(4)) c.shape = {1, 1 + pick.below(12), step * ((2200 + pick.below(2600)) / step), 16};
    if (pick.chance(80)) c.shape.k = (c.shape.k + 15) / 16 * 16;
    else if (pick.chance(40)) c.shape.k -= pick.below(8);
    if (pick.chance(50)) c.shape.m = (c.shape.m + epilogue.rows - 1) / epilogue.rows * epilogue.rows;
    c.layout = pick.chance(45) ? fuzz::along_k : pick.chance(25) ? pick.next() | 1 : 0;
    for (int tries = 0; tries < 40 && !fuzz::divisible(c); ++tries) c.shape.n += step;
  }
  c.seed = seed, c.data = pick.next(), c.values = fuzz::Values::normal;
  return c;
}

fuzz::Case of_losses(std::uint64_t seed) { return gpu_tests::with_many_tiles(seed, multiprocessors, true); }

// What a case draws, and how many of each.
struct Kind {
  std::uint64_t count;
  fuzz::Case (*draw)(std::uint64_t seed);
};
constexpr Kind kinds[] = {{12, any},      {2, in_groups},    {3, of_single_channels}, {3, of_odd_rows}, {1, of_columns},
                          {1, of_losses}, {3, of_long_rows}, {12, of_pieces},         {2, of_groups}};
constexpr std::uint64_t of_case = [] {
  std::uint64_t all = 0;
  for (const Kind& kind : kinds) all += kind.count;
  return all;
}();

const Kind& kind_of(std::uint64_t i) {
  const Kind* kind = kinds;
  while (i >= kind->count) i -= kind++->count;
  return *kind;
}

// Another problem of the same kernels: no larger, and its extents the same modulo 16, as text may depend on what
// divides them.
fuzz::Case another(fuzz::Case c, fuzz::Choices& pick) {
  c.data = pick.next();
  c.values = pick.chance(70) ? fuzz::Values::normal : pick.chance(50) ? fuzz::Values::integers : fuzz::Values::special;
  if (c.conv) return c;
  const Shape most = c.shape;
  const auto drawn = [&](std::int64_t extent) { return extent % 16 + 16 * pick.below(1 + extent / 16); };
  if (most.batch > 1) c.shape.batch = 1 + pick.below(most.batch);
  c.shape.m = most.m > 0 ? 1 + pick.below(most.m) : 0;
  c.shape.k = std::max(drawn(most.k), std::min<std::int64_t>(most.k, 1));
  c.shape.n = drawn(most.n);
  for (int tries = 0; tries < 40 && c.shape.n <= most.n && (c.shape.n == 0 || !fuzz::divisible(c)); ++tries)
    c.shape.n += 16;
  if (c.shape.n > most.n) c.shape.n = most.n;
  return c;
}

struct Running {
  fuzz::Case c;
  fuzz::Tensors tensors;
  Call call;
  bool again = false;        // kernels that another problem has run by then: in a drawn order alone
  std::uint64_t orders = 1;  // drawn ones
  struct InPlace {
    std::size_t output, operand;
    std::vector<std::uint8_t> given;  // the operand, before it is written over
  };
  std::vector<InPlace> in_place = {};

  [[nodiscard]] std::string placed() const {
    std::string text;
    for (const InPlace& one : in_place)
      text += ", " + tensors.all[one.output].name + " in place of " + tensors.all[one.operand].name;
    return text;
  }
  void run() {
    tensors.poison_outputs();
    for (const InPlace& one : in_place) std::ranges::copy(one.given, tensors.memory[one.operand].data());
    call.run();
    for (const InPlace& one : in_place) {
      const fuzz::CaseTensor& t = tensors.all[one.output];
      const std::int64_t size = size_of(t.dtype);
      const std::uint8_t* const from = tensors.memory[one.operand].data();
      std::uint8_t* const to = tensors.memory[one.output].data();
      fuzz::for_elements(t, [&](const auto& at) { std::copy_n(from + t.at(at) * size, size, to + t.at(at) * size); });
    }
  }
};

// An output in place of an operand that lies as it does.
void put_in_place(Running& r, std::vector<Binding>& named, std::size_t output, fuzz::Choices& pick) {
  const fuzz::CaseTensor& o = r.tensors.all[output];
  for (std::size_t i = 0; i < named.size(); ++i) {
    const fuzz::CaseTensor& t = r.tensors.all[i];
    const bool alike = !t.output && !named[i].tensor.by_value && t.dtype == o.dtype && t.rank == 0 && o.rank == 0 &&
                       t.axes == o.axes && t.extents == o.extents && t.strides == o.strides && t.first == o.first;
    const bool taken = std::ranges::any_of(r.in_place, [&](const Running::InPlace& one) { return one.operand == i; });
    if (!alike || taken || t.name == "A" || t.name == "B" || pick.chance(30)) continue;
    const fuzz::GuardedMemory& memory = r.tensors.memory[i];
    r.in_place.push_back({output, i, {memory.data(), memory.data() + memory.size()}});
    named[output].tensor.data = named[i].tensor.data;
    return;
  }
}

// Its tensors on the fake device, half of the scalars by value, and maybe some outputs in place of operands.
std::vector<Binding> on_device(Running& r, fuzz::Choices pick, bool in_place = false) {
  std::vector<Binding> named = r.tensors.named();
  for (std::size_t i = 0; i < named.size(); ++i) {
    Tensor& t = named[i].tensor;
    t.device = Device::cuda;
    if (t.rank > 0 || r.tensors.all[i].output || pick.chance(50)) continue;
    t.by_value = true;
    std::memcpy(t.value.data(), std::exchange(t.data, nullptr), static_cast<std::size_t>(size_of(t.dtype)));
  }
  for (std::size_t i = 0; i < named.size() && in_place; ++i)
    if (r.tensors.all[i].output) put_in_place(r, named, i, pick);
  return named;
}

Call compiled_for(const fuzz::Case& c, const std::vector<Binding>& named, const Target& target) {
  return compile(c.problem, Graph(std::make_shared<const GraphData>(c.graph)), target).bind(named);
}

// Losses, by consumers that share tiles, with the next tile's blocks of K there before they have ended with one.
void add_losses(std::vector<Running>& all, const fuzz::Case& c) {
  Running r{c, fuzz::materialise(c), {}};
  r.orders = 4;
  Target target = Target::cuda();
  target.schedule = "cooperative 128x64x4 sub 32x2 aux 0 raster 2";
  try {
    r.call = compiled_for(c, on_device(r, fuzz::Choices(c.seed)), target);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_schedule) throw;
    return;  // operands want stages of their own
  }
  r.call.run();
  all.push_back(std::move(r));
}

// A case, and other problems of what is emitted for it: by the portable kernel, through memory, the chosen schedule, or
// one that is drawn. Their sources are gathered.
void add_problems(std::vector<Running>& all, fuzz::Case c, int percent_asked) {
  const fuzz::Choices of_scalars(fuzz::mix(c.seed ^ 0x5ca1a));
  fuzz::Choices pick(fuzz::mix(c.seed ^ 0x5c4ed));
  Target target = Target::cuda();
  const std::int64_t elements = c.shape.batch * c.shape.m * c.shape.n;
  const bool asked = pick.chance(percent_asked);
  // A pass has a block for each result: few, as a block is milliseconds.
  const auto few_rows = [&] {
    if (!c.conv)
      c.shape.m = std::min(c.shape.m, std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(c.shape.n, 1)));
  };
  if (asked && !c.problem.get_if<Stream>()) {
    target.schedule = pick.chance(40) ? "mma" : "accumulator";
    few_rows();
  }
  const std::uint64_t schedule = asked || pick.chance(20) ? 0 : pick.next() | 1;
  Running first;
  bool in_place = pick.chance(40);
  const auto bind = [&] {
    bool drawn = false;
    first = {c, fuzz::materialise(c), {}};
    const std::vector<Binding> named = on_device(first, of_scalars, in_place);
    first.call = asked ? compiled_for(c, named, target) : gpu_tests::bind_case(c, named, schedule, drawn, &target);
  };
  for (bool again = true; std::exchange(again, false);) {
    try {
      bind();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::overlap && in_place) in_place = false;
      else if (error.code() == ErrorCode::bad_schedule && asked)
        target.schedule.clear();  // nothing reads the accumulator
      else throw;
      again = true;
    }
  }
  if (!asked && first.call.describe().find("epilogue from memory") != std::string::npos) few_rows(), bind();
  first.call.run();
  all.push_back(std::move(first));
  const std::size_t sources = host::Harness::sources();
  for (std::uint64_t i = 1; i < problems && elements < large; ++i) {
    const fuzz::Case next = another(c, pick);
    Running r{next, fuzz::materialise(next), {}, true};
    try {
      r.call = compiled_for(next, on_device(r, of_scalars, in_place), target);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_schedule && !(in_place && error.code() == ErrorCode::overlap)) throw;
      continue;
    }
    r.call.run();
    if (host::Harness::sources() == sources) all.push_back(std::move(r));
    else host::Harness::forget(sources);  // what is emitted has the extents, or is for others
  }
}

// "" or what is wrong with it. The sources are compiled.
std::string check(Running& r, const host::Harness& harness) {
  const reference::Evaluation expected = reference::evaluate(
      r.c.graph, r.c.problem, r.tensors.bindings, {.accumulator = gpu_tests::error_model(r.c, r.call.describe())});
  std::vector<std::vector<std::uint8_t>> first;
  for (std::uint64_t run = r.again ? 1 : 0; run <= r.orders; ++run) {
    const std::uint64_t order = run == 0 ? 0 : r.c.seed + run;
    harness.order(order);
    r.run();
    std::string wrong = fuzz::compare(expected, r.c, r.tensors, "the host");
    if (wrong.empty()) wrong = r.tensors.damage();
    if (wrong.empty() && order && !r.again && r.tensors.copy_outputs() != first)
      wrong = "another order of warps gives other bits";
    if (!wrong.empty()) return wrong;
    first = r.tensors.copy_outputs();
  }
  return "";
}

std::string check(std::uint64_t seed) {
  host::Harness harness(("fuzz_emission-" + std::to_string(seed)).c_str(),
                        multiprocessors + static_cast<int>(fuzz::Choices(fuzz::mix(seed ^ 0x3b10c)).below(6)));
  fuzz::Case now;
  try {
    std::vector<Running> all;
    std::vector<std::filesystem::path> kept;
    for (std::uint64_t i = 0; i < of_case; ++i) {
      const Kind& kind = kind_of(i);
      now = kind.draw(of_case * seed + i);
      if (!fuzz::divisible(now)) continue;
      const std::size_t sources = host::Harness::sources(), running = all.size();
      const bool is_large = now.shape.batch * now.shape.m * now.shape.n >= large;
      if (kind.draw == of_losses) add_losses(all, now);
      else add_problems(all, now, kind.draw != any ? 0 : is_large ? 10 : 40);
      std::filesystem::path name = host::Harness::launched();
      if (!name.empty()) name += std::to_string(now.seed);
      if (std::filesystem::exists(name)) all.resize(running), host::Harness::forget(sources);
      else kept.push_back(name);
    }
    if (all.empty()) return "";
    if (!harness.compile("-O0")) return "the sources do not compile";
    for (Running& r : all) {
      now = r.c;
      if (const std::string wrong = check(r, harness); !wrong.empty())
        return wrong + "\nby " + r.call.describe() + r.placed() + "\n" + fuzz::write(r.c);
    }
    for (const std::filesystem::path& name : kept)
      if (!name.empty()) std::filesystem::create_directories(name.parent_path()), std::ofstream(name);
  } catch (const std::exception& e) { return std::string("throws ") + e.what() + "\n" + fuzz::write(now); }
  return "";
}

}  // namespace
}  // namespace postlude

int main(int argc, char** argv) {
  return postlude::fuzz::drive(argc, argv, {}, [](std::uint64_t seed) { return postlude::check(seed); });
}
