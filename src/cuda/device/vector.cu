R"cuda(
// Eight elements of a fragment at a time, one operation for all before the next. A consumer's epilogue is one warp a
// scheduler, so what hides latency is the other seven elements: element by element, bce ran at a fifth of an instruction
// a clock.
#define EACH _Pragma("unroll") for (int e = 0; e < 8; ++e)

DEVICE void vec_exp(float (&y)[8], const float (&x)[8]) { EACH y[e] = op_exp(x[e]); }
DEVICE void vec_exp_of_size(float (&y)[8], const float (&x)[8]) {
  float t[8], less[8];
  EACH t[e] = __fmaf_ru(fabsf(x[e]), -0x1.715476p+0f, -1.5f);
  EACH t[e] = t[e] + 1.5f;
  EACH y[e] = fast_exp2(t[e]);
  EACH less[e] = fmaf(t[e], 0x1.62e43p-1f, fabsf(x[e]));
  EACH less[e] = saturated_fma(t[e], -0x1.05c61p-29f, less[e]);
  EACH less[e] = 0x1p-24f - less[e];
  EACH y[e] = fmaf(y[e], less[e], y[e]);
}
DEVICE void vec_reciprocal_from_one(float (&r)[8], const float (&x)[8]) {
  float d[8];
  EACH d[e] = 1.f + x[e];
  EACH r[e] = fast_reciprocal(d[e]);
  EACH d[e] = fmaf(-d[e], r[e], 1.f);
  EACH r[e] = fmaf(d[e], r[e], r[e]);
}
DEVICE void vec_sigmoid(float (&y)[8], const float (&x)[8]) {
  float r[8];
  vec_exp_of_size(y, x);
  vec_reciprocal_from_one(r, y);
  EACH y[e] = x[e] < 0.f ? y[e] * r[e] : r[e];
}
DEVICE void vec_silu(float (&y)[8], const float (&x)[8]) {
  float small[8], r[8];
  vec_exp_of_size(small, x);
  vec_reciprocal_from_one(r, small);
  EACH y[e] = (x[e] < 0.f ? x[e] * small[e] : x[e]) * r[e];
}
// Of x and its square.
DEVICE void vec_gelu_share(float (&s)[8], const float (&x)[8], const float (&square)[8]) {
  float d[8];
  EACH s[e] = fmaf(square[e], -0x1.a5a7dp-4f, -0x1.26aec2p+1f);
  EACH s[e] = x[e] * s[e];
  EACH s[e] = fast_exp2(s[e]);
  EACH d[e] = 1.f + s[e];
  EACH s[e] = fast_reciprocal(d[e]);
  EACH d[e] = fmaf(-d[e], s[e], 1.f);
  EACH s[e] = saturated_fma(d[e], s[e], s[e]);
}
DEVICE void vec_gelu(float (&y)[8], const float (&x)[8]) {
  float s[8], q[8];
  EACH q[e] = x[e] * x[e];
  vec_gelu_share(s, x, q);
  EACH y[e] = x[e] * s[e];
}
DEVICE void vec_gelu_tanh(float (&y)[8], const float (&x)[8]) { vec_gelu(y, x); }
DEVICE void vec_dgelu(float (&y)[8], const float (&x)[8]) {
  float c[8], q[8], s[8], t[8];
  EACH c[e] = op_max(x[e], -30.f);
  EACH c[e] = op_min(c[e], 30.f);
  EACH q[e] = c[e] * c[e];
  vec_gelu_share(s, c, q);
  EACH q[e] = fmaf(q[e], 0x1.b6676cp-3f, 0x1.988454p+0f);
  EACH q[e] = c[e] * q[e];
  EACH t[e] = 1.f - s[e];
  EACH t[e] = s[e] * t[e];
  EACH y[e] = fmaf(t[e], q[e], s[e]);
}
DEVICE void vec_dgelu_tanh(float (&y)[8], const float (&x)[8]) { vec_dgelu(y, x); }

