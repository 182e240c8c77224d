R"cuda(
// What the epilogue of a matrix product stands on, whichever instructions multiply: its parameters, where a tile is, and how
// fragments lie in shared memory. A consumer is 128 threads; warp w holds rows 16 w to 16 w + 15 of each block of 64.
struct alignas(64) TensorMap { u64 word[16]; };

#ifndef POSTLUDE_HOST
DEVICE void named_sync(u32 id, u32 threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
// Hides where a number came from: else what follows from it for one m64 atom is kept in registers for the next, and spills.
DEVICE int opaque(int x) { asm volatile("" : "+r"(x)); return x; }
// The assembler moves nothing across an exit, not even one that no thread takes.
DEVICE void move_nothing_across(const bool never) { if (never) asm volatile("exit;" ::: "memory"); }
DEVICE u32 clock_now() { u32 r; asm volatile("mov.u32 %0, %clock;" : "=r"(r) :: "memory"); return r; }
DEVICE void doze() { asm volatile("nanosleep.u32 40;" ::: "memory"); }
#if __CUDA_ARCH__ >= 900
DEVICE void stmatrix_transposed(u32 to, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
DEVICE void stmatrix(u32 to, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
#endif
DEVICE void ldmatrix_transposed(u32 from, u32& a, u32& b, u32& c, u32& d) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory");
}
DEVICE void ldmatrix(u32 from, u32& a, u32& b, u32& c, u32& d) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory");
}
DEVICE void shared_store(u32 to, u32 a, u32 b) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}
DEVICE void shared_store(u32 to, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
DEVICE void shared_store(u32 to, u32 a) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(a) : "memory"); }
DEVICE void shared_store(u32 to, u16 a) { asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(a) : "memory"); }
DEVICE void shared_load(u32 from, u32& a, u32& b) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(from) : "memory");
}
DEVICE void shared_load(u32 from, u32& a, u32& b, u32& c, u32& d) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory");
}
DEVICE u32 shared_load_word(u32 from) { u32 r; asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r) : "r"(from) : "memory"); return r; }
DEVICE u32 shared_load_byte(u32 from) { u32 r; asm volatile("ld.shared.u8 %0, [%1];" : "=r"(r) : "r"(from) : "memory"); return r; }
DEVICE void shared_store_byte(u32 to, u32 a) { asm volatile("st.shared.u8 [%0], %1;" ::"r"(to), "r"(a) : "memory"); }
DEVICE u16 shared_load(u32 from) { u16 r; asm volatile("ld.shared.u16 %0, [%1];" : "=h"(r) : "r"(from) : "memory"); return r; }
#endif

// Byte offset of (row, byte) in a box of `row_bytes` per row under the copy engine's swizzle of that width.
template <int row_bytes> DEVICE u32 swizzled(u32 row, u32 byte) {
  const u32 offset = row * row_bytes + byte;
  return offset ^ ((offset >> 3) & (row_bytes == 128 ? 0x70 : row_bytes == 64 ? 0x30 : row_bytes == 32 ? 0x10 : 0));
}
template <int size> DEVICE u32 element_bits(i64 from) { return size == 4 ? *(const u32*)from : size == 2 ? *(const u16*)from : *(const u8*)from; }
template <int size> DEVICE void element_store(u8* to, u32 bits) {
  if (size == 4) *(u32*)to = bits;
  else if (size == 2) *(u16*)to = u16(bits);
  else *to = u8(bits);
}

// Filled by the host: GemmSizes and what the host knows of partial results stand before this (device/agreed.inc).
struct Maps { TensorMap map[MAPS]; };  // A, B, the tile operands, the outputs
#if SCATTERED
struct Params : Maps, GemmSizes { i64 word[WORDS]; Rows rows; ScatterRows scatter; };
static_assert(sizeof(Params) == params_bytes(MAPS, WORDS + (sizeof(Rows) + sizeof(ScatterRows)) / 8), "maps, sizes, words, rows");
#elif A_FORM || B_FORM
struct Params : Maps, GemmSizes { i64 word[WORDS]; Rows rows; };  // the epilogue's pointers and strides; where A's rows are
static_assert(sizeof(Params) == params_bytes(MAPS, WORDS + sizeof(Rows) / 8), "maps, sizes, words, rows");
#else
struct Params : Maps, GemmSizes { i64 word[WORDS]; };
static_assert(sizeof(Params) == params_bytes(MAPS, WORDS), "maps, sizes, words");
#endif

