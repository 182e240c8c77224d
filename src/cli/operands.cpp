#include "cli/operands.h"

#include "cli/draw.h"
#include "core/convert.h"
#include "graph/ir/ir.h"
#include "loop/main_loop.h"
#include "loop/names.h"
#include "plan/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>

#include <unistd.h>

namespace postlude::inline v0::cli {
namespace {

// The number that the whole text is, or none: then it is a path.
std::optional<double> number(const std::string& text) {
  double value = 0;
  const char* start = text.data() + (!text.empty() && text[0] == '+' ? 1 : 0);
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(start, end, value);
  if (next != end || start == end) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::strtod(text.c_str(), nullptr);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

// Operands whose values are compared with m_index(), n_index() or batch_index(): which one, by
// operand.
std::map<std::string, Op> index_operands(const GraphData& graph) {
  struct Source {
    std::int32_t operand = -1;  // the value is this operand, converted or rearranged
    std::optional<Op> index;    // or this index
  };
  std::vector<Source> sources(graph.nodes.size());
  std::map<std::string, Op> found;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == Op::operand) sources[i].operand = node.index;
    if (node.op == Op::m_index || node.op == Op::n_index || node.op == Op::batch_index) sources[i].index = node.op;
    if (node.op == Op::cast || node.op == Op::chunk || node.op == Op::repeat) sources[i] = sources[node.args[0]];
    if (info(node.op).rule != TypeRule::compare && node.op != Op::call) continue;
    for (const NodeId index : node.args) {
      if (!sources[index].index) continue;
      for (const NodeId operand : node.args) {
        if (sources[operand].operand >= 0)
          found.emplace(graph.operands[sources[operand].operand].name, *sources[index].index);
      }
    }
  }
  return found;
}

class Maker {
 public:
  Maker(const Plan& plan, const std::vector<Assignment>& given, std::int64_t batch, std::uint64_t seed)
      : plan_(plan), given_(given), batch_(batch), seed_(seed), indices_(index_operands(plan.graph().data())) {}

  std::vector<BoundOperand> run(std::optional<Sizes>& sizes) {
    std::vector<BoundOperand> all;
    for (const Plan::Slot& slot : plan_.slots()) all.push_back({.slot = slot, .array = {}, .tensor = {}, .source = {}});
    check_names(all);
    for (BoundOperand& operand : all) {
      if (const Assignment* assignment = find(operand.slot.name)) read(operand, *assignment);
    }
    settle(all, sizes);
    sizes_ = *sizes;
    check_memory(all);
    for (BoundOperand& operand : all) {
      if (operand.slot.output) allocate(operand);
      else if (operand.source.empty()) draw_operand(operand);
      else fit(operand);
    }
    return all;
  }

 private:
  [[nodiscard]] const Assignment* find(const std::string& name) const {
    const auto found = std::find_if(given_.begin(), given_.end(), [&](const Assignment& a) { return a.name == name; });
    return found == given_.end() ? nullptr : &*found;
  }

  void check_names(const std::vector<BoundOperand>& all) const {
    std::vector<std::string> names;
    for (const BoundOperand& operand : all) {
      if (!operand.slot.output) names.push_back(operand.slot.name);
    }
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const std::string& name = given_[i].name;
      for (std::size_t j = 0; j < i; ++j) {
        if (given_[j].name == name)
          throw Error(ErrorCode::repeated_operand, quoted(name) + " is given twice", "Give it once.");
      }
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      for (const BoundOperand& operand : all) {
        if (operand.slot.name == name) {
          throw Error(ErrorCode::unknown_operand, quoted(name) + " is an output", "--out DIR writes the outputs.");
        }
      }
      const std::string guess = closest(name, names);
      std::string known;
      for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
      const bool of_another_loop = std::ranges::find(input_names, name) != std::end(input_names);
      throw Error(ErrorCode::unknown_operand, "no operand is named " + quoted(name),
                  of_another_loop ? "A and B are those of --gemm, X is that of --stream and of --conv."
                  : guess.empty() ? "This epilogue takes " + known + "."
                                  : "Did you mean " + quoted(guess) + "?");
    }
  }

  void read(BoundOperand& operand, const Assignment& assignment) const {
    operand.source = assignment.value;
    const std::optional<double> value = number(assignment.value);
    if (!value) {
      operand.array = read_npy(assignment.value, operand.slot.dtype);
      return;
    }
    if (!operand.slot.axes.empty()) {
      throw Error(ErrorCode::usage, quoted(operand.slot.name) + " is given as a number, but is not a scalar",
                  "Give a .npy file: " + operand.slot.name + "=FILE.npy.");
    }
    operand.array = Array(operand.slot.dtype, {});
    core::store_real(operand.slot.dtype, operand.array.bytes.data(), 0, *value);
  }

