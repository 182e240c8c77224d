// What a fork leaves behind: neither a GPU nor OpenMP's threads.
#pragma once

namespace postlude::inline v0::core {

// How many forks lie between the process that loaded this library and this one.
[[nodiscard]] int forks();

}  // namespace postlude::inline v0::core
