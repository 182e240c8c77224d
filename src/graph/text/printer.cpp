#include "graph/text/printer.h"

#include "graph/ir/extents.h"
#include "graph/ir/functions.h"
#include "graph/text/source.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace postlude::inline v0 {

namespace {

constexpr std::size_t longest_inline = 64;  // bytes of an expression that is written in place
constexpr int deepest_inline = 8;
constexpr std::int32_t most_unpacked = 8;  // pieces of a chunk that are taken apart by name

// Python's precedences, of the operators that occur.
enum Precedence { comparison = 1, bit_or = 2, bit_and = 4, sum = 6, product = 7, sign = 8, power = 9, atom = 10 };

int binary_precedence(Op op) {
  switch (op) {
    case Op::bit_or: return bit_or;
    case Op::bit_and: return bit_and;
    case Op::add:
    case Op::sub: return sum;
    case Op::mul:
    case Op::div:
    case Op::floordiv: return product;
    case Op::pow: return power;
    default: return info(op).rule == TypeRule::compare ? comparison : 0;
  }
}

struct Text {
  std::string text;
  int precedence = atom;
  int depth = 0;
};

// Every variable gets a name of its own, the wanted one if that is free.
class Names {
 public:
  Names() : taken_{"inf", "nan", "_"} {}
  bool take(const std::string& name) { return taken_.insert(name).second; }
  std::string unique(const std::string& wanted) {
    if (!wanted.empty() && is_identifier(wanted) && take(wanted)) return wanted;
    const std::string stem = wanted.empty() || !is_identifier(wanted) ? "v" : wanted + "_";
    int& next = next_.try_emplace(stem, stem == "v" ? 0 : 1).first->second;
    for (;;) {
      std::string name = stem + std::to_string(next++);
      if (take(name)) return name;
    }
  }

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;
};

// The defs that a printed text has in common.
struct Document {
  Names defs;
  std::unordered_set<std::string> local;  // names of defs; the library's of the same name get the prefix
  std::unordered_map<const Function*, std::string> functions;
  std::string text;

  [[nodiscard]] std::string library(std::string_view name) const {
    return (local.contains(std::string(name)) ? "post." : "") + std::string(name);
  }
};

std::string dtype_name(DType type) { return std::string(name(type)); }

std::string class_name(Axes axes) {
  return axes == tile_axes ? "tile" : axes == row_axes ? "row" : axes == col_axes ? "col" : "scalar";
}

std::string declared(const std::optional<Axes>& axes, const std::optional<DType>& dtype) {
  if (!axes) return dtype ? dtype_name(*dtype) : "";
  return class_name(*axes) + (dtype ? '[' + dtype_name(*dtype) + ']' : "");
}

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[40];
  std::string text(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

bool equal(const Literal& a, const Literal& b) { return a.type == b.type && print(a) == print(b); }

void print_function(const Function& function, const std::string& name, Document& document);

// Prints nodes as lines of assignments, and values as expressions.
class Body {
 public:
  Body(const std::vector<Node>& nodes, Names& names, Document& document, std::string indent)
      : nodes_(nodes),
        names_(names),
        document_(document),
        indent_(std::move(indent)),
        texts_(nodes.size()),
        uses_(nodes.size()),
        named_(nodes.size()),
        keeps_open_(changes_extents(nodes)) {
    for (const Node& node : nodes_)
      for (const NodeId arg : node.args) ++uses_[index(arg)];
  }

  std::string lines;

  void use(NodeId node) { ++uses_[index(node)]; }
  [[nodiscard]] int uses(NodeId node) const { return uses_[index(node)]; }
  // The value is returned: an expression, however long.
  void finish_with(NodeId node) { last_ = node; }
  // Every value is written in place; none but leaves may be used twice.
  void write_in_place() { in_place_ = true; }
  // The value must get this name, with this annotation.
  void want(NodeId node, std::string name, std::string annotation) {
    wanted_.try_emplace(node, std::move(name), std::move(annotation));
  }
  void leaf(NodeId node, std::string name) { named_[index(node)] = std::move(name); }
  [[nodiscard]] bool is_variable(NodeId node) const { return named_[index(node)].size() > 0; }

  void print_all() {
    find_pieces();
    for (std::size_t i = 0; i < nodes_.size(); ++i) print_one(static_cast<NodeId>(i));
  }

  // A value as it is referred to; an expression that was not given a name is handed out once.
  std::string reference(NodeId node, int lowest = 0) { return operand(node, lowest).text; }

 private:
  const std::vector<Node>& nodes_;
  Names& names_;
  Document& document_;
  std::string indent_;
  std::vector<Text> texts_;
  std::vector<int> uses_;
  std::vector<std::string> named_;
  bool keeps_open_;
  NodeId last_ = -1;
  bool in_place_ = false;
  std::unordered_map<NodeId, std::pair<std::string, std::string>> wanted_;
  std::map<std::tuple<Op, NodeId, std::int32_t, std::int64_t>, std::vector<NodeId>> pieces_;

  static std::size_t index(NodeId node) { return static_cast<std::size_t>(node); }
  static auto key(const Node& node) { return std::tuple(node.op, node.args[0], node.pieces, node.group); }

  void find_pieces() {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].op == Op::chunk || nodes_[i].op == Op::get)
        pieces_[key(nodes_[i])].push_back(static_cast<NodeId>(i));
  }

