#include "plan/operands.h"

#include "core/convert.h"
#include "graph/ir/extents.h"
#include "plan/overlap.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <optional>

namespace postlude::inline v0::plan {
namespace {

using Role = Expected::Role;

std::string given_shape(const Tensor& tensor) {
  return shape_text({tensor.shape.begin(), tensor.shape.begin() + tensor.rank});
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + quoted(names[i]);
  }
  return text;
}

// "M x K", as the words of a message say a tensor's axes.
std::string axes_text(const Expected& expected, const std::vector<Input>& inputs) {
  if (expected.role == Role::input) {
    std::string text;
    for (const std::string_view axis : inputs[expected.input].axes)
      text += (text.empty() ? "" : " x ") + std::string(axis);
    return text;
  }
  if (expected.axes.has(Axis::m) && expected.axes.has(Axis::n)) {
    return print_extent(expected.rows, 'M') + " x " + print_extent(expected.columns, 'N');
  }
  if (expected.axes.has(Axis::m)) return print_extent(expected.rows, 'M');
  if (expected.axes.has(Axis::n)) return print_extent(expected.columns, 'N');
  return "a scalar";
}

// An extent of the problem and the tensor that fixed it; -1: none has.
struct Fixed {
  std::int64_t value = 0;
  int by = -1;
};

class Checker {
 public:
  Checker(const PlanData& plan, const PackedInput* packed, const Target& where)
      : plan_(plan),
        packed_(packed),
        where_(where),
        loop_(plan.problem.loop()),
        inputs_(loop_.inputs()),
        expected_(plan.expected),
        tensors_(expected_.size()),
        ranks_(expected_.size(), 0) {}

