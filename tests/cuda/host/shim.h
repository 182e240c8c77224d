// What CUDA's compiler and PTX supply and Postlude's device code uses, for a host compiler: built-ins, conversions, the
// instructions of a warp, barriers, the copy engine, matrix products, and the threads of a block (of all blocks, for
// Hopper's kernel, whose blocks wait for each other) as fibers of one thread that take turns where they wait.
// emission_test.cpp puts this before the device base and the generated kernels, each in a namespace of its own. It is
// longer than most because all of that is one text.
#define POSTLUDE_HOST
#include "../fake/tensor_map.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <vector>

// What stands for the hardware is most of a run's time, and the same for all kernels, which are compiled as they are
// asked to be.
#pragma GCC push_options
#pragma GCC optimize("O2")

#define DEVICE static inline
#define DEVICE_STATIC static inline
#define METHOD inline
#define CONSTANT static const
#define __device__
#define __global__ static
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
// All that is declared so lies together, to be filled with NaN before each block: nothing of another block's is there.
#define __shared__ static __attribute__((section("declared_shared")))
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_declared_shared[],
    __stop_declared_shared[];
#define __align__(n) __attribute__((aligned(n)))

namespace fibers {

struct Index {
  unsigned x, y, z;
};
static Index thread, block, grid;
constexpr int most_blocks = 24, most_fibers = most_blocks * 384, stack_bytes = 128 << 10, shared_bytes = 232448;

// Whom a fiber waits for: the 32 of its warp, the block's, a word of shared memory or of a named barrier to change, or
// memory that others write. Nothing: `running`.
enum State { running, at_warp, at_barrier, at_word, polling, done };
struct Fiber {
  State state;
  bool begun;
  const unsigned* word;  // at_word: until the bits of `mask` are no longer `value`
  unsigned mask, value;
  unsigned shuffles;
  unsigned fences;                // between its own reads and the copy engine's writes
  unsigned long long slot[2][4];  // what a shuffle exchanges; two, so that one meeting a shuffle is enough
  jmp_buf place;
  ucontext_t begin;
};

// What the copy engine stores, or the tensor cores multiply, for a thread, in groups that it commits: as late as it may
// be.
struct Store {
  FakeTensorMap map;
  unsigned from;
  int at[5];
  void operator()() const;
};
struct Product {
  unsigned long long a, b;  // descriptors
  const char *a_type, *b_type;
  bool a_along_k, b_along_k;  // else they lie along rows and columns
  int n;                      // columns
  bool adds;
  void* d;
  void (*accumulate)(const Product& one, const double (*sums)[8]);
  void operator()() const;
};
template <class One>
struct Later {
  std::vector<One> work;
  std::vector<size_t> groups;  // how much of it each committed group is
  size_t open = 0;
  void add(const One& one) { work.push_back(one), ++open; }
  void commit() { groups.push_back(open), open = 0; }
  void wait(size_t pending) {
    if (groups.size() <= pending) return;
    const size_t ends = groups.size() - pending;
    size_t done = 0;
    for (size_t g = 0; g < ends; ++g)
      for (size_t i = 0; i < groups[g]; ++i) work[done++]();
    groups.erase(groups.begin(), groups.begin() + long(ends));
    work.erase(work.begin(), work.begin() + long(done));
  }
};
struct Block {
  alignas(1024) unsigned char shared[shared_bytes];
  Index index;
  struct {
    unsigned come, generation;
  } named[16];
  unsigned met;  // of its cluster, if it is the first there
  // Who last read each 16 bytes by an ordinary load, and how many fences it had come through.
  struct {
    int fiber;
    unsigned fences;
  } read[shared_bytes / 16], written[shared_bytes / 16];  // and who last wrote them by an ordinary store
};
static Fiber* fiber;
static Later<Store>* stores;      // a fiber's
static Later<Product>* products;  // a fiber's
static Block* block_of;
static Block* own_block;  // the running fiber's
static char* stacks;
static jmp_buf scheduler;
static int current, threads;       // of a block
static int asked_bytes;            // of shared memory
static int cluster;                // so many blocks
static unsigned long long order;   // 0: warps take turns in the order of their numbers; else in one drawn from this
static unsigned long long events;  // what lets waiting fibers go on: a launch without any is stuck
static unsigned long long sweeps;  // in each, the lanes of one warp run, each to where it waits
static unsigned long long writes;  // to the memory that blocks share
// The copy engine wrote what a fiber had read, or it or wgmma read what one had written, with no fence between.
static bool unordered;
static const char* refused;  // what the device would call an illegal instruction or address
static void must(bool kept, const char* rule) {
  if (!kept) refused = rule;
}
static void (*body)(void**);
static void** arguments;

static Block& own() { return *own_block; }

static void wait(State state) {
  fiber[current].state = state;
  if (!_setjmp(fiber[current].place)) _longjmp(scheduler, 1);
}
static void wait_while(const unsigned* word, unsigned mask, unsigned value) {
  Fiber& f = fiber[current];
  f.word = word, f.mask = mask, f.value = value;
  if ((*word & mask) == value) wait(at_word);
}
static void entry() {
  for (;;) {  // a thread of one block after another
    body(arguments);
    stores[current].wait(0);
    ++events;
    wait(done);
  }
}
static void resume(int t) {
  current = t, own_block = block_of + t / threads, thread = {unsigned(t % threads), 0, 0}, block = own_block->index;
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

// A number below n, by xorshift.
static int draw(int n) {
  order ^= order << 13, order ^= order >> 7, order ^= order << 17;
  return int(order >> 33) % n;
}

// Whose turn it is, warp by warp. In a drawn order each warp of a launch has a pace of its own, from one round in eight
// to all, so that some fall far behind the others; and lanes change places.
struct Turns {
  int count, warp[most_fibers / 32], pace[most_fibers / 32];
  void begin(int warps) {
    count = warps;
    for (int w = 0; w < count; ++w) warp[w] = w, pace[w] = order ? draw(8) : 0;
  }
  void next_round() {
    for (int w = count - 1; order && w > 0; --w) {
      const int other = draw(w + 1), own = warp[w];
      warp[w] = warp[other], warp[other] = own;
    }
  }
  bool waits(int w) const { return order && draw(8) < pace[w]; }
};
static Turns turns;

// Runs the first `blocks` of block_of beside each other; false where their threads wait for each other for ever.
static bool run_blocks(int blocks) {
  const int all = blocks * threads;
  turns.begin(all / 32), ++writes;
  if (__start_declared_shared)
    memset(__start_declared_shared, 0xff, size_t(__stop_declared_shared - __start_declared_shared));
  for (int b = 0; b < blocks; ++b) {
    memset(block_of[b].shared, 0xff, size_t(asked_bytes));  // NaN, as all behind it is
    memset(block_of[b].named, 0, sizeof block_of[b].named);
    memset(block_of[b].read, 0xff, size_t(asked_bytes + 15) / 16 * sizeof block_of[b].read[0]);
    memset(block_of[b].written, 0xff, size_t(asked_bytes + 15) / 16 * sizeof block_of[b].written[0]);
    block_of[b].met = 0;
  }
  for (int t = 0; t < all; ++t) {
    Fiber& f = fiber[t];
    f.state = running, f.shuffles = 0, f.fences = 0;
    if (f.begun) continue;
    getcontext(&f.begin);
    f.begin.uc_stack.ss_sp = stacks + size_t(t) * stack_bytes;
    f.begin.uc_stack.ss_size = size_t(stack_bytes - t % 32 * 1088);  // their ends lie in lines of a cache of their own
    f.begin.uc_link = nullptr;
    makecontext(&f.begin, entry, 0);
  }
  unsigned long long seen = events;
  for (int rounds = 0; rounds < 1000; ++rounds) {
    bool all_done = true;
    turns.next_round();
    for (int i = 0; i < turns.count; ++i) {
      if (turns.waits(turns.warp[i])) continue;
      const int warp = turns.warp[i] * 32, lanes = order ? draw(32) : 0;
      do {  // a warp as far as it comes; in a drawn order now and then only to where its lanes meet
        ++sweeps;
        for (int l = 0; l < 32; ++l) {
          const int t = warp + (l ^ lanes);
          Fiber& f = fiber[t];
          if (f.state == at_word && (*f.word & f.mask) != f.value) f.state = running;
          if (f.state == running) resume(t);
        }
      } while (release(at_warp, warp, warp + 32) && !(order && draw(8) == 0 && ++events));
    }
    for (int t = 0; t < all; t += threads) events += release(at_barrier, t, t + threads);
    for (int t = 0; t < all; ++t) {
      all_done = all_done && fiber[t].state == done;
      if (fiber[t].state == polling) fiber[t].state = running;
    }
    if (all_done) return true;
    if (seen != events) rounds = 0, seen = events;
  }
  for (int t = 0; t < all; ++t) fiber[t].begun = false, stores[t] = {}, products[t] = {};  // they wait somewhere
  return false;
}
// What lies behind the memory that a launch of so many blocks asked for is as it was. Then all of it is.
static void close_memory(int blocks) {
  for (int b = 0; b < blocks; ++b) {
    unsigned char* const shared = block_of[b].shared;
    const unsigned char* const rest = shared + asked_bytes;
    must(asked_bytes >= shared_bytes ||
             (*rest == 0xff && !memcmp(rest, rest + 1, size_t(shared_bytes - asked_bytes - 1))),
         "no more shared memory is written than was asked for");
    memset(shared, 0xff, refused ? shared_bytes : size_t(asked_bytes));
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

static void has_read(unsigned address) { own().read[address / 16] = {current, fiber[current].fences}; }
static void has_written(unsigned address) { own().written[address / 16] = {current, fiber[current].fences}; }
// The copy engine and the tensor cores see shared memory by another way than ordinary loads and stores.
static void engine_writes(unsigned address) {
  const auto& last = own().read[address / 16];
  unordered |= last.fiber >= 0 && fiber[last.fiber].fences == last.fences;
  own().written[address / 16].fiber = -1, ++writes;
}
static void engine_reads(unsigned address) {
  const auto& last = own().written[address / 16];
  unordered |= last.fiber >= 0 && fiber[last.fiber].fences == last.fences;
}

}  // namespace fibers

#define threadIdx (::fibers::thread)
#define blockIdx (::fibers::block)
#define gridDim (::fibers::grid)

static inline void __syncthreads() { fibers::wait(fibers::at_barrier); }
static inline void __syncwarp(unsigned = ~0u) { fibers::wait(fibers::at_warp); }
static inline void named_arrive(unsigned id, unsigned threads) {
  fibers::must(id < 16 && threads % 32 == 0, "one of 16 barriers, of whole warps");
  auto& barrier = fibers::own().named[id % 16];
  if (++barrier.come == threads) barrier.come = 0, ++barrier.generation, ++fibers::events;
}
static inline void named_sync(unsigned id, unsigned threads) {
  const unsigned& generation = fibers::own().named[id].generation;
  const unsigned before = generation;
  named_arrive(id, threads);
  fibers::wait_while(&generation, ~0u, before);
}
static inline bool __all_sync(unsigned, bool x) {
  const auto all = fibers::exchange(x);
  bool every = true;
  for (int l = 0; l < 32; ++l) every &= all[l];
  return every;
}
static inline unsigned __reduce_max_sync(unsigned, unsigned x) {
  const auto all = fibers::exchange(x);
  for (int l = 0; l < 32; ++l) x = all[l] > x ? all[l] : x;
  return x;
}
static inline unsigned __reduce_min_sync(unsigned, unsigned x) {
  const auto all = fibers::exchange(x);
  for (int l = 0; l < 32; ++l) x = all[l] < x ? all[l] : x;
  return x;
}
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
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned which) {
  const unsigned long long bytes = (unsigned long long)high << 32 | low;
  unsigned made = 0;
  for (int i = 0; i < 4; ++i) made |= unsigned(bytes >> (which >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return made;
}
// A selector of eight and more gives a byte's sign eight times.
static inline unsigned whole_bytes(float a, float b, unsigned pick) {
  const auto added = [](float x) { return x == x ? __float_as_uint(x + 12582912.f) : 0x7fffffffu; };
  const unsigned long long bytes = (unsigned long long)added(b) << 32 | added(a);
  unsigned made = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned by = pick >> 4 * i & 15, byte = unsigned(bytes >> (by & 7) * 8 & 0xff);
    made |= (by < 8 ? byte : byte >> 7 ? 0xffu : 0u) << 8 * i;
  }
  return made;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return by & 31 ? high << (by & 31) | low >> (32 - (by & 31)) : high;
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return by & 31 ? low >> (by & 31) | high << (32 - (by & 31)) : low;
}
static inline long long __float2ll_rn(float x) {
  return x >= 0x1p63f ? 0x7fffffffffffffff : x > -0x1p63f ? (long long)(rintf(x)) : -0x7fffffffffffffff - 1;
}
static inline int __float2int_rn(float x) {
  const long long r = x == x ? __float2ll_rn(x) : 0;
  return r > 0x7fffffff ? 0x7fffffff : r < -0x80000000ll ? int(-0x7fffffff - 1) : int(r);
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)(a)*b >> 32); }
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
static inline float hidden(float x) { return x; }
static inline void follow_previous_launch() {}
static inline unsigned lane_id() { return fibers::lane(); }
static inline unsigned arrive_and_count(unsigned* counter) { return ++fibers::events, (*counter)++; }
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
static inline unsigned f32x2_to_bf16(float a, float b) { return f32_to_bf16(a) | unsigned(f32_to_bf16(b)) << 16; }
static inline unsigned f32x2_to_f16(float a, float b) { return f32_to_f16(a) | unsigned(f32_to_f16(b)) << 16; }
// NaN wins; -0 is below +0.
static inline float op_where(bool c, float a, float b) { return c ? a : b; }
static inline float op_min(float a, float b) {
  return a != a ? a : b != b ? b : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}
static inline float op_max(float a, float b) {
  return a != a ? a : b != b ? b : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}
// The hardware's approximations, wrong by what they may be: by `above` or `below` or, for every third x, by nothing but
// their rounding; what has no error there has none here. PTX ISA 9.0, 9.7.3: 1 unit in the last place of a reciprocal,
// 2^-22.9 of a reciprocal square root, 2^-22 of a logarithm (absolute between 1/2 and 2).
static inline float approximate(double exact, float x, double above, double below) {
  const float nearest = float(exact);
  if (nearest == exact || !isfinite(nearest)) return nearest;
  const unsigned which = (__float_as_uint(x) * 2654435761u >> 16) % 3;
  return float(which == 0 ? exact - below : which == 1 ? exact : exact + above);
}
static inline float approximate(double exact, float x, double error) { return approximate(exact, x, error, error); }
static inline double half_unit(double x) { return x != 0 && isfinite(x) ? ldexp(1., ilogb(x) - 24) : 0; }
static inline float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.f, x) : x; }
// An H200's, of all 2^32 (decision 0261): x is taken down to a multiple of 2^-23, a negative multiple to the one below,
// and of that it is wrong by -0.75 to 1.4 units: all in all by 2.06, where PTX says 2.
static inline float fast_exp2(float x) {
  const double steps = double(flushed(x)) * 0x1p23, taken = fabs(steps) < 1 || fabs(x) > 1000 ? steps
                                                            : steps < 0                       ? -floor(-steps) - 1
                                                                                              : floor(steps);
  const double y = exp2(taken * 0x1p-23);
  return flushed(approximate(y, x, 1.8 * half_unit(y), 0.5 * half_unit(y)));
}
static inline float fast_reciprocal(float x) {
  const double y = 1 / double(flushed(x));
  return flushed(approximate(y, x, half_unit(y)));
}
// Rounded up.
static inline float __fmaf_ru(float a, float b, float c) {
  const float r = fmaf(a, b, c);
  const double product = double(a) * b, sum = product + c, back = sum - product;
  const double rest = (product - (sum - back)) + (c - back);  // what the sum lacks
  return isfinite(r) && (sum - r) + rest > 0 ? nextafterf(r, INFINITY) : r;
}
static inline float saturated_fma(float a, float b, float c) {
  const float y = fmaf(a, b, c);
  return y >= 1 ? 1 : y > 0 ? y : 0;
}
static inline float fast_log2(float x) {
  const double y = log2(double(x));
  return approximate(y, x, 0x1p-22 * (x > 0.5f && x < 2.f ? 1 : fabs(y)) - half_unit(y));
}
static inline float without_branch(float x) { return x; }
static inline float meaningless() { return NAN; }
static inline float fast_rsqrt(float x) {
  const double y = 1 / sqrt(double(flushed(x)));
  return approximate(y, x, 0x1p-22 * 0.536 * y - half_unit(y));
}
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
static inline unsigned char* own_shared() { return fibers::own().shared; }
static inline unsigned smem_address(const void* p) { return unsigned((const unsigned char*)p - own_shared()); }
static inline void* __cvta_shared_to_generic(unsigned address) { return own_shared() + address; }
static inline int opaque(int x) { return x; }
static inline void move_nothing_across(bool) {}
static inline unsigned word_at(unsigned address) { return at<unsigned>((long long)(own_shared() + address)); }
template <class T>
static void put(unsigned address, T x) {
  ++fibers::writes;
  memcpy(own_shared() + address, &x, sizeof x);
}
static inline void shared_store(unsigned to, unsigned a, unsigned b) {
  fibers::has_written(to), put(to, a), put(to + 4, b);
}
static inline void shared_store(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
  fibers::must(to % 16 == 0, "16 bytes are stored where they are aligned");
  shared_store(to, a, b), shared_store(to + 8, c, d);
}
static inline void shared_store(unsigned to, unsigned a) { fibers::has_written(to), put(to, a); }
static inline void shared_store(unsigned to, unsigned short a) { fibers::has_written(to), put(to, a); }
static inline unsigned shared_load_word(unsigned from) { return fibers::has_read(from), word_at(from); }
static inline void shared_load(unsigned from, unsigned& a, unsigned& b) {
  a = shared_load_word(from), b = shared_load_word(from + 4);
}
static inline void shared_load(unsigned from, unsigned& a, unsigned& b, unsigned& c, unsigned& d) {
  shared_load(from, a, b), shared_load(from + 8, c, d);
}
static inline unsigned short half_at(unsigned address) {
  return at<unsigned short>((long long)(own_shared() + address));
}
static inline void shared_store_byte(unsigned to, unsigned a) { fibers::has_written(to), put(to, (unsigned char)a); }
static inline unsigned shared_load_byte(unsigned from) { return fibers::has_read(from), own_shared()[from]; }
static inline unsigned short shared_load(unsigned from) { return fibers::has_read(from), half_at(from); }
static inline void copy_async(unsigned to, long long from, int bytes) {
  fibers::must(to % 16 == 0, "16 bytes are copied to where they are aligned");
  fibers::has_written(to), ++fibers::writes;
  memset(own_shared() + to, 0, 16);
  memcpy(own_shared() + to, (const void*)from, size_t(bytes));
}
static inline void copy_commit() {}
template <int>
static void copy_wait() {}

