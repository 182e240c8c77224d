R"cuda(
// The portable matrix product: one tile a block, mma.sync out of shared memory that cp.async fills STAGES deep, 64 bytes of
// K a stage. A consumer (four warps) owns WG_ROWS = BM rows and WG_COLUMNS of the BN columns; its accumulator lies as a
// warpgroup's of sm_90 would (mma.sync's m16n8 fragment is wgmma's for the warp's 16 rows), so the same emitted epilogue
// follows. Its staging lies in the stages' memory, which nobody needs by then.
// On an H200 it reaches half of cuBLAS's speed, which is wgmma's (decision 0024).
//
// B's rows are interleaved in blocks of eight where the accumulator is chunked (PARTS > 1).

constexpr int THREADS = BN / WG_COLUMNS * 128;
constexpr int K_BYTES = 64;
constexpr int A_BYTES = BM * K_BYTES, B_BYTES = BN * K_BYTES, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int NI = WG_COLUMNS / 8;  // 8-column blocks of a consumer
constexpr int K_STEPS = K_BYTES / 32;

// The rows (SIZE of them, from `first`) of an operand on their way into a stage, K along the bytes of a row: rows of 64 bytes,
// whose 16-byte chunk c lies at c ^ (row / 2 % 4). With K_MAJOR == 0: rows of K, SIZE elements of 16 bits each, whose chunk c
// lies at c ^ (row % 8). Either way eight rows of one chunk, what ldmatrix reads at once, lie in eight different banks.
template <int SIZE, bool MN_MAJOR, int parts> struct Operand {
  static constexpr int chunks = MN_MAJOR ? SIZE / 8 : K_BYTES / 16;           // of a row
  static constexpr int passes = SIZE * K_BYTES / 16 / THREADS, rows = THREADS / chunks;
  static constexpr int row_bytes = chunks * 16;
  i64 from, step;     // of this thread's first chunk; to its next one's, unless a group of a chunk ends between
  int column;         // K-major behind a chunk in groups: of its first row
  int to;             // in a stage
  int left;           // elements that exist: along K (K-major), or of its chunk (MN-major)
  int inside;         // K-major: bit i: row i exists. MN-major: rows of K that exist from this thread's first on
  METHOD void begin(const TensorMap& map, int batch, int first, int piece) {
    const int chunk = threadIdx.x % chunks, row = threadIdx.x / chunks;
    const i64 base = map_address(map) + batch * map_batch(map);
    if (MN_MAJOR) {
      const int at = first + chunk / parts * 8, limit = parts > 1 ? piece : map_columns(map);
      from = base + row * map_pitch(map) + 2 * (parts > 1 ? i64(first_piece(at)) + chunk % parts * next_piece(piece) : i64(at));
      step = rows * map_pitch(map);
      to = row * row_bytes + (chunk ^ row % 8) * 16;
      left = limit - at;
      inside = map_rows(map) - row;
    } else {
      const int at = first + row / (8 * parts) * 8 + row % 8, limit = parts > 1 ? piece : map_rows(map);
      from = base + (parts > 1 ? i64(first_piece(at)) + row / 8 % parts * next_piece(piece) : i64(at)) * map_pitch(map) + chunk * 16;
      column = parts > 1 ? at : 0;
      step = rows / parts * map_pitch(map);
      to = row * row_bytes + (chunk ^ row / 2 % 4) * 16;
      left = map_columns(map) - chunk * (16 / ELEM_BYTES);
      inside = 0;
      #pragma unroll
      for (int i = 0; i < passes; ++i) inside |= (at + i * (rows / parts) < limit) << i;
    }
  }
  // The next k block, into `stage`.
  METHOD void load(u32 stage) {
    i64 at = from;
    const int most = max(0, min(16 / ELEM_BYTES, left)) * ELEM_BYTES;
    #pragma unroll
    for (int i = 0; i < passes; ++i) {
      const int bytes = (MN_MAJOR ? i * rows < inside : inside >> i & 1) ? most : 0;
      if (!MN_MAJOR && parts > 1 && PIECE && i) at = from + (first_piece(column + i * (rows / parts)) - first_piece(column)) * (step / (rows / parts));
      copy_async(stage + (to ^ (MN_MAJOR ? i * rows % 8 * 16 : 0)) + i * rows * row_bytes, at, bytes);
      at += step;
    }
    if (MN_MAJOR) from = at, inside -= K_BYTES / 2;
    else from += K_BYTES, left -= K_BYTES / ELEM_BYTES;
  }
};

