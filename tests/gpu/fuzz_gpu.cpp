// fuzz_gpu FIRST COUNT [STRIDE [SECONDS]]: random epilogues on the GPU, by random schedules, against the reference.
// Prints each failure as text that fuzz::read takes back, what a case of more than ten seconds spent them on, and a
// line of counts last. Processes with strides share a range: NVRTC serialises threads. A case of which nothing is back
// in a minute is a failure, and the last; one at which the process is ended from outside is named as well.
#include "gpu/device_run.h"

#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// A kernel that waits for ever cannot be called back: what it was is written before, and said by a signal, with the
// step that it was at.
std::string waiting;
const char* volatile step = "";

void give_up(int) {
  for (const char* text : {"\nended while this was ", const_cast<const char*>(step), "\n", waiting.c_str()})
    (void)!::write(STDOUT_FILENO, text, std::strlen(text));
  ::_exit(1);
}

constexpr double slow = 10;  // seconds of a case

// How long a case was at each of its steps.
class Spent {
 public:
  void begins(const char* what) {
    ends();
    step = what, begin_ = Clock::now();
  }
  void ends() {
    char text[80];
    std::snprintf(text, sizeof text, "%s%.1f s %s", text_.empty() ? "" : ", ", since(begin_), step);
    if (*step) text_ += text;
    step = "";
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  Clock::time_point begin_;
  std::string text_;
};

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
  const Clock::time_point begin = Clock::now();
  const auto seconds = static_cast<double>(argument(4, 100000));
  std::uint64_t ran = 0, drawn = 0, failed = 0;
  for (const int signal : {SIGALRM, SIGTERM}) std::signal(signal, give_up);
  for (std::uint64_t seed = first; seed < first + count && since(begin) < seconds; seed += stride) {
    waiting = "seed " + std::to_string(seed) + "\n";
    Spent spent;
    const Clock::time_point begun = Clock::now();
    ::alarm(60);
    spent.begins("drawn");
    const fuzz::Case c = gpu_tests::draw(seed);
    if (!fuzz::divisible(c)) continue;
    ++ran;
    waiting += fuzz::write(c) + "\nfuzz_gpu: " + std::to_string(ran) + " ran, " + std::to_string(drawn) +
               " by drawn schedules, " + std::to_string(failed + 1) + " failed\n";
    const gpu_tests::Verdict verdict = gpu_tests::check_on_device(c, [&](const char* what) { spent.begins(what); });
    spent.ends();
    drawn += verdict.drawn;
    if (since(begun) > slow) {
      std::printf("seed %llu [%s]: %s\n", static_cast<unsigned long long>(seed), verdict.schedule.c_str(),
                  spent.text().c_str());
      std::fflush(stdout);
    }
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
