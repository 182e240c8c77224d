// The promises of a Plan: compiling, running, explaining.
#include "allocations.h"
#include "core/convert.h"
#include "plan/support.h"
#include "stopwatch.h"

#include <postlude/function.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>

using namespace postlude_test;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

TEST(Plan, AnySizeUnderOnePlan) {
  const Plan plan = compile(
      Gemm{},
      parse("def f(acc, bias: row):\n    D = relu(acc + bias)\n    amax = max(D, axis=1)\n    return D, amax\n"));
  for (const auto [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 7}, {64, 48, 32}, {65, 129, 33}}) {
    const Array a({m, k}), b({k, n}), bias({n}), d({m, n}), amax({m});
    const std::vector<Binding> bindings = {
        {"A", a.view()}, {"B", b.view()}, {"bias", bias.view()}, {"D", d.view()}, {"amax", amax.view()}};
    plan.bind(bindings).run();
    for (const Comparison& c : verify(plan, bindings))
      EXPECT_LE(c.error_over_bound, 1) << c.output << " at " << m << " x " << n << " x " << k;
  }
}

TEST(Plan, RunDoesNotAllocate) {
#if !defined(_OPENMP)
  GTEST_SKIP() << "std::thread, which stands in for OpenMP's threads, allocates";
#endif
  const Plan plan = compile(Gemm{}, parse("def f(acc, bias: row):\n"
                                          "    z = acc + bias\n"
                                          "    D = exp(z - max(z, axis=1))\n"
                                          "    total = sum(D, axis=0)\n"
                                          "    return D, total\n"));
  const Array a({130, 70}), b({70, 300}), bias({300}), d({130, 300}), total({300});
  Call call =
      plan.bind({{"A", a.view()}, {"B", b.view()}, {"bias", bias.view()}, {"D", d.view()}, {"total", total.view()}});
  call.run();  // OpenMP makes its threads on the first
  const std::int64_t before = allocations;
  call.run();
  EXPECT_EQ(allocations, before);
}

TEST(Plan, ThreadsShareOne) {
  const Plan plan =
      compile(Gemm{}, parse("def f(acc, x: tile):\n    D = acc + x\n    y = x * sum(D, axis=1)\n    return D, y\n"),
              Target::cpu(1));
  constexpr std::int64_t m = 40, n = 24, k = 16;
  const Array a({m, k}), b({k, n}), x({m, n}), d({m, n}), y({m, n});
  plan.bind({{"A", a.view()}, {"B", b.view()}, {"x", x.view()}, {"D", d.view()}, {"y", y.view()}}).run();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const Array own({m, n}), out({m, n}), other({m, n});
        const bool in_place = i % 2 == 1;  // the variant for it is compiled by whoever comes first
        Call call = plan.bind({{"A", a.view()},
                               {"B", b.view()},
                               {"x", own.view()},
                               {"D", in_place ? own.view() : out.view()},
                               {"y", other.view()}});
        call.run();
        const auto& result = in_place ? own : out;
        if (!std::equal(d.values.begin(), d.values.begin() + m * n, result.values.begin())) ++wrong;
        if (!std::equal(y.values.begin(), y.values.begin() + m * n, other.values.begin())) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Plan, CallOutlivesItsPlan) {
  const Array a({4, 3}), b({3, 5}), d({4, 5}, 9);
  Call call;
  {
    const Plan plan = compile(Gemm{}, parse("def f(acc):\n    return acc * 0\n"));
    call = plan.bind({{"A", a.view()}, {"B", b.view()}, {"D", d.view()}});
  }
  call.run();
  EXPECT_EQ(std::abs(d.values[0]), 0);
}

TEST(Plan, EmptyOutputsAreNotAnError) {
  const Plan plan =
      compile(Gemm{}, parse("def f(acc):\n    D = acc + 1\n    amax = max(acc, axis=1)\n    return D, amax\n"));
  const Array a({0, 3}), b({3, 5}), d({0, 5}), amax({0});
  Call call = plan.bind({{"A", a.view()}, {"B", b.view()}, {"D", d.view()}, {"amax", amax.view()}});
  EXPECT_NO_THROW(call.run());
  EXPECT_EQ(call.workspace_bytes(), 0);
  EXPECT_NE(call.describe().find("empty"), std::string::npos);
}

