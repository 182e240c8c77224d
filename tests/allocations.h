// Counts every allocation of a test program: included by one of its files, it replaces the global
// operators.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

inline std::atomic<std::int64_t> allocations = 0;

// Every form of the operators is replaced, so that no memory is taken by one allocator and given
// back to another.
inline void* counted(std::size_t size, std::size_t alignment = alignof(std::max_align_t)) noexcept {
  ++allocations;
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment + (size == 0 ? alignment : 0));
}
inline void* counted_or_throw(std::size_t size, std::size_t alignment = alignof(std::max_align_t)) {
  if (void* memory = counted(size, alignment)) return memory;
  throw std::bad_alloc();
}

[[gnu::noinline]] void* operator new(std::size_t size) { return counted_or_throw(size); }
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted_or_throw(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return counted(size); }
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
