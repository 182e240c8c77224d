// What is emitted for a GPU, compiled for the host and run there against the reference: all kernels that plans launch
// (Hopper's product and the portable one with their epilogues, tiles that wait for each other, the folding of partial
// reductions, repacks, products on ordinary units, passes over memory), for the suite and for random epilogues.
// tests/cuda/fake stands in for driver and compiler, shim.h for PTX. Warps take turns in the order of their numbers,
// then in drawn ones, so that what nothing orders differs. With POSTLUDE_EMISSION_FIRST=N: other random epilogues,
// schedules and orders; with POSTLUDE_EMISSION_RUNS=N so many runs of each; with POSTLUDE_EMISSION_ONLY=TEXT only what
// has the text in its name; with POSTLUDE_EMISSION_EVERY=N each Nth case alone, which tests/mutation asks for.
#include "cuda/backend.h"
#include "cuda/emit/gemm_source.h"
#include "cuda/emit/ops.h"
#include "cuda/emit/reduce.h"
#include "cuda/host/harness.h"
#include "definitions.h"
#include "elementary.h"
#include "fuzz/choices.h"
#include "fuzz/grammar.h"
#include "fuzz/oracle.h"
#include "gpu/device_run.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

namespace postlude {
namespace {

namespace fs = std::filesystem;
using namespace host;
constexpr std::uint64_t random_cases = 80, on_hopper = 30, many_tiles = 12;
constexpr int shards = 16;  // of the cases, which ctest runs side by side (decision 0285)

struct Running {
  std::string name;
  fuzz::Case c;
  fuzz::Tensors tensors;
  Call call;
};

// Every second scalar operand by value, so that it travels among a kernel's parameters.
std::vector<Binding> named(Running& r) {
  static int scalars = 0;
  std::vector<Binding> all = r.tensors.named();
  for (std::size_t i = 0; i < all.size(); ++i) {
    Tensor& t = all[i].tensor;
    t.device = Device::cuda;
    if (t.rank > 0 || r.tensors.all[i].output || ++scalars % 2) continue;
    t.by_value = true;
    std::memcpy(t.value.data(), std::exchange(t.data, nullptr), static_cast<std::size_t>(size_of(t.dtype)));
  }
  return all;
}
// By the portable kernel, where there is a product.
Running portable(std::string name, const fuzz::Case& c) {
  Running r{std::move(name), c, fuzz::materialise(c), {}};
  const Graph graph(std::make_shared<const GraphData>(c.graph));
  const std::vector<Binding> bindings = named(r);
  Target target = Target::cuda();
  target.schedule = "mma";
  try {
    r.call = compile(c.problem, graph, target).bind(bindings);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_schedule) throw;
    r.call = compile(c.problem, graph, Target::cuda()).bind(bindings);
  }
  return r;
}
// By the heuristic's schedule (seed 0) or a random one, of Hopper's kernel where that is legal; if it can be, one whose
// text has `wanted`.
Running on_sm90(const std::string& name, const fuzz::Case& c, std::uint64_t seed, const std::string& wanted = "") {
  Running r{name + " on sm_90a", c, fuzz::materialise(c), {}};
  bool drawn = false;
  for (int i = 0; i < (wanted.empty() ? 5 : 30); ++i, seed += 1000) {
    r.call = gpu_tests::bind_case(c, named(r), seed, drawn);
    const std::string schedule = r.call.describe();
    if (!wanted.empty() ? schedule.find(wanted) != schedule.npos : !drawn || !schedule.starts_with("mma")) break;
  }
  return r;
}

// By a schedule that a case names.
Running scheduled(const std::string& name, const fuzz::Case& c, const std::string& schedule) {
  Running r{name, c, fuzz::materialise(c), {}};
  Target target = Target::cuda();
  target.schedule = schedule;
  r.call = compile(c.problem, Graph(std::make_shared<const GraphData>(c.graph)), target).bind(named(r));
  return r;
}
// The schedules that a case names in lines of their own.
std::vector<std::string> schedules_of(const std::string& text) {
  static const std::regex line("# schedule: ([^\n]*)");
  std::vector<std::string> all;
  for (std::sregex_iterator i(text.begin(), text.end(), line), none; i != none; ++i) all.push_back((*i)[1]);
  return all;
}

fuzz::Case suite_case(const std::string& path, const Shape& shape, std::uint64_t layout) {
  fuzz::Case c;
  const DType type = path.find("fp8") == path.npos ? DType::bf16 : DType::e4m3;
  c.problem = Gemm{.a = type, .b = type, .batched = shape.batch > 1};
  c.graph = fuzz::with_dtypes(parse_file(path).data(), c.problem);
  c.shape = shape;
  c.data = c.seed = 7;
  c.values = fuzz::Values::normal;
  c.layout = layout;
  return c;
}

std::set<fs::path> files_of(const std::string& folder) {
  return std::set<fs::path>(fs::directory_iterator(POSTLUDE_SOURCE_DIR + folder), {});
}

std::uint64_t first_seed() { return from_environment("POSTLUDE_EMISSION_FIRST", 1); }

// A case that has not been compiled yet. Those of one epilogue are in one shard, so that the reference evaluates once
// what several schedules should give.
struct Start {
  std::string name;
  int shard, scalars;
  std::function<Running()> start;
};
class Starts {
 public:
  void next_epilogue() { shard_ = (shard_ + 1) % shards; }
  void portable(const std::string& name, const fuzz::Case& c) {
    add(name, c, [=] { return postlude::portable(name, c); });
  }
  void on_sm90(const std::string& name, const fuzz::Case& c, std::uint64_t seed, const std::string& wanted = "") {
    add(name + " on sm_90a", c, [=] { return postlude::on_sm90(name, c, seed, wanted); });
  }
  void scheduled(const std::string& name, const fuzz::Case& c, const std::string& schedule) {
    add(name, c, [=] { return postlude::scheduled(name, c, schedule); });
  }
  std::vector<Start> all;

