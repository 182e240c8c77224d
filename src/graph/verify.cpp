#include "graph/verify.h"

#include "graph/source.h"

#include "graph/typing.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

// Extents are inferred in two walks. In the first, the extents that a graph leaves open (operands and coordinates) are
// unknowns; where two values meet their extents are equal, a chunk divides by k, a concat multiplies, and grouping links
// two extents by small = ceil(big / group). What is still open after that is M x N, taken in node order. The second walk
// computes everything with those extents known and is the one that complains.

namespace postlude::inline v0 {
namespace {

constexpr std::int64_t extent_limit = std::int64_t{1} << 40;

// ---- extents ---------------------------------------------------------------------------------------------------------

std::optional<Extent> made(std::int64_t times, std::int64_t over, bool exact) {
  if (exact) {
    const std::int64_t d = std::gcd(times, over);
    times /= d;
    over /= d;
  }
  if (times > extent_limit || over > extent_limit) return std::nullopt;
  return Extent{times, over, exact || over == 1};
}

// extent * num / den, where den divides it by promise.
std::optional<Extent> scaled_by(const Extent& e, std::int64_t num, std::int64_t den) {
  if (num > extent_limit / e.times || den > extent_limit / e.over) return std::nullopt;
  if (e.exact) return made(e.times * num, e.over * den, true);
  const std::int64_t d = std::gcd(e.times * num, den);
  const std::int64_t times = e.times * num / d, rest = den / d;
  if (rest == 1) return made(times, e.over, false);
  if (times == 1) return made(1, e.over * rest, false);
  return std::nullopt;
}

// ceil(extent / group).
std::optional<Extent> grouped(const Extent& e, std::int64_t group) {
  if (e.times % group == 0) return made(e.times / group, e.over, e.exact);
  if (group % e.times == 0 && group / e.times <= extent_limit / e.over)
    return made(1, e.over * (group / e.times), false);
  return std::nullopt;
}

// The extent whose groups `e` counts.
std::optional<Extent> ungrouped(const Extent& e, std::int64_t group) {
  if (e.over % group == 0) return Extent{e.times, e.over / group, e.exact || e.over == group};
  if (group > extent_limit / e.times) return std::nullopt;
  return made(e.times * group, e.over, e.exact);
}

// ceil(N/2) and N/2 are the same number where a chunk promises that 2 divides N.
bool same(const Extent& a, const Extent& b) { return a.times == b.times && a.over == b.over; }

std::string text(const Extent& e, char base) {
  std::string s(1, base);
  if (e.over != 1) s += "/" + std::to_string(e.over);
  if (!e.exact) s = "ceil(" + s + ")";
  return e.times == 1 ? s : std::to_string(e.times) + (e.exact ? "" : "*") + s;
}

std::string text(const ValueInfo& v) {
  return (v.axes.has(Axis::m) ? text(v.rows, 'M') : "1") + " x " + (v.axes.has(Axis::n) ? text(v.columns, 'N') : "1");
}

// ---- the first walk --------------------------------------------------------------------------------------------------

// Along one axis: unknowns in a union-find whose edges are ratios, and links by grouping.
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

  // What is known of a term by now.
  Term resolve(const Term& t) {
    if (t.variable < 0) return t;
    Term r{t.variable, t.num, t.den, {}};
    while (nodes_[r.variable].parent != r.variable) {
      const Node& n = nodes_[r.variable];
      if (!multiply(r, n.num, n.den)) break;
      r.variable = n.parent;
    }
    const Node& root = nodes_[r.variable];
    if (!root.solved) return r;
    Term known;
    if (auto e = scaled_by(*root.solved, r.num, r.den)) known.known = *e;
    return known;
  }

