#include "cuda/emit/rows.h"

#include "core/divide.h"
#include "core/fill.h"
#include "cuda/emit/reduce.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace postlude::inline v0::cuda {
namespace {

using lower::Access;
using lower::BufferId;
using lower::BufferKind;
using lower::Instruction;
using lower::Phase;
using lower::Program;
using lower::Reducer;
using lower::Reduction;
using lower::ValueId;

bool along(const Phase& phase, ValueId id) { return phase.code[id].axes.has(Axis::n); }

// Registers of a thread that may hold a row, of the 64 that 1024 threads leave each.
constexpr int row_registers = 32;

bool row_local(const Phase& phase) {
  if (!phase.domain.has(Axis::m)) return false;
  return std::all_of(phase.reductions.begin(), phase.reductions.end(),
                     [](const Reduction& r) { return r.axes == Axes(Axis::n) && r.group == 0; });
}

// A load that is made for a whole run of columns, before anything is computed.
struct EarlyLoad {
  bool accumulator;
  Access access;
  bool wide;
  bool operator==(const EarlyLoad& other) const { return accumulator == other.accumulator && access == other.access; }
};

bool loads_early(const Instruction& i, const std::vector<bool>& written) {
  if (i.guard >= 0 || !i.axes.has(Axis::n)) return false;
  return i.op == Op::acc || (i.op == Op::operand && !written[i.access.buffer]);
}

EarlyLoad early_load(const Program& program, const Instruction& i, const Wide& wide) {
  const bool accumulator = i.op == Op::acc;
  const bool vectors = plain(i.access) && (accumulator ? wide.accumulator : wide.buffers[i.access.buffer]) &&
                       (accumulator || program.buffers[i.access.buffer].axes.has(Axis::n));
  Access access = i.access;
  if (accumulator) access.buffer = -1;
  return {accumulator, access, vectors};
}

std::vector<ValueId> sinks_of(const Phase& phase, const RowPhase& row) { return sinks(phase, true, row.reductions); }

bool read_in(const Program& program, const std::vector<RowPhase>& phases, BufferId buffer) {
  return std::any_of(phases.begin(), phases.end(),
                     [&](const RowPhase& row) { return program.phases[row.phase].loads(buffer); });
}

// Of each buffer, whether a phase beside these loads it.
std::vector<bool> read_outside(const Program& program, const std::vector<RowPhase>& phases) {
  std::vector<bool> inside(program.phases.size()), read(program.buffers.size());
  for (const RowPhase& row : phases) inside[row.phase] = true;
  for (std::size_t p = 0; p < inside.size(); ++p) {
    if (inside[p]) continue;
    for (const lower::Instruction& i : program.phases[p].code) {
      if (i.op == Op::operand) read[i.access.buffer] = true;
    }
  }
  return read;
}

// What the run loads, each once.
std::vector<EarlyLoad> early_loads(const Program& program, const std::vector<RowPhase>& phases, const Wide& wide) {
  std::vector<EarlyLoad> found;
  std::vector<bool> written(program.buffers.size());
  for (const RowPhase& row : phases) {
    const Phase& phase = program.phases[row.phase];
    const std::vector<bool> wanted = needed(phase, sinks_of(phase, row));
    for (std::size_t id = 0; id < phase.code.size(); ++id) {
      if (!wanted[id] || !loads_early(phase.code[id], written)) continue;
      const EarlyLoad one = early_load(program, phase.code[id], wide);
      if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
    }
    for (const auto& store : phase.stores) written[store.access.buffer] = true;
  }
  return found;
}

// How many more such arrays the values take that cross within the run.
int crossings(const Program& program, const std::vector<RowPhase>& phases) {
  std::int64_t count = 0;
  for (const RowPhase& row : phases) {
    const Phase& phase = program.phases[row.phase];
    if (!phase.domain.has(Axis::n)) continue;
    count += std::count_if(phase.stores.begin(), phase.stores.end(),
                           [&](const lower::Store& s) { return read_in(program, phases, s.access.buffer); });
  }
  return static_cast<int>(count);
}

// So long that loads are nothing beside it, and that it takes a compiler seconds for each of a thread's elements.
bool is_very_long(const Phase& phase) {
  int instructions = 0;
  for (const Instruction& i : phase.code) instructions += info(i.op).instructions;
  return instructions > most_instructions;
}

// How a run lies on threads; nothing where a row does not fit.
std::optional<RowGrid> grid_of(const Program& program, const std::vector<RowPhase>& phases, const Wide& wide) {
  RowGrid grid;
  std::int64_t columns = 0;
  bool reduces = phases.size() > 1, by_row = false;
  int passes = 0;
  for (const RowPhase& row : phases) {
    const Phase& phase = program.phases[row.phase];
    if (is_very_long(phase)) return {};
    if (phase.domain.has(Axis::n)) columns = wide.columns[row.phase], ++passes;
    reduces = reduces || (row.reductions && !phase.reductions.empty());
    by_row = by_row || std::any_of(phase.code.begin(), phase.code.end(),
                                   [](const Instruction& i) { return i.axes.has(Axis::m) && !i.axes.has(Axis::n); });
  }
  if (columns == 0) return {};
  const std::vector<EarlyLoad> early = early_loads(program, phases, wide);
  // Four bytes an element go in fours, so that neighbouring threads read neighbouring 16 bytes.
  bool any = false, fours = false;
  for (const EarlyLoad& h : early) {
    any = any || h.wide;
    fours = fours || (h.wide && size_of(h.accumulator ? wide.source : program.buffers[h.access.buffer].dtype) == 4);
  }
  for (const RowPhase& row : phases) {
    for (const auto& store : program.phases[row.phase].stores) {
      const auto& buffer = program.buffers[store.access.buffer];
      if (!buffer.axes.has(Axis::n) || !wide.buffers[store.access.buffer]) continue;
      any = true, fours = fours || size_of(buffer.dtype) == 4;
    }
  }
  grid.width = !any ? 1 : fours ? 4 : 8;
  const int arrays = std::max(1, static_cast<int>(early.size()) + crossings(program, phases));
  // How much a thread loads at a time (decision 0012): 16 bytes, 32 of f32; 32 for a sum alone, or behind what is a
  // row's; 64, or 256 of f32, where the row waits until its threads have met.
  if (reduces && arrays == 1 && passes > 1) {
    grid.runs = fours ? 8 : 4;
  } else if ((reduces || by_row) && arrays < 3) {
    grid.runs = fours ? 1 : 2;
  }
  // Where nothing folds a narrow row has as many threads as it needs: of 8 columns 31 of 32 would be idle.
  if (!reduces) grid.threads = 1;
  const int most = reduces ? 1024 : by_row ? 256 : 512;
  const auto span = [&] { return std::int64_t{8} * grid.runs * grid.threads; };  // columns of a block
  while (grid.threads < most && span() < columns) grid.threads *= 2;
  if (reduces) {
    grid.runs = static_cast<int>(std::min<std::int64_t>(1000, ceil_div(columns, 8 * grid.threads)));
    if (grid.threads == 1024 && 8 * grid.runs * arrays > row_registers) return {};
  }
  grid.blocks_n = reduces ? 1 : static_cast<int>(ceil_div(columns, span()));
  grid.whole = columns % span() == 0;
  if (grid.blocks_n > 65535) return {};
  return grid;
}

std::string each_run(const std::string& code) {
  return fill(R"(  #pragma unroll
  for (int c = 0; c < C; ++c) {
$code  }
)",
              {{"code", code}});
}

