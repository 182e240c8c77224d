#include "cuda/emit_fragment.h"

#include "cuda/emit_code.h"
#include "cuda/emit_reduce.h"
#include "cuda/emit_rows.h"

#include <algorithm>
#include <numeric>

namespace postlude::inline v0::cuda {
namespace {

using lower::Access;
using lower::BufferId;
using lower::Instruction;
using lower::Phase;
using lower::Program;
using lower::Reducer;
using lower::Reduction;
using lower::ValueId;

// What a value varies over, and so where its code stands.
enum class Level { uniform, row, column, element };

Level level_of(Axes axes) {
  if (axes.has(Axis::m)) return axes.has(Axis::n) ? Level::element : Level::row;
  return axes.has(Axis::n) ? Level::column : Level::uniform;
}

Across across_of(const Reduction& r) {
  if (!r.axes.has(Axis::m)) return Across::rows;
  return r.axes.has(Axis::n) ? Across::all : Across::columns;
}

Axes domain_of(Across across) {
  return across == Across::rows ? Axes(Axis::m) : across == Across::columns ? Axes(Axis::n) : Axes();
}

// The widest subtile of a schedule.
constexpr int widest_subtile = 64;

// Groups of a chunk that subtiles divide.
constexpr std::int64_t half_unit = 32;

// Whether the columns of a subtile lie side by side in the buffer: they are its own, or one half of a chunk's columns
// or groups.
bool beside(const Access& access) {
  const auto& map = access.columns;
  if (access.divide_rows != 1 || map.divide != 1 || map.steps.size() > 1) return false;
  return map.steps.empty() || map.steps[0].group == 0 || map.steps[0].group % (map.steps[0].pieces * half_unit) == 0;
}

// About how many instructions an element takes.
int operations(const Instruction& i) {
  switch (i.op) {
    case Op::acc:
    case Op::operand:
    case Op::constant: return 0;
    case Op::exp:
    case Op::exp2:
    case Op::div: return 10;
    case Op::log:
    case Op::log2:
    case Op::tanh: return 20;
    case Op::erf:
    case Op::expm1:
    case Op::log1p:
    case Op::random:
    case Op::sin:
    case Op::cos: return 40;
    case Op::pow: return 80;
    case Op::call: return 10;
    default: return 1;
  }
}

class FragmentWriter {
 public:
  FragmentWriter(const Program& program, int index, const std::vector<BufferPlace>& places, bool may_follow)
      : program_(program), phase_(program.phases[index]), index_(index), places_(places), may_follow_(may_follow) {}

  FusedEpilogue emit();

 private:
  // Parameters.
  int word(BufferId buffer) {
    if (out_.word_of[buffer] < 0) out_.word_of[buffer] = take_words(4);
    return out_.word_of[buffer];
  }
  int take_words(int count) {
    const int first = out_.words;
    out_.words += count;
    return first;
  }
  std::string pointer(int w, const std::string& type) { return "((" + type + "*)p.word[" + str(w) + "])"; }

  // Values.
  // How a value is written where code runs over rows (r), columns (c) or the elements (e) of a fragment.
  enum class Context { rows, columns, elements };
  std::string name(ValueId id, Context context) const {
    const std::string v = "v" + str(id);
    const bool elements = context == Context::elements;
    switch (level_[id]) {
      case Level::uniform: return "u." + v;
      case Level::row: return v + (elements ? "[2 * i + e / 2 % 2]" : "[r]");
      case Level::column: return v + (elements ? "[e / 4 * 2 + e % 2]" : "[c]");
      case Level::element: return v + "[e]";
    }
    return v;
  }
  std::string load(const Instruction& i, const Place& place) {
    const int w = word(i.access.buffer);
    return converted(load_expression(program_, i.access, w, place, places_[i.access.buffer].unit),
                     compute_type(program_.buffers[i.access.buffer].dtype), i.type);
  }
  std::string count(const Instruction& i, const Place& place) {
    return count_expression(i, place, "p.batch", "p.m", "p.word[" + str(out_.columns_word) + "]");
  }
  // A row operand whose columns are neighbours in memory: read one subtile ahead, so that its latency, which no
  // other warp of the scheduler hides, lies under a main loop or a subtile (bias_gelu at K = 1024: 1.05 of cuBLAS
  // without).
  bool is_prefetched(const Instruction& i) const {
    return i.op == Op::operand && i.guard < 0 && i.type == DType::f32 && level_of(i.axes) == Level::column &&
           i.access.columns.divide == 1 && places_[i.access.buffer].unit &&
           size_of(program_.buffers[i.access.buffer].dtype) >= 2 && is_float(program_.buffers[i.access.buffer].dtype) &&
           std::all_of(i.access.columns.steps.begin(), i.access.columns.steps.end(),
                       [](const auto& step) { return step.group == 0; });
  }
  // Of n_index() == label, with one i64 label a row, the label: compared in 32 bits. Else -1.
  ValueId label_of(const Instruction& i) const {
    if (i.op != Op::eq || i.guard >= 0) return -1;
    for (int k = 0; k < 2; ++k) {
      const Instruction& index = phase_.code[i.args[k]];
      if (index.op != Op::cast || index.type != DType::i64 || level_[i.args[1 - k]] != Level::row) continue;
      const Instruction& column = phase_.code[index.args[0]];
      if (column.op == Op::n_index && plain(column.access)) return i.args[1 - k];
    }
    return -1;
  }
  bool is_loaded_tile(const Instruction& i) const {
    if (i.op != Op::operand) return false;
    const auto& buffer = program_.buffers[i.access.buffer];
    return level_of(buffer.axes) == Level::element && beside(i.access) && places_[i.access.buffer].tensor_map;
  }
  std::size_t loaded_index(const Access& access) const {
    std::size_t k = 0;
    while (k < out_.loaded.size() && !(out_.loaded[k] == access.buffer && out_.columns[k] == access.columns)) ++k;
    return k;
  }
  int aux_offset(std::size_t k) const {  // bytes a column, of what stands before it in a stage
    int offset = 0;
    while (k-- > 0) offset += static_cast<int>(size_of(program_.buffers[out_.loaded[k]].dtype));
    return offset;
  }
  // The column of a map's tensor where a subtile at `col` begins. A half of all columns has a map of its own.
  static std::string map_column(const lower::ColumnMap& map) {
    return map.steps.empty() || map.steps[0].group == 0 ? "col" : column_expression(map, "col", "0");
  }
  void hold_together(const lower::ColumnMap& map) {
    if (!map.steps.empty() && map.steps[0].group) {
      const int half = static_cast<int>(map.steps[0].group / map.steps[0].pieces);
      out_.needs.run = out_.needs.run ? std::gcd(out_.needs.run, half) : half;
    }
  }

