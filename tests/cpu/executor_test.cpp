// Whole epilogues on the CPU: against the reference for every broadcast class, dtype, stride and
// odd shape, on every instruction set; the same bits for any number of threads; no allocation while
// running. It is longer than most because all of them run through one harness.
#include "cpu/isa.h"
#include "cpu/strips/ops.h"
#include "cpu/strips/phase.h"

#include "allocations.h"
#include "core/convert.h"
#include "lower/lower.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

namespace postlude {
namespace {

struct Array {
  std::vector<std::uint8_t> bytes;
  Tensor tensor;
};

// Everything that a plan binds, drawn from a seed; outputs are poisoned.
class Operands {
 public:
  // `spread`: elements between neighbours along the last axis of every operand; 1 is contiguous.
  Operands(const Plan& plan, std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k,
           std::int64_t spread = 1) {
    std::mt19937 random(5);
    for (const Plan::Slot& slot : plan.slots()) {
      std::vector<std::int64_t> shape = plan.shape_of(slot.name, m, n, k);
      if (batch > 1) shape.insert(shape.begin(), batch);
      Array& array = arrays_[slot.name];
      Tensor& tensor = array.tensor;
      tensor.dtype = slot.dtype;
      tensor.rank = static_cast<int>(shape.size());
      std::int64_t stride = slot.output ? 1 : spread;
      for (int axis = tensor.rank - 1; axis >= 0; --axis) {
        tensor.shape[static_cast<std::size_t>(axis)] = shape[static_cast<std::size_t>(axis)];
        tensor.strides[static_cast<std::size_t>(axis)] = stride;
        stride *= std::max<std::int64_t>(1, shape[static_cast<std::size_t>(axis)]) + (slot.output ? 0 : spread - 1);
      }
      array.bytes.assign(static_cast<std::size_t>(std::max<std::int64_t>(1, stride) * size_of(slot.dtype)), 0xff);
      tensor.data = array.bytes.data();
      if (slot.output) continue;
      const auto elements = static_cast<std::int64_t>(array.bytes.size()) / size_of(slot.dtype);
      for (std::int64_t i = 0; i < elements; ++i) {
        const double real = std::normal_distribution<double>()(random);
        if (is_float(slot.dtype)) core::store_real(slot.dtype, tensor.data, i, real);
        else core::store_integer(slot.dtype, tensor.data, i, static_cast<std::int64_t>(random() % 7));
      }
    }
  }
  [[nodiscard]] std::vector<Binding> bindings() const {
    std::vector<Binding> all;
    for (const auto& [name, array] : arrays_) all.push_back({name, array.tensor});
    return all;
  }
  [[nodiscard]] const Array& operator[](const std::string& name) const { return arrays_.at(name); }
  [[nodiscard]] Array& operator[](const std::string& name) { return arrays_.at(name); }

