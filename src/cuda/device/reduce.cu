R"cuda(
// Reductions. A state type S is emitted for each: S::identity(), S::combine(a, b), S::shuffle(x, mask), S::load(pointer).
// S::indexed: it is {a float, a column's number}. S::rescaled: it is {m, a sum of exp(x - m)}; the terms are below 1 and weighted
// by themselves, so the short exponential is as good as the long one. S::counted: its last word is the number of elements, so many
// a column.
// The order in which elements meet is fixed by the schedule, never by timing.

// Several states, in order. Of an online softmax the maximum first, so that each is scaled once; of means and variances the mean of
// all first, so that no division waits for another.
template <int N, class S> DEVICE S fold_states(const S* x) {
  S y = x[0];
  if constexpr (S::rescaled) {
    #pragma unroll
    for (int i = 1; i < N; ++i) y.c0 = op_max(y.c0, x[i].c0);
    const float base = y.c0 == (-INF) ? 0.f : y.c0;
    y.c1 = 0.f;
    #pragma unroll
    for (int i = 0; i < N; ++i) y.c1 += x[i].c1 * fast_exp2((x[i].c0 - base) * 0x1.715476p+0f);
  } else if constexpr (S::counted > 0) {
    #pragma unroll
    for (int i = 1; i < N; ++i) y.c2 += x[i].c2;
    const float first = x[0].c2 > 0.f ? x[0].c0 : x[N > 1].c0, base = fabsf(first) < 0x1p+120f ? first : 0.f;
    const float each = fast_reciprocal(fmaxf(y.c2, 1.f));
    float beyond = 0.f;
    #pragma unroll
    for (int i = 0; i < N; ++i) beyond = fmaf(x[i].c0 - base, x[i].c2 * each, beyond);
    y.c0 = base + beyond, y.c1 = 0.f;
    #pragma unroll
    for (int i = 0; i < N; ++i) {
      const float d = x[i].c2 > 0.f ? x[i].c0 - y.c0 : 0.f;
      y.c1 += fmaf(d * d, x[i].c2, x[i].c1);
    }
  } else {
    #pragma unroll
    for (int i = 1; i < N; ++i) y = S::combine(y, x[i]);
  }
  return y;
}
// Over the lanes whose numbers differ in the bits of `from`, `from` * 2, ... below `to`. Lanes that differ in no other bits end
// with the same bits where combine() does not tell its arguments apart (welford does).
template <class S> DEVICE S combine_lanes(S x, int from, int to) {
  for (int mask = from; mask < to; mask *= 2) x = S::combine(x, S::shuffle(x, mask));
  return x;
}
// With the same bits in any case: of two lanes the lower one's state comes first in both.
template <class S> DEVICE S combine_lanes_in_order(S x, int lane, int from, int to) {
  for (int mask = from; mask < to; mask *= 2) {
    const S y = S::shuffle(x, mask);
    const bool upper = lane & mask;
    x = S::combine(S::select(upper, y, x), S::select(upper, x, y));
  }
  return x;
}
// As combine_lanes, in fewer instructions for an online softmax, but more registers than a tile of 128 x 192 leaves (decision 0019).
template <class S> DEVICE S fold_lanes(S x, int from, int to) {
  if constexpr (S::rescaled) {
    float m = x.c0;
    for (int mask = from; mask < to; mask *= 2) m = op_max(m, __shfl_xor_sync(~0u, m, mask));
    float sum = x.c1 * fast_exp2((x.c0 - (m == (-INF) ? 0.f : m)) * 0x1.715476p+0f);
    for (int mask = from; mask < to; mask *= 2) sum += __shfl_xor_sync(~0u, sum, mask);
    x.c0 = m, x.c1 = sum;
    return x;
  } else {
    return combine_lanes(x, from, to);
  }
}

