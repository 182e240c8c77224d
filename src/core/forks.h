// A forked process has neither the parent's GPU nor its OpenMP threads.
#pragma once

namespace postlude::inline v0::core {

// The number of forks between the process that loaded this library and this one.
[[nodiscard]] int forks();

}  // namespace postlude::inline v0::core