 private:
  std::map<std::string, Array> arrays_;
};

Graph graph_of(const std::string& text) { return parse(text); }

void expect_right(const Plan& plan, const Operands& operands, const std::string& what) {
  plan.bind(operands.bindings()).run();
  for (const Comparison& output : verify(plan, operands.bindings())) {
    EXPECT_LE(output.error_over_bound, 1) << what << ": " << output.output << " at (" << output.worst[0] << ", "
                                          << output.worst[1] << ", " << output.worst[2] << ") is " << output.value
                                          << ", should be " << output.expected << " within " << output.bound;
  }
}

// A call that is one short block records what it calls when it is bound: operands that change are read again.
TEST(ShortBlocks, ReadAgain) {
  const Plan plan = compile(Gemm{},
                            graph_of("def f(acc, bias: row, scale: col, s: scalar, C: tile[bf16]):\n"
                                     "    x = where(random(seed=3) < 0.7, gelu(acc * s + bias) / 0.7, 0)\n"
                                     "    keeps = random(seed=4) * n_index() + m_index()\n"
                                     "    D = x * scale + C\n"
                                     "    E: bf16 = x + keeps\n"
                                     "    F: f32 = s + 1\n"
                                     "    return D, E, F\n"),
                            Target::cpu(1));
  for (const auto [m, n, k] :
       {std::array<std::int64_t, 3>{1, 1, 5}, {3, 7, 40}, {16, 16, 9}, {2, 90, 3}, {30, 4, 64}}) {
    Operands operands(plan, 1, m, n, k);
    Call call = plan.bind(operands.bindings());
    for (const double value : {0.5, -2.0}) {
      for (const char* name : {"A", "bias", "scale", "s", "C"})
        core::store_real(operands[name].tensor.dtype, operands[name].tensor.data, 0, value);
      call.run();
      for (const Comparison& output : verify(plan, operands.bindings()))
        EXPECT_LE(output.error_over_bound, 1) << m << " x " << n << " x " << k << ' ' << output.output;
    }
  }
}

// A call that is one small product records its kernels' calls when it is bound: what is multiplied is read again.
TEST(SmallProducts, ReadAgain) {
  for (const char* text :
       {"def f(acc):\n    return acc\n", "def f(acc, bias: row, C: tile):\n    return max(acc * 2 + bias + C, 0)\n",
        "def f(acc, s: scalar):\n    return acc * s\n"}) {
    for (const cpu::Isa isa : {cpu::Isa::portable, cpu::Isa::avx2, cpu::machine_isa()}) {
      Target target = Target::cpu(2);
      target.isa = cpu::name(std::min(isa, cpu::machine_isa()));
      const Plan plan = compile(Gemm{}, graph_of(text), target);
      for (const auto [m, n, k] : {std::array<std::int64_t, 3>{1, 7, 6},
                                   {9, 1, 300},
                                   {40, 3, 20},
                                   {60, 9, 3},
                                   {20, 2, 70},
                                   {33, 70, 9},
                                   {5, 90, 12},
                                   {120, 13, 20},
                                   {40, 35, 70},
                                   {300, 20, 1}}) {
        for (const bool b_by_k : {false, true}) {
          Operands operands(plan, 1, m, n, k);
          if (b_by_k) operands["B"].tensor.strides = {1, k};
          Call call = plan.bind(operands.bindings());
          for (const double value : {0.5, -2.0}) {
            for (const char* name : {"A", "B"}) core::store_real(DType::f32, operands[name].tensor.data, 0, value);
            call.run();
            for (const Comparison& output : verify(plan, operands.bindings()))
              EXPECT_LE(output.error_over_bound, 1) << text << target.isa << ' ' << m << " x " << n << " x " << k;
          }
        }
      }
    }
  }
}

struct Case {
  const char* name;
  const char* text;
};
const Case cases[] = {
    {"broadcasts", R"(
def broadcasts(acc, t: tile, r: row, c: col, s: scalar):
    d = (acc + r) * c + s * t
    e = where(t > c, r - s, c * s)
    D: f32 = d
    E: f32 = e
    return D, E
)"},
    {"dtypes", R"(
def dtypes(acc, a: tile[f16], b: row[bf16], c: col[e4m3], d: tile[s8], e: row[u8], f: col[i64], g: tile[bool], h: row[e5m2]):
    x = where(g, acc + a * b, c - h)
    y = d * e + f
    O1: bf16 = x
    O2: e4m3 = x
    O3: s8 = y
    O4: i64 = y
    O5: bool = x > 0
    O6: f16 = cast(x, bf16)
    O7: i32 = cast(x * 10, i32, round=down)
    return O1, O2, O3, O4, O5, O6, O7
)"},
    {"pieces", R"(
def pieces(acc, z: tile):
    gate, up = chunk(acc, 2)
    even, odd = chunk(z, 2, group=2)
    D: f32 = silu(gate) * up + even - odd
    left, right = chunk(acc, 2, group=16)
    R: f32 = concat((left * 2.0 - right, right + left), group=16)
    return D, R
)"},
    {"statistics", R"(
def statistics(acc, c: col):
    x = acc * c
    S: f32 = sum(x, axis=1)
    T: f32 = max(x, axis=0)
    U: f32 = mean(x * x)
    I: i64 = argmax(x, axis=1)
    J: i64 = argmin(x, axis=0)
    V: f32 = var(x, axis=1)
    W: f32 = var(x, axis=0)
    L: f32 = logsumexp(x, axis=1)
    K: f32 = logsumexp(x, axis=0)
    Y: bool = any(x > 2, axis=1)
    Z: bool = all(x > -2, axis=0)
    G: f32 = sum(x, axis=1, group=8)
    H: f32 = max(x, axis=0, group=3)
    return S, T, U, I, J, V, W, L, K, Y, Z, G, H
)"},
    {"used_again", R"(
def used_again(acc, r: row):
    x = acc + r
    p = exp(x - max(x, axis=1))
    p = p / sum(p, axis=1)
    P: f32 = p
    C: f32 = sum(p, axis=0)
    N: f32 = x - mean(x, axis=0)
    scale = repeat(max(abs(x), axis=1, group=8), 8)
    Q: f32 = x / scale
    return P, C, N, Q
)"},
    {"general", R"(
def general(acc):
    total, largest = reduce((acc, abs(acc)), combine=lambda a, b, c, d: (a + c, max(b, d)), identity=(0.0, -inf), axis=1)
    down = reduce((acc,), combine=lambda a, b: (max(a, b)), identity=(-inf,), axis=0)
    T: f32 = total
    L: f32 = largest
    return T, L
)"},
    {"coordinates", R"(
def coordinates(acc, label: col[i64]):
    causal = where(n_index() <= m_index(), acc, -inf)
    kept = where(random(7) < 0.75, acc / 0.75, 0.0)
    hit = sum(where(n_index() == label, acc, 0.0), axis=1)
    M: f32 = max(causal, axis=1)
    D: f32 = kept
    H: f32 = hit
    R: bf16 = cast(acc, bf16, round=stochastic(3))
    return M, D, H, R
)"},
    {"guarded", R"(
def guarded(acc, beta: scalar, c: tile):
    D: f32 = acc + scaled(beta, c)
    return D
)"},
    {"absorbed", R"(
def absorbed(acc, z: tile, c: col, r: row):
    OA: f32 = cast(acc, bf16) + z
    OB: f32 = r - cast(acc * c, bf16)
    OC: f32 = cast(acc - c, bf16) - r
    OE: f32 = z * cast(acc + 2.0, bf16)
    OF: f32 = acc * c * r * z * 0.5
    OG: f32 = cast(acc + 1.0, bf16) * r * c
    OH: f32 = exp(cast(acc + 3.0, bf16) - z)
    OI: f32 = sum(acc * z * c, axis=1)
    OJ: f32 = exp(cast(acc * 0.5, bf16) + cast(z, bf16))
    return OA, OB, OC, OE, OF, OG, OH, OI, OJ
)"},
    {"logarithms", R"(
def logarithms(acc, z: tile):
    s = clamp(sigmoid(acc), 0.001, 0.999)
    L: f32 = sum((z - 1) * acc + log(s))
    R: f32 = sum(z * acc + log(sigmoid(z)), axis=1)
    P: f32 = sum(log(1 / (1 + acc * acc)), axis=1)
    return L, R, P
)"},
    {"stored_first", R"(
def stored_first(acc, r: row[f32], t: tile[f32]):
    D: f32 = relu(acc * 0.5 + r + t)
    E: bf16 = D * D + r
    S: f32 = mean(D, axis=0)
    T: f32 = max(abs(D), axis=1)
    U: f32 = sum(D)
    return D, E, S, T, U
)"},
    {"summed", R"(
def summed(acc, r: row[f32], t: tile[f32]):
    D: f32 = relu(acc + r + t)
    S: f32 = mean(D, axis=0)
    return D, S
)"},
};

class Executor : public testing::TestWithParam<cpu::Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > cpu::machine_isa()) GTEST_SKIP() << "this machine has no " << name(GetParam());
  }
  [[nodiscard]] Target target(int threads = 2) const {
    Target target = Target::cpu(threads);
    target.isa = name(GetParam());
    return target;
  }
};
INSTANTIATE_TEST_SUITE_P(Isa, Executor,
                         testing::Values(cpu::Isa::portable, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::amx),
                         [](const auto& info) { return std::string(name(info.param)); });

