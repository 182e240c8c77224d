// What CUDA's compiler and PTX supply and Postlude's device code uses, for a host compiler: built-ins, conversions, the
// instructions of a warp, and a block's threads as fibers of one thread that take turns between barriers and shuffles.
// emission_test.cpp puts this before the device base and the generated kernels, each in a namespace of its own.
#define POSTLUDE_HOST
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define DEVICE static inline
#define DEVICE_STATIC static inline
#define METHOD inline
#define __device__
#define __global__ static
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))

namespace fibers {

struct Index {
  unsigned x, y, z;
};
static Index thread, block, grid;
constexpr int most_threads = 1024, stack_bytes = 128 << 10;
alignas(1024) static unsigned char shared[232448];

// Whom a fiber waits for: the 32 of its warp, the 128 of its consumer, the block's.
enum State { running, at_warp, at_group, at_barrier, done };
struct Fiber {
  jmp_buf place;
  ucontext_t begin;
  State state;
  bool begun;
  unsigned shuffles;
  unsigned long long slot[2][4];  // what a shuffle exchanges; two, so that one meeting a shuffle is enough
};
static Fiber fiber[most_threads];
static jmp_buf scheduler;
static int current, threads;
static void (*body)(void**);
static void** arguments;
static char* stacks;

static void wait(State state) {
  fiber[current].state = state;
  if (!_setjmp(fiber[current].place)) _longjmp(scheduler, 1);
}
static void entry() {
  body(arguments);
  fiber[current].state = done;
  _longjmp(scheduler, 1);
}
static void resume(int t) {
  current = t, thread = {unsigned(t), 0, 0};
  if (_setjmp(scheduler)) return;
  if (fiber[t].begun) _longjmp(fiber[t].place, 1);
  fiber[t].begun = true;
  setcontext(&fiber[t].begin);
}

// Where all of [first, last) that are not done wait for the same, lets them go.
static bool release(State state, int first, int last) {
  bool any = false;
  for (int t = first; t < last; ++t) {
    if (fiber[t].state != state && fiber[t].state != done) return false;
    any |= fiber[t].state == state;
  }
  for (int t = first; any && t < last; ++t)
    if (fiber[t].state == state) fiber[t].state = running;
  return any;
}

// Runs one block; false where its threads wait for each other for ever.
static bool run_block() {
  for (int t = 0; t < threads; ++t) {
    Fiber& f = fiber[t];
    getcontext(&f.begin);
    f.begin.uc_stack.ss_sp = stacks + size_t(t) * stack_bytes;
    f.begin.uc_stack.ss_size = stack_bytes;
    f.begin.uc_link = nullptr;
    makecontext(&f.begin, entry, 0);
    f.state = running, f.begun = false;
  }
  for (;;) {
    bool moved = false, all_done = true;
    for (int warp = 0; warp < threads; warp += 32) {
      const int end = warp + 32 < threads ? warp + 32 : threads;
      do {  // a warp as far as it comes
        for (int t = warp; t < end; ++t)
          if (fiber[t].state == running) resume(t), moved = true;
      } while (release(at_warp, warp, end));
    }
    for (int t = 0; t < threads; t += 128) moved |= release(at_group, t, t + 128 < threads ? t + 128 : threads);
    moved |= release(at_barrier, 0, threads);
    for (int t = 0; t < threads; ++t) all_done = all_done && fiber[t].state == done;
    if (all_done) return true;
    if (!moved) return false;
  }
}

// Puts `x` where the warp's lanes find it; gives theirs.
template <class T>
struct Exchanged {
  unsigned parity;
  T operator[](int lane) const {
    T x;
    memcpy(&x, fiber[current / 32 * 32 + lane].slot[parity], sizeof x);
    return x;
  }
};
template <class T>
static Exchanged<T> exchange(const T& x) {
  Fiber& f = fiber[current];
  const unsigned parity = f.shuffles++ & 1;
  static_assert(sizeof x <= sizeof f.slot[0], "");
  memcpy(f.slot[parity], &x, sizeof x);
  wait(at_warp);
  return {parity};
}
static int lane() { return current % 32; }

}  // namespace fibers

#define threadIdx (::fibers::thread)
#define blockIdx (::fibers::block)
#define gridDim (::fibers::grid)

