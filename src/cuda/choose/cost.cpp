#include "cuda/choose/cost.h"

#include "core/divide.h"
#include "cuda/emit/agreed.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace postlude::inline v0::cuda {
namespace {

constexpr double clocks_a_microsecond = 1755;
constexpr double highest_clock = 0.88;  // of the time at 1755 MHz
constexpr double infinite = std::numeric_limits<double>::infinity();

// Clocks of the portable kernel: the products, the fragments that each warp reads for them, and the
// copies for a tile (decision 0038). Two blocks of one consumer share a multiprocessor and hide
// each other's epilogues.
double portable(const Schedule& s, const EpilogueNeeds& needs, const Extents& e, int multiprocessors) {
  const auto tiles = static_cast<double>(tiles_of(s, needs, e.batch, e.m, e.columns).all);
  const double area = double(s.bm) * s.bn, resident = consumers(s) == 1 ? 2 : 1;
  const double fragments = 4.0 / s.bm + 1.0 / consumer_columns(s), copied = 1.0 / s.bm + 1.0 / s.bn;
  const double loop =
      area * std::max(64.0, double(e.k)) / 1650 * (1 + 20 * fragments + 10 * copied) * needs.element_bytes / 2;
  const double element = 0.025 * (needs.aux_bytes_column + needs.d_bytes_column) + 0.011 * needs.operations;
  const double epilogue = (2000 + area / needs.parts * element) / resident;
  const double blocks = std::ceil(tiles / multiprocessors);  // of a multiprocessor, the longest
  return blocks * (loop + epilogue) +
         (resident == 2 && blocks == 1 ? loop / 2 : 0);  // one block alone does not fill it
}

// Clocks of a stage of B as it lies: its windows, which lanes read and shift, products of 16 rows by 8 columns, and
// what lanes shift of A (decision 0284); or of one that consumers put elsewhere for wgmma (decision 0310).
double shifted_clocks(const Schedule& s, const EpilogueNeeds& needs) {
  if (!s.ping_pong) return 190 + 2.9 * s.bn + 1.18 * s.bm * s.bn / 32;
  const double sixteens = a_rows(s, needs) / 16.0, of_a = s.shifted_a ? 270 * sixteens : 0;
  if (needs.b_mn_major) return s.bn * (8.9 + 1.4 * sixteens) + 330 + of_a;
  return (s.bn * (6 + 1.7 * sixteens) + 100 + 50 * sixteens) * (sixteens > 1 ? 1.25 : 1) + of_a;
}

// Clocks in which a consumer puts lines of A where wgmma reads them, which little hides, and those of boxes, of which
// rows that begin alike have one each (decision 0324).
double putting(const Schedule& s, const EpilogueNeeds& needs) { return puts_rows(s) ? 40 + 3.1 * a_rows(s, needs) : 0; }
double boxes_clocks(const Schedule& s, const EpilogueNeeds& needs, const Extents& e) {
  constexpr double box = 68;
  return puts_rows(s) ? box * double(1 + std::min<std::int64_t>(needs.shifted_a, e.m)) : 0;
}

// Rows of A that a stage loads: those of the tile that exist.
double rows_loaded(const Schedule& s, const EpilogueNeeds& needs, const Extents& e) {
  return static_cast<double>(std::min<std::int64_t>(a_rows(s, needs), needs.below * round_up(e.m, 8)));
}

// Clocks of one stage in a multiprocessor: its products, 2048 of bf16 a clock, of which smaller tiles and cooperative
// ones reach less (decisions 0038, 0233), or its lines of 128 bytes, one in two clocks, and in twice that where they
// begin between two sectors (decisions 0092, 0099). Narrow products read shared memory oftener than it allows.
// `crowd`: how much longer lines take. Blocks that have parts of a tile share a way to L2, but no lines; those that
// have tiles load half of what these share, and wait for each other (decision 0194).
double stage_clocks(const Schedule& s, const EpilogueNeeds& needs, const Extents& e, double crowd) {
  constexpr double least = 180, box = 112, line[] = {2, 2.6, 4.0, 3.8}, shared = 0.6;  // of Lines
  if (s.shifted) return shifted_clocks(s, needs);
  constexpr double smallest = 6;  // of 64 x 64; with 32 columns lines take longer (decision 0209)
  // Products of many rows read B one after another (decisions 0227, 0233).
  const double repeated = s.bm < 192 ? 1 : s.bn < 128 ? 1.04 : 1.02;
  const double area = double(s.bm) * s.bn, smaller = std::clamp(128.0 * 192 / area, 1.0, smallest);
  const double products = area / 32 * (1.0 + 0.04 * (smaller - 1) * smaller + (s.ping_pong ? 0 : 0.025)) * repeated;
  const double rows = rows_loaded(s, needs, e);
  const double lines = rows * line[static_cast<int>(needs.a_lines)] * (sharing_a(s) > 1 ? shared : 1) +
                       s.bn * line[static_cast<int>(needs.b_lines)] * (s.cluster_m > 1 ? shared : 1);
  // With few stages the longer (decision 0286).
  const double waiting = loading_together(s) == 1 ? 1 : s.ping_pong || s.stages < 4 ? 1.1 : 1.06;
  // Many small boxes take the copy engine longer than their bytes (decision 0180).
  const int run = needs.b_mn_major && needs.b_box ? needs.b_box : b_run(s, needs),
            boxes = (needs.parts > 1 && run < 32) || (needs.b_box && run < 64) ? s.bn / run + 1 : 0;
  return waiting * std::max({boxes_clocks(s, needs, e), products,
                             lines * crowd * (s.bm > s.bn && s.bn == 64 ? 1.13 : 1), least, box * boxes});
}

// Whether constants are fitted to times of random products (decision 0300): what reads windows, and sums that go to a
// second accumulator, were not measured anew.
bool is_fitted(const EpilogueNeeds& needs) { return !needs.windows && !needs.counts_pixels && !needs.promoted; }

// Clocks of a tile's epilogue: to begin and to end it, of each element, of a byte and an instruction of one, to leave
// statistics of the output's columns, and until a subtile of operands has come (decisions 0273, 0300).
struct EpilogueCosts {
  double start, element, byte, operation, columns, subtile;
};
constexpr EpilogueCosts fitted_epilogues{1200, 0.1, 0.06, 0.014, 1250, 1900},
    other_epilogues{400, 0.225, 0.0225, 0.0162, 0, 1900}, epilogues_of_windows{400, 0.225, 0.0225, 0.0162, 0, 2400};

const EpilogueCosts& epilogue_costs(const EpilogueNeeds& needs) {
  return needs.windows ? epilogues_of_windows : is_fitted(needs) ? fitted_epilogues : other_epilogues;
}

// A large accumulator leaves few registers, so few elements are computed side by side (decision 0038). Tile operands
// come a subtile at a time (decision 0095); what is held is computed once more behind them, half of it meanwhile
// (decision 0300).
double epilogue_clocks(const Schedule& s, const EpilogueNeeds& needs) {
  const EpilogueCosts& costs = epilogue_costs(needs);
  const int rows = consumer_rows(s) / 64, columns = consumer_columns(s), registers = rows * columns / 2;
  // Rows that begin anywhere are put together by warps, half lines the slower (decision 0232).
  const double copied = (s.sub_n < 64 ? 0.21 : 0.165) * needs.copied_bytes_column;
  const double element = costs.element + costs.byte * (needs.aux_bytes_column + needs.d_bytes_column) + copied +
                         costs.operation * needs.operations * (registers > 128 ? 1.6 : 1.0);
  const double computed = double(s.bm) * s.bn / pieces(needs) * element;
  const int subtiles = rows / needs.below * (columns / needs.parts / s.sub_n);
  const double loaded = needs.aux_bytes_column && s.aux_stages ? costs.subtile * subtiles / s.aux_stages : 0;
  const double again = needs.holds && is_fitted(needs) ? 0.5 * std::min(computed, loaded) : 0;
  const bool of_columns = needs.columns || (needs.turned && needs.row_states);
  return costs.start + (of_columns ? costs.columns : 0) + std::max(computed, loaded) + again;
}

// Clocks for which a held tile waits, in registers, for the statistics of the tiles beside it (decisions 0013, 0095):
// longer for means and variances, which are three words and are joined by divisions (decision 0300).
// Those of a cluster wait little, and less of it shows where tiles follow (decision 0307).
// Of up to eight rows more lanes hear (decision 0321).
double waiting(const Schedule& s, const EpilogueNeeds& needs, const Tiles& tiles, std::int64_t rows, int resident) {
  constexpr double last = 1000, before = 300;
  if (!needs.holds || tiles.beside == 1) return 0;
  if (s.meets) return tiles.all > resident ? before : last;
  const double met = !is_fitted(needs) ? 1700 : needs.row_states > 8 ? 2400 : 1400;
  const double heard = rows > 8 ? 16 : double(std::bit_ceil(static_cast<std::uint64_t>(rows)));
  return met + 30 * double(tiles.beside) * heard / 16;
}

// Clocks in which a tile that is held takes the place of the one before in shared memory, which products read
// meanwhile, and hears of each 64 rows (decision 0311).
double parking(const Schedule& s) {
  constexpr double tile = 500, block = 700, element = 0.08;
  return s.parks ? tile + block * s.bm / 64 + element * s.bm * s.bn : 0;
}

// Bytes of accumulators that a part of a tile leaves in memory: those of rows that exist.
double left_by_part(const Schedule& s, const EpilogueNeeds& needs, const Extents& e) {
  return double(std::min<std::int64_t>(s.bm, needs.below * round_up(e.m, 16))) * s.bn * 4;
}

// What it takes that all blocks meet behind their last tiles, or partial results come beside tags, and that these are
// folded (decisions 0190, 0313). What tiles left of a row lies a row of tiles apart: a lane reads a sector for each
// word of it, or four lanes that have rows beside each other (decision 0300).
double folding(const Schedule& s, const EpilogueNeeds& needs, const Extents& e, const Tiles& tiles,
               int multiprocessors) {
  constexpr double met = 3500, by_tags = 2600, alone = 0.35, together = 0.1;  // clocks; clocks a byte
  if (!needs.meets || needs.holds || lone_columns(s, needs, e.m) || lone_rows(s, needs, e.columns)) return 0;
  agreed::GemmSizes sizes{};
  sizes.m = static_cast<int>(e.m), sizes.tiles_n = static_cast<int>(tiles.beside);
  const std::int64_t rows = agreed::rows_folded(sizes);
  const std::int64_t in_turn = ceil_div(ceil_div(e.m, rows) * e.batch, multiprocessors) * std::min(e.m, rows);
  const double all_met = folds_tagged(s, needs, e.batch, e.m, e.columns, multiprocessors) ? by_tags : met;
  return all_met + (rows == 8 ? alone : together) * double(in_turn * tiles.beside * needs.row_states);
}

// Clocks until parts in memory have met, and how much longer they take than their products (decisions 0273, 0300; of
// windows they were not measured anew).
struct PartCosts {
  double met, met_at_end, few_waves, more_waves;
};
constexpr PartCosts fitted_parts{3700, 4200, 1.01, 1.03}, other_parts{4700, 5000, 1.01, 1.03},
    parts_of_windows{5500, 8300, 1.02, 1.05};

const PartCosts& part_costs(const EpilogueNeeds& needs) {
  return needs.windows ? parts_of_windows : is_fitted(needs) ? fitted_parts : other_parts;
}

// What it takes that parts of a tile meet (decisions 0021, 0091, 0115, 0273). A part by a cluster is sent, of rows that
// exist. One by memory is written there, and the block that has the last reads all others; or (decision 0074) each
// block reads a share of all, a load's latency apart, and the last one the sums.
double meeting(const Schedule& s, const EpilogueNeeds& needs, const Extents& e) {
  if (s.split == 1) return 0;
  const double part = left_by_part(s, needs, e) / 20;
  if (!s.by_memory) return needs.counts_pixels ? 6500 + 950 * s.split : 3000 + 0.55 * part * s.split;
  // Two consumers add them sooner than one. Parts of a weight gradient end at the same time, and one block that adds
  // them all is slow.
  const double slower = needs.counts_pixels ? (s.ping_pong ? 3.4 : 2.3) : s.ping_pong ? 1 : 0.75;
  if (s.in_shares) return 8200 + 3.8 * part + 50 * s.split;
  const PartCosts& costs = part_costs(needs);
  const double met = needs.counts_pixels ? 9700 : s.at_end ? costs.met_at_end : costs.met;
  return met + slower * part * (s.split - 1);
}

// Bytes of A and B. B comes again with each group of tile rows that run at once, as far as L2 does not keep it
// (decision 0095).
double operand_bytes(const Schedule& s, const EpilogueNeeds& needs, const Extents& e, const Tiles& tiles, int blocks) {
  constexpr double kept = 16e6;  // of B, all; none of a second one
  const double a = double(e.m * needs.below) / needs.a_taps * double(e.k) * needs.element_bytes,
               b = double(e.columns * needs.parts) / needs.b_taps * double(e.k) * needs.element_bytes;
  const std::int64_t at_once = std::max<std::int64_t>(s.raster, blocks / tiles.beside);
  const bool once = s.split > 1 && !(s.at_end && needs.holds);  // few rows of held tiles run at once
  const double again = once ? 0 : double(ceil_div(ceil_div(e.m, s.bm / needs.below), at_once) - 1);
  return (needs.shares_a ? 1 : double(e.batch)) * a +
         double(e.batch) * b * (1 + again * std::clamp(b / kept - 1, 0.0, 1.0));
}

// Of the epilogue's tiles and, as far as L2 does not keep them, of parts.
double epilogue_bytes(const Schedule& s, const EpilogueNeeds& needs, const Extents& e, const Tiles& tiles, int blocks) {
  constexpr double part = 0.66;       // of a part's bytes, which are written and read
  constexpr double half_lines = 1.2;  // take so many times as long (decision 0316)
  const double parts = s.by_memory && !needs.counts_pixels
                           ? double(tiles.all - whole_tiles(s, needs, tiles, blocks)) * (s.split - 1)
                           : 0;
  const double lines = shows_lines(needs, e.k) && (needs.turned || s.sub_n < 64) ? half_lines : 1;
  return double(e.batch) * double(e.m) * double(e.columns) * (needs.aux_bytes_column + needs.d_bytes_column) * lines +
         part * parts * left_by_part(s, needs, e);
}

// Clocks in which a multiprocessor fetches a stage of a weight gradient, whose tiles are few and read the same windows
// by every tap (decision 0075). Of one tap and parts by a cluster small stages take less (decision 0224).
double fetching(const Schedule& s, const EpilogueNeeds& needs) {
  constexpr double rate = 45;  // bytes a clock
  const double least = needs.b_taps == 1 && cluster_parts(s) > 1 ? 300 : 660;
  return needs.counts_pixels ? std::max(least, double(s.bm + s.bn) * 128 / rate) : 0;
}

// The tiles or parts of tiles that a block takes after one another, and of each the main loop, and what comes behind
// it.
double one_after_another(const Schedule& s, double units, double loop, double behind, bool out_of_step = false) {
  // Of more than two turns what comes behind hides nowhere, and main loops begin late.
  constexpr double late = 0.1;
  if (out_of_step) return units * loop + std::max(0.0, units - 2) * (behind + late * loop);
  // In ping-pong an epilogue hides under the other consumer's main loop.
  return units * (s.ping_pong ? std::max(loop, (loop + behind) / 2) : loop + behind);
}

// What of that nobody waits for: where what comes behind is longer than the main loop, the last tile of one consumer
// begins while the other's before it is not done (decision 0300).
double beside_the_last(const Schedule& s, const EpilogueNeeds& needs, double units, double loop, double behind) {
  if (!s.ping_pong || !is_fitted(needs) || behind <= loop) return 0;
  return (behind - loop) * (std::fmod(units, 2) == 0 ? 1 : 0.5);
}

// Of what runs at the same time the longest takes it, and longer the closer the others come (decisions 0113, 0190).
double at_once(std::initializer_list<double> clocks) {
  constexpr double power = 4;
  const double longest = std::max(clocks);
  double sum = 0;
  for (const double one : clocks) sum += std::pow(one / longest, power);
  return longest * std::pow(sum, 1 / power);
}

// What multiprocessors are busy for, at the clock that power allows where long main loops take most of it. Those that
// are idle leave power to the others, and lines on their way from L2 take some (decision 0233; not measured of
// convolutions). `tiles`: K blocks of all tiles, each multiprocessor.
double at_clock(const Schedule& s, const EpilogueNeeds& needs, const Extents& e, double tiles, double loops,
                double busy) {
  constexpr double of_products = 0.35, of_lines = 0.13, limited = 50e3;  // clocks
  if (needs.windows || needs.counts_pixels) return busy;
  const double rows = rows_loaded(s, needs, e);
  const double products = tiles * s.bm * s.bn / 32,
               lines = tiles * 2 * (rows / sharing_a(s) + double(s.bn) / s.cluster_m);
  const double limit = std::min(1.0, products / limited) * std::min(1.0, loops / busy);
  return std::max(highest_clock * busy, busy + limit * (of_products * (products - busy) + of_lines * lines));
}

// Many narrow tiles, and windows, ask L2 for more lines than it gives (decisions 0209, 0260, 0263). Few blocks that
// meet lie closer together than others (decision 0307).
double crowded(const Schedule& s, const EpilogueNeeds& needs, int resident, int multiprocessors) {
  constexpr double close = 1.1;
  if (s.meets && 4 * resident <= 3 * multiprocessors) return close;
  if (2 * resident <= multiprocessors) return 1;
  return is_narrow(s) || cluster_parts(s) > 1 || needs.windows ? 1.5 : 1;
}

constexpr double start = 6700;  // clocks of a launch

double hopper(const Schedule& s, const EpilogueNeeds& needs, const Extents& e, int multiprocessors) {
  constexpr double latency = 1200, memory_rate = 2000, of_windows = 1767;  // clocks, bytes a clock
  const Tiles tiles = tiles_of(s, needs, e.batch, e.m, e.columns);
  const bool by_cluster = cluster_parts(s) > 1;
  const int resident = blocks(s, needs, tiles, multiprocessors);
  if (resident == 0 || (by_cluster && tiles.all > clusters(s.split, multiprocessors))) return infinite;
  const std::int64_t whole = whole_tiles(s, needs, tiles, multiprocessors), units = (tiles.all - whole) * s.split;
  const auto whole_waves = double(whole) / resident, waves = by_cluster ? 1.0 : double(ceil_div(units, resident));
  const auto k_blocks = double(ceil_div(e.k * needs.element_bytes, k_bytes(s))),
             of_part = std::ceil(k_blocks / s.split);
  const double crowd = crowded(s, needs, resident, multiprocessors);
  const double stage = needs.counts_pixels ? std::max(stage_clocks(s, needs, e, 1) * crowd, fetching(s, needs))
                                           : stage_clocks(s, needs, e, crowd);
  const double waits = waiting(s, needs, tiles, e.m, resident);
  const double epilogue = epilogue_clocks(s, needs) / (s.ping_pong ? 1 : 2) + (s.parks ? 0 : waits);
  const bool out_of_step = is_out_of_step(s, needs, tiles, resident);
  // All parts but the last are left in memory instead; of weight gradients meeting() has all of it.
  const double leaving = 1.2 / 20 * left_by_part(s, needs, e) / (s.ping_pong ? 1 : 2);
  const double behind = s.by_memory && !needs.counts_pixels ? (epilogue + leaving * (s.split - 1)) / s.split : epilogue;
  const double in_turn = whole_waves * k_blocks + waves * of_part;  // K blocks of a multiprocessor
  // Of 64 columns of B along N memory gives 128 bytes in a row.
  const double rate = (needs.counts_pixels ? of_windows * std::min(1.0, resident / 60.0) : memory_rate) *
                      (needs.b_mn_major && s.bn == 64 ? 0.95 : 1.0);
  // Tiles that are held go in step: in cooperative mode all wait for operands, and then none reads any (decision 0311).
  const double operands = operand_bytes(s, needs, e, tiles, resident);
  const bool all_wait = needs.holds && tiles.beside > 1 && !s.ping_pong && !s.meets && s.split == 1;
  const double loop = std::max(of_part * stage, all_wait ? operands / rate / waves : 0) + parking(s);
  const double busy = at_clock(s, needs, e, double(tiles.all) * k_blocks / multiprocessors, in_turn * stage,
                               one_after_another(s, whole_waves, k_blocks * stage, epilogue) +
                                   one_after_another(s, waves, loop, behind, out_of_step) -
                                   (out_of_step ? 0 : beside_the_last(s, needs, whole_waves + waves, loop, behind)));
  // Parts take longer than their products and what they leave, the longer the more waves (decisions 0098, 0273).
  const bool few_waves = s.at_end || units <= resident;
  const PartCosts& costs = part_costs(needs);
  const double longer = few_waves ? costs.few_waves : costs.more_waves;
  const double in_parts = !s.by_memory || needs.counts_pixels ? 1 : longer;
  const double bytes = operands + epilogue_bytes(s, needs, e, tiles, resident);
  const double main = at_once({bytes / rate, busy, in_turn * latency / s.stages}) + in_turn * putting(s, needs) +
                      boxes_clocks(s, needs, e);
  // Additions to a second accumulator leave the tensor cores idle (decision 0026).
  const double slower = needs.promoted && s.ping_pong ? 2 : 1;
  // Of a weight gradient each block adds up the parts of every tile that ends in it, which nothing hides either.
  const std::int64_t joined = needs.counts_pixels && s.by_memory ? ceil_div(tiles.all - whole, resident) : 1;
  const double together = loading_together(s) > 1 ? 1000 : 0;  // a cluster's blocks begin and end together
  return start + together + (s.parks ? waits : 0) + folding(s, needs, e, tiles, multiprocessors) +
         slower * (main + epilogue) * in_parts +
         double(joined) * meeting(s, needs, e);  // the last epilogue is not hidden
}

// Of tiles that are multiplied twice: for their statistics, and then for what follows, for which few tiles wait
// (decision 0289).
double twice(const Schedule& again, const EpilogueNeeds& all, const Extents& e, int multiprocessors) {
  const double measured = again.ping_pong ? 1.06 : 0.9;  // over what both kinds of turns take apart
  Schedule s = again;
  EpilogueNeeds needs = all;
  const Tiles tiles = tiles_of(s, needs, e.batch, e.m, e.columns);
  const int resident = blocks(s, needs, tiles, multiprocessors);
  const bool waits = tiles.all <= tiles_in_turn(s, tiles, resident);
  const double waited = waits ? waiting(s, needs, tiles, e.m, resident) : 0;
  s.again = needs.holds = needs.meets = false;
  EpilogueNeeds first = needs;
  first.operations = needs.first_operations, first.aux_bytes_column = needs.first_aux_bytes_column;
  first.d_bytes_column = first.copied_bytes_column = 0;
  needs.operations -= needs.reductions;
  const double both = hopper(s, first, e, multiprocessors) + hopper(s, needs, e, multiprocessors);
  return start + waited + measured * (both - 2 * start);
}

// Which share of an axis's taps lies in the image.
double share_inside(const Stencil::Axis& of) {
  constexpr int few = 64;  // pixels; of more it is nearly all
  if (of.pixels > few || of.up > 1) return 1;
  int inside = 0;
  for (int pixel = 0; pixel < of.pixels; ++pixel)
    for (int tap = 0; tap < of.taps; ++tap) {
      const std::int64_t at = std::int64_t{pixel} * of.step + std::int64_t{tap} * of.reach + of.first;
      inside += at >= 0 && at < of.extent;
    }
  return double(inside) / (double(of.pixels) * of.taps);
}

// Clocks of a stencil straight from memory (decisions 0223, 0256): instructions of all warps, of which a thread has two
// channels of a strip (five of a pixel that it reads, with what L1 takes), or bytes; a third of a block, at the end;
// and code, which comes from memory once. The fewer warps there are, the longer each waits.
double straight(const Schedule& s, const EpilogueNeeds& needs, const Extents& e, int multiprocessors) {
  const Stencil& of = needs.stencil;
  const double up = double(of.x.up) * of.y.up;
  const bool in_turn = rows_in_turn(s, of);
  // Columns outside of the image are left out where a strip has all, rows where they are a loop.
  const bool wide = s.strip_x >= of.x.pixels;
  const double columns = wide ? share_inside(of.x) : 1, rows = in_turn ? share_inside(of.y) : 1;
  const double pixels = double(s.strip_x) * s.strip_y, taps = columns * rows * of.x.taps * of.y.taps / up,
               read = double(wide ? std::min(of.x.read(s.strip_x), of.x.extent) : of.x.read(s.strip_x)) *
                      (in_turn ? std::min(of.y.read(s.strip_y), of.y.extent) : of.y.read(s.strip_y)) / up;
  const double element = 4 + 2 * needs.operations + 2 * needs.aux_bytes_column;
  // A strided gradient's weights, if a thread has not its own, come two bytes at a time (decision 0242).
  const int weights = of.x.taps * of.y.taps;
  const double brought = up > 1 && weights > 9 ? 80.0 * weights / s.strips : 0;
  const double instructions = (2 * taps + element) * pixels + 5 * read + 4 * weights / up + 120 + brought;
  const double code = in_turn ? 2 * columns * of.x.taps * pixels + element * pixels + 300 : instructions;
  const double warps = threads(s) / 32.0, beside = resident(s, needs) * warps / 4;  // of a scheduler
  const Tiles tiles = tiles_of(s, needs, e.batch, e.m, e.columns);
  const double blocks = std::max(1.0, double(tiles.all) / s.strips / multiprocessors),
               issued = blocks * warps / 4 * instructions;
  const double bytes =
      double(e.batch) * double(e.m) * double(e.columns) *
      (of.x.step * of.y.step * needs.element_bytes / up + needs.aux_bytes_column + needs.d_bytes_column);
  const double now = std::min(beside, issued / instructions);
  // Weights of few taps a thread holds; of more, a warp of two strips of an image takes the ways of both.
  const bool both = s.bn % 64 && !(wide && s.strip_y >= of.y.pixels);
  const double held = weights <= 9 ? 1 : (in_turn ? 1.25 : 1.08) * (both ? 1.08 : 1);
  const double waits = (1 + 0.9 / now) * (s.bn < 64 ? 1.15 : 1) * held;  // less than a line of 128 bytes of a pixel
  return 1500 + waits * (at_once({issued, bytes / 20 / multiprocessors}) + instructions * now / 6) + 0.8 * code;
}

// Clocks of whole images on tensor cores (decisions 0275, 0279): a warp's instructions each time that a scheduler has
// one, of which most wait, as all blocks of a wave do the same at once.
double whole_images(const Schedule& s, const EpilogueNeeds& needs, const Extents& e, int multiprocessors) {
  const Stencil::Axis &y = needs.stencil.y, &x = needs.stencil.x;
  int products = 0;
  for (int out = 0; out < y.pixels; out += 2)
    for (int in = 0; in < y.extent; in += 2) {
      const int tap = in - out - y.first;
      products += tap + 1 >= 0 && tap - 1 < y.taps;
    }
  const double warps = threads(s) / 32.0, units = s.bn / 4.0 * s.images / 8;
  const double unit = 4.0 * products + 12.0 * y.extent + 2.0 * y.taps + 4.0 * y.pixels + 40;
  const double element = 5 + needs.operations + needs.aux_bytes_column;
  const double moved = (s.bn / 8.0 * s.images * y.extent * x.extent * 3 + s.bn * y.taps * 60.0) / threads(s);
  const double instructions = std::ceil(units / warps) * unit + moved + s.strip_y * (element * s.strip_x + 20);
  const double all = std::ceil(double(e.batch) / s.images) * std::ceil(double(e.columns) / s.bn),
               now = resident(s, needs);
  const double waves = std::ceil(all / now / multiprocessors),
               turns = waves > 1 ? now * waves : std::ceil(all / multiprocessors);
  return 3000 * waves + 5.5 * instructions * turns * warps / 4;
}

// Clocks of a stencil: each tile's instructions, or its bytes; and a block's weights, so many of a thread at a time.
double stencil(const Schedule& s, const EpilogueNeeds& needs, const Extents& e, int multiprocessors) {
  const std::int64_t turns = ceil_div(e.batch, std::max(1, s.images));
  const auto tiles = static_cast<double>(tiles_of(s, needs, turns, e.m, e.columns).all);
  const auto weights = static_cast<double>(ceil_div(
      std::int64_t{s.bn} * needs.stencil.y.taps * (s.images ? 1 : needs.stencil.x.taps), s.images ? 128 : 1024));
  return 3000 + 2500 * weights + std::ceil(tiles / multiprocessors) * stencil_clocks(s, needs);
}

}  // namespace

