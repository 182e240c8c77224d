R"cuda(
// A depthwise convolution of images of up to 8 x 8 pixels, on tensor cores (decisions 0275, 0279). Of one channel a row of eight
// images, and the row two further down, are 16 rows of a matrix, pixels of two rows its columns; the other factor is a band of the
// filter's rows between them and eight outputs, of which a lane has two words. Sums go through shared memory to the threads of strips.

constexpr int GROUPS_OF_EIGHT = IMAGES / 8, PIXELS_IN = EXTENT_Y * EXTENT_X;
constexpr int ALL_THREADS = LANES * STRIPS, CHUNKS = BN / 8, ALL_PIXELS = IMAGES * PIXELS_IN;
// The words of a filter's row: weights e and e + 1 for e from -1 on, zeros where the row has none; and one of zeros. Those of four taps
// one below the other are 16 bytes, from tap 0 on and again from -1 on, so that any two lie in neighbouring registers.
constexpr int WORDS_X = TAPS_X + 2, FOURS = (TAPS_Y + 4) / 4, WORDS_CHANNEL = 16 * (2 * FOURS * WORDS_X + 1);
DEVICE u32 words_offset(int channel, int from, int four, int word) { return channel * WORDS_CHANNEL + ((from * FOURS + four) * WORDS_X + word) * 16; }
// Pixels are 16 bytes further apart than they are long, so that few lanes that move them together meet in a bank.
constexpr int PIXEL_PITCH = BN * 2 + 16;
// Sums of a channel's rows, of an even number of pixels each, in pairs.
constexpr int SUM_PAIRS = (PIXELS_X + 1) / 2, SUM_CHANNEL = 8 * (PIXELS_Y * SUM_PAIRS | 1), SUM_IMAGE = BN * SUM_CHANNEL + 32;
DEVICE u32 sum_offset(int image, int channel, int y, int x) { return image * SUM_IMAGE + channel * SUM_CHANNEL + y * SUM_PAIRS * 8 + x * 4; }

