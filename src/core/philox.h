// Random numbers that belong to an element and to no schedule: Philox4x32-10 (Salmon, Moraes, Dror
// and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), a counter enciphered with a
// key.
//
// random(seed, stream) at element (b, m, n): the key is the seed, the counter (n // 2, m with bit 3
// dropped, b, stream), the word 2 * (m // 8 % 2) + n % 2, and its upper 24 bits make a number in
// [0, 1). So one block serves the two rows m and m + 8 and the two columns n and n + 1 that a
// thread holds side by side in the fragment of a tensor core, and the number at an element is the
// same under every schedule.
#pragma once

#include <array>
#include <cstdint>

namespace postlude::inline v0::core {

using PhiloxBlock = std::array<std::uint32_t, 4>;

[[nodiscard]] constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The four numbers' words for rows m and m + 8 (bit 3 of m is ignored) and columns n and n + 1 (n
// even): [2 * row + column].
[[nodiscard]] constexpr PhiloxBlock random_block(std::uint64_t seed, std::uint32_t stream, std::int64_t b,
                                                 std::int64_t m, std::int64_t n) {
  const std::int64_t row = (m >> 4 << 3) | (m & 7);
  return philox4x32(
      {static_cast<std::uint32_t>(n >> 1), static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(b), stream},
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

[[nodiscard]] constexpr float to_uniform(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

[[nodiscard]] constexpr float random_uniform(std::uint64_t seed, std::uint32_t stream, std::int64_t b, std::int64_t m,
                                             std::int64_t n) {
  const auto word = static_cast<std::size_t>(2 * ((m >> 3) & 1) + (n & 1));
  return to_uniform(random_block(seed, stream, b, m, n)[word]);
}

}  // namespace postlude::inline v0::core