// All that an epilogue knows of the problem: the rows of a batch that exist, its columns, and how many there are of what
// it folds.
DEVICE int tile_rows(const Params& p, int) { return p.m; }
#if SCATTERED
DEVICE int memory_row(const Params& p, int, int row) { return memory_row(p.scatter, row); }
#else
DEVICE int memory_row(const Params&, int, int row) { return row; }  // where a row of a batch lies
#endif
#if STENCIL
// Behind the last row of the tile that `row` is of: `rows` is behind the image's last.
DEVICE int tile_end(int row, int rows) {
  constexpr int whole = TILE_Y * PIXELS_X, pixels = TILE_Y * TILE_X;
  return min(rows, row / whole * whole + min(whole, (row % whole / pixels + 1) * pixels));
}
#else
DEVICE int tile_end(int, int rows) { return rows; }
#endif
DEVICE int tile_columns(const Params& p) { return p.n; }
DEVICE int most_rows(const Params& p) { return p.m; }
DEVICE int batches(const Params& p) { return p.batch; }
DEVICE int tiles_beside(const Params& p) { return p.tiles_n; }
DEVICE bool is_one_wave(const Params& p) { return p.tiles * CLUSTER_M * CLUSTER_N <= int(gridDim.x); }
DEVICE bool never(const Params& p) { return p.tiles < 0; }

// A tile: which blocks of rows and columns, of which batch.
struct Work { int m, n, batch; };

// Grouped raster: p.raster tile rows at a time, down the group first, so that A and B tiles are still in L2 when met again.
DEVICE Work work_of(const Params& p, int t, int tiles_m, int tiles_n) {
  int batch = 0, first = 0;
  if (batches(p) > 1) {
    const int per_batch = tiles_m * tiles_n;
    batch = t / per_batch, t -= batch * per_batch;
  }
  if (tiles_m > p.raster) {
    const int group = quotient(t, p.group);
    first = group * p.raster, t -= first * tiles_n;
  }
  const int rows = min(p.raster, tiles_m - first), n = quotient(t, rows == p.raster ? p.down : p.last_down);
  return {first + t - n * rows, n, batch};
}

// Where a consumer's epilogue is.
struct Tile {
  int batch, tile_m, tile_n;
  int row, col;         // of the consumer's first element
  int slot_m;           // which block of rows of its height
  int wg, warp, lane, thread;
  u32 barrier;          // of the warpgroup's 128 threads
  u32 scratch;          // shared, SCRATCH_BYTES
  int turn;             // 0 or 1: which of two memories a tile's reductions begin with (decision 0040)
  u32 met, meeting, met_turn;  // what it hears of its cluster's tiles, its barriers, and whose turn it is (MEETS)
  u32 tag;              // of what tiles leave for others in this launch (TAGS)
  bool second;          // it is multiplied for what follows its rows' statistics, which are told (AGAIN)
  u32 due, pace;        // the clock before which its next fragment does not begin, and what each adds to it (PACED)
};

// An epilogue that hides under the other consumer's main loop is spread over three quarters of it.
DEVICE void keep_pace(Tile& tile) {
  tile.due += tile.pace;
  while (int(clock_now() - tile.due) < 0) doze();
}

// The column of `columns` that a label of 64 bits names, or -1: none.
DEVICE int as_column(i64 label, int columns) { return u64(label) < u64(columns) ? int(label) : -1; }

