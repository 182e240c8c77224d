// The calls that made a schedule, as text of Python: what tensors and loops are called there.
#pragma once

#include "te/schedule.h"

#include <string>

namespace postlude::inline v0::te {

// Of a tensor's operation; of a stage, s[B]; of a loop, as one of its stage's axes or as a call named it.
[[nodiscard]] std::string python_name(ScheduleNode& schedule, const OperationPtr& operation, int component = 0);
[[nodiscard]] std::string python_name(ScheduleNode& schedule, const StageNode& stage);
[[nodiscard]] std::string python_name(ScheduleNode& schedule, const StageNode& stage, const AxisPtr& axis);
[[nodiscard]] std::string python_name(ScheduleNode& schedule, const StageNode& stage, const Axes& axes);
// Notes a call of a stage: its loops, then `more`, and the loops that it made.
void add_call(ScheduleNode& schedule, const StageNode& stage, const char* call, const Axes& axes = {},
              const std::string& more = {}, const Axes& made = {});
// A condition, whose & and | bind more tightly than comparisons there.
[[nodiscard]] std::string python_text(const Expr& condition);

}  // namespace postlude::inline v0::te
