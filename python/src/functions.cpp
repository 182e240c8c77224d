// Functions by name: those of the prelude, and native ones whose CPU code is Python.
#include "bindings.h"

#include "arrays.h"

#include <postlude/function.h>

#include <array>
#include <utility>

namespace postlude::inline v0::python {
namespace {

// A strip is a plain function pointer, so a Python callable needs a place of its own: one of these, each with a
// trampoline that knows its number. 64 are as many native functions as one process defines in Python.
constexpr std::size_t slots = 64;

struct Slot {
  PyObject* callable = nullptr;  // never freed: graphs that use the function may outlive the interpreter's modules
  int arguments = 0;
  int parameters = 0;
};
std::array<Slot, slots> slot_table;
std::size_t used_slots = 0;

// out = callable(x0, ..., p0, ...) on arrays of n elements. The first error is kept by the interpreter as unraisable
// and the elements become NaN, since a worker thread has nobody to throw to.
void run_strip(const Slot& slot, const float* const* x, const float* parameters, float* out, std::int64_t n) {
  nb::gil_scoped_acquire gil;
  try {
    nb::list arguments;
    for (int i = 0; i < slot.arguments; ++i) arguments.append(copy_to_numpy(x[i], n));
    for (int i = 0; i < slot.parameters; ++i) arguments.append(nb::float_(static_cast<double>(parameters[i])));
    copy_from_numpy(nb::handle(slot.callable)(*arguments), out, n);
  } catch (nb::python_error& error) {
    error.restore();
    PyErr_WriteUnraisable(slot.callable);
    for (std::int64_t i = 0; i < n; ++i) out[i] = std::numeric_limits<float>::quiet_NaN();
  }
}

using Strip = void (*)(const float* const*, const float*, float*, std::int64_t);

template <std::size_t... I>
constexpr std::array<Strip, slots> make_trampolines(std::index_sequence<I...>) {
  return {[](const float* const* x, const float* p, float* out, std::int64_t n) {
    run_strip(slot_table[I], x, p, out, n);
  }...};
}
constexpr std::array<Strip, slots> trampolines = make_trampolines(std::make_index_sequence<slots>());

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
  PyObject* kept = callable.inc_ref().ptr();
  const auto count = static_cast<int>(parameters.size());
  function.reference = [kept, arity, count](const double* x, const double* p) {
    nb::gil_scoped_acquire gil;
    try {
      nb::list arguments;
      for (int i = 0; i < arity; ++i) arguments.append(nb::float_(x[i]));
      for (int i = 0; i < count; ++i) arguments.append(nb::float_(p[i]));
      return nb::cast<double>(nb::float_(nb::handle(kept)(*arguments)));
    } catch (nb::python_error& error) {
      error.restore();
      PyErr_WriteUnraisable(kept);
      return std::numeric_limits<double>::quiet_NaN();
    }
  };
  if (strip) {
    function.strip = reinterpret_cast<Strip>(strip);
    define(std::move(function));
    return;
  }
  if (used_slots == slots)
    throw Error(ErrorCode::bad_function, "more than 64 native functions were defined in Python",
                "write some of them from primitives, or give a compiled strip=");
  slot_table[used_slots] = {kept, arity, count};
  function.strip = trampolines[used_slots];
  define(std::move(function));
  ++used_slots;
}

}  // namespace

void bind_functions(nb::module_& m) {
  m.def(
      "functions",
      [] {
        std::vector<std::tuple<std::string, std::string, std::string, bool>> rows;
        for (const FunctionInfo& info : functions())
          rows.emplace_back(info.name, info.signature, info.doc, info.native);
        return rows;
      },
      "(name, signature, doc, native) of each function of the language.");
  m.def("define_native", &define_native);
}

}  // namespace postlude::inline v0::python
