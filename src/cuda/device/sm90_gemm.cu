R"cuda(
// The kernel around its main loop (sm90_loop.cu): how parts of a tile are joined, what leads to the epilogue, and who does what.
// A thread's accumulators of 64 rows: of one piece of a chunk behind those of another.
constexpr int PIECE_COLUMNS = WG_COLUMNS / BELOW;
typedef ACC Piece[PIECE_COLUMNS / 2];
DEVICE Piece& piece_of(ACC (&acc)[WG_COLUMNS / 2], int x) { return ((Piece*)acc)[x]; }
#if BY_CLUSTER || BY_MEMORY
// Accumulators move four at a time, each thread's to the one that holds the same ones, and only those of rows that exist.
constexpr int FOURS = MI * BELOW * COLUMNS / 8, WARPS = PINGPONG ? 4 : 8;
struct alignas(16) Four { ACC acc[4]; };
DEVICE constexpr int first_of(int x) { return x / (COLUMNS / 8) % BELOW * (PIECE_COLUMNS / 2) + x % (COLUMNS / 8) * 4; }
DEVICE constexpr int atom_of(int x) { return x / (COLUMNS / 8) / BELOW; }
DEVICE Four four_of(const ACC (&acc)[MI][WG_COLUMNS / 2], int x) {
  Four four;
  #pragma unroll
  for (int e = 0; e < 4; ++e) four.acc[e] = acc[atom_of(x)][first_of(x) + e];
  return four;
}
DEVICE void add_four(ACC (&acc)[MI][WG_COLUMNS / 2], int x, const Four& four) {
  #pragma unroll
  for (int e = 0; e < 4; ++e) acc[atom_of(x)][first_of(x) + e] += four.acc[e];
}
DEVICE bool has_rows(const Params& p, const Tile& tile, int x, int warp) { return tile.row + atom_of(x) * 64 + warp * 16 < tile_rows(p, tile.batch); }
#endif

