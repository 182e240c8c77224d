R"cuda(
// A depthwise convolution. A block goes through tiles of TILE_Y x TILE_X pixels of BN channels, or through the whole images of
// IMAGES such tiles at a time. It brings a tile's pixels and those around it into shared memory, zeros outside of the image; warps add
// up their strips of them (stencil_lanes.cu, stencil_bands.cu); the sums go through shared memory to where mma.sync would have left
// them, and the epilogue of products follows (decision 0086).

constexpr int TILES_X = (PIXELS_X + TILE_X - 1) / TILE_X, TILES_M = TILES_X * ((PIXELS_Y + TILE_Y - 1) / TILE_Y);  // of an image
// A strip a warp: then the sums may lie where the pixels were.
constexpr bool ONE_EACH = STRIPS <= WARPS;

// Sums are rows of BN words, SUM_ROWS of an image.
DEVICE void take_sums(u32 from, int warp, int lane, ACC (&acc)[MI][WG_COLUMNS / 2]) {
  #pragma unroll
  for (int i = 0; i < MI; ++i)
    #pragma unroll
    for (int j = 0; j < BN / 8; ++j)
      #pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = i * 64 + warp * 16 + lane / 4 + 8 * h;
        u32 x, y;
        shared_load(from + sum_offset(SUM_ROWS < BM ? min(row, SUM_ROWS - 1) : row, 8 * j + 2 * (lane % 4)), x, y);
        acc[i][4 * j + 2 * h] = __uint_as_float(x), acc[i][4 * j + 2 * h + 1] = __uint_as_float(y);
      }
}

// The epilogue on the sums of a tile's images; `taken()` when the last ones have been.
template <class F> DEVICE void finish_images(const Params& p, Tile& tile, u32 d, u32 aux, u32 sums, int warp, int lane, F taken) {
  const int images = IMAGES == 1 ? 1 : min(IMAGES, p.batch - tile.batch);
  #pragma unroll 1
  for (int image = 0; image < images; ++image, ++tile.batch) {
    #pragma unroll
    for (int n = 0; image && n < AUX_STAGES; ++n) issue_load(p, tile, aux, n);
    ACC acc[MI][WG_COLUMNS / 2];
    take_sums(sums + image * SUM_ROWS * BN * 4, warp, lane, acc);
    __syncthreads();  // nobody reads the last image's sums, or what the epilogue of the image before had in shared memory
    if (image + 1 == images) taken();
    Passage by = {d, aux, 0};
    Epilogue epilogue;
    epilogue.begin(p, tile);
    run_epilogue(p, tile, epilogue, acc, by);
  }
}

DEVICE Tile begin_tiles(const Params& p, u32 scratch) {
  Tile tile;
  tile.tile_n = blockIdx.x % p.tiles_n, tile.col = tile.tile_n * BN, tile.turn = 0;
  tile.wg = 0, tile.thread = threadIdx.x, tile.barrier = 1;
  tile.scratch = scratch;
  return tile;
}
// Tile number t.
DEVICE void set_tile(Tile& tile, int t, int warp, int lane) {
  tile.warp = warp, tile.lane = lane;
  tile.batch = t / TILES_M * IMAGES, tile.tile_m = tile.slot_m = t % TILES_M;
  tile.row = tile.tile_m / TILES_X * TILE_Y * PIXELS_X + tile.tile_m % TILES_X * TILE_X;
}
)cuda"
