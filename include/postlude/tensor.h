// A view of somebody else's array.
#pragma once

#include <postlude/dtype.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace postlude::inline v0 {

enum class Device : std::uint8_t { cpu, cuda };

// `data` points at element (0, 0, ...). Shape and strides count elements, outermost axis first;
// strides may be 0 or negative for inputs. The view owns nothing: the array must outlive every Call
// that is bound to it.
struct Tensor {
  static constexpr int max_rank = 12;

  void* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::array<std::int64_t, max_rank> shape{};
  std::array<std::int64_t, max_rank> strides{};
  Device device = Device::cpu;
  int device_index = 0;
  // A scalar by value: its one element. `data` and `device` mean nothing then.
  bool by_value = false;
  alignas(8) std::array<std::byte, 8> value{};

  Tensor() = default;
  // Contiguous, row-major. Throws wrong_rank for more axes than max_rank.
  Tensor(const void* data, DType dtype, std::span<const std::int64_t> shape);
  Tensor(const void* data, DType dtype, std::initializer_list<std::int64_t> shape);
  // Throws wrong_stride where there is not one stride for each axis.
  Tensor(const void* data, DType dtype, std::span<const std::int64_t> shape, std::span<const std::int64_t> strides);
  Tensor(const void* data, DType dtype, std::initializer_list<std::int64_t> shape,
         std::initializer_list<std::int64_t> strides);
  // A scalar operand by value: the Call keeps it, on whatever device it runs, and no kernel is
  // compiled for it. Rounded to `dtype`, which must be the operand's.
  [[nodiscard]] static Tensor scalar(double number, DType dtype = DType::f32);
  [[nodiscard]] Tensor on(Device where, int index = 0) const;  // the same view, said to be on `where`

  [[nodiscard]] std::int64_t elements() const;
};

}  // namespace postlude::inline v0
