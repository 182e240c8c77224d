#include "cuda/emit/fragment.h"

#include "cuda/emit/finish.h"

namespace postlude::inline v0::cuda {
namespace {

using lower::Access;
using lower::BufferId;
using lower::Instruction;
using lower::Phase;
using lower::Program;
using lower::ValueId;

// Whether element e of a fragment lies in a column, in a row, in both.
constexpr const char *in_column = "in_columns[e / 4 * 2 + e % 2]", *in_row = "in_rows[e / 2 % 2]",
                     *in_both = "in_columns[e / 4 * 2 + e % 2] && in_rows[e / 2 % 2]";

// The code of one phase: that behind the main loop, or the one that is held.
class FragmentWriter {
 public:
  FragmentWriter(EpilogueCode& code, const FragmentCode& of, bool held)
      : c_(code), e_(code.host()), code_(of), phase_(*of.phase), held_(held) {}

  std::string emit();

 private:
  [[nodiscard]] const FragmentCode::Value& value(ValueId id) const { return code_.values[id]; }
  [[nodiscard]] std::size_t keeps() const { return held_ ? 0 : c_.plan.kept.size(); }
  [[nodiscard]] std::string uniform() const { return held_ ? "HeldUniform" : "Uniform"; }
  // The instructions of a level that something needs.
  [[nodiscard]] std::vector<ValueId> values_of(Level level) const;
  // How a value is written where code runs over the rows (r), the columns (c) or the elements (e) of a fragment.
  [[nodiscard]] std::string name(ValueId id, Level where) const {
    const std::string v = "v" + str(id);
    const bool elements = where == Level::element;
    switch (value(id).level) {
      case Level::uniform: return "u." + v;
      case Level::row: return v + (elements ? "[2 * i + e / 2 % 2]" : "[r]");
      case Level::column: return v + (elements ? "[e / 4 * 2 + e % 2]" : "[c]");
      case Level::element: return v + "[e]";
    }
    return v;
  }
  // The column of a map's tensor where a subtile at `col` begins. A half of all columns has a map of its own.
  static std::string map_column(const lower::ColumnMap& map) {
    return map.steps.empty() || map.steps[0].group == 0 ? "col" : column_expression(map, "col", "0");
  }
  std::string uniforms();
  std::string row_values();
  std::string met_values(const std::vector<std::string>& statistics);
  std::string row_values(bool met, const Place& place, const Place& inside, const std::vector<std::string>& statistics);
  std::string prefetch();
  std::string column_values();
  [[nodiscard]] std::string drawn(ValueId id, bool words) const;
  std::string fragment();
  std::string stage(std::size_t k, const Resolve& resolve);
  std::string reduce(std::size_t r);
  std::string group_end();
  std::string rows_end();
  [[nodiscard]] std::string constants() const;
  std::string end();
  std::string load_issue();
  std::string store_issue();
  std::string copy();
  void states();
  Resolve resolve(Level where, const Place& place, const Place& inside);
  [[nodiscard]] int bytes(BufferId buffer) const { return static_cast<int>(size_of(c_.dtype(buffer))); }

  EpilogueCode& c_;
  FusedEpilogue& e_;
  const FragmentCode& code_;
  const Phase& phase_;
  bool held_;
  // Members of the struct, and what its functions do with them.
  std::string members_ = "  " + uniform() + " u;\n", reset_, fragment_reset_, advance_, load_;
};

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
  return "// What is the same for all elements of a batch.\nstruct " + uniform() + " {\n" + members +
         "  METHOD void load(const Params& p, int batch) {\n" + code + "  }\n};\n";
}

// `inside`: where loads are clamped to.
Resolve FragmentWriter::resolve(Level where, const Place& place, const Place& inside) {
  return {[=, this](ValueId id) { return name(id, where); },
          [=, this](const Instruction& i) { return c_.leaf(i, i.op == Op::get ? place : inside); }};
}

// What there is of a row r, once.
std::string FragmentWriter::row_values() {
  return row_values(false, {"t.batch", "row", "0", "tile_columns(p)", "memory_row"},
                    {"t.batch", "row_in", "0", "tile_columns(p)", "memory_row"},
                    std::vector<std::string>(c_.program.buffers.size()));
}

// What there is of it (in a group of columns, that of `column`) when its statistics are known: as code, by buffer.
std::string FragmentWriter::met_values(const std::vector<std::string>& statistics) {
  return row_values(true, {"t.batch", "row", "column", "tile_columns(p)", "memory_row"},
                    {"t.batch", "row_in", "column_in", "tile_columns(p)", "memory_row"}, statistics);
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
  }
  return code;
}

