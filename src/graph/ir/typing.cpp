#include "graph/ir/typing.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace postlude::inline v0 {
namespace {

std::string spelled(Op op) { return op == Op::pow ? "'**'" : "'" + std::string(info(op).spelling) + "'"; }

std::string type_name(const TypeState& state) {
  return state.type ? std::string(name(*state.type)) : "the accumulator's type";
}

[[noreturn]] void mismatch(const std::string& message, const std::string& hint) {
  throw Error(ErrorCode::type_mismatch, message, hint);
}

bool is_boolean(const TypeState& state) { return state.type == DType::boolean; }

// A function sees integer literals in the type that they have beside the other arguments; they
// yield no more.
std::vector<TypeState> function_arguments(std::span<const TypeState> args) {
  std::vector<TypeState> result(args.begin(), args.end());
  for (TypeState& a : result) {
    if (!a.literal) continue;
    a = {a.type == DType::i64 ? promote(args).type : a.type, false, false};
  }
  return result;
}

TypeState infer_simple(const Node& node, std::span<const TypeState> args) {
  const OpInfo& op = info(node.op);
  const bool all_literal = std::all_of(args.begin(), args.end(), [](const TypeState& a) { return a.literal; });
  switch (op.rule) {
    case TypeRule::arithmetic: return promote(args);
    case TypeRule::real: return {DType::f32, all_literal, false};
    case TypeRule::compare:
      if (is_boolean(args[0]) && is_boolean(args[1])) return {DType::boolean, all_literal, false};
      (void)promote(args);
      return {DType::boolean, all_literal, false};
    case TypeRule::bitwise: {
      for (const TypeState& a : args) {
        if (a.type == DType::f32)
          mismatch(spelled(node.op) + " does not take f32",
                   "It works on booleans and integers: compare, or cast, first.");
      }
      if (std::all_of(args.begin(), args.end(), is_boolean)) return {DType::boolean, all_literal, false};
      return promote(args);
    }
    case TypeRule::select: {
      if (!is_boolean(args[0]))
        mismatch("the condition of where is " + type_name(args[0]) + ", not a boolean",
                 "Compare it: where(x != 0, ...).");
      TypeState result = is_boolean(args[1]) && is_boolean(args[2])
                             ? TypeState{DType::boolean, args[1].literal && args[2].literal, false}
                             : promote(args.subspan(1));
      result.literal = result.literal && args[0].literal;
      return result;
    }
    case TypeRule::cast: return {compute_type(node.dtype), false, false};
    default: throw Error(ErrorCode::internal, "operation " + std::string(op.id) + " is not elementwise");
  }
}

}  // namespace

TypeState literal_type(const Literal& literal) {
  const bool wide = literal.type == DType::i64 && (literal.integer > std::numeric_limits<std::int32_t>::max() ||
                                                   literal.integer < std::numeric_limits<std::int32_t>::min());
  return {literal.type, true, wide};
}

TypeState promote(std::span<const TypeState> values) {
  bool real_literal = false, wide = false, unknown = false, any_value = false, real = false, big = false,
       all_boolean = true;
  for (const TypeState& v : values) {
    if (v.literal) {
      real_literal |= v.type == DType::f32;
      wide |= v.wide;
      all_boolean &= v.type == DType::boolean;
      continue;
    }
    any_value = true;
    unknown |= !v.type;
    real |= v.type == DType::f32;
    big |= v.type == DType::i64;
  }
  if (!any_value) {
    if (real_literal) return {DType::f32, true, false};
    return {all_boolean ? DType::i32 : DType::i64, true, wide};
  }
  if (real || real_literal) return {DType::f32, false, false};
  if (unknown) return {std::nullopt, false, false};
  return {big || wide ? DType::i64 : DType::i32, false, false};
}

DType argument_type(const Node& node, std::size_t argument, std::span<const TypeState> args) {
  switch (info(node.op).rule) {
    case TypeRule::real: return DType::f32;
    case TypeRule::cast: return *args[0].type;
    case TypeRule::select:
      if (argument == 0) return DType::boolean;
      if (is_boolean(args[1]) && is_boolean(args[2])) return DType::boolean;
      return *promote(args.subspan(1)).type;
    case TypeRule::call: return *function_arguments(args)[argument].type;
    default:
      if (std::all_of(args.begin(), args.end(), is_boolean) &&
          (info(node.op).rule == TypeRule::compare || info(node.op).rule == TypeRule::bitwise))
        return DType::boolean;
      return *promote(args).type;
  }
}

TypeState Typing::infer(const Node& node, std::span<const TypeState> args) {
  if (node.op != Op::call) return infer_simple(node, args);
  if (node.function->body.nodes.empty()) return {DType::f32, false, false};
  const auto key = std::pair(node.function.get(), function_arguments(args));
  if (auto it = calls_.find(key); it != calls_.end()) return it->second;
  infer_calls(node, key.second);
  return calls_.at(key);
}

std::vector<TypeState> Typing::infer_body(const Lambda& body, std::span<const TypeState> parameters) {
  std::vector<TypeState> states;
  states.reserve(body.nodes.size());
  std::vector<TypeState> args;
  for (const Node& node : body.nodes) {
    if (node.op == Op::constant) {
      states.push_back(literal_type(node.literal));
    } else if (node.op == Op::parameter) {
      states.push_back(parameters[static_cast<std::size_t>(node.index)]);
    } else {
      args.clear();
      for (NodeId a : node.args) args.push_back(states[static_cast<std::size_t>(a)]);
      states.push_back(infer(node, args));
    }
  }
  return states;
}

// The walk over nested calls has a stack of bodies of its own, so that a thousand functions, each
// defined by the one before, cost a thousand steps and no stack of the process.
void Typing::infer_calls(const Node& call, std::span<const TypeState> args) {
  struct Frame {
    const Function* function;
    std::vector<TypeState> parameters, states;
  };
  std::vector<Frame> stack;
  stack.push_back({call.function.get(), {args.begin(), args.end()}, {}});
  std::vector<TypeState> inner;
  while (!stack.empty()) {
    Frame& frame = stack.back();
    const Lambda& body = frame.function->body;
    bool descended = false;
    while (frame.states.size() < body.nodes.size()) {
      const Node& node = body.nodes[frame.states.size()];
      if (node.op == Op::constant) {
        frame.states.push_back(literal_type(node.literal));
        continue;
      }
      if (node.op == Op::parameter) {
        frame.states.push_back(frame.parameters[static_cast<std::size_t>(node.index)]);
        continue;
      }
      inner.clear();
      for (NodeId a : node.args) inner.push_back(frame.states[static_cast<std::size_t>(a)]);
      if (node.op == Op::call && !node.function->body.nodes.empty()) {
        inner = function_arguments(inner);
        const auto it = calls_.find({node.function.get(), inner});
        if (it == calls_.end()) {
          stack.push_back({node.function.get(), inner, {}});
          descended = true;
          break;
        }
        frame.states.push_back(it->second);
      } else {
        frame.states.push_back(infer(node, inner));
      }
    }
    if (descended) continue;
    TypeState result = frame.states[static_cast<std::size_t>(body.results[0])];
    result.literal = result.wide = false;  // a function's result is a value, even of literals
    calls_[{frame.function, frame.parameters}] = result;
    stack.pop_back();
  }
}

}  // namespace postlude::inline v0