constexpr int MI = WG_ROWS / 64;              // a consumer owns WG_ROWS x WG_COLUMNS of a tile: so many m64 atoms
constexpr int ROWS = 2 * MI;                  // rows of the output that one thread holds
constexpr int OUT_N = WG_COLUMNS / PARTS;     // the epilogue's columns of a consumer
constexpr int TILE_N = BN * BELOW / PARTS;    // and of a tile
constexpr int GROUPS = OUT_N / SUB_N;         // subtiles are 64 rows x SUB_N columns
constexpr int SUBTILES = GROUPS * MI;
constexpr int SPAN = GROUP_N ? GROUP_N / SUB_N : GROUPS;  // of these, until Epilogue has the statistics of a row
// Groups of rows. Both consumers of a cooperative tile may have half a group each, and then they meet; else each has whole ones, of
// so many blocks of 64 rows, or of so many warps of one.
constexpr bool GROUP_MEETS = ROW_GROUP > WG_ROWS;
constexpr int GROUP_BLOCKS = ROW_GROUP > 64 && !GROUP_MEETS ? ROW_GROUP / 64 : 1, GROUP_WARPS = ROW_GROUP && ROW_GROUP < 64 ? ROW_GROUP / 16 : 4;
DEVICE bool begins_group(int i) { return i % GROUP_BLOCKS == 0; }
DEVICE bool ends_group(int i) { return (i + 1) % GROUP_BLOCKS == 0; }
DEVICE bool leaves_groups(const Tile& t) { return !GROUP_MEETS || t.wg == 0; }
DEVICE void group_sync(const Tile& t) { named_sync(GROUP_MEETS ? 3 : t.barrier, GROUP_MEETS ? 256 : 128); }
DEVICE u32 group_scratch(const Tile& t) { return t.scratch - (GROUP_MEETS ? t.wg * SCRATCH_BYTES : 0); }  // that of its first consumer
// So many blocks of 64 rows are worked through side by side, and so many subtiles go through Epilogue before they go through Held: one, where
// nothing is waited for.
constexpr int TOGETHER = ROWS_FIRST ? GROUP_BLOCKS : MI, BLOCK = AGAIN && !ROLLED ? 1 : SPAN * (HOLDS ? MI : TOGETHER);
DEVICE int slots_in(const Params& p) { return p.tiles_m * (BM / WG_ROWS); }  // blocks of a consumer's rows, of a batch

// Subtile number s of a consumer's tile. One that is held is worked through 64 rows at a time, unless columns are reduced too: fewer values
// wait, and what other tiles must be told of the first rows is on its way while it computes that of the others (decision 0013).
struct Subtile { int group, i; };
DEVICE Subtile subtile(int s) { return {s % (GROUPS * TOGETHER) / TOGETHER, s / (GROUPS * TOGETHER) * TOGETHER + s % TOGETHER}; }
// What a subtile needs of its columns has come; what the next ones need is on its way.
template <class E> DEVICE void advance_columns(const Params& p, const Tile& tile, E& epilogue, const Subtile s) {
  if (s.i % TOGETHER) return;
  epilogue.advance();
  const bool last = s.group + 1 == GROUPS;
  if (!last || s.i + TOGETHER < MI) epilogue.columns(p, tile, last ? 0 : s.group + 1);
}
// The half of its scratch that a consumer folds a group's columns in: the other one than before, also where groups are odd.
DEVICE int folding_half(const Tile& t, int group) { return (group + GROUPS % 2 * t.turn) % 2; }
// Which of them the n-th load of tile operands is for, and whether Held asks for it.
struct OperandLoad { Subtile at; bool held; };
DEVICE OperandLoad operand_load(int n) {
  constexpr int both = BLOCK * (LOADS + HELD_LOADS + !(LOADS || HELD_LOADS));
  return {subtile(n / both * BLOCK + n % both % BLOCK), n % both >= BLOCK * LOADS};
}

