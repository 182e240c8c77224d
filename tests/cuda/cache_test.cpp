// The cache of compiled kernels believes nothing that it has not checked.
#include "cuda/run/cache.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace postlude::inline v0::cuda {
namespace {

namespace fs = std::filesystem;

class Cache : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "postlude-cache-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    ::setenv("POSTLUDE_CACHE_DIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("POSTLUDE_CACHE_DIR");
    fs::remove_all(folder_);
  }
  std::string get(const std::string& key, const std::string& made) {
    return cached(key, [&] {
      ++compiled_;
      return made;
    });
  }
  fs::path entry() const {
    for (const auto& file : fs::directory_iterator(folder_)) {
      if (file.path().extension() == ".cubin") return file.path();
    }
    return {};
  }
  fs::path folder_;
  int compiled_ = 0;
};

TEST_F(Cache, CompilesOnce) {
  EXPECT_EQ(get("key", "cubin"), "cubin");
  EXPECT_EQ(get("key", "other"), "cubin");
  EXPECT_EQ(compiled_, 1);
  EXPECT_EQ(get("another", "third"), "third");
  struct stat info {};
  ASSERT_EQ(::stat(entry().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(Cache, DamagedEntriesAreMisses) {
  get("key", "a cubin of some length");
  const fs::path path = entry();
  std::ifstream in(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  const auto write = [&](const std::string& data) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(data.data(), static_cast<std::streamsize>(data.size()));
  };
  for (std::size_t length = 0; length < good.size(); ++length) {
    write(good.substr(0, length));
    const int before = compiled_;
    EXPECT_EQ(get("key", "fresh"), "fresh");
    EXPECT_EQ(compiled_, before + 1) << "truncated to " << length;
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    write(bad);
    EXPECT_EQ(get("key", "fresh"), "fresh") << "byte " << at << " changed";
  }
}

TEST_F(Cache, AnEntryOfAnotherKeyIsAMiss) {
  get("one", "first");
  const fs::path path = entry();
  std::ifstream in(path, std::ios::binary);
  const std::string data((std::istreambuf_iterator<char>(in)), {});
  fs::remove(path);
  get("two", "second");
  std::ofstream(entry(), std::ios::binary | std::ios::trunc)
      .write(data.data(), static_cast<std::streamsize>(data.size()));
  EXPECT_EQ(get("two", "fresh"), "fresh");
}

TEST_F(Cache, OneOfManyProcessesCompiles) {
  for (int i = 0; i < 8; ++i) {
    if (::fork() != 0) continue;
    const std::string got = cached("shared", [&] {
      std::ofstream made(folder_ / ("compiled." + std::to_string(::getpid())));
      ::usleep(100000);
      return std::string("cubin");
    });
    ::_exit(got == "cubin" ? 0 : 1);
  }
  for (int i = 0; i < 8; ++i) {
    int status = 1;
    ::wait(&status);
    EXPECT_EQ(status, 0);
  }
  int compiled = 0;
  for (const auto& file : fs::directory_iterator(folder_))
    compiled += file.path().filename().string().starts_with("compiled.");
  EXPECT_EQ(compiled, 1);
}

TEST_F(Cache, AFolderNamedWithASlashIsMadeForItsOwner) {
  for (const char* end : {"/", "/.", "//"}) {
    ::setenv("POSTLUDE_CACHE_DIR", (folder_.string() + "/new" + end).c_str(), 1);
    EXPECT_EQ(get(end, "cubin"), "cubin");
    struct stat info {};
    ASSERT_EQ(::stat((folder_ / "new").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    EXPECT_EQ(get(end, "again"), "cubin");
    fs::remove_all(folder_ / "new");
  }
}

TEST_F(Cache, APipeIsAMissAndIsReplaced) {
  get("key", "cubin");
  const fs::path path = entry();
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(get("key", "fresh"), "fresh");
  EXPECT_EQ(get("key", "again"), "fresh");
}

TEST_F(Cache, WhatKilledWritersLeftIsRemoved) {
  const fs::path old = folder_ / ".writing-abcdef", fresh = folder_ / ".writing-ghijkl";
  std::ofstream made_old(old), made_fresh(fresh);
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  get("key", "cubin");
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));  // it may still be written
}

TEST_F(Cache, ALimitOfFileSizesEndsNothing) {
  const fs::path log = folder_ / "log";
  std::ofstream(log) << std::string(100, '.');
  if (::fork() == 0) {
    ::dup2(::open(log.c_str(), O_WRONLY | O_APPEND), STDERR_FILENO);  // the warning is beyond the limit as well
    const struct rlimit limit { 100, 100 };
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(cached("key", [] { return std::string(200, 'c'); }) == std::string(200, 'c') ? 0 : 1);
  }
  int status = 1;
  ::wait(&status);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(entry().empty());
  for (const auto& file : fs::directory_iterator(folder_))
    EXPECT_TRUE(file.path() == log || file.path().extension() == ".lock") << file.path();
}

TEST_F(Cache, AFolderThatOthersMayWriteIsNotUsed) {
  fs::permissions(folder_, fs::perms::all);
  EXPECT_EQ(get("key", "cubin"), "cubin");
  EXPECT_EQ(get("key", "again"), "again");
  EXPECT_TRUE(entry().empty());
}

}  // namespace
}  // namespace postlude::inline v0::cuda
