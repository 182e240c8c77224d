#include "cuda/choose/schedule.h"

#include "cuda/choose/cost.h"

#include "core/divide.h"

#include <postlude/error.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace postlude::inline v0::cuda {
namespace {

constexpr int accumulator_registers = 192;      // a thread; beyond, the epilogue has none left (128x208 spills)
constexpr int most_box = 256;                   // elements along a dimension of what the copy engine loads
constexpr int mma_accumulator_registers = 128;  // the fragments of A and B need them too

int d_bytes(const Schedule& s, const EpilogueNeeds& n) { return 64 * s.sub_n * n.d_bytes_column; }
int aux_bytes(const Schedule& s, const EpilogueNeeds& n) { return 64 * s.sub_n * n.aux_bytes_column; }

constexpr int stencil_registers = 200;  // of a lane, at most, for sums, weights and a row

}  // namespace

int consumers(const Schedule& s) { return s.mma && s.bm / 64 * s.bn / 2 <= mma_accumulator_registers ? 1 : 2; }
int consumer_rows(const Schedule& s) { return s.mma || s.ping_pong || s.abreast ? s.bm : s.bm / 2; }
int consumer_columns(const Schedule& s) { return (s.mma && !s.strips) || s.abreast ? s.bn / consumers(s) : s.bn; }

int b_run(const Schedule& s, const EpilogueNeeds& n) {
  if (n.b_mn_major) return 64;
  const int columns = (s.abreast ? s.bn / 2 : s.bn) / n.parts;
  const auto run = [&] {
    if (n.b_box) return std::min(columns, n.b_box);
    if (n.piece % columns == 0) return columns;
    if (columns % n.piece == 0) return n.piece % 64 ? columns : n.piece;
    return n.piece % 32 || columns % 32 ? narrowest_subtile : 32;
  };
  return s.bn / run() % s.cluster_m ? run() / s.cluster_m : run();
}

int a_run(const Schedule& s, const EpilogueNeeds& n) {
  if (n.below == 1) return a_rows(s, n) / sharing_a(s);
  return is_gathered_below(n) ? 64 : std::gcd(64, n.row_piece);
}

// Boxes of 64 columns are large enough, and can lie along N or be of a tap.
bool is_gathered(const Schedule& s, const EpilogueNeeds& n) { return n.piece % 64 && b_run(s, n) % n.piece == 0; }

StencilTile stencil_tile(const Schedule& s, const Stencil& stencil) {
  if (s.strips) return {s.strip_y, s.strip_x};
  // All in as few parts as may be, of equal size or nearly so.
  const auto part = [](int all, int most) { return static_cast<int>(ceil_div(all, ceil_div(all, std::max(1, most)))); };
  return {part(stencil.y.pixels, s.bm / stencil.x.pixels), part(stencil.x.pixels, s.bm)};
}

BandPixels band_pixels(const Schedule& s, const Stencil& of) {
  const StencilTile tile = stencil_tile(s, of);
  const auto blocks = static_cast<int>(ceil_div(tile.x, 8)), groups = static_cast<int>(ceil_div(tile.y, s.strip_y));
  BandPixels made{};
  made.k_blocks = static_cast<int>(ceil_div(of.x.read(8), 16));
  made.row = (blocks - 1) * 8 * of.x.step + 16 * made.k_blocks;
  made.rows = of.y.read(groups * s.strip_y);
  made.bytes = 2 * s.bn * s.images * (s.ring ? s.ring : made.rows) * made.row;
  const auto strips = [&](int runs, int most) { return static_cast<int>(ceil_div(runs, most)) * (s.bn / 8); };
  made.strips = strips(s.images * blocks * groups, 16);
  const bool stays = s.ring && tile.x == of.x.pixels && tile.y < of.y.pixels;
  made.fresh = stays ? std::min(made.rows, tile.y * of.y.step) : made.rows;
  made.box = std::gcd(std::gcd(made.rows, made.fresh), s.ring);
  made.paired =
      s.ring && blocks > 1 && strips(s.images * static_cast<int>(ceil_div(blocks, 2)) * groups, 8) == made.strips;
  return made;
}

