#include "helpers.h"

#include "lower/check.h"
#include "lower/expand.h"

#include <postlude/function.h>

#include <gtest/gtest.h>

#include <algorithm>

namespace postlude::inline v0::lower {
namespace {

bool none(const Instruction&) { return false; }

// The code of a Program with one phase.
std::string expanded(std::string_view text, const HasNative& native = none) {
  Program p = lowered(text);
  for (Phase& phase : p.phases) phase = expand_calls(phase, native);
  check(p, false);
  return p.print();
}

TEST(Expand, CallsBecomeTheirBodies) {
  const std::string text = expanded("def f(acc):\n  D = relu(acc) + leaky_relu(acc, 0.5)\n  return D");
  EXPECT_TRUE(contains(text, "max v0")) << text;
  EXPECT_TRUE(contains(text, "where")) << text;
  EXPECT_FALSE(contains(text, "relu")) << text;
}

TEST(Expand, CallsInsideBodiesAreAskedFor) {
  const auto sigmoid = [](const Instruction& call) { return call.function->name == "sigmoid"; };
  const std::string text = expanded("def f(acc):\n  return silu(acc)", sigmoid);
  EXPECT_TRUE(contains(text, "sigmoid v0")) << text;
  EXPECT_FALSE(contains(text, "silu") || contains(text, "exp")) << text;
}

// Stochastic rounding depends on the element, which a backend's function does not know.
TEST(Expand, WhatRoundsStochasticallyIsNoCall) {
  const std::string text =
      lowered(
          "def coarse(x): return cast(x, bf16, round=stochastic(3))\ndef twice(x): return coarse(x) + x\n"
          "def f(acc):\n  D: f32 = twice(acc) + sigmoid(acc)\n  return D")
          .print();
  EXPECT_TRUE(contains(text, "stochastic")) << text;
  EXPECT_TRUE(contains(text, "sigmoid")) << text;
  EXPECT_FALSE(contains(text, "coarse") || contains(text, "twice")) << text;
}

TEST(Expand, MultiplyAddsWithinABody) {
  EXPECT_TRUE(contains(expanded("def f(acc, t: tile):\n  return lerp(acc, t, 0.25)"), "fma"));
}

TEST(Expand, KeepsWhatStoresAndReductionsMean) {
  const std::string text = expanded("def f(acc):\n  x = sigmoid(acc)\n  s = sum(x, axis=1)\n  D = x\n  return s, D");
  EXPECT_TRUE(contains(text, "s0 = sum over {n}: v")) << text;
}

// No function has a guard and a body today, and no backend leaves such a call to its body.
TEST(Expand, AGuardedCallIsZeroWhereItIsSwitchedOff) {
  Program p = lowered("def f(acc, s: scalar):\n  x = where(s > 0, acc, 1.0)\n  D: f32 = sigmoid(x) * 2\n  return D");
  std::vector<Instruction>& before = p.phases[0].code;
  const auto uniform = std::find_if(before.begin(), before.end(),
                                    [](const Instruction& x) { return x.type == DType::boolean && x.axes.empty(); });
  const auto call = std::find_if(uniform, before.end(), [](const Instruction& x) { return x.op == Op::call; });
  ASSERT_NE(call, before.end());
  call->guard = static_cast<ValueId>(uniform - before.begin());
  call->node = 77;
  const Axes axes = call->axes;
  p.phases[0] = expand_calls(p.phases[0], none);
  check(p, false);

  const std::vector<Instruction>& code = p.phases[0].code;
  const auto guarded = std::find_if(code.begin(), code.end(), [](const Instruction& x) { return x.guard >= 0; });
  ASSERT_NE(guarded, code.end()) << p.print();
  const auto at = static_cast<ValueId>(guarded - code.begin());
  EXPECT_EQ(guarded->op, Op::where);
  EXPECT_EQ(guarded->type, DType::f32);
  EXPECT_EQ(guarded->axes, axes);
  EXPECT_EQ(guarded->node, 77);
  ASSERT_EQ(guarded->args.size(), 3u);
  EXPECT_EQ(guarded->args[0], guarded->guard);
  EXPECT_EQ(code[guarded->guard].type, DType::boolean);
  EXPECT_EQ(code[guarded->args[1]].op, Op::constant);
  EXPECT_EQ(code[guarded->args[1]].literal.value(), 0);
  EXPECT_EQ(guarded->args[2], at - 2);  // the body's last, before the 0
  const std::vector<ValueId>& product = code.back().args;
  EXPECT_NE(std::find(product.begin(), product.end(), at), product.end()) << p.print();
}

// The first instruction may be what switches it off.
TEST(Expand, AGuardMayBeTheFirstInstruction) {
  Program p = lowered("def f(acc, s: scalar[bool]):\n  x = where(s, acc, 1.0)\n  D: f32 = sigmoid(x) * 2\n  return D");
  std::vector<Instruction>& before = p.phases[0].code;
  ASSERT_TRUE(before[0].type == DType::boolean && before[0].axes.empty()) << p.print();
  std::find_if(before.begin(), before.end(), [](const Instruction& x) { return x.op == Op::call; })->guard = 0;
  p.phases[0] = expand_calls(p.phases[0], none);
  check(p, false);
  const std::vector<Instruction>& code = p.phases[0].code;
  EXPECT_TRUE(std::any_of(code.begin(), code.end(), [](const Instruction& x) {
    return x.op == Op::where && x.guard == 0 && x.args[0] == 0;
  })) << p.print();
}

TEST(Expand, IntegersStayIntegers) {
  Program p = lowered("def f(acc):\n  D: i32 = relu(acc)\n  return D", Gemm{.a = DType::s8, .b = DType::s8});
  p.phases[0] = expand_calls(p.phases[0], none);
  check(p, false);
  EXPECT_TRUE(contains(p.print(), "i32 tile = max v0")) << p.print();
}

TEST(Expand, DeepAndDoublingFunctions) {
  define("def lower_test_double_0(x): return x + 1");
  std::string last = "lower_test_double_0";
  for (int i = 1; i <= 40; ++i) {
    const std::string name = "lower_test_double_" + std::to_string(i);
    define("def " + name + "(x): return " + last + "(x) * " + last + "(x + " + std::to_string(i) + ")");
    last = name;
  }
  const Program p = lowered("def f(acc):\n  return " + last + "(acc)");
  try {
    (void)expand_calls(p.phases[0], none);
    FAIL() << "2^40 operations";
  } catch (const Error& e) { EXPECT_EQ(e.code(), ErrorCode::unsupported); }
}

TEST(Expand, NativeFunctionsNeedABackend) {
  NativeFunction f;
  f.name = "lower_test_native";
  f.parameters = {{"p", 2.0}};
  f.reference = [](const double* x, const double* p) { return x[0] * p[0]; };
  f.guard = "p == 0";
  define(f);
  const Program p = lowered("def f(acc, k: scalar):\n  return lower_test_native(acc, k)");
  EXPECT_TRUE(contains(p.print(), "unless")) << p.print();
  EXPECT_THROW((void)expand_calls(p.phases[0], none), Error);
}

}  // namespace
}  // namespace postlude::inline v0::lower