  Checked run(const std::vector<Binding>& given) {
    match(given);
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      if (!tensors_[i]) continue;
      drop_ones(i);
      check_kind(i);
    }
    settle();
    check_divisibility();
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      if (tensors_[i]) check_shape(i);
    }
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      if (tensors_[i]) check_memory(i);
    }
    check_overlaps();
    return result();
  }

  // B by itself, for pack().
  MainLoop::Packing run_packable(const Tensor& b) {
    std::size_t i = 0;
    while (!inputs_[i].packable) ++i;
    tensors_[i] = b;
    check_kind(i);
    if (has_batch_axis(i)) {
      throw Error(ErrorCode::wrong_rank,
                  given_name(i) + " has shape " + given_shape(b) + ", but only a " + expected_[i].name +
                      " shared by all batches can be packed",
                  "Bind a " + expected_[i].name + " of each batch as it is.");
    }
    check_extents(i);
    check_memory(i);
    const MainLoop::Packing packing = loop_.packing(given(inputs_[i], *tensors_[i]));
    check_extent("K", packing.k, i);
    return packing;
  }

 private:
  [[nodiscard]] bool has_batch_axis(std::size_t i) const { return tensors_[i]->rank > ranks_[i]; }
  [[nodiscard]] std::string given_name(std::size_t i) const { return quoted(expected_[i].name); }
  // "'A' (64, 32)", of the tensor that fixed an extent.
  [[nodiscard]] std::string text_of(const Fixed& extent) const {
    const auto i = static_cast<std::size_t>(extent.by);
    return i < given_.size() ? given_[i].text() : given_name(i) + " " + given_shape(*tensors_[i]);
  }
  [[nodiscard]] bool is_packed(std::size_t i) const {
    return packed_ != nullptr && expected_[i].role == Role::input && inputs_[expected_[i].input].packable;
  }

  void match(const std::vector<Binding>& given) {
    const auto& by_name = plan_.place;
    for (const Binding& binding : given) {
      const auto found = by_name.find(binding.name);
      if (found == by_name.end()) unknown(binding.name);
      const bool packed = is_packed(found->second);
      if (tensors_[found->second] || packed) {
        throw Error(
            ErrorCode::repeated_operand, quoted(binding.name) + " is bound twice",
            packed ? std::string(binding.name) + " is bound packed: leave out the tensor." : "Bind each name once.");
      }
      const Tensor& tensor = binding.tensor;
      (void)core::checked(tensor.dtype);
      if (tensor.rank < 0 || tensor.rank > Tensor::max_rank)
        throw Error(ErrorCode::wrong_rank, quoted(binding.name) + " has " + std::to_string(tensor.rank) + " axes",
                    "A tensor has 0 to " + std::to_string(Tensor::max_rank) + ".");
      tensors_[found->second] = tensor;
    }
    std::vector<std::string> missing;
    std::string wanted;
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      if (tensors_[i] || is_packed(i)) continue;
      missing.push_back(expected_[i].name);
      if (missing.size() <= 8) {  // a message, not a catalogue
        wanted += (wanted.empty() ? "" : ", ") + quoted(expected_[i].name) + " (" + axes_text(expected_[i], inputs_) +
                  ", " + std::string(name(expected_[i].dtype)) +
                  (expected_[i].role == Role::output ? ", output)" : ")");
      }
    }
    if (missing.empty()) return;
    const bool many = missing.size() > 8;
    if (many) missing.resize(8);
    throw Error(ErrorCode::missing_operand,
                list(missing) +
                    (many                  ? " and others are"
                     : missing.size() == 1 ? " is"
                                           : " are") +
                    " not bound",
                "Bind " + wanted + ".");
  }

  [[noreturn]] void unknown(std::string_view name) const {
    std::vector<std::string> names;
    for (const Expected& e : expected_) names.push_back(e.name);
    const std::string guess = closest(name, names);
    if (names.size() > 12) names.resize(12);
    throw Error(ErrorCode::unknown_operand, "no operand or output is named " + quoted(name),
                guess.empty() ? "This plan takes " + list(names) + "." : "Did you mean " + quoted(guess) + "?");
  }

  // A col of (M, 1), a row of (1, N) and a scalar of (1, 1), each with or without a batch in front, are
  // taken as (M,), (N,) and (): torch and numpy write them so to broadcast.
  void drop_ones(std::size_t i) {
    const Expected& want = expected_[i];
    Tensor& tensor = *tensors_[i];
    const bool m = want.axes.has(Axis::m), n = want.axes.has(Axis::n);
    const int batch = tensor.rank - 2, batches = is_batched(plan_.problem) ? 1 : 0;
    if ((m && n) || batch < 0 || batch > batches) return;
    // (x, 1) is a col of one row for each of x batches; results are written for each batch.
    if (batch < batches && (m || want.role == Expected::Role::output)) return;
    if ((!m && tensor.shape[batch] != 1) || (!n && tensor.shape[batch + 1] != 1)) return;
    if (m || n) {
      tensor.shape[batch] = tensor.shape[batch + (m ? 0 : 1)];
      tensor.strides[batch] = tensor.strides[batch + (m ? 0 : 1)];
    }
    tensor.rank = batch + (m || n ? 1 : 0);
  }

  // The same of a scalar that has two axes, of which one may be the batch.
  [[nodiscard]] static std::string class_of_scalar(const Expected& want, const Tensor& tensor, bool batched) {
    const bool one_row = tensor.shape[0] == 1, one_column = tensor.shape[1] == 1;
    if (batched && one_column) return "Leave out its axis of one element.";
    const char* const line = batched ? "a row or a col of each batch, or as a tile" : one_row ? "a row" : "a col";
    return "Declare " + quoted(want.name) + " as " + (batched || one_row || one_column ? line : "a tile") + ".";
  }

  // A class that takes an operand of another rank, as a hint; empty: none does.
  [[nodiscard]] static std::string class_by_rank(const Expected& want, const Tensor& tensor, bool batched) {
    const bool m = want.axes.has(Axis::m), n = want.axes.has(Axis::n);
    const auto declare = [&](const std::string& as) { return "Declare " + quoted(want.name) + " as " + as; };
    const char* const or_batched = batched ? "." : ", or compile a batched plan.";
    if (tensor.rank == 0) return declare("a scalar.");
    if (tensor.rank == 1 && m && n) return declare("a row or a col.");
    if (tensor.rank == 1 && !m && !n) return declare("a row or a col") + or_batched;
    if (tensor.rank == 2 && !m && !n) return class_of_scalar(want, tensor, batched);
    if (tensor.rank != 2 || m == n) return {};
    if (tensor.shape[m ? 0 : 1] == 1) return declare(m ? "a row." : "a col.");
    return tensor.shape[0] == 1 || batched ? "" : declare("a tile") + or_batched;
  }

  // What to do with a tensor of another rank; empty: what is wrong says it.
  [[nodiscard]] std::string what_of_rank(const Expected& want, const Tensor& tensor, int rank, bool batched) const {
    if (want.role == Role::operand)
      if (std::string other = class_by_rank(want, tensor, batched); !other.empty()) return other;
    const auto end = tensor.shape.begin() + tensor.rank;
    if (!batched && tensor.rank == rank + 1)
      return std::find(tensor.shape.begin(), end, 1) != end ? "Leave out its axis of one element."
                                                            : "For a batch, compile a plan that is batched.";
    if (want.role == Role::output && batched && !want.axes.has(Axis::b))
      return "Its value is the same for all batches.";
    if (want.role == Role::input || tensor.rank <= rank + 1) return {};
    return facts_of(plan_.problem).pixels ? "Its pixels are one axis, in front of the channels: (N, P * Q, K)."
                                          : "M and N are one axis each.";
  }

  // Which class has this shape where the one that it was taken for has another, as a hint; empty: none. In Python a
  // class follows from the number of axes where nothing else says it.
  [[nodiscard]] std::string class_by_shape(const Expected& want, std::span<const std::int64_t> shape) const {
    if (want.role != Role::operand) return {};
    const bool m = want.axes.has(Axis::m), n = want.axes.has(Axis::n), line = shape.size() == 1;
    const bool is_col = shape[0] == m_.value && (line || shape[1] == 1),
               is_row = shape.back() == n_.value && (line || shape[0] == 1);
    if (is_col == is_row || (is_col ? m && !n : n && !m)) return {};
    return "Declare " + quoted(want.name) + (is_col ? " as a col." : " as a row.");
  }

  // Device, dtype and rank.
  void check_kind(std::size_t i) {
    const Expected& want = expected_[i];
    const Tensor& tensor = *tensors_[i];
    const auto device_text = [](Device device, int index) {
      return device == Device::cpu ? std::string("the CPU") : "CUDA device " + std::to_string(index);
    };
    const bool elsewhere =
        tensor.device != where_.device || (tensor.device == Device::cuda && tensor.device_index != where_.device_index);
    if (elsewhere && !tensor.by_value) {
      throw Error(ErrorCode::wrong_device,
                  given_name(i) + " is on " + device_text(tensor.device, tensor.device_index) + ", but must be on " +
                      device_text(where_.device, where_.device_index),
                  where_.isa.empty() ? "Copy it there, or compile a plan for the device that holds it."
                                     : "This plan is for " + where_.isa +
                                           ": it explains itself anywhere, and runs where there is one. Compile "
                                           "another for the device that holds the arrays.");
    }
    if (tensor.dtype != want.dtype) {
      throw Error(ErrorCode::wrong_dtype,
                  given_name(i) + " is " + std::string(name(tensor.dtype)) + ", but the plan wants " +
                      std::string(name(want.dtype)),
                  want.role != Role::input
                      ? "Convert it, or declare the dtype in the epilogue or in the plan's `dtypes`."
                      : "Convert it, or compile a plan for that dtype.");
    }
    const bool batched = is_batched(plan_.problem) && (want.role != Role::input || inputs_[want.input].batchable);
    const int rank = rank_of(want);
    ranks_[i] = rank;
    const bool per_batch = want.role == Role::output && want.axes.has(Axis::b);
    bool good = want.role == Role::output ? tensor.rank == rank + (per_batch ? 1 : 0)
                                          : tensor.rank == rank || (batched && tensor.rank == rank + 1);
    // A scalar may be (1,) as well as ().
    if (rank == 0 && tensor.rank == 1 && tensor.shape[0] == 1 && !per_batch) {
      ranks_[i] = 1;
      good = true;
    }
    if (good) return;
    std::string axes = axes_text(want, inputs_);
    if (per_batch) axes += " with a batch axis in front";
    else if (batched && want.role != Role::output) axes += ", with or without a batch axis in front";
    throw Error(ErrorCode::wrong_rank,
                given_name(i) + " has shape " + given_shape(tensor) + ", but the plan wants " + axes,
                what_of_rank(want, tensor, rank, batched));
  }

  [[nodiscard]] std::span<const std::int64_t> shape_without_batch(std::size_t i) const {
    const std::span<const std::int64_t> shape(tensors_[i]->shape);
    return shape.subspan(has_batch_axis(i) ? 1 : 0);
  }

  // The axes of a tensor without the batch.
  [[nodiscard]] int rank_of(const Expected& want) const {
    if (want.role == Role::input) return static_cast<int>(inputs_[want.input].axes.size());
    return (want.axes.has(Axis::m) ? 1 : 0) + (want.axes.has(Axis::n) ? 1 : 0);
  }

  void check_extent(std::string_view letter, std::int64_t value, std::size_t i) const {
    if (value >= 0 && value <= largest_extent) return;
    throw Error(ErrorCode::size_overflow,
                given_name(i) + " has shape " + given_shape(*tensors_[i]) + ": " + std::string(letter) + " is " +
                    (value < 0 ? "negative" : "larger than " + std::to_string(largest_extent)),
                value < 0 ? "" : "Split the problem.");
  }
  void check_extents(std::size_t i) const {
    const std::vector<std::string_view>& axes = inputs_[expected_[i].input].axes;
    const int first = has_batch_axis(i) ? 1 : 0;
    for (std::size_t axis = 0; axis < axes.size(); ++axis)
      check_extent(axes[axis], tensors_[i]->shape[axis + first], i);
    if (first == 1) check_extent("the batch", tensors_[i]->shape[0], i);
  }

  // The inputs say what M, N and K are; the first tensor with a batch axis says the batch.
  void settle() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (tensors_[i]) check_extents(i);
      given_.push_back(tensors_[i] ? given(inputs_[i], *tensors_[i]) : given_packed(inputs_[i], packed_->shape));
    }
    const Domain domain = loop_.settle(given_);
    const auto fixed = [&](std::string_view letter, const Domain::Extent& extent) {
      if (extent.input >= 0 && tensors_[static_cast<std::size_t>(extent.input)])
        check_extent(letter, extent.value, static_cast<std::size_t>(extent.input));
      return Fixed{extent.value, extent.input};
    };
    m_ = fixed("M", domain.m);
    n_ = fixed("N", domain.n);
    k_ = fixed("K", domain.k);
    batch_ = {1, -1};
    if (domain.batch.input >= 0) batch_ = fixed("the batch", domain.batch);
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      if (!tensors_[i] || !has_batch_axis(i)) continue;
      check_extent("the batch", tensors_[i]->shape[0], i);
      if (batch_.by < 0) batch_ = {tensors_[i]->shape[0], static_cast<int>(i)};
    }
  }

  void check_divisibility() const {
    for (const Divisibility& rule : plan_.base.program->rules) {
      const std::int64_t columns = rule.columns.at(n_.value);
      if (rule.divisor <= 1 || columns % rule.divisor == 0) continue;
      Location where;
      const GraphData& graph = plan_.graph.data();
      if (rule.node >= 0) where = locate(graph, graph.nodes[rule.node].span);
      throw Error(ErrorCode::indivisible,
                  (columns == n_.value
                       ? "N is " + std::to_string(n_.value)
                       : "a value has " + std::to_string(columns) + " columns where N is " + std::to_string(n_.value)) +
                      " (fixed by " + text_of(n_) + "), but the epilogue splits it by " + std::to_string(rule.divisor),
                  "Choose an N that divides.", std::move(where));
    }
  }

  void check_shape(std::size_t i) const {
    const Expected& want = expected_[i];
    const Tensor& tensor = *tensors_[i];
    if (has_batch_axis(i) && tensor.shape[0] != batch_.value) {
      throw Error(ErrorCode::wrong_shape,
                  given_name(i) + " has shape " + given_shape(tensor) + ", but " + text_of(batch_) +
                      " fixes the batch to " + std::to_string(batch_.value),
                  want.role == Role::output ? "" : "One without a batch axis is shared by all batches.");
    }
    if (want.role == Role::input) return;
    const std::vector<std::int64_t> shape = shape_of(plan_, want, {.m = m_.value, .n = n_.value, .k = k_.value});
    const std::span<const std::int64_t> plain = shape_without_batch(i);
    if (shape.empty()) return;  // a scalar's (1,) has been seen
    if (std::equal(shape.begin(), shape.end(), plain.begin())) return;
    const bool m_wrong = want.axes.has(Axis::m) && plain[0] != shape[0];
    const std::size_t last = shape.size() - 1;
    const bool n_wrong = want.axes.has(Axis::n) && plain[last] != shape[last];
    std::string why;
    if (m_wrong) why += text_of(m_) + " fixes M to " + std::to_string(m_.value);
    if (n_wrong && n_.by != m_.by)
      why += (why.empty() ? "" : " and ") + text_of(n_) + " fixes N to " + std::to_string(n_.value);
    else if (n_wrong) why += (m_wrong ? " and N to " : text_of(n_) + " fixes N to ") + std::to_string(n_.value);
    const bool transposed = shape.size() == 2 && plain[0] == shape[1] && plain[1] == shape[0];
    const std::string hint = transposed ? looks_transposed(want.name) : class_by_shape(want, plain.first(shape.size()));
    throw Error(ErrorCode::wrong_shape,
                given_name(i) + " has shape " + given_shape(tensor) + ", but the plan wants " +
                    axes_text(want, inputs_) + " = " + shape_text(shape) + ": " + why,
                hint);
  }

  // That every element can be addressed; then where it is.
  void check_memory(std::size_t i) const {
    const Tensor& tensor = *tensors_[i];
    const std::int64_t size = size_of(tensor.dtype);
    std::int64_t elements = 1, reach = size;
    bool overflow = false;
    for (int axis = 0; axis < tensor.rank; ++axis) {
      const std::int64_t extent = tensor.shape[axis];  // not negative: it equals an extent of the problem by now
      overflow |= __builtin_mul_overflow(elements, extent, &elements);
      if (extent <= 1) continue;
      std::int64_t span = 0;
      std::int64_t stride = tensor.strides[axis];
      if (stride < 0) overflow |= __builtin_sub_overflow(std::int64_t{0}, stride, &stride);
      overflow |= __builtin_mul_overflow(extent - 1, stride, &span);
      overflow |= __builtin_mul_overflow(span, size, &span);
      overflow |= __builtin_add_overflow(reach, span, &reach);
    }
    // Half of the addresses, so that differences of two views cannot overflow either.
    overflow |= reach > std::numeric_limits<std::int64_t>::max() / 4;
    overflow |= elements > std::numeric_limits<std::int64_t>::max() / 4 / size;
    if (overflow) {
      throw Error(ErrorCode::size_overflow,
                  given_name(i) + " has shape " + given_shape(tensor) + " and strides " +
                      shape_text({tensor.strides.begin(), tensor.strides.begin() + tensor.rank}) +
                      ", which spans more than can be addressed",
                  "Strides count elements, not bytes.");
    }
    if (elements == 0) return;
    if (tensor.by_value && expected_[i].role != Role::output) return;
    if (tensor.data == nullptr) throw Error(ErrorCode::null_data, given_name(i) + " has no data: its pointer is null");
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
    if (address % static_cast<std::uintptr_t>(size) != 0) {
      throw Error(ErrorCode::misaligned,
                  given_name(i) + " starts at an address that is not a multiple of the " + std::to_string(size) +
                      " bytes of " + std::string(name(tensor.dtype)),
                  "Copy it to an aligned buffer.");
    }
    if (expected_[i].role != Role::output) return;
    for (int axis = 0; axis < tensor.rank; ++axis) {
      if (tensor.shape[axis] <= 1 || tensor.strides[axis] > 0) continue;
      throw Error(ErrorCode::wrong_stride,
                  "output " + given_name(i) + " has the stride " + std::to_string(tensor.strides[axis]) +
                      " along axis " + std::to_string(axis),
                  "An output's strides must be positive: bind a view that does not repeat or reverse elements.");
    }
    if (overlaps_itself(footprint(tensor))) {
      throw Error(ErrorCode::wrong_stride,
                  "output " + given_name(i) + " has strides " +
                      shape_text({tensor.strides.begin(), tensor.strides.begin() + tensor.rank}) + " for shape " +
                      given_shape(tensor) + ": its elements overlap",
                  "A larger stride must step over all that the smaller ones span.");
    }
  }

  // An output shares no byte with any other tensor, but for an operand (or X) that it replaces exactly.
  void check_overlaps() {
    std::vector<Footprint> prints(expected_.size());
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      if (tensors_[i]) prints[i] = footprint(*tensors_[i]);
      else prints[i].empty = true;
    }
    for (const auto& [o, i] : near(prints)) {
      const bool output = expected_[i].role == Role::output;
      if (expected_[o].role != Role::output || (output && i < o) || !overlap(prints[o], prints[i])) continue;
      const bool replaceable = expected_[i].role == Role::operand ||
                               (expected_[i].role == Role::input && inputs_[i].use == Input::Use::accumulator);
      if (replaceable && same_layout(o, i)) {
        in_place_.emplace_back(expected_[o].name, expected_[i].name);
        continue;
      }
      throw Error(ErrorCode::overlap,
                  "output " + given_name(o) + " overlaps " + (output ? "output " : "") + given_name(i),
                  in_bytes(o) || in_bytes(i) ? "Strides count elements, not bytes; or bind other memory."
                  : replaceable ? "Bind other memory, or exactly the same: address, dtype, shape and strides."
                                : "Bind other memory.");
    }
    std::sort(in_place_.begin(), in_place_.end());
  }

  // Whether strides look as if they counted bytes: the least is an element's size.
  [[nodiscard]] bool in_bytes(std::size_t i) const {
    const Tensor& tensor = *tensors_[i];
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int axis = 0; axis < tensor.rank; ++axis)
      if (tensor.shape[axis] > 1) least = std::min(least, std::abs(tensor.strides[axis]));
    return least > 1 && least == size_of(tensor.dtype);
  }

  [[nodiscard]] bool same_layout(std::size_t o, std::size_t i) const {
    const Tensor &output = *tensors_[o], &other = *tensors_[i];
    return output.data == other.data && output.dtype == other.dtype && output.elements() == other.elements() &&
           bound(o).strides == bound(i).strides;
  }

  // Strides along (b, m, n), 0 where there is but one element; of an input that is a matrix, along its axes.
  [[nodiscard]] Bound bound(std::size_t i) const {
    const Tensor& tensor = *tensors_[i];
    Bound result{.data = tensor.data, .dtype = tensor.dtype};
    const auto stride = [&](int axis) { return tensor.shape[axis] > 1 ? tensor.strides[axis] : 0; };
    int axis = 0;
    if (has_batch_axis(i)) result.strides[0] = stride(axis++);
    const Axes axes = expected_[i].axes;
    if (axes.has(Axis::m)) result.strides[1] = stride(axis++);
    if (axes.has(Axis::n)) result.strides[2] = stride(axis);
    return result;
  }

  Checked result() {
    Checked checked;
    checked.values.reserve(expected_.size() + 2);  // their addresses are bound
    checked.bindings.shape = {batch_.value, m_.value, n_.value, k_.value};
    checked.nothing_to_do = true;
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      const Role role = expected_[i].role;
      if (role == Role::input) continue;
      Bound view = bound(i);
      if (tensors_[i]->by_value) {
        view.by_value = true;
        view.data = &checked.values.emplace_back(std::bit_cast<std::uint64_t>(tensors_[i]->value));
      }
      view.in_place = std::any_of(in_place_.begin(), in_place_.end(),
                                  [&](const auto& pair) { return pair.first == expected_[i].name; });
      checked.bindings.buffers.push_back(view);
      if (role == Role::output && tensors_[i]->elements() != 0) checked.nothing_to_do = false;
    }
    if (const std::int32_t sizes = plan_.base.program->sizes; sizes > 0) {
      const std::array<std::int64_t, 3> pixels = loop_.pixels(given_);
      for (std::int32_t i = 0; i < sizes; ++i) {
        void* const value =
            &checked.values.emplace_back(static_cast<std::uint64_t>(pixels[2 - static_cast<std::size_t>(i)]));
        checked.bindings.buffers.push_back({.data = value, .dtype = DType::i32, .strides = {}, .by_value = true});
      }
    }
    Operands operands = loop_.operands(given_);
    checked.bindings.a = operands.a;
    checked.bindings.b = operands.b;
    checked.bindings.addressing = std::move(operands.addressing);
    if (packed_) checked.bindings.packed_b = packed_->data;
    checked.bindings.inputs = std::move(given_);
    checked.in_place = std::move(in_place_);
    return checked;
  }

  const PlanData& plan_;
  const PackedInput* packed_;
  const Target& where_;
  const MainLoop& loop_;
  std::vector<Input> inputs_;  // the first of expected_
  const std::vector<Expected>& expected_;
  std::vector<Given> given_;                    // the inputs
  std::vector<std::optional<Tensor>> tensors_;  // none: an input that is packed
  std::vector<int> ranks_;                      // axes without the batch
  Fixed m_, n_, k_, batch_;
  InPlace in_place_;
};

}  // namespace

