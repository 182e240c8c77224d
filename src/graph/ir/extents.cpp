#include "graph/ir/extents.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace postlude::inline v0 {
namespace {

std::optional<Extent> made(std::int64_t times, std::int64_t over, bool exact) {
  if (exact) {
    const std::int64_t d = std::gcd(times, over);
    times /= d;
    over /= d;
  }
  if (times > extent_limit || over > extent_limit) return std::nullopt;
  return Extent{times, over, exact || over == 1};
}

}  // namespace

std::optional<Extent> scaled_by(const Extent& e, std::int64_t num, std::int64_t den) {
  if (num > extent_limit / e.times || den > extent_limit / e.over) return std::nullopt;
  if (e.exact) return made(e.times * num, e.over * den, true);
  const std::int64_t d = std::gcd(e.times * num, den);
  const std::int64_t times = e.times * num / d, rest = den / d;
  if (rest == 1) return made(times, e.over, false);
  if (times == 1) return made(1, e.over * rest, false);
  return std::nullopt;
}

std::optional<Extent> grouped(const Extent& e, std::int64_t group) {
  if (e.times % group == 0) return made(e.times / group, e.over, e.exact);
  if (group % e.times == 0 && group / e.times <= extent_limit / e.over)
    return made(1, e.over * (group / e.times), false);
  return std::nullopt;
}

std::optional<Extent> ungrouped(const Extent& e, std::int64_t group) {
  if (e.over % group == 0) return Extent{e.times, e.over / group, e.exact || e.over == group};
  if (e.times == 1 && group % e.over == 0) return made(group / e.over, 1, true);  // ceil(N/64) by 128: of 2N
  if (group > extent_limit / e.times) return std::nullopt;
  return made(e.times * group, e.over, e.exact);
}

std::string print_extent(const Extent& e, char base) {
  std::string s(1, base);
  if (e.over != 1) s += "/" + std::to_string(e.over);
  if (!e.exact) s = "ceil(" + s + ")";
  return e.times == 1 ? s : std::to_string(e.times) + (e.exact ? "" : "*") + s;
}

namespace {

// The extents along one axis: unknowns in a union-find whose edges are ratios, and links by
// grouping.
class Unknowns {
 public:
  struct Term {  // ratio * variable, or a known extent
    std::int32_t variable = -1;
    std::int64_t num = 1, den = 1;
    Extent known;
  };

  Term fresh() {
    nodes_.push_back({});
    nodes_.back().parent = static_cast<std::int32_t>(nodes_.size()) - 1;
    links_of_.emplace_back();
    return {nodes_.back().parent, 1, 1, {}};
  }

  // The term with what is known of it by now.
  Term resolve(const Term& t) {
    if (t.variable < 0) return t;
    Term r{t.variable, t.num, t.den, {}};
    while (nodes_[r.variable].parent != r.variable) {
      const Node& n = nodes_[r.variable];
      if (!multiply(r, n.num, n.den)) break;
      r.variable = n.parent;
    }
    const std::optional<Term>& solved = nodes_[r.variable].solved;
    if (!solved) return r;
    Term known;
    if (!multiply(r, solved->den, solved->num)) return known;
    if (auto e = scaled_by(solved->known, r.num, r.den)) known.known = *e;
    return known;
  }

  void unify(const Term& a, const Term& b) {
    Term x = resolve(a), y = resolve(b);
    if (x.variable < 0 && y.variable < 0) return;
    if (x.variable < 0) std::swap(x, y);
    if (y.variable < 0) {
      solve(x, y.known);
      return;
    }
    if (x.variable == y.variable) return;
    // x.num/x.den * vx = y.num/y.den * vy
    Term ratio{y.variable, 1, 1, {}};
    if (!multiply(ratio, y.num, y.den) || !multiply(ratio, x.den, x.num)) return;
    std::int32_t child = x.variable, parent = y.variable;
    if (nodes_[child].size > nodes_[parent].size) {
      std::swap(child, parent);
      std::swap(ratio.num, ratio.den);
    }
    nodes_[child].parent = parent;
    nodes_[child].num = ratio.num;
    nodes_[child].den = ratio.den;
    nodes_[parent].size += nodes_[child].size;
    nodes_[parent].counts |= nodes_[child].counts;
    auto& into = links_of_[parent];
    into.insert(into.end(), links_of_[child].begin(), links_of_[child].end());
  }

