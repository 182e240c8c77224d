// The kernels that the matrix product asks of an instruction set: plain data and function pointers.
//
// The translation units behind this (microkernel_<isa>.cpp) are compiled with that instruction
// set's flags. They include this header, <cstdint> and intrinsics only: an inline function of a
// library, compiled there, could be the copy that the linker keeps for everyone.
//
// Words. All packed operands consist of 32-bit words: one f32 (also what f16, bf16, e4m3 and e5m2
// are converted to), two bf16, two 16-bit integers, or four 8-bit integers, consecutive in K. A
// *step* is one word's worth of K. So the arithmetic is a parameter of one kernel: acc[i][j] +=
// dot(A word (i, step), B word (step, j)).
//
// Packed B is a sequence of *panels*: up to `panel` columns wide (a whole number of vectors),
// `steps` rows of contiguous words. Packed A is a *row group* of up to `row_group` rows: at(i,
// step) = a[i * a_row + step * a_step], which can also address A itself, unpacked.
#pragma once

#include <cstdint>

namespace postlude::inline v0::cpu {

enum class Element : std::uint8_t { f32, f16, bf16, e4m3, e5m2, s8, u8 };

// So many rows are computed, and handed on, together. Every register tile's height divides them.
inline constexpr int row_group = 24;
// The widest panel of any instruction set, in columns.
inline constexpr int max_panel = 64;

// The cheapest epilogues, done in registers and stored straight into an f32 output with unit column
// stride:
//   x = fma(acc, alpha, bias[n]);  x = x + add[m, n];  out[m, n] = min(max(x, lo), hi)
// or, with beta, BLAS's form: x = fma(acc, alpha, beta * add[m, n]), and where beta is 0 the
// product is 0 and add is not read. Absent parts are alpha = 1, null, and infinite bounds, and
// change no bit. NaN passes through the bounds; with lo == 0 of either sign the result is max's (+0
// beats -0). hi must not be zero. `add` may be `out` itself. All strides are in elements.
struct Direct {
  float* out = nullptr;
  std::int64_t row_stride = 0;
  const float* bias = nullptr;  // N values
  const float* add = nullptr;   // M x N, unit column stride
  std::int64_t add_row_stride = 0;
  float alpha = 1.0f;
  bool has_beta = false;
  float beta = 0.0f;
  float lo = -__builtin_inff();
  float hi = __builtin_inff();
};

// Memory that the consumer of a block will touch. The lines of (row, column) are asked for while
// the block is computed.
struct Prefetch {
  const void* base = nullptr;      // element (0, 0)
  std::int64_t row_stride = 0;     // bytes
  std::int64_t element_bytes = 0;  // column stride; columns further apart than 64 bytes are not worth prefetching
};

// Memory that is needed soon is asked for (into L2) while tiles are computed: `lines` lines in
// every ahead_steps, from where the last call stopped: few at once, which else wait for each other (decision 0175).
// Without it packing the next block waits for L3 or memory. A's rows are asked for by TileRun::a_rows, if at all:
// mostly the processor sees them coming (decision 0036).
inline constexpr int ahead_steps = 16;
struct Ahead {
  const char* row = nullptr;
  std::int64_t row_stride = 0;  // bytes
  std::int64_t row_bytes = 0;
  std::int64_t rows = 0;    // left
  std::int64_t column = 0;  // bytes done in this row
  int lines = 0;
};

// A stretch of K along which each row of A lies contiguous somewhere: a tap's channels (decision 0170).
struct Stretch {
  std::int64_t steps = 0;
  std::uint32_t outside = 0;  // bit i: row i is zeros; a tile of such rows skips it
  const std::uint32_t* rows[row_group];
};

// One row group times a run of panels.
struct TileRun {
  const std::uint32_t* a = nullptr;
  std::int64_t a_row = 0;   // words
  std::int64_t a_step = 0;  // words
  int rows = 0;             // 1 ... row_group
  // If not null (f32 words), the rows are found here instead of at a; the stretches' steps add up to `steps`.
  const Stretch* stretches = nullptr;
  int stretch_count = 0;

  const std::uint32_t* b = nullptr;  // first panel; the next begins steps * panel words later
  // If not null (f32 words), full panels are not packed yet. They lie at b, contiguous in N, b_row
  // words from one step to the next, and are packed here while they are multiplied by the first
  // rows, which must be a tile at least (decision 0036).
  std::uint32_t* b_copy = nullptr;
  std::int64_t b_row = 0;
  std::int64_t steps = 0;
  std::int64_t columns = 0;  // every panel but the last is full; the last is padded to whole vectors

  void* c = nullptr;        // f32 or i32, stride 1 in columns; written in whole vectors
  std::int64_t c_row = 0;   // elements
  bool accumulate = false;  // add to what is there

