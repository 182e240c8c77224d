#include "graph/ir/verify.h"

#include "graph/ir/extents.h"
#include "graph/ir/functions.h"
#include "graph/ir/typing.h"
#include "graph/text/source.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace postlude::inline v0 {
namespace {

std::string text(const ValueInfo& v) {
  return (v.axes.has(Axis::m) ? print_extent(v.rows, 'M') : "1") + " x " +
         (v.axes.has(Axis::n) ? print_extent(v.columns, 'N') : "1");
}

class Verifier {
 public:
  Verifier(const GraphData& graph, std::optional<DType> accumulator, std::optional<DType> operand_default)
      : graph_(graph), accumulator_(accumulator), operand_default_(operand_default.value_or(DType::f32)) {}

  Inference run() {
    names();
    check_bodies();
    check_combiners();
    open_ = open_extents(graph_);
    const std::size_t n = graph_.nodes.size();
    result_.values.reserve(n);
    types_.reserve(n);
    depends_.reserve(n);
    result_.operand_rows.resize(graph_.operands.size());
    result_.operand_columns.resize(graph_.operands.size());
    for (std::size_t i = 0; i < n; ++i) visit(static_cast<NodeId>(i));
    outputs();
    return std::move(result_);
  }

 private:
  const GraphData& graph_;
  std::optional<DType> accumulator_;
  DType operand_default_;
  Inference result_;
  Typing typing_;
  std::vector<TypeState> types_;                                   // one a node
  std::unordered_map<NodeId, std::vector<TypeState>> components_;  // of general reductions
  std::vector<char> depends_;                                      // on an operand, an axis or the accumulator
  std::unordered_map<NodeId, Extents> open_;
  std::vector<TypeState> args_;

  [[noreturn]] void fail(ErrorCode code, std::string message, std::string hint, const Span& span) const {
    throw Error(code, std::move(message), std::move(hint), locate(graph_, span));
  }
  [[noreturn]] void fail(ErrorCode code, std::string message, std::string hint, NodeId id) const {
    fail(code, std::move(message), std::move(hint), graph_.nodes[id].span);
  }

  // "'up' (M x N/2)", or "M x N/2" where the value has no name.
  std::string named(NodeId id) const {
    const Node& node = graph_.nodes[id];
    const std::string_view name =
        node.op == Op::operand ? std::string_view(graph_.operands[node.index].name) : node.name;
    const std::string shape = text(result_.values[id]);
    return name.empty() ? shape : quoted(name) + " (" + shape + ")";
  }

  // ---- names
  void names() const {
    std::unordered_map<std::string_view, bool> seen;  // name -> is an operand
    const auto check = [&](const std::string& name, bool operand, const Span& span) {
      const std::string what = operand ? "an operand" : "an output";
      if (!is_bound_name(name)) check_bound_name(name, what, locate(graph_, span));
      const auto [it, fresh] = seen.emplace(name, operand);
      if (fresh) return;
      if (it->second != operand)
        fail(ErrorCode::duplicate_name, "the output " + quoted(name) + " is named like an operand",
             "Both are bound by name; rename one.", span);
      fail(ErrorCode::duplicate_name,
           "two " + std::string(operand ? "operands" : "outputs") + " are named " + quoted(name), "Rename one.", span);
    };
    for (const OperandDecl& o : graph_.operands) {
      check(o.name, true, o.span);
      if (o.axes.has(Axis::b) || o.axes.bits > 7)
        fail(ErrorCode::bad_attribute, "operand " + quoted(o.name) + " has an axis that cannot be declared",
             "An operand is a tile, row, col or scalar; its batch axis depends on what is bound.", o.span);
    }
    for (const OutputDecl& o : graph_.outputs) check(o.name, false, o.span);
  }

