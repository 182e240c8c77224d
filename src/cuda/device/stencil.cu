R"cuda(
// A depthwise convolution. A block goes through tiles of TILE_Y x TILE_X pixels of BN channels, or through the whole images of
// IMAGES such tiles at a time. It brings a tile's pixels and those around it into shared memory, zeros outside of the image; warps add
// up their strips of them (stencil_lanes.cu, stencil_bands.cu); the sums go through shared memory to where mma.sync would have left
// them, and the epilogue of products follows (decision 0086).

constexpr int TILES_X = (PIXELS_X + TILE_X - 1) / TILE_X;
// A strip a warp: then the sums may lie where the pixels were.
constexpr bool ONE_EACH = STRIPS <= WARPS;

// Sums are rows of BN words.
DEVICE void take_sums(u32 from, int warp, int lane, ACC (&acc)[MI][WG_COLUMNS / 2]) {
  #pragma unroll
  for (int i = 0; i < MI; ++i)
    #pragma unroll
    for (int j = 0; j < BN / 8; ++j)
      #pragma unroll
      for (int h = 0; h < 2; ++h) {
        u32 x, y;
        shared_load(from + sum_offset(i * 64 + warp * 16 + lane / 4 + 8 * h, 8 * j + 2 * (lane % 4)), x, y);
        acc[i][4 * j + 2 * h] = __uint_as_float(x), acc[i][4 * j + 2 * h + 1] = __uint_as_float(y);
      }
}

extern "C" __global__ void __launch_bounds__(128, RESIDENT) postlude_gemm(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 dynamic_shared[];
  const u32 d = smem_address(dynamic_shared), aux = d + D_BYTES, weights = d + EPILOGUE_BYTES, pixels = weights + WEIGHTS_BYTES;
  const u32 sums = ONE_EACH ? pixels : pixels + PIXELS_BYTES;
  follow_previous_launch();

  Tile tile;
  tile.tile_n = blockIdx.x % p.tiles_n, tile.col = tile.tile_n * BN, tile.turn = 0;
  tile.wg = 0, tile.thread = threadIdx.x, tile.barrier = 1;
  tile.scratch = aux + AUX_STAGES * AUX_BYTES;
  // The pixels of tile number t come while the epilogue of the one before runs.
  const int tiles = (p.batch + IMAGES - 1) / IMAGES * p.tiles_m, step = gridDim.x / p.tiles_n;
  const auto load = [&](int t) {
    const int m = t % p.tiles_m, y = m / TILES_X * TILE_Y, x = m % TILES_X * TILE_X;
    if (t < tiles)
      load_pixels(p, pixels, t / p.tiles_m * IMAGES, p.rows.axis[1].first + y * STEP_Y, p.rows.axis[2].first + x * STEP_X, tile.col);
    copy_commit();
  };
  int t = blockIdx.x / p.tiles_n;
  load(t);
  load_weights(p, weights, tile.col);
  for (; t < tiles; t += step) {
    // What follows from these for one tile is not kept in registers for the next: it would spill.
    const int warp = opaque(__shfl_sync(~0u, threadIdx.x / 32, 0)), lane = opaque(lane_id());
    tile.warp = warp, tile.lane = lane;
    tile.batch = t / p.tiles_m * IMAGES, tile.tile_m = tile.slot_m = t % p.tiles_m;
    tile.row = tile.tile_m / TILES_X * TILE_Y * PIXELS_X + tile.tile_m % TILES_X * TILE_X;
    #pragma unroll
    for (int n = 0; n < AUX_STAGES; ++n) issue_load(p, tile, aux, n);
    copy_wait<AUX_STAGES>();
    __syncthreads();

    Strip strip;
    Sums sum;
    if (ONE_EACH) {
      strip.set(warp, lane);
      if (warp < STRIPS) add_up(strip, pixels, weights, lane, sum);
      __syncthreads();
      if (warp < STRIPS) put_sums(strip, sums, lane, sum);
    } else {
      #pragma unroll 1
      for (int s = warp; s < STRIPS; s += WARPS) {
        strip.set(s, lane);
        add_up(strip, pixels, weights, lane, sum);
        put_sums(strip, sums, lane, sum);
      }
    }
    __syncthreads();
    const int images = IMAGES == 1 ? 1 : min(IMAGES, p.batch - tile.batch);
    #pragma unroll 1
    for (int image = 0; image < images; ++image, ++tile.batch) {
      #pragma unroll
      for (int n = 0; image && n < AUX_STAGES; ++n) issue_load(p, tile, aux, n);
      ACC acc[MI][WG_COLUMNS / 2];
      take_sums(sums + image * BM * BN * 4, warp, lane, acc);
      __syncthreads();  // nobody reads the last image's sums, or what the epilogue of the image before had in shared memory
      if (image + 1 == images) load(t + step);
      Passage by = {d, aux, 0};
      Epilogue epilogue;
      epilogue.begin(p, tile);
      run_epilogue(p, tile, epilogue, acc, by);
    }
  }
}
)cuda"
