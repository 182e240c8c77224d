R"cuda(
// A depthwise convolution straight from memory (decision 0223). A thread has two channels of STRIP_X x STRIP_Y pixels, whose sums stay
// in its registers until the epilogue has stored what becomes of them: shared memory has the weights, and L1 what neighbours read too.

constexpr int TAPS = TAPS_Y * TAPS_X, LANES = BN / 2, PIXELS = STRIP_X * STRIP_Y;
constexpr int STRIPS_X = (PIXELS_X + STRIP_X - 1) / STRIP_X, STRIPS_Y = (PIXELS_Y + STRIP_Y - 1) / STRIP_Y;
constexpr int READ_X = (STRIP_X - 1) * STEP_X + (TAPS_X - 1) * REACH_X + 1, READ_Y = (STRIP_Y - 1) * STEP_Y + (TAPS_Y - 1) * REACH_Y + 1;
constexpr int WEIGHTS_PITCH = BN + 2;  // of a tap, of f32
// Rows of pixels that are on their way while one is added up.
constexpr int AHEAD = READ_X <= 8 ? 2 : 1;

#ifndef POSTLUDE_HOST
DEVICE i64 opaque(i64 x) { asm volatile("" : "+l"(x)); return x; }
DEVICE u32 load_pair(i64 from) { u32 x; asm volatile("ld.global.b32 %0, [%1];" : "=r"(x) : "l"(from)); return x; }
DEVICE void store_pair(i64 to, u32 x) { asm volatile("st.global.b32 [%0], %1;" :: "l"(to), "r"(x) : "memory"); }
#else
DEVICE i64 opaque(i64 x) { return x; }
DEVICE u32 load_pair(i64 from) { return *(const u32*)from; }
DEVICE void store_pair(i64 to, u32 x) { *(u32*)to = x; }
#endif

// Whether place k of a strip's axis lies in the image, of strip number `at` of `strips`: mostly all do, or none does.
DEVICE bool inside(int k, int at, int strips, int strip, int first, int extent) {
  if (k + first >= 0 && (strips - 1) * strip + k + first < extent) return true;
  return u32(at * strip + k + first) < u32(extent);
}
DEVICE bool inside_x(int k, int at) { return inside(k, at, STRIPS_X, STRIP_X * STEP_X, FIRST_X, EXTENT_X); }
DEVICE bool inside_y(int k, int at) { return inside(k, at, STRIPS_Y, STRIP_Y * STEP_Y, FIRST_Y, EXTENT_Y); }
// Of a strip as wide as the output: whether tap t of pixel j lies in the image at all.
DEVICE constexpr bool may_see(int j, int t) {
  const int at = j * STEP_X + t * REACH_X + FIRST_X;
  return STRIPS_X > 1 || (at >= 0 && at < EXTENT_X);
}
// Whether some window has place k of a row.
DEVICE constexpr bool is_read(int k) {
  for (int t = 0; t < TAPS_X; ++t) {
    const int j = k - t * REACH_X;
    if (j >= 0 && j % STEP_X == 0 && j / STEP_X < STRIP_X && may_see(j / STEP_X, t)) return true;
  }
  return false;
}

// A strip: which of its image, of which image.
struct Strip { int x, y; };
DEVICE void read_row(i64 from, bool exists, int x, u32 (&row)[READ_X]) {
  #pragma unroll
  for (int k = 0; k < READ_X; ++k) {
    row[k] = 0;
    if (is_read(k) && exists && inside_x(k, x)) row[k] = load_pair(from + k * STRIDE_X * 2);
  }
}
typedef float Sums[STRIP_Y][STRIP_X][2];
typedef float Row[READ_X][2];
DEVICE void as_numbers(const u32 (&words)[READ_X], Row& row) {
  #pragma unroll
  for (int k = 0; k < READ_X; ++k) row[k][0] = VALUE(u16(words[k])), row[k][1] = VALUE(u16(words[k] >> 16));
}
// A row of the filter, whose weights begin at `from` or are w, over a row of pixels.
DEVICE void add_tap(const Row& row, float a, float b, int t, float (&sum)[STRIP_X][2]) {
  #pragma unroll
  for (int j = 0; j < STRIP_X; ++j)
    if (may_see(j, t)) {
      const float (&x)[2] = row[j * STEP_X + t * REACH_X];
      sum[j][0] = fmaf(x[0], a, sum[j][0]), sum[j][1] = fmaf(x[1], b, sum[j][1]);
    }
}
DEVICE void add_row(const Row& row, u32 weights, float (&sum)[STRIP_X][2]) {
  #pragma unroll
  for (int t = 0; t < TAPS_X; ++t) {
    u32 a, b;
    shared_load(weights + t * WEIGHTS_PITCH * 4, a, b);
    add_tap(row, __uint_as_float(a), __uint_as_float(b), t, sum);
  }
}

