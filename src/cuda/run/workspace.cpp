#include "cuda/run/workspace.h"

#include <postlude/error.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace postlude::inline v0::cuda {
namespace {

constexpr std::size_t most_kept = 64 << 20;  // bytes on one device
constexpr std::size_t most_left = 32;        // buffers that may be in use, until one wait settles them

struct Spare {
  Buffer buffer;
  std::optional<std::uint64_t> stream;  // that may still use it; none: nothing does
};

struct AllKept {
  std::mutex mutex;
  std::map<int, std::vector<Spare>> spares;  // by device
  std::vector<Buffer> replayed;
};

AllKept& all_kept() {
  static AllKept& all = *new AllKept;  // outlives what is destroyed at exit
  return all;
}

// There are few sizes, so that a buffer that one call leaves fits another.
std::size_t size_class(std::size_t bytes) { return std::bit_ceil(std::max<std::size_t>(bytes, 4096)); }
bool worth_keeping(std::size_t size) { return size <= most_kept / 4 && size == size_class(size); }

// Takes a buffer of `size` bytes that only `stream`, or nobody, uses. Without a pointer there is
// none.
Buffer out_of(std::vector<Spare>& spares, std::size_t size, std::optional<std::uint64_t> stream) {
  const auto found = std::find_if(spares.begin(), spares.end(), [&](const Spare& spare) {
    return spare.buffer.bytes() == size && (!spare.stream || spare.stream == stream);
  });
  if (found == spares.end()) return {};
  std::swap(*found, spares.back());
  Buffer buffer = std::move(spares.back().buffer);
  spares.pop_back();
  return buffer;
}

// Waits until no stream uses any of the buffers.
void settle(std::vector<Spare>& spares) {
  check(driver().CtxSynchronize(), "waiting for what calls left behind");
  for (Spare& spare : spares) spare.stream.reset();
}

std::uint64_t number(CuStream stream) {
  std::uint64_t id = 0;
  check(driver().StreamGetId(stream, &id), "numbering a stream");
  return id;
}

// `id`: the number of `stream`, where it decides which buffer is lent.
Buffer lend(int device, std::size_t bytes, std::optional<void*> stream, std::optional<std::uint64_t>& id) {
  const std::size_t size = size_class(bytes);
  if (!bytes || !worth_keeping(size)) return {device, bytes};
  if (stream) {
    int capturing = 0;
    check(driver().StreamIsCapturing(static_cast<CuStream>(*stream), &capturing), "asking for a capture");
    if (capturing) return {device, size};  // a replay comes behind nothing of this stream
    id = number(static_cast<CuStream>(*stream));
  }
  AllKept& all = all_kept();
  const std::scoped_lock lock(all.mutex);
  std::vector<Spare>& spares = all.spares[device];
  Buffer buffer = out_of(spares, size, id);
  if (!buffer.pointer() && !stream && spares.size() >= most_left) {
    settle(spares);
    buffer = out_of(spares, size, id);
  }
  return buffer.pointer() ? std::move(buffer) : Buffer(device, size);
}

}  // namespace

Workspace::Workspace(int device, std::size_t bytes, std::optional<void*> stream) : device_(device), bytes_(bytes) {
  try {
    buffer_ = lend(device, bytes, stream, stream_);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory || !release_workspaces()) throw;
    buffer_ = Buffer(device, bytes);
  }
}

void Workspace::runs_on(CuStream stream, bool captured) {
  replayed_ = replayed_ || captured;
  if (captured || (ran_ && stream == last_)) return;
  const std::uint64_t id = number(stream);
  // The stream is not the promised one, which may still write to the buffer that it left.
  if (!ran_ && stream_ && stream_ != id) check(driver().CtxSynchronize(), "waiting for what a call left behind");
  ran_ = true, last_ = stream, stream_ = id;
}

Workspace::~Workspace() {
  // A child of this process has neither the memory nor, for certain, the lock.
  if (!buffer_.pointer() || forked()) return;
  AllKept& all = all_kept();
  const std::scoped_lock lock(all.mutex);
  if (replayed_) {
    all.replayed.push_back(std::move(buffer_));
    return;
  }
  if (!worth_keeping(buffer_.bytes())) return;
  std::vector<Spare>& spares = all.spares[device_];
  std::size_t bytes = buffer_.bytes();
  for (const Spare& spare : spares) bytes += spare.buffer.bytes();
  if (bytes > most_kept) spares.clear();  // they have sizes that nothing wants any more, it seems
  spares.push_back({std::move(buffer_), stream_});
}

bool release_workspaces() {
  AllKept& all = all_kept();
  const std::scoped_lock lock(all.mutex);
  const bool any = std::any_of(all.spares.begin(), all.spares.end(), [](const auto& of) { return !of.second.empty(); });
  all.spares.clear();
  return any;
}

}  // namespace postlude::inline v0::cuda
