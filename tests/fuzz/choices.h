// The source of the generator's decisions: a 64-bit seed, or bytes that a coverage-guided fuzzer
// supplies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace postlude::fuzz {

// SplitMix64's finaliser: a good hash of 64 bits.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

class Choices {
 public:
  explicit Choices(std::uint64_t seed) : state_(seed) {}
  // When the bytes have run out every choice is 0, the simplest.
  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes), from_bytes_(true) {}

  std::uint64_t next() {
    if (!from_bytes_) return mix(state_++);
    std::uint64_t value = 0;
    for (int i = 0; i < 2 && !bytes_.empty(); ++i) {
      value = value << 8 | bytes_.front();
      bytes_ = bytes_.subspan(1);
    }
    return value;
  }
  // In [0, count).
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(count));
  }
  bool chance(int percent) { return below(100) < percent; }
  template <class T, std::size_t n>
  const T& pick(const T (&values)[n]) {
    return values[below(static_cast<std::int64_t>(n))];
  }
  template <class Container>
  auto& pick(Container& values) {
    return values[static_cast<std::size_t>(below(static_cast<std::int64_t>(values.size())))];
  }
  [[nodiscard]] bool exhausted() const { return from_bytes_ && bytes_.empty(); }

 private:
  std::uint64_t state_ = 0;
  std::span<const std::uint8_t> bytes_;
  bool from_bytes_ = false;
};

}  // namespace postlude::fuzz
