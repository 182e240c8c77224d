// An epilogue of the suite with random operands in device memory.
#pragma once

#include "cuda/driver.h"
#include "plan/backend.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace postlude::gpu_tests {

inline constexpr const char* suite_names[] = {"plain", "bias_relu", "bias_gelu", "axpby", "bias_gelu_res_aux", "dgelu_dbias", "swiglu",
                                              "bce", "rowmax", "rmsnorm", "softmax", "argmax", "xent", "fp8_rowwise"};

// A ~ N(0, 1), B ~ N(0, 1/K) and stored N x K, operands ~ N(0, 1), integers in [0, N). Sums of four uniforms stand for normals.
class Problem3 {
 public:
  Problem3(const std::string& name, const Shape& shape, const std::string& schedule = {}, std::optional<DType> type = {});
  void run(void* stream = nullptr) { call_.run(stream); }
  void poison();
  [[nodiscard]] std::string schedule() const { return call_.describe(); }
  [[nodiscard]] std::vector<std::vector<std::uint8_t>> outputs() const;
  [[nodiscard]] std::vector<Comparison> compare() const;  // against the reference, on the host
  [[nodiscard]] std::uint64_t pointer(const std::string& name) const;
  [[nodiscard]] const Shape& shape() const { return shape_; }

 private:
  struct Held {
    Plan::Slot slot;
    Tensor tensor;
    cuda::Buffer memory;
  };
  Shape shape_;
  Plan plan_;
  std::vector<Held> held_;
  Call call_;
};

}  // namespace postlude::gpu_tests
