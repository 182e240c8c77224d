#include "cuda/emit/finish.h"

#include "core/fill.h"

namespace postlude::inline v0::cuda {
namespace {

using lower::Access;
using lower::BufferId;
using lower::Instruction;
using lower::Phase;
using lower::ValueId;

class FinishWriter {
 public:
  explicit FinishWriter(EpilogueCode& code) : c_(code), e_(code.host()), phase_(code.phase()) {}

  std::string function();
  std::string folding();
  std::string telling();
  std::string group_end();
  std::string rows_end();
  std::string column_end() { return finish(Across::columns, "0", "column", "      "); }
  std::string row_group_end() { return finish(Across::row_groups, "row", "column", "        "); }
  std::string meeting(const std::function<std::string(const std::vector<std::string>&)>& met_values);

 private:
  std::string by_rows();
  std::string by_columns();
  std::string all();
  std::string folded(Across across, const std::string& indent, const std::function<std::string(std::size_t)>& code_of);
  std::string finish(Across across, const std::string& i, const std::string& j, const std::string& indent);
  std::string block_rows(const std::string& indent);
  std::string block_begin();
  std::string block_end();
  [[nodiscard]] Place place(Across across, const std::string& i, const std::string& j) const {
    const bool groups = across == Across::groups || across == Across::blocks;
    return {"t.batch", i, j, groups ? "((tile_columns(p) + GROUP_N - 1) / GROUP_N)" : "tile_columns(p)",
            "memory_row(p, t.batch, " + i + ")"};
  }
  // By buffer, the statistics across `across` of states s0, s1, ...
  [[nodiscard]] std::vector<std::string> statistics(Across across) const;
  // The values of a small phase, called p1_v0, p1_v1, ..., that `wanted` ones need.
  std::string small(int p, const std::vector<ValueId>& wanted, const Place& place,
                    const std::vector<std::string>& statistics, const std::string& indent);
  static std::string small_prefix(int p) { return "p" + str(p) + "_v"; }

  EpilogueCode& c_;
  FusedEpilogue& e_;
  const Phase& phase_;
};

// What stands where the partials of one row, one column, or of all are folded: store the statistics that launches after
// this one read, and run the small phases.
std::string FinishWriter::finish(Across across, const std::string& i, const std::string& j, const std::string& indent) {
  std::string code;
  const Place place = this->place(across, i, j);
  const auto store = [&](const Access& access, const std::string& value) {
    code += indent + store_statement(c_.program, access, e_.word(access.buffer), place, value, false) + "\n";
  };
  const std::vector<std::string> statistic = statistics(across);
  for (BufferId b = 0; b < static_cast<BufferId>(statistic.size()); ++b) {
    if (statistic[b].empty()) continue;
    if (!e_.read_later[b] && c_.program.buffers[b].kind != lower::BufferKind::output) continue;
    Access access;
    access.buffer = b;
    store(access, statistic[b]);
  }
  for (const int p : e_.finished) {
    const Phase& small = c_.program.phases[p];
    if (across_of(small) != across) continue;
    code += this->small(p, sinks(small, true, false), place, statistic, indent);
    for (const auto& one : small.stores) store(one.access, small_prefix(p) + str(one.value));
  }
  return code;
}

std::vector<std::string> FinishWriter::statistics(Across across) const {
  std::vector<std::string> all(c_.program.buffers.size());
  for (std::size_t r = 0; r < e_.partials.size(); ++r) {
    if (e_.partials[r].across != across) continue;
    const auto& results = c_.reduction(r).results;
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (results[k] >= 0) all[results[k]] = c_.reducers[r].component("s" + str(r), k);
    }
  }
  return all;
}

std::string FinishWriter::small(int p, const std::vector<ValueId>& wanted, const Place& place,
                                const std::vector<std::string>& statistics, const std::string& indent) {
  const Phase& phase = c_.program.phases[p];
  const Resolve resolve{[&](ValueId id) { return small_prefix(p) + str(id); },
                        [&](const Instruction& x) {
                          if (x.op == Op::get || statistics[x.access.buffer].empty()) return c_.leaf(x, place);
                          return converted(statistics[x.access.buffer], compute_type(c_.dtype(x.access.buffer)),
                                           x.type);
                        }};
  return declarations(phase, needed(phase, wanted), place, resolve, c_.functions, indent);
}

// The states s0, s1, ... of reductions across `across`.
std::string FinishWriter::folded(Across across, const std::string& indent,
                                 const std::function<std::string(std::size_t)>& code_of) {
  std::string text;
  for (std::size_t r = 0; r < e_.partials.size(); ++r) {
    if (e_.partials[r].across == across)
      text += indent + "const " + c_.reducers[r].type + " s" + str(r) + " = " + code_of(r) + ";\n";
  }
  return text;
}

// Four rows a warp, each by eight lanes; or one, where few rows have many partials: else each lane waits for memory
// again and again.
std::string FinishWriter::by_rows() {
  std::string gathered, all;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    if (e_.partials[r].across != Across::rows) continue;
    const std::string s = c_.reducers[r].type;
    gathered += fill("      Partials<$S> g$r = {p.word[$word], row_partial(p, t.batch, from, row_in), tag};\n",
                     {{"S", s}, {"r", str(r)}, {"word", str(e_.partials[r].word)}});
    all += ", g" + str(r);
  }
  const auto fold = [&](std::size_t r) {
    return "fold_lanes<" + c_.reducers[r].type + ">(g" + str(r) + ".x, together, 32)";
  };
  return fill(
      R"(      const int together = rows_folded(p) / 8, lanes = 32 / together, from = lane / together;
      const int row = (unit % units * 8 + part) * together + lane % together, row_in = min(row, tile_rows(p, t.batch) - 1);
$gathered      gather((tiles_beside(p) - from + lanes - 1) / lanes, lanes * row_partial(p, 0, 1, 0)$all);
$folded      if (row < tile_rows(p, t.batch) && from == 0) {
$finished      }
)",
      {{"gathered", gathered},
       {"all", all},
       {"folded", folded(Across::rows, "      ", fold)},
       {"finished", finish(Across::rows, "row", "0", "        ")}});
}

