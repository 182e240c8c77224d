#include "cuda/emit/generic.h"

#include "core/fill.h"
#include "cuda/emit/agreed.h"
#include "cuda/emit/code.h"
#include "cuda/emit/gemm_source.h"
#include "cuda/emit/reduce.h"

#include <algorithm>

namespace postlude::inline v0::cuda {
namespace {

using lower::BufferId;
using lower::Instruction;
using lower::Phase;
using lower::Program;
using lower::Reduction;
using lower::ValueId;

const char* const generic_text =
#include "cuda/device/generic.cu"
    ;
const char* const counting_text =
#include "cuda/device/counting.cu"
    ;
const char* const depthwise_text =
#include "cuda/device/depthwise.cu"
    ;
const char* const filters_text =
#include "cuda/device/filters.cu"
    ;
const char* const fold_text =
#include "cuda/device/fold.cu"
    ;
const char* const product_text =
#include "cuda/device/product.cu"
    ;
const char* const words_text =
#include "cuda/device/words.cu"
    ;
const char* const repack_text =
#include "cuda/device/repack.cu"
    ;
const char* const copies_text =
#include "cuda/device/copies.cu"
    ;

// How often a phase runs over its domain.
std::string batches(const Phase& phase) { return phase.batched ? "p.batch" : "1"; }

class PassWriter {
 public:
  PassWriter(const Program& program, const Wide& wide, GenericSource& out)
      : program_(program), wide_(wide), out_(out) {}

  void stores(int index);
  void rows(const RowRun& run);
  void reduction(int index, int number);
  std::string functions() const { return functions_.text(); }
  std::string structs, kernels;

 private:
  static std::string pointer(int word, const std::string& type) { return "((" + type + "*)p.word[" + str(word) + "])"; }
  struct Reducing;
  std::string by_columns(const Reducing& r);
  std::string by_results(const Reducing& r);
  std::string element(const Reducing& r, std::size_t k, const std::string& indent);
  std::string results(const Reducing& r, const std::string& row, const std::string& column,
                      const std::string& indent) const;
  // Code of the values wanted, one a line.
  std::string values(const Phase& phase, const std::vector<ValueId>& wanted_values, const std::string& indent) {
    const Place place{"b", "i", "j", "columns"};
    const Resolve resolve{[](ValueId id) { return "v" + str(id); },
                          [&](const Instruction& x) -> std::string {
                            if (x.op == Op::get) return count_expression(x, place, "p.batch", "p.m", "p.n");
                            if (x.op == Op::acc)
                              return converted(load_accumulator(wide_.source, x.access, out_.accumulator_word, place),
                                               compute_type(wide_.source), x.type);
                            return converted(load_expression(program_, x.access, 4 * x.access.buffer, place, false),
                                             compute_type(program_.buffers[x.access.buffer].dtype), x.type);
                          }};
    return declarations(phase, needed(phase, wanted_values), place, resolve, functions_, indent);
  }

  const Program& program_;
  const Wide& wide_;
  GenericSource& out_;
  Functions functions_;
};

void PassWriter::rows(const RowRun& run) {
  const int first = run.phases.front().phase;
  const auto tiles = std::find_if(run.phases.begin(), run.phases.end(),
                                  [&](const RowPhase& row) { return program_.phases[row.phase].domain.has(Axis::n); });
  const std::string kernel =
      "phase" + str(first) + (run.phases.size() > 1 ? "_to" + str(run.phases.back().phase) : "") + "_rows";
  out_.kernels.push_back({.name = kernel, .phase = tiles->phase, .rows = run.grid, .run = run.phases});
  RowKernel made = emit_rows(program_, run, kernel, out_.accumulator_word, wide_, functions_);
  structs += made.structs;
  kernels += made.text;
}

void PassWriter::stores(int index) {
  const Phase& phase = program_.phases[index];
  if (phase.domain.has(Axis::m) && phase.domain.has(Axis::n)) {
    if (const RowRun run = row_stores(program_, index, wide_); !run.phases.empty()) return rows(run);
  }
  const bool rows = !phase.domain.has(Axis::n);
  const std::string kernel = "phase" + str(index) + "_stores";
  out_.kernels.push_back({.name = kernel, .phase = index});
  std::string code = values(phase, sinks(phase, true, false), "        ");
  for (const auto& store : phase.stores) {
    code += "        " +
            store_statement(program_, store.access, 4 * store.access.buffer, {"b", "i", "j", "columns"},
                            "v" + str(store.value), false) +
            "\n";
  }
  kernels += fill(R"(extern "C" __global__ void $kernel(const __grid_constant__ Params p, int rows, int columns) {
  follow_previous_launch();
  for (int b = blockIdx.z; b < $batches; b += gridDim.z)
    for (int $outer = blockIdx.y; $outer < $outers; $outer += gridDim.y)
      for (i64 x = blockIdx.x * 256ll + threadIdx.x; x < $inners; x += gridDim.x * 256ll) {
        const int $inner = int(x);
$code      }
}
)",
                  {{"kernel", kernel},
                   {"batches", batches(phase)},
                   {"outer", rows ? "j" : "i"},
                   {"outers", rows ? "columns" : "rows"},
                   {"inner", rows ? "i" : "j"},
                   {"inners", rows ? "rows" : "columns"},
                   {"code", code}});
}

