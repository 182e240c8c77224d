// A nest built for a target.
#include "te/convolution.h"
#include "te/gpu.h"
#include "te/product.h"
#include "te/reducer.h"
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
  FoundConvolution convolution;
  std::vector<Tensor> outputs;  // whose schedule is chosen when sizes are known; else empty

  // The nest for the last shapes and strides: a loop calls with the same ones.
  struct Kept {
    std::vector<std::int64_t> key;
    CpuNest nest;
  };
  mutable std::mutex mutex;
  mutable std::shared_ptr<const Kept> kept;
  // Chosen for sizes: the schedules' calls, in the order of their first use, and for the last shapes.
  mutable std::vector<std::pair<std::string, Module>> chosen;
  mutable std::vector<std::int64_t> chosen_key;
  mutable Module last;
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

namespace {

// A schedule's nest, and the main loop that runs it where one does; a GPU's code is not made yet.
std::shared_ptr<ModuleNode> described(const Schedule& schedule, const std::vector<Tensor>& arguments,
                                      const Target& target) {
  auto module = std::make_shared<ModuleNode>();
  module->nest = make_nest(*schedule.node(), arguments);
  check_nest(module->nest);
  module->schedule = *schedule.node();
  for (StagePtr& stage : module->schedule.stages) stage = std::make_shared<StageNode>(*stage);
  module->target = target;
  module->text = print(module->nest);
  module->product = find_product(module->schedule, module->nest, target);
  module->convolution = find_convolution(module->schedule, module->nest, target);
  return module;
}

std::shared_ptr<ModuleNode> built(std::shared_ptr<ModuleNode> module) {
  const bool main_loop = module->product || module->convolution.runs;
  if (const std::string& asked = module->target.schedule; !main_loop && !asked.empty())
    refuse("no main loop takes the schedule " + quoted(asked) + " here, and loops have their own",
           "Leave it (`schedule` and `accumulate`) out of the target, and schedule the stages.");
  if (module->target.device == Device::cuda) module->gpu = std::make_unique<GpuNest>(module->nest);
  return module;
}

}  // namespace

Module build(const Schedule& schedule, const std::vector<Tensor>& arguments, const Target& target) {
  return Module(built(described(schedule, arguments, target)));
}

Module build(const std::vector<Tensor>& outputs, const std::vector<Tensor>& arguments, const Target& target) {
  const auto plain = described(create_schedule(outputs), arguments, target);
  if (plain->product || plain->convolution.runs) return Module(built(plain));
  const auto module = built(described(choose_schedule(outputs, target), arguments, target));
  module->convolution.text = plain->convolution.text;
  // On a CPU sizes decide only how many rows are computed together.
  const bool by_sizes = target.device == Device::cuda ||
                        std::any_of(module->schedule.stages.begin(), module->schedule.stages.end(), [](const auto& s) {
                          return s->nesting == StageNode::Nesting::at || s->op->reduction();
                        });
  if (by_sizes) module->outputs = outputs;
  return Module(module);
}

namespace {

// The module of the schedule that is chosen for these sizes.
Module for_sizes(const ModuleNode& node, const std::vector<v0::Tensor>& arrays, const Sizes& sizes) {
  std::vector<std::int64_t> key;
  bool dense = true;
  for (const v0::Tensor& array : arrays) {
    key.insert(key.end(), array.shape.begin(), array.shape.begin() + array.rank);
    std::int64_t expected = 1;  // of its last two axes
    for (int d = array.rank; d-- > 0 && d >= array.rank - 2;) {
      const auto axis = static_cast<std::size_t>(d);
      dense &= array.shape[axis] == 1 || array.strides[axis] == expected;
      expected *= array.shape[axis];
    }
  }
  key.push_back(dense);
  const std::scoped_lock lock(node.mutex);
  if (node.last.node() && node.chosen_key == key) return node.last;
  const Schedule schedule = choose_schedule(node.outputs, node.target, sizes, dense);
  const std::string calls = schedule.calls();
  auto found = std::find_if(node.chosen.begin(), node.chosen.end(), [&](const auto& x) { return x.first == calls; });
  if (found == node.chosen.end())
    found = node.chosen.insert(found, {calls, build(schedule, node.nest.tensors, node.target)});
  node.chosen_key = std::move(key);
  return node.last = found->second;
}

// A main loop writes forwards, a nest at any strides.
bool writes_forwards(const Module& module, const std::vector<v0::Tensor>& arrays) {
  for (std::size_t i = 0; i < arrays.size(); ++i)
    for (std::size_t d = 0; module.is_output(i) && d < static_cast<std::size_t>(arrays[i].rank); ++d)
      if (arrays[i].shape[d] > 1 && arrays[i].strides[d] < 0) return false;
  return true;
}

}  // namespace

void Module::operator()(const std::vector<v0::Tensor>& arrays, void* stream) const {
  const bool on_host = std::all_of(arrays.begin(), arrays.end(), [](const auto& x) { return x.device == Device::cpu; });
  const Sizes sizes = bind_sizes(node_->nest, node_->schedule, arrays, on_host ? Device::cpu : node_->target.device);
  const bool by_main_loop = on_host == (node_->target.device == Device::cpu) && writes_forwards(*this, arrays);
  if (node_->product && by_main_loop) return node_->product->run(arrays, stream);
  if (node_->convolution.runs && by_main_loop && node_->convolution.runs->run(arrays, sizes, stream)) return;
  const Module chosen = node_->outputs.empty() ? *this : for_sizes(*node_, arrays, sizes);
  const ModuleNode& node = *chosen.node_;
  if (node.gpu)
    return on_host ? node.gpu->run_copies(sizes, arrays, node.target.device_index)
                   : node.gpu->run(sizes, arrays, stream);
  std::vector<std::int64_t> key = key_of(arrays);
  std::shared_ptr<const ModuleNode::Kept> kept;
  {
    const std::scoped_lock lock(node.mutex);
    kept = node.kept;
  }
  if (!kept || kept->key != key) {
    kept = std::make_shared<const ModuleNode::Kept>(
        ModuleNode::Kept{std::move(key), CpuNest(node.nest, sizes, arrays, node.target.threads)});
    const std::scoped_lock lock(node.mutex);
    node.kept = kept;
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
  if (node_->convolution.runs) return node_->convolution.text + node_->convolution.runs->explain();
  std::string calls = Schedule(std::make_shared<ScheduleNode>(node_->schedule)).calls(), kept;
  for (const StagePtr& stage : node_->schedule.stages)
    if (const Reduction* const reduction = stage->op->reduction())
      if (const std::string why = kept_order(*reduction->reducer); !why.empty())
        kept += quoted(stage->op->name) + " meets its elements one after the other, as its loops say: " + why + "\n";
  if (!node_->outputs.empty()) {
    const std::scoped_lock lock(node_->mutex);
    std::string text;
    for (const auto& [key, module] : node_->chosen)
      text += "for sizes that it was called with, " + module.explain() + "\n";
    if (!text.empty()) return text;
  }
  return node_->convolution.text + kept +
         (calls.empty() ? "as described, without a schedule\n" : "scheduled by\n" + calls) + "\n" + node_->text;
}
std::string Module::source() const {
  {
    const std::scoped_lock lock(node_->mutex);
    if (node_->last.node()) return node_->last.source();
  }
  return node_->gpu ? node_->gpu->source() : node_->text;
}

}  // namespace postlude::inline v0::te
