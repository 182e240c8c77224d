R"cuda(
// Sums over windows of one channel on tensor cores (decision 0088). A row of a filter is a band: a matrix whose column n has the
// row's weights from row n * STEP_X on, so that 16 pixels beside each other times K_BLOCKS bands of 16 x 8 are eight sums. mma.sync
// takes 16 such runs of pixels, which lie anywhere, each STRIP_Y rows high. A warp has eight channels of them: a lane reads the
// eight of two neighbouring pixels as 16 bytes each and puts pairs together, one channel's in a register.
// In shared memory there are images of LOAD_ROWS rows of PIXELS_ROW pixels of 32 channels, so that two pixels are a line of 128 bytes:
// cp.async takes a step for each line that it reads and each that it writes of it.

constexpr int PLANES = BN / 8, IMAGE_BYTES = LOAD_ROWS * PIXELS_ROW * BN * 2, BLOCKS_X = (TILE_X + 7) / 8, GROUPS_Y = (TILE_Y + STRIP_Y - 1) / STRIP_Y;
constexpr int RUNS = IMAGES * GROUPS_Y * BLOCKS_X, STRIPS = (RUNS + 15) / 16 * PLANES;
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
  for (int i = threadIdx.x; i < BN * TAPS_Y; i += WARPS * 32) {
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

// Where eight channels of a pixel lie. The four eights of a pixel are exchanged by its pair, two pixels by their run, of which
// eight lanes read two, so that these meet in no bank.
DEVICE int side(int x, int y) { return (x / (8 * STEP_X) ^ y / (STRIP_Y * STEP_Y)) & 1; }
DEVICE u32 pixel_offset(int x, int y, int plane) {
  return (y * PIXELS_ROW + (x & ~1)) * BN * 2 + ((x ^ side(x, y)) & 1) * 64 + (plane ^ x / 2 % 4) * 16;
}

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
        copy_async(to + image * IMAGE_BYTES + pixel_offset(at, r, plane), from, exists && u32(y + r) < u32(rows.extent) ? 16 : 0);
    }
  }
}

// A plane of channels, and this lane's runs, which are rows lane / 4 and lane / 4 + 8 of the matrices.
struct Strip {
  int plane, image[2], y[2], x[2];  // in strips
  bool exists[2];
  METHOD void set(int number, int lane) {
    plane = number % PLANES;
    #pragma unroll
    for (int h = 0; h < 2; ++h) {
      int run = number / PLANES * 16 + lane / 4 + 8 * h;
      exists[h] = run < RUNS;
      if (!exists[h]) run = 0;
      x[h] = run % BLOCKS_X, run /= BLOCKS_X;
      y[h] = run % GROUPS_Y, image[h] = run / GROUPS_Y;
    }
  }
  METHOD u32 first(int h) const { return image[h] * IMAGE_BYTES + (y[h] * STRIP_Y * STEP_Y * PIXELS_ROW + x[h] * 8 * STEP_X) * BN * 2; }
};

// Pixels 2 * (lane % 4) + 8 * half and the next one, of both runs: a matrix of each channel.
DEVICE void read_pixels(const u32 (&from)[2][2], int y, int k, u32 (&a)[8][4]) {
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int x = 16 * k + r / 2 * 8, turned = side(x, y), offset = (y * PIXELS_ROW + x) * BN * 2;
    u32 even[4], odd[4];
    shared_load(from[r % 2][turned] + offset, even[0], even[1], even[2], even[3]);
    shared_load(from[r % 2][turned ^ 1] + offset, odd[0], odd[1], odd[2], odd[3]);
    #pragma unroll
    for (int c = 0; c < 4; ++c) a[2 * c][r] = __byte_perm(even[c], odd[c], 0x5410), a[2 * c + 1][r] = __byte_perm(even[c], odd[c], 0x7632);
  }
}
// Bands of four channels.
DEVICE void read_bands(const u32 (&from)[2], int first, int tap, u32 (&b)[8][2]) {
  #pragma unroll
  for (int h = 0; h < 2; ++h)
    shared_load(from[h] + word_offset(first, tap, 0), b[first][h], b[first + 1][h], b[first + 2][h], b[first + 3][h]);
}

// A zero of a band times an infinity is no number: what is none is added up again, tap by tap.
DEVICE void mend(const Strip& s, u32 pixels, u32 weights, int lane, Sums& sum) {
  float all = 0.f;
  #pragma unroll
  for (int n = 0; n < STRIP_Y * 32; ++n) all = fmaf(sum[n / 32][n / 4 % 8][n % 4], 0.f, all);
  if (all == all) return;
  #pragma unroll 1
  for (int n = 0; n < STRIP_Y * 32; ++n) {
    const int c = n / 4 % 8, h = n / 2 % 2;
    const int x = (8 * (h ? s.x[1] : s.x[0]) + lane % 4 * 2 + n % 2) * STEP_X, y = ((h ? s.y[1] : s.y[0]) * STRIP_Y + n / 32) * STEP_Y;
    const u32 from = pixels + (h ? s.image[1] : s.image[0]) * IMAGE_BYTES + c * 2;
    float again = 0.f;
    #pragma unroll 1
    for (int t = 0; t < TAPS_Y * TAPS_X; ++t) {
      const int r = t / TAPS_X, reach = t % TAPS_X * REACH_X;
      again = fmaf(VALUE(shared_load(from + pixel_offset(x + reach, y + r * REACH_Y, s.plane))), VALUE(shared_load(weights + word_offset(s.plane * 8 + c, r, reach + 1))), again);
    }
    #pragma unroll
    for (int at = 0; at < STRIP_Y * 32; ++at)
      if (at == n) sum[at / 32][at / 4 % 8][at % 4] = again;
  }
}

DEVICE void add_up(const Strip& s, u32 pixels, u32 weights, int lane, Sums& sum) {
  const int pair = lane % 4 * 2, n = lane / 4;
  u32 from[2][2], bands[K_BLOCKS][2];  // of a run, pixels that are not turned and that are; of a half of a band
  #pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int turned = (s.x[h] ^ s.y[h]) & 1;
    const u32 at = pixels + s.first(h) + pair * BN * 2 + (s.plane ^ lane % 4) * 16;
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
    #pragma unroll
    for (int k = 0; k < K_BLOCKS; ++k) {
      u32 a[8][4];
      read_pixels(from, y, k, a);
      #pragma unroll
      for (int i = 0; i < STRIP_Y; ++i) {
        const int behind = y - i * STEP_Y, tap = behind / REACH_Y;
        if (behind < 0 || behind % REACH_Y || tap >= TAPS_Y) continue;
        #pragma unroll
        for (int c = 0; c < 8; ++c) {
          u32 (&band)[8][2] = b[BANDS_STAY ? tap % STRIP_Y : 0];
          if (c % 4 == 0 && (!BANDS_STAY || i == 0)) read_bands(bands[k], c, tap, band);
          float (&d)[4] = sum[i][c];
          mma(d[0], d[1], d[2], d[3], a[c], band[c]);
        }
      }
    }
  }
  mend(s, pixels, weights, lane, sum);
  __syncwarp();
}

// Four words of a sum's row change places by the row, so that neither side meets itself in a bank.
DEVICE u32 sum_offset(int row, int column) {
  const int turned = ((row ^ row >> 3) & 1) << 2 | (row & 2) | (row >> 2 & 1);
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
      shared_store(to + s.image[h] * BM * BN * 4 + sum_offset(y * TILE_X + x, s.plane * 8 + c), word(c), word(c + 1), word(c + 2), word(c + 3));
  }
}
)cuda"