  void analyse();
  std::string uniforms();
  std::string row_values();
  std::string prefetch();
  std::string fragment();
  std::string reduce(int r);
  std::string group_end();
  std::string end();
  std::string finish(Across across, const std::string& i, const std::string& j, const std::string& indent);
  std::string issue();
  std::string copy();
  int following() const;
  std::string follow();

  const Program& program_;
  const Phase& phase_;
  int index_;
  const std::vector<BufferPlace>& places_;
  bool may_follow_;
  FusedEpilogue out_;
  std::vector<Level> level_;
  std::vector<bool> wanted_;
  std::vector<ReducerText> reducers_;
  std::vector<ValueId> load_guard_;  // the guard that all users of a value share: it is not loaded where that holds
  struct Staged {
    const lower::Store* store;
    bool by_map;  // leaves by the copy engine; else the warp that staged it writes its rows, which no alignment hinders
  };
  std::vector<Staged> staged_;
  std::vector<const lower::Store*> direct_;
  Functions functions_;
  int scratch_ = 0;       // bytes of shared memory
  std::string partials_;  // what a tile's end writes
};

void FragmentWriter::analyse() {
  out_.word_of.assign(program_.buffers.size(), -1);
  out_.columns_word = take_words(1);
  out_.needs.parts = accumulator_parts(phase_);
  for (const Instruction& i : phase_.code) {
    if (i.op != Op::acc || i.access.columns.steps.empty()) continue;
    out_.needs.half = static_cast<int>(i.access.columns.steps[0].group / 2);
    hold_together(i.access.columns);
  }
  for (const Instruction& i : phase_.code) level_.push_back(level_of(i.axes));
  wanted_ = needed(phase_, sinks(phase_, true, true));
  for (std::size_t id = 0; id < phase_.code.size(); ++id) {
    if (wanted_[id] && level_[id] == Level::element) out_.needs.operations += operations(phase_.code[id]);
  }
  for (const Reduction& r : phase_.reductions)
    out_.needs.operations += r.reducer == Reducer::online_softmax || r.reducer == Reducer::welford ? 12 : 6;

  // A load is guarded where all its users are guarded by one value.
  load_guard_.assign(phase_.code.size(), -1);
  std::vector<bool> free(phase_.code.size());
  for (const ValueId sink : sinks(phase_, true, true)) free[sink] = true;
  for (std::size_t id = 0; id < phase_.code.size(); ++id) {
    if (!wanted_[id]) continue;
    for (const ValueId arg : phase_.code[id].args) {
      const ValueId guard = phase_.code[id].guard;
      if (guard < 0 || (load_guard_[arg] >= 0 && load_guard_[arg] != guard)) free[arg] = true;
      load_guard_[arg] = guard;
    }
  }
  for (std::size_t id = 0; id < phase_.code.size(); ++id) {
    if (free[id]) load_guard_[id] = -1;
  }

  for (std::size_t id = 0; id < phase_.code.size(); ++id) {
    const Instruction& i = phase_.code[id];
    if (!wanted_[id] || !is_loaded_tile(i)) continue;
    if (loaded_index(i.access) < out_.loaded.size()) continue;
    out_.loaded.push_back(i.access.buffer);
    out_.columns.push_back(i.access.columns);
    hold_together(i.access.columns);
    out_.needs.aux_bytes_column += static_cast<int>(size_of(program_.buffers[i.access.buffer].dtype));
  }
  out_.needs.d_bytes_column = 0;
  for (const auto& store : phase_.stores) {
    const auto& buffer = program_.buffers[store.access.buffer];
    const BufferPlace& place = places_[store.access.buffer];
    const bool by_map = place.tensor_map, rows = place.unit && size_of(buffer.dtype) <= 4 && buffer.rows == Extent{};
    if (level_of(buffer.axes) != Level::element || !beside(store.access) || !(by_map || rows)) {
      direct_.push_back(&store);
      continue;
    }
    staged_.push_back({&store, by_map});
    if (by_map) out_.stored.push_back(store.access.buffer), out_.columns.push_back(store.access.columns);
    hold_together(store.access.columns);
    out_.copies = out_.copies || !by_map;
    out_.needs.d_bytes_column += static_cast<int>(size_of(buffer.dtype));
  }
  out_.stores = static_cast<int>(out_.stored.size());
  out_.maps = static_cast<int>(out_.loaded.size() + out_.stored.size());
  for (const BufferId buffer : out_.loaded) word(buffer);
  for (const BufferId buffer : out_.stored) word(buffer);

  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    reducers_.push_back(emit_reducer(phase_, phase_.reductions[r], static_cast<int>(r), functions_));
    const Across across = across_of(phase_.reductions[r]);
    out_.partials.push_back({across, reducers_.back().bytes, take_words(1)});
    out_.finishes[static_cast<int>(across)] = true;
  }

