R"cuda(
extern "C" __global__ void __launch_bounds__(128, RESIDENT) postlude_gemm(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 dynamic_shared[];
  const u32 d = smem_address(dynamic_shared), aux = d + D_BYTES, weights = d + EPILOGUE_BYTES, pixels = weights + WEIGHTS_BYTES;
  const u32 sums = ONE_EACH ? pixels : pixels + PIXELS_BYTES;
  follow_previous_launch();

  Tile tile = begin_tiles(p, aux + AUX_STAGES * AUX_BYTES);
  // The pixels of tile number t come while the epilogue of the one before runs.
  const int tiles = (p.batch + IMAGES - 1) / IMAGES * TILES_M, step = gridDim.x / p.tiles_n;
  const auto load = [&](int t) {
    const int m = t % TILES_M, y = m / TILES_X * TILE_Y, x = m % TILES_X * TILE_X;
    if (t < tiles)
      load_pixels(p, pixels, t / TILES_M * IMAGES, p.rows.axis[1].first + y * STEP_Y, p.rows.axis[2].first + x * STEP_X, tile.col);
    copy_commit();
  };
  int t = blockIdx.x / p.tiles_n;
  load(t);
  load_weights(p, weights, tile.col);
  for (; t < tiles; t += step) {
    // What follows from these for one tile is not kept in registers for the next: it would spill.
    const int warp = opaque(__shfl_sync(~0u, threadIdx.x / 32, 0)), lane = opaque(lane_id());
    set_tile(tile, t, warp, lane);
    #pragma unroll
    for (int n = 0; n < AUX_STAGES; ++n) issue_load(p, tile, aux, n);
    copy_wait<AUX_STAGES>();
    __syncthreads();

    Strip strip;
    Sums sum;
    if (ONE_EACH) {
      strip.set(warp, lane);
      if (warp < STRIPS) add_up(strip, pixels, 0, weights, lane, sum);
      __syncthreads();
      if (warp < STRIPS) put_sums(strip, sums, lane, sum);
    } else {
      #pragma unroll 1
      for (int s = warp; s < STRIPS; s += WARPS) {
        strip.set(s, lane);
        add_up(strip, pixels, 0, weights, lane, sum);
        put_sums(strip, sums, lane, sum);
      }
    }
    __syncthreads();
    finish_images(p, tile, d, aux, sums, warp, lane, [&] { load(t + step); });
  }
}
)cuda"
