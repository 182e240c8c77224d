R"cuda(
// How often a loop runs while `rest`, which falls by `step` each time, is not negative.
DEVICE i64 iterations(i64 rest, i64 step) { return rest < 0 ? 0 : rest / step + 1; }

// Whether (b, its index) comes before (a, its index) in argmax or argmin: beyond it, its equal and earlier, or the first NaN.
// An index of -1 is of nothing.
template <bool largest, typename T> DEVICE bool takes(T a, i64 at_a, T b, i64 at_b) {
  const bool beyond = largest ? b > a : b < a, earlier = u64(at_b) < u64(at_a);
  return beyond | (earlier & ((b == a) | (b != b))) | ((b != b) & (a == a));
}
// The same of indices that grow from call to call.
template <bool largest, typename T> DEVICE bool exceeds(T a, i64 at_a, T b) {
  return (!(largest ? a >= b : a <= b) & (a == a)) | (at_a < 0);
}


// The extreme of some elements that come in order, and the number of the first that is it: two passes over registers are
// shorter than a comparison of each with the one before.
template <bool largest, typename T> DEVICE T further(T a, T b) { return largest ? op_max(a, b) : op_min(a, b); }
template <bool largest, int N, typename T> DEVICE T extreme_of(const T (&x)[N]) {
  constexpr int lanes = N < 4 ? 1 : 4;  // chains, none of which waits for another
  T top[lanes];
  #pragma unroll
  for (int i = 0; i < N; ++i) top[i % lanes] = i < lanes ? x[i] : further<largest>(top[i % lanes], x[i]);
  #pragma unroll
  for (int i = 1; i < lanes; ++i) top[0] = further<largest>(top[0], top[i]);
  return top[0];
}
template <int N, typename T> DEVICE int first_of(const T (&x)[N], T& extreme) {  // which is its element then, of zeros too
  const T wanted = extreme;
  int at = 0;
  #pragma unroll
  for (int i = N - 1; i >= 0; --i) {
    const bool is = (x[i] == wanted) | (x[i] != x[i]);  // none is NaN, or the extreme is
    at = is ? i : at;
    extreme = is ? x[i] : extreme;
  }
  return at;
}

// A value's rank as an unsigned number: NaN above all, zeros alike.
template <bool largest> DEVICE u32 rank_of(float x) {
  const u32 bits = __float_as_uint((largest ? x : -x) + 0.f);
  return x != x ? ~0u : bits ^ (u32(int(bits) >> 31) | 0x80000000u);
}
template <bool largest> DEVICE u32 rank_of(int x) { return largest ? u32(x) ^ 0x80000000u : ~(u32(x) ^ 0x80000000u); }
// argmax or argmin across a whole warp, for all of its lanes: the greatest rank, then the smallest index among its owners.
template <bool largest, typename T> DEVICE void take_across_warp(T& x, i64& at) {
  const u32 rank = rank_of<largest>(x), high = u32(u64(at) >> 32), low = u32(at);
  const bool best = rank == __reduce_max_sync(~0u, rank);
  const u32 first_high = __reduce_min_sync(~0u, best ? high : ~0u);
  const bool among = best & (high == first_high);
  const u32 first_low = __reduce_min_sync(~0u, among ? low : ~0u);
  const u32 owner = __reduce_min_sync(~0u, among & (low == first_low) ? lane_id() : 31u);
  x = __shfl_sync(~0u, x, owner);
  at = i64(u64(first_high) << 32 | first_low);
}

// An address of what the launch before writes, known only behind follow_previous_launch().
DEVICE i64 settled(i64 address) {
#ifndef POSTLUDE_HOST
  asm volatile("" : "+l"(address) :: "memory");
#endif
  return address;
}

// Elements that this kernel does not write: loads that may be moved and shared.
template <typename T> DEVICE T still(i64 base, i64 at) {
#ifndef POSTLUDE_HOST
  return __ldg((const T*)base + at);
#else
  return ((const T*)base)[at];
#endif
}
DEVICE float fetch_f32(i64 base, i64 at) { return still<float>(base, at); }
DEVICE float fetch_bf16(i64 base, i64 at) { return bf16_to_f32(still<u16>(base, at)); }
DEVICE float fetch_f16(i64 base, i64 at) { return f16_to_f32(still<u16>(base, at)); }
DEVICE float fetch_e4m3(i64 base, i64 at) { return e4m3_to_f32(still<u8>(base, at)); }
DEVICE float fetch_e5m2(i64 base, i64 at) { return e5m2_to_f32(still<u8>(base, at)); }
DEVICE int fetch_s8(i64 base, i64 at) { return still<s8>(base, at); }
DEVICE int fetch_u8(i64 base, i64 at) { return still<u8>(base, at); }
DEVICE int fetch_i32(i64 base, i64 at) { return still<int>(base, at); }
DEVICE i64 fetch_i64(i64 base, i64 at) { return still<i64>(base, at); }
DEVICE bool fetch_bool(i64 base, i64 at) { return still<u8>(base, at) != 0; }

// Neighbouring elements as words: N of them, their address a multiple of their size, or of 16 bytes. What is read ONCE is not
// kept in L1. Volatile, for a compiler may take what is not in front of the test of the address (decision 0152).
template <int N> struct Words { u32 x[N]; };
template <Reads reads, int N> DEVICE Words<N> fetch_words(i64 address) {
  Words<N> w;
#ifndef POSTLUDE_HOST
#define LOAD_WORDS(how) \
  asm volatile("ld.global.nc" how ".v4.b32 {%0, %1, %2, %3}, [%4];" \
               : "=r"(w.x[i]), "=r"(w.x[i + 1]), "=r"(w.x[i + 2]), "=r"(w.x[i + 3]) \
               : "l"(address + i * 4))
  #pragma unroll
  for (int i = 0; i + 4 <= N; i += 4) {
    if (reads == ONCE) LOAD_WORDS(".L1::no_allocate");
    else LOAD_WORDS("");
  }
#undef LOAD_WORDS
  if (N == 2) asm volatile("ld.global.nc.v2.b32 {%0, %1}, [%2];" : "=r"(w.x[0]), "=r"(w.x[N - 1]) : "l"(address));
  if (N == 1) asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(w.x[0]) : "l"(address));
#else
  for (int i = 0; i < N; ++i) w.x[i] = ((const u32*)address)[i];
#endif
  return w;
}
template <int N> DEVICE void store_words(i64 address, const Words<N>& w) {
  #pragma unroll
  for (int i = 0; i + 4 <= N; i += 4) *(Quad*)(address + i * 4) = {w.x[i], w.x[i + 1], w.x[i + 2], w.x[i + 3]};
  if (N == 2) *(Half*)address = {w.x[0], w.x[N - 1]};
  if (N == 1) *(u32*)address = w.x[0];
}
)cuda"
