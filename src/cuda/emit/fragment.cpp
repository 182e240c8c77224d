#include "cuda/emit/fragment.h"

#include "core/fill.h"
#include "cuda/choose/spills.h"
#include "cuda/emit/fragment_writer.h"

#include <algorithm>

namespace postlude::inline v0::cuda {

using lower::Access;
using lower::BufferId;
using lower::Instruction;
using lower::Program;
using lower::ValueId;

std::vector<ValueId> FragmentWriter::values_of(Level level) const {
  std::vector<ValueId> ids;
  for (ValueId id = 0; id < static_cast<ValueId>(phase_.code.size()); ++id) {
    if (value(id).wanted && value(id).level == level) ids.push_back(id);
  }
  return ids;
}

std::string FragmentWriter::uniforms() {
  std::string members, code;
  const Place place{"batch", "0", "0", "tile_columns(p)"};
  const Resolve resolve{[](ValueId id) { return "v" + str(id); },
                        [&](const Instruction& i) { return c_.leaf(i, place); }};
  for (const ValueId id : values_of(Level::uniform)) {
    members += "  " + device_type(phase_.code[id].type) + " v" + str(id) + ";\n";
    code += "    v" + str(id) + " = " + right_hand_side(phase_, id, place, resolve, c_.functions) + ";\n";
  }
  return fill(R"(// What is the same for all elements of a batch.
struct $name {
$members  METHOD void load(const Params& p, int batch) {
$code  }
};
)",
              {{"name", uniform()}, {"members", members}, {"code", code}});
}

// `inside`: where loads are clamped to.
Resolve FragmentWriter::resolve(Level where, const Place& place, const Place& inside) {
  return {[=, this](ValueId id) { return name(id, where); },
          [=, this](const Instruction& i) { return c_.leaf(i, i.op == Op::get ? place : inside); }};
}

// What there is of a row r, once.
std::string FragmentWriter::row_values() {
  return row_values(false, {"t.batch", "row", "0", "tile_columns(p)", "memory_row(p, t.batch, row)"},
                    {"t.batch", "row_in", "0", "tile_columns(p)", "memory_row(p, t.batch, row_in)"},
                    std::vector<std::string>(c_.program.buffers.size()));
}

// What there is of it (in a group of columns, that of `column`) when its statistics are known: as code, by buffer.
std::string FragmentWriter::met_values(const std::vector<std::string>& statistics) {
  return row_values(true, {"t.batch", "row", "column", "tile_columns(p)", "memory_row(p, t.batch, row)"},
                    {"t.batch", "row_in", "column_in", "tile_columns(p)", "memory_row(p, t.batch, row_in)"},
                    statistics);
}

std::string FragmentWriter::row_values(bool met, const Place& place, const Place& inside,
                                       const std::vector<std::string>& statistics) {
  Resolve resolve = this->resolve(Level::row, place, inside);
  resolve.leaf = [&, memory = resolve.leaf](const Instruction& i) {
    if (i.op != Op::operand || statistics[i.access.buffer].empty()) return memory(i);
    return converted(statistics[i.access.buffer], compute_type(c_.dtype(i.access.buffer)), i.type);
  };
  std::string code;
  for (const ValueId id : values_of(Level::row)) {
    if (value(id).met != met) continue;
    members_ += "  " + device_type(phase_.code[id].type) + " v" + str(id) + "[ROWS];\n";
    code += "      v" + str(id) + "[r] = " + right_hand_side(phase_, id, place, resolve, c_.functions) + ";\n";
    const bool labels = std::any_of(code_.values.begin(), code_.values.end(),
                                    [&](const auto& of) { return of.wanted && of.label == id; });
    if (!labels) continue;
    members_ += "  int column" + str(id) + "[ROWS];\n";
    code += fill("      column$id[r] = as_column(v$id[r], tile_columns(p));\n", {{"id", str(id)}});
  }
  return code;
}