#if A_FORM
// The same of A's rows that are no stride apart, found one by one. A_CHUNKS: 16 bytes of a row lie side by side (and begin at a
// multiple of them), else an element at a time is read.
template <int SIZE> struct RowsOperand {
  static constexpr int chunks = K_BYTES / 16, passes = SIZE * chunks / THREADS, rows = THREADS / chunks, per = 16 / ELEM_BYTES;
  Spot spot[passes];
  int inside;  // bit i: row i exists
  int k, to;   // of this thread's chunk; in a stage
  METHOD void begin(const Params& p, int batch, int first) {
    const int chunk = threadIdx.x % chunks, row = threadIdx.x / chunks;
    k = chunk * per, to = row * K_BYTES + (chunk ^ row / 2 % 4) * 16;
    inside = 0;
    #pragma unroll
    for (int i = 0; i < passes; ++i) {
      const int at = first + row + i * rows;
      inside |= (at < p.m) << i;
      spot[i] = row_spot(p.rows, batch, min(at, p.m - 1));
    }
  }
  METHOD void load(const Params& p, u32 stage) {
    const i64 base = map_address(p.map[0]);
#if A_CHUNKS
    const Spot at = k_spot(p.rows, k);
    const int most = max(0, min(per, p.rows.k - k)) * ELEM_BYTES;
    #pragma unroll
    for (int i = 0; i < passes; ++i) {
      const bool there = (inside >> i & 1) && has(p.rows, spot[i], at);
      copy_async(stage + to + i * rows * K_BYTES, base + (there ? (spot[i].offset + at.offset) * ELEM_BYTES : 0), there ? most : 0);
    }
#else
    // A word at a time: all 16 bytes of all rows in one piece took NVRTC up to a minute.
    constexpr int in_word = 4 / ELEM_BYTES;
    #pragma unroll
    for (int i = 0; i < passes; ++i)
      #pragma unroll 1
      for (int e = 0; e < per; e += in_word) {
        u32 word = 0;
        #pragma unroll
        for (int x = 0; x < in_word; ++x) {
          const Spot at = k_spot(p.rows, k + e + x);
          if (k + e + x < p.rows.k && (inside >> i & 1) && has(p.rows, spot[i], at))
            word |= element_bits<ELEM_BYTES>(base + (spot[i].offset + at.offset) * ELEM_BYTES) << (x * ELEM_BYTES * 8);
        }
        shared_store(stage + to + i * rows * K_BYTES + e * ELEM_BYTES, word);
      }
#endif
    k += K_BYTES / ELEM_BYTES;
  }
};
#endif

#if B_FORM
// The same of B whose K is the pixel: rows of K, SIZE elements of the window each.
template <int SIZE> struct PixelsOperand {
  static constexpr int chunks = SIZE / 8, passes = SIZE * K_BYTES / 16 / THREADS, rows = THREADS / chunks;
  int pixel, column, to;  // of this thread's first row; of its chunk; in a stage
  METHOD void begin(const Params&, int first) {
    const int chunk = threadIdx.x % chunks, row = threadIdx.x / chunks;
    pixel = row, column = first + chunk * 8, to = row * chunks * 16 + (chunk ^ row % 8) * 16;
  }
  METHOD void load(const Params& p, u32 stage) {
    const i64 base = map_address(p.map[1]);
    #pragma unroll
    for (int i = 0; i < passes; ++i) {
      const int at = pixel + i * rows;
      const u32 there = stage + (to ^ i * rows % 8 * 16) + i * rows * chunks * 16;
      const Spot row = row_spot(p.rows, 0, at);
#if B_CHUNKS
      const Spot tap = k_spot(p.rows, column);
      const bool exists = at < p.rows.m && column < p.rows.k && has(p.rows, row, tap);
      copy_async(there, base + (exists ? (row.offset + tap.offset) * ELEM_BYTES : 0), exists ? 16 : 0);
#else
      u32 word[4] = {};
      #pragma unroll
      for (int e = 0; e < 8; ++e) {
        const Spot tap = k_spot(p.rows, column + e);
        if (at < p.rows.m && column + e < p.rows.k && has(p.rows, row, tap))
          word[e / 2] |= element_bits<2>(base + (row.offset + tap.offset) * 2) << (e % 2 * 16);
      }
      shared_store(there, word[0], word[1]);
      shared_store(there + 8, word[2], word[3]);
#endif
    }
    pixel += K_BYTES / ELEM_BYTES;
  }
};
#endif

