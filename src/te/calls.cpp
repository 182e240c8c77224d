#include "te/calls.h"

#include <algorithm>
#include <cctype>

namespace postlude::inline v0::te {
namespace {

// A name in Python of `of`, a tensor's operation or a loop: `wanted` where nothing else of the schedule is called so.
std::string python_name(ScheduleNode& schedule, const ScheduleNode::Named& of, std::string wanted) {
  std::string& name = schedule.names[of];
  if (!name.empty()) return name;
  std::replace_if(
      wanted.begin(), wanted.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  if (wanted.empty() || std::isdigit(static_cast<unsigned char>(wanted[0]))) wanted.insert(0, 1, '_');
  name = wanted;
  for (int number = 1; !schedule.taken.insert(name).second; ++number) name = wanted + "_" + std::to_string(number);
  return name;
}

}  // namespace

std::string python_name(ScheduleNode& schedule, const OperationPtr& operation, int component) {
  return python_name(schedule, {operation, component},
                     operation->name + (component > 0 ? "_" + std::to_string(component) : ""));
}
std::string python_name(ScheduleNode& schedule, const StageNode& stage) {
  return "s[" + python_name(schedule, stage.origin) + "]";
}

// By its place if it is one of the stage's axes, else by the name that a call gave it.
std::string python_name(ScheduleNode& schedule, const StageNode& stage, const AxisPtr& axis) {
  const auto place = [&](const std::vector<AxisPtr>& axes) {
    return std::find(axes.begin(), axes.end(), axis) - axes.begin();
  };
  const auto data = place(stage.op->axes), reduced = place(stage.op->reduce_axes);
  if (data < static_cast<std::ptrdiff_t>(stage.op->axes.size()))
    return python_name(schedule, stage) + ".op.axis[" + std::to_string(data) + "]";
  if (reduced < static_cast<std::ptrdiff_t>(stage.op->reduce_axes.size()))
    return python_name(schedule, stage) + ".op.reduce_axis[" + std::to_string(reduced) + "]";
  return python_name(schedule, {axis, 0}, python_name(schedule, stage.origin) + "_" + axis->name);
}

std::string python_name(ScheduleNode& schedule, const StageNode& stage, const Axes& axes) {
  std::string text;
  for (const Axis& axis : axes) text += (text.empty() ? "" : ", ") + python_name(schedule, stage, axis.node());
  return text;
}

void add_call(ScheduleNode& schedule, const StageNode& stage, const char* call, const Axes& axes,
              const std::string& more, const Axes& made) {
  const std::string result = made.empty() ? "" : python_name(schedule, stage, made) + " = ";
  schedule.calls.push_back(result + python_name(schedule, stage) + "." + call + "(" +
                           python_name(schedule, stage, axes) + more + ")");
}

std::string python_text(const Expr& x) {
  if (x->kind != ExprNode::Kind::operation || (x->op != Op::bit_and && x->op != Op::bit_or)) return print(x);
  return "(" + python_text(x->args[0]) + (x->op == Op::bit_and ? ") & (" : ") | (") + python_text(x->args[1]) + ")";
}

}  // namespace postlude::inline v0::te