// 32 columns, eight warps each a part of their partials; of a turned product also eight, by four times as many parts.
std::string FinishWriter::by_columns() {
  std::string shared;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    if (e_.partials[r].across != Across::columns) continue;
    const std::string s = c_.reducers[r].type;
    shared += fill(R"(      $S* c$r = shared_pointer<$S>(shared + $at);
      c$r[thread] = column < tile_columns(p) ? gather<$S>(p.word[$word], column_partial(p, slots_in(p), t.batch, from, column), to - from, column_partial(p, slots_in(p), 0, 1, 0), tag) : $S::identity();
      if (width < 32) c$r[thread] = fold_lanes<$S>(c$r[thread], width, 32);
)",
                   {{"S", s}, {"r", str(r)}, {"at", str(e_.partials[r].fold)}, {"word", str(e_.partials[r].word)}});
  }
  const auto fold = [](std::size_t r) { return "fold_shared<32, 8>(c" + str(r) + " + lane)"; };
  return fill(R"(      const int width = COLUMNS_FOLDED, column = unit % units * width + lane % width;
      const int share = thread / width, shares = 256 / width;
      const int from = int((i64)slots_in(p) * share / shares), to = int((i64)slots_in(p) * (share + 1) / shares);
$shared      finish_sync();
      if (thread < width && column < tile_columns(p)) {
$folded$finished      }
)",
              {{"shared", shared},
               {"folded", folded(Across::columns, "        ", fold)},
               {"finished", finish(Across::columns, "0", "column", "        ")}});
}

// Each thread gathers every 256th tile in order; lanes and warps are then folded in theirs.
std::string FinishWriter::all() {
  std::string gathered;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    if (e_.partials[r].across != Across::all) continue;
    const std::string s = c_.reducers[r].type;
    gathered += fill(R"(  $S* all$r = shared_pointer<$S>(shared + $at);
  {
    const i64 tiles = tile_partial(p, slots_in(p), 1, 0, 0);
    const $S x = fold_lanes<$S>(gather<$S>(p.word[$word], tile_partial(p, slots_in(p), t.batch, 0, 0) + thread, int((tiles - thread + 255) / 256), 256, tag), 1, 32);
    if (lane == 0) all$r[part] = x;
  }
)",
                     {{"S", s}, {"r", str(r)}, {"at", str(e_.partials[r].fold)}, {"word", str(e_.partials[r].word)}});
  }
  const auto fold = [](std::size_t r) { return "fold_shared<1, 8>(all" + str(r) + ")"; };
  return fill(R"(  t.batch = unit;
$gathered  finish_sync();
  if (thread == 0) {
$folded$finished  }
)",
              {{"gathered", gathered},
               {"folded", folded(Across::all, "    ", fold)},
               {"finished", finish(Across::all, "0", "0", "    ")}});
}

