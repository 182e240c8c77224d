// The source text of a matrix product around an emitted epilogue.
#pragma once

#include "cuda/choose/schedule.h"

#include <postlude/dtype.h>

#include <string>

namespace postlude::inline v0::cuda {

// What is compiled in of the operands, and of how the epilogue is paced.
struct KernelVariant {
  DType a = DType::bf16, b = DType::bf16;  // bf16, f16, e4m3, e5m2 (mixed fp8 allowed), s8, u8
  bool a_mn_major = false, b_mn_major = false;
  int a_form = 0;            // of KernelRows
  bool a_chunks = false;     // their elements lie side by side, 16 bytes at a time
  int taps = 1;              // of a window
  int a_run = 128;           // bytes of K that the copy engine loads of a pixel at a time (sm_90a)
  bool a_depth = false;      // and images have a depth
  int b_taps = 0;            // K is counted by taps: each tap's channels fill whole k blocks (sm_90a); 2: backwards
  bool padded_taps = false;  // N has columns behind each tap's channels that no tile of the epilogue has (sm_90a)
  int b_form = 0;            // of KernelRows: 2, N counts windows and K their pixels
  int block_columns = 0;     // WindowRows', of A
  int group_columns = 0,
      group_k = 0;              // of B as it lies in groups: columns and channels of one (sm_90a); 0: it does not
  int block_rows = 0;           // and of B
  std::int64_t image_rows = 0;  // that are counted from 0 again (Layout); 0: they are not
  bool scattered = false;       // rows lie in memory as ScatterRows say
  bool b_chunks = false;        // as a_chunks
  bool b_depth = false;         // as a_depth
  bool turned = false;          // rows of tile operands and outputs are side by side in memory (sm_90a)
  bool whole_m = false, whole_n = false;  // tiles divide M, N: no masks
  bool even_n = false;                    // two neighbouring columns exist or do not
  bool lone_columns = false;              // a tile has all of its columns: their statistics meet no others (sm_90a)
  bool lone_rows = false;                 // or of its rows, for which it is held
  bool tags = false;                      // a wave has all tiles: what they leave for others lies beside tags (sm_90a)
  int promoted = 0;      // so many stages' sums at a time are added in f32 (sm_90a, fp8); 0: all in one
  Stencil stencil = {};  // instead of a product (a_form: 2)
  bool boxes = false;    // of whose pixels the copy engine loads boxes (sm_90a)
  int a_rows = 0;        // rows of A in a stage (sm_90a)
  int b_pieces = 1;      // of a chunk, which are matrices behind each other where B is repacked along N (sm_90a)
  // B, and A, are read as they lie, by so many maps each (sm_90a); 0: rows begin at 16 bytes.
  int shifted = 0, shifted_a = 0;
  bool flat_a = false;
  bool apart = false;  // the epilogue's fragments are computed one after another
  bool paced = false;  // and spread over most of the other consumer's main loop
  int rolled = 0;      // the epilogue's code stands once for a subtile's fragments (1), or once at all (2)
  int at_once = 1;     // of the first, groups of columns in a round
  bool operator==(const KernelVariant&) const = default;
};

// The epilogue as emitted: text of `struct Epilogue`, of `Held` where a second phase runs on the same registers, and
// what Params must hold for it.
struct EpilogueText {
  std::string text;
  int maps = 0;   // tensor maps behind A's and B's: tile operands, then outputs
  int words = 0;  // 8-byte words of parameters
  struct Moves {
    bool loads = false;   // there are tile operands by the copy engine
    bool stores = false;  // there are outputs by the copy engine
    bool copies = false;  // some staged outputs leave by ordinary stores
  };
  Moves moves, held_moves;
  bool has_held = false;    // there is a Held
  bool restages = false;    // whose staged outputs have other sizes: what is a warp's there is another's before
  bool rows_first = false;  // a tile is worked through 64 rows at a time
  EpilogueNeeds needs;
};

// Words behind the epilogue's where parts of tiles meet in memory: where they lie, and their counters.
inline constexpr int part_words = 2;

[[nodiscard]] std::string gemm_source(const KernelVariant& variant, const Schedule& schedule,
                                      const EpilogueText& epilogue);
// Types, conversions and operations: what stands before every kernel.
[[nodiscard]] std::string base_source();
// What m_index is of a row.
[[nodiscard]] std::string row_of_image(std::int64_t image_rows);
// Copies that no thread waits for, since sm_80.
[[nodiscard]] std::string async_source();
// Where the elements of rows lie that are no stride apart, by a form (A_FORM, defined before).
[[nodiscard]] std::string rows_source();

}  // namespace postlude::inline v0::cuda