#if DIRECT
// A thread has one pair of columns, of all its pixels.
constexpr int COLUMN_PAIRS = 1;
DEVICE int first_column(const Tile& t, int) { return t.col + 2 * t.lane; }
#else
constexpr int COLUMN_PAIRS = SUB_N / 8;  // of a thread in a subtile, two of each 16 columns
DEVICE int first_column(const Tile& t, int from) { return t.col + from + 2 * (t.lane % 4); }
#endif
// How many columns a thread has of so many groups, from one on.
template <int groups> DEVICE float own_columns(const Params& p, const Tile& t, int group) {
  constexpr int blocks = groups * COLUMN_PAIRS;  // of eight columns
  const int left = tile_columns(p) - first_column(t, group * SUB_N), whole = max(left / 8, 0);
  return float(WHOLE_N || whole >= blocks ? 2 * blocks : 2 * whole + max(min(left - 8 * whole, 2), 0));
}
// Whether so few accumulators leave registers for a subtile's elements, and no loop over fragments indexes these.
constexpr bool FEW = WG_ROWS * WG_COLUMNS <= 128 * 128 && ROLLED != 2;
// What a subtile has in columns that do not exist is -inf.
DEVICE void hide_columns(float (&x)[2][SUB_N / 4], const Tile& t, int group, int columns) {
  if (WHOLE_N || t.col + (group + 1) * SUB_N <= columns) return;
  const int first = first_column(t, group * SUB_N);
  #pragma unroll
  for (int c = 0; c < SUB_N / 4; ++c)
    if (first + c / 4 * 16 + c % 4 / 2 * 8 + c % 2 >= columns) x[0][c] = x[1][c] = -INF;
}
DEVICE int tile_row(const Tile& t, int r) { return t.row + r / 2 * 64 + t.warp * 16 + t.lane / 4 + r % 2 * 8; }

template <int words, int all> DEVICE void shared_words(u32 from, u32 (&x)[all]) {
  #pragma unroll
  for (int w = 0; w + 1 < words && words % 2 == 0; w += 2) shared_load(from + 4 * w, x[w], x[w + 1]);
  #pragma unroll
  for (int w = 0; w < words && words % 2; ++w) x[w] = shared_load_word(from + 4 * w);
}
template <typename T> DEVICE T* shared_pointer(u32 address) { return (T*)__cvta_shared_to_generic(address); }

// The accumulator column where column j of a chunk's first piece begins, and how far behind it the next piece is, in groups of
// PARTS * PIECE columns or (PIECE == 0) of all PARTS * columns.
DEVICE int first_piece(int j) { return PIECE ? j / (PIECE + !PIECE) * PARTS * PIECE + j % (PIECE + !PIECE) : j; }
DEVICE int next_piece(int columns) { return PIECE ? PIECE : columns; }

// Byte offset of an element in a subtile of 64 x SUB_N elements of `size` bytes, as the copy engine lays it out: boxes of
// at most 128 bytes a row, side by side.
template <int size> DEVICE u32 subtile_offset(u32 row, u32 column) {
  constexpr int row_bytes = SUB_N * size < 128 ? SUB_N * size : 128;
  const u32 byte = column * size;
  return byte / row_bytes * (64 * row_bytes) + swizzled<row_bytes>(row, byte % row_bytes);
}

