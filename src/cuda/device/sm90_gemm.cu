R"cuda(
// The persistent matrix product. One producer warpgroup (warp 0 loads A and B; warps 1 and 2 load the tile operands of
// consumer 0 and 1), two consumer warpgroups that multiply and run the epilogue. Ping-pong: the consumers take turns, each a
// whole tile, so that one's epilogue hides under the other's main loop. Cooperative: each takes half the rows of every tile.
//
// Everything in capitals is a parameter of the variant, defined at the top of the emitted source; `Epilogue` and `Held` are
// emitted. The epilogue's columns are the output's: with PARTS == 2 (a chunked accumulator) each
// comes from PARTS accumulator columns, which the B box interleaves in blocks of eight.

constexpr int A_BYTES = BM * 128, B_BYTES = BN * 128;         // one stage: 128 bytes of K for each row
constexpr int BK = 128 / ELEM_BYTES;
constexpr int SMEM_B = STAGES * A_BYTES;
constexpr int SMEM_D = SMEM_B + STAGES * B_BYTES;
constexpr int SMEM_AUX = SMEM_D + 2 * D_BUFFERS * D_BYTES;
constexpr int SMEM_SCRATCH = SMEM_AUX + 2 * AUX_STAGES * AUX_BYTES;
constexpr int SMEM_BARRIERS = SMEM_SCRATCH + 2 * SCRATCH_BYTES;

// Where tiles are fewer than multiprocessors, the SPLIT blocks of a cluster share one tile, each an equal part of its K; the first
// adds what the others send it, and has the epilogue. Else each block takes tile after tile.
DEVICE int rank() { return SPLIT > 1 ? blockIdx.x % SPLIT : 0; }
DEVICE int first_tile() { return blockIdx.x / SPLIT; }
DEVICE int tile_step() { return gridDim.x / SPLIT; }
DEVICE int first_k(const Params& p, int rank) { return p.k_blocks * rank / SPLIT; }

// In ping-pong the consumers' order is a barrier between a consumer's tiles; cooperative ones' warps may be a tile apart.
DEVICE void place_tile(const Params& p, Tile& tile, int t, int sequence) {
  const TileCoordinate c = tile_coordinate(p, t, p.tiles_n);
  tile.batch = c.batch, tile.tile_m = c.m, tile.tile_n = c.n;
  tile.slot_m = PINGPONG ? c.m : 2 * c.m + tile.wg;
  tile.row = c.m * BM + (PINGPONG ? 0 : tile.wg * WG_ROWS);
  tile.col = c.n * OUT_N;
  tile.turn = PINGPONG ? 0 : sequence & 1;
}

