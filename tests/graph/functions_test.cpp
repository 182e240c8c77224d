// Functions known by name: the prelude, and what a user defines.
#include "graph/ir/functions.h"
#include "graph/ir/equal.h"
#include "graph/support.h"
#include "graph/text/printer.h"

#include <postlude/function.h>
#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

namespace postlude {
namespace {

const FunctionInfo* find(const std::vector<FunctionInfo>& all, std::string_view name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const FunctionInfo& info) { return info.name == name; });
  return found == all.end() ? nullptr : &*found;
}

TEST(Functions, ThePreludeIsKnownWithSignaturesAndDocs) {
  const std::vector<FunctionInfo> all = functions();
  for (const char* name : {"relu",     "leaky_relu", "gelu",       "gelu_tanh", "gelu_erf",    "silu",      "sigmoid",
                           "softplus", "mish",       "elu",        "selu",      "hardsigmoid", "hardswish", "hardtanh",
                           "relu6",    "clamp",      "sign",       "isnan",     "isinf",       "mod",       "logaddexp",
                           "lerp",     "softsign",   "tanhshrink", "dgelu",     "dgelu_tanh",  "dsilu",     "drelu"}) {
    ASSERT_NE(find(all, name), nullptr) << name;
    EXPECT_NE(find(all, name)->doc, "") << name;
    EXPECT_TRUE(find_function(name)->prelude);
    EXPECT_EQ(find_function(name)->body.results.size(), 1u);
  }
  EXPECT_EQ(find(all, "leaky_relu")->signature, "leaky_relu(x, slope=0.01)");
  EXPECT_EQ(find(all, "clamp")->signature, "clamp(x, low, high)");
}

// A small evaluator of bodies in double, to see that the definitions are what their names say.
double evaluate(const Function& function, std::vector<double> args) {
  for (std::size_t i = args.size(); i < function.parameters.size(); ++i)
    args.push_back(function.parameters[i].default_value->value());
  std::vector<double> values;
  for (const Node& node : function.body.nodes) {
    std::vector<double> x;
    for (const NodeId arg : node.args) x.push_back(values[static_cast<std::size_t>(arg)]);
    const auto nan_or = [&](double value) { return std::isnan(x[0]) || std::isnan(x[1]) ? std::nan("") : value; };
    switch (node.op) {
      case Op::constant: values.push_back(node.literal.value()); break;
      case Op::parameter: values.push_back(args[static_cast<std::size_t>(node.index)]); break;
      case Op::add: values.push_back(x[0] + x[1]); break;
      case Op::sub: values.push_back(x[0] - x[1]); break;
      case Op::mul: values.push_back(x[0] * x[1]); break;
      case Op::div: values.push_back(x[0] / x[1]); break;
      case Op::floordiv: values.push_back(std::floor(x[0] / x[1])); break;
      case Op::neg: values.push_back(-x[0]); break;
      case Op::abs: values.push_back(std::abs(x[0])); break;
      case Op::min: values.push_back(nan_or(std::min(x[0], x[1]))); break;
      case Op::max: values.push_back(nan_or(std::max(x[0], x[1]))); break;
      case Op::exp: values.push_back(std::exp(x[0])); break;
      case Op::expm1: values.push_back(std::expm1(x[0])); break;
      case Op::log1p: values.push_back(std::log1p(x[0])); break;
      case Op::tanh: values.push_back(std::tanh(x[0])); break;
      case Op::erf: values.push_back(std::erf(x[0])); break;
      case Op::eq: values.push_back(x[0] == x[1]); break;
      case Op::ne: values.push_back(x[0] != x[1]); break;
      case Op::lt: values.push_back(x[0] < x[1]); break;
      case Op::le: values.push_back(x[0] <= x[1]); break;
      case Op::gt: values.push_back(x[0] > x[1]); break;
      case Op::ge: values.push_back(x[0] >= x[1]); break;
      case Op::where: values.push_back(x[0] != 0 ? x[1] : x[2]); break;
      case Op::call: values.push_back(evaluate(*node.function, x)); break;
      default:
        ADD_FAILURE() << "the prelude uses " << info(node.op).id << ", which this test does not know";
        values.push_back(0);
    }
  }
  return values[static_cast<std::size_t>(function.body.results[0])];
}

