#include "cuda/emit/code.h"

#include "core/fill.h"

#include <algorithm>
#include <set>

namespace postlude::inline v0::cuda {

using lower::Instruction;
using lower::ValueId;

namespace {

std::string memory_row_of(const lower::Access& access, const Place& place) {
  const bool own = access.divide_rows == 1 && access.row_steps.empty() && !place.memory.empty();
  return own ? place.memory : row_expression(access, place.i);
}

// Instruction i, if it is a quotient by a constant, of x; or the tanh of one.
std::string quotient_of(const lower::Phase& phase, const Instruction& i, const std::string& x,
                        Small small = Small::exact) {
  if (i.op != Op::div || phase.code[i.args[1]].op != Op::constant) return {};
  return quotient(x, phase.code[i.args[1]].literal.value(), small);
}
std::string tanh_of_quotient(const lower::Phase& phase, const Instruction& i, const Resolve& resolve) {
  if (i.op != Op::tanh) return {};
  const Instruction& of = phase.code[i.args[0]];
  if (of.guard >= 0 || of.op != Op::div || phase.code[of.args[0]].type != DType::f32) return {};
  const std::string divided = quotient_of(phase, of, resolve.value(of.args[0]), Small::about);
  return divided.empty() ? divided : "op_tanh(" + divided + ")";
}
// As softplus has it where x < 0 (decision 0290).
std::string log1p_of_exponential(const lower::Phase& phase, const Instruction& i, const Resolve& resolve) {
  return adds_below_one(phase, i) ? "op_log1p_exp(" + resolve.value(phase.code[i.args[0]].args[0]) + ")" : "";
}

}  // namespace

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
    code = quotient_of(phase, i, args.empty() ? "" : args[0]);
    if (code.empty()) code = tanh_of_quotient(phase, i, resolve);
    if (code.empty()) code = log1p_of_exponential(phase, i, resolve);
    if (code.empty()) code = expression(i, args, types, place, functions);
  }
  if (i.guard < 0) return code;
  return fill("($guard ? $zero : $code)",
              {{"guard", resolve.value(i.guard)}, {"zero", device_literal(0, i.type)}, {"code", code}});
}

bool is_clamped(const lower::Phase& phase, ValueId id, double least, double most) {
  const Instruction& i = phase.code[id];
  if (i.op != Op::call || !i.function->prelude || i.function->name != "clamp" || i.guard >= 0) return false;
  return std::all_of(i.args.begin() + 1, i.args.end(), [&](ValueId bound) {
    const Instruction& b = phase.code[bound];
    return b.op == Op::constant && b.literal.value() >= least && b.literal.value() <= most;
  });
}

bool is_else_zero(const lower::Phase& phase, const Instruction& i) {
  if (i.op != Op::where) return false;
  const Instruction& otherwise = phase.code[i.args[2]];
  return otherwise.op == Op::constant && otherwise.literal.value() == 0;
}

bool adds_below_one(const lower::Phase& phase, const Instruction& i) {
  const auto is = [&](const Instruction& of, Op op) { return of.op == op && of.guard < 0 && of.type == DType::f32; };
  const auto argument = [&](const Instruction& of) -> const Instruction& { return phase.code[of.args[0]]; };
  return is(i, Op::log1p) && is(argument(i), Op::exp) && is(argument(argument(i)), Op::neg) &&
         is(argument(argument(argument(i))), Op::abs);
}

std::string vector_form(const lower::Phase& phase, const Instruction& i) {
  if (i.guard >= 0 || i.type != DType::f32) return {};
  for (const ValueId arg : i.args) {
    if (phase.code[arg].type != DType::f32) return {};
  }
  if (!quotient_of(phase, i, "").empty()) return {};
  if (i.op == Op::log && is_clamped(phase, i.args[0], 0x1p-126, 0x1p+126)) return "vec_log_normal";
  if (i.op == Op::exp || i.op == Op::log || i.op == Op::div) return "vec_" + std::string(info(i.op).id);
  static const std::set<std::string> calls = {"sigmoid", "silu", "gelu", "gelu_tanh", "dgelu", "dgelu_tanh"};
  if (i.op == Op::call && has_native_form(*i.function) && calls.contains(i.function->name))
    return "vec_" + i.function->name;
  return {};
}

std::string declarations(const lower::Phase& phase, const std::vector<bool>& wanted, const Place& place,
                         const Resolve& resolve, Functions& functions, const std::string& indent) {
  std::string code;
  for (ValueId id = 0; id < static_cast<ValueId>(phase.code.size()); ++id) {
    if (!wanted[id]) continue;
    code += fill("${indent}const $type $name = $value;\n",
                 {{"indent", indent},
                  {"type", device_type(phase.code[id].type)},
                  {"name", resolve.value(id)},
                  {"value", right_hand_side(phase, id, place, resolve, functions)}});
  }
  return code;
}

