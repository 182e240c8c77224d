#include "arrays.h"

#include <cmath>
#include <random>

namespace postlude::bench {

std::vector<Binding> Arrays::bindings(const Plan& plan) {
  std::vector<Binding> bindings;
  for (const Plan::Slot& slot : plan.slots()) {
    const Tensor tensor = get(plan, slot);
    bindings.push_back({all_.find(slot.name)->first, tensor});
  }
  return bindings;
}

Tensor Arrays::get(const Plan& plan, const Plan::Slot& slot) {
  const std::vector<Int> shape = plan.shape_of(slot.name, m_, n_, k_);
  Int elements = 1;
  for (const Int extent : shape) elements *= extent;
  Bytes& bytes = all_[slot.name];
  if (!bytes) {
    bytes = allocate(static_cast<std::size_t>(elements * size_of(slot.dtype)));
    if (!slot.output) draw(slot, elements, bytes.get());
  }
  Tensor tensor;
  tensor.data = bytes.get();
  tensor.dtype = slot.dtype;
  tensor.rank = static_cast<int>(shape.size());
  Int stride = 1;
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    const auto at = static_cast<std::size_t>(axis);
    tensor.shape[at] = shape[at];
    tensor.strides[at] = stride;
    stride *= shape[at];
  }
  if (slot.name == "B" && b_k_major_) tensor.strides = {1, k_};  // stored N x K
  return tensor;
}

void Arrays::draw(const Plan::Slot& slot, Int elements, std::byte* to) const {
  std::mt19937 random(static_cast<unsigned>(slot.name.size() + static_cast<unsigned char>(slot.name[0])));
  if (slot.dtype == DType::i64) {
    for (Int i = 0; i < elements; ++i)
      reinterpret_cast<Int*>(to)[i] = static_cast<Int>(random() % static_cast<unsigned>(n_));
    return;
  }
  if (slot.dtype == DType::boolean) {
    for (Int i = 0; i < elements; ++i) to[i] = std::byte(random() % 8 != 0);
    return;
  }
  auto* const x = reinterpret_cast<float*>(to);
  const auto found = values_.find(slot.name);
  const Values values = found == values_.end() ? Values::normal : found->second;
  std::normal_distribution<float> normal(0.0f, slot.name == "B" ? 1.0f / std::sqrt(static_cast<float>(k_)) : 1.0f);
  std::uniform_real_distribution<float> uniform(0.0f, 1.0f);
  for (Int i = 0; i < elements; ++i) {
    if (values == Values::scale) x[i] = 0.75f + 0.5f * uniform(random);
    else x[i] = values == Values::unit ? uniform(random) : normal(random);
  }
  if (slot.name == "alpha") x[0] = 1.5f;
  if (slot.name == "beta") x[0] = 0.5f;
}

}  // namespace postlude::bench
