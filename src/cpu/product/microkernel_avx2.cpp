// AVX2, FMA and F16C: f32 words, and 8-bit integers as 16-bit pairs.
#include "cpu/product/microkernel.h"

#include <immintrin.h>
#include <cstddef>

namespace postlude::inline v0::cpu {
namespace {

struct Simd {
  using F = __m256;
  using I = __m256i;
  static constexpr int lanes = 8;
  static constexpr int panel_vectors = 2;
  static constexpr int accumulators = 12;  // of 16 registers: 6 x 16

  // All ones in the first `count` lanes.
  static I first(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }

  static F zero() { return _mm256_setzero_ps(); }
  static F set1(float x) { return _mm256_set1_ps(x); }
  static F load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, F x) { _mm256_storeu_ps(to, x); }
  static F load_some(const float* from, int count) {
    return count == lanes ? load(from) : _mm256_maskload_ps(from, first(count));
  }
  static void store_some(float* to, F x, int count) {
    if (count == lanes) return store(to, x);
    _mm256_maskstore_ps(to, first(count), x);
  }
  static F fma(F x, F y, F z) { return _mm256_fmadd_ps(x, y, z); }
  static F add(F x, F y) { return _mm256_add_ps(x, y); }
  static F mul(F x, F y) { return _mm256_mul_ps(x, y); }
  static F max(F x, F y) { return _mm256_max_ps(x, y); }
  static F min(F x, F y) { return _mm256_min_ps(x, y); }
  static float sum(F x) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
  }
  // See microkernel_avx512_simd.inc.
  template <int Count>
  static __attribute__((always_inline)) F sums(const F* x) {
    const auto halves = [x](int i) __attribute__((always_inline)) {
      const auto at = [x](int i) { return x[i < Count ? i : i % 4 < Count ? i % 4 : 0]; };
      const F a = at(i), b = at(4 + i);
      return add(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
    };
    const auto pairs = [](F a, F b) { return add(_mm256_blend_ps(a, b, 0xcc), _mm256_shuffle_ps(a, b, 0x4e)); };
    return _mm256_hadd_ps(pairs(halves(0), halves(1)), pairs(halves(2), halves(3)));
  }
  static F as_f(I x) { return _mm256_castsi256_ps(x); }
  static I as_i(F x) { return _mm256_castps_si256(x); }

  static I zero_words() { return _mm256_setzero_si256(); }
  static I load_words(const void* from) { return _mm256_loadu_si256(static_cast<const I*>(from)); }
  static void store_words(void* to, I x) { _mm256_storeu_si256(static_cast<I*>(to), x); }
  static int read_word(const void* from) {  // which may hold a float
    int word;
    __builtin_memcpy(&word, from, sizeof word);
    return word;
  }
  static I broadcast_word(const void* from) { return _mm256_set1_epi32(read_word(from)); }
  static I add_words(I x, I y) { return _mm256_add_epi32(x, y); }
  static I madd16(I x, I y) { return _mm256_madd_epi16(x, y); }

  static __m128i half(const char* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
  static __m128i quarter(const char* from) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)); }
  static I widen_s8(const char* from) { return _mm256_cvtepi8_epi16(half(from)); }
  static I widen_u8(const char* from) { return _mm256_cvtepu8_epi16(half(from)); }

  static F from_f32(const char* from) { return _mm256_loadu_ps(reinterpret_cast<const float*>(from)); }
  static F from_f16(const char* from) { return _mm256_cvtph_ps(half(from)); }
  static F from_s8(const char* from) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(quarter(from))); }
  static F from_u8(const char* from) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(quarter(from))); }
  static I to_words(F x) { return _mm256_cvtps_epi32(x); }
  static F from_bf16(const char* from) { return as_f(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half(from)), 16)); }
  static F from_e5m2(const char* from) {  // the upper byte of an f16
    return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(quarter(from)), 8));
  }
  // See microkernel_avx512_simd.inc.
  static F from_e4m3(const char* from) {
    const I code = _mm256_cvtepu8_epi32(quarter(from));
    const I sign = _mm256_slli_epi32(_mm256_and_si256(code, _mm256_set1_epi32(0x80)), 24);
    const I magnitude = _mm256_and_si256(code, _mm256_set1_epi32(0x7f));
    const I normal = _mm256_add_epi32(_mm256_slli_epi32(magnitude, 20), _mm256_set1_epi32(120 << 23));
    const F tiny = _mm256_mul_ps(_mm256_cvtepi32_ps(magnitude), set1(0x1p-9f));
    const I is_tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), magnitude);
    const I is_nan = _mm256_cmpeq_epi32(magnitude, _mm256_set1_epi32(0x7f));
    F value = _mm256_blendv_ps(as_f(normal), tiny, as_f(is_tiny));
    value = _mm256_blendv_ps(value, as_f(_mm256_set1_epi32(0x7fc00000)), as_f(is_nan));
    return _mm256_or_ps(value, as_f(sign));
  }

  // See microkernel_avx512_simd.inc.
  static __m128i some_of_quad(int count) { return _mm_cmpgt_epi32(_mm_set1_epi32(count), _mm_setr_epi32(0, 1, 2, 3)); }
  static __m128 load_quad(const float* from, int count) {
    return count == 4 ? _mm_loadu_ps(from) : _mm_maskload_ps(from, some_of_quad(count));
  }
  template <class At>
  static F quads(At at, int count) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(load_quad(at(0), count)), load_quad(at(1), count), 1);
  }
  template <class At>
  static void store_quads(F x, At at, int quads, int count) {
    const __m128i some = some_of_quad(count);
    _mm_maskstore_ps(at(0), some, _mm256_castps256_ps128(x));
    if (quads > 1) _mm_maskstore_ps(at(1), some, _mm256_extractf128_ps(x, 1));
  }
  static void turn(F (&x)[4]) {
    const __m256d low = _mm256_castps_pd(_mm256_unpacklo_ps(x[0], x[1])),
                  high = _mm256_castps_pd(_mm256_unpackhi_ps(x[0], x[1]));
    const __m256d low2 = _mm256_castps_pd(_mm256_unpacklo_ps(x[2], x[3])),
                  high2 = _mm256_castps_pd(_mm256_unpackhi_ps(x[2], x[3]));
    x[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, low2)), x[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, low2));
    x[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(high, high2)), x[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(high, high2));
  }
  static I widened(const unsigned char* from) {
    return _mm256_cvtepu8_epi32(quarter(reinterpret_cast<const char*>(from)));
  }
  static F pick(F x, I lane) { return _mm256_permutevar8x32_ps(x, lane); }

  static void transpose(I (&r)[8]) {
    I t[8], u[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      t[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
      t[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      u[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
      u[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
      u[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
      u[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      r[i] = _mm256_permute2x128_si256(u[i], u[4 + i], 0x20);
      r[4 + i] = _mm256_permute2x128_si256(u[i], u[4 + i], 0x31);
    }
  }

  // See microkernel_avx512_simd.inc.
  template <bool Some>
  static __attribute__((always_inline)) void columns(const float* from, std::int64_t distance, int count, F (&x)[8]) {
    I r[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = as_i(Some ? load_some(from + i * distance, count) : load(from + i * distance));
    transpose(r);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) x[i] = as_f(r[i]);
  }
};

}  // namespace
}  // namespace postlude::inline v0::cpu

#include "cpu/product/microkernel.inc"
// (order matters)
#include "cpu/product/microkernel_float.inc"
#include "cpu/product/microkernel_integer16.inc"

namespace postlude::inline v0::cpu {
const Kernels avx2_float_kernels = float_kernels;
const Kernels avx2_integer_kernels = pair_kernels;
}  // namespace postlude::inline v0::cpu
