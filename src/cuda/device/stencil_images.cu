R"cuda(
// A depthwise convolution of images of up to 8 x 8 pixels, on tensor cores (decision 0275). Of one channel the outputs of two
// rows, each of eight, are 16 rows of a matrix, the pixels of two rows its columns, and images the columns of the other factor. What
// stands between is made of weights: of a row of outputs and one of pixels it is a band, the same wherever these are as far from each
// other, so that a lane has one register for each row of the filter. Sums go through shared memory to the threads of strips.

constexpr int GROUPS_OF_EIGHT = IMAGES / 8, PIXELS_OUT = PIXELS_Y * PIXELS_X, PIXELS_IN = EXTENT_Y * EXTENT_X;
constexpr int ROWS_OUT = (PIXELS_Y + 1) / 2, ROWS_IN = (EXTENT_Y + 1) / 2;  // in pairs
// The words of a filter's row: weights e and e + 1 for e from -1 on, zeros where the row has none; and one of zeros.
constexpr int WORDS_X = TAPS_X + 2;
constexpr int ALL_THREADS = LANES * STRIPS, CHUNKS = BN / 8, ALL_PIXELS = IMAGES * PIXELS_IN;

// Weights stand by four channels, so that a lane reads those of four as 16 bytes.
DEVICE u32 word_offset(int channel, int tap_y, int word) { return ((channel / 4 * TAPS_Y + tap_y) * WORDS_X + word) * 16 + channel % 4 * 4; }
// Eight channels of a pixel, and four of its sums: of lanes that move such together none meets another in a bank.
DEVICE constexpr int group_of(int count) { return count & -count; }
DEVICE u32 chunk_offset(int pixel, int chunk) { return pixel * (BN * 2) + (chunk ^ ((pixel >> 1) & (group_of(CHUNKS) - 1) & 3)) * 16; }
DEVICE u32 sum_offset(int image, int pixel, int four) {
  return (image * PIXELS_OUT + pixel) * (BN * 4) + (four ^ (((pixel & 1) | (image & 6)) & (group_of(BN / 4) - 1))) * 16;
}

DEVICE void bring_images(i64 pixels, u32 to, int image, int column, int images) {
  constexpr int all = ALL_PIXELS * CHUNKS;
  constexpr bool in_line = STRIDE_Y == EXTENT_X * STRIDE_X && IMAGE_STRIDE == EXTENT_Y * STRIDE_Y && ALL_THREADS % CHUNKS == 0;
  const int chunk = threadIdx.x % CHUNKS;
  const i64 first = opaque_address(pixels + (image * IMAGE_STRIDE + column + 8 * chunk + threadIdx.x / CHUNKS * STRIDE_X) * 2);
  #pragma unroll
  for (int n = 0; n < (all + ALL_THREADS - 1) / ALL_THREADS; ++n) {
    const int i = threadIdx.x + n * ALL_THREADS, at = i / CHUNKS;
    if (i >= all) continue;
    const bool exists = column + i % CHUNKS * 8 < COLUMNS && image + at / PIXELS_IN < images;
    const i64 offset = (image + at / PIXELS_IN) * IMAGE_STRIDE + at % PIXELS_IN / EXTENT_X * STRIDE_Y + at % EXTENT_X * STRIDE_X;
    copy_async(to + chunk_offset(at, i % CHUNKS), in_line ? first + n * (ALL_THREADS / CHUNKS) * STRIDE_X * 2 : pixels + (offset + column + i % CHUNKS * 8) * 2, exists ? 16 : 0);
  }
}
// Of a gradient by the data the first tap is the last one that lies there.
constexpr bool BACKWARD = WEIGHT_STRIDE_X == -1 && WEIGHT_STRIDE_Y == -TAPS_X;
constexpr bool RAW_WEIGHTS = CHANNEL_STRIDE == TAPS && WEIGHT_CHUNKS && (BACKWARD ? TAPS % 8 == 1 : WEIGHT_STRIDE_X == 1 && WEIGHT_STRIDE_Y == TAPS_X);
DEVICE void bring_weights(const Params& p, u32 to, int column) {
  constexpr int all = BN * TAPS / 8;
  const i64 from = opaque_address(i64(p.map[1].word[0]) - BACKWARD * (TAPS - 1) * 2 + column * TAPS * 2 + 16 * threadIdx.x);
  #pragma unroll
  for (int n = 0; n < (all + ALL_THREADS - 1) / ALL_THREADS; ++n) {
    const int i = threadIdx.x + n * ALL_THREADS, left = (COLUMNS - column) * TAPS * 2 - i * 16;
    if (i < all && left > 0) copy_async(to + i * 16, from + n * ALL_THREADS * 16, min(left, 16));
  }
}
// A row of a channel's filter a thread, as words.
DEVICE void make_words(const Params& p, u32 raw, u32 to, int column) {
  #pragma unroll 1
  for (int i = threadIdx.x; i < BN * TAPS_Y; i += ALL_THREADS) {
    const int c = i % BN, tap = i / BN;
    u32 weights[TAPS_X], before = 0;
    #pragma unroll
    for (int t = 0; t < TAPS_X; ++t) {
      const int at = tap * TAPS_X + t;
      if (RAW_WEIGHTS) weights[t] = shared_load(raw + (c * TAPS + (BACKWARD ? TAPS - 1 - at : at)) * 2);
      else weights[t] = column + c < COLUMNS ? *(const u16*)(i64(p.map[1].word[0]) + weight_offset(column + c, at) * 2) : 0;
    }
    const u32 first = to + word_offset(c, tap, 0);
    #pragma unroll
    for (int e = 0; e < TAPS_X; ++e) {
      shared_store(first + e * 16, before | weights[e] << 16);
      before = weights[e];
    }
    shared_store(first + TAPS_X * 16, before);
    shared_store(first + TAPS_X * 16 + 16, 0u);
  }
}