#if BY_MEMORY
// A part's accumulators lie in memory in its own place, those of rows that exist; counters say how many parts of a tile are there.
// All blocks run (a cooperative launch). A part waits for none that is taken after it, or (IN_SHARES) all parts run at once.
DEVICE Four* place_of(const Params& p, const Tile& tile, i64 part) {
  return (Four*)p.word[PARTS_WORD] + (part * (WARPS / 4) + tile.wg * !PINGPONG) * FOURS * 128;
}
// Parts are numbered behind the whole tiles; those of a tile are as many apart as tiles have parts.
DEVICE int part_number(const Params& p, int t) { return (t - p.whole) * TILES_TOGETHER + (TILES_TOGETHER > 1 ? Loop::rank() : 0); }
DEVICE int parts_apart(const Params& p) { return Loop::divided(p) * TILES_TOGETHER; }
DEVICE int first_part(const Params& p, int t) { return part_number(p, t) - Loop::part(p, t) * parts_apart(p); }
DEVICE u32* counters_of(const Params& p, const Tile& tile, int first) {
  return (u32*)p.word[PARTS_WORD + 1] + (1 + IN_SHARES) * (first * (WARPS / 4) + tile.wg * !PINGPONG);
}
DEVICE void leave_part(const Params& p, const Tile& tile, int number, u32* come, const ACC (&acc)[MI][WG_COLUMNS / 2]) {
  Four* const to = place_of(p, tile, number) + tile.thread;
  #pragma unroll
  for (int x = 0; x < FOURS; ++x)
    if (has_rows(p, tile, x, tile.warp)) to[x * 128] = four_of(acc, x);
  named_sync(tile.barrier, 128);
  if (tile.thread == 0) add_release(come, 1);
}
DEVICE void await_parts(const Tile& tile, u32* come, u32 count) {
  while (tile.thread == 0 && load_acquire(come) != count) {}
  named_sync(tile.barrier, 128);
}
#if IN_SHARES
// Every part leaves its accumulators and adds its share of the tile: to the last part's, in whose place sums lie, those of the first on.
METHOD bool Loop::join(const Params& p, const Tile& tile, int t, u32 stages, u32 meet, ACC (&acc)[MI][WG_COLUMNS / 2]) {
  if (is_whole(p, t)) return true;
  const int number = part_number(p, t), tiles = parts_apart(p), first = first_part(p, t);
  u32* const come = counters_of(p, tile, first);
  leave_part(p, tile, number, come, acc);
  await_parts(tile, come, p.parts);
  const int last = first + (p.parts - 1) * tiles;
  Four* const to = place_of(p, tile, last);
  #pragma unroll 1
  for (int unit = part(p, t) + p.parts * tile.warp; unit < FOURS * 4; unit += p.parts * 4) {  // of a warp's Fours
    if (!has_rows(p, tile, unit / 4, unit % 4)) continue;
    const int at = unit * 32 + tile.lane;
    Four sum = to[at];
    #pragma unroll 8
    for (int other = first; other < last; other += tiles) {
      const Four four = place_of(p, tile, other)[at];
      #pragma unroll
      for (int e = 0; e < 4; ++e) sum.acc[e] += four.acc[e];
    }
    to[at] = sum;
  }
  named_sync(tile.barrier, 128);
  if (tile.thread == 0) add_release(come + 1, 1);
  if (!owns(p, t)) return false;
  await_parts(tile, come + 1, p.parts);
  if (tile.thread == 0) come[0] = come[1] = 0;  // for the next launch
  #pragma unroll
  for (int x = 0; x < FOURS * 4; ++x)
    if (has_rows(p, tile, x / 4, tile.warp)) acc[atom_of(x / 4)][first_of(x / 4) + x % 4] = to[x / 4 * 128 + tile.thread].acc[x % 4];
  return true;
}
#else
METHOD bool Loop::join(const Params& p, const Tile& tile, int t, u32 stages, u32 meet, ACC (&acc)[MI][WG_COLUMNS / 2]) {
  if (is_whole(p, t)) return true;
  const int number = part_number(p, t), tiles = parts_apart(p), first = first_part(p, t);
  u32* const come = counters_of(p, tile, first);
  if (!owns(p, t)) return leave_part(p, tile, number, come, acc), false;
  await_parts(tile, come, p.parts - 1);
  if (tile.thread == 0) *come = 0;  // for the next launch
  constexpr int at_once = FOURS <= 8 ? 4 : FOURS <= 12 ? 2 : 1;  // parts on their way, of small tiles
  #pragma unroll 1
  for (int next = first; next < number; next += at_once * tiles) {
    const auto has = [&](int part, int x) { return next + part * tiles < number && has_rows(p, tile, x, tile.warp); };
    const auto from = [&](int part, int x) { return place_of(p, tile, next + part * tiles)[x * 128 + tile.thread]; };
    if constexpr (at_once == 1) {
      #pragma unroll
      for (int x = 0; x < FOURS; ++x)
        if (has_rows(p, tile, x, tile.warp)) add_four(acc, x, from(0, x));
    } else {
      Four four[at_once][FOURS];
      #pragma unroll
      for (int part = 0; part < at_once; ++part)
        #pragma unroll
        for (int x = 0; x < FOURS; ++x)
          if (has(part, x)) four[part][x] = from(part, x);
      #pragma unroll
      for (int part = 0; part < at_once; ++part)
        #pragma unroll
        for (int x = 0; x < FOURS; ++x)
          if (has(part, x)) add_four(acc, x, four[part][x]);
    }
  }
  return true;
}
#endif
#elif BY_CLUSTER
// Through the stages, which both blocks have read to their end. `free`: the first block's are; then, that it has what was sent.
// `come`: bytes that have. A warp's rows that exist are the first of its share.
constexpr int SHARE = FOURS * 512, PART = WARPS * SHARE;
DEVICE u32 share_of(const Tile& t) { return (t.wg * !PINGPONG * 4 + t.warp) * SHARE; }
DEVICE u32 bytes_of(const Params& p, const Tile& t) {
  u32 bytes = 0;
  #pragma unroll
  for (int i = 0; i < MI; ++i) bytes += has_rows(p, t, i * BELOW * (COLUMNS / 8), t.warp) ? SHARE / MI : 0;
  return bytes;
}
DEVICE void send_part(const Params& p, const Tile& t, int part, u32 stages, u32 free, u32 come, const ACC (&acc)[MI][WG_COLUMNS / 2]) {
  const u32 from = stages + share_of(t);
  named_sync(1 + t.wg * PINGPONG, 32 * WARPS);  // nobody multiplies any more
  const u32 bytes = bytes_of(p, t);
  if (bytes == 0) return;  // the block stays for its first warp, which has rows
  #pragma unroll
  for (int x = 0; x < FOURS; ++x) *shared_pointer<Four>(from + x * 512 + t.lane * 16) = four_of(acc, x);
  fence_async_shared();
  __syncwarp();
  mbarrier_wait(free, 0);
  if (elect_one()) cluster_copy(cluster_address(from + (part - 1) * PART, 0), from, bytes, cluster_address(come, 0));
  mbarrier_wait(free, 1);
}
DEVICE void add_parts(const Params& p, const Tile& t, u32 stages, u32 free, u32 come, ACC (&acc)[MI][WG_COLUMNS / 2]) {
  const u32 to = cluster_address(free, t.lane);
  if (t.lane == 0) mbarrier_expect(come, bytes_of(p, t) * (CLUSTER_BLOCKS - 1));
  if (t.lane > 0 && t.lane < CLUSTER_BLOCKS) cluster_arrive(to);
  mbarrier_wait(come, 0);
  #pragma unroll 1
  for (int part = 0; part < CLUSTER_BLOCKS - 1; ++part)
    #pragma unroll
    for (int x = 0; x < FOURS; ++x)
      if (has_rows(p, t, x, t.warp)) add_four(acc, x, *shared_pointer<const Four>(stages + part * PART + share_of(t) + x * 512 + t.lane * 16));
  if (t.lane > 0 && t.lane < CLUSTER_BLOCKS) cluster_arrive(to);
}
METHOD bool Loop::join(const Params& p, const Tile& tile, int t, u32 stages, u32 meet, ACC (&acc)[MI][WG_COLUMNS / 2]) {
  const u32 free = meet, come = meet + 8;
  if (!owns(p, t)) {
    send_part(p, tile, part(p, t), stages, free, come, acc);
    return false;
  }
  add_parts(p, tile, stages, free, come, acc);
  return true;
}
#endif

