#include "core/cache_folder.h"

#include <postlude/error.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

namespace postlude::inline v0::core {
namespace {

// An environment variable that holds an absolute path, or "".
std::string absolute(const char* variable) {
  const char* value = std::getenv(variable);
  std::string path = value != nullptr && value[0] == '/' ? value : "";
  // With "/" or "/." at its end a symbolic link would be followed.
  while (path.size() > 1 && (path.ends_with('/') || path.ends_with("/."))) path.pop_back();
  return path;
}

std::string find_path() {
  if (std::string path = absolute("POSTLUDE_CACHE_DIR"); !path.empty()) return path;
  if (const std::string path = absolute("XDG_CACHE_HOME"); !path.empty()) return path + "/postlude";
  if (const std::string path = absolute("HOME"); !path.empty()) return path + "/.cache/postlude";
  return "";
}

std::string why_unusable(const std::string& path, const struct stat& status) {
  if (S_ISLNK(status.st_mode)) return postlude::quoted(path) + " is a symbolic link";
  if (!S_ISDIR(status.st_mode)) return postlude::quoted(path) + " is not a folder";
  if (status.st_uid != ::geteuid()) return postlude::quoted(path) + " belongs to another user";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return postlude::quoted(path) + " can be written by others: chmod 700 makes it yours";
  if (::access(path.c_str(), W_OK | X_OK) != 0) return postlude::quoted(path) + " cannot be written";
  return "";
}

}  // namespace

CacheFolder cache_folder(bool create) {
  CacheFolder folder{.path = find_path(), .exists = false, .unusable = {}};
  if (folder.path.empty()) {
    folder.unusable = "none of POSTLUDE_CACHE_DIR, XDG_CACHE_HOME and HOME is an absolute path";
    return folder;
  }
  if (create) {
    std::error_code ignored;  // lstat says what came of it
    std::filesystem::create_directories(std::filesystem::path(folder.path).parent_path(), ignored);
    ::mkdir(folder.path.c_str(), 0700);
  }
  struct stat status {};
  if (::lstat(folder.path.c_str(), &status) != 0) {
    const int error = errno;
    if (create || error != ENOENT) {
      folder.unusable = postlude::quoted(folder.path) + " cannot be used: " + std::generic_category().message(error);
    }
    return folder;
  }
  folder.exists = true;
  folder.unusable = why_unusable(folder.path, status);
  return folder;
}

}  // namespace postlude::inline v0::core
