// A fuzzing case on a GPU: its tensors copied there between red zones, run twice, and copied back.
#pragma once

#include "fuzz/oracle.h"

#include <functional>
#include <string>

namespace postlude::gpu_tests {

// "" where a Hopper or newer GPU and NVRTC are here, else why not.
[[nodiscard]] std::string missing();

// Hears of each step of a case as it begins, for who waits for it.
using Steps = std::function<void(const char*)>;

struct DeviceRuns : fuzz::Runs {
  std::string schedule;  // what ran, in a line
  bool drawn = false;    // by a random schedule rather than the heuristic's
};

// Bound to `named` by the heuristic's schedule, or as below by a drawn one. `by`: for other problems of the same
// kernel.
[[nodiscard]] Call bind_case(const fuzz::Case& c, const std::vector<Binding>& named, std::uint64_t schedule_seed,
                             bool& drawn, Target* by = nullptr);

// Runs the case twice by the heuristic's schedule, or by the first legal one of those that `schedule_seed` draws
// (another than 0; where none of some dozens is legal, by the heuristic's). Throws std::runtime_error where a red zone
// was written.
[[nodiscard]] DeviceRuns run_on_device(const fuzz::Case& c, fuzz::Tensors& tensors, std::uint64_t schedule_seed,
                                       const Steps& begins);

// How exactly the schedule that describe() named accumulates: as Executable::error_model says of the plan that has it.
[[nodiscard]] ErrorModel error_model(const fuzz::Case& c, const std::string& described);

// The case with half-precision operands of A and B, so that tensor cores run it, where its accumulator is f32.
[[nodiscard]] fuzz::Case on_tensor_cores(fuzz::Case c);

// An epilogue over so many elements that each multiprocessor takes several tiles, behind a K of few blocks: nothing but
// the kernel's own barriers keeps one tile's epilogue and the next one's apart. `losses`: of several results of all
// elements alone.
[[nodiscard]] fuzz::Case with_many_tiles(std::uint64_t seed, int multiprocessors, bool losses = false);

// Case `seed` as this backend's fuzzing draws it: one in four as the grammar gives it, one in 32 with many tiles, the
// rest on tensor cores.
[[nodiscard]] fuzz::Case draw(std::uint64_t seed);

// Everything that must hold for it on the device, by a random legal schedule: every element against the reference,
// equal bits of a second run, nothing written elsewhere; where outputs are exact, also the bits of the heuristic's
// schedule and of the CPU backend.
struct Verdict {
  std::string wrong;  // "" or what went wrong
  std::string schedule;
  bool drawn = false;
};
[[nodiscard]] Verdict check_on_device(
    const fuzz::Case& c, const Steps& begins = [](const char*) {});

}  // namespace postlude::gpu_tests