  // Integer kernels whose words are biased (see Kernels::terms) add these to the accumulator, one
  // per row and per padded column.
  const std::int32_t* row_terms = nullptr;
  const std::int32_t* column_terms = nullptr;

  Ahead* ahead = nullptr;
  // Rows of A from `a` on, also behind this run. The last panel of a tile asks for the next tile's, which a processor
  // does not see coming: a few streams of short rows side by side (decision 0304). 0: none are asked for.
  std::int64_t a_rows = 0;

  const Direct* direct = nullptr;  // store there instead of to c
  Prefetch prefetch[2];
  std::int64_t row0 = 0;  // where the run lies in the output, for direct and prefetch
  std::int64_t column0 = 0;
};

// A few rows of A (words, at most max_thin_rows; of an f32 B contiguous in K at most row_group, in N any number) times
// unpacked B.
inline constexpr int max_thin_rows = 16;
struct ThinRun {             // small: a call of a few nanoseconds fills it
  const float* a = nullptr;  // contiguous in K
  std::int64_t a_row = 0;
  int rows = 0;
  Element element = Element::f32;
  bool accumulate = false;
  bool halves = false;  // k-major: two halves of a vector are loaded as fast as it
  bool alone = false;   // k-major: no part of a row's columns, of which tiles depend on the number of threads
  // What is asked for meanwhile: nothing, where B is in L2; lines of the same columns; of a B out of
  // memory the next columns, into L2 (decision 0035).
  enum class Asks : std::uint8_t { nothing, lines, columns };
  Asks asks = Asks::lines;
  const char* b = nullptr;    // first element of the first column
  std::int64_t b_step = 0;    // bytes from one k to the next (k-major: one element)
  std::int64_t b_column = 0;  // bytes from one column to the next (n-major: one element)
  std::int64_t k = 0;
  std::int64_t columns = 0;
  float* c = nullptr;
  std::int64_t c_row = 0;
  std::int64_t c_column = 1;    // k-major only
  float* copy = nullptr;        // of an f32 B contiguous in N, ten rows or more: a panel's place, k deep
  const float* next = nullptr;  // of two lines of each of B's rows that are asked for, into L2, by a tile of such rows
  std::int64_t next_step = 0;
};

// A small product in f32: all of K at once, nothing in blocks.
struct SmallRun {
  const float* a = nullptr;
  std::int64_t a_row = 0, a_step = 0;  // any strides
  std::int64_t rows = 0;
  const float* b = nullptr;  // contiguous in N
  std::int64_t b_step = 0;   // from one k to the next
  std::int64_t columns = 0, k = 0;
  float* c = nullptr;
  std::int64_t c_row = 0;
  std::int64_t b_column = 1, c_column = 1;  // of `upright` only
  bool accumulate = false;                  // add to what is there
  bool asks = false;                        // for c, where it is out of L2
  bool joined = false;   // rows of C are one row where they can be; of less than a vector a is contiguous in K
  bool streams = false;  // a few rows at a time along all columns; K is at most 8
  const Direct* direct = nullptr;  // instead of c, where it does more than store; from (row0, column0) on
  std::int64_t row0 = 0, column0 = 0;
};

// The filters that a vector holds, of whole narrow groups or of a part of one.
struct FilterVector {
  std::int64_t filter = 0, channel = 0;  // its first; that one's group's first
};

// Pixels of a convolution of narrow groups: c[i][filter] = sum over t, and channels j of its group, of
// from[i][t][the group's first channel + j] * its weight. Sums of integers are exact in f32, and are stored as i32.
struct DepthwiseRun {
  const char* const* from = nullptr;  // of pixel i and tap t: from[i * taps + t], its first channel
  int pixels = 0;
  std::int64_t taps = 0;
  Element element = Element::f32;
  bool integers = false;
  const FilterVector* vectors = nullptr;  // in the order of their filters
  std::int64_t count = 0;
  const unsigned char* lane = nullptr;  // which channel, from the vector's first on, each lane takes; null: its own
  std::int64_t channels = 1, all_channels = 1;  // of a group, and of all
  const float* weights = nullptr;  // of all vectors, one after another, at the strides of taps and a group's channels
  std::int64_t tap_stride = 0, channel_stride = 0;
  float* c = nullptr;
  std::int64_t c_row = 0;
};

// The gradient of a depthwise convolution by its filters, in f32: c[t][channel] += the sum over pixels i of
// dy[i][channel]
// * x[i][t][channel]. c has whole vectors.
struct DepthwiseGradient {
  const char* const* x = nullptr;   // of pixel i and tap t: x[i * taps + t], its first channel
  const char* const* dy = nullptr;  // of pixel i
  int pixels = 0;
  std::int64_t taps = 0, channels = 0;
  float* c = nullptr;
  std::int64_t c_row = 0;
};

struct Kernels {
  int lanes;          // 32-bit words in a vector
  int panel;          // columns in a full panel
  int word_elements;  // 1, 2 or 4
  int packed_rows;    // rows of packed A that a run has at most: with them a k block takes half of L1
  bool terms;         // wants row_terms and column_terms