  void unify(const Term& a, const Term& b) {
    Term x = resolve(a), y = resolve(b);
    if (x.variable < 0 && y.variable < 0) return;
    if (x.variable < 0) std::swap(x, y);
    if (y.variable < 0) {
      if (auto e = scaled_by(y.known, x.den, x.num)) solve(x.variable, *e);
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

  Term scaled(const Term& t, std::int64_t num, std::int64_t den) {
    Term r = resolve(t);
    if (r.variable < 0) {
      if (auto e = scaled_by(r.known, num, den)) r.known = *e;
    } else {
      multiply(r, num, den);
    }
    return r;
  }

  // The term that counts groups of `big`; or, inverse, that `small` counts the groups of.
  Term counting(const Term& big, std::int64_t group) { return linked(big, group, true); }
  Term counted(const Term& small, std::int64_t group) { return linked(small, group, false); }

  // Gives what is open the whole axis, in the order of creation, following links as they become known. What counts
  // groups of something open comes last: its other end is more likely to be the whole axis.
  void finish() {
    for (const bool counts_too : {false, true}) {
      for (std::int32_t v = 0; v < static_cast<std::int32_t>(nodes_.size()); ++v) {
        propagate();
        if (nodes_[v].derived) continue;
        const Term t = resolve({v, 1, 1, {}});
        if (t.variable < 0 || (nodes_[t.variable].counts && !counts_too)) continue;
        if (auto e = scaled_by(Extent{}, t.den, t.num)) solve(t.variable, *e);
      }
      propagate();
    }
  }

 private:
  struct Node {
    std::int32_t parent = 0;
    std::int64_t num = 1, den = 1;  // this = num/den * parent
    std::int32_t size = 1;
    std::optional<Extent> solved;   // of a root
    bool derived = false;           // the other end of a link
    bool counts = false;            // of a root: counts groups
  };
  struct Link { Term big, small; std::int64_t group; };
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

  void solve(std::int32_t root, const Extent& e) {
    nodes_[root].solved = e;
    pending_.insert(pending_.end(), links_of_[root].begin(), links_of_[root].end());
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
      if (auto e = big.variable < 0 ? grouped(big.known, link.group) : ungrouped(small.known, link.group)) known.known = *e;
      unify(big.variable < 0 ? small : big, known);
    }
  }
};

bool open_extents(Op op) { return op == Op::operand || op == Op::m_index || op == Op::n_index || op == Op::random; }

class OpenExtents {  // the first walk over a graph
 public:
  struct Pair { Extent rows, columns; };

  // Of every node of open extents, by node; empty if nothing in the graph changes an extent.
  static std::unordered_map<NodeId, Pair> solve(const GraphData& graph) {
    const bool needed = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) {
      return n.op == Op::chunk || n.op == Op::concat || n.op == Op::repeat || (n.op == Op::reduce && n.group > 0);
    });
    if (!needed) return {};
    return OpenExtents(graph).run();
  }

 private:
  using Term = Unknowns::Term;
  struct State { Axes axes; Term rows, columns; };
  const GraphData& graph_;
  Unknowns rows_, columns_;
  std::vector<State> states_;

  explicit OpenExtents(const GraphData& graph) : graph_(graph) {}

  State& meet(State& into, const State& other) {
    if (other.axes.has(Axis::m)) {
      if (into.axes.has(Axis::m)) rows_.unify(into.rows, other.rows); else into.rows = other.rows;
    }
    if (other.axes.has(Axis::n)) {
      if (into.axes.has(Axis::n)) columns_.unify(into.columns, other.columns); else into.columns = other.columns;
    }
    into.axes = into.axes | other.axes;
    return into;
  }

