#include "bindings.h"

#include "arrays.h"

#include "graph/ir/builder.h"
#include "graph/ir/ir.h"
#include "graph/ir/verify.h"
#include "graph/text/refusals.h"

#include <postlude/dtype.h>
#include <postlude/graph.h>
#include <postlude/parse.h>

#include <algorithm>
#include <limits>

namespace postlude::inline v0::python {
namespace {

Axes axes_of(int bits) {
  Axes axes;
  axes.bits = static_cast<std::uint8_t>(bits);
  return axes;
}

// A Python number as a literal, or a value.
Value value_of(nb::handle object) {
  if (nb::isinstance<Value>(object)) return nb::cast<Value>(object);
  PyObject* number = object.ptr();
  if (PyBool_Check(number)) return Value(number == Py_True);
  const auto literal = number_of(object).value();
  if (PyLong_Check(number) && std::holds_alternative<double>(literal))
    throw Error(ErrorCode::syntax, "this number is out of range", "Integers have 64 bits; 1e20 is a real number.");
  return std::visit([](auto value) { return Value(value); }, literal);
}

std::vector<Value> values_of(nb::handle sequence) {
  std::vector<Value> values;
  for (nb::handle item : sequence) values.push_back(value_of(item));
  return values;
}

template <typename Table>
const auto& row_of(const Table& table, std::string_view id) {
  for (const auto& row : table) {
    if constexpr (requires { row.id; }) {
      if (row.id == id) return row;
    } else if (row.spelling == id) {
      return row;
    }
  }
  throw Error(ErrorCode::internal, "no operation " + postlude::quoted(id));
}

Value apply(const std::string& id, nb::handle arguments) {
  const std::vector<Value> values = values_of(arguments);
  const auto state = BuilderState::of(values);
  std::vector<NodeId> nodes;
  for (const Value& value : values) nodes.push_back(state->node(value));
  return BuilderState::value(state, state->elementwise(row_of(op_table, id).op, std::move(nodes)));
}

Value reduction(const std::string& id, nb::handle x, int axes, Size group, bool batch) {
  const Value value = value_of(x);
  const auto state = BuilderState::of({&value});
  return BuilderState::value(state, state->reduction(row_of(reduction_table, id).op, state->node(value), axes_of(axes),
                                                     {.group = group, .batch = batch}));
}

// What a value is called in a drawing: its operation and attributes.
std::string label_of(const GraphData& graph, const Node& node) {
  switch (node.op) {
    case Op::constant: {
      if (node.literal.type == DType::boolean) return node.literal.integer ? "True" : "False";
      if (node.literal.type == DType::i64) return std::to_string(node.literal.integer);
      std::string text = nb::cast<std::string>(nb::str(nb::float_(node.literal.real)));
      return text;
    }
    case Op::operand: return graph.operands[static_cast<std::size_t>(node.index)].name;
    case Op::call: return node.function->name;
    case Op::reduce: return std::string(info(node.reduction).spelling);
    case Op::chunk: return "chunk " + std::to_string(node.index) + "/" + std::to_string(node.pieces);
    case Op::cast: return "cast " + std::string(name(node.dtype));
    default: return std::string(info(node.op).spelling.empty() ? info(node.op).id : info(node.op).spelling);
  }
}

// "gelu(acc + ...)" would be long: the operation, and those that its arguments come from.
std::string describe(const Value& value) {
  const auto state = BuilderState::of({&value});
  const GraphData& graph = state->graph;
  const Node& node = graph.nodes[static_cast<std::size_t>(state->node(value))];
  std::string text = label_of(graph, node);
  for (const NodeId id : node.args)
    text += (id == node.args.front() ? " of " : ", ") + label_of(graph, graph.nodes[static_cast<std::size_t>(id)]);
  return text;
}

struct NodeView {
  std::string op, label, name;
  std::vector<NodeId> args;
  int axes;
  int line;
};

std::vector<NodeView> nodes_of(const Graph& graph) {
  const GraphData& data = graph.data();
  const Inference inference = verify(data);
  std::vector<NodeView> views;
  for (std::size_t i = 0; i < data.nodes.size(); ++i) {
    const Node& node = data.nodes[i];
    views.push_back({std::string(info(node.op).id), label_of(data, node), node.name, node.args,
                     inference.values[i].axes.bits, node.span.line});
  }
  return views;
}

// Operands or outputs: name, axes, dtype or None.
auto declared(const auto& declarations) {
  std::vector<std::tuple<std::string, int, std::optional<DType>>> rows;
  for (const auto& each : declarations) rows.emplace_back(each.name, each.axes.bits, each.dtype);
  return rows;
}

// Operands that no output depends on.
std::vector<std::string> unused_operands(const Graph& graph) {
  const GraphData& data = graph.data();
  std::vector<bool> needed(data.nodes.size());
  for (const OutputDecl& output : data.outputs) needed[static_cast<std::size_t>(output.value)] = true;
  for (std::size_t i = data.nodes.size(); i-- > 0;)  // users stand behind what they use
    if (needed[i])
      for (const NodeId argument : data.nodes[i].args) needed[static_cast<std::size_t>(argument)] = true;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < data.nodes.size(); ++i)
    if (data.nodes[i].op == Op::operand && !needed[i])
      names.push_back(data.operands[static_cast<std::size_t>(data.nodes[i].index)].name);
  return names;
}

// What `function` returns, and the frame of `code` as it returned, which keeps its variables. A profiler pauses
// meanwhile: sys.setprofile could not put one back that is written in C.
struct Watch {
  PyObject* code;
  nb::object frame = nb::none();
};

int watch(PyObject* self, PyFrameObject* frame, int what, PyObject* /*argument*/) {
  if (what != PyTrace_RETURN) return 0;
  auto* watched = static_cast<Watch*>(PyCapsule_GetPointer(self, nullptr));
  const nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  if (code.ptr() == watched->code) watched->frame = nb::borrow(reinterpret_cast<PyObject*>(frame));
  return 0;
}

nb::tuple call_and_frame(const nb::callable& function, nb::handle code) {
  Watch watched{code.ptr()};
  const nb::capsule self(&watched);
  struct Profiler {
    Py_tracefunc function = PyThreadState_Get()->c_profilefunc;
    nb::object object = nb::borrow(PyThreadState_Get()->c_profileobj);
    ~Profiler() { PyEval_SetProfile(function, object.ptr()); }
  } const before;
  PyEval_SetProfile(watch, self.ptr());
  const nb::object result = function();
  return nb::make_tuple(result, watched.frame);
}

void bind_types(nb::module_& m) {
  auto dtype = nb::enum_<DType>(m, "DType", "An element type.");
  for (int i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<DType>(i);
    dtype.value(std::string(name(type)).c_str(), type);
  }
  m.def("parse_dtype", [](const std::string& text) { return parse_dtype(text); });
  m.def("size_of", [](DType type) { return size_of(type); });
  auto round = nb::enum_<Round>(m, "Round", "How cast rounds.");
  for (int i = 0; i <= static_cast<int>(Round::stochastic); ++i)
    round.value(std::string(name(static_cast<Round>(i))).c_str(), static_cast<Round>(i));
}

void bind_tables(nb::module_& m) {
  // What the text says about Python that the language does not have.
  m.def("synonym", [](const std::string& name) { return text::synonym(name); });
  m.def("refused_operator", [](const std::string& token) {
    for (const text::Refusal& row : text::refused_operators)
      if (row.token == token) return std::pair(row.message, row.hint);
    throw Error(ErrorCode::internal, "no refused operator " + postlude::quoted(token));
  });

  // The op table, for the package's functions and their stubs.
  m.def("op_table", [] {
    std::vector<std::tuple<std::string, std::string, int, bool, std::string>> rows;
    for (const OpInfo& op : op_table)
      rows.emplace_back(std::string(op.id), std::string(op.spelling), op.arity, is_elementwise(op.op),
                        std::string(op.doc));
    return rows;
  });
  m.def("reduction_table", [] {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const ReductionInfo& row : reduction_table) rows.emplace_back(std::string(row.spelling), std::string(row.doc));
    return rows;
  });
}

