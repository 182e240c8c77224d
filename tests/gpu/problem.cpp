#include "gpu/problem.h"

#include "cuda/gemm_source.h"
#include "cuda/nvrtc.h"
#include "cuda/kernel.h"

#include <cmath>

namespace postlude::gpu_tests {
namespace {

using namespace cuda;

const char* const fill_text = R"cuda(
template <typename F> DEVICE void fill(i64 n, u64 seed, F store) {
  for (i64 i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {
    u64 x = (u64(i) + seed) * 0x9E3779B97F4A7C15ull;
    float sum = 0.f;
    for (int k = 0; k < 4; ++k) { x ^= x >> 31; x *= 0xBF58476D1CE4E5B9ull; x ^= x >> 27; sum += float(x >> 40) * 0x1p-24f - 0.5f; }
    store(i, sum * 1.7320508f, x >> 33);
  }
}
#define FILL(type) extern "C" __global__ void fill_##type(i64 p, i64 n, float scale, i64 most, u64 seed) { \
  fill(n, seed, [&](i64 i, float x, u64 bits) { if (most) store_##type(p, i, int(bits % most)); else store_##type(p, i, x * scale); }); }
FILL(f32) FILL(bf16) FILL(f16) FILL(e4m3) FILL(e5m2) FILL(s8) FILL(u8) FILL(i32) FILL(i64) FILL(bool)
)cuda";

const Module& fill_module() {
  static const Module module(0, build(base_source() + fill_text, architecture(device(0)), false).cubin);
  return module;
}

}  // namespace

Problem3::Problem3(const std::string& name, const Shape& shape, const std::string& schedule, std::optional<DType> type) : shape_(shape) {
  const CurrentDevice current(0);
  const bool fp8 = name == "fp8_rowwise";
  Gemm gemm;
  gemm.a = gemm.b = type.value_or(fp8 ? DType::e4m3 : DType::bf16);
  gemm.b_layout = Layout::k_major;
  Target target = Target::cuda();
  target.schedule = schedule;
  const Graph graph = parse_file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/" + name + ".py");
  CompileOptions options;
  if (fp8) {
    for (const auto& output : graph.outputs()) {
      if (!output.dtype) options.dtypes.emplace_back(output.name, DType::bf16);
    }
  }
  plan_ = postlude::compile(gemm, graph, target, options);
  std::vector<Binding> bindings;
  std::uint64_t seed = 1;
  for (const Plan::Slot& slot : plan_.slots()) {
    const std::vector<std::int64_t> extents = plan_.shape_of(slot.name, shape.m, shape.n, shape.k);
    std::int64_t elements = 1;
    for (const std::int64_t e : extents) elements *= e;
    Tensor tensor;
    tensor.dtype = slot.dtype;
    tensor.rank = static_cast<int>(extents.size());
    std::int64_t stride = 1;
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      tensor.shape[axis] = extents[axis];
      tensor.strides[axis] = stride;
      stride *= extents[axis];
    }
    if (slot.name == "B") tensor.strides[0] = 1, tensor.strides[1] = shape.k;
    Held held{slot, tensor, Buffer(0, static_cast<std::size_t>(std::max<std::int64_t>(1, elements) * size_of(slot.dtype)))};
    held.tensor.data = reinterpret_cast<void*>(held.memory.pointer());
    held.tensor.device = Device::cuda;
    if (!slot.output) {
      CuPointer p = held.memory.pointer();
      float scale = slot.name == "B" ? 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(1, shape.k))) : 1;
      long long n = elements, most = is_float(slot.dtype) ? 0 : size_of(slot.dtype) == 1 ? 2 : shape.n;
      seed += 0x100000001ull;
      void* arguments[] = {&p, &n, &scale, &most, &seed};
      const std::string kernel = "fill_" + std::string(postlude::name(slot.dtype));
      check(driver().LaunchKernel(fill_module().function(kernel.c_str()), 1024, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr), "filling");
    }
    held_.push_back(std::move(held));
  }
  poison();
  for (const Held& held : held_) bindings.push_back({held.slot.name, held.tensor});
  call_ = plan_.bind(bindings);
  check(driver().CtxSynchronize(), "preparing a problem");
}

void Problem3::poison() {
  const CurrentDevice current(0);
  for (const Held& held : held_) {
    if (held.slot.output) check(driver().MemsetD8(held.memory.pointer(), 0xa5, held.memory.bytes()), "poisoning");
  }
}

std::vector<std::vector<std::uint8_t>> Problem3::outputs() const {
  const CurrentDevice current(0);
  check(driver().CtxSynchronize(), "running");
  std::vector<std::vector<std::uint8_t>> result;
  for (const Held& held : held_) {
    if (!held.slot.output) continue;
    auto& bytes = result.emplace_back(held.memory.bytes());
    check(driver().MemcpyDtoH(bytes.data(), held.memory.pointer(), bytes.size()), "copying out");
  }
  return result;
}

std::vector<Comparison> Problem3::compare() const {
  const CurrentDevice current(0);
  check(driver().CtxSynchronize(), "running");
  std::vector<std::vector<std::uint8_t>> host;
  std::vector<Binding> bindings;
  for (const Held& held : held_) {
    auto& bytes = host.emplace_back(held.memory.bytes());
    check(driver().MemcpyDtoH(bytes.data(), held.memory.pointer(), bytes.size()), "copying out");
    Tensor tensor = held.tensor;
    tensor.data = bytes.data();
    tensor.device = Device::cpu;
    bindings.push_back({held.slot.name, tensor});
  }
  return verify(plan_, bindings);
}

std::uint64_t Problem3::pointer(const std::string& name) const {
  for (const Held& held : held_) {
    if (held.slot.name == name) return held.memory.pointer();
  }
  return 0;
}

}  // namespace postlude::gpu_tests
