// A schedule says how the product and one epilogue run on one shape: by the sm_90a kernel, or by
// the portable one (`mma`) of sm_80 and newer, or how a depthwise convolution does (`strip_x`). Choosing is pure;
// nothing here touches a device.
#pragma once

#include "lower/program.h"

#include <postlude/error.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace postlude::inline v0::cuda {

struct Schedule {
  bool mma = false;        // the portable kernel: a block computes one tile, its consumers side by side
  bool ping_pong = true;   // consumers take whole tiles in turns; else each takes half the rows of every tile,
  bool abreast = false;    // or all rows and half the columns
  int bm = 128, bn = 128;  // accumulator tile
  int stages = 4;          // of A and B, 128 bytes of K each (mma: 64)
  int sub_n = 64;          // columns of a subtile of the epilogue (16, 32, 48 or 64), of 64 rows
  int d_buffers = 2;       // staged subtiles of the outputs, a consumer (mma: 1, as every warp writes what it staged)
  int aux_stages = 0;      // subtiles of the tile operands in flight, a consumer; 0: it has none by tensor map
  int raster = 8;          // tile rows walked together
  int split = 1;           // equal parts of a tile's K: each a block's, of a cluster (1, 2, 4 or 8 blocks), or
  bool by_memory = false;  // taken by blocks as tiles are, and joined in memory,
  bool in_shares = false;  // where each adds a share of the tile, else the last adds all others (decision 0074)
  bool at_end = false;     // only of tiles behind the last whole wave of them
  int cluster_m = 1, cluster_n = 1;  // tiles of a cluster along M and N, whose blocks load together what they share,
  bool meets = false;                // or (decision 0307) tell each other the statistics of all columns of their rows
  // B's rows, which begin between 16 bytes, are read as they lie: lanes shift what they multiply (decision 0284), or
  // cooperative consumers put it where wgmma reads it (decision 0310).
  bool shifted = false;
  bool shifted_a = false;  // and so are A's (decision 0324)
  bool again = false;   // tiles are multiplied twice: for their rows' statistics, and for what follows (decision 0289)
  bool parks = false;   // held tiles wait in shared memory while the next ones are multiplied (decision 0311)
  bool looped = false;  // the epilogue's code stands once for the fragments of a subtile (decision 0110)
  // A stencil, whose blocks are as the portable kernel's: pixels of one channel that a lane adds up; 0: it is none.
  int strip_x = 0, strip_y = 0;
  int ring = 0;         // rows of pixels of bands in shared memory, where the copy engine loads them; 0: threads do
  bool beside = false;  // of a ring: four more warps run the epilogue of the tile before
  // Of which a warp adds up strips together, by bands on tensor cores (decision 0088), or with `strips` those that a
  // block brings to shared memory and multiplies (decision 0275); 0: on FMA units.
  int images = 0;
  int strips = 0;  // of a block whose threads read pixels straight from memory (decision 0223); 0: from shared memory

  bool operator==(const Schedule&) const = default;
};

// A schedule as text, "pingpong 128x192x5 sub 64x2 aux 2 raster 8" (or cooperative, abreast or mma; behind it "cluster
// 2x1" or "cluster 1x4 meets", "split 2" or "split 26 by memory", or that "in shares" or "at end" or both, "shifted",
// "A shifted" or "A and B shifted", "again", "parks" and "looped"), "stencil 256x32 sub 32x1 aux 2 strip 14x4", "bands
// 256x32 sub 32x1 aux 2 rows 2 images 1" (or that with "ring 14", or "ring 14 beside", behind it), or "direct 8x64
// strip 4x4" (or "images 8" behind it), and back. parse_schedule throws unreadable(), naming what is wrong.
[[nodiscard]] std::string to_string(const Schedule& schedule);
[[nodiscard]] Schedule parse_schedule(std::string_view text);
[[nodiscard]] Error unreadable(std::string_view text, const std::string& why);

// Where the lines of 128 bytes begin that the copy engine loads of A or B: at a line of L2, at a sector of 32 bytes in
// one, or between two sectors (decision 0092); or at lines that a launch before has written (decision 0194).
enum class Lines : std::uint8_t { aligned, at_sectors, between, copied };