  // Small phases that follow from statistics of one kind alone.
  std::vector<int> owner(program_.buffers.size(), -1);  // Across of a statistic finished here; 3: made elsewhere
  for (std::size_t p = 0; p < program_.phases.size(); ++p) {
    for (const Reduction& r : program_.phases[p].reductions) {
      for (const BufferId b : r.results) {
        if (b >= 0) owner[b] = static_cast<int>(p) == index_ ? static_cast<int>(across_of(r)) : 3;
      }
    }
    if (static_cast<int>(p) == index_) continue;
    for (const auto& store : program_.phases[p].stores) owner[store.access.buffer] = 3;
  }
  for (const auto& store : phase_.stores) owner[store.access.buffer] = 3;
  for (std::size_t p = index_ + 1; p < program_.phases.size(); ++p) {
    const Phase& small = program_.phases[p];
    if (!small.reductions.empty() || (small.domain.has(Axis::m) && small.domain.has(Axis::n))) continue;
    const Across across = small.domain.has(Axis::m)   ? Across::rows
                          : small.domain.has(Axis::n) ? Across::columns
                                                      : Across::all;
    if (!out_.finishes[static_cast<int>(across)]) continue;
    bool here = small.rows == Extent{} && (across != Across::columns || small.columns == phase_.columns);
    for (const Instruction& i : small.code) {
      if (i.op != Op::operand) continue;
      const int from = owner[i.access.buffer];
      here = here && (from < 0 || from == static_cast<int>(across)) && (from < 0 || plain(i.access));
    }
    if (!here) continue;
    out_.finished.push_back(static_cast<int>(p));
    for (const auto& store : small.stores) owner[store.access.buffer] = static_cast<int>(across);
  }
  if (may_follow_) out_.following = following();
  if (out_.following < 0) return;
  out_.ready_word = take_words(1), out_.needs.follows = true;
  for (const Instruction& i : program_.phases[out_.following].code) {
    if (level_of(i.axes) == Level::element) out_.following_operations += operations(i);
  }
}

// The phase that can follow in this launch: the only one that is left, over the same tiles, of stores alone, which
// reads nothing of other rows but what was there before. -1: none.
int FragmentWriter::following() const {
  if (!direct_.empty() || out_.copies || out_.stored.empty() || !out_.finishes[0] || out_.finishes[1] ||
      out_.finishes[2])
    return -1;
  int found = -1;
  for (int p = index_ + 1; p < static_cast<int>(program_.phases.size()); ++p) {
    if (std::find(out_.finished.begin(), out_.finished.end(), p) != out_.finished.end()) continue;
    if (found >= 0) return -1;
    found = p;
  }
  if (found < 0) return -1;
  const Phase& next = program_.phases[found];
  if (!(next.domain == phase_.domain) || !next.reductions.empty() || next.reads_accumulator() ||
      next.batched != phase_.batched || !(next.rows == Extent{}) || !(next.columns == phase_.columns))
    return -1;
  for (const Instruction& i : next.code) {
    if (i.op != Op::operand) continue;
    const BufferId b = i.access.buffer;
    if (program_.buffers[b].axes.has(Axis::m) && i.access.divide_rows != 1) return -1;
    for (const int p : out_.finished) {
      for (const auto& store : program_.phases[p].stores) {
        if (store.access.buffer == b) return -1;
      }
    }
    const bool stored = std::find(out_.stored.begin(), out_.stored.end(), b) != out_.stored.end();
    if (stored && !(plain(i.access) && places_[b].wide && i.guard < 0)) return -1;
  }
  return found;
}

// The rows of that phase: eight a time, by four warps that fold the partials of two each.
std::string FragmentWriter::follow() {
  Wide wide;
  wide.columns.assign(program_.phases.size(), std::int64_t{1} << 20);
  RowsAround around;
  around.word = [&](BufferId b) { return word(b); };
  around.columns = "p.word[" + str(out_.columns_word) + "]";
  around.written.assign(program_.buffers.size(), false);
  around.statistics.assign(program_.buffers.size(), {});
  for (const BufferPlace& place : places_) wide.buffers.push_back(place.wide);
  for (const BufferId b : out_.stored) around.written[b] = true;
  std::string parameters, states, arguments, lanes;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    const ReducerText& text = reducers_[r];
    const std::string s = text.type, name = "s" + str(r);
    parameters += ", const " + s + "& " + name;
    states += "  const " + s + " " + name + " = fold_lanes<" + s + ">(gather(" +
              pointer(out_.partials[r].word, "const " + s) +
              " + ((i64)b * p.tiles_n + from) * p.m + row, (p.tiles_n - from + 15) / 16, 16ll * p.m), 1, 16);\n";
    std::string list;
    for (std::size_t k = 0; k < text.components.size(); ++k)
      list += (k ? ", " : "") + ("__shfl_sync(~0u, x.c" + str(k) + ", lane)");
    lanes += "DEVICE " + s + " of_lane(const " + s + "& x, int lane) { return {" + list + "}; }\n";
    arguments += ", of_lane(" + name + ", 16 * h)";
    for (std::size_t k = 0; k < phase_.reductions[r].results.size(); ++k) {
      if (const BufferId b = phase_.reductions[r].results[k]; b >= 0) around.statistics[b] = text.component(name, k);
    }
  }
  const std::string body = emit_following(program_, out_.following, wide, around, functions_);
  const std::string small = finish(Across::rows, "i", "0", "    ");
  return "#define READY_WORD " + str(out_.ready_word) + "\n" + lanes +
         "DEVICE void follow_row(const Params& p, int b, int i, int t" + parameters + ") {\n" + body +
         (small.empty() ? "" : "  if (t == 0) {\n    const struct { int batch; } t{b};\n" + small + "  }\n") + "}\n" +
         "DEVICE void follow_strip(const Params& p, int b, int first, int warp, int lane) {\n"
         "  const int row = min(first + 2 * warp + lane / 16, p.m - 1), from = lane % 16;\n" +
         states +
         "  #pragma unroll 1\n  for (int h = 0; h < 2; ++h)\n    if (first + 2 * warp + h < p.m) follow_row(p, b, "
         "first + 2 * warp + h, lane" +
         arguments + ");\n}\n";
}