TEST(Plan, StatisticsOfAnEmptyAxis) {
  const Plan plan = compile(Gemm{}, parse("def f(acc):\n"
                                          "    total = sum(acc, axis=1)\n"
                                          "    largest = max(acc, axis=1)\n"
                                          "    index = argmax(acc, axis=1)\n"
                                          "    shifted = sum(acc, axis=1) + 2\n"
                                          "    count = sum(acc > 0, axis=0)\n"
                                          "    return total, largest, index, shifted, count\n"));
  const Array a({3, 4}), b({4, 0}), total({3}), largest({3}), shifted({3});
  std::vector<std::int64_t> index = {7, 7, 7}, count;
  plan.bind({{"A", a.view()},
             {"B", b.view()},
             {"total", total.view()},
             {"largest", largest.view()},
             {"index", Tensor(index.data(), i64, {3})},
             {"shifted", shifted.view()},
             {"count", Tensor(count.data(), i64, {0})}})
      .run();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(total.values[i], 0);
    EXPECT_EQ(largest.values[i], -inf);
    EXPECT_EQ(index[i], -1);
    EXPECT_EQ(shifted.values[i], 2);
  }
}

TEST(Plan, NoKRunsTheEpilogueOnZeros) {
  const Plan plan = compile(
      Gemm{}, parse("def f(acc, bias: row):\n    D = acc + bias\n    total = sum(D, axis=0)\n    return D, total\n"));
  const Array a({3, 0}), b({0, 5}), bias({5}), d({3, 5}, 9), total({5});
  plan.bind({{"A", a.view()}, {"B", b.view()}, {"bias", bias.view()}, {"D", d.view()}, {"total", total.view()}}).run();
  for (int i = 0; i < 15; ++i) EXPECT_EQ(d.values[i], bias.values[i % 5]);
  for (int j = 0; j < 5; ++j) EXPECT_EQ(total.values[j], 3 * bias.values[j]);
}

TEST(Plan, DtypesLeftOpen) {
  const Graph graph = parse("def f(acc, bias: row):\n    D = acc + bias\n    return D\n");
  EXPECT_EQ(compile(Gemm{}, graph).slots()[2].dtype, f32);
  const Plan plan = compile(Gemm{.a = bf16, .b = bf16}, graph);
  EXPECT_EQ(plan.slots()[2].dtype, bf16);
  EXPECT_EQ(plan.slots()[3].dtype, bf16);
  const Plan mixed = compile(Gemm{.a = bf16, .b = bf16}, graph, {}, {.dtypes = {{"bias", f32}, {"D", f16}}});
  EXPECT_EQ(mixed.slots()[2].dtype, f32);
  EXPECT_EQ(mixed.slots()[3].dtype, f16);
  EXPECT_ERROR(ErrorCode::unknown_operand, "Did you mean 'bias'?",
               (void)compile(Gemm{}, graph, {}, {.dtypes = {{"bais", f32}}}));
  EXPECT_ERROR(ErrorCode::repeated_operand, "'bias' twice",
               (void)compile(Gemm{}, graph, {}, {.dtypes = {{"bias", f32}, {"bias", f16}}}));
  EXPECT_ERROR(ErrorCode::wrong_dtype, "'bias' is declared f16 by the epilogue",
               (void)compile(Gemm{}, parse("def f(acc, bias: row[f16]):\n    return acc + bias\n"), {},
                             {.dtypes = {{"bias", f32}}}));
}

TEST(Plan, Refusals) {
  const Graph graph = parse("def f(acc):\n    return acc + 1\n");
  EXPECT_ERROR(ErrorCode::unsupported, "A is s8 and B is f32", (void)compile(Gemm{.a = s8, .b = f32}, graph));
  EXPECT_ERROR(ErrorCode::unsupported, "Convert both first", (void)compile(Gemm{.a = i32, .b = i32}, graph));
  EXPECT_ERROR(ErrorCode::unsupported, "X is i64", (void)compile(Stream{.x = i64}, graph));
  EXPECT_ERROR(ErrorCode::unsupported, "X is bool", (void)compile(Stream{.x = boolean}, graph));
  EXPECT_ERROR(ErrorCode::usage, "the graph is empty", (void)compile(Gemm{}, Graph()));
  EXPECT_ERROR(ErrorCode::usage, "-1 threads", (void)compile(Gemm{}, graph, Target::cpu(-1)));
  EXPECT_ERROR(ErrorCode::usage, "this Plan is empty", (void)Plan().bind({}));
  EXPECT_ERROR(ErrorCode::usage, "this Plan is empty", (void)Plan().bind({}, nullptr));
  EXPECT_ERROR(ErrorCode::usage, "this Plan is empty", (void)Plan().bind({}, PackedOperand()));
  EXPECT_ERROR(ErrorCode::usage, "this Plan is empty", (void)Plan().slots());
  EXPECT_ERROR(ErrorCode::usage, "this Plan is empty", (void)Plan().shape_of("A", 1, 1, 1));
  EXPECT_ERROR(ErrorCode::usage, "this Plan is empty", (void)Plan().graph());
  EXPECT_ERROR(ErrorCode::usage, "this Plan is empty", (void)Plan().problem());
  EXPECT_ERROR(ErrorCode::usage, "this Plan is empty", (void)Plan().target());
  EXPECT_ERROR(ErrorCode::usage, "this Plan is empty", (void)Plan().explain());
  EXPECT_ERROR(ErrorCode::usage, "this Plan is empty", (void)pack(Plan(), Tensor()));
  EXPECT_ERROR(ErrorCode::usage, "this Plan is empty", (void)verify(Plan(), {}));
  EXPECT_ERROR(ErrorCode::usage, "bound to nothing", Call().run());
}