constexpr std::int64_t shapes[][3] = {{1, 16, 1}, {25, 48, 7}, {3, 1040, 5}, {60, 2064, 9}, {130, 16, 3}};

TEST_P(Executor, AgreesWithTheReferenceOnEveryClassAndShape) {
  for (const Case& c : cases) {
    const Graph graph = graph_of(c.text);
    const Plan plan = compile(Gemm{}, graph, target());
    for (const auto& [m, n, k] : shapes) {
      expect_right(plan, Operands(plan, 1, m, n, k),
                   std::string(c.name) + " " + std::to_string(m) + " x " + std::to_string(n));
    }
  }
}

TEST_P(Executor, TakesAnyStride) {
  for (const Case& c : cases) {
    const Plan plan = compile(Gemm{}, graph_of(c.text), target());
    expect_right(plan, Operands(plan, 1, 29, 48, 5, 3), std::string(c.name) + ", every third element");
  }
}

TEST_P(Executor, RunsBatches) {
  for (const Case& c : cases) {
    const Plan plan = compile(Gemm{.batched = true}, graph_of(c.text), target());
    expect_right(plan, Operands(plan, 3, 29, 48, 5), std::string(c.name) + " in a batch");
  }
}

TEST_P(Executor, StreamsWithoutAProduct) {
  for (const Case& c : cases) {
    for (const DType x : {f32, bf16, i32}) {
      const Plan plan = compile(Stream{.x = x}, graph_of(c.text), target());
      expect_right(plan, Operands(plan, 1, 29, 1040, 0),
                   std::string(c.name) + " over a stream of " + std::string(name(x)));
    }
  }
}

