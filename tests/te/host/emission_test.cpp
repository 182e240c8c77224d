// Kernels that are emitted from random nests, compiled for the host and run there against the
// nests' definition; tests/cuda/fake stands in for driver and compiler, tests/cuda/host/shim.h for
// PTX. Warps take turns in drawn orders. POSTLUDE_TE_RUNS and POSTLUDE_TE_FIRST: how many, from where.
#include "cuda/emit/gemm_source.h"
#include "te/fuzz.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>

namespace postlude {
namespace {

namespace fs = std::filesystem;

using Launch = int (*)(const char* source, const char* name, const unsigned* grid, unsigned threads, void** arguments);
using HostLaunch = int (*)(int source, const char* name, const unsigned* grid, unsigned threads, void** arguments);
using HostOrder = void (*)(unsigned long long seed);

std::map<std::string, int> sources;  // to numbers
HostLaunch host_launch = nullptr;    // once they are compiled

int launch(const char* source, const char* name, const unsigned* grid, unsigned threads, void** arguments) {
  const int number = sources.emplace(source, static_cast<int>(sources.size())).first->second;
  return host_launch ? host_launch(number, name, grid, threads, arguments) : 0;
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// All sources, each in a namespace, and a table of their kernels.
std::string host_source() {
  const std::string base = cuda::base_source();
  std::string text = "#include \"" POSTLUDE_SOURCE_DIR "/tests/cuda/host/shim.h\"\n" + base, table;
  static const std::regex kernel("__global__ void[^{]*?(kernel[0-9]+)\\(const __grid_constant__");
  for (const auto& [original, number] : sources) {
    const std::string space = "k" + std::to_string(number);
    std::string source = original;
    replace(source, base, "");
    replace(source, "extern \"C\" ", "");
    text += "namespace " + space + " {\n" + source + "}\n";
    for (std::sregex_iterator i(source.begin(), source.end(), kernel), none; i != none; ++i) {
      const std::string name = (*i)[1];
      text += "static void " + space + "_" + name + "(void** a) { " + space + "::" + name + "(*(const " + space +
              "::Params*)a[0]); }\n";
      table += "  {" + std::to_string(number) + ", \"" + name + "\", " + space + "_" + name + ", false, 1},\n";
    }
  }
  return text + "static const Kernel kernels[] = {\n" + table +
         "};\nextern \"C\" int host_launch(int source, const char* name, const unsigned* grid, unsigned threads, "
         "void** arguments) {\n"
         "  return launch(kernels, sizeof kernels / sizeof kernels[0], source, name, grid, threads, arguments);\n}\n"
         "extern \"C\" void host_order(unsigned long long seed) { fibers::order = seed; }\n";
}

void* compiled(const fs::path& folder, const std::string& text) {
  std::ofstream(folder / "kernels.cpp") << text;
  const std::string command = std::string(POSTLUDE_CXX) +
                              " -std=c++17 -O0 -w -Wno-psabi -ffp-contract=off -fPIC -shared -o '" +
                              (folder / "kernels.so").string() + "' '" + (folder / "kernels.cpp").string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  void* library = dlopen((folder / "kernels.so").c_str(), RTLD_NOW);
  EXPECT_TRUE(library) << dlerror();
  return library;
}

struct Running {
  fuzz_te::Program program;
  std::vector<std::vector<double>> wanted;
  te::Module module;
  std::vector<Tensor> arrays;
};

TEST(TeEmission, AgreesWithTheDefinition) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers do not follow fibers";
#endif
  const fs::path folder = fs::path(POSTLUDE_BINARY_DIR) / "te_emission";
  fs::remove_all(folder);
  fs::create_directories(folder);
  setenv("POSTLUDE_CACHE_DIR", (folder / "cache").c_str(), 1);
  void* nvrtc = dlopen(POSTLUDE_FAKES "/fake_nvrtc.so", RTLD_NOW | RTLD_GLOBAL);
  void* driver = dlopen(POSTLUDE_FAKES "/fake_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  ASSERT_TRUE(nvrtc && driver) << dlerror();
  setenv("FAKE_CUDA_MULTIPROCESSORS", "1", 1);
  setenv("POSTLUDE_NVRTC", POSTLUDE_FAKES "/fake_nvrtc.so", 1);
  *static_cast<Launch*>(dlsym(driver, "fake_cuda_launch")) = launch;

  const std::uint64_t first = from_environment("POSTLUDE_TE_FIRST", 1), runs = from_environment("POSTLUDE_TE_RUNS", 60);
  std::vector<Running> all;
  int refused = 0, failures = 0, joined = 0;
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    Running r{fuzz_te::generate(seed), {}, {}, {}};
    if (seed % 5 == 0) fuzz_te::choose(r.program, Target::cuda());
    else fuzz_te::schedule(r.program, fuzz_te::Bindings::threads);
    r.wanted = fuzz_te::expected(r.program);
    for (fuzz_te::Array& array : r.program.arrays) r.arrays.push_back(array.view().on(Device::cuda));
    try {
      r.module = te::build(r.program.schedule, r.program.arguments, Target::cuda());
      r.module(r.arrays);
    } catch (const Error& error) {
      const bool may = error.code() == ErrorCode::unsupported || error.code() == ErrorCode::bad_schedule;
      if (!may) ADD_FAILURE() << "seed " << seed << ": " << error.what();
      ++refused;
      continue;
    }
    joined += r.module.print().find("combined") != std::string::npos;
    all.push_back(std::move(r));
  }
  void* kernels = compiled(folder, host_source());
  ASSERT_TRUE(kernels);
  host_launch = reinterpret_cast<HostLaunch>(dlsym(kernels, "host_launch"));
  const auto host_order = reinterpret_cast<HostOrder>(dlsym(kernels, "host_order"));
  for (Running& r : all) {
    for (const std::uint64_t order : {0, 1}) {
      host_order(order ? r.program.seed * 77 + 5 : 0);
      std::string message;
      try {
        r.module(r.arrays);
        message = fuzz_te::difference(r.program, r.wanted);
      } catch (const std::exception& error) { message = error.what(); }
      if (message.empty()) continue;
      if (++failures < 6)
        ADD_FAILURE() << "seed " << r.program.seed << ", order " << order << ": " << message << "\n"
                      << r.module.print();
      break;
    }
  }
  std::printf("%zu programs, %d refused, %d in which threads join; %zu sources\n", all.size(), refused, joined,
              sources.size());
  EXPECT_EQ(failures, 0);
  EXPECT_GE(all.size(), runs / 2);
  EXPECT_GE(joined, static_cast<int>(runs / 30));
  if (!HasFailure()) fs::remove_all(folder);
}

}  // namespace
}  // namespace postlude
