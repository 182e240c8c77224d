#include "cuda/emit/ops.h"

#include "core/fill.h"

#include <postlude/error.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <iterator>

namespace postlude::inline v0::cuda {
namespace {

// As a CPU's (lower/expand.cpp): a kernel has the operations of every call, as often as they are called.
constexpr std::size_t most_operations = 1 << 16;
constexpr int most_depth = 1000;  // functions are written within those that call them

Error too_large(const Function& function) {
  return Error(ErrorCode::unsupported, "the function " + quoted(function.name) + " expands to more than " +
                                           str(most_operations) + " operations");
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string binary(const char* op, const std::vector<std::string>& a) {
  return fill("($a $op $b)", {{"a", a[0]}, {"op", op}, {"b", a[1]}});
}

// Either side may be a constant, and one of the two is hidden: see base.cu.
std::string ordered(const char* op, const std::vector<std::string>& a, bool real) {
  return real ? binary(op, {a[0], "hidden(" + a[1] + ")"}) : binary(op, a);
}

std::string number(std::uint64_t value) { return std::to_string(value) + "ull"; }

// A cast to `dtype`, whose values are computed in compute_type(dtype). `u`: the number that it rounds stochastically
// by.
std::string cast_expression(const std::string& value, DType from, DType dtype, Round round, const std::string& u) {
  const std::string mode =
      round == Round::nearest_even ? "" : fill(", $round, $u", {{"round", str(static_cast<int>(round))}, {"u", u}});
  const std::string_view type = name(dtype);
  if (is_float(dtype)) {
    const std::string real = converted(value, from, DType::f32);
    if (dtype == DType::f32) return real;
    return fill("round_$type($real$mode)", {{"type", type}, {"real", real}, {"mode", mode}});
  }
  if (dtype == DType::boolean) return "to_boolean(" + value + ")";
  if (from == DType::f32 && !mode.empty())
    return fill("to_$type(round_integral($value$mode))", {{"type", type}, {"value", value}, {"mode", mode}});
  return fill("to_$type($value)", {{"type", type}, {"value", value}});
}

// Elementwise operations, with arguments already of the types that they take.
std::string operation(Op op, const std::vector<std::string>& a, DType argument) {
  const bool boolean = argument == DType::boolean, real = argument == DType::f32;
  switch (op) {
    case Op::add: return real ? binary("+", a) : "op_add(" + join(a) + ")";
    case Op::sub: return real ? binary("-", a) : "op_sub(" + join(a) + ")";
    case Op::mul: return real ? binary("*", a) : "op_mul(" + join(a) + ")";
    case Op::eq: return binary("==", a);
    case Op::ne: return binary("!=", a);
    case Op::lt: return ordered("<", a, real);
    case Op::le: return ordered("<=", a, real);
    case Op::gt: return ordered(">", a, real);
    case Op::ge: return ordered(">=", a, real);
    case Op::bit_and: return binary(boolean ? "&&" : "&", a);
    case Op::bit_or: return binary(boolean ? "||" : "|", a);
    case Op::bit_not: return (boolean ? "!" : "~") + a[0];
    case Op::floor:
    case Op::ceil:
    case Op::round:
      if (!real) return a[0];
      [[fallthrough]];
    default: return "op_" + std::string(info(op).id) + "(" + join(a) + ")";
  }
}

}  // namespace

std::string converted(const std::string& value, DType from, DType to) {
  if (from == to) return value;
  return fill("to_$type($value)", {{"type", to == DType::boolean ? "boolean" : name(to)}, {"value", value}});
}

std::string rounded(const std::string& value, DType from, DType dtype) {
  return cast_expression(value, from, dtype, Round::nearest_even, "0.f");
}

namespace {

// Whether x high + x low rounds as x / c does, for every x. It lacks 2^-46 of itself at most, so only quotients matter
// that are as near the middle between two floats: X 2^s = M C + d, of 24 bits of x and of c, an odd M of 25 and a d of
// at most 8. Each d tells the few M, modulo 2^s over the twos in C.
bool divides(float c, float high, float low) {
  int exponent = 0;
  const auto bits = static_cast<std::uint32_t>(std::ldexp(std::frexp(std::abs(c), &exponent), 24));
  const int twos = std::countr_zero(bits);
  const std::uint32_t odd = bits >> twos;
  std::uint32_t inverse = odd;  // modulo 2^32: three bits, and each step makes them twice as many
  for (int step = 0; step < 4; ++step) inverse *= 2 - odd * inverse;
  for (const int s : {24, 25}) {
    for (std::int64_t d = -8; d <= 8; ++d) {
      if (d == 0 || d % (std::int64_t{1} << twos)) continue;
      const std::int64_t modulus = std::int64_t{1} << (s - twos);
      for (std::int64_t m = static_cast<std::uint32_t>(-(d >> twos)) * inverse % modulus; m < 1 << 25; m += modulus) {
        const float x = static_cast<float>((m * bits + d) >> s);
        if (m >= 1 << 24 && m % 2 && x < 0x1p24F && std::fma(x, high, x * low) != x / c) return false;
      }
    }
  }
  return true;
}

}  // namespace

// The first part of 1 / c is the smaller of two, so that both have c's sign, and infinities and zeros keep theirs.
std::string quotient(const std::string& x, double divisor, Small small) {
  const auto c = static_cast<float>(divisor);
  const double inverse = 1 / static_cast<double>(c);
  if (!(std::abs(c) > 0x1p-30F && std::abs(c) < 0x1p30F)) return {};
  float high = static_cast<float>(inverse);
  if (std::abs(static_cast<double>(high)) > std::abs(inverse)) high = std::nextafter(high, 0.F);
  const auto low = static_cast<float>(inverse - static_cast<double>(high));
  if (low == 0 || !divides(c, high, low)) return {};  // of a power of two: infinity times 0 is no number
  return fill("$divide($x, $high, $low)", {{"divide", small == Small::exact ? "op_div_by" : "op_div_about"},
                                           {"x", x},
                                           {"high", device_literal(high, DType::f32)},
                                           {"low", device_literal(low, DType::f32)}});
}

const std::map<std::string, std::size_t>& native_forms() {
  static const std::map<std::string, std::size_t> forms = {
      {"dgelu", 1},     {"dgelu_tanh", 1},  {"elu", 2},       {"gelu", 1},       {"gelu_erf", 1},
      {"gelu_tanh", 1}, {"hardsigmoid", 1}, {"hardswish", 1}, {"logsigmoid", 1}, {"mish", 1},
      {"sigmoid", 1},   {"silu", 1},        {"softplus", 1},  {"softsign", 1}};
  return forms;
}

bool has_native_form(const Function& function) {
  const auto form = native_forms().find(function.name);
  return function.prelude && form != native_forms().end() && function.parameters.size() == form->second;
}

std::string device_type(DType type) {
  switch (type) {
    case DType::f32: return "float";
    case DType::i32: return "int";
    case DType::i64: return "i64";
    case DType::boolean: return "bool";
    default: throw Error(ErrorCode::internal, "a value has the storage type " + std::string(name(type)));
  }
}

std::string device_literal(double value, DType type) {
  if (type == DType::boolean) return value != 0 ? "true" : "false";
  if (type == DType::i32) {
    if (value <= -0x1p31) return "int(0x80000000u)";
    if (value >= 0x1p31) return "0x7fffffff";
    return str(static_cast<std::int64_t>(value));
  }
  if (type == DType::i64) {
    if (value <= -0x1p63) return "i64(0x8000000000000000ull)";
    if (value >= 0x1p63) return "0x7fffffffffffffffll";
    return str(static_cast<std::int64_t>(value)) + "ll";
  }
  const auto real = static_cast<float>(value);
  if (std::isnan(real)) return "QNAN";
  if (std::isinf(real)) return real < 0 ? "(-INF)" : "INF";
  // Not a literal: see base.cu.
  if (real == 0 && std::signbit(real)) return "hidden(-0.f)";
  char text[64];
  std::snprintf(text, sizeof text, "%af", static_cast<double>(real));
  return real < 0 || std::signbit(real) ? "(" + std::string(text) + ")" : text;
}

std::string device_literal(const Literal& literal, DType type) {
  if (type == DType::i64 && literal.type != DType::f32) {
    return "i64(" + number(static_cast<std::uint64_t>(literal.integer)) + ")";
  }
  return device_literal(literal.value(), type);
}

std::string column_expression(const lower::ColumnMap& map, const std::string& j, const std::string& width) {
  std::string column = j, wide = width;
  for (const auto& step : map.steps) {
    if (step.group == 0) {
      if (step.piece)
        column = fill("($column + $piece * $wide)", {{"column", column}, {"piece", str(step.piece)}, {"wide", wide}});
    } else {
      const std::int64_t w = step.group / step.pieces;
      column = fill("($column / $w * $group + $column % $w$first)",
                    {{"column", column},
                     {"w", str(w)},
                     {"group", str(step.group)},
                     {"first", step.piece ? " + " + str(step.piece * w) : ""}});
    }
    wide = fill("($wide * $pieces)", {{"wide", wide}, {"pieces", str(step.pieces)}});
  }
  return map.divide > 1 ? fill("($column / $divide)", {{"column", column}, {"divide", str(map.divide)}}) : column;
}

std::string row_expression(const lower::Access& access, const std::string& i) {
  return column_expression({access.row_steps, access.divide_rows}, i, "tile_rows(p, 0)");
}

namespace {

std::vector<TypeState> states_of(std::span<const DType> types) {
  std::vector<TypeState> states;
  for (const DType type : types) states.push_back({.type = type});
  return states;
}

// The types in which a node of a body wants its arguments; `types` are those of the body's nodes.
std::vector<DType> argument_types(const Node& node, std::span<const TypeState> types) {
  std::vector<TypeState> states;
  for (const NodeId arg : node.args) states.push_back(types[arg]);
  std::vector<DType> wanted;
  for (std::size_t i = 0; i < states.size(); ++i) wanted.push_back(argument_type(node, i, states));
  return wanted;
}

// Of integers, whose sums wrap around, the definition is meant.
bool is_native(const Function& function, std::span<const DType> args) {
  return has_native_form(function) && args[0] == DType::f32;
}

std::string call_key(const Function& function, std::span<const DType> args) {
  std::string key = "f" + str(reinterpret_cast<std::uintptr_t>(&function));
  for (const DType type : args) key += " " + std::string(name(type));
  return key;
}

}  // namespace

std::string Functions::body(const Lambda& lambda, std::span<const DType> parameters,
                            const std::vector<std::string>& names, std::vector<DType>& results,
                            std::vector<std::string>& values, std::size_t& operations) {
  operations += lambda.nodes.size();
  const std::vector<TypeState> types = typing_.infer_body(lambda, states_of(parameters));
  // An untyped literal is what its user wants it to be; alone it is f32 or i64.
  std::string text;
  const auto type_of = [&](NodeId id) { return types[id].type.value_or(DType::f32); };
  std::vector<std::string> value(lambda.nodes.size());
  const auto arguments = [&](const Node& node) {
    const std::vector<DType> wanted = argument_types(node, types);
    std::vector<std::string> args;
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      const Node& arg = lambda.nodes[node.args[i]];
      args.push_back(arg.op == Op::constant ? device_literal(arg.literal, wanted[i])
                                            : converted(value[node.args[i]], type_of(node.args[i]), wanted[i]));
    }
    return args;
  };
  const auto divided = [&](const Node& node, Small small) -> std::string {
    if (node.op != Op::div || lambda.nodes[node.args[1]].op != Op::constant) return {};
    return quotient(arguments(node)[0], lambda.nodes[node.args[1]].literal.value(), small);
  };
  for (NodeId id = 0; id < static_cast<NodeId>(lambda.nodes.size()); ++id) {
    const Node& node = lambda.nodes[id];
    if (node.op == Op::parameter) {
      value[id] = names[node.index];
      continue;
    }
    if (node.op == Op::constant) continue;  // written where it is used, in the type wanted there
    const std::vector<DType> wanted = argument_types(node, types);
    const std::vector<std::string> args = arguments(node);
    std::string code;
    if (node.op == Op::call) {
      const Made called = made(*node.function, wanted);
      operations += called.operations;
      code = called.name + "(" + join(args) + ")";
    } else if (node.op == Op::cast) {
      // Of no element: what rounds stochastically is no call any more (lower.cpp).
      const bool draws = node.round == Round::stochastic;
      code = cast_expression(args[0], wanted[0], node.dtype, node.round,
                             draws ? "random_uniform(" + number(node.seed) + ", 0, 0, 0, 0)" : "0.f");
    } else {
      code = divided(node, Small::exact);
      if (node.op == Op::tanh) code = divided(lambda.nodes[node.args[0]], Small::about);
      if (node.op == Op::tanh && !code.empty()) code = "op_tanh(" + code + ")";
      if (code.empty()) code = operation(node.op, args, wanted[node.op == Op::where ? 1 : 0]);
    }
    value[id] = "v" + str(id);
    text += fill("  const $type $name = $code;\n",
                 {{"type", device_type(type_of(id))}, {"name", value[id]}, {"code", code}});
  }
  for (const NodeId result : lambda.results) {
    const Node& node = lambda.nodes[result];
    results.push_back(type_of(result));
    values.push_back(node.op == Op::constant ? device_literal(node.literal, type_of(result)) : value[result]);
  }
  return text;
}

std::string Functions::call(const Function& function, std::span<const DType> args) {
  const Made called = made(function, args);
  operations_ += called.operations;
  if (operations_ > most_operations) throw too_large(function);
  return called.name;
}

Functions::Made Functions::made(const Function& function, std::span<const DType> args) {
  if (is_native(function, args)) return {"call_" + function.name, 1};
  const std::string key = call_key(function, args);
  if (const auto found = made_.find(key); found != made_.end()) return found->second;
  // Callees first, from a stack of our own: a thousand functions, each within the next, need none of the process.
  std::vector<Call> calls{{&function, {args.begin(), args.end()}, 1}};
  while (!calls.empty()) {
    const Call call = calls.back();
    if (call.depth > most_depth)
      throw Error(
          ErrorCode::unsupported,
          "the function " + quoted(call.function->name) + " is called by functions " + str(most_depth) + " deep",
          "Write several of them as one.");
    std::vector<Call> callees = missing_callees(call);
    if (callees.empty()) {
      make(call);
      calls.pop_back();
    }
    std::move(callees.rbegin(), callees.rend(), std::back_inserter(calls));  // the first is written first
  }
  return made_.at(key);
}

std::vector<Functions::Call> Functions::missing_callees(const Call& call) {
  const Lambda& body = call.function->body;
  const std::vector<TypeState> types = typing_.infer_body(body, states_of(call.args));
  std::vector<Call> missing;
  for (const Node& node : body.nodes) {
    if (node.op != Op::call) continue;
    std::vector<DType> args = argument_types(node, types);
    if (!is_native(*node.function, args) && !made_.contains(call_key(*node.function, args)))
      missing.push_back({node.function.get(), std::move(args), call.depth + 1});
  }
  return missing;
}

// Writes a function whose callees are written; nothing where it is written by now.
void Functions::make(const Call& call) {
  const Function& function = *call.function;
  Made& made = made_[call_key(function, call.args)];
  if (!made.name.empty()) return;
  made.name = "function" + str(made_.size() - 1);
  std::string text, parameters, result_type = "float";
  if (function.body.nodes.empty() && function.native) {
    if (function.native->cuda.empty()) {
      throw Error(ErrorCode::unsupported, "the function " + quoted(function.name) + " has no CUDA code",
                  "Give its NativeFunction::cuda, or define it in the language.");
    }
    for (std::size_t i = 0; i < call.args.size(); ++i) {
      const bool parameter = static_cast<int>(i) >= function.native->arity;
      parameters += fill("$comma$type $letter$i",
                         {{"comma", i ? ", " : ""},
                          {"type", device_type(call.args[i])},
                          {"letter", parameter ? "p" : "x"},
                          {"i", str(parameter ? static_cast<int>(i) - function.native->arity : static_cast<int>(i))}});
    }
    text = "  return " + function.native->cuda + ";\n";
  } else {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < call.args.size(); ++i) {
      names.push_back("x" + str(i));
      parameters += (i ? ", " : "") + device_type(call.args[i]) + " " + names.back();
    }
    std::vector<DType> results;
    std::vector<std::string> values;
    text = body(function.body, call.args, names, results, values, made.operations);
    if (made.operations > most_operations) throw too_large(function);
    result_type = device_type(results.at(0));
    text += "  return " + values.at(0) + ";\n";
  }
  define(result_type, made.name, parameters, text);
}

