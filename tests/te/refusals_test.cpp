// What is illegal is refused, with the loop it concerns and what to do.
#include <postlude/te.h>

#include <gtest/gtest.h>

namespace postlude {
namespace {

using te::Axes;
using te::Expr;

struct Fixture {
  Expr n = te::var("n"), m = te::var("m");
  te::Tensor a = te::placeholder({n, m}, "A");
  te::Axis k = te::reduce_axis(0, m, "k");
  te::Tensor f = te::compute(
      {n, m}, [&](const Axes& i) { return a(i[0], i[1]) * 2.0; }, "F");
  te::Tensor b = te::compute(
      {n}, [&](const Axes& i) { return te::sum(f(i[0], k), {k}); }, "B");
  te::Schedule s = te::create_schedule(b);
  te::Axis i = b.op().axis()[0];
  [[nodiscard]] std::string nest() const { return te::lower(s, {a, b}); }
};

struct Case {
  const char* name;
  ErrorCode code;
  void (*run)(Fixture&);
  const char* message;
};

const Case cases[] = {
    {"FactorOfNothing", ErrorCode::bad_attribute, [](Fixture& t) { t.s[t.b].split(t.i, 0); },
     "split of 'i' into pieces of 0"},
    {"AxisOfAnotherStage", ErrorCode::bad_schedule, [](Fixture& t) { t.s[t.b].unroll(t.f.op().axis()[1]); },
     "unroll: 'j' is no loop of 'B'"},
    {"AxisThatWasSplit", ErrorCode::bad_schedule,
     [](Fixture& t) {
       t.s[t.b].split(t.i, 2);
       t.s[t.b].split(t.i, 2);
     },
     "split: 'i' is no loop of 'B'"},
    {"ReorderTwice", ErrorCode::bad_schedule,
     [](Fixture& t) {
       t.s[t.b].reorder({t.k, t.k});
     },
     "reorder: 'k' is named twice"},
    {"FuseOfKinds", ErrorCode::bad_schedule, [](Fixture& t) { t.s[t.b].fuse(t.i, t.k); },
     "fuse: one of 'i' and 'k' is reduced and the other is not"},
    {"FuseOfDistant", ErrorCode::bad_schedule, [](Fixture& t) { t.s[t.b].fuse(t.k, t.i); },
     "fuse: 'i' is not directly inside 'k'"},
    {"ParallelReduction", ErrorCode::bad_schedule, [](Fixture& t) { t.s[t.b].parallel(t.k); },
     "parallel: 'k' is reduced"},
    {"VectorOfReduction", ErrorCode::bad_schedule, [](Fixture& t) { t.s[t.b].vectorize(t.k); },
     "vectorize: 'k' is reduced"},
    {"OneThreadTwice", ErrorCode::bad_schedule,
     [](Fixture& t) {
       const auto [o, i] = t.s[t.b].split(t.i, 4);
       t.s[t.b].bind(o, te::thread_axis("threadIdx.x"));
       t.s[t.b].bind(i, te::thread_axis("threadIdx.x"));
     },
     "bind: threadIdx.x already runs 'i.outer' and cannot run 'i.inner' too"},
    {"ThreadsOfDifferentExtents", ErrorCode::bad_schedule,
     [](Fixture& t) {
       const auto [o, i] = t.s[t.b].split(t.i, 4);
       t.s[t.b].bind(i, te::thread_axis("threadIdx.x"));
       const auto [fo, fi] = t.s[t.f].split(t.f.op().axis()[1], 8);
       t.s[t.f].bind(fi, te::thread_axis("threadIdx.x"));
       t.s[t.f].compute_at(t.s[t.b], o);
       static_cast<void>(t.nest());
     },
     "bind: threadIdx.x runs 'j.inner' of 8 and 'i.inner' of 4"},
    {"OneOfSeveralReducedLoops", ErrorCode::bad_schedule,
     [](Fixture& t) {
       t.s[t.b].bind(t.s[t.b].split(t.k, 4).second, te::thread_axis("threadIdx.x"));
       static_cast<void>(t.nest());
     },
     "bind: 'k.outer' of 'B' is one of several reduced loops"},
    {"ComputeAtItself", ErrorCode::bad_schedule, [](Fixture& t) { t.s[t.f].compute_at(t.s[t.f], t.f.op().axis()[0]); },
     "compute_at: 'F' cannot be computed within itself"},
    {"ComputeAtOfAnOutput", ErrorCode::bad_schedule,
     [](Fixture& t) { t.s[t.b].compute_at(t.s[t.f], t.f.op().axis()[0]); }, "compute_at: 'B' is an output"},
    {"ComputeAtALoopThatIsGone", ErrorCode::bad_schedule,
     [](Fixture& t) {
       t.s[t.f].compute_at(t.s[t.b], t.i);
       t.s[t.b].split(t.i, 4);
       static_cast<void>(t.nest());
     },
     "compute_at: 'i', where 'F' was to be computed, is no loop any more"},
    {"InlineOfAReduction", ErrorCode::bad_schedule, [](Fixture& t) { t.s[t.b].compute_inline(); },
     "compute_inline: 'B' is a reduction over 'k'"},
    {"FactorOfAResult", ErrorCode::bad_schedule, [](Fixture& t) { t.s.rfactor(t.b, {t.i}); },
     "rfactor: 'i' is not reduced"},
    {"FactorOfElements", ErrorCode::bad_schedule, [](Fixture& t) { t.s.rfactor(t.f, {t.f.op().axis()[0]}); },
     "rfactor: 'F' is no reduction"},
    {"PredicateOfNoThread", ErrorCode::bad_schedule,
     [](Fixture& t) {
       t.s[t.b].set_store_predicate(te::thread_axis("threadIdx.x").var() == 0);
       static_cast<void>(t.nest());
     },
     "set_store_predicate: no loop of 'B' runs over threadIdx.x"},
    {"ReductionInAnExpression", ErrorCode::unsupported,
     [](Fixture& t) {
       te::compute(
           {t.n}, [&](const Axes& i) { return te::sum(t.a(i[0], t.k), {t.k}) + 1.0; }, "C");
     },
     "a reduction is part of a larger expression"},
    {"AxisThatIsNotReduced", ErrorCode::foreign_value,
     [](Fixture& t) {
       te::compute(
           {t.n}, [&](const Axes& i) { return t.a(i[0], t.k); }, "C");
     },
     "'C' uses the axis 'k', which it does not loop over"},
    {"TooFewIndices", ErrorCode::wrong_rank,
     [](Fixture& t) {
       te::compute(
           {t.n}, [&](const Axes& i) { return t.a(i[0]); }, "C");
     },
     "'A' has 2 axes, and is read at 1 indices"},
    {"MissingArgument", ErrorCode::missing_operand, [](Fixture& t) { static_cast<void>(te::lower(t.s, {t.b})); },
     "'A' is read and is no argument"},
};

class Refusals : public testing::TestWithParam<Case> {};

TEST_P(Refusals, SaysWhatAndWhere) {
  Fixture fixture;
  try {
    GetParam().run(fixture);
    FAIL() << "nothing is refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), GetParam().code) << error.what();
    EXPECT_EQ(error.message(), GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Refusals, testing::ValuesIn(cases), [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace postlude
