#include "gpu/problem.h"

#include "cuda/emit/gemm_source.h"
#include "cuda/run/kernel.h"
#include "cuda/run/nvrtc.h"

#include <algorithm>
#include <cmath>

namespace postlude::gpu_tests {
namespace {

using namespace cuda;

constexpr std::size_t slack = 256;  // bytes behind a tensor that Draw::offset may move it by

const char* const fill_text = R"cuda(
template <typename F> DEVICE void fill(i64 n, u64 seed, F store) {
  for (i64 i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {
    u64 x = (u64(i) + seed) * 0x9E3779B97F4A7C15ull;
    float sum = 0.f;
    for (int k = 0; k < 4; ++k) { x ^= x >> 31; x *= 0xBF58476D1CE4E5B9ull; x ^= x >> 27; sum += float(x >> 40) * 0x1p-24f - 0.5f; }
    store(i, sum * 1.7320508f, x >> 33);
  }
}
// Normals times `scale`; or whole numbers, `count` of them from `least`.
#define FILL(type) extern "C" __global__ void fill_##type(i64 p, i64 n, float scale, i64 least, i64 count, u64 seed, int positive) { \
  fill(n, seed, [&](i64 i, float x, u64 bits) { \
    if (count) store_##type(p, i, int(least + i64(bits % count))); else store_##type(p, i, (positive ? fabsf(x) : x) * scale); }); }
FILL(f32) FILL(bf16) FILL(f16) FILL(e4m3) FILL(e5m2) FILL(s8) FILL(u8) FILL(i32) FILL(i64) FILL(bool)
)cuda";

const Module& fill_module() {
  static const Module module(0, build(base_source() + fill_text, architecture(device(0)), false).cubin);
  return module;
}

Gemm suite_gemm(const std::string& name, std::optional<DType> type) {
  Gemm gemm;
  gemm.a = gemm.b = type.value_or(name == "fp8_rowwise" ? DType::e4m3 : DType::bf16);
  gemm.b_layout = Layout::k_major;
  return gemm;
}

}  // namespace

Graph suite_graph(const std::string& name) {
  return parse_file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/" + name + ".py");
}

DeviceProblem::DeviceProblem(const std::string& name, const Shape& shape, const std::string& schedule,
                             std::optional<DType> type)
    : DeviceProblem(suite_gemm(name, type), suite_graph(name), shape, {.schedule = schedule}) {}

DeviceProblem::DeviceProblem(const Problem& problem, const Graph& graph, const Shape& shape, const Draw& draw,
                             const CompileOptions& options)
    : problem_(problem), graph_(graph), shape_(shape), options_(options) {
  const CurrentDevice current(0);
  plan_ = compile(draw.schedule);
  const bool batched = is_batched(problem);
  std::uint64_t seed = 1;
  for (const Plan::Slot& slot : plan_.slots()) {
    std::vector<std::int64_t> extents = plan_.shape_of(slot.name, shape.m, shape.n, shape.k);
    if (batched && (slot.batched || slot.name == "A" || slot.name == "B" || slot.name == "X"))
      extents.insert(extents.begin(), shape.batch);
    Tensor tensor;
    tensor.dtype = slot.dtype;
    tensor.rank = static_cast<int>(extents.size());
    std::int64_t elements = 1;
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      tensor.shape[axis] = extents[axis];
      tensor.strides[axis] = elements;
      elements *= extents[axis];
    }
    if ((slot.name == "A" && draw.a_mn_major) || (slot.name == "B" && !draw.b_mn_major)) {
      tensor.strides[tensor.rank - 2] = 1;
      tensor.strides[tensor.rank - 1] = tensor.shape[tensor.rank - 2];
    }
    Held held{slot, tensor,
              Buffer(0, static_cast<std::size_t>(std::max<std::int64_t>(1, elements) * size_of(slot.dtype)) + slack)};
    held.tensor.data =
        reinterpret_cast<void*>(held.memory.pointer() + static_cast<std::uint64_t>(draw.offset * size_of(slot.dtype)));
    held.tensor.device = Device::cuda;
    check(driver().MemsetD8(held.memory.pointer(), 0, held.memory.bytes()), "clearing a tensor");
    if (!slot.output) fill(held, draw, seed += 0x100000001ull);
    held_.push_back(std::move(held));
  }
  poison();
  for (const Held& held : held_) bindings_.push_back({held.slot.name, held.tensor});
  call_ = plan_.bind(bindings_);
  check(driver().CtxSynchronize(), "preparing a problem");
}

void DeviceProblem::fill(const Held& held, const Draw& draw, std::uint64_t seed) const {
  const DType type = held.slot.dtype;
  const bool a_or_b = held.slot.name == "A" || held.slot.name == "B";
  CuPointer p = held.memory.pointer();
  long long n =
      static_cast<long long>((held.memory.bytes() - slack) / static_cast<std::size_t>(size_of(type))) + draw.offset;
  float scale = held.slot.name == "B" ? 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(1, shape_.k))) : 1;
  long long least = 0, count = 0;
  if (!is_float(type) && !a_or_b) count = size_of(type) == 1 ? 2 : std::max<std::int64_t>(1, shape_.n);
  else if (!is_float(type)) least = type == DType::u8 ? 0 : -3, count = 7;
  else if (draw.elements == Elements::whole) least = -2, count = 5;
  int positive = draw.elements == Elements::positive;
  void* arguments[] = {&p, &n, &scale, &least, &count, &seed, &positive};
  const std::string kernel = "fill_" + std::string(postlude::name(type));
  check(driver().LaunchKernel(fill_module().function(kernel.c_str()), 1024, 1, 1, 256, 1, 1, 0, nullptr, arguments,
                              nullptr),
        "filling");
}