#if HELD || ROLLED == 1
// What a thread has of a tile is not wanted any more.
DEVICE void forget(ACC (&of)[MI][WG_COLUMNS / 2]) {
  #pragma unroll
  for (int i = 0; i < MI; ++i)
    #pragma unroll
    for (int j = 0; j < WG_COLUMNS / 2; ++j) of[i][j] = meaningless();
}
#endif

// What a consumer's subtiles pass through: buffers in shared memory of its outputs, and stages of its tile operands.
struct Passage {
  u32 d, aux, full, empty;
  int d_buffer, aux_stage;
  u32 aux_phase;
#if PARKS
  u32 parked;  // the tile that waits in shared memory

  // A tile's values wait in shared memory for what others tell of its rows, in the place of those of the tile before, which the other
  // consumer left there and this one takes: each thread has the same elements of both. What its rows were told is asked for meanwhile.
  // Where nothing waits or nothing is left the words have no meaning: under conditions all of them were moved on, a tile.
  METHOD void park(const Params& p, const Tile& tile, Epilogue& epilogue, ACC (&kept)[MI][WG_COLUMNS / 2], const bool leaves, const bool takes) {
    constexpr int all = MI * WG_COLUMNS / 2, at_once = 8;
    const u32 at = parked + tile.thread * 16;
    if (takes) named_sync(5 + tile.wg, 256);
    #pragma unroll
    for (int first = 0; first < all; first += at_once) {
      float* const own = &kept[0][0] + first;
      u32 word[at_once];
      #pragma unroll
      for (int j = 0; j < at_once; j += 4)
        shared_load(at + (first + j) * 512, word[j], word[j + 1], word[j + 2], word[j + 3]);
      #pragma unroll
      for (int j = 0; j < at_once; j += 4)
        shared_store(at + (first + j) * 512, __float_as_uint(own[j]), __float_as_uint(own[j + 1]), __float_as_uint(own[j + 2]), __float_as_uint(own[j + 3]));
      #pragma unroll
      for (int j = 0; j < at_once; ++j) own[j] = __uint_as_float(word[j]);
      if (first == all / 2 / at_once * at_once && takes) epilogue.ask_ahead(p, tile);
    }
    if (leaves) named_arrive(5 + (tile.wg ^ 1), 256);
  }
#endif

