R"cuda(
// acc[b][i][j] = sum over k of A[b][i][k] B[b][k][j], on the ordinary arithmetic units, for every dtype and stride.
// 64 x 64 a block, 4 x 4 a thread.
constexpr int TILE = 64, DEPTH = 16;

#if SCATTERED
struct Params : Product { Rows rows; ScatterRows scatter; };
DEVICE int memory_row(const Params& p, int row) { return memory_row(p.scatter, row); }
#elif A_FORM || B_FORM
struct Params : Product { Rows rows; };
#else
typedef Product Params;
#endif
#if !SCATTERED
DEVICE int memory_row(const Product&, int row) { return row; }
#endif
constexpr int SHARE = TILE * DEPTH / 256;  // elements of a thread, of either operand
static_assert(256 / DEPTH == DEPTH, "those of a column are DEPTH apart");

// A block's TILE rows of A, DEPTH of K at a time, where `from` is added to addresses, and `limit` is the last row's; neighbouring
// threads read neighbours in memory.
struct LeftOperand {
  i64 from;
  int row, limit;
#if A_FORM
  Spot spot[SHARE];
  METHOD void begin(const Params& p, int batch) {
    #pragma unroll
    for (int i = 0; i < SHARE; ++i) spot[i] = row_spot(p.rows, batch, min(row + int(threadIdx.x) / DEPTH + i * DEPTH, limit - 1));
  }
  METHOD void load(const Params& p, int k0, ACC (&to)[DEPTH][TILE + 1]) {
    const int ak = threadIdx.x % DEPTH;
    const Spot k = k_spot(p.rows, k0 + ak);
    #pragma unroll
    for (int i = 0; i < SHARE; ++i) {
      const int ai = threadIdx.x / DEPTH + i * DEPTH;
      to[ak][ai] = row + ai < limit && k0 + ak < p.k && has(p.rows, spot[i], k) ? LOAD_A(p.a, from + spot[i].offset + k.offset) : ACC(0);
    }
  }
#else
  METHOD void begin(const Params& p, int batch) { from += batch * p.a_batch; }
  METHOD void load(const Params& p, int k0, ACC (&to)[DEPTH][TILE + 1]) {
    for (int x = threadIdx.x; x < TILE * DEPTH; x += 256) {
      const int ak = p.a_k == 1 ? x % DEPTH : x / TILE, ai = p.a_k == 1 ? x / DEPTH : x % TILE;
      to[ak][ai] = row + ai < limit && k0 + ak < p.k ? LOAD_A(p.a, from + (row + ai) * p.a_row + k_offset(p.a_count, p.a_k, k0 + ak)) : ACC(0);
    }
  }
#endif
};
struct RightOperand {
  i64 from;
  int column, limit;
#if B_FORM
  Spot spot;  // of the thread's column
  METHOD void begin(const Params& p, int) { spot = k_spot(p.rows, column + threadIdx.x % TILE); }
  METHOD void load(const Params& p, int k0, ACC (&to)[DEPTH][TILE + 1]) {
    const int bj = threadIdx.x % TILE;
    #pragma unroll
    for (int i = 0; i < SHARE; ++i) {
      const int bk = threadIdx.x / TILE + i * (256 / TILE);
      const Spot k = row_spot(p.rows, 0, min(k0 + bk, p.k - 1));
      to[bk][bj] = column + bj < limit && k0 + bk < p.k && has(p.rows, k, spot) ? LOAD_B(p.b, from + k.offset + spot.offset) : ACC(0);
    }
  }
#else
  METHOD void begin(const Params& p, int batch) { from += batch * p.b_batch; }
  METHOD void load(const Params& p, int k0, ACC (&to)[DEPTH][TILE + 1]) {
    for (int x = threadIdx.x; x < TILE * DEPTH; x += 256) {
      const int bk = p.b_k == 1 ? x % DEPTH : x / TILE, bj = p.b_k == 1 ? x / DEPTH : x % TILE;
      to[bk][bj] = column + bj < limit && k0 + bk < p.k ? LOAD_B(p.b, from + k_offset(p.b_count, p.b_k, k0 + bk) + (column + bj) * p.b_column) : ACC(0);
    }
  }
#endif
};

// Which TILE of an axis that is `parts` products a block has: its first, the part's end, and the part.
struct Span { int first, limit, part; };
DEVICE Span span(int block, int extent, int parts) {
  const int size = extent / parts, blocks = (size + TILE - 1) / TILE, part = block / blocks;
  return {part * size + (block - part * blocks) * TILE, (part + 1) * size, part};
}

extern "C" __global__ void __launch_bounds__(256) postlude_product(const __grid_constant__ Params p) {
  follow_previous_launch();
  __shared__ ACC as[DEPTH][TILE + 1], bs[DEPTH][TILE + 1];
  const int batch = blockIdx.z / p.parts, part = blockIdx.z % p.parts, ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  const Span rows = span(blockIdx.x, p.m, p.groups_m), columns = span(blockIdx.y, p.n, p.groups_n);
  const int group = rows.part + columns.part;  // one of them has but one
  const i64 group_row = rows.part * (p.m / p.groups_m), group_column = columns.part * (p.n / p.groups_n);
  LeftOperand left;
  left.from = group * p.a_group - group_row * p.a_row, left.row = rows.first, left.limit = rows.limit;
  left.begin(p, batch);
  RightOperand right;
  right.from = group * p.b_group - group_column * p.b_column, right.column = columns.first, right.limit = columns.limit;
  right.begin(p, batch);
  ACC acc[4][4] = {};
  // K in equal parts, each with an accumulator of its own.
  const i64 steps = (p.k + DEPTH - 1) / DEPTH;
  const int end = int(steps * (part + 1) / p.parts) * DEPTH;
  for (int k0 = int(steps * part / p.parts) * DEPTH; k0 < end; k0 += DEPTH) {
    left.load(p, k0, as);
    right.load(p, k0, bs);
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < DEPTH; ++k)
      #pragma unroll
      for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j) acc[i][j] = op_fma(as[k][ty + 16 * i], bs[k][tx + 16 * j], acc[i][j]);
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int y = rows.first + ty + 16 * i, x = columns.first + tx + 16 * j;
      if (y < rows.limit && x < columns.limit) ((ACC*)p.acc)[(((i64)part * (gridDim.z / p.parts) + batch) * p.m + memory_row(p, y)) * p.n + x] = acc[i][j];
    }
}
)cuda"
