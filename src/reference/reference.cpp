#include "reference/reference.h"

#include "core/convert.h"
#include "core/philox.h"
#include "core/threads.h"
#include "graph/ir/equal.h"
#include "graph/ir/extents.h"
#include "graph/ir/typing.h"
#include "graph/ir/verify.h"
#include "reference/body.h"
#include "reference/product.h"
#include "reference/reduce.h"

#include <algorithm>
#include <mutex>
#include <optional>

namespace postlude::inline v0::reference {

namespace {

using Extents = std::array<std::int64_t, 3>;  // b, m, n; 1 along an axis that a value lacks

std::int64_t count(const Extents& e) { return e[0] * e[1] * e[2]; }

struct Value {
  DType type = DType::f32;
  Extents extents{1, 1, 1};
  std::vector<Cell> cells;
  std::unordered_map<std::int64_t, std::vector<std::int64_t>> candidates;  // as in Output

  // Broadcasting: an axis that the value lacks has stride 0.
  [[nodiscard]] std::int64_t offset(std::int64_t b, std::int64_t m, std::int64_t n) const {
    return ((extents[0] == 1 ? 0 : b) * extents[1] + (extents[1] == 1 ? 0 : m)) * extents[2] +
           (extents[2] == 1 ? 0 : n);
  }
  [[nodiscard]] const Cell& at(std::int64_t b, std::int64_t m, std::int64_t n) const {
    return cells[static_cast<std::size_t>(offset(b, m, n))];
  }
};

constexpr std::int64_t worth_a_thread = 4096;  // elements

// Calls f(b, m) for every row of a value, in parallel where it is worth it. Exceptions pass.
template <class F>
void for_rows(const Extents& e, F f) {
  const std::int64_t grain = std::max<std::int64_t>(1, worth_a_thread / std::max<std::int64_t>(1, e[2]));
  core::parallel_for(e[0] * e[1], grain, [&](std::int64_t i) { f(i / e[1], i % e[1]); });
}

class Evaluator {
 public:
  Evaluator(const GraphData& graph, const Problem& problem, const Bindings& bindings, const Options& options)
      : graph_(graph),
        loop_(problem.loop()),
        facts_(loop_.facts()),
        bindings_(bindings),
        options_(options),
        shape_(bindings.shape),
        inference_(verify(graph, facts_.accumulator, facts_.operand)),
        numbers_(number_values(graph)) {}

  Evaluation run() {
    check_shapes();
    find_uses();
    values_.resize(graph_.nodes.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      types_.push_back(type_state(i));
      if (uses_[i] == 0) continue;
      evaluate(static_cast<NodeId>(i));
      for (const NodeId a : graph_.nodes[i].args) release(a);
    }
    Evaluation result;
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) result.push_back(output(i));
    return result;
  }

 private:
  const GraphData& graph_;
  const MainLoop& loop_;
  Facts facts_;
  const Bindings& bindings_;
  Options options_;
  Shape shape_;
  Inference inference_;
  std::vector<int> numbers_;  // the same for equal values
  Typing typing_;
  std::vector<TypeState> types_;
  std::vector<std::int32_t> uses_;  // by living nodes and outputs
  std::vector<std::optional<Value>> values_;
  std::unordered_map<NodeId, std::vector<Value>> components_;  // of general reductions

