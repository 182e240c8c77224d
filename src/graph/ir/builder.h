// The builder of nodes, for GraphBuilder and for the text's elaboration alike.
#pragma once

#include "graph/ir/ir.h"

#include <postlude/parse.h>

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

namespace postlude::inline v0 {

// A graph, or the body of a function or combiner, while it grows. Constants, operands, a chunk's
// pieces and a reduction's results are made once. Each call makes coordinates and random numbers
// anew, because two may differ in width. A pass finds equal operations.
struct BuilderState {
  GraphData graph;
  Span span;          // of the nodes made from here on
  bool body = false;  // elementwise nodes, constants and parameters only
  bool finished = false;
  std::size_t limit = ParseLimits{}.nodes;  // of nodes, and of a chunk's pieces

  void check_open() const;  // throws foreign_value where the builder has finished
  NodeId add(Node node);    // at `span` unless the node has a place; throws text_limit
  NodeId share(Node node);  // the same node as last time, for those that are made once

  NodeId constant(const Literal& literal);
  NodeId accumulator(std::string name);
  NodeId operand(std::string name, Axes axes, std::optional<DType> dtype);
  NodeId parameter(std::int32_t index, std::string name);
  NodeId elementwise(Op op, std::vector<NodeId> args);
  NodeId reduction(ReduceOp op, NodeId x, Axes over, ReduceOptions options);
  NodeId call(std::shared_ptr<const Function> function, std::vector<NodeId> args);
  void check_pieces(std::int64_t k) const;  // of a chunk
  void output(std::string name, NodeId value, std::optional<DType> dtype, std::optional<Axes> axes);
  void name(NodeId node, std::string_view hint);  // the first name of a computed value stays

  [[nodiscard]] Location here() const { return locate(graph, span); }

  // The operators of graph.h reach a builder through their arguments.
  static std::shared_ptr<BuilderState> of(std::initializer_list<const Value*> values);
  static std::shared_ptr<BuilderState> of(std::span<const Value> values);
  NodeId node(const Value& value);  // of a literal: a constant
  static Value value(std::shared_ptr<BuilderState> state, NodeId node);

 private:
  using LeafKey = std::tuple<Op, NodeId, std::int32_t, std::int32_t, std::int64_t, std::uint64_t, std::uint32_t>;
  std::map<LeafKey, NodeId> shared_;
  std::unordered_set<std::string> operand_names_, output_names_;

  void check_unique(const std::string& name, std::string_view what) const;
};

}  // namespace postlude::inline v0
