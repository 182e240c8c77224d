R"cuda(
// Sums over windows of one channel on the multiprocessor's FMA units (decision 0086). A lane has one channel and STRIP_Y x STRIP_X
// pixels of it, so that each element it reads is used TAPS times in registers. Pixels lie in shared memory in rows of BN elements.

constexpr int TAPS = TAPS_Y * TAPS_X, CHUNK = 16 / ELEM_BYTES;
constexpr int STRIPS_X = (TILE_X + STRIP_X - 1) / STRIP_X, STRIPS_Y = (TILE_Y + STRIP_Y - 1) / STRIP_Y;
constexpr int STRIPS = STRIPS_X * STRIPS_Y * (BN / 32);
// Pixels that a strip reads, and those that are loaded of a tile.
constexpr int READ_X = (STRIP_X - 1) * STEP_X + (TAPS_X - 1) * REACH_X + 1, READ_Y = (STRIP_Y - 1) * STEP_Y + (TAPS_Y - 1) * REACH_Y + 1;
constexpr int LOAD_X = (TILE_X - 1) * STEP_X + (TAPS_X - 1) * REACH_X + 1, LOAD_Y = (TILE_Y - 1) * STEP_Y + (TAPS_Y - 1) * REACH_Y + 1;
// In shared memory: rows of pixels of BN elements, as far as the last strip reads. Weights are f32, by tap.
constexpr int PIXEL_BYTES = BN * ELEM_BYTES, PITCH = ((STRIPS_X - 1) * STRIP_X * STEP_X + READ_X) * PIXEL_BYTES;
constexpr int WEIGHTS_PITCH = BN + 1;  // what is written along the taps lies in different banks
typedef float Sums[STRIP_Y][STRIP_X];

DEVICE float element_value(u32 from) {
#if ELEM_BYTES == 4
  return __uint_as_float(shared_load_word(from));
#else
  return VALUE(shared_load(from));
#endif
}

// The weights of a block's columns.
DEVICE void load_weights(const Params& p, u32 to, int column) {
  const TensorMap& w = p.map[1];
  #pragma unroll 8
  for (int i = threadIdx.x; i < BN * TAPS; i += WARPS * 32) {
    const int c = i / TAPS, tap = i % TAPS;
    const i64 from = (column + c) * i64(w.word[1]) + tap / TAPS_X * i64(w.word[2]) + tap % TAPS_X * i64(w.word[3]);
    float x = 0.f;
    if (column + c < p.n) {
#if ELEM_BYTES == 4
      x = ((const float*)w.word[0])[from];
#else
      x = VALUE(((const u16*)w.word[0])[from]);
#endif
    }
    shared_store(to + (tap * WEIGHTS_PITCH + c) * 4, __float_as_uint(x));
  }
}

// Pixels from (y, x) of an image on.
DEVICE void load_pixels(const Params& p, u32 to, int batch, int y, int x, int column) {
  constexpr int chunks = PIXEL_BYTES / 16;
  const WindowAxis &rows = p.rows.axis[1], &columns = p.rows.axis[2];
  const i64 step = rows.stride * ELEM_BYTES;
  const i64 first = map_address(p.map[0]) + (batch * p.rows.image_stride + y * rows.stride) * ELEM_BYTES;
  for (int i = threadIdx.x; i < LOAD_X * chunks; i += WARPS * 32) {
    const int at = x + i / chunks, c = column + i % chunks * CHUNK;
    const bool inside = u32(at) < u32(columns.extent) && c < p.n;
    i64 from = first + (at * columns.stride + c) * ELEM_BYTES;
    #pragma unroll 4
    for (int r = 0; r < LOAD_Y; ++r, from += step)
      copy_async(to + r * PITCH + i * 16, from, inside && u32(y + r) < u32(rows.extent) ? 16 : 0);
  }
}

// Where a strip begins in its tile, and its first channel.
struct Strip {
  int y, x, channel;
  METHOD void set(int number, int) {
    channel = number % (BN / 32) * 32, number /= BN / 32;
    x = number % STRIPS_X * STRIP_X, y = number / STRIPS_X * STRIP_Y;
  }
};

