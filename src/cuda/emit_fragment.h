// The fused epilogue: one phase of a Program as code over the fragment that a thread of the matrix product holds, and
// the small phases behind it that need nothing but statistics of one kind: the small kernel that folds the partials
// runs them.
#pragma once

#include "cuda/gemm_source.h"
#include "lower/program.h"

#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

// How a buffer's memory allows itself to be reached; known when it is bound.
struct BufferPlace {
  bool tensor_map = false;  // by the copy engine: base and strides multiples of 16 bytes, columns contiguous
  bool unit = false;        // columns contiguous (or it has none)
  bool pair = false;        // two neighbouring columns in one aligned access, the phase's columns even
  bool wide =
      false;  // eight neighbouring columns in one or two aligned accesses, the phase's columns a multiple of eight
  bool operator==(const BufferPlace&) const = default;
};

// A reduction across tiles: rows (over N), columns (over M) or everything.
enum class Across : std::uint8_t { rows, columns, all };

struct FusedEpilogue : EpilogueText {
  std::vector<lower::BufferId> loaded;    // by tensor map, in the order of Params::map behind A and B
  std::vector<lower::BufferId> stored;    // by tensor map, behind those
  std::vector<lower::ColumnMap> columns;  // of all these maps: which of the buffer's columns are the phase's (`beside`)
  std::vector<int> word_of;  // a buffer's first of four parameter words, or -1: address, strides of b, m, n
  struct Partial {
    Across across;
    int bytes;  // of a state
    int word;   // its workspace
  };
  std::vector<Partial> partials;  // one a reduction of the phase
  bool finishes[3] = {false, false,
                      false};    // whether there are partials to fold, by Across: the kernel postlude_finish
  int columns_word = 0;          // the problem's N
  std::vector<int> finished;     // phases that run here too
  int following = -1;            // the phase over tiles that a fourth warpgroup runs behind the product, row by row
  int following_operations = 0;  // about how many instructions it takes, an element
  int ready_word = 0;            // its counters: two of 32 bits for each tile row
};

// Why phase `index` cannot run on the fragment; empty: it can.
[[nodiscard]] std::string not_fusable(const lower::Program& program, int index);

// The accumulator columns that make an output column (1, or 2 behind a chunk in halves).
[[nodiscard]] int accumulator_parts(const lower::Phase& phase);

// `may_follow`: the kernel can run a phase over whole rows behind the product.
[[nodiscard]] FusedEpilogue emit_fragment(const lower::Program& program, int index,
                                          const std::vector<BufferPlace>& places, bool may_follow);

}  // namespace postlude::inline v0::cuda
