#include "graph/ir/equal.h"

#include "graph/ir/functions.h"

#include <bit>
#include <cmath>
#include <set>
#include <type_traits>
#include <unordered_map>

namespace postlude::inline v0 {

namespace {

// Equal values get one number. One table serves both sides of a comparison.
class Numbering {
 public:
  std::vector<int> number(const std::vector<Node>& nodes) {
    for (const auto& function : functions_used(nodes, true)) number(*function);
    return number_nodes(nodes);
  }

  // Callees must have been numbered.
  int number(const Function& function) {
    if (const auto known = functions_.find(&function); known != functions_.end()) return known->second;
    std::string key = "function ";
    append(key, function.name);
    for (const Function::Parameter& parameter : function.parameters) {
      append(key, parameter.name);
      append(key, parameter.default_value ? literal(*parameter.default_value) : std::string());
    }
    append(key, std::bit_cast<std::uintptr_t>(function.native.get()));
    append_results(key, function.body);
    // A native one is itself alone, whatever it was given.
    append(key, function.native ? 0 : function.derivatives.size());
    if (!function.native)
      for (const Lambda& derivative : function.derivatives) append_results(key, derivative);
    return functions_[&function] = of(key);
  }

 private:
  std::unordered_map<std::string, int> table_;
  std::unordered_map<const Function*, int> functions_;

  int of(const std::string& key) { return table_.try_emplace(key, static_cast<int>(table_.size())).first->second; }

  template <typename T>
  requires std::is_trivially_copyable_v<T>
  static void append(std::string& key, const T& value) {
    const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
    key.append(bytes.data(), bytes.size());
  }
  static void append(std::string& key, const std::string& text) {
    append(key, text.size());
    key += text;
  }
  static std::uint64_t bits(double value) {
    return std::isnan(value) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(value);
  }
  static std::string literal(const Literal& literal) {
    std::string key;
    append(key, literal.type);
    append(key, literal.type == DType::f32 ? bits(literal.real) : static_cast<std::uint64_t>(literal.integer));
    return key;
  }

  void append_results(std::string& key, const Lambda& lambda) {
    const std::vector<int> numbers = number_nodes(lambda.nodes);
    for (const NodeId result : lambda.results) append(key, numbers[static_cast<std::size_t>(result)]);
  }

  std::vector<int> number_nodes(const std::vector<Node>& nodes) {
    std::vector<int> numbers;
    numbers.reserve(nodes.size());
    std::string key;
    for (const Node& node : nodes) {
      key.clear();
      append(key, node.op);
      if (node.op == Op::constant) key += literal(node.literal);
      append(key, node.index);
      append(key, node.pieces);
      append(key, node.group);
      append(key, node.axes.bits);
      append(key, node.reduction);
      append(key, node.dtype);
      append(key, node.round);
      append(key, node.seed);
      append(key, node.random_stream);
      if (node.function) append(key, functions_.at(node.function.get()));
      for (const double value : node.identity) append(key, bits(value));
      if (node.combine) {
        append(key, node.combine->parameters);
        append_results(key, *node.combine);
      }
      for (const NodeId arg : node.args) append(key, numbers[static_cast<std::size_t>(arg)]);
      numbers.push_back(of(key));
    }
    return numbers;
  }
};

bool is_leaf(Op op) { return (info(op).rule == TypeRule::leaf) || op == Op::chunk || op == Op::get; }

std::set<int> computed(const GraphData& graph, const std::vector<int>& numbers) {
  std::set<int> values;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!is_leaf(graph.nodes[i].op)) values.insert(numbers[i]);
  return values;
}

}  // namespace

bool same(const Function& a, const Function& b) {
  Numbering numbering;
  for (const Function* function : {&a, &b}) {
    (void)numbering.number(function->body.nodes);
    for (const Lambda& derivative : function->derivatives) (void)numbering.number(derivative.nodes);
  }
  return numbering.number(a) == numbering.number(b);
}

bool same(const GraphData& a, const GraphData& b) {
  if (a.name != b.name || a.operands.size() != b.operands.size() || a.outputs.size() != b.outputs.size()) return false;
  for (std::size_t i = 0; i < a.operands.size(); ++i) {
    const OperandDecl &x = a.operands[i], &y = b.operands[i];
    if (x.name != y.name || x.axes != y.axes || x.dtype != y.dtype) return false;
  }
  Numbering numbering;
  const std::vector<int> left = numbering.number(a.nodes), right = numbering.number(b.nodes);
  for (std::size_t i = 0; i < a.outputs.size(); ++i) {
    const OutputDecl &x = a.outputs[i], &y = b.outputs[i];
    if (x.name != y.name || x.dtype != y.dtype || x.axes != y.axes) return false;
    if (left[static_cast<std::size_t>(x.value)] != right[static_cast<std::size_t>(y.value)]) return false;
  }
  return computed(a, left) == computed(b, right);
}

std::vector<int> number_values(const GraphData& graph) { return Numbering().number(graph.nodes); }

}  // namespace postlude::inline v0
