// Which tiles are thought of, and what shared memory they are given.
#include "cuda/choose/schedule.h"

#include "core/divide.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace postlude::inline v0::cuda {
namespace {

struct Tile {
  bool ping_pong;
  int bm, bn;
  bool abreast = false;
};
constexpr Tile tiles[] = {{true, 128, 192},  {true, 128, 128},  {true, 128, 160},  {true, 64, 256},
                          {false, 128, 256}, {false, 256, 128}, {false, 128, 192}, {false, 128, 128},
                          {true, 128, 96},   {true, 128, 64},   {true, 64, 224},   {true, 64, 192},
                          {true, 64, 160},   {true, 64, 128},   {true, 64, 96},    {true, 64, 64}};
constexpr Tile tiles_narrow[] = {{true, 64, 32}};
constexpr Tile tiles_below[] = {{true, 128, 32}};
constexpr Tile tiles_tall[] = {{false, 256, 64}};
constexpr Tile tiles_between[] = {
    {true, 192, 128}, {true, 192, 96}, {true, 192, 64}, {false, 128, 160}, {false, 128, 224}};
constexpr Tile tiles_turned[] = {{true, 128, 112},  {true, 128, 144},  {true, 128, 176},  {true, 192, 112},
                                 {false, 128, 144}, {false, 128, 176}, {false, 128, 208}, {false, 128, 240}};
constexpr Tile tiles_of_elements[] = {{false, 256, 160}, {false, 256, 192}, {false, 192, 192, true}};
// Few rows by a B that is read as it lies (decision 0284).
constexpr Tile tiles_shifted[] = {{true, 64, 64},    {true, 64, 128},   {false, 128, 64},
                                  {false, 128, 128}, {false, 128, 192}, {false, 256, 128}};
constexpr Tile mma_tiles[] = {{true, 256, 128}, {true, 128, 256}, {true, 128, 128},
                              {true, 256, 64},  {true, 128, 64},  {true, 64, 64}};

bool of_two_bytes(const EpilogueNeeds& n) { return n.element_bytes == 2; }
bool plain_of_elements(const EpilogueNeeds& n) { return of_elements(n) && !n.windows && of_two_bytes(n); }

// Tiles of Hopper's kernel that are thought of together, and the products for which they are. A weight gradient has the
// first alone.
struct Family {
  std::span<const Tile> tiles;
  bool (*fits)(const EpilogueNeeds&);
};
constexpr Family families[] = {{tiles, [](const EpilogueNeeds&) { return true; }},
                               // Not measured of convolutions (decision 0209).
                               {tiles_narrow, [](const EpilogueNeeds& n) { return !n.windows; }},
                               // Windows are many, by few filters (decision 0260).
                               {tiles_tall, [](const EpilogueNeeds& n) { return n.windows && of_two_bytes(n); }},
                               // Not measured of products of one byte an operand (decision 0227).
                               {tiles_between, of_two_bytes},
                               // Columns of a turned product are few and of any number (decision 0266).
                               {tiles_turned, [](const EpilogueNeeds& n) { return n.turned; }},
                               // The narrow tile, of two pieces below each other (decision 0302).
                               {tiles_below, [](const EpilogueNeeds& n) { return n.below == 2; }},
                               // Few rows of single elements are lost by higher tiles (decision 0286).
                               {tiles_of_elements, plain_of_elements}};

// Turned tiles of single elements have any width (decision 0286).
struct Widths {
  Tile least;
  int most;
};
constexpr Widths widths_turned[] = {
    {{true, 64, 72}, 248},    {{true, 128, 72}, 184},         {{true, 192, 72}, 120},        {{false, 128, 136}, 248},
    {{false, 256, 104}, 184}, {{false, 192, 144, true}, 240}, {{false, 128, 208, true}, 288}};

}  // namespace

bool holds_pieces(int parts, std::int64_t piece) {
  const auto holds = [&](const Tile& tile) {
    return tile.bn % (parts * narrowest_subtile) == 0 && tile.bn / parts % piece == 0;
  };
  return piece % narrowest_subtile == 0 || std::any_of(std::begin(tiles), std::end(tiles), holds);
}

bool holds_row_pieces(std::int64_t piece) { return 64 % std::max<std::int64_t>(1, piece) == 0 || piece % 16 == 0; }

bool holds_groups(std::int64_t columns) {
  const auto holds = [&](const Tile& tile) { return tile.bn % columns == 0; };
  return columns > 0 && columns % narrowest_subtile == 0 && std::any_of(std::begin(tiles), std::end(tiles), holds);
}

// Of a stencil's tile four subtiles of its operands come while pixels are added up, where as many blocks have room for
// that as for two (decision 0053).
static bool all_on_their_way(Schedule& tile, const EpilogueNeeds& needs) {
  constexpr int most = 4;
  if (!needs.aux_bytes_column || tile.bm / 64 * tile.bn < most * tile.sub_n) return false;
  tile.aux_stages = 2;
  const int beside = illegal(tile, needs).empty() ? resident(tile, needs) : 1;
  tile.aux_stages = most;
  return illegal(tile, needs).empty() && resident(tile, needs) == beside;
}

static constexpr int wide = 64;  // columns of a subtile

