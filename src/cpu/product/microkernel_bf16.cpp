// AVX-512 BF16: pairs of bf16. vdpbf16ps adds two products to an f32, the upper numbers' first,
// each rounded once, as a fused multiply-add is; but it takes denormal numbers for zeros, whatever
// the processor is told (decision 0029). So does AMX, which sums the products of 16 pairs' lower
// numbers and those of their upper numbers, each rounded once, and adds the sum of both to the f32.
#include "cpu/product/microkernel.h"

#include <immintrin.h>
#include <cstddef>

#include "cpu/product/microkernel_avx512_simd.inc"
// (order matters)
#include "cpu/product/microkernel.inc"
#include "cpu/product/microkernel_amx.inc"

namespace postlude::inline v0::cpu {
namespace {

struct PairArithmetic : FloatArithmetic {
  static constexpr bool f32_words = false;
  // The instruction stands here, not its intrinsic, as in microkernel_vnni.cpp.
  static Acc madd(Acc acc, Simd::I a, Simd::I b) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
  }
};

Simd::F upper(Simd::I x) { return Simd::as_f(_mm512_and_si512(x, _mm512_set1_epi32(-0x10000))); }
Simd::F lower(Simd::I x) { return Simd::as_f(_mm512_slli_epi32(x, 16)); }

// The same arithmetic in two steps, with denormal numbers.
struct CarefulArithmetic : FloatArithmetic {
  static constexpr bool f32_words = false;
  static Acc madd(Acc acc, Simd::I a, Simd::I b) {
    return Simd::fma(lower(a), lower(b), Simd::fma(upper(a), upper(b), acc));
  }
};

struct PairTiles {
  template <int To, int A, int B>
  static void dot() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(To), "i"(A), "i"(B));
  }
};

// AMX's sums, with denormal numbers.
void careful_amx_tiles(const TileRun& run) {
  for (int row = 0; row < run.rows; ++row) {
    for (Int column = 0; column < run.columns; column += lanes) {
      const Int first = column / amx_panel * amx_panel;
      const Int width = smaller((run.columns - first + lanes - 1) / lanes * lanes, amx_panel);
      const Word* const b = run.b + first * run.steps + column % amx_panel;
      float* const c = static_cast<float*>(run.c) + row * run.c_row + column;
      Simd::F acc = run.accumulate ? Simd::load(c) : Simd::zero();
      for (Int step = 0; step < run.steps; step += amx_steps) {
        Simd::F low = Simd::zero(), high = Simd::zero();
        for (Int s = step; s < smaller(step + amx_steps, run.steps); ++s) {
          const Simd::I left = Simd::broadcast_word(run.a + row * run.a_row + s * run.a_step);
          const Simd::I right = Simd::load_words(b + s * width);
          low = Simd::fma(lower(left), lower(right), low);
          high = Simd::fma(upper(left), upper(right), high);
        }
        acc = Simd::add(acc, Simd::add(low, high));
      }
      Simd::store(c, acc);
    }
  }
  finish(run);
}

int least_exponent(const Word* words, Int to_row, Int rows, Int width) {
  const Simd::I one = _mm512_set1_epi16(1);
  Simd::I least = _mm512_set1_epi16(-1);
  for (Int i = 0; i < rows; ++i, words += to_row) {
    for (Int j = 0; j < width; j += lanes) {  // twice a number loses its sign; less one, zero becomes the largest
      const Simd::I x = Simd::load_words(words + j);
      least = _mm512_min_epu16(least, _mm512_sub_epi16(_mm512_add_epi16(x, x), one));
    }
  }
  least = _mm512_min_epu16(least, _mm512_srli_epi32(least, 16));
  const Simd::I lower = _mm512_and_si512(least, _mm512_set1_epi32(0xffff));
  return static_cast<int>((_mm512_reduce_min_epu32(lower) + 1) >> 8);
}

struct LoadPairs {
  static constexpr int bytes = 2, per_word = 2, fill = 0;
  static Simd::I load(const char* from) { return Simd::load_words(from); }
};

void bf16_pack_k_major(Element, bool, const char* const* starts, int columns, Int k, Word* to, Int to_row) {
  pack_k_major<LoadPairs>(starts, columns, k, to, to_row);
}
void bf16_pack_n_major(Element, bool, const char* from, Int k_stride, int columns, Int k, Word* to, Int to_row) {
  for (Int at = 0; at < k; at += 2, from += 2 * k_stride, to += to_row) {
    for (int j = 0; j < columns; j += lanes) {
      const __mmask16 some = Simd::first(static_cast<int>(smaller(columns - j, lanes)));
      const auto load = [&](const char* row) {
        __builtin_prefetch(row + j * 2 + n_major_ahead * k_stride);
        return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, row + j * 2));
      };
      const Simd::I upper = at + 1 < k ? load(from + k_stride) : Simd::zero_words();
      Simd::store_words(to + j, _mm512_or_si512(load(from), _mm512_slli_epi32(upper, 16)));
    }
  }
}
void bf16_pack_row(Element, bool, const char* from, Int k, Word* to) { pack_row<LoadPairs>(from, k, to); }

using TilesFn = void (*)(const TileRun& run);
constexpr Kernels pair_kernels(int panel, int packed_rows, TilesFn tiles, TilesFn careful) {
  return {
      .lanes = lanes,
      .panel = panel,
      .word_elements = 2,
      .packed_rows = packed_rows,
      .terms = false,
      .tiles = tiles,
      .pack_k_major = bf16_pack_k_major,
      .pack_n_major = bf16_pack_n_major,
      .pack_row = bf16_pack_row,
      .careful_tiles = careful,
      .least_exponent = least_exponent,
      .store_direct = store_direct,
  };
}

}  // namespace

const Kernels avx512_bf16_kernels = pair_kernels(panel, 12, tiles<PairArithmetic>, tiles<CarefulArithmetic>);
const Kernels amx_bf16_kernels = pair_kernels(amx_panel, 24, amx_tiles<PairTiles>, careful_amx_tiles);
}  // namespace postlude::inline v0::cpu
