#include "core/convert.h"

#include <postlude/error.h>
#include <postlude/tensor.h>

#include <algorithm>
#include <limits>

namespace postlude::inline v0 {
namespace {

int checked_rank(std::size_t rank) {
  if (rank > Tensor::max_rank) {
    throw Error(ErrorCode::wrong_rank,
                "a tensor has at most " + std::to_string(Tensor::max_rank) + " axes, not " + std::to_string(rank));
  }
  return static_cast<int>(rank);
}

// A product that is too large to be a size is the largest one: what binds a tensor refuses it.
std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max() : product;
}

}  // namespace

Tensor::Tensor(const void* data, DType dtype, std::span<const std::int64_t> shape)
    : data(const_cast<void*>(data)), dtype(dtype), rank(checked_rank(shape.size())) {
  std::copy(shape.begin(), shape.end(), this->shape.begin());
  std::int64_t stride = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride = times(stride, std::max<std::int64_t>(this->shape[axis], 1));
  }
}

Tensor::Tensor(const void* data, DType dtype, std::initializer_list<std::int64_t> shape)
    : Tensor(data, dtype, std::span(shape.begin(), shape.size())) {}

Tensor::Tensor(const void* data, DType dtype, std::span<const std::int64_t> shape,
               std::span<const std::int64_t> strides)
    : Tensor(data, dtype, shape) {
  if (strides.size() != shape.size()) {
    throw Error(ErrorCode::wrong_stride, "a tensor needs one stride for each axis");
  }
  std::copy(strides.begin(), strides.end(), this->strides.begin());
}

Tensor::Tensor(const void* data, DType dtype, std::initializer_list<std::int64_t> shape,
               std::initializer_list<std::int64_t> strides)
    : Tensor(data, dtype, std::span(shape.begin(), shape.size()), std::span(strides.begin(), strides.size())) {}

Tensor Tensor::scalar(double number, DType dtype) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.by_value = true;
  core::store_real(core::checked(dtype), tensor.value.data(), 0, number);
  return tensor;
}

Tensor Tensor::on(Device where, int index) const {
  Tensor copy = *this;
  copy.device = where;
  copy.device_index = index;
  return copy;
}

std::int64_t Tensor::elements() const {
  std::int64_t count = 1;
  for (int axis = 0; axis < std::min(rank, max_rank); ++axis) count = times(count, shape[axis]);
  return count;
}

}  // namespace postlude::inline v0