// In shared memory, the statistic that a buffer is of the fragment's rows in `column`; empty: it is none.
std::string FragmentWriter::row_group_statistic(BufferId buffer) const {
  for (std::size_t r = 0; r < e_.partials.size(); ++r) {
    const auto& results = c_.reduction(r).results;
    const auto found = std::find(results.begin(), results.end(), buffer);
    if (e_.partials[r].across != Across::row_groups || found == results.end()) continue;
    const std::string state = fill(
        "shared_pointer<$S>(group_scratch(t) + $at)[(4 + t.warp / GROUP_WARPS) * SUB_N + column - t.col - group * "
        "SUB_N]",
        {{"S", c_.reducers[r].type}, {"at", str(e_.partials[r].scratch)}});
    return c_.reducers[r].component(state, static_cast<std::size_t>(found - results.begin()));
  }
  return {};
}

// Row operands that are read ahead: q[1] is on its way while q[0] is used. Of whole tiles a thread's lie behind one
// address: the compiler multiplied for each.
std::string FragmentWriter::prefetch() {
  std::string places, code;
  for (const ValueId id : values_of(Level::column)) {
    if (!value(id).prefetched) continue;
    const Access& access = phase_.code[id].access;
    const DType dtype = c_.dtype(access.buffer);
    const bool pair = c_.places[access.buffer].pair;
    const auto at = [&](const std::string& column) {
      return address_arguments(e_.word(access.buffer), c_.program.batched ? "t.batch" : "", "",
                               column_expression(access.columns, column, "tile_columns(p)"), true);
    };
    const std::string q = "q" + str(id), of = storage_name(dtype);
    members_ += "  " + std::string(size_of(dtype) == 4 ? "u64" : "u32") + " " + q + "[2][COLUMN_PAIRS];\n";
    advance_ += "    #pragma unroll\n    for (int k = 0; k < COLUMN_PAIRS; ++k) " + q + "[0][k] = " + q + "[1][k];\n";
    std::string read =
        pair ? "pair_" + of + "(" + at("column") + ")" : "split_" + of + "(" + at("left") + ", " + at("right") + ")";
    if (pair && access.columns.identity()) {
      places += fill("    const i64 at$id = address_of<$size>($first);\n",
                     {{"id", str(id)}, {"size", str(size_of(dtype))}, {"first", at("first")}});
      read = "WHOLE_N ? pair_" + of + "(at" + str(id) + ", next) : " + read;
    }
    code += "      " + q + "[1][k] = " + read + ";\n";
  }
  if (code.empty()) return {};
  return fill(R"(    const int first = opaque(first_column(t, group * SUB_N));
$places    #pragma unroll
    for (int k = 0; k < COLUMN_PAIRS; ++k) {
      const int next = k / 2 * 16 + k % 2 * 8, at = first + next, column = WHOLE_N ? at : min(at, tile_columns(p) - 2);
      const int left = WHOLE_N ? at : min(at, tile_columns(p) - 1), right = WHOLE_N ? at + 1 : min(at + 1, tile_columns(p) - 1);
$code    }
)",
              {{"places", places}, {"code", code}});
}

std::string FragmentWriter::column_values() {
  // What is the same in a group of rows is so in a warp's.
  const Place place{"t.batch", "rows_in[0]", "column", "tile_columns(p)", "memory_rows[0]"};
  Resolve resolve =
      this->resolve(Level::column, place, {"t.batch", "rows_in[0]", "column_in", "tile_columns(p)", "memory_rows[0]"});
  resolve.leaf = [&, memory = resolve.leaf](const Instruction& i) {
    const std::string statistic = held_ && i.op == Op::operand ? row_group_statistic(i.access.buffer) : "";
    return statistic.empty() ? memory(i) : converted(statistic, compute_type(c_.dtype(i.access.buffer)), i.type);
  };
  std::string declared, loop;
  for (const ValueId id : values_of(Level::column)) {
    const Instruction& i = phase_.code[id];
    const std::string v = "v" + str(id);
    declared += "    " + device_type(i.type) + " " + v + "[4];\n";
    if (value(id).prefetched) {
      declared += "    #pragma unroll\n    for (int c = 0; c < 2; ++c) unpair_" +
                  storage_name(c_.dtype(i.access.buffer)) + "(q" + str(id) + "[0][(2 * f + c) % COLUMN_PAIRS], " + v +
                  "[2 * c], " + v + "[2 * c + 1]);\n";
    } else {
      loop += "      " + v + "[c] = " + right_hand_side(phase_, id, place, resolve, c_.functions) + ";\n";
    }
  }
  if (loop.empty()) return declared;
  return declared +
         "    #pragma unroll\n    for (int c = 0; c < 4; ++c) {\n      const int column = columns[c], column_in = "
         "columns_in[c];\n" +
         loop + "    }\n";
}