TEST_P(Executor, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const Case& c : cases) {
    const Graph graph = graph_of(c.text);
    const Plan one = compile(Gemm{}, graph, target(1));
    Operands alone(one, 1, 130, 528, 40);
    one.bind(alone.bindings()).run();
    for (const int threads : {2, 3, 7}) {
      const Plan plan = compile(Gemm{}, graph, target(threads));
      Operands together(plan, 1, 130, 528, 40);
      Call call = plan.bind(together.bindings());
      for (int run = 0; run < 2; ++run) {
        call.run();
        for (const Plan::Slot& slot : plan.slots()) {
          EXPECT_EQ(alone[slot.name].bytes, together[slot.name].bytes)
              << c.name << ", " << slot.name << ", " << threads << " threads";
        }
      }
    }
  }
}

TEST_P(Executor, AllocatesNothingWhileItRuns) {
#if !defined(_OPENMP)
  GTEST_SKIP() << "std::thread, which stands in for OpenMP's threads, allocates";
#endif
  for (const Case& c : cases) {
    const Plan plan = compile(Gemm{}, graph_of(c.text), target());
    Operands operands(plan, 1, 60, 528, 40);
    Call call = plan.bind(operands.bindings());
    call.run();  // OpenMP's threads start here
    const std::int64_t before = allocations;
    call.run();
    EXPECT_EQ(allocations, before) << c.name;
  }
}

TEST_P(Executor, DoesNotReadWhatAGuardSwitchesOff) {
  const Plan plan = compile(Gemm{}, graph_of(cases[7].text), target());
  Operands operands(plan, 1, 25, 48, 7);
  std::memset(operands["beta"].bytes.data(), 0, 4);
  std::memset(operands["c"].bytes.data(), 0xff, operands["c"].bytes.size());  // NaN
  plan.bind(operands.bindings()).run();
  const auto* d = static_cast<const float*>(operands["D"].tensor.data);
  for (int i = 0; i < 25 * 48; ++i) ASSERT_FALSE(std::isnan(d[i])) << i;
}

TEST_P(Executor, WritesInPlaceOfAnOperand) {
  const Plan plan = compile(
      Gemm{}, graph_of("def f(acc, t: tile[f32]):\n    D: f32 = acc + t\n    E: f32 = t * 2\n    return D, E\n"),
      target());
  Operands expected(plan, 1, 50, 80, 7), operands(plan, 1, 50, 80, 7);
  plan.bind(expected.bindings()).run();
  std::vector<Binding> bindings = operands.bindings();
  for (Binding& binding : bindings) {
    if (binding.name == "D") binding.tensor = operands["t"].tensor;
  }
  plan.bind(bindings).run();
  EXPECT_EQ(std::memcmp(operands["t"].bytes.data(), expected["D"].bytes.data(), 4 * 50 * 80), 0);
  EXPECT_EQ(std::memcmp(operands["E"].bytes.data(), expected["E"].bytes.data(), 4 * 50 * 80), 0);
}

