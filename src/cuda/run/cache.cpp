#include "cuda/run/cache.h"

#include "core/cache_folder.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace postlude::inline v0::cuda {
namespace {

namespace fs = std::filesystem;

constexpr char magic[9] = "postlude";
constexpr std::uint64_t version = 1;
constexpr const char* temporary_name = ".writing-";
constexpr std::size_t largest_entry = 64u << 20;
constexpr auto wait_limit = std::chrono::seconds(30);

struct Header {
  char magic[8];
  std::uint64_t version, key_bytes, cubin_bytes, digest_low, digest_high;
};

std::atomic<long> compiled_count, found_count;

// While it lives, what this thread writes beyond the limit of file sizes (ulimit -f) is an error; it would be a signal,
// which ends the process.
class SizeLimitIsAnError {
 public:
  SizeLimitIsAnError() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~SizeLimitIsAnError() {
    if (sigismember(&before_, SIGXFSZ) == 1) return;
    constexpr timespec at_once{};
    sigtimedwait(&signal_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SizeLimitIsAnError(const SizeLimitIsAnError&) = delete;
  SizeLimitIsAnError& operator=(const SizeLimitIsAnError&) = delete;

 private:
  sigset_t signal_, before_;
};

void warn_once(const std::string& what) {
  static std::once_flag once;
  const SizeLimitIsAnError limit;  // stderr may be a file too
  std::call_once(once, [&] { std::fprintf(stderr, "postlude: kernels are not kept on disk: %s\n", what.c_str()); });
}

XXH128_hash_t digest(const std::string& data) { return XXH3_128bits(data.data(), data.size()); }

// A descriptor that closes itself.
struct File {
  int fd = -1;
  explicit File(int opened) : fd(opened) {}
  ~File() {
    if (fd >= 0) ::close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
};

bool ours(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 022) == 0;
}

std::optional<std::string> read_entry(const std::string& path, const std::string& key) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));  // a fifo would wait
  if (file.fd < 0 || !ours(file.fd)) return {};
  struct stat info {};
  if (fstat(file.fd, &info) != 0 || info.st_size < static_cast<off_t>(sizeof(Header)) ||
      info.st_size > static_cast<off_t>(largest_entry))
    return {};
  std::string data(static_cast<std::size_t>(info.st_size), '\0');
  for (std::size_t at = 0; at < data.size();) {
    const ssize_t got = ::read(file.fd, data.data() + at, data.size() - at);
    if (got <= 0) return {};
    at += static_cast<std::size_t>(got);
  }
  Header header;
  std::memcpy(&header, data.data(), sizeof header);
  const std::string body = data.substr(sizeof header);
  if (std::memcmp(header.magic, magic, 8) != 0 || header.version != version || header.key_bytes != key.size() ||
      header.key_bytes > body.size() || header.cubin_bytes != body.size() - header.key_bytes) {
    return {};
  }
  const XXH128_hash_t hash = digest(body);
  if (hash.low64 != header.digest_low || hash.high64 != header.digest_high || body.compare(0, key.size(), key) != 0)
    return {};
  return body.substr(key.size());
}

// Removes what writers that were killed have left. Nobody writes an entry for an hour.
void remove_abandoned(const std::string& folder) {
  std::error_code error;
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    if (at->path().filename().string().starts_with(temporary_name) && at->is_regular_file(gone) &&
        at->last_write_time(gone) < old && !gone)
      fs::remove(at->path(), gone);
  }
}

// Writes an entry. Where that fails it returns false and the reason, and leaves nothing behind.
bool write_entry(const std::string& folder, const std::string& path, const std::string& key, const std::string& cubin,
                 std::string& reason) {
  remove_abandoned(folder);
  const std::string body = key + cubin;
  const SizeLimitIsAnError limit;
  std::string temporary = folder + "/" + temporary_name + "XXXXXX";
  const File file(::mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
  if (file.fd < 0) {
    reason = folder + ": " + std::strerror(errno);
    return false;
  }
  const XXH128_hash_t hash = digest(body);
  Header header{{}, version, key.size(), cubin.size(), hash.low64, hash.high64};
  std::memcpy(header.magic, magic, 8);
  std::string data(reinterpret_cast<const char*>(&header), sizeof header);
  data += body;
  bool good = true;
  for (std::size_t at = 0; good && at < data.size();) {
    const ssize_t put = ::write(file.fd, data.data() + at, data.size() - at);
    good = put > 0;
    if (good) at += static_cast<std::size_t>(put);
  }
  good = good && ::fsync(file.fd) == 0 && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (!good) {
    reason = path + ": " + std::strerror(errno);
    ::unlink(temporary.c_str());
  }
  return good;
}

std::string path_of(const core::CacheFolder& folder, const std::string& key) {
  const XXH128_hash_t hash = digest(key);
  char name[40];
  std::snprintf(name, sizeof name, "/%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return folder.path + name;
}

}  // namespace

std::optional<std::string> find_cached(const std::string& key) {
  const core::CacheFolder folder = core::cache_folder(true);
  if (folder.path.empty() || !folder.unusable.empty()) return {};
  auto entry = read_entry(path_of(folder, key) + ".cubin", key);
  if (entry) ++found_count;
  return entry;
}

std::string cached(const std::string& key, const std::function<std::string()>& make) {
  const auto fresh = [&] {
    ++compiled_count;
    return make();
  };
  const core::CacheFolder folder = core::cache_folder(true);
  if (folder.path.empty() || !folder.unusable.empty()) {
    warn_once(folder.path.empty() ? "no folder is named by POSTLUDE_CACHE_DIR, XDG_CACHE_HOME or HOME"
                                  : folder.unusable);
    return fresh();
  }
  const std::string name = path_of(folder, key), path = name + ".cubin";
  if (auto entry = read_entry(path, key)) {
    ++found_count;
    return *entry;
  }
  // The holder of the lock compiles. The lock file is left behind, so that nobody locks a file that
  // is gone.
  const File lock(::open((name + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  bool locked = false;
  if (lock.fd >= 0) {
    const auto deadline = std::chrono::steady_clock::now() + wait_limit;
    while (!(locked = ::flock(lock.fd, LOCK_EX | LOCK_NB) == 0) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (locked) {
      if (auto entry = read_entry(path, key)) {
        ++found_count;
        return *entry;
      }
    }
  }
  std::string cubin = fresh();
  std::string reason;
  if (!write_entry(folder.path, path, key, cubin, reason)) warn_once(reason);
  return cubin;
}

CacheCounts cache_counts() { return {compiled_count, found_count}; }

}  // namespace postlude::inline v0::cuda
