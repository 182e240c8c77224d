// The graph as the passes of lowering see it: typed, every conversion a cast, reductions in terms
// of machine reducers.
//
// Like GraphData it is a flat vector in topological order. Beyond the graph's meaning of an Op:
//   cast      also converts between f32, i32, i64 and boolean
//   reduce    has a Reducer once `reductions` has run; one of several components is taken by `get`
//   get       with no argument: the count (see program.h)
#pragma once

#include "graph/ir/extents.h"
#include "graph/ir/verify.h"
#include "lower/program.h"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace postlude::inline v0::lower {

struct Item : Node {
  DType type = DType::f32;  // of the value
  Axes vary;                // the value's axes; b only in a batched problem
  Extent rows, columns;     // along the axes it has; of a count: of the reduced value
  Reducer reducer = Reducer::sum;
  NodeId origin = -1;  // node of the graph

  [[nodiscard]] bool is_count() const { return op == Op::get && args.empty(); }
  [[nodiscard]] bool is_constant(double value) const { return op == Op::constant && literal.value() == value; }
};

struct WorkOutput {
  std::int32_t declaration = 0;
  NodeId value = -1;
  DType dtype = DType::f32;
};

struct Work {
  const GraphData* graph = nullptr;  // null for a function's body
  bool batched = false;
  std::vector<Item> items;
  std::vector<WorkOutput> outputs;
  std::vector<std::string> notes;

  [[nodiscard]] std::string print() const;
  [[nodiscard]] std::vector<std::int32_t> uses() const;  // how often each item is an argument or an output
};

// Whether x repeats a number for each group of `reduce` beside all elements of that group.
[[nodiscard]] bool is_beside_groups(const Item& x, const Item& reduce);
// How many reductions stand one behind the other up to an item, out of the same of all items before it.
[[nodiscard]] std::int32_t depth_of(const Item& item, const std::vector<std::int32_t>& depths);

// Rebuilds a Work item by item: every pass that replaces items is a loop over `next()`.
class Rewriter {
 public:
  explicit Rewriter(Work& work);

  // The next old item, its arguments already new ids; false at the end.
  bool next(Item& item);
  [[nodiscard]] NodeId current() const { return current_; }  // its old id
  // What the old item has become. An item given unchanged does not count as a change.
  void keep(Item item);
  void replace(NodeId by);

  // New items; `like` gives origin and, where the item has no arguments, extents.
  NodeId add(Item item);
  NodeId make(Op op, DType type, std::initializer_list<NodeId> args, NodeId origin);
  NodeId broadcasted(Item item);  // it varies over what its arguments do
  NodeId constant(DType type, double value, NodeId origin);
  NodeId count(const Item& reduce, Axes over, DType type);  // of the elements that `reduce` takes along `over`
  NodeId component(NodeId reduce, int index, DType type);
  NodeId cast(NodeId value, DType type);  // the value itself where it has that type

  [[nodiscard]] const Item& operator[](NodeId id) const { return items_[id]; }
  [[nodiscard]] NodeId now(NodeId old) const { return now_[old]; }

  // Puts the new items into the Work; whether anything changed.
  bool finish();

 private:
  Work& work_;
  std::vector<Item> items_;
  std::vector<NodeId> now_;
  NodeId current_ = -1;
  bool changed_ = false;
};

// Sets what an elementwise item varies over from its arguments.
void broadcast(Item& item, const std::vector<Item>& items);

// Components of a reducer's result.
[[nodiscard]] int components(Reducer reducer, std::size_t args);
[[nodiscard]] std::string_view name(Reducer reducer);

[[nodiscard]] std::string print_axes(Axes axes);  // "{m, n}"
[[nodiscard]] std::string print_literal(const Literal& literal);

}  // namespace postlude::inline v0::lower