// The strip's sums. `pixels`: of its first channel where its first window begins. `weights`: of that channel, in shared memory where
// rows are added up in turn.
DEVICE void add_up(i64 pixels, const Strip s, i64 weights, Sums& sum) {
  Row row;
#if ROWS_IN_TURN  // STEP_Y and REACH_Y are 1
  const int begin = s.y * STRIP_Y + FIRST_Y, first = max(begin, 0), end = min(begin + READ_Y, EXTENT_Y);
  u32 words[READ_X];
  i64 from = opaque(pixels + (first - begin) * STRIDE_Y * 2);
  read_row(from, first < end, s.x, words);
  #pragma unroll 1
  for (int y = first; y < end; ++y) {
    as_numbers(words, row);
    from += STRIDE_Y * 2;
    read_row(from, y + 1 < end, s.x, words);
    #pragma unroll
    for (int i = 0; i < STRIP_Y; ++i) {
      const int tap = y - begin - i;
      if (u32(tap) < u32(TAPS_Y)) add_row(row, u32(weights) + tap * TAPS_X * WEIGHTS_PITCH * 4, sum[i]);
    }
  }
#else
  float w[TAPS][2];
  const i64 weight = opaque(weights);
  #pragma unroll
  for (int n = 0; n < 2 * TAPS; ++n)
    w[n / 2][n % 2] = VALUE(*(const u16*)(weight + (n % 2 * CHANNEL_STRIDE + n / 2 / TAPS_X * WEIGHT_STRIDE_Y + n / 2 % TAPS_X * WEIGHT_STRIDE_X) * 2));
  const i64 from = opaque(pixels);
  u32 words[AHEAD + 1][READ_X];
  #pragma unroll
  for (int y = 0; y < AHEAD; ++y) read_row(from + y * STRIDE_Y * 2, y < READ_Y && inside_y(y, s.y), s.x, words[y]);
  #pragma unroll
  for (int y = 0; y < READ_Y; ++y) {
    if (y + AHEAD < READ_Y) read_row(from + (y + AHEAD) * STRIDE_Y * 2, inside_y(y + AHEAD, s.y), s.x, words[(y + AHEAD) % (AHEAD + 1)]);
    as_numbers(words[y % (AHEAD + 1)], row);
    #pragma unroll
    for (int i = 0; i < STRIP_Y; ++i) {
      const int behind = y - i * STEP_Y, tap = behind / REACH_Y;
      if (behind < 0 || behind % REACH_Y || tap >= TAPS_Y) continue;
      #pragma unroll
      for (int t = 0; t < TAPS_X; ++t) add_tap(row, w[tap * TAPS_X + t][0], w[tap * TAPS_X + t][1], t, sum[i]);
    }
  }
#endif
}

#if ROWS_IN_TURN
// The weights of a block's columns, of which a thread has one, of every few taps.
DEVICE void load_weights(const Params& p, u32 to, int column) {
  const i64 from = p.map[1].word[0];
  for (int i = threadIdx.x; i < BN * TAPS; i += LANES * STRIPS) {
    const int c = i % BN, tap = i / BN;
    const i64 at = from + ((column + c) * CHANNEL_STRIDE + tap / TAPS_X * WEIGHT_STRIDE_Y + tap % TAPS_X * WEIGHT_STRIDE_X) * 2;
    shared_store(to + (tap * WEIGHTS_PITCH + c) * 4, __float_as_uint(column + c < p.n ? VALUE(*(const u16*)at) : 0.f));
  }
}
#endif

