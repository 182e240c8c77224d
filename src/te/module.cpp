// A nest built for a target.
#include "te/gpu.h"
#include "te/product.h"
#include "te/run.h"

#include <algorithm>
#include <memory>
#include <mutex>

namespace postlude::inline v0::te {

struct ModuleNode {
  ScheduleNode schedule;  // as it was when the module was built
  Nest nest;
  Target target;
  std::string text;
  std::unique_ptr<GpuNest> gpu;
  std::optional<Product> product;

  // The nest for the last shapes and strides: a loop calls with the same ones.
  struct Kept {
    std::vector<std::int64_t> key;
    CpuNest nest;
  };
  mutable std::mutex mutex;
  mutable std::shared_ptr<const Kept> kept;
};

namespace {

std::vector<std::int64_t> key_of(const std::vector<v0::Tensor>& arrays) {
  std::vector<std::int64_t> key;
  for (const v0::Tensor& array : arrays) {
    for (int d = 0; d < array.rank; ++d) {
      key.push_back(array.shape[static_cast<std::size_t>(d)]);
      key.push_back(array.strides[static_cast<std::size_t>(d)]);
    }
  }
  return key;
}

}  // namespace

std::string lower(const Schedule& schedule, const std::vector<Tensor>& arguments) {
  return print(make_nest(*schedule.node(), arguments));
}

Module build(const Schedule& schedule, const std::vector<Tensor>& arguments, const Target& target) {
  auto module = std::make_shared<ModuleNode>();
  module->nest = make_nest(*schedule.node(), arguments);
  module->schedule = *schedule.node();
  for (StagePtr& stage : module->schedule.stages) stage = std::make_shared<StageNode>(*stage);
  module->target = target;
  module->text = print(module->nest);
  module->product = find_product(module->schedule, module->nest, target);
  if (target.device == Device::cuda) module->gpu = std::make_unique<GpuNest>(module->nest);
  return Module(module);
}

void Module::operator()(const std::vector<v0::Tensor>& arrays, void* stream) const {
  const bool on_host = std::all_of(arrays.begin(), arrays.end(), [](const auto& x) { return x.device == Device::cpu; });
  const Sizes sizes = bind_sizes(node_->nest, node_->schedule, arrays, on_host ? Device::cpu : node_->target.device);
  if (node_->product && on_host == (node_->target.device == Device::cpu)) return node_->product->run(arrays, stream);
  if (node_->gpu)
    return on_host ? node_->gpu->run_copies(sizes, arrays, node_->target.device_index)
                   : node_->gpu->run(sizes, arrays, stream);
  std::vector<std::int64_t> key = key_of(arrays);
  std::shared_ptr<const ModuleNode::Kept> kept;
  {
    const std::scoped_lock lock(node_->mutex);
    kept = node_->kept;
  }
  if (!kept || kept->key != key) {
    kept = std::make_shared<const ModuleNode::Kept>(
        ModuleNode::Kept{std::move(key), CpuNest(node_->nest, sizes, arrays, node_->target.threads)});
    const std::scoped_lock lock(node_->mutex);
    node_->kept = kept;
  }
  kept->nest.run(arrays);
}

bool Module::is_output(std::size_t argument) const {
  return argument < node_->nest.tensors.size() && !node_->nest.tensors[argument].op().node()->is_placeholder();
}
std::string Module::print() const { return node_->text; }
std::string Module::explain() const {
  std::string text;
  if (node_->product) {
    const Nest& nest = node_->nest;
    const auto name = [&](int argument) { return nest.arguments[static_cast<std::size_t>(argument)]->name; };
    text = "a product of matrices, " + name(node_->product->a) + " and " + name(node_->product->b) +
           ": it runs on the main loop gemm, because no call schedules it\n" + node_->product->plan.explain();
    return text;
  }
  const std::string calls = Schedule(std::make_shared<ScheduleNode>(node_->schedule)).calls();
  return (calls.empty() ? "as described, without a schedule\n" : "scheduled by\n" + calls) + "\n" + node_->text;
}
std::string Module::source() const { return node_->gpu ? node_->gpu->source() : node_->text; }

}  // namespace postlude::inline v0::te
