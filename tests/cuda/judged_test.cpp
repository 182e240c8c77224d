// What becomes of schedules that a compiler, or what it is foretold to say, rejects.
#include "cuda/decided.h"

#include "cuda/run/nvrtc.h"

#include <gtest/gtest.h>

#include <regex>

namespace postlude::inline v0::cuda {
namespace {

// Judged sources are rejected in order, and the next is taken that has fewer accumulators or narrower subtiles.
TEST(Decision, TakesTheFirstThatIsNotRejected) {
  const Subject s = subject(bias_relu, "sm_90a");
  std::size_t asked = 0;
  const Layout layout = usual_layout(s.problem, *s.program, {1, 4096, 4096, 4096});
  const Decision d =
      decide(s, layout, [&](const auto&) { return ++asked < 3 ? std::string("it spills") : std::string(); });
  using Verdict = Considered::Verdict;
  std::size_t spill = 0, at = 0;
  for (; at < d.considered.size() && d.considered[at].verdict == Verdict::rejected; ++at) {
    const bool judged = d.considered[at].reason == "it spills";
    spill += judged;
    EXPECT_TRUE(judged || std::regex_match(d.considered[at].reason, std::regex("(pingpong|cooperative) [0-9x]+ spilt")))
        << d.considered[at].reason;
  }
  EXPECT_EQ(asked, 3u);
  EXPECT_EQ(spill, 2u);
  EXPECT_GT(at, spill);  // what has as many is not compiled
  ASSERT_LT(at + 1, d.considered.size());
  EXPECT_EQ(d.considered[at].verdict, Verdict::chosen);
  EXPECT_EQ(d.considered[at + 1].verdict, Verdict::next);
  EXPECT_NE(d.describe().find("; not " + to_string(d.considered[0].schedule) + ": it spills"), std::string::npos);
  asked = 0;
  const Decision none = decide(s, layout, [&](const auto& source) {
    const bool fused = source->find("= pack_bf16(v") != std::string::npos;  // the accumulator alone is stored as f32
    asked += fused;
    return fused ? std::string("it spills") : std::string();
  });
  EXPECT_FALSE(none.fused);
  EXPECT_EQ(none.not_fused.size(), d.considered.size());
  EXPECT_GT(asked, 1u);
  EXPECT_LT(asked, none.not_fused.size() / 2);
  EXPECT_NE(none.describe().find("; epilogue from memory: no schedule of the product with it compiles well; "),
            std::string::npos)
      << none.describe();
}

// Narrower subtiles of the same tile are tried behind a small spill, and not behind a large one.
TEST(Decision, SkipsNarrowSubtilesBehindALargeSpill) {
  const Subject s = subject(bias_relu, "sm_90a");
  const Layout layout = usual_layout(s.problem, *s.program, {1, 4096, 4096, 1024});
  for (const std::string& spills : {std::string("it spills 65 bytes"), std::string("it spills 600 bytes")}) {
    std::size_t asked = 0;
    const Decision d = decide(s, layout, [&](const auto&) { return ++asked == 1 ? spills : std::string(); });
    ASSERT_GE(d.considered.size(), 2u);
    Schedule narrow = d.considered[0].schedule;
    ASSERT_EQ(narrow.sub_n, 64);
    narrow.sub_n = 32;
    EXPECT_EQ(d.considered[1].schedule, narrow);
    EXPECT_EQ(d.considered[1].verdict == Considered::Verdict::chosen, spills == "it spills 65 bytes")
        << d.considered[1].reason;
    EXPECT_EQ(asked, 2u);
  }
}

// A main loop of 160 blocks of K makes nothing of 640 bytes, foretold or not.
TEST(Decision, TakesWhatSpillsLittleForItsMainLoop) {
  const std::string text =
      "def f(acc, bias: row[f32], gamma: row[f32]):\n    x = acc + bias\n    c = x - mean(x, axis=1)\n"
      "    D: bf16 = c * rsqrt(mean(c * c, axis=1) + 1e-5) * gamma\n    return D\n";
  const Subject s = subject(text, "sm_90a");
  const auto first = [&](std::int64_t k, const std::string& spills) {
    const Layout layout = usual_layout(s.problem, *s.program, {1, 4096, 29632, k});
    std::size_t asked = 0;
    const Decision d = decide(s, layout, [&](const auto&) { return ++asked == 1 ? spills : std::string(); });
    return std::pair{d.considered.front().verdict == Considered::Verdict::chosen, asked};
  };
  EXPECT_EQ(first(10240, "it spills 640 bytes"), std::pair(true, std::size_t{1}));
  EXPECT_EQ(first(10240, "it spills 641 bytes"), std::pair(false, std::size_t{2}));
  EXPECT_EQ(first(10240, "it spills"), std::pair(false, std::size_t{2}));
  EXPECT_FALSE(first(2048, "").first);  // foretold
}

// What is held for its rows and spills is tried again with its code once, before another tile; a long one is at once.
TEST(Decision, LoopsWhereWhatIsHeldSpills) {
  const std::string softmax = "    e = exp(x - max(x, axis=1))\n    D: bf16 = e / sum(e, axis=1)\n    return D\n";
  const auto looped = [&](const std::string& before, bool spills) {
    const Subject s = subject("def f(acc):\n    x = " + before + "\n" + softmax, "sm_90a");
    const Layout layout = usual_layout(s.problem, *s.program, {1, 4096, 4096, 4096});
    std::vector<bool> asked;
    const Decision d = decide(s, layout, [&](const auto& source) {
      asked.push_back(source->find("#define ROLLED 1\n") != std::string::npos);
      return spills && asked.size() == 1 ? std::string("it spills") : std::string();
    });
    EXPECT_EQ(d.phases.back(), Where::held);
    Schedule first = d.considered.front().schedule;
    first.looped = d.chosen()->schedule.looped;
    EXPECT_EQ(d.chosen()->schedule == first, asked.front() ? !spills : true);
    return asked;
  };
  EXPECT_EQ(looped("acc", false), std::vector<bool>({false}));
  EXPECT_EQ(looped("acc", true), std::vector<bool>({false, true}));
  EXPECT_EQ(looped("30 * tanh(acc / 30)", false), std::vector<bool>({true}));
  EXPECT_EQ(looped("30 * tanh(acc / 30)", true), std::vector<bool>({true, true})) << "another tile, looped as well";
}

// What is foretold to spill is not compiled, and spills where it is.
TEST(Decision, DoesNotCompileWhatIsForetoldToSpill) {
  struct Case {
    const char* text;
    Shape shape;
    std::size_t foretold;
  };
  const Case cases[] = {
      {"def f(acc, bias: row[f32]):\n    x = silu(acc * 0.125 + bias)\n"
       "    scale: f32 = max(max(abs(x), axis=1), 0.0001) / 127\n    D: s8 = x / scale\n    return scale, D\n",
       {1, 13874, 5888, 2048},
       3},
      {"def f(acc):\n    D: bf16 = where(random(seed=1) < 0.9, acc / 0.9, 0)\n    return D\n",
       {1, 3391, 18432, 3072},
       1},
      {"def f(acc, scale: row[f32], bias: row[f32]):\n"
       "    index: i64 = argmax(acc * scale + bias, axis=1)\n    return index\n",
       {1, 9663, 27024, 1088},
       1},
      {"def f(acc, sa: col[f32], sb: row[f32], bias: row[bf16], gamma: row[bf16], beta: row[bf16]):\n"
       "    x = acc * sa * sb + bias\n    c = x - mean(x, axis=1)\n"
       "    D: bf16 = c * rsqrt(mean(c * c, axis=1) + 1e-5) * gamma + beta\n    return D\n",
       {1, 3763, 984, 1280},
       1},
      {"def f(acc, r: tile[bf16], gamma: row[bf16], beta: row[bf16]):\n"  // threads read r
       "    x = acc * 0.5 + r\n    c = x - mean(x, axis=1)\n"
       "    D: bf16 = c * rsqrt(mean(c * c, axis=1) + 1e-5) * gamma + beta\n    return D\n",
       {1, 1093, 7981, 256},
       1},
      {"def f(acc, bias: row[f32], gamma: row[bf16]):\n    x = acc + bias\n"
       "    D: bf16 = x * rsqrt(mean(x * x, axis=1) + 1e-5) * gamma\n    return D\n",
       {1, 3000, 6424, 768},
       1}};
  for (const auto& [text, shape, foretold] : cases) {
    const Subject s = subject(text, "sm_90a");
    int asked = 0;
    const Decision d = decide(s, usual_layout(s.problem, *s.program, shape), [&](const auto&) {
      ++asked;
      return std::string();
    });
    EXPECT_EQ(asked, 1) << d.describe();
    std::size_t found = 0;
    for (const Considered& one : d.considered) {
      if (one.reason != "it would spill") continue;
      ++found;
      if (compiler_version().empty()) continue;
      const Decision its = decided(subject(text, "sm_90a", to_string(one.schedule)), shape);
      EXPECT_GT(compile(*its.kernels.front().source, "sm_90a").spill_bytes, 16) << to_string(one.schedule);
    }
    EXPECT_EQ(found, foretold) << d.describe();
  }
}

// What is foretold to spill hundreds of bytes is compiled only behind a main loop that makes little of them, and
// narrower subtiles of it are not tried.
TEST(Decision, ForetellsHundredsOfBytes) {
  const char* const masked =
      "def f(acc, keep: tile[bool]):\n    x = where(keep, acc, -10000)\n"
      "    D: bf16 = x - logsumexp(x, axis=1)\n    return D\n";
  const char* const loss =
      "def f(acc, bias: row[bf16], label: col[i64]):\n    x = acc + bias\n"
      "    hit = sum(where(n_index() == label, x, 0), axis=1)\n"
      "    loss: f32 = logsumexp(x, axis=1) - hit\n    return loss\n";
  const char* const softmax =
      "def f(acc, bias: row[bf16]):\n    x = acc + bias\n    e = exp(x - max(x, axis=1))\n"
      "    D: bf16 = e / sum(e, axis=1)\n    return D\n";
  const char* const moments =  // of columns: more than any main loop makes little of
      "def f(acc, bias: row[f32]):\n    x = acc + bias\n    D: bf16 = x\n    mu: f32 = mean(x, axis=0)\n"
      "    v: f32 = var(x, axis=0)\n    return D, mu, v\n";
  for (const auto& [text, shape] : {std::pair{masked, Shape{1, 4314, 14920, 2304}},
                                    {loss, Shape{1, 4096, 24576, 8192}},
                                    {softmax, Shape{1, 9754, 14337, 8192}},
                                    {moments, Shape{1, 14643, 6248, 17856}}}) {
    const Subject s = subject(text, "sm_90a");
    const Decision d = decided(s, shape);
    ASSERT_GE(d.considered.size(), 2u);
    const Considered &first = d.considered[0], &narrow = d.considered[1];
    EXPECT_EQ(first.reason, "it would spill hundreds of bytes") << d.describe();
    EXPECT_EQ(narrow.schedule.sub_n, 32);
    EXPECT_TRUE(narrow.reason.ends_with(" would spill")) << d.describe();
    if (!compiler_version().empty()) {
      const Decision its = decided(subject(text, "sm_90a", to_string(first.schedule)), shape);
      EXPECT_GE(compile(*its.kernels.front().source, "sm_90a").spill_bytes, 800) << to_string(first.schedule);
    }
    for (const Considered& one : decided(s, {1, shape.m, shape.n, 16384}).considered)
      EXPECT_TRUE(text == moments || one.schedule.split > 1 || one.reason != first.reason) << to_string(one.schedule);
  }
}

// Beside lanes that shift rows of A and B, parts that lie in memory are foretold to spill in narrow held tiles, and
// others of the same tile are tried.
TEST(Decision, ForetellsShiftedPartsThatSpill) {
  const char* const text = "def f(acc):\n    D: bf16 = acc - logsumexp(acc, axis=1)\n    return D\n";
  const auto by = [&](const char* schedule, const Judge& judge) {
    const Subject s = subject(text, "sm_90a", schedule);
    Layout layout = usual_layout(s.problem, *s.program, {1, 53, 2731, 7168});
    layout.b.strides = {0, 2731, 1};
    return decide(s, layout, judge);
  };
  int asked = 0;
  const Decision d = by("", [&](const auto&) { return ++asked, std::string(); });
  EXPECT_EQ(asked, 1) << d.describe();
  EXPECT_EQ(d.considered[0].reason, "it would spill") << d.describe();
  EXPECT_TRUE(d.considered[0].schedule.by_memory && d.considered[0].schedule.shifted) << d.describe();
  EXPECT_NE(d.describe().find("held for its rows' statistics"), std::string::npos) << d.describe();
  if (compiler_version().empty()) return;
  const auto spilt = [&](const Schedule& schedule) {
    const Decision its = by(to_string(schedule).c_str(), [](const auto&) { return std::string(); });
    return compile(*its.kernels.back().source, "sm_90a").spill_bytes;
  };
  EXPECT_GT(spilt(d.considered[0].schedule), 50);
  EXPECT_LE(spilt(d.chosen()->schedule), 16);
}

// What is next is compiled beside what is held and reads ahead, from 96 accumulators on (24 bytes of this one).
TEST(Decision, ExpectsHeldTilesToSpill) {
  const auto may = [](const std::string& x) {
    const Subject s = subject("def f(acc, bias: row[bf16], keep: row[bool]):\n    x = where(keep, " + x +
                                  ", -10000)\n    e = exp(x - max(x, axis=1))\n"
                                  "    D: bf16 = e / sum(e, axis=1)\n    return D\n",
                              "sm_90a", "pingpong 64x224x5 sub 32x2 aux 0 raster 2");
    return decided(s, {1, 7821, 1280, 256}).chosen()->may_spill;
  };
  EXPECT_TRUE(may("acc + bias"));
  EXPECT_FALSE(may("acc"));
}

}  // namespace
}  // namespace postlude::inline v0::cuda