class RowWriter {
 public:
  RowWriter(const Program& program, const RowRun& run, int accumulator_word, const Wide& wide, Functions& functions)
      : program_(program),
        run_(run),
        accumulator_word_(accumulator_word),
        wide_(wide),
        functions_(functions),
        read_outside_(read_outside(program, run.phases)),
        written_(program.buffers.size()),
        inside_(program.buffers.size()) {}
  RowKernel emit(const std::string& name);

 private:
  [[nodiscard]] static int word(BufferId buffer) { return 4 * buffer; }
  std::string fetch(const EarlyLoad& h, std::size_t k) const;
  std::string load(const EarlyLoad& h, std::size_t k) const;
  std::string loading() const;
  void phase(const RowPhase& row);
  void meet(const Phase& phase, const std::vector<ReducerText>& reducers);
  [[nodiscard]] std::string waiting(const RowPhase& row) const;
  void row_values(int phase, std::vector<bool> wanted);
  void tile_values(int phase, const std::vector<bool>& wanted);
  void store(const RowPhase& row, const lower::Store& store);
  std::string element_address(const Access& access) const;
  std::size_t early_index(const Instruction& i) const;
  bool is_early(const Instruction& i) const;
  Resolve resolve(int phase, bool along_n) const;
  DType dtype(const EarlyLoad& h) const {
    return h.accumulator ? wide_.source : program_.buffers[h.access.buffer].dtype;
  }

