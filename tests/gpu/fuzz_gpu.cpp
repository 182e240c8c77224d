// fuzz_gpu FIRST COUNT [STRIDE [SECONDS]]: random epilogues on the GPU, by random schedules, against the reference.
// Prints each failure as text that fuzz::read takes back, and a line of counts last. Processes with strides share a
// range: NVRTC serialises threads. A case of which nothing is back in a minute is a failure, and the last.
#include "gpu/device_run.h"

#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace {

// A kernel that waits for ever cannot be called back: what it was is written before, and said by the alarm.
std::string waiting;

void give_up(int) {
  (void)!::write(STDOUT_FILENO, waiting.data(), waiting.size());
  ::_exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace postlude;
  if (const std::string why = gpu_tests::missing(); !why.empty()) {
    std::printf("skipped: %s\n", why.c_str());
    return 0;
  }
  const auto argument = [&](int i, unsigned long long otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const std::uint64_t first = argument(1, 0), count = argument(2, 100), stride = argument(3, 1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(argument(4, 100000));
  std::uint64_t ran = 0, drawn = 0, failed = 0;
  std::signal(SIGALRM, give_up);
  for (std::uint64_t seed = first; seed < first + count && std::chrono::steady_clock::now() < end; seed += stride) {
    const fuzz::Case c = gpu_tests::draw(seed);
    if (!fuzz::divisible(c)) continue;
    ++ran;
    waiting = "seed " + std::to_string(seed) + ": nothing in 60 s\n" + fuzz::write(c) +
              "\nfuzz_gpu: " + std::to_string(ran) + " ran, " + std::to_string(drawn) + " by drawn schedules, " +
              std::to_string(failed + 1) + " failed\n";
    ::alarm(60);
    const gpu_tests::Verdict verdict = gpu_tests::check_on_device(c);
    drawn += verdict.drawn;
    if (verdict.wrong.empty()) continue;
    ++failed;
    std::printf("seed %llu [%s]: %s\n", static_cast<unsigned long long>(seed), verdict.schedule.c_str(),
                verdict.wrong.substr(0, 600).c_str());
    if (failed <= 3) std::printf("%s\n", fuzz::write(c).substr(0, 1500).c_str());
    std::fflush(stdout);
    if (failed > 20 || verdict.wrong.find("CUDA_ERROR") != std::string::npos)
      break;  // after a fault the context is gone
  }
  std::printf("fuzz_gpu: %llu ran, %llu by drawn schedules, %llu failed\n", static_cast<unsigned long long>(ran),
              static_cast<unsigned long long>(drawn), static_cast<unsigned long long>(failed));
  return failed != 0;
}
