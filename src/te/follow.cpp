// An epilogue of the language as stages behind a computed tensor.
#include "graph/ir/verify.h"
#include "te/expression.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace postlude::inline v0::te {
namespace {

class Following {
 public:
  Following(const Tensor& accumulator, const Graph& graph, const std::vector<std::pair<std::string, Tensor>>& operands,
            int columns)
      : accumulator_(accumulator), graph_(graph.data()), inference_(verify(graph_, DType::f32)) {
    const int rank = static_cast<int>(accumulator.shape().size());
    if (rank < 2)
      throw Error(ErrorCode::wrong_rank, quoted(accumulator.name()) + " has " + std::to_string(rank) +
                                             " axes, and an accumulator two or more");
    if (columns < -rank || columns >= rank)
      throw Error(ErrorCode::wrong_rank, quoted(accumulator.name()) + " has no axis " + std::to_string(columns));
    column_ = static_cast<std::size_t>(columns < 0 ? columns + rank : columns);
    for (const OperandDecl& declared : graph_.operands) {
      const auto found =
          std::find_if(operands.begin(), operands.end(), [&](const auto& x) { return x.first == declared.name; });
      if (found == operands.end())
        throw Error(ErrorCode::missing_operand, "the epilogue's operand " + quoted(declared.name) + " is not given");
      if (found->second.shape().size() != rank_of(declared.axes))
        throw Error(ErrorCode::wrong_rank, "the epilogue's operand " + quoted(declared.name) + " has " +
                                               std::to_string(rank_of(declared.axes)) + " axes, and " +
                                               quoted(found->second.name()) + " " +
                                               std::to_string(found->second.shape().size()));
      operands_.push_back(found->second);
    }
    for (const auto& given : operands) {
      const auto is = [&](const OperandDecl& declared) { return declared.name == given.first; };
      if (std::none_of(graph_.operands.begin(), graph_.operands.end(), is))
        throw Error(ErrorCode::unknown_operand, "the epilogue has no operand " + quoted(given.first));
    }
  }

  // One output's stage.
  Tensor output(const OutputDecl& declared) {
    const v0::Axes axes = axes_of(declared.value);
    const Tensor made = compute(
        shape(declared.value), [&](const Axes& at) { return value(declared.value, place(axes, at)); }, declared.name,
        declared.dtype);
    made.op().node()->is_within = true;
    return made;
  }
  std::vector<std::pair<Tensor, std::vector<Expr>>> operand_shapes() const {
    std::vector<std::pair<Tensor, std::vector<Expr>>> result;
    for (std::size_t i = 0; i < graph_.operands.size(); ++i) {
      result.emplace_back(operands_[i], std::vector<Expr>{});
      result.back().second = shape(graph_.operands[i].axes, inference_.operand_rows[i], inference_.operand_columns[i]);
    }
    return result;
  }
  [[nodiscard]] std::size_t column() const { return column_; }
  std::vector<std::pair<std::string, v0::Axes>> axes() const {
    std::vector<std::pair<std::string, v0::Axes>> result;
    for (const OperandDecl& declared : graph_.operands) result.emplace_back(declared.name, declared.axes - v0::Axis::b);
    for (const OutputDecl& declared : graph_.outputs) result.emplace_back(declared.name, axes_of(declared.value));
    return result;
  }
  // What a chunk wants of the columns: they are divisible.
  std::vector<std::pair<Expr, std::int64_t>> divisibility() const {
    std::vector<std::pair<Expr, std::int64_t>> result;
    for (const Divisibility& rule : inference_.divisibility)
      result.emplace_back(extent(rule.columns, v0::Axis::n), rule.divisor);
    return result;
  }

 private:
  // The row and the column of an element; empty along an axis that it lacks. `rows`: the indices of a row, one for each
  // axis of the accumulator but the columns; m is the last of them, and a row's number where there are two axes.
  struct Place {
    Expr m, n;
    std::map<NodeId, Expr> made{};
    std::vector<Expr> rows{};
  };

