// Schedules are chosen without a device. The file is longer than most because each rule of the choice has its few lines
// here, on the same needs.
#include "cuda/choose/schedule.h"
#include "core/divide.h"
#include "cuda/choose/cost.h"
#include "cuda/choose/filters.h"
#include "cuda/decided.h"
#include "plan/support.h"

#include <postlude/error.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace postlude::inline v0::cuda {
namespace {

EpilogueNeeds needs(int d_bytes, int aux_bytes = 0, int parts = 1, int operations = 2) {
  EpilogueNeeds n;
  n.d_bytes_column = d_bytes;
  n.aux_bytes_column = aux_bytes;
  n.parts = parts;
  n.operations = operations;
  return n;
}

TEST(Schedule, PrintsAndReadsBack) {
  for (Schedule s : candidates(needs(2, 2))) {
    for (s.split = 1; s.split <= 8; s.split *= 2) EXPECT_EQ(parse_schedule(to_string(s)), s) << to_string(s);
    s.split = 26, s.by_memory = true;
    EXPECT_EQ(parse_schedule(to_string(s)), s) << to_string(s);
    s.in_shares = true;
    EXPECT_EQ(parse_schedule(to_string(s)), s) << to_string(s);
    s.at_end = true;
    EXPECT_EQ(parse_schedule(to_string(s)), s) << to_string(s);
    s.in_shares = false, s.looped = true;
    EXPECT_EQ(parse_schedule(to_string(s)), s) << to_string(s);
    s.split = 1, s.by_memory = s.at_end = false;
    EXPECT_EQ(parse_schedule(to_string(s)), s) << to_string(s);
    s.cluster_m = 2;
    EXPECT_EQ(parse_schedule(to_string(s)), s) << to_string(s);
    s.again = true;
    EXPECT_EQ(parse_schedule(to_string(s)), s) << to_string(s);
    s.again = false;
    s.cluster_m = 1, s.cluster_n = 2, s.split = 3, s.by_memory = true;
    EXPECT_EQ(parse_schedule(to_string(s)), s) << to_string(s);
    s.cluster_n = 7, s.split = 1, s.by_memory = s.looped = false, s.meets = true;
    EXPECT_EQ(parse_schedule(to_string(s)), s) << to_string(s);
    EXPECT_NE(to_string(s).find(" cluster 1x7 meets"), std::string::npos) << to_string(s);
    s.cluster_n = 1, s.meets = false, s.parks = s.looped = true;
    EXPECT_EQ(parse_schedule(to_string(s)), s) << to_string(s);
    EXPECT_NE(to_string(s).find(" parks looped"), std::string::npos) << to_string(s);
  }
  for (const char* const text : {"", " ring 14", " ring 14 beside"}) {
    const std::string bands = std::string("bands 256x32 sub 32x1 aux 2 rows 2 images 1") + text;
    EXPECT_EQ(to_string(parse_schedule(bands)), bands);
  }
  EXPECT_EQ(to_string(parse_schedule("direct 4x96 strip 4x8")), "direct 4x96 strip 4x8");
  EXPECT_EQ(to_string(parse_schedule("direct 16x32 strip 7x4 images 8")), "direct 16x32 strip 7x4 images 8");
}

TEST(Schedule, SaysWhatCannotBeRead) {
  const std::string whole = "pingpong 128x128x4 sub 64x2 aux 0 raster 8";
  for (const auto& one : {std::pair<std::string, const char*>{"", "begins with none of pingpong, "},
                          {"pingpongs" + whole.substr(8), "begins with none of pingpong, "},
                          {"mma 128x128", "it has no tile and stages"},
                          {whole.substr(0, 20), "it has no sub 64x2"},
                          {whole.substr(0, 29), "it has no aux 0"},
                          {whole.substr(0, 34), "it has no raster 8"},
                          {whole + " prks", "\"prks\" is unknown"},
                          {whole + " looped parks", "\"parks\" is unknown, or has another place"},
                          {"stencil 256x32", "write it as \"stencil "},
                          {"bands 256x32", "write it as \"bands "},
                          {"direct 256", "write it as \"direct "}})
    EXPECT_ERROR(ErrorCode::bad_schedule, one.second, (void)parse_schedule(one.first));
}

// Consumers abreast have all rows of a tile and half of its columns each: of products behind which nothing is reduced.
TEST(Schedule, ConsumersStandAbreast) {
  const Schedule s = parse_schedule("abreast 192x192x4 sub 32x2 aux 0 raster 2 cluster 2x1 split 3 by memory");
  EXPECT_EQ(parse_schedule(to_string(s)), s);
  EXPECT_EQ(consumer_rows(s), 192);
  EXPECT_EQ(consumer_columns(s), 96);
  EXPECT_EQ(consumers(s), 2);
  EXPECT_EQ(illegal(s, needs(2)), "");
  EXPECT_EQ(b_run(s, needs(2)), 96);
  EXPECT_EQ(tiles_of(s, needs(2), 1, 400, 400).all, 4 * 3);
  EXPECT_NE(illegal(s, {.reduces = true}).find("single elements"), std::string::npos);
  EXPECT_NE(illegal(s, needs(2, 0, 2)).find("single elements"), std::string::npos);
  EXPECT_NE(illegal(parse_schedule("abreast 192x320x2 sub 32x2 aux 0 raster 2"), needs(2)).find("registers"),
            std::string::npos);
  EXPECT_NE(illegal(parse_schedule("abreast 192x96x2 sub 16x2 aux 0 raster 2"), needs(2)).find("multiple of 32"),
            std::string::npos);
}

// Tiles that are multiplied twice need no neighbours at the same time. Those that follow one another are whole groups
// of the raster, for which others wait, and whole turns of both consumers of all blocks.
TEST(Schedule, TilesAreMultipliedAgainInWholeGroups) {
  EpilogueNeeds n = needs(2);
  n.holds = n.meets = true;
  Schedule s{.ping_pong = true, .bm = 64, .bn = 64, .raster = 3, .again = true};
  EXPECT_NE(illegal(s, n), "") << "what else the first phase leaves would be left twice";
  n.repeats = true;
  EXPECT_EQ(illegal(s, n), "");
  const Tiles wide{9 * 200, 200};
  EXPECT_EQ(blocks(s, n, wide, 132), 129) << "28 turns of all";
  EXPECT_EQ(tiles_in_turn(s, wide, 132), 792);
  s.again = false;
  EXPECT_EQ(blocks(s, n, wide, 132), 0) << "a row does not run at once";
  s.again = true, s.ping_pong = false;
  EXPECT_EQ(tiles_in_turn(s, wide, 132), 660);
  s.split = 2;
  EXPECT_NE(illegal(s, n), "");
}

// Rows of so many columns behind a short K that their tiles do not wait for each other, where nothing but their
// statistics is left.
TEST(Schedule, WideRowsOfAShortKAreMultipliedAgain) {
  const auto has = [](const std::string& word, const std::string& text, std::int64_t m, std::int64_t n,
                      std::int64_t k) {
    return chosen(plan_for("def f(acc, r: tile[bf16]):\n" + text, "sm_90a"), m, n, k).find(word) != std::string::npos;
  };
  const auto again = [&](const std::string& text, std::int64_t m, std::int64_t n, std::int64_t k) {
    return has(" again", text, m, n, k);
  };
  const std::string softmax = "    e = exp(x - max(x, axis=1))\n    D: bf16 = e / sum(e, axis=1)\n    return D";
  EXPECT_TRUE(again("    x = acc * 2\n" + softmax + "\n", 909, 37632, 80));
  EXPECT_FALSE(again("    x = acc * 2\n" + softmax + "\n", 909, 37632, 4096));
  EXPECT_FALSE(again("    x = acc * 2\n" + softmax + "\n", 4096, 4096, 80));
  EXPECT_FALSE(again("    x = acc + r\n" + softmax + "\n", 909, 37632, 80)) << "an operand would come twice";
  EXPECT_FALSE(again("    x = acc * 2\n    y: bf16 = x\n" + softmax + ", y\n", 909, 37632, 80))
      << "y would be stored twice";
  // Of fewer tiles they wait in shared memory, unless products take as long as that.
  EXPECT_TRUE(has(" parks", "    x = acc * 2\n" + softmax + "\n", 5000, 14000, 256));
  EXPECT_TRUE(has(" parks", "    x = acc + r\n" + softmax + "\n", 5000, 14000, 256));
  EXPECT_FALSE(has(" parks", "    x = acc * 2\n" + softmax + "\n", 4096, 4096, 1024));
  EXPECT_FALSE(has(" parks", "    x = acc * 2\n" + softmax + "\n", 5000, 1000, 256));
  EXPECT_TRUE(has(" parks", "    x = acc * 2\n" + softmax + "\n", 13152, 18432, 512));
  EXPECT_FALSE(has(" parks", "    x = acc + r\n" + softmax + "\n", 14642, 8480, 768)) << "two stages beside operands";
  const std::string norm = "    x = acc + r\n    D: bf16 = x * rsqrt(mean(x * x, axis=1))\n    return D\n";
  EXPECT_FALSE(has(" parks", norm, 14642, 8480, 768));
}

TEST(Schedule, PartsInSharesAllRunAtOnce) {
  Schedule s{.split = 33, .by_memory = true, .in_shares = true};
  EXPECT_EQ(blocks(s, needs(2), {4, 4}, 132), 132);
  EXPECT_EQ(blocks(s, needs(2), {5, 5}, 132), 0);
  s.in_shares = false;
  EXPECT_GT(blocks(s, needs(2), {5, 5}, 132), 0);
}

TEST(Schedule, PartsAtTheEndFollowWholeWaves) {
  Schedule s{.split = 3, .by_memory = true, .at_end = true};
  EXPECT_EQ(whole_tiles(s, needs(2), {300, 10}, 132), 264);
  EXPECT_EQ(blocks(s, needs(2), {300, 10}, 132), 132);
  EXPECT_EQ(blocks(s, needs(2), {130, 10}, 132), 0);  // no whole wave
  EXPECT_EQ(blocks(s, needs(2), {264, 10}, 132), 0);  // nothing behind it
  s.in_shares = true;
  EXPECT_EQ(blocks(s, needs(2), {300, 10}, 132), 132);  // 36 tiles of 3 parts
  EXPECT_EQ(blocks(s, needs(2), {310, 10}, 132), 0);
  s.in_shares = false;
  EpilogueNeeds held = needs(2);
  held.holds = true, s.raster = 2;  // groups of 20 tiles, of which 6 run at once
  EXPECT_EQ(whole_tiles(s, held, {280, 10}, 132), 240);
  EXPECT_EQ(blocks(s, held, {280, 10}, 132), 120);  // 40 tiles of 3 parts
  EXPECT_EQ(blocks(s, held, {290, 10}, 132), 0) << "a part would wait for one that is taken after it";
  s.raster = 14;
  EXPECT_EQ(blocks(s, held, {280, 10}, 132), 0) << "no group runs at once";
  s.at_end = false;
  EXPECT_EQ(whole_tiles(s, needs(2), {300, 10}, 132), 0);
}

// Where held tiles have parts at the end, every group of the raster is on one side of these: else a tile would wait for
// one that its own block takes later.
TEST(Schedule, NoGroupOfHeldTilesIsPartlyInParts) {
  EpilogueNeeds held = needs(2);
  held.holds = true;
  int seen = 0;
  for (int batches = 1; batches <= 4; ++batches)
    for (int down = 1; down <= 24; ++down)
      for (int raster = 1; raster <= 6; ++raster)
        for (int beside = 2; beside <= 5; ++beside) {
          const Schedule s{.raster = raster, .split = 2, .by_memory = true, .at_end = true};
          const Tiles tiles{std::int64_t{batches} * down * beside, beside, batches};
          if (blocks(s, held, tiles, 17) == 0) continue;
          const std::int64_t whole = whole_tiles(s, held, tiles, 17), row = whole / beside % down;
          EXPECT_TRUE(whole % beside == 0 && row % raster == 0)
              << batches << ' ' << down << ' ' << raster << ' ' << beside;
          ++seen;
        }
  EXPECT_GT(seen, 100);
}

// Whether all held tiles end: a block multiplies its tiles in order, a consumer has every second of them, and one is
// done when all that have its rows are multiplied.
static bool all_end(const Tiles& tiles, int raster, int blocks) {
  const std::int64_t all = tiles.all, of_batch = all / tiles.batches, down = of_batch / tiles.beside;
  std::vector<std::int64_t> row(all), left(all / tiles.beside, tiles.beside);
  for (std::int64_t t = 0; t < all; ++t) {
    const std::int64_t in = t % of_batch, group = in / (raster * tiles.beside) * raster;
    row[t] = t / of_batch * down + group + (in - group * tiles.beside) % std::min<std::int64_t>(raster, down - group);
  }
  std::vector<bool> multiplied(all);
  for (bool moves = true; std::exchange(moves, false);)
    for (std::int64_t t = 0; t < all; ++t) {
      const bool follows = t < blocks || multiplied[t - blocks],
                 is_free = t < 2 * blocks || (multiplied[t - 2 * blocks] && left[row[t - 2 * blocks]] == 0);
      if (multiplied[t] || !follows || !is_free) continue;
      multiplied[t] = moves = true, --left[row[t]];
    }
  return std::ranges::all_of(multiplied, std::identity{});
}

// Rows of more tiles than multiprocessors are held too, and those of two turns: tiles wait for what the other
// consumers of blocks multiply next, and nobody for ever. The tiles of a cluster are taken as one.
TEST(Schedule, HeldTilesOutOfStepEnd) {
  EpilogueNeeds held = needs(2);
  held.holds = true;
  constexpr int multiprocessors = 17;
  const auto play = [&](const Schedule& s, int batches, int down, int beside) {
    const std::int64_t rows = round_up(down, s.cluster_m), columns = round_up(beside, s.cluster_n);
    const Tiles tiles{batches * rows * columns, columns, batches};
    const int run = blocks(s, held, tiles, multiprocessors), together = cluster_tiles(s);
    const bool fits = s.raster * columns <= (columns > multiprocessors ? 2 : 1) * multiprocessors;
    if (together == 1) EXPECT_EQ(run > 0, fits || tiles.all <= 2 * multiprocessors) << to_string(s) << ' ' << tiles.all;
    EXPECT_EQ(run % together, 0);
    if (run == 0) return false;
    EXPECT_TRUE(all_end({tiles.all / together, columns / s.cluster_n, batches}, s.raster / s.cluster_m, run / together))
        << to_string(s) << ' ' << batches << ' ' << down << ' ' << beside;
    return is_out_of_step(s, held, tiles, run);
  };
  int seen = 0;
  for (int batches = 1; batches <= 3; ++batches)
    for (int down = 1; down <= 12; ++down)
      for (int raster = 1; raster <= 4; ++raster)
        for (int beside = 2; beside <= 40; ++beside) {
          seen += play({.raster = raster}, batches, down, beside);
          seen += play({.raster = raster, .cluster_n = 2}, batches, down, beside);
          if (raster % 2 == 0) seen += play({.raster = raster, .cluster_m = 2}, batches, down, beside);
        }
  EXPECT_GT(seen, 1000);
  EXPECT_FALSE(all_end({60, 20}, 1, 9)) << "a row of 20 tiles, of which 18 are held at once";
}

// Tiles of clusters, with those of the last ones that do not exist, on multiprocessors of which one may be left over.
TEST(Schedule, ClustersAreWhole) {
  Schedule s{.raster = 2, .cluster_m = 2};
  const EpilogueNeeds n = needs(2);
  EXPECT_EQ(illegal(s, n), "");
  const Tiles along_m = tiles_of(s, n, 3, 600, 300);  // 5 x 3
  EXPECT_EQ(along_m.all, 3 * 6 * 3);
  EXPECT_EQ(along_m.beside, 3);
  EXPECT_EQ(blocks(s, n, along_m, 133), 54);
  EXPECT_EQ(blocks(s, n, along_m, 41), 28);  // two waves of 20 clusters, the second not full
  EXPECT_EQ(blocks(s, n, along_m, 1), 0);
  s.cluster_m = 1, s.cluster_n = 2;
  const Tiles along_n = tiles_of(s, n, 3, 600, 300);
  EXPECT_EQ(along_n.all, 3 * 5 * 4);
  EXPECT_EQ(along_n.beside, 4);
  s.split = 2, s.by_memory = s.at_end = true;
  EXPECT_EQ(whole_tiles(s, needs(2), along_n, 17), 48);
  EpilogueNeeds held = needs(2);
  held.holds = true;
  s.split = 1, s.by_memory = s.at_end = false;
  EXPECT_EQ(blocks(s, held, along_n, 17), 16);  // groups of 2 x 4
  EXPECT_EQ(blocks(s, held, along_n, 7), 0);
}

TEST(Schedule, SaysWhyTilesAreNoCluster) {
  const auto why = [](Schedule s, const EpilogueNeeds& n) { return illegal(s, n); };
  EpilogueNeeds n = needs(2);
  EXPECT_NE(why({.cluster_m = 2, .cluster_n = 2}, n).find("2x1 or 1x2"), std::string::npos);
  EXPECT_NE(why({.raster = 3, .cluster_m = 2}, n).find("raster"), std::string::npos);
  EXPECT_NE(why({.split = 2, .cluster_m = 2}, n).find("not split"), std::string::npos);
  EXPECT_EQ(why({.split = 2, .by_memory = true, .cluster_m = 2}, n), "");
  n.windows = true;
  EXPECT_EQ(why({.cluster_m = 2}, n), "");
  EXPECT_NE(why({.cluster_n = 2}, n).find("windows"), std::string::npos);
}

// A cluster that meets has all tiles of its rows, loads nothing together, and waits for no other one.
TEST(Schedule, ClustersMeet) {
  EpilogueNeeds n = needs(2);
  n.holds = n.meets = true, n.row_states = 8;
  const Schedule alone{.bn = 64, .stages = 4};
  Schedule s = alone;
  s.cluster_n = 5, s.meets = true;
  EXPECT_EQ(illegal(s, n), "");
  EXPECT_EQ(shared_bytes(s, n) - shared_bytes(alone, n), 2 * 2 * 2 * (5 * 64 * 8 + 4 * 8));
  EXPECT_EQ(a_run(s, n), a_run(alone, n));
  const Tiles tiles = tiles_of(s, n, 3, 600, 300);
  EXPECT_EQ(tiles.all, 3 * 5 * 5);
  EXPECT_EQ(tiles.beside, 5);
  EXPECT_EQ(blocks(s, n, tiles, 132), 75);
  EXPECT_EQ(blocks(s, n, {5 * 50, 5}, 132), 5 * 17);             // three waves of 22 clusters, the last not full
  EXPECT_EQ(blocks(s, n, tiles, 5), 5);                          // no whole group
  EXPECT_EQ(blocks(s, n, tiles_of(s, n, 3, 600, 256), 132), 0);  // four tiles beside each other
  EXPECT_EQ(blocks(s, n, tiles_of(s, n, 3, 600, 321), 132), 0);  // six
  EXPECT_EQ(meeting_clusters(8, 132), 15);
  const auto why = [&](Schedule other) { return illegal(other, n); };
  for (const auto& [m, beside] : {std::pair(2, 2), {1, 1}, {1, 9}}) {
    s.cluster_m = m, s.cluster_n = beside;
    EXPECT_NE(why(s).find("1x2 to 1x8"), std::string::npos) << m << ' ' << beside;
  }
  s = {.bn = 64, .stages = 4, .split = 2, .cluster_n = 3, .meets = true};
  EXPECT_NE(why(s).find("whole"), std::string::npos);
  s.split = 1, n.holds = false;
  EXPECT_NE(why(s).find("held"), std::string::npos);
}

// A tile that waits in shared memory has room there. Its group may lie in two turns of all blocks, and so be of one
// tile more than there are blocks.
TEST(Schedule, TilesPark) {
  EpilogueNeeds n = needs(2);
  n.holds = n.meets = true, n.row_states = 8;
  const Schedule alone{.bm = 64, .bn = 224, .stages = 3, .sub_n = 32, .raster = 2};
  Schedule s = alone;
  s.parks = true;
  EXPECT_EQ(illegal(s, n), "");
  EXPECT_EQ(shared_bytes(s, n) - shared_bytes(alone, n), 4 * 64 * 224);
  EXPECT_EQ(blocks(alone, n, {400 * 63, 63}, 132), 126);
  EXPECT_EQ(blocks(s, n, {400 * 63, 63}, 132), 132);
  EXPECT_EQ(blocks(s, n, {80, 40}, 132), 80) << "one turn";
  EXPECT_EQ(blocks(s, n, {5 * 66, 66}, 132), 132) << "110 would make three equal turns, and are fewer than a group";
  s.raster = 1;
  EXPECT_EQ(blocks(s, n, {4 * 133, 133}, 132), 132);
  EXPECT_EQ(blocks(s, n, {4 * 134, 134}, 132), 0);
  EpilogueNeeds fp8 = n;
  fp8.promoted = true;
  s.bn = 128;
  EXPECT_EQ(illegal(s, n), "");
  EXPECT_NE(illegal(s, fp8).find("fp8"), std::string::npos);
  const auto why = [&](auto change) {
    Schedule other = s;
    change(other);
    return illegal(other, n);
  };
  for (const std::string& reason : {why([](Schedule& o) { o.again = true; }), why([](Schedule& o) { o.split = 2; }),
                                    why([](Schedule& o) { o.cluster_m = 2, o.raster = 2; }),
                                    why([](Schedule& o) { o.cluster_n = 2, o.meets = true; }),
                                    why([](Schedule& o) { o.ping_pong = false, o.bm = 128; })})
    EXPECT_FALSE(reason.empty());
  n.holds = false;
  EXPECT_NE(illegal(s, n).find("wait in shared memory"), std::string::npos);
}

// Each of two blocks loads half of what they share, by whole boxes where their number is even.
TEST(Schedule, ClustersShareBoxes) {
  EpilogueNeeds n = needs(2);
  Schedule s{.bn = 192, .cluster_m = 2};
  EXPECT_EQ(b_run(s, n), 96);
  EXPECT_EQ(a_run(s, n), 128);
  n.parts = 2;
  EXPECT_EQ(b_run(s, n), 96);
  n.b_mn_major = true;
  EXPECT_EQ(b_run(s, n), 64);  // lines of K are shared
  s.cluster_m = 1, s.cluster_n = 2;
  EXPECT_EQ(a_run(s, n), 64);
}

TEST(Schedule, IsSplitAtTheEndWhereTheLastWaveIsLongAndEmpty) {
  using Sizes = std::array<std::int64_t, 3>;
  for (const auto& [m, n, k] : {Sizes{4769, 2880, 18432}, {17209, 1024, 11200}}) {
    const Schedule few = rank(needs(2), 1, m, n, k, 132).front();
    EXPECT_TRUE(few.at_end) << to_string(few);
  }
  // Where that was faster with tiles of 128 rows (decision 0098), others fill three waves.
  for (const auto& [m, n, k] : {Sizes{795, 12488, 12032}, {18640, 512, 18432}}) {
    const Schedule fits = rank(needs(2), 1, m, n, k, 132).front();
    EXPECT_EQ(tiles_of(fits, needs(2), 1, m, n).all, 392) << to_string(fits);
    EXPECT_FALSE(fits.at_end);
  }
  for (const std::int64_t k : {256, 4096}) {
    const Schedule full = rank(needs(2, 2), 1, 4096, 4096, k, 132).front();  // 100 tiles behind 7 waves
    EXPECT_FALSE(full.at_end) << to_string(full);
  }
}

TEST(Schedule, RefusesTextThatItCannotRead) {
  for (const char* text :
       {"", "pingpong", "pingpong 128x192x4", "serial 128x128x4 sub 64x2 aux 0 raster 8",
        "pingpong 128x128x4 sub 64x2 aux 0 raster 8 more", "pingpong 128x128x4 sub 64x2 aux 0 raster 8 split",
        "pingpong 128x128x4 sub 64x2 aux 0 raster 8 split 2 more",
        "pingpong 128x128x4 sub 64x2 aux 0 raster 8 by memory",
        "pingpong 128x128x4 sub 64x2 aux 0 raster 8 split 2 by memory more",
        "pingpong 128x128x4 sub 64x2 aux 0 raster 8 split 2 in shares",
        "pingpong 128x128x4 sub 64x2 aux 0 raster 8 split 2 at end",
        "pingpong 128x128x4 sub 64x2 aux 0 raster 8 split 2 by memory at end in shares"}) {
    EXPECT_THROW((void)parse_schedule(text), Error) << text;
  }
}

TEST(Schedule, CandidatesAreLegalAndFitInSharedMemory) {
  for (const auto& n : {needs(0), needs(2), needs(4, 2), needs(2, 0, 2), needs(8, 8), needs(12, 12)}) {
    for (const Schedule& s : candidates(n)) {
      EXPECT_EQ(illegal(s, n), "") << to_string(s);
      EXPECT_LE(shared_bytes(s, n), shared_limit) << to_string(s);
    }
  }
}

// Subtiles of 64 columns are whole lines, which the model prefers where outputs are most of what moves (decision 0316).
TEST(Schedule, ShortProductsStoreWholeLines) {
  const EpilogueNeeds n = needs(2, 2);
  const auto fillings = [&](std::int64_t k) {
    std::vector<int> columns;
    for (const Schedule& s : candidates(n, false, 0, k))
      if (s.ping_pong && s.bm == 128 && s.bn == 128) columns.push_back(s.sub_n);
    return columns;
  };
  EXPECT_EQ(fillings(960), (std::vector{32, 64}));
  EXPECT_EQ(fillings(1024), (std::vector{32}));
  for (const std::int64_t k : {64, 512, 960}) EXPECT_EQ(rank(n, 1, 8192, 8192, k, 132).front().sub_n, 64) << k;
  EXPECT_FALSE(shows_lines(needs(2), 576)) << "without operands a fifth stage is worth more";
}

TEST(Schedule, SaysWhyItIsIllegal) {
  Schedule s{.ping_pong = true, .bm = 128, .bn = 256, .stages = 4};
  EXPECT_NE(illegal(s, needs(2)).find("registers"), std::string::npos);
  s.bn = 128, s.stages = 8;
  EXPECT_NE(illegal(s, needs(2)).find("shared memory"), std::string::npos);
  s.stages = 4, s.aux_stages = 2;
  EXPECT_NE(illegal(s, needs(2)).find("tile operands"), std::string::npos);
  s.aux_stages = 0, s.split = 3;
  EXPECT_NE(illegal(s, needs(2)).find("2, 4 or 8"), std::string::npos);
  s.split = 8;
  EXPECT_NE(illegal(s, needs(2)).find("do not fit"), std::string::npos);
  s.by_memory = true;
  EXPECT_EQ(illegal(s, needs(2)), "");
  s.split = most_parts + 1;
  EXPECT_NE(illegal(s, needs(2)).find("2 to 128"), std::string::npos);
}

TEST(Schedule, HasStagesWithinBounds) {
  EpilogueNeeds few = needs(2);  // rows of A: as many stages as there may be, where others have 12
  const auto most = [&] {
    int stages = 0;
    for (const Schedule& each : candidates(few)) stages = std::max(stages, each.stages);
    return stages;
  };
  EXPECT_EQ(most(), 12);
  few.a_rows = 16;
  EXPECT_GT(most(), 12);
  Schedule s{.bm = 64, .bn = 32, .stages = most_stages, .sub_n = 32, .raster = 1};
  EXPECT_EQ(illegal(s, few), "");
  s.stages = most_stages + 1;
  EXPECT_NE(illegal(s, few).find("2 to 24"), std::string::npos);
}

TEST(Schedule, CountsSharedMemory) {
  EpilogueNeeds n = needs(4, 6);
  n.scratch_bytes = 1000;
  const Schedule s{.bm = 128, .bn = 128, .stages = 4, .sub_n = 32, .d_buffers = 3, .aux_stages = 2};
  const int d = 64 * 32 * 4, aux = 64 * 32 * 6;
  EXPECT_EQ(shared_bytes(s, n), 1024 + 4 * (128 + 128) * 128 + 2 * 3 * d + 2 * 2 * aux + 2 * 1000 + 16 * 4 + 32 * 2);
  // The portable kernel's epilogue takes the memory of its stages, or more: here a consumer of 64 rows has more.
  const Schedule portable{.mma = true, .bm = 64, .bn = 64, .stages = 2, .sub_n = 64, .d_buffers = 1, .aux_stages = 2};
  EXPECT_EQ(shared_bytes(portable, n), consumers(portable) * (2 * d + 2 * 2 * aux + 1000));
}

TEST(Schedule, TakesLongerTheMoreItMoves) {
  for (const bool mma : {false, true}) {
    Schedule s{.bm = 128, .bn = 128, .stages = 3, .aux_stages = 1};
    s.mma = mma, s.d_buffers = mma ? 1 : 2;
    const auto time = [&](int d_bytes, int aux_bytes) {
      return microseconds(s, needs(d_bytes, aux_bytes), {1, 8192, 8192, 64}, 132);
    };
    EXPECT_LT(time(2, 2), time(4, 2)) << mma;
    EXPECT_LT(time(2, 2), time(2, 4)) << mma;
  }
}

// Partial results that all blocks fold take a launch longer, those beside tags less (decision 0313), but not where each
// tile has whole columns (decision 0190).
TEST(Schedule, TakesLongerWhereBlocksMeet) {
  const Schedule s{.bm = 64, .bn = 64, .stages = 12, .raster = 2};
  EpilogueNeeds alone = needs(2), meets = alone;
  meets.meets = true;
  const auto time = [&](const EpilogueNeeds& n, std::int64_t m) { return microseconds(s, n, {1, m, 4096, 256}, 132); };
  EXPECT_NEAR(time(meets, 192) - time(alone, 192), 2, 0.01);
  EXPECT_NEAR(time(meets, 64) - time(alone, 64), 1.48, 0.01) << "all tiles in one wave";
  meets.only_columns = true;
  EXPECT_EQ(time(meets, 64), time(alone, 64));
  EXPECT_NEAR(time(meets, 65) - time(alone, 65), 1.48, 0.01);
}

// What comes behind a tile is hidden by nothing where it is a multiprocessor's only one, and takes as long as it takes;
// of two tiles the second consumer's comes behind one more main loop (decision 0300).
TEST(Schedule, TilesBehindAShortLoopTakeTheirEpiloguesOnce) {
  const Schedule s{.bm = 64, .bn = 64, .stages = 12, .raster = 2};
  constexpr double clocks_of_instructions = 20 * 0.014 * 64 * 64;
  const auto time = [&](int operations, std::int64_t tiles) {
    return 1755 * microseconds(s, needs(2, 0, 1, operations), {1, 64 * tiles, 64, 64}, 132);
  };
  for (const auto& [tiles, epilogues] : {std::pair{1, 1}, {132, 1}, {2 * 132, 1}, {3 * 132, 2}, {4 * 132, 2}})
    EXPECT_NEAR(time(220, tiles) - time(200, tiles), epilogues * clocks_of_instructions, 40) << tiles;
}

// A lane that folds a wide row reads a sector for each word that each tile left of it: of 23 rows of 30720 columns
// larger tiles leave less, an argmax 19.3 us in tiles of 64 x 256, 20.2 of 64 x 128, 30.2 of 64 x 64 (decision 0300).
TEST(Schedule, FewWideRowsLeaveLittleToFold) {
  const std::string argmax = "def f(acc):\n    i: i64 = argmax(acc, axis=1)\n    return i\n";
  EXPECT_TRUE(chosen(plan_for(argmax, "sm_90a"), 23, 30720, 448).starts_with("pingpong 64x256"))
      << chosen(plan_for(argmax, "sm_90a"), 23, 30720, 448);
  EpilogueNeeds n = needs(0);
  n.reduces = n.meets = true;
  const auto time = [&](int states, std::int64_t m) {
    n.row_states = states;
    return 1755 * microseconds({.bm = 64, .bn = 64, .stages = 12, .raster = 2}, n, {1, m, 8192, 256}, 132);
  };
  EXPECT_NEAR(time(16, 64) - time(8, 64), 0.35 * 8 * 8 * 128, 1);
  EXPECT_NEAR(time(16, 4) - time(8, 4), 0.35 * 8 * 4 * 128, 1) << "of fewer rows than a block folds";
  EXPECT_NEAR(time(16, 2048) - time(8, 2048), 0.1 * 8 * 32 * 128, 1) << "of many rows four lie beside each other";
}

// A tile leaves statistics of columns, in whichever way it lies, and of means and variances more is joined (decision
// 0300).
TEST(Schedule, StatisticsTakeATileLonger) {
  const auto more = [](const EpilogueNeeds& with, const EpilogueNeeds& without) {
    const Schedule s{.bm = 64, .bn = 64, .stages = 12, .raster = 2};
    const Extents e{1, 64, 4096, 8192};  // a tile a block
    return 1755 * (microseconds(s, with, e, 132) - microseconds(s, without, e, 132));
  };
  EpilogueNeeds columns = needs(2), turned = needs(2), rows = needs(2);
  columns.columns = turned.turned = true, turned.row_states = rows.row_states = 4;
  EXPECT_NEAR(more(columns, needs(2)), 1250, 1);
  EXPECT_NEAR(more(turned, rows), 1250, 1);
  EpilogueNeeds softmax = needs(2), layer_norm = needs(2);
  softmax.holds = layer_norm.holds = true, softmax.row_states = 8, layer_norm.row_states = 12;
  EXPECT_NEAR(more(layer_norm, softmax), 1000, 1);
}

// Tiles that wait for each other run at the same time: whole groups of the raster, no more than
// there are blocks.
TEST(Schedule, TilesThatAreHeldRunTogether) {
  EpilogueNeeds n = needs(2);
  n.holds = true;
  for (const auto& [m, columns] : {std::pair{16384, 4096}, {4096, 4096}, {100, 5000}, {16384, 3000}, {300, 8}}) {
    const std::vector<Schedule> found = rank(n, 1, m, columns, 1024, 132);
    ASSERT_FALSE(found.empty());
    for (const Schedule& s : found) {
      if (s.parks) continue;
      const std::int64_t tiles_n = (columns + s.bn - 1) / s.bn, tiles = (m + s.bm - 1) / s.bm * tiles_n,
                         group = s.meets ? tiles_n : s.raster * tiles_n, run = blocks(s, n, {tiles, tiles_n}, 132);
      EXPECT_LE(run, 132) << to_string(s) << " of " << m << " x " << columns;
      const bool two_turns = s.ping_pong && tiles <= 2 * run;
      EXPECT_TRUE(group <= 132 || two_turns) << to_string(s) << " of " << m << " x " << columns;
      EXPECT_TRUE(run == tiles * s.split || (run > 0 && (run % group == 0 || two_turns)))
          << run << ": " << to_string(s);
    }
  }
  const Schedule wide = rank(n, 1, 16384, 4096, 1024, 132).front();
  EXPECT_EQ(wide.raster, 132 / tiles_of(wide, n, 1, 16384, 4096).beside) << to_string(wide);
  EXPECT_FALSE(rank(n, 1, 16384, 264 * 256, 1024, 132).empty());
  EXPECT_TRUE(rank(n, 1, 16384, 265 * 256, 1024, 132).empty());  // more beside each other than wait for one another
  Schedule s{.bn = 128, .raster = 8};
  EXPECT_EQ(blocks(s, n, {1024, 32}, 132), 0);
  EXPECT_EQ(blocks(s, n, {256, 32}, 132), 128) << "two turns";
  EXPECT_EQ(blocks({.ping_pong = false, .raster = 8}, n, {256, 32}, 132), 0);
  EXPECT_EQ(blocks(s, needs(2), {1024, 32}, 132), 128);
  s = {.mma = true, .bm = 128, .bn = 128, .stages = 3, .d_buffers = 1};
  EXPECT_NE(illegal(s, n).find("portable"), std::string::npos);
}

TEST(Schedule, FollowsTheMeasurements) {
  // 8192^3: full waves of the large tile; 4096^3: 704 tiles of 128x192 leave a third of the last of
  // six waves.
  EXPECT_EQ(rank(needs(2), 1, 8192, 8192, 8192, 132).front().bn, 192);
  EXPECT_EQ(rank(needs(2), 1, 4096, 4096, 4096, 132).front().bn, 128);
  // Two consumers side by side hide each other's additions to a second accumulator (fp8_rowwise:
  // 0.52, 0.58, in turns 0.59, 0.63).
  EpilogueNeeds promoted = needs(2);
  promoted.element_bytes = 1, promoted.promoted = true;
  EXPECT_TRUE(to_string(rank(promoted, 1, 8192, 8192, 8192, 132).front()).starts_with("cooperative 128x192"));
  EXPECT_TRUE(to_string(rank(promoted, 1, 4096, 4096, 4096, 132).front()).starts_with("cooperative 128x128"));
  EXPECT_FALSE(rank(promoted, 1, 16384, 4096, 1024, 132).front().ping_pong);
  // Few tokens: small tiles for many multiprocessors; where even those are few, several share one's
  // K.
  const auto first = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    const Schedule s = rank(needs(2), 1, m, n, k, 132).front();
    return std::to_string(s.bm) + "x" + std::to_string(s.bn) + " split " + std::to_string(s.split);
  };
  EXPECT_EQ(first(64, 4096, 4096), "64x32 split 1");    // 0.99 of cuBLAS, as 64x64; 64x128 1.18, split among two 1.05
  EXPECT_EQ(first(33, 2032, 5120), "64x32 split 2");    // 0.91 of 64x64 split 2
  EXPECT_EQ(first(125, 232, 7168), "64x32 split 4");    // 0.82 of 64x64 split 8
  EXPECT_EQ(first(64, 1024, 8192), "64x64 split 4");    // 1.05; among two 1.17, not split 1.70
  EXPECT_EQ(first(256, 4096, 4096), "64x128 split 1");  // 0.91; 64x64 1.06, 128x128 1.14
  EXPECT_EQ(first(512, 4096, 4096), "128x128 split 1");
  EXPECT_EQ(first(187, 28672, 3008), "192x128 split 1");  // 0.80 of 64x256, 0.90 of 128x160
  EXPECT_EQ(first(1024, 1024, 8192), "128x128 split 2");  // 0.96; 64x128 0.98
  // Parts meet sooner in memory than was thought (decision 0273).
  EXPECT_EQ(first(242, 192, 12352), "64x32 split 5");  // 0.79 of 64x96 split 8
  EXPECT_EQ(first(119, 512, 16384), "64x64 split 7");  // 0.88 of split 4
  EXPECT_EQ(to_string(rank(needs(2, 0, 1, 11), 1, 1625, 17920, 6144, 132).front()),
            "pingpong 128x192x5 sub 32x2 aux 0 raster 12 split 3 by memory at end");  // 0.97 of 128x128
  // Halves of a chunk come in boxes of 32 columns without delay: swiglu, 1.03; among two 1.10 (decision 0232).
  EXPECT_EQ(rank(needs(2, 0, 2), 1, 64, 2048, 4096, 132).front().split, 1);
  // Rows that warps copy, of bias_gelu on odd sizes: 0.286; 128x160 0.334, and subtiles of 32 columns 0.305.
  EpilogueNeeds odd = needs(2, 0, 1, 11);
  odd.a_lines = odd.b_lines = Lines::copied;
  EXPECT_EQ(rank(odd, 1, 4095, 4099, 1021, 132).front().bn, 192);
  odd.copied_bytes_column = 2;
  EXPECT_TRUE(to_string(rank(odd, 1, 4095, 4099, 1021, 132).front()).starts_with("pingpong 128x128x6 sub 64"));
  // Long products take wide tiles, which need fewer bytes of L2: 0.965 of 128x128 in turns (decision 0233). Where
  // multiprocessors are idle in the last wave, their power is the others': 0.96 in turns.
  EXPECT_EQ(to_string(rank(needs(2), 1, 2704, 3072, 12288, 132).front()).substr(0, 19), "cooperative 128x256");
  EXPECT_EQ(to_string(rank(needs(2), 1, 11124, 752, 15616, 132).front()).substr(0, 19), "cooperative 128x256");
  // An expensive epilogue behind a short product does not get the tile that leaves it no registers.
  EXPECT_LE(rank(needs(0, 2, 1, 45), 1, 16384, 4096, 1024, 132).front().bn, 128);
}