static inline void __syncthreads() { fibers::wait(fibers::at_barrier); }
static inline void __syncwarp(unsigned = ~0u) { fibers::wait(fibers::at_warp); }
static inline void named_sync(unsigned, unsigned) { fibers::wait(fibers::at_group); }
static inline void __threadfence() {}
template <class T>
static T __shfl_sync(unsigned, T x, int from) {
  return fibers::exchange(x)[from];
}
template <class T>
static T __shfl_xor_sync(unsigned, T x, int mask) {
  return fibers::exchange(x)[fibers::lane() ^ mask];
}
template <class T>
static T __shfl_up_sync(unsigned, T x, int by, int width = 32) {
  return fibers::exchange(x)[fibers::lane() % width < by ? fibers::lane() : fibers::lane() - by];
}
template <class T>
static T __shfl_down_sync(unsigned, T x, int by, int width = 32) {
  return fibers::exchange(x)[fibers::lane() % width + by >= width ? fibers::lane() : fibers::lane() + by];
}
template <class T>
static T __ldcg(const T* p) {
  return *p;
}

template <class To, class From>
static To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From), "");
  To r;
  memcpy(&r, &x, sizeof r);
  return r;
}
static inline float __int_as_float(int x) { return bits_as<float>(x); }
static inline float __uint_as_float(unsigned x) { return bits_as<float>(x); }
static inline unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
static inline int __float_as_int(float x) { return bits_as<int>(x); }
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return by & 31 ? high << (by & 31) | low >> (32 - (by & 31)) : high;
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return by & 31 ? low >> (by & 31) | high << (32 - (by & 31)) : low;
}
static inline float rsqrtf(float x) { return float(1 / sqrt(double(x))); }
template <class T, class U>
static inline auto min(T a, U b) -> decltype(a + b) {
  return b < a ? b : a;
}
template <class T, class U>
static inline auto max(T a, U b) -> decltype(a + b) {
  return a < b ? b : a;
}
struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};