void bind_values(nb::module_& m) {
  nb::class_<Value>(m, "Node", "A value of a graph under construction.").def("__repr__", &describe);
  m.def("apply", &apply, nb::arg("op"), nb::arg("arguments"));
  m.def("reduction", &reduction, nb::arg("op"), nb::arg("x"), nb::arg("axes"), nb::arg("group"), nb::arg("batch"));
  m.def("cast", [](nb::handle x, DType type, Round rounding, std::uint64_t seed) {
    return cast(value_of(x), type, rounding, seed);
  });
  m.def("chunk", [](nb::handle x, Size k, Size group) {
    return chunk(value_of(x), static_cast<int>(std::clamp<std::int64_t>(k, -1, std::numeric_limits<int>::max())),
                 group);
  });
  m.def("concat", [](nb::handle parts, Size group) {
    const std::vector<Value> values = values_of(parts);
    return concat(values, group);
  });
  m.def("repeat", [](nb::handle x, Size group, int axes) {
    return repeat(value_of(x), group, axes == row_axes.bits ? Axis::n : Axis::m);
  });
  m.def("call", [](const std::string& function, nb::handle arguments) {
    const std::vector<Value> values = values_of(arguments);
    return call(function, values);
  });
  m.def("reduce", [](nb::handle values, nb::object combine, const std::vector<double>& identity, int axes, Size group,
                     bool batch) {
    const Combine combiner = [&](std::span<const Value> a, std::span<const Value> b) {
      nb::list left, right;
      for (const Value& value : a) left.append(value);
      for (const Value& value : b) right.append(value);
      return values_of(combine(left, right));
    };
    const std::vector<Value> inputs = values_of(values);
    return reduce(inputs, combiner, identity, axes_of(axes), {.group = group, .batch = batch});
  });
}