// The main loop: what loads a tile's stages, one k block after another.
struct Loop {
#if A_FORM
  RowsOperand<BM> a;
#else
  Operand<BM, A_MN_MAJOR, 1> a;
#endif
#if B_FORM
  PixelsOperand<BN> b;
#else
  Operand<BN, B_MN_MAJOR, PARTS> b;
#endif
  METHOD void begin(const Params& p, const Work& w, int column) {
#if A_FORM
    a.begin(p, w.batch, w.m * BM);
#else
    a.begin(p.map[0], w.batch * p.a_batch, w.m * BM, 0);
#endif
#if B_FORM
    b.begin(p, column);
#else
    b.begin(p.map[1], w.batch * p.b_batch, column, p.n);
#endif
  }
  METHOD void load(const Params& p, u32 stage) {
#if A_FORM
    a.load(p, stage);
#else
    a.load(stage);
#endif
#if B_FORM
    b.load(p, stage + A_BYTES);
#else
    b.load(stage + A_BYTES);
#endif
  }
};

#if A_MN_MAJOR
// ldmatrix's address of this lane: rows (or columns of the transpose) 16 of A by 32 bytes of K.
DEVICE u32 a_address(u32 lane_offset, int i, int k) { return lane_offset + k * 16 * BM * 2 + i * 128; }
DEVICE u32 a_lane(int warp, int lane) { return (lane / 16 * 8 + lane % 8) * BM * 2 + ((2 * warp + lane / 8 % 2) ^ lane % 8) * 16; }
#else
DEVICE u32 a_address(u32 lane_offset, int i, int k) { return (lane_offset ^ k * 32) + i * 64 * K_BYTES; }
DEVICE u32 a_lane(int warp, int lane) { return (warp * 16 + lane % 16) * K_BYTES + (lane / 16 ^ lane / 2 % 4) * 16; }
#endif
#if B_MN_MAJOR
// Of 16 columns of B, number j of the consumer's.
DEVICE u32 b_address(u32 lane_offset, int j, int k) { return (lane_offset ^ j % 4 * 32) + k * 16 * BN * 2 + j / 4 * 128; }
DEVICE u32 b_lane(int wg, int lane) { return (lane / 8 % 2 * 8 + lane % 8) * BN * 2 + wg * WG_COLUMNS * 2 + (lane / 16 ^ lane % 8) * 16; }
#else
DEVICE u32 b_address(u32 lane_offset, int j, int k) { return (lane_offset ^ k * 32) + j * 16 * K_BYTES; }
DEVICE u32 b_lane(int wg, int lane) {
  const int row = lane / 16 * 8 + lane % 8;
  return (wg * WG_COLUMNS + row) * K_BYTES + (lane / 8 % 2 ^ row / 2 % 4) * 16;
}
#endif

DEVICE void load_a(u32 (&a)[MI][4], u32 stage, u32 lane_offset, int k) {
  #pragma unroll
  for (int i = 0; i < MI; ++i) {
    const u32 from = stage + a_address(lane_offset, i, k);
    if (A_MN_MAJOR) ldmatrix_transposed(from, a[i][0], a[i][1], a[i][2], a[i][3]);
    else ldmatrix(from, a[i][0], a[i][1], a[i][2], a[i][3]);
  }
}
DEVICE void load_b(u32 (&b0)[2], u32 (&b1)[2], u32 stage, u32 lane_offset, int j, int k) {
  const u32 from = stage + A_BYTES + b_address(lane_offset, j, k);
  if (B_MN_MAJOR) ldmatrix_transposed(from, b0[0], b0[1], b1[0], b1[1]);
  else ldmatrix(from, b0[0], b0[1], b1[0], b1[1]);
}

