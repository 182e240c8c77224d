#include "evt/graph.h"

#include "graph/ir/builder.h"

#include <limits>
#include <map>
#include <optional>

namespace postlude::inline v0::evt {

using detail::Description;
using detail::Family;
using detail::Form;
using detail::Rounding;
using detail::Row;
using detail::Slot;

// What a person's own node sees. With `collected` it only says what it was given.
struct Scope::State {
  GraphBuilder& graph;
  const Form& form;
  std::vector<Slot>& slots;
  std::map<std::string, int> names{};
  const char* label = nullptr;
  std::vector<Given>* collected = nullptr;

  std::vector<Axes> axes{};  // of the graph's nodes, as far as somebody asked

  // A value of a visitor has all its tile's elements, even where they are alike: `x` over the axes that it lacks.
  Value spread(const Value& x, Axes wanted) {
    const Axes missing = wanted - axes_of(x);
    Value spread = x;
    if (missing.has(Axis::m)) spread = where(graph.m_index() >= 0, spread, spread);
    if (missing.has(Axis::n)) spread = where(graph.n_index() >= 0, spread, spread);
    return spread;
  }
  Axes axes_of(const Value& x) {
    const auto state = BuilderState::of({&x});
    const std::vector<Node>& nodes = state->graph.nodes;
    for (auto i = axes.size(); i < nodes.size(); ++i) {
      const Node& node = nodes[i];
      Axes made;
      for (const NodeId arg : node.args) made = made | axes[static_cast<std::size_t>(arg)];
      switch (node.op) {
        case Op::acc:
        case Op::random: made = tile_axes; break;
        case Op::operand: made = state->graph.operands[static_cast<std::size_t>(node.index)].axes; break;
        case Op::m_index:
        case Op::z_index:
        case Op::p_index:
        case Op::q_index: made = Axis::m; break;
        case Op::n_index: made = Axis::n; break;
        case Op::reduce: made = node.group ? made : made - node.axes; break;
        default: break;
      }
      axes.push_back(made);
    }
    return axes[static_cast<std::size_t>(state->node(x))];
  }