StencilMemory stencil_memory(const Schedule& s, const EpilogueNeeds& n) {
  const StencilTile tile = stencil_tile(s, n.stencil);
  const auto rounded = [](std::int64_t bytes) { return static_cast<int>(round_up(bytes, 128)); };
  if (s.strips && s.images) {  // weights as they lie are behind the pixels
    const Stencil::Axis &y = n.stencil.y, &x = n.stencil.x;
    const int fours = (y.taps + 4) / 4, channel = 8 * (y.pixels * ((x.pixels + 1) / 2) | 1);
    return {0, rounded(std::int64_t{16} * s.bn * (2 * fours * (x.taps + 2) + 1)),
            rounded(std::int64_t{s.images} * y.extent * x.extent * (2 * s.bn + 16) + 2 * s.bn * y.taps * x.taps),
            s.images * (s.bn * channel + 32), 0};
  }
  if (s.strips) return {0, 4 * (s.bn + 2) * n.stencil.y.taps * n.stencil.x.taps, 0, 0, 0};
  if (s.images) {
    const BandPixels of = band_pixels(s, n.stencil);
    StencilMemory memory{};
    memory.epilogue = rounded(d_bytes(s, n) + s.aux_stages * aux_bytes(s, n) + n.scratch_bytes);
    memory.weights = rounded(std::int64_t{4} * s.bn * n.stencil.y.taps * (n.stencil.x.read(1) + 2));
    memory.pixels = rounded(of.bytes);
    memory.sums = 4 * s.images * s.bm * s.bn;
    if (s.ring) {  // which begins at 512 bytes, as the copy engine's pattern does
      memory.sums = 4 * ((s.images - 1) * tile.y * tile.x + s.bm) * s.bn;
      memory.weights = static_cast<int>(round_up(memory.epilogue + memory.weights, 512)) - memory.epilogue;
      memory.barriers = 512 + 16;
    } else if (of.strips <= stencil_warps) {
      memory.pixels = std::max(memory.pixels, std::exchange(memory.sums, 0));
    }
    return memory;
  }
  const auto x = ceil_div(tile.x, s.strip_x), y = ceil_div(tile.y, s.strip_y);
  const int read_x = n.stencil.x.read(static_cast<int>(x) * s.strip_x),
            read_y = n.stencil.y.read(static_cast<int>(y) * s.strip_y);
  StencilMemory memory{};
  memory.epilogue = rounded(d_bytes(s, n) + s.aux_stages * aux_bytes(s, n) + n.scratch_bytes);
  memory.weights = rounded(std::int64_t{4} * n.stencil.y.taps * n.stencil.x.taps * (s.bn + 1));
  memory.pixels = rounded(std::int64_t{n.element_bytes} * read_x * read_y * s.bn);
  memory.sums = 4 * s.bm * s.bn;
  // A warp that has added up all that it will leaves the pixels' memory.
  if (x * y * (s.bn / 32) <= stencil_warps) memory.pixels = std::max(memory.pixels, std::exchange(memory.sums, 0));
  return memory;
}

bool rows_in_turn(const Schedule& s, const Stencil& of) {
  constexpr int most_unrolled = 1024;  // multiply-adds: longer code waits for itself to be fetched
  return of.y.step == 1 && of.y.reach == 1 && of.y.up == 1 && (s.strips || of.y.taps > s.strip_y) &&
         of.y.taps * of.x.taps * s.strip_x * s.strip_y > most_unrolled;
}

namespace {

// Registers of a lane: its sums, and weights and pixels of a row of the filter, or weights of all and pixels of one
// row.
int stencil_lane(const Schedule& s, const Stencil& of) {
  const int sums = s.strip_x * s.strip_y, row = of.x.read(s.strip_x);
  return sums + (rows_in_turn(s, of) ? of.x.taps + s.strip_y * row : of.x.taps * of.y.taps + row);
}

}  // namespace