// log(x) = e ln 2 + log1p(f), x = 2^e (1 + f), f in [-1/3, 1/3]: log1p(f) = f + f^2 P(f), P of degree 8 through Chebyshev's
// nodes; 0.93 units in the last place at most (20 million samples). Exponents are multiples of 2^23, as the bits have them.
DEVICE int log_exponent(float x) { return (int(__float_as_uint(x)) - 0x3f2aaaab) & int(0xff800000u); }
DEVICE void log_sum(float (&y)[8], const float (&exponent)[8], const float (&f)[8]) {
  float q[8];
  EACH q[e] = fmaf(-0x1.fd0b24p-4f, f[e], 0x1.19b0c2p-3f);
  EACH q[e] = fmaf(q[e], f[e], -0x1.f74eccp-4f);
  EACH q[e] = fmaf(q[e], f[e], 0x1.1fd79ep-3f);
  EACH q[e] = fmaf(q[e], f[e], -0x1.55786cp-3f);
  EACH q[e] = fmaf(q[e], f[e], 0x1.99bfc6p-3f);
  EACH q[e] = fmaf(q[e], f[e], -0x1.ffffb4p-3f);
  EACH q[e] = fmaf(q[e], f[e], 0x1.55552cp-2f);
  EACH q[e] = fmaf(q[e], f[e], -0.5f);
  EACH q[e] = q[e] * f[e];
  EACH q[e] = fmaf(q[e], f[e], f[e]);
  EACH y[e] = fmaf(exponent[e], 0x1.62e43p-24f, q[e]);
}
// Free of branches: the short logarithm is right where the long one is not, at zero, infinity, NaN and below zero. With
// branches bce took 0.378 ms at 16384 x 4096 x 1024.
DEVICE void vec_log(float (&y)[8], const float (&x)[8]) {
  float f[8], n[8], q[8], special[8];
  int i[8];
  EACH special[e] = fast_log2(x[e]);
  EACH f[e] = x[e] < 0x1p-126f ? x[e] * 0x1p+23f : x[e];
  EACH n[e] = x[e] < 0x1p-126f ? -23.f * 0x1p+23f : 0.f;
  EACH i[e] = log_exponent(f[e]);
  EACH n[e] = float(i[e]) + n[e];
  EACH f[e] = __uint_as_float(__float_as_uint(f[e]) - u32(i[e])) - 1.f;
  log_sum(q, n, f);
  EACH y[e] = __float_as_uint(x[e]) - 1u < 0x7f7fffffu ? q[e] : special[e];
}
// Where x is known to be NaN or in [2^-126, 2^126], so that 2^-e is a number.
DEVICE void vec_log_normal(float (&y)[8], const float (&x)[8]) {
  float f[8], n[8];
  int i[8];
  EACH i[e] = log_exponent(x[e]);
  EACH n[e] = float(i[e]);
  EACH f[e] = fmaf(x[e], __uint_as_float(0x3f800000u - u32(i[e])), -1.f);
  log_sum(y, n, f);
}

// As op_div() in math.cu, its bits too: what follows from the divisor alone, and the rest. That the divisor is positive there gives a
// quotient of 0 its sign without a test.
struct Divisor { float size, inverse, scale, lifted; };
DEVICE Divisor divisor_of(float b) {
  const float size = fabsf(b), scale = size > 0x1p+64f ? 0x1p-64f : size < 0x1p-64f ? 0x1p+64f : 1.f;
  return {size * scale, fast_reciprocal(size * scale), copysignf(scale, b), copysignf(scale * 0x1p-64f, b)};
}
// Which of N divisors is element e's: its own, its column's or its row's.
#define OF (N == 8 ? e : N == 4 ? e / 4 * 2 + e % 2 : e / 2 % 2)
template <int N> DEVICE void vec_divide(float (&y)[8], const float (&a)[8], const Divisor (&by)[N]) {
  float scale[8], dividend[8], quotient[8], rest[8];
  EACH dividend[e] = fabsf(a[e]) < 0x1p-64f ? a[e] * 0x1p+64f : a[e];
  EACH scale[e] = fabsf(a[e]) < 0x1p-64f ? by[OF].lifted : by[OF].scale;
  EACH quotient[e] = dividend[e] * by[OF].inverse;
  EACH rest[e] = fmaf(by[OF].size, quotient[e], -dividend[e]);
  EACH rest[e] = fmaf(-rest[e], by[OF].inverse, quotient[e]);
  EACH y[e] = (fabsf(rest[e]) <= 0x1.fffffep+127f ? rest[e] : quotient[e]) * scale[e];
}
DEVICE void vec_div(float (&y)[8], const float (&a)[8], const float (&b)[8]) {
  Divisor by[8];
  EACH by[e] = divisor_of(b[e]);
  vec_divide(y, a, by);
}
// By a number for each of a fragment's rows: 10 instructions an element for 16.
DEVICE void vec_div_rows(float (&y)[8], const float (&a)[8], float first, float second) {
  const Divisor by[2] = {divisor_of(first), divisor_of(second)};
  vec_divide(y, a, by);
}
// And for each of its columns.
DEVICE void vec_div_columns(float (&y)[8], const float (&a)[8], const float (&b)[4]) {
  const Divisor by[4] = {divisor_of(b[0]), divisor_of(b[1]), divisor_of(b[2]), divisor_of(b[3])};
  vec_divide(y, a, by);
}