  // Where outputs are staged, once its last store has read it.
  template <class E> METHOD u32 staging(const Tile& tile) {
    const u32 to = d + d_buffer * D_BYTES;
    if (E::stores || (E::copies && (STORES || HELD_STORES))) {
      if (elect_one()) tma_store_wait_read<D_BUFFERS - 1>();
      __syncwarp();
    }
    return to;
  }
  // A warp's rows of elements of another size lie where another warp's did: all stores have read before any warp writes.
  METHOD void restage(const Tile& tile) {
    if (elect_one()) tma_store_wait_read<0>();
    __syncwarp();
    named_sync(tile.barrier, 128);
  }
  template <class E> METHOD void take_operands(const Params& p, const Tile& tile, E& epilogue) {
    mbarrier_wait(full + 8 * aux_stage, aux_phase);
    epilogue.load(p, tile, aux + aux_stage * AUX_BYTES);
    fence_async_shared();  // else the copy engine may write the next subtile before these reads (decision 0043)
    __syncwarp();
    if (tile.lane == 0) mbarrier_arrive(empty + 8 * aux_stage);
    if (++aux_stage == AUX_STAGES) aux_stage = 0, aux_phase ^= 1;
  }
  // Each warp stores the rows that it staged itself: no warp waits for another.
  template <class E> METHOD void give_outputs(const Params& p, const Tile& tile, const Subtile& s, u32 from) {
    fence_async_shared();
    __syncwarp();
    if (elect_one()) {
      E::store_issue(p, from, tile.row + s.i * 64 + tile.warp * 16, tile.col + s.group * SUB_N, tile.batch);
      tma_store_commit();
    }
    if (++d_buffer == D_BUFFERS) d_buffer = 0;
  }
};

// Registers of 65536: those of the consumers hold the accumulators.
constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;

extern "C" __global__ void __launch_bounds__(384, 1) CLUSTER postlude_gemm(const __grid_constant__ All all) {
  extern __shared__ u8 dynamic_shared[];
  const u32 smem = (smem_address(dynamic_shared) + 1023) & ~1023u;
  const u32 full = smem + SMEM_BARRIERS, empty = full + 8 * STAGES, aux_full = empty + 8 * STAGES,
            aux_empty = aux_full + 16 * AUX_STAGES, parts_meet = aux_empty + 16 * AUX_STAGES, tiles_meet = parts_meet;
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0), warp = __shfl_sync(~0u, threadIdx.x / 32 % 4, 0);

  const Params& one = params_of(all, 0);

  Load load;
  const bool loads = warpgroup == 0 && (warp == 0 || warp == second_loader);
#if !TELLS
  // What a warp loads first it finds out while another one makes barriers. (Beside held rows that spills.)
  if (loads) load.begin(all, Loop::first(), warp != 0);
#endif
  if (warpgroup == 0 && warp == 2 && elect_one()) {
    for (int i = 0; i < STAGES; ++i) {
      mbarrier_init(full + 8 * i, 1);
      mbarrier_init(empty + 8 * i, (PINGPONG ? 4 : 8) * TILES_TOGETHER);  // one arrival a consumer warp
    }
    for (int i = 0; i < 2 * AUX_STAGES; ++i) {
      mbarrier_init(aux_full + 8 * i, 1);
      mbarrier_init(aux_empty + 8 * i, 4);
    }
#if BY_CLUSTER
    mbarrier_init(parts_meet, WARPS);
    mbarrier_init(parts_meet + 8, WARPS);
#endif
    for (int i = 0; i < 2 * 2 * MEETING_BYTES; i += 8) mbarrier_init(tiles_meet + i, 1);
    fence_mbarrier_init();
    fence_async_shared();
  } else if (warpgroup == 1 && warp == 0 && elect_one()) {
    for (int i = 0; i < MAPS; ++i)
      if (!(SHIFTED && i == EDGE_B) && !(APART_A && i == EDGE_A)) tma_prefetch(one.map[i]);
  }
#if MEETS
  __syncthreads();
  cluster_begin();  // what others do before they tell is not waited for
#elif CLUSTER_BLOCKS > 1
  cluster_sync();
#else
  __syncthreads();
#endif
  follow_previous_launch();
#if TAGS
  // A warp that loads does not wait for what memory has.
  u32* const last_tag = (u32*)one.word[TAGS_WORD] + blockIdx.x;  // all blocks count alike
  u32 tag = 0;
  constexpr int without = TELLS ? 32 * LOADERS : 128;  // threads
  if (threadIdx.x >= without) {
    tag = *last_tag + 1;
    named_sync(8, 384 - without);
    if (threadIdx.x == 128) *last_tag = tag;
  }
