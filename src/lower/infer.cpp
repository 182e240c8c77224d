#include "lower/infer.h"

#include "graph/ir/typing.h"

#include <algorithm>

namespace postlude::inline v0::lower {
namespace {

// Translates nodes one by one. Constants are made where they are used, in the type they yield to.
class Translator {
 public:
  Translator(Work& work, std::size_t nodes) : work_(work) {
    ids_.reserve(nodes);
    types_.reserve(nodes);
  }

  NodeId id(NodeId node) const { return ids_[node]; }
  const std::vector<TypeState>& types() const { return types_; }
  TypeState type(NodeId node) const { return types_[node]; }

  // A constant has no item of its own.
  void constant(const Node& node) {
    ids_.push_back(-1);
    types_.push_back(literal_type(node.literal));
    constants_.push_back(&node.literal);
  }
  void is(NodeId item, TypeState type) {
    ids_.push_back(item);
    types_.push_back(type);
    constants_.push_back(nullptr);
  }

  void broadcast_over(Item& item) const { broadcast(item, work_.items); }

  NodeId push(Item item) {
    work_.items.push_back(std::move(item));
    return static_cast<NodeId>(work_.items.size()) - 1;
  }

  // The value of a node as `type`.
  NodeId as(NodeId node, DType type, NodeId origin) {
    Item item;
    item.origin = origin;
    item.type = type;
    if (constants_[node]) {
      item.op = Op::constant;
      item.literal = converted(*constants_[node], type);
      return push(std::move(item));
    }
    const NodeId id = ids_[node];
    if (work_.items[id].type == type) return id;
    item.op = Op::cast;
    item.dtype = type;
    item.args = {id};
    broadcast(item, work_.items);
    return push(std::move(item));
  }

  // An elementwise node of known result type.
  NodeId elementwise(const Node& node, NodeId origin, DType type) {
    std::vector<TypeState> args;
    for (NodeId a : node.args) args.push_back(types_[a]);
    Item item = plain(node, origin, type);
    for (std::size_t i = 0; i < node.args.size(); ++i)
      item.args[i] = as(node.args[i], argument_type(node, i, args), origin);
    broadcast(item, work_.items);
    return push(std::move(item));
  }

  static Item plain(const Node& node, NodeId origin, DType type) {
    Item item;
    static_cast<Node&>(item) = node;
    item.name.clear();
    item.type = type;
    item.origin = origin;
    return item;
  }

 private:
  Work& work_;
  std::vector<NodeId> ids_;
  std::vector<TypeState> types_;
  std::vector<const Literal*> constants_;
};

DType integer_or_real(DType type) { return type == DType::f32 ? DType::f32 : DType::i64; }
DType number(DType type) { return type == DType::boolean ? DType::i32 : type; }

// The type of the elements that a reduction takes.
DType reduced_type(ReduceOp op, DType type) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod: return integer_or_real(type);
    // A sum of 64-bit integers may wrap, and a mean lies between its elements.
    case ReduceOp::mean: return type == DType::i64 ? DType::f32 : integer_or_real(type);
    case ReduceOp::any:
    case ReduceOp::all: return DType::boolean;
    case ReduceOp::logsumexp:
    case ReduceOp::var:
    case ReduceOp::norm: return DType::f32;
    case ReduceOp::custom: return type;
    default: return number(type);
  }
}

std::optional<DType> chosen(const Options& options, const std::string& name) {
  for (const auto& [key, dtype] : options.dtypes)
    if (key == name) return dtype;
  return {};
}

void check_names(const GraphData& source, const Options& options) {
  for (const auto& choice : options.dtypes) {
    const auto is = [&](const auto& declared) { return declared.name == choice.first; };
    if (std::none_of(source.operands.begin(), source.operands.end(), is) &&
        std::none_of(source.outputs.begin(), source.outputs.end(), is))
      throw Error(ErrorCode::unknown_operand, "no operand or output is named " + quoted(choice.first));
  }
}