// Each lane holds K columns' states of its own rows; the eight lanes of equal (lane % 4) share columns. Half of what is
// left is swapped away at each step, so K - K/8 shuffles fold all (56 for 64 columns a thread; a butterfly takes 192).
// Afterwards this lane holds K / 8 whole columns (of four: one), of numbers folded_column(lane, K) + 0, 1, ...
// (Each step has constants of its own: loops whose ends another loop's variable says were not unrolled for 64 columns, and the states
// lay in memory.)
template <int mask, int left, class S, int K> DEVICE void fold_half(S (&x)[K], int lane) {
  const bool upper = lane & mask;
  #pragma unroll
  for (int k = 0; k < left / 2; ++k) {
    const S low = x[k], high = x[k + left / 2];
    const S away = S::shuffle(S::select(upper, low, high), mask);
    x[k] = S::combine(S::select(upper, high, low), away);
  }
  if constexpr (left == 1) {  // of four columns: two lanes have one
    const S other = S::shuffle(x[0], mask);
    x[0] = S::combine(S::select(upper, other, x[0]), S::select(upper, x[0], other));
  }
}
template <class S, int K> DEVICE void fold_rows(S (&x)[K], int lane) {
  fold_half<16, K>(x, lane), fold_half<8, K / 2>(x, lane), fold_half<4, K / 4>(x, lane);
}
DEVICE int folded_column(int lane, int k) {
  return (lane & 16 ? k / 2 : 0) + (lane & 8 ? k / 4 : 0) + (lane & 4 ? k / 8 : 0);
}

#if HOLDS || TAGS
// A state in words. What a mean counted no held tile tells.
template <class S> struct Words {
  static constexpr int words = sizeof(S) / 4 - (HOLDS && S::counted > 0);
  union {
    S state;
    u32 word[sizeof(S) / 4];
    float number[sizeof(S) / 4];
  };
};
#endif
#if TAGS
// Each word of what a tile leaves for others lies in memory beside the tag of its launch, eight bytes in one access: who sees the
// tag has the word. No fence, no counter, and nothing to clear: the next launch has the next tag. (Of what held tiles tell the sum
// of an online softmax is never negative, so that its sign can be the tag's last bit and one access is enough.)
template <class S> struct Told : Words<S> {
  static constexpr bool in_one = HOLDS && S::rescaled;
  static constexpr int apart = S::indexed ? 2 : 1;  // of {a float, an index} the lower words
  static constexpr int words = in_one ? 1 : Words<S>::words / apart;
  using Words<S>::word;
  METHOD u64 at(int w, u32 tag) const {
    return word[w * apart] | u64(in_one ? (word[sizeof(S) / 4 - 1] & 0x7fffffff) | tag << 31 : tag) << 32;
  }
  METHOD bool take(int w, u64 x, u32 tag) {  // whether it is this launch's
    word[w * apart] = u32(x);
    if (S::indexed && w == 1) word[3] = u32(int(u32(x)) >> 31);
    if (in_one) word[sizeof(S) / 4 - 1] = u32(x >> 32) & 0x7fffffff;
    return in_one ? u32(x >> 63) == (tag & 1) : u32(x >> 32) == tag;
  }
};
template <class S> DEVICE void tell(i64 memory, i64 index, const S& x, u32 tag) {
  Told<S> told;
  told.state = x;
  #pragma unroll
  for (int w = 0; w < told.words; ++w) store_relaxed(memory + (index * told.words + w) * 8, told.at(w, tag));
}
// What stands at an index of each lane's; all lanes of the warp wait until all have theirs.
template <class S> DEVICE S hear(i64 memory, i64 index, u32 tag) {
  Told<S> told;
  bool all;
  do {
    u64 word[told.words];
    load_relaxed(memory + index * told.words * 8, word);
    all = true;
    #pragma unroll
    for (int w = 0; w < told.words; ++w) all &= told.take(w, word[w], tag);
  } while (!__all_sync(~0u, all));
  return told.state;
}
#endif
// `count` partial states of each reduction, `stride` apart, in index order. They are written by other blocks: past L1. Four reads of
// each under way at a time, and little code: it runs once, so its instructions come from memory (xent's small kernel took 17 us with 16).
template <class S> struct Partials {
  i64 memory, first;
  u32 tag;  // of what is waited for (TAGS)
  S x = S::identity(), y[4];
#if TAGS
  u64 word[4][Told<S>::words];
  METHOD void load(int i, int count, i64 stride) {
    #pragma unroll
    for (int k = 0; k < 4; ++k)
      if (i + k < count) load_relaxed(memory + (first + (i + k) * stride) * Told<S>::words * 8, word[k]);
  }
  METHOD bool come(int i, int count) {
    bool all = true;
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
      Told<S> one;
      #pragma unroll
      for (int w = 0; w < one.words; ++w) all &= one.take(w, word[k][w], tag) | (i + k >= count);
      y[k] = S::select(i + k < count, one.state, S::identity());
    }
    return all;
  }
