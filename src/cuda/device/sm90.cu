R"cuda(
// sm_90a: shared-memory barriers, the tensor copy engine, warpgroup matrix products.
struct alignas(64) TensorMap { u64 word[16]; };

DEVICE void mbarrier_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count));
}
DEVICE void mbarrier_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
DEVICE void mbarrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
DEVICE void mbarrier_wait(u32 bar, u32 parity) {
  u32 done;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  } while (!done);
}
DEVICE void named_sync(u32 id, u32 threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
DEVICE void named_arrive(u32 id, u32 threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

DEVICE void tma_prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
DEVICE void tma_load(u32 to, const TensorMap& map, u32 bar, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(&map), "r"(bar), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
DEVICE void tma_load(u32 to, const TensorMap& map, u32 bar, int c0, int c1, int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(
          to), "l"(&map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}
DEVICE void tma_store(const TensorMap& map, u32 from, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map), "r"(from),
               "r"(c0), "r"(c1), "r"(c2) : "memory");
}
DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int pending> DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
DEVICE void tma_store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// Orders this thread's ordinary shared-memory writes before what the copy engine or wgmma reads next.
DEVICE void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

template <int registers> DEVICE void registers_grow() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers)); }
template <int registers> DEVICE void registers_shrink() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers)); }

DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending> DEVICE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory"); }

// Shared-memory matrix descriptor with 128-byte swizzle. `leading` and `stride` in bytes; `address` 1024-aligned.
DEVICE u64 matrix_descriptor(u32 address, u32 leading, u32 stride) {
  return (u64(1) << 62) | (u64(stride >> 4) << 32) | (u64(leading >> 4) << 16) | ((address & 0x3ffff) >> 4);
}

// Byte offset of (row, byte) in a box of `row_bytes` per row under the copy engine's swizzle of that width.
template <int row_bytes> DEVICE u32 swizzled(u32 row, u32 byte) {
  const u32 offset = row * row_bytes + byte;
  return offset ^ ((offset >> 3) & (row_bytes == 128 ? 0x70 : row_bytes == 64 ? 0x30 : row_bytes == 32 ? 0x10 : 0));
}
DEVICE void stmatrix(u32 to, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
DEVICE void ldmatrix(u32 from, u32& a, u32& b, u32& c, u32& d) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory");
}
DEVICE void shared_store(u32 to, u32 a, u32 b) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}
DEVICE void shared_store(u32 to, u16 a) { asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(a) : "memory"); }
DEVICE void shared_load(u32 from, u32& a, u32& b) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(from) : "memory");
}
DEVICE u32 shared_load_word(u32 from) { u32 r; asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r) : "r"(from) : "memory"); return r; }
template <int size> DEVICE void element_store(u8* to, u32 bits) {
  if (size == 4) *(u32*)to = bits;
  else if (size == 2) *(u16*)to = u16(bits);
  else *to = u8(bits);
}
DEVICE u16 shared_load(u32 from) { u16 r; asm volatile("ld.shared.u16 %0, [%1];" : "=h"(r) : "r"(from) : "memory"); return r; }

// Filled by the host (gemm_source.h: GemmParams).
struct Params {
  TensorMap map[MAPS];  // A, B, the tile operands, the outputs
  int m, n;             // rows, and columns of the epilogue
  int tiles_m, tiles_n, tiles, raster, k_blocks;
  int a_batch, b_batch; // 0 where A or B is shared by all batches
  int batch;
  i64 word[WORDS];      // the epilogue's pointers and strides
};

// Where a consumer's epilogue is.
struct Tile {
  int batch, tile_m, tile_n;
  int row, col;         // of the consumer's first element
  int slot_m;           // which block of rows of its height
  int wg, warp, lane, thread;
  u32 barrier;          // of the warpgroup's 128 threads
  u32 scratch;          // shared, SCRATCH_BYTES
};

// A column that a label of 64 bits names, or -1: no column.
DEVICE int as_column(i64 label) { return label == i64(int(label)) ? int(label) : -1; }

constexpr int WG_ROWS = PINGPONG ? BM : BM / 2;  // rows of a tile that one consumer owns
constexpr int MI = WG_ROWS / 64;                 // m64 atoms a consumer
constexpr int ROWS = 2 * MI;                     // rows of the output that one thread holds
constexpr int OUT_N = BN / PARTS;                // the epilogue's columns a tile
constexpr int GROUPS = OUT_N / SUB_N;            // subtiles are 64 rows x SUB_N columns
#define SLOTS_M (p.tiles_m * (PINGPONG ? 1 : 2)) // blocks of WG_ROWS rows
DEVICE int tile_row(const Tile& t, int r) { return t.row + r / 2 * 64 + t.warp * 16 + t.lane / 4 + r % 2 * 8; }

// Hides where a number came from: else what follows from it for one m64 atom is kept in registers for the next, and spills.
DEVICE int opaque(int x) { asm volatile("" : "+r"(x)); return x; }

