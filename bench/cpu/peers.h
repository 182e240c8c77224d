// OpenBLAS and oneDNN, as one would call them by hand. A peer exists where the build found it and
// where it has a kernel for the types: otherwise its function is empty.
#pragma once

#include <postlude/dtype.h>

#include <cstdint>
#include <functional>
#include <string>

namespace postlude::bench {

struct Case {
  std::string name;
  std::int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::f32;
  bool b_k_major = false;  // B stored N x K, as a torch Linear's weight; otherwise K x N
};

using Run = std::function<void()>;

// A product of contiguous matrices into `out`, M x N, f32 or i32.
[[nodiscard]] Run openblas(const Case& what, int threads, const void* a, const void* b, void* out);
// `packed`: with the weights in the layout that the primitive asks for, made once.
[[nodiscard]] Run onednn(const Case& what, int threads, const void* a, const void* b, void* out, bool packed = false);

// The epilogues that oneDNN's post-ops can express.
enum class PostOps : std::uint8_t { none, bias_relu, bias_gelu, bias_gelu_res, axpby, column_scale };
struct FusedOperands {
  const float* row = nullptr;
  const float* column = nullptr;
  const float* tile = nullptr;  // axpby: C must stand in `out`, as oneDNN's sum wants it
  float alpha = 1, beta = 0;
};
[[nodiscard]] Run onednn_fused(const Case& what, int threads, const void* a, const void* b, void* out, PostOps ops,
                               const FusedOperands& operands);

// A convolution of square images and filters, channels_last, in f32, with the filters reordered once.
struct ConvCase {
  std::int64_t images = 1, channels = 1, image = 1, filters = 1, taps = 1, stride = 1, padding = 0, pixels = 1;
};
enum class ConvOps : std::uint8_t { none, bias_relu, bias_residual_relu };
struct ConvOperands {
  const float *x = nullptr, *w = nullptr, *bias = nullptr, *residual = nullptr;
  float* out = nullptr;
};
[[nodiscard]] Run onednn_conv(const ConvCase& what, int threads, ConvOps ops, const ConvOperands& operands);

[[nodiscard]] std::string peer_versions();

}  // namespace postlude::bench
