#include "graph/ir/functions.h"

#include "graph/ir/equal.h"
#include "graph/text/elaborator.h"
#include "graph/text/printer.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>

namespace postlude::inline v0 {

namespace {

using Functions = std::vector<std::shared_ptr<const Function>>;

struct ByName {
  std::map<std::string, std::shared_ptr<const Function>, std::less<>> functions;
  [[nodiscard]] std::shared_ptr<const Function> find(std::string_view name) const {
    const auto found = functions.find(name);
    return found == functions.end() ? nullptr : found->second;
  }
};

// The table is never destroyed, because graphs may be used while the program exits.
const ByName& prelude() {
  static const ByName* const known = [] {
    auto* made = new ByName;
    const Source source{"prelude.py", std::make_shared<const std::string>(prelude_text)};
    const ParseLimits limits;
    const text::Tree tree = text::read(source, limits);
    const auto nothing = [](std::string_view) { return nullptr; };
    for (auto& function : text::Elaborator(source, tree, limits, nothing, true).all_functions())
      made->functions.emplace(function->name, std::move(function));
    return made;
  }();
  return *known;
}

struct Registry {
  std::shared_mutex mutex;
  ByName user;
};

Registry& registry() {
  static Registry* const made = new Registry;
  return *made;
}

void check_free(std::string_view name) {
  bool taken = false;
  for (const OpInfo& row : op_table) taken = taken || row.spelling == name;
  for (const ReductionInfo& row : reduction_table) taken = taken || row.spelling == name;
  if (taken || prelude().find(name))
    throw Error(ErrorCode::duplicate_name, quoted(name) + " is already a function of the language",
                "Choose another name.");
}

// All functions are added or none: a text may define several.
void add(const Functions& functions, bool replace = false) {
  for (const auto& function : functions) check_free(function->name);
  Registry& known = registry();
  const std::unique_lock lock(known.mutex);
  for (const auto& function : functions) {
    const auto old = known.user.find(function->name);
    if (old && !replace && !same(*old, *function))
      throw Error(ErrorCode::duplicate_name, quoted(function->name) + " is already defined, and otherwise",
                  "Choose another name; a definition stays for the life of the program.");
  }
  for (const auto& function : functions) {
    if (replace) known.user.functions[function->name] = function;
    else known.user.functions.try_emplace(function->name, function);
  }
}

// Reads an expression of a native function, over these parameters ("" for one that it may not use).
Lambda read_lambda(const NativeFunction& native, std::string_view what, const std::string& text,
                   const std::vector<std::string>& parameters) {
  const Source source{std::string(what) + " of " + native.name, std::make_shared<const std::string>(text)};
  const ParseLimits limits;
  const text::Tree tree = text::read_expression(source, limits);
  return text::Elaborator(source, tree, limits, find_function).expression(parameters);
}

[[noreturn]] void malformed(const NativeFunction& native, std::string message, std::string hint) {
  throw Error(ErrorCode::bad_function, "the native function " + quoted(native.name) + " " + std::move(message),
              std::move(hint));
}

}  // namespace

// Functions call functions; a chain of ten thousand must not be destroyed by as many nested
// destructors.
Function::~Function() {
  std::vector<std::shared_ptr<const Function>> last;
  const auto empty = [&](Lambda& lambda) {
    for (Node& node : lambda.nodes)
      if (node.function) last.push_back(std::move(node.function));
  };
  empty(body);
  for (Lambda& derivative : derivatives) empty(derivative);
  while (!last.empty()) {
    const std::shared_ptr<const Function> function = std::move(last.back());
    last.pop_back();
    // The only owner may take it apart: nobody can copy a pointer that nobody else has.
    if (function.use_count() > 1) continue;
    auto& unowned = const_cast<Function&>(*function);
    empty(unowned.body);
    for (Lambda& derivative : unowned.derivatives) empty(derivative);
  }
}

void define(std::string_view text) {
  const Source source{"definition", std::make_shared<const std::string>(text)};
  const ParseLimits limits;
  const text::Tree tree = text::read(source, limits);
  const Functions functions = text::Elaborator(source, tree, limits, find_function).all_functions();
  if (functions.empty())
    throw Error(ErrorCode::bad_function, "the text defines no function",
                "Write def squared_relu(x): return max(x, 0) ** 2");
  add(functions);
}

void define(NativeFunction native, bool replace) {
  check_name(native.name, "a function");
  constexpr int most = 64;  // arguments
  if (native.arity < 1 || native.arity > most)
    malformed(native, "takes " + std::to_string(native.arity) + " arguments",
              "It takes 1 to " + std::to_string(most) + ".");
  if (!native.reference)
    malformed(native, "has no reference", "It is the definition that its other codes are held to.");
  if (!(native.ulps >= 0) || !(native.absolute_error >= 0))
    malformed(native, "has a negative error", "It is what a backend may be wrong by: ulps and an absolute part.");
  auto function = std::make_shared<Function>();
  function->name = native.name;
  std::vector<std::string> names, guarded(static_cast<std::size_t>(native.arity));
  for (int i = 0; i < native.arity; ++i) names.push_back(native.arity == 1 ? "x" : "x" + std::to_string(i));
  for (const std::string& name : names) function->parameters.push_back({.name = name, .default_value = {}});
  for (const NativeFunction::Parameter& parameter : native.parameters) {
    check_name(parameter.name, "a parameter");
    if (std::find(names.begin(), names.end(), parameter.name) != names.end())
      malformed(native, "has two parameters " + quoted(parameter.name), "Its arguments are called x, or x0, x1, ...");
    if (!parameter.default_value && function->parameters.back().default_value)
      malformed(native, "has a parameter without a default behind one with a default", "Put it first.");
    Function::Parameter made{.name = parameter.name, .default_value = {}};
    if (parameter.default_value) made.default_value = Literal{.type = DType::f32, .real = *parameter.default_value};
    function->parameters.push_back(std::move(made));
    names.push_back(parameter.name);
    guarded.push_back(parameter.name);
  }
  function->body.parameters = static_cast<std::int32_t>(function->parameters.size());
  if (!native.derivatives.empty() && native.derivatives.size() != static_cast<std::size_t>(native.arity))
    malformed(native,
              "has " + std::to_string(native.derivatives.size()) + " derivatives for " + std::to_string(native.arity) +
                  " arguments",
              "There is one by each argument, or none.");
  for (const std::string& derivative : native.derivatives)
    function->derivatives.push_back(read_lambda(native, "derivative", derivative, names));
  if (!native.guard.empty())
    function->guard = std::make_shared<const Lambda>(read_lambda(native, "guard", native.guard, guarded));
  function->native = std::make_shared<const NativeFunction>(std::move(native));
  add({function}, replace);
}

std::shared_ptr<const Function> find_function(std::string_view name) {
  {
    Registry& known = registry();
    const std::shared_lock lock(known.mutex);
    if (auto function = known.user.find(name)) return function;
  }
  return prelude().find(name);
}

std::string signature(const Function& function) {
  std::string text = function.name + '(';
  for (const Function::Parameter& parameter : function.parameters) {
    if (&parameter != function.parameters.data()) text += ", ";
    text += parameter.name;
    if (parameter.default_value) text += '=' + print(*parameter.default_value);
  }
  return text + ')';
}

std::vector<FunctionInfo> functions() {
  std::vector<FunctionInfo> all;
  const auto take = [&](const ByName& known) {
    for (const auto& [name, function] : known.functions)
      all.push_back({.name = name,
                     .signature = signature(*function),
                     .doc = function->doc,
                     .derivatives = print_derivatives(*function),
                     .native = function->native != nullptr});
  };
  take(prelude());
  Registry& known = registry();
  const std::shared_lock lock(known.mutex);
  take(known.user);
  return all;
}

std::vector<std::shared_ptr<const Function>> functions_used(const std::vector<Node>& nodes, bool derivatives) {
  struct Visit {
    std::shared_ptr<const Function> function;
    const std::vector<Node>* nodes;
    std::size_t next = 0;
  };
  Functions used;
  std::unordered_set<const Function*> seen;
  std::vector<Visit> stack{{nullptr, &nodes}};
  while (!stack.empty()) {
    Visit& visit = stack.back();
    if (visit.next == visit.nodes->size()) {
      if (visit.function) used.push_back(visit.function);
      stack.pop_back();
      continue;
    }
    const Node& node = (*visit.nodes)[visit.next++];
    // A combiner's calls count too; it holds no combiner itself.
    if (node.combine) {
      stack.push_back({nullptr, &node.combine->nodes});
    } else if (node.function && seen.insert(node.function.get()).second) {
      const std::shared_ptr<const Function> function = node.function;
      stack.push_back({function, &function->body.nodes});
      if (!derivatives || function->native) continue;
      for (const Lambda& derivative : function->derivatives) stack.push_back({nullptr, &derivative.nodes});
    }
  }
  return used;
}

std::unordered_set<const Function*> stochastic_functions(const std::vector<Node>& nodes) {
  std::unordered_set<const Function*> found;
  for (const auto& function : functions_used(nodes)) {
    if (rounds_stochastically(function->body.nodes, found)) found.insert(function.get());
  }
  return found;
}

bool rounds_stochastically(const std::vector<Node>& body, const std::unordered_set<const Function*>& stochastic) {
  return std::any_of(body.begin(), body.end(), [&](const Node& node) {
    return (node.op == Op::cast && node.round == Round::stochastic) || stochastic.contains(node.function.get());
  });
}

}  // namespace postlude::inline v0