int later_blocks(const Schedule& s, const EpilogueNeeds& needs, const Extents& e, int multiprocessors) {
  if (!s.by_memory || s.in_shares || needs.counts_pixels) return 0;
  const Tiles tiles = tiles_of(s, needs, e.batch, e.m, e.columns);
  const int resident = blocks(s, needs, tiles, multiprocessors);
  if ((tiles.all - whole_tiles(s, needs, tiles, multiprocessors)) * s.split > resident)
    return 0;  // others were taken before
  const double clocks = 1300 + left_by_part(s, needs, e) / (s.ping_pong ? 18 : 36);
  const double stage = stage_clocks(s, needs, e, crowded(s, needs, resident, multiprocessors));
  const std::int64_t of_part = ceil_div(e.k * needs.element_bytes, k_bytes(s)) / s.split;
  return static_cast<int>(std::min(clocks / stage, std::max(0.0, double(of_part - 1))));
}

// The instructions of a strip: by bands, or by lanes.
static double strip_instructions(const Schedule& s, const Stencil& of) {
  if (s.images) {
    const BandPixels pixels = band_pixels(s, of);
    const double reads = of.y.read(s.strip_y),
                 taps = of.y.taps * (of.y.step == 1 && pixels.k_blocks == 1 ? 1 : s.strip_y);
    const double instructions =
        pixels.k_blocks * ((pixels.paired ? 34 : 40) * reads + 4 * taps + 8.0 * of.y.taps * s.strip_y) +
        80.0 * s.strip_y + 60;
    // Shared memory gives one warp of four 128 bytes a clock.
    const double bytes = pixels.k_blocks * ((pixels.paired ? 24 : 32) * reads + 16 * taps) + 32.0 * s.strip_y;
    return std::max(instructions, 4 * bytes);
  }
  const double taps = double(of.x.taps) * of.y.taps, sums = double(s.strip_x) * s.strip_y;
  // Long code waits for itself to be fetched.
  const double fetched = taps * sums > 1024 && !rows_in_turn(s, of) ? 1.4 : 1;
  return fetched * (taps + 1) * sums + 2.0 * of.x.read(s.strip_x) * of.y.read(s.strip_y) + taps + 50;
}