  Text operand(NodeId id, int lowest) {
    if (is_variable(id)) return {named_[index(id)]};
    Text text = info(nodes_[index(id)].op).rule == TypeRule::leaf ? texts_[index(id)] : std::move(texts_[index(id)]);
    if (text.precedence < lowest) text = {'(' + text.text + ')', atom, text.depth + 1};
    return text;
  }

  // name(a, b, ...)
  Text call(std::string name, std::span<const NodeId> args, const std::string& rest = {}) {
    Text made{std::move(name) + '('};
    bool first = true;
    for (const NodeId arg : args) {
      const Text text = operand(arg, 0);
      made.text += (first ? "" : ", ") + text.text;
      made.depth = std::max(made.depth, text.depth + 1);
      first = false;
    }
    made.text += (first && rest.starts_with(", ") ? rest.substr(2) : rest) + ')';
    return made;
  }

  static std::string attributes(const Node& node) {
    std::string text;
    const Axes over = node.axes - Axes(Axis::b);
    if (over == Axes(Axis::m)) text += ", axis=0";
    if (over == Axes(Axis::n)) text += ", axis=1";
    if (over.empty()) text += ", axis=()";
    if (node.group != 0) text += ", group=" + std::to_string(node.group);
    if (node.axes.has(Axis::b)) text += ", batch=True";
    return text;
  }

  Text expression(const Node& node) {
    const OpInfo& op = info(node.op);
    switch (node.op) {
      case Op::constant: {
        const std::string text = print(node.literal);
        return {text, text[0] == '-' ? sign : atom};
      }
      case Op::acc:
      case Op::operand:
      case Op::parameter: return {node.name};  // named by whoever prints the def
      case Op::random:
        return {document_.library("random") + '(' + std::to_string(node.seed) +
                (node.random_stream != 0 ? ", stream=" + std::to_string(node.random_stream) : "") + ')'};
      case Op::neg:
      case Op::bit_not: {
        const NodeId arg = node.args[0];
        // -1 is a literal; the negation of a literal needs parentheses to stay one.
        const bool literal = node.op == Op::neg && !is_variable(arg) && nodes_[index(arg)].op == Op::constant;
        const Text text = operand(arg, literal ? atom + 1 : sign);
        return {std::string(op.spelling) + text.text, sign, text.depth + 1};
      }
      case Op::cast: {
        std::string rest = ", " + dtype_name(node.dtype);
        if (node.round != Round::nearest_even) rest += ", round=" + std::string(name(node.round));
        if (node.round == Round::stochastic) rest += '(' + std::to_string(node.seed) + ')';
        return call(document_.library("cast"), node.args, rest);
      }
      case Op::chunk: {
        Text text =
            call(document_.library("chunk"), node.args,
                 ", " + std::to_string(node.pieces) + (node.group != 0 ? ", group=" + std::to_string(node.group) : ""));
        text.text += '[' + std::to_string(node.index) + ']';
        return text;
      }
      case Op::concat: {
        Text text = call("", node.args, node.args.size() == 1 ? "," : "");
        text.text = document_.library("concat") + '(' + text.text +
                    (node.group != 0 ? ", group=" + std::to_string(node.group) : "") + ')';
        return text;
      }
      case Op::repeat:
        return call(document_.library("repeat"), node.args,
                    ", " + std::to_string(node.group) + (node.axes == Axes(Axis::m) ? ", axis=0" : ""));
      case Op::reduce:
        return node.reduction == ReduceOp::custom
                   ? general(node)
                   : call(document_.library(info(node.reduction).spelling), node.args, attributes(node));
      case Op::get: return operand(node.args[0], 0);
      case Op::call: return called(node);
      default: break;
    }
    if (const int precedence = binary_precedence(node.op); precedence != 0) {
      const bool right = node.op == Op::pow;
      const Text a = operand(node.args[0], precedence == comparison || right ? precedence + 1 : precedence);
      const Text b = operand(node.args[1], right ? sign : precedence + 1);
      return {a.text + ' ' + (right ? "**" : std::string(op.spelling)) + ' ' + b.text, precedence,
              std::max(a.depth, b.depth) + 1};
    }
    return call(document_.library(op.spelling), node.args);
  }