void bind_builder(nb::module_& m) {
  m.def("call_and_frame", &call_and_frame);
  nb::class_<GraphBuilder>(m, "GraphBuilder")
      .def(nb::init<std::string>())
      .def("accumulator", &GraphBuilder::accumulator)
      .def(
          "operand",
          [](GraphBuilder& g, std::string name, int axes, std::optional<DType> type) {
            return g.operand(std::move(name), axes_of(axes), type);
          },
          nb::arg("name"), nb::arg("axes"), nb::arg("dtype").none())
      .def("m_index", &GraphBuilder::m_index)
      .def("n_index", &GraphBuilder::n_index)
      .def("z_index", &GraphBuilder::z_index)
      .def("p_index", &GraphBuilder::p_index)
      .def("q_index", &GraphBuilder::q_index)
      .def("batch_index", &GraphBuilder::batch_index)
      .def("random", &GraphBuilder::random)
      .def(
          "output",
          [](GraphBuilder& g, std::string name, nb::handle value, std::optional<DType> type, std::optional<int> axes) {
            g.output(std::move(name), value_of(value), type, axes ? std::optional(axes_of(*axes)) : std::nullopt);
          },
          nb::arg("name"), nb::arg("value"), nb::arg("dtype").none(), nb::arg("axes").none())
      .def("at",
           [](GraphBuilder& g, std::string file, int line, int column, int length, std::string source_line) {
             g.at({std::move(file), {line, column, length}, std::move(source_line)});
           })
      .def("name", [](GraphBuilder& g, const Value& value, std::string hint) { g.name(value, std::move(hint)); })
      .def("finish", &GraphBuilder::finish);
}

std::vector<std::tuple<std::string, int, int, bool>> slots_of(const Graph& graph) {
  const GraphData& data = graph.data();
  const Inference inference = verify(data);
  std::vector<std::tuple<std::string, int, int, bool>> slots;
  const auto add = [&](const std::string& name, Axes axes, const Extent& rows, const Extent& columns, bool output) {
    const Axes whole = (rows == Extent{} ? Axes(Axis::m) : Axes()) | (columns == Extent{} ? Axes(Axis::n) : Axes());
    slots.emplace_back(name, axes.bits, (axes & whole).bits, output);
  };
  for (std::size_t i = 0; i < data.operands.size(); ++i)
    add(data.operands[i].name, data.operands[i].axes, inference.operand_rows[i], inference.operand_columns[i], false);
  for (const OutputDecl& output : data.outputs) {
    const ValueInfo& value = inference.values[static_cast<std::size_t>(output.value)];
    add(output.name, value.axes, value.rows, value.columns, true);
  }
  return slots;
}

void bind_finished(nb::module_& m) {
  nb::class_<NodeView>(m, "NodeView", "A value of a graph, for drawing.")
      .def_ro("op", &NodeView::op)
      .def_ro("label", &NodeView::label)
      .def_ro("name", &NodeView::name)
      .def_ro("args", &NodeView::args)
      .def_ro("axes", &NodeView::axes)
      .def_ro("line", &NodeView::line);

  nb::class_<Graph>(m, "Graph", "A finished epilogue: immutable, and printed as text of the epilogue language.")
      .def_prop_ro("name", [](const Graph& g) { return g.name(); })
      .def_prop_ro(
          "operands", [](const Graph& g) { return declared(g.operands()); },
          "(name, axes, dtype or None) of each; axes is a sum of 2 (over M) and 4 (over N).")
      .def_prop_ro(
          "outputs", [](const Graph& g) { return declared(g.outputs()); }, "(name, axes, dtype or None) of each.")
      .def(
          "output_axes",
          [](const Graph& g) {
            const Inference inference = verify(g.data());
            std::vector<int> axes;
            for (const OutputDecl& output : g.data().outputs)
              axes.push_back(inference.values[static_cast<std::size_t>(output.value)].axes.bits);
            return axes;
          },
          "The axes of each output, 1 added where each batch has its own.")
      .def("slots", &slots_of,
           "(name, axes, those that are as long as the problem's, is output) of each operand and output; axes as "
           "output_axes() has them.")
      .def("unused_operands", &unused_operands, "Names of the operands that no output depends on.")
      .def("nodes", &nodes_of, "The values in topological order.")
      .def("__str__", [](const Graph& g) { return g.print(); })
      .def("__repr__", [](const Graph& g) {
        return "<postlude graph " + g.name() + ": " + std::to_string(g.data().nodes.size()) + " values>";
      });
}

void bind_texts(nb::module_& m) {
  m.def(
      "parse",
      [](const std::string& text, const std::string& name, const std::string& file) { return parse(text, name, file); },
      nb::arg("text"), nb::arg("name") = "", nb::arg("file") = "<text>", nb::call_guard<Unlocked>());
  m.def("parse_file", [](const nb::bytes& path) { return parse_file({path.c_str(), path.size()}); });
  m.def(
      "epilogue_names", [](const std::string& text, const std::string& file) { return epilogue_names(text, file); },
      nb::arg("text"), nb::arg("file") = "<text>");
}

}  // namespace

void bind_graph(nb::module_& m) {
  bind_types(m);
  bind_tables(m);
  bind_values(m);
  bind_builder(m);
  bind_finished(m);
  bind_texts(m);
}

}  // namespace postlude::inline v0::python
