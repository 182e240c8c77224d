// Random epilogues, heavy on what changes columns: whatever verifies must lower to a Program that
// checks, for every main loop and with outputs in place. tests/fuzz runs them; this is only about
// their form, and fast.
#include "helpers.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace postlude::inline v0::lower {
namespace {

class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed) : random_(seed) {}

  Graph make() {
    tiles_[1].push_back(g_.accumulator());
    for (int i = pick(3); i >= 0; --i) tiles_[1].push_back(g_.tile("t" + std::to_string(i), bf16));
    rows_.push_back(g_.row("r", f32));
    cols_.push_back(g_.col("c", bf16));
    for (int steps = 1 + pick(24); steps > 0; --steps) step();
    int outputs = 0;
    for (auto& [width, values] : tiles_)
      for (Value& v : values)
        if (pick(values.size() > 3 ? 4 : 2) == 0) g_.output("D" + std::to_string(outputs++), v, pick(2) ? bf16 : f32);
    for (Value& v : cols_)
      if (pick(3) == 0) g_.output("s" + std::to_string(outputs++), v + tiny());
    for (Value& v : rows_)
      if (pick(3) == 0) g_.output("q" + std::to_string(outputs++), v + tiny());
    if (outputs == 0) g_.output("D", tiles_[1].back() + tiny());
    return g_.finish();
  }

 private:
  std::mt19937_64 random_;
  GraphBuilder g_;
  std::map<int, std::vector<Value>> tiles_;  // by N / width
  std::vector<Value> rows_, cols_;

  int pick(std::size_t n) { return static_cast<int>(random_() % n); }
  Value tiny() { return 0.25; }

  std::pair<int, Value> tile() {
    auto it = tiles_.begin();
    std::advance(it, pick(tiles_.size()));
    return {it->first, it->second[pick(it->second.size())]};
  }
  Value col() { return cols_[pick(cols_.size())]; }

  void step() {
    auto [width, x] = tile();
    auto& peers = tiles_[width];
    const Value y = peers[pick(peers.size())];
    const std::int64_t group = pick(2) ? 0 : (std::int64_t{8} << pick(3));
    switch (pick(12)) {
      case 0: peers.push_back(x + y); break;
      case 1: peers.push_back(x * col()); break;
      case 2: peers.push_back(cast(relu(x), bf16)); break;
      case 3: peers.push_back(where(x > y, exp(x), y)); break;
      case 4:
      case 5: {
        if (width >= 8) break;
        for (const Value& piece : chunk(x, 2, group)) tiles_[width * 2].push_back(piece);
        break;
      }
      case 6:
      case 7: {
        if (width < 2) break;
        tiles_[width / 2].push_back(concat(std::vector<Value>{x, y}, group));
        break;
      }
      case 8: cols_.push_back(sum(x * y, Axis::n)); break;
      case 9: cols_.push_back(pick(2) ? logsumexp(x, Axis::n) : var(x, Axis::n)); break;
      case 10:
        if (width == 1) rows_.push_back(max(x, Axis::m));
        break;
      case 11: {
        const Value s = max(abs(x), Axis::n, {.group = 16});
        peers.push_back(x / repeat(s, 16));
        break;
      }
    }
  }
};

TEST(Random, WhateverVerifiesLowersToAProgramThatChecks) {
  int lowered_graphs = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    const Graph graph = RandomGraph(seed).make();
    const Problem problems[] = {bf16_gemm, Gemm{.a = bf16, .b = bf16, .batched = true}, Stream{bf16}};
    for (const Problem& problem : problems) {
      Options options;
      if (seed % 2) options.halves = [](std::int64_t group) { return group % 2 == 0; };
      const bool in_place = seed % 3 == 0;
      if (in_place) options.in_place = {{graph.outputs()[0].name, problem.get_if<Stream>() ? "X" : "t0"}};
      try {
        (void)lowered(graph, problem, options);
        ++lowered_graphs;
      } catch (const Error& e) {
        // In place of an operand that is read elsewhere, or (rarely) more pieces than are written
        // out.
        const bool expected = (e.code() == ErrorCode::overlap && in_place) || e.code() == ErrorCode::unsupported;
        ++refused;
        ASSERT_TRUE(expected) << "seed " << seed << ": " << e.what() << "\n" << graph.print();
      }
    }
  }
  EXPECT_GT(lowered_graphs, 2'700);
  EXPECT_LT(refused, 300);
}

}  // namespace
}  // namespace postlude::inline v0::lower