// A fragment's elements into the states of reduction r. Of its eight elements e, those of a row h are {0, 1, 4, 5} + 2
// h, those of a column c {0, 2} + c / 2 * 4 + c % 2.
std::string FragmentWriter::reduce(std::size_t r) {
  const Across across = e_.partials[r].across;
  const bool rows = across == Across::rows || across == Across::groups, columns = across == Across::columns;
  const std::string states = rows ? "2" : columns ? "4" : "1", size = rows ? "4" : columns ? "2" : "8";
  const std::string element = rows ? "q / 2 * 4 + s * 2 + q % 2" : columns ? "s / 2 * 4 + q * 2 + s % 2" : "q";
  const std::string state = "red" + str(r) + (rows ? "[2 * i + s]" : columns ? "[4 * f + s]" : "");
  const std::string in = rows ? in_column : columns ? in_row : in_both;
  std::string code;
  for (const auto& piece : phase_.reductions[r].pieces) {
    std::vector<std::string> args;
    for (const ValueId arg : piece.args) args.push_back(name(arg, Level::element));
    if (rows && keeps() && phase_.reductions[r].reducer == lower::Reducer::online_softmax) {
      // A subtile's elements at a time, as the state is scaled anew for each block of them. Where they are not kept
      // anyway they take registers that a large tile does not have (8192^3, xent: 1.01 of cuBLAS for 0.96).
      const std::string all = "all" + str(r) + "_" + str(&piece - phase_.reductions[r].pieces.data());
      members_ += "  float " + all + "[2][SUB_N / 4];\n";
      code += "    EACH " + all + "[e / 2 % 2][4 * f + e / 4 * 2 + e % 2] = " + in + " ? " + args[0] +
              " : (-INF);\n    if (f == SUB_N / 16 - 1) {\n      #pragma unroll\n      for (int s = 0; s < 2; ++s) "
              "softmax_add(" +
              state + ", " + all + "[s]);\n    }\n";
      continue;
    }
    Block block{.size = size, .index = "q", .in = in, .ordered = rows, .lane = "t.lane"};
    block.share = rows ? "Share::row" : columns ? "Share::column" : "Share::nothing";
    if (&piece == phase_.reductions[r].pieces.data())
      block.first = rows ? "f == 0 && group % SPAN == 0" : columns ? "i == 0" : "f == 0 && group == 0 && i == 0";
    const auto factor = [&](int k) { return name(phase_.code[piece.args[0]].args[k], Level::element); };
    const BlockAddition a = value(piece.args[0]).folded ? c_.reducers[r].products(block, factor(0), factor(1), state)
                                                        : c_.reducers[r].addition(block, args, state);
    code += "    #pragma unroll\n    for (int s = 0; s < " + states + "; ++s) {\n      " + a.declared +
            "\n      #pragma unroll\n      for (int q = 0; q < " + size + "; ++q) {\n        const int e = " + element +
            ";\n        " + a.filled + "\n      }\n      " + a.added + "\n    }\n";
  }
  return code;
}

