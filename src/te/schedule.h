// A schedule: the loops of each stage, and where each stage is computed.
#pragma once

#include "te/expression.h"

#include <optional>
#include <set>

namespace postlude::inline v0::te {

// split: parent = outer * (extent of inner) + inner. fuse: the same, the other way.
struct Relation {
  enum class Kind : std::uint8_t { split, fuse };
  Kind kind = Kind::split;
  AxisPtr parent, outer, inner;
  std::int64_t factor = 0;  // of a split: inner's extent; or, with `parts`, outer's
  bool parts = false;
};

// How a loop runs.
struct Mark {
  enum class Kind : std::uint8_t { serial, unroll, vectorize, parallel, bind };
  Kind kind = Kind::serial;
  AxisPtr thread{};  // bind
};

struct StageNode {
  enum class Nesting : std::uint8_t { root, inlined, at };
  OperationPtr origin;  // what the user names
  OperationPtr op;      // what it computes now
  std::vector<AxisPtr> leaves;
  std::vector<Relation> relations;
  std::unordered_map<AxisPtr, Mark> marks;  // which hold their axes: a later axis at a former one's address has no mark
  Nesting nesting = Nesting::root;
  std::weak_ptr<StageNode> consumer;  // at
  AxisPtr at;
  std::string scope;  // "": as its place suggests
  Expr predicate;
  bool is_output = false;
  bool is_derived = false;  // made by rfactor or a cache: what it reads, another stage's definition reads

  [[nodiscard]] Mark mark(const AxisPtr& axis) const {
    const auto found = marks.find(axis);
    return found == marks.end() ? Mark{} : found->second;
  }
};
using StagePtr = std::shared_ptr<StageNode>;

struct ScheduleNode {
  std::vector<StagePtr> stages;  // producers first; no placeholders
  std::vector<Tensor> outputs;
  std::vector<std::string> calls;  // that made it, in Python

  // What the calls call tensors' operations, of some components, and loops; the names that are taken.
  using Named = std::pair<std::shared_ptr<const void>, int>;
  std::map<Named, std::string> names;
  std::set<std::string> taken{"s", "te", "_"};
};

[[noreturn]] void refuse(const std::string& message, const std::string& hint = {});  // bad_schedule
[[nodiscard]] inline bool is_reduce(const AxisPtr& axis) { return axis->kind == AxisNode::Kind::reduce; }
// The number of a loop among a stage's; refuses others in the name of a call.
std::size_t find_leaf(const StageNode& stage, const Axis& axis, const char* call);
// Refuses to take a reduction apart: in parts that come in order, or in others.
void check_parts(const ReducerNode& reducer, const std::string& what, bool in_order);
void check_scope(const std::string& scope);
// `op`: what is computed of it, whose indices are held to their tensors where its conditions are its author's.
[[nodiscard]] StagePtr make_stage(const OperationPtr& operation, const OperationPtr& op);
[[nodiscard]] StagePtr stage_of(const ScheduleNode& schedule, const OperationPtr& operation);  // or null
// The tensors' operations that a stage reads, once each.
[[nodiscard]] std::vector<OperationPtr> reads_of(const OperationNode& operation);

// The loops of a stage in numbers: the value of each axis from the leaves, all counted from 0, and
// the extents that follow from those of the roots.
struct LoopValues {
  Substitution value;
  std::unordered_map<const AxisNode*, Expr> extent;
  struct Ragged {
    Expr condition;
    bool reduces;
  };
  std::vector<Ragged> ragged;  // what keeps a loop that a split rounded up within its parent
};
[[nodiscard]] LoopValues loop_values(const StageNode& stage, const std::unordered_map<const AxisNode*, Expr>& roots);

// A good schedule where some sizes are known, none perhaps; `dense`: the last two axes of all arrays lie side by side.
[[nodiscard]] Schedule choose_schedule(const std::vector<Tensor>& outputs, const Target& target, const Sizes& sizes,
                                       bool dense = true);

}  // namespace postlude::inline v0::te
