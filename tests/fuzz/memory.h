// Memory that ends at a page which nobody may touch, so that reading or writing behind a tensor
// stops the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace postlude::fuzz {

inline constexpr std::uint8_t poison = 0xA5;

class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t bytes);  // filled with poison, and so is what lies before it in its first page
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept;
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  GuardedMemory& operator=(GuardedMemory&&) = delete;

  [[nodiscard]] std::uint8_t* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<const std::uint8_t> before() const {
    return {base_, static_cast<std::size_t>(data_ - base_)};
  }
  void fill_with_poison();

 private:
  std::uint8_t* base_ = nullptr;
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0, mapped_ = 0;
};

}  // namespace postlude::fuzz