  const Program& program_;
  const RowRun& run_;
  int accumulator_word_;
  const Wide& wide_;
  Functions& functions_;
  std::vector<EarlyLoad> early_;
  std::vector<bool> read_outside_;   // by phases beside the run
  std::vector<bool> written_;        // by the run, so far
  std::vector<std::string> inside_;  // what such a buffer holds, as code: "x3[c]" along columns
  std::string structs_, code_;
  const Place each_{"b", "i", "at(c, e)", "columns"}, near_{"b", "i", "near(c, e)", "columns"},
      row_{"b", "i", "0", "columns"};
};

std::string RowWriter::element_address(const Access& access) const {
  const lower::Buffer& buffer = program_.buffers[access.buffer];
  return address_arguments(word(access.buffer), program_.batched ? "b" : "", buffer.axes.has(Axis::m) ? "i" : "", "",
                           true);
}

// A wide load's memory, on its way into "q<k>[c]".
std::string RowWriter::fetch(const EarlyLoad& h, std::size_t k) const {
  const std::string at =
      h.accumulator ? address_arguments(accumulator_word_, "b", "i", "", true) : element_address(h.access);
  const bool every_row = !h.accumulator && !program_.buffers[h.access.buffer].axes.has(Axis::m);
  return fill("    fetch_$type<V, $often>($at, near(c, 0), near(c, 4), q$k[c]);\n",
              {{"type", storage_name(dtype(h))}, {"often", every_row ? "KEPT" : "ONCE"}, {"at", at}, {"k", str(k)}});
}

std::string RowWriter::load(const EarlyLoad& h, std::size_t k) const {
  if (h.wide) return fill("    unpack_$type(q$k[c], h$k[c]);\n", {{"type", storage_name(dtype(h))}, {"k", str(k)}});
  const std::string value = h.accumulator ? load_accumulator(wide_.source, h.access, accumulator_word_, near_)
                                          : load_expression(program_, h.access, word(h.access.buffer), near_, false);
  return fill("    EACH h$k[c][e] = $value;\n", {{"k", str(k)}, {"value", value}});
}

// All fetches, then their unpacking.
std::string RowWriter::loading() const {
  std::string raw, numbers, fetched, unpacked;
  for (std::size_t k = 0; k < early_.size(); ++k) {
    const DType type = dtype(early_[k]);
    numbers += fill("  $type h$k[C][8];\n", {{"type", device_type(compute_type(type))}, {"k", str(k)}});
    unpacked += load(early_[k], k);
    if (!early_[k].wide) continue;
    raw +=
        fill("  Quad q$k[C][$quads];\n", {{"k", str(k)}, {"quads", str(std::max<std::int64_t>(1, size_of(type) / 2))}});
    fetched += fetch(early_[k], k);
  }
  if (!fetched.empty()) fetched = each_run(fetched);
  return raw + fetched + numbers + each_run(unpacked);
}

std::size_t RowWriter::early_index(const Instruction& i) const {
  return static_cast<std::size_t>(std::find(early_.begin(), early_.end(), early_load(program_, i, wide_)) -
                                  early_.begin());
}

// Whether what was loaded is the value as it is; else it has a variable of its own.
bool RowWriter::is_early(const Instruction& i) const {
  return loads_early(i, written_) && compute_type(dtype(early_[early_index(i)])) == i.type;
}

// How the values of a phase are written: what is the same for all of a row, or (`along_n`) eight elements e of it.
Resolve RowWriter::resolve(int index, bool along_n) const {
  const Phase& phase = program_.phases[index];
  const auto variable = [=, this, &phase](ValueId id) {
    const Instruction& i = phase.code[id];
    return is_early(i) ? "h" + str(early_index(i)) + "[c]"
                       : fill("p${phase}_v$id", {{"phase", str(index)}, {"id", str(id)}});
  };
  const auto leaf = [=, this](const Instruction& i) {
    const Place &place = along_n ? each_ : row_, &inside = along_n ? near_ : row_;
    if (i.op == Op::get) return count_expression(i, place, "p.batch", "p.m", "p.n");
    if (i.op == Op::acc) {  // under a guard
      return converted(load_accumulator(wide_.source, i.access, accumulator_word_, inside), compute_type(wide_.source),
                       i.type);
    }
    const BufferId b = i.access.buffer;
    const lower::Buffer& buffer = program_.buffers[b];
    return converted(written_[b]                ? inside_[b] + (buffer.axes.has(Axis::n) ? "[e]" : "")
                     : loads_early(i, written_) ? "h" + str(early_index(i)) + "[c][e]"
                                                : load_expression(program_, i.access, word(b), inside, false),
                     compute_type(buffer.dtype), i.type);
  };
  return {.value = [=, &phase](ValueId id) { return variable(id) + (along(phase, id) ? "[e]" : ""); },
          .leaf = leaf,
          .array = [=, &phase](ValueId id) { return along(phase, id) ? variable(id) : std::string(); }};
}