// The 16 rows of a staged subtile that this warp wrote itself, to rows of memory at any multiple of the element's size: whole
// words wherever they lie on a word's boundary there, put together from two words here. `place`: of a row of the subtile, which are
// `pitch` apart (of a residue anywhere); `columns`, `rows`: how many exist. Of a residue last columns go by words, too: of plain rows
// all took longer then (decision 0283).
template <int size, class Place> DEVICE void subtile_copy(u32 from, Place place, i64 pitch, i64 rows, i64 columns, const Tile& t) {
  constexpr int row_bytes = SUB_N * size < 128 ? SUB_N * size : 128;
  constexpr int words = SUB_N * size / 4, lanes = words < 32 ? words : 32, together = 32 / lanes;
  const int lane = t.lane % lanes, first_row = t.warp * 16 + t.lane / lanes;
  if (SCATTERED && columns <= 0) return;
  from += t.warp * 16 * row_bytes;
#if SCATTERED
  const i64 own = place(t.warp * 16 + t.lane % 16);
  const auto row_at = [&](int r) { return (u8*)__shfl_sync(~0u, own, r + t.lane / lanes); };
#else
  u8* next = (u8*)(place(0) + first_row * pitch);
  const auto row_at = [&](int) { u8* const to = next; next += together * pitch; return to; };
#endif
  // Of 16 bits, a row that begins between words: the words of memory from two bytes before it on.
  const auto between = [&](u32 x, u8* to) { return __funnelshift_l(__shfl_up_sync(~0u, x, 1, lanes), x, u32(i64(to)) << 3); };
  const bool edge = size == 2 && (lane == 0 || lane == lanes - 1);
  const int valid = int(columns < SUB_N ? columns : SUB_N) * size;
  if (size > 1 && rows >= 64 && columns >= SUB_N) {
    #pragma unroll
    for (int r = 0; r < 16; r += together) {
      u8* const to = row_at(r);
      #pragma unroll
      for (int w = 0; w < words; w += lanes) {
        const u32 x = shared_load_word(from + subtile_offset<size>(r + t.lane / lanes, (lane + w) * 4 / size));
        if (size == 4) {
          ((u32*)to)[lane + w] = x;
        } else {
          const u32 y = between(x, to);
          const bool odd = i64(to) & 2;
          if (lane || !odd) *(u32*)(i64(to + 4 * lane) & ~3ll) = y;
          if (edge && odd) *(u16*)(to + (lane ? SUB_N * size - 2 : 0)) = u16(lane ? x >> 16 : x);
        }
      }
    }
  } else if (SCATTERED && size == 2) {
    #pragma unroll 4
    for (int r = 0; r < 16; r += together) {
      u8* const to = row_at(r);
      const u32 x = shared_load_word(from + subtile_offset<size>(r + t.lane / lanes, lane * 2)), y = between(x, to);
      const int odd = i64(to) & 2, at = 4 * lane - odd;
      if (first_row + r >= rows) continue;
      if (at >= 0 && at + 4 <= valid) *(u32*)(to + at) = y;
      else if (at >= 0 && at + 2 <= valid) *(u16*)(to + at) = u16(y);
      if (edge && odd && (lane == 0 || valid == SUB_N * size)) *(u16*)(to + (lane ? SUB_N * size - 2 : 0)) = u16(lane ? x >> 16 : x);
    }
  } else {
    #pragma unroll 1
    for (int r = 0; r < 16; r += together) {
      u8* const to = row_at(r);
      #pragma unroll
      for (int w = lane; w < words; w += lanes) {
        const u32 x = shared_load_word(from + subtile_offset<size>(r + t.lane / lanes, w * 4 / size));
        #pragma unroll
        for (int b = 0; b < 4; b += size)
          if (4 * w + b < valid && first_row + r < rows) element_store<size>(to + 4 * w + b, x >> 8 * b);
      }
    }
  }
  __syncwarp();
}

