R"cuda(
// The kernel of strips straight from memory (stencil_direct.cu).

extern "C" __global__ void __launch_bounds__(LANES * STRIPS, RESIDENT) postlude_gemm(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 dynamic_shared[];
  follow_previous_launch();
  Tile tile;
  tile.tile_n = blockIdx.x % TILES_N, tile.col = tile.tile_n * BN;
  tile.lane = threadIdx.x % LANES;
  const int strip = blockIdx.x / TILES_N * STRIPS + threadIdx.x / LANES, column = first_column(tile, 0);
  const Strip s = {strip % STRIPS_X, strip / STRIPS_X % STRIPS_Y};
  tile.batch = strip / (STRIPS_X * STRIPS_Y), tile.slot_m = s.x;
  tile.row = s.y * STRIP_Y * PIXELS_X + s.x * STRIP_X, tile.turn = 0, tile.wg = 0, tile.warp = 0;
  const bool exists = tile.batch < p.batch && column < COLUMNS;
  const int first_y = s.y * (STRIP_Y * STEP_Y / UP_Y) + FIRST_Y / UP_Y, first_x = s.x * (STRIP_X * STEP_X / UP_X) + FIRST_X / UP_X;
  const u32 shared = smem_address(dynamic_shared), weights = shared + tile.lane * 8;
  PixelRows rows;
  const i64 first = tile.batch * IMAGE_STRIDE + first_y * STRIDE_Y + first_x * STRIDE_X;
  rows.begin(map_address(p.map[0]) + (first + column) * 2, 2 * next_channel(column), s, exists);
  if (!HELD_WEIGHTS) {
    load_weights(p, shared, tile.col);
    __syncthreads();
  }
  if (!exists) return;
  Weights w;
  if (HELD_WEIGHTS) hold_weights(p, column, w);
  else if (!ROWS_IN_TURN) take_weights(weights, w);
  Epilogue epilogue;
  epilogue.begin(p, tile);
  epilogue.reset();
  epilogue.advance();
  epilogue.load(p, tile, 0);
  Sums sum = {};
  // A row's outputs leave as soon as it has its sums, and the next one's operands are on their way.
  add_up(rows, s, weights, w, sum, [&](int i) {
    const int y = s.y * STRIP_Y + i;
    if (PIXELS_Y % STRIP_Y && y >= PIXELS_Y) return;
    #pragma unroll
    for (int f = 0; f < FRAGMENTS; ++f) {
      ACC part[1][8];
      #pragma unroll
      for (int e = 0; e < 8; ++e) part[0][e] = 4 * f + e / 2 < STRIP_X ? sum[i][(4 * f + e / 2) % STRIP_X][e % 2] : 0.f;
      epilogue.fragment(p, tile, 0, 0, f, part, 0);
    }
    tile.row += PIXELS_X;
    if (i + 1 < STRIP_Y && (PIXELS_Y % STRIP_Y == 0 || y + 1 < PIXELS_Y)) epilogue.load(p, tile, 0);
  });
  epilogue.end(p, tile);
}
)cuda"