 private:
  void add(const std::string& name, const fuzz::Case& c, std::function<Running()> start) {
    const auto scalars = std::ranges::count_if(c.graph.operands, [](const auto& o) { return o.axes.empty(); });
    all.push_back({name, shard_, static_cast<int>(scalars), std::move(start)});
  }
  int shard_ = -1;
};

void start_suite(Starts& to, std::uint64_t first) {
  for (const fs::path& path : files_of("/epilogues")) {
    const std::string name = path.stem().string();
    if (name == "prelude" || path.extension() != ".py") continue;
    to.next_epilogue();
    // Ragged tiles, and heads of 128 columns; more tiles than multiprocessors, and rings of stages that begin again.
    const Shape small{1, 70, 256, 40}, large{2, 150, 256, 136}, deep{1, 300, 512, 3080};
    to.portable(name, suite_case(path, small, 0));
    to.portable(name + " strided", suite_case(path, small, 3));
    to.on_sm90(name, suite_case(path, large, 0), 0);
    to.on_sm90(name + " drawn", suite_case(path, large, 0), first + to.all.size());
    to.on_sm90(name + " strided", suite_case(path, small, 3), first + to.all.size());
    to.on_sm90(name + " split", suite_case(path, {1, 70, 256, 520}, 0), first + to.all.size(), "split");
    to.on_sm90(name + " in parts", suite_case(path, {1, 70, 256, 520}, 0), first + to.all.size(), "by memory");
    if (name == "bce") to.on_sm90(name + " in its own time", suite_case(path, deep, 0), 0);
  }
}

std::vector<Start> start_all() {
  Starts to;
  const std::uint64_t first = first_seed();
  start_suite(to, first);
  for (std::uint64_t seed = first; seed < first + random_cases; ++seed) {
    fuzz::Case c = fuzz::generate(seed, {.most_nodes = 24, .most_elements = 2048});
    if (seed % 4) c = gpu_tests::on_tensor_cores(c);
    if (!fuzz::divisible(c)) continue;
    to.next_epilogue();
    const std::string name = "seed " + std::to_string(seed);
    to.portable(name, c);
    if (seed < first + on_hopper) to.on_sm90(name, c, seed);
  }
  for (std::uint64_t seed = first; seed < first + many_tiles; ++seed) {
    const fuzz::Case c = gpu_tests::with_many_tiles(seed, multiprocessors);
    to.next_epilogue();
    if (fuzz::divisible(c)) to.on_sm90("many tiles, seed " + std::to_string(seed), c, seed);
  }
  for (const fs::path& path : files_of("/tests/cuda/host/cases")) {
    std::ifstream in(path);
    std::stringstream written;
    written << in.rdbuf();
    const fuzz::Case c = fuzz::read(written.str());
    const std::string name = path.stem().string();
    to.next_epilogue();
    to.portable(name, c);
    to.portable(name + " on tensor cores", gpu_tests::on_tensor_cores(c));
    to.on_sm90(name, gpu_tests::on_tensor_cores(c), 0, name.starts_with("held") ? "held" : "");
    for (const std::string& schedule : schedules_of(written.str())) to.scheduled(name, c, schedule);
  }
  return to.all;
}

// The functions of math.cu; what the hardware approximates is wrong here by what it may be.
TEST(Emission, MathKeepsItsErrors) {
  const fs::path folder = empty_folder("emission_math");
  std::string text = "#include \"" POSTLUDE_SOURCE_DIR "/tests/cuda/host/shim.h\"\n" + cuda::base_source() +
                     "extern \"C\" void apply(int op, long n, const float* a, const float* b, float* y) {\n"
                     "  for (long i = 0; i < n; ++i) switch (op) {\n";
  for (const Elementary& function : elementary) {
    text += "    case " + std::to_string(static_cast<int>(function.op)) + ": y[i] = op_" +
            std::string(info(function.op).id) + "(a[i]); break;\n";
  }
  text += "    case " + std::to_string(static_cast<int>(Op::pow)) + ": y[i] = op_pow(a[i], b[i]); break;\n  }\n}\n";
  void* library = compiled(folder, text);
  ASSERT_TRUE(library);
  using Apply = void (*)(int, long, const float*, const float*, float*);
  const auto function = reinterpret_cast<Apply>(dlsym(library, "apply"));
  expect_elementary_errors([&](Op op, const std::vector<float>& a, const std::vector<float>& b) {
    std::vector<float> y(a.size());
    function(static_cast<int>(op), static_cast<long>(a.size()), a.data(), b.data(), y.data());
    return y;
  });
  fs::remove_all(folder);
}

// Every form of a function of the prelude stays within the bounds that the reference finds for its definition.
TEST(Emission, FunctionsKeepTheErrorsOfTheirDefinitions) {
  const fs::path folder = empty_folder("emission_functions");
  std::string text = "#include \"" POSTLUDE_SOURCE_DIR "/tests/cuda/host/shim.h\"\n" + cuda::base_source() +
                     "extern \"C\" void apply(int f, long n, const float* x, float* y) {\n"
                     "  float in[8], out[8];\n  for (long i = 0; i < n; ++i) switch (f) {\n";
  std::vector<std::string> forms;  // those of eight elements behind the others
  for (const auto& [name, parameters] : cuda::native_forms()) {
    text += "    case " + std::to_string(forms.size()) + ": y[i] = call_" + name + "(x[i]" +
            (parameters > 1 ? ", 1.75f" : "") + "); break;\n";
    forms.push_back(name);
  }
  for (const std::string name : {"dgelu", "gelu", "sigmoid", "silu"}) {
    text += "    case " + std::to_string(forms.size()) + ": in[i % 8] = x[i], vec_" + name +
            "(out, in), y[i] = out[i % 8]; break;\n";
    forms.push_back(name);
  }
  text += "    case " + std::to_string(forms.size()) + ": y[i] = op_log1p_exp(-fabsf(x[i])); break;\n";
  void* library = compiled(folder, text + "  }\n}\n");
  ASSERT_TRUE(library);
  const auto apply = reinterpret_cast<void (*)(int, long, const float*, float*)>(dlsym(library, "apply"));
  std::vector<float> x = many_floats(40009), y;
  for (int i = -200000; i <= 200000; ++i) {
    x.push_back(static_cast<float>(i) * 1e-5F);
    x.push_back(static_cast<float>(i) * 6e-4F);
  }
  y.resize(x.size());
  for (std::size_t f = 0; f < forms.size(); ++f) {
    apply(static_cast<int>(f), static_cast<long>(x.size()), x.data(), y.data());
    expect_error_of_definition(forms[f], cuda::native_forms().at(forms[f]), x, y);
  }
  // log1p(exp(-abs(x))) is softplus's where x is not positive.
  for (float& of : x) of = -std::abs(of);
  apply(static_cast<int>(forms.size()), static_cast<long>(x.size()), x.data(), y.data());
  expect_error_of_definition("softplus", 1, x, y);
  fs::remove_all(folder);
}

// A quotient by a constant is the product with 1 / c in two parts only where that is the quotient, to the bit: of every
// significand, infinities, NaN and zeros too. Below the normal numbers it may be the other neighbour.
TEST(Emission, DividesByConstantsExactly) {
  for (const double c : {0.0, 2.0, 0.5, -8.0, 0.7, 0.95, -0.999, 0x1.8p+30, 0x1.8p-32, HUGE_VAL, std::nan("")})
    EXPECT_EQ(cuda::quotient("x", c), "") << c;
  const std::vector<float> by = {3, 6, 30, -30, 448, 0.9F, -0.8F, 0.1F, 1.41421356F, 1.702F, 0x1.fffffp-9F};
  const fs::path folder = empty_folder("emission_quotients");
  std::string text = "#include \"" POSTLUDE_SOURCE_DIR "/tests/cuda/host/shim.h\"\n" + cuda::base_source() +
                     "extern \"C\" void divide(int by, long n, const float* x, float* y) {\n"
                     "  for (long i = 0; i < n; ++i) switch (by) {\n";
  for (std::size_t c = 0; c < by.size(); ++c) {
    ASSERT_NE(cuda::quotient("x[i]", by[c]), "") << by[c];
    text += "    case " + std::to_string(c) + ": y[i] = " + cuda::quotient("x[i]", by[c]) + "; break;\n";
  }
  void* library = compiled(folder, text + "  }\n}\n");
  ASSERT_TRUE(library);
  const auto divide = reinterpret_cast<void (*)(int, long, const float*, float*)>(dlsym(library, "divide"));
  std::vector<float> x = {0.F, -0.F, INFINITY, -INFINITY, NAN, 0x1.fffffep+127F, 0x1p-149F};
  for (std::uint32_t i = 0; i < 1 << 23; ++i) x.push_back(std::bit_cast<float>(0x3f800000 + i));
  for (std::uint64_t i = 0; i < 1 << 20; ++i)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(fuzz::mix(i))));
  std::vector<float> y(x.size());
  for (std::size_t c = 0; c < by.size(); ++c) {
    divide(static_cast<int>(c), static_cast<long>(x.size()), x.data(), y.data());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float exact = x[i] / by[c];
      const bool normal = !(std::abs(exact) < 0x1p-126F) || exact == 0;
      wrong += std::isnan(exact) ? !std::isnan(y[i])
               : normal          ? std::bit_cast<std::uint32_t>(exact) != std::bit_cast<std::uint32_t>(y[i])
                                 : std::abs(exact - y[i]) > 0x1p-149F;
    }
    EXPECT_EQ(wrong, 0U) << by[c];
  }
  fs::remove_all(folder);
}

