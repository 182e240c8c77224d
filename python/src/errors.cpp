#include "bindings.h"

#include <cxxabi.h>
#include <chrono>
#include <thread>
#include <tuple>

namespace postlude::inline v0::python {
namespace {

// Makes the Python exception of an Error: post.errors.from_core. Never freed: exceptions outlive the module at exit.
PyObject* factory = nullptr;

Error make(int number, std::string message, std::string hint, std::string file, int line, int column, int length,
           std::string source_line) {
  return Error(static_cast<ErrorCode>(number), std::move(message), std::move(hint),
               {std::move(file), {line, column, length}, std::move(source_line)});
}

// As Python has it: a text or a path that is no UTF-8 is shown with what could be read of it.
nb::object shown(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const Location& where = error.where();
    if (!factory) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
      return;
    }
    try {
      const nb::object exception = nb::handle(factory)(static_cast<int>(error.code()), shown(error.message()),
                                                       shown(error.hint()), shown(where.file), where.span.line,
                                                       where.span.column, where.span.length, shown(where.source_line));
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    } catch (nb::python_error& inner) { inner.restore(); }
  }
}

template <class F>
auto or_sleep(F take_lock) {
  try {
    return take_lock();
  } catch (abi::__forced_unwind&) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

}  // namespace

Unlocked::~Unlocked() {
  or_sleep([this] { PyEval_RestoreThread(state_); });
}
Locked::Locked() : state_(or_sleep([] { return PyGILState_Ensure(); })) {}
Size::operator std::int64_t() const {
  if (beyond) throw Error(ErrorCode::usage, "a size is beyond 64 bits");
  return number;
}

nb::object Locked::call(PyObject* callable, const nb::list& items) {
  const auto arguments = nb::steal(PyList_AsTuple(items.ptr()));
  if (!arguments.is_valid()) throw nb::python_error();
  PyObject* result = or_sleep([&] { return PyObject_CallObject(callable, arguments.ptr()); });
  if (!result) throw nb::python_error();
  return nb::steal(result);
}

void bind_errors(nb::module_& m) {
  nb::register_exception_translator(translate);
  m.def("set_error_factory", [](nb::object callable) { factory = callable.release().ptr(); });
  m.def("error_table", [] {
    std::vector<std::tuple<int, std::string, std::string>> rows;
    for (const ErrorInfo& info : error_table())
      rows.emplace_back(static_cast<int>(info.code), std::string(info.name), std::string(info.title));
    return rows;
  });
  m.def("render_error", [](int number, std::string message, std::string hint, std::string file, int line, int column,
                           int length, std::string source_line) {
    return std::string(
        make(number, std::move(message), std::move(hint), std::move(file), line, column, length, std::move(source_line))
            .what());
  });
  m.def("quoted", [](const std::string& text) { return postlude::quoted(text); });
  m.def("closest",
        [](const std::string& name, const std::vector<std::string>& candidates) { return closest(name, candidates); });
}

}  // namespace postlude::inline v0::python
