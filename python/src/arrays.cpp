#include "arrays.h"

#include "core/convert.h"
#include "dlpack.h"

#include <postlude/plan.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <array>
#include <cstring>
#include <limits>
#include <string>

namespace postlude::inline v0::python {
namespace {

[[noreturn]] void refuse(ErrorCode code, std::string_view name, const std::string& what, std::string hint) {
  throw Error(code, postlude::quoted(name) + " " + what, std::move(hint));
}

// A module that the user has imported, else null. Frameworks are never imported by us.
nb::object imported(const char* module) { return nb::borrow(PyDict_GetItemString(PyImport_GetModuleDict(), module)); }

// numpy ---------------------------------------------------------------------------------------------------------------

// ml_dtypes registers its types with numpy at run time, under numbers that are known only then.
struct UserType {
  int number;
  DType type;
};
std::array<UserType, 3> user_types;
std::size_t user_type_count = 0;

constexpr std::pair<const char*, DType> ml_names[] = {
    {"bfloat16", DType::bf16}, {"float8_e4m3fn", DType::e4m3}, {"float8_e5m2", DType::e5m2}};

void load_user_types() {
  if (user_type_count > 0) return;
  nb::object ml = imported("ml_dtypes");
  if (!ml.is_valid()) return;
  for (const auto& [name, type] : ml_names) {
    PyArray_Descr* descriptor = nullptr;
    if (!PyArray_DescrConverter(nb::object(ml.attr(name)).ptr(), &descriptor)) throw nb::python_error();
    user_types[user_type_count++] = {descriptor->type_num, type};
    Py_DECREF(descriptor);
  }
}

std::optional<DType> numpy_dtype(int number) {
  switch (number) {
    case NPY_FLOAT: return DType::f32;
    case NPY_HALF: return DType::f16;
    case NPY_BYTE: return DType::s8;
    case NPY_UBYTE: return DType::u8;
    case NPY_INT: return DType::i32;
    case NPY_LONG:
      if constexpr (sizeof(long) == 8) return DType::i64;
      return DType::i32;
    case NPY_LONGLONG: return DType::i64;
    case NPY_BOOL: return DType::boolean;
    default: break;
  }
  if (number < NPY_USERDEF) return {};
  load_user_types();
  for (std::size_t i = 0; i < user_type_count; ++i)
    if (user_types[i].number == number) return user_types[i].type;
  return {};
}

int numpy_number(DType type) {
  switch (type) {
    case DType::f32: return NPY_FLOAT;
    case DType::f16: return NPY_HALF;
    case DType::s8: return NPY_BYTE;
    case DType::u8: return NPY_UBYTE;
    case DType::i32: return NPY_INT;
    case DType::i64: return NPY_LONG;
    case DType::boolean: return NPY_BOOL;
    default: break;
  }
  load_user_types();
  for (std::size_t i = 0; i < user_type_count; ++i)
    if (user_types[i].type == type) return user_types[i].number;
  try {
    nb::module_::import_("ml_dtypes");
  } catch (nb::python_error&) {
    throw Error(ErrorCode::unsupported, "numpy has no " + std::string(name(type)) + " arrays of its own",
                "Run `pip install ml_dtypes`, or annotate the output with another dtype.");
  }
  load_user_types();
  return numpy_number(type);
}

std::string dtype_text(nb::handle array) { return nb::cast<std::string>(nb::str(nb::object(array.attr("dtype")))); }

[[noreturn]] void refuse_dtype(std::string_view name, const std::string& dtype) {
  const bool wide = dtype.find("float64") != std::string::npos;
  refuse(ErrorCode::wrong_dtype, name, "is " + dtype + ", which is not an element type of Postlude",
         wide ? "Convert it, e.g. with .astype(np.float32) or .float()."
              : "The types are f32, f16, bf16, e4m3, e5m2, s8, u8, i32, i64 and bool.");
}

void check_rank(std::string_view name, int rank) {
  if (rank > Tensor::max_rank)
    refuse(ErrorCode::wrong_rank, name, "has " + std::to_string(rank) + " axes",
           "An array has three at most: batch, rows and columns.");
}

Array read_numpy(PyArrayObject* array, std::string_view name) {
  const auto type = numpy_dtype(PyArray_TYPE(array));
  if (!type) refuse_dtype(name, dtype_text(reinterpret_cast<PyObject*>(array)));
  if (!PyArray_ISNOTSWAPPED(array))
    refuse(ErrorCode::wrong_dtype, name, "has bytes in the other order",
           "Convert it with .astype(array.dtype.newbyteorder('=')).");
  Array result;
  Tensor& tensor = result.tensor;
  tensor.data = PyArray_DATA(array);
  tensor.dtype = *type;
  tensor.rank = PyArray_NDIM(array);
  check_rank(name, tensor.rank);
  const std::int64_t size = size_of(*type);
  for (int i = 0; i < tensor.rank; ++i) {
    const auto axis = static_cast<std::size_t>(i);
    tensor.shape[axis] = PyArray_DIMS(array)[i];
    const std::int64_t stride = PyArray_STRIDES(array)[i];
    if (stride % size != 0 && tensor.shape[axis] > 1)
      refuse(ErrorCode::wrong_stride, name,
             "has a stride of " + std::to_string(stride) + " bytes along axis " + std::to_string(i) +
                 ", which is no multiple of its element size",
             "Copy it with np.ascontiguousarray.");
    tensor.strides[axis] = stride / size;
  }
  result.read_only = !PyArray_ISWRITEABLE(array);
  result.owner = nb::borrow(reinterpret_cast<PyObject*>(array));
  return result;
}

Array number_array(std::variant<std::int64_t, double> number, DType type) {
  Array result;
  result.owner = nb::steal(PyArray_SimpleNew(0, nullptr, numpy_number(type)));
  if (!result.owner.is_valid()) throw nb::python_error();
  result.number = true;
  void* data = result.tensor.data = PyArray_DATA(reinterpret_cast<PyArrayObject*>(result.owner.ptr()));
  result.tensor.dtype = type;
  if (const auto* integer = std::get_if<std::int64_t>(&number); integer && !is_float(type))
    core::store_integer(type, data, 0, *integer);
  else core::store_real(type, data, 0, std::visit([](auto value) { return static_cast<double>(value); }, number));
  return result;
}

// torch ---------------------------------------------------------------------------------------------------------------

// Made once when the first torch tensor is met, and kept until the process ends.
struct Torch {
  nb::object tensor, empty, full, is_grad_enabled, raw_stream;
  std::array<nb::object, dtype_count> dtypes;
  nb::object data_ptr, shape, stride, dtype, requires_grad, get_device, ndim;  // interned names
};

constexpr const char* torch_names[dtype_count] = {"float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
                                                  "int8",    "uint8",   "int32",    "int64",         "bool"};

Torch* torch() {
  static Torch* loaded = nullptr;
  if (loaded) return loaded;
  nb::object module = imported("torch");
  if (!module.is_valid() || !nb::hasattr(module, "Tensor")) return nullptr;
  auto* fresh = new Torch;
  fresh->tensor = module.attr("Tensor");
  fresh->empty = module.attr("empty");
  fresh->full = module.attr("full");
  fresh->is_grad_enabled = module.attr("is_grad_enabled");
  nb::object c = module.attr("_C");
  if (nb::hasattr(c, "_cuda_getCurrentRawStream")) fresh->raw_stream = c.attr("_cuda_getCurrentRawStream");
  for (int i = 0; i < dtype_count; ++i)
    if (nb::hasattr(module, torch_names[i])) fresh->dtypes[static_cast<std::size_t>(i)] = module.attr(torch_names[i]);
  const auto intern = [](const char* text) { return nb::steal(PyUnicode_InternFromString(text)); };
  fresh->data_ptr = intern("data_ptr");
  fresh->shape = intern("shape");
  fresh->stride = intern("stride");
  fresh->dtype = intern("dtype");
  fresh->requires_grad = intern("requires_grad");
  fresh->get_device = intern("get_device");
  fresh->ndim = intern("ndim");
  return loaded = fresh;
}

nb::object attribute(nb::handle object, const nb::object& name) {
  PyObject* value = PyObject_GetAttr(object.ptr(), name.ptr());
  if (!value) throw nb::python_error();
  return nb::steal(value);
}

nb::object method(nb::handle object, const nb::object& name) {
  PyObject* value = PyObject_CallMethodNoArgs(object.ptr(), name.ptr());
  if (!value) throw nb::python_error();
  return nb::steal(value);
}

[[noreturn]] void refuse_gradient(std::string_view name) {
  refuse(ErrorCode::unsupported, name, "requires a gradient, and gradients come in a later version",
         "Call under torch.no_grad(), or pass the tensor's detach().");
}

Array read_torch(const Torch& t, nb::handle object, std::string_view name) {
  if (attribute(object, t.requires_grad).ptr() == Py_True && nb::cast<bool>(t.is_grad_enabled())) refuse_gradient(name);
  Array result;
  result.framework = Framework::torch;
  Tensor& tensor = result.tensor;
  const nb::object dtype = attribute(object, t.dtype);
  int type = 0;
  while (type < dtype_count && t.dtypes[static_cast<std::size_t>(type)].ptr() != dtype.ptr()) ++type;
  if (type == dtype_count) refuse_dtype(name, nb::cast<std::string>(nb::str(dtype)));
  tensor.dtype = static_cast<DType>(type);
  tensor.rank = nb::cast<int>(attribute(object, t.ndim));
  check_rank(name, tensor.rank);
  const nb::object shape = attribute(object, t.shape), stride = method(object, t.stride);
  for (int i = 0; i < tensor.rank; ++i) {
    tensor.shape[static_cast<std::size_t>(i)] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape.ptr(), i));
    tensor.strides[static_cast<std::size_t>(i)] = PyLong_AsLongLong(PyTuple_GET_ITEM(stride.ptr(), i));
  }
  const nb::object address = method(object, t.data_ptr);
  tensor.data = PyLong_AsVoidPtr(address.ptr());
  const int device = nb::cast<int>(method(object, t.get_device));
  if (device >= 0) {
    if (!nb::cast<bool>(object.attr("is_cuda")))
      refuse(ErrorCode::wrong_device, name,
             "is on " + nb::cast<std::string>(nb::str(nb::object(object.attr("device")))),
             "Move it to the CPU or to a CUDA device.");
    tensor.device = Device::cuda;
    tensor.device_index = device;
  }
  result.owner = nb::borrow(object);
  return result;
}