double prelude(std::string_view name, std::vector<double> args) {
  return evaluate(*find_function(name), std::move(args));
}

TEST(Functions, ThePreludeComputesWhatItsNamesSay) {
  const double pi = std::acos(-1.0);
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto gelu = [&](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x))); };
  const auto gelu_erf = [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); };
  const auto slope = [](const auto& f, double x) { return (f(x + 1e-5) - f(x - 1e-5)) / 2e-5; };
  const auto silu = [&](double x) { return x * sigmoid(x); };
  for (const double x : {-12.0, -3.5, -1.0, -0.25, -1e-3, 0.0, 1e-3, 0.3, 1.0, 2.9, 7.0, 12.0}) {
    SCOPED_TRACE(x);
    const double near = 1e-12 * (1 + std::abs(x));
    EXPECT_NEAR(prelude("relu", {x}), x > 0 ? x : 0, near);
    EXPECT_NEAR(prelude("leaky_relu", {x}), x > 0 ? x : 0.01 * x, near);
    EXPECT_NEAR(prelude("sigmoid", {x}), sigmoid(x), near);
    EXPECT_NEAR(prelude("silu", {x}), silu(x), near);
    EXPECT_NEAR(prelude("gelu", {x}), gelu(x), near);
    EXPECT_NEAR(prelude("gelu_erf", {x}), gelu_erf(x), near);
    EXPECT_NEAR(prelude("quick_gelu", {x}), x * sigmoid(1.702 * x), near);
    EXPECT_NEAR(prelude("softplus", {x}), std::log1p(std::exp(x)), near);
    EXPECT_NEAR(prelude("logsigmoid", {x}), std::log(sigmoid(x)), near);
    EXPECT_NEAR(prelude("mish", {x}), x * std::tanh(std::log1p(std::exp(x))), near);
    EXPECT_NEAR(prelude("elu", {x}), x > 0 ? x : std::exp(x) - 1, near);
    EXPECT_NEAR(prelude("selu", {x}), 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * (std::exp(x) - 1)), near);
    EXPECT_NEAR(prelude("hardsigmoid", {x}), std::clamp((x + 3) / 6, 0.0, 1.0), near);
    EXPECT_NEAR(prelude("hardswish", {x}), x * std::clamp((x + 3) / 6, 0.0, 1.0), near);
    EXPECT_NEAR(prelude("hardtanh", {x}), std::clamp(x, -1.0, 1.0), near);
    EXPECT_NEAR(prelude("relu6", {x}), std::clamp(x, 0.0, 6.0), near);
    EXPECT_NEAR(prelude("softsign", {x}), x / (1 + std::abs(x)), near);
    EXPECT_NEAR(prelude("tanhshrink", {x}), x - std::tanh(x), near);
    EXPECT_EQ(prelude("sign", {x}), (x > 0) - (x < 0));
    EXPECT_NEAR(prelude("mod", {x, 3}), x - std::floor(x / 3) * 3, near);
    EXPECT_NEAR(prelude("lerp", {1, 5, x}), 1 + 4 * x, near);
    EXPECT_NEAR(prelude("logaddexp", {x, 0.5}), std::log(std::exp(x) + std::exp(0.5)), near);
    EXPECT_NEAR(prelude("drelu", {x}), x > 0, near);
    EXPECT_NEAR(prelude("dsigmoid", {x}), slope(sigmoid, x), 1e-8);
    EXPECT_NEAR(prelude("dtanh", {x}), slope([](double y) { return std::tanh(y); }, x), 1e-8);
    EXPECT_NEAR(prelude("dsilu", {x}), slope(silu, x), 1e-8);
    EXPECT_NEAR(prelude("dgelu", {x}), slope(gelu, x), 1e-8);
    EXPECT_NEAR(prelude("dgelu_erf", {x}), slope(gelu_erf, x), 1e-8);
  }
}

