// Groups of columns as problems of their own: of which epilogues they may be, and where they are chosen. No device is
// needed.
#include "cuda/decide/by_groups.h"
#include "cuda/decided.h"

#include <postlude/error.h>

#include <gtest/gtest.h>

#include <string>

namespace postlude::inline v0::cuda {
namespace {

std::string quantised(int group) {
  const std::string g = std::to_string(group);
  return "def f(acc, bias: row, r: tile):\n    x = acc + bias + r\n    s: f32 = max(max(abs(x), axis=1, group=" + g +
         "), 0.0001) / 127\n    D: s8 = x / repeat(s, " + g + ")\n    return s, D\n";
}

std::string described(const std::string& text, const Shape& shape, const std::string& arch = "sm_90a") {
  return decided(subject(text, arch), shape).describe();
}

// A group of two tiles, its rows' statistics, and where its operands lie.
TEST(ByGroups, AreBatches) {
  const Subject s = subject(quantised(256), "sm_90a", "by groups");
  const Layout layout = usual_layout(s.problem, *s.program, {1, 72, 1280, 960});
  std::string why;
  const std::optional<Restated> made = by_groups(s, layout, why);
  ASSERT_TRUE(made) << why;
  EXPECT_EQ(made->layout.shape.batch, 5);
  EXPECT_EQ(made->layout.shape.n, 256);
  const auto strides = [&](std::size_t i) { return made->layout.buffers[i].strides; };
  using Strides = std::array<std::int64_t, 3>;
  EXPECT_EQ(made->layout.a.strides, (Strides{0, 960, 1}));
  EXPECT_EQ(made->layout.b.strides, (Strides{256 * 960, 1, 960}));
  EXPECT_EQ(strides(0), (Strides{256, 0, 1})) << "the bias";
  EXPECT_EQ(strides(1), (Strides{256, 1280, 1})) << "a tile operand";
  EXPECT_EQ(strides(2), (Strides{1, 5, 0})) << "the scale, a column of each group";
  for (const lower::Phase& phase : made->subject.program->phases) EXPECT_TRUE(phase.batched);
  EXPECT_TRUE(decided(s, {1, 72, 1280, 960}).describe().starts_with("by groups "));
}

TEST(ByGroups, AreChosenWhereTilesThatHoldGroupsAreFew) {
  EXPECT_TRUE(described(quantised(256), {1, 72, 1280, 9680}).starts_with("by groups "));
  EXPECT_TRUE(described(quantised(128), {1, 4, 2048, 2208}).starts_with("by groups "));
  EXPECT_TRUE(described(quantised(512), {1, 2048, 4096, 1024}).starts_with("by groups ")) << "no tile holds them";
  EXPECT_FALSE(described(quantised(8), {1, 2048, 4096, 1024}).starts_with("by groups "))
      << "most of a tile would be empty";
  EXPECT_FALSE(described(quantised(256), {1, 4096, 4096, 1024}).starts_with("by groups "));
  EXPECT_FALSE(described(quantised(64), {1, 200, 4096, 1024}).starts_with("by groups "));
  EXPECT_FALSE(described(quantised(256), {2, 72, 1280, 9680}).starts_with("by groups ")) << "it is a batch";
}

// A stream's are rows of one pass, of whole eights of columns.
TEST(ByGroups, OfAStreamAreRows) {
  const auto passes = [](int group) {
    const std::string g = std::to_string(group);
    Subject s = subject("def f(acc):\n    s: f32 = max(max(abs(acc), axis=1, group=" + g +
                            "), 0.0001) / 127\n    D: s8 = acc / repeat(s, " + g + ")\n    return s, D\n",
                        "sm_80");
    s.problem = Stream{.x = DType::bf16};
    return decided(s, {1, 300, 10 * group, 0}).passes;
  };
  EXPECT_EQ(passes(32), 1);
  EXPECT_EQ(passes(200), 1);
  EXPECT_GT(passes(20), 1);
}

TEST(ByGroups, MayNotAskForTheirColumns) {
  const auto refused = [](const std::string& body, const std::string& operands = "") {
    const Subject s = subject("def f(acc" + operands + "):\n" + body, "sm_90a", "by groups");
    try {
      decided(s, {1, 72, 1024, 960});
    } catch (const Error& error) {
      return error.code() == ErrorCode::bad_schedule &&
             error.message().find("groups are no problems") != std::string::npos;
    }
    return false;
  };
  const std::string sums = "    s: f32 = sum(x, axis=1, group=64)\n    D: f32 = x - repeat(s, 64)\n    return D, s\n";
  EXPECT_FALSE(refused("    x = acc + m_index()\n" + sums));
  EXPECT_TRUE(refused("    x = acc + n_index()\n" + sums));
  EXPECT_TRUE(refused("    x = where(random(seed=1) < 0.5, acc, 0)\n" + sums));
  EXPECT_TRUE(refused("    x, y = chunk(acc, 2)\n" + sums));
  EXPECT_TRUE(refused("    x = acc - sum(acc, axis=1)\n" + sums)) << "of rows too";
  EXPECT_TRUE(refused("    D: f32 = acc\n    return D\n")) << "of no groups";
  EXPECT_TRUE(refused("    x = acc * repeat(t, 32)\n" + sums, ", t: tile[f32]")) << "in two sizes";
}

}  // namespace
}  // namespace postlude::inline v0::cuda