// A reduction at hand.
struct PassWriter::Reducing {
  const Phase& phase;
  const Reduction& reduction;
  ReducerText state;
  [[nodiscard]] bool over(Axis axis) const { return reduction.axes.has(axis); }
  [[nodiscard]] bool row_groups() const { return reduction.group && !over(Axis::n); }
  [[nodiscard]] bool column_groups() const { return reduction.group && over(Axis::n); }
  // The batches z stands for.
  [[nodiscard]] std::string each_batch() const {
    return over(Axis::b) ? "for (int b = 0; b < p.batch; ++b)\n" : "for (int b = z; b < z + 1; ++b)\n";
  }
};

// Piece k's element at (b, i, j) into the state x.
std::string PassWriter::element(const Reducing& r, std::size_t k, const std::string& indent) {
  const auto& piece = r.reduction.pieces[k];
  std::vector<std::string> args;
  for (const ValueId value : piece.args) args.push_back("v" + str(value));
  std::string code = values(r.phase, piece.args, indent);
  if (r.column_groups()) {
    code += indent + "if (" + column_expression(piece.columns, "j", "columns") + " / " + str(r.reduction.group) +
            " == q)\n  ";
  }
  return code + indent + "x = " + r.state.type + "::combine(x, " + r.state.lift(args) + ");\n";
}

// The state x is stored.
std::string PassWriter::results(const Reducing& r, const std::string& row, const std::string& column,
                                const std::string& indent) const {
  std::string code;
  for (std::size_t k = 0; k < r.reduction.results.size(); ++k) {
    const BufferId buffer = r.reduction.results[k];
    if (buffer < 0) continue;
    const auto& info = program_.buffers[buffer];
    code += indent + "store_" + storage_name(info.dtype) + "(" +
            address_arguments(4 * buffer, program_.batched && !r.over(Axis::b) ? "b" : "",
                              info.axes.has(Axis::m) ? row : "", info.axes.has(Axis::n) ? column : "", false) +
            ", " + r.state.component("x", k) + ");\n";
  }
  return code;
}

// A block: 32 columns, 8 rows at a time, of one split of the rows of (piece, batch, group of rows).
std::string PassWriter::by_columns(const Reducing& r) {
  const std::string s = r.state.type, group = str(r.reduction.group);
  const bool over_m = r.over(Axis::m), groups = r.row_groups();
  std::string elements, write;
  for (std::size_t k = 0; k < r.reduction.pieces.size(); ++k) {
    const std::string head = "if (piece == " + str(k) + ") {\n",
                      column = column_expression(r.reduction.pieces[k].columns, "j", "columns");
    elements += "        " + head + element(r, k, "          ") + "        }\n";
    write += "    " + head + results(r, over_m ? "q" : "split", column, "      ") + "    }\n";
  }
  // Where rows are kept: a batch reduction, one result a row; rows are the splits' place.
  const std::string span = over_m ? R"(  const i64 span = end - first;
  const int i0 = first + int(span * split / splits), i1 = first + int(span * (split + 1) / splits);
)"
                                  : "  const int i0 = split, i1 = split + 1;\n";
  const std::string meeting = R"(  const i64 slot = (i64)blockIdx.z * splits;
  if (splits > 1) {
    if (y == 0 && j < columns) $partials[(slot + split) * columns + j] = x;
    publish_and_count($counters + (i64)blockIdx.z * gridDim.x + blockIdx.x, splits, &last);
    if (!last) return;
    if (y == 0 && j < columns) x = gather<$S>((i64)$partials, slot * columns + j, splits, columns, 0);
  }
)";
  return fill(R"(  __shared__ __align__(16) u8 memory[8 * 32 * sizeof($S)];
  $S* shared = ($S*)memory;
  const int lane = threadIdx.x % 32, y = threadIdx.x / 32, j = blockIdx.x * 32 + lane, split = blockIdx.y;
  const int batches = $batches, q = blockIdx.z % groups, z = blockIdx.z / groups % batches, piece = blockIdx.z / groups / batches;
  const int first = $first, end = $end;
$span  $S x = $S::identity();
  if (j < columns)
    $each_batch      for (int i = i0 + y; i < i1; i += 8) {
$elements      }
  shared[threadIdx.x] = x;
  __syncthreads();
  if (y == 0)
    for (int k = 1; k < 8; ++k) x = $S::combine(x, shared[k * 32 + lane]);
$met  if (y == 0 && j < columns) {
    const int b = z;
$write  }
}
)",
              {{"S", s},
               {"batches", r.over(Axis::b) ? "1" : batches(r.phase)},
               {"first", groups ? "q * " + group : "0"},
               {"end", over_m && groups ? "min(rows, first + " + group + ")" : "rows"},
               {"span", span},
               {"each_batch", r.each_batch()},
               {"elements", elements},
               {"met", over_m ? fill(meeting, {{"S", s},
                                               {"partials", pointer(out_.partials_word, s)},
                                               {"counters", pointer(out_.counters_word, "u32")}})
                              : ""},
               {"write", write}});
}

