// fuzz_gpu FIRST COUNT [STRIDE [SECONDS]]: random epilogues on the GPU, by random schedules, against the reference.
// Prints each failure as text that fuzz::read takes back, and a line of counts last. Processes with strides share a
// range: NVRTC serialises threads.
#include "gpu/device_run.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

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
  for (std::uint64_t seed = first; seed < first + count && std::chrono::steady_clock::now() < end; seed += stride) {
    const fuzz::Case c = gpu_tests::draw(seed);
    if (!fuzz::divisible(c)) continue;
    ++ran;
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