TEST_P(Executor, FindsTheFirstOfEqualsAndTheFirstNan) {
  const Plan plan = compile(
      Stream{}, graph_of("def f(acc):\n    I = argmax(acc, axis=1)\n    J = argmin(acc, axis=1)\n    return I, J\n"),
      target());
  constexpr std::int64_t n = 3000;
  std::vector<float> x(3 * n, 1.0f);
  x[n + 700] = x[n + 2900] = 2.0f;
  x[2 * n + 1500] = x[2 * n + 2999] = std::nanf("");
  x[2 * n + 10] = 9.0f;
  std::int64_t i[3], j[3];
  plan.bind({{"X", Tensor(x.data(), f32, {3, n})}, {"I", Tensor(i, i64, {3})}, {"J", Tensor(j, i64, {3})}}).run();
  EXPECT_EQ(i[0], 0);
  EXPECT_EQ(i[1], 700);
  EXPECT_EQ(i[2], 1500);
  EXPECT_EQ(j[1], 0);
  EXPECT_EQ(j[2], 1500);
}

TEST_P(Executor, TheCheapestEpiloguesRunInRegisters) {
  const char* texts[] = {"def f(acc):\n    D: f32 = acc\n    return D\n",
                         "def f(acc, b: row[f32]):\n    D: f32 = relu(acc + b)\n    return D\n",
                         "def f(acc, s: scalar, b: row[f32]):\n    D: f32 = acc * s + b\n    return D\n",
                         "def f(acc, t: tile[f32]):\n    D: f32 = clamp(acc + t, -1.0, 2.0)\n    return D\n"};
  for (const char* text : texts) {
    const Plan plan = compile(Gemm{}, graph_of(text), target());
    EXPECT_NE(plan.explain(ExplainPart::schedule, 100, 100, 100).find("in registers"), std::string::npos) << text;
    for (const auto& [m, n, k] : shapes) expect_right(plan, Operands(plan, 1, m, n, k), text);
  }
}

// D in registers, and the rest made of what was stored: the same bits as strips give, which D takes where its columns
// are apart.
TEST_P(Executor, AnOutputIsStoredBeforeWhatIsMadeOfIt) {
  const std::int64_t m = 307, n = 535, k = 520;
  const auto schedule_of = [&](const Plan& plan) { return plan.explain(ExplainPart::schedule, m, n, k); };
  const Plan plan = compile(Gemm{},
                            graph_of("def f(acc, r: row[f32], t: tile[f32]):\n    D: f32 = relu(acc + r + t)\n"
                                     "    S: f32 = mean(D, axis=0)\n    return D, S\n"),
                            target());
  EXPECT_NE(schedule_of(plan).find(", D in registers"), std::string::npos) << schedule_of(plan);
  Operands stored(plan, 1, m, n, k), strips(plan, 1, m, n, k), in_place(plan, 1, m, n, k);
  plan.bind(stored.bindings()).run();
  std::vector<float> apart(static_cast<std::size_t>(2 * m * n));
  strips["D"].tensor = Tensor(apart.data(), f32, {m, n}, {2 * n, 2});
  Call call = plan.bind(strips.bindings());
  EXPECT_EQ(call.describe().find("in registers"), std::string::npos) << call.describe();
  call.run();
  in_place["D"].tensor.data = in_place["t"].tensor.data;
  plan.bind(in_place.bindings()).run();
  const auto* d = static_cast<const float*>(stored["D"].tensor.data);
  for (std::size_t i = 0; i < apart.size(); i += 2) ASSERT_EQ(d[i / 2], apart[i]) << i / 2;
  EXPECT_EQ(stored["S"].bytes, strips["S"].bytes);
  EXPECT_EQ(stored["S"].bytes, in_place["S"].bytes);
  EXPECT_EQ(stored["D"].bytes, in_place["t"].bytes);

  // What is made of the accumulators too, or of a tile that D may stand in place of, waits for neither.
  for (const char* text : {"def f(acc):\n    D: f32 = relu(acc)\n    S: f32 = mean(acc, axis=0)\n    return D, S\n",
                           "def f(acc):\n    D: bf16 = relu(acc)\n    S: f32 = mean(D, axis=0)\n    return D, S\n"}) {
    const Plan other = compile(Gemm{}, graph_of(text), target());
    EXPECT_EQ(schedule_of(other).find("D in registers"), std::string::npos) << text;
  }
  const Plan again = compile(Gemm{},
                             graph_of("def f(acc, t: tile[f32]):\n    D: f32 = acc + t\n"
                                      "    S: f32 = mean(D * t, axis=0)\n    return D, S\n"),
                             target());
  EXPECT_NE(schedule_of(again).find("D in registers"), std::string::npos);
  Operands apart_of_t(again, 1, m, n, k), over_t(again, 1, m, n, k);
  again.bind(apart_of_t.bindings()).run();
  over_t["D"].tensor.data = over_t["t"].tensor.data;
  Call over = again.bind(over_t.bindings());
  EXPECT_EQ(over.describe().find("D in registers"), std::string::npos) << over.describe();
  over.run();
  EXPECT_EQ(apart_of_t["S"].bytes, over_t["S"].bytes);
}

