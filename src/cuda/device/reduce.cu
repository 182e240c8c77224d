R"cuda(
// Reductions. A state type S is emitted for each: S::identity(), S::combine(a, b), S::shuffle(x, mask), S::load(pointer).
// The order in which elements meet is fixed by the schedule, never by timing.

// Over the lanes whose numbers differ in the bits of `from`, `from` * 2, ... below `to`.
template <class S> DEVICE S fold_lanes(S x, int from, int to) {
  for (int mask = from; mask < to; mask *= 2) x = S::combine(x, S::shuffle(x, mask));
  return x;
}

// Each lane holds K columns' states of its own rows; the eight lanes of equal (lane % 4) share columns. Half of what is
// left is swapped away at each step, so K - K/8 shuffles fold all (56 for 64 columns a thread; a butterfly takes 192).
// Afterwards this lane holds K / 8 whole columns, of numbers folded_column(lane, K) + 0, 1, ...
template <class S, int K> DEVICE void fold_rows(S (&x)[K], int lane) {
  #pragma unroll
  for (int step = 0; step < 3; ++step) {
    const int mask = 16 >> step;
    const bool upper = lane & mask;
    #pragma unroll
    for (int k = 0; k < (K >> step) / 2; ++k) {
      const S low = x[k], high = x[k + (K >> step) / 2];
      const S away = S::shuffle(S::select(upper, low, high), mask);
      x[k] = S::combine(S::select(upper, high, low), away);
    }
  }
}
DEVICE int folded_column(int lane, int k) {
  return (lane & 16 ? k / 2 : 0) + (lane & 8 ? k / 4 : 0) + (lane & 4 ? k / 8 : 0);
}

// `count` partial states, `stride` apart, in index order. They were written by other blocks: past L1. Four reads under way at a
// time, and little code: it runs once, so its instructions come from memory (xent's small kernel took 17 us with 16).
template <class S> DEVICE S gather(const S* partials, int count, i64 stride) {
  S x = S::identity();
  #pragma unroll 1
  for (int i = 0; i < count; i += 4) {
    S y[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) y[k] = i + k < count ? S::load(partials + (i + k) * stride) : S::identity();
    #pragma unroll
    for (int k = 0; k < 4; ++k) x = S::combine(x, y[k]);
  }
  return x;
}

// `count` states of shared memory, `stride` apart, in order.
template <int stride, int count, class S> DEVICE S fold_shared(const S* x) {
  S y = x[0];
  #pragma unroll 1
  for (int i = 1; i < count; ++i) y = S::combine(y, x[i * stride]);
  return y;
}

// Several elements of one online softmax at a time: one rescaling for all. Elements that do not take part are -inf. The
// terms are below 1 and weighted by themselves, so the short exponential is as good as the long one.
template <class S, int N> DEVICE void softmax_add(S& s, const float (&x)[N]) {
  float m = s.c0;
  #pragma unroll
  for (int i = 0; i < N; ++i) m = op_max(m, x[i]);
  const float base = m == (-INF) ? 0.f : m;  // x - base is exact where it matters; folding it into the product is not
  float sum = s.c1 * fast_exp2((s.c0 - base) * 0x1.715476p+0f);
  if (N > 8 && fabsf(base) < 0x1p+16f) {  // folded after all, and what the rounding of their product adds to each is taken back
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

// Online softmax over lanes as fold_lanes: the maximum first, so that each state is scaled once. Lanes that differ in no other
// bits end with the same bits.
template <class S> DEVICE S softmax_lanes(S s, int from, int to) {
  float m = s.c0;
  for (int mask = from; mask < to; mask *= 2) m = op_max(m, __shfl_xor_sync(~0u, m, mask));
  float sum = s.c1 * fast_exp2((s.c0 - (m == (-INF) ? 0.f : m)) * 0x1.715476p+0f);
  for (int mask = from; mask < to; mask *= 2) sum += __shfl_xor_sync(~0u, sum, mask);
  s.c0 = m, s.c1 = sum;
  return s;
}

// The states of N warps, in shared memory, by every thread.
template <int N, class S> DEVICE S fold_warps(const S* x) {
  S y = x[0];
  #pragma unroll
  for (int i = 1; i < N; ++i) y = S::combine(y, x[i]);
  return y;
}
template <int N, class S> DEVICE S softmax_warps(const S* x) {
  float m = x[0].c0, sum = 0.f;
  #pragma unroll
  for (int i = 1; i < N; ++i) m = op_max(m, x[i].c0);
  #pragma unroll
  for (int i = 0; i < N; ++i) sum += x[i].c1 * fast_exp2((x[i].c0 - (m == (-INF) ? 0.f : m)) * 0x1.715476p+0f);
  S y;
  y.c0 = m, y.c1 = sum;
  return y;
}

// Several elements of one mean and variance at a time.
template <class S, int N> DEVICE void welford_add(S& s, const float (&x)[N], const bool (&in)[N]) {
  S block = S::identity();
  float sum = 0.f;
  #pragma unroll
  for (int i = 0; i < N; ++i) sum += in[i] ? x[i] : 0.f, block.c2 += in[i] ? 1.f : 0.f;
  block.c0 = sum * fast_reciprocal(fmaxf(block.c2, 1.f));
  #pragma unroll
  for (int i = 0; i < N; ++i) { const float d = in[i] ? x[i] - block.c0 : 0.f; block.c1 = fmaf(d, d, block.c1); }
  s = S::combine(s, block);
}

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

// argmax (or argmin) over N elements whose indices grow from one to the next, and from call to call: the first of equals and
// the first NaN stand to the left, so values alone decide. No `&&`: it becomes a branch.
template <bool maximum, class S, typename T, int N> DEVICE void arg_add(S& s, const T (&x)[N], const i64 (&index)[N], const bool (&in)[N]) {
  T best = x[0];
  int at = int(index[0]);
  bool any = in[0];
  #pragma unroll
  for (int i = 1; i < N; ++i) {
    const bool worse = maximum ? x[i] <= best : x[i] >= best;
    const bool take = in[i] & (!any | (!worse & (best == best)));
    best = take ? x[i] : best, at = take ? int(index[i]) : at, any = any | in[i];
  }
  const bool worse = maximum ? best <= s.c0 : best >= s.c0;
  const bool take = any & ((s.c1 < 0) | (!worse & (s.c0 == s.c0)));
  s.c0 = take ? best : s.c0, s.c1 = take ? i64(at) : s.c1;
}
)cuda"
