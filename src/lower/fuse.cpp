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
  if (is_beside_groups(laid, sum)) m = laid.args[0];
  const Item& maximum = items[m];
  const bool grouped = m != difference.args[1];
  if (!is_reduce(maximum, Reducer::max) || maximum.args[0] != difference.args[0] || maximum.axes != sum.axes ||
      maximum.group != sum.group || grouped != (sum.group > 0))
    return {};
  return m;
}

class Fuser {
 public:
  explicit Fuser(Work& work) : work_(work), items_(work.items), to_(work) {}

  bool run() {
    find_softmaxes();
    find_means();
    if (maximum_of_.empty() && welford_of_.empty()) return false;
    find_means_of_nothing();
    Item item;
    while (to_.next(item)) {
      const NodeId old = to_.current();
      if (softmax_of_.contains(old)) maximum(item, old);
      else if (const auto it = maximum_of_.find(old); it != maximum_of_.end()) sum(item, it->second);
      else if (const auto w = welford_of_.find(old); w != welford_of_.end()) mean(item, old, w->second);
      else if (is_reduce(item, Reducer::welford)) welford(std::move(item), old);
      else to_.keep(std::move(item));
    }
    return to_.finish();
  }

 private:
  Work& work_;
  const std::vector<Item>& items_;
  Rewriter to_;
  std::unordered_map<NodeId, NodeId> maximum_of_;             // sum of exp -> its max
  std::unordered_map<NodeId, NodeId> softmax_of_;             // max -> the first such sum
  std::unordered_map<NodeId, std::vector<NodeId>> welfords_;  // x -> its welfords
  std::unordered_map<NodeId, NodeId> welford_of_;             // mean -> welford
  std::unordered_set<NodeId> may_be_of_nothing_;              // means
  std::unordered_map<NodeId, NodeId> fused_;                  // old max, or old welford -> the new reduction

  void find_softmaxes() {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const auto id = static_cast<NodeId>(i);
      if (const auto m = softmax_maximum(items_, items_[i])) {
        maximum_of_[id] = *m;
        softmax_of_.emplace(*m, id);
      }
      if (is_reduce(items_[i], Reducer::welford)) welfords_[items_[i].args[0]].push_back(id);
    }
  }

  // The means beside a welford. A sum that is used for itself stays: it may be exact, which count *
  // mean is not.
  void find_means() {
    const std::vector<std::int32_t> uses = work_.uses();
    for (std::size_t i = 0; i < items_.size() && !welfords_.empty(); ++i) {
      if (items_[i].op != Op::div || !items_[items_[i].args[1]].is_count()) continue;
      const Item& sum = items_[items_[i].args[0]];
      const Item& count = items_[items_[i].args[1]];
      if (maximum_of_.contains(items_[i].args[0])) continue;  // it goes into an online softmax
      if (!is_reduce(sum, Reducer::sum) || uses[items_[i].args[0]] != 1 || count.axes != sum.axes ||
          count.group != sum.group)
        continue;
      const auto it = welfords_.find(sum.args[0]);
      if (it == welfords_.end()) continue;
      for (NodeId w : it->second)
        if (items_[w].axes == sum.axes && items_[w].group == sum.group) welford_of_[static_cast<NodeId>(i)] = w;
    }
  }

  // The mean of no elements is 0 / 0, and a welford's is 0. That matters where the mean is used
  // without those elements.
  void find_means_of_nothing() {
    const auto note_use = [&](NodeId mean, Axes by) {
      const auto it = welford_of_.find(mean);
      if (it != welford_of_.end() && items_[it->second].group == 0 && !by.contains(items_[it->second].axes))
        may_be_of_nothing_.insert(mean);
    };
    for (const Item& user : items_)
      for (NodeId a : user.args) note_use(a, user.vary);
    for (const WorkOutput& o : work_.outputs) note_use(o.value, items_[o.value].vary);
  }

  NodeId reduce(const Item& like, Reducer reducer) {
    Item r = like;
    r.reducer = reducer;
    r.reduction = ReduceOp::custom;
    return to_.add(std::move(r));
  }

  void maximum(const Item& item, NodeId old) {
    fused_[old] = reduce(item, Reducer::online_softmax);
    to_.replace(to_.component(fused_[old], 0, DType::f32));
  }

  // The sum is NaN where all elements are -inf, as exp(-inf - -inf) is; the sum of no elements is 0.
  void sum(const Item& item, NodeId its_maximum) {
    const NodeId r = fused_.at(its_maximum), origin = item.origin;
    const NodeId lowest = to_.constant(DType::f32, -std::numeric_limits<double>::infinity(), origin);
    const NodeId zero = to_.constant(DType::f32, 0, origin);
    const NodeId all_lowest = to_.make(Op::eq, DType::boolean, {to_.component(r, 0, DType::f32), lowest}, origin);
    const NodeId some = to_.make(Op::gt, DType::boolean, {to_.count(item, item.axes, DType::f32), zero}, origin);
    const NodeId undefined = to_.make(Op::bit_and, DType::boolean, {all_lowest, some}, origin);
    const NodeId nan = to_.constant(DType::f32, std::numeric_limits<double>::quiet_NaN(), origin);
    to_.replace(to_.make(Op::where, DType::f32, {undefined, nan, to_.component(r, 1, DType::f32)}, origin));
  }

  void mean(const Item& item, NodeId old, NodeId its_welford) {
    const auto [r, first] = fused_.emplace(its_welford, -1);
    if (first) {
      const Item sum = to_[item.args[0]];
      r->second = reduce(sum, Reducer::welford);
    }
    const NodeId of = r->second;
    if (!may_be_of_nothing_.contains(old)) {
      to_.replace(to_.component(of, 0, DType::f32));
      return;
    }
    const NodeId zero = to_.constant(DType::f32, 0, item.origin);
    const NodeId none = to_.make(Op::eq, DType::boolean, {item.args[1], zero}, item.origin);
    const NodeId nan = to_.constant(DType::f32, std::numeric_limits<double>::quiet_NaN(), item.origin);
    to_.replace(to_.make(Op::where, DType::f32, {none, nan, to_.component(of, 0, DType::f32)}, item.origin));
  }

  void welford(Item item, NodeId old) {
    const auto [r, first] = fused_.emplace(old, -1);
    if (!first) {
      to_.replace(r->second);
      return;
    }
    to_.keep(std::move(item));
    r->second = to_.now(old);
  }
};

}  // namespace

bool fuse(Work& work) { return Fuser(work).run(); }

}  // namespace postlude::inline v0::lower
