// What is opened when it is first asked for, and stays.
#pragma once

#include <atomic>
#include <mutex>

namespace postlude::inline v0::cuda {

// The one that `open` gives. A throw leaves it unset, so a later call tries again. Not a static that throws: under
// GCC's TSan its waiters wait for ever.
template <auto open>
const auto& opened() {
  using T = decltype(open());
  static std::atomic<const T*> made = nullptr;
  static std::mutex mutex;
  if (const T* const already = made) return *already;
  const std::scoped_lock lock(mutex);
  if (made == nullptr) made = new T(open());
  return *made;
}

}  // namespace postlude::inline v0::cuda
