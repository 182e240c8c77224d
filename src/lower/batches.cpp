#include "lower/batches.h"

#include <algorithm>

namespace postlude::inline v0::lower {
namespace {

// Whether code asks where an element is, or draws by that.
bool tells_places(const std::vector<Node>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) {
    return node.op == Op::m_index || node.op == Op::batch_index || node.op == Op::random ||
           node.round == Round::stochastic || (node.function && tells_places(node.function->body.nodes));
  });
}

bool tells_places(const Instruction& x, bool counts_rows) {
  return (x.op == Op::m_index && !counts_rows) || x.op == Op::batch_index || x.op == Op::random ||
         (x.op == Op::cast && x.round == Round::stochastic) || x.access.divide_rows != 1 ||
         (x.function && tells_places(x.function->body.nodes)) ||
         (x.op == Op::get && x.count_axes.has(Axis::m) != x.count_axes.has(Axis::b));
}

// Whether a phase is over all rows of all batches, or over none.
bool alike(const Phase& phase, bool counts_rows) {
  return phase.batched == phase.domain.has(Axis::m) && (!phase.batched || phase.rows == Extent{}) &&
         std::none_of(phase.code.begin(), phase.code.end(),
                      [&](const auto& x) { return tells_places(x, counts_rows); }) &&
         std::all_of(phase.stores.begin(), phase.stores.end(),
                     [](const auto& s) { return s.access.divide_rows == 1; }) &&
         std::all_of(phase.reductions.begin(), phase.reductions.end(), [&](const Reduction& r) {
           const bool over_m = r.axes.has(Axis::m);
           return (!phase.batched || over_m == r.axes.has(Axis::b)) && !(over_m && r.group);
         });
}

}  // namespace

bool batches_are_alike(const Program& program, bool counts_rows) {
  return std::all_of(program.phases.begin(), program.phases.end(),
                     [&](const Phase& p) { return alike(p, counts_rows); }) &&
         std::all_of(program.buffers.begin(), program.buffers.end(), [](const Buffer& buffer) {
           if (buffer.axes.has(Axis::m) && !(buffer.rows == Extent{})) return false;
           const bool bound = buffer.kind == BufferKind::operand || buffer.kind == BufferKind::output;
           return bound || buffer.axes.has(Axis::m) == buffer.axes.has(Axis::b);
         });
}

bool asks_for_rows(const Program& program) {
  return std::any_of(program.phases.begin(), program.phases.end(), [](const Phase& phase) {
    return std::any_of(phase.code.begin(), phase.code.end(), [](const auto& x) { return x.op == Op::m_index; });
  });
}

}  // namespace postlude::inline v0::lower
