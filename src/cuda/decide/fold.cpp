#include "cuda/decide/fold.h"

#include "lower/batches.h"

namespace postlude::inline v0::cuda {
namespace {

using lower::Program;

// The strides of a tensor whose images' rows follow each other; false: they do not.
bool join(Placed& placed, bool has_m, std::int64_t images, std::int64_t m) {
  auto& [batch, row, column] = placed.strides;
  if (images == 1) return true;
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
  if (!contraction || contraction->a_form != Form::windows || shape.batch < 1 || shape.m < 1) return {};
  if (shape.batch == 1 && layout.parts.empty()) return {};
  if (shape.batch > most / shape.m) return {};
  Layout one = layout;
  one.one = true, one.shape.batch = 1, one.shape.m = shape.batch * shape.m;
  if (std::holds_alternative<std::monostate>(one.a_rows) && one.parts.empty() &&
      !join(one.a, true, shape.batch, shape.m))
    return {};
  if (one.b.strides[0] != 0) return {};
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const bool has_m = program.buffers[i].axes.has(Axis::m);
    if (i < one.buffers.size() && !join(one.buffers[i], has_m, shape.batch, shape.m)) return {};
  }
  // Rows are counted within an image again where nothing else tells images apart; those of a residue lie apart.
  if (!lower::batches_are_alike(program, layout.parts.empty())) return {};
  if (lower::asks_for_rows(program)) one.image_rows = shape.m;
  return one;
}

}  // namespace postlude::inline v0::cuda
