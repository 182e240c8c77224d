R"cuda(
// sm_90a: clusters, the copy engine's walks and stores, warpgroup matrix products.
#ifndef POSTLUDE_HOST

// The cluster's block `rank` has there what this block has at `address`.
DEVICE u32 cluster_address(u32 address, u32 rank) {
  u32 r; asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank)); return r;
}
// Adds `bytes` to what `bar`, of the block that `to` is of, waits for.
DEVICE void cluster_copy(u32 to, u32 from, u32 bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "r"(from),
               "r"(bytes), "r"(bar) : "memory");
}
// From memory to where this block has `to`, in all blocks of the cluster: the barrier of each counts what comes to it.
constexpr u16 all_blocks = u16((1 << CLUSTER_BLOCKS) - 1);
DEVICE void tma_load_all(u32 to, const TensorMap& map, u32 bar, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to), "l"(&map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "h"(all_blocks) : "memory");
}
DEVICE void tma_load_all(u32 to, const TensorMap& map, u32 bar, int c0, int c1, int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(to), "l"(&map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4),
      "h"(all_blocks) : "memory");
}
// Of the scope of a block: what orders other accesses for the cluster too is a barrier of all memory.
DEVICE void cluster_free(u32 bar) { asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory"); }
DEVICE void cluster_arrive(u32 bar) { asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory"); }
// Each thread has begun, and what it did before is seen by those who then wait until all threads of all blocks have.
DEVICE void cluster_begin() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
DEVICE void cluster_begun() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// Words to the block that `to` is of, whose `bar` counts their bytes.
template <int words, int all> DEVICE void cluster_store(u32 to, const u32 (&x)[all], u32 bar) {
  #pragma unroll
  for (int w = 0; w + 1 < words && words % 2 == 0; w += 2)
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(to + 4 * w), "r"(x[w]), "r"(x[w + 1]), "r"(bar) : "memory");
  #pragma unroll
  for (int w = 0; w < words && words % 2; ++w)
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to + 4 * w), "r"(x[w]), "r"(bar) : "memory");
}
// And what other blocks did before they arrived.
DEVICE void mbarrier_wait_cluster(u32 bar, u32 parity) {
  u32 done;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  } while (!done);
}
DEVICE void cluster_sync() { cluster_begin(), cluster_begun(); }

// Pixels of an image, walked by the box of the map, each moved by an offset.
DEVICE void tma_load_pixels(u32 to, const TensorMap& map, u32 bar, int c, int x, int y, int image, int dx, int dy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(
          to), "l"(&map), "r"(bar), "r"(c), "r"(x), "r"(y), "r"(image), "h"(u16(dx)), "h"(u16(dy)) : "memory");
}
DEVICE void tma_load_pixels(u32 to, const TensorMap& map, u32 bar, int c, int x, int y, int z, int image, int dx, int dy, int dz) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(
          to), "l"(&map), "r"(bar), "r"(c), "r"(x), "r"(y), "r"(z), "r"(image), "h"(u16(dx)), "h"(u16(dy)), "h"(u16(dz)) : "memory");
}
DEVICE void tma_store(const TensorMap& map, u32 from, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map), "r"(from),
               "r"(c0), "r"(c1), "r"(c2) : "memory");
}
DEVICE void tma_store_pixels(const TensorMap& map, u32 from, int c, int x, int y, int image) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map), "r"(from),
               "r"(c), "r"(x), "r"(y), "r"(image) : "memory");
}
DEVICE void tma_store_pixels(const TensorMap& map, u32 from, int c, int x, int y, int z, int image) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map), "r"(from),
               "r"(c), "r"(x), "r"(y), "r"(z), "r"(image) : "memory");
}
DEVICE void tma_store(const TensorMap& map, u32 from, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map), "r"(from),
               "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int pending> DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending> DEVICE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory"); }

DEVICE u32 load_acquire(const u32* from) {
  u32 r; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(r) : "l"(from) : "memory"); return r;
}
DEVICE void add_release(u32* to, u32 x) { asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(to), "r"(x) : "memory"); }
DEVICE void prefetch_to_l2(i64 from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }
DEVICE void store_relaxed(i64 to, u64 x) { asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(x) : "memory"); }
template <int words> DEVICE void load_relaxed(i64 from, u64 (&x)[words]) {
  #pragma unroll
  for (int w = 0; w + 1 < words && words % 2 == 0; w += 2)
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];" : "=l"(x[w]), "=l"(x[w + 1]) : "l"(from + 8 * w) : "memory");
  #pragma unroll
  for (int w = 0; w < words && words % 2; ++w) asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(x[w]) : "l"(from + 8 * w) : "memory");
}
#endif

