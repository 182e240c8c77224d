// The operands of `postlude run --target cuda` in the GPU's memory.
#pragma once

#include "cli/operands.h"
#include "cuda/run/driver.h"

#include <vector>

namespace postlude::inline v0::cli {

class DeviceMemory {
 public:
  // Copies all operands to the device, outputs too, so that an element that is not written keeps
  // its pattern. They must stay where they are.
  DeviceMemory(std::vector<BoundOperand>& operands, int device);

  [[nodiscard]] std::vector<Binding> bindings() const;
  void copy_outputs_back();

  // Runs a call and gives the milliseconds that the device took for it.
  [[nodiscard]] double timed(Call& call) const;

 private:
  std::vector<BoundOperand>& operands_;
  int device_;
  std::vector<cuda::Buffer> buffers_;  // one an operand
};

}  // namespace postlude::inline v0::cli
