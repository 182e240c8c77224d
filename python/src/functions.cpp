// Functions by name: those of the prelude, and native ones whose CPU code is Python.
#include "bindings.h"

#include "arrays.h"

#include <postlude/function.h>

#include <tuple>
#include <utility>

namespace postlude::inline v0::python {
namespace {

using Strip = void (*)(const float* const*, const float*, float*, std::int64_t);

// A callable that is never freed: graphs that use the function may outlive the interpreter's modules. What it raises
// is thrown as nb::python_error, which carries it to the caller's thread.
struct Callable {
  PyObject* callable;
  int arguments, parameters;

  double operator()(const double* x, const double* p) const {
    Locked locked;
    nb::list items;
    for (int i = 0; i < arguments; ++i) items.append(nb::float_(x[i]));
    for (int i = 0; i < parameters; ++i) items.append(nb::float_(p[i]));
    return nb::cast<double>(nb::float_(locked.call(callable, items)));
  }
  void operator()(const float* const* x, const float* p, float* out, std::int64_t n) const {  // arrays of n elements
    Locked locked;
    nb::list items;
    for (int i = 0; i < arguments; ++i) items.append(copy_to_numpy(x[i], n));
    for (int i = 0; i < parameters; ++i) items.append(nb::float_(static_cast<double>(p[i])));
    copy_from_numpy(locked.call(callable, items), out, n);
  }
};

void define_native(const std::string& function_name, nb::object callable, int arity,
                   const std::vector<std::pair<std::string, std::optional<double>>>& parameters, double ulps,
                   double absolute_error, const std::string& cuda, const std::vector<std::string>& derivatives,
                   const std::string& guard, std::uintptr_t strip) {
  NativeFunction function;
  function.name = function_name;
  function.arity = arity;
  for (const auto& [name, value] : parameters) function.parameters.push_back({name, value});
  function.ulps = ulps;
  function.absolute_error = absolute_error;
  function.cuda = cuda;
  function.derivatives = derivatives;
  function.guard = guard;
  const Callable called{callable.inc_ref().ptr(), arity, static_cast<int>(parameters.size())};
  function.reference = called;
  if (strip) function.strip = reinterpret_cast<Strip>(strip);
  else function.strip = called;
  define(std::move(function), /*replace=*/true);
}

}  // namespace

void bind_functions(nb::module_& m) {
  m.def(
      "functions",
      [] {
        std::vector<std::tuple<std::string, std::string, std::string, bool, std::vector<std::string>>> rows;
        for (const FunctionInfo& info : functions())
          rows.emplace_back(info.name, info.signature, info.doc, info.native, info.derivatives);
        return rows;
      },
      "(name, signature, doc, native, derivatives) of each function of the language.");
  m.def("define_native", &define_native);
}

}  // namespace postlude::inline v0::python
