#include "cuda/workspace.h"

#include <postlude/error.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace postlude::inline v0::cuda {
namespace {

constexpr std::size_t most_kept = 64 << 20;  // bytes on one device
constexpr std::size_t most_left = 32;        // buffers that may be in use, until one wait settles them

struct Kept {
  std::vector<Buffer> left;  // last given back last; may be in use
  std::vector<Buffer> settled;
};

struct AllKept {
  std::mutex mutex;
  std::map<int, Kept> of;  // by device
};

AllKept& all_kept() {
  static AllKept& all = *new AllKept;  // outlives what is destroyed at exit
  return all;
}

std::size_t total(const std::vector<Buffer>& buffers) {
  std::size_t bytes = 0;
  for (const Buffer& buffer : buffers) bytes += buffer.bytes();
  return bytes;
}

// Few sizes, so that what one call leaves fits another.
std::size_t size_class(std::size_t bytes) { return std::bit_ceil(std::max<std::size_t>(bytes, 4096)); }
bool worth_keeping(std::size_t size) { return size <= most_kept / 4 && size == size_class(size); }

// One of `size` bytes, out of the list; without pointer: there is none.
Buffer out_of(std::vector<Buffer>& buffers, std::size_t size) {
  const auto found = std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& b) { return b.bytes() == size; });
  if (found == buffers.end()) return {};
  std::swap(*found, buffers.back());
  Buffer buffer = std::move(buffers.back());
  buffers.pop_back();
  return buffer;
}

Buffer lend(int device, std::size_t bytes) {
  const std::size_t size = size_class(bytes);
  if (!bytes || !worth_keeping(size)) return {device, bytes};
  AllKept& all = all_kept();
  {
    const std::scoped_lock lock(all.mutex);
    Kept& kept = all.of[device];
    if (Buffer buffer = out_of(kept.settled, size); buffer.pointer()) return buffer;
    if (kept.left.size() >= most_left || total(kept.left) >= most_kept / 2) {
      const CurrentDevice current(device);
      check(driver().CtxSynchronize(), "waiting for what calls left behind");
      std::move(kept.left.begin(), kept.left.end(), std::back_inserter(kept.settled));
      kept.left.clear();
      if (Buffer buffer = out_of(kept.settled, size); buffer.pointer()) return buffer;
    }
  }
  return {device, size};
}

}  // namespace

Workspace::Workspace(int device, std::size_t bytes) : device_(device), bytes_(bytes) {
  try {
    buffer_ = lend(device, bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory || !release_workspaces()) throw;
    buffer_ = Buffer(device, bytes);
  }
}

Workspace::~Workspace() {
  // A child of this process has neither the memory nor, for certain, the lock.
  if (!buffer_.pointer() || !worth_keeping(buffer_.bytes()) || forked()) return;
  AllKept& all = all_kept();
  const std::scoped_lock lock(all.mutex);
  Kept& kept = all.of[device_];
  const std::size_t left = total(kept.left) + buffer_.bytes();
  if (left + total(kept.settled) > most_kept) kept.settled.clear();  // of sizes that nothing wants any more
  if (left <= most_kept) kept.left.push_back(std::move(buffer_));
}

bool release_workspaces() {
  AllKept& all = all_kept();
  const std::scoped_lock lock(all.mutex);
  const bool any = std::any_of(all.of.begin(), all.of.end(),
                               [](const auto& of) { return !of.second.left.empty() || !of.second.settled.empty(); });
  all.of.clear();
  return any;
}

}  // namespace postlude::inline v0::cuda
