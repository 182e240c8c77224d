// Random epilogues behind random convolutions of one axis, in all directions: within the reference's bounds, and the
// same bits for any number of threads.
#include "core/convert.h"
#include "fuzz/grammar.h"
#include "graph/text/printer.h"
#include "plan/support.h"

#include <gtest/gtest.h>

#include <random>

namespace postlude_test {
namespace {

struct Memory {
  std::vector<std::uint64_t> words;
  Tensor tensor;

  Memory(DType dtype, const std::vector<std::int64_t>& shape, std::mt19937_64& random, bool channels_last) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) elements *= extent;
    words.resize(static_cast<std::size_t>(std::max<std::int64_t>(elements, 1)));
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < elements; ++i) {
      if (is_float(dtype)) core::store_real(dtype, words.data(), i, normal(random));
      else core::store_integer(dtype, words.data(), i, static_cast<std::int64_t>(random() % 3));
    }
    tensor = Tensor(words.data(), dtype, shape);
    if (channels_last) tensor.strides = {shape[1] * shape[2], 1, shape[1]};
  }
};

TEST(RandomEpilogues, BehindRandomConvolutions) {
  std::mt19937_64 random(11);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
  };
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const fuzz::Case c = fuzz::generate(seed, {.most_nodes = 32,
                                               .most_elements = 2048,
                                               .streams = false,
                                               .batches = true,
                                               .odd_dtypes = false,
                                               .tall = false});
    const bool batched = is_batched(c.problem);
    const std::int64_t m = c.shape.m, n = c.shape.n, images = batched ? c.shape.batch : pick(1, 3), taps = pick(1, 4);
    if (m < 1 || n < 1 || images < 1) continue;
    const auto stride = static_cast<std::int32_t>(pick(1, 3)), dilation = static_cast<std::int32_t>(pick(1, 2)),
               padding = static_cast<std::int32_t>(pick(0, 3));
    const std::int64_t reach = dilation * (taps - 1) + 1, other = pick(1, 9);
    Problem problem;
    std::vector<std::int64_t> one, two;
    std::int64_t k = 0;
    if (batched && seed % 2 == 0) {  // m pixels of the output, n filters
      const std::int64_t image = (m - 1) * stride + reach - 2 * padding;
      if (image < 1) continue;
      problem = Conv1d{.stride = {stride}, .padding = {{{padding, padding}}}, .dilation = {dilation}};
      one = {images, other, image}, two = {n, other, taps}, k = other * taps;
    } else if (batched) {  // m pixels of the image, n channels
      const std::int64_t padded = m + 2 * padding - reach;
      if (padded < 0) continue;
      problem = ConvDgrad1d{.stride = {stride},
                            .padding = {{{padding, padding}}},
                            .dilation = {dilation},
                            .output_padding = {static_cast<std::int32_t>(padded % stride)}};
      one = {images, other, padded / stride + 1}, two = {other, n, taps}, k = other * taps;
    } else {  // m filters, n taps and channels
      if (n % taps != 0) continue;
      const std::int64_t pixels = pick(1, 20), image = (pixels - 1) * stride + reach - 2 * padding;
      if (image < 1) continue;
      problem = ConvWgrad1d{.filter = {static_cast<std::int32_t>(taps)},
                            .stride = {stride},
                            .padding = {{{padding, padding}}},
                            .dilation = {dilation}};
      one = {images, n / taps, image}, two = {images, m, pixels}, k = images * pixels;
    }
    const Graph graph = parse(print(c.graph));
    std::vector<Memory> memory, again;
    std::vector<Binding> bindings, others;
    std::vector<Plan::Slot> slots;
    for (const int threads : {1, 2}) {
      const Plan plan = compile(problem, graph, Target::cpu(threads));
      std::mt19937_64 values(seed);
      std::vector<Memory>& of = threads == 1 ? memory : again;
      std::vector<Binding>& to = threads == 1 ? bindings : others;
      slots = plan.slots();
      of.reserve(slots.size());
      for (std::size_t i = 0; i < slots.size(); ++i) {
        std::vector<std::int64_t> shape = i == 0 ? one : i == 1 ? two : plan.shape_of(slots[i].name, m, n, k);
        if (i > 1 && (slots[i].output ? slots[i].batched : batched && slots[i].axes == tile_axes))
          shape.insert(shape.begin(), images);
        of.emplace_back(slots[i].dtype, shape, values, i < 2 && seed % 3 != 0);
        to.push_back({slots[i].name, of.back().tensor});
      }
      plan.bind(to).run();
      if (threads == 2) {
        for (std::size_t i = 0; i < slots.size(); ++i) ASSERT_EQ(memory[i].words, again[i].words) << print(c.graph);
        continue;
      }
      for (const Comparison& x : verify(plan, to)) {
        ASSERT_LE(x.error_over_bound, 1) << "seed " << seed << ", " << problem.loop().describe() << ", " << x.output
                                         << " is " << x.value << " for " << x.expected << '\n'
                                         << print(c.graph);
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace postlude_test
