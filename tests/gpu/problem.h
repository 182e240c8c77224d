// A product and its epilogue with random operands in device memory.
#pragma once

#include "cuda/run/driver.h"
#include "plan/backend.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace postlude::gpu_tests {

inline constexpr const char* suite_names[] = {
    "plain",   "bias_relu", "bias_gelu", "axpby", "bias_gelu_res_aux", "dgelu_dbias", "swiglu", "bce", "rowmax",
    "rmsnorm", "softmax",   "argmax",    "xent",  "fp8_rowwise",       "fp8_groups"};

// Schedules: Hopper's kernel as the heuristic chooses it, and the portable one.
inline constexpr const char* kernels[] = {"", "mma"};

[[nodiscard]] Graph suite_graph(const std::string& name);

enum class Elements : std::uint8_t {
  normal,    // A ~ N(0, 1), B ~ N(0, 1/K), operands ~ N(0, 1); sums of four uniforms stand for normals
  whole,     // whole numbers from -2 to 2, of which every sum here is exact
  positive,  // the absolute values of the first
};

// What is drawn. Integer operands are in [0, N).
struct Draw {
  bool a_mn_major = false, b_mn_major = false;  // A stored K x M, B stored K x N
  Elements elements = Elements::normal;
  int offset = 0;          // elements by which every tensor misses its 256-byte boundary
  std::string schedule{};  // of the problem's own call
};

class DeviceProblem {
 public:
  DeviceProblem(const Problem& problem, const Graph& graph, const Shape& shape, const Draw& draw = {},
                const CompileOptions& options = {});
  // An epilogue of the suite, B stored N x K.
  DeviceProblem(const std::string& name, const Shape& shape, const std::string& schedule = {},
                std::optional<DType> type = {});

  void run(void* stream = nullptr) { call_.run(stream); }
  void poison();
  [[nodiscard]] std::string schedule() const { return call_.describe(); }
  [[nodiscard]] Plan compile(const std::string& schedule) const;  // the same, otherwise scheduled
  [[nodiscard]] const std::vector<Binding>& bindings() const { return bindings_; }
  [[nodiscard]] std::vector<std::vector<std::uint8_t>> outputs() const;  // once all that runs is done
  [[nodiscard]] std::vector<std::vector<std::uint8_t>> outputs_on_cpu()
      const;                                              // of the CPU backend, on the same operands
  [[nodiscard]] std::vector<Comparison> compare() const;  // against the reference, on the host
  [[nodiscard]] std::uint64_t pointer(const std::string& name) const;

 private:
  struct Held {
    Plan::Slot slot;
    Tensor tensor;
    cuda::Buffer memory;
  };
  Problem problem_;
  Graph graph_;
  Shape shape_;
  CompileOptions options_;
  Plan plan_;
  std::vector<Held> held_;
  std::vector<Binding> bindings_;
  Call call_;

  void fill(const Held& held, const Draw& draw, std::uint64_t seed) const;
  // The tensors in host memory that `memory` holds.
  [[nodiscard]] std::vector<Binding> on_host(std::vector<std::vector<std::uint8_t>>& memory) const;
};

}  // namespace postlude::gpu_tests