#else
  METHOD void load(int i, int count, i64 stride) {
    #pragma unroll
    for (int k = 0; k < 4; ++k) y[k] = i + k < count ? S::load((const S*)memory + first + (i + k) * stride) : S::identity();
  }
  METHOD bool come(int, int) { return true; }
#endif
  METHOD void fold() {
    const S all[5] = {x, y[0], y[1], y[2], y[3]};
    x = fold_states<5>(all);
  }
};
template <class... S> DEVICE void gather(int count, i64 stride, Partials<S>&... partials) {
  #pragma unroll 1
  for (int i = 0; i < count; i += 4) {
    bool come;
    do {
      (partials.load(i, count, stride), ...);
      come = (partials.come(i, count) & ...);
    } while (!come);
    (partials.fold(), ...);
  }
}
template <class S> DEVICE S gather(i64 memory, i64 first, int count, i64 stride, u32 tag) {
  Partials<S> partials = {memory, first, tag};
  gather(count, stride, partials);
  return partials.x;
}
// A tile's partial state, for them.
template <class S, class T> DEVICE void leave(const T& t, i64 memory, i64 index, const S& x) {
#if TAGS
  tell(memory, index, x, t.tag);
#else
  ((S*)memory)[index] = x;
#endif
}

// `count` states of shared memory, `stride` apart, in order.
template <int stride, int count, class S> DEVICE S fold_shared(const S* x) {
  S y = x[0];
  #pragma unroll 1
  for (int i = 1; i < count; ++i) y = S::combine(y, x[i * stride]);
  return y;
}

#if ROW_GROUP
// State number `at` of each warp that has a part of a group of rows, `stride` apart, in order.
template <int stride, class S> DEVICE S fold_group(const Tile& t, u32 states, int at) {
  const S x = fold_shared<stride, GROUP_WARPS>(shared_pointer<S>(group_scratch(t) + states) + at);
  if constexpr (!GROUP_MEETS) return x;
  else return S::combine(x, fold_shared<stride, GROUP_WARPS>(shared_pointer<S>(group_scratch(t) + SCRATCH_BYTES + states) + at));
}
#endif

// Several elements of one online softmax at a time: one rescaling for all. Elements that do not take part are -inf.
template <class S, int N> DEVICE void softmax_add(S& s, const float (&x)[N]) {
  float m = s.c0;
  #pragma unroll
  for (int i = 0; i < N; ++i) m = op_max(m, x[i]);
  const float base = m == (-INF) ? 0.f : m;  // x - base is exact where it matters; folding it into the product is not
  float sum = s.c1 * fast_exp2((s.c0 - base) * 0x1.715476p+0f);
  if (N > 16 && fabsf(base) < 0x1p+16f) {  // folded after all, and what the rounding of their product adds to each is taken back
    const float product = base * 0x1.715476p+0f;
    float part = 0.f;
    #pragma unroll
    for (int i = 0; i < N; ++i) part += fast_exp2(fmaf(x[i], 0x1.715476p+0f, -product));
    sum = fmaf(part, fast_exp2(fmaf(-base, 0x1.715476p+0f, product)), sum);
  } else {
    #pragma unroll
    for (int i = 0; i < N; ++i) sum += fast_exp2((x[i] - base) * 0x1.715476p+0f);
  }
  s.c0 = m, s.c1 = sum;
}