TEST(Functions, ThePreludeMakesNoNaNOfFiniteArgumentsAndKeepsNaN) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const FunctionInfo& info : functions()) {
    const auto function = find_function(info.name);
    if (!function->prelude || info.name == "mod") continue;  // mod by 0 is NaN
    const std::size_t arguments = function->parameters.size();
    // 1e308 stands for f32's largest: the squares and cubes overflow just so.
    for (const double x : {1e308, -1e308, 1e160, -1e160, 1e20, -1e20, 700.0, -700.0, 1e-320, -0.0})
      EXPECT_FALSE(std::isnan(evaluate(*function, std::vector<double>(arguments, x)))) << info.name << '(' << x << ')';
    if (info.name.starts_with("is")) continue;
    std::vector<double> args(arguments, 1.0);
    args[0] = nan;
    EXPECT_TRUE(std::isnan(evaluate(*function, args))) << info.name;
  }
  EXPECT_EQ(prelude("isnan", {nan}), 1);
  EXPECT_EQ(prelude("isinf", {-inf}), 1);
  EXPECT_EQ(prelude("isfinite", {inf}), 0);
  EXPECT_EQ(prelude("sigmoid", {-inf}), 0);
  EXPECT_EQ(prelude("sigmoid", {inf}), 1);
  EXPECT_EQ(prelude("softplus", {inf}), inf);
  EXPECT_EQ(prelude("logaddexp", {-inf, -inf}), -inf);
  EXPECT_EQ(prelude("logaddexp", {-inf, 2}), 2);
  EXPECT_TRUE(std::signbit(prelude("sign", {-0.0})));
}

TEST(Functions, OneLineOfTheLanguageAddsAFunction) {
  define("def squared_relu(x): return max(x, 0) ** 2");
  define("def squared_relu(x):\n    'the same again'\n    y = max(x, 0)\n    return y ** 2\n");  // the same definition
                                                                                                 // is no error
  EXPECT_EQ(code_of([] { define("def squared_relu(x): return max(x, 0) ** 3"); }), ErrorCode::duplicate_name);
  const Graph graph = parse("def e(acc): return squared_relu(acc)");
  EXPECT_EQ(graph.print(),
            "def squared_relu(x):\n    return max(x, 0) ** 2\n\ndef e(acc):\n    return squared_relu(acc)\n");
  EXPECT_TRUE(same(graph.data(), parse(graph.print()).data()));
  GraphBuilder g("e");
  g.output("D", call("squared_relu", {{g.accumulator()}}));
  EXPECT_TRUE(same(graph.data(), g.finish().data()));
  ASSERT_NE(find(functions(), "squared_relu"), nullptr);
  EXPECT_FALSE(find(functions(), "squared_relu")->native);
}

TEST(Functions, ADefinitionMayHoldSeveralThatCallEachOther) {
  define("K = 2\ndef outer_of_two(x): return inner_of_two(x) + 1\ndef inner_of_two(x): return x * K\n");
  EXPECT_EQ(parse("def e(acc): return outer_of_two(acc)").print(),
            "def inner_of_two(x):\n    return x * 2\n\ndef outer_of_two(x):\n    return inner_of_two(x) + 1\n\ndef "
            "e(acc):\n    return outer_of_two(acc)\n");
}

constexpr const char* with_derivatives =
    "def slope_of(x): return 2 * x\n\n"
    "@post.function(derivative=('post.gelu(y) * slope_of(x) - -(x + y) * k', 'x - (y - k)'))\n"
    "def with_slopes(x, y, k=2.0): return x * x * y * k\n\n";

