// Device memory lent to a call. The driver frees memory only after waiting for all that the GPU does, and a program
// that binds at every step would wait as often. So what calls give back is kept for later ones: for those on the stream
// of its last run at once, as whatever still writes to it there comes first; for others after a wait for the whole GPU,
// one for many. What a captured run uses is never lent again: graphs replay it.
#pragma once

#include "cuda/run/driver.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace postlude::inline v0::cuda {

class Workspace {
 public:
  // Of undefined contents. `stream`: where it is used first, if that is known. Throws out_of_memory, naming the bytes.
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
  // The stream that may still use it: promised, then of the last run. Its number, as another may get its handle.
  std::optional<std::uint64_t> stream_;
  CuStream last_ = nullptr;
  bool ran_ = false, replayed_ = false;
};

// Frees what is kept on all devices but for graphs; whether there was anything.
bool release_workspaces();

}  // namespace postlude::inline v0::cuda
