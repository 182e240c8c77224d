R"cuda(
// Sums over windows of one channel on tensor cores (decision 0088). A row of a filter is a band: a matrix whose column n has the
// row's weights from row n * STEP_X on, so that 16 pixels beside each other times K_BLOCKS bands of 16 x 8 are eight sums. mma.sync
// takes 16 such runs of pixels, which lie anywhere, each STRIP_Y rows high. A warp has eight channels of them: a lane reads the
// eight of two neighbouring pixels as 16 bytes each and puts pairs together, one channel's in a register.
// In shared memory there are rows, of all images, of PIXELS_ROW pixels of 32 channels, so that two pixels are a line of 128 bytes:
// cp.async takes a step for each line that it reads and each that it writes of it. The copy engine (RING) takes none.

constexpr int PLANES = BN / 8, BLOCKS_X = (TILE_X + 7) / 8, GROUPS_Y = (TILE_Y + STRIP_Y - 1) / STRIP_Y;
constexpr int IMAGE_BYTES = PIXELS_ROW * BN * 2, ROW_BYTES = IMAGES * IMAGE_BYTES, RING_BYTES = RING * ROW_BYTES;
// Two runs beside each other (PAIRED) share what both read.
constexpr int RUNS_X = PAIRED ? (BLOCKS_X + 1) / 2 : BLOCKS_X, RUNS = IMAGES * GROUPS_Y * RUNS_X, RUNS_AT_ONCE = PAIRED ? 8 : 16;
constexpr int STRIPS = (RUNS + RUNS_AT_ONCE - 1) / RUNS_AT_ONCE * PLANES;
constexpr int READ_Y = (STRIP_Y - 1) * STEP_Y + (TAPS_Y - 1) * REACH_Y + 1;
// The words of a filter's row: weights e and e + 1 for e from -1 on, zeros where the row has none; and one of zeros.
constexpr int WIDTH_X = (TAPS_X - 1) * REACH_X + 1, WORDS_X = WIDTH_X + 2;
// Whether a row's bands stay in registers for the next row of pixels.
constexpr bool BANDS_STAY = K_BLOCKS == 1 && STEP_Y == 1 && REACH_Y == 1;
typedef float Sums[STRIP_Y][8][4];

// Weights stand by four channels, so that a lane reads those of four as 16 bytes.
DEVICE u32 word_offset(int channel, int tap_y, int word) { return ((channel / 4 * TAPS_Y + tap_y) * WORDS_X + word) * 16 + channel % 4 * 4; }
DEVICE void load_weights(const Params& p, u32 to, int column) {
  const TensorMap& w = p.map[1];
  for (int i = THREADS - 1 - threadIdx.x; i < BN * TAPS_Y; i += THREADS) {  // the first warp has pixels to ask for
    const int c = i % BN, tap = i / BN;
    const u16* const from = (const u16*)w.word[0] + (column + c) * i64(w.word[1]) + tap * i64(w.word[2]);
    const u32 at = to + word_offset(c, tap, 0);
    u32 weights[TAPS_X], before = 0;  // all on their way before the first is stored
    #pragma unroll
    for (int t = 0; t < TAPS_X; ++t) weights[t] = column + c < p.n ? from[t * i64(w.word[3])] : 0;
    #pragma unroll
    for (int e = 0; e < WIDTH_X; ++e) {
      const u32 weight = e % REACH_X == 0 ? weights[e / REACH_X] : 0;
      shared_store(at + e * 16, before | weight << 16);
      before = weight;
    }
    shared_store(at + WIDTH_X * 16, before);
    shared_store(at + WIDTH_X * 16 + 16, 0u);
  }
}

// Where eight channels of a pixel lie in its row: the four eights of a pixel are exchanged by its pair. Of the eight lanes that read
// together four read the even pixels of their pairs and four the odd ones, so that none meets another in a bank.
DEVICE u32 pixel_offset(int x, int plane) { return x * BN * 2 + (plane ^ x / 2 % 4) * 16; }
DEVICE u32 row_offset(int row) { return (RING && row >= RING ? row - RING : row) * ROW_BYTES; }

#if RING
// BOX_ROWS rows of pixels from (y, x) on, of an image and of those behind it.
DEVICE void load_rows(const Params& p, u32 to, u32 bar, int batch, int y, int x, int column) { tma_load(to, p.map[0], bar, column, x, batch, y, 0); }
#else
// Pixels from (y, x) of an image, and of those behind it, on.
DEVICE void load_pixels(const Params& p, u32 to, int batch, int y, int x, int column) {
  const WindowAxis &rows = p.rows.axis[1], &columns = p.rows.axis[2];
  const i64 step = rows.stride * 2;
  for (int i = threadIdx.x; i < PIXELS_ROW * PLANES; i += WARPS * 32) {
    const int at = i / PLANES, plane = i % PLANES, c = column + plane * 8;
    const bool inside = u32(x + at) < u32(columns.extent) && c < p.n;
    #pragma unroll 1
    for (int image = 0; image < IMAGES; ++image) {
      const bool exists = inside && batch + image < p.batch;
      i64 from = map_address(p.map[0]) + ((batch + image) * p.rows.image_stride + y * rows.stride + (x + at) * columns.stride + c) * 2;
      #pragma unroll 4
      for (int r = 0; r < LOAD_ROWS; ++r, from += step)
        copy_async(to + r * ROW_BYTES + image * IMAGE_BYTES + pixel_offset(at, plane), from, exists && u32(y + r) < u32(rows.extent) ? 16 : 0);
    }
  }
}
#endif