  std::unordered_map<NodeId, Pair> run() {
    states_.reserve(graph_.nodes.size());
    std::vector<std::int32_t> of_operand(graph_.operands.size(), -1);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      State s;
      if (node.op == Op::operand && of_operand[node.index] >= 0) {
        s = states_[of_operand[node.index]];
      } else if (open_extents(node.op)) {
        if (node.op == Op::operand) of_operand[node.index] = static_cast<std::int32_t>(i);
        s.axes = node.op == Op::operand ? graph_.operands[node.index].axes
                 : node.op == Op::m_index ? Axes(Axis::m) : node.op == Op::n_index ? Axes(Axis::n) : tile_axes;
        if (s.axes.has(Axis::m)) s.rows = rows_.fresh();
        if (s.axes.has(Axis::n)) s.columns = columns_.fresh();
      } else if (node.op == Op::acc) {
        s.axes = tile_axes;
      } else {
        for (NodeId a : node.args) meet(s, states_[a]);
        const bool over_n = node.axes.has(Axis::n);
        if (node.op == Op::chunk) s.columns = columns_.scaled(s.columns, 1, std::max(node.pieces, 1));
        if (node.op == Op::concat) s.columns = columns_.scaled(s.columns, static_cast<std::int64_t>(node.args.size()), 1);
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
    std::unordered_map<NodeId, Pair> result;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!open_extents(graph_.nodes[i].op)) continue;
      result[static_cast<NodeId>(i)] = {rows_.resolve(states_[i].rows).known, columns_.resolve(states_[i].columns).known};
    }
    return result;
  }
};

// ---- the second walk -------------------------------------------------------------------------------------------------

class Verifier {
 public:
  Verifier(const GraphData& graph, std::optional<DType> accumulator, std::optional<DType> operand_default)
      : graph_(graph), accumulator_(accumulator), operand_default_(operand_default.value_or(DType::f32)) {}

  Inference run() {
    names();
    check_bodies();
    open_ = OpenExtents::solve(graph_);
    const std::size_t n = graph_.nodes.size();
    result_.values.reserve(n);
    types_.reserve(n);
    depends_.reserve(n);
    result_.operand_rows.resize(graph_.operands.size());
    result_.operand_columns.resize(graph_.operands.size());
    for (std::size_t i = 0; i < n; ++i) visit(static_cast<NodeId>(i));
    outputs();
    return std::move(result_);
  }

 private:
  const GraphData& graph_;
  std::optional<DType> accumulator_;
  DType operand_default_;
  Inference result_;
  Typing typing_;
  std::vector<TypeState> types_;                     // one a node
  std::unordered_map<NodeId, std::vector<TypeState>> components_;  // of general reductions
  std::vector<char> depends_;                        // on an operand, an axis or the accumulator
  std::unordered_map<NodeId, OpenExtents::Pair> open_;
  std::vector<TypeState> args_;

  [[noreturn]] void fail(ErrorCode code, std::string message, std::string hint, const Span& span) const {
    throw Error(code, std::move(message), std::move(hint), locate(graph_, span));
  }
  [[noreturn]] void fail(ErrorCode code, std::string message, std::string hint, NodeId id) const {
    fail(code, std::move(message), std::move(hint), graph_.nodes[id].span);
  }

  // "'up' (M x N/2)", or "M x N/2" where the value has no name.
  std::string named(NodeId id) const {
    const Node& node = graph_.nodes[id];
    const std::string_view name = node.op == Op::operand ? std::string_view(graph_.operands[node.index].name) : node.name;
    const std::string shape = text(result_.values[id]);
    return name.empty() ? shape : quoted(name) + " (" + shape + ")";
  }

  // ---- names
  void names() const {
    std::unordered_map<std::string_view, bool> seen;  // name -> is an operand
    const auto check = [&](const std::string& name, bool operand, const Span& span) {
      const std::string what = operand ? "an operand" : "an output";
      if (!is_name(name)) check_name(name, what, locate(graph_, span));
      if (name == "A" || name == "B" || name == "X" || name == "acc")
        fail(ErrorCode::bad_name, quoted(name) + " cannot name " + what,
             name == "acc" ? "it is the accumulator" : "A, B and X are the main loop's operands", span);
      const auto [it, fresh] = seen.emplace(name, operand);
      if (fresh) return;
      if (it->second != operand)
        fail(ErrorCode::duplicate_name, "the output " + quoted(name) + " is named like an operand",
             "both are bound by name; rename one", span);
      fail(ErrorCode::duplicate_name, "two " + std::string(operand ? "operands" : "outputs") + " are named " + quoted(name),
           "rename one", span);
    };
    for (const OperandDecl& o : graph_.operands) {
      check(o.name, true, o.span);
      if (o.axes.has(Axis::b) || o.axes.bits > 7)
        fail(ErrorCode::bad_attribute, "operand " + quoted(o.name) + " has an axis that cannot be declared",
             "an operand is a tile, row, col or scalar; its batch axis depends on what is bound", o.span);
    }
    for (const OutputDecl& o : graph_.outputs) check(o.name, false, o.span);
  }

