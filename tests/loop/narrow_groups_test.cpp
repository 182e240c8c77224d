// Convolutions of groups of few channels and filters on the CPU, which have a kernel along the filters of all groups:
// of every instruction set and type, to the bit on whole numbers, with nothing read behind the last pixel.
#include "core/convert.h"
#include "cpu/isa.h"
#include "plan/support.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>

namespace postlude_test {
namespace {

// Small whole numbers that end at a page which nobody may touch.
class Guarded {
 public:
  Guarded(DType dtype, std::int64_t elements, std::mt19937_64& random) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const auto bytes = static_cast<std::size_t>(elements * size_of(dtype));
    bytes_ = (bytes + page - 1) / page * page + page;
    pages_ = static_cast<char*>(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(::mprotect(pages_ + bytes_ - page, page, PROT_NONE), 0);
    data = pages_ + bytes_ - page - bytes;
    for (std::int64_t i = 0; i < elements; ++i) {
      const std::int64_t small = static_cast<std::int64_t>(random() % 5) - (dtype == u8 ? 0 : 2);
      if (is_float(dtype)) core::store_real(dtype, data, i, static_cast<double>(small));
      else core::store_integer(dtype, data, i, small);
    }
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { ::munmap(pages_, bytes_); }

  char* data = nullptr;

 private:
  char* pages_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Group {
  std::int64_t count, channels, filters;
};
constexpr std::int64_t images = 2, height = 7, width = 5, taps = 3, out_height = 4, out_width = 5;

// How the channels of X (or dY) and of the filters lie, and whether an output's pixels lie together.
struct Lies {
  bool last = true, filters_last = true, planes_out = false;
};

// Of a stride of (2, 1) and a padding of 1; its gradient by x as well.
void check(const Group& g, DType type, cpu::Isa isa, bool gradient, const Lies& lies) {
  SCOPED_TRACE(testing::Message() << g.count << " groups of " << g.channels << ", " << g.filters << ' ' << name(type)
                                  << ' ' << name(isa) << (gradient ? " gradient" : "")
                                  << (lies.last ? " channels last" : "") << (lies.filters_last ? " filters last" : "")
                                  << (lies.planes_out ? " planes out" : ""));
  std::mt19937_64 random(static_cast<std::uint64_t>(g.count * 100 + g.channels * 10 + g.filters));
  const std::int64_t c = g.count * g.channels, k = g.count * g.filters;
  Target target = Target::cpu(1);
  target.isa = name(isa);
  const Graph graph =
      parse(std::string("def f(acc):\n    D: ") + (is_float(type) ? "f32" : "i32") + " = acc\n    return D\n");
  const Conv2d forward{
      .x = type, .w = type, .stride = {2, 1}, .padding = {{{1, 1}, {1, 1}}}, .groups = static_cast<int>(g.count)};
  const ConvDgrad2d backward{
      .dy = type, .w = type, .stride = {2, 1}, .padding = {{{1, 1}, {1, 1}}}, .groups = static_cast<int>(g.count)};
  const Plan plan = gradient ? compile(backward, graph, target) : compile(forward, graph, target);
  const std::int64_t h = gradient ? out_height : height, w = gradient ? out_width : width, of = gradient ? k : c,
                     n = gradient ? c : k, m = gradient ? height * width : out_height * out_width;
  const Guarded x(type, images * h * w * of, random), filters(type, k * g.channels * taps * taps, random);
  std::vector<std::int32_t> d(static_cast<std::size_t>(images * m * n));
  const std::vector<std::int64_t> last{h * w * of, 1, w * of, of};
  const std::vector<std::int64_t> extents{k, g.channels, taps, taps}, pixels{images, of, h, w};
  const std::vector<std::int64_t> filters_last{taps * taps * g.channels, 1, taps * g.channels, g.channels};
  const Tensor weights =
      lies.filters_last ? Tensor(filters.data, type, extents, filters_last) : Tensor(filters.data, type, extents);
  const std::vector<std::int64_t> out{images, m, n}, by_rows{m * n, n, 1}, by_planes{m * n, 1, m};
  const std::vector<Binding> bindings{
      {gradient ? "dY" : "X", lies.last ? Tensor(x.data, type, pixels, last) : Tensor(x.data, type, pixels)},
      {"W", weights},
      {"D", Tensor(d.data(), is_float(type) ? f32 : i32, out, lies.planes_out ? by_planes : by_rows)}};
  plan.bind(bindings).run();
  for (const Comparison& at : verify(plan, bindings))
    EXPECT_EQ(at.value, at.expected) << "at " << at.worst[0] << ", " << at.worst[1] << ", " << at.worst[2];
}

TEST(NarrowGroups, AreExactInEveryLane) {
  for (const Group& g : {Group{33, 1, 1},
                         {7, 1, 3},
                         {17, 2, 2},
                         {5, 4, 4},
                         {11, 3, 5},
                         {9, 5, 1},
                         {3, 8, 8},
                         {19, 1, 8},
                         {2, 7, 6},
                         {6, 8, 1},
                         {2, 1, 9}})
    for (const DType type : {f32, bf16, f16, e4m3, s8, u8})
      for (const cpu::Isa isa : {cpu::Isa::portable, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::amx})
        for (const bool gradient : {false, true}) {
          if (isa > cpu::machine_isa()) continue;
          check(g, type, isa, gradient, {});
          check(g, type, isa, gradient, {.filters_last = false});
          check(g, type, isa, gradient, {.last = false, .filters_last = gradient, .planes_out = type == f32});
        }
}

template <std::size_t Rank>
struct Image {
  Conv<Rank> conv;
  std::int64_t images, channels_of_group, filters_of_group;
  std::array<std::int32_t, Rank> extents, taps;
};

// The same sums of channels that lie together and of those that lie apart, of which strips of pixels are turned:
// several of them here, on each number of threads.
template <std::size_t Rank>
void turns(Image<Rank> of, DType type, int threads, cpu::Isa isa) {
  SCOPED_TRACE(testing::Message() << Rank << "d " << name(type) << " threads " << threads << ' ' << name(isa));
  std::int64_t pixels = 1, image = 1, taps = 1;
  for (std::size_t i = 0; i < Rank; ++i) {
    const std::int64_t reach = (of.taps[i] - 1) * of.conv.dilation[i] + 1,
                       around = of.conv.padding[i][0] + of.conv.padding[i][1];
    pixels *= (of.extents[i] + around - reach) / of.conv.stride[i] + 1;
    image *= of.extents[i], taps *= of.taps[i];
  }
  of.conv.x = of.conv.w = type;
  const std::int64_t channels = of.conv.groups * of.channels_of_group, filters = of.conv.groups * of.filters_of_group;
  std::mt19937_64 random(1);
  const Guarded apart(type, of.images * channels * image, random),
      w(type, filters * of.channels_of_group * taps, random);
  std::vector<char> together(static_cast<std::size_t>(of.images * channels * image * size_of(type)));
  for (std::int64_t b = 0; b < of.images; ++b)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t i = 0; i < image; ++i)
        std::memcpy(together.data() + ((b * image + i) * channels + c) * size_of(type),
                    apart.data + ((b * channels + c) * image + i) * size_of(type),
                    static_cast<std::size_t>(size_of(type)));
  std::vector<std::int64_t> shape{of.images, channels}, weights{filters, of.channels_of_group},
      last{image * channels, 1};
  for (std::size_t i = 0, inner = static_cast<std::size_t>(image); i < Rank; ++i) {
    shape.push_back(of.extents[i]), weights.push_back(of.taps[i]);
    inner /= static_cast<std::size_t>(of.extents[i]);
    last.push_back(static_cast<std::int64_t>(inner) * channels);
  }
  Target target = Target::cpu(threads);
  target.isa = name(isa);
  const Plan plan = compile(
      of.conv, parse(std::string("def f(acc):\n    D: ") + (is_float(type) ? "f32" : "i32") + " = acc\n    return D\n"),
      target);
  std::vector<std::int32_t> d[2];
  for (const bool turned : {false, true}) {
    d[turned].assign(static_cast<std::size_t>(of.images * pixels * filters), -1);
    Call call = plan.bind({{"X", turned ? Tensor(apart.data, type, shape) : Tensor(together.data(), type, shape, last)},
                           {"W", Tensor(w.data, type, weights)},
                           {"D", Tensor(d[turned].data(), is_float(type) ? f32 : i32, {of.images, pixels, filters})}});
    EXPECT_NE(call.describe().find("convolution"), std::string::npos) << call.describe();
    call.run();
  }
  EXPECT_EQ(d[0], d[1]);
}

TEST(NarrowGroups, AreTurnedInStrips) {
  const Image<1> line{{.padding = {{{3, 0}}}, .groups = 700}, 1, 1, 1, {300}, {4}};
  const Image<1> far{{.stride = {3}, .padding = {{{9, 70}}}, .dilation = {5}, .groups = 300}, 1, 2, 2, {700}, {7}};
  const Image<2> plane{
      {.stride = {2, 1}, .padding = {{{1, 2}, {3, 0}}}, .dilation = {1, 3}, .groups = 600}, 2, 1, 1, {20, 31}, {3, 2}};
  const Image<2> wide{{.padding = {{{1, 1}, {1, 1}}}, .groups = 90}, 1, 8, 2, {5, 120}, {3, 3}};
  const Image<2> outside{{.stride = {4, 4}, .padding = {{{8, 8}, {8, 8}}}, .groups = 33}, 3, 1, 3, {2, 3}, {2, 2}};
  const Image<3> space{
      {.stride = {1, 2, 1}, .padding = {{{1, 1}, {0, 0}, {1, 1}}}, .groups = 500}, 1, 1, 1, {9, 8, 7}, {2, 3, 3}};
  for (const cpu::Isa isa : {cpu::Isa::portable, cpu::Isa::avx2, cpu::Isa::avx512})
    for (const DType type : {f32, bf16, s8})
      for (const int threads : {1, 3}) {
        if (isa > cpu::machine_isa() || (type != f32 && threads == 1)) continue;
        turns(line, type, threads, isa);
        turns(far, type, threads, isa);
        turns(plane, type, threads, isa);
        turns(wide, type, threads, isa);
        turns(outside, type, threads, isa);
        turns(space, type, threads, isa);
      }
}

// A depthwise convolution's gradient by its filters, of channels of X and dY that lie together or apart.
void check_filters(std::int64_t channels, std::int64_t h, std::int64_t w, std::int32_t taps, DType type, int threads,
                   cpu::Isa isa, bool last, bool last_dy) {
  SCOPED_TRACE(testing::Message() << channels << " channels " << name(type) << ' ' << name(isa) << " threads "
                                  << threads << (last ? " last" : "") << (last_dy ? " dY last" : ""));
  std::mt19937_64 random(static_cast<std::uint64_t>(channels));
  const std::int64_t p = (h + 1 - taps) / 2 + 1, q = w + 3 - taps + 1;
  const Guarded x(type, 2 * channels * h * w, random), dy(type, 2 * channels * p * q, random);
  Target target = Target::cpu(threads);
  target.isa = name(isa);
  const Plan plan = compile(ConvWgrad2d{.x = type,
                                        .dy = type,
                                        .filter = {taps, taps},
                                        .stride = {2, 1},
                                        .padding = {{{1, 0}, {2, 1}}},
                                        .groups = static_cast<int>(channels)},
                            parse("def f(acc):\n    D: f32 = acc\n    return D\n"), target);
  const auto image = [&](const Guarded& of, std::int64_t rows, std::int64_t columns, bool together) {
    const std::vector<std::int64_t> shape{2, channels, rows, columns},
        strides{rows * columns * channels, 1, columns * channels, channels};
    return together ? Tensor(of.data, type, shape, strides) : Tensor(of.data, type, shape);
  };
  std::vector<float> d(static_cast<std::size_t>(channels * taps * taps), -1);
  const std::vector<Binding> bindings{{"X", image(x, h, w, last)},
                                      {"dY", image(dy, p, q, last_dy)},
                                      {"D", Tensor(d.data(), f32, {channels, std::int64_t{taps} * taps})}};
  Call call = plan.bind(bindings);
  EXPECT_NE(call.describe().find("gradient by its filters"), std::string::npos) << call.describe();
  call.run();
  for (const Comparison& at : verify(plan, bindings))
    EXPECT_EQ(at.value, at.expected) << "at " << at.worst[1] << ", " << at.worst[2];
}

TEST(NarrowGroups, HaveGradientsByTheirFilters) {
  for (const cpu::Isa isa : {cpu::Isa::portable, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::amx})
    for (const DType type : {f32, bf16, f16, e4m3})
      for (const bool last : {false, true})
        for (const bool last_dy : {false, true}) {
          if (isa > cpu::machine_isa()) continue;
          check_filters(33, 7, 5, 3, type, 3, isa, last, last_dy);
          check_filters(2, 9, 30, 2, type, 1, isa, last, last_dy);
          if (type != f32 || last != last_dy) continue;
          check_filters(40, 9, 8, 5, type, 2, isa, last, last_dy);
          check_filters(600, 9, 31, 2, type, 1, isa, last, last_dy);
        }
}

TEST(NarrowGroups, AreToldByExplain) {
  const Plan plan =
      compile(Conv2d{.groups = 16}, parse("def f(acc):\n    D: f32 = acc\n    return D\n"), Target::cpu(1));
  const std::string narrow = plan.explain(ExplainPart::schedule, {{1, 64, 5, 5}, {64, 4, 1, 1}});
  EXPECT_NE(narrow.find("a convolution of narrow groups"), std::string::npos);
  EXPECT_EQ(narrow.find("K by"), std::string::npos) << narrow;
  // Sums of more 8-bit products may be more than f32 holds.
  for (const std::int64_t taps : {16, 17}) {
    const Plan bytes = compile(Conv2d{.x = u8, .w = u8, .groups = 64},
                               parse("def f(acc):\n    D: i32 = acc\n    return D\n"), Target::cpu(1));
    const std::string text = bytes.explain(ExplainPart::schedule, {{1, 64, 20, 20}, {64, 1, taps, taps}});
    EXPECT_EQ(text.find("a depthwise convolution") != std::string::npos, taps == 16) << text;
  }
}

}  // namespace
}  // namespace postlude_test
