#include "dlpack.h"

#include <cstdint>
#include <string>

namespace postlude::inline v0::python {
namespace {

constexpr std::uint32_t version = 1;  // the major one: another has another layout
constexpr std::uint64_t read_only_flag = 1;

struct Managed {
  nb::dlpack::dltensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

struct Versioned {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned*);
  std::uint64_t flags;
  nb::dlpack::dltensor tensor;
};

[[noreturn]] void refuse(std::string_view name, const std::string& why) {
  throw Error(ErrorCode::wrong_dtype, postlude::quoted(name) + " cannot be read through DLPack: " + why,
              "Convert it to numpy, torch, cupy or jax.");
}

nb::object capsule_of(nb::handle object, std::string_view name) {
  try {
    const nb::object method = object.attr("__dlpack__");
    try {
      return method(nb::arg("max_version") = nb::make_tuple(version, 0));
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;
    }
    return method();  // one older than versions
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;  // KeyboardInterrupt is not the object's
    refuse(name, utf8(error.type().attr("__name__")) + ": " + utf8(nb::str(error.value())));
  }
}

// Takes what is in the capsule, which nobody else may from now on.
template <class T>
Exported taken(const nb::object& capsule, T* managed, const char* used) {
  PyCapsule_SetDestructor(capsule.ptr(), nullptr);
  PyCapsule_SetName(capsule.ptr(), used);
  return {managed->tensor, false, nb::capsule(managed, [](void* p) noexcept {
            if (auto* const given = static_cast<T*>(p); given->deleter) given->deleter(given);
          })};
}

}  // namespace

Exported import_dlpack(nb::handle object, std::string_view name) {
  const nb::object capsule = capsule_of(object, name);
  Exported result;
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    auto* const managed = static_cast<Versioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->major != version) refuse(name, "it is of version " + std::to_string(managed->major));
    result = taken(capsule, managed, "used_dltensor_versioned");
    result.read_only = (managed->flags & read_only_flag) != 0;
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    result = taken(capsule, static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor")), "used_dltensor");
  } else {
    refuse(name, "__dlpack__ gives no tensor");
  }
  if (result.tensor.ndim < 0) refuse(name, "it has " + std::to_string(result.tensor.ndim) + " axes");
  return result;
}

}  // namespace postlude::inline v0::python
