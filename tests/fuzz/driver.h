// One loop for every fuzzer: a case a seed, in a process that is watched, so that a seed is named
// whether its check finds something wrong, ends the process or hangs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace postlude::fuzz {

// An argument beyond --seed S, --count N, --seconds T and --jobs J, with a value.
struct Argument {
  std::string name;  // "--isa"
  std::string value;
};

// Runs `check` on seeds S, S + 1, ... in J processes, until N are done or each has spent T seconds of processor time
// (seed 1, one process, 60 s where nothing is said): a busy machine makes a run longer, never smaller. `check` returns
// "" or what is wrong. A failure is printed with the command that repeats it, and ends the others too. Returns the exit
// code: 0, 1 for a failure, 2 for arguments it does not take. Call it before anything makes a thread: the cases run in
// a forked process.
[[nodiscard]] int drive(int argc, char** argv, std::span<Argument> more,
                        const std::function<std::string(std::uint64_t seed)>& check);

}  // namespace postlude::fuzz
