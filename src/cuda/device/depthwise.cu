R"cuda(
// product.cu's sums where a group has one channel and one column: VECTOR columns of a row a thread, over the taps that see the image.
struct alignas(VECTOR == 1 ? 4 : 16) Columns { ACC of[VECTOR]; };
DEVICE Columns columns_of_a(const Params& p, i64 at) {
  Columns c;
#if VECTOR == 8
  Quad q[ELEM_BYTES / 2];
  FETCH_A<8, KEPT>(p.a, at, 0, 4, q);
  UNPACK_A(q, c.of);
#else
  c.of[0] = LOAD_A(p.a, at);
#endif
  return c;
}
extern "C" __global__ void __launch_bounds__(256) postlude_depthwise(const __grid_constant__ Params p) {
  follow_previous_launch();
  const int columns = p.n / VECTOR, batch = blockIdx.y;
  const i64 at = blockIdx.x * 256ll + threadIdx.x;
  const int row = int(at / columns), column = int(at - i64(row) * columns) * VECTOR;
  if (row >= p.m) return;
  const Spot first = row_spot(p.rows, batch, row);
  const WindowAxis &depth = p.rows.axis[0], &rows = p.rows.axis[1], &along = p.rows.axis[2];
  Columns sum = {};
  int tap = 0;
  for (int t = 0; t < (p.k ? depth.taps : 0); ++t)
    for (int r = 0; r < rows.taps; ++r)
      for (int s = 0; s < along.taps; ++s, ++tap) {
        const Spot of_tap = {i64(t * depth.reach) * depth.stride + i64(r * rows.reach) * rows.stride + i64(s * along.reach) * along.stride, t * depth.reach,
                             r * rows.reach, s * along.reach};
        if (!has(p.rows, first, of_tap)) continue;
        const Columns a = columns_of_a(p, first.offset + of_tap.offset + column * p.a_group);
        const i64 weight = k_offset(p.b_count, p.b_k, tap) + column * p.b_group;
        #pragma unroll
        for (int e = 0; e < VECTOR; ++e) sum.of[e] = op_fma(a.of[e], LOAD_B(p.b, weight + e * p.b_group), sum.of[e]);
      }
  *(Columns*)((ACC*)p.acc + ((i64)batch * p.m + memory_row(p, row)) * p.n + column) = sum;
}
)cuda"