  static std::vector<v0::Axis> list(v0::Axes axes) {
    std::vector<v0::Axis> result;
    for (const v0::Axis axis : {v0::Axis::m, v0::Axis::n})
      if (axes.has(axis)) result.push_back(axis);
    return result;
  }
  // How many rows or columns a value has.
  Expr extent(const Extent& e, v0::Axis axis) const {
    const Expr& base = accumulator_.shape()[axis == v0::Axis::n ? column_ : column_ == 0 ? 1 : 0];
    return Expr(e.times) * (e.over == 1 ? base : floordiv(base + Expr(e.over - 1), Expr(e.over)));
  }
  Expr extent(NodeId id, v0::Axis axis) const {
    const ValueInfo& info = inference_.values[static_cast<std::size_t>(id)];
    return extent(axis == v0::Axis::m ? info.rows : info.columns, axis);
  }
  [[nodiscard]] bool is_matrix() const { return accumulator_.shape().size() == 2; }
  [[nodiscard]] std::size_t rank_of(v0::Axes axes) const {
    return (axes.has(v0::Axis::m) ? accumulator_.shape().size() - 1 : 0) + (axes.has(v0::Axis::n) ? 1 : 0);
  }
  // In the order of the accumulator's axes.
  std::vector<Expr> shape(v0::Axes axes, const Extent& rows, const Extent& columns) const {
    std::vector<Expr> result;
    for (std::size_t d = 0; d < accumulator_.shape().size(); ++d) {
      if (d == column_ && axes.has(v0::Axis::n)) result.push_back(extent(columns, v0::Axis::n));
      else if (d != column_ && axes.has(v0::Axis::m))
        result.push_back(is_matrix() ? extent(rows, v0::Axis::m) : accumulator_.shape()[d]);
    }
    return result;
  }
  std::vector<Expr> shape(NodeId id) const {
    const ValueInfo& info = inference_.values[static_cast<std::size_t>(id)];
    return shape(axes_of(id), info.rows, info.columns);
  }
  v0::Axes axes_of(NodeId id) const { return inference_.values[static_cast<std::size_t>(id)].axes - v0::Axis::b; }
  [[nodiscard]] Place place(v0::Axes axes, const Axes& at) const {
    Place result;
    std::size_t next = 0;
    for (std::size_t d = 0; d < accumulator_.shape().size(); ++d) {
      if (d == column_ && axes.has(v0::Axis::n)) result.n = at[next++];
      else if (d != column_ && axes.has(v0::Axis::m)) result.rows.emplace_back(result.m = at[next++]);
    }
    return result;
  }

  [[noreturn]] static void refuse_node(const Node& node) {
    throw Error(ErrorCode::unsupported, "an epilogue behind loops has no " + quoted(std::string(info(node.op).id)));
  }

  Expr value(NodeId id, Place at) { return value_at(id, at); }
  Expr value_at(NodeId id, Place& at) {
    if (const auto found = at.made.find(id); found != at.made.end()) return found->second;
    const Expr result = made_value(id, at);
    at.made[id] = result;
    return result;
  }
  Expr made_value(NodeId id, Place& at) {
    const Node& node = graph_.nodes[static_cast<std::size_t>(id)];
    const bool numbers_rows = node.op == Op::m_index || node.op == Op::batch_index || node.op == Op::random ||
                              node.round == Round::stochastic ||
                              ((node.op == Op::reduce || node.op == Op::repeat) && node.axes.has(v0::Axis::m));
    if (!is_matrix() && numbers_rows)
      throw Error(ErrorCode::unsupported,
                  quoted(accumulator_.name()) + " has " + std::to_string(accumulator_.shape().size()) +
                      " axes: its rows have no number for " + quoted(std::string(info(node.op).id)),
                  "Describe it as a matrix, or by te.compute.");
    switch (node.op) {
      case Op::constant: return constant(node.literal, true);
      case Op::acc: return element(accumulator_, v0::Axis::m | v0::Axis::n, at);
      case Op::operand:
        return element(operands_[static_cast<std::size_t>(node.index)],
                       graph_.operands[static_cast<std::size_t>(node.index)].axes, at);
      case Op::m_index: return converted(at.m, DType::i32);
      case Op::n_index: return converted(at.n, DType::i32);
      case Op::batch_index: return constant({DType::i32, 0, 0});
      case Op::random: return drawn(id, node, at);
      case Op::chunk: return chunked(node, at);
      case Op::concat: return concatenated(id, node, at);
      case Op::repeat: {
        Expr& along = node.axes.has(v0::Axis::m) ? at.m : at.n;
        return value(node.args[0], moved(at, node.axes, floordiv(along, Expr(node.group))));
      }
      case Op::reduce: return reduced(id, node, at, 0);
      case Op::get: {
        const auto& general = graph_.nodes[static_cast<std::size_t>(node.args[0])];
        return reduced(node.args[0], general, at, static_cast<std::size_t>(node.index));
      }
      default: break;
    }
    std::vector<Expr> args;
    for (const NodeId arg : node.args) args.push_back(value_at(arg, at));
    if (node.op == Op::call) return te::apply(node.function->name, args);
    if (!is_elementwise(node.op)) refuse_node(node);
    if (node.round == Round::stochastic) return rounded_by(args[0], node.dtype, drawn(id, node, at));
    return operation(node.op, args, node.dtype, node.round);
  }