  // ---- bodies of functions and combiners
  void check_body(const Lambda& body, std::size_t results, ErrorCode code, const std::string& what,
                  const Span& span) const {
    const auto refuse = [&](const std::string& why) { fail(code, what + " " + why, "", span); };
    if (body.results.size() != results)
      refuse("gives " + std::to_string(body.results.size()) + " values, not " + std::to_string(results));
    for (NodeId r : body.results)
      if (r < 0 || r >= static_cast<NodeId>(body.nodes.size())) refuse("has a result that is not defined");
    for (std::size_t i = 0; i < body.nodes.size(); ++i) {
      const Node& n = body.nodes[i];
      if (n.op == Op::parameter) {
        if (n.index < 0 || n.index >= body.parameters) refuse("uses a parameter that it does not have");
        continue;
      }
      if (n.op == Op::call ? n.function == nullptr : n.op != Op::constant && !is_elementwise(n.op))
        refuse("contains '" + std::string(info(n.op).id) + "', which is not elementwise");
      if (n.op != Op::call && info(n.op).arity != static_cast<int>(n.args.size()))
        refuse("applies '" + std::string(info(n.op).id) + "' to a wrong number of values");
      for (NodeId a : n.args)
        if (a < 0 || a >= static_cast<NodeId>(i)) refuse("uses a value before it is defined");
      if (n.op == Op::call && n.args.size() != n.function->parameters.size())
        refuse("calls " + quoted(n.function->name) + " with " + std::to_string(n.args.size()) + " arguments");
    }
  }

  void check_bodies() const {
    std::unordered_set<const Function*> seen;
    std::vector<std::pair<const Function*, Span>> pending;
    const auto add_calls = [&](const std::vector<Node>& nodes, const Span* span) {
      for (const Node& n : nodes)
        if (n.op == Op::call && n.function && seen.insert(n.function.get()).second)
          pending.emplace_back(n.function.get(), span ? *span : n.span);
    };
    add_calls(graph_.nodes, nullptr);
    for (const Node& n : graph_.nodes)
      if (n.op == Op::reduce && n.combine) add_calls(n.combine->nodes, &n.span);
    while (!pending.empty()) {
      const Function* f = pending.back().first;
      const Span span = pending.back().second;  // a lambda takes no structured binding in C++20 of clang
      pending.pop_back();
      const std::string what = "function " + quoted(f->name);
      if (f->body.nodes.empty() && !f->native) fail(ErrorCode::bad_function, what + " has no definition", "", span);
      const auto check = [&](const Lambda& body, const std::string& its) {
        if (body.parameters != static_cast<std::int32_t>(f->parameters.size()))
          fail(ErrorCode::bad_function, its + " has a body of other parameters", "", span);
        check_body(body, 1, ErrorCode::bad_function, its, span);
        add_calls(body.nodes, &span);
      };
      for (const Lambda& derivative : f->derivatives) check(derivative, "a derivative of " + what);
      if (!f->body.nodes.empty()) check(f->body, what);
    }
  }

  // A combiner stands at no element, so there are no coordinates to number its random bits.
  void check_combiners() const {
    const auto stochastic = stochastic_functions(graph_.nodes);
    for (const Node& node : graph_.nodes) {
      if (node.combine && rounds_stochastically(node.combine->nodes, stochastic))
        fail(ErrorCode::bad_combiner, "the combiner rounds stochastically",
             "Cast the values before they are reduced, or the result.", node.span);
    }
  }

  // ---- nodes
  void visit(NodeId id) {
    const Node& node = graph_.nodes[id];
    const int arity = info(node.op).arity;
    if (arity >= 0 && arity != static_cast<int>(node.args.size()))
      fail(ErrorCode::bad_call,
           "'" + std::string(info(node.op).id) + "' takes " + std::to_string(arity) + " values, not " +
               std::to_string(node.args.size()),
           "", id);
    args_.clear();
    bool depends = false;
    for (NodeId a : node.args) {
      if (a < 0 || a >= id) fail(ErrorCode::internal, "a node uses one that comes after it", "", id);
      if (graph_.nodes[a].op == Op::reduce && graph_.nodes[a].reduction == ReduceOp::custom && node.op != Op::get)
        fail(ErrorCode::internal, "a general reduction is used without saying which of its results", "", id);
      args_.push_back(types_[a]);
      depends |= depends_[a] != 0;
    }
    result_.values.emplace_back();
    types_.emplace_back();
    if (is_elementwise(node.op) || node.op == Op::call) {
      elementwise(id);
    } else if (node.op == Op::reduce) {
      reduce(id);
    } else if (node.args.empty()) {
      depends = leaf(id);
    } else {
      shape(id);
    }
    depends_.push_back(depends);
    ValueInfo& v = result_.values[id];
    v.type = types_[id].type;
    v.literal = types_[id].literal;
  }

