// Convolutions of groups of few channels and filters on the CPU, which have a kernel along the filters of all groups:
// of every instruction set and type, to the bit on whole numbers, with nothing read behind the last pixel.
#include "core/convert.h"
#include "cpu/isa.h"
#include "plan/support.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

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

// Of a stride of (2, 1) and a padding of 1; its gradient by x as well.
void check(const Group& g, DType type, cpu::Isa isa, bool gradient, bool channels_last) {
  SCOPED_TRACE(testing::Message() << g.count << " groups of " << g.channels << ", " << g.filters << ' ' << name(type)
                                  << ' ' << name(isa) << (gradient ? " gradient" : "")
                                  << (channels_last ? " channels last" : ""));
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
      channels_last ? Tensor(filters.data, type, extents, filters_last) : Tensor(filters.data, type, extents);
  const std::vector<std::int64_t> out{images, m, n};
  const std::vector<Binding> bindings{{gradient ? "dY" : "X", Tensor(x.data, type, pixels, last)},
                                      {"W", weights},
                                      {"D", Tensor(d.data(), is_float(type) ? f32 : i32, out)}};
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
          check(g, type, isa, gradient, true);
          check(g, type, isa, gradient, false);
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