// What 256 threads do of it: fold partials in index order and run the small phases. The kernel says when all are there.
std::string FinishWriter::function() {
  // Units of eight warps' rows, then of 32 columns, then one of everything, each for all batches.
  std::string count, code;
  const auto units = [&](const std::string& extent, const std::string& size, const std::string& body) {
    count += "(" + extent + " + " + size + " - 1) / " + size + " + ";
    code += fill(R"(  {
    const int units = ($extent + $size - 1) / $size;
    if (unit < units * batches(p)) {
      t.batch = unit / units;
$body      return;
    }
    unit -= units * batches(p);
  }
)",
                 {{"extent", extent}, {"size", size}, {"body", body}});
  };
  if (e_.finishes[0]) units("most_rows(p)", "rows_folded(p)", by_rows());
  if (e_.finishes[1]) units("tile_columns(p)", "COLUMNS_FOLDED", by_columns());
  if (e_.finishes[2]) code += all();
  return fill(
      R"(#if !LONE_COLUMNS && !LONE_ROWS
#define FINISHES 1
#endif
#define TAGS_WORD $counters
#define BLOCKS_WORD $counters
#define COLUMNS_FOLDED (TURNED ? columns_folded(tile_columns(p), slots_in(p)) : 32)
DEVICE int finish_units(const Params& p) { return ($count$one) * batches(p); }
DEVICE void finish(const Params& p, int unit, int thread, u32 shared, u32 tag) {
  struct { int batch; } t;
  const int part = thread / 32, lane = thread % 32;
$code}
)",
      {{"counters", str(e_.counters_word)}, {"count", count}, {"one", e_.finishes[2] ? "1" : "0"}, {"code", code}});
}

// What a tile's lanes have of whole rows.
std::string FinishWriter::rows_end() {
  const auto fold = [&](std::size_t r) {
    return c_.reducers[r].lanes("combine_lanes", "red" + str(r) + "[r]", "1, 4");
  };
  return EpilogueCode::each_row(folded(Across::rows, "      ", fold) +
                                "      if (t.lane % 4 == 0 && row < tile_end(t.row, tile_rows(p, t.batch))) {\n" +
                                finish(Across::rows, "row", "0", "        ") + "      }\n");
}

// A tile's share of the rows that it has with those beside it: folded, and told them all.
std::string FinishWriter::folding() {
  std::string folds;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    folds += fill("  fold_rows_told<$S>(p, c, p.word[$word], tag, lane);\n",
                  {{"S", c_.reducers[r].type}, {"word", str(e_.partials[r].word)}});
  }
  return fill(R"(#if TELLS
#define TAGS_WORD $counters
DEVICE void fold_share(const Params& p, const Work& c, u32 tag, int lane) {
$folds}
#endif
)",
              {{"counters", str(e_.counters_word)}, {"folds", folds}});
}

// What 64 rows of a tile have, to the tiles of its cluster.
std::string FinishWriter::telling() {
  std::string types, code;
  int before = 0;  // bytes of a row's states
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    const std::string s = c_.reducers[r].type;
    types += (r ? ", " : "") + s;
    // Each lane tells other tiles, which are to hear the same bits: of a user's combiner the lower lane comes first.
    const bool in_order = c_.reducers[r].reducer == lower::Reducer::custom;
    code += fill("      tell_cluster<$S>(t, r, $before, $folded);\n",
                 {{"S", s},
                  {"before", str(before)},
                  {"folded", c_.reducers[r].lanes(in_order ? "combine_lanes_in_order" : "fold_lanes",
                                                  "red" + str(r) + "[r]", in_order ? "t.lane, 1, 4" : "1, 4")}});
    before += e_.partials[r].bytes;
  }
  return "    expect_to_meet<" + types + ">(t, i);\n" + EpilogueCode::each_row(code, true);
}