// A sum of products, by fused multiply-adds (decision 0017); no more than four wait for each other.
template <int n> DEVICE float dot(const float (&a)[n], const float (&b)[n]) {
  constexpr int chain = n < 4 ? n : 4;
  float x[n / chain];
  #pragma unroll
  for (int c = 0; c < n / chain; ++c) {
    x[c] = a[c * chain] * b[c * chain];
    #pragma unroll
    for (int i = 1; i < chain; ++i) x[c] = fmaf(a[c * chain + i], b[c * chain + i], x[c]);
  }
  return n > 4 ? x[0] + x[n / chain - 1] : x[0];
}

// A sum of logarithms is that of a product, kept as a number in [2/3, 4/3] and a power of two: two instructions an element for
// eighteen (decision 0017). Eight factors at a time, each in [2^-15, 2^15] or NaN.
struct LogSum {
  float product;
  int exponent;
  METHOD void reset() { product = 1.f, exponent = 0; }
  METHOD void add(const float (&x)[8]) {
    const float all = product * ((x[0] * x[1]) * (x[2] * x[3])) * ((x[4] * x[5]) * (x[6] * x[7]));
    const int i = log_exponent(all);
    product = all * __uint_as_float(0x3f800000u - u32(i)), exponent += i >> 23;
  }
  METHOD float value() const { return fmaf(float(exponent), 0x1.62e43p-1f, logf(product)); }
};

// What a thread gathers of a mean and variance: sums about a shift, three instructions an element where joining a state for every
// four took eleven. The shift is the mean of the first elements, `first` with all that follow; it cancels no more than their share of
// all leaves (decision 0105). Infinite and huge ones are no shift: sums about them could overflow where sums of elements do not.
struct Moments {
  float shift, sum, squares, count;
  DEVICE_STATIC Moments identity() { return {0.f, 0.f, 0.f, 0.f}; }
  // About one shift.
  DEVICE_STATIC Moments combine(const Moments& a, const Moments& b) { return {a.shift, a.sum + b.sum, a.squares + b.squares, a.count + b.count}; }
  DEVICE_STATIC Moments shuffle(const Moments& x, int mask) {
    return {x.shift, __shfl_xor_sync(~0u, x.sum, mask), __shfl_xor_sync(~0u, x.squares, mask), __shfl_xor_sync(~0u, x.count, mask)};
  }
  DEVICE_STATIC Moments select(bool t, const Moments& a, const Moments& b) {
    return {t ? a.shift : b.shift, t ? a.sum : b.sum, t ? a.squares : b.squares, t ? a.count : b.count};
  }
};
// The lanes that share a shift: none, the four that hold a row, the eight that hold a column.
enum class Share { nothing, row, column };
// `all`: of a row, how many elements the thread will have.
template <Share share, int N> DEVICE void moments_add(Moments& s, const float (&x)[N], const bool (&in)[N], const bool first, int lane, float all = 0.f) {
  float here = 0.f;
  #pragma unroll
  for (int i = 0; i < N; ++i) here += in[i] ? 1.f : 0.f;
  if (first) {
    float sum = 0.f, of = here;
    #pragma unroll
    for (int i = 0; i < N; ++i) sum += in[i] ? x[i] : 0.f;
    if (share == Share::row) {
      #pragma unroll
      for (int mask = 1; mask < 4; mask *= 2) sum += __shfl_xor_sync(~0u, sum, mask), of += __shfl_xor_sync(~0u, of, mask);
    }
    float mean = sum * fast_reciprocal(fmaxf(of, 1.f));
    if (share == Share::column) mean = __shfl_sync(~0u, mean, lane % 4);
    s = {fabsf(mean) < 0x1p+120f ? mean : 0.f, 0.f, 0.f, all};
  }
  #pragma unroll
  for (int i = 0; i < N; ++i) {
    const float d = in[i] ? x[i] - s.shift : 0.f;
    s.sum += d, s.squares = fmaf(d, d, s.squares);
  }
  if (share != Share::row) s.count += here;
}
// As the state {mean, squared distances, count}.
template <class S> DEVICE S settled(const Moments& s) {
  const float mean = s.sum * fast_reciprocal(fmaxf(s.count, 1.f));
  return {s.shift + mean, op_max(fmaf(-mean, s.sum, s.squares), 0.f), s.count};
}
template <class S> DEVICE S settled(const S& s) { return s; }

