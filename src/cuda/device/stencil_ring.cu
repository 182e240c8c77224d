R"cuda(
// A block's tiles follow each other, so that the rows of pixels which the next tile reads again stay where they are, in a ring of RING
// rows. Others come into those that no tile needs any longer, up to two tiles ahead: a barrier for each tile of two tells that its
// rows are there.
constexpr int ADVANCE = TILE_Y * STEP_Y;
// BESIDE: four warps add up the next tile's strips while four others run a tile's epilogue. Named barriers, and registers of a
// thread: 128 of each before.
constexpr u32 SUMS_GIVEN = 2, SUMS_TAKEN = 4, ROWS_READ = 5;
constexpr int ADDERS_REGISTERS = 168, FINISHERS_REGISTERS = 88;
static_assert(STRIPS >= WARPS, "each adder waits for room for its sums");
extern "C" __global__ void __launch_bounds__(THREADS, BESIDE ? 2 : RESIDENT) postlude_gemm(const __grid_constant__ Params p) {
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
  // The first blocks, which each have a multiprocessor of their own, take one tile more.
  const int each = tiles / blocks, more = tiles - each * blocks;
  const int first = each * block + min(block, more), end = first + each + (block < more);
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
        for (int r = 0; r < rows; r += BOX_ROWS) load_rows(p, pixels + row_offset(head + r), bar, next / TILES_M * IMAGES, y + r, x, tile.col);
      }
      head += rows, used += rows;
      if (head >= RING) head -= RING;
    }
  };
  // The copy engine takes 2 us for a block's first rows. Of two blocks of a multiprocessor one has its own before it begins with those
  // of the other, which asks when its weights are there.
  const bool early = TILES_M == 1 || each < 2 || blockIdx.x < gridDim.x / 2;
  if (early) ask(first + 2);
  load_weights(p, weights, tile.col);
  __syncthreads();
  if (!early) ask(first + 2);
  const int own_warp = __shfl_sync(~0u, threadIdx.x / 32, 0) % WARPS, own_lane = lane_id();
  int row = 0;  // where those of a tile begin
  Strip strip;
  strip.set(own_warp, own_lane);
  const auto add_tile = [&](int t, int lane) {
    mbarrier_wait(barriers + (t - first) % 2 * 8, (t - first) / 2 % 2);
    #pragma unroll 1
    for (int s = own_warp; s < STRIPS; s += WARPS) {
      if (!ONE_EACH) strip.set(s, lane);
      Sums sum;
      add_up(strip, pixels, row, weights, own_lane, sum);
      if (BESIDE && s == own_warp && t > first) named_sync(SUMS_TAKEN, THREADS);
      put_sums(strip, sums, own_lane, sum);
    }
  };
  const auto let_go = [&](int t) {
    const int free = stays(t + 1) ? ADVANCE : LOAD_ROWS;
    used -= free, row += free;
    if (row >= RING) row -= RING;
    ask(t + 3);
  };
  const auto operands = [&](int t, int warp, int lane) {
    set_tile(tile, t, warp, lane);
    #pragma unroll
    for (int n = 0; n < AUX_STAGES; ++n) issue_load(p, tile, aux, n);
  };
#if BESIDE
  if (threadIdx.x < WARPS * 32) {
    registers_grow<ADDERS_REGISTERS>();
    for (int t = first; t < end; ++t) {
      const int lane = opaque(own_lane);  // where sums go is not kept in registers while they are added up
      strip.set(own_warp, lane);
      add_tile(t, lane);
      named_arrive(SUMS_GIVEN, THREADS);
      fence_async_shared();
      named_sync(ROWS_READ, WARPS * 32);
      let_go(t);
    }
  } else {
    registers_shrink<FINISHERS_REGISTERS>();
    for (int t = first; t < end; ++t) {
      const int warp = opaque(own_warp), lane = opaque(own_lane);
      operands(t, warp, lane);
      named_sync(SUMS_GIVEN, THREADS);
      finish_images(p, tile, d, aux, sums, warp, lane, [&] {
        if (t + 1 < end) named_arrive(SUMS_TAKEN, THREADS);
      });
    }
  }
#else
  for (int t = first; t < end; ++t) {
    // What follows from these for one tile's epilogue is not kept in registers for the next: it would spill.
    const int warp = opaque(own_warp), lane = opaque(own_lane);
    operands(t, warp, lane);
    add_tile(t, lane);
    fence_async_shared();
    __syncthreads();
    let_go(t);
    finish_images(p, tile, d, aux, sums, warp, lane, [] {});
  }
#endif
}
)cuda"
