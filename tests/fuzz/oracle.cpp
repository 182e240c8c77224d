#include "fuzz/oracle.h"

#include "cpu/isa.h"
#include "graph/ir/equal.h"
#include "graph/ir/verify.h"
#include "graph/text/printer.h"

#include <postlude/parse.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace postlude::fuzz {

namespace {

using reference::Evaluation;

std::string describe(const Comparison& c, const Tensors& tensors) {
  std::ostringstream out;
  for (const CaseTensor& t : tensors.all)
    if (t.name == c.output) out << name(t.dtype) << ' ';
  out.precision(9);
  out << "output " << c.output << " [b=" << c.worst[0] << ", m=" << c.worst[1] << ", n=" << c.worst[2] << "] is "
      << c.value << " where " << c.expected << " is expected, error / bound " << c.error_over_bound << ", bound "
      << c.bound;
  return out.str();
}

// The arguments of commutative operations exchanged, and every second use of a shared elementwise
// value given a copy of its own.
GraphData rearranged(const GraphData& graph) {
  GraphData result = graph;
  result.nodes.clear();
  std::vector<NodeId> moved(graph.nodes.size(), -1), copy(graph.nodes.size(), -1);
  std::vector<bool> used(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node node = graph.nodes[i];
    for (NodeId& a : node.args) {
      const auto arg = static_cast<std::size_t>(a);
      const Node& source = graph.nodes[arg];
      const bool copied = used[arg] && is_elementwise(source.op) && source.op != Op::scaled;
      used[arg] = true;
      a = moved[arg];
      if (!copied) continue;
      if (copy[arg] < 0) {
        result.nodes.push_back(result.nodes[static_cast<std::size_t>(moved[arg])]);
        copy[arg] = static_cast<NodeId>(result.nodes.size()) - 1;
      }
      a = copy[arg];
    }
    if (is_commutative(node.op) && node.args.size() == 2) std::swap(node.args[0], node.args[1]);
    moved[i] = static_cast<NodeId>(result.nodes.size());
    result.nodes.push_back(std::move(node));
  }
  for (OutputDecl& o : result.outputs) o.value = moved[static_cast<std::size_t>(o.value)];
  return result;
}

// Whether no row depends on another: then the first rows of a larger problem are the smaller
// problem.
bool rows_independent(const GraphData& graph) {
  return std::none_of(graph.nodes.begin(), graph.nodes.end(),
                      [](const Node& n) { return (n.op == Op::reduce || n.op == Op::repeat) && n.axes.has(Axis::m); });
}

// A larger case whose first rows, or images, are the smaller one's; none where its results would be others.
std::optional<Case> enlarged(const Case& c) {
  const auto more = 1 + static_cast<std::int64_t>(c.data % 7);
  Case larger = c;
  if (!c.conv) {
    if (!rows_independent(c.graph) || c.shape.m == 0) return {};
    larger.shape.m += more;
    return larger;
  }
  Convolution conv = *c.conv;
  if (is_batched(c.problem)) {
    if (std::ranges::any_of(c.graph.nodes, [](const Node& n) { return n.op == Op::reduce && n.axes.has(Axis::b); }))
      return {};
    conv.images += more;
  } else {
    if (!rows_independent(c.graph) || conv.groups > 1) return {};  // of groups only the last may be larger
    conv.filters += more;
  }
  set_convolution(larger, conv);
  return larger;
}

// The rows of `small` out of `large`, which has more: inputs there, outputs back.
void exchange_rows(const Tensors& from, Tensors& to, bool outputs) {
  for (std::size_t i = 0; i < from.all.size(); ++i) {
    const CaseTensor &x = from.all[i], &y = to.all[i];
    if (x.output != outputs) continue;
    const std::int64_t size = size_of(x.dtype);
    CaseTensor common = x;
    for (std::size_t axis = 0; axis < common.extents.size(); ++axis)
      common.extents[axis] = std::min(x.extents[axis], y.extents[axis]);
    for_elements(common, [&](const std::array<std::int64_t, 5>& at) {
      std::copy_n(from.memory[i].data() + x.at(at) * size, size, to.memory[i].data() + y.at(at) * size);
    });
  }
}

}  // namespace

