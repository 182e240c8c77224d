R"cuda(
// Copies matrices of WORD-sized elements (A, B or both, or B of several residues) into rows of `pitch` elements, the last ones zero: what the copy engine
// can address. Rows that begin between two words are put together from words.
struct Repack { Unpacked matrix[repack_at_once]; };

// Where an element is, from the matrix's first one on, or that it is a zero. COUNTED: columns are counted along axes, or lie in
// groups; the code that finds them takes longer to compile than all else here (decision 0114).
constexpr i64 NOWHERE = i64(1) << 62;
DEVICE i64 element_place(const Unpacked& p, int x, int y) {
  i64 from = 0;
  if (x >= p.columns || y >= p.rows) return NOWHERE;
  if (!COUNTED) return y * p.row_stride + x * p.column_stride;
  if (p.group_columns) {
    const int group = y / p.group_rows, block = p.group_columns * p.block_groups, tap = x / block, channel = x - tap * block;
    if (channel / p.group_columns != group % p.block_groups) return NOWHERE;
    from = group * p.group_stride - group * p.group_rows * p.row_stride;
    x = tap * p.group_columns + channel % p.group_columns;
  }
  return k_exists(p.count, x) ? from + y * p.row_stride + k_offset(p.count, p.column_stride, x) : NOWHERE;
}

// A block's columns of a row, a warp's.
DEVICE void repack_row(const Words& from, u32* to, int first, int pitch) {
  constexpr int per = 4 / sizeof(WORD), chunks = repack_columns / per / 32;
  const int lane = threadIdx.x % 32;
  first = first / per + lane;
  u32 v[chunks + 1];
  #pragma unroll
  for (int c = 0; c < chunks; ++c) v[c] = from.word(first + 32 * c);
  v[chunks] = lane ? 0 : from.word(first + 32 * chunks);
  #pragma unroll
  for (int c = 0; c < chunks; ++c) {
    const int w = first + 32 * c;
    const u32 left = __shfl_sync(~0u, v[c + 1], 0), next = __shfl_down_sync(~0u, v[c], 1);
    if (w * per < pitch) to[w] = __funnelshift_r(v[c], lane == 31 ? left : next, 8 * from.shift);
  }
}

// Rows that are shorter than what a warp copies: a block's, 16 bytes a thread.
DEVICE void repack_short_rows(const Unpacked& p, i64 from, WORD* to, int block) {
  struct alignas(16) Four { u32 word[4]; };
  constexpr int per = 16 / sizeof(WORD), together = repack_chunks / 256;
  const u32 along = u32(p.pitch) / per, rows = repack_chunks / along, all = min(rows, u32(p.rows) - block * rows) * along;
  from += i64(sizeof(WORD)) * block * rows * p.row_stride, to += i64(block) * rows * p.pitch;
  u32 v[together][5];
  int shift[together];
  #pragma unroll
  for (int i = 0; i < together; ++i) {
    const u32 at = threadIdx.x + 256 * i, row = at / along, x = (at - row * along) * per;
    const Words words(from + i64(sizeof(WORD)) * (row * p.row_stride + x), at < all ? max(0, min(per, p.columns - int(x))) : 0);
    shift[i] = 8 * words.shift;
    #pragma unroll
    for (int w = 0; w < 5; ++w) v[i][w] = words.word(w);
  }
  #pragma unroll
  for (int i = 0; i < together; ++i) {
    Four four;
    #pragma unroll
    for (int w = 0; w < 4; ++w) four.word[w] = __funnelshift_r(v[i][w], v[i][w + 1], shift[i]);
    if (const u32 at = threadIdx.x + 256 * i; at < all) ((Four*)to)[at] = four;
  }
}

