#include "loop/main_loop.h"

#include <postlude/error.h>

#include <algorithm>

namespace postlude::inline v0 {

std::string Given::text() const {
  std::string text = packed ? "packed " + std::string(name) : quoted(name);
  const char* before = " (";
  const auto add = [&](std::int64_t extent) {
    text += before + std::to_string(extent);
    before = ", ";
  };
  if (batch >= 0) add(batch);
  for (int axis = 0; axis < rank; ++axis) add(shape[static_cast<std::size_t>(axis)]);
  return text + (rank + (batch >= 0) == 1 ? ",)" : ")");
}

Given given(const Input& input, const Tensor& tensor) {
  Given result;
  result.name = input.name;
  result.data = tensor.data;
  result.dtype = tensor.dtype;
  result.rank = static_cast<int>(input.axes.size());
  const auto first = static_cast<std::size_t>(tensor.rank - result.rank);
  if (first == 1) {
    result.batch = tensor.shape[0];
    result.batch_stride = tensor.shape[0] > 1 ? tensor.strides[0] : 0;
  }
  for (std::size_t axis = 0; axis < input.axes.size(); ++axis) {
    result.shape[axis] = tensor.shape[axis + first];
    result.strides[axis] = result.shape[axis] > 1 ? tensor.strides[axis + first] : 0;
  }
  return result;
}

Given given_packed(const Input& input, std::span<const std::int64_t> shape) {
  Given result;
  result.name = input.name;
  result.dtype = input.dtype;
  result.rank = static_cast<int>(shape.size());
  std::ranges::copy(shape, result.shape.begin());
  result.packed = true;
  return result;
}

MainLoop::Packing MainLoop::packing(const Given& b) const { return {b.bound(), {}, b.shape[0], b.shape[1]}; }

double MainLoop::operations(const Shape& shape) const {
  if (!contraction()) return 0;
  return 2 * static_cast<double>(shape.batch) * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
         static_cast<double>(shape.k);
}

double MainLoop::bytes(const Shape& shape) const {
  double bytes = 0;
  const std::vector<Input> all = inputs();
  for (std::size_t i = 0; i < all.size(); ++i) {
    double size = static_cast<double>(size_of(all[i].dtype)) * static_cast<double>(shape.batch);
    for (const std::int64_t extent : shape_of(i, shape)) size *= static_cast<double>(extent);
    bytes += size;
  }
  return bytes;
}

DType product_accumulator(const Input& a, const Input& b) {
  const auto integer = [](DType type) { return type == DType::s8 || type == DType::u8; };
  if (integer(a.dtype) && integer(b.dtype)) return DType::i32;
  if (is_float(a.dtype) && is_float(b.dtype)) return DType::f32;
  const auto usable = [&](DType type) { return is_float(type) || integer(type); };
  throw Error(ErrorCode::unsupported,
              std::string(a.name) + " is " + std::string(name(a.dtype)) + " and " + std::string(b.name) + " is " +
                  std::string(name(b.dtype)) + ": a product needs two float types, or two of s8 and u8",
              usable(a.dtype) || usable(b.dtype) ? "Convert one of them first." : "Convert both first.");
}

DType default_operand(DType leading) {
  return leading == DType::f32 || leading == DType::f16 || leading == DType::bf16 ? leading : DType::f32;
}

DType default_output(DType leading) { return is_float(leading) ? leading : DType::f32; }

std::string looks_transposed(std::string_view name) {
  return "It looks transposed: bind " + std::string(name) +
         ".T, the view with its two extents and their strides swapped.";
}

}  // namespace postlude::inline v0
