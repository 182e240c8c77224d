// The compiler's baseline: vectors of 16 bytes in the compilers' own notation, which become SSE2,
// NEON or scalar code. A product and its sum are rounded separately (the baseline need not have
// fused multiply-add).
#include "cpu/product/microkernel.h"

#include <cstddef>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace postlude::inline v0::cpu {
namespace {

struct Simd {
  typedef float F __attribute__((vector_size(16)));
  typedef std::int32_t I __attribute__((vector_size(16)));
  static constexpr int lanes = 4;
  static constexpr int panel_vectors = 2;
  static constexpr int accumulators = 12;  // 6 x 8

  static F zero() { return F{}; }
  static F set1(float x) { return F{x, x, x, x}; }
  static F load(const float* from) { return read<F>(from); }
  static void store(float* to, F x) { __builtin_memcpy(to, &x, sizeof x); }
  static F load_some(const float* from, int count) {
    if (count == lanes) return load(from);
    F x = {};
    for (int i = 0; i < count; ++i) x[i] = from[i];
    return x;
  }
  static void store_some(float* to, F x, int count) {
    if (count == lanes) return store(to, x);
    for (int i = 0; i < count; ++i) to[i] = x[i];
  }
  static F fma(F x, F y, F z) { return x * y + z; }
  static F add(F x, F y) { return x + y; }
  static F mul(F x, F y) { return x * y; }
  // The second argument where they do not compare, as the intrinsics of the other files have it.
  static F max(F x, F y) { return x > y ? x : y; }
  static F min(F x, F y) { return x < y ? x : y; }
  static float sum(F x) { return (x[0] + x[2]) + (x[1] + x[3]); }
  template <int Count>
  static F sums(const F* x) {
    F all{};
    for (int i = 0; i < Count; ++i) all[i] = sum(x[i]);
    return all;
  }
  static F as_f(I x) { return (F)x; }
  static I as_i(F x) { return (I)x; }

  static I zero_words() { return I{}; }
  static I load_words(const void* from) { return read<I>(from); }
  static void store_words(void* to, I x) { __builtin_memcpy(to, &x, sizeof x); }
  static I broadcast_word(const void* from) {
    const std::int32_t x = read<std::int32_t>(from);
    return I{x, x, x, x};
  }
  static I add_words(I x, I y) { return x + y; }
  static I madd16(I x, I y) {
#if defined(__SSE2__)
    return (I)_mm_madd_epi16((__m128i)x, (__m128i)y);
#else
    return ((x << 16) >> 16) * ((y << 16) >> 16) + (x >> 16) * (y >> 16);
#endif
  }
  static I widen_s8(const char* from) { return widen<signed char>(from); }
  static I widen_u8(const char* from) { return widen<unsigned char>(from); }

  static F from_f32(const char* from) { return read<F>(from); }
  static F from_f16(const char* from) {
    return each(from, [](std::uint16_t code) { return half_to_float(code); });
  }
  static F from_s8(const char* from) {
    return each(from, [](std::int8_t code) { return static_cast<float>(code); });
  }
  static F from_u8(const char* from) {
    return each(from, [](std::uint8_t code) { return static_cast<float>(code); });
  }
  static I to_words(F x) { return __builtin_convertvector(x, I); }
  static I widened(const unsigned char* from) { return I{from[0], from[1], from[2], from[3]}; }
  static F pick(F x, I lane) { return F{x[lane[0]], x[lane[1]], x[lane[2]], x[lane[3]]}; }
  static F from_bf16(const char* from) {
    return each(from, [](std::uint16_t code) { return bits_to_float(static_cast<std::uint32_t>(code) << 16); });
  }
  static F from_e5m2(const char* from) {  // the upper byte of an f16
    return each(from, [](std::uint8_t code) { return half_to_float(static_cast<std::uint16_t>(code << 8)); });
  }
  static F from_e4m3(const char* from) {
    return each(from, [](std::uint8_t code) {
      const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80) << 24;
      const std::uint32_t magnitude = code & 0x7f;
      if (magnitude == 0x7f) return bits_to_float(sign | 0x7fc00000);
      if (magnitude < 8) return (sign ? -0x1p-9f : 0x1p-9f) * static_cast<float>(magnitude);
      return bits_to_float(sign | ((magnitude << 20) + (120u << 23)));
    });
  }

  static void transpose(I (&r)[4]) {
    for (int i = 0; i < 4; ++i) {
      for (int j = i + 1; j < 4; ++j) {
        const std::int32_t x = r[i][j];
        r[i][j] = r[j][i];
        r[j][i] = x;
      }
    }
  }

 private:
  template <class T>
  static T read(const void* from) {
    T x;
    __builtin_memcpy(&x, from, sizeof x);
    return x;
  }
  static float bits_to_float(std::uint32_t bits) { return read<float>(&bits); }
  static float half_to_float(std::uint16_t code) {
    const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x8000) << 16;
    const std::uint32_t magnitude = code & 0x7fff;
    if (magnitude >= 0x7c00) {  // infinity; NaN made quiet
      return bits_to_float(sign | 0x7f800000 | (magnitude & 0x3ff) << 13 | (magnitude > 0x7c00 ? 0x400000 : 0));
    }
    if (magnitude < 0x400) return (sign ? -0x1p-24f : 0x1p-24f) * static_cast<float>(magnitude);
    return bits_to_float(sign | ((magnitude << 13) + (112u << 23)));
  }
  // `convert` of four consecutive codes; its parameter says how wide they are.
  template <class Code>
  static __attribute__((always_inline)) F each_of(const char* from, float (*convert)(Code)) {
    F x;
    for (int i = 0; i < lanes; ++i) x[i] = convert(read<Code>(from + i * sizeof(Code)));
    return x;
  }
  template <class Convert>
  static __attribute__((always_inline)) F each(const char* from, Convert convert) {
    return each_of(from, +convert);
  }
  template <class Byte>
  static I widen(const char* from) {
    std::int16_t pairs[2 * lanes];
    for (int i = 0; i < 2 * lanes; ++i) pairs[i] = static_cast<Byte>(from[i]);
    return read<I>(pairs);
  }
};

}  // namespace
}  // namespace postlude::inline v0::cpu

#include "cpu/product/microkernel.inc"
// (order matters)
#include "cpu/product/microkernel_float.inc"
#include "cpu/product/microkernel_integer16.inc"

namespace postlude::inline v0::cpu {
const Kernels portable_float_kernels = float_kernels;
const Kernels portable_integer_kernels = pair_kernels;
}  // namespace postlude::inline v0::cpu