#endif

  if (warpgroup == 0) {
    registers_shrink<PRODUCER_REGISTERS>();
#if TELLS
    if (warp >= first_folder) fold_shares(one, tag, warp - first_folder, lane_id());
    if (loads) load.begin(all, Loop::first(), warp != 0);
#elif FINISHES && !TAGS
    if (warp == 3) let_blocks_meet((u32*)one.word[BLOCKS_WORD]);
#endif
    if (elect_one()) {
      if (loads) load_operands(all, load, warp != 0, smem, full, empty);
#if AUX_STAGES
      if (warp == 1 || (warp == 2 && !ONE_LOADS)) {
        Operands own, other;
        own.begin(smem, aux_full, aux_empty, warp - 1), other.begin(smem, aux_full, aux_empty, 1);
        if (ONE_LOADS) while (own.load<false>(all) | other.load<false>(all)) {}
        else while (own.load<true>(all)) {}
      }
#endif
    }
#if MEETS
    __syncwarp();
    cluster_begun();
#endif
  } else {
    registers_grow<CONSUMER_REGISTERS>();
    const int wg = warpgroup - 1, lane = lane_id();
    const u32 own_barrier = 1 + wg, order = 3;
    // A stage is free once all that it is loaded for have read it: of a cluster's blocks each lane tells one.
    const auto give_back = [&](int stage) {
      if (TILES_TOGETHER == 1 && lane == 0) mbarrier_arrive(empty + 8 * stage);
      if (TILES_TOGETHER > 1 && lane < TILES_TOGETHER) cluster_free(cluster_address(empty + 8 * stage, lane));
    };
    Passage by = {smem + SMEM_D + wg * D_BUFFERS * D_BYTES, smem + SMEM_AUX + wg * AUX_STAGES * AUX_BYTES,
                  aux_full + 8 * AUX_STAGES * wg, aux_empty + 8 * AUX_STAGES * wg, 0, 0, 0};
#if PARKS
    by.parked = smem + SMEM_PARKED;
#endif
    Epilogue epilogue;
    Tile tile;
#if SHIFTED
    Windows windows;
    windows.begin(one, wg, warp, lane);
#endif
#if LINES_A
    Lines lines_a;
    lines_a.begin(one, 0, wg, warp, lane);
#endif
#if TAGS
    tile.tag = tag;
#endif
    tile.wg = wg, tile.warp = warp, tile.lane = lane, tile.thread = threadIdx.x % 128, tile.barrier = own_barrier;
    tile.scratch = smem + SMEM_SCRATCH + wg * SCRATCH_BYTES, tile.turn = 0;

    int sequence = PINGPONG ? wg : 0;
#if BY_MEMORY || SCATTERED
    const auto count_k = [&](int t) { return Loop::count_k(params_of(all, t), t); };
    u32 passed = sequence ? count_k(Loop::first()) : 0;  // k blocks of the tiles before
#else
    const int k_blocks = Loop::count_k(one, 0);
#endif
    for (int t = Loop::first() + sequence * Loop::step(); Loop::has(one, t) || Loop::takes(one, t, sequence); t += (PINGPONG ? 2 : 1) * Loop::step(), sequence += PINGPONG ? 2 : 1) {
      const Params& p = params_of(all, t);
#if PARKS
      // Behind the last tiles those are taken that wait.
      ACC kept[MI][WG_COLUMNS / 2];
      const bool computes = Loop::has(p, t);
      if (computes) {
#endif
      place_tile(p, tile, t);
#if FLAT_A && LINES_A
      lines_a.begin(p, tile.batch, wg, warp, lane);
#elif FLAT_A
      windows.begin_a(p, tile.batch, lane);
#endif
#if MEETS
      const int turn = PINGPONG ? sequence / 2 : sequence, place = 2 * wg + turn % 2;
      tile.met = smem + SMEM_MET + place * MET_BYTES, tile.meeting = tiles_meet + place * MEETING_BYTES, tile.met_turn = turn / 2 % 2;
#endif

      const auto exists = [&] { return Loop::exists(p, tile.row - wg * ROWS_APART, tile.col - wg * COLUMNS_APART); };
      if (Loop::owns(p, t) && exists()) epilogue.begin(p, tile);

      ACC acc[MI][WG_COLUMNS / 2];
#if HELD || ROLLED == 1
      // Else what the last tile left would be wanted until here, beside what was kept of it, or by a loop's next round.
      if (HELD || GROUPS > 1) forget(acc);
#endif
      #pragma unroll
      for (int i = 0; i < MI; ++i)
        #pragma unroll
        for (int x = 0; x < BELOW; ++x)
          #pragma unroll
          for (int j = COLUMNS / 2; j < PIECE_COLUMNS / 2; ++j) piece_of(acc[i], x)[j] = 0;
      // Main loop. k block number `first + kb` of this CTA lies in stage (number % STAGES).
#if BY_MEMORY || SCATTERED
      const int k_blocks = count_k(t);
      const u32 first = passed;
      passed += k_blocks + (PINGPONG ? count_k(t + Loop::step()) : 0);
#else
      const u32 first = u32(sequence) * k_blocks;
#endif
      int stage = first % STAGES, previous = 0;
      u32 phase = first / STAGES & 1;
#if PINGPONG
      if (sequence) named_sync(order + wg, 256);  // the other consumer has issued its last product
#endif
#if PROMOTED
      // An accumulator of fp8 products keeps 14 bits: that of PROMOTED stages, of 128 of K each, is added to the tile's in f32.
      ACC part[MI][WG_COLUMNS / 2];
      #pragma unroll
      for (int i = 0; i < MI; ++i)
        #pragma unroll
        for (int j = 0; j < WG_COLUMNS / 2; ++j) acc[i][j] = 0;
#else
      auto& part = acc;
#endif
      // There is a K (Decider::decide_product): a loop that may not run at all cost a select for each accumulator, a tile.
      int kb = 0;
#if SHIFTED && PINGPONG
      float sums[SIXTEENS][QUARTER][4] = {};
      do {
        mbarrier_wait(full + 8 * stage, phase);
        windows.multiply(smem + stage * A_BYTES, smem + SMEM_B + stage * B_BYTES, sums);
        fence_async_shared();  // as behind take_operands
        __syncwarp();
        give_back(stage);
        if (++stage == STAGES) stage = 0, phase ^= 1;
      } while (++kb < k_blocks);
#else
      do {
        const int begin = kb, end = PROMOTED ? min(kb + PROMOTED, k_blocks) : k_blocks;
        do {
          mbarrier_wait(full + 8 * stage, phase);
          // Lines of this block where those of the one before the last were, which have been multiplied.
#if SHIFTED
          const u32 lines = smem + SMEM_EXCHANGE + (first + kb) % 2 * EXCHANGE_BYTES;
          windows.realign(smem + SMEM_B + stage * B_BYTES, lines);
#else
          const u32 lines = smem + SMEM_B + stage * B_BYTES;
#endif
#if LINES_A
          const u32 a_lines = smem + SMEM_LINES + (first + kb) % 2 * LINES_BYTES;
          lines_a.realign(smem + stage * A_BYTES, a_lines);
#else
          const u32 a_lines = smem + stage * A_BYTES;
#endif
#if SHIFTED || LINES_A
          fence_async_shared();
          wgmma_wait<0>();
          if (kb) give_back(previous);
          if (SHIFTED) named_sync(order + 1, 256);
          else named_sync(PINGPONG ? own_barrier : order + wg, 128);
#endif
          // A descriptor a stage, which all others follow from by additions: 47 instructions a stage for 82 (16384 x 4096 x 1024, bce,
          // in turns: 0.983 of the time; what does not wait for its epilogue 0.999).
          const u32 a_at = __shfl_sync(~0u, a_lines, 0), b_at = __shfl_sync(~0u, lines, 0);
          const u64 a = matrix_descriptor<A_RUN>(a_at + wg * ROWS_APART * BELOW * A_RUN, A_MN_MAJOR ? BK * 128 : A_RUN == 16 ? BM * 16 : 0, 8 * A_RUN),
                    b = matrix_descriptor<128>(b_at + wg * (BN - COLUMNS) * 128, B_MN_MAJOR ? BK * 128 : 0, 1024);
          wgmma_fence();
          #pragma unroll
          for (int k = 0; k < 4; ++k) {  // 32 bytes of K each
            #pragma unroll
            for (int i = 0; i < MI; ++i)
              #pragma unroll
              for (int x = 0; x < BELOW; ++x)
                wgmma(piece_of(part[i], x), a + ((i * BELOW + x) * 64 * A_RUN + (A_MN_MAJOR ? k * 2048 : k * 32 / A_RUN * BM * A_RUN + k * 32 % A_RUN)) / 16, b + k * (B_MN_MAJOR ? 2048 : 32) / 16, kb != begin || k);
          }
          wgmma_commit();
#if !SHIFTED && !LINES_A
          wgmma_wait<1>();
          if (kb != begin) give_back(previous);
#endif
          previous = stage;
          if (++stage == STAGES) stage = 0, phase ^= 1;
        } while (++kb < end);
#if PROMOTED
        wgmma_wait<0>();
        give_back(previous);
        #pragma unroll
        for (int i = 0; i < MI; ++i)
          #pragma unroll
          for (int j = 0; j < WG_COLUMNS / 2; ++j) acc[i][j] += part[i][j];
#endif
      } while (PROMOTED && kb < k_blocks);
#endif
#if PINGPONG && !LINES_A
      if (Loop::has(p, t + Loop::step())) named_arrive(order + (wg ^ 1), 256);
#endif
#if SHIFTED && PINGPONG
      Windows::exchange(tile, smem + SMEM_EXCHANGE + wg * EXCHANGE_BYTES, sums, acc);
#elif !PROMOTED
      wgmma_wait<0>();
      give_back(previous);
#endif
#if PINGPONG && LINES_A  // whose places both consumers have in turn
      if (Loop::has(p, t + Loop::step())) named_arrive(order + (wg ^ 1), 256);
#endif

#if CLUSTER_M > 1 || CLUSTER_N > 1
      if (!exists()) continue;
#endif
#if BY_CLUSTER || BY_MEMORY
      if (!Loop::join(p, tile, t, smem, parts_meet, acc)) continue;
#endif
#if MEETS
      if (turn == 0) cluster_begun();
#endif
#if PACED
      // 16 columns of 64 rows take the tensor cores 32 clocks a k block. Nothing hides the block's last tile.
      tile.due = clock_now(), tile.pace = Loop::has(p, t + Loop::step()) ? 24 * PARTS * k_blocks : 0;
#endif
#if PARKS
      run_first(p, tile, epilogue, acc, kept, by);
      } else forget(kept);
      const bool takes = Loop::takes(p, t, sequence);
      if (takes) place_tile(p, tile, t - Loop::step());
      by.park(p, tile, epilogue, kept, computes, takes);
      if (takes) run_parked(p, tile, epilogue, kept, by);
#else
      run_epilogue(p, tile, epilogue, acc, by);
#endif
      // In ping-pong the consumers' order is a barrier between a consumer's tiles; cooperative ones' warps may be a tile apart.
      // (A cluster's tile that does not exist takes no turn.)
      tile.turn ^= !PINGPONG;
    }
#if MEETS
    if (sequence == PINGPONG * wg) cluster_begun();  // it had no tile
#endif
#if FINISHES
    // No tile of this block is left.
    int unit = gridDim.x - 1 - blockIdx.x;
#if TAGS
    // It folds partial results as they come from all blocks (a cooperative launch: all run), once both consumers are done: what one of
    // them polled before would be in the products' way.
    for (; unit < finish_units(one); unit += gridDim.x) {
      finish_sync();
      finish(one, unit, threadIdx.x - 128, smem + SMEM_SCRATCH, tag);
    }
#else
    // When that is true of all blocks (a cooperative launch: all run), they fold the partial results, in the consumers' scratch. The
    // last blocks had the fewest tiles: they begin.
    wait_for_blocks();
    for (; unit < finish_units(one); unit += gridDim.x) {
      finish(one, unit, threadIdx.x - 128, smem + SMEM_SCRATCH, 0);
      finish_sync();
    }
#endif
#endif
#if STORES || HELD_STORES
    if (elect_one()) tma_store_wait_read<0>();  // memory has it when the launch ends
#endif
  }
#if (CLUSTER_M > 1 || CLUSTER_N > 1) && !MEETS  // who has heard of its last tile is told no more
  __syncwarp();
  cluster_sync();  // another block may load into this one's stages, and arrive at its barriers, until it has ended
#endif
}
)cuda"