// The four lanes that hold a row have its group.
std::string FinishWriter::group_end() {
  std::string code;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    if (e_.partials[r].across != Across::groups) continue;
    const std::string own = "red" + str(r) + "[r]";
    code += fill("      of_group$r[r] = $combined;\n",
                 {{"r", str(r)}, {"combined", c_.reducers[r].lanes("combine_lanes_in_order", own, "t.lane, 1, 4")}});
  }
  const std::string leaves =
      folded(Across::groups, "        ", [](std::size_t r) { return "of_group" + str(r) + "[r]"; });
  const std::string last = finish(Across::groups, "row", "column", "        ");
  if (!last.empty())
    code += fill(
        R"(      if (t.lane % 4 == 0 && row < tile_end(t.row, tile_rows(p, t.batch)) && column * GROUP_N < tile_columns(p)) {
$leaves$last      }
)",
        {{"leaves", leaves}, {"last", last}});
  if (e_.block_phase >= 0)
    code += fill(R"(      if (row < tile_rows(p, t.batch) && column * GROUP_N < tile_columns(p)) {
$leaves$blocks      }
)",
                 {{"leaves", leaves}, {"blocks", block_rows("        ")}});
  return "    const int column = (t.col + group * SUB_N) / GROUP_N;\n" + (e_.block_phase >= 0 ? block_begin() : "") +
         EpilogueCode::each_row(code, true) + (e_.block_phase >= 0 ? block_end() : "");
}

std::string FinishWriter::block_begin() {
  std::string code;
  for (std::size_t r = phase_.reductions.size(); r < e_.partials.size(); ++r)
    code += fill(" block$r = $S::identity();", {{"r", str(r)}, {"S", c_.reducers[r].type}});
  return "    if (begins_group(i)) {" + code + " }\n";
}

// What a row's group of columns adds to its block, where its states are s0, s1, ...
std::string FinishWriter::block_rows(const std::string& indent) {
  const Phase& blocks = c_.program.phases[e_.block_phase];
  std::string code = small(e_.block_phase, sinks(blocks, false, true), place(Across::groups, "row", "column"),
                           statistics(Across::groups), indent);
  for (std::size_t r = phase_.reductions.size(); r < e_.partials.size(); ++r) {
    std::vector<std::string> args;
    for (const ValueId arg : c_.reduction(r).pieces[0].args) args.push_back(small_prefix(e_.block_phase) + str(arg));
    code +=
        fill("${indent}block$r = $S::combine(block$r, $lifted);\n",
             {{"indent", indent}, {"r", str(r)}, {"S", c_.reducers[r].type}, {"lifted", c_.reducers[r].lift(args)}});
  }
  return code;
}

// The states of a block's rows: of a warp's eight that its lanes hold, then of its warps.
std::string FinishWriter::block_end() {
  std::string write, read, kept;
  for (std::size_t r = phase_.reductions.size(); r < e_.partials.size(); ++r) {
    const std::string of = str(r);
    const Hole s{"S", c_.reducers[r].type}, number{"r", of};
    write += fill(R"(      $S* shared$r = shared_pointer<$S>(t.scratch + $at);
      const $S x$r = combine_lanes_in_order(block$r, t.lane, 4, 32);
      if (t.lane == 0) shared$r[t.warp] = x$r;
)",
                  {s, number, {"at", str(e_.partials[r].scratch)}});
    read += fill("      const $S s$r = fold_group<1, $S>(t, $at, t.warp / GROUP_WARPS * GROUP_WARPS);\n",
                 {s, number, {"at", str(e_.partials[r].scratch)}});
    kept += fill("      of_block$r = s$r;\n", {number});
  }
  const std::string last = finish(Across::blocks, "row", "column", "        ");
  return fill(R"(    if (ends_group(i)) {
$write      group_sync(t);
$read      group_sync(t);  // before they are written again
$kept      const int row = (t.row + i * 64) / ROW_GROUP + t.warp / GROUP_WARPS;
      if (leaves_groups(t) && t.lane == 0 && t.warp % GROUP_WARPS == 0 && row * ROW_GROUP < tile_rows(p, t.batch) && column * GROUP_N < tile_columns(p)) {
$last      }
    }
)",
              {{"write", write}, {"read", read}, {"kept", kept}, {"last", last}});
}