  bool leaf(NodeId id) {
    const Node& node = graph_.nodes[id];
    ValueInfo& v = result_.values[id];
    TypeState& t = types_[id];
    if (auto it = open_.find(id); it != open_.end()) {
      v.rows = it->second.rows;
      v.columns = it->second.columns;
    }
    switch (node.op) {
      case Op::constant: t = literal_type(node.literal); return false;
      case Op::acc:
        t.type = accumulator_;
        v.axes = Axis::b | tile_axes;
        return true;
      case Op::operand: {
        if (node.index < 0 || node.index >= static_cast<std::int32_t>(graph_.operands.size()))
          fail(ErrorCode::internal, "a node reads an operand that is not declared", "", id);
        const OperandDecl& o = graph_.operands[node.index];
        t.type = compute_type(o.dtype.value_or(o.axes.empty() ? DType::f32 : operand_default_));
        v.axes = Axis::b | o.axes;
        result_.operand_rows[node.index] = v.rows;
        result_.operand_columns[node.index] = v.columns;
        return true;
      }
      case Op::m_index:
      case Op::z_index:
      case Op::p_index:
      case Op::q_index:
        t.type = DType::i32;
        v.axes = Axis::m;
        return true;
      case Op::n_index:
        t.type = DType::i32;
        v.axes = Axis::n;
        return true;
      case Op::batch_index:
        t.type = DType::i32;
        v.axes = Axis::b;
        return true;
      case Op::random:
        t.type = DType::f32;
        v.axes = Axis::b | tile_axes;
        return true;
      default: fail(ErrorCode::internal, "'" + std::string(info(node.op).id) + "' cannot stand in a graph", "", id);
    }
  }

  // Broadcasts the arguments; the result's axes and extents.
  void meet(NodeId id) {
    const Node& node = graph_.nodes[id];
    ValueInfo& v = result_.values[id];
    NodeId rows_from = -1, columns_from = -1;
    for (NodeId a : node.args) {
      const ValueInfo& x = result_.values[a];
      if (x.axes.has(Axis::m)) {
        if (rows_from < 0) {
          v.rows = x.rows;
          rows_from = a;
        } else if (!same_extent(v.rows, x.rows)) {
          unequal(id, rows_from, a);
        }
        v.rows.exact |= x.rows.exact;
      }
      if (x.axes.has(Axis::n)) {
        if (columns_from < 0) {
          v.columns = x.columns;
          columns_from = a;
        } else if (!same_extent(v.columns, x.columns)) {
          unequal(id, columns_from, a);
        }
        v.columns.exact |= x.columns.exact;
      }
      v.axes = v.axes | x.axes;
    }
  }

  [[noreturn]] void unequal(NodeId id, NodeId a, NodeId b) const {
    const Node& node = graph_.nodes[id];
    const std::string op = node.op == Op::call ? node.function->name : std::string(info(node.op).spelling);
    const auto in_groups = [&](NodeId x) { return !result_.values[x].rows.exact || !result_.values[x].columns.exact; };
    fail(ErrorCode::extent_mismatch, "'" + op + "' of unequal extents: " + named(a) + " against " + named(b),
         in_groups(a) || in_groups(b)
             ? "A grouped reduction leaves one value a group; repeat(x, group) lays such a value back."
             : "chunk divides the columns. An operand, n_index() and random() are as wide as their first use: chunk(x, "
               "k) "
               "gives their blocks, and a second n_index() has a width of its own.",
         id);
  }

