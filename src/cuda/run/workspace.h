// Device memory lent to a call. The driver frees memory only after waiting for all that the GPU
// does, and a program that binds at every step would wait as often (decision 0027). So memory that
// calls give back is kept for later ones: at once for those on the stream of its last run, where
// writes to it come first; for others after a wait for the whole GPU, one for many. Memory that a
// captured run uses is never lent again, because graphs replay it.
#pragma once

#include "cuda/run/driver.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace postlude::inline v0::cuda {

class Workspace {
 public:
  // The contents are undefined. `stream`: the stream that uses it first, if that is known. Throws
  // out_of_memory, naming the bytes.
  Workspace(int device, std::size_t bytes, std::optional<void*> stream);
  ~Workspace();
  Workspace(Workspace&& other) noexcept = default;
  Workspace& operator=(Workspace&&) = delete;
  [[nodiscard]] CuPointer pointer() const { return buffer_.pointer(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  void runs_on(CuStream stream, bool captured);

 private:
  int device_;
  std::size_t bytes_;
  Buffer buffer_;  // at least so much
  // The number of the stream that may still use it: the promised one, then the last run's. Another
  // stream may get the same handle.
  std::optional<std::uint64_t> stream_;
  CuStream last_ = nullptr;
  bool ran_ = false, replayed_ = false;
};

// Frees all kept memory on all devices, but not the graphs'. Returns whether there was any.
bool release_workspaces();

}  // namespace postlude::inline v0::cuda
