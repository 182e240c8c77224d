#include "gpu/device_run.h"

#include "cuda/backend.h"
#include "cuda/driver.h"

#include "fuzz/choices.h"
#include "fuzz/grammar.h"

#include <cstring>
#include <stdexcept>

namespace postlude::gpu_tests {
namespace {

constexpr std::size_t zone = 1024;  // bytes on either side of a tensor

}  // namespace

std::string missing() { return cuda::unusable(); }

fuzz::Runs run_on_device(const fuzz::Case& c, fuzz::Tensors& tensors, const Target&) {
  const cuda::CurrentDevice current(0);
  const cuda::Driver& d = cuda::driver();
  const Plan plan = compile(c.problem, Graph(std::make_shared<const GraphData>(c.graph)), Target::cuda());
  std::vector<cuda::Buffer> memory;
  std::vector<Binding> named = tensors.named();
  for (std::size_t i = 0; i < named.size(); ++i) {
    const auto& host = tensors.memory[i];
    memory.emplace_back(0, host.size() + 2 * zone);
    const std::size_t offset = static_cast<std::size_t>(static_cast<std::uint8_t*>(named[i].tensor.data) - host.data());
    named[i].tensor.data = reinterpret_cast<void*>(memory[i].pointer() + zone + offset);
    named[i].tensor.device = Device::cuda;
  }
  Call call = plan.bind(named);
  fuzz::Runs runs;
  for (auto* copy : {&runs.first, &runs.second}) {
    tensors.poison_outputs();
    for (std::size_t i = 0; i < named.size(); ++i) {
      cuda::check(d.MemsetD8(memory[i].pointer(), fuzz::poison, memory[i].bytes()), "poisoning");
      if (tensors.memory[i].size()) cuda::check(d.MemcpyHtoD(memory[i].pointer() + zone, tensors.memory[i].data(), tensors.memory[i].size()), "copying in");
    }
    call.run();
    cuda::check(d.CtxSynchronize(), "running a case");
    for (std::size_t i = 0; i < named.size(); ++i) {
      std::vector<std::uint8_t> whole(memory[i].bytes());
      cuda::check(d.MemcpyDtoH(whole.data(), memory[i].pointer(), whole.size()), "copying out");
      for (std::size_t at = 0; at < whole.size(); ++at) {
        if (at == zone) at += tensors.memory[i].size();
        if (at < whole.size() && whole[at] != fuzz::poison) throw std::runtime_error("the red zone around " + std::string(named[i].name) + " was written");
      }
      if (tensors.all[i].output) std::memcpy(tensors.memory[i].data(), whole.data() + zone, tensors.memory[i].size());
    }
    *copy = tensors.copy_outputs();
  }
  return runs;
}

fuzz::Case on_tensor_cores(fuzz::Case c) {
  auto* gemm = std::get_if<Gemm>(&c.problem);
  if (!gemm || !is_float(gemm->a)) return c;
  const std::uint64_t choice = fuzz::mix(c.seed ^ 0x7e57);
  gemm->a = gemm->b = choice % 3 ? DType::bf16 : DType::f16;
  if (choice % 2) c.layout = 0;  // contiguous, so that the copy engine may reach it
  return c;
}

fuzz::Case draw(std::uint64_t seed) {
  fuzz::GrammarOptions options;
  options.most_elements = seed % 4 == 1 ? 120000 : 8192;
  fuzz::Case c = fuzz::generate(seed, options);
  const auto* gemm = std::get_if<Gemm>(&c.problem);
  const bool fp8 = gemm && is_float(gemm->a) && size_of(gemm->a) == 1;  // its bound is not the oracle's; the suite has it
  if (seed % 4 == 0 && !fp8) return c;
  c = on_tensor_cores(c);
  if (seed % 4 == 2) {  // extents that the copy engine can address
    c.shape.n = (c.shape.n + 15) / 16 * 16;
    c.shape.k = (c.shape.k + 7) / 8 * 8;
  }
  return c;
}

std::string check_on_device(const fuzz::Case& c) {
  fuzz::Checks checks;
  checks.isas = {""};
  checks.threads = {1};
  checks.metamorphic = false;
  checks.round_trip = false;
  checks.runner = run_on_device;
  try {
    return fuzz::check(c, checks);
  } catch (const std::exception& e) {
    return std::string("throws ") + e.what();
  }
}

}  // namespace postlude::gpu_tests