  [[nodiscard]] const Node& node(NodeId id) const { return graph_.nodes[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const Value& value(NodeId id) const { return *values_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const ValueInfo& info_of(NodeId id) const { return inference_.values[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const TypeState& type(NodeId id) const { return types_[static_cast<std::size_t>(id)]; }

  void check_shapes() const {
    for (const Divisibility& rule : inference_.divisibility) {
      const std::int64_t columns = rule.columns.at(shape_.n);
      if (columns % rule.divisor == 0) continue;
      throw Error(ErrorCode::indivisible,
                  std::to_string(columns) + " columns are not divisible by " + std::to_string(rule.divisor),
                  "Choose N so that they are.", locate(graph_, node(rule.node).span));
    }
  }

  TypeState type_state(std::size_t i) const {
    const ValueInfo& v = inference_.values[i];
    if (graph_.nodes[i].op == Op::constant) return literal_type(graph_.nodes[i].literal);
    return {v.type, v.literal, false};
  }

  void find_uses() {
    uses_.assign(graph_.nodes.size(), 0);
    for (const OutputDecl& o : graph_.outputs) ++uses_[static_cast<std::size_t>(o.value)];
    for (std::size_t i = graph_.nodes.size(); i-- > 0;)
      if (uses_[i] != 0)
        for (const NodeId a : graph_.nodes[i].args) ++uses_[static_cast<std::size_t>(a)];
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)  // never released
      if (const NodeId x = deviating(graph_.nodes[i]); x >= 0 && uses_[i] != 0) ++uses_[static_cast<std::size_t>(x)];
  }

  void release(NodeId id) {
    if (--uses_[static_cast<std::size_t>(id)] != 0) return;
    values_[static_cast<std::size_t>(id)].reset();
    components_.erase(id);
  }

  Extents extents(NodeId id) const {
    const ValueInfo& v = info_of(id);
    return {v.axes.has(Axis::b) ? shape_.batch : 1, v.axes.has(Axis::m) ? v.rows.at(shape_.m) : 1,
            v.axes.has(Axis::n) ? v.columns.at(shape_.n) : 1};
  }

  // The cells of a value of the node's extents, each from its place.
  template <class F>
  Value fill(NodeId id, F f) const {
    Value v;
    v.type = *info_of(id).type;
    v.extents = extents(id);
    v.cells.resize(static_cast<std::size_t>(count(v.extents)));
    for_rows(v.extents, [&](std::int64_t b, std::int64_t m) {
      Cell* row = v.cells.data() + (b * v.extents[1] + m) * v.extents[2];
      for (std::int64_t n = 0; n < v.extents[2]; ++n) row[n] = f(Place{b, m, n});
    });
    return v;
  }

  void evaluate(NodeId id) {
    const Node& x = node(id);
    auto& result = values_[static_cast<std::size_t>(id)];
    if (is_elementwise(x.op)) result = elementwise(id);
    else if (x.op == Op::call) result = call(id);
    else if (x.op == Op::reduce) result = reduction(id);
    else if (x.op == Op::get) result = components_.at(x.args[0])[static_cast<std::size_t>(x.index)];
    else if (x.args.empty()) result = leaf(id);
    else result = moved(id);
  }

  // ---- leaves
  Value leaf(NodeId id) const {
    const Node& x = node(id);
    switch (x.op) {
      case Op::constant: return fill(id, [&](const Place&) { return constant(x.literal, x.literal.type); });
      case Op::m_index: return fill(id, [](const Place& p) { return cell(point(p.m)); });
      case Op::n_index: return fill(id, [](const Place& p) { return cell(point(p.n)); });
      case Op::batch_index: return fill(id, [](const Place& p) { return cell(point(p.b)); });
      case Op::z_index: return pixel(id, 0);
      case Op::p_index: return pixel(id, 1);
      case Op::q_index: return pixel(id, 2);
      case Op::random:
        return fill(id, [&](const Place& p) {
          return cell(point(static_cast<double>(core::random_uniform(x.seed, x.random_stream, p.b, p.m, p.n))));
        });
      case Op::operand: return loaded(id, bindings_.buffers[static_cast<std::size_t>(x.index)]);
      default: break;
    }
    if (facts_.source) return accumulator(id);
    Value v;
    v.type = *info_of(id).type;
    v.extents = extents(id);
    v.cells = product(loop_, bindings_, v.type != DType::f32, options_.accumulator);
    return v;
  }

  // A coordinate of the pixel that a row is.
  [[nodiscard]] Value pixel(NodeId id, std::size_t axis) const {
    if (facts_.pixels == 0) throw no_pixels(graph_, id);
    const std::array<std::int64_t, 3> extents = loop_.pixels(bindings_.inputs);
    std::int64_t inner = 1;
    for (std::size_t i = axis + 1; i < 3; ++i) inner *= extents[i];
    // Rows beyond the last pixel, which an index in groups of rows may have, count on along the outermost axis.
    const bool outermost = axis + static_cast<std::size_t>(facts_.pixels) == 3;
    return fill(id, [=](const Place& p) {
      const std::int64_t outer = p.m / inner;
      return cell(point(outermost ? outer : outer % extents[axis]));
    });
  }

  static Cell loaded(DType dtype, const void* data, std::int64_t at) {
    if (is_float(dtype)) return cell(point(core::load_real(dtype, data, at)));
    return cell(point(core::load_integer(dtype, data, at)));
  }
  Value loaded(NodeId id, const Bound& x) const {
    return fill(id, [&](const Place& p) {
      return loaded(x.dtype, x.data, p.b * x.strides[0] + p.m * x.strides[1] + p.n * x.strides[2]);
    });
  }
  // Of a main loop that multiplies nothing.
  Value accumulator(NodeId id) const {
    return fill(id, [&](const Place& p) {
      const auto element = loop_.element(MainLoop::Factor::accumulator, bindings_.inputs, p.b, 0, p.m, p.n).value();
      const Given& x = bindings_.inputs[element.input];
      return loaded(x.dtype, x.data, element.offset);
    });
  }

  // ---- elementwise
  std::vector<TypeState> argument_types(const Node& x) const {
    std::vector<TypeState> result;
    for (const NodeId a : x.args) result.push_back(type(a));
    return result;
  }

  // An argument at a place, in the type that its user works in.
  Cell argument(NodeId id, DType to, const Place& p) const {
    const Value& v = value(id);
    return convert(v.at(p.b, p.m, p.n), v.type, to);
  }

  Value elementwise(NodeId id) const {
    const Node& x = node(id);
    const auto types = argument_types(x);
    std::array<DType, 4> to{};
    for (std::size_t i = 0; i < types.size(); ++i) to[i] = argument_type(x, i, types);
    const Operation operation{&x, to[types.size() - 1], *info_of(id).type};
    return fill(id, [&](const Place& p) {
      std::array<Cell, 4> args;
      for (std::size_t i = 0; i < types.size(); ++i) args[i] = argument(x.args[i], to[i], p);
      return apply(operation, std::span(args).first(types.size()), p);
    });
  }

  Value call(NodeId id) {
    const Node& x = node(id);
    const auto types = argument_types(x);
    const Body body(x, types, *info_of(id).type, typing_);
    std::vector<DType> to;
    for (std::size_t i = 0; i < types.size(); ++i) to.push_back(argument_type(x, i, types));
    return fill(id, [&](const Place& p) {
      thread_local std::vector<Cell> args, scratch;
      args.resize(to.size());
      for (std::size_t i = 0; i < to.size(); ++i) args[i] = argument(x.args[i], to[i], p);
      Cell result;
      body.run(args, p, scratch, {&result, 1});
      return result;
    });
  }

  // ---- shape
  Value moved(NodeId id) const {
    const Node& x = node(id);
    const DType type = *info_of(id).type;
    const NodeId first = x.args[0];
    if (x.op == Op::repeat) {
      const bool columns = x.axes.has(Axis::n);
      return fill(id, [&](Place p) {
        (columns ? p.n : p.m) /= x.group;
        return argument(first, type, p);
      });
    }
    // Every `group` columns are k blocks side by side.
    const std::int64_t whole = x.op == Op::chunk ? value(first).extents[2] : extents(id)[2];
    const std::int64_t k = x.op == Op::chunk ? x.pieces : static_cast<std::int64_t>(x.args.size());
    const std::int64_t group = x.group > 0 ? x.group : whole, block = std::max<std::int64_t>(group / k, 1);
    if (x.op == Op::chunk) {
      return fill(id, [&](Place p) {
        p.n = p.n / block * group + x.index * block + p.n % block;
        return argument(first, type, p);
      });
    }
    return fill(id, [&](Place p) {
      const std::int64_t in_group = p.n % group;
      p.n = p.n / group * block + in_group % block;
      return argument(x.args[static_cast<std::size_t>(in_group / block)], type, p);
    });
  }

  // ---- reductions
  // The argument of a cast to the type that it already has, else the value itself.
  [[nodiscard]] NodeId uncast(NodeId id) const {
    while (node(id).op == Op::cast && node(id).dtype == info_of(node(id).args[0]).type) id = node(id).args[0];
    return id;
  }

  // The x of mean((x - mean(x)) ** 2), which by contract may be var(x), or of the sum, which may be var(x) times its
  // elements; else -1. A grouped mean is repeated.
  [[nodiscard]] NodeId deviating(const Node& mean) const {
    const auto is_mean = [](const Node& n) { return n.op == Op::reduce && n.reduction == ReduceOp::mean; };
    const auto same = [&](NodeId a, NodeId b) {
      return numbers_[static_cast<std::size_t>(a)] == numbers_[static_cast<std::size_t>(b)];
    };
    if (!is_mean(mean) && !(mean.op == Op::reduce && mean.reduction == ReduceOp::sum)) return -1;
    const Node& square = node(uncast(mean.args[0]));
    if (square.op != Op::mul && square.op != Op::pow) return -1;
    const NodeId d = uncast(square.args[0]), other = uncast(square.args[1]);
    const bool two = node(other).op == Op::constant && constant(node(other).literal, DType::f32).real.value == 2;
    if (node(d).op != Op::sub || !(square.op == Op::mul ? same(d, other) : two)) return -1;
    const NodeId x = uncast(node(d).args[0]);
    const Node& laid = node(uncast(node(d).args[1]));
    const bool grouped = laid.op == Op::repeat && laid.group == mean.group;
    if (grouped != (mean.group > 0)) return -1;
    const Node& centre = grouped ? node(uncast(laid.args[0])) : laid;
    return is_mean(centre) && centre.axes == mean.axes && centre.group == mean.group && same(uncast(centre.args[0]), x)
               ? x
               : -1;
  }

  // Whether a value is an exponential, or a product or quotient of one: a sum of such may be carried along with a
  // maximum.
  [[nodiscard]] bool has_exponential(NodeId id, int deep = 0) const {
    const Node& x = node(uncast(id));
    if (x.op == Op::exp) return true;
    if (deep > 6 || (x.op != Op::mul && x.op != Op::div && x.op != Op::pow)) return false;
    return has_exponential(x.args[0], deep + 1) || (x.op == Op::mul && has_exponential(x.args[1], deep + 1));
  }

  // The type in which a reduction takes its elements.
  static DType element_type(const Node& x, const TypeState& arg) {
    switch (x.reduction) {
      case ReduceOp::any:
      case ReduceOp::all: return *arg.type;
      case ReduceOp::mean:  // a sum of 64-bit integers may wrap, and a mean lies between its elements
        if (const DType type = *promote({&arg, 1}).type; type != DType::i64) return type;
        return DType::f32;
      case ReduceOp::logsumexp:
      case ReduceOp::var:
      case ReduceOp::norm: return DType::f32;
      case ReduceOp::custom: return arg.type == DType::boolean ? DType::boolean : *promote({&arg, 1}).type;
      default: return *promote({&arg, 1}).type;
    }
  }

  struct Combiner {
    Body body;
    std::vector<Cell> identity;
  };
  Combiner combiner_of(const Node& x, const std::vector<DType>& types) {
    Combiner made;
    std::vector<TypeState> parameters;
    for (std::size_t i = 0; i < 2 * types.size(); ++i) parameters.push_back({types[i % types.size()], false, false});
    made.body = Body(*x.combine, parameters, types, typing_);
    for (std::size_t i = 0; i < types.size(); ++i)
      made.identity.push_back(cast(cell(point(x.identity[i])), DType::f32, types[i]));
    return made;
  }

  // The parts of a whole value's axes b, m and n that one result takes in.
  using Ranges = std::array<std::pair<std::int64_t, std::int64_t>, 3>;
  static Ranges ranges(const Node& x, const Extents& whole, const std::array<std::int64_t, 3>& result) {
    constexpr Axis axes[] = {Axis::b, Axis::m, Axis::n};
    Ranges taken;
    for (std::size_t at = 0; at < 3; ++at) {
      const std::int64_t i = result[at];
      if (!x.axes.has(axes[at])) taken[at] = {i, i + 1};
      else if (x.group == 0 || axes[at] == Axis::b) taken[at] = {0, whole[at]};
      else taken[at] = {i * x.group, std::min((i + 1) * x.group, whole[at])};
    }
    return taken;
  }

  // An index counts along the reduced axes of the whole value, batches first, then rows, then columns.
  static std::int64_t flat_index(const Node& x, const Extents& whole, const Ranges& taken, std::int64_t element) {
    if (element < 0) return element;
    const auto [bs, ms, ns] = taken;
    const std::int64_t columns = ns.second - ns.first, rows = ms.second - ms.first;
    std::int64_t at = 0;
    if (x.axes.has(Axis::b)) at = bs.first + element / columns / rows;
    if (x.axes.has(Axis::m)) at = at * whole[1] + ms.first + element / columns % rows;
    if (x.axes.has(Axis::n)) at = at * whole[2] + ns.first + element % columns;
    return at;
  }

  Value reduction(NodeId id) {
    const Node& x = node(id);
    std::vector<DType> from;
    Extents whole{1, 1, 1};
    for (const NodeId a : x.args) {
      from.push_back(element_type(x, type(a)));
      for (std::size_t axis = 0; axis < 3; ++axis)
        if (value(a).extents[axis] != 1) whole[axis] = value(a).extents[axis];
    }
    const bool custom = x.reduction == ReduceOp::custom,
               extreme = x.reduction == ReduceOp::argmax || x.reduction == ReduceOp::argmin;
    const Combiner combiner = custom ? combiner_of(x, from) : Combiner();
    Reducing reducing{x.reduction, from[0], custom ? from[0] : *info_of(id).type, false, false};
    const auto varies = [&](const Node& n) {
      return (n.op == Op::reduce && n.reduction == ReduceOp::var) || deviating(n) >= 0;
    };
    reducing.welford = x.reduction == ReduceOp::mean && std::any_of(graph_.nodes.begin(), graph_.nodes.end(), varies);
    reducing.online = has_exponential(x.args[0]);
    const NodeId deviated = deviating(x);

    const Extents e = extents(id);
    std::vector<Value> results(from.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      results[i].type = custom ? from[i] : *info_of(id).type;
      results[i].extents = e;
      results[i].cells.resize(static_cast<std::size_t>(count(e)));
    }
    std::mutex several;  // guards candidates
    const auto reduce_one = [&](std::int64_t b, std::int64_t m, std::int64_t n) {
      thread_local std::vector<Cell> elements;
      const Ranges taken = ranges(x, whole, {b, m, n});
      const auto &bs = taken[0], &ms = taken[1], &ns = taken[2];
      const auto gather = [&](std::span<const NodeId> of) {
        elements.clear();
        for (std::int64_t i = bs.first; i < bs.second; ++i)
          for (std::int64_t j = ms.first; j < ms.second; ++j)
            for (std::int64_t k = ns.first; k < ns.second; ++k)
              for (std::size_t a = 0; a < of.size(); ++a) elements.push_back(argument(of[a], from[a], {i, j, k}));
      };
      gather(x.args);
      const std::int64_t at = (b * e[1] + m) * e[2] + n;
      const auto index = static_cast<std::size_t>(at);
      if (custom) {
        const auto out = reduce_custom(combiner.body, combiner.identity, from, elements);
        for (std::size_t a = 0; a < out.size(); ++a) results[a].cells[index] = out[a];
      } else if (extreme) {
        std::vector<std::int64_t> candidates;
        const auto flat = [&](std::int64_t element) { return flat_index(x, whole, taken, element); };
        const Whole best = index_of_extreme(x.reduction == ReduceOp::argmax, from[0], elements, candidates);
        for (std::int64_t& c : candidates) c = flat(c);
        results[0].cells[index] = cell(Whole{flat(best.value), flat(best.low), flat(best.high)});
        if (candidates.size() > 1) {
          const std::lock_guard lock(several);
          results[0].candidates[at] = std::move(candidates);
        }
      } else {
        results[0].cells[index] = reduce(reducing, elements);
        if (deviated < 0) return;
        const Real mean = results[0].cells[index].real;
        gather({&deviated, 1});
        Real variance = reduce({ReduceOp::var}, elements).real;
        if (x.reduction == ReduceOp::sum) variance = multiply(variance, point(static_cast<double>(elements.size())));
        results[0].cells[index] = cell(hull(mean, variance, mean.value));
      }
    };
    for_rows(e, [&](std::int64_t b, std::int64_t m) {
      for (std::int64_t n = 0; n < e[2]; ++n) reduce_one(b, m, n);
    });
    if (!custom) return std::move(results[0]);
    Value first = results[0];
    components_[id] = std::move(results);
    return first;
  }

  // ---- outputs
  Output output(std::size_t i) {
    const OutputDecl& declared = graph_.outputs[i];
    const Value& v = value(declared.value);
    Output result;
    result.name = declared.name;
    result.dtype = bindings_.buffers[graph_.operands.size() + i].dtype;
    result.extents = v.extents;
    result.candidates = v.candidates;
    result.cells.resize(v.cells.size());
    std::transform(v.cells.begin(), v.cells.end(), result.cells.begin(),
                   [&](const Cell& c) { return cast(c, v.type, result.dtype); });
    if (result.dtype != DType::i64 && result.dtype != DType::i32) result.candidates.clear();
    return result;
  }
};

// |x - y| of an output of integers, where a double might not hold both.
double distance(std::int64_t x, std::int64_t y) {
  const auto ux = static_cast<std::uint64_t>(x), uy = static_cast<std::uint64_t>(y);
  return static_cast<double>(x < y ? uy - ux : ux - uy);
}

// error / bound of one element; 0 for an exact match, at most 1 for what is right.
double ratio(const Output& expected, std::int64_t element, const Bound& actual, std::int64_t at) {
  const Cell& c = expected.cells[static_cast<std::size_t>(element)];
  if (is_float(expected.dtype)) {
    const double x = core::load_real(actual.dtype, actual.data, at);
    if (is_anything(c.real)) return 0;
    if (is_nan(c.real) || std::isnan(x)) return is_nan(c.real) && std::isnan(x) ? 0 : infinity;
    if (is_point(c.real)) return x == c.real.low && std::signbit(x) == std::signbit(c.real.low) ? 0 : infinity;
    if (x == c.real.value) return 0;
    if (x < c.real.low || x > c.real.high) {
      const double bound = expected.bound(element, x > c.real.value);
      return bound == 0 || std::isinf(bound) || std::isinf(x) ? infinity : std::abs(x - c.real.value) / bound;
    }
    const double bound = expected.bound(element, x > c.real.value);
    return std::isinf(bound) ? 0 : std::abs(x - c.real.value) / bound;
  }
  const std::int64_t x = core::load_integer(actual.dtype, actual.data, at);
  if (x == c.whole.value) return 0;
  if (x < c.whole.low || x > c.whole.high) {
    const double bound = expected.bound(element, x > c.whole.value);
    return bound == 0 ? infinity : distance(x, c.whole.value) / bound;
  }
  if (const auto it = expected.candidates.find(element); it != expected.candidates.end())
    return std::binary_search(it->second.begin(), it->second.end(), x) ? 1 : infinity;
  return distance(x, c.whole.value) / expected.bound(element, x > c.whole.value);
}

}  // namespace

double Output::value(std::int64_t element) const {
  const Cell& c = cells[static_cast<std::size_t>(element)];
  return is_float(dtype) ? c.real.value : static_cast<double>(c.whole.value);
}

double Output::bound(std::int64_t element, bool above) const {
  const Cell& c = cells[static_cast<std::size_t>(element)];
  if (!is_float(dtype)) return above ? distance(c.whole.high, c.whole.value) : distance(c.whole.low, c.whole.value);
  if (is_nan(c.real)) return 0;
  if (is_anything(c.real)) return infinity;
  const double end = above ? c.real.high : c.real.low;
  return end == c.real.value ? 0 : std::abs(end - c.real.value);
}

Evaluation evaluate(const GraphData& graph, const Problem& problem, const Bindings& bindings, const Options& options) {
  return Evaluator(graph, problem, bindings, options).run();
}

std::vector<Comparison> compare(const Evaluation& evaluation, const GraphData& graph, const Bindings& bindings) {
  std::vector<Comparison> result;
  for (std::size_t i = 0; i < evaluation.size(); ++i) {
    const Output& expected = evaluation[i];
    const Bound& actual = bindings.buffers[graph.operands.size() + i];
    Comparison c;
    c.output = expected.name;
    c.elements = count(expected.extents);
    double worst = -1;
    for (std::int64_t e = 0; e < c.elements; ++e) {
      const std::int64_t n = e % expected.extents[2], m = e / expected.extents[2] % expected.extents[1],
                         b = e / expected.extents[2] / expected.extents[1];
      const std::int64_t at = b * actual.strides[0] + m * actual.strides[1] + n * actual.strides[2];
      const double r = ratio(expected, e, actual, at);
      if (r <= worst) continue;
      worst = r;
      c.error_over_bound = r;
      c.worst[0] = b;
      c.worst[1] = m;
      c.worst[2] = n;
      c.value = core::load_real(actual.dtype, actual.data, at);
      c.expected = expected.value(e);
      c.bound = expected.bound(e, c.value > c.expected);
    }
    result.push_back(std::move(c));
  }
  return result;
}

std::vector<Comparison> compare(const GraphData& graph, const Problem& problem, const Bindings& bindings,
                                const Options& options) {
  return compare(evaluate(graph, problem, bindings, options), graph, bindings);
}

}  // namespace postlude::inline v0::reference