std::string compare(const Evaluation& expected, const Case& c, const Tensors& tensors, const std::string& where) {
  for (const Comparison& x : reference::compare(expected, c.graph, tensors.bindings))
    if (!(x.error_over_bound <= 1)) return where + ": " + describe(x, tensors);
  return "";
}

std::vector<std::string> machine_isas() {
  std::vector<std::string> result;
  for (int i = 0; i <= static_cast<int>(cpu::machine_isa()); ++i)
    result.emplace_back(cpu::name(static_cast<cpu::Isa>(i)));
  return result;
}

Runs run_plan(const Case& c, Tensors& tensors, const Target& target) {
  const Plan plan = compile(c.problem, Graph(std::make_shared<const GraphData>(c.graph)), target);
  Call call = plan.bind(tensors.named());
  Runs runs;
  for (auto* copy : {&runs.first, &runs.second}) {
    tensors.poison_outputs();
    call.run();
    *copy = tensors.copy_outputs();
  }
  return runs;
}

std::string check(const Case& c, const Checks& checks) {
#if defined(__GLIBC__)
  mallopt(M_PERTURB, 1);  // fresh memory holds 0xfe: what is read before it is written is never right by chance
#endif
  if (checks.round_trip) {
    const std::string text = print(c.graph);
    try {
      const Graph again = parse(text);
      if (!same(c.graph, again.data())) return "parses back to another graph:\n" + again.print();
    } catch (const Error& e) { return std::string("does not parse back: ") + e.what(); }
  }
  Tensors tensors = materialise(c);
  checks.prepare(tensors);
  const Evaluation expected = reference::evaluate(c.graph, c.problem, tensors.bindings);
  const auto isas = checks.isas.empty() ? machine_isas() : checks.isas;
  const auto target_of = [](int threads, const std::string& isa) {
    Target target = Target::cpu(threads);
    target.isa = isa;
    return target;
  };
  try {
    for (const std::string& isa : isas) {
      std::vector<std::vector<std::uint8_t>> bits;
      for (const int threads : checks.threads) {
        const std::string where = isa + ", " + std::to_string(threads) + " threads";
        const Runs runs = checks.runner(c, tensors, target_of(threads, isa));
        if (std::string wrong = tensors.damage(); !wrong.empty()) return where + ": " + wrong;
        if (std::string wrong = compare(expected, c, tensors, where); !wrong.empty()) return wrong;
        if (runs.first != runs.second) return where + ": the second run gives other bits";
        if (!bits.empty() && bits != runs.first)
          return where + ": other bits than with " + std::to_string(checks.threads[0]) + " threads";
        bits = runs.first;
      }
    }
    if (!checks.metamorphic) return "";
    const Target target = target_of(checks.threads.back(), isas.back());
    {
      Case other = c;
      other.graph = rearranged(c.graph);
      (void)checks.runner(other, tensors, target);
      if (std::string wrong = compare(expected, c, tensors, "with arguments exchanged and values copied");
          !wrong.empty())
        return wrong;
    }
    if (const std::optional<Case> larger = enlarged(c)) {
      Tensors more = materialise(*larger);
      exchange_rows(tensors, more, false);
      (void)checks.runner(*larger, more, target);
      tensors.poison_outputs();
      exchange_rows(more, tensors, true);
      if (std::string wrong = compare(expected, c, tensors, "as the first rows of a larger problem"); !wrong.empty())
        return wrong;
    }
  } catch (const Error& e) { return std::string("throws ") + e.what(); }
  return "";
}

Coverage coverage(const Case& c) {
  Coverage result;
  Tensors tensors = materialise(c);
  for (const reference::Output& o : reference::evaluate(c.graph, c.problem, tensors.bindings)) {
    for (const reference::Cell& x : o.cells) {
      ++result.elements;
      if (is_float(o.dtype)) {
        result.unchecked += is_anything(x.real);
        result.nan += is_nan(x.real);
        result.exact += is_point(x.real);
      } else {
        const reference::Whole all = reference::anything(0, o.dtype);
        result.unchecked += x.whole.low == all.low && x.whole.high == all.high;
        result.exact += is_point(x.whole);
      }
    }
  }
  return result;
}

}  // namespace postlude::fuzz
