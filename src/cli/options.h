// The options that commands share.
#pragma once

#include <postlude/plan.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace postlude::inline v0::cli {

// The program's exit codes. Scripts rely on them.
enum class Exit : int { ok = 0, check_failed = 1, usage = 2, unsupported = 3, missing = 4, bug = 5 };
[[nodiscard]] Exit exit_code(ErrorCode code);

// The problem and target of a command line: --gemm, --stream or --conv and --gradient, --batch, --in, --target,
// --threads, --schedule, --accumulate.
struct ProblemOptions {
  std::string gemm;      // "MxNxK"
  std::string stream;    // "MxN"
  std::string conv;      // "NxHxWxC:KxRxS:s2,p1"
  std::string gradient;  // "", "data" or "weight"
  std::string in = "f32";
  std::string target = "cpu";
  std::int64_t batch = 0;  // 0: not batched
  int threads = 0;
  std::string schedule;    // "": the heuristic's
  std::string accumulate;  // "" or "fast"
};

// Sizes as given; K is 0 for a stream.
struct Sizes {
  std::int64_t m = 0, n = 0, k = 0;
  std::vector<std::vector<std::int64_t>> inputs;  // the main loop's, where M, N and K do not tell their shapes
};

[[nodiscard]] Problem make_problem(const ProblemOptions& options);
[[nodiscard]] Target make_target(const ProblemOptions& options);
[[nodiscard]] std::optional<Sizes> make_sizes(const ProblemOptions& options);  // none: no main loop is given
[[nodiscard]] std::int64_t make_batch(const ProblemOptions& options);

}  // namespace postlude::inline v0::cli