// Four matrices of 8 x 8 elements of 16 bits; lane 8 i + r says where row r of matrix i is. Of each a lane gets two
// neighbours.
static inline void ldmatrix(unsigned from, unsigned& a, unsigned& b, unsigned& c, unsigned& d) {
  const auto rows = fibers::exchange(from);
  unsigned* const to[4] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i) *to[i] = shared_load_word(rows[8 * i + fibers::lane() / 4] + fibers::lane() % 4 * 4);
}
static inline void ldmatrix_transposed(unsigned from, unsigned& a, unsigned& b, unsigned& c, unsigned& d) {
  const auto rows = fibers::exchange(from);
  unsigned* const to[4] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i) {
    const int row = 8 * i + fibers::lane() % 4 * 2, at = fibers::lane() / 4 * 2;
    *to[i] = shared_load(rows[row] + at) | unsigned(shared_load(rows[row + 1] + at)) << 16;
  }
}

static inline void stmatrix_transposed(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
  const auto rows = fibers::exchange(to);
  const unsigned from[4] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    for (int e = 0; e < 2; ++e)
      shared_store(rows[8 * i + fibers::lane() % 4 * 2 + e] + fibers::lane() / 4 * 2,
                   (unsigned short)(from[i] >> 16 * e));
}

// What the low bits of a word are, of the types that PTX names.
static float value_of(const char* type, unsigned x) {
  if (!strcmp(type, "bf16")) return bf16_to_f32((unsigned short)x);
  if (!strcmp(type, "f16")) return f16_to_f32((unsigned short)x);
  if (!strcmp(type, "e4m3")) return fp8_value((unsigned char)x, 3, 7);
  if (!strcmp(type, "e5m2")) return fp8_value((unsigned char)x, 2, 15);
  if (!strcmp(type, "s8")) return (signed char)x;
  return (unsigned char)x;
}
struct Decode {
  const float* values;
  unsigned mask;
  explicit Decode(const char* type) : values(nullptr), mask(strstr(type, "16") ? 0xffff : 0xff) {
    static float* tables[128];  // by a type's first letter, and that of e5m2 by its second
    if (!strcmp(type, "bf16")) return;
    float*& table = tables[int(type[0] == 'e' ? type[1] : type[0])];
    if (!table) {
      table = (float*)malloc((mask + 1) * sizeof(float));
      for (unsigned x = 0; x <= mask; ++x) table[x] = value_of(type, x);
    }
    values = table;
  }
  double operator()(unsigned x) const { return values ? values[x & mask] : bf16_to_f32((unsigned short)x); }
};
static inline int bytes_of(const char* type) { return strstr(type, "16") ? 2 : 1; }