TEST(Plan, SupportsSaysWhy) {
  const Graph graph = parse("def f(acc):\n    return acc + 1\n");
  EXPECT_TRUE(supports(Gemm{}, graph));
  const Support mixed = supports(Gemm{.a = s8, .b = f32}, graph);
  ASSERT_FALSE(mixed);
  ASSERT_EQ(mixed.reasons.size(), 1u);
  EXPECT_NE(mixed.reasons[0].find("Convert one of them first"), std::string::npos);
  for (const Problem& problem : {Problem(Stream{.x = i64}), Problem(Gemm{.a = i32, .b = i32})}) {
    const Support support = supports(problem, graph);
    EXPECT_FALSE(support);
    EXPECT_FALSE(support.reasons.empty());
  }
  const Graph bits =
      parse("def f(acc):\n    return acc & 1\n");  // of integers: whether it means something is the main loop's affair
  EXPECT_TRUE(supports(Gemm{.a = s8, .b = s8}, bits));
  EXPECT_FALSE(supports(Gemm{}, bits));
  EXPECT_FALSE(supports(Gemm{}, bits).reasons.empty());
  Target scheduled = Target::parse("sm_90a");
  scheduled.schedule = "nonsense";
  EXPECT_ERROR(ErrorCode::bad_schedule, "nonsense", (void)compile(Gemm{}, graph, scheduled));
  EXPECT_FALSE(supports(Gemm{}, graph, scheduled));
  Target fast;
  fast.schedule = "fast";
  EXPECT_ERROR(ErrorCode::unsupported, "on Hopper alone", (void)compile(Gemm{}, graph, fast));
  Target hopper = Target::parse("sm_90a");
  hopper.schedule = "fast";
  for (const Problem& problem : {Problem(Gemm{.a = bf16, .b = bf16}), Problem(Stream{.x = e4m3})})
    EXPECT_ERROR(ErrorCode::unsupported, "only fp8 is accumulated \"fast\"", (void)compile(problem, graph, hopper));
  EXPECT_TRUE(supports(Gemm{.a = e4m3, .b = e4m3}, graph, hopper));
  fast.schedule = "fast sideways";
  EXPECT_EQ(supports(Gemm{}, graph, fast).reasons.size(), 2u);
}

TEST(Plan, SupportsSaysEachReasonOnce) {
  const Graph graph = parse("def f(acc):\n    return acc + 1\n");
  for (const Target& target : {Target::cuda(), Target::cpu()}) {
    std::vector<std::string> reasons = supports(Gemm{.a = i64, .b = i64}, graph, target).reasons;
    EXPECT_FALSE(reasons.empty());
    std::sort(reasons.begin(), reasons.end());
    EXPECT_EQ(std::adjacent_find(reasons.begin(), reasons.end()), reasons.end()) << reasons[0];
  }
}

// A combiner may be made of whatever an elementwise value may be, but for random bits: it stands at
// no element.
TEST(Plan, CombinersOfAnything) {
  for (const char* combine :
       {"lambda a, b: max(cast(a, bf16, round=up), cast(b, bf16, round=up))",  // rounds as told
        "lambda a, b: where(isnan(a), b, where(isnan(b), a, max(a, b)))",      // functions without code
        "lambda a, b: larger(a, b)", "lambda a, b: max(relu(a), relu(b))",
        "lambda a, b: max(max(a, b), scaled(0.0, a / 0.0))"}) {
    const Plan plan = compile(Gemm{}, parse("def larger(p, q):\n    return max(leaky_relu(p, 1), clamp(q, -100, 100))\n"
                                            "def f(acc):\n    s = reduce(acc, combine=" +
                                            std::string(combine) + ", identity=-100.0, axis=1)\n    return s\n"));
    const Array a({5, 7}), b({7, 300}), s({5});
    const std::vector<Binding> bindings = {{"A", a.view()}, {"B", b.view()}, {"s", s.view()}};
    plan.bind(bindings).run();
    EXPECT_LE(verify(plan, bindings).at(0).error_over_bound, 1) << combine;
  }
  EXPECT_ERROR(ErrorCode::bad_combiner, "rounds stochastically",
               (void)parse("def f(acc):\n    s = reduce(acc, combine=lambda a, b: cast(a + b, bf16, "
                           "round=stochastic(1)), identity=0.0, axis=1)\n    return s\n"));
}