// What cases should give, those of the last few epilogues.
const reference::Evaluation& expected_of(const Running& r) {
  static std::map<std::string, reference::Evaluation> known;
  const ErrorModel model = gpu_tests::error_model(r.c, r.call.describe());
  std::ostringstream key;
  key << std::hexfloat << model.unit << ' ' << model.drift << ' ' << model.promoted << '\n' << fuzz::write(r.c);
  if (const auto at = known.find(key.str()); at != known.end()) return at->second;
  if (known.size() == 8) known.clear();
  return known[key.str()] = reference::evaluate(r.c.graph, r.c.problem, r.tensors.bindings, {.accumulator = model});
}

// With warps in the order of their numbers, then in drawn ones.
void expect_agreement(const Harness& harness, Running& r, std::uint64_t runs) {
  const reference::Evaluation& expected = expected_of(r);
  std::vector<std::vector<std::uint8_t>> first;
  for (std::uint64_t run = 0; run < runs; ++run) {
    SCOPED_TRACE("run " + std::to_string(run));
    harness.order(run == 0 ? 0 : fuzz::mix(first_seed() + r.c.seed) + run);
    r.tensors.poison_outputs();
    ASSERT_NO_THROW(r.call.run());
    EXPECT_EQ(fuzz::compare(expected, r.c, r.tensors, "the host"), "");
    EXPECT_EQ(r.tensors.damage(), "");
    if (run == 0) first = r.tensors.copy_outputs();
    else EXPECT_EQ(r.tensors.copy_outputs(), first) << "the second run gives other bits";
  }
}