void Functions::define(const std::string& result, const std::string& name, const std::string& parameters,
                       const std::string& body) {
  text_ += fill(R"(DEVICE $result $name($parameters) {
$body}
)",
                {{"result", result}, {"name", name}, {"parameters", parameters}, {"body", body}});
}

std::string Functions::combiner(const Lambda& lambda, std::span<const DType> types) {
  std::vector<DType> parameters;
  std::vector<std::string> names;
  std::string list;
  for (const char* side : {"a", "b"}) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      parameters.push_back(types[i]);
      names.push_back(side + str(i));
      list += device_type(types[i]) + " " + names.back() + ", ";
    }
  }
  std::vector<DType> results;
  std::vector<std::string> values;
  std::string text = body(lambda, parameters, names, results, values, operations_);
  for (std::size_t i = 0; i < types.size(); ++i) {
    list += (i ? ", " : "") + device_type(types[i]) + "& r" + str(i);
    text += fill("  r$i = $value;\n", {{"i", str(i)}, {"value", converted(values.at(i), results.at(i), types[i])}});
  }
  const std::string made = "combiner" + str(made_.size());
  made_[made] = {made, 0};
  define("void", made, list, text);
  return made;
}

std::string random_key(const lower::Instruction& i) {
  return fill("$seed, ${stream}u",
              {{"seed", number(i.seed)}, {"stream", i.op == Op::random ? str(i.random_stream) : "0"}});
}