// What the emitted load_issue begins with.
DEVICE void expect_subtiles(u32 bar, u32 bytes) { mbarrier_expect(bar, bytes); }
DEVICE void finish_sync() { named_sync(5, 256); }
// The 256 threads that finish() runs on wait until those of all blocks of a cooperative launch have come here, and see what they wrote.
// Their reads of scratch end before its next use by way of the warp that waits; they meet first because racecheck follows no third one.
DEVICE void wait_for_blocks() {
  finish_sync();
  named_arrive(6, 288);
  named_sync(7, 288);
}
// One warp of each block does the waiting. What blocks add to `counter` is 2^31 in all: its top bit tells, and nothing is cleared.
DEVICE void let_blocks_meet(u32* counter) {
  const u32 before = load_acquire(counter);
  named_sync(6, 288);
  if (lane_id() == 0) {
    add_release(counter, blockIdx.x ? 1 : 0x80000001 - gridDim.x);
    while ((load_acquire(counter) ^ before) >> 31 == 0) {}
  }
  __syncwarp();
  named_arrive(7, 288);
}

// Shared-memory matrix descriptor of rows of `run` bytes, swizzled as widely (16: not). `leading` and `stride` in bytes; `address`
// 8 * run aligned.
template <int run> DEVICE u64 matrix_descriptor(u32 address, u32 leading, u32 stride) {
  return (u64(run == 128 ? 1 : run == 64 ? 2 : run == 32 ? 3 : 0) << 62) | (u64(stride >> 4) << 32) | (u64(leading >> 4) << 16) | ((address & 0x3ffff) >> 4);
}

constexpr int COLUMNS = WG_COLUMNS / BELOW - CUT;  // a consumer's own

// The batch in a tile's map, and `col` there. Where columns behind each tap's channels are none of the tile's, a tap stands for a
// batch, and a column is its channel.
#if PADDED_TAPS
DEVICE int map_batch(const Params& p, int& col, int) {
  int tap = col;
  col = innermost(tap, p.rows.channels);
  return tap;
}
#else
DEVICE int map_batch(const Params&, int&, int batch) { return batch; }
#endif

template <int size> DEVICE void subtile_load(const TensorMap& map, u32 to, u32 bar, int row, int col, int batch, const Params& p) {
  constexpr int row_bytes = SUB_N * size < 128 ? SUB_N * size : 128;
#if SCATTERED
  const Pixel at = pixel_of(p.scatter, row);
  #pragma unroll
  for (int box = 0; box < SUB_N * size / row_bytes; ++box)
#if A_DEPTH
    tma_load_pixels(to + box * 64 * row_bytes, map, bar, col + box * (row_bytes / size), at.x, at.y, at.z, at.image, 0, 0, 0);
#else
    tma_load_pixels(to + box * 64 * row_bytes, map, bar, col + box * (row_bytes / size), at.x, at.y, at.image, 0, 0);
#endif
#elif TURNED
  constexpr int rows = size == 4 ? 32 : 64;
  #pragma unroll
  for (int first = 0; first < 64; first += rows) tma_load(to + first * SUB_N * size, map, bar, row + first, col, batch);
#else
  batch = map_batch(p, col, batch);
  #pragma unroll
  for (int box = 0; box < SUB_N * size / row_bytes; ++box)
    tma_load(to + box * 64 * row_bytes, map, bar, col + box * (row_bytes / size), row, batch);
#endif
}
// The 16 rows of a staged subtile that begin at row `row` of the output: those of one warp.
template <int size> DEVICE void subtile_store(const TensorMap& map, u32 from, int row, int col, int batch, const Params& p) {
  constexpr int row_bytes = SUB_N * size < 128 ? SUB_N * size : 128;
#if SCATTERED
  const Pixel at = pixel_of(p.scatter, row);
  #pragma unroll
  for (int box = 0; box < SUB_N * size / row_bytes; ++box)
#if A_DEPTH
    tma_store_pixels(map, from + (box * 64 + row % 64) * row_bytes, col + box * (row_bytes / size), at.x, at.y, at.z, at.image);
#else
    tma_store_pixels(map, from + (box * 64 + row % 64) * row_bytes, col + box * (row_bytes / size), at.x, at.y, at.image);
#endif
#elif TURNED && CUT
  // Of a consumer's last columns some are the next one's: so many are left until a dimension of the map ends (Decider::map_tile).
  const int left = min(COLUMNS - col % COLUMNS, tile_columns(p) - col);
  tma_store(map, from + row % 64 * SUB_N * size, row, CUT_LINES - left, col + left, batch);
#elif TURNED
  tma_store(map, from + row % 64 * SUB_N * size, row, col, batch);
#else
  batch = map_batch(p, col, batch);
  #pragma unroll
  for (int box = 0; box < SUB_N * size / row_bytes; ++box)
    tma_store(map, from + (box * 64 + row % 64) * row_bytes, col + box * (row_bytes / size), row, batch);
#endif
}
)cuda"