// Windows of many pixels take tall tiles, by few filters too: a line of them takes longer than one of a matrix.
TEST(Schedule, TakesTallTilesOfWindows) {
  EpilogueNeeds windows = needs(2);
  windows.windows = true, windows.a_taps = 9;
  const auto first = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    const Schedule s = rank(windows, 1, m, n, k, 132).front();
    return std::string(s.ping_pong ? "pingpong " : "cooperative ") + std::to_string(s.bm) + "x" + std::to_string(s.bn);
  };
  EXPECT_EQ(first(84872, 64, 5832), "cooperative 256x64");    // 193; 128x64 209
  EXPECT_EQ(first(33856, 200, 576), "pingpong 192x128");      // 26.9; 128x128 31.0
  EXPECT_EQ(first(906, 1408, 12672), "cooperative 256x128");  // 55.1; 128x128 61.7
}

// Of the weight gradient of a depthwise convolution: whatever is chosen is legal, covers all pixels and fits; what is
// not legal says why.
TEST(FilterTiles, AreChosenWhereTheyFit) {
  constexpr int limit = 115712;
  for (const int pixels : {1, 3, 7, 13, 56, 112, 300, 1000})
    for (const int taps : {1, 3, 5, 7})
      for (const int step : {1, 2, 3})
        for (const int bytes : {2, 4}) {
          const Stencil of{{pixels, taps, step, 1}, {pixels + 1, taps, step, 2}};
          const auto schedule = filter_schedule(of, {96, 32, bytes, limit, 132});
          ASSERT_TRUE(schedule) << pixels << " pixels, " << taps << " taps";
          std::string why;
          const auto tile = filter_tile(*schedule, of, bytes, limit, why);
          ASSERT_TRUE(tile) << why;
          EXPECT_LE(tile->shared, limit);
          EXPECT_LE(tile->bytes * (tile->stages - 1), tile->shared);
          EXPECT_LE(tile->y, of.y.pixels);
          EXPECT_LE(tile->x, of.x.pixels);
        }
}

