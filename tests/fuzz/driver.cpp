#include "fuzz/driver.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace postlude::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

// A case that takes more processor time hangs, and one that takes none for 20 minutes. Under sanitizers, or of kernels
// whose threads are fibers, a slow case takes a minute; a busy machine makes it wait.
constexpr double longest_case = 120;
constexpr double longest_wait = 1200;

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

constexpr std::uint64_t most_jobs = 256;

// What the watched processes say of themselves. It lies in memory that all share.
struct Progress {
  struct {
    std::atomic<std::uint64_t> done{0};
    std::atomic<bool> wrong{false};
  } of[most_jobs];
  std::atomic<bool> stop{false};  // one has failed: the others end with the case that they are at
};

struct Run {
  std::uint64_t seed = 1, count = ~std::uint64_t{0}, jobs = 1;
  double seconds = 60;
  std::string program, given;  // and the arguments of its own
};

// A job has every jobs-th seed.
std::uint64_t seed_of(const Run& run, std::uint64_t job, std::uint64_t done) {
  return run.seed + job + done * run.jobs;
}

void work(const Run& run, std::uint64_t job, Progress& progress,
          const std::function<std::string(std::uint64_t)>& check) {
  std::uint64_t done = 0;
  while (job + done * run.jobs < run.count && own_time() < run.seconds && !progress.stop) {
    const std::string wrong = check(seed_of(run, job, done));
    if (!wrong.empty()) {
      std::printf("%s\n", wrong.c_str());
      progress.of[job].wrong = true;
      return;
    }
    progress.of[job].done = ++done;
  }
}

// A process that does a job.
struct Watched {
  pid_t process = -1;
  bool ended = false;
  std::string end;  // how; "" if it returned 0
  std::uint64_t done = 0;
  Clock::time_point moved = Clock::now();  // when it was last seen to have worked
  double begun = 0, seen = 0;              // its processor time when the case began, and then

  void ends(std::string how) { ended = true, end = std::move(how); }
  // Sees whether it ended, and kills it where one case does not end.
  void look(std::uint64_t done_now) {
    int status = 0;
    if (waitpid(process, &status, WNOHANG) == process) {
      if (WIFSIGNALED(status)) return ends("ended by signal " + std::to_string(WTERMSIG(status)));
      return ends(WEXITSTATUS(status) == 0 ? "" : "ended with exit code " + std::to_string(WEXITSTATUS(status)));
    }
    const double spent = processor_time(process);
    if (done_now != done) done = done_now, begun = spent;
    if (spent != seen) seen = spent, moved = Clock::now();
    if (spent - begun > longest_case || since(moved) > longest_wait) {
      kill(process, SIGKILL);
      waitpid(process, &status, 0);
      ends("has not ended after " + std::to_string(static_cast<int>(spent - begun)) + " s of processor time");
    }
  }
};

// Forks the jobs, waits for them all and prints which seeds failed. Returns how many jobs did.
std::uint64_t run_jobs(const Run& run, Progress& progress, const std::function<std::string(std::uint64_t)>& check) {
  std::fflush(stdout);
  std::vector<Watched> jobs(run.jobs);
  for (std::uint64_t job = 0; job < run.jobs; ++job) {
    jobs[job].process = fork();
    if (jobs[job].process < 0) jobs[job].ends("could not begin");
    if (jobs[job].process != 0) continue;
    work(run, job, progress, check);
    std::exit(0);  // runs what looks for leaks
  }
  std::uint64_t failures = 0;
  for (std::uint64_t left = run.jobs; left > 0; usleep(20000)) {
    for (std::uint64_t job = 0; job < run.jobs; ++job) {
      Watched& now = jobs[job];
      if (now.process == 0) continue;  // told
      if (!now.ended) now.look(progress.of[job].done);
      if (!now.ended) continue;
      now.process = 0, --left;
      if (now.end.empty() && !progress.of[job].wrong) continue;
      progress.stop = true, ++failures;
      const std::string seed = std::to_string(seed_of(run, job, progress.of[job].done));
      std::printf("%s: seed %s %s\nrepeat: %s --seed %s --count 1%s\n", run.program.c_str(), seed.c_str(),
                  now.end.empty() ? "fails" : now.end.c_str(), run.program.c_str(), seed.c_str(), run.given.c_str());
    }
  }
  return failures;
}

}  // namespace

int drive(int argc, char** argv, std::span<Argument> more, const std::function<std::string(std::uint64_t)>& check) {
  Run run;
  run.program = argv[0];
  try {
    for (int i = 1; i < argc; i += 2) {
      const std::string key = argv[i];
      if (i + 1 == argc) throw std::invalid_argument(key);
      const std::string value = argv[i + 1];
      bool taken = true;
      if (key == "--seed") run.seed = std::stoull(value);
      else if (key == "--count") run.count = std::stoull(value);
      else if (key == "--seconds") run.seconds = std::stod(value);
      else if (key == "--jobs") run.jobs = std::clamp<std::uint64_t>(std::stoull(value), 1, most_jobs);
      else taken = false;
      for (Argument& argument : more) {
        if (argument.name != key) continue;
        argument.value = value;
        run.given += ' ' + key + ' ' + value;
        taken = true;
      }
      if (!taken) throw std::invalid_argument(key);
    }
  } catch (const std::logic_error&) {
    std::fprintf(stderr, "usage: %s [--seed S] [--count N] [--seconds T] [--jobs J]", argv[0]);
    for (const Argument& argument : more) std::fprintf(stderr, " [%s ...]", argument.name.c_str());
    std::fputc('\n', stderr);
    return 2;
  }
  void* const shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc();
  auto& progress = *new (shared) Progress;
  const auto begin = Clock::now();
  const std::uint64_t failures = run_jobs(run, progress, check);
  std::uint64_t done = 0;
  for (const auto& job : progress.of) done += job.done;
  std::printf(
      "%s: %llu cases from seed %llu in %.1f s, %s\n", argv[0], static_cast<unsigned long long>(done),
      static_cast<unsigned long long>(run.seed), since(begin),
      failures == 0 ? "no failures" : (std::to_string(failures) + (failures > 1 ? " failures" : " failure")).c_str());
  return failures ? 1 : 0;
}

}  // namespace postlude::fuzz
