#include "lower/check.h"

#include <algorithm>

namespace postlude::inline v0::lower {
namespace {

[[noreturn]] void broken(const std::string& what) { throw Error(ErrorCode::internal, "lowering: " + what); }

// The argument types of an elementwise op, given the type of its result and of its first argument.
bool types_fit(Op op, DType result, const std::vector<DType>& args, DType cast) {
  const auto all = [&](DType type) {
    return std::all_of(args.begin(), args.end(), [&](DType a) { return a == type; });
  };
  switch (info(op).rule) {
    case TypeRule::arithmetic: return all(result) && result != DType::boolean;
    case TypeRule::real: return all(DType::f32) && result == DType::f32;
    case TypeRule::compare: return result == DType::boolean && args[0] == args[1];
    case TypeRule::bitwise: return all(result) && result != DType::f32;
    case TypeRule::select: return args[0] == DType::boolean && args[1] == result && args[2] == result;
    case TypeRule::cast: return result == compute_type(cast);
    default: return true;
  }
}

class ProgramCheck {
 public:
  ProgramCheck(const Program& program, bool rereads)
      : program_(program), rereads_(rereads), written_(program.buffers.size(), 0) {}

  void run() {
    if (program_.operands + program_.outputs > static_cast<std::int32_t>(program_.buffers.size()))
      broken("buffers are missing");
    for (phase_ = 0; phase_ < program_.phases.size(); ++phase_) {
      const Phase& phase = program_.phases[phase_];
      for (std::size_t i = 0; i < phase.code.size(); ++i) instruction(phase, i);
      accumulators(phase);
      for (const Reduction& r : phase.reductions) reduction(phase, r);
      stores(phase);
    }
    for (std::size_t b = 0; b < program_.buffers.size(); ++b)
      if (program_.buffers[b].kind != BufferKind::operand && !written_[b])
        broken(program_.buffers[b].name + " is never written");
  }

 private:
  const Program& program_;
  bool rereads_;
  std::vector<char> written_;  // by an earlier phase (1), or by this one (2)
  std::size_t phase_ = 0;
  bool accumulator_seen_ = false;

  std::string here(std::size_t i) const { return "phase " + std::to_string(phase_) + ", v" + std::to_string(i); }

  void instruction(const Phase& phase, std::size_t i) {
    const Instruction& x = phase.code[i];
    std::vector<DType> types;
    Axes axes;
    for (ValueId a : x.args) {
      if (a < 0 || a >= static_cast<ValueId>(i)) broken(here(i) + " uses a value that is not there yet");
      types.push_back(phase.code[a].type);
      axes = axes | phase.code[a].vary();
    }
    if (!phase.domain.contains(x.axes)) broken(here(i) + " varies beyond the phase's domain");
    if (x.batched && program_.batched && !phase.batched)
      broken(here(i) + " varies over the batch in a phase that does not");
    if (!x.args.empty() && axes != x.vary()) broken(here(i) + " does not vary as its arguments do");
    if (is_elementwise(x.op) && !types_fit(x.op, x.type, types, x.dtype))
      broken(here(i) + " has arguments of the wrong types");
    if (!is_elementwise(x.op) && x.op != Op::call && !x.args.empty()) broken(here(i) + " is no instruction");
    if (x.op == Op::parameter || x.op == Op::chunk || x.op == Op::concat || x.op == Op::repeat || x.op == Op::reduce)
      broken(here(i) + " is no instruction");
    if (x.type != DType::f32 && x.type != DType::i32 && x.type != DType::i64 && x.type != DType::boolean)
      broken(here(i) + " has no type to compute in");
    if (x.op == Op::constant && x.literal.type != x.type) broken(here(i) + " is a constant of another type");
    if (x.guard >= 0 && (x.guard >= static_cast<ValueId>(i) || phase.code[x.guard].type != DType::boolean ||
                         !phase.code[x.guard].axes.empty()))
      broken(here(i) + " has a guard that is not a uniform condition before it");
    if (x.op != Op::operand) return;
    const BufferId b = x.access.buffer;
    if (b < 0 || b >= static_cast<BufferId>(program_.buffers.size())) broken(here(i) + " reads no buffer");
    const Buffer& buffer = program_.buffers[b];
    if (buffer.kind != BufferKind::operand && written_[b] != 1)
      broken(here(i) + " reads " + buffer.name + " before it is written");
    if ((buffer.axes & tile_axes) != x.axes) broken(here(i) + " does not vary as " + buffer.name + " does");
    if (compute_type(buffer.dtype) != x.type) broken(here(i) + " has another type than " + buffer.name);
  }

  void accumulators(const Phase& phase) {
    std::vector<std::pair<std::int64_t, std::int64_t>> shape;
    bool first = true;
    for (const Instruction& x : phase.code) {
      if (x.op != Op::acc) continue;
      if (accumulator_seen_ && !rereads_) broken("phase " + std::to_string(phase_) + " uses the accumulator again");
      std::vector<std::pair<std::int64_t, std::int64_t>> own;
      for (const ColumnMap::Step& step : x.access.columns.steps) own.emplace_back(step.pieces, step.group);
      if (!rereads_ && !first && own != shape)
        broken("phase " + std::to_string(phase_) + " splits the accumulator in two ways");
      shape = own;
      first = false;
    }
    accumulator_seen_ |= !first;
  }