  // ---- bodies: what a function or a combiner is made of
  void check_body(const Lambda& body, std::size_t results, ErrorCode code, const std::string& what, const Span& span) const {
    const auto refuse = [&](const std::string& why) { fail(code, what + " " + why, "", span); };
    if (body.results.size() != results)
      refuse("gives " + std::to_string(body.results.size()) + " values, not " + std::to_string(results));
    for (NodeId r : body.results)
      if (r < 0 || r >= static_cast<NodeId>(body.nodes.size())) refuse("has a result that is not defined");
    for (std::size_t i = 0; i < body.nodes.size(); ++i) {
      const Node& n = body.nodes[i];
      if (n.op == Op::parameter) {
        if (n.index < 0 || n.index >= body.parameters) refuse("uses a parameter that it does not have");
        continue;
      }
      if (n.op == Op::call ? n.function == nullptr : n.op != Op::constant && !is_elementwise(n.op))
        refuse("contains '" + std::string(info(n.op).id) + "', which is not elementwise");
      if (n.op != Op::call && info(n.op).arity != static_cast<int>(n.args.size()))
        refuse("applies '" + std::string(info(n.op).id) + "' to a wrong number of values");
      for (NodeId a : n.args)
        if (a < 0 || a >= static_cast<NodeId>(i)) refuse("uses a value before it is defined");
      if (n.op == Op::call && n.args.size() != n.function->parameters.size())
        refuse("calls " + quoted(n.function->name) + " with " + std::to_string(n.args.size()) + " arguments");
    }
  }

  void check_bodies() const {
    std::unordered_set<const Function*> seen;
    std::vector<std::pair<const Function*, Span>> pending;
    const auto add_calls = [&](const std::vector<Node>& nodes, const Span* span) {
      for (const Node& n : nodes)
        if (n.op == Op::call && n.function && seen.insert(n.function.get()).second)
          pending.emplace_back(n.function.get(), span ? *span : n.span);
    };
    add_calls(graph_.nodes, nullptr);
    for (const Node& n : graph_.nodes)
      if (n.op == Op::reduce && n.combine) add_calls(n.combine->nodes, &n.span);
    while (!pending.empty()) {
      const auto [f, span] = pending.back();
      pending.pop_back();
      const std::string what = "function " + quoted(f->name);
      if (f->body.nodes.empty() && !f->native) fail(ErrorCode::bad_function, what + " has no definition", "", span);
      if (f->body.nodes.empty()) continue;
      if (f->body.parameters != static_cast<std::int32_t>(f->parameters.size()))
        fail(ErrorCode::bad_function, what + " has a body of other parameters", "", span);
      check_body(f->body, 1, ErrorCode::bad_function, what, span);
      add_calls(f->body.nodes, &span);
    }
  }

  // ---- nodes
  void visit(NodeId id) {
    const Node& node = graph_.nodes[id];
    const int arity = info(node.op).arity;
    if (arity >= 0 && arity != static_cast<int>(node.args.size()))
      fail(ErrorCode::bad_call, "'" + std::string(info(node.op).id) + "' takes " + std::to_string(arity) + " values, not " +
           std::to_string(node.args.size()), "", id);
    args_.clear();
    bool depends = false;
    for (NodeId a : node.args) {
      if (a < 0 || a >= id) fail(ErrorCode::internal, "a node uses one that comes after it", "", id);
      if (graph_.nodes[a].op == Op::reduce && graph_.nodes[a].reduction == ReduceOp::custom && node.op != Op::get)
        fail(ErrorCode::internal, "a general reduction is used without saying which of its results", "", id);
      args_.push_back(types_[a]);
      depends |= depends_[a] != 0;
    }
    result_.values.emplace_back();
    types_.emplace_back();
    if (is_elementwise(node.op) || node.op == Op::call) {
      elementwise(id);
    } else if (node.op == Op::reduce) {
      reduce(id);
    } else if (node.args.empty()) {
      depends = leaf(id);
    } else {
      shape(id);
    }
    depends_.push_back(depends);
    ValueInfo& v = result_.values[id];
    v.type = types_[id].type;
    v.literal = types_[id].literal;
  }