// DLPack --------------------------------------------------------------------------------------------------------------

// The codes of dlpack.h, version 1.1.
std::optional<DType> dlpack_dtype(nb::dlpack::dtype type) {
  if (type.lanes != 1) return {};
  const auto is = [&](int code, int bits) { return type.code == code && type.bits == bits; };
  if (is(2, 32)) return DType::f32;
  if (is(2, 16)) return DType::f16;
  if (is(4, 16)) return DType::bf16;
  if (is(10, 8)) return DType::e4m3;
  if (is(12, 8)) return DType::e5m2;
  if (is(0, 8)) return DType::s8;
  if (is(1, 8)) return DType::u8;
  if (is(0, 32)) return DType::i32;
  if (is(0, 64)) return DType::i64;
  if (is(6, 8)) return DType::boolean;
  return {};
}

Framework framework_of(nb::handle object) {
  nb::object module =
      nb::getattr(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))), "__module__", nb::str(""));
  const std::string name = nb::cast<std::string>(nb::str(module));
  if (name.starts_with("cupy")) return Framework::cupy;
  if (name.starts_with("jax")) return Framework::jax;
  return Framework::numpy;
}

Array read_dlpack(nb::handle object, std::string_view name) {
  Exported exported = import_dlpack(object, name);
  const nb::dlpack::dltensor& given = exported.tensor;
  Array result;
  result.framework = framework_of(object);
  result.read_only = exported.read_only || result.framework == Framework::jax;
  Tensor& tensor = result.tensor;
  const auto type = dlpack_dtype(given.dtype);
  if (!type) refuse_dtype(name, nb::hasattr(object, "dtype") ? dtype_text(object) : "of an unknown type");
  tensor.dtype = *type;
  if (given.data) tensor.data = static_cast<char*>(given.data) + given.byte_offset;
  tensor.rank = given.ndim;
  check_rank(name, tensor.rank);
  std::uint64_t stride = 1;  // where none are given; too large an extent is refused later
  for (std::size_t i = static_cast<std::size_t>(given.ndim); i-- > 0;) {
    tensor.shape[i] = given.shape[i];
    tensor.strides[i] = given.strides ? given.strides[i] : static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(given.shape[i]);
  }
  if (given.device.device_type == nb::device::cuda::value) {
    tensor.device = Device::cuda;
    tensor.device_index = given.device.device_id;
  } else if (given.device.device_type != nb::device::cpu::value) {
    refuse(ErrorCode::wrong_device, name, "is on a device that is neither a CPU nor CUDA",
           "Move it to the CPU or to a CUDA device.");
  }
  result.owner = nb::borrow(object);
  result.exported = std::move(exported.keeps);
  return result;
}

}  // namespace