TEST(Sums, OfAProductAndALogarithmAreTakenApart) {
  const auto pieces = [](const char* sum) {
    const std::string text = std::string("def f(acc, z: tile):\n    S: f32 = ") + sum + "\n    return S\n";
    const lower::Program program = lower::lower(graph_of(text.c_str()).data(), facts_of(Gemm{}));
    return cpu::prepare(program, cpu::strips(cpu::machine_isa())).phases[0].reductions[0].pieces.size();
  };
  EXPECT_EQ(pieces("sum(z * acc + log(sigmoid(acc)))"), 2);
  EXPECT_EQ(pieces("sum(z * acc + log(clamp(sigmoid(acc), 0.001, 0.999)), axis=1)"), 2);
  EXPECT_EQ(pieces("sum(z * acc + log(sigmoid(acc)), axis=0)"), 1);
  EXPECT_EQ(pieces("sum(z * acc + log(acc))"), 1);  // whose factors have no rounding of their own
}

TEST(Asking, SharesFollowCostsAndLeaveNothingOut) {
  const lower::BufferId first = 3, second = 5;
  const std::vector<cpu::Wanted> wanted = {{first, {0, 0}, 4096, 0}, {second, {0, 0}, 1000, 4}};
  const std::vector<double> costs = {1, 0, 3.5, 2};
  const std::vector<std::vector<cpu::Wanted>> shares = cpu::share_out(wanted, costs);
  ASSERT_EQ(shares.size(), costs.size());
  std::map<lower::BufferId, double> reached;
  for (std::size_t s = 0; s < costs.size(); ++s) {
    double bytes = 0;
    for (const cpu::Wanted& x : shares[s]) {
      bytes += x.bytes();
      EXPECT_NEAR(x.first, reached[x.buffer], 1e-9);
      reached[x.buffer] = x.end;
    }
    EXPECT_NEAR(bytes, 5096 * costs[s] / 6.5, 1);
  }
  EXPECT_NEAR(reached[first], 1, 1e-9);
  EXPECT_NEAR(reached[second], 1, 1e-9);
}

// Calls that touch much memory ask for lines, and those that touch more store whole lines past the
// caches: their rows must be those of calls that touch little. The columns end within a block
// between two requests, for each element and for the lanes of a reduction.
TEST_P(Executor, AskingChangesNothing) {
  struct Rows {
    std::int64_t much, few, columns;
  };
  std::mt19937 random(3);
  // 8.8 and 1 MB of f32 are read; 23 and 1.2, and written. Rows of the second begin lines.
  for (const auto [rows, few, across] : {Rows{531, 59, 4164}, Rows{1400, 70, 4176}}) {
    const std::int64_t columns = across;  // for a lambda
    for (const DType type : {f32, bf16}) {
      const std::int64_t size = size_of(type);
      std::vector<char> x(rows * columns * size);
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        const float value = static_cast<float>(random() % 256) / 32 - 4;  // of which bf16 keeps all
        std::memcpy(&x[i * size], reinterpret_cast<const char*>(&value) + 4 - size, size);
      }
      for (const char* text : {"def f(acc):\n    y: f32 = acc * rsqrt(mean(acc * acc, axis=1) + 1e-6)\n    return y\n",
                               "def f(acc):\n    e = exp(acc - max(acc, axis=1))\n    y: bf16 = e / sum(e, axis=1)\n"
                               "    return y\n",
                               "def f(acc):\n    y: f32 = relu(acc)\n    return y\n",
                               "def f(acc):\n    y: f32 = logsumexp(acc, axis=1)\n    return y\n"}) {
        const Plan plan = compile(Stream{.x = type}, graph_of(text), target());
        const DType to = std::strstr(text, "bf16") ? bf16 : f32;
        const std::int64_t width = plan.shape_of("y", rows, columns, 0).size() == 2 ? columns : 1;
        const std::size_t bytes = rows * width * size_of(to);
        struct Aligned {
          alignas(64) char line[64];
        };
        std::vector<Aligned> much(bytes / 64 + 1), little(much.size());
        const auto run = [&](std::int64_t first, std::int64_t count, std::vector<Aligned>& out) {
          char* const data = out.data()->line + first * width * size_of(to);
          const Tensor y = width == 1 ? Tensor(data, to, {count}) : Tensor(data, to, {count, columns});
          plan.bind({{"X", Tensor(x.data() + first * columns * size, type, {count, columns})}, {"y", y}}).run();
        };
        run(0, rows, much);
        for (std::int64_t first = 0; first < rows; first += few) run(first, few, little);
        EXPECT_EQ(std::memcmp(much.data(), little.data(), bytes), 0) << text << name(type);
      }
    }
  }
}

