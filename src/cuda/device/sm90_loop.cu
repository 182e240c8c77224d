R"cuda(
// The persistent matrix product. One producer warpgroup (warp 0 and another one load A and B; warps 1 and 2 load the tile operands
// of consumer 0 and 1), two consumer warpgroups that multiply and run the epilogue. Ping-pong: the consumers take turns, each a
// whole tile, so that one's epilogue hides under the other's main loop. Cooperative: each takes half the rows of every tile; abreast:
// half its columns.
//
// Everything in capitals is a parameter of the variant, defined at the top of the emitted source; `Epilogue` and `Held` are
// emitted. The epilogue's columns are the output's: behind a chunk in PARTS pieces each comes from as many
// accumulator columns, TILE_N apart: a tile has columns of one piece of B, then those of the next. Of a turned product it has rows of
// BELOW pieces of A, 64 of each in turn, and BM are the output's; a thread has their accumulators as if they were columns.

// One stage: 128 bytes of K for each row (of windows of B 256). Where A has few rows, what the products read behind them is whatever
// lies there: it becomes rows that do not exist.
#if APART_A
constexpr int A_BYTES = (APART_A * BOX_BYTES_A + 1023) / 1024 * 1024;
#else
constexpr int A_BYTES = A_ROWS * STAGE_K;
#endif
#if SHIFTED
constexpr int B_BYTES = LINES_B * WINDOW_B;
#else
constexpr int B_BYTES = BN * 128, EXCHANGE_BYTES = 0;
#endif
// Two places of A's lines, of which wgmma may read what lies behind few.
constexpr int SMEM_LINES = STAGES * A_BYTES, LINES_BYTES = LINES_A ? A_ROWS * 128 : 0;
constexpr int SMEM_B = SMEM_LINES + 2 * LINES_BYTES;
constexpr int SMEM_EXCHANGE = SMEM_B + STAGES * B_BYTES;
constexpr int SMEM_D = SMEM_EXCHANGE + 2 * EXCHANGE_BYTES;
constexpr int SMEM_AUX = SMEM_D + 2 * D_BUFFERS * D_BYTES;
constexpr int SMEM_PARKED = SMEM_AUX + 2 * AUX_STAGES * AUX_BYTES, PARKED_BYTES = WG_ROWS * WG_COLUMNS * 4;
constexpr int SMEM_SCRATCH = SMEM_PARKED + PARKS * PARKED_BYTES;
constexpr int SMEM_MET = SMEM_SCRATCH + 2 * SCRATCH_BYTES;
// How far apart the consumers of a tile begin.
constexpr int ROWS_APART = BM - WG_ROWS, COLUMNS_APART = (BN - COLUMNS) * BELOW / PARTS;
constexpr int SHARING_A = MEETS ? 1 : CLUSTER_N, TILES_TOGETHER = CLUSTER_M * SHARING_A;  // of a cluster that loads together
// Of a cluster that meets: what a consumer hears of a tile's rows, and its barriers there.
constexpr int MET_BYTES = MEETS * CLUSTER_N * WG_ROWS * MET_STATES, MEETING_BYTES = MEETS * WG_ROWS / 64 * 4 * 8;
constexpr int SMEM_BARRIERS = SMEM_MET + 2 * 2 * MET_BYTES;

// Two warps load every second stage each, where a second one is free and what they load is not windows, which are walked. For one
// alone a stage takes 200 clocks, however small it is. Of an odd number of stages a warp would see every second phase only, and
// take the one before last for the last, as consumers give short tiles' stages back in any order (decision 0263).
#if A_FORM || B_FORM || STAGES % 2 || (AUX_STAGES && (TELLS || (FINISHES && !TAGS)))
constexpr int LOADERS = 1, second_loader = 0;
#else
constexpr int LOADERS = 2, second_loader = AUX_STAGES ? 3 : 1;  // its warp
#endif