// What was folded of the tile's rows, in the registers of those who hold them. One tile of those beside each other
// stores what leaves.
std::string FinishWriter::meeting(const std::function<std::string(const std::vector<std::string>&)>& met_values) {
  std::string code;
  std::vector<std::string> statistics(c_.program.buffers.size());
  if (e_.needs.group) {
    for (std::size_t r = 0; r < e_.partials.size(); ++r) {
      const bool group = e_.partials[r].across == Across::groups, block = e_.partials[r].across == Across::blocks;
      const auto& results = c_.reduction(r).results;
      const std::string state = (block ? "first.of_block" : "first.of_group") + str(r) + (block ? "" : "[r]");
      for (std::size_t k = 0; k < results.size(); ++k) {
        if ((group || block) && results[k] >= 0) statistics[results[k]] = c_.reducers[r].component(state, k);
      }
    }
    return "    const int column = t.col + group * SUB_N, column_in = min(column, tile_columns(p) - 1);\n" +
           EpilogueCode::each_row(met_values(statistics), true);
  }
  code += "#if MEETS\n    await_cluster(t, i);\n#endif\n";
  if (e_.needs.row_group) return {};  // which a fragment's columns find in shared memory
  int before = 0;                     // bytes of a row's states
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    const std::string name = "s" + str(r);
    code +=
        fill(R"(    $S all$r[2];
#if MEETS
    hear_cluster(p, t, i, $before, all$r);
#elif AGAIN || PARKS
    hear_rows(p, t, i, p.word[$word], first.ahead$r, all$r);
#else
    hear_rows(p, t, i, p.word[$word], first.red$r, all$r);
#endif
)",
             {{"S", c_.reducers[r].type}, {"r", str(r)}, {"before", str(before)}, {"word", str(e_.partials[r].word)}});
    before += e_.partials[r].bytes;
    for (std::size_t k = 0; k < phase_.reductions[r].results.size(); ++k) {
      if (const BufferId b = phase_.reductions[r].results[k]; b >= 0) statistics[b] = c_.reducers[r].component(name, k);
    }
  }
  std::string rows =
      folded(Across::rows, "      ", [](std::size_t r) { return "all" + str(r) + "[r % 2]"; }) + met_values(statistics);
  const std::string last = finish(Across::rows, "row", "0", "        ");
  if (!last.empty())
    rows += fill("      if (t.tile_n == 0 && t.lane % 4 == 0 && row < tile_rows(p, t.batch)) {\n$last      }\n",
                 {{"last", last}});
  return code + EpilogueCode::each_row(rows, true);
}

}  // namespace

std::string EpilogueCode::each_row(const std::string& statements, bool of_i) {
  if (statements.empty()) return {};
  return fill(R"(    #pragma unroll
    for (int r = $range; ++r) {
      const int row = tile_row(t, r), row_in = min(row, tile_rows(p, t.batch) - 1);
$statements    }
)",
              {{"range", of_i ? "2 * i; r < 2 * i + 2" : "0; r < ROWS"}, {"statements", statements}});
}

std::string EpilogueCode::leaf(const Instruction& i, const Place& place) {
  if (i.op == Op::get)
    return count_expression(i, place, "batches(p)",
                            "tile_rows(p, " + place.b + ")" + (host().needs.below > 1 ? " * BELOW" : ""),
                            "p.word[" + str(plan.epilogue.columns_word) + "]");
  const BufferId b = i.access.buffer;
  return converted(load_expression(program, i.access, host().word(b), place, places[b].unit), compute_type(dtype(b)),
                   i.type);
}

std::string emit_finish(EpilogueCode& code) {
  if (code.host().needs.holds) return FinishWriter(code).folding();
  return code.host().across_tiles() ? FinishWriter(code).function() : std::string();
}

std::string emit_rows_end(EpilogueCode& code) { return FinishWriter(code).rows_end(); }

std::string emit_column_end(EpilogueCode& code) { return FinishWriter(code).column_end(); }

std::string emit_row_group_end(EpilogueCode& code) { return FinishWriter(code).row_group_end(); }

std::string emit_telling(EpilogueCode& code) { return FinishWriter(code).telling(); }

std::string emit_group_end(EpilogueCode& code) { return FinishWriter(code).group_end(); }

std::string emit_meeting(EpilogueCode& code,
                         const std::function<std::string(const std::vector<std::string>&)>& met_values) {
  return FinishWriter(code).meeting(met_values);
}

}  // namespace postlude::inline v0::cuda
