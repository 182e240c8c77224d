// The schedules of depthwise convolutions to choose from.
#include "cuda/choose/cost.h"

#include "core/divide.h"

#include <algorithm>
#include <optional>

namespace postlude::inline v0::cuda {
namespace {

struct LaneStrip {
  int x, y;
};
constexpr LaneStrip lane_strips[] = {{14, 4}, {14, 2}, {14, 1}, {7, 8}, {7, 7}, {7, 4}, {7, 2},
                                     {8, 4},  {8, 2},  {4, 4},  {4, 2}, {2, 2}, {1, 1}};

// With the rows of the next tile too, four more warps run the epilogue beside: of tiles that leave rows for the next
// one also with fewer subtiles of operands on their way. What reduces spills, and of tiles of whole images wide outputs
// do (decision 0197).
bool add_ring_beside(Schedule& s, const EpilogueNeeds& needs) {
  s.ring = 1, s.beside = true;  // any
  const BandPixels pixels = band_pixels(s, needs.stencil);
  const bool leaves_rows = pixels.fresh < pixels.rows;
  if (!pixels.paired || pixels.k_blocks > 1 || needs.reduces || (!leaves_rows && needs.d_bytes_column > 2))
    return false;
  const int most = s.aux_stages, least = leaves_rows ? std::min(most, 2) : most;
  for (s.aux_stages = most; s.aux_stages >= least; s.aux_stages -= std::max(1, most - least)) {
    for (const int more : {pixels.rows, pixels.fresh}) {
      s.ring = pixels.rows + more;
      if (illegal(s, needs).empty() && resident(s, needs) > 1) return true;
    }
  }
  return false;
}

// The largest ring that is of use and leaves room for a second block: with the rows of the next tile too, or without.
// Where runs are not in pairs, none was faster (decision 0053).
bool add_ring(Schedule& s, const EpilogueNeeds& needs) {
  s.ring = 1;  // any
  const BandPixels pixels = band_pixels(s, needs.stencil);
  for (const int more : {pixels.fresh, 0}) {
    s.ring = pixels.rows + more;
    if (pixels.paired && illegal(s, needs).empty() && resident(s, needs) > 1) return true;
  }
  return false;
}

// By bands: of each tile the rows of a strip that take it least, and as many images as one turn of the warps holds.
void add_bands(std::vector<Schedule>& found, const EpilogueNeeds& needs) {
  for (const int bm : {256, 128, 64}) {
    std::optional<Schedule> best;
    for (const int rows : {1, 2}) {
      Schedule s{.mma = true, .bm = bm, .bn = 32, .stages = 2, .d_buffers = 1, .raster = 1};
      s.strip_x = 8, s.strip_y = rows, s.images = 1;
      const StencilTile tile = stencil_tile(s, needs.stencil);
      const auto runs = static_cast<int>(ceil_div(tile.x, 8) * ceil_div(tile.y, rows));
      if (tiles_down(s, needs, 0) == 1) s.images = std::max(1, 16 / runs);
      do {
        if (Schedule filled = fill_shared(s, needs); filled.stages) {
          const auto clocks = [&](const Schedule& of) { return stencil_clocks(of, needs) / of.images; };
          if (!best || clocks(filled) < clocks(*best)) best = filled;
        }
      } while (--s.images > 0);
    }
    if (!best) continue;
    found.push_back(*best);
    if (bm != 256 || !needs.boxes) continue;
    Schedule beside = *best;
    if (add_ring(*best, needs)) found.back() = *best;
    if (add_ring_beside(beside, needs)) found.push_back(beside);
  }
}

constexpr int few_taps = 9;  // whose weights a thread holds

// The strips of threads that read straight from memory: parts of a row as equal as may be, as each reads what is around
// it, and of few taps such as fit any size too (decision 0280).
std::vector<LaneStrip> direct_strips(const Stencil& of) {
  constexpr int many_taps = 26, rows[] = {1, 2, 3, 4, 7};
  const int taps = of.y.taps * of.x.taps;
  if (of.y.up * of.x.up > 1) return {{4, 4}, {4, 2}, {2, 2}, {4, 8}, {6, 6}, {3, 3}};
  if (of.y.step * of.x.step > 1) return {{2, 4}, {4, 4}, {2, 2}, {7, 2}};
  const auto is_wanted = [&](int most, LaneStrip strip) {
    if (taps <= few_taps) return most > 4 && strip.y <= 4 && strip.y != 3;
    const bool in_turn = rows_in_turn({.strip_x = strip.x, .strip_y = strip.y, .strips = 1}, of);
    return taps < many_taps ? strip.y >= of.y.pixels || (strip.y <= 4 && !in_turn) : strip.y < 4 || in_turn;
  };
  std::vector<LaneStrip> strips;
  if (taps <= few_taps) strips = {{4, 8}, {4, 7}, {7, 7}, {7, 4}, {4, 4}, {4, 2}};
  for (const int most : {4, 8, 14})
    for (const int y : rows) {
      const auto x = static_cast<int>(ceil_div(of.x.pixels, ceil_div(of.x.pixels, most)));
      if (is_wanted(most, {x, y})) strips.push_back({x, y});
    }
  return strips;
}

// Straight from memory, with tile operands where few strips have an image (decisions 0241, 0256). Blocks have 128 to
// 192 threads.
void add_direct(std::vector<Schedule>& found, const EpilogueNeeds& needs) {
  const Stencil& of = needs.stencil;
  const int small_image = of.y.taps * of.x.taps <= few_taps ? 14 : 7;
  if (!needs.any_rows || !needs.boxes) return;
  const bool steps = of.y.step * of.x.step > 1, up = of.y.up * of.x.up > 1, only = up || of.narrow,
             small = !steps && of.x.pixels <= small_image && of.y.pixels <= small_image;
  if (needs.aux_bytes_column && !small && !only) return;
  for (const int columns : {32, 48, 64, 80, 96})
    for (const LaneStrip& strip : direct_strips(of)) {
      const Schedule s =
          direct({.bn = columns, .strip_x = strip.x, .strip_y = strip.y, .strips = columns < 64 ? 8 : 4});
      if (needs.aux_bytes_column && !only && of.x.pixels % strip.x) continue;
      if (((strip.x <= of.x.pixels && strip.y <= of.y.pixels) || only) && illegal(s, needs).empty()) found.push_back(s);
    }
}

// Eight images on tensor cores, half of one a strip. Blocks of 16 channels are the better where both would do (decision
// 0279).
void add_images(std::vector<Schedule>& found, const EpilogueNeeds& needs) {
  const auto half = static_cast<int>(ceil_div(needs.stencil.y.pixels, 2));
  for (const int columns : {16, 32}) {
    Schedule s = direct({.bn = columns, .strip_x = needs.stencil.x.pixels, .strip_y = half, .images = 8, .strips = 1});
    s.strips = s.images * static_cast<int>(tiles_down(s, needs, 0));
    if (illegal(s, needs).empty()) found.push_back(s);
  }
}

}  // namespace

// Of each tile the strips that take it least.
std::vector<Schedule> stencils(const EpilogueNeeds& needs) {
  std::vector<Schedule> found;
  for (const int bm : {256, 128, 64}) {
    for (const int bn : {32, 64, 128}) {
      std::optional<Schedule> best;
      for (const LaneStrip& strip : lane_strips) {
        Schedule s{.mma = true, .bm = bm, .bn = bn, .stages = 2, .d_buffers = 1, .raster = 1};
        s.strip_x = strip.x, s.strip_y = strip.y;
        s = fill_shared(s, needs);
        if (s.stages && (!best || stencil_clocks(s, needs) < stencil_clocks(*best, needs))) best = s;
      }
      if (best) found.push_back(*best);
    }
  }
  if (needs.element_bytes == 2) add_bands(found, needs);
  add_direct(found, needs);
  add_images(found, needs);
  return found;
}

}  // namespace postlude::inline v0::cuda
