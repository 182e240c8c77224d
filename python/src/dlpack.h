// DLPack, read as it is written down (dlpack.h, versions 0 and 1): an object's __dlpack__ is called once, and what that
// raises is told.
#pragma once

#include "bindings.h"

#include <nanobind/ndarray.h>

#include <string_view>

namespace postlude::inline v0::python {

// What __dlpack__ gave; `keeps` gives it back at its end.
struct Exported {
  nb::dlpack::dltensor tensor;
  bool read_only = false;
  nb::object keeps;
};

// Throws Error wrong_dtype, with what the object itself said, where it exports nothing that this reads.
[[nodiscard]] Exported import_dlpack(nb::handle object, std::string_view name);

}  // namespace postlude::inline v0::python