// ---- base.cu, math.cu, vector.cu --------------------------------------------------------------------------
static inline float negative_zero() { return -0.0f; }
static inline void follow_previous_launch() {}
static inline unsigned lane_id() { return fibers::lane(); }
static inline unsigned arrive_and_count(unsigned* counter) { return (*counter)++; }
static inline float bf16_to_f32(unsigned short x) { return __uint_as_float(unsigned(x) << 16); }
static inline float f16_to_f32(unsigned short x) {
  _Float16 h;
  memcpy(&h, &x, 2);
  return float(h);
}
static inline unsigned short f32_to_bf16(float x) {
  const unsigned bits = __float_as_uint(x);
  return x != x ? 0x7fff : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline unsigned short f32_to_f16(float x) {
  const _Float16 h = _Float16(x);
  unsigned short r;
  memcpy(&r, &h, 2);
  return r;
}

// An 8-bit float with `fraction` bits of fraction; the largest code's value is the format's.
static inline float fp8_value(int x, int fraction, int bias) {
  const int exponent = (x & 127) >> fraction, significand = x & ((1 << fraction) - 1);
  const bool top = (x & 127) >= (fraction == 3 ? 127 : 124);  // e4m3 has no infinity
  const float size =
      top ? (fraction == 2 && significand == 0 ? INFINITY : NAN)
          : ldexpf(float((exponent ? 1 << fraction : 0) + significand), (exponent ? exponent : 1) - bias - fraction);
  return x & 128 ? -size : size;
}
// The nearest code, an even one of two; saturating.
static inline unsigned char to_fp8(float x, int fraction, int bias, int largest) {
  const int sign = __float_as_uint(x) >> 31 ? 128 : 0;
  if (x != x) return 127;
  int low = 0, high = largest;  // magnitudes grow with their codes
  while (high - low > 1) (fp8_value((low + high) / 2, fraction, bias) <= fabsf(x) ? low : high) = (low + high) / 2;
  const double below = double(fabsf(x)) - fp8_value(low, fraction, bias),
               above = double(fp8_value(high, fraction, bias)) - fabsf(x);
  return (unsigned char)(sign | (above < below || (above == below && high % 2 == 0) ? high : low));
}
static inline unsigned char f32_to_e4m3(float x) { return to_fp8(x, 3, 7, 126); }
static inline unsigned char f32_to_e5m2(float x) { return to_fp8(x, 2, 15, 123); }
static inline float e4m3_to_f32(unsigned char x) { return fp8_value(x, 3, 7); }
static inline float e5m2_to_f32(unsigned char x) { return fp8_value(x, 2, 15); }
static inline unsigned f32x2_to_bf16(float a, float b) { return f32_to_bf16(a) | unsigned(f32_to_bf16(b)) << 16; }
static inline unsigned f32x2_to_f16(float a, float b) { return f32_to_f16(a) | unsigned(f32_to_f16(b)) << 16; }
static inline unsigned short f32x2_to_e4m3(float a, float b) {
  return (unsigned short)(f32_to_e4m3(a) | f32_to_e4m3(b) << 8);
}
static inline unsigned short f32x2_to_e5m2(float a, float b) {
  return (unsigned short)(f32_to_e5m2(a) | f32_to_e5m2(b) << 8);
}
// NaN wins; -0 is below +0.
static inline float op_min(float a, float b) {
  return a != a ? a : b != b ? b : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}
static inline float op_max(float a, float b) {
  return a != a ? a : b != b ? b : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}
static inline float fast_exp2(float x) { return exp2f(x); }
static inline float fast_reciprocal(float x) { return 1 / x; }
static inline float fast_log2(float x) { return log2f(x); }
template <class T>
static T at(long long address) {
  T x;
  memcpy(&x, (const void*)address, sizeof x);
  return x;
}
static inline unsigned split_bf16(long long base, long long i, long long base2, long long j) {
  return at<unsigned short>(base + 2 * i) | unsigned(at<unsigned short>(base2 + 2 * j)) << 16;
}
static inline unsigned split_f16(long long base, long long i, long long base2, long long j) {
  return split_bf16(base, i, base2, j);
}
static inline unsigned long long split_f32(long long base, long long i, long long base2, long long j) {
  return at<unsigned>(base + 4 * i) | (unsigned long long)(at<unsigned>(base2 + 4 * j)) << 32;
}
static inline unsigned pair_bf16(long long base, long long i) { return at<unsigned>(base + 2 * i); }
static inline unsigned pair_f16(long long base, long long i) { return at<unsigned>(base + 2 * i); }
static inline unsigned long long pair_f32(long long base, long long i) { return at<unsigned long long>(base + 4 * i); }

// ---- fragment.cu, sm80.cu: shared memory is an array, its addresses are offsets ---------------------------
static inline unsigned smem_address(const void* p) { return unsigned((const unsigned char*)p - fibers::shared); }
static inline void* __cvta_shared_to_generic(unsigned address) { return fibers::shared + address; }
static inline int opaque(int x) { return x; }
static inline void move_nothing_across(bool) {}
static inline unsigned word_at(unsigned address) { return at<unsigned>((long long)(fibers::shared + address)); }
template <class T>
static void put(unsigned address, T x) {
  memcpy(fibers::shared + address, &x, sizeof x);
}
static inline void shared_store(unsigned to, unsigned a, unsigned b) { put(to, a), put(to + 4, b); }
static inline void shared_store(unsigned to, unsigned a) { put(to, a); }
static inline void shared_store(unsigned to, unsigned short a) { put(to, a); }
static inline void shared_load(unsigned from, unsigned& a, unsigned& b) { a = word_at(from), b = word_at(from + 4); }
static inline void shared_load(unsigned from, unsigned& a, unsigned& b, unsigned& c, unsigned& d) {
  shared_load(from, a, b), shared_load(from + 8, c, d);
}
static inline unsigned short shared_load(unsigned from) {
  return at<unsigned short>((long long)(fibers::shared + from));
}
static inline unsigned shared_load_word(unsigned from) { return word_at(from); }
static inline void copy_async(unsigned to, long long from, int bytes) {
  memset(fibers::shared + to, 0, 16);
  memcpy(fibers::shared + to, (const void*)from, size_t(bytes));
}
static inline void copy_commit() {}
template <int>
static void copy_wait() {}

// Four matrices of 8 x 8 elements of 16 bits; lane 8 i + r says where row r of matrix i is. Of each a lane gets two
// neighbours.
static inline void ldmatrix(unsigned from, unsigned& a, unsigned& b, unsigned& c, unsigned& d) {
  const auto rows = fibers::exchange(from);
  unsigned* const to[4] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i) *to[i] = word_at(rows[8 * i + fibers::lane() / 4] + fibers::lane() % 4 * 4);
}
static inline void ldmatrix_transposed(unsigned from, unsigned& a, unsigned& b, unsigned& c, unsigned& d) {
  const auto rows = fibers::exchange(from);
  unsigned* const to[4] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i) {
    const int row = 8 * i + fibers::lane() % 4 * 2, at = fibers::lane() / 4 * 2;
    *to[i] = shared_load(rows[row] + at) | unsigned(shared_load(rows[row + 1] + at)) << 16;
  }
}

