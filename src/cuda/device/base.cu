R"cuda(
// Postlude device base: types, conversions and the few PTX instructions every kernel uses. Header-free, so that NVRTC
// needs nothing but this text. The host shim (tests/cuda) defines POSTLUDE_HOST and supplies the few names that PTX does.
typedef unsigned char u8;
typedef signed char s8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define INF __int_as_float(0x7f800000)
#define QNAN __int_as_float(0x7fc00000)

#define AGREED_FUNCTION DEVICE constexpr  // of device/agreed.inc

#ifndef POSTLUDE_HOST
#define DEVICE static __device__ __forceinline__
#define DEVICE_STATIC static __device__ __forceinline__
#define METHOD __device__ __forceinline__
#define CONSTANT static __constant__ const

// x, a constant that ptxas 13.0 must not see: it makes `c ? 1.f : -0.f` a comparison that gives 1 or +0, and `|x| >= -1.f`
// true where x is NaN. No grid has 2^31 blocks.
DEVICE float hidden(float x) { return __uint_as_float(__float_as_uint(x) | gridDim.x >> 31); }
DEVICE float bf16_to_f32(u16 x) { return __uint_as_float(u32(x) << 16); }
DEVICE float f16_to_f32(u16 x) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x)); return r; }
// Two values, the first in the low half. One alone goes the same way: its own instruction takes four times as long.
DEVICE u32 f32x2_to_bf16(float a, float b) {
  u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a)); return r;
}
DEVICE u32 f32x2_to_f16(float a, float b) {
  u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a)); return r;
}
DEVICE u16 f32_to_bf16(float x) { return u16(f32x2_to_bf16(x, 0.f)); }
DEVICE u16 f32_to_f16(float x) { return u16(f32x2_to_f16(x, 0.f)); }
// Launches of one call follow each other without a gap (programmatic dependent launch): a kernel lets the next one's blocks
// come as soon as there is room, and each waits here for all that was launched before it. Nothing where it was launched alone.
DEVICE void follow_previous_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
}

DEVICE u32 smem_address(const void* p) { return u32(__cvta_generic_to_shared(p)); }
DEVICE u32 lane_id() { return threadIdx.x & 31; }

// A counter that publishes what this thread wrote before it and sees what earlier arrivals published.
DEVICE u32 arrive_and_count(u32* counter) {
  u32 r; asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(r) : "l"(counter) : "memory"); return r;
}
#endif

// fp8 saturates, as the language says; NaN stays NaN.
#if defined(POSTLUDE_HOST) || __CUDA_ARCH__ < 890
// By hand: nearest even. Below the normal numbers an addition rounds, above them one to the bits.
template <int fraction, int bias> DEVICE u32 to_fp8(float x, float largest) {
  const float size = fminf(fabsf(x), largest), least = __uint_as_float(u32(128 - bias) << 23), unit = least * (1 << (23 - fraction));
  const u32 bits = __float_as_uint(size), odd = bits >> (23 - fraction) & 1;
  const u32 code = size < least ? __float_as_uint(size + unit) - __float_as_uint(unit)
                                : ((bits + odd + (1u << (22 - fraction)) - 1) >> (23 - fraction)) - (u32(127 - bias) << fraction);
  return x != x ? 0x7f : code | (__float_as_uint(x) >> 24 & 0x80);
}
DEVICE u8 f32_to_e4m3(float x) { return u8(to_fp8<3, 7>(x, 448.f)); }
DEVICE u8 f32_to_e5m2(float x) { return u8(to_fp8<2, 15>(x, 57344.f)); }
DEVICE u16 f32x2_to_e4m3(float a, float b) { return u16(f32_to_e4m3(a) | f32_to_e4m3(b) << 8); }
DEVICE u16 f32x2_to_e5m2(float a, float b) { return u16(f32_to_e5m2(a) | f32_to_e5m2(b) << 8); }
DEVICE float e4m3_to_f32(u8 x) {
  return (x & 0x7f) == 0x7f ? QNAN : __uint_as_float(u32(x & 0x80) << 24 | u32(x & 0x7f) << 20) * 0x1p+120f;
}
DEVICE float e5m2_to_f32(u8 x) { return f16_to_f32(u16(x << 8)); }
#else
DEVICE u16 f32x2_to_e4m3(float a, float b) {
  u16 r; asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(b), "f"(a)); return r;
}
DEVICE u16 f32x2_to_e5m2(float a, float b) {
  u16 r; asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(b), "f"(a)); return r;
}
DEVICE u8 f32_to_e4m3(float x) { return u8(f32x2_to_e4m3(x, 0.f)); }
DEVICE u8 f32_to_e5m2(float x) { return u8(f32x2_to_e5m2(x, 0.f)); }
DEVICE float e4m3_to_f32(u8 x) {
  u32 r; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(u16(x))); return f16_to_f32(u16(r));
}
DEVICE float e5m2_to_f32(u8 x) {
  u32 r; asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"(u16(x))); return f16_to_f32(u16(r));
}
#endif
)cuda"