// An epilogue that the interpreter cannot hold is refused before anything is bound.
TEST(Plan, TooManyPartsAreRefusedAtCompile) {
  GraphBuilder g;
  const std::vector<Value> values(17, g.accumulator());
  const auto sum = [](auto p, auto q) {
    std::vector<Value> r;
    for (std::size_t i = 0; i < p.size(); ++i) r.push_back(p[i] + q[i]);
    return r;
  };
  const std::vector<double> identity(17, 0.0);
  g.output("s", reduce(values, sum, identity, Axis::n)[16]);
  EXPECT_ERROR(ErrorCode::unsupported, "at most 16 values together, not 17", (void)compile(Gemm{}, g.finish()));

  NativeFunction wide;
  wide.name = "seventeen";
  wide.arity = 17;
  wide.reference = [](const double* x, const double*) { return x[16]; };
  define(wide);
  GraphBuilder h;
  h.output("D", call("seventeen", std::vector<Value>(17, h.accumulator())));
  EXPECT_ERROR(ErrorCode::unsupported, "at most 16 arguments", (void)compile(Gemm{}, h.finish()));
}

TEST(Plan, Packed) {
  const Plan plan = compile(Gemm{}, parse("def f(acc):\n    return acc * 2\n"));
  const Array a({5, 7}), b({7, 9}), d({5, 9}), e({5, 9}), narrow({6, 9});
  plan.bind({{"A", a.view()}, {"B", b.view()}, {"D", d.view()}}).run();
  const PackedOperand packed = pack(plan, b.view());
  EXPECT_EQ(packed.k(), 7);
  EXPECT_EQ(packed.n(), 9);
  plan.bind({{"A", a.view()}, {"D", e.view()}}, packed).run();
  EXPECT_TRUE(std::equal(d.values.begin(), d.values.begin() + 45, e.values.begin()));
  EXPECT_ERROR(ErrorCode::repeated_operand, "B is bound packed",
               (void)plan.bind({{"A", a.view()}, {"B", b.view()}, {"D", e.view()}}, packed));
  EXPECT_ERROR(ErrorCode::wrong_shape, "packed B (7, 9) has K = 7 rows",
               (void)plan.bind({{"A", narrow.view()}, {"D", e.view()}}, packed));
  EXPECT_ERROR(
      ErrorCode::usage, "another plan",
      (void)compile(Gemm{}, parse("def f(acc):\n    return acc\n")).bind({{"A", a.view()}, {"D", e.view()}}, packed));
  EXPECT_ERROR(ErrorCode::usage, "the packed operand is empty",
               (void)plan.bind({{"A", a.view()}, {"D", e.view()}}, PackedOperand()));
  EXPECT_ERROR(ErrorCode::unsupported, "a stream has no B",
               (void)pack(compile(Stream{}, parse("def f(acc):\n    return acc\n")), b.view()));
}

TEST(Plan, PreparesForSizes) {
  const Plan plan = compile(Gemm{}, parse("def f(acc):\n    a, b = chunk(acc, 2)\n    return a * b\n"));
  EXPECT_NO_THROW(plan.prepare({{4, 6, 8}, {0, 6, 8}, {4, 6, 0}}));
  EXPECT_NO_THROW(plan.prepare({}));
  EXPECT_ERROR(ErrorCode::indivisible, "5", plan.prepare({{4, 6, 8}, {4, 5, 8}}));
  EXPECT_ERROR(ErrorCode::size_overflow, "negative", plan.prepare({{4, 6, -8}}));
  EXPECT_ERROR(ErrorCode::usage, "a batch of 2", plan.prepare({{4, 6, 8, 2}}));
  const Plan batched = compile(Gemm{.batched = true}, parse("def f(acc, r: row):\n    return acc + r\n"));
  EXPECT_NO_THROW(batched.prepare({{4, 6, 8, 2}, {4, 6, 8, 1}, {4, 6, 8, 0}}));
  EXPECT_NO_THROW(compile(Stream{}, parse("def f(acc):\n    return acc\n")).prepare({{4, 6}, {4, 6, -1}}));
  EXPECT_ERROR(ErrorCode::usage, "empty", Plan().prepare({{4, 6, 8}}));
}