// Several elements of one state at a time: a tree over them, and one step on the state, so that steps that wait for each
// other are few. Elements that do not take part are the identity.
template <class S> DEVICE void block_add(S& s, S (&x)[2]) { s = S::combine(s, S::combine(x[0], x[1])); }
template <class S> DEVICE void block_add(S& s, S (&x)[4]) {
  x[0] = S::combine(x[0], x[1]), x[2] = S::combine(x[2], x[3]);
  s = S::combine(s, S::combine(x[0], x[2]));
}
template <class S> DEVICE void block_add(S& s, S (&x)[8]) {
  #pragma unroll
  for (int i = 0; i < 8; i += 2) x[i] = S::combine(x[i], x[i + 1]);
  x[0] = S::combine(x[0], x[2]), x[4] = S::combine(x[4], x[6]);
  s = S::combine(s, S::combine(x[0], x[4]));
}

// What a thread gathers of an argmax (or argmin) whose indices grow: the first of equals and the first NaN came first, so an
// element is taken where it changes the extreme's bits. x + 0 has no -0 and one NaN. Four instructions an element for seven.
template <bool maximum> struct Extreme {
  float c0;
  int c1;
  DEVICE_STATIC Extreme identity() { return {maximum ? -INF : INF, -1}; }
};
template <bool maximum, int N> DEVICE void arg_add(Extreme<maximum>& s, const float (&x)[N], const i64 (&index)[N], const bool (&in)[N], const bool first) {
  #pragma unroll
  for (int i = 0; i < N; ++i) {
    const float y = (in[i] ? x[i] : s.identity().c0) + 0.f;
    if (i == 0 && first) s = {y, in[0] ? int(index[0]) : -1};
    const float best = maximum ? op_max(s.c0, y) : op_min(s.c0, y);
    s.c1 = __float_as_uint(best) == __float_as_uint(s.c0) ? s.c1 : int(index[i]);
    s.c0 = best;
  }
}
template <class S, bool maximum> DEVICE S settled(const Extreme<maximum>& s) { return {s.c0, s.c1}; }
#if HOLDS
template <class S> DEVICE S told(const Params& p, const S& x, int tile) {  // with how many columns it counted
  Words<S> of_tile;
  of_tile.state = x;
  if (S::counted) of_tile.number[sizeof(S) / 4 - 1] = float(S::counted * min(TILE_N, tile_columns(p) - tile * TILE_N));
  return of_tile.state;
}
#endif
#if MEETS
// What tiles of a cluster, which has all of their rows, tell each other of these: each warp the same warp of every tile, in its shared
// memory, whose barrier counts the bytes that have come (decision 0307). Of two places in turn: who tells of a tile has heard of the one
// before it, which the others told when they had read of the one before that.
DEVICE u32 meeting(const Tile& t, int i) { return t.meeting + (i * 4 + t.warp) * 8; }
// What stands there of a tile and a row of 64; `before`: bytes of a row's other states.
template <class S> DEVICE u32 met(const Tile& t, int i, int before, int tile, int row) {
  return t.met + before * (CLUSTER_N * WG_ROWS) + ((i * CLUSTER_N + tile) * 64 + row) * 4 * Words<S>::words;
}
template <class... S> DEVICE void expect_to_meet(const Tile& t, int i) {
  if (t.lane == 0) mbarrier_expect(meeting(t, i), CLUSTER_N * 16 * 4 * (Words<S>::words + ...));
}
// The four lanes of a row have the same.
template <class S> DEVICE void tell_cluster(const Tile& t, int r, int before, const S& x) {
  Words<S> own;
  own.state = x;
  const u32 to = met<S>(t, r / 2, before, t.tile_n, t.warp * 16 + r % 2 * 8 + t.lane / 4), bar = meeting(t, r / 2);
  #pragma unroll
  for (int first = 0; first < CLUSTER_N; first += 4)
    if (const int tile = first + t.lane % 4; tile < CLUSTER_N)
      cluster_store<Words<S>::words>(cluster_address(to, tile), own.word, cluster_address(bar, tile));
}
DEVICE void await_cluster(const Tile& t, int i) { mbarrier_wait_cluster(meeting(t, i), t.met_turn); }
// Of a warp's rows of 64, number i, by the lanes that hold them: all tiles' in order.
template <class S> DEVICE void hear_cluster(const Params& p, const Tile& t, int i, int before, S (&x)[2]) {
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    S all[CLUSTER_N];
    #pragma unroll
    for (int tile = 0; tile < CLUSTER_N; ++tile) {
      Words<S> heard;
      shared_words<Words<S>::words>(met<S>(t, i, before, tile, t.warp * 16 + r * 8 + t.lane / 4), heard.word);
      all[tile] = told(p, heard.state, tile);
    }
    x[r] = fold_states<CLUSTER_N>(all);
  }
}
#elif TELLS
// What tiles beside one another tell each other of the rows that they share: each tile folds a share of the rows and tells the
// result, so that little is read. (Clocks that a tile of 16384 x 4096 x 1024 waits, softmax: with a fence, counters and states
// without tags 12,000; if it folds all of its rows itself 9,000, as what it polls is in the products' way; 4,800.)
// A warp hears of 16 rows at a time, as a power of two, or of the few that there are: then more lanes hear of each (decision 0321).
DEVICE int heard_bits(const Params& p) {
  const int rows = most_rows(p);
  return A_ROWS > 16 ? 4 : (rows > 1) + (rows > 2) + (rows > 4) + (rows > 8);
}
// Where few tiles are beside each other, each folds all of its rows itself, which saves a way through L2 (decision 0271). What it
// polls of more rows is in the way of the products, and code for it in that of larger tiles.
DEVICE bool hears_all(const Params& p) {
  return !AGAIN && !PARKS && WG_ROWS == 64 && WG_COLUMNS <= 192 && tiles_beside(p) <= (is_one_wave(p) ? 512 : 384) >> heard_bits(p);
}
// What tiles told of a lane's row, each `lanes`-th of them from number `from` on, n at a time; all lanes of the warp wait until all
// have theirs.
template <int n, class S> DEVICE S hear_tiles(const Params& p, int batch, int row, int from, int lanes, i64 memory, u32 tag) {
  constexpr int words = Told<S>::words;
  S x = S::identity();
  #pragma unroll 1
  for (int first = from; first - from < tiles_beside(p); first += n * lanes) {
    const auto tile = [&](int k) { return first + k * lanes; };
    const auto in = [&](int k) { return tile(k) < tiles_beside(p); };
    const i64 at = memory + told_index(p, batch, row, first) * words * 8;
    S all[n + 1] = {x};
    bool come;
    do {
      u64 word[n][words];
      #pragma unroll
      for (int k = 0; k < n; ++k)
        if (in(k)) load_relaxed(at + told_index(p, 0, 0, k * lanes) * words * 8, word[k]);
      come = true;
      #pragma unroll
      for (int k = 0; k < n; ++k) {
        Told<S> one;
        #pragma unroll
        for (int w = 0; w < words; ++w) come &= !in(k) | one.take(w, word[k][w], tag);
        all[k + 1] = S::select(in(k), told(p, one.state, tile(k)), S::identity());
      }
    } while (!__all_sync(~0u, come));
    x = fold_states<n + 1>(all);
  }
  return x;
}
// By a warp: all rows of the share at a time, if they are no more than lanes; then each lane folds BM / 32 tiles.
template <class S> DEVICE void fold_rows_told(const Params& p, const Work& c, i64 memory, u32 tag, int lane) {
  constexpr int n = Told<S>::words > 1 ? 1 : 2;  // what the producer's registers hold
  // What few bytes are written to and memory has, L2 fetches before they can be read.
  for (int row = lane; row < BM; row += 32)
    prefetch_to_l2(memory + told_index(p, c.batch, min(c.m * BM + row, tile_rows(p, c.batch) - 1), c.n) * Told<S>::words * 8);
  if (hears_all(p)) return;
  const int share = (BM + tiles_beside(p) - 1) / tiles_beside(p), from = c.n * share;
  const int to = min(from + share, min(BM, tile_rows(p, c.batch) - c.m * BM));
  int rows = 1;
  while (rows < share && rows < 32) rows *= 2;
  const int lanes = 32 / rows;
  for (int first = from; first < to; first += rows) {
    const int own = first + lane / lanes, row = min(c.m * BM + min(own, to - 1), tile_rows(p, c.batch) - 1);
    const S x = fold_lanes<S>(hear_tiles<n, S>(p, c.batch, row, lane % lanes, lanes, memory, tag), 1, lanes);
    if (lane % lanes == 0 && own < to) tell(memory, folded_index(p, c.batch, row), x, tag);
  }
}
// What is folded of a tile's rows, read before its main loop or while its values come: of a tile that is multiplied again or was
// parked it was mostly told long ago.
template <class S> struct Ahead {
  u64 word[MI][Told<S>::words];
  METHOD void load(const Params& p, const Tile& t, i64 memory) {
    #pragma unroll
    for (int i = 0; i < MI; ++i)
      load_relaxed(memory + folded_index(p, t.batch, min(t.row + i * 64 + t.warp * 16 + t.lane % 16, tile_rows(p, t.batch) - 1)) * Told<S>::words * 8, word[i]);
  }
  METHOD bool take(int i, Told<S>& x, u32 tag) const {
    bool all = true;
    #pragma unroll
    for (int w = 0; w < x.words; ++w) all &= x.take(w, word[i][w], tag);
    return __all_sync(~0u, all);
  }
};
// A warp's rows of 64, number i, by the lanes that hold them.
template <class S, class G> DEVICE void hear_rows(const Params& p, const Tile& t, int i, i64 memory, const G& ahead, S (&x)[2]) {
  const int bits = heard_bits(p), rows = 1 << bits;
  const int first = t.row + i * 64 + t.warp * 16, row = min(first + (t.lane & (rows - 1)), tile_rows(p, t.batch) - 1);
  constexpr int n = Told<S>::words > 1 ? 4 : 8;  // tiles by each lane, at a time
  Told<S> from, of;
#if AGAIN || PARKS
  if (!ahead.take(i, from, t.tag)) from.state = hear<S>(memory, folded_index(p, t.batch, row), t.tag);
#else
  if (first >= tile_rows(p, t.batch)) from.state = S::identity();  // of no row: what all poll is slow to come
  else if (hears_all(p)) from.state = fold_lanes<S>(hear_tiles<n, S>(p, t.batch, row, t.lane >> bits, 32 >> bits, memory, t.tag), rows, 32);
  else from.state = hear<S>(memory, folded_index(p, t.batch, row), t.tag);
#endif
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    #pragma unroll
    for (int w = 0; w < int(sizeof(S) / 4); ++w) of.word[w] = __shfl_sync(~0u, from.word[w], (8 * r + t.lane / 4) & (rows - 1));
    x[r] = of.state;
  }
}
#elif HELD
// Of a tile that has all columns of its rows: what their lanes have gathered (decision 0272).
template <class S, class G> DEVICE void hear_rows(const Params&, const Tile& t, int i, i64, const G (&own)[ROWS], S (&x)[2]) {
  #pragma unroll
  for (int r = 0; r < 2; ++r) x[r] = combine_lanes_in_order(settled<S>(own[2 * i + r]), t.lane, 1, 4);
}
#endif
)cuda"
