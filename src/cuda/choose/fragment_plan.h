// How one phase of a Program runs on the fragments that a product's threads hold, and what runs behind it. This
// decides; emit/fragment.h writes the code.
//   - Tile operands and outputs whose memory allows it move a subtile at a time, by the copy engine or (staged, but not
//     addressable by it) by the warp that staged them. What else there is, threads load and store element by element.
//   - The states of reductions across tiles are partial results in a workspace, folded when all tiles are done. Small
//     phases that need nothing but statistics of one kind run there, each where its statistics are.
//   - A reduction in groups of columns or rows that tiles hold whole is folded in place, and its small phases run;
//     so is one of the statistics of groups of columns in groups of rows, which makes blocks.
//   - If nothing is left but one phase over the same tiles, it may run on the same registers, once the statistics of
//     its groups are known, or all tiles beside one another have met and those of their rows are.
#pragma once

#include "cuda/emit/gemm_source.h"
#include "lower/program.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace postlude::inline v0::cuda {

// How a buffer's memory allows itself to be reached; known when it is bound.
struct BufferPlace {
  bool tensor_map = false;  // by the copy engine: base and strides multiples of 16 bytes, columns contiguous
  bool unit = false;        // columns contiguous (or it has none)
  bool pair = false;        // two neighbouring columns in one aligned access, the phase's columns even
  bool wide = false;        // eight in one or two aligned accesses, the phase's columns a multiple of eight
  bool operator==(const BufferPlace&) const = default;
};

// Those of a Program's buffers if all memory were aligned. `columns`: the phase's.
[[nodiscard]] std::vector<BufferPlace> aligned_places(const lower::Program& program, std::int64_t columns);

// What a reduction leaves across tiles: rows (it is over N), columns (over M) or one state; or, within a tile, a row's
// groups of columns, a column's groups of rows, or blocks, which are groups of both.
enum class Across : std::uint8_t { rows, columns, all, groups, row_groups, blocks };

// What the host must know of an epilogue beside its text.
struct FusedEpilogue : EpilogueText {
  int phase = 0;
  std::vector<lower::BufferId> loaded;    // by tensor map, in the order of Params::map behind A and B
  std::vector<lower::BufferId> stored;    // by tensor map, behind those
  std::vector<lower::ColumnMap> columns;  // of all these maps: which of the buffer's columns are the phase's
  std::vector<int> word_of;  // a buffer's first of four parameter words, or -1: address, strides of b, m, n
  struct Partial {
    Across across;
    int bytes;    // of a state
    int word;     // its workspace; -1: none, as a tile folds it alone
    int scratch;  // where a consumer's shared memory gathers it
    int fold;     // and where the threads that finish fold it
  };
  // Of four bytes, beside the accumulators and what a fragment computes.
  struct Pressure {
    int ahead = 0;          // of row operands that are read ahead, of two neighbouring columns
    int loaded = 0;         // bytes of tile operands, an element
    int rows = 0;           // of values of a row
    int row_states = 0;     // of reductions, of each row
    int column_states = 0;  // and of each column
    int by_threads = 0;     // tile operands that threads load, each of a fragment's eight by itself
    bool draws = false;     // random numbers
  };
  Pressure pressure[2];           // of the phase, and of the held one (spills.h)
  std::vector<Partial> partials;  // one a reduction of the phase, then of block_phase
  bool finishes[6] = {};          // which kinds there are, by Across
  int block_phase = -1;           // of those finished: it reduces statistics of groups of columns in groups of rows
  int columns_word = 0;           // the problem's N
  std::vector<int> finished;      // small phases that run here too, where their statistics are known
  int held = -1;                  // the phase that runs on the same registers once its statistics are known
  int counters_word = 0;  // of reductions across tiles: 32 bits for all blocks or (needs.holds) each block's tag
  int finish_bytes = 0;   // shared memory of the threads that finish
  // Where a tile is held, the two phases as they run: nothing crosses, and what was kept is the second's `acc`.
  std::vector<std::shared_ptr<const lower::Phase>> phases;
  std::vector<bool> read_later;  // buffers that launches after this one read

  [[nodiscard]] bool across_tiles() const { return finishes[0] || finishes[1] || finishes[2]; }
  [[nodiscard]] bool runs(int p) const {
    return p == phase || p == held || std::find(finished.begin(), finished.end(), p) != finished.end();
  }
  [[nodiscard]] std::string held_for() const {
    return !needs.holds ? "groups' statistics" : needs.turned ? "columns' statistics" : "rows' statistics";
  }
  int take_words(int count) { return std::exchange(words, words + count); }
  // A buffer's parameter words, taken when they are first asked for.
  int word(lower::BufferId buffer) {
    if (word_of[buffer] < 0) word_of[buffer] = take_words(4);
    return word_of[buffer];
  }
};

// What a value varies over, and so where its code stands.
enum class Level : std::uint8_t { uniform, row, column, element };
[[nodiscard]] inline Level level_of(Axes axes) {
  if (axes.has(Axis::m)) return axes.has(Axis::n) ? Level::element : Level::row;
  return axes.has(Axis::n) ? Level::column : Level::uniform;
}