TEST(Plan, RefusesToDescribeSizesThatNothingHas) {
  const Plan plan = compile(Gemm{}, parse("def f(acc, r: row):\n    return sum(acc + r, axis=1)\n"));
  for (const std::int64_t size : {std::int64_t{1} << 31, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_ERROR(ErrorCode::size_overflow, "more than can be addressed",
                 (void)plan.explain(ExplainPart::schedule, 4, size, 4));
    EXPECT_ERROR(ErrorCode::size_overflow, "is larger than", (void)plan.shape_of("r", 4, size, 4));
  }
  EXPECT_ERROR(ErrorCode::size_overflow, "more than can be addressed",
               (void)plan.explain(ExplainPart::summary, std::int64_t{1} << 30, std::int64_t{1} << 30, 1));
  const std::int64_t shape[] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_EQ(Tensor(nullptr, f32, shape).elements(), std::numeric_limits<std::int64_t>::max());
}

TEST(Plan, VerifiesWithTheDtypesOfTheOptions) {
  const Graph graph = parse("def f(acc, s: row):\n    r = s\n    return r\n");
  const Plan plan = compile(Gemm{}, graph, {}, {.dtypes = {{"s", i32}, {"r", i64}}});
  const Array a({2, 3}), b({3, 4});
  const std::int32_t s[] = {-2, 0, 1, 7};
  std::int64_t r[4] = {};
  const std::vector<Binding> bindings = {
      {"A", a.view()}, {"B", b.view()}, {"s", Tensor(s, i32, {4})}, {"r", Tensor(r, i64, {4})}};
  plan.bind(bindings).run();
  EXPECT_EQ(r[3], 7);
  EXPECT_EQ(verify(plan, bindings).at(0).error_over_bound, 0);
  r[3] = 8;
  EXPECT_GT(verify(plan, bindings).at(0).error_over_bound, 1);
}

TEST(Plan, PackedOfMoreThanThereIsMemory) {
  const float one = 1;
  for (const DType type : {f32, e4m3}) {
    const Plan plan = compile(Gemm{.a = type, .b = type}, parse("def f(acc):\n    return acc\n"));
    EXPECT_ERROR(ErrorCode::out_of_memory, "no memory for a packed B",
                 (void)pack(plan, Tensor(&one, type, {std::int64_t{1} << 29, std::int64_t{1} << 29}, {0, 0})));
  }
}

// The kernels of a packed B are those of its dtype: bf16's and the integers' take it as it was packed.
TEST(Plan, PackedOfEveryDtype) {
  const Graph graph = parse("def f(acc):\n    D: f32 = acc * 2\n    return D\n");
  for (const DType type : {f32, f16, bf16, e4m3, e5m2, s8, u8}) {
    for (const std::int64_t rows : {1, 5, 40}) {
      const std::int64_t k = 37, n = 23;
      std::vector<std::uint8_t> a(static_cast<std::size_t>(rows * k * size_of(type))), b(k * n * size_of(type));
      for (std::int64_t i = 0; i < rows * k; ++i) core::store_real(type, a.data(), i, static_cast<double>(i % 3));
      for (std::int64_t i = 0; i < k * n; ++i) core::store_real(type, b.data(), i, static_cast<double>(i % 4));
      const Array d({rows, n}), e({rows, n});
      const Tensor left(a.data(), type, {rows, k}), right(b.data(), type, {k, n});
      for (const char* isa : {"", "portable", "avx2"}) {
        Target target;
        target.isa = isa;
        if (!supports(Gemm{.a = type, .b = type}, graph, target)) continue;
        const Plan plan = compile(Gemm{.a = type, .b = type}, graph, target);
        plan.bind({{"A", left}, {"B", right}, {"D", d.view()}}).run();
        plan.bind({{"A", left}, {"D", e.view()}}, pack(plan, right)).run();
        EXPECT_EQ(d.values, e.values) << name(type) << ", " << rows << " rows, " << isa;
      }
    }
  }
}

TEST(Plan, ExplainShowsEverything) {
  const Plan plan = compile(Gemm{}, parse("def rms(acc, gamma: row):\n"
                                          "    unused = exp(acc)\n"
                                          "    D = acc * rsqrt(mean(acc * acc, axis=1) + 1e-6) * gamma\n"
                                          "    return D\n"));
  const std::string summary = plan.explain();
  for (const char* text :
       {"rms: gemm f32 x f32, f32 accumulator, target cpu", "graph", "phase 0 over {m, n}, behind the main loop",
        "phase 1", "load", "compute", "store", "schedule", "floor", "gamma", "a typical shape"}) {
    EXPECT_NE(summary.find(text), std::string::npos) << text << " is not in\n" << summary;
  }
  EXPECT_NE(plan.explain(ExplainPart::summary, 64, 48, 32).find("at M = 64, N = 48, K = 32\n"), std::string::npos);
  for (const ExplainPart part :
       {ExplainPart::passes, ExplainPart::program, ExplainPart::schedule, ExplainPart::loops}) {
    EXPECT_FALSE(plan.explain(part).empty());
  }
  EXPECT_ERROR(ErrorCode::size_overflow, "negative", (void)plan.explain(ExplainPart::summary, -1));
}

// Eight times as many of anything takes about eight times as long; quadratic time would be 64.
TEST(Plan, TimeIsLinearInAnEpiloguesParts) {
  const auto lines = [](int count, const auto& line) {
    std::string text;
    for (int i = 0; i < count; ++i) text += line(std::to_string(i), std::to_string(i - 1));
    return text;
  };
  const auto functions = [&](int n) {
    return "def f-1(x): return x\n" +
           lines(n, [](auto i, auto before) { return "def f" + i + "(x): return f" + before + "(x) + 1\n"; }) +
           "def e(acc): return f" + std::to_string(n - 1) + "(acc)\n";
  };
  const auto outputs = [&](int n) {
    return "def e(acc):\n" + lines(n, [](auto i, auto) { return "    y" + i + " = acc + " + i + "\n"; }) +
           "    return y0" + lines(n - 1, [](auto i, auto) { return ", y" + std::to_string(std::stoi(i) + 1); }) + "\n";
  };
  const auto operands = [&](int n) {
    return "def e(acc" + lines(n, [](auto i, auto) { return ", x" + i + ": row"; }) + "):\n    return acc" +
           lines(n, [](auto i, auto) { return " + x" + i; }) + "\n";
  };
  const auto seconds = [](std::string text) {
    for (std::size_t at; (at = text.find("f-1")) != std::string::npos;) text.replace(at, 3, "first");
    double best = 1e9;
    for (int i = 0; i < 2; ++i) {
      const Stopwatch watch;
      const Plan plan = compile(Gemm{}, parse(text, "e"), Target::cpu(1));
      std::vector<Array> arrays;
      std::vector<Binding> bindings;
      const std::vector<Plan::Slot> slots = plan.slots();
      for (const Plan::Slot& slot : slots) arrays.emplace_back(plan.shape_of(slot.name, 2, 2, 2));
      for (std::size_t s = 0; s < slots.size(); ++s) bindings.push_back({slots[s].name, arrays[s].view()});
      plan.bind(bindings).run();
      best = std::min(best, watch.seconds());
    }
    return best;
  };
  EXPECT_LT(seconds(functions(4000)), 30 * seconds(functions(500)));
  EXPECT_LT(seconds(outputs(8000)), 30 * seconds(outputs(1000)));
  EXPECT_LT(seconds(operands(8000)), 30 * seconds(operands(1000)));
}

// Every element of a native function is its own, whether the strip or the reference computes it.
// A sum over what is a number at its label and 0 elsewhere is that number, where there is such a column.
TEST(Plan, ASumOverALabelIsWhatStandsThere) {
  const Plan plan = compile(Gemm{}, parse("def f(acc, label: col[i64]):\n"
                                          "    s: i64 = sum(where(n_index() == label, 7, 0), axis=1)\n"
                                          "    return s\n"));
  const Array a({4, 3}), b({3, 5});
  const std::vector<std::int64_t> label{0, 4, 5, -1};
  std::vector<std::int64_t> s(4, -1);
  plan.bind({{"A", a.view()}, {"B", b.view()}, {"label", {label.data(), i64, {4}}}, {"s", {s.data(), i64, {4}}}}).run();
  EXPECT_EQ(s, (std::vector<std::int64_t>{7, 7, 0, 0}));
}

// In a function as in an expression: as an integer the cube overflows.
TEST(Plan, AnIntegerIsWhatTheArgumentsBesideItAre) {
  const Plan plan = compile(Stream{}, parse("def cubed(x, y): return x * x * x * y\n"
                                            "def f(acc): return cubed(3000000, acc)\n",
                                            "f"));
  const Array x({2, 3}), d({2, 3});
  plan.bind({{"X", x.view()}, {"D", d.view()}}).run();
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(d.values[i] / 2.7e19f, x.values[i], 1e-5) << i;
}

TEST(Plan, NativeFunctionsComputeEveryElement) {
  for (const bool strip : {false, true}) {
    NativeFunction native;
    native.name = strip ? "halved_by_strip" : "halved_by_reference";
    native.arity = 2;
    native.parameters = {{"p", 3.0}};
    native.reference = [](const double* x, const double* p) { return x[0] / 2 + x[1] * p[0]; };
    if (strip)
      native.strip = [](const float* const* x, const float* p, float* out, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) out[i] = x[0][i] / 2 + x[1][i] * p[0];
      };
    define(native);
    const Plan plan = compile(Stream{}, parse("def f(acc, r: row):\n    return " + native.name + "(acc, r, 4)\n"));
    for (const auto [m, n] : {std::array<std::int64_t, 2>{1, 1}, {2, 3}, {7, 700}, {300, 33}}) {
      const Array x({m, n}), r({n}), d({m, n}, 77);
      plan.bind({{"X", x.view()}, {"r", r.view()}, {"D", d.view()}}).run();
      for (std::int64_t i = 0; i < m * n; ++i) {
        const auto at = static_cast<std::size_t>(i), column = static_cast<std::size_t>(i % n);
        ASSERT_EQ(d.values[at], x.values[at] / 2 + r.values[column] * 4) << m << ' ' << n << " at " << i;
      }
    }
  }
}