  // The next slot, named `prefix` and a number or as the person said.
  Slot& slot(Slot slot, const std::string& prefix) {
    slot.name = label ? std::exchange(label, nullptr) : prefix + std::to_string(names[prefix]++);
    return slots.emplace_back(std::move(slot));
  }
  [[nodiscard]] Form::Use use() const {  // of the latest
    return form.uses.empty() ? Form::as_declared : form.uses.at(slots.size() - 1);
  }
  Value operand(Slot slot, const std::string& prefix) {
    Slot& made = this->slot(std::move(slot), prefix);
    if (use() == Form::one_element) made.axes = {};
    return graph.operand(made.name, made.axes, made.dtype);
  }
};

namespace {

std::string prefix_of(Axes axes) {
  return axes == tile_axes ? "aux" : axes == row_axes ? "row" : axes == col_axes ? "col" : "s";
}

}  // namespace

Value Scope::accumulator() { return state_->graph.accumulator(); }

Value Scope::operand(Axes axes, DType dtype, const Given& given) {
  if (state_->collected) state_->collected->push_back(given);
  return state_->operand({.role = Slot::Role::operand, .axes = axes, .dtype = dtype}, prefix_of(axes));
}

void Scope::output(const Value& value, Axes axes, DType dtype, const Given& given) {
  if (state_->collected) state_->collected->push_back(given);
  const Slot& made = state_->slot({.role = Slot::Role::store, .axes = axes, .dtype = dtype}, prefix_of(axes));
  if (state_->use() == Form::absent) state_->slots.back().name.clear();
  else state_->graph.output(made.name, state_->spread(value, axes), dtype);
}

namespace detail {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// What a row hands on: a value that stands for itself rounded to `element`.
struct Handed {
  Value value;
  Element element = no_element;
  Rounding round = Rounding::nearest_even;
  bool rounded = true;
};

DType dtype_of(Element element) { return static_cast<DType>(element); }
bool is_float(Element element) { return element >= 0 && postlude::is_float(dtype_of(element)); }

// Whether every number of `from` is one of `to`.
bool embeds(Element from, Element to) {
  if (from == to) return true;
  if (!is_float(from) || !is_float(to)) return false;
  return dtype_of(to) == f32 || size_of(dtype_of(from)) < size_of(dtype_of(to));
}

double largest_finite(DType dtype) {
  switch (dtype) {
    case f16: return 65504;
    case bf16: return 0x1.fep127;
    case e4m3: return 448;
    case e5m2: return 57344;
    default: return 0x1.fffffep127;
  }
}

Value converted(const Value& x, Element to, Rounding round) {
  const DType dtype = dtype_of(to);
  switch (round) {
    case Rounding::toward_zero: return cast(x, dtype, Round::toward_zero);
    case Rounding::up: return cast(x, dtype, Round::up);
    case Rounding::down: return cast(x, dtype, Round::down);
    case Rounding::nearest_finite:
      if (postlude::is_float(dtype)) return cast(clamp(x, -largest_finite(dtype), largest_finite(dtype)), dtype);
      return cast(x, dtype);
    default: return cast(x, dtype);
  }
}

Value value_of(Handed& x) {
  if (!x.rounded) x.value = converted(x.value, x.element, x.round), x.rounded = true;
  return x.value;
}

Value as(Handed& x, Element to, Rounding round) {
  const Value value = value_of(x);
  if (to == static_cast<Element>(boolean) && x.element != to) return value != 0;
  return embeds(x.element, to) ? value : converted(value, to, round);
}

// A merge of two descending lists into the largest of both, by comparators alone. Keeping the larger of a[i] and
// b[k - 1 - i] leaves the k largest, as one bitonic run (Batcher 1968); insertion sorts it for any k.
std::vector<Value> largest(std::span<const Value> a, std::span<const Value> b) {
  const std::size_t k = a.size();
  std::vector<Value> kept;
  for (std::size_t i = 0; i < k; ++i) kept.push_back(max(a[i], b[k - 1 - i]));
  const auto order = [&](std::size_t i, std::size_t j) {
    const Value high = max(kept[i], kept[j]), low = min(kept[i], kept[j]);
    kept[i] = high, kept[j] = low;
  };
  if ((k & (k - 1)) == 0) {
    for (std::size_t step = k / 2; step > 0; step /= 2) {
      for (std::size_t i = 0; i < k; ++i) {
        if ((i & step) == 0) order(i, i + step);
      }
    }
  } else {
    for (std::size_t i = 1; i < k; ++i) {
      for (std::size_t j = i; j > 0; --j) order(j - 1, j);
    }
  }
  return kept;
}

// The softmax of the `count` largest of each row: what is less than they are is 0, what equals the least stays.
Value top_k_softmax(const Value& x, int count) {
  std::vector<Value> states{x};
  for (int i = 1; i < count; ++i) states.push_back(where(x == x, -infinity, -infinity));
  const std::vector<double> identity(static_cast<std::size_t>(count), -infinity);
  const std::vector<Value> top = reduce(states, largest, identity, Axis::n);
  Value sum = exp(top[0] - top[0]);
  for (std::size_t i = 1; i < top.size(); ++i) sum = sum + exp(top[i] - top[0]);
  return where(x >= top.back(), exp(x - (top[0] + log(sum))), 0);
}

class Builder {
 public:
  Builder(const Description& description, const Form& form) : d_(description), form_(form) {
    handed_.resize(static_cast<std::size_t>(d_.count));
    mask_of_.resize(handed_.size(), -1);
    is_scalar_.resize(handed_.size());
    for (int i = 0; i < d_.count; ++i) {
      if (d_.rows[i].stores_mask) mask_of_[at(d_.rows[i].inputs[0])] = i;
    }
    find_used();
  }

  Built run() {
    for (int i = 0; i < d_.count; ++i) {
      scope_.label = d_.rows[i].label;
      if (used_[at(i)]) handed_[at(i)] = row(i);
      else skip(d_.rows[i]);
    }
    if (d_.stores_root && d_.output != no_element) {
      Handed& root = handed_[at(d_.root)];
      store("D", root, d_.output == accumulator_element ? root.element : d_.output, Rounding::nearest_even);
    }
    return {graph_.finish(), std::move(slots_)};
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] bool without_source(const Row& row) const {
    return row.skips_source && (!form_.source || d_.rows[row.inputs[1]].element == no_element);
  }

  // What D, the other outputs and a person's own nodes depend on.
  void find_used() {
    used_.resize(handed_.size());
    if (d_.stores_root) used_[at(d_.root)] = true;
    for (int i = d_.count - 1; i >= 0; --i) {
      const Row& row = d_.rows[i];
      if (row.kind == Row::Kind::store || row.kind == Row::Kind::reduce || row.kind == Row::Kind::own)
        used_[at(i)] = true;
      if (!used_[at(i)]) continue;
      const int end = row.takes_first ? 1 : row.input_count;
      for (int k = without_source(row) ? 2 : 0; k < end; ++k) used_[at(row.inputs[at(k)])] = true;
    }
  }

  // The slots of a row that nothing needs.
  void skip(const Row& row) {
    for (std::size_t i = 0; i < given_count(row); ++i) slots_.push_back({.may_be_null = row.may_be_null});
  }

