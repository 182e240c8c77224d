// A fuzzing case on a GPU: its tensors copied there between red zones, run twice, and copied back.
#pragma once

#include "fuzz/oracle.h"

#include <string>

namespace postlude::gpu_tests {

// "" where a Hopper or newer GPU and NVRTC are here, else why not.
[[nodiscard]] std::string missing();

// fuzz::Runner. Throws std::runtime_error where a red zone was written.
[[nodiscard]] fuzz::Runs run_on_device(const fuzz::Case& c, fuzz::Tensors& tensors, const Target& target);

// The case with half-precision operands of A and B, so that tensor cores run it, where its accumulator is f32.
[[nodiscard]] fuzz::Case on_tensor_cores(fuzz::Case c);

// Case `seed` as this backend's fuzzing draws it: one in four as the grammar gives it, the rest on tensor cores.
[[nodiscard]] fuzz::Case draw(std::uint64_t seed);

// Everything that must hold for it on the device; "" or what went wrong.
[[nodiscard]] std::string check_on_device(const fuzz::Case& c);

}  // namespace postlude::gpu_tests