TEST(Rings, AreReadBackAndRefused) {
  EpilogueNeeds n = needs(2);
  n.stencil = {{56, 7}, {56, 7}};
  for (const bool boxes : {true, false}) {
    n.boxes = boxes;
    int rings = 0;
    for (const Schedule& s : candidates(n, true)) {
      EXPECT_EQ(parse_schedule(to_string(s)), s) << to_string(s);
      rings += s.ring != 0;
    }
    EXPECT_EQ(rings, boxes ? 2 : 0);  // one of four warps, one of eight
  }
  const auto refused = [&](int ring) {
    return illegal(parse_schedule("bands 256x32 sub 32x1 aux 0 rows 2 images 1 ring " + std::to_string(ring)), n);
  };
  EXPECT_EQ(refused(14), "a ring is what the copy engine of sm_90a loads, of pixels that do not overlap");
  n.boxes = true;
  for (const int ring : {9, 21})
    EXPECT_EQ(refused(ring), "a ring has the 10 rows of pixels that a tile reads, and at most twice as many");
  for (const int ring : {10, 14, 20}) EXPECT_EQ(refused(ring), "");
  for (const char* text :
       {"bands 256x32 sub 32x1 aux 0 rows 2 images 1 ring", "bands 256x32 sub 32x1 aux 0 rows 2 images 1 ring -1"})
    EXPECT_THROW((void)parse_schedule(text), Error) << text;
}

