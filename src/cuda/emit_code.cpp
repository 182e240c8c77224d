#include "cuda/emit_code.h"

#include <algorithm>

namespace postlude::inline v0::cuda {

using lower::Instruction;
using lower::ValueId;

std::string storage_name(DType type) { return type == DType::boolean ? "bool" : std::string(name(type)); }

std::string right_hand_side(const lower::Phase& phase, ValueId id, const Place& place, const Resolve& resolve,
                            Functions& functions) {
  const Instruction& i = phase.code[id];
  std::string code;
  if (i.op == Op::operand || i.op == Op::acc || i.op == Op::get) {
    code = resolve.leaf(i);
  } else {
    std::vector<std::string> args;
    std::vector<DType> types;
    for (const ValueId arg : i.args) {
      args.push_back(resolve.value(arg));
      types.push_back(phase.code[arg].type);
    }
    code = expression(i, args, types, place, functions);
  }
  if (i.guard >= 0) code = "(" + resolve.value(i.guard) + " ? " + device_literal(0, i.type) + " : " + code + ")";
  return code;
}

namespace {

// Whether a value is known to be a positive normal number or NaN: clamped between two.
bool is_normal(const lower::Phase& phase, ValueId id) {
  const Instruction& i = phase.code[id];
  if (i.op != Op::call || !i.function->prelude || i.function->name != "clamp" || i.guard >= 0) return false;
  return std::all_of(i.args.begin() + 1, i.args.end(), [&](ValueId bound) {
    const Instruction& b = phase.code[bound];
    return b.op == Op::constant && b.literal.value() >= 0x1p-126 && b.literal.value() < 0x1p+127;
  });
}

}  // namespace

std::string vector_form(const lower::Phase& phase, const Instruction& i) {
  if (i.guard >= 0 || i.type != DType::f32) return {};
  for (const ValueId arg : i.args) {
    if (phase.code[arg].type != DType::f32) return {};
  }
  if (i.op == Op::log && is_normal(phase, i.args[0])) return "vec_log_normal";
  if (i.op == Op::exp || i.op == Op::log || i.op == Op::div) return "vec_" + std::string(info(i.op).id);
  if (i.op == Op::call && has_native_form(*i.function)) return "vec_" + i.function->name;
  return {};
}

std::string typed(const std::string& code, DType computed, DType wanted) {
  return computed == wanted
             ? code
             : "to_" + std::string(wanted == DType::boolean ? "boolean" : name(wanted)) + "(" + code + ")";
}

std::string count_expression(const Instruction& count, const Place& place, const std::string& batch,
                             const std::string& m, const std::string& n) {
  const auto extent = [](const Extent& e, const std::string& base) {
    if (e == Extent{}) return "i64(" + base + ")";
    return "(" + std::to_string(e.times) + "ll * ((i64(" + base + ") + " + std::to_string(e.over - 1) + ") / " +
           std::to_string(e.over) + "))";
  };
  std::string product;
  const auto times = [&](const std::string& factor) { product += (product.empty() ? "" : " * ") + factor; };
  const std::string group = std::to_string(count.group) + "ll";
  const auto part = [&](const std::string& whole, const std::string& index) {
    return count.group ? "op_min(i64(" + group + "), " + whole + " - i64(" + index + ") * " + group + ")" : whole;
  };
  if (count.count_axes.has(Axis::b)) times("i64(" + batch + ")");
  const bool by_columns = count.count_axes.has(Axis::n);
  if (count.count_axes.has(Axis::m)) {
    const std::string row =
        count.access.divide_rows > 1 ? place.i + " / " + std::to_string(count.access.divide_rows) : place.i;
    times(by_columns ? extent(count.rows, m) : part(extent(count.rows, m), row));
  }
  if (by_columns) times(part(extent(count.columns, n), column_expression(count.access.columns, place.j, place.width)));
  return typed(product.empty() ? "i64(1)" : "(" + product + ")", DType::i64, count.type);
}

std::vector<bool> needed(const lower::Phase& phase, const std::vector<ValueId>& values) {
  std::vector<bool> wanted(phase.code.size());
  for (const ValueId value : values) wanted[value] = true;
  for (auto id = static_cast<ValueId>(phase.code.size()) - 1; id >= 0; --id) {
    if (!wanted[id]) continue;
    for (const ValueId arg : phase.code[id].args) wanted[arg] = true;
    if (phase.code[id].guard >= 0) wanted[phase.code[id].guard] = true;
  }
  return wanted;
}

std::vector<ValueId> sinks(const lower::Phase& phase, bool stores, bool reductions) {
  std::vector<ValueId> values;
  if (stores) {
    for (const auto& store : phase.stores) values.push_back(store.value);
  }
  if (reductions) {
    for (const auto& reduction : phase.reductions) {
      for (const auto& piece : reduction.pieces) values.insert(values.end(), piece.args.begin(), piece.args.end());
    }
  }
  return values;
}

std::string address_arguments(int word, const std::string& b, const std::string& row, const std::string& column,
                              bool unit_stride) {
  const auto w = [&](int i) { return "p.word[" + std::to_string(word + i) + "]"; };
  std::string at;
  const auto add = [&](const std::string& term) { at += (at.empty() ? "" : " + ") + term; };
  if (!b.empty()) add(b + " * " + w(1));
  if (!row.empty()) add(row + " * " + w(2));
  if (!column.empty()) add(unit_stride ? column : column + " * " + w(3));
  return w(0) + ", " + (at.empty() ? "0" : at);
}

namespace {

std::string access_arguments(const lower::Program& program, const lower::Access& access, int word, const Place& place,
                             bool unit_stride) {
  const lower::Buffer& buffer = program.buffers[access.buffer];
  std::string row, column;
  if (buffer.axes.has(Axis::m))
    row = access.divide_rows > 1 ? place.i + " / " + std::to_string(access.divide_rows) : place.i;
  if (buffer.axes.has(Axis::n)) column = column_expression(access.columns, place.j, place.width);
  return address_arguments(word, program.batched ? place.b : "", row, column, unit_stride);
}

}  // namespace

std::string load_expression(const lower::Program& program, const lower::Access& access, int word, const Place& place,
                            bool unit_stride) {
  return "load_" + storage_name(program.buffers[access.buffer].dtype) + "(" +
         access_arguments(program, access, word, place, unit_stride) + ")";
}

std::string store_statement(const lower::Program& program, const lower::Access& access, int word, const Place& place,
                            const std::string& value, bool unit_stride) {
  return "store_" + storage_name(program.buffers[access.buffer].dtype) + "(" +
         access_arguments(program, access, word, place, unit_stride) + ", " + value + ");";
}

}  // namespace postlude::inline v0::cuda
