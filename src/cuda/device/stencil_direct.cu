R"cuda(
// A depthwise convolution straight from memory (decision 0223). A thread has two channels of STRIP_X x STRIP_Y pixels, whose sums stay
// in its registers until the epilogue has stored what becomes of them: shared memory has the weights, and L1 what neighbours read too.

constexpr int TAPS = TAPS_Y * TAPS_X, LANES = BN / 2;
constexpr int FRAGMENTS = (STRIP_X + 3) / 4;  // of a strip's row, each of four pixels
constexpr int STRIPS_X = (PIXELS_X + STRIP_X - 1) / STRIP_X, STRIPS_Y = (PIXELS_Y + STRIP_Y - 1) / STRIP_Y;
constexpr int READ_X = (STRIP_X - 1) * STEP_X + (TAPS_X - 1) * REACH_X + 1, READ_Y = (STRIP_Y - 1) * STEP_Y + (TAPS_Y - 1) * REACH_Y + 1;
constexpr int WEIGHTS_PITCH = BN + 2;  // of a tap, of f32
constexpr bool HELD_WEIGHTS = !ROWS_IN_TURN && TAPS <= 9;  // of all taps, from memory; of others those of a block come together
// Rows of pixels that are on their way while one is added up.
constexpr int AHEAD = ROWS_IN_TURN || READ_X > 8 || READ_Y < 2 ? 1 : 2;
// Of a strided gradient the image's pixels are UP apart, with zeros between them that nobody reads; a strip has whole strides.
constexpr int SPAN_X = (EXTENT_X - 1) * UP_X + 1, SPAN_Y = (EXTENT_Y - 1) * UP_Y + 1;
constexpr int FIRST_READ_Y = (UP_Y - FIRST_Y % UP_Y) % UP_Y;  // of a strip's rows
constexpr int TILES_N = (COLUMNS + BN - 1) / BN;

#ifndef POSTLUDE_HOST
DEVICE i64 opaque_address(i64 x) { asm volatile("" : "+l"(x)); return x; }
DEVICE float opaque_number(float x) { asm volatile("" : "+f"(x)); return x; }
DEVICE u32 load_pair(i64 from) { u32 x; asm volatile("ld.global.b32 %0, [%1];" : "=r"(x) : "l"(from)); return x; }
DEVICE u16 load_one(i64 from) { u16 x; asm volatile("ld.global.u16 %0, [%1];" : "=h"(x) : "l"(from)); return x; }
DEVICE void store_pair(i64 to, u32 x) { asm volatile("st.global.b32 [%0], %1;" :: "l"(to), "r"(x) : "memory"); }
#else
DEVICE i64 opaque_address(i64 x) { return x; }
DEVICE float opaque_number(float x) { return x; }
DEVICE u32 load_pair(i64 from) { return *(const u32*)from; }
DEVICE u16 load_one(i64 from) { return *(const u16*)from; }
DEVICE void store_pair(i64 to, u32 x) { *(u32*)to = x; }
#endif

// Whether place k of a strip's axis lies in the image, of strip number `at` of `strips`: mostly all do, or none does.
DEVICE bool inside(int k, int at, int strips, int strip, int first, int extent) {
  if (k + first >= 0 && (strips - 1) * strip + k + first < extent) return true;
  return u32(at * strip + k + first) < u32(extent);
}
DEVICE bool inside_x(int k, int at) { return inside(k, at, STRIPS_X, STRIP_X * STEP_X, FIRST_X, SPAN_X); }
DEVICE bool inside_y(int k, int at) { return inside(k, at, STRIPS_Y, STRIP_Y * STEP_Y, FIRST_Y, SPAN_Y); }
// How many pixels behind a strip's first one place k is.
DEVICE constexpr int pixels_x(int k) { return (k + FIRST_X) / UP_X - FIRST_X / UP_X; }
DEVICE constexpr int pixels_y(int k) { return (k + FIRST_Y) / UP_Y - FIRST_Y / UP_Y; }
// Whether tap t of pixel j is no zero between pixels, and of a strip as wide as the output lies in the image at all.
DEVICE constexpr bool may_see(int j, int t) {
  const int at = j * STEP_X + t * REACH_X + FIRST_X;
  return at % UP_X == 0 && (STRIPS_X > 1 || (at >= 0 && at < SPAN_X));
}
// Whether some window has place k of a row.
DEVICE constexpr bool is_read(int k) {
  for (int t = 0; t < TAPS_X; ++t) {
    const int j = k - t * REACH_X;
    if (j >= 0 && j % STEP_X == 0 && j / STEP_X < STRIP_X && may_see(j / STEP_X, t)) return true;
  }
  return false;
}