// About the registers of a thread that reads pixels straight from memory: sums of two channels; weights of a row of the
// filter, or of all; a row of pixels as numbers, and the next ones as words; what an epilogue has of a row of outputs.
static int direct_registers(const Schedule& s, const EpilogueNeeds& n) {
  const Stencil& of = n.stencil;
  const bool in_turn = rows_in_turn(s, of);
  const int row = std::min(of.x.read(s.strip_x), of.x.pixels > s.strip_x ? 1 << 20 : of.x.extent);
  const int sums = s.strip_x * std::min(s.strip_y, in_turn ? s.strip_y : of.y.taps + of.y.up - 1),
            ahead = in_turn || row > 8 ? 1 : 2;
  const int weights = of.x.taps * (in_turn ? 1 : of.y.taps), others = weights > 9 ? 30 : 14;
  const int words = 2 * sums + 2 * weights + (2 + ahead * (of.singles ? 2 : 1)) * row +
                    s.strip_x * n.aux_bytes_column / 2 + n.operations / 4;
  return std::clamp(static_cast<int>(round_up(words + others, 8)), 64, 248);
}

int resident(const Schedule& s, const EpilogueNeeds& n) {
  // Of 102, 128, 168 and 255 registers a thread, what is left beside a strip's, and beside an epilogue's.
  const int by_memory = shared_limit / (stencil_memory(s, n).all() + 1024);
  if (s.strips) {  // a quarter of a multiprocessor has registers for so many warps
    const int warps = 512 / (s.images ? 128 : direct_registers(s, n));
    return std::clamp(std::min(by_memory, warps * 4 / (threads(s) / 32)), 1, 16);
  }
  if (s.images) return std::clamp(by_memory, 1, 2);  // three would spill
  const int lane = stencil_lane(s, n.stencil);
  const bool small = s.bm * s.bn <= 64 * 64, simple = n.operations < 12, brief = n.operations < 24;
  int by_registers = 2;
  if (brief && lane <= 143) by_registers = 3;
  if (brief && lane <= (small ? 90 : 60)) by_registers = 4;  // small: 32 accumulators a thread
  if (simple && small && lane <= 76 && rows_in_turn(s, n.stencil)) by_registers = 5;
  return std::clamp(by_memory, 1, by_registers);
}

// A cluster lies in one of up to eight groups of multiprocessors, each an even number (an H200: 16
// or 18, and fewer than 32 clusters of four).
int clusters(int split, int multiprocessors) {
  return std::max(0, multiprocessors - (split > 2 ? 8 * (split - 2) : 0)) / split;
}

// Whole groups of 16 multiprocessors, and half of another one: of the rest an H200 makes no cluster.
int meeting_clusters(int tiles, int multiprocessors) {
  constexpr int group = 16, half = 8, rest = 20;
  if (tiles == 2) return std::max(1, multiprocessors / 2);
  return std::max(1, (multiprocessors - rest) / group * (group / tiles) + half / tiles);
}

std::int64_t tiles_down(const Schedule& s, const EpilogueNeeds& n, std::int64_t m) {
  if (!s.strip_x) return ceil_div(m, s.bm / n.below);
  const StencilTile tile = stencil_tile(s, n.stencil);
  return ceil_div(n.stencil.y.pixels, tile.y) * ceil_div(n.stencil.x.pixels, tile.x);
}

Tiles tiles_of(const Schedule& s, const EpilogueNeeds& n, std::int64_t batch, std::int64_t m, std::int64_t columns) {
  const std::int64_t beside = round_up(ceil_div(columns, s.bn / n.parts), sharing_a(s));
  return {batch * round_up(tiles_down(s, n, m), s.cluster_m) * beside, beside, batch};
}

// Whether a tile waits for those beside it.
static bool waits_beside(const Schedule& s, const EpilogueNeeds& n, Tiles tiles) {
  return n.holds && tiles.beside > 1 && !s.again && !s.meets;
}

// Tiles that are in one wave: whole clusters, or whole groups of the raster, so that none waits for tiles of the next.
static std::int64_t in_step(const Schedule& s, const EpilogueNeeds& n, Tiles tiles) {
  return waits_beside(s, n, tiles) ? s.raster * tiles.beside : cluster_tiles(s);
}

// Groups of the raster begin anew in each batch (work_of in device/fragment.cu), of which the last may have fewer rows:
// a tile before parts would then wait for one that has them, and which its own block takes.
std::int64_t whole_tiles(const Schedule& s, const EpilogueNeeds& n, Tiles tiles, int multiprocessors) {
  const std::int64_t group = in_step(s, n, tiles), wave = multiprocessors / group * group;
  if (waits_beside(s, n, tiles) && tiles.batches > 1 && tiles.all / tiles.batches % group != 0) return 0;
  return s.at_end && wave > 0 ? tiles.all / wave * wave : 0;
}