class EmissionOfCases : public testing::TestWithParam<int> {};

TEST_P(EmissionOfCases, AgreesWithTheReferenceOnTheHost) {
  Harness harness("emission_" + std::to_string(GetParam()));

  std::vector<Start> starts = start_all();
  const char* const only = std::getenv("POSTLUDE_EMISSION_ONLY");
  if (only) std::erase_if(starts, [&](const Start& s) { return s.name.find(only) == std::string::npos; });
  thin_out(starts);
  int scalars = 0;
  std::vector<Running> all;
  for (const Start& s : starts) {
    scalars += s.scalars;
    if (s.shard == GetParam()) all.push_back(s.start());
  }
  if (all.empty()) GTEST_SKIP() << "no case of this shard was asked for";
  for (Running& r : all) r.call.run();  // gathers the sources
  ASSERT_TRUE(harness.compile());

  const std::uint64_t runs = from_environment("POSTLUDE_EMISSION_RUNS", 3);
  int by_mma = 0, by_wgmma = 0, held = 0, split = 0, by_memory = 0;
  for (Running& r : all) {
    SCOPED_TRACE(r.name + " by " + r.call.describe() + "\n" + fuzz::write(r.c));
    const std::string schedule = r.call.describe();
    by_mma += schedule.starts_with("mma");
    by_wgmma +=
        schedule.starts_with("pingpong") || schedule.starts_with("cooperative") || schedule.starts_with("turned");
    held += schedule.find("held") != schedule.npos;
    split += schedule.find("split") != schedule.npos;
    by_memory += schedule.find("by memory") != schedule.npos;
    expect_agreement(harness, r, runs);
  }
  std::printf("%zu cases: %d by mma, %d by wgmma, %d of them held, %d split; %zu sources\n", all.size(), by_mma,
              by_wgmma, held, split, harness.sources());
  if (!only && every() == 1) {  // each shard has its share
    EXPECT_GE(by_mma * shards, 80);
    EXPECT_GE(by_wgmma * shards, 60);
    EXPECT_GE(held * shards, 12);
    EXPECT_GE(split * shards, 12);
    EXPECT_GE(by_memory * shards, 12);
    EXPECT_GE(scalars, 20);  // of all shards
  }
}
INSTANTIATE_TEST_SUITE_P(Emission, EmissionOfCases, testing::Range(0, shards));

