// Convolutions on the CPU: to the bit on whole numbers, within the bounds behind every epilogue of the suite, in random
// geometry and layouts; and what is refused.
#include "core/convert.h"
#include "correctness/cases.h"
#include "plan/support.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace postlude_test {
namespace {

struct Sizes {
  std::int64_t n = 1, c = 1, h = 1, w = 1, k = 1, r = 1, s = 1;
};
enum class Order { first, last, odd };  // channels first, channels last, channels first with gaps and backwards

std::int64_t extent(std::int64_t image, std::int64_t filter, const Conv2d& conv, int axis) {
  return (image + conv.padding[axis][0] + conv.padding[axis][1] - conv.dilation[axis] * (filter - 1) - 1) /
             conv.stride[axis] +
         1;
}

// Memory of a tensor, drawn.
struct Drawn {
  std::vector<std::uint64_t> memory;
  Tensor tensor;

  Drawn(DType dtype, std::vector<std::int64_t> shape, std::mt19937_64& random, double scale, bool whole,
        Order order = Order::first) {
    std::vector<std::int64_t> strides(shape.size());
    std::vector<std::size_t> axes(shape.size());
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
    if (order == Order::last && axes.size() > 2) std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
    std::int64_t elements = 1;
    for (std::size_t i = axes.size(); i-- > 0;) {
      strides[axes[i]] = elements;
      elements *= shape[axes[i]] + (order == Order::odd ? 2 : 0);
    }
    memory.resize(static_cast<std::size_t>(std::max<std::int64_t>(elements, 1)));
    for (std::int64_t i = 0; i < elements; ++i) {
      const std::int64_t small = static_cast<std::int64_t>(random() % 5) - 2;
      if (is_float(dtype)) {
        std::normal_distribution<double> normal(0, scale);
        core::store_real(dtype, memory.data(), i, whole ? static_cast<double>(small) : normal(random));
      } else {
        core::store_integer(dtype, memory.data(), i, dtype == s8 ? small : std::abs(small));
      }
    }
    auto* data = reinterpret_cast<std::byte*>(memory.data());
    if (order == Order::odd && shape.size() > 2) {  // rows of the image backwards
      data += (shape[2] - 1) * strides[2] * size_of(dtype);
      strides[2] = -strides[2];
    }
    tensor = Tensor(data, dtype, shape, strides);
  }
};

struct Trial {
  std::vector<Drawn> drawn;
  std::vector<Binding> bindings;
  std::vector<std::string> names;
};

// Binds a plan to drawn tensors.
Trial draw(const Plan& plan, const Conv2d& conv, const Sizes& z, Order x, Order w, std::uint64_t seed, bool whole) {
  std::mt19937_64 random(seed);
  Trial run;
  const double scale = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(z.c * z.r * z.s, 1)));
  run.drawn.emplace_back(conv.x, std::vector{z.n, z.c, z.h, z.w}, random, 1, whole, x);
  run.drawn.emplace_back(conv.w, std::vector{z.k, z.c, z.r, z.s}, random, scale, whole, w);
  const std::int64_t m = extent(z.h, z.r, conv, 0) * extent(z.w, z.s, conv, 1);
  const auto slots = plan.slots();
  for (std::size_t i = 2; i < slots.size(); ++i) {
    std::vector<std::int64_t> shape = plan.shape_of(slots[i].name, m, z.k, z.c * z.r * z.s);
    // Outputs have the images in front, and so have tiles.
    if (slots[i].output ? slots[i].batched : slots[i].axes == tile_axes) shape.insert(shape.begin(), z.n);
    run.drawn.emplace_back(slots[i].dtype, shape, random, 1, whole);
  }
  for (std::size_t i = 0; i < slots.size(); ++i) run.names.push_back(slots[i].name);
  for (std::size_t i = 0; i < slots.size(); ++i) run.bindings.push_back({run.names[i], run.drawn[i].tensor});
  return run;
}