// The same where what is above 2^96 or below 2^-30 in size may as well be infinity or 0: six instructions. One scale for both
// puts the divisor between 2^-53 and 2^64; the remainder is exact unless the quotient is below 2^-38.
template <int N> DEVICE void vec_div_narrow(float (&y)[8], const float (&a)[8], const float (&by)[N]) {
  float scale[N], size[N], inverse[N], dividend[8], quotient[8], rest[8];
  #pragma unroll
  for (int r = 0; r < N; ++r) {
    scale[r] = fabsf(by[r]) > 0x1p+64f ? 0x1p-64f : fabsf(by[r]) < 0x1p-64f ? 0x1p+96f : 1.f;
    size[r] = fabsf(by[r]) * scale[r], inverse[r] = fast_reciprocal(size[r]), scale[r] = copysignf(scale[r], by[r]);
  }
  EACH dividend[e] = a[e] * scale[OF];
  EACH quotient[e] = dividend[e] * inverse[OF];
  EACH rest[e] = fmaf(size[OF], quotient[e], -dividend[e]);
  EACH rest[e] = fmaf(-rest[e], inverse[OF], quotient[e]);
  EACH y[e] = fabsf(rest[e]) <= 0x1.fffffep+127f ? rest[e] : quotient[e];
}
DEVICE void vec_div_narrow(float (&y)[8], const float (&a)[8], float first, float second) {
  const float by[2] = {first, second};
  vec_div_narrow(y, a, by);
}

// The same where a is at most 2^60 times the divisor, and this at least 2^-72, up to 2^126 or infinite or NaN, as a scale of all
// (decision 0320): three instructions, as the remainder is exact from 2^-103 on. By infinity a number gives 0, which has none.
template <int N> DEVICE void vec_div_bounded(float (&y)[8], const float (&a)[8], const float (&by)[N]) {
  float size[N], inverse[N], quotient[8], rest[8];
  #pragma unroll
  for (int r = 0; r < N; ++r) size[r] = by[r] <= 0x1p+126f ? by[r] : 0.f, inverse[r] = fast_reciprocal(by[r]);
  EACH quotient[e] = a[e] * inverse[OF];
  EACH rest[e] = fmaf(size[OF], quotient[e], -a[e]);
  EACH y[e] = fmaf(-rest[e], inverse[OF], quotient[e]);
}
DEVICE void vec_div_bounded(float (&y)[8], const float (&a)[8], float first, float second) {
  const float by[2] = {first, second};
  vec_div_bounded(y, a, by);
}
// What that gives, at most 127 in size, as bytes. By infinity and NaN all are 0.
template <int N> DEVICE void pack_bounded(u32 (&y)[2], const float (&x)[8], const float (&by)[N]) {
  u32 pair[4];
  #pragma unroll
  for (int e = 0; e < 8; e += 2) {
    const u32 first = by[OF] <= 0x1p+126f ? 0x0 : 0xb, second = by[(N == 4 ? 1 : 0) + OF] <= 0x1p+126f ? 0x40 : 0xf0;
    pair[e / 2] = whole_bytes(x[e], x[e + 1], first | second);
  }
  y[0] = pair[0] & 0xffff | pair[1] << 16, y[1] = pair[2] & 0xffff | pair[3] << 16;
#undef OF
}
DEVICE void pack_bounded(u32 (&y)[2], const float (&x)[8], float first, float second) {
  const float by[2] = {first, second};
  pack_bounded(y, x, by);
}

