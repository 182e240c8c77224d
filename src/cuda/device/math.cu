R"cuda(
// The language's operations on f32, i32 (wrapping), i64 (wrapping) and bool, each within the error of ops.def. Where a
// form of our own stands instead of the compiler's, it is free of branches: an epilogue runs on one warp a scheduler, and
// a branch an element cost it two thirds of its speed (bias_gelu at K = 1024: 0.33 ms with IEEE division, 0.2 without).
// And ptxas takes far longer with branches: two sines and three powers of a thread's 128 elements five minutes and more.
DEVICE float op_neg(float x) { return -x; }
DEVICE int op_neg(int x) { return int(0u - u32(x)); }
DEVICE i64 op_neg(i64 x) { return i64(0ull - u64(x)); }
DEVICE float op_abs(float x) { return fabsf(x); }
DEVICE int op_abs(int x) { return x < 0 ? op_neg(x) : x; }
DEVICE i64 op_abs(i64 x) { return x < 0 ? op_neg(x) : x; }
DEVICE float op_add(float a, float b) { return a + b; }
DEVICE int op_add(int a, int b) { return int(u32(a) + u32(b)); }
DEVICE i64 op_add(i64 a, i64 b) { return i64(u64(a) + u64(b)); }
DEVICE float op_sub(float a, float b) { return a - b; }
DEVICE int op_sub(int a, int b) { return int(u32(a) - u32(b)); }
DEVICE i64 op_sub(i64 a, i64 b) { return i64(u64(a) - u64(b)); }
DEVICE float op_mul(float a, float b) { return a * b; }
DEVICE int op_mul(int a, int b) { return int(u32(a) * u32(b)); }
DEVICE i64 op_mul(i64 a, i64 b) { return i64(u64(a) * u64(b)); }
DEVICE float op_fma(float a, float b, float c) { return fmaf(a, b, c); }
DEVICE int op_fma(int a, int b, int c) { return op_add(op_mul(a, b), c); }
DEVICE i64 op_fma(i64 a, i64 b, i64 c) { return op_add(op_mul(a, b), c); }
// By 0 and -1 through 1, times what they make of it.
DEVICE int op_floordiv(int a, int b) {
  const bool special = u32(b) + 1u < 2u;
  const int divisor = special ? 1 : b, q = a / divisor, rest = a - q * divisor;
  return op_mul(q - int((rest != 0) & ((rest ^ divisor) < 0)), special ? b : 1);
}
DEVICE i64 op_floordiv(i64 a, i64 b) {
  const bool special = u64(b) + 1ull < 2ull;
  const i64 divisor = special ? 1 : b, q = a / divisor, rest = a - q * divisor;
  return op_mul(q - i64((rest != 0) & ((rest ^ divisor) < 0)), special ? b : 1);
}
DEVICE int op_min(int a, int b) { return a < b ? a : b; }
DEVICE i64 op_min(i64 a, i64 b) { return a < b ? a : b; }
DEVICE bool op_min(bool a, bool b) { return a && b; }
DEVICE int op_max(int a, int b) { return a > b ? a : b; }
DEVICE i64 op_max(i64 a, i64 b) { return a > b ? a : b; }
DEVICE bool op_max(bool a, bool b) { return a || b; }

DEVICE int op_where(bool c, int a, int b) { return c ? a : b; }
DEVICE i64 op_where(bool c, i64 a, i64 b) { return c ? a : b; }
DEVICE bool op_where(bool c, bool a, bool b) { return c ? a : b; }

