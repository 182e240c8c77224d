// Between which values integer expressions lie, whatever sizes are: what conditions show of indices.
#pragma once

#include "te/expression.h"

#include <optional>
#include <unordered_map>
#include <vector>

namespace postlude::inline v0::te {

struct Interval {
  Expr low, high;
};
using Ranges = std::unordered_map<const AxisNode*, Interval>;

// Between which values an index lies, its axes in `ranges`; nothing where that is not known.
[[nodiscard]] std::optional<Interval> interval(const Expr& x, const Ranges& ranges);
// x >= 0 wherever the loops run, as far as constants show. A size is at least 0.
[[nodiscard]] bool is_never_negative(const Expr& x, const Ranges& loops);

// What a condition says where it holds, or where it fails, as expressions that are at least 0, behind those that are
// there. Whether it says no more than these.
bool add_facts(const Expr& condition, bool holds, std::vector<Expr>& facts);

// A stage's operation, where each index that a `where` guards, and is not shown to be within its tensor there, is held
// to the tensor's edge: X[max(min(i, n - 1), 0)]. What is read of a tensor without elements is 0.
[[nodiscard]] OperationPtr held(const OperationPtr& operation);
// Whether an index is held, or sizes tell where it lies, which is looked at when they are bound.
[[nodiscard]] bool is_bounded(const Expr& index);

}  // namespace postlude::inline v0::te