  bool leaf(NodeId id) {
    const Node& node = graph_.nodes[id];
    ValueInfo& v = result_.values[id];
    TypeState& t = types_[id];
    if (auto it = open_.find(id); it != open_.end()) {
      v.rows = it->second.rows;
      v.columns = it->second.columns;
    }
    switch (node.op) {
      case Op::constant: t = literal_type(node.literal); return false;
      case Op::acc:
        t.type = accumulator_;
        v.axes = Axis::b | tile_axes;
        return true;
      case Op::operand: {
        if (node.index < 0 || node.index >= static_cast<std::int32_t>(graph_.operands.size()))
          fail(ErrorCode::internal, "a node reads an operand that is not declared", "", id);
        const OperandDecl& o = graph_.operands[node.index];
        t.type = compute_type(o.dtype.value_or(o.axes.empty() ? DType::f32 : operand_default_));
        v.axes = Axis::b | o.axes;
        result_.operand_rows[node.index] = v.rows;
        result_.operand_columns[node.index] = v.columns;
        return true;
      }
      case Op::m_index: t.type = DType::i32; v.axes = Axis::m; return true;
      case Op::n_index: t.type = DType::i32; v.axes = Axis::n; return true;
      case Op::batch_index: t.type = DType::i32; v.axes = Axis::b; return true;
      case Op::random: t.type = DType::f32; v.axes = Axis::b | tile_axes; return true;
      default: fail(ErrorCode::internal, "'" + std::string(info(node.op).id) + "' cannot stand in a graph", "", id);
    }
  }

  // Broadcasts the arguments; the result's axes and extents.
  void meet(NodeId id) {
    const Node& node = graph_.nodes[id];
    ValueInfo& v = result_.values[id];
    NodeId rows_from = -1, columns_from = -1;
    for (NodeId a : node.args) {
      const ValueInfo& x = result_.values[a];
      if (x.axes.has(Axis::m)) {
        if (rows_from < 0) {
          v.rows = x.rows;
          rows_from = a;
        } else if (!same(v.rows, x.rows)) {
          unequal(id, rows_from, a);
        }
        v.rows.exact |= x.rows.exact;
      }
      if (x.axes.has(Axis::n)) {
        if (columns_from < 0) {
          v.columns = x.columns;
          columns_from = a;
        } else if (!same(v.columns, x.columns)) {
          unequal(id, columns_from, a);
        }
        v.columns.exact |= x.columns.exact;
      }
      v.axes = v.axes | x.axes;
    }
  }

  [[noreturn]] void unequal(NodeId id, NodeId a, NodeId b) const {
    const Node& node = graph_.nodes[id];
    const std::string op = node.op == Op::call ? node.function->name : std::string(info(node.op).spelling);
    fail(ErrorCode::extent_mismatch, "'" + op + "' of unequal extents: " + named(a) + " against " + named(b),
         "chunk divides the columns, a grouped reduction leaves one value a group; repeat(x, group) lays such a value back",
         id);
  }

