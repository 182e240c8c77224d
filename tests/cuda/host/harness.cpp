#include "cuda/host/harness.h"

#include "cuda/emit/gemm_source.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <utility>
#include <vector>

namespace postlude::host {

namespace fs = std::filesystem;

namespace {

using Launch = int (*)(const char* source, const char* name, const unsigned* grid, unsigned threads, void** arguments);
using HostLaunch = int (*)(int source, const char* name, const unsigned* grid, unsigned threads, void** arguments);
using HostOrder = void (*)(unsigned long long seed);

std::map<std::string, int>& gathered() {  // sources, to numbers
  static std::map<std::string, int> sources;
  return sources;
}
std::set<std::string>& recent() {  // those that were launched since Harness::launched()
  static std::set<std::string> sources;
  return sources;
}
HostLaunch host_launch = nullptr;  // once they are compiled

int launch(const char* source, const char* name, const unsigned* grid, unsigned threads, void** arguments) {
  const int number = gathered().emplace(source, static_cast<int>(gathered().size())).first->second;
  if (host_launch) return host_launch(number, name, grid, threads, arguments);
  recent().insert(source);
  return 0;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// [first, last) of each place that begins with `from` and ends before `to`. Regular expressions read these alone, for
// over whole sources they take long.
std::vector<std::pair<std::size_t, std::size_t>> places(const std::string& text, const std::string& from,
                                                        const std::string& to) {
  std::vector<std::pair<std::size_t, std::size_t>> all;
  for (std::size_t at = text.find(from), end; at != text.npos; at = text.find(from, end)) {
    end = std::min(text.find(to, at + from.size()), text.size());
    all.emplace_back(at, end);
  }
  return all;
}

// Hopper's product by the shim; true where there is one.
bool replace_wgmma(std::string& source) {
  static const std::regex
      wgmma(  // the whole function, and from its instruction: N, the types, and whether A and B lie along K
          "(DEVICE void wgmma\\([^{]*\\{\n)[^;]*;[^;]*;[^;]*\\.m64n(\\d+)k\\d+\\.\\w+\\.(\\w+)\\.(\\w+) "
          "\\{[^}]*\\}[^;p]*p(?:, 1, 1)?(?:, ([01]), ([01]))?;[^;]*;\n");
  bool any = false;
  const auto all = places(source, "DEVICE void wgmma(", "}\n}\n");
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    const std::string was = source.substr(at->first, at->second - at->first);
    const std::string is =
        std::regex_replace(was, wgmma, "$1  wgmma_on_host<$2>(d, a, b, scale, \"$3\", \"$4\", !0$5, !0$6);\n");
    any |= was != is;
    source.replace(at->first, was.size(), is);
  }
  return any;
}

// All sources, each in a namespace, and a table of their kernels.
std::string host_source(const Harness::Change& change) {
  const std::string base = cuda::base_source();
  std::string text = "#include \"" POSTLUDE_SOURCE_DIR "/tests/cuda/host/shim.h\"\n" + base, table;
  static const std::regex kernel("__global__ void[^{]*?([a-z_0-9]+)\\(const __grid_constant__"),
      defined("#define ([A-Za-z_0-9]+)");
  for (const auto& [original, number] : gathered()) {
    const std::string space = "k" + std::to_string(number);
    std::string source = original, blocks = "1";
    if (!change.from.empty()) replace(source, change.from, change.to);
    for (const auto& [at, end] : places(source, "#define CLUSTER ", "\n")) source.replace(at + 15, end - at - 15, "");
    for (const auto& [at, end] : places(source, "#define CLUSTER_BLOCKS ", "\n"))
      blocks = source.substr(at + 23, end - at - 23);
    replace(source, base, "#ifdef MMA_A\nMMA_ON_HOST\n#endif\n");
    replace(source, "extern __shared__ __align__(1024) u8 dynamic_shared[];",
            "u8* const dynamic_shared = own_shared();");
    replace(source, "extern __shared__ u8 dynamic_shared[];", "u8* const dynamic_shared = own_shared();");
    const bool together = replace_wgmma(source);
    replace(source, "extern \"C\" ", "");
    text += "namespace " + space + " {\n" + source + "}\n";
    std::smatch found;
    for (const auto& [at, end] : places(source, "__global__ void", "{")) {
      const std::string head = source.substr(at, end - at);
      if (!std::regex_search(head, found, kernel)) continue;
      const std::string name = found[1];
      if (name == "postlude_finish" && source.find("#define FINISHES") == source.npos) continue;  // it is not compiled
      text += "static void " + space + "_" + name + "(void** a) { call(" + space + "::" + name + ", a); }\n";
      table += "  {" + std::to_string(number) + ", \"" + name + "\", " + space + "_" + name + ", " +
               (together && name == "postlude_gemm" ? "true, " + blocks : "false, 1") + "},\n";
    }
    for (const auto& [at, end] : places("\n" + source, "\n#define ", "\n")) {
      const std::string line = source.substr(at, end - at - 1);
      if (std::regex_search(line, found, defined)) text += "#undef " + found[1].str() + "\n";
    }
  }
  return text + "static const Kernel kernels[] = {\n" + table +
         "};\nextern \"C\" int host_launch(int source, const char* name, const unsigned* grid, unsigned threads, "
         "void** arguments) {\n"
         "  return launch(kernels, sizeof kernels / sizeof kernels[0], source, name, grid, threads, arguments);\n}\n"
         "extern \"C\" void host_order(unsigned long long seed) { fibers::order = seed; }\n";
}

}  // namespace

// What the library of `text` gives, compiled for the host; nullptr after a failure.
void* compiled(const fs::path& folder, const std::string& text, const char* optimize) {
  // With POSTLUDE_EMISSION_KEPT=FOLDER what one text gives is kept there: most mutants emit what others do.
  const char* const kept = std::getenv("POSTLUDE_EMISSION_KEPT");
  const fs::path known = fs::path(kept ? kept : "") / (std::to_string(std::hash<std::string>()(text)) + ".so");
  if (kept && fs::exists(known)) return dlopen(known.c_str(), RTLD_NOW);
  std::ofstream(folder / "kernels.cpp") << text;
  const std::string command = std::string(POSTLUDE_CXX) + " -std=c++17 " + optimize +
                              " -w -Wno-psabi -ffp-contract=off -fno-exceptions -fPIC -shared -o '" +
                              (folder / "kernels.so").string() + "' '" + (folder / "kernels.cpp").string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  void* library = dlopen((folder / "kernels.so").c_str(), RTLD_NOW);
  EXPECT_TRUE(library) << dlerror();
  if (kept && library) fs::create_directories(kept), fs::rename(folder / "kernels.so", known);
  return library;
}
fs::path empty_folder(const std::string& name) {
  const char* const parent = std::getenv("POSTLUDE_EMISSION_FOLDER");
  fs::path folder = fs::path(parent ? parent : POSTLUDE_BINARY_DIR) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

Harness::Harness(const std::string& folder, int of) : folder_(empty_folder(folder)) {
  setenv("POSTLUDE_CACHE_DIR", (folder_ / "cache").c_str(), 1);
  void* nvrtc = dlopen(POSTLUDE_FAKES "/fake_nvrtc.so", RTLD_NOW | RTLD_GLOBAL);
  void* driver = dlopen(POSTLUDE_FAKES "/fake_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  EXPECT_TRUE(nvrtc && driver) << dlerror();
  setenv("FAKE_CUDA_MULTIPROCESSORS", std::to_string(of).c_str(), 1);
  setenv("POSTLUDE_NVRTC", POSTLUDE_FAKES "/fake_nvrtc.so", 1);
  if (driver) *static_cast<Launch*>(dlsym(driver, "fake_cuda_launch")) = launch;
  gathered().clear(), host_launch = nullptr;
}

Harness::~Harness() {
  if (!testing::Test::HasFailure()) fs::remove_all(folder_);
}

bool Harness::compile(const char* optimize, const Change& change) {
  void* kernels = compiled(folder_, host_source(change), optimize);
  if (!kernels) return false;
  host_launch = reinterpret_cast<HostLaunch>(dlsym(kernels, "host_launch"));
  order_ = reinterpret_cast<HostOrder>(dlsym(kernels, "host_order"));
  return true;
}

void Harness::order(std::uint64_t seed) const { order_(seed); }

std::size_t Harness::sources() { return gathered().size(); }

fs::path Harness::launched() {
  std::string all;
  for (const std::string& source : recent()) all += source;
  recent().clear();
  const char* const kept = std::getenv("POSTLUDE_EMISSION_KEPT");
  return kept ? fs::path(kept) / (std::to_string(std::hash<std::string>()(all)) + ".right") : fs::path();
}

void Harness::forget(std::size_t from) {
  std::erase_if(gathered(), [&](const auto& source) { return source.second >= static_cast<int>(from); });
}

}  // namespace postlude::host
