// What is emitted for a GPU, compiled for the host and run there against the reference: all kernels that plans launch
// (Hopper's product and the portable one with their epilogues, tiles that wait for each other, the folding of partial
// reductions, repacks, products on ordinary units, passes over memory), for the suite and for random epilogues.
// tests/cuda/fake stands in for driver and compiler, shim.h for PTX. Warps take turns in the order of their numbers,
// then in drawn ones, so that what nothing orders differs. With POSTLUDE_EMISSION_FIRST=N: other random epilogues,
// schedules and orders; with POSTLUDE_EMISSION_RUNS=N so many runs of each; with
// POSTLUDE_EMISSION_ONLY=TEXT only what has the text in its name.
#include "cuda/backend.h"
#include "cuda/emit/gemm_source.h"
#include "elementary.h"
#include "fuzz/choices.h"
#include "fuzz/grammar.h"
#include "fuzz/oracle.h"
#include "gpu/device_run.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

namespace postlude {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t random_cases = 80, on_hopper = 30, many_tiles = 12;
constexpr int multiprocessors = 5;

using Launch = int (*)(const char* source, const char* name, const unsigned* grid, unsigned threads, void** arguments);
using HostLaunch = int (*)(int source, const char* name, const unsigned* grid, unsigned threads, void** arguments);
using HostOrder = void (*)(unsigned long long seed);

std::map<std::string, int> sources;  // to numbers
HostLaunch host_launch = nullptr;    // once they are compiled

int launch(const char* source, const char* name, const unsigned* grid, unsigned threads, void** arguments) {
  const int number = sources.emplace(source, static_cast<int>(sources.size())).first->second;
  return host_launch ? host_launch(number, name, grid, threads, arguments) : 0;
}

struct Running {
  std::string name;
  fuzz::Case c;
  fuzz::Tensors tensors;
  Call call;
};

// Every second scalar operand by value, so that it travels among a kernel's parameters.
int scalars = 0;
std::vector<Binding> named(Running& r) {
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
// By the portable kernel.
Running portable(std::string name, const fuzz::Case& c) {
  Running r{std::move(name), c, fuzz::materialise(c), {}};
  Target target = Target::cuda();
  target.schedule = "mma";
  r.call = compile(c.problem, Graph(std::make_shared<const GraphData>(c.graph)), target).bind(named(r));
  return r;
}
// By the heuristic's schedule (seed 0) or a random one, of Hopper's kernel where that is legal; if it can be, one that
// splits tiles.
Running on_sm90(const std::string& name, const fuzz::Case& c, std::uint64_t seed, bool split = false) {
  Running r{name + " on sm_90a", c, fuzz::materialise(c), {}};
  bool drawn = false;
  for (int i = 0; i < (split ? 20 : 5); ++i, seed += 1000) {
    r.call = gpu_tests::bind_case(c, named(r), seed, drawn);
    const std::string schedule = r.call.describe();
    if (split ? schedule.find("split") != schedule.npos : !drawn || !schedule.starts_with("mma")) break;
  }
  return r;
}

// By each of the schedules that a case names in lines of its own.
void add_scheduled(std::vector<Running>& all, const std::string& name, const std::string& text, const fuzz::Case& c) {
  static const std::regex line("# schedule: ([^\n]*)");
  for (std::sregex_iterator i(text.begin(), text.end(), line), none; i != none; ++i) {
    Running r{name, c, fuzz::materialise(c), {}};
    Target target = Target::cuda();
    target.schedule = (*i)[1];
    r.call = compile(c.problem, Graph(std::make_shared<const GraphData>(c.graph)), target).bind(named(r));
    all.push_back(std::move(r));
  }
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

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
std::uint64_t first_seed() { return from_environment("POSTLUDE_EMISSION_FIRST", 1); }

std::vector<Running> start_all() {
  std::vector<Running> all;
  const std::uint64_t first = first_seed();
  for (const fs::path& path : files_of("/epilogues")) {
    const std::string name = path.stem().string();
    if (name == "prelude" || path.extension() != ".py") continue;
    // Ragged tiles, and heads of 128 columns; more tiles than multiprocessors, and rings of stages that begin again.
    const Shape small{1, 70, 256, 40}, large{2, 150, 256, 136}, deep{1, 300, 512, 3080};
    all.push_back(portable(name, suite_case(path, small, 0)));
    all.push_back(portable(name + " strided", suite_case(path, small, 3)));
    all.push_back(on_sm90(name, suite_case(path, large, 0), 0));
    all.push_back(on_sm90(name + " drawn", suite_case(path, large, 0), first + all.size()));
    all.push_back(on_sm90(name + " strided", suite_case(path, small, 3), first + all.size()));
    all.push_back(on_sm90(name + " split", suite_case(path, {1, 70, 256, 520}, 0), first + all.size(), true));
    if (name == "bce") all.push_back(on_sm90(name + " in its own time", suite_case(path, deep, 0), 0));
  }
  for (std::uint64_t seed = first; seed < first + random_cases; ++seed) {
    fuzz::Case c = fuzz::generate(seed, {.most_nodes = 24, .most_elements = 2048});
    if (seed % 4) c = gpu_tests::on_tensor_cores(c);
    if (!fuzz::divisible(c)) continue;
    all.push_back(portable("seed " + std::to_string(seed), c));
    if (seed < first + on_hopper) all.push_back(on_sm90(all.back().name, c, seed));
  }
  for (std::uint64_t seed = first; seed < first + many_tiles; ++seed) {
    const fuzz::Case c = gpu_tests::with_many_tiles(seed, multiprocessors);
    if (fuzz::divisible(c)) all.push_back(on_sm90("many tiles, seed " + std::to_string(seed), c, seed));
  }
  for (const fs::path& path : files_of("/tests/cuda/host/cases")) {
    std::ifstream in(path);
    std::stringstream written;
    written << in.rdbuf();
    const fuzz::Case c = fuzz::read(written.str());
    const std::string name = path.stem().string();
    all.push_back(portable(name, c));
    all.push_back(portable(name + " on tensor cores", gpu_tests::on_tensor_cores(c)));
    all.push_back(on_sm90(name, gpu_tests::on_tensor_cores(c), 0));
    add_scheduled(all, name, written.str(), c);
  }
  return all;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// All sources, each in a namespace, and a table of their kernels.
std::string host_source() {
  const std::string base = cuda::base_source();
  std::string text = "#include \"" POSTLUDE_SOURCE_DIR "/tests/cuda/host/shim.h\"\n" + base, table;
  static const std::regex kernel("__global__ void[^{]*?([a-z_0-9]+)\\(const __grid_constant__"),
      defined("(^|\n)#define ([A-Za-z_0-9]+)"), cluster("#define SPLIT (\\d+)"),
      // The whole function, and from its instruction: the types, and whether A and B lie along K.
      wgmma(
          "(DEVICE void wgmma\\([^{]*\\{\n)[^;]*;[^;]*;[^;]*\\.(\\w+)\\.(\\w+) \\{[^}]*\\}[^;p]*p(?:, 1, 1)?(?:, "
          "([01]), ([01]))?;[^;]*;\n\\}\n");
  const std::sregex_iterator none;
  for (const auto& [original, number] : sources) {
    const std::string space = "k" + std::to_string(number);
    std::string source = original;
    source = std::regex_replace(source, std::regex("#define CLUSTER .*"), "#define CLUSTER");
    replace(source, base, "#ifdef MMA_A\nMMA_ON_HOST\n#endif\n");
    replace(source, "extern __shared__ __align__(1024) u8 dynamic_shared[];",
            "u8* const dynamic_shared = own_shared();");
    replace(source, "extern __shared__ u8 dynamic_shared[];", "u8* const dynamic_shared = own_shared();");
    source = std::regex_replace(source, wgmma, "$1  wgmma_on_host(d, a, b, scale, \"$2\", \"$3\", !0$4, !0$5);\n}\n");
    const bool together = source != original && std::regex_search(original, wgmma);
    const std::sregex_iterator split(original.begin(), original.end(), cluster);
    replace(source, "extern \"C\" ", "");
    text += "namespace " + space + " {\n" + source + "}\n";
    for (std::sregex_iterator i(source.begin(), source.end(), kernel); i != none; ++i) {
      const std::string name = (*i)[1];
      if (name == "postlude_finish" && source.find("#define FINISHES") == source.npos) continue;  // it is not compiled
      text += "static void " + space + "_" + name + "(void** a) { call(" + space + "::" + name + ", a); }\n";
      table += "  {" + std::to_string(number) + ", \"" + name + "\", " + space + "_" + name + ", " +
               (together && name == "postlude_gemm" ? "true, " + (*split)[1].str() : "false, 1") + "},\n";
    }
    for (std::sregex_iterator i(source.begin(), source.end(), defined); i != none; ++i)
      text += "#undef " + (*i)[2].str() + "\n";
  }
  return text + "static const Kernel kernels[] = {\n" + table +
         "};\nextern \"C\" int host_launch(int source, const char* name, const unsigned* grid, unsigned threads, "
         "void** arguments) {\n"
         "  return launch(kernels, sizeof kernels / sizeof kernels[0], source, name, grid, threads, arguments);\n}\n"
         "extern \"C\" void host_order(unsigned long long seed) { fibers::order = seed; }\n";
}

// What the library of `text` gives, compiled for the host; nullptr after a failure.
void* compiled(const fs::path& folder, const std::string& text) {
  std::ofstream(folder / "kernels.cpp") << text;
  const std::string command = std::string(POSTLUDE_CXX) +
                              " -std=c++17 -O1 -w -Wno-psabi -ffp-contract=off -fPIC -shared -o '" +
                              (folder / "kernels.so").string() + "' '" + (folder / "kernels.cpp").string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  void* library = dlopen((folder / "kernels.so").c_str(), RTLD_NOW);
  EXPECT_TRUE(library) << dlerror();
  return library;
}
fs::path empty_folder(const char* name) {
  fs::path folder = fs::path(POSTLUDE_BINARY_DIR) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

// The functions of math.cu, but for what the hardware approximates, which is exact here (tests/gpu sees that).
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

TEST(Emission, AgreesWithTheReferenceOnTheHost) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers do not follow fibers";
#endif
  const fs::path folder = empty_folder("emission");
  setenv("POSTLUDE_CACHE_DIR", (folder / "cache").c_str(), 1);
  void* nvrtc = dlopen(POSTLUDE_FAKES "/fake_nvrtc.so", RTLD_NOW | RTLD_GLOBAL);
  void* driver = dlopen(POSTLUDE_FAKES "/fake_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  ASSERT_TRUE(nvrtc && driver) << dlerror();
  setenv("FAKE_CUDA_MULTIPROCESSORS", std::to_string(multiprocessors).c_str(), 1);
  setenv("POSTLUDE_NVRTC", POSTLUDE_FAKES "/fake_nvrtc.so", 1);
  *static_cast<Launch*>(dlsym(driver, "fake_cuda_launch")) = launch;

  std::vector<Running> all = start_all();
  const char* const only = std::getenv("POSTLUDE_EMISSION_ONLY");
  if (only) std::erase_if(all, [&](const Running& r) { return r.name.find(only) == std::string::npos; });
  for (Running& r : all) r.call.run();  // gathers the sources
  void* kernels = compiled(folder, host_source());
  ASSERT_TRUE(kernels);
  host_launch = reinterpret_cast<HostLaunch>(dlsym(kernels, "host_launch"));
  const auto host_order = reinterpret_cast<HostOrder>(dlsym(kernels, "host_order"));

  const std::uint64_t runs = from_environment("POSTLUDE_EMISSION_RUNS", 3);
  int by_mma = 0, by_wgmma = 0, held = 0, split = 0;
  for (Running& r : all) {
    SCOPED_TRACE(r.name + " by " + r.call.describe() + "\n" + fuzz::write(r.c));
    const std::string schedule = r.call.describe();
    by_mma += schedule.starts_with("mma");
    by_wgmma += schedule.starts_with("pingpong") || schedule.starts_with("cooperative");
    held += schedule.find("held") != schedule.npos;
    split += schedule.find("split") != schedule.npos;
    const reference::Evaluation expected =
        reference::evaluate(r.c.graph, r.c.problem, r.tensors.bindings,
                            {.accumulator = gpu_tests::error_model(r.c, schedule)});
    std::vector<std::vector<std::uint8_t>> first;
    for (std::uint64_t run = 0; run < runs; ++run) {
      SCOPED_TRACE("run " + std::to_string(run));
      host_order(run == 0 ? 0 : fuzz::mix(first_seed() + r.c.seed) + run);
      r.tensors.poison_outputs();
      r.call.run();
      EXPECT_EQ(fuzz::compare(expected, r.c, r.tensors, "the host"), "");
      EXPECT_EQ(r.tensors.damage(), "");
      if (run == 0) first = r.tensors.copy_outputs();
      else EXPECT_EQ(r.tensors.copy_outputs(), first) << "the second run gives other bits";
    }
  }
  std::printf("%zu cases: %d by mma, %d by wgmma, %d of them held, %d split; %zu sources\n", all.size(), by_mma,
              by_wgmma, held, split, sources.size());
  if (!only) {
    EXPECT_GE(by_mma, 80);
    EXPECT_GE(by_wgmma, 60);
    EXPECT_GE(held, 12);
    EXPECT_GE(split, 12);
    EXPECT_GE(scalars, 20);
  }
  if (!HasFailure()) fs::remove_all(folder);
}

}  // namespace
}  // namespace postlude
