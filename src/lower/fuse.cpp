#include "lower/fuse.h"

#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace postlude::inline v0::lower {
namespace {

bool is_reduce(const Item& x, Reducer reducer) { return x.op == Op::reduce && x.reducer == reducer; }

// For the sum over exp(x - max(x)): the max, if both reduce the same elements along the same axes.
std::optional<NodeId> softmax_maximum(const std::vector<Item>& items, const Item& sum) {
  if (!is_reduce(sum, Reducer::sum) || sum.type != DType::f32) return {};
  const Item& e = items[sum.args[0]];
  if (e.op != Op::exp) return {};
  const Item& difference = items[e.args[0]];
  if (difference.op != Op::sub) return {};
  NodeId m = difference.args[1];
  // A grouped maximum is repeated over its columns.
  const Item& laid = items[m];
  if (laid.op == Op::repeat && sum.group > 0 && laid.group == sum.group && laid.axes == (sum.axes & tile_axes))
    m = laid.args[0];
  const Item& maximum = items[m];
  const bool grouped = m != difference.args[1];
  if (!is_reduce(maximum, Reducer::max) || maximum.args[0] != difference.args[0] || maximum.axes != sum.axes ||
      maximum.group != sum.group || grouped != (sum.group > 0))
    return {};
  return m;
}

}  // namespace

bool fuse(Work& work) {
  const std::vector<Item>& items = work.items;
  std::unordered_map<NodeId, NodeId> maximum_of;             // sum of exp -> its max
  std::unordered_map<NodeId, NodeId> softmax_of;             // max -> the first such sum
  std::unordered_map<NodeId, std::vector<NodeId>> welfords;  // x -> its welfords
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    if (const auto m = softmax_maximum(items, items[i])) {
      maximum_of[id] = *m;
      softmax_of.emplace(*m, id);
    }
    if (is_reduce(items[i], Reducer::welford)) welfords[items[i].args[0]].push_back(id);
  }
  // The means beside a welford. A sum that is used for itself stays: it may be exact, which count *
  // mean is not.
  std::unordered_map<NodeId, NodeId> welford_of;  // mean -> welford
  const std::vector<std::int32_t> uses = work.uses();
  for (std::size_t i = 0; i < items.size() && !welfords.empty(); ++i) {
    if (items[i].op != Op::div || !items[items[i].args[1]].is_count()) continue;
    const Item& sum = items[items[i].args[0]];
    const Item& count = items[items[i].args[1]];
    if (maximum_of.contains(items[i].args[0])) continue;  // it goes into an online softmax
    if (!is_reduce(sum, Reducer::sum) || uses[items[i].args[0]] != 1 || count.axes != sum.axes ||
        count.group != sum.group)
      continue;
    const auto it = welfords.find(sum.args[0]);
    if (it == welfords.end()) continue;
    for (NodeId w : it->second)
      if (items[w].axes == sum.axes && items[w].group == sum.group) welford_of[static_cast<NodeId>(i)] = w;
  }
  if (maximum_of.empty() && welford_of.empty()) return false;
  // The mean of no elements is 0 / 0, and a welford's is 0. That matters where the mean is used
  // without those elements.
  std::unordered_set<NodeId> may_be_of_nothing;
  const auto note_use = [&](NodeId mean, Axes by) {
    const auto it = welford_of.find(mean);
    if (it != welford_of.end() && items[it->second].group == 0 && !by.contains(items[it->second].axes))
      may_be_of_nothing.insert(mean);
  };
  for (const Item& user : items)
    for (NodeId a : user.args) note_use(a, user.vary);
  for (const WorkOutput& o : work.outputs) note_use(o.value, items[o.value].vary);

  Rewriter to(work);
  std::unordered_map<NodeId, NodeId> fused;  // old max, or old welford -> the new reduction
  const auto reduce = [&](const Item& like, Reducer reducer) {
    Item r = like;
    r.reducer = reducer;
    r.reduction = ReduceOp::custom;
    return to.add(std::move(r));
  };
  const auto component = [&](NodeId r, int index) {
    Item get;
    get.op = Op::get;
    get.args = {r};
    get.index = index;
    get.type = DType::f32;
    get.vary = to[r].vary;
    get.rows = to[r].rows;
    get.columns = to[r].columns;
    get.origin = to[r].origin;
    return to.add(std::move(get));
  };
  Item item;
  while (to.next(item)) {
    const NodeId old = to.current();
    if (softmax_of.contains(old)) {
      fused[old] = reduce(item, Reducer::online_softmax);
      to.replace(component(fused[old], 0));
    } else if (const auto it = maximum_of.find(old); it != maximum_of.end()) {
      // The sum is NaN where all elements are -inf, as exp(-inf - -inf) is; the sum of no elements
      // is 0.
      const NodeId r = fused.at(it->second), origin = item.origin;
      const NodeId lowest = to.constant(DType::f32, -std::numeric_limits<double>::infinity(), origin);
      const NodeId zero = to.constant(DType::f32, 0, origin);
      const NodeId all_lowest = to.make(Op::eq, DType::boolean, {component(r, 0), lowest}, origin);
      const NodeId some = to.make(Op::gt, DType::boolean, {to.count(item, item.axes, DType::f32), zero}, origin);
      const NodeId undefined = to.make(Op::bit_and, DType::boolean, {all_lowest, some}, origin);
      const NodeId nan = to.constant(DType::f32, std::numeric_limits<double>::quiet_NaN(), origin);
      to.replace(to.make(Op::where, DType::f32, {undefined, nan, component(r, 1)}, origin));
    } else if (const auto w = welford_of.find(old); w != welford_of.end()) {
      const auto [r, first] = fused.emplace(w->second, -1);
      if (first) {
        const Item sum = to[item.args[0]];
        r->second = reduce(sum, Reducer::welford);
      }
      const NodeId of = r->second;
      if (!may_be_of_nothing.contains(old)) {
        to.replace(component(of, 0));
        continue;
      }
      const NodeId zero = to.constant(DType::f32, 0, item.origin);
      const NodeId none = to.make(Op::eq, DType::boolean, {item.args[1], zero}, item.origin);
      const NodeId nan = to.constant(DType::f32, std::numeric_limits<double>::quiet_NaN(), item.origin);
      to.replace(to.make(Op::where, DType::f32, {none, nan, component(of, 0)}, item.origin));
    } else if (is_reduce(item, Reducer::welford)) {
      const auto [r, first] = fused.emplace(old, -1);
      if (!first) {
        to.replace(r->second);
      } else {
        to.keep(std::move(item));
        r->second = to.now(old);
      }
    } else {
      to.keep(std::move(item));
    }
  }
  return to.finish();
}

}  // namespace postlude::inline v0::lower