  // Both as one term. As in the verifier, what either side knows to be exact is exact.
  Term unified(const Term& a, const Term& b) {
    unify(a, b);
    Term r = resolve(a);
    const Term other = resolve(b);
    if (r.variable < 0 && other.variable < 0) r.known.exact |= other.known.exact;
    return r;
  }

  Term scaled(const Term& t, std::int64_t num, std::int64_t den) {
    Term r = resolve(t);
    if (r.variable < 0) {
      if (auto e = scaled_by(r.known, num, den)) r.known = *e;
    } else {
      multiply(r, num, den);
    }
    return r;
  }

  // The term that counts groups of `big`; the inverse is the term whose groups `small` counts.
  Term counting(const Term& big, std::int64_t group) { return linked(big, group, true); }
  Term counted(const Term& small, std::int64_t group) { return linked(small, group, false); }

  // Open terms get the whole axis, in the order of creation, and links are followed as they become
  // known. A term that counts groups of an open one comes last: its other end is more likely to be
  // the whole axis.
  void finish() {
    for (const bool counts_too : {false, true}) {
      for (std::int32_t v = 0; v < static_cast<std::int32_t>(nodes_.size()); ++v) {
        propagate();
        if (nodes_[v].derived) continue;
        const Term t = resolve({v, 1, 1, {}});
        if (t.variable < 0 || (nodes_[t.variable].counts && !counts_too)) continue;
        solve(t, Extent{});
      }
      propagate();
    }
  }

 private:
  struct Node {
    std::int32_t parent = 0;
    std::int64_t num = 1, den = 1;  // this = num/den * parent
    std::int32_t size = 1;
    std::optional<Term> solved;  // num/den * root = known. Half of ceil(N/5), doubled, is no ceil(N/5)
    bool derived = false;        // the other end of a link
    bool counts = false;         // of a root: counts groups
  };
  struct Link {
    Term big, small;
    std::int64_t group;
  };
  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<std::vector<std::int32_t>> links_of_;  // of a root
  std::vector<std::int32_t> pending_;

  static bool multiply(Term& t, std::int64_t num, std::int64_t den) {
    const std::int64_t d1 = std::gcd(t.num, den), d2 = std::gcd(num, t.den);
    const std::int64_t n1 = t.num / d1, n2 = num / d2, e1 = t.den / d2, e2 = den / d1;
    if (n1 > extent_limit / n2 || e1 > extent_limit / e2) return false;
    t.num = n1 * n2;
    t.den = e1 * e2;
    return true;
  }

  void solve(const Term& t, const Extent& e) {
    nodes_[t.variable].solved = Term{-1, t.num, t.den, e};
    pending_.insert(pending_.end(), links_of_[t.variable].begin(), links_of_[t.variable].end());
  }

  Term linked(const Term& from, std::int64_t group, bool from_big) {
    const Term f = resolve(from);
    if (f.variable < 0) {
      Term known;
      if (auto e = from_big ? grouped(f.known, group) : ungrouped(f.known, group)) known.known = *e;
      return known;
    }
    const Term to = fresh();
    nodes_[to.variable].derived = true;
    if (!from_big) nodes_[f.variable].counts = true;
    const auto id = static_cast<std::int32_t>(links_.size());
    links_.push_back({from_big ? f : to, from_big ? to : f, group});
    links_of_[f.variable].push_back(id);
    links_of_[to.variable].push_back(id);
    return to;
  }

  void propagate() {
    while (!pending_.empty()) {
      const Link link = links_[pending_.back()];
      pending_.pop_back();
      const Term big = resolve(link.big), small = resolve(link.small);
      if ((big.variable < 0) == (small.variable < 0)) continue;
      Term known;
      if (auto e = big.variable < 0 ? grouped(big.known, link.group) : ungrouped(small.known, link.group))
        known.known = *e;
      unify(big.variable < 0 ? small : big, known);
    }
  }
};

// The walk over a graph.
class OpenExtents {
 public:
  explicit OpenExtents(const GraphData& graph) : graph_(graph) {}