std::string FragmentWriter::uniforms() {
  std::string members, code;
  const Place place{"batch", "0", "0", "p.n"};
  const Resolve resolve{[&](ValueId id) { return "v" + str(id); },
                        [&](const Instruction& i) { return i.op == Op::get ? count(i, place) : load(i, place); }};
  for (ValueId id = 0; id < static_cast<ValueId>(phase_.code.size()); ++id) {
    if (!wanted_[id] || level_[id] != Level::uniform) continue;
    members += "  " + device_type(phase_.code[id].type) + " v" + str(id) + ";\n";
    code += "    v" + str(id) + " = " + right_hand_side(phase_, id, place, resolve, functions_) + ";\n";
  }
  return "// What is the same for all elements of a batch.\nstruct Uniform {\n" + members +
         "  METHOD void load(const Params& p, int batch) {\n" + code + "  }\n};\n";
}

std::string FragmentWriter::row_values() {
  const Place inside{"t.batch", "row_in", "0", "p.n"}, place{"t.batch", "row", "0", "p.n"};
  const Resolve resolve{[&](ValueId id) { return name(id, Context::rows); },
                        [&](const Instruction& i) { return i.op == Op::get ? count(i, place) : load(i, inside); }};
  std::string code;
  for (ValueId id = 0; id < static_cast<ValueId>(phase_.code.size()); ++id) {
    if (!wanted_[id] || level_[id] != Level::row) continue;
    code +=
        "      " + name(id, Context::rows) + " = " + right_hand_side(phase_, id, place, resolve, functions_) + ";\n";
  }
  if (code.empty()) return {};
  return "    #pragma unroll\n    for (int r = 0; r < ROWS; ++r) {\n      const int row = tile_row(t, r), row_in = "
         "min(row, p.m - 1);\n" +
         code + "    }\n";
}

// A fragment's elements into the states of reduction r. Of its eight elements e, those of a row h are {0, 1, 4, 5} + 2
// h, those of a column c {0, 2} + c / 2 * 4 + c % 2.
std::string FragmentWriter::reduce(int r) {
  const Reduction& reduction = phase_.reductions[r];
  const Across across = across_of(reduction);
  const ReducerText& text = reducers_[r];
  const bool rows = across == Across::rows, columns = across == Across::columns;
  const std::string states = rows ? "2" : columns ? "4" : "1", size = rows ? "4" : columns ? "2" : "8";
  const std::string element = rows ? "q / 2 * 4 + s * 2 + q % 2" : columns ? "s / 2 * 4 + q * 2 + s % 2" : "q";
  const std::string state = "red" + str(r) + (rows ? "[2 * i + s]" : columns ? "[4 * f + s]" : "");
  const std::string in_n = "in_columns[e / 4 * 2 + e % 2]", in_m = "in_rows[e / 2 % 2]";
  const std::string in = rows ? in_n : columns ? in_m : in_n + " && " + in_m;
  std::string code;
  for (const auto& piece : reduction.pieces) {
    std::vector<std::string> args;
    for (const ValueId value : piece.args) args.push_back(name(value, Context::elements));
    const BlockAddition a = text.addition({.size = size, .index = "q", .in = in, .ordered = rows}, args, state);
    code += "    #pragma unroll\n    for (int s = 0; s < " + states + "; ++s) {\n      " + a.declared +
            "\n      #pragma unroll\n      for (int q = 0; q < " + size + "; ++q) {\n        const int e = " + element +
            ";\n        " + a.filled + "\n      }\n      " + a.added + "\n    }\n";
  }
  return code;
}

std::string FragmentWriter::prefetch() {
  std::string code;
  for (std::size_t id = 0; id < phase_.code.size(); ++id) {
    const Instruction& i = phase_.code[id];
    if (!wanted_[id] || !is_prefetched(i)) continue;
    const bool pair = places_[i.access.buffer].pair;
    const auto at = [&](const std::string& column) {
      return address_arguments(word(i.access.buffer), program_.batched ? "t.batch" : "", "",
                               column_expression(i.access.columns, column, "p.n"), true);
    };
    code += "      q" + str(id) + "[1][k] = " + (pair ? "pair_" : "split_") +
            storage_name(program_.buffers[i.access.buffer].dtype) + "(" +
            (pair ? at("column") : at("left") + ", " + at("right")) + ");\n";
  }
  if (code.empty()) return {};
  return "    #pragma unroll\n    for (int k = 0; k < SUB_N / 8; ++k) {\n"
         "      const int at = t.col + group * SUB_N + k / 2 * 16 + k % 2 * 8 + 2 * (t.lane % 4), column = WHOLE_N ? "
         "at : min(at, p.n - 2);\n"
         "      const int left = WHOLE_N ? at : min(at, p.n - 1), right = WHOLE_N ? at + 1 : min(at + 1, p.n - 1);\n" +
         code + "    }\n";
}