int blocks(const Schedule& s, const EpilogueNeeds& n, Tiles tiles, int multiprocessors) {
  const int all = static_cast<int>(tiles.all);
  const bool waits = waits_beside(s, n, tiles);
  if (s.strips) return static_cast<int>(ceil_div(tiles.all / tiles.beside, s.strips) * tiles.beside);
  if (s.strip_x) {  // as many as run at once, each of one block of columns
    const std::int64_t at_once = std::int64_t{multiprocessors} * resident(s, n), down = tiles.all / tiles.beside;
    const std::int64_t turns = ceil_div(down, std::max(1, s.images));
    return static_cast<int>(std::clamp<std::int64_t>(at_once / tiles.beside, 1, turns) * tiles.beside);
  }
  if (s.mma) return all;
  if (cluster_parts(s) > 1) return n.meets && all > clusters(s.split, multiprocessors) ? 0 : all * s.split;
  if (s.meets) {  // a cluster has all tiles of its rows
    if (tiles.beside != s.cluster_n) return 0;
    const int down = all / s.cluster_n, at_once = meeting_clusters(s.cluster_n, multiprocessors);
    return s.cluster_n * static_cast<int>(ceil_div(down, ceil_div(down, at_once)));
  }
  const std::int64_t whole = whole_tiles(s, n, tiles, multiprocessors),
                     units = (tiles.all - whole) * s.split * (s.again ? 2 : 1);
  const std::int64_t group = in_step(s, n, tiles), wave = multiprocessors / group * group;
  // A held tile and a part in shares wait for others, which parts that are taken after them would never become.
  if (s.at_end) {
    const bool runs = whole > 0 && units > 0 && (!(waits || s.in_shares) || units <= wave);
    return runs ? static_cast<int>(wave) : 0;
  }
  multiprocessors -= multiprocessors % cluster_tiles(s);
  if (multiprocessors == 0) return 0;
  if (s.by_memory && (waits || s.in_shares)) return units <= multiprocessors ? static_cast<int>(units) : 0;
  // Held tiles whose groups need not lie in one turn of all blocks. One that is parked is taken so many turns later,
  // when others of its group have told: all that they wait for themselves was taken before (decision 0311). In
  // ping-pong one may wait for others of the next turn, which the other consumers multiply meanwhile: where two turns
  // take all tiles, or no row fits into one (decision 0328).
  const std::int64_t turns = ceil_div(units, multiprocessors);
  const bool one_turn_cannot = turns > 2 ? tiles.beside > multiprocessors : wave == 0 || ceil_div(units, wave) > turns;
  if (waits && (s.parks || (s.ping_pong && one_turn_cannot))) {
    const std::int64_t run = round_up(ceil_div(units, turns), cluster_tiles(s));
    for (const std::int64_t these : {run, std::int64_t{multiprocessors}})
      if (turns <= (s.parks ? 1 : 2) || s.raster * tiles.beside <= (s.parks ? these + 1 : 2 * these))
        return static_cast<int>(these);
    return 0;
  }
  if (wave == 0) return 0;
  const std::int64_t waves = ceil_div(units, wave);
  return static_cast<int>(std::min(units, round_up(ceil_div(units, waves), group)));
}

bool is_out_of_step(const Schedule& s, const EpilogueNeeds& n, Tiles tiles, int blocks) {
  return waits_beside(s, n, tiles) && !s.parks && !s.at_end && tiles.all > blocks && blocks % in_step(s, n, tiles) != 0;
}

bool folds_tagged(const Schedule& s, const EpilogueNeeds& n, std::int64_t batch, std::int64_t m, std::int64_t columns,
                  int multiprocessors) {
  if (!n.meets || n.holds || s.mma || lone_columns(s, n, m) || lone_rows(s, n, columns)) return false;
  const Tiles tiles = tiles_of(s, n, batch, m, columns);
  return blocks(s, n, tiles, multiprocessors) >= tiles.all * s.split;
}