  void elementwise(NodeId id) {
    const Node& node = graph_.nodes[id];
    if (node.op == Op::call) {
      if (!node.function) fail(ErrorCode::internal, "a call without a function", "", id);
      if (node.args.size() != node.function->parameters.size())
        fail(ErrorCode::bad_call, quoted(node.function->name) + " takes " + std::to_string(node.function->parameters.size()) +
             " arguments, not " + std::to_string(node.args.size()), "", id);
      for (std::size_t p = native_arity(*node.function); p < node.args.size(); ++p) {
        if (!result_.values[node.args[p]].axes.has(Axis::m) && !result_.values[node.args[p]].axes.has(Axis::n)) continue;
        fail(ErrorCode::bad_call, "the parameter " + quoted(node.function->parameters[p].name) + " of " +
             quoted(node.function->name) + " must be a scalar, not " + text(result_.values[node.args[p]]), "", id);
      }
    }
    if (node.op == Op::scaled && !(result_.values[node.args[0]].axes & tile_axes).empty())
      fail(ErrorCode::extent_mismatch, "the factor of scaled must be a scalar, not " + text(result_.values[node.args[0]]),
           "whether x is read is decided once for all elements; use '*'", id);
    if (node.op == Op::cast && node.round == Round::stochastic && !is_float(node.dtype))
      fail(ErrorCode::bad_attribute, "stochastic rounding to " + std::string(postlude::name(node.dtype)),
           "it is for floating-point dtypes", id);
    meet(id);
    try {
      types_[id] = typing_.infer(node, args_);
    } catch (const Error& e) {
      fail(e.code(), e.message(), e.hint(), id);
    }
  }

  static std::size_t native_arity(const Function& f) {
    return f.native ? static_cast<std::size_t>(f.native->arity) : f.parameters.size();
  }

  void shape(NodeId id) {
    const Node& node = graph_.nodes[id];
    const std::string what(info(node.op).spelling);
    if (node.op == Op::get) {
      const auto it = components_.find(node.args[0]);
      if (it == components_.end() || node.index < 0 || node.index >= static_cast<std::int32_t>(it->second.size()))
        fail(ErrorCode::internal, "a result that its reduction does not have", "", id);
      result_.values[id] = result_.values[node.args[0]];
      types_[id] = it->second[node.index];
      return;
    }
    if (node.group < 0 || node.group > extent_limit)
      fail(ErrorCode::bad_attribute, what + " with group=" + std::to_string(node.group), "a group is a positive number of columns", id);
    meet(id);
    ValueInfo& v = result_.values[id];
    const Axis axis = node.op == Op::repeat && !node.axes.has(Axis::n) ? Axis::m : Axis::n;
    for (NodeId a : node.args) {
      if (result_.values[a].axes.has(axis)) continue;
      fail(ErrorCode::missing_axis, what + " of a value that has no " + (axis == Axis::n ? "columns" : "rows") + ": " + named(a), "", id);
    }
    std::optional<Extent> changed;
    const std::int64_t k = node.op == Op::chunk ? node.pieces : static_cast<std::int64_t>(node.args.size());
    if (node.op == Op::chunk) {
      if (k < 1 || node.index < 0 || node.index >= k)
        fail(ErrorCode::bad_attribute, "chunk into " + std::to_string(k) + " pieces", "it needs at least one", id);
      types_[id] = types_[node.args[0]];
      changed = scaled_by(v.columns, 1, k);
    } else if (node.op == Op::concat) {
      if (k < 1) fail(ErrorCode::bad_attribute, "concat of nothing", "give it at least one value", id);
      types_[id] = std::all_of(args_.begin(), args_.end(), [](const TypeState& t) { return t.type == DType::boolean; })
                       ? TypeState{DType::boolean, false, false}
                       : promote(args_);
      types_[id].literal = false;
      changed = scaled_by(v.columns, k, 1);
    } else {
      if (node.group < 1 || (node.axes != Axes(Axis::n) && node.axes != Axes(Axis::m)))
        fail(ErrorCode::bad_attribute, "repeat with group=" + std::to_string(node.group), "it needs a positive group and one axis", id);
      types_[id] = types_[node.args[0]];
      types_[id].literal = false;
      changed = ungrouped(axis == Axis::n ? v.columns : v.rows, node.group);
    }
    if (node.op != Op::repeat && node.group > 0 && node.group % k != 0)
      fail(ErrorCode::bad_attribute, what + " of groups of " + std::to_string(node.group) + " columns in " + std::to_string(k) + " pieces",
           "the number of pieces must divide the group", id);
    if (!changed)
      fail(ErrorCode::bad_attribute, what + " makes an extent out of " + text(v) + " that cannot be expressed", "", id);
    const Extent before = v.columns;
    (axis == Axis::n ? v.columns : v.rows) = *changed;
    if (node.op == Op::chunk) promise(before, node.group > 0 ? node.group : k, id);
    if (node.op == Op::concat && node.group > 0) promise(before, node.group / k, id);
  }