#if SCATTERED
// The residues of a strided data gradient are products of one launch: the tiles of each follow those of the one before (decision 0085).
constexpr int RESIDUES = residues_at_once(sizeof(Params));
struct All { Params part[RESIDUES]; };
DEVICE const Params& params_of(const All& all, int t) {
  int part = 0;
  #pragma unroll
  for (int other = 1; other < RESIDUES; ++other)
    if (part == other - 1 && t >= all.part[part].scatter.end_tile) part = other;
  return all.part[part];
}
DEVICE int tile_in(const Params& p, int t) { return t - p.scatter.first_tile; }
#else
typedef Params All;
DEVICE const Params& params_of(const All& all, int) { return all; }
DEVICE int tile_in(const Params&, int t) { return t; }
#endif

// The main loop: which tiles a block takes and which of their K, what loads operands, how parts of a tile are joined. Each block
// takes tile after tile. A tile's K may have equal parts. The blocks of a cluster have one each (BY_CLUSTER), and the first
// adds what the others send it and has the epilogue. Or (BY_MEMORY) p.parts of them are taken as tiles are, all tiles' first parts
// before all second ones, so that what runs at once shares A and B in L2; the last adds what the others left in memory. The first
// p.whole tiles are then taken before all parts, and have none.
// Or the blocks of a cluster have tiles below each other (CLUSTER_M) or beside each other (CLUSTER_N), at the same K: what they share
// of B or A each loads a half of, into both. What is counted as tiles is then what a cluster has; the last may have fewer.
struct Loop {
  DEVICE_STATIC int rank() { return blockIdx.x % CLUSTER_BLOCKS; }
  DEVICE_STATIC int parts(const Params& p) { return BY_MEMORY ? p.parts : 1; }
  DEVICE_STATIC int first() { return blockIdx.x / CLUSTER_BLOCKS; }
  DEVICE_STATIC int step() { return gridDim.x / CLUSTER_BLOCKS; }
  DEVICE_STATIC bool is_whole(const Params& p, int t) { return BY_MEMORY && t < p.whole; }
  DEVICE_STATIC int divided(const Params& p) { return p.tiles - p.whole; }  // tiles that have parts
  // Whether the block's tile before tile t, its number `sequence`, was parked.
  DEVICE_STATIC bool takes(const Params& p, int t, int sequence) { return PARKS && sequence > 0 && has(p, t - step()); }
  DEVICE_STATIC bool has(const Params& p, int t) { return t < (BY_MEMORY ? p.whole + divided(p) * p.parts : AGAIN ? 2 * p.tiles : p.tiles); }
#if AGAIN
  // Tiles are taken twice, p.whole of them at a time: for their statistics, and, behind the next ones' statistics, for what follows.
  // All that a tile waits for was taken before it, so no block waits for ever.
  struct Turn { int tile; bool second; };
  DEVICE_STATIC Turn turn(const Params& p, int t) {
    const int q = quotient(t, p.divided), first = q ? (q / 2 + 1) * p.whole : 0, tile = first + t - q * p.whole;
    if (q && q % 2 == 0) return {t - min(first, p.tiles), true};
    return tile < p.tiles ? Turn{tile, false} : Turn{t - p.tiles, true};
  }
#endif
  DEVICE_STATIC int part(const Params& p, int t) { return BY_MEMORY ? quotient(t - p.whole, p.divided) : BY_CLUSTER ? rank() : 0; }
  DEVICE_STATIC Work work(const Params& p, int t) {
#if AGAIN
    const int tile = turn(p, t).tile;
#else
    const int tile = BY_MEMORY && t >= p.whole ? t - part(p, t) * divided(p) : tile_in(p, t);
#endif
    Work w = work_of(p, tile, (p.tiles_m + CLUSTER_M - 1) / CLUSTER_M, (p.tiles_n + CLUSTER_N - 1) / CLUSTER_N);
    if (CLUSTER_M > 1) w.m = w.m * CLUSTER_M + rank();
    if (CLUSTER_N > 1) w.n = w.n * CLUSTER_N + rank();
    return w;
  }
  DEVICE_STATIC bool exists(const Params& p, int row, int column) { return (CLUSTER_M == 1 || row < p.m) && (CLUSTER_N == 1 || column < p.n); }
  DEVICE_STATIC bool owns(const Params& p, int t) { return is_whole(p, t) || part(p, t) == parts(p) - 1; }  // has the epilogue
  DEVICE_STATIC int first_k(const Params& p, int t, int next = 0) {  // or (next == 1) behind the last
    const int n = part(p, t) + next, all = BY_CLUSTER ? CLUSTER_BLOCKS : parts(p);
    return is_whole(p, t) || n == all ? next * p.k_blocks : n * p.part_blocks + min(n, p.longer);
  }
  DEVICE_STATIC int count_k(const Params& p, int t) { return first_k(p, t, 1) - first_k(p, t); }
  DEVICE_STATIC int row(const Work& w, int wg) { return w.m * BM + wg * ROWS_APART; }  // a consumer's first

