R"cuda(
// acc[b][i][j] = sum over k of A[b][i][k] B[b][k][j], on the ordinary arithmetic units, for every dtype and stride.
// 64 x 64 a block, 4 x 4 a thread.
constexpr int TILE = 64, DEPTH = 16;

struct Product {
  i64 a, a_batch, a_row, a_k;  // address, strides in elements
  i64 b, b_batch, b_k, b_column;
  i64 acc;
  int m, n, k;
};

extern "C" __global__ void __launch_bounds__(256) postlude_product(const __grid_constant__ Product p) {
  __shared__ ACC as[DEPTH][TILE + 1], bs[DEPTH][TILE + 1];
  const int batch = blockIdx.z, row = blockIdx.y * TILE, column = blockIdx.x * TILE, ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  const i64 a = batch * p.a_batch, b = batch * p.b_batch;
  ACC acc[4][4] = {};
  for (int k0 = 0; k0 < p.k; k0 += DEPTH) {
    for (int x = threadIdx.x; x < TILE * DEPTH; x += 256) {
      // Neighbouring threads read neighbours in memory.
      const int ak = p.a_k == 1 ? x % DEPTH : x / TILE, ai = p.a_k == 1 ? x / DEPTH : x % TILE;
      as[ak][ai] = row + ai < p.m && k0 + ak < p.k ? LOAD_A(p.a, a + (row + ai) * p.a_row + (k0 + ak) * p.a_k) : ACC(0);
      const int bk = p.b_k == 1 ? x % DEPTH : x / TILE, bj = p.b_k == 1 ? x / DEPTH : x % TILE;
      bs[bk][bj] = column + bj < p.n && k0 + bk < p.k ? LOAD_B(p.b, b + (k0 + bk) * p.b_k + (column + bj) * p.b_column) : ACC(0);
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

// Copies a matrix of WORD-sized elements into rows of `pitch` elements, the last ones zero: what the copy engine can address.
struct Repack {
  i64 from, batch_stride, row_stride, column_stride, to;
  int rows, columns, pitch;
};

extern "C" __global__ void __launch_bounds__(256) postlude_repack(const __grid_constant__ Repack p) {
  const i64 from = p.from + sizeof(WORD) * (i64)blockIdx.z * p.batch_stride;
  WORD* to = (WORD*)p.to + (i64)blockIdx.z * p.rows * p.pitch;
  if (p.column_stride == 1) {
    for (int y = blockIdx.y * 8 + threadIdx.x / 32; y < p.rows; y += gridDim.y * 8)
      for (int x = blockIdx.x * 256 + threadIdx.x % 32; x < min(p.pitch, int(blockIdx.x + 1) * 256); x += 32)
        to[(i64)y * p.pitch + x] = x < p.columns ? ((const WORD*)from)[y * p.row_stride + x] : WORD(0);
  } else {
    __shared__ WORD tile[32][33];
    for (int y0 = blockIdx.y * 32; y0 < p.rows; y0 += gridDim.y * 32)
      for (int x0 = blockIdx.x * 256; x0 < min(p.pitch, int(blockIdx.x + 1) * 256); x0 += 32) {
        for (int q = threadIdx.x / 32; q < 32; q += 8) {
          const int x = x0 + q, y = y0 + threadIdx.x % 32;
          tile[q][threadIdx.x % 32] = x < p.columns && y < p.rows ? ((const WORD*)from)[y * p.row_stride + x * p.column_stride] : WORD(0);
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
)cuda"
