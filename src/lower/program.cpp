#include "lower/program.h"

#include "lower/work.h"

#include <algorithm>

namespace postlude::inline v0::lower {
namespace {

std::string print_value(ValueId id) { return "v" + std::to_string(id); }

// Prints "[2/3 of 64, n/128]" for piece 2 of 3 in every 64 columns, then divided by 128; "" for the
// identity.
std::string print_map(const ColumnMap& map, std::int64_t divide_rows = 1) {
  std::string s;
  const auto part = [&](const std::string& text) { s += (s.empty() ? "[" : ", ") + text; };
  for (const ColumnMap::Step& step : map.steps)
    part(std::to_string(step.piece) + "/" + std::to_string(step.pieces) +
         (step.group ? " of " + std::to_string(step.group) : ""));
  if (map.divide != 1) part("n/" + std::to_string(map.divide));
  if (divide_rows != 1) part("m/" + std::to_string(divide_rows));
  return s.empty() ? s : s + "]";
}

std::string print_shape(Axes axes, const Extent& rows, const Extent& columns) {
  return (axes.has(Axis::m) ? print_extent(rows, 'M') : "1") + " x " +
         (axes.has(Axis::n) ? print_extent(columns, 'N') : "1");
}

std::string_view print_class(Axes axes) {
  axes = axes & tile_axes;
  return axes == tile_axes ? "tile" : axes == row_axes ? "row" : axes == col_axes ? "col" : "scalar";
}

std::string print_code(const Instruction& x, const std::vector<Buffer>& buffers) {
  std::string s(name(x.type));
  s += ' ';
  s += print_class(x.axes);
  s += " = ";
  switch (x.op) {
    case Op::constant: return s + print_literal(x.literal);
    case Op::operand: s += "load " + buffers[x.access.buffer].name; break;
    case Op::call: s += x.function->name; break;
    case Op::get:
      s += "count " + print_axes(x.count_axes) + " of " + print_shape(tile_axes, x.rows, x.columns);
      if (x.group) s += " group " + std::to_string(x.group);
      break;
    case Op::cast:
      s += "cast " + std::string(name(x.dtype));
      if (x.round != Round::nearest_even) s += " " + std::string(name(x.round));
      if (x.round == Round::stochastic) s += " seed " + std::to_string(x.seed);
      break;
    case Op::random: s += "random seed " + std::to_string(x.seed) + " stream " + std::to_string(x.random_stream); break;
    default: s += info(x.op).id;
  }
  for (ValueId a : x.args) s += " " + print_value(a);
  s += print_map(x.access.columns, x.access.divide_rows);
  if (x.guard >= 0) s += " unless " + print_value(x.guard);
  return s;
}

std::string print_buffer(const Buffer& b) {
  constexpr std::string_view kinds[] = {"operand", "output", "statistic", "crossing"};
  return std::string(kinds[static_cast<int>(b.kind)]) + " " + b.name + ": " + std::string(name(b.dtype)) + " " +
         (b.axes.has(Axis::b) ? "batch x " : "") + print_shape(b.axes, b.rows, b.columns) + "\n";
}

}  // namespace

std::int64_t ColumnMap::operator()(std::int64_t j, std::int64_t width) const {
  for (const Step& step : steps) {
    width *= step.pieces;
    const std::int64_t group = step.group ? step.group : width;
    const std::int64_t part = group / step.pieces;
    j = j / part * group + step.piece * part + j % part;
  }
  return j / divide;
}

bool Phase::reads_accumulator() const {
  return std::any_of(code.begin(), code.end(), [](const Instruction& x) { return x.op == Op::acc; });
}

bool Phase::loads(BufferId buffer) const {
  return std::any_of(code.begin(), code.end(),
                     [&](const Instruction& x) { return x.op == Op::operand && x.access.buffer == buffer; });
}

bool Phase::stores_to(BufferId buffer) const {
  return std::any_of(stores.begin(), stores.end(), [&](const Store& s) { return s.access.buffer == buffer; });
}

std::vector<Uses> uses_of(const Program& program) {
  std::vector<Uses> uses(program.buffers.size());
  for (int p = 0; p < static_cast<int>(program.phases.size()); ++p) {
    const Phase& phase = program.phases[p];
    for (const Instruction& x : phase.code) {
      if (x.op == Op::operand) uses[x.access.buffer].loads.push_back(p);
    }
    for (const Store& store : phase.stores) uses[store.access.buffer].stores.push_back(p);
    for (const Reduction& reduction : phase.reductions) {
      for (const BufferId result : reduction.results) {
        if (result >= 0) uses[result].reductions.push_back(p);
      }
    }
  }
  return uses;
}

std::string Program::print() const {
  std::string s = "program " + name + ": accumulator " + std::string(postlude::name(accumulator)) +
                  (batched ? ", batched" : "") + "\n";
  for (const Buffer& b : buffers) s += "  " + print_buffer(b);
  for (const Divisibility& r : rules)
    s += "  rule: " + std::to_string(r.divisor) + " divides " + print_extent(r.columns, 'N') + "\n";
  for (std::size_t p = 0; p < phases.size(); ++p) {
    const Phase& phase = phases[p];
    s += "phase " + std::to_string(p) + ": " + (phase.batched ? "batch x " : "") +
         print_shape(phase.domain, phase.rows, phase.columns) + "\n";
    for (std::size_t i = 0; i < phase.code.size(); ++i)
      s += "  v" + std::to_string(i) + ": " + print_code(phase.code[i], buffers) + "\n";
    for (const Reduction& r : phase.reductions) {
      s += "  ";
      for (std::size_t i = 0; i < r.results.size(); ++i)
        s += (i ? ", " : "") + (r.results[i] < 0 ? std::string("_") : buffers[r.results[i]].name);
      s += " = " + std::string(lower::name(r.reducer)) + " over " + print_axes(r.axes);
      if (r.group) s += " group " + std::to_string(r.group);
      for (std::size_t i = 0; i < r.pieces.size(); ++i) {
        s += i ? " | " : ": ";
        for (std::size_t a = 0; a < r.pieces[i].args.size(); ++a)
          s += (a ? ", " : "") + print_value(r.pieces[i].args[a]);
        s += print_map(r.pieces[i].columns);
      }
      s += "\n";
    }
    for (const Store& store : phase.stores)
      s += "  store " + buffers[store.access.buffer].name + print_map(store.access.columns, store.access.divide_rows) +
           " = " + print_value(store.value) + "\n";
  }
  for (const std::string& note : notes) s += "note: " + note + "\n";
  return s;
}

}  // namespace postlude::inline v0::lower
