// A nest on a GPU: its kernels compiled when they are first called on a device.
#pragma once

#include "te/emit.h"

#include <memory>
#include <span>

namespace postlude::inline v0::te {

class GpuNest {
 public:
  explicit GpuNest(const Nest& nest);
  ~GpuNest();
  [[nodiscard]] const std::string& source() const { return source_.text; }
  void run(const Sizes& sizes, std::span<const v0::Tensor> arrays, void* stream) const;
  // The same for arrays of the host, which are copied there and back.
  void run_copies(const Sizes& sizes, std::span<const v0::Tensor> arrays, int device) const;

 private:
  struct Loaded;
  const Loaded& loaded(int device) const;
  Nest nest_;
  CudaSource source_;
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace postlude::inline v0::te