  // One K block of a tile after another into a stage, whose barrier waits for `bytes`. Rows that a box has beyond a matrix's end
  // take the copy engine longer than others: of the last tiles, boxes of other maps have those that exist (decision 0092).
  // Of what a cluster shares its blocks load every second box, or (along M or N) each every box's own lines of K.
  struct Source {
    Work w;
    int k, b_batch;  // of B's next block: its first k; its batch, or its tap
    int rows, columns;  // of A and of each piece of B that exist from the tile's first on
    int bytes;
#if A_FORM
    Window window;
#elif B_FORM
    Pixels pixels;
#endif
    // The first of a block's lines of a box, which so many blocks share.
    template <int blocks> DEVICE_STATIC int line() { return blocks > 1 ? rank() * (BK / blocks) : 0; }
    template <int blocks, class... At> DEVICE_STATIC void load_box(u32 to, const TensorMap& map, u32 bar, At... at) {
      if constexpr (blocks > 1) tma_load_all(to, map, bar, at...);
      else tma_load(to, map, bar, at...);
    }
    // Whether B's box from column j of a piece on reaches beyond the end.
    METHOD bool has_edge(int j) const { return !B_MN_MAJOR && B_TAPS != 2 && j + RUN > columns; }
    METHOD void begin(const Params& p, const Work& of, int kb) {
      w = of;
#if A_FORM
      window.begin(p.rows, w.batch, w.m * BM, w.n * BN, kb);
#elif B_FORM
      pixels.begin(p.rows, w.m * BM, w.n * BN, kb);
#endif
      k = kb * BK, b_batch = w.batch * p.b_batch;
#if SCATTERED
      if (p.rows.taps == 0) k = 1 << 29;  // beyond all of B
#endif
      rows = p.m - w.m * BM, columns = p.n - w.n * TILE_N;
#if A_FORM
      bytes = A_BYTES;
#elif APART_A
      if (TILES_TOGETHER > 1) rows = max(rows, 0);
      bytes = min(APART_A, rows) * BOX_ROWS_A * WINDOW;
#elif BELOW > 1
      bytes = 0;
      #pragma unroll
      for (int i = 0; i < BM; i += A_BOX)
        if (i < rows) bytes += BELOW * 128 * (!A_MN_MAJOR && i + A_BOX > rows ? p.edge_a : A_BOX);
#else
      if (TILES_TOGETHER > 1) rows = max(rows, 0);  // of a tile that does not exist
      bytes = A_MN_MAJOR ? min(BM, (rows + 63) / 64 * 64) * 128 : 0;
      #pragma unroll
      for (int i = 0; i < A_ROWS && !A_MN_MAJOR; i += A_BOX)
        if (TILES_TOGETHER == 1 || i < rows) bytes += STAGE_K * (i + A_BOX > rows ? p.edge_a : A_BOX);
#endif
#if B_FORM || SHIFTED
      bytes += B_BYTES;
#else
      #pragma unroll
      for (int j = 0; j < TILE_N; j += RUN)
        if (j < columns) bytes += PARTS / BELOW * 128 * (has_edge(j) ? p.edge_b : RUN);
#endif
    }
    METHOD void load(const Params& p, u32 a, u32 b, u32 bar) {
#if B_TAPS
      k = window.channel, b_batch = window.tap;
#endif
#if B_TAPS == 2
      load_b(p, b, bar);  // of the tap that A's load goes on from
      load_a(p, a, bar);
#else
      load_a(p, a, bar);
      load_b(p, b, bar);
#endif
      k += LOADERS * BK;
    }
    METHOD void load_a(const Params& p, u32 a, u32 bar) {
#if A_FORM
      #pragma unroll
      for (int i = 0; i < 128 / A_RUN; ++i) window.load(p.rows, p.map[0], a + i * BM * A_RUN, bar);
#elif APART_A
      #pragma unroll
      for (int x = 0; x < APART_A; ++x) {
        const int first = first_shifted(p, w.batch) + w.m * BM + x, r = u32(first) % APART_A;
        if (x < rows)
          tma_load(a + x * BOX_BYTES_A, p.map[r ? EDGE_B + (SHIFTED ? SHIFTED - 1 : 0) + r : 0], bar, k, u32(first) / APART_A, FLAT_A ? 0 : w.batch * p.a_batch);
      }
#elif BELOW > 1
      #pragma unroll
      for (int i = 0; i < BM; i += A_BOX)
        #pragma unroll
        for (int piece = 0; piece < BELOW; ++piece) {
          if (i >= rows) continue;
          const u32 to = a + ((i / 64 * BELOW + piece) * 64 + i % 64) * 128;
          const int m = w.m * BM + i, first = ROW_PIECE ? m / (ROW_PIECE + !ROW_PIECE) * BELOW * ROW_PIECE + m % (ROW_PIECE + !ROW_PIECE) : m;
          const TensorMap& map = p.map[!A_MN_MAJOR && i + A_BOX > rows ? EDGE_A : 0];
#if ROW_PIECE % 64 && A_BOX % ROW_PIECE == 0  // pieces from group to group, which lie a group apart
          tma_load(to, map, bar, k, 0, piece, m / ROW_PIECE, w.batch * p.a_batch);
#else
          const int row = first + piece * (ROW_PIECE ? ROW_PIECE : p.m);
          tma_load(to, map, bar, A_MN_MAJOR ? row : k, A_MN_MAJOR ? k : row, w.batch * p.a_batch);
#endif
        }
#elif A_MN_MAJOR
      #pragma unroll
      for (int i = 0; i < BM / 64; ++i)
        if (i * 64 < rows) {
          const int own = line<SHARING_A>();
          load_box<SHARING_A>(a + (i * 64 + own) * 128, p.map[0], bar, w.m * BM + i * 64, k + own, w.batch * p.a_batch);
        }
#else
      const int i = SHARING_A > 1 ? rank() * A_BOX : 0;
      #pragma unroll
      for (int line = 0; line < STAGE_K; line += 128)
        if (TILES_TOGETHER == 1 || i < rows)
          load_box<SHARING_A>(a + i * 128 + line * A_ROWS, p.map[i + A_BOX > rows ? EDGE_A : 0], bar, k + line / ELEM_BYTES, w.m * BM + i, w.batch * p.a_batch);
#endif
    }
    METHOD void load_b(const Params& p, u32 b, u32 bar) {
#if B_FORM
      pixels.load(p.rows, p.map[1], b, bar);
#elif SHIFTED
      #pragma unroll
      for (int r = 0; r < SHIFTED; ++r)
        tma_load(b + r * BOX_ROWS_B * WINDOW_B, p.map[r ? EDGE_B + r : 1], bar, B_MN_MAJOR ? w.n * BN : k,
                 B_MN_MAJOR ? int(u32(k) / SHIFTED) : w.n * BOX_ROWS_B, b_batch);
#else
#if B_TAPS == 2  // backwards, along each axis
      const auto back = [&](int axis, int tap) { return p.rows.axis[axis].taps - 1 - tap; };
      const int sx = back(2, window.sx), sy = back(1, window.sy), sz = back(0, window.sz);
#endif
      #pragma unroll
      for (int x = 0; x < BN; x += B_MN_MAJOR ? RUN : CLUSTER_M * RUN) {
        const int j = x + (CLUSTER_M > 1 && !B_MN_MAJOR ? rank() * RUN : 0), at = j % TILE_N, piece = j / TILE_N;
        if (at >= columns) continue;
#if GROUP_K  // what a box has beyond its group's own channels is zeros
        const int n = w.n * BN + j, first = window.group + k;
#if B_MN_MAJOR
        constexpr int lines = B_BOX < BK / CLUSTER_M ? B_BOX : BK / CLUSTER_M;
        #pragma unroll
        for (int i = line<CLUSTER_M>(); i < line<CLUSTER_M>() + BK / CLUSTER_M; i += lines)
          load_box<CLUSTER_M>(b + (j + i) * 128, p.map[1], bar, n - (first + i) / GROUP_K * GROUP_COLUMNS, first + i, sx, sy, sz);
#else
        load_box<CLUSTER_M>(b + j * 128, p.map[1], bar, first - n / GROUP_COLUMNS * GROUP_K, n, b_batch);
#endif
#elif PIECE % 64 && RUN % PIECE == 0  // pieces from group to group, which lie a group apart
        load_box<CLUSTER_M>(b + j * 128, p.map[has_edge(at) ? EDGE_B : 1], bar, k, 0, piece, (w.n * TILE_N + at) / PIECE, b_batch);
#else
        const int n = first_piece(w.n * TILE_N + at) + (B_PIECES ? 0 : piece * next_piece(p.n)), own = line<CLUSTER_M>();
#if B_TAPS == 2
        load_box<CLUSTER_M>(b + (j + B_MN_MAJOR * own) * 128, p.map[1], bar, B_MN_MAJOR ? n : k, B_MN_MAJOR ? k + own : n, sx, sy, sz);
#else
        if (B_MN_MAJOR) load_box<CLUSTER_M>(b + (j + own) * 128, p.map[1], bar, n, k + own, B_PIECES ? piece : b_batch);
        else load_box<CLUSTER_M>(b + j * 128, p.map[has_edge(at) ? EDGE_B : 1], bar, k, n, b_batch);
#endif
#endif
      }
#endif
    }
  };
  // Adds what others have of a tile; false: another has its epilogue.
  DEVICE_STATIC bool join(const Params& p, const Tile& tile, int t, u32 stages, u32 meet, ACC (&acc)[MI][WG_COLUMNS / 2]);
};