TEST(Functions, DerivativesAreKept) {
  const Graph graph = parse(std::string(with_derivatives) + "def e(acc, b: tile): return with_slopes(acc, b)");
  const auto& function = graph.data().nodes.back().function;
  ASSERT_NE(function, nullptr);
  ASSERT_EQ(function->derivatives.size(), 2u);
  EXPECT_EQ(function->derivatives[0].parameters, 3);
  EXPECT_EQ(print_derivatives(*function),
            (std::vector<std::string>{"gelu(y) * slope_of(x) - -(x + y) * k", "x - (y - k)"}));
  // The text has them, with what only they call, and reads back to the same graph.
  EXPECT_EQ(graph.print(),
            "def slope_of(x):\n    return 2 * x\n\n"
            "@function(derivative=(\"gelu(y) * slope_of(x) - -(x + y) * k\", \"x - (y - k)\"))\n"
            "def with_slopes(x, y, k=2.0):\n    return x * x * y * k\n\n"
            "def e(acc, b: tile):\n    return with_slopes(acc, b)\n");
  EXPECT_TRUE(same(graph.data(), parse(graph.print()).data()));
  const std::string other = "def slope_of(x): return 3 * x\n" + graph.print().substr(graph.print().find("@function"));
  EXPECT_FALSE(same(graph.data(), parse(other).data()));
  EXPECT_FALSE(same(graph.data(), parse(graph.print().substr(graph.print().find("def with_slopes"))).data()));

  // define() and the builder keep them too.
  define(with_derivatives);
  EXPECT_EQ(find(functions(), "with_slopes")->derivatives, print_derivatives(*function));
  GraphBuilder g("e");
  const Value b = g.tile("b");
  g.output("D", call("with_slopes", {{g.accumulator(), b}}));
  EXPECT_TRUE(same(graph.data(), g.finish().data()));
}

TEST(Functions, DerivativesThatMeanNothingAreRefused) {
  const auto refused = [](const std::string& text) { return code_of([&] { (void)parse(text); }); };
  const std::string use = "\ndef e(acc): return f(acc)";
  EXPECT_EQ(refused("@function(derivative=2)\ndef f(x): return x" + use), ErrorCode::bad_function);
  EXPECT_EQ(refused("@function(derivative=('1', '2'))\ndef f(x): return x" + use), ErrorCode::bad_function);
  EXPECT_EQ(refused("@function(derivative='1')\ndef f(x, y): return x * y" + use), ErrorCode::bad_function);
  EXPECT_EQ(refused("@function(derivative='1 +')\ndef f(x): return x" + use), ErrorCode::syntax);
  EXPECT_EQ(refused("@function(derivative='y')\ndef f(x): return x" + use), ErrorCode::undefined_name);
  EXPECT_EQ(refused("@function(derivative='f(x)')\ndef f(x): return exp(x)" + use), ErrorCode::recursion);
  EXPECT_EQ(refused("@function(derivative='1')\ndef f(x): return sum(x, axis=1)" + use), ErrorCode::bad_function);
  EXPECT_EQ(refused("def g(x): return sum(x, axis=1)\n@function(derivative='g(x)')\ndef f(x): return x" + use),
            ErrorCode::bad_function);
  EXPECT_EQ(refused("@function(derivative='1')\ndef e(acc): return acc"), ErrorCode::bad_function);
  EXPECT_EQ(refused("def e(acc):\n    @function(derivative='1')\n    def f(x): return x\n    return f(acc)"),
            ErrorCode::bad_function);
  // What else a decorator says is Python's.
  (void)parse("@function(cuda='x0', strip=f(1, [2]), derivative='1', ulps=4)\ndef f(x): return x" + use);
  (void)parse("@other.function\n@other(derivative=2)\ndef f(x): return x" + use);
}

TEST(Functions, MalformedDefinitionsAreRefused) {
  EXPECT_EQ(code_of([] { define("def f(x): return x +"); }), ErrorCode::syntax);
  EXPECT_EQ(code_of([] { define(""); }), ErrorCode::bad_function);
  EXPECT_EQ(code_of([] { define("def f_sum(x): return sum(x, axis=1)"); }), ErrorCode::bad_function);
  EXPECT_EQ(code_of([] { define("def f_two(x): return x, x"); }), ErrorCode::bad_function);
  EXPECT_EQ(code_of([] { define("def f_none(x): y = x"); }), ErrorCode::bad_function);
  EXPECT_EQ(code_of([] { define("def f_self(x): return f_self(x)"); }), ErrorCode::recursion);
  EXPECT_EQ(code_of([] { define("def f_undefined(x): return x + y"); }), ErrorCode::undefined_name);
  EXPECT_EQ(code_of([] { define("def gelu(x): return x"); }), ErrorCode::duplicate_name);
  EXPECT_EQ(code_of([] { define("def exp(x): return x"); }), ErrorCode::duplicate_name);
  EXPECT_EQ(code_of([] { define("def argmax(x): return x"); }), ErrorCode::duplicate_name);
}

