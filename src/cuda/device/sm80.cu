R"cuda(
// sm_80 and newer: asynchronous copies of 16 bytes, and the tile operands and outputs of a warp's own rows. A TensorMap
// here is what the copy engine would read out of its own: address, extents of the contiguous axis and of the rows, strides in
// bytes of rows and batches.
DEVICE i64 map_address(const TensorMap& map) { return i64(map.word[0]); }
DEVICE int map_columns(const TensorMap& map) { return int(map.word[1]); }
DEVICE int map_rows(const TensorMap& map) { return int(map.word[2]); }
DEVICE i64 map_pitch(const TensorMap& map) { return i64(map.word[3]); }
DEVICE i64 map_batch(const TensorMap& map) { return i64(map.word[4]); }

DEVICE void finish_sync() { __syncthreads(); }

// What the emitted load_issue and store_issue call. Each warp moves its own 16 rows of a subtile, 16 bytes a lane; nobody
// else touches them, so that waiting is a matter of the warp.
DEVICE void expect_subtiles(u32, u32) {}
template <int size, typename F> DEVICE void subtile_rows(const Params& p, const TensorMap& map, int row, int col, F move) {
  constexpr int chunks = SUB_N * size / 16;
  const int warp = threadIdx.x / 32 % 4, lane = lane_id(), end = tile_end(row, map_rows(map));
  #pragma unroll
  for (int i = 0; i < 16 * chunks; i += 32) {
    if (chunks == 1 && lane >= 16) break;  // rows of 16 bytes
    const int r = warp * 16 + (i + lane) / chunks, c = (i + lane) % chunks * (16 / size);
    move(subtile_offset<size>(r, c), i64(memory_row(p, 0, row + r)) * map_pitch(map) + i64(col + c) * size, row + r < end && col + c < map_columns(map));
  }
}
template <int size> DEVICE void subtile_load(const TensorMap& map, u32 to, u32, int row, int col, int batch, const Params& p) {
  const i64 base = map_address(map) + batch * map_batch(map);
  subtile_rows<size>(p, map, row, col, [&](u32 offset, i64 at, bool in) {
    copy_async(to + offset, base + at, in ? 16 : 0);
  });
}
template <int size> DEVICE void subtile_store(const TensorMap& map, u32 from, int row, int col, int batch, const Params& p) {
  const i64 base = map_address(map) + batch * map_batch(map);
  subtile_rows<size>(p, map, row, col, [&](u32 offset, i64 at, bool in) {
    uint4 x;
    shared_load(from + offset, x.x, x.y, x.z, x.w);
    if (in) *(uint4*)(base + at) = x;
  });
}
)cuda"
