// What a program's outputs are by its definition, an element at a time in doubles.
#include "core/convert.h"
#include "core/philox.h"
#include "te/fuzz.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

namespace postlude::fuzz_te {

using te::Expr;
using te::ExprNode;

namespace {

using Values = std::map<const te::OperationNode*, std::vector<std::vector<double>>>;
using Shapes = std::map<const te::OperationNode*, std::vector<std::int64_t>>;

struct Evaluator {
  const te::Sizes& sizes;
  Values& values;
  Shapes& shapes;
  std::map<const te::AxisNode*, std::int64_t> axes;
  const std::map<const te::OperationNode*, double>* parameters = nullptr;

  static double wrapped(DType type, double x) {
    return type == i32 ? static_cast<double>(static_cast<std::int32_t>(static_cast<std::int64_t>(x))) : x;
  }
  static double extreme(double a, double b, bool largest) {  // NaN beyond all
    return std::isnan(a) || std::isnan(b) ? a + b : largest ? std::max(a, b) : std::min(a, b);
  }
  double at(const Expr& x) {
    const auto arg = [&](std::size_t i) { return at(x->args[i]); };
    switch (x->kind) {
      case ExprNode::Kind::constant: return x->value.value();
      case ExprNode::Kind::axis: {
        const auto found = axes.find(x->axis.get());
        return static_cast<double>(found != axes.end() ? found->second : sizes.at(x->axis.get()));
      }
      case ExprNode::Kind::read: {
        if (parameters)
          if (const auto found = parameters->find(x->tensor.get()); found != parameters->end()) return found->second;
        std::int64_t place = 0;
        const auto& shape = shapes.at(x->tensor.get());
        for (std::size_t d = 0; d < shape.size(); ++d) {
          const auto i = static_cast<std::int64_t>(at(x->args[d]));
          if (i < 0 || i >= shape[d]) throw std::runtime_error("the definition leaves a tensor");
          place = place * shape[d] + i;
        }
        return values.at(x->tensor.get())[static_cast<std::size_t>(x->component)][static_cast<std::size_t>(place)];
      }
      case ExprNode::Kind::operation: break;
      default: throw std::runtime_error("no such expression");
    }
    switch (x->op) {
      case Op::add: return wrapped(x->type, arg(0) + arg(1));
      case Op::sub: return wrapped(x->type, arg(0) - arg(1));
      case Op::mul: return wrapped(x->type, arg(0) * arg(1));
      case Op::floordiv: return std::floor(arg(0) / arg(1));
      case Op::neg: return wrapped(x->type, -arg(0));
      case Op::abs: return std::fabs(arg(0));
      case Op::min: return extreme(arg(0), arg(1), false);
      case Op::max: return extreme(arg(0), arg(1), true);
      case Op::lt: return arg(0) < arg(1);
      case Op::le: return arg(0) <= arg(1);
      case Op::gt: return arg(0) > arg(1);
      case Op::ge: return arg(0) >= arg(1);
      case Op::eq: return arg(0) == arg(1);
      case Op::ne: return arg(0) != arg(1);
      case Op::bit_and: return (arg(0) != 0) && (arg(1) != 0);
      case Op::bit_or: return (arg(0) != 0) || (arg(1) != 0);
      case Op::bit_not: return arg(0) == 0;
      case Op::where: return arg(0) != 0 ? arg(1) : arg(2);
      case Op::cast: return x->dtype == DType::boolean ? arg(0) != 0 : arg(0);
      case Op::random:
        return core::random_uniform(x->seed, x->random_stream, 0, static_cast<std::int64_t>(arg(0)),
                                    static_cast<std::int64_t>(arg(1)));
      default: throw std::runtime_error("no such operation");
    }
  }
};

// Calls body() for every place of axes.
template <class Body>
void each(Evaluator& e, const std::vector<te::AxisPtr>& axes, std::size_t d, const Body& body) {
  if (d == axes.size()) return body();
  const std::int64_t begin = te::evaluate(axes[d]->begin, e.sizes), extent = te::evaluate(axes[d]->extent, e.sizes);
  for (std::int64_t i = 0; i < extent; ++i) {
    e.axes[axes[d].get()] = begin + i;
    each(e, axes, d + 1, body);
  }
}

void evaluate_stage(const te::OperationNode& op, Evaluator& e) {
  std::vector<std::vector<double>> results(op.body.size());
  const te::Reduction* const reduction = op.reduction();
  each(e, op.axes, 0, [&] {
    if (!reduction) {
      for (std::size_t i = 0; i < op.body.size(); ++i) results[i].push_back(e.at(op.body[i]));
      return;
    }
    std::vector<DType> types;
    for (const Expr& source : reduction->sources) types.push_back(source->type);
    std::vector<double> state;
    for (const Expr& x : te::identity_of(*reduction->reducer, types)) state.push_back(x->value.value());
    std::vector<Expr> a, b;
    std::map<const te::OperationNode*, double> parameters;
    for (auto* side : {&a, &b})
      for (const DType type : types) {
        auto node = std::make_shared<te::OperationNode>();
        node->dtypes = {type};
        side->push_back(te::Tensor(node, 0).at({}));
      }
    const std::vector<Expr> combined = reduction->reducer->combine(a, b);
    each(e, op.reduce_axes, 0, [&] {
      if (!reduction->where.empty() && e.at(reduction->where) == 0) return;
      for (std::size_t i = 0; i < state.size(); ++i) {
        parameters[a[i]->tensor.get()] = state[i];
        parameters[b[i]->tensor.get()] = e.at(reduction->sources[i]);
      }
      e.parameters = &parameters;
      for (std::size_t i = 0; i < state.size(); ++i) state[i] = e.at(combined[i]);
      e.parameters = nullptr;
    });
    for (std::size_t i = 0; i < state.size(); ++i) results[i].push_back(state[i]);
  });
  e.values[&op] = std::move(results);
}

}  // namespace

std::vector<std::vector<double>> expected(Program& p) {
  te::Sizes sizes;
  Values values;
  Shapes shapes;
  for (Array& array : p.arrays) {
    for (std::size_t d = 0; d < array.shape.size(); ++d)
      if (array.tensor.shape()[d]->kind == ExprNode::Kind::axis)
        sizes[array.tensor.shape()[d]->axis.get()] = array.shape[d];
  }
  for (Array& array : p.arrays) {
    const te::OperationNode* op = array.tensor.op().node().get();
    if (!op->is_placeholder()) continue;
    shapes[op] = array.shape;
    std::int64_t elements = 1;
    for (const std::int64_t x : array.shape) elements *= x;
    values[op].resize(1);
    for (std::int64_t i = 0; i < elements; ++i)
      values[op][0].push_back(core::load_real(array.tensor.dtype(), array.data.data(), i));
  }
  Evaluator e{sizes, values, shapes, {}};
  for (const te::Tensor& stage : p.stages) {
    const te::OperationNode* op = stage.op().node().get();
    shapes[op];
    for (const Expr& x : op->shape) shapes[op].push_back(te::evaluate(x, sizes));
    evaluate_stage(*op, e);
  }
  std::vector<std::vector<double>> results;
  for (std::size_t i = static_cast<std::size_t>(p.outputs_from); i < p.arrays.size(); ++i)
    results.push_back(
        values.at(p.arrays[i].tensor.op().node().get())[static_cast<std::size_t>(p.arrays[i].tensor.component())]);
  return results;
}

}  // namespace postlude::fuzz_te