  std::unordered_map<NodeId, Extents> run() {
    states_.reserve(graph_.nodes.size());
    // Operands come first: a text declares them before anything else, wherever a builder did.
    std::vector<State> of_operand;
    for (const OperandDecl& operand : graph_.operands) of_operand.push_back(open(operand.axes));
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      State s;
      if (node.op == Op::operand) {
        s = of_operand[node.index];
      } else if (is_open(node.op)) {
        s = open(node.op == Op::n_index ? Axes(Axis::n) : node.op == Op::random ? tile_axes : Axes(Axis::m));
      } else if (node.op == Op::acc) {
        s.axes = tile_axes;
      } else {
        for (NodeId a : node.args) meet(s, states_[a]);
        const bool over_n = node.axes.has(Axis::n);
        if (node.op == Op::chunk) s.columns = columns_.scaled(s.columns, 1, std::max(node.pieces, 1));
        if (node.op == Op::concat)
          s.columns = columns_.scaled(s.columns, static_cast<std::int64_t>(node.args.size()), 1);
        if (node.op == Op::repeat && node.group > 0) {
          if (over_n) s.columns = columns_.counted(s.columns, node.group);
          else s.rows = rows_.counted(s.rows, node.group);
        }
        if (node.op == Op::reduce) {
          if (node.group > 0) {
            if (over_n) s.columns = columns_.counting(s.columns, node.group);
            else s.rows = rows_.counting(s.rows, node.group);
          } else {
            s.axes = s.axes - node.axes;
          }
        }
      }
      states_.push_back(s);
    }
    rows_.finish();
    columns_.finish();
    std::unordered_map<NodeId, Extents> result;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!is_open(graph_.nodes[i].op)) continue;
      result[static_cast<NodeId>(i)] = {rows_.resolve(states_[i].rows).known,
                                        columns_.resolve(states_[i].columns).known};
    }
    return result;
  }

 private:
  using Term = Unknowns::Term;
  struct State {
    Axes axes;
    Term rows, columns;
  };
  const GraphData& graph_;
  Unknowns rows_, columns_;
  std::vector<State> states_;

  State open(Axes axes) {
    State s;
    s.axes = axes;
    if (axes.has(Axis::m)) s.rows = rows_.fresh();
    if (axes.has(Axis::n)) s.columns = columns_.fresh();
    return s;
  }

  State& meet(State& into, const State& other) {
    if (other.axes.has(Axis::m)) {
      into.rows = into.axes.has(Axis::m) ? rows_.unified(into.rows, other.rows) : other.rows;
    }
    if (other.axes.has(Axis::n)) {
      into.columns = into.axes.has(Axis::n) ? columns_.unified(into.columns, other.columns) : other.columns;
    }
    into.axes = into.axes | other.axes;
    return into;
  }
};

}  // namespace

bool is_pixel_index(Op op) { return op == Op::z_index || op == Op::p_index || op == Op::q_index; }

Error no_pixels(const GraphData& graph, NodeId node) {
  const Node& asks = graph.nodes[static_cast<std::size_t>(node)];
  return {ErrorCode::unsupported,
          std::string(info(asks.op).id) + "() asks for a pixel, but the rows of this main loop are no pixels",
          "A convolution has pixels, and so has its gradient by x; m_index() counts the rows of any main loop.",
          locate(graph, asks.span)};
}

bool is_open(Op op) {
  return op == Op::operand || op == Op::m_index || op == Op::n_index || op == Op::random || is_pixel_index(op);
}

bool changes_extents(std::span<const Node> nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](const Node& n) {
    return n.op == Op::chunk || n.op == Op::concat || n.op == Op::repeat || (n.op == Op::reduce && n.group > 0);
  });
}

std::unordered_map<NodeId, Extents> open_extents(const GraphData& graph) {
  if (!changes_extents(graph.nodes)) return {};
  return OpenExtents(graph).run();
}

}  // namespace postlude::inline v0