// Where an H200 was faster with eight warps, and where it was not or they spill (decision 0197).
TEST(Rings, RunTheEpilogueBesideWhereThatIsFaster) {
  EpilogueNeeds n = needs(2);
  n.boxes = true;
  const auto first = [&](Stencil::Axis axis, std::int64_t images, std::int64_t channels) {
    n.stencil = {axis, axis};
    return to_string(rank(n, images, axis.pixels * axis.pixels, channels, axis.taps * axis.taps, 132, true).front());
  };
  const std::string bands = "bands 256x32 sub 32x1 aux 0 rows 2 images 1 ";
  EXPECT_EQ(first({56, 7}, 128, 96), bands + "ring 14 beside");
  EXPECT_EQ(first({56, 3}, 32, 96), bands + "ring 12 beside");
  EXPECT_EQ(first({14, 7}, 32, 384), bands + "ring 40 beside");
  EXPECT_EQ(first({28, 7}, 64, 192), bands + "ring 21 beside");
  EXPECT_EQ(first({56, 3, 2}, 128, 96), bands + "ring 9");
  n.d_bytes_column = 4;
  EXPECT_EQ(first({14, 7}, 128, 384), bands + "ring 40");
  n.reduces = true;
  EXPECT_EQ(first({56, 7}, 128, 96), bands + "ring 14");
  n.reduces = false, n.d_bytes_column = n.aux_bytes_column = 2;
  EXPECT_EQ(first({56, 7}, 128, 96), "bands 256x32 sub 32x1 aux 2 rows 2 images 1 ring 14 beside");
  EXPECT_EQ(first({14, 7}, 128, 384), "bands 256x32 sub 32x1 aux 4 rows 2 images 1 ring 20");
}

