// Where an epilogue's code stands once, in a loop over subtiles (decisions 0110, 0116, 0292, 0294, 0305 and 0308).
#include "cuda/decided.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace postlude::inline v0::cuda {
namespace {

// Beside more than 128 accumulators a long epilogue loops over subtiles of 32 columns, a short one behind a long K.
TEST(Looped, BesideManyAccumulators) {
  const auto defines = [](const char* what, const std::string& body, const std::string& schedule, std::int64_t k) {
    const std::string tile = body.find("+ r") == body.npos ? "" : ", r: tile[bf16]";
    const Subject s = subject("def f(acc" + tile + "):\n" + body + "    return D\n", "sm_90a", schedule);
    return decided(s, {1, 4096, 4096, k}).kernels.front().source->find(what) != std::string::npos;
  };
  const auto looped = [&](const std::string& body, const std::string& schedule, std::int64_t k) {
    return defines("#define ROLLED 1\n", body, schedule, k);
  };
  const std::string many = "pingpong 128x192x4 sub 32x2 aux 0 raster 12",
                    wide = "pingpong 128x192x4 sub 64x2 aux 0 raster 12",
                    few = "pingpong 128x128x5 sub 32x2 aux 0 raster 12";
  const std::string longest = "    x = 30 * tanh(acc / 30)\n    D: bf16 = 30 * tanh(x / 20)\n",
                    silu = "    D: bf16 = silu(acc)\n";
  for (const std::int64_t k : {256, 4096}) {
    EXPECT_TRUE(looped(longest, many, k) && looped(longest, few, k)) << k;
    EXPECT_FALSE(looped(longest, wide, k)) << k;
    EXPECT_EQ(looped(silu, many, k), k == 4096);
    EXPECT_FALSE(looped(silu, wide, k) || looped(silu, few, k)) << k;
    EXPECT_FALSE(looped("    D: bf16 = acc\n", many, k)) << k;
  }
  const std::string drawn = "    D: bf16 = where(random(seed=1) < 0.9, acc / 0.9, 0)\n";
  EXPECT_TRUE(looped(drawn, "turned pingpong 128x176x5 sub 16x4 aux 0 raster 12", 4096));
  EXPECT_FALSE(looped(drawn, many, 4096));
  const std::string softmax = "    e = exp(acc - max(acc, axis=1))\n    D: bf16 = e / sum(e, axis=1)\n";
  EXPECT_TRUE(looped(softmax, many, 4096));
  const std::string held = "pingpong 128x192x4 sub 64x2 aux 0 raster 6";
  EXPECT_TRUE(looped(softmax, held, 6144));
  EXPECT_FALSE(looped(softmax, held, 4096) || looped(softmax, wide, 6144));
  EXPECT_FALSE(looped(softmax, many, 256) || looped(softmax, wide, 4096));
  const std::string residual = "    D: bf16 = silu(acc) + r\n", loads = "pingpong 128x192x4 sub 32x2 aux 1 raster 12";
  const std::string dropped = "    D: bf16 = where(random(seed=1) < 0.9, acc / 0.9, 0) + r\n";
  EXPECT_TRUE(looped(dropped, loads, 4096));
  EXPECT_FALSE(looped(dropped, loads, 2048));
  EXPECT_TRUE(looped(residual, loads, 8192) && looped(residual, loads + " split 2 by memory at end", 8192));
  EXPECT_TRUE(looped(residual, "turned pingpong 128x176x5 sub 16x4 aux 4 raster 12", 8192));
  EXPECT_FALSE(looped(silu, "turned pingpong 128x176x5 sub 16x4 aux 0 raster 12", 8192));
  EXPECT_FALSE(looped(residual, loads, 4096) || looped(residual, loads + " split 8 by memory at end", 8192));
}

// Behind a long K sums loop in subtiles of any width, groups that are held, and short code with tile operands, if the
// main loop makes little of what they spill.
TEST(Looped, BehindALongK) {
  const auto looped = [](const std::string& body, const std::string& schedule, std::int64_t k) {
    const Subject s = subject("def f(acc, r: tile[bf16], bias: row[bf16], b: row[f32]):\n" + body, "sm_90a", schedule);
    return decided(s, {1, 4096, 4096, k}).kernels.front().source->find("#define ROLLED 1\n") != std::string::npos;
  };
  const std::string many = "pingpong 128x192x5 sub 32x2 aux 0 raster 12", split = " split 2 by memory at end",
                    wide = "pingpong 128x192x5 sub 64x2 aux 0 raster 12",
                    turned = "turned pingpong 128x176x5 sub 16x4 aux 0 raster 12",
                    loads = "pingpong 128x192x4 sub 32x2 aux 4 raster 12";
  const std::string sum = "    D: f32 = sum(acc, axis=1)\n    return D\n";
  EXPECT_TRUE(looped(sum, many, 5120) && looped(sum, many + split, 5120) && looped(sum, turned, 5120));
  EXPECT_FALSE(looped(sum, many, 4096) || looped(sum, many + " split 3 by memory at end", 5120) ||
               looped(sum, turned, 4096));
  EXPECT_TRUE(looped(sum, turned + " split 4 by memory at end", 5120));
  EXPECT_FALSE(looped("    D: bf16 = acc\n    return D\n", many, 16384));
  EXPECT_FALSE(looped(sum, "turned cooperative 256x144x4 sub 16x2 aux 0 raster 2", 16384))
      << "nothing hides the rounds";
  EXPECT_TRUE(looped(sum, wide, 7680));
  EXPECT_FALSE(looped(sum, wide, 7168) || looped(sum, wide + split, 7680));
  EXPECT_FALSE(looped("    D: f32 = sum(acc + bias, axis=1)\n    return D\n", wide, 16384));
  const std::string groups =
      "    scale: f32 = max(abs(acc), axis=1, group=64) / 448\n"
      "    D: e4m3 = acc / repeat(scale, 64, axis=1)\n    return scale, D\n";
  EXPECT_TRUE(looped(groups, wide, 5120) && looped(groups, wide + split, 5120));
  EXPECT_FALSE(looped(groups, wide, 4096) || looped(groups, "pingpong 128x128x5 sub 64x2 aux 0 raster 12", 5120));
  EXPECT_TRUE(looped("    D: bf16 = acc + r\n    return D\n", loads, 7168));
  const std::string norm =
      "    c = x - mean(x, axis=1)\n    D: bf16 = c * rsqrt(mean(c * c, axis=1) + 1e-5)\n"
      "    return D\n";
  EXPECT_FALSE(looped("    x = acc + r\n" + norm, loads, 16384) ||
               looped("    x = acc + bias + r\n" + norm, loads, 16384));
  EXPECT_TRUE(looped("    x = acc + r\n" + norm, "turned pingpong 128x176x4 sub 16x4 aux 4 raster 12", 5120));
  const std::string product = "    D: f32 = sum(r * (acc + b), axis=0)\n    E: bf16 = acc + b\n    return D, E\n";
  EXPECT_TRUE(looped(product, loads, 7168));
  EXPECT_FALSE(looped(product, loads, 7040));
}

// Long code of groups that a subtile has whole, beside 128 accumulators (decision 0287).
TEST(Looped, GroupsOfASubtile) {
  const auto looped = [](int group, const std::string& schedule, std::int64_t k,
                         const std::string& of = "tanh(acc / 30)") {
    const std::string g = std::to_string(group);
    const Subject s = subject("def f(acc):\n    x = 30 * " + of + "\n    s: f32 = max(abs(x), axis=1, group=" + g +
                                  ") / 448\n    D: e4m3 = x / repeat(s, " + g + ")\n    return s, D\n",
                              "sm_90a", schedule);
    return decided(s, {1, 4096, 4096, k}).kernels.front().source->find("#define ROLLED 1\n") != std::string::npos;
  };
  const std::string few = "pingpong 128x128x5 sub 64x2 aux 0 raster 2";
  EXPECT_TRUE(looped(64, few, 448) && looped(32, "pingpong 128x128x6 sub 32x2 aux 0 raster 2", 1984));
  EXPECT_FALSE(looped(64, few, 192) || looped(128, few, 448) || looped(64, few, 448, "acc"));
  EXPECT_FALSE(looped(64, "pingpong 64x128x8 sub 64x2 aux 0 raster 2", 448));
}

// Beside 96 accumulators and more a reduction of what is nearly long loops behind a long K.
TEST(Looped, ReductionsBesideFew) {
  const auto looped = [](const std::string& body, const std::string& schedule, std::int64_t k) {
    const Subject s = subject("def f(acc, label: col[i64]):\n" + body, "sm_90a", schedule);
    return decided(s, {1, 4096, 4096, k}).kernels.front().source->find("#define ROLLED 1\n") != std::string::npos;
  };
  const std::string few = "pingpong 128x128x5 sub 64x2 aux 0 raster 12",
                    loss =
                        "    hit = sum(where(n_index() == label, acc, 0), axis=1)\n"
                        "    loss: f32 = logsumexp(acc, axis=1) - hit\n    return loss\n";
  EXPECT_TRUE(looped(loss, few, 4096) && looped(loss, "cooperative 128x192x4 sub 32x2 aux 0 raster 12", 4096));
  EXPECT_FALSE(looped(loss, few, 3072) || looped(loss, "pingpong 64x128x8 sub 64x2 aux 0 raster 12", 4096));
  EXPECT_FALSE(looped(loss, "turned cooperative 128x208x4 sub 16x4 aux 0 raster 2", 4096));
  EXPECT_FALSE(looped("    loss: f32 = sum(silu(acc), axis=1)\n    return loss\n", few, 4096));
}

// Behind a short K what no more than 128 accumulators would make longer than 32 KB loops over wide subtiles.
TEST(Looped, WhereInstructionsWouldBeWaitedFor) {
  const auto defines = [](const char* what, const std::string& body, const std::string& schedule, std::int64_t k) {
    const std::string tile = body.find("+ r") == body.npos ? "" : ", r: tile[bf16]";
    const Subject s = subject("def f(acc" + tile + "):\n" + body + "    return D\n", "sm_90a", schedule);
    return decided(s, {1, 4096, 4096, k}).kernels.front().source->find(what) != std::string::npos;
  };
  const auto looped = [&](const std::string& body, const std::string& schedule, std::int64_t k) {
    return defines("#define ROLLED 1\n", body, schedule, k);
  };
  const std::string silu = "    D: bf16 = silu(acc)\n", wide = "pingpong 128x128x5 sub 64x2 aux 0 raster 12";
  EXPECT_TRUE(looped(silu, wide, 256) && looped(silu, wide, 1024));
  EXPECT_FALSE(looped(silu, wide, 1032) || looped("    D: bf16 = acc\n", wide, 256));
  const std::string sum = "    D: f32 = sum(silu(acc), axis=1)\n";
  EXPECT_TRUE(looped(sum, wide, 512) && !looped(sum, wide, 520));
  EXPECT_FALSE(looped(silu, "pingpong 128x128x5 sub 32x2 aux 0 raster 12", 256));
  EXPECT_FALSE(looped(silu, "pingpong 64x128x8 sub 64x2 aux 0 raster 12", 256));
  const std::string residual = "    D: bf16 = silu(acc) + r\n", beside = "pingpong 128x128x5 sub 64x2 aux 2 raster 12";
  EXPECT_TRUE(looped(residual, beside, 256) && !looped(residual, beside, 1032));
  EXPECT_FALSE(looped("    a, b = chunk(acc, 2)\n    D: bf16 = silu(a) * b + r\n", beside, 256));
  const auto twice = [&](const std::string& schedule) {
    return defines("#define GROUPS_AT_ONCE 2\n", residual, schedule, 256);
  };
  EXPECT_TRUE(twice("pingpong 64x256x4 sub 64x2 aux 2 raster 12") && !twice(beside));
  EXPECT_FALSE(looped("    D: bf16 = acc * rsqrt(sum(acc * acc, axis=1))\n", wide, 256));
}

// Wide subtiles come before a fifth stage there.
TEST(Looped, WideSubtilesBehindAShortK) {
  const Subject s = subject("def f(acc, r: tile[bf16]):\n    D: bf16 = silu(acc) + r\n    return D\n", "sm_90a");
  const auto first = [&](std::int64_t k) { return to_string(decided(s, {1, 6481, 14336, k}).chosen()->schedule); };
  EXPECT_EQ(first(256), "pingpong 128x128x5 sub 64x2 aux 2 raster 2");
  EXPECT_EQ(first(512), "pingpong 128x128x5 sub 64x2 aux 2 raster 2");
  EXPECT_NE(first(520).find(" sub 32x2 "), std::string::npos) << first(520);
}

// What is foretold to spill stays unrolled, where a smaller tile would be taken otherwise.
TEST(Looped, UnlessItSpillsThen) {
  const Subject s = subject(
      "def f(acc, bias: row[bf16], r: tile[bf16], gamma: row[bf16], beta: row[bf16]):\n    x = acc * 0.5 + bias + r\n"
      "    c = x - mean(x, axis=1)\n    D: bf16 = c * rsqrt(mean(c * c, axis=1) + 1e-5) * gamma + beta\n    return D\n",
      "sm_90a");
  const Decision d = decided(s, {1, 913, 25536, 8192});
  EXPECT_EQ(d.describe().substr(0, 16), "pingpong 192x128");
  EXPECT_NE(d.kernels.front().source->find("#define ROLLED 0\n"), std::string::npos);
}

// Beside no more what spills is tried again with its code once, before a smaller tile.
TEST(Looped, WhereFewAccumulatorsSpill) {
  const Subject s = subject(
      "def f(acc, label: col[i64]):\n    D: bf16 = acc\n    hit = sum(where(n_index() == label, acc, 0), axis=1)\n"
      "    loss: f32 = logsumexp(acc, axis=1) - hit\n    return D, loss\n",
      "sm_90a");
  const Layout layout = usual_layout(s.problem, *s.program, {1, 4096, 4096, 1280});
  int asked = 0;
  const Decision d =
      decide(s, layout, [&](const auto&) { return std::string(++asked == 1 ? "it spills 96 bytes" : ""); });
  Schedule first = d.considered.front().schedule;
  EXPECT_FALSE(first.looped);
  first.looped = true;
  EXPECT_EQ(d.chosen()->schedule, first) << d.describe();
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace postlude::inline v0::cuda
