// What is illegal is refused, with the loop it concerns and what to do. It is longer than most because each refusal has
// its few lines here.
#include <postlude/te.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

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

using Terms = std::vector<Expr>;
// rfactor of a reducer of one's own, whose identity is 0.
void factor_of(Fixture& t, const char* name, Expr (*combine)(const Expr&, const Expr&)) {
  const te::Reducer reducer =
      te::comm_reducer([combine](const Terms& a, const Terms& b) { return Terms{combine(a[0], b[0])}; },
                       [](const auto&) { return Terms{Expr(0)}; }, name);
  const te::Tensor c = te::compute(
      {t.n}, [&](const Axes& i) { return reducer({t.a(i[0], t.k)}, {t.k})[0]; }, "C");
  te::create_schedule(c).rfactor(c, {t.k});
}
Expr first(const Expr& a, const Expr&) { return a; }
Expr half_of_both(const Expr& a, const Expr& b) { return (a + b) * 0.5; }
Expr one_more(const Expr& a, const Expr& b) { return a + b + 1; }

struct Case {
  const char* name;
  ErrorCode code;
  void (*run)(Fixture&);
  const char* message;
};

const char* const too_many = "more than 4096 stages are scheduled together, or lie one behind another";
const char* const too_large = "an expression has more than 65536 parts, or lies more than 2000 deep";

