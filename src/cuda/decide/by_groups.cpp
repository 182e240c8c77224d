#include "cuda/decide/by_groups.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace postlude::inline v0::cuda {
namespace {

using lower::Access;
using lower::Buffer;
using lower::BufferKind;
using lower::Instruction;
using lower::Phase;
using lower::Program;
using lower::Reduction;

constexpr Axes over_tiles = Axis::m | Axis::n;

// Rewrites a Program, as long as nothing asks which group it is in.
class Splitter {
 public:
  explicit Splitter(const Program& program) : made_(program) {}

  // Columns of a group; 0: the Program's reductions are not all in groups of one size.
  [[nodiscard]] std::int64_t group() const {
    std::int64_t found = 0;
    for (const Phase& phase : made_.phases)
      for (const Reduction& r : phase.reductions) {
        const bool one = r.axes == Axes(Axis::n) && r.group > 0 && (found == 0 || found == r.group) &&
                         r.pieces.size() == 1 && r.pieces[0].columns.identity();
        if (!one) return 0;
        found = r.group;
      }
    return found;
  }

  std::shared_ptr<const Program> run() {
    group_ = group();
    if (group_ == 0 || made_.batched || made_.sizes != 0) return {};
    for (const Buffer& buffer : made_.buffers) {
      const bool rows = !buffer.axes.has(Axis::m) || buffer.rows == Extent{};
      if (!rows || (buffer.axes.has(Axis::n) && !is_whole(buffer.columns) && !is_divided(buffer.columns))) return {};
    }
    if (!std::ranges::all_of(made_.phases, [&](Phase& phase) { return split(phase); })) return {};
    for (Buffer& buffer : made_.buffers) {
      if (!buffer.axes.has(Axis::n)) continue;
      if (is_divided(buffer.columns)) buffer.axes = buffer.axes & Axis::m, buffer.columns = {};
      buffer.axes = buffer.axes | Axis::b;
    }
    made_.batched = true;
    return std::make_shared<const Program>(std::move(made_));
  }

 private:
  static bool is_whole(const Extent& columns) { return columns == Extent{}; }
  [[nodiscard]] bool is_divided(const Extent& columns) const { return columns.times == 1 && columns.over == group_; }

  // Of the group's own column, or of the group.
  bool split(Access& access, bool divided) const {
    const Buffer& buffer = made_.buffers[access.buffer];
    if (access.divide_rows != 1 || !access.row_steps.empty() || !access.columns.steps.empty()) return false;
    const std::int64_t divide = std::exchange(access.columns.divide, 1);
    if (!buffer.axes.has(Axis::n)) return divide == 1;
    return is_divided(buffer.columns) ? divide == (divided ? 1 : group_) : !divided && divide == 1;
  }

  bool split(Instruction& i, const std::vector<Instruction>& before, bool divided) const {
    Axes axes;
    i.batched = false;
    for (const lower::ValueId arg : i.args) axes = axes | before[arg].axes, i.batched |= before[arg].batched;
    switch (i.op) {
      case Op::n_index:
      case Op::batch_index:
      case Op::random: return false;
      case Op::acc:
        if (divided || !i.access.columns.identity() || i.access.divide_rows != 1) return false;
        axes = over_tiles, i.batched = true;
        break;
      case Op::m_index: axes = Axis::m; break;
      case Op::operand: {
        const Buffer& buffer = made_.buffers[i.access.buffer];
        if (!split(i.access, divided)) return false;
        axes = is_divided(buffer.columns) ? buffer.axes & Axis::m : buffer.axes & over_tiles;
        i.batched = buffer.axes.has(Axis::n);
        break;
      }
      case Op::get:
        if (i.count_axes != Axes(Axis::n) || i.group != group_ || !is_whole(i.columns)) return false;
        i.group = 0, i.access.columns = {};
        break;
      default: break;
    }
    if (i.op == Op::cast && i.round == Round::stochastic) return false;
    i.axes = axes;
    return true;
  }

  bool split(Phase& phase) const {
    const bool divided = is_divided(phase.columns);
    if (phase.domain != over_tiles || !(phase.rows == Extent{}) || !(divided || is_whole(phase.columns))) return false;
    for (Instruction& i : phase.code)
      if (!split(i, phase.code, divided)) return false;
    for (lower::Store& store : phase.stores)
      if (!split(store.access, divided)) return false;
    for (Reduction& r : phase.reductions) r.group = 0;
    if (divided) phase.domain = Axis::m, phase.columns = {};
    phase.batched = true;
    return true;
  }

  Program made_;
  std::int64_t group_ = 0;
};

}  // namespace

std::optional<Restated> by_groups(const Subject& subject, const Layout& layout, std::string& why) {
  constexpr std::int64_t most = 65535;  // batches of a launch
  const auto no = [&](const char* reason) { return why = reason, std::nullopt; };
  const auto gemm = subject.problem.loop().contraction();
  if (gemm && (gemm->a_form != Form::strided || gemm->b_form != Form::strided || gemm->groups != 1))
    return no("a convolution's columns stay together");
  Splitter splitter(*subject.program);
  const std::int64_t group = splitter.group();
  if (group == 0) return no("not all of its statistics are of groups of columns of one size");
  const Shape& shape = layout.shape;
  if (shape.batch != 1 || shape.n % group != 0 || shape.n / group > most)
    return no("it is a batch already, or its groups are not whole, or too many");
  std::shared_ptr<const Program> program = splitter.run();
  if (!program) return no("it asks for its column or an index in its row, or draws, or takes pieces of a chunk");
  Restated made{subject, layout};
  made.subject.program = std::move(program);
  Layout& l = made.layout;
  l.shape.batch = shape.n / group, l.shape.n = group;
  Placed& columns = gemm ? l.b : l.a;
  if (gemm) l.a.strides[0] = 0;
  columns.strides[0] = group * columns.strides[2];
  for (std::size_t i = 0; i < l.buffers.size(); ++i) {
    const Buffer& buffer = subject.program->buffers[i];
    Placed& placed = l.buffers[i];
    if (placed.by_value || !buffer.axes.has(Axis::n)) continue;
    const bool divided = !(buffer.columns == Extent{});
    placed.strides[0] = placed.strides[2] * (divided ? 1 : group);
    if (divided) placed.strides[2] = 0;
  }
  return made;
}

}  // namespace postlude::inline v0::cuda