void load_numpy() {
  if (_import_array() < 0) throw nb::python_error();
}

std::optional<std::variant<std::int64_t, double>> number_of(nb::handle object) {
  PyObject* o = object.ptr();
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (PyIndex_Check(o) && !PyArray_Check(o)) {
    const nb::object whole = nb::steal(PyNumber_Index(o));
    if (!whole.is_valid()) throw nb::python_error();
    int overflow = 0;
    const std::int64_t integer = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
    if (overflow == 0) return integer;
    const double real = PyLong_AsDouble(whole.ptr());
    if (!PyErr_Occurred()) return real;
    PyErr_Clear();  // beyond all reals too
    return overflow * std::numeric_limits<double>::infinity();
  }
  if (!PyNumber_Check(o) || PyComplex_Check(o) || PyArray_IsScalar(o, ComplexFloating)) return {};
  const nb::object real = nb::steal(PyNumber_Float(o));
  if (!real.is_valid()) {
    PyErr_Clear();
    return {};
  }
  return PyFloat_AS_DOUBLE(real.ptr());
}

Array read_array(nb::handle object, std::string_view name, DType number_type) {
  PyObject* o = object.ptr();
  if (PyArray_Check(o) && !PyArray_CheckExact(o) && nb::hasattr(object, "mask"))
    refuse(ErrorCode::wrong_dtype, name, "has a mask, and a kernel computes with every element",
           "Pass array.filled(value), and if the mask counts, an operand for it.");
  if (PyArray_Check(o)) return read_numpy(reinterpret_cast<PyArrayObject*>(o), name);
  if (const Torch* t = torch(); t && PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(t->tensor.ptr())))
    return read_torch(*t, object, name);
  if (PyFloat_Check(o) || PyLong_Check(o)) return number_array(*number_of(object), number_type);
  if (nb::hasattr(object, "__dlpack__") && !PyArray_CheckScalar(o)) return read_dlpack(object, name);
  if (PyArray_CheckScalar(o) || !nb::hasattr(object, "__array_interface__"))
    if (const auto number = number_of(object)) return number_array(*number, number_type);
  if (nb::hasattr(object, "__array_interface__") || PyObject_CheckBuffer(o)) {
    const nb::object converted = nb::steal(PyArray_FROM_O(o));
    if (converted.is_valid()) return read_numpy(reinterpret_cast<PyArrayObject*>(converted.ptr()), name);
    const nb::python_error error;
    if (!error.matches(PyExc_Exception)) throw error;  // KeyboardInterrupt is not the object's
    refuse(ErrorCode::wrong_dtype, name,
           "cannot be read by numpy: " + utf8(error.type().attr("__name__")) + ": " + utf8(nb::str(error.value())),
           "Pass an array of numpy, torch, cupy or jax, or anything else that exports DLPack.");
  }
  if (nb::isinstance<PackedOperand>(object))
    refuse(ErrorCode::usage, name, "is packed, for the plan that packed it",
           "Call that plan: plan.bind(a, packed, ...)().");
  refuse(ErrorCode::wrong_dtype, name,
         "is a " +
             nb::cast<std::string>(
                 nb::str(nb::object(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(o))).attr("__name__")))) +
             ", neither an array nor a real number",
         "Pass an array of numpy, torch, cupy or jax, or anything else that exports DLPack.");
}