// Where a fragment's elements are, and which of them exist. Where their rows lie is said once: ptxas took 38 s for 2
// with a residue's pixels in the branch of each element.
static const char* const fragment_places = R"(    int columns[4], columns_in[4], rows[2], rows_in[2], memory_rows[2];
    bool in_columns[4], in_rows[2];
    const int first = opaque(first_column(t, group * SUB_N + f * 16)), left = tile_columns(p) - first;
    #pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int apart = c / 2 * (COLUMN_PAIRS > 1 ? 8 : 0);
      columns[c] = first + apart + c % 2;
      in_columns[c] = WHOLE_N || apart + (EVEN_N ? 0 : c % 2) < left, columns_in[c] = WHOLE_N ? columns[c] : min(columns[c], tile_columns(p) - 1);
    }
    #pragma unroll
    for (int h = 0; h < 2; ++h) {
      rows[h] = tile_row(t, 2 * i + h);
      in_rows[h] = WHOLE_M || rows[h] < tile_end(t.row, tile_rows(p, t.batch)), rows_in[h] = WHOLE_M ? rows[h] : min(rows[h], tile_rows(p, t.batch) - 1);
      memory_rows[h] = memory_row(p, t.batch, rows_in[h]);
    }
)";

// The numbers of a fragment (or their words) that an instruction draws.
std::string FragmentWriter::drawn(ValueId id, bool words) const {
  const Instruction& i = phase_.code[id];
  const auto column = [&](const char* of) { return column_expression(i.access.columns, of, "tile_columns(p)"); };
  return fill("    $type u$id[8];\n    random_$what<$turned>(u$id, $key, $batch, $row, $first, $third);\n",
              {{"type", words ? "u32" : "float"},
               {"turned", i.turned ? "true" : "false"},
               {"id", str(id)},
               {"what", words ? "words" : "fragment"},
               {"key", random_key(i)},
               {"batch", i.batched ? "t.batch" : "0"},
               {"row", row_expression(i.access, "rows[0]")},
               {"first", column("columns[0]")},
               {"third", column("columns[2]")}});
}

// A value of each of a fragment's eight elements.
std::string FragmentWriter::element(ValueId id, const Place& each, const Resolve& resolve) {
  const Instruction& i = phase_.code[id];
  const std::string v = "v" + str(id);
  if (const ValueId label = value(id).label; label >= 0) {
    return fill("    bool $v[8];\n    EACH $v[e] = columns[e / 4 * 2 + e % 2] == column$label[2 * i + e / 2 % 2];\n",
                {{"v", v}, {"label", str(label)}});
  }
  if (std::any_of(code_.logarithms.begin(), code_.logarithms.end(), [&](const auto& l) { return l.value == id; })) {
    const std::string added =
        fill("    float $x[8];\n    EACH $x[e] = $in ? $factor : 1.f;\n    log$id.add($x);\n",
             {{"x", "factors" + str(id)}, {"in", in_both}, {"factor", resolve.value(i.args[0])}, {"id", str(id)}});
    return value(id).folded ? added : added + fill("    float $v[8];\n    EACH $v[e] = 0.f;\n", {{"v", v}});
  }
  if (value(id).folded) return {};
  if (const std::int64_t below = value(id).below; below >= 0) {
    const ValueId random = phase_.code[i.args[0]].op == Op::random ? i.args[0] : i.args[1];
    return drawn(random, true) +
           fill("    bool $v[8];\n    EACH $v[e] = $not($below);\n",
                {{"v", v},
                 {"not", value(id).not_below ? "!" : ""},
                 {"below", below >> 32 ? "true"
                           : below == 0
                               ? "false"
                               : fill("u$random[e] < ${below}u", {{"random", str(random)}, {"below", str(below)}})}});
  }
  if (value(id).weight) {
    return fill("    float $v[8];\n    EACH $v[e] = softmax_weight($a, $b);\n",
                {{"v", v}, {"a", resolve.value(i.args[0])}, {"b", resolve.value(i.args[1])}});
  }
  if (divides_rows(i)) {
    const bool by_columns = value(i.args[1]).level == Level::column;
    std::string made;
    const std::string dividend = array_of(phase_, i.args[0], v + "_0", resolve, "    ", made);
    return fill("    float $v[8];\n$made    $divide($v, $dividend, $by);\n",
                {{"v", v},
                 {"made", made},
                 {"divide", value(id).narrow && value(id).bounded ? "vec_div_bounded"
                            : value(id).narrow                    ? "vec_div_narrow"
                            : by_columns                          ? "vec_div_columns"
                                                                  : "vec_div_rows"},
                 {"dividend", dividend},
                 {"by", divisors(i.args[1])}});
  }
  Place place = each;
  if (value(id).drawn) place.random = "u" + str(id) + "[e]";
  return (value(id).drawn ? drawn(id, false) : "") + array_statements(phase_, id, place, resolve, c_.functions, "    ");
}