std::string FragmentWriter::fragment() {
  const Place inside{"t.batch", "row_in", "column_in", "p.n"}, place{"t.batch", "row", "column", "p.n"};
  std::string code;
  code +=
      "    int columns[4], columns_in[4], rows[2], rows_in[2];\n    bool in_columns[4], in_rows[2];\n"
      "    const int first = opaque(t.col + group * SUB_N + f * 16 + 2 * (t.lane % 4));\n"
      "    #pragma unroll\n    for (int c = 0; c < 4; ++c) {\n"
      "      columns[c] = first + c / 2 * 8 + c % 2;\n"
      "      in_columns[c] = WHOLE_N || columns[c] < p.n, columns_in[c] = WHOLE_N ? columns[c] : min(columns[c], p.n - "
      "1);\n    }\n"
      "    #pragma unroll\n    for (int h = 0; h < 2; ++h) {\n      rows[h] = tile_row(t, 2 * i + h);\n"
      "      in_rows[h] = WHOLE_M || rows[h] < p.m, rows_in[h] = WHOLE_M ? rows[h] : min(rows[h], p.m - 1);\n    }\n";

  // Per column: neighbours together where memory allows it.
  std::string declared, loop;
  for (ValueId id = 0; id < static_cast<ValueId>(phase_.code.size()); ++id) {
    if (!wanted_[id] || level_[id] != Level::column) continue;
    const Instruction& i = phase_.code[id];
    declared += "    " + device_type(i.type) + " v" + str(id) + "[4];\n";
    if (is_prefetched(i)) {
      const std::string type = storage_name(program_.buffers[i.access.buffer].dtype), v = "v" + str(id);
      declared += "    #pragma unroll\n    for (int c = 0; c < 2; ++c) unpair_" + type + "(q" + str(id) +
                  "[0][2 * f + c], " + v + "[2 * c], " + v + "[2 * c + 1]);\n";
      continue;
    }
    const Resolve resolve{
        [&](ValueId v) { return name(v, Context::columns); },
        [&](const Instruction& leaf) { return leaf.op == Op::get ? count(leaf, place) : load(leaf, inside); }};
    loop += "      v" + str(id) + "[c] = " + right_hand_side(phase_, id, place, resolve, functions_) + ";\n";
  }
  code += declared;
  if (!loop.empty()) {
    code +=
        "    #pragma unroll\n    for (int c = 0; c < 4; ++c) {\n      const int column = columns[c], column_in = "
        "columns_in[c];\n" +
        loop + "    }\n";
  }

  const Place each{"t.batch", "rows[e / 2 % 2]", "columns[e / 4 * 2 + e % 2]", "p.n"};
  const Place each_in{"t.batch", "rows_in[e / 2 % 2]", "columns_in[e / 4 * 2 + e % 2]", "p.n"};
  const Resolve resolve{[&](ValueId id) { return name(id, Context::elements); },
                        [&](const Instruction& i) -> std::string {
                          if (i.op == Op::get) return count(i, each);
                          if (i.op == Op::acc) {
                            const std::string part =
                                str(i.access.columns.steps.empty() ? 0 : i.access.columns.steps[0].piece);
                            return converted("acc[" + part + "][e]", program_.accumulator, i.type);
                          }
                          if (!is_loaded_tile(i)) return load(i, each_in);
                          const DType dtype = program_.buffers[i.access.buffer].dtype;
                          return converted("bits_" + storage_name(dtype) + "(fragment_element<" + str(size_of(dtype)) +
                                               ">(x" + str(loaded_index(i.access)) + "[f], e))",
                                           compute_type(dtype), i.type);
                        },
                        [&](ValueId id) { return level_[id] == Level::element ? "v" + str(id) : std::string(); }};
  for (ValueId id = 0; id < static_cast<ValueId>(phase_.code.size()); ++id) {
    if (!wanted_[id] || level_[id] != Level::element) continue;
    if (const ValueId label = label_of(phase_.code[id]); label >= 0) {
      const std::string v = "v" + str(id);
      code += "    bool " + v + "[8];\n    EACH " + v + "[e] = columns[e / 4 * 2 + e % 2] == as_column(" +
              name(label, Context::elements) + ");\n";
    } else {
      code += array_statements(phase_, id, each, resolve, functions_, "    ");
    }
  }
  for (const lower::Store* store : direct_) {
    const int w = word(store->access.buffer);
    code += "    EACH if (in_columns[e / 4 * 2 + e % 2] && in_rows[e / 2 % 2]) " +
            store_statement(program_, store->access, w, each, name(store->value, Context::elements),
                            places_[store->access.buffer].unit) +
            "\n";
  }
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) code += reduce(static_cast<int>(r));

  int offset = 0;
  for (std::size_t k = 0; k < staged_.size(); ++k) {
    const DType dtype = program_.buffers[staged_[k].store->access.buffer].dtype;
    const int size = static_cast<int>(size_of(dtype));
    const std::string y = "y" + str(k), pack = "pack_" + storage_name(dtype);
    const std::string o = array_of(phase_, staged_[k].store->value, "o" + str(k), resolve, "    ", code);
    code += "    u32 " + y + "[" + str(size * 2) + "];\n    #pragma unroll\n";
    if (size == 4) code += "    for (int e = 0; e < 8; ++e) " + y + "[e] = " + pack + "(" + o + "[e]);\n";
    if (size == 2)
      code += "    for (int e = 0; e < 8; e += 2) " + y + "[e / 2] = " + pack + "(" + o + "[e], " + o + "[e + 1]);\n";
    if (size == 1) {
      code += "    for (int e = 0; e < 8; e += 4) " + y + "[e / 4] = " + pack + "(" + o + "[e], " + o + "[e + 1]) | " +
              pack + "(" + o + "[e + 2], " + o + "[e + 3]) << 16;\n";
    }
    code += "    fragment_store<" + str(size) + ">(d + " + str(64 * offset) + " * SUB_N, t, f, " + y + ");\n";
    offset += size;
  }
  return code;
}

std::string FragmentWriter::group_end() {
  std::string write, read;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    if (across_of(phase_.reductions[r]) != Across::columns) continue;
    const std::string s = reducers_[r].type, red = "red" + str(r), shared = "shared" + str(r);
    write += "    fold_rows<" + s + ", SUB_N / 4>(" + red + ", t.lane);\n    " + s + "* " + shared +
             " = shared_pointer<" + s + ">(t.scratch + " + str(scratch_) + ") + group % 2 * 4 * SUB_N;\n" +
             "    #pragma unroll\n    for (int k = 0; k < SUB_N / 32; ++k) {\n      const int q = "
             "folded_column(t.lane, SUB_N / 4) + k;\n" +
             "      " + shared + "[t.warp * SUB_N + q / 4 * 16 + q % 4 / 2 * 8 + 2 * (t.lane % 4) + q % 2] = " + red +
             "[k];\n    }\n";
    read += "      {\n        " + s + " x = " + shared +
            "[t.thread];\n        #pragma unroll\n        for (int w = 1; w < 4; ++w) x = " + s + "::combine(x, " +
            shared + "[w * SUB_N + t.thread]);\n        " + pointer(out_.partials[r].word, s) +
            "[((i64)t.batch * SLOTS_M + t.slot_m) * p.n + column] = x;\n      }\n";
    scratch_ += 2 * 4 * widest_subtile * reducers_[r].bytes;
    scratch_ = (scratch_ + 15) / 16 * 16;
  }
  if (write.empty()) return {};
  return write + "    named_sync(t.barrier, 128);\n    const int column = t.col + group * SUB_N + t.thread;\n" +
         "    if (t.thread < SUB_N && column < p.n) {\n" + read + "    }\n";
}