namespace {

// An array of eight elements e.
std::string array_text(const std::string& indent, DType type, const std::string& name, const std::string& value) {
  return fill(R"($indent$type $name[8];
${indent}EACH $name[e] = $value;
)",
              {{"indent", indent}, {"type", device_type(type)}, {"name", name}, {"value", value}});
}

}  // namespace

std::string array_of(const lower::Phase& phase, ValueId id, const std::string& made, const Resolve& resolve,
                     const std::string& indent, std::string& code) {
  if (std::string array = resolve.array(id); !array.empty()) return array;
  code += array_text(indent, phase.code[id].type, made, resolve.value(id));
  return made;
}

std::string array_statements(const lower::Phase& phase, ValueId id, const Place& place, const Resolve& resolve,
                             Functions& functions, const std::string& indent) {
  const Instruction& i = phase.code[id];
  const std::string v = resolve.array(id), form = vector_form(phase, i);
  if (form.empty()) return array_text(indent, i.type, v, right_hand_side(phase, id, place, resolve, functions));
  std::string made, args;
  for (std::size_t k = 0; k < i.args.size(); ++k)
    args += ", " + array_of(phase, i.args[k], v + "_" + str(k), resolve, indent, made);
  return fill(
      R"($indent$type $v[8];
$made$indent$form($v$args);
)",
      {{"indent", indent}, {"type", device_type(i.type)}, {"v", v}, {"made", made}, {"form", form}, {"args", args}});
}

std::string count_expression(const Instruction& count, const Place& place, const std::string& batch,
                             const std::string& m, const std::string& n) {
  const auto extent = [](const Extent& e, const std::string& base) {
    if (e == Extent{}) return "i64(" + base + ")";
    return fill("(${times}ll * ((i64($base) + $rest) / $over))",
                {{"times", str(e.times)}, {"base", base}, {"rest", str(e.over - 1)}, {"over", str(e.over)}});
  };
  std::string product;
  const auto times = [&](const std::string& factor) { product += (product.empty() ? "" : " * ") + factor; };
  const std::string group = str(count.group) + "ll";
  const auto part = [&](const std::string& whole, const std::string& index) {
    return count.group ? fill("op_min(i64($group), $whole - i64($index) * $group)",
                              {{"group", group}, {"whole", whole}, {"index", index}})
                       : whole;
  };
  if (count.count_axes.has(Axis::b)) times("i64(" + batch + ")");
  const bool by_columns = count.count_axes.has(Axis::n);
  if (count.count_axes.has(Axis::m)) {
    times(by_columns ? extent(count.rows, m) : part(extent(count.rows, m), row_expression(count.access, place.i)));
  }
  if (by_columns) times(part(extent(count.columns, n), column_expression(count.access.columns, place.j, place.width)));
  return converted(product.empty() ? "i64(1)" : "(" + product + ")", DType::i64, count.type);
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
  const auto w = [&](int i) { return "p.word[" + str(word + i) + "]"; };
  std::string at;
  const auto add = [&](const std::string& term) { at += (at.empty() ? "" : " + ") + term; };
  if (!b.empty()) add(b + " * " + w(1));
  if (!row.empty()) add(row + " * " + w(2));
  if (!column.empty()) add(unit_stride ? column : column + " * " + w(3));
  return w(0) + ", " + (at.empty() ? "0" : at);
}

namespace {

std::string load_text(DType type, const std::string& at) {
  return fill("load_$type($at)", {{"type", storage_name(type)}, {"at", at}});
}

std::string access_arguments(const lower::Program& program, const lower::Access& access, int word, const Place& place,
                             bool unit_stride) {
  const lower::Buffer& buffer = program.buffers[access.buffer];
  std::string row, column;
  if (buffer.axes.has(Axis::m)) row = memory_row_of(access, place);
  if (buffer.axes.has(Axis::n)) column = column_expression(access.columns, place.j, place.width);
  const std::string batch = program.batched ? place.b : "";
  if (buffer.kind == lower::BufferKind::operand && row.empty() && column.empty())
    return fill("scalar_at(p, $word), $at",
                {{"word", str(word)}, {"at", batch.empty() ? "0" : batch + " * p.word[" + str(word + 1) + "]"}});
  return address_arguments(word, batch, row, column, unit_stride);
}

}  // namespace

std::string load_expression(const lower::Program& program, const lower::Access& access, int word, const Place& place,
                            bool unit_stride) {
  return load_text(program.buffers[access.buffer].dtype, access_arguments(program, access, word, place, unit_stride));
}

std::string store_statement(const lower::Program& program, const lower::Access& access, int word, const Place& place,
                            const std::string& value, bool unit_stride) {
  return fill("store_$type($at, $value);", {{"type", storage_name(program.buffers[access.buffer].dtype)},
                                            {"at", access_arguments(program, access, word, place, unit_stride)},
                                            {"value", value}});
}

std::string load_accumulator(DType source, const lower::Access& access, int word, const Place& place) {
  return load_text(source, address_arguments(word, place.b, memory_row_of(access, place),
                                             column_expression(access.columns, place.j, place.width), false));
}

}  // namespace postlude::inline v0::cuda
