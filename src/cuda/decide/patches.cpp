#include "cuda/decide/patches.h"

#include <algorithm>

namespace postlude::inline v0::cuda {
namespace {

using lower::Instruction;
using lower::Phase;
using lower::Program;

bool is_own(const lower::Access& access) { return access.columns.identity() && access.divide_rows == 1; }

// Whether an instruction gives the same element wherever that lies.
bool is_alike(const Instruction& i) {
  const bool counts = i.op == Op::m_index || i.op == Op::n_index || i.op == Op::batch_index;
  return !counts && i.op != Op::get && i.op != Op::random && i.round != Round::stochastic && is_own(i.access);
}

// Whether an epilogue is a function of the accumulator and of tiles, element by element.
bool by_elements(const Program& program) {
  if (program.phases.size() != 1 || program.sizes != 0) return false;
  const Phase& phase = program.phases[0];
  return phase.domain == (Axis::m | Axis::n) && phase.reductions.empty() && phase.columns == Extent{} &&
         phase.rows == Extent{} && std::ranges::all_of(phase.code, is_alike) &&
         std::ranges::all_of(phase.stores, [](const lower::Store& store) { return is_own(store.access); }) &&
         std::ranges::all_of(program.buffers, [](const lower::Buffer& buffer) {
           return buffer.rows == Extent{} && buffer.columns == Extent{} &&
                  buffer.axes.has(Axis::m) == buffer.axes.has(Axis::n);
         });
}

bool same(const agreed::WindowAxis& a, const agreed::WindowAxis& b) {
  return a.pixels == b.pixels && a.taps == b.taps && a.first == b.first && a.reach == b.reach;
}

// Whether `other` has what `first` has, `columns` of B further for each pixel of the image.
bool is_beside(const KernelPart& first, const KernelPart& other, std::int64_t columns) {
  for (std::size_t i = 0; i < 3; ++i)
    if (!same(first.a.axis[i], other.a.axis[i]) ||
        (i < 2 && first.scatter.axis[i].first != other.scatter.axis[i].first))
      return false;
  return first.k == other.k && other.b_first - first.b_first == other.scatter.axis[2].first * columns;
}

// Rows that are further apart than the copy engine walks are of an image of which as many lie in each depth.
void count_by_depth(KernelPart& part) {
  constexpr int most_steps = 8;
  auto& [depth, rows, columns] = part.a.axis;
  auto& [outer, place, inner] = part.scatter.axis;
  const bool flat = outer.extent == 1 && depth.extent == 1 && depth.taps == 1 && depth.first == 0;
  if (place.step <= most_steps || place.extent % place.step || rows.taps != 1 || !flat) return;
  outer = {place.pixels, 0, 1, place.pixels}, place = {1, place.first, 1, place.step};
  depth = rows, rows = {1, 1, 1, 0, 1, 1, 0};
}

}  // namespace

std::optional<Layout> by_patches(const Subject& subject, const Layout& layout) {
  const auto gemm = subject.problem.loop().contraction();
  if (!gemm || subject.arch != "sm_90a" || subject.request.mma || layout.parts.empty() || layout.groups.count > 1 ||
      layout.shape.batch != 1 || !by_elements(*subject.program))
    return {};
  const agreed::ScatterAxis& row = layout.parts.front().scatter.axis[2];
  const std::int64_t n = layout.shape.n, pixels = row.step;
  if (pixels < 2 || row.extent % pixels || pixels * n > std::int64_t{1} << 30) return {};
  Layout made = layout;
  for (std::size_t i = 0; i < made.buffers.size(); ++i) {
    if (!subject.program->buffers[i].axes.has(Axis::n)) continue;
    auto& strides = made.buffers[i].strides;
    if (strides[2] != 1 || strides[1] != n) return {};
    strides[1] = pixels * n;
  }
  std::erase_if(made.parts, [](const KernelPart& part) { return part.scatter.axis[2].first != 0; });
  if (made.parts.size() * static_cast<std::size_t>(pixels) != layout.parts.size()) return {};
  for (const KernelPart& part : layout.parts)
    if (part.k == 0 || part.a.axis[2].taps != 1 || std::ranges::none_of(made.parts, [&](const KernelPart& first) {
          return is_beside(first, part, n * layout.b.strides[2]);
        }))
      return {};
  for (KernelPart& part : made.parts) {
    agreed::ScatterAxis& axis = part.scatter.axis[2];
    axis = {axis.pixels, 0, 1, axis.pixels};
    count_by_depth(part);
  }
  made.shape.n = pixels * n, made.shape.m = layout.shape.m / pixels;
  return made;
}

}  // namespace postlude::inline v0::cuda