  // The same element's place where an argument has others.
  static Place moved(const Place& at, v0::Axes axis, const Expr& to) {
    Place result{at.m, at.n, {}, at.rows};
    (axis.has(v0::Axis::m) ? result.m : result.n) = to;
    if (axis.has(v0::Axis::m)) result.rows.assign(1, to);
    return result;
  }
  // A random number by its coordinates; along an axis that its value lacks they are 0.
  Expr drawn(NodeId id, const Node& node, const Place& at) const {
    const v0::Axes axes = axes_of(id);
    return random_at(node.seed, node.op == Op::random ? node.random_stream : 0, axes.has(v0::Axis::m) ? at.m : Expr(0),
                     axes.has(v0::Axis::n) ? at.n : Expr(0));
  }
  Expr chunked(const Node& node, const Place& at) {
    const NodeId arg = node.args[0];
    const Expr index = node.index;
    if (node.group == 0) {
      const Expr block = floordiv(extent(arg, v0::Axis::n), Expr(node.pieces));
      return value(arg, moved(at, v0::Axis::n, index * block + at.n));
    }
    const std::int64_t block = node.group / node.pieces;
    const Expr group = floordiv(at.n, Expr(block));
    return value(arg, moved(at, v0::Axis::n, group * Expr(node.group - block) + index * Expr(block) + at.n));
  }
  Expr concatenated(NodeId id, const Node& node, const Place& at) {
    const auto pieces = static_cast<std::int64_t>(node.args.size());
    const Expr whole = node.group ? Expr(node.group) : extent(id, v0::Axis::n), block = floordiv(whole, Expr(pieces)),
               group = node.group ? floordiv(at.n, whole) : Expr(0), within = at.n - group * whole;
    Expr result;
    for (std::int64_t i = pieces; i-- > 0;) {
      const Expr piece = value(node.args[static_cast<std::size_t>(i)],
                               moved(at, v0::Axis::n, group * block + within - Expr(i) * block));
      result = result.empty() ? piece : te::apply("where", {within < Expr(i + 1) * block, piece, result});
    }
    return result;
  }

  [[nodiscard]] Expr element(const Tensor& tensor, v0::Axes axes, const Place& at) const {
    std::vector<Expr> index;
    std::size_t row = 0;
    for (std::size_t d = 0; d < accumulator_.shape().size(); ++d) {
      if (d == column_ && axes.has(v0::Axis::n)) index.push_back(at.n);
      else if (d != column_ && axes.has(v0::Axis::m)) index.push_back(at.rows[row++]);
    }
    return tensor.at(index);
  }

