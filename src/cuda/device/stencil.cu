R"cuda(
// A depthwise convolution. A block goes through tiles of TILE_Y x TILE_X pixels of BN channels, or through the whole images of
// IMAGES such tiles at a time. It brings a tile's pixels and those around it into shared memory, zeros outside of the image; warps add
// up their strips of them (stencil_lanes.cu, stencil_bands.cu); the sums go through shared memory to where mma.sync would have left
// them, and the epilogue of products follows (decision 0086).

constexpr int TILES_X = (PIXELS_X + TILE_X - 1) / TILE_X, TILES_M = TILES_X * ((PIXELS_Y + TILE_Y - 1) / TILE_Y);  // of an image
// A strip a warp: then the sums may lie where the pixels were.
constexpr bool ONE_EACH = STRIPS <= WARPS;

// Sums are rows of BN words, SUM_ROWS of an image; those 64 rows further lie alike. Of rows that have no pixel anything is taken.
DEVICE void take_sums(u32 from, int warp, int lane, ACC (&acc)[MI][WG_COLUMNS / 2], int first, int end) {
  #pragma unroll
  for (int j = 0; j < BN / 8; ++j)
    #pragma unroll
    for (int h = 0; h < 2; ++h) {
      const u32 at = from + sum_offset(warp * 16 + lane / 4 + 8 * h, 8 * j + 2 * (lane % 4));
      #pragma unroll
      for (int i = first; i < end; ++i) {
        u32 x, y;
        shared_load(at + i * 64 * BN * 4, x, y);
        acc[i][4 * j + 2 * h] = __uint_as_float(x), acc[i][4 * j + 2 * h + 1] = __uint_as_float(y);
      }
    }
}

// Where sums have memory of their own, and four warps do nothing but this, each 64 rows of them are taken when their turn comes.
constexpr bool IN_TURN = BESIDE && !ROLLED && !HELD && GROUPS == 1;
struct PassageOfSums : Passage {
  u32 sums;
  int warp, lane;
  METHOD void bring(ACC (&acc)[MI][WG_COLUMNS / 2], int i) const {
    if (IN_TURN) take_sums(sums, warp, lane, acc, i, i + 1);
  }
};

// The epilogue on the sums of a tile's images; `taken()` when the last ones have been.
template <class F> DEVICE void finish_images(const Params& p, Tile& tile, u32 d, u32 aux, u32 sums, int warp, int lane, F taken) {
  const int images = IMAGES == 1 ? 1 : min(IMAGES, p.batch - tile.batch);
  #pragma unroll 1
  for (int image = 0; image < images; ++image, ++tile.batch) {
    #pragma unroll
    for (int n = 0; image && n < AUX_STAGES; ++n) issue_load(p, tile, aux, n);
    ACC acc[MI][WG_COLUMNS / 2];
    const bool last = image + 1 == images;
    PassageOfSums by = {{d, aux, 0}, sums + image * SUM_ROWS * BN * 4, warp, lane};
    if (!IN_TURN) take_sums(by.sums, warp, lane, acc, 0, MI);
    // Nobody reads the last image's sums, or what the epilogue of the image before had in shared memory.
    named_sync(tile.barrier, WARPS * 32);
    if (!IN_TURN && last) taken();
    Epilogue epilogue;
    epilogue.begin(p, tile);
    run_epilogue(p, tile, epilogue, acc, by);
    if (IN_TURN && last) taken();
  }
}

DEVICE Tile begin_tiles(const Params& p, u32 scratch) {
  Tile tile;
  tile.tile_n = blockIdx.x % p.tiles_n, tile.col = tile.tile_n * BN, tile.turn = 0;
  tile.wg = 0, tile.thread = threadIdx.x % (WARPS * 32), tile.barrier = 1;
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
