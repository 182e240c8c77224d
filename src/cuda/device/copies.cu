R"cuda(
// Quotients of 64 bits take several times as long as those of 32.
DEVICE i64 quotient(i64 x, int by) { return x >> 32 ? x / by : i64(u32(x) / u32(by)); }

// 16 bytes a thread. A parameter block of 64-bit words.
extern "C" __global__ void __launch_bounds__(256) postlude_repack_images(const __grid_constant__ UnpackedImages p) {
  follow_previous_launch();
  constexpr int per = 16 / sizeof(WORD);
  const int chunks = p.columns * p.packed / per;  // of a row
  const i64 at = blockIdx.x * 256ll + threadIdx.x;
  i64 row = quotient(at, chunks);
  const int chunk = int(at - row * chunks);
  if (row >= (i64)p.images * p.extent[0] * p.extent[1]) return;
  WORD* to = (WORD*)p.to + at * per;
  const i64 plane = quotient(row, p.extent[1]), image = quotient(plane, p.extent[0]);
  const int y = int(row - plane * p.extent[1]), z = int(plane - image * p.extent[0]);
  const i64 from = image * p.image_stride + z * p.stride[0] + y * p.stride[1];
  int column = chunk * per / p.packed, c = chunk * per - column * p.packed;
  if (p.channel_stride == 1 && p.packed % per == 0) {  // all of one pixel
    struct alignas(16) Four { u32 word[4]; } four;
    const int x = p.first + column;
    const Words words(p.from + i64(sizeof(WORD)) * (from + x * p.stride[2] + c), u32(x) < u32(p.extent[2]) ? max(0, min(per, p.channels - c)) : 0);
    u32 v = words.word(0);
    #pragma unroll
    for (int w = 0; w < 4; ++w) {
      const u32 next = words.word(w + 1);
      four.word[w] = __funnelshift_r(v, next, 8 * words.shift), v = next;
    }
    *(Four*)to = four;
    return;
  }
  #pragma unroll
  for (int e = 0; e < per; ++e) {
    const int x = p.first + column;
    to[e] = c < p.channels && u32(x) < u32(p.extent[2]) ? ((const WORD*)p.from)[from + x * p.stride[2] + c * p.channel_stride] : WORD(0);
    if (++c == p.packed) c = 0, ++column;
  }
}

extern "C" __global__ void __launch_bounds__(256) postlude_compact(const __grid_constant__ Padded p) {
  follow_previous_launch();
  const int column = blockIdx.x * 256 + threadIdx.x;
  if (column >= p.n) return;
  const int tap = column / p.channels, row = tap / p.taps;
  const int from = row * p.padded_row + (tap - row * p.taps) * p.padded_channels + column - tap * p.channels;
  for (int m = blockIdx.y; m < p.m; m += gridDim.y) {
    const int group = p.block_groups > 1 ? m / p.group_rows % p.block_groups : 0;
    ((ACC*)p.to)[(i64)m * p.n + column] = ((const ACC*)p.from)[(i64)m * p.padded + from + group * p.channels];
  }
}

// A pixel a thread.
extern "C" __global__ void __launch_bounds__(256) postlude_interleave(const __grid_constant__ Interleaved p) {
  follow_previous_launch();
  struct alignas(16) Four { ACC acc[4]; };
  const u32 pixel = blockIdx.x * 256 + threadIdx.x;
  u32 outer = pixel, place[3];
  #pragma unroll
  for (int i = 2; i >= 0; --i) {
    const u32 inner = outer, extent = u32(p.extent[i]);
    outer = inner / extent, place[i] = inner - outer * extent;
  }
  if (outer >= u32(p.images)) return;
  i64 row = outer;
  u32 residue = 0;
  #pragma unroll
  for (int i = 0; i < 3; ++i) {
    const u32 step = u32(p.step[i]), at = place[i] / step;
    residue = residue * min(p.step[i], p.extent[i]) + place[i] - at * step, row = row * p.pixels[i] + at;
  }
  const ACC* const from = (const ACC*)p.from + row * p.columns + residue * p.n;
  ACC* const to = (ACC*)p.to + (i64)pixel * p.n;
  if (p.n % 4 == 0)
    for (int c = 0; c < p.n; c += 4) *(Four*)(to + c) = *(const Four*)(from + c);
  else
    for (int c = 0; c < p.n; ++c) to[c] = from[c];
}
)cuda"
