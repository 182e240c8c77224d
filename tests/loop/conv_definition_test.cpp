// Convolutions of one to three axes and their gradients, to the bit on whole numbers: the sums written out, in random
// geometry, groups and layouts.
#include "core/convert.h"
#include "plan/support.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>

namespace postlude_test {
namespace {

using Three = std::array<std::int64_t, 3>;

// Three axes, of which the first may be lacking (1 everywhere).
struct Geometry {
  std::int64_t n = 1, c = 1, k = 1, groups = 1;
  Three image{1, 1, 1}, taps{1, 1, 1}, pixels{1, 1, 1}, stride{1, 1, 1}, before{}, after{}, dilation{1, 1, 1};
};

// A tensor of whole numbers (first, second, spatial), and the view of it that is bound.
struct Whole {
  std::vector<std::uint64_t> memory;
  DType dtype;
  std::vector<std::int64_t> shape, strides;
  std::int64_t first = 0;

  // Axes in some order in memory, some of them with gaps, some backwards.
  Whole(DType type, std::vector<std::int64_t> extents, std::mt19937_64& random)
      : dtype(type), shape(std::move(extents)), strides(shape.size()) {
    std::vector<std::size_t> axes(shape.size());
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
    const auto order = random() % 4;
    if (order == 0) std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());  // channels last
    if (order == 1) std::shuffle(axes.begin(), axes.end(), random);
    std::int64_t elements = 1;
    for (std::size_t i = axes.size(); i-- > 0;) {
      strides[axes[i]] = elements;
      elements *= shape[axes[i]] + (order == 1 ? static_cast<std::int64_t>(random() % 2) : 0);
    }
    memory.resize(static_cast<std::size_t>(std::max<std::int64_t>(elements, 1)));
    for (std::int64_t i = 0; i < elements; ++i) {
      const auto value = static_cast<std::int64_t>(random() % 5) - 2;
      if (is_float(dtype)) core::store_real(dtype, memory.data(), i, static_cast<double>(value));
      else core::store_integer(dtype, memory.data(), i, value);
    }
    if (order == 1 && shape.back() > 0 && random() % 2 == 0) {
      first = (shape.back() - 1) * strides.back();
      strides.back() = -strides.back();
    }
  }
  [[nodiscard]] Tensor view() {
    return {reinterpret_cast<std::byte*>(memory.data()) + first * size_of(dtype), dtype, shape, strides};
  }
  [[nodiscard]] double at(std::int64_t a, std::int64_t b, const Three& y) const {
    std::int64_t offset = first + a * strides[0] + b * strides[1];
    for (std::size_t i = 2; i < shape.size(); ++i) offset += y[3 - shape.size() + i] * strides[i];
    return core::load_real(dtype, memory.data(), offset);
  }
};

enum class Direction { forward, dgrad, wgrad };

template <class Description>
void describe(Description& d, const Geometry& g) {
  constexpr std::size_t rank = std::tuple_size_v<decltype(d.stride)>;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t axis = 3 - rank + i;
    d.stride[i] = static_cast<std::int32_t>(g.stride[axis]);
    d.padding[i] = {static_cast<std::int32_t>(g.before[axis]), static_cast<std::int32_t>(g.after[axis])};
    d.dilation[i] = static_cast<std::int32_t>(g.dilation[axis]);
    if constexpr (requires { d.filter; }) d.filter[i] = static_cast<std::int32_t>(g.taps[axis]);
    if constexpr (requires { d.output_padding; }) {
      const std::int64_t least = (g.pixels[axis] - 1) * g.stride[axis] + (g.taps[axis] - 1) * g.dilation[axis] + 1 -
                                 g.before[axis] - g.after[axis];
      d.output_padding[i] = static_cast<std::int32_t>(g.image[axis] - least);
    }
  }
  d.groups = static_cast<std::int32_t>(g.groups);
}

template <std::size_t Rank>
Problem problem_of(Direction direction, const Geometry& g, DType dtype) {
  Conv<Rank> forward{.x = dtype, .w = dtype};
  ConvDgrad<Rank> dgrad{.dy = dtype, .w = dtype};
  ConvWgrad<Rank> wgrad{.x = dtype, .dy = dtype};
  describe(forward, g);
  describe(dgrad, g);
  describe(wgrad, g);
  if (direction == Direction::forward) return forward;
  return direction == Direction::dgrad ? Problem(dgrad) : Problem(wgrad);
}