// How the code of one phase stands on the fragments.
struct FragmentCode {
  const lower::Phase* phase = nullptr;

  struct Value {
    Level level = Level::uniform;
    bool wanted = false;        // some store or reduction needs it
    bool narrow = false;        // only stored, where beyond 2^96 may be infinite and below 2^-30 zero
    bool met = false;           // of a row (in a group of columns), known when its statistics are
    bool prefetched = false;    // a row operand, read one subtile ahead
    lower::ValueId label = -1;  // it is n_index() == this i64 of the row: compared in 32 bits
    bool picked = false;        // it is a value where that holds, else 0, and only summed over its row
    bool folded = false;        // no code of its own: a sum takes it as a product, or as one of its logarithms
    bool drawn = false;         // it draws a number for each element, for four of them by one block of Philox
    // It compares such numbers with a constant, and nothing else wants them: it is words < `below`, or (`not_below`)
    // not so.
    std::int64_t below = -1;
    bool not_below = false;
    bool weight = false;   // it is exp(x - m) / s of an online softmax {m, s} of x; its arguments are x - m and s
    bool bounded = false;  // it is x / s, |x| at most 2^60 s, and s at least 2^-72, up to 2^126 or infinite or NaN
    bool byte = false;     // and |x| at most 127 s, but for what is rounded
  };
  std::vector<Value> values;  // one an instruction of the phase

  struct Load {  // a tile operand by tensor map
    lower::BufferId buffer;
    lower::ColumnMap columns;
    std::vector<lower::ColumnMap::Step> row_steps;
    lower::ValueId guard;  // a uniform value: where it holds, nothing is loaded; or -1
    int offset;            // bytes a column, of what stands before it in a stage
  };
  std::vector<Load> loads;
  int first_load = 0;  // which of FusedEpilogue::loaded is the first

  struct Staged {
    const lower::Store* store;
    bool by_map;  // leaves by the copy engine; else the warp that staged it writes its rows, which no alignment hinders
    int offset;   // bytes a column, of what is staged before it
  };
  std::vector<Staged> staged;
  int first_store = 0;                      // which of FusedEpilogue::stored is the first
  std::vector<const lower::Store*> direct;  // from registers
  struct Interleaved {                      // both pieces of an output in pairs of columns, or of rows
    const lower::Store *even, *odd;
  };
  std::vector<Interleaved> interleaved;  // likewise, four elements side by side, or (of rows) two

  // Logarithms of clamped values that nothing asks for but a sum over the tile: the sum takes that of their product,
  // and where they stood is 0.
  struct Logarithm {
    lower::ValueId value;
    std::size_t reduction;
    bool negative;
  };
  std::vector<Logarithm> logarithms;

  // Which load an access is; -1: none.
  [[nodiscard]] int load_of(const lower::Access& access) const;
};

struct FragmentPlan {
  FusedEpilogue epilogue;  // without its text, and the words that only the text asks for
  FragmentCode first, held;
  // Of the first phase, what stays in the registers of the accumulator's part for the held one, rounded to a dtype.
  struct Kept {
    lower::ValueId value;
    DType dtype;
    bool operator==(const Kept&) const = default;
  };
  std::vector<Kept> kept;
};

// Why phase `index` cannot run on the fragment; empty: it can.
[[nodiscard]] std::string not_fusable(const lower::Program& program, int index);

// Which piece a tensor map is of: of columns, or of rows where these are what is chunked.
[[nodiscard]] inline lower::ColumnMap pieces_of(const lower::Access& access) {
  return access.row_steps.empty() ? access.columns : lower::ColumnMap{access.row_steps};
}

// The chunk that a phase takes the accumulator in; null: it takes it whole.
[[nodiscard]] const lower::ColumnMap::Step* chunk_of(const lower::Phase& phase);
inline constexpr int most_pieces = 8;  // of one, that a tile has side by side

// Whether it is the accumulator's rows, of a turned product, that are chunked.
[[nodiscard]] bool chunks_rows(const lower::Phase& phase);

// The accumulator columns that make an output column (1, or 2 to 8 behind a chunk), or rows that make a row.
[[nodiscard]] int accumulator_parts(const lower::Phase& phase);
// Of such a chunk in groups, the columns (or rows) of a group's piece; 0: of all.
[[nodiscard]] int accumulator_piece(const lower::Phase& phase);

// What a small phase's values are, in the terms of the reductions that it follows from.
[[nodiscard]] Across across_of(const lower::Phase& small);

// What a second phase on the same registers may wait for: the statistics of its tile's groups, or those of rows too.
// in_order: not even small phases leave their place.
enum class Hold : std::uint8_t { in_order, nothing, groups, rows };

// The plan points into `program`.
[[nodiscard]] FragmentPlan plan_fragment(const lower::Program& program, int index,
                                         const std::vector<BufferPlace>& places, Hold hold);

}  // namespace postlude::inline v0::cuda
