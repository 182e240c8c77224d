#include "cuda/run/nvrtc.h"

#include "cuda/run/opened.h"

#include <postlude/error.h>

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>
#include <type_traits>

namespace postlude::inline v0::cuda {
namespace {

using NvrtcProgram = struct NvrtcProgramOpaque*;

struct Nvrtc {
  std::string path;
  int major = 0, minor = 0;
  int (*Version)(int*, int*);
  int (*CreateProgram)(NvrtcProgram*, const char* source, const char* name, int headers, const char* const*,
                       const char* const*);
  int (*CompileProgram)(NvrtcProgram, int options, const char* const*);
  int (*DestroyProgram)(NvrtcProgram*);
  int (*GetProgramLogSize)(NvrtcProgram, std::size_t*);
  int (*GetProgramLog)(NvrtcProgram, char*);
  int (*GetCUBINSize)(NvrtcProgram, std::size_t*);
  int (*GetCUBIN)(NvrtcProgram, char*);
  const char* (*GetErrorString)(int);
};

// The libraries to try: POSTLUDE_NVRTC alone, if it is set. Otherwise trusted sonames first, then
// absolute paths only: the toolkit, and the wheel beside this library (a Python package lies in the
// same site-packages).
std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  if (const char* chosen = std::getenv("POSTLUDE_NVRTC"); chosen && chosen[0] == '/') return {chosen};
  for (const char* soname : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
    paths.emplace_back(soname);
    for (const char* folder :
         {"/usr/local/cuda/lib64/", "/usr/local/cuda/lib/", "/usr/lib/x86_64-linux-gnu/", "/opt/cuda/lib64/"}) {
      paths.push_back(std::string(folder) + soname);
    }
  }
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&candidates), &self) && self.dli_fname) {
    std::error_code ignored;
    auto folder = std::filesystem::canonical(self.dli_fname, ignored).parent_path();
    for (int up = 0; up < 3 && folder.has_relative_path(); ++up, folder = folder.parent_path()) {
      paths.push_back(folder / "nvidia/cu13/lib/libnvrtc.so.13");
      paths.push_back(folder / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
    }
  }
  return paths;
}

Nvrtc open_nvrtc() {
  Nvrtc n{};
  void* library = nullptr;
  for (const std::string& path : candidates()) {
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library) {
      n.path = path;
      break;
    }
  }
  if (!library) {
    const char* chosen = std::getenv("POSTLUDE_NVRTC");
    throw Error(
        ErrorCode::no_compiler,
        chosen && chosen[0] == '/'
            ? "NVRTC was not found: " + postlude::quoted(chosen) + ", which POSTLUDE_NVRTC names, could not be opened"
            : "NVRTC was not found: neither libnvrtc.so.13 nor libnvrtc.so.12 could be opened",
        "Install the CUDA toolkit or `pip install nvidia-cuda-nvrtc`, or set POSTLUDE_NVRTC to the library's absolute "
        "path.");
  }
  auto find = [&](auto& entry, const char* symbol) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, symbol));
    if (!entry)
      throw Error(ErrorCode::no_compiler, "the NVRTC in " + postlude::quoted(n.path) + " lacks " + symbol,
                  "Install NVRTC 12 or 13.");
  };
  find(n.Version, "nvrtcVersion");
  find(n.CreateProgram, "nvrtcCreateProgram");
  find(n.CompileProgram, "nvrtcCompileProgram");
  find(n.DestroyProgram, "nvrtcDestroyProgram");
  find(n.GetProgramLogSize, "nvrtcGetProgramLogSize");
  find(n.GetProgramLog, "nvrtcGetProgramLog");
  find(n.GetCUBINSize, "nvrtcGetCUBINSize");
  find(n.GetCUBIN, "nvrtcGetCUBIN");
  find(n.GetErrorString, "nvrtcGetErrorString");
  n.Version(&n.major, &n.minor);
  return n;
}

const Nvrtc& nvrtc() { return opened<open_nvrtc>(); }