  Text called(const Node& node) {
    const Function& function = *node.function;
    std::size_t count = node.args.size();
    // Defaults are left out again.
    while (count > 0) {
      const Node& arg = nodes_[index(node.args[count - 1])];
      const auto& value = function.parameters[count - 1].default_value;
      if (!value || arg.op != Op::constant || !equal(arg.literal, *value)) break;
      --count;
    }
    const auto local = document_.functions.find(&function);
    return call(local != document_.functions.end() ? local->second : document_.library(function.name),
                std::span(node.args).first(count));
  }

  Text general(const Node& node);

  void print_one(NodeId id) {
    const Node& node = nodes_[index(id)];
    if (is_variable(id)) return;  // a parameter, or a piece that was taken apart already
    const auto wanted = wanted_.find(id);
    // Where extents are inferred, random numbers and coordinates keep their number and order.
    const bool named = keeps_open_ && is_open(node.op) && id != last_;
    if (info(node.op).rule == TypeRule::leaf && !named) {
      texts_[index(id)] = expression(node);
      return;
    }
    if (node.op == Op::reduce && node.reduction == ReduceOp::custom) {
      const auto results = pieces_.find({Op::get, id, 0, 0});
      if (node.args.size() == 1 && results != pieces_.end()) {  // its only result is the expression
        texts_[index(id)] = expression(node);
        return;
      }
      unpack(expression(node).text, static_cast<std::int32_t>(node.args.size()),
             results == pieces_.end() ? std::vector<NodeId>{} : results->second, id);
      return;
    }
    if (node.op == Op::chunk) {
      const std::vector<NodeId>& pieces = pieces_.at(key(node));
      if (pieces.size() > 1 && node.pieces <= most_unpacked) {
        Text whole =
            call(document_.library("chunk"), node.args,
                 ", " + std::to_string(node.pieces) + (node.group != 0 ? ", group=" + std::to_string(node.group) : ""));
        unpack(whole.text, node.pieces, pieces, id);
        return;
      }
    }
    Text text = expression(node);
    const bool brief = !named && wanted == wanted_.end() && node.name.empty() && uses_[index(id)] == 1 &&
                       text.text.size() <= longest_inline && text.depth < deepest_inline;
    if (brief || in_place_ || id == last_) {
      texts_[index(id)] = std::move(text);
      return;
    }
    std::string annotation;
    if (wanted != wanted_.end()) {
      named_[index(id)] = wanted->second.first;
      annotation = wanted->second.second;
    } else {
      named_[index(id)] = names_.unique(node.name);
    }
    line(named_[index(id)] + (annotation.empty() ? "" : ": " + annotation), text.text);
  }

  void unpack(const std::string& text, std::int32_t count, const std::vector<NodeId>& pieces, NodeId id) {
    std::vector<std::string> targets(static_cast<std::size_t>(count), "_");
    for (const NodeId piece : pieces) {
      std::string& name = named_[index(piece)];
      if (std::string& made = targets[index(nodes_[index(piece)].index)];
          made != "_") {  // a graph may say a piece twice
        name = made;
        continue;
      }
      const auto wanted = wanted_.find(piece);
      name = wanted != wanted_.end() && wanted->second.second.empty() ? wanted->second.first
                                                                      : names_.unique(nodes_[index(piece)].name);
      targets[index(nodes_[index(piece)].index)] = name;
    }
    std::string target;
    for (const std::string& name : targets) target += (target.empty() ? "" : ", ") + name;
    if (pieces.empty()) target = named_[index(id)] = names_.unique(nodes_[index(id)].name);
    line(target, text);
  }

