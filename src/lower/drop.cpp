#include "lower/drop.h"

namespace postlude::inline v0::lower {
namespace {

constexpr std::size_t most_notes = 20;

}  // namespace

bool drop(Work& work) {
  std::vector<char> live(work.items.size(), 0);
  for (const WorkOutput& o : work.outputs) live[o.value] = 1;
  for (std::size_t i = work.items.size(); i-- > 0;)
    if (live[i])
      for (NodeId a : work.items[i].args) live[a] = 1;
  Rewriter to(work);
  Item item;
  bool changed = false;
  while (to.next(item)) {
    if (live[to.current()]) {
      to.keep(std::move(item));
    } else {
      to.replace(-1);
      changed = true;
    }
  }
  to.finish();
  return changed;
}

void note_unneeded(Work& work) {
  const GraphData& graph = *work.graph;
  std::vector<char> live(graph.nodes.size(), 0);
  for (const OutputDecl& o : graph.outputs) live[o.value] = 1;
  for (std::size_t i = graph.nodes.size(); i-- > 0;)
    if (live[i])
      for (NodeId a : graph.nodes[i].args) live[a] = 1;
  std::vector<char> read(graph.operands.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (live[i] && graph.nodes[i].op == Op::operand) read[graph.nodes[i].index] = 1;
  std::size_t more = 0;
  const auto note = [&](std::string text) {
    if (work.notes.size() < most_notes) work.notes.push_back(std::move(text));
    else ++more;
  };
  for (std::size_t i = 0; i < read.size(); ++i)
    if (!read[i]) note("no output needs the operand " + quoted(graph.operands[i].name) + "; it is not read");
  for (std::size_t i = 0; i < live.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (live[i] || node.name.empty() || node.op == Op::operand || node.op == Op::acc) continue;
    note("no output needs " + quoted(node.name) + "; it is not computed");
  }
  if (more) work.notes.push_back("no output needs " + std::to_string(more) + " more values");
}

}  // namespace postlude::inline v0::lower