// Those that are the same for all of a row.
void RowWriter::row_values(int index, std::vector<bool> wanted) {
  const Phase& phase = program_.phases[index];
  for (std::size_t id = 0; id < wanted.size(); ++id) wanted[id] = wanted[id] && !along(phase, static_cast<ValueId>(id));
  code_ += declarations(phase, wanted, row_, resolve(index, false), functions_, "  ");
}

void RowWriter::tile_values(int index, const std::vector<bool>& wanted) {
  const Phase& phase = program_.phases[index];
  const Resolve at = resolve(index, true);
  for (ValueId id = 0; id < static_cast<ValueId>(phase.code.size()); ++id) {
    if (!wanted[id] || !along(phase, id)) continue;
    const Instruction& i = phase.code[id];
    if (is_early(i)) continue;
    // Here a warp has time for a branch (decision 0012).
    if (vector_form(phase, i) == "vec_div" && along(phase, i.args[0])) {
      const ValueId by = i.args[1];
      code_ += fill(
          "    float $v[8];\n    vec_div_by($v, $a, $b);\n",
          {{"v", at.array(id)}, {"a", at.array(i.args[0])}, {"b", along(phase, by) ? at.array(by) : at.value(by)}});
    } else {
      code_ += array_statements(phase, id, each_, at, functions_, "    ");
    }
  }
}

void RowWriter::store(const RowPhase& row, const lower::Store& store) {
  const Phase& phase = program_.phases[row.phase];
  const BufferId b = store.access.buffer;
  const lower::Buffer& buffer = program_.buffers[b];
  const bool tile = phase.domain.has(Axis::n), wide = tile && wide_.buffers[b] && plain(store.access) &&
                                                      buffer.axes.has(Axis::n) &&
                                                      phase.code[store.value].type == DType::f32;
  const bool keeps = buffer.kind != BufferKind::crossing || read_outside_[b];
  const Resolve at = resolve(row.phase, tile);
  const std::string indent = tile ? "    " : "  ", v = at.value(store.value);
  if (read_in(program_, run_.phases, b)) {  // as a load of it would give it
    inside_[b] = "x" + str(b) + (tile ? "[c]" : "");
    code_ += fill("$indent$declared = $kept;\n",
                  {{"indent", indent},
                   {"declared", tile ? "EACH " + inside_[b] + "[e]"
                                     : "const " + device_type(compute_type(buffer.dtype)) + " " + inside_[b]},
                   {"kept", rounded(v, phase.code[store.value].type, buffer.dtype)}});
  }
  if (!keeps) return;
  if (!tile) {
    code_ +=
        fill("  if (leads) $store\n", {{"store", store_statement(program_, store.access, word(b), row_, v, false)}});
  } else if (wide) {
    const std::string array = array_of(phase, store.value, "o" + str(row.phase) + "_" + str(b), at, indent, code_);
    code_ += fill("    store_run_$type<V>($at, at(c, 0), at(c, 4), in(c, 0), in(c, 4), $array);\n",
                  {{"type", storage_name(buffer.dtype)}, {"at", element_address(store.access)}, {"array", array}});
  } else {
    code_ += fill("    EACH if (in(c, e)) $store\n",
                  {{"store", store_statement(program_, store.access, word(b), each_, v, false)}});
  }
}