  void (*tiles)(const TileRun& run);

  // Packs `columns` (<= panel) columns, each with K contiguous and starting at starts[j], into
  // words at to[step * to_row + j]; columns up to the next whole vector, and K up to the next whole
  // step, are zero. `b_side`: in kernels with terms A's words are u8 and B's s8, so s8 gets +128 on
  // one side and u8 -128 on the other.
  void (*pack_k_major)(Element element, bool b_side, const char* const* starts, int columns, std::int64_t k,
                       std::uint32_t* to, std::int64_t to_row);
  // The same for any number of f32 columns `distance` elements apart, as words of one element; null elsewhere.
  void (*pack_columns)(const float* from, std::int64_t distance, std::int64_t columns, std::int64_t k,
                       std::uint32_t* to, std::int64_t to_row) = nullptr;
  // The same for columns that are contiguous: element (k, j) at from + k * k_stride bytes + j
  // elements.
  void (*pack_n_major)(Element element, bool b_side, const char* from, std::int64_t k_stride, int columns,
                       std::int64_t k, std::uint32_t* to, std::int64_t to_row);
  // One row of A, K contiguous.
  void (*pack_row)(Element element, bool b_side, const char* from, std::int64_t k, std::uint32_t* to);

  // sums[i] = the sum of the 8-bit values of row i's words (kernels with terms only).
  void (*sum_rows)(const std::uint32_t* a, std::int64_t a_row, std::int64_t a_step, int rows, std::int64_t steps,
                   std::int32_t* sums) = nullptr;
  void (*sum_columns)(const std::uint32_t* panel, std::int64_t steps, int width, std::int32_t* sums) = nullptr;

  // Pairs of bf16 only; null elsewhere. `tiles` takes denormal numbers for zeros, its sums' too.
  // This gives the same sums, bit for bit, with denormal numbers, and is slower (decision 0029).
  void (*careful_tiles)(const TileRun& run) = nullptr;
  // The least biased exponent of all numbers but zeros in `rows` rows of whole vectors; 256 where
  // there are none.
  int (*least_exponent)(const std::uint32_t* words, std::int64_t to_row, std::int64_t rows,
                        std::int64_t width) = nullptr;

  // f32 words only; null elsewhere.
  void (*thin_k_major)(const ThinRun& run) = nullptr;
  void (*thin_n_major)(const ThinRun& run) = nullptr;
  void (*depthwise)(const DepthwiseRun& run) = nullptr;
  void (*depthwise_gradient)(const DepthwiseGradient& run) = nullptr;
  void (*small)(const SmallRun& run) = nullptr;
  // What `small` would find each time for a run that is one tile; null for others (decision 0317).
  void (*(*one_tile)(const SmallRun& run))(const SmallRun& run) = nullptr;
  // A contiguous in K, and a direct without `add`, which stores to c. Null in vectors of four.
  void (*upright)(const SmallRun& run) = nullptr;
  // to[i * to_row + x] = from[x * width + i] of 1 to 4 elements i.
  void (*part)(const float* from, int width, std::int64_t count, float* to, std::int64_t to_row) = nullptr;
  // sums[j] += the sum of column j of `rows` rows.
  void (*add_rows)(const float* from, std::int64_t row_stride, std::int64_t rows, std::int64_t columns,
                   float* sums) = nullptr;
  // Applies `direct` to a finished block of accumulators.
  void (*store_direct)(const Direct& direct, const float* acc, std::int64_t acc_row, std::int64_t row0,
                       std::int64_t rows, std::int64_t column0, std::int64_t columns) = nullptr;
};

extern const Kernels portable_float_kernels;
extern const Kernels portable_integer_kernels;  // 16-bit words, no saturation anywhere
extern const Kernels avx2_float_kernels;
extern const Kernels avx2_integer_kernels;  // vpmaddwd on 16-bit words: exact, where vpmaddubsw would saturate
extern const Kernels avx512_float_kernels;
extern const Kernels avx512_integer_kernels;  // vpdpbusd (VNNI) on 8-bit words
extern const Kernels avx512_bf16_kernels;     // vdpbf16ps (BF16) on pairs of bf16
extern const Kernels amx_bf16_kernels;
extern const Kernels amx_integer_kernels[2][2];  // [whether A is signed][B]

}  // namespace postlude::inline v0::cpu