// A depthwise convolution: windows of one channel of images, along rows and columns (src/loop/rows.h).
struct Stencil {
  struct Axis {
    int pixels = 1, taps = 0, step = 1, reach = 1;
    int extent = 1, first = 0;                   // of the image; where the first window begins in it
    std::int64_t stride = 0, weight_stride = 0;  // elements from a pixel, and from a weight, to the next
    int up = 1;  // pixels of the image are so far apart, with zeros between them, `first` among these (decision 0242)
    // Elements that are read for so many pixels.
    [[nodiscard]] int read(int count) const { return (count - 1) * step + (taps - 1) * reach + 1; }
    bool operator==(const Axis&) const = default;
  };
  Axis y, x;
  std::int64_t channel_stride = 0;             // of weights
  int weight_alignment = 2;                    // bytes, of the first one
  std::int64_t columns = 0, image_stride = 0;  // channels; elements from an image to the next
  bool packed_tiles = false;      // operands and outputs of the output's shape lie as it does, without gaps
  std::int64_t first_weight = 0;  // elements behind the weights' address
  bool narrow = false;            // channels are no whole 16 bytes
  bool singles = false;           // nor whole pairs
  bool operator==(const Stencil&) const = default;
  explicit operator bool() const { return x.taps > 0; }  // there is one
};
// The pixels of a tile: whole rows, or a part of one.
struct StencilTile {
  int y, x;
};
[[nodiscard]] StencilTile stencil_tile(const Schedule& schedule, const Stencil& stencil);

// The facts of an epilogue on which a schedule depends.
struct EpilogueNeeds {
  int parts = 1;  // accumulator columns an output column: 2 to 8 behind a chunk
  int piece = 0;  // of such a chunk in groups: the columns of a group's piece; 0: of all
  // Likewise of a turned product, whose accumulator has the pieces of a chunk below each other (decision 0302).
  int below = 1, row_piece = 0;
  int run = 0;  // subtiles divide this: the columns that lie side by side in chunked operands and outputs; 0: all
  int d_bytes_column = 2;       // bytes of all staged outputs, one element
  int copied_bytes_column = 0;  // of them, those that warps write, as no tensor map describes their rows
  int aux_bytes_column = 0;     // bytes of all tile operands loaded by tensor map, one element
  int scratch_bytes = 0;        // shared memory of reductions, a consumer
  int element_bytes = 2;        // of A and B
  int a_rows =
      0;  // rows of A in a stage of a tile of 64 where M is fewer: what stands there for others is not used; 0: 64
  bool b_mn_major = false;
  bool shifted = false;   // B's rows begin anywhere, and no copy of them is made
  int shifted_a = 0;      // and so do A's: those that begin alike are so many apart; 0: at 16 bytes
  int block_columns = 0;  // tiles divide this: columns that share their rows of A (groups of channels); 0: all
  int block_rows = 0;     // and rows that share their columns of B
  int b_box = 0;  // of filters in groups, read as they lie: at most so many columns a box (along N: of K); 0: any
  bool windows = false;        // A's rows are windows
  bool counts_pixels = false;  // K is the pixels of a weight gradient, and B their windows
  bool whole_k = false;        // no tile's K is split: launches with several K share the schedule
  Lines a_lines = Lines::aligned, b_lines = Lines::aligned;
  bool shares_a = false;      // all batches multiply one A
  bool promoted = false;      // sums of a few stages are added to a second accumulator
  bool meets = false;         // blocks wait for each other: all must run at once
  bool reduces = false;       // for statistics, of whatever
  int row_states = 0;         // bytes of what tiles leave of a row for others to fold
  bool columns = false;       // for the statistics of columns
  bool only_columns = false;  // and for nothing else
  bool only_rows = false;     // or for those of rows alone
  bool holds = false;         // moreover a tile waits, in registers, for the statistics of its rows
  bool repeats = false;       // nothing else is left by what comes before them, so it may run twice
  int first_operations = 0;   // of `operations`, those that come before; and of these the reductions'
  int reductions = 0;
  int first_aux_bytes_column = 0;  // of aux_bytes_column
  int group = 0;               // columns of a reduction in groups, which a consumer folds alone: they divide its tile
  int row_group = 0;           // rows of one in groups of rows, which divide a tile's
  int a_taps = 1, b_taps = 1;  // so often an element of A or B is read, but once from memory (windows)
  Stencil stencil = {};        // instead of a product
  bool turned = false;         // columns are the output's rows, a line of memory each (decision 0266)
  bool boxes = false;          // of whose pixels the copy engine loads boxes
  bool any_rows = false;       // no value asks for its row, and maps move all: a thread may have any pixels
  bool any_columns = false;    // likewise, of columns
  bool draws = false;          // random numbers, for lines 8 apart by one block of Philox
  int operations = 0;          // about how many instructions the epilogue takes, an element
  int most_stages = 6;         // stages up to this number are worth more than wide subtiles
  int full_stages = 0;         // of a short K that is held with tile operands: so few are full; 0: any
  bool short_k = false;        // K has at most eight blocks, and wide subtiles are worth more than a fifth stage
  [[nodiscard]] bool in_groups() const { return group || row_group; }
};
inline constexpr int narrowest_subtile = 16;
// Whether no element of the output follows from another tile's or another column's accumulators.
[[nodiscard]] inline bool of_elements(const EpilogueNeeds& needs) {
  return !needs.reduces && !needs.holds && !needs.in_groups() && needs.parts == 1;
}
// Whether K is too short to hide that subtiles of less than 64 columns, and turned ones, are stored in parts of lines,
// and operands loaded so. Of a longer K and of windows it was not measured (decision 0316).
[[nodiscard]] inline bool shows_lines(const EpilogueNeeds& needs, std::int64_t k) {
  const std::int64_t most = needs.aux_bytes_column ? 1023 : 512;
  return of_elements(needs) && !needs.windows && needs.element_bytes == 2 && k > 0 && k <= most;
}
// Whether tiles have columns in steps of eight, each consumer of its own (decision 0286). Two lines of a block of
// random numbers lie in one fragment.
[[nodiscard]] inline bool in_eights(const EpilogueNeeds& needs) {
  return needs.turned && of_elements(needs) && !needs.draws;
}
[[nodiscard]] inline int width_step(const EpilogueNeeds& needs, bool abreast) {
  return (in_eights(needs) ? 8 : 16) * (abreast ? 2 : 1);
}
// All accumulators of an element.
[[nodiscard]] inline int pieces(const EpilogueNeeds& needs) { return needs.parts * needs.below; }
// Whether 64 rows are whole pieces of so many rows (0: of all), or some of one.
[[nodiscard]] bool holds_row_pieces(std::int64_t piece);
// Whether some tile has pieces of so many columns (0: of all) of a chunk in `parts` side by side.
[[nodiscard]] bool holds_pieces(int parts, std::int64_t piece);
// Groups of so many columns are held by some tile of Hopper's, in whole subtiles.
[[nodiscard]] bool holds_groups(std::int64_t columns);
// Groups of so many rows are held by some tile, each by whole warps, which have 16 of 64 rows.
[[nodiscard]] inline bool holds_row_groups(std::int64_t rows) { return rows >= 16 && 128 % rows == 0; }
[[nodiscard]] inline bool is_long(const EpilogueNeeds& needs) { return needs.operations >= 40; }
// So long that its code stands once, in a loop over fragments (decision 0107).
[[nodiscard]] inline bool is_rolled(const EpilogueNeeds& needs) { return needs.operations >= 80; }

