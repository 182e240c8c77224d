// How one phase of a Program runs on the fragments that a product's threads hold, and what runs behind it. This
// decides; emit_fragment.h writes the code.
//   - Tile operands and outputs whose memory allows it move a subtile at a time, by the copy engine or (staged, but not
//     addressable by it) by the warp that staged them. What else there is, threads load and store element by element.
//   - The states of reductions across tiles are partial results in a workspace, folded when all tiles are done. Small
//     phases that need nothing but statistics of one kind run there, each where its statistics are.
//   - If nothing is left but one phase over whole rows, it may follow in the launch of the product itself.
#pragma once

#include "cuda/gemm_source.h"
#include "lower/program.h"

#include <algorithm>
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

// A reduction across tiles: rows (over N), columns (over M) or everything.
enum class Across : std::uint8_t { rows, columns, all };

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
    int word;     // its workspace
    int scratch;  // where a consumer's shared memory gathers it
    int fold;     // and where the threads that finish fold it
  };
  std::vector<Partial> partials;             // one a reduction of the phase
  bool finishes[3] = {false, false, false};  // whether there are partials to fold, by Across
  int columns_word = 0;                      // the problem's N
  std::vector<int> finished;                 // small phases that run here too
  int following = -1;            // the phase over tiles that a fourth warpgroup runs behind the product, row by row
  int following_operations = 0;  // about how many instructions it takes, an element
  int counters_word = 0;         // of reductions: two of 32 bits for all blocks or (following >= 0) for each tile row
  int finish_bytes = 0;          // shared memory of the threads that finish

  [[nodiscard]] bool runs(int p) const {
    return p == phase || p == following || std::find(finished.begin(), finished.end(), p) != finished.end();
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

struct FragmentPlan {
  FusedEpilogue epilogue;  // without its text, and the words that only the text asks for

  struct Value {
    Level level = Level::uniform;
    bool wanted = false;        // some store or reduction needs it
    bool prefetched = false;    // a row operand, read one subtile ahead
    lower::ValueId label = -1;  // it is n_index() == this i64 of the row: compared in 32 bits
  };
  std::vector<Value> values;  // one an instruction of the phase

  struct Load {
    lower::ValueId guard;  // a uniform value: where it holds, nothing is loaded; or -1
    int offset;            // bytes a column, of what stands before it in a stage
  };
  std::vector<Load> loads;  // one a map of epilogue.loaded

  struct Staged {
    const lower::Store* store;
    bool by_map;  // leaves by the copy engine; else the warp that staged it writes its rows, which no alignment hinders
    int offset;   // bytes a column, of what is staged before it
  };
  std::vector<Staged> staged;
  std::vector<const lower::Store*> direct;  // from registers
  std::vector<bool> read_later;             // buffers that launches after this one read

  // Which map a tile operand is loaded by; -1: none.
  [[nodiscard]] int map_of(const lower::Access& access) const;
};

// Why phase `index` cannot run on the fragment; empty: it can.
[[nodiscard]] std::string not_fusable(const lower::Program& program, int index);

// The accumulator columns that make an output column (1, or 2 behind a chunk in halves).
[[nodiscard]] int accumulator_parts(const lower::Phase& phase);

// What a small phase's values are, in the terms of the reductions that it follows from.
[[nodiscard]] Across across_of(const lower::Phase& small);

// `may_follow`: the kernel can run a phase over whole rows behind the product. The plan points into `program`.
[[nodiscard]] FragmentPlan plan_fragment(const lower::Program& program, int index,
                                         const std::vector<BufferPlace>& places, bool may_follow);

}  // namespace postlude::inline v0::cuda
