// .npy files (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), versions 1
// to 3.
#pragma once

#include <postlude/tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace postlude::inline v0::cli {

// An array that owns its elements: contiguous, row-major, in the machine's byte order.
struct Array {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
  std::string converted_from;  // numpy's name of the file's element type, where it was another one

  Array() = default;
  Array(DType dtype, std::vector<std::int64_t> shape);  // zeros

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] Tensor view();  // of at most Tensor::max_rank axes
};

// Reads bool, i1 to i8, u1 to u8, f2, f4 and f8, of either byte order, in C or Fortran order, as
// elements of `want`: rounded to nearest, integers saturating. If unset, the dtype is the one that
// holds them best (f8 becomes f32; i2 and u2 i32; u4 and u8 i64). Raw bytes (V2, V1), as which
// numpy stores a bf16 or fp8 array, are taken where `want` is one. Throws cannot_read and bad_npy.
[[nodiscard]] Array read_npy(const std::string& path, std::optional<DType> want = {});

// The same from memory; `file` is used in errors.
[[nodiscard]] Array parse_npy(std::string_view bytes, const std::string& file, std::optional<DType> want = {});

// Writes version 1.0, little-endian, C order, whatever the tensor's strides. bf16 and fp8 are
// widened to f4. The file is there whole or not at all: it is written beside `path` and renamed.
// Throws cannot_write.
void write_npy(const std::string& path, const Tensor& tensor);

}  // namespace postlude::inline v0::cli
