// Fork and join.
#pragma once

#include <type_traits>

namespace postlude::inline v0::cpu {

// As many as the machine offers this process (OMP_NUM_THREADS and the affinity mask count).
[[nodiscard]] int available_threads();

// Calls body(context, t) for every t in [0, threads), each t exactly once, and returns when all have returned. t's may
// share one thread (inside another parallel region, or where the system gives fewer threads), so bodies must not wait
// for one another. When bodies throw, the exception of one of them is rethrown here, after all have ended.
void parallel(int threads, void (*body)(void* context, int thread), void* context);

template <class Body>
void parallel(int threads, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  parallel(
      threads, [](void* context, int thread) { (*static_cast<Plain*>(context))(thread); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace postlude::inline v0::cpu