extern "C" __global__ void __launch_bounds__(THREADS, THREADS == 128 ? 2 : 1) postlude_gemm(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 dynamic_shared[];
  const u32 smem = smem_address(dynamic_shared);
  const int wg = __shfl_sync(~0u, threadIdx.x / 128, 0), warp = __shfl_sync(~0u, threadIdx.x / 32 % 4, 0), lane = lane_id();
  constexpr int consumers = BN / WG_COLUMNS;
  follow_previous_launch();
  const Work c = work_of(p, blockIdx.x, p.tiles_m, (p.tiles_n + consumers - 1) / consumers);

  Tile tile;
  tile.batch = c.batch, tile.tile_m = tile.slot_m = c.m, tile.tile_n = c.n * consumers + wg;
  tile.row = c.m * BM, tile.col = tile.tile_n * OUT_N, tile.turn = 0;
  tile.wg = wg, tile.warp = warp, tile.lane = lane, tile.thread = threadIdx.x % 128, tile.barrier = 1 + wg;

  const int k_blocks = p.k_blocks;
  Loop loop;
  loop.begin(p, c, c.n * consumers * OUT_N);
  #pragma unroll 1
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < k_blocks) loop.load(p, smem + s * STAGE_BYTES);
    copy_commit();
  }

  ACC acc[MI][WG_COLUMNS / 2];
  #pragma unroll
  for (int i = 0; i < MI; ++i)
    #pragma unroll
    for (int j = 0; j < WG_COLUMNS / 2; ++j) acc[i][j] = 0;

  // Fragments are read one step ahead of their product, across stages too: the barrier in the last step of a stage says that
  // the next one has come and that this one may be filled again. B's take the place of those that were just used.
  const u32 a_offset = a_lane(warp, lane), b_offset = b_lane(wg, lane);
  u32 fragments_a[2][MI][4], fragments_b[NI][2];
  copy_wait<STAGES - 2>();
  __syncthreads();
  load_a(fragments_a[0], smem, a_offset, 0);
  #pragma unroll
  for (int j = 0; j < NI; j += 2) load_b(fragments_b[j], fragments_b[j + 1], smem, b_offset, j / 2, 0);
  int stage = 0, filled = STAGES - 1;
  for (int kb = 0; kb < k_blocks; ++kb) {
    #pragma unroll
    for (int k = 0; k < K_STEPS; ++k) {
      const int next = (k + 1) % K_STEPS;
      if (next == 0) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        if (++stage == STAGES) stage = 0;
      }
      load_a(fragments_a[(k + 1) % 2], smem + stage * STAGE_BYTES, a_offset, next);
      if (k == 0) {
        if (kb + STAGES - 1 < k_blocks) loop.load(p, smem + filled * STAGE_BYTES);
        copy_commit();
        if (++filled == STAGES) filled = 0;
      }
      #pragma unroll
      for (int j = 0; j < NI; j += 2) {
        #pragma unroll
        for (int h = 0; h < 2; ++h)
          #pragma unroll
          for (int i = 0; i < MI; ++i) {
            ACC* d = acc[i] + 4 * (j + h);
            mma(d[0], d[1], d[2], d[3], fragments_a[k % 2][i], fragments_b[j + h]);
          }
        load_b(fragments_b[j], fragments_b[j + 1], smem + stage * STAGE_BYTES, b_offset, j / 2, next);
      }
    }
  }
  copy_wait<0>();
  __syncthreads();
  if (tile.tile_n >= p.tiles_n) return;  // the second consumer's columns may lie beyond the last

  const u32 d = smem + wg * (D_BYTES + AUX_STAGES * AUX_BYTES + SCRATCH_BYTES), aux = d + D_BYTES;
  tile.scratch = aux + AUX_STAGES * AUX_BYTES;
  Passage by = {d, aux, 0};
  Epilogue epilogue;
  #pragma unroll
  for (int n = 0; n < AUX_STAGES; ++n) issue_load(p, tile, aux, n);
  epilogue.begin(p, tile);
  run_epilogue(p, tile, epilogue, acc, by);
}
)cuda"