  void elementwise(NodeId id) {
    const Node& node = graph_.nodes[id];
    if (node.op == Op::call) {
      if (!node.function) fail(ErrorCode::internal, "a call without a function", "", id);
      if (node.args.size() != node.function->parameters.size())
        fail(ErrorCode::bad_call,
             quoted(node.function->name) + " takes " + std::to_string(node.function->parameters.size()) +
                 " arguments, not " + std::to_string(node.args.size()),
             "", id);
      for (std::size_t p = native_arity(*node.function); p < node.args.size(); ++p) {
        if (!result_.values[node.args[p]].axes.has(Axis::m) && !result_.values[node.args[p]].axes.has(Axis::n))
          continue;
        fail(ErrorCode::bad_call,
             "the parameter " + quoted(node.function->parameters[p].name) + " of " + quoted(node.function->name) +
                 " must be a scalar, not " + text(result_.values[node.args[p]]),
             "", id);
      }
    }
    if (node.op == Op::scaled && !(result_.values[node.args[0]].axes & tile_axes).empty())
      fail(ErrorCode::extent_mismatch,
           "the factor of scaled must be a scalar, not " + text(result_.values[node.args[0]]),
           "Whether x is read is decided once for all elements; use '*'.", id);
    if (node.op == Op::cast && node.round == Round::stochastic && !is_float(node.dtype))
      fail(ErrorCode::bad_attribute, "stochastic rounding to " + std::string(postlude::name(node.dtype)),
           "It is for floating-point dtypes.", id);
    meet(id);
    try {
      types_[id] = typing_.infer(node, args_);
    } catch (const Error& e) { fail(e.code(), e.message(), e.hint(), id); }
  }

  static std::size_t native_arity(const Function& f) {
    return f.native ? static_cast<std::size_t>(f.native->arity) : f.parameters.size();
  }

  void shape(NodeId id) {
    const Node& node = graph_.nodes[id];
    const std::string what(info(node.op).spelling);
    if (node.op == Op::get) {
      const auto it = components_.find(node.args[0]);
      if (it == components_.end() || node.index < 0 || node.index >= static_cast<std::int32_t>(it->second.size()))
        fail(ErrorCode::internal, "a result that its reduction does not have", "", id);
      result_.values[id] = result_.values[node.args[0]];
      types_[id] = it->second[node.index];
      return;
    }
    if (node.group < 0 || node.group > extent_limit)
      fail(ErrorCode::bad_attribute, what + " with group=" + std::to_string(node.group),
           "A group is a positive number of columns.", id);
    meet(id);
    ValueInfo& v = result_.values[id];
    const Axis axis = node.op == Op::repeat && !node.axes.has(Axis::n) ? Axis::m : Axis::n;
    for (NodeId a : node.args) {
      if (result_.values[a].axes.has(axis)) continue;
      fail(ErrorCode::missing_axis,
           what + " of a value that has no " + (axis == Axis::n ? "columns" : "rows") + ": " + named(a), "", id);
    }
    std::optional<Extent> changed;
    const std::int64_t k = node.op == Op::chunk ? node.pieces : static_cast<std::int64_t>(node.args.size());
    if (node.op == Op::chunk) {
      if (k < 1 || node.index < 0 || node.index >= k)
        fail(ErrorCode::bad_attribute, "chunk into " + std::to_string(k) + " pieces", "It needs at least one.", id);
      types_[id] = types_[node.args[0]];
      changed = scaled_by(v.columns, 1, k);
    } else if (node.op == Op::concat) {
      if (k < 1) fail(ErrorCode::bad_attribute, "concat of nothing", "Give it at least one value.", id);
      types_[id] = std::all_of(args_.begin(), args_.end(), [](const TypeState& t) { return t.type == DType::boolean; })
                       ? TypeState{DType::boolean, false, false}
                       : promote(args_);
      types_[id].literal = false;
      changed = scaled_by(v.columns, k, 1);
    } else {
      if (node.group < 1 || (node.axes != Axes(Axis::n) && node.axes != Axes(Axis::m)))
        fail(ErrorCode::bad_attribute, "repeat with group=" + std::to_string(node.group),
             "It needs a positive group and one axis.", id);
      types_[id] = types_[node.args[0]];
      types_[id].literal = false;
      changed = ungrouped(axis == Axis::n ? v.columns : v.rows, node.group);
    }
    if (node.op != Op::repeat && node.group > 0 && node.group % k != 0)
      fail(ErrorCode::bad_attribute,
           what + " of groups of " + std::to_string(node.group) + " columns in " + std::to_string(k) + " pieces",
           "The number of pieces must divide the group.", id);
    if (!changed)
      fail(ErrorCode::bad_attribute, what + " makes an extent out of " + text(v) + " that cannot be expressed", "", id);
    const Extent before = v.columns;
    (axis == Axis::n ? v.columns : v.rows) = *changed;
    if (node.op == Op::chunk) promise(before, node.group > 0 ? node.group : k, id);
    if (node.op != Op::concat) return;
    // Parts of coordinates or operands are as wide as their use asks, and no chunk has promised
    // that they are whole.
    if (before.exact && before.over > 1) promise(*changed, node.group > 0 ? node.group : k, id);
    else if (node.group > 0) promise(before, node.group / k, id);
  }

