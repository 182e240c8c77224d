// Indices behind conditions: where these show that they stay within a tensor, where nothing shows it, and where they
// leave.
#include "te/guards.h"
#include "stopwatch.h"

#include <gtest/gtest.h>

#include <pthread.h>

#include <functional>

namespace postlude {
namespace {

using By = GuardedPrograms::By;

TEST(Guards, HoldIndices) {
  const GuardedPrograms programs;
  for (const Guarded& program : programs.all) {
    for (const By by : {By::description, By::parts, By::threads}) {
      const te::Module module = te::build(programs.scheduled(program, by), programs.arguments(program), Target::cpu(2));
      for (const std::int64_t n : {1, 2, 7, 16}) {
        const auto [is, wanted] =
            programs.run(program, n, Device::cpu, [&](const std::vector<Tensor>& arrays) { module(arrays); });
        EXPECT_EQ(is, wanted) << program.name << " of " << n << "\n" << module.print();
      }
      // What a condition shows is not looked at again.
      const bool holds =
          module.print().find("min(") != std::string::npos || module.print().find("max(") != std::string::npos;
      EXPECT_EQ(holds, program.is_held) << module.print();
    }
    const te::Module chosen = te::build({program.result}, programs.arguments(program), Target::cpu(1));
    const auto [is, wanted] =
        programs.run(program, 9, Device::cpu, [&](const std::vector<Tensor>& arrays) { chosen(arrays); });
    EXPECT_EQ(is, wanted) << program.name;
  }
}

// Which elements of A, of 4 rows and 6 columns, are reduced is decided by memory, or by a stage that the loop computes.
struct Decided {
  te::Expr n = te::var("n"), m = te::var("m");
  te::Tensor a = te::placeholder({n, m}, "A");
  te::Tensor twice = te::compute(
      {n, m}, [&](const te::Axes& i) { return a(i[0], i[1]) * 2; }, "T");
  te::Axis k = te::reduce_axis(0, m, "k");
  std::vector<float> x;
  Decided() {
    for (int e = 0; e < 24; ++e) x.push_back(static_cast<float>(e * 7 % 11 - 4));
  }
  // The sums that a schedule gives, and those of what is above `least`, times `factor`.
  void check(const te::Schedule& s, const te::Tensor& sum, float least, float factor) {
    std::vector<float> is(4), wanted(4);
    for (std::size_t e = 0; e < x.size(); ++e)
      if (x[e] > least) wanted[e / 6] += x[e] * factor;
    te::build(s, {a, sum}, Target::cpu(1))({Tensor(x.data(), f32, {4, 6}), Tensor(is.data(), f32, {4})});
    EXPECT_EQ(is, wanted) << te::lower(s, {a, sum});
  }
};

// Runs it in a thread whose stack is small, as those of other runtimes are.
void on_small_stack(std::function<void()> run) {
#ifdef __SANITIZE_ADDRESS__  // whose frames are several times as large
  constexpr std::size_t stack = 4 << 20;
#else
  constexpr std::size_t stack = 512 << 10;
#endif
  pthread_attr_t attributes;
  pthread_t thread;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, stack), 0);
  const auto call = [](void* what) -> void* {
    (*static_cast<std::function<void()>*>(what))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, call, &run), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// What `make` makes of A's element and an index, on a CPU, as text and as a kernel. Recursion took up to 4 MB of stack.
void check_deep(const std::function<te::Expr(const te::Tensor&, const te::Axis&)>& make,
                const std::function<float(const std::vector<float>&, int)>& wanted_of, bool is_held = false) {
  const te::Expr n = te::var("n");
  const te::Tensor a = te::placeholder({n}, "A");
  const te::Tensor b = te::compute(
      {n}, [&](const te::Axes& i) { return make(a, i[0]); }, "B");
  const postlude_test::Stopwatch watch;
  const te::Schedule s = te::create_schedule(b);
  EXPECT_LT(watch.seconds(), 4);
  EXPECT_EQ(te::lower(s, {a, b}).find("max(") != std::string::npos, is_held);
  std::vector<float> x(9), y(9), wanted;
  for (std::size_t e = 0; e < x.size(); ++e) x[e] = static_cast<float>(e * 5 % 7);
  for (int i = 0; i < 9; ++i) wanted.push_back(wanted_of(x, i));
  te::build(s, {a, b}, Target::cpu(1))({Tensor(x.data(), f32, {9}), Tensor(y.data(), f32, {9})});
  EXPECT_EQ(y, wanted);
  EXPECT_NE(te::build({b}, {a, b}, Target::cuda()).source().find("__global__"), std::string::npos);
}

// What is multiplied with a loop's variable may be negative where it is no size: (n - 7) by way of a minimum.
TEST(Guards, FactorsOfEitherSign) {
  const te::Expr n = te::var("n"), sign = te::apply("min", {n - 7, 1});
  const te::Tensor x = te::placeholder({n}, "X");
  const te::Axis k = te::reduce_axis(0, 3, "k");
  const te::Tensor p = te::compute(
      {n}, [&](const te::Axes& i) { return x(i[0]) * 2; }, "P");
  const te::Tensor y = te::compute(
      {te::apply("floordiv", {n, 3})},
      [&](const te::Axes& i) {
        return te::sum(p((i[0] * 3 + k) * sign + te::apply("max", {7 - n, 0}) * (n - 1)), {k});
      },
      "Y");
  for (const bool at : {false, true}) {
    te::Schedule s = te::create_schedule(y);
    if (at) s[p].compute_at(s[y], y.op().axis()[0]);
    const te::Module module = te::build(s, {x, y}, Target::cpu(1));
    std::vector<float> in{0, 1, 2, 3, 4, 5}, out(2);
    module({Tensor(in.data(), DType::f32, {6}), Tensor(out.data(), DType::f32, {2})});
    EXPECT_EQ(out, (std::vector<float>{24, 6})) << module.print();
  }
}

// 900 conditions in one another took ten seconds: each of their reads tried each of them.
TEST(Guards, ManyInOneAnother) {
  on_small_stack([] {
    check_deep(
        [](const te::Tensor& a, const te::Axis& i) {
          te::Expr x = a(i);
          for (int d = 0; d < 900; ++d)  // i - d is within, by the innermost of them
            x = te::apply("where", {i * 2 >= d, te::apply("where", {i >= d, a(i - d), 1}) + x, 2});
          return x;
        },
        [](const std::vector<float>& x, int i) {
          float value = x[static_cast<std::size_t>(i)];
          for (int d = 0; d < 900; ++d)
            value = i * 2 < d ? 2 : (i >= d ? x[static_cast<std::size_t>(i - d)] : 1) + value;
          return value;
        });
  });
}

TEST(Guards, DeepExpressionsNeedNoStack) {
  on_small_stack([] {
    check_deep(
        [](const te::Tensor& a, const te::Axis& i) {
          te::Expr x = a(i);
          for (int d = 0; d < 1990; ++d) x = a(i) - x;
          return x;
        },
        [](const std::vector<float>& x, int i) { return x[static_cast<std::size_t>(i)]; });
    check_deep(  // a condition of as many parts, all of which hold, and one of which is enough
        [](const te::Tensor& a, const te::Axis& i) {
          te::Expr all = i >= 0, any = i < 0;
          for (int d = 0; d < 1900; ++d) all = all & (i < d + 9), any = any | (i >= d + 4);
          return te::apply("where", {all & ~any, a(i), 0});
        },
        [](const std::vector<float>& x, int i) { return i < 4 ? x[static_cast<std::size_t>(i)] : 0; });
    check_deep(  // places in memory of places in memory
        [](const te::Tensor& a, const te::Axis& i) {
          te::Expr x = a(i);
          for (int d = 0; d < 990; ++d) x = a(te::cast(x, DType::i64));
          return x;
        },
        [](const std::vector<float>& x, int i) {
          float value = x[static_cast<std::size_t>(i)];
          for (int d = 0; d < 990; ++d) value = x[static_cast<std::size_t>(value)];
          return value;
        });
    check_deep(
        [](const te::Tensor& a, const te::Axis& i) {
          te::Expr at = i;
          for (int d = 0; d < 900; ++d) at = d % 2 ? at - 1 : at + 1;
          return a(at);
        },
        [](const std::vector<float>& x, int i) { return x[static_cast<std::size_t>(i)]; });
  });
}

// Each stage at the loop of the next: the parts of 250 took ten seconds to find.
// An index that lies deep took the square of its depth, and remainders of remainders a power of it.
TEST(Guards, DeepIndicesTakeNoTime) {
  const te::Expr n = te::var("n");
  const te::Tensor x = te::placeholder({n}, "X");
  const auto steps = [&](int count, const auto& step) {
    const te::Tensor y = te::compute(
        {n},
        [&](const te::Axes& i) {
          te::Expr at = i[0];
          for (int s = 0; s < count; ++s) at = step(at, s);
          return te::apply("where", {x(i[0]) > 0, x(at), 0.0}) + x(at);
        },
        "Y");
    std::vector<float> in{1, 2, 3, 4, 5, 6, 7, 8, 9}, out(9);
    te::build(te::create_schedule(y), {x, y},
              Target::cpu(1))({Tensor(in.data(), f32, {9}), Tensor(out.data(), f32, {9})});
    return out;
  };
  const postlude_test::Stopwatch watch;
  EXPECT_EQ(steps(900,
                  [&](const te::Expr& at, int) {
                    return te::apply("min", {at + 1, n - 1});
                  }),
            std::vector<float>(9, 18));
  EXPECT_EQ(steps(8, [&](const te::Expr& at, int s) { return te::floormod(at + s, n - s % 2); }),
            (std::vector<float>{6, 8, 14, 16, 16, 2, 2, 4, 6}));
  EXPECT_LT(watch.seconds(), 20);  // 0.5 s; minutes before
}

TEST(Guards, PartsOfPartsOfParts) {
  const te::Expr n = te::var("n"), m = te::var("m");
  const te::Tensor a = te::placeholder({n, m}, "A");
  for (const bool at_last : {false, true}) {
    std::vector<te::Tensor> stages{a};
    for (int d = 0; d < 250; ++d)
      stages.push_back(te::compute(
          {n, m}, [&](const te::Axes& i) { return stages.back()(i[0], i[1]) + i[1]; }, "F"));
    const te::Tensor last = stages.back();
    te::Schedule s = te::create_schedule(last);
    for (std::size_t d = 1; d + 1 < stages.size(); ++d) {
      const te::Tensor& to = at_last ? last : stages[d + 1];
      s[stages[d]].compute_at(s[to], to.op().axis()[0]);
    }
    const postlude_test::Stopwatch watch;
    const te::Module module = te::build(s, {a, last}, Target::cpu(1));
    EXPECT_LT(watch.seconds(), 4);
    std::vector<float> x(6), y(6);
    module({Tensor(x.data(), f32, {2, 3}), Tensor(y.data(), f32, {2, 3})});
    EXPECT_EQ(y, (std::vector<float>{0, 250, 500, 0, 250, 500}));
  }
}

TEST(Guards, StandBehindWhatTheyRead) {
  Decided d;
  const te::Tensor sum = te::compute(
      {d.n}, [&](const te::Axes& i) { return te::sum(d.a(i[0], d.k), {d.k}, d.twice(i[0], d.k) > 2.0); }, "S");
  te::Schedule s = te::create_schedule(sum);
  s[d.twice].compute_at(s[sum], d.k);
  EXPECT_EQ(te::lower(s, {d.a, sum}),
            "for (i, 0, n) {\n"
            "  S[i] = 0.0\n"
            "  for (k, 0, m) {\n"
            "    allocate T[1, 1] f32 local\n"
            "    T[0, 0] = A[i, k]*2.0\n"
            "    if (T[0, 0] > 2.0) {\n"
            "      S[i] = S[i] + A[i, k]\n"
            "    }\n"
            "  }\n"
            "}\n");
  d.check(s, sum, 1, 1);
  const std::string source = te::build(s, {d.a, sum}, Target::cuda()).source();
  EXPECT_LT(source.find("float T["), source.find("if (op_gt(T[")) << source;
}

// A tail that leaves A is known before A is read, also where rfactor has made it the reduction's own condition.
TEST(Guards, ReadWithinTheirTensors) {
  for (const bool factored : {false, true}) {
    Decided d;
    const te::Tensor sum = te::compute(
        {d.n}, [&](const te::Axes& i) { return te::sum(d.twice(i[0], d.k), {d.k}, d.a(i[0], d.k) > 2.0); }, "S");
    te::Schedule s = te::create_schedule(sum);
    const te::Axis inner = s[sum].split(d.k, 4).second;
    if (factored) {
      const te::Tensor parts = s.rfactor(sum, {inner})[0];
      s[d.twice].compute_at(s[parts], s[parts].op().reduce_axis()[0]);
    } else {
      s[d.twice].compute_at(s[sum], inner);
    }
    const std::string nest = te::lower(s, {d.a, sum});
    EXPECT_NE(nest.find(" < m & A[i, k.outer*4 + k.inner] > 2.0) {"), std::string::npos) << nest;
    const std::string source = te::build(s, {d.a, sum}, Target::cuda()).source();
    EXPECT_NE(source.find(" && (fetch_f32(p.A"), std::string::npos) << source.substr(source.find("kernel0"));
    d.check(s, sum, 2, 2);
  }
}

TEST(Guards, LeaveOutStagesByMemory) {
  Decided d;
  const te::Tensor sum = te::compute(
      {d.n}, [&](const te::Axes& i) { return te::sum(d.twice(i[0], d.k), {d.k}, d.a(i[0], d.k) > 2.0); }, "S");
  te::Schedule s = te::create_schedule(sum);
  s[d.twice].compute_at(s[sum], d.k);
  EXPECT_NE(te::lower(s, {d.a, sum}).find("    if (A[i, k] > 2.0) {\n      allocate T[1, 1]"), std::string::npos);
  d.check(s, sum, 2, 2);
}

// An identity that changes what it meets cannot stand for what is left out.
TEST(Guards, LeaveOutElementsOfTuples) {
  Decided d;
  const te::Reducer ends = te::comm_reducer(
      [](const std::vector<te::Expr>& a, const std::vector<te::Expr>& b) {
        return std::vector<te::Expr>{te::apply("max", {a[0], b[0]}), te::apply("min", {a[1], b[1]})};
      },
      [](const auto&) {
        return std::vector<te::Expr>{te::Expr(-1.0), te::Expr(5.0)};
      },
      "ends");
  for (const int schedule : {0, 1, 2, 3}) {
    const te::Axis k = te::reduce_axis(0, d.m, "k");
    const std::vector<te::Tensor> b = te::compute_several(
        {d.n},
        [&](const te::Axes& i) {
          return ends({d.a(i[0], k), d.a(i[0], k)}, {k}, d.a(i[0], k) < 4.0);
        },
        "B");
    te::Schedule s = schedule == 3 ? te::choose_schedule(b) : te::create_schedule(b);
    if (schedule == 1) s[b[0]].split(k, 4);
    if (schedule == 2) s[b[0]].parallel(b[0].op().axis()[0]);
    std::vector<float> most(4), least(4), wanted_most(4, -1), wanted_least(4, 5);
    for (std::size_t e = 0; e < d.x.size(); ++e) {
      if (!(d.x[e] < 4)) continue;
      wanted_most[e / 6] = std::max(wanted_most[e / 6], d.x[e]);
      wanted_least[e / 6] = std::min(wanted_least[e / 6], d.x[e]);
    }
    te::build(s, {d.a, b[0], b[1]}, Target::cpu(2))(
        {Tensor(d.x.data(), f32, {4, 6}), Tensor(most.data(), f32, {4}), Tensor(least.data(), f32, {4})});
    EXPECT_EQ(most, wanted_most) << schedule;
    EXPECT_EQ(least, wanted_least) << schedule;
  }
}

// A condition without a tensor chooses a strip's one value by the size that the call has.
TEST(Guards, ChooseIndicesBySizes) {
  const te::Expr n = te::var("n");
  const te::Tensor a = te::placeholder({n}, "A");
  const te::Tensor place = te::compute(
      {n},
      [&](const te::Axes& i) {
        return te::apply("where", {i[0] < n - 1, i[0], -1});
      },
      "P");
  const te::Tensor sum = te::compute(
      {n}, [&](const te::Axes& i) { return place(i[0]) + te::cast(a(i[0]), i64); }, "S");
  te::Schedule s = te::create_schedule({sum});
  s[place].compute_at(s[sum], sum.op().axis()[0]);
  std::vector<float> x = {10, 20, 30, 40};
  std::vector<std::int64_t> y(4);
  te::build(s, {a, sum}, Target::cpu(1))({Tensor(x.data(), f32, {4}), Tensor(y.data(), i64, {4})});
  EXPECT_EQ(y, (std::vector<std::int64_t>{10, 21, 32, 39}));
}

// The tail of a split loop is no condition of the author's: an index that leaves is refused by every schedule.
TEST(Guards, TailsDoNotHoldIndices) {
  const te::Expr n = te::var("n"), m = te::var("m");
  const te::Tensor a = te::placeholder({m}, "A"), places = te::placeholder({n}, "I", i32);
  std::vector<float> x(7, 1.0F), y(1);
  std::vector<std::int32_t> at(50, 3);
  for (const int schedule : {0, 1, 2, 3, 4}) {
    const te::Axis k = te::reduce_axis(0, n, "k");
    const te::Tensor b = te::compute(
        {te::Expr(1)}, [&](const te::Axes&) { return te::sum(a(places(k)), {k}); }, "B");
    te::Schedule s = schedule == 4 ? te::choose_schedule({b}) : te::create_schedule(b);
    if (schedule == 1) s.rfactor(b, {k});
    if (schedule == 2) s.rfactor(b, {s[b].split(k, 8).first});
    if (schedule == 3) s.rfactor(b, {s[b].split(k, 8).second});
    const te::Module built = te::build(s, {a, places, b}, Target::cpu(1));
    const std::vector<Tensor> arrays = {Tensor(x.data(), f32, {7}), Tensor(at.data(), i32, {50}),
                                        Tensor(y.data(), f32, {1})};
    at[49] = 6;
    built(arrays);
    EXPECT_EQ(y[0], 50) << schedule;
    at[49] = 7;
    EXPECT_THROW(built(arrays), Error) << schedule;
  }
}

}  // namespace
}  // namespace postlude