template <typename T> DEVICE T* shared_pointer(u32 address) { return (T*)__cvta_shared_to_generic(address); }

// Byte offset of an element in a subtile of 64 x SUB_N elements of `size` bytes, as the copy engine lays it out: boxes of
// at most 128 bytes a row, side by side.
template <int size> DEVICE u32 subtile_offset(u32 row, u32 column) {
  constexpr int row_bytes = SUB_N * size < 128 ? SUB_N * size : 128;
  const u32 byte = column * size;
  return byte / row_bytes * (64 * row_bytes) + swizzled<row_bytes>(row, byte % row_bytes);
}
template <int size> DEVICE void subtile_load(const TensorMap& map, u32 to, u32 bar, int row, int col, int batch) {
  constexpr int row_bytes = SUB_N * size < 128 ? SUB_N * size : 128;
  #pragma unroll
  for (int box = 0; box < SUB_N * size / row_bytes; ++box)
    tma_load(to + box * 64 * row_bytes, map, bar, col + box * (row_bytes / size), row, batch);
}
template <int size> DEVICE void subtile_store(const TensorMap& map, u32 from, int row, int col, int batch) {
  constexpr int row_bytes = SUB_N * size < 128 ? SUB_N * size : 128;
  #pragma unroll
  for (int box = 0; box < SUB_N * size / row_bytes; ++box)
    tma_store(map, from + box * 64 * row_bytes, col + box * (row_bytes / size), row, batch);
}

// The 16 rows of a staged subtile that this warp wrote itself, to rows of memory at any multiple of the element's size: whole
// words wherever they lie on a word's boundary there, put together from two words here. `columns`, `rows`: how many exist.
template <int size> DEVICE void subtile_copy(u32 from, i64 base, i64 pitch, i64 rows, i64 columns, const Tile& t) {
  constexpr int row_bytes = SUB_N * size < 128 ? SUB_N * size : 128;
  constexpr int words = SUB_N * size / 4, lanes = words < 32 ? words : 32, together = 32 / lanes;
  const int lane = t.lane % lanes, first_row = t.warp * 16 + t.lane / lanes;
  from += t.warp * 16 * row_bytes;
  u8* to = (u8*)(base + first_row * pitch);
  if (size > 1 && rows >= 64 && columns >= SUB_N) {
    const bool edge = size == 2 && (lane == 0 || lane == lanes - 1);
    #pragma unroll
    for (int r = 0; r < 16; r += together, to += together * pitch) {
      #pragma unroll
      for (int w = 0; w < words; w += lanes) {
        const u32 x = shared_load_word(from + subtile_offset<size>(r + t.lane / lanes, (lane + w) * 4 / size));
        if (size == 4) {
          ((u32*)to)[lane + w] = x;
        } else {
          const u32 y = __funnelshift_l(__shfl_up_sync(~0u, x, 1, lanes), x, u32(i64(to)) << 3);
          const bool odd = i64(to) & 2;
          if (lane || !odd) *(u32*)(i64(to + 4 * lane) & ~3ll) = y;
          if (edge && odd) *(u16*)(to + (lane ? SUB_N * size - 2 : 0)) = u16(lane ? x >> 16 : x);
        }
      }
    }
  } else {
    const int valid = int(columns < SUB_N ? columns : SUB_N) * size;
    #pragma unroll 1
    for (int r = 0; r < 16; r += together, to += together * pitch) {
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

// A 16 x 16 fragment of a staged subtile, packed: pairs of columns, [2 * (8-column block) + (row + 8)].
// 16-bit elements move as matrices, others as pairs.
template <int size> DEVICE void fragment_load(u32 subtile, const Tile& t, int f, u32 (&x)[size * 2]) {
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
// Element e (0..7) of it.
template <int size> DEVICE u32 fragment_element(const u32 (&x)[size * 2], int e) {
  if (size == 4) return x[e % (size * 2)];
  if (size == 2) return x[e / 2 % (size * 2)] >> (e % 2 * 16) & 0xffff;
  return x[e / 4 % (size * 2)] >> (e % 4 * 8) & 0xff;
}
template <int size> DEVICE void fragment_store(u32 subtile, const Tile& t, int f, const u32 (&x)[size * 2]) {
  const int row = t.warp * 16 + t.lane / 4, column = f * 16 + 2 * (t.lane % 4);
  if (size == 2) {
    stmatrix(subtile + subtile_offset<2>(t.warp * 16 + t.lane % 16, f * 16 + t.lane / 16 * 8), x[0], x[1], x[2], x[3]);
  } else {
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 to = subtile + subtile_offset<size>(row + 8 * (i % 2), column + 8 * (i / 2));
      if (size == 4) shared_store(to, x[2 * i % (size * 2)], x[(2 * i + 1) % (size * 2)]);
      else shared_store(to, u16(x[i / 2 % (size * 2)] >> (i % 2 * 16)));
    }
  }
}

)cuda"
