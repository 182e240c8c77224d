#include "graph/text/elaborator.h"

#include "graph/ir/verify.h"
#include "graph/text/printer.h"

#include <algorithm>
#include <utility>

namespace postlude::inline v0::text {

Elaborator::Elaborator(const Source& source, const Tree& tree, const ParseLimits& limits, Lookup lookup, bool prelude)
    : source_(source), tree_(tree), limits_(limits), lookup_(std::move(lookup)), prelude_(prelude) {
  for (std::size_t i = 0; i < tree.defs.size(); ++i) {
    const Def& each = tree.defs[i];
    if (!each.nested && !module_defs_.try_emplace(each.name, static_cast<std::int32_t>(i)).second)
      source.fail(ErrorCode::duplicate_name, each.span, quoted(each.name) + " is defined twice",
                  "Give one of the two another name.");
  }
  for (const Statement& statement : tree.constants)
    module_constants_[tree[statement.target].text] = constant(statement.value, nullptr);
}

// ---- helpers, whole or inlined

// The defs of the module that a def or its derivatives call, and the places of the calls.
std::vector<std::pair<std::int32_t, Span>> Elaborator::calls_of(std::int32_t index) {
  std::vector<std::pair<std::int32_t, Span>> calls;
  const auto collect = [&](const Tree& tree, ExprId first, ExprId last, const Span* place) {
    for (ExprId id = first; id < last; ++id) {
      const Expr& expr = tree[id];
      if (expr.kind != ExprKind::call && !(expr.kind == ExprKind::keyword && expr.text == "combine")) continue;
      const Expr& callee = tree[tree.child(expr)];
      if (callee.kind != ExprKind::name) continue;
      if (const auto found = module_defs_.find(callee.text); found != module_defs_.end())
        calls.emplace_back(found->second, place ? *place : callee.span);
    }
  };
  const Def& each = def(index);
  collect(tree_, each.first_expr, each.last_expr, nullptr);
  read_derivatives(index);
  for (std::size_t i = 0; i < each.derivatives.size(); ++i) {
    const Tree& tree = derivatives_[index][i]->tree;
    collect(tree, 0, static_cast<ExprId>(tree.exprs.size()), &tree_[each.derivatives[i]].span);
  }
  return calls;
}

void Elaborator::read_derivatives(std::int32_t index) {
  auto& read = derivatives_[index];
  while (read.size() < def(index).derivatives.size()) {
    const Expr& text = tree_[def(index).derivatives[read.size()]];
    auto made = std::make_unique<Derivative>();
    made->source = {"derivative of " + std::string(def(index).name),
                    std::make_shared<const std::string>(string_value(text.text))};
    made->tree = read_expression(made->source, limits_);
    read.push_back(std::move(made));
  }
}

void Elaborator::refuse_derivatives(std::int32_t index) const {
  source_.fail(
      ErrorCode::bad_function, def(index).span,
      "derivative= belongs to an elementwise function with one result, which " + quoted(def(index).name) + " is not");
}

// Callees have been compiled.
std::vector<Lambda> Elaborator::derivatives_of(std::int32_t index, const Function& function) const {
  std::vector<Lambda> made;
  const Def& helper = def(index);
  if (helper.derivatives.empty()) return made;
  std::vector<std::string> names;
  for (const Function::Parameter& parameter : function.parameters) names.push_back(parameter.name);
  const auto arguments = std::count_if(function.parameters.begin(), function.parameters.end(),
                                       [](const Function::Parameter& parameter) { return !parameter.default_value; });
  if (static_cast<std::ptrdiff_t>(helper.derivatives.size()) != arguments)
    source_.fail(ErrorCode::bad_function, helper.span,
                 quoted(helper.name) + " has " + std::to_string(helper.derivatives.size()) + " derivatives for " +
                     std::to_string(arguments) + " arguments",
                 "There is one by each parameter without a default, or none.");
  const auto whole = [&](std::string_view name) -> std::shared_ptr<const Function> {
    const auto found = module_defs_.find(name);
    if (found == module_defs_.end()) return lookup_(name);
    if (const auto function = functions_.find(found->second); function != functions_.end()) return function->second;
    source_.fail(ErrorCode::bad_function, helper.span,
                 "the derivative of " + quoted(helper.name) + " calls " + quoted(name) +
                     ", which is not an elementwise function with one result");
  };
  for (const auto& derivative : derivatives_.at(index))
    made.push_back(Elaborator(derivative->source, derivative->tree, limits_, whole).expression(names));
  return made;
}

// Compiles the helpers below `root`, callees first. A walk with a stack of its own: chains of
// helpers may be long.
void Elaborator::prepare(std::int32_t root) {
  enum class Mark : std::uint8_t { none, open, done };
  struct Visit {
    std::int32_t def;
    std::vector<std::pair<std::int32_t, Span>> calls;
    std::size_t next = 0;
  };
  std::vector<Mark> marks(tree_.defs.size(), Mark::none);
  std::vector<Visit> stack;
  const auto open = [&](std::int32_t index) {
    marks[static_cast<std::size_t>(index)] = Mark::open;
    stack.push_back({index, calls_of(index)});
  };
  open(root);
  while (!stack.empty()) {
    Visit& visit = stack.back();
    if (visit.next < visit.calls.size()) {
      const auto [called, span] = visit.calls[visit.next++];
      const Mark mark = marks[static_cast<std::size_t>(called)];
      if (mark == Mark::open)
        source_.fail(ErrorCode::recursion, span,
                     quoted(def(called).name) + " calls itself" +
                         (called == visit.def ? "" : " through " + quoted(def(visit.def).name)),
                     "An epilogue is a straight line; write the steps out.");
      if (mark == Mark::none) open(called);
      continue;
    }
    marks[static_cast<std::size_t>(visit.def)] = Mark::done;
    if (visit.def != root && stays_whole(visit.def)) compile(visit.def);
    else if (visit.def != root && !def(visit.def).derivatives.empty()) refuse_derivatives(visit.def);
    stack.pop_back();
  }
}

// A function stays whole if it is elementwise with one result, as far as its text shows.
bool Elaborator::stays_whole(std::int32_t index) {
  const Def& helper = def(index);
  Scope none;
  for (const Statement& statement : helper.body)
    if (statement.kind == Statement::Kind::def || statement.kind == Statement::Kind::annotated) return false;
  if (helper.params.empty()) return false;
  for (ExprId id = helper.first_expr; id < helper.last_expr; ++id) {
    const Expr& expr = tree_[id];
    switch (expr.kind) {
      case ExprKind::tuple:
      case ExprKind::dict:
      case ExprKind::lambda:
      case ExprKind::subscript: return false;
      case ExprKind::call: {
        const Expr& callee = tree_[tree_.child(expr)];
        if (callee.kind == ExprKind::name) {
          if (const auto found = module_defs_.find(callee.text); found != module_defs_.end()) {
            if (!functions_.contains(found->second)) return false;
            break;
          }
        }
        const std::optional<Callee> found = library(callee.text);
        if (!found) break;  // an error that compiling it will tell
        if (found->kind == Callee::Kind::reduction) return false;
        if (found->kind == Callee::Kind::op && !is_elementwise(found->op)) return false;
        if (found->kind == Callee::Kind::op && (found->op == Op::min || found->op == Op::max) && expr.children != 3)
          return false;
        break;
      }
      default: break;
    }
  }
  return true;
}

Literal Elaborator::default_of(const Param& param) {
  const std::optional<Literal> literal = constant(param.default_value, nullptr);
  if (!literal)
    source_.fail(ErrorCode::unsupported_syntax, tree_[param.default_value].span,
                 "the default of " + quoted(param.name) + " is not a constant", "Write a number.");
  return *literal;
}

void Elaborator::compile(std::int32_t index) {
  const Def& helper = def(index);
  auto function = std::make_shared<Function>();
  function->name = helper.name;
  function->doc = helper.doc;
  function->prelude = prelude_;
  BuilderState body;
  body.body = true;
  body.limit = static_cast<std::size_t>(limits_.nodes);
  body.graph.file = source_.file;
  body.graph.text = source_.text;
  BuilderState* const outside = std::exchange(state_, &body);
  Scope scope;
  for (const Param& param : helper.params) {
    Function::Parameter parameter{.name = std::string(param.name), .default_value = {}};
    if (param.default_value != no_expr) parameter.default_value = default_of(param);
    else if (!function->parameters.empty() && function->parameters.back().default_value)
      source_.fail(ErrorCode::syntax, param.span, "a parameter without a default follows one with a default");
    const auto number = static_cast<std::int32_t>(function->parameters.size());
    body.span = param.span;
    scope.values[param.name] = {.meaning = meaning(body.parameter(number, parameter.name))};
    function->parameters.push_back(std::move(parameter));
  }
  active_.push_back(index);
  const ExprId result = run(helper, scope);
  if (result == no_expr)
    source_.fail(ErrorCode::bad_function, helper.span, quoted(helper.name) + " returns nothing",
                 "End it with `return` and a value.");
  function->body.parameters = static_cast<std::int32_t>(function->parameters.size());
  function->body.results = {value(result, scope)};
  function->body.nodes = std::move(body.graph.nodes);
  function->derivatives = derivatives_of(index, *function);
  if (!prelude_) function->text = print(*function);
  active_.pop_back();
  state_ = outside;
  functions_[index] = std::move(function);
}

std::vector<std::shared_ptr<const Function>> Elaborator::all_functions() {
  std::vector<std::shared_ptr<const Function>> all;
  for (std::size_t i = 0; i < tree_.defs.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    if (def(index).nested) continue;
    prepare(index);
    if (!functions_.contains(index)) {
      if (!stays_whole(index))
        source_.fail(ErrorCode::bad_function, def(index).span,
                     quoted(def(index).name) + " is not an elementwise function with one result",
                     "Only those are known by name everywhere; write others as helpers in the text that uses them.");
      compile(index);
    }
    all.push_back(functions_.at(index));
  }
  return all;
}

Lambda Elaborator::expression(const std::vector<std::string>& parameters) {
  BuilderState body;
  body.body = true;
  body.limit = static_cast<std::size_t>(limits_.nodes);
  body.graph.file = source_.file;
  body.graph.text = source_.text;
  state_ = &body;
  Scope scope;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    scope.values[parameters[i]] = {.meaning = meaning(body.parameter(static_cast<std::int32_t>(i), parameters[i]))};
  Lambda lambda;
  lambda.parameters = static_cast<std::int32_t>(parameters.size());
  lambda.results = {value(static_cast<ExprId>(tree_.exprs.size()) - 1, scope)};
  lambda.nodes = std::move(body.graph.nodes);
  state_ = nullptr;
  return lambda;
}

// ---- statements

// Runs the statements up to the first `return`, whose expression is the result.
ExprId Elaborator::run(const Def& helper, Scope& scope) {
  ExprId evaluated = no_expr;  // `x = y = value` is two statements of one value
  Meaning meaning;
  const auto value_of = [&](const Statement& statement) -> const Meaning& {
    if (statement.value != evaluated) meaning = eval(statement.value, scope);
    evaluated = statement.value;
    return meaning;
  };
  for (const Statement& statement : helper.body) {
    switch (statement.kind) {
      case Statement::Kind::def: scope.defs[def(statement.def).name] = statement.def; break;
      case Statement::Kind::result: return statement.value;
      case Statement::Kind::annotated: {
        const Annotation declared = annotation(statement.annotation);
        assign(statement.target, value_of(statement), scope, declared);
        break;
      }
      case Statement::Kind::assign:
      case Statement::Kind::augmented: assign(statement.target, value_of(statement), scope); break;
    }
  }
  return no_expr;
}

void Elaborator::assign(ExprId target, const Meaning& meaning, Scope& scope, const Annotation& annotation) {
  const Expr& expr = tree_[target];
  const Nesting nesting(*this, expr);
  if (expr.kind == ExprKind::name) {
    scope.values[expr.text] = {.meaning = meaning, .dtype = annotation.dtype, .axes = annotation.axes};
    if (meaning.kind == Meaning::Kind::value) state_->name(meaning.node, expr.text);
    return;
  }
  const auto targets = tree_.of(expr);
  if (meaning.kind == Meaning::Kind::value)
    source_.fail(ErrorCode::bad_call, expr.span,
                 "one value cannot be unpacked into " + std::to_string(targets.size()) + " names",
                 "chunk(x, k) gives a tuple; so may a helper.");
  if (size_of(meaning) != static_cast<std::int64_t>(targets.size()))
    source_.fail(
        ErrorCode::bad_call, expr.span,
        std::to_string(size_of(meaning)) + " values are unpacked into " + std::to_string(targets.size()) + " names");
  for (std::size_t i = 0; i < targets.size(); ++i) {
    // `_` asks for nothing, so that no node is made for it.
    if (meaning.kind == Meaning::Kind::pieces && tree_[targets[i]].text == "_") continue;
    state_->span = tree_[targets[i]].span;
    assign(targets[i], take(meaning, static_cast<std::int64_t>(i), tree_[targets[i]]), scope);
  }
}

// ---- declarations of a def

// A word that is no dtype and none of the others gives "Did you mean 'f16'? ".
std::string Elaborator::meant_dtype(std::string_view word, std::vector<std::string> others) {
  if (word == "f64" || word == "float64" || word == "double") return "f32 is the widest float. ";
  for (int i = 0; i < dtype_count; ++i) others.emplace_back(name(static_cast<DType>(i)));
  const std::string near = closest(word, others);
  return near.empty() ? "" : "Did you mean '" + near + "'? ";
}

void Elaborator::annotate(Annotation& into, std::string_view word, const Span& span) const {
  if (const std::size_t dot = word.rfind('.'); dot != std::string_view::npos) word.remove_prefix(dot + 1);
  if (word == "NDArray") return;  // of which the brackets say more
  const std::optional<DType> type = parse_dtype(word);
  if (type ? into.dtype.has_value() : into.axes.has_value())
    source_.fail(ErrorCode::unsupported_syntax, span,
                 std::string("an annotation names two ") + (type ? "dtypes" : "classes"),
                 "Write one class, and one dtype if it is fixed: row[bf16].");
  if (type) {
    into.dtype = type;
    return;
  }
  if (word == "tile" || word == "tensor") into.axes = tile_axes;
  else if (word == "row") into.axes = row_axes;
  else if (word == "col" || word == "column") into.axes = col_axes;
  else if (word == "scalar") into.axes = scalar_axes;
  else
    source_.fail(ErrorCode::unknown_dtype, span, quoted(word) + " is neither a class nor a dtype",
                 meant_dtype(word, {"tile", "row", "col", "scalar"}) +
                     "Write row, col, tile or scalar, with a dtype if it is fixed: row[bf16].");
}

// An annotation is row, post.row, row[bf16], bf16, "row", "row[bf16]" or NDArray["row", "bf16"].
Elaborator::Annotation Elaborator::annotation(ExprId id) const {
  Annotation made;
  std::vector<ExprId> open{id};
  while (!open.empty()) {
    const Expr& expr = tree_[open.back()];
    open.pop_back();
    switch (expr.kind) {
      case ExprKind::name:
      case ExprKind::attribute: annotate(made, expr.text, expr.span); break;
      case ExprKind::subscript:
      case ExprKind::tuple: open.insert(open.end(), tree_.of(expr).begin(), tree_.of(expr).end()); break;
      case ExprKind::string: {
        const std::string text = string_value(expr.text);
        std::string_view rest = text;
        const std::size_t bracket = rest.find('[');
        if (bracket != std::string_view::npos && rest.back() == ']') {
          annotate(made, rest.substr(bracket + 1, rest.size() - bracket - 2), expr.span);
          rest = rest.substr(0, bracket);
        }
        annotate(made, rest, expr.span);
        break;
      }
      default:
        source_.fail(ErrorCode::unsupported_syntax, expr.span, "this is not a class of operand",
                     "Write row, col, tile or scalar, with a dtype if it is fixed: row[bf16].");
    }
  }
  return made;
}

void Elaborator::parameters(const Def& epilogue, Scope& scope) {
  bool accumulator = false;
  for (const Param& param : epilogue.params) {
    const bool first = &param == epilogue.params.data();
    const bool called_acc = param.name == "acc" || param.name == "accum" || param.name == "accumulator";
    state_->span = param.span;
    if (param.default_value != no_expr)
      source_.fail(
          ErrorCode::unsupported_syntax, tree_[param.default_value].span, "operands have no defaults",
          "Bind " + quoted(param.name) + " when you run, or write the number in the text; helpers may have them.");
    NodeId node = -1;
    if (!accumulator && (called_acc || (first && param.annotation == no_expr))) {
      accumulator = true;
      node = state_->accumulator(std::string(param.name));
    } else {
      const std::string example(param.name.substr(0, 64));
      if (param.annotation == no_expr)
        source_.fail(ErrorCode::unsupported_syntax, param.span, "the operand " + quoted(param.name) + " has no class",
                     "Write " + example + ": row, or col, tile or scalar; it is never guessed from sizes.");
      Annotation declared = annotation(param.annotation);
      if (!declared.axes && declared.dtype) declared.axes = scalar_axes;
      if (!declared.axes)
        source_.fail(ErrorCode::unsupported_syntax, tree_[param.annotation].span,
                     "the operand " + quoted(param.name) + " has no class",
                     "Write " + example + ": row, or col, tile or scalar.");
      state_->span = param.span;
      node = state_->operand(std::string(param.name), *declared.axes, declared.dtype);
    }
    scope.values[param.name] = {.meaning = meaning(node)};
  }
}

void Elaborator::output(std::string_view name, const Meaning& meaning, const Expr& expr, const Scope& scope) {
  const NodeId node = node_of(meaning, expr);
  const Variable* binding = expr.kind == ExprKind::name ? find(expr.text, scope) : nullptr;
  state_->span = expr.span;
  state_->output(std::string(name), node, binding ? binding->dtype : std::nullopt,
                 binding ? binding->axes : std::nullopt);
}

void Elaborator::outputs(const Def& epilogue, const Span& place, ExprId result, Scope& scope) {
  if (result == no_expr || tree_[result].kind == ExprKind::none)
    source_.fail(ErrorCode::no_output, place, quoted(epilogue.name) + " returns nothing",
                 "End it with `return d`, or with names: `return D, amax`.");
  const Expr& expr = tree_[result];
  // A variable gives its name to the output; a parameter, also one that was assigned to, has it
  // already.
  const auto name_of = [&](const Expr& returned) -> std::string_view {
    const auto is_parameter = [&](const Param& param) { return param.name == returned.text; };
    if (returned.kind != ExprKind::name || !find(returned.text, scope) ||
        std::any_of(epilogue.params.begin(), epilogue.params.end(), is_parameter))
      return {};
    return returned.text;
  };
  if (expr.kind == ExprKind::dict) {
    const auto children = tree_.of(expr);
    for (std::size_t i = 0; i + 1 < children.size(); i += 2) {
      const Expr& key = tree_[children[i]];
      if (key.kind != ExprKind::string)
        source_.fail(ErrorCode::unsupported_syntax, key.span, "an output's name is a string",
                     "Return {\"D\": d, \"amax\": amax}.");
      const std::string name = string_value(key.text);
      if (!is_name(name)) check_name(name, "an output", source_.at(key.span));
      output(name, eval(children[i + 1], scope), tree_[children[i + 1]], scope);
    }
    if (children.empty()) source_.fail(ErrorCode::no_output, expr.span, quoted(epilogue.name) + " returns nothing");
  } else if (expr.kind == ExprKind::tuple) {
    for (const ExprId child : tree_.of(expr)) {
      const std::string_view name = name_of(tree_[child]);
      if (name.empty())
        source_.fail(ErrorCode::no_output, tree_[child].span, "this output has no name",
                     "Write D = ... on a line before and return D, or return {\"D\": ..., \"amax\": ...}.");
      output(name, eval(child, scope), tree_[child], scope);
    }
    if (expr.children == 0) source_.fail(ErrorCode::no_output, expr.span, quoted(epilogue.name) + " returns nothing");
  } else {
    const std::string_view name = name_of(expr);
    const Meaning returned = eval(result, scope);
    if (returned.kind != Meaning::Kind::value)
      source_.fail(ErrorCode::no_output, expr.span,
                   "these " + std::to_string(size_of(returned)) + " outputs have no names",
                   "Write a, b = ... on a line before, then `return a, b`.");
    output(name.empty() ? "D" : name, returned, expr, scope);
  }
}

Graph Elaborator::epilogue(std::string_view name) {
  std::int32_t index = -1;
  if (name.empty()) {
    for (const auto& [each, i] : module_defs_) index = std::max(index, i);
    if (index < 0)
      throw Error(ErrorCode::no_epilogue, quoted(source_.file) + " has no epilogue",
                  "Write def NAME(acc, ...): and what it returns.", Location{source_.file, {}, {}});
  } else if (const auto found = module_defs_.find(name); found != module_defs_.end()) {
    index = found->second;
  } else {
    std::vector<std::string> names;
    std::string all;
    for (const Def& each : tree_.defs) {
      if (each.nested) continue;
      names.emplace_back(each.name);
      if (names.size() <= 20) all += (names.size() > 1 ? ", " : "") + names.back();
    }
    const std::string near = closest(name, names);
    throw Error(ErrorCode::no_epilogue, quoted(source_.file) + " has no epilogue " + quoted(name),
                (near.empty() ? "" : "Did you mean '" + near + "'? ") +
                    (names.empty() ? std::string("It has no def.")
                                   : "It has " + all + (names.size() > 20 ? ", ..." : "") + "."),
                Location{source_.file, {}, {}});
  }
  prepare(index);

  const Def& root = def(index);
  if (!root.derivatives.empty()) refuse_derivatives(index);
  BuilderState state;
  state.limit = static_cast<std::size_t>(limits_.nodes);
  state.graph.name = root.name;
  state.graph.file = source_.file;
  state.graph.text = source_.text;
  state_ = &state;
  active_.assign(1, index);
  Scope scope;
  parameters(root, scope);
  const ExprId result = run(root, scope);
  outputs(root, root.span, result, scope);
  state_ = nullptr;

  auto graph = std::make_shared<GraphData>(std::move(state.graph));
  (void)verify(*graph);
  return Graph(std::move(graph));
}

}  // namespace postlude::inline v0::text
