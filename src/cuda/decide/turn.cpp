#include "cuda/decide/turn.h"

#include <algorithm>
#include <utility>

namespace postlude::inline v0::cuda {
namespace {

using lower::Instruction;
using lower::Phase;
using lower::Program;

constexpr std::int64_t element_bytes = 2;  // of all that moves by tiles

Axes turned(Axes axes) {
  Axes result = axes & Axis::b;
  if (axes.has(Axis::m)) result = result | Axis::n;
  if (axes.has(Axis::n)) result = result | Axis::m;
  return result;
}

bool is_own(const lower::Access& access) { return access.columns.identity() && access.divide_rows == 1; }

// Whether an instruction gives the same element when rows and columns have changed places.
bool turns(const Instruction& i) {
  return i.op != Op::get && i.op != Op::random && i.round != Round::stochastic && is_own(i.access);
}

// One phase over the tiles, element by element.
std::shared_ptr<const Program> turned(const Program& program) {
  if (program.phases.size() != 1 || program.sizes != 0) return {};
  const Phase& phase = program.phases[0];
  if (phase.domain != (Axis::m | Axis::n) || !phase.reductions.empty() || phase.columns != Extent{} ||
      phase.rows != Extent{} || !std::ranges::all_of(phase.code, turns) ||
      !std::ranges::all_of(phase.stores, [](const lower::Store& store) { return is_own(store.access); }))
    return {};
  auto made = std::make_shared<Program>(program);
  for (lower::Buffer& buffer : made->buffers) {
    if (buffer.rows != Extent{} || buffer.columns != Extent{}) return {};
    buffer.axes = turned(buffer.axes);
  }
  for (Instruction& i : made->phases[0].code) {
    i.axes = turned(i.axes);
    if (i.op == Op::m_index) i.op = Op::n_index;
    else if (i.op == Op::n_index) i.op = Op::m_index;
  }
  return made;
}

// Whether the copy engine moves boxes of such lines.
bool in_boxes(const Placed& placed, int line, int element_axis, std::int64_t length) {
  const auto& strides = placed.strides;
  return placed.alignment == 16 && strides[element_axis] == 1 && strides[line] * element_bytes % 16 == 0 &&
         strides[line] > 0 && strides[0] * element_bytes % 16 == 0 && length * element_bytes % 16 == 0;
}

}  // namespace

std::optional<Turned> turned(const Subject& subject, const Layout& layout) {
  const auto gemm = subject.problem.loop().contraction();
  const Shape& shape = layout.shape;
  const Request& request = subject.request;
  if (subject.arch != "sm_90a" || request.mma || request.through_memory || !gemm || gemm->a != gemm->b ||
      size_of(gemm->a) != element_bytes || gemm->a_form != Form::strided || gemm->b_form != Form::strided ||
      gemm->groups != 1 || shape.m == 0 || shape.n == 0 || shape.k == 0)
    return {};
  const auto read = [](const Placed& placed, int line, std::int64_t lines, std::int64_t k) {
    return in_boxes(placed, line, 3 - line, k) || in_boxes(placed, 3 - line, line, lines);
  };
  if (!read(layout.a, 1, shape.m, shape.k) || !read(layout.b, 2, shape.n, shape.k)) return {};
  std::shared_ptr<const Program> program = turned(*subject.program);
  if (!program) return {};
  for (std::size_t i = 0; i < layout.buffers.size(); ++i) {
    const lower::Buffer& buffer = program->buffers[i];
    const bool tile = buffer.axes.has(Axis::m) && buffer.axes.has(Axis::n);
    if (tile && (size_of(buffer.dtype) != element_bytes || !in_boxes(layout.buffers[i], 1, 2, shape.n))) return {};
  }
  Turned made{subject, layout};
  made.subject.program = std::move(program);
  Layout& l = made.layout;
  l.turned = true;
  std::swap(l.shape.m, l.shape.n), std::swap(l.a, l.b);
  for (Placed* placed : {&l.a, &l.b}) std::swap(placed->strides[1], placed->strides[2]);
  for (Placed& placed : l.buffers) std::swap(placed.strides[1], placed.strides[2]);
  return made;
}

void turn_back(Decision& decision) {
  decision.turned = true;
  const auto exchange = [](Address& address) {
    if (address.of == Address::Of::a) address.of = Address::Of::b;
    else if (address.of == Address::Of::b) address.of = Address::Of::a;
  };
  for (Kernel& kernel : decision.kernels) {
    for (AddressField& field : kernel.addresses) exchange(field.address);
    for (MapField& field : kernel.maps) exchange(field.address);
  }
}

}  // namespace postlude::inline v0::cuda