// mma.sync's m16n8 over 32 bytes of K, of the types that PTX names.
static inline double mma_element(const char* type, unsigned word, int index) {
  const unsigned half = word >> 16 * (index & 1), byte = word >> 8 * index;
  if (!strcmp(type, "bf16")) return bf16_to_f32((unsigned short)half);
  if (!strcmp(type, "f16")) return f16_to_f32((unsigned short)half);
  if (!strcmp(type, "e4m3")) return e4m3_to_f32((unsigned char)byte);
  if (!strcmp(type, "e5m2")) return e5m2_to_f32((unsigned char)byte);
  return !strcmp(type, "s8") ? int((signed char)byte) : int((unsigned char)byte);
}
struct MmaFragments {
  unsigned a[4], b[2];
};
template <class T>
static void mma_on_host(T* const (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const char* a_type,
                        const char* b_type) {
  const auto lanes = fibers::exchange(MmaFragments{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
  const int per = strstr(a_type, "16") ? 2 : 4;  // elements a register
  for (int i = 0; i < 4; ++i) {
    const int row = fibers::lane() / 4 + i / 2 * 8, column = fibers::lane() % 4 * 2 + i % 2;
    double sum = *d[i];
    for (int quarter = 0; quarter < 4; ++quarter) {
      const MmaFragments x = lanes[row % 8 * 4 + quarter], y = lanes[column * 4 + quarter];
      for (int half = 0; half < 2; ++half)
        for (int e = 0; e < per; ++e)
          sum += mma_element(a_type, x.a[row / 8 + 2 * half], e) * mma_element(b_type, y.b[half], e);
    }
    *d[i] = T(sum);
  }
}
#define MMA_ON_HOST                                                                                   \
  static void mma(ACC& d0, ACC& d1, ACC& d2, ACC& d3, const unsigned(&a)[4], const unsigned(&b)[2]) { \
    mma_on_host<ACC>({&d0, &d1, &d2, &d3}, a, b, MMA_A, MMA_B);                                       \
  }

// ---- launches ---------------------------------------------------------------------------------------------
template <class Block>
static void call(void (*kernel)(Block), void** a) {
  kernel(*(const Block*)a[0]);
}
template <class Block>
static void call(void (*kernel)(Block, int, int), void** a) {
  kernel(*(const Block*)a[0], *(int*)a[1], *(int*)a[2]);
}
template <class Block>
static void call(void (*kernel)(Block, int, int, int, int), void** a) {
  kernel(*(const Block*)a[0], *(int*)a[1], *(int*)a[2], *(int*)a[3], *(int*)a[4]);
}

struct Kernel {
  int source;  // its number
  const char* name;
  void (*run)(void** arguments);
};

// 0, or why not: 500 no such kernel, 719 its threads wait for each other for ever.
static int launch(const Kernel* kernels, int count, int source, const char* name, const unsigned* grid,
                  unsigned threads, void** arguments) {
  for (int k = 0; k < count; ++k) {
    if (kernels[k].source != source || strcmp(kernels[k].name, name)) continue;
    if (!fibers::stacks) fibers::stacks = (char*)malloc(size_t(fibers::most_threads) * fibers::stack_bytes);
    fibers::body = kernels[k].run, fibers::arguments = arguments, fibers::threads = int(threads);
    fibers::grid = {grid[0], grid[1], grid[2]};
    for (unsigned z = 0; z < grid[2]; ++z)
      for (unsigned y = 0; y < grid[1]; ++y)
        for (unsigned x = 0; x < grid[0]; ++x) {
          memset(fibers::shared, 0xff, sizeof fibers::shared);  // NaN
          fibers::block = {x, y, z};
          if (!fibers::run_block()) return 719;
        }
    return 0;
  }
  return 500;
}