// Wide subtiles beside at least four stages, if there is room.
static bool fill_wide(Schedule& tile, const EpilogueNeeds& needs) {
  constexpr int least = 4;
  tile.sub_n = wide, tile.d_buffers = 2, tile.aux_stages = needs.aux_bytes_column ? 2 : 0;
  for (tile.stages = 12; tile.stages >= least; --tile.stages)
    if (illegal(tile, needs).empty()) return true;
  return false;
}

// Behind a short K a consumer with three wide subtiles has them (decision 0306).
static bool with_wide_subtiles(Schedule& tile, const EpilogueNeeds& needs) {
  return needs.short_k && !needs.full_stages && consumer_rows(tile) * tile.bn >= 3 * 64 * wide &&
         fill_wide(tile, needs);
}

Schedule fill_shared(Schedule tile, const EpilogueNeeds& needs) {
  struct Staging {
    int sub_n, d_buffers, aux_stages;
  };
  // Stages come first, because memory is far, then wide subtiles; small tiles get as many bytes of
  // stages. Tiles that are held beside a short main loop prefer wide subtiles to a sixth stage
  // (decision 0038).
  constexpr Staging stagings[] = {{64, 2, 4}, {64, 2, 2}, {32, 2, 4}, {32, 2, 2}, {32, 2, 1},
                                  {48, 2, 4}, {48, 2, 2}, {16, 4, 4}, {16, 2, 2}};
  if (tile.mma) {
    tile.d_buffers = 1;
    for (const int sub_n : {64, 32, narrowest_subtile}) {
      tile.sub_n = sub_n;
      if (tile.strip_x && all_on_their_way(tile, needs)) return tile;
      for (const int aux : {2, 1}) {
        tile.aux_stages = needs.aux_bytes_column ? aux : 0;
        if (tile.strip_x) {
          if (illegal(tile, needs).empty()) return tile;
          continue;
        }
        // Three stages of a block with one consumer leave room for a second block everywhere.
        for (tile.stages = consumers(tile) == 1 ? 3 : 4; tile.stages >= 2; --tile.stages) {
          if (illegal(tile, needs).empty()) return tile;
        }
      }
    }
    tile.stages = 0;
    return tile;
  }
  if (with_wide_subtiles(tile, needs)) return tile;
  // Where few stages are full and a consumer has four wide subtiles, these come first (decision 0237).
  const bool few = needs.full_stages && consumer_rows(tile) * tile.bn >= 4 * 64 * 64;
  const int most = few ? needs.full_stages : needs.most_stages;
  for (const int least : {16, 12, 10, 8, most, 5, 4, 3, 2}) {
    if (least > most && least * (a_rows(tile, needs) + tile.bn) > most * 256) continue;
    for (const Staging& staging : stagings) {
      if (least == 6 && staging.aux_stages == 1) continue;
      tile.sub_n = staging.sub_n;
      tile.d_buffers = staging.d_buffers;
      tile.aux_stages = needs.aux_bytes_column ? staging.aux_stages : 0;
      tile.stages = a_rows(tile, needs) < tile.bm ? most_stages : 12;
      while (tile.stages >= least && shared_bytes(tile, needs) > shared_limit) --tile.stages;
      if (tile.stages >= least && illegal(tile, needs).empty()) return tile;
    }
  }
  tile.stages = 0;
  return tile;
}

std::vector<Schedule> candidates(const EpilogueNeeds& needs, bool mma, std::int64_t columns, std::int64_t k) {
  constexpr std::int64_t least_k = 1024, least_columns = 129;  // of widths in steps of eight (decision 0286)
  if (needs.stencil) return stencils(needs);
  std::vector<Schedule> found;
  const auto add = [&](const Tile& t) {
    Schedule s{.mma = mma,
               .ping_pong = t.ping_pong,
               .abreast = t.abreast,
               .bm = t.bm,
               .bn = t.bn,
               .shifted = needs.shifted,
               .shifted_a = needs.shifted_a != 0};
    s = fill_shared(s, needs);
    if (s.stages) found.push_back(s);
    if (s.stages && s.sub_n < wide && !needs.turned && shows_lines(needs, k) && fill_wide(s, needs)) found.push_back(s);
  };
  if (needs.shifted || mma) {
    std::ranges::for_each(needs.shifted ? std::span<const Tile>(tiles_shifted) : mma_tiles, add);
    return found;
  }
  for (const Family& family : std::span(families).first(needs.counts_pixels ? 1 : std::size(families)))
    if (family.fits(needs)) std::ranges::for_each(family.tiles, add);
  const bool any_width = needs.turned && plain_of_elements(needs) && !needs.counts_pixels && (k == 0 || k >= least_k) &&
                         (columns == 0 || columns >= least_columns);
  if (!any_width) return found;
  const auto is_there = [&](const Tile& t) {
    return std::ranges::any_of(found, [&](const Schedule& s) {
      return s.ping_pong == t.ping_pong && s.abreast == t.abreast && s.bm == t.bm && s.bn == t.bn;
    });
  };
  for (const auto& [least, most] : widths_turned) {
    const int step = width_step(needs, least.abreast);
    Tile t = least;
    for (t.bn = static_cast<int>(round_up(t.bn, step)); t.bn <= most; t.bn += step)
      if (!is_there(t) && (!columns || ceil_div(columns, t.bn - step) > ceil_div(columns, t.bn))) add(t);
  }
  return found;
}

}  // namespace postlude::inline v0::cuda