// Eight images of four channels, of a warp.
DEVICE void multiply(u32 words, u32 pixels, u32 sums, int group, int four, int lane) {
  const int n = lane / 4, pair = lane % 4 * 2;
  u32 rows[2 * ROWS_IN][4];
  #pragma unroll
  for (int y = 0; y < 2 * ROWS_IN; ++y) {
    u32 even[4] = {}, odd[4] = {};
    const int at = (group * 8 + n) * PIXELS_IN + y * EXTENT_X + pair;
    if (y < EXTENT_Y && pair < EXTENT_X) shared_load(pixels + chunk_offset(at, four / 2), even[0], even[1], even[2], even[3]);
    if (y < EXTENT_Y && pair + 1 < EXTENT_X) shared_load(pixels + chunk_offset(at + 1, four / 2), odd[0], odd[1], odd[2], odd[3]);
    #pragma unroll
    for (int c = 0; c < 4; ++c) {
      const u32 a = four % 2 ? even[2 + c / 2] : even[c / 2], b = four % 2 ? odd[2 + c / 2] : odd[c / 2];
      rows[y][c] = __byte_perm(a, b, c % 2 ? 0x7632 : 0x5410);
    }
  }
  const int word = pair - n - FIRST_X + 1;
  u32 bands[TAPS_Y][4];
  #pragma unroll
  for (int t = 0; t < TAPS_Y; ++t)
    shared_load(words + word_offset(4 * four, t, u32(word) <= u32(TAPS_X) ? word : TAPS_X + 1), bands[t][0], bands[t][1], bands[t][2], bands[t][3]);
  float sum[ROWS_OUT][4][4] = {};
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    const auto band = [&](int t) { return t >= 0 && t < TAPS_Y ? bands[(t + TAPS_Y) % TAPS_Y][c] : 0; };
    #pragma unroll
    for (int apart = 1 - ROWS_OUT; apart < ROWS_IN; ++apart) {
      const int tap = 2 * apart - FIRST_Y;  // between the first rows of both
      if (tap + 1 < 0 || tap - 1 >= TAPS_Y) continue;
      const u32 a[4] = {band(tap), band(tap - 1), band(tap + 1), band(tap)};
      #pragma unroll
      for (int out = 0; out < ROWS_OUT; ++out) {
        const int in = out + apart;
        if (in < 0 || in >= ROWS_IN) continue;
        float (&d)[4] = sum[out][c];
        const u32 b[2] = {rows[2 * in][c], rows[2 * in + 1][c]};
        mma(d[0], d[1], d[2], d[3], a, b);
      }
    }
  }
  #pragma unroll
  for (int e = 0; e < 4 * ROWS_OUT; ++e) {
    const int out = e / 4, y = 2 * out + e % 4 / 2;
    if (y >= PIXELS_Y || n >= PIXELS_X) continue;
    const auto bits = [&](int c) { return __float_as_uint(sum[out][c][e % 4]); };
    shared_store(sums + sum_offset(group * 8 + pair + e % 2, y * PIXELS_X + n, four), bits(0), bits(1), bits(2), bits(3));
  }
}