// Full blocks repeat the calls of others at other addresses, of the next batch too: their rows must
// be those of calls of one row, which repeat nothing. The last blocks do not repeat, for lack of
// rows or lines.
TEST_P(Executor, BlocksThatRepeatChangeNothing) {
  constexpr std::int64_t most = 4214400;  // 33.7 MB with the output, which goes past the caches
  struct Aligned {
    alignas(64) float line[16];
  };
  std::vector<float> x(most), m, expected_m;
  std::vector<Aligned> y(most / 16), expected(most / 16);
  std::mt19937 random(3);
  for (float& value : x) value = static_cast<float>(random() % 256) / 32 - 4;
  for (const char* first : {"acc", "acc * 0.5 + 1"}) {  // which the first phase keeps for the last
    const Graph graph = graph_of("def f(acc):\n    x = " + std::string(first) +
                                 "\n    m: f32 = max(x, axis=1)\n    e = exp(x - m)\n"
                                 "    y: f32 = e / sum(e, axis=1) + x\n    return y, m\n");
    const Plan one = compile(Stream{}, graph, target(1));
    for (const auto [batch, rows, threads] : {std::array{1, 1, 2}, {1, 5, 1}, {3, 97, 2}, {1, 1001, 3}, {2, 1234, 1}}) {
      const std::int64_t all = batch * rows, columns = most / all / 16 * 16;
      const Plan plan = compile(Stream{.batched = true}, graph, target(threads));
      const auto row_of = [columns](std::vector<Aligned>& of, std::int64_t row) { return of[0].line + row * columns; };
      m.assign(3 * all, 0);
      expected_m.assign(3 * all, 0);
      Tensor apart(m.data(), f32, {batch, rows});
      apart.strides[0] = 3 * rows;
      apart.strides[1] = 3;
      plan.bind({{"X", Tensor(x.data(), f32, {batch, rows, columns})},
                 {"y", Tensor(row_of(y, 0), f32, {batch, rows, columns})},
                 {"m", apart}})
          .run();
      for (std::int64_t row = 0; row < all; ++row) {
        one.bind({{"X", Tensor(&x[row * columns], f32, {1, columns})},
                  {"y", Tensor(row_of(expected, row), f32, {1, columns})},
                  {"m", Tensor(&expected_m[3 * row], f32, {1})}})
            .run();
      }
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), all * columns * 4), 0)
          << first << ", " << batch << " x " << rows;
      EXPECT_EQ(m, expected_m) << first << ", " << batch << " x " << rows;
    }
  }
}