Plan DeviceProblem::compile(const std::string& schedule) const {
  Target target = Target::cuda();
  target.schedule = schedule;
  return postlude::compile(problem_, graph_, target, options_);
}

void DeviceProblem::poison() {
  const CurrentDevice current(0);
  for (const Held& held : held_) {
    if (held.slot.output) check(driver().MemsetD8(held.memory.pointer(), 0xa5, held.memory.bytes()), "poisoning");
  }
}

std::vector<std::vector<std::uint8_t>> DeviceProblem::outputs() const {
  std::vector<std::vector<std::uint8_t>> memory, result;
  (void)on_host(memory);
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (held_[i].slot.output) result.push_back(std::move(memory[i]));
  }
  return result;
}

std::vector<Binding> DeviceProblem::on_host(std::vector<std::vector<std::uint8_t>>& memory) const {
  const CurrentDevice current(0);
  check(driver().CtxSynchronize(), "running");
  std::vector<Binding> bindings;
  for (const Held& held : held_) {
    auto& bytes = memory.emplace_back(held.memory.bytes());
    check(driver().MemcpyDtoH(bytes.data(), held.memory.pointer(), bytes.size()), "copying out");
    Tensor tensor = held.tensor;
    tensor.data = bytes.data() + (reinterpret_cast<std::uint64_t>(held.tensor.data) - held.memory.pointer());
    tensor.device = Device::cpu;
    bindings.push_back({held.slot.name, tensor});
  }
  return bindings;
}

std::vector<std::vector<std::uint8_t>> DeviceProblem::outputs_on_cpu() const {
  std::vector<std::vector<std::uint8_t>> memory, result;
  const std::vector<Binding> bindings = on_host(memory);
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (held_[i].slot.output) std::fill(memory[i].begin(), memory[i].end(), std::uint8_t{0xa5});
  }
  postlude::compile(problem_, graph_, Target::cpu(), options_).bind(bindings).run();
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (held_[i].slot.output) result.push_back(std::move(memory[i]));
  }
  return result;
}

std::vector<Comparison> DeviceProblem::compare() const {
  std::vector<std::vector<std::uint8_t>> memory;
  return verify(plan_, on_host(memory));
}

std::uint64_t DeviceProblem::pointer(const std::string& name) const {
  for (const Held& held : held_) {
    if (held.slot.name == name) return reinterpret_cast<std::uint64_t>(held.tensor.data);
  }
  return 0;
}

}  // namespace postlude::gpu_tests