std::string expression(const lower::Instruction& i, const std::vector<std::string>& args, std::span<const DType> types,
                       const Place& p, Functions& functions) {
  // Along an axis that it lacks, a value's coordinate is 0.
  const std::string b = i.batched ? p.b : "0";
  const std::string column = i.axes.has(Axis::n) ? column_expression(i.access.columns, p.j, p.width) : "0";
  const std::string row = i.axes.has(Axis::m) ? row_expression(i.access, p.i) : "0";
  const auto random = [&] {
    if (!p.random.empty()) return p.random;
    return fill(
        "random_uniform($key, $b, $row, $column)",
        {{"key", random_key(i)}, {"b", b}, {"row", i.turned ? column : row}, {"column", i.turned ? row : column}});
  };
  switch (i.op) {
    case Op::constant: return device_literal(i.literal, i.type);
    case Op::m_index: return "ROW_OF_IMAGE(" + row + ")";
    case Op::n_index: return column;
    case Op::batch_index: return b;
    case Op::random: return random();
    case Op::cast:
      return cast_expression(args[0], types[0], i.dtype, i.round, i.round == Round::stochastic ? random() : "0.f");
    case Op::call: return functions.call(*i.function, types) + "(" + join(args) + ")";
    default: return operation(i.op, args, types[i.op == Op::where ? 1 : 0]);
  }
}

}  // namespace postlude::inline v0::cuda