// A block: one split of the elements of one result (batch, row, group).
std::string PassWriter::by_results(const Reducing& r) {
  const std::string s = r.state.type, group = str(r.reduction.group);
  const bool keeps_row = r.phase.domain.has(Axis::m) && !r.over(Axis::m), has_n = r.phase.domain.has(Axis::n);
  std::string i0 = keeps_row ? "row" : "0", i1 = keeps_row ? "row + 1" : "rows", j0 = "0", j1 = "columns";
  if (r.row_groups()) i0 = "q * " + group, i1 = "min(rows, q * " + group + " + " + group + ")";
  if (r.column_groups() && r.reduction.pieces.size() == 1 && r.reduction.pieces[0].columns.identity())
    j0 = "q * " + group, j1 = "min(columns, q * " + group + " + " + group + ")";
  std::string elements;
  for (std::size_t k = 0; k < r.reduction.pieces.size(); ++k)
    elements += "        {\n" + element(r, k, "          ") + "        }\n";
  // Splits divide the rows where there are several, else the columns. The 256 threads run over the columns, or the rows
  // where there are none.
  return fill(R"(  __shared__ __align__(16) u8 memory[8 * sizeof($S)];
  $S* shared = ($S*)memory;
  const int t = threadIdx.x, split = blockIdx.y;
  i64 id = blockIdx.x;
  const int q = int(id % groups);
  id /= groups;
$row  const int z = int(id);
  int i0 = $i0, i1 = $i1, j0 = $j0, j1 = $j1;
  { const i64 span = ${o}1 - ${o}0; const int from = ${o}0; ${o}0 = from + int(span * split / splits); ${o}1 = from + int(span * (split + 1) / splits); }
  $S x = $S::identity();
  $each_batch    for (int i = i0 + $ti; i < i1; i += $di)
      for (int j = j0 + $tj; j < j1; j += $dj) {
$elements      }
  x = fold_lanes<$S>(x, 1, 32);
  if (t % 32 == 0) shared[t / 32] = x;
  __syncthreads();
  for (int k = 1; k < 8 && t == 0; ++k) x = $S::combine(x, shared[k]);
  if (splits > 1) {
    if (t == 0) $partials[(i64)blockIdx.x * splits + split] = x;
    publish_and_count($counters + blockIdx.x, splits, &last);
    if (!last) return;
    if (t == 0) x = gather<$S>((i64)$partials, (i64)blockIdx.x * splits, splits, 1, 0);
  }
  if (t == 0) {
    const int b = z;
$results  }
}
)",
              {{"S", s},
               {"row", keeps_row ? "  const int row = int(id % rows);\n  id /= rows;\n" : "  const int row = 0;\n"},
               {"i0", i0},
               {"i1", i1},
               {"j0", j0},
               {"j1", j1},
               {"o", keeps_row ? "j" : "i"},
               {"each_batch", r.each_batch()},
               {"ti", has_n ? "0" : "t"},
               {"di", has_n ? "1" : "256"},
               {"tj", has_n ? "t" : "0"},
               {"dj", has_n ? "256" : "1"},
               {"elements", elements},
               {"partials", pointer(out_.partials_word, s)},
               {"counters", pointer(out_.counters_word, "u32")},
               {"results", results(r, r.row_groups() ? "q" : "row", r.column_groups() ? "q" : "0", "    ")}});
}

void PassWriter::reduction(int index, int number) {
  const Phase& phase = program_.phases[index];
  const Reducing r{phase, phase.reductions[number],
                   emit_reducer(phase, phase.reductions[number], 100 * index + number, false, functions_)};
  const std::string kernel = "phase" + str(index) + "_reduction" + str(number);
  const bool keeps_columns = phase.domain.has(Axis::n) && !r.over(Axis::n);
  out_.kernels.push_back(
      {.name = kernel, .phase = index, .reduction = number, .by_columns = keeps_columns, .state_bytes = r.state.bytes});
  structs += r.state.text;
  kernels += fill(
      R"(extern "C" __global__ void __launch_bounds__(256) $kernel(const __grid_constant__ Params p, int rows, int columns, int splits, int groups) {
  follow_previous_launch();
  __shared__ u32 last;
$body)",
      {{"kernel", kernel}, {"body", keeps_columns ? by_columns(r) : by_results(r)}});
}

}  // namespace