  void promise(const Extent& columns, std::int64_t divisor, NodeId id) {
    if (divisor == 1) return;
    const auto equal = [&](const Divisibility& d) { return d.columns == columns && d.divisor == divisor; };
    if (std::none_of(result_.divisibility.begin(), result_.divisibility.end(), equal))
      result_.divisibility.push_back({columns, divisor, id});
  }

  void reduce(NodeId id) {
    const Node& node = graph_.nodes[id];
    const std::string what(info(node.reduction).spelling);
    const bool custom = node.reduction == ReduceOp::custom;
    if (node.args.empty() || (!custom && node.args.size() != 1))
      fail(ErrorCode::bad_call, what + " of " + std::to_string(node.args.size()) + " values", "", id);
    if (node.axes.empty() || node.axes.bits > 7)
      fail(ErrorCode::bad_attribute, what + " over no axis", "Axis is 0, 1 or both.", id);
    if (node.group < 0 || node.group > extent_limit)
      fail(ErrorCode::bad_attribute, what + " with group=" + std::to_string(node.group),
           "A group is a positive number of columns or rows.", id);
    const Axes spatial = node.axes & tile_axes;
    if (node.group > 0 && spatial != Axes(Axis::m) && spatial != Axes(Axis::n))
      fail(ErrorCode::bad_attribute, what + " with a group over two axes",
           "Say axis=0 (groups of rows) or axis=1 (groups of columns).", id);
    meet(id);
    ValueInfo& v = result_.values[id];
    for (const Axis axis : {Axis::m, Axis::n, Axis::b}) {
      if (!node.axes.has(axis) || v.axes.has(axis)) continue;
      const char* over = axis == Axis::m ? "axis=0 (the rows)" : axis == Axis::n ? "axis=1 (the columns)" : "the batch";
      const Axes left = v.axes & tile_axes;
      fail(ErrorCode::missing_axis,
           what + " over " + over + " of a value that does not vary along it: " + named(node.args[0]),
           left == Axes(Axis::m)   ? "Reduce it with axis=0."
           : left == Axes(Axis::n) ? "Reduce it with axis=1."
                                   : "",
           id);
    }
    if (node.group > 0) {
      Extent& e = spatial.has(Axis::n) ? v.columns : v.rows;
      const auto count = grouped(e, node.group);
      if (!count)
        fail(ErrorCode::bad_attribute, what + " in groups of " + std::to_string(node.group) + " of " + text(v),
             "Of " + std::to_string(e.times) + " joined values a group is a divisor or a multiple of " +
                 std::to_string(e.times) + " columns; reduce the values before they are joined.",
             id);
      e = *count;
      v.axes = v.axes - (node.axes - spatial);
    } else {
      v.axes = v.axes - node.axes;
    }
    if (!v.axes.has(Axis::m)) v.rows = {};
    if (!v.axes.has(Axis::n)) v.columns = {};
    types_[id] = reduction_type(id);
  }