ShiftedWindows shifted_a(const Schedule& s, const EpilogueNeeds& n) { return {a_rows(s, n), k_bytes(s) + 16}; }

int shifted_a_bytes(const Schedule& s, const EpilogueNeeds& n) {
  if (n.shifted_a == 0) return a_rows(s, n) * k_bytes(s);
  const ShiftedWindows a = shifted_a(s, n);
  const std::int64_t box = round_up(std::int64_t{a.lines} / n.shifted_a * a.bytes, 128);
  return static_cast<int>(round_up(box * n.shifted_a, 1024));
}

std::int64_t tiles_in_turn(const Schedule& s, Tiles tiles, int blocks) {
  return round_up(std::int64_t{s.raster} * tiles.beside, std::int64_t{blocks} * (s.ping_pong ? 2 : 1));
}

// What two consumers hear of each 64 rows from a cluster's tiles, in two places in turn, and the barriers of four
// warps.
static int met_bytes(const Schedule& s, const EpilogueNeeds& n) {
  const int blocks = 2 * 2 * consumer_rows(s) / n.below / 64;
  return s.meets ? blocks * (64 * s.cluster_n * n.row_states + 4 * 8) : 0;
}

int shared_bytes(const Schedule& s, const EpilogueNeeds& n) {
  if (s.strip_x) return stencil_memory(s, n).all();
  if (s.mma) {  // the epilogue's memory lies where the stages were
    return std::max(s.stages * (s.bm + s.bn) * k_bytes(s),
                    consumers(s) * (d_bytes(s, n) + s.aux_stages * aux_bytes(s, n) + n.scratch_bytes));
  }
  const ShiftedWindows b = shifted_b(s, n.b_mn_major);
  const int stage = shifted_a_bytes(s, n) + (s.shifted ? b.lines * b.bytes : s.bn * 128);
  return 1024 + s.stages * stage + (puts_rows(s) ? 2 * a_rows(s, n) * 128 : 0) + 2 * exchange_bytes(s) +
         2 * s.d_buffers * d_bytes(s, n) + 2 * s.aux_stages * aux_bytes(s, n) + 2 * n.scratch_bytes + 16 * s.stages +
         32 * s.aux_stages + (cluster_parts(s) > 1 ? 16 : 0) + met_bytes(s, n) + (s.parks ? 4 * s.bm * s.bn : 0);
}

// Whole images that a block brings to shared memory.
static std::string illegal_images(const Schedule& s, const EpilogueNeeds& n) {
  constexpr int eight = 8;
  const Stencil::Axis &y = n.stencil.y, &x = n.stencil.x;
  if (!n.boxes || n.stencil.narrow || y.up * x.up > 1 || y.step * x.step * y.reach * x.reach > 1)
    return "images are multiplied by sm_90a, without strides, of channels of whole 16 bytes";
  if (std::max({x.pixels, x.extent, y.pixels, y.extent}) > eight)
    return "images that are multiplied have at most 8 x 8 pixels";
  if (s.images % eight) return "eight images are multiplied at a time";
  if (s.strips != s.images * tiles_down(s, n, 0)) return "a block has all strips of its images";
  if (shared_bytes(s, n) > shared_limit) return "its images take more shared memory than there is";
  return {};
}

// Threads that read pixels straight from memory.
static std::string illegal_direct(const Schedule& s, const EpilogueNeeds& n) {
  constexpr int most_threads = 1024, most_pixels = 64;
  if (!n.stencil) return "a stencil is for convolutions of one channel a group, their channels side by side";
  if (n.element_bytes != 2) return "pixels are read as two channels of 16 bits";
  if (!n.any_rows) return "the epilogue reduces, asks for rows, draws, or moves what no map does";
  if (is_rolled(n)) return "the epilogue is too long to stand once for each pixel";
  if (s.strip_y < 1 || std::int64_t{s.strip_x} * s.strip_y > most_pixels) return "a strip has 1 to 64 pixels";
  if (s.strip_x % n.stencil.x.up || s.strip_y % n.stencil.y.up)
    return "a strip of a strided gradient has whole strides of pixels";
  if (s.bn < (s.images ? 16 : 32) || s.bn > 256 || s.bn % 16)
    return "a block has 32 to 256 columns, or 16 of whole images, a multiple of 16";
  if (std::int64_t{s.strips} * s.bn / 2 > most_threads || threads(s) % 32)
    return "a block has a thread for two columns of a strip, whole warps of them, at most 1024";
  if (s.images) return illegal_images(s, n);
  if (512 / direct_registers(s, n) * 4 < threads(s) / 32) return "its threads take more registers than there are";
  if (shared_bytes(s, n) > mma_shared_limit) return "its weights take more shared memory than there is";
  return {};
}

