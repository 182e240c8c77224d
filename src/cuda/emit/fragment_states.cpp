// The states of reductions on fragments: what a thread keeps, and where it leaves it for others.
#include "core/fill.h"
#include "cuda/emit/fragment_writer.h"

namespace postlude::inline v0::cuda {

using lower::ValueId;

// Elements, or products of two, into the states of their columns, one after another under the predicate of their row:
// where two were added up first, there was a choice for each (decision 0293).
std::string FragmentWriter::column_steps(std::size_t r, const lower::Reduction::Piece& piece) const {
  const std::string state = "red" + str(r) + "[4 * f + e / 4 * 2 + e % 2]";
  std::vector<std::string> args;
  const bool product = value(piece.args[0]).folded;
  for (const ValueId arg : product ? phase_.code[piece.args[0]].args : piece.args)
    args.push_back(name(arg, Level::element));
  const std::string next =
      product ? fill("{fmaf($a, $b, $state.c0)}", {{"a", args[0]}, {"b", args[1]}, {"state", state}})
              : fill("$S::combine($state, $lifted)",
                     {{"S", c_.reducers[r].type}, {"state", state}, {"lifted", c_.reducers[r].lift(args)}});
  return fill("    EACH if ($in) $state = $next;\n", {{"in", in_row}, {"state", state}, {"next", next}});
}

// The element of a row that its label names, whose column exists: all others are 0.
std::string FragmentWriter::pick(std::size_t r, ValueId of) const {
  const std::vector<ValueId>& args = phase_.code[of].args;
  return fill("    EACH $state = $named ? $x : $state;\n", {{"state", "red" + str(r) + "[2 * i + e / 2 % 2].c0"},
                                                            {"named", name(args[0], Level::element)},
                                                            {"x", name(args[1], Level::element)}});
}

// A subtile's elements at a time, as the state of an online softmax is scaled anew for each block of them. Where they
// are not kept anyway they take registers that many accumulators do not leave (decision 0019), and what follows is for
// those; and columns that do not exist are asked for once a subtile, not once an element (decision 0293).
std::string FragmentWriter::subtile_of_softmax(std::size_t r, int piece, const std::string& x) {
  const std::string all = "all" + str(r) + "_" + str(piece);
  members_ += "  float " + all + "[2][SUB_N / 4];\n";
  return fill(R"($begin    EACH $all[e / 2 % 2][4 * f + e / 4 * 2 + e % 2] = $in ? $x : (-INF);
    if (f == SUB_N / 16 - 1) {
$hide      #pragma unroll
      for (int s = 0; s < 2; ++s) softmax_add(red$r[2 * i + s], $all[s]);
    }
$end)",
              {{"begin", keeps() ? "" : "    if (FEW) {\n"},
               {"end", keeps() ? "" : "    } else {\n"},
               {"hide", keeps() ? "" : "      hide_columns(" + all + ", t, group, tile_columns(p));\n"},
               {"all", all},
               {"in", keeps() ? in_column : "true"},
               {"x", x},
               {"r", str(r)}});
}