  // The pieces of a value must cover its width: their number is its width over the phase's.
  void whole(std::vector<const ColumnMap*> maps, const std::string& what) const {
    for (const ColumnMap* map : maps) {
      std::int64_t pieces = 1;
      for (const ColumnMap::Step& step : map->steps) pieces *= step.pieces;
      if (map->divide != 1 || pieces != static_cast<std::int64_t>(maps.size()))
        broken(what + " is not covered by its pieces");
      for (const ColumnMap* other : maps)
        if (other != map && *other == *map) broken(what + " has a piece twice");
    }
  }

  void reduction(const Phase& phase, const Reduction& r) {
    const std::size_t k = r.reducer == Reducer::custom                                   ? r.results.size()
                          : r.reducer == Reducer::argmax || r.reducer == Reducer::argmin ? 2
                                                                                         : 1;
    if (static_cast<int>(r.results.size()) != components(r.reducer, k))
      broken("a reduction has a wrong number of results");
    std::vector<const ColumnMap*> maps;
    for (const Reduction::Piece& piece : r.pieces) {
      if (piece.args.size() != k) broken("a reduction has a wrong number of arguments");
      for (ValueId a : piece.args)
        if (a < 0 || a >= static_cast<ValueId>(phase.code.size())) broken("a reduction of a value that is not there");
      if (phase.code[piece.args[0]].type != r.type) broken("a reduction of another type than its elements");
      maps.push_back(&piece.columns);
    }
    if (phase.domain.has(Axis::n)) whole(maps, "a reduction");
    if (!phase.domain.contains(r.axes & tile_axes)) broken("a reduction over an axis that its phase lacks");
    for (BufferId b : r.results) {
      if (b < 0) continue;
      if (program_.buffers[b].axes.has(Axis::b) != (phase.batched && !r.axes.has(Axis::b)))
        broken(program_.buffers[b].name + " has another batch than its reduction");
      if (program_.buffers[b].kind != BufferKind::statistic || written_[b])
        broken(program_.buffers[b].name + " cannot be written by a reduction");
      written_[b] = 2;
    }
  }

  void stores(const Phase& phase) {
    std::vector<std::vector<const ColumnMap*>> maps(program_.buffers.size());
    std::vector<BufferId> stored;
    for (const Store& s : phase.stores) {
      const BufferId b = s.access.buffer;
      if (b < program_.operands || b >= static_cast<BufferId>(program_.buffers.size()))
        broken("a store to what is no output");
      const Buffer& buffer = program_.buffers[b];
      if (s.value < 0 || s.value >= static_cast<ValueId>(phase.code.size()))
        broken("a store of a value that is not there");
      if (phase.domain != (buffer.axes & tile_axes) || phase.batched != buffer.axes.has(Axis::b))
        broken(buffer.name + " is stored by a phase of another domain");
      if (phase.code[s.value].axes != (buffer.axes & tile_axes))
        broken(buffer.name + " is stored from a value of other axes");
      if (written_[b] == 1 || buffer.kind == BufferKind::statistic) broken(buffer.name + " is written twice");
      if (maps[b].empty()) stored.push_back(b);
      maps[b].push_back(&s.access.columns);
    }
    for (BufferId b : stored) {
      if (phase.domain.has(Axis::n)) whole(maps[b], program_.buffers[b].name);
      written_[b] = 2;
    }
    for (char& w : written_) w = w ? 1 : 0;
  }
};

}  // namespace

void check(const Work& work, std::string_view pass) {
  const auto fail = [&](std::size_t i, const std::string& what) {
    broken(std::string(pass) + ": v" + std::to_string(i) + " " + what);
  };
  for (std::size_t i = 0; i < work.items.size(); ++i) {
    const Item& x = work.items[i];
    std::vector<DType> types;
    for (NodeId a : x.args) {
      if (a < 0 || a >= static_cast<NodeId>(i)) fail(i, "uses an item that is not there yet");
      types.push_back(work.items[a].type);
    }
    if (!is_elementwise(x.op) && x.op != Op::call) continue;
    if (is_elementwise(x.op) && !types_fit(x.op, x.type, types, x.dtype)) fail(i, "has arguments of the wrong types");
    Item met = x;
    broadcast(met, work.items);
    if (met.vary != x.vary) fail(i, "does not vary as its arguments do");
    for (NodeId a : x.args) {
      const Item& arg = work.items[a];
      if (arg.is_count()) continue;  // its extents are of what it counts
      const bool equal = (!arg.vary.has(Axis::m) || same_extent(arg.rows, x.rows)) &&
                         (!arg.vary.has(Axis::n) || same_extent(arg.columns, x.columns));
      if (!equal) fail(i, "has arguments of unequal extents");
    }
  }
  for (const WorkOutput& o : work.outputs)
    if (o.value < 0 || o.value >= static_cast<NodeId>(work.items.size()))
      broken(std::string(pass) + ": an output has no value");
}

void check(const Program& program, bool rereads) { ProgramCheck(program, rereads).run(); }

}  // namespace postlude::inline v0::lower