// Each by its own number, or all by one. Where nothing is near the ends of the range, nothing needs to be scaled or chosen: five
// instructions an element for thirteen. One branch for eight elements, so only where other warps hide it. (fminf and fmaxf pass
// over NaN, which the short way divides as well.)
template <int N> DEVICE void vec_div_by(float (&y)[8], const float (&a)[8], const float (&b)[N]) {
#define OF (N == 8 ? e : 0)
  float least = fabsf(b[0]), most = least, divisor[8];
  EACH divisor[e] = b[OF];
  for (int e = 1; e < N; ++e) least = fminf(least, fabsf(b[e])), most = fmaxf(most, fabsf(b[e]));
  EACH least = fminf(least, fabsf(a[e])), most = fmaxf(most, fabsf(a[e]));
  if (least >= 0x1p-60f & most <= 0x1p+60f) {
    float inverse[N], quotient[8], rest[8];
    for (int e = 0; e < N; ++e) inverse[e] = fast_reciprocal(b[e]);
    EACH quotient[e] = a[e] * inverse[OF];
    EACH rest[e] = fmaf(-b[OF], quotient[e], a[e]);
    EACH y[e] = fmaf(rest[e], inverse[OF], quotient[e]);
  } else {
    vec_div(y, a, divisor);
  }
#undef OF
}
DEVICE void vec_div_by(float (&y)[8], const float (&a)[8], float b) {
  const float by[1] = {b};
  vec_div_by(y, a, by);
}

// Eight neighbouring columns in memory, 16 bytes at a time; `at` counts elements, the address is a multiple of 16.
struct alignas(16) Quad { u32 x[4]; };
// Not ordered behind stores: an element that is written in place is read before, by the same thread. But ordered behind the
// wait for the launch before (follow_previous_launch), which may have written it: hence volatile, and not by the path of what
// never changes. A tensor that is read once is not kept in L1 (a row sum of 128 MB takes 36 us instead of 41).
enum Reads { ONCE, KEPT };
template <Reads reads> DEVICE Quad load_quad(i64 address) {
#ifndef POSTLUDE_HOST
  Quad q;
#define LOAD_QUAD(how) \
  asm volatile("ld.global" how ".v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(q.x[0]), "=r"(q.x[1]), "=r"(q.x[2]), "=r"(q.x[3]) : "l"(address))
  if (reads == ONCE) LOAD_QUAD(".L1::no_allocate");
  else LOAD_QUAD("");
  return q;
#else
  return *(const Quad*)address;
#endif
}
// Eight columns of a run: side by side (V == 8), or four and four, so that neighbouring threads read neighbouring 16 bytes of
// four-byte elements (V == 4). `at`: where the row begins; `first`, `second`: the columns of elements 0 and 4.
struct alignas(8) Half { u32 x[2]; };
DEVICE Half load_half(i64 address) {
#ifndef POSTLUDE_HOST
  Half h;
  asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(h.x[0]), "=r"(h.x[1]) : "l"(address));
  return h;
#else
  return *(const Half*)address;
#endif
}
DEVICE u32 load_word(i64 address) {
#ifndef POSTLUDE_HOST
  u32 x;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(x) : "l"(address));
  return x;
#else
  return *(const u32*)address;