GenericSource emit_generic(const Program& program, const std::vector<int>& phases, const Wide& wide,
                           std::int64_t image_rows) {
  GenericSource out;
  out.accumulator_word = 4 * static_cast<int>(program.buffers.size());
  out.partials_word = out.accumulator_word + 4;
  out.counters_word = out.partials_word + 1;
  out.words = out.counters_word + 1;
  PassWriter writer(program, wide, out);
  for (std::size_t k = 0; k < phases.size(); ++k) {
    const int phase = phases[k];
    if (const RowRun run = row_run(program, phases, k, wide); !run.phases.empty()) {
      writer.rows(run);
      k += run.phases.size() - 1;
      continue;
    }
    for (std::size_t r = 0; r < program.phases[phase].reductions.size(); ++r)
      writer.reduction(phase, static_cast<int>(r));
    if (!program.phases[phase].stores.empty()) writer.stores(phase);
  }
  out.text = "#pragma nv_diag_suppress 177\n#define WORDS " + str(out.words) + "\n" + row_of_image(image_rows) +
             base_source() + agreed_pass + generic_text + reduction_source() + writer.functions() + writer.structs +
             writer.kernels;
  return out;
}

std::string product_source(DType a, DType b, int a_form, int b_form, bool scattered, int vector) {
  std::string text = "#pragma nv_diag_suppress 177\n";
  const auto define = [&](const char* key, const std::string& value) {
    text += std::string("#define ") + key + " " + value + "\n";
  };
  define("ACC", is_float(a) ? "float" : "int");
  define("LOAD_A", "load_" + storage_name(a));
  define("LOAD_B", "load_" + storage_name(b));
  if (a_form) define("A_FORM", std::to_string(a_form));
  if (b_form) define("B_FORM", std::to_string(b_form));
  if (scattered) define("SCATTERED", "1");
  if (vector) define("VECTOR", std::to_string(vector));
  if (vector == 8) {
    define("ELEM_BYTES", std::to_string(size_of(a)));
    define("FETCH_A", "fetch_" + storage_name(a)), define("UNPACK_A", "unpack_" + storage_name(a));
  }
  return text + base_source() + (a_form || b_form ? rows_source() : "") + agreed_product + agreed_fold + counting_text +
         product_text + (vector ? depthwise_text : "") + fold_text;
}

std::string filters_source(DType type, const Stencil& stencil, const FilterTile& tile) {
  std::string text =
      "#pragma nv_diag_suppress 177\n#define ACC float\n#define VALUE " + storage_name(type) + "_to_f32\n";
  const auto define = [&](const std::string& key, int value) {
    text += "#define " + key + " " + std::to_string(value) + "\n";
  };
  const auto along = [&](const std::string& axis, const Stencil::Axis& of, int pixels, int strip) {
    define("PIXELS" + axis, of.pixels), define("TAPS" + axis, of.taps);
    define("STEP" + axis, of.step), define("REACH" + axis, of.reach);
    define("TILE" + axis, pixels), define("STRIP" + axis, strip);
  };
  along("_X", stencil.x, tile.x, tile.strip_x), along("_Y", stencil.y, tile.y, tile.strip_y);
  define("BN", tile.channels), define("ELEM_BYTES", static_cast<int>(size_of(type)));
  define("STAGES", tile.stages), define("TILE_BYTES", tile.bytes), define("RESIDENT", FilterTile::resident);
  define("B_FORM", 2);
  return text + base_source() + async_source() + rows_source() + agreed_filters + agreed_fold + filters_text +
         fold_text;
}

// What both copy: elements of a size, not numbers.
static std::string words(DType type) {
  const std::int64_t bytes = size_of(type);
  const std::string word = bytes == 1 ? "u8" : bytes == 2 ? "u16" : "u32";
  return "#pragma nv_diag_suppress 177\n#define WORD " + word + "\n";
}

std::string repack_source(DType type, bool counted) {
  return words(type) + "#define COUNTED " + (counted ? "1" : "0") + "\n" + base_source() + agreed_product +
         counting_text + words_text + repack_text;
}

std::string copies_source(DType type) {
  return words(type) + "#define ACC " + (is_float(type) ? "float" : "int") + "\n" + base_source() + agreed_product +
         words_text + copies_text;
}

}  // namespace postlude::inline v0::cuda