inline constexpr int shared_limit = 232448;  // bytes a block may have on sm_90
inline constexpr int most_stages = 24;
inline constexpr int most_parts = 128;           // of a tile, joined in memory
inline constexpr int most_met = 8;               // tiles of a cluster that meets
inline constexpr int mma_shared_limit = 101376;  // and on every GPU since sm_80

// The number of consumers, which are groups of 128 threads that hold accumulators, and each one's
// part of a tile.
[[nodiscard]] int consumers(const Schedule& schedule);
[[nodiscard]] int consumer_rows(const Schedule& schedule);
[[nodiscard]] int consumer_columns(const Schedule& schedule);
// Columns of a consumer's last fragment of 16 that are not its own: 8 or none (decision 0286).
[[nodiscard]] inline int cut_columns(const Schedule& s) { return s.mma ? 0 : (16 - consumer_columns(s) % 16) % 16; }
[[nodiscard]] inline int threads(const Schedule& s) {
  return s.strips ? s.strips * s.bn / 2 : (consumers(s) + (s.mma && !s.beside ? 0 : 1)) * 128;
}
inline constexpr int stencil_warps = 4;  // of a block
// Where strips are added up by bands: the matrices of a row of pixels, and how those of a block lie in shared memory
// (device/stencil_bands.cu).
struct BandPixels {
  int k_blocks, row, rows, bytes;  // of 16 pixels; pixels
  int strips;                      // of eight channels and 16 runs of pixels
  bool paired;                     // each two of these beside each other
  int fresh;                       // rows that come for a tile: of a ring those that the tile above did not leave
  int box;                         // of a ring, rows that come together: as many as never end behind its last one
};
[[nodiscard]] BandPixels band_pixels(const Schedule& schedule, const Stencil& stencil);
// Of a stencil, in shared memory: the epilogue's, the weights', the pixels', the sums'; and the blocks of a
// multiprocessor, by registers.
struct StencilMemory {
  int epilogue, weights, pixels, sums, barriers;
  [[nodiscard]] int all() const { return epilogue + weights + pixels + sums + barriers; }
};
[[nodiscard]] StencilMemory stencil_memory(const Schedule& schedule, const EpilogueNeeds& needs);
// Whether its lanes go through the rows of the filter in a loop.
[[nodiscard]] bool rows_in_turn(const Schedule& schedule, const Stencil& stencil);
[[nodiscard]] int resident(const Schedule& schedule, const EpilogueNeeds& needs);
// The blocks of a cluster: each has a part of the same tile's K, or a tile.
[[nodiscard]] inline int cluster_parts(const Schedule& s) { return s.by_memory ? 1 : s.split; }
[[nodiscard]] inline int cluster_tiles(const Schedule& s) { return s.cluster_m * s.cluster_n; }
// Of these, those that load together the rows of A that they share; and all that load together.
[[nodiscard]] inline int sharing_a(const Schedule& s) { return s.meets ? 1 : s.cluster_n; }
[[nodiscard]] inline int loading_together(const Schedule& s) { return s.cluster_m * sharing_a(s); }
[[nodiscard]] inline int cluster_blocks(const Schedule& s) { return cluster_parts(s) * cluster_tiles(s); }
// Tiles of 32 columns are for products of so few that each is a block's only one (decision 0209).
[[nodiscard]] inline bool is_narrow(const Schedule& s) { return !s.mma && s.bn < 64; }
// Of a stage.
[[nodiscard]] inline int k_bytes(const Schedule& s) { return s.mma ? 64 : s.shifted && s.ping_pong ? 256 : 128; }
// A stage of B, and what consumers exchange sums or put lines of B into, of B as it lies (device/sm90_shifted.cu).
struct ShiftedWindows {
  int lines, bytes;  // a stage's; each
};
[[nodiscard]] inline ShiftedWindows shifted_b(const Schedule& s, bool along_n) {
  return along_n ? ShiftedWindows{k_bytes(s) / 2, s.bn * 2 + 16} : ShiftedWindows{s.bn, k_bytes(s) + 16};
}
[[nodiscard]] ShiftedWindows shifted_a(const Schedule& schedule, const EpilogueNeeds& needs);
[[nodiscard]] int shifted_a_bytes(const Schedule& schedule, const EpilogueNeeds& needs);  // a stage of A
[[nodiscard]] inline int exchange_bytes(const Schedule& s) { return s.shifted ? (s.ping_pong ? 64 : 128) * s.bn : 0; }

