#include "plan/size.h"

#include "plan/operands.h"

#include <algorithm>

namespace postlude::inline v0::plan {

void check_extents(const Shape& shape, const std::string& what, const std::string& hint) {
  const auto [batch, m, n, k] = shape;
  if (std::min({batch, m, n, k}) < 0) throw Error(ErrorCode::size_overflow, "a size " + what + " is negative", hint);
  const std::int64_t longest = std::max({m, n, k});
  if (std::max(batch, longest) > largest_extent ||
      static_cast<double>(batch) * static_cast<double>(longest) * static_cast<double>(m + n + k) > 0x1p50)
    throw Error(ErrorCode::size_overflow, "sizes " + what + " are more than can be addressed", hint);
}

namespace {

// Tensors that stand one behind the other where nobody has memory: their addresses are never used.
class Assumed {
 public:
  explicit Assumed(const PlanData& plan) : plan_(plan) {}

  // Contiguous; `images`: in channels_last.
  Tensor tensor(DType dtype, const std::vector<std::int64_t>& extents, bool images = false) {
    Tensor tensor;
    tensor.dtype = dtype;
    tensor.device = plan_.target.device, tensor.device_index = plan_.target.device_index;
    tensor.rank = static_cast<int>(extents.size());
    std::uintptr_t stride = 1;  // wraps where the checks refuse the size
    const auto axis = [&](std::size_t i) {
      tensor.shape[i] = extents[i], tensor.strides[i] = static_cast<std::int64_t>(stride);
      stride *= static_cast<std::uintptr_t>(extents[i]);
    };
    if (images) axis(1);
    for (std::size_t i = extents.size(); i-- > 0;)
      if (!images || i != 1) axis(i);
    tensor.data = reinterpret_cast<void*>(address_);
    address_ += (stride * static_cast<std::uintptr_t>(size_of(dtype)) / apart + 1) * apart;
    return tensor;
  }

  // A tensor that lies like this one, at an address of its own.
  Tensor placed(Tensor tensor) {
    constexpr std::uintptr_t vectors = 16;  // bytes
    std::uintptr_t before = 0, behind = static_cast<std::uintptr_t>(size_of(tensor.dtype));
    for (int i = 0; i < tensor.rank; ++i) {
      const std::int64_t stride = tensor.strides[i];
      const std::uintptr_t length = static_cast<std::uintptr_t>(std::max<std::int64_t>(tensor.shape[i] - 1, 0)) *
                                    static_cast<std::uintptr_t>(size_of(tensor.dtype));
      (stride < 0 ? before : behind) += length * static_cast<std::uintptr_t>(stride < 0 ? -stride : stride);
    }
    address_ += (before / apart + 1) * apart;
    tensor.data = reinterpret_cast<void*>(address_ + reinterpret_cast<std::uintptr_t>(tensor.data) % vectors);
    tensor.device = plan_.target.device, tensor.device_index = plan_.target.device_index;
    address_ += (behind / apart + 2) * apart;
    return tensor;
  }

  // All but the inputs, at a problem's size. Images share what has no pixels, such as a bias.
  void add_others(const Shape& shape, std::vector<Binding>& bindings) {
    const auto product = plan_.problem.loop().contraction();
    const bool images = product && product->a_form == Form::windows;
    for (const Expected& one : plan_.expected) {
      if (one.role == Expected::Role::input) continue;
      std::vector<std::int64_t> extents = shape_of(plan_, one, shape);
      const bool shared = images && one.role == Expected::Role::operand && !one.axes.has(Axis::m);
      bindings.push_back({one.name, tensor(one.dtype, shared ? extents : batched(one, shape, extents))});
    }
  }

  static std::vector<std::int64_t> batched(const Expected& one, const Shape& shape, std::vector<std::int64_t> extents) {
    if (one.axes.has(Axis::b) && (one.role == Expected::Role::output || shape.batch > 1))
      extents.insert(extents.begin(), shape.batch);
    return extents;
  }

 private:
  static constexpr std::uintptr_t apart = 4096;
  const PlanData& plan_;
  std::uintptr_t address_ = apart;
};

Error how_many(std::size_t given, std::size_t inputs) {
  return Error(ErrorCode::usage,
               std::to_string(given) + " shapes are given, and the main loop has " + std::to_string(inputs) + " inputs",
               "Give a shape for each.");
}

void check_input(const Input& input, const std::vector<std::int64_t>& shape) {
  if (shape.size() > Tensor::max_rank || shape.size() < input.axes.size())
    throw Error(ErrorCode::wrong_rank, quoted(input.name) + " has " + std::to_string(input.axes.size()) +
                                           " axes, and the shape " + shape_text(shape) + " has " +
                                           std::to_string(shape.size()));
  for (const std::int64_t extent : shape)
    if (extent < 0 || extent > largest_extent)
      throw Error(ErrorCode::size_overflow,
                  "the shape " + shape_text(shape) + " of " + quoted(input.name) + " is no size");
}

}  // namespace

std::vector<std::int64_t> shape_of(const Tensor& tensor) {
  return {tensor.shape.begin(), tensor.shape.begin() + tensor.rank};
}

bool check_size(const PlanData& plan, const Shape& shape) {
  Assumed assumed(plan);
  std::vector<Binding> bindings;
  for (const Expected& one : plan.expected) {
    if (one.role != Expected::Role::input) continue;
    const std::vector<std::int64_t> extents = shape_of(plan, one, shape);
    if (extents.empty()) return true;  // the size does not tell
    bindings.push_back({one.name, assumed.tensor(one.dtype, Assumed::batched(one, shape, extents))});
  }
  assumed.add_others(shape, bindings);
  return !check(plan, bindings, nullptr, plan.target).nothing_to_do;
}

std::vector<Tensor> contiguous_inputs(const PlanData& plan, const std::vector<std::vector<std::int64_t>>& shapes) {
  const std::vector<Input> wanted = plan.problem.loop().inputs();
  if (shapes.size() != wanted.size()) throw how_many(shapes.size(), wanted.size());
  Assumed assumed(plan);
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    check_input(wanted[i], shapes[i]);
    tensors.push_back(assumed.tensor(wanted[i].dtype, shapes[i], !wanted[i].batchable));
  }
  return tensors;
}

Checked assumed(const PlanData& plan, const std::vector<Tensor>& inputs) {
  const std::vector<Input> wanted = plan.problem.loop().inputs();
  if (inputs.size() != wanted.size()) throw how_many(inputs.size(), wanted.size());
  Assumed assumed(plan);
  std::vector<Binding> bindings;
  std::vector<Given> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_input(wanted[i], shape_of(inputs[i]));
    bindings.push_back({wanted[i].name, assumed.placed(inputs[i])});
    given.push_back(postlude::given(wanted[i], bindings.back().tensor));
  }
  const Domain domain = plan.problem.loop().settle(given);
  std::int64_t batch = domain.batch.input >= 0 ? domain.batch.value : -1;
  for (const Given& one : given) batch = std::max(batch, one.batch);
  assumed.add_others({.batch = batch < 0 ? 1 : batch, .m = domain.m.value, .n = domain.n.value, .k = domain.k.value},
                     bindings);
  Checked checked = check(plan, bindings, nullptr, plan.target);
  checked.bindings.buffers.resize(plan.base.program->buffers.size());
  return checked;
}

}  // namespace postlude::inline v0::plan