DEVICE void place_tile(const Params& p, Tile& tile, int t) {
  const Work w = Loop::work(p, t);
  tile.batch = w.batch, tile.tile_m = w.m, tile.tile_n = w.n;
  tile.slot_m = PINGPONG ? w.m : 2 * w.m + tile.wg;
  tile.row = Loop::row(w, tile.wg);
  tile.col = w.n * TILE_N + tile.wg * COLUMNS_APART;
#if AGAIN
  tile.second = Loop::turn(p, t).second;
#endif
}

// K blocks of a tile that a warp is to load.
struct Load {
  Loop::Source source;
  int kb, end;
  METHOD void begin(const All& all, int t, int skipped) {
    const Params& p = params_of(all, t);
    kb = Loop::first_k(p, t) + skipped, end = Loop::first_k(p, t, 1);
    source.begin(p, Loop::work(p, t), kb);
  }
};

// `load` has begun with the block's first tile.
DEVICE void load_operands(const All& all, Load load, int stage, u32 smem, u32 full, u32 empty) {
  u32 phase = 0;
  for (int t = Loop::first();;) {
    const Params& p = params_of(all, t);
    for (; load.kb < load.end; load.kb += LOADERS) {
      mbarrier_wait(empty + 8 * stage, phase ^ 1);
      const u32 bar = full + 8 * stage;
      mbarrier_expect(bar, load.source.bytes);
      load.source.load(p, smem + stage * A_BYTES, smem + SMEM_B + stage * B_BYTES, bar);
      if ((stage += LOADERS) >= STAGES) stage -= STAGES, phase ^= 1;
    }
    t += Loop::step();
    if (!Loop::has(params_of(all, 0), t)) return;
    load.begin(all, t, load.kb - load.end);
  }
}