// A warp's instructions, one a clock: fused multiply-adds, a load and a conversion for each element that a strip reads,
// the way of the sums through shared memory, the copies of 16 bytes, the epilogue. Or bytes, 20 a clock from memory
// and 40 from L2.
double stencil_clocks(const Schedule& s, const EpilogueNeeds& needs) {
  const Stencil& of = needs.stencil;
  const StencilTile tile = stencil_tile(s, of);
  const double images = std::max(1, s.images), area = images * s.bm * s.bn;
  const std::int64_t whole = ceil_div(tile.x, s.strip_x) * ceil_div(tile.y, s.strip_y) * (s.bn / 32);
  double strips = double(whole), loaded = double(of.x.read(tile.x)) * of.y.read(tile.y) * s.bn * needs.element_bytes;
  double walked = 0;  // clocks of the copy engine, for pixels of 64 bytes that nothing else hides (decision 0215)
  if (s.images) {
    const BandPixels pixels = band_pixels(s, of);
    strips = pixels.strips, loaded = 2.0 * s.bn * images * pixels.fresh * pixels.row;
    if (s.beside) walked = 5.5 * images * pixels.fresh * pixels.row;
  }
  const double element = 4 + 0.5 * needs.operations + 0.5 * (needs.aux_bytes_column + needs.d_bytes_column);
  const double instructions = std::ceil(strips / 4) * strip_instructions(s, of) + (s.ring ? 0 : loaded / 16 / 128 * 6) +
                              area / 128 * element + 300 * images;
  const double bytes = images * tile.x * tile.y * s.bn *
                       (of.x.step * of.y.step * needs.element_bytes + needs.aux_bytes_column + needs.d_bytes_column);
  // What a block waits for, the others of its multiprocessor hide the better the more they are (decision 0086).
  // Lanes wait for strided pixels, each of which few of them read (decision 0053).
  const double strided = s.images || of.x.step * of.y.step == 1 ? 1 : 1.55;
  const int at_once = resident(s, needs) * (s.beside ? 2 : 1);
  return std::max({instructions * strided * (1 + 1.2 / at_once), bytes / 20, loaded / 40, walked});
}