void check(const Plan& plan, const Trial& run, const std::string& where) {
  plan.bind(run.bindings).run();
  for (const Comparison& c : verify(plan, run.bindings))
    EXPECT_LE(c.error_over_bound, 1) << where << ' ' << c.output << " at " << c.worst[0] << ", " << c.worst[1] << ", "
                                     << c.worst[2] << ": " << c.value << " for " << c.expected;
}

class Convolution : public testing::TestWithParam<std::string> {};

TEST_P(Convolution, IsWithinTheBounds) {
  const Graph graph = parse_file(POSTLUDE_SOURCE_DIR "/epilogues/" + GetParam() + ".py");
  for (const DType type : {f32, bf16, s8}) {
    const Conv2d conv{.x = type, .w = type, .stride = {2, 1}, .padding = {{{1, 1}, {0, 2}}}};
    const Plan plan = compile(conv, graph, Target::cpu(2));
    check(plan, draw(plan, conv, {2, 5, 9, 7, 128, 3, 3}, Order::last, Order::last, 1, type == s8), GetParam());
  }
}

// Other convolutions than two-dimensional ones without groups, each of N = 128.
struct Way {
  const char* name;
  Problem (*problem)(DType type);
  std::vector<std::int64_t> one, two;  // the inputs' shapes
  std::int64_t images, m, k;           // 0 images: no batch
};
const Way ways[] = {
    {"groups",
     [](DType t) -> Problem {
       return Conv2d{.x = t, .w = t, .stride = {2, 1}, .padding = {{{1, 1}, {1, 1}}}, .groups = 4};
     },
     {2, 8, 9, 7},
     {128, 2, 3, 3},
     2,
     5 * 7,
     18},
    {"depthwise",
     [](DType t) -> Problem {
       return Conv2d{.x = t, .w = t, .padding = {{{1, 1}, {2, 0}}}, .groups = 128};
     },
     {2, 128, 6, 5},
     {128, 1, 3, 3},
     2,
     6 * 5,
     9},
    {"one axis",
     [](DType t) -> Problem { return Conv1d{.x = t, .w = t, .dilation = {2}}; },
     {2, 5, 40},
     {128, 5, 5},
     2,
     32,
     25},
    {"three axes",
     [](DType t) -> Problem {
       return Conv3d{.x = t, .w = t, .padding = {{{1, 0}, {0, 0}, {0, 0}}}};
     },
     {1, 3, 4, 5, 6},
     {128, 3, 2, 3, 2},
     1,
     4 * 3 * 5,
     36},
    {"data gradient",
     [](DType t) -> Problem {
       return ConvDgrad2d{.dy = t, .w = t, .padding = {{{1, 1}, {0, 1}}}};
     },
     {2, 6, 7, 5},
     {6, 128, 3, 3},
     2,
     7 * 6,
     54},
    {"strided data gradient",
     [](DType t) -> Problem {
       return ConvDgrad2d{.dy = t, .w = t, .stride = {2, 3}, .padding = {{{1, 1}, {1, 1}}}, .output_padding = {1, 0}};
     },
     {2, 6, 4, 5},
     {6, 128, 3, 2},
     2,
     8 * 12,
     36},
    {"depthwise strided data gradient",
     [](DType t) -> Problem {
       return ConvDgrad2d{.dy = t, .w = t, .stride = {2, 2}, .padding = {{{1, 1}, {1, 1}}}, .groups = 128};
     },
     {2, 128, 3, 4},
     {128, 1, 3, 3},
     2,
     5 * 7,
     9},
    {"weight gradient",
     [](DType t) -> Problem {
       return ConvWgrad2d{.x = t, .dy = t, .filter = {2, 2}};
     },
     {3, 32, 7, 6},
     {3, 25, 6, 5},
     0,
     25,
     90},
    {"weight gradient of groups",
     [](DType t) -> Problem {
       return ConvWgrad2d{.x = t, .dy = t, .filter = {2, 2}, .groups = 2};
     },
     {3, 64, 5, 6},
     {3, 26, 4, 5},
     0,
     26,
     60}};