// Row operands that are read ahead: q[1] is on its way while q[0] is used.
std::string FragmentWriter::prefetch() {
  std::string code;
  for (const ValueId id : values_of(Level::column)) {
    if (!value(id).prefetched) continue;
    const Access& access = phase_.code[id].access;
    const DType dtype = c_.dtype(access.buffer);
    const bool pair = c_.places[access.buffer].pair;
    const auto at = [&](const std::string& column) {
      return address_arguments(e_.word(access.buffer), c_.program.batched ? "t.batch" : "", "",
                               column_expression(access.columns, column, "tile_columns(p)"), true);
    };
    const std::string q = "q" + str(id);
    members_ += "  " + std::string(size_of(dtype) == 4 ? "u64" : "u32") + " " + q + "[2][SUB_N / 8];\n";
    advance_ += "    #pragma unroll\n    for (int k = 0; k < SUB_N / 8; ++k) " + q + "[0][k] = " + q + "[1][k];\n";
    code += "      " + q + "[1][k] = " + (pair ? "pair_" : "split_") + storage_name(dtype) + "(" +
            (pair ? at("column") : at("left") + ", " + at("right")) + ");\n";
  }
  if (code.empty()) return {};
  return "    const int first = opaque(t.col + group * SUB_N + 2 * (t.lane % 4));\n"
         "    #pragma unroll\n    for (int k = 0; k < SUB_N / 8; ++k) {\n"
         "      const int at = first + k / 2 * 16 + k % 2 * 8, column = WHOLE_N ? at : min(at, tile_columns(p) - 2);\n"
         "      const int left = WHOLE_N ? at : min(at, tile_columns(p) - 1), right = WHOLE_N ? at + 1 : min(at + 1, "
         "tile_columns(p) - 1);\n" +
         code + "    }\n";
}

