// Plans that run on the fake driver: their kernels are gathered, compiled for the host (shim.h stands in for PTX) and
// run there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace postlude::host {

inline constexpr int multiprocessors = 5;

class Harness {
 public:
  // From now on the process has one GPU of so many multiprocessors.
  explicit Harness(const std::string& folder, int of = multiprocessors);
  ~Harness();  // keeps the folder after a failure
  Harness(const Harness&) = delete;
  Harness& operator=(const Harness&) = delete;

  // All that was launched until now, when nothing ran; false after a failure. What is launched now, runs. Where sources
  // have the text `from`, they are compiled with `to`.
  struct Change {
    std::string from, to;
  };
  [[nodiscard]] bool compile(const char* optimize = "-Og", const Change& change = {});
  // Warps take turns in the order of their numbers (0), or in one drawn from this.
  void order(std::uint64_t seed) const;
  [[nodiscard]] static std::size_t sources();
  static void forget(std::size_t from);  // sources from this one on
  // What was launched since this was asked before, as a name in the folder of POSTLUDE_EMISSION_KEPT: tests/mutation
  // does not run again what ran right. Empty without such a folder.
  [[nodiscard]] static std::filesystem::path launched();

 private:
  std::filesystem::path folder_;
  void (*order_)(unsigned long long seed) = nullptr;
};

// The library that `text` becomes, compiled for the host; nullptr after a failure.
[[nodiscard]] void* compiled(const std::filesystem::path& folder, const std::string& text,
                             const char* optimize = "-O1");
// In the build folder, or in POSTLUDE_EMISSION_FOLDER.
[[nodiscard]] std::filesystem::path empty_folder(const std::string& name);
[[nodiscard]] std::uint64_t from_environment(const char* name, std::uint64_t otherwise);

// Each Nth of a test's cases alone, with POSTLUDE_EMISSION_EVERY=N, which tests/mutation asks for.
[[nodiscard]] inline std::uint64_t every() { return from_environment("POSTLUDE_EMISSION_EVERY", 1); }
template <class T>
void thin_out(std::vector<T>& cases) {
  std::erase_if(cases, [i = std::uint64_t{0}](const T&) mutable { return i++ % every() != 0; });
}

}  // namespace postlude::host
