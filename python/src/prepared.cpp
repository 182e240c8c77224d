#include "prepared.h"

#include <algorithm>

namespace postlude::inline v0::python {
namespace {

std::string list(std::span<const nb::object> names) {
  std::string text;
  for (const nb::object& name : names) text += (text.empty() ? "" : ", ") + nb::cast<std::string>(name);
  return text.empty() ? "none" : text;
}

void check_rank(const Array& array, const Input& input) {
  const int rank = static_cast<int>(input.axes.size());
  if (!array.number && (array.tensor.rank == rank || array.tensor.rank == rank + 1)) return;
  throw Error(ErrorCode::wrong_rank,
              "operand " + postlude::quoted(input.name) + " has " + std::to_string(array.tensor.rank) +
                  (array.tensor.rank == 1 ? " axis" : " axes"),
              rank == 2 ? "A matrix has 2 axes, a batch of matrices 3."
                        : "It has " + std::to_string(rank) + ", in a batch one more.");
}

}  // namespace

std::shared_ptr<const Prepared::Shapes> Prepared::shapes(std::int64_t batch, std::int64_t m, std::int64_t n,
                                                         std::int64_t k) {
  if (const std::array size{batch, m, n, k}; size != last_size) {
    Shapes fresh;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      fresh.push_back(plan.shape_of(outputs[i].name, m, n, k));
      if (outputs[i].batched) fresh.back().insert(fresh.back().begin(), batch);
    }
    last_shapes = std::make_shared<const Shapes>(std::move(fresh));
    last_size = size;
  }
  return last_shapes;
}

std::vector<Destination> read_destinations(nb::handle out) {
  std::vector<Destination> destinations;
  const auto add = [&](std::string name, nb::handle array) {
    if (array.is_none()) return destinations.push_back({std::move(name), {}});
    Destination destination{name, read_array(array, name.empty() ? "out" : name)};
    if (destination.array.number || destination.array.read_only)
      throw Error(ErrorCode::usage,
                  "output " + postlude::quoted(name.empty() ? "out" : name) + " cannot be written: it is " +
                      (destination.array.number ? "a number" : "read-only"),
                  "Pass an array that may be written, or leave out= away.");
    destinations.push_back(std::move(destination));
  };
  if (out.is_none()) return destinations;
  if (PyDict_Check(out.ptr())) {
    for (auto [name, array] : nb::cast<nb::dict>(out)) {
      if (!PyUnicode_Check(name.ptr()) || PyUnicode_GET_LENGTH(name.ptr()) == 0)
        throw Error(ErrorCode::usage,
                    "out= has the key " + nb::cast<std::string>(nb::repr(name)) + ", which is no name",
                    "Its keys are names of outputs, its values arrays.");
      add(utf8(name), array);
    }
  } else if (PyTuple_Check(out.ptr()) || PyList_Check(out.ptr())) {
    for (nb::handle array : out) add("", array);
  } else {
    add("", out);
  }
  return destinations;
}

void refuse_unknown(std::span<const nb::object> keys, nb::handle keywords) {
  std::vector<std::string> names;
  for (const nb::object& key : keys) names.push_back(nb::cast<std::string>(key));
  for (auto [key, value] : nb::borrow<nb::dict>(keywords)) {
    const std::string name = utf8(key);
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::vector<std::string> near = names;
    near.insert(near.end(), {"epilogue", "out", "target"});  // keywords of what takes operands
    const std::string guess = closest(name, near);
    throw Error(
        ErrorCode::unknown_operand, "no operand is called " + postlude::quoted(name),
        (guess.empty() ? "" : "Did you mean '" + guess + "'? ") + "The epilogue's operands are: " + list(keys) + ".");
  }
}

std::vector<Array> read_operands(std::span<const nb::object> keys, std::span<const nb::object> defaults,
                                 std::span<const std::optional<DType>> types, nb::handle keywords) {
  std::vector<Array> arrays;
  arrays.reserve(keys.size());
  Py_ssize_t found = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    nb::handle value = PyDict_GetItemWithError(keywords.ptr(), keys[i].ptr());
    if (value.is_valid()) ++found;
    else if (i < defaults.size() && defaults[i].is_valid()) value = defaults[i];
    const std::string name = nb::cast<std::string>(keys[i]);
    if (!value.is_valid()) {
      refuse_unknown(keys, keywords);  // misspelt rather than missing
      throw Error(ErrorCode::missing_operand, "operand " + postlude::quoted(name) + " is missing",
                  "Pass " + name + "=...; the epilogue's operands are: " + list(keys) + ".");
    }
    arrays.push_back(read_array(value, name, types[i].value_or(DType::f32)));
  }
  if (found != PyDict_Size(keywords.ptr())) refuse_unknown(keys, keywords);
  return arrays;
}