// A tile of 128 bytes of a column by 128 bytes of a row, through shared memory. All that a thread loads is on its way before any of
// it is stored: a block has 4 to 16 kB.
constexpr int SIDE = 128 / sizeof(WORD), PER_WORD = 4 / sizeof(WORD), PER_QUAD = 16 / sizeof(WORD);
struct alignas(16) Elements { WORD element[PER_QUAD]; };
typedef WORD Transposed[SIDE][SIDE + PER_WORD];
// Columns lie side by side along rows.
DEVICE void load_columns(const Unpacked& p, i64 from, int x0, int y0, Transposed& tile) {
  constexpr int columns = SIDE / 8;  // a warp's
  const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * columns;
  u32 v[columns], behind[columns];
  #pragma unroll
  for (int q = 0; q < columns; ++q) {
    const int x = x0 + first + q;
    const Words words(from + i64(sizeof(WORD)) * (x * p.column_stride + y0), x < p.columns ? p.rows - y0 : 0);
    v[q] = words.word(lane);
    behind[q] = lane == 31 && words.shift ? words.word(32) : 0;
  }
  #pragma unroll
  for (int q = 0; q < columns; ++q) {
    const int shift = int(from + i64(sizeof(WORD)) * ((x0 + first + q) * p.column_stride + y0)) & 3;
    const u32 next = __shfl_down_sync(~0u, v[q], 1);
    ((u32*)tile[first + q])[lane] = __funnelshift_r(v[q], lane == 31 ? behind[q] : next, 8 * shift);
  }
}
// Anything else, one element at a time.
DEVICE void load_elements(const Unpacked& p, i64 from, int x0, int y0, Transposed& tile) {
  constexpr int elements = SIDE * SIDE / 256, together = elements < 8 ? elements : 8;  // of a thread; on their way
  #pragma unroll 1
  for (int first = 0; first < elements; first += together) {
    i64 place[together];
    const int at = threadIdx.x + 256 * first, r = at % SIDE;
    #pragma unroll
    for (int i = 0; i < together; ++i) place[i] = element_place(p, x0 + (at + 256 * i) / SIDE, y0 + r);
    #pragma unroll
    for (int i = 0; i < together; ++i) tile[(at + 256 * i) / SIDE][r] = place[i] == NOWHERE ? WORD(0) : ((const WORD*)from)[place[i]];
  }
}
// Whether each 16 bytes lie side by side, and are one element here: of a row, as filters along K mostly do, or of a column, as those of
// groups do for the gradient by the data.
DEVICE bool in_quads(const Unpacked& p, i64 from, bool of_rows) {
  const Counting& k = p.count;
  const bool counted = k.size[3];
  i64 sizes = p.group_stride | (of_rows ? p.row_stride | p.columns | p.group_columns | k.size[3] : p.rows | p.group_rows);
  #pragma unroll
  for (int i = 0; i < 3 && counted; ++i) sizes |= k.stride[i];
  const i64 step = counted ? k.stride[3] : p.column_stride;
  const bool beside = of_rows ? step == 1 && (!counted || (k.begin[3] == 0 && k.valid[3] == k.size[3])) : p.row_stride == 1 && step % PER_QUAD == 0;
  return beside && sizes % PER_QUAD == 0 && from % 16 == 0;
}
// A thread's quads of a tile, all on their way at once.
constexpr int QUADS = SIDE * 8 / 256;
template <bool of_rows> DEVICE void load_quads(const Unpacked& p, i64 from, int x0, int y0, Elements (&e)[QUADS]) {
  #pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const int line = threadIdx.x / 8 + 32 * i, quad = threadIdx.x % 8 * PER_QUAD;
    const i64 place = of_rows ? element_place(p, x0 + quad, y0 + line) : element_place(p, x0 + line, y0 + quad);
    e[i] = place == NOWHERE ? Elements{} : *(const Elements*)(from + place * i64(sizeof(WORD)));
  }
}
DEVICE void copy_quads(const Unpacked& p, i64 from, WORD* to, int x0, int y0) {
  Elements e[QUADS];
  load_quads<true>(p, from, x0, y0, e);
  #pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const int y = y0 + threadIdx.x / 8 + 32 * i;
    if (y < p.rows) *(Elements*)(to + i64(y) * p.pitch + x0 + threadIdx.x % 8 * PER_QUAD) = e[i];
  }
}
DEVICE void turn_quads(const Unpacked& p, i64 from, int x0, int y0, Transposed& tile) {
  Elements e[QUADS];
  load_quads<false>(p, from, x0, y0, e);
  #pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    #pragma unroll
    for (int w = 0; w < 4; ++w) ((u32*)tile[threadIdx.x / 8 + 32 * i])[threadIdx.x % 8 * 4 + w] = ((const u32*)e[i].element)[w];
  }
}
// Quads that are of one tap each, an element at a time, all of a thread's on their way at once: of rows or of columns that lie side
// by side in memory, which neighbouring threads read (decision 0282).
DEVICE void gather_quads(const Unpacked& p, i64 from, WORD* to, int x0, int y0) {
  const Counting& k = p.count;
  const bool of_rows = k.stride[3] == 1;
  #pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const int at = threadIdx.x + 256 * i, y = y0 + (of_rows ? at / 8 : at % SIDE), x = x0 + (of_rows ? at % 8 : at / SIDE) * PER_QUAD;
    int outer = x / k.size[3];
    const int inner = x - outer * k.size[3];
    bool exists = x < p.columns && y < p.rows;
    i64 place = y * p.row_stride + inner * k.stride[3];
    #pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
      const int all = outer, size = k.size[axis];
      outer = size == 1 ? all : all / size;
      const int one = all - outer * size;
      exists &= one >= k.begin[axis] && one < k.valid[axis], place += one * k.stride[axis];
    }
    Elements e;
    #pragma unroll
    for (int n = 0; n < PER_QUAD; ++n) {
      const int one = inner + n;
      e.element[n] = exists && one >= k.begin[3] && one < k.valid[3] ? ((const WORD*)from)[place + n * k.stride[3]] : WORD(0);
    }
    if (y < p.rows) *(Elements*)(to + i64(y) * p.pitch + x) = e;
  }
}
DEVICE void repack_tile(const Unpacked& p, i64 from, WORD* to, int x0, int y0) {
  if (in_quads(p, from, true)) return copy_quads(p, from, to, x0, y0);
  if (COUNTED && p.count.size[3] && p.count.size[3] % PER_QUAD == 0 && !p.group_columns && !in_quads(p, from, false))
    return gather_quads(p, from, to, x0, y0);
  alignas(4) __shared__ Transposed tile;
  if (p.row_stride == 1 && !p.count.size[3] && !p.group_columns) load_columns(p, from, x0, y0, tile);
  else if (COUNTED && in_quads(p, from, false)) turn_quads(p, from, x0, y0, tile);
  else load_elements(p, from, x0, y0, tile);
  __syncthreads();
  for (int at = threadIdx.x; at < SIDE * 8; at += 256) {
    const int r = at / 8, q = at % 8 * PER_QUAD;
    Elements e;
    #pragma unroll
    for (int i = 0; i < PER_QUAD; ++i) e.element[i] = tile[q + i][r];
    if (y0 + r < p.rows) *(Elements*)(to + i64(y0 + r) * p.pitch + x0 + q) = e;
  }
}