DEVICE void bring_images(i64 pixels, u32 to, int image, int column, int images) {
  constexpr int at_once = ALL_THREADS / CHUNKS;  // pixels
  constexpr bool in_line = STRIDE_Y == EXTENT_X * STRIDE_X && IMAGE_STRIDE == EXTENT_Y * STRIDE_Y;
  const int chunk = threadIdx.x % CHUNKS, first = threadIdx.x / CHUNKS, end = column + 8 * chunk < COLUMNS ? (images - image) * PIXELS_IN : 0;
  const i64 from = opaque_address(pixels + (image * IMAGE_STRIDE + column + 8 * chunk + (in_line ? first * STRIDE_X : 0)) * 2);
  #pragma unroll
  for (int n = 0; n < (ALL_PIXELS + at_once - 1) / at_once; ++n) {
    const int at = first + n * at_once;
    if ((n + 1) * at_once > ALL_PIXELS && at >= ALL_PIXELS) continue;
    const i64 offset = in_line ? n * at_once * STRIDE_X : at / PIXELS_IN * IMAGE_STRIDE + at % PIXELS_IN / EXTENT_X * STRIDE_Y + at % EXTENT_X * STRIDE_X;
    copy_async(to + first * PIXEL_PITCH + chunk * 16 + n * at_once * PIXEL_PITCH, from + offset * 2, at < end ? 16 : 0);
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
// Four rows of a channel's filter a thread, as words.
DEVICE void make_words(const Params& p, u32 raw, u32 to, int column) {
  #pragma unroll 1
  for (int i = threadIdx.x; i < BN * 2 * FOURS; i += ALL_THREADS) {
    const int c = i % BN, from = i / BN % 2, four = i / BN / 2;
    u32 before[4] = {}, weights[TAPS_X][4];
    #pragma unroll
    for (int t = 0; t < TAPS_X; ++t)
      #pragma unroll
      for (int h = 0; h < 4; ++h) {
        const int tap = 4 * four + h - from, at = tap * TAPS_X + t;
        const bool exists = u32(tap) < u32(TAPS_Y);
        if (RAW_WEIGHTS) weights[t][h] = exists ? shared_load(raw + (c * TAPS + (BACKWARD ? TAPS - 1 - at : at)) * 2) : 0;
        else weights[t][h] = exists && column + c < COLUMNS ? *(const u16*)(i64(p.map[1].word[0]) + weight_offset(column + c, at) * 2) : 0;
      }
    const u32 first = to + words_offset(c, from, four, 0);
    #pragma unroll
    for (int e = 0; e <= TAPS_X; ++e) {
      u32 (&next)[4] = weights[e % TAPS_X];
      #pragma unroll
      for (int h = 0; h < 4; ++h) before[h] |= e < TAPS_X ? next[h] << 16 : 0;
      shared_store(first + e * 16, before[0], before[1], before[2], before[3]);
      #pragma unroll
      for (int h = 0; h < 4; ++h) before[h] = next[h];
    }
    shared_store(first + (TAPS_X + 1) * 16, 0u, 0u, 0u, 0u);
  }
}

// Eight images of four channels, of a warp: outputs of rows `out` and out + 2 together, of which `out` has a place without two.
DEVICE constexpr int row_of(int place) { return place / 2 * 4 + place % 2; }
constexpr int PLACES = (PIXELS_Y + 3) / 4 * 2;
// Whether outputs of rows `out` and out + 2 see pixels of rows `in` and in + 1, and those two further down.
DEVICE constexpr bool are_seen(int out, int in) {
  const int tap = in - out - FIRST_Y;
  return out < PIXELS_Y && tap + 1 >= 0 && tap < TAPS_Y && (in >= 0 || out + 2 < PIXELS_Y);
}
DEVICE void multiply(u32 words, u32 pixels, u32 sums, int group, int four, int lane) {
  const int n = lane / 4, pair = lane % 4 * 2;
  pixels += ((group * 8 + n) * PIXELS_IN + pair) * PIXEL_PITCH + four * 8;
  u32 rows[EXTENT_Y][4];
  #pragma unroll
  for (int y = 0; y < EXTENT_Y; ++y) {
    u32 even[2] = {}, odd[2] = {};
    if (pair < EXTENT_X) shared_load(pixels + y * EXTENT_X * PIXEL_PITCH, even[0], even[1]);
    if (pair + 1 < EXTENT_X) shared_load(pixels + (y * EXTENT_X + 1) * PIXEL_PITCH, odd[0], odd[1]);
    #pragma unroll
    for (int c = 0; c < 4; ++c) rows[y][c] = __byte_perm(even[c / 2], odd[c / 2], c % 2 ? 0x7632 : 0x5410);
  }
  sums += sum_offset(group * 8 + n, 4 * four, 0, pair);
  const int word = pair - n - FIRST_X + 1;
  words += words_offset(4 * four, 0, 0, u32(word) <= u32(TAPS_X) ? word : TAPS_X + 1);
  #pragma unroll
  for (int c = 0; c < 4; ++c) {
    u32 bands[2][FOURS][4];
    #pragma unroll
    for (int t = 0; t < 2 * FOURS; ++t) {
      u32 (&to)[4] = bands[t / FOURS][t % FOURS];
      shared_load(words + words_offset(c, t / FOURS, t % FOURS, 0), to[0], to[1], to[2], to[3]);
    }
    float sum[PLACES][4] = {};
    #pragma unroll
    for (int in = -2; in < EXTENT_Y; in += 2) {
      const auto pixels_of = [&](int y) { return y >= 0 && y < EXTENT_Y ? rows[(y + EXTENT_Y) % EXTENT_Y][c] : 0; };
      const u32 a[4] = {pixels_of(in), pixels_of(in + 2), pixels_of(in + 1), pixels_of(in + 3)};
      #pragma unroll
      for (int place = 0; place < PLACES; ++place) {
        if (!are_seen(row_of(place), in)) continue;
        const int tap = in - row_of(place) - FIRST_Y, from = tap & 1, at = tap + from;
        const u32 (&band)[4] = bands[from][at / 4];
        const u32 b[2] = {band[at % 4], band[at % 4 + 1]};
        float (&d)[4] = sum[place];
        mma(d[0], d[1], d[2], d[3], a, b);
      }
    }
    #pragma unroll
    for (int e = 0; e < 2 * PLACES; ++e) {
      const int y = row_of(e / 2) + e % 2 * 2;
      const float (&d)[4] = sum[e / 2];
      if (y >= PIXELS_Y || pair >= PIXELS_X) continue;
      shared_store(sums + sum_offset(0, c, y, 0), __float_as_uint(d[e % 2 * 2]), __float_as_uint(d[e % 2 * 2 + 1]));
    }
  }
}

// A row of a strip's sums of two channels.
DEVICE void take_row(u32 from, float (&sum)[STRIP_X][2]) {
  constexpr bool in_pairs = STRIPS_X == 1 || STRIP_X % 2 == 0;
  #pragma unroll
  for (int i = 0; i < 2 * STRIP_X; ++i) {
    const int c = i / STRIP_X, x = i % STRIP_X;
    u32 a = 0, b = 0;
    if (!in_pairs) a = shared_load_word(from + c * SUM_CHANNEL + x * 4);
    else if (x % 2 == 0) shared_load(from + c * SUM_CHANNEL + x * 4, a, b);
    else continue;
    sum[x][c] = __uint_as_float(a);
    if (in_pairs && x + 1 < STRIP_X) sum[(x + 1) % STRIP_X][c] = __uint_as_float(b);
  }
}

// A zero of a band times an infinity is no number: a row of which some sum is none is added up again, tap by tap. What lies beside an
// image's row is read and not used, for less code.
DEVICE void mend(u32 words, u32 pixels, int image, int y, int x, int lane, float (&sum)[STRIP_X][2]) {
  #pragma unroll
  for (int i = 0; i < STRIP_X; ++i) sum[i][0] = sum[i][1] = 0.f;
  #pragma unroll 1
  for (int tap = max(0, -(y + FIRST_Y)); tap < min(TAPS_Y, EXTENT_Y - (y + FIRST_Y)); ++tap) {
    u32 weight = words + words_offset(2 * lane, 0, tap / 4, 1) + tap % 4 * 4;
    u32 from = pixels + ((image * EXTENT_Y + y + tap + FIRST_Y) * EXTENT_X + x + FIRST_X) * PIXEL_PITCH + lane * 4;
    #pragma unroll 1
    for (int at = x + FIRST_X; at < x + FIRST_X + TAPS_X; ++at, weight += 16, from += PIXEL_PITCH) {
      const float a = VALUE(shared_load(weight)), b = VALUE(shared_load(weight + WORDS_CHANNEL));
      #pragma unroll
      for (int i = 0; i < STRIP_X; ++i) {
        const u32 two = shared_load_word(from + i * PIXEL_PITCH);
        const bool exists = u32(at + i) < u32(EXTENT_X);
        sum[i][0] = exists ? fmaf(VALUE(u16(two)), a, sum[i][0]) : sum[i][0], sum[i][1] = exists ? fmaf(VALUE(u16(two >> 16)), b, sum[i][1]) : sum[i][1];
      }
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
  const u32 words = smem_address(dynamic_shared), pixels = words + WEIGHTS_BYTES, sums = pixels + PIXELS_BYTES, raw = pixels + ALL_PIXELS * PIXEL_PITCH;
  if (RAW_WEIGHTS) bring_weights(p, raw, tile.col);
  copy_commit();
  bring_images(map_address(p.map[0]), pixels, first_image, tile.col, p.batch);
  copy_commit();
  copy_wait<1>();
  __syncthreads();
  make_words(p, raw, words, tile.col);
  copy_wait<0>();
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
    float sum[STRIP_X][2], all = 0.f;
    take_row(sums + sum_offset(image, 2 * tile.lane, y, s.x * STRIP_X), sum);
    #pragma unroll
    for (int x = 0; x < STRIP_X; ++x) all = fmaf(sum[x][0], sum[x][1], all);
    if (__builtin_expect(all * 0.f != 0.f, 0)) mend(words, pixels, image, y, s.x * STRIP_X, tile.lane, sum);
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