  void line(const std::string& target, const std::string& text) { lines += indent_ + target + " = " + text + '\n'; }
};

std::string parameter_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Names of a body's parameters: those of its nodes, else p0, p1, ...
std::vector<std::string> name_parameters(const Lambda& lambda, Names& names, Body& body) {
  std::vector<std::string> chosen(static_cast<std::size_t>(lambda.parameters));
  std::vector<std::string> hints(chosen.size());
  for (const Node& node : lambda.nodes)
    if (node.op == Op::parameter) hints[static_cast<std::size_t>(node.index)] = node.name;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    chosen[i] = names.unique(hints[i].empty() ? "p" + std::to_string(i) : hints[i]);
  for (std::size_t i = 0; i < lambda.nodes.size(); ++i)
    if (lambda.nodes[i].op == Op::parameter)
      body.leaf(static_cast<NodeId>(i), chosen[static_cast<std::size_t>(lambda.nodes[i].index)]);
  return chosen;
}

std::string tuple_of(const Lambda& lambda, Body& body) {
  std::string text;
  for (const NodeId result : lambda.results) text += (text.empty() ? "" : ", ") + body.reference(result);
  return text;
}

// A combiner is written in place as a lambda where it is one expression, else as a def before.
Text Body::general(const Node& node) {
  const Lambda& lambda = *node.combine;
  Names names;
  Body body(lambda.nodes, names, document_, "    ");
  for (const NodeId result : lambda.results) body.use(result);
  const std::vector<std::string> parameters = name_parameters(lambda, names, body);
  body.print_all();
  const std::string results = tuple_of(lambda, body);
  std::string combine;
  if (body.lines.empty() && results.size() <= 2 * longest_inline) {
    combine =
        "lambda " + parameter_list(parameters) + ": " + (lambda.results.size() > 1 ? '(' + results + ')' : results);
  } else {
    combine = document_.defs.unique("combine");
    document_.local.insert(combine);
    document_.text +=
        "def " + combine + '(' + parameter_list(parameters) + "):\n" + body.lines + "    return " + results + "\n\n";
  }
  std::string identity;
  for (const double value : node.identity) identity += (identity.empty() ? "" : ", ") + real_text(value);
  if (node.identity.size() > 1) identity = '(' + identity + ')';
  Text values = call("", node.args);
  if (node.args.size() == 1) values.text = values.text.substr(1, values.text.size() - 2);
  return {document_.library("reduce") + '(' + values.text + ", combine=" + combine + ", identity=" + identity +
              attributes(node) + ')',
          atom, values.depth + 1};
}

std::string quoted_doc(const std::string& doc) {
  std::string text = "\"\"\"";
  for (std::size_t i = 0; i < doc.size(); ++i) {
    // A quote ends the string only beside others.
    const bool ends = doc[i] == '"' && (i + 1 == doc.size() || doc[i + 1] == '"');
    if (doc[i] == '\\' || ends) text += '\\';
    text += doc[i];
  }
  return text + "\"\"\"";
}

std::vector<std::string> derivatives_of(const Function& function, Document& document) {
  std::vector<std::string> texts;
  for (const Lambda& derivative : function.derivatives) {
    Names names;
    Body body(derivative.nodes, names, document, "");
    for (std::size_t i = 0; i < derivative.nodes.size(); ++i)
      if (const Node& node = derivative.nodes[i]; node.op == Op::parameter)
        body.leaf(static_cast<NodeId>(i), function.parameters[static_cast<std::size_t>(node.index)].name);
    body.write_in_place();
    body.print_all();
    texts.push_back(tuple_of(derivative, body));
  }
  return texts;
}