// SINGLES: channels of an odd number, or that lie between words, move one by one, and of the last thread the second is the first
// again, of which nothing is stored.
DEVICE int next_channel(int column) { return column + 1 < COLUMNS ? 1 : 0; }
// A strip: which of its image, of which image.
struct Strip { int x, y; };
// `next`: how far behind a channel its next one lies.
DEVICE void read_row(i64 from, int next, bool exists, int x, u32 (&row)[READ_X]) {
  const i64 second = from + next;
  #pragma unroll
  for (int k = 0; k < READ_X; ++k) {
    row[k] = 0;
    if (is_read(k) && exists && inside_x(k, x)) {
      const i64 at = pixels_x(k) * STRIDE_X * 2;
      row[k] = SINGLES ? load_one(from + at) | u32(load_one(second + at)) << 16 : load_pair(from + at);
    }
  }
}
typedef float Sums[STRIP_Y][STRIP_X][2];
typedef float Row[READ_X][2], Weights[TAPS][2];
// Opaque, or they would be made again for each row of sums.
DEVICE void as_numbers(const u32 (&words)[READ_X], Row& row) {
  #pragma unroll
  for (int k = 0; k < READ_X; ++k)
    if (is_read(k)) row[k][0] = opaque_number(VALUE(u16(words[k]))), row[k][1] = opaque_number(VALUE(u16(words[k] >> 16)));
}
// A row of the filter, whose weights begin at `from` or are w, over a row of pixels.
DEVICE void add_tap(const Row& row, float a, float b, int t, float (&sum)[STRIP_X][2]) {
  #pragma unroll
  for (int j = 0; j < STRIP_X; ++j)
    if (may_see(j, t)) {
      const float (&x)[2] = row[j * STEP_X + t * REACH_X];
      sum[j][0] = fmaf(x[0], a, sum[j][0]), sum[j][1] = fmaf(x[1], b, sum[j][1]);
    }
}
DEVICE void add_row(const Row& row, u32 weights, float (&sum)[STRIP_X][2]) {
  #pragma unroll
  for (int t = 0; t < TAPS_X; ++t) {
    u32 a, b;
    shared_load(weights + t * WEIGHTS_PITCH * 4, a, b);
    add_tap(row, __uint_as_float(a), __uint_as_float(b), t, sum);
  }
}

// The rows of pixels that a strip reads, from `from` on; the first ones are on their way.
struct PixelRows {
  i64 from;
  int next;
  int first, end;  // of those in the image, where they are gone through in turn
  u32 words[AHEAD + 1][READ_X];
  // `pixels`: where the first window begins.
  METHOD void begin(i64 pixels, int next_one, const Strip s, bool exists) {
    next = next_one;
    const int before = ROWS_IN_TURN ? max(-(s.y * STRIP_Y * STEP_Y + FIRST_Y), 0) : 0;
    first = before, end = min(READ_Y, EXTENT_Y - (s.y * STRIP_Y * STEP_Y + FIRST_Y));
    from = opaque_address(pixels + before * STRIDE_Y * 2);
    #pragma unroll
    for (int n = 0; n < AHEAD; ++n) {
      const int y = FIRST_READ_Y + n * UP_Y;
      read_row(from + pixels_y(y) * STRIDE_Y * 2, next, exists && (ROWS_IN_TURN ? first < end : inside_y(y, s.y)), s.x, words[n]);
    }
  }
};

