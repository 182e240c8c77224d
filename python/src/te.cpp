// Expressions, schedules and modules of loops. What a user sees is ../postlude/te.py.
#include "arrays.h"
#include "bindings.h"
#include "te/expression.h"

#include <postlude/te.h>

#include <functional>
#include <memory>

namespace postlude::inline v0::python {
namespace {

// A Python function that C++ may call, and drop, without the interpreter's lock.
std::shared_ptr<nb::object> kept(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* last) {
            const nb::gil_scoped_acquire lock;
            delete last;
          }};
}

te::Expr expr_of(nb::handle object) {
  if (nb::isinstance<te::Expr>(object)) return nb::cast<te::Expr>(object);
  if (nb::isinstance<te::Axis>(object)) return nb::cast<te::Axis>(object);
  if (object.is_none()) return {};
  if (PyBool_Check(object.ptr())) return te::Expr(object.ptr() == Py_True);
  if (const auto number = number_of(object)) {
    if (PyLong_Check(object.ptr()) && std::holds_alternative<double>(*number))
      throw Error(ErrorCode::size_overflow,
                  "this number does not fit 64 bits: " + nb::cast<std::string>(nb::repr(object)));
    return std::visit([](auto value) { return te::Expr(value); }, *number);
  }
  if (nb::isinstance<te::Tensor>(object))
    throw Error(
        ErrorCode::usage,
        postlude::quoted(nb::cast<te::Tensor>(object).name()) + " is a tensor, and operations are of its elements",
        "An element is read as A[i, k].");
  throw Error(ErrorCode::usage, "this is no expression: " + nb::cast<std::string>(nb::repr(object)),
              "An element is read as A[i, k].");
}
std::vector<te::Expr> exprs_of(nb::handle sequence) {
  std::vector<te::Expr> values;
  for (nb::handle item : sequence) values.push_back(expr_of(item));
  return values;
}

nb::tuple tuple_of(const auto& items) {
  nb::list list;
  for (const auto& item : items) list.append(item);
  return nb::tuple(list);
}

std::vector<te::Tensor> compute(nb::handle shape, nb::object body, const std::string& name, std::optional<DType> dtype,
                                const std::vector<std::string>& axes, bool several) {
  const auto call = [&](const te::Axes& at) { return nb::object(body(*tuple_of(at))); };
  if (several)
    return te::compute_several(
        exprs_of(shape), [&](const te::Axes& at) { return exprs_of(call(at)); }, name, axes);
  return {te::compute(
      exprs_of(shape), [&](const te::Axes& at) { return expr_of(call(at)); }, name, dtype, axes)};
}

te::Reducer reducer(nb::object combine, nb::object identity, const std::string& name) {
  const auto combines = kept(std::move(combine)), gives = kept(std::move(identity));
  return te::comm_reducer(
      [combines](const std::vector<te::Expr>& a, const std::vector<te::Expr>& b) {
        const nb::gil_scoped_acquire lock;
        return exprs_of(nb::object((*combines)(tuple_of(a), tuple_of(b))));
      },
      [gives](const std::vector<DType>& types) {
        const nb::gil_scoped_acquire lock;
        return exprs_of(nb::object((*gives)(tuple_of(types))));
      },
      name);
}

void run(const te::Module& module, nb::handle arrays, const std::vector<std::string>& names) {
  std::vector<Tensor> tensors;
  std::vector<Array> read;
  for (nb::handle array : arrays) {
    const std::string name = tensors.size() < names.size() ? names[tensors.size()] : "an array";
    read.push_back(read_array(array, name));
    if (read.back().read_only && module.is_output(tensors.size()))
      throw Error(ErrorCode::usage, postlude::quoted(name) + " is an output, and its array is read-only");
    tensors.push_back(read.back().tensor);
  }
  void* stream = nullptr;
  for (const Array& array : read)
    if (array.tensor.device == Device::cuda) stream = current_stream(array.framework, array.tensor.device_index);
  const nb::gil_scoped_release unlocked;
  module(tensors, stream);
}