DEVICE void read_row(u32 from, float (&row)[READ_X]) {
  #pragma unroll
  for (int x = 0; x < READ_X; ++x) row[x] = element_value(from + x * PIXEL_BYTES);
}
template <int N> DEVICE void read_weights(u32 from, float (&w)[N]) {
  #pragma unroll
  for (int t = 0; t < N; ++t) w[t] = __uint_as_float(shared_load_word(from + t * WEIGHTS_PITCH * 4));
}
// A row of the filter, from weight number `first` on, over a row of pixels.
template <int N> DEVICE void add_row(const float (&row)[READ_X], const float (&w)[N], int first, float (&sum)[STRIP_X]) {
  #pragma unroll
  for (int t = 0; t < TAPS_X; ++t)
    #pragma unroll
    for (int j = 0; j < STRIP_X; ++j) sum[j] = fmaf(row[j * STEP_X + t * REACH_X], w[first + t], sum[j]);
}

DEVICE void add_up(const Strip& s, u32 pixels, int, u32 weights, int lane, Sums& sum) {
  #pragma unroll
  for (int i = 0; i < STRIP_Y; ++i)
    #pragma unroll
    for (int j = 0; j < STRIP_X; ++j) sum[i][j] = 0.f;
  u32 from = pixels + s.y * STEP_Y * PITCH + (s.x * STEP_X * BN + s.channel + lane) * ELEM_BYTES;
  weights += (s.channel + lane) * 4;
#if ROWS_IN_TURN
  {  // the rows of pixels that the filter's rows share are a ring of registers
    float ring[STRIP_Y][READ_X];
    #pragma unroll
    for (int y = 0; y + 1 < STRIP_Y; ++y, from += PITCH) read_row(from, ring[y]);
    #pragma unroll 1
    for (int tap = 0; tap < TAPS_Y; tap += STRIP_Y) {
      #pragma unroll
      for (int u = 0; u < STRIP_Y; ++u) {
        if (tap + u >= TAPS_Y) break;
        float w[TAPS_X];
        read_weights(weights, w);
        read_row(from, ring[(u + STRIP_Y - 1) % STRIP_Y]);
        weights += TAPS_X * WEIGHTS_PITCH * 4, from += PITCH;
        #pragma unroll
        for (int i = 0; i < STRIP_Y; ++i) add_row(ring[(u + i) % STRIP_Y], w, 0, sum[i]);
      }
    }
  }
#else
  float w[TAPS];
  read_weights(weights, w);
  #pragma unroll
  for (int y = 0; y < READ_Y; ++y) {
    float row[READ_X];
    read_row(from + y * PITCH, row);
    #pragma unroll
    for (int i = 0; i < STRIP_Y; ++i) {
      const int behind = y - i * STEP_Y, tap = behind / REACH_Y;
      if (behind >= 0 && behind % REACH_Y == 0 && tap < TAPS_Y) add_row(row, w, tap * TAPS_X, sum[i]);
    }
  }
#endif
}

// Groups of eight columns are exchanged by row, so that neither side meets itself in a bank.
DEVICE u32 sum_offset(int row, int column) { return (row * BN + (column ^ row % 4 * 8)) * 4; }
DEVICE void put_sums(const Strip& s, u32 to, int lane, const Sums& sum) {
  #pragma unroll
  for (int i = 0; i < STRIP_Y; ++i) {
    const int first = (s.y + i) * TILE_X + s.x;
    u32 at[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) at[k] = to + sum_offset(first + k, s.channel + lane) - k * BN * 4;
    #pragma unroll
    for (int j = 0; j < STRIP_X; ++j)
      if ((TILE_Y % STRIP_Y == 0 || s.y + i < TILE_Y) && (TILE_X % STRIP_X == 0 || s.x + j < TILE_X))
        shared_store(at[j % 4] + j * BN * 4, __float_as_uint(sum[i][j]));
  }
}
)cuda"
