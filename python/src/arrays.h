// Other people's arrays as Tensors, and new arrays of the same kind. numpy is read through its C interface (30 ns an
// array), torch through its attributes (no capsule, every dtype, no extra synchronisation), all others through DLPack.
#pragma once

#include "bindings.h"

#include <postlude/tensor.h>

#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace postlude::inline v0::python {

enum class Framework : std::uint8_t { numpy, torch, cupy, jax };

struct Array {
  Tensor tensor;
  Framework framework = Framework::numpy;
  bool number = false;  // a Python number, now a 0-d array of numpy
  bool read_only = false;
  nb::object owner;     // the array itself, which keeps the memory alive,
  nb::object exported;  // or this does: what __dlpack__ exported may be a temporary
};

void load_numpy();

// A number of Python or numpy: an integer that fits, else a real, infinite where it is beyond all reals; nothing of
// what is no real number.
[[nodiscard]] std::optional<std::variant<std::int64_t, double>> number_of(nb::handle object);

// `name` is for messages. A number becomes a 0-d array of `number_type`, converted as docs/language.md says. Throws
// Error 03xx.
[[nodiscard]] Array read_array(nb::handle object, std::string_view name, DType number_type = DType::f32);

// An uninitialised, contiguous array. jax's arrays cannot be written, so theirs is made of numpy's by `finished`.
[[nodiscard]] Array new_array(Framework framework, DType type, std::span<const std::int64_t> shape, const Tensor& like);
[[nodiscard]] nb::object finished(Framework framework, const nb::object& array);

// A number on a CUDA device, as an array of `framework`.
[[nodiscard]] Array number_on_device(const Array& number, Framework framework, const Tensor& like);

// The stream that the framework works on now, as a CUstream.
[[nodiscard]] void* current_stream(Framework framework, int device_index);

[[nodiscard]] nb::object copy_to_numpy(const float* data, std::int64_t n);
void copy_from_numpy(const nb::object& array, float* out, std::int64_t n);

}  // namespace postlude::inline v0::python