// A zero of a band times an infinity is no number: a row of which some sum is none is added up again, tap by tap.
DEVICE void mend(u32 words, u32 pixels, int image, int y, int x, int lane, float (&sum)[STRIP_X][2]) {
  #pragma unroll
  for (int i = 0; i < STRIP_X; ++i) sum[i][0] = sum[i][1] = 0.f;
  #pragma unroll 1
  for (int t = 0; t < TAPS; ++t) {
    const int from_y = y + t / TAPS_X + FIRST_Y, from_x = x + t % TAPS_X + FIRST_X;
    if (u32(from_y) >= u32(EXTENT_Y)) continue;
    const u32 weight = words + word_offset(2 * lane, t / TAPS_X, t % TAPS_X + 1);
    const float a = VALUE(shared_load(weight)), b = VALUE(shared_load(weight + 4));
    #pragma unroll
    for (int i = 0; i < STRIP_X; ++i) {
      if (u32(from_x + i) >= u32(EXTENT_X)) continue;
      const u32 two = shared_load_word(pixels + chunk_offset((image * EXTENT_Y + from_y) * EXTENT_X + from_x + i, lane / 4) + lane % 4 * 4);
      sum[i][0] = fmaf(VALUE(u16(two)), a, sum[i][0]), sum[i][1] = fmaf(VALUE(u16(two >> 16)), b, sum[i][1]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(LANES * STRIPS, RESIDENT) postlude_gemm(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 dynamic_shared[];
  follow_previous_launch();
  Tile tile;
  tile.tile_n = blockIdx.x % TILES_N, tile.col = tile.tile_n * BN;
  tile.lane = threadIdx.x % LANES;
  const int local = threadIdx.x / LANES, image = local / (STRIPS_X * STRIPS_Y);
  const Strip s = {local % STRIPS_X, local / STRIPS_X % STRIPS_Y};
  const int first_image = blockIdx.x / TILES_N * IMAGES;
  tile.batch = first_image + image, tile.slot_m = s.x;
  tile.row = s.y * STRIP_Y * PIXELS_X + s.x * STRIP_X, tile.turn = 0, tile.wg = 0, tile.warp = 0;
  const u32 words = smem_address(dynamic_shared), pixels = words + WEIGHTS_BYTES, sums = pixels + PIXELS_BYTES, raw = pixels + ALL_PIXELS * BN * 2;
  bring_images(map_address(p.map[0]), pixels, first_image, tile.col, p.batch);
  if (RAW_WEIGHTS) bring_weights(p, raw, tile.col);
  copy_commit();
  copy_wait<0>();
  __syncthreads();
  make_words(p, raw, words, tile.col);
  __syncthreads();
  #pragma unroll 1
  for (int unit = threadIdx.x / 32; unit < BN / 4 * GROUPS_OF_EIGHT; unit += ALL_THREADS / 32)
    multiply(words, pixels, sums, unit / (BN / 4), unit % (BN / 4), threadIdx.x % 32);
  __syncthreads();
  if (tile.batch >= p.batch || first_column(tile, 0) >= COLUMNS) return;
  Epilogue epilogue;
  epilogue.begin(p, tile);
  epilogue.reset();
  epilogue.advance();
  #pragma unroll 1
  for (int i = 0; i < STRIP_Y; ++i, tile.row += PIXELS_X) {
    const int y = s.y * STRIP_Y + i;
    if (PIXELS_Y % STRIP_Y && y >= PIXELS_Y) break;
    epilogue.load(p, tile, 0);
    float sum[STRIP_X][2], all[2] = {};
    #pragma unroll
    for (int x = 0; x < STRIP_X; ++x) {
      u32 a, b;
      const int at = min(s.x * STRIP_X + x, PIXELS_X - 1);
      shared_load(sums + sum_offset(image, y * PIXELS_X + at, tile.lane / 2) + tile.lane % 2 * 8, a, b);
      sum[x][0] = __uint_as_float(a), sum[x][1] = __uint_as_float(b);
      all[0] = fmaf(sum[x][0], 0.f, all[0]), all[1] = fmaf(sum[x][1], 0.f, all[1]);
    }
    if (all[0] + all[1] != 0.f) mend(words, pixels, image, y, s.x * STRIP_X, tile.lane, sum);
    #pragma unroll
    for (int f = 0; f < FRAGMENTS; ++f) {
      ACC part[1][8];
      #pragma unroll
      for (int e = 0; e < 8; ++e) part[0][e] = 4 * f + e / 2 < STRIP_X ? sum[(4 * f + e / 2) % STRIP_X][e % 2] : 0.f;
      epilogue.fragment(p, tile, 0, 0, f, part, 0);
    }
  }
  epilogue.end(p, tile);
}
)cuda"
