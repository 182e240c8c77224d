#include "cuda/choose/filters.h"

#include "core/divide.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace postlude::inline v0::cuda {
namespace {

constexpr int most_registers = 104;  // of 128 a thread, for sums, dY of a strip and a row of X

// Elements that a lane reads for a strip.
double read(const Stencil& of, const Schedule& s) {
  return double(of.x.read(s.strip_x)) * of.y.read(s.strip_y) + double(s.strip_x) * s.strip_y;
}

// Clocks of a quarter of a multiprocessor for a strip: its instructions, or its reads of shared memory, which four
// quarters share. Long code waits for itself to be fetched; pixels of a row that are none are left out one by one.
double strip_clocks(const Stencil& of, const Schedule& s, bool whole) {
  constexpr double most_unrolled = 1024;
  const double additions = double(of.y.taps) * of.x.taps * s.strip_x * s.strip_y,
               issued = additions * (whole ? 1 : 1.2) * (additions > most_unrolled ? 1.1 : 1) + 2.3 * read(of, s) + 40;
  return std::max(issued, 4 * read(of, s));
}

// Of all tiles, those of one block after another.
double clocks(const Stencil& of, const Schedule& s, const FilterTile& t, const FilterWork& work) {
  const std::int64_t blocks = ceil_div(work.channels, t.channels),
                     tiles = work.images * ceil_div(of.y.pixels, t.y) * ceil_div(of.x.pixels, t.x),
                     rounds = ceil_div(tiles, filter_parts(tiles, blocks, work.multiprocessors));
  const bool whole = t.x % t.strip_x == 0 && of.x.pixels % t.strip_x == 0;
  const std::int64_t strips = ceil_div(t.x, t.strip_x) * ceil_div(t.y, t.strip_y),
                     turns = ceil_div(strips, FilterTile::warps / (t.channels / 32));
  const double bytes = double(of.x.read(t.x) * of.y.read(t.y) + t.x * t.y) * t.channels * work.element_bytes;
  const double own = double(turns) * strip_clocks(of, s, whole) + bytes / 16 / 32 / FilterTile::warps * 8 + 150;
  const double together = std::max(own * FilterTile::warps / 4 * FilterTile::resident,
                                   bytes * FilterTile::resident / 20);  // bytes a clock, of a multiprocessor
  // Where tiles are not loaded ahead, the other block hides half of the way from memory.
  return double(rounds) * (together + (t.stages > 1 ? 0 : 700)) + double(of.y.taps) * of.x.taps * 60;
}

}  // namespace

int filter_parts(std::int64_t tiles, std::int64_t blocks, int multiprocessors) {
  const std::int64_t at_once = std::max<std::int64_t>(1, std::int64_t{FilterTile::resident} * multiprocessors / blocks);
  return static_cast<int>(std::min(tiles, at_once));
}

std::optional<FilterTile> filter_tile(const Schedule& s, const Stencil& of, int element_bytes, int limit,
                                      std::string& why) {
  const int taps = of.x.taps * of.y.taps;
  if (s.images) why = "gradients by the weights are not added up by bands";
  else if (s.bn != 32 && s.bn != 64 && s.bn != 128) why = "a stencil's tile has 32, 64 or 128 columns";
  else if (s.bm < 1 || s.strip_x < 1 || s.strip_y < 1) why = "a tile and a strip have a pixel at least";
  else if (taps + s.strip_x * s.strip_y + of.x.read(s.strip_x) > most_registers)
    why = "sums of all taps, and a strip, take more than " + std::to_string(most_registers) + " registers";
  if (!why.empty()) return {};
  const StencilTile pixels = stencil_tile(s, of);
  FilterTile t{s.bn, pixels.y, pixels.x, s.strip_y, s.strip_x, 1, 0, 0};
  const auto whole = [](std::int64_t bytes) { return static_cast<int>(round_up(bytes, 128)); };
  const std::int64_t pixel = std::int64_t{s.bn} * element_bytes, load_x = of.x.read(t.x);
  t.bytes = whole(pixel * (load_x * of.y.read(t.y) + t.x * t.y));
  // The last strip reads behind what is loaded where it has fewer pixels.
  const std::int64_t last_y = round_up(t.y, t.strip_y) - t.strip_y, last_x = round_up(t.x, t.strip_x) - t.strip_x,
                     end = (last_y * of.y.step + of.y.read(t.strip_y) - 1) * load_x + last_x * of.x.step +
                           of.x.read(t.strip_x);
  const std::int64_t one = std::max<std::int64_t>(t.bytes, whole(pixel * end));
  const std::int64_t sums = std::int64_t{4} * 32 * FilterTile::warps * taps;
  t.stages = t.bytes + one <= limit ? 2 : 1;
  const std::int64_t shared = std::max((t.stages - 1) * t.bytes + one, sums);
  if (shared > limit) {
    why = "it needs " + std::to_string(shared) + " bytes of shared memory, more than " + std::to_string(limit);
    return {};
  }
  t.shared = static_cast<int>(shared);
  return t;
}

std::optional<Schedule> filter_schedule(const Stencil& of, const FilterWork& work) {
  std::optional<Schedule> best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](int pixels, int bn, int x, int y) {
    Schedule s;
    s.mma = true, s.stages = 2, s.raster = 1, s.d_buffers = 1, s.sub_n = 32;
    s.bm = pixels, s.bn = bn, s.strip_x = std::min(x, of.x.pixels), s.strip_y = std::min(y, of.y.pixels);
    std::string why;
    const auto tile = filter_tile(s, of, work.element_bytes, work.limit, why);
    if (!tile) return;
    const double time = clocks(of, s, *tile, work);
    if (time < least) least = time, best = s;
  };
  for (const int bn : {32, 64, 128}) {
    if (bn > 32 && work.channels <= bn / 2) continue;
    for (const auto& [x, y] :
         {std::pair{14, 2}, {14, 1}, {7, 2}, {7, 4}, {8, 2}, {8, 4}, {14, 4}, {4, 2}, {4, 4}, {1, 1}}) {
      // Whole rows, as many as strips have, and parts of one.
      for (int rows = y; rows < of.y.pixels + y && rows <= 64; rows += y)
        consider(std::min(rows, of.y.pixels) * of.x.pixels, bn, x, y);
      for (int parts = 2; parts <= 64 && of.x.pixels / parts >= x; parts *= 2)
        consider(static_cast<int>(round_up(ceil_div(of.x.pixels, parts), x)), bn, x, 1);
    }
  }
  return best;
}

}  // namespace postlude::inline v0::cuda
