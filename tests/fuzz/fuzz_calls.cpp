// fuzz_calls [--seed S] [--count N] [--seconds T] [--threads N]: sequences of calls of the public
// interface. With more than one thread a case is as many groups of sequences at once, which share
// what they make.
#include "fuzz/calls.h"
#include "fuzz/choices.h"
#include "fuzz/driver.h"

#include <thread>
#include <vector>

int main(int argc, char** argv) {
  using namespace postlude::fuzz;
  Argument arguments[] = {{"--threads", "1"}};
  const std::string& threads = arguments[0].value;
  return drive(argc, argv, arguments, [&](std::uint64_t seed) -> std::string {
    constexpr std::uint64_t sequences = 10;
    const auto shared = make_shared_pool();
    std::vector<std::string> wrong(std::stoul(threads));
    const auto group = [&](std::size_t thread) {
      for (std::uint64_t i = 0; i < sequences && wrong[thread].empty(); ++i)
        wrong[thread] = check_calls(mix(seed) + sequences * thread + i, *shared);
    };
    std::vector<std::thread> others;
    for (std::size_t thread = 1; thread < wrong.size(); ++thread) others.emplace_back(group, thread);
    group(0);
    for (std::thread& other : others) other.join();
    for (const std::string& what : wrong)
      if (!what.empty()) return what;
    return "";
  });
}
