#include "cpu/threads.h"

#include "core/forks.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace postlude::inline v0::cpu {
namespace {

// Holds the first exception that a body throws; an exception must not leave an OpenMP region.
struct Guarded {
  void (*body)(void*, int);
  void* context;
  std::atomic_flag thrown = ATOMIC_FLAG_INIT;
  std::exception_ptr exception = {};

  void operator()(int thread) noexcept {
    try {
      body(context, thread);
      // What it stored past the caches is in no order with other stores, which will say that it is done.
      std::atomic_thread_fence(std::memory_order_seq_cst);
    } catch (...) {
      if (!thrown.test_and_set()) exception = std::current_exception();
    }
  }
};

thread_local bool inside = false;

void on_new_threads(int threads, Guarded& guarded) {
  inside = true;
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) {
    others.emplace_back([&guarded, t] {
      inside = true;
      guarded(t);
    });
  }
  guarded(0);
  for (std::thread& other : others) other.join();
  inside = false;
}

#if defined(_OPENMP)
bool is_inside() { return inside || omp_in_parallel(); }
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
  } else if (core::forks() == 0) {  // in a child GCC's OpenMP would wait for threads that were the parent's
#pragma omp parallel num_threads(threads)
    for (int t = omp_get_thread_num(); t < threads; t += omp_get_num_threads()) guarded(t);
#endif
  } else {
    on_new_threads(threads, guarded);
  }
  if (guarded.exception) std::rethrow_exception(guarded.exception);
}

}  // namespace postlude::inline v0::cpu
