// Fork and join.
#pragma once

#include <cstdint>
#include <type_traits>

namespace postlude::inline v0::core {

// As many as the machine offers this process (OMP_NUM_THREADS and the affinity mask count).
[[nodiscard]] int available_threads();

// Calls body(context, t) for every t in [0, threads), each t exactly once, and returns when all
// have returned. t's may share one thread (inside another parallel region, or where the system
// gives fewer threads), so bodies must not wait for one another. When bodies throw, the exception
// of one of them is rethrown here, after all have ended.
void parallel(int threads, void (*body)(void* context, int thread), void* context);

template <class Body>
void parallel(int threads, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  parallel(
      threads, [](void* context, int thread) { (*static_cast<Plain*>(context))(thread); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

// Whether a body has thrown beside the one that asks: what this one computes is not wanted, and it may throw anything.
[[nodiscard]] bool is_abandoned();

// Calls body(i) for every i in [0, count), `grain` in a row by one thread; whichever thread is free
// takes the next.
void parallel_for(std::int64_t count, std::int64_t grain, void (*body)(void* context, std::int64_t i), void* context);

template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  parallel_for(
      count, grain, [](void* context, std::int64_t i) { (*static_cast<Plain*>(context))(i); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace postlude::inline v0::core