const Case cases[] = {
    {"FactorOfNothing", ErrorCode::bad_attribute, [](Fixture& t) { t.s[t.b].split(t.i, 0); },
     "split of 'i' into pieces of 0"},
    {"FactorBeyondEveryExtent", ErrorCode::bad_attribute,  // the number of pieces overflowed, and nothing was computed
     [](Fixture& t) { t.s[t.b].split(t.i, std::numeric_limits<std::int64_t>::max()); },
     "split of 'i' into pieces of 9223372036854775807"},
    {"AxisOfAnotherStage", ErrorCode::bad_schedule, [](Fixture& t) { t.s[t.b].unroll(t.f.op().axis()[1]); },
     "unroll: 'j' is no loop of 'B'"},
    {"AxisOfAnotherStageOfOneName", ErrorCode::bad_schedule, [](Fixture& t) { t.s[t.b].unroll(t.f.op().axis()[0]); },
     "unroll: 'i' is no loop of 'B', which has another of this name"},
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
    {"PredicateBeyondTheThreads", ErrorCode::bad_schedule,
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
    {"SplitOfABoundLoop", ErrorCode::bad_schedule,
     [](Fixture& t) {
       t.s[t.b].bind(t.i, te::thread_axis("blockIdx.x"));
       t.s[t.b].split(t.i, 4);
     },
     "split: 'i' is already bound or marked"},
    {"TwoBindingsOfALoop", ErrorCode::bad_schedule,
     [](Fixture& t) {
       t.s[t.b].bind(t.i, te::thread_axis("blockIdx.x"));
       t.s[t.b].bind(t.i, te::thread_axis("blockIdx.y"));
     },
     "bind: 'i' is already bound to blockIdx.x"},
    {"FuseOfAMarkedLoop", ErrorCode::bad_schedule,
     [](Fixture& t) {
       const auto [o, i] = t.s[t.b].split(t.i, 4);
       t.s[t.b].unroll(i);
       t.s[t.b].fuse(o, i);
     },
     "fuse: 'i.inner' is already bound or marked"},
    {"BindToNoThread", ErrorCode::bad_schedule, [](Fixture& t) { t.s[t.b].bind(t.i, t.k); },
     "bind: 'k' is no axis of blocks or threads"},
    {"ThreadsWithALoopInside", ErrorCode::bad_schedule,
     [](Fixture& t) {
       t.s[t.b].reorder({t.k, t.i});
       t.s[t.b].bind(t.k, te::thread_axis("threadIdx.x"));
       static_cast<void>(t.nest());
     },
     "bind: 'k' of 'B' is reduced by threads and has 'i' inside"},
    {"BlocksWithinALoop", ErrorCode::bad_schedule,
     [](Fixture& t) {
       t.s[t.f].bind(t.f.op().axis()[1], te::thread_axis("blockIdx.x"));
       t.s[t.f].compute_at(t.s[t.b], t.i);
       static_cast<void>(t.nest());
     },
     "bind: 'j' of 'F', which is computed within 'i', to blockIdx.x"},
    {"InlineOfAnOutput", ErrorCode::bad_schedule,
     [](Fixture& t) {
       te::Schedule s = te::create_schedule(t.f);
       s[t.f].compute_inline();
     },
     "compute_inline: 'F' is an output"},
    {"PlaceholderHasNoLoops", ErrorCode::bad_schedule, [](Fixture& t) { static_cast<void>(t.s[t.a]); },
     "'A' is a placeholder and has no loops"},
    {"FactorOfNoLoop", ErrorCode::bad_schedule, [](Fixture& t) { t.s.rfactor(t.b, {}); }, "rfactor: of no loop"},
    {"FactorTwice", ErrorCode::bad_schedule,
     [](Fixture& t) {
       t.s.rfactor(t.b, {t.k, t.k});
     },
     "rfactor: 'k' is named twice"},
    {"FactorAtNoPlace", ErrorCode::bad_attribute, [](Fixture& t) { t.s.rfactor(t.b, {t.k}, 2); },
     "rfactor: 'B' has 1 axes, and 'k' cannot become number 2"},
    {"FactorThatDoesNotCommute", ErrorCode::bad_schedule, [](Fixture& t) { factor_of(t, "left", first); },
     "rfactor of 'k': 'left' is not commutative"},
    {"FactorThatDoesNotAssociate", ErrorCode::bad_schedule, [](Fixture& t) { factor_of(t, "mean", half_of_both); },
     "rfactor of 'k': 'mean' is not associative"},
    {"FactorWithoutAnIdentity", ErrorCode::bad_schedule, [](Fixture& t) { factor_of(t, "more", one_more); },
     "rfactor of 'k': the identity of 'more' changes what it is combined with"},
    {"ThreadsWithoutAnIdentity", ErrorCode::bad_schedule,
     [](Fixture& t) {
       const te::Reducer more = te::comm_reducer([](const Terms& a, const Terms& b) { return Terms{a[0] + b[0] + 1}; },
                                                 [](const auto&) { return Terms{Expr(0)}; }, "more");
       const te::Tensor c = te::compute(
           {t.n}, [&](const Axes& i) { return more({t.a(i[0], t.k)}, {t.k})[0]; }, "C");
       te::create_schedule(c)[c].bind(t.k, te::thread_axis("threadIdx.x"));
     },
     "bind of 'k' to threadIdx.x: the identity of 'more' changes what it is combined with"},
    {"ThreadsOfAnotherExtent", ErrorCode::bad_schedule,
     [](Fixture& t) { t.s[t.b].bind(t.s[t.b].split(t.i, 32).second, te::thread_axis(8, "threadIdx.x")); },
     "bind: threadIdx.x of 8 cannot run 'i.inner' of 32"},
    {"PredicateOfNoThread", ErrorCode::bad_schedule,
     [](Fixture& t) {
       const te::Axis inner = t.s[t.b].split(t.k, 32).second, thread = te::thread_axis("threadIdx.x");
       t.s.rfactor(t.b, {inner});
       t.s[t.b].bind(t.s[t.b].op().reduce_axis()[0], thread);
       t.s[t.b].set_store_predicate(Expr(thread) == Expr(40));
       static_cast<void>(t.nest());
     },
     "set_store_predicate: no thread of 'k.inner.v' of 'B', which has 32, satisfies threadIdx.x == 40"},
    {"ComputedWhereItsReaderIsNot", ErrorCode::bad_schedule,
     [](Fixture& t) {
       const te::Tensor cache = t.s.cache_write(t.b, "local")[0];
       const auto [outer, inner] = t.s[t.b].split(t.i, 4);
       t.s[cache].compute_at(t.s[t.b], outer);
       t.s[t.f].compute_at(t.s[t.b], inner);
       static_cast<void>(t.nest());
     },
     "compute_at: 'B.local' reads 'F' outside of the loop 'i.inner' of 'B'"},
    {"ComputeAtBesideAnOutput", ErrorCode::bad_schedule,  // at once: no later call brings G into these loops
     [](Fixture& t) {
       const te::Tensor g = te::compute(
           {t.n, t.m}, [&](const Axes& i) { return t.f(i[0], i[1]) + 1; }, "G");
       te::Schedule s = te::create_schedule({t.b, g});
       s[t.f].compute_at(s[t.b], t.i);
     },
     "compute_at: 'G' reads 'F' outside of the loop 'i' of 'B'"},
    {"ComputeAtBesideWhatAnOutputReads", ErrorCode::bad_schedule,
     [](Fixture& t) {
       const te::Tensor g = te::compute(
                            {t.n, t.m}, [&](const Axes&i) { return t.f(i[0], i[1]) + 1; }, "G"),
                        h = te::compute(
                            {t.n, t.m}, [&](const Axes&i) { return g(i[0], i[1]) + 1; }, "H");
       te::Schedule s = te::create_schedule({t.b, h});
       s[t.f].compute_at(s[t.b], t.i);
     },
     "compute_at: 'G' reads 'F' outside of the loop 'i' of 'B'"},
    {"TileOfOneLoop", ErrorCode::bad_schedule, [](Fixture& t) { t.s[t.b].tile(t.i, t.i, 2, 2); },
     "tile: 'i' is named twice"},
    {"CacheForNoReader", ErrorCode::bad_schedule, [](Fixture& t) { t.s.cache_read(t.a, "shared", {}); },
     "cache_read: of 'A' for no reader"},
    {"CacheForWhoDoesNotRead", ErrorCode::bad_schedule, [](Fixture& t) { t.s.cache_read(t.a, "shared", {t.b}); },
     "cache_read: 'B' does not read 'A'"},
    {"CacheOfSplitLoops", ErrorCode::bad_schedule,
     [](Fixture& t) {
       t.s[t.b].split(t.i, 4);
       t.s.cache_write(t.b, "local");
     },
     "cache_write: the loops of 'B' are already split or fused"},
    {"PredicateOfOneThread", ErrorCode::bad_schedule,
     [](Fixture& t) {
       t.s[t.b].set_store_predicate(t.n == 0);
       static_cast<void>(t.nest());
     },
     "set_store_predicate: 'B' reduces within one thread"},
    {"PredicateOfWhatReducesNothing", ErrorCode::bad_schedule,  // what read it then read memory as it lay
     [](Fixture& t) {
       const te::Axis thread = te::thread_axis("threadIdx.x");
       t.s[t.f].bind(t.f.op().axis()[0], thread);
       t.s[t.f].set_store_predicate(thread.var() == 0);
       static_cast<void>(t.nest());
     },
     "set_store_predicate: 'F' reduces nothing"},
    {"PredicateThatIsANumber", ErrorCode::type_mismatch, [](Fixture& t) { t.s[t.b].set_store_predicate(3); },
     "the store predicate of 'B' is no condition: 3"},
    {"NoOutput", ErrorCode::no_output,  // it ended the process
     [](Fixture& t) {
       te::compute_several(
           {t.n}, [](const Axes&) { return Terms{}; }, "C");
     },
     "'C' computes nothing"},
    {"EmptyExpression", ErrorCode::usage, [](Fixture& t) { te::sum(Expr(), {t.k}); }, "an expression is empty"},
    {"IndexThatLeaves", ErrorCode::wrong_shape,
     [](Fixture& t) {
       const te::Tensor c = te::compute(
           {t.n, t.m}, [&](const Axes& i) { return t.a(i[0], i[1] + 1); }, "C");
       std::vector<float> in(6), out(6);
       te::build(te::create_schedule(c), {t.a, c})({Tensor(in.data(), f32, {2, 3}), Tensor(out.data(), f32, {2, 3})});
     },
     "index j + 1 of 'A' in 'C' is in [1, 3], and axis 1 has 3 elements"},
    {"IndexThatLeavesBehindACondition", ErrorCode::wrong_shape,  // at a corner of the loops, where it holds
     [](Fixture& t) {
       const te::Tensor c = te::compute(
           {t.n, t.m},
           [&](const Axes& i) {
             return te::apply("where", {Expr(i[1]) >= 1, t.a(i[0], i[1] + 1), 0});
           },
           "C");
       std::vector<float> in(6), out(6);
       te::build(te::create_schedule(c), {t.a, c})({Tensor(in.data(), f32, {2, 3}), Tensor(out.data(), f32, {2, 3})});
     },
     "index j + 1 of 'A' in 'C' is in [1, 3], and axis 1 has 3 elements"},
    {"IndexOfNothing", ErrorCode::wrong_shape,
     [](Fixture& t) {
       const te::Tensor at = te::placeholder({t.n}, "At", i32);
       const te::Tensor c = te::compute(
           {t.n}, [&](const Axes& i) { return t.a(i[0], at(i[0])); }, "C");
       std::vector<float> in(1), out(2);
       std::vector<std::int32_t> places(2);
       te::build(te::create_schedule(c), {t.a, at, c})(
           {Tensor(in.data(), f32, {2, 0}), Tensor(places.data(), i32, {2}), Tensor(out.data(), f32, {2})});
     },
     "index cast(At[i], i64) of 'A' in 'C' is read from memory, and axis 1 has 0 elements"},
    {"IndexBeyond64Bits", ErrorCode::size_overflow,  // 8 * 2^61 is 0 in these, and element 2^61 was read
     [](Fixture& t) {
       const te::Tensor c = te::compute(
           {t.n, t.m}, [&](const Axes& i) { return t.a(i[0], Expr(i[1]) * (std::int64_t{1} << 61)); }, "C");
       std::vector<float> in(9), out(9);
       te::build(te::create_schedule(c), {t.a, c})({Tensor(in.data(), f32, {1, 9}), Tensor(out.data(), f32, {1, 9})});
     },
     "index j*2305843009213693952 of 'A' in 'C' is of numbers beyond 2^61"},
    {"OutputOfMoreAxesThanArrays", ErrorCode::wrong_rank,  // it was built, and no array could be bound to it
     [](Fixture&) {
       const te::Tensor c = te::compute(
           std::vector<Expr>(13, 1), [](const Axes&) { return Expr(1.0); }, "C");
       static_cast<void>(te::build({c}, {c}));
     },
     "'C' has 13 axes"},
    {"ConditionBeyond64Bits", ErrorCode::size_overflow,  // what overflowed was taken for less than 5
     [](Fixture& t) {
       const te::Tensor c = te::compute(
           {t.n},
           [&](const Axes& i) { return te::sum(t.a(i[0], t.k), {t.k}, Expr(t.k) * (std::int64_t{1} << 60) < 5); }, "C");
       std::vector<float> in(9), out(1);
       te::build(te::create_schedule(c), {t.a, c})({Tensor(in.data(), f32, {1, 9}), Tensor(out.data(), f32, {1})});
     },
     "the condition k*1152921504606846976 < 5 in 'C' is of numbers beyond 2^61, whose differences may not fit 64 bits"},
    {"IndexDividedByNothing", ErrorCode::bad_attribute,  // it was element 0
     [](Fixture& t) {
       te::compute(
           {t.n}, [&](const Axes& i) { return t.a(i[0], te::floormod(i[0] + 1, 0)); }, "C");
     },
     "i + 1 is divided by 0"},
    {"ExtentOfReals", ErrorCode::type_mismatch,  // it was 0
     [](Fixture& t) { te::placeholder({te::cast(te::cast(t.n, f32) * 0.5, i64)}, "H"); },
     "an extent of 'H' is made of real numbers"},
    {"ExtentBeyondEveryArray", ErrorCode::size_overflow,
     [](Fixture&) { te::reduce_axis(0, std::int64_t{1} << 40, "q"); },
     "an extent of 'q' is beyond 2^31 - 1: 1099511627776"},
    {"ConstantsThatWrap", ErrorCode::size_overflow,  // it was 3
     [](Fixture& t) { te::placeholder({t.n * (std::int64_t{1} << 32) * (std::int64_t{1} << 32) + 3}, "H"); },
     "an extent of 'H' has constants beyond 2^61: n*4294967296*4294967296 + 3"},
    {"ConstantsThatWrapInAnEnd", ErrorCode::size_overflow,  // it was n
     [](Fixture& t) {
       const std::int64_t most = std::numeric_limits<std::int64_t>::max();
       te::reduce_axis(0, te::floordiv(t.n + most + most + 2, 3), "q");
     },
     "an extent of 'q' has constants beyond 2^61: ceildiv(n + 9223372036854775807 + 9223372036854775807, 3)"},
    {"EndBeforeItsBegin", ErrorCode::size_overflow, [](Fixture&) { te::reduce_axis(2, -1, "q"); },
     "an extent of 'q' is negative: -3"},
    {"CombinerOfATensor", ErrorCode::bad_combiner,  // it was an error without a code
     [](Fixture& t) {
       const te::Reducer scaled =
           te::comm_reducer([&](const Terms& a, const Terms& b) { return Terms{a[0] + b[0] * t.a(0, 0)}; },
                            [](const auto&) { return Terms{Expr(0)}; }, "scaled");
       te::compute(
           {t.n}, [&](const Axes& i) { return scaled({t.f(i[0], t.k)}, {t.k})[0]; }, "C");
     },
     "'scaled' uses more than its arguments: 'A'"},
    {"CombinerOfAnotherType", ErrorCode::bad_combiner,  // what it gives was rounded without a word
     [](Fixture& t) {
       const te::Reducer half =
           te::comm_reducer([](const Terms& a, const Terms& b) { return Terms{(a[0] + b[0]) * 0.5}; },
                            [](const auto&) { return Terms{Expr(0)}; }, "half");
       te::compute(
           {t.n}, [&](const Axes& i) { return half({te::cast(t.f(i[0], t.k), i32)}, {t.k})[0]; }, "C");
     },
     "what 'half' combines values into is f32, and what is reduced is i32"},
    {"IdentityOfAnotherType", ErrorCode::bad_combiner,
     [](Fixture& t) {
       const te::Reducer sum = te::comm_reducer([](const Terms& a, const Terms& b) { return Terms{a[0] + b[0]}; },
                                                [](const auto&) { return Terms{Expr(true)}; }, "plus");
       te::compute(
           {t.n}, [&](const Axes& i) { return sum({t.f(i[0], t.k)}, {t.k})[0]; }, "C");
     },
     "the identity of 'plus', true, is bool, and what is reduced is f32"},
    {"IdentityThatIsRounded", ErrorCode::bad_combiner,
     [](Fixture& t) {
       const te::Reducer sum = te::comm_reducer([](const Terms& a, const Terms& b) { return Terms{a[0] + b[0]}; },
                                                [](const auto&) { return Terms{Expr(0.5)}; }, "plus");
       te::compute(
           {t.n}, [&](const Axes& i) { return sum({te::cast(t.f(i[0], t.k), i32)}, {t.k})[0]; }, "C");
     },
     "the identity of 'plus', 0.5, is f32, and what is reduced is i32"},
    {"LoopAsAnExtent", ErrorCode::foreign_value,  // it was taken, and no array told it
     [](Fixture& t) {
       te::compute(
           {Expr(t.k) + 1}, [&](const Axes& i) { return t.a(i[0], 0); }, "C");
     },
     "an extent of 'C' has the loop 'k', which is no size"},
    {"LoopAsTheEndOfALoop", ErrorCode::foreign_value, [](Fixture& t) { te::reduce_axis(0, t.i, "q"); },
     "an extent of 'q' has the loop 'i', which is no size"},
    {"LoopAsAnExtentOfAPlaceholder", ErrorCode::foreign_value,
     [](Fixture& t) {
       te::placeholder({t.n, t.i}, "P");
     },
     "an extent of 'P' has the loop 'i', which is no size"},
    {"ElementAsAnExtent", ErrorCode::foreign_value,
     [](Fixture& t) { te::reduce_axis(0, te::cast(t.a(0, 0), i32), "q"); },
     "an extent of 'q' has an element of 'A', which is no size"},
    {"PartsOfManyLengths", ErrorCode::bad_schedule,  // a call said so
     [](Fixture& t) {
       const te::Tensor total = te::compute(
           {t.n}, [&](const Axes& i) { return te::sum(t.f(i[0], t.k), {t.k}); }, "total");
       const te::Tensor d = te::compute(
           {t.n, t.m}, [&](const Axes& i) { return t.f(i[0], i[1]) / total(i[0]); }, "D");
       te::Schedule s = te::create_schedule(d);
       const te::Axis fused = s[d].fuse(d.op().axis()[0], d.op().axis()[1]);
       s[total].compute_at(s[d], fused);
       s[t.f].compute_at(s[d], fused);
       static_cast<void>(te::lower(s, {t.a, d}));
     },
     "compute_at: the part of 'F' that 'i.j.fused' of 'D' needs is not as long along axis 1 for each 'i.j.fused'"},
    {"TwoMarksOfALoop", ErrorCode::bad_schedule,  // the first was dropped
     [](Fixture& t) {
       t.s[t.b].parallel(t.i);
       t.s[t.b].vectorize(t.i);
     },
     "vectorize: 'i' is already parallel"},
    {"PredicateOfNoThreadOnceSizesAreBound", ErrorCode::bad_schedule,  // nothing was stored
     [](Fixture& t) {
       const te::Axis thread = te::thread_axis("threadIdx.x");
       t.s[t.b].bind(t.k, thread);
       t.s[t.b].set_store_predicate(Expr(thread) == t.n + 3);
       std::vector<float> in(8), out(2);
       te::build(t.s, {t.a, t.b})({Tensor(in.data(), f32, {2, 4}), Tensor(out.data(), f32, {2})});
     },
     "set_store_predicate: no thread of 'k' of 'B', which has 4, satisfies threadIdx.x == n + 3"},
    {"MoreThreadsThanABlockHas", ErrorCode::bad_schedule,  // a launch said so
     [](Fixture& t) {
       const auto [outer, inner] = t.s[t.b].split(t.i, 2048);
       t.s[t.b].bind(outer, te::thread_axis("blockIdx.x"));
       t.s[t.b].bind(inner, te::thread_axis("threadIdx.x"));
       static_cast<void>(te::build(t.s, {t.a, t.b}, Target::parse("sm_90a")));
     },
     "bind: 'i.inner' of 2048, which threadIdx.x runs, makes blocks of 2048 threads"},
    {"FuseBeyond64Bits", ErrorCode::size_overflow,  // it had 0 iterations
     [](Fixture& t) {
       Axes k;
       for (const char* name : {"p", "q", "r"}) k.push_back(te::reduce_axis(0, 2097152, name));
       const te::Tensor c = te::compute(
           {t.n}, [&](const Axes& i) { return te::max(t.a(i[0], 0), k); }, "C");
       te::Schedule s = te::create_schedule(c);
       s[c].fuse(s[c].fuse(k[0], k[1]), k[2]);
     },
     "fuse: 'p.q.fused' and 'r' have more than 2^63 iterations"},
    {"SumOfTooManyTerms", ErrorCode::text_limit,  // recursion over these ended the process
     [](Fixture& t) {
       Expr sum = t.a(0, 0);
       for (int i = 0; i < 100000; ++i) sum = sum + t.a(0, 0);
     },
     too_large},
    {"PartsThatDouble", ErrorCode::text_limit,  // each was printed twice as often as the one before
     [](Fixture& t) {
       Expr power = t.a(0, 0);
       for (int i = 0; i < 40; ++i) power = power * power;
     },
     too_large},
    {"InlinedStagesThatDouble", ErrorCode::text_limit,
     [](Fixture& t) {
       std::vector<te::Tensor> stages{t.a};
       for (int s = 0; s < 40; ++s)
         stages.push_back(te::compute(
             {t.n, t.m}, [&](const Axes& i) { return stages.back()(i[0], i[1]) * stages.back()(i[0], i[1]); }, "P"));
       te::Schedule schedule = te::create_schedule(stages.back());
       for (std::size_t s = 1; s + 1 < stages.size(); ++s) schedule[stages[s]].compute_inline();
       static_cast<void>(te::lower(schedule, {t.a, stages.back()}));
     },
     too_large},
    {"StagesBehindStages", ErrorCode::text_limit,  // their end, one within another, ended the process
     [](Fixture& t) {
       te::Tensor x = t.a;
       for (int s = 0; s < 300000; ++s)
         x = te::compute(
             {t.n, t.m}, [&](const Axes& i) { return x(i[0], i[1]) + 1; }, "x");
     },
     too_many},
    {"StagesBesideStages", ErrorCode::text_limit,  // 20,000 took seconds, the square of the time of 2,000
     [](Fixture& t) {
       std::vector<te::Tensor> outputs;
       for (int s = 0; s < 4097; ++s)
         outputs.push_back(te::compute(
             {t.n, t.m}, [&](const Axes& i) { return t.a(i[0], i[1]) + s; }, "x"));
       static_cast<void>(te::create_schedule(outputs));
     },
     too_many},
    {"RemaindersOfRemainders", ErrorCode::text_limit,
     [](Fixture& t) {
       Expr index = t.i;
       for (int i = 0; i < 100; ++i) index = te::floormod(index + 1, 8);
     },
     too_large},
    {"ScheduleOfATarget", ErrorCode::bad_schedule,
     [](Fixture& t) {
       Target target = Target::parse("sm_90a");
       target.schedule = "fast accumulator";
       static_cast<void>(te::build(t.s, {t.a, t.b}, target));
     },
     "no main loop takes the schedule 'fast accumulator' here, and loops have their own"},
    {"FastSumsOfATarget", ErrorCode::bad_schedule,
     [](Fixture& t) {
       Target target = Target::parse("sm_90a");
       target.schedule = "fast";
       static_cast<void>(te::build(t.s, {t.a, t.b}, target));
     },
     "no main loop takes the schedule 'fast' here, and loops have their own"},
    {"MissingArgument", ErrorCode::missing_operand, [](Fixture& t) { static_cast<void>(te::lower(t.s, {t.b})); },
     "'A' is read and is no argument"},
    {"SizeThatNothingTells", ErrorCode::missing_operand,
     [](Fixture& t) {
       const Expr q = te::var("q");
       const te::Tensor c = te::compute(
           {t.n, t.m},
           [&](const Axes& i) {
             return te::apply("where", {i[1] < q, t.a(i[0], i[1]), 0.0});
           },
           "C");
       static_cast<void>(te::build(te::create_schedule(c), {t.a, c}));
     },
     "no argument tells the size 'q'"},
    {"LoopsTooDeep", ErrorCode::text_limit,
     [](Fixture& t) {
       te::Axis outer = t.k;
       for (int i = 0; i < 32; ++i) outer = t.s[t.b].split(outer, 2).first;
       static_cast<void>(te::build(t.s, {t.a, t.b}));
     },
     "the loop 'k.outer.inner' stands in 32 others, and 32 loops are the most"},
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

// A call that is refused leaves the schedule as it was.
TEST(RefusedCalls, ChangeNothing) {
  Fixture t;
  const std::string before = t.nest();
  const auto refused = [&](ErrorCode code, const auto& call) {
    try {
      call();
      ADD_FAILURE() << "nothing is refused";
    } catch (const Error& error) { EXPECT_EQ(error.code(), code) << error.what(); }
    EXPECT_EQ(t.nest(), before);
    EXPECT_EQ(t.s.calls(), "");
  };
  refused(ErrorCode::bad_attribute, [&] { t.s.cache_read(t.f, "near", {t.b}); });
  refused(ErrorCode::bad_attribute, [&] { t.s.cache_write(t.b, "near"); });
  refused(ErrorCode::bad_schedule, [&] { t.s.cache_read(t.a, "local", {t.f, t.b}); });
  refused(ErrorCode::bad_attribute, [&] { t.s[t.b].tile(t.i, t.k, 2, 0); });
  refused(ErrorCode::bad_schedule, [&] { t.s[t.b].tile(t.i, t.i, 2, 2); });
  refused(ErrorCode::bad_schedule, [&] { t.s[t.f].fuse({t.f.op().axis()[0], t.f.op().axis()[1], t.k}); });
}

// Sizes whose product no 64 bits hold are refused; of a negative one nothing runs, though two of them are fused.
TEST(RefusedSizes, OfStagesAndReductions) {
  const Expr n = te::var("n");
  const te::Tensor x = te::placeholder({n}, "X");
  const auto called = [&](const te::Tensor& y, std::int64_t count, bool fused, const te::Tensor& of) {
    te::Schedule s = te::create_schedule(y);
    if (fused) s[of].fuse(of.op().reduce_axis().empty() ? of.op().axis() : of.op().reduce_axis());
    std::vector<float> in(static_cast<std::size_t>(count), 1), out(in.size());
    te::build(s, {x, y},
              Target::cpu(1))({Tensor(in.data(), DType::f32, {count}), Tensor(out.data(), DType::f32, {count})});
    return out;
  };
  const auto message = [&](const te::Tensor& y, std::int64_t count, bool fused, const te::Tensor& of) -> std::string {
    try {
      called(y, count, fused, of);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::size_overflow);
      return error.message();
    }
    return "nothing is refused";
  };
  const te::Axis k = te::reduce_axis(0, n - 7, "k"), l = te::reduce_axis(0, n - 7, "l");
  const te::Tensor sums = te::compute(
      {n},
      [&](const Axes&) {
        return te::sum(x(0), {k, l});
      },
      "B");
  EXPECT_EQ(called(sums, 3, true, sums)[0], 0);
  EXPECT_EQ(called(sums, 7, true, sums)[0], 0);
  EXPECT_EQ(called(sums, 9, true, sums)[0], 4);

  const te::Tensor inner = te::compute(
      {n - 7, n - 7}, [&](const Axes& i) { return x(i[0] * 0) + i[1]; }, "P");
  const te::Tensor outer = te::compute(
      {n},
      [&](const Axes& i) {
        return te::apply("where", {i[0] < n - 7, inner(i[0], i[0]), 0});
      },
      "Y");
  EXPECT_EQ(called(outer, 3, true, inner), std::vector<float>(3));
  EXPECT_EQ(called(outer, 9, true, inner)[1], 2);

  const te::Axis many = te::reduce_axis(0, n * n * n * n, "k");
  const te::Tensor wraps = te::compute(
      {n}, [&](const Axes&) { return te::sum(x(0), {many}); }, "B");
  EXPECT_EQ(message(wraps, 65536, false, wraps),
            "the extent n*n*n*n of 'k' in 'B' is beyond 2^31 - 1 for these arrays");
  const te::Tensor large = te::compute(
      {n, n, n, n}, [&](const Axes& i) { return x(i[0]); }, "P");
  const te::Tensor of_large = te::compute(
      {n}, [&](const Axes& i) { return large(i[0], 0, 0, 0); }, "Y");
  EXPECT_EQ(message(of_large, 65536, false, large), "'P' has too many elements for these arrays");
}

// What is no number of 64 bits was taken for what is left of it: of 65536, n*n*n*n was 0.
TEST(RefusedSizes, WhatWrapsInIndicesAndConditions) {
  const Expr n = te::var("n"), much = n * n * n * n;
  const te::Tensor x = te::placeholder({n}, "X");
  const auto called = [&](const std::function<Expr(const Expr& i)>& element, std::int64_t count) -> std::string {
    const te::Tensor y = te::compute(
        {n}, [&](const Axes& i) { return element(i[0]); }, "Y");
    std::vector<float> in(static_cast<std::size_t>(count), 1), out(in.size());
    try {
      te::build(te::create_schedule(y), {x, y},
                Target::cpu(1))({Tensor(in.data(), DType::f32, {count}), Tensor(out.data(), DType::f32, {count})});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::size_overflow) << error.what();
      return error.message();
    }
    return "nothing";
  };
  const auto where = [](const Expr& condition, const Expr& one, const Expr& other) {
    return te::apply("where", {condition, one, other});
  };
  const std::string condition = " in 'Y' is of numbers beyond 2^61, whose differences may not fit 64 bits",
                    index = " of 'X' in 'Y' is of numbers beyond 2^61";
  const std::tuple<std::function<Expr(const Expr&)>, std::string> programs[] = {
      {[&](const Expr& i) { return where(i + much < n, 1.0, 2.0); }, "the condition i + n*n*n*n < n" + condition},
      {[&](const Expr& i) { return where((i + much < n) | (i < 3), 1.0, 2.0); },
       "the condition i + n*n*n*n < n | i < 3" + condition},
      {[&](const Expr& i) { return where(i + much != i, 1.0, 2.0); }, "the condition i + n*n*n*n != i" + condition},
      {[&](const Expr& i) { return x(i + much); }, "index i + n*n*n*n" + index},
      {[&](const Expr& i) { return x(i + n * (1 << 20) * (1 << 20) * (1 << 20) * 16); },
       "index i + n*1048576*1048576*1048576*16" + index},
      {[&](const Expr& i) { return x(i + Expr(std::int64_t{1} << 40) * (std::int64_t{1} << 40)); },
       "index i + 1099511627776*1099511627776" + index},
      {[&](const Expr& i) { return x(te::floordiv(i + much, 2)); }, "index floordiv(i + n*n*n*n, 2)" + index},
      {[&](const Expr& i) { return x(te::floormod(i + much, n)); },
       "index i + n*n*n*n - floordiv(i + n*n*n*n, n)*n" + index},
      {[&](const Expr& i) {
         return x(te::apply("min", {i + much, n - 1}));
       },
       "index min(i + n*n*n*n, n - 1)" + index},
      {[&](const Expr& i) { return where(i < 1, x(i * much), 0.0); }, "index i*(n*n*n*n)" + index},
  };
  for (const auto& [element, message] : programs) EXPECT_EQ(called(element, 65536), message);
  // Smaller numbers are what they are.
  EXPECT_EQ(called([&](const Expr& i) { return where(i + n * n * n < n, 1.0, 2.0); }, 65536), "nothing");
  EXPECT_EQ(called([&](const Expr& i) { return x(te::floormod(i * n * n, n)); }, 65536), "nothing");
  EXPECT_EQ(called([&](const Expr& i) { return x(i - te::floordiv(i, i + 1) * (i + 1)); }, 65536), "nothing");
}

