R"cuda(
// Rows of A by a B whose rows begin between 16 bytes, read as it lies (decisions 0284, 0310). Rows of B that begin alike are SHIFTED
// apart, and a multiple of 16 bytes: those of each residue are a map of their own, which begins at the 16 bytes before its first element.
// What comes of a row for a k block is a window of 16 bytes more. Of one along K a lane shifts its part to where it wants it; of one
// along N it reads its columns' elements. Then it multiplies by mma.sync. Each of a consumer's warps has a quarter of a tile's columns
// and all of its rows; then each takes its 16 rows. Rows of A that begin between 16 bytes are read in the same way (SHIFTED_A), or beside a
// B that begins at 16 bytes, of any number of rows, are put where wgmma reads them (LINES_A, decision 0324). APART_A: either.
constexpr int WINDOW = BK * 2 + 16;
#if APART_A
constexpr int BOX_ROWS_A = A_ROWS / APART_A, BOX_BYTES_A = (BOX_ROWS_A * WINDOW + 127) / 128 * 128;
// A batch's first row, where those of all batches follow each other and begin anywhere (FLAT_A).
DEVICE int first_shifted(const Params& p, int batch) { return FLAT_A ? batch * int(p.map[EDGE_A].word[2]) : 0; }
// Where a row begins in 16 bytes.
DEVICE u32 byte_of_a(const Params& p, int batch, int row) {
  return u32(p.map[EDGE_A].word[0] + i64(first_shifted(p, batch) + row) * p.map[EDGE_A].word[1]) & 15;
}
#endif
#if LINES_A
// Rows of A that begin between 16 bytes: each consumer puts its own, a word a lane, where wgmma reads them. Each warp has every fourth
// line, so those of one or two residues.
struct Lines {
  u32 from[2], to[2], bits[2];
  METHOD void begin(const Params& p, int batch, int wg, int warp, int lane) {
    #pragma unroll
    for (int x = 0; x < 2; ++x) {
      const int row = wg * (BM - WG_ROWS) + 4 * x + warp;
      const u32 byte = byte_of_a(p, batch, row);
      from[x] = row % LINES_A * BOX_BYTES_A + row / LINES_A * WINDOW + (byte & ~3) + lane * 4;
      to[x] = row * 128 + (lane / 4 ^ row % 8) * 16 + lane % 4 * 4;
      bits[x] = byte % 4 * 8;
    }
  }
  METHOD void realign(u32 stage, u32 lines) const {
    constexpr int rows = A_ROWS < WG_ROWS ? A_ROWS : WG_ROWS, at_once = rows / 4 < 8 ? rows / 4 : 8;
    #pragma unroll
    for (int first = 0; first < rows / 4; first += at_once) {
      u32 w[at_once];
      #pragma unroll
      for (int x = 0; x < at_once; ++x) {
        const u32 at = stage + from[x % 2] + (first + x) / 2 * (8 / LINES_A) * WINDOW;
        w[x] = __funnelshift_r(shared_load_word(at), shared_load_word(at + 4), bits[x % 2]);
      }
      #pragma unroll
      for (int x = 0; x < at_once; ++x) shared_store(lines + to[x % 2] + (first + x) / 2 * 1024, w[x]);
    }
  }
};
#endif
#if SHIFTED
constexpr int LINES_B = B_MN_MAJOR ? BK : BN, WINDOW_B = (B_MN_MAJOR ? BN : BK) * 2 + 16, BOX_ROWS_B = LINES_B / SHIFTED;
constexpr int QUARTER = BN / 32, SIXTEENS = A_ROWS / 16;  // of eight columns; of rows
constexpr int EXCHANGE_BYTES = BN * (PINGPONG ? 64 : 128);
struct alignas(16) Sums { float of[4]; };
#if !PINGPONG
// Of more rows than one consumer has both put B's lines for wgmma where they would lie if they began at 16 bytes, a word a lane. Each
// warp has every eighth line, which begin alike.
struct Windows {
  u32 from, to, bits;
  METHOD void begin(const Params& p, int wg, int warp, int lane) {
    const int w = wg * 4 + warp;
    const u32 byte = u32(p.map[EDGE_B].word[0] + w % SHIFTED * p.map[EDGE_B].word[1]) & 15;
    from = (w % SHIFTED * BOX_ROWS_B + w / SHIFTED) * WINDOW_B + (byte & ~3) + lane * 4;
    to = w * 128 + (lane / 4 ^ w) * 16 + lane % 4 * 4;
    bits = byte % 4 * 8;
  }
  METHOD void realign(u32 stage, u32 lines) const {
    constexpr int parts = B_MN_MAJOR ? BN / 64 : 1, at_once = 8;  // of a line; lines
    #pragma unroll
    for (int part = 0; part < parts; ++part)
      #pragma unroll
      for (int first = 0; first < LINES_B / 8; first += at_once) {
        u32 w[at_once];
        #pragma unroll
        for (int x = 0; x < at_once; ++x) {
          const u32 at = stage + from + (first + x) * (8 / SHIFTED) * WINDOW_B + part * 128;
          w[x] = __funnelshift_r(shared_load_word(at), shared_load_word(at + 4), bits);
        }
        #pragma unroll
        for (int x = 0; x < at_once; ++x) shared_store(lines + to + (first + x) * 1024 + part * BK * 128, w[x]);
      }
  }
};
#else
// Where this lane's row begins in 16 bytes: words and bits.
struct Shift {
  bool two, one;
  u32 bits;
  METHOD void begin(u32 byte) {
    two = byte & 8, one = byte & 4, bits = byte % 4 * 8;
  }
  // Sixteen elements of the row: of each lane others, and of all rows the same.
  METHOD void load(u32 from, u32 (&to)[8]) const {
    u32 w[12];
    #pragma unroll
    for (int i = 0; i < 3; ++i) shared_load(from + i * 16, w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]);
    #pragma unroll
    for (int i = 0; i < 10; ++i) w[i] = two ? w[i + 2] : w[i];
    #pragma unroll
    for (int i = 0; i < 9; ++i) w[i] = one ? w[i + 1] : w[i];
    #pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = __funnelshift_r(w[i], w[i + 1], bits);
  }
};