double pass_microseconds(std::int64_t rows, std::int64_t columns, int bytes_column, int multiprocessors) {
  constexpr double launch = 3.4, bytes_a_microsecond = 3.9e6, column = 1.5e-4;  // decisions 0095, 0235
  const double most = double(ceil_div(rows, multiprocessors));                  // rows of a multiprocessor
  return launch +
         std::max(double(rows) * double(columns) * bytes_column / bytes_a_microsecond, most * double(columns) * column);
}

double least_microseconds(const Schedule& s, const EpilogueNeeds& needs, const Extents& e, int multiprocessors) {
  const auto tiles = static_cast<double>(tiles_of(s, needs, e.batch, e.m, e.columns).all);
  const auto k_blocks = static_cast<double>(ceil_div(e.k * needs.element_bytes, k_bytes(s)));
  return highest_clock * tiles * k_blocks * stage_clocks(s, needs, e, 1) / multiprocessors / clocks_a_microsecond;
}

double microseconds(const Schedule& s, const EpilogueNeeds& needs, const Extents& e, int multiprocessors) {
  return (s.images && s.strips ? whole_images
          : s.strips           ? straight
          : s.strip_x          ? stencil
          : s.mma              ? portable
          : s.again            ? twice
                               : hopper)(s, needs, e, multiprocessors) /
         clocks_a_microsecond;
}

}  // namespace postlude::inline v0::cuda