// A few rows of more tiles than two waves go together where B stays in L2; more rows, or shorter ones, two by two.
TEST(Schedule, WalksAFewLongRowsTogether) {
  const auto chosen = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    return rank(needs(2), 1, m, n, k, 132).front();
  };
  const Schedule few = chosen(1000, 27776, 256);
  EXPECT_EQ(few.raster, tiles_down(few, needs(2), 1000)) << to_string(few);
  EXPECT_GT(few.raster, 2) << to_string(few);
  EXPECT_EQ(chosen(1000, 2048, 256).raster, 2);
  EXPECT_EQ(chosen(16384, 4096, 1024).raster, 2);
}

// 54 blocks of columns: five blocks of each would be more than run at once.
TEST(Rings, AllRunAtOnce) {
  EpilogueNeeds n = needs(2);
  n.boxes = true;
  n.stencil = {{21, 5}, {21, 5}};
  const Schedule s = parse_schedule("bands 256x32 sub 32x1 aux 0 rows 2 images 1 ring 32 beside");
  ASSERT_EQ(illegal(s, n), "");
  EXPECT_EQ(blocks(s, n, tiles_of(s, n, 16, 21 * 21, 1704), 132), 4 * 54);
  EXPECT_EQ(blocks(s, n, tiles_of(s, n, 16, 21 * 21, 96), 132), 16 * 2 * 3);  // a tile each
  EXPECT_EQ(blocks(s, n, tiles_of(s, n, 128, 21 * 21, 96), 132), 88 * 3);
}

