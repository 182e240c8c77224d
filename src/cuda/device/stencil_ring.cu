R"cuda(
// A block's tiles follow each other, so that the rows of pixels which the next tile reads again stay where they are, in a ring of RING
// rows. Others come into those that no tile needs any longer, up to two tiles ahead: a barrier for each tile of two tells that its
// rows are there.
constexpr int ADVANCE = TILE_Y * STEP_Y;
extern "C" __global__ void __launch_bounds__(128, RESIDENT) postlude_gemm(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 dynamic_shared[];
  const u32 d = (smem_address(dynamic_shared) + 511) & ~511u, aux = d + D_BYTES, weights = d + EPILOGUE_BYTES, pixels = weights + WEIGHTS_BYTES;
  const u32 sums = pixels + PIXELS_BYTES, barriers = sums + SUMS_BYTES;
  const bool asks = threadIdx.x < 32 && elect_one();
  if (asks) {
    mbarrier_init(barriers, 1), mbarrier_init(barriers + 8, 1);
    fence_mbarrier_init();
    tma_prefetch(p.map[0]);
  }
  follow_previous_launch();
  __syncthreads();

  Tile tile = begin_tiles(p, aux + AUX_STAGES * AUX_BYTES);
  const int tiles = (p.batch + IMAGES - 1) / IMAGES * TILES_M, blocks = gridDim.x / p.tiles_n, block = blockIdx.x / p.tiles_n;
  const int first = i64(tiles) * block / blocks, end = i64(tiles) * (block + 1) / blocks;
  const auto stays = [&](int t) { return TILES_X == 1 && ADVANCE < LOAD_ROWS && t > first && t < end && t % TILES_M != 0; };
  int next = first, head = 0, used = 0;  // the tile whose rows are asked for next; where they will lie; rows that are not free
  const auto ask = [&](int most) {
    if (threadIdx.x >= 32) return;
    for (; next < min(most, end); ++next) {
      const int rows = stays(next) ? ADVANCE : LOAD_ROWS, m = next % TILES_M, bar = barriers + (next - first) % 2 * 8;
      if (used + rows > RING) break;
      if (asks) {
        const int y = p.rows.axis[1].first + m / TILES_X * ADVANCE + LOAD_ROWS - rows, x = p.rows.axis[2].first + m % TILES_X * TILE_X * STEP_X;
        mbarrier_expect(bar, rows * ROW_BYTES);
        for (int r = 0; r < rows; ++r) load_row(p, pixels + row_offset(head + r), bar, next / TILES_M * IMAGES, y + r, x, tile.col);
      }
      head += rows, used += rows;
      if (head >= RING) head -= RING;
    }
  };
  ask(first + 2);
  load_weights(p, weights, tile.col);
  __syncthreads();
  const int own_warp = __shfl_sync(~0u, threadIdx.x / 32, 0), own_lane = lane_id();
  Strip strip;
  strip.set(own_warp, own_lane);
  for (int t = first, row = 0; t < end; ++t) {
    // What follows from these for one tile's epilogue is not kept in registers for the next: it would spill.
    const int warp = opaque(own_warp), lane = opaque(own_lane);
    set_tile(tile, t, warp, lane);
    #pragma unroll
    for (int n = 0; n < AUX_STAGES; ++n) issue_load(p, tile, aux, n);
    mbarrier_wait(barriers + (t - first) % 2 * 8, (t - first) / 2 % 2);
    #pragma unroll 1
    for (int s = own_warp; s < STRIPS; s += WARPS) {
      if (!ONE_EACH) strip.set(s, lane);
      Sums sum;
      add_up(strip, pixels, row, weights, own_lane, sum);
      put_sums(strip, sums, own_lane, sum);
    }
    fence_async_shared();
    __syncthreads();
    const int free = stays(t + 1) ? ADVANCE : LOAD_ROWS;
    used -= free, row += free;
    if (row >= RING) row -= RING;
    ask(t + 3);
    finish_images(p, tile, d, aux, sums, warp, lane, [] {});
  }
}
)cuda"
