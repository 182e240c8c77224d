#include "lower/expand.h"

#include "lower/algebra.h"
#include "lower/drop.h"
#include "lower/emit.h"
#include "lower/fold.h"
#include "lower/infer.h"
#include "lower/multiply_add.h"
#include "lower/subexpressions.h"

namespace postlude::inline v0::lower {
namespace {

// Functions that call one another twice at each level double at each.
constexpr std::size_t most_instructions = 1 << 16;

// A body with straight-line code of its own, on parameters that are the first instructions.
Phase body_of(const Instruction& call, const std::vector<Instruction>& code, Typing& typing) {
  if (call.function->body.nodes.empty())
    throw Error(ErrorCode::unsupported, "the target has no code for the function " + quoted(call.function->name),
                "Give its NativeFunction code for this target.");
  std::vector<DType> types;
  std::vector<Axes> axes;
  for (ValueId a : call.args) {
    types.push_back(code[a].type);
    axes.push_back(code[a].vary());
  }
  Work work = infer_body(call.function->body, types, axes, call.node, typing);
  fold(work);
  subexpressions(work);
  algebra(work);
  drop(work);
  multiply_add(work);
  drop(work);
  Phase result;
  std::vector<ValueId> parameters;
  for (std::size_t i = 0; i < types.size(); ++i) {
    Instruction parameter;
    parameter.op = Op::parameter;
    parameter.type = types[i];
    parameter.axes = axes[i] & tile_axes;
    parameter.batched = axes[i].has(Axis::b);
    result.code.push_back(parameter);
    parameters.push_back(static_cast<ValueId>(i));
  }
  const ValueId value = emit_body(work, parameters, call.access, result.code)[0];
  result.stores.push_back({value, {}});
  return result;
}

// The value of a call (its args are indices in `code`), whose instructions are added to `code`.
ValueId expand_call(const Instruction& call, std::vector<Instruction>& code, const HasNative& native, Typing& typing) {
  // Nested calls are bodies on a stack, not recursion.
  struct Frame {
    Instruction call;
    Phase body;
    std::vector<ValueId> ids;  // of the body's instructions in `code`
  };
  std::vector<Frame> stack;
  const auto open = [&](const Instruction& c) {
    Frame frame{c, body_of(c, code, typing), {}};
    frame.ids = c.args;
    stack.push_back(std::move(frame));
  };
  open(call);
  while (true) {
    Frame& frame = stack.back();
    if (code.size() > most_instructions)
      throw Error(ErrorCode::unsupported, "the function " + quoted(call.function->name) + " expands to more than " +
                                              std::to_string(most_instructions) + " operations");
    if (frame.ids.size() < frame.body.code.size()) {
      Instruction x = frame.body.code[frame.ids.size()];
      for (ValueId& a : x.args) a = frame.ids[a];
      if (x.guard >= 0) x.guard = frame.ids[x.guard];
      if (x.op == Op::call && !native(x)) {
        open(x);
      } else {
        code.push_back(std::move(x));
        frame.ids.push_back(static_cast<ValueId>(code.size()) - 1);
      }
      continue;
    }
    ValueId result = frame.ids[frame.body.stores[0].value];
    if (frame.call.guard >= 0) {
      Instruction zero;
      zero.type = zero.literal.type = frame.call.type;
      code.push_back(zero);
      Instruction guarded;
      guarded.op = Op::where;
      guarded.type = frame.call.type;
      guarded.axes = frame.call.axes;
      guarded.batched = frame.call.batched;
      guarded.args = {frame.call.guard, static_cast<ValueId>(code.size()) - 1, result};
      guarded.guard = frame.call.guard;
      guarded.node = frame.call.node;
      code.push_back(std::move(guarded));
      result = static_cast<ValueId>(code.size()) - 1;
    }
    stack.pop_back();
    if (stack.empty()) return result;
    stack.back().ids.push_back(result);
  }
}

}  // namespace

Phase expand_calls(const Phase& phase, const HasNative& native) {
  Typing typing;
  Phase result = phase;
  result.code.clear();
  std::vector<ValueId> ids;
  ids.reserve(phase.code.size());
  for (Instruction x : phase.code) {
    for (ValueId& a : x.args) a = ids[a];
    if (x.guard >= 0) x.guard = ids[x.guard];
    if (x.op == Op::call && !native(x)) {
      ids.push_back(expand_call(x, result.code, native, typing));
    } else {
      result.code.push_back(std::move(x));
      ids.push_back(static_cast<ValueId>(result.code.size()) - 1);
    }
  }
  for_each_use(result, [&](ValueId& v) { v = ids[v]; });
  return result;
}

}  // namespace postlude::inline v0::lower
