// What is emitted for a GPU, as text: tests/te/host runs it.
#include "te/emit.h"

#include <postlude/te.h>

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace postlude {
namespace {

using Terms = std::vector<te::Expr>;

std::string emitted(const std::vector<te::Tensor>& arguments, const std::vector<te::Tensor>& outputs) {
  std::vector<te::Tensor> all = arguments;
  all.insert(all.end(), outputs.begin(), outputs.end());
  const te::Schedule s = te::choose_schedule(outputs, Target::parse("sm_90a"));
  const std::string text = te::emit(te::make_nest(*s.node(), all)).text;
  return text.substr(text.find("struct Params"));
}

// argmax has code of its own where its elements come in the order of their indices. A reducer of one's own that begins
// with an index too, here of the last of equals, has not.
TEST(Emit, TakesNoOtherReducerForArgmax) {
  const te::Reducer last = te::comm_reducer(
      [](const Terms& a, const Terms& b) {
        const te::Expr takes = b[1] >= a[1];
        return Terms{te::apply("where", {takes, b[0], a[0]}), te::apply("where", {takes, b[1], a[1]})};
      },
      [](const std::vector<DType>&) {
        return Terms{te::Expr(-1), te::Expr(-1e30)};
      },
      "last");
  const te::Expr n = te::var("n"), m = te::var("m");
  const te::Tensor a = te::placeholder({n, m}, "A");
  const te::Axis k = te::reduce_axis(te::Expr(0), m, "k");
  const auto own = te::compute_several(
      {n},
      [&](const te::Axes& i) {
        return last({te::Expr(k), a(i[0], k)}, {k});
      },
      "B");
  const auto known = te::compute_several(
      {n}, [&](const te::Axes& i) { return te::argmax(a(i[0], k), {k}); }, "B");
  for (const char* of_argmax : {"extreme_of<", "exceeds<", "takes<"})
    EXPECT_EQ(emitted({a}, own).find(of_argmax), std::string::npos) << of_argmax;
  EXPECT_NE(emitted({a}, known).find("extreme_of<true>"), std::string::npos);
}

// What is stored as another type is rounded, which a printed nest says; a copy changes nothing.
TEST(Nest, ShowsWhatAStoreRounds) {
  const te::Expr n = te::var("n");
  const te::Tensor a = te::placeholder({n}, "A", DType::f16);
  const te::Tensor b = te::compute(
      {n}, [&](const te::Axes& i) { return a(i[0]) * te::Expr(3.0); }, "B", DType::bf16);
  const te::Tensor c = te::compute(
      {n}, [&](const te::Axes& i) { return b(i[0]) + te::Expr(1.0); }, "C");
  te::Schedule s = te::create_schedule(c);
  s.cache_read(a, "global", {b});
  EXPECT_EQ(te::lower(s, {a, c}),
            "allocate A.global[n] f16 global\n"
            "for (ax0, 0, n) {\n"
            "  A.global[ax0] = A[ax0]\n"
            "}\n"
            "allocate B[n] bf16 global\n"
            "for (i, 0, n) {\n"
            "  B[i] = cast(A.global[i]*3.0, bf16)\n"
            "}\n"
            "for (i, 0, n) {\n"
            "  C[i] = B[i] + 1.0\n"
            "}\n");
}

// A copy in shared memory at a stage that is itself a thread's: it was as large as what that thread reads.
TEST(Nest, SharedCopiesHoldWhatAllThreadsRead) {
  const te::Tensor a = te::placeholder({64, 4}, "A");
  const te::Axis k = te::reduce_axis(0, 4, "k");
  const te::Tensor c = te::compute(
      {64}, [&](const te::Axes& i) { return te::sum(a(i[0], k), {k}); }, "C");
  te::Schedule s = te::create_schedule(c);
  const te::Tensor copy = s.cache_read(a, "shared", {c}), cache = s.cache_write(c, "local")[0];
  const auto [block, thread] = s[c].split(c.op().axis()[0], 16);
  s[c].bind(block, te::thread_axis("blockIdx.x"));
  s[c].bind(thread, te::thread_axis("threadIdx.x"));
  s[cache].compute_at(s[c], thread);
  const te::Axis step = s[cache].op().reduce_axis()[0];
  s[cache].reorder({step, s[cache].op().axis()[0]});
  s[copy].compute_at(s[cache], step);
  const std::string nest = te::lower(s, {a, c});
  EXPECT_NE(nest.find("allocate A.shared[16, 1] f32 shared"), std::string::npos) << nest;
  EXPECT_NE(nest.find("C.local[0] = C.local[0] + A.shared[i.inner, 0]"), std::string::npos) << nest;
}

// The identity of an i64's maximum, whose digits are no literal of C++: a kernel that stored it did not compile.
TEST(Emit, TheLeastInteger) {
  const te::Tensor a = te::placeholder({te::var("n"), te::var("m")}, "A", i64);
  const te::Axis k = te::reduce_axis(0, a.shape()[1], "k");
  const te::Tensor b = te::compute(
      {a.shape()[0]}, [&](const te::Axes& i) { return te::max(a(i[0], k), {k}); }, "B");
  const std::string text = emitted({a}, {b});
  EXPECT_NE(text.find("i64(9223372036854775808ull)"), std::string::npos) << text;
  EXPECT_EQ(text.find("-9223372036854775808"), std::string::npos) << text;
}

// A long chain is inlined in parts: in one it was deeper than an expression may be, and refused.
TEST(Choice, InlinesWhatExpressionsHold) {
  te::Tensor last = te::placeholder({te::var("n")}, "A");
  const te::Tensor a = last;
  for (int stage = 0; stage < 2100; ++stage)
    last = te::compute(
        a.shape(), [&](const te::Axes& i) { return last(i[0]) + te::Expr(1.0); }, "S");
  std::vector<float> in{0, 5}, out(2);
  te::build({last}, {a, last}, Target::cpu(1))({Tensor(in.data(), f32, {2}), Tensor(out.data(), f32, {2})});
  EXPECT_EQ(out, (std::vector<float>{2100, 2105}));
}

// A softmax is one kernel, whose row is in shared memory where its length is constant; where rows are few it is not.
TEST(Choice, ABlockForARowOfSeveralStages) {
  for (const bool is_constant : {true, false}) {
    const te::Expr n = te::var("n"), m = is_constant ? te::Expr(3000) : te::var("m");
    const te::Tensor a = te::placeholder({n, m}, "A");
    const te::Axis k = te::reduce_axis(0, m, "k"), q = te::reduce_axis(0, m, "q");
    const te::Tensor top = te::compute(
        {n}, [&](const te::Axes& i) { return te::max(a(i[0], k), {k}); }, "top");
    const te::Tensor e = te::compute(
        {n, m}, [&](const te::Axes& i) { return te::apply("exp", {a(i[0], i[1]) - top(i[0])}); }, "E");
    const te::Tensor total = te::compute(
        {n}, [&](const te::Axes& i) { return te::sum(e(i[0], q), {q}); }, "total");
    const te::Tensor s = te::compute(
        {n, m}, [&](const te::Axes& i) { return e(i[0], i[1]) / total(i[0]); }, "S");
    for (const std::int64_t rows : {20000, 8}) {
      const te::Sizes sizes{{n->axis.get(), rows}, {is_constant ? nullptr : m->axis.get(), 3000}};
      const te::Schedule chosen = te::choose_schedule({s}, Target::cuda(), sizes);
      const std::string calls = chosen.calls(), text = te::emit(te::make_nest(*chosen.node(), {a, s})).text;
      const auto has = [&](const char* call) { return calls.find(call) != std::string::npos; };
      EXPECT_EQ(has("s[top].compute_at(s[S], s[S].op.axis[0])"), rows == 20000) << calls;
      EXPECT_EQ(has("s[total].compute_at(s[S], s[S].op.axis[0])"), rows == 20000) << calls;
      EXPECT_EQ(has("s[E].compute_inline()"), rows == 20000) << calls;
      EXPECT_EQ(has("A_shared = s.cache_read(A, \"shared\", [top, E])"), rows == 20000 && is_constant) << calls;
      // What the kernel reads again stays in L1.
      EXPECT_EQ(text.find("= fetch_words<KEPT, 4>(p.A ") != text.npos, rows == 20000 && !is_constant) << text;
      EXPECT_EQ(text.find("= fetch_words<ONCE, 4>(p.A ") != text.npos, rows != 20000 || is_constant) << text;
    }
  }
}

// Short rows: results for a strip of a CPU; a part of a warp of a GPU where they are many.
TEST(Choice, ManyShortRows) {
  const te::Expr n = te::var("n"), h = te::var("h"), m = te::var("m");
  const te::Axis k = te::reduce_axis(0, m, "k");
  const te::Tensor a = te::placeholder({n, h, m}, "A");
  const te::Tensor b = te::compute(
      {n, h}, [&](const te::Axes& i) { return te::sum(a(i[0], i[1], k), {k}); }, "B");
  const auto calls = [&](const Target& target, std::int64_t rows, std::int64_t inner, std::int64_t columns) {
    return te::choose_schedule({b}, target, {{n->axis.get(), rows}, {h->axis.get(), inner}, {m->axis.get(), columns}})
        .calls();
  };
  const auto has = [](const std::string& text, const char* call) { return text.find(call) != text.npos; };
  EXPECT_TRUE(has(calls(Target::cpu(1), 100000, 4, 128), "split(s[B].op.axis[0], factor=64)"));
  EXPECT_TRUE(has(calls(Target::cpu(1), 4, 100000, 128), "split(s[B].op.axis[1], factor=256)"));
  EXPECT_TRUE(has(calls(Target::cpu(1), 100, 2, 4096), "split(s[B].op.axis[0], factor=4)"));
  EXPECT_TRUE(has(calls(Target::cuda(), 100000, 4, 12), "factor=256"));
  EXPECT_TRUE(has(calls(Target::cuda(), 100000, 4, 148), "factor=16"));
  EXPECT_TRUE(has(calls(Target::cuda(), 100000, 4, 1000), "factor=8"));
  EXPECT_FALSE(has(calls(Target::cuda(), 100, 4, 148), "threadIdx.y"));
}

// A few elements of each result in every row: all that lies side by side is reduced across the rows, if it does.
TEST(Choice, AFewElementsBesideResults) {
  const te::Expr n = te::var("n"), h = te::var("h"), m = te::var("m");
  const te::Axis i = te::reduce_axis(0, n, "i"), k = te::reduce_axis(0, m, "k");
  const te::Tensor a = te::placeholder({n, h, m}, "A");
  const te::Tensor b = te::compute(
      {h},
      [&](const te::Axes& j) {
        return te::sum(a(i, j[0], k), {i, k});
      },
      "B");
  const auto is_fused = [&](std::int64_t rows, std::int64_t few, bool dense) {
    const te::Sizes sizes{{n->axis.get(), rows}, {h->axis.get(), 100}, {m->axis.get(), few}};
    return te::choose_schedule({b}, Target::cpu(1), sizes, dense).calls().find(".fuse(") != std::string::npos;
  };
  EXPECT_TRUE(is_fused(2000, 3, true));
  EXPECT_TRUE(is_fused(100, 3, true));
  EXPECT_FALSE(is_fused(2, 3, true));
  EXPECT_FALSE(is_fused(2000, 500, true));
  EXPECT_FALSE(is_fused(2000, 3, false));
  const te::Module module = te::build({b}, {a, b}, Target::cpu(2));
  for (const auto& [rows, results, few, stride] :
       {std::array<std::int64_t, 4>{1030, 7, 3, 3}, {20, 9, 5, 5}, {1030, 7, 3, 4}, {9, 1500, 4, 4}, {1, 1, 1, 1}}) {
    std::vector<float> x(static_cast<std::size_t>(rows * results * stride)), sums(static_cast<std::size_t>(results)),
        wanted(sums.size());
    for (std::size_t e = 0; e < x.size(); ++e) x[e] = static_cast<float>(e * 7919 % 31) - 15;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < results; ++j)
        for (std::int64_t e = 0; e < few; ++e)
          wanted[static_cast<std::size_t>(j)] += x[static_cast<std::size_t>((r * results + j) * stride + e)];
    Tensor given(x.data(), f32, {rows, results, few});
    given.strides = {results * stride, stride, 1};
    module({given, Tensor(sums.data(), f32, {results})});
    EXPECT_EQ(sums, wanted) << rows << ' ' << stride;
  }
  EXPECT_NE(module.explain().find("fuse("), std::string::npos);
}

// A CPU refuses an index from memory that leaves; a GPU, which cannot, read what lay there.
TEST(Emit, HoldsIndicesFromMemory) {
  const te::Expr n = te::var("n");
  const te::Tensor a = te::placeholder({n}, "A"), at = te::placeholder({n}, "At", i32);
  const te::Tensor b = te::compute(
      {n}, [&](const te::Axes& i) { return a(at(i[0])) + a(te::floordiv(i[0], 2)); }, "B");
  const std::string text = emitted({a, at}, {b});
  EXPECT_NE(text.find("op_max(op_min(to_i64(fetch_i32(p.At"), std::string::npos) << text;
  EXPECT_EQ(text.find("op_min(("), std::string::npos) << text;  // of what sizes tell
}

// Outside of the loop that blocks run over, too, each of them fills its own: only the first one's was filled.
TEST(Emit, EachBlockFillsWhatItShares) {
  const te::Tensor a = te::placeholder({8, 64}, "A");
  const te::Tensor c = te::compute(
      {8, 64}, [&](const te::Axes& i) { return a(i[0], i[1]) + te::Expr(1.0); }, "C");
  te::Schedule s = te::create_schedule(c);
  const te::Tensor copy = s.cache_read(a, "shared", {c});
  const auto [block, thread] = s[c].split(c.op().axis()[1], 16);
  s[c].bind(block, te::thread_axis("blockIdx.x"));
  s[c].bind(thread, te::thread_axis("threadIdx.x"));
  s[copy].compute_at(s[c], c.op().axis()[0]);
  const std::string text = te::emit(te::make_nest(*s.node(), {a, c})).text;
  EXPECT_NE(text.find("if (thread_x == 0) A_shared["), std::string::npos) << text;
}

// Without a bound loop threads share the outermost one, but not what stands in shared memory within it: all wrote to
// one array there.
TEST(Emit, SharedMemoryOfNoThreads) {
  const te::Tensor a = te::placeholder({8, 64}, "A");
  const te::Tensor c = te::compute(
      {8, 64}, [&](const te::Axes& i) { return a(i[0], i[1]) + te::Expr(1.0); }, "C");
  const auto shares_its_loop = [&](const char* scope) {
    te::Schedule s = te::create_schedule(c);
    const te::Tensor copy = s.cache_read(a, scope, {c});
    s[copy].compute_at(s[c], c.op().axis()[0]);
    const std::string text = te::emit(te::make_nest(*s.node(), {a, c})).text;
    return text.substr(text.find("struct Params")).find("gridDim.x") != std::string::npos;
  };
  EXPECT_TRUE(shares_its_loop("local"));
  EXPECT_FALSE(shares_its_loop("shared"));
}

// A compiler takes an instruction that is not volatile in front of the test that its address needs.
TEST(Emit, VectorLoadsStayBehindTheirTests) {
  const te::Expr n = te::var("n"), m = te::var("m");
  const te::Tensor a = te::placeholder({te::Expr(8), n}, "A"), b = te::placeholder({te::Expr(8), m}, "B");
  const te::Axis k = te::reduce_axis(0, 8, "k");
  const te::Tensor c = te::compute(
      {n, m}, [&](const te::Axes& i) { return te::max(a(k, i[0]) * b(k, i[1]), {k}); }, "C");
  const std::string source = te::build(te::choose_schedule({c}, Target::cuda()), {a, b, c}, Target::cuda()).source();
  EXPECT_NE(source.find("fetch_words<"), std::string::npos);
  EXPECT_NE(source.find("asm volatile(\"ld.global.nc"), std::string::npos);
  EXPECT_EQ(source.find("asm(\"ld"), std::string::npos);
}

}  // namespace
}  // namespace postlude