NativeFunction swish() {
  NativeFunction native;
  native.name = "swish_beta";
  native.parameters = {{"beta", 1.0}};
  native.reference = [](const double* x, const double* p) { return x[0] / (1 + std::exp(-p[0] * x[0])); };
  native.cuda = "x0 / (1 + __expf(-p0 * x0))";
  native.derivatives = {"sigmoid(beta * x) * (1 + beta * x * (1 - sigmoid(beta * x)))"};
  native.guard = "beta == 0";
  return native;
}

TEST(Functions, ANativeFunctionIsKnownByNameWithItsParameters) {
  define(swish());
  const auto function = find_function("swish_beta");
  ASSERT_NE(function, nullptr);
  EXPECT_EQ(signature(*function), "swish_beta(x, beta=1.0)");
  EXPECT_TRUE(function->native != nullptr);
  EXPECT_TRUE(function->body.nodes.empty());
  ASSERT_NE(function->guard, nullptr);
  EXPECT_EQ(function->guard->parameters, 2);
  ASSERT_EQ(function->derivatives.size(), 1u);
  EXPECT_EQ(function->derivatives[0].parameters, 2);
  EXPECT_EQ(find(functions(), "swish_beta")->derivatives,
            std::vector<std::string>{"sigmoid(beta * x) * (1 + beta * x * (1 - sigmoid(beta * x)))"});
  EXPECT_TRUE(find(functions(), "swish_beta")->native);
  const Graph graph = parse("def e(acc, b: scalar): return swish_beta(acc) + swish_beta(acc, beta=b)");
  EXPECT_EQ(graph.print(), "def e(acc, b: scalar):\n    return swish_beta(acc) + swish_beta(acc, b)\n");
  EXPECT_TRUE(same(graph.data(), parse(graph.print()).data()));
}

TEST(Functions, MalformedNativeFunctionsAreRefused) {
  const auto refused = [](const auto& change) {
    NativeFunction native = swish();
    native.name = "never";
    change(native);
    return code_of([&] { define(native); });
  };
  EXPECT_EQ(refused([](NativeFunction& n) { n.name = "no name"; }), ErrorCode::bad_name);
  EXPECT_EQ(refused([](NativeFunction& n) { n.name = "gelu"; }), ErrorCode::duplicate_name);
  EXPECT_EQ(refused([](NativeFunction& n) { n.arity = 0; }), ErrorCode::bad_function);
  EXPECT_EQ(refused([](NativeFunction& n) { n.arity = 1'000'000'000; }), ErrorCode::bad_function);
  EXPECT_EQ(refused([](NativeFunction& n) { n.reference = nullptr; }), ErrorCode::bad_function);
  EXPECT_EQ(refused([](NativeFunction& n) { n.ulps = -1; }), ErrorCode::bad_function);
  EXPECT_EQ(refused([](NativeFunction& n) { n.parameters[0].name = "x"; }), ErrorCode::bad_function);
  EXPECT_EQ(refused([](NativeFunction& n) { n.derivatives = {"1", "2"}; }), ErrorCode::bad_function);
  EXPECT_EQ(refused([](NativeFunction& n) { n.derivatives = {"1 +"}; }), ErrorCode::syntax);
  EXPECT_EQ(refused([](NativeFunction& n) { n.derivatives = {"y"}; }), ErrorCode::undefined_name);
  EXPECT_EQ(refused([](NativeFunction& n) { n.guard = "x == 0"; }),
            ErrorCode::undefined_name);  // of the parameters only
  EXPECT_EQ(find_function("never"), nullptr);
}

TEST(Functions, ManyThreadsDefineAndLookUp) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) {
        const std::string name = "threaded_" + std::to_string(i);
        define("def " + name + "(x): return x * " + std::to_string(i));
        EXPECT_NE(find_function(name), nullptr);
        EXPECT_EQ(parse("def e(acc): return " + name + "(gelu(acc))").data().outputs.size(), 1u);
        if (t == 0) (void)functions();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace postlude
