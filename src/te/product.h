// Products of matrices among stages: they run on the main loop for them.
#pragma once

#include "te/nest.h"

#include <array>
#include <memory>
#include <optional>
#include <span>

namespace postlude::inline v0::te {

// acc[i, j] = sum over k of A[..] * B[..], perhaps in batches, with an epilogue behind it.
struct Product {
  int a = -1, b = -1;  // their numbers among the arguments
  // Which axes of A are the batch, M and K; of B the batch, K and N. -1: none.
  std::array<int, 3> a_axes{-1, -1, -1}, b_axes{-1, -1, -1};
  bool batched = false;
  std::vector<std::pair<std::string, int>> bound;  // operands and outputs of the epilogue, and their numbers
  Plan plan;

  void run(std::span<const v0::Tensor> arrays, void* stream) const;
};

// Nothing where the schedule has calls, or computes something else.
[[nodiscard]] std::optional<Product> find_product(const ScheduleNode& schedule, const Nest& nest, const Target& target);

}  // namespace postlude::inline v0::te