void bind_expressions(nb::module_& m) {
  auto expr = nb::class_<te::Expr>(m, "LoopExpr", "A value of an element, an index or a size.");
  auto axis = nb::class_<te::Axis>(m, "LoopAxis", "What a loop runs over.");
  const auto operators = [](auto& type) {
    const auto binary = [&type](const char* name, const char* reversed, auto operation) {
      const auto other = nb::arg("other").none();  // refused by us
      type.def(
          name, [operation](nb::handle a, nb::handle b) { return operation(expr_of(a), expr_of(b)); }, other);
      if (reversed)
        type.def(
            reversed, [operation](nb::handle a, nb::handle b) { return operation(expr_of(b), expr_of(a)); }, other);
    };
    using E = te::Expr;
    binary("__add__", "__radd__", [](const E& a, const E& b) { return a + b; });
    binary("__sub__", "__rsub__", [](const E& a, const E& b) { return a - b; });
    binary("__mul__", "__rmul__", [](const E& a, const E& b) { return a * b; });
    binary("__truediv__", "__rtruediv__", [](const E& a, const E& b) { return a / b; });
    binary("__floordiv__", "__rfloordiv__", [](const E& a, const E& b) { return te::floordiv(a, b); });
    binary("__mod__", "__rmod__", [](const E& a, const E& b) { return te::floormod(a, b); });
    binary("__pow__", "__rpow__", [](const E& a, const E& b) { return te::apply("pow", {a, b}); });
    binary("__and__", "__rand__", [](const E& a, const E& b) { return a & b; });
    binary("__or__", "__ror__", [](const E& a, const E& b) { return a | b; });
    binary("__lt__", nullptr, [](const E& a, const E& b) { return a < b; });
    binary("__le__", nullptr, [](const E& a, const E& b) { return a <= b; });
    binary("__gt__", nullptr, [](const E& a, const E& b) { return a > b; });
    binary("__ge__", nullptr, [](const E& a, const E& b) { return a >= b; });
    binary("__eq__", nullptr, [](const E& a, const E& b) { return a == b; });
    binary("__ne__", nullptr, [](const E& a, const E& b) { return a != b; });
    binary("equal", nullptr, [](const E& a, const E& b) { return a == b; });
    type.def("__neg__", [](nb::handle x) { return -expr_of(x); });
    type.def("__invert__", [](nb::handle x) { return ~expr_of(x); });
    type.def("__abs__", [](nb::handle x) { return te::apply("abs", {expr_of(x)}); });
    type.def("__bool__", [](nb::handle x) -> bool {
      throw Error(ErrorCode::branch_on_value, "a branch on " + expr_of(x).print() + ", which is known only at run time",
                  "Write te.where(condition, a, b), and & | ~ for and, or, not.");
    });
  };
  operators(expr);
  operators(axis);
  expr.def("__hash__", [](const te::Expr& x) { return std::hash<const void*>()(x.node().get()); })
      .def("__repr__", [](const te::Expr& x) { return x.print(); })
      .def_prop_ro("type", [](const te::Expr& x) { return x.type(); });
  axis.def("__hash__", [](const te::Axis& x) { return std::hash<const void*>()(x.node().get()); })
      .def("__repr__", [](const te::Axis& x) { return x.name(); })
      .def_prop_ro("name", [](const te::Axis& x) { return x.name(); })
      .def_prop_ro("var", [](const te::Axis& x) { return x.var(); })
      .def_prop_ro("is_reduced", [](const te::Axis& x) { return x.node()->kind == te::AxisNode::Kind::reduce; })
      .def_prop_ro("extent", [](const te::Axis& x) { return x.extent(); });
  nb::class_<te::Operation>(m, "LoopOperation", "How a tensor is made.")
      .def_prop_ro("name", [](const te::Operation& x) { return x.name(); })
      .def_prop_ro("axis", [](const te::Operation& x) { return x.axis(); })
      .def_prop_ro("reduce_axis", [](const te::Operation& x) { return x.reduce_axis(); })
      .def_prop_ro("body", [](const te::Operation& x) { return x.body(); });
  nb::class_<te::Tensor>(m, "LoopTensor", "A placeholder, or what a stage computes.")
      .def(
          "__getitem__",
          [](const te::Tensor& x, nb::handle index) {
            return x.at(nb::isinstance<nb::tuple>(index) ? exprs_of(index) : std::vector<te::Expr>{expr_of(index)});
          },
          nb::arg("index").none())
      .def_prop_ro("name", [](const te::Tensor& x) { return x.name(); })
      .def_prop_ro("type", [](const te::Tensor& x) { return x.dtype(); })
      .def_prop_ro("shape", [](const te::Tensor& x) { return tuple_of(x.shape()); })
      .def_prop_ro("op", [](const te::Tensor& x) { return x.op(); });
}