DEVICE void load_operands(const Params& p, u32 smem, u32 full, u32 empty) {
  const int begin = first_k(p, rank()), end = first_k(p, rank() + 1);
  int stage = 0;
  u32 phase = 0;
  for (int t = first_tile(); t < p.tiles; t += tile_step()) {
    const TileCoordinate c = tile_coordinate(p, t, p.tiles_n);
    for (int kb = begin; kb < end; ++kb) {
      mbarrier_wait(empty + 8 * stage, phase ^ 1);
      const u32 bar = full + 8 * stage, a = smem + stage * A_BYTES, b = smem + SMEM_B + stage * B_BYTES;
      mbarrier_expect(bar, A_BYTES + B_BYTES);
#if A_MN_MAJOR
      #pragma unroll
      for (int i = 0; i < BM / 64; ++i) tma_load(a + i * 64 * 128, p.map[0], bar, c.m * BM + i * 64, kb * BK, c.batch * p.a_batch);
#else
      tma_load(a, p.map[0], bar, kb * BK, c.m * BM, c.batch * p.a_batch);
#endif
#if PARTS == 2
      #pragma unroll
      for (int j = 0; j < OUT_N; j += RUN)
        tma_load(b + j * 2 * 128, p.map[1], bar, kb * BK, 0, 0, first_half(c.n * OUT_N + j) / 8, c.batch * p.b_batch);
#elif B_MN_MAJOR
      #pragma unroll
      for (int i = 0; i < BN / 64; ++i) tma_load(b + i * 64 * 128, p.map[1], bar, c.n * BN + i * 64, kb * BK, c.batch * p.b_batch);
#else
      tma_load(b, p.map[1], bar, kb * BK, c.n * BN, c.batch * p.b_batch);
#endif
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
  }
}

#if AUX_STAGES
// The tile operands of one consumer, a subtile at a time, in the order in which its epilogue and the phase that is held ask for
// them. Calling the rest of a tile into L2 ahead of the ring, and four stages instead of two, changed nothing
// (bias_gelu_res_aux, K = 1024).
DEVICE void load_aux(const Params& p, u32 ring, u32 full, u32 empty, int wg) {
  int stage = 0;
  u32 phase = 0;
  const int step = PINGPONG ? 2 * tile_step() : tile_step();
  for (int t = first_tile() + (PINGPONG ? wg * tile_step() : 0); t < p.tiles; t += step) {
    const TileCoordinate c = tile_coordinate(p, t, p.tiles_n);
    for (int n = 0; n < SUBTILES * (LOADS + HELD_LOADS); ++n) {
      const OperandLoad of = operand_load(n);
      const int row = c.m * BM + (PINGPONG ? 0 : wg * WG_ROWS) + of.at.i * 64, col = c.n * OUT_N + of.at.group * SUB_N;
      mbarrier_wait(empty + 8 * stage, phase ^ 1);
#if LOADS
      if (!of.held) Epilogue::load_issue(p, ring + stage * AUX_BYTES, full + 8 * stage, row, col, c.batch);
#endif
#if HELD_LOADS
      if (of.held) Held::load_issue(p, ring + stage * AUX_BYTES, full + 8 * stage, row, col, c.batch);
#endif
      if (++stage == AUX_STAGES) stage = 0, phase ^= 1;
    }
  }
}
#endif

#if HOLDS
// Warp 3 of the producer folds each tile's share of its rows.
DEVICE void fold_shares(const Params& p, u32 tag, int lane) {
  for (int t = first_tile(); t < p.tiles; t += tile_step()) fold_share(p, tile_coordinate(p, t, p.tiles_n), tag, lane);
}
#endif

#if SPLIT > 1
// Accumulators move four at a time, each lane's to the lane that holds the same ones, through the stages, which both have read to
// their end. `free`: the first block's are; then, that it has what was sent. `come`: bytes that have.
constexpr int FOURS = MI * BN / 8, SHARE = FOURS * 512, WARPS = PINGPONG ? 4 : 8, PART = WARPS * SHARE;
struct alignas(16) Four { ACC acc[4]; };
DEVICE u32 share_of(const Tile& t) { return (t.wg * !PINGPONG * 4 + t.warp) * SHARE; }
DEVICE void send_part(const Tile& t, u32 stages, u32 free, u32 come, const ACC (&acc)[MI][BN / 2]) {
  const u32 from = stages + share_of(t);
  named_sync(1 + t.wg * PINGPONG, 32 * WARPS);  // nobody multiplies any more
  #pragma unroll
  for (int x = 0; x < FOURS; ++x) {
    Four& four = *shared_pointer<Four>(from + x * 512 + t.lane * 16);
    #pragma unroll
    for (int e = 0; e < 4; ++e) four.acc[e] = acc[x / (BN / 8)][x % (BN / 8) * 4 + e];
  }
  fence_async_shared();
  __syncwarp();
  mbarrier_wait(free, 0);
  if (t.lane == 0) cluster_copy(cluster_address(from + (rank() - 1) * PART, 0), from, SHARE, cluster_address(come, 0));
  mbarrier_wait(free, 1);
}
DEVICE void add_parts(const Tile& t, u32 stages, u32 free, u32 come, ACC (&acc)[MI][BN / 2]) {
  const u32 to = cluster_address(free, t.lane);
  if (t.lane > 0 && t.lane < SPLIT) cluster_arrive(to);
  mbarrier_wait(come, 0);
  #pragma unroll
  for (int part = 0; part < SPLIT - 1; ++part)
    #pragma unroll
    for (int x = 0; x < FOURS; ++x) {
      const Four four = *shared_pointer<const Four>(stages + part * PART + share_of(t) + x * 512 + t.lane * 16);
      #pragma unroll
      for (int e = 0; e < 4; ++e) acc[x / (BN / 8)][x % (BN / 8) * 4 + e] += four.acc[e];
    }
  if (t.lane > 0 && t.lane < SPLIT) cluster_arrive(to);
}
#endif

// What a consumer's subtiles pass through: buffers in shared memory of its outputs, and stages of its tile operands.
struct Passage {
  u32 d, aux, full, empty;
  int d_buffer, aux_stage;
  u32 aux_phase;

  // Where outputs are staged, once its last store has read it.
  template <class E> METHOD u32 staging(const Tile& tile) {
    const u32 to = d + d_buffer * D_BYTES;
    if (E::stores || (E::copies && (STORES || HELD_STORES))) {
      if (tile.lane == 0) tma_store_wait_read<D_BUFFERS - 1>();
      __syncwarp();
    }
    return to;
  }
  template <class E> METHOD void take_operands(const Params&, const Tile& tile, E& epilogue) {
    mbarrier_wait(full + 8 * aux_stage, aux_phase);
    epilogue.load(tile, aux + aux_stage * AUX_BYTES);
    fence_async_shared();  // else the copy engine may write the next subtile before these reads (decision 0043)
    __syncwarp();
    if (tile.lane == 0) mbarrier_arrive(empty + 8 * aux_stage);
    if (++aux_stage == AUX_STAGES) aux_stage = 0, aux_phase ^= 1;
  }
  // Each warp stores the rows that it staged itself: no warp waits for another.
  template <class E> METHOD void give_outputs(const Params& p, const Tile& tile, const Subtile& s, u32 from) {
    fence_async_shared();
    __syncwarp();
    if (tile.lane == 0) {
      E::store_issue(p, from, tile.row + s.i * 64 + tile.warp * 16, tile.col + s.group * SUB_N, tile.batch);
      tma_store_commit();
    }
    if (++d_buffer == D_BUFFERS) d_buffer = 0;
  }
};

// Registers of 65536: those of the consumers hold the accumulators.
constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;

extern "C" __global__ void __launch_bounds__(384, 1) CLUSTER postlude_gemm(const __grid_constant__ Params p) {
  extern __shared__ u8 dynamic_shared[];
  const u32 smem = (smem_address(dynamic_shared) + 1023) & ~1023u;
  const u32 full = smem + SMEM_BARRIERS, empty = full + 8 * STAGES, aux_full = empty + 8 * STAGES,
            aux_empty = aux_full + 16 * AUX_STAGES, parts_free = aux_empty + 16 * AUX_STAGES, parts_come = parts_free + 8;
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0), warp = __shfl_sync(~0u, threadIdx.x / 32 % 4, 0);

  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      mbarrier_init(full + 8 * i, 1);
      mbarrier_init(empty + 8 * i, PINGPONG ? 4 : 8);  // one arrival a consumer warp
    }
    for (int i = 0; i < 2 * AUX_STAGES; ++i) {
      mbarrier_init(aux_full + 8 * i, 1);
      mbarrier_init(aux_empty + 8 * i, 4);
    }