// Rows of more tiles than fold them all for themselves, each of which folds a share. Fewer tiles stand for them here.
TEST(Emission, FoldsWhatManyTilesTell) {
  Harness harness("emission_many_tiles");
  const std::string most = "(is_one_wave(p) ? 512 : 384) >> heard_bits(p)";
  const std::string head =
      "# problem: kind=gemm a=bf16 b=bf16 batched=1\n# shape: batch=2 m=133 n=264 k=40\n"
      "# data: data=9 values=normal layout=0 seed=10\n";
  const std::string schedules =
      "# schedule: pingpong 64x64x3 sub 32x2 aux 0 raster 1\n# schedule: cooperative 128x64x3 sub 64x2 aux 0 raster 1\n"
      "# schedule: pingpong 128x64x3 sub 32x2 aux 0 raster 1\n";
  std::vector<Running> all;
  for (const char* of : {"    e = exp(acc - max(acc, axis=1))\n    D: bf16 = e / sum(e, axis=1)\n    return D\n",
                         "    D: bf16 = (acc - mean(acc, axis=1)) * rsqrt(var(acc, axis=1) + 1e-5)\n    return D\n",
                         "    s: f32 = max(abs(acc), axis=1)\n    t: f32 = sum(acc, axis=1)\n"
                         "    D: bf16 = (acc - t / 4096) / (s + 1)\n    return D, s, t\n"}) {
    const std::string text = head + schedules + "def epilogue(acc):\n" + of;
    for (const std::string& schedule : schedules_of(text))
      all.push_back(scheduled("many tiles", fuzz::read(text), schedule));
  }
  for (Running& r : all) r.call.run();
  ASSERT_NE(std::string(cuda::reduction_source()).find(most), std::string::npos);
  ASSERT_TRUE(harness.compile("-Og", {most, "2"}));
  for (Running& r : all) {
    SCOPED_TRACE(r.call.describe() + "\n" + fuzz::write(r.c));
    EXPECT_NE(r.call.describe().find("held"), std::string::npos);
    expect_agreement(harness, r, from_environment("POSTLUDE_EMISSION_RUNS", 3));
  }
}