// The sum of the numbers that precede `what` in ptxas's report ("16 bytes spill stores").
int sum_before(std::string_view log, std::string_view what) {
  int total = 0;
  for (std::size_t at = log.find(what); at != log.npos; at = log.find(what, at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && (log[begin - 1] == ' ' || (log[begin - 1] >= '0' && log[begin - 1] <= '9'))) --begin;
    total += std::atoi(log.data() + begin);
  }
  return total;
}

}  // namespace

Compiled compile(const std::string& source, const std::string& arch) {
  const Nvrtc& n = nvrtc();
  NvrtcProgram program = nullptr;
  auto check = [&](int result, const char* what) {
    if (result == 0) return;
    if (program) n.DestroyProgram(&program);
    throw Error(ErrorCode::compile_failed, std::string("NVRTC failed in ") + what + ": " + n.GetErrorString(result),
                "Check that libnvrtc-builtins of the same version lies beside " + n.path + ".");
  };
  check(n.CreateProgram(&program, source.c_str(), "postlude.cu", 0, nullptr, nullptr), "creating a program");
  constexpr int invalid_option = 5;
  const std::string target = "--gpu-architecture=" + arch;
  // A cubin from a cache of NVRTC's own would come without ptxas's report, and what spills would seem not to. The last
  // option is not known to versions that have no such cache.
  const char* options[] = {target.c_str(), "--std=c++17", "--fmad=false", "--ptxas-options=-v", "--no-cache"};
  int failed = n.CompileProgram(program, 5, options);
  if (failed == invalid_option) failed = n.CompileProgram(program, 4, options);
  Compiled compiled;
  std::size_t size = 0;
  n.GetProgramLogSize(program, &size);
  compiled.log.resize(size);
  n.GetProgramLog(program, compiled.log.data());
  while (!compiled.log.empty() && compiled.log.back() == '\0') compiled.log.pop_back();
  if (failed == invalid_option) {
    n.DestroyProgram(&program);
    throw Error(ErrorCode::unsupported, "NVRTC " + compiler_version() + " does not compile for " + arch,
                "sm_90a is Hopper, sm_80 the oldest; a newer GPU may need a newer NVRTC.");
  }
  if (failed) {
    n.DestroyProgram(&program);
    const std::size_t error = compiled.log.find("error");
    const std::size_t line = error == compiled.log.npos ? 0 : compiled.log.rfind('\n', error) + 1;
    throw Error(ErrorCode::compile_failed,
                std::string("NVRTC: ") + n.GetErrorString(failed) + ": " + compiled.log.substr(line, 400),
                "This is a bug of Postlude's code generation, or NVRTC's builtins are missing.");
  }
  check(n.GetCUBINSize(program, &size), "asking for the cubin");
  compiled.cubin.resize(size);
  check(n.GetCUBIN(program, compiled.cubin.data()), "fetching the cubin");
  n.DestroyProgram(&program);
  compiled.spill_bytes = sum_before(compiled.log, "bytes spill stores");
  if (const std::size_t used = compiled.log.find("Used "); used != compiled.log.npos) {
    compiled.registers = std::atoi(compiled.log.c_str() + used + 5);
  }
  return compiled;
}

std::string rejection(const Compiled& compiled) {
  if (compiled.spill_bytes > 16) return "it spills " + std::to_string(compiled.spill_bytes) + " bytes";
  // These warnings say that setmaxnreg was ignored, or wgmma serialised because of a call, an
  // accumulator that is read early, a register or a divergent branch.
  for (const char* warning : {"C7508", "C7510", "C7511", "C7514", "C7515", "C7519"}) {
    if (compiled.log.find(warning) != std::string::npos) return std::string("ptxas reports ") + warning;
  }
  return {};
}

void require_compiler() { (void)nvrtc(); }

std::string compiler_version() {
  try {
    return std::to_string(nvrtc().major) + "." + std::to_string(nvrtc().minor);
  } catch (const Error&) { return {}; }
}

int compile_threads() {
  if (const char* text = std::getenv("POSTLUDE_COMPILE_THREADS"); text && std::atoi(text) > 0) return std::atoi(text);
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::string describe_compiler() {
  try {
    return "NVRTC " + compiler_version() + " (" + nvrtc().path + ")";
  } catch (const Error& error) { return error.message(); }
}

}  // namespace postlude::inline v0::cuda