// The strip's sums, of which `whole(i)` is told when row i has all. `weights`: of the strip's first channel.
template <class F> DEVICE void add_up(PixelRows& rows, const Strip s, u32 weights, const Weights& w, Sums& sum, F whole) {
  Row row;
#if ROWS_IN_TURN  // STEP_Y and REACH_Y are 1
  const u32 first = opaque(int(weights));  // else it is made again for each row
  const int last = max(rows.first, rows.end - 1);  // none may be in the image
  #pragma unroll 1
  for (int y = rows.first; y <= last; ++y) {
    as_numbers(rows.words[0], row);
    rows.from += STRIDE_Y * 2;
    read_row(rows.from, rows.next, y + 1 < rows.end, s.x, rows.words[0]);
    #pragma unroll
    for (int i = 0; i < STRIP_Y; ++i) {
      if (u32(y - i) < u32(TAPS_Y) && y < rows.end) add_row(row, first + (y - i) * TAPS_X * WEIGHTS_PITCH * 4, sum[i]);
      if (y == max(rows.first, min(i + TAPS_Y - 1, last))) whole(i);
    }
  }
#else
  #pragma unroll
  for (int y = FIRST_READ_Y, n = 0; y < READ_Y; y += UP_Y, ++n) {
    const int next = y + AHEAD * UP_Y;
    if (next < READ_Y) read_row(rows.from + pixels_y(next) * STRIDE_Y * 2, rows.next, inside_y(next, s.y), s.x, rows.words[(n + AHEAD) % (AHEAD + 1)]);
    as_numbers(rows.words[n % (AHEAD + 1)], row);
    #pragma unroll
    for (int i = 0; i < STRIP_Y; ++i) {
      const int behind = y - i * STEP_Y, tap = behind / REACH_Y;
      if (behind < 0 || behind % REACH_Y || tap >= TAPS_Y) continue;
      #pragma unroll
      for (int t = 0; t < TAPS_X; ++t) add_tap(row, w[tap * TAPS_X + t][0], w[tap * TAPS_X + t][1], t, sum[i]);
      if (tap + UP_Y >= TAPS_Y) whole(i);
    }
  }
#endif
}

constexpr bool PACKED_WEIGHTS = CHANNEL_STRIDE == TAPS && WEIGHT_STRIDE_Y == TAPS_X && WEIGHT_STRIDE_X == 1 && WEIGHT_WORDS;
DEVICE i64 weight_offset(int channel, int tap) {
  return channel * CHANNEL_STRIDE + tap / TAPS_X * WEIGHT_STRIDE_Y + tap % TAPS_X * WEIGHT_STRIDE_X;
}
// The weights of a block's columns, into rows of a tap's: all are on their way before the first is stored. By words, where they lie one
// behind the other, without quotients for each.
DEVICE void load_weights(const Params& p, u32 to, int column) {
  constexpr int threads = LANES * STRIPS, size = PACKED_WEIGHTS ? 2 : 1, all = BN * TAPS / size, each = (all + threads - 1) / threads;
  const int has = COLUMNS % BN ? min(all, ((COLUMNS - column) * TAPS + size - 1) / size) : all;
  const int half = size * has > (COLUMNS - column) * TAPS ? has - 1 : -1;  // a word of which the second one is no weight
  const i64 first = i64(p.map[1].word[0]) + column * CHANNEL_STRIDE * 2, from = opaque_address(first + 4 * threadIdx.x);
  u32 words[each];
  #pragma unroll
  for (int n = 0; n < each; ++n) {
    const int i = threadIdx.x + n * threads;
    words[n] = 0;
    if ((has == all && (n + 1) * threads <= all) || i < has)
      words[n] = PACKED_WEIGHTS ? (i == half ? load_one(from + n * threads * 4) : load_pair(from + n * threads * 4)) : *(const u16*)(first + weight_offset(i / TAPS, i % TAPS) * 2);
  }
  constexpr int down = WEIGHTS_PITCH * 4, back = 4 - TAPS * down, step = size * threads;  // to the next tap; from behind the last one
  int tap = size * threadIdx.x % TAPS;
  to += tap * down + size * threadIdx.x / TAPS * 4;
  #pragma unroll
  for (int n = 0; n < each; ++n) {
    if ((n + 1) * threads <= all || int(threadIdx.x) + n * threads < all) {
      shared_store(to, __float_as_uint(VALUE(u16(words[n]))));
      if (size == 2) shared_store(to + down + (tap + 1 < TAPS ? 0 : back), __float_as_uint(VALUE(u16(words[n] >> 16))));
    }
    tap += step % TAPS, to += step % TAPS * down + step / TAPS * 4;
    if (tap >= TAPS) tap -= TAPS, to += back;
  }
}
// Those of two channels: by words where they lie one behind the other.
DEVICE void hold_weights(const Params& p, int column, Weights& w) {
  const i64 from = opaque_address(i64(p.map[1].word[0]) + column * CHANNEL_STRIDE * 2), second = from + next_channel(column) * CHANNEL_STRIDE * 2;
  #pragma unroll
  for (int n = 0; n < TAPS; ++n) {
    if (PACKED_WEIGHTS && !SINGLES) {
      const u32 two = load_pair(from + 4 * n);
      w[2 * n % TAPS][2 * n / TAPS] = VALUE(u16(two)), w[(2 * n + 1) % TAPS][(2 * n + 1) / TAPS] = VALUE(u16(two >> 16));
    } else {
      w[n][0] = VALUE(*(const u16*)(from + weight_offset(0, n) * 2)), w[n][1] = VALUE(*(const u16*)(second + weight_offset(0, n) * 2));
    }
  }
}
DEVICE void take_weights(u32 from, Weights& w) {
  #pragma unroll
  for (int t = 0; t < TAPS; ++t) {
    u32 a, b;
    shared_load(from + t * WEIGHTS_PITCH * 4, a, b);
    w[t][0] = __uint_as_float(a), w[t][1] = __uint_as_float(b);
  }
}