static std::string illegal_bands(const Schedule& s, const EpilogueNeeds& n) {
  if (n.element_bytes != 2) return "bands are multiplied in bf16 or f16";
  if (s.bn != 32) return "a tile of bands has 32 columns";
  if (s.strip_y < 1 || s.strip_y > 4) return "a strip of bands has 1 to 4 rows";
  if (band_pixels(s, n.stencil).k_blocks > 2) return "eight windows beside each other are wider than 32 pixels";
  if (s.images > 1 && tiles_down(s, n, 0) > 1) return "images are taken together where a tile holds a whole one";
  if (!s.ring) return {};
  const BandPixels pixels = band_pixels(s, n.stencil);
  if (!n.boxes) return "a ring is what the copy engine of sm_90a loads, of pixels that do not overlap";
  if (s.ring < pixels.rows || s.ring > 2 * pixels.rows)
    return "a ring has the " + std::to_string(pixels.rows) +
           " rows of pixels that a tile reads, and at most twice as many";
  if (pixels.row > most_box || s.images > most_box) return "a box has at most 256 pixels and images";
  return {};
}

// Why a stencil's tile is not legal beside what is asked of every tile; empty: it is.
static std::string illegal_stencil(const Schedule& s, const EpilogueNeeds& n) {
  if (!n.stencil) return "a stencil is for convolutions of one channel a group, their channels side by side";
  if (n.stencil.y.up * n.stencil.x.up > 1) return "a strided gradient's pixels are read straight from memory";
  if (n.stencil.narrow) return "channels that are no whole 16 bytes are read straight from memory";
  if (s.bm != 64 && s.bm != 128 && s.bm != 256) return "a stencil's tile has 64, 128 or 256 rows";
  if (s.bn != 32 && s.bn != 64 && s.bn != 128) return "a stencil's tile has 32, 64 or 128 columns";
  if (s.bm * s.bn > 128 * 128) return "a stencil's tile has at most 128 x 128 elements";
  if (s.images) {
    if (std::string why = illegal_bands(s, n); !why.empty()) return why;
  } else if (s.strip_y < 1 || stencil_lane(s, n.stencil) > stencil_registers) {
    return "a strip's sums, weights and pixels take more than " + std::to_string(stencil_registers) + " registers";
  }
  // Each 64 rows of a tile have pixels, also those of the last tile of a row (tile_end in device/fragment.cu).
  const StencilTile tile = stencil_tile(s, n.stencil);
  const int last = n.stencil.x.pixels % tile.x ? n.stencil.x.pixels % tile.x : tile.x;
  if (tile.y * last <= s.bm - 64) return "of its rows, 64 would have no pixel";
  return {};
}

// Why tiles do not run as clusters that load together; empty: they do.
static std::string illegal_cluster(const Schedule& s, const EpilogueNeeds& n) {
  if (s.meets) {
    if (s.cluster_m != 1 || s.cluster_n < 2 || s.cluster_n > most_met)
      return "a cluster that meets is of 1x2 to 1x8 tiles";
    if (!n.holds || s.mma || s.split > 1 || s.again || s.shifted || n.whole_k)
      return "the tiles of a cluster meet where they are held for their rows' statistics, whole";
    return {};
  }
  if (cluster_tiles(s) == 1 && s.cluster_m == 1) return {};
  if (s.cluster_m < 1 || s.cluster_n < 1 || cluster_tiles(s) != 2) return "a cluster is of 2x1 or 1x2 tiles";
  if (s.mma || cluster_parts(s) > 1) return "tiles of a cluster are of the sm_90a kernel, and not split among blocks";
  if (n.counts_pixels || n.whole_k || (n.windows && s.cluster_n > 1))
    return "the tiles of a cluster share no windows of a convolution";
  if (n.below > 1 && s.cluster_n > 1) return "the tiles of a cluster share no rows of a chunk's pieces";
  if (b_run(s, n) % 8) return "the tiles of a cluster share whole eights of columns";
  if (s.raster % s.cluster_m) return "a raster has whole clusters of tiles";
  if (s.cluster_m > 1 && !n.b_mn_major && n.piece % 64 && s.bn / n.parts % n.piece == 0 && b_run(s, n) % n.piece)
    return "the tiles of a cluster share whole pieces of a chunk";
  return {};
}

