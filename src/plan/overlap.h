// Which bytes a strided view touches, and whether two views share any.
#pragma once

#include <postlude/tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace postlude::inline v0::plan {

// The view's sizes must be addressable (check_memory() in operands.cpp): no arithmetic here overflows then.
struct Footprint {
  struct Dim {
    std::int64_t extent = 1;
    std::int64_t stride = 0;  // in bytes
  };
  std::uintptr_t base = 0;
  std::int64_t element = 1;  // bytes
  std::array<Dim, Tensor::max_rank> dims{};
  int rank = 0;  // axes of extent 1 are left out
  bool empty = false;
};

[[nodiscard]] Footprint footprint(const Tensor& tensor);

// Whether some byte belongs to both. Exact for the views that occur (rows, columns and blocks of one array, interleaved
// ones too); true where deciding would take more than some ten thousand steps.
[[nodiscard]] bool overlap(const Footprint& a, const Footprint& b);

// Ordered pairs of different views, both ways, whose first and last bytes leave it open whether they overlap, sorted:
// few where the views are arrays of their own, however many there are.
[[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> near(const std::vector<Footprint>& views);

// Whether two elements of one view may share a byte: some stride is not larger than all that the smaller ones span.
[[nodiscard]] bool overlaps_itself(const Footprint& a);

}  // namespace postlude::inline v0::plan