// Extents of arrays and of fused loops too: four loops of 65536 ran no time as one.
TEST(RefusedSizes, WhatNoMemoryHolds) {
  const Expr n = te::var("n");
  const te::Tensor x = te::placeholder({n}, "X");
  const te::Tensor q = te::compute(
      {1 << 30, 1 << 26, n}, [&](const Axes& i) { return x(i[2]) + 1.0; }, "Q");
  const te::Tensor y = te::compute(
      {n}, [&](const Axes& i) { return q(0, 0, i[0]); }, "Y");
  std::vector<float> in(2, 1), out(2);
  try {
    te::build(te::create_schedule(y), {x, y},
              Target::cpu(1))({Tensor(in.data(), DType::f32, {2}), Tensor(out.data(), DType::f32, {2})});
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
    EXPECT_EQ(error.message(), "there is no memory for 576460752303423488 bytes of 'Q'");
  }
}

TEST(RefusedSizes, WhatWrapsInExtents) {
  const Expr n = te::var("n");
  const te::Tensor x = te::placeholder({n}, "X"), z = te::placeholder({n * n * n * n}, "Z");
  const std::int64_t count = 65536;
  std::vector<float> in(count, 1), out(count), none(1);
  const auto message = [&](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::size_overflow) << error.what();
      return error.message();
    }
    return "nothing";
  };
  const Tensor given(in.data(), DType::f32, {count}), made(out.data(), DType::f32, {count});
  Axes k;
  for (const char* name : {"p", "q", "r", "s"}) k.push_back(te::reduce_axis(0, n, name));
  const te::Tensor y = te::compute(
      {n}, [&](const Axes& i) { return te::sum(x(i[0]), k); }, "Y");
  te::Schedule s = te::create_schedule(y);
  s[y].fuse(k);
  EXPECT_EQ(message([&] {
              te::build(s, {x, y}, Target::cpu(1))({given, made});
            }),
            "the extent n*n*n*n of 'p.q.fused.r.fused.s.fused' in 'Y' is beyond 2^62 for these arrays");
  const te::Tensor w = te::compute(
      {n},
      [&](const Axes& i) {
        return te::apply("where", {x(i[0]) > 5, z(0), 1.0});
      },
      "W");
  EXPECT_EQ(message([&] {
              te::build(te::create_schedule(w), {x, z, w},
                        Target::cpu(1))({given, Tensor(none.data(), DType::f32, {0}), made});
            }),
            "the extent n*n*n*n of 'Z' is beyond 2^31 - 1 for these arrays");
}

// Readers that stand at the root may still be moved, in any order.
TEST(ComputeAt, TakesReadersOneAfterTheOther) {
  Fixture t;
  const te::Tensor top = te::compute(
                       {t.n}, [&](const Axes&i) { return te::max(t.f(i[0], t.k), {t.k}); }, "top"),
                   s = te::compute(
                       {t.n, t.m}, [&](const Axes&i) { return t.f(i[0], i[1]) - top(i[0]); }, "S");
  te::Schedule schedule = te::create_schedule(s);
  schedule[t.f].compute_at(schedule[s], s.op().axis()[0]);  // top, at the root, reads it
  schedule[top].compute_at(schedule[s], s.op().axis()[0]);
  EXPECT_NE(te::lower(schedule, {t.a, s}).find("allocate F[1, m] f32 local"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, Refusals, testing::ValuesIn(cases), [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace postlude