// Where an H200 was faster, by the size of the launch and by how strips divide a row (decision 0256).
TEST(DirectStencils, AreChosenByTheirStrips) {
  EpilogueNeeds n = needs(2);
  n.boxes = n.any_rows = true, n.aux_bytes_column = 0;
  const auto first = [&](int pixels, int taps, std::int64_t images, std::int64_t channels) {
    const Stencil::Axis axis = {pixels, taps, 1, 1, pixels, -(taps / 2)};
    n.stencil = {axis, axis};
    return to_string(rank(n, images, pixels * pixels, channels, taps * taps, 132, true).front());
  };
  EXPECT_EQ(first(21, 5, 16, 1704), "direct 4x64 strip 7x3");
  EXPECT_EQ(first(7, 7, 8, 768), "direct 4x64 strip 7x1");
  EXPECT_EQ(first(7, 7, 16, 768), "direct 16x16 strip 7x4 images 8");
  EXPECT_EQ(first(7, 7, 32, 768), "direct 16x16 strip 7x4 images 8");
  EXPECT_EQ(first(7, 7, 16, 1264), "direct 16x16 strip 7x4 images 8");
  EXPECT_EQ(first(7, 7, 128, 768), "direct 4x64 strip 7x7");
  for (const int pixels : {56, 28, 14})
    EXPECT_EQ(first(pixels, 7, 64, 5376 / pixels).substr(0, 12), "bands 256x32") << pixels;
  // Whatever strips are, there is one schedule of them, whose subtiles are what they are.
  for (const Schedule& s : rank(n, 64, 14 * 14, 672, 25, 132, true))
    EXPECT_TRUE(!s.strips || s.sub_n == direct(s).sub_n) << to_string(s);
}