void RowWriter::phase(const RowPhase& row) {
  const Phase& phase = program_.phases[row.phase];
  const std::vector<bool> wanted = needed(phase, sinks_of(phase, row));
  row_values(row.phase, wanted);
  std::vector<ReducerText> reducers;
  if (row.reductions) {
    for (std::size_t r = 0; r < phase.reductions.size(); ++r) {
      reducers.push_back(
          emit_reducer(phase, phase.reductions[r], 100 * row.phase + static_cast<int>(r), true, functions_));
      structs_ += reducers.back().text;
      code_ +=
          fill("  $own g$S = $own::identity();\n", {{"own", reducers.back().gathered}, {"S", reducers.back().type}});
    }
  }
  if (!phase.domain.has(Axis::n)) {
    code_ += waiting(row);
    for (const auto& one : phase.stores) store(row, one);
  } else {
    for (const auto& one : phase.stores) {
      if (read_in(program_, run_.phases, one.access.buffer)) {
        const BufferId b = one.access.buffer;
        code_ += fill("  $type x$b[C][8];\n",
                      {{"type", device_type(compute_type(program_.buffers[b].dtype))}, {"b", str(b)}});
      }
    }
    // Elements of a softmax go into its state all at once, as it is scaled anew for each block of them.
    std::string collected, added;
    const std::string loop = std::exchange(code_, {});
    tile_values(row.phase, wanted);
    const Resolve at = resolve(row.phase, true);
    for (std::size_t r = 0; r < reducers.size(); ++r) {
      const auto& pieces = phase.reductions[r].pieces;
      for (std::size_t k = 0; k < pieces.size(); ++k) {
        std::vector<std::string> args;
        for (const ValueId arg : pieces[k].args) args.push_back(at.value(arg));
        const std::string& type = reducers[r].type;
        if (phase.reductions[r].reducer == Reducer::online_softmax) {
          const BlockAddition a = reducers[r].addition(
              {.size = "8 * C", .index = "8 * c + e", .in = "counts(c, e)", .name = "all" + type + "_" + str(k)}, args,
              "g" + type);
          collected += "  " + a.declared + "\n", added += "  " + a.added + "\n";
          code_ += "    EACH " + a.filled + "\n";
        } else {
          const BlockAddition a = reducers[r].addition(
              {.size = "8", .index = "e", .in = "counts(c, e)", .first = k ? "false" : "c == 0"}, args, "g" + type);
          code_ += fill(R"(    {
      $declared
      EACH $filled
      $added
    }
)",
                        {{"declared", a.declared}, {"filled", a.filled}, {"added", a.added}});
        }
      }
    }
    for (const auto& one : phase.stores) store(row, one);
    code_ = loop + collected + waiting(row) + each_run(code_) + added;
  }
  for (const auto& one : phase.stores) written_[one.access.buffer] = true;
  if (!reducers.empty()) meet(phase, reducers);
}

// What is stored over an operand waits until all of the row's threads have read it: for itself, or in a phase before.
std::string RowWriter::waiting(const RowPhase& row) const {
  const Phase& phase = program_.phases[row.phase];
  const bool alone = phase.domain.has(Axis::n) && row.phase == run_.phases.front().phase;  // each its own elements
  const bool over = std::ranges::any_of(phase.stores, [&](const auto& s) { return wide_.in_place[s.access.buffer]; });
  return over && !alone ? "  __syncthreads();\n" : "";
}

// All threads of a row get the same state: lanes are folded by shuffles, then warps in their order.
void RowWriter::meet(const Phase& phase, const std::vector<ReducerText>& reducers) {
  for (const ReducerText& text : reducers) {
    code_ += fill(R"(  __shared__ __align__(16) u8 m$S[BLOCK / 32 * sizeof($S)];
  $S r$S = fold_lanes<$S>(settled<$S>(g$S), 1, 32);
  if (threadIdx.x % 32 == 0) (($S*)m$S)[threadIdx.x / 32] = r$S;
)",
                  {{"S", text.type}});
  }
  code_ += "  __syncthreads();\n";
  for (std::size_t r = 0; r < reducers.size(); ++r) {
    const ReducerText& text = reducers[r];
    const std::string& s = text.type;
    code_ += fill("  r$S = fold_states<T / 32>((const $S*)m$S + threadIdx.x / T * (T / 32));\n", {{"S", s}});
    const Reduction& reduction = phase.reductions[r];
    for (std::size_t k = 0; k < reduction.results.size(); ++k) {
      const BufferId b = reduction.results[k];
      if (b < 0) continue;
      written_[b] = true, inside_[b] = text.component("r" + s, k);
      Access access;
      access.buffer = b;
      if (program_.buffers[b].kind == BufferKind::output || read_outside_[b]) {
        code_ += fill("  if (leads) $store\n",
                      {{"store", store_statement(program_, access, word(b), row_, inside_[b], false)}});
      }
    }
  }
}

