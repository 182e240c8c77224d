// The legal schedules in the order of the cost model.
#include "cuda/choose/cost.h"
#include "cuda/choose/schedule.h"

#include "core/divide.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace postlude::inline v0::cuda {
namespace {

constexpr int least_k_blocks = 4;  // of a part that meets others in memory
constexpr int most_waves = 8;      // of such parts
constexpr int least_shares = 9;    // of a plain product's tile; fewer parts are added by one block as soon
constexpr int few_rows_heard = 16;
constexpr int most_blocks = 1 << 26;  // of direct stencils, whose strips are numbered

// Tile rows walked together, of so many rows of so many tiles. `waits`: tiles wait for those beside them.
int raster_of(const EpilogueNeeds& needs, const Extents& e, std::int64_t rows, std::int64_t tiles_n,
              int multiprocessors, bool waits) {
  constexpr std::int64_t few = 8, waves = 2;
  if (waits) {  // as many tiles of a wave as can be, in as few groups (decision 0038)
    const auto used = [&](int raster) { return multiprocessors / (raster * tiles_n) * raster; };
    int best = tiles_n > multiprocessors ? 1 : 8;
    for (int raster = best; raster >= 1; --raster) {
      if (used(raster) > used(best)) best = raster;
    }
    return best;
  }
  // Where all of B stays in L2, few rows of tiles at a time leave room for it beside operands and
  // outputs, and rows are written whole (decision 0038). A few long ones go together, and B is read once (decision
  // 0312).
  if (double(e.columns) * needs.parts * double(e.k) * needs.element_bytes <= 0x1p24)
    return rows > 2 && rows <= few && rows * tiles_n > waves * multiprocessors ? static_cast<int>(rows) : 2;
  // A wave of 128 tiles reads least of A and B where it is about square: fewer bytes, less power, a
  // higher clock (decision 0023).
  return 12;
}

struct Ranked {
  Schedule schedule;
  double cost;
};

double least_cost(const std::vector<Ranked>& ranked) {
  return std::ranges::min_element(ranked, {}, &Ranked::cost)->cost;
}

// Whether tiles may be worth multiplying twice: not small ones, as what is done once a tile is then done twice, nor
// beside tile operands, which come twice (decision 0289).
bool may_repeat(const Schedule& s, const EpilogueNeeds& needs) {
  const int least = s.ping_pong ? 64 * 224 : 128 * 256;
  return needs.repeats && !is_rolled(needs) && needs.first_aux_bytes_column == 0 && s.bm * s.bn >= least;
}

// One tile of Hopper's kernel, whole and split: by clusters, and by memory into the best number of
// parts.
void rank_tile(std::vector<Ranked>& ranked, Schedule s, const EpilogueNeeds& needs, const Extents& e,
               int multiprocessors) {
  const Tiles tiles = tiles_of(s, needs, e.batch, e.m, e.columns);
  const std::int64_t k_blocks = ceil_div(e.k * needs.element_bytes, k_bytes(s));
  const bool waits = needs.holds && tiles.beside > 1;
  const int raster = raster_of(needs, e, tiles_down(s, needs, e.m), tiles.beside, multiprocessors, waits);
  s.raster = static_cast<int>(round_up(raster, s.cluster_m));
  if (!illegal(s, needs).empty()) return;
  const auto cost = [&] { return microseconds(s, needs, e, multiprocessors); };
  ranked.push_back({s, cost()});
  if (waits && may_repeat(s, needs)) {
    // What is read twice is in L2 the second time if few tiles come between.
    const std::int64_t rows = std::clamp<std::int64_t>(4 * multiprocessors / tiles.beside, 1, 4);
    Schedule again = s;
    again.again = true, again.raster = static_cast<int>(round_up(rows, s.cluster_m));
    ranked.push_back({again, microseconds(again, needs, e, multiprocessors)});
  }
  // Of many widths those are not split that could not be the best if all multiprocessors were busy.
  if (in_eights(needs) && least_microseconds(s, needs, e, multiprocessors) > least_cost(ranked)) return;
  for (s.split = 2; s.split <= 8; s.split *= 2) {
    if (k_blocks >= 2 * s.split && illegal(s, needs).empty()) ranked.push_back({s, cost()});
  }
  s.by_memory = true;
  const auto best_split = [&](int least) {
    const std::int64_t divided = tiles.all - whole_tiles(s, needs, tiles, multiprocessors);
    Ranked best{s, std::numeric_limits<double>::infinity()};
    for (s.split = least; s.split <= most_parts && k_blocks >= least_k_blocks * s.split &&
                          divided * s.split <= most_waves * multiprocessors && illegal(s, needs).empty();
         ++s.split) {
      if (const double now = cost(); now < best.cost) best = {s, now};
    }
    ranked.push_back(best);
  };
  best_split(2);
  // Of products with B along K shares gain nothing (decision 0253).
  s.in_shares = true;
  if (needs.counts_pixels || needs.b_mn_major) best_split(needs.counts_pixels ? 2 : least_shares);
  if (needs.counts_pixels) return;
  s.in_shares = false, s.at_end = true;
  best_split(2);
}

// The same by a cluster that has all tiles of its rows, with as many stages as there is room for. Of few rows all is
// heard as soon through L2 (decision 0307).
void rank_meeting(std::vector<Ranked>& ranked, Schedule s, const EpilogueNeeds& needs, const Extents& e,
                  int multiprocessors) {
  const std::int64_t beside = tiles_of(s, needs, e.batch, e.m, e.columns).beside;
  if (!needs.holds || beside < 2 || beside > most_met || e.m <= few_rows_heard) return;
  s.meets = true, s.cluster_n = static_cast<int>(beside);
  while (s.stages > 2 && shared_bytes(s, needs) > shared_limit) --s.stages;
  if (s.stages > 4) s.stages -= s.stages % 2;  // two warps load them
  if (illegal(s, needs).empty()) ranked.push_back({s, microseconds(s, needs, e, multiprocessors)});
}

// The same where tiles wait in shared memory, with the stages and subtiles that there is room for beside one, or with
// fewer stages and more operands on their way, if it takes less than what was ranked of the tile from number `first` on
// (decision 0311). Windows, turned products and longer K were not measured. Behind more than a few K blocks two stages
// are not enough, as one is given back once the next products have begun, and beside tile operands there is no room for
// more.
void rank_parked(std::vector<Ranked>& ranked, std::size_t first, Schedule s, const EpilogueNeeds& needs,
                 const Extents& e, int multiprocessors) {
  constexpr std::int64_t few = 6, most = 16;  // K blocks
  const std::int64_t beside = tiles_of(s, needs, e.batch, e.m, e.columns).beside,
                     k_blocks = ceil_div(e.k * needs.element_bytes, k_bytes(s));
  if (!needs.holds || !s.ping_pong || beside < 2 || needs.windows || needs.turned) return;
  if (k_blocks > (needs.aux_bytes_column ? few : most)) return;
  const int fewest = k_blocks > few ? 3 : 2;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = first; i < ranked.size(); ++i) least = std::min(least, ranked[i].cost);
  s.parks = true;
  s.raster = static_cast<int>(std::clamp<std::int64_t>((multiprocessors + 1) / beside, 1, 8));
  EpilogueNeeds room = needs;
  for (const int stages : {needs.full_stages, fewest}) {
    room.full_stages = stages;
    s = fill_shared(s, room);
    if (s.stages < fewest || !illegal(s, needs).empty()) continue;
    if (const double now = microseconds(s, needs, e, multiprocessors); now < least) ranked.push_back({s, now});
    if (needs.aux_bytes_column == 0) return;
  }
}