// Whether it is a quotient by what is a row's, or known when statistics are.
bool FragmentWriter::divides_rows(const Instruction& i) const {
  return vector_form(phase_, i) == "vec_div" && (value(i.args[1]).level < Level::column || value(i.args[1]).met);
}

// Divisors of a fragment: its columns', or its two rows'.
std::string FragmentWriter::divisors(ValueId by) const {
  const std::string v = "v" + str(by);
  if (value(by).level == Level::column) return v;
  if (value(by).level != Level::row) return "u." + v + ", u." + v;
  return v + "[2 * i], " + v + "[2 * i + 1]";
}

std::string FragmentWriter::fragment() {
  std::string code = fragment_places + column_values();
  const Place each{"t.batch", "rows[e / 2 % 2]", "columns[e / 4 * 2 + e % 2]", "tile_columns(p)",
                   "memory_rows[e / 2 % 2]"};
  Resolve resolve = this->resolve(
      Level::element, each,
      {"t.batch", "rows_in[e / 2 % 2]", "columns_in[e / 4 * 2 + e % 2]", "tile_columns(p)", "memory_rows[e / 2 % 2]"});
  resolve.leaf = [this, memory = resolve.leaf](const Instruction& i) {
    const auto& steps = i.access.row_steps.empty() ? i.access.columns.steps : i.access.row_steps;
    if (i.op == Op::acc) {
      return converted("acc[" + str(steps.empty() ? 0 : steps[0].piece) + "][e]", c_.program.accumulator, i.type);
    }
    const int map = i.op == Op::operand ? code_.load_of(i.access) : -1;
    if (map < 0) return memory(i);
    const DType dtype = c_.dtype(i.access.buffer);
    return converted(
        "bits_" + storage_name(dtype) + "(fragment_element<" + str(size_of(dtype)) + ">(x" + str(map) + "[f], e))",
        compute_type(dtype), i.type);
  };
  resolve.array = [this](ValueId id) { return value(id).level == Level::element ? "v" + str(id) : std::string(); };
  for (const ValueId id : values_of(Level::element)) code += element(id, each, resolve);
  for (const lower::Store* store : code_.direct) {
    const BufferId b = store->access.buffer;
    code +=
        std::string("    EACH if (") + in_both + ") " +
        store_statement(c_.program, store->access, e_.word(b), each, resolve.value(store->value), c_.places[b].unit) +
        "\n";
  }
  for (const auto& [even, odd] : code_.interleaved) {
    const BufferId b = even->access.buffer;
    const std::string x = array_of(phase_, even->value, "even" + str(even->value), resolve, "    ", code),
                      y = array_of(phase_, odd->value, "odd" + str(odd->value), resolve, "    ", code);
    const bool rows = !even->access.row_steps.empty();
    const char* const values = rows ? "$x[e], $y[e]" : "$x[e], $y[e], $x[e + 1], $y[e + 1]";
    code += fill("    #pragma unroll\n    for (int e = 0; e < 8; e += $step) if ($in) $store\n",
                 {{"step", rows ? "1" : "2"},
                  {"in", in_both},
                  {"store", store_statement(c_.program, even->access, e_.word(b), each,
                                            fill(values, {{"x", x}, {"y", y}}), !rows)}});
  }
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) code += reduce(r);
  for (std::size_t k = 0; k < code_.staged.size(); ++k) code += stage(k, resolve);
  for (std::size_t x = 0; x < keeps(); ++x) {
    const auto& [value, dtype] = c_.plan.kept[x];
    code +=
        "    EACH acc[" + str(x) + "][e] = " + rounded(resolve.value(value), phase_.code[value].type, dtype) + ";\n";
  }
  return code;
}

