// bind, pack and run.
#include "plan/operands.h"
#include "plan/plan_data.h"

#include <algorithm>

namespace postlude::inline v0 {
namespace {

std::shared_ptr<CallData> make_call(std::shared_ptr<const PlanData> plan, const std::vector<Binding>& given,
                                    const plan::PackedInput* packed, std::optional<void*> stream = {}) {
  plan::Checked checked = plan::check(*plan, given, packed, plan->target);
  auto call = std::make_shared<CallData>();
  if (!checked.nothing_to_do) {
    const Variant& variant = variant_for(*plan, checked.in_place, checked.bindings.shape.batch);
    checked.bindings.buffers.resize(variant.program->buffers.size());
    for (std::size_t i = 0; i < checked.bindings.buffers.size(); ++i) {
      checked.bindings.buffers[i].dtype = variant.program->buffers[i].dtype;
    }
    checked.bindings.stream = stream;
    call->bound = variant.executable->bind(checked.bindings);
  }
  call->plan = std::move(plan);
  call->values = std::move(checked.values);
  return call;
}

}  // namespace

Call::Call(std::shared_ptr<CallData> data) : data_(std::move(data)) {}

void Call::run(void* stream) {
  if (!data_) throw Error(ErrorCode::usage, "this Call is bound to nothing", "Plan::bind() makes one.");
  if (data_->bound) data_->bound->run(stream);
}

std::int64_t Call::workspace_bytes() const { return data_ && data_->bound ? data_->bound->workspace_bytes() : 0; }

std::string Call::describe() const {
  if (!data_) return "bound to nothing";
  return data_->bound ? data_->bound->describe() : "nothing to compute: every output is empty";
}

Call Plan::bind(const std::vector<Binding>& bindings) const {
  (void)data();
  return Call(make_call(data_, bindings, nullptr));
}

void Plan::check(const std::vector<Binding>& bindings) const {
  const plan::Checked checked = plan::check(data(), bindings, nullptr, target());
  if (!checked.nothing_to_do) static_cast<void>(variant_for(data(), checked.in_place, checked.bindings.shape.batch));
}

Call Plan::bind(const std::vector<Binding>& bindings, void* stream) const {
  (void)data();
  return Call(make_call(data_, bindings, nullptr, stream));
}

Call Plan::bind(std::initializer_list<Binding> bindings) const { return bind(std::vector<Binding>(bindings)); }

Call Plan::bind(const std::vector<Binding>& bindings, const PackedOperand& packed) const {
  (void)data();
  const auto content = std::static_pointer_cast<const PackedData>(packed.data_);
  if (!content || content->plan != data_) {
    const std::vector<Input> inputs = data_->problem.loop().inputs();
    const auto packable = std::ranges::find_if(inputs, &Input::packable);
    const std::string of(packable == inputs.end() ? inputs.back().name : packable->name);
    throw Error(ErrorCode::usage, content ? of + " was packed for another plan" : "the packed operand is empty",
                "pack(plan, " + of + ") makes one for this plan's kernels.");
  }
  const plan::PackedInput b{.shape = packed.shape_, .data = content->data.get()};
  auto call = make_call(data_, bindings, &b);
  call->packed = content;
  return Call(std::move(call));
}

PackedOperand pack(const Plan& plan, const Tensor& b) {
  const PlanData& data = plan.data();
  const MainLoop& loop = data.problem.loop();
  const std::vector<Input> inputs = loop.inputs();
  const auto packable = std::ranges::find_if(inputs, &Input::packable);
  if (packable == inputs.end()) {
    if (inputs.size() == 1)
      throw Error(ErrorCode::unsupported, "a " + std::string(loop.name()) + " has no B to pack",
                  "Bind " + std::string(inputs[0].name) + " alone.");
    throw Error(ErrorCode::unsupported, "nothing of a " + loop.describe() + " can be packed",
                "Bind " + std::string(inputs.back().name) + " itself.");
  }
  const MainLoop::Packing given = plan::check_packable(data, b);
  Bindings bindings;
  bindings.b = given.b;
  bindings.addressing.b = given.address;
  bindings.shape = {.batch = 1, .m = 1, .n = given.n, .k = given.k};
  const bool empty = b.elements() == 0;  // nothing will be read
  std::shared_ptr<const void> packed = empty ? nullptr : data.base.executable->pack(bindings);
  if (!packed && !empty) {
    const std::string of(packable->name);
    throw Error(ErrorCode::unsupported,
                "the " + std::string(data.backend->name) + " target has no packed form of " + of + " here",
                "Bind " + of + " itself.");
  }
  PackedOperand operand;
  operand.data_ = std::make_shared<const PackedData>(PackedData{plan.data_, std::move(packed)});
  operand.k_ = given.k;
  operand.n_ = given.n;
  operand.shape_.assign(b.shape.begin(), b.shape.begin() + b.rank);
  return operand;
}

}  // namespace postlude::inline v0
