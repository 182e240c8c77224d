// Compiled kernels on disk: one file an entry, written whole or not at all, believed only after it
// has been checked.
//
// File: "postlude" and a format version, 8 + 8 bytes; length of the key, of the cubin, 8 + 8;
// XXH3-128 of what follows, 16; the key; the cubin. Its name is the XXH3-128 of the key. The key is
// everything that decides the machine code: compiler version, architecture, source. Shapes and
// scalars are not in it.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace postlude::inline v0::cuda {

// The entry's cubin, from disk or, where there is none that can be believed, from `make`, whose
// result is kept. If several processes want one key, one compiles and the others wait for it, at
// most 30 s; then they compile for themselves. An unusable cache (core/cache_folder.h) or a full
// disk costs one warning on stderr, never the result.
[[nodiscard]] std::string cached(const std::string& key, const std::function<std::string()>& make);

// The entry alone, where it is on disk and can be believed.
[[nodiscard]] std::optional<std::string> find_cached(const std::string& key);

// The number of times that `cached` had to compile, and that it found an entry, in this process.
struct CacheCounts {
  long compiled = 0;
  long found = 0;
};
[[nodiscard]] CacheCounts cache_counts();

}  // namespace postlude::inline v0::cuda