// Which map the k-th staged output leaves by; 0: none.
std::size_t FragmentWriter::map_of(std::size_t k) const {
  const auto first = code_.staged.begin(), staged = first + static_cast<std::ptrdiff_t>(k);
  const auto before = std::count_if(first, staged, [](const auto& one) { return one.by_map; });
  return staged->by_map ? 2 + e_.loaded.size() + code_.first_store + static_cast<std::size_t>(before) : 0;
}

// An output's elements into shared memory, packed as they are stored.
std::string FragmentWriter::stage(std::size_t k, const Resolve& resolve) {
  const FragmentCode::Staged& staged = code_.staged[k];
  const int size = bytes(staged.store->access.buffer);
  const std::string y = "y" + str(k), pack = "pack_" + storage_name(c_.dtype(staged.store->access.buffer));
  const std::string leave =
      fill("    fragment_store<$size>(p.map[$map], d + $offset * SUB_N, t, f, $y);\n",
           {{"size", str(size)}, {"map", str(map_of(k))}, {"offset", str(64 * staged.offset)}, {"y", y}});
  std::string code;
  const std::string o = array_of(phase_, staged.store->value, "o" + str(k), resolve, "    ", code);
  const FragmentCode::Value& stored = value(staged.store->value);
  const DType dtype = c_.dtype(staged.store->access.buffer);
  code += "    u32 " + y + "[" + str(size * 2) + "];\n";
  if (stored.byte && stored.narrow && dtype == DType::s8 && divides_rows(phase_.code[staged.store->value])) {
    code += "    pack_bounded(" + y + ", " + o + ", " + divisors(phase_.code[staged.store->value].args[1]) + ");\n";
    return code + leave;
  }
  code += "    #pragma unroll\n";
  if (size == 4) code += "    for (int e = 0; e < 8; ++e) " + y + "[e] = " + pack + "(" + o + "[e]);\n";
  if (size == 2)
    code += "    for (int e = 0; e < 8; e += 2) " + y + "[e / 2] = " + pack + "(" + o + "[e], " + o + "[e + 1]);\n";
  if (size == 1) {
    code += "    for (int e = 0; e < 8; e += 4) " + y + "[e / 4] = " + pack + "(" + o + "[e], " + o + "[e + 1]) | " +
            pack + "(" + o + "[e + 2], " + o + "[e + 3]) << 16;\n";
  }
  return code + leave;
}

// What the warp that staged it writes: rows that the copy engine cannot address.
std::string FragmentWriter::copy() {
  std::string code;
  for (const FragmentCode::Staged& staged : code_.staged) {
    if (staged.by_map) continue;
    const Access& access = staged.store->access;
    const std::string size = str(bytes(access.buffer)), at = "p.word[" + str(e_.word(access.buffer));
    code += fill(
        "    subtile_copy<$size>(d + $offset * SUB_N, [&](int r) { return $at] + $size * (t.batch * $at + 1] + "
        "memory_row(p, t.batch, row + r) * $at + 2] + $column); }, $size * $at + 2], tile_end(t.row, tile_rows(p, "
        "t.batch)) - row, tile_columns(p) - column, t);\n",
        {{"size", size},
         {"offset", str(64 * staged.offset)},
         {"at", at},
         {"column", column_expression(access.columns, "column", "tile_columns(p)")}});
  }
  return fill(R"(  METHOD void copy(const Params& p, const Tile& t, int group, int i, u32 d) {
    const i64 row = t.row + i * 64, column = t.col + group * SUB_N;
$code  }
)",
              {{"code", code}});
}