// Pixel x of a strip's row: whether it exists, and where its channels lie.
DEVICE bool has_pixel(const Tile& t, int x) { return x < STRIP_X && (PIXELS_X % STRIP_X == 0 || t.slot_m * STRIP_X + x < PIXELS_X); }
DEVICE i64 pixel_address(const TensorMap& map, const Tile& t, int x, int size) {
  if (PACKED_TILES) {
    const i64 pixel = i64(t.batch) * (PIXELS_Y * PIXELS_X) + t.row;
    return map_address(map) + (pixel * COLUMNS + first_column(t, 0)) * size + x * (i64(COLUMNS) * size);
  }
  const i64 first = map_address(map) + t.batch * map_batch(map) + t.row * map_pitch(map) + i64(first_column(t, 0)) * size;
  return first + x * map_pitch(map);
}
template <int size> DEVICE void put_pair(int k, u32 one, u32 two, u32 (&x)[size * 2]) {
  if (size == 4) x[2 * k % (size * 2)] = one, x[(2 * k + 1) % (size * 2)] = two;
  else if (size == 2) x[k % (size * 2)] = one | two << 16;
  else x[k / 2 % (size * 2)] = k % 2 ? x[k / 2 % (size * 2)] | one << 16 | two << 24 : one | two << 8;
}
// Four pixels of two columns, from and to where they lie in memory: x[size / 2 * pixel] on, or of bytes half a word.
template <int size> DEVICE void fragment_load(const TensorMap& map, u32, const Tile& t, int f, u32 (&x)[size * 2]) {
  #pragma unroll
  for (int k = 0; k < 4; ++k) {
    const bool exists = has_pixel(t, 4 * f + k);
    const i64 from = pixel_address(map, t, 4 * f + k, size);
    if (SINGLES) {
      const u32 one = exists ? element_bits<size>(from) : 0, two = exists ? element_bits<size>(from + size * next_channel(first_column(t, 0))) : 0;
      put_pair<size>(k, one, two, x);
    } else if (size == 1) {
      const u32 two = exists ? *(const u16*)from : 0;
      x[k / 2 % (size * 2)] = k % 2 ? x[k / 2 % (size * 2)] | two << 16 : two;
    } else {
      #pragma unroll
      for (int h = 0; h < size / 2; ++h) x[(size / 2 * k + h) % (size * 2)] = exists ? load_pair(from + 4 * h) : 0;
    }
  }
}
template <int size> DEVICE void fragment_store(const TensorMap& map, u32, const Tile& t, int f, const u32 (&x)[size * 2]) {
  #pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (!has_pixel(t, 4 * f + k)) continue;
    const i64 to = pixel_address(map, t, 4 * f + k, size);
    if (SINGLES) {
      element_store<size>((u8*)to, fragment_element<size>(x, 2 * k));
      if (next_channel(first_column(t, 0))) element_store<size>((u8*)to + size, fragment_element<size>(x, 2 * k + 1));
    } else if (size == 1) *(u16*)to = u16(x[k / 2 % (size * 2)] >> k % 2 * 16);
    else if (size == 2) store_pair(to, x[k % (size * 2)]);
    else *(Half*)to = {x[2 * k % (size * 2)], x[(2 * k + 1) % (size * 2)]};
  }
}
)cuda"