// Beside four stages of tile operands and more one warp loads those of both consumers, as stages are free, so that two warps fold what
// held tiles tell. With two stages operands would come late (decision 0299).
constexpr bool ONE_LOADS = TELLS && AUX_STAGES >= 4;
#if AUX_STAGES
// The tile operands of one consumer, a subtile at a time, in the order in which its epilogue and the phase that is held ask for
// them. Calling the rest of a tile into L2 ahead of the ring, and four stages instead of two, changed nothing
// (bias_gelu_res_aux, K = 1024).
struct Operands {
  u32 ring, full, empty;  // stages of the consumer, and their barriers
  int wg, sequence, t;    // its tile that is loaded
  int n, stage;           // the next of the tile's subtiles, and its stage
  u32 phase;
  METHOD void begin(u32 smem, u32 aux_full, u32 aux_empty, int of) {
    wg = of, sequence = PINGPONG ? wg : 0, t = Loop::first() + sequence * Loop::step();
    n = stage = 0, phase = 0;
    ring = smem + SMEM_AUX + wg * AUX_STAGES * AUX_BYTES;
    full = aux_full + 8 * AUX_STAGES * wg, empty = aux_empty + 8 * AUX_STAGES * wg;
  }
  // Those of a tile, which `waits` for stages, or as many as have one. False: no tile is left.
  template <bool waits> METHOD bool load(const All& all) {
    if (!Loop::has(params_of(all, 0), t) && !Loop::takes(params_of(all, 0), t, sequence)) return false;
    const Params& p = params_of(all, t);
    const Work w = Loop::work(p, t), before = Loop::work(p, t - PARKS * Loop::step());
#if AGAIN
    const bool first = !Loop::turn(p, t).second;  // which loads for the statistics alone
#else
    constexpr bool first = false;
#endif
    const int count = Loop::owns(p, t) && Loop::exists(p, w.m * BM, w.n * TILE_N) ? SUBTILES * (LOADS + (first ? 0 : HELD_LOADS)) : 0;
    for (; n < count; ++n) {
      const OperandLoad of = first ? OperandLoad{subtile(n), false} : operand_load(n);
#if PARKS
      if (of.held ? !Loop::takes(p, t, sequence) : !Loop::has(p, t)) continue;
#endif
      const Work& at = PARKS && of.held ? before : w;
      const int row = Loop::row(at, wg) + of.at.i * 64, col = at.n * TILE_N + wg * COLUMNS_APART + of.at.group * SUB_N;
      if (!waits && !mbarrier_is_through(empty + 8 * stage, phase ^ 1)) return true;
      mbarrier_wait(empty + 8 * stage, phase ^ 1);
#if LOADS
      if (!of.held) Epilogue::load_issue(p, ring + stage * AUX_BYTES, full + 8 * stage, row, col, at.batch);
#endif
#if HELD_LOADS
      if (of.held) Held::load_issue(p, ring + stage * AUX_BYTES, full + 8 * stage, row, col, at.batch);
#endif
      if (++stage == AUX_STAGES) stage = 0, phase ^= 1;
    }
    n = 0, t += (PINGPONG ? 2 : 1) * Loop::step(), sequence += PINGPONG ? 2 : 1;
    return true;
  }
};
#endif

#if TELLS
// The producer's last warp folds each tile's share of its rows, or the last two take tiles in turns: a share is a few reads of L2 that
// wait for each other (decision 0315).
constexpr int FOLDERS = AUX_STAGES && !ONE_LOADS ? 1 : 2, first_folder = 4 - FOLDERS;  // its warp
DEVICE void fold_shares(const Params& p, u32 tag, int number, int lane) {
  for (int t = Loop::first() + number * Loop::step(); Loop::has(p, t); t += FOLDERS * Loop::step()) {
#if AGAIN
    if (Loop::turn(p, t).second) continue;
#endif
    const Work w = Loop::work(p, t);
    if (Loop::owns(p, t) && Loop::exists(p, w.m * BM, w.n * TILE_N)) fold_share(p, w, tag, lane);
  }
}
#endif
)cuda"