TEST(DirectStencils, SayWhatIsWrong) {
  EpilogueNeeds n = needs(2);
  const auto refused = [&](const char* text) { return illegal(parse_schedule(text), n); };
  EXPECT_EQ(refused("direct 4x96 strip 4x8"),
            "a stencil is for convolutions of one channel a group, their channels side by side");
  n.stencil = {{56, 3}, {56, 3}};
  EXPECT_EQ(refused("direct 4x96 strip 4x8"), "the epilogue reduces, asks for rows, draws, or moves what no map does");
  n.any_rows = true;
  for (const char* const text : {"direct 4x96 strip 4x8", "direct 8x32 strip 1x1", "direct 2x64 strip 8x8"})
    EXPECT_EQ(refused(text), "");
  for (const char* const text :
       {"direct 4x96 strip 4x17", "direct 4x96 strip 4x0", "direct 1x64 strip 999999999x999999999"})
    EXPECT_EQ(refused(text), "a strip has 1 to 64 pixels");
  for (const char* const text : {"direct 4x24 strip 4x8", "direct 4x72 strip 4x8", "direct 4x272 strip 4x8"})
    EXPECT_EQ(refused(text), "a block has 32 to 256 columns, or 16 of whole images, a multiple of 16");
  for (const char* const text : {"direct 1x96 strip 4x8", "direct 32x96 strip 4x8", "direct 999999999x64 strip 4x8"})
    EXPECT_EQ(refused(text), "a block has a thread for two columns of a strip, whole warps of them, at most 1024");
  EXPECT_EQ(refused("direct 16x128 strip 8x8"), "its threads take more registers than there are");
  n.stencil.y.up = 2;
  EXPECT_EQ(refused("direct 4x96 strip 4x8"), "");
  EXPECT_EQ(refused("direct 4x96 strip 4x7"), "a strip of a strided gradient has whole strides of pixels");
  EXPECT_EQ(refused("stencil 64x32 sub 32x1 aux 0 strip 4x2"),
            "a strided gradient's pixels are read straight from memory");
  n.stencil.y.up = 1;
  n.stencil.narrow = true;
  EXPECT_EQ(refused("direct 4x96 strip 4x8"), "");
  EXPECT_EQ(refused("stencil 64x32 sub 32x1 aux 0 strip 4x2"),
            "channels that are no whole 16 bytes are read straight from memory");
  n.element_bytes = 4;
  EXPECT_EQ(refused("direct 4x96 strip 4x8"), "pixels are read as two channels of 16 bits");
  for (const char* const text :
       {"direct 4x96 strip 4x8x", "direct 4x96", "direct 0x96 strip 4x8", "direct 4x96 strip 0x8",
        "direct 4x96 strip 4x8 images", "direct 4x96 strip 4x8 images 0", "direct 4x96 strip 4x8 images 2 "})
    EXPECT_THROW((void)parse_schedule(text), Error) << text;
}

