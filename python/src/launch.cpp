// post.matmul and post.stream after their first call: from arrays to a plan that exists, in a few microseconds.
#include "bindings.h"

#include "prepared.h"

#include <nanobind/stl/shared_ptr.h>

#include <atomic>
#include <functional>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace postlude::inline v0::python {
namespace {

// One epilogue's plans for one target, by what they depend on: dtypes, ranks and the device.
class Launcher {
 public:
  // resolve(problem, device, index, [(name, rank, is number, dtype)], [(name, dtype)]) -> Plan makes a new one.
  // `problem`: the main loop, over inputs of any dtypes.
  Launcher(Problem problem, const std::vector<std::string>& names, const std::vector<nb::object>& defaults,
           std::vector<std::optional<DType>> types, nb::object resolve)
      : problem_(std::move(problem)),
        inputs_(problem_.loop().inputs()),
        types_(std::move(types)),
        resolve_(std::move(resolve)) {
    for (const std::string& name : names) keys_.push_back(nb::steal(PyUnicode_InternFromString(name.c_str())));
    for (const nb::object& value : defaults) defaults_.push_back(value.is_none() ? nb::object() : value);
  }

  nb::object run(const nb::tuple& arrays, nb::handle operands, nb::handle out) {
    Inputs inputs;
    inputs.main.reserve(inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs.main.push_back(read_array(arrays[i], inputs_[i].name));
    inputs.operands = read_operands(keys_, defaults_, types_, operands);
    if (!out.is_none()) inputs.out = read_destinations(out);
    const std::shared_ptr<Prepared> prepared = find(inputs);
    if (inputs.main[0].tensor.device == Device::cpu) {
      ArrayCall bound = bind(prepared, std::move(inputs));
      bound.run({});
      return bound.result();
    }
    ArrayCall bound = arrange(prepared, std::move(inputs));
    void* stream = bound.stream();
    const std::shared_ptr<Kept> kept = keep(bound, stream);
    {
      struct Clear {
        std::atomic_flag& flag;
        ~Clear() { flag.clear(); }
      } clear{kept->running};
      Unlocked release;
      kept->call.run(stream);
    }
    return bound.result();
  }

 private:
  // A Call on a GPU, kept for the next that binds the same memory in the same way on the same stream: a network's do,
  // step after step, because frameworks hand the same blocks out again. Binding takes 4 to 9 us on an H200's host,
  // finding it less than 1.
  struct Kept {
    std::vector<std::int64_t> key;
    Call call;
    std::atomic_flag running;
  };
  static constexpr std::size_t most_kept = 1024;  // a network's layers call one epilogue, each with its own weights
  static constexpr std::int64_t most_workspace = 128 << 20;  // bytes of all kept Calls

  std::shared_ptr<Kept> keep(const ArrayCall& bound, void* stream) {
    bound_key_.clear();
    bound_key_.push_back(reinterpret_cast<std::int64_t>(bound.prepared.get()));
    bound_key_.push_back(reinterpret_cast<std::int64_t>(stream));
    for (const Binding& binding : bound.bindings) {
      const Tensor& t = binding.tensor;
      bound_key_.push_back(reinterpret_cast<std::int64_t>(t.data));
      bound_key_.push_back(t.rank | static_cast<std::int64_t>(t.dtype) << 8 |
                           static_cast<std::int64_t>(t.device) << 16 | std::int64_t{t.device_index} << 24);
      for (int axis = 0; axis < t.rank; ++axis) {
        bound_key_.push_back(t.shape[static_cast<std::size_t>(axis)]);
        bound_key_.push_back(t.strides[static_cast<std::size_t>(axis)]);
      }
    }
    const std::size_t hash = std::hash<std::string_view>()(
        {reinterpret_cast<const char*>(bound_key_.data()), bound_key_.size() * sizeof bound_key_[0]});
    const auto [first, last] = kept_.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (it->second->key == bound_key_ && !it->second->running.test_and_set()) return it->second;
    auto made = std::make_shared<Kept>();
    made->key = bound_key_;
    made->call = bound.prepared->plan.bind(bound.bindings, stream);
    made->running.test_and_set();
    const std::int64_t workspace = made->call.workspace_bytes();
    if (workspace > most_workspace) return made;
    if (kept_.size() == most_kept || kept_workspace_ + workspace > most_workspace) {
      kept_.clear();
      kept_workspace_ = 0;
    }
    kept_workspace_ += workspace;
    kept_.emplace(hash, made);
    return made;
  }

  struct Entry {
    std::vector<std::uint8_t> key;
    std::shared_ptr<Prepared> prepared;
  };

  Problem problem_;
  std::vector<Input> inputs_;
  std::vector<nb::object> keys_, defaults_;
  std::vector<std::optional<DType>> types_;
  nb::object resolve_;
  std::vector<Entry> entries_;                                        // few: an epilogue is called with few types
  std::unordered_multimap<std::size_t, std::shared_ptr<Kept>> kept_;  // by the key's hash
  std::int64_t kept_workspace_ = 0;
  std::vector<std::int64_t> bound_key_;  // of the call at hand; kept for its memory
  std::vector<std::uint8_t> key_;        // of the call at hand; kept for its memory

  std::shared_ptr<Prepared> find(const Inputs& inputs) {
    const auto byte = [&](int value) { key_.push_back(static_cast<std::uint8_t>(value)); };
    key_.clear();
    const Tensor& first = inputs.main[0].tensor;
    byte(static_cast<int>(first.device));
    byte(first.device_index);
    bool batched = false;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      byte(static_cast<int>(inputs.main[i].tensor.dtype));
      batched |= inputs.main[i].tensor.rank == static_cast<int>(inputs_[i].axes.size()) + 1;
    }
    byte(batched);
    for (const Array& operand : inputs.operands) {
      byte(operand.number ? 255 : operand.tensor.rank);
      byte(static_cast<int>(operand.tensor.dtype));
    }
    for (const Destination& destination : inputs.out) {
      byte(destination.array.owner.is_valid() ? static_cast<int>(destination.array.tensor.dtype) : 255);
      for (char c : destination.name) byte(c);
      byte(0);
    }
    for (const Entry& entry : entries_)
      if (entry.key == key_) return entry.prepared;

    std::vector<std::uint8_t> key = key_;
    std::vector<DType> dtypes;
    for (const Array& input : inputs.main) dtypes.push_back(input.tensor.dtype);
    nb::list classes, destinations;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const Array& operand = inputs.operands[i];
      classes.append(nb::make_tuple(keys_[i], operand.tensor.rank, operand.number, operand.tensor.dtype));
    }
    for (const Destination& destination : inputs.out)
      destinations.append(nb::make_tuple(destination.name, destination.array.owner.is_valid()
                                                               ? nb::cast(destination.array.tensor.dtype)
                                                               : nb::none()));
    auto prepared = nb::cast<std::shared_ptr<Prepared>>(
        resolve_(problem_.loop().over(dtypes, batched), first.device, first.device_index, classes, destinations));
    entries_.push_back({std::move(key), prepared});
    return prepared;
  }
};

}  // namespace

