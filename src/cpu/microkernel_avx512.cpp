// AVX-512 F, BW, DQ, VL: f32 words.
#include "cpu/microkernel.h"

#include <immintrin.h>
#include <cstddef>

#include "cpu/microkernel_avx512_simd.inc"
// (order matters)
#include "cpu/microkernel.inc"
#include "cpu/microkernel_float.inc"

namespace postlude::inline v0::cpu {
const Kernels avx512_float_kernels = float_kernels;
}