// Whether a consumer's tile has all rows of its columns, so that no statistic needs another tile's.
[[nodiscard]] inline bool lone_columns(const Schedule& s, const EpilogueNeeds& n, std::int64_t m) {
  return n.only_columns && !s.mma && s.ping_pong && m <= s.bm / n.below;
}

// Whether it has all columns of its rows, so that what is held for their statistics, or made of them, waits for no
// other tile.
[[nodiscard]] inline bool lone_rows(const Schedule& s, const EpilogueNeeds& n, std::int64_t columns) {
  return (n.holds || (n.only_rows && !s.mma)) && s.cluster_n == 1 && columns <= consumer_columns(s) / n.parts;
}

// Whether partial results that others fold lie beside tags: where each block has but one tile, for which nobody waits
// long (decision 0313).
[[nodiscard]] bool folds_tagged(const Schedule& schedule, const EpilogueNeeds& needs, std::int64_t batch,
                                std::int64_t m, std::int64_t columns, int multiprocessors);

// Few rows are bytes of B: more of them are on their way where A takes no more room in a stage than it has rows. 0: of
// more rows than that, all of a tile's.
[[nodiscard]] inline int few_rows(std::int64_t m) { return m > 32 ? 0 : m > 16 ? 32 : 16; }

// The rows of A that come for a tile; and of one box of them (sm_90a).
[[nodiscard]] inline int a_rows(const Schedule& s, const EpilogueNeeds& n) {
  return n.a_rows && s.bm == 64 && !s.mma ? n.a_rows : s.bm;
}
[[nodiscard]] int a_run(const Schedule& s, const EpilogueNeeds& n);
// Whether 64 rows of a chunk's piece are whole pieces of groups, from which the copy engine gathers them.
[[nodiscard]] inline bool is_gathered_below(const EpilogueNeeds& n) {
  return n.row_piece && 64 % n.row_piece == 0 && n.row_piece < 64;
}

