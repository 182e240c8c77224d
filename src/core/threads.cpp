#include "core/threads.h"

#include "core/forks.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace postlude::inline v0::core {
namespace {

struct Guarded;
thread_local const Guarded* innermost = nullptr;  // whose body runs on this thread

// Holds the first exception that a body throws; an exception must not leave an OpenMP region.
struct Guarded {
  void (*body)(void*, int);
  void* context;
  std::atomic_flag thrown = ATOMIC_FLAG_INIT;
  std::exception_ptr exception = {};

  void operator()(int thread) noexcept {
    const Guarded* const outer = std::exchange(innermost, this);
    try {
      body(context, thread);
      // Stores past the caches are in no order with the other stores, which will say that they are
      // done.
      std::atomic_thread_fence(std::memory_order_seq_cst);
    } catch (...) {
      if (!thrown.test_and_set()) exception = std::current_exception();
    }
    innermost = outer;
  }
};

thread_local bool inside = false;

// Calls f(1) to f(count) on threads of their own, g here, and joins them. Returns how many threads
// the system gave: where it refuses one, f is called no further. Their start allocates nothing: a
// std::thread frees what it was given, and a first free takes 64 MB of addresses, of which OpenMP's
// threads may then lack some.
template <class F, class G>
int with_threads(int count, F f, G g) {
  struct Other {
    F* f;
    int t;
    pthread_t thread;
  };
  std::vector<Other> others;
  try {
    others.reserve(static_cast<std::size_t>(count));
  } catch (const std::exception&) { count = 0; }
  const auto start = [](void* other) -> void* {
    return (*static_cast<Other*>(other)->f)(static_cast<Other*>(other)->t), nullptr;
  };
  for (int t = 1; t <= count; ++t) {
    Other& other = others.emplace_back(Other{&f, t, {}});
    if (pthread_create(&other.thread, nullptr, start, &other) == 0) continue;
    others.pop_back();
    break;
  }
  const auto given = static_cast<int>(others.size());
  g(given);
  for (const Other& other : others) pthread_join(other.thread, nullptr);
  return given;
}

void on_new_threads(int threads, Guarded& guarded) {
  inside = true;
  with_threads(
      threads - 1,
      [&guarded](int t) {
        inside = true;
        guarded(t);
      },
      [&](int given) {
        guarded(0);
        for (int t = given + 1; t < threads; ++t) guarded(t);
      });
  inside = false;
}

#if defined(_OPENMP)
bool is_inside() { return inside || omp_in_parallel(); }

// The team that the system allows this thread, `threads` at most. GCC's OpenMP ends the process
// where it cannot make a thread, so a larger team than the last is made of our own threads first.
// Where the system refuses some, half are taken: other processes may ask before the team is made.
int allowed_team(int threads) {
  thread_local int last = 1;
  if (threads > last) {
    std::atomic<bool> counted = false;
    const int given = 1 + with_threads(
                              threads - 1, [&](int) { counted.wait(false); },
                              [&](int) {
                                counted = true;
                                counted.notify_all();
                              });
    if (given < threads) threads = (given + 1) / 2;
  }
  if (threads > 1) last = threads;
  return threads;
}
#else
bool is_inside() { return inside; }
#endif

}  // namespace

int available_threads() {
#if defined(_OPENMP)
  return omp_get_max_threads();
#else
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#endif
}

void parallel(int threads, void (*body)(void*, int), void* context) {
  Guarded guarded{body, context};
  if (threads <= 1 || is_inside()) {
    for (int t = 0; t < threads; ++t) guarded(t);
#if defined(_OPENMP)
  } else if (forks() == 0) {  // in a child GCC's OpenMP would wait for threads that were the parent's
    const int team = allowed_team(threads);
#pragma omp parallel num_threads(team) if (team > 1)
    for (int t = omp_get_thread_num(); t < threads; t += omp_get_num_threads()) guarded(t);
#endif
  } else {
    on_new_threads(threads, guarded);
  }
  if (guarded.exception) std::rethrow_exception(guarded.exception);
}

bool is_abandoned() { return innermost && innermost->thrown.test(); }

void parallel_for(std::int64_t count, std::int64_t grain, void (*body)(void*, std::int64_t), void* context) {
  const std::int64_t blocks = grain > 0 ? (count + grain - 1) / grain : 0;
  const int threads = static_cast<int>(std::min<std::int64_t>(available_threads(), blocks));
  std::atomic<std::int64_t> next = 0;
  parallel(threads, [&](int) {
    for (std::int64_t block = next++; block < blocks; block = next++)
      for (std::int64_t i = block * grain; i < std::min(count, (block + 1) * grain); ++i) body(context, i);
  });
}

}  // namespace postlude::inline v0::core
