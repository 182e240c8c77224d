#include "reference/body.h"

#include <algorithm>
#include <array>

namespace postlude::inline v0::reference {

bool is_native(const Function& function, std::span<const TypeState> args, const Node& call) {
  if (!function.native) return false;
  if (function.body.nodes.empty()) return true;
  for (std::size_t i = 0; i < args.size(); ++i)
    if (argument_type(call, i, args) != DType::f32) return false;
  return true;
}

Body::Body(const Lambda& lambda, std::span<const TypeState> parameters, std::span<const DType> results,
           Typing& typing) {
  open(lambda, parameters, results, typing);
}

Body::Body(const Node& call, std::span<const TypeState> args, DType result, Typing& typing) {
  std::vector<TypeState> parameters;
  for (std::size_t i = 0; i < args.size(); ++i) parameters.push_back({argument_type(call, i, args), false, false});
  if (!is_native(*call.function, args, call)) {
    open(call.function->body, parameters, std::array{result}, typing);
    return;
  }
  parameters_ = static_cast<std::int32_t>(args.size());
  Step step;
  step.native = call.function->native.get();
  step.guard = guard_of(*call.function, typing);
  for (std::int32_t i = 0; i < parameters_; ++i)
    step.args.push_back({i, *parameters[static_cast<std::size_t>(i)].type, DType::f32});
  steps_.push_back(std::move(step));
  results_.push_back({parameters_, DType::f32, result});
}

std::shared_ptr<const Body> Body::guard_of(const Function& function, Typing& typing) {
  if (!function.guard) return nullptr;
  const std::vector<TypeState> parameters(function.parameters.size(), {DType::f32, false, false});
  return std::make_shared<const Body>(*function.guard, parameters, std::array{DType::boolean}, typing);
}

// A step that only converts: its argument is its result.
Body::Step Body::conversion(const Source& source) {
  static const Node node = [] {
    Node n;
    n.op = Op::call;
    return n;
  }();
  Step convert;
  convert.operation = {&node, source.to, source.to};
  convert.args.push_back(source);
  return convert;
}

// Depth first over the calls with a stack of frames: a body may call functions a thousand deep.
void Body::open(const Lambda& lambda, std::span<const TypeState> parameters, std::span<const DType> results,
                Typing& typing) {
  struct Frame {
    const Lambda* lambda;
    std::vector<TypeState> types;         // of its nodes
    std::vector<std::int32_t> slots;      // of its nodes so far
    std::vector<std::int32_t> arguments;  // slots of its parameters
    std::vector<Source> converted;        // of the call that is being opened
  };
  parameters_ = static_cast<std::int32_t>(parameters.size());
  std::vector<Frame> stack;
  const auto enter = [&](const Lambda& body, std::span<const TypeState> types, std::vector<std::int32_t> arguments) {
    stack.push_back({&body, typing.infer_body(body, types), {}, std::move(arguments), {}});
  };
  const auto push = [&](Step step) {
    steps_.push_back(std::move(step));
    return parameters_ + static_cast<std::int32_t>(steps_.size()) - 1;
  };
  std::vector<std::int32_t> own(parameters.size());
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<std::int32_t>(i);
  enter(lambda, parameters, std::move(own));
  std::vector<TypeState> types;
  while (true) {
    Frame& frame = stack.back();
    if (frame.slots.size() == frame.lambda->nodes.size()) {
      const auto result = [&](std::size_t i) { return static_cast<std::size_t>(frame.lambda->results[i]); };
      if (stack.size() > 1) {
        const std::int32_t slot = frame.slots[result(0)];
        stack.pop_back();
        stack.back().slots.push_back(slot);
        continue;
      }
      for (std::size_t i = 0; i < results.size(); ++i)
        results_.push_back({frame.slots[result(i)], frame.types[result(i)].type.value(), results[i]});
      return;
    }
    const std::size_t id = frame.slots.size();
    const Node& node = frame.lambda->nodes[id];
    if (node.op == Op::parameter) {
      frame.slots.push_back(frame.arguments[static_cast<std::size_t>(node.index)]);
      continue;
    }
    Step step;
    step.operation = {&node, DType::f32, frame.types[id].type.value()};
    if (node.op == Op::constant) {
      step.constant = constant(node.literal, node.literal.type);
      frame.slots.push_back(push(std::move(step)));
      continue;
    }
    types.clear();
    for (const NodeId a : node.args) types.push_back(frame.types[static_cast<std::size_t>(a)]);
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      const auto a = static_cast<std::size_t>(node.args[i]);
      step.args.push_back({frame.slots[a], *types[i].type, argument_type(node, i, types)});
    }
    if (!step.args.empty()) step.operation.argument = step.args.back().to;
    if (node.op != Op::call) {
      frame.slots.push_back(push(std::move(step)));
      continue;
    }
    if (is_native(*node.function, types, node)) {
      step.native = node.function->native.get();
      step.guard = guard_of(*node.function, typing);
      for (Source& source : step.args) source.to = DType::f32;
      frame.slots.push_back(push(std::move(step)));
      continue;
    }
    std::vector<TypeState> inner;
    std::vector<std::int32_t> arguments;
    for (const Source& source : step.args) {
      inner.push_back({source.to, false, false});
      arguments.push_back(source.from == source.to ? source.slot : push(conversion(source)));
    }
    enter(node.function->body, inner, std::move(arguments));
  }
}

void Body::run(std::span<const Cell> parameters, const Place& place, std::vector<Cell>& scratch,
               std::span<Cell> out) const {
  scratch.resize(static_cast<std::size_t>(parameters_) + steps_.size());
  std::copy(parameters.begin(), parameters.end(), scratch.begin());
  std::vector<Cell> many;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    Cell& result = scratch[static_cast<std::size_t>(parameters_) + i];
    std::array<Cell, 4> few;
    if (step.args.size() > few.size()) many.resize(step.args.size());
    const std::span<Cell> args =
        step.args.size() > few.size() ? std::span<Cell>(many) : std::span(few).first(step.args.size());
    for (std::size_t a = 0; a < args.size(); ++a)
      args[a] = convert(scratch[static_cast<std::size_t>(step.args[a].slot)], step.args[a].from, step.args[a].to);
    if (step.native) {
      result = apply_native(*step.native, args);
      if (!step.guard) continue;
      std::vector<Cell> inner;
      Cell holds;
      step.guard->run(args, place, inner, {&holds, 1});
      if (holds.whole.high != 0) {
        const Real zero = point(0.0), sure = is_point(holds.whole) ? zero : hull(result.real, zero, result.real.value);
        result = cell(sure);
      }
    } else if (step.operation.node->op == Op::constant) {
      result = step.constant;
    } else if (step.operation.node->op == Op::call) {
      result = args[0];
    } else {
      result = apply(step.operation, args, place);
    }
  }
  for (std::size_t i = 0; i < results_.size(); ++i)
    out[i] = convert(scratch[static_cast<std::size_t>(results_[i].slot)], results_[i].from, results_[i].to);
}

}  // namespace postlude::inline v0::reference