// What a native function throws reaches the caller, from any thread.
TEST(Plan, NativeFunctionsMayThrow) {
  NativeFunction native;
  native.name = "throwing";
  native.reference = [](const double* x, const double*) { return x[0]; };
  native.strip = [](const float* const*, const float*, float*, std::int64_t) { throw std::runtime_error("not today"); };
  define(native);
  const Plan plan = compile(Stream{}, parse("def f(acc):\n    return throwing(acc)\n"), Target::cpu(4));
  const Array x({300, 300}), d({300, 300});
  Call call = plan.bind({{"X", x.view()}, {"D", d.view()}});
  for (int i = 0; i < 2; ++i) EXPECT_THROW(call.run(), std::runtime_error);
}

TEST(Plan, ExplainTakesNoMemory) {
  const Plan plan = compile(Gemm{}, parse("def f(acc):\n    return acc / sum(acc, axis=1) + sum(acc, axis=0)\n"));
  const std::string loops = plan.explain(ExplainPart::loops, 1 << 24, 1 << 24, 1 << 10);  // a petabyte
  EXPECT_NE(loops.find("crosses phases through memory: 1125899906842624 bytes"), std::string::npos) << loops;
}

// Eight times as many outputs take eight times as long, not 64 times.
TEST(Plan, ExplainsManyOutputsInTimeThatIsLinear) {
  const auto seconds = [](int outputs) {
    std::string text = "def f(acc):\n    return {";
    for (int i = 0; i < outputs; ++i) text += "'D" + std::to_string(i) + "': acc + " + std::to_string(i) + ", ";
    const Plan plan = compile(Gemm{}, parse(text + "}\n"));
    const Stopwatch watch;
    EXPECT_NE(plan.explain().find(", ... (" + std::to_string(outputs) + ")"), std::string::npos);
    EXPECT_NE(plan.explain(ExplainPart::loops).find(std::to_string(outputs) + " steps"), std::string::npos);
    return watch.seconds();
  };
  const double few = seconds(2'500);
  EXPECT_LT(seconds(20'000), 24 * few + 0.05);
}

TEST(Plan, FunctionsThatExpandWithoutBoundAreRefusedOnAGpu) {
  const auto explained = [](int levels, const std::string& level) {
    std::string text = "def f0(x): return x + 1\n";
    for (int i = 1; i <= levels; ++i) {
      std::string line = level;
      for (std::size_t at; (at = line.find('#')) != line.npos;) line.replace(at, 1, std::to_string(i - 1));
      text += "def f" + std::to_string(i) + "(x): return " + line + "\n";
    }
    text += "def e(acc): return f" + std::to_string(levels) + "(acc)\n";
    try {
      return compile(Gemm{}, parse(text, "e"), Target::parse("sm_90a")).explain(ExplainPart::source);
    } catch (const Error& error) { return std::string(error.what()); }
  };
  const std::string once = "f#(x) * 0.5";
  EXPECT_NE(explained(900, once).find("function900("), std::string::npos);
  EXPECT_NE(explained(20'000, once).find("is called by functions 1000 deep"), std::string::npos);
  const std::string twice = "f#(x) + f#(x * 2)";
  EXPECT_NE(explained(8, twice).find("function8("), std::string::npos);
  EXPECT_NE(explained(60, twice).find("expands to more than 65536 operations"), std::string::npos);
}

TEST(Plan, ChainsOfReductionsAreLimitedOnAGpu) {
  const auto explained = [](int reductions) {
    std::string text = "def e(x0):\n";
    for (int i = 1; i <= reductions; ++i) {
      const std::string before = "x" + std::to_string(i - 1);
      text +=
          "    x" + std::to_string(i) + " = " + before + " - max(" + before + ", axis=" + std::to_string(i % 2) + ")\n";
    }
    text += "    return x" + std::to_string(reductions) + "\n";
    try {
      return compile(Gemm{}, parse(text, "e"), Target::parse("sm_90a")).explain();
    } catch (const Error& error) { return std::string(error.what()); }
  };
  EXPECT_NE(explained(1024).find("floor"), std::string::npos);
  EXPECT_NE(explained(1025).find("1025 reductions, and for a GPU at most 1024"), std::string::npos);
}

TEST(Plan, ExplainCountsBytes) {
  const Plan plan = compile(Gemm{}, parse("def f(acc, bias: row):\n    return acc + bias\n"));
  // A 100 x 30, B 30 x 50, bias 50 and D 100 x 50, 4 bytes each: 38.2 kB, and 2 * 100 * 50 * 30
  // operations.
  const std::string summary = plan.explain(ExplainPart::summary, 100, 50, 30);
  EXPECT_NE(summary.find("floor       38.2 kB"), std::string::npos) << summary;
  EXPECT_NE(summary.find("main loop   300 kop"), std::string::npos) << summary;
}

TEST(Plan, ExplainsEachPhase) {
  const auto expect = [](const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  };
  const Plan one = compile(Gemm{}, parse("def f(acc):\n    return acc + 1\n"));
  expect(one.explain(ExplainPart::summary, 1, 1, 1), {"at M = 1, N = 1, K = 1\n", "1 operation an element"});
  expect(one.explain(), {"at M = 1024, N = 1024, K = 1024"});
  const Plan two =
      compile(Gemm{}, parse("def f(acc):\n    y = exp(acc) * 3\n    D = y / sum(y, axis=1)\n    return D\n"));
  expect(two.explain(ExplainPart::summary, 100, 50, 30),
         {"  compute  2 operations an element, 1 reduction\n", "  bytes    0 B read, 400 B written\n",
          "  bytes    400 B read, 20 kB written\n"});
  const std::string loops = two.explain(ExplainPart::loops, 100, 50, 30);
  EXPECT_EQ(loops.find("phases 0..1 behind the product over"), 0u) << loops;
  expect(loops, {"\n  phase 0: ", "\n    a reduction finished within its block\n", "\n  phase 1: "});
}

// A mean divides by how many there are of what it goes over.
TEST(Plan, CountsOfDifferentExtents) {
  const Plan plan = compile(Gemm{}, parse("def f(acc):\n    a, b = chunk(acc, 2)\n    s = mean(acc, axis=1)\n"
                                          "    t = mean(a, axis=1)\n    u = mean(sum(acc, axis=0, group=3), axis=0)\n"
                                          "    return s, t, u\n"));
  const Array a({7, 5}), b({5, 8}), s({7}), t({7}), u({8});
  const std::vector<Binding> bindings = {
      {"A", a.view()}, {"B", b.view()}, {"s", s.view()}, {"t", t.view()}, {"u", u.view()}};
  plan.bind(bindings).run();
  for (const Comparison& c : verify(plan, bindings)) EXPECT_LE(c.error_over_bound, 1) << c.output;
}

TEST(Plan, VerifySeesAWrongElement) {
  const Plan plan = compile(Gemm{}, parse("def f(acc):\n    return acc + 1\n"));
  const Array a({30, 7}), b({7, 40});
  Array d({30, 40});
  const std::vector<Binding> bindings = {{"A", a.view()}, {"B", b.view()}, {"D", d.view()}};
  plan.bind(bindings).run();
  EXPECT_LE(verify(plan, bindings).at(0).error_over_bound, 1);
  d.values[40 * 17 + 5] += 0.01f;
  const Comparison wrong = verify(plan, bindings).at(0);
  EXPECT_GT(wrong.error_over_bound, 1);
  EXPECT_EQ(wrong.worst[1], 17);
  EXPECT_EQ(wrong.worst[2], 5);
  EXPECT_ERROR(ErrorCode::missing_operand, "'D'", (void)verify(plan, {{"A", a.view()}, {"B", b.view()}}));
}

}  // namespace
