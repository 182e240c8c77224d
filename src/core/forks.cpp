#include "core/forks.h"

#include <pthread.h>

#include <atomic>

namespace postlude::inline v0::core {
namespace {

std::atomic<int> count = 0;
[[maybe_unused]] const int counted = pthread_atfork(nullptr, nullptr, [] { ++count; });

}  // namespace

int forks() { return count; }

}  // namespace postlude::inline v0::core