#ifndef POSTLUDE_HOST
// What it gives is hidden: of -1 and -0, which `where(c, 1, 0) * -1` is folded to, ptxas 13.0 makes integers, and 0 of -0.
DEVICE float op_where(bool c, float a, float b) { float r = c ? a : b; asm("" : "+f"(r)); return r; }
// NaN wins; -0 is below +0.
DEVICE float op_min(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
DEVICE float op_max(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
DEVICE float fast_exp2(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEVICE float fast_reciprocal(float x) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
DEVICE float fast_log2(float x) { float r; asm("lg2.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
// Anything, without an instruction: what a register had before is not wanted any more (decision 0320).
DEVICE float meaningless() { float r; asm("" : "=f"(r)); return r; }
// x, which is computed whether it is chosen or not.
DEVICE float without_branch(float x) { asm volatile("" : "+f"(x)); return x; }
DEVICE float fast_rsqrt(float x) { float r; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
// a * b + c held to [0, 1]; of NaN 0.
DEVICE float saturated_fma(float a, float b, float c) { float r; asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c)); return r; }
#endif

// a / b, correctly rounded but for results below the normal ones, which are rounded twice: the quotient of a and b scaled
// into the middle of the range, so that the remainder is exact, and one Newton step on it. (Without a's scale a quotient of
// denormal numbers became 0, and its floor 0 instead of -1.)
DEVICE float op_div(float a, float b) {
  const float size = fabsf(b);
  const bool small = fabsf(a) < 0x1p-64f;
  const float scale = size > 0x1p+64f ? 0x1p-64f : size < 0x1p-64f ? 0x1p+64f : 1.f;
  const float dividend = small ? a * 0x1p+64f : a, divisor = b * scale, inverse = fast_reciprocal(divisor);
  const float quotient = dividend * inverse;
  const float refined = fmaf(fmaf(-divisor, quotient, dividend), inverse, quotient);
  return (fabsf(refined) <= 0x1.fffffep+127f && quotient != 0.f ? refined : quotient) * (small ? scale * 0x1p-64f : scale);
}
// The same by a constant, its bits too, from the two parts of what it is divided into 1, which have its sign (quotient() in
// emit/ops.cpp): five instructions for eleven. And two, wrong by up to 2^-149 below 2^-97.
DEVICE float op_div_by(float a, float high, float low) {
  const bool small = fabsf(a) < 0x1p-64f;
  const float x = small ? a * 0x1p+64f : a, y = fmaf(x, high, x * low);
  return small ? y * 0x1p-64f : y;
}
DEVICE float op_div_about(float a, float high, float low) { return fmaf(a, high, a * low); }
// exp(x) / s for x <= 0 or NaN, s in [1, 2^31) or NaN, in six instructions where exp and a division of any numbers take
// twenty. The exponential of what the product with log2(e) was rounded to, and a first-order step from there; below the normal
// numbers it is 0. That ln 2 is short costs 0.7 units of 2^-24 at x = -16 and 6 at -82, the rest by its parts' bounds 8: exp
// may lose 4 and s, a sum carried along with a running maximum, 13 (running_error in reference/reduce.cpp).
DEVICE float softmax_weight(float x, float s) {
  const float y = op_max(x, -120.f), t = y * 0x1.715476p+0f, e = fast_exp2(t);
  return fmaf(e, fmaf(t, -0x1.62e43p-1f, y), e) * fast_reciprocal(s);
}
DEVICE float op_floordiv(float a, float b) { return floorf(op_div(a, b)); }
DEVICE float op_reciprocal(float x) { return op_div(1.f, x); }
DEVICE float op_exp(float x) { return expf(x); }
DEVICE float op_expm1(float x) { return expm1f(x); }
DEVICE float op_log(float x) { return logf(x); }
DEVICE float op_log2(float x) { return log2f(x); }
DEVICE float op_rsqrt(float x) { return rsqrtf(x); }
DEVICE float op_floor(float x) { return floorf(x); }
DEVICE float op_ceil(float x) { return ceilf(x); }
DEVICE float op_round(float x) { return rintf(x); }
DEVICE float op_scaled(float s, float x) { return s == 0.f ? 0.f : s * x; }

// exp(x) for x <= 0 or NaN in five instructions: 2^t, t a little below x log2(e), and a first-order step from there by what that
// lacks, which is not negative; of -inf, where it is NaN, saturation makes it 0. Below the normal numbers it is 0. Of x > 0 it
// is 2^t, and loses 2 x units of 2^-24.
DEVICE float exp_below(float x) {
  const float t = x * 0x1.715478p+0f, e = fast_exp2(t);
  return fmaf(e, saturated_fma(t, 0x1.05c61p-29f, fmaf(t, -0x1.62e43p-1f, x)), e);
}
// 1 - 2 / (1 + e^2|x|), and below 0.55, where that loses too much, a polynomial.
DEVICE float op_tanh(float x) {
  const float far = copysignf(fmaf(-2.f, fast_reciprocal(1.f + fast_exp2(fabsf(x) * 0x1.715476p+1f)), 1.f), x), y = x * x;
  float p = fmaf(0x1.0d53ep-6f, y, -0x1.af7dc8p-5f);
  p = fmaf(p, y, 0x1.10cfp-3f);
  p = fmaf(p, y, -0x1.555452p-2f);
  const float near = x * fmaf(p, y, 1.f);
  return fabsf(x) < 0.55f ? near : far;
}
// 1 - 2^p(|x|), and below 1 a polynomial.
DEVICE float op_erf(float x) {
  const float size = fabsf(x), y = x * x;
  float p = fmaf(-0x1.b30ea6p-10f, size, 0x1.5d4c3ep-6f);
  p = fmaf(p, size, -0x1.05e056p-3f);
  p = fmaf(p, size, -0x1.e37262p-1f);
  p = fmaf(p, size, -0x1.9cb3e8p+0f);
  const float far = copysignf(1.f - fast_exp2(fmaf(p, size, -0x1.f94e78p-9f)), x);
  float q = fmaf(-0x1.2086a4p-11f, y, 0x1.404e8p-8f);
  q = fmaf(q, y, -0x1.b53ce2p-6f);
  q = fmaf(q, y, 0x1.ce00dcp-4f);
  q = fmaf(q, y, -0x1.812638p-2f);
  const float near = x * fmaf(q, y, 0x1.20dd74p+0f);
  return size < 1.f ? near : far;
}

// x 2^n for n in [-252, 254], in two steps, of which each factor is a normal number.
DEVICE float scaled_by(float x, int n) {
  const int half = n >> 1;
  return x * __uint_as_float(u32(half + 127) << 23) * __uint_as_float(u32(n - half + 127) << 23);
}
// Correctly rounded: a Newton step on x / sqrt(x), x in the range where the remainder is exact.
DEVICE float op_sqrt(float x) {
  const bool small = x < 0x1p-64f;
  const float a = small ? x * 0x1p+64f : x, inverse = fast_rsqrt(a), root = a * inverse;
  const float refined = fmaf(fmaf(-root, root, a), 0.5f * inverse, root);
  return x == 0.f || x == INF ? x : small ? refined * 0x1p-32f : refined;
}

// A polynomial: the hardware's own was seen to be wrong by 2.03 units in the last place, and 2 are allowed.
DEVICE float op_exp2(float x) {
  const float c = op_min(op_max(x, -151.f), 129.f), whole = rintf(c), r = c - whole;
  float p = fmaf(0x1.441412p-13f, r, 0x1.5f0956p-10f);
  p = fmaf(p, r, 0x1.3b2a52p-7f);
  p = fmaf(p, r, 0x1.c6af6cp-5f);
  p = fmaf(p, r, 0x1.ebfbe0p-3f);
  p = fmaf(p, r, 0x1.62e430p-1f);
  return scaled_by(fmaf(p, r, 1.f), int(whole));
}

// x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), for x positive, normal and finite.
struct Split { float f; int e; };
DEVICE Split split(float x) {
  const u32 bits = __float_as_uint(x);
  const int e = int(bits - 0x3f3504f3) >> 23;
  return {__uint_as_float(bits - (u32(e) << 23)) - 1.f, e};
}
// What 1 + x loses of x is put back: the logarithm's derivative times it.
DEVICE float op_log1p(float x) {
  const float u = 1.f + x, y = logf(u), r = without_branch(fmaf(x - (u - 1.f), fast_reciprocal(u), y));
  const float finite = fabsf(y) < INF ? r : y;
  return x == 0.f ? x : finite;
}
// 2^(b log2 |a|), the logarithm as the sum of two floats: log2(1 + f) = 2 / ln 2 (s + s^3 / 3 + ...), s = f / (f + 2).
DEVICE float op_pow(float a, float b) {
  const float size = fabsf(a), bound = fabsf(b);
  const bool small = size < 0x1p-126f;
  const Split v = split(small ? size * 0x1p+24f : size);
  const float divisor = v.f + 2.f, inverse = fast_reciprocal(divisor), quotient = v.f * inverse;
  const float remainder = fmaf(-quotient, v.f - (divisor - 2.f), fmaf(-quotient, divisor, v.f));
  const float s = fmaf(remainder, inverse, quotient), rest = fmaf(remainder, inverse, quotient - s), t = s * s;
  float p = fmaf(0x1.5903fp-2f, t, 0x1.a5cacep-2f);
  p = fmaf(p, t, 0x1.2776e8p-1f);
  p = fmaf(p, t, 0x1.ec709ep-1f);
  const float main = s * 0x1.715476p+1f, e = float(v.e - (small ? 24 : 0));
  const float tail = fmaf(p * t, s, fmaf(rest, 0x1.715476p+1f, fmaf(s, 0x1.4ae0cp-25f, fmaf(s, 0x1.715476p+1f, -main))));
  const float sum = e + main, high = size == 0.f ? -INF : size < INF ? sum : size, low = main - (sum - e) + tail;
  // Beyond 2^160 and below 2^-160 all is infinite or 0, also when it is scaled in two steps.
  const float product = high * b, y = op_min(op_max(product, -160.f), 160.f), whole = rintf(y);
  const float less = fmaf(low, b, fmaf(high, b, -product)), fraction = y - whole + (fabsf(product) < 160.f ? less : 0.f);
  const float power = scaled_by(fast_exp2(fraction), int(whole));
  // Of a negative number: only to whole powers, of which those from 2^24 on are even.
  const int integer = int(bound < 0x1p+24f ? bound : 0.f);
  const bool is_whole = bound >= 0x1p+23f || float(integer) == bound;
  const float r = __uint_as_float(__float_as_uint(power) ^ (is_whole ? u32(integer) << 31 & __float_as_uint(a) : 0));
  const float real = a < 0.f && a > -INF && !is_whole ? QNAN : r;
  return a == 1.f || b == 0.f || (size == 1.f && bound == INF) ? 1.f : real;
}

// The sine of |x| and so many quarter turns.
CONSTANT u32 two_over_pi[8] = {0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
DEVICE float sine(float x, u32 quarters) {
  // Up to 2^17 the nearest number of quarter turns is taken away in three parts (Cody and Waite).
  const float size = fabsf(x), shifted = fmaf(size, 0x1.45f306p-1f, 0x1.8p+23f), turns = shifted - 0x1.8p+23f;
  const float near = fmaf(turns, 0x1.ee59dap-50f, fmaf(turns, 0x1.777a5cp-25f, fmaf(turns, -0x1.921fb6p+0f, size)));
  // Beyond, x = significand 2^e times the bits of 2 / pi from the weight of 2^(1 - e) on; those before count whole turns (Payne
  // and Hanek). What is left of a turn has 62 bits, and is not below 2^-31.
  const u32 bits = __float_as_uint(size), significand = (bits & 0x7fffff) | 0x800000, at = max(bits >> 23, 144u) - 120;
  const u32* w = two_over_pi + (at >> 5);
  const u64 middle = u64(significand) * __funnelshift_l(w[2], w[1], at) + __umulhi(significand, __funnelshift_l(w[3], w[2], at));
  const u32 top = significand * __funnelshift_l(w[1], w[0], at) + u32(middle >> 32), nearest = (top + 0x20000000) >> 30;
  const int left = int(top - (nearest << 30));
  const float high = float(left), low = fmaf(float(u32(middle)), 0x1p-32f, float(left - int(high)));
  const float far = without_branch(fmaf(high, 0x1.921fb6p-30f, fmaf(low, 0x1.921fb6p-30f, high * -0x1.777a5cp-55f)));
  const bool is_far = size >= 0x1p+17f && size < INF;
  const float z = is_far ? far : near, y = z * z;
  const u32 quarter = (is_far ? nearest : __float_as_uint(shifted)) + quarters;
  // z + z^3 (...) or 1 + z^2 (-1/2 + ...), by one polynomial, for two would be computed in branches.
  const bool odd = quarter & 1;
  float p = fmaf(odd ? 0x1.99e9d4p-16f : 0.f, y, odd ? -0x1.6c0c2cp-10f : -0x1.9954a8p-13f);
  p = fmaf(p, y, odd ? 0x1.55554ap-5f : 0x1.11077ap-7f);
  p = fmaf(p, y, odd ? -0.5f : -0x1.555546p-3f);
  const float r = fmaf(odd ? y : z * y, p, odd ? 1.f : z);
  return quarter & 2 ? -r : r;
}
DEVICE float op_sin(float x) { const float r = sine(x, 0); return __uint_as_float(__float_as_uint(r) ^ (__float_as_uint(x) & 0x80000000)); }
DEVICE float op_cos(float x) { return sine(x, 1); }

// Functions of the prelude whose short forms here are at least as accurate as what their definitions would give.
// exp(-|x|), on an H200 wrong by 1.6 units in the last place at most. The hardware takes the exponent t down to the next multiple
// of 2^-23, of a negative multiple to the one below (decision 0261): so t is one, a little above -|x| log2(e), and a first-order
// step goes from there by what it has too much, less 2^-24 for the way down; of infinity, where it is NaN, saturation makes it 0.
DEVICE float exp_of_size(float x) {
  const float size = fabsf(x), t = __fmaf_ru(size, -0x1.715476p+0f, -1.5f) + 1.5f, e = fast_exp2(t);
  return fmaf(e, 0x1p-24f - saturated_fma(t, -0x1.05c61p-29f, fmaf(t, 0x1.62e43p-1f, size)), e);
}
// 1 / d for d in [1, 2], rounded once: the hardware's, which may be wrong by a unit in the last place, and a Newton step.
DEVICE float reciprocal_from_one(float d) {
  const float r = fast_reciprocal(d);
  return fmaf(fmaf(-d, r, 1.f), r, r);
}
DEVICE float call_sigmoid(float x) {
  const float e = exp_of_size(x);
  return (x < 0.f ? e : 1.f) * reciprocal_from_one(1.f + e);
}
DEVICE float call_silu(float x) {
  const float e = exp_of_size(x);
  return (x < 0.f ? x * e : x) * reciprocal_from_one(1.f + e);
}
// gelu in its tanh form is x * sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3); log2(e) is folded into the constants. A Newton
// step behind the hardware's reciprocal; of infinity, where it is NaN, saturation makes it 0.
DEVICE float gelu_share(float x) {
  const float d = 1.f + fast_exp2(x * fmaf(x * x, -0x1.a5a7dp-4f, -0x1.26aec2p+1f)), r = fast_reciprocal(d);
  return saturated_fma(fmaf(-d, r, 1.f), r, r);
}
DEVICE float call_gelu(float x) { return x * gelu_share(x); }

DEVICE float call_gelu_tanh(float x) { return call_gelu(x); }
DEVICE float call_dgelu(float x) {
  const float c = op_min(op_max(x, -30.f), 30.f), s = gelu_share(c);
  return fmaf(s * (1.f - s), c * fmaf(c * c, 0x1.b6676cp-3f, 0x1.988454p+0f), s);
}
DEVICE float call_dgelu_tanh(float x) { return call_dgelu(x); }

// log(1 + u) / u for u in [0, 1], to 2^-24.8 of itself.
DEVICE float log1p_over(float u) {
  float p = fmaf(0x1.5f9652p-8f, u, -0x1.ec9abep-6f);
  p = fmaf(p, u, 0x1.446d98p-4f);
  p = fmaf(p, u, -0x1.19aea6p-3f);
  p = fmaf(p, u, 0x1.88450ep-3f);
  p = fmaf(p, u, -0x1.fd136p-3f);
  p = fmaf(p, u, 0x1.5535dep-2f);
  p = fmaf(p, u, -0x1.ffff14p-2f);
  return fmaf(p, u, 1.f);
}
// log(1 + exp(x)) for x <= 0 or NaN.
DEVICE float op_log1p_exp(float x) {
  const float u = exp_below(x);
  return u * log1p_over(u);
}
DEVICE float call_softplus(float x) {
  const float u = exp_below(-fabsf(x));
  return fmaf(u, log1p_over(u), op_max(x, 0.f));
}
DEVICE float call_logsigmoid(float x) {
  const float u = exp_below(-fabsf(x));
  return fmaf(-u, log1p_over(u), op_min(x, 0.f));
}
// tanh(log(1 + e)) = n / (n + 2), n = e (e + 2); beyond 30 it is 1.
DEVICE float call_mish(float x) {
  const float e = exp_below(op_min(x, 30.f)), n = fmaf(e, e, e + e);
  return x * (n * fast_reciprocal(n + 2.f));
}
// x (1/2 + x p(x^2)), and from 1.4 on max(x, 0) - |x| 2^q(|x|), both to a seventh of 2^-24 of the normal distribution.
DEVICE float call_gelu_erf(float x) {
  const float size = fminf(fabsf(x), 20.f), y = x * x;
  float p = fmaf(-0x1.983116p-18f, y, 0x1.c465e2p-14f);
  p = fmaf(p, y, -0x1.3503d2p-10f);
  p = fmaf(p, y, 0x1.46a878p-7f);
  p = fmaf(p, y, -0x1.105706p-4f);
  p = fmaf(p, y, 0x1.98844ep-2f);
  float q = fmaf(-0x1.3648bep-12f, size, 0x1.5f32f6p-8f);
  q = fmaf(q, size, -0x1.7369d2p-5f);
  q = fmaf(q, size, -0x1.e327d8p-2f);
  q = fmaf(q, size, -0x1.23e722p+0f);
  q = fmaf(q, size, -0x1.00f448p+0f);
  const float near = x * fmaf(p, x, 0.5f), far = fmaf(-size, fast_exp2(q), op_max(x, 0.f));
  return size < 1.4f ? near : far;
}
// exp(x) - 1 for x <= 0: by a polynomial down to -ln 2.
DEVICE float call_elu(float x, float alpha) {
  float p = fmaf(0x1.0f8facp-10f, x, 0x1.088eaep-7f);
  p = fmaf(p, x, 0x1.5499bep-5f);
  p = fmaf(p, x, 0x1.554e2cp-3f);
  p = fmaf(p, x, 0x1.ffffd2p-2f);
  const float near = x * fmaf(p, x, 1.f), far = fast_exp2(x * 0x1.715476p+0f) - 1.f;
  return x > 0.f ? x : alpha * (x < -0x1.62e43p-1f ? far : near);
}

// x + 3 is 0 or above 2^-24, so the short quotient is exact.
DEVICE float call_hardsigmoid(float x) { return op_div_about(op_min(op_max(x + 3.f, 0.f), 6.f), 0x1.555554p-3f, 0x1.555556p-27f); }
DEVICE float call_hardswish(float x) { return x * call_hardsigmoid(x); }
// As op_div(), by what has a reciprocal; beyond 2^126 it is 1, and NaN where x is infinite.
DEVICE float call_softsign(float x) {
  const float d = op_min(1.f + fabsf(x), 0x1p+126f), r = fast_reciprocal(d), q = x * r;
  return copysignf(op_min(fabsf(fmaf(fmaf(-d, q, x), r, q)), 1.f), x);
}

// Rounding of an f32 to a narrower float format: `precision` bits of significand, exponents from `least`, largest value
// `most`. Modes: 1 toward zero, 2 up, 3 down, 4 stochastic by `u` in [0, 1).
DEVICE float round_to_format(float x, int precision, int least, float most, bool saturates, int mode, float u) {
  const float size = fabsf(x);
  const bool negative = __float_as_uint(x) >> 31;
  const int bottom = max(int(__float_as_uint(size) >> 23) - 127, least) - (precision - 1);  // exponent of the last place
  // x / unit in two exact steps, so that neither factor leaves the range.
  const int half = -bottom / 2, rest = -bottom - half;
  const float up = __uint_as_float(u32(half + 127) << 23), up_again = __uint_as_float(u32(rest + 127) << 23);
  const float down = __uint_as_float(u32(127 - half) << 23), down_again = __uint_as_float(u32(127 - rest) << 23);
  const float scaled = size * up * up_again, whole = floorf(scaled), fraction = scaled - whole;
  const bool away = mode == 4 ? u < fraction : mode != 1 && fraction != 0.f && negative == (mode == 3);
  float r = (whole + (away ? 1.f : 0.f)) * down * down_again;
  r = r <= most ? r : saturates || mode == 1 || mode == (negative ? 2 : 3) ? most : INF;
  r = size == INF && !saturates ? INF : r;
  return x == x ? copysignf(r, x) : x;
}
DEVICE float round_bf16(float x, int mode, float u) { return round_to_format(x, 8, -126, 0x1.fep+127f, false, mode, u); }
DEVICE float round_f16(float x, int mode, float u) { return round_to_format(x, 11, -14, 65504.f, false, mode, u); }
DEVICE float round_e4m3(float x, int mode, float u) { return round_to_format(x, 4, -6, 448.f, true, mode, u); }
DEVICE float round_e5m2(float x, int mode, float u) { return round_to_format(x, 3, -14, 57344.f, true, mode, u); }
DEVICE float round_bf16(float x) { return __uint_as_float(f32x2_to_bf16(0.f, x)); }
DEVICE float round_f16(float x) { return f16_to_f32(f32_to_f16(x)); }
DEVICE float round_e4m3(float x) { return e4m3_to_f32(f32_to_e4m3(x)); }
DEVICE float round_e5m2(float x) { return e5m2_to_f32(f32_to_e5m2(x)); }

// To an integral f32 in a mode; then to integers with saturation, NaN to 0.
DEVICE float round_integral(float x, int mode, float u) {
  const float whole = floorf(x);
  const float size = floorf(fabsf(x));
  return mode == 0 ? rintf(x) : mode == 1 ? truncf(x) : mode == 2 ? ceilf(x) : mode == 3 ? whole
       : copysignf(size + (u < fabsf(x) - size ? 1.f : 0.f), x);
}
// The instruction saturates; of NaN it makes 0, as i64 its least.
DEVICE int f32_to_i32(float x) { return __float2int_rn(x); }
DEVICE i64 f32_to_i64(float x) { const i64 r = __float2ll_rn(x); return x == x ? r : 0; }
DEVICE i64 clamp_i64(i64 x, i64 least, i64 most) { return x < least ? least : x > most ? most : x; }
DEVICE int to_i32(float x) { return f32_to_i32(x); }
DEVICE int to_i32(int x) { return x; }
DEVICE int to_i32(bool x) { return x; }
DEVICE int to_i32(i64 x) { return int(clamp_i64(x, -0x80000000ll, 0x7fffffffll)); }
DEVICE i64 to_i64(float x) { return f32_to_i64(x); }
DEVICE i64 to_i64(int x) { return x; }
DEVICE i64 to_i64(bool x) { return x; }
DEVICE i64 to_i64(i64 x) { return x; }
template <typename T> DEVICE int to_s8(T x) { return min(max(to_i32(x), -128), 127); }
template <typename T> DEVICE int to_u8(T x) { return min(max(to_i32(x), 0), 255); }
#ifndef POSTLUDE_HOST
// The conversion saturates to its own width, too.
DEVICE int to_s8(float x) { int r; asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; }
DEVICE int to_u8(float x) { int r; asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; }
// Two numbers of at most 127 in size, rounded, as two bytes, where `pick` is 0x40; where it is 0xfb as zeros, also of NaN, which an
// addition leaves without a sign. It takes one clock where a conversion takes eight (decision 0287).
DEVICE u32 whole_bytes(float a, float b, u32 pick) {
  const u32 x = __float_as_uint(a + 0x1.8p+23f), y = __float_as_uint(b + 0x1.8p+23f);
  u32 r; asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(pick)); return r;
}
#endif
template <typename T> DEVICE bool to_boolean(T x) { return x != T(0); }
DEVICE float to_f32(float x) { return x; }
DEVICE float to_f32(int x) { return float(x); }
DEVICE float to_f32(bool x) { return op_where(x, 1.f, 0.f); }
DEVICE float to_f32(i64 x) { return float(x); }

// Philox4x32-10. A block has the numbers of rows m and m + 8 (bit 3 of m is ignored) and of columns n and n + 1 (n even), as
// word[2 * row + column].
struct PhiloxBlock { u32 word[4]; };
// Of u64(a) * b ptxas 13.0 makes an addition of 0 to the upper word, too.
struct WidePair { u32 low, high; };
DEVICE WidePair wide_product(u32 a, u32 b) {
#ifndef POSTLUDE_HOST
  WidePair r; asm("{.reg .u64 t; mul.wide.u32 t, %2, %3; mov.b64 {%0, %1}, t;}" : "=r"(r.low), "=r"(r.high) : "r"(a), "r"(b)); return r;
#else
  const u64 r = u64(a) * b; return {u32(r), u32(r >> 32)};
#endif
}
DEVICE PhiloxBlock random_block(u64 seed, u32 stream, int b, int m, int n) {
  u32 c0 = u32(n) >> 1, c1 = u32(m) >> 4 << 3 | (u32(m) & 7), c2 = u32(b), c3 = stream, k0 = u32(seed), k1 = u32(seed >> 32);
  #pragma unroll
  for (int round = 0; round < 10; ++round) {
    const WidePair p0 = wide_product(0xD2511F53u, c0), p1 = wide_product(0xCD9E8D57u, c2);
    c0 = p1.high ^ c1 ^ k0, c2 = p0.high ^ c3 ^ k1;
    c1 = p1.low, c3 = p0.low;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}
// 24 bits in [0, 1).
DEVICE float to_uniform(u32 word) { return float(word >> 8) * 0x1p-24f; }
DEVICE float random_uniform(u64 seed, u32 stream, int b, int m, int n) {
  const PhiloxBlock x = random_block(seed, stream, b, m, n);
  return to_uniform((m >> 3 & 1) ? ((n & 1) ? x.word[3] : x.word[2]) : ((n & 1) ? x.word[1] : x.word[0]));
}
// Those of a thread's fragment: rows m and m + 8 by two even columns and what follows each. If rows and columns have changed places,
// two lanes that hold rows side by side have two numbers each of a block: each enciphers for one column of two, and gives the other
// lane its half.
template <bool turned> DEVICE void random_words(u32 (&u)[8], u64 seed, u32 stream, int b, int m, int left, int right) {
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    const bool odd = m & 1;
    const PhiloxBlock x = turned ? random_block(seed, stream, b, left + odd, m + 8 * q) : random_block(seed, stream, b, m, q ? right : left);
    #pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (!turned) u[4 * q + e] = x.word[e];
      if (!turned || e % 2) continue;
      const u32 own = odd ? x.word[e + 1] : x.word[e], given = __shfl_xor_sync(~0u, odd ? x.word[e] : x.word[e + 1], 4);
      u[2 * e + 2 * q] = odd ? given : own, u[2 * e + 2 * q + 1] = odd ? own : given;
    }
  }
}
template <bool turned> DEVICE void random_fragment(float (&u)[8], u64 seed, u32 stream, int b, int m, int left, int right) {
  u32 words[8];
  random_words<turned>(words, seed, stream, b, m, left, right);
  #pragma unroll
  for (int e = 0; e < 8; ++e) u[e] = to_uniform(words[e]);
}

// Where a scalar operand lies: at its address, or, bound by value, in the last of its four words among the parameters.
template <typename P> DEVICE i64 scalar_at(const P& p, int word) { return p.word[word] ? p.word[word] : i64(&p.word[word + 3]); }

// Elements of memory, as values and back. `at` counts elements.
template <typename T> DEVICE T element(i64 base, i64 at) { return ((const T*)base)[at]; }
DEVICE float load_f32(i64 base, i64 at) { return element<float>(base, at); }
DEVICE float load_bf16(i64 base, i64 at) { return bf16_to_f32(element<u16>(base, at)); }
DEVICE float load_f16(i64 base, i64 at) { return f16_to_f32(element<u16>(base, at)); }
DEVICE float load_e4m3(i64 base, i64 at) { return e4m3_to_f32(element<u8>(base, at)); }
DEVICE float load_e5m2(i64 base, i64 at) { return e5m2_to_f32(element<u8>(base, at)); }
DEVICE int load_s8(i64 base, i64 at) { return element<s8>(base, at); }
DEVICE int load_u8(i64 base, i64 at) { return element<u8>(base, at); }
DEVICE int load_i32(i64 base, i64 at) { return element<int>(base, at); }
DEVICE i64 load_i64(i64 base, i64 at) { return element<i64>(base, at); }
DEVICE bool load_bool(i64 base, i64 at) { return element<u8>(base, at) != 0; }
template <typename T> DEVICE void store_f32(i64 base, i64 at, T x) { ((float*)base)[at] = to_f32(x); }
template <typename T> DEVICE void store_bf16(i64 base, i64 at, T x) { ((u16*)base)[at] = f32_to_bf16(to_f32(x)); }
template <typename T> DEVICE void store_f16(i64 base, i64 at, T x) { ((u16*)base)[at] = f32_to_f16(to_f32(x)); }
template <typename T> DEVICE void store_e4m3(i64 base, i64 at, T x) { ((u8*)base)[at] = f32_to_e4m3(to_f32(x)); }
template <typename T> DEVICE void store_e5m2(i64 base, i64 at, T x) { ((u8*)base)[at] = f32_to_e5m2(to_f32(x)); }
template <typename T> DEVICE void store_s8(i64 base, i64 at, T x) { ((s8*)base)[at] = s8(to_s8(x)); }
template <typename T> DEVICE void store_u8(i64 base, i64 at, T x) { ((u8*)base)[at] = u8(to_u8(x)); }
template <typename T> DEVICE void store_i32(i64 base, i64 at, T x) { ((int*)base)[at] = to_i32(x); }
template <typename T> DEVICE void store_i64(i64 base, i64 at, T x) { ((i64*)base)[at] = to_i64(x); }
template <typename T> DEVICE void store_bool(i64 base, i64 at, T x) { ((u8*)base)[at] = to_boolean(x); }

// Bits as values, and two values as the bits of a pair.
DEVICE float bits_f32(u32 x) { return __uint_as_float(x); }
DEVICE float bits_bf16(u32 x) { return bf16_to_f32(u16(x)); }
DEVICE float bits_f16(u32 x) { return f16_to_f32(u16(x)); }
DEVICE float bits_e4m3(u32 x) { return e4m3_to_f32(u8(x)); }
DEVICE float bits_e5m2(u32 x) { return e5m2_to_f32(u8(x)); }
DEVICE int bits_s8(u32 x) { return s8(x); }
DEVICE int bits_u8(u32 x) { return int(x); }
DEVICE int bits_i32(u32 x) { return int(x); }
DEVICE bool bits_bool(u32 x) { return x != 0; }
template <typename T> DEVICE u32 pack_f32(T x) { return __float_as_uint(to_f32(x)); }
template <typename T> DEVICE u32 pack_i32(T x) { return u32(to_i32(x)); }
template <typename T> DEVICE u32 pack_bf16(T a, T b) { return f32x2_to_bf16(to_f32(a), to_f32(b)); }
template <typename T> DEVICE u32 pack_f16(T a, T b) { return f32x2_to_f16(to_f32(a), to_f32(b)); }
template <typename T> DEVICE u32 pack_e4m3(T a, T b) { return f32x2_to_e4m3(to_f32(a), to_f32(b)); }
template <typename T> DEVICE u32 pack_e5m2(T a, T b) { return f32x2_to_e5m2(to_f32(a), to_f32(b)); }
// Not by cvt.pack: behind a relu ptxas 13.0 makes F2IP.U8.F32.NTZ.RELU of it, which an H200 does not know.
template <typename T> DEVICE u32 pack_s8(T a, T b) { return __byte_perm(u32(to_s8(a)), u32(to_s8(b)), 0x40) & 0xffff; }
template <typename T> DEVICE u32 pack_u8(T a, T b) { return __byte_perm(u32(to_u8(a)), u32(to_u8(b)), 0x40) & 0xffff; }
template <typename T> DEVICE u32 pack_bool(T a, T b) { return u32(to_boolean(a)) | u32(to_boolean(b)) << 8; }
// Two or four neighbours in one store; `at` is a multiple of as many, and the base aligned to them.
template <typename T> DEVICE void store_bf16(i64 base, i64 at, T a, T b) { ((u32*)base)[at / 2] = pack_bf16(a, b); }
template <typename T> DEVICE void store_f16(i64 base, i64 at, T a, T b) { ((u32*)base)[at / 2] = pack_f16(a, b); }
template <typename T> DEVICE void store_f32(i64 base, i64 at, T a, T b) { ((u64*)base)[at / 2] = __float_as_uint(to_f32(a)) | u64(__float_as_uint(to_f32(b))) << 32; }
template <typename T> DEVICE void store_bf16(i64 base, i64 at, T a, T b, T c, T d) { ((u64*)base)[at / 4] = pack_bf16(a, b) | u64(pack_bf16(c, d)) << 32; }
template <typename T> DEVICE void store_f16(i64 base, i64 at, T a, T b, T c, T d) { ((u64*)base)[at / 4] = pack_f16(a, b) | u64(pack_f16(c, d)) << 32; }
template <typename T> DEVICE void store_f32(i64 base, i64 at, T a, T b, T c, T d) {
  struct alignas(16) Four { float x[4]; };
  ((Four*)base)[at / 4] = {to_f32(a), to_f32(b), to_f32(c), to_f32(d)};
}
template <int size> DEVICE i64 address_of(i64 base, i64 at) { return base + at * size; }
#ifndef POSTLUDE_HOST
// Two neighbouring columns in one load; `at` is even and the base aligned to both. Volatile, so that it stays ahead of the
// main loop that hides it.
DEVICE u32 pair_bf16(i64 base, i64 at) {
  u32 x; asm volatile("ld.global.b32 %0, [%1];" : "=r"(x) : "l"(base + at * 2)); return x;
}
DEVICE u32 pair_f16(i64 base, i64 at) { return pair_bf16(base, at); }
DEVICE u64 pair_f32(i64 base, i64 at) {
  u64 x; asm volatile("ld.global.b64 %0, [%1];" : "=l"(x) : "l"(base + at * 4)); return x;
}
// The same where no pair lies in one word.
DEVICE u32 split_bf16(i64 base, i64 at, i64 base2, i64 at2) {
  u16 x, y;
  asm volatile("ld.global.b16 %0, [%1];" : "=h"(x) : "l"(base + at * 2));
  asm volatile("ld.global.b16 %0, [%1];" : "=h"(y) : "l"(base2 + at2 * 2));
  return u32(y) << 16 | x;
}
DEVICE u32 split_f16(i64 base, i64 at, i64 base2, i64 at2) { return split_bf16(base, at, base2, at2); }
DEVICE u64 split_f32(i64 base, i64 at, i64 base2, i64 at2) {
  u32 x, y;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(x) : "l"(base + at * 4));
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(y) : "l"(base2 + at2 * 4));
  return u64(y) << 32 | x;
}
#endif
DEVICE void unpair_bf16(u32 x, float& a, float& b) { a = __uint_as_float(x << 16), b = __uint_as_float(x & 0xffff0000u); }
DEVICE void unpair_f16(u32 x, float& a, float& b) { a = f16_to_f32(u16(x)), b = f16_to_f32(u16(x >> 16)); }
DEVICE void unpair_f32(u64 x, float& a, float& b) { a = __uint_as_float(u32(x)), b = __uint_as_float(u32(x >> 32)); }
)cuda"
