#include "lower/work.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace postlude::inline v0::lower {

std::vector<std::int32_t> Work::uses() const {
  std::vector<std::int32_t> count(items.size(), 0);
  for (const Item& item : items)
    for (NodeId a : item.args) ++count[a];
  for (const WorkOutput& o : outputs) ++count[o.value];
  return count;
}

void broadcast(Item& item, const std::vector<Item>& items) {
  item.vary = {};
  item.rows = item.columns = {};
  for (NodeId a : item.args) {
    const Item& x = items[a];
    if (x.vary.has(Axis::m) && !item.vary.has(Axis::m)) item.rows = x.rows;
    if (x.vary.has(Axis::n) && !item.vary.has(Axis::n)) item.columns = x.columns;
    item.vary = item.vary | x.vary;
  }
}

bool is_beside_groups(const Item& x, const Item& reduce) {
  return x.op == Op::repeat && reduce.group > 0 && x.group == reduce.group && x.axes == (reduce.axes & tile_axes);
}

std::int32_t depth_of(const Item& item, const std::vector<std::int32_t>& depths) {
  std::int32_t most = 0;
  for (const NodeId a : item.args) most = std::max(most, depths[a]);
  return most + (item.op == Op::reduce ? 1 : 0);
}

Rewriter::Rewriter(Work& work) : work_(work) {
  items_.reserve(work.items.size() + 8);
  now_.reserve(work.items.size());
}

bool Rewriter::next(Item& item) {
  if (++current_ >= static_cast<NodeId>(work_.items.size())) return false;
  item = std::move(work_.items[current_]);
  for (NodeId& a : item.args) a = now_[a];
  return true;
}

void Rewriter::keep(Item item) {
  items_.push_back(std::move(item));
  now_.push_back(static_cast<NodeId>(items_.size()) - 1);
}

void Rewriter::replace(NodeId by) {
  now_.push_back(by);
  changed_ = true;
}

NodeId Rewriter::add(Item item) {
  changed_ = true;
  items_.push_back(std::move(item));
  return static_cast<NodeId>(items_.size()) - 1;
}

NodeId Rewriter::make(Op op, DType type, std::initializer_list<NodeId> args, NodeId origin) {
  Item item;
  item.op = op;
  item.args = args;
  item.type = item.dtype = type;
  item.origin = origin;
  return broadcasted(std::move(item));
}

NodeId Rewriter::broadcasted(Item item) {
  broadcast(item, items_);
  return add(std::move(item));
}

NodeId Rewriter::constant(DType type, double value, NodeId origin) {
  Item item;
  item.op = Op::constant;
  item.type = item.literal.type = type;
  if (type == DType::f32) {
    item.literal.real = value;
  } else {
    item.literal.integer = static_cast<std::int64_t>(value);
  }
  item.origin = origin;
  return add(std::move(item));
}

NodeId Rewriter::count(const Item& reduce, Axes over, DType type) {
  const Item& x = items_[reduce.args[0]];
  Item item;
  item.op = Op::get;
  item.type = type;
  item.axes = over;
  item.group = (over & tile_axes) == (reduce.axes & tile_axes) ? reduce.group : 0;
  item.rows = x.rows;
  item.columns = x.columns;
  if (item.group > 0) item.vary = over & tile_axes;
  item.origin = reduce.origin;
  return add(std::move(item));
}

NodeId Rewriter::component(NodeId reduce, int index, DType type) {
  Item item;
  item.op = Op::get;
  item.args = {reduce};
  item.index = index;
  item.type = type;
  item.vary = items_[reduce].vary;
  item.rows = items_[reduce].rows;
  item.columns = items_[reduce].columns;
  item.origin = items_[reduce].origin;
  return add(std::move(item));
}

NodeId Rewriter::cast(NodeId value, DType type) {
  if (items_[value].type == type) return value;
  return make(Op::cast, type, {value}, items_[value].origin);
}