template <class Body>
void for_all(const Three& extents, Body body) {
  for (std::int64_t d = 0; d < extents[0]; ++d)
    for (std::int64_t h = 0; h < extents[1]; ++h)
      for (std::int64_t w = 0; w < extents[2]; ++w) body(Three{d, h, w});
}
std::int64_t number(const Three& at, const Three& extents) { return (at[0] * extents[1] + at[1]) * extents[2] + at[2]; }

// The accumulator, row-major over (b, m, n).
std::vector<double> expected(Direction direction, const Geometry& g, const Whole& one, const Whole& two) {
  const std::int64_t channels = g.c / g.groups, filters = g.k / g.groups;
  const auto count = [](const Three& e) { return e[0] * e[1] * e[2]; };
  const std::int64_t m = direction == Direction::forward ? count(g.pixels) : count(g.image);
  std::vector<double> acc(static_cast<std::size_t>(direction == Direction::forward ? g.n * m * g.k
                                                   : direction == Direction::dgrad ? g.n * m * g.c
                                                                                   : g.k * count(g.taps) * channels));
  // Every product that there is.
  for (std::int64_t n = 0; n < g.n; ++n)
    for (std::int64_t k = 0; k < g.k; ++k)
      for (std::int64_t c = 0; c < channels; ++c)
        for_all(g.pixels, [&](const Three& pixel) {
          for_all(g.taps, [&](const Three& tap) {
            Three y{};
            for (std::size_t i = 0; i < 3; ++i) {
              y[i] = pixel[i] * g.stride[i] + tap[i] * g.dilation[i] - g.before[i];
              if (y[i] < 0 || y[i] >= g.image[i]) return;
            }
            const std::int64_t channel = k / filters * channels + c;
            std::int64_t at = 0;
            double product = 0;
            if (direction == Direction::forward) {
              at = (n * m + number(pixel, g.pixels)) * g.k + k;
              product = one.at(n, channel, y) * two.at(k, c, tap);
            } else if (direction == Direction::dgrad) {
              at = (n * m + number(y, g.image)) * g.c + channel;
              product = one.at(n, k, pixel) * two.at(k, c, tap);
            } else {
              at = (k * count(g.taps) + number(tap, g.taps)) * channels + c;
              product = one.at(n, channel, y) * two.at(n, k, pixel);
            }
            acc[static_cast<std::size_t>(at)] += product;
          });
        });
  return acc;
}

Geometry draw_geometry(std::mt19937_64& random, std::size_t rank) {
  const auto pick = [&](int least, int most) {
    return least + static_cast<std::int64_t>(random() % static_cast<unsigned>(most - least + 1));
  };
  for (;;) {
    Geometry g;
    g.groups = pick(0, 2) == 0 ? pick(1, 4) : 1;
    const bool depthwise = g.groups > 1 && pick(0, 2) == 0;
    g.n = pick(0, 3);
    g.c = g.groups * (depthwise ? 1 : pick(g.groups > 1 ? 1 : 0, 9));
    g.k = g.groups * (depthwise ? 1 : pick(1, g.groups > 1 ? 9 : 40));
    bool good = true;
    for (std::size_t i = 3 - rank; i < 3; ++i) {
      g.image[i] = pick(1, rank == 3 ? 6 : rank == 2 ? 11 : 60);
      g.taps[i] = pick(1, rank == 3 ? 3 : rank == 2 ? 4 : 7);
      g.stride[i] = pick(1, 4);
      g.dilation[i] = pick(1, 3);
      g.before[i] = pick(0, 5);
      g.after[i] = pick(0, 5);
      const std::int64_t free = g.image[i] + g.before[i] + g.after[i] - (g.taps[i] - 1) * g.dilation[i] - 1;
      good = good && free >= 0;
      g.pixels[i] = free / g.stride[i] + 1;
    }
    if (good) return g;
  }
}

// Axes that a convolution lacks are left out.
std::vector<std::int64_t> shape_of(std::size_t rank, std::int64_t first, std::int64_t second, const Three& spatial) {
  std::vector<std::int64_t> shape{first, second};
  shape.insert(shape.end(), spatial.begin() + static_cast<std::ptrdiff_t>(3 - rank), spatial.end());
  return shape;
}