RowKernel RowWriter::emit(const std::string& name) {
  const RowGrid& g = run_.grid;
  early_ = early_loads(program_, run_.phases, wide_);
  for (const RowPhase& row : run_.phases) phase(row);
  return {
      structs_,
      fill(
          R"(extern "C" __global__ void __launch_bounds__($block) $name(const __grid_constant__ Params p, int rows, int columns) {
  // T threads a row, C times eight columns each, V of them side by side.
  constexpr int T = $threads, C = $runs, V = $width, BLOCK = $block;
  follow_previous_launch();
  // The last rows first: of what was just written, they are what L2 still has.
  const int block = gridDim.x - 1 - blockIdx.x, across = $across;
  const int t = threadIdx.x % T, raw = block / across * (BLOCK / T) + threadIdx.x / T;
  const int i = min(raw, rows - 1), b = gridDim.z - 1 - blockIdx.z, first = block % across * (8 * C * T);
  const bool live = raw < rows, leads = live && t == 0;
  const auto at = [&](int c, int e) { return first + c * 8 * T + e / V * V * T + t * V + e % V; };
  const auto near = [&](int c, int e) { return $near; };
  const auto counts = [&](int c, int e) { return $counts; };
  const auto in = [&](int c, int e) { return live && counts(c, e); };
$loading$code}
)",
          {{"block", str(g.block())},
           {"name", name},
           {"threads", str(g.threads)},
           {"runs", str(g.runs)},
           {"width", str(g.width)},
           {"across", str(g.blocks_n)},
           {"near", g.whole ? "at(c, e)" : "min(at(c, e / V * V), columns - V) + e % V"},
           {"counts", g.whole ? "true" : "at(c, e) < columns"},
           {"loading", loading()},
           {"code", code_}})};
}

// Whether `next` may follow within one kernel: what it reads of the run's own results lies in the same row and column.
bool follows(const Program& program, const std::vector<RowPhase>& run, const Phase& next) {
  const Phase& first = program.phases[run.front().phase];
  if (next.batched != first.batched || !(next.rows == first.rows)) return false;
  for (const RowPhase& row : run) {
    const Phase& phase = program.phases[row.phase];
    if (phase.domain.has(Axis::n) && next.domain.has(Axis::n) && !(phase.columns == next.columns)) return false;
    const auto reads_otherwise = [&](BufferId b) {
      return std::any_of(next.code.begin(), next.code.end(), [&](const Instruction& i) {
        if (i.op != Op::operand || i.access.buffer != b) return false;
        return i.access.divide_rows != 1 || (program.buffers[b].axes.has(Axis::n) && !i.access.columns.identity()) ||
               i.guard >= 0;
      });
    };
    for (const auto& store : phase.stores) {
      if (!next.loads(store.access.buffer)) continue;
      const bool same_axes = program.buffers[store.access.buffer].axes.has(Axis::n) == phase.domain.has(Axis::n);
      if (!plain(store.access) || !same_axes || reads_otherwise(store.access.buffer)) return false;
    }
    for (const Reduction& r : phase.reductions) {
      for (const BufferId b : r.results) {
        if (b >= 0 && reads_otherwise(b)) return false;
      }
    }
  }
  return true;
}

}  // namespace

RowRun row_run(const Program& program, const std::vector<int>& phases, std::size_t from, const Wide& wide) {
  RowRun best, run;
  for (std::size_t k = from; k < phases.size(); ++k) {
    const Phase& phase = program.phases[phases[k]];
    if (k > from && phases[k] != phases[k - 1] + 1) break;  // the product may stand between
    if (!row_local(phase) || (!run.phases.empty() && !follows(program, run.phases, phase))) break;
    run.phases.push_back({phases[k], true});
    const auto grid = grid_of(program, run.phases, wide);
    if (!grid) {
      if (phase.domain.has(Axis::n)) break;
      continue;  // a small phase in front of one over tiles
    }
    run.grid = *grid;
    best = run;
  }
  return best;
}

RowRun row_stores(const Program& program, int phase, const Wide& wide) {
  RowRun run{{{phase, false}}, {}};
  const auto grid = grid_of(program, run.phases, wide);
  if (!grid) return {};
  run.grid = *grid;
  return run;
}

RowKernel emit_rows(const Program& program, const RowRun& run, const std::string& name, int accumulator_word,
                    const Wide& wide, Functions& functions) {
  return RowWriter(program, run, accumulator_word, wide, functions).emit(name);
}

}  // namespace postlude::inline v0::cuda
