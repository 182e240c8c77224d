#include "fuzz/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <utility>

namespace postlude::fuzz {

GuardedMemory::GuardedMemory(std::size_t bytes) : size_(bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t usable = (bytes / page + 1) * page;
  mapped_ = usable + page;
  void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::uint8_t*>(memory);
  data_ = base_ + usable - bytes;
  fill_with_poison();
  if (mprotect(base_ + usable, page, PROT_NONE) != 0) throw std::bad_alloc();
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), data_(other.data_), size_(other.size_), mapped_(other.mapped_) {}

GuardedMemory::~GuardedMemory() {
  if (base_ != nullptr) munmap(base_, mapped_);
}

void GuardedMemory::fill_with_poison() { std::memset(base_, poison, static_cast<std::size_t>(data_ - base_) + size_); }

}  // namespace postlude::fuzz