// Why no tiles of it wait in shared memory; empty: they do, or none shall.
static std::string illegal_parks(const Schedule& s, const EpilogueNeeds& n) {
  if (!s.parks) return {};
  if (!n.holds || !s.ping_pong || s.mma || s.split > 1 || s.again || s.shifted || cluster_tiles(s) > 1)
    return "tiles wait in shared memory where they are held for their rows' statistics, whole, in ping-pong without "
           "clusters";
  if (n.promoted) return "an fp8 accumulator that is added up in f32 leaves no registers to a tile that waits";
  return {};
}

// A B whose rows begin between 16 bytes, read as it lies.
static std::string illegal_shifted(const Schedule& s, const EpilogueNeeds& n) {
  if (s.shifted != n.shifted) return n.shifted ? "B is to be read as it lies" : "B is not read as it lies";
  if (s.shifted && (s.mma || s.abreast || s.bn % 64 || cluster_tiles(s) > 1 ||
                    (s.ping_pong ? s.bm != 64 || s.bn > 128 : s.bn > 192)))
    return "rows of B that begin anywhere are shifted for tiles of 64 rows and 64 or 128 columns in ping-pong, and for "
           "cooperative ones of up to 192 columns";
  if (s.shifted_a != (n.shifted_a != 0)) return n.shifted_a ? "A is to be read as it lies" : "A is not read as it lies";
  if (s.shifted_a && (s.mma || s.abreast || sharing_a(s) > 1 || (s.shifted && !s.ping_pong)))
    return "rows of A that begin anywhere are shifted by consumers that have rows of their own, beside B in ping-pong";
  return {};
}