  // An element's value, and the place of the result that it belongs to.
  using Element = std::function<Expr(Place, const Place& result)>;
  using Reduce = std::function<std::vector<Expr>(const std::vector<Expr>&, const Axes&, const Expr& where)>;
  // A stage that reduces elements: for each result all of them, or a group's.
  std::vector<Tensor> stage(const std::string& name, NodeId id, const std::vector<Element>& elements,
                            const Reduce& reduce) {
    const Node& node = graph_.nodes[static_cast<std::size_t>(id)];
    const v0::Axes kept = axes_of(id);
    std::vector<Tensor> made = compute_several(
        shape(id),
        [&](const Axes& at) {
          const Place result = place(kept, at);
          Place here = result;
          Axes reduced;
          Expr where;
          for (const v0::Axis axis : list(node.axes)) {
            const bool rows = axis == v0::Axis::m;
            const Expr whole = extent(node.args[0], axis);
            reduced.push_back(reduce_axis(0, node.group ? Expr(node.group) : whole, rows ? "row" : "column"));
            Expr& along = rows ? here.m : here.n;
            along = node.group ? along * Expr(node.group) + reduced.back() : Expr(reduced.back());
            if (rows) here.rows.assign(1, along);
            if (node.group) where = both(where, along < whole);
          }
          std::vector<Expr> values;
          for (const Element& element : elements) values.push_back(element(here, result));
          return reduce(values, reduced, where);
        },
        name);
    made[0].op().node()->is_within = true;
    return made;
  }

  // How many elements a result takes in.
  Expr count(NodeId id, const Place& at) const {
    const Node& node = graph_.nodes[static_cast<std::size_t>(id)];
    Expr product = 1;
    for (const v0::Axis axis : list(node.axes)) {
      const Expr whole = extent(node.args[0], axis), &group = axis == v0::Axis::m ? at.m : at.n;
      product =
          product * (node.group ? operation(Op::min, {Expr(node.group), whole - group * Expr(node.group)}) : whole);
    }
    return converted(product, DType::f32);
  }
  // An index among a group's elements as one among all: rows, then columns.
  Expr flat_index(NodeId id, const Expr& index, const Place& at) const {
    const Node& node = graph_.nodes[static_cast<std::size_t>(id)];
    if (node.group == 0) return index;
    const bool both_axes = list(node.axes).size() == 2;
    const Expr group = node.group;
    Expr flat = index;
    if (both_axes) {
      const Expr row = floordiv(index, group);
      flat = (at.m * group + row) * extent(node.args[0], v0::Axis::n) + at.n * group + (index - row * group);
    } else {
      flat = (node.axes.has(v0::Axis::m) ? at.m : at.n) * group + index;
    }
    return te::apply("where", {index < Expr(0), index, flat});
  }

  Expr reduced(NodeId id, const Node& node, const Place& at, std::size_t component) {
    if (list(node.axes).empty()) refuse_node(node);
    const Element x = [this, &node](Place p, const Place&) { return value(node.args[0], std::move(p)); };
    const std::string name =
        node.name.empty() ? std::string(info(node.reduction).spelling) + std::to_string(id) : node.name;
    using Simple = Expr (*)(const Expr&, const Axes&, const Expr&);
    const auto simple = [&](const std::string& called, Simple f, const Element& of) {
      return stage(called, id, {of}, [f](const std::vector<Expr>& e, const Axes& axes, const Expr& where) {
        return std::vector<Expr>{f(e[0], axes, where)};
      });
    };
    const v0::Axes kept = axes_of(id);
    const auto read = [&](const Tensor& tensor) { return element(tensor, kept, at); };
    const auto f32_of = [x](Place p, const Place& result) { return converted(x(std::move(p), result), DType::f32); };
    auto& made = stages_[id];
    // The first or second stage of this reduction.
    const auto once = [&](std::size_t which, const auto& make) -> const std::vector<Tensor>& {
      while (made.size() <= which) made.emplace_back();
      if (made[which].empty()) {
        std::vector<Tensor> now = make();  // which may make other stages
        stages_[id][which] = std::move(now);
      }
      return stages_[id][which];
    };
    const auto first = [&](Simple f, const Element& of) {
      return read(once(0, [&] { return simple(name, f, of); })[0]);
    };
    switch (node.reduction) {
      case ReduceOp::sum: return first(sum, x);
      case ReduceOp::prod: return first(prod, x);
      case ReduceOp::min: return first(min, x);
      case ReduceOp::max: return first(max, x);
      case ReduceOp::any: return first(any, x);
      case ReduceOp::all: return first(all, x);
      case ReduceOp::argmax:
      case ReduceOp::argmin: {
        const auto f = node.reduction == ReduceOp::argmax ? argmax : argmin;
        const auto make = [&] {
          return stage(name, id, {x}, [f](const std::vector<Expr>& e, const Axes& axes, const Expr& where) {
            return f(e[0], axes, where);
          });
        };
        return flat_index(id, read(once(0, make)[0]), at);
      }
      case ReduceOp::mean: return first(sum, f32_of) / count(id, at);
      case ReduceOp::norm:
        return te::apply("sqrt", {first(sum, [&](Place p, const Place& result) {
                           const Expr e = f32_of(std::move(p), result);
                           return e * e;
                         })});
      case ReduceOp::logsumexp: {
        const Tensor largest = once(0, [&] { return simple(name + "_max", max, f32_of); })[0];
        const Tensor total = once(1, [&] {
          return simple(name, sum, [&](Place p, const Place& result) {
            const Expr top = element(largest, kept, result);
            return te::apply(
                "exp", {f32_of(std::move(p), result) - te::apply("where", {top == Expr(-HUGE_VAL), Expr(0.0), top})});
          });
        })[0];
        const Expr top = read(largest);
        return te::apply("where", {top == Expr(-HUGE_VAL), top, top + te::apply("log", {read(total)})});
      }
      case ReduceOp::var: {
        const Tensor total = once(0, [&] { return simple(name + "_sum", sum, f32_of); })[0];
        const Tensor squares = once(1, [&] {
          return simple(name, sum, [&](Place p, const Place& result) {
            const Expr d = f32_of(std::move(p), result) - element(total, kept, result) / count(id, result);
            return d * d;
          });
        })[0];
        return read(squares) / count(id, at);
      }
      case ReduceOp::custom: return read(once(0, [&] { return general(name, id, node); })[component]);
      default: refuse_node(node);
    }
  }

