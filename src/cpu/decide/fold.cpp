#include "cpu/decide/fold.h"

#include "lower/batches.h"

#include <limits>

namespace postlude::inline v0::cpu {
namespace {

// Makes a tensor's batches rows; false: they do not follow each other.
bool join(Placed& placed, bool has_m, std::int64_t m) {
  auto& [batch, row, column] = placed.strides;
  if (!has_m) return batch == 0;
  if (m == 1) row = batch;
  if (batch != m * row) return false;
  batch = 0;
  return true;
}

}  // namespace

Layout folded(const Subject& subject, const Layout& layout) {
  const auto& contraction = subject.contraction;
  const Shape& shape = layout.shape;
  if (!contraction || contraction->a_form != Form::windows || contraction->parts || contraction->groups > 1 ||
      shape.batch <= 1 || shape.m < 1 || shape.batch > std::numeric_limits<std::int32_t>::max() / shape.m ||
      layout.b.strides[0] != 0)
    return layout;
  Layout one = layout;
  one.shape.batch = 1;
  one.shape.m = shape.batch * shape.m;
  if (std::holds_alternative<std::monostate>(one.addressing.a) && !join(one.a, true, shape.m)) return layout;
  for (std::size_t i = 0; i < one.buffers.size(); ++i) {
    const lower::Buffer& buffer = subject.program.buffers[i];
    const bool bound = buffer.kind == lower::BufferKind::operand || buffer.kind == lower::BufferKind::output;
    if (bound && !join(one.buffers[i], buffer.axes.has(Axis::m), shape.m)) return layout;
  }
  return lower::batches_are_alike(subject.program) ? one : layout;
}

}  // namespace postlude::inline v0::cpu