// Element e (0..7) of a fragment.
template <int size> DEVICE u32 fragment_element(const u32 (&x)[size * 2], int e) {
  if (size == 4) return x[e % (size * 2)];
  if (size == 2) return x[e / 2 % (size * 2)] >> (e % 2 * 16) & 0xffff;
  return x[e / 4 % (size * 2)] >> (e % 4 * 8) & 0xff;
}
// A 16 x 16 fragment of a staged subtile, packed: pairs of columns, [2 * (8-column block) + (row + 8)].
// 16-bit elements move as matrices, others as pairs.
#if DIRECT  // from and to memory (stencil_direct.cu)
template <int size> DEVICE void fragment_load(const TensorMap& map, u32, const Tile& t, int f, u32 (&x)[size * 2]);
template <int size> DEVICE void fragment_store(const TensorMap& map, u32, const Tile& t, int f, const u32 (&x)[size * 2]);
#elif TURNED
// A line has the rows of a column: of an operand 64, or (of 32 bits) 32 in each of two boxes, of an output those of a warp, which
// leave alone. 16-bit elements move as matrices, others one by one, of two columns in turn where one's lines have half of the banks.
constexpr int LINE_ROWS = 16;
DEVICE int fragment_line(const Tile& t, int f, int i, int e) { return f * 16 + i / 2 * 8 + 2 * (t.lane % 4) + e; }
template <int size> DEVICE u32 turned_operand(const Tile& t, int line, int i) {
  constexpr int rows = size == 4 ? 32 : 64;
  const int row = t.warp * 16 + i % 2 * 8 + t.lane / 4;
  return row / rows * (SUB_N * 128) + swizzled<rows * size>(line, row % rows * size);
}
template <int size> DEVICE void fragment_load(const TensorMap&, u32 subtile, const Tile& t, int f, u32 (&x)[size * 2]) {
  if (size == 2) {
    const int matrix = t.lane / 8;
    ldmatrix_transposed(subtile + swizzled<128>(f * 16 + matrix / 2 * 8 + t.lane % 8, t.warp * 32 + matrix % 2 * 16), x[0], x[1], x[2], x[3]);
  } else {
    #pragma unroll
    for (int i = 0; i < 4; ++i)
      #pragma unroll
      for (int e = 0; e < 2; ++e) {
        const u32 from = subtile + turned_operand<size>(t, fragment_line(t, f, i, e), i);
        if (size == 4) x[(2 * i + e) % (size * 2)] = shared_load_word(from);
        else if (i % 2 == 0 && e == 0) x[i / 2 % (size * 2)] = shared_load_byte(from);
        else x[i / 2 % (size * 2)] |= shared_load_byte(from) << (i % 2 * 16 + e * 8);
      }
  }
}
template <int size> DEVICE void fragment_store(const TensorMap&, u32 subtile, const Tile& t, int f, const u32 (&x)[size * 2]) {
  const u32 own = subtile + t.warp * SUB_N * LINE_ROWS * size;
  if (size == 2) {
    const int matrix = t.lane / 8;
    stmatrix_transposed(own + swizzled<32>(f * 16 + matrix / 2 * 8 + t.lane % 8, matrix % 2 * 16), x[0], x[1], x[2], x[3]);
  } else {
    const bool odd = t.lane & 1;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 both[2] = {fragment_element<size>(x, 2 * i), fragment_element<size>(x, 2 * i + 1)};
      #pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int line = fragment_line(t, f, i, size == 4 && odd ? 1 - e : e);
        const u32 to = own + swizzled<LINE_ROWS * size>(line, (i % 2 * 8 + t.lane / 4) * size);
        if (size == 4) shared_store(to, odd ? both[1 - e] : both[e]);
        else shared_store_byte(to, both[e]);
      }
    }
  }
}
#else
template <int size> DEVICE void fragment_load(const TensorMap&, u32 subtile, const Tile& t, int f, u32 (&x)[size * 2]) {
  const int row = t.warp * 16 + t.lane / 4, column = f * 16 + 2 * (t.lane % 4);
  if (size == 2) {
    ldmatrix(subtile + subtile_offset<2>(t.warp * 16 + t.lane % 16, f * 16 + t.lane / 16 * 8), x[0], x[1], x[2], x[3]);
  } else {
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 from = subtile + subtile_offset<size>(row + 8 * (i % 2), column + 8 * (i / 2));
      if (size == 4) shared_load(from, x[2 * i % (size * 2)], x[(2 * i + 1) % (size * 2)]);
      else if (i % 2 == 0) x[i / 2 % (size * 2)] = shared_load(from);
      else x[i / 2 % (size * 2)] |= u32(shared_load(from)) << 16;
    }
  }
}
template <int size> DEVICE void fragment_store(const TensorMap&, u32 subtile, const Tile& t, int f, const u32 (&x)[size * 2]) {
  const int row = t.warp * 16 + t.lane / 4, column = f * 16 + 2 * (t.lane % 4);
  if (size == 2) {
#if __CUDA_ARCH__ >= 900
    stmatrix(subtile + subtile_offset<2>(t.warp * 16 + t.lane % 16, f * 16 + t.lane / 16 * 8), x[0], x[1], x[2], x[3]);
#else
    #pragma unroll
    for (int i = 0; i < 4; ++i) shared_store(subtile + subtile_offset<2>(row + 8 * (i % 2), column + 8 * (i / 2)), x[i]);
#endif
  } else {
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 to = subtile + subtile_offset<size>(row + 8 * (i % 2), column + 8 * (i / 2));
      if (size == 4) shared_store(to, x[2 * i % (size * 2)], x[(2 * i + 1) % (size * 2)]);
      else shared_store(to, u16(x[i / 2 % (size * 2)] >> (i % 2 * 16)));
    }
  }
}
#endif