// Tile operands: by the copy engine into a stage, from there into registers.
std::string FragmentWriter::load_issue() {
  std::string expect, load;
  bool guarded = false;
  for (std::size_t k = 0; k < code_.loads.size(); ++k) {
    const FragmentCode::Load& from = code_.loads[k];
    const std::string size = str(bytes(from.buffer)), x = "x" + str(k), at = str(64 * from.offset) + " * SUB_N";
    members_ += "  u32 " + x + "[SUB_N / 16][" + size + " * 2];\n";
    load_ += fill(R"(    #pragma unroll
    for (int f = 0; f < SUB_N / 16; ++f) fragment_load<$size>(p.map[$map], aux + $at, t, f, $x[f]);
)",
                  {{"size", size}, {"map", str(2 + code_.first_load + k)}, {"at", at}, {"x", x}});
    const std::string condition = from.guard >= 0 ? "if (!u.v" + str(from.guard) + ") " : "";
    guarded = guarded || from.guard >= 0;
    expect += "    " + condition + "bytes += " + str(64 * bytes(from.buffer)) + " * SUB_N;\n";
    load += fill(
        "    ${condition}subtile_load<$size>(p.map[$map], slot + $at, bar, $row, $column, p.word[$stride] ? "
        "batch : 0, p);\n",
        {{"condition", condition},
         {"size", size},
         {"map", str(2 + code_.first_load + k)},
         {"at", at},
         {"row", map_place({from.row_steps}, "row")},
         {"column", map_place(from.columns, "col")},
         {"stride", str(e_.word(from.buffer) + 1)}});
  }
  if (load.empty()) return {};
  return fill(R"(  DEVICE_STATIC void load_issue(const Params& p, u32 slot, u32 bar, int row, int col, int batch) {
$uniform    u32 bytes = 0;
$expect    expect_subtiles(bar, bytes);
$load  }
)",
              {{"uniform", guarded ? "    " + uniform() + " u;\n    u.load(p, batch);\n" : ""},
               {"expect", expect},
               {"load", load}});
}

std::string FragmentWriter::store_issue() {
  std::string code;
  for (std::size_t k = 0; k < code_.staged.size(); ++k) {
    const FragmentCode::Staged& staged = code_.staged[k];
    if (!staged.by_map) continue;
    const Access& access = staged.store->access;
    code += fill("    subtile_store<$size>(p.map[$map], d + $offset * SUB_N, $row, $column, batch, p);\n",
                 {{"size", str(bytes(access.buffer))},
                  {"map", str(map_of(k))},
                  {"offset", str(64 * staged.offset)},
                  {"row", map_place({access.row_steps}, "row")},
                  {"column", map_place(access.columns, "col")}});
  }
  return "  DEVICE_STATIC void store_issue(const Params& p, u32 d, int row, int col, int batch) {\n" + code + "  }\n";
}

// What the kernels leave out where it is false; in capitals: gemm_source.cpp defines it.
std::string FragmentWriter::constants() const {
  const auto constant = [](const std::string& name, const std::string& value, const std::string& why) {
    return "  static constexpr bool " + name + " = " + value + ";  // " + why + "\n";
  };
  const std::string held = held_ ? "HELD_" : "";
  return "  static constexpr int keeps = " + str(keeps()) + ";  // values of each element, for Held\n" +
         constant("loads", held + "LOADS", "tile operands by the copy engine") +
         constant("stores", held + "STORES", "outputs by the copy engine") +
         constant("copies", held + "COPIES", "outputs that the warp that staged them writes");
}