// What stands where the partials of one row, one column, or of all are folded: store the statistics that launches after
// this one read, and run the small phases.
std::string FragmentWriter::finish(Across across, const std::string& i, const std::string& j,
                                   const std::string& indent) {
  std::string code;
  const Place place{"t.batch", i, j, "p.n"};
  std::vector<bool> read_later(program_.buffers.size());
  for (std::size_t p = index_ + 1; p < program_.phases.size(); ++p) {
    if (static_cast<int>(p) == out_.following ||
        std::find(out_.finished.begin(), out_.finished.end(), static_cast<int>(p)) != out_.finished.end())
      continue;
    for (const Instruction& instruction : program_.phases[p].code) {
      if (instruction.op == Op::operand) read_later[instruction.access.buffer] = true;
    }
  }
  std::vector<std::string> statistic(program_.buffers.size());
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    if (across_of(phase_.reductions[r]) != across) continue;
    for (std::size_t k = 0; k < phase_.reductions[r].results.size(); ++k) {
      const BufferId b = phase_.reductions[r].results[k];
      if (b < 0) continue;
      statistic[b] = reducers_[r].component("s" + str(r), k);
      if (read_later[b] || program_.buffers[b].kind == lower::BufferKind::output) {
        Access access;
        access.buffer = b;
        code += indent + store_statement(program_, access, word(b), place, statistic[b], false) + "\n";
      }
    }
  }
  for (const int p : out_.finished) {
    const Phase& small = program_.phases[p];
    if (!(small.domain == domain_of(across))) continue;
    const std::string prefix = "p" + str(p) + "_v";
    const Resolve resolve{[&](ValueId id) { return prefix + str(id); },
                          [&](const Instruction& x) -> std::string {
                            if (x.op == Op::get) return count(x, place);
                            const BufferId b = x.access.buffer;
                            if (!statistic[b].empty())
                              return converted(statistic[b], compute_type(program_.buffers[b].dtype), x.type);
                            return load(x, place);
                          }};
    code += declarations(small, needed(small, sinks(small, true, false)), place, resolve, functions_, indent);
    for (const auto& store : small.stores) {
      code +=
          indent +
          store_statement(program_, store.access, word(store.access.buffer), place, prefix + str(store.value), false) +
          "\n";
    }
  }
  return code;
}

std::string FragmentWriter::end() {
  std::string code;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    if (across_of(phase_.reductions[r]) != Across::rows) continue;
    const std::string s = reducers_[r].type;
    code += "    #pragma unroll\n    for (int r = 0; r < ROWS; ++r) {\n      const " + s + " x = fold_lanes<" + s +
            ">(red" + str(r) +
            "[r], 1, 4);\n      const int row = tile_row(t, r);\n      if (t.lane % 4 == 0 && row < p.m) " +
            pointer(out_.partials[r].word, s) + "[((i64)t.batch * p.tiles_n + t.tile_n) * p.m + row] = x;\n    }\n";
  }
  std::string write, read;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    if (across_of(phase_.reductions[r]) != Across::all) continue;
    const std::string s = reducers_[r].type, shared = "all" + str(r);
    write += "    " + s + "* " + shared + " = shared_pointer<" + s + ">(t.scratch + " + str(scratch_) +
             ");\n    {\n      const " + s + " x = fold_lanes<" + s + ">(red" + str(r) +
             ", 1, 32);\n      if (t.lane == 0) " + shared + "[t.warp] = x;\n    }\n";
    read += "      " + pointer(out_.partials[r].word, s) +
            "[((i64)t.batch * SLOTS_M + t.slot_m) * p.tiles_n + t.tile_n] = " + s + "::combine(" + s + "::combine(" +
            shared + "[0], " + shared + "[1]), " + s + "::combine(" + shared + "[2], " + shared + "[3]));\n";
    scratch_ += (4 * reducers_[r].bytes + 15) / 16 * 16;
  }
  if (!write.empty()) code += write + "    named_sync(t.barrier, 128);\n    if (t.thread == 0) {\n" + read + "    }\n";

  const auto gathers = [&](Across across, const std::string& indent, const auto& code_of) {
    std::string text;
    for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
      if (across_of(phase_.reductions[r]) == across)
        text += indent + "const " + reducers_[r].type + " s" + str(r) + " = " + code_of(r) + ";\n";
    }
    return text;
  };
  partials_ = std::move(code);
  if (phase_.reductions.empty()) return {};
  if (out_.following >= 0) return follow();

  // A second, small kernel: it folds the partials in index order and runs the small phases. Doing this in the last
  // block to arrive needs a fence a tile at device scope, which cost rowmax a fifth of its time at K = 1024.
  code =
      "extern \"C\" __global__ void __launch_bounds__(256) postlude_finish(const __grid_constant__ Params p) {\n"
      "  follow_previous_launch();\n  struct { int batch; } t;\n  int block = blockIdx.x;\n  const int part = "
      "threadIdx.x / 32, lane = threadIdx.x % 32;\n";
  if (out_.finishes[0]) {
    // Four rows a warp, each by eight lanes.
    code +=
        "  {\n    const int blocks = (p.m + 31) / 32;\n    if (block < blocks * p.batch) {\n      t.batch = block / "
        "blocks;\n"
        "      const int row = block % blocks * 32 + part * 4 + lane % 4, from = lane / 4, row_in = min(row, p.m - "
        "1);\n" +
        gathers(Across::rows, "      ",
                [&](std::size_t r) {
                  const std::string s = reducers_[r].type;
                  return "fold_lanes<" + s + ">(gather(" + pointer(out_.partials[r].word, "const " + s) +
                         " + ((i64)t.batch * p.tiles_n + from) * p.m + row_in, (p.tiles_n - from + 7) / 8, 8ll * p.m), "
                         "4, 32)";
                }) +
        "      if (row < p.m && from == 0) {\n" + finish(Across::rows, "row", "0", "        ") +
        "      }\n      return;\n    }\n    block -= blocks * p.batch;\n  }\n";
  }
  if (out_.finishes[1]) {
    // 32 columns a block, eight warps each a part of their partials.
    std::string shared, folded;
    for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
      if (across_of(phase_.reductions[r]) != Across::columns) continue;
      const std::string s = reducers_[r].type, c = "c" + str(r);
      shared += "      __shared__ " + s + " " + c + "[256];\n      " + c + "[threadIdx.x] = column < p.n ? gather(" +
                pointer(out_.partials[r].word, "const " + s) +
                " + ((i64)t.batch * SLOTS_M + from) * p.n + column, to - from, p.n) : " + s + "::identity();\n";
    }
    folded = gathers(Across::columns, "        ",
                     [&](std::size_t r) { return "fold_shared<32, 8>(c" + str(r) + " + lane)"; });
    code +=
        "  {\n    const int blocks = (p.n + 31) / 32;\n    if (block < blocks * p.batch) {\n      t.batch = block / "
        "blocks;\n"
        "      const int column = block % blocks * 32 + lane;\n"
        "      const int from = int((i64)SLOTS_M * part / 8), to = int((i64)SLOTS_M * (part + 1) / 8);\n" +
        shared + "      __syncthreads();\n      if (part == 0 && column < p.n) {\n" + folded +
        finish(Across::columns, "0", "column", "        ") +
        "      }\n      return;\n    }\n    block -= blocks * p.batch;\n  }\n";
  }
  if (out_.finishes[2]) {
    // Each thread gathers every 256th tile in order; lanes and warps are then folded in theirs.
    std::string fold;
    for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
      if (across_of(phase_.reductions[r]) != Across::all) continue;
      const std::string s = reducers_[r].type, all = "all" + str(r);
      fold += "  __shared__ " + s + " " + all +
              "[8];\n  {\n    const i64 tiles = (i64)SLOTS_M * p.tiles_n;\n    const " + s + " x = fold_lanes<" + s +
              ">(gather(" + pointer(out_.partials[r].word, "const " + s) +
              " + t.batch * tiles + threadIdx.x, int((tiles - threadIdx.x + 255) / 256), 256), 1, 32);\n" +
              "    if (lane == 0) " + all + "[part] = x;\n  }\n";
    }
    code += "  t.batch = block;\n" + fold + "  __syncthreads();\n  if (threadIdx.x == 0) {\n" +
            gathers(Across::all, "    ", [&](std::size_t r) { return "fold_shared<1, 8>(all" + str(r) + ")"; }) +
            finish(Across::all, "0", "0", "    ") + "  }\n";
  }
  return code + "}\n";
}

