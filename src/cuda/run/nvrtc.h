// NVIDIA's run-time compiler, opened at run time from the system or from the PyPI wheel's folder.
#pragma once

#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

struct Compiled {
  std::string cubin;
  std::string log;      // warnings, and ptxas's resource report
  int registers = 0;    // a thread at entry
  int spill_bytes = 0;  // stored, of all kernels
};

// Compiles header-free CUDA C++ to machine code for `arch` ("sm_90a", "sm_80"). No GPU is needed.
// `--fmad=false`: the emitted program is the program. Throws no_compiler when NVRTC is missing
// (naming where it was looked for) and compile_failed with the log's first error.
[[nodiscard]] Compiled compile(const std::string& source, const std::string& arch);

// Why a compiled variant must not be used: it spills more than 16 bytes, or ptxas has undone what
// makes it fast. Empty: it may be used.
[[nodiscard]] std::string rejection(const Compiled& compiled);

// Throws no_compiler where NVRTC is missing.
void require_compiler();

// NVRTC's version, "13.0", or "" where it is missing. Part of every cache key.
[[nodiscard]] std::string compiler_version();

// So many sources may be compiled side by side: POSTLUDE_COMPILE_THREADS, or as many as this process has processors.
// Each is compiled by one thread, so OpenMP's number says nothing of them (decision 0205).
[[nodiscard]] int compile_threads();

// One line for `postlude doctor`: the compiler that was found, or why there is none.
[[nodiscard]] std::string describe_compiler();

}  // namespace postlude::inline v0::cuda