Array new_array(Framework framework, DType type, std::span<const std::int64_t> shape, const Tensor& like) {
  Array result;
  result.framework = framework;
  Tensor& tensor = result.tensor;
  tensor.dtype = type;
  tensor.rank = static_cast<int>(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = stride;
    stride *= shape[i];
  }
  tensor.device = like.device;
  tensor.device_index = like.device_index;
  if (framework == Framework::torch || framework == Framework::cupy) {
    nb::list sizes;
    for (std::int64_t extent : shape) sizes.append(extent);
    if (framework == Framework::torch) {
      const Torch& t = *torch();
      const nb::object& dtype = t.dtypes[static_cast<std::size_t>(type)];
      if (!dtype.is_valid())
        throw Error(ErrorCode::unsupported, "this torch has no " + std::string(name(type)), "Update torch.");
      result.owner = like.device == Device::cpu
                         ? t.empty(sizes, nb::arg("dtype") = dtype)
                         : t.empty(sizes, nb::arg("dtype") = dtype, nb::arg("device") = like.device_index);
      tensor.data = PyLong_AsVoidPtr(method(result.owner, t.data_ptr).ptr());
    } else {
      nb::object cupy = imported("cupy");
      nb::object dtype = nb::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(numpy_number(type))));
      result.owner = cupy.attr("empty")(sizes, dtype);
      tensor.data = PyLong_AsVoidPtr(nb::object(result.owner.attr("data").attr("ptr")).ptr());
    }
    return result;
  }
  if (like.device != Device::cpu)
    throw Error(ErrorCode::unsupported,
                "outputs on a GPU are made as arrays of torch or cupy, and these inputs are neither",
                "Pass torch or cupy arrays, or out= arrays that may be written.");
  npy_intp sizes[Tensor::max_rank];
  for (std::size_t i = 0; i < shape.size(); ++i) sizes[i] = static_cast<npy_intp>(shape[i]);
  result.owner = nb::steal(PyArray_SimpleNew(tensor.rank, sizes, numpy_number(type)));
  if (!result.owner.is_valid()) {
    PyErr_Clear();
    throw Error(ErrorCode::out_of_memory, "no memory for an output of " + std::to_string(stride) + " elements", "");
  }
  tensor.data = PyArray_DATA(reinterpret_cast<PyArrayObject*>(result.owner.ptr()));
  return result;
}

