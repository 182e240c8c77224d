// The CUDA backend's two entries; see plan/backend.h.
#pragma once

#include "plan/backend.h"

#include <postlude/error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

// Why this machine cannot run a plan now, if it cannot: the driver, a GPU or NVRTC is missing, the driver too old, the
// process forked.
[[nodiscard]] std::optional<Error> unusable();

[[nodiscard]] std::vector<std::string> refusals(const Problem& problem, const lower::Program& program,
                                                const Target& target);
[[nodiscard]] std::unique_ptr<Executable> compile(const Problem& problem, std::shared_ptr<const lower::Program> program,
                                                  const Target& target);

// lower::Options::halves: each half of such a group is whole narrow subtiles, of 32 columns.
inline constexpr std::int64_t halves = 64;

// The unit roundoff of the accumulator, for the reference's bounds (tier 2). PTX leaves the tensor cores' rounding
// open. Measured by others: products are exact, each instruction aligns its 16 or 32 products and the accumulator to
// the largest of them and truncates what lies below, and so is the sum (Fasi, Higham, Mikaitis, Pranesh, "Numerical
// behavior of NVIDIA tensor cores", PeerJ CS 2021). Truncation instead of rounding doubles the unit: 2^-23. On fp8
// operands Hopper keeps 13 bits below the largest product (DeepSeek-V3 technical report, 3.3.2, which calls it about 14
// bits in all): 2^-13. tests/gpu/exact_test.cpp measures both where truncation is worst, on operands of one sign.
[[nodiscard]] double accumulator_unit(const Problem& problem);

// What truncation may lose of (|A| |B|) for each K, because every step loses in the same direction. Measured on an
// H200, operands of one sign: 0.84 x 2^-23 of the result for each 16 of K (bf16 and f16, K 1024 to 32768; 5.1e-5 at
// 8192), 4.3 x 2^-13 for each 32 (e4m3; 1.7% at 1024, 13% at 8192: the kernel does not promote). A partial sum is half
// the result on average and at most all of it, hence twice that, rounded up to a power of two.
[[nodiscard]] double accumulator_drift(const Problem& problem);

}  // namespace postlude::inline v0::cuda