// A plane of channels, and this lane's runs, which are rows lane / 4 and lane / 4 + 8 of the matrices.
struct Strip {
  int plane, image[2], y[2], x[2];  // in strips
  bool exists[2];
  METHOD void set(int number, int lane) {
    plane = number % PLANES;
    #pragma unroll
    for (int h = 0; h < 2; ++h) {
      int run = number / PLANES * RUNS_AT_ONCE + lane / 4 + (PAIRED ? 0 : 8 * h);
      exists[h] = run < RUNS;
      if (!exists[h]) run = 0;
      x[h] = run % RUNS_X, run /= RUNS_X;
      if (PAIRED) {
        x[h] = 2 * x[h] + h;
        if (x[h] == BLOCKS_X) exists[h] = false, --x[h];
      }
      y[h] = run % GROUPS_Y, image[h] = run / GROUPS_Y;
    }
  }
  METHOD u32 first(int h, int row) const {
    return row_offset(row + y[h] * STRIP_Y * STEP_Y) + image[h] * IMAGE_BYTES + x[h] * 8 * STEP_X * BN * 2;
  }
};

// Register n of a lane's matrices of a row is of eight pixels, which begin at so many eights of the run's, or of the first one's of two.
DEVICE constexpr int half_of(int n) { return n / 4 * 2 + n % 4 / 2 + (PAIRED ? n % 2 * STEP_X : 0); }
DEVICE constexpr bool is_first(int n) {
  for (int i = PAIRED ? 0 : n; i < n; ++i)
    if (half_of(i) == half_of(n)) return false;
  return true;
}
// Of these a lane has 2 * (lane % 4) and the next one, of eight channels; `from`: the one that it reads first, the other.
DEVICE void read_half(const u32 (&from)[2], int offset, int turned, u32 (&a)[8]) {
  u32 x[4], y[4];
  shared_load(from[0] + offset, x[0], x[1], x[2], x[3]);
  shared_load(from[1] + offset, y[0], y[1], y[2], y[3]);
  #pragma unroll
  for (int c = 0; c < 4; ++c)
    a[2 * c] = __byte_perm(x[c], y[c], turned ? 0x1054 : 0x5410), a[2 * c + 1] = __byte_perm(x[c], y[c], turned ? 0x3276 : 0x7632);
}
// Bands of four channels.
DEVICE void read_bands(const u32 (&from)[2], int first, int tap, u32 (&b)[8][2]) {
  #pragma unroll
  for (int h = 0; h < 2; ++h)
    shared_load(from[h] + word_offset(first, tap, 0), b[first][h], b[first + 1][h], b[first + 2][h], b[first + 3][h]);
}

// A zero of a band times an infinity is no number: what is none is added up again, tap by tap.
DEVICE void mend(const Strip& s, u32 pixels, int row, u32 weights, int lane, Sums& sum) {
  float all[4] = {};  // in turns: one alone would wait for itself
  #pragma unroll
  for (int n = 0; n < STRIP_Y * 32; ++n) all[n % 4] = fmaf(sum[n / 32][n / 4 % 8][n % 4], 0.f, all[n % 4]);
  if (all[0] + all[1] + all[2] + all[3] == 0.f) return;
  #pragma unroll 1
  for (int n = 0; n < STRIP_Y * 32; ++n) {
    const int c = n / 4 % 8, h = n / 2 % 2;
    const int x = (8 * (h ? s.x[1] : s.x[0]) + lane % 4 * 2 + n % 2) * STEP_X, y = ((h ? s.y[1] : s.y[0]) * STRIP_Y + n / 32) * STEP_Y;
    const u32 from = pixels + (h ? s.image[1] : s.image[0]) * IMAGE_BYTES + c * 2;
    float again = 0.f;
    #pragma unroll 1
    for (int t = 0; t < TAPS_Y * TAPS_X; ++t) {
      const int r = t / TAPS_X, reach = t % TAPS_X * REACH_X;
      const u32 at = from + row_offset(row + y + r * REACH_Y) + pixel_offset(x + reach, s.plane);
      again = fmaf(VALUE(shared_load(at)), VALUE(shared_load(weights + word_offset(s.plane * 8 + c, r, reach + 1))), again);
    }
    #pragma unroll
    for (int at = 0; at < STRIP_Y * 32; ++at)
      if (at == n) sum[at / 32][at / 4 % 8][at % 4] = again;
  }
}