// A fragment's elements into the states of reduction r. Of its eight elements e, those of a row h are {0, 1, 4, 5} + 2
// h, those of a column c {0, 2} + c / 2 * 4 + c % 2.
std::string FragmentWriter::reduce(std::size_t r) {
  const Across across = e_.partials[r].across;
  const bool rows = across == Across::rows || across == Across::groups,
             columns = across == Across::columns || across == Across::row_groups;
  const std::string states = rows ? "2" : columns ? "4" : "1", size = rows ? "4" : columns ? "2" : "8";
  const std::string element = rows ? "q / 2 * 4 + s * 2 + q % 2" : columns ? "s / 2 * 4 + q * 2 + s % 2" : "q";
  const std::string state = "red" + str(r) + (rows ? "[2 * i + s]" : columns ? "[4 * f + s]" : "");
  const std::string in = rows ? in_column : columns ? in_row : in_both;
  std::string code;
  for (const auto& piece : phase_.reductions[r].pieces) {
    const bool picked = value(piece.args[0]).picked;
    if (picked || (columns && c_.reducers[r].short_step)) {
      code += picked ? pick(r, piece.args[0]) : column_steps(r, piece);
      continue;
    }
    std::vector<std::string> args;
    for (const ValueId arg : piece.args) args.push_back(name(arg, Level::element));
    const bool softmax = rows && phase_.reductions[r].reducer == lower::Reducer::online_softmax;
    if (softmax) code += subtile_of_softmax(r, static_cast<int>(&piece - phase_.reductions[r].pieces.data()), args[0]);
    if (softmax && keeps()) continue;
    Block block{.size = size, .index = "q", .in = in, .lane = "t.lane"};
    block.share = rows ? "Share::row" : columns ? "Share::column" : "Share::nothing";
    if (rows)
      block.all = fill("$pieces * own_columns<$groups>(p, t, group)",
                       {{"pieces", str(phase_.reductions[r].pieces.size())},
                        {"groups", across == Across::groups ? "SPAN" : "GROUPS"}});
    if (&piece == phase_.reductions[r].pieces.data())
      block.first = across == Across::groups ? "f == 0 && group % SPAN == 0"
                    : rows                   ? "f == 0 && group == 0"
                    : columns                ? first_rows(across)
                                             : "f == 0 && group == 0 && i == 0";
    const auto factor = [&](int k) { return name(phase_.code[piece.args[0]].args[k], Level::element); };
    const BlockAddition a = value(piece.args[0]).folded ? c_.reducers[r].products(block, factor(0), factor(1), state)
                                                        : c_.reducers[r].addition(block, args, state);
    code += fill(R"(    #pragma unroll
    for (int s = 0; s < $states; ++s) {
      $declared
      #pragma unroll
      for (int q = 0; q < $size; ++q) {
        const int e = $element;
        $filled
      }
      $added
    }
)",
                 {{"states", states},
                  {"declared", a.declared},
                  {"size", size},
                  {"element", element},
                  {"filled", a.filled},
                  {"added", a.added}});
    if (softmax) code += "    }\n";
  }
  return code;
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
      case Across::row_groups:
        members_ += "  " + s + " " + red + "[SUB_N / 4];\n";
        fragment_reset_ += fill(R"(    if ($first) {
      #pragma unroll
      for (int c = 0; c < 4; ++c) $red[4 * f + c] = $S::identity();
    }
)",
                                {{"first", first_rows(e_.partials[r].across)}, {"red", red}, {"S", s}});
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
      case Across::blocks: break;
    }
  }
  for (std::size_t r = 0; !held_ && e_.needs.holds && r < phase_.reductions.size(); ++r) {
    members_ += fill("#if AGAIN || PARKS\n  Ahead<$S> ahead$r;\n#endif\n", {{"S", c_.reducers[r].type}, {"r", str(r)}});
    told_ahead_ +=
        fill("    ahead$r.load(p, t, p.word[$word]);\n", {{"r", str(r)}, {"word", str(e_.partials[r].word)}});
  }
  for (std::size_t r = phase_.reductions.size(); !held_ && r < e_.partials.size(); ++r)
    members_ += fill("  $S block$r, of_block$r;\n", {{"S", c_.reducers[r].type}, {"r", str(r)}});
  for (const auto& l : code_.logarithms) {
    const std::string log = "log" + str(l.value);
    members_ += "  LogSum " + log + ";\n", reset_ += "    " + log + ".reset();\n";
  }
}

// Of a subtile's columns the states of each warp's rows, into shared memory from `first` states on.
std::string FragmentWriter::write_columns(std::size_t r, const std::string& first) const {
  return fill(R"(    fold_rows<$gathered, SUB_N / 4>(red$r, t.lane);
    $S* shared$r = shared_pointer<$S>(t.scratch + $at)$first;
    #pragma unroll
    for (int k = 0; k < (SUB_N + 31) / 32; ++k) {
      const int q = folded_column(t.lane, SUB_N / 4) + k;
      shared$r[t.warp * SUB_N + q / 4 * 16 + q % 4 / 2 * 8 + 2 * (t.lane % 4) + q % 2] = settled<$S>(red$r[k]);
    }
)",
              {{"gathered", c_.reducers[r].gathered},
               {"r", str(r)},
               {"S", c_.reducers[r].type},
               {"at", str(e_.partials[r].scratch)},
               {"first", first}});
}

// The states of a subtile's columns: folded over the consumer's rows, then written.
std::string FragmentWriter::group_end() {
  std::string write, read, leave;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    if (e_.partials[r].across != Across::columns) continue;
    const std::string s = c_.reducers[r].type, shared = "shared" + str(r);
    write += write_columns(r, " + folding_half(t, group) * 4 * SUB_N");
    read += fill(R"(      $S s$r = $shared[t.thread];
      #pragma unroll
      for (int w = 1; w < 4; ++w) s$r = $S::combine(s$r, $shared[w * SUB_N + t.thread]);
)",
                 {{"S", s}, {"r", str(r)}, {"shared", shared}});
    leave += fill("      leave(t, p.word[$word], column_partial(p, slots_in(p), t.batch, t.slot_m, column), s$r);\n",
                  {{"r", str(r)}, {"word", str(e_.partials[r].word)}});
  }
  if (write.empty()) return {};
  return fill(R"($write    named_sync(t.barrier, 128);
    const int column = t.col + group * SUB_N + t.thread;
    if (t.thread < SUB_N && column < tile_columns(p)) {
$read#if LONE_COLUMNS
$last#else
$leave#endif
    }
)",
              {{"write", write}, {"read", read}, {"last", emit_column_end(c_)}, {"leave", leave}});
}