// A row's statistic over an operand of the row, which all of its threads read once more in the same launch.
TEST(Emission, StatisticsOverOperandsWaitForTheirReaders) {
  Harness harness("emission_in_place");
  const fuzz::Case c = fuzz::read(
      "# problem: kind=gemm a=f32 b=f32 batched=0\n# shape: batch=1 m=28 n=300 k=24\n"
      "# data: data=9 values=normal layout=0 seed=10\ndef epilogue(acc, c: col[f32], b: row[f32]):\n"
      "    x = cast(acc, bf16, round=stochastic(5)) * c + b\n    y = x + erf(tanh(x) * b)\n"
      "    s: f32 = var(y, axis=1)\n    e = exp(y - max(y, axis=1))\n    D: f32 = e / sum(e, axis=1)\n"
      "    return s, D\n");
  constexpr std::size_t operand = 2, output = 4;  // behind A and B; behind both operands
  Running r{"in place", c, fuzz::materialise(c), {}};
  std::vector<Binding> all = named(r);
  all[output].tensor.data = all[operand].tensor.data;
  r.call = compile(c.problem, Graph(std::make_shared<const GraphData>(c.graph)), Target::cuda()).bind(all);
  r.call.run();
  ASSERT_TRUE(harness.compile());
  const fuzz::GuardedMemory &over = r.tensors.memory[operand], &statistics = r.tensors.memory[output];
  const std::vector<std::uint8_t> given(over.data(), over.data() + over.size());
  const reference::Evaluation& expected = expected_of(r);
  for (std::uint64_t run = 0; run < 4; ++run) {
    harness.order(run);
    r.tensors.poison_outputs();
    std::ranges::copy(given, over.data());
    r.call.run();
    std::copy_n(over.data(), over.size(), statistics.data());
    EXPECT_EQ(fuzz::compare(expected, r.c, r.tensors, "the host"), "") << r.call.describe();
  }
}

// A user's combiner may give other bits where its arguments change places, which lanes of a row do.
TEST(Emission, TilesOfAClusterHearTheSameBits) {
  Harness harness("emission_same_bits");
  const std::string text =
      "# problem: kind=gemm a=bf16 b=bf16 batched=0\n# shape: batch=1 m=64 n=256 k=64\n"
      "# data: data=16 values=normal layout=0 seed=41\ndef epilogue(acc):\n"
      "    m, c = reduce((acc, 1.0), combine=lambda a1, a2, b1, b2: (a1 + (b1 - a1) * (b2 / max(a2 + b2, 1.0)), a2 + "
      "b2),\n"
      "                  identity=(0.0, 0.0), axis=1)\n"
      "    D: f32 = m + 0 * acc\n    return D\n";
  Running r = scheduled("same bits", fuzz::read(text), "pingpong 64x64x4 sub 32x2 aux 0 raster 1 cluster 1x4 meets");
  r.call.run();
  ASSERT_TRUE(harness.compile());
  ASSERT_NE(r.call.describe().find("held"), std::string::npos) << r.call.describe();
  expect_agreement(harness, r, 2);
  const std::size_t last = r.tensors.all.size() - 1;  // D
  const fuzz::CaseTensor& d = r.tensors.all[last];
  const float* const first = reinterpret_cast<const float*>(r.tensors.memory[last].data()) + d.first;
  for (std::int64_t m = 0; m < 64; ++m)
    for (std::int64_t n = 1; n < 256; ++n) {
      const float* const row = first + m * d.strides[1];
      ASSERT_EQ(std::memcmp(row, row + n * d.strides[2], sizeof(float)), 0) << "[" << m << ", " << n << "]";
    }
}

}  // namespace
}  // namespace postlude