  void promise(const Extent& columns, std::int64_t divisor, NodeId id) {
    if (divisor == 1) return;
    const auto equal = [&](const Divisibility& d) { return d.columns == columns && d.divisor == divisor; };
    if (std::none_of(result_.divisibility.begin(), result_.divisibility.end(), equal))
      result_.divisibility.push_back({columns, divisor, id});
  }

  void reduce(NodeId id) {
    const Node& node = graph_.nodes[id];
    const std::string what(info(node.reduction).spelling);
    const bool custom = node.reduction == ReduceOp::custom;
    if (node.args.empty() || (!custom && node.args.size() != 1))
      fail(ErrorCode::bad_call, what + " of " + std::to_string(node.args.size()) + " values", "", id);
    if (node.axes.empty() || node.axes.bits > 7)
      fail(ErrorCode::bad_attribute, what + " over no axis", "axis is 0, 1 or both", id);
    if (node.group < 0 || node.group > extent_limit)
      fail(ErrorCode::bad_attribute, what + " with group=" + std::to_string(node.group), "a group is a positive number of columns or rows", id);
    const Axes spatial = node.axes & tile_axes;
    if (node.group > 0 && spatial != Axes(Axis::m) && spatial != Axes(Axis::n))
      fail(ErrorCode::bad_attribute, what + " with a group over two axes", "say axis=0 (groups of rows) or axis=1 (groups of columns)", id);
    meet(id);
    ValueInfo& v = result_.values[id];
    for (const Axis axis : {Axis::m, Axis::n, Axis::b}) {
      if (!node.axes.has(axis) || v.axes.has(axis)) continue;
      const char* over = axis == Axis::m ? "axis=0 (the rows)" : axis == Axis::n ? "axis=1 (the columns)" : "the batch";
      const Axes left = v.axes & tile_axes;
      fail(ErrorCode::missing_axis, what + " over " + over + " of a value that does not vary along it: " + named(node.args[0]),
           left == Axes(Axis::m) ? "reduce it with axis=0" : left == Axes(Axis::n) ? "reduce it with axis=1" : "", id);
    }
    if (node.group > 0) {
      Extent& e = spatial.has(Axis::n) ? v.columns : v.rows;
      const auto count = grouped(e, node.group);
      if (!count)
        fail(ErrorCode::bad_attribute, what + " in groups of " + std::to_string(node.group) + " of " + text(v),
             "the group must divide, or be divided by, the factor of the extent", id);
      e = *count;
      v.axes = v.axes - (node.axes - spatial);
    } else {
      v.axes = v.axes - node.axes;
    }
    if (!v.axes.has(Axis::m)) v.rows = {};
    if (!v.axes.has(Axis::n)) v.columns = {};
    types_[id] = reduction_type(id);
  }