bool Rewriter::finish() {
  work_.items = std::move(items_);
  for (WorkOutput& o : work_.outputs) o.value = now_[o.value];
  return changed_;
}

int components(Reducer reducer, std::size_t args) {
  switch (reducer) {
    case Reducer::argmax:
    case Reducer::argmin:
    case Reducer::online_softmax:
    case Reducer::welford: return 2;
    case Reducer::custom: return static_cast<int>(args);
    default: return 1;
  }
}

std::string_view name(Reducer reducer) {
  constexpr std::string_view names[] = {"sum",    "prod",           "min",     "max",   "any", "all", "argmax",
                                        "argmin", "online_softmax", "welford", "reduce"};
  return names[static_cast<int>(reducer)];
}

std::string print_axes(Axes axes) {
  std::string s;
  for (const auto& [axis, letter] : {std::pair(Axis::b, 'b'), std::pair(Axis::m, 'm'), std::pair(Axis::n, 'n')}) {
    if (!axes.has(axis)) continue;
    if (!s.empty()) s += ", ";
    s += letter;
  }
  return "{" + s + "}";
}

std::string print_literal(const Literal& literal) {
  if (literal.type == DType::boolean) return literal.integer ? "True" : "False";
  if (literal.type != DType::f32) return std::to_string(literal.integer);
  if (std::isnan(literal.real)) return "nan";
  if (std::isinf(literal.real)) return literal.real < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(literal.real)).ptr;
  std::string s(buffer, end);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

std::string Work::print() const {
  std::string s;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& x = items[i];
    s += "v" + std::to_string(i) + ": " + std::string(postlude::name(x.type));
    if (!(x.vary & tile_axes).empty() || x.is_count()) {
      s += ' ' + (x.vary.has(Axis::m) ? print_extent(x.rows, 'M') : "1") + " x " +
           (x.vary.has(Axis::n) ? print_extent(x.columns, 'N') : "1");
    }
    s += " = ";
    std::string attributes;
    const auto attribute = [&](const std::string& key, const std::string& value) {
      attributes += (attributes.empty() ? " [" : ", ") + key + "=" + value;
    };
    switch (x.op) {
      case Op::constant: s += print_literal(x.literal); break;
      case Op::operand:
        if (const auto i = static_cast<std::size_t>(x.index); i < graph->operands.size()) s += graph->operands[i].name;
        else s += i == graph->operands.size() ? "Q" : "P";
        break;
      case Op::call: s += x.function->name; break;
      case Op::reduce:
        s += x.reduction == ReduceOp::custom ? lower::name(x.reducer) : info(x.reduction).spelling;
        break;
      case Op::get: s += x.is_count() ? "count" : "get"; break;
      case Op::neg: s += "neg"; break;
      default: s += info(x.op).id;
    }
    if (x.op == Op::cast) attribute("dtype", std::string(postlude::name(x.dtype)));
    if (x.op == Op::cast && x.round != Round::nearest_even) attribute("round", std::string(postlude::name(x.round)));
    if (x.op == Op::random || (x.op == Op::cast && x.round == Round::stochastic))
      attribute("seed", std::to_string(x.seed));
    if (x.op == Op::random && x.random_stream) attribute("stream", std::to_string(x.random_stream));
    if (x.op == Op::chunk) attribute("piece", std::to_string(x.index) + "/" + std::to_string(x.pieces));
    if (x.op == Op::get && !x.args.empty()) attribute("component", std::to_string(x.index));
    if (x.op == Op::reduce || x.op == Op::repeat || x.is_count()) attribute("over", print_axes(x.axes));
    if (x.group) attribute("group", std::to_string(x.group));
    for (NodeId a : x.args) s += " v" + std::to_string(a);
    if (!attributes.empty()) s += attributes + "]";
    s += '\n';
  }
  for (const WorkOutput& o : outputs)
    s += graph->outputs[o.declaration].name + ": " + std::string(postlude::name(o.dtype)) + " = v" +
         std::to_string(o.value) + '\n';
  return s;
}

}  // namespace postlude::inline v0::lower
