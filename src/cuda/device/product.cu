R"cuda(
// acc[b][i][j] = sum over k of A[b][i][k] B[b][k][j], on the ordinary arithmetic units, for every dtype and stride.
// 64 x 64 a block, 4 x 4 a thread.
constexpr int TILE = 64, DEPTH = 16;

DEVICE i64 k_offset(const Counting& count, i64 stride, int k) {
  if (!count.size[3]) return k * stride;
  i64 offset = 0;
  #pragma unroll
  for (int i = 3; i >= 0; --i) {
    const int outer = k / count.size[i];
    offset += (k - outer * count.size[i]) * count.stride[i];
    k = outer;
  }
  return offset;
}

// A block's TILE rows of A, DEPTH of K at a time; neighbouring threads read neighbours in memory.
#if A_FORM
struct Params : Product { Rows rows; };
struct LeftOperand {
  Spot spot[TILE * DEPTH / 256];
  int row;  // the thread's first; the others follow DEPTH apart
  METHOD void begin(const Params& p, int batch, int first) {
    row = first + threadIdx.x / DEPTH;
    #pragma unroll
    for (int i = 0; i < TILE * DEPTH / 256; ++i) spot[i] = row_spot(p.rows, batch, min(row + i * DEPTH, p.m - 1));
  }
  METHOD void load(const Params& p, int k0, ACC (&to)[DEPTH][TILE + 1]) {
    const int ak = threadIdx.x % DEPTH;
    const Spot k = k_spot(p.rows, k0 + ak);
    #pragma unroll
    for (int i = 0; i < TILE * DEPTH / 256; ++i) {
      const bool exists = row + i * DEPTH < p.m && k0 + ak < p.k && has(p.rows, spot[i], k);
      to[ak][threadIdx.x / DEPTH + i * DEPTH] = exists ? LOAD_A(p.a, spot[i].offset + k.offset) : ACC(0);
    }
  }
};
static_assert(256 / DEPTH == DEPTH, "rows of a thread are DEPTH apart");
#else
typedef Product Params;
struct LeftOperand {
  i64 from;
  int row;
  METHOD void begin(const Params& p, int batch, int first) { from = batch * p.a_batch, row = first; }
  METHOD void load(const Params& p, int k0, ACC (&to)[DEPTH][TILE + 1]) {
    for (int x = threadIdx.x; x < TILE * DEPTH; x += 256) {
      const int ak = p.a_k == 1 ? x % DEPTH : x / TILE, ai = p.a_k == 1 ? x / DEPTH : x % TILE;
      to[ak][ai] = row + ai < p.m && k0 + ak < p.k ? LOAD_A(p.a, from + (row + ai) * p.a_row + (k0 + ak) * p.a_k) : ACC(0);
    }
  }
};
#endif

extern "C" __global__ void __launch_bounds__(256) postlude_product(const __grid_constant__ Params p) {
  follow_previous_launch();
  __shared__ ACC as[DEPTH][TILE + 1], bs[DEPTH][TILE + 1];
  const int batch = blockIdx.z, row = blockIdx.y * TILE, column = blockIdx.x * TILE, ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  const i64 b = batch * p.b_batch;
  LeftOperand left;
  left.begin(p, batch, row);
  ACC acc[4][4] = {};
  for (int k0 = 0; k0 < p.k; k0 += DEPTH) {
    left.load(p, k0, as);
    for (int x = threadIdx.x; x < TILE * DEPTH; x += 256) {
      const int bk = p.b_k == 1 ? x % DEPTH : x / TILE, bj = p.b_k == 1 ? x / DEPTH : x % TILE;
      bs[bk][bj] = column + bj < p.n && k0 + bk < p.k ? LOAD_B(p.b, b + k_offset(p.b_count, p.b_k, k0 + bk) + (column + bj) * p.b_column) : ACC(0);
    }
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
      const int y = row + ty + 16 * i, x = column + tx + 16 * j;
      if (y < p.m && x < p.n) ((ACC*)p.acc)[((i64)batch * p.m + y) * p.n + x] = acc[i][j];
    }
}

