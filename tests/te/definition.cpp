// What a program's outputs are by its definition, an element at a time in doubles.
#include "core/convert.h"
#include "core/philox.h"
#include "te/fuzz.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <sstream>
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
  std::function<double(const ExprNode& read, const std::vector<std::int64_t>& index)>
      memory{};    // where a nest keeps what it reads
  int guards = 0;  // conditions around: what leaves a tensor is its edge then

  static double wrapped(DType type, double x) {
    return type == i32 ? static_cast<double>(static_cast<std::int32_t>(static_cast<std::int64_t>(x))) : x;
  }
  // As a type holds it; integers to another type saturate, and go to others through f32.
  static double held(DType type, double x, DType from, Round round = Round::nearest_even) {
    if (type == from) return x;
    const double single = static_cast<double>(static_cast<float>(x));
    if (is_float(type)) return type == f32 ? single : core::round_to(type, single, round);
    return static_cast<double>(is_float(from) ? core::to_integer(type, x, round)
                                              : core::to_integer(type, static_cast<std::int64_t>(x)));
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
        if (memory) {
          std::vector<std::int64_t> index;
          for (const Expr& i : x->args) index.push_back(static_cast<std::int64_t>(at(i)));
          return memory(*x.node(), index);
        }
        std::int64_t place = 0;
        const auto& shape = shapes.at(x->tensor.get());
        for (std::size_t d = 0; d < shape.size(); ++d) {
          auto i = static_cast<std::int64_t>(at(x->args[d]));
          if (guards > 0 && shape[d] == 0) return 0;
          if (guards > 0) i = std::clamp<std::int64_t>(i, 0, shape[d] - 1);
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
      case Op::floordiv: return arg(1) == 0 && !is_float(x->type) ? 0 : std::floor(arg(0) / arg(1));
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
      case Op::where: {
        const std::size_t chosen = arg(0) != 0 ? 1 : 2;
        ++guards;
        const double value = arg(chosen);
        --guards;
        return value;
      }
      case Op::cast: return held(x->dtype, arg(0), x->args[0]->type, x->round);
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

// A reducer's combine() of numbers.
class Combining {
 public:
  Combining(const te::ReducerNode& reducer, const std::vector<DType>& types) {
    for (auto* side : {&a_, &b_})
      for (const DType type : types) {
        auto node = std::make_shared<te::OperationNode>();
        node->dtypes = {type};
        side->push_back(te::Tensor(node, 0).at({}));
      }
    combined_ = reducer.combine(a_, b_);
    for (std::size_t i = 0; i < types.size(); ++i) combined_[i] = te::converted(combined_[i], types[i]);
  }
  std::vector<double> operator()(Evaluator& e, const std::vector<double>& a, const std::vector<double>& b) {
    std::map<const te::OperationNode*, double> parameters;
    for (std::size_t i = 0; i < a.size(); ++i) {
      parameters[a_[i]->tensor.get()] = a[i];
      parameters[b_[i]->tensor.get()] = b[i];
    }
    e.parameters = &parameters;
    std::vector<double> results;
    for (const Expr& x : combined_) results.push_back(e.at(x));
    e.parameters = nullptr;
    return results;
  }

 private:
  std::vector<Expr> a_, b_, combined_;
};

void evaluate_stage(const te::OperationNode& op, Evaluator& e) {
  std::vector<std::vector<double>> results(op.body.size());
  const te::Reduction* const reduction = op.reduction();
  each(e, op.axes, 0, [&] {
    if (!reduction) {
      for (std::size_t i = 0; i < op.body.size(); ++i)
        results[i].push_back(Evaluator::held(op.dtypes[i], e.at(op.body[i]), op.body[i]->type));
      return;
    }
    std::vector<DType> types;
    for (const Expr& source : reduction->sources) types.push_back(source->type);
    std::vector<double> state;
    for (const Expr& x : te::identity_of(*reduction->reducer, types)) state.push_back(x->value.value());
    Combining combining(*reduction->reducer, types);
    each(e, op.reduce_axes, 0, [&] {
      if (!reduction->where.empty() && e.at(reduction->where) == 0) return;
      std::vector<double> values;
      e.guards = reduction->where.empty() ? 0 : 1;
      for (const Expr& source : reduction->sources) values.push_back(e.at(source));
      e.guards = 0;
      state = combining(e, state, values);
    });
    for (std::size_t i = 0; i < state.size(); ++i) results[i].push_back(state[i]);
  });
  e.values[&op] = std::move(results);
}

}  // namespace

namespace {

// A nest as it reads: each loop upwards from 0, whoever runs it, and one memory for all.
class Reading {
 public:
  Reading(const te::Nest& nest, Evaluator& e, const Values& values) : nest_(nest), e_(e) {
    for (std::size_t i = 0; i < nest.arguments.size(); ++i) {
      Memory& memory = allocate(nest.arguments[i]);
      const te::Tensor& tensor = nest.tensors[i];
      if (tensor.op().node()->is_placeholder()) memory.elements = values.at(tensor.op().node().get())[0];
    }
    e_.memory = [this](const ExprNode& read, const std::vector<std::int64_t>& index) {
      return place(nest_.of(read), index);
    };
    run(nest.body);
    e_.memory = nullptr;
  }
  [[nodiscard]] const std::vector<double>& argument(std::size_t i) const {
    return memory_.at(nest_.arguments[i].get()).elements;
  }

 private:
  struct Memory {
    std::vector<std::int64_t> shape;
    std::vector<double> elements;
  };
  Memory& allocate(const te::BufferPtr& buffer) {
    Memory& memory = memory_[buffer.get()];
    memory.shape.clear();
    std::int64_t elements = 1;
    for (const Expr& extent : buffer->shape) {
      memory.shape.push_back(static_cast<std::int64_t>(e_.at(extent)));
      elements *= memory.shape.back();
    }
    memory.elements.assign(static_cast<std::size_t>(std::max<std::int64_t>(elements, 0)), std::nan(""));
    return memory;
  }
  double& place(const te::BufferPtr& buffer, const std::vector<std::int64_t>& index) {
    Memory& memory = memory_.at(buffer.get());
    std::int64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (index[d] < 0 || index[d] >= memory.shape[d])
        throw std::runtime_error("the nest leaves " + buffer->name + " along axis " + std::to_string(d));
      at = at * memory.shape[d] + index[d];
    }
    return memory.elements[static_cast<std::size_t>(at)];
  }
  void run(const std::vector<te::Statement>& body) {
    for (const te::Statement& s : body) run(s);
  }
  void run(const te::Statement& s) {
    switch (s.kind) {
      case te::Statement::Kind::loop: {
        const auto extent = static_cast<std::int64_t>(e_.at(s.extent));
        for (std::int64_t i = 0; i < extent; ++i) {
          e_.axes[s.axis.get()] = i;
          run(s.body);
        }
        break;
      }
      case te::Statement::Kind::guard:
        if (e_.at(s.condition) != 0) run(s.body);
        break;
      case te::Statement::Kind::allocate: allocate(s.to[0]); break;
      case te::Statement::Kind::synchronise: break;
      case te::Statement::Kind::store:
      case te::Statement::Kind::update: {
        std::vector<std::int64_t> index;
        for (const Expr& x : s.index) index.push_back(static_cast<std::int64_t>(e_.at(x)));
        std::vector<double> values, state;
        std::vector<DType> types;
        for (std::size_t i = 0; i < s.to.size(); ++i) {
          values.push_back(Evaluator::held(s.to[i]->type, e_.at(s.values[i]), s.values[i]->type));
          state.push_back(place(s.to[i], index));
          types.push_back(s.values[i]->type);
        }
        if (s.kind == te::Statement::Kind::update) values = Combining(*s.reducer, types)(e_, state, values);
        for (std::size_t i = 0; i < s.to.size(); ++i) place(s.to[i], index) = values[i];
        break;
      }
    }
  }

  const te::Nest& nest_;
  Evaluator& e_;
  std::map<const te::Buffer*, Memory> memory_;
};

// Throws where the nest as it is printed has two things of one name, or an element of nothing.
void check_names(const te::Nest& nest) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  std::set<std::string> tensors, sizes;
  const auto declare = [](std::set<std::string>& names, const std::string& name) {
    if (!names.insert(name).second) throw std::runtime_error("two are called " + name);
  };
  std::set<const te::AxisNode*> known;
  for (const te::BufferPtr& argument : nest.arguments) declare(tensors, nest.name(argument));
  for (const te::BufferPtr& argument : nest.arguments)
    for (const Expr& extent : argument->shape)
      te::visit(extent, [&](const ExprNode& x) {
        if (x.kind == ExprNode::Kind::axis && known.insert(x.axis.get()).second) declare(sizes, nest.name(x.axis));
      });
  std::istringstream text(te::print(nest));
  std::vector<std::string> open;  // what a line that ends with a brace opens: a loop, or "" for a guard
  for (std::string line; std::getline(text, line);) {
    line.erase(0, line.find_first_not_of(' '));
    const auto is_open = [&](const std::string& name) {
      return std::find(open.begin(), open.end(), name) != open.end();
    };
    if (line == "}") {
      open.pop_back();
      continue;
    }
    if (line.starts_with("allocate ")) declare(tensors, line.substr(9, line.find('[') - 9));
    for (std::size_t at = line.find('['); at != line.npos; at = line.find('[', at + 1)) {
      std::size_t first = at;
      while (first > 0 && is_part(line[first - 1])) --first;
      if (!tensors.count(line.substr(first, at - first))) throw std::runtime_error("nothing is called so: " + line);
    }
    if (!line.ends_with('{')) continue;
    const std::string name = line.starts_with("for (") ? line.substr(5, line.find(',') - 5) : "";
    if (!name.empty() && (is_open(name) || sizes.count(name) || tensors.count(name)))
      throw std::runtime_error("a loop has another's name: " + line);
    open.push_back(name);
  }
  for (const std::string& name : sizes) declare(tensors, name);
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
      values[op][0].push_back(core::load_real(array.tensor.dtype(), array.data.data(), array.place(i)));
  }
  Evaluator e{sizes, values, shapes, {}};
  std::vector<std::vector<double>> results;
  const te::Nest nest = te::make_nest(*p.schedule.node(), p.arguments);
  check_names(nest);
  if (p.in_order) {
    const Reading read(nest, e, values);
    for (auto i = static_cast<std::size_t>(p.outputs_from); i < p.arrays.size(); ++i)
      results.push_back(read.argument(i));
    return results;
  }
  for (const te::Tensor& stage : p.stages) {
    const te::OperationNode* op = stage.op().node().get();
    shapes[op];
    for (const Expr& x : op->shape) shapes[op].push_back(te::evaluate(x, sizes));
    evaluate_stage(*op, e);
  }
  for (std::size_t i = static_cast<std::size_t>(p.outputs_from); i < p.arrays.size(); ++i)
    results.push_back(
        values.at(p.arrays[i].tensor.op().node().get())[static_cast<std::size_t>(p.arrays[i].tensor.component())]);
  return results;
}

}  // namespace postlude::fuzz_te
