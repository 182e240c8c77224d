// The images of a convolution are the rows of one product where they follow each other, and nowhere else.
#include "cpu/decide/fold.h"

#include "lower/lower.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <gtest/gtest.h>

namespace postlude::inline v0::cpu {
namespace {

constexpr std::size_t bias = 0, residual = 1, output = 2;  // buffers of the Program
constexpr std::int64_t columns = 7, depth = 8;

// A convolution's product, and D = acc + bias + residual behind it.
class Fold : public testing::Test {
 protected:
  Fold() {
    const Problem problem = Gemm{.batched = true};
    const Graph graph =
        parse("def f(acc, bias: row, residual: tile):\n    D: f32 = acc + bias + residual\n    return D\n");
    subject_.program = lower::lower(graph.data(), facts_of(problem), {});
    subject_.contraction = problem.loop().contraction();
    subject_.contraction->a_form = Form::windows;
  }

  // Contiguous images; one filter and one bias for all.
  Layout images(std::int64_t count, std::int64_t pixels) const {
    Layout layout = usual_layout(subject_, {.batch = count, .m = pixels, .n = columns, .k = depth});
    layout.addressing = {};
    layout.b.strides[0] = layout.buffers[bias].strides[0] = 0;
    return layout;
  }

  void expect_one_product(const Layout& layout) const {
    const Layout one = folded(subject_, layout);
    EXPECT_EQ(one.shape.batch, 1);
    EXPECT_EQ(one.shape.m, layout.shape.batch * layout.shape.m);
    EXPECT_EQ(one.shape.n, columns);
    const auto expect_rows = [&](const Placed& now, const Placed& before) {
      EXPECT_EQ(now.strides[0], 0);
      EXPECT_EQ(now.strides[1] * layout.shape.m, before.strides[0]);
    };
    expect_rows(one.a, layout.a);
    expect_rows(one.buffers[residual], layout.buffers[residual]);
    expect_rows(one.buffers[output], layout.buffers[output]);
  }

  void expect_images(const Layout& layout) const {
    const Layout same = folded(subject_, layout);
    EXPECT_EQ(same.shape.batch, layout.shape.batch);
    EXPECT_EQ(same.shape.m, layout.shape.m);
    EXPECT_EQ(same.buffers[output].strides, layout.buffers[output].strides);
  }

  Subject subject_;
};

TEST_F(Fold, ImagesThatFollowEachOther) {
  expect_one_product(images(5, 6));
  expect_one_product(images(2, 6));
  expect_one_product(images(5, 2));
  Layout apart = images(5, 6);  // rows with the same space behind each, also behind an image's last
  for (Placed* placed : {&apart.a, &apart.buffers[output]}) placed->strides[1] += 9, placed->strides[0] += 6 * 9;
  expect_one_product(apart);
}

TEST_F(Fold, ImagesOfOnePixel) {
  Layout layout = images(5, 1);
  layout.a.strides[1] = layout.buffers[output].strides[1] = 1000;  // of no row behind the first
  expect_one_product(layout);
  layout.buffers[bias].strides[0] = columns;  // a row operand has none for an image either
  expect_images(layout);
}

TEST_F(Fold, ImagesApart) {
  for (const std::int64_t more : {std::int64_t{1}, std::int64_t{64}, 6 * depth, -6 * depth}) {
    for (const bool of_a : {false, true}) {
      Layout layout = images(5, 6);
      (of_a ? layout.a : layout.buffers[output]).strides[0] += more;
      expect_images(layout);
    }
  }
}

TEST_F(Fold, WhatEachImageHasOfItsOwn) {
  Layout filters = images(5, 6), biases = images(5, 6), near = images(5, 6);
  filters.b.strides[0] = columns * depth;
  expect_images(filters);
  biases.buffers[bias].strides[0] = columns;
  expect_images(biases);
  near.buffers[bias].strides[0] = 1;
  expect_images(near);
  near = images(5, 6);
  near.b.strides[0] = 1;
  expect_images(near);
}

TEST_F(Fold, WhatIsNoProductOfImages) {
  expect_images(images(1, 6));
  expect_images(images(5, 0));
  subject_.contraction->groups = 2;
  expect_images(images(5, 6));
  subject_.contraction->groups = 1;
  subject_.contraction->parts = true;
  expect_images(images(5, 6));
  subject_.contraction->parts = false;
  subject_.contraction->a_form = Form::strided;
  expect_images(images(5, 6));
}

TEST_F(Fold, MoreRowsThanAnIndexHolds) {
  expect_one_product(images((std::int64_t{1} << 31) / 6, 6));
  expect_images(images((std::int64_t{1} << 31) / 6 + 1, 6));
}

}  // namespace
}  // namespace postlude::inline v0::cpu
