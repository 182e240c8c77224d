// AVX-512 VNNI and AMX: 8-bit words. vpdpbusd multiplies u8 by s8 and sums four products into i32
// without saturation. So A's words are u8 and B's s8: s8 in A gets +128 (xor 0x80), u8 in B gets
// -128, and terms made of the other side's sums put that right. AMX has an instruction for each
// pair of types.
#include "cpu/product/microkernel.h"

#include <immintrin.h>
#include <cstddef>

#include "cpu/product/microkernel_avx512_simd.inc"
// (order matters)
#include "cpu/product/microkernel.inc"
#include "cpu/product/microkernel_amx.inc"

namespace postlude::inline v0::cpu {
namespace {

struct ByteArithmetic {
  using Acc = Simd::I;
  using Scalar = std::int32_t;
  static constexpr bool terms = true, f32_words = false;
  static Acc zero() { return Simd::zero_words(); }
  // The instruction stands here, not its intrinsic, from which gcc 12 copies and spills most of a 6
  // x 64 tile's accumulators (decision 0036).
  static Acc madd(Acc acc, Simd::I a, Simd::I b) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
  }
  static Acc load(const void* from) { return Simd::load_words(from); }
  static void store(void* to, Acc x) { Simd::store_words(to, x); }
  static Acc add(Acc x, Acc y) { return _mm512_add_epi32(x, y); }
  static Acc broadcast(const std::int32_t* from) { return _mm512_set1_epi32(*from); }
};

struct LoadBytes {
  static constexpr int bytes = 1, per_word = 4, fill = 0;
  static Simd::I word(Simd::I elements) { return elements; }
  static Simd::I load(const char* from) { return Simd::load_words(from); }
};
struct LoadFlipped {
  static constexpr int bytes = 1, per_word = 4, fill = 0x80;
  static Simd::I word(Simd::I elements) {
    return _mm512_xor_si512(elements, _mm512_set1_epi8(static_cast<char>(0x80)));
  }
  static Simd::I load(const char* from) { return word(Simd::load_words(from)); }
};

// Interleaves words of four rows' bytes in registers (decision 0036); pack_n_major does the rest.
template <class Loader>
void interleave_n_major(const char* from, Int k_stride, int columns, Int k, Word* to, Int to_row) {
  const int whole = columns / lanes * lanes;
  const Int depth = k / 4 * 4;
  for (Int at = 0; at < depth; at += 4) {
    for (int j = 0; j < whole; j += lanes) {
      const auto row = [&](Int i) {
        __builtin_prefetch(from + (at + i + n_major_ahead) * k_stride + j);
        return Simd::quarter(from + (at + i) * k_stride + j);
      };
      const __m128i a = row(0), b = row(1), c = row(2), d = row(3);
      const auto half = [](__m128i ab, __m128i cd) {
        return _mm256_set_m128i(_mm_unpackhi_epi16(ab, cd), _mm_unpacklo_epi16(ab, cd));
      };
      const __m256i low = half(_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d));
      const __m256i high = half(_mm_unpackhi_epi8(a, b), _mm_unpackhi_epi8(c, d));
      const Simd::I words = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
      Simd::store_words(to + at / 4 * to_row + j, Loader::word(words));
    }
  }
  if (whole < columns) pack_n_major<Loader>(from + whole, k_stride, columns - whole, depth, to + whole, to_row);
  if (depth < k)
    pack_n_major<Loader>(from + depth * k_stride, k_stride, columns, k - depth, to + depth / 4 * to_row, to_row);
}

bool flipped(Element element, bool b_side) { return (element == Element::u8) == b_side; }