// The pixels of a tile begin at row `row` of those in shared memory.
DEVICE void add_up(const Strip& s, u32 pixels, int row, u32 weights, int lane, Sums& sum) {
  const int pair = lane % 4 * 2, n = lane / 4, turned = n & 1;
  u32 from[2][2], bands[K_BLOCKS][2];  // of a run; of a half of a band
  #pragma unroll
  for (int h = 0; h < 2; ++h) {
    // Of a pair the second run's pixels are those of the first from here on. It may be none: then they are others, which exist.
    const u32 at = pixels + s.first(h, row) + pixel_offset(pair, s.plane) - (PAIRED && h ? STEP_X * 8 * BN * 2 : 0);
    from[h][0] = at + turned * 64, from[h][1] = at + (turned ^ 1) * 64;
  }
  #pragma unroll
  for (int k = 0; k < 2 * K_BLOCKS; ++k) {
    const int word = 8 * k + pair - n * STEP_X + 1;
    bands[k / 2][k % 2] = weights + word_offset(s.plane * 8, 0, u32(word) <= u32(WIDTH_X) ? word : WIDTH_X + 1);
  }
  #pragma unroll
  for (int i = 0; i < STRIP_Y * 32; ++i) sum[i / 32][i / 4 % 8][i % 4] = 0.f;
  u32 b[BANDS_STAY ? STRIP_Y : 1][8][2];
  #pragma unroll
  for (int y = 0; y < READ_Y; ++y) {
    u32 halves[2][2 * K_BLOCKS + (PAIRED ? STEP_X : 0)][8];
    #pragma unroll
    for (int k = 0; k < K_BLOCKS; ++k) {
      #pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int half = half_of(4 * k + r), run = PAIRED ? half >= 2 * K_BLOCKS : r % 2;
        if (is_first(4 * k + r)) read_half(from[run], (RING ? 0 : y * ROW_BYTES) + half * 8 * BN * 2, turned, halves[PAIRED ? 0 : run][half]);
      }
      #pragma unroll
      for (int i = 0; i < STRIP_Y; ++i) {
        const int behind = y - i * STEP_Y, tap = behind / REACH_Y;
        if (behind < 0 || behind % REACH_Y || tap >= TAPS_Y) continue;
        #pragma unroll
        for (int c = 0; c < 8; ++c) {
          u32 (&band)[8][2] = b[BANDS_STAY ? tap % STRIP_Y : 0];
          if (c % 4 == 0 && (!BANDS_STAY || i == 0)) read_bands(bands[k], c, tap, band);
          u32 a[4];
          #pragma unroll
          for (int r = 0; r < 4; ++r) a[r] = halves[PAIRED ? 0 : r % 2][half_of(4 * k + r)][c];
          float (&d)[4] = sum[i][c];
          mma(d[0], d[1], d[2], d[3], a, band[c]);
        }
      }
    }
    if (RING && y + 1 < READ_Y) {
      bool wraps[2];
      #pragma unroll
      for (int h = 0; h < 2; ++h) wraps[h] = from[PAIRED ? 0 : h][0] + ROW_BYTES >= pixels + RING_BYTES;
      #pragma unroll
      for (int h = 0; h < 4; ++h) from[h / 2][h % 2] += wraps[h / 2] ? ROW_BYTES - RING_BYTES : ROW_BYTES;
    }
  }
  mend(s, pixels, row, weights, lane, sum);
  __syncwarp();
}

// Four words of a sum's row change places by the row, so that neither side meets itself in a bank.
DEVICE u32 sum_offset(int row, int column) {
  const int turned = ((row ^ row >> (PAIRED ? 4 : 3)) & 1) << 2 | (row & 2) | (row >> 2 & 1);
  return row * BN * 4 + (column / 4 ^ turned) * 16 + column % 4 * 4;
}
DEVICE void put_sums(const Strip& s, u32 to, int lane, const Sums& sum) {
  #pragma unroll
  for (int n = 0; n < STRIP_Y * 4; ++n) {
    const int d = n % 4, h = d / 2, y = s.y[h] * STRIP_Y + n / 4, x = s.x[h] * 8 + lane % 4 * 2 + d % 2;
    if (!s.exists[h] || (TILE_Y % STRIP_Y && y >= TILE_Y) || (TILE_X % 8 && x >= TILE_X)) continue;
    const auto word = [&](int c) { return __float_as_uint(sum[n / 4][c][d]); };
    #pragma unroll
    for (int c = 0; c < 8; c += 4)
      shared_store(to + s.image[h] * SUM_ROWS * BN * 4 + sum_offset(y * TILE_X + x, s.plane * 8 + c), word(c), word(c + 1), word(c + 2), word(c + 3));
  }
}
)cuda"
