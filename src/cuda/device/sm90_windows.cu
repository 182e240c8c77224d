R"cuda(
// Where the copy engine loads the windows of a convolution from, a stage after another.
constexpr int BK = STAGE_K / ELEM_BYTES;

#if A_FORM
// The windows of BM pixels, from row `row` on, A_RUN bytes of K after another: the copy engine walks the pixels, also into the next
// row and the next image, and puts zeros outside of these. (Offsets of a tap move the pixels, not the box that they are walked in.)
struct Window {
  int channel, tap;    // of the next run
  int sx, sy, sz;      // that tap
  int x, y, z, image;  // the first pixel's first tap
  int group;           // of channels: the first
  METHOD void begin(const Rows& f, int batch, int row, int column, int kb) {
    group = f.block_columns ? column / f.block_columns * f.channels : 0;
    const auto along = [&](const WindowAxis& axis) { return axis.first + innermost(row, axis.pixels) * axis.step; };
    x = along(f.axis[2]), y = along(f.axis[1]), z = along(f.axis[0]), image = batch + row;
    constexpr int run = A_RUN / ELEM_BYTES;
    const int runs = (f.channels + run - 1) / run;
    int n = kb * (128 / A_RUN);
    channel = innermost(n, runs) * run, tap = n;
    sx = innermost(n, f.axis[2].taps), sy = innermost(n, f.axis[1].taps), sz = n;
    if (f.taps == 0) channel = f.all_channels;  // rows that no tap touches: channels that are none
  }
  METHOD void load(const Rows& f, const TensorMap& map, u32 to, u32 bar) {
    // Behind the last tap: an image that is none, so that nothing but zeros is multiplied with B's zeros.
    const int of = A_RUN < 128 && tap >= f.taps ? f.images : image, dx = sx * f.axis[2].reach, dy = sy * f.axis[1].reach;
#if A_DEPTH
    tma_load_pixels(to, map, bar, group + channel, x, y, z, of, dx, dy, sz * f.axis[0].reach);
#else
    tma_load_pixels(to, map, bar, group + channel, x, y, of, dx, dy);
#endif
    if ((channel += A_RUN / ELEM_BYTES) < f.channels) return;
    channel = 0, ++tap;
    if (++sx < f.axis[2].taps) return;
    sx = 0;
    if (++sy < f.axis[1].taps) return;
    sy = 0, ++sz;
  }
};
#elif B_FORM
// BK pixels after another, each with 64 channels of BN / 64 taps: K is the pixel, and N counts the window.
struct Pixels {
  struct At { int x, y, z, image; } at, step;  // the next block's first pixel; from a block's to the next one's: dividing for each took 600 clocks (decision 0075)
  int channel[BN / 64], dx[BN / 64], dy[BN / 64], dz[BN / 64];
  METHOD void begin(const Rows& f, int row, int column, int kb) {
    const int group = f.block_columns ? row / f.block_columns * f.channels : 0;
    at = place(f, kb * BK), step = place(f, BK);
    #pragma unroll
    for (int i = 0; i < BN / 64; ++i) {
      int n = column + i * 64;
      const bool exists = n < f.k;
      channel[i] = group + innermost(n, f.channels);
      dx[i] = innermost(n, f.axis[2].taps) * f.axis[2].reach, dy[i] = innermost(n, f.axis[1].taps) * f.axis[1].reach;
      dz[i] = exists ? n * f.axis[0].reach : 0;
      if (!exists) channel[i] = f.all_channels;  // which are none: zeros
    }
  }
  METHOD At place(const Rows& f, int n) {
    const int x = innermost(n, f.axis[2].pixels), y = innermost(n, f.axis[1].pixels), z = innermost(n, f.axis[0].pixels);
    return {x, y, z, n};
  }
  METHOD void load(const Rows& f, const TensorMap& map, u32 to, u32 bar) {
    const int x = f.axis[2].first + at.x * f.axis[2].step, y = f.axis[1].first + at.y * f.axis[1].step;
    #pragma unroll
    for (int i = 0; i < BN / 64; ++i)
#if B_DEPTH
      tma_load_pixels(to + i * 64 * 128, map, bar, channel[i], x, y, f.axis[0].first + at.z * f.axis[0].step, at.image, dx[i], dy[i], dz[i]);
#else
      tma_load_pixels(to + i * 64 * 128, map, bar, channel[i], x, y, at.image, dx[i], dy[i]);
#endif
    const auto carry = [](int& here, int extent) { return here < extent ? 0 : (here -= extent, 1); };
    at.x += step.x, at.y += step.y + carry(at.x, f.axis[2].pixels);
    at.z += step.z + carry(at.y, f.axis[1].pixels), at.image += step.image + carry(at.z, f.axis[0].pixels);
  }
};
#endif
)cuda"