  Handed& input(const Row& row, int k) { return handed_[at(row.inputs[at(k)])]; }

  Handed row(int i) {
    const Row& row = d_.rows[i];
    switch (row.kind) {
      case Row::Kind::accumulator: return accumulator(row);
      case Row::Kind::source: return {source(row), row.element};
      case Row::Kind::scalars: is_scalar_[at(i)] = true; return scalars(row);
      case Row::Kind::operand: {
        Handed x{scope_.operand({.axes = row.axes, .dtype = dtype_of(row.element), .may_be_null = row.may_be_null},
                                prefix_of(row.axes)),
                 row.element};
        is_scalar_[at(i)] = slots_.back().axes.empty();
        return {as(x, row.result, Rounding::nearest_even), row.result};
      }
      case Row::Kind::compute: return compute(row);
      case Row::Kind::convert: return {as(input(row, 0), row.result, row.round), row.result};
      case Row::Kind::store: return stored(i);
      case Row::Kind::reduce: return reduced(row);
      case Row::Kind::top_k:
        return {top_k_softmax(scope_.spread(as(input(row, 0), row.compute, row.round), tile_axes), row.count),
                row.result, row.round, row.result == row.compute};
      case Row::Kind::own: break;
    }
    std::vector<Value> inputs;
    for (int k = 0; k < row.input_count; ++k) inputs.push_back(value_of(input(row, k)));
    Scope scope(scope_);
    return {row.own(scope, nullptr, inputs), row.result};
  }

  Handed accumulator(const Row& row) {
    Handed acc{graph_.accumulator(), static_cast<Element>(form_.accumulator)};
    if (form_.bias) acc.value = acc.value + graph_.row("bias", *form_.bias);
    if (row.element == no_element) return acc;
    return {as(acc, row.element, Rounding::nearest_even), row.element};
  }

  Value source(const Row& row) {
    if (!source_) source_ = graph_.tile("C", dtype_of(row.element));
    return *source_;
  }

  Handed scalars(const Row& row) {
    Handed product;
    for (int k = 0; k < row.count; ++k) {
      const Value s = scope_.operand({.dtype = dtype_of(row.element)}, "s");
      if (k == 0) product = {s, row.element};
      else product = arithmetic(row.trace(std::array{value_of(product), s}, {}), row.element);
    }
    return product;
  }

  // A result of arithmetic in an element type: rounded after each operation, as its own arithmetic would.
  static Handed arithmetic(const Value& value, Element element) {
    return {value, element, Rounding::nearest_even, dtype_of(element) == f32 || !is_float(element)};
  }

  Handed compute(const Row& row) {
    Handed result;
    std::vector<Value> parameters;
    for (int k = 0; k < row.count; ++k)
      parameters.push_back(scope_.operand({.role = Slot::Role::parameter, .dtype = dtype_of(row.compute)}, "p"));
    if (without_source(row)) {
      result = {as(input(row, 2), row.compute, row.round), row.compute};
    } else {
      std::vector<Value> x;
      for (int k = 0; k < row.input_count; ++k) {
        if (row.takes_first && k > 0) {
          x.push_back(x[0]);
          continue;
        }
        const bool condition = row.last_is_condition && k + 1 == row.input_count;
        x.push_back(as(input(row, k), condition ? static_cast<Element>(boolean) : row.compute, row.round));
      }
      result = arithmetic(
          row.skips_source && is_scalar_[at(row.inputs[0])] ? scaled(x[0], x[1]) + x[2] : row.trace(x, parameters),
          row.compute);
      if (row.stores_mask && !mask_name_.empty()) store_mask(x[0], value_of(result));
    }
    if (row.result == row.compute) return result;
    if (embeds(row.compute, row.result)) return {value_of(result), row.result};
    return {value_of(result), row.result, row.round, false};
  }

  // What an output of this element type must be given: it rounds to nearest even itself.
  static Value stored_value(Handed& x, Element element) {
    const bool rounds_itself = !x.rounded && x.element == element && x.round == Rounding::nearest_even;
    return rounds_itself ? x.value : value_of(x);
  }
  void store(const std::string& name, Handed& x, Element element, Rounding round) {
    const bool nearest = round == Rounding::nearest_even || x.element == element;
    const Value value = nearest ? stored_value(x, element) : as(x, element, round);
    graph_.output(name, scope_.spread(value, tile_axes), dtype_of(element));
  }