// A warp's product of 16 rows and `n` columns over `depth` of K, in pieces of 16 rows and eight columns. The first lane
// that asks for one computes it for all.
constexpr int most_depth = 32, most_columns = 256;
static void multiply_rows(const double (*a)[most_depth], const double (*b)[most_depth][8], int n, int depth,
                          double (*sums)[8]) {
  typedef double Two __attribute__((vector_size(16)));
  for (int j = 0; j < n / 8; ++j)
    for (int i = 0; i < 16; ++i) {
      Two s0 = {}, s1 = {}, s2 = {}, s3 = {};
      for (int k = 0; k < depth; ++k) {
        const Two* const of = (const Two*)b[j][k];
        s0 += a[i][k] * of[0], s1 += a[i][k] * of[1], s2 += a[i][k] * of[2], s3 += a[i][k] * of[3];
      }
      Two* const to = (Two*)sums[j * 16 + i];
      to[0] = s0, to[1] = s1, to[2] = s2, to[3] = s3;
    }
}

// mma.sync's m16n8 over 32 bytes of K.
struct MmaFragments {
  unsigned a[4], b[2];
};
typedef const double (*Sums)[8];
static Sums mma_of_warp(const fibers::Exchanged<MmaFragments>& lanes, const char* a_type, const char* b_type) {
  static unsigned long long sweep = 0;  // a warp meets at each: it has one product in a sweep
  alignas(16) static double sums[16][8], a[16][most_depth], b[1][most_depth][8];
  if (sweep == fibers::sweeps) return sums;
  sweep = fibers::sweeps;
  const int bits = 8 * bytes_of(a_type);
  const Decode left(a_type), right(b_type);
  for (int l = 0; l < 32; ++l) {
    const MmaFragments x = lanes[l];
    for (int half = 0; half < 2; ++half)
      for (int at = 0; at < 32; at += bits) {
        const int k = (l % 4 * 2 + half) * 32 / bits + at / bits;
        a[l / 4][k] = left(x.a[2 * half] >> at), a[l / 4 + 8][k] = left(x.a[1 + 2 * half] >> at);
        b[0][k][l / 4] = right(x.b[half] >> at);
      }
  }
  multiply_rows(a, b, 8, 256 / bits, sums);
  return sums;
}
template <class T>
static void mma_on_host(T* const (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const char* a_type,
                        const char* b_type) {
  const auto lanes = fibers::exchange(MmaFragments{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
  const Sums sums = mma_of_warp(lanes, a_type, b_type);
  for (int i = 0; i < 4; ++i) *d[i] = T(*d[i] + sums[fibers::lane() / 4 + i / 2 * 8][fibers::lane() % 4 * 2 + i % 2]);
}
#define MMA_ON_HOST                                                                                   \
  static void mma(ACC& d0, ACC& d1, ACC& d2, ACC& d3, const unsigned(&a)[4], const unsigned(&b)[2]) { \
    mma_on_host<ACC>({&d0, &d1, &d2, &d3}, a, b, MMA_A, MMA_B);                                       \
  }

// ---- sm90.cu ----------------------------------------------------------------------------------------------
// A barrier of shared memory: arrivals that a phase takes and that are left; then the phase's parity and, above it, the
// bytes that have been announced and not come.
static inline void mbarrier_init(unsigned bar, unsigned count) { put(bar, count | count << 16), put(bar + 4, 0u); }
static inline void mbarrier_change(unsigned bar, unsigned arrivals, int bytes) {
  fibers::must(bar % 8 == 0 && (word_at(bar) >> 16) >= arrivals, "a barrier takes as many arrivals as it was made for");
  fibers::must(word_at(bar) != ~0u, "a barrier is made before it counts");
  fibers::must(abs(bytes) < 1 << 20, "a barrier counts fewer than 2^20 bytes");
  unsigned left = (word_at(bar) >> 16) - arrivals, state = word_at(bar + 4) + 2 * unsigned(bytes);
  if (left == 0 && state < 2) left = word_at(bar) & 0xffff, state ^= 1, ++fibers::events;
  put(bar, (word_at(bar) & 0xffff) | left << 16), put(bar + 4, state);
}
static inline void mbarrier_arrive(unsigned bar) { mbarrier_change(bar, 1, 0); }
static inline void mbarrier_expect(unsigned bar, unsigned bytes) { mbarrier_change(bar, 1, int(bytes)); }
static inline void mbarrier_wait(unsigned bar, unsigned parity) {
  fibers::wait_while((const unsigned*)(own_shared() + bar + 4), 1, parity);
}
static inline bool mbarrier_is_through(unsigned bar, unsigned parity) {
  const bool through = (word_at(bar + 4) & 1) != parity;
  if (!through) fibers::wait(fibers::polling);
  return through;
}
// The cluster's first block, counted among all, and a block's shared memory behind its number.
static int cluster_block() { return fibers::current / fibers::threads / fibers::cluster * fibers::cluster; }
static inline unsigned cluster_address(unsigned address, unsigned rank) {
  return address | (cluster_block() + rank) << 20;
}
// What is done to another block, which must not have ended.
template <class Done>
static void in_block(int block, Done done) {
  const int own = fibers::current;
  bool runs = false;
  fibers::current = block * fibers::threads, fibers::own_block = fibers::block_of + block;
  for (int t = fibers::current; t < fibers::current + fibers::threads; ++t)
    runs |= fibers::fiber[t].state != fibers::done;
  fibers::must(runs, "a block has not ended where another one's copies or arrivals come to it");
  done();
  fibers::current = own, fibers::own_block = fibers::block_of + own / fibers::threads;
}
// What a barrier of another block counts.
static inline void cluster_change(unsigned bar, unsigned arrivals, int bytes) {
  in_block(int(bar >> 20), [&] { mbarrier_change(bar & 0xfffff, arrivals, bytes); });
}
static inline bool elect_one() { return lane_id() == 0; }
static inline void cluster_copy(unsigned to, unsigned from, unsigned bytes, unsigned bar) {
  fibers::must((to | from | bytes) % 16 == 0, "blocks of a cluster copy whole 16 bytes");
  for (unsigned i = 0; i < bytes; i += 16) fibers::engine_reads(from + i);
  memcpy(fibers::block_of[to >> 20].shared + (to & 0xfffff), own_shared() + from, bytes), ++fibers::writes;
  cluster_change(bar, 0, -int(bytes));
}
// Words that come to another block, whose barrier counts them.
template <int words, int all>
static void cluster_store(unsigned to, const unsigned (&x)[all], unsigned bar) {
  fibers::must(to % (words % 2 ? 4 : 8) == 0, "words for another block are stored where they are aligned");
  fibers::must(to >> 20 == bar >> 20, "what comes to a block its own barrier counts");
  in_block(int(to >> 20), [&] {
    for (int w = 0; w < words; ++w) put((to & 0xfffff) + 4 * unsigned(w), x[w]);
    mbarrier_change(bar & 0xfffff, 0, -4 * words);
  });
}
static inline void mbarrier_wait_cluster(unsigned bar, unsigned parity) { mbarrier_wait(bar, parity); }
static inline void cluster_arrive(unsigned bar) { cluster_change(bar, 1, 0); }
static inline void cluster_free(unsigned bar) { cluster_change(bar, 1, 0); }
static inline void cluster_sync() {
  unsigned& met = fibers::block_of[cluster_block()].met;
  const unsigned all = unsigned(fibers::cluster * fibers::threads), until = (met++ / all + 1) * all;
  ++fibers::events;
  while (met < until) fibers::wait(fibers::polling);
}
static inline void cluster_begin() { ++fibers::block_of[cluster_block()].met, ++fibers::events; }
static inline void cluster_begun() {
  const unsigned& met = fibers::block_of[cluster_block()].met;
  while (met < unsigned(fibers::cluster * fibers::threads)) fibers::wait(fibers::polling);
}
static inline void fence_mbarrier_init() {}
static inline void fence_async_shared() { ++fibers::fiber[fibers::current].fences; }
template <int>
static void registers_grow() {}
template <int>
static void registers_shrink() {}

// A kernel's type of a map, as the fake driver wrote it.
template <class Map>
static inline FakeTensorMap written_by_driver(const Map& words) {
  FakeTensorMap map;
  static_assert(sizeof map == sizeof words, "");
  memcpy(&map, &words, sizeof map);
  return map;
}
static inline unsigned swizzled(const FakeTensorMap& map, unsigned address) {
  return address ^ (address >> 3 & (map.swizzle_bytes ? map.swizzle_bytes - 16 : 0));
}
// What the copy engine asks of a box in shared memory, and of where it begins along the first dimension.
static void must_be_box(const FakeTensorMap& map, unsigned shared, int first) {
  fibers::must(shared % 128 == 0, "a box lies at a multiple of 128 bytes of shared memory");
  fibers::must(first * int(map.element_bytes) % 16 == 0, "a box begins at a multiple of 16 bytes");
}
// Moves 16 bytes of a box, which no swizzle takes apart: `inside` of them exist, others are read as 0 and not written.
static void move_16(bool stores, unsigned long long global, unsigned address, int inside) {
  if (stores) {
    fibers::engine_reads(address);
    if (inside > 0) memcpy((void*)global, own_shared() + address, size_t(inside));
    return;
  }
  fibers::engine_writes(address);
  memset(own_shared() + address, 0, 16);
  if (inside > 0) memcpy(own_shared() + address, (void*)global, size_t(inside));
}
// How many bytes of 16 lie before the end of a row of `size` elements, from its element `c` on; none of what is before
// it.
static int inside_of_row(const FakeTensorMap& map, int c) {
  const int bytes = int(map.element_bytes);
  if (c < 0) return 0;
  const long long rest = ((long long)map.sizes[0] - c) * bytes;
  return int(rest < 0 ? 0 : rest < 16 ? rest : 16);
}
// Of each 16 bytes of a map's box at coordinates `at`. They begin at a multiple of 16 bytes, so none is half before 0.
static void move_box(const FakeTensorMap& map, unsigned shared, const int* at, bool stores) {
  const unsigned together = 16 / map.element_bytes, columns = map.box[0] / together;
  unsigned pieces = columns;
  for (unsigned i = 1; i < map.dimensions; ++i) pieces *= map.box[i];
  for (unsigned e = 0; e < pieces; ++e) {
    const int column = at[0] + int(e % columns * together);
    unsigned long long global = map.base + (unsigned long long)(long long)column * map.element_bytes;
    bool inside = true;
    unsigned rest = e / columns;
    for (unsigned i = 1; i < map.dimensions; ++i) {
      const long long c = at[i] + int(rest % map.box[i]);
      rest /= map.box[i];
      inside &= c >= 0 && c < map.sizes[i];
      global += (unsigned long long)c * map.strides[i - 1];
    }
    move_16(stores, global, swizzled(map, shared + e * 16), inside ? inside_of_row(map, column) : 0);
  }
}
// What the copy engine calls an illegal instruction: a walk that begins outside of the map's box, and a store by a map
// whose box reaches beyond the image, or that begins before the first channel (seen on an H200).
static void must_walk(const FakeTensorMap& map, const int* first, int n, bool stores, int channel) {
  if (!map.image || int(map.dimensions) != n + 2) abort();
  for (int i = 0; i < n; ++i) {
    fibers::must(first[i] >= map.lower[i] && first[i] < int(map.sizes[i + 1]) + map.upper[i],
                 "a walk over pixels begins in the map's box");
    fibers::must(!stores || (map.lower[i] >= 0 && map.upper[i] <= 0), "pixels are stored by a box within the image");
  }
  fibers::must(!stores || channel >= 0, "pixels are stored from a channel on that there is");
}
// Pixels of an image: they are walked in the map's box from `from` (channel; x, y (, z); image) on, into the next rows
// and images, and each is moved by an offset along columns, rows (, depth). Nothing is stored outside of the images.
static void move_pixels(const FakeTensorMap& map, unsigned shared, const int* from, const int* offset, bool stores) {
  const int n = int(map.dimensions) - 2;
  int at[3], image = from[n + 1];
  for (int i = 0; i < n; ++i) at[i] = from[i + 1];
  const unsigned together = 16 / map.element_bytes;
  for (unsigned pixel = 0; pixel < map.box[1]; ++pixel) {
    bool inside = unsigned(image) < map.sizes[n + 1];
    unsigned long long global = map.base + (unsigned long long)((long long)image * (long long)map.strides[n]);
    for (int i = 0; i < n; ++i) {
      const long long coordinate = at[i] + offset[i];
      inside &= coordinate >= 0 && coordinate < map.sizes[i + 1];
      global += (unsigned long long)(coordinate * (long long)map.strides[i]);
    }
    for (unsigned e = 0; e < map.box[0]; e += together) {
      const int c = from[0] + int(e);
      move_16(stores, global + (unsigned long long)(long long)c * map.element_bytes,
              swizzled(map, shared + (pixel * map.box[0] + e) * map.element_bytes), inside ? inside_of_row(map, c) : 0);
    }
    int i = 0;
    for (; i < n; ++i) {
      if ((at[i] += map.step[i]) < (int)map.sizes[i + 1] + map.upper[i]) break;
      at[i] = map.lower[i];
    }
    image += i == n;
  }
}
static void tma_load_box(unsigned to, const FakeTensorMap& map, unsigned bar, const int* at, unsigned dimensions) {
  must_be_box(map, to, at[0]);
  fibers::must(!map.image && map.dimensions == dimensions,
               "a box is of a map of as many dimensions, not of an image's");
  move_box(map, to, at, false);
  unsigned bytes = map.element_bytes;
  for (unsigned i = 0; i < map.dimensions; ++i) bytes *= map.box[i];
  mbarrier_change(bar, 0, -int(bytes));
}
template <class Map, class... At>
static inline void tma_load(unsigned to, const Map& map, unsigned bar, At... at) {
  const int all[5] = {int(at)...};
  tma_load_box(to, written_by_driver(map), bar, all, sizeof...(at));
}
template <class Map, class... At>
static inline void tma_load_all(unsigned to, const Map& map, unsigned bar, At... at) {
  for (int b = 0; b < fibers::cluster; ++b) in_block(cluster_block() + b, [&] { tma_load(to, map, bar, at...); });
}
static void tma_load_walk(unsigned to, const FakeTensorMap& map, unsigned bar, const int* from, const int* offset,
                          int n) {
  must_be_box(map, to, from[0]);
  must_walk(map, from + 1, n, false, from[0]);
  for (int i = 0; i < n; ++i)
    if (offset[i] < 0 || offset[i] > (n == 2 ? 255 : 31)) abort();  // in 16 bits
  move_pixels(map, to, from, offset, false);
  mbarrier_change(bar, 0, -int(map.box[0] * map.box[1] * map.element_bytes));
}
template <class Map>
static inline void tma_load_pixels(unsigned to, const Map& map, unsigned bar, int c, int x, int y, int image, int dx,
                                   int dy) {
  const int from[] = {c, x, y, image}, offset[] = {dx, dy};
  tma_load_walk(to, written_by_driver(map), bar, from, offset, 2);
}
template <class Map>
static inline void tma_load_pixels(unsigned to, const Map& map, unsigned bar, int c, int x, int y, int z, int image,
                                   int dx, int dy, int dz) {
  const int from[] = {c, x, y, z, image}, offset[] = {dx, dy, dz};
  tma_load_walk(to, written_by_driver(map), bar, from, offset, 3);
}
inline void fibers::Store::operator()() const {
  const int nowhere[3] = {0, 0, 0};
  if (map.image) move_pixels(map, from, at, nowhere, true);
  else move_box(map, from, at, true);
}
template <class Map, class... At>
static inline void tma_store_pixels(const Map& words, unsigned from, At... at) {
  const fibers::Store store{written_by_driver(words), from, {int(at)...}};
  must_be_box(store.map, from, store.at[0]);
  must_walk(store.map, store.at + 1, int(sizeof...(at)) - 2, true, store.at[0]);
  fibers::stores[fibers::current].add(store);
}
template <class Map, class... At>
static inline void tma_store(const Map& words, unsigned from, At... at) {
  const fibers::Store store{written_by_driver(words), from, {int(at)...}};
  must_be_box(store.map, from, store.at[0]);
  fibers::must(!store.map.image && store.map.dimensions == sizeof...(at),
               "a box is of a map of as many dimensions, not of an image's");
  fibers::stores[fibers::current].add(store);
}
template <class Map>
static void tma_prefetch(const Map&) {}
static inline void tma_store_commit() { fibers::stores[fibers::current].commit(); }
template <int pending>
static void tma_store_wait_read() {
  fibers::stores[fibers::current].wait(pending);
}

static inline unsigned clock_now() {
  static unsigned now = 0;
  return now += 100;
}
static inline void doze() {}

static inline unsigned load_acquire(const unsigned* from) {
  fibers::wait(fibers::polling);
  return *from;
}
static inline void add_release(unsigned* to, unsigned x) { ++fibers::events, *to += x; }
static inline void prefetch_to_l2(long long) {}
static inline void store_relaxed(long long to, unsigned long long x) {
  ++fibers::events;
  *(unsigned long long*)to = x;
}
template <int words>
static void load_relaxed(long long from, unsigned long long (&x)[words]) {
  fibers::wait(fibers::polling);
  memcpy(x, (const void*)from, sizeof x);
}

// wgmma over 32 bytes of K. A matrix lies in shared memory in groups of eight lines of 128 bytes (or 64, 32, 16),
// swizzled as widely: along K a line is a row's (`stride` to the next eight rows; of 16 bytes, `leading` to the next of
// K), otherwise that of one k (`leading` to the next 64 rows, `stride` to the next eight k).
static inline void wgmma_fence() {}
static inline void wgmma_commit() { fibers::products[fibers::current].commit(); }
template <int pending>
static void wgmma_wait() {
  fibers::products[fibers::current].wait(pending);
  fibers::wait(fibers::at_warp);  // what one lane has multiplied, all have
}
static inline unsigned matrix_address(unsigned long long descriptor, bool along_k, int row, int k, int bytes) {
  const unsigned start = unsigned(descriptor & 0x3fff) << 4, leading = unsigned(descriptor >> 16 & 0x3fff) << 4,
                 stride = unsigned(descriptor >> 32 & 0x3fff) << 4;
  const unsigned line = 128 >> (descriptor >> 62 ? (descriptor >> 62) - 1 : 3);
  fibers::must(line == 16 || start % (8 * line) < line, "a matrix begins in the first of eight lines");
  if (line == 16 && along_k) return start + row / 8 * stride + row % 8 * 16 + k * bytes / 16 * leading + k * bytes % 16;
  const unsigned at = along_k ? start + row / 8 * stride + row % 8 * line + k * bytes
                              : start + row / 64 * leading + k / 8 * stride + k % 8 * 128 + row % 64 * bytes;
  return at ^ (at >> 3 & (line - 16));
}
// Decodes `lines` lines of a matrix from `first` on: to(line, k, element). No swizzle takes 16 bytes apart.
template <class To>
static void decode_matrix(unsigned long long descriptor, const char* type, bool along_k, int first, int lines, To to) {
  const int bytes = bytes_of(type), depth = 32 / bytes, together = 16 / bytes;
  const Decode decode(type);
  for (int line = 0; line < lines; line += along_k ? 1 : together)
    for (int k = 0; k < depth; k += along_k ? together : 1) {
      const unsigned address = matrix_address(descriptor, along_k, first + line, k, bytes);
      fibers::engine_reads(address);
      const unsigned char* const from = own_shared() + address;
      for (int i = 0; i < together; ++i)
        to(along_k ? line : line + i, along_k ? k + i : k, decode(bytes == 2 ? half_at(address + 2 * i) : from[i]));
    }
}
// The sums of a warp's part of a product. All of its lanes have the same, until anything is written to shared memory,
// or it waits.
static Sums wgmma_of_warp(const fibers::Product& one) {
  struct Known {
    unsigned long long a, b;
    int n;
    alignas(16) double sums[16 * most_columns / 8][8];
  };
  constexpr int most = 32;
  static Known known[most];
  alignas(16) static double a[16][most_depth], b[most_columns / 8][most_depth][8];
  static unsigned long long sweep = 0, written = 0;
  static int count = 0, next = 0;
  if (sweep != fibers::sweeps || written != fibers::writes) count = next = 0;
  sweep = fibers::sweeps, written = fibers::writes;
  for (int i = 0; i < count; ++i) {  // lanes multiply the same one after another
    next = next + 1 < count ? next + 1 : 0;
    if (known[next].a == one.a && known[next].b == one.b && known[next].n == one.n) return known[next].sums;
  }
  next = count = count == most ? 0 : count;
  Known& k = known[count++];
  k.a = one.a, k.b = one.b, k.n = one.n;
  decode_matrix(one.a, one.a_type, one.a_along_k, fibers::current % 128 / 32 * 16, 16,
                [](int i, int k, double x) { a[i][k] = x; });
  decode_matrix(one.b, one.b_type, one.b_along_k, 0, one.n, [](int j, int k, double x) { b[j / 8][k][j % 8] = x; });
  multiply_rows(a, b, one.n, 32 / bytes_of(one.a_type), k.sums);
  return k.sums;
}
inline void fibers::Product::operator()() const { accumulate(*this, wgmma_of_warp(*this)); }
template <class T>
static void accumulate(const fibers::Product& one, Sums sums) {
  T* const d = (T*)one.d;
  const int row = fibers::lane() / 4, column = fibers::lane() % 4 * 2;
  for (int i = 0; i < one.n / 2; ++i)
    d[i] = T((one.adds ? d[i] : 0.) + sums[i / 4 * 16 + row + i / 2 % 2 * 8][column + i % 2]);
}
template <int n, class T, int all>  // `n`: columns of B, and n / 2 accumulators of a thread
static inline void wgmma_on_host(T (&d)[all], unsigned long long a, unsigned long long b, bool adds, const char* a_type,
                                 const char* b_type, bool a_along_k, bool b_along_k) {
  static_assert(n / 2 <= all, "accumulators of 64 by n");
  fibers::products[fibers::current].add({a, b, a_type, b_type, a_along_k, b_along_k, n, adds, d, accumulate<T>});
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
  bool together;  // all blocks run beside each other
  int cluster;    // so many blocks share their memory
};

static unsigned common_divisor(unsigned a, unsigned b) { return b ? common_divisor(b, a % b) : a; }

// 0, or why not: 500 no such kernel, 701 too many blocks together, 715 an instruction breaks a rule of the hardware,
// 719 its threads wait for each other for ever, 716 nothing orders what they and the copy engine or tensor cores do,
// 912 no whole clusters.
static int launch(const Kernel* kernels, int count, int source, const char* name, const unsigned* grid,
                  unsigned threads, void** arguments) {
  using namespace fibers;
  for (int k = 0; k < count; ++k) {
    if (kernels[k].source != source || strcmp(kernels[k].name, name)) continue;
    if (!fibers::fiber) {
      fiber = (Fiber*)calloc(most_fibers, sizeof(Fiber));
      stores = new Later<Store>[most_fibers], products = new Later<Product>[most_fibers];
      block_of = (Block*)aligned_alloc(1024, most_blocks * sizeof(Block));
      memset(block_of, 0xff, most_blocks * sizeof(Block));
      stacks = (char*)malloc(size_t(most_fibers) * stack_bytes);
    }
    body = kernels[k].run, cluster = kernels[k].cluster, fibers::arguments = arguments, fibers::threads = int(threads);
    fibers::grid = {grid[0], grid[1], grid[2]}, asked_bytes = int(grid[3]);
    int blocks = 0, most = 0;  // beside each other
    if (grid[0] % unsigned(cluster)) return 912;
    unordered = false, refused = nullptr;
    const unsigned all = grid[0] * grid[1] * grid[2];
    unsigned step = 1, first = 0;  // from one block to the next: in a drawn order all others may be before the first
    if (order && all > 1 && !kernels[k].together) {
      first = unsigned(draw(int(all))), step = 1 + unsigned(draw(int(all - 1)));
      while (common_divisor(step, all) > 1) ++step;
    }
    bool ended = true;
    for (unsigned i = 0; i < all && ended; ++i) {
      if (blocks + cluster > most_blocks && cluster > 1 && blocks % cluster == 0) {  // clusters that meet are fewer
        if (!(ended = run_blocks(blocks))) break;
        blocks = 0;
      }
      if (blocks == most_blocks) return 701;
      const unsigned at = unsigned((first + (unsigned long long)step * i) % all);
      block_of[blocks++].index = {at % grid[0], at / grid[0] % grid[1], at / grid[0] / grid[1]};
      most = blocks > most ? blocks : most;
      if (kernels[k].together) continue;
      ended = run_blocks(blocks), blocks = 0;
    }
    ended = ended && run_blocks(blocks);
    close_memory(most);
    if (refused) fprintf(stderr, "%s breaks a rule: %s\n", name, refused);
    return refused ? 715 : !ended ? 719 : unordered ? 716 : 0;
  }
  return 500;
}
#pragma GCC pop_options
