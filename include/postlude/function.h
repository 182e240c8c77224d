// A user's own elementwise functions: one line of the language, or native code for each backend.
#pragma once

#include <postlude/error.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace postlude::inline v0 {

// Adds a function of one line (or more) of the language, known to every text and graph from then
// on:
//   define("def squared_relu(x): return max(x, 0) ** 2");
// Throws if the text is malformed or the name is taken by another definition.
void define(std::string_view text);

// A function with code of its own. Elements are f32. `x` has one pointer per argument.
struct NativeFunction {
  std::string name;
  int arity = 1;

  // Run-time parameters: scalars passed after the arguments, `swish(x, 1.5)`: their names and,
  // where given, defaults.
  struct Parameter {
    std::string name;
    std::optional<double> default_value;
  };
  std::vector<Parameter> parameters;

  // The definition, in double, and the largest error of the code below: ulps of the result plus an
  // absolute part.
  std::function<double(const double* x, const double* parameters)> reference;
  double ulps = 4;
  double absolute_error = 0;

  // Code for a CPU: out[i] = f(x[0][i], x[1][i], ...) for n elements, called by several threads at
  // once. `out` may be one of the arguments. What it or the reference throws ends the run and reaches
  // its caller. If unset, the reference is called.
  std::function<void(const float* const* x, const float* parameters, float* out, std::int64_t n)> strip;

  // Code for a GPU: a CUDA expression in x0, x1, ..., p0, p1, ...: "__expf(x0) * p0". If empty, a
  // CUDA target refuses and names this function.
  std::string cuda;

  // The derivative by each argument, in the language, of the same arguments and parameters: "1 -
  // tanh(x) ** 2". The function itself is not known yet, and can not be called.
  std::vector<std::string> derivatives;

  // An expression of the language in the parameters only ("p == 0"). Where it holds the function is
  // 0, and its arguments are neither read nor computed.
  std::string guard;
};

// With `replace`, another definition of this name gives way; graphs made with it keep it.
void define(NativeFunction function, bool replace = false);

// The functions known by name: the prelude's and the user's.
struct FunctionInfo {
  std::string name;
  std::string signature;  // "leaky_relu(x, slope=0.01)"
  std::string doc;
  std::vector<std::string> derivatives;  // by each argument, in the language; empty: none were given
  bool native = false;
};
[[nodiscard]] std::vector<FunctionInfo> functions();

}  // namespace postlude::inline v0
