// Device memory lent to a call. The driver frees memory only after waiting for all that the GPU does, and a program
// that binds at every step would wait as often. So what calls give back is kept for later ones. Their kernels may still
// write to it then, on streams that nobody remembers: it is lent again after a wait for the whole GPU, one for many.
#pragma once

#include "cuda/driver.h"

#include <cstddef>

namespace postlude::inline v0::cuda {

class Workspace {
 public:
  Workspace(int device, std::size_t bytes);  // of undefined contents; throws out_of_memory, naming the bytes
  ~Workspace();
  Workspace(Workspace&& other) noexcept = default;
  Workspace& operator=(Workspace&&) = delete;
  [[nodiscard]] CuPointer pointer() const { return buffer_.pointer(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  int device_;
  std::size_t bytes_;
  Buffer buffer_;  // at least so much
};

// Frees what is kept on all devices; whether there was anything.
bool release_workspaces();

}  // namespace postlude::inline v0::cuda
