#include "cuda/decide/turn.h"

#include "cuda/choose/fragment_plan.h"

#include <algorithm>
#include <utility>

namespace postlude::inline v0::cuda {
namespace {

using lower::Instruction;
using lower::Phase;
using lower::Program;

constexpr std::int64_t element_bytes = 2;  // of A and B

Axes turned(Axes axes) {
  Axes result = axes & Axis::b;
  if (axes.has(Axis::m)) result = result | Axis::n;
  if (axes.has(Axis::n)) result = result | Axis::m;
  return result;
}

constexpr int most_below = 4;  // of a chunk: as many blocks of 64 rows of a consumer

// Groups behind pieces are not turned, nor what counts the elements of several.
bool turns(const lower::Reduction& r) {
  const bool whole =
      std::ranges::all_of(r.pieces, [](const lower::Reduction::Piece& piece) { return piece.columns.identity(); });
  return whole || (r.group == 0 && r.axes.has(Axis::n) && r.reducer != lower::Reducer::welford);
}

bool turns(const Phase& phase) {
  const bool pieces = has_pieces(phase);
  return std::ranges::all_of(phase.reductions,
                             [&](const lower::Reduction& r) { return turns(r) && !(pieces && r.group); }) &&
         std::ranges::none_of(phase.code, [&](const Instruction& i) {
           return i.access.columns.steps.size() > 1 || (i.op == Op::get && pieces && i.group);
         });
}

void turn(lower::Access& access) {
  std::swap(access.columns.divide, access.divide_rows);
  std::swap(access.columns.steps, access.row_steps);
}

void turn(Phase& phase) {
  phase.domain = turned(phase.domain);
  std::swap(phase.rows, phase.columns);
  for (lower::Store& store : phase.stores) turn(store.access);
  for (lower::Reduction& r : phase.reductions) {
    r.axes = turned(r.axes);
    for (lower::Reduction::Piece& piece : r.pieces) piece.columns = {};
  }
  for (Instruction& i : phase.code) {
    i.axes = turned(i.axes), i.count_axes = turned(i.count_axes);
    std::swap(i.rows, i.columns);
    turn(i.access);
    i.turned = true;
    if (i.op == Op::m_index) i.op = Op::n_index;
    else if (i.op == Op::n_index) i.op = Op::m_index;
  }
}

// Rows as columns, columns as rows, in all that a Program says of them.
std::shared_ptr<const Program> turned(const Program& program) {
  if (program.sizes != 0 || !std::ranges::all_of(program.phases, [](const Phase& phase) { return turns(phase); }))
    return {};
  auto made = std::make_shared<Program>(program);
  for (lower::Buffer& buffer : made->buffers) {
    buffer.axes = turned(buffer.axes);
    std::swap(buffer.rows, buffer.columns);
  }
  std::ranges::for_each(made->phases, [](Phase& phase) { turn(phase); });
  return made;
}

// The one that runs behind the main loop; null: none does.
const Phase* product_phase(const Program& program) {
  const auto found = std::ranges::find_if(program.phases, [](const Phase& phase) {
    return phase.domain == (Axis::m | Axis::n) && phase.reads_accumulator();
  });
  return found == program.phases.end() ? nullptr : &*found;
}

// Whether the copy engine moves boxes of such lines.
bool in_boxes(const Placed& placed, std::int64_t size, int line, int element_axis, std::int64_t length) {
  const auto& strides = placed.strides;
  return placed.alignment == 16 && strides[element_axis] == 1 && strides[line] * size % 16 == 0 && strides[line] > 0 &&
         strides[0] * size % 16 == 0 && length * size % 16 == 0;
}

// Why a main loop's product is not that of the other's rows; empty: it may be.
std::string not_of_rows(const Subject& subject, const Layout& layout) {
  const auto gemm = subject.problem.loop().contraction();
  const Shape& shape = layout.shape;
  if (!gemm) return "a stream has no product";
  if (subject.arch != "sm_90a" || subject.request.mma) return "the portable kernel turns none";
  if (gemm->a_form != Form::strided || gemm->b_form != Form::strided || gemm->groups != 1 || layout.image_rows != 0)
    return "a convolution's rows are pixels, and stay rows";
  if (gemm->a != gemm->b || size_of(gemm->a) != element_bytes) return "A and B have to be of one type of 16 bits";
  const auto read = [](const Placed& placed, int line, std::int64_t lines, std::int64_t k) {
    return in_boxes(placed, element_bytes, line, 3 - line, k) || in_boxes(placed, element_bytes, 3 - line, line, lines);
  };
  if (!read(layout.a, 1, shape.m, shape.k)) return "rows of A, or its columns, have to be of whole 16 bytes";
  if (!read(layout.b, 2, shape.n, shape.k)) return "rows of B, or its columns, have to be of whole 16 bytes";
  return {};
}

// Why the pieces of a chunk do not lie below each other: along N they begin at 16 bytes, and 64 columns of B lie side
// by side.
std::string not_below(const Phase& phase, const Layout& layout) {
  const Shape& shape = layout.shape;
  if (!chunks_rows(phase)) return {};
  const int parts = accumulator_parts(phase);
  if (parts > most_below) return "a chunk has at most " + std::to_string(most_below) + " pieces below each other";
  if (shape.n % parts != 0) return "N is no multiple of a chunk's pieces";
  if (in_boxes(layout.b, element_bytes, 2, 1, shape.k)) return {};
  if (accumulator_piece(phase) % 64 != 0 || phase.rows.at(shape.n) % 8 != 0)
    return "a chunk's pieces of a B along N have to begin at 16 bytes, and to have 64 columns side by side";
  return {};
}

}  // namespace

bool has_pieces(const Phase& phase) {
  const auto chunked = [](const lower::Access& access) { return !access.columns.steps.empty(); };
  return std::ranges::any_of(phase.code, [&](const Instruction& i) { return chunked(i.access); }) ||
         std::ranges::any_of(phase.stores, [&](const lower::Store& store) { return chunked(store.access); });
}

std::optional<Restated> turned(const Subject& subject, const Layout& layout, std::string& why) {
  const Shape& shape = layout.shape;
  const auto not_turned = [&](std::string reason) { return why = std::move(reason), std::nullopt; };
  if (std::string reason = not_of_rows(subject, layout); !reason.empty()) return not_turned(std::move(reason));
  std::shared_ptr<const Program> program = turned(*subject.program);
  if (!program) return not_turned("groups behind a chunk are not turned");
  const Phase* const phase = product_phase(*program);
  if (!phase) return not_turned("no phase reads the accumulator");
  if (std::string reason = not_below(*phase, layout); !reason.empty()) return not_turned(std::move(reason));
  const std::int64_t rows = phase->rows.at(shape.n);
  for (std::size_t i = 0; i < layout.buffers.size(); ++i) {
    const lower::Buffer& buffer = program->buffers[i];
    const bool tile = buffer.axes.contains(Axis::m | Axis::n) && buffer.rows.exact && buffer.columns == Extent{} &&
                      buffer.rows.at(shape.n) % rows == 0;
    const std::int64_t size = size_of(buffer.dtype);
    if (tile && (size > 4 || !in_boxes(layout.buffers[i], size, 1, 2, rows)))
      return not_turned("elements of " + postlude::quoted(buffer.name) +
                        " have to be of at most 32 bits, and its rows of whole 16 bytes");
  }
  Restated made{subject, layout};
  made.subject.given = std::exchange(made.subject.program, std::move(program));
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
