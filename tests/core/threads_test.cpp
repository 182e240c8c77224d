// Threads that the system refuses, and processes that were forked: the work is done all the same.
#include "core/threads.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;  // their shadow is larger than any limit
#else
constexpr bool sanitized = false;
#endif

namespace postlude {
namespace {

// The exit status of a forked process that runs `body`; -1 where a signal ended it.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // for what waits for ever
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Whether each of `threads` bodies was called once.
bool each_once(int threads) {
  std::vector<std::atomic<int>> calls(static_cast<std::size_t>(threads));
  core::parallel(threads, [&](int t) { ++calls[static_cast<std::size_t>(t)]; });
  for (const auto& count : calls)
    if (count != 1) return false;
  return true;
}

void allow_more_memory(std::size_t bytes) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
}

TEST(Threads, EachBodyRunsOnce) {
  for (const int threads : {0, 1, 2, 3, 17, 2, 64, 1, 5}) EXPECT_TRUE(each_once(threads)) << threads;
}

TEST(Threads, RefusedOnesLeaveTheirWorkToOthers) {
  if (sanitized) GTEST_SKIP() << "a sanitizer's memory has no limit";
  const auto with_a_limit = [] {
    allow_more_memory(20 << 20);  // two stacks of 8 MB
    return each_once(32) && each_once(64) ? 0 : 1;
  };
  EXPECT_TRUE(each_once(2));  // so that a child has threads of its own: OpenMP's were its parent's
  EXPECT_EQ(in_child(with_a_limit), 0);
}

// The first of so many sleeps long before the last is made and they are counted.
TEST(Threads, ThatSleepBeforeAllAreCountedAreWoken) { EXPECT_TRUE(each_once(500)); }

TEST(Threads, AnExceptionOfAnyBodyArrives) {
  const auto third = [](int t) {
    if (t == 3) throw std::runtime_error("third");
  };
  EXPECT_THROW(core::parallel(8, third), std::runtime_error);
  EXPECT_THROW(core::parallel_for(100, 1, [&](std::int64_t i) { third(static_cast<int>(i)); }), std::runtime_error);
  EXPECT_TRUE(each_once(8));
}

TEST(Threads, OthersAreToldOfAnException) {
  for (const int threads : {2, 5}) {
    std::atomic<int> told = 0;
    const auto body = [&](int thread) {
      EXPECT_FALSE(thread == 0 && core::is_abandoned());
      if (thread == 0) throw std::runtime_error("the first");
      for (int tries = 0; tries < 20'000 && !core::is_abandoned(); ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      told += core::is_abandoned();
    };
    EXPECT_THROW(core::parallel(threads, body), std::runtime_error);
    EXPECT_EQ(told, threads - 1);
  }
  EXPECT_FALSE(core::is_abandoned());
}

TEST(Threads, AForGoesThroughAllOnce) {
  for (const std::int64_t count : {0, 1, 7, 1000}) {
    for (const std::int64_t grain : {1, 3, 1000, 5000}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
      core::parallel_for(count, grain, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
      for (const auto& each : calls) EXPECT_EQ(each, 1) << count << " by " << grain;
    }
  }
}

// The reference's product and elements are worth threads at this size, and the parent has run it
// before.
TEST(Threads, AForkedProcessRunsAndVerifies) {
  const Plan plan = compile(Gemm{}, parse("def f(acc): D = acc + 1; return D"), Target::cpu(4));
  constexpr std::int64_t n = 192;
  std::vector<float> a(n * n, 1), b(n * n, 1), d(n * n);
  const std::vector<Binding> bindings{
      {"A", {a.data(), f32, {n, n}}}, {"B", {b.data(), f32, {n, n}}}, {"D", {d.data(), f32, {n, n}}}};
  const auto run_and_verify = [&] {
    plan.bind(bindings).run();
    return verify(plan, bindings)[0].error_over_bound <= 1 ? 0 : 1;
  };
  EXPECT_EQ(run_and_verify(), 0);
  EXPECT_EQ(in_child(run_and_verify), 0);
}

}  // namespace
}  // namespace postlude