// The same behind a product, where the costliest step asks for the tiles beside the accumulator and
// a third tile, which another step reads, goes past the caches; and in a stream, where all outputs
// do.
TEST_P(Executor, TilesBesideTheAccumulatorChangeNothing) {
  constexpr std::int64_t rows = 1357, few = 59, columns = 2096;  // 11 MB each, whose rows begin lines
  struct Aligned {
    alignas(64) float line[16];
  };
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> a(rows), b(columns), z(rows * columns);
  for (std::vector<float>* x : {&a, &b, &z}) {
    for (float& v : *x) v = normal(random);
  }
  std::vector<Aligned> much[2], little[2];
  for (int i = 0; i < 2; ++i) {
    much[i].resize(z.size() / 16);
    little[i].resize(z.size() / 16);
  }
  for (const char* text : {"def f(acc, z: tile):\n    y: f32 = acc * dgelu(z)\n    return y\n",
                           "def f(acc, z: tile):\n    u: f32 = acc + 0.5\n    y: f32 = gelu(u) + z\n    return y, u\n",
                           "def f(acc):\n    u: f32 = acc + 0.5\n    y: f32 = gelu(u)\n    return y, u\n"}) {
    const bool stream = std::strstr(text, "z: tile") == nullptr, two = std::strstr(text, ", u\n") != nullptr;
    const Plan plan = compile(stream ? Problem(Stream{}) : Problem(Gemm{}), graph_of(text), target());
    const auto run = [&](std::int64_t first, std::int64_t count, std::vector<Aligned>(&out)[2]) {
      const auto tile = [&](float* data) { return Tensor(data + first * columns, f32, {count, columns}); };
      std::vector<Binding> bindings = {{"y", tile(out[0][0].line)}};
      if (two) bindings.push_back({"u", tile(out[1][0].line)});
      bindings.push_back({stream ? "X" : "z", tile(z.data())});
      if (!stream) bindings.push_back({"A", Tensor(a.data() + first, f32, {count, 1})});
      if (!stream) bindings.push_back({"B", Tensor(b.data(), f32, {1, columns})});
      plan.bind(bindings).run();
    };
    run(0, rows, much);
    for (std::int64_t first = 0; first < rows; first += few) run(first, few, little);
    for (int i = 0; i < 1 + two; ++i)
      EXPECT_EQ(std::memcmp(much[i].data(), little[i].data(), z.size() * sizeof(float)), 0) << text;
  }
}

// Accumulators of whole rows wait in the output where nothing else is there: in memory of its own,
// with longer rows (whose ends stay as they are), and, from scratch, in place of an operand. Few
// rows are collected; of more rows a thread takes a part at a time, here two.
TEST(WholeRows, TheSameWhereverTheAccumulatorsWait) {
  struct {
    const char* name;
    std::int64_t m, n;
    int threads;
  } cases[] = {{"rmsnorm", 50, 96, 1},    {"rmsnorm", 50, 96, 2},    {"softmax", 50, 96, 2},
               {"rmsnorm", 410, 1040, 1}, {"rmsnorm", 410, 1040, 2}, {"softmax", 410, 1040, 1}};
  for (const auto& [name, m, n, threads] : cases) {
    constexpr std::int64_t k = 40;
    const Graph graph = parse_file(std::string(POSTLUDE_SOURCE_DIR "/epilogues/") + name + ".py");
    const Plan plan = compile(Gemm{}, graph, Target::cpu(threads));
    Operands operands(plan, 1, m, n, k);
    expect_right(plan, operands, name);
    const std::vector<std::uint8_t> alone = operands["D"].bytes;

    std::vector<float> wide(m * (n + 7), 42.0f);
    Tensor& d = operands["D"].tensor;
    const Tensor before = d;
    d.data = wide.data();
    d.strides[0] = n + 7;
    plan.bind(operands.bindings()).run();
    for (std::int64_t i = 0; i < m; ++i) {
      EXPECT_EQ(std::memcmp(wide.data() + i * (n + 7), alone.data() + i * n * 4, n * 4), 0) << name << ", row " << i;
      for (std::int64_t j = n; j < n + 7; ++j) EXPECT_EQ(wide[static_cast<std::size_t>(i * (n + 7) + j)], 42.0f);
    }

    if (std::string(name) != "rmsnorm") continue;
    d = before;
    d.data = operands["residual"].tensor.data;
    plan.bind(operands.bindings()).run();
    EXPECT_EQ(std::memcmp(d.data, alone.data(), alone.size()), 0) << "in place of the residual";
  }
}

// OpenMP's threads are the parent's: a child that waits for them waits forever.
TEST(Fork, AChildComputesOnThreadsOfItsOwn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer knows no threads behind a fork";
#endif
  const Plan plan = compile(Gemm{}, parse_file(POSTLUDE_SOURCE_DIR "/epilogues/softmax.py"), Target::cpu(3));
  Operands operands(plan, 1, 200, 300, 40);
  Call call = plan.bind(operands.bindings());
  call.run();
  const std::vector<std::uint8_t> expected = operands["D"].bytes;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(20);
    std::fill(operands["D"].bytes.begin(), operands["D"].bytes.end(), std::uint8_t{0xff});
    call.run();
    ::_exit(operands["D"].bytes == expected ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status) << "; 14: it hung";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "other bits than the parent's";
}

}  // namespace
}  // namespace postlude
