// Every operation and every dtype on special values; every reduction on nothing, one element, NaN
// and ties.
#include "correctness/cases.h"

#include "core/convert.h"
#include "graph/ir/ops.h"

#include <gtest/gtest.h>

#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <vector>

namespace postlude {
namespace {

const double specials[] = {
    0.0,    -0.0,  std::nan(""), HUGE_VAL, -HUGE_VAL, 1e-45, -1e-45,       1.1754944e-38, 3.4028235e38, -3.4028235e38,
    1.0,    -1.0,  0.5,          -0.5,     1.5,       2.5,   -2.5,         3.0,           -3.0,         127.5,
    -128.5, 255.5, 448,          464,      465,       57344, 65504,        65520,         1e10,         -1e10,
    0.3,    -0.7,  88.5,         -88.5,    104.0,     1e-3,  2147483648.0, 9.3e18};
constexpr std::int64_t count = std::size(specials);

// X holds a special value a row, the tile `y` one a column, so every pair meets.
fuzz::Case pairs(const std::string& text) {
  return make_case(text, Stream{.x = f32}, {1, count, count, 0}, fuzz::Values::normal);
}
fuzz::Checks with_specials() {
  fuzz::Checks checks;
  checks.metamorphic = false;
  checks.prepare = [](fuzz::Tensors& tensors) {
    for (std::size_t i = 0; i < tensors.all.size(); ++i) {
      const fuzz::CaseTensor& t = tensors.all[i];
      if (t.output) continue;
      for (std::int64_t m = 0; m < t.extents[1]; ++m)
        for (std::int64_t n = 0; n < t.extents[2]; ++n)
          core::store_real(t.dtype, tensors.memory[i].data(), t.first + m * t.strides[1] + n * t.strides[2],
                           specials[t.name == "X" ? m : n]);
    }
  };
  return checks;
}

class Elementwise : public testing::TestWithParam<OpInfo> {};
TEST_P(Elementwise, OnEveryPairOfSpecialValues) {
  const OpInfo& op = GetParam();
  const std::string name(op.spelling);
  const bool word = std::isalpha(static_cast<unsigned char>(name[0])) != 0;
  std::string call;
  if (op.op == Op::cast || op.op == Op::scaled || op.rule == TypeRule::bitwise) return;  // below
  if (op.op == Op::where) call = "where(acc > y, acc, y)";
  else if (op.arity == 1) call = name + "(acc)";
  else if (op.arity == 3) call = name + "(acc, y, 1.5)";
  else call = word && op.op != Op::pow ? name + "(acc, y)" : "acc " + (op.op == Op::pow ? "**" : name) + " y";
  EXPECT_EQ(fuzz::check(pairs("def f(acc, y: tile[f32]):\n    D: f32 = " + call + " + 0 * y\n    E: f32 = " + call +
                              "\n    return D, E"),
                        with_specials()),
            "");
}
std::vector<OpInfo> elementwise_ops() {
  std::vector<OpInfo> ops;
  for (const OpInfo& op : op_table)
    if (is_elementwise(op.op)) ops.push_back(op);
  return ops;
}
INSTANTIATE_TEST_SUITE_P(All, Elementwise, testing::ValuesIn(elementwise_ops()),
                         [](const auto& info) { return std::string(info.param.id); });

TEST(Casts, ToEveryDtypeInEveryDirection) {
  for (int t = 0; t < dtype_count; ++t) {
    const std::string type(name(static_cast<DType>(t)));
    for (const std::string round : {"nearest_even", "toward_zero", "up", "down", "stochastic(7)"}) {
      if (round[0] == 's' && !is_float(static_cast<DType>(t))) continue;
      EXPECT_EQ(
          fuzz::check(pairs("def f(acc): \n    D: f32 = cast(acc, " + type + ", round=" + round + ")\n    return D"),
                      with_specials()),
          "")
          << type << ' ' << round;
    }
    EXPECT_EQ(fuzz::check(pairs("def f(acc): \n    D: " + type + " = acc\n    return D"), with_specials()), "") << type;
    EXPECT_EQ(fuzz::check(pairs("def f(acc, y: row[" + type + "]): \n    D: f32 = y + 0 * acc\n    E: " + type +
                                " = y\n    return D, E"),
                          with_specials()),
              "")
        << type;
  }
}

TEST(Scaled, DoesNotReadWhereTheFactorIsZero) {
  EXPECT_EQ(fuzz::check(pairs("def f(acc, y: tile[f32], s: scalar):\n    D: f32 = scaled(s - s, y)\n    return D"),
                        with_specials()),
            "");
  EXPECT_EQ(fuzz::check(pairs("def f(acc, y: tile[f32], s: scalar):\n    D: f32 = acc + scaled(s, y)\n    return D"),
                        with_specials()),
            "");
}

TEST(Prelude, OnSpecialValues) {
  for (const std::string function :
       {"relu", "leaky_relu", "gelu", "gelu_tanh", "gelu_erf", "silu", "sigmoid", "softplus", "mish", "elu",
        "hardsigmoid", "hardswish", "quick_gelu", "selu", "relu6", "hardtanh", "logsigmoid"})
    EXPECT_EQ(fuzz::check(pairs("def f(acc):\n    D: f32 = " + function + "(acc)\n    return D"), with_specials()), "")
        << function;
}

// Far below 0 an ulp of the exponential's argument is a hundred of the result. The first arguments
// are where other forms passed the bound.
TEST(Prelude, KeepsItsBoundWhereArgumentsAreLarge) {
  std::vector<float> x = {-8.09763622f, -4.43026733f, -4.72281647f, -4.72830677f, -26.9840088f, -71.4246292f, -1e30f};
  for (std::uint32_t bits = 0xbf000000; bits < 0xc2c80000; bits += 1009) x.push_back(std::bit_cast<float>(bits));
  fuzz::Checks checks;
  checks.metamorphic = false;
  checks.prepare = [&x](fuzz::Tensors& tensors) { std::memcpy(tensors.memory[0].data(), x.data(), 4 * x.size()); };
  for (const std::string function : {"gelu", "dgelu", "quick_gelu", "silu", "sigmoid"}) {
    EXPECT_EQ(fuzz::check(make_case("def f(acc):\n    D: f32 = " + function + "(acc)\n    return D", Stream{.x = f32},
                                    {1, 1, static_cast<std::int64_t>(x.size()), 0}, fuzz::Values::normal),
                          checks),
              "")
        << function;
  }
}

class Reductions : public testing::TestWithParam<std::string> {};

TEST_P(Reductions, OfNothingOneNanAndTies) {
  for (const std::string axis : {"axis=0", "axis=1", "axis=(0, 1)", "axis=1, group=3", "axis=0, group=4"}) {
    const std::string text = "def f(acc):\n    s: " + std::string(GetParam().starts_with("arg") ? "i64" : "f32") +
                             " = " + GetParam() + "(acc, " + axis + ")\n    return s";
    for (const std::int64_t m : {0, 1, 3, 70}) {
      for (const std::int64_t n : {0, 1, 5, 200}) {
        // Few distinct whole numbers: many ties.
        EXPECT_EQ(fuzz::check(make_case(text, Stream{.x = f32}, {1, m, n, 0}, fuzz::Values::integers)), "")
            << text << m << ' ' << n;
        EXPECT_EQ(fuzz::check(make_case(text, Stream{.x = f32}, {1, m, n, 0}, fuzz::Values::special)), "")
            << text << m << ' ' << n;
        EXPECT_EQ(fuzz::check(make_case(text, Stream{.x = s8}, {1, m, n, 0}, fuzz::Values::special)), "")
            << text << m << ' ' << n;
      }
    }
    fuzz::Checks checks = with_specials();
    EXPECT_EQ(fuzz::check(make_case(text, Stream{.x = f32}, {1, count, count, 0}, fuzz::Values::normal), checks), "")
        << text;
    // All elements alike: minus infinity, NaN, -0.
    for (const double x : {-HUGE_VAL, HUGE_VAL, std::nan(""), -0.0}) {
      checks.prepare = [x](fuzz::Tensors& tensors) {
        for (std::int64_t i = 0; i < 20 * 30; ++i) core::store_real(f32, tensors.memory[0].data(), i, x);
      };
      EXPECT_EQ(fuzz::check(make_case(text, Stream{.x = f32}, {1, 20, 30, 0}, fuzz::Values::normal), checks), "")
          << text << x;
    }
  }
}

TEST_P(Reductions, AcrossTheBatch) {
  const std::string type = GetParam().starts_with("arg") ? "i64" : "f32";
  for (const std::string axis : {"axis=0", "axis=1"}) {
    const std::string text =
        "def f(acc):\n    s: " + type + " = " + GetParam() + "(acc, " + axis + ", batch=True)\n    return s";
    EXPECT_EQ(fuzz::check(make_case(text, Gemm{.batched = true}, {3, 21, 34, 9}, fuzz::Values::normal)), "") << text;
  }
}

std::vector<std::string> reductions() {
  std::vector<std::string> names;
  for (const ReductionInfo& r : reduction_table)
    if (r.op != ReduceOp::custom) names.emplace_back(r.spelling);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, Reductions, testing::ValuesIn(reductions()), [](const auto& info) { return info.param; });

TEST(GeneralReduction, OfPairs) {
  const std::string text =
      "def f(acc, y: row[f32]):\n"
      "    s, t = reduce((acc, acc * y), combine=lambda a1, a2, b1, b2: (max(a1, b1), a2 + b2), identity=(-inf, 0), "
      "axis=1)\n"
      "    D: f32 = s\n    E: f32 = t\n    return D, E";
  for (const std::int64_t n : {0, 1, 5, 200})
    EXPECT_EQ(fuzz::check(make_case(text, Gemm{}, {1, 9, n, 12}, fuzz::Values::normal)), "") << n;
}

}  // namespace
}  // namespace postlude