#endif
}
// What lies in memory of them, and the numbers that it means.
template <int V, Reads reads> DEVICE void fetch_f32(i64 base, i64 at, int first, int second, Quad (&q)[2]) {
  q[0] = load_quad<reads>(base + (at + first) * 4), q[1] = load_quad<reads>(base + (at + second) * 4);
}
template <int V, Reads reads> DEVICE void fetch_bf16(i64 base, i64 at, int first, int second, Quad (&q)[1]) {
  if (V == 8) {
    q[0] = load_quad<reads>(base + (at + first) * 2);
  } else {
    const Half h = load_half(base + (at + first) * 2), r = load_half(base + (at + second) * 2);
    q[0] = {h.x[0], h.x[1], r.x[0], r.x[1]};
  }
}
template <int V, Reads reads> DEVICE void fetch_f16(i64 base, i64 at, int first, int second, Quad (&q)[1]) { fetch_bf16<V, reads>(base, at, first, second, q); }
// A byte each: eight bytes of an address that is a multiple of so many, or four and four.
template <int V, Reads reads> DEVICE void fetch_byte(i64 base, i64 at, int first, int second, Quad (&q)[1]) {
  if (V == 8) {
    const Half h = load_half(base + at + first);
    q[0].x[0] = h.x[0], q[0].x[1] = h.x[1];
  } else {
    q[0].x[0] = load_word(base + at + first), q[0].x[1] = load_word(base + at + second);
  }
}
DEVICE void unpack_f32(const Quad (&q)[2], float (&v)[8]) { EACH v[e] = __uint_as_float(q[e / 4].x[e % 4]); }
DEVICE void unpack_bf16(const Quad (&q)[1], float (&v)[8]) { EACH v[e] = __uint_as_float(e % 2 ? q[0].x[e / 2] & 0xffff0000u : q[0].x[e / 2] << 16); }
DEVICE void unpack_f16(const Quad (&q)[1], float (&v)[8]) { EACH v[e] = f16_to_f32(u16(q[0].x[e / 2] >> (e % 2 * 16))); }
template <int V> DEVICE void store_run_f32(i64 base, i64 at, int first, int second, bool in_first, bool in_second, const float (&v)[8]) {
  Quad q, r;
  #pragma unroll
  for (int e = 0; e < 4; ++e) q.x[e] = __float_as_uint(v[e]), r.x[e] = __float_as_uint(v[e + 4]);
  if (in_first) *(Quad*)(base + (at + first) * 4) = q;
  if (in_second) *(Quad*)(base + (at + second) * 4) = r;
}
DEVICE void store_halves(i64 base, i64 at, int first, int second, bool in_first, bool in_second, const Quad& q) {
  if (in_first) *(Half*)(base + (at + first) * 2) = {q.x[0], q.x[1]};
  if (in_second) *(Half*)(base + (at + second) * 2) = {q.x[2], q.x[3]};
}
template <int V> DEVICE void store_run_bf16(i64 base, i64 at, int first, int second, bool in_first, bool in_second, const float (&v)[8]) {
  Quad q;
  #pragma unroll
  for (int e = 0; e < 8; e += 2) q.x[e / 2] = f32x2_to_bf16(v[e], v[e + 1]);
  if (V == 4) return store_halves(base, at, first, second, in_first, in_second, q);
  if (in_first) *(Quad*)(base + (at + first) * 2) = q;
}
template <int V> DEVICE void store_run_f16(i64 base, i64 at, int first, int second, bool in_first, bool in_second, const float (&v)[8]) {
  Quad q;
  #pragma unroll
  for (int e = 0; e < 8; e += 2) q.x[e / 2] = f32x2_to_f16(v[e], v[e + 1]);
  if (V == 4) return store_halves(base, at, first, second, in_first, in_second, q);
  if (in_first) *(Quad*)(base + (at + first) * 2) = q;
}
#define BYTES(type, T) \
  template <int V, Reads reads> DEVICE void fetch_##type(i64 base, i64 at, int first, int second, Quad (&q)[1]) { \
    fetch_byte<V, reads>(base, at, first, second, q); \
  } \
  DEVICE void unpack_##type(const Quad (&q)[1], T (&v)[8]) { EACH v[e] = bits_##type(q[0].x[e / 4] >> (e % 4 * 8) & 255); } \
  template <int V> DEVICE void store_run_##type(i64 base, i64 at, int first, int second, bool in_first, bool in_second, const float (&v)[8]) { \
    const Half h = {pack_##type(v[0], v[1]) | pack_##type(v[2], v[3]) << 16, pack_##type(v[4], v[5]) | pack_##type(v[6], v[7]) << 16}; \
    if (V == 8 && in_first) *(Half*)(base + at + first) = h; \
    if (V == 4 && in_first) *(u32*)(base + at + first) = h.x[0]; \
    if (V == 4 && in_second) *(u32*)(base + at + second) = h.x[1]; \
  }
BYTES(s8, int)
BYTES(u8, int)
BYTES(e4m3, float)
BYTES(e5m2, float)
BYTES(bool, bool)
#undef BYTES
)cuda"