// What the warp that staged it writes: rows that the copy engine cannot address.
std::string FragmentWriter::copy() {
  std::string code;
  int offset = 0;
  for (const Staged& staged : staged_) {
    const BufferId b = staged.store->access.buffer;
    const std::string size = str(size_of(program_.buffers[b].dtype)), at = "p.word[" + str(word(b));
    if (!staged.by_map) {
      code += "    subtile_copy<" + size + ">(d + " + str(64 * offset) + " * SUB_N, " + at + "] + " + size +
              " * (t.batch * " + at + " + 1] + row * " + at + " + 2] + " +
              column_expression(staged.store->access.columns, "column", "p.n") + "), " + size + " * " + at +
              " + 2], p.m - row, p.n - column, t);\n";
    }
    offset += static_cast<int>(size_of(program_.buffers[b].dtype));
  }
  if (code.empty()) return {};
  return "  METHOD void copy(const Params& p, const Tile& t, int group, int i, u32 d) {\n"
         "    const i64 row = t.row + i * 64, column = t.col + group * SUB_N;\n" +
         code + "  }\n";
}

std::string FragmentWriter::issue() {
  std::string load, store;
  int bytes = 0;
  bool uniform = false;
  for (std::size_t k = 0; k < out_.loaded.size(); ++k) {
    const BufferId b = out_.loaded[k];
    const int size = static_cast<int>(size_of(program_.buffers[b].dtype));
    // Guarded only if every load by this map is, by the same value.
    ValueId guard = -2;
    for (std::size_t id = 0; id < phase_.code.size(); ++id) {
      if (!wanted_[id] || !is_loaded_tile(phase_.code[id]) || loaded_index(phase_.code[id].access) != k) continue;
      guard = guard == -2 || guard == load_guard_[id] ? load_guard_[id] : -1;
    }
    const std::string condition = guard >= 0 ? "if (!u.v" + str(guard) + ") " : "";
    uniform = uniform || guard >= 0;
    load += "  " + condition + "bytes += " + str(64 * size) + " * SUB_N;\n";
    store += "  " + condition + "subtile_load<" + str(size) + ">(p.map[" + str(2 + static_cast<int>(k)) + "], slot + " +
             str(64 * bytes) + " * SUB_N, bar, row, " + map_column(out_.columns[k]) + ", p.word[" + str(word(b) + 1) +
             "] ? batch : 0);\n";
    bytes += size;
  }
  std::string text;
  if (!out_.loaded.empty()) {
    text += "DEVICE void aux_issue(const Params& p, u32 slot, u32 bar, int row, int col, int batch) {\n" +
            std::string(uniform ? "  Uniform u;\n  u.load(p, batch);\n" : "") + "  u32 bytes = 0;\n" + load +
            "  mbarrier_expect(bar, bytes);\n" + store + "}\n";
  }
  if (!out_.stored.empty()) {
    text += "DEVICE void store_issue(const Params& p, u32 d, int row, int col, int batch) {\n";
    int offset = 0;
    std::size_t map = 2 + out_.loaded.size();
    for (const Staged& staged : staged_) {
      const int size = static_cast<int>(size_of(program_.buffers[staged.store->access.buffer].dtype));
      if (staged.by_map) {
        text += "  subtile_store<" + str(size) + ">(p.map[" + str(map++) + "], d + " + str(64 * offset) +
                " * SUB_N, row, " + map_column(staged.store->access.columns) + ", batch);\n";
      }
      offset += size;
    }
    text += "}\n";
  }
  return text;
}