TEST_P(Convolution, IsWithinTheBoundsInEveryDirection) {
  const Graph graph = parse_file(POSTLUDE_SOURCE_DIR "/epilogues/" + GetParam() + ".py");
  for (const Way& way : ways) {
    for (const DType type : {f32, bf16, s8}) {
      std::mt19937_64 random(5);
      const bool whole = type == s8;
      const Plan plan = compile(way.problem(type), graph, Target::cpu(2));
      Trial run;
      const Order order = type == f32 ? Order::first : Order::last;
      run.drawn.emplace_back(type, way.one, random, 1, whole, order);
      run.drawn.emplace_back(type, way.two, random, 1 / std::sqrt(static_cast<double>(way.k)), whole, order);
      const auto slots = plan.slots();
      for (std::size_t i = 2; i < slots.size(); ++i) {
        std::vector<std::int64_t> shape = plan.shape_of(slots[i].name, way.m, 128, way.k);
        if (way.images > 0 && (slots[i].output ? slots[i].batched : slots[i].axes == tile_axes))
          shape.insert(shape.begin(), way.images);
        run.drawn.emplace_back(slots[i].dtype, shape, random, 1, whole);
      }
      for (const auto& slot : slots) run.names.push_back(slot.name);
      for (std::size_t i = 0; i < slots.size(); ++i) run.bindings.push_back({run.names[i], run.drawn[i].tensor});
      check(plan, run, GetParam() + ", " + way.name + ", " + std::string(name(type)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Convolution, testing::ValuesIn(suite()), [](const auto& info) { return info.param; });

// The sum written out, in random geometry and layouts.
TEST(Conv2d, IsItsDefinition) {
  std::mt19937_64 random(7);
  const auto pick = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  const Graph graph = parse("def f(acc, bias: row[f32]):\n    D: f32 = acc + bias\n    return D\n");
  for (int round = 0; round < 400; ++round) {
    Conv2d conv;
    if (round % 5 == 4) conv.x = conv.w = bf16;
    Sizes z{pick(0, 3), pick(0, 9), pick(1, 11), pick(1, 11), pick(1, 40), pick(1, 4), pick(1, 4)};
    for (int axis = 0; axis < 2; ++axis) {
      conv.stride[axis] = pick(1, 3);
      conv.dilation[axis] = pick(1, 3);
      conv.padding[axis] = {pick(0, 5), pick(0, 5)};
    }
    const std::int64_t p = z.h + conv.padding[0][0] + conv.padding[0][1] - conv.dilation[0] * (z.r - 1);
    const std::int64_t q = z.w + conv.padding[1][0] + conv.padding[1][1] - conv.dilation[1] * (z.s - 1);
    if (p < 1 || q < 1) continue;
    const auto order = static_cast<Order>(pick(0, 2));
    const Plan plan = compile(conv, graph, Target::cpu(pick(1, 2)));
    Trial run = draw(plan, conv, z, order, static_cast<Order>(pick(0, 1)), random(), true);
    plan.bind(run.bindings).run();
    const Tensor &x = run.drawn[0].tensor, &w = run.drawn[1].tensor;
    const auto* bias = static_cast<const float*>(run.drawn[2].tensor.data);
    const auto* d = static_cast<const float*>(run.drawn[3].tensor.data);
    const std::int64_t rows = extent(z.h, z.r, conv, 0), columns = extent(z.w, z.s, conv, 1);
    std::int64_t wrong = 0;
    for (std::int64_t n = 0; n < z.n; ++n)
      for (std::int64_t m = 0; m < rows * columns; ++m)
        for (std::int64_t k = 0; k < z.k; ++k) {
          double sum = bias[k];
          for (std::int64_t c = 0; c < z.c; ++c)
            for (std::int64_t r = 0; r < z.r; ++r)
              for (std::int64_t s = 0; s < z.s; ++s) {
                const std::int64_t y = m / columns * conv.stride[0] + r * conv.dilation[0] - conv.padding[0][0];
                const std::int64_t at = m % columns * conv.stride[1] + s * conv.dilation[1] - conv.padding[1][0];
                if (y < 0 || y >= z.h || at < 0 || at >= z.w) continue;
                sum += core::load_real(x.dtype, x.data,
                                       n * x.strides[0] + c * x.strides[1] + y * x.strides[2] + at * x.strides[3]) *
                       core::load_real(w.dtype, w.data,
                                       k * w.strides[0] + c * w.strides[1] + r * w.strides[2] + s * w.strides[3]);
              }
          wrong += static_cast<double>(d[(n * rows * columns + m) * z.k + k]) != sum;
        }
    ASSERT_EQ(wrong, 0) << "round " << round << ": n " << z.n << " c " << z.c << " h " << z.h << " w " << z.w << " k "
                        << z.k << " r " << z.r << " s " << z.s << " layout " << static_cast<int>(order);
    if (round % 8 == 0) check(plan, run, "round " + std::to_string(round));
  }
}

// The second block of K begins within a tap's channels.
TEST(Conv2d, OfALongKHasSeveralBlocksOfIt) {
  const Conv2d conv{.stride = {1, 2}, .padding = {{{1, 1}, {0, 2}}}};
  const Graph graph = parse("def f(acc, bias: row):\n    return relu(acc + bias)\n");
  std::vector<std::uint64_t> once;
  for (const int threads : {1, 2}) {
    const Plan plan = compile(conv, graph, Target::cpu(threads));
    const Trial run = draw(plan, conv, {2, 300, 7, 7, 70, 3, 3}, Order::last, Order::first, 11, false);
    check(plan, run, std::to_string(threads) + " threads");
    if (once.empty()) once = run.drawn[3].memory;
    EXPECT_EQ(run.drawn[3].memory, once);
  }
}

// Channels are gathered sixteen at a time, and the last of them end the memory.
TEST(Conv2d, ReadsNothingBehindTheFilters) {
  constexpr std::int64_t channels = 17, taps = 9;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const pages = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(::mprotect(static_cast<char*>(pages) + page, page, PROT_NONE), 0);
  float* const w = reinterpret_cast<float*>(static_cast<char*>(pages) + page) - channels * taps;
  std::fill_n(w, channels * taps, 1.0f);
  const std::vector<float> x(4 * 4 * channels, 2.0f);
  std::vector<float> d(4 * channels);
  const Plan plan = compile(Conv2d{.groups = channels}, parse("def f(acc):\n    D: f32 = acc\n    return D\n"));
  plan.bind({{"X", {x.data(), f32, {1, channels, 4, 4}, {16 * channels, 1, 4 * channels, channels}}},
             {"W", {w, f32, {channels, 1, 3, 3}}},
             {"D", {d.data(), f32, {1, 4, channels}}}})
      .run();
  EXPECT_EQ(d, std::vector<float>(4 * channels, 2.0f * taps));
  ::munmap(pages, 2 * page);
}

// b is the image and m the pixel: average pooling, a pixel's number, and a value for each image.
TEST(Conv2d, HasImagesAndPixels) {
  const Conv2d conv{.padding = {{{1, 1}, {1, 1}}}};
  for (const char* text : {"def f(acc):\n    pooled: f32 = mean(acc, axis=0)\n    return pooled\n",
                           "def f(acc):\n    D: f32 = acc + m_index() + 1000 * batch_index()\n    return D\n",
                           "def f(acc, scale: scalar):\n    D: f32 = scale * acc\n    return D\n",
                           "def f(acc):\n    total: f32 = sum(acc, axis=0, batch=True)\n    D: f32 = acc - total\n"
                           "    return D, total\n"}) {
    const Plan plan = compile(conv, parse(text));
    check(plan, draw(plan, conv, {3, 4, 6, 5, 8, 3, 3}, Order::first, Order::first, 3, true), text);
  }
}

// The coordinates of a pixel, written out: of the output's, and of the image's where that is the output.
TEST(Conv2d, NumbersPixels) {
  const Graph graph =
      parse("def f(acc):\n    D: f32 = acc * 0 + z_index() * 10000 + p_index() * 100 + q_index()\n    return D\n");
  struct Way {
    Problem problem;
    std::vector<std::int64_t> one, two, pixels;
  };
  const Way ways_of_three[] = {
      {Conv1d{.stride = {2}}, {2, 3, 9}, {2, 3, 3}, {1, 1, 4}},
      {Conv2d{.stride = {2, 1}}, {2, 3, 9, 6}, {2, 3, 3, 3}, {1, 4, 4}},
      {Conv3d{}, {1, 3, 4, 6, 5}, {2, 3, 2, 3, 1}, {3, 4, 5}},
      {ConvDgrad2d{.stride = {2, 1}, .output_padding = {1, 0}}, {2, 3, 4, 4}, {3, 2, 3, 3}, {1, 10, 6}},
      {ConvDgrad3d{.stride = {2, 1, 2}}, {1, 3, 2, 3, 2}, {3, 2, 2, 1, 2}, {4, 3, 4}}};
  for (const Way& way : ways_of_three) {
    const std::int64_t images = way.one[0], m = way.pixels[0] * way.pixels[1] * way.pixels[2];
    const Array x(way.one), w(way.two), d({images, m, 2});
    const Plan plan = compile(way.problem, graph);
    const std::string first = plan.slots()[0].name, second = plan.slots()[1].name;
    plan.bind({{first, x.view()}, {second, w.view()}, {"D", d.view()}}).run();
    for (std::size_t i = 0; i < d.values.size() - 1; ++i) {
      const auto pixel = static_cast<std::int64_t>(i) / 2 % m, q = pixel % way.pixels[2], p = pixel / way.pixels[2];
      const std::int64_t number = p / way.pixels[1] * 10000 + p % way.pixels[1] * 100 + q;
      ASSERT_EQ(d.values[i], static_cast<float>(number)) << way.problem.loop().describe() << " at " << i;
    }
    for (const Comparison& c : verify(plan, {{first, x.view()}, {second, w.view()}, {"D", d.view()}}))
      EXPECT_LE(c.error_over_bound, 1) << way.problem.loop().describe();
  }
}

TEST(Conv2d, HasPixelsWhereAnEpilogueAsksForThem) {
  for (const char* asks : {"z_index()", "p_index()", "q_index()"}) {
    const Graph graph = parse(std::string("def f(acc):\n    D: f32 = where(") + asks + " > 0, acc, 0)\n    return D\n");
    for (const Problem& without : {Problem(Gemm{}), Problem(Stream{}), Problem(ConvWgrad2d{.filter = {3, 3}})}) {
      EXPECT_ERROR(ErrorCode::unsupported, "the rows of this main loop are no pixels", (void)compile(without, graph));
      EXPECT_FALSE(supports(without, graph));
    }
    EXPECT_TRUE(supports(Conv2d{.x = bf16, .w = bf16}, graph, Target::parse("sm_90a")));
  }
}

TEST(Conv2d, RefusesWhatIsNoConvolution) {
  const Graph graph = parse("def f(acc):\n    D: f32 = acc\n    return D\n");
  const auto bind = [&](const Conv2d& conv, std::vector<std::int64_t> x, std::vector<std::int64_t> w) {
    const Array a(std::move(x)), b(std::move(w)), d({1, 1, 1});
    compile(conv, graph).check({{"X", a.view()}, {"W", b.view()}, {"D", d.view()}});
  };
  bind({}, {1, 2, 3, 3}, {1, 2, 3, 3});
  EXPECT_ERROR(ErrorCode::wrong_shape, "'W' (1, 3, 3, 3) has filters of 3 channels, but 'X' (1, 2, 3, 3) has 2",
               bind({}, {1, 2, 3, 3}, {1, 3, 3, 3}));
  EXPECT_ERROR(ErrorCode::wrong_shape, "'W' (1, 2, 4, 3) spans 4 rows, but 'X' (1, 2, 3, 3) has 3 with its padding",
               bind({}, {1, 2, 3, 3}, {1, 2, 4, 3}));
  EXPECT_ERROR(ErrorCode::wrong_shape, "spans 5 columns", bind({.dilation = {1, 2}}, {1, 2, 3, 3}, {1, 2, 3, 3}));
  EXPECT_ERROR(ErrorCode::wrong_shape, "A filter has a row", bind({}, {1, 2, 3, 3}, {1, 2, 0, 3}));
  EXPECT_ERROR(ErrorCode::wrong_rank, "the plan wants N x C x H x W", bind({}, {2, 3, 3}, {1, 2, 3, 3}));
  EXPECT_ERROR(ErrorCode::wrong_shape, "'W' (5, 2, 3, 3) fixes N to 5", bind({}, {1, 2, 3, 3}, {5, 2, 3, 3}));
  const Array x({1, 2, 3, 3}), w({1, 2, 3, 3}), image({1, 1, 1, 1}), taps({1, 2, 3, 3});
  EXPECT_ERROR(ErrorCode::wrong_rank, "Its pixels are one axis, in front of the channels: (N, P * Q, K)",
               compile(Conv2d{}, graph).check({{"X", x.view()}, {"W", w.view()}, {"D", image.view()}}));
  EXPECT_ERROR(ErrorCode::wrong_rank, "M and N are one axis each",
               compile(ConvWgrad2d{}, graph).check({{"X", x.view()}, {"dY", image.view()}, {"D", taps.view()}}));
  EXPECT_ERROR(ErrorCode::wrong_shape, "fixes the batch to 2", bind({}, {2, 2, 3, 3}, {1, 2, 3, 3}));
  EXPECT_ERROR(ErrorCode::usage, "stride is 0", (void)compile(Conv2d{.stride = {0, 1}}, graph));
  EXPECT_ERROR(ErrorCode::usage, "padding is -1", (void)compile(Conv2d{.padding = {{{0, -1}, {0, 0}}}}, graph));
  EXPECT_ERROR(ErrorCode::wrong_shape, "3 channels, which 2 groups do not divide",
               bind({.groups = 2}, {1, 3, 3, 3}, {4, 1, 3, 3}));
  EXPECT_ERROR(ErrorCode::wrong_shape, "3 filters, which 2 groups do not divide",
               bind({.groups = 2}, {1, 4, 3, 3}, {3, 2, 3, 3}));
  EXPECT_ERROR(ErrorCode::wrong_shape, "filters of 4 channels, but 'X' (1, 4, 3, 3) has 4 in 2 groups",
               bind({.groups = 2}, {1, 4, 3, 3}, {4, 4, 3, 3}));
  EXPECT_ERROR(ErrorCode::usage, "number of groups is 0", (void)compile(Conv2d{.groups = 0}, graph));
  EXPECT_ERROR(ErrorCode::size_overflow, "more than 536870912",
               bind({.padding = {{{1 << 29, 0}, {0, 0}}}}, {1, 2, 3, 3}, {1, 2, 3, 3}));
  EXPECT_ERROR(ErrorCode::unsupported, "two float types", (void)compile(Conv2d{.x = f32, .w = s8}, graph));
  EXPECT_TRUE(supports(Conv2d{.x = bf16, .w = bf16}, graph, Target::parse("sm_90a")));
}

// However the filters lay, and whatever the order of the image: the sums are of whole numbers.
TEST(Conv2d, TakesFiltersPackedBefore) {
  const Graph graph = parse("def f(acc):\n    return acc\n");
  for (const DType type : {f32, bf16, s8}) {
    for (const Order x : {Order::first, Order::last, Order::odd}) {
      for (const Order w : {Order::first, Order::last, Order::odd}) {
        const std::string where =
            std::string(name(type)) + std::to_string(static_cast<int>(x)) + std::to_string(static_cast<int>(w));
        const Conv2d conv{.x = type, .w = type, .stride = {2, 1}, .padding = {{{1, 1}, {0, 2}}}};
        for (const Sizes& z :
             {Sizes{2, 5, 9, 7, 70, 3, 3}, Sizes{1, 70, 5, 5, 130, 1, 1}, Sizes{3, 1, 6, 4, 3, 2, 3}}) {
          const Plan plan = compile(conv, graph, Target::cpu(1));
          Trial run = draw(plan, conv, z, x, w, 5, true);
          plan.bind(run.bindings).run();
          const std::vector<std::uint64_t> expected = run.drawn[2].memory;
          std::ranges::fill(run.drawn[2].memory, ~std::uint64_t{0});
          const PackedOperand packed = pack(plan, run.drawn[1].tensor);
          EXPECT_EQ(packed.shape(), (std::vector<std::int64_t>{z.k, z.c, z.r, z.s}));
          EXPECT_EQ(packed.k(), z.c * z.r * z.s);
          plan.bind({run.bindings[0], run.bindings[2]}, packed).run();
          const std::int64_t bytes = run.drawn[2].tensor.elements() * size_of(run.drawn[2].tensor.dtype);
          EXPECT_EQ(std::memcmp(expected.data(), run.drawn[2].memory.data(), static_cast<std::size_t>(bytes)), 0)
              << where << " of " << z.k;
        }
      }
    }
  }
}

TEST(ConvDgrad2d, TakesFiltersPackedBefore) {
  std::mt19937_64 random(3);
  const ConvDgrad2d conv{.padding = {{{1, 1}, {1, 1}}}, .dilation = {2, 1}};
  const Plan plan = compile(conv, parse("def f(acc):\n    return acc\n"), Target::cpu(1));
  for (const Order order : {Order::first, Order::last, Order::odd}) {
    const Drawn dy(f32, {2, 6, 5, 6}, random, 1, true, order), w(f32, {6, 4, 3, 3}, random, 1, true, order);
    std::vector<float> one(2 * 7 * 6 * 4, 1), two(one.size(), 2);
    const auto out = [](std::vector<float>& to) { return Tensor(to.data(), f32, {2, 7 * 6, 4}); };
    plan.bind({{"dY", dy.tensor}, {"W", w.tensor}, {"D", out(one)}}).run();
    plan.bind({{"dY", dy.tensor}, {"D", out(two)}}, pack(plan, w.tensor)).run();
    EXPECT_EQ(one, two) << static_cast<int>(order);
  }
}

TEST(Conv2d, RefusesWhatItCannotPack) {
  std::mt19937_64 random(3);
  const Graph graph = parse("def f(acc):\n    return acc\n");
  const Drawn x(f32, {2, 6, 5, 5}, random, 1, true), w(f32, {4, 6, 3, 3}, random, 1, true);
  std::vector<float> out(2 * 9 * 4);
  EXPECT_ERROR(ErrorCode::unsupported, "groups can be packed",
               (void)pack(compile(Conv2d{.groups = 2}, graph), w.tensor));
  EXPECT_ERROR(ErrorCode::unsupported, "stride 2 can be packed",
               (void)pack(compile(ConvDgrad2d{.stride = {2, 2}}, graph), w.tensor));
  EXPECT_ERROR(ErrorCode::unsupported, "can be packed", (void)pack(compile(ConvWgrad2d{}, graph), w.tensor));
  const Plan plan = compile(Conv2d{}, graph);
  EXPECT_ERROR(ErrorCode::wrong_rank, "W", (void)pack(plan, Tensor(out.data(), f32, {4, 6})));
  const PackedOperand packed = pack(plan, w.tensor);
  const Tensor d(out.data(), f32, {2, 9, 4});
  EXPECT_ERROR(ErrorCode::repeated_operand, "W is bound packed",
               (void)plan.bind({{"X", x.tensor}, {"W", w.tensor}, {"D", d}}, packed));
  EXPECT_ERROR(ErrorCode::wrong_shape, "packed W (4, 6, 3, 3) has filters of 6 channels",
               (void)plan.bind({{"X", Tensor(x.tensor.data, f32, {2, 5, 5, 5})}, {"D", d}}, packed));
}

TEST(Conv2d, RefusesWhatIsNoGradient) {
  const Graph graph = parse("def f(acc):\n    D: f32 = acc\n    return D\n");
  const auto bind = [&](const Problem& conv, std::vector<std::int64_t> x, std::vector<std::int64_t> w,
                        std::vector<std::int64_t> out) {
    const Array a(std::move(x)), b(std::move(w)), d(std::move(out));
    const auto inputs = compile(conv, graph).slots();
    compile(conv, graph).check({{inputs[0].name, a.view()}, {inputs[1].name, b.view()}, {"D", d.view()}});
  };
  bind(ConvDgrad2d{}, {1, 2, 3, 3}, {2, 4, 3, 3}, {1, 25, 4});
  EXPECT_ERROR(ErrorCode::usage, "output padding is 2, but its stride is 2",
               (void)compile(ConvDgrad2d{.stride = {2, 2}, .output_padding = {2, 0}}, graph));
  EXPECT_ERROR(ErrorCode::wrong_shape, "'W' (3, 4, 3, 3) has 3 filters, but 'dY' (1, 2, 3, 3) has the outputs of 2",
               bind(ConvDgrad2d{}, {1, 2, 3, 3}, {3, 4, 3, 3}, {1, 25, 4}));
  EXPECT_ERROR(ErrorCode::wrong_shape, "no pixel of the gradient exists",
               bind(ConvDgrad2d{.padding = {{{3, 3}, {0, 0}}}}, {1, 2, 1, 3}, {2, 4, 3, 3}, {1, 25, 4}));
  EXPECT_ERROR(ErrorCode::wrong_shape, "'dY' (1, 2, 0, 3) has no rows",
               bind(ConvDgrad2d{}, {1, 2, 0, 3}, {2, 4, 3, 3}, {1, 25, 4}));
  EXPECT_ERROR(ErrorCode::size_overflow, "with its padding: more than",
               bind(ConvDgrad2d{.stride = {1 << 29, 1}}, {1, 2, 3, 3}, {2, 4, 3, 3}, {1, 25, 4}));
  bind(ConvWgrad2d{.filter = {3, 3}}, {1, 4, 5, 5}, {1, 2, 3, 3}, {2, 36});
  EXPECT_ERROR(ErrorCode::wrong_shape, "has 3 rows, but a filter of 2 over 'X' (1, 4, 5, 5) makes 4",
               bind(ConvWgrad2d{.filter = {2, 3}}, {1, 4, 5, 5}, {1, 2, 3, 3}, {2, 24}));
  EXPECT_ERROR(ErrorCode::wrong_shape, "'dY' (2, 2, 3, 3) has 2 images, but 'X' (1, 4, 5, 5) has 1",
               bind(ConvWgrad2d{.filter = {3, 3}}, {1, 4, 5, 5}, {2, 2, 3, 3}, {2, 36}));
  EXPECT_ERROR(ErrorCode::usage, "filter size is 0", (void)compile(ConvWgrad2d{.filter = {0, 1}}, graph));
  EXPECT_ERROR(ErrorCode::wrong_rank, "the plan wants N x C x D x H x W",
               bind(ConvWgrad3d{}, {1, 4, 5, 5}, {1, 2, 1, 5, 5}, {2, 4}));
}

TEST(Conv2d, IsExplained) {
  const Plan plan = compile(Conv2d{.x = bf16, .w = bf16, .stride = {2, 2}, .padding = {{{1, 1}, {1, 1}}}},
                            parse("def f(acc):\n    return relu(acc)\n"));
  const std::string text = plan.explain(ExplainPart::summary, 56 * 56, 64, 576);
  EXPECT_EQ(text.rfind("f: batched conv2d bf16 x bf16, stride 2, padding 1, f32 accumulator", 0), 0) << text;
  EXPECT_NE(text.find("(N, C, H, W)"), std::string::npos) << text;
  EXPECT_NE(plan.explain(ExplainPart::loops)
                .find("A  N·P·Q x R·S·C  of X (N, C, H, W): h = p * 2 + r - 1, w = q * 2 + s - 1; 0 outside"),
            std::string::npos)
      << plan.explain(ExplainPart::loops);
}

}  // namespace
}  // namespace postlude_test
