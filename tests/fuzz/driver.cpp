#include "fuzz/driver.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>
#include <stdexcept>

namespace postlude::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

// A case that takes more processor time hangs, and one that takes none for ten times as long. Sanitizers make a slow
// case ten times as slow; a busy machine makes it wait.
constexpr double longest_case = 120;

double processor_time(pid_t process) {
  clockid_t clock = {};
  timespec spent{};
  if (clock_getcpuclockid(process, &clock) == 0) clock_gettime(clock, &spent);
  return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
}

// Of this process and of the compilers that it has waited for.
double own_time() {
  rusage children{};
  getrusage(RUSAGE_CHILDREN, &children);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return processor_time(getpid()) + seconds(children.ru_utime) + seconds(children.ru_stime);
}

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// What the watched process says of itself. It lies in memory that both share.
struct Progress {
  std::atomic<std::uint64_t> done{0};
  std::atomic<bool> wrong{false};
};

struct Run {
  std::uint64_t seed = 1, count = ~std::uint64_t{0};
  double seconds = 60;
};

void work(const Run& run, Progress& progress, const std::function<std::string(std::uint64_t)>& check) {
  for (std::uint64_t i = 0; i < run.count && own_time() < run.seconds; progress.done = ++i) {
    const std::string wrong = check(run.seed + i);
    if (wrong.empty()) continue;
    std::printf("%s\n", wrong.c_str());
    progress.wrong = true;
    return;
  }
}

// Waits for the process's end, and kills it where one case does not end. Returns how it ended; "" if
// it returned 0.
std::string watch(pid_t process, const Progress& progress) {
  std::uint64_t done = 0;
  auto moved = Clock::now();   // when it was last seen to have worked
  double begun = 0, seen = 0;  // its processor time when the case began, and then
  for (;;) {
    int status = 0;
    if (waitpid(process, &status, WNOHANG) == process) {
      if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
      return WEXITSTATUS(status) == 0 ? "" : "ended with exit code " + std::to_string(WEXITSTATUS(status));
    }
    const double spent = processor_time(process);
    if (progress.done != done) {
      done = progress.done;
      begun = spent;
    }
    if (spent != seen) {
      seen = spent;
      moved = Clock::now();
    }
    if (spent - begun > longest_case || since(moved) > 10 * longest_case) {
      kill(process, SIGKILL);
      waitpid(process, &status, 0);
      return "has not ended after " + std::to_string(static_cast<int>(spent - begun)) + " s of processor time";
    }
    usleep(20000);
  }
}

}  // namespace

int drive(int argc, char** argv, std::span<Argument> more, const std::function<std::string(std::uint64_t)>& check) {
  Run run;
  std::string given;
  try {
    for (int i = 1; i < argc; i += 2) {
      const std::string key = argv[i];
      if (i + 1 == argc) throw std::invalid_argument(key);
      const std::string value = argv[i + 1];
      bool taken = true;
      if (key == "--seed") run.seed = std::stoull(value);
      else if (key == "--count") run.count = std::stoull(value);
      else if (key == "--seconds") run.seconds = std::stod(value);
      else taken = false;
      for (Argument& argument : more) {
        if (argument.name != key) continue;
        argument.value = value;
        given += ' ' + key + ' ' + value;
        taken = true;
      }
      if (!taken) throw std::invalid_argument(key);
    }
  } catch (const std::logic_error&) {
    std::fprintf(stderr, "usage: %s [--seed S] [--count N] [--seconds T]", argv[0]);
    for (const Argument& argument : more) std::fprintf(stderr, " [%s ...]", argument.name.c_str());
    std::fputc('\n', stderr);
    return 2;
  }
  void* const shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc();
  auto& progress = *new (shared) Progress;
  const auto begin = Clock::now();
  std::fflush(stdout);
  const pid_t process = fork();
  if (process == 0) {
    work(run, progress, check);
    std::exit(0);  // runs what looks for leaks
  }
  const std::string end = process < 0 ? "could not begin" : watch(process, progress);
  const std::uint64_t done = progress.done;
  const bool failed = progress.wrong || !end.empty();
  if (failed) {
    std::printf("%s: seed %llu %s\nrepeat: %s --seed %llu --count 1%s\n", argv[0],
                static_cast<unsigned long long>(run.seed + done), end.empty() ? "fails" : end.c_str(), argv[0],
                static_cast<unsigned long long>(run.seed + done), given.c_str());
  }
  std::printf("%s: %llu cases from seed %llu in %.1f s, %s\n", argv[0], static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(run.seed), since(begin), failed ? "1 failure" : "no failures");
  return failed ? 1 : 0;
}

}  // namespace postlude::fuzz