  Handed stored(int i) {
    const Row& row = d_.rows[i];
    Handed& x = input(row, 0);
    scope_.slot(
        {.role = Slot::Role::store, .axes = tile_axes, .dtype = dtype_of(row.element), .may_be_null = row.may_be_null},
        "aux");
    if (scope_.use() == Form::absent) slots_.back().name.clear();
    else if (mask_of_[at(i)] < 0) store(slots_.back().name, x, row.element, row.round);
    else mask_name_ = slots_.back().name;
    return x;
  }

  // Where the function above a store of booleans changes nothing, or has a NaN.
  void store_mask(const Value& x, const Value& y) {
    graph_.output(std::exchange(mask_name_, {}), (y == x) | (x != x), boolean);
  }

  Handed reduced(const Row& row) {
    const Axes left = tile_axes - row.axes;
    scope_.slot({.role = Slot::Role::reduction,
                 .axes = row.group ? tile_axes : left,
                 .dtype = dtype_of(row.element),
                 .may_be_null = row.may_be_null,
                 .family = row.family,
                 .compute = dtype_of(row.compute),
                 .group = row.group},
                prefix_of(left));
    const std::size_t slot = slots_.size() - 1;
    if (scope_.use() == Form::absent) {
      slots_.back().name.clear();
      return input(row, 0);
    }
    const double identity = form_.identities.empty() ? 0 : form_.identities[slot];
    const ReduceOptions options{.group = row.group, .batch = scope_.use() == Form::across_batch};
    Handed result = arithmetic(over(row, identity, options), row.compute);
    if (result.element != row.element && !embeds(result.element, row.element))
      result = {value_of(result), row.element, row.round, false};
    graph_.output(slots_.back().name, stored_value(result, row.element), dtype_of(row.element));
    return input(row, 0);
  }

  Value over(const Row& row, double identity, const ReduceOptions& options) {
    std::vector<Value> x;
    if (row.trace) x.push_back(identity);
    for (int k = 0; k < row.input_count; ++k) x.push_back(as(input(row, k), row.compute, row.round));
    Value v = scope_.spread(row.trace ? row.trace(x, {}) : row.absolute ? abs(x[0]) : x[0], tile_axes);
    switch (row.family) {
      case Family::sum: return sum(v, row.axes, options);
      case Family::prod: return prod(v, row.axes, options);
      case Family::max:
        if (row.drops_nan) v = where(v != v, -infinity, v);
        v = max(v, row.axes, options);
        return identity == -infinity ? v : max(v, identity);
      case Family::min:
        if (row.drops_nan) v = where(v != v, infinity, v);
        v = min(v, row.axes, options);
        return identity == infinity ? v : min(v, identity);
      case Family::other: break;
    }
    const Combine combine = [&](std::span<const Value> a, std::span<const Value> b) {
      return std::vector<Value>{row.combine(std::array{a[0], b[0]}, {})};
    };
    return reduce(std::array{v}, combine, std::array{identity}, row.axes, options)[0];
  }

  const Description& d_;
  const Form& form_;
  GraphBuilder graph_;
  std::vector<Slot> slots_;
  Scope::State scope_{.graph = graph_, .form = form_, .slots = slots_};
  std::vector<Handed> handed_;
  std::vector<bool> used_, is_scalar_;
  std::vector<int> mask_of_;  // the row of the function over a store of booleans; -1
  std::string mask_name_;     // of its output, until that function is computed
  std::optional<Value> source_;
};

}  // namespace

Built build(const Description& description, const Form& form) { return Builder(description, form).run(); }

Graph make_graph(const Description& description) {
  return build(description, {.accumulator = description.accumulator}).graph;
}

std::size_t given_count(const Row& row) {
  switch (row.kind) {
    case Row::Kind::scalars:
    case Row::Kind::compute: return static_cast<std::size_t>(row.count);
    case Row::Kind::operand:
    case Row::Kind::store:
    case Row::Kind::reduce:
    case Row::Kind::own: return 1;
    default: return 0;
  }
}

std::vector<Given> expand(const Description& description, const Giving& giving) {
  std::vector<Given> all;
  std::size_t next = 0;
  for (int i = 0; i < description.count; ++i) {
    const Row& row = description.rows[i];
    if (row.kind == Row::Kind::own) {
      GraphBuilder scratch;
      std::vector<Slot> unused;
      const Form form;
      Scope::State state{.graph = scratch, .form = form, .slots = unused, .collected = &all};
      Scope scope(state);
      const std::vector<Value> inputs(static_cast<std::size_t>(row.input_count), scratch.accumulator());
      static_cast<void>(row.own(scope, giving.at(next++).data, inputs));
      continue;
    }
    for (std::size_t k = 0; k < given_count(row); ++k) all.push_back(giving.at(next++));
  }
  return all;
}

}  // namespace detail
}  // namespace postlude::inline v0::evt