  TypeState reduction_type(NodeId id) {
    const Node& node = graph_.nodes[id];
    TypeState x = promote(std::span(args_).first(1));
    x.literal = false;
    switch (node.reduction) {
      case ReduceOp::sum:
      case ReduceOp::prod:
        if (x.type && x.type != DType::f32) x.type = DType::i64;
        return x;  // unset for the accumulator: f32 or i64
      case ReduceOp::max:
      case ReduceOp::min: return x;
      case ReduceOp::any:
      case ReduceOp::all: return {DType::boolean, false, false};
      case ReduceOp::argmax:
      case ReduceOp::argmin: return {DType::i64, false, false};
      case ReduceOp::mean:
      case ReduceOp::logsumexp:
      case ReduceOp::var:
      case ReduceOp::norm: return {DType::f32, false, false};
      case ReduceOp::custom: break;
    }
    const std::size_t k = node.args.size();
    const Span& span = node.span;
    if (!node.combine) fail(ErrorCode::bad_combiner, "reduce without a combiner", "", id);
    if (node.combine->parameters != static_cast<std::int32_t>(2 * k))
      fail(ErrorCode::bad_combiner,
           "the combiner of " + std::to_string(k) + " values takes " + std::to_string(node.combine->parameters) +
               " parameters",
           "It takes " + std::to_string(2 * k) + ": a1, ..., b1, ...", id);
    if (node.identity.size() != k)
      fail(ErrorCode::bad_combiner,
           "reduce of " + std::to_string(k) + " values with " + std::to_string(node.identity.size()) + " identities",
           "Give one a value.", id);
    check_body(*node.combine, k, ErrorCode::bad_combiner, "the combiner", span);
    std::vector<TypeState> values;
    for (const TypeState& a : args_)
      values.push_back(a.type == DType::boolean ? TypeState{DType::boolean, false, false}
                                                : TypeState{promote({&a, 1}).type, false, false});
    std::vector<TypeState> parameters = values;
    parameters.insert(parameters.end(), values.begin(), values.end());
    std::vector<TypeState> body;
    try {
      body = typing_.infer_body(*node.combine, parameters);
    } catch (const Error& e) { fail(ErrorCode::bad_combiner, "in the combiner: " + e.message(), e.hint(), id); }
    for (std::size_t i = 0; i < k; ++i) {
      const TypeState& r = body[node.combine->results[i]];
      const bool yields = r.literal && r.type != DType::boolean && values[i].type != DType::boolean &&
                          !(r.type == DType::f32 && values[i].type && values[i].type != DType::f32);
      const bool open = !values[i].type && r.type != DType::boolean;  // the accumulator's type may be right
      if (yields || !r.type || open || r.type == values[i].type) continue;
      fail(ErrorCode::bad_combiner,
           "result " + std::to_string(i + 1) + " of the combiner is " + std::string(postlude::name(*r.type)) +
               " where the value is " + (values[i].type ? std::string(postlude::name(*values[i].type)) : "a number"),
           "Cast the value or the result.", id);
    }
    components_[id] = values;
    return values[0];
  }

  // ---- outputs
  static std::string class_name(Axes axes) {
    axes = axes & tile_axes;
    return axes == tile_axes ? "tile" : axes == row_axes ? "row" : axes == col_axes ? "col" : "scalar";
  }

  void outputs() const {
    if (graph_.outputs.empty())
      throw Error(ErrorCode::no_output, "the epilogue " + quoted(graph_.name) + " has no output", "Return a value.",
                  locate(graph_, graph_.nodes.empty() ? Span{} : graph_.nodes.back().span));
    for (const OutputDecl& o : graph_.outputs) {
      if (o.value < 0 || o.value >= static_cast<NodeId>(graph_.nodes.size()) ||
          (graph_.nodes[o.value].op == Op::reduce && graph_.nodes[o.value].reduction == ReduceOp::custom))
        fail(ErrorCode::internal, "output " + quoted(o.name) + " has no value", "", o.span);
      const ValueInfo& v = result_.values[o.value];
      if (!depends_[o.value])
        fail(ErrorCode::constant_output, "output " + quoted(o.name) + " is a constant",
             "It depends on no operand, no index and not on acc; compute it outside.", o.span);
      if (o.axes && *o.axes != (v.axes & tile_axes))
        fail(ErrorCode::output_axes,
             "output " + quoted(o.name) + " is declared " + class_name(*o.axes) + " but its value is " +
                 class_name(v.axes) + " (" + text(v) + ")",
             "Declare what it is, or reduce it.", o.span);
    }
  }
};

}  // namespace

Inference verify(const GraphData& graph, std::optional<DType> accumulator, std::optional<DType> operand_default) {
  return Verifier(graph, accumulator, operand_default).run();
}

}  // namespace postlude::inline v0