ArrayCall arrange(std::shared_ptr<Prepared> prepared, Inputs inputs) {
  Prepared& p = *prepared;
  const Array& a = inputs.main[0];
  ArrayCall bound;
  std::vector<Binding>& bindings = bound.bindings;
  bindings.reserve(p.inputs.size() + p.operands.size() + p.outputs.size());
  std::vector<Given> given_inputs;
  std::int64_t batch = -1;
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const Input& input = p.inputs[i];
    if (inputs.packed && input.packable) {
      given_inputs.push_back(given_packed(input, inputs.packed->shape()));
      continue;
    }
    check_rank(inputs.main[i], input);
    given_inputs.push_back(given(input, inputs.main[i].tensor));
    bindings.push_back({input.name, inputs.main[i].tensor});
    if (batch < 0) batch = given_inputs.back().batch;
  }
  const Domain domain = p.plan.problem().loop().settle(given_inputs);
  if (batch < 0) batch = domain.batch.input >= 0 ? domain.batch.value : 1;
  for (std::size_t i = 0; i < p.operands.size(); ++i) {
    Array& operand = inputs.operands[i];
    if (operand.number && a.tensor.device == Device::cuda) operand = number_on_device(operand, a.framework, a.tensor);
    bindings.push_back({p.operands[i].name, operand.tensor});
  }

  std::vector<const Array*> wanted(p.outputs.size(), nullptr);
  for (std::size_t i = 0; i < inputs.out.size(); ++i) {
    const Destination& destination = inputs.out[i];
    std::size_t place = i;
    if (!destination.name.empty()) {
      place = 0;
      while (place < p.outputs.size() && p.outputs[place].name != destination.name) ++place;
    }
    if (place >= p.outputs.size()) {
      std::string names;
      for (const Plan::Slot& slot : p.outputs) names += (names.empty() ? "" : ", ") + slot.name;
      throw Error(ErrorCode::unknown_operand,
                  destination.name.empty() ? "out= has more arrays than the epilogue has outputs"
                                           : "no output is called " + postlude::quoted(destination.name),
                  "The outputs are: " + names + ".");
    }
    if (destination.array.owner.is_valid()) wanted[place] = &destination.array;
  }
  const auto shapes = p.shapes(batch, domain.m.value, domain.n.value, domain.k.value);
  bound.outputs.reserve(p.outputs.size());
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    bound.outputs.push_back(wanted[i] ? *wanted[i]
                                      : new_array(a.framework, p.outputs[i].dtype, (*shapes)[i], a.tensor));
    bindings.push_back({p.outputs[i].name, bound.outputs.back().tensor});
  }
  bound.prepared = std::move(prepared);
  bound.inputs = std::move(inputs);
  return bound;
}

ArrayCall bind(std::shared_ptr<Prepared> prepared, Inputs inputs) {
  ArrayCall bound = arrange(std::move(prepared), std::move(inputs));
  const Plan& plan = bound.prepared->plan;
  bound.call = bound.inputs.packed ? plan.bind(bound.bindings, *bound.inputs.packed) : plan.bind(bound.bindings);
  return bound;
}

void* ArrayCall::stream() const {
  return inputs.main[0].tensor.device == Device::cpu
             ? nullptr
             : current_stream(inputs.main[0].framework, inputs.main[0].tensor.device_index);
}

void ArrayCall::run(std::optional<std::uintptr_t> chosen) {
  void* handle = chosen ? reinterpret_cast<void*>(*chosen) : stream();
  Unlocked release;
  call.run(handle);
}

nb::object ArrayCall::result() const {
  if (prepared->record.is_none()) return finished(inputs.main[0].framework, outputs[0].owner);
  std::vector<nb::object> fields;
  std::vector<PyObject*> pointers;
  for (const Array& output : outputs) {
    fields.push_back(finished(inputs.main[0].framework, output.owner));
    pointers.push_back(fields.back().ptr());
  }
  PyObject* record = PyObject_Vectorcall(prepared->record.ptr(), pointers.data(), pointers.size(), nullptr);
  if (!record) throw nb::python_error();
  return nb::steal(record);
}

}  // namespace postlude::inline v0::python
