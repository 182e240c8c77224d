R"cuda(
// Where the elements of A lie whose rows are no stride apart (src/loop/rows.h): each at the sum of what its row and its K say; outside
// of the image, or of a row that is none, it is zero. A_FORM: 1, an index tells the row; 2, a row is a pixel's window. B_FORM: 2, K is
// the pixel, and N counts the window.
#if A_FORM == 1
typedef GatheredRows Rows;
struct Spot { i64 offset; bool none; };
DEVICE Spot row_spot(const Rows& f, int batch, int row) {
  const i64 at = batch * f.index_batch + row * f.index_stride;
  const i64 from = f.wide ? ((const i64*)f.index)[at] : ((const int*)f.index)[at];
  return {batch * f.batch + from * f.row, from < 0 || from >= f.rows};
}
DEVICE Spot k_spot(const Rows& f, int k) { return {k * f.column, false}; }
DEVICE bool has(const Rows&, const Spot& row, const Spot&) { return !row.none; }
#elif A_FORM == 2 || B_FORM == 2
typedef WindowRows Rows;
struct Spot { i64 offset; int z, y, x; };
// The innermost `size` of what `n` counts; `n` counts the others then.
DEVICE int innermost(int& n, int size) {
  if (size == 1) return 0;
  const int outer = n / size, inner = n - outer * size;
  n = outer;
  return inner;
}
// All images together may have more pixels than an int counts.
DEVICE Spot row_spot(const Rows& f, int batch, int row) {
  int n = row;
  Spot s = {0, 0, 0, 0};
  const auto along = [&](const WindowAxis& axis) {
    const int at = axis.first + innermost(n, axis.pixels) * axis.step;
    s.offset += at * axis.stride;
    return at;
  };
  s.x = along(f.axis[2]), s.y = along(f.axis[1]), s.z = along(f.axis[0]);
  s.offset += (batch + n) * f.image_stride;
  return s;
}
DEVICE Spot k_spot(const Rows& f, int k) {
  const int inner = f.channels_last ? innermost(k, f.channels) : 0;
  Spot s = {0, 0, 0, 0};
  const auto along = [&](const WindowAxis& axis) {
    const int at = innermost(k, axis.taps) * axis.reach;
    s.offset += at * axis.stride;
    return at;
  };
  s.x = along(f.axis[2]), s.y = along(f.axis[1]), s.z = along(f.axis[0]);
  s.offset += (f.channels_last ? inner : k) * f.channel_stride;
  return s;
}
DEVICE bool has(const Rows& f, const Spot& row, const Spot& k) {
  return u32(row.x + k.x) < u32(f.axis[2].extent) && u32(row.y + k.y) < u32(f.axis[1].extent) && u32(row.z + k.z) < u32(f.axis[0].extent);
}
// Where the rows of a residue lie in memory (SCATTERED).
struct Pixel { int image, z, y, x; };
DEVICE Pixel pixel_of(const ScatterRows& f, int row) {
  const auto along = [&](const ScatterAxis& axis) { return axis.first + innermost(row, axis.pixels) * axis.step; };
  const int x = along(f.axis[2]), y = along(f.axis[1]), z = along(f.axis[0]);
  return {row, z, y, x};
}
DEVICE int memory_row(const ScatterRows& f, int row) {
  const Pixel at = pixel_of(f, row);
  return ((at.image * f.axis[0].extent + at.z) * f.axis[1].extent + at.y) * f.axis[2].extent + at.x;
}
#endif
)cuda"