nb::object finished(Framework framework, const nb::object& array) {
  if (framework != Framework::jax) return array;
  return nb::module_::import_("jax.numpy").attr("asarray")(array);
}

Array number_on_device(const Array& number, Framework framework, const Tensor& like) {
  Array result = new_array(framework, number.tensor.dtype, {}, like);
  const nb::object value = number.owner.attr("item")();
  if (framework == Framework::torch) result.owner.attr("fill_")(value);
  else result.owner.attr("fill")(value);
  return result;
}

void* current_stream(Framework framework, int device_index) {
  if (framework == Framework::torch) {
    const Torch& t = *torch();
    return t.raw_stream.is_valid() ? PyLong_AsVoidPtr(nb::object(t.raw_stream(device_index)).ptr()) : nullptr;
  }
  if (framework == Framework::cupy)
    return PyLong_AsVoidPtr(nb::object(imported("cupy").attr("cuda").attr("get_current_stream")().attr("ptr")).ptr());
  return nullptr;
}

nb::object copy_to_numpy(const float* data, std::int64_t n) {
  npy_intp size = static_cast<npy_intp>(n);
  nb::object array = nb::steal(PyArray_SimpleNew(1, &size, NPY_FLOAT));
  if (!array.is_valid()) throw nb::python_error();
  if (n > 0)
    std::memcpy(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.ptr())), data,
                static_cast<std::size_t>(n) * sizeof(float));
  return array;
}

void copy_from_numpy(const nb::object& array, float* out, std::int64_t n) {
  npy_intp size = static_cast<npy_intp>(n);
  nb::object target = nb::steal(PyArray_SimpleNewFromData(1, &size, NPY_FLOAT, out));
  if (!target.is_valid() || PyArray_CopyObject(reinterpret_cast<PyArrayObject*>(target.ptr()), array.ptr()) < 0)
    throw nb::python_error();
}

}  // namespace postlude::inline v0::python