// The operands' types, and from them those of all values.
void type_operands(Inferred& result, const GraphData& source, const Facts& facts, const Options& options) {
  bool copied = false;
  GraphData copy;
  for (std::size_t i = 0; i < source.operands.size(); ++i) {
    const OperandDecl& o = source.operands[i];
    const auto choice = o.dtype ? std::optional<DType>() : chosen(options, o.name);
    if (choice) {
      if (!copied) copy = source;
      copied = true;
      copy.operands[i].dtype = choice;
    }
    result.operand_types.push_back(o.dtype ? *o.dtype : choice ? *choice : o.axes.empty() ? DType::f32 : facts.operand);
  }
  result.inference = verify(copied ? copy : source, facts.accumulator, facts.operand);
}

// An argument of a reduction in the type that it is reduced in; any and all take whether it is not zero.
NodeId reduced_argument(Translator& to, const Work& work, ReduceOp reduction, NodeId a, NodeId id) {
  const DType type = *to.type(a).type, wanted = reduced_type(reduction, type);
  if (wanted != DType::boolean || type == DType::boolean) return to.as(a, wanted, id);
  Item test;
  test.op = Op::ne;
  test.type = DType::boolean;
  test.origin = id;
  test.args = {to.as(a, type, id), -1};
  Item zero;
  zero.op = Op::constant;
  zero.type = zero.literal.type = type;
  zero.origin = id;
  test.args[1] = to.push(zero);
  broadcast(test, work.items);
  return to.push(test);
}

// The dtype of an output that nobody gave one.
DType usual_output(const ValueInfo& v, const Facts& facts) {
  // A grouped reduction's result is a statistic, though it has both axes.
  if ((v.axes & tile_axes) == tile_axes && v.rows.exact && v.columns.exact) return facts.output;
  return *v.type == DType::f32 ? DType::f32 : *v.type == DType::boolean ? DType::boolean : DType::i64;
}

bool asks_for_pixels(const GraphData& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) { return is_pixel_index(node.op); });
}

// z_index, p_index and q_index: the row, divided by how many pixels an axis has.
class Pixels {
 public:
  Pixels(Translator& to, const GraphData& graph, int rank) : to_(to), graph_(graph), rank_(rank) {}

  NodeId index(Op op, NodeId origin, const Extent& rows) {
    if (rank_ == 0) throw no_pixels(graph_, origin);
    origin_ = origin;
    const NodeId m = leaf(Op::m_index, Axis::m, rows);
    const int axis = op == Op::q_index ? 0 : op == Op::p_index ? 1 : 2;  // from the innermost
    if (axis >= rank_) return binary(Op::min, m, zero());                // 0, but for every row, as the graph has it
    NodeId outer = m;                                                    // the axes from this one outwards, as one
    for (int i = 0; i < axis; ++i) outer = binary(Op::floordiv, outer, size(i));
    if (axis + 1 == rank_) return outer;
    return binary(Op::sub, outer, binary(Op::mul, binary(Op::floordiv, outer, size(axis)), size(axis)));
  }

 private:
  NodeId leaf(Op op, Axes vary, const Extent& rows, std::int32_t index = 0) {
    Item item;
    item.rows = rows;
    item.op = op;
    item.type = DType::i32;
    item.vary = vary;
    item.index = index;
    item.origin = origin_;
    return to_.push(std::move(item));
  }
  NodeId size(int axis) { return leaf(Op::operand, {}, {}, static_cast<std::int32_t>(graph_.operands.size()) + axis); }
  NodeId zero() {
    Item item;
    item.op = Op::constant;
    item.type = item.literal.type = DType::i32;
    item.origin = origin_;
    return to_.push(std::move(item));
  }
  NodeId binary(Op op, NodeId a, NodeId b) {
    Item item;
    item.op = op;
    item.type = DType::i32;
    item.args = {a, b};
    item.origin = origin_;
    to_.broadcast_over(item);
    return to_.push(std::move(item));
  }

  Translator& to_;
  const GraphData& graph_;
  int rank_;
  NodeId origin_ = -1;
};

}  // namespace

Literal converted(const Literal& literal, DType type) {
  Literal result;
  result.type = type;
  if (type == DType::f32) {
    result.real = static_cast<double>(static_cast<float>(literal.value()));
  } else if (literal.type == DType::f32) {
    result.integer = literal.real != 0;  // only a boolean is made of a real literal
  } else if (type == DType::boolean) {
    result.integer = literal.integer != 0;
  } else {
    result.integer = type == DType::i32 ? static_cast<std::int32_t>(literal.integer) : literal.integer;
  }
  return result;
}