// The states of a subtile's columns in groups of rows: folded over the warps of a group, then used, and left behind
// the warps' for Held. Between the barriers all read what the warps have written, and none reads what was left before.
std::string FragmentWriter::row_group_end() {
  std::string write, read, left;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    if (e_.partials[r].across != Across::row_groups) continue;
    const std::string of = str(r);
    const Hole s{"S", c_.reducers[r].type}, number{"r", of};
    write += write_columns(r, "");
    read += fill("      const $S s$r = fold_group<SUB_N, $S>(t, $at, at);\n",
                 {s, number, {"at", str(e_.partials[r].scratch)}});
    left += fill("      shared$r[4 * SUB_N + x] = s$r;\n", {number});
  }
  const std::string last = emit_row_group_end(c_);
  return fill(R"(    if (ends_group(i)) {
$write    group_sync(t);
    for (int x = t.thread; leaves_groups(t) && x < 4 / GROUP_WARPS * SUB_N; x += 128) {
      const int at = x / SUB_N * GROUP_WARPS * SUB_N + x % SUB_N;
      const int row = (t.row + i * 64) / ROW_GROUP + x / SUB_N, column = t.col + group * SUB_N + x % SUB_N;
$read$left      if (row * ROW_GROUP < tile_rows(p, t.batch) && column < tile_columns(p)) {
$last      }
    }
    group_sync(t);
    }
)",
              {{"write", write}, {"read", read}, {"left", left}, {"last", last}});
}

// The states of 64 rows: those of a group are whole, and used; others are told to the tiles beside this one.
std::string FragmentWriter::rows_end() {
  if (held_) return {};
  if (e_.needs.group) return emit_group_end(c_);
  if (e_.needs.row_group) return row_group_end();
  if (e_.held < 0) return {};
  std::string code;
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    code += fill(R"(      const $S x$r = $folded;
      if (t.lane % 4 == 0 && row < tile_rows(p, t.batch)) tell(p.word[$word], told_index(p, t.batch, row, t.tile_n), x$r, t.tag);
)",
                 {{"S", c_.reducers[r].type},
                  {"r", str(r)},
                  {"folded", c_.reducers[r].lanes("fold_lanes", "red" + str(r) + "[r]", "1, 4")},
                  {"word", str(e_.partials[r].word)}});
  }
  return "#if MEETS\n" + emit_telling(c_) + "#elif TELLS\n" + EpilogueCode::each_row(code, true) +
         "#endif\n#if HOLDS\n    move_nothing_across(never(p));  // else it is told late\n#endif\n";
}

// The states of a tile's rows and of all of it.
std::string FragmentWriter::end() {
  std::string code, write, read;
  for (const auto& l : code_.logarithms) {
    const std::string s = c_.reducers[l.reduction].type, red = "red" + str(l.reduction);
    code += fill("    $red = $S::combine($red, $S::lift(${sign}log$value.value()));\n",
                 {{"red", red}, {"S", s}, {"sign", l.negative ? "-" : ""}, {"value", str(l.value)}});
  }
  for (std::size_t r = 0; r < phase_.reductions.size(); ++r) {
    const std::string s = c_.reducers[r].type, red = "red" + str(r), shared = "all" + str(r);
    if (e_.partials[r].across == Across::rows && !e_.needs.holds) {
      code += EpilogueCode::each_row(fill(R"(      const $S x = $combined;
      if (t.lane % 4 == 0 && row < tile_end(t.row, tile_rows(p, t.batch))) leave(t, p.word[$word], row_partial(p, t.batch, t.tile_n, row), x);
)",
                                          {{"S", s},
                                           {"combined", c_.reducers[r].lanes("combine_lanes", red + "[r]", "1, 4")},
                                           {"word", str(e_.partials[r].word)}}));
    } else if (e_.partials[r].across == Across::all) {
      write += fill(R"(    $S* $shared = shared_pointer<$S>(t.scratch + $at) + t.turn * 4;
    {
      const $S x = fold_lanes<$S>(settled<$S>($red), 1, 32);
      if (t.lane == 0) $shared[t.warp] = x;
    }
)",
                    {{"S", s}, {"shared", shared}, {"at", str(e_.partials[r].scratch)}, {"red", red}});
      read += fill(
          "      leave(t, p.word[$word], tile_partial(p, slots_in(p), t.batch, t.slot_m, t.tile_n), "
          "$S::combine($S::combine($all[0], $all[1]), $S::combine($all[2], $all[3])));\n",
          {{"word", str(e_.partials[r].word)}, {"S", s}, {"all", shared}});
    }
  }
  if (e_.needs.only_rows && !e_.needs.holds)
    code = "#if LONE_ROWS\n" + emit_rows_end(c_) + "#else\n" + code + "#endif\n";
  if (write.empty()) return code;
  return code + write + "    named_sync(t.barrier, 128);\n    if (t.thread == 0) {\n" + read + "    }\n";
}

}  // namespace postlude::inline v0::cuda