void bind_launch(nb::module_& m) {
  m.def("refuse_unknown",
        [](const std::vector<nb::object>& names, const nb::dict& keywords) { refuse_unknown(names, keywords); });
  m.def(
      "array_type",
      [](nb::handle array, const std::string& name) {
        const Array read = read_array(array, name);
        return std::tuple(read.tensor.dtype, read.tensor.rank, read.number);
      },
      nb::arg("array").none(), nb::arg("name"), "(dtype, rank, is a number) of an operand.");
  m.def(
      "device_of",
      [](nb::handle array) {
        const Array read = read_array(array, "array");
        return read.tensor.device == Device::cuda ? read.tensor.device_index : -1;
      },
      nb::arg("array").none(), "The CUDA device of an array; -1 for the CPU.");

  nb::class_<Launcher>(m, "Launcher")
      .def(nb::init<Problem, const std::vector<std::string>&, const std::vector<nb::object>&,
                    std::vector<std::optional<DType>>, nb::object>(),
           nb::arg("problem"), nb::arg("names"), nb::arg("defaults"), nb::arg("types"), nb::arg("resolve"))
      .def("__call__", &Launcher::run, nb::arg("inputs"), nb::arg("operands"), nb::arg("out").none());
}

}  // namespace postlude::inline v0::python