  TypeState reduction_type(NodeId id) {
    const Node& node = graph_.nodes[id];
    TypeState x = promote(std::span(args_).first(1));
    x.literal = false;
    switch (node.reduction) {
      case ReduceOp::sum:
      case ReduceOp::prod:
        if (x.type && x.type != DType::f32) x.type = DType::i64;
        return x;  // unset for the accumulator: f32 or i64
      case ReduceOp::max:
      case ReduceOp::min: return x;
      case ReduceOp::any:
      case ReduceOp::all: return {DType::boolean, false, false};
      case ReduceOp::argmax:
      case ReduceOp::argmin: return {DType::i64, false, false};
      case ReduceOp::mean:
      case ReduceOp::logsumexp:
      case ReduceOp::var:
      case ReduceOp::norm: return {DType::f32, false, false};
      case ReduceOp::custom: break;
    }
    const std::size_t k = node.args.size();
    const Span& span = node.span;
    if (!node.combine) fail(ErrorCode::bad_combiner, "reduce without a combiner", "", id);
    if (node.combine->parameters != static_cast<std::int32_t>(2 * k))
      fail(ErrorCode::bad_combiner, "the combiner of " + std::to_string(k) + " values takes " + std::to_string(node.combine->parameters) +
           " parameters", "it takes " + std::to_string(2 * k) + ": a1, ..., b1, ...", id);
    if (node.identity.size() != k)
      fail(ErrorCode::bad_combiner, "reduce of " + std::to_string(k) + " values with " + std::to_string(node.identity.size()) + " identities",
           "give one a value", id);
    check_body(*node.combine, k, ErrorCode::bad_combiner, "the combiner", span);
    std::vector<TypeState> values;
    for (const TypeState& a : args_)
      values.push_back(a.type == DType::boolean ? TypeState{DType::boolean, false, false} : TypeState{promote({&a, 1}).type, false, false});
    std::vector<TypeState> parameters = values;
    parameters.insert(parameters.end(), values.begin(), values.end());
    std::vector<TypeState> body;
    try {
      body = typing_.infer_body(*node.combine, parameters);
    } catch (const Error& e) {
      fail(ErrorCode::bad_combiner, "in the combiner: " + e.message(), e.hint(), id);
    }
    for (std::size_t i = 0; i < k; ++i) {
      const TypeState& r = body[node.combine->results[i]];
      const bool yields = r.literal && r.type != DType::boolean && values[i].type != DType::boolean &&
                          !(r.type == DType::f32 && values[i].type && values[i].type != DType::f32);
      const bool open = !values[i].type && r.type != DType::boolean;  // the accumulator's type may be right
      if (yields || !r.type || open || r.type == values[i].type) continue;
      fail(ErrorCode::bad_combiner, "result " + std::to_string(i + 1) + " of the combiner is " + std::string(postlude::name(*r.type)) +
           " where the value is " + (values[i].type ? std::string(postlude::name(*values[i].type)) : "a number"),
           "cast the value or the result", id);
    }
    components_[id] = values;
    return values[0];
  }

  // ---- outputs
  static std::string class_name(Axes axes) {
    axes = axes & tile_axes;
    return axes == tile_axes ? "tile" : axes == row_axes ? "row" : axes == col_axes ? "col" : "scalar";
  }

  void outputs() const {
    if (graph_.outputs.empty())
      throw Error(ErrorCode::no_output, "the epilogue " + quoted(graph_.name) + " has no output",
                  "return a value", locate(graph_, graph_.nodes.empty() ? Span{} : graph_.nodes.back().span));
    for (const OutputDecl& o : graph_.outputs) {
      if (o.value < 0 || o.value >= static_cast<NodeId>(graph_.nodes.size()) ||
          (graph_.nodes[o.value].op == Op::reduce && graph_.nodes[o.value].reduction == ReduceOp::custom))
        fail(ErrorCode::internal, "output " + quoted(o.name) + " has no value", "", o.span);
      const ValueInfo& v = result_.values[o.value];
      if (!depends_[o.value])
        fail(ErrorCode::constant_output, "output " + quoted(o.name) + " is a constant",
             "it depends on no operand, no index and not on acc; compute it outside", o.span);
      if (o.axes && *o.axes != (v.axes & tile_axes))
        fail(ErrorCode::output_axes, "output " + quoted(o.name) + " is declared " + class_name(*o.axes) + " but its value is " +
             class_name(v.axes) + " (" + text(v) + ")",
             "declare what it is, or reduce it", o.span);
    }
  }
};

}  // namespace

Inference verify(const GraphData& graph, std::optional<DType> accumulator, std::optional<DType> operand_default) {
  return Verifier(graph, accumulator, operand_default).run();
}

}  // namespace postlude::inline v0
