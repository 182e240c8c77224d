R"cuda(
// The weight gradient of a depthwise convolution: of each channel and tap, the sum of what the tap sees times dY, over all pixels of
// all images. A block has BN channels and goes through its part of the tiles of TILE_Y x TILE_X pixels: dY's and those of X around
// them come into shared memory, zeros outside of the image. A lane has one channel, and holds the sums of all of its taps; a warp
// goes through strips of STRIP_Y x STRIP_X pixels, so that an element of X is read once for several rows of dY. The warps' sums meet in
// shared memory, the parts' in device memory (decision 0087).

constexpr int TAPS = TAPS_Y * TAPS_X, THREADS = 256, WARPS = THREADS / 32, CHUNK = 16 / ELEM_BYTES;
constexpr int STRIPS_X = (TILE_X + STRIP_X - 1) / STRIP_X, STRIPS = STRIPS_X * ((TILE_Y + STRIP_Y - 1) / STRIP_Y);
// Pixels of X that a strip reads, and those that are loaded for a tile.
constexpr int READ_X = (STRIP_X - 1) * STEP_X + (TAPS_X - 1) * REACH_X + 1, READ_Y = (STRIP_Y - 1) * STEP_Y + (TAPS_Y - 1) * REACH_Y + 1;
constexpr int LOAD_X = (TILE_X - 1) * STEP_X + (TAPS_X - 1) * REACH_X + 1, LOAD_Y = (TILE_Y - 1) * STEP_Y + (TAPS_Y - 1) * REACH_Y + 1;
constexpr int PIXEL_BYTES = BN * ELEM_BYTES, X_BYTES = LOAD_X * LOAD_Y * PIXEL_BYTES;
// All strips have STRIP_X pixels in each of their rows, or none.
constexpr bool WHOLE = TILE_X % STRIP_X == 0 && PIXELS_X % STRIP_X == 0;

struct Params : FilterSums { Rows rows; };

DEVICE float element_at(const u8* from) {
#if ELEM_BYTES == 4
  return *(const float*)from;
#else
  return VALUE(*(const u16*)from);
#endif
}

// COLUMNS x ROWS pixels from (x, y) of an image of `rows` x `columns` on, to rows of pixels of BN channels.
template <int COLUMNS, int ROWS>
DEVICE void load_pixels(u32 to, i64 image, int y, int x, int rows, int columns, i64 row_stride, i64 column_stride, int channels) {
  constexpr int chunks = PIXEL_BYTES / 16, row = COLUMNS * chunks, beside = row < THREADS ? THREADS / row : 1;
  if (row < THREADS && threadIdx.x >= beside * row) return;
  const int first = row < THREADS ? threadIdx.x / row : 0;
  for (int i = row < THREADS ? threadIdx.x % row : threadIdx.x; i < row; i += THREADS) {
    const int at = x + i / chunks, c = i % chunks * CHUNK;
    const bool inside = u32(at) < u32(columns) && c < channels;
    const i64 from = image + (at * column_stride + c) * ELEM_BYTES;
    #pragma unroll 4
    for (int r = first; r < ROWS; r += beside) {
      const bool there = inside && u32(y + r) < u32(rows);
      copy_async(to + (r * row + i) * 16, there ? from + (y + r) * row_stride * ELEM_BYTES : image, there ? 16 : 0);
    }
  }
}

struct TileAt { int image, y, x; };
DEVICE TileAt tile_at(const Params& p, int t) {
  const int x = t % p.tiles_x, y = t / p.tiles_x % p.tiles_y;
  return {t / p.tiles_x / p.tiles_y, y * TILE_Y, x * TILE_X};
}
DEVICE void load_tile(const Params& p, u32 to, int t, int column) {
  const TileAt at = tile_at(p, t);
  const WindowAxis &rows = p.rows.axis[1], &columns = p.rows.axis[2];
  load_pixels<LOAD_X, LOAD_Y>(to, p.x + (at.image * p.rows.image_stride + column) * ELEM_BYTES, rows.first + at.y * STEP_Y,
                              columns.first + at.x * STEP_X, rows.extent, columns.extent, rows.stride, columns.stride, p.channels - column);
  load_pixels<TILE_X, TILE_Y>(to + X_BYTES, p.dy + (at.image * p.image_stride + column) * ELEM_BYTES, at.y, at.x, rows.pixels, columns.pixels,
                              p.row_stride, p.column_stride, p.channels - column);
}

