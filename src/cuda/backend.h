// The CUDA backend's two entries; see plan/backend.h.
#pragma once

#include "plan/backend.h"

#include <postlude/error.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

// Why this machine cannot run a plan now, if it cannot: the driver, a GPU or NVRTC is missing, the driver too old, the process
// forked.
[[nodiscard]] std::optional<Error> unusable();

[[nodiscard]] std::vector<std::string> refusals(const Problem& problem, const lower::Program& program,
                                                const Target& target);
[[nodiscard]] std::unique_ptr<Executable> compile(const Problem& problem, std::shared_ptr<const lower::Program> program,
                                                  const Target& target);

// The unit roundoff of the accumulator, for the reference's bounds (tier 2). PTX leaves the tensor cores' rounding
// open. Measured by others: products are exact, each instruction aligns its 16 or 32 products and the accumulator to
// the largest of them and truncates what lies below, and so is the sum (Fasi, Higham, Mikaitis, Pranesh, "Numerical
// behavior of NVIDIA tensor cores", PeerJ CS 2021). Truncation instead of rounding doubles the unit: 2^-23. On fp8
// operands Hopper keeps 13 bits below the largest product (DeepSeek-V3 technical report, 3.3.2, which calls it about 14
// bits in all): 2^-13. tests/gpu/exact_test.cpp measures both where truncation is worst, on operands of one sign.
[[nodiscard]] double accumulator_unit(const Problem& problem);

}  // namespace postlude::inline v0::cuda