TEST(DirectStencils, MultiplyWholeImages) {
  EpilogueNeeds n = needs(2);
  n.any_rows = true;
  n.stencil = {{8, 7, 1, 1, 8, -3}, {7, 7, 1, 1, 7, -3}};
  const auto refused = [&](const char* text) { return illegal(parse_schedule(text), n); };
  const char* const other = "images are multiplied by sm_90a, without strides, of channels of whole 16 bytes";
  EXPECT_EQ(refused("direct 8x32 strip 7x8 images 8"), other);
  n.boxes = true;
  for (const char* const text :
       {"direct 8x32 strip 7x8 images 8", "direct 16x48 strip 7x5 images 8", "direct 16x32 strip 7x8 images 16"})
    EXPECT_EQ(refused(text), "");
  EXPECT_EQ(refused("direct 4x32 strip 7x8 images 4"), "eight images are multiplied at a time");
  EXPECT_EQ(refused("direct 8x32 strip 7x5 images 8"), "a block has all strips of its images");
  EXPECT_EQ(refused("direct 8x128 strip 7x8 images 8"), "its images take more shared memory than there is");
  for (Stencil::Axis* const axis : {&n.stencil.x, &n.stencil.y}) {
    const Stencil::Axis before = *axis;
    axis->extent = 9;
    EXPECT_EQ(refused("direct 8x32 strip 7x8 images 8"), "images that are multiplied have at most 8 x 8 pixels");
    *axis = before, axis->reach = 2;
    EXPECT_EQ(refused("direct 8x32 strip 7x8 images 8"), other);
    *axis = before;
  }
  n.stencil.narrow = true;
  EXPECT_EQ(refused("direct 8x32 strip 7x8 images 8"), other);
}

TEST(FilterTiles, SayWhatIsWrong) {
  const Stencil of{{56, 7, 1, 1}, {56, 7, 1, 1}};
  const auto refused = [&](const char* text) {
    std::string why;
    EXPECT_FALSE(filter_tile(parse_schedule(text), of, 2, 115712, why)) << text;
    return why;
  };
  EXPECT_EQ(refused("stencil 448x48 sub 32x1 aux 0 strip 14x2"), "a stencil's tile has 32, 64 or 128 columns");
  EXPECT_EQ(refused("stencil 0x32 sub 32x1 aux 0 strip 14x2"), "a tile and a strip have a pixel at least");
  EXPECT_EQ(refused("stencil 448x32 sub 32x1 aux 0 strip 14x4"),
            "sums of all taps, and a strip, take more than 104 registers");
  EXPECT_EQ(refused("stencil 3136x64 sub 32x1 aux 0 strip 14x2"),
            "it needs 893440 bytes of shared memory, more than 115712");
}

}  // namespace
}  // namespace postlude::inline v0::cuda