void print_function(const Function& function, const std::string& name, Document& document) {
  Names names;
  Body body(function.body.nodes, names, document, "    ");
  for (const NodeId result : function.body.results) body.use(result);
  std::vector<std::string> parameters;
  for (std::size_t i = 0; i < function.parameters.size(); ++i) {
    parameters.push_back(function.parameters[i].name);
    (void)names.take(parameters.back());
    if (const auto& value = function.parameters[i].default_value) parameters.back() += '=' + print(*value);
  }
  for (std::size_t i = 0; i < function.body.nodes.size(); ++i)
    if (const Node& node = function.body.nodes[i]; node.op == Op::parameter)
      body.leaf(static_cast<NodeId>(i), function.parameters[static_cast<std::size_t>(node.index)].name);
  body.print_all();
  const std::string result = tuple_of(function.body, body);
  if (!function.derivatives.empty()) {
    std::vector<std::string> texts = derivatives_of(function, document);
    for (std::string& text : texts) text = '"' + text + '"';
    const bool one = texts.size() == 1;
    document.text += "@function(derivative=" + (one ? texts[0] : '(' + parameter_list(texts) + ')') + ")\n";
  }
  document.text += "def " + name + '(' + parameter_list(parameters) + "):\n";
  if (!function.doc.empty()) document.text += "    " + quoted_doc(function.doc) + '\n';
  document.text += body.lines + "    return " + result + "\n\n";
}

}  // namespace

std::string print(const Literal& literal) {
  if (literal.type == DType::boolean) return literal.integer != 0 ? "True" : "False";
  return literal.type == DType::f32 ? real_text(literal.real) : std::to_string(literal.integer);
}

std::string print(const Function& function) {
  Document document;
  document.local.insert(function.name);
  print_function(function, function.name, document);
  document.text.pop_back();
  return document.text;
}

std::vector<std::string> print_derivatives(const Function& function) {
  Document document;
  return derivatives_of(function, document);
}

std::string print(const GraphData& graph) {
  Document document;
  (void)document.defs.take(graph.name);
  document.local.insert(graph.name);
  const auto functions = functions_used(graph.nodes, true);
  for (const auto& function : functions) {
    if (function->prelude || function->native) continue;
    const std::string name = document.defs.unique(function->name);
    document.local.insert(name);
    document.functions[function.get()] = name;
  }
  for (const auto& function : functions)
    if (const auto local = document.functions.find(function.get()); local != document.functions.end())
      print_function(*function, local->second, document);

  Names names;
  Body body(graph.nodes, names, document, "    ");
  for (const OperandDecl& operand : graph.operands) (void)names.take(operand.name);
  for (const OutputDecl& output : graph.outputs) {
    (void)names.take(output.name);
    body.use(output.value);
  }
  std::string accumulator;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == Op::operand)
      body.leaf(static_cast<NodeId>(i), graph.operands[static_cast<std::size_t>(node.index)].name);
    if (node.op != Op::acc) continue;
    if (accumulator.empty()) accumulator = names.unique(node.name.empty() ? "acc" : node.name);
    body.leaf(static_cast<NodeId>(i), accumulator);
  }
  std::string parameters = accumulator.empty() ? names.unique("acc") : accumulator;
  for (const OperandDecl& operand : graph.operands)
    parameters += ", " + operand.name + ": " + declared(operand.axes, operand.dtype);

  // A value takes the name of its first output, unless the user called it otherwise.
  const bool single =
      graph.outputs.size() == 1 && graph.outputs[0].name == "D" && !graph.outputs[0].dtype && !graph.outputs[0].axes;
  for (const OutputDecl& output : graph.outputs) {
    const std::string& hint = graph.nodes[static_cast<std::size_t>(output.value)].name;
    if (single && hint.empty() && body.uses(output.value) == 1) body.finish_with(output.value);
    else if (hint.empty() || hint == output.name)
      body.want(output.value, output.name, declared(output.axes, output.dtype));
  }
  body.print_all();

  std::string returned;
  for (const OutputDecl& output : graph.outputs) {
    const Op op = graph.nodes[static_cast<std::size_t>(output.value)].op;
    const std::string value = body.reference(output.value);
    // `return d` would name the output d; an expression and a parameter leave it D.
    if (single && (op == Op::acc || op == Op::operand || !body.is_variable(output.value))) {
      returned = value;
      continue;
    }
    if (value != output.name) {
      const std::string annotation = declared(output.axes, output.dtype);
      body.lines += "    " + output.name + (annotation.empty() ? "" : ": " + annotation) + " = " + value + '\n';
    }
    returned += (returned.empty() ? "" : ", ") + output.name;
  }
  return document.text + "def " + graph.name + '(' + parameters + "):\n" + body.lines + "    return " + returned + '\n';
}

}  // namespace postlude::inline v0