// Copies matrices of WORD-sized elements (A, B or both) into rows of `pitch` elements, the last ones zero: what the copy engine
// can address. Rows that begin between two words are put together from words.
struct Repack { Unpacked matrix[2]; };
constexpr int SPAN = 512;  // columns a block

DEVICE void repack_row(const Unpacked& p, i64 start, u32* to, int lane) {
  constexpr int per = 4 / sizeof(WORD);
  const int shift = int(start & 3), bytes = p.columns * int(sizeof(WORD));
  const u32* words = (const u32*)(start - shift);
  constexpr int chunks = SPAN / per / 32;
  const int first = blockIdx.x * (SPAN / per) + lane;
  // A word that reaches behind the row's end may reach behind the allocation.
  const auto word = [&](int w) {
    if (4 * w + 4 - shift <= bytes) return words[w];
    u32 x = 0;
    for (int b = 0; b < 4; b += sizeof(WORD))
      if (4 * w + b - shift < bytes) x |= u32(*(const WORD*)((const u8*)(words + w) + b)) << 8 * b;
    return x;
  };
  u32 v[chunks + 1];
  #pragma unroll
  for (int c = 0; c < chunks; ++c) v[c] = word(first + 32 * c);
  v[chunks] = lane ? 0 : word(first + 32 * chunks);
  #pragma unroll
  for (int c = 0; c < chunks; ++c) {
    const int w = first + 32 * c;
    const u32 left = __shfl_sync(~0u, v[c + 1], 0), next = __shfl_down_sync(~0u, v[c], 1);
    if (w * per < p.pitch) to[w] = __funnelshift_r(v[c], lane == 31 ? left : next, 8 * shift);
  }
}

extern "C" __global__ void __launch_bounds__(256, 6) postlude_repack(const __grid_constant__ Repack both) {
  follow_previous_launch();
  __shared__ WORD tile[32][33];
  for (int z = blockIdx.z; z < both.matrix[0].batches + both.matrix[1].batches; z += gridDim.z) {
    const Unpacked& p = both.matrix[z >= both.matrix[0].batches];
    const int batch = z >= both.matrix[0].batches ? z - both.matrix[0].batches : z;
    const i64 from = p.from + sizeof(WORD) * batch * p.batch_stride;
    WORD* to = (WORD*)p.to + (i64)batch * p.rows * p.pitch;
    if (p.column_stride == 1 && !p.count.size[3]) {
      for (int y = blockIdx.y * 8 + threadIdx.x / 32; y < p.rows; y += gridDim.y * 8)
        repack_row(p, from + sizeof(WORD) * y * p.row_stride, (u32*)(to + (i64)y * p.pitch), threadIdx.x % 32);
    } else {
      for (int y0 = blockIdx.y * 32; y0 < p.rows; y0 += gridDim.y * 32)
        for (int x0 = blockIdx.x * SPAN; x0 < min(p.pitch, int(blockIdx.x + 1) * SPAN); x0 += 32) {
          for (int q = threadIdx.x / 32; q < 32; q += 8) {
            const int x = x0 + q, y = y0 + threadIdx.x % 32;
            tile[q][threadIdx.x % 32] = x < p.columns && y < p.rows ? ((const WORD*)from)[y * p.row_stride + k_offset(p.count, p.column_stride, x)] : WORD(0);
          }
          __syncthreads();
          for (int q = threadIdx.x / 32; q < 32; q += 8) {
            const int x = x0 + threadIdx.x % 32, y = y0 + q;
            if (x < p.pitch && y < p.rows) to[(i64)y * p.pitch + x] = tile[threadIdx.x % 32][q];
          }
          __syncthreads();
        }
    }
  }
}
)cuda"