void bind_stages(nb::module_& m) {
  nb::class_<te::Stage>(m, "LoopStage", "The loops of one stage.")
      .def("_split", &te::Stage::split)
      .def("_split_parts", &te::Stage::split_parts)
      .def("_fuse", nb::overload_cast<const te::Axes&>(&te::Stage::fuse))
      .def("_reorder", &te::Stage::reorder)
      .def("tile", &te::Stage::tile, nb::arg("x_parent"), nb::arg("y_parent"), nb::arg("x_factor"), nb::arg("y_factor"))
      .def("unroll", &te::Stage::unroll, nb::arg("axis"))
      .def("vectorize", &te::Stage::vectorize, nb::arg("axis"))
      .def("parallel", &te::Stage::parallel, nb::arg("axis"))
      .def("bind", &te::Stage::bind, nb::arg("axis"), nb::arg("thread"))
      .def("compute_at", &te::Stage::compute_at, nb::arg("parent"), nb::arg("axis"))
      .def("compute_inline", &te::Stage::compute_inline)
      .def("compute_root", &te::Stage::compute_root)
      .def("set_scope", &te::Stage::set_scope, nb::arg("scope"))
      .def(
          "set_store_predicate", [](te::Stage& x, nb::handle condition) { x.set_store_predicate(expr_of(condition)); },
          nb::arg("condition"))
      .def_prop_ro("leaf_iter_vars", [](const te::Stage& x) { return x.leaves(); })
      .def_prop_ro("op", [](const te::Stage& x) { return x.op(); });
  nb::class_<te::Schedule>(m, "LoopSchedule", "The loops of all stages.")
      .def(
          "__getitem__",
          [](const te::Schedule& x, nb::handle of) {
            if (nb::isinstance<te::Operation>(of)) return x[nb::cast<te::Operation>(of)];
            if (nb::isinstance<te::Tensor>(of)) return x[nb::cast<te::Tensor>(of)];
            throw Error(ErrorCode::usage, "this has no stage: " + nb::cast<std::string>(nb::repr(of)),
                        "A stage is s[B], of a tensor that te.compute gave.");
          },
          nb::arg("of").none())
      .def_prop_ro("calls", &te::Schedule::calls)
      .def("_rfactor", &te::Schedule::rfactor)
      .def("_cache_read", &te::Schedule::cache_read)
      .def("_cache_write", &te::Schedule::cache_write);
  nb::class_<te::Reducer>(m, "LoopReducer", "A reduction of one's own.")
      .def(
          "__call__",
          [](const te::Reducer& x, nb::handle values, const te::Axes& axes, nb::handle where) {
            return x(exprs_of(values), axes, expr_of(where));
          },
          nb::arg("values"), nb::arg("axes"), nb::arg("where").none());
  nb::class_<te::Module>(m, "LoopModule", "A nest built for a target.")
      .def("_run", &run)
      .def("__repr__", [](const te::Module& x) { return x.print(); })
      .def("explain", &te::Module::explain)
      .def_prop_ro("source", [](const te::Module& x) { return x.source(); });
}

}  // namespace

void bind_te(nb::module_& m) {
  bind_expressions(m);
  bind_stages(m);
  m.def("loop_var", &te::var);
  m.def(
      "loop_const", [](nb::handle value, DType type) { return te::cast(expr_of(value), type); },
      nb::arg("value").none(), nb::arg("type"));
  m.def("loop_placeholder", [](nb::handle shape, const std::string& name, DType type) {
    return te::placeholder(exprs_of(shape), name, type);
  });
  m.def(
      "loop_reduce_axis",
      [](nb::handle begin, nb::handle end, const std::string& name) {
        return te::reduce_axis(expr_of(begin), expr_of(end), name);
      },
      nb::arg("begin").none(), nb::arg("end").none(), nb::arg("name"));
  m.def(
      "loop_thread_axis",
      [](const std::string& tag, nb::handle extent) {
        return extent.is_none() ? te::thread_axis(tag) : te::thread_axis(expr_of(extent), tag);
      },
      nb::arg("tag"), nb::arg("extent").none());
  m.def("loop_compute", &compute, nb::arg("shape"), nb::arg("body"), nb::arg("name"), nb::arg("dtype").none(),
        nb::arg("axes"), nb::arg("several"));
  m.def("loop_apply",
        [](const std::string& name, nb::handle arguments) { return te::apply(name, exprs_of(arguments)); });
  m.def(
      "loop_cast", [](nb::handle x, DType type, Round round) { return te::cast(expr_of(x), type, round); },
      nb::arg("x").none(), nb::arg("type"), nb::arg("round"));
  m.def(
      "loop_reduce",
      [](const std::string& name, nb::handle x, const te::Axes& axes, nb::handle where) {
        using Function = te::Expr (*)(const te::Expr&, const te::Axes&, const te::Expr&);
        static const std::pair<const char*, Function> functions[] = {{"sum", te::sum}, {"prod", te::prod},
                                                                     {"min", te::min}, {"max", te::max},
                                                                     {"any", te::any}, {"all", te::all}};
        for (const auto& [each, function] : functions)
          if (name == each) return std::vector<te::Expr>{function(expr_of(x), axes, expr_of(where))};
        return name == "argmax" ? te::argmax(expr_of(x), axes, expr_of(where))
                                : te::argmin(expr_of(x), axes, expr_of(where));
      },
      nb::arg("name"), nb::arg("x").none(), nb::arg("axes"), nb::arg("where").none());
  m.def("loop_reducer", &reducer);
  m.def("loop_schedule", [](const std::vector<te::Tensor>& outputs) { return te::create_schedule(outputs); });
  m.def("loop_outputs", [](const te::Operation& op) {
    std::vector<te::Tensor> tensors;
    for (std::size_t i = 0; i < op.body().size(); ++i) tensors.emplace_back(op.node(), static_cast<int>(i));
    return tensors;
  });
  m.def("loop_choose", &te::choose_schedule);
  m.def("loop_follow", &te::followed_by);
  m.def("loop_lower", &te::lower);
  m.def("loop_build",
        nb::overload_cast<const te::Schedule&, const std::vector<te::Tensor>&, const Target&>(&te::build));
  m.def("loop_build_chosen",
        nb::overload_cast<const std::vector<te::Tensor>&, const std::vector<te::Tensor>&, const Target&>(&te::build));
}

}  // namespace postlude::inline v0::python
