// An epilogue of the language as stages behind a computed matrix.
#include "te/expression.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace postlude::inline v0::te {
namespace {

class Following {
 public:
  Following(const Tensor& accumulator, const Graph& graph, const std::vector<std::pair<std::string, Tensor>>& operands)
      : accumulator_(accumulator), graph_(graph.data()) {
    if (accumulator.shape().size() != 2)
      throw Error(ErrorCode::wrong_rank, quoted(accumulator.name()) + " has " +
                                             std::to_string(accumulator.shape().size()) +
                                             " axes, and an accumulator two");
    for (const OperandDecl& declared : graph_.operands) {
      const auto found =
          std::find_if(operands.begin(), operands.end(), [&](const auto& x) { return x.first == declared.name; });
      if (found == operands.end())
        throw Error(ErrorCode::missing_operand, "the epilogue's operand " + quoted(declared.name) + " is not given");
      if (found->second.shape().size() != list(declared.axes).size())
        throw Error(ErrorCode::wrong_rank, "the epilogue's operand " + quoted(declared.name) + " has " +
                                               std::to_string(list(declared.axes).size()) + " axes, and " +
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
    const v0::Axes axes = axes_of_value(declared.value);
    return compute(
        shape(axes), [&](const Axes& at) { return value(declared.value, place(axes, at)); }, declared.name,
        declared.dtype);
  }

 private:
  // The row and the column of an element; empty along an axis that it lacks.
  struct Place {
    Expr m, n;
    std::map<NodeId, Expr> made{};
  };

  static std::vector<v0::Axis> list(v0::Axes axes) {
    std::vector<v0::Axis> result;
    for (const v0::Axis axis : {v0::Axis::m, v0::Axis::n})
      if (axes.has(axis)) result.push_back(axis);
    return result;
  }
  std::vector<Expr> shape(v0::Axes axes) const {
    std::vector<Expr> result;
    for (const v0::Axis axis : list(axes)) result.push_back(accumulator_.shape()[axis == v0::Axis::m ? 0 : 1]);
    return result;
  }
  static Place place(v0::Axes axes, const Axes& at) {
    Place result;
    std::size_t d = 0;
    if (axes.has(v0::Axis::m)) result.m = at[d++];
    if (axes.has(v0::Axis::n)) result.n = at[d++];
    return result;
  }

  v0::Axes axes_of_value(NodeId id) {
    if (const auto found = axes_.find(id); found != axes_.end()) return found->second;
    const Node& node = graph_.nodes[static_cast<std::size_t>(id)];
    v0::Axes axes;
    switch (node.op) {
      case Op::acc: axes = tile_axes; break;
      case Op::m_index: axes = v0::Axis::m; break;
      case Op::n_index: axes = v0::Axis::n; break;
      case Op::operand: axes = graph_.operands[static_cast<std::size_t>(node.index)].axes; break;
      default:
        for (const NodeId arg : node.args) axes = axes | axes_of_value(arg);
        if (node.op == Op::reduce) axes = axes - node.axes;
    }
    axes_[id] = axes;
    return axes;
  }

  [[noreturn]] static void refuse_node(const Node& node) {
    throw Error(ErrorCode::unsupported, "an epilogue behind loops has no " + quoted(std::string(info(node.op).id)),
                "Loops follow elementwise operations and reductions over whole axes.");
  }

  Expr value(NodeId id, Place at) { return value_at(id, at); }
  Expr value_at(NodeId id, Place& at) {
    if (const auto found = at.made.find(id); found != at.made.end()) return found->second;
    const Node& node = graph_.nodes[static_cast<std::size_t>(id)];
    std::vector<Expr> args;
    if (node.op != Op::reduce)
      for (const NodeId arg : node.args) args.push_back(value_at(arg, at));
    Expr result;
    switch (node.op) {
      case Op::constant: result = constant(node.literal, true); break;
      case Op::acc: result = accumulator_.at({at.m, at.n}); break;
      case Op::operand:
        result = element(operands_[static_cast<std::size_t>(node.index)],
                         graph_.operands[static_cast<std::size_t>(node.index)].axes, at);
        break;
      case Op::m_index: result = converted(at.m, DType::i32); break;
      case Op::n_index: result = converted(at.n, DType::i32); break;
      case Op::call: result = te::apply(node.function->name, args); break;
      case Op::reduce: result = reduced(id, node, at); break;
      default:
        if (!is_elementwise(node.op) || node.round == Round::stochastic) refuse_node(node);
        result = operation(node.op, args, node.dtype, node.round);
    }
    at.made[id] = result;
    return result;
  }

  static Expr element(const Tensor& tensor, v0::Axes axes, const Place& at) {
    std::vector<Expr> index;
    if (axes.has(v0::Axis::m)) index.push_back(at.m);
    if (axes.has(v0::Axis::n)) index.push_back(at.n);
    return tensor.at(index);
  }

  using Element = std::function<Expr(Place)>;
  // A stage that reduces elements over axes; the component wanted.
  Tensor stage(const std::string& name, v0::Axes kept, v0::Axes over, const Element& element,
               const std::function<std::vector<Expr>(const Expr&, const Axes&)>& reduce, std::size_t component) {
    return compute_several(
        shape(kept),
        [&](const Axes& at) {
          Place here = place(kept, at);
          Axes reduced;
          for (const v0::Axis axis : list(over)) {
            const bool rows = axis == v0::Axis::m;
            reduced.push_back(reduce_axis(0, accumulator_.shape()[rows ? 0 : 1], rows ? "row" : "column"));
            (rows ? here.m : here.n) = reduced.back();
          }
          return reduce(element(here), reduced);
        },
        name)[component];
  }

  Expr reduced(NodeId id, const Node& node, const Place& at) {
    if (node.group || node.axes.has(v0::Axis::b) || node.args.size() != 1) refuse_node(node);
    const NodeId arg = node.args[0];
    const v0::Axes kept = axes_of_value(id), over = node.axes;
    const Element x = [this, arg](Place p) { return value(arg, std::move(p)); };
    const std::string name =
        node.name.empty() ? std::string(info(node.reduction).spelling) + std::to_string(id) : node.name;
    using Reduce = Expr (*)(const Expr&, const Axes&, const Expr&);
    const auto simple = [&](const std::string& called, Reduce f, const Element& of) {
      return stage(
          called, kept, over, of, [f](const Expr& e, const Axes& axes) { return std::vector<Expr>{f(e, axes, {})}; },
          0);
    };
    const auto read = [&](const Tensor& tensor) { return element(tensor, kept, at); };
    Expr count = 1;
    for (const Expr& extent : shape(over)) count = count * extent;
    count = converted(count, DType::f32);
    const auto f32_of = [x](Place p) { return converted(x(std::move(p)), DType::f32); };
    auto& made = stages_[id];
    const auto once = [&](std::size_t which, const auto& make) -> const Tensor& {
      while (made.size() <= which) made.emplace_back();
      if (!made[which]) made[which] = make();
      return *made[which];
    };
    switch (node.reduction) {
      case ReduceOp::sum: return read(once(0, [&] { return simple(name, sum, x); }));
      case ReduceOp::prod: return read(once(0, [&] { return simple(name, prod, x); }));
      case ReduceOp::min: return read(once(0, [&] { return simple(name, min, x); }));
      case ReduceOp::max: return read(once(0, [&] { return simple(name, max, x); }));
      case ReduceOp::any: return read(once(0, [&] { return simple(name, any, x); }));
      case ReduceOp::all: return read(once(0, [&] { return simple(name, all, x); }));
      case ReduceOp::argmax:
      case ReduceOp::argmin:
        return read(once(0, [&] {
          const auto f = node.reduction == ReduceOp::argmax ? argmax : argmin;
          return stage(
              name, kept, over, x, [f](const Expr& e, const Axes& axes) { return f(e, axes); }, 0);
        }));
      case ReduceOp::mean: return read(once(0, [&] { return simple(name, sum, f32_of); })) / count;
      case ReduceOp::norm:
        return te::apply("sqrt", {read(once(0, [&] {
                           return simple(name, sum, [&](Place p) {
                             const Expr e = f32_of(std::move(p));
                             return e * e;
                           });
                         }))});
      case ReduceOp::logsumexp: {
        const Tensor largest = once(0, [&] { return simple(name + "_max", max, f32_of); });
        const Tensor total = once(1, [&] {
          return simple(name, sum, [&](Place p) {
            const Expr top = element(largest, kept, p);
            return te::apply("exp", {f32_of(p) - te::apply("where", {top == Expr(-HUGE_VAL), Expr(0.0), top})});
          });
        });
        const Expr top = read(largest);
        return te::apply("where", {top == Expr(-HUGE_VAL), top, top + te::apply("log", {read(total)})});
      }
      case ReduceOp::var: {
        const Tensor total = once(0, [&] { return simple(name + "_sum", sum, f32_of); });
        const Tensor squares = once(1, [&] {
          return simple(name, sum, [&](Place p) {
            const Expr d = f32_of(p) - element(total, kept, p) / count;
            return d * d;
          });
        });
        return read(squares) / count;
      }
      default: refuse_node(node);
    }
  }

  Tensor accumulator_;
  const GraphData& graph_;
  std::vector<Tensor> operands_;
  std::map<NodeId, v0::Axes> axes_;
  std::map<NodeId, std::vector<std::optional<Tensor>>> stages_;
};

}  // namespace

std::vector<Tensor> followed_by(const Tensor& accumulator, const Graph& epilogue,
                                const std::vector<std::pair<std::string, Tensor>>& operands) {
  Following following(accumulator, epilogue, operands);
  std::vector<Tensor> outputs;
  const auto followed = std::make_shared<const Followed>(Followed{epilogue, accumulator, operands});
  for (const OutputDecl& declared : epilogue.data().outputs) {
    outputs.push_back(following.output(declared));
    outputs.back().op().node()->followed = followed;
  }
  return outputs;
}

}  // namespace postlude::inline v0::te