// Pixel n of a strip: whether it exists, and where its row lies.
DEVICE bool has_pixel(const Tile& t, int n) {
  const int x = n % STRIP_X, y = n / STRIP_X;
  return n < PIXELS && (PIXELS_X % STRIP_X == 0 || t.slot_m * STRIP_X + x < PIXELS_X) && (PIXELS_Y % STRIP_Y == 0 || t.tile_m * STRIP_Y + y < PIXELS_Y);
}
DEVICE i64 pixel_address(const TensorMap& map, const Tile& t, int n, int size) {
  const i64 first = map_address(map) + t.batch * map_batch(map) + t.row * map_pitch(map) + i64(first_column(t, 0)) * size;
  return first + (n / STRIP_X * PIXELS_X + n % STRIP_X) * map_pitch(map);
}
// Four pixels of two columns, from and to where they lie in memory: x[size / 2 * pixel] on, or of a byte half of a word.
template <int size> DEVICE void fragment_load(const TensorMap& map, u32, const Tile& t, int f, u32 (&x)[size * 2]) {
  #pragma unroll
  for (int k = 0; k < 4; ++k) {
    const bool exists = has_pixel(t, 4 * f + k);
    const i64 from = pixel_address(map, t, 4 * f + k, size);
    if (size == 1) {
      const u32 two = exists ? *(const u16*)from : 0;
      x[k / 2 % (size * 2)] = k % 2 ? x[k / 2 % (size * 2)] | two << 16 : two;
    } else {
      #pragma unroll
      for (int h = 0; h < size / 2; ++h) x[(size / 2 * k + h) % (size * 2)] = exists ? load_pair(from + 4 * h) : 0;
    }
  }
}
template <int size> DEVICE void fragment_store(const TensorMap& map, u32, const Tile& t, int f, const u32 (&x)[size * 2]) {
  #pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (!has_pixel(t, 4 * f + k)) continue;
    const i64 to = pixel_address(map, t, 4 * f + k, size);
    if (size == 1) *(u16*)to = u16(x[k / 2 % (size * 2)] >> k % 2 * 16);
    else if (size == 2) store_pair(to, x[k % (size * 2)]);
    else *(Half*)to = {x[2 * k % (size * 2)], x[(2 * k + 1) % (size * 2)]};
  }
}

// Tile operands come before the strip's pixels, and outputs leave with their fragments.
struct Straight {
  template <class E> METHOD u32 staging(const Tile&) { return 0; }
  template <class E> METHOD void take_operands(const Params&, const Tile&, E&) {}
  template <class E> METHOD void give_outputs(const Params&, const Tile&, const Subtile&, u32) {}
  METHOD void bring(ACC (&)[MI][WG_COLUMNS / 2], int) {}
};

extern "C" __global__ void __launch_bounds__(LANES * STRIPS, RESIDENT) postlude_gemm(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 dynamic_shared[];
  follow_previous_launch();
  Tile tile;
  tile.tile_n = blockIdx.x % p.tiles_n, tile.col = tile.tile_n * BN;
  tile.lane = threadIdx.x % LANES;
#if ROWS_IN_TURN
  load_weights(p, smem_address(dynamic_shared), tile.col);
  __syncthreads();
  const i64 weights = smem_address(dynamic_shared) + tile.lane * 8;
#else
  const i64 weights = i64(p.map[1].word[0]) + first_column(tile, 0) * CHANNEL_STRIDE * 2;
#endif
  const int strip = blockIdx.x / p.tiles_n * STRIPS + threadIdx.x / LANES;
  const Strip s = {strip % STRIPS_X, strip / STRIPS_X % STRIPS_Y};
  tile.batch = strip / (STRIPS_X * STRIPS_Y), tile.tile_m = s.y, tile.slot_m = s.x;
  if (tile.batch >= p.batch || first_column(tile, 0) >= p.n) return;
  tile.row = s.y * STRIP_Y * PIXELS_X + s.x * STRIP_X, tile.turn = 0, tile.wg = 0, tile.warp = 0;
  Epilogue epilogue;
  epilogue.begin(p, tile);
  epilogue.load(p, tile, 0);
  ACC acc[MI][WG_COLUMNS / 2] = {};
  {
    const i64 at = tile.batch * p.rows.image_stride + (s.y * STRIP_Y * STEP_Y + FIRST_Y) * STRIDE_Y + (s.x * STRIP_X * STEP_X + FIRST_X) * STRIDE_X;
    Sums sum = {};
    add_up(map_address(p.map[0]) + (at + first_column(tile, 0)) * 2, s, weights, sum);
    #pragma unroll
    for (int n = 0; n < 2 * PIXELS; ++n) acc[0][n] = sum[n / 2 / STRIP_X][n / 2 % STRIP_X][n % 2];
  }
  Straight by;
  run_epilogue(p, tile, epilogue, acc, by);
}
)cuda"