FusedEpilogue FragmentWriter::emit() {
  analyse();
  const std::string uniform = uniforms(), rows = row_values(), ahead = prefetch(), body = fragment(),
                    group = group_end(), last = end(), issued = issue(), copied = copy();
  std::string members = "  Uniform u;\n", reset, fragment_reset, advance;
  for (ValueId id = 0; id < static_cast<ValueId>(phase_.code.size()); ++id) {
    if (wanted_[id] && level_[id] == Level::row)
      members += "  " + device_type(phase_.code[id].type) + " v" + str(id) + "[ROWS];\n";
  }
  for (std::size_t id = 0; id < phase_.code.size(); ++id) {
    if (!wanted_[id] || !is_prefetched(phase_.code[id])) continue;
    members += "  " + std::string(size_of(program_.buffers[phase_.code[id].access.buffer].dtype) == 4 ? "u64" : "u32") +
               " q" + str(id) + "[2][SUB_N / 8];\n";
    const std::string q = "q" + str(id);
    advance += "    #pragma unroll\n    for (int k = 0; k < SUB_N / 8; ++k) " + q + "[0][k] = " + q + "[1][k];\n";
  }
  std::string load;
  for (std::size_t k = 0; k < out_.loaded.size(); ++k) {
    const std::string size = str(size_of(program_.buffers[out_.loaded[k]].dtype)), x = "x" + str(k);
    members += "  u32 " + x + "[SUB_N / 16][" + size + " * 2];\n";
    load += "    #pragma unroll\n    for (int f = 0; f < SUB_N / 16; ++f) fragment_load<" + size + ">(aux + " +
            str(64 * aux_offset(k)) + " * SUB_N, t, f, " + x + "[f]);\n";
  }
  std::string structs;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    const std::string s = reducers_[r].type, red = "red" + str(r);
    structs += reducers_[r].text;
    switch (across_of(phase_.reductions[r])) {
      case Across::rows:
        members += "  " + s + " " + red + "[ROWS];\n";
        reset += "    #pragma unroll\n    for (int r = 0; r < ROWS; ++r) " + red + "[r] = " + s + "::identity();\n";
        break;
      case Across::columns:
        members += "  " + s + " " + red + "[SUB_N / 4];\n";
        fragment_reset += "    if (i == 0) {\n      #pragma unroll\n      for (int c = 0; c < 4; ++c) " + red +
                          "[4 * f + c] = " + s + "::identity();\n    }\n";
        break;
      case Across::all:
        members += "  " + s + " " + red + ";\n";
        reset += "    " + red + " = " + s + "::identity();\n";
        break;
    }
  }
  const bool reduces = !phase_.reductions.empty();
  out_.needs.scratch_bytes = reduces ? (scratch_ + 127) / 128 * 128 : 0;
  out_.text = functions_.text() + (reduces ? reduction_source() + structs : std::string()) + uniform +
              "\n// The epilogue of one consumer: row r (0..ROWS) of a thread is row tile_row(t, r) of the "
              "output.\nstruct Epilogue {\n" +
              members +
              "  // Before the main loop: what a tile needs from memory.\n"
              "  METHOD void begin(const Params& p, const Tile& t) {\n    u.load(p, t.batch);\n" +
              rows + "    columns(p, t, 0);\n  }\n" +
              "  METHOD void columns(const Params& p, const Tile& t, int group) {\n" + ahead + "  }\n" +
              "  METHOD void advance() {\n" + advance + "  }\n" + "  METHOD void reset() {\n" + reset + "  }\n" +
              "  METHOD void load(const Tile& t, u32 aux) {\n" + load + "  }\n" +
              "  METHOD void fragment(const Params& p, const Tile& t, int group, int i, int f, const ACC "
              "(&acc)[PARTS][8], u32 d) {\n" +
              fragment_reset + body + "  }\n" + copied +
              "  METHOD void group_end(const Params& p, const Tile& t, int group) {\n" + group + "  }\n" +
              "  METHOD void end(const Params& p, const Tile& t) {\n" + partials_ + "  }\n};\n" + issued + last;
  return std::move(out_);
}

}  // namespace

int accumulator_parts(const Phase& phase) {
  for (const Instruction& i : phase.code) {
    if (i.op == Op::acc && !i.access.columns.steps.empty()) return 2;
  }
  return 1;
}

std::string not_fusable(const Program& program, int index) {
  const Phase& phase = program.phases[index];
  if (!(phase.domain == (Axis::m | Axis::n)) || !phase.reads_accumulator())
    return "the phase does not run over the product's tiles";
  if (!(phase.rows == Extent{})) return "the phase has other rows than the product";
  const int parts = accumulator_parts(phase);
  std::int64_t group = -1;
  for (const Instruction& i : phase.code) {
    if (i.op != Op::acc) continue;
    const auto& map = i.access.columns;
    const bool halves = beside(i.access) && map.steps.size() == 1 && map.steps[0].pieces == 2 &&
                        (group < 0 || map.steps[0].group == group);
    if (parts == 2 ? !halves : !map.identity())
      return "the accumulator is chunked otherwise than in halves of N, or of one group that 64 columns divide";
    if (halves) group = map.steps[0].group;
  }
  for (const Reduction& r : phase.reductions) {
    if (r.axes.has(Axis::b)) return "a reduction goes across the batch";
    if (r.group) return "a reduction is grouped";
    for (const auto& piece : r.pieces) {
      if (!r.axes.has(Axis::n) && !piece.columns.identity()) return "a reduction over M keeps chunked columns";
    }
  }
  return {};
}

FusedEpilogue emit_fragment(const Program& program, int index, const std::vector<BufferPlace>& places,
                            bool may_follow) {
  return FragmentWriter(program, index, places, may_follow).emit();
}

}  // namespace postlude::inline v0::cuda