std::string FragmentWriter::emit() {
  // In this order: members and parameter words are taken as the text asks for them.
  const std::string uniform = uniforms();
  const std::string rows = row_values();
  const std::string met = held_ ? emit_meeting(c_, [&](const auto& statistics) { return met_values(statistics); }) : "";
  const std::string ahead = prefetch(), body = fragment(), group = group_end(), last = end(), ended = rows_end(),
                    loads = load_issue(), stores = store_issue(), copied = copy();
  states();
  const std::string told = told_ahead_.empty() ? "" : "#if AGAIN\n    if (t.second) ask_ahead(p, t);\n#endif\n",
                    asked = told_ahead_.empty()
                                ? ""
                                : "#if AGAIN || PARKS\n  METHOD void ask_ahead(const Params& p, const Tile& t) {\n" +
                                      told_ahead_ + "  }\n#endif\n";
  const std::string meet =
      fill("  METHOD void meet(const Params& p, const Tile& t, const Epilogue& first, int group, int i) {\n$met  }\n",
           {{"met", met}});
  return fill(R"($uniform
// $comment
struct $name {
$constants$members$asked  // Before the main loop: what a tile needs from memory.
  METHOD void begin(const Params& p, const Tile& t) {
    u.load(p, t.batch);
$rows$told    columns(p, t, 0);
  }
  METHOD void columns(const Params& p, const Tile& t, int group) {
$ahead  }
  METHOD void advance() {
$advance  }
  METHOD void reset() {
$reset  }
$meet  METHOD void load(const Params& p, const Tile& t, u32 aux) {
$load  }
  METHOD void fragment(const Params& p, const Tile& t, int group, int i, int f, ACC (&acc)[PARTS][8], u32 d) {
$fragment_reset$body  }
$copied  METHOD void group_end(const Params& p, const Tile& t, int group) {
$group  }
  METHOD void rows_end(const Params& p, const Tile& t, int group, int i) {
$ended  }
  METHOD void end(const Params& p, const Tile& t) {
$last  }
$loads$stores};
)",
              {{"uniform", uniform},
               {"comment", held_ ? "What runs on the same registers once the statistics of a row are known."
                                 : "The epilogue of one consumer: row r (0..ROWS) of a thread is row tile_row(t, r) of "
                                   "the output."},
               {"name", held_ ? "Held" : "Epilogue"},
               {"constants", constants()},
               {"members", members_},
               {"rows", EpilogueCode::each_row(rows)},
               {"told", told},
               {"asked", asked},
               {"ahead", ahead},
               {"advance", advance_},
               {"reset", reset_},
               {"meet", held_ ? meet : ""},
               {"load", load_},
               {"fragment_reset", fragment_reset_},
               {"body", body},
               {"copied", copied},
               {"group", group},
               {"ended", ended},
               {"last", last},
               {"loads", loads},
               {"stores", stores}});
}

// Whether every element is a matter of its accumulator, what maps move beside it, and its column (`asks` being a row's
// level) or its row.
static bool takes_any(const FragmentCode& code, Level asks) {
  const lower::Phase& phase = *code.phase;
  for (std::size_t id = 0; id < phase.code.size(); ++id) {
    const Instruction& i = phase.code[id];
    const FragmentCode::Value& value = code.values[id];
    if (!value.wanted) continue;
    if (value.level == asks || i.op == Op::random || i.round == Round::stochastic) return false;
    const bool tile = value.level == Level::element && i.op == Op::operand;
    if (tile && (code.load_of(i.access) < 0 || !plain(i.access))) return false;
  }
  return phase.reductions.empty() && code.direct.empty() && code.interleaved.empty() &&
         std::all_of(code.loads.begin(), code.loads.end(),
                     [&](const auto& load) { return load.guard < 0 || asks == Level::column; }) &&
         std::all_of(code.staged.begin(), code.staged.end(),
                     [](const auto& staged) { return staged.by_map && plain(staged.store->access); });
}

FusedEpilogue emit_fragment(const Program& program, int index, const std::vector<BufferPlace>& places, Hold hold) {
  EpilogueCode code{program, places, plan_fragment(program, index, places, hold)};
  FusedEpilogue& e = code.host();
  e.pressure[0] = pressure_of(program, code.plan, code.plan.first);
  if (e.held >= 0) e.pressure[1] = pressure_of(program, code.plan, code.plan.held);
  e.needs.draws = e.pressure[0].draws || e.pressure[1].draws;
  const bool alone = e.held < 0 && e.needs.parts == 1;
  e.needs.any_rows = alone && takes_any(code.plan.first, Level::row);
  e.needs.any_columns = alone && takes_any(code.plan.first, Level::column);
  std::string structs;
  for (std::size_t r = 0; r < e.partials.size(); ++r) {
    const bool blocks = r >= code.phase().reductions.size();
    const Across across = e.partials[r].across;
    code.reducers.push_back(
        emit_reducer(blocks ? program.phases[e.block_phase] : code.phase(), code.reduction(r), static_cast<int>(r),
                     !blocks && (across == Across::rows || across == Across::groups), code.functions));
    structs += code.reducers.back().text;
  }
  if (!structs.empty()) structs = reduction_source() + structs;
  const std::string first = FragmentWriter(code, code.plan.first, false).emit();
  const std::string held = e.held < 0 ? "" : FragmentWriter(code, code.plan.held, true).emit();
  const std::string finish = emit_finish(code);
  e.text = code.functions.text() + structs + first + held + finish;
  return std::move(e);
}

}  // namespace postlude::inline v0::cuda
