#include "bindings.h"

#include "arrays.h"

NB_MODULE(_core, m) {
  using namespace postlude::python;
  m.doc() = "What of Postlude is C++. Use the package postlude.";
  m.attr("version") = POSTLUDE_VERSION;
  nanobind::set_leak_warnings(false);  // plans live in caches until the interpreter ends
  load_numpy();
  bind_errors(m);
  bind_graph(m);
  bind_functions(m);
  bind_numbers(m);
  bind_plan(m);
  bind_launch(m);
  bind_te(m);
}