// Adds what a strip gives, of which so many rows and columns are pixels. A product with a pixel that is none is not formed: X may be
// infinite there.
DEVICE void add_strip(const u8* x, const u8* dy, int rows, int columns, float (&sum)[TAPS]) {
  float of_dy[STRIP_Y][STRIP_X];
  #pragma unroll
  for (int i = 0; i < STRIP_Y; ++i)
    #pragma unroll
    for (int j = 0; j < STRIP_X; ++j)
      of_dy[i][j] = i < rows && (WHOLE || j < columns) ? element_at(dy + (i * TILE_X + j) * PIXEL_BYTES) : 0.f;
  #pragma unroll
  for (int y = 0; y < READ_Y; ++y) {
    float of_x[READ_X];
    #pragma unroll
    for (int j = 0; j < READ_X; ++j) of_x[j] = element_at(x + (y * LOAD_X + j) * PIXEL_BYTES);
    #pragma unroll
    for (int i = 0; i < STRIP_Y; ++i) {
      const int behind = y - i * STEP_Y, tap = behind / REACH_Y;
      if (behind < 0 || behind % REACH_Y != 0 || tap >= TAPS_Y || i >= rows) continue;
      #pragma unroll
      for (int j = 0; j < STRIP_X; ++j) {
        if (!WHOLE && j >= columns) continue;
        #pragma unroll
        for (int s = 0; s < TAPS_X; ++s) sum[tap * TAPS_X + s] = fmaf(of_x[j * STEP_X + s * REACH_X], of_dy[i][j], sum[tap * TAPS_X + s]);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) postlude_filters(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 dynamic_shared[];
  follow_previous_launch();
  const int part = blockIdx.x / p.blocks, column = blockIdx.x % p.blocks * BN;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, channel = warp % (BN / 32) * 32 + lane;
  const int first = int(i64(p.tiles) * part / p.parts), end = int(i64(p.tiles) * (part + 1) / p.parts);
  const auto load = [&](int t) {
    if (t < end) load_tile(p, smem_address(dynamic_shared) + (t - first) % STAGES * TILE_BYTES, t, column);
    copy_commit();
  };
  float sum[TAPS] = {};
  load(first);
  for (int t = first; t < end; ++t) {
    if (STAGES > 1) load(t + 1);
    copy_wait<STAGES - 1>();
    __syncthreads();
    const TileAt at = tile_at(p, t);
    const int rows = min(TILE_Y, p.rows.axis[1].pixels - at.y), columns = min(TILE_X, p.rows.axis[2].pixels - at.x);
    const u8* const x = dynamic_shared + (t - first) % STAGES * TILE_BYTES + channel * ELEM_BYTES;
    #pragma unroll 1
    for (int s = warp / (BN / 32); s < STRIPS; s += WARPS / (BN / 32)) {
      const int sx = s % STRIPS_X * STRIP_X, sy = s / STRIPS_X * STRIP_Y;
      if (sx < columns && sy < rows)
        add_strip(x + (sy * STEP_Y * LOAD_X + sx * STEP_X) * PIXEL_BYTES, x + X_BYTES + (sy * TILE_X + sx) * PIXEL_BYTES, rows - sy, columns - sx, sum);
    }
    __syncthreads();
    if (STAGES == 1) load(t + 1);
  }
  // The warps of a channel are added in their order.
  float* const sums = (float*)dynamic_shared;
  #pragma unroll
  for (int tap = 0; tap < TAPS; ++tap) sums[(warp / (BN / 32) * BN + channel) * TAPS + tap] = sum[tap];
  __syncthreads();
  float* const to = (float*)p.to + part * p.part_elements + i64(column) * TAPS;
  for (int i = threadIdx.x; i < min(BN, p.channels - column) * TAPS; i += THREADS) {
    float all = sums[i];
    #pragma unroll
    for (int other = 1; other < WARPS / (BN / 32); ++other) all += sums[other * BN * TAPS + i];
    to[i] = all;
  }
}
)cuda"