Inferred infer(const GraphData& source, const Facts& facts, const Options& options) {
  check_names(source, options);
  Inferred result;
  Work& work = result.work;
  work.graph = &source;
  work.batched = facts.batched;
  type_operands(result, source, facts, options);

  const Axes present = work.batched ? Axis::b | tile_axes : tile_axes;
  Translator to(work, source.nodes.size());
  Pixels pixels(to, source, facts.pixels);
  if (asks_for_pixels(source)) result.sizes = std::max(facts.pixels - 1, 0);
  for (std::int32_t i = 0; i < result.sizes; ++i) result.operand_types.push_back(DType::i32);
  for (std::size_t n = 0; n < source.nodes.size(); ++n) {
    const Node& node = source.nodes[n];
    const auto id = static_cast<NodeId>(n);
    const ValueInfo& v = result.inference.values[n];
    const TypeState state{v.type, v.literal, false};
    if (node.op == Op::constant) {
      to.constant(node);
      continue;
    }
    if (is_elementwise(node.op) || node.op == Op::call) {
      to.is(to.elementwise(node, id, *v.type), state);
      continue;
    }
    if (is_pixel_index(node.op)) {
      to.is(pixels.index(node.op, id, v.rows), state);
      continue;
    }
    Item item = Translator::plain(node, id, *v.type);  // with axes and extents as verified
    item.vary = v.axes & present;
    item.rows = v.rows;
    item.columns = v.columns;
    for (NodeId& a : item.args) {
      a = node.op == Op::reduce   ? reduced_argument(to, work, node.reduction, a, id)
          : node.op == Op::concat ? to.as(a, item.type, id)
                                  : to.id(a);
    }
    if (node.op == Op::reduce) {
      if (node.reduction == ReduceOp::custom) item.reducer = Reducer::custom;
      item.axes = item.axes & present;
      if (item.axes.empty()) item.axes = node.axes;  // across a batch of one
    }
    const bool nothing = (node.op == Op::chunk && node.pieces == 1) ||
                         (node.op == Op::concat && node.args.size() == 1) || (node.op == Op::repeat && node.group == 1);
    to.is(nothing ? item.args[0] : to.push(std::move(item)), state);
  }
  for (std::size_t i = 0; i < source.outputs.size(); ++i) {
    const OutputDecl& o = source.outputs[i];
    const DType usual = usual_output(result.inference.values[o.value], facts);
    work.outputs.push_back(
        {static_cast<std::int32_t>(i), to.id(o.value), o.dtype.value_or(chosen(options, o.name).value_or(usual))});
  }
  return result;
}

Work infer_body(const Lambda& body, const std::vector<DType>& parameters, const std::vector<Axes>& vary, NodeId origin,
                Typing& typing) {
  Work work;
  Translator to(work, body.nodes.size());
  std::vector<NodeId> parameter_items;
  std::vector<TypeState> parameter_types;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Item item;
    item.op = Op::parameter;
    item.index = static_cast<std::int32_t>(i);
    item.type = parameters[i];
    item.vary = vary[i];
    item.origin = origin;
    parameter_items.push_back(to.push(std::move(item)));
    parameter_types.push_back({parameters[i], false, false});
  }
  const std::vector<TypeState> types = typing.infer_body(body, parameter_types);
  for (std::size_t n = 0; n < body.nodes.size(); ++n) {
    const Node& node = body.nodes[n];
    if (node.op == Op::constant) {
      to.constant(node);
    } else if (node.op == Op::parameter) {
      to.is(parameter_items[node.index], types[n]);
    } else {
      to.is(to.elementwise(node, origin, *types[n].type), types[n]);
    }
  }
  for (std::size_t i = 0; i < body.results.size(); ++i)
    work.outputs.push_back(
        {static_cast<std::int32_t>(i), to.as(body.results[i], *types[body.results[i]].type, origin), DType::f32});
  return work;
}

}  // namespace postlude::inline v0::lower
