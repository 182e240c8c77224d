// The folder that keeps compiled kernels between runs. They are code, so the folder must be
// nobody's but ours.
#pragma once

#include <string>

namespace postlude::inline v0::core {

struct CacheFolder {
  std::string path;  // "" where the environment names none
  bool exists = false;
  std::string unusable;  // why it is not used, as a sentence without a full stop; "" if it can be
};

// POSTLUDE_CACHE_DIR, else XDG_CACHE_HOME/postlude, else HOME/.cache/postlude: never under a shared
// temporary folder unless the user says so. It is usable if it is a folder and no symbolic link,
// belongs to this user, and nobody else may write to it. `create` makes it (mode 0700) where it is
// missing.
[[nodiscard]] CacheFolder cache_folder(bool create);

}  // namespace postlude::inline v0::core