std::string text_of(const Geometry& g) {
  std::string text = "n " + std::to_string(g.n) + " c " + std::to_string(g.c) + " k " + std::to_string(g.k) +
                     " groups " + std::to_string(g.groups);
  for (std::size_t i = 0; i < 3; ++i)
    text += " | image " + std::to_string(g.image[i]) + " taps " + std::to_string(g.taps[i]) + " pixels " +
            std::to_string(g.pixels[i]) + " stride " + std::to_string(g.stride[i]) + " padding " +
            std::to_string(g.before[i]) + ", " + std::to_string(g.after[i]) + " dilation " +
            std::to_string(g.dilation[i]);
  return text;
}

void one_round(std::mt19937_64& random, const Graph& graph, Direction direction, std::size_t rank) {
  const Geometry g = draw_geometry(random, rank);
  const DType types[] = {f32, f32, bf16, s8};
  const DType dtype = types[random() % 4];
  const Problem problem = rank == 1   ? problem_of<1>(direction, g, dtype)
                          : rank == 2 ? problem_of<2>(direction, g, dtype)
                                      : problem_of<3>(direction, g, dtype);
  const auto x = shape_of(rank, g.n, g.c, g.image), w = shape_of(rank, g.k, g.c / g.groups, g.taps),
             dy = shape_of(rank, g.n, g.k, g.pixels);
  Whole one(dtype, direction == Direction::dgrad ? dy : x, random),
      two(dtype, direction == Direction::wgrad ? dy : w, random);
  const std::vector<double> acc = expected(direction, g, one, two);
  const std::int64_t m = direction == Direction::forward ? g.pixels[0] * g.pixels[1] * g.pixels[2]
                         : direction == Direction::dgrad ? g.image[0] * g.image[1] * g.image[2]
                                                         : g.k;
  const std::int64_t n = direction == Direction::forward ? g.k
                         : direction == Direction::dgrad ? g.c
                                                         : g.taps[0] * g.taps[1] * g.taps[2] * g.c / g.groups;
  const bool batched = direction != Direction::wgrad;
  std::vector<float> bias(static_cast<std::size_t>(std::max<std::int64_t>(n, 1)), 3), d(acc.size() + 1, -7);
  const std::vector<std::string> names = direction == Direction::forward ? std::vector<std::string>{"X", "W"}
                                         : direction == Direction::dgrad ? std::vector<std::string>{"dY", "W"}
                                                                         : std::vector<std::string>{"X", "dY"};
  const Target target = Target::cpu(static_cast<int>(random() % 2) + 1);
  const Plan plan = compile(problem, graph, target);
  const std::vector<Binding> bindings{
      {names[0], one.view()},
      {names[1], two.view()},
      {"bias", Tensor(bias.data(), f32, {n})},
      {"D", batched ? Tensor(d.data(), f32, {g.n, m, n}) : Tensor(d.data(), f32, {m, n})}};
  plan.bind(bindings).run();
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < acc.size(); ++i) wrong += static_cast<double>(d[i]) != acc[i] + 3;
  ASSERT_EQ(wrong, 0) << "rank " << rank << " direction " << static_cast<int>(direction) << ' ' << name(dtype) << ": "
                      << text_of(g);
  ASSERT_EQ(d.back(), -7);
  if (random() % 8 != 0) return;
  for (const Comparison& c : verify(plan, bindings)) EXPECT_LE(c.error_over_bound, 1) << text_of(g);
}

class Convolutions : public testing::TestWithParam<std::tuple<std::size_t, Direction>> {};

TEST_P(Convolutions, AreTheirDefinition) {
  const auto [rank, direction] = GetParam();
  std::mt19937_64 random(rank * 7 + static_cast<std::size_t>(direction));
  const Graph graph = parse("def f(acc, bias: row[f32]):\n    D: f32 = acc + bias\n    return D\n");
  for (int round = 0; round < 300; ++round) ASSERT_NO_FATAL_FAILURE(one_round(random, graph, direction, rank));
}

std::string name_of(const testing::TestParamInfo<Convolutions::ParamType>& info) {
  constexpr const char* names[] = {"forward", "dgrad", "wgrad"};
  return std::string(names[static_cast<int>(std::get<1>(info.param))]) + std::to_string(std::get<0>(info.param)) + "d";
}
INSTANTIATE_TEST_SUITE_P(All, Convolutions,
                         testing::Combine(testing::Values(1, 2, 3),
                                          testing::Values(Direction::forward, Direction::dgrad, Direction::wgrad)),
                         name_of);

}  // namespace
}  // namespace postlude_test