std::string illegal(const Schedule& s, const EpilogueNeeds& n) {
  if (s.strips) return illegal_direct(s, n);
  if (s.strip_x) {
    if (std::string why = illegal_stencil(s, n); !why.empty()) return why;
  }
  const int rows = consumer_rows(s), columns = consumer_columns(s),
            registers = s.mma ? mma_accumulator_registers : accumulator_registers;
  if (n.holds && s.mma) return "blocks of the portable kernel cannot wait for each other";
  const auto text = [](int value) { return std::to_string(value); };
  if (n.below > 1 && (s.mma || rows != 64 * n.below))
    return "a consumer has " + text(rows) + " rows, not 64 of each of " + text(n.below) + " pieces";
  if (const int most = s.mma                      ? 256
                       : s.ping_pong || s.abreast ? 192
                                                  : 128;
      n.below == 1 && rows != 64 && rows != 128 && rows != most)
    return "a consumer has " + text(rows) + " rows, not 64" + (most > 128 ? ", 128 or " : " or ") + text(most);
  if (s.mma && !s.strip_x && s.bn != 64 && s.bn != 128 && s.bn != 256)
    return "a tile has " + text(s.bn) + " columns, not 64, 128 or 256";
  const int step = n.turned ? in_eights(n) ? 8 : 16 : 32, padded = columns + cut_columns(s);
  if (const int width = s.mma ? s.bn : columns; width < 32 || width > 256 || width % step)
    return (s.abreast ? "a consumer's tile of " : "a tile of ") + text(width) + " columns is not a multiple of " +
           text(step) + " up to 256";
  if (s.abreast && (!of_elements(n) || n.windows || n.counts_pixels || n.block_columns || n.block_rows))
    return "consumers abreast are for plain products and epilogues of single elements";
  if (rows / 64 * columns / 2 * (n.promoted && !s.mma ? 2 : 1) > registers)
    return "its accumulator takes more than " + text(registers) + " registers a thread";
  const bool narrow = n.group % 32 || n.run % 32 || n.piece % 32;
  // Lanes fold a subtile's columns by halves.
  const bool turned = n.turned && (s.sub_n == narrowest_subtile || (s.sub_n == 48 && !n.columns && !n.row_group));
  if (s.sub_n != 32 && s.sub_n != 64 && !(narrow && s.sub_n == narrowest_subtile) && !turned)
    return "subtiles are 32 or 64 columns wide, and 16 where groups or pieces of a chunk are no multiple of "
           "32";
  if (padded / n.parts % s.sub_n || padded % (n.parts * 16)) {
    return "subtiles of " + text(s.sub_n) + " columns do not divide a tile of " + text(columns / n.parts);
  }
  if (!s.mma && n.piece % narrowest_subtile && columns / n.parts % n.piece)
    return "a tile's pieces of " + text(columns / n.parts) + " columns are not whole pieces of " + text(n.piece);
  if (n.run % s.sub_n)
    return "subtiles of " + text(s.sub_n) + " columns do not divide the " + text(n.run) +
           " that lie side by side behind a chunk";
  if (n.group && (columns / n.parts % n.group || n.group % s.sub_n)) {
    return "a tile of " + text(columns / n.parts) + " columns in subtiles of " + text(s.sub_n) +
           " does not hold groups of " + text(n.group);
  }
  // The consumers of a cooperative tile may share one.
  if (const int shared = s.mma || s.ping_pong ? rows : s.bm; n.row_group && shared % n.row_group)
    return "a tile of " + text(shared) + " rows does not hold groups of " + text(n.row_group);
  if (n.b_mn_major && !s.mma && (columns / n.parts % 64 || n.piece % 64))
    return "B along N needs 64 columns side by side";
  if (n.block_columns && n.block_columns % s.bn)
    return "a tile of " + text(s.bn) + " columns does not divide the " + text(n.block_columns) +
           " of a block of groups";
  if (n.block_rows && n.block_rows % s.bm)
    return "a tile of " + text(s.bm) + " rows does not divide the " + text(n.block_rows) + " of a block of groups";
  if (n.whole_k && s.split > 1) return "the residues of a strided data gradient are not split";
  if (std::string why = illegal_shifted(s, n); !why.empty()) return why;
  if (n.b_mn_major && s.bn % 64) return "B along N needs tiles that are a multiple of 64 columns";
  if (s.stages < 2 || s.stages > most_stages) return "stages are 2 to " + text(most_stages);
  if (s.mma && s.d_buffers != 1) return "staged outputs have one buffer";
  if (!s.mma && n.d_bytes_column && (s.d_buffers < 2 || s.d_buffers > 8)) return "staged outputs need 2 to 8 buffers";
  if ((n.aux_bytes_column != 0) != (s.aux_stages != 0) || s.aux_stages > 8)
    return n.aux_bytes_column ? "tile operands need 1 to 8 stages" : "it has no tile operands by tensor map";
  if (s.raster < 1) return "a raster is at least 1";
  if (s.split != 1 && s.mma) return "the portable kernel splits no tile";
  if (s.by_memory && (s.split < 2 || s.split > most_parts))
    return "parts that meet in memory are 2 to " + text(most_parts);
  if (const int c = cluster_parts(s); c != 1 && c != 2 && c != 4 && c != 8)
    return "a tile is split among 2, 4 or 8 blocks, or by memory";
  if ((cluster_parts(s) - 1) * s.bm * s.bn * 4 > s.stages * (a_rows(s, n) + s.bn) * 128)
    return "the parts of " + text(s.split) + " blocks do not fit in " + text(s.stages) + " stages";
  if (s.again && (!n.repeats || is_rolled(n) || s.mma || s.shifted || s.split > 1))
    return "tiles are multiplied again for their rows' statistics, whole, where nothing else is left before these";
  if (std::string why = illegal_cluster(s, n); !why.empty()) return why;
  if (std::string why = illegal_parks(s, n); !why.empty()) return why;
  const int limit = s.mma && !s.ring ? mma_shared_limit : shared_limit;
  if (shared_bytes(s, n) > limit)
    return "it needs " + text(shared_bytes(s, n)) + " bytes of shared memory, more than " + text(limit);
  return {};
}

}  // namespace postlude::inline v0::cuda