// Clusters whose tiles load together are worth it where lines are slow; elsewhere they only wait for each other. Those
// that read windows were not measured (decision 0194).
bool loads_together(const EpilogueNeeds& needs) {
  return !needs.windows && !needs.counts_pixels && !needs.shifted &&
         std::max(needs.a_lines, needs.b_lines) >= Lines::between;
}

}  // namespace

std::vector<Schedule> rank(const EpilogueNeeds& needs, std::int64_t batch, std::int64_t m, std::int64_t columns,
                           std::int64_t k, int multiprocessors, bool mma) {
  const Extents extents{batch, m, columns, k};
  std::vector<Ranked> ranked, straight;  // from memory
  for (Schedule s : candidates(needs, mma, columns, k)) {
    if (s.strips) {
      if (tiles_of(s, needs, batch, m, columns).all / s.strips > most_blocks) continue;
      straight.push_back({s, microseconds(s, needs, extents, multiprocessors)});
      continue;
    }
    if (is_narrow(s) && tiles_of(s, needs, batch, m, columns).all > multiprocessors) continue;
    if (mma) {
      ranked.push_back({s, microseconds(s, needs, extents, multiprocessors)});
      continue;
    }
    const std::size_t first = ranked.size();
    rank_tile(ranked, s, needs, extents, multiprocessors);
    rank_meeting(ranked, s, needs, extents, multiprocessors);
    rank_parked(ranked, first, s, needs, extents, multiprocessors);
    if (!loads_together(needs)) continue;
    s.cluster_m = 2;
    rank_tile(ranked, s, needs, extents, multiprocessors);
    s.cluster_m = 1, s.cluster_n = 2;
    rank_tile(ranked, s, needs, extents, multiprocessors);
  }
  const auto less = [](const Ranked& a, const Ranked& b) { return a.cost < b.cost; };
  // Of the best strips and, as some spill, of others; where nothing else is legal of a few more.
  std::ranges::stable_sort(straight, less);
  for (std::size_t others = 0, most = ranked.empty() ? 4 : 2; others < most && !straight.empty(); ++others) {
    const Schedule best = straight.front().schedule;
    ranked.push_back(straight.front());
    std::erase_if(straight, [&](const Ranked& r) {
      return r.schedule.strip_x == best.strip_x && r.schedule.strip_y == best.strip_y;
    });
  }
  std::erase_if(ranked, [](const Ranked& r) { return !std::isfinite(r.cost); });
  std::ranges::stable_sort(ranked, less);
  std::vector<Schedule> best;
  for (const Ranked& r : ranked) {
    best.push_back(r.schedule);
    // Narrow subtiles take fewer registers, which is better than a smaller tile (decision 0038).
    if (Schedule narrow = r.schedule; narrow.sub_n == 64 && !narrow.strips) {
      narrow.sub_n = 32;
      if (illegal(narrow, needs).empty()) best.push_back(narrow);
    }
  }
  return best;
}

}  // namespace postlude::inline v0::cuda
