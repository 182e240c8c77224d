// A nest as it is printed has one thing of each name, whatever its stages call their loops.
#include "te/emit.h"

#include <postlude/te.h>

#include <gtest/gtest.h>

namespace postlude {
namespace {

// sum(a[i, k], [k]), its reduced loop and its result called as one likes.
struct NamedRows {
  te::Tensor a, b;
  te::Axis k;
  NamedRows(const te::Expr& n, const te::Expr& m, const std::string& loop, const std::string& result = "B")
      : a(te::placeholder({n, m}, "A")), k(te::reduce_axis(0, m, loop)) {
    b = te::compute(
        {n}, [&](const te::Axes& i) { return te::sum(a(i[0], k), {k}); }, result);
  }
  [[nodiscard]] std::string nest() const { return te::lower(te::create_schedule(b), {a, b}); }
};

TEST(Names, ALoopInAnotherOneOfItsName) {
  const te::Expr n = te::var("n");
  const te::Tensor a = te::placeholder({n, n}, "A");
  const te::Tensor p = te::compute(
      {n, n}, [&](const te::Axes& i) { return a(i[0], i[1]) * te::Expr(2); }, "P");
  const te::Axis d = te::reduce_axis(0, 3, "d");
  const te::Tensor y = te::compute(
      {n - te::Expr(2), n - te::Expr(2)}, [&](const te::Axes& i) { return te::sum(p(i[0] + d, i[1]), {d}); }, "Y");
  te::Schedule s = te::create_schedule(y);
  s[p].compute_at(s[y], y.op().axis()[1]);
  EXPECT_EQ(te::lower(s, {a, y}),
            "for (i, 0, n - 2) {\n"
            "  for (j, 0, n - 2) {\n"
            "    allocate P[3, 1] f32 local\n"
            "    for (i_1, 0, 3) {\n"
            "      P[i_1, 0] = A[i_1 + i, j]*2.0\n"
            "    }\n"
            "    Y[i, j] = 0.0\n"
            "    for (d, 0, 3) {\n"
            "      Y[i, j] = Y[i, j] + P[d, 0]\n"
            "    }\n"
            "  }\n"
            "}\n");
}

// The calls that made a schedule name each thing once, whatever stages and loops are called.
TEST(Names, OfCalls) {
  const te::Expr n = te::var("n"), m = te::var("m");
  const NamedRows rows(n, m, "k", "B");
  const te::Tensor c = te::compute({n, n}, [&](const te::Axes&i) { return rows.b(i[0]) + rows.b(i[1]); }, "B", {},
                                   {"i", "i"}),
                   d = te::compute(
                       {n, n}, [&](const te::Axes&i) { return c(i[0], i[1]) + te::Expr(1); }, "s");
  te::Schedule s = te::create_schedule(d);
  s[rows.b].split(rows.k, 4);
  for (const te::Axis& axis : c.op().axis()) s[c].split(axis, 2);
  const te::Axis tile = s[d].split(d.op().axis()[0], 2).first;
  s[c].compute_at(s[d], tile);
  EXPECT_EQ(s.calls(),
            "B_k_outer, B_k_inner = s[B].split(s[B].op.reduce_axis[0], factor=4)\n"
            "B_1_i_outer, B_1_i_inner = s[B_1].split(s[B_1].op.axis[0], factor=2)\n"
            "B_1_i_outer_1, B_1_i_inner_1 = s[B_1].split(s[B_1].op.axis[1], factor=2)\n"
            "s_1_i_outer, s_1_i_inner = s[s_1].split(s[s_1].op.axis[0], factor=2)\n"
            "s[B_1].compute_at(s[s_1], s_1_i_outer)\n");
}

TEST(Names, TwoTensorsOfOneName) {
  const te::Tensor a = te::placeholder({3, 4, 5}, "A");
  const te::Axis k = te::reduce_axis(0, 4, "k"), l = te::reduce_axis(0, 5, "l");
  const te::Tensor b = te::compute(
      {3},
      [&](const te::Axes& i) {
        return te::sum(a(i[0], k, l), {k, l});
      },
      "B");
  te::Schedule s = te::create_schedule(b);
  s.rfactor(b, {l});
  s.rfactor(b, {s[b].op().reduce_axis()[0]});
  const std::string nest = te::lower(s, {a, b});
  EXPECT_NE(nest.find("allocate B.rf[5, 3]"), nest.npos) << nest;
  EXPECT_NE(nest.find("B.rf_1[l.v, i] = B.rf[l.v, i]"), nest.npos) << nest;
  EXPECT_NE(nest.find("B[i] = B[i] + B.rf_1[l.v.v, i]"), nest.npos) << nest;
}

// A message says which of two copies it means.
TEST(Names, OfStagesThatCallsMake) {
  const NamedRows rows(te::var("n"), te::var("m"), "k");
  te::Schedule s = te::create_schedule(rows.b);
  const te::Axis inner = s[rows.b].split(rows.k, 4).second;
  const te::Tensor first = s.rfactor(rows.b, {inner})[0],
                   second = s.rfactor(rows.b, {s[rows.b].op().reduce_axis()[0]})[0];
  EXPECT_EQ(first.name(), "B.rf");
  EXPECT_EQ(second.name(), "B.rf_1");
  EXPECT_EQ(s.cache_read(rows.a, "local", {first}).name(), "A.local");
  EXPECT_EQ(s.cache_read(first, "local", {second}).name(), "B.rf.local");
  EXPECT_EQ(s.cache_write(second, "local")[0].name(), "B.rf_1.local");
  try {
    s[second].unroll(inner);
    FAIL() << "nothing is refused";
  } catch (const Error& error) { EXPECT_EQ(error.message(), "unroll: 'k.inner' is no loop of 'B.rf_1'"); }
}

// Whatever things are called, a nest can be read, and its own words are nobody's names.
TEST(Names, AreReadable) {
  const NamedRows rows(te::var("a b"), te::var("for"), "if", "2x-y");
  EXPECT_EQ(rows.nest(),
            "for (i, 0, a_b) {\n"
            "  _2x_y[i] = 0.0\n"
            "  for (if_1, 0, for_1) {\n"
            "    _2x_y[i] = _2x_y[i] + A[i, if_1]\n"
            "  }\n"
            "}\n");
  EXPECT_NE(NamedRows(te::var(""), te::var("a_b"), "a b").nest().find("for (a_b_1, 0, a_b)"), std::string::npos);
  EXPECT_NE(NamedRows(te::var("\n"), te::var("gr\u00f6\u00dfe"), ".k").nest().find("for (_.k, 0, gr\u00f6\u00dfe)"),
            std::string::npos);
  EXPECT_EQ((te::var("a b") + te::Expr(1)).print(), "a_b + 1");
}

TEST(Names, SizesTensorsAndLoops) {
  const te::Expr n = te::var("n"), m = te::var("m"), other = te::var("n");
  EXPECT_NE(NamedRows(n, m, "i").nest().find("for (i_1, 0, m) {\n    B[i] = B[i] + A[i, i_1]"), std::string::npos);
  EXPECT_NE(NamedRows(n, m, "n").nest().find("B[i] = B[i] + A[i, n_1]"), std::string::npos);
  EXPECT_NE(NamedRows(n, m, "A").nest().find("B[i] = B[i] + A[i, A_1]"), std::string::npos);
  EXPECT_NE(NamedRows(n, m, "nan").nest().find("B[i] = B[i] + A[i, nan_1]"), std::string::npos);
  EXPECT_NE(NamedRows(n, other, "k").nest().find("for (k, 0, n_1)"), std::string::npos);
  EXPECT_NE(NamedRows(n, m, "k", "A").nest().find("A_1[i] = A_1[i] + A[i, k]"), std::string::npos);
  // A piece of a loop as another one.
  const te::Tensor a = te::placeholder({6, 6}, "A");
  const te::Axis outer = te::reduce_axis(0, 6, "k.outer"), k = te::reduce_axis(0, 6, "k");
  const te::Tensor b = te::compute(
      {},
      [&](const te::Axes&) {
        return te::sum(a(outer, k), {outer, k});
      },
      "B");
  te::Schedule s = te::create_schedule(b);
  s[b].split(k, 2);
  const std::string nest = te::lower(s, {a, b});
  EXPECT_NE(nest.find("A[k.outer, k.outer_1*2 + k.inner]"), nest.npos) << nest;
}

// The loop that sets results to zero stands by itself; where it is added to, a loop of its name is around it.
TEST(Names, OneLoopTwiceHasOneName) {
  const te::Expr n = te::var("n"), m = te::var("m");
  const NamedRows rows(n, m, "i");
  te::Schedule s = te::create_schedule(rows.b);
  s[rows.b].reorder({rows.k, rows.b.op().axis()[0]});
  EXPECT_EQ(te::lower(s, {rows.a, rows.b}),
            "for (i, 0, n) {\n"
            "  B[i] = 0.0\n"
            "}\n"
            "for (i_1, 0, m) {\n"
            "  for (i, 0, n) {\n"
            "    B[i] = B[i] + A[i, i_1]\n"
            "  }\n"
            "}\n");
}

// How often emitted code declares a variable of a loop's name.
int declarations(const std::string& name) {
  const NamedRows rows(te::var("n"), te::var("m"), name);
  const std::string text = te::emit(te::make_nest(*te::create_schedule(rows.b).node(), {rows.a, rows.b})).text;
  int count = 0;
  for (std::size_t at = text.find(" " + name + " = ", text.find("struct Params")); at != text.npos;
       at = text.find(" " + name + " = ", at + 1))
    ++count;
  return count;
}

TEST(Names, EmittedCodeHasItsOwn) {
  EXPECT_EQ(declarations("rows"), 1);
  for (const char* temporary : {"t0", "t1", "t2"}) EXPECT_LE(declarations(temporary), 1) << temporary;
  for (const char* word : {"float", "new", "u", "step", "blockIdx", "hidden", "fetch_f32", "op_add"})
    EXPECT_EQ(declarations(word), 0) << word;
}

// The name of two halves that are fused again has both their names.
TEST(Names, StayShortWhereHalvesAreFused) {
  const te::Expr n = te::var("n");
  const te::Tensor a = te::placeholder({n}, "A"), b = te::compute(
                                                      {n}, [&](const te::Axes&i) { return a(i[0]) * 2.0; }, "B");
  te::Schedule s = te::create_schedule(b);
  te::Axis loop = b.op().axis()[0];
  for (int i = 0; i < 24; ++i) {
    const auto [outer, inner] = s[b].split(loop, 3);
    loop = s[b].fuse(outer, inner);
  }
  EXPECT_LE(te::lower(s, {a, b}).size(), 2000u);
  std::vector<float> x(50, 1.5F), y(50);
  te::build(s, {a, b}, Target::cpu(1))({Tensor(x.data(), f32, {50}), Tensor(y.data(), f32, {50})});
  EXPECT_EQ(y, std::vector<float>(50, 3.0F));
}

}  // namespace
}  // namespace postlude