void byte_pack_k_major(Element e, bool b_side, const char* const* starts, int columns, Int k, Word* to, Int to_row) {
  return flipped(e, b_side) ? pack_k_major<LoadFlipped>(starts, columns, k, to, to_row)
                            : pack_k_major<LoadBytes>(starts, columns, k, to, to_row);
}
void byte_pack_n_major(Element e, bool b_side, const char* from, Int k_stride, int columns, Int k, Word* to,
                       Int to_row) {
  return flipped(e, b_side) ? interleave_n_major<LoadFlipped>(from, k_stride, columns, k, to, to_row)
                            : interleave_n_major<LoadBytes>(from, k_stride, columns, k, to, to_row);
}
void byte_pack_row(Element e, bool b_side, const char* from, Int k, Word* to) {
  return flipped(e, b_side) ? pack_row<LoadFlipped>(from, k, to) : pack_row<LoadBytes>(from, k, to);
}

void sum_rows(const Word* a, Int a_row, Int a_step, int rows, Int steps, std::int32_t* sums) {
  const Simd::I ones = _mm512_set1_epi8(1);
  for (int i = 0; i < rows; ++i) {
    const Word* const row = a + i * a_row;
    Simd::I sum = Simd::zero_words();
    Int step = 0;
    if (a_step == 1) {
      for (; step + lanes <= steps; step += lanes) sum = _mm512_dpbusd_epi32(sum, Simd::load_words(row + step), ones);
    }
    std::int32_t total = _mm512_reduce_add_epi32(sum);
    for (; step < steps; ++step) {
      const Word w = row[step * a_step];
      total += static_cast<std::int32_t>((w & 0xff) + (w >> 8 & 0xff) + (w >> 16 & 0xff) + (w >> 24));
    }
    sums[i] = total;
  }
}

void sum_columns(const Word* words, Int steps, int width, std::int32_t* sums) {
  const Simd::I ones = _mm512_set1_epi8(1);
  for (int j = 0; j < width; j += lanes) {
    Simd::I sum = Simd::zero_words();
    for (Int step = 0; step < steps; ++step) {
      sum = _mm512_dpbusd_epi32(sum, ones, Simd::load_words(words + step * width + j));
    }
    Simd::store_words(sums + j, sum);
  }
}

void plain_pack_k_major(Element, bool, const char* const* starts, int columns, Int k, Word* to, Int to_row) {
  pack_k_major<LoadBytes>(starts, columns, k, to, to_row);
}
void plain_pack_n_major(Element, bool, const char* from, Int k_stride, int columns, Int k, Word* to, Int to_row) {
  interleave_n_major<LoadBytes>(from, k_stride, columns, k, to, to_row);
}
void plain_pack_row(Element, bool, const char* from, Int k, Word* to) { pack_row<LoadBytes>(from, k, to); }

template <bool a_signed, bool b_signed>
struct ByteTiles {
  template <int To, int A, int B>
  static void dot() {
    if constexpr (a_signed && b_signed)
      __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(To), "i"(A), "i"(B));
    else if constexpr (a_signed) __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(To), "i"(A), "i"(B));
    else if constexpr (b_signed) __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(To), "i"(A), "i"(B));
    else __asm__ volatile("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(To), "i"(A), "i"(B));
  }
};

template <class T>
constexpr Kernels tile_kernels() {
  return {
      .lanes = lanes,
      .panel = amx_panel,
      .word_elements = 4,
      .packed_rows = 24,
      .terms = false,
      .tiles = amx_tiles<T>,
      .pack_k_major = plain_pack_k_major,
      .pack_n_major = plain_pack_n_major,
      .pack_row = plain_pack_row,
  };
}

constexpr Kernels byte_kernels = {
    .lanes = lanes,
    .panel = panel,
    .word_elements = 4,
    .packed_rows = 12,
    .terms = true,
    .tiles = tiles<ByteArithmetic>,
    .pack_k_major = byte_pack_k_major,
    .pack_n_major = byte_pack_n_major,
    .pack_row = byte_pack_row,
    .sum_rows = sum_rows,
    .sum_columns = sum_columns,
};

}  // namespace

const Kernels avx512_integer_kernels = byte_kernels;
const Kernels amx_integer_kernels[2][2] = {
    {tile_kernels<ByteTiles<false, false>>(), tile_kernels<ByteTiles<false, true>>()},
    {tile_kernels<ByteTiles<true, false>>(), tile_kernels<ByteTiles<true, true>>()}};
}  // namespace postlude::inline v0::cpu
