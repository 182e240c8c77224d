#include "cuda/decide/fold.h"

#include <algorithm>

namespace postlude::inline v0::cuda {
namespace {

using lower::BufferKind;
using lower::Phase;
using lower::Program;

// Whether code asks where an element is, or draws by that.
bool tells_places(const std::vector<Node>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) {
    return node.op == Op::m_index || node.op == Op::batch_index || node.op == Op::random ||
           node.round == Round::stochastic || (node.function && tells_places(node.function->body.nodes));
  });
}

bool tells_places(const lower::Instruction& x) {
  return x.op == Op::m_index || x.op == Op::batch_index || x.op == Op::random ||
         (x.op == Op::cast && x.round == Round::stochastic) || x.access.divide_rows != 1 ||
         (x.function && tells_places(x.function->body.nodes)) ||
         (x.op == Op::get && x.count_axes.has(Axis::m) != x.count_axes.has(Axis::b));
}

// Whether a phase is over all rows of all images, or over none.
bool foldable(const Phase& phase) {
  return phase.batched == phase.domain.has(Axis::m) && (!phase.batched || phase.rows == Extent{}) &&
         std::none_of(phase.code.begin(), phase.code.end(), [](const auto& x) { return tells_places(x); }) &&
         std::all_of(phase.stores.begin(), phase.stores.end(),
                     [](const auto& s) { return s.access.divide_rows == 1; }) &&
         std::all_of(phase.reductions.begin(), phase.reductions.end(), [&](const lower::Reduction& r) {
           const bool over_m = r.axes.has(Axis::m);
           return (!phase.batched || over_m == r.axes.has(Axis::b)) && !(over_m && r.group);
         });
}

// The strides of a tensor whose images' rows follow each other; false: they do not.
bool join(Placed& placed, bool has_m, std::int64_t m) {
  auto& [batch, row, column] = placed.strides;
  if (!has_m) return batch == 0;
  if (m == 1) row = batch;
  if (batch != m * row) return false;
  batch = 0;
  return true;
}

}  // namespace

std::optional<Layout> folded(const Subject& subject, const Layout& layout) {
  const Program& program = *subject.program;
  const auto contraction = subject.problem.loop().contraction();
  const Shape& shape = layout.shape;
  constexpr std::int64_t most = (std::int64_t{1} << 30) - 1;
  if (!contraction || contraction->a_form != Form::windows || shape.batch <= 1 || shape.m < 1) return {};
  if (shape.batch > most / shape.m) return {};
  Layout one = layout;
  one.shape.batch = 1, one.shape.m = shape.batch * shape.m;
  if (std::holds_alternative<std::monostate>(one.a_rows) && !join(one.a, true, shape.m)) return {};
  if (one.b.strides[0] != 0) return {};
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const lower::Buffer& buffer = program.buffers[i];
    const bool has_m = buffer.axes.has(Axis::m);
    if (has_m && !(buffer.rows == Extent{})) return {};
    if (i < one.buffers.size() ? !join(one.buffers[i], has_m, shape.m) : has_m != buffer.axes.has(Axis::b)) return {};
  }
  if (!std::all_of(program.phases.begin(), program.phases.end(), foldable)) return {};
  return one;
}

}  // namespace postlude::inline v0::cuda