// The emitted epilogue on a subtile of a consumer's accumulators, 16 columns at a time: `acc` is that of 64 rows, number `i`.
// What it keeps of an element goes to where its accumulators were, in another array: where nothing asks for the products
// themselves, ptxas 13.0 takes other registers for what was written over them.
// ROLLED: the code of a long epilogue stands once (2), in loops, or (1) once for each fragment of a subtile and each 64 rows. An
// array that a loop indexes is no set of registers, so the arrays move on instead: what is in question is the first of a piece's,
// and what is kept goes behind the last.
#if ROLLED == 2
#define UNROLL_SUBTILES _Pragma("unroll 1")
#else
#define UNROLL_SUBTILES _Pragma("unroll")
#endif
struct Held;
template <class E> struct IsHeld { static constexpr bool value = false; };
template <> struct IsHeld<Held> { static constexpr bool value = true; };
constexpr int AT_ONCE = ROLLED == 1 ? GROUPS_AT_ONCE * (SUB_N / 16) : 1;  // fragments
template <int first, bool keeps, int N> DEVICE void move_on(ACC (&x)[N]) {
  constexpr int pieces = PIECES_APART ? PARTS : 1, fragment = 8 * PARTS / pieces, by = AT_ONCE * fragment, from = first * fragment;
  #pragma unroll
  for (int piece = 0; piece < N; piece += N / pieces) {
    ACC gone[by];
    #pragma unroll
    for (int j = 0; j < by; ++j) gone[j] = x[piece + from + j];
    #pragma unroll
    for (int j = from; j + by < N / pieces; ++j) x[piece + j] = x[piece + j + by];
    #pragma unroll
    for (int j = 0; j < by; ++j)
      if (keeps) x[piece + N / pieces - by + j] = gone[j];
  }
}
template <int N> DEVICE void exchange(ACC (&x)[N], ACC (&y)[N]) {
  #pragma unroll
  for (int j = 0; j < N; ++j) { const ACC z = x[j]; x[j] = y[j], y[j] = z; }
}
// The first fragment that an epilogue finds in the arrays: of a group's columns that are kept, the last.
template <class E> constexpr int first_kept = IsHeld<E>::value ? (GROUPS - SPAN) * (SUB_N / 16) : 0;
template <class E>
DEVICE void subtile_fragments(const Params& p, Tile& tile, E& epilogue, ACC (&acc)[WG_COLUMNS / 2], ACC (&kept)[WG_COLUMNS / 2], int group, int i, int ahead, u32 d) {
  const auto at = [](int fragment, int x, int e) {
    const int block = fragment * 2 + e / 4;  // of eight columns
    return 4 * (PIECES_APART ? block + x * (OUT_N / 8) : block * PARTS + x) + e % 4;
  };
  constexpr int first = first_kept<E>;
  UNROLL_SUBTILES
  for (int f = 0; f < SUB_N / 16; ++f) {
    const int here = ROLLED ? first + (ROLLED == 1 ? ahead + f : 0) : group * (SUB_N / 16) + f;
    ACC part[PARTS][8];
    #pragma unroll
    for (int x = 0; x < PARTS; ++x)
      #pragma unroll
      for (int e = 0; e < 8; ++e) part[x][e] = acc[at(here, x, e)];
    epilogue.fragment(p, tile, group, i, f, part, d);
    #pragma unroll
    for (int x = 0; x < E::keeps; ++x)
      #pragma unroll
      for (int e = 0; e < 8; ++e) kept[at(here, x, e)] = part[x][e];
    if (ROLLED == 2) move_on<first, (E::keeps > 0)>(acc);
#if APART
    move_nothing_across(never(p));
#endif
#if PACED
    keep_pace(tile);
#endif
  }
}
)cuda"