struct Windows {
  u32 a_offset;  // of this lane's first 16 bytes, in a stage's A
  Shift a_shift;
#if B_MN_MAJOR
  u32 b_offset[SHIFTED];  // of its first element of each residue
#else
  u32 b_offset;
  Shift b_shift;
#endif
  METHOD void begin(const Params& p, int, int warp, int lane) {
    const int row = lane / 4, first = warp * QUARTER * 8 + row;
#if SHIFTED_A
    a_offset = row % SHIFTED_A * BOX_BYTES_A + row / SHIFTED_A * WINDOW + lane % 4 * 32;
    begin_a(p, 0, lane);
#else
    a_offset = row * 128 + (2 * (lane % 4) ^ row) * 16;
#endif
#if B_MN_MAJOR
    #pragma unroll
    for (int r = 0; r < SHIFTED; ++r)
      b_offset[r] = (r * BOX_ROWS_B + lane % 4 * 2) * WINDOW_B + first * 2 + (u32(p.map[EDGE_B].word[0] + r * p.map[EDGE_B].word[1]) & 15);
#else
    b_offset = (first % SHIFTED * BOX_ROWS_B + first / SHIFTED) * WINDOW_B + lane % 4 * 32;
    b_shift.begin(u32(p.map[EDGE_B].word[0] + row * p.map[EDGE_B].word[1]) & 15);
#endif
  }
#if SHIFTED_A
  METHOD void begin_a(const Params& p, int batch, int lane) { a_shift.begin(byte_of_a(p, batch, lane / 4)); }
#endif
#if B_MN_MAJOR
  // Of 64 of K a lane has 16 that lie side by side in A, of which two begin alike in B: these are multiplied together.
  DEVICE_STATIC void pair(u32 (&a)[8]) {
    u32 w[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) w[i] = a[i];
    #pragma unroll
    for (int i = 0; i < 8; ++i) a[i] = __byte_perm(w[i / 2], w[i / 2 + 4], i % 2 ? 0x7632 : 0x5410);
  }
#endif
  METHOD void load_b(u32 stage, int j, int k, u32 (&b)[8]) const {
#if B_MN_MAJOR
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
      const u32 from = stage + b_offset[r] + k * 8 * WINDOW_B + j * 16;
      b[r] = __byte_perm(shared_load(from), shared_load(from + WINDOW_B), 0x5410);
    }
#else
    b_shift.load(stage + b_offset + j * (8 / SHIFTED) * WINDOW_B + k * 128, b);
#endif
  }
  METHOD void load_a(u32 stage, int row, int k, u32 (&a)[8]) const {
#if SHIFTED_A
    a_shift.load(stage + a_offset + row / SHIFTED_A * WINDOW + k * 128, a);
#else
    #pragma unroll
    for (int c = 0; c < 2; ++c)
      shared_load((stage + a_offset ^ c * 16) + k * A_ROWS * 128 + row * 128, a[4 * c], a[4 * c + 1], a[4 * c + 2], a[4 * c + 3]);
#endif
#if B_MN_MAJOR
    pair(a);
#endif
  }
  METHOD void multiply(u32 a_stage, u32 b_stage, float (&acc)[SIXTEENS][QUARTER][4]) const {
    #pragma unroll
    for (int k = 0; k < BK / 64; ++k) {
      u32 a[SIXTEENS][2][8];  // of rows r and r + 8
      #pragma unroll
      for (int i = 0; i < SIXTEENS; ++i)
        #pragma unroll
        for (int half = 0; half < 2; ++half) load_a(a_stage, i * 16 + half * 8, k, a[i][half]);
      #pragma unroll
      for (int j = 0; j < QUARTER; j += 2) {  // a product waits for the one before to the same sums
        u32 b[2][8];
        #pragma unroll
        for (int h = 0; h < 2; ++h) load_b(b_stage, j + h, k, b[h]);
        #pragma unroll
        for (int x = 0; x < 8; x += 2)
          #pragma unroll
          for (int h = 0; h < 2; ++h)
            #pragma unroll
            for (int i = 0; i < SIXTEENS; ++i) {
              float* const d = acc[i][j + h];
              mma(d[0], d[1], d[2], d[3], {a[i][0][x], a[i][1][x], a[i][0][x + 1], a[i][1][x + 1]}, {b[h][x], b[h][x + 1]});
            }
      }
    }
  }
  // Each warp's 16 rows of all columns, by way of shared memory. (Between tiles the consumers' turns are a barrier of all warps.)
  DEVICE_STATIC void exchange(const Tile& tile, u32 by, const float (&from)[SIXTEENS][QUARTER][4], float (&to)[MI][BN / 2]) {
    #pragma unroll
    for (int x = 0; x < BN / 2; ++x) to[0][x] = 0;
    #pragma unroll
    for (int i = 0; i < SIXTEENS; ++i) {
      if (i) named_sync(tile.barrier, 128);
      #pragma unroll
      for (int j = 0; j < QUARTER; ++j) {
        const float* const d = from[i][j];
        *shared_pointer<Sums>(by + ((tile.warp * QUARTER + j) * 32 + tile.lane) * 16) = {d[0], d[1], d[2], d[3]};
      }
      named_sync(tile.barrier, 128);
      if (tile.warp != i) continue;
      #pragma unroll
      for (int x = 0; x < BN / 8; ++x) {
        const Sums sums = *shared_pointer<const Sums>(by + (x * 32 + tile.lane) * 16);
        #pragma unroll
        for (int e = 0; e < 4; ++e) to[0][4 * x + e] = sums.of[e];
      }
    }
  }
};
#endif
#endif
)cuda"