  // M, N and K from the command line, or from the files of the main loop's inputs.
  void settle(const std::vector<BoundOperand>& all, std::optional<Sizes>& sizes) const {
    const MainLoop& loop = plan_.problem().loop();
    const std::vector<Input> inputs = loop.inputs();
    std::vector<Given> given;
    bool files = true;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      given.push_back(given_input(inputs[i], all[i]));
      files = files && !all[i].source.empty();
    }
    if (!sizes && !files) {
      std::string wanted;
      for (const Input& input : inputs)
        wanted += (wanted.empty() ? "" : " and ") + std::string(input.name) + "=FILE.npy";
      throw Error(ErrorCode::usage,
                  loop.contraction() ? "none of --gemm, --stream and --conv is given" : "no size is given",
                  "Say --gemm MxNxK, or give " + wanted + ".");
    }
    if (!sizes) {
      const Domain domain = loop.settle(given);
      sizes = Sizes{domain.m.value, domain.n.value, domain.k.value, {}};
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!all[i].source.empty()) check_input(inputs[i], all[i], given[i], *sizes);
    }
  }

  static Given given_input(const Input& input, const BoundOperand& operand) {
    Given given;
    given.name = input.name;
    given.dtype = input.dtype;
    given.rank = static_cast<int>(input.axes.size());
    if (operand.source.empty()) return given;
    const std::vector<std::int64_t>& shape = operand.array.shape;
    const std::size_t rank = input.axes.size();
    if (shape.size() < rank || shape.size() > rank + 1) {
      throw Error(ErrorCode::wrong_rank, quoted(operand.source) + " has shape " + plan::shape_text(shape) + ", but " +
                                             operand.slot.name + " is " +
                                             (rank == 2 ? "a matrix" : "of " + std::to_string(rank) + " axes"));
    }
    std::copy_n(shape.end() - static_cast<std::ptrdiff_t>(rank), rank, given.shape.begin());
    return given;
  }

  void check_input(const Input& input, const BoundOperand& operand, const Given& given, const Sizes& sizes) const {
    const std::vector<std::int64_t> want = shape_of(operand.slot, sizes);
    if (std::equal(want.begin(), want.end(), given.shape.begin())) return;
    std::string axes;
    for (const std::string_view axis : input.axes) axes += (axes.empty() ? "" : " x ") + std::string(axis);
    const bool transposed = want.size() == 2 && given.shape[1] == want[0] && given.shape[0] == want[1];
    throw Error(ErrorCode::wrong_shape,
                quoted(operand.source) + " has shape " + plan::shape_text(operand.array.shape) + ", but " +
                    operand.slot.name + " is " + axes + " = " + plan::shape_text(want),
                transposed ? "It looks transposed." : "");
  }

  // Refuses sizes that the machine cannot hold, before the operating system ends the program for
  // them.
  void check_memory(const std::vector<BoundOperand>& all) const {
    double bytes = 0;
    for (const BoundOperand& operand : all) {
      double size =
          static_cast<double>(size_of(operand.slot.dtype)) * static_cast<double>(std::max<std::int64_t>(batch_, 1));
      for (const std::int64_t extent : shape_of(operand.slot)) size *= static_cast<double>(extent);
      bytes += size;
    }
    const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
    if (bytes <= memory) return;
    throw Error(
        ErrorCode::out_of_memory,
        fmt::format("operands and outputs of these sizes take {:.3g} GB, but this machine has {:.3g} GB of memory",
                    bytes * 1e-9, memory * 1e-9),
        "Try smaller sizes.");
  }

  [[nodiscard]] std::vector<std::int64_t> shape_of(const Plan::Slot& slot) const { return shape_of(slot, sizes_); }
  [[nodiscard]] std::vector<std::int64_t> shape_of(const Plan::Slot& slot, const Sizes& sizes) const {
    const std::vector<Input> inputs = plan_.problem().loop().inputs();
    for (std::size_t i = 0; i < sizes.inputs.size(); ++i)
      if (inputs[i].name == slot.name) return sizes.inputs[i];
    return plan_.shape_of(slot.name, sizes.m, sizes.n, sizes.k);
  }

  [[nodiscard]] std::vector<std::int64_t> batched(std::vector<std::int64_t> shape, bool with_batch) const {
    if (with_batch) shape.insert(shape.begin(), batch_);
    return shape;
  }

  // A file's (1, N) serves as a row and its (M, 1) as a col: axes of one element are dropped or
  // added.
  void fit(BoundOperand& operand) const {
    const auto without_ones = [](std::vector<std::int64_t> shape) {
      shape.erase(std::remove(shape.begin(), shape.end(), 1), shape.end());
      return shape;
    };
    const auto plain = shape_of(operand.slot);
    for (const bool with_batch : {false, batch_ > 0}) {
      const auto want = batched(plain, with_batch);
      if (operand.array.shape != want && without_ones(operand.array.shape) == without_ones(want)) {
        operand.array.shape = want;
        break;
      }
    }
    operand.tensor = operand.array.view();
  }

  void draw_operand(BoundOperand& operand) const {
    const Plan::Slot& slot = operand.slot;
    operand.source = "drawn";
    const std::vector<Input> inputs = plan_.problem().loop().inputs();
    const auto input = std::ranges::find(inputs, slot.name, &Input::name);
    if (input != inputs.end() && !input->batchable) {
      draw_image(operand, input != inputs.begin());
      return;
    }
    const bool matrix = slot.axes == tile_axes;
    auto shape = batched(shape_of(slot), batch_ > 0 && matrix);  // vectors and scalars are shared by all batches
    Distribution distribution = Distribution::of(slot.dtype);
    if (const auto index = indices_.find(slot.name); index != indices_.end()) {
      distribution = Distribution::uniform(0, index->second == Op::n_index   ? sizes_.n
                                              : index->second == Op::m_index ? sizes_.m
                                                                             : std::max<std::int64_t>(batch_, 1));
    }
    const bool weight = std::ranges::any_of(inputs, [&](const Input& i) { return i.packable && i.name == slot.name; });
    if (weight) {  // stored N x K, as the weight of a linear layer
      if (is_float(slot.dtype)) {
        distribution.deviation = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(sizes_.k, 1)));
      }
      std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    }
    operand.array = draw(slot.dtype, std::move(shape), distribution, seed_, slot.name);
    operand.tensor = operand.array.view();
    if (weight) {
      const int last = operand.tensor.rank - 1;
      std::swap(operand.tensor.shape[last], operand.tensor.shape[last - 1]);
      std::swap(operand.tensor.strides[last], operand.tensor.strides[last - 1]);
    }
  }

  // An image, or (scaled) filters, in channels_last.
  void draw_image(BoundOperand& operand, bool scaled) const {
    const std::vector<std::int64_t> shape = shape_of(operand.slot);
    std::vector<std::int64_t> stored = shape;
    std::rotate(stored.begin() + 1, stored.begin() + 2, stored.end());
    Distribution distribution = Distribution::of(operand.slot.dtype);
    if (scaled && is_float(operand.slot.dtype))
      distribution.deviation = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(sizes_.k, 1)));
    operand.array = draw(operand.slot.dtype, std::move(stored), distribution, seed_, operand.slot.name);
    operand.tensor = operand.array.view();
    const auto back = [&](auto& axes) {
      std::rotate(axes.begin() + 1, axes.begin() + operand.tensor.rank - 1, axes.begin() + operand.tensor.rank);
    };
    back(operand.tensor.shape);
    back(operand.tensor.strides);
  }

  // Fills an output with a pattern that no epilogue computes by chance, so that --verify sees an
  // element that was not written.
  void allocate(BoundOperand& operand) const {
    operand.source = "output";
    operand.array = Array(operand.slot.dtype, batched(shape_of(operand.slot), operand.slot.batched));
    std::fill(operand.array.bytes.begin(), operand.array.bytes.end(), std::byte{0xa5});
    operand.tensor = operand.array.view();
  }

  const Plan& plan_;
  const std::vector<Assignment>& given_;
  std::int64_t batch_;
  std::uint64_t seed_;
  std::map<std::string, Op> indices_;
  Sizes sizes_;
};

}  // namespace

std::vector<Assignment> parse_assignments(const std::vector<std::string>& arguments) {
  std::vector<Assignment> assignments;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == argument.size()) {
      throw Error(ErrorCode::usage, quoted(argument) + " is no operand",
                  "Write NAME=FILE.npy, or NAME=0.5 for a scalar.");
    }
    assignments.push_back({argument.substr(0, equals), argument.substr(equals + 1)});
  }
  return assignments;
}

std::vector<BoundOperand> make_operands(const Plan& plan, const std::vector<Assignment>& given,
                                        std::optional<Sizes>& sizes, std::int64_t batch, std::uint64_t seed) {
  return Maker(plan, given, batch, seed).run(sizes);
}

}  // namespace postlude::inline v0::cli