std::string FragmentWriter::column_values() {
  const Place place{"t.batch", "row", "column", "tile_columns(p)", "memory_row"};
  const Resolve resolve =
      this->resolve(Level::column, place, {"t.batch", "row_in", "column_in", "tile_columns(p)", "memory_row"});
  std::string declared, loop;
  for (const ValueId id : values_of(Level::column)) {
    const Instruction& i = phase_.code[id];
    const std::string v = "v" + str(id);
    declared += "    " + device_type(i.type) + " " + v + "[4];\n";
    if (value(id).prefetched) {
      declared += "    #pragma unroll\n    for (int c = 0; c < 2; ++c) unpair_" +
                  storage_name(c_.dtype(i.access.buffer)) + "(q" + str(id) + "[0][2 * f + c], " + v + "[2 * c], " + v +
                  "[2 * c + 1]);\n";
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

// The numbers of a fragment (or their words) that an instruction draws.
std::string FragmentWriter::drawn(ValueId id, bool words) const {
  const Instruction& i = phase_.code[id];
  const auto column = [&](const char* of) { return column_expression(i.access.columns, of, "tile_columns(p)"); };
  const std::string u = "u" + str(id);
  return std::string(words ? "    u32 " : "    float ") + u + "[8];\n    random_" + (words ? "words" : "fragment") +
         "(" + u + ", " + random_key(i) + ", " + (i.batched ? "t.batch" : "0") + ", rows[0], " + column("columns[0]") +
         ", " + column("columns[2]") + ");\n";
}

std::string FragmentWriter::fragment() {
  std::string code =
      "    int columns[4], columns_in[4], rows[2], rows_in[2];\n    bool in_columns[4], in_rows[2];\n"
      "    const int first = opaque(t.col + group * SUB_N + f * 16 + 2 * (t.lane % 4));\n"
      "    #pragma unroll\n    for (int c = 0; c < 4; ++c) {\n"
      "      columns[c] = first + c / 2 * 8 + c % 2;\n"
      "      in_columns[c] = WHOLE_N || columns[c] < tile_columns(p), columns_in[c] = WHOLE_N ? columns[c] : "
      "min(columns[c], tile_columns(p) - "
      "1);\n    }\n"
      "    #pragma unroll\n    for (int h = 0; h < 2; ++h) {\n      rows[h] = tile_row(t, 2 * i + h);\n"
      "      in_rows[h] = WHOLE_M || rows[h] < tile_rows(p, t.batch), rows_in[h] = WHOLE_M ? rows[h] : min(rows[h], "
      "tile_rows(p, t.batch) - 1);\n    }\n" +
      column_values();
  const Place each{"t.batch", "rows[e / 2 % 2]", "columns[e / 4 * 2 + e % 2]", "tile_columns(p)", "memory_row"};
  Resolve resolve = this->resolve(
      Level::element, each,
      {"t.batch", "rows_in[e / 2 % 2]", "columns_in[e / 4 * 2 + e % 2]", "tile_columns(p)", "memory_row"});
  resolve.leaf = [this, memory = resolve.leaf](const Instruction& i) {
    const auto& steps = i.access.columns.steps;
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
  for (const ValueId id : values_of(Level::element)) {
    if (const ValueId label = value(id).label; label >= 0) {
      const std::string v = "v" + str(id);
      code += "    bool " + v + "[8];\n    EACH " + v + "[e] = columns[e / 4 * 2 + e % 2] == as_column(" +
              resolve.value(label) + ");\n";
    } else if (std::any_of(code_.logarithms.begin(), code_.logarithms.end(),
                           [&](const auto& l) { return l.value == id; })) {
      const std::string v = "v" + str(id), x = "factors" + str(id);
      code += "    float " + x + "[8];\n    EACH " + x + "[e] = " + in_both + " ? " +
              resolve.value(phase_.code[id].args[0]) + " : 1.f;\n    log" + str(id) + ".add(" + x + ");\n";
      if (!value(id).folded) code += "    float " + v + "[8];\n    EACH " + v + "[e] = 0.f;\n";
    } else if (value(id).folded) {
      continue;
    } else if (const std::int64_t below = value(id).below; below >= 0) {
      const auto& args = phase_.code[id].args;
      const ValueId random = phase_.code[args[0]].op == Op::random ? args[0] : args[1];
      const std::string v = "v" + str(id);
      code += drawn(random, true) + "    bool " + v + "[8];\n    EACH " + v +
              "[e] = " + (value(id).not_below ? "!" : "") +
              (below >> 32  ? "(true)"
               : below == 0 ? "(false)"
                            : "(u" + str(random) + "[e] < " + str(below) + "u)") +
              ";\n";
    } else if (value(id).weight) {
      const auto& args = phase_.code[id].args;
      const std::string v = "v" + str(id);
      code += "    float " + v + "[8];\n    EACH " + v + "[e] = softmax_weight(" + resolve.value(args[0]) + ", " +
              resolve.value(args[1]) + ");\n";
    } else if (const Instruction& i = phase_.code[id];
               vector_form(phase_, i) == "vec_div" && value(i.args[1]).level < Level::column) {
      const std::string v = "v" + str(id), by = "v" + str(i.args[1]);
      const auto divisor = [&](const std::string& row) {
        return value(i.args[1]).level == Level::row ? by + "[2 * i" + row + "]" : "u." + by;
      };
      code += "    float " + v + "[8];\n";
      const std::string dividend = array_of(phase_, i.args[0], v + "_0", resolve, "    ", code);
      code += std::string("    ") + (value(id).narrow ? "vec_div_narrow(" : "vec_div_rows(") + v + ", " + dividend +
              ", " + divisor("") + ", " + divisor(" + 1") + ");\n";
    } else {
      Place place = each;
      if (value(id).drawn) code += drawn(id, false), place.random = "u" + str(id) + "[e]";
      code += array_statements(phase_, id, place, resolve, c_.functions, "    ");
    }
  }
  for (const lower::Store* store : code_.direct) {
    const BufferId b = store->access.buffer;
    code +=
        std::string("    EACH if (") + in_both + ") " +
        store_statement(c_.program, store->access, e_.word(b), each, resolve.value(store->value), c_.places[b].unit) +
        "\n";
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

// An output's elements into shared memory, packed as they are stored.
std::string FragmentWriter::stage(std::size_t k, const Resolve& resolve) {
  const FragmentCode::Staged& staged = code_.staged[k];
  const int size = bytes(staged.store->access.buffer);
  const std::string y = "y" + str(k), pack = "pack_" + storage_name(c_.dtype(staged.store->access.buffer));
  std::string code;
  const std::string o = array_of(phase_, staged.store->value, "o" + str(k), resolve, "    ", code);
  code += "    u32 " + y + "[" + str(size * 2) + "];\n    #pragma unroll\n";
  if (size == 4) code += "    for (int e = 0; e < 8; ++e) " + y + "[e] = " + pack + "(" + o + "[e]);\n";
  if (size == 2)
    code += "    for (int e = 0; e < 8; e += 2) " + y + "[e / 2] = " + pack + "(" + o + "[e], " + o + "[e + 1]);\n";
  if (size == 1) {
    code += "    for (int e = 0; e < 8; e += 4) " + y + "[e / 4] = " + pack + "(" + o + "[e], " + o + "[e + 1]) | " +
            pack + "(" + o + "[e + 2], " + o + "[e + 3]) << 16;\n";
  }
  return code + "    fragment_store<" + str(size) + ">(d + " + str(64 * staged.offset) + " * SUB_N, t, f, " + y +
         ");\n";
}

// The states that a thread keeps, and where they begin.
void FragmentWriter::states() {
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    const std::string s = c_.reducers[r].gathered, red = "red" + str(r);
    switch (e_.partials[r].across) {
      case Across::rows:
        members_ += "  " + s + " " + red + "[ROWS];\n";
        reset_ += "    #pragma unroll\n    for (int r = 0; r < ROWS; ++r) " + red + "[r] = " + s + "::identity();\n";
        break;
      case Across::columns:
        members_ += "  " + s + " " + red + "[SUB_N / 4];\n";
        fragment_reset_ += "    if (i == 0) {\n      #pragma unroll\n      for (int c = 0; c < 4; ++c) " + red +
                           "[4 * f + c] = " + s + "::identity();\n    }\n";
        break;
      case Across::all:
        members_ += "  " + s + " " + red + ";\n";
        reset_ += "    " + red + " = " + s + "::identity();\n";
        break;
      case Across::groups:
        members_ += "  " + s + " " + red + "[ROWS];\n  " + c_.reducers[r].type + " of_group" + str(r) + "[ROWS];\n";
        fragment_reset_ += "    if (f == 0 && group % SPAN == 0) " + red + "[2 * i] = " + red + "[2 * i + 1] = " + s +
                           "::identity();\n";
        break;
    }
  }
  for (const auto& l : code_.logarithms) {
    const std::string log = "log" + str(l.value);
    members_ += "  LogSum " + log + ";\n", reset_ += "    " + log + ".reset();\n";
  }
}

// The states of a subtile's columns: folded over the consumer's rows, then written.
std::string FragmentWriter::group_end() {
  std::string write, read;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    if (e_.partials[r].across != Across::columns) continue;
    const std::string s = c_.reducers[r].type, red = "red" + str(r), shared = "shared" + str(r);
    write += "    fold_rows<" + c_.reducers[r].gathered + ", SUB_N / 4>(" + red + ", t.lane);\n    " + s + "* " +
             shared + " = shared_pointer<" + s + ">(t.scratch + " + str(e_.partials[r].scratch) +
             ") + folding_half(t, group) * 4 * SUB_N;\n" +
             "    #pragma unroll\n    for (int k = 0; k < SUB_N / 32; ++k) {\n      const int q = "
             "folded_column(t.lane, SUB_N / 4) + k;\n" +
             "      " + shared + "[t.warp * SUB_N + q / 4 * 16 + q % 4 / 2 * 8 + 2 * (t.lane % 4) + q % 2] = settled<" +
             s + ">(" + red + "[k]);\n    }\n";
    read += "      {\n        " + s + " x = " + shared +
            "[t.thread];\n        #pragma unroll\n        for (int w = 1; w < 4; ++w) x = " + s + "::combine(x, " +
            shared + "[w * SUB_N + t.thread]);\n        " + c_.partials(r, s) +
            "[column_partial(p, slots_in(p), t.batch, t.slot_m, column)] = x;\n      }\n";
  }
  if (write.empty()) return {};
  return write + "    named_sync(t.barrier, 128);\n    const int column = t.col + group * SUB_N + t.thread;\n" +
         "    if (t.thread < SUB_N && column < tile_columns(p)) {\n" + read + "    }\n";
}

// The states of 64 rows: those of a group are whole, and used; others are told to the tiles beside this one.
std::string FragmentWriter::rows_end() {
  if (held_) return {};
  if (e_.needs.group) return emit_group_end(c_);
  if (e_.held < 0) return {};
  std::string code;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    const std::string s = c_.reducers[r].type, x = "x" + str(r);
    code += "      const " + s + " " + x + " = " + c_.reducers[r].lanes("fold_lanes", "red" + str(r) + "[r]", "1, 4") +
            ";\n      if (t.lane % 4 == 0 && row < tile_rows(p, t.batch)) tell(p.word[" + str(e_.partials[r].word) +
            "], told_index(p, t.batch, row, t.tile_n), " + x + ", t.tag);\n";
  }
  return EpilogueCode::each_row(code, true) + "    move_nothing_across(never(p));  // else it is told late\n";
}

// The states of a tile's rows and of all of it.
std::string FragmentWriter::end() {
  std::string code, write, read;
  for (const auto& l : code_.logarithms) {
    const std::string s = c_.reducers[l.reduction].type, red = "red" + str(l.reduction);
    code += "    " + red + " = " + s + "::combine(" + red + ", " + s + "::lift(" + (l.negative ? "-" : "") + "log" +
            str(l.value) + ".value()));\n";
  }
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    const std::string s = c_.reducers[r].type, red = "red" + str(r), shared = "all" + str(r);
    if (e_.partials[r].across == Across::rows && !e_.needs.holds) {
      code += EpilogueCode::each_row("      const " + s +
                                     " x = " + c_.reducers[r].lanes("combine_lanes", red + "[r]", "1, 4") +
                                     ";\n      if (t.lane % 4 == 0 && row < tile_rows(p, t.batch)) " +
                                     c_.partials(r, s) + "[row_partial(p, t.batch, t.tile_n, row)] = x;\n");
    } else if (e_.partials[r].across == Across::all) {
      write += "    " + s + "* " + shared + " = shared_pointer<" + s + ">(t.scratch + " + str(e_.partials[r].scratch) +
               ") + t.turn * 4;\n    {\n      const " + s + " x = fold_lanes<" + s + ">(settled<" + s + ">(" + red +
               "), 1, 32);\n      if (t.lane == 0) " + shared + "[t.warp] = x;\n    }\n";
      read += "      " + c_.partials(r, s) + "[tile_partial(p, slots_in(p), t.batch, t.slot_m, t.tile_n)] = " + s +
              "::combine(" + s + "::combine(" + shared + "[0], " + shared + "[1]), " + s + "::combine(" + shared +
              "[2], " + shared + "[3]));\n";
    }
  }
  if (write.empty()) return code;
  return code + write + "    named_sync(t.barrier, 128);\n    if (t.thread == 0) {\n" + read + "    }\n";
}

// What the warp that staged it writes: rows that the copy engine cannot address.
std::string FragmentWriter::copy() {
  std::string code;
  for (const FragmentCode::Staged& staged : code_.staged) {
    if (staged.by_map) continue;
    const Access& access = staged.store->access;
    const std::string size = str(bytes(access.buffer)), at = "p.word[" + str(e_.word(access.buffer));
    code += "    subtile_copy<" + size + ">(d + " + str(64 * staged.offset) + " * SUB_N, " + at + "] + " + size +
            " * (t.batch * " + at + " + 1] + memory_row(p, t.batch, row) * " + at + " + 2] + " +
            column_expression(access.columns, "column", "tile_columns(p)") + "), " + size + " * " + at +
            " + 2], tile_rows(p, t.batch) - row, tile_columns(p) - column, t);\n";
  }
  return "  METHOD void copy(const Params& p, const Tile& t, int group, int i, u32 d) {\n"
         "    const i64 row = t.row + i * 64, column = t.col + group * SUB_N;\n" +
         code + "  }\n";
}

// Tile operands: by the copy engine into a stage, from there into registers.
std::string FragmentWriter::load_issue() {
  std::string expect, load;
  bool guarded = false;
  for (std::size_t k = 0; k < code_.loads.size(); ++k) {
    const FragmentCode::Load& from = code_.loads[k];
    const std::string size = str(bytes(from.buffer)), x = "x" + str(k), at = str(64 * from.offset) + " * SUB_N";
    members_ += "  u32 " + x + "[SUB_N / 16][" + size + " * 2];\n";
    load_ += "    #pragma unroll\n    for (int f = 0; f < SUB_N / 16; ++f) fragment_load<" + size + ">(aux + " + at +
             ", t, f, " + x + "[f]);\n";
    const std::string condition = from.guard >= 0 ? "if (!u.v" + str(from.guard) + ") " : "";
    guarded = guarded || from.guard >= 0;
    expect += "    " + condition + "bytes += " + str(64 * bytes(from.buffer)) + " * SUB_N;\n";
    load += "    " + condition + "subtile_load<" + size + ">(p.map[" + str(2 + code_.first_load + k) + "], slot + " +
            at + ", bar, row, " + map_column(from.columns) + ", p.word[" + str(e_.word(from.buffer) + 1) +
            "] ? batch : 0, p);\n";
  }
  if (load.empty()) return {};
  return "  DEVICE_STATIC void load_issue(const Params& p, u32 slot, u32 bar, int row, int col, int batch) {\n" +
         std::string(guarded ? "    " + uniform() + " u;\n    u.load(p, batch);\n" : "") + "    u32 bytes = 0;\n" +
         expect + "    mbarrier_expect(bar, bytes);\n" + load + "  }\n";
}

std::string FragmentWriter::store_issue() {
  std::string code;
  std::size_t map = 2 + e_.loaded.size() + code_.first_store;
  for (const FragmentCode::Staged& staged : code_.staged) {
    if (!staged.by_map) continue;
    const Access& access = staged.store->access;
    code += "    subtile_store<" + str(bytes(access.buffer)) + ">(p.map[" + str(map++) + "], d + " +
            str(64 * staged.offset) + " * SUB_N, row, " + map_column(access.columns) + ", batch, p);\n";
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
  return uniform +
         (held_ ? "\n// What runs on the same registers once the statistics of a row are known.\nstruct Held {\n"
                : "\n// The epilogue of one consumer: row r (0..ROWS) of a thread is row tile_row(t, r) of the "
                  "output.\nstruct Epilogue {\n") +
         constants() + members_ +
         "  // Before the main loop: what a tile needs from memory.\n"
         "  METHOD void begin(const Params& p, const Tile& t) {\n    u.load(p, t.batch);\n" +
         EpilogueCode::each_row(rows) + "    columns(p, t, 0);\n  }\n" +
         "  METHOD void columns(const Params& p, const Tile& t, int group) {\n" + ahead + "  }\n" +
         "  METHOD void advance() {\n" + advance_ + "  }\n" + "  METHOD void reset() {\n" + reset_ + "  }\n" +
         (held_ ? "  METHOD void meet(const Params& p, const Tile& t, const Epilogue& first, int group, int i) {\n" +
                      met + "  }\n"
                : "") +
         "  METHOD void load(const Tile& t, u32 aux) {\n" + load_ + "  }\n" +
         "  METHOD void fragment(const Params& p, const Tile& t, int group, int i, int f, ACC (&acc)[PARTS][8], u32 d) "
         "{\n" +
         fragment_reset_ + body + "  }\n" + copied +
         "  METHOD void group_end(const Params& p, const Tile& t, int group) {\n" + group + "  }\n" +
         "  METHOD void rows_end(const Params& p, const Tile& t, int group, int i) {\n" + ended + "  }\n" +
         "  METHOD void end(const Params& p, const Tile& t) {\n" + last + "  }\n" + loads + stores + "};\n";
}

}  // namespace

FusedEpilogue emit_fragment(const Program& program, int index, const std::vector<BufferPlace>& places, Hold hold) {
  EpilogueCode code{program, places, plan_fragment(program, index, places, hold)};
  FusedEpilogue& e = code.host();
  std::string structs;
  for (std::size_t r = 0; r < code.phase().reductions.size(); ++r) {
    code.reducers.push_back(
        emit_reducer(code.phase(), code.phase().reductions[r], static_cast<int>(r), code.functions));
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