extern "C" __global__ void __launch_bounds__(256) postlude_repack(const __grid_constant__ Repack all) {
  follow_previous_launch();
  // Backwards: what is copied last is in L2 when the product begins with what is first.
  int block = int(gridDim.x - 1 - blockIdx.x), which = 0;
  while (which + 1 < repack_at_once && block >= all.matrix[which].blocks) block -= all.matrix[which++].blocks;
  const Unpacked& p = all.matrix[which];
  const RepackGrid grid = repack_grid(p, sizeof(WORD));
  const int x = block % grid.along, y = (block /= grid.along) % grid.across, batch = block / grid.across;
  const i64 from = p.from + i64(sizeof(WORD)) * batch * p.batch_stride;
  WORD* const to = (WORD*)p.to + (i64)batch * p.rows * p.pitch;
  if (short_rows(p, sizeof(WORD))) return repack_short_rows(p, from, to, y);
  if (!by_rows(p)) return repack_tile(p, from, to, x * SIDE, y * SIDE);
  const int row = y * 8 + threadIdx.x / 32;
  if (row < p.rows)
    repack_row(Words(from + i64(sizeof(WORD)) * row * p.row_stride, p.columns), (u32*)(to + (i64)row * p.pitch), x * repack_columns, p.pitch);
}
)cuda"