  // A combiner of the epilogue as a reducer of one's own.
  std::vector<Tensor> general(const std::string& name, NodeId id, const Node& node) {
    std::vector<Element> elements;
    for (const NodeId arg : node.args)
      elements.emplace_back([this, arg](Place p, const Place&) { return value(arg, std::move(p)); });
    const auto combine = [body = node.combine](const std::vector<Expr>& a, const std::vector<Expr>& b) {
      std::vector<Expr> made, results;
      for (const Node& x : body->nodes) {
        std::vector<Expr> args;
        for (const NodeId arg : x.args) args.push_back(made[static_cast<std::size_t>(arg)]);
        const auto parameter = static_cast<std::size_t>(x.index);
        if (x.op == Op::constant) made.push_back(constant(x.literal, true));
        else if (x.op == Op::parameter) made.push_back(parameter < a.size() ? a[parameter] : b[parameter - a.size()]);
        else if (x.op == Op::call) made.push_back(te::apply(x.function->name, args));
        else made.push_back(operation(x.op, args, x.dtype, x.round));
      }
      for (std::size_t i = 0; i < a.size(); ++i)
        results.push_back(converted(made[static_cast<std::size_t>(body->results[i])], a[i].type()));
      return results;
    };
    const auto identity = [values = node.identity](const std::vector<DType>& types) {
      std::vector<Expr> result;
      for (std::size_t i = 0; i < types.size(); ++i)
        result.push_back(converted(constant({DType::f32, values[i], 0}), types[i]));
      return result;
    };
    return stage(name, id, elements, comm_reducer(combine, identity, name));
  }

  Tensor accumulator_;
  const GraphData& graph_;
  std::vector<Tensor> operands_;
  Inference inference_;
  std::map<NodeId, std::vector<std::vector<Tensor>>> stages_;
  std::size_t column_ = 1;
};

}  // namespace

std::vector<Tensor> followed_by(const Tensor& accumulator, const Graph& epilogue,
                                const std::vector<std::pair<std::string, Tensor>>& operands, int columns) {
  Following following(accumulator, epilogue, operands, columns);
  std::vector<Tensor> outputs;
  const auto followed =
      std::make_shared<const Followed>(Followed{epilogue, accumulator, operands, following.divisibility(),
                                                following.operand_shapes(), following.column(), following.axes()});
  for (const OutputDecl& declared : epilogue.data().outputs) {
    outputs.push_back(following.output(declared));
    outputs.back().op().node()->followed = followed;
  }
  return outputs;
}

}  // namespace postlude::inline v0::te
