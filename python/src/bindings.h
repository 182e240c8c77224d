// The parts of the extension module postlude._core. Each file binds one: what a user sees is Python, in ../postlude.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <postlude/error.h>

#include <cstdint>
#include <string>

namespace postlude::inline v0::python {

namespace nb = nanobind;

// A size or a count of Python: any integer. One beyond 64 bits throws where it is used, not TypeError.
struct Size {
  std::int64_t number = 0;
  bool beyond = false;
  operator std::int64_t() const;  // NOLINT(google-explicit-constructor): an integer to those who take one
};

// A str as UTF-8; half of a surrogate pair, which UTF-8 lacks, as Python escapes it.
inline std::string utf8(nb::handle text) {
  const auto bytes = nb::steal<nb::bytes>(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  return {bytes.c_str(), bytes.size()};
}

// Gives the interpreter's lock away, or takes it, for a scope. Unlike nanobind's guards they outlive the interpreter: a
// daemon thread that asks for the lock after its end is unwound by Python before 3.14, through frames that must not
// throw; it sleeps until the process ends, as Python does since.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked();

 private:
  PyThreadState* state_;
};

class Locked {
 public:
  Locked();

  // callable(*items). The interpreter may end while it runs: nothing of C++ lies between this and the callable.
  static nb::object call(PyObject* callable, const nb::list& items);

  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

void bind_errors(nb::module_& m);     // postlude::Error <-> post.Error
void bind_graph(nb::module_& m);      // dtypes, the op table, values, builders, graphs, text
void bind_functions(nb::module_& m);  // functions of the prelude and native ones in Python
void bind_numbers(nb::module_& m);    // rounding and random numbers
void bind_plan(nb::module_& m);       // targets, plans, calls
void bind_launch(nb::module_& m);     // post.matmul's short way from arrays to a result
void bind_te(nb::module_& m);         // reductions as loops

}  // namespace postlude::inline v0::python

template <>
struct nanobind::detail::type_caster<postlude::python::Size> {
  NB_TYPE_CASTER(postlude::python::Size, const_name("int"))
  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    const object whole = steal(PyNumber_Index(source.ptr()));
    if (!whole.is_valid()) {
      PyErr_Clear();
      return false;
    }
    int overflow = 0;
    value.number = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
    value.beyond = overflow != 0;
    return true;
  }
};
