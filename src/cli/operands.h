// The operands of `postlude run`: read from NAME=FILE.npy, set by NAME=0.5, or drawn.
#pragma once

#include "cli/npy.h"
#include "cli/options.h"

#include <cstdint>
#include <string>
#include <vector>

namespace postlude::inline v0::cli {

// The array that a slot of a plan is bound to. `tensor` views `array`, B's transposed (drawn B is
// stored N x K).
struct BoundOperand {
  Plan::Slot slot;
  Array array;
  Tensor tensor;
  std::string source;  // the file, "0.5", "drawn", or "output"
};

// NAME=VALUE of the command line.
struct Assignment {
  std::string name, value;
};
[[nodiscard]] std::vector<Assignment> parse_assignments(const std::vector<std::string>& arguments);

// Makes an operand for each slot of the plan, outputs allocated and poisoned. Sizes that the
// command line leaves open are taken from the files of A and B, or X, and written to `sizes`.
[[nodiscard]] std::vector<BoundOperand> make_operands(const Plan& plan, const std::vector<Assignment>& given,
                                                      std::optional<Sizes>& sizes, std::int64_t batch,
                                                      std::uint64_t seed);

}  // namespace postlude::inline v0::cli