#if SPLIT > 1
    mbarrier_init(parts_free, WARPS);
    mbarrier_init(parts_come, 1);
    if (rank() == 0) mbarrier_expect(parts_come, PART * (SPLIT - 1));
#endif
    fence_mbarrier_init();
    fence_async_shared();
  }
  if (threadIdx.x < MAPS) tma_prefetch(p.map[threadIdx.x]);
#if SPLIT > 1
  cluster_sync();
#else
  __syncthreads();
#endif
  follow_previous_launch();
#if HOLDS
  u32* const last_tag = (u32*)p.word[TAGS_WORD] + blockIdx.x;  // all blocks count alike
  const u32 tag = *last_tag + 1;
  __syncthreads();
  if (threadIdx.x == 0) *last_tag = tag;
#endif

  if (warpgroup == 0) {
    registers_shrink<PRODUCER_REGISTERS>();
#if HOLDS
    if (warp == 3 && rank() == 0) fold_shares(p, tag, lane_id());
#elif FINISHES
    if (warp == 3) let_blocks_meet((u32*)p.word[BLOCKS_WORD]);
#endif
    if (lane_id() == 0) {
      if (warp == 0) load_operands(p, smem, full, empty);
#if AUX_STAGES
      if ((warp == 1 || warp == 2) && rank() == 0) {
        const int wg = warp - 1;
        load_aux(p, smem + SMEM_AUX + wg * AUX_STAGES * AUX_BYTES, aux_full + 8 * AUX_STAGES * wg,
                 aux_empty + 8 * AUX_STAGES * wg, wg);
      }
#endif
    }
  } else {
    registers_grow<CONSUMER_REGISTERS>();
    const int wg = warpgroup - 1, lane = lane_id(), k_blocks = first_k(p, rank() + 1) - first_k(p, rank());
    const u32 own_barrier = 1 + wg, order = 3;
    Passage by = {smem + SMEM_D + wg * D_BUFFERS * D_BYTES, smem + SMEM_AUX + wg * AUX_STAGES * AUX_BYTES,
                  aux_full + 8 * AUX_STAGES * wg, aux_empty + 8 * AUX_STAGES * wg, 0, 0, 0};
    Epilogue epilogue;
    Tile tile;
#if HOLDS
    tile.tag = tag;
#endif
    tile.wg = wg, tile.warp = warp, tile.lane = lane, tile.thread = threadIdx.x % 128, tile.barrier = own_barrier;
    tile.scratch = smem + SMEM_SCRATCH + wg * SCRATCH_BYTES;

    int sequence = PINGPONG ? wg : 0;
    for (int t = first_tile() + sequence * tile_step(); t < p.tiles; t += (PINGPONG ? 2 : 1) * tile_step(), sequence += PINGPONG ? 2 : 1) {
      place_tile(p, tile, t, sequence);

      if (rank() == 0) epilogue.begin(p, tile);

      ACC acc[MI][BN / 2];
#if HELD
      // Else what the last tile left would be wanted until here, beside what was kept of it.
      #pragma unroll
      for (int i = 0; i < MI; ++i)
        #pragma unroll
        for (int j = 0; j < BN / 2; ++j) acc[i][j] = 0;
#endif
      // Main loop. k block number `sequence * k_blocks + kb` of this CTA lies in stage (number % STAGES).
      const u32 first = u32(sequence) * k_blocks;
      int stage = first % STAGES, previous = 0;
      u32 phase = first / STAGES & 1;
#if PINGPONG
      if (sequence) named_sync(order + wg, 256);  // the other consumer has issued its last product
#endif
#if PROMOTED
      // An accumulator of fp8 products keeps 14 bits: that of PROMOTED stages, of 128 of K each, is added to the tile's in f32.
      ACC part[MI][BN / 2];
      #pragma unroll
      for (int i = 0; i < MI; ++i)
        #pragma unroll
        for (int j = 0; j < BN / 2; ++j) acc[i][j] = 0;
#else
      auto& part = acc;
#endif
      // There is a K (Decider::decide_product): a loop that may not run at all cost a select for each accumulator, a tile.
      int kb = 0;
#if PROMOTED
      for (int begin = 0; begin < k_blocks; begin = kb) {  // to behind the additions
      const int end = min(begin + PROMOTED, k_blocks);
#else
      constexpr int begin = 0;
      const int end = k_blocks;
#endif
      do {
        mbarrier_wait(full + 8 * stage, phase);
        // A descriptor a stage, which all others follow from by additions: 47 instructions a stage for 82 (16384 x 4096 x 1024, bce,
        // in turns: 0.983 of the time; what does not wait for its epilogue 0.999).
        const u32 a_at = __shfl_sync(~0u, smem + stage * A_BYTES, 0), b_at = __shfl_sync(~0u, smem + SMEM_B + stage * B_BYTES, 0);
        const u64 a = matrix_descriptor(a_at + (PINGPONG ? 0 : wg * WG_ROWS * 128), A_MN_MAJOR ? BK * 128 : 0, 1024),
                  b = matrix_descriptor(b_at, B_MN_MAJOR ? BK * 128 : 0, 1024);
        wgmma_fence();
        #pragma unroll
        for (int k = 0; k < 4; ++k) {  // 32 bytes of K each
          #pragma unroll
          for (int i = 0; i < MI; ++i)
            wgmma(part[i], a + (i * 64 * 128 + k * (A_MN_MAJOR ? 2048 : 32)) / 16, b + k * (B_MN_MAJOR ? 2048 : 32) / 16, kb != begin || k);
        }
        wgmma_commit();
        wgmma_wait<1>();
        if (kb != begin && lane == 0) mbarrier_arrive(empty + 8 * previous);
        previous = stage;
        if (++stage == STAGES) stage = 0, phase ^= 1;
      } while (++kb < end);
#if PROMOTED
      wgmma_wait<0>();
      if (lane == 0) mbarrier_arrive(empty + 8 * previous);
      #pragma unroll
      for (int i = 0; i < MI; ++i)
        #pragma unroll
        for (int j = 0; j < BN / 2; ++j) acc[i][j] += part[i][j];
      }
#endif
#if PINGPONG
      if (t + tile_step() < p.tiles) named_arrive(order + (wg ^ 1), 256);
#endif
#if !PROMOTED
      wgmma_wait<0>();
      if (lane == 0) mbarrier_arrive(empty + 8 * previous);
#endif

#if SPLIT > 1
      if (rank()) {
        send_part(tile, smem, parts_free, parts_come, acc);
        break;
      }
      add_parts(tile, smem, parts_free, parts_come, acc);
#endif
#if PACED
      // 16 columns of 64 rows take the tensor cores 32 clocks a k block. Nothing hides the block's last tile.
      tile.due = clock_now(), tile.pace = t + tile_step() < p.tiles ? 24 * PARTS * k_blocks : 0;
#endif
      run_epilogue(p, tile, epilogue, acc, by);
    }
#if FINISHES
    // No tile of this block is left. When that is true of all blocks (a cooperative launch: all run), they fold the partial
    // results, in the consumers' scratch. The last blocks had the fewest tiles: they begin.
    wait_for_blocks();
    for (int unit = gridDim.x - 1 - blockIdx.x; unit < finish_units(p); unit += gridDim.x) {
      finish(p, unit, threadIdx.x - 128, smem + SMEM_SCRATCH);
      finish_sync();
    }
#endif
#if STORES || HELD_STORES
    if (lane == 0) tma_store_wait_read<0>();  // memory has it when the launch ends
#endif
  }
}
)cuda"