// The columns of one box of B (sm_90a): all of a tile's piece that lie side by side or in whole groups, from which the
// copy engine gathers them; else 16, 32 or 64. Of an odd number of boxes the blocks of a cluster load halves.
[[nodiscard]] int b_run(const Schedule& schedule, const EpilogueNeeds& needs);
[[nodiscard]] bool is_gathered(const Schedule& schedule, const EpilogueNeeds& needs);

// The sizes that a schedule is chosen for. `columns` are the output's (behind a chunk: the
// accumulator's over parts).
struct Extents {
  std::int64_t batch, m, columns, k;
};

// Whether consumers put rows of A that begin between 16 bytes where wgmma reads them; else lanes shift what they
// multiply, beside a B that is shifted (decision 0324).
[[nodiscard]] inline bool puts_rows(const Schedule& schedule) { return schedule.shifted_a && !schedule.shifted; }

// The number of tiles, and how many of them are beside each other, those of whole clusters that do not exist among
// them. `columns`: the output's.
struct Tiles {
  std::int64_t all, beside, batches = 1;
};
[[nodiscard]] std::int64_t tiles_down(const Schedule& schedule, const EpilogueNeeds& needs, std::int64_t m);
[[nodiscard]] Tiles tiles_of(const Schedule& schedule, const EpilogueNeeds& needs, std::int64_t batch, std::int64_t m,
                             std::int64_t columns);

// Tiles that are computed before those whose K has parts, and have none themselves.
[[nodiscard]] std::int64_t whole_tiles(const Schedule& schedule, const EpilogueNeeds& needs, Tiles tiles,
                                       int multiprocessors);

// The number of blocks that run the tiles: as few as the number of waves needs (the same time for
// less power). 0: fewer run at once than must (held tiles need all that are beside each other, which in ping-pong
// may lie in two turns; split tiles that meet need each other), or no whole wave has tiles behind it that are to be
// split.
[[nodiscard]] int blocks(const Schedule& schedule, const EpilogueNeeds& needs, Tiles tiles, int multiprocessors);

// Whether held tiles wait for others of the next turn, which other consumers multiply meanwhile.
[[nodiscard]] bool is_out_of_step(const Schedule& schedule, const EpilogueNeeds& needs, Tiles tiles, int blocks);

// Of tiles that are multiplied twice: how many follow one another, first for their statistics and, behind those of as
// many more, for what follows. Whole groups of the raster, so that nobody waits for what comes later; and whole turns
// of all blocks, so that these are at the same at a time.
[[nodiscard]] std::int64_t tiles_in_turn(const Schedule& schedule, Tiles tiles, int blocks);

// The number of clusters of so many blocks, one a multiprocessor, that run at once on any Hopper
// GPU.
[[nodiscard]] int clusters(int split, int multiprocessors);

// Likewise of blocks that have tiles beside each other, about: others run behind them.
[[nodiscard]] int meeting_clusters(int tiles, int multiprocessors);

// Bytes of shared memory, alignment included.
[[nodiscard]] int shared_bytes(const Schedule& schedule, const EpilogueNeeds& needs);

// Why a schedule is not legal for these needs; empty: it is.
[[nodiscard]] std::string illegal(const Schedule& schedule, const EpilogueNeeds& needs);

// Gives a tile the most stages and buffers that fit in shared memory; stages == 0 where nothing
// does.
[[nodiscard]] Schedule fill_shared(Schedule tile, const EpilogueNeeds& needs);

// The heuristic: the legal schedules, best first, by the cost model (cost.h).
[[nodiscard]] std::vector<Schedule> rank(const EpilogueNeeds& needs, std::int64_t batch, std::int64_t m,
                                         std::int64_t columns, std::int64_t k, int multiprocessors, bool mma = false);

// A stencil straight from memory, by its strips and columns.
[[nodiscard]] Schedule direct(Schedule strips);

// Of a depthwise convolution (stencils.cpp).
[[nodiscard]] std::vector<Schedule> stencils(const EpilogueNeeds& needs);

// Every legal tile for these needs, filled, for sweeps and for tests that draw random ones. `columns`, `k`: of
// widths in steps of eight, only the narrowest ones that have so many in as few tiles, and none behind a short K.
[[nodiscard]] std::vector<Schedule> candidates(const EpilogueNeeds& needs, bool mma = false, std::int64_t columns = 0,
                                               std::int64_t k = 0);

}  // namespace postlude::inline v0::cuda