std::vector<Expected> expected_tensors(const PlanData& plan) {
  std::vector<Expected> all;
  const Axes batch = is_batched(plan.problem) ? Axes(Axis::b) : Axes();
  for (const Input& input : plan.problem.loop().inputs()) {
    all.push_back({.name = std::string(input.name),
                   .role = Role::input,
                   .axes = tile_axes | batch,
                   .dtype = input.dtype,
                   .rows = {},
                   .columns = {},
                   .input = all.size()});
  }
  const lower::Program& program = *plan.base.program;
  for (std::int32_t i = 0; i < program.operands + program.outputs; ++i) {
    const lower::Buffer& buffer = program.buffers[i];
    const bool output = i >= program.operands;
    all.push_back({.name = buffer.name,
                   .role = output ? Role::output : Role::operand,
                   .axes = output ? buffer.axes & (tile_axes | batch) : (buffer.axes & tile_axes) | batch,
                   .dtype = buffer.dtype,
                   .rows = buffer.rows,
                   .columns = buffer.columns});
  }
  return all;
}

std::vector<std::int64_t> shape_of(const PlanData& plan, const Expected& expected, const Shape& at) {
  if (expected.role == Role::input) return plan.problem.loop().shape_of(expected.input, at);
  std::vector<std::int64_t> shape;
  if (expected.axes.has(Axis::m)) shape.push_back(expected.rows.at(at.m));
  if (expected.axes.has(Axis::n)) shape.push_back(expected.columns.at(at.n));
  return shape;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

Checked check(const PlanData& plan, const std::vector<Binding>& given, const PackedInput* packed, const Target& where) {
  return Checker(plan, packed, where).run(given);
}

MainLoop::Packing check_packable(const PlanData& plan, const Tensor& b) {
  return Checker(plan, nullptr, plan.target).run_packable(b);
}

}  // namespace postlude::inline v0::plan
