// AVX-512 F, BW, DQ, VL: f32 words.
#include "cpu/product/microkernel.h"

#include <immintrin.h>
#include <cstddef>

#include "cpu/product/microkernel_avx512_simd.inc"
// (order matters)
#include "cpu/product/microkernel.inc"
#include "cpu/product/microkernel_float.inc"

namespace postlude::inline v0::cpu {
const Kernels avx512_float_kernels = float_kernels;
}
